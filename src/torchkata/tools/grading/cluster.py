"""Graders on other machines: the workers of a Dask cluster get submissions as JSON and send back marks as JSON."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING

from torchkata.tools.errors import CourseError
from torchkata.tools.grading import cluster_worker
from torchkata.tools.grading.chapter import grader_digest
from torchkata.tools.grading.grader import OpenGrader
from torchkata.tools.grading.records import NotGradable, Record, Submission

if TYPE_CHECKING:
    from dask.typing import Key
    from distributed import Future

IN_FLIGHT = 1000  # submissions that the cluster has at a time
CONNECT = 10  # seconds
KILLED = "The grader failed: each worker that had it ended without a result. Run the command again."
SILENCE = 30.0  # seconds without a result, after which we look whether workers are left


class Cluster:
    """The workers of a Dask cluster, each with its own grader; used like `Pool`.

    Nothing of the course lies on the workers' machines: the chapter travels with `open_grader`. A submission whose
    worker ends is graded by another one; when several workers have ended with it, once more, alone.
    """

    def __init__(self, open_grader: OpenGrader, address: str):
        self.address = address
        self._opening = pickle.dumps(open_grader)
        self._running: dict[Key, tuple[Submission, Future]] = {}
        self._done: SimpleQueue[Future] = SimpleQueue()
        self._suspects: list[Submission] = []

    def __enter__(self) -> Cluster:
        self._distributed = _distributed()
        try:
            self._client = self._distributed.Client(self.address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise CourseError(f"No Dask scheduler answers at {self.address}: {error}") from None
        try:
            self._need_workers()
            self._chapter = self._client.submit(bytes, self._opening, key=f"chapter-{self._token}")
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(Exception):  # the cluster may have gone; what is open there ends with its processes
            self._client.cancel([future for _, future in self._running.values()])
            self._client.run(cluster_worker.close, self._token, on_error="ignore")
        self._client.close()

    def grade(self, submissions: Iterable[Submission]) -> Iterator[tuple[Submission, Record | NotGradable]]:
        """Grade submissions; yields each with its result, in the order in which they are done.

        Raises CourseError where the scheduler or all workers are gone, or a worker can't grade at all.
        """
        for submission in submissions:
            self._send(submission)
            while len(self._running) >= IN_FLIGHT or not self._done.empty():
                yield from self._next()
        while self._running:
            yield from self._next()
        for submission in self._suspects:  # Dask suspects all that a worker had when it ended: now each alone
            self._send(submission)
            yield from self._next(alone=True)

    @property
    def _token(self) -> str:
        return hashlib.sha256(self._opening).hexdigest()

    def _send(self, submission: Submission) -> None:
        future = self._client.submit(
            cluster_worker.grade, self._chapter, self._token, grader_digest(), submission.to_json(), pure=False
        )
        self._running[future.key] = submission, future
        future.add_done_callback(self._done.put)

    def _next(self, alone: bool = False) -> Iterator[tuple[Submission, Record | NotGradable]]:
        future = self._wait()
        submission, _ = self._running.pop(future.key)
        try:
            reply = json.loads(future.result())
        except self._distributed.KilledWorker:
            if not alone:
                self._suspects.append(submission)
                return
            reply = {"refused": KILLED}
        except Exception as error:
            raise CourseError(f"{self._gone} {type(error).__name__}: {error}") from None
        if "closed" in reply:
            raise CourseError(f"A worker of the cluster can't grade. {reply['closed']}")
        yield submission, _result(submission, reply)

    def _wait(self) -> Future:
        """A future that is done."""
        while True:
            try:
                return self._done.get(timeout=SILENCE)
            except Empty:
                self._need_workers()

    def _need_workers(self) -> None:
        try:
            workers = self._client.nthreads()
        except Exception as error:  # the connection is lost
            raise CourseError(f"{self._gone} {type(error).__name__}") from None
        if not workers:
            raise CourseError(f"The scheduler {self.address} has no workers. Start some: dask worker {self.address}")

    @property
    def _gone(self) -> str:
        return f"The scheduler {self.address} has gone. What was graded is kept; the same command goes on from there."


def _result(submission: Submission, reply: dict[str, str]) -> Record | NotGradable:
    if "record" in reply:
        return Record.from_json(reply["record"])
    return NotGradable(submission.student, submission.chapter, reply["refused"])


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError:
        raise CourseError("Grading on a cluster needs dask.distributed: pip install 'torchkata[cluster]'") from None
    return distributed
