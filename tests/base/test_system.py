"""How a process ended, in words; the cores that can be used."""

from __future__ import annotations

import os

import pytest

from torchkata.base.system import how_it_ended, usable_cores


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize(
    "code, words",
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL"), (-77, "signal 77"), (None, "exit code None")],
)
def test_how_it_ended(code: int | None, words: str):
    assert how_it_ended(code) == words


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen so on Linux alone")
def test_cores_that_are_taken_away_are_not_usable():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)
