"""A course with the whole corpus: each attacker between two honest students, one all right and one half right."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.tools.grading.hostile.handin import CHAPTER, Attack, HandIn, Surroundings, half_right, right
from torchkata.base.places import MARK
from torchkata.tools.course import Chapter
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.grader import grader_of, sharing
from torchkata.tools.grading.sandbox.limits import MIB, Limits
from torchkata.tools.placing import Place

LIMITS = Limits(exercise_seconds=5, submission_seconds=30, memory=1024 * MIB, disk=16 * MIB)


@dataclass(frozen=True)
class Class:
    """Who handed in: the honest students, and the attackers by their attack."""

    honest: list[HandIn]
    attackers: dict[Attack, HandIn]


def build(root: Path) -> None:
    """Put the chapter, its solutions and the course's settings into a folder."""
    for path in (CHAPTER.solution, CHAPTER.release):
        shutil.copytree(path.parent, root / path.parent.relative_to(CHAPTER.root))
    shutil.copy(CHAPTER.root / MARK, root)


def hand_in(attacks: list[Attack], around: Surroundings) -> Class:
    """Write the submissions of all attackers, with an honest student before, between and behind them."""
    honest = [_honest(number, around) for number in range(len(attacks) + 1)]
    attackers = {}
    for number, attack in enumerate(attacks):
        handed_in = HandIn(f"{2 * number + 1:03d}-{attack.name}", around)
        attack.fill(handed_in)
        attackers[attack] = handed_in
    for handed_in in (*honest, *attackers.values()):
        handed_in.write()
    return Class(honest, attackers)


def _honest(number: int, around: Surroundings) -> HandIn:
    return (half_right if number % 2 else right)(f"{2 * number:03d}-honest", around)


def main(root: Path) -> None:
    """Grade everything that was handed in, as `torchkata grade --jobs 2` does."""
    chapter = Chapter(Place(root), CHAPTER.name)
    with sharing(grader_of(chapter, limits=LIMITS)) as grader:
        grade_chapter(chapter, grader, jobs=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
