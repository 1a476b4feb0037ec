"""Separate: judge an input on which two functions differ, and a test that tells right functions from wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchkata.verdicts.comparing import difference, kind, show
from torchkata.verdicts.isolation import clean_state
from torchkata.verdicts.plain import Copier

ROUNDING = 4e-6


def _unlike(a: object, b: object) -> bool:
    return difference(a, b) is not None


def _unlike_for_their_size(a: object, b: object) -> bool:
    """Tiny results differ, too: what counts as rounding is measured by the largest number in both."""
    size = max(_size(a), _size(b))
    return difference(a, b, rtol=ROUNDING, atol=ROUNDING * size) is not None


def _size(value: object) -> float:
    """The largest finite number in tensors, numbers and containers of them, without its sign; 0 where there is none."""
    if isinstance(value, (list, tuple)):
        return max(map(_size, value), default=0.0)
    if isinstance(value, dict):
        return _size(list(value.values()))
    if isinstance(value, (Tensor, float, int)):
        numbers = torch.as_tensor(value).detach().double()
        return numbers[numbers.isfinite()].abs().amax().item() if numbers.isfinite().any() else 0.0
    return 0.0


@dataclass(frozen=True)
class Pair:
    """Two functions of one input, and how to judge an input on which they shall differ; see `separation`."""

    one: Callable[[Any], object]
    other: Callable[[Any], object]
    near: tuple[tuple[Callable[[Any], object], str], ...]
    contract: Callable[[Any], str]
    same: str
    differ: Callable[[Any, Any], object]
    exists: str
    no_input: str


def separation(
    one: Callable[[Any], object],
    other: Callable[[Any], object],
    *near: tuple[Callable[[Any], object], str],
    contract: Callable[[Any], str],
    same: str = "Both functions return {result} for this input.",
    differ: Callable[[Any, Any], object] | None = None,
    exists: str = "There is an input on which these two differ.",
    no_input: str = "",
) -> Pair:
    """Two functions of one input of the learner's, each called with a copy of it.

    Args:
        near: (condition, sentence) pairs for inputs that keep the contract and yet don't separate the two.
        contract: what is wrong with the input's form, in a sentence; "" where nothing is. It may raise, as the two
            functions may: then the learner reads that the call fails, and with what.
        same: the sentence for any other input on which the two agree. In it, as in those of `near`, "{result}" stands
            for the result of the first.
        differ: whether two results count as different; by default, where they differ by more than float32's rounding,
            measured by the largest number in them.
        exists: the sentence for None, which says that no input separates the two.
        no_input: why no input separates the two, if so. Then None is right; an input that does separate them is right
            nevertheless.
    """
    # where nothing separates the two, cancellation in large numbers must not look like a difference
    differ = differ or (_unlike if no_input else _unlike_for_their_size)
    return Pair(one, other, near, contract, same, differ, exists, no_input)


def what_is_wrong(two: Pair, given: object) -> str:
    """Why an input doesn't separate a pair, in a sentence; "" where it does."""
    if given is None:
        return "" if two.no_input else two.exists
    try:
        if outside := two.contract(_copy(given)):
            return outside
        results = [_run(function, given) for function in (two.one, two.other)]
    except Exception as error:  # of any input that a learner may write
        return f"A call fails ({type(error).__name__}: {error})."
    if two.differ(*results):
        return ""
    named = (sentence for holds, sentence in two.near if holds(_copy(given)))
    return next(named, two.no_input or two.same).replace("{result}", show(results[0]))


def _run(function: Callable[[Any], object], given: object) -> object:
    with clean_state():
        return function(_copy(given))


def _copy(given: object) -> Any:
    return Copier().copy(given)


def opinions(test: Callable[[Callable], object], functions: dict[str, Callable]) -> dict[str, tuple[str, str]]:
    """In a scenario: what a learner's test says of each function, for `Seen.tells_apart`. The keys of `functions` say
    what each does, in words that follow "a function that".

    The test is asked twice, the second time in reverse order, and gets each function without its own name. An opinion
    is ("passes", ""), ("fails", ""), ("raised", error) if the function or the test raised, ("returned", kind) if it is
    no bool, or ("changed", "") if it is another one the second time. Raises NotImplementedError for a stub.
    """
    first = {name: _opinion(test, function) for name, function in functions.items()}
    again = {name: _opinion(test, functions[name]) for name in reversed(functions)}
    return {name: said if said[0] == again[name][0] else ("changed", "") for name, said in first.items()}


def _opinion(test: Callable[[Callable], object], function: Callable) -> tuple[str, str]:
    def implementation(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    try:
        with clean_state():
            said = test(implementation)
    except Exception as error:  # a test may fail a function by raising
        if isinstance(error, NotImplementedError) and not str(error):
            raise
        return "raised", f"{type(error).__name__}: {error}"
    if isinstance(said, Tensor) and said.numel() == 1:
        said = said.item()
    if not isinstance(said, bool):
        return "returned", kind(said)
    return ("passes" if said else "fails"), ""


@dataclass(frozen=True)
class Amiss:
    """What a test gets wrong: a sentence with "{detail}", the detail, and what a hidden test says in its place."""

    sentence: str
    detail: str = ""
    guarded: str = ""


def what_it_takes_amiss(
    said: dict[str, tuple[str, str]], right: Collection[str], wrong: Collection[str], noun: str = "function"
) -> Amiss | None:
    """The first thing that a test gets wrong: the form, then a right function that it fails, then what it lets
    through. The noun says what the functions are."""
    for how, detail in said.values():
        if how == "returned":
            must = "Your test must return True or False, but it returned {detail}."
            return Amiss(must, detail, "something else")
        if how == "changed":
            return Amiss(f"Your test was asked about one {noun} twice, and changed its opinion.")
    for words in right:
        how, detail = said[words]
        if how == "raised":
            raised = f"your test raised {detail.partition(':')[0]}"
            return Amiss(f"Your test fails a right {noun}, which {words}: {{detail}}", detail, raised)
        if how == "fails":
            return Amiss(f"Your test fails a right {noun}, which {words}.")
    through = [words for words in wrong if said[words][0] == "passes"]
    if not through:
        return None
    more = f" It lets {len(through)} of {len(wrong)} wrong ones through." if len(through) > 1 else ""
    return Amiss(f"Your test lets through a {noun} that {through[0]}.{more}")
