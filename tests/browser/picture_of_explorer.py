"""Takes the pictures of an explorer that README shows: gather, value by value, in JupyterLab.

    python -m tests.browser.picture_of_explorer     # needs Chromium; writes explorer.png and explorer-dark.png

Both go to docs/images. Take them again when explorers look different.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import ROOT
from tests.browser.picture_of_verdict import NOTEBOOK, photographed, save

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.notebook_page import NotebookPage

FILE = ROOT / "docs" / "images" / "explorer.png"
SHOWN = "gather_scatter_stepper(done=3)"  # the cell that shows it


def main() -> None:
    save(FILE, photographed(NOTEBOOK, _show_explorer))


def _show_explorer(notebook: NotebookPage) -> tuple[Locator, Locator]:
    notebook.page.get_by_role("tab", name="File Browser").click()  # folds the side bar away
    notebook.run_setup()
    index = next(cell.index for cell in notebook.cells() if cell.source.strip() == SHOWN)
    notebook.select(index)
    notebook.run_with_keys()
    shown = notebook.explorer(index)
    shown.evaluate("shown => shown.scrollIntoView({block: 'start'})")
    return shown, shown


if __name__ == "__main__":
    main()
