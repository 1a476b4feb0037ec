"""What is alive after each operation of a training step, by kind of tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint_sequential

from torchkata.instruments.ledger import Ledger

KINDS = ("parameters", "gradients", "state", "activations", "temporaries")
WIDTH, LAYERS = 128, 8
SCALAR = 4  # bytes of the loss and of its like
OPTIMIZERS = ("SGD", "Adam", "Adam, foreach")


@dataclass(frozen=True)
class Frame:
    """The bytes of each kind right after an operation. phase: "forward", "backward" or "step"."""

    operation: str
    phase: str
    bytes: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


def memory_film(batch: int, segments: int = 0, optimizer: str = "Adam") -> tuple[Frame, ...]:
    """A training step of eight times Linear(128), tanh on the CPU: one frame for each operation.

    The optimizer's state is there already; gradients are not. segments: how many parts are checkpointed, 0 for none.
    A gradient on its way is a temporary until it is in `.grad`. The batch and the loss are not counted.
    """
    step = _update(optimizer)
    state = step[0].bytes["state"]
    return (*(replace(frame, bytes={**frame.bytes, "state": state}) for frame in _passes(batch, segments)), *step)


@cache
def _passes(batch: int, segments: int) -> tuple[Frame, ...]:
    """Forward and backward."""
    with _plain_torch():
        model, x = _model(), torch.randn(batch, WIDTH, dtype=torch.float32)
        film = _Film(list(model.parameters()), [])
        with film, torch.autograd.graph.saved_tensors_hooks(film.note_saved, lambda saved: saved):
            loss = _forward(model, segments, x).square().mean()
            film.phase = "backward"
            loss.backward()
    return tuple(film.frames)


@cache
def _update(optimizer: str) -> tuple[Frame, ...]:
    """The optimizer's second step."""
    with _plain_torch():
        parameters = list(_model().parameters())
        stepper = _optimizer(optimizer, parameters)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        stepper.step()
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        film = _Film(parameters, [v for entry in stepper.state.values() for v in entry.values()], gradients)
        film.phase = "step"
        with film:
            stepper.step()
    return tuple(film.frames)


def peak_of(film: Sequence[Frame]) -> int:
    """The number of the frame at which the most is alive, the first of equal ones."""
    return max(range(len(film)), key=lambda number: (film[number].total, -number))


@contextmanager
def _plain_torch() -> Iterator[None]:
    """The same numbers, whatever a learner has switched."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.enable_grad():
        torch.manual_seed(0)
        yield


def _model() -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS))).float()


def _optimizer(name: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if name == "SGD":
        return torch.optim.SGD(parameters, lr=1e-3, foreach=False)
    return torch.optim.Adam(parameters, lr=1e-3, foreach=name == "Adam, foreach")


def _forward(model: nn.Sequential, segments: int, x: Tensor) -> Tensor:
    return checkpoint_sequential(model, segments, x, use_reentrant=False) if segments else model(x)


class _Film(Ledger):
    """A ledger that says of each living storage what it is for."""

    def __init__(self, parameters: list[nn.Parameter], state: list[Tensor], gradients: Sequence[Tensor] = ()):
        self.parameters = parameters
        self.known = {_name(p): "parameters" for p in parameters} | {_name(v): "state" for v in state}
        self.saved: set[int] = set()
        self.frames: list[Frame] = []
        self.phase = "forward"
        super().__init__(*parameters, *state, *gradients)

    def note_saved(self, tensor: Tensor) -> Tensor:
        """Note what the graph keeps; what it then keeps is no part of the graph, which would hold itself."""
        self.saved.add(_name(tensor))
        return tensor.detach()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self.frames.append(Frame(func.overloadpacket.__name__, self.phase, self._by_kind()))
        return out

    def _by_kind(self) -> dict[str, int]:
        gradients = {_name(p.grad) for p in self.parameters if p.grad is not None}
        found = dict.fromkeys(KINDS, 0)
        alive = self.alive()
        self.saved &= alive.keys()
        for key, size in alive.items():
            if size == SCALAR and key not in self.known:
                continue
            other = "gradients" if key in gradients else "activations" if key in self.saved else "temporaries"
            found[self.known.get(key, other)] += size
        return found


def _name(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
