"""Lines that are put in order: the cards in orders.yaml.

    - id: 11-order-step
      fact: 11-loop-order                a fact that is taught in the same section
      asks: Put the lines …
      lines:                             in an order that works, by short names
        zero: optimizer.zero_grad()
        …
      wrong:                             sentence: names that come in this order in a wrong answer, or a list of such
        The loss has to …: backward forward
      because: …
      setup: …                           code that runs before the lines
      works: …                           code that runs after the lines, and says so in `works`

The first sentence in `wrong` that applies is told. A test runs the lines in every order and compares. An entry without
`works` has a setup that notes in `fired` in which order the lines happen by themselves, or no setup where running the
lines would prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from torchkata.base.signs import Sign, betrayed, signs_of
from torchkata.facts.card_file import cards_in, fault_of_texts, of_chapter
from torchkata.facts.collection import Fact, find

DATA = files("torchkata.facts") / "orders.yaml"
TEXTS = {"id", "fact", "asks", "because"}
FEWEST, MOST = 4, 6  # lines of a card


@dataclass(frozen=True)
class Order:
    """Lines to be put in order.

    fact: one that is taught in the same section. asks: the question. lines: by short names, in an order that works.
    wrong: sentences, each with the names that betray an order in which they come one after another, whatever is
    between them. because: why this is the order. setup, works: code that proves it.
    """

    id: str
    fact: Fact
    asks: str
    lines: dict[str, str]
    wrong: tuple[tuple[str, tuple[Sign, ...]], ...]
    because: str
    setup: str = ""
    works: str = ""
    code = ""
    choices: tuple[str, ...] = ()
    folded = "order"  # what `shown` is, in a word
    shown_title = "An order that works"
    runs = ""  # nothing

    @property
    def offered(self) -> list[str]:
        """The names of the lines, as they are offered."""
        return sorted(self.lines, key=lambda name: self.lines[name].lower())

    @property
    def answer(self) -> str:
        """An order that works: names with blanks between them."""
        return " ".join(self.lines)

    @property
    def shown(self) -> str:
        """An order that works, as lines."""
        return "\n".join(self.lines.values())

    def fault(self, given: str) -> str:
        """Why an order doesn't work: the first sentence that applies; "" where it works. given: names with blanks."""
        names = given.split()
        return next((told for told, signs in self.wrong if betrayed(signs, names)), "")


@cache
def all_orders() -> tuple[Order, ...]:
    """The orders of all chapters. Raises FactError for a faulty entry."""
    return parse(DATA.read_text(encoding="utf-8"))


def orders(chapter: str) -> tuple[Order, ...]:
    """The orders of a chapter, named in full (11_training_loop)."""
    return of_chapter(all_orders(), chapter)


def parse(text: str) -> tuple[Order, ...]:
    """The orders in the text of the file. Raises FactError, naming the entry, at the first fault."""
    return cards_in(text, DATA.name, _fault, _order)


def _order(entry: dict[str, Any]) -> Order:
    return Order(
        id=entry["id"],
        fact=find(entry["fact"]),
        asks=entry["asks"].strip(),
        lines=entry["lines"],
        wrong=tuple((told, signs_of(signs)) for told, signs in entry["wrong"].items()),
        because=entry["because"].strip(),
        setup=entry.get("setup", ""),
        works=entry.get("works", ""),
    )


def _fault(entry: dict[str, Any]) -> str | None:
    """What is wrong with an entry, or None."""
    if set(entry) - {"setup", "works"} != TEXTS | {"lines", "wrong"}:
        return f"its fields must be {', '.join(sorted(TEXTS | {'lines', 'wrong'}))}, and setup and works"
    if fault := fault_of_texts(entry, TEXTS):
        return fault
    if not FEWEST <= len(entry["lines"]) <= MOST:
        return f"it must have {FEWEST} to {MOST} lines"
    named = {name for signs in entry["wrong"].values() for sign in signs_of(signs) for name in sign}
    if strays := sorted(named - set(entry["lines"])):
        return f"no line is called {strays[0]}"
    return None
