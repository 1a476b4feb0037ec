"""Imported once, in the process that all graders are forked from: the referee, and what torch loads at first use."""

# ruff: noqa: E402

import gc

gc.disable()  # it would look at all that is imported again and again: a tenth of the time

import torch

import torchkata.cli  # each process runs the command's script once more
import torchkata.tools.grading.referee  # noqa: F401
from torchkata.verdicts import observe

observe(torch.neg, torch.ones(2)).returns(torch.full((2,), -1.0000001))
observe(torch.neg, torch.ones(2, requires_grad=True)).returns(-torch.ones(2))  # a backward pass loads sympy
gc.enable()
gc.collect()
gc.freeze()  # so that the collector does not touch, and so copy, the pages that the processes share
