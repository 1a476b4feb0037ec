"""The frame of a check cell: named tests, visible and hidden, and one verdict at the end."""

from __future__ import annotations

import io
import linecache
import sys
import traceback
from collections.abc import Set
from contextlib import ExitStack, redirect_stdout
from types import TracebackType

from torchkata.base.marks import hidden_tests
from torchkata.base.shared_helpers import TITLE
from torchkata.verdicts import at_hand, cells, first_check, names, observing
from torchkata.verdicts.isolation import clean_state
from torchkata.verdicts.judging import Failed, NotSolved, frame_lines, frame_words
from torchkata.verdicts.keeping import keeping_of
from torchkata.verdicts.originals import put_back_torch
from torchkata.verdicts.predicting import collected
from torchkata.verdicts.showing import Part, Place
from torchkata.verdicts.telling import Outcome, tell

METHODS = {"__init__", "__call__", "forward", "backward", "setup_context", "step"}  # of an answer that is a class


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
        self._keeping = keeping_of(self.exercise, self._source)
        self._keeping.begin()
        self._place = Place(self.exercise)
        answers = [self._space[name] for name in names.answers_in(self._source) if name in self._space]
        first_check.begin(self.exercise, self._source, answers)
        self._items = self._state.enter_context(collected())
        self._state.enter_context(clean_state())
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        try:
            came = error or self._run_hidden_tests()
            self._end()
            outcome = self._outcome(came)
            first_check.end(self.exercise, self._source, outcome.kind if outcome is not None else "")
            if outcome is None and came is not error and came is not None:
                raise came
            if outcome is not None:
                tell(self.exercise, outcome, self._keeping, self._place)
            return outcome is not None
        finally:
            self._place.clear()

    def _run_hidden_tests(self) -> BaseException | None:
        """In a learner's own workbook, run the hidden tests of this cell, which a release lacks; what they raised."""
        tests, whole = self._keeping.hidden_tests, self._keeping.whole
        if not tests or hidden_tests(self._source):  # then they have run with the cell itself
            return None
        linecache.cache[self._file] = (len(whole), None, whole.splitlines(keepends=True), self._file)
        try:
            exec(compile(tests, self._file, "exec", dont_inherit=True), self._space)
        except BaseException as error:  # an interrupt, a verdict, or an author's mistake: dealt with like any other
            return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        return None

    def _end(self) -> None:
        """The tests are over: all is as it was before them."""
        self._mute.close()
        self._state.close()
        self._keeping.end()
        if put_back_torch():  # no names here: an answer could tell with them what it saw in a hidden test
            print("Your code has replaced parts of torch. The originals are back.")

    # ------------------------------------------------ what came of it

    def _outcome(self, error: BaseException | None) -> Outcome | None:
        """What came of the check, by what its tests raised; None for an error of the check's own."""
        items, points = self._items.wrong, self.points
        if isinstance(error, KeyboardInterrupt):
            frames = observing.describe_error(error, self._file)["frames"]
            return Outcome("interrupted", self._idea, running=frame_lines(frames))
        if isinstance(error, NotSolved):
            return Outcome("open", points=points)
        if isinstance(error, Failed):
            return self._refused(error)
        if isinstance(error, NameError) and self._is_of_this_cell(error):
            sentence = f"{error}. {self._what_to_run(error.name or '')}"
            return Outcome("wrong", sentence=sentence, wrong_items=items, points=points)
        if error is not None:
            return None
        if not self._count:
            raise ValueError(f"the check of {self.exercise} holds no test")
        return Outcome("passed", passed=self._passed(), wrong_items=items, points=points)

    def _refused(self, error: Failed) -> Outcome:
        withheld = self._hidden and self._keeping.withholds
        own_lines = [] if withheld else [Part("", words, code) for words, code in frame_words(error.frames)]
        known = names.answers_in(self._source) | METHODS
        words = [*(_innermost(error.frames, known) if withheld else []), *_note_on(cells.names_taken(self._file))]
        return Outcome(
            "wrong",
            self._idea,
            error.guarded if withheld else error.sentence,
            [*([] if withheld else error.parts), *own_lines, *(Part("", line) for line in words)],
            wrong_items=self._items.wrong,
            points=self.points,
            printed=self._unseen.getvalue() if self._hidden and not withheld else "",
            waits=first_check.has_failed_before(self.exercise, self._source),
        )

    def _passed(self) -> str:
        if (number := self._items.number) > 0:
            return f"{number - len(self._items.wrong)} of {number} items are right"
        return f"{self._count} test{'s' * (self._count > 1)} passed"

    def _is_of_this_cell(self, error: BaseException) -> bool:
        """Whether only lines of the check cell were running when it came."""
        return all(frame.f_code.co_filename == self._file for frame, _ in traceback.walk_tb(error.__traceback__))

    def _what_to_run(self, name: str) -> str:
        """What a learner does where a name of the check cell is not there."""
        if name in names.answers_in(self._source) or not cells.lacks_helpers(self.exercise):
            return "Run the cell of your answer first, and fix the error that it shows, if any."
        cell = TITLE.format(self.exercise).rstrip(".")
        return f"Run the cell “{cell}” first, above this one. If it is gone, `torchkata update` restores it."


def _innermost(frames: list, known: Set[str]) -> list[str]:
    """The function in which an exception came up in a hidden test. Which line it was could tell the test's data, and so
    could the name of one of many functions: only those are named that the test asks for."""
    return [f"in your function {where}" if where in known else "in your code" for _, where, _ in frames[-1:]]


def _note_on(taken: list[str]) -> list[str]:
    """On names that the learner has given to something else than the check means by them."""
    if not taken:
        return []
    named = ", ".join(f"`{name}`" for name in taken[:3]) + (" and others" if len(taken) > 3 else "")
    return [f"(Your code names something {named}; the checks use their own.)"]
