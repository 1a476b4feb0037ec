"""A link to an exercise leads to it: its heading stands at the top of the view, and keys go on from there."""

from __future__ import annotations

import pytest

from torchkata.tools.course import chapters
from torchkata.tools.placing import Place

START = "start.ipynb"
NEXT = "Next: your first exercise is solved. Begin with"
RIGHT = "def halve(x):\n    return x / 2"
# what JupyterLab does as soon as the browser has time for it waits for as long as the test says
HOLD = """() => {
    window.held = true;
    window.requestIdleCallback = (task) => {
        const ask = () => held ? setTimeout(ask, 50) : task({didTimeout: false, timeRemaining: () => 50});
        return setTimeout(ask, 50);
    };
}"""
# where the cell is seen from the top of the view, and whether keys go to it
PLACE = """id => {
    const notebook = jupyterapp.shell.currentWidget.content;
    const cell = notebook.widgets.find(cell => cell.model.id === id);
    if (!cell) return [false, 0, false];
    const top = node => node.getBoundingClientRect().top;
    const distance = Math.round(top(cell.node) - top(notebook.outerNode)) || 0;
    return [cell.node.isConnected, distance, notebook.activeCell === cell];
}"""
LANDED = [True, 0, True]
TO_TOP = "() => { const n = jupyterapp.shell.currentWidget.content; n.activeCellIndex = 0; n.outerNode.scrollTop = 0; }"
ALL_THERE = "() => jupyterapp.shell.currentWidget.content.widgets.every(cell => cell.node.isConnected)"


@pytest.fixture
def start(open_notebook):
    """The start page, whose exercise is solved."""
    page = open_notebook(START)
    page.run_setup()
    page.answer("warm-up", RIGHT)
    page.expect_verdict("warm-up", "✓ warm-up")
    page.open()
    page.page.wait_for_function(ALL_THERE)
    return page


def follow(start):
    """Click the next step; back when its chapter is open. The id of the exercise's cell."""
    link = start.page.get_by_text(NEXT).get_by_role("link")
    cell = (link.get_attribute("href") or "").partition("cell-id=")[2]
    link.click()
    first = next(chapter for chapter in chapters(Place(start.lab.course)) if chapter.number == "01")
    start.wait_until_open(first.place_in_workbook.as_posix())
    return cell


def expect_landing(page, cell):
    expect_place = f"id => JSON.stringify(({PLACE})(id)) === '{str(LANDED).lower().replace(' ', '')}'"
    page.wait_for_function(expect_place, arg=cell)
    page.wait_for_function(ALL_THERE)
    page.wait_for_timeout(1000)  # what comes below it moves nothing
    assert page.evaluate(PLACE, cell) == LANDED


@pytest.mark.exhaustive("a further story in the browser", thorough=True)
def test_the_next_step_leads_to_its_exercise(start, page):
    """A chapter opened by the link, and one that is open in a tab."""
    cell = follow(start)
    expect_landing(page, cell)
    page.evaluate(TO_TOP)
    page.get_by_role("tab", name=START).click()
    assert follow(start) == cell
    expect_landing(page, cell)
    page.mouse.wheel(0, 3000)
    page.wait_for_timeout(500)
    assert page.evaluate(PLACE, cell)[1] < -1000, "the reader can't scroll away"


@pytest.mark.exhaustive("a link on a busy machine", thorough=True)
def test_it_leads_there_on_a_busy_machine(start, page):
    """The exercise comes into the page after JupyterLab has given up waiting for it, 10 seconds after the click."""
    page.evaluate(HOLD)
    cell = follow(start)
    page.wait_for_timeout(8_000)
    assert page.evaluate(PLACE, cell)[0] is False, "the cell was there at once: this test shows nothing"
    page.wait_for_timeout(3_000)
    page.evaluate("() => { held = false; }")
    expect_landing(page, cell)
