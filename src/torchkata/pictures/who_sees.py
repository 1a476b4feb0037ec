"""Who sees whom: queries and keys as a grid, why a key is hidden from a query, and the code that makes the mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchkata.pictures.controls import choice, notched_slider, slider
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import FILLS, MARGIN, ORANGE, PURPLE, SKY, SOFT_INK, UNUSED, YELLOW

CAUSAL, LOWER_RIGHT, POSITIONS = "is_causal=True", "causal_lower_right", "mask from positions"
SEEN, LATER, WINDOW, DOCUMENT, PADDING = "seen", "later", "window", "document", "padding"
LOOK = {  # what is written in a cell, its fill, and what that means
    SEEN: ("", SKY, "the weight if all scores are equal"),
    LATER: ("L", UNUSED, "later than the query"),
    WINDOW: ("W", ORANGE, "too far back for the window"),
    DOCUMENT: ("D", PURPLE, "in another document"),
    PADDING: ("P", YELLOW, "padding"),
}
LINED_UP = {
    CAUSAL: "The first query belongs to the first key.",
    LOWER_RIGHT: "The last query belongs to the last key.",
    POSITIONS: "Every pair of positions is compared.",
}
MOST, BOX, LEFT, TOP, WIDTH = 8, 22, MARGIN + 46, 138, 270


@dataclass(frozen=True)
class Mask:
    """A mask by its settings. window, border and padding belong to a mask from positions.

    window: how many positions back a query sees, its own included. border: the first key of a second document.
    padding: how many keys at the left are padding.
    """

    kind: str
    queries: int
    keys: int
    window: int | None = None
    border: int | None = None
    padding: int = 0

    @property
    def first(self) -> int:
        """The position that the mask gives to the first query."""
        return 0 if self.kind == CAUSAL else self.keys - self.queries


def who_sees(mask: Mask) -> list[list[str]]:
    """For each query and each key SEEN, or the first reason why the query doesn't see the key."""
    positions = range(mask.first, mask.first + mask.queries)
    return [[_reason(mask, query, key) for key in range(mask.keys)] for query in positions]


def code_of(mask: Mask) -> list[str]:
    """The code that makes a mask: a call, or the lines up to `mask = …`."""
    if mask.kind != POSITIONS:
        argument = f"attn_mask=causal_lower_right({mask.queries}, {mask.keys})"
        return [
            "F.scaled_dot_product_attention(q, k, v,",
            f"    {'is_causal=True' if mask.kind == CAUSAL else argument})",
        ]
    parts = ["(j <= i)"]
    parts += [f"(i - j < {mask.window})"] if mask.window is not None else []
    parts += [f"((i >= {mask.border}) == (j >= {mask.border}))"] if mask.border is not None else []
    parts += [f"(j >= {mask.padding})"] if mask.padding else []
    whole = f"mask = {' & '.join(parts)}"
    lines = [whole] if len(parts) < 3 else [f"mask = ({' & '.join(parts[:2])}", f"    & {' & '.join(parts[2:])})"]
    i, j = f"i = torch.arange({mask.first}, {mask.keys})[:, None]", f"j = torch.arange({mask.keys})"
    return [f"{i}  # queries", f"{j:{len(i)}}  # keys", *lines]


