"""Which tests go to a worker together: those of a file and, where they are about one, of a chapter; all of the browser.

A group is taken by one worker, so that what a file sets up for its tests is set up once. The long groups begin first.
(`--dist loadgroup` of pytest-xdist 3.8 does not work with the node ids of pytest 9.2.)
"""

from __future__ import annotations

import re

import pytest

TOGETHER = ("tests/browser/",)  # one JupyterLab and one browser for the folder
LONGEST_FIRST = (
    "tests/browser/",
    "tests/tools/grading/test_hostile.py",
    "tests/tools/grading/test_parity.py",
    "tests/tools/grading/",
    "tests/notebooks/test_answers.py",
    "solutions/",
    "notebooks/",
    "tests/installing/",
    "tests/tools/",
)


def group_of(test: str) -> str:
    """The group of a test, by its id: tests/facts/test_facts.py::test_proof[03-gather-sample] is of
    `tests/facts/test_facts.py, chapter 03`."""
    place = test.partition("::")[0]
    if together := next((folder.rstrip("/") for folder in TOGETHER if place.startswith(folder)), None):
        return together
    chapter = re.search(r"\[(\d\d)[-_]", test)
    return f"{place}, chapter {chapter[1]}" if chapter else place


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path.relative_to(config.rootpath).as_posix()))


def _rank(place: str) -> int:
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if place.startswith(start)), len(LONGEST_FIRST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)
