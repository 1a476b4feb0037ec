"""The script of explorers by itself, on a page with a kernel that is played: what may go wrong between the two."""

from pathlib import Path

import pytest

from tests.browser.notebook_page import expect
from torchkata.pictures.controls import slider, text_field
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas
from torchkata.pictures.packing import pack
from torchkata.pictures.page import picture_html
from torchkata.pictures.show import Picture
from torchkata.tools.site.live_pictures import picture_of, write_assets, write_frames

# a kernel that notes what it is asked, and answers when the test says so
KERNEL = """id => {
    const listeners = [];
    const kernel = { asked: [] };
    kernel.on = (_, tell) => listeners.push(tell);
    kernel.send = (question) => kernel.asked.push(question);
    kernel.answer = (question, words) => listeners.forEach((tell) => tell({
        n: question.n, svg: '<svg viewBox="0 0 9 9"><text>new</text></svg>', words, limits: {},
    }));
    window.kernel = kernel;
    window.torchkataKernels = { [id]: [kernel] };
}"""
BUSY = "Python is busy, or it has ended"


def draw(state):
    canvas = Canvas(200, 40)
    canvas.text(10, 20, f"{state['text']} {state['size']}")
    return Picture(canvas, f"The text {state['text']}, size {state['size']}, in a small picture of a test.")


EXPLORER = Explorer(
    {"text": text_field("text", "abc"), "size": slider("size", 1, 1, 9)},
    [["text", "size"]],
    draw,
    ahead=[{"size": (1, 2, 5)}],
)


def html_of(explorer):
    frames = explorer.frames()
    first = next(iter(frames.values()))
    return picture_html(first.svg, first.words, pack(frames, explorer.spec())), first


@pytest.fixture
def shown(page, tmp_path):
    """The explorer on a page; `page` is open on it."""
    (html, _), _ = html_of(EXPLORER)
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{html}", encoding="utf-8")
    page.goto(file.as_uri())
    explorer = page.locator(".torchkata-picture[data-ready]")
    expect(explorer).to_be_visible()
    return explorer


def play_kernel(page, explorer):
    page.evaluate(KERNEL, explorer.get_attribute("data-id"))


def asked(page):
    return [question["state"] for question in page.evaluate("kernel.asked")]


def test_without_a_kernel_the_nearest_frame_is_shown_and_the_controls_say_so(page, shown):
    size = shown.get_by_role("slider", name="size")
    size.fill("5")
    expect(shown.locator("details p")).to_have_text("The text abc, size 5, in a small picture of a test.")
    expect(size).to_have_attribute("aria-valuetext", "5")
    expect(shown.get_by_text("Without Python only some values are at hand")).to_be_visible()
    size.fill("0")
    expect(shown.locator(".tk-note")).to_be_empty()


def test_a_question_without_an_answer_does_not_block_the_next(page, shown):
    play_kernel(page, shown)
    size = shown.get_by_role("slider", name="size")
    size.fill("5")
    size.fill("6")
    assert asked(page) == [["abc", 5]], "one question at a time"
    expect(shown.get_by_text(BUSY)).to_be_visible()
    size.fill("7")
    assert asked(page) == [["abc", 5], ["abc", 7]]
    page.evaluate("kernel.answer(kernel.asked[0], 'too late')")
    page.evaluate("kernel.answer(kernel.asked[1], 'in time')")
    expect(shown.locator("details p")).to_have_text("in time")
    expect(shown.locator(".tk-note")).to_be_empty()


def test_an_answer_that_was_overtaken_leads_to_the_next_question(page, shown):
    play_kernel(page, shown)
    size = shown.get_by_role("slider", name="size")
    size.fill("5")
    size.fill("6")
    page.evaluate("kernel.answer(kernel.asked[0], 'of six')")
    assert asked(page) == [["abc", 5], ["abc", 6]]
    expect(shown.locator("details p")).not_to_have_text("of six")


def test_a_picture_at_hand_is_not_called_late(page, shown):
    play_kernel(page, shown)
    shown.get_by_role("slider", name="size").fill("5")
    shown.get_by_role("slider", name="size").fill("0")
    page.wait_for_timeout(1800)
    expect(shown.locator(".tk-note")).to_be_empty()


def test_what_is_being_typed_stays_when_an_answer_comes(page, shown):
    play_kernel(page, shown)
    field = shown.get_by_role("textbox", name="text")
    field.fill("first")
    page.keyboard.press("Enter")
    field.fill("second")
    page.evaluate("kernel.answer(kernel.asked[0], 'first drawn')")
    expect(shown.locator("details p")).to_have_text("first drawn")
    expect(field).to_have_value("second")


def test_text_that_looks_like_html_stays_text(page, shown):
    play_kernel(page, shown)
    page.evaluate("window.broken = 0")
    field = shown.get_by_role("textbox", name="text")
    field.fill("<img src=x onerror='window.broken = 1'>")
    page.keyboard.press("Enter")
    state = EXPLORER.state_of(asked(page)[0])
    page.evaluate("words => kernel.answer(kernel.asked[0], words)", draw(state).alt)
    expect(shown.locator("details p")).to_contain_text("<img src=x")
    assert "<img" not in draw(state).svg
    assert page.evaluate("window.broken") == 0


def site_page(folder, pictures, frames):
    write_assets(folder)
    write_frames(folder / "frames", frames)
    file = folder / "page.html"
    script = '<link rel="stylesheet" href="pictures.css"><script defer src="pictures.js"></script>'
    file.write_text(f"<!doctype html><meta charset=utf-8>{script}<body>{''.join(pictures)}", encoding="utf-8")
    return file


@pytest.fixture
def on_the_site():
    """The explorer as the website shows it, and its frames."""
    from nbformat.v4 import new_output

    (html, _), first = html_of(EXPLORER)
    data = {"text/html": html, "text/plain": first.words}
    return picture_of(new_output("display_data", data), "")


def test_twins_on_a_page_of_the_website_both_live(page, tmp_path: Path, on_the_site):
    html, frames = on_the_site
    page.goto(site_page(tmp_path, [html, html], frames).as_uri())
    for explorer in page.locator(".torchkata-picture[data-ready]").all():
        explorer.get_by_role("slider", name="size").fill("1")
        expect(explorer.locator("details p")).to_contain_text("size 2")
    expect(page.locator(".torchkata-picture[data-ready]")).to_have_count(2)


def test_frames_that_do_not_come_are_told(page, tmp_path: Path, on_the_site):
    html, _ = on_the_site
    page.goto(site_page(tmp_path, [html], {}).as_uri())
    expect(page.get_by_text("did not come along")).to_be_visible()
    expect(page.get_by_role("img", name="The text abc")).to_be_visible()
