"""The cards whose lines are put in order: all orders are run, and those that work are those without a fault."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch
import yaml
from torch import nn
from torch.nn import functional as F

from torchkata.facts import FactError
from torchkata.facts.orders import DATA, Order, all_orders, parse

ORDERS = all_orders()
ENTRY = yaml.safe_load(DATA.read_text(encoding="utf-8"))[0]
ARGUED = {"07-order-save", "10-order-accumulation"}  # no run shows a power failure, and none is cheap with two ranks


def works(order: Order, names: tuple[str, ...]) -> bool:
    """Whether the lines do in this order what they should."""
    found = {"torch": torch, "nn": nn, "F": F}
    exec(order.setup, found)
    try:
        for name in names:
            exec(order.lines[name], found)
        exec(order.works, found)
    except Exception:
        return False
    return bool(found["works"])


@pytest.mark.parametrize("order", [order for order in ORDERS if order.works], ids=lambda order: order.id)
def test_what_works_has_no_fault(order: Order):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for names in itertools.permutations(order.lines):
            assert works(order, names) == (order.fault(" ".join(names)) == ""), names


def test_what_fires_by_itself_fires_in_this_order():
    fire = [order for order in ORDERS if order.setup and not order.works]
    assert len(fire) == 1
    for order in fire:
        found = {"torch": torch, "nn": nn}
        exec(order.setup, found)
        assert found["fired"] == list(order.lines)


def test_all_others_are_argued():
    assert {order.id for order in ORDERS if not order.setup} == ARGUED


def test_each_sentence_can_be_told_and_the_lines_are_not_offered_in_order():
    assert len(ORDERS) >= 6
    for order in ORDERS:
        assert order.fault(order.answer) == ""
        assert order.fault(" ".join(order.offered)) != ""
        told = {order.fault(" ".join(names)) for names in itertools.permutations(order.lines)}
        assert told - {""} == {sentence for sentence, _ in order.wrong}, order.id
        assert max(map(len, order.lines.values())) <= 48, "they are on buttons"
        assert all(text.endswith(".") for text in (order.asks, order.because, *(told for told, _ in order.wrong)))


def test_lines_that_need_nothing_of_each_other_may_be_exchanged():
    [step] = [order for order in ORDERS if order.id == "11-order-step"]
    assert step.fault("zero forward backward clip step schedule") == ""
    assert step.fault("forward zero backward clip step schedule") == ""
    assert "computed before its backward" in step.fault("zero backward forward clip step schedule")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"because": " "}, "must be text"),
        ({"answer": "a b"}, "its fields must be"),
        ({"fact": "02-cat-remove-ith"}, "another chapter"),
        ({"lines": {"pre": "x"}}, "4 to 6 lines"),
        ({"wrong": {"No.": "pre after"}}, "no line is called after"),
    ],
)
def test_a_faulty_order_is_named(change: dict, words: str):
    with pytest.raises(FactError, match=rf"orders\.yaml: {ENTRY['id']}: .*{words}"):
        parse(yaml.safe_dump([{**ENTRY, **change}]))
