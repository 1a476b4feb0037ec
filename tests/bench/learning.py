"""How much the course costs beyond the code that it runs: prints ratios, asserts nothing. Run it with `make bench`.

Method. Each figure is a ratio of two times measured in this run, one after the other, on whatever machine this is;
medians are over 5 runs (check: 3). Close other programs: with two cores, a browser shows.

- import: `python -c "import torchkata.verdicts"` ÷ `python -c "import torch"`, whole processes, medians.
- build: building a chapter ÷ the sum of its cells' run times, as the kernel reports them for the same build.
- nbval: `pytest --nbval` on both trees, two at a time as in `make test` ÷ the sum of the run times of all their cells.
- verdict: for each exercise's check cells, run on its solution in this process: their time without the time spent in
  the answer's own calls, in milliseconds; the slowest five and the median of all.
- explorers: processor time from a control's move to the new picture, medians; of all that need no arguments.
- check: `torchkata check` of one solved chapter ÷ `python -c "import torch"`, whole processes.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from nbclient import NotebookClient
from rich.console import Console
from rich.table import Table

from tests.notebooks import running
from torchkata import pictures
from torchkata.base.places import MARK
from torchkata.pictures.explorer import Explorer
from torchkata.tools.build import build
from torchkata.tools.course import Chapter, chapters, course_root, read_notebook
from torchkata.tools.placing import Place, here
from torchkata.verdicts import asking

RUNS = 5
out = Console()


def seconds_of(*command: str, cwd: Path | None = None, runs: int = RUNS) -> float:
    """Median wall time of a command."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, cwd=cwd, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cell_seconds(path: Path) -> float:
    """The sum of a notebook's cells' run times, as its kernel reports them."""
    notebook = read_notebook(path)
    client = NotebookClient(notebook, timeout=300, allow_errors=True, record_timing=True)
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    client.execute()
    return sum(_duration(c.metadata.execution) for c in notebook.cells if "execution" in c.metadata)


def _duration(stamps: dict) -> float:
    begin, end = (datetime.fromisoformat(stamps[k]) for k in ("iopub.status.busy", "iopub.status.idle"))
    return (end - begin).total_seconds()


def copy_of_course(folder: Path) -> Path:
    """The course's chapters in another folder, with the solutions as a learner's workbook."""
    root = course_root()
    shutil.copy(root / MARK, folder)
    for tree in ("solutions", "notebooks"):
        shutil.copytree(root / tree, folder / tree)
    shutil.copytree(root / "solutions", folder / "workbook")
    return folder


def verdict_costs() -> dict[str, float]:
    """Milliseconds that each check cell takes beyond the learner's own code."""
    costs = {}
    for chapter in chapters(here()):
        for exercise in running.exercise_ids(chapter.name):
            solution = running.exercise_cells(chapter.name, exercise)[0].source
            costs[exercise] = statistics.median(_own_cost(chapter.name, exercise, solution) for _ in range(RUNS))
    return costs


def _own_cost(chapter: str, exercise: str, solution: str) -> float:
    inside: list[float] = []

    def note(noted):
        inside.append(noted.seconds)
        return noted

    before, asking._cross = asking._cross, note
    try:
        return 1000 * (running.check_seconds(chapter, exercise, solution) - sum(inside))
    finally:
        asking._cross = before


def explorer_costs() -> dict[str, float]:
    """Milliseconds of processor time that each explorer takes for a new picture."""
    costs = {}
    for info in pkgutil.iter_modules(pictures.__path__):
        module = importlib.import_module(f"{pictures.__name__}.{info.name}")
        for name, make in inspect.getmembers(module, inspect.isfunction):
            if name.endswith(("_explorer", "_stepper")) and _needs_nothing(make):
                costs[name] = _refresh_cost(make())
    return costs


def _needs_nothing(function: Callable) -> bool:
    return all(p.default is not p.empty for p in inspect.signature(function).parameters.values())


def _refresh_cost(explorer: Explorer) -> float:
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        explorer.refresh()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def _print_costs(what: str, costs: dict[str, float]) -> None:
    slowest = sorted(costs.items(), key=lambda item: -item[1])[:5]
    told = ", ".join(f"{name} {ms:.0f} ms" for name, ms in slowest)
    out.print(f"{what}: median {statistics.median(costs.values()):.0f} ms; slowest: {told}", soft_wrap=True)


def main() -> None:
    python, table = sys.executable, Table("what", "ratio", "times")

    def row(what: str, a: float, b: float) -> None:
        table.add_row(what, f"{a / b:.2f}", f"{a:.2f} s ÷ {b:.2f} s")

    torch_import = seconds_of(python, "-c", "import torch")
    row("import torchkata.verdicts ÷ import torch", seconds_of(python, "-c", "import torchkata.verdicts"), torch_import)
    with tempfile.TemporaryDirectory() as name:
        course = copy_of_course(Path(name))
        known = chapters(Place(course))
        every = [chapter.solution for chapter in known] + [chapter.release for chapter in known]
        sums = {path: cell_seconds(path) for path in every}
        for chapter in known:
            start = time.perf_counter()
            build(Chapter(Place(course), chapter.name))
            row(f"build {chapter.name} ÷ its cells", time.perf_counter() - start, sums[chapter.solution])
        check = seconds_of(python, "-m", "torchkata", "check", chapters(here())[-1].name, cwd=course, runs=3)
        row(f"torchkata check {chapters(here())[-1].number} ÷ import torch", check, torch_import)
    nbval = [python, "-m", "pytest", "--nbval", "-n", "2", "--dist", "loadfile", "solutions", "notebooks"]
    row("nbval of both trees ÷ all their cells", seconds_of(*nbval, cwd=course_root(), runs=1), sum(sums.values()))
    out.print(table)

    _print_costs("verdicts", verdict_costs())
    _print_costs("explorers", explorer_costs())


if __name__ == "__main__":
    main()
