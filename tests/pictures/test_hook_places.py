"""The places of hooks around a call: each kind is there once, in its order, with what it is given."""

from tests.pictures import drawn
from torchkata.pictures import hook_places

GALLERY = drawn.Gallery({"plain": hook_places.hook_places})


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True


def test_six_hooks_in_the_order_of_a_step():
    way = (*hook_places.FORWARD, *hook_places.BACKWARD, *hook_places.WEIGHT)
    hooks = [place.name for place in way if place.hook]
    assert hooks == [
        "forward pre-hook",
        "forward hook",
        "backward pre-hook",
        "backward hook",
        "tensor hook",
        "post-accumulate",
    ]
    words = GALLERY["plain"].alt
    places = [words.index(f"{name}, a hook, gets (") for name in hooks]
    assert places == sorted(places)


def test_no_two_places_are_one():
    way = (*hook_places.FORWARD, *hook_places.BACKWARD, *hook_places.WEIGHT)
    assert len({(place.row, place.column) for place in way}) == len(way)
