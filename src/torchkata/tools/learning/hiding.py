"""A learner's own files that hide a package: a notebook beside random.py gets that file when it imports random."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import FrozenImporter, PathFinder
from pathlib import Path

from torchkata.tools.course import CHAPTER_FOLDER


def hiding_files(workbook: Path) -> list[Path]:
    """The Python files and package folders in the workbook and in its chapters' folders that bear the name of a module
    of Python or of an installed package; whoever imports that name in a notebook beside them gets the file.
    """
    return [path for folder in _folders(workbook) for path in _importable(folder) if _hides(path.stem, workbook)]


def hiding_notes(workbook: Path) -> list[str]:
    """For each hiding file a sentence that says what it does and what to do."""
    return [
        f"{path} hides the package {path.stem}: notebooks beside it import your file in its place. Rename it."
        for path in hiding_files(workbook)
    ]


def _folders(workbook: Path) -> Iterator[Path]:
    if workbook.is_dir():
        yield workbook
        yield from sorted(path for path in workbook.iterdir() if CHAPTER_FOLDER.fullmatch(path.name) and path.is_dir())


def _importable(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.stem.isidentifier() and (path.suffix == ".py" or (path / "__init__.py").is_file()):
            yield path


def _hides(name: str, workbook: Path) -> bool:
    """Whether a module elsewhere bears the name; a notebook looks for it in its own folder first."""
    if name in sys.builtin_module_names or FrozenImporter.find_spec(name):
        return False  # found before any folder is looked at
    elsewhere = [entry for entry in sys.path if entry and not Path(entry).is_relative_to(workbook)]
    spec = PathFinder.find_spec(name, elsewhere)
    return spec is not None and spec.loader is not None  # a folder without __init__.py has no loader and hides nothing
