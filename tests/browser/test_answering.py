"""Exercises in a real browser, as a learner goes about them: keys, verdicts, the stop button, updates."""

import re
import shutil

import nbformat
import pytest

from tests.browser.notebook_page import PATIENCE, expect
from tests.notebooks.answers import answers_of
from torchkata.tools.course import course_root

CHAPTER = "03_gather_scatter"
NOTEBOOK = f"{CHAPTER}/gather_scatter.ipynb"
EXERCISE = "count-writers"
a_further_story = pytest.mark.exhaustive("a further story in the browser", thorough=True)
ENDLESS = """\
def count_writers(index, dim, shape):
    open("begun", "w").close()
    while True:
        pass
"""


@pytest.fixture(scope="module")
def answers():
    """A wrong answer and a short right one to the exercise, of those that the course is tested with."""
    found = answers_of(CHAPTER, EXERCISE)
    wrong = next(answer for answer in found if answer.kind == "wrong" and not answer.hidden)
    right = next(answer for answer in found if answer.kind == "right" and answer.source.count("\n") < 12)
    return wrong, right


def typed(answer):
    """The function alone, as a learner types it."""
    return answer.source[answer.source.index("def ") :]


def test_an_answer_typed_and_checked_by_keys(open_notebook, answers):
    wrong, right = answers
    notebook = open_notebook(NOTEBOOK)
    notebook.run_setup()

    notebook.answer(EXERCISE, typed(wrong))
    notebook.expect_verdict(EXERCISE, f"✗ {EXERCISE}", wrong.says[0])
    first, later = (notebook.cell(check).locator(".jp-OutputArea-child:visible") for check in notebook.checks(EXERCISE))
    expect(first).to_have_count(1)  # the error below the card is not shown too
    expect(later).to_have_text(re.compile("waits for the first one, which your answer doesn't pass yet"))

    notebook.answer(EXERCISE, typed(right))
    notebook.expect_verdict(EXERCISE, f"✓ {EXERCISE}")


def test_a_right_answer_leads_to_the_next_exercise(open_notebook, page, lab, answers):
    _, right = answers
    shutil.copytree(course_root() / "solutions" / CHAPTER, lab.course / "solutions" / CHAPTER)
    notebook = open_notebook(NOTEBOOK)
    notebook.run_setup()
    notebook.answer(EXERCISE, typed(right))
    shown = notebook.cell(notebook.checks(EXERCISE)[-1]).locator(".jp-Cell-outputArea")
    expect(shown).to_contain_text(re.compile(r"(\d+) of \1 points?"))
    leads = shown.get_by_role("link")
    title = leads.inner_text()
    assert title.startswith("Exercise 3.")
    leads.click()
    notebook.wait_until_open(NOTEBOOK)
    expect(page.get_by_role("heading", name=title)).to_be_in_viewport()


@a_further_story
def test_the_stop_button_ends_an_endless_loop(open_notebook, page, lab, answers):
    _, right = answers
    notebook = open_notebook(NOTEBOOK)
    notebook.run_setup()
    begun = lab.workbook / CHAPTER / "begun"
    notebook.answer(EXERCISE, ENDLESS, until_it_ends=False)
    wait_for_file(begun, page)
    notebook.stop()
    notebook.expect_verdict(EXERCISE, f"✗ {EXERCISE}", "Interrupted. Your code was still running")

    notebook.answer(EXERCISE, typed(right))
    notebook.expect_verdict(EXERCISE, f"✓ {EXERCISE}")


@a_further_story
def test_an_update_keeps_the_answer_and_brings_the_new_text(open_notebook, lab, answers):
    _, right = answers
    notebook = open_notebook(NOTEBOOK)
    notebook.type_answer(EXERCISE, typed(right))
    notebook.save()

    release_newer(lab.course / "notebooks" / NOTEBOOK, "A sentence of the newer release.")
    told = lab.torchkata("update", "03")
    assert CHAPTER in told

    notebook.open()
    [kept] = [cell.source for cell in notebook.cells() if cell.grade_id == EXERCISE]
    assert kept == typed(right).strip()
    title = notebook.at(0)
    assert "A sentence of the newer release." in title.inner_text()
    notebook.run_setup()
    notebook.answer(EXERCISE, typed(right))
    notebook.expect_verdict(EXERCISE, f"✓ {EXERCISE}")


def release_newer(release, sentence):
    """Release the chapter anew, with a sentence more under its title."""
    notebook = nbformat.read(release, as_version=4)
    notebook.cells[0].source += f"\n\n{sentence}\n"
    nbformat.write(notebook, release)


def wait_for_file(path, page):
    for _ in range(PATIENCE // 100):
        if path.exists():
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{path} did not come")
