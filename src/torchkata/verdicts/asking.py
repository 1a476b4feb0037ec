"""Ask: what does an answer do? Here, or through a stand-in in the process in which it runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from inspect import signature
from types import CodeType, FunctionType

from torchkata.verdicts import observing
from torchkata.verdicts.judging import Seen
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.plain import Copier
from torchkata.verdicts.recording import own_operators
from torchkata.verdicts.sight import unseen
from torchkata.verdicts.standins import StandIn, channel_of
from torchkata.verdicts.telltales import asks_for_operations


def observe(answer: object, *args: object, **kwargs: object) -> Seen:
    """Call an answer with copies of the arguments, note plain facts, and return them ready to be judged.

    Where an argument is a tensor that requires grad and the result is tracked, a backward pass runs too, from
    `incoming_gradient(result)`. Operations are recorded where the test asks for operations: that takes longer than most
    answers do.
    """
    asks = asks_for_operations(sys._getframe(1))
    asked_args, asked_kwargs = Copier().copy([list(args), kwargs])
    if isinstance(answer, StandIn):
        noted = answer.channel.observe(answer.__name__, asked_args, asked_kwargs, asks.here)
    else:
        noted = _cross(observing.run_answer(answer, args, kwargs, asks.here))
    noted = _without_own_operators(noted, sys._getframe(1).f_code)
    return Seen(getattr(answer, "__name__", "answer"), tuple(asked_args), asked_kwargs, noted, asks=asks)


def observe_scenario(scenario: FunctionType, *args: object) -> Seen:
    """Run a scenario, a function that gets answers and plain arguments and returns plain facts.

    The scenario runs beside the learner's code: it must hold no expected values, and use only names of the chapter's
    first code cell, its arguments and other functions of its check cell. Its operations are recorded as those of an
    answer are.
    """
    channel = channel_of(args)
    asks = asks_for_operations(sys._getframe(1))
    if channel:
        noted = channel.scenario(scenario, args, asks.here)
    else:
        noted = _cross(observing.run_scenario(scenario, args, asks.here))
    noted = _without_own_operators(noted, scenario.__code__)
    story = (scenario.__doc__ or "").strip().partition("\n")[0]
    named = [p.name for p in signature(scenario).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    return Seen(scenario.__name__, args, {}, noted, asks=asks, story=story, names=tuple(named))


def observe_value(answer: object) -> Seen:
    """Note an answer that is a value, such as a dict of predictions."""
    if isinstance(answer, StandIn):
        noted = answer.channel.value(answer.__name__)
    else:
        noted = _cross(observing.note_value(answer))
    return Seen("answer", (), {}, noted, is_value=True)


def _without_own_operators(noted: Observation, code: CodeType) -> Observation:
    """The observation without a complaint about operators that the check cell itself asks for."""
    if not noted.lost:
        return noted
    known = {unseen(name) for name in own_operators(code)}
    return replace(noted, lost=[what for what in noted.lost if what not in known])


def _cross(noted: Observation) -> Observation:
    """The way from the observing to the judging side. Tests replace it by a trip through bytes."""
    return noted
