"""Mistakes as a table, and corners that many exercises have as hidden tests of one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torchkata.verdicts import first_check
from torchkata.verdicts.asking import observe, observe_scenario
from torchkata.verdicts.judging import Mistake, Seen, mistake

if TYPE_CHECKING:
    from torchkata.verdicts.check import check

FIRST_CHECK_FIRST = mistake(
    "This check builds on the first one, which doesn't pass yet. Fix that first.",
    when=lambda seen: not first_check.is_passed(),
)
REFUSALS = (IndexError, RuntimeError, ValueError)
PRECISION = {torch.float64: 1e-13, torch.float16: 5e-3, torch.bfloat16: 3e-2}  # rtol of the dtypes that are kept
ELSEWHERE = ("expected device", "same device")  # what torch says where tensors are on two devices


def known(table: Mapping[str, object]) -> list[Mistake]:
    """Mistakes as a table, from a sentence to what gives the mistake away:

        the shape of the result     a tuple of integers
        words of what is raised     a text, which is a regular expression
        anything seen               a function of the `Seen`, as `when` of a mistake
        several conditions          a dict, such as {"stage": "dtype", "raises": "scalar type"}; see `Mistake`
        the result                  anything else

    or several of these in a list. The first one that matches speaks, in the table's order.
    """
    return [
        mistake(sentence, **_conditions(sign))
        for sentence, signs in table.items()
        for sign in (signs if isinstance(signs, list) else [signs])
    ]


def _conditions(sign: object) -> Mapping[str, object]:
    if isinstance(sign, dict):
        return sign
    if isinstance(sign, str):
        return {"raises": sign}
    if isinstance(sign, tuple) and all(isinstance(size, int) for size in sign):
        return {"shape": sign}
    if callable(sign) and not isinstance(sign, torch.dtype):
        return {"when": sign}
    return {"gives": sign}


class corners:
    """Hidden tests of an answer against a reference, a function of the same arguments.

        corner = corners(test, segment_mean, reference, "values")
        corner.each({"no rows at all": (torch.empty(0, 3), no_segments, 2)})

    Each method is a hidden test, or several.

    like: the argument, by name, whose dtype and device the result has. what: the result in a word.
    """

    def __init__(self, test: check, answer: Callable, reference: Callable, like: str, what: str = "result"):
        self.test, self.answer, self.reference, self.like, self.what = test, answer, reference, like, what

    def each(self, cases: Mapping[str, tuple], *mistakes: Mistake) -> None:
        """Arguments by idea: the answer returns what the reference does, and leaves its arguments alone."""
        for idea, args in cases.items():
            self.test.hidden(idea)
            self._observe(*args).returns(self.reference, *mistakes).leaves_arguments_alone()

    def keeps_dtype(self, values: Tensor, *others: object, mistakes: Iterable[Mistake] = ()) -> None:
        """float64 to its full precision; float16 and bfloat16 stay what they are. `values` is the first argument."""
        self.test.hidden("float64 to its full precision, float16 and bfloat16 kept")
        kept = f"The {self.what} must have the dtype of {self.like}: {{detail}}"
        single = f"This is float32 precision in a float64 tensor: compute in the dtype of {self.like}."
        for dtype, rtol in PRECISION.items():
            self._observe(values.to(dtype), *others).returns(
                self.reference,
                *known({kept: [{"stage": "dtype"}, "dtype|scalar type"]}),
                *mistakes,
                *known({single: lambda seen: seen.looks_like(self.reference) and seen.value.dtype == torch.float64}),
                rtol=rtol,
                atol=0,
            )

    def keeps_device(self, expected: Tensor, *args: object, **kwargs: object) -> None:
        """Arguments on meta give a result like `expected` there. An answer that reads values raises, and is not judged:
        meta has none."""
        self.test.hidden(f"{self.like} on another device: the {self.what} is there too")
        seen = self._observe(*[arg.to("meta") if isinstance(arg, Tensor) else arg for arg in args], **kwargs)
        if not seen.error_text or any(words in seen.error_text for words in ELSEWHERE):
            there = f"The {self.what} must be on the device of {self.like}: {{detail}}"
            seen.returns(expected.to("meta"), *known({there: {"stage": ("raised", "device")}}))

    def refuses(self, what: str, cases: Mapping[object, tuple]) -> None:
        """Arguments by the bad value in them: the answer raises IndexError, RuntimeError or ValueError."""
        self.test.hidden(f"a {what} that does not exist is refused")
        kinds = "raise IndexError, RuntimeError or ValueError"
        another = known({f"A {what} that does not exist raised another kind of exception: {kinds}.": "."})
        for bad, args in cases.items():
            self._observe(*args).raises(*REFUSALS, because=f"{what.capitalize()} {bad} must raise.", mistakes=another)

    def gives_gradients(self, cases: Mapping[str, tuple], because: str = "") -> None:
        """Arguments by idea, of which the first gets a gradient: that is the reference's."""
        for idea, (values, *others) in cases.items():
            self.test.hidden(idea)
            seen = self._observe(values.clone().requires_grad_(), *others)
            seen.returns(self.reference).gives_gradients(self.reference, because=because)

    def keeps_first_result(self, what: str, first: Tensor, second: Tensor, *others: object) -> None:
        """The tensor that a call returns, `what` in a word, stays as it was when the next call is made. `first` and
        `second` are the first arguments of the two, of one shape and dtype, so that a tensor which is kept between
        calls fits both; their results differ."""
        self.test.hidden(f"the {what} of one call after the next call")
        story: Any = _first_result_stays  # to mypy a function is no FunctionType
        seen = observe_scenario(story, self.answer, first, second, *others)
        seen.that(seen.value, "A second call was made, and the first result changed. Create a new tensor in each call.")

    def _observe(self, *args: object, **kwargs: object) -> Seen:
        return observe(self.answer, *args, **kwargs)


# without types: as a scenario it may run in another process, where their names mean nothing
def _first_result_stays(answer, first, second, *others):  # type: ignore[no-untyped-def]
    """Call it twice, with first arguments of one shape, and see whether the first result stays as it was."""
    result = answer(first, *others)
    before = result.clone()
    answer(second, *others)
    return result.equal(before)
