"""Values stand where the axis says; what is outside of the frame is brought to its edge."""

import pytest

from torchkata.pictures.kit import Canvas, Plot


@pytest.fixture
def plot():
    return Plot(Canvas(200, 200), left=40, top=20, width=100, height=80, low=-1, high=3)


def test_down(plot):
    assert [plot.down(y) for y in (3, 1, -1)] == [20, 60, 100]
    assert (plot.down(99), plot.down(-99)) == (20, 100)


def test_a_tick_has_a_name_and_a_line_through_the_frame(plot):
    plot.tick(1, "one")
    (line,) = plot.canvas.axes.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([40, 140], [60, 60])
    plot.tick(2, "two", rule=False)
    assert len(plot.canvas.axes.lines) == 1
    assert [text.get_text() for text in plot.canvas.axes.texts] == ["one", "two"]


def test_a_curve_is_drawn_over_the_rules(plot):
    plot.tick(1, "one")
    plot.curve([40, 140], [-1, 5], "#000000", 2)
    rule, curve = plot.canvas.axes.lines
    assert list(curve.get_ydata()) == [100, 20] and curve.get_zorder() > rule.get_zorder()
