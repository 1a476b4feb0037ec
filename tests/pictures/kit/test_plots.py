"""Values stand where the axis says; what is outside of the frame is brought to its edge."""

import pytest

from torchkata.pictures.kit import Canvas, Plot
from torchkata.pictures.kit.shapes import Line, Words


@pytest.fixture
def plot():
    return Plot(Canvas(200, 200), left=40, top=20, width=100, height=80, low=-1, high=3)


def test_down(plot):
    assert [plot.down(y) for y in (3, 1, -1)] == [20, 60, 100]
    assert (plot.down(99), plot.down(-99)) == (20, 100)


def lines_of(canvas):
    return [shape for shape in canvas.shapes if isinstance(shape, Line)]


def test_a_tick_has_a_name_and_a_line_through_the_frame(plot):
    plot.tick(1, "one")
    (line,) = lines_of(plot.canvas)
    assert (line.xs, line.ys) == ([40, 140], [60, 60])
    plot.tick(2, "two", rule=False)
    assert len(lines_of(plot.canvas)) == 1
    assert [shape.words for shape in plot.canvas.shapes if isinstance(shape, Words)] == ["one", "two"]


def test_a_curve_is_drawn_over_the_rules(plot):
    plot.tick(1, "one")
    plot.curve([40, 140], [-1, 5], "#000000", 2)
    rule, curve = lines_of(plot.canvas)
    assert curve.ys == [100, 20] and curve.level > rule.level
