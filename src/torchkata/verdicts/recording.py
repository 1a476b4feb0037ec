"""Recording which torch operations ran: names as Python calls them, and ATen operations with what they touched."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchkata.verdicts.plain import MAX_DEPTH, all_plain, is_own_class
from torchkata.verdicts.sight import TORCHS, Sight, Unwatched

if TYPE_CHECKING:
    from torch._ops import OpOverload

OWN_OPERATOR = re.compile(rf"\btorch\.ops\.(?!(?:{'|'.join(sorted(TORCHS))})\.)\w+\.(\w+)")
LIFTS = frozenset(["_disable_current_modes", "_pop_mode_temporarily"])
READS_VALUES = ("item", "tolist")  # Python-level calls that read values
# Python-level calls by which somebody else than torch gets hold of a tensor's memory
HANDS_OUT = frozenset(["numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage"])
# ATen operations that take a tensor only for its storage, shape, dtype or device
READS_NOTHING = frozenset(
    ["detach", "set_", "as_strided_", "squeeze_", "t_", "transpose_", "unsqueeze_"]
    + [f"{kind}_like" for kind in ("empty", "zeros", "ones", "full", "rand", "randn", "randint")]
    + [f"new_{kind}" for kind in ("empty", "empty_strided", "zeros", "ones", "full")]
)
SHOWS = (Tensor.__repr__, Tensor.__format__)  # torch lifts all modes while it prints a tensor
_FIELDS = ("name", "level", "phase", "view", "device", "elements", "reads")


class Recorder:
    """Notes operations, each as a plain dict: name, level ("python" or "aten"), phase ("forward" or "backward"), view,
    device (of what it produced), elements (of its largest product; 0 where that size is symbolic), reads (watched
    tensors whose values it read).
    Equal notes are one dict: a loop makes thousands, of few kinds.

    It also knows of each storage which operations its values come from, and what happened out of its `sight`. Where
    somebody else holds the memory, NumPy for one, nobody knows what wrote the values: they come from no operation."""

    def __init__(self, watched: dict[str, Tensor], sight: Sight | None = None):
        self.ops: list[dict] = []
        self._kinds: dict[tuple, dict] = {}
        self.phase = "forward"
        self.sight = sight or Sight()
        self._watched = {t.untyped_storage()._cdata: name for name, t in watched.items()}
        self._bits: dict[str, int] = {}  # of each operation's name
        self._behind: dict[int, int] = {}  # by storage, the bits of the operations that its values come from
        self._shared: set[int] = set()  # storages whose memory somebody else holds too

    @contextmanager
    def recording(self, phase: str) -> Iterator[None]:
        self.phase = phase
        with _PythonCalls(self), _AtenCalls(self):
            yield

    def note_call(self, name: str, reads: list[str]) -> None:
        """A call from Python."""
        self._note((name, "python", self.phase, False, None, 0, *reads))

    def note_operation(self, name: str, view: bool, out: list[Tensor], inputs: Iterable[object]) -> None:
        """An ATen operation, with the tensors that it produced."""
        device = out[0].device.type if out else None
        elements = max(map(_elements, out), default=0)
        reads: list[str] = []
        if not view:
            with torch._C.DisableTorchFunctionSubclass():  # a subclass must not take this for a call of its own
                read, made = _storages(tensors_in(*inputs)), _storages(out)
                if any(storage in read and storage not in self._behind for storage in made):
                    self._note_foreign(out)
            reads = [] if name in READS_NOTHING else self._names_of(read)
            self._note_origin(name, made, read)
        self._note((name, "aten", self.phase, view, device, elements, *reads))

    def behind(self, values: Iterable[object]) -> list[str]:
        """The names of the ATen operations that the values of these tensors come from."""
        known = 0
        with torch._C.DisableTorchFunctionSubclass():
            storages = _storages(tensors_in(*values))
        for storage in storages:
            known |= self._behind.get(storage, 0)
        return [name for name, bit in self._bits.items() if known & bit]

    def note_shared(self, values: Iterable[object]) -> None:
        """Somebody else gets hold of the memory of these tensors."""
        with torch._C.DisableTorchFunctionSubclass():
            storages = _storages(tensors_in(*values))
        self._shared.update(storages)
        for storage in storages:
            self._behind.pop(storage, None)

    def _note_foreign(self, written: list[Tensor]) -> None:
        """Those of the tensors whose memory torch has not set aside itself, as after `torch.from_numpy`."""
        storages = [t.untyped_storage() for t in written if t.layout == torch.strided]
        self._shared.update(storage._cdata for storage in storages if not storage.resizable())

    def _note_origin(self, name: str, made: list[int], read: list[int]) -> None:
        bits = self._bits.setdefault(name, 1 << len(self._bits))
        for storage in read:
            bits |= self._behind.get(storage, 0)
        if self._shared:
            self._shared -= {*made} - {*read}  # a new one may lie where an old one has been
            made = [storage for storage in made if storage not in self._shared]
        self._behind.update(dict.fromkeys(made, bits))

    def _note(self, kind: tuple) -> None:
        op = self._kinds.get(kind)
        if op is None:
            op = self._kinds[kind] = dict(zip(_FIELDS, (*kind[:6], list(kind[6:])), strict=True))
        self.ops.append(op)

    def touched(self, inputs: Iterable[object]) -> list[str]:
        """The watched tensors among these."""
        with torch._C.DisableTorchFunctionSubclass():
            return self._names_of(_storages(tensors_in(*inputs)))

    def _names_of(self, storages: list[int]) -> list[str]:
        if self._watched.keys().isdisjoint(storages):
            return []
        return list(dict.fromkeys(self._watched[one] for one in storages if one in self._watched))


def _storages(tensors: list[Tensor]) -> list[int]:
    return [t.untyped_storage()._cdata for t in tensors if t.layout == torch.strided]


def own_operators(code: CodeType) -> set[str]:
    """The operators, not torch's own, that the source in which this code stands calls by name, as torch.ops.kata.interp
    is: of those that an exercise asks for, nobody has to see how they work."""
    return set(OWN_OPERATOR.findall("".join(linecache.getlines(code.co_filename))))


def lifts_modes(scenario: FunctionType) -> bool:
    """Whether a scenario itself takes the recorder away for a while, in its code or that of functions beside it."""
    codes, seen = [scenario.__code__], {scenario.__code__}
    for code in codes:  # grows while it is gone through
        if LIFTS & {*code.co_names}:
            return True
        beside = (getattr(scenario.__globals__.get(name), "__code__", None) for name in code.co_names)
        inner = [one for one in (*code.co_consts, *beside) if isinstance(one, CodeType) and one not in seen]
        codes += [one for one in inner if one.co_filename == scenario.__code__.co_filename]
        seen.update(inner)
    return False


class Unrecorded:
    """In the place of a Recorder where nobody asks for operations."""

    def __init__(self) -> None:
        self.ops: list[dict] = []
        self.sight = Unwatched()

    def recording(self, phase: str) -> nullcontext:
        return nullcontext()

    def behind(self, values: Iterable[object]) -> list[str]:
        return []


def _elements(tensor: Tensor) -> int:
    count = tensor.numel()
    return count if type(count) is int else 0  # to ask for a symbolic size would fix it


def tensors_in(*values: object, depth: int = 0) -> list[Tensor]:
    """The tensors in these values, in order: in tuples, lists and dicts too, as deep as plain data goes. In place of
    pytree's leaves, which take longer than most operations, and forever for a list that holds itself."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif depth > MAX_DEPTH:
            continue
        elif isinstance(value, (tuple, list)):
            found += tensors_in(*value, depth=depth + 1)
        elif isinstance(value, dict):
            found += tensors_in(*value.values(), depth=depth + 1)
    return found


