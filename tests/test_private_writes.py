"""No module of the package writes into what torch, Python, IPython or another package keeps for itself, which each of
their releases may move. ALLOWED names each place that has to, the reason, and what happens when it moves.

These count as writes: binding or deleting an attribute of another package's module or class; binding, deleting or
changing anything that is reached through a name with an underscore, or through `vars`; taking a private function whose
name says that it changes something; `setattr`, `delattr` and `unittest.mock`; and any change of `sys.modules`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ROOT

SRC = ROOT / "src" / "torchkata"
CHANGES = re.compile(r"_+(set|push|pop|put|add|register|enable|disable|enter|clear|reset|replace|override|update)(_|$)")
CHANGING = {"append", "extend", "insert", "add", "remove", "discard", "clear", "pop", "popitem", "update", "setdefault"}
INSIDE = {"__class__", "__code__", "__dict__", "__globals__"}  # other names of this form are documented
MEANT_TO_BE_REPLACED = {("sys", "stdout"), ("sys", "stderr")}

Way = tuple[str, ...]  # from a module to what is meant: ("torch", "ones", "()", "grad") is torch.ones(…).grad


class Reason(NamedTuple):
    """Why a write is there, and what happens when what it writes into moves."""

    why: str
    moved: str


CLEAN = "an answer may leave this behind, and torch has no public way to take it back without the answer's own handle"
CLEAN_MOVED = "tests/verdicts/test_verdicts.py fails on the new release"
COUNT = "torch.profiler starts and ends this too, and then makes a table of all that it has counted, which takes long"
COUNT_MOVED = "tests/verdicts/test_sight.py fails, and all checks that ask for operations"
ALLOWED: dict[tuple[str, str], Reason] = {
    ("base/check_cell.py", "sys.modules[MODULE.__name__]"): Reason(
        "torch's compiler and pickle look up by the module's name what a check cell has defined",
        "sys.modules is documented",
    ),
    ("demos.py", "torch.storage._set_always_warn_typed_storage_removal"): Reason(
        "torch gives this warning once in a process, and its public switch for all warnings leaves this one out",
        "AttributeError in every demo that catches warnings and in every check",
    ),
    ("own_model.py", "sys.modules['my_model']"): Reason(
        "importlib's documented recipe for importing a file; the module is the learner's own",
        "sys.modules is documented",
    ),
    ("processes/running.py", "sys.modules['__main__']"): Reason(
        "multiprocessing would run the caller's script again in each new process",
        "tests/processes/test_processes.py fails: a script that runs ranks runs again in each of them",
    ),
    ("tools/course.py", "sys.modules.setdefault"): Reason(
        "reading a notebook would take a second longer where two packages are installed that it never needs",
        "reading a notebook takes longer again",
    ),
    ("tools/grading/handed_out/gradebook.py", "setattr(known[name], field, value)"): Reason(
        "a row of nbgrader's gradebook; the fields are nbgrader's documented columns", "tests/tools/grading fails"
    ),
    ("verdicts/sight.py", "autograd._enable_profiler"): Reason(COUNT, COUNT_MOVED),
    ("verdicts/sight.py", "autograd._disable_profiler"): Reason(COUNT, COUNT_MOVED),
    ("verdicts/isolation.py", "torch._GLOBAL_DEVICE_CONTEXT.device_context"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "torch._C._autograd._pop_saved_tensors_default_hooks"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "hooks.clear"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "hooks.update"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "overrides._pop_mode"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "overrides._push_mode"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "dispatch._pop_mode"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/isolation.py", "dispatch._push_mode"): Reason(CLEAN, CLEAN_MOVED),
    ("verdicts/originals.py", "setattr(self.owner, name, original)"): Reason(
        "it puts back what an answer has replaced in torch", "nothing: the names are looked up"
    ),
    ("verdicts/originals.py", "delattr(self.owner, name)"): Reason(
        "it takes away what an answer has put into torch", "nothing: the names are looked up"
    ),
}


class Reader:
    """Finds the writes of one module."""

    def __init__(self, source: str):
        self._nodes = list(ast.walk(ast.parse(source)))
        self._foreign: dict[str, Way] = {}  # names that stand for something of another package
        before = -1
        while len(self._foreign) > before:  # such a name may be given to a further name
            before = len(self._foreign)
            for node in self._nodes:
                self._note_names(node)

    def writes(self) -> Iterator[str]:
        """What is written into, as it stands in the source."""
        for node in self._nodes:
            for target in _targets(node):
                if self._counts(target):
                    yield ast.unparse(target)

    def _note_names(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._note(alias.asname or module, tuple(module.split(".")))
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    self._note(alias.asname or alias.name, (*module.split("."), alias.name))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._bind(target, value)
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                self._bind(target, value)

    def _note(self, name: str, way: Way) -> None:
        if way[0] not in ("torchkata", "__future__"):
            self._foreign.setdefault(name, way)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if (way := self._way(value)) is not None:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._note(node.id, way)

    def _way(self, node: ast.expr) -> Way | None:
        """The way to what an expression stands for; None if it begins at something of this package."""
        match node:
            case ast.Name(id=name):
                return self._foreign.get(name)
            case ast.Attribute(value=value, attr=attr):
                return self._on(value, attr)
            case ast.Call(func=ast.Name(id="vars"), args=[value]):
                return self._on(value, "__dict__")
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attr)), *_]):
                return self._on(value, attr)
            case ast.Call(func=value):
                return self._on(value, "()")
            case ast.Subscript(value=value) | ast.Starred(value=value):
                return self._on(value, "[]")
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return next(filter(None, map(self._way, parts)), None)
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
                return self._way(part)
        return None

    def _on(self, value: ast.expr, step: str) -> Way | None:
        way = self._way(value)
        return way and (*way, step)

    def _counts(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Call):
            return _is_setattr(target) or (self._way(target) or ())[:2] == ("unittest", "mock")
        if not isinstance(target, (ast.Attribute, ast.Subscript)) or (way := self._way(target)) is None:
            return False
        if any(map(_is_private, way)) or way[:2] == ("sys", "modules"):
            return True
        replaces = isinstance(target, ast.Attribute) and not isinstance(target.ctx, ast.Load)
        return replaces and not {"()", "[]"} & set(way) and way not in MEANT_TO_BE_REPLACED


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a node may write into."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(attr=attr) as called) if attr in CHANGING:
            yield called
        case ast.Call():
            yield node
        case ast.Attribute(attr=attr) if CHANGES.match(attr):
            yield node


def _is_setattr(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("setattr", "delattr", "__setattr__", "__delattr__")


def _is_private(step: str) -> bool:
    return step in INSIDE or (step.startswith("_") and not step.endswith("__"))


def writes_of_the_package() -> dict[tuple[str, str], Path]:
    """The file of each write, by the file's place in the package and what is written into."""
    return {
        (path.relative_to(SRC).as_posix(), target): path
        for path in sorted(SRC.rglob("*.py"))
        for target in Reader(path.read_text(encoding="utf-8")).writes()
    }


