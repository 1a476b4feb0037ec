"""All pictures draw with the kit, and what it draws is what was asked for."""

import re
from itertools import pairwise
from math import nan
from pathlib import Path
from xml.etree import ElementTree

import pytest

import torchkata.pictures
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.kit.shapes import Box, Line, Words, number
from torchkata.pictures.style import ORANGE, SMALL, SOFT_INK

FOLDER = Path(torchkata.pictures.__file__).parent
PICTURES = sorted(path.name for path in FOLDER.glob("*.py"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("file", PICTURES)
def test_no_picture_meets_matplotlib_or_widgets(file):
    source = (FOLDER / file).read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|from) (matplotlib|ipywidgets)", source, re.M)


def texts_of(canvas):
    return [shape for shape in canvas.shapes if isinstance(shape, Words)]


def test_lines_stand_below_one_another():
    canvas = Canvas(100, 100)
    canvas.lines(10, 20, ["one", "two", "three"], SMALL, step=13)
    texts = texts_of(canvas)
    assert [text.words for text in texts] == ["one", "two", "three"]
    assert [b.y - a.y for a, b in pairwise(texts)] == pytest.approx([13, 13])


def test_notes_are_small_and_soft():
    canvas = Canvas(100, 100)
    canvas.notes(10, 20, ["one", "two"])
    assert {(text.size, text.color) for text in texts_of(canvas)} == {(SMALL, SOFT_INK)}


def test_marked_cells_stand_above_the_others():
    canvas = Canvas(100, 100)
    canvas.cells([Cell(10, 10, "a", marked=True), Cell(40, 10, "b")])
    marked, plain = (shape for shape in canvas.shapes if isinstance(shape, Box))
    assert plain.level < marked.level and plain.line < marked.line
    drawn = [node for node in ElementTree.fromstring(canvas.svg()) if node.tag == f"{SVG}rect"]
    assert [node.get("x") for node in drawn] == ["0.5", "40", "10"]  # the card, the plain one, then the marked one


def test_a_ruler_numbers_the_middle_of_each_cell():
    canvas = Canvas(200, 100)
    canvas.ruler(20, 10, "cell", 3)
    assert [(text.words, text.x) for text in texts_of(canvas)] == [("cell", 12), ("0", 32), ("1", 56), ("2", 80)]


def test_words_with_signs_of_html_are_words():
    canvas = Canvas(100, 100)
    canvas.text(10, 10, 'a < b & "c"  d')
    (text,) = ElementTree.fromstring(canvas.svg()).iter(f"{SVG}text")
    assert text.text == 'a < b & "c"  d'


def test_a_line_is_broken_at_nan_and_keeps_the_ends_of_straight_parts():
    canvas = Canvas(100, 100)
    canvas.line([0, 1, 2, 3, 4, 5, 6], [5, 5, 5, nan, 5, 6, 7])
    (path,) = ElementTree.fromstring(canvas.svg()).iter(f"{SVG}path")
    assert path.get("d") == "M0 5L2 5 M4 5L5 6L6 7"


def test_a_line_that_turns_back_keeps_its_turning_point():
    assert 'd="M0 0L9 0L4 0"' in Line([0, 9, 4], [0, 0, 0], SOFT_INK, 1, 1).svg()


def test_dashes_are_counted_in_widths():
    assert 'stroke-dasharray="6 3"' in Line([0, 9], [0, 0], SOFT_INK, 1.5, 1, dashes=(0, (4, 2))).svg()


def test_signs_stand_around_their_points():
    canvas = Canvas(100, 100)
    canvas.marks([10], [20], "+", 8, ORANGE, 1)
    canvas.marks([10], [20], "o", 8, ORANGE, 1)
    cross, disc = ElementTree.fromstring(canvas.svg()).iter(f"{SVG}path")
    assert cross.get("d") == "M6 20L14 20M10 16L10 24" and cross.get("fill") == "none"
    assert disc.get("d") == "M6 20a4 4 0 1 0 8 0a4 4 0 1 0 -8 0" and disc.get("fill") == ORANGE


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (-0.001, "0"), (2.345, "2.35"), (100, "100"), (0.5, "0.5")])
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_a_cell_that_moves_says_where_it_came_from():
    canvas = Canvas(100, 100)
    canvas.cells([Cell(10, 10, "a", came=(-24, 0)), Cell(40, 10, "b")])
    nodes = list(ElementTree.fromstring(canvas.svg()))
    assert [node.get("data-from") for node in nodes] == [None, "-24 0", None, "-24 0", None]
