"""Which part of the package may import which: what learners run never needs the tools, and base/ needs nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchkata.base.places import PACKAGE

COMMANDS = ("cli", "__main__.py", "tools")
MODULES = sorted(PACKAGE.rglob("*.py"))
BASE = [path for path in MODULES if path.is_relative_to(PACKAGE / "base")]
RUNTIME = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] not in COMMANDS]


def imports(text: str) -> Iterator[str]:
    """The modules of torchkata that a module imports, anywhere in it; `from torchkata import x` counts as both."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in getattr(node, "names", [])] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.partition(".")[0] == "torchkata")


def breaches(path: Path, allowed: str) -> list[str]:
    return [name for name in imports(path.read_text(encoding="utf-8")) if not f"{name}.".startswith(allowed)]


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", BASE, ids=name_of)
def test_base_imports_nothing_else_of_the_package(path: Path):
    assert breaches(path, "torchkata.base.") == []


@pytest.mark.parametrize("path", RUNTIME, ids=name_of)
def test_what_notebooks_import_never_imports_the_tools(path: Path):
    text = path.read_text(encoding="utf-8")
    assert [name for name in imports(text) if f"{name}.".startswith(("torchkata.tools.", "torchkata.cli"))] == []


@pytest.mark.parametrize(
    "line",
    ["import torchkata.tools.lock", "from torchkata.tools import lock", "def f():\n    from torchkata import tools"],
)
def test_a_breach_is_noticed(line: str, tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(line, encoding="utf-8")
    assert breaches(path, "torchkata.base.") and any(f"{one}.".startswith("torchkata.tools.") for one in imports(line))
