"""The grader of a chapter: the referee with a sandbox, as a process of its own opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from torchkata.tools.course import Chapter
from torchkata.tools.grading.chapter import MasterChapter, need_built
from torchkata.tools.grading.records import Record, Submission
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.grading.sandbox.zygotes import BranchClient, SharedZygote

Grade = Callable[[Submission], Record]
OpenGrader = Callable[[], AbstractContextManager[Grade]]  # must be picklable: it is called in each process


@runtime_checkable
class Sharing(Protocol):
    """An OpenGrader for processes that share something which this process holds."""

    def __call__(self) -> AbstractContextManager[Grade]: ...

    def for_one_process(self) -> AbstractContextManager[OpenGrader]:
        """What the next process calls in place of this one."""
        ...


@dataclass(frozen=True)
class ChapterGrader:
    """Opens a grader of a chapter wherever it is called, without the chapter's files (an `OpenGrader`)."""

    master: MasterChapter
    sandboxed: bool
    limits: Limits
    branch: BranchClient | None = None

    @contextmanager
    def __call__(self) -> Iterator[Grade]:
        """Raises CourseError as `Sandbox` does."""
        import torch  # only the processes that grade pay for it

        from torchkata.tools.grading.referee import grade
        from torchkata.tools.grading.sandbox.session import Sandbox

        torch.set_num_threads(1)  # several of them grade side by side
        with Sandbox(self.master.setup, self.limits, self.sandboxed, self.branch) as sandbox:
            yield lambda submission: grade(submission, self.master, sandbox)


@dataclass(frozen=True)
class SharingGrader:
    """The same for processes on this machine, which share one zygote."""

    grader: ChapterGrader
    zygote: SharedZygote

    def __call__(self) -> AbstractContextManager[Grade]:
        return self.grader()

    @contextmanager
    def for_one_process(self) -> Iterator[ChapterGrader]:
        """The grader of one process, with a branch of its own. Raises CourseError as `SharedZygote.branch` does."""
        with self.zygote.branch() as branch:
            yield replace(self.grader, branch=branch)


def grader_of(chapter: Chapter, sandboxed: bool = True, limits: Limits | None = None) -> ChapterGrader:
    """The grader of a chapter. Raises CourseError where the chapter is not built."""
    need_built(chapter)
    return ChapterGrader(MasterChapter.of(chapter), sandboxed, limits or Limits())


@contextmanager
def sharing(grader: ChapterGrader) -> Iterator[SharingGrader]:
    """What all processes of this machine share begins to load, in the background."""
    with SharedZygote(grader.master.setup, grader.limits, grader.sandboxed) as zygote:
        yield SharingGrader(grader, zygote)
