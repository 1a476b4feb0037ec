"""Mistakes in a chapter's source get an error that names the file, the cell and the mend."""

from __future__ import annotations

import pytest

from torchkata.base.marks import learners_version
from torchkata.tools.source import SourceError, notebook_of

ANSWER = """# %% answer="twice"
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
"""
CHECK = '''# %% check="twice" points=2
"""Twice."""
'''


@pytest.mark.parametrize(
    "text, line, words",
    [
        (ANSWER + CHECK.replace(" points=2", ""), 6, "has no points. Add points=…"),
        (ANSWER + CHECK + ANSWER + CHECK, None, "the id 'twice' is used by two answer cells. Rename one"),
        (
            ANSWER.replace("### BEGIN SOLUTION", "#").replace("### END SOLUTION", "#") + CHECK,
            1,
            "has no solution region",
        ),
        (ANSWER.replace("    ### END SOLUTION\n", "") + CHECK, 1, "needs an `### END SOLUTION`"),
        (ANSWER.replace("### END", "### BEGIN") + CHECK, 1, "needs an `### END SOLUTION`"),
        (ANSWER.replace('answer="twice"', "") + CHECK, 1, "SOLUTION stands outside answer cells"),
        (ANSWER + CHECK + "### BEGIN HIDDEN TESTS\n1\n", 6, "needs an `### END HIDDEN TESTS`"),
        (ANSWER, None, "has no check cell"),
        (CHECK + ANSWER, None, "does not follow that exercise's answer cell"),
        (ANSWER + CHECK.replace("twice", "thrice"), None, "does not follow that exercise's answer cell"),
        (ANSWER.replace('twice"', 'Twice It"') + CHECK, 1, "is no id"),
        (ANSWER + CHECK + "# %% point=2\n1\n", 8, "unknown key 'point'"),
        (ANSWER + CHECK + "# %% points=2\n1\n", 8, "only a check cell has points"),
        (ANSWER + CHECK + "# %%\nprint(\n", 8, "line 1 of the cell"),
        ("import torch\n" + ANSWER + CHECK, None, "must begin with a cell marker"),
    ],
)
def test_mistakes_of_authors(text: str, line: int | None, words: str):
    with pytest.raises(SourceError) as caught:
        notebook_of(text, "chapter.py")
    message = str(caught.value)
    assert message.startswith("chapter.py")
    assert words in message
    if line is not None:
        assert f"cell at line {line}:" in message


def test_metadata_and_ids_are_derived():
    notebook = notebook_of(ANSWER + CHECK + CHECK + '# %% facts=["03-x"]\n1\n# %%\n1\n', "chapter.py")
    answer, first, second, demo, same = notebook.cells
    assert [cell.id for cell in notebook.cells[:3]] == ["twice", "twice-check", "twice-check-2"]
    assert answer.metadata.nbgrader.solution and not answer.metadata.nbgrader.grade
    assert first.metadata.nbgrader == second.metadata.nbgrader | {"grade_id": "twice-check"}
    assert demo.metadata.facts == ["03-x"]
    assert same.id == demo.id + "-2"
    again = notebook_of(ANSWER + CHECK + CHECK + '# %% facts=["03-x"]\n1\n# %%\n1\n', "chapter.py")
    assert again == notebook


def test_a_helpers_cell_is_locked_and_earns_nothing():
    helpers = '# %% helpers="twice"\n"""What the checks of twice share."""\n'
    _, shared, check = notebook_of(ANSWER + helpers + CHECK, "chapter.py").cells
    assert shared.metadata.nbgrader == {
        **{"schema_version": 3, "task": False, "grade": False, "solution": False},
        **{"grade_id": "twice-helpers", "locked": True},
    }
    assert shared.metadata.jupyter == check.metadata.jupyter == {"source_hidden": True}


def test_the_stub_keeps_signature_and_indentation():
    assert learners_version("def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n") == (
        "def f():\n    raise NotImplementedError  # your code here\n"
    )


def test_given_code_takes_the_place_of_the_solution():
    source = (
        "def f(x):\n    '''Doc.'''\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n"
        "    ### BEGIN GIVEN\n    # raise NotImplementedError  # repair\n"
        "    # for y in x:\n    #     y + 1\n    #\n    # return y\n"
        "    ### END GIVEN\n"
    )
    assert learners_version(source) == (
        "def f(x):\n    '''Doc.'''\n    raise NotImplementedError  # repair\n"
        "    for y in x:\n        y + 1\n\n    return y"
    )
