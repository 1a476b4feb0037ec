"""`pip install torchkata` is the course: from an empty folder to a graded submission, without a checkout."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest

from tests import ROOT
from tests.installing.package import Installed, build, install, source_tree, unpacked
from tests.tools.learning.lab_server import lab_server
from torchkata.tools.course import chapters
from torchkata.tools.placing import here

CHAPTER = "03_gather_scatter"
FILE = "gather_scatter.ipynb"
pytestmark = pytest.mark.exhaustive("the built package in an environment of its own", thorough=True)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    return build("sdist", source_tree(folder / "tree"), folder / "dist")


@pytest.fixture(scope="module")
def tree(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as installers do where there is no wheel."""
    return build("wheel", tree, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture(scope="module")
def empty(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the workbook was made."""
    folder = tmp_path_factory.mktemp("empty")
    told = installed.run("workbook", cwd=folder)
    assert told.returncode == 0, told.stderr
    assert f"New in your workbook: {CHAPTER}" in told.stdout
    assert f"Your workbook: {folder / 'torchkata'}" in told.stdout
    return folder


def answered(place: Path) -> None:
    """Put the author's answers into a learner's notebook."""
    solution = nbformat.read(ROOT / "solutions" / CHAPTER / FILE, as_version=4)
    sources = {cell.metadata.nbgrader.grade_id: cell.source for cell in solution.cells if "nbgrader" in cell.metadata}
    notebook = nbformat.read(place, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = sources[cell.metadata.nbgrader.grade_id]
    nbformat.write(notebook, place)


# ---------------------------------------------------------------- the archives


def files_in(folder: Path, *patterns: str) -> set[str]:
    found = {path.relative_to(folder).as_posix() for pattern in patterns for path in folder.glob(pattern)}
    return {name for name in found if "__pycache__" not in name and ".ipynb_checkpoints" not in name}


def test_the_wheel_holds_package_and_course_and_nothing_else(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    course = {name.removeprefix("torchkata/course/") for name in names if name.startswith("torchkata/course/")}
    assert course == files_in(ROOT, "notebooks/*/*.ipynb", "solutions/**/*.py", "solutions/*/*.ipynb") | {
        *("nbgrader_config.py", "docs/plans.md", "docs/notes.md")
    }
    code = {f"torchkata/{name}" for name in files_in(ROOT / "src" / "torchkata", "**/*.*") if name != "py.typed"}
    others = {name for name in names if not name.startswith("torchkata/course/") and ".dist-info/" not in name}
    assert others == code


def test_the_sdist_holds_what_its_tests_need(sdist: Path, tree: Path):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = files_in(ROOT, "tests/**/*.py", "tests/**/*.json", "tests/**/*.txt", "notebooks/**/*.ipynb")
    wanted |= files_in(ROOT, "solutions/**/*.*", "src/torchkata/**/*.*", ".github/**/*.*", "docs/**/*.*")
    wanted |= {"conftest.py", "Makefile", "pyproject.toml", "requirements.lock", "requirements-lab.lock", ".ci/run"}
    assert wanted <= names
    assert not [name for name in names if re.search(r"^(workbook|\.venv|\.git|build)/|\.pyc$|_cache/", name)]


# ---------------------------------------------------------------- learning


def test_lab_answers_in_the_workbook(installed: Installed, empty: Path, tmp_path: Path):
    command = [str(installed.torchkata), "lab"]
    environment = {**installed.environment, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    with lab_server(empty, tmp_path, lambda options: [*command, *options], **environment) as server:
        listed = {entry["name"] for entry in json.loads(server.ask("api/contents"))["content"]}
        assert {"start.ipynb", "gallery.ipynb", CHAPTER} <= listed
        start = json.loads(server.ask("api/contents/start.ipynb"))["content"]["cells"]
        assert f"In all 0 of {20 * len(chapters(here()))} points" in "".join(cell["source"] for cell in start)
        page = server.ask("lab")
        assert "jupyter-config-data" in page


def test_check_update_and_solution_in_the_workbook(installed: Installed, empty: Path, tmp_path: Path):
    workbook = Path(shutil.copytree(empty / "torchkata", tmp_path / "kata"))
    place = workbook / CHAPTER / FILE
    told = installed.run("solution", "one-hot-scatter", cwd=workbook / CHAPTER)
    assert told.returncode == 2 and "is not solved yet" in told.stderr
    answered(place)
    told = installed.run("check", "03", cwd=workbook / CHAPTER)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "20 of 20" in told.stdout
    told = installed.run("solution", "one-hot-scatter", cwd=workbook)
    assert told.returncode == 0 and "def soft_targets" in told.stdout

    origin = workbook / ".torchkata" / "releases" / f"{CHAPTER}.ipynb"  # as if an older release had been copied
    origin.write_text(origin.read_text(encoding="utf-8").replace("Gather and scatter", "Gather"), encoding="utf-8")
    told = installed.run("update", cwd=workbook)
    assert told.returncode == 0, told.stderr
    assert f"{CHAPTER}: updated. Answers carried over: 8" in told.stdout
    assert "The other " in told.stdout and "02_tensors_views" not in told.stdout
    told = installed.run("doctor", cwd=workbook)
    assert "The course can run here." in told.stdout, told.stdout


def test_a_check_cell_runs_the_hidden_tests(installed: Installed, empty: Path):
    script = "from torchkata.verdicts.at_hand import own_check as o; print(o('one-hot-scatter', 'edited').exercise)"
    told = installed.run_python("-c", script, cwd=empty / "torchkata" / CHAPTER)
    assert "HIDDEN TESTS" in told.stdout, told.stderr
    elsewhere = installed.run_python("-c", script, cwd=empty)
    assert "'NoneType' object has no attribute 'exercise'" in elsewhere.stderr


def test_facts_need_no_folder(installed: Installed, tmp_path: Path):
    told = installed.run("facts", "--id", "03-gather-index-formula", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("check", "03"), ("update",), ("reset", "3.1"), ("solution", "3.1")])
def test_without_a_workbook_it_is_said(installed: Installed, tmp_path: Path, command: tuple[str, ...]):
    told = installed.run(*command, cwd=tmp_path)
    assert told.returncode == 2
    assert "There is no workbook here." in told.stderr and "torchkata lab" in told.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("grade", "03"), ("build",), ("new", "exercise", "03", "my-own")])
def test_what_writes_into_a_course_leaves_the_package_alone(installed: Installed, tmp_path: Path, command):
    told = installed.run(*command, cwd=tmp_path)
    assert told.returncode == 2
    assert "Change to it and try again." in told.stderr, told.stderr


def test_without_jupyterlab_it_is_said_and_nothing_is_made(installed: Installed, tmp_path: Path):
    (tmp_path / "hide").mkdir()
    hide = (
        "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'jupyterlab' else f(n)"
    )
    (tmp_path / "hide" / "sitecustomize.py").write_text(hide, encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    told = installed.run("lab", cwd=folder, PYTHONPATH=str(tmp_path / "hide"))
    assert told.returncode == 2
    assert "pip install 'torchkata[lab]'" in told.stderr and len(told.stderr.splitlines()) == 1
    assert not list(folder.iterdir())


# ---------------------------------------------------------------- a class


@pytest.fixture(scope="module")
def classroom(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    told = installed.run("course", "class", cwd=folder)
    assert told.returncode == 0, told.stderr
    return folder / "class"


def test_a_class_folder_holds_the_course(classroom: Path):
    assert {path.name for path in classroom.iterdir()} == {
        *("notebooks", "solutions", "nbgrader_config.py", "class.yaml", "README.md", "docs")
    }
    for kind in ("notebooks", "solutions"):
        assert (classroom / kind / CHAPTER / FILE).read_bytes() == (ROOT / kind / CHAPTER / FILE).read_bytes()
    for page in ("plans.md", "notes.md"):
        assert (classroom / "docs" / page).read_bytes() == (ROOT / "docs" / page).read_bytes()
    readme = (classroom / "README.md").read_text(encoding="utf-8")
    assert "torchkata grade 03" in readme and "VERSION" not in readme


def test_a_submission_is_graded_in_it(installed: Installed, classroom: Path):
    """Without the sandbox, which would not show the borrowed packages."""
    place = classroom / "submitted" / "ada" / CHAPTER / FILE
    place.parent.mkdir(parents=True)
    shutil.copy(classroom / "notebooks" / CHAPTER / FILE, place)
    answered(place)
    told = installed.run("grade", "03", "--no-sandbox", cwd=classroom)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 graded (1 now" in told.stdout
    marks = (classroom / "graded" / CHAPTER / "marks.csv").read_text(encoding="utf-8")
    assert marks.count(",solved,solved,no") == 8, marks


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap")
def test_in_the_sandbox_the_packages_solutions_are_not_to_be_seen(installed: Installed, tmp_path: Path):
    look = (
        "import os; from torchkata.base.places import PACKED; from pathlib import Path; "
        "print(sorted(os.listdir(PACKED)));"
        "(PACKED / 'left').touch()"
    )
    script = (
        "import subprocess, sys; from torchkata.tools.grading.sandbox.bubblewrap import command;"
        f"done = subprocess.run(command([sys.executable, '-c', {look!r}]), capture_output=True, text=True);"
        "print(done.stdout + done.stderr)"
    )
    told = installed.run_python("-c", script, cwd=tmp_path)
    assert told.stdout.startswith("[]\n"), told.stdout + told.stderr
    assert "Read-only file system" in told.stdout


def test_nbgrader_releases_in_it(installed: Installed, classroom: Path):
    release = classroom / "notebooks" / CHAPTER / FILE
    before = release.read_bytes()
    release.unlink()
    told = installed.run_python("-m", "nbgrader", "generate_assignment", "--force", CHAPTER, cwd=classroom)
    assert told.returncode == 0, told.stderr
    assert release.read_bytes() == before
