"""Two cells say the same where they differ in nothing but what editors do to them: line ends, blanks at the ends of
lines, and the layout of code, as a formatter changes it."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import lru_cache

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def plain(text: str) -> str:
    """A text with ends of lines as they are here, and without blanks before them and around the whole."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


@lru_cache(maxsize=4096)
def without_layout(source: str) -> str:
    """What is the same for all layouts of a code cell: its syntax tree and its comments; of what is no Python, its
    lines."""
    text = plain(source)
    try:
        tree, comments = ast.parse(text), _comments_in(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return text
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS) and (words := ast.get_docstring(node)) is not None:
            node.body[0] = ast.Expr(ast.Constant("\n".join(line.strip() for line in words.split("\n")).strip()))
    return "\n".join([ast.dump(tree), *comments])


def _comments_in(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string.strip("# ") for token in tokens if token.type == tokenize.COMMENT]
