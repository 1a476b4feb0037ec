"""The closing table of a chapter: what is said, the verdict, what holds, and the proof to unfold."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from torchkata.facts.collection import Fact, FactError, load

NEEDS_IN_WORDS = {
    "cuda": "a CUDA device",
    "cuda2": "two CUDA devices",
    "multiprocess": "several processes",
    "onnx": "onnx, onnxruntime and onnxscript",
    "torchinfo": "torchinfo",
    "torchvision": "torchvision",
}
# notebooks right-align the cells of tables; colours are left to the theme
LEFT = 'style="text-align: left; vertical-align: top"'


@dataclass(frozen=True)
class Folklore:
    """Facts of one chapter that a notebook displays as a table."""

    chapter: str
    facts: tuple[Fact, ...]

    def __repr__(self) -> str:
        return f"Folklore, checked: {len(self.facts)} sayings of {self.chapter}"

    def _repr_html_(self) -> str:
        titles = ("What is said", "Verdict", "What holds")
        head = "".join(f'<th scope="col" {LEFT}>{title}</th>' for title in titles)
        return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", *map(_rows, self.facts), "</table>"])


def folklore(chapter: str, ids: Sequence[str] | None = None) -> Folklore:
    """The table of a chapter, named in full (03_gather_scatter): the facts with these ids, or all of them.

    Raises FactError for an unknown chapter or id.
    """
    facts = load(chapter)
    if ids is None:
        return Folklore(chapter, facts)
    by_id = {fact.id: fact for fact in facts}
    unknown = [name for name in ids if name not in by_id]
    if unknown:
        raise FactError(f"{chapter} has no fact with the id {', '.join(unknown)}.")
    return Folklore(chapter, tuple(by_id[name] for name in ids))


def _rows(fact: Fact) -> str:
    cells = (escape(fact.belief), f"<strong>{fact.verdict}</strong>", _what_holds(fact))
    row = "".join(f"<td {LEFT}>{cell}</td>" for cell in cells)
    return f'<tbody><tr>{row}</tr>\n<tr><td colspan="3" {LEFT}>{_proof(fact)}</td></tr></tbody>'


def _what_holds(fact: Fact) -> str:
    text = escape(fact.fact)
    if fact.trap:
        text += f"<br><em>Common mistake:</em> {escape(fact.trap)}"
    return text


def _proof(fact: Fact) -> str:
    needs = " and ".join(NEEDS_IN_WORDS[need] for need in fact.needs)
    title = f"Proof {fact.id}" + (f" (needs {needs})" if needs else "")
    code = escape(fact.proof.rstrip(), quote=False)
    return f"<details><summary>{title}</summary>\n<pre><code>{code}\n</code></pre>\n</details>"
