"""What a check raises: verdicts, of which a notebook shows their own lines, not a traceback of the checker."""

from __future__ import annotations

from collections.abc import Sequence

from torchkata.verdicts.showing import Card, Part, Place, wrapped


class _Verdict:
    lines: list[str]
    is_shown = False  # whether a card has said it all

    def _render_traceback_(self) -> list[str]:
        return [part for line in self.lines[: 1 if self.is_shown else None] for part in wrapped(line)]


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

    def __init__(self, exercise: str, test: str, lines: Sequence[str]):
        super().__init__(f"{exercise}: interrupted")
        told = "  Interrupted. Your code was still running:" if lines else "  Interrupted."
        self.lines = [_heading(exercise, test), told, *(f"    {line}" for line in lines)]


def _heading(exercise: str, test: str) -> str:
    return f"✗ {exercise}" + (f", {test}" if test else "")
