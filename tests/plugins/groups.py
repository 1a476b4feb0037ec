"""Which tests go to a worker together: those of a file and, where they are about one, of a chapter; all of the browser.

A group is taken by one worker, so that what a file sets up for its tests is set up once. The long groups begin first.
(`--dist loadgroup` of pytest-xdist 3.8 does not work with the node ids of pytest 9.2.)
"""

from __future__ import annotations

import re

import pytest

# one JupyterLab and one browser for the folder, one website for the other
TOGETHER = ("tests/browser/", "tests/tools/site/")
LONGEST_FIRST = (
    *TOGETHER,
    "tests/tools/grading/test_hostile.py",
    "tests/tools/test_nbgrader.py",
    "tests/tools/grading/test_parity.py",
    "tests/facts/test_facts.py",
    "tests/tools/grading/",
    "tests/notebooks/test_answers.py",
    "solutions/",
    "notebooks/",
    "tests/tools/learning/",
    "tests/installing/",
    "tests/tools/",
    "tests/",
)


def group_of(test: str) -> str:
    """The group of a test, by its id: tests/facts/test_facts.py::test_proof[03-gather-sample] is of
    `tests/facts/test_facts.py, chapter 03`."""
    place = test.partition("::")[0]
    if together := next((folder.rstrip("/") for folder in TOGETHER if place.startswith(folder)), None):
        return together
    chapter = _chapter_of(test)
    return f"{place}, chapter {chapter}" if chapter else place


def _chapter_of(test: str) -> str:
    """The number of the chapter that a test is about, by its id; "" for none."""
    found = re.search(r"\[(\d\d)[-_]", test)
    return found[1] if found else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: when(item.nodeid))


def when(test: str) -> tuple[int, int]:
    """The place of a test in the order of all, by its id. Of the chapters the last take longest."""
    rank = next((rank for rank, start in enumerate(LONGEST_FIRST) if test.startswith(start)), len(LONGEST_FIRST))
    return rank, -int(_chapter_of(test) or 0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)
