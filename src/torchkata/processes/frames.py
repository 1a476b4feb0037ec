"""Lines of code that were running on a rank: whose they are, and what a rank that hangs waits for."""

from __future__ import annotations

import ast
import linecache
import site
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PLUMBING = ("wrapper", "_wrapped_call_impl", "_call_impl")  # names of torch that tell nothing
_COLLECTIVES = "distributed_c10d.py"  # the file of torch with all collectives, send and recv


@dataclass(frozen=True)
class Frame:
    """A line of code that was running on a rank."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The line's text, without indentation; empty when it is not known here."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def is_own(self) -> bool:
        """Whether it is neither Python's, torch's nor another package's, nor this one's."""
        return not self.file.startswith((*_libraries(), "<frozen", "<string>"))

    def __str__(self) -> str:
        return f"line {self.line} of {self.function}: {self.source}"


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of all that nobody wrote in a notebook."""
    folders = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    if (torch := find_spec("torch")) and torch.origin:  # it may lie anywhere: PYTHONPATH, a .pth file
        place = Path(torch.origin).parent
        with_others = any(place.parent.glob("torch-*.dist-info"))
        folders.add(str(place.parent if with_others else place))
    return tuple(str(Path(folder) / "x")[:-1] for folder in folders)  # each ends where the names in it begin


def innermost_own(stack: Sequence[Frame]) -> Frame | None:
    """The last line of the caller's own code in a stack, outermost frame first."""
    return next((frame for frame in reversed(stack) if frame.is_own), None)


def waits_in(stack: Sequence[Frame]) -> str:
    """The collective that a rank's own line has called; else the function of torch; "" where it has called none."""
    own = max((i for i, frame in enumerate(stack) if frame.is_own), default=None)
    if own is None:
        return ""
    called = [frame for frame in stack[own + 1 :] if frame.function not in _PLUMBING]
    collectives = [f.function for f in called if f.file.endswith(_COLLECTIVES) and not f.function.startswith("_")]
    if collectives:
        return collectives[0]
    if called and called[0].function == "__init__":
        return next((name for name in _calls_on(stack[own]) if name[0].isupper()), "__init__")
    if called:
        return called[0].function
    return _begun_by(stack[own]) if ".wait(" in stack[own].source else ""


def _calls_on(frame: Frame) -> list[str]:
    return [_name(call) for call in ast.walk(_tree(frame)) if isinstance(call, ast.Call) and call.lineno == frame.line]


def _begun_by(frame: Frame) -> str:
    """The operation whose handle a line waits for: `wait` itself is native and has no frame."""
    story = _story(frame)
    handles = [
        call.func.value
        for call in ast.walk(story)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "wait"
        if _is_on(call, frame.line)
    ]
    for handle in handles:
        if names := list(_begun(handle)) or _assigned(story, handle):
            return names[-1]
    return " or ".join(dict.fromkeys(_begun(story))) or "an operation that it began before"


def _begun(node: ast.AST) -> Iterator[str]:
    """Names of the operations that the calls in a node begin and leave to run."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            is_async = any(word.arg == "async_op" for word in call.keywords)
            if is_async or _name(call) in ("isend", "irecv", "batch_isend_irecv"):
                yield _name(call)


def _assigned(story: ast.AST, handle: ast.expr) -> list[str]:
    """The operations whose handles were given the name that `handle` is."""
    found = []
    for node in ast.walk(story):
        if isinstance(node, ast.Assign) and isinstance(handle, ast.Name):
            for target in node.targets:
                found += [name for value in _given(target, node.value, handle.id) for name in _begun(value)]
    return found


def _given(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr]:
    """What an assignment gives to a name: `sending, receiving = dist.isend(a, 1), dist.irecv(b, 0)` has two."""
    if isinstance(target, ast.Name):
        return [value] if target.id == name else []
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return [found for one, given in pairs for found in _given(one, given, name)]
    return []


def _is_on(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _story(frame: Frame) -> ast.AST:
    """The innermost function that holds the frame's line; the whole file for a line outside of functions."""
    tree = _tree(frame)
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_on(node, frame.line)
    ]
    return max(around, key=lambda node: node.lineno, default=tree)


def _tree(frame: Frame) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(frame.file)))
    except (SyntaxError, ValueError):  # a cell with magics
        return ast.Module([], [])


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", None) or getattr(call.func, "id", "") or "?"
