"""Judge a dict of answers, such as predictions, item by item, with a share of the points for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from torchkata.verdicts.comparing import kind, show
from torchkata.verdicts.showing import Part


@dataclass
class Items:
    """What was judged item by item: a line for each wrong one, and how many there are."""

    wrong: list[str] = field(default_factory=list)
    number: int = 0


_collected: Items | None = None


@contextmanager
def collected() -> Iterator[Items]:
    """Inside, what is wrong with items is collected, not printed."""
    global _collected
    _collected = found = Items()
    try:
        yield found
    finally:
        _collected = None


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
    failed: Callable[..., Exception],
) -> float:
    """`judge_items` with predictions."""
    sentences = {name: partial(_what_is_wrong, item) for name, item in items.items()}
    return judge_items(answers, sentences, points, not_solved, failed, "prediction")


def judge_items(
    answers: object,
    items: Mapping[str, Callable[[object], str]],
    points: float,
    not_solved: type[Exception],
    failed: Callable[..., Exception],
    word: str,
) -> float:
    """Print (or collect) a sentence for each wrong item, one without an answer included; return the points earned.

    Each item says what is wrong with an answer, or "". `word` is what the answers are. Raises `not_solved` where no
    item has an answer, `failed` where none is right.
    """
    if not isinstance(answers, dict):
        raise failed(f"The answer must be a dict from item names to {word}s, but it is {kind(answers)}.")
    given = {name: answers.get(name, ...) for name in items}
    if all(answer is ... for answer in given.values()):
        raise not_solved
    lines = []
    for name, what_is_wrong in items.items():
        if name not in answers:
            sentence = f"There is no {word} yet: your answer has no item of this name. Add it."
        elif given[name] is ...:
            sentence = f"There is no {word} yet: write yours in place of the `...`."
        else:
            sentence = what_is_wrong(given[name])
        if sentence:
            lines.append(f"{name} = {_spelled(given[name])}: {sentence}")
    if len(lines) == len(items):
        raise failed("None of the items is right yet.", parts=[Part("", line) for line in lines])
    if _collected is None:
        print_wrong(lines)
    else:
        _collected.wrong += lines
        _collected.number += len(items)
    return round(points * (len(items) - len(lines)) / len(items), 4)


def print_wrong(lines: list[str]) -> None:
    """A line for each wrong item."""
    for line in lines:
        print(f"✗ {line}")


def _spelled(answer: object) -> str:
    return "..." if answer is ... else show(answer)


def _what_is_wrong(item: Prediction, answer: object) -> str:
    if alike(answer, item.truth):
        return ""
    if isinstance(item.truth, bool) and not isinstance(answer, bool):
        return "The question is answered by True or False."
    named = (sentence for value, sentence in item.mistakes if alike(answer, value))
    return next(named, item.because or "This is not what happens. Run it and see.")


def alike(a: object, b: object) -> bool:
    """Whether two predictions say the same in any spelling: list, tuple or tensor; dtype or its name; 2 or 2.0.

    True and 1 are not alike, nor are False and 0. A tensor of one element is alike its number.
    """
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Tensor) and one.numel() == 1 and not one.is_meta and isinstance(other, (int, float)):
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
        return object() if value.is_meta else value.tolist()  # a tensor without numbers is like nothing
    if isinstance(value, (list, tuple)):
        return [_simple(v) for v in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, str):
        text = value.strip().removeprefix("torch.")
        return float(text) if text.lower() in ("inf", "+inf", "-inf", "nan") else text
    return value
