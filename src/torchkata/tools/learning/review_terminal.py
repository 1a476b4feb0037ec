"""A round of review in the terminal: a card, the answer, where it stands, its proof."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from string import ascii_lowercase

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.text import Text

from torchkata.facts.cards import judged
from torchkata.facts.orders import Order
from torchkata.facts.pairs import Pair
from torchkata.tools.learning.review import Card, Round, answered, right_now, section_of
from torchkata.tools.placing import Place

KEYS = "[1-{}] answer, [?] don't know, [q] end: "
LETTERS = "[letters] the order, such as {}, [?] don't know, [q] end: "
AFTERWARDS = "[Enter] next, [p] {}, [q] end: "
Ask = Callable[[str], str]


def run_round(place: Place, this_round: Round, out: Console, ask: Ask) -> None:
    """Ask the cards of a round one by one; each answer is noted at once. `ask` shows a line and reads one; it raises
    EOFError or KeyboardInterrupt where nobody answers."""
    right = asked = 0
    with contextlib.suppress(EOFError, KeyboardInterrupt, Ended):
        for number, card in enumerate(this_round.cards, 1):
            out.rule(f"Card {number} of {len(this_round.cards)} · chapter {card.chapter.number}")
            given = ask_card(card, out, ask)
            is_right, *told = judged(card.question, given)
            due = answered(place, card.id, is_right)
            asked, right = asked + 1, right + is_right
            _tell(card, is_right, ". ".join(told), due, out)
            _look_closer(card, out, ask)
    out.print(f"\n{right} of {asked} right." if asked else "\nNo card was answered.")


class Ended(Exception):
    """The learner has had enough."""


def ask_card(card: Card, out: Console, ask: Ask) -> str:
    """The answer that is given to a card's question, or "" for none. Raises Ended where the learner has had enough."""
    question = card.question
    out.print(Text(f"{question.asks}\n"), soft_wrap=False)
    if question.code:
        out.print(_python(question.code))
    if isinstance(question, Order):
        return _ask_order(question, out, ask)
    out.print(Text("   ".join(f"{n} {choice}" for n, choice in enumerate(question.choices, 1))))
    keys = [str(number) for number in range(1, len(question.choices) + 1)]
    while True:
        word = ask(escape(KEYS.format(keys[-1]))).strip().lower()
        if word == "q":
            raise Ended
        if word == "?":
            return ""
        if word in keys:
            return question.choices[int(word) - 1]
        if word in question.choices:
            return word


def _ask_order(order: Order, out: Console, ask: Ask) -> str:
    """The names of the lines in the order that is given in letters, with blanks between them."""
    lines = dict(zip(ascii_lowercase, order.offered, strict=False))
    for letter, name in lines.items():
        out.print(Text(f"{letter}  {order.lines[name]}"), soft_wrap=True)
    prompt = escape(LETTERS.format("".join(reversed(lines))))
    while True:
        word = "".join(ask(prompt).lower().replace(",", " ").split())
        if word == "q":
            raise Ended
        if word == "?":
            return ""
        if sorted(word) == list(lines):
            return " ".join(lines[letter] for letter in word)


def _tell(card: Card, right: bool, told: str, due: datetime, out: Console) -> None:
    title, place = section_of(card)
    word = "✓ Right" if right else "✗ No"
    out.print(Text(f"\n{word}: {told}"))
    out.print(Text(f"{title}: {place.partition('#')[0]}", style="dim"))
    out.print(Text(f"It comes back {in_days(due)}.", style="dim"))


def _look_closer(card: Card, out: Console, ask: Ask) -> None:
    question = card.question
    keys = f"{question.folded}, [r] {question.runs}" if question.runs else question.folded
    while word := ask(escape(AFTERWARDS.format(keys))).strip().lower():
        if word == "q":
            raise Ended
        if word == "p":
            out.print(_python(question.shown))
        if word == "r" and question.runs:
            out.print(Text(run_of(card)))


def run_of(card: Card) -> str:
    """What running a card's code says."""
    return pair_run(card.question) if isinstance(card.question, Pair) else proof_run(card.id)


def pair_run(pair: Pair) -> str:
    """What the two functions of a pair return on its inputs."""
    import torch

    with torch.random.fork_rng(devices=[]):
        told = [f"{code}\n  first returns {one}\n  second returns {other}" for code, one, other in pair.run()]
    return "\n".join(told)


def proof_run(fact: str) -> str:
    """What running a proof says: that it holds, what the machine lacks, or the error."""
    from torchkata.facts.proof import prove

    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told):
            prove(fact)
    except AssertionError as error:
        return str(error)
    return told.getvalue().strip()


def in_days(due: datetime, now: datetime | None = None) -> str:
    """A time to come in words: tomorrow, in 12 days."""
    days = max(1, round((due - (now or right_now())) / timedelta(days=1)))
    return "tomorrow" if days == 1 else f"in {days} days"


def _python(code: str) -> Syntax:
    return Syntax(code, "python", background_color="default", word_wrap=True)
