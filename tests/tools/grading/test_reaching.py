"""Lines that reach for the grader are shown to the teacher; what honest learners write is not."""

from __future__ import annotations

import pytest

from tests.notebooks.answers import answers_of
from tests.notebooks.test_answers import EXERCISES
from torchkata.tools.grading.reaching import LOOK, MOST, suspect_lines
from torchkata.tools.grading.records import SubmittedCell


def noted(source: str, kind: str = "answer") -> list[str]:
    return suspect_lines([SubmittedCell(kind, "one-hot" if kind == "answer" else None, source)])


@pytest.mark.parametrize(
    "line",
    [
        "from torchkata.verdicts import observing",
        "import torchkata.verdicts.observing as o",
        "sys.modules['torchkata.tools.grading.sandbox.inside.worker']",
        "[o for o in gc.get_objects() if isinstance(o, dict)]",
        "libc = ctypes.CDLL(None)",
        "sys._getframe(3).f_locals",
        "open('/proc/self/mem')",
        "original = observing.run_scenario",
        "import check_cell",
        "from torch.utils._python_dispatch import _disable_current_modes",
        "torch._C._autograd._disable_profiler()",
        "return ThreadPoolExecutor(1).submit(jacrev(fn), x).result()",
        "types.FunctionType(jacrev.__code__.replace(), {})",
    ],
)
def test_a_line_that_reaches_for_the_grader_is_shown(line: str):
    source = f"def one_hot(labels):\n    {line}\n    return labels"
    assert noted(source) == [f"{LOOK} (answer to one-hot): {line}"]
    assert noted(source, "demo") == []


def test_many_lines_are_counted():
    notes = noted("import ctypes\n" * 50, "own")
    assert (
        len(notes) == MOST + 1 and notes[0] == f"{LOOK} (an own cell): import ctypes" and notes[-1].endswith("40 more")
    )


def test_of_all_stored_answers_only_wrong_ones_are_noted_that_dig_or_begin_threads():
    found = {
        (answer.kind, exercise)
        for chapter, exercise in EXERCISES
        for answer in answers_of(chapter, exercise)
        if noted(answer.source)
    }
    in_threads = {"fix-hidden-cpu-tensors", "mend-the-breaks", "ring-all-reduce", "sharded-linear", "step-flops"}
    in_threads |= {"blockwise-attention", "lean-attention"}
    digging = {"adamw-by-hand", "jacobian-by-vjp", "keeps-the-past", "kv-cache", "peak-ledger", "write-a-backend"}
    assert found == {("wrong", one) for one in in_threads | digging | {"two-stage-backward"}}
