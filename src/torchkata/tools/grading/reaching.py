"""Lines of a submission that reach for what is around it, for the teacher to look at. No mark depends on this.

What a scenario notes comes from the process that a learner's code shares with it: who digs deep enough can bend it.
"""

from __future__ import annotations

import re

from torchkata.tools.grading.records import SubmittedCell

LOOK = "Look at this line"
MOST = 10  # lines of one submission
SUSPECT = re.compile(
    r"\btorchkata(\.| +import +)tools\b|\bverdicts(\.| +import +)(observing|judging|plain|originals|isolation|names|"
    r"recording|sight|standins|cells|comparing|check\.)|\b(run_scenario|run_answer|check_cell)\b|"
    r"\bgc\s*\.\s*get_(objects|referrers|referents)|\bctypes\b|"
    r"_getframe|\bcurrentframe\b|\binspect\s*\.\s*(stack|trace)\b|\b(f_back|f_globals|f_locals|tb_frame|gi_frame)\b|"
    r"_disable_current_modes|_(pop|push)_mode|\bDisableTorch|DispatchKey|\b_profiler\b|_(disable|enable|prepare)_profiler|\baddaudithook\b|"
    r"__closure__|__subclasses__|__code__|\b(Function|Code)Type\b|/proc\b|\bsettrace\b|\bsetprofile\b|"
    r"\bthreading\b|ThreadPool|\b_thread\b|\bto_thread\b"
)


def suspect_lines(cells: list[SubmittedCell]) -> list[str]:
    """A note for each line that names the grader's modules, digs in frames, functions, the collector, ctypes or /proc,
    or begins threads, in which calls of functions are not watched."""
    found = [
        f"{LOOK} ({_place(cell)}): {line.strip()[:100]}"
        for cell in cells
        if cell.kind != "demo" and SUSPECT.search(cell.source)
        for line in cell.source.splitlines()
        if SUSPECT.search(line) and not line.lstrip().startswith("#")
    ]
    more = [f"{LOOK}: and {len(found) - MOST} more"] if len(found) > MOST else []
    return found[:MOST] + more


def _place(cell: SubmittedCell) -> str:
    return f"answer to {cell.exercise}" if cell.exercise else "an own cell"
