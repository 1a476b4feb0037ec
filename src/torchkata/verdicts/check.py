"""The frame of a check cell: named tests, visible and hidden, and one verdict at the end."""

from __future__ import annotations

import io
import linecache
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from types import TracebackType

from torchkata.base.marks import hidden_tests, without_hidden_tests
from torchkata.remembering import Remembered, begin, died, digest_of, end, remember
from torchkata.verdicts import at_hand, names, observing
from torchkata.verdicts.isolation import clean_state
from torchkata.verdicts.judging import Failed, NotSolved, frame_lines, frame_words
from torchkata.verdicts.originals import answers_are_here, put_back_torch
from torchkata.verdicts.predicting import collected, print_wrong
from torchkata.verdicts.showing import Card, Part, Place, notice, somebody_looks, wrapped
from torchkata.verdicts.surroundings import surroundings

BUT_HERE = " here; tests that you don't see may follow when it is graded"


class _Verdict:
    """What a notebook shows for a verdict: its own lines, not a traceback of the checker."""

    lines: list[str]
    is_shown = False  # whether a card has said it all

    def _render_traceback_(self) -> list[str]:
        return [part for line in self.lines[: 1 if self.is_shown else None] for part in wrapped(line)]


def _heading(exercise: str, test: str) -> str:
    return f"✗ {exercise}" + (f", {test}" if test else "")


def _innermost(frames: list) -> list[str]:
    """The function in which an exception came up in a hidden test. Which line it was could tell the test's data."""
    return [f"in your function {where}" for _, where, _ in frames[-1:]]


def _note_on(taken: list[str]) -> list[str]:
    """On names that the learner has given to something else than the check means by them."""
    if not taken:
        return []
    named = ", ".join(f"`{name}`" for name in taken[:3]) + (" and others" if len(taken) > 3 else "")
    return [f"(Your code names something {named}; the checks use their own.)"]


class NotSolvedYet(_Verdict, NotImplementedError):
    """The verdict on a stub: there is no answer yet."""

    def __init__(self, exercise: str):
        self.lines = [f"{exercise}: not solved yet."]
        super().__init__(self.lines[0])


class WrongAnswer(_Verdict, AssertionError):
    """The verdict on an answer that is not right; its message is one line, `lines` is what a notebook shows."""

    def __init__(self, exercise: str, test: str, sentence: str, parts: Sequence[Part] = ()):
        super().__init__(f"{exercise}: {sentence}")
        below = [f"    {line}" for part in parts for line in part.lines()]
        self.lines = [_heading(exercise, test), f"  {sentence}", *below]
        self.card = Card("wrong", exercise, f", {test}" if test else "", sentence, tuple(parts))

    def show(self, place: Place) -> WrongAnswer:
        """Show all of it as a card; what is raised says one line then."""
        place.put(self.card, self.lines)
        self.is_shown = True
        return self


class Interrupted(_Verdict, KeyboardInterrupt):
    """The verdict on an answer whose check was stopped by hand."""

    def __init__(self, exercise: str, test: str, lines: list[str]):
        super().__init__(f"{exercise}: interrupted")
        told = "  Interrupted. Your code was still running:" if lines else "  Interrupted."
        self.lines = [_heading(exercise, test), told, *(f"    {line}" for line in lines)]


NOT_THE_CELL = (
    "this check cell is not the one of the course at hand. Has it been edited, or is your notebook of another release? "
    "In a terminal, `torchkata check` runs them all, and `torchkata update` brings the new release."
)


