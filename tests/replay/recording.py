"""What the check cells of a tree say of each answer: run by recorder.py, in several processes, and kept.

What is kept depends on the bytes of an exercise, of its answers and of the package, not on the tree in which they lie:
where two trees hold the same, it is run once.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue

from tests.replay.trees import CannotReplay, Exercise

RECORDER = Path(__file__).with_name("recorder.py")
Outcomes = dict[str, list[dict]]  # by answer, what each check cell said: see recorder.py


class Tree:
    """A tree whose package runs exercises."""

    def __init__(self, root: Path, kept: Path):
        self.root = root
        self._kept = kept

    @cached_property
    def _digest(self) -> str:
        """Of all that a check cell's outcome depends on beside the cell: the package without the tools, which nothing
        that runs in a notebook imports; this recorder; Python and torch."""
        package = self.root / "src" / "torchkata"
        found = hashlib.sha256(f"{sys.version}, torch {version('torch')}".encode())
        for path in (RECORDER, *sorted(package.rglob("*"))):
            inside = path.relative_to(package).parts if path != RECORDER else (path.name,)
            if path.is_file() and "__pycache__" not in inside and inside[0] != "tools":
                found.update("/".join(inside).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        return found.hexdigest()

    def file_for(self, exercise: Exercise) -> Path:
        """Where the outcomes of an exercise are kept."""
        key = json.dumps([self._digest, asdict(exercise)])
        return self._kept / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


class Recorder:
    """A process that runs the exercises of a tree, in a folder of its own."""

    def __init__(self, tree: Tree, folder: Path):
        self.tree = tree
        self._errors = folder / f"errors-{id(self)}.txt"
        paths = os.pathsep.join([str(tree.root / "src"), str(tree.root)])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, RECORDER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=environment,
                text=True,
                encoding="utf-8",
            )

    def outcomes(self, exercise: Exercise) -> Outcomes:
        """What the check cells say of each answer. Raises CannotReplay where Python ends in the middle of it."""
        assert self._process.stdin and self._process.stdout
        line = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asdict(exercise)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            said = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            ended = f"{exercise.title} in {self.tree.root}: Python ended with code {self._process.wait()}"
            raise CannotReplay("\n".join([ended, *said]))
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def record(
    wanted: Iterable[tuple[Tree, Exercise]], workers: int, folder: Path, tell: Callable[[], object]
) -> list[Outcomes]:
    """The outcomes of each exercise in its tree, in that order; what is kept already does not run.

    folder: for the processes' own files; tell: called whenever an exercise is done. Raises CannotReplay.
    """
    wanted = list(wanted)
    idle: SimpleQueue[Recorder] = SimpleQueue()

    def one(tree: Tree, exercise: Exercise) -> Outcomes:
        path = tree.file_for(exercise)
        if not path.exists():
            recorder = _recorder_for(tree, idle, folder)
            try:
                _keep(path, recorder.outcomes(exercise))
            finally:
                idle.put(recorder)
        tell()
        return json.loads(path.read_text(encoding="utf-8"))

    try:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, *zip(*wanted, strict=True))) if wanted else []
    finally:
        while not idle.empty():
            idle.get().end()


def _recorder_for(tree: Tree, idle: SimpleQueue[Recorder], folder: Path) -> Recorder:
    """One that waits for work; where it is the other tree's, a new one in its place."""
    with suppress(Empty):
        recorder = idle.get_nowait()
        if recorder.tree is tree:
            return recorder
        recorder.end()
    return Recorder(tree, folder)


def _keep(path: Path, outcomes: Outcomes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(outcomes), encoding="utf-8")
    unfinished.replace(path)
