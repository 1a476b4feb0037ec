"""The start page in a real browser: the way in, the progress, nbgrader's Validate button, no other host."""

import re

import pytest

from tests.browser.learners_lab import foreign
from tests.browser.notebook_page import expect
from torchkata.tools.course import chapters, find_chapters, read_notebook
from torchkata.tools.placing import Place, here

START = "start.ipynb"
a_further_story = pytest.mark.exhaustive("a further story in the browser", thorough=True)
SOLVED = ("03_gather_scatter", "count-writers")
RIGHT = """\
def count_writers(index, dim, shape):
    return torch.zeros(shape, dtype=torch.int64).scatter_add(dim, index.long(), torch.ones_like(index).long())
"""


def test_the_start_page_leads_to_every_chapter(open_notebook, page):
    start = open_notebook(START)
    course = chapters(here())
    expect(page.get_by_text("Next: solve the exercise above")).to_be_visible()
    expect(page.get_by_role("row").get_by_role("progressbar")).to_have_count(len(course))
    for chapter in course:
        expect(page.get_by_role("row").get_by_role("link", name=f"{chapter.number} {chapter.title}")).to_be_visible()
    page.get_by_role("row").get_by_role("link", name="03 Gather and scatter").click()
    start.wait_until_open("03_gather_scatter/gather_scatter.ipynb")


def test_progress_shows_what_has_been_solved(open_notebook, page, lab):
    name, exercise = SOLVED
    start = open_notebook(START)
    row = page.get_by_role("row", name=re.compile(rf"^{name[:2]} "))
    expect(row).to_contain_text("0 of 20 points, 0 of 8 exercises")

    chapter = open_notebook(f"{name}/{name[3:]}.ipynb")
    chapter.run_setup()
    chapter.answer(exercise, RIGHT)
    chapter.expect_verdict(exercise, f"✓ {exercise}")

    start.open()
    [known] = find_chapters(Place(lab.course), [name])
    points = next(one.points for one in known.exercises if one.id == exercise)
    expect(row).to_contain_text(f"{points:g} of 20 points, 1 of 8 exercises")
    expect(row.get_by_role("progressbar")).to_have_attribute("value", f"{points:g}")
    expect(page.get_by_text("Next: go on with")).to_contain_text("in chapter 03")

    start.save()
    expect(page.get_by_role("dialog")).to_have_count(0)
    on_disk = read_notebook(lab.workbook / START)
    assert not any("1 of 8 exercises" in cell.source for cell in on_disk.cells)


@a_further_story
def test_the_validate_button_agrees_with_the_check_cell(open_notebook, page):
    pytest.importorskip("nbgrader", reason="the Validate button is nbgrader's: make install")
    start = open_notebook(START)
    start.run_setup()

    start.answer("warm-up", "def halve(x):\n    return x // 2")
    sentence = "Here // has rounded down: half of 5 is 2.5, not 2."
    start.expect_verdict("warm-up", "✗ warm-up", sentence)
    cell, _, verdict = start.validate().partition("✗ warm-up")
    assert "The following cell failed" in cell
    assert sentence in " ".join(verdict.split())

    start.answer("warm-up", "def halve(x):\n    return x / 2")
    start.expect_verdict("warm-up", "✓ warm-up")
    assert "Success! Your notebook passes all the tests." in start.validate()


def test_nothing_is_asked_of_another_host(open_notebook, page):
    """Each page of these tests is looked at when it closes; here is the proof that this sees something."""
    start = open_notebook(START)
    start.run_all()
    assert len(page.asked) > 10
    assert foreign(page.asked) == []
    page.evaluate("() => { fetch('https://example.org/font.woff2').catch(() => null); }")
    page.wait_for_function("() => performance.getEntriesByName('https://example.org/font.woff2').length")
    assert foreign(page.asked) == ["https://example.org/font.woff2"]
    page.asked.clear()


def test_an_untouched_notebook_is_not_called_changed(open_notebook, page):
    open_notebook("03_gather_scatter/gather_scatter.ipynb")
    page.wait_for_timeout(1000)  # what JupyterLab notes of the kernel comes after it is ready
    assert not page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty")
