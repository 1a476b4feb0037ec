"""Explorers in a real browser: keys move their pictures, and a screen reader finds names for all of their controls."""

import re

import pytest

from tests.browser.notebook_page import expect

GALLERY = "gallery.ipynb"
ROLES = ("slider", "combobox", "textbox", "spinbutton", "checkbox", "button")
# controls in the order of the page that can get the focus
CONTROLS = "select, input, textarea, button, [role=slider], [role=textbox][contenteditable=true]"
HAS_FOCUS = "control => control === document.activeElement"
pytestmark = pytest.mark.exhaustive("explorers by keys in the browser", thorough=True)


@pytest.fixture
def explorer(open_notebook):
    """Runs the gallery's cell that begins with this call and shows its explorer."""

    def shown(call):
        gallery = open_notebook(GALLERY)
        gallery.run_setup()
        [cell] = [cell for cell in gallery.cells() if cell.kind == "code" and cell.source.startswith(call)]
        gallery.select(cell.index)
        gallery.run_with_keys()
        return gallery.explorer(cell.index)

    return shown


def picture(explorer):
    """The picture as it is shown: its data, its words."""
    image = explorer.locator("img")
    return image.get_attribute("src"), image.get_attribute("alt")


def expect_new_picture(explorer, before):
    """Wait for another picture with other words, and for the same words below it."""
    image = explorer.locator("img")
    expect(image).not_to_have_attribute("alt", before[1])
    expect(image).not_to_have_attribute("src", before[0])
    expect(explorer.get_by_role("status")).to_have_text(image.get_attribute("alt"))


@pytest.mark.parametrize(
    ("call", "role", "name", "key", "words"),
    [
        ("memory_explorer(", "slider", "batch size", "ArrowRight", "batch size 128"),
        ("memory_explorer(", "combobox", "optimizer", "ArrowDown", "SGD with momentum"),
        ("collective_explorer(", "button", "back", "Space", "Step 2 of 3"),
    ],
)
def test_keys_move_the_picture(explorer, page, call, role, name, key, words):
    shown = explorer(call)
    before = picture(shown)
    control = shown.get_by_role(role, name=name)
    control.focus()
    page.keyboard.press(key)
    expect(shown.locator("img")).to_have_attribute("alt", re.compile(words))
    expect_new_picture(shown, before)
    if role == "slider":
        expect(control).to_have_attribute("aria-valuetext", "128")


def test_every_explorer_has_named_controls_that_tab_reaches(open_notebook, page):
    gallery = open_notebook(GALLERY)
    gallery.run_all()
    assert [cell.errors for cell in gallery.cells() if cell.errors] == []
    shown = gallery.explorers()
    assert len(shown) == len([cell for cell in gallery.cells() if cell.kind == "code"]) - 1  # the first imports
    for cell in shown:
        explorer = gallery.explorer(cell.index)
        expect(explorer.get_by_role("status")).not_to_be_empty()
        assert nameless(explorer) == [], cell.source
        assert out_of_reach(explorer, page) == [], cell.source


def nameless(explorer):
    """The lines of the tree that a screen reader sees which hold a control without a name."""
    lines = explorer.aria_snapshot().splitlines()
    is_control = re.compile(rf"\s*- '?({'|'.join(ROLES)})\b")
    controls = [line for line in lines if is_control.match(line)]
    assert controls, "no control at all"
    return [line for line in controls if not re.match(r"""\s*- '?\w+ ".""", line)]


def out_of_reach(explorer, page):
    """The controls that do not get the focus by pressing Tab from the first one on."""
    controls = [c for c in explorer.locator(CONTROLS).all() if c.is_visible() and c.is_enabled()]
    controls[0].focus()
    missed = []
    for control in controls[1:]:
        page.keyboard.press("Tab")
        if not control.evaluate(HAS_FOCUS):
            missed.append(control.evaluate("control => control.outerHTML.slice(0, 200)"))
    return missed
