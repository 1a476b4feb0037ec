"""The review page: a round of review in a notebook of the workbook, with buttons that the keyboard reaches."""

from __future__ import annotations

import html
from itertools import zip_longest
from pathlib import Path
from typing import Any

from torchkata.base.editor import workbook_here
from torchkata.facts.cards import judged
from torchkata.facts.look import prose_html
from torchkata.facts.orders import MOST, Order
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.review import Card, Round, answered, begin, section_of
from torchkata.tools.learning.review_terminal import in_days, run_of
from torchkata.tools.placing import Place, here

NO_WORKBOOK = "Your cards are kept in your workbook: open this page there, with `torchkata lab`."
NOTHING_READ = (
    "You have not run a check of a chapter yet. Choose a chapter that you have read and press the button beside it."
)
# a long line is broken rather than cut
LINE_STYLE = (
    "<style>.torchkata-line {white-space: normal; height: auto; min-height: var(--jp-widgets-inline-height, 28px); "
    "max-width: 100%; text-align: left}</style>"
)
DONT_KNOW, CHECK, NEXT = "I don't know", "check this order", "next card"


def review() -> ReviewPage | None:
    """Show the cards that are due; as the last line of a cell. Outside of a workbook it says where to go."""
    if (workbook := workbook_here()) is None:
        print(NO_WORKBOOK)
        return None
    return ReviewPage(here(workbook))


