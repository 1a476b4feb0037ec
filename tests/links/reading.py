"""The links in the course: in the Markdown cells of its notebooks, and in the texts of the repository."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from tests import ROOT

NOTEBOOKS = "solutions/*/*.ipynb"
TEXTS = ("*.md", "docs/*.md", "src/torchkata/**/*.md")
READ_ON = "Where to read on"  # the heading of each chapter's last section


@dataclass(frozen=True)
class Link:
    """text: what a reader clicks on, without its marks; place: the file it stands in, from the repository's top."""

    text: str
    address: str
    place: str

    @property
    def leaves_the_course(self) -> bool:
        return "://" in self.address


def links_of_the_course(root: Path = ROOT) -> list[Link]:
    """All links of notebooks and texts, in their order."""
    return [link for place, text in texts(root) for link in links_in(text, place)]


def texts(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """The place and the text of each Markdown cell of the course, and of each text."""
    for path in sorted(root.glob(NOTEBOOKS)):
        for text in markdown_of(path):
            yield path.relative_to(root).as_posix(), text
    for pattern in TEXTS:
        for path in sorted(root.glob(pattern)):
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def markdown_of(notebook: Path) -> list[str]:
    """The texts of its Markdown cells."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def links_in(text: str, place: str = "") -> list[Link]:
    """The links of a Markdown text. What stands in code is none."""
    return [Link(_words(node), str(node.attrs["href"]), place) for node in _tree(text).walk() if node.type == "link"]


def bullets_to_read_on(text: str) -> list[list[Link]]:
    """The links of each bullet below the heading "Where to read on" of a Markdown cell."""
    headings = [node for node in _tree(text).walk() if node.type == "heading"]
    if READ_ON not in map(_words, headings):
        return []
    bullets = [node for node in _tree(text).walk() if node.type == "list_item"]
    return [
        [Link(_words(n), str(n.attrs["href"]), "") for n in bullet.walk() if n.type == "link"] for bullet in bullets
    ]


def _tree(text: str) -> SyntaxTreeNode:
    return SyntaxTreeNode(MarkdownIt().parse(text))


def _words(node: SyntaxTreeNode) -> str:
    """The words of a node, without marks, on one line."""
    leaves = (" " if leaf.type == "softbreak" else leaf.content for leaf in node.walk() if not leaf.children)
    return "".join(leaves)
