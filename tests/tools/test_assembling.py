"""A chapter's source and its exercises' files come together; what is missing, doubled or astray is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchkata.base.chapter import exercise_of
from torchkata.tools.assembling import SourceError, assembled, exercise_file
from torchkata.tools.build import _digest_of_source
from torchkata.tools.course import Chapter
from torchkata.tools.placing import Place
from torchkata.tools.source import read_source

READ = '# %% [markdown]\n# # Things\n\n# %% setup=true\nimport torch\n\n# %% exercise="twice-it"\n\n# %%\nprint(1)\n'
EXERCISE = (
    "# %% [markdown]\n# ### Exercise 1.1 · Twice\n\n\n"
    '# %% answer="twice-it"\ndef twice(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n\n\n'
    '# %% check="twice-it" points=2\n"""Twice."""\n'
)


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    chapter = Chapter(Place(tmp_path), "01_things")
    chapter.exercises_folder.mkdir(parents=True)
    chapter.source.write_text(READ, encoding="utf-8")
    exercise_file(chapter, "twice-it").write_text(EXERCISE, encoding="utf-8")
    return chapter


def test_an_exercise_takes_the_place_of_its_line(chapter: Chapter):
    source = assembled(chapter)
    assert source.text == READ.replace('# %% exercise="twice-it"\n', EXERCISE)
    own = "exercises/twice_it.py"
    assert source.places == [("things.py", 1), ("things.py", 4), (own, 1), (own, 5), (own, 12), ("things.py", 9)]
    cells = read_source(chapter).cells
    assert [exercise_of(cell) for cell in cells] == [None, None, None, "twice-it", "twice-it", None]


HELPERS = '# %% helpers="twice-it"\ntwo = 2\nthree = 3\n\n\n'
SHARING = '# %% check="twice-it" points=2\n"""Twice."""\nwith check("twice-it") as test:\n    test(two)\n'
HIDING = "    ### BEGIN HIDDEN TESTS\n    test.hidden(three)\n    ### END HIDDEN TESTS\n"


def with_helpers_cell(chapter: Chapter, check: str) -> str:
    """The exercise with a helpers cell and a check cell; what stands before these."""
    text, _, _ = EXERCISE.partition("# %% check=")
    exercise_file(chapter, "twice-it").write_text(text + HELPERS + check, encoding="utf-8")
    return text


def test_helpers_are_a_cell_and_those_that_only_hidden_tests_use_are_written_into_these(chapter: Chapter):
    text = with_helpers_cell(chapter, SHARING + HIDING)
    source = assembled(chapter)
    shared = '# %% helpers="twice-it"\n"""What the checks of twice-it share."""\n\ntwo = 2\n\n'
    hiding = HIDING.replace("TESTS\n", "TESTS\n    three = 3\n\n", 1)
    assert source.text == READ.replace('# %% exercise="twice-it"\n', text + shared + SHARING + hiding)
    assert source.places[4:6] == [("exercises/twice_it.py", 12), ("exercises/twice_it.py", 17)]
    cells = read_source(chapter).cells[3:6]
    assert [cell.id for cell in cells] == ["twice-it", "twice-it-helpers", "twice-it-check"]
    assert {exercise_of(cell) for cell in cells} == {"twice-it"}


def test_where_only_hidden_tests_share_there_is_no_cell(chapter: Chapter):
    with_helpers_cell(chapter, SHARING.replace("test(two)", "test(2)") + HIDING)
    assert [cell.id for cell in read_source(chapter).cells[3:5]] == ["twice-it", "twice-it-check"]


def test_messages_name_the_exercises_file_and_line(chapter: Chapter):
    path = exercise_file(chapter, "twice-it")
    path.write_text(EXERCISE.replace(" points=2", ""), encoding="utf-8")
    with pytest.raises(SourceError, match=r"^exercises/twice_it\.py, cell at line 12: .* has no points"):
        read_source(chapter)


def edit(file: str, old: str, new: str) -> Callable[[Chapter], None]:
    def change(chapter: Chapter) -> None:
        path = chapter.source.parent / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def put(file: str, text: str = "") -> Callable[[Chapter], None]:
    return lambda chapter: (chapter.source.parent / file).write_text(text, encoding="utf-8")


CHAPTERS_FILE, EXERCISES_FILE = "things.py", "exercises/twice_it.py"
MISTAKES = {
    "a line without its file": (edit(CHAPTERS_FILE, "twice-it", "thrice"), "line 7: exercises/thrice.py is missing"),
    "a line that is no id": (edit(CHAPTERS_FILE, "twice-it", "Twice it"), "'Twice it' is no id"),
    "a line twice": (edit(CHAPTERS_FILE, "# %%\n", '# %% exercise="twice-it"\n'), "line 9: the exercise 'twice-it' st"),
    "an exercise in the chapter": (edit(CHAPTERS_FILE, "# %%\n", '# %% answer="here"\n'), "write `# %% exercise="),
    "a check in the chapter": (edit(CHAPTERS_FILE, "# %%\n", '# %% points=1 check="here"\n'), "exercises/here.py"),
    "a file without its line": (put("exercises/thrice.py"), 'Write `# %% exercise="thrice"` where it belongs'),
    "a file that is no exercise": (put("exercises/notes.txt"), "exercises/notes.txt is no exercise"),
    "no text": (edit(EXERCISES_FILE, "# %% [markdown]\n", ""), "must begin with the exercise's text"),
    "something before the text": (
        edit(EXERCISES_FILE, "# %% [m", "import os\n# %% [m"),
        "must begin with the exercise's",
    ),
    "an empty file": (put(EXERCISES_FILE), "must begin with the exercise's text"),
    "no answer": (edit(EXERCISES_FILE, '# %% answer="twice-it"\n', ""), "behind the text comes the answer cell"),
    "another answer": (edit(EXERCISES_FILE, 'answer="twice-it"', 'answer="it"'), "behind the text comes the answer"),
    "another check": (
        edit(EXERCISES_FILE, 'check="twice-it"', 'check="it"'),
        "check cells of 'twice-it' alone, not `c",
    ),
    "helpers before the answer": (
        edit(EXERCISES_FILE, '# %% answer="twice-it"', '# %% helpers="twice-it"\n\n# %% answer="twice-it"'),
        "behind the text comes the answer cell",
    ),
    "helpers behind a check": (
        edit(EXERCISES_FILE, "points=2\n", 'points=2\n1\n\n# %% helpers="twice-it"\n'),
        'helpers stand in one cell, `# %% helpers="twice-it"`, right behind the answer cell',
    ),
    "two helpers cells": (
        edit(EXERCISES_FILE, '# %% check="t', '# %% helpers="twice-it"\n\n# %% helpers="twice-it"\n\n# %% check="t'),
        "helpers stand in one cell",
    ),
    "helpers of another": (
        edit(EXERCISES_FILE, '# %% check="t', '# %% helpers="it"\n\n# %% check="t'),
        'helpers="it"`',
    ),
    "helpers in the chapter": (edit(CHAPTERS_FILE, "# %%\n", '# %% helpers="here"\n'), "exercises/here.py"),
    "a helper that the cell defines": (
        edit(
            EXERCISES_FILE,
            '# %% check="t',
            '# %% helpers="twice-it"\nx = 1\n\n# %% check="twice-it" points=1\nx = 2\n\n# %% check="t',
        ),
        "twice_it.py, cell at line 15: the cell defines x, which is a helper's name",
    ),
    "helpers that can't be read": (
        edit(EXERCISES_FILE, '# %% check="t', '# %% helpers="twice-it"\nx = (\n\n# %% check="t'),
        "twice_it.py, cell at line 12: '(' was never closed (line 2 of the cell: x = ()",
    ),
    "a demo": (edit(EXERCISES_FILE, "points=2\n", "points=2\n1\n\n# %%\nprint(1)\n"), "check cells alone, not `# %%`"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistakes_are_told(chapter: Chapter, kind: str):
    spoil, words = MISTAKES[kind]
    spoil(chapter)
    with pytest.raises(SourceError) as caught:
        assembled(chapter)
    assert words in str(caught.value)


def test_a_changed_exercise_is_a_changed_source(chapter: Chapter):
    before = _digest_of_source(chapter)
    edit(EXERCISES_FILE, "2 * x", "x + x")(chapter)
    assert _digest_of_source(chapter) != before
