"""How the tests are run: groups, one chapter, what is left out and told, nothing inherited from make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.plugins.groups import group_of

COSTLY = """
import pytest

@pytest.mark.exhaustive("a long story")
@pytest.mark.parametrize("n", [1, 2])
def test_costly(n): ...

@pytest.mark.parametrize("chapter", ["03_gather_scatter", "06_hooks"])
def test_one(chapter): ...

@pytest.mark.skip(reason="needs a whale")
def test_skipped(): ...
"""


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
        ("tests/test_hardware.py::test_x[1000-a]", "tests/test_hardware.py"),
    ],
)
def test_groups(test: str, group: str):
    assert group_of(test) == group


def run(folder: Path, *options: str) -> str:
    """What pytest prints for a file of costly, skipped and ordinary tests."""
    (folder / "test_costly.py").write_text(COSTLY, encoding="utf-8")
    plugins = [part for name in ("selection", "groups", "progress") for part in ("-p", f"tests.plugins.{name}")]
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", f"--rootdir={folder}", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ).stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_is_left_out_is_told(tmp_path: Path, workers: str):
    told = run(tmp_path, "-n", workers, "--by-group", "--extent=sample")
    assert "2 left out (make test-all runs them): 2 × a long story" in told
    assert "1 skipped: 1 × needs a whale" in told
    assert "test_costly.py, chapter 06: 1 passed, 0 s" in told
    assert "2 passed, 1 skipped" in told
    everything = run(tmp_path, "-n", workers)
    assert "4 passed, 1 skipped" in everything and "left out" not in everything


def test_one_chapter(tmp_path: Path):
    assert "1 passed, 4 deselected" in run(tmp_path, "--chapter", "06")
    told = run(tmp_path, "--chapter", "66")
    assert "ERROR: There is no chapter '66'" in told and "Traceback" not in told
