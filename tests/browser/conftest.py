"""JupyterLab and a browser for the tests of this folder; each test gets a page of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.learners_lab import Lab, copy_of_course, foreign, learners_lab
from torchkata.base.remembering import KEPT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.browser.notebook_page import NotebookPage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HAS_FAILED = pytest.StashKey[bool]()
UNTOUCHED = "untouched"  # a copy of notebooks/ and workbook/


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None:
        missing = pytest.mark.skip(reason="the browser tests need Chromium: apt-get install chromium")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    item.stash[HAS_FAILED] = item.stash.get(HAS_FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab on a workbook, one for all files."""
    course = copy_of_course(tmp_path_factory.mktemp("course"))
    with learners_lab(course, tmp_path_factory.mktemp("home")) as running:
        for folder in ("notebooks", "workbook"):
            shutil.copytree(course / folder, course / UNTOUCHED / folder)
        yield running


@pytest.fixture(scope="module", autouse=True)
def fresh_workbook(lab: Lab) -> None:
    """Each file of tests finds the course as it was at first: nothing answered, nothing remembered, no solutions."""
    for folder in (lab.workbook / KEPT / "verdicts", lab.course / "solutions"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(lab.course / UNTOUCHED, lab.course, dirs_exist_ok=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for this folder; as long as it is open, a loop of asyncio runs, and others may want one of their own."""
    from tests.browser.notebook_page import PATIENCE, expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


@pytest.fixture
def page(browser: Browser, lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page in a browser without memory. At the end nothing may have gone to another host."""
    from tests.browser.notebook_page import PATIENCE

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.asked = []
    page.on("request", lambda sent: page.asked.append(sent.url))
    page.on("websocket", lambda opened: page.asked.append(opened.url))
    yield page
    if request.node.stash.get(HAS_FAILED, False):
        page.screenshot(path=tmp_path / "page.png")
        print(f"The page as it was: {tmp_path / 'page.png'}")
    context.close()
    lab.end_kernels()
    assert foreign(page.asked) == []


@pytest.fixture
def open_notebook(page: Page, lab: Lab) -> Callable[[str], NotebookPage]:
    """Opens a notebook of the workbook, given by its path there."""
    from tests.browser.notebook_page import NotebookPage

    return lambda path: NotebookPage(page, lab, path)
