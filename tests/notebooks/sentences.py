"""The sentences that check cells can say, as they stand in their source, and which of them the wrong answers hear.

A sentence of an f-string, or with "{detail}" or "{}" in it, has gaps. A line `# says: …` of an answer hears the
sentence, or the sentences, in which most of its letters stand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

GAP = "\0"
_WORDS = re.compile(rf"[A-Z`{GAP}].*[.?!:{GAP}]", re.S)
_ITEM = re.compile(r"[^:]+ = .*?: (?=[A-Z])")  # what precedes the sentence on an item of a prediction
ENOUGH = 0.6  # of the letters of a line `# says: …` stand in the sentence, the others in its gaps, unless it is whole


def sentences_in(check: str) -> list[str]:
    """The sentences of a check cell, with GAP for what is known only when it is said."""
    tree = ast.parse(check)
    return list(dict.fromkeys(_sentences(tree, set(_other_texts(tree)))))


def heard(sentences: Iterable[str], says: str) -> list[str]:
    """Those that a part of a sentence can be of, or that stand in it whole; of several the ones that fit best."""
    says = _ITEM.sub("", says)
    fit = {sentence: _fit(sentence, says) for sentence in sentences}
    best = max(fit.values(), default=0)
    return [sentence for sentence, letters in fit.items() if letters == best > 0]


def _fit(sentence: str, says: str) -> int:
    """How many letters of the sentence itself and of what was said are the same; 0 where it can't be of this one."""
    if re.search(".*".join(map(re.escape, sentence.split(GAP))), says, re.S):
        return len(sentence.replace(GAP, ""))
    letters = _letters_in_place(sentence, says)
    return letters if letters >= ENOUGH * len(says) else 0


def readable(sentence: str) -> str:
    return sentence.replace(GAP, "…")


def _other_texts(tree: ast.Module) -> Iterator[int]:
    """The ids of nodes in which no sentence stands: docstrings, ideas of tests, patterns, messages of exceptions."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Constant(str())) | ast.Raise():
                yield id(node)
            case ast.Call(func=ast.Name("test") | ast.Attribute(ast.Name("test"), "hidden")):
                yield id(node)
            case ast.Call(func=ast.Attribute(attr="each"), args=[ast.Dict(keys=keys), *_]):
                yield from map(id, keys)
            case ast.keyword(arg="raises"):
                yield id(node)
            case ast.Dict(values=values):
                within = (one.elts if isinstance(one, ast.List) else [one] for one in values)
                yield from (id(one) for found in within for one in found if isinstance(one, (ast.Constant, ast.Dict)))


def _sentences(node: ast.AST, others: set[int]) -> Iterator[str]:
    if id(node) in others:
        return
    text = _text_of(node)
    if text is None:
        for child in ast.iter_child_nodes(node):
            yield from _sentences(child, others)
    elif _WORDS.fullmatch(text) and text.count(" ") >= 3:
        yield text


def _text_of(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(str(text)):
            return re.sub(r"\{\w*\}", GAP, text)
        case ast.JoinedStr(values):
            return "".join(_text_of(one) or GAP for one in values)
        case ast.BinOp(left, ast.Add(), right):
            parts = [_text_of(left), _text_of(right)]
            return None if parts == [None, None] else "".join(GAP if part is None else part for part in parts)
    return None


def _letters_in_place(sentence: str, part: str) -> int:
    """How many letters of a part of what was said stand in the sentence itself, where some place in it fits; else 0.

    It goes through the sentence once; in a gap, any number of the part's letters may be the gap's.
    """
    if GAP not in sentence:
        return len(part) if part in sentence else 0
    best = 0
    reached = {0: 0}  # by how many letters of the part are read: how many of them stand in the sentence
    for letter in sentence:
        if letter == GAP:
            first = min(reached)
            counts = accumulate((reached.get(read, 0) for read in range(first, len(part) + 1)), max)
            reached = dict(enumerate(counts, first))
        else:
            reached = {n + 1: count + 1 for n, count in reached.items() if part[n : n + 1] == letter} | {0: 0}
        best = max(best, reached.get(len(part), 0))
    return best
