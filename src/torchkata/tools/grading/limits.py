"""What a submission may use."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits on one submission.

    Attributes:
        start_seconds: for loading torch and running the chapter's setup cell, once for a sandbox.
        exercise_seconds: for an answer and its check cells together; for each of the learner's own cells.
        submission_seconds: for everything together.
        memory: bytes that each process may map in addition to what is loaded.
        processes: processes and threads at a time; onnxruntime and gloo start some for each core.
        disk: bytes in each of the two places that can be written to, /tmp and /dev/shm; and of one file.
        open_files: open files of each process.
        frame: bytes of one message on the boundary.
        losses: how often a process is replaced by a fresh one.
    """

    start_seconds: float = 120.0
    exercise_seconds: float = 30.0
    submission_seconds: float = 120.0
    memory: int = 2048 * MIB
    processes: int = 128
    disk: int = 64 * MIB
    open_files: int = 256
    frame: int = 64 * MIB
    losses: int = 12
