"""What `make lab` installs is enough: learning works where everything else is missing."""

import ast
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT
from tests.tools.learning.lab_server import run
from torchkata.facts import chapter_names
from torchkata.facts.collection import load

PACKAGE = ROOT / "src" / "torchkata"
CHAPTER = "03_gather_scatter"
AT_HAND = {"torchkata", "pip"}  # in every environment
# put before everything else in a process, and in those that it starts: packages outside the small set are not found
SHIM = """
import sys
from importlib.machinery import PathFinder

MISSING = frozenset({missing!r})

class SmallSet(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else super().find_spec(name, path, target)

sys.meta_path[:] = [SmallSet if finder is PathFinder else finder for finder in sys.meta_path]
"""


@cache
def provided():
    """By each name that can be imported here: the packages that provide it, in normal form."""
    return {name: {*map(canonicalize_name, packages)} for name, packages in metadata.packages_distributions().items()}


@cache
def small_set():
    """The names of the packages that `make lab` installs."""
    lines = (ROOT / "requirements-lab.lock").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(Requirement(line).name) for line in lines if not line.startswith("#")}


def missing_names():
    """What can be imported here and not in an environment with the small set."""
    there = small_set() | AT_HAND | brought_by_torch()
    return sorted(name for name, packages in provided().items() if not packages & there)


def brought_by_torch():
    """A CUDA build of torch brings packages that no lock file names."""
    packages = set().union(*provided().values())
    return {name for name in packages if name.startswith(("nvidia-", "cuda-", "triton"))}


# ---------------------------------------------------------------- by running it


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The environment variables of a process that finds nothing outside the small set."""
    folder = tmp_path_factory.mktemp("shim")
    (folder / "sitecustomize.py").write_text(SHIM.format(missing=missing_names()), encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))}


@pytest.fixture(scope="module")
def course(tmp_path_factory, small):
    """A course with one chapter, which `torchkata lab` has put into the workbook."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "notebooks" / CHAPTER, folder / "notebooks" / CHAPTER)
    told = run("lab", "--version", cwd=folder, **small)
    assert told.returncode == 0, told.stderr
    assert f"New in your workbook: {CHAPTER}" in told.stdout
    return folder


def test_the_rest_is_really_missing(small):
    names = ["torch", "jupyterlab", "torchkata", "nbgrader", "jupytext", "sqlalchemy", "pytest", "distributed"]
    script = f"import importlib.util; print([n for n in {names} if importlib.util.find_spec(n)])"
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, env={**os.environ, **small}, capture_output=True, text=True, check=True)
    assert told.stdout == "['torch', 'jupyterlab', 'torchkata']\n"


def test_doctor(course, small):
    told = run("doctor", cwd=course, **small)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "The course can run here." in told.stdout


def test_check(course, small):
    told = run("check", "03", cwd=course, **small)
    assert told.returncode == 1, told.stderr
    assert "not solved yet" in told.stdout
    assert "0 of 20" in told.stdout


def test_update(course, small):
    release = course / "notebooks" / CHAPTER / "gather_scatter.ipynb"
    notebook = nbformat.read(release, as_version=4)
    notebook.cells[0].source += "\n\nA sentence of the newer release."
    nbformat.write(notebook, release)
    told = run("update", "03", cwd=course, **small)
    assert told.returncode == 0, told.stdout + told.stderr
    copy = course / "workbook" / CHAPTER / "gather_scatter.ipynb"
    assert "A sentence of the newer release." in copy.read_text(encoding="utf-8")


def test_reset_and_solution(course, small):
    assert run("reset", "one-hot-scatter", cwd=course, **small).returncode == 0
    told = run("solution", "one-hot-scatter", cwd=course, **small)
    assert told.returncode == 2
    assert "Traceback" not in told.stderr


def test_facts(course, small):
    told = run("facts", "--id", "03-gather-index-formula", cwd=course, **small)
    assert told.returncode == 0, told.stdout + told.stderr


def test_lab_starts_and_a_kernel_runs_a_chapter(course, small, tmp_path):
    visit = [sys.executable, "-m", "tests.tools.learning.lab_visit", str(course), CHAPTER, str(tmp_path)]
    told = subprocess.run(
        [*visit, "import nbgrader"], cwd=ROOT, env={**os.environ, **small}, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["errors"] == ["ModuleNotFoundError: No module named 'nbgrader'"]
    assert found["ran"] > 3


# ---------------------------------------------------------------- by reading it


def imported(tree):
    """The full names of the modules that a syntax tree imports, at its top and within functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def foreign(tree):
    """The packages that a syntax tree imports and that are neither Python's nor in the small set."""
    names = {name.partition(".")[0] for name in imported(tree)} - sys.stdlib_module_names - {"torchkata"}
    return sorted(name for name in names if not provided().get(name, set()) & small_set())


def learning_modules():
    """Every module that learning can come to import: the runtime, the room for learning, and what those import. (doctor
    looks at the sandbox for grading only where that is installed.)"""
    tools = PACKAGE / "tools"
    todo = [path for path in PACKAGE.rglob("*.py") if tools not in path.parents and path not in OUTSIDE]
    todo += [*(tools / "learning").glob("*.py"), tools / "course.py", tools / "doctor.py", tools / "proofs.py"]
    found = {}
    while todo:
        path = todo.pop()
        if path in found or tools / "grading" in path.parents:
            continue
        found[path] = ast.parse(path.read_text(encoding="utf-8"))
        for name in imported(found[path]):
            place = ROOT / "src" / Path(*name.split("."))
            todo += [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    return found


OUTSIDE = {PACKAGE / "__main__.py", *(PACKAGE / "cli").glob("*.py")}  # they import each tool where its command needs it


def test_learning_imports_only_the_small_set():
    found = {path.relative_to(PACKAGE).as_posix(): tree for path, tree in learning_modules().items()}
    assert {"tools/course.py", "tools/learning/lab.py", "verdicts/check.py", "pictures/show.py"} <= set(found)
    assert not {"tools/source.py", "tools/build.py", "tools/release.py"} & set(found)
    assert {module: names for module, tree in found.items() if (names := foreign(tree))} == {}


@pytest.mark.parametrize("source", sorted((PACKAGE / "cli").glob("*.py")), ids=lambda path: path.stem)
def test_the_command_itself_imports_only_the_small_set(source):
    assert foreign(ast.parse(source.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("source", sorted((ROOT / "solutions").glob("*/*.py")), ids=lambda path: path.stem)
def test_notebooks_import_only_the_small_set(source):
    assert foreign(ast.parse(source.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("chapter", chapter_names())
def test_proofs_import_only_the_small_set(chapter):
    for fact in load(chapter):
        if not set(foreign(ast.parse(fact.proof))) <= set(fact.needs):
            pytest.fail(f"{fact.id} imports {foreign(ast.parse(fact.proof))}")


@pytest.mark.parametrize("line", ["import nbgrader", "from jupytext import read", "def f():\n import sqlalchemy.orm"])
def test_an_import_from_outside_is_noticed(line):
    assert foreign(ast.parse(line)) != []
    assert foreign(ast.parse("import json, torch.nn, yaml, torchkata.verdicts\nfrom PIL import Image")) == []
