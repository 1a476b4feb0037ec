"""Takes the pictures of a verdict that README and docs show: a wrong answer and its check in JupyterLab.

    python -m tests.browser.picture_of_verdict     # needs Chromium; writes verdict.png and verdict-dark.png

Both go to docs/images. Take them again when verdicts look different or this one has other words:
tests/tools/site/test_text_pages.py compares docs/images/verdict.txt with what the check says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from tests import ROOT
from tests.browser.conftest import CHROMIUM
from tests.browser.learners_lab import copy_of_course, learners_lab
from tests.notebooks.answers import answers_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.notebook_page import NotebookPage

CHAPTER, NOTEBOOK, EXERCISE = "03_gather_scatter", "03_gather_scatter/gather_scatter.ipynb", "count-writers"
WRONG = "scatter_ in place of an adding scatter"
FILE = ROOT / "docs" / "images" / "verdict.png"
WORDS = FILE.with_suffix(".txt")  # the same verdict as text
VIEW = {"width": 980, "height": 1400}
PUT_ON = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => null)"
COLOURS = 128  # enough for text and a few tinted cells


def wrong_answer() -> str:
    """The answer that gets the verdict, from tests/answers, without the notes above it."""
    [found] = [answer for answer in answers_of(CHAPTER, EXERCISE) if answer.name == WRONG]
    return found.source[found.source.index("def ") :].strip()


def main() -> None:
    save(FILE, photographed(NOTEBOOK, _show_verdict))


def _show_verdict(notebook: NotebookPage) -> tuple[Locator, Locator]:
    notebook.page.get_by_role("tab", name="File Browser").click()  # folds the side bar away
    notebook.run_setup()
    notebook.answer(EXERCISE, wrong_answer())
    notebook.expect_verdict(EXERCISE, WORDS.read_text(encoding="utf-8").splitlines()[1].strip())
    notebook.cell(EXERCISE).evaluate("cell => cell.scrollIntoView({block: 'start'})")
    return notebook.cell(EXERCISE), notebook.cell(f"{EXERCISE}-check").locator(".jp-OutputArea-child").first


# ------------------------------------------------ light and dark


def photographed(path: str, show: Callable[[NotebookPage], tuple[Locator, Locator]]) -> dict[str, bytes]:
    """A part of a notebook of a fresh workbook as PNG, by theme: "Light" and "Dark". `show` does in the notebook what
    is to be seen, and returns the first and the last thing in the picture."""
    from tests.browser.notebook_page import PATIENCE, NotebookPage, expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with tempfile.TemporaryDirectory() as folder:
        course, own = Path(folder, "course"), Path(folder, "own")
        course.mkdir()
        own.mkdir()
        with learners_lab(copy_of_course(course), own) as lab, sync_playwright() as playwright:
            arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
            page = browser.new_context(viewport=VIEW, device_scale_factor=2).new_page()
            ends = show(NotebookPage(page, lab, path))
            shots = {theme: _shot(page, theme, *ends) for theme in ("Light", "Dark")}
            browser.close()
    return shots


def _shot(page: Page, theme: str, first: Locator, last: Locator) -> bytes:
    page.evaluate(PUT_ON, f"JupyterLab {theme}")
    page.wait_for_timeout(2000)  # until the notebook stands still
    top, end = first.bounding_box(), last.bounding_box()
    assert top and end
    frame = {"x": top["x"], "y": top["y"], "width": top["width"], "height": end["y"] + end["height"] - top["y"]}
    return page.screenshot(clip=frame)


def save(light: Path, shots: dict[str, bytes]) -> None:
    """Write the pictures: light.png and light-dark.png."""
    for theme, path in {"Light": light, "Dark": light.with_stem(f"{light.stem}-dark")}.items():
        picture = Image.open(BytesIO(shots[theme]))
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
        print(f"{path}: {picture.size[0]} x {picture.size[1]}, {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
