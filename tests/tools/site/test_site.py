"""The built website, without a browser: what is on its pages, what must not be, and where its links lead."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests import ROOT
from tests.tools.site.conftest import HOME
from tests.tools.site.html import PageParts, parts_of
from torchkata.base.chapter import is_checking
from torchkata.facts.collection import chapter_names, load
from torchkata.tools.course import chapters, read_unchecked, side_notebooks
from torchkata.tools.placing import Place
from torchkata.tools.site.blocks import blocks, box_of
from torchkata.tools.site.text_pages import TEXTS

pytestmark = pytest.mark.exhaustive("the website as a whole", thorough=True)
THEME_LIMIT, PAGE_LIMIT = 100_000, 150_000  # bytes, compressed
LONG = 40  # characters: a shorter line of a solution may stand anywhere
COURSE = chapters(Place(ROOT))
ALL = [*COURSE, *side_notebooks(Place(ROOT))]


@cache
def parts(page: Path) -> PageParts:
    return parts_of(page)


def all_pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_each_chapter_and_page_is_there(site: Path):
    wanted = [f"chapters/{chapter.name}.html" for chapter in COURSE]
    wanted += [f"folklore/{name}.html" for name in ("index", *chapter_names())]
    wanted += [f"{name}.html" for name in ("index", "start", "gallery", *TEXTS, "search", "404")]
    assert [name for name in wanted if not (site / name).is_file()] == []


def test_no_internal_link_is_dead(site: Path):
    dead = []
    for page in all_pages(site):
        for link in [*parts(page).links, *parts(page).asked]:
            found = urlsplit(link)
            if found.scheme or found.netloc:
                continue
            if page.name == "404.html" and found.path.startswith(HOME.path):
                target = site / unquote(found.path.removeprefix(HOME.path))
            else:
                target = (page.parent / unquote(found.path)).resolve() if found.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(found.fragment)
            is_page = target.suffix == ".html" and target.is_file()
            if not target.is_file() or (anchor and is_page and anchor not in parts(target).ids):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert dead == []


def test_nothing_comes_from_another_host(site: Path):
    foreign = [
        f"{page.name}: {asked}" for page in all_pages(site) for asked in parts(page).asked if urlsplit(asked).netloc
    ]
    assert foreign == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?https?:", styles) == []


def squeezed(text: str) -> str:
    return " ".join(text.split())


@cache
def hidden_lines() -> frozenset[str]:
    """The longer lines of the answer and check cells in solutions/."""
    cells = [cell for chapter in ALL for cell in read_unchecked(chapter.solution).cells if "nbgrader" in cell.metadata]
    lines = {squeezed(line) for cell in cells for line in cell.source.splitlines()}
    return frozenset(line for line in lines if len(line) >= LONG)


@cache
def public_text() -> str:
    """What the releases show unfolded: all but check cells and what these share."""
    cells = [cell for chapter in ALL for cell in read_unchecked(chapter.release).cells]
    shown = squeezed(" ".join(cell.source for cell in cells if not is_checking(cell)))
    return shown + shown.replace("`", "")  # as a page shows it


def test_no_line_of_a_solution_or_a_check_is_on_a_page(site: Path):
    assert len(hidden_lines()) > 3000
    found = []
    for page in [*site.glob("chapters/*.html"), *(site / f"{name}.html" for name in ("start", "gallery", "index"))]:
        text = squeezed(parts(page).text)
        assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN" not in text
        found += [f"{page.name}: {line}" for line in hidden_lines() if line in text and line not in public_text()]
    assert found == []


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.name)
def test_each_exercise_has_an_anchor(site: Path, chapter):
    page = parts(site / "chapters" / f"{chapter.name}.html")
    assert [exercise.id for exercise in chapter.exercises if f"ex-{exercise.id}" not in page.ids] == []


def questions(chapter) -> int:
    """How many paragraphs of the chapter's text ask the reader something: Predict, By hand, Find the line ..."""
    cells = read_unchecked(chapter.solution).cells
    parts = [part for cell in cells if cell.cell_type == "markdown" for part in blocks(cell.source)]
    return sum(box_of(part) == "predict" for part in parts)


