"""Wrong answers made from a right one: the solution in an answer cell, with one token changed at a time.

What is changed are operators, numbers, True and False, names with a sibling (`min` and `max`, `sum` and `mean`),
arguments (dropped, exchanged), calls (dropped, so that what they are called on is left), conditions, slices, kinds of
exceptions and whole statements. Each change is one of the text, so that a mutant reads as its author wrote it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchkata.base.marks import SOLUTION, regions

SIBLINGS = [
    ("min", "max"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("minimum", "maximum"),
    ("cummin", "cummax"),
    ("sum", "mean"),
    ("sum", "prod"),
    ("std", "var"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("new_zeros", "new_ones"),
    ("any", "all"),
    ("exp", "expm1"),
    ("log", "log1p"),
    ("sin", "cos"),
    ("tril", "triu"),
    ("ceil", "floor"),
    ("isfinite", "isnan"),
    ("softmax", "log_softmax"),
    ("stack", "cat"),
    ("parameters", "buffers"),
    ("named_parameters", "named_buffers"),
    ("train", "eval"),
    ("float16", "bfloat16"),
    ("keys", "values"),
    ("AVG", "SUM"),
    ("MIN", "MAX"),
]
ONE_WAY = [
    ("isfinite", "isinf"),
    ("isnan", "isinf"),
    ("round", "floor"),
    ("reshape", "view"),
    ("modules", "children"),
    ("named_modules", "named_children"),
    ("float64", "float32"),
    ("int64", "int32"),
    ("no_grad", "enable_grad"),
    ("no_grad", "inference_mode"),
    ("detach", "clone"),
    ("clone", "detach"),
    ("square", "abs"),
    ("scatter_add", "scatter"),
    ("scatter_add_", "scatter_"),
    ("requires_grad", "is_leaf"),
]
OTHER_NAMES: dict[str, list[str]] = {}
for one, other in [*SIBLINGS, *((b, a) for a, b in SIBLINGS), *ONE_WAY]:
    OTHER_NAMES.setdefault(one, []).append(other)
BUILT_IN = ("min", "max", "any", "all")  # names that are no attributes and have a sibling
IN_TEXT = ("sum", "mean", "amin", "amax", "prod")  # reductions that are named in a string
COMPARISONS = {
    ast.Lt: ("<", ["<=", ">="]),
    ast.LtE: ("<=", ["<", ">"]),
    ast.Gt: (">", [">=", "<="]),
    ast.GtE: (">=", [">", "<"]),
    ast.Eq: ("==", ["!="]),
    ast.NotEq: ("!=", ["=="]),
    ast.Is: ("is", ["is not"]),
    ast.IsNot: ("is not", ["is"]),
    ast.In: ("in", ["not in"]),
    ast.NotIn: ("not in", ["in"]),
}
OPERATORS = {
    ast.Add: ("+", ["-"]),
    ast.Sub: ("-", ["+"]),
    ast.Mult: ("*", ["/"]),
    ast.Div: ("/", ["*", "//"]),
    ast.FloorDiv: ("//", ["/"]),
    ast.Mod: ("%", ["//"]),
    ast.Pow: ("**", ["*"]),
    ast.MatMult: ("@", ["*"]),
    ast.BitAnd: ("&", ["|"]),
    ast.BitOr: ("|", ["&"]),
    ast.BitXor: ("^", ["&"]),
    ast.LShift: ("<<", [">>"]),
    ast.RShift: (">>", ["<<"]),
}
PACKAGES = ("torch", "F", "nn", "dist", "math", "np", "copy", "os")  # a call on one of these has no object
CAN_GO = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Assert, ast.Nonlocal)


@dataclass(frozen=True)
class Mutant:
    """A changed answer cell. was, now: the lines that differ, without their indent; line: the number of the first."""

    line: int
    was: str
    now: str
    source: str

    @property
    def key(self) -> tuple[str, str]:
        """By which it is listed in tests/mutants.yaml."""
        return self.was, self.now


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of the solution in an answer cell, in the order of its lines; each is a valid cell."""
    text = _Text(source)
    tree = ast.parse(source)
    lines = [(region.first, region.last) for region in regions(source, SOLUTION)]
    found: dict[str, Mutant] = {}
    for node in _code_in(tree):
        if any(first < node.lineno < last for first, last in lines):  # type: ignore[attr-defined]
            for edit in _edits(node, text):
                changed = text.edited(edit)
                if changed not in found and _is_another(changed, tree):
                    found[changed] = text.mutant(edit, changed)
    return sorted(found.values(), key=lambda one: one.line)


def _is_another(changed: str, tree: ast.Module) -> bool:
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(tree)
    except SyntaxError:
        return False


