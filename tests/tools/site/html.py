"""What the tests read in a page: its ids, and where its links, pictures, styles and scripts lead."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

SOURCES = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}


@dataclass
class PageParts:
    """ids of a page, addresses of its links, addresses that a browser asks for by itself, and its text."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    text: str = ""


def parts_of(page: Path) -> PageParts:
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.parts.text = "".join(reader.texts)
    return reader.parts


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts = PageParts()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if "id" in named:
            self.parts.ids.add(named["id"])
        if tag == "a" and "href" in named:
            self.parts.links.append(named["href"])
        if _is_asked(named):
            self.parts.asked += [named[name] for kind, name in SOURCES if kind == tag and name in named]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _is_asked(named: dict[str, str]) -> bool:
    """Whether a browser loads it: a link to the page's own lasting address is only said."""
    return named.get("rel") not in ("canonical", "search", "next", "prev", "index")
