"""What editors do to a cell is no change; what a person writes is one."""

from __future__ import annotations

import pytest

from torchkata.base.layout import plain, without_layout

CELL = '''"""Twice."""
with check("twice") as test:
    # a comment
    test("a number")

    def story(answer, x):
        """Call it."""
        return answer(x, [1, 2])

    observe_scenario(story, twice, 4).returns({"a": 8})'''
BY_A_FORMATTER = """'''Twice.'''
with check('twice') as test:
    #a comment
    test('a number')
    def story(
        answer,
        x,
    ):
        '''
        Call it.
        '''
        return answer(
            x,
            [
                1,
                2,
            ],
        )
    observe_scenario(story, twice, 4).returns({'a': 8})
"""


@pytest.mark.parametrize(
    "changed",
    [
        CELL.replace("\n", "\r\n"),
        CELL.replace("\n", "\r"),
        CELL.replace("\n", "  \n") + "\n\n",
        BY_A_FORMATTER,
        BY_A_FORMATTER.replace("\n", "\r\n"),
    ],
)
def test_editors_change_nothing(changed: str):
    assert changed != CELL and without_layout(changed) == without_layout(CELL)


@pytest.mark.parametrize(
    "changed",
    [
        CELL.replace("8", "9"),
        CELL + "  # mine",
        CELL.replace("# a comment", "# another"),
        CELL.replace("Call it.", "Call it twice."),
        CELL.replace("    test(", "test("),
    ],
)
def test_people_do(changed: str):
    assert without_layout(changed) != without_layout(CELL)


@pytest.mark.parametrize("text", ["%time 1\n x", "def broken(:", "", "\x00", "'''open", "(" * 300])
def test_what_is_no_python_is_compared_by_its_lines(text: str):
    assert without_layout(text) == plain(text) or not text
    assert without_layout(f"{text} \r\n") == without_layout(text)
