"""How fast a class is graded: prints ratios, asserts nothing. Run it with `make bench`.

    python -m tests.bench.grading [SUBMISSIONS [OF THEM FOR NBGRADER: 8, 12, ... [ROUNDS]]]        default: 60 8 3

Method. A class hands in chapter 03: in turn all right, half right, untouched, wrong, made of the answers in
tests/answers. It is graded by `torchkata grade`, with one job and with two; a sample of equal mixture by
`nbgrader autograde`, which has one. Each is a command of its own, on whatever machine this is. They take turns, so that
what else the machine does meets all of them; medians of all rounds. CPU time is user and system time of all processes
of a command. Where other programs are at work, compare CPU times.

- each: what a submission costs without start-up: the command with the class less the command with one submission of
  each kind, by the submissions between; the same for nbgrader, whose mean is so one over all kinds.
- a class of nbgrader: its command with one submission of each kind, and as many times `each` as there are others.
- one, two: the command with a submission for each job, which is start-up as a teacher meets it.
- floor: what no grader that runs a submission in a sandboxed process can do without: open a sandboxed session, run the
  answer cells, end it (measured); and the calls of the answers, without recording or judging (measured in this
  process). Two at a time. Compared with what a submission takes, start-up excluded: of the clock, and of the time of
  each of the two jobs.
- stages: from the records: fork, cells, observe, end and judge are parts of what a job does; the rest is reading,
  gradebook, pages, waiting and, for the whole command, start-up.
- memory: private bytes (USS) of the processes while they grade, measured in a run of its own: the process that judges;
  the zygote that all jobs share; its branch for a job; a submission. The most that was seen.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import nbformat
import psutil
import torch
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from rich.console import Console
from rich.table import Table

from tests.notebooks import answers as stored
from tests.notebooks import running
from torchkata.base.places import MARK
from torchkata.tools.course import Chapter, find_chapters, read_notebook
from torchkata.tools.grading.batch import students_of
from torchkata.tools.grading.chapter import MasterChapter, read_release
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import Submission
from torchkata.tools.grading.sandbox.inside import confine
from torchkata.tools.grading.sandbox.session import Sandbox
from torchkata.tools.placing import Place, here
from torchkata.verdicts import observing
from torchkata.verdicts.plain import Copier

JOBS = 2
RUNS = 2  # for the floor; the last one counts
FLOOR_SAMPLE = 8
KINDS = ("right", "half right", "untouched", "wrong")
MIB = 2**20
[CHAPTER] = find_chapters(here(), ["03"])
out = Console()


@dataclass
class Cost:
    """Seconds of a command: on the clock, and of all its processes' CPU time."""

    wall: float
    cpu: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, count: float) -> Cost:
        return Cost(self.wall * count, self.cpu * count)

    def __truediv__(self, count: float) -> Cost:
        return self * (1 / count)


@dataclass
class Speed:
    """What a grader costs."""

    few: Cost  # its command with one submission of each kind
    each: Cost
    whole: Cost  # a class


# ---------------------------------------------------------------- the class


def class_of(count: int) -> Iterator[tuple[str, NotebookNode]]:
    """Names and notebooks of so many students."""
    released = read_notebook(CHAPTER.release)
    exercises = running.exercise_ids(CHAPTER.name)
    answers = {exercise: stored.answers_of(CHAPTER.name, exercise) for exercise in exercises}
    for number in range(count):
        notebook = nbformat.from_dict(released)
        turn, kind = divmod(number, len(KINDS))
        for place, exercise in enumerate(exercises):
            wanted = {"right": "right", "wrong": "wrong", "half right": ("right", "wrong")[place % 2]}.get(KINDS[kind])
            if fitting := [answer.source for answer in answers[exercise] if answer.kind == wanted]:
                _cell(notebook, exercise).source = fitting[turn % len(fitting)]
        yield f"s{number:05d}-{KINDS[kind].replace(' ', '-')}", notebook


def _cell(notebook: NotebookNode, exercise: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise)


def course(folder: Path, count: int) -> Chapter:
    """A course with the chapter, in which so many students have handed in."""
    folder.mkdir()
    shutil.copy(CHAPTER.root / MARK, folder)
    for path in (CHAPTER.solution, CHAPTER.release):
        shutil.copytree(path.parent, folder / path.parent.relative_to(CHAPTER.root))
    chapter = Chapter(Place(folder), CHAPTER.name)
    for student, notebook in class_of(count):
        path = folder / "submitted" / student / chapter.name / f"{chapter.topic}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return chapter


# ---------------------------------------------------------------- the commands


