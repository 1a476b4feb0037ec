"""Which answers earn full points? A process that has loaded torch tries each of them in a fork of its own.

    python -m torchkata.tools.mutant_worker

It reads one order as a line of JSON: the chapter's setup cell, and exercises, each with its check cells and their
points, and answers of which the first is the solution. For each answer it writes a line: null where it earns full
points, else what it ended with. A fork has the time and the memory that judging may take, less time where the solution
needs little.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from ctypes import c_char

from torchkata.tools.grading import watchdog
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.learning.cell_worker import Cells
from torchkata.verdicts.raised import WrongAnswer

LEAST_SECONDS = 1.0  # CPU time for any answer
FACTOR = 6.0  # how much more than the solution's own another answer may take


def main() -> None:
    order = json.loads(sys.stdin.readline())
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    import torch

    torch.set_num_threads(1)  # a fork has no other thread
    cells = Cells()
    if error := cells.run(order["setup"])["error"]:
        raise RuntimeError("\n".join(error["lines"]))
    for exercise in order["exercises"]:
        limits = Limits()
        for answer in exercise["answers"]:
            began = time.monotonic()
            told = _in_fork(cells, answer, exercise["checks"], limits)
            replies.write(json.dumps(told) + "\n")
            replies.flush()
            if limits == Limits():
                allowed = max(LEAST_SECONDS, FACTOR * (time.monotonic() - began))
                limits = Limits(judge_seconds=min(allowed, limits.judge_seconds), submission_seconds=allowed)


def _in_fork(cells: Cells, answer: str, checks: list, limits: Limits) -> str | None:
    """What an answer ended with in a process of its own; whatever that has started ends with it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        watchdog.keep_note((c_char * watchdog.NOTE_SIZE)())
        with watchdog.judging("", limits):
            told = tried(cells, answer, checks)
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        reply = pipe.read()
    return json.loads(reply) if reply else f"ended by {_signal(status)}"


def tried(cells: Cells, answer: str, checks: list) -> str | None:
    """None where all check cells pass with full points, else what the first other one said."""
    result = cells.run(answer)
    for source, points in checks:
        if result["error"]:
            break
        result = cells.run(source)
        if not result["error"] and (result["number"] or points) < points:
            return str(result["printed"]).strip()
    return _sentence_of(result["error"]) if result["error"] else None


def _sentence_of(error: dict) -> str:
    """Of a verdict its second line, below the name of the test; of any other exception the first."""
    lines = error["lines"][int(error["name"] == WrongAnswer.__name__) :]
    return lines[0].strip()


def _signal(status: int) -> str:
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "itself"


if __name__ == "__main__":
    main()
