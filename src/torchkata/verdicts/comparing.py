"""Compare what came with what was expected, in the order in which a person would look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torchkata.verdicts.grids import first_places, grids, number, wrong_places
from torchkata.verdicts.plain import Other
from torchkata.verdicts.tolerances import are_known, tolerances

# the stages of a comparison, in order; a judgement names the first one that fails
STAGES = ("raised", "type", "shape", "dtype", "device", "aliasing", "value", "arguments", "gradient", "rule")
DIFFER = "the values differ"
MAX_BITS = 4096  # of an int that is written out; Python refuses to write more than 4300 digits


@dataclass(frozen=True)
class Difference:
    """The first stage at which two values differ, and what differs in words; where these show data of the test,
    `guarded` are words that don't.

    blocks: both values as (label, text) to be laid one below the other, where words are not enough.
    """

    stage: str
    detail: str
    guarded: str = ""
    blocks: tuple[tuple[str, str], ...] = ()


def difference(
    came: object, expected: object, rtol: float | None = None, atol: float | None = None
) -> Difference | None:
    """The first difference between two plain values, or None.

    Tensors: shape, dtype, device, then values as torch.testing.assert_close does (nan equals nan; its default
    tolerances unless `rtol` and `atol` are given; integers and bools exactly). Containers item by item; bool is no int.
    """
    if isinstance(expected, Tensor):
        return _tensor_difference(came, expected, rtol, atol)
    if isinstance(expected, dict):
        return _dict_difference(came, expected, rtol, atol)
    if isinstance(expected, (list, tuple)):
        return _sequence_difference(came, expected, rtol, atol)
    if type(came) is not type(expected) and not _both_numbers(came, expected):
        return Difference("type", f"expected {kind(expected)}, got {kind(came)}", f"expected {kind(expected)}")
    if isinstance(expected, float) and isinstance(came, (int, float)):
        same = _close(torch.tensor(float(came)).double(), torch.tensor(expected).double(), rtol, atol)
    else:
        same = came == expected
    return None if same else Difference("value", f"expected {_spelled(expected)}, got {_spelled(came)}", DIFFER)


def same_values(came: object, other: object, rtol: float | None = None, atol: float | None = None) -> bool:
    """Whether two results agree in shape and values, whatever their dtypes: the test for a known misconception."""
    if isinstance(came, Tensor) and isinstance(other, Tensor):
        if came.shape != other.shape or came.device.type == "meta" or other.device.type == "meta":
            return False
        common = torch.promote_types(came.dtype, other.dtype)
        if common == torch.bool:
            return torch.equal(came.detach(), other.detach())
        if rtol is None and common.is_floating_point:
            rtol, atol = (1e-4, 1e-5) if common in (torch.float32, torch.float64) else (2e-2, 2e-2)
        return _close(came.detach().to(common), other.detach().to(common), rtol, atol)
    if isinstance(came, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(came) == len(other) and all(same_values(a, b) for a, b in zip(came, other, strict=True))
    return difference(came, other, rtol, atol) is None


def _tensor_difference(came: object, expected: Tensor, rtol: float | None, atol: float | None) -> Difference | None:
    if not isinstance(came, Tensor):
        return Difference("type", f"expected a tensor, got {kind(came)}", "expected a tensor")
    if came.shape != expected.shape:
        wanted = f"expected shape {tuple(expected.shape)}"
        dimensions = f"{came.dim()} dimension{'s' * (came.dim() != 1)}"
        return Difference("shape", f"{wanted}, got {tuple(came.shape)}", f"{wanted}, got {dimensions}")
    if came.dtype != expected.dtype:
        return Difference("dtype", f"expected {expected.dtype}, got {came.dtype}")
    if came.device != expected.device:
        return Difference("device", f"expected device {expected.device}, got {came.device}")
    came, expected = came.detach(), expected.detach()
    if expected.device.type == "meta" or _close(came, expected, rtol, atol):
        return None
    return _value_difference(came, expected, rtol, atol)


def _dict_difference(came: object, expected: dict, rtol: float | None, atol: float | None) -> Difference | None:
    if not isinstance(came, dict):
        return Difference("type", f"expected a dict, got {kind(came)}", "expected a dict")
    if missing := [k for k in expected if k not in came]:
        return Difference("shape", f"missing: {', '.join(map(str, missing))}")
    if extra := [k for k in came if k not in expected]:
        return Difference("shape", f"not asked for: {', '.join(map(str, extra))}", "something was not asked for")
    return _first_of(((f"{k}", came[k], v) for k, v in expected.items()), rtol, atol)


def _sequence_difference(
    came: object, expected: list | tuple, rtol: float | None, atol: float | None
) -> Difference | None:
    if not isinstance(came, (list, tuple)) or (isinstance(expected, tuple) != isinstance(came, tuple)):
        return Difference("type", f"expected {kind(expected)}, got {kind(came)}", f"expected {kind(expected)}")
    if len(came) != len(expected):
        wanted = f"expected {len(expected)} items"
        return Difference(
            "shape", f"{wanted}, got {len(came)}", f"{wanted}, got {'more' if len(came) > len(expected) else 'fewer'}"
        )
    pairs = enumerate(zip(came, expected, strict=True))
    return _first_of(((f"item {i}", a, b) for i, (a, b) in pairs), rtol, atol)


def _first_of(
    triples: Iterable[tuple[str, object, object]], rtol: float | None, atol: float | None
) -> Difference | None:
    found = [
        replace(d, detail=f"{path}: {d.detail}", guarded=d.guarded and f"{path}: {d.guarded}")
        for path, a, b in triples
        if (d := difference(a, b, rtol, atol)) is not None
    ]
    return min(found, key=lambda d: STAGES.index(d.stage), default=None)


def _both_numbers(a: object, b: object) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (a, b))


def _close(came: Tensor, expected: Tensor, rtol: float | None, atol: float | None) -> bool:
    if torch.equal(came, expected):  # mostly so, and fast
        return True
    plain = came.layout == expected.layout == torch.strided and not (came.is_quantized or expected.is_quantized)
    if plain and came.dtype == expected.dtype and are_known(came.dtype):
        rtol, atol = tolerances(came.dtype, rtol, atol)
        return bool(torch.isclose(came, expected, rtol=rtol, atol=atol, equal_nan=True).all())
    try:  # knows every kind of tensor; its first call takes most of a second, for what it loads
        torch.testing.assert_close(came, expected, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False)
    except AssertionError:
        return False
    return True


def _value_difference(came: Tensor, expected: Tensor, rtol: float | None, atol: float | None) -> Difference:
    """How two tensors of one shape and dtype differ: both of them when small, else how many values, and by how much."""
    if expected.dim() == 0:
        return Difference("value", f"expected {show(expected)}, got {show(came)}", DIFFER)
    wrong = wrong_places(came, expected, rtol, atol)
    detail = f"{int(wrong.sum())} of {expected.numel()} values differ"
    if shown := grids(expected, came, wrong):
        return Difference("value", detail, DIFFER, (("expected", shown[0]), ("got", shown[1])))
    if wrong.any() and not came.is_complex():
        largest = (came.double() - expected.double())[wrong].abs().max()
        detail += f", the largest difference is {float(largest):.4g}"
    return Difference("value", detail, DIFFER, (("such as", first_places(expected, came, wrong)),))


def kind(value: object) -> str:
    """The type of a plain value in words."""
    if value is None:
        return "None"
    if isinstance(value, Other):
        return f"a {value.type}"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


def show(value: object, room: int = 100) -> str:
    """A plain value in a few words: small tensors with their values, large ones by shape and dtype; of what does not
    fit in so many characters, the beginning, with its brackets closed."""
    if isinstance(value, Tensor):
        if value.device.type == "meta" or value.numel() > 12:
            return f"tensor of shape {tuple(value.shape)}, {value.dtype}"
        values = value.detach().tolist()
        note = "" if value.dtype in (torch.float32, torch.int64, torch.bool) else f", dtype={value.dtype}"
        return f"tensor({_numbers(values)}{note})"
    if isinstance(value, Other):
        return f"a {value.type}"
    if isinstance(value, dict):
        return f"{{{_some([f'{show(k, room)}: {show(v, room)}' for k, v in value.items()], room)}}}"
    if isinstance(value, list):
        return f"[{_some([show(v, room) for v in value], room)}]"
    if isinstance(value, tuple):
        return f"({_some([show(v, room) for v in value], room)}{',' * (len(value) == 1)})"
    text = _spelled(value)
    if len(text) <= room:
        return text
    return f"{text[: room - 4]}...{text[0]}" if isinstance(value, str) else f"{text[: room - 3]}..."


def _spelled(value: object) -> str:
    """Its repr; of an int that Python would not write out, its length."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"an int of {value.bit_length()} bits"
    return repr(value)


def _some(texts: list[str], room: int) -> str:
    """As many of the items as fit, and how many there are."""
    whole = ", ".join(texts)
    if len(whole) <= room:
        return whole
    fitting = 0
    while len(", ".join(texts[: fitting + 1])) <= room - 20:
        fitting += 1
    return ", ".join([*texts[: max(fitting, 1)], f"... {len(texts)} in all"])


def _numbers(values: object) -> str:
    return f"[{', '.join(map(_numbers, values))}]" if isinstance(values, list) else number(values)
