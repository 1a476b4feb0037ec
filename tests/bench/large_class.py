"""A large class, graded as a teacher does it: prints figures, and ends with an error where a mark is not right.

    python -m tests.bench.large_class [SUBMISSIONS [JOBS]]           default: 2000, one job a core
    python -m tests.bench.large_class [SUBMISSIONS] --cluster        on a Dask cluster of four workers here

Method. The class of `tests.bench.grading` hands in chapter 03. `torchkata grade` grades it and is interrupted at half,
as by Ctrl + C; the same command goes on. On the cluster nothing is interrupted; at a third one worker is killed, at two
thirds another one joins. Meanwhile a line every few seconds: how many are done, how long the others will take, private
memory (USS) of the command's main process. It must not grow with the class: what it was at a quarter of the run is
printed beside what it was at the end. Then all is looked at: each student has a record, a row in the gradebook with the
same points and a page that names them; all-right ones have full marks, untouched ones none, equal ones equal ones.

2,000 submissions are about 250 seconds of CPU: where others work too, put `nice` before the command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console

from tests.bench.grading import CHAPTER, MIB, course, scores
from tests.tools.grading.test_cluster import Machines
from torchkata.base.system import usable_cores
from torchkata.tools.course import Chapter
from torchkata.tools.grading.batch import students_of
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import Record

WORKERS = 4
LOOK, TELL = 0.5, 5.0  # seconds between two looks, and two lines
out = Console(soft_wrap=True)


@dataclass
class Watched:
    """A run of the command, and what was seen of it: (seconds, submissions done, bytes of its main process)."""

    chapter: Chapter
    options: list[str]
    seen: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def records(self) -> Path:
        return self.chapter.root / "graded" / self.chapter.name / "records"

    def done(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return sum(entry.name.endswith(".json") for entry in os.scandir(self.records))
        return 0

    def run(self, total: int, turns: list[tuple[int, Callable[[subprocess.Popen], object]]]) -> int:
        """Run it to its end; each turn is taken when so many are done. Returns the exit code."""
        command = [sys.executable, "-m", "torchkata", "grade", self.chapter.name, *self.options]
        with open(self.chapter.root / "said.txt", "a") as said:
            process = subprocess.Popen(command, cwd=self.chapter.root, stdout=said, stderr=said, start_new_session=True)
        began, told, first = time.monotonic(), 0.0, (0.0, self.done())  # when the first new one was there
        while process.poll() is None:
            done, now = self.done(), time.monotonic() - began
            with contextlib.suppress(psutil.Error):
                self.seen.append((now, done, psutil.Process(process.pid).memory_full_info().uss))
            if first[0] == 0.0 and done > first[1]:
                first = now, done
            if turns and done >= turns[0][0]:
                turns.pop(0)[1](process)
            if now - told >= TELL and self.seen:
                told = now
                rate = (done - first[1]) / max(now - first[0], LOOK)
                left = f"{(total - done) / rate:.0f} s left" if first[0] and rate else "no estimate yet"
                out.print(f"{now:5.0f} s: {done} of {total}, {left}, {self.seen[-1][2] / MIB:.0f} MiB")
            time.sleep(LOOK)
        return process.returncode


def interrupt(process: subprocess.Popen) -> None:
    out.print("interrupted")
    os.killpg(process.pid, signal.SIGINT)


def here(chapter: Chapter, total: int, jobs: int) -> list[Watched]:
    """Graded on this machine, in two runs."""
    runs = [Watched(chapter, ["--jobs", str(jobs)]) for _ in range(2)]
    runs[0].run(total, [(total // 2, interrupt)])
    kept = runs[0].done()
    assert total // 2 <= kept < total, f"{kept} of {total} were graded when it was interrupted"
    assert runs[1].run(total, []) == 0, said(chapter)
    assert f"{kept} before and unchanged" in said(chapter), said(chapter)
    return runs


@contextlib.contextmanager
def cluster() -> Iterator[Machines]:
    with tempfile.TemporaryDirectory() as folder:
        machines = Machines(Path(folder))
        try:
            machines.start_workers(WORKERS)
            yield machines
        finally:
            machines.end()


def on_cluster(chapter: Chapter, total: int) -> list[Watched]:
    """Graded by workers, of which one is killed and another one joins."""
    with cluster() as machines:

        def kill(process: subprocess.Popen) -> None:
            out.print("a worker is killed")
            machines.workers[0].kill()
            machines.workers[0].wait()

        def join(process: subprocess.Popen) -> None:
            machines.start_workers(WORKERS)
            out.print("another one has joined")

        run = Watched(chapter, ["--scheduler", machines.address])
        assert run.run(total, [(total // 3, kill), (2 * total // 3, join)]) == 0, said(chapter)
    return [run]


def said(chapter: Chapter) -> str:
    return (chapter.root / "said.txt").read_text()[-3000:]


def look_at_marks(chapter: Chapter, total: int) -> None:
    """Raises AssertionError where something is missing or not right."""
    records = [one for one in Results(chapter.root / "graded" / chapter.name).all() if isinstance(one, Record)]
    assert [one.student for one in records] == students_of(chapter) and len(records) == total
    assert scores(chapter) == {one.student: one.points for one in records}
    alike: dict[str, set[float]] = defaultdict(set)
    for one in records:
        alike[one.digest].add(one.points)
        kind = one.student.partition("-")[2]
        assert one.points == {"right": one.of, "untouched": 0.0}.get(kind, one.points), one
        page = chapter.root / "feedback" / one.student / chapter.name / f"{chapter.topic}.html"
        assert f"{one.points:g} of {one.of:g}" in page.read_text(encoding="utf-8"), page
    assert all(len(points) == 1 for points in alike.values()), "equal submissions, other marks"
    out.print(f"{total} records, rows of the gradebook and pages are right; {len(alike)} different submissions")


def report(runs: list[Watched], total: int) -> None:
    for run in runs:
        (_, before, _), (seconds, after, last) = run.seen[0], run.seen[-1]
        done = after - before
        busy = [uss for _, so_far, uss in run.seen if so_far >= before + max(done / 4, 1)] or [last]
        out.print(
            f"{done} of {total} in {seconds:.0f} s; main process {busy[0] / MIB:.0f} MiB at a quarter, "
            f"{last / MIB:.0f} MiB at the end, {max(busy) / MIB:.0f} MiB at most"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Grade a large class, interrupted or on a cluster.")
    parser.add_argument("submissions", nargs="?", type=int, default=2000)
    parser.add_argument("jobs", nargs="?", type=int, default=usable_cores())
    parser.add_argument("--cluster", action="store_true")
    given = parser.parse_args()
    total = given.submissions
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in its background ignore it
    with tempfile.TemporaryDirectory() as name:
        chapter = course(Path(name) / "class", total)
        out.print(f"{total} submissions of {CHAPTER.name}")
        runs = on_cluster(chapter, total) if given.cluster else here(chapter, total, given.jobs)
        report(runs, total)
        look_at_marks(chapter, total)


if __name__ == "__main__":
    main()
