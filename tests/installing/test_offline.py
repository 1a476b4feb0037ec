"""The course with the network cut off: everything that learning needs is on the machine."""

import json
import shutil
import subprocess
import sys

import pytest

from tests import ROOT
from tests.tools.learning.lab_server import run

CHAPTER = "03_gather_scatter"
BWRAP = shutil.which("bwrap")
OFFLINE = [BWRAP, "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent", sys.executable]

# bubblewrap cuts the network off
pytestmark = pytest.mark.skipif(BWRAP is None, reason="needs bubblewrap: apt-get install bubblewrap")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course as a learner has it, with one chapter in the workbook."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "notebooks" / CHAPTER, folder / "notebooks" / CHAPTER)
    assert run("lab", "--version", cwd=folder).returncode == 0
    return folder


def offline(*arguments, cwd):
    return subprocess.run([*OFFLINE, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


def test_the_network_is_cut_off(tmp_path):
    script = (
        "import socket; print([name for _, name in socket.if_nameindex()]); socket.create_connection(('192.0.2.1', 80))"
    )
    result = offline("-c", script, cwd=tmp_path)
    assert result.stdout == "['lo']\n"
    assert "Network is unreachable" in result.stderr


def test_lab_starts_and_a_kernel_runs_a_chapter(course, tmp_path):
    result = offline("-m", "tests.tools.learning.lab_visit", str(course), CHAPTER, str(tmp_path), "1 / 0", cwd=ROOT)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["errors"] == ["ZeroDivisionError: division by zero"]
    assert found["ran"] > 3
    assert found["page"] > 1000
    assert found["hosts"] == []


def test_check_works(course):
    result = offline("-m", "torchkata", "check", "03", cwd=course)
    assert result.returncode == 1, result.stderr
    assert "not solved yet" in result.stdout
    assert "0 of 20" in result.stdout
