"""The caching allocator's segments as rows of blocks, event by event."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchkata.instruments.blocks import MIB, Event, Stage, blocks_after, mib
from torchkata.pictures.controls import choice, steps, text_field
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, ERROR_INK, GREEN, MARGIN, ORANGE, PURPLE, SKY, YELLOW

CAPACITY = 100 * MIB
MOST_EVENTS, MOST_ROWS = 12, 5
LEFT, TOP, ROW, BAR, SCALE = 104, 66, 34, 24, 5.0  # points for one MiB
USED = (SKY, ORANGE, GREEN, PURPLE, YELLOW)
TRACES = {
    "one step": "a 0.0005, b 3, c 0.4, free b, d 30, free d, e 29.5, f 2",
    "in pieces": "a 58, free a, stays 2, b 57",
    "emptied early": "a 58, free a, empty, stays 2, b 57",
    "emptied late": "a 58, free a, stays 2, empty, b 57",
}
OWN = "your own"


class NotATrace(Exception):
    """A text that is no list of events; the message says which part."""


def trace_of(text: str) -> list[Event]:
    """The events of a text such as "a 30, free a, empty, b 2": a name asks for MiB, is freed, or the cache is emptied.

    Raises NotATrace for anything else, and for a name that is used twice or freed without being there.
    """
    events: list[Event] = []
    alive: set[str] = set()
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts[:MOST_EVENTS]:
        if part == "empty":
            events.append(("empty_cache",))
        elif freed := re.fullmatch(r"free ([a-z]\w{0,9})", part):
            events.append(("free", freed[1]))
            if freed[1] not in alive:
                raise NotATrace(f"'{part}': nothing of this name is there")
            alive.discard(freed[1])
        elif asked := re.fullmatch(r"([a-z]\w{0,9}) (\d{1,3}(?:\.\d{1,4})?)", part):
            if asked[1] in alive or not float(asked[2]):
                raise NotATrace(f"'{part}': the name is there already, or the size is 0")
            events.append(("alloc", asked[1], float(asked[2])))
            alive.add(asked[1])
        else:
            raise NotATrace(f"'{part[:20]}' is no event")
    if not events:
        raise NotATrace("there is no event")
    return events


def cache_blocks(trace: Sequence[Event], count: int) -> Picture:
    """Draw the segments of a device of 100 MiB after the first `count` events."""
    stage = blocks_after(trace, count, CAPACITY)
    canvas = Canvas(LEFT + CAPACITY / MIB * SCALE + MARGIN, TOP + MOST_ROWS * ROW + 70)
    number = f"Before the first of {len(trace)} events"
    if count:
        number = f"Event {count - 1}, counted from 0: {stage.event}"
    canvas.title(number)
    if stage.failed:
        canvas.text(
            MARGIN, 40, "✗ out of memory: no free block and no room for a new segment", color=ERROR_INK, weight="bold"
        )
    else:
        canvas.note(MARGIN, 40, f"the driver: {', '.join(stage.driver) or 'no request'}")
    if not stage.rows:
        canvas.note(MARGIN, TOP + BAR / 2, "There is no segment.")
    colours: dict[str, str] = {}
    for event in trace:
        if event[0] == "alloc":
            colours.setdefault(event[1], USED[len(colours) % len(USED)])
    for row, blocks in enumerate(stage.rows[:MOST_ROWS]):
        _segment(canvas, TOP + row * ROW, blocks, colours)
    y = TOP + MOST_ROWS * ROW + 8
    canvas.text(MARGIN, y, f"allocated {mib(stage.allocated)} of reserved {mib(stage.reserved)}", weight="bold")
    canvas.text(MARGIN, y + 18, f"largest free block: {mib(stage.largest_free) if stage.largest_free else 'none'}")
    free = CAPACITY - stage.reserved
    canvas.text(MARGIN, y + 36, f"still free at the driver: {mib(free)} of the device's 100 MiB")
    return Picture(canvas, _in_words(number, stage, free))


def blocks_explorer() -> Explorer:
    """Build the explorer: a trace of the text or one's own, and its events step by step."""
    field, anew = "events", {"event": 1}
    controls = {
        "trace": choice(
            "trace",
            [*TRACES, OWN],
            "in pieces",
            resets=anew,
            sets={name: {field: text} for name, text in TRACES.items()},
        ),
        field: text_field(
            "events", TRACES["in pieces"], "a 30, free a, empty, b 2", wide=True, resets={**anew, "trace": OWN}
        ),
        "event": steps("event", 1, MOST_EVENTS, on="next event", back="back", end="to the end"),
    }
    return Explorer(
        controls,
        [["trace"], [field], ["event"]],
        lambda state: _drawn(state[field], state["event"]),
        limits=lambda state: {"event": _length(state[field])},
        ahead=[{"trace": list(TRACES), "event": range(MOST_EVENTS + 1)}],
    )


def _drawn(text: str, count: int) -> Picture:
    try:
        return cache_blocks(trace_of(text), count)
    except NotATrace as error:
        return _refusal(str(error))


def _length(text: str) -> int:
    try:
        return len(trace_of(text))
    except NotATrace:
        return 0


def _refusal(why: str) -> Picture:
    canvas = Canvas(LEFT + CAPACITY / MIB * SCALE + MARGIN, 86)
    canvas.title("These events can't be read")
    canvas.text(MARGIN, 44, why, color=ERROR_INK)
    canvas.note(
        MARGIN, 66, "Write a name and MiB, 'free' and a name, or 'empty', with commas between: a 30, free a, b 2"
    )
    return Picture(canvas, f"These events can't be read: {why}. Write for example a 30, free a, empty, b 2.")


def _segment(canvas: Canvas, y: float, blocks: Sequence[tuple[int, str]], colours: dict[str, str]) -> None:
    total = sum(size for size, _ in blocks)
    canvas.text(LEFT - 8, y + BAR / 2, f"segment {mib(total)}", align="right")
    cells, x = [], float(LEFT)
    for size, name in blocks:
        width = max(size / MIB * SCALE, 2.5)
        label = f"{name} {mib(size)}" if name else mib(size)
        fits = width > 6.3 * len(label) + 4
        cells.append(Cell(x, y, label if fits else "", colours[name] if name else BLANK, width=width, height=BAR))
        x += width
    canvas.cells(cells)


def _in_words(number: str, stage: Stage, free: int) -> str:
    rows = "; ".join(", ".join(f"{mib(size)} {name or 'free'}" for size, name in row) for row in stage.rows)
    state = "Out of memory. " if stage.failed else ""
    return (
        f"{number}. {state}The segments with their blocks: {rows or 'none'}. Allocated {mib(stage.allocated)}, "
        f"reserved "
        f"{mib(stage.reserved)}, {mib(free)} still free at the driver."
    )
