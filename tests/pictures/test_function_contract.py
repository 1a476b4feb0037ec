"""The contract of a Function as a picture: what is yours, and where each arrow leads."""

from tests.pictures import drawn
from torchkata.pictures import function_contract

GALLERY = drawn.Gallery({"plain": function_contract.function_contract})


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True


def test_two_methods_are_yours_and_ctx_lies_between_them():
    yours = [place.name for place in function_contract.PLACES if place.yours]
    assert yours == ["forward", "backward"]
    assert "forward to ctx; ctx to backward" in GALLERY["plain"].alt


def test_arrows_join_neighbours():
    for here, there in function_contract.ARROWS:
        assert abs(here.row - there.row) + abs(here.column - there.column) == 1
