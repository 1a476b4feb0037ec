"""Turns the marks in a page's source (chapter_pages.py) into folds and cards. A Sphinx extension."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from torchkata.tools.site.chapter_pages import ANSWER, CARD, END, FOLD


class Marks(SphinxTransform):
    """Folds what stands between FOLD and END, with the output of the code cell before it; puts the body of an exercise
    into a card."""

    default_priority = 5  # before anything reads the document

    def apply(self, **options: Any) -> None:
        for comment in list(self.document.findall(nodes.comment)):
            text = comment.astext()
            if text.startswith(FOLD):
                _fold(comment, text.removeprefix(FOLD).strip())
            elif text == CARD:
                _card(comment)


def _fold(comment: nodes.comment, summary: str) -> None:
    parent = comment.parent
    start = parent.index(comment)
    end = next(place for place in range(start, len(parent)) if _is_end(parent[place]))
    outputs = _taken_outputs(parent[start - 1]) if summary == ANSWER and start else []
    kind = "answer" if summary == ANSWER else "imports"
    begin = nodes.raw("", f'<details class="fold {kind}"><summary>{escape(summary)}</summary>', format="html")
    parent[start : end + 1] = [begin, *outputs, *parent[start + 1 : end], nodes.raw("", "</details>", format="html")]


def _is_end(node: nodes.Node) -> bool:
    return isinstance(node, nodes.comment) and node.astext() == END


def _taken_outputs(cell: nodes.Node) -> list[nodes.Node]:
    """The outputs of a code cell, taken out of it."""
    if not isinstance(cell, nodes.container) or "cell" not in cell["classes"]:
        return []
    outputs = [part for part in cell if "cell_output" in part.get("classes", ())]
    for output in outputs:
        cell.remove(output)
    wrapper = nodes.container("", *outputs, classes=["cell"])
    return [wrapper] if outputs else []


def _card(comment: nodes.comment) -> None:
    section = comment.parent
    start = next((n + 1 for n, node in enumerate(section) if isinstance(node, nodes.title)), 0)
    end = section.index(comment)
    body = section[start:end]
    if body and isinstance(body[0], nodes.paragraph):
        body[0]["classes"].append("kind")
    section["classes"].append("exercise")
    section[start : end + 1] = [nodes.container("", *body, classes=["card-body"])]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(Marks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
