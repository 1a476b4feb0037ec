"""Who works when: one device, data parallel, cut by layers, and a pipeline of micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchkata.pictures.controls import choice, slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, PURPLE, SKY

KINDS = ("one device", "data parallel", "by layers", "GPipe")
SYNC = "sync"
ROWS = (("scheme",), ("devices", "micro-batches"), ("backward", "communication"))
AHEAD = (
    {"scheme": KINDS, "devices": range(2, 7)},
    {"scheme": KINDS, "micro-batches": (1, 2, 8)},
    {"scheme": KINDS, "backward": (1, 3)},
    {"scheme": KINDS, "communication": (0, 3)},
)
LEGEND = (
    "High and blue (F): forward. Low and orange (B): backward. The number: micro-batch.",
    "Low and purple (sync): the gradients are averaged. Empty: idle.",
)
LEFT, TOP, LENGTH = MARGIN + 58, 92, 500
LANE, BLOCK, LOWER = 38, 18, 8  # points from lane to lane; height of a block; how much lower backward stands


@dataclass(frozen=True)
class Work:
    """A block of work: label is F or B with the number of the micro-batch ("F3"), F or B alone, or "sync"."""

    device: int
    start: float
    end: float
    label: str


def timeline(kind: str, p: int, m: int, fwd: float = 1, bwd: float = 2, comm: float = 0) -> list[Work]:
    """Return the work of one training step on p devices with a batch of m micro-batches, by one of KINDS.

    fwd and bwd are the times of 1/p of the layers for one micro-batch, so that all kinds do the same work. comm is the
    time of sending an activation or a gradient to the next device, or of averaging the gradients.
    """
    if kind == "one device":
        return [Work(0, 0, p * m * fwd, "F"), Work(0, p * m * fwd, p * m * (fwd + bwd), "B")]
    if kind == "data parallel":
        return [work for device in range(p) for work in _replica(device, m, fwd, bwd, comm)]
    if kind == "by layers":
        return [Work(w.device, w.start, w.end, w.label[0]) for w in _pipeline(p, 1, m * fwd, m * bwd, comm)]
    if kind == "GPipe":
        return _pipeline(p, m, fwd, bwd, comm)
    raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}.")


def _replica(device: int, m: int, fwd: float, bwd: float, comm: float) -> list[Work]:
    forward, backward = m * fwd, m * (fwd + bwd)
    sync = [Work(device, backward, backward + comm, SYNC)] if comm else []
    return [Work(device, 0, forward, "F"), Work(device, forward, backward, "B"), *sync]


def _pipeline(p: int, m: int, fwd: float, bwd: float, comm: float) -> list[Work]:
    """All micro-batches forward through the stages, then all of them backward."""
    free = [0.0] * p
    arrived = [0.0] * m
    works = []
    for letter, cost, stages in (("F", fwd, range(p)), ("B", bwd, range(p - 1, -1, -1))):
        for stage in stages:
            for micro in range(m):
                start = max(free[stage], arrived[micro])
                free[stage] = start + cost
                works.append(Work(stage, start, start + cost, f"{letter}{micro}"))
                arrived[micro] = start + cost + (comm if stage != stages[-1] else 0)
    return works


def total_time(events: Sequence[Work]) -> float:
    """When the last block ends."""
    return max(work.end for work in events)


def idle_share(events: Sequence[Work]) -> float:
    """The share of the time in which the devices compute nothing, on average; averaging gradients counts as idle."""
    devices = {work.device for work in events}
    busy = sum(work.end - work.start for work in events if work.label != SYNC)
    return 1 - busy / (len(devices) * total_time(events))


def draw_timeline(kind: str, p: int, m: int, bwd: float = 2, comm: float = 0) -> Picture:
    """Draw one lane a device with its blocks; forward stands high in the lane, backward low."""
    events = timeline(kind, p, m, 1, bwd, comm)
    total, idle = total_time(events), idle_share(events)
    devices = 1 + max(work.device for work in events)
    scale = LENGTH / total
    canvas = Canvas(LEFT + LENGTH + MARGIN + 6, TOP + devices * LANE + 42)
    sizes = f"{m} {'micro-batch' if m == 1 else 'micro-batches'} of work"
    if kind == "GPipe" and m > 1:
        sizes = f"a batch in {m} micro-batches"
    title = f"{sizes} on one device" if kind == "one device" else f"{kind}: {sizes} on {devices} devices"
    canvas.title(title)
    alone = total_time(timeline("one device", p, m, 1, bwd))
    summary = f"time {total:g}, one device alone {alone:g}; idle {idle:.0%}"
    canvas.text(MARGIN, 40, summary, weight="bold")
    canvas.text(MARGIN, 58, _remark(kind, p, m))
    cells = []
    for work in events:
        forward = work.label.startswith("F")
        fill = SKY if forward else PURPLE if work.label == SYNC else ORANGE
        left, right = (round(64 * (LEFT + when * scale)) / 64 for when in (work.start, work.end))  # neighbours touch
        width = right - left
        y = TOP + work.device * LANE + (0 if forward else LOWER)
        label = work.label if width >= 6 * len(work.label) + 3 else work.label[0] if width >= 9 else ""
        cells.append(Cell(left, y, label, fill, width=width, height=BLOCK))
    canvas.cells(cells)
    for device in range(devices):
        canvas.text(MARGIN, TOP + device * LANE + 13, f"device {device}")
    canvas.notes(MARGIN, canvas.height - 30, LEGEND)
    lanes = "; ".join(f"device {device}: {_lane_in_words(events, device)}" for device in range(devices))
    return Picture(canvas, f"{title}: {summary}. {lanes}.")


def _lane_in_words(events: Sequence[Work], device: int) -> str:
    return ", ".join(f"{w.label} from {w.start:g} to {w.end:g}" for w in events if w.device == device)


def _remark(kind: str, p: int, m: int) -> str:
    return {
        "one device": "The whole model and the whole batch on one device.",
        "data parallel": f"Each device has the whole model and 1/{p} of the batch.",
        "by layers": f"Each device has 1/{p} of the layers; the whole batch passes at once.",
        "GPipe": f"Each device has 1/{p} of the layers; without communication (p - 1) / (m + p - 1) = "
        f"{p - 1}/{m + p - 1} idle.",
    }[kind]


def timeline_explorer() -> Explorer:
    """Build the explorer: the scheme, devices, micro-batches and costs."""
    controls = {
        "scheme": choice("scheme", KINDS, "GPipe"),
        "devices": slider("devices p", 4, 2, 6),
        "micro-batches": slider("micro-batches m", 4, 1, 16),
        "backward": slider("backward cost", 2, 1, 3, about="time for a backward; a forward takes 1"),
        "communication": slider("communication", 0, 0, 3, about="time from one device to the next"),
    }

    return Explorer(controls, ROWS, lambda state: draw_timeline(*(state[name] for name in controls)), ahead=AHEAD)
