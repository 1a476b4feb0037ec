"""What a worker may say: replies are taken apart and checked field by field before anyone uses them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from torch import Tensor

from torchkata.verdicts.observing import MAX_PRINTED, Observation

_T = TypeVar("_T")
FIELDS = Observation.__dataclass_fields__.keys() - {"seconds"}
MAX_MESSAGE = 10_000  # characters of an exception's message or of a line of code
MAX_NAME = 200
SHORT = 20_000  # characters of operations that are kept in memory
RAISED = ("raised", "backward_raised")  # what an observation tells of exceptions,
WORDS = ("message", "frames")  # and the parts of it that are seldom looked at
NO_WORDS: dict = {"message": "", "frames": []}
UNNAMED = ("<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # functions without a name


class Reply(NamedTuple):
    """What a worker sends, as two messages: what it has to say, and the words of exceptions in it, which stand apart
    as they are seldom looked at; empty where nothing was raised."""

    said: bytes
    words: bytes = b""


class BadReply(ValueError):
    """A reply that no honest worker makes."""


class Raised(Mapping):
    """What was raised, as in `Observation.raised`; its words are asked for when somebody looks at them."""

    def __init__(self, known: dict, words: Callable[[], dict]):
        self._known, self._words = known, words

    def __getitem__(self, part: str) -> object:
        return self._known[part] if part in self._known else self._words()[part]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._known, *WORDS))

    def __len__(self) -> int:
        return len(self._known) + len(WORDS)


def observation_from(value: object, words: Callable[[], dict]) -> Observation:
    """An observation from what a worker sent; `words` gives what `words_from` has read. Raises BadReply."""
    fields = _dict(value)
    if fields.keys() != FIELDS:
        raise BadReply("not the fields of an observation")
    return Observation(
        result=fields["result"],
        raised=_raised(fields["raised"], lambda: words()["raised"]),
        arguments=_named(fields["arguments"]),
        identical=[_text(name) for name in _list(fields["identical"])],
        tracked=_is(fields["tracked"], bool),
        gradients={name: _optional(g, Tensor) for name, g in _named(fields["gradients"]).items()},
        backward_raised=_raised(fields["backward_raised"], lambda: words()["backward_raised"]),
        ops=_ops(_is(fields["ops"], str)),
        warned=[[_text(category), _text(message, MAX_MESSAGE)] for category, message in _pairs(fields["warned"])],
        printed=_text(fields["printed"], MAX_PRINTED),
    )


def words_from(value: object) -> dict[str, dict]:
    """The words of what an observation says was raised: message and frames. Raises BadReply."""
    told = _dict(value)
    return {what: _words(told.get(what, NO_WORDS)) for what in RAISED}


def with_own_frames(words: dict[str, dict], sources: list[str]) -> dict[str, dict]:
    """The same with those frames only that name a line of the learner's cells, as these were handed in: a frame could
    carry data of hidden tests out."""
    own = [source.splitlines() for source in sources]
    return {what: one | {"frames": [f for f in one["frames"] if _is_line_of(f, own)]} for what, one in words.items()}


def _is_line_of(frame: list, sources: list[list[str]]) -> bool:
    number, where, text = frame
    lines = [lines for lines in sources if 0 < number <= len(lines) and lines[number - 1].strip() == text]
    return any(where in UNNAMED or any(where in line for line in one) for one in lines)


def error_from(value: object) -> dict | None:
    """What a cell raised, or None. Raises BadReply."""
    return None if value is None else _kind_of_error(value) | _words(value)


def names_from(value: object) -> set[str]:
    """A list of names. Raises BadReply."""
    return {_text(name) for name in _list(value)}


def _raised(value: object, words: Callable[[], dict]) -> Raised | None:
    return None if value is None else Raised(_kind_of_error(value), words)


def _kind_of_error(value: object) -> dict:
    fields = _dict(value)
    types = [_text(name) for name in _list(fields.get("types"))]
    if not types:
        raise BadReply("an exception without a type")
    return {"types": types, "stumbled": _is(fields.get("stumbled", False), bool)}


def _words(value: object) -> dict:
    fields = _dict(value)
    frames = [_list(frame) for frame in _list(fields.get("frames"))]
    if not all(len(frame) == 3 for frame in frames):
        raise BadReply("not a frame")
    return {
        "message": _text(fields.get("message"), MAX_MESSAGE),
        "frames": [[_is(line, int), _text(where), _text(code, MAX_MESSAGE)] for line, where, code in frames[-5:]],
    }


def _ops(text: str) -> list[dict]:
    return list(_known_ops(text) if len(text) <= SHORT else _unpacked(text))


@lru_cache(maxsize=1024)
def _known_ops(text: str) -> tuple[dict, ...]:
    """The same answers do the same operations, submission after submission."""
    return tuple(_unpacked(text))


def _unpacked(text: str) -> list[dict]:
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
