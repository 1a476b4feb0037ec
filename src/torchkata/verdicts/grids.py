"""Values as blocks of text: tensors as grids whose columns agree, with those elements marked that differ."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from torchkata.verdicts.tolerances import tolerances

MARK, UNMARK = "\ue000", "\ue001"  # around an element that differs; a grid has blanks there otherwise
MOST = 60  # elements of a tensor that is shown whole
WIDEST = 80  # characters of a row
EXAMPLES = 3


def wrong_places(came: Tensor, expected: Tensor, rtol: float | None = None, atol: float | None = None) -> Tensor:
    """Where two tensors of one shape and dtype differ, as bools; by the tolerances of torch.testing.assert_close."""
    if not (expected.is_floating_point() or expected.is_complex()):
        return came != expected
    rtol, atol = tolerances(expected.dtype, rtol, atol)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    return ~torch.isclose(came.to(wide), expected.to(wide), rtol=rtol, atol=atol, equal_nan=True)


def grids(expected: Tensor, came: Tensor, wrong: Tensor) -> tuple[str, str] | None:
    """Two tensors of one shape as blocks that can be laid one over the other; None where they are too large."""
    if expected.dim() == 0 or not 0 < expected.numel() <= MOST:
        return None
    marks = (wrong & ~wrong.all()).flatten().tolist()  # where all differ, marks would say nothing
    texts = _told_apart(expected.flatten().tolist(), came.flatten().tolist(), marks)
    width = max(len(text) for one in texts for text in one)
    if expected.shape[-1] * (width + 3) + 1 + expected.dim() > WIDEST:
        return None
    first, second = (_grid(one, marks, width, tuple(expected.shape)) for one in texts)
    return first, second


def first_places(expected: Tensor, came: Tensor, wrong: Tensor) -> str:
    """The first elements that differ, a line each."""
    places = wrong.nonzero()[:EXAMPLES].tolist()
    wanted, found = ([tensor[tuple(place)].item() for place in places] for tensor in (expected, came))
    texts = _told_apart(wanted, found, [True] * len(places))
    return "\n".join(f"at {p} expected {e}, got {c}" for p, e, c in zip(places, *texts, strict=True))


def number(value: object, digits: int = 4) -> str:
    """A number in a few digits."""
    return f"{value:.{digits}g}" if isinstance(value, (float, complex)) else repr(value)


def _told_apart(expected: list, came: list, marks: list[bool]) -> tuple[list[str], list[str]]:
    """Two lists of numbers, with more digits where few do not tell apart what differs."""
    for digits in (4, 8, 17):
        texts = [number(value, digits) for value in expected], [number(value, digits) for value in came]
        if not any(mark and one == other for mark, one, other in zip(marks, *texts, strict=True)):
            break
    return texts


def _grid(texts: list[str], marks: list[bool], width: int, shape: tuple[int, ...]) -> str:
    """Brackets as torch prints them; between two matrices an empty line."""
    cells = [
        " " * (width - len(text)) + (f"{MARK}{text}{UNMARK}" if mark else f" {text} ")
        for text, mark in zip(texts, marks, strict=True)
    ]
    length, depth = shape[-1], len(shape)
    lines = []
    for row, place in enumerate(product(*map(range, shape[:-1]))):
        opened = _trailing(place, [0] * len(place))
        closed = _trailing(place, [size - 1 for size in shape[:-1]])
        body = " ".join(cells[row * length : (row + 1) * length])
        lines.append(f"{' ' * (depth - 1 - opened)}{'[' * (opened + 1)}{body}{']' * (closed + 1)}")
        if closed > 0 and closed < len(place):
            lines.append("")
    return "\n".join(lines)


def _trailing(place: tuple[int, ...], wanted: list[int]) -> int:
    """How many of the last coordinates are as wanted."""
    count = 0
    for mine, its in zip(reversed(place), reversed(wanted), strict=True):
        if mine != its:
            break
        count += 1
    return count
