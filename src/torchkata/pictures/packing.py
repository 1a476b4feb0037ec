"""The pictures of an explorer as one small text: what many of them share is written once, then compressed."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Frame:
    """What a page shows of one state: the picture, its words, and how far controls go in it, by their number."""

    svg: str
    words: str
    limits: Mapping[int, int] = field(default_factory=dict)


def pack(frames: Mapping[str, Frame], spec: Mapping[str, Any] | None = None) -> str:
    """Return the frames, and what the page has to know of the controls, as base64 of gzipped JSON.

    {"spec": of the controls, "lines": every different line of the SVGs, those together that differ in their numbers
    only (see `_columns`), "words": every different text, "limits": every different one, "height": of the highest
    picture in points, "frames": {key: [words, limits, line, line, ...]}}, all by number; a line's number is told by how
    far it is from that of the line before.
    """
    kinds: dict[str, dict[str, list[str]]] = {}
    for line in dict.fromkeys(line for frame in frames.values() for line in frame.svg.split("\n")):
        kinds.setdefault(NUMBER.sub("\n", line), {})[line] = NUMBER.findall(line)
    place = {line: number for number, line in enumerate(line for alike in kinds.values() for line in alike)}
    words: dict[str, int] = {}
    limits: dict[str, int] = {}
    told = {}
    for key, frame in frames.items():
        limit = json.dumps(dict(frame.limits), separators=(",", ":"))
        ways = [to - start for start, to in pairwise([0, *(place[line] for line in frame.svg.split("\n"))])]
        told[key] = [words.setdefault(frame.words, len(words)), limits.setdefault(limit, len(limits)), *ways]
    whole = {
        "spec": spec or {},
        "lines": [[kind, *_columns(alike.values())] for kind, alike in kinds.items()],
        "words": list(words),
        "limits": [json.loads(limit) for limit in limits],
        "height": max(height_of(frame.svg) for frame in frames.values()),
        "frames": told,
    }
    return packed_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")))


def packed_text(text: str) -> str:
    """Return a text as base64 of it gzipped."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def spec_in(packed: str) -> dict[str, Any]:
    """Return what was packed of the controls."""
    return _whole(packed)["spec"]


def unpack(packed: str) -> dict[str, Frame]:
    """Return the frames of `pack`, as explorer.js reads them."""
    whole = _whole(packed)
    lines = [line for kind in whole["lines"] for line in _lines(*kind)]
    return {
        key: Frame(
            "\n".join(lines[number] for number in accumulate(ways)),
            whole["words"][words],
            {int(control): most for control, most in whole["limits"][limit].items()},
        )
        for key, (words, limit, *ways) in whole["frames"].items()
    }


def _whole(packed: str) -> dict[str, Any]:
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def _columns(numbers: Iterable[list[str]]) -> list[str]:
    """The numbers of lines of one kind: all first ones, all second ones, each as one text with a number in a line.

    What stands one below another in a picture is much alike, and so it compresses better than line by line.
    """
    return ["\n".join(column) for column in zip(*numbers, strict=True)]


def _lines(kind: str, *columns: str) -> list[str]:
    """The lines of one kind; a kind has a line break in each place of a number."""
    parts, rows = kind.split("\n"), zip(*(column.split("\n") for column in columns), strict=True)
    return [_laced(parts, row) for row in rows] if columns else [kind]


def _laced(parts: list[str], numbers: tuple[Any, ...]) -> str:
    return parts[0] + "".join(number + part for number, part in zip(numbers, parts[1:], strict=True))


def height_of(svg: str) -> float:
    """The height of a card, in points."""
    return float(svg.partition('height="')[2].partition("pt")[0])
