"""The grader of a chapter: the referee with a sandbox, as a process of its own opens it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torchkata.tools.course import Chapter
from torchkata.tools.grading.limits import Limits
from torchkata.tools.grading.master import MasterChapter
from torchkata.tools.grading.pool import Grade, OpenGrader
from torchkata.tools.grading.released import need_built


def grader_of(chapter: Chapter, sandboxed: bool = True, limits: Limits | None = None) -> OpenGrader:
    """Opens a grader of the chapter wherever it is called, without the chapter's files. Opening raises CourseError
    where bubblewrap is missing. Raises CourseError where the chapter is not built."""
    need_built(chapter)
    return partial(_open, MasterChapter.of(chapter), sandboxed, limits or Limits())


@contextmanager
def _open(master: MasterChapter, sandboxed: bool, limits: Limits) -> Iterator[Grade]:
    import torch  # only the processes that grade pay for it

    from torchkata.tools.grading.referee import grade
    from torchkata.tools.grading.sandbox import Sandbox

    torch.set_num_threads(1)  # several of them grade side by side
    with Sandbox(master.setup, limits, enabled=sandboxed) as sandbox:
        yield lambda submission: grade(submission, master, sandbox)
