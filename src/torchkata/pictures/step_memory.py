"""Memory over a training step: what is alive after each operation, by kind, and the moment of the peak."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import nan

from torchkata.instruments.step_film import KINDS, OPTIMIZERS, Frame, memory_film, peak_of
from torchkata.pictures.controls import choice, notched_slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell, Plot
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, INK, MARGIN, ORANGE, PURPLE, SKY, YELLOW

FILLS = dict(zip(KINDS, (SKY, ORANGE, GREEN, PURPLE, YELLOW), strict=True))
BATCHES, SEGMENTS = (16, 128, 1024), (0, 2, 4, 8)
COLUMNS = {"forward": 9, "backward": 16, "step": 8}
MIB = 1 << 20
FULL = 8.5 * MIB  # bytes at the upper edge of the frame
LEFT, TOP, COLUMN, HEIGHT = 58, 84, 15.0, 190


def columns(film: Sequence[Frame]) -> list[Frame]:
    """The frames of a film, gathered into a few columns for each phase: of those in a column the largest."""
    found = []
    for phase, count in COLUMNS.items():
        frames = [frame for frame in film if frame.phase == phase]
        for column in range(min(count, len(frames))):
            part = frames[column * len(frames) // count : (column + 1) * len(frames) // count]
            found.append(max(part or frames[-1:], key=lambda frame: frame.total))
    return found


def step_memory(batch: int, segments: int = 0, optimizer: str = "Adam") -> Picture:
    """Draw a step of eight layers; the scale is the same for every batch, plan and optimizer."""
    film = memory_film(batch, segments, optimizer)
    peak, shown = film[peak_of(film)], columns(film)
    width = len(shown) * COLUMN
    canvas = Canvas(LEFT + sum(COLUMNS.values()) * COLUMN + MARGIN, TOP + HEIGHT + 66)
    plan = f", {segments} segments" if segments else ""
    canvas.title(f"One step of eight layers, batch {batch}{plan}, {optimizer}")
    _legend(canvas)
    plot = Plot(canvas, LEFT, TOP, width, HEIGHT, 0, FULL)
    plot.frame()
    for size in (2, 4, 6, 8):
        plot.tick(size * MIB, f"{size} MiB")
    for number, kind in enumerate(KINDS):
        _bars(plot, shown, number, FILLS[kind])
    _phases(canvas, shown)
    place = LEFT + (next(n for n, frame in enumerate(shown) if frame.total == peak.total) + 0.5) * COLUMN
    canvas.line([place, place], [TOP, plot.down(peak.total) - 2], INK, 1, level=5)
    canvas.text(MARGIN, TOP + HEIGHT + 36, _summary(peak), weight="bold")
    canvas.note(MARGIN, TOP + HEIGHT + 52, f"There, in MiB: {_holders(peak)}.")
    return Picture(canvas, f"Memory over one step of eight layers, batch {batch}{plan}, {optimizer}. {_words(film)}")


def step_memory_explorer(batch: int = 1024) -> Explorer:
    """Build the explorer: the batch, how many segments are checkpointed, the optimizer."""
    controls = {
        "batch size": notched_slider("batch size", BATCHES, batch),
        "segments": choice("checkpointed", [("nothing", 0), *((f"{n} segments", n) for n in SEGMENTS[1:])], 0),
        "optimizer": choice("optimizer", OPTIMIZERS, "Adam"),
    }
    return Explorer(
        controls,
        [["batch size", "segments"], ["optimizer"]],
        lambda state: step_memory(state["batch size"], state["segments"], state["optimizer"]),
    )


def _bars(plot: Plot, shown: Sequence[Frame], number: int, colour: str) -> None:
    """The part of one kind in all columns, as one line that is broken between them."""
    xs: list[float] = []
    ys: list[float] = []
    for column, frame in enumerate(shown):
        ends = [0, *accumulate(frame.bytes[kind] for kind in KINDS)]
        if ends[number + 1] > ends[number]:
            x = LEFT + (column + 0.5) * COLUMN
            xs += [x, x, nan]
            ys += [round(plot.down(ends[number]), 1), round(plot.down(ends[number + 1]), 1), nan]
    if xs:
        plot.canvas.line(xs, ys, colour, COLUMN - 1, level=3)


def _legend(canvas: Canvas) -> None:
    x: float = MARGIN
    for kind, fill in FILLS.items():
        canvas.cells([Cell(x, 36, "", fill, width=14, height=14)])
        canvas.text(x + 19, 43, kind)
        x += 30 + 6.4 * len(kind)
    canvas.note(
        MARGIN,
        66,
        "Bytes alive: each column shows the highest of a few operations. The line from above marks the peak.",
    )


def _phases(canvas: Canvas, shown: Sequence[Frame]) -> None:
    y = TOP + HEIGHT + 14
    begins = 0
    for phase in COLUMNS:
        count = sum(frame.phase == phase for frame in shown)
        canvas.text(LEFT + (begins + count / 2) * COLUMN, y, phase, align="center")
        begins += count
        if begins < len(shown):
            x = LEFT + begins * COLUMN
            canvas.line([x, x], [TOP, y + 6], INK, 0.8, level=4)


def _summary(peak: Frame) -> str:
    return f"Peak: {peak.total / MIB:.2f} MiB, after {peak.operation} in {_phase(peak)}"


def _phase(frame: Frame) -> str:
    return "the optimizer's step" if frame.phase == "step" else frame.phase


def _holders(peak: Frame) -> str:
    parts = sorted(((size, kind) for kind, size in peak.bytes.items() if size), reverse=True)
    return ", ".join(f"{kind} {size / MIB:.2f}" for size, kind in parts)


def _words(film: Sequence[Frame]) -> str:
    highest = [f"{phase} {max(f.total for f in film if f.phase == phase) / MIB:.2f} MiB" for phase in COLUMNS]
    peak = film[peak_of(film)]
    return f"The highest point of {', '.join(highest)}. {_summary(peak)}; there: {_holders(peak)}."
