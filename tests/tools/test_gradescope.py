"""The autograder for Gradescope, run in a root that looks like its containers, with a sandbox in it and without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import ROOT
from tests.tools.grading import classroom
from tests.tools.grading.classroom import hand_in
from tests.tools.grading.test_command import RIGHT
from torchkata import cli
from torchkata.tools.errors import CourseError

BWRAP = shutil.which("bwrap")
needs_bubblewrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed: apt-get install bubblewrap")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/autograder with the unpacked zip file and a submission, as in a container of Gradescope's after setup.sh."""
    place = tmp_path_factory.mktemp("gradescope")
    (place / "class").mkdir()
    chapter = classroom.course(place / "class")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place / "class")
        result = CliRunner().invoke(cli.app, ["course", str(place / "made"), "--gradescope", "98"])
    assert result.exit_code == 0 and "keep it to yourself" in result.output, result.output
    autograder = place / "autograder"
    with zipfile.ZipFile(place / "made.zip") as archive:
        archive.extractall(autograder / "source")
    for folder in ("submission", "results", "venv/bin"):
        (autograder / folder).mkdir(parents=True)
    shutil.copy(
        hand_in(chapter, "ada", **RIGHT | {"twice": "def twice(x): return 2 * abs(x)"}), autograder / "submission"
    )
    python = autograder / "venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in (python, autograder / "source/run_autograder"):
        program.chmod(0o755)  # as Gradescope does
    return autograder


def run(autograder: Path, *options: str) -> tuple[str, dict]:
    """What run_autograder prints in a root with nothing but the system, this Python and /autograder; its results."""
    words = [str(BWRAP), "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-pid", "--clearenv"]
    for name in ("bin", "sbin", "lib", "lib64"):
        path = Path("/", name)
        words += ["--symlink", os.readlink(path), str(path)] if path.is_symlink() else ["--ro-bind-try", path, path]
    pythons = {str(Path(prefix).resolve()) for prefix in (sys.prefix, sys.base_prefix)}
    for path in ("/usr", "/etc", *sorted(one for one in pythons if not one.startswith("/usr"))):
        words += ["--ro-bind", path, path]
    words += ["--bind", str(autograder), "/autograder", "--setenv", "PATH", "/usr/bin:/bin", "--chdir", "/autograder"]
    done = subprocess.run([*words, *options, "/autograder/source/run_autograder"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((autograder / "results/results.json").read_text())


@needs_bubblewrap
@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="in Gradescope's containers everything runs as root")
def test_with_a_sandbox_inside(made: Path):
    told, results = run(made, "--cap-add", "ALL")
    assert "No sandbox" not in told and results["score"] == 4.0
    assert [test["score"] for test in results["tests"][:3]] == [0, 3, 1]
    assert "hidden test: a negative number" in results["tests"][0]["output"]
    assert "Without the sandbox" not in json.dumps(results)


@needs_bubblewrap
def test_without_one_it_is_graded_and_the_teacher_is_told(made: Path):
    told, results = run(made, "--ro-bind", "/dev/null", str(Path(str(BWRAP)).resolve()))
    assert told.startswith("No sandbox in this container: ") and results["score"] == 4.0
    *others, teachers = results["tests"]
    assert (
        teachers["visibility"] == "hidden" and "Without the sandbox a submission has your rights" in teachers["output"]
    )
    assert {one["visibility"] for one in others} == {"visible"}


def test_what_is_in_it(made: Path):
    source = made / "source"
    assert sorted(path.name for path in source.iterdir()) == sorted(
        ["class", "package", "requirements.txt", "run_autograder", "setup.sh"]
    )
    files = {path.relative_to(source / "class").as_posix() for path in (source / "class").rglob("*") if path.is_file()}
    assert files == {"nbgrader_config.py", "notebooks/98_things/things.ipynb", "solutions/98_things/things.ipynb"}
    assert not list(source.rglob("__pycache__")) and str(ROOT) not in (source / "run_autograder").read_text()
    with zipfile.ZipFile(made.parent / "made.zip") as archive:
        modes = {name: archive.getinfo(name).external_attr >> 16 & 0o777 for name in ("setup.sh", "run_autograder")}
    assert set(modes.values()) == {0o755}
    for script in modes:
        subprocess.run(["bash", "-n", source / script], check=True)


def test_the_versions_are_those_that_are_installed_here(made: Path):
    pins = dict(line.split("==") for line in (made / "source/requirements.txt").read_text().splitlines())
    assert pins == {name: version(name).partition("+")[0] for name in pins}
    assert set(pins) >= {"torch", "nbgrader", "pyseccomp"} and not {"jupyterlab", "pytest"} & set(pins)


def test_it_writes_over_nothing(tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").touch()
    (tmp_path / "new.zip").touch()
    for name, words in (("full", "holds other things already"), ("new", "new.zip is there already")):
        result = CliRunner().invoke(cli.app, ["course", str(tmp_path / name), "--gradescope", "03"])
        assert isinstance(result.exception, CourseError) and words in str(result.exception)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "new.zip", "notes.txt"]