def test_nothing_is_written_into_what_others_keep_for_themselves():
    found = writes_of_the_package()
    assert len(found) > 5, "the reader has become blind"
    unknown = [f"{file}: {target}" for file, target in found if (file, target) not in ALLOWED]
    assert not unknown, "use public means, or add it to ALLOWED with its reason"
    assert not ALLOWED.keys() - found.keys(), "these are gone: take them out of ALLOWED"
    assert all(reason.why and reason.moved for reason in ALLOWED.values())


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch._C._set_grad_enabled(False)",
        "from torch.onnx._internal.exporter import _schemas as s\ns.op_signature_from_function = None",
        "import torch\ntorch.onnx.export = quick",
        "from torch.nn import Module\ndel Module.forward",
        "import torch\nfor place in (torch.nn.modules.module, 1):\n    vars(place)['x'] = 1",
        "import torch\nrules = torch._ops.rules\nwith lock:\n    known = rules\n    known.pop(1)",
        "import sys\nsys.modules['arrow'] = None",
        "import sys as s\ndel s.modules['arrow']",
        "import builtins\nbuiltins.print = quiet",
        "from IPython import get_ipython\nget_ipython().kernel._parents['shell'] = {}",
        "import multiprocessing as m\nm.current_process()._config['daemon'] = False",
        "import torch\npush = torch.overrides._push_mode",
        "import torch\nsetattr(torch, name, quick)",
        "from unittest.mock import patch\nwith patch('torch.onnx.export'): pass",
        "import torch\na, torch.nn.functional.relu = 1, 2",
        "import io\nmodule = io.open_code(1)\nmodule.__class__ = Other",
    ],
)
def test_a_write_is_found(source: str):
    assert list(Reader(source).writes())


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nx = torch.ones(2)\nx[0] = 1\nx.grad = None\nx.requires_grad = True",
        "import os\nos.environ['A'] = '1'",
        "import linecache\nlinecache.cache['file'] = lines",
        "import sys\nsys.stdout = sys.stderr = mine\nframe = sys._getframe(1)",
        "from torchkata.verdicts import names\nnames._open = None",
        "class A:\n    def f(self):\n        self._x = []\n        self._x.append(1)",
        "import torch\nkind = torch._C._dispatch_key_set(x)",
        "from torch.overrides import _get_current_function_mode_stack as stack\nmodes = list(stack())",
    ],
)
def test_what_is_ones_own_or_public_is_no_write(source: str):
    assert not list(Reader(source).writes())