def draw_who_sees(mask: Mask) -> Picture:
    """Draw a mask, its queries from top to bottom and its keys from left to right."""
    rows = who_sees(mask)
    counts = [row.count(SEEN) for row in rows]
    bottom = TOP + mask.queries * BOX
    used = [reason for reason in LOOK if any(reason in row for row in rows)]
    blind = [number for number, count in enumerate(counts) if not count]
    canvas = Canvas(WIDTH, bottom + 20 + 18 * (len(used) + bool(blind)))
    title = f"{_many(mask.queries, 'query', 'queries')}, {_many(mask.keys, 'key', 'keys')}"
    canvas.title(title)
    canvas.text(MARGIN, 38, LINED_UP[mask.kind], weight="bold")
    code = code_of(mask)
    canvas.lines(MARGIN, 58, [line.replace(" ", "\N{NO-BREAK SPACE}") for line in code], family="monospace")
    canvas.lines(MARGIN, 58 + 14 * len(code), _corners(mask), color=SOFT_INK)
    _heads(canvas, mask)
    canvas.cells([cell for number, row in enumerate(rows) for cell in _cells(number, row, counts[number])])
    for number, count in enumerate(counts):
        canvas.text(WIDTH - MARGIN - 8, _middle(number), str(count), align="center", weight="bold")
    for line, reason in enumerate(used):
        letter, fill, meaning = LOOK[reason]
        y = bottom + 12 + 18 * line
        canvas.cells([Cell(MARGIN, y, letter, fill, width=16, height=15)])
        canvas.text(MARGIN + 22, y + 7.5, meaning)
    if blind:
        canvas.text(MARGIN, bottom + 19 + 18 * len(used), _about_blind(blind))
    return Picture(canvas, _in_words(mask, title, rows, blind, code))


def who_sees_explorer() -> Explorer:
    """Build the explorer: how the mask is made, how many queries and keys, window, documents, padding."""
    plain = {"window": "off", "border": "none", "padding": 0}
    counted = {"mask": POSITIONS}
    controls = {
        "mask": choice(
            "mask", (CAUSAL, LOWER_RIGHT, POSITIONS), CAUSAL, sets={CAUSAL: plain, LOWER_RIGHT: plain}, wide=True
        ),
        "queries": slider("queries", 3, 1, MOST),
        "keys": slider("keys", 8, 1, MOST),
        "window": notched_slider(
            "window", ["off", *range(1, MOST)], "off", "positions that a query sees, its own included", counted
        ),
        "border": notched_slider("new document", ["none", *range(1, MOST)], "none", "its first key", counted),
        "padding": slider("left padding", 0, 0, 3, about="keys that are padding", resets=counted),
    }

    def draw(state: State) -> Picture:
        window = None if state["window"] == "off" else state["window"]
        border = None if state["border"] == "none" else state["border"]
        return draw_who_sees(
            Mask(state["mask"], state["queries"], state["keys"], window, border, state["padding"]),
        )

    def limits(state: State) -> dict[str, int]:
        keys = state["keys"]
        return {"queries": keys - 1, "window": keys - 1, "border": keys - 1, "padding": min(3, keys - 1)}

    return Explorer(
        controls,
        [["mask"], ["queries", "keys"], ["window", "border"], ["padding"]],
        draw,
        limits,
        [
            {"mask": (CAUSAL, LOWER_RIGHT, POSITIONS), "queries": range(1, MOST + 1)},
            {"mask": (CAUSAL, LOWER_RIGHT, POSITIONS), "keys": range(1, MOST + 1)},
            {"window": ["off", *range(1, MOST)], "queries": (3, MOST)},
            {"border": ["none", *range(1, MOST)], "queries": (3, MOST)},
            {"padding": range(4), "queries": (3, MOST)},
        ],
    )


def _reason(mask: Mask, query: int, key: int) -> str:
    hidden = {
        LATER: key > query,
        PADDING: key < mask.padding,
        DOCUMENT: mask.border is not None and (key < mask.border) != (query < mask.border),
        WINDOW: mask.window is not None and query - key >= mask.window,
    }
    return next((reason for reason, holds in hidden.items() if holds), SEEN)


def _heads(canvas: Canvas, mask: Mask) -> None:
    """Names of rows and columns; a query has the position that the mask gives to it."""
    y = TOP - 12
    canvas.text(LEFT - 6, y, "key", align="right", color=SOFT_INK)
    canvas.text(WIDTH - MARGIN - 8, y, "sees", align="center", color=SOFT_INK)
    for key in range(mask.keys):
        canvas.text(LEFT + (key + 0.5) * BOX, y, str(key), align="center", color=SOFT_INK)
    for number in range(mask.queries):
        canvas.text(LEFT - 6, _middle(number), f"query {mask.first + number}", align="right", color=SOFT_INK)


