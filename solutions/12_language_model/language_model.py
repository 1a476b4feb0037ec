# %% [markdown]
# # A small language model, by hand
#
# One thing grows from section to section, and runs at the end: a model of 0.6 million weights that you train on your
# own machine on Python's language reference, and that then writes in its manner. After this chapter you can
#
# - build a GPT-like model from tensors up, and say of each part which chapter it comes from;
# - prove three things of it: it can't see the future, it resumes bit for bit, two processes give the gradient of one;
# - tell an honest loss from one that a leak or a copy made;
# - take it out of Python and let it write.
#
# **45 minutes to read, 245 minutes to practise, 20 points.** You need chapters 2 to 11, or those of them whose
# exercises you want to use.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import copy
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.small_lm import Block, SmallLM, reference_ids
from torchkata.verdicts import (
    check,
    mistake,
    observe,
    observe_scenario,
)

# %% [markdown]
# ## 12.1 What shall it read?
#
# (exercise text-windows stands here)

# %% [markdown]
# ## 12.2 Looking back only
#
# (exercise causal-attention stands here)

# %% [markdown]
# ## 12.3 One weight, two places
#
# (exercise tied-model stands here)

# %% [markdown]
# ## 12.4 How wrong, and where
#
# (exercise token-loss stands here)

# %% [markdown]
# ## 12.5 Remember less
#
# (exercise remember-less stands here)

# %% [markdown]
# ## 12.6 When it explodes
#
# (exercise find-exploder stands here)

# %% [markdown]
# ## 12.7 The step
#
# (exercise adamw-by-hand stands here)

# %% [markdown]
# ## 12.8 More text than memory
#
# (exercise token-accumulation stands here)

# %% [markdown]
# ## 12.9 Stop, go on; two for one
#
# (exercise resume-exactly, two-equal-one stands here)

# %% [markdown]
# ## 12.10 The run
#
# (exercise train-it stands here)

# %% [markdown]
# ## 12.11 Out of Python
#
# (exercise export-lm stands here)

# %% [markdown]
# ## 12.12 It writes
#
# (exercise write-on stands here)
