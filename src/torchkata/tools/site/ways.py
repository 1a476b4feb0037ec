"""The ways out of a page: the notebook in Colab, on Binder or as a file, the page's source, and who hears of a fault. A
Sphinx extension.

Below the title of a chapter stands a line that opens it, at the end of each page one that says where to go with what
is wrong in it. Where the repository is not known, what leads there is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sphinx.application import Sphinx

from torchkata.tools.course import Chapter
from torchkata.tools.site.home import Home

NOTEBOOKS = "notebooks"  # the site's folder with the released notebooks
TITLE_END = "</h1>"
Link = tuple[str, str]  # what is read, and the address
Ways = Mapping[str, tuple[list[Link], str]]  # by page: the links that open its notebook, and the file it is made of


def released_file(chapter: Chapter) -> str:
    """The place of a chapter's released notebook, from the folder of all: 03_gather_scatter/gather_scatter.ipynb."""
    return chapter.release.relative_to(chapter.root / NOTEBOOKS).as_posix()


def opening(chapter: Chapter, home: Home, up: str) -> list[Link]:
    """The links that open a chapter's notebook; `up` leads from its page to the top of the site."""
    released = released_file(chapter)
    links = [
        ("Open in Colab", home.colab(released)),
        ("Open on Binder", home.binder(chapter.place_in_workbook.as_posix())),
        ("Download the notebook", f"{up}{NOTEBOOKS}/{released}"),
    ]
    return [link for link in links if link[1]]


def in_markdown(links: Sequence[Link]) -> list[str]:
    return [f"[{words}]({address})" for words, address in links]


def add_ways(app: Sphinx, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Write the ways out into a page."""
    home, ways = Home(**app.config.torchkata_home), app.config.torchkata_ways
    if page not in ways:
        return
    opens, source = ways[page]
    body = context["body"]
    if opens:
        above, _, below = body.partition(TITLE_END)
        body = f'{above}{TITLE_END}\n<p class="ways">{in_html(opens)}</p>{below}'
    wrong: list[Link] = [
        ("Report a mistake on this page", home.doubt_text(page)),
        ("Edit this page", home.edit(source)),
        ("Source on GitHub", home.repository_address),
    ]
    if home.repository:
        body += f'\n<p class="ways last">{in_html(wrong)}</p>'
    context["body"] = body


def in_html(links: Sequence[Link], between: str = " ") -> str:
    return between.join(f'<a href="{escape(address)}"{_saved(address)}>{escape(words)}</a>' for words, address in links)


def _saved(address: str) -> str:
    """A notebook of the site's own is to be saved, not shown."""
    return " download" if address.endswith(".ipynb") and "://" not in address else ""


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("torchkata_home", {}, "html")
    app.add_config_value("torchkata_ways", {}, "html")
    app.connect("html-page-context", add_ways)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
