"""One submission graded by itself, without a gradebook: for a system that hands out its own marks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.batch import pool_of
from torchkata.tools.grading.chapter import read_release
from torchkata.tools.grading.grader import OpenGrader
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import NotGradable, Record


def grade_single(chapter: Chapter, submitted: Path, open_grader: OpenGrader) -> Record | NotGradable:
    """Grade a notebook, or the folder or the archive that it was handed in with, in a process of its own.

    Raises CourseError where there is nothing at this path, or where the grader can't be opened.
    """
    with _folder_of(submitted) as folder:
        submission = read_submission(folder, submitted.stem, chapter, read_release(chapter))
    if isinstance(submission, NotGradable):
        return submission
    with pool_of(open_grader, 1, None)() as pool:
        [(_, result)] = pool.grade([submission])
    return result


@contextmanager
def _folder_of(submitted: Path) -> Iterator[Path]:
    """A folder that holds what was submitted and nothing else."""
    if submitted.is_dir():
        yield submitted
        return
    if not submitted.is_file():
        raise CourseError(f"There is no notebook {submitted}.")
    with TemporaryDirectory(prefix="torchkata-") as made:
        shutil.copyfile(submitted, Path(made) / submitted.name)
        yield Path(made)
