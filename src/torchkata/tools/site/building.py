"""Build the website: write the sources of its pages into a folder, let Sphinx make pages of them, finish those.

Sphinx reads built notebooks (chapter_pages.py), the facts (folklore_pages.py, beliefs.py) and texts (text_pages.py). No
kernel runs and nothing is fetched. The pages work from a web server and from the file system.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import nbformat
from sphinx.application import Sphinx

from torchkata.tools.course import Chapter, chapters, side_notebooks
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place
from torchkata.tools.site import folklore_pages, live_pictures, review_page, text_pages
from torchkata.tools.site.chapter_pages import OWN_PAGE, chapter_page, document, site_links
from torchkata.tools.site.folklore_pages import Sections
from torchkata.tools.site.home import Home, home
from torchkata.tools.site.proved import all_told
from torchkata.tools.site.settings import settings
from torchkata.tools.site.ways import NOTEBOOKS, Ways, opening, released_file

STATIC = Path(__file__).parent / "static"
NOT_SHIPPED = ("*.map", ".buildinfo", "objects.inv")
# what the theme leaves out and a screen reader needs
NAMED = (
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="The site">'),
    ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="This page">'),
    ('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">'),
)
ADDRESS = re.compile(r'(?<= )((?:href|src|data-content_root)=")(?!https?:|#|/|data:)(?:\./)?')


def build_site(root: Path, build: Path, at: Home | None = None) -> Path:
    """Build the website of the course in root into build/site; its folder.

    Raises CourseError where a chapter isn't built or a page has a fault, with what Sphinx says of it.
    """
    at = at or home()
    source, work, site = (root / build / name for name in ("site-source", "site-work", "site"))
    executed = site.parent / "jupyter_execute"  # myst-nb's folder for what kernels write; none runs
    for folder in (source, work, site):
        shutil.rmtree(folder, ignore_errors=True)
    sections = write_sources(root, source, at)
    live_pictures.write_assets(source / "static")
    _run_sphinx(source, work, site, settings(at, [STATIC, source / "static"], sections, ways_of(root, at)))
    shutil.rmtree(executed, ignore_errors=True)
    _finish(site, at)
    return site


def write_sources(root: Path, source: Path, at: Home) -> Sections:
    """Write the sources of all pages; the section that teaches each fact."""
    place = Place(root)
    course, others = chapters(place), side_notebooks(place)
    sections: dict[str, tuple[str, str, str]] = {}
    for chapter in [*course, *others]:
        _write(source / "extra" / NOTEBOOKS / released_file(chapter), chapter.release.read_text(encoding="utf-8"))
        if chapter.name == OWN_PAGE:
            continue
        page = chapter_page(chapter, at)
        _write(source / f"{document(chapter)}.ipynb", nbformat.writes(page.notebook))
        live_pictures.write_frames(source / "extra" / live_pictures.FOLDER, page.frames)
        here = {fact: (document(chapter), anchor, name) for fact, (anchor, name) in page.taught.items() if anchor}
        sections = here | sections
    _write_folklore(course, source, at, sections)
    titles = _titles(course)
    _write(source / "review.md", review_page.review_page(titles))
    _write(source / "extra" / review_page.CARDS, review_page.cards_script(titles, sections))
    _write_texts(root, course, source, at)
    return sections


def ways_of(root: Path, at: Home) -> Ways:
    """Where each page leads out of the website."""
    place = Place(root)
    ways: dict[str, tuple[list[tuple[str, str]], str]] = {}
    for chapter in [*chapters(place), *side_notebooks(place)]:
        page = document(chapter)
        opens = opening(chapter, at, "../" * page.count("/"))
        own = chapter.name == OWN_PAGE
        ways[page] = opens, review_page.SOURCE if own else chapter.source.relative_to(root).as_posix()
    for chapter in chapters(place):
        ways[f"folklore/{chapter.name}"] = [], f"src/torchkata/facts/data/{chapter.name}.yaml"
    ways |= {name: ([], path) for name, path in text_pages.TEXTS.items()}
    return ways | {"index": ([], text_pages.SOURCE), "folklore/index": ([], folklore_pages.SOURCE)}


def _titles(course: Sequence[Chapter]) -> dict[str, str]:
    return {chapter.name: f"{chapter.number} {chapter.title}" for chapter in course}


def _write_folklore(course: Sequence[Chapter], source: Path, at: Home, sections: Sections) -> None:
    titles = _titles(course)
    facts = all_told()
    folder = source / "folklore"
    _write(folder / "index.md", folklore_pages.index_page(facts, titles, text_pages.report(at)))
    for name, title in titles.items():
        _write(folder / f"{name}.md", folklore_pages.chapter_page(name, title))
    _write(source / "extra" / "folklore" / "folklore.json", folklore_pages.as_json(facts, sections))


def _write_texts(root: Path, course: Sequence[Chapter], source: Path, at: Home) -> None:
    landing = text_pages.landing_page(root, course, all_told(), at)
    texts = {name: text_pages.text_page(root, name, at) for name in text_pages.TEXTS}
    for name, text in {"index": landing, "404": text_pages.missing_page(), **texts}.items():
        _write(source / f"{name}.md", site_links(text))
    shutil.copytree(root / "docs" / "images", source / "images")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _run_sphinx(source: Path, work: Path, site: Path, values: dict[str, object]) -> None:
    """Make the pages. Raises CourseError with the warnings, each of which is a fault of a page."""
    # in a file, since Sphinx warns of values for a theme's own settings where it is handed them
    _write(source / "conf.py", "".join(f"{name} = {value!r}\n" for name, value in values.items()))
    told = io.StringIO()
    app = Sphinx(source, source, site, work, "html", status=None, warning=told, freshenv=True)
    app.build(force_all=True)
    faults = re.sub(r"\x1b\[[0-9;]*m", "", told.getvalue()).strip()
    if faults or app.statuscode:
        raise CourseError(f"The website has faults:\n{faults.replace(str(source), '.')}")


def _finish(site: Path, at: Home) -> None:
    """Take out what no page uses, and name what the theme does not. The page that is shown for any missing address
    names the others from the top."""
    for pattern in NOT_SHIPPED:
        for path in site.rglob(pattern):
            path.unlink()
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        for old, new in NAMED:
            html = html.replace(old, new)
        page.write_text(html, encoding="utf-8", newline="\n")
    missing = site / "404.html"
    missing.write_text(ADDRESS.sub(rf"\g<1>{at.path}", missing.read_text(encoding="utf-8")), encoding="utf-8")
