"""Where the website's address is known, README.md and the notebooks lead to it; elsewhere they don't name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.learning.small_course import SOURCE, make_course, publish
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.site.chapter_pages import document
from torchkata.tools.website import linked, page_of

README = "# x\n\n| [98 Things][98] |\n\n[98]: notebooks/98_things/things.ipynb\n"


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return make_course(tmp_path)


def first_cell(chapter: Chapter) -> str:
    publish(chapter, SOURCE)
    return read_notebook(chapter.release).cells[0].source


def test_an_address_that_is_known(chapter: Chapter):
    (chapter.root / "pyproject.toml").write_text('[project.urls]\nWebsite = "https://example.org/kata"\n')
    page = f"https://example.org/kata/{document(chapter)}.html"
    assert page_of(chapter) == page
    assert first_cell(chapter).startswith("# Three things\n\n") and f"[on the website]({page})" in first_cell(chapter)
    there = linked(README, [chapter])
    assert there == README.replace("notebooks/98_things/things.ipynb", page)
    (chapter.root / "pyproject.toml").unlink()
    assert linked(there, [chapter]) == README


@pytest.mark.parametrize("project", ["", "[project]", "[project.urls]"])
def test_no_address(chapter: Chapter, project: str):
    (chapter.root / "pyproject.toml").write_text(project)
    assert first_cell(chapter) == "# Three things" and linked(README, [chapter]) == README


def test_a_file_that_is_no_toml(chapter: Chapter):
    (chapter.root / "pyproject.toml").write_text("[project")
    with pytest.raises(CourseError, match="not readable TOML"):
        page_of(chapter)
