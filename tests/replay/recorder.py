"""Runs the answers to exercises in the tree that PYTHONPATH names, and says what each check cell said of them.

It is started by recording.py, for this tree and for that of another commit alike, so it uses nothing of either tree but
the package torchkata, through the cells that it is given. It reads a line of JSON for each exercise, and writes one
with the outcomes of its answers:

    {"setup": "import torch", "cells": [["one-hot-check", "with check(…", 2.0]], "answers": {"right: a loop": "def …"}}
    {"right: a loop": [{"cell": "one-hot-check", "of": 2.0, "points": 2.0, "error": "", "hidden": false, "says": ""}]}
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import sys

Cell = tuple[str, str, float]  # a check cell's id, its source, its points


def main() -> None:
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an answer writes to the file itself is no outcome
    for line in sys.stdin:
        exercise = json.loads(line)
        outcomes = {
            name: outcomes_of(exercise["setup"], answer, exercise["cells"])
            for name, answer in exercise["answers"].items()
        }
        told.write(json.dumps(outcomes) + "\n")
        told.flush()


def outcomes_of(setup: str, answer: str, cells: list[Cell]) -> list[dict]:
    """Run the setup cell, an answer and its check cells, as a kernel would; what each of these said."""
    space: dict = {"__name__": "__main__"}
    run(setup, space, "<setup>")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run(answer, space, "<answer>")
    except Exception as error:
        return [outcome_of_error("the answer itself", 0.0, error)]
    return [outcome_of(cell, space) for cell in cells]


def outcome_of(cell: Cell, space: dict) -> dict:
    """What a check cell said, in a namespace of its own with the answer's names."""
    name, source, of = cell
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            value = run(source, dict(space), f"<check {name}>")
    except Exception as error:
        return outcome_of_error(name, of, error)
    points = value if isinstance(value, float) else of
    says = out.getvalue().strip() if points < of else ""
    return {"cell": name, "of": of, "points": points, "error": "", "hidden": False, "says": says}


def outcome_of_error(cell: str, of: float, error: Exception) -> dict:
    """A verdict has lines: the first names the test, the second is the sentence."""
    lines = getattr(error, "lines", [repr(error)])
    hidden = ", hidden test: " in lines[0]
    says = lines[min(1, len(lines) - 1)].strip()
    return {"cell": cell, "of": of, "points": 0.0, "error": type(error).__name__, "hidden": hidden, "says": says}


def run(source: str, space: dict, file: str) -> object:
    """Run a cell in a namespace; the value of its last line where that is an expression."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec", dont_inherit=True), space)
    return eval(compile(ast.Expression(last.value), file, "eval", dont_inherit=True), space) if last else None


if __name__ == "__main__":
    main()
