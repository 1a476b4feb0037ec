"""Imported once, in the process that all ranks are forked from: what a rank needs, and what torch loads at first use.

It must start no thread and touch no GPU: neither survives a fork. So there is no backward pass here, nor a group.
"""

from __future__ import annotations

import contextlib

import torchkata.processes.worker  # noqa: F401


def use() -> None:
    """Call, step, send: each takes a while the first time in a process."""
    import cloudpickle
    import torch
    import torch._dynamo  # any optimizer loads it

    from torchkata.processes.sending import dumps

    weight = torch.nn.Parameter(torch.ones(2, 2))
    torch.nn.functional.linear(torch.ones(1, 2), weight).square().mean()
    weight.grad = torch.ones_like(weight)
    if not torch.backends.cuda.is_built():  # there a step asks for GPUs
        torch.optim.SGD([weight], lr=0.1, momentum=0.5).step()
    cloudpickle.loads(dumps((lambda: weight, weight.detach())))


with contextlib.suppress(Exception):  # then each rank does it, and tells what is wrong
    use()
