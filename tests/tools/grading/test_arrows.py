"""Which parts of grading may import which: the hall its two rooms, the rooms the plain data, and what runs where a
learner's code runs nothing but the wire. No import leads back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchkata.base.places import PACKAGE

GRADING = "torchkata.tools.grading"
PLAIN = frozenset({"records", "files", "chapter"})  # what every part speaks of
WIRE = frozenset({"wire", "messages", "limits"})  # what both sides of the boundary need
INSIDE_MAY = ("torchkata.verdicts", "torchkata.base")  # besides: what a learner's notebook imports, too


def room_of(module: str) -> str:
    """ "plain", "hall", "handed_out", "sandbox" or "inside": the part that a module of grading belongs to."""
    first, *below = module.removeprefix(f"{GRADING}.").split(".")
    if first == "sandbox" and below[:1] == ["inside"]:
        return "inside"
    if first in ("sandbox", "handed_out"):
        return first
    return "plain" if first in PLAIN else "hall"


def may(importing: str, imported: str) -> bool:
    """Whether a module of grading may import another module of the package."""
    room = room_of(importing)
    if not imported.startswith(f"{GRADING}."):
        return room != "inside" or imported.startswith(INSIDE_MAY)
    other = room_of(imported)
    if room == "inside":
        return other == "inside" or (other == "sandbox" and imported.rpartition(".")[2] in WIRE)
    allowed = {"hall": {"hall", "plain", "handed_out", "sandbox"}, "plain": {"plain"}}
    return other in allowed.get(room, {room, "plain"})


def imports_of(source: str, known: set[str]) -> Iterator[str]:
    """The modules of this package that a module imports, also within functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("torchkata"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchkata"):
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from within & known or {str(node.module)}


def modules() -> dict[str, Path]:
    files = (PACKAGE / "tools" / "grading").rglob("*.py")
    return {f"{GRADING}.{'.'.join(_within(file))}": file for file in files if _within(file)}


def _within(file: Path) -> tuple[str, ...]:
    parts = file.relative_to(PACKAGE / "tools" / "grading").with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = modules()


@pytest.mark.parametrize("module", sorted(MODULES), ids=lambda name: name.removeprefix(f"{GRADING}."))
def test_no_import_leads_back(module: str):
    imported = sorted(imports_of(MODULES[module].read_text(encoding="utf-8"), set(MODULES)))
    assert [one for one in imported if not may(module, one)] == []


@pytest.mark.parametrize(
    ("importing", "imported"),
    [
        ("handed_out.pages", "desk"),
        ("handed_out.gradebook", "sandbox.limits"),
        ("sandbox.session", "referee"),
        ("sandbox.zygotes", "sandbox.inside.zygote"),
        ("sandbox.inside.worker", "chapter"),
        ("sandbox.inside.worker", "sandbox.replies"),
        ("sandbox.inside.zygote", "sandbox.session"),
        ("records", "intake"),
    ],
)
def test_an_import_that_leads_back_is_noticed(importing: str, imported: str):
    assert not may(f"{GRADING}.{importing}", f"{GRADING}.{imported}")
    assert f"{GRADING}.{imported}" in imports_of(f"def f():\n    import {GRADING}.{imported}", set(MODULES))


def test_what_runs_inside_imports_no_tools():
    assert not may(f"{GRADING}.sandbox.inside.worker", "torchkata.tools.course")
