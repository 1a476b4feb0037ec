"""Observe: run a learner's answer and note plain facts about what it did. Nothing here judges."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from types import FunctionType
from typing import Any, TextIO

import torch
from torch import Tensor

from torchkata.demos import every_warning
from torchkata.processes import RankError, RanksHang
from torchkata.verdicts.findable import found_by_the_compiler
from torchkata.verdicts.isolation import clean_state
from torchkata.verdicts.originals import put_back_what_shows
from torchkata.verdicts.plain import Copier, taken
from torchkata.verdicts.recording import Recorder, Unrecorded, lifts_modes, tensors_in
from torchkata.verdicts.sight import Sight, Unwatched

# what Python raises for a value of another kind; a call with other arguments is the answer's own fault
OF_ANOTHER_KIND = (AttributeError, TypeError, ValueError, LookupError)
CALLED_OTHERWISE = re.compile(r"takes .*argument|missing \d+ required|unexpected keyword|multiple values for")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # what some of torch's messages hold for terminals
MAX_NAMES = 1000  # of operations that were called
MAX_PRINTED = 10_000  # characters of an answer's output that are kept and shown


@dataclass(frozen=True)
class Observation:
    """What an answer did, as plain data.

    Attributes:
        result: what it returned (Other where that is not plain data); None when it raised.
        raised: None, or {"types": names of the exception's classes, the most special one first, "message": str,
            "frames": [[line number, function, source line], ...] of the learner's own code, outermost first,
            "stumbled": of a scenario, whether its own code was running, which went on from what the answer gave}.
        arguments: the arguments after the call, by the answer's own parameter names. They share storages with `result`
            exactly where the originals do.
        tracked: whether the result (or a tensor in it) requires grad.
        gradients: for every argument that requires grad its gradient, for the incoming gradient `incoming_gradient`;
            None where no gradient arrived. Empty when the result is not tracked or no argument requires grad.
        backward_raised: like `raised`, for the backward pass.
        ops: recorded operations, see `torchkata.verdicts.recording.Recorder`; none where these are not recorded.
        behind: names of the ATen operations that the tensors in the result, arguments and gradients come from.
        called: names of operations that were called and taken apart before they were recorded.
        lost: what happened out of the recorder's sight, in words.
        replaced: of a scenario, what it found replaced in torch, and put back.
        warned: [[category, message], ...].
        printed: what was printed, cut to 10,000 characters.
        seconds: how long the call took.
    """

    result: object = None
    raised: dict | None = None
    arguments: dict = field(default_factory=dict)
    tracked: bool = False
    gradients: dict = field(default_factory=dict)
    backward_raised: dict | None = None
    ops: list = field(default_factory=list)
    behind: list = field(default_factory=list)
    called: list = field(default_factory=list)
    lost: list = field(default_factory=list)
    replaced: list = field(default_factory=list)
    warned: list = field(default_factory=list)
    printed: str = ""
    seconds: float = 0.0

    def as_plain(self) -> dict:
        """The observation as a dict of plain data (not a copy)."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass
class _Call:
    """One call being observed: the bound arguments and what is noted on the way."""

    function: Callable
    args: list
    kwargs: dict
    hidden_file: str | None = None  # frames of this file are the check's own, not the learner's
    recorded: bool = True  # whether each operation is noted, which takes several times as long as most operations
    watched: bool = True  # whether what the recorder can't see is noted too


def run_answer(answer: object, args: tuple, kwargs: dict, recorded: bool = True) -> Observation:
    """Call an answer with copies of the arguments and note what happens (operations if `recorded`)."""
    own_args, own_kwargs = Copier().copy([list(args), kwargs])
    return run_answer_on(answer, own_args, own_kwargs, recorded)


def run_answer_on(answer: object, args: list, kwargs: dict, recorded: bool) -> Observation:
    """Call an answer with these very arguments, which nobody else holds, and note what happens."""
    if not callable(answer):
        return Observation(raised=_not_callable(answer))
    return _observe(_Call(answer, args, kwargs, recorded=recorded))


def run_scenario(scenario: FunctionType, args: tuple, recorded: bool) -> Observation:
    """Call a scenario with answers and copies of plain arguments and note what happens (operations if `recorded`)."""
    copier = Copier()
    copies = [arg if is_answer(arg) else copier.copy(arg) for arg in args]
    file = scenario.__code__.co_filename
    put_back_what_shows()  # the answers were called before
    watched = recorded and not lifts_modes(scenario)
    with found_by_the_compiler(scenario):
        noted = _observe(_Call(scenario, copies, {}, hidden_file=file, recorded=recorded, watched=watched))
    return replace(noted, replaced=put_back_what_shows())


def note_value(value: object) -> Observation:
    """An answer that is a value, not a function: note a copy of it, with NumPy's numbers as Python's."""
    return Observation(result=Copier().copy(_without_numpy(value)))


def _without_numpy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_numpy(one) for key, one in value.items()}
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def incoming_gradient(result: Tensor) -> Tensor:
    """The gradient that every observed backward pass starts from: fixed by the result's shape, without zeros, equal
    values or symmetry, so that a backward pass that ignores it can't hide. Shape and dtype of `result`."""
    values = _incoming_values(result.numel()).reshape(result.shape)
    return values.to(device=result.device, dtype=result.dtype, copy=True)  # a backward pass may write into it


@lru_cache(maxsize=64)
def _incoming_values(count: int) -> Tensor:
    k = torch.arange(count, dtype=torch.float64, device="cpu")
    return ((k * 37 % 101) / 101 + 0.3) * (1 - 2 * (k % 3 == 1).double())


