"""Mistakes as a table, and corners by name: right answers pass, and each corner tells who misses it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from torchkata.verdicts import FIRST_CHECK_FIRST, WrongAnswer, check, corners, known, observe

Use = Callable[[corners], None]


def double(values: Tensor) -> Tensor:
    return values * 2


def pick(values: Tensor, index: Tensor) -> Tensor:
    return values[index]


def says(answer: object, use: Use, reference: Callable = double) -> str:
    """The verdict on an answer as text; "" where it passes."""
    try:
        with check("corner") as test:
            use(corners(test, answer, reference, "values"))
    except WrongAnswer as wrong:
        return "\n".join(wrong.lines)
    return ""


def told(answer: object, table: dict, expected: object = 4) -> str:
    with pytest.raises(WrongAnswer) as caught, check("table") as test:
        test("one")
        observe(answer, 2).returns(expected, *known(table))
    return caught.value.lines[1].strip()


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "answer, sign",
    [
        (lambda x: torch.zeros(2, 3), (2, 3)),
        (lambda x: x + 3, 5),
        (lambda x: "five", {"gives": "five"}),
        (lambda x: (5, 5), {"gives": (5, 5)}),
        (lambda x: torch.float32, torch.float32),
        (lambda x: x.shape, "has no attribute .shape"),
        (lambda x: x + 3, lambda seen: seen.value == 5),
        (lambda x: 1 / 0, {"stage": "raised", "raises": "ZeroDivisionError"}),
        (lambda x: x + 3, [(2, 3), "never", 5]),
    ],
)
def test_each_sign_gives_its_mistake_away(answer, sign):
    assert told(answer, {"Nobody does that.": [(7,), 7, "nobody"], "Here it is.": sign}) == "Here it is."


def test_the_first_that_matches_speaks():
    assert told(lambda x: 5, {"Five.": 5, "Anything.": lambda seen: True}) == "Five."


def test_who_has_not_passed_the_first_check_is_sent_there():
    with pytest.raises(WrongAnswer, match="This check builds on the first one"), check("first") as test:
        test("one")
        observe(lambda x: 1, 2).returns(4, FIRST_CHECK_FIRST)


# ---------------------------------------------------------------- corners

VALUES, INDEX = torch.tensor([1.5, 2.5, 3.5]), torch.tensor([2, 0])


def in_place(values: Tensor) -> Tensor:
    return values.mul_(2)


KEPT = torch.empty(3)


def into_one_tensor(values: Tensor) -> Tensor:
    return torch.mul(values, 2, out=KEPT)


def for_some(values: Tensor) -> Tensor:
    if not len(values):
        raise IndexError("empty")
    return values * 2


CORNERS: dict[str, Use] = {
    "each": lambda corner: corner.each({"three": (VALUES,), "none": (VALUES[:0],)}),
    "keeps_dtype": lambda corner: corner.keeps_dtype(VALUES.double() / 7),
    "keeps_device": lambda corner: corner.keeps_device(torch.empty(3), VALUES),
    "gives_gradients": lambda corner: corner.gives_gradients({"three": (VALUES,)}, because="Halve it."),
    "keeps_first_result": lambda corner: corner.keeps_first_result("doubles", VALUES, VALUES + 1),
}


@pytest.mark.parametrize("name", CORNERS)
def test_a_right_answer_passes(name: str):
    assert says(double, CORNERS[name]) == ""


@pytest.mark.parametrize(
    "name, answer, words",
    [
        ("each", lambda values: values + 1, "The values are wrong"),
        ("each", in_place, "values"),
        ("each", for_some, "hidden test: none"),
        ("keeps_dtype", lambda values: values.float() * 2, "The result must have the dtype of values: "),
        ("keeps_dtype", lambda values: (values.float() * 2).to(values.dtype), "float32 precision in a float64"),
        ("keeps_dtype", lambda values: values @ torch.eye(3) * 2, "The result must have the dtype of values: "),
        ("keeps_device", lambda values: torch.ones(3) * 2, "The result must be on the device of values: "),
        ("keeps_device", lambda values: values + torch.ones(3), "The result must be on the device of values: "),
        ("gives_gradients", lambda values: values.detach() * 2 + values * 0, "Halve it."),
        ("gives_gradients", lambda values: values.detach() * 2, "Halve it."),
        ("keeps_first_result", into_one_tensor, "A second call was made, and the first result changed. Create a new"),
        ("keeps_first_result", into_one_tensor, "hidden test: the doubles of one call after the next call"),
    ],
)
def test_who_misses_a_corner_is_told(name: str, answer: Callable, words: str):
    verdict = says(answer, CORNERS[name])
    assert ", hidden test: " in verdict and words.lower() in verdict.lower(), verdict


def test_the_mistakes_of_a_corner_speak():
    def use(corner: corners) -> None:
        corner.each({"three": (VALUES,)}, *known({"You doubled twice.": VALUES * 4}))

    assert "You doubled twice." in says(lambda values: values * 4, use)


def test_the_result_has_a_name():
    def use(corner: corners) -> None:
        corner.what = "sum"
        corner.keeps_device(torch.empty(3), VALUES, factor=2)

    wrong = says(lambda values, factor: torch.ones(3) * factor, use)
    assert "values on another device: the sum is there too" in wrong and "The sum must be on the device of" in wrong


def test_two_calls_differ_in_their_first_argument():
    calls = []

    def answer(*args: object) -> Tensor:
        calls.append(args)
        return torch.zeros(2)

    def use(corner: corners) -> None:
        corner.keeps_first_result("zeros", VALUES, VALUES + 1, INDEX, 3)

    assert says(answer, use) == ""
    (one, *others), (other, *same) = calls
    assert one.tolist() == [1.5, 2.5, 3.5] and other.tolist() == [2.5, 3.5, 4.5]
    assert others[0].equal(INDEX) and others[0] is same[0] and others[1] == same[1] == 3


def test_an_answer_that_reads_values_is_not_judged_on_meta():
    assert says(lambda values: values * values.new_tensor(2).item(), CORNERS["keeps_device"]) == ""


def refusing(corner: corners) -> None:
    corner.refuses("row", {n: (VALUES, torch.tensor([0, n])) for n in (-4, 3)})


def test_bad_values_are_refused():
    def kind(values: Tensor, index: Tensor) -> Tensor:
        if index.max() > 2 or index.min() < -3:
            raise KeyError("row")
        return values[index]

    assert says(pick, refusing, pick) == ""
    assert "Row -4 must raise." in says(lambda values, index: values[index.clamp(-3, 2)], refusing, pick)
    assert "A row that does not exist raised another kind of exception: raise" in says(kind, refusing, pick)
