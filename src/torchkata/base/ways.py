"""Other right answers to an exercise, and a mistake that is easily made: what is shown once the exercise is solved.

They stand beside the chapter's source, in solutions/NN_topic/ways/exercise_id.py. A block is

    # %% right: each element a 1 with its own index
    # It takes one call instead of two, and makes a tensor of ones as large as the values.
    def ...

    # %% wrong: forgets to divide
    # says: Those are sums          the beginning of what a check says about it
    # The sum and the mean of a segment with one element are equal, so a small example hides it.
    def ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchkata.base.chapter import file_name

FOLDER = "ways"
AUTHORS_ANSWER = "The author's answer"


@dataclass(frozen=True)
class Way:
    """A right or wrong answer to be shown.

    note: what it does differently and what that costs, in whole sentences. says: what a check says about a wrong one.
    """

    right: bool
    title: str
    note: str
    source: str
    says: str = ""

    @property
    def about(self) -> str:
        """What it is, for somebody who reads it."""
        if self.right:
            return f"Another right answer: {self.title}. {self.note}"
        return f"An easy mistake: {self.title}. {self.note} A check says: “{self.says}”"


def ways_file(chapter: Path, exercise: str) -> Path:
    """The file of an exercise's other answers, in the folder of a chapter's solution."""
    return chapter / FOLDER / file_name(exercise)


def ways_of(file: Path) -> list[Way]:
    """The answers in a file, in its order; none where there is no such file. Raises ValueError for a file that is not
    written as it should be."""
    if not file.is_file():
        return []
    _, *blocks = re.split(r"^# %% ", file.read_text(encoding="utf-8"), flags=re.M)
    return [_way(block, file) for block in blocks]


def _way(block: str, file: Path) -> Way:
    head, *lines = block.splitlines()
    kind, _, title = head.partition(": ")
    length = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    comment = [line.removeprefix("#").strip() for line in lines[:length]]
    says = [line.removeprefix("says: ") for line in comment if line.startswith("says: ")]
    note = " ".join(line for line in comment if not line.startswith("says: "))
    if kind not in ("right", "wrong") or not title or not note or len(says) != (kind == "wrong"):
        raise ValueError(f"{file.name}: {head!r} needs a kind, a title, a note and, if it is wrong, one line that says")
    return Way(kind == "right", title, note, "\n".join(lines[length:]).strip(), *says)
