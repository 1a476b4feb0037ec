"""A chapter in JupyterLab looks as on the website: boxes, framed exercises, and answers that are folded."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import expect

CHAPTER = "03_gather_scatter/gather_scatter.ipynb"
QUESTION = "The next cell reads from the same"
ANSWER = "The result always has the shape of"
OTHER = "is one number, not a column"
EXERCISE = "label-log-prob"
# what would be written to the file
SAVED = "() => JSON.stringify(jupyterapp.shell.currentWidget.content.model.toJSON())"
IN_FRAME = """name => jupyterapp.shell.currentWidget.content.widgets.flatMap(({node, model}) => {
    const id = model.getMetadata('nbgrader')?.grade_id || model.sharedModel.getSource().slice(0, 16);
    return node.classList.contains(name) ? [id] : [];
})"""
ADD_NOTES = """place => {
    const source = jupyterapp.shell.currentWidget.content.widgets[place].model.sharedModel;
    source.setSource(source.getSource() + '\\n\\nA note.\\n\\n**Now you know.** It stays in sight.');
}"""


@pytest.fixture
def chapter(open_notebook):
    return open_notebook(CHAPTER)


def place_of(chapter, text):
    return next(cell.index for cell in chapter.cells() if text in cell.source)


def text_with(chapter, words):
    """The rendered text of the cell with these words."""
    return chapter.at(place_of(chapter, words)).locator(".jp-MarkdownOutput")


def test_an_answer_is_folded_until_the_cell_has_run(chapter, page):
    before = page.evaluate(SAVED)
    answer = text_with(chapter, ANSWER)
    expect(text_with(chapter, QUESTION).locator(".tk-predict")).to_contain_text("Predict.")
    summary, text = answer.locator("summary"), answer.get_by_text(ANSWER)
    expect(summary).to_have_text("What happens, and why")
    expect(text).to_be_hidden()

    summary.click()
    expect(text).to_be_visible()
    summary.click()
    expect(text).to_be_hidden()
    assert page.evaluate(SAVED) == before, "the looks have got into the notebook"

    other = text_with(chapter, OTHER).get_by_text(OTHER)
    expect(other).to_be_hidden()
    chapter.run_setup()
    chapter.run_from(place_of(chapter, "picked = y.gather(1, index)"))
    expect(other).to_be_visible()
    expect(text).to_be_hidden()  # as the reader has left it


def test_a_text_that_is_edited_keeps_its_looks(chapter, page):
    answer = text_with(chapter, ANSWER)
    expect(answer.locator("summary")).to_be_visible()
    page.evaluate(ADD_NOTES, place_of(chapter, ANSWER))
    expect(answer.get_by_text("A note.")).to_have_count(1)
    expect(answer.get_by_text("A note.")).to_be_hidden()
    expect(answer.locator(".tk-know")).to_be_visible()


def test_an_exercise_has_one_frame_from_its_task_to_its_last_check(chapter, page):
    page.wait_for_function("() => document.querySelector('.tk-exercise')")
    framed = page.evaluate(IN_FRAME, "tk-exercise")
    checks = [cell.grade_id for cell in chapter.cells() if cell.is_check]
    assert set(checks) < set(framed)
    assert framed[:4] == ["### Exercise 3.1", EXERCISE, *chapter.checks(EXERCISE)]
    assert len(page.evaluate(IN_FRAME, "tk-first")) == len(page.evaluate(IN_FRAME, "tk-last")) >= 8
    task = text_with(chapter, "### Exercise 3.1")
    task.scroll_into_view_if_needed()
    expect(task.locator(".tk-contract")).to_contain_text("labels")
    expect(task.locator(".tk-contract summary")).to_have_count(0)
