"""The website as a reader meets it: in a browser, over http and from the file system, in light and dark, on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Request

# one page of each kind
KINDS = (
    "index",
    "start",
    "chapters/03_gather_scatter",
    "gallery",
    "folklore/index",
    "folklore/03_gather_scatter",
    "learners",
    "teachers",
    "authors",
    "maintainers",
    "search",
)
NARROW = {"width": 390, "height": 844}
pytestmark = pytest.mark.exhaustive("the website in a browser", thorough=True)


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that notes what goes wrong: errors in the console, errors of scripts, what was asked of other hosts."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.faults = faults
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda asked: None if was_given_up(asked) else faults.append(f"{asked.url} failed"))
    page.on("request", lambda asked: None if is_own(asked.url) else faults.append(f"{asked.url} is another host's"))
    yield page
    context.close()
    assert faults == []


def was_given_up(asked: Request) -> bool:
    """By the browser itself, since the test went on to another page."""
    return asked.failure == "net::ERR_ABORTED"


def is_own(address: str) -> bool:
    return address.startswith(("http://127.0.0.1:", "file:", "data:", "blob:"))


@pytest.mark.parametrize("name", KINDS)
def test_a_page_loads_from_a_server_and_from_a_file(page: Page, address: str, site: Path, name: str):
    for place in (address, f"{site.as_uri()}/"):
        page.goto(f"{place}{name}.html")
        assert page.locator("h1").first.is_visible()


def test_an_answer_opens(page: Page, address: str):
    page.goto(f"{address}chapters/03_gather_scatter.html")
    answer = page.locator("details.answer").first
    output = answer.get_by_text("dim 1: [[1, 1], [4, 3]]")
    assert not output.is_visible()
    answer.locator("summary").first.click()
    assert output.is_visible()


@pytest.mark.parametrize("place", ["http", "file"])
def test_search_finds(page: Page, address: str, site: Path, place: str):
    page.goto(f"{address if place == 'http' else site.as_uri() + '/'}search.html?q=scatter")
    found = page.locator("#search-results ul.search li a", has_text="Gather and scatter")
    found.first.wait_for()
    if place == "file":  # excerpts are fetched, which browsers refuse from the file system
        page.goto("about:blank")
        page.faults.clear()


def test_the_filter_filters(page: Page, address: str):
    page.goto(f"{address}folklore/index.html")
    shown = page.locator("#beliefs > li:visible")
    total = shown.count()
    page.get_by_label("Verdict").select_option("wrong")
    wrong = shown.count()
    page.get_by_label("Chapter").select_option("03_gather_scatter")
    here = shown.count()
    page.get_by_label("Words").fill("all SRC")
    assert total > wrong > here > shown.count() >= 1
    assert "scatter_ writes all the values of src" in shown.first.inner_text()
    page.get_by_label("Words").fill("no such words")
    assert page.get_by_text("No belief fits.").is_visible()
    assert "0 beliefs" in page.locator("#filter output").inner_text()


def test_a_proof_is_copied(page: Page, address: str):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}folklore/03_gather_scatter.html#03-scatter-writes-all-of-src")
    belief = page.locator("[id='03-scatter-writes-all-of-src']")
    assert belief.locator("pre").is_visible(), "the link opens the proof"
    belief.get_by_role("button", name="Copy").click()
    belief.get_by_role("button", name="Copied").wait_for()
    assert "import torch" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("name", KINDS)
def test_a_phone_does_not_scroll_sideways(page: Page, address: str, name: str):
    page.set_viewport_size(NARROW)
    page.goto(f"{address}{name}.html")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.parametrize("name", KINDS)
def test_axe_finds_nothing(page: Page, address: str, name: str, scheme: str):
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}{name}.html")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    found = Axe().run(page).response["violations"]
    assert [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in found] == []


def test_what_is_folded_is_printed(page: Page, address: str):
    page.goto(f"{address}chapters/03_gather_scatter.html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_what_only_a_screen_can_use_is_not_printed(page: Page, address: str):
    for place, part in (("gallery", ".tk-panel"), ("index", ".start"), ("folklore/index", ".filter, #filter")):
        page.emulate_media(media="screen")
        page.goto(f"{address}{place}.html")
        page.locator(part).first.wait_for(state="visible")
        page.emulate_media(media="print")
        assert not page.locator(part).first.is_visible(), part


CONTROL = ".tk-panel :is(select, input:not([type=text]), button:not([aria-disabled=true]))"


@pytest.mark.parametrize("place", ["http", "file"])
def test_every_explorer_answers_to_keyboard_and_mouse(page: Page, address: str, site: Path, place: str):
    page.goto(f"{address if place == 'http' else site.as_uri() + '/'}gallery.html")
    explorers = page.locator(".torchkata-picture[data-frames]")
    assert explorers.count() >= 20
    for number in range(explorers.count()):
        explorer = explorers.nth(number)
        explorer.scroll_into_view_if_needed()
        page.wait_for_function("explorer => explorer.dataset.ready", arg=explorer.element_handle())
        told = explorer.get_by_role("img").first.get_attribute("aria-label")
        for move in (by_keys, by_mouse):
            assert any(move(page, explorer, control) for control in range(explorer.locator(CONTROL).count())), told


def words_of(explorer: Locator) -> str:
    return explorer.locator("details p").text_content() or ""


def by_keys(page: Page, explorer: Locator, number: int) -> bool:
    """Whether a control's own keys change the picture; there and back, since it may stand at its end."""
    control, before = explorer.locator(CONTROL).nth(number), words_of(explorer)
    control.focus()
    for key in ("ArrowDown", "ArrowUp", "ArrowRight", "Space"):
        page.keyboard.press(key)
        if words_of(explorer) != before:
            return True
    return False


def by_mouse(page: Page, explorer: Locator, number: int) -> bool:
    control, before = explorer.locator(CONTROL).nth(number), words_of(explorer)
    if control.evaluate("node => node.tagName") == "SELECT":
        return False  # its list is the browser's own
    box = control.bounding_box()
    assert box is not None
    for share in (0.2, 0.8, 0.5):
        page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        if words_of(explorer) != before:
            return True
    return False


def test_the_first_page_has_an_explorer_that_moves(page: Page, address: str):
    page.goto(f"{address}index.html")
    explorer = page.locator(".torchkata-picture")
    page.locator(".torchkata-picture[data-ready]").wait_for()
    explorer.get_by_role("button", name="step").click()
    assert "Step 1 of 6" in words_of(explorer)


def test_frames_come_when_they_are_near(page: Page, address: str):
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto(f"{address}gallery.html")
    page.locator(".torchkata-picture[data-ready]").first.wait_for()
    first = len([one for one in asked if "/frames/" in one])
    assert first < page.locator(".torchkata-picture[data-frames]").count() / 2


def test_a_picture_follows_the_theme(chromium: Browser, address: str):
    cards = []
    for scheme in ("light", "dark"):
        context = chromium.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{address}gallery.html")
        cards.append(page.locator("svg > rect").first.evaluate("card => getComputedStyle(card).fill"))
        context.close()
    assert cards == ["rgb(252, 252, 249)", "rgb(27, 29, 32)"]
