"""Which lines of a function stand in which graph, and which are left to Python."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import torch

from torchkata.instruments.captured import Counting, fresh_compiler

OFFENDERS = {
    "nothing": "",
    "print": 'print("here")',
    "append to a list": "many.append(1)",
    "item()": "x = x * x.sum().item()",
    "if on data": "if x.sum() > 0: x = -x",
}
_FILE = "<break map {}>"


@dataclass(frozen=True)
class BreakMap:
    """A function's lines, each with the number of the graph that it stands in, or None; and how many graphs there are.

    error: with fullgraph=True, the first line of what was raised, or "".
    """

    lines: tuple[tuple[str, int | None], ...]
    graphs: int
    error: str = ""


@cache
def break_map(offender: str, in_loop: bool, fullgraph: bool) -> BreakMap:
    """Compile a function of a few lines with one of the OFFENDERS in it, perhaps in a loop."""
    source = _source(OFFENDERS[offender], in_loop)
    function = _function(source, _FILE.format(f"{offender} {in_loop}"))
    backend = Counting()
    with fresh_compiler(), contextlib.redirect_stdout(io.StringIO()):
        try:
            torch.compile(function, backend=backend, fullgraph=fullgraph)(torch.ones(3))
        except Exception as error:  # torch's own: the function can't be captured whole
            return BreakMap(tuple((line, None) for line in source), 0, str(error).partition("\n")[0])
    numbers = {
        line: number
        for number, module in reversed(list(enumerate(backend.graphs)))
        for line in _lines_of(module, function.__code__)
    }
    return BreakMap(tuple((line, numbers.get(at)) for at, line in enumerate(source, 1)), len(backend.graphs))


def _source(offender: str, in_loop: bool) -> list[str]:
    middle = ["x = x.sin()", *([offender] if offender else []), "x = x.cos()"]
    body = ["for _ in range(2):", *(f"    {line}" for line in middle)] if in_loop else middle
    return ["def f(x):", "    many = []", "    x = x + 1", *(f"    {line}" for line in body), "    return x * 2"]


def _function(source: list[str], file: str) -> Callable[..., Any]:
    text = "\n".join(source) + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {}
    exec(compile(text, file, "exec"), space)
    return space["f"]


def _lines_of(module: torch.fx.GraphModule, code: CodeType) -> set[int]:
    """The lines of a function from which the calls of a graph come."""
    place = re.compile(rf'File "{re.escape(code.co_filename)}", line (\d+)')
    traces = [node.meta.get("stack_trace") or "" for node in module.graph.nodes if node.op.startswith("call")]
    return {int(found) for trace in traces for found in place.findall(trace)}
