"""Record what a chapter's CUDA demos print, for learners without a CUDA device."""

import os
import subprocess
import sys
from pathlib import Path

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError


def record(chapter: Chapter) -> list[Path]:
    """Run a chapter's source as a script, its demos recording their output. Returns the files written.

    Raises CourseError when this machine has no CUDA device, and when the script fails.
    """
    import torch

    from torchkata.hardware import RECORD, RECORDINGS

    if not torch.cuda.is_available():
        raise CourseError("This machine has no CUDA device that torch can use: nothing can be recorded here.")
    folder = RECORDINGS / chapter.name
    before = _times(folder)
    run = subprocess.run(
        [sys.executable, str(chapter.source)],
        env={**os.environ, RECORD: "1", "MPLBACKEND": "agg"},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if run.returncode:
        last_lines = "\n".join(run.stderr.strip().splitlines()[-5:])
        raise CourseError(f"{chapter.source.name} failed while its demos were recorded:\n{last_lines}")
    return [path for path, time in _times(folder).items() if before.get(path) != time]


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(folder.glob("*.json"))}
