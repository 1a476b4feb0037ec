"""The answers that a learner is shown who has solved an exercise. That they are right or wrong as they say is proved
with all other answers, in test_answers.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import ROOT
from torchkata.base.chapter import file_name
from torchkata.base.ways import FOLDER, ways_of
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.placing import here

FILES = [
    pytest.param(chapter, file, id=f"{chapter.name[:2]}-{file.stem}")
    for chapter in chapters(here())
    for file in sorted((chapter.source.parent / FOLDER).glob("*.py"))
]


@pytest.mark.parametrize("chapter, file", FILES)
def test_they_read_well(chapter: Chapter, file: Path):
    assert file.name in {file_name(exercise.id) for exercise in chapter.exercises}, "there is no such exercise"
    ways = ways_of(file)
    kinds = [way.right for way in ways]
    assert 1 <= kinds.count(True) <= 3 and kinds.count(False) <= 1 and kinds == sorted(kinds, reverse=True)
    for way in ways:
        assert way.note.endswith("."), f"{way.title}: a note is whole sentences"
        tree = ast.parse(way.source)
        public = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        ]
        assert all(ast.get_docstring(node) for node in public), f"{way.title}: a function without a docstring"


def test_students_do_not_get_them():
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    assert f'"{FOLDER}"' in config, "nbgrader copies what it doesn't ignore into a release"


@pytest.mark.parametrize(
    "text",
    [
        "# %% maybe: adds\n# A note.\nx = 1\n",
        "# %% right: adds\nx = 1\n",
        "# %% wrong: adds\n# A note.\nx = 1\n",
        "# %% right: adds\n# says: no\n# A note.\nx = 1\n",
    ],
)
def test_a_block_that_lacks_something_is_told(text: str, tmp_path: Path):
    file = tmp_path / "twice.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"twice\.py: .* needs a kind, a title, a note"):
        ways_of(file)
