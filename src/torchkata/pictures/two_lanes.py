"""What Python queues and what a GPU works on, in two lanes on one line of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import nan

from torchkata.instruments.lanes import Call, Span, lanes, totals
from torchkata.pictures.controls import choice, notched_slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CURVE, EDGE, ERROR_INK, GREEN, INK, MARGIN, SKY, UNUSED

LEFT, LENGTH, TOP, LANE, GAP = 70, 510, 62, 30, 22
BATCHES = {"64": 2, "512": 8, "4096": 30}  # batch: µs of a kernel
LAUNCHES = (2, 6, 12)
READS = {"never": 0, "every 3rd step": 3, "every step": 1}
STEPS, KERNELS = 6, 7


def program(work: float, launch: float, reads: int) -> list[Call]:
    """Six steps of seven kernels; the last of every n-th step waits."""
    calls: list[Call] = []
    for step in range(1, STEPS + 1):
        calls += [(launch, work, False)] * (KERNELS - 1)
        calls.append((launch, work, bool(reads) and step % reads == 0))
    return calls


def draw_lanes(calls: Sequence[Call], depth: float = math.inf, title: str = "", marked: int | None = None) -> Picture:
    """Draw a program; `marked` is the number of a call that is outlined in Python's lane."""
    spans = lanes(calls, depth)
    sums = totals(spans)
    scale = LENGTH / max(sums.total, 1)
    gpu = TOP + LANE + GAP
    canvas = Canvas(LEFT + LENGTH + MARGIN, gpu + LANE + 62)
    canvas.title(title or "Two lanes")
    legend = "blue: queues a kernel; grey: stands still; green: the GPU works; red line: waits for the GPU"
    canvas.note(MARGIN, 42, legend if marked is None else f"{legend}; outlined: Python's own work")
    canvas.text(MARGIN, TOP + LANE / 2, "Python", weight="bold")
    canvas.text(MARGIN, gpu + LANE / 2, "GPU", weight="bold")
    _lane(canvas, TOP, [(s.begins, s.queued) for s in spans], scale, SKY)
    still = [pair for s in spans for pair in ((s.held_from, s.begins), (s.queued, s.goes_on)) if pair[1] > pair[0]]
    _lane(canvas, TOP, still, scale, UNUSED)
    _lane(canvas, gpu, [(s.starts, s.ends) for s in spans if s.starts is not None and s.ends is not None], scale, GREEN)
    waits = [span.goes_on for span, (_, _, waits) in zip(spans, calls, strict=True) if waits]
    for when in waits:
        x = round(LEFT + when * scale, 1)
        canvas.line([x, x], [TOP - 4, gpu + LANE + 4], ERROR_INK, 1.4, level=5)
    if marked is not None:
        _outline(canvas, spans[marked], scale)
    y = gpu + LANE + 20
    canvas.text(MARGIN, y, f"total {sums.total:,.0f} µs", weight="bold")
    canvas.text(MARGIN, y + 17, f"the GPU is idle for {sums.idle:,.0f} µs between its kernels")
    canvas.text(LEFT + LENGTH, y + 17, f"Python stands still for {sums.stalled:,.0f} µs", align="right")
    return Picture(canvas, _in_words(title, sums.total, sums.idle, sums.stalled, len(calls), len(waits)))


def lanes_explorer() -> Explorer:
    """Build the explorer: batch, launch cost, how often the loss is read, how long the queue is."""
    controls = {
        "batch size": choice("batch size", [(name, work) for name, work in BATCHES.items()], 8),
        "launch": notched_slider("µs to queue", LAUNCHES, 6),
        "reads": choice("read the loss", list(READS.items()), 1),
    }

    def draw(state):
        calls = program(state["batch size"], state["launch"], state["reads"])
        batch = next(name for name, work in BATCHES.items() if work == state["batch size"])
        how = next(name for name, reads in READS.items() if reads == state["reads"])
        title = f"Six steps of seven kernels of {state['batch size']} µs (batch {batch}), loss read {how}"
        return draw_lanes(calls, title=title)

    return Explorer(controls, [["batch size", "launch"], ["reads"]], draw)


def gap_every_third() -> Picture:
    """Draw a trace of nine steps in which every third waits for something of Python's own."""
    calls: list[Call] = []
    for step in range(1, 10):
        calls += [(6, 14, False)] * 6
        if step % 3 == 0:
            calls += [(4, 0, True), (90, 0, False)]
    marked = next(number for number, (launch, _, _) in enumerate(calls) if launch == 90)
    return draw_lanes(calls, title="A gap after every third step, and its cause in the lane above", marked=marked)


def _lane(canvas: Canvas, y: float, pairs: Sequence[tuple[float, float]], scale: float, colour: str) -> None:
    """Boxes of one colour as one line, broken between them, with thin edges at their right ends."""
    if not pairs:
        return
    xs: list[float] = []
    edges: list[float] = []
    for start, end in pairs:
        left, right = round(LEFT + start * scale, 1), round(LEFT + end * scale, 1)
        xs += [left, max(right, left + 0.6), nan]
        edges += [right, right, nan]
    middle = y + LANE / 2
    canvas.line(xs, [middle, middle, nan] * len(pairs), colour, LANE, level=3)
    if colour != UNUSED:
        canvas.line(edges, [y, y + LANE, nan] * len(pairs), EDGE, 0.5, level=4)


def _outline(canvas: Canvas, span: Span, scale: float) -> None:
    left, right = (round(LEFT + when * scale, 1) for when in (span.begins, span.queued))
    xs, ys = [left, right, right, left, left], [TOP, TOP, TOP + LANE, TOP + LANE, TOP]
    canvas.line(xs, ys, INK, 2, level=6)
    below = [TOP + LANE, TOP + 2 * LANE + GAP, nan]
    canvas.line([left, left, nan, right, right, nan], below * 2, CURVE, 1, level=6, dashes=(0, (3, 2)))


def _in_words(title: str, total: float, idle: float, stalled: float, calls: int, waits: int) -> str:
    return (
        f"{title or 'Two lanes'}. {calls} calls, of which {waits} wait. Total {total:,.0f} microseconds; the GPU is "
        f"idle "
        f"for {idle:,.0f}, Python stands still for {stalled:,.0f}."
    )
