"""What check cells share stands once, in every exercise; and this gate is seen to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.sharing import problems_of_helpers
from torchkata.tools.course import chapters
from torchkata.tools.placing import here

EXERCISES = [pytest.param(path, id=path.stem) for one in chapters(here()) for path in one.exercises_folder.glob("*.py")]


@pytest.mark.parametrize("path", EXERCISES)
def test_check_cells_share_their_helpers(path: Path):
    assert problems_of_helpers(path.read_text(encoding="utf-8")) == []


TEXT = '# %% [markdown]\n# ### Exercise 9.1\n\n# %% answer="it"\n'
HELPERS = '# %% helpers="it"\nrule = "A rule in words."\n\n'


def exercise(*cells: str, helpers: str = "") -> str:
    checks = (f'# %% check="it" points=1\nwith check("it") as test:\n{cell}' for cell in cells)
    return TEXT + helpers + "\n".join(checks)


def test_helpers_that_two_cells_use_pass():
    assert problems_of_helpers(exercise("    print(rule)\n", "    print(rule)\n", helpers=HELPERS)) == []


def test_a_helper_that_no_cell_uses():
    problems = problems_of_helpers(exercise("    pass\n", "    pass\n", helpers=HELPERS))
    assert problems == ["no check cell uses the helper rule: delete it"]


def test_a_helper_that_one_cell_uses():
    problems = problems_of_helpers(exercise("    print(rule)\n", "    pass\n", helpers=HELPERS))
    assert problems == ["one check cell alone uses the helper rule: define it there"]


def test_a_helper_that_a_cell_writes_again():
    again = '    rule = "A rule in words."\n    print(rule)\n'
    problems = problems_of_helpers(exercise("    print(rule)\n", "    print(rule)\n", again, helpers=HELPERS))
    assert problems == ["rule is defined alike in two check cells: define it once, in the helpers cell"]


ALIKE = {
    "a function": "    def f(x):\n        return x\n",
    "a class": "    class f:\n        pass\n",
    "a decorated function": "    @cache\n    def f(x):\n        return x\n",
    "a sentence": '    f = "words that say something"\n',
    "a mistake": '    f = mistake("words that say something", when=lambda seen: not seen.value)\n',
    "a function with a value that it reads": "    x = 1\n\n    def f():\n        return x\n",
    "functions that use each other": "    def f(x):\n        return g(x)\n\n    def g(x):\n        return f(x)\n",
}


@pytest.mark.parametrize("kind", ALIKE)
def test_a_definition_that_stands_in_two_cells(kind: str):
    words = "f is defined alike in two check cells: define it once, in the helpers cell"
    assert words in problems_of_helpers(exercise(ALIKE[kind], f"    test(1)\n{ALIKE[kind]}"))
    assert words in problems_of_helpers(
        exercise(ALIKE[kind], "    pass\n", f"    ### BEGIN HIDDEN TESTS\n{ALIKE[kind]}")
    )


FUNCTION = ALIKE["a function"]
READS_Y = FUNCTION.replace("return x", "return y")
APART = {
    "values": ("    x = torch.ones(3)\n", "    x = torch.ones(3)\n"),
    "other words": (FUNCTION, FUNCTION.replace("x", "y")),
    "a name with two meanings": (FUNCTION, FUNCTION, "    f = 3\n"),
    "a name that a loop binds": (FUNCTION, FUNCTION, "    for f in []:\n        pass\n"),
    "a name that is bound again": (FUNCTION + "    f = 3\n", FUNCTION),
    "a function that reads a name of its cell": ("    y = 1\n" + READS_Y, "    y = 2\n" + READS_Y),
    "what was seen": ('    f = observe(it, "words that say something")\n',) * 2,
    "random numbers": ("    x = torch.rand(3)\n\n    def f():\n        return x\n",) * 2,
}


@pytest.mark.parametrize("kind", APART)
def test_what_stays_in_its_cells(kind: str):
    assert problems_of_helpers(exercise(*APART[kind])) == []
