"""The way of an observation to the judging side, as bytes; what comes back must be what was sent."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Parameter

from torchkata.tools.grading.sandbox.inside.worker import reply_with
from torchkata.tools.grading.sandbox.messages import decode, encode
from torchkata.tools.grading.sandbox.replies import MAX_MESSAGE, observation_from
from torchkata.verdicts.observing import Observation


def through_bytes(noted: Observation) -> Observation:
    """The observation from its bytes. AssertionError when anything about it has changed on the way."""
    said = _same_from_bytes(reply_with(noted))
    received = observation_from(said["noted"], _sources_of(noted))
    assert received.ops == noted.ops
    assert_same(_compared(noted), _compared(received), {})
    return received


def _same_from_bytes(part: dict) -> dict:
    data = encode(part)
    found = decode(data)
    assert encode(found) == data
    return found


def _compared(observation: Observation) -> dict:
    raised = {what: one and dict(sorted(one.items())) for what, one in _raised(observation).items()}
    return observation.as_plain() | raised | {"ops": None, "seconds": None}


def _raised(observation: Observation) -> dict:
    """What was raised, with messages as long as they may be on the way."""
    both = {"raised": observation.raised, "backward_raised": observation.backward_raised}
    return {what: one and one | {"message": one["message"][:MAX_MESSAGE]} for what, one in both.items()}


def _sources_of(observation: Observation) -> list[str]:
    """A cell for each frame of what was raised, in which the frame's line stands."""
    frames = [frame for one in _raised(observation).values() if one for frame in one["frames"]]
    return ["\n" * (line - 1) + f"{code}\n# {where}" for line, where, code in frames]


def assert_same(a: object, b: object, storages: dict[int, int]) -> None:
    """Same types, layouts and values, and the same tensors share a storage (`storages`: a's by b's, so far)."""
    assert type(a) is type(b), f"{type(a)} became {type(b)}"
    if isinstance(a, Tensor):
        _assert_same_tensor(a, b, storages)
    elif isinstance(a, dict):
        assert len(a) == len(b)
        for one, other in zip(a.items(), b.items(), strict=True):
            assert_same(one, other, storages)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other, storages)
    elif isinstance(a, float) and math.isnan(a):
        assert math.isnan(b)
    else:
        assert a == b or a != a


def _assert_same_tensor(a: Tensor, b: Tensor, storages: dict[int, int]) -> None:
    assert _layout_of(a) == _layout_of(b)
    one, other = a.untyped_storage(), b.untyped_storage()
    assert storages.setdefault(other._cdata, one._cdata) == one._cdata, "other tensors share a storage now"
    assert list(storages.values()).count(one._cdata) == 1, "a storage has become two"
    if a.device.type == "cpu" and a.numel():
        assert torch.equal(_bytes(a), _bytes(b))


def _layout_of(tensor: Tensor) -> tuple:
    where = tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.device
    return *where, tensor.requires_grad, isinstance(tensor, Parameter)


def _bytes(tensor: Tensor) -> Tensor:
    values = torch.empty(tensor.numel(), dtype=tensor.dtype)  # a contiguous() of one element may keep its stride
    return values.copy_(tensor.detach().reshape(-1)).view(torch.uint8)
