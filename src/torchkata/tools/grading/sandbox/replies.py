"""What a worker may say: replies are taken apart and checked field by field before anyone uses them."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection
from functools import lru_cache
from typing import TypeVar

from torch import Tensor

from torchkata.verdicts.observing import MAX_PRINTED, Observation

_T = TypeVar("_T")
FIELDS = Observation.__dataclass_fields__.keys() - {"seconds"}
MAX_MESSAGE = 10_000  # characters of an exception's message or of a line of code
MAX_NAME = 200
MOST_PARAMETERS = 40  # which one of very many is named could be data
UNNAMED = ("<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # functions without a name


class BadReply(ValueError):
    """A reply that no honest worker makes."""


def observation_from(value: object, sources: list[str], parameters: Collection[str] | None = None) -> Observation:
    """An observation from what a worker sent. Raises BadReply.

    What names something could carry data of hidden tests out. `sources` are the learner's cells as they were handed in:
    frames that name no line of them are left out. `parameters` are the names that arguments can have: others are
    numbered. Where it is None, the names come from elsewhere.
    """
    own = [source.splitlines() for source in sources]
    fields = _dict(value)
    if fields.keys() != FIELDS:
        raise BadReply("not the fields of an observation")
    named = [*_named(fields["arguments"])]
    renamed = {} if parameters is None else {n: f"argument {i}" for i, n in enumerate(named, 1) if n not in parameters}
    return Observation(
        result=fields["result"],
        raised=_raised(fields["raised"], own),
        arguments=_renamed(_named(fields["arguments"]), renamed),
        tracked=_is(fields["tracked"], bool),
        gradients=_renamed({n: _optional(g, Tensor) for n, g in _named(fields["gradients"]).items()}, renamed),
        backward_raised=_raised(fields["backward_raised"], own),
        ops=_ops(_is(fields["ops"], str)),
        behind=[_text(name) for name in _list(fields["behind"])],
        called=[_text(name) for name in _list(fields["called"])],
        lost=[_text(what) for what in _list(fields["lost"])],
        replaced=[_text(name) for name in _list(fields["replaced"])],
        warned=[[_text(category), _text(message, MAX_MESSAGE)] for category, message in _pairs(fields["warned"])],
        printed=_text(fields["printed"], MAX_PRINTED),
    )


def _renamed(values: dict, names: dict[str, str]) -> dict:
    return {names.get(name, name): value for name, value in values.items()} if names else values


def parameters_of(answer: str, sources: list[str]) -> set[str]:
    """The names of the parameters of the learner's functions of this name, and of the methods of such a class; none
    where there are more than any exercise asks for."""
    names = set().union(*(_parameters(source).get(answer, frozenset()) for source in sources))
    return names if len(names) <= MOST_PARAMETERS else set()


@lru_cache(maxsize=256)
def _parameters(source: str) -> dict[str, frozenset[str]]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    own = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return {node.name: frozenset(one.arg for one in ast.walk(node) if isinstance(one, ast.arg)) for node in own}


def _is_line_of(frame: list, sources: list[list[str]]) -> bool:
    number, where, text = frame
    lines = [lines for lines in sources if 0 < number <= len(lines) and lines[number - 1].strip() == text]
    return any(where in UNNAMED or any(where in line for line in one) for one in lines)


def error_from(value: object) -> dict | None:
    """What a cell raised, or None. Raises BadReply."""
    return None if value is None else _error(value)


def names_from(value: object) -> set[str]:
    """A list of names. Raises BadReply."""
    return {_text(name) for name in _list(value)}


def _raised(value: object, sources: list[list[str]]) -> dict | None:
    if value is None:
        return None
    error = _error(value)
    return error | {"frames": [frame for frame in error["frames"] if _is_line_of(frame, sources)]}


def _error(value: object) -> dict:
    fields = _dict(value)
    types = [_text(name) for name in _list(fields.get("types"))]
    if not types:
        raise BadReply("an exception without a type")
    frames = [_list(frame) for frame in _list(fields.get("frames"))]
    if not all(len(frame) == 3 for frame in frames):
        raise BadReply("not a frame")
    return {
        "types": types,
        "stumbled": _is(fields.get("stumbled", False), bool),
        "message": _text(fields.get("message"), MAX_MESSAGE),
        "frames": [[_is(line, int), _text(where), _text(code, MAX_MESSAGE)] for line, where, code in frames[-5:]],
    }


def _ops(text: str) -> list[dict]:
    """The operations of a reply, which says each kind once, then which kind came when."""
    packed = _dict(_json(text))
    kinds = [_op(kind) for kind in _list(packed.get("kinds"))]
    order = _list(packed.get("order"))
    if not all(type(number) is int and 0 <= number < len(kinds) for number in order):
        raise BadReply("not an operation")
    return [kinds[number] for number in order]


def _op(value: object) -> dict:
    row = _list(value)
    if len(row) < 6:
        raise BadReply("not an operation")
    name, level, phase, view, device, elements, *reads = row
    return {
        "name": _text(name),
        "level": _text(level),
        "phase": _text(phase),
        "view": _is(view, bool),
        "device": None if device is None else _text(device),
        "elements": _is(elements, int),
        "reads": [_text(argument) for argument in reads],
    }


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadReply("not JSON") from None


def _named(value: object) -> dict:
    return {_text(name): item for name, item in _dict(value).items()}


def _pairs(value: object) -> list[list]:
    pairs = [_list(pair) for pair in _list(value)]
    if not all(len(pair) == 2 for pair in pairs):
        raise BadReply("not a pair")
    return pairs


def _dict(value: object) -> dict:
    return _is(value, dict)


def _list(value: object) -> list:
    return _is(value, list)


def _text(value: object, limit: int = MAX_NAME) -> str:
    return _is(value, str)[:limit]


def _optional(value: object, kind: type) -> object:
    return None if value is None else _is(value, kind)


def _is(value: object, kind: type[_T]) -> _T:
    if isinstance(value, kind) and (type(value) is kind or kind is Tensor):
        return value
    raise BadReply(f"{kind.__name__} expected")
