"""All pictures draw with the kit, and what it draws is what was asked for."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import torchkata.pictures
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.style import SMALL, SOFT_INK

FOLDER = Path(torchkata.pictures.__file__).parent
PICTURES = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "show.py")


@pytest.mark.parametrize("file", PICTURES)
def test_only_the_kit_and_show_meet_matplotlib(file):
    source = (FOLDER / file).read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|from) matplotlib|\.axes\b", source, re.M)


def test_lines_stand_below_one_another():
    canvas = Canvas(100, 100)
    canvas.lines(10, 20, ["one", "two", "three"], SMALL, step=13)
    texts = canvas.axes.texts
    assert [text.get_text() for text in texts] == ["one", "two", "three"]
    heights = [text.get_position()[1] for text in texts]
    assert [b - a for a, b in pairwise(heights)] == pytest.approx([13, 13])


def test_notes_are_small_and_soft():
    canvas = Canvas(100, 100)
    canvas.notes(10, 20, ["one", "two"])
    assert {(text.get_size(), text.get_color()) for text in canvas.axes.texts} == {(SMALL, SOFT_INK)}


def test_marked_cells_stand_above_the_others():
    canvas = Canvas(100, 100)
    canvas.cells([Cell(10, 10, "a", marked=True), Cell(40, 10, "b")])
    plain, marked = canvas.axes.collections
    assert plain.get_zorder() < marked.get_zorder() and plain.get_linewidth() < marked.get_linewidth()


def test_a_ruler_numbers_the_middle_of_each_cell():
    canvas = Canvas(200, 100)
    canvas.ruler(20, 10, "cell", 3)
    assert [(text.get_text(), text.get_position()[0]) for text in canvas.axes.texts] == [
        ("cell", 12),
        ("0", 32),
        ("1", 56),
        ("2", 80),
    ]
