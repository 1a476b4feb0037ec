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
        patience: how much later than that, as a factor, something is cut off in any case: the limits above don't count
            the time in which a process was ready to run and the machine had other things to do.
        memory: bytes that each process may map in addition to what is loaded.
        processes: processes and threads at a time; onnxruntime and gloo start some for each core.
        disk: bytes in each of the two places that can be written to, /tmp and /dev/shm; and of one file.
        files: files and folders in each of the two.
        open_files: open files of each process.
        frame: bytes of one message on the boundary; cell_frame: of the reply to a cell, which says little.
        losses: how often a process is replaced by a fresh one.
        judge_seconds: CPU time for judging one exercise, outside of the sandbox.
        judge_memory: bytes that the process that judges may map for it in addition.
        judge_total_seconds: CPU time for judging a submission; the exercises that are left then are not judged.
    """

    start_seconds: float = 120.0
    exercise_seconds: float = 30.0
    submission_seconds: float = 120.0
    patience: float = 5.0
    memory: int = 2048 * MIB
    processes: int = 128
    disk: int = 64 * MIB
    files: int = 10_000
    open_files: int = 256
    frame: int = 64 * MIB
    cell_frame: int = MIB // 16
    losses: int = 12
    judge_seconds: float = 20.0
    judge_memory: int = 1024 * MIB
    judge_total_seconds: float = 100.0

    @property
    def judge_wall_seconds(self) -> float:
        """When judging one exercise is ended in any case, waiting for the submission included."""
        return self.patience * self.submission_seconds + 10 * self.judge_seconds