class check:
    """The frame of a check cell.

        with check("one-hot") as test:
            test("row i has its one in column labels[i]")
            seen = observe(one_hot, torch.tensor([2, 0]), num_classes=3)
            seen.returns(torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))

    Calling `test(idea)` begins a visible test, `test.hidden(idea)` a hidden one. In a learner's own workbook, with the
    course beside it, the cell's hidden tests are run at the end, and nothing is withheld. Elsewhere a failing hidden
    test tells its idea and its sentence, and no data. Prints one confirming line when all holds. Raises NotSolvedYet or
    WrongAnswer.
    """

    def __init__(self, exercise: str):
        self.exercise = exercise
        self.points: float | None = None  # set by a check that gives a share of the points
        self._idea, self._hidden, self._count = "", False, 0
        self._mute, self._state = ExitStack(), ExitStack()
        self._unseen = io.StringIO()  # what the answer prints in a hidden test

    def __call__(self, idea: str) -> None:
        """Begin a visible test."""
        self._mute.close()
        self._begin_test(f"test: {idea}", hidden=False)

    def hidden(self, idea: str) -> None:
        """Begin a hidden test. What an answer prints in it is not shown: elsewhere than in a learner's own workbook it
        could be the test's data."""
        self._mute.close()
        self._unseen = self._mute.enter_context(redirect_stdout(io.StringIO()))
        self._begin_test(f"hidden test: {idea}", hidden=True)

    def _begin_test(self, idea: str, hidden: bool) -> None:
        self._idea, self._hidden = idea, hidden
        self._count += 1
        self._place.at_work_on(self._count, idea.partition(": ")[2])

    def __enter__(self) -> check:
        if replaced := put_back_torch():
            shown = ", ".join(replaced[:3]) + (" and others" if len(replaced) > 3 else "")
            print(f"Your code has replaced {shown}. The original is back: the checks need it.")
        cell = sys._getframe(1)
        self._file, self._space = cell.f_code.co_filename, cell.f_globals
        self._source = at_hand.source_of(self._file)
        self._digest = digest_of(without_hidden_tests(self._source))
        self._workbook = at_hand.WORKBOOK if answers_are_here() else None
        self._own = at_hand.own_check(self.exercise, self._digest) if self._workbook else None
        self._begin()
        self._place = Place(self.exercise)
        self._items = self._state.enter_context(collected())
        self._state.enter_context(clean_state())
        self._state.enter_context(surroundings())
        names.open_cell(cell.f_globals, cell.f_code)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        try:
            return self._conclude(kind, error)
        finally:
            self._place.clear()

    def _conclude(self, kind: type | None, error: BaseException | None) -> bool:
        """Give the verdict, once the hidden tests have run too."""
        error = error or self._run_hidden_tests()
        self._mute.close()
        self._state.close()
        cell = names.close_cell(keep=self)
        if self._workbook:
            end(self._workbook)
        if put_back_torch():  # no names here: an answer could tell with them what it saw in a hidden test
            print("Your code has replaced parts of torch. The originals are back.")
        if isinstance(error, KeyboardInterrupt):
            frames = observing.describe_error(error, self._file)["frames"]
            raise Interrupted(self.exercise, self._idea, frame_lines(frames)) from None
        if isinstance(error, NotSolved):
            return self._leave_open()
        if not (self._own and somebody_looks()):
            print_wrong(self._items.wrong)
        if isinstance(error, Failed):
            self._refuse(error, cell.taken if cell else [])
        if isinstance(error, NameError) and self._is_of_this_cell(error):
            sentence = f"{error}. Run the cell of your answer first, and mend the error that it shows, if any."
            self._raise(WrongAnswer(self.exercise, "", sentence), sentence)
        if error is None:
            self._confirm()
        elif kind is None:
            raise error
        return False

    def _run_hidden_tests(self) -> BaseException | None:
        """In a learner's own workbook, run the hidden tests of this cell, which a release lacks; what they raised."""
        cell = self._own.cell if self._own else None
        if cell is None or not cell.hidden_tests:
            return None
        if hidden_tests(self._source):  # they have run with the cell itself
            return None
        whole = cell.source
        linecache.cache[self._file] = (len(whole), None, whole.splitlines(keepends=True), self._file)
        code = compile(cell.hidden_tests, self._file, "exec", dont_inherit=True)
        names.go_on_with(code)
        try:
            exec(code, self._space)
        except BaseException as error:  # an interrupt, a verdict, or an author's mistake: dealt with like any other
            return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        return None

    def _leave_open(self) -> bool:
        """There is no answer yet. Who looks at a workbook is told so quietly, and Run All goes on."""
        self._remember("open")
        if not (self._workbook and somebody_looks()):
            raise NotSolvedYet(self.exercise) from None
        card = Card("open", self.exercise, ": not solved yet")
        self._place.put(card, card.lines())
        return True

    def _refuse(self, error: Failed, taken: list[str]) -> None:
        withheld = self._hidden and self._own is None
        sentence = error.guarded if withheld else error.sentence
        own_lines = [] if withheld else [Part("", words, code) for words, code in frame_words(error.frames)]
        words = [*(_innermost(error.frames) if withheld else []), *_note_on(taken)]
        parts = [*([] if withheld else error.parts), *own_lines, *(Part("", line) for line in words)]
        if self._hidden and not withheld:
            print(self._unseen.getvalue(), end="")
        self._raise(WrongAnswer(self.exercise, self._idea, sentence, parts), sentence)

    def _raise(self, wrong: WrongAnswer, sentence: str) -> None:
        self._remember("wrong", sentence)
        raise (wrong.show(self._place) if somebody_looks() else wrong) from None

    def _begin(self) -> None:
        """Say in whose check Python ended the last time, and note that this one begins."""
        if not self._workbook:
            return
        for exercise in died(self._workbook):
            notice(
                f"The last check of {exercise} has no verdict: Python ended in the middle of it. Your answer ended it, "
                "used up the memory, or the kernel was restarted. Run the cell of your answer again before its check."
            )
        begin(self._workbook, self.exercise, self._digest)

    def _remember(self, state: str, line: str = "") -> None:
        if self._workbook:
            hidden = self._own is not None
            remember(self._workbook, Remembered(self.exercise, self._digest, state, line, self.points, hidden))

    def _is_of_this_cell(self, error: BaseException) -> bool:
        """Whether only lines of the check cell were running when it came."""
        return all(frame.f_code.co_filename == self._file for frame, _ in traceback.walk_tb(error.__traceback__))

    def _confirm(self) -> None:
        if not self._count:
            raise ValueError(f"the check of {self.exercise} holds no test")
        if self._own and self._own.cell:
            self._remember("solved")
            self._tell_points(self._own, self._own.cell)
        elif self._own:
            sentence = f"Hidden tests were not run: {NOT_THE_CELL}"
            self._tell(Card("part", self.exercise, f": {self._passed()}", sentence))
        else:
            self._remember("solved")
            if self.points is None:
                self._place.say(f"✓ {self.exercise}: {self._passed()}{BUT_HERE if somebody_looks() else ''}.")

    def _passed(self) -> str:
        if (number := self._items.number) > 0:
            return f"{number - len(self._items.wrong)} of {number} items are right"
        return f"{self._count} test{'s' * (self._count > 1)} passed"

    def _tell_points(self, own: at_hand.OwnCheck, cell: at_hand.CheckCell) -> None:
        """The verdict in a learner's own workbook: points, and what comes next."""
        earned, all_of_them = own.exercise.standing(own.workbook)
        number, parts = own.part
        about = (f", part {number} of {parts}" if parts > 1 else "") + f": {self._passed()}"
        points = f"{earned:g} of {own.exercise.points:g} point{'s' * (own.exercise.points != 1)}"
        if self.points is not None and self.points < cell.points:
            wrong = tuple(Part("", f"✗ {line}") for line in self._items.wrong)
            return self._tell(Card("part", self.exercise, about, parts=wrong, points=points))
        following = own.next_exercise() if all_of_them else None
        link = (following.title, f"{following.file}#cell-id={following.place}") if following else None
        last = "All exercises of this notebook are solved." if all_of_them and not following else ""
        self._tell(Card("right", self.exercise, about, last, points=points, link=link))

    def _tell(self, card: Card) -> None:
        """As a card for somebody who looks, else as text, where wrong items have been printed already."""
        if somebody_looks():
            self._place.put(card, card.lines())
        else:
            print("\n".join(replace(card, parts=()).lines()))
