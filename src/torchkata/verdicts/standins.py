"""Stand-ins: what a check cell gets in place of an answer when the answer runs in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torchkata.verdicts.observing import Observation


class Channel(Protocol):
    """The way to the process in which answers run. Arguments and observations are plain data."""

    def observe(self, name: str, args: list, kwargs: dict, recorded: bool) -> Observation:
        """What the answer of that name does when it is called, its operations if `recorded`."""

    def scenario(self, scenario: Callable, args: tuple, recorded: bool) -> Observation:
        """What a scenario notes, its operations if `recorded`; among its arguments are stand-ins."""

    def value(self, name: str) -> Observation:
        """The answer of that name, a value."""


class StandIn:
    """Bears an answer's name on the judging side; only `observe` and its kin can do something with it."""

    def __init__(self, name: str, channel: Channel):
        self.__name__ = name
        self.channel = channel

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise TypeError(f"{self.__name__} runs in another process: hand it to observe or observe_scenario")


def channel_of(args: tuple) -> Channel | None:
    """The channel of the first stand-in among the arguments of a scenario, or None."""
    return next((arg.channel for arg in args if isinstance(arg, StandIn)), None)
