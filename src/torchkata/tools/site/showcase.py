"""What the first page shows of the course: a verdict as the card of a notebook, a belief with its proof, and the
chapters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from torchkata.facts.look import prose_html
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.progress import MINUTES
from torchkata.tools.site.proved import Told
from torchkata.verdicts.grids import MARK, UNMARK
from torchkata.verdicts.showing import Card, Part

HEAD = re.compile(r"✗ ([a-z0-9-]+)(.*)")
PART = re.compile(r"    (\w+):\s+(\S.*)")
DIFFERS = re.compile(r" ?\*([^*\s]+)\* ?")
CODE = re.compile(r"`([^`]+)`")
OUTCOME = re.compile(r"^\| \[(\d\d) .*\| ([^|]+) \|$", re.M)  # a row of the README's table


def verdict_card(told: str) -> str:
    """A verdict that a check printed, as the card that a notebook shows of it. Raises CourseError for another text."""
    first, sentence, *rest = told.rstrip().splitlines()
    head = HEAD.fullmatch(first)
    if head is None:
        raise CourseError(f"The verdict for the website's first page does not begin as one: {first!r}.")
    parts: list[tuple[str, list[str]]] = []
    for line in rest:
        if named := PART.fullmatch(line):
            parts.append((named[1], [named[2]]))
        else:
            parts[-1][1].append(line[14:])
    shown = tuple(Part(label, _marked("\n".join(lines))) for label, lines in parts)
    return Card("wrong", head[1], head[2], sentence.strip(), shown).html()


def _marked(text: str) -> str:
    return DIFFERS.sub(rf"{MARK}\1{UNMARK}", text)


def belief_html(told: Told) -> str:
    """A belief, what is so, and the proof, in Markdown with HTML."""
    fact = told.fact
    return (
        f'<p class="saying">“{prose_html(fact.belief)}”</p>\n'
        f'<p><span class="verdict {fact.verdict}">{fact.verdict}</span> {prose_html(fact.fact)}</p>\n\n'
        f"```python\n{fact.proof.rstrip()}\n```\n"
    )


def chapter_cards(chapters: Sequence[Chapter], readme: str) -> str:
    """A card for each chapter: its title, what one can do afterwards, and how much it is. readme: the text with the
    table that says the second.

    Raises CourseError where it says nothing of a chapter.
    """
    outcomes = dict(OUTCOME.findall(readme))
    if lacking := [chapter.number for chapter in chapters if chapter.number not in outcomes]:
        raise CourseError(f"README.md does not say what one can do after chapter {', '.join(lacking)}.")
    return "\n".join(['<ol class="chapters">', *(_card(one, outcomes[one.number]) for one in chapters), "</ol>"])


def _card(chapter: Chapter, outcome: str) -> str:
    numbers = MINUTES.search(chapter.master.cells[0].source)
    size = f"{numbers[1]} min to read, {numbers[2]} min to practise, {numbers[3]} points" if numbers else ""
    words = CODE.sub(r"<code>\1</code>", escape(outcome))
    return (
        f'<li><a href="chapters/{chapter.name}.html"><span>{chapter.number}</span> {escape(chapter.title)}</a>'
        f'<p>Afterwards you can {words}.</p><p class="size">{size}</p></li>'
    )
