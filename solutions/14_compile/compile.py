# %% [markdown]
# # torch.compile: captured, guarded, broken
#
# (in work)

# %% setup=true
import contextlib
import functools
import io
import math
import random
from collections.abc import Callable

import numpy as np
import torch
import torch._dynamo
import torch.nn.functional as F
from functorch.compile import default_partition, make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

from torchkata.instruments.captured import Counting, fresh_compiler, graphs_after, settings_changed
from torchkata.instruments.cut import cut_of
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    known,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)

# %% exercise="write-a-backend"
# %% exercise="what-happened"
# %% exercise="how-many-graphs"
# %% exercise="over-the-limit"
# %% exercise="one-graph-for-all-sizes"
# %% exercise="mend-the-breaks"
# %% exercise="once-or-every-time"
# %% exercise="kept-for-backward"
# %% exercise="fuse-pointwise"
# %% exercise="separate-the-two"
