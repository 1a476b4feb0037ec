"""Verdicts: observe what an answer does as plain facts, then judge the facts.

with check("one-hot") as test:
    test("row i has its one in column labels[i]")
    seen = observe(one_hot, torch.tensor([2, 0]), num_classes=3)
    seen.returns(torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
"""

from __future__ import annotations

from torchkata.verdicts import cells, resting
from torchkata.verdicts.asking import observe, observe_scenario, observe_value
from torchkata.verdicts.check import check
from torchkata.verdicts.corners import FIRST_CHECK_FIRST, corners, known
from torchkata.verdicts.judging import Mistake, mistake
from torchkata.verdicts.noting import needs, noting_calls, noting_events, noting_operations
from torchkata.verdicts.observing import incoming_gradient
from torchkata.verdicts.ordering import ordering
from torchkata.verdicts.predicting import prediction
from torchkata.verdicts.raised import Interrupted, NotSolvedYet, WrongAnswer
from torchkata.verdicts.separating import opinions, separation
from torchkata.verdicts.standins import StandIn

__all__ = [
    "FIRST_CHECK_FIRST",
    "Interrupted",
    "Mistake",
    "NotSolvedYet",
    "StandIn",
    "WrongAnswer",
    "check",
    "corners",
    "incoming_gradient",
    "known",
    "mistake",
    "needs",
    "noting_calls",
    "noting_events",
    "noting_operations",
    "observe",
    "observe_scenario",
    "observe_value",
    "opinions",
    "ordering",
    "prediction",
    "separation",
]

cells.watch()
resting.load_at_rest()
