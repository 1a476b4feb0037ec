"""Each check cell gets the helpers that it uses, where it uses them; what can't be a helper is told."""

from __future__ import annotations

import ast

import pytest

from torchkata.base.shared_helpers import helpers_cell, helpers_in, shown, title_of, used_by, whole_checks, with_helpers

HELPERS = '''# %% helpers="twice"
limit = 4
# what all numbers stay below
rule = "stay below the limit"

known = [mistake(rule)]


class Number:
    """A number, {as: it is}."""

    def __init__(self, value: int = limit):
        self.value = value


def number(value):
    """A number.

    value: of any kind
    """
    return Number(value)


def judge(seen):
    seen.that(True, rule)
'''
CHECK = '''# %% check="twice" points=1
"""Twice."""
with check("twice") as test:
    test("one")
    VISIBLE

    ### BEGIN HIDDEN TESTS
    test.hidden("two")
    HIDDEN
    ### END HIDDEN TESTS
'''


def written(visible: str = "pass", hidden: str = "pass") -> str:
    return CHECK.replace("VISIBLE", visible).replace("HIDDEN\n    ###", f"{hidden}\n    ###")


def completed(visible: str = "pass", hidden: str = "pass") -> str:
    return with_helpers(written(visible, hidden), helpers_in(HELPERS))


def names(source: str) -> list[str]:
    return [one.name for one in used_by(source, helpers_in(HELPERS))]


def test_helpers_of_a_cell_come_in_order_with_those_that_they_use():
    assert [one.name for one in helpers_in(HELPERS)] == ["limit", "rule", "known", "Number", "number", "judge"]
    assert names("judge(1)") == ["rule", "judge"]
    assert names("number(1)\nprint(known)") == ["limit", "rule", "known", "Number", "number"]
    assert names("[observe(lambda: number(k)) for k in x]") == ["limit", "Number", "number"]
    assert names("def f(rule): return rule\n[known for known in x]\nx.judge") == []


def test_a_cell_without_helpers_stays_as_it_is():
    assert completed() == written()


def test_helpers_stand_below_the_with_line():
    expected = """with check("twice") as test:
    # what all numbers stay below
    rule = "stay below the limit"

    known = [mistake(rule)]

    def judge(seen):
        seen.that(True, rule)

    test("one")
    judge(known)
"""
    assert expected in completed("judge(known)")


def test_a_function_stands_apart_and_its_docstring_goes_with_it():
    expected = '''as test:

    class Number:
        """A number, {as: it is}."""

        def __init__(self, value: int = limit):
            self.value = value

    def number(value):
        """A number.

        value: of any kind
        """
        return Number(value)

    test("one")
'''
    assert expected in with_helpers(written("number(1)"), [one for one in helpers_in(HELPERS) if one.name != "limit"])


def test_what_only_hidden_tests_use_is_hidden():
    cell = completed("print(rule)", "judge(1)")
    visible, hidden = cell.split("### BEGIN HIDDEN TESTS\n")
    assert (
        'as test:\n    # what all numbers stay below\n    rule = "stay below the limit"\n\n    test("one")' in visible
    )
    assert hidden.startswith('    def judge(seen):\n        seen.that(True, rule)\n\n    test.hidden("two")')
    assert "judge" not in visible


def test_empty_lines_below_the_with_line_do_not_add_up():
    cell = written("judge(1)").replace("as test:\n", "as test:\n\n")
    assert with_helpers(cell, helpers_in(HELPERS)) == completed("judge(1)")


def test_a_name_that_the_cell_defines_is_its_own():
    """As in a check cell of a release in which each held its helpers."""
    assert completed("rule = 3\n    print(rule)") == written("rule = 3\n    print(rule)")
    assert 'rule = "stay' in completed("[print(rule) for rule in range(3)]\n    print(rule)")


def test_a_notebooks_cell_holds_what_visible_tests_use():
    helpers = helpers_in(HELPERS)
    checks = [written("print(known)", "judge(1)"), written("number(1)")]
    assert [one.name for one in shown(checks, helpers)] == ["limit", "rule", "known", "Number", "number"]
    cell = helpers_cell("twice", shown(checks, helpers))
    assert cell.startswith('"""What the checks of twice share."""\n\nlimit = 4\n# what all numbers stay below\nrule = ')
    assert "known = [mistake(rule)]\n\n\nclass Number:" in cell and cell.endswith("    return Number(value)")
    assert [one.text for one in helpers_in(cell)] == [one.text for one in shown(checks, helpers)]
    assert title_of(ast.parse(cell).body) == "twice" and title_of(ast.parse(HELPERS).body) is None


def graded(grade_id: str) -> dict:
    return {"nbgrader": {"grade_id": grade_id, "grade": True}}


def test_check_cells_of_a_notebook_are_put_together():
    cell = {"cell_type": "code", "metadata": {}}
    helpers = helpers_cell("twice", helpers_in(HELPERS))
    notebook = [
        cell | {"source": "demo"},
        cell | {"source": helpers.splitlines(keepends=True), "metadata": {"nbgrader": {"grade_id": "twice-helpers"}}},
        cell | {"source": [written("judge(1)")], "metadata": graded("twice-check-2")},
        cell | {"source": written("judge(1)"), "metadata": graded("other-check")},
    ]
    assert [one["source"] for one in whole_checks(notebook)] == ["demo", completed("judge(1)"), written("judge(1)")]
    assert notebook[2]["source"] == [written("judge(1)")], "the notebook itself stays as it is"


@pytest.mark.parametrize("source", ["with check(\n", "judge(1)\n"])
def test_a_cell_that_other_rules_refuse_stays_as_it_is(source: str):
    assert with_helpers(source, helpers_in(HELPERS)) == source


@pytest.mark.parametrize(
    "line, words",
    [
        ("print(1)", "functions, classes and `name = …` alone, not `print.1.`"),
        ("a, b = 1, 2", "alone, not `a, b = 1, 2`"),
        ("rule = 1", "the helper rule is defined twice"),
        ("x = (", "was never closed .line 26 of the cell: x = .."),
    ],
)
def test_what_is_no_helper_is_told(line: str, words: str):
    with pytest.raises(ValueError, match=words):
        helpers_in(HELPERS + line)
