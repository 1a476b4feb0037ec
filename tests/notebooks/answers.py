"""Right and wrong answers to each exercise, as they stand in tests/answers/NN_topic/exercise_id.py, and those that a
learner is shown (`torchkata.base.ways`).

The lines before the first block belong to every answer; among them is `# corners: …`. A block is

    # %% wrong: counts the segments in the dtype of the values
    # says: You count in half precision         a part of the first sentence of a failing check cell
    # earns: 2 of 3                             the points that it gets
    # lesson                                    this is the mistake that the exercise is about: caught by visible tests
    # corner: half precision                    it misses this class of corners
    # caught: hidden                            it passes all visible tests

A right answer that some releases of torch can't run has a line `# torch: >=2.13`. With a line `# alone`, an answer is
run in a process of its own (`running.ALONE`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import ROOT
from torchkata.base.chapter import file_name
from torchkata.base.ways import ways_file, ways_of

ANSWERS = ROOT / "tests" / "answers"
# what right-looking answers stumble over, to be asked of every exercise
CORNERS = {
    "zeros": "zeros among the values",
    "equal values": "values that are equal",
    "beyond 2**24": "ids and counts that float32 cannot hold",
    "half precision": "half precision with many elements",
    "caller's modes": "the caller's own no_grad, autocast or inference mode; state of the caller that must come back",
    "members": "shared, frozen and non-persistent members",
    "second name": "a second name for one object",
    "chance order": "an order that holds by chance, such as that of a set",
    "empty": "no element at all",
    "0-d": "a scalar",
    "maximum": "all sizes, lengths or indices at their maximum",
    "nan": "nan or inf as an argument",
}


@dataclass(frozen=True)
class Answer:
    """One answer. Of a wrong one, `earns`: its points and those of the exercise; `corner`: one of CORNERS, or empty.
    shown: whether a learner who has solved the exercise is shown it. torch: the releases on which it is right, "" for
    all that the course supports."""

    kind: str  # "right" or "wrong"
    name: str
    source: str
    says: tuple[str, ...] = ()
    earns: tuple[float, float] | None = None
    lesson: bool = False
    corner: str = ""
    hidden: bool = False
    shown: bool = False
    torch: str = ""


def path_of(chapter: str, exercise: str) -> Path:
    return ANSWERS / chapter / file_name(exercise)


def answers_of(chapter: str, exercise: str) -> list[Answer]:
    """The answers of an exercise; none where its file is missing."""
    path = path_of(chapter, exercise)
    blocks = _blocks(path) if path.exists() else ("",)
    return [*(_answer(block, blocks[0], path) for block in blocks[1:]), *shown_answers_of(chapter, exercise)]


def shown_answers_of(chapter: str, exercise: str) -> list[Answer]:
    """The answers that a learner is shown who has solved the exercise."""
    return [
        Answer("right" if way.right else "wrong", way.title, way.source, (way.says,) * (not way.right), shown=True)
        for way in ways_of(ways_file(ROOT / "solutions" / chapter, exercise))
    ]


def corners_of(chapter: str, exercise: str) -> list[str] | None:
    """The classes of corners that the exercise has by its answers' file; None where the file does not say."""
    found = re.search(r"^# corners: (.*)$", _blocks(path_of(chapter, exercise))[0], re.M)
    if not found:
        return None
    return [] if found[1] == "none" else found[1].split(", ")


def sources_in(path: Path) -> dict[str, str]:
    """The sources of the answers in a file by their first lines, such as "wrong: scatters along dim 0"."""
    preamble, *blocks = _blocks(path)
    heads = (block.partition("\n") for block in blocks)
    return {head: preamble + source for head, _, source in heads}


@cache
def _blocks(path: Path) -> tuple[str, ...]:
    return tuple(re.split(r"^# %% ", path.read_text(encoding="utf-8"), flags=re.M))


def _answer(block: str, preamble: str, path: Path) -> Answer:
    head, _, source = block.partition("\n")
    kind, _, name = head.partition(": ")
    where = f"{path.name}, {name}"
    assert kind in ("right", "wrong"), f"{path.name}: a block begins with 'right: …' or 'wrong: …', not {head!r}"
    if kind == "right":
        return Answer(kind, name, preamble + source, torch="".join(re.findall(r"^# torch: (.*)$", source, re.M)))
    assert not re.search("^# torch: ", source, re.M), f"{where}: a wrong answer is wrong on every release"
    notes = {key: re.findall(rf"^# {key}: (.*)$", source, re.M) for key in ("says", "earns", "corner", "caught")}
    assert notes["says"], f"{where}: a wrong answer needs a line '# says: …'"
    earned = re.fullmatch(r"([\d.]+) of ([\d.]+)", "".join(notes["earns"]))
    corner = "".join(notes["corner"])
    assert corner in ("", *CORNERS), f"{where}: {corner!r} is no class of corners: {', '.join(CORNERS)}"
    lesson = re.search(r"^# lesson$", source, re.M) is not None
    hidden = notes["caught"] == ["hidden"]
    earns = (float(earned[1]), float(earned[2])) if earned else None
    return Answer(kind, name, preamble + source, tuple(notes["says"]), earns, lesson, corner, hidden)
