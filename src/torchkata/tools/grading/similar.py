"""Pairs of submissions whose answers are near copies, whatever their names and comments: a hint for the teacher, which
no mark depends on.

An answer counts where it is long enough to be one's own, and where few of the class wrote nearly the same: what many
write is what the exercise asks for.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from torchkata.tools.course import Chapter
from torchkata.tools.grading.batch import students_of
from torchkata.tools.grading.chapter import read_release
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import Submission

ALIKE = 0.95  # of two answers as sequences of nodes; 1 is the same
SHORTEST = 40  # nodes of an answer; shorter ones are alike by themselves
LONGEST = 5000  # nodes of an answer; the comparison takes the product of two lengths
COMMON = 3  # students beside the pair's first who wrote nearly the same: beyond that it is common

Answers = Mapping[str, Mapping[str, str]]  # source by exercise, by student


@dataclass(frozen=True)
class Pair:
    """Two students, and how alike their answers to these exercises are (1: the same but for names and comments)."""

    one: str
    other: str
    alike: dict[str, float]


def pairs_of_class(chapter: Chapter, students: list[str] | None = None) -> tuple[list[Pair], list[tuple[str, str]]]:
    """The pairs among those who have handed in the chapter, most near copies first; and whose answers to which
    exercises are too long to be compared. Nothing is run or written.

    Raises CourseError where nobody has.
    """
    release = read_release(chapter)
    answers = {}
    for name in students_of(chapter, students):
        handed_in = read_submission(chapter.root / "submitted" / name / chapter.name, name, chapter, release)
        if isinstance(handed_in, Submission):
            answers[name] = handed_in.answers
    return similar_pairs(answers, release.answers), too_long(answers)


def too_long(answers: Answers) -> list[tuple[str, str]]:
    """Who wrote an answer that is too long to be compared, and to which exercise."""
    return [
        (student, exercise)
        for student, of in answers.items()
        for exercise, source in of.items()
        if len(shape(source)) > LONGEST
    ]


def similar_pairs(answers: Answers, given: Mapping[str, str]) -> list[Pair]:
    """The pairs with near copies, most of them first. `given` is by exercise what the release holds: not an answer."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for exercise, released in given.items():
        shapes = {student: shape(of[exercise]) for student, of in answers.items() if exercise in of}
        own = {name: one for name, one in shapes.items() if SHORTEST <= len(one) <= LONGEST and one != shape(released)}
        for pair, ratio in _near(own).items():
            found[pair][exercise] = ratio
    pairs = [Pair(*names, alike) for names, alike in found.items()]
    return sorted(pairs, key=lambda pair: (-len(pair.alike), -sum(pair.alike.values()), pair.one, pair.other))


def _near(shapes: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], float]:
    """How alike the near copies are, by pair of students."""
    names = sorted(shapes)
    if len(names) < 2:
        return {}
    sequences = [shapes[name] for name in names]
    score = Indel.normalized_similarity
    ratios = cdist(sequences, sequences, scorer=score, score_cutoff=ALIKE, dtype=np.float32)
    rare = (ratios > 0).sum(axis=1) - 1 <= COMMON
    places = zip(*np.nonzero(np.triu(ratios, 1)), strict=True)
    return {(names[i], names[j]): round(float(ratios[i, j]), 3) for i, j in places if rare[i] and rare[j]}


def shape(source: str) -> list[str]:
    """The nodes of a cell in order, without docstrings, comments and annotations; names are numbered as they come.
    Empty where it can't be read as Python."""
    try:
        tree = ast.parse(source)
        numbers: dict[str, int] = {}
        return [part for node in tree.body for part in _parts(node, numbers)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _parts(node: ast.AST, numbers: dict[str, int]) -> list[str]:
    if _is_docstring(node):
        return []
    parts = [type(node).__name__]
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "ctx", "type_comment", "kind"):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST):
                parts += _parts(one, numbers)
            elif one is not None:
                is_name = isinstance(node, (ast.Name, ast.arg, ast.FunctionDef, ast.ClassDef, ast.alias))
                parts.append(f"name {numbers.setdefault(str(one), len(numbers))}" if is_name else repr(one))
    return parts


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
