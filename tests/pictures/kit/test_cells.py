"""Elements stand side by side in index order; what is too wide is wrapped."""

import pytest

from torchkata.pictures.kit import brackets, grid, position
from torchkata.pictures.style import CELL


def test_a_matrix_stands_in_rows():
    layout = grid((2, 3), 10, 20)
    assert layout.places == [(10 + column * CELL, 20 + row * CELL) for row in range(2) for column in range(3)]
    assert layout.slab_labels == [] and (layout.width, layout.height) == (3 * CELL, 2 * CELL)


def test_the_matrices_of_three_dimensions_stand_side_by_side_with_their_index():
    layout = grid((2, 1, 2), 0, 0)
    assert [label for _, _, label in layout.slab_labels] == ["[0]", "[1]"]
    assert len(set(layout.places)) == 4 and layout.places[2][0] > layout.places[1][0] + CELL


def test_a_long_row_is_wrapped():
    layout = grid((5,), 0, 0, max_width=2 * CELL)
    assert [x for x, _ in layout.places] == [0, CELL, 0, CELL, 0]
    assert layout.width == 2 * CELL


@pytest.mark.parametrize(("number", "index"), [(0, (0, 0, 0)), (3, (0, 1, 0)), (11, (1, 1, 2))])
def test_position_is_the_index_of_an_element(number, index):
    assert position(number, (2, 2, 3)) == index


def test_brackets():
    assert brackets((1, 2)) == "[1][2]" and brackets(()) == ""
