"""The frame of a check cell: named tests, visible and hidden, and one verdict at the end."""

from __future__ import annotations

import io
import linecache
import sys
import textwrap
import traceback
from contextlib import ExitStack, redirect_stdout
from types import TracebackType

from torchkata.remembering import Remembered, begin, died, digest_of, end, remember, workbook_here
from torchkata.verdicts import names, observing
from torchkata.verdicts.isolation import clean_state
from torchkata.verdicts.judging import Failed, NotSolved, frame_lines
from torchkata.verdicts.originals import put_back_torch

WORKBOOK = workbook_here()  # asked for once, before a learner's code can change the folder


class _Verdict:
    """What a notebook shows for a verdict: its own lines, not a traceback of the checker."""

    lines: list[str]

    def _render_traceback_(self) -> list[str]:
        return [part for line in self.lines for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    """A line in pieces of at most 100 characters, the later ones indented like the first."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, 100, subsequent_indent=indent, break_long_words=False) or [line]


def _heading(exercise: str, test: str) -> str:
    return f"✗ {exercise}" + (f", {test}" if test else "")


class NotSolvedYet(_Verdict, NotImplementedError):
    """The verdict on a stub: there is no answer yet."""

    def __init__(self, exercise: str):
        self.lines = [f"{exercise}: not solved yet."]
        super().__init__(self.lines[0])


class WrongAnswer(_Verdict, AssertionError):
    """The verdict on an answer that is not right; its message is one line, `lines` is what a notebook shows."""

    def __init__(self, exercise: str, test: str, sentence: str, lines: list[str]):
        super().__init__(f"{exercise}: {sentence}")
        self.lines = [_heading(exercise, test), f"  {sentence}", *(f"    {line}" for line in lines)]


class Interrupted(_Verdict, KeyboardInterrupt):
    """The verdict on an answer whose check was stopped by hand."""

    def __init__(self, exercise: str, test: str, lines: list[str]):
        super().__init__(f"{exercise}: interrupted")
        told = "  Interrupted. Your code was still running:" if lines else "  Interrupted."
        self.lines = [_heading(exercise, test), told, *(f"    {line}" for line in lines)]


class check:
    """The frame of a check cell.

        with check("one-hot") as test:
            test("row i has its one in column labels[i]")
            seen = observe(one_hot, torch.tensor([2, 0]), num_classes=3)
            seen.returns(torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))

    Calling `test(idea)` begins a visible test, `test.hidden(idea)` a hidden one. A failing hidden test tells its idea
    and its sentence, and no data. Prints one confirming line when all holds. Raises NotSolvedYet or WrongAnswer.
    """

    def __init__(self, exercise: str):
        self.exercise = exercise
        self.points: float | None = None  # set by a check that gives a share of the points
        self._idea, self._hidden, self._count = "", False, 0
        self._mute, self._state = ExitStack(), ExitStack()

    def __call__(self, idea: str) -> None:
        """Begin a visible test."""
        self._mute.close()
        self._idea, self._hidden = f"test: {idea}", False
        self._count += 1

    def hidden(self, idea: str) -> None:
        """Begin a hidden test. What an answer prints from here on is not shown: it could be the test's data."""
        if not self._hidden:
            self._mute.enter_context(redirect_stdout(io.StringIO()))
        self._idea, self._hidden = f"hidden test: {idea}", True
        self._count += 1

    def __enter__(self) -> check:
        if replaced := put_back_torch():
            shown = ", ".join(replaced[:3]) + (" and others" if len(replaced) > 3 else "")
            print(f"Your code has replaced {shown}. The original is back: the checks need it.")
        self._state.enter_context(clean_state())
        cell = sys._getframe(1)
        self._file = cell.f_code.co_filename
        self._begin()
        names.open_cell(cell.f_globals, cell.f_code)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._mute.close()
        self._state.close()
        names.close_cell(keep=self)
        if WORKBOOK:
            end(WORKBOOK)
        if put_back_torch():  # no names here: an answer could tell with them what it saw in a hidden test
            print("Your code has replaced parts of torch. The originals are back.")
        if isinstance(error, KeyboardInterrupt):
            frames = observing.describe_error(error, self._file)["frames"]
            raise Interrupted(self.exercise, self._idea, frame_lines(frames)) from None
        if isinstance(error, NotSolved):
            self._remember("open")
            raise NotSolvedYet(self.exercise) from None
        if isinstance(error, Failed):
            sentence = error.guarded if self._hidden else error.sentence
            lines = error.frames if self._hidden else error.lines + error.frames
            self._remember("wrong", sentence)
            raise WrongAnswer(self.exercise, self._idea, sentence, lines) from None
        if isinstance(error, NameError) and self._is_of_this_cell(error):
            sentence = f"{error}. Run the cell of your answer first, and mend the error that it shows, if any."
            self._remember("wrong", sentence)
            raise WrongAnswer(self.exercise, "", sentence, []) from None
        if error is None:
            self._confirm()
            self._remember("solved")

    def _begin(self) -> None:
        """Say in whose check Python ended the last time, and note that this one begins."""
        for exercise in died(WORKBOOK) if WORKBOOK else ():
            print(
                f"The last check of {exercise} has no verdict: Python ended in the middle of it. Your answer ended it, "
                "used up the memory, or the kernel was restarted. Run the cell of your answer again before its check."
            )
        if WORKBOOK:
            begin(WORKBOOK, self.exercise, self._digest())

    def _digest(self) -> str:
        return digest_of("".join(linecache.getlines(self._file)))

    def _remember(self, state: str, line: str = "") -> None:
        if WORKBOOK:
            remember(WORKBOOK, Remembered(self.exercise, self._digest(), state, line, self.points))

    def _is_of_this_cell(self, error: BaseException) -> bool:
        """Whether only lines of the check cell were running when it came."""
        return all(frame.f_code.co_filename == self._file for frame, _ in traceback.walk_tb(error.__traceback__))

    def _confirm(self) -> None:
        if not self._count:
            raise ValueError(f"the check of {self.exercise} holds no test")
        if self.points is None:
            print(f"✓ {self.exercise}: {self._count} test{'s' * (self._count > 1)} passed.")
