"""The way of a model into a file: four steps between five stations, and the words that tell them."""

from tests.pictures import drawn
from torchkata.pictures import export_way

GALLERY = drawn.Gallery({"plain": export_way.export_way})


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True


def test_four_steps_in_their_order():
    assert [station.by for station in export_way.WAY] == ["", "capture", "translate", "save", "load"]
    words = GALLERY["plain"].alt
    places = [words.index(f"{step}: ") for step in ("capture", "translate", "save", "load")]
    assert places == sorted(places)


def test_the_runtime_alone_needs_no_pytorch():
    assert [station.name for station in export_way.WAY if not station.with_torch] == ["session"]
