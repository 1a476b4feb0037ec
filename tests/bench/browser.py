"""What a learner waits for, in a real browser: prints figures, asserts nothing. Run it with `make bench`.

Method. JupyterLab serves a copy of the course; Chromium shows it, without a window. Times on screen are measured in
the page: from the key that goes down to the second frame after the new output or picture is there, so they hold the
browser, the server and the kernel. Close other programs: with two cores, all three show. p95: the 95th percentile.

- start: `make lab` on a filled workbook until the server answers ÷ `jupyter lab` on the same folder; medians of 3 each,
  in turn. Both listen without opening a browser.
- verdict: every exercise of chapter 03 solved; Shift + Enter on each check cell until it speaks, 5 times each.
- update: `torchkata update 03` of the solved chapter to a newer release, median of 3; ÷ `python -c "import torch"`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from rich.console import Console
from rich.table import Table

from tests.bench.learning import seconds_of
from tests.browser.learners_lab import Lab, copy_of_course, learners_lab
from tests.browser.notebook_page import PATIENCE, NotebookPage, sync_playwright
from tests.notebooks.answers import answers_of
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.placing import Place

CHAPTER = "03_gather_scatter"
STARTS, UPDATES, CHECKS = 3, 3, 5
# From now on `measured` waits for the first key, then for the second frame in which `is_there` holds: milliseconds.
ARM = """([is_there, argument]) => {
    const look = new Function('argument', `return ${is_there}`);
    let began = null;
    window.measured = null;
    window.addEventListener('keydown', () => { began = performance.now(); }, {capture: true, once: true});
    const frame = () => {
        const done = began !== null && look(argument);
        requestAnimationFrame(done ? () => { window.measured = performance.now() - began; } : frame);
    };
    requestAnimationFrame(frame);
}"""
CELL = 'document.querySelector(`.jp-Notebook .jp-Cell[data-windowed-list-index="${argument.index}"]`)'
# a line that a test is still running is no verdict
SPEAKS = f"/^(?!.*is running).+/s.test({CELL}.querySelector('.jp-OutputArea-output')?.textContent.trim() ?? '')"
IS_SILENT = f"argument => !{SPEAKS}"
out = Console()
if TYPE_CHECKING:
    from playwright.sync_api import Page


def start_seconds(course: Path, own: Path) -> tuple[float, float]:
    """Median seconds until the server answers: of `make lab`, and of JupyterLab alone."""

    def bare(options: list[str]) -> list[str]:
        as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        return [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={course / 'workbook'}", *as_root, *options]

    times: dict[str, list[float]] = {"make lab": [], "jupyter lab": []}
    for _ in range(STARTS):
        for name, command in (("make lab", None), ("jupyter lab", bare)):
            start = time.perf_counter()
            with learners_lab(course, own, command):
                times[name].append(time.perf_counter() - start)
    return statistics.median(times["make lab"]), statistics.median(times["jupyter lab"])


def solve(chapter: Chapter) -> None:
    """Write a right answer to each exercise into the learner's copy."""
    notebook = read_notebook(chapter.workbook)
    for exercise in chapter.exercises:
        right = next(answer for answer in answers_of(chapter.name, exercise.id) if answer.kind == "right")
        next(cell for cell in notebook.cells if cell.id == exercise.id).source = right.source
    nbformat.write(notebook, chapter.workbook)


def update_seconds(lab: Lab, chapter: Chapter) -> float:
    """Median seconds of `torchkata update` to a newer release."""
    times = []
    for number in range(UPDATES):
        release = read_notebook(chapter.release)
        release.cells[0].source += f"\n\nRelease {number}."
        nbformat.write(release, chapter.release)
        start = time.perf_counter()
        lab.torchkata("update", chapter.number)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def verdict_times(notebook: NotebookPage, chapter: Chapter) -> list[float]:
    """Milliseconds from Shift + Enter on a check cell to its verdict on the screen."""
    notebook.run_setup()
    times = []
    for exercise in chapter.exercises:
        answer = next(cell for cell in notebook.cells() if cell.grade_id == exercise.id)
        notebook.select(answer.index)
        notebook.run_with_keys()
        for check in [cell for cell in notebook.cells() if cell.grade_id in exercise.check_ids]:
            times += [_verdict_time(notebook, check.index) for _ in range(CHECKS)]
    return times


def _verdict_time(notebook: NotebookPage, index: int) -> float:
    page, argument = notebook.page, {"index": index}
    page.evaluate("index => { jupyterapp.shell.currentWidget.content.activeCellIndex = index; }", index)
    page.evaluate("() => jupyterapp.commands.execute('notebook:clear-cell-output')")
    page.wait_for_function(IS_SILENT, arg=argument)
    page.evaluate(ARM, [SPEAKS, argument])
    notebook.run_with_keys()
    return _measured(page)


def _measured(page: Page) -> float:
    return page.wait_for_function("window.measured").json_value()


def _spread(times: list[float]) -> str:
    p95 = statistics.quantiles(times, n=20)[-1]
    return f"{statistics.median(times):.0f} ms, p95 {p95:.0f} ms ({len(times)} times)"


def main() -> None:
    table = Table("what", "figure", "times")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        course, own = copy_of_course(_folder(name, "course")), _folder(name, "own")
        chapter = Chapter(Place(course), CHAPTER)
        with learners_lab(course, own):
            pass  # the first start fills the workbook
        ours, bare = start_seconds(course, own)
        table.add_row("make lab until it serves ÷ jupyter lab", f"{ours / bare:.2f}", f"{ours:.2f} s ÷ {bare:.2f} s")
        solve(chapter)

        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        with learners_lab(course, own) as lab:
            notebook = NotebookPage(page, lab, f"{CHAPTER}/{chapter.topic}.ipynb")
            table.add_row("Shift + Enter to the verdict on screen", _spread(verdict_times(notebook, chapter)), "")
            lab.end_kernels()
            page.close()
            update, torch = update_seconds(lab, chapter), seconds_of(sys.executable, "-c", "import torch")
            table.add_row(
                "torchkata update 03 ÷ import torch", f"{update / torch:.2f}", f"{update:.2f} s ÷ {torch:.2f} s"
            )
    out.print(table)


def _folder(parent: str, name: str) -> Path:
    folder = Path(parent) / name
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
