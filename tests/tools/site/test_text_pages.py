"""The pages that are made of README's neighbours: where their links lead, and whether the verdict they show is true."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from tests import ROOT
from tests.browser.picture_of_verdict import CHAPTER, EXERCISE, WORDS, wrong_answer
from tests.notebooks.running import MarksOf
from torchkata.tools.course import chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place
from torchkata.tools.publishing import CHANGES
from torchkata.tools.site.edition import Edition, edition, start_command
from torchkata.tools.site.home import Home
from torchkata.tools.site.showcase import chapter_cards, verdict_card
from torchkata.tools.site.text_pages import ANSWER, TEXTS, text_page, with_page_links

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
    before, after = Edition("0.1.0"), Edition("0.1.0", "2026-12-01")
    assert start_command(NOWHERE, before) == "make lab"
    assert start_command(HERE, before) == "git clone https://github.com/somebody/torchkata && make -C torchkata lab"
    for home in (HERE, NOWHERE):
        assert start_command(home, after) == "pip install 'torchkata[lab]' && torchkata lab"


def test_a_release_sets_the_switch(tmp_path: Path):
    citation = tmp_path / "CITATION.cff"
    citation.write_text((ROOT / "CITATION.cff").read_text(encoding="utf-8"), encoding="utf-8")
    citation.write_text(CHANGES["CITATION.cff"](citation, "9.8.7", "2026-12-01"), encoding="utf-8")
    assert edition(tmp_path) == Edition("9.8.7", "2026-12-01")
    assert edition(tmp_path).in_words == "Version 9.8.7, released on 2026-12-01"
    citation.write_text("title: nothing\n", encoding="utf-8")
    with pytest.raises(CourseError, match="says no version"):
        edition(tmp_path)


def test_the_verdict_that_is_shown_is_what_the_check_says(marks_of: MarksOf):
    told = marks_of(CHAPTER, EXERCISE, wrong_answer()).text
    shown = WORDS.read_text(encoding="utf-8")
    assert told.startswith(shown), "renew docs/images/verdict.txt, then take its picture again"
    assert (ROOT / ANSWER).read_text(encoding="utf-8").strip() == wrong_answer()


def test_the_verdict_is_shown_as_a_notebooks_card():
    told = WORDS.read_text(encoding="utf-8")
    html = verdict_card(told)
    text = unescape(re.sub(r"<[^>]+>", "", html))
    assert 'class="torchkata-verdict wrong"' in html and html.count("underline") == told.count("*") / 2 == 4
    assert re.sub(r"[*:\s]", "", text) == re.sub(r"[*:\s]", "", told)
    with pytest.raises(CourseError, match="does not begin as one"):
        verdict_card("All is well.\nYes.\n")


def test_each_chapter_has_a_card_with_what_the_readme_says_of_it():
    course = chapters(Place(ROOT))[:2]
    row = "| [01 Install][01] | 40 + 104 | say why |\n| [02 Views][02] | 40 + 135 | tell a view |"
    html = chapter_cards(course, row)
    assert html.count("<li>") == 2 and "Afterwards you can say why." in html
    assert re.search(r"\d+ min to read, \d+ min to practise, 20 points", html)
    with pytest.raises(CourseError, match="after chapter 02"):
        chapter_cards(course, row.splitlines()[0])
