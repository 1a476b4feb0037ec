"""Runs the course where Colab's own versions are: `make colab PYTHON=python3.12`.

An environment with requirements-colab.lock is made in build/colab (5 GiB, because pip brings a CUDA build of torch) and
used again by the next run. The cell that `torchkata build --colab` puts in front installs a wheel of this checkout
there; it must leave all that was there as it is. Then every notebook runs from top to bottom: of the released ones only
checks of open exercises may fail, of the author's solutions nothing may. Ends in a table; the exit code is 0 only when
all of that is so.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tests import ROOT
from tests.installing.package import build, source_tree
from torchkata.tools.colab import INSTALL, write_for_colab
from torchkata.tools.course import find_chapters
from torchkata.tools.placing import here

HOME = ROOT / "build" / "colab"
LOCK = ROOT / "requirements-colab.lock"
RIGHT_PYTHON = "import sys; sys.exit(sys.version_info[:2] != (3, 12) and 'Colab has 3.12: PYTHON=python3.12')"
OPEN = "NotSolvedYet"
WIDGET = "application/vnd.jupyter.widget-view+json"
PICTURE = 'class="torchkata-picture"'
EXPLORER = 'class="tk-frames"'  # a picture that has controls


@dataclass(frozen=True)
class Ran:
    """A notebook that ran: its name, how many errors of which kind, pictures, explorers among them and widgets it
    showed, and the seconds."""

    name: str
    errors: Counter[str]
    pictures: int
    explorers: int
    widgets: int
    seconds: float

    @property
    def wrong(self) -> int:
        """Errors that are not those of open exercises."""
        return self.errors.total() - (0 if self.name.startswith("solution") else self.errors[OPEN])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make colab", description="Run the course with Colab's versions.")
    parser.add_argument("--python", default="python3.12", help="what makes the environment; Colab has 3.12")
    parser.add_argument("chapters", nargs="*", help="such as 06; all when left out")
    asked = parser.parse_args(arguments)
    python = environment(asked.python)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        wheel = build("wheel", source_tree(scratch / "tree"), scratch / "dist")
        changed = install(python, wheel, scratch)
        chapters = find_chapters(here(), asked.chapters or None, with_side_notebooks=True)
        notebooks = {one.stem: one for one in write_for_colab(chapters, scratch / "out")}
        notebooks |= {f"solution of {chapter.name}": chapter.solution for chapter in chapters}
        rows = [ran(python, name, path, scratch) for name, path in notebooks.items()]
    Console().print(table(rows))
    print("\n".join(changed))
    return int(bool(changed) or any(row.wrong for row in rows))


def environment(base: str) -> Path:
    """The Python of the environment, with what is locked and nothing else; made with another Python if need be.

    Raises subprocess.CalledProcessError where it cannot be made.
    """
    python = HOME / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done, bare = HOME / "installed.txt", HOME / "bare.txt"
    if not done.exists() or done.read_text(encoding="utf-8") != LOCK.read_text(encoding="utf-8"):
        subprocess.run([base, "-c", RIGHT_PYTHON], check=True)
        subprocess.run([base, "-m", "venv", "--clear", HOME], check=True)
        _pip(python, "install", "-r", LOCK)
        _pip(python, "uninstall", "--yes", "jedi")  # IPython asks for it, and Colab has removed it
        bare.write_text("\n".join(frozen(python)), encoding="utf-8")
        done.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
    there = bare.read_text(encoding="utf-8").splitlines()
    if added := [re.split("==| @ ", line)[0] for line in frozen(python) if line not in there]:
        _pip(python, "uninstall", "--yes", *added)  # what the run before installed
    return python


def install(python: Path, wheel: Path, scratch: Path) -> list[str]:
    """Run the cell that installs; what it changed of what was there before, in sentences."""
    before = frozen(python)
    cell = scratch / "install.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(INSTALL)]), cell)
    begun = time.monotonic()
    links = f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}"
    done = execute(python, cell, scratch / "installed.ipynb", PIP_FIND_LINKS=links)
    after = frozen(python)
    print(f"The cell that installs took {time.monotonic() - begun:.0f} s and added {sorted({*after} - {*before})}.")
    lost = [f"{line} was there before and is not there now." for line in sorted({*before} - {*after})]
    came = any(line.startswith("torchkata") for line in after)
    return lost + ([] if came else [f"torchkata was not installed: {done.cells[0].outputs}"])


def ran(python: Path, name: str, path: Path, scratch: Path) -> Ran:
    """Run a notebook from top to bottom, in its own folder."""
    begun = time.monotonic()
    print(name, flush=True)
    done = execute(python, path, scratch / "done.ipynb")
    outputs = [out for cell in done.cells if cell.cell_type == "code" for out in cell.outputs]
    errors = Counter(out.ename for out in outputs if out.output_type == "error")
    for out in outputs:
        if out.output_type == "error" and out.ename != OPEN:
            print(f"  {out.ename}: {out.evalue[:300]}", flush=True)
    shown = [out.get("data", {}) for out in outputs]
    pictures, explorers = (sum(mark in data.get("text/html", "") for data in shown) for mark in (PICTURE, EXPLORER))
    return Ran(name, errors, pictures, explorers, sum(WIDGET in data for data in shown), time.monotonic() - begun)


def execute(python: Path, path: Path, made: Path, **variables: str) -> NotebookNode:
    """A notebook as it is after a run past all errors. Raises subprocess.CalledProcessError where Jupyter fails."""
    options = ["--to", "notebook", "--execute", "--allow-errors", "--log-level=ERROR", f"--output={made}"]
    subprocess.run([python, "-m", "nbconvert", *options, path], check=True, env={**os.environ, **variables})
    return nbformat.read(made, as_version=4)


def frozen(python: Path) -> list[str]:
    """What is installed, a line for each package."""
    command = [python, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def table(rows: Sequence[Ran]) -> Table:
    """What each notebook did: open exercises, other errors, pictures, explorers among them, widgets."""
    shown = Table("notebook", "open", "wrong", "pictures", "explorers", "widgets", "seconds", box=SIMPLE)
    for row in rows:
        counts = row.errors[OPEN], row.wrong, row.pictures, row.explorers, row.widgets, round(row.seconds)
        shown.add_row(row.name, *map(str, counts))
    return shown


def _pip(python: Path, *arguments: str | Path) -> None:
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
