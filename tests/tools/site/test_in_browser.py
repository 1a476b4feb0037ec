"""The website as a reader meets it: in a browser, over http and from the file system, in light and dark, on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.axe import faults_in
from torchkata.facts.collection import chapter_names

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Request, ViewportSize

# one page of each kind
KINDS = (
    "index",
    "start",
    "chapters/03_gather_scatter",
    "gallery",
    "folklore/index",
    "folklore/03_gather_scatter",
    "review",
    "learners",
    "teachers",
    "authors",
    "maintainers",
    "search",
)
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
pytestmark = pytest.mark.exhaustive("the website in a browser", thorough=True)
# colours differ by scheme and the layout by size: two looks show both of each
a_further_look = pytest.mark.exhaustive("a further look of a page of the website")
LOOKS = (
    pytest.param("light", WIDE, id="light and wide"),
    pytest.param("dark", NARROW, id="dark and narrow"),
    pytest.param("light", NARROW, id="light and narrow", marks=a_further_look),
    pytest.param("dark", WIDE, id="dark and wide", marks=a_further_look),
)


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that notes what goes wrong: errors in the console, errors of scripts, what was asked of other hosts."""
    context = chromium.new_context(viewport=WIDE)
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
    first = page.locator("#search-results ul.search li").first
    first.wait_for()
    assert first.locator("a").first.inner_text() == "Gather and scatter"
    if place == "file":
        assert page.get_by_text("the results have no excerpts").is_visible()
    else:
        page.locator("#search-results .context").nth(5).wait_for()
        assert not [said for said in page.locator("#search-results .context").all_inner_texts() if "import " in said]


def test_the_filter_filters(page: Page, address: str):
    page.goto(f"{address}folklore/index.html")
    shown = page.locator("#beliefs li:visible")
    groups, total = page.locator("#beliefs > details:visible"), page.locator("#beliefs li").count()
    assert shown.count() == 0 and groups.count() == len(chapter_names())
    page.get_by_label("Verdict").select_option("wrong")
    wrong = shown.count()
    page.get_by_label("Chapter").select_option("03_gather_scatter")
    here = shown.count()
    page.get_by_label("Words").fill("all SRC")
    assert total > wrong > here > shown.count() >= 1
    assert "scatter_ writes all the values of src" in shown.first.inner_text()
    page.get_by_label("Words").fill("no such words")
    assert page.get_by_text("No belief fits.").is_visible() and groups.count() == 0
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
@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_axe_finds_nothing(page: Page, address: str, name: str, scheme: str, size: ViewportSize):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(size)
    page.goto(f"{address}{name}.html")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    page.wait_for_timeout(100)  # until what scrolls has been noticed
    assert faults_in(page) == []


# what is wrong with the pictures of a page on a phone: too small words, low controls, what leaves the screen without a
# way to it
ON_A_PHONE = """() => [...document.querySelectorAll('.torchkata-picture')].flatMap((picture, number) => {
    const faults = [], say = (what, value) => faults.push(`picture ${number}: ${what} ${value}`);
    const drawing = picture.querySelector('svg'), stage = picture.querySelector('.tk-stage');
    const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
    const sizes = [...drawing.querySelectorAll('text')].map(
        text => scale * text.closest('[font-size]').getAttribute('font-size'));
    const least = Math.min(...sizes);
    if (least < 12) say('words of', least);
    for (const control of picture.querySelectorAll('select, input, textarea, button')) {
        const box = (control.type === 'checkbox' ? control.closest('label') : control).getBoundingClientRect();
        if (box.height < 44) say(`a control ${control.outerHTML.slice(0, 60)} of`, box.height);
        if (box.left < 0 || box.right > innerWidth) say(`a control ${control.outerHTML.slice(0, 60)} up to`, box.right);
    }
    if (drawing.getBoundingClientRect().right <= innerWidth) return faults;
    if (stage.tabIndex !== 0 || !stage.getAttribute('aria-label')) say('no focus for', stage.outerHTML.slice(0, 80));
    if (!picture.querySelector('.cue').checkVisibility()) say('no word that it scrolls', '');
    stage.scrollLeft = 1e6;
    if (drawing.getBoundingClientRect().right > innerWidth) say('its end is at', drawing.getBoundingClientRect().right);
    return faults;
})"""


