"""How the table of facts looks: the classes of its style, by day and in the dark, and proofs with coloured words; and
sentences whose code is set as code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path

from torchkata.pictures.page import IN_THE_DARK

TABLE = "torchkata-folklore"  # the class of the table
SIGNS = {"holds": "✓", "partly": "◐", "outdated": "↺", "wrong": "✗", "opinion": "?"}
# what stands in table.css for a bright page becomes this on a dark one
DARK = {
    "holds": "#9be3b4",
    "holds-back": "#12351f",
    "partly": "#f2d17c",
    "partly-back": "#3a2d05",
    "outdated": "#c9cfd6",
    "outdated-back": "#363b42",
    "wrong": "#ffb4ac",
    "wrong-back": "#4a1715",
    "opinion": "#c8c6ff",
    "opinion-back": "#2a2860",
    "keyword": "#8ab8ff",
    "string": "#ffa38a",
    "comment": "#9fabb7",
    "number": "#ffcc80",
    "name": "#80cbc4",
    "builtin": "#d3a0e0",
}
_CALL = r"\((?:[^()]|\([^()]*\))*\)"
_SUBSCRIPT = r"\[(?:[^][]|\[[^][]*\])*\]"
CODE = re.compile(
    r"`(?P<quoted>[^`]+)`|"
    rf"(?<![\w.])(?:[A-Za-z_][\w.]*(?:{_CALL}|{_SUBSCRIPT})+(?:\.[A-Za-z_]\w*(?:{_CALL})?)*"  # a call or a subscript
    r"|[A-Za-z_]\w*=(?:True|False|None|-?\d+(?:\.\d+)?\b|\"[^\"]*\")"  # an argument
    rf"|\.[A-Za-z_](?:[\w.]*\w)?(?:{_CALL})*"  # an attribute or a method of something that isn't named
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|\w*[a-z0-9]_\w*|_\w+)"  # a name with a dot or an underscore
)
COLOURLESS = re.compile(r'<span class="(?:n|nn|o|p|w)">(.*?)</span>', re.S)


@cache
def style() -> str:
    """The table's style, with its colours for a dark page."""
    bright = (Path(__file__).parent / "table.css").read_text(encoding="utf-8")
    dark = ";".join(f"--tk-{name}:{colour}" for name, colour in DARK.items())
    selectors = ",".join(f"{place} .{TABLE}" for place in IN_THE_DARK)
    return re.sub(r"\s*\n\s*", "", bright) + f"{selectors}{{{dark}}}"


def verdict_html(verdict: str) -> str:
    """A verdict with its sign and its colour; without the style the sign stays."""
    return f'<strong class="verdict {verdict}">{SIGNS[verdict]} {verdict}</strong>'


def code_html(source: str) -> str:
    """Python as HTML, with a line break at its end; each word that has a colour has the class of its kind."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return COLOURLESS.sub(r"\1", highlight(source, PythonLexer(), HtmlFormatter(nowrap=True)))


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a sentence, in order, and whether each is code: what stands in backticks, and what looks like code,
    that is, calls, subscripts, names with dots or underscores."""
    end = 0
    for found in CODE.finditer(text):
        yield text[end : found.start()], False
        yield found["quoted"] or found[0], True
        end = found.end()
    yield text[end:], False


def prose_html(text: str) -> str:
    """A sentence as HTML, in which its code is set as code."""
    return "".join(f"<code>{escape(piece)}</code>" if is_code else escape(piece) for piece, is_code in pieces(text))
