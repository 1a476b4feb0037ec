"""The explorers as one family: all in the gallery, with one look, and what each shows is what its controls say."""

import ast
import importlib
import pkgutil
import re
from functools import cache

import pytest

import torchkata.pictures
from tests.notebooks import running
from tests.pictures import drawn
from torchkata.pictures import style
from torchkata.pictures.controls import FIELD, STEPS, SWITCH, Control
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.show import Picture
from torchkata.tools.course import SideNotebook, course_root
from torchkata.tools.placing import here
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
    return read_source(SideNotebook(here(), "gallery")).cells


def calls_in(source: str) -> list[str]:
    calls = [node.func.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _is_name(node.func)]
    return [name for name in calls if name in explorers()]


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


NAMES = sorted(explorers())
SHOWN_LATER = {
    "graph_explorer": ["gradient"]
}  # controls that show in the next step only: here once backward is pressed


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
    (folder, file) = re.search(r"\[chapter\s\d\d\]\((\d\d_\w+)/(\w+)\.ipynb\)", text).groups()
    assert f"{name}(" in (course_root() / "solutions" / folder / f"{file}.py").read_text(encoding="utf-8")


# ---------------------------------------------------------------- what is shown is what the controls say


def values_to_try(control: Control) -> list:
    """The first, middle and last value that a control can take; texts also get one that nobody can read."""
    if control.kind == FIELD:
        return [control.start, "nonsense (", control.start]
    return [control.values[0], control.values[len(control.values) // 2], control.values[-1]]


@pytest.mark.parametrize("name", NAMES)
def test_each_state_is_drawn_in_the_look_of_the_family(name):
    """Each control goes through its values, one move at a time; each state drawn twice gives the same."""
    player = drawn.Player(build(name))
    for control, told in player.explorer.controls.items():
        for value in values_to_try(told):
            check_shown(player.set(control, value), player.shown, f"{control} = {value!r}")


def check_shown(picture: Picture, again: Picture, move: str) -> None:
    svg = picture.svg
    assert (again.svg, again.alt) == (svg, picture.alt), f"after {move}: the picture is not that of the controls"
    drawn.check_svg(picture)
    if strange := colours_in(svg) - palette():
        pytest.fail(f"after {move}: colours of its own: {sorted(strange)}")
    assert families_in(svg) <= {style.FONTS, style.MONOSPACE}, f"after {move}"


@pytest.mark.parametrize("name", NAMES)
def test_every_control_redraws(name):
    """As it starts, or once another control has been moved: the seed of a shuffle shows where there is a shuffle."""
    explorer = build(name)
    idle = [control for control in explorer.controls if not redraws(explorer, control, {})]
    for other, told in explorer.controls.items():
        for value in told.values if idle else ():
            idle = [control for control in idle if not redraws(explorer, control, {other: value})]
    assert idle == SHOWN_LATER.get(name, [])


def redraws(explorer: Explorer, control: str, before: dict[str, object]) -> bool:
    """Whether the picture follows a control, after these moves of others."""
    player = drawn.Player(explorer)
    for other, value in before.items():
        player.set(other, value)
    return len({player.set(control, value).svg for value in values_to_try(explorer.controls[control])}) > 1


@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_ahead_fits_into_a_notebook_and_is_what_is_drawn_when_asked(name):
    drawn.check_explorer(build(name))


def palette() -> set[str]:
    return {value for value in vars(style).values() if isinstance(value, str) and re.fullmatch("#[0-9a-f]{6}", value)}


def colours_in(svg: str) -> set[str]:
    return set(re.findall(r"#[0-9a-f]{6}\b", svg.lower()))


def families_in(svg: str) -> set[str]:
    return set(re.findall(r'font-family="([^"]+)"', svg))


def test_a_strange_colour_and_font_are_noticed():
    svg = '<svg><path fill="#123456"/><text font-size="11" font-family="Comic">a</text></svg>'
    assert colours_in(svg) - palette() == {"#123456"}
    assert families_in(svg) == {"Comic"}


# ---------------------------------------------------------------- controls


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_not_cut_off(name):
    """Up to 19 letters fit into the column of labels at the width that they have on average."""
    for control in build(name).controls.values():
        if control.kind == STEPS:
            assert all(0 < len(button) <= 26 for button in control.buttons.values())
        else:
            assert 0 < len(control.label) <= (26 if control.kind == SWITCH else 19), control.label


@pytest.mark.parametrize("name", NAMES)
def test_buttons_stand_in_rows_of_their_own_and_right_above_the_picture(name):
    explorer = build(name)
    kinds = [[explorer.controls[control].kind for control in row] for row in explorer.rows]
    assert sorted(explorer.controls) == sorted(control for row in explorer.rows for control in row)
    assert all(STEPS not in row or set(row) == {STEPS} for row in kinds)
    assert STEPS in kinds[-1] or all(STEPS not in row for row in kinds)


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


INKS = ("INK", "SOFT_INK", "ERROR_INK")
UNDER_LETTERS = ("SKY", "ORANGE", "GREEN", "PURPLE", "YELLOW", "BLANK", "UNUSED")


def shades(name: str) -> list[str]:
    """A colour by day and in the dark."""
    colour = getattr(style, name)
    return [colour, style.DARK[colour]]


@pytest.mark.parametrize("ink", INKS)
def test_letters_stand_out_from_the_card(ink):
    for letters, card in zip(shades(ink), shades("CARD"), strict=True):
        assert contrast(letters, card) >= 4.5


@pytest.mark.parametrize("fill", UNDER_LETTERS)
def test_letters_stand_out_from_cells(fill):
    for letters, cell in zip(shades("INK"), shades(fill), strict=True):
        assert contrast(letters, cell) >= 4.5


@pytest.mark.parametrize("line", ["EDGE", "INK", "CURVE", "ERROR_INK"])
def test_edges_and_curves_stand_out_from_the_card(line):
    for one, card in zip(shades(line), shades("CARD"), strict=True):
        assert contrast(one, card) >= 3


def test_every_colour_has_one_for_the_dark():
    assert set(style.DARK) == {value for name, value in vars(style).items() if name.isupper() and is_colour(value)}


def is_colour(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("#[0-9a-f]{6}", value) is not None
