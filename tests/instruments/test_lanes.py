"""Two lanes, and a real step as calls for them."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from torchkata.instruments.lanes import Totals, in_words, lanes, totals
from torchkata.instruments.virtual_gpu import VirtualGPU

STEP = [(6, 4, False)] * 40 + [(6, 300, False)] * 4
READS = [*STEP[:-1], (6, 300, True)]


def test_python_runs_ahead_of_a_slow_gpu():
    assert totals(lanes([(2, 5, False)] * 4)) == Totals(22, 0, 0)


def test_a_fast_gpu_waits_for_python():
    assert totals(lanes([(5, 2, False)] * 3)) == Totals(17, 6, 0)


def test_a_full_queue_holds_python_up():
    assert totals(lanes([(1, 10, False)] * 3 + [(1, 0, False), (1, 4, False)], 2)) == Totals(35, 0, 18)


def test_the_totals_in_words():
    assert in_words([(2, 5000, False)] * 2, 1) == "over after 10,004, GPU idle for 2, Python stands still for 5,000"


def test_no_call_takes_no_time():
    assert totals(lanes([])) == Totals(0, 0, 0)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (STEP * 3, Totals(4166, 80, 0)),
        (READS * 3, Totals(4338, 252, 3546)),
        ([(launch, work, True) for launch, work, _ in STEP * 3], Totals(4872, 786, 4080)),
    ],
)
def test_the_numbers_of_the_chapter(calls, expected):
    assert totals(lanes(calls)) == expected


def test_spans_lie_in_order():
    spans = lanes(READS, depth=5)
    for before, after in pairwise(spans):
        assert before.goes_on == after.held_from <= after.begins < after.queued <= after.goes_on
        assert before.ends <= after.starts and after.starts >= after.queued


def test_a_virtual_gpu_knows_views_products_and_reads():
    gpu = VirtualGPU(launch=5, flops=1e12, bandwidth=1e12, shortest=1)
    x = torch.ones(100, 200)
    with gpu:
        (x.t() @ x).sum().item()
    assert gpu.names == ["mm", "sum", "_local_scalar_dense"]
    assert gpu.calls == [(5, 8.0, False), (5, 1, False), (5, 0.0, True)]  # 2 * 200 * 100 * 200 FLOPs


def test_a_step_on_meta_can_be_noted():
    with torch.device("meta"):
        model, x = nn.Linear(4096, 4096), torch.empty(1024, 4096)
    gpu = VirtualGPU()
    with gpu:
        model(x).sum().backward()
    assert "addmm" in gpu.names and max(work for _, work, _ in gpu.calls) > 80