def cost_of(chapter: Chapter, *command: str) -> Cost:
    """Run a command in the course. Its output is shown when it fails."""
    before, start = _cpu_of_children(), time.perf_counter()
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])  # nbgrader calls alembic
    settings = {"PATH": path, "JUPYTER_CONFIG_DIR": str(chapter.root / ".jupyter")}
    done = subprocess.run(command, cwd=chapter.root, env=os.environ | settings, capture_output=True, text=True)
    wall = time.perf_counter() - start
    if done.returncode not in (0, 1):
        out.print(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    _wait_for_all_children()
    return Cost(wall, _cpu_of_children() - before)


def grade_command(*options: str, jobs: int = JOBS) -> list[str]:
    return [sys.executable, "-m", "torchkata", "grade", CHAPTER.name, "--jobs", str(jobs), "--force", *options]


def autograde_command(*options: str) -> list[str]:
    return [sys.executable, "-m", "nbgrader", "autograde", CHAPTER.name, "--force", *options]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_all_children() -> None:
    """Processes that outlive the command, such as a server of forks, count too; this process has adopted them."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def scores(chapter: Chapter) -> dict[str, float]:
    with Gradebook(f"sqlite:///{chapter.root / 'gradebook.db'}", "torchkata") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(chapter.name)}


# ---------------------------------------------------------------- floor, stages, memory


def floor(chapter: Chapter) -> tuple[float, float]:
    """Mean seconds a submission, by as many processes at a time as there are jobs: for a sandboxed process with the
    answer cells, and for the answers' own calls."""
    release = read_release(chapter)
    folders = [(name, chapter.root / "submitted" / name / chapter.name) for name in students_of(chapter)]
    sample = [read_submission(folder, name, chapter, release) for name, folder in folders[:FLOOR_SAMPLE]]
    with ProcessPoolExecutor(JOBS, multiprocessing.get_context("fork")) as processes:
        parts = list(processes.map(_floor_of, [sample] * JOBS))
    return tuple(map(statistics.mean, zip(*parts, strict=True)))


def _floor_of(sample: list[Submission]) -> tuple[float, float]:
    with Sandbox(MasterChapter.of(CHAPTER).setup) as sandbox:
        forks = [[_run_seconds(one, sandbox) for one in sample] for _ in range(RUNS)]
    own = [[_own_seconds(one) for one in sample] for _ in range(RUNS)]
    return statistics.mean(forks[-1]), statistics.mean(own[-1])  # the first runs are slow


def _run_seconds(submission: Submission, sandbox: Sandbox) -> float:
    start = time.perf_counter()
    with sandbox.session() as session:
        for cell in submission.cells:
            if cell.kind != "demo":
                session.run_cell(cell.source)
    return time.perf_counter() - start


def _own_seconds(submission: Submission) -> float:
    inside: list[float] = []
    observe = observing._observe

    def noting(call: observing._Call) -> observing.Observation:
        unrecorded = Copier().copy([list(call.args), call.kwargs]) if call.recorded else None
        noted = observe(call)
        timed = observe(observing._Call(call.function, *unrecorded, recorded=False)) if unrecorded else noted
        inside.append(timed.seconds)
        return noted

    with patch.object(observing, "_observe", noting):
        for cell in submission.cells:
            if cell.kind == "answer":
                running.grade(submission.chapter, cell.exercise, cell.source)
    return sum(inside)


def stages(chapter: Chapter) -> Counter:
    """Seconds of each stage, all records together."""
    total: Counter = Counter()
    for record in Results(chapter.root / "graded" / chapter.name).all():
        total.update(record.stages)
    return total


def memory(chapter: Chapter) -> dict[str, int]:
    """Private bytes of each kind of process, at most, while the class is graded."""
    seen: Counter = Counter()
    command = subprocess.Popen(grade_command(), cwd=chapter.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while command.poll() is None:
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(command.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    kind = _kind(process, command.pid)
                    seen[kind] = max(seen[kind], process.memory_full_info().uss)
        time.sleep(0.2)
    return seen


def _kind(process: psutil.Process, command: int) -> str:
    """What a process of a grading run is, by what runs in it and above it."""
    own = _namespace()
    inside = [
        one for one in (process, *process.parents()) if one.name() != "bwrap" and _namespace(one) not in ("", own)
    ]
    if process.name() == "bwrap" or (process.ppid() == command and not inside):
        return "shared"  # bubblewrap; and what the judges are forked from
    return ("judge", "zygote", "branch", "submission")[min(len(inside), 3)]


def _namespace(process: psutil.Process | None = None) -> str:
    """Of processes: those of a sandbox have their own."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{process.pid if process else 'self'}/ns/pid")
    return ""


# ---------------------------------------------------------------- the report


def main(count: int = 60, sample: int = 8, rounds: int = 3) -> None:
    if confine.LINUX:
        confine.adopt_orphans()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        ours, theirs, few = (
            course(Path(name) / folder, n) for folder, n in (("ours", count), ("theirs", sample), ("few", len(KINDS)))
        )
        costs = measured(commands(ours, theirs, few), rounds)
        _print_speed(count, sample, costs)
        _print_floor(ours, _ours(costs, JOBS, count).each)
        _print_stages(stages(ours), costs[f"class, {JOBS}"].wall * JOBS)
        same = sum(points == scores(ours)[student] for student, points in scores(theirs).items())
        out.print(f"same points from both: {same} of {sample}")
        _print_memory(memory(ours))


Command = tuple[Chapter, list[str]]


def commands(ours: Chapter, theirs: Chapter, few: Chapter) -> dict[str, Command]:
    """What takes turns. Gradebooks are made before, by commands that are not measured."""
    for chapter in (theirs, few):
        cost_of(chapter, sys.executable, "-m", "nbgrader", "generate_assignment", CHAPTER.name, "--force")
    names = students_of(ours)
    cost_of(ours, *grade_command("--students", names[0], jobs=1))
    found: dict[str, Command] = {"nbgrader": (theirs, autograde_command()), "nbgrader, few": (few, autograde_command())}
    for jobs in (1, JOBS):
        sizes = {"class": names, "few": names[: len(KINDS)], "start": names[:jobs]}
        for size, students in sizes.items():
            only = [] if size == "class" else ["--students", ",".join(students)]
            found[f"{size}, {jobs}"] = ours, grade_command(*only, jobs=jobs)
    return found


def measured(turns: dict[str, Command], rounds: int) -> dict[str, Cost]:
    """The median cost of each command."""
    costs: dict[str, list[Cost]] = {what: [] for what in turns}
    for number in range(rounds):
        for what, (chapter, command) in turns.items():
            costs[what].append(cost_of(chapter, *command))
            out.print(f"round {number + 1} of {rounds}: {what}: {costs[what][-1]}", style="dim")
    return {
        what: Cost(statistics.median(c.wall for c in some), statistics.median(c.cpu for c in some))
        for what, some in costs.items()
    }


def _ours(costs: dict[str, Cost], jobs: int, count: int) -> Speed:
    few, whole = costs[f"few, {jobs}"], costs[f"class, {jobs}"]
    return Speed(few, (whole - few) / (count - len(KINDS)), whole)


def _theirs(costs: dict[str, Cost], count: int, sample: int) -> Speed:
    few = costs["nbgrader, few"]
    each = (costs["nbgrader"] - few) / (sample - len(KINDS))
    return Speed(few, each, few + each * (count - len(KINDS)))


def _print_speed(count: int, sample: int, costs: dict[str, Cost]) -> None:
    theirs = _theirs(costs, count, sample)
    table = Table("", "clock", "CPU", "nbgrader ÷ it, clock", "CPU", title=f"{count} submissions of {CHAPTER.name}")
    table.add_row(f"nbgrader, class of {count} (from {sample})", *_seconds(theirs.whole))
    table.add_row("nbgrader, each", *_seconds(theirs.each))
    for jobs in (1, JOBS):
        ours = _ours(costs, jobs, count)
        table.add_row(f"jobs {jobs}: class of {count}", *_seconds(ours.whole), *_ratios(theirs.whole, ours.whole))
        table.add_row(f"jobs {jobs}: each", *_seconds(ours.each), *_ratios(theirs.each, ours.each))
        table.add_row(f"jobs {jobs}: {('one', 'two')[jobs - 1]} submitted", *_seconds(costs[f"start, {jobs}"]))
    out.print(table)


def _seconds(cost: Cost) -> tuple[str, str]:
    return f"{cost.wall:.2f} s", f"{cost.cpu:.2f} s"


def _ratios(theirs: Cost, ours: Cost) -> tuple[str, str]:
    return f"{theirs.wall / ours.wall:.1f}", f"{theirs.cpu / ours.cpu:.1f}"


def _print_floor(chapter: Chapter, each: Cost) -> None:
    fork, own = floor(chapter)
    out.print(
        f"floor: {(fork + own) * 1000:.0f} ms (sandboxed process and cells {fork * 1000:.0f}, answers' calls "
        f"{own * 1000:.0f})"
    )
    for what, seconds in (("a submission of the class", each.wall), ("a submission in its job", each.wall * JOBS)):
        out.print(f"{what}: {seconds * 1000:.0f} ms, {seconds / (fork + own):.1f} times the floor")


def _print_stages(spent: Counter, total: float) -> None:
    shares = [f"{name} {seconds / total:.0%}" for name, seconds in spent.most_common()]
    out.print(f"stages of {JOBS} jobs: {', '.join(shares)}, rest {1 - spent.total() / total:.0%}")


def _print_memory(seen: dict[str, int]) -> None:
    parts = [f"{kind} {seen[kind] / MIB:.0f} MiB" for kind in ("judge", "zygote", "branch", "submission")]
    out.print(f"private memory, at most: {', '.join(parts)}")


if __name__ == "__main__":
    main(*map(int, itertools.islice(sys.argv[1:], 3)))
