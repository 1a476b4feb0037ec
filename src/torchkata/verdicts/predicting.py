"""Judge a dict of predictions item by item, with a share of the points for each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torchkata.verdicts.comparing import kind, show


@dataclass(frozen=True)
class Prediction:
    """The truth about one item, the known wrong predictions as (value, sentence) pairs, the sentence for any other."""

    truth: object
    mistakes: tuple[tuple[object, str], ...] = ()
    because: str = ""


def prediction(truth: object, *mistakes: tuple[object, str], because: str = "") -> Prediction:
    """One item of a prediction exercise: `truth` is computed live, `mistakes` are (wrong value, sentence) pairs."""
    return Prediction(truth, mistakes, because)


def judge_predictions(
    answers: object,
    items: dict[str, Prediction],
    points: float,
    not_solved: type[Exception],
    failed: type[Exception],
) -> float:
    """Print a sentence for each wrong item; return the points earned. Raises `not_solved` or `failed`."""
    if not isinstance(answers, dict):
        raise failed(f"The answer must be a dict from item names to predictions, but it is {kind(answers)}.")
    open_items = [name for name in items if answers.get(name, ...) is ...]
    if len(open_items) == len(items):
        raise not_solved
    if open_items:
        raise failed(f"Every item needs an answer: replace each `...` ({', '.join(open_items)}).")
    wrong = {name: item for name, item in items.items() if not alike(answers[name], item.truth)}
    lines = [f"{name} = {show(answers[name])}: {_sentence(answers[name], item)}" for name, item in wrong.items()]
    if len(wrong) == len(items):
        raise failed("None of the items is right yet.", lines=lines)
    for line in lines:
        print(f"✗ {line}")
    return round(points * (len(items) - len(wrong)) / len(items), 4)


def _sentence(answer: object, item: Prediction) -> str:
    if isinstance(item.truth, bool) and not isinstance(answer, bool):
        return "The question is answered by True or False."
    named = (sentence for value, sentence in item.mistakes if alike(answer, value))
    return next(named, item.because or "This is not what happens. Run it and see.")


def alike(a: object, b: object) -> bool:
    """Whether two predictions say the same in any spelling: list, tuple or tensor; dtype or its name; 2 or 2.0.

    True and 1 are not alike, nor are False and 0. A tensor of one element is alike its number.
    """
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Tensor) and one.numel() == 1 and isinstance(other, (int, float)):
            return alike(one.item(), other)
    a, b = _simple(a), _simple(b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return _close(a, b)
    return type(a) is type(b) and a == b


def _close(a: float, b: float) -> bool:
    try:
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    except OverflowError:  # an integer that no float can hold
        return a == b


def _simple(value: object) -> object:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_simple(v) for v in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, str):
        text = value.strip().removeprefix("torch.")
        return float(text) if text.lower() in ("inf", "+inf", "-inf", "nan") else text
    return value
