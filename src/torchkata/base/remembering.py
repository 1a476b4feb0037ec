"""Verdicts remembered: in a learner's workbook the last verdict of each check cell is kept, so that progress shows
without running anything.

A workbook is a folder that holds `.torchkata`. Elsewhere (under nbgrader, in tests) nothing is kept.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from torchkata.base.layout import plain
from torchkata.base.places import KEPT, links_in
from torchkata.base.writing import write_whole

STATES = ("solved", "wrong", "open")


@dataclass(frozen=True)
class Remembered:
    """The last verdict of one check cell. state: "solved", "wrong" or "open" (not solved yet); line: its sentence.

    points: what was earned where the check gives a share of the points, else None. hidden: whether hidden tests ran.
    when: ISO 8601, UTC.
    """

    exercise: str
    digest: str
    state: str
    line: str = ""
    points: float | None = None
    hidden: bool = False
    when: str = ""


def digest_of(check: str) -> str:
    """What tells check cells apart: twelve hexadecimal digits from the source as it is released."""
    return hashlib.sha256(plain(check).encode()).hexdigest()[:12]


def remember(workbook: Path, verdict: Remembered) -> None:
    """Keep a verdict, with the time. A workbook that cannot be written is passed over: the verdict has been shown, and
    JupyterLab tells of the disk when it saves."""
    folder = workbook / KEPT / "verdicts"
    path = folder / f"{verdict.exercise}-{verdict.digest}.json"
    if not _are_names(verdict.exercise, verdict.digest) or next(links_in(workbook), None):
        return
    noted = asdict(verdict) | {"when": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        folder.mkdir(exist_ok=True)
        write_whole(path, json.dumps(noted))
    except (OSError, ValueError):
        return


def read_verdicts(workbook: Path) -> dict[tuple[str, str], Remembered]:
    """The verdicts kept in a workbook by (exercise, digest); a damaged file counts as none."""
    found = (_read(path) for path in sorted((workbook / KEPT / "verdicts").glob("*.json")))
    return {(verdict.exercise, verdict.digest): verdict for verdict in found if verdict}


def read_verdict(workbook: Path, exercise: str, digest: str) -> Remembered | None:
    """The verdict kept on one check cell, or None."""
    return _read(workbook / KEPT / "verdicts" / f"{exercise}-{digest}.json")


def earned(verdict: Remembered | None, full: float) -> float:
    """The points that a remembered verdict is worth, of so many."""
    if verdict is None or verdict.state != "solved":
        return 0.0
    return full if verdict.points is None else min(max(verdict.points, 0.0), full)


def forget(workbook: Path, exercise: str) -> None:
    """Drop the verdicts on an exercise. Raises OSError."""
    for path in (workbook / KEPT / "verdicts").glob(f"{glob.escape(exercise)}-*.json"):
        if path.stem.rpartition("-")[0] == exercise:
            path.unlink(missing_ok=True)


# ------------------------------------------------ checks that were begun and not ended


def begin(workbook: Path, exercise: str, digest: str) -> None:
    """Note that this process begins a check: where no end is noted, Python ended in the middle of it."""
    with suppress(OSError):
        if not next(links_in(workbook), None):
            write_whole(_running(workbook, os.getpid()), json.dumps([exercise, digest, _born(os.getpid())]))


def end(workbook: Path, process: int | None = None) -> None:
    """Drop the note of this process, or of another one."""
    with suppress(OSError):
        _running(workbook, process or os.getpid()).unlink(missing_ok=True)


def died(workbook: Path) -> list[str]:
    """The exercises in whose check a process ended that is no more. They count as wrong; their notes are dropped."""
    found = []
    for path in sorted((workbook / KEPT / "running").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            exercise, digest, born = json.loads(path.read_text(encoding="utf-8"))
            if born == _born(int(path.stem)):
                continue  # it is still at it
            if _are_names(exercise, digest):  # somebody else may have written the note
                found.append(exercise)
                remember(workbook, Remembered(exercise, digest, "wrong", "Python ended during this check."))
        with suppress(OSError):
            path.unlink(missing_ok=True)
    return found


def _are_names(*words: object) -> bool:
    """Whether these can be a part of a file's name, and lead nowhere else."""
    return all(isinstance(word, str) and re.fullmatch(r"[\w-]{1,100}", word) for word in words)


def _running(workbook: Path, process: int) -> Path:
    return workbook / KEPT / "running" / f"{process}.json"


def _born(process: int) -> float | None:
    """When a process was started; None where there is none: its number may have gone to another one since."""
    import psutil

    try:
        return psutil.Process(process).create_time()
    except psutil.Error:
        return None


def _read(path: Path) -> Remembered | None:
    try:
        noted = Remembered(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    texts = (noted.exercise, noted.digest, noted.line, noted.when)
    share = noted.points is None or (isinstance(noted.points, (int, float)) and math.isfinite(noted.points))
    return noted if noted.state in STATES and share and all(isinstance(text, str) for text in texts) else None
