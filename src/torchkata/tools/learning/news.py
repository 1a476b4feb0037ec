"""What a newer release of a chapter asks that the one before did not, in sentences for who has answered it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from nbformat import NotebookNode

from torchkata.base.chapter import exercises_of

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
HINTS = re.compile(r"<details>.*?</details>", re.S)


def news(old: NotebookNode, new: NotebookNode, answered: Iterable[str]) -> list[str]:
    """Which exercises are new, which of the answered ones have other tasks, and which other points."""
    before, after = ({one.id: one.points for one in exercises_of(release.cells)} for release in (old, new))
    was, now = _tasks(old), _tasks(new)
    come = [f"{name} ({_points(points)})" for name, points in after.items() if name not in before]
    other = [name for name in answered if name in before and was.get(name) != now.get(name)]
    worth = [
        f"{name} {points:g} (was {before[name]:g})" for name, points in after.items() if _differs(before, name, points)
    ]
    return [
        sentence
        for names, sentence in (
            (come, f"New, to be solved: {', '.join(come)}."),
            (other, f"The task has other words now, read it again: {', '.join(other)}."),
            (worth, f"Other points, to make room: {', '.join(worth)}."),
        )
        if names
    ]


def same_code(one: str, other: str) -> bool:
    """Whether two sources are the same but for their layout, comments and docstrings."""
    try:
        return one == other or _bones(one) == _bones(other)
    except SyntaxError:
        return False


def _bones(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _differs(before: dict[str, float], name: str, points: float) -> bool:
    return name in before and before[name] != points


def _points(points: float) -> str:
    return f"{points:g} point{'' if points == 1 else 's'}"


def _tasks(release: NotebookNode) -> dict[str, list[str]]:
    """The words of each exercise's task: without its number, its line of points, its hints and all that is no word."""
    found, text = {}, ""
    for cell in release.cells:
        if cell.cell_type == "markdown":
            text = cell.source
        elif cell.metadata.get("nbgrader", {}).get("solution"):
            body = "\n".join(line for line in HINTS.sub("", text).splitlines() if not _is_heading(line))
            found[cell.metadata.nbgrader.grade_id] = re.findall(r"[\w']+|[^\w\s.,:;*`-]", body)
    return found


def _is_heading(line: str) -> bool:
    return line.startswith("#") or re.search(r" · [\d.]+ points?$", line) is not None
