"""Inputs that separate two functions, and tests that tell right functions from wrong ones."""

from __future__ import annotations

import pytest
import torch

from torchkata.verdicts import (
    NotSolvedYet,
    WrongAnswer,
    check,
    mistake,
    observe_scenario,
    observe_value,
    opinions,
    separation,
)


def pooled(parts):
    return torch.cat([torch.tensor(part) for part in parts]).mean().item()


def mean_of_means(parts):
    return torch.stack([torch.tensor(part).mean() for part in parts]).mean().item()


def weighted(parts):
    return sum(sum(part) for part in parts) / sum(len(part) for part in parts)


def contract(parts):
    return "" if isinstance(parts, list) else "The parts are a list."


PAIRS = {
    "weights": separation(
        pooled,
        mean_of_means,
        (lambda parts: len(parts) == 1, "With one part both are {result}."),
        contract=contract,
        same="Both are {result}.",
        exists="Parts may differ in length.",
    ),
    "sums": separation(pooled, weighted, contract=contract, no_input="Both divide the same sum once."),
}
UNEQUAL = [[1.0, 2.0, 3.0], [6.0]]


def separates(inputs) -> float:
    with check("an-exercise") as test:
        test("inputs")
        test.points = observe_value(inputs).separates(PAIRS, points=2)
    return test.points


def test_an_input_on_which_they_differ_and_none():
    assert separates({"weights": UNEQUAL, "sums": None}) == 2


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([[1.0, 2.0], [3.0, 6.0]], "Both are 3.0."),
        ([[1.0, 2.0]], "With one part both are 1.5."),
        (((1.0,), (2.0, 3.0)), "The parts are a list."),
        ([], "A call fails ("),
        (["a", None], "A call fails (TypeError"),
        (None, "Parts may differ in length."),
        (..., "There is no input yet: write yours in place of the `...`."),
    ],
)
def test_each_way_to_miss_has_its_sentence_and_costs_its_share(weights, sentence, capsys):
    assert separates({"weights": weights, "sums": None}) == 1
    assert f": {sentence}" in capsys.readouterr().out


def test_where_none_exists_the_sentence_says_why(capsys):
    assert separates({"weights": UNEQUAL, "sums": UNEQUAL}) == 1
    assert "Both divide the same sum once." in capsys.readouterr().out


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12])
def test_rounding_is_measured_by_the_size_of_the_results(size):
    assert separates({"weights": [[one * size for one in part] for part in UNEQUAL], "sums": None}) == 2
    assert separates({"weights": [[size, 2 * size], [3 * size, 6 * size]], "sums": None}) == 1


def test_an_input_that_nobody_thought_of_is_right(capsys):
    assert separates({"weights": UNEQUAL, "sums": [[2.0**25, 1.0], [-(2.0**25)]]}) == 2


def test_a_function_gets_a_copy():
    def writes(parts):
        parts.append([100.0])
        return pooled(parts)

    two = separation(writes, pooled, contract=contract)
    assert observe_value({"a": UNEQUAL}).separates({"a": two}, points=1) == 1
    with pytest.raises(WrongAnswer), check("an-exercise") as test:
        test("copies")
        observe_value({"a": UNEQUAL}).separates({"a": separation(writes, writes, contract=contract)}, points=1)


def test_open_inputs_and_no_inputs():
    with pytest.raises(NotSolvedYet):
        separates({"weights": ..., "sums": ...})
    with pytest.raises(WrongAnswer, match="None of the items"):
        separates({"weights": None, "sums": []})
    with pytest.raises(WrongAnswer, match="must be a dict from item names to inputs"):
        separates([UNEQUAL])


# ---------------------------------------------------------------- a test for a family


RIGHT, WRONG = ("joins the parts", "adds the sums"), ("averages averages", "returns nothing", "adds lists")


def on_each(test):
    """Ask your test about each of five functions."""
    functions = (pooled, weighted, mean_of_means, lambda parts: None, sum)
    return opinions(test, dict(zip((*RIGHT, *WRONG), functions, strict=True)))


def tells_apart(test, hidden=False) -> str:
    """The verdict; "" where there is none."""
    try:
        with check("an-exercise") as frame:
            frame.hidden("a family") if hidden else frame("a family")
            observe_scenario(on_each, test).tells_apart(RIGHT, WRONG)
    except WrongAnswer as error:
        return str(error)
    return ""


def test_a_test_passes_the_right_ones_and_fails_the_others():
    assert tells_apart(lambda mean: mean(UNEQUAL) == 3) == ""
    assert tells_apart(lambda mean: torch.tensor(mean(UNEQUAL)) == 3) == ""


def asserts(mean):
    assert mean(UNEQUAL) == 3
    return True


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        (lambda mean: mean([[1.0], [3.0]]) == 2, "Your test lets through a function that averages averages."),
        (lambda mean: True, "averages averages. It lets 3 of 3 wrong ones through."),
        (lambda mean: False, "Your test fails a right function, which joins the parts."),
        (
            lambda mean: mean([[1, 2], [6]]) == 3,
            "Your test fails a right function, which joins the parts: RuntimeError",
        ),
        (lambda mean: None, "Your test must return True or False, but it returned None."),
    ],
)
def test_what_it_takes_amiss_is_named(test, sentence):
    assert sentence in tells_apart(test)


def test_a_test_may_raise():
    assert tells_apart(asserts) == ""


@pytest.mark.parametrize("passes", [lambda call: call < 2, lambda call: call % 5 < 2])
def test_a_test_that_counts_its_calls_is_found_out(passes):
    calls = []
    assert "changed its opinion" in tells_apart(lambda mean: calls.append(0) or passes(len(calls) - 1))


def test_the_functions_come_without_their_names():
    names = set()
    tells_apart(lambda mean: names.add(mean.__name__) or True)
    assert len(names) == 1


def test_a_hidden_test_shows_nothing_that_came_back():
    def raises(mean):
        raise ValueError("secret")

    assert "secret" in tells_apart(raises)
    assert "secret" not in tells_apart(raises, hidden=True)


def test_a_stub_is_not_solved():
    def stub(mean):
        raise NotImplementedError

    with pytest.raises(NotSolvedYet):
        tells_apart(stub)


def test_the_functions_may_be_called_otherwise():
    with pytest.raises(WrongAnswer, match="lets through a layer that averages averages"), check("an-exercise") as test:
        test("a family")
        observe_scenario(on_each, lambda mean: True).tells_apart((), WRONG, noun="layer")


def test_a_known_mistake_comes_first():
    with pytest.raises(WrongAnswer, match="Equal parts"), check("an-exercise") as test:
        test("a family")
        observe_scenario(on_each, lambda mean: True).tells_apart(
            (), WRONG, mistake("Equal parts can't show it.", stage="value")
        )
