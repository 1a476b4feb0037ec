"""The inside of a CellRunner: the process in which a learner's cells run, as they would in a notebook.

Requests come and replies go as lines of JSON, through pipes that the learner's code cannot take for its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import signal
import sys
import threading
import traceback
from types import FrameType, ModuleType

from torchkata.base.shell import shell_of

MAX_PRINTED = 100_000  # characters of a cell's output that are kept
MAX_TEXT = 2_000  # characters of an error's message


def main() -> None:
    """Run cells until nobody asks any more."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    _silence()
    sys.path.insert(0, "")  # a notebook imports from its own folder
    os.environ.setdefault("MPLBACKEND", "agg")
    waiting: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    with contextlib.suppress(ImportError):  # while the other process still reads notebooks
        import torch  # noqa: F401
    cells = Cells()
    while True:
        reply = cells.run(waiting.get())
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _silence() -> None:
    """What is written past Python goes nowhere; nothing can be read."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _listen(requests: io.TextIOBase, waiting: queue.Queue[str]) -> None:
    for line in requests:
        waiting.put(json.loads(line))
    os._exit(0)  # the command has ended, perhaps in the middle of a cell


class Cells:
    """The cells' namespace, and a shell that runs a cell with its magics and its `await`."""

    def __init__(self) -> None:
        self._shell = shell_of(ModuleType("__main__"))
        self._running = False
        signal.signal(signal.SIGINT, self._interrupt)

    def run(self, source: str) -> dict:
        """Run a cell. What it printed, the number on its last line if there is one, and its error if it raised."""
        out = _Printed()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            self._running = True
            try:
                result = self._shell.run_as_kernels_do(source)
                error = result.error_before_exec or result.error_in_exec
                value = result.result
            except BaseException as raised:  # an interrupt between two lines of the shell's own
                error, value = raised, None
            finally:
                self._running = False
        with contextlib.suppress(ValueError):  # a learner's code can close even this
            return _reply(out.getvalue(), value, error)
        return _reply("", value, error)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._running:
            raise KeyboardInterrupt


class _Printed(io.StringIO):
    """What cells print; it has a number, as a kernel's output has, for what writes past Python: that goes nowhere."""

    def fileno(self) -> int:
        return 1


def _reply(printed: str, value: object, error: BaseException | None) -> dict:
    number = float(value) if isinstance(value, (int, float)) and type(value) is not bool else None
    return {"printed": printed[:MAX_PRINTED], "number": number, "error": error and _described(error)}


def _described(error: BaseException) -> dict:
    """An error's name, message, and lines as a notebook would show them: of a verdict its own."""
    try:
        message = str(error)[:MAX_TEXT]
        told = getattr(error, "lines", None) or traceback.format_exception_only(error)
        lines = [str(line).rstrip() for line in told] + _places(error)
    except Exception:  # an exception of the learner's own
        message, lines = "its message can't be read", []
    return {"name": type(error).__name__, "message": message, "lines": [line[:MAX_TEXT] for line in lines]}


def _places(error: BaseException) -> list[str]:
    """The lines of cells that an error went through; a verdict tells its own."""
    if hasattr(error, "lines"):
        return []
    found = traceback.extract_tb(error.__traceback__)
    return [f"  line {at.lineno}, in {at.name}: {at.line}" for at in found if at.filename.startswith("<ipython")]


if __name__ == "__main__":
    main()
