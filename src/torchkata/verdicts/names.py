"""What names mean in a check cell: the chapter's imports come before what the learner has given these names to."""

from __future__ import annotations

import ast
import builtins
import sys
from functools import cache, lru_cache

import torch

from torchkata.base.check_cell import MODULE

OBSERVERS = {  # and which of their arguments are answers
    **{"observe": slice(1), "observe_value": slice(1), "observe_scenario": slice(1, None)},
    **{"corners": slice(1, 2)},
}
_imported: dict[str, object] = {}  # by the chapter's first cell


def learn(space: dict, imported: set[str]) -> None:
    """These names, as they are now, are what check cells mean by them."""
    _imported.update({name: space[name] for name in imported & space.keys()})


def space_for_checks(learners: dict) -> dict:
    """A fresh namespace for a check cell: the learner's names, among them the answers, as far as Python, torch and the
    chapter mean nothing else by them."""
    own = {name: value for name, value in learners.items() if not hasattr(builtins, name)}
    return own | {"__name__": MODULE.__name__} | _usual() | _imported


def taken(code: str, learners: dict) -> list[str]:
    """Names that a check cell uses and that the learner has given to something else."""
    known = vars(builtins) | _usual() | _imported
    nodes = list(ast.walk(ast.parse(code)))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} - own
    return sorted(name for name in read & known.keys() & learners.keys() if learners[name] is not known[name])


@lru_cache(maxsize=100)  # the same check cells judge a whole class
def answers_in(code: str) -> frozenset[str]:
    """The names that a check cell hands to observers: only answers are."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    handed_over = [arg for call in calls for arg in call.args[OBSERVERS.get(ast.unparse(call.func), slice(0))]]
    return frozenset(arg.id for arg in handed_over if isinstance(arg, ast.Name))


@cache
def _usual() -> dict[str, object]:
    """Names that mean the same in all chapters: torch's usual ones, and those that check cells are written with."""
    own = sys.modules["torchkata.verdicts"]
    of_torch = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "Tensor": torch.Tensor}
    return of_torch | {name: getattr(own, name) for name in own.__all__}
