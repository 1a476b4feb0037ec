"""Every chapter in a real browser: Run All stops at check cells only, explorers are alive."""

import re

import pytest

from torchkata.tools.course import chapters

ALWAYS = ("03_gather_scatter", "10_multi_gpu")
others = pytest.mark.exhaustive("Run All of a further chapter in the browser")
CHAPTERS = [
    pytest.param(chapter.name, marks=() if chapter.name in ALWAYS else others)
    for chapter in chapters()
    if chapter.release.exists()
]


@pytest.mark.parametrize("name", CHAPTERS)
def test_run_all_stops_at_check_cells_only(open_notebook, name):
    """Run All until it stops, then go on from the next cell, and so on to the end."""
    notebook = open_notebook(f"{name}/{name[3:]}.ipynb")
    notebook.run_all()
    first = next(cell for cell in notebook.cells() if cell.errors)
    assert (first.grade_id, first.is_check) == (f"{exercise_of(first)}-check", True), first
    while left := not_run_yet(notebook):
        # The first of them. A kernel that stops early aborts what it has been sent so far, and no more: a few of the
        # cells further down may have run already; they run again.
        notebook.run_from(left[0].index)

    cells = notebook.cells()
    stops = [cell for cell in cells if cell.errors]
    assert [cell.grade_id for cell in stops] == [cell.grade_id for cell in cells if cell.is_check]
    for cell in stops:
        assert cell.errors == [("NotSolvedYet", f"{exercise_of(cell)}: not solved yet.")]

    explorers = notebook.explorers()
    for cell in explorers:
        assert notebook.explorer(cell.index).locator("img").first.get_attribute("alt")
    assert len(explorers) >= 1
    assert notebook.page.get_by_text("Error displaying widget").count() == 0


def not_run_yet(notebook):
    return [cell for cell in notebook.cells() if cell.kind == "code" and not cell.was_run]


def exercise_of(check):
    """The exercise that a check cell belongs to."""
    return re.sub(r"-check(-\d+)?$", "", check.grade_id or "")
