"""Judge: compare plain facts with what is expected and say what is wrong. Nothing here calls a learner's code."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NoReturn

import torch
from torch import Tensor

from torchkata.processes.errors import UNSENT
from torchkata.verdicts.comparing import STAGES, Difference, difference, kind, same_values, show
from torchkata.verdicts.isolation import clean_state
from torchkata.verdicts.observing import Observation, incoming_gradient, is_answer
from torchkata.verdicts.ordering import Ordering, what_is_out_of_order
from torchkata.verdicts.plain import Copier
from torchkata.verdicts.predicting import Prediction, judge_items, judge_predictions
from torchkata.verdicts.recording import tensors_in
from torchkata.verdicts.separating import Pair, what_is_wrong, what_it_takes_amiss
from torchkata.verdicts.showing import Part
from torchkata.verdicts.telltales import NOBODY_ASKS, Asks


class Failed(Exception):
    """A judgement against the answer.

    Attributes:
        sentence: what to tell the learner; `guarded` is the same without any data of the test.
        parts: what was asked and found; they may show data.
        frames: line, function and source of the places in the learner's own code that an exception went through.
    """

    def __init__(self, sentence: str, guarded: str = "", parts: Sequence[Part] = (), frames: Sequence[list] = ()):
        super().__init__(sentence)
        self.sentence, self.guarded = _polished(sentence), _polished(guarded or sentence)
        self.parts, self.frames = list(parts), list(frames)


class NotSolved(Exception):
    """The answer is still the stub."""


class NotRecorded(Exception):
    """A fault of a check cell: it asks for operations of a call in whose test none were recorded."""

    def __init__(self) -> None:
        super().__init__("operations are recorded where the test itself asks for them: observe in the same test again")


@dataclass(frozen=True)
class Mistake:
    """A known misconception and the sentence that names it. It matches when all the conditions that are given hold.

    Attributes:
        sentence: what to tell the learner; "{detail}" stands for what the failing stage has to say.
        gives: the result that betrays it, or a function of the check's own arguments that computes that result.
            Shape and values are compared, dtypes are not.
        raises: a regular expression found in "TypeOfError: message", or the type alone, of what the answer raised.
        stage: the stage (or stages) at which the judgement failed: raised, type, shape, dtype, device, aliasing, value,
            arguments, gradient, rule.
        shape: the shape of the result.
        when: a function of the `Seen` that says whether it applies; it reads facts only.
    """

    sentence: str
    gives: object = None
    raises: str | None = None
    stage: str | tuple[str, ...] | None = None
    shape: tuple[int, ...] | None = None
    when: Callable[[Seen], bool] | None = None

    def __post_init__(self) -> None:
        stages = (self.stage,) if isinstance(self.stage, str) else self.stage or ()
        if unknown := set(stages) - set(STAGES):
            raise ValueError(f"unknown stage {unknown}; the stages are {', '.join(STAGES)}")
        if all(c is None for c in (self.gives, self.raises, self.stage, self.shape, self.when)):
            raise ValueError(f"a mistake needs a condition: {self.sentence}")

    def matches(self, seen: Seen, stage: str, truth: object = None) -> bool:
        """Whether it explains a failure at this stage; a look-alike that is as good as the truth explains nothing."""
        stages = (self.stage,) if isinstance(self.stage, str) else self.stage
        when = self.when
        return (
            (stages is None or stage in stages)
            and (self.raises is None or re.search(self.raises, seen.error_text) is not None)
            and (self.shape is None or getattr(seen.noted.result, "shape", None) == self.shape)
            and (self.gives is None or seen.looks_like(self.gives, truth))
            and (when is None or seen.quietly(lambda: bool(when(seen))) is True)
        )


def mistake(sentence: str, **conditions: Any) -> Mistake:
    """A known misconception with its sentence; see `Mistake` for the conditions."""
    return Mistake(sentence, **conditions)


@dataclass
class Seen:
    """Facts about one call, one scenario or one value, with the methods that judge them.

    Each method raises (and so ends the check) with the first thing that is wrong: the sentence of the first mistake
    that matches, else the sentence given as `because`, else a generic one.
    """

    name: str
    args: tuple
    kwargs: dict
    noted: Observation
    asks: Asks = NOBODY_ASKS  # for operations: they were recorded if its own test asks
    known: tuple[Mistake, ...] = ()
    is_value: bool = False
    story: str = ""  # of a scenario: what it does, in words
    names: tuple[str, ...] = ()  # of a scenario: the names of its parameters
    _naming: bool = False  # while a mistake is looked for
    _refused: bool = False  # it raised, as it was to

    # ------------------------------------------------ what was seen

    def expecting(self, *mistakes: Mistake) -> Seen:
        """Make mistakes known to every judgement that follows; returns self."""
        self.known = (*self.known, *mistakes)
        return self

    @property
    def value(self) -> Any:
        """What was returned, as plain data. Fails when the answer raised."""
        self._must_have_returned(())
        return self.noted.result

    def __getitem__(self, key: str) -> Any:
        """One of the facts that a scenario returned."""
        return self.value[key]

    @property
    def error_text(self) -> str:
        """ "TypeOfError: message" of what the answer (or its backward pass) raised, or the empty string."""
        raised = self.noted.raised or self.noted.backward_raised
        return ": ".join(filter(None, [raised["types"][0], raised["message"]])) if raised else ""

    @property
    def error_kind(self) -> str:
        """The first builtin exception among the classes of what was raised: a name that can't carry data."""
        raised = self.noted.raised or self.noted.backward_raised or {"types": []}
        builtin = (name for name in raised["types"] if isinstance(getattr(builtins, str(name), None), type))
        return next(builtin, "an exception")

    def gradient(self, argument: int) -> Tensor | None:
        """The gradient that reached an argument (by position, from 0), or None."""
        return self.noted.gradients.get(list(self.noted.arguments)[argument])

    @property
    def ops(self) -> list[dict]:
        """The recorded operations, see `torchkata.verdicts.recording.Recorder`. Fails as `in_sight` does: where some of
        the work was out of sight, nobody knows whether a rule was kept. Raises NotRecorded, as `in_sight` does."""
        return self.in_sight().noted.ops

    @property
    def reads(self) -> list[tuple[str, str]]:
        """(operation, argument) for every recorded operation that read the values of an argument, forward."""
        return [(op["name"], arg) for op in self.ops if op["phase"] == "forward" for arg in op["reads"]]

    def op_names(self, phase: str | None = None, level: str | None = None) -> list[str]:
        """Names of the recorded operations in order; phase "forward" or "backward", level "python" or "aten"."""
        return [
            op["name"]
            for op in self.ops
            if (phase is None or op["phase"] == phase) and (level is None or op["level"] == level)
        ]

    # ------------------------------------------------ judgements

    def returns(
        self,
        expected: object,
        *mistakes: Mistake,
        because: str = "",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Seen:
        """Judge the result: returned at all, type, shape, dtype, device, values.

        `expected` is the value, or a reference function of the check's own arguments.
        """
        self._must_have_returned(mistakes)
        if callable(expected) and not isinstance(expected, torch.dtype):
            expected = self._compute(expected)
        found = difference(self.noted.result, expected, rtol, atol)
        if found is not None:
            self._fail(found, mistakes, because, truth=expected)
        return self

    def raises(self, *types: type[BaseException], because: str = "", mistakes: Sequence[Mistake] = ()) -> Seen:
        """Judge that the answer refused the call with one of the given exceptions."""
        names = [t.__name__ for t in types]
        raised = self.noted.raised
        self._must_be_solved()
        if raised is not None and set(names) & set(raised["types"]):
            self._refused = True
            return self
        must = f"this must raise {' or '.join(names)}"
        came = f"it raised {self.error_text}" if raised else f"it returned {show(self.noted.result)}"
        self._fail(Difference("raised", f"{must}, but {came}", must), mistakes, because)
        return self

    def leaves_arguments_alone(self, *mistakes: Mistake, because: str = "") -> Seen:
        """Judge that no argument was changed: values, shape, strides, dtype, requires_grad.

        After `raises`, this is judged of the call that raised.
        """
        if not self._refused:
            self._must_have_returned(mistakes)
        before = [arg for arg in (*self.args, *self.kwargs.values()) if not is_answer(arg)]
        for old, (name, new) in zip(before, self.noted.arguments.items(), strict=True):
            if _changed(old, new):
                self._fail(
                    Difference("arguments", _what_changed(name, old, new), f"{name} was changed"), mistakes, because
                )
        return self

    def gives_gradients(
        self,
        reference: Callable | dict[int, Tensor],
        *mistakes: Mistake,
        because: str = "",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Seen:
        """Judge the gradients of the arguments that require grad, for the fixed incoming gradient.

        `reference` is a function of the check's own arguments whose gradients are the expected ones, or a dict from
        positions of arguments (from 0) to expected gradients.
        """
        self._must_have_returned(mistakes)
        if self.noted.backward_raised:
            detail, guarded = (f"the backward pass raised {text}" for text in (self.error_text, self.error_kind))
            self._fail(Difference("gradient", detail, guarded), mistakes, because)
        expected = reference if isinstance(reference, dict) else self._reference_gradients(reference)
        names = list(self.noted.arguments)
        for position, gradient in expected.items():
            name, came = names[position], self.gradient(position)
            if came is None:
                self._fail(Difference("gradient", f"no gradient reaches {name}"), mistakes, because)
            found = difference(came, gradient, rtol, atol)
            if found is not None:
                off = f"the gradient of {name} is off: "
                wrong = Difference("gradient", off + found.detail, found.guarded and off + found.guarded)
                self._fail(wrong, mistakes, because)
        return self

    def shares_memory_with(self, argument: int, *mistakes: Mistake, because: str = "") -> Seen:
        """Judge that the result is a view of an argument (by position, from 0): both look into one storage."""
        result = self._tensor_result(mistakes)
        name, source = list(self.noted.arguments.items())[argument]
        if result.untyped_storage()._cdata != source.untyped_storage()._cdata:
            detail = f"the result does not share {name}'s memory"
            self._fail(Difference("aliasing", detail), mistakes, because)
        return self

    def owns_its_memory(self, *mistakes: Mistake, because: str = "") -> Seen:
        """Judge that the result shares memory with no argument, and that no two of its elements share a cell."""
        result = self._tensor_result(mistakes)
        storage = result.untyped_storage()._cdata
        for name, value in self.noted.arguments.items():
            if isinstance(value, Tensor) and value.untyped_storage()._cdata == storage and result.numel():
                self._fail(Difference("aliasing", f"the result shares the memory of {name}"), mistakes, because)
        if _has_overlap(result):
            self._fail(Difference("aliasing", "several elements share one memory cell"), mistakes, because)
        return self

    def is_untracked(self, *mistakes: Mistake, because: str = "") -> Seen:
        """Judge that the result does not require grad."""
        self._must_have_returned(mistakes)
        if self.noted.tracked:
            self._fail(Difference("gradient", "the result requires grad"), mistakes, because)
        return self

    def used(self, *names: str, because: str = "", mistakes: Sequence[Mistake] = ()) -> Seen:
        """Judge that at least one of the named operations ran, as Python call or as ATen operation; and where it is one
        that makes tensors, that the tensors which came back come from it."""
        self._must_have_returned(mistakes)
        if not set(names) & set(self.op_names()):
            self._fail(Difference("rule", f"{' or '.join(names)} was not used"), mistakes, because)
        if self._came_without(names):
            named = " or ".join(names)
            detail = f"{named} was called, but what came back doesn't depend on it, or NumPy could write into it"
            self._fail(Difference("rule", detail), mistakes, because)
        return self

    def _came_without(self, names: tuple[str, ...]) -> bool:
        """Whether tensors came back, and none of them depends on any of the operations, which made some."""
        makes = any(op["name"] in names and op["device"] for op in self.ops)
        noted = self.noted
        came = tensors_in(noted.result, noted.arguments, noted.gradients)
        return makes and bool(came) and not set(names) & set(noted.behind)

    def avoided(self, *names: str, because: str = "", mistakes: Sequence[Mistake] = ()) -> Seen:
        """Judge that none of the named operations ran, as Python call or as ATen operation, backward included."""
        self._must_have_returned(mistakes)
        if found := [name for name in dict.fromkeys([*self.op_names(), *self.noted.called]) if name in names]:
            self._fail(Difference("rule", f"used {', '.join(found)}"), mistakes, because)
        return self

    def in_sight(self) -> Seen:
        """Judge that all of the answer's work was done where it can be recorded: not in a thread, not in another
        process, not below torch's modes. Whatever asks for operations judges this too. Raises NotRecorded where nobody
        has looked."""
        if not self.asks.here:
            raise NotRecorded
        if self.noted.lost and not self._naming:
            self._fail(Difference("rule", self.noted.lost[0], "elsewhere"), (), UNSEEN)
        return self

    def warned_nothing(self, *mistakes: Mistake, because: str = "") -> Seen:
        """Judge that no DeprecationWarning, FutureWarning or UserWarning came up."""
        self._must_have_returned(mistakes)
        if self.noted.warned:
            category, message = self.noted.warned[0]
            self._fail(
                Difference("rule", f"{category}: {message.splitlines()[0]}", "a warning came up"), mistakes, because
            )
        return self

    def that(self, holds: bool, sentence: str, *mistakes: Mistake, stage: str = "value", detail: str = "") -> Seen:
        """Judge any condition on plain facts; `sentence` is what a learner reads when it does not hold. "{detail}" in
        it stands for `detail`, names of operations: the answer chose these, so a hidden test withholds them, for they
        could carry its data. At the stage "rule" it judges, as `in_sight` does, whether the facts can be
        relied on, unless no test of the check cell asks for operations: then it is a rule about something else."""
        self._must_have_returned(mistakes)
        if stage == "rule" and self.asks.in_cell:
            self.in_sight()
        if not holds:
            self._fail(Difference(stage, detail, detail and WITHHELD), mistakes, sentence)
        return self

    def predicts(self, items: dict[str, Prediction], points: float) -> float:
        """Judge a dict of predictions, item by item; print a sentence for each wrong one; return the points earned.

        An item left as `...` is a wrong one. Fails when nothing is right.
        """
        return judge_predictions(self.noted.result, items, points, not_solved=NotSolved, failed=Failed)

    def separates(self, pairs: dict[str, Pair], points: float) -> float:
        """Judge a dict of inputs, each of which shall separate a pair of functions; print a sentence for each that
        doesn't; return the points earned. Fails when none does."""
        items = {name: partial(what_is_wrong, two) for name, two in pairs.items()}
        return judge_items(self.noted.result, items, points, not_solved=NotSolved, failed=Failed, word="input")

    def orders(self, items: dict[str, Ordering], points: float) -> float:
        """Judge a dict of lists of names, each of which shall put lines in an order that works; print a sentence for
        each that doesn't; return the points earned. Fails when none does."""
        sentences = {name: partial(what_is_out_of_order, item) for name, item in items.items()}
        return judge_items(self.noted.result, sentences, points, not_solved=NotSolved, failed=Failed, word="order")

    def tells_apart(
        self, right: Collection[str], wrong: Collection[str], *mistakes: Mistake, noun: str = "function"
    ) -> Seen:
        """Judge the `opinions` of a test, which must pass the right functions and fail the wrong ones, by returning
        False or by raising. Both are keys of the `opinions`. `noun` replaces "function" in the sentences, for example
        where what the test gets builds a model."""
        self._must_have_returned(mistakes)
        if amiss := what_it_takes_amiss(self.value, right, wrong, noun):
            self._fail(Difference("value", amiss.detail, amiss.guarded), mistakes, amiss.sentence)
        return self

    # ------------------------------------------------ how a judgement fails

    def looks_like(self, wrong: object, truth: object = None) -> bool:
        """Whether the result has the shape and values of `wrong` (a value, or a function of the check's arguments), and
        these are not those of `truth`."""
        if self.noted.raised:
            return False
        if callable(wrong):
            wrong = self.quietly(self._compute, wrong)
        if truth is not None and self.quietly(same_values, truth, wrong) is True:
            return False
        return self.quietly(same_values, self.noted.result, wrong) is True

    @staticmethod
    def quietly(function: Callable, *args: object) -> object:
        """Call a part of a mistake; None when it can't be computed for this input."""
        try:
            return function(*args)
        except NotRecorded:
            raise
        except Exception:  # a look-alike that does not fit these arguments does not match
            return None

    def _compute(self, function: Callable) -> object:
        args, kwargs = Copier().copy([list(self.args), self.kwargs])
        with clean_state():
            return function(*args, **kwargs)

    def _reference_gradients(self, reference: Callable) -> dict[int, Tensor]:
        args, kwargs = Copier().copy([list(self.args), self.kwargs])
        given = zip([*self.args, *self.kwargs.values()], [*args, *kwargs.values()], strict=True)
        placed = enumerate(copy for original, copy in given if not is_answer(original))
        inputs = {n: t for n, t in placed if isinstance(t, Tensor) and t.requires_grad}
        with clean_state():
            out = reference(*args, **kwargs)
            outs = [t for t in (out if isinstance(out, (list, tuple)) else [out]) if t.requires_grad]
            incoming = [incoming_gradient(t) for t in outs]
            grads = torch.autograd.grad(outs, list(inputs.values()), incoming, materialize_grads=True)
        return dict(zip(inputs, grads, strict=True))

    def _tensor_result(self, mistakes: Sequence[Mistake]) -> Tensor:
        self._must_have_returned(mistakes)
        if not isinstance(self.noted.result, Tensor):
            detail = f"expected a tensor, got {kind(self.noted.result)}"
            self._fail(Difference("type", detail, "expected a tensor"), mistakes, "")
        return self.noted.result

    def _must_be_solved(self) -> None:
        raised = self.noted.raised
        if raised and raised["types"][0] == "NotImplementedError" and not raised["message"]:
            raise NotSolved
        if self.is_value and self.noted.result is ...:
            raise NotSolved

    def _must_have_returned(self, mistakes: Sequence[Mistake]) -> None:
        self._must_be_solved()
        if self.noted.replaced and not self._naming:
            shown = " and ".join(self.noted.replaced[:2])
            self._fail(Difference("rule", shown, "a part of torch"), (), REPLACED)
        if self.noted.raised:
            found = Difference("raised", f"your code raised {self.error_text}", f"your code raised {self.error_kind}")
            self._fail(found, mistakes, "")

    def _fail(self, found: Difference, mistakes: Sequence[Mistake], because: str, truth: object = None) -> NoReturn:
        if self._naming:  # a mistake's `when` asked for a value that the answer did not return
            raise LookupError(found.detail)
        self._naming = True
        try:
            named = next((m for m in (*mistakes, *self.known) if m.matches(self, found.stage, truth)), None)
        finally:
            self._naming = False
        if found.stage == "raised" and not named and not because and self._stumbled():
            found = Difference("raised", self.error_text, self.error_kind)
        sentence = named.sentence if named else because or self._generic(found.stage)
        guarded = sentence.replace("{detail}", found.guarded or found.detail)
        parts = [] if self.is_value else [Part("asked", self._call_text())]
        if found.detail and "{detail}" not in sentence:
            parts.append(Part("found", found.detail))
        parts += [Part(*block) for block in found.blocks]
        raise Failed(sentence.replace("{detail}", found.detail), guarded, parts, self._frames())

    def _generic(self, stage: str) -> str:
        """The sentence where neither a mistake nor the judgement has one."""
        if stage == "type" and self.noted.result is None:
            return "Nothing came back (None): is a `return` missing? ({detail})"
        if stage == "raised" and self._stumbled():
            return NOT_SENT if UNSENT in self.error_text else STUMBLED
        return GENERIC[stage]

    def _stumbled(self) -> bool:
        """Whether a scenario failed in its own code, with what the answer gave it."""
        return self.noted.raised is not None and self.noted.raised.get("stumbled", False)

    def _frames(self) -> list[list]:
        raised = self.noted.raised or self.noted.backward_raised or {"frames": []}
        return raised["frames"]

    def _call_text(self) -> str:
        shown = [show(a) if not callable(a) else getattr(a, "__name__", "an answer") for a in self.args]
        shown += [f"{k}={show(v)}" for k, v in self.kwargs.items()]
        if not self.story:
            return f"{self.name}({', '.join(shown)})"
        # a scenario is the check's own; nobody could call it, so its arguments need their names
        named = zip_longest(self.names[: len(shown)], self.args, shown)
        told = [f"{name}={text}" if name and not callable(value) else text for name, value, text in named]
        return f"{self.story.rstrip('.')} ({', '.join(told)})" if told else self.story


GENERIC = {
    "raised": "{detail}.",
    "type": "This is the wrong kind of result: {detail}.",
    "shape": "The shape is wrong: {detail}.",
    "dtype": "The dtype is wrong: {detail}.",
    "device": "The device is wrong: {detail}.",
    "aliasing": "The memory is not as asked: {detail}.",
    "value": "The values are wrong: {detail}.",
    "arguments": "Your code changed what the caller passed in: {detail}. Work on a copy.",
    "gradient": "The gradient is wrong: {detail}.",
    "rule": "The rule of this exercise is broken: {detail}.",
}
WITHHELD = "operations that a hidden test doesn't name"
REPLACED = "Your code replaced {detail} while it ran. The check needs the original: leave torch as it is."
UNSEEN = (
    "This check watches which operations run, but part of your code's work ran where it can't watch ({detail}). Do all "
    "the work in the call itself, and leave torch's modes alone."
)
STUMBLED = (
    "The check can't go on from what your code gave it: is a `return` missing, or is it of another kind than asked for?"
)
NOT_SENT = (
    "The check runs your code in other processes, but something that your code uses can't be sent there. Create such "
    "an object inside the function, so that each process makes its own."
)
NOTHING = re.compile(r"(?<!')\b(?:of type |an? )?NoneType\b(?!')")  # but not in Python's own messages


def _polished(sentence: str) -> str:
    """The sentence with one full stop, None by its name, and a capital first letter unless it begins with code."""
    sentence = NOTHING.sub("None", sentence)
    sentence = sentence[:-1] if sentence.endswith("..") and not sentence.endswith("...") else sentence
    first = sentence.split(" ")[0]
    is_word = first.isalpha() and (len(first) > 1 or first == "a")
    return sentence[:1].upper() + sentence[1:] if is_word else sentence


def _changed(old: object, new: object) -> bool:
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        same_layout = (old.shape, old.stride(), old.dtype) == (new.shape, new.stride(), new.dtype)
        if not same_layout or old.requires_grad != new.requires_grad or old.device.type == "meta":
            return not same_layout or old.requires_grad != new.requires_grad
        return difference(new, old, rtol=0.0, atol=0.0) is not None
    return difference(new, old, rtol=0.0, atol=0.0) is not None


def _what_changed(name: str, old: object, new: object) -> str:
    """What is no longer as it was, in a clause."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        facts = [
            ("shape", tuple(old.shape), tuple(new.shape)),
            ("stride()", old.stride(), new.stride()),
            ("dtype", old.dtype, new.dtype),
            ("requires_grad", old.requires_grad, new.requires_grad),
        ]
        of_tensor = (f"{name}.{what} was {was} and is now {now}" for what, was, now in facts if was != now)
        return next(of_tensor, f"the values in {name} are no longer the same")
    if isinstance(old, dict) and isinstance(new, dict) and (gone := [str(key) for key in old if key not in new]):
        return f"{name} no longer holds {' and '.join(gone)}"
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        place = next((i for i, pair in enumerate(zip(old, new, strict=True)) if _changed(*pair)), 0)
        return _what_changed(f"{name}[{place}]", old[place], new[place])
    if isinstance(old, (dict, list)):
        return f"{name} no longer holds the same"
    return f"{name} was {show(old)} and is now {show(new)}"


def _has_overlap(tensor: Tensor) -> bool:
    """Whether two elements lie in one cell (exact: counts the distinct cells of the elements)."""
    if tensor.numel() < 2:
        return False
    cells = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        cells = cells[..., None] + torch.arange(size) * stride
    return cells.unique().numel() < tensor.numel()


def frame_lines(frames: list) -> list[str]:
    """Lines of a learner's own code that were running, in words."""
    return [f"{words}  {code}" for words, code in frame_words(frames)]


def frame_words(frames: list) -> list[tuple[str, str]]:
    """The same, each with its code apart."""
    return [(f"line {line} of your code, in {where}:", source) for line, where, source in frames]
