"""What runs in the process of a Dask worker: one grader, opened at the first submission of a chapter."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from torchkata.tools.errors import CourseError
from torchkata.tools.grading.chapter import grader_digest
from torchkata.tools.grading.grader import Grade
from torchkata.tools.grading.pool import ATTEMPTS, Lost, graded
from torchkata.tools.grading.records import Submission

PATIENCE = 900.0  # seconds for one submission, when its own limits have not ended it

# The grader lives in this one thread: a process grades one submission at a time, and a sandbox ends with its thread.
_thread = ThreadPoolExecutor(1, "torchkata-grader")


class _OpenedGrader:
    """The grader of one chapter; another chapter's takes its place."""

    def __init__(self) -> None:
        self.token = ""
        self.grade: Grade | None = None
        self._open = ExitStack()

    def open(self, opening: bytes, token: str) -> Grade:
        if self.token != token or self.grade is None:
            self.close()
            self.grade, self.token = self._open.enter_context(pickle.loads(opening)()), token
        return self.grade

    def close(self) -> None:
        self.grade = None
        self._open.close()


_opened = _OpenedGrader()


def grade(opening: bytes, token: str, digest: str, submission: str) -> str:
    """Grade a submission (JSON). Returns JSON: {"record": the record's JSON}, {"failed": why this submission could not
    be graded} or {"closed": why this worker can't grade}.

    Args:
        opening: the pickled `OpenGrader` of the chapter, from the one who owns the cluster; `token` stands for it.
        digest: of the code that grades, there: marks must not depend on the machine.
    """
    if digest != grader_digest():
        return json.dumps({"closed": "It has another version of torchkata or torch than this machine."})
    return json.dumps(_thread.submit(_grade, opening, token, Submission.from_json(submission)).result())


def close(token: str) -> None:
    """Close the grader that the token stands for, when it is through with what it has. Does not wait."""
    _thread.submit(lambda: _opened.close() if _opened.token == token else None)


def _grade(opening: bytes, token: str, submission: Submission) -> dict[str, str]:
    watchdog = threading.Timer(PATIENCE, os._exit, [1])  # nothing else ends a thread; Dask starts the worker anew
    watchdog.daemon = True
    watchdog.start()
    try:
        return _patiently(opening, token, submission)
    finally:
        watchdog.cancel()


def _patiently(opening: bytes, token: str, submission: Submission) -> dict[str, str]:
    for _ in range(ATTEMPTS):
        try:
            grader = _opened.open(opening, token)
        except CourseError as error:
            return {"closed": str(error)}
        except Exception as error:
            return {"closed": f"The grader can't start. {type(error).__name__}: {error}"}
        result = graded(grader, submission)
        if not isinstance(result, Lost):
            return {"failed": result} if isinstance(result, str) else {"record": result.to_json()}
        reason = result.reason
        _opened.close()
    return {"failed": f"{reason}, {ATTEMPTS} times. Run the command again"}


atexit.register(_opened.close)