def is_answer(value: object) -> bool:
    """Whether an argument of a scenario is an answer (a function or class), not plain data."""
    return callable(value) and not isinstance(value, torch.dtype)


def _not_callable(answer: object) -> dict:
    message = f"the answer is no function or class any more; its type is {type(answer).__name__}"
    return {"types": ["TypeError", "Exception"], "message": message, "frames": [], "stumbled": False}


def _observe(call: _Call) -> Observation:
    names = _names_of(call)
    tensors = {n: v for n, v in names.items() if isinstance(v, Tensor) and v.layout == torch.strided}
    sight = Sight() if call.watched and torch.autograd.kineto_available() else Unwatched()
    recorder = Recorder(tensors, sight) if call.recorded else Unrecorded()
    noted: dict = {}
    output = _Tee(sys.stdout)
    printing = contextlib.redirect_stdout(output)
    with clean_state(), every_warning() as caught, printing, recorder.sight.watching():
        start = time.perf_counter()
        with recorder.recording("forward"):
            result, noted["raised"] = _attempt(
                lambda: taken(call.function(*call.args, **call.kwargs)), call.hidden_file
            )
        noted["seconds"] = time.perf_counter() - start
        if noted["raised"] is None:
            noted |= _backward(result, tensors, recorder)
    copied = Copier().copy([result, names, noted.get("gradients", {})])
    return Observation(
        **noted | {"result": copied[0], "arguments": copied[1], "gradients": copied[2]},
        tracked=any(t.requires_grad for t in tensors_in(result)),
        ops=recorder.ops,
        behind=recorder.behind([result, names, noted.get("gradients", {})]),
        called=recorder.sight.called[:MAX_NAMES],
        lost=recorder.sight.lost[:MAX_NAMES],
        warned=[[w.category.__name__, str(w.message)] for w in caught],
        printed=output.kept(),
    )


def _names_of(call: _Call) -> dict[str, object]:
    """The plain arguments in the order of the call, by the callee's own parameter names where it has a signature."""
    own = _positional_parameters(call.function)
    numbered = [f"argument {i}" for i in range(1, len(call.args) + 1)]
    named = dict(zip(own[: len(call.args)] + numbered[len(own) :], call.args, strict=True)) | call.kwargs
    return {name: value for name, value in named.items() if not is_answer(value)}


def _positional_parameters(function: Callable) -> list[str]:
    if type(function) is FunctionType and not vars(function):  # inspect takes longer than most answers
        return list(function.__code__.co_varnames[: function.__code__.co_argcount])
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _attempt(action: Callable, hidden_file: str | None) -> tuple[Any, dict | None]:
    try:
        return action(), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: an answer must not end the notebook
        return None, describe_error(error, hidden_file)


def describe_error(error: BaseException, hidden_file: str | None) -> dict:
    """An exception as plain data, with the frames of the learner's own code only."""
    if isinstance(error, RankError):
        return _describe_rank_error(error, hidden_file)
    frames, stumbled = [], False
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if hidden_file and code.co_filename == hidden_file:
            stumbled = True
        elif frame.f_globals.get("__name__") == "__main__":
            stumbled = False
            source = linecache.getline(code.co_filename, line).strip()
            frames.append([line, code.co_name, source])
    types = [t.__name__ for t in type(error).__mro__ if issubclass(t, BaseException)]
    message = _message(error)
    stumbled = stumbled and isinstance(error, OF_ANOTHER_KIND) and not CALLED_OTHERWISE.search(message)
    return {"types": types, "message": message, "frames": frames[-5:], "stumbled": stumbled}


def _describe_rank_error(error: RankError, hidden_file: str | None) -> dict:
    """What was raised on a rank, as if it had been raised here."""
    frames = [[frame.line, frame.function, frame.source] for frame in error.frames if frame.file != hidden_file]
    of_one = error.told and not isinstance(error, RanksHang)  # a hang is of all ranks, and names them
    message = f"{error.told} (on rank {error.rank})" if of_one else error.told
    return {"types": error.types, "message": message, "frames": frames[-5:], "stumbled": False}


def _message(error: BaseException) -> str:
    try:
        return COLOURS.sub("", str(error))
    except Exception:  # an exception of the learner's own
        return "its message can't be read"


def _backward(result: object, tensors: dict[str, Tensor], recorder: Recorder | Unrecorded) -> dict:
    outputs = [t for t in tensors_in(result) if t.requires_grad and t.dtype.is_floating_point]
    inputs = {name: t for name, t in tensors.items() if t.requires_grad and t.is_leaf}
    if not outputs or not inputs:
        return {}

    def gradients() -> tuple:
        with recorder.sight.known():
            incoming = [incoming_gradient(t) for t in outputs]
        with recorder.recording("backward"):
            return torch.autograd.grad(outputs, list(inputs.values()), incoming, allow_unused=True)

    grads, raised = _attempt(gradients, None)
    if raised:
        return {"backward_raised": raised}
    return {"gradients": dict(zip(inputs, grads, strict=True))}


class _Tee(io.TextIOBase):
    """Passes the first characters on to the notebook, and keeps them."""

    def __init__(self, target: TextIO):
        self._target, self._length = target, 0
        self._kept: list[str] = []

    def write(self, text: str) -> int:
        room = MAX_PRINTED - self._length
        if room > 0:
            part = text[:room]
            self._kept.append(part)
            self._length += len(part)
            self._target.write(part)
            if self._length >= MAX_PRINTED:
                self._target.write("\n... (more output is not shown)\n")
        return len(text)

    def flush(self) -> None:
        self._target.flush()

    def kept(self) -> str:
        return "".join(self._kept)
