"""Imported once, in the process that all graders are forked from: the referee, and what torch loads at first use."""

from torchkata.loading import loading

with loading():
    import torch

    import torchkata.tools.grading.referee  # noqa: F401
    from torchkata.verdicts import observe

    observe(torch.neg, torch.ones(2)).returns(torch.full((2,), -1.0000001))
    observe(torch.neg, torch.ones(2, requires_grad=True)).returns(-torch.ones(2))  # a backward pass loads sympy
