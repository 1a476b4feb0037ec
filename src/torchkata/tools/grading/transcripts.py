"""What check cells have asked and been told, and how that ended: many answers of a class do the same, and a check cell
whose questions all get answers that are known by now need not run again.

A check cell is a function of the replies to what it asks: it begins with the same seeds each time, and learns nothing
else about a submission. Where that does not hold it is noticed (see `Script.reply_to`), and the cell runs each time.
Which words an exception has, and in which line it was raised, counts where the cell has looked at them: where an answer
must raise, these differ from learner to learner, and nobody asks for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from torchkata.tools.grading.limits import MIB
from torchkata.tools.grading.replies import Reply

COST = 500  # bytes that a question takes beside its text


class Asked(Protocol):
    """Who replies (see `torchkata.tools.grading.sandbox.Session`)."""

    def exchange(self, question: bytes) -> Reply: ...

    def words_of(self, reply: Reply) -> dict:
        """What a check cell sees of the reply's second part, as plain data."""


@dataclass(frozen=True)
class Verdict:
    """What a check cell said: the points, the verdict in one line, all that was shown, whether there is an answer."""

    points: float
    line: str
    shown: tuple[str, ...]
    solved_yet: bool = True


@dataclass
class _Question:
    text: bytes
    then: dict[bytes, _Question | Verdict] = field(default_factory=dict)  # by what a reply is known as
    words_count: bool = False  # whether a cell has looked at the words of some of these replies


class Otherwise(BaseException):
    """A check cell asks something else than the last time, though it was told the same. (No author's `except` is meant
    to catch this.)"""


class Script:
    """What is asked for one check cell, first as it was asked before, and what the submission replied."""

    def __init__(self, asked: Asked):
        self._asked = asked
        self.questions: list[bytes] = []
        self.looked: set[int] = set()  # the places of the replies whose words the cell has looked at
        self._replies: list[Reply] = []
        self._place = 0  # how far the cell itself has come

    def ask(self, question: bytes) -> None:
        self._replies.append(self._asked.exchange(question))
        self.questions.append(question)

    def known_as(self, place: int = -1, words: bool = False) -> bytes:
        """The same for two replies that a check cell can't tell apart, and only for these: as long as it does not look
        at their words, or with these."""
        reply = self._replies[place]
        return fingerprint(reply.said, *([repr(self._asked.words_of(reply)).encode()] if words else []))

    def reply_to(self, question: bytes) -> tuple[Reply, Callable[[], dict]]:
        """The reply to what the cell asks, which it may have been asked before, and what gives the reply's words to who
        looks at them. Raises Otherwise."""
        if self._place == len(self.questions):
            self.ask(question)
        elif self.questions[self._place] != question:
            raise Otherwise
        self._place += 1
        return self._replies[self._place - 1], partial(self._words, self._place - 1)

    def _words(self, place: int) -> dict:
        self.looked.add(place)
        return self._asked.words_of(self._replies[place])

    def end(self) -> None:
        """The cell has no more questions. Raises Otherwise where it had more the last time."""
        if self._place < len(self.questions):
            raise Otherwise


class Transcripts:
    """Of the check cells of one chapter.

    Args:
        room: bytes; when they are full everything is forgotten.
    """

    def __init__(self, room: int = 64 * MIB):
        self._room = self._left = room
        self._begun: dict[tuple, _Question | Verdict] = {}
        self._texts: dict[bytes, bytes] = {}
        self._unsteady: set[tuple] = set()

    def follow(self, check: str, names: Collection[str], asked: Asked) -> tuple[Verdict | None, Script]:
        """Ask what was asked before, as long as the replies are known; the verdict, if it is known then, and the script
        so far. `names` are those that the learner's code has bound of the ones that the check cell may use."""
        script, step = Script(asked), self._begun.get(_key(check, names))
        while isinstance(step, _Question):
            script.ask(step.text)
            known = step.then.get(script.known_as(words=True)) if step.words_count else None
            step = known or step.then.get(script.known_as())
        return step, script

    def keep(self, check: str, names: Collection[str], script: Script, verdict: Verdict) -> None:
        key = _key(check, names)
        if key in self._unsteady:
            return
        then: dict = self._begun
        by: object = key
        for place, text in enumerate(script.questions):
            step = then.setdefault(by, self._question(text))
            step.words_count = step.words_count or place in script.looked
            then, by = step.then, script.known_as(place, place in script.looked)
        then[by] = verdict
        self._left -= COST * len(script.questions) + sum(map(len, (verdict.line, *verdict.shown)))
        if self._left < 0:
            self._forget_all()

    def distrust(self, check: str, names: Collection[str]) -> None:
        """This check cell asked otherwise: from now on it is not followed."""
        self._unsteady.add(_key(check, names))
        self._begun.pop(_key(check, names), None)

    def _question(self, text: bytes) -> _Question:
        """Texts are kept once: many cells ask the same after different replies."""
        if text not in self._texts:
            self._texts[text] = text
            self._left -= len(text)
        return _Question(self._texts[text])

    def _forget_all(self) -> None:
        self._begun.clear()
        self._texts.clear()
        self._left = self._room


def _key(check: str, names: Collection[str]) -> tuple:
    return check, frozenset(names)


def fingerprint(*parts: bytes) -> bytes:
    """Tells byte strings apart, also those that somebody has made to look alike."""
    found = hashlib.blake2b(digest_size=32)
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.digest()
