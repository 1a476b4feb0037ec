"""One training step of a rank: what it computes, what travels meanwhile, and how long it waits for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, PURPLE, SKY, UNUSED

LEFT, LENGTH = MARGIN + 62, 520
TOP, LANE, BLOCK, CASE = 66, 28, 22, 96  # points: the first lane, from lane to lane, a box's height, from case to case
LEGEND = "F: forward. B: backward. Grey: waits. Lower lane: a box for each bucket on its way."

Step = tuple[float, float, Sequence[tuple[float, float]]]  # in seconds: ends of forward and backward, then the sends


def waiting(step: Step) -> float:
    """The seconds from the end of backward until the last bucket has arrived."""
    _, computed, sends = step
    return max(0.0, sends[-1][1] - computed)


def overlap(steps: Mapping[str, Step]) -> Picture:
    """Draw steps below one another on one scale of time, each under its name."""
    longest = max(computed + waiting((0, computed, sends)) for _, computed, sends in steps.values())
    canvas = Canvas(LEFT + LENGTH + MARGIN, TOP + len(steps) * CASE + 6)
    canvas.title("What a step computes, and what it sends meanwhile")
    told = []
    for number, (name, step) in enumerate(steps.items()):
        top = TOP + number * CASE
        forward, computed, sends = step
        summary = f"{name}: computes {_ms(computed)}, waits {_ms(waiting(step))}"
        canvas.text(MARGIN, top - 14, summary, weight="bold")
        spans = [(0.0, forward, "F", SKY), (forward, computed, "B", ORANGE)]
        if waiting(step):
            spans.append((computed, sends[-1][1], "waits", UNUSED))
        cells = [_box(start, end, longest, top, label, fill) for start, end, label, fill in spans]
        cells += [_box(start, end, longest, top + LANE, "", PURPLE) for start, end in sends]
        canvas.cells(cells)
        canvas.text(MARGIN, top + BLOCK / 2, "computes")
        canvas.text(MARGIN, top + LANE + BLOCK / 2, "sends")
        told.append(f"{summary}; {len(sends)} buckets travel from {_ms(sends[0][0])} to {_ms(sends[-1][1])}")
    canvas.note(MARGIN, canvas.height - 14, LEGEND)
    return Picture(canvas, f"What a step computes, and what it sends meanwhile. {'. '.join(told)}.")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _box(start: float, end: float, longest: float, y: float, label: str, fill: str) -> Cell:
    left, right = (round(64 * (LEFT + LENGTH * when / longest)) / 64 for when in (start, end))  # neighbours touch
    fits = right - left >= 6 * len(label) + 3
    return Cell(left, y, label if fits else "", fill, width=right - left, height=BLOCK)
