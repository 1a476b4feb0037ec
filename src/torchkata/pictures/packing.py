"""The pictures of an explorer as one small text: lines that many of them share are written once, then compressed."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Frame:
    """What a page shows of one state: the picture, its words, and how far controls go in it, by their number."""

    svg: str
    words: str
    limits: Mapping[int, int] = field(default_factory=dict)


def pack(frames: Mapping[str, Frame]) -> str:
    """Return the frames as base64 of gzipped JSON.

    {"lines": every different line of the SVGs, "words": every different text, "limits": every different one,
    "height": of the highest picture in points, "frames": {key: [words, limits, line, line, ...]}}, all by number.
    """
    lines: dict[str, int] = {}
    words: dict[str, int] = {}
    limits: dict[str, int] = {}
    told = {}
    for key, frame in frames.items():
        numbers = [lines.setdefault(line, len(lines)) for line in frame.svg.split("\n")]
        limit = json.dumps(dict(frame.limits), separators=(",", ":"))
        told[key] = [words.setdefault(frame.words, len(words)), limits.setdefault(limit, len(limits)), *numbers]
    whole = {
        "lines": list(lines),
        "words": list(words),
        "limits": [json.loads(limit) for limit in limits],
        "height": max(height_of(frame.svg) for frame in frames.values()),
        "frames": told,
    }
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def unpack(packed: str) -> dict[str, Frame]:
    """Return the frames of `pack`, as explorer.js reads them."""
    whole = json.loads(gzip.decompress(base64.b64decode(packed)))
    return {
        key: Frame(
            "\n".join(whole["lines"][number] for number in numbers),
            whole["words"][words],
            {int(control): most for control, most in whole["limits"][limit].items()},
        )
        for key, (words, limit, *numbers) in whole["frames"].items()
    }


def height_of(svg: str) -> float:
    """The height of a card, in points."""
    return float(svg.partition('height="')[2].partition("pt")[0])
