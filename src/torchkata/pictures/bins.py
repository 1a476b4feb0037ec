"""Same object, view or copy: found by running expressions and comparing storages."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

EXPRESSIONS = (
    "x[0:2]",
    "x.t()",
    "x.view(4, 3)",
    "x.unsqueeze(0).expand(2, 3, 4)",
    "x.unsqueeze(0)",
    "x.diagonal()",
    "x.detach()",
    "x.narrow(1, 1, 2)",
    "x.reshape(-1)",
    "x.flatten()",
    "x.contiguous()",
    "x.to(x.dtype)",
    "x[[0, 1]]",
    "x[x > 3]",
    "x + 1",
    "x.clone()",
    "x.repeat(2, 1)",
    "x.t().contiguous()",
    "x.t().reshape(-1)",
    "x.to(torch.int32)",
)


@dataclass(frozen=True)
class Bin:
    """Where the result of an expression belongs: x itself, another tensor on x's storage, or memory of its own."""

    expression: str
    same_object: bool
    same_storage: bool

    @property
    def own_memory(self) -> bool:
        return not self.same_storage


@dataclass(frozen=True)
class Bins:
    """The expressions with their answers; as the last line of a cell it shows itself as a table."""

    rows: tuple[Bin, ...]

    def _repr_markdown_(self) -> str:
        lines = ["| expression | same object | same storage | own memory |", "|---|---|---|---|"]
        for row in self.rows:
            code = html.escape(row.expression).replace("|", "&#124;")
            answers = " | ".join(map(_yes, (row.same_object, row.same_storage, row.own_memory)))
            lines.append(f"| <code>{code}</code> | {answers} |")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "\n".join(f"{row.expression}: {_in_words(row)}" for row in self.rows)


def three_bins(x: Tensor, expressions: Sequence[str] = EXPRESSIONS) -> Bins:
    """Run each expression in `x` (and `torch`) and say whether it gives x, a view of x or a copy.

    The default expressions want an x of shape (3, 4). Don't pass expressions that change x.
    """
    return Bins(tuple(_sort(x, expression) for expression in expressions))


def _sort(x: Tensor, expression: str) -> Bin:
    result = eval(expression, {"x": x, "torch": torch})
    shares = result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return Bin(expression, result is x, shares)


def _in_words(row: Bin) -> str:
    if row.same_object:
        return "the same object"
    return "the same storage" if row.same_storage else "own memory"


def _yes(answer: bool) -> str:
    return "yes" if answer else "–"
