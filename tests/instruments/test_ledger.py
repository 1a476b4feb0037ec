"""Bytes alive after each operation."""

import torch
from torch import nn

from torchkata.instruments.ledger import Ledger, measured

X = torch.linspace(0.1, 0.9, 250)  # 1000 bytes


def test_without_a_graph_the_input_and_the_output_are_alive():
    result, peak, left = measured(lambda: X.exp().sin().cos())
    assert (peak, left) == (2000, 1000) and result.shape == (250,)


def test_a_graph_keeps_what_it_needs():
    w = X.clone().requires_grad_()
    _, peak, left = measured(lambda: w.exp().exp().exp())
    assert (peak, left) == (3000, 3000)


def test_arguments_do_not_count_and_known_tensors_do():
    buffer = torch.empty(250)
    assert measured(lambda: torch.add(X, 1, out=buffer))[1] == 0
    assert measured(lambda: X.view(50, 5))[1] == 0
    assert measured(lambda: X.exp(), X)[1:] == (2000, 2000)


def test_views_share_and_lists_are_looked_into():
    assert measured(lambda: X.exp()[3:5])[2] == 1000
    assert measured(lambda: torch._foreach_mul([X, X], 2.0))[2] == 2000


def test_the_peak_is_told_by_the_operation_that_reached_it_first():
    ledger = Ledger()
    with ledger:
        X.exp().sin().cos()
    assert (ledger.peak, ledger.peak_at) == (2000, "sin")
    assert [name for name, _ in ledger.curve] == ["exp", "sin", "cos"]


def test_nothing_was_made():
    ledger = Ledger()
    with ledger:
        X.view(5, 50)
    assert (ledger.peak, ledger.peak_at, ledger.bytes_alive()) == (0, "", 0)


def test_the_ledger_holds_nothing():
    ledger = Ledger()
    with ledger:
        y = X.exp()
        del y
    assert ledger.bytes_alive() == 0


def test_a_whole_step_is_seen():
    model = nn.Linear(10, 10, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step():
        model(torch.ones(3, 10)).sum().backward()
        optimizer.step()

    left = measured(step)[2]
    assert 3 * 400 <= left <= 3 * 400 + 64  # .grad, exp_avg, exp_avg_sq, and a counter