def _cells(number: int, row: Sequence[str], count: int) -> list[Cell]:
    share = "1" if count == 1 else f"{1 / max(count, 1):.2f}".removeprefix("0")
    return [
        Cell(LEFT + key * BOX, TOP + number * BOX, LOOK[why][0] or share, LOOK[why][1], width=BOX, height=BOX)
        for key, why in enumerate(row)
    ]


def _middle(number: int) -> float:
    return TOP + (number + 0.5) * BOX


def _corners(mask: Mask) -> list[str]:
    """What the corner from which a mask starts means for queries behind a cache."""
    if mask.kind == POSITIONS:
        return []
    if mask.queries == mask.keys:
        return ["With as many queries as keys both corners agree."]
    if mask.kind == LOWER_RIGHT:
        return ["This is right for new queries after cached keys."]
    cached, last = mask.keys - mask.queries, mask.keys - 1
    where = f"the queries are at {cached} to {last}" if mask.queries > 1 else f"the query is at {last}"
    return [f"After {_many(cached, 'cached key', 'cached keys')} {where},", "so this mask is wrong there."]


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _about_blind(blind: Sequence[int]) -> str:
    return "A query without keys gets zeros." if len(blind) == 1 else "The queries without keys get zeros."


def _in_words(mask: Mask, title: str, rows: Sequence[Sequence[str]], blind: Sequence[int], code: Sequence[str]) -> str:
    told = "; ".join(f"the query at {mask.first + number} {_row_in_words(row)}" for number, row in enumerate(rows))
    zeros = f" {_about_blind(blind)}" if blind else ""
    lined_up = " ".join([LINED_UP[mask.kind], *_corners(mask)])
    return f"{title}, {mask.kind}. {lined_up} From top to bottom: {told}.{zeros} Code: {' '.join(code)}"


def _row_in_words(row: Sequence[str]) -> str:
    seen = [str(key) for key, reason in enumerate(row) if reason == SEEN]
    hidden = [f"{key}: {LOOK[reason][2]}" for key, reason in enumerate(row) if reason not in (SEEN, LATER)]
    sees = f"sees {'key' if len(seen) == 1 else 'keys'} {', '.join(seen)}" if seen else "sees no key"
    return sees + (f" (hidden {', '.join(hidden)})" if hidden else "")


def packed_documents(lengths: Sequence[int] = (3, 2, 4)) -> Picture:
    """Draw the mask of up to four documents packed into one row: a triangle for each, along the diagonal."""
    documents = [number for number, length in enumerate(lengths) for _ in range(length)]
    size = len(documents)
    top = 84.0
    canvas = Canvas(max(LEFT + size * BOX + MARGIN, WIDTH), top + size * BOX + 30)
    title = f"{len(lengths)} documents packed into one row"
    canvas.title(title)
    canvas.lines(MARGIN, 38, ["A query sees keys of its own document only,", "and none that is later."], color=SOFT_INK)
    canvas.text(LEFT - 6, top - 12, "key", align="right", color=SOFT_INK)
    boxes, seen = [], []
    for query, own in enumerate(documents):
        canvas.text(LEFT - 6, top + (query + 0.5) * BOX, f"query {query}", align="right", color=SOFT_INK)
        canvas.text(LEFT + (query + 0.5) * BOX, top - 12, str(query), align="center", color=SOFT_INK)
        keys = [key for key, other in enumerate(documents[: query + 1]) if other == own]
        seen.append(f"{query}: {keys[0]}-{keys[-1]}")
        for key in range(size):
            fill = FILLS[own % len(FILLS)] if key in keys else UNUSED
            boxes.append(
                Cell(LEFT + key * BOX, top + query * BOX, "ABCD"[own] if key in keys else "", fill, False, BOX, BOX)
            )
    canvas.cells(boxes)
    canvas.text(MARGIN, top + size * BOX + 14, "Numbers: places in the row. Letters: documents.", color=SOFT_INK)
    return Picture(canvas, f"{title}, of {_listed(lengths)} positions. Keys seen, query by query: {', '.join(seen)}.")


def _listed(lengths: Sequence[int]) -> str:
    return " and ".join(str(length) for length in lengths)
