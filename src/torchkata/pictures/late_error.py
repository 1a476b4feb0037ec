"""Why an error of the GPU is reported late: what Python queues and what the GPU does, on one time line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ERROR_INK, GREEN, MARGIN, ORANGE, SKY, SMALL, UNUSED

UNIT = 52  # points for one unit of time
LEFT = 74
LANE = 28


@dataclass(frozen=True)
class Call:
    """A line of Python that gives the GPU `work` units of work. waits: it needs the result. faulty: its work fails."""

    name: str
    work: float
    waits: bool = False
    faulty: bool = False


@dataclass(frozen=True)
class Step:
    """What became of a call: when Python came to it and left it, when the GPU worked on it (None: never)."""

    name: str
    queued_at: float
    left_at: float
    starts: float | None
    ends: float | None
    faulty: bool


@dataclass(frozen=True)
class TimeLine:
    """The steps up to the one at which the error is reported; blamed is the number of that one, or None."""

    steps: tuple[Step, ...]
    blamed: int | None


def time_line(calls: Sequence[Call], blocking: bool = False) -> TimeLine:
    """Work out who does what when. Queueing takes one unit of time; blocking: Python waits for each call."""
    steps: list[Step] = []
    now = free_at = 0.0
    failed_at = None
    for number, call in enumerate(calls):
        queued = now + 1
        waits = call.waits or blocking
        if failed_at is not None and (waits or queued > failed_at):
            steps.append(Step(call.name, now, max(queued, failed_at), None, None, call.faulty))
            return TimeLine(tuple(steps), number)
        starts = ends = None
        if failed_at is None:
            starts = max(queued, free_at)
            free_at = ends = starts + call.work
            if call.faulty:
                failed_at = ends
        left = ends if waits and ends is not None else queued
        steps.append(Step(call.name, now, left, starts, ends, call.faulty))
        if call.faulty and waits:
            return TimeLine(tuple(steps), number)
        now = left
    return TimeLine(tuple(steps), None)


def late_error(calls: Sequence[Call], blocking: bool = False) -> Picture:
    """Draw the time line: a lane for Python, a lane for the GPU, and the way from the fault to the line blamed."""
    line = time_line(calls, blocking)
    end = max(max(step.left_at, step.ends or 0) for step in line.steps)
    python_at, gpu_at = 52, 52 + LANE + 40
    bottom = gpu_at + LANE
    canvas = Canvas(max(LEFT + (end + 2.2) * UNIT + MARGIN, 470), bottom + 44)

    canvas.title("With CUDA_LAUNCH_BLOCKING=1" if blocking else "As usual")
    canvas.text(MARGIN, python_at + LANE / 2, "Python", weight="bold")
    canvas.text(MARGIN, gpu_at + LANE / 2, "GPU", weight="bold")
    canvas.cells(_python_boxes(line, python_at) + _gpu_boxes(line, gpu_at))
    for number, step in enumerate(line.steps):
        if step.left_at - step.queued_at > 1.9:
            middle = LEFT + (step.queued_at + 1 + step.left_at) / 2 * UNIT
            canvas.note(middle, python_at + LANE / 2, "waits", "center")
        if step.faulty and step.ends is not None:
            x = LEFT + step.ends * UNIT
            canvas.text(x + 4, gpu_at + LANE / 2, "✗ fails here", SMALL, color=ERROR_INK, weight="bold")
        if number == line.blamed:
            x = LEFT + step.left_at * UNIT
            canvas.text(x + 4, python_at + LANE / 2, f"✗ blamed: {step.name}", SMALL, color=ERROR_INK, weight="bold")
            canvas.arrow((x, gpu_at - 2), (x, python_at + LANE + 3), ERROR_INK)
    canvas.arrow((LEFT, bottom + 14), (LEFT + (end + 1) * UNIT, bottom + 14))
    canvas.note(LEFT + (end + 1) * UNIT + 4, bottom + 14, "time")
    canvas.note(MARGIN, bottom + 32, "A sketch: the lengths are not measured.")
    return Picture(canvas, _in_words(line, blocking))


def _python_boxes(line: TimeLine, y: float) -> list[Cell]:
    boxes = []
    for number, step in enumerate(line.steps):
        x = LEFT + step.queued_at * UNIT
        boxes.append(Cell(x, y, step.name, SKY, number == line.blamed, UNIT - 2, LANE))
        if (waited := step.left_at - step.queued_at - 1) > 0:
            boxes.append(Cell(x + UNIT, y, "", UNUSED, False, waited * UNIT - 2, LANE))
    return boxes


def _gpu_boxes(line: TimeLine, y: float) -> list[Cell]:
    return [
        Cell(
            LEFT + step.starts * UNIT,
            y,
            step.name,
            ORANGE if step.faulty else GREEN,
            step.faulty,
            (step.ends - step.starts) * UNIT - 2,
            LANE,
        )
        for step in line.steps
        if step.starts is not None and step.ends is not None
    ]


def _in_words(line: TimeLine, blocking: bool) -> str:
    words = ["With CUDA_LAUNCH_BLOCKING=1." if blocking else "As usual."]
    for step in line.steps:
        gpu = "the GPU never gets to it"
        if step.starts is not None:
            gpu = f"the GPU works on it from {step.starts:g} to {step.ends:g}" + (" and fails" if step.faulty else "")
        words.append(f"{step.name}: Python is there from {step.queued_at:g} to {step.left_at:g}, {gpu}.")
    if line.blamed is None:
        words.append("No line is blamed.")
    else:
        words.append(f"The error is reported at {line.steps[line.blamed].name}.")
    return " ".join(words)