def _code_in(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below this one that have a place, without annotations, docstrings and the words of messages."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            if hasattr(child, "lineno"):
                yield child
            if not isinstance(child, ast.Raise):
                yield from _code_in(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


class _Text:
    """A source by its bytes, in which ast counts."""

    def __init__(self, source: str):
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> str:
        return self._bytes[self.start(node) : self.end(node)].decode()

    def replaced(self, node: ast.AST, text: str) -> _Edit:
        return _Edit(self.start(node), self.end(node), text)

    def between(self, left: ast.AST, right: ast.AST, was: str, now: str) -> Iterator[_Edit]:
        """The token `was` between two nodes, replaced."""
        gap = self._bytes[self.end(left) : self.start(right)].decode()
        if was in gap:
            place = self.end(left) + len(gap[: gap.index(was)].encode())
            yield _Edit(place, place + len(was.encode()), now)

    def edited(self, edit: _Edit) -> str:
        return (self._bytes[: edit.start] + edit.text.encode() + self._bytes[edit.end :]).decode()

    def mutant(self, edit: _Edit, changed: str) -> Mutant:
        line = self._bytes[: edit.start].count(b"\n")
        behind = self._bytes[edit.end :].count(b"\n")
        before, after = self._bytes.decode().split("\n"), changed.split("\n")
        was, now = (" ".join(map(str.strip, lines[line : len(lines) - behind])) for lines in (before, after))
        return Mutant(line + 1, was, now, changed)


def _edits(node: ast.AST, text: _Text) -> Iterator[_Edit]:
    """The changes to one node, without those to the nodes below it."""
    match node:
        case ast.Compare():
            for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                was, others = COMPARISONS[type(op)]
                for now in others:
                    yield from text.between(left, right, was, now)
        case ast.BinOp():
            was, others = OPERATORS[type(node.op)]
            for now in others:
                yield from text.between(node.left, node.right, was, now)
            yield text.replaced(node, text.of(node.left))
        case ast.AugAssign():
            was, others = OPERATORS[type(node.op)]
            for now in [*(f"{one}=" for one in others), "="]:
                yield from text.between(node.target, node.value, f"{was}=", now)
        case ast.BoolOp():
            was, now = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from text.between(left, right, was, now)
            for dropped in node.values:
                rest = f" {was} ".join(text.of(one) for one in node.values if one is not dropped)
                yield text.replaced(node, rest)
        case ast.UnaryOp():
            yield text.replaced(node, text.of(node.operand))
        case ast.Constant():
            yield from (text.replaced(node, now) for now in _other_constants(node.value))
        case ast.Call():
            yield from _edits_of_call(node, text)
        case ast.Attribute(attr=name):
            end = text.end(node)
            yield from (_Edit(end - len(name), end, now) for now in OTHER_NAMES.get(name, []))
        case ast.Name(id=name) if name in BUILT_IN:
            yield from (text.replaced(node, now) for now in OTHER_NAMES[name])
        case ast.IfExp():
            yield text.replaced(node, text.of(node.body))
            yield text.replaced(node, text.of(node.orelse))
        case ast.Slice():
            yield from (text.replaced(one, "") for one in (node.lower, node.upper, node.step) if one)
        case ast.Return(value=ast.expr()):
            yield text.replaced(node, "return None")
        case ast.Break():
            yield text.replaced(node, "continue")
        case ast.Continue():
            yield text.replaced(node, "break")
    yield from _edits_of_statement(node, text)


def _edits_of_call(node: ast.Call, text: _Text) -> Iterator[_Edit]:
    """Without one argument, with two of them exchanged, or no call at all: what it is called on, or its argument."""
    arguments = [text.of(one) for one in node.args] + [
        f"{one.arg}={text.of(one.value)}" if one.arg else f"**{text.of(one.value)}" for one in node.keywords
    ]
    function, exchangeable = text.of(node.func), len(node.args) - 1
    for place in range(len(arguments)):
        yield text.replaced(node, f"{function}({', '.join(arguments[:place] + arguments[place + 1 :])})")
    for place in range(exchangeable):
        swapped = list(arguments)
        swapped[place : place + 2] = reversed(swapped[place : place + 2])
        yield text.replaced(node, f"{function}({', '.join(swapped)})")
    match node.func:
        case ast.Attribute(value=ast.Name(id=name)) if name in PACKAGES:
            pass
        case ast.Attribute(value=value):
            yield text.replaced(node, text.of(value))
            return
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield text.replaced(node, text.of(node.args[0]))


def _edits_of_statement(node: ast.AST, text: _Text) -> Iterator[_Edit]:
    """Without the statement, or with its condition always or never true."""
    if isinstance(node, CAN_GO):
        yield text.replaced(node, "pass")
    match node:
        case ast.If() | ast.While():
            yield text.replaced(node.test, "False")
            if isinstance(node, ast.If):
                yield text.replaced(node.test, "True")
        case ast.With():
            last = node.items[-1].optional_vars or node.items[-1].context_expr
            if not any(one.optional_vars for one in node.items):
                yield _Edit(text.start(node), text.end(last), "if True")
        case ast.Raise(exc=ast.Call(func=ast.Name() as kind)):
            yield text.replaced(kind, "Exception")
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from (text.replaced(test, "True") for one in node.generators for test in one.ifs)
        case ast.FunctionDef() | ast.ClassDef():
            for one in node.decorator_list:
                if text.of(one) != "staticmethod":  # which is as good as none for what is called on its class
                    yield _Edit(text.start(one) - 1, text.end(one), "")


def _other_constants(value: object) -> Iterable[str]:
    match value:
        case bool():
            return [str(not value)]
        case int():
            return [str(value + 1), str(value - 1)] if value else ["1", "-1"]
        case float():
            return [repr(value * 2), repr(value / 2)] if value else ["1.0"]
        case str() if value in IN_TEXT:
            return [f'"{other}"' for other in OTHER_NAMES[value]]
    return []
