"""What runs in the process of a Dask worker: a pool of one process that judges, opened at the first submission of a
chapter. So the limits are those that hold on one machine, and what a submission ends is that process."""

from __future__ import annotations

import atexit
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import grader_digest
from torchkata.tools.grading.judge import start_program
from torchkata.tools.grading.pool import Pool
from torchkata.tools.grading.records import Record, Submission

PATIENCE = 900.0  # seconds for one submission, when its own limits have not ended it

# The pool belongs to this one thread: a worker grades one submission at a time.
_thread = ThreadPoolExecutor(1, "torchkata-grader")


class _OpenedPool:
    """The pool of one chapter; another chapter's takes its place."""

    def __init__(self) -> None:
        self.token = ""
        self.pool: Pool | None = None
        self._open = ExitStack()

    def open(self, opening: bytes, token: str) -> Pool:
        if self.token != token or self.pool is None:
            self.close()
            self.pool, self.token = Pool(pickle.loads(opening), 1, PATIENCE, start_program), token
            self._open.enter_context(self.pool)
        return self.pool

    def close(self) -> None:
        self.pool = None
        self._open.close()


_opened = _OpenedPool()


def grade(opening: bytes, token: str, digest: str, submission: str) -> str:
    """Grade a submission (JSON). Returns JSON: {"record": the record's JSON}, {"refused": why this submission could not
    be graded} or {"closed": why this worker can't grade}.

    Args:
        opening: the pickled `OpenGrader` of the chapter, from the one who owns the cluster; `token` stands for it.
        digest: of the code that grades, there: marks must not depend on the machine.
    """
    if digest != grader_digest():
        return json.dumps({"closed": "It has another version of torchkata or torch than this machine."})
    return json.dumps(_thread.submit(_grade, opening, token, Submission.from_json(submission)).result())


def close(token: str) -> None:
    """Close the pool that the token stands for, when it is through with what it has. Does not wait."""
    _thread.submit(lambda: _opened.close() if _opened.token == token else None)


def _grade(opening: bytes, token: str, submission: Submission) -> dict[str, str]:
    try:
        [(_, result)] = _opened.open(opening, token).grade([submission])
    except CourseError as error:
        _opened.close()
        return {"closed": str(error)}
    return {"record": result.to_json()} if isinstance(result, Record) else {"refused": result.reason}


atexit.register(_opened.close)