class ReviewPage:
    """One card at a time: the question, two or three answers or lines to put in order, then what holds, a link and the
    proof.

    The widgets stay the same from card to card, so that the focus does.
    """

    def __init__(self, place: Place):
        from ipywidgets import HTML, HBox, Layout, Output, VBox

        from torchkata.tools.learning.review_widgets import button, choice, helper

        self.place, self.round = place, Round([], [], [])
        self.number, self.right, self.answer_given = 0, 0, False
        self.words = HTML()
        self.words.add_class("torchkata-words")  # a live region: it is read out when it changes
        self.choices = [button("", "an answer") for _ in range(3)]
        self.lines = [button("", "the next line of your order") for _ in range(MOST)]
        self.placed: list[str] = []  # names of lines, in the order of the learner
        self.undo = button("undo", "take the last line back")
        self.in_order = HTML()
        self.onward = button(DONT_KNOW, "show the answer; then the next card")
        self.prove = button("", "run this code here")
        self.more, self.proof = Output(), Output()
        known = chapters(place)
        labels = [f"{one.number} {one.topic.replace('_', ' ')}" for one in known]
        self.chapter = choice("chapter", zip(labels, known, strict=True), known[0])
        self.read_it = button("I have read it", "also ask about this chapter")
        self.answers = HBox([*self.choices, self.undo, self.onward], layout=Layout(flex_flow="row wrap"))
        further = HBox([self.chapter, self.read_it], layout=Layout(flex_flow="row wrap"))
        self.line_box = VBox([*self.lines, self.in_order])
        rows = [self.words, self.line_box, self.answers, self.more, self.prove, self.proof, further, helper()]
        self.widget = VBox(rows)
        self.widget.add_class("torchkata-review")  # keys stay with the buttons
        for one in self.choices:
            one.on_click(lambda pressed: self.give(pressed.description))
        for number, one in enumerate(self.lines):
            one.add_class("torchkata-line")
            one.on_click(lambda _, number=number: self.put_next(number))
        self.undo.on_click(lambda _: self.take_back())
        self.onward.on_click(lambda pressed: self.go_on())
        self.prove.on_click(lambda pressed: self.run_proof())
        self.read_it.on_click(lambda pressed: self.start([self.chapter.value]))
        self.start()

    @property
    def card(self) -> Card | None:
        """The card that is shown; None before the first and after the last."""
        return self.round.cards[self.number] if self.number < len(self.round.cards) else None

    def start(self, read: list[Chapter] | None = None) -> None:
        """Begin a round; `read`: further chapters that the learner has read."""
        self.number = self.right = 0
        try:
            self.round = begin(self.place, read=read or ())
        except CourseError as error:
            self.round = Round([], [], [str(error)])
        self._ask()

    def give(self, answer: str) -> None:
        """Take an answer, note it and show what holds; a second answer to the same card is passed over."""
        card = self.card
        if card is None or self.answer_given:
            return
        right, holds, why = judged(card.question, answer)
        try:
            due = in_days(answered(self.place, card.id, right))
        except CourseError as error:
            self._say(*self._question(card), html.escape(str(error)))
            return
        self.answer_given, self.right = True, self.right + right
        for one in self.choices:
            one.disabled = one.description != answer  # the one that was pressed keeps the focus
        for one in (*self.lines, self.undo):
            one.disabled = True
        word = "✓ Right" if right else "✗ No"
        self._say(
            *self._question(card),
            f"<strong>{word}: {html.escape(holds)}.</strong> {prose_html(why)}",
            f"It comes back {due}.",
        )
        self.onward.description = NEXT
        self.more.outputs = (_markdown(_further(card)),)
        self.prove.description = card.question.runs
        self.prove.layout.display = None if card.question.runs else "none"

    def go_on(self) -> None:
        """The next card; the answer first, where none was given: the order, if it is complete."""
        if self.card is not None and not self.answer_given:
            self.give(" ".join(self.placed) if self.onward.description == CHECK else "")
        elif self.card is not None:
            self.number += 1
            self._ask()

    def put_next(self, number: int) -> None:
        """Put a line next in the order, unless it has a place already."""
        if self.card is not None and isinstance(self.card.question, Order) and not self.answer_given:
            name = self.card.question.offered[number]
            self.placed += [name] if name not in self.placed else []
            self._show_lines(self.card.question)

    def take_back(self) -> None:
        """Take the last line out of the order."""
        if self.card is not None and isinstance(self.card.question, Order) and not self.answer_given:
            del self.placed[-1:]
            self._show_lines(self.card.question)

    def run_proof(self) -> None:
        """Run the proof of the card here and show what comes of it."""
        if self.card is not None:
            self.proof.outputs = (_plain("It is running ..."),)
            self.proof.outputs = (_plain(run_of(self.card)),)

    def _ask(self) -> None:
        card, self.answer_given = self.card, False
        self.more.outputs = self.proof.outputs = ()
        self.prove.layout.display = "none"
        self.answers.layout.display = None if card else "none"
        self.line_box.layout.display = "none"
        self.onward.description = DONT_KNOW
        notes = [html.escape(note) for note in self.round.notes] if self.number == 0 else []
        if card is None:
            self._say(*notes, self._end())
            return
        for one, label in zip_longest(self.choices, card.question.choices):
            one.description, one.disabled = label or "", False
            one.layout.display = None if label else "none"
        self.placed.clear()
        order = card.question if isinstance(card.question, Order) else None
        self.line_box.layout.display = self.undo.layout.display = None if order else "none"
        if order:
            self._show_lines(order)
        self._say(*notes, *self._question(card))

    def _show_lines(self, order: Order) -> None:
        """Each line on a button, with its place in the order in front; and the order so far."""
        for one, name in zip_longest(self.lines, order.offered):
            one.layout.display = None if name else "none"
            if name:
                place = f"{self.placed.index(name) + 1}. " if name in self.placed else ""
                one.description, one.disabled = f"{place}{order.lines[name]}", False
        self.undo.disabled = not self.placed
        self.onward.description = CHECK if len(self.placed) == len(order.lines) else DONT_KNOW
        so_far = "\n".join(f"{n}. {order.lines[name]}" for n, name in enumerate(self.placed, 1))
        self.in_order.value = f"{LINE_STYLE}<pre>{html.escape(so_far)}</pre>"

    def _question(self, card: Card) -> tuple[str, str]:
        head = f"Card {self.number + 1} of {len(self.round.cards)}, chapter {card.chapter.number}"
        asked = prose_html(card.question.asks)
        code = html.escape(card.question.code)
        return head, f"{asked}<pre>{code}</pre>" if code else f"<strong>{asked}</strong>"

    def _end(self) -> str:
        if self.round.cards:
            return f"{self.right} of {len(self.round.cards)} right. That is all for now."
        return "No card is due. Come back tomorrow." if self.round.read else NOTHING_READ

    def _say(self, *paragraphs: str) -> None:
        self.words.value = "".join(f'<div style="margin: 0.5em 0">{one}</div>' for one in paragraphs)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget)


def _further(card: Card) -> str:
    """A link to the section, and what explains the answer, folded."""
    title, place = section_of(card)
    label = title.replace("[", r"\[").replace("]", r"\]")
    code = html.escape(card.question.shown, quote=False)
    return (
        f"Taught in [{label}]({Path(place).as_posix()})\n\n<details><summary>{card.question.shown_title}</summary>\n"
        f"<pre><code>{code}\n</code></pre>\n</details>"
    )


def _markdown(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/markdown": text, "text/plain": text}, "metadata": {}}


def _plain(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": f"{text}\n"}
