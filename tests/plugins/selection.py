"""What a test run takes: every check; with `--extent sample` what proves the course on a machine; with `--chapter` one
chapter.

A check that costs much and finds little beyond its neighbours is marked `exhaustive("what it is")`. A sample leaves it
out, and the summary says how many were left out. So does `--extent thorough`, but for those marked
`exhaustive(…, thorough=True)`. A chapter is proved thoroughly.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from torchkata.tools.course import Chapter, find_chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import here

LEFT_OUT = pytest.StashKey[Counter]()
EXTENTS = ("sample", "thorough", "all")
WANTED = pytest.StashKey[str | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("torchkata")
    group.addoption("--extent", choices=EXTENTS, help="how much to run; all unless a chapter is named: then thorough")
    group.addoption("--chapter", metavar="NN", help="only what concerns one chapter (06 or 06_hooks)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "exhaustive(what, thorough=False): not part of a sample")
    config.stash[LEFT_OUT] = Counter()
    try:
        config.stash[WANTED] = _wanted(config.getoption("chapter"))
    except CourseError as error:
        raise pytest.UsageError(str(error)) from None


def _wanted(word: str | None) -> str | None:
    return find_chapters(here(), [word], with_side_notebooks=True)[0].name if word else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.stash[WANTED]
    kept, dropped = [], []
    for item in items:
        marker = item.get_closest_marker("exhaustive")
        elsewhere = wanted and chapter_of(item) != wanted
        if marker and not elsewhere and not _is_asked_for(marker, config):
            config.stash[LEFT_OUT][marker.args[0]] += 1
            dropped.append(item)
        else:
            (dropped if elsewhere else kept).append(item)
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)


def _is_asked_for(marker: pytest.Mark, config: pytest.Config) -> bool:
    extent = config.getoption("extent") or ("thorough" if config.stash[WANTED] else "all")
    return extent == "all" or (extent == "thorough" and marker.kwargs.get("thorough", False))


def first_alone(cases: dict[str, tuple], mark: pytest.MarkDecorator) -> list[pytest.ParameterSet]:
    """The cases of a test by their names; all but the first carry the mark."""
    rest = list(cases.items())[1:]
    first = [pytest.param(*case, id=name) for name, case in list(cases.items())[:1]]
    return first + [pytest.param(*case, id=name, marks=mark) for name, case in rest]


def chapter_of(item: pytest.Item) -> str:
    """The chapter (or page) that a test is about, by its parameters or its notebook; empty where it is about none."""
    if hasattr(item, "cell"):
        return item.path.parent.name
    parameters = getattr(item, "callspec", None)
    found = [parameters.params.get(key) for key in ("chapter", "name")] if parameters else []
    names = [value.name if isinstance(value, Chapter) else value for value in found]
    return next((name for name in names if isinstance(name, str) and name in _chapter_names()), "")


@cache
def _chapter_names() -> set[str]:
    return {chapter.name for chapter in find_chapters(here(), with_side_notebooks=True)}
