"""What a chapter wants to hold while a check runs and an answer is observed, but not in a learner's own cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

_chosen: dict[Callable[[], AbstractContextManager], None] = {}


def hold_in_checks(context: Callable[[], AbstractContextManager]) -> None:
    """From now on, enter this context for each check and each observation, which may stand in one another."""
    _chosen[context] = None


@contextmanager
def surroundings() -> Iterator[None]:
    """All that was chosen holds inside."""
    with ExitStack() as all_of_them:
        for context in _chosen:
            all_of_them.enter_context(context())
        yield
