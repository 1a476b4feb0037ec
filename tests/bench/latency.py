"""How fast a verdict comes: prints figures, asserts nothing. Run it with `make bench`, some chapters alone with
`python -m tests.bench.latency 09 10`.

Method. In a learner's own workbook, with the course beside it, every exercise has its author's answer. Each chapter
has a real kernel, asked as JupyterLab asks: setup cell, answer cell, then each check cell twice, from the request until
the kernel is idle again. After the setup cell it waits until the kernel has loaded what it loads at rest, as it does
while somebody reads. So hidden tests, the card and the note that is remembered are in it; the browser is not (see
browser.py). The processor's time (user + system, of the kernel and all processes below it) stands beside the clock's:
it counts where other programs run. It comes in steps of 10 ms. p95: the 95th percentile.

- verdict: per chapter and over all check cells, the first and the second run; and the slowest ten checks.
- bars: what the first runs came to, beside their limits for a quiet machine, in milliseconds and as multiples of
  `python -c "import torch"`, by the clock and by the processor. Checks that export a model (they or their answer name
  `onnx.export` or `export.export`) are left out of the second bar: one export takes half as long as importing torch.
- check: processor time of `torchkata check NN` ÷ (2 × that of `import torch` + that of the answers themselves: their
  cells and what check cells call); the ranks of process groups are on neither side.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import psutil
from jupyter_client import KernelManager
from jupyter_client.blocking import BlockingKernelClient
from rich.console import Console
from rich.table import Table

from tests.bench.learning import copy_of_course
from tests.notebooks import running
from torchkata.base.chapter import exercise_of, is_checking
from torchkata.base.remembering import KEPT
from torchkata.tools.course import Chapter, find_chapters, read_notebook
from torchkata.tools.learning.choosing import checks_of
from torchkata.tools.placing import Place
from torchkata.verdicts import observing
from torchkata.verdicts.resting import REST

MEDIAN_LIMIT, P95_LIMIT, SLOWEST_LIMIT = 150, 400, 3000  # ms on the clock, on a quiet machine
MEDIAN_MULTIPLE, P95_MULTIPLE = 0.1, 0.3  # of importing torch
EXPORT = re.compile(r"\b(onnx|export)\.export\(")
CHECK_LIMIT = 1.0
PATIENCE = 300
out = Console(width=max(Console().width, 110))


@dataclass(frozen=True)
class Cost:
    """Milliseconds, by the clock and of the processor."""

    clock: float
    processor: float


@dataclass(frozen=True)
class Timed:
    """A check cell, and what its first and its second run took."""

    chapter: str
    exercise: str
    part: int
    exports: bool
    runs: tuple[Cost, Cost]


class Kernel:
    """A kernel in a chapter's folder of the workbook, asked as JupyterLab asks."""

    def __init__(self, folder: Path):
        self._manager = KernelManager()
        self._manager.start_kernel(cwd=str(folder), extra_arguments=["--log-level=ERROR"])
        self._client: BlockingKernelClient = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE)
        self._process = psutil.Process(self._manager.provisioner.pid)

    def run(self, source: str, cell: str) -> Cost:
        """Run a cell until the kernel is idle. Raises RuntimeError where the cell does."""
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        asked = self._client.session.msg("execute_request", content, metadata={"cellId": cell, "trusted": True})
        before, begun = self._used(), time.perf_counter()
        self._client.shell_channel.send(asked)
        while (told := self._client.get_iopub_msg(timeout=PATIENCE)) is not None:
            if told["parent_header"].get("msg_id") != asked["header"]["msg_id"]:
                continue
            if told["msg_type"] == "error":
                raise RuntimeError(f"{cell}: {told['content']['ename']}: {told['content']['evalue']}")
            if told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
                break
        clock = time.perf_counter() - begun
        return Cost(1000 * clock, 1000 * (self._used() - before))

    def rest(self) -> None:
        """Wait until the kernel has done what it does when no cell runs."""
        before = -1.0
        while (used := self._used()) > before:
            before = used
            time.sleep(3 * REST)

    def end(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def _used(self) -> float:
        """Seconds of processor time of the kernel and of all that it started."""
        used = 0.0
        for process in [self._process, *self._process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                used += sum(process.cpu_times()[:4])  # user, system, and both of children that have ended
        return used


def timed_checks(chapter: Chapter) -> list[Timed]:
    """What each check cell of a chapter takes in its learner's own workbook."""
    master, release = read_notebook(chapter.solution), read_notebook(chapter.release)
    whole = checks_of(release)
    kernel = Kernel(chapter.workbook.parent)
    found = []
    try:
        kernel.run(next(cell.source for cell in master.cells if cell.cell_type == "code"), "setup")
        kernel.rest()
        for exercise in running.exercise_ids(chapter.name):
            answer = running.exercise_cells(chapter.name, exercise)[0].source
            kernel.run(answer, exercise)
            own = [cell for cell in release.cells if is_checking(cell) and exercise_of(cell) == exercise]
            for cell in own:
                if not cell.metadata.nbgrader.grade:  # what the checks share stands above them
                    kernel.run(cell.source, exercise)
            checks = [cell for cell in own if cell.metadata.nbgrader.grade]
            for part, (check, with_helpers) in enumerate(zip(checks, whole[exercise], strict=True), start=1):
                exports = EXPORT.search(answer + with_helpers.source) is not None
                runs = kernel.run(check.source, exercise), kernel.run(check.source, exercise)
                found.append(Timed(chapter.name, exercise, part, exports, runs))
    finally:
        kernel.end()
    return found


def prepared_course(folder: Path) -> Path:
    """The course in another folder, and in its workbook every exercise solved."""
    course = copy_of_course(folder)
    (course / "workbook" / KEPT).mkdir(exist_ok=True)
    return course


# ------------------------------------------------ torchkata check


def processor_seconds_of(*command: str, cwd: Path | None = None) -> float:
    """Processor time of a command and of the processes that it waited for, the less of two runs."""
    return min(_used_by(command, cwd) for _ in range(2))


def _used_by(command: tuple[str, ...], cwd: Path | None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds_of(*command: str) -> float:
    """How long a command takes by the clock."""
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begun


def answers_own_seconds(name: str) -> float:
    """Processor time of a chapter's answers: their cells, and the calls that check cells make; the ranks apart. In a
    process of its own: the first optimizer loads torch._dynamo, here and where a chapter is checked."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_answers_seconds, name).result()


def _answers_seconds(name: str) -> float:
    with patch.object(observing, "time", SimpleNamespace(perf_counter=time.process_time)):
        return sum(_own_seconds(name, exercise) for exercise in running.exercise_ids(name))


def _own_seconds(name: str, exercise: str) -> float:
    space: dict = {"__name__": "__main__"}
    answer, checks = running.exercise_cells(name, exercise)
    noted = []
    observe = observing._observe

    def noting(call: observing._Call) -> observing.Observation:
        noted.append(observe(call))
        return noted[-1]

    with contextlib.redirect_stdout(io.StringIO()), patch.object(observing, "_observe", noting):
        running.run_cell(running._setup(name), space, "<setup>")
        begun = time.process_time()
        running.run_cell(answer.source, space, "<answer>")
        cell = time.process_time() - begun
        for check in checks:
            running.run_cell(check.source, space, f"<check {check.id}>")
    return cell + sum(one.seconds for one in noted)


# ------------------------------------------------ what is printed


def percentile(values: list[float], percent: int) -> float:
    """The value that so many percent don't exceed; the largest for 100."""
    if percent == 100 or len(values) == 1:
        return max(values)
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def print_verdicts(timed: list[Timed], torch: Cost) -> None:
    table = Table("verdict, ms", "checks", "1st: median", "p95", "processor", "p95", "2nd: median", "p95", "processor")
    by_chapter = {name: [one for one in timed if one.chapter == name] for name in {t.chapter: 0 for t in timed}}
    for name, found in [*by_chapter.items(), ("all", timed)]:
        table.add_row(
            name, str(len(found)), *_figures([t.runs[0] for t in found]), *_figures([t.runs[1] for t in found])[:3]
        )
    out.print(table)
    print_bars(timed, torch)
    slowest = Table("slowest checks", "part", "1st, ms", "processor", "÷ import torch", "2nd, ms", "processor")
    for one in sorted(timed, key=lambda one: -one.runs[0].processor)[:10]:
        first, second = one.runs
        ratio = f"{first.processor / torch.processor:.2f}"
        figures = (
            f"{first.clock:.0f}",
            f"{first.processor:.0f}",
            ratio,
            f"{second.clock:.0f}",
            f"{second.processor:.0f}",
        )
        slowest.add_row(f"{one.chapter[:2]} {one.exercise}", str(one.part), *figures)
    out.print(slowest)
    out.print(f"import torch: {torch.clock:.0f} ms, processor {torch.processor:.0f} ms.")


def print_bars(timed: list[Timed], torch: Cost) -> None:
    """What the first runs came to, beside their limits."""
    every, without = [t.runs[0] for t in timed], [t.runs[0] for t in timed if not t.exports]
    table = Table("bars", "checks", "ms", "limit", "÷ import torch", "by processor", "limit")
    for name, costs, percent, limit, multiple in (
        ("median of all", every, 50, MEDIAN_LIMIT, MEDIAN_MULTIPLE),
        ("p95 of those that export nothing", without, 95, P95_LIMIT, P95_MULTIPLE),
        ("slowest", every, 100, SLOWEST_LIMIT, None),
    ):
        clock = percentile([cost.clock for cost in costs], percent)
        processor = percentile([cost.processor for cost in costs], percent)
        multiples = f"{clock / torch.clock:.2f}", f"{processor / torch.processor:.2f}"
        table.add_row(name, str(len(costs)), f"{clock:.0f}", str(limit), *multiples, f"{multiple or ''}")
    out.print(table)


def _figures(costs: list[Cost]) -> list[str]:
    clock, processor = [cost.clock for cost in costs], [cost.processor for cost in costs]
    figures = statistics.median(clock), percentile(clock, 95), statistics.median(processor), percentile(processor, 95)
    return [f"{figure:.0f}" for figure in figures]


def print_check(chapters: list[Chapter], torch_seconds: float) -> None:
    table = Table("torchkata check", "ratio", "processor, s", "answers' own, s")
    for chapter in chapters:
        used = processor_seconds_of(sys.executable, "-m", "torchkata", "check", chapter.name, cwd=chapter.root)
        own = answers_own_seconds(chapter.name)
        table.add_row(chapter.name, f"{used / (2 * torch_seconds + own):.2f}", f"{used:.2f}", f"{own:.2f}")
    out.print(table)
    out.print(f"Limit: {CHECK_LIMIT:g}, against 2 × import torch ({torch_seconds:.2f} s) + the answers' own time.")


def main(words: list[str]) -> None:
    import_torch = sys.executable, "-c", "import torch"
    torch_processor = processor_seconds_of(*import_torch)
    torch_clock = min(seconds_of(*import_torch) for _ in range(2))
    with tempfile.TemporaryDirectory() as name:
        course = prepared_course(Path(name))
        chosen = find_chapters(Place(course), words or None)
        timed = [one for chapter in chosen for one in timed_checks(chapter)]
        print_verdicts(timed, Cost(1000 * torch_clock, 1000 * torch_processor))
        print_check(chosen, torch_processor)


if __name__ == "__main__":
    main(sys.argv[1:])
