"""Explorers in a real browser: keys move them, Python draws what was not drawn ahead, and they outlive Python."""

import json
import re

import pytest

from tests.axe import faults_in
from tests.browser.notebook_page import expect

GALLERY = "gallery.ipynb"
ROLES = ("slider", "combobox", "textbox", "checkbox", "button")
HAS_FOCUS = "control => control === document.activeElement"
DARK = """() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"""
LIGHT = """() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})"""
# how a letter stands out from the card, as WCAG counts it
CONTRAST = """picture => {
    const numbers = (node, what) => getComputedStyle(node)[what].match(/[0-9.]+/g).slice(0, 3).map(Number);
    const light = rgb => rgb.map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
    const card = light(numbers(picture.querySelector('svg > rect'), 'fill'));
    return Math.min(...[...picture.querySelectorAll('svg text')].map(text => {
        const [dark, bright] = [card, light(numbers(text, 'fill'))].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    }));
}"""
pytestmark = pytest.mark.exhaustive("explorers in the browser", thorough=True)


@pytest.fixture
def gallery(open_notebook):
    """The gallery with its imports run."""
    notebook = open_notebook(GALLERY)
    notebook.run_setup()
    return notebook


def place_of(notebook, call):
    """The number of the cell that begins with this call."""
    [cell] = [cell for cell in notebook.cells() if cell.kind == "code" and cell.source.startswith(call)]
    return cell.index


def run(notebook, call):
    """Run the cell that begins with this call; its explorer."""
    index = place_of(notebook, call)
    notebook.select(index)
    notebook.run_with_keys()
    return notebook.explorer(index)


def words(explorer):
    return explorer.get_by_role("img").first.get_attribute("aria-label")


def expect_words(explorer, pattern):
    """Wait until the picture's words say this, for the eye and for a screen reader."""
    drawing = explorer.get_by_role("img").first
    expect(drawing).to_have_attribute("aria-label", re.compile(pattern))
    expect(explorer.locator(".tk-said")).to_have_text(words(explorer))
    expect(explorer.locator("details p")).to_have_text(words(explorer))


def test_keys_move_the_picture(gallery, page):
    memory, ring = run(gallery, "memory_explorer("), run(gallery, "ring_stepper(")
    for explorer, role, name, key, told in (
        (memory, "slider", "batch size", "ArrowRight", "batch size 128"),
        (memory, "combobox", "optimizer", "ArrowDown", "SGD with momentum"),
        (ring, "button", "step", "Space", "Step 1 of 6"),
    ):
        control = explorer.get_by_role(role, name=name, exact=True)
        control.focus()
        page.keyboard.press(key)
        expect_words(explorer, told)
        assert control.evaluate(HAS_FOCUS)
        if role == "slider":
            expect(control).to_have_attribute("aria-valuetext", "128")


def test_python_draws_what_was_not_drawn_ahead(gallery, page):
    explorer = run(gallery, "attention_explorer(")
    explorer.get_by_role("textbox", name="text").fill("A name of my own")
    page.keyboard.press("Enter")
    expect_words(explorer, "the letter 'n'")
    expect(explorer.locator(".tk-note")).to_be_empty()
    explorer.get_by_role("slider", name="position").fill("3")
    expect_words(explorer, "position 3 looks at, the letter 'a'")


def test_the_next_day_it_is_alive_without_python(gallery, page, lab):
    """Kernel ended, notebook opened again: frames answer, a text of one's own gets a sentence, nothing is an error."""
    index = place_of(gallery, "attention_explorer(")
    run(gallery, "attention_explorer(")
    gallery.save()
    lab.end_kernels()
    gallery.open()
    explorer = gallery.explorer(index)
    explorer.get_by_role("slider", name="position").fill("3")
    expect_words(explorer, "position 3 looks at, the letter '␣'")
    field = explorer.get_by_role("textbox", name="text")
    before = field.input_value()
    field.fill("A name of my own")
    page.keyboard.press("Enter")
    expect(explorer.get_by_text("A text of your own is drawn by Python")).to_be_visible()
    expect(field).to_have_value(before)
    assert page.get_by_text("Error displaying widget").count() == 0


def test_a_notebook_that_is_not_trusted_shows_the_picture(gallery, lab):
    index = place_of(gallery, "ring_stepper(")
    run(gallery, "ring_stepper(")
    gallery.save()
    lab.end_kernels()
    file = lab.workbook / GALLERY
    changed = json.loads(file.read_text(encoding="utf-8"))
    shown = changed["cells"][index]["outputs"][0]["data"]["text/html"]
    changed["cells"][index]["outputs"][0]["data"]["text/html"] = [*shown, "\n"]  # as somebody else's machine saved it
    file.write_text(json.dumps(changed), encoding="utf-8")
    gallery.open()
    cell = gallery.at(index)
    cell.scroll_into_view_if_needed()
    picture = cell.locator(".jp-OutputArea img")
    expect(picture).to_be_visible()
    assert "Ring all-reduce" in picture.get_attribute("alt")
    expect(cell.get_by_text("Run this cell to make the picture move.")).to_be_visible()


def test_every_explorer_has_named_controls_that_tab_reaches_in_light_and_dark(gallery, page):
    gallery.run_all()
    assert [cell.errors for cell in gallery.cells() if cell.errors] == []
    shown = gallery.pictures()
    assert len(shown) == len([cell for cell in gallery.cells() if cell.kind == "code" and cell.source]) - 1  # imports
    for theme in (DARK, LIGHT):
        page.evaluate(theme)
        for cell in shown:
            explorer = gallery.explorer(cell.index)
            assert explorer.evaluate(CONTRAST) >= 4.5, cell.source
    for cell in shown:
        explorer = gallery.explorer(cell.index)
        expect(explorer.get_by_role("img").first).to_be_visible()
        assert nameless(explorer) == [], cell.source
        assert out_of_reach(explorer, page) == [], cell.source
        assert faults_in(page, f'[data-id="{explorer.get_attribute("data-id")}"]') == [], cell.source


def nameless(explorer):
    """The lines of the tree that a screen reader sees which hold a control without a name."""
    lines = explorer.aria_snapshot().splitlines()
    is_control = re.compile(rf"\s*- '?({'|'.join(ROLES)})\b")
    controls = [line for line in lines if is_control.match(line)]
    assert controls, "no control at all"
    return [line for line in controls if not re.match(r"""\s*- '?\w+ ".""", line)]


def out_of_reach(explorer, page):
    """The controls that do not get the focus by pressing Tab from the first one on."""
    controls = [c for c in explorer.locator(".tk-panel :is(select, input, textarea, button)").all() if c.is_visible()]
    controls[0].focus()
    missed = []
    for control in controls[1:]:
        page.keyboard.press("Tab")
        if not control.evaluate(HAS_FOCUS):
            missed.append(control.evaluate("control => control.outerHTML.slice(0, 200)"))
    return missed
