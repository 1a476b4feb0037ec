"""The pages that are made of README's neighbours: where their links lead, and whether the verdict they show is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.browser.picture_of_verdict import CHAPTER, EXERCISE, WORDS, wrong_answer
from tests.notebooks.running import MarksOf
from torchkata.tools.errors import CourseError
from torchkata.tools.site.home import Home
from torchkata.tools.site.text_pages import TEXTS, start_command, text_page, with_page_links

HERE, NOWHERE = Home("https://example.org/kata/", "somebody/torchkata"), Home()


@pytest.mark.parametrize(
    ("link", "source", "page"),
    [
        ("[a](../CONTRIBUTING.md)", "docs/authors.md", "[a](contributing.md)"),
        ("[a](docs/authors.md#facts)", "CONTRIBUTING.md", "[a](authors.md#facts)"),
        ("[a](../README.md)", "docs/learners.md", "[a](index.md)"),
        ("[a](large-classes.md)", "docs/teachers.md", "[a](large-classes.md)"),
        ("![a](images/verdict.png)", "docs/learners.md", "![a](images/verdict.png)"),
        ("[a](#set-up)", "CONTRIBUTING.md", "[a](#set-up)"),
        ("[a](https://arxiv.org/x.md)", "CONTRIBUTING.md", "[a](https://arxiv.org/x.md)"),
    ],
)
def test_links_between_texts_are_links_between_pages(link: str, source: str, page: str):
    assert with_page_links(link, source, HERE) == with_page_links(link, source, NOWHERE) == page


def test_other_files_are_linked_where_the_repository_is_known():
    link = "the [licence](../LICENSE)."
    assert with_page_links(link, "docs/x.md", NOWHERE) == "the licence."
    address = "https://github.com/somebody/torchkata/blob/main/LICENSE"
    assert with_page_links(link, "docs/x.md", HERE) == f"the [licence]({address})."


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_is_there_and_has_one_title(name: str):
    lines = text_page(ROOT, name, NOWHERE).splitlines()
    assert lines[0].startswith("# ") and sum(line.startswith("# ") for line in lines) == 1


def test_a_text_that_is_missing_is_said(tmp_path: Path):
    with pytest.raises(CourseError, match=r"docs/teachers\.md is missing"):
        text_page(tmp_path, "teachers", NOWHERE)


def test_the_first_command_is_one_that_works():
    assert start_command(NOWHERE) == "make lab"
    assert start_command(HERE) == "git clone https://github.com/somebody/torchkata && make -C torchkata lab"


def test_the_verdict_that_is_shown_is_what_the_check_says(marks_of: MarksOf):
    told = marks_of(CHAPTER, EXERCISE, wrong_answer()).text
    shown = WORDS.read_text(encoding="utf-8")
    assert told.startswith(shown), "renew docs/images/verdict.txt, then take its picture again"
