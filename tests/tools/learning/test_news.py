"""What a newer release asks: when what is given counts as changed."""

from __future__ import annotations

import pytest

from torchkata.tools.learning.news import same_code

GIVEN = '''def f(x, dim=0):
    """A sentence."""
    return x.sum(dim)  # over rows
'''


@pytest.mark.parametrize(
    "other",
    [
        GIVEN,
        GIVEN.replace("A sentence.", "Another\n\n    one."),
        GIVEN.replace("  # over rows", ""),
        GIVEN.replace("(x, dim=0)", "(\n    x,\n    dim=0,\n)"),
        "# a remark\n" + GIVEN.replace('    """A sentence."""\n', ""),
    ],
)
def test_other_words_and_another_layout_are_the_same_code(other: str):
    assert same_code(GIVEN, other)


@pytest.mark.parametrize(
    "other",
    [
        GIVEN.replace("dim=0", "dim=1"),
        GIVEN.replace("x.sum", "x.mean"),
        GIVEN.replace('"""A sentence."""', "x = x + 1"),
        GIVEN + "\n\nprint(f)\n",
        GIVEN + "!ls",
    ],
)
def test_other_code_is_not(other: str):
    assert not same_code(GIVEN, other)