@pytest.fixture
def phone(chromium: Browser, scheme: str) -> Iterator[Page]:
    context = chromium.new_context(viewport=NARROW, color_scheme=scheme, is_mobile=True, has_touch=True)
    yield context.new_page()
    context.close()


# the gallery has all explorers, the chapters have pictures without controls too
@pytest.mark.parametrize("name", ["index", "gallery", "chapters/01_backends", "chapters/06_hooks"])
def test_pictures_are_for_phones(phone: Page, address: str, name: str):
    page = phone
    page.goto(f"{address}{name}.html")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    explorers = page.locator(".torchkata-picture[data-frames]")
    for number in range(explorers.count()):
        explorers.nth(number).scroll_into_view_if_needed()
        page.wait_for_function("explorer => explorer.dataset.ready", arg=explorers.nth(number).element_handle())
    assert page.evaluate(ON_A_PHONE) == []


def test_parts_side_by_side_are_stacked_on_a_phone(phone: Page, address: str):
    phone.goto(f"{address}chapters/03_gather_scatter.html")
    explorer = phone.locator(".torchkata-picture[data-frames]").first
    explorer.scroll_into_view_if_needed()
    phone.wait_for_function("explorer => explorer.dataset.ready", arg=explorer.element_handle())
    for _ in range(3):
        places = [explorer.get_by_text(f"{part}, shape").bounding_box() for part in ("index", "input", "out")]
        assert places[0]["y"] < places[1]["y"] < places[2]["y"] and abs(places[0]["x"] - places[2]["x"]) < 1
        assert explorer.locator(".tk-stage").evaluate("stage => stage.scrollWidth <= stage.clientWidth")
        explorer.get_by_role("button", name="back", exact=True).click()


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
        count, lists = explorer.locator(CONTROL).count(), explorer.locator(".tk-panel select").count()
        for move in (by_keys, by_mouse) if count > lists else (by_keys,):
            assert any(move(page, explorer, control) for control in range(count)), told


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


def test_the_first_picture_moves_by_itself_until_it_is_paused(page: Page, address: str):
    page.goto(f"{address}index.html")
    told, play = page.locator(".hero-told"), page.get_by_role("button", name="Pause")
    first = told.inner_text()
    page.wait_for_function("before => document.querySelector('.hero-told').textContent !== before", arg=first)
    play.press("Space")
    assert page.get_by_role("button", name="Play").is_visible()
    page.get_by_role("button", name="Step").press("Enter")
    stopped = told.inner_text()
    page.wait_for_timeout(2500)  # longer than a step is shown
    assert told.inner_text() == stopped != first
    assert page.locator(".hero-step:visible").count() == 1
    page.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function("before => document.querySelector('.hero-told').textContent !== before", arg=stopped)


def test_it_stands_still_for_who_wants_no_motion(page: Page, address: str):
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{address}index.html")
    page.wait_for_timeout(2500)
    assert "Step 0 of 6" in page.locator(".hero-told").inner_text()
    page.get_by_role("button", name="Step").click()
    assert "Step 1 of 6" in page.locator(".hero-told").inner_text()


def test_the_first_command_is_copied(page: Page, address: str):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}index.html")
    page.locator(".command + button").click()
    page.locator(".command + button", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".command").inner_text()


