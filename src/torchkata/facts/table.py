"""The closing table of a chapter: what is said, the verdict, what holds, and the proof to unfold."""

from dataclasses import dataclass

from torchkata.facts.collection import Fact, load
from torchkata.facts.look import TABLE, code_html, prose_html, style, verdict_html

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
        table = [f'<table class="{TABLE}">', f"<thead><tr>{head}</tr></thead>", *map(_rows, self.facts), "</table>"]
        return "\n".join([f"<style>{style()}</style>", *table])


def folklore(chapter: str, everything: bool = False) -> Folklore:
    """The closing table of a chapter, named in full (03_gather_scatter): the facts that have a row in it, in that
    order; with `everything`, and where no fact has a row, all facts of the chapter.

    Raises FactError for an unknown chapter.
    """
    facts = load(chapter)
    shown = tuple(sorted((fact for fact in facts if fact.table), key=lambda fact: fact.table))
    return Folklore(chapter, facts if everything or not shown else shown)


def _rows(fact: Fact) -> str:
    cells = (prose_html(fact.belief), verdict_html(fact.verdict), _what_holds(fact))
    row = "".join(f"<td {LEFT}>{cell}</td>" for cell in cells)
    return f'<tbody><tr>{row}</tr>\n<tr><td colspan="3" {LEFT}>{_proof(fact)}</td></tr></tbody>'


def _what_holds(fact: Fact) -> str:
    text = prose_html(fact.fact)
    if fact.trap:
        text += f"<br><em>Common mistake:</em> {prose_html(fact.trap)}"
    return text


def _proof(fact: Fact) -> str:
    needs = " and ".join(NEEDS_IN_WORDS[need] for need in fact.needs)
    title = f"Proof {fact.id}" + (f" (needs {needs})" if needs else "")
    code = code_html(fact.proof.rstrip())
    return f"<details><summary>{title}</summary>\n<pre><code>{code}</code></pre>\n</details>"
