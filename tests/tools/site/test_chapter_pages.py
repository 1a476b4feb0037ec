"""The sources of the pages, without Sphinx: boxes, folds, what is left out."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests import ROOT
from torchkata.tools.course import Chapter, chapters, read_unchecked, side_notebooks
from torchkata.tools.placing import Place
from torchkata.tools.site.blocks import blocks, box_of, with_boxes
from torchkata.tools.site.chapter_pages import CARD, END, FOLD, chapter_page, site_links
from torchkata.tools.site.home import Home, home
from torchkata.tools.site.proved import told
from torchkata.tools.site.ways import opening

CHAPTER = Chapter(Place(ROOT), "03_gather_scatter")


def texts(kind: str) -> list[str]:
    cells = chapter_page(CHAPTER, Home()).notebook.cells
    return [cell.source for cell in cells if cell.cell_type == kind]


def test_a_hint_is_one_block():
    hint = "<details><summary>Hint 1</summary>\n\nLook.\n\nAgain.\n\n</details>"
    assert blocks(f"One.\n\n{hint}\n\nTwo.") == ["One.", hint, "Two."]


@pytest.mark.parametrize(
    "block, box",
    [
        ("**Predict.** What?", "predict"),
        ("A sum. **By\nhand.** How large?", "predict"),
        ("**Contract**", "contract"),
        ("**Rule.** No.", "rule"),
        ("No **Rule.**", ""),
        ("**Ruled** out", ""),
        ("- **Find the line**", ""),
    ],
)
def test_what_begins_a_box(block: str, box: str):
    assert box_of(block) == box


def test_a_contract_ends_where_the_rule_begins():
    first, second, last = with_boxes(["**Contract**", "- one", "**Rule.** No loop.", "After."])
    assert "box contract" in first and "- one" in first and "No loop" not in first
    assert "box rule" in second and "After" not in second
    assert last == "After."


def test_each_predict_has_a_fold_that_ends():
    written = "\n".join(texts("markdown"))
    folds = written.count(f"% {FOLD} What happens")
    assert folds == written.count("{container} box predict") >= 5
    assert written.count(f"% {FOLD}") == written.count(f"% {END}") == folds + 1  # and the imports
    assert written.count(f"% {CARD}") == len(CHAPTER.exercises)


def test_what_a_reader_should_know_is_never_folded_with_an_answer():
    for chapter in chapters(Place(ROOT)):
        written = "\n".join(cell.source for cell in chapter_page(chapter, Home()).notebook.cells)
        folds = re.findall(rf"^% {FOLD}.*?^% {END}", written, re.M | re.S)
        assert written.count("{container} box know") > 3 and len(folds) > 3, chapter.name
        assert [fold for fold in folds if "box know" in fold] == [], chapter.name


def test_answer_cells_are_those_of_the_release_and_check_cells_are_left_out():
    written = "\n".join(texts("code"))
    solutions = [cell for cell in read_unchecked(CHAPTER.solution).cells if "nbgrader" in cell.metadata]
    assert "SOLUTION" not in written and "with check(" not in written
    assert not any(cell.source in written for cell in solutions)
    assert written.count("raise NotImplementedError") >= len(CHAPTER.exercises) - 1  # one predicts


def test_links_to_notebooks_lead_to_their_pages():
    start = side_notebooks(Place(ROOT))[0]
    assert site_links("[3](03_gather_scatter/gather_scatter.ipynb)", start) == "[3](chapters/03_gather_scatter.ipynb)"
    assert site_links("[g](../gallery.ipynb)", CHAPTER) == "[g](../gallery.ipynb)"


def test_a_fact_that_changed_is_told_for_all_releases():
    changed = [one for one in told("02_tensors_views") if len(one.variants) > 1]
    assert changed
    for one in changed:
        releases = {variant.releases for variant in one.variants}
        assert len(releases) == len(one.variants) and "" not in releases
        assert len({variant.fact.proof for variant in one.variants}) > 1


def test_home_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch):
    for name, value in {"ADDRESS": "https://example.org/kata", "REPOSITORY": "a/b", "BRANCH": "next"}.items():
        monkeypatch.setenv(f"SITE_{name}", value)
    at = home()
    assert at.address == "https://example.org/kata/" and at.path == "/kata/"
    assert at.edit("docs/x.md") == "https://github.com/a/b/edit/next/docs/x.md"
    assert at.colab("x.ipynb") == "https://colab.research.google.com/github/a/b/blob/next/notebooks/x.ipynb"
    assert (
        at.binder("03_x/x.ipynb")
        == "https://mybinder.org/v2/gh/a/b/next?urlpath=lab%2Ftree%2Fworkbook%2F03_x%2Fx.ipynb"
    )


def test_where_no_repository_is_known_nothing_leads_there():
    nowhere = Home()
    assert nowhere.path == "/" and nowhere.branch == "main"
    assert nowhere.colab("x") == nowhere.binder("x") == nowhere.edit("x") == nowhere.file("x") == ""
    assert nowhere.doubt_verdict("x") == nowhere.doubt_text("x") == ""
    written = "\n".join(texts("markdown"))
    assert "colab" not in written.lower() and "binder" not in written.lower()
    assert opening(CHAPTER, nowhere, "../") == [
        ("Download the notebook", "../notebooks/03_gather_scatter/gather_scatter.ipynb")
    ]


def test_an_issue_is_begun_with_a_form_that_is_there():
    """The forms fill in what an address names by the ids of their fields."""
    at = Home(repository="a/b")
    for address in (at.doubt_verdict("segment-mean"), at.doubt_text("the belief 03-x", "It is so.")):
        asked = dict(parse_qsl(urlsplit(address).query))
        form = (ROOT / ".github" / "ISSUE_TEMPLATE" / asked.pop("template")).read_text(encoding="utf-8")
        assert asked.pop("title").startswith(re.search(r'^title: "(\w+: )', form, re.M)[1])
        assert [field for field in asked if f"id: {field}\n" not in form] == []
