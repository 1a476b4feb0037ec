"""What takes seconds to load is loaded only where it is needed."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests import ROOT
from torchkata import __version__
from torchkata.cli import app

SLOW = ("torch", "lark", "arrow", "matplotlib")


COMMAND = "from torchkata.cli import main\ntry: main()\nexcept SystemExit: pass\n"


def loaded_by(statements: str, before: str = "") -> set[str]:
    """Which of the slow modules a fresh process has loaded after these statements."""
    code = f"{before}{statements}; import sys; print(*[name for name in {SLOW} if name in sys.modules])"
    command = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "statements",
    [
        "pass",
        "import nbformat",
        "import torchkata.tools.learning.checking, torchkata.tools.learning.progress",
        "from torchkata.tools.course_config import course_config; from pathlib import Path; course_config(Path())",
    ],
)
def test_a_command_starts_without(statements):
    assert loaded_by(statements, before=COMMAND) == set()


@pytest.mark.parametrize(
    "statements",
    [
        "import torchkata.cli",
        "import torchkata.tools.learning.review_page",
        "from torchkata.tools import course; assert course.chapters(course.here())[0].exercises",
    ],
)
def test_nothing_slow_comes_with_what_is_imported_elsewhere(statements):
    assert loaded_by(statements) == set()


def test_a_process_that_runs_the_script_once_more_loads_no_command():
    """As those of multiprocessing do, on behalf of the command's script and of python -m torchkata."""
    code = "import torchkata.__main__, sys; print('typer' in sys.modules, 'torchkata.cli' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"


def test_what_is_slow_is_noticed():
    assert "torch" in loaded_by("import torch")
    assert "arrow" in loaded_by("import nbformat")


def test_the_version_and_the_groups_of_commands():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"torchkata {__version__}\n"
    told = CliRunner().invoke(app, ["--help"]).stdout
    _, *groups = re.split(r"For (learners|teachers|authors)", told)
    texts = zip(groups[::2], groups[1::2], strict=True)
    found = {name: set(re.findall(r"^│ (\w+)  ", text, re.M)) for name, text in texts}
    assert found["learners"] >= {"lab", "check", "solution", "reset", "report", "update"}
    assert "grade" in found["teachers"] and "build" in found["authors"]
