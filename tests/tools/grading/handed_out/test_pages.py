"""The pages of grading in a browser: on a phone, by keyboard, light and dark, for screen readers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.axe import faults_in
from tests.tools.grading.fake_grading import NAME
from tests.tools.grading.handed_out.test_feedback import graded
from tests.tools.grading.handed_out.test_overview import a_class
from torchkata import __version__
from torchkata.tools.grading.handed_out.pages import feedback_page, overview_page, refusal_page
from torchkata.tools.grading.records import NotGradable

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
LONG = "expected: " + "[1 0 0] " * 40
UNBROKEN = "averylongname_" * 20


def feedback() -> str:
    record, submission = graded("ada", twice=f"def twice(x):\n    return {LONG!r}", guess="half", thrice="right")
    first, *others = record.marks
    marks = [replace(first, title="Exercise 98.1 · " + "A long title " * 6, verdict=f"{UNBROKEN}\n{LONG}"), *others]
    when = "2026-11-22 14:05:00"
    record = replace(record, marks=marks, handed_in=when)
    others = {"thrice": [("The author's answer", LONG), (UNBROKEN, LONG)]}
    return feedback_page("Three things", record, submission, "https://example.org/3.html", others)


PAGES = {
    "feedback": feedback,
    "refusal": lambda: refusal_page("Three things", NotGradable("ada", NAME, UNBROKEN)),
    "overview": lambda: overview_page("Three things", a_class()),
}


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


@pytest.fixture
def opened(browser, tmp_path: Path):
    """Opens one of the pages."""
    contexts = []

    def opening(name: str, width: int = 400, **settings):
        path = tmp_path / f"{name}.html"
        path.write_text(PAGES[name](), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 800}, bypass_csp=True, **settings)
        contexts.append(context)
        page = context.new_page()
        page.goto(path.as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()


@needs_chromium
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, name: str, scheme: str):
    assert faults_in(opened(name, color_scheme=scheme)) == []


@needs_chromium
@pytest.mark.parametrize("name", PAGES)
def test_a_phone_never_scrolls_sideways(opened, name: str):
    page = opened(name)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@needs_chromium
def test_points_are_on_the_screen_of_a_phone(opened):
    box = opened("feedback").get_by_text("0 of 2", exact=True).bounding_box()
    assert box["x"] + box["width"] <= 400


@needs_chromium
def test_wide_lines_scroll_by_keyboard(opened):
    page = opened("feedback")
    region = page.get_by_role("region", name="Details, Exercise 98.1").first
    region.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("[...document.querySelectorAll('pre')].some(pre => pre.scrollLeft > 0)")


@needs_chromium
def test_the_summary_leads_to_what_comes_first(opened):
    page = opened("feedback")
    links = page.locator(".summary a").all_inner_texts()
    assert [link[:16] for link in links] == ["Exercise 98.1 · ", "Exercise 98 · gu"]
    page.locator(".summary a").first.click()
    assert page.url.endswith("#exercise-twice") and page.evaluate("scrollY") > 0


def test_dates_release_and_the_chapters_address_are_told():
    text = feedback()
    assert "Handed in on 22 November 2026, 14:05 UTC." in text
    assert f"with torchkata {__version__}." in text and '<a href="https://example.org/3.html">' in text
    unknown = feedback_page("Three things", *graded("ada"))
    assert "Handed in" not in unknown and "The chapter to read" not in unknown
