"""A workbook in which nothing is solved yet earns nothing, whatever the checks come upon: so stubs need no run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.notebooks import running
from torchkata.base.chapter import exercises_of
from torchkata.base.marks import authors_version
from torchkata.base.names import names_of
from torchkata.tools.course import Chapter, chapters, course_root, read_unchecked, side_notebooks
from torchkata.tools.learning import checking
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place, here

ALWAYS = "01_backends"
NAMES = [chapter.name for chapter in chapters(here())]
a_further_chapter = pytest.mark.exhaustive("a further chapter of an empty workbook")


def test_the_points_that_an_empty_workbook_is_measured_by():
    points = {name: sum(running.full_points(name, one) for one in running.exercise_ids(name)) for name in NAMES}
    assert points == dict.fromkeys(NAMES, 20)


def test_a_stub_binds_what_its_checks_ask_for():
    """Then nothing that stands before a stub can be the answer."""
    for chapter in [*chapters(here()), *side_notebooks(here())]:
        stubs = {one.id: names_of(one.answer).binds for one in exercises_of(read_unchecked(chapter.release).cells)}
        for one in exercises_of(read_unchecked(chapter.solution).cells):
            asked = set().union(*(names_of(check.source).reads for check in one.checks))
            lacking = names_of(authors_version(one.answer)).binds & asked - stubs[one.id]
            assert not lacking, f"{one.id}: the stub leaves out {lacking}, which an own cell before it may bind"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == ALWAYS else a_further_chapter) for name in NAMES]
)
def test_an_empty_workbook_earns_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "stubs_in", lambda *_: set())  # run them all
    for tree in ("solutions", "notebooks"):
        shutil.copytree(course_root() / tree / name, tmp_path / tree / name)
    chapter = Chapter(Place(tmp_path), name)
    fill_workbook(chapter.place)
    verdicts = check_chapter(chapter)
    assert sum(verdict.exercise.points for verdict in verdicts) == 20
    assert [(verdict.points, verdict.line) for verdict in verdicts] == [(0, "not solved yet.")] * len(verdicts)
