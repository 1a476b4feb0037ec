"""The directive `beliefs`: all beliefs of a chapter with their proofs. A Sphinx extension.

Each belief is a section whose id is that of the fact, so that its address is short and lasts. (Docutils makes ids of
its own from names, without leading digits.)
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from torchkata.facts.look import pieces
from torchkata.facts.table import NEEDS_IN_WORDS
from torchkata.tools.site.home import Home
from torchkata.tools.site.proved import Told, Variant, told


class Beliefs(SphinxDirective):
    """`{beliefs} 03_gather_scatter`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        sections, home = self.config.torchkata_sections, Home(**self.config.torchkata_home)
        return [_section(one, sections.get(one.fact.id), home) for one in told(self.arguments[0])]


def _section(one: Told, taught: tuple[str, str, str] | None, home: Home) -> nodes.section:
    section = nodes.section(ids=[one.fact.id], names=[], classes=["belief"])
    section += nodes.title("", "", *_prose(one.fact.belief))
    for variant in one.variants:
        section.extend(_variant(variant))
    section += (line := _where(one, taught))
    if doubt := home.doubt_text(f"the belief {one.fact.id}", one.fact.belief):
        line += nodes.Text(" ")
        line += nodes.reference("", "Is this wrong? Report it", refuri=doubt, internal=False)
        line += nodes.Text(".")
    return section


def _variant(variant: Variant) -> Iterator[nodes.Node]:
    fact = variant.fact
    verdict = nodes.inline("", fact.verdict, classes=["verdict", fact.verdict])
    releases = [nodes.Text(f" on torch {variant.releases}: ")] if variant.releases else [nodes.Text(" ")]
    yield nodes.paragraph("", "", verdict, *releases, *_prose(fact.fact))
    if fact.trap:
        yield nodes.paragraph("", "", nodes.emphasis("", "Common mistake:"), nodes.Text(" "), *_prose(fact.trap))
    needs = " and ".join(NEEDS_IN_WORDS[need] for need in fact.needs)
    title = "Proof" + (f" (needs {needs})" if needs else "")
    yield nodes.raw("", f'<details class="fold proof"><summary>{escape(title)}</summary>', format="html")
    proof = fact.proof.rstrip()
    yield nodes.literal_block(proof, proof, language="python")
    yield nodes.raw("", "</details>", format="html")


def _prose(text: str) -> Iterator[nodes.Node]:
    """A sentence, in which its code is set as code."""
    return (nodes.literal("", piece) if is_code else nodes.Text(piece) for piece, is_code in pieces(text))


def _where(one: Told, taught: tuple[str, str, str] | None) -> nodes.paragraph:
    """On which torch it was proved, and where it is taught."""
    if one.proved_on:
        said = f"Proved on torch {one.proved_on}, and again with each change of the course."
    else:
        said = "Its proof needs a GPU and does not run where the course is tested."
    if one.fact.unverified:
        said += " A part of it needs a GPU and has not been run on one yet."
    line = nodes.paragraph("", said, classes=["where"])
    if taught:
        page, anchor, name = taught
        line += nodes.Text(" Taught in ")
        line += _link(f"../{page}.html#{anchor}", name)
        line += nodes.Text(".")
    return line


def _link(address: str, text: str) -> nodes.reference:
    return nodes.reference("", text, refuri=address, internal=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("torchkata_sections", {}, "env")
    app.add_directive("beliefs", Beliefs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
