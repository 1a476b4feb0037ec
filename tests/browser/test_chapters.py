"""Every chapter in a real browser: Run All on an untouched chapter goes through to the end, explorers are alive."""

import re

import pytest

from torchkata.tools.course import chapters
from torchkata.tools.placing import here

ALWAYS = "03_gather_scatter"
others = pytest.mark.exhaustive("Run All of a further chapter in the browser")
CHAPTERS = [
    pytest.param(chapter.name, marks=() if chapter.name == ALWAYS else others)
    for chapter in chapters(here())
    if chapter.release.exists()
]


@pytest.mark.parametrize("name", CHAPTERS)
def test_run_all_goes_through(open_notebook, name):
    """Check cells say quietly that there is no answer yet, and nothing stops."""
    notebook = open_notebook(f"{name}/{name[3:]}.ipynb")
    notebook.run_all()
    cells = notebook.cells()
    assert [cell for cell in cells if cell.errors] == []
    assert [cell for cell in cells if cell.kind == "code" and not cell.was_run] == []
    for cell in cells:
        if cell.is_check:
            notebook.expect_verdict(exercise_of(cell), "○", "not solved yet")

    pictures = notebook.pictures()
    for cell in pictures:
        assert notebook.picture(cell.index).get_by_role("img").first.get_attribute("aria-label")
    assert len(pictures) >= 1
    assert notebook.page.get_by_text("Error displaying widget").count() == 0


def exercise_of(check):
    """The exercise that a check cell belongs to."""
    return re.sub(r"-check(-\d+)?$", "", check.grade_id or "")
