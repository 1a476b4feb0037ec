"""The explorers as one family: all in the gallery, with one look, and what each shows is what its controls say."""

import ast
import importlib
import pkgutil
import re
from functools import cache

import pytest
from ipywidgets import Button, Checkbox, Dropdown, Output, SelectionSlider, Text, Textarea

import torchkata.pictures
from tests.notebooks import running
from tests.pictures import drawn
from torchkata.pictures import controls as family
from torchkata.pictures import style
from torchkata.pictures.show import Explorer, Picture
from torchkata.tools.course import Page, course_root
from torchkata.tools.source import read_source


def explorers() -> dict[str, str]:
    """The functions of the package that build an explorer, each with its module."""
    found = {}
    for info in pkgutil.iter_modules(torchkata.pictures.__path__):
        module = importlib.import_module(f"torchkata.pictures.{info.name}")
        for name, thing in vars(module).items():
            if name.endswith(("_explorer", "_stepper")) and thing.__module__ == module.__name__:
                found[name] = module.__name__
    return found


@cache
def gallery_cells():
    return read_source(Page(course_root(), "gallery")).cells


def calls_in(source: str) -> list[str]:
    calls = [node.func.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _is_name(node.func)]
    return [name for name in calls if name in explorers()]


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


NAMES = sorted(explorers())
a_further_one = pytest.mark.exhaustive("all states of a further explorer", thorough=True)


def build(name: str) -> Explorer:
    """The explorer as the gallery builds it."""
    space: dict = {}
    setup, cell = (
        next(c for c in gallery_cells() if c.cell_type == "code" and wanted(c)) for wanted in (_sets_up, name_in(name))
    )
    running.run_cell(setup.source, space, "<gallery setup>")
    return running.run_cell(cell.source, space, f"<gallery {name}>")


def _sets_up(cell) -> bool:
    return cell.metadata.get("setup", False)


def name_in(name: str):
    return lambda cell: name in calls_in(cell.source)


# ---------------------------------------------------------------- the page


def test_every_explorer_stands_in_the_gallery_once():
    shown = [name for cell in gallery_cells() if cell.cell_type == "code" for name in calls_in(cell.source)]
    assert sorted(shown) == NAMES and len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_what_to_try_and_the_chapter_stand_above_each(name):
    cells = gallery_cells()
    place = next(n for n, cell in enumerate(cells) if cell.cell_type == "code" and name in calls_in(cell.source))
    text = cells[place - 1].source
    assert re.search(r"^### \S", text, re.M)
    (folder, file) = re.search(r"\[chapter \d\d\]\((\d\d_\w+)/(\w+)\.ipynb\)", text).groups()
    assert f"{name}(" in (course_root() / "solutions" / folder / f"{file}.py").read_text(encoding="utf-8")


# ---------------------------------------------------------------- what is shown is what the controls say


def values_to_try(control) -> list:
    """The first, middle and last value that a control can take; texts also get one that nobody can read."""
    if isinstance(control, Dropdown | SelectionSlider):
        options = [value for _, value in control._options_full]
        return [options[0], options[len(options) // 2], options[-1]]
    if isinstance(control, Checkbox):
        return [not control.value, control.value]
    if isinstance(control, Text | Textarea):
        return [control.value, "nonsense (", control.value]
    middle = control.min + round((control.max - control.min) / 2 / control.step) * control.step
    return [control.min, middle, control.max]


def moves(explorer: Explorer):
    """Move each control through its values and press each button, one move at a time; yields what was moved."""
    for name, control in explorer.controls.items():
        if isinstance(control, Button):
            if not control.disabled:
                control.click()
                yield f"press {name}"
        elif not control.disabled and control.layout.display != "none":
            for value in values_to_try(control):
                control.value = value
                yield f"{name} = {value!r}"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=a_further_one if place % 4 else ()) for place, name in enumerate(NAMES)]
)
def test_each_state_is_drawn_and_in_the_look_of_the_family(name):
    explorer = build(name)
    check_shown(explorer, "at the start")
    for move in moves(explorer):
        check_shown(explorer, move)


