"""The sizes that split, chunk and tensor_split cut a row of elements into."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from textwrap import wrap

import torch

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CELL, ERROR_INK, MARGIN, ORANGE, SKY, SMALL

LINE = CELL + 12
REFUSAL = 76  # letters in a line of a refusal


def parts(n: int, call: str) -> list[int]:
    """Return the sizes of the parts that a call such as "split(3)" or "tensor_split([2, 3])" cuts n elements into.

    torch's own RuntimeError or ValueError comes through when it refuses the call; text that is not a call of
    split, chunk or tensor_split on numbers raises ValueError.
    """
    match = re.fullmatch(r"(split|chunk|tensor_split)\((.*)\)", call.strip())
    if match is None:
        raise ValueError(f"{call!r} is not a call of split, chunk or tensor_split.")
    method, argument = match.groups()
    try:
        number = ast.literal_eval(argument)
    except (SyntaxError, ValueError):
        raise ValueError(f"{argument!r} in {call!r} is neither a number nor a list of numbers.") from None
    return [len(part) for part in getattr(torch.arange(n), method)(number)]


def cut_ruler(n: int, calls: Sequence[str]) -> Picture:
    """Draw a ruler of n elements and under it one bar for each call, cut into its parts, or torch's refusal."""
    results = {call: _parts_or_refusal(n, call) for call in calls}
    left = MARGIN + 10 + 6 * max(map(len, calls))
    facts_at, top = left + n * CELL + 12, 62
    bottom = top + len(calls) * LINE
    longest = max(_width(result) - (0 if isinstance(result, list) else n * CELL) for result in results.values())
    canvas = Canvas(facts_at + longest + MARGIN, bottom + 22)

    canvas.title(f"{n} elements, cut by {_calls(results)}")
    canvas.ruler(left, top - 12, "element", n)
    for row, (call, result) in enumerate(results.items()):
        y = top + row * LINE
        canvas.text(left - 8, y + CELL / 2, call, align="right")
        if isinstance(result, str):
            lines = wrap(result, REFUSAL)
            canvas.lines(left, y + CELL / 2 - 6 * (len(lines) - 1), lines, SMALL, step=12, color=ERROR_INK)
        else:
            canvas.cells(_bar(result, left, y))
            canvas.text(facts_at, y + CELL / 2, str(result))
    canvas.note(MARGIN, bottom + 6, "In a bar: how many elements the part has. A thin bar: a part without elements.")
    return Picture(canvas, _in_words(n, results))


def _parts_or_refusal(n: int, call: str) -> list[int] | str:
    try:
        return parts(n, call)
    except (RuntimeError, ValueError, TypeError) as refusal:
        return "refused: " + str(refusal).partition("\n")[0]


def _width(result: list[int] | str) -> float:
    """Return how wide the result is in writing, in points, at most."""
    return 5.6 * len(str(result)) if isinstance(result, list) else 4.4 * min(len(result), REFUSAL)


def _bar(sizes: list[int], x: float, y: float) -> list[Cell]:
    """Return one box a part, with alternating fills; a part without elements is a thin box without a number."""
    boxes, start = [], 0
    for number, size in enumerate(sizes):
        width = max(size * CELL - 3, 2)
        text = str(size) if size else ""
        boxes.append(Cell(x + start * CELL + 1, y, text, (SKY, ORANGE)[number % 2], width=width))
        start += size
    return boxes


def _in_words(n: int, results: dict[str, list[int] | str]) -> str:
    cuts = (f"{call}: {'sizes ' if isinstance(result, list) else ''}{result}" for call, result in results.items())
    return f"{n} elements, cut by {_calls(results)}. {'; '.join(cuts)}."


def _calls(results: dict) -> str:
    return "one call" if len(results) == 1 else f"{len(results)} calls"
