"""What is wrong with a picture is noticed."""

import pytest

from tests.pictures import drawn
from torchkata.pictures import kit
from torchkata.pictures.show import Picture


@pytest.mark.parametrize(
    "spoil, kept",
    [
        (lambda card: card.text(95, 50, "cut off at the right"), drawn.check_texts),
        (lambda card: card.text(12, 41, "covers the other"), drawn.check_texts),
        (lambda card: card.cells([kit.Cell(90, 60, "off")]), drawn.check_boxes),
        (lambda card: card.cells([kit.Cell(20, 64, "on it")]), drawn.check_boxes),
    ],
)
def test_a_spoiled_picture_is_noticed(spoil, kept):
    card = kit.Canvas(110, 100)
    card.text(10, 40, "some words")
    card.cells([kit.Cell(10, 60, "1")])
    kept(card)
    spoil(card)
    with pytest.raises(AssertionError):
        kept(card)


def test_all_broken_rules_of_a_picture_are_told():
    card = kit.Canvas(110, 100)
    card.text(95, 50, "cut off at the right")
    card.cells([kit.Cell(90, 60, "off")])
    told = drawn.broken_rules(Picture(card, "words that say what there is to see"), True, False, widest=100)
    assert [line.partition(": ")[0] for line in told] == [
        "no text is cut off or covered by another",
        "every box stands on the card",
        "a card fits into a page",
    ]
    assert "cut off at the right" in told[0]