class _PythonCalls(TorchFunctionMode):
    def __init__(self, recorder: Recorder):
        self.recorder = recorder

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> Any:
        with self.recorder.sight.known() if func in SHOWS and all_plain(args) else nullcontext():
            out = func(*args, **(kwargs or {}))
        name = _python_name(func)
        if name in HANDS_OUT:
            self.recorder.note_shared(args)
        reads = self.recorder.touched(args) if name in READS_VALUES else []
        self.recorder.note_call(name, reads)
        return out


def _python_name(func: object) -> str:
    name = getattr(func, "__name__", "?")
    if name in ("__get__", "__set__"):  # a property, such as Tensor.shape
        return getattr(getattr(func, "__self__", None), "__name__", name)
    return name


class _AtenCalls(TorchDispatchMode):
    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: to skip it, torch would import torch._dynamo, which takes a second, at the first observation."""
        return False

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        whole = _is_torchs(func) and not any(map(is_own_class, types))
        with self.recorder.sight.seen(whole, func._schema.name):
            out = func(*args, **(kwargs or {}))
        inputs = (*args, *kwargs.values()) if kwargs else args
        self.recorder.note_operation(_aten_name(func), func.is_view, tensors_in(out), inputs)
        return out


@cache
def _is_torchs(func: OpOverload) -> bool:
    return func.namespace in TORCHS


@cache
def _aten_name(func: OpOverload) -> str:
    return func._schema.name.split("::")[-1]
