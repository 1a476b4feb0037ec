"""What a checkpoint holds: nested boxes with the bytes of each part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, GREEN, MARGIN, ORANGE, PURPLE, SKY, SMALL, UNUSED

FILLS = {"model": SKY, "optimizer": ORANGE, "scheduler": GREEN, "rng": PURPLE}
BOX, LINE, LEAF = 186, 18, 16  # points: width of a box, from line to line, height of a leaf
HEAD, GAP, MOST = 26, 10, 14  # height of a heading, between boxes, leaves that a box shows


def checkpoint_layout(checkpoint: dict) -> list[tuple[str, int]]:
    """List every leaf with its path and the bytes of its tensor, 0 for what is not a tensor; lists count as dicts.

    The keys of a path are joined by slashes, because the names in a state_dict have dots.
    """
    return list(_leaves(checkpoint, ()))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict | list | tuple) and len(value):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _leaves(inner, (*path, str(key)))
    else:
        yield "/".join(path), value.nbytes if isinstance(value, Tensor) else 0


def checkpoint_anatomy(checkpoint: dict) -> Picture:
    """Draw one box for each entry, in it a line for each tensor with its bytes, and one for all that is no tensor."""
    layout = checkpoint_layout(checkpoint)
    parts = {name: _part(str(name), layout) for name in checkpoint}
    columns: list[list[str]] = [[], [], []]
    heights = [0.0, 0.0, 0.0]
    for name, lines in parts.items():
        shortest = heights.index(min(heights))
        columns[shortest].append(name)
        heights[shortest] += HEAD + len(lines) * LINE + 8 + GAP
    top = 54
    canvas = Canvas(2 * MARGIN + 3 * BOX + 2 * GAP, top + max(heights) + 6)

    total = sum(size for _, size in layout)
    canvas.title(f"A checkpoint: {total:,} bytes of tensors")
    canvas.note(MARGIN, 38, "one box for each entry of the dict; bytes of each tensor")
    for column, names in enumerate(columns):
        x, y = MARGIN + column * (BOX + GAP), float(top)
        for name in names:
            y = _draw_part(canvas, str(name), parts[name], _bytes_of(str(name), layout), x, y)
    return Picture(canvas, _in_words(checkpoint, parts, layout))


def _bytes_of(name: str, layout: list[tuple[str, int]]) -> int:
    return sum(size for path, size in layout if path.partition("/")[0] == name)


def _part(name: str, layout: list[tuple[str, int]]) -> list[tuple[str, str]]:
    """The lines of one box: (words on the left, words on the right)."""
    inside = [(path.partition("/")[2], size) for path, size in layout if path.partition("/")[0] == name]
    if len(inside) == 1 and not inside[0][0]:
        return [("one tensor" if inside[0][1] else "one number", "")]
    lines = [(path, f"{size:,}") for path, size in inside if size]
    others = any(size == 0 for _, size in inside)
    if len(lines) > MOST:
        left_out = len(lines) - MOST + 1
        lines = [*lines[: MOST - 1], (f"{left_out} more tensors", "")]
    if others:
        lines.append(("numbers and settings", ""))
    return lines


def _draw_part(canvas: Canvas, name: str, lines: list, size: int, x: float, y: float) -> float:
    """Draw a box with its heading and lines, and return where the next one begins."""
    height = HEAD + len(lines) * LINE + 8
    canvas.cells([Cell(x, y, "", FILLS.get(name, UNUSED), width=BOX, height=height)])
    canvas.text(x + 8, y + HEAD / 2, name, weight="bold")
    if size:
        canvas.text(x + BOX - 8, y + HEAD / 2, f"{size:,} bytes", SMALL, "right", weight="bold")
    leaves = [Cell(x + 6, y + HEAD + row * LINE, "", BLANK, width=BOX - 12, height=LEAF) for row in range(len(lines))]
    canvas.cells(leaves)
    for leaf, (left, right) in zip(leaves, lines, strict=True):
        canvas.text(leaf.x + 6, leaf.y + LEAF / 2, left, SMALL)
        canvas.text(leaf.x + leaf.width - 6, leaf.y + LEAF / 2, right, SMALL, "right")
    return y + height + GAP


def _in_words(checkpoint: dict, parts: dict, layout: list[tuple[str, int]]) -> str:
    words = []
    for name in checkpoint:
        listed = ", ".join(f"{left} {right}".strip() for left, right in parts[name])
        words.append(f"{name}, {_bytes_of(str(name), layout):,} bytes: {listed}")
    total = sum(size for _, size in layout)
    return f"A checkpoint with {total:,} bytes of tensors. {'; '.join(words)}."
