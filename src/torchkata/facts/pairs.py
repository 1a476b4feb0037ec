"""Two short functions, and the question whether they ever return different results: the cards in pairs.yaml.

    - id: 13-pair-one-row
      fact: 13-contiguous-copies         a fact that is taught in the same section
      input: x is a contiguous float32 tensor with two dimensions.
      imports: …                         only where the code needs more than torch, nn, F and np
      first: |
        def first(x):
            …
      second: |
        def second(x):
            …
      differ: |                          an input on which they differ
        x = torch.ones(1, 3)
      returns: ["…", "…"]                what the two return there
      because: …

A pair that never differs has, in place of `differ` and `returns`, a list `agree` of inputs on which it is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from torchkata.facts.card_file import cards_in, fault_of_texts, of_chapter
from torchkata.facts.collection import Fact, find

DATA = files("torchkata.facts") / "pairs.yaml"
ASKS = (
    "Do these two ever return different results? Each gets its own copy of the input. A difference in the last digits "
    "doesn't count, and two nan are equal."
)
SOME, NEVER = "for some input", "never"
IMPORTS = "import numpy as np\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
TEXTS = {"id", "fact", "input", "first", "second", "because"}


@dataclass(frozen=True)
class Pair:
    """Two functions, called `first` and `second`, of the same arguments.

    fact: one that is taught in the same section. input: what the arguments are, in words. inputs: code that makes the
    arguments: one input on which the two differ, or several on which they agree. returns: what the two return on the
    input on which they differ; () for a pair that never differs. because: why.
    """

    id: str
    fact: Fact
    input: str
    imports: str
    first: str
    second: str
    inputs: tuple[str, ...]
    returns: tuple[str, ...]
    because: str
    choices = (SOME, NEVER)
    folded = "input"  # what `shown` is, in a word
    runs = "run both functions"

    @property
    def answer(self) -> str:
        """One of the choices."""
        return SOME if self.returns else NEVER

    @property
    def asks(self) -> str:
        """The question, in words."""
        return f"{self.input} {ASKS}"

    @property
    def code(self) -> str:
        """Both functions."""
        return f"{self.first}\n{self.second}".rstrip()

    @property
    def shown_title(self) -> str:
        """What `shown` is, in words."""
        return "An input on which they differ" if self.returns else "Inputs on which they were run"

    @property
    def shown(self) -> str:
        """The inputs as code, and what the two return where they differ."""
        calls = [f"{name}({', '.join(self._arguments)})" for name in ("first", "second")]
        width = max(map(len, calls))
        lines = [f"{call:<{width}}  # {text}" for call, text in zip(calls, self.returns, strict=False)]
        return "\n".join([*self.inputs, *lines])

    def run(self) -> Iterator[tuple[str, Any, Any]]:
        """Each input, as code, and what the two functions return on it."""
        functions: dict[str, Any] = {}
        exec(f"{IMPORTS}{self.imports}\n{self.code}", functions)
        for code in self.inputs:
            results = []
            for name in ("first", "second"):
                names = {"torch": functions["torch"], "nn": functions["nn"], "np": functions["np"]}
                exec(code, names)
                results.append(functions[name](*(names[argument] for argument in self._arguments)))
            yield code, *results

    @property
    def _arguments(self) -> list[str]:
        return _arguments(self.first)


@cache
def all_pairs() -> tuple[Pair, ...]:
    """The pairs of all chapters, in order. Raises FactError for a faulty entry."""
    return parse(DATA.read_text(encoding="utf-8"))


def pairs(chapter: str) -> tuple[Pair, ...]:
    """The pairs of a chapter, named in full (03_gather_scatter)."""
    return of_chapter(all_pairs(), chapter)


def parse(text: str) -> tuple[Pair, ...]:
    """The pairs in the text of the file. Raises FactError, naming the entry, at the first fault."""
    return cards_in(text, DATA.name, _fault, _pair)


def _pair(entry: dict[str, Any]) -> Pair:
    return Pair(
        id=entry["id"],
        fact=find(entry["fact"]),
        input=entry["input"].strip(),
        imports=entry.get("imports", ""),
        first=entry["first"],
        second=entry["second"],
        inputs=tuple(one.rstrip() for one in entry.get("agree", [entry.get("differ")])),
        returns=tuple(entry.get("returns", ())),
        because=entry["because"].strip(),
    )


def _fault(entry: dict[str, Any]) -> str | None:
    """What is wrong with an entry, or None."""
    result = {"agree"} if "agree" in entry else {"differ", "returns"}
    if set(entry) - {"imports"} != TEXTS | result:
        return f"its fields must be {', '.join(sorted(TEXTS | result))}, and imports where it needs some"
    if fault := fault_of_texts(entry, TEXTS):
        return fault
    if len(entry.get("agree", "12")) < 2 or len(entry.get("returns", "12")) != 2:
        return "agree must have two inputs at least, and returns two texts"
    if _arguments(entry["first"]) != _arguments(entry["second"]):
        return "the two functions must have the same arguments"
    return None


def _arguments(code: str) -> list[str]:
    """The names of a function's arguments."""
    [function] = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef), code
    return [argument.arg for argument in function.args.args]
