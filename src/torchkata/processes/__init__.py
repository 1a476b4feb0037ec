"""Run a function of a notebook cell on several ranks: worker processes that have joined one process group.

def add_up(rank, world):
    t = torch.tensor([rank + 1.0])
    dist.all_reduce(t)
    return t.item()

run_on_ranks(add_up, world=2)        # [3.0, 3.0]
"""

from torchkata.processes.errors import RankDied, RankError, RanksHang
from torchkata.processes.running import get_ready, run_on_ranks

__all__ = ["RankDied", "RankError", "RanksHang", "get_ready", "run_on_ranks"]
