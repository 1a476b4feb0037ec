"""A notebook in JupyterLab as a reader sees and drives it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.browser.learners_lab import Lab
from tests.tools.learning.lab_server import TOKEN

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser tests need playwright: pip install playwright"
)
expect, sync_playwright = sync_api.expect, sync_api.sync_playwright
# milliseconds, far more than anything takes on two cores
PATIENCE = 60_000  # for JupyterLab to show something
RUN_PATIENCE = 300_000  # for cells to run

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Everything below asks JupyterLab's own objects: `jupyterapp` is there by --LabApp.expose_app_in_browser.
_IS_OPEN = "path => window.jupyterapp?.shell?.currentWidget?.context?.path === path"
_READY = """async () => {
    const panel = jupyterapp.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
}"""
# counts the runs that have come to an end, whoever began them: a key, a menu, a command
_COUNT_RUNS = """() => {
    window.runsEnded = 0;
    jupyterapp.commands.commandExecuted.connect((_, command) => {
        const ended = () => { window.runsEnded += 1; };
        if (command.id.startsWith('notebook:run')) command.result.then(ended, ended);
    });
}"""
# how the saving that follows ends; it is told when the file is written, whether or not there was anything to save
_NOTE_SAVING = """() => {
    const saving = jupyterapp.shell.currentWidget.context.saveState;
    const note = (_, state) => {
        window.savingEnded = state === 'started' ? null : state;
        if (state !== 'started') saving.disconnect(note);
    };
    window.savingEnded = null;
    saving.connect(note);
}"""
# after an error the kernel sends back what was waiting; its answer to this question comes after that
_ASK_KERNEL = "async () => { await jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestKernelInfo(); }"
_CELLS = """() => {
    const outputs = model => Array.from({length: model.outputs?.length ?? 0}, (_, n) => model.outputs.get(n).toJSON());
    return jupyterapp.shell.currentWidget.content.widgets.map(({model}, index) => ({
        index,
        kind: model.type,
        source: model.sharedModel.getSource(),
        was_run: Boolean(model.executionCount),
        grade_id: model.getMetadata('nbgrader')?.grade_id ?? null,
        is_check: model.getMetadata('nbgrader')?.grade ?? false,
        errors: outputs(model).filter(o => o.output_type === 'error').map(o => [o.ename, o.evalue]),
        shows_picture: outputs(model).some(o => [o.data?.['text/html']].flat().join('').includes('torchkata-picture')),
    }));
}"""


@dataclass(frozen=True)
class Cell:
    """A cell as JupyterLab holds it; `errors`: name and message of each error shown, `shows_picture`: of the course."""

    index: int
    kind: str
    source: str
    was_run: bool
    grade_id: str | None
    is_check: bool
    errors: list[tuple[str, str]]
    shows_picture: bool


class NotebookPage:
    """One notebook of the workbook, open in JupyterLab with its kernel ready."""

    def __init__(self, page: Page, lab: Lab, path: str):
        self.page, self.lab, self.path = page, lab, path
        self.open()

    def open(self) -> None:
        """Open the notebook, or open it anew, in an empty JupyterLab."""
        self.page.goto(f"{self.lab.url}/lab/tree/{self.path}?token={TOKEN}&reset")
        self.wait_until_open(self.path)
        self.page.evaluate(_READY)
        self.page.evaluate(_COUNT_RUNS)

    def wait_until_open(self, path: str) -> None:
        """Wait until JupyterLab shows this notebook."""
        self.page.wait_for_function(_IS_OPEN, arg=path)

    # ------------------------------------------------------------ cells

    def cells(self) -> list[Cell]:
        found = self.page.evaluate(_CELLS)
        return [Cell(**{**cell, "errors": [tuple(error) for error in cell["errors"]]}) for cell in found]

    def cell(self, grade_id: str) -> Locator:
        """The answer cell or check cell with this id."""
        return self.at(next(cell.index for cell in self.cells() if cell.grade_id == grade_id))

    def at(self, index: int) -> Locator:
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')

    # ------------------------------------------------------------ running

    def run_all(self) -> None:
        """Run all cells, by the menu."""
        ended = self._runs_ended()
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self._wait_for_runs(ended + 1)

    def run_from(self, index: int) -> None:
        """Run this cell and all below."""
        ended = self._runs_ended()
        self.page.evaluate("index => { jupyterapp.shell.currentWidget.content.activeCellIndex = index; }", index)
        self.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-below'); }")
        self._wait_for_runs(ended + 1)

    def run_with_keys(self, times: int = 1) -> None:
        """Press Shift + Enter and wait for the end, so many times."""
        for _ in range(times):
            ended = self._runs_ended()
            self.page.keyboard.press("Shift+Enter")
            self._wait_for_runs(ended + 1)

    def run_setup(self) -> None:
        """Run the first code cell, by Shift + Enter."""
        self.select(next(cell.index for cell in self.cells() if cell.kind == "code"))
        self.run_with_keys()

    def select(self, index: int) -> None:
        """Click beside the cell: it is selected, and keys go to the notebook."""
        self.at(index).locator(".jp-InputPrompt").click()

    def _runs_ended(self) -> int:
        return self.page.evaluate("window.runsEnded")

    def _wait_for_runs(self, count: int) -> None:
        self.page.wait_for_function("count => window.runsEnded >= count", arg=count, timeout=RUN_PATIENCE)
        self.page.evaluate(_ASK_KERNEL)

    # ------------------------------------------------------------ an exercise

    def type_answer(self, exercise: str, source: str) -> None:
        """Replace what the answer cell holds, key by key."""
        self.cell(exercise).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        for number, line in enumerate(source.strip().splitlines()):
            if number:
                self.page.keyboard.press("Enter")
                self.page.keyboard.press("Shift+Home")  # the indentation that the editor has put there
                self.page.keyboard.press("Delete")
            self.page.keyboard.type(line)
        [typed] = [cell.source for cell in self.cells() if cell.grade_id == exercise]
        assert typed == source.strip(), "the editor holds something else than what was typed"

    def answer(self, exercise: str, source: str, until_it_ends: bool = True) -> None:
        """Type an answer, then run it and its check cells by Shift + Enter."""
        self.type_answer(exercise, source)
        self.run_with_keys()
        if until_it_ends:
            self.run_with_keys(len(self.checks(exercise)))
        else:
            self.page.keyboard.press("Shift+Enter")

    def stop(self) -> None:
        """Press the stop button while a cell runs; back when it has ended."""
        ended = self._runs_ended()
        self.page.get_by_role("button", name="Interrupt the kernel").click()
        self._wait_for_runs(ended + 1)

    def checks(self, exercise: str) -> list[str]:
        """The ids of the exercise's check cells."""
        pattern = re.compile(rf"{re.escape(exercise)}-check(-\d+)?")
        return [cell.grade_id for cell in self.cells() if cell.grade_id and pattern.fullmatch(cell.grade_id)]

    def expect_verdict(self, exercise: str, *words: str) -> None:
        """Wait until the exercise's first check shows all of the words."""
        shown = self.cell(f"{exercise}-check").locator(".jp-Cell-outputArea")
        for part in words:
            expect(shown).to_contain_text(part)

    def save(self) -> None:
        """Save by Ctrl + S; back when the file is written, which it is without changes too."""
        self.page.evaluate(_NOTE_SAVING)
        self.page.keyboard.press("Control+S")
        self.page.wait_for_function("() => window.savingEnded?.startsWith('completed')")

    def validate(self) -> str:
        """Press nbgrader's button, read what it says and close it."""
        self.page.get_by_role("button", name="Validate").click()
        told = self.page.get_by_role("dialog")
        expect(told).to_contain_text("Validation Results", timeout=RUN_PATIENCE)
        text = told.inner_text()
        told.get_by_role("button", name=re.compile("ok", re.I)).click()
        expect(told).to_have_count(0)
        return text

    # ------------------------------------------------------------ pictures

    def pictures(self) -> list[Cell]:
        """The cells that show a picture, with controls or without."""
        return [cell for cell in self.cells() if cell.shows_picture]

    def picture(self, index: int) -> Locator:
        """The picture of a cell, scrolled into view; its drawing stands in the page, no longer as an image."""
        cell = self.at(index)
        cell.scroll_into_view_if_needed()
        shown = cell.locator(".torchkata-picture").first
        expect(shown.get_by_role("img").first).to_be_visible()
        return shown

    def explorer(self, index: int) -> Locator:
        """The explorer of a cell, scrolled into view, once it has all its frames."""
        cell = self.at(index)
        cell.scroll_into_view_if_needed()
        shown = cell.locator(".torchkata-picture[data-ready]").first
        expect(shown).to_be_visible()
        return shown
