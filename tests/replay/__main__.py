"""Says which points and sentences of the answers in tests/answers have changed since a commit.

    make replay                                  # since the last release; before the first one, since HEAD^
    make replay AGAINST=main CHAPTER=06          # one chapter, compared with main
    make replay AGAINST=v0.1.0 ANSWER=one-hot    # the exercises and answers with these words in their names

All answers run with the check cells and the package of that commit, and with those of this tree as it is now, built or
not. An answer that is in one tree only runs in both, so that a new answer shows what was said of it before. One that
was rewritten runs in each tree as it is there. Solutions and stubs count as answers. What has run is kept in
build/replay and does not run again. The exit code is 0, since this is a report; with --fail it is 1 where something has
changed. It is 2 where the commit can't be replayed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from tests import ROOT
from tests.replay.comparing import Change, changes
from tests.replay.recording import Tree, record
from tests.replay.trees import CannotReplay, Exercise, Exercises, exercises_of, name_of, unpack, usual_commit
from torchkata.tools.errors import CourseError

WIDTH = 160  # of the table where no terminal says how wide it is


@dataclass(frozen=True)
class Report:
    """What was compared with which commit, and what has changed. new, gone: exercises that only one tree has."""

    against: str
    answers: int
    new: list[str]
    gone: list[str]
    changes: list[Change]

    def __str__(self) -> str:
        """The counts, in a sentence."""
        became = {(one.exercise, one.answer): one.of_answer for one in self.changes}
        counts = Counter(became.values())
        told = [f"{counts.pop('', 0)} changed", *(f"{count} {what}" for what, count in sorted(counts.items()))]
        exercises = (("new", self.new), ("gone", self.gone))
        told += [f"{what} exercises: {', '.join(found)}" for what, found in exercises if found]
        return f"{self.answers} answers compared with {self.against}: {'; '.join(told)}"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    asked = _parser().parse_args(arguments)
    try:
        report = compare(root, asked.against or usual_commit(root), asked.chapter, asked.answer, asked.jobs)
    except CourseError as error:  # what is missing, or an author's mistake in a source
        print(error, file=sys.stderr)
        return 2
    terminal = Console()
    if report.changes:
        (terminal if terminal.is_terminal else Console(width=WIDTH)).print(table(report.changes))
    print(report)
    if asked.json:
        asked.json.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return int(asked.fail and bool(report.changes or report.new or report.gone))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make replay", description="Which verdicts on answers have changed?")
    parser.add_argument("--against", metavar="COMMIT", help="a commit, a branch or a tag")
    parser.add_argument("--chapter", metavar="NN", default="", help="only this chapter: 06, 06_hooks or start")
    parser.add_argument("--answer", metavar="WORDS", default="", help="only exercises and answers named so")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON too")
    parser.add_argument("--fail", action="store_true", help="end with exit code 1 where something has changed")
    return parser


def compare(root: Path, commit: str, chapter: str, words: str, jobs: int) -> Report:
    """Raises CannotReplay for a commit or a chapter that is not there, or is too old."""
    against = name_of(root, commit)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        before, own = Path(folder, "before"), Path(folder, "processes")
        own.mkdir()
        unpack(root, commit, before)
        old, new = (
            named(exercises_of(place, built=place == before, chapter=chapter), words) for place in (before, root)
        )
        if not old and not new:
            raise CannotReplay(f"no exercise or answer is called so (chapter {chapter!r}, words {words!r})")
        both = [key for key in new if key in old]
        kept = root / "build" / "replay"
        wanted = [
            (tree, here[key].with_answers_of(there[key]))
            for tree, here, there in ((Tree(before, kept), old, new), (Tree(root, kept), new, old))
            for key in both
        ]
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("running answers", total=len(wanted))
            found = record(wanted, jobs, own, lambda: progress.advance(task))
    pairs = zip(both, found[: len(both)], found[len(both) :], strict=True)
    return Report(
        against,
        sum(len(exercise.answers) for _, exercise in wanted[len(both) :]),
        [one.title for key, one in new.items() if key not in old],
        [one.title for key, one in old.items() if key not in new],
        [change for key, *outcomes in pairs for change in changes(old[key], new[key], *outcomes)],
    )


def named(exercises: Exercises, words: str) -> Exercises:
    """Those with the words in their names, and of the others the answers with these words."""
    return {key: one for key, exercise in exercises.items() if (one := _named(exercise, words)).answers}


def _named(exercise: Exercise, words: str) -> Exercise:
    return exercise if words in exercise.title else exercise.with_answers_named(words)


def table(found: Sequence[Change]) -> Table:
    """A row for each check cell that says something else."""
    shown = Table("exercise", "answer", "cell", "before", "now", box=SIMPLE)
    for change in found:
        answer = f"{change.answer} ({change.of_answer})" if change.of_answer else change.answer
        cells = (change.exercise, answer, change.cell, change.before, change.after)
        shown.add_row(*(Text(word) for word in cells))
    for column in shown.columns:
        column.overflow = "fold"
    return shown


if __name__ == "__main__":
    sys.exit(main())
