"""Takes the picture of a verdict that README and docs show: a wrong answer and its check in JupyterLab.

    python -m tests.browser.picture_of_verdict     # needs Chromium; writes docs/images/verdict.png

Take it again when verdicts look different or this one has other words: tests/tools/site/test_text_pages.py compares
docs/images/verdict.txt with what the check says.
"""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

from tests import ROOT
from tests.browser.conftest import CHROMIUM
from tests.browser.learners_lab import Lab, copy_of_course, learners_lab
from tests.notebooks.answers import answers_of

CHAPTER, NOTEBOOK, EXERCISE = "03_gather_scatter", "03_gather_scatter/gather_scatter.ipynb", "count-writers"
WRONG = "scatter_ in place of an adding scatter"
FILE = ROOT / "docs" / "images" / "verdict.png"
WORDS = FILE.with_suffix(".txt")  # the same verdict as text
VIEW = {"width": 980, "height": 1400}
COLOURS = 128  # enough for text and a few tinted cells


def wrong_answer() -> str:
    """The answer that gets the verdict, from tests/answers, without the notes above it."""
    [found] = [answer for answer in answers_of(CHAPTER, EXERCISE) if answer.name == WRONG]
    return found.source[found.source.index("def ") :].strip()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        course, own = Path(folder, "course"), Path(folder, "own")
        course.mkdir()
        own.mkdir()
        with learners_lab(copy_of_course(course), own) as lab:
            picture = Image.open(BytesIO(photograph(lab)))
    picture.convert("RGB").quantize(COLOURS).save(FILE, optimize=True)
    print(f"{FILE}: {picture.size[0]} x {picture.size[1]}, {FILE.stat().st_size // 1000} kB")


def photograph(lab: Lab) -> bytes:
    """The answer cell, its first check cell and the card with the verdict, as PNG."""
    from tests.browser.notebook_page import PATIENCE, NotebookPage, expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_context(viewport=VIEW, device_scale_factor=2).new_page()
        notebook = NotebookPage(page, lab, NOTEBOOK)
        page.get_by_role("tab", name="File Browser").click()  # folds the side bar away
        notebook.run_setup()
        notebook.answer(EXERCISE, wrong_answer())
        notebook.expect_verdict(EXERCISE, WORDS.read_text(encoding="utf-8").splitlines()[1].strip())
        above = notebook.cell(EXERCISE)
        above.evaluate("cell => cell.scrollIntoView({block: 'start'})")
        page.wait_for_timeout(1000)  # until the notebook stands still
        first = above.bounding_box()
        last = notebook.cell(f"{EXERCISE}-check").locator(".jp-OutputArea-child").first.bounding_box()
        assert first and last
        frame = {"x": first["x"], "y": first["y"], "width": first["width"]}
        shot = page.screenshot(clip=frame | {"height": last["y"] + last["height"] - first["y"]})
        browser.close()
    return shot


if __name__ == "__main__":
    main()
