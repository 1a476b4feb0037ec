"""What every worker does again and again, done some times before workers are forked: torch has then loaded what it
loads at first use, and Python has its code in the form that it gives to what runs often. A worker's time falls by a
twentieth."""

from __future__ import annotations

from functools import cache
from itertools import product
from types import ModuleType

import torch

from torchkata.tools.grading.limits import MIB
from torchkata.tools.grading.messages import decode, encode
from torchkata.tools.grading.worker import Worker, reply_to

TIMES = 10  # Python rewrites a function's code at its eighth call
ANSWER = """
import torch

def answer(x, index, **settings):
    return x.scatter(0, index, 1.0) * 2
"""


@cache
def practise() -> None:
    """Answer requests of each kind: with gradients and without, on meta, with an error of torch's and one of Python's;
    recorded and not."""
    module = ModuleType("practice")
    exec(ANSWER, module.__dict__)
    worker = Worker(module)
    x, index = torch.ones(2, 2), torch.tensor([[0, 1]])
    calls = [[x.clone().requires_grad_(), index], [x, index], [x.to("meta"), index.to("meta")], [x, index + 7], [x]]
    requests = [
        encode({"do": "observe", "answer": "answer", "args": args, "kwargs": {"eps": 0.5}, "recorded": recorded})
        for args, recorded in product(calls, (False, True))
    ]
    for request in requests * TIMES:
        reply_to(decode(request), worker, MIB)
    worker.no_more_questions()
