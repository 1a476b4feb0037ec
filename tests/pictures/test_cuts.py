"""The sizes are those of torch; its refusals are told."""

from functools import partial

import pytest

from tests.pictures import drawn
from torchkata.pictures import cuts


def test_parts():
    calls = ["split(3)", "tensor_split(3)", "split([2, 6])", "tensor_split([2, 3])", "tensor_split([2, 20])"]
    assert [cuts.parts(8, call) for call in calls] == [[3, 3, 2], [3, 3, 2], [2, 6], [2, 1, 5], [2, 6, 0]]
    assert cuts.parts(10, "chunk(6)") == [2, 2, 2, 2, 2]


def test_parts_lets_torch_refuse():
    with pytest.raises(RuntimeError, match="sum exactly to 8"):
        cuts.parts(8, "split([2, 3])")


@pytest.mark.parametrize("call", ["unbind()", "split(n)", "split(__import__('os'))", "split"])
def test_parts_runs_nothing_but_cuts(call):
    with pytest.raises(ValueError, match=r"is not a call|neither a number"):
        cuts.parts(8, call)


CALLS = ["split(3)", "tensor_split(3)", "split([2, 3])", "tensor_split([2, 20])", "chunk(6)"]
GALLERY = drawn.Gallery({f"cuts of {n}": partial(cuts.cut_ruler, n, CALLS) for n in (8, 10)})


class TestLook(drawn.Look):
    gallery = GALLERY