def answered_below(chapter) -> int:
    """How many questions have their answer in a fold of the text itself, in the same cell."""
    cells = read_unchecked(chapter.solution).cells
    return sum("<details><summary>Answers</summary>" in cell.source for cell in cells)


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.name)
def test_what_follows_a_predict_is_folded(site: Path, chapter):
    html = (site / "chapters" / f"{chapter.name}.html").read_text(encoding="utf-8")
    predicts, answers = html.count('class="box predict'), html.count('<details class="fold answer">')
    asked = questions(chapter)
    assert asked > 0 and (predicts, answers) == (asked, asked - answered_below(chapter))


@pytest.mark.parametrize("name", chapter_names())
def test_each_belief_has_an_address(site: Path, name: str):
    ids = parts(site / "folklore" / f"{name}.html").ids
    assert [fact.id for fact in load(name) if fact.id not in ids] == []


def test_folklore_for_programs(site: Path):
    facts = json.loads((site / "folklore" / "folklore.json").read_text(encoding="utf-8"))
    wanted = [fact for name in chapter_names() for fact in load(name)]
    assert [fact["id"] for fact in facts] == [fact.id for fact in wanted]
    assert all(part["proof"] and part["verdict"] for fact in facts for part in fact["holds"])
    for fact in facts:
        assert (site / "folklore" / fact["address"].partition("#")[0]).is_file()
    core = {fact.id for fact in wanted if fact.level == "core"}
    assert [fact["id"] for fact in facts if fact["id"] in core and not fact["taught_in"]] == []


def weight(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 9))


def test_weights(site: Path):
    heavy = {page.relative_to(site).as_posix(): weight(page) for page in all_pages(site)}
    assert {name: size for name, size in heavy.items() if size > PAGE_LIMIT} == {}
    asked = {(site / link) for link in parts(site / "index.html").asked if not urlsplit(link).netloc}
    shared = {Path(unquote(str(path).partition("?")[0])) for path in asked}
    assert 0 < sum(weight(path) for path in shared) <= THEME_LIMIT


def test_a_card_for_links(site: Path):
    html = (site / "chapters" / "03_gather_scatter.html").read_text(encoding="utf-8")
    assert '<meta property="og:title" content="Gather and scatter">' in html
    assert '<meta property="og:url" content="https://example.org/kata/chapters/03_gather_scatter.html">' in html


def test_the_picture_of_the_card_is_told_on_each_page_and_there(site: Path):
    told = re.compile(r'<meta property="og:image" content="([^"]*)">')
    pictures = {
        picture for page in all_pages(site) for picture in told.findall(page.read_text(encoding="utf-8")) or [""]
    }
    assert pictures == {f"{HOME.address}_static/card.png"}
    assert (site / "_static" / "card.png").is_file()


def test_only_addresses_are_changed_where_a_page_is_missing(site: Path):
    said = re.compile(r'<meta (?:property|name)="([^"]+)" content="([^"]*)"')
    index, missing = (
        dict(said.findall((site / page).read_text(encoding="utf-8"))) for page in ("index.html", "404.html")
    )
    assert {name for name in index if index[name] != missing[name]} == {"og:title", "og:url"}
    assert missing["og:title"] == "There is no such page"


def test_each_page_leads_out(site: Path):
    for page in all_pages(site):
        name = page.relative_to(site).as_posix()
        if name in ("404.html", "search.html", "genindex.html"):
            continue
        edits = [link for link in parts(page).links if "/edit/" in link]
        assert len(edits) == 1 and (ROOT / edits[0].partition("/edit/main/")[2]).is_file(), name
        assert any("/issues/new?template=sentence.yml" in link for link in parts(page).links), name


@pytest.mark.parametrize("chapter", COURSE, ids=lambda chapter: chapter.name)
def test_each_chapter_opens_elsewhere(site: Path, chapter):
    links = parts(site / "chapters" / f"{chapter.name}.html").links
    released = chapter.release.relative_to(ROOT / "notebooks").as_posix()
    assert f"https://colab.research.google.com/github/somebody/torchkata/blob/main/notebooks/{released}" in links
    assert any(link.startswith("https://mybinder.org/v2/gh/somebody/torchkata/main?") for link in links)
    assert (site / "notebooks" / released).read_bytes() == chapter.release.read_bytes()
    for exercise in chapter.exercises:
        assert HOME.doubt_verdict(exercise.id) in links


def test_each_belief_can_be_doubted(site: Path):
    for name in chapter_names():
        links = parts(site / "folklore" / f"{name}.html").links
        assert [
            fact.id for fact in load(name) if not any(fact.id in link for link in links if "issues/new" in link)
        ] == []