def check_shown(explorer: Explorer, move: str) -> None:
    """The picture shown is what a fresh drawing of the controls gives, and it has the colours and letters of all."""
    picture: Picture = explorer._draw()
    svg = picture.svg
    assert drawn.shown(explorer) == svg, f"after {move}: the picture is not that of the controls"
    assert explorer.alt == picture.alt, f"after {move}"
    drawn.check_svg(picture)
    if strange := colours_in(svg) - palette():
        pytest.fail(f"after {move}: colours of its own: {sorted(strange)}")
    assert families_in(svg) <= {"sans", "mono"}, f"after {move}"


def palette() -> set[str]:
    return {value for value in vars(style).values() if isinstance(value, str) and re.fullmatch("#[0-9a-f]{6}", value)}


def colours_in(svg: str) -> set[str]:
    return set(re.findall(r"#[0-9a-f]{6}\b", svg.lower()))


def families_in(svg: str) -> set[str]:
    """ "sans" for the fonts of style.py, "mono" for fixed width, else the list as it stands."""
    sans = ", ".join(f"'{font}'" for font in style.RC["font.sans-serif"]) + ", sans-serif"
    found = set(re.findall(r"font-family: ([^;\"]+)", svg)) | set(re.findall(r"font: (?:\w+ )*[\d.]+px ([^;\"]+)", svg))
    return {"sans" if fonts == sans else "mono" if "monospace" in fonts else fonts for fonts in found}


def test_a_strange_colour_and_font_are_noticed():
    svg = '<svg><path style="fill: #123456"/><text style="font-size: 11px; font-family: \'Comic\'">a</text></svg>'
    assert colours_in(svg) - palette() == {"#123456"}
    assert families_in(svg) == {"'Comic'"}


# ---------------------------------------------------------------- controls


@pytest.mark.parametrize("name", NAMES)
def test_controls_are_labelled_and_look_alike(name):
    explorer = build(name)
    for control in explorer.controls.values():
        assert control.description.strip() and control.tooltip, f"{name}: a control without a label or tooltip"
        if isinstance(control, Button):
            assert (control.layout.width, control.layout.min_width) == ("auto", family.BUTTON)
        elif isinstance(control, Checkbox):
            assert control.layout.width == family.SWITCH and control.indent is False
        else:
            assert control.style.description_width == family.LABEL
            assert control.layout.width in (family.BOX, family.WIDE) and control.layout.max_width == "100%"


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_not_cut_off(name):
    """Up to 19 letters fit into the column of labels at the width that they have on average."""
    for control in build(name).controls.values():
        assert len(control.description) <= (26 if isinstance(control, Checkbox | Button) else 19), control.description


@pytest.mark.parametrize("name", NAMES)
def test_buttons_stand_right_above_the_picture(name):
    explorer = build(name)
    *rows, image, words, _ = explorer.widget.children
    assert (image, words) == (explorer.image, explorer.words)
    assert {c for row in rows for c in row.children} == set(explorer.controls.values())
    if any(isinstance(control, Button) for control in explorer.controls.values()):
        assert all(isinstance(control, Button) for control in rows[-1].children)


@pytest.mark.parametrize("name", NAMES)
def test_the_script_that_names_the_sliders_comes_along(name):
    explorer = build(name)
    helper = explorer.widget.children[-1]
    assert isinstance(helper, Output) and helper.layout.display == "none"
    assert "torchkata-explorer" in explorer.widget._dom_classes and "torchkata-words" in explorer.words._dom_classes
    (output,) = helper.outputs
    script = output["data"]["application/javascript"]
    assert "aria-label" in script and "role', 'status'" in script and "data-lm-suppress-shortcuts" in script


# ---------------------------------------------------------------- contrast


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, two: str) -> float:
    """Contrast ratio as WCAG 2.2 defines it: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_formula_on_known_pairs():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("ink", ["INK", "SOFT_INK", "ERROR_INK"])
def test_letters_stand_out_from_the_card(ink):
    assert contrast(getattr(style, ink), style.CARD) >= 4.5


@pytest.mark.parametrize("fill", ["SKY", "ORANGE", "GREEN", "PURPLE", "YELLOW", "BLANK", "UNUSED"])
def test_letters_stand_out_from_cells(fill):
    assert contrast(style.INK, getattr(style, fill)) >= 4.5


def test_edges_and_curves_stand_out_from_the_card():
    for line in (style.EDGE, style.INK, style.CURVE, style.ERROR_INK):
        assert contrast(line, style.CARD) >= 3
