"""The review page in a real browser: by keys alone, with names for screen readers, in light and dark."""

import json
import re
from datetime import timedelta

import pytest

from tests.browser.notebook_page import expect
from tests.browser.test_explorers import nameless
from torchkata.base.places import KEPT
from torchkata.facts.cards import asked_in
from torchkata.facts.pairs import pairs
from torchkata.facts.questions import questions
from torchkata.tools.course import chapters
from torchkata.tools.learning.deck import FILE
from torchkata.tools.learning.review import answered, begin, right_now
from torchkata.tools.placing import Place

REVIEW, CHAPTER = "review.ipynb", "03 gather scatter"
FIRST = questions("03_gather_scatter")[0]
PAIR = pairs("03_gather_scatter")[0]
IN_FOCUS = "control => control === document.activeElement"
COLOURS = """node => {
    const rgb = text => text.match(/[\\d.]+/g).map(Number);
    let behind = node;
    while (behind && (rgb(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
    return [rgb(getComputedStyle(node).color), rgb(getComputedStyle(behind).backgroundColor)];
}"""


@pytest.fixture
def review(open_notebook, page, lab):
    """The page with chapter 03 named as read, its first card shown."""
    (lab.workbook / KEPT / FILE).unlink(missing_ok=True)
    notebook = open_notebook(REVIEW)
    [cell] = [cell for cell in notebook.cells() if cell.kind == "code"]
    notebook.select(cell.index)
    notebook.run_with_keys()
    shown = notebook.at(cell.index).locator(".torchkata-review")
    expect(shown).to_be_visible()
    expect(shown.get_by_role("status")).to_contain_text("Choose a chapter that you have read")
    shown.get_by_role("combobox", name="chapter").select_option(CHAPTER)
    shown.get_by_role("button", name="I have read it").press("Space")
    expect(shown.get_by_role("status")).to_contain_text("Card 1 of 10, chapter 03")
    return shown


def luminance(colour):
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(node):
    light, dark = sorted(map(luminance, node.evaluate(COLOURS)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_keys_alone_answer_a_card(review, page, lab):
    status, answer = review.get_by_role("status"), review.get_by_role("button", name=FIRST.answer, exact=True)
    answer.focus()
    page.keyboard.press("Space")
    expect(status).to_contain_text(f"✓ Right: {FIRST.answer}.")
    assert answer.evaluate(IN_FOCUS), "the focus stays"
    assert list(json.loads((lab.workbook / KEPT / FILE).read_text())["cards"]) == [FIRST.fact.id]
    link = review.get_by_role("link")
    expect(link).to_have_attribute("href", re.compile("gather_scatter.ipynb"))

    onward = review.get_by_role("button", name="next card")
    while not onward.evaluate(IN_FOCUS):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(status).to_contain_text("Card 2 of 10")
    assert review.get_by_role("button", name="I don't know").evaluate(IN_FOCUS)


def test_screen_readers_find_names_and_tab_reaches_all(review, page):
    review.get_by_role("button", name="I don't know").press("Space")
    expect(review.get_by_role("status")).to_contain_text("✗ No")
    expect(review.locator("summary")).to_be_visible()
    expect(review.get_by_role("link")).to_be_visible()
    assert nameless(review) == []
    stops = [stop for stop in review.locator("button:enabled, select, a[href], summary").all() if stop.is_visible()]
    stops[0].focus()
    for stop in stops[1:]:
        page.keyboard.press("Tab")
        assert stop.evaluate(IN_FOCUS), stop.evaluate("stop => stop.outerHTML.slice(0, 200)")
    assert len(stops) == 6, "next, the link, the proof and its button, the chapters and theirs; the answers rest"
    expect(page.get_by_role("group", name="review", exact=True)).to_be_visible()


@pytest.fixture
def two_functions(open_notebook, lab):
    """The page with a card of two functions, all others being known."""
    (lab.workbook / KEPT / FILE).unlink(missing_ok=True)
    place, now = Place(lab.course), right_now()
    begin(place, now, [chapter for chapter in chapters(place) if chapter.name == "03_gather_scatter"])
    for card in asked_in("03_gather_scatter"):
        if card != PAIR:
            answered(place, card.id, True, now - timedelta(days=1))
    notebook = open_notebook(REVIEW)
    [cell] = [cell for cell in notebook.cells() if cell.kind == "code"]
    notebook.select(cell.index)
    notebook.run_with_keys()
    shown = notebook.at(cell.index).locator(".torchkata-review")
    expect(shown.get_by_role("status")).to_contain_text("Do these two ever return different results?")
    return shown


def test_two_functions_are_answered_by_keys(two_functions, page):
    status = two_functions.get_by_role("status")
    expect(two_functions.get_by_role("button", name="so", exact=True)).to_have_count(0)
    buttons = [one for one in two_functions.get_by_role("button").all() if one.is_visible()]
    assert [one.inner_text() for one in buttons[:3]] == ["for some input", "never", "I don't know"]
    buttons[0].focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(status).to_contain_text(f"✗ No: {PAIR.answer}.")
    two_functions.locator("summary").press("Enter")
    expect(two_functions.locator("details pre")).to_contain_text(f"# {PAIR.returns[0]}")
    assert nameless(two_functions) == []


@pytest.mark.exhaustive("the colours of the page of reviews", thorough=True)
def test_words_can_be_read_in_light_and_dark(review, page):
    review.get_by_role("button", name="I don't know").press("Space")
    expect(review.get_by_role("status")).to_contain_text("✗ No")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_function("dark => document.body.dataset.jpThemeLight === String(!dark)", arg="Dark" in theme)
        for node in (
            review.get_by_role("status").locator("div").last,
            review.locator("summary"),
            review.get_by_role("link"),
        ):
            assert contrast(node) >= 4.5, (theme, node)


@pytest.mark.exhaustive("a further story in the browser", thorough=True)
def test_the_start_page_leads_to_it(review, open_notebook, page):
    start = open_notebook("start.ipynb")
    expect(page.get_by_text("Review: 10 cards due")).to_be_visible()
    page.get_by_role("link", name="Open the review page").click()
    start.wait_until_open(REVIEW)
