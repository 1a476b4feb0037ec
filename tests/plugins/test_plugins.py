"""How the tests are run: groups, one chapter, what is left out and told, nothing inherited from make."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT
from tests.plugins.groups import group_of, when

COSTLY = """
import pytest

@pytest.mark.exhaustive("a long story")
@pytest.mark.parametrize("n", [1, 2])
def test_costly(n): ...

@pytest.mark.parametrize("chapter", ["03_gather_scatter", "06_hooks"])
def test_one(chapter): ...

@pytest.mark.skip(reason="needs a whale")
@pytest.mark.parametrize("n", [1, 2])
def test_skipped(n): ...

@pytest.mark.skip(reason="needs a whale")
def test_another(): ...
"""
WITHOUT_SHIPS = 'import pytest\n\npytest.importorskip("ships", reason="needs a ship:\\n  make ship")\n'


def test_nothing_of_make_is_inherited():
    assert not {"ARGS", "MAKEFLAGS", "MAKELEVEL"} & set(os.environ)


@pytest.mark.parametrize(
    "test, group",
    [
        ("tests/facts/test_facts.py::test_proof[03-gather-sample]", "tests/facts/test_facts.py, chapter 03"),
        ("tests/notebooks/test_gates.py::test_x[03_gather_scatter]", "tests/notebooks/test_gates.py, chapter 03"),
        (
            "tests/notebooks/test_answers.py::test_x[03_gather_scatter-one-hot]",
            "tests/notebooks/test_answers.py, chapter 03",
        ),
        (
            "solutions/03_gather_scatter/gather_scatter.ipynb::Cell 3",
            "solutions/03_gather_scatter/gather_scatter.ipynb",
        ),
        ("tests/browser/test_chapters.py::test_x[03_gather_scatter]", "tests/browser"),
        ("tests/tools/site/test_site.py::test_x", "tests/tools/site"),
        ("tests/test_hardware.py::test_x[1000-a]", "tests/test_hardware.py"),
    ],
)
def test_groups(test: str, group: str):
    assert group_of(test) == group


def test_long_groups_begin_first():
    tests = [
        "tests/test_hardware.py::test_x",
        "tests/notebooks/test_answers.py::test_x[03-one-hot-right-loops]",
        "solutions/12_language_model/language_model.ipynb::Cell 3",
        "tests/notebooks/test_answers.py::test_x[12_language_model-train-it]",
        "tests/tools/test_names.py::test_x",
        "tests/browser/test_chapters.py::test_x[03_gather_scatter]",
    ]
    assert sorted(tests, key=when) == [tests[place] for place in (5, 3, 1, 2, 4, 0)]


def run(folder: Path, *options: str) -> str:
    """What pytest prints for a file of costly, skipped and ordinary tests."""
    (folder / "test_costly.py").write_text(COSTLY, encoding="utf-8")
    (folder / "test_ships.py").write_text(WITHOUT_SHIPS, encoding="utf-8")
    plugins = [part for name in ("selection", "groups", "progress") for part in ("-p", f"tests.plugins.{name}")]
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", f"--rootdir={folder}", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ).stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_is_left_out_is_told(tmp_path: Path, workers: str):
    told = run(tmp_path, "-n", workers, "--by-group", "--extent=sample")
    assert "2 left out (make test-all runs them)\n     2 × a long story\n" in told
    assert "test_costly.py, chapter 06: 1 passed, 0 s" in told
    assert "2 passed, " in told
    everything = run(tmp_path, "-n", workers)
    assert "4 passed, " in everything and "left out" not in everything


@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_reason_for_skipping_is_told_in_one_line(tmp_path: Path, workers: str):
    """With pytest's own options of this course."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    told = run(tmp_path, "-n", workers, *(one for one in options["addopts"].split() if one.startswith("-r")))
    assert "4 skipped\n     3 × needs a whale\n     1 × needs a ship: make ship\n" in told
    assert told.count("needs a whale") == told.count("needs a ship") == 1


def test_one_chapter(tmp_path: Path):
    assert "1 passed, 1 skipped, 6 deselected" in run(tmp_path, "--chapter", "06")
    told = run(tmp_path, "--chapter", "66")
    assert "ERROR: There is no chapter '66'" in told and "Traceback" not in told