def test_cards_are_asked_and_remembered(page: Page, address: str):
    page.goto(f"{address}review.html")
    page.get_by_label("Chapter").select_option("03_gather_scatter")
    page.get_by_role("button", name="Begin").press("Enter")
    for number in range(1, 11):
        assert f"Card {number} of 10" in page.locator("#card").inner_text()
        page.get_by_role("button", name="I don't know").press("Enter")
        page.get_by_text("It comes back tomorrow").wait_for()
        assert page.locator("#card .answers button:enabled").count() == 0
        page.locator("#card button:focus").press("Enter")
    assert page.get_by_text("0 of 10 right").is_visible()
    kept = page.evaluate("JSON.parse(localStorage.getItem('torchkata-review'))")
    assert len(kept) == 10 and all(name.startswith("03-") and one["gap"] == 1 for name, one in kept.items())
    page.reload()
    page.get_by_label("Chapter").select_option("03_gather_scatter")
    page.evaluate("Date.now = ((now) => () => now() + 864e5)(Date.now)")  # tomorrow
    page.get_by_role("button", name="Begin").click()
    for _ in range(10):
        page.get_by_role("button", name="I don't know").click()
        page.locator("#card button:focus").click()
    again = page.evaluate("JSON.parse(localStorage.getItem('torchkata-review'))")
    assert again.keys() == kept.keys() and all(again[name]["due"] == kept[name]["due"] + 1 for name in kept)


def test_two_functions_are_asked(page: Page, address: str):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{address}review.html")
    page.evaluate("""() => localStorage.setItem('torchkata-review', JSON.stringify(Object.fromEntries(
        torchkataCards.filter(card => !card.id.includes('-pair-')).map(card => [card.id, {due: 1e6, gap: 1}]))))""")
    page.get_by_label("Chapter").select_option("03_gather_scatter")
    page.get_by_role("button", name="Begin").press("Enter")
    assert page.get_by_text("Do these two ever return different results?").is_visible()
    page.get_by_role("button", name="never").press("Enter")
    page.get_by_text("It comes back").wait_for()
    assert page.get_by_role("link", name="The proof").count() == 0
    fold = page.locator("#card details")
    fold.locator("summary").press("Enter")
    assert fold.locator("pre").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than a phone"


def test_lines_are_put_in_order(page: Page, address: str):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{address}review.html")
    page.evaluate("""() => localStorage.setItem('torchkata-review', JSON.stringify(Object.fromEntries(
        torchkataCards.filter(card => !card.lines).map(card => [card.id, {due: 1e6, gap: 1}]))))""")
    for swapped, told in ((False, "this order works"), (True, "After step, clipping changes nothing any more.")):
        page.get_by_label("Chapter").select_option("11_training_loop")
        page.get_by_role("button", name="Begin").click()
        lines = ["loss = F.mse", "optimizer.zero", "loss.backward", "clip_grad", "optimizer.step", "scheduler.step"]
        lines[3:5] = lines[4:2:-1] if swapped else lines[3:5]
        page.get_by_role("button", name=lines[2]).press("Enter")
        page.get_by_role("button", name="Undo").press("Enter")
        for number, line in enumerate(lines, 1):
            page.get_by_role("button", name=line).press("Enter")
            assert page.get_by_role("button", name=f"{number}. {line}").is_visible()
        page.get_by_role("button", name="Check this order").press("Enter")
        assert page.get_by_text(told).is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than a phone"
        page.evaluate("Date.now = ((now) => () => now() + 864e6)(Date.now)")  # days later


@pytest.mark.parametrize("width", [820, 1280])
def test_a_table_of_contents_follows(page: Page, address: str, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{address}chapters/08_amp.html")
    page.evaluate("scrollTo(0, 20000)")
    page.wait_for_timeout(200)
    contents = page.locator(".toc-tree")
    if not in_view(contents):
        page.locator("label[for=__toc]:visible").last.click()
        page.wait_for_timeout(500)  # it slides in
    assert in_view(contents)


def in_view(part: Locator) -> bool:
    return part.evaluate("""node => {
        const box = node.getBoundingClientRect();
        return box.left >= 0 && box.right <= innerWidth && box.top < innerHeight && box.bottom > 0;
    }""")


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
