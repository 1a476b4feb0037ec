"""The cache of a compiled function, call by call: the entries that are asked, the guard that failed, the one that is
hit."""

from __future__ import annotations

from torchkata.instruments.cache_story import STORIES, Step, cache_story
from torchkata.pictures.controls import choice, steps
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, MARGIN, ORANGE, SMALL, UNUSED

MOST_CALLS, MOST_ENTRIES = 10, 8
WIDTH, TOP, ROW, BOX = 560, 74, 28, 66


def asked_before(story: tuple[Step, ...], count: int) -> list[int]:
    """The entries before call `count` (from 1), in the order in which they are asked: the last one that ran first."""
    order: list[int] = []
    for step in story[: count - 1]:
        ran = len(order) if step.made else step.hit
        if ran is not None:
            order = [ran, *(one for one in order if one != ran)]
    return order


def draw_cache(name: str, count: int) -> Picture:
    """Draw what the cache does in call `count` of a story."""
    story = cache_story(name)
    code = STORIES[name][0]
    canvas = Canvas(WIDTH, TOP + (MOST_ENTRIES + 1) * ROW + MARGIN)
    if not count:
        canvas.title(f"{code}: before the first call the cache is empty")
        return Picture(canvas, f"The cache of {code} before the first call: there is no entry yet.")
    step, order = story[count - 1], asked_before(story, count)
    reasons, rows = dict(step.tried), []
    for entry in order:
        if entry in reasons:
            rows.append((entry, f"✗ {reasons[entry]}", UNUSED))
        elif entry == step.hit:
            rows.append((entry, "✓ its guards hold: this one runs", GREEN))
        else:
            rows.append((entry, "does not fit" if step.eager else "not asked, or does not fit", UNUSED))
    if step.made:
        rows.append((len(order), "new: compiled, and run", ORANGE))
    what = f"entry {step.hit} is hit" if step.hit is not None else "a new entry is made"
    what = "the cache is full, so Python runs it without a compiler" if step.eager else what
    canvas.title(f"{code}, call {count}: {step.call}")
    canvas.text(MARGIN, 48, f"{what[0].upper()}{what[1:]}.", weight="bold")
    for number, (entry, words, fill) in enumerate(rows):
        y = TOP + number * ROW
        canvas.cells([Cell(MARGIN, y, f"entry {entry}", fill, width=BOX, height=ROW - 6)])
        canvas.text(MARGIN + BOX + 10, y + (ROW - 6) / 2, words, SMALL)
    told = "; ".join(f"entry {entry}: {words}" for entry, words, _ in rows) or "there is none"
    return Picture(canvas, f"Call {count} of {code}, {step.call}. {what}. The entries in the order asked: {told}.")


def cache_explorer() -> Explorer:
    """Build the explorer: a story, and its calls step by step."""
    controls = {
        "story": choice("story", list(STORIES), "sizes", resets={"call": 1}),
        "call": steps("call", 1, MOST_CALLS, on="next call", back="back", end="to the end"),
    }
    return Explorer(
        controls,
        [["story"], ["call"]],
        lambda state: draw_cache(state["story"], state["call"]),
        limits=lambda state: {"call": len(STORIES[state["story"]][2])},
        ahead=[{"story": list(STORIES), "call": range(MOST_CALLS + 1)}],
    )
