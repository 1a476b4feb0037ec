"""Imported once, in the process that all graders are forked from: the referee, and what torch loads at first use."""

import gc

import torch

import torchkata.cli  # each process runs the command's script once more
import torchkata.tools.grading.referee  # noqa: F401
from torchkata.verdicts import observe

observe(torch.neg, torch.ones(2)).returns(torch.full((2,), -1.0000001))
gc.collect()
gc.freeze()  # so that the collector does not touch, and so copy, the pages that the processes share
