"""What is loaded before the first submission: all that a chapter's answers and checks load, and nothing that takes
long and that they don't."""

from __future__ import annotations

import builtins
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.fresh_process import said_by
from torchkata.tools.course import Chapter, find_chapters
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.lazy_compiler import COMPILER
from torchkata.tools.grading.master import MasterChapter
from torchkata.tools.grading.practice import practise
from torchkata.tools.grading.records import Record, Submission, SubmittedCell
from torchkata.tools.grading.referee import grade
from torchkata.tools.grading.released import read_release
from torchkata.tools.grading.sandbox import Sandbox

WITHOUT = ["02_tensors_views", "03_gather_scatter", "04_autograd", "06_hooks", "08_amp"]
others = pytest.mark.exhaustive("a further chapter without the compiler", thorough=True)
FORKED_FROM = ("referee", "zygote", "practice")  # modules of those processes
FOR_THE_COMMAND = {"nbformat", "jsonschema", "IPython", "sqlalchemy", "nbgrader.api", "typer", "rich"}
LEAVES = f"import os, sys\nif {COMPILER!r} in sys.modules: os._exit(3)"


def record_of(chapter: Chapter, folder: Path, further: str) -> Record:
    """Of the author's answers, and a cell of one's own behind them."""
    place = folder / "author" / chapter.name
    place.mkdir(parents=True)
    shutil.copy(chapter.solution, place)
    submission = read_submission(place, "author", chapter, read_release(chapter))
    assert isinstance(submission, Submission)
    own, master = SubmittedCell("own", None, further), MasterChapter.of(chapter)
    sandbox = Sandbox(master.setup, enabled=False)
    sandbox.compiles = master.compiles
    with sandbox:
        return grade(replace(submission, cells=[*submission.cells, own]), master, sandbox)


def left_out(record: Record) -> list[str]:
    return [note for note in record.notes if "left out" in note]


def test_chapters_that_name_no_optimizer_and_no_compiler():
    assert [chapter.name for chapter in find_chapters() if not MasterChapter.of(chapter).compiles] == WITHOUT


@pytest.mark.parametrize("name", [WITHOUT[0], *(pytest.param(name, marks=others) for name in WITHOUT[1:])])
def test_where_the_compiler_is_not_loaded_no_answer_loads_it(name: str, tmp_path: Path):
    """Each submission would take a second more."""
    [chapter] = find_chapters([name])
    record = record_of(chapter, tmp_path, LEAVES)
    assert record.points == record.of and not left_out(record)


def test_an_answer_that_loads_it_is_noticed(tmp_path: Path):
    [chapter] = find_chapters(["03"])
    record = record_of(chapter, tmp_path, f"import {COMPILER}\n{LEAVES}")
    assert record.points == record.of and left_out(record)


def test_what_judges_and_workers_are_forked_from_loads_nothing_that_only_the_command_needs():
    imports = "\n".join(f"import torchkata.tools.grading.{name}" for name in FORKED_FROM)
    loaded = said_by(f"import sys\n{imports}\nprint(*sys.modules)").split()
    assert "torch" in loaded and not FOR_THE_COMMAND & set(loaded)


def test_practice_leaves_nothing_behind():
    def state() -> tuple:
        return random.getstate(), torch.get_rng_state().tolist(), torch.is_grad_enabled(), set(vars(builtins))

    before = state()
    practise.__wrapped__()
    assert state() == before
