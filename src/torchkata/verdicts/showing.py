"""How a verdict looks: lines of text everywhere, and a small card of HTML for somebody who looks at a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import copy_context
from dataclasses import dataclass, replace
from html import escape
from threading import Lock, Timer
from typing import TYPE_CHECKING

from torchkata.base.editor import somebody_looks
from torchkata.verdicts.grids import MARK, UNMARK

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

WAIT = 0.7  # seconds after which a check says that it is at work
WIDTH = 100  # characters of a line of text
LONGEST = 5000  # characters of a line that is folded
LABEL = 10  # characters before what a labelled part says

# JupyterLab's own colours, light and dark; others where it is not JupyterLab
_COLORS = {
    "right": "var(--jp-success-color0, #388e3c)",
    "part": "var(--jp-warn-color0, #f57c00)",
    "open": "var(--jp-border-color0, #9e9e9e)",
    "wrong": "var(--jp-error-color0, #d32f2f)",
}
_SIGNS = {"right": "✓", "part": "◐", "open": "○", "wrong": "✗"}
_CODE = (
    "margin:0;padding:0;background:none;border:none;color:inherit;white-space:pre-wrap;line-height:1.4;"
    "font-family:var(--jp-code-font-family, monospace);font-size:var(--jp-code-font-size, 13px)"
)


@dataclass(frozen=True)
class Part:
    """A part of a verdict: what was asked, expected, found … in the words of code; an empty label for a plain line,
    which may end with a line of code."""

    label: str
    text: str
    code: str = ""

    def lines(self) -> list[str]:
        """The part as text; elements that differ stand between asterisks."""
        if not self.label:
            return [f"{self.text}  {self.code}".rstrip()]
        whole = re.sub(f"[{MARK}{UNMARK}]", "*", self.text)
        pieces = [piece for line in whole.split("\n") for piece in folded(line, WIDTH - LABEL - 4)]
        heads = [f"{self.label}:", *[""] * len(pieces)]
        return [f"{head:<{LABEL}}{piece}".rstrip() for head, piece in zip(heads, pieces, strict=False)]


@dataclass(frozen=True)
class Folded:
    """Code that a card shows once it is unfolded, below a text that says what it is."""

    text: str
    code: str


@dataclass(frozen=True)
class Card:
    """A verdict for somebody who looks: state right, part, open or wrong; about: which test, or how many; link: text
    and address of what comes next; folded: what is not shown as text, and as a card only if it is asked for."""

    state: str
    exercise: str
    about: str = ""
    sentence: str = ""
    parts: tuple[Part, ...] = ()
    points: str = ""
    link: tuple[str, str] | None = None
    folded: tuple[Folded, ...] = ()

    def lines(self) -> list[str]:
        """The card as text."""
        sign = "✓ " if self.state == "right" else ""
        head = f"{sign}{self.exercise}{self.about}{', ' * bool(self.points)}{self.points}."
        below = [line for part in self.parts for line in part.lines()]
        link = [f"Next: {self.link[0]}"] if self.link else []
        return [head, *(f"  {line}" for line in [*filter(None, [self.sentence]), *below, *link])]

    def html(self) -> str:
        color = _COLORS[self.state]
        head = (
            f'<span style="color:{color};font-weight:700;font-size:1.2em">{_SIGNS[self.state]}</span> '
            f"<strong>{escape(self.exercise)}</strong>{_prose(self.about)}"
        )
        if self.points:
            head += f' <span style="margin-left:.7em;font-weight:600;white-space:nowrap">{escape(self.points)}</span>'
        below = [f'<div style="margin-top:2px">{_prose(self.sentence)}</div>'] if self.sentence else []
        if self.parts:
            below.append(_table(self.parts))
        if self.link:
            text, address = self.link
            below.append(f'<div style="margin-top:2px">Next: <a href="{escape(address)}">{escape(text)}</a></div>')
        if self.folded:
            below.append(_details(self.folded))
        return (
            f'<div class="torchkata-verdict {self.state}" style="border-left:4px solid {color};'
            "padding:3px 0 3px 12px;margin:3px 0;"
            f'color:var(--jp-content-font-color1, inherit);line-height:1.5"><div>{head}</div>{"".join(below)}</div>'
        )


def notice(text: str) -> None:
    """Tell something besides the verdict; in a notebook as prose, which breaks at words in windows of any width."""
    if somebody_looks():
        from IPython.display import display

        prose = f'<div style="color:var(--jp-content-font-color1, inherit);line-height:1.5">{_prose(text)}</div>'
        display({"text/html": prose, "text/plain": text}, raw=True)
    else:
        print(text)


class Place:
    """Where a verdict will stand. Who waits for it for longer than WAIT seconds reads there which test is running; the
    verdict takes the line's place. For those who don't look nothing but the verdict is shown."""

    def __init__(self, exercise: str):
        self._waiting = Card("open", exercise, ": at work")
        self._shown: DisplayHandle | None = None
        self._lock = Lock()  # the line appears in a thread of its own: a single test may be what takes long
        # within this context, the output belongs to this cell
        self._timer = Timer(WAIT, copy_context().run, [self._appear]) if somebody_looks() else None
        if self._timer:
            self._timer.daemon = True
            self._timer.start()

    def at_work_on(self, number: int, idea: str) -> None:
        """The test that begins now."""
        if self._timer is None:
            return
        about = f": test {number} is running ({idea})"
        with self._lock:
            self._waiting = replace(self._waiting, about=about)
            if self._shown:
                self._shown.update(_bundle(self._waiting), raw=True)

    def put(self, card: Card, lines: Iterable[str]) -> None:
        """Show the verdict, with the same as lines of text for those who can't show a card."""
        from IPython.display import display

        shown = self._leave()
        if shown:
            shown.update(_bundle(card, lines), raw=True)
        else:
            display(_bundle(card, lines), raw=True)

    def say(self, line: str) -> None:
        """Show a verdict of one line."""
        if shown := self._leave():
            shown.update({"text/plain": line}, raw=True)
        else:
            print(line)

    def clear(self) -> None:
        """There will be no verdict here: whatever was shown goes."""
        if shown := self._leave():
            shown.update({"text/plain": ""}, raw=True)

    def _appear(self) -> None:
        from IPython.display import display

        with self._lock:
            if self._timer:
                self._shown = display(_bundle(self._waiting), raw=True, display_id=True)

    def _leave(self) -> DisplayHandle | None:
        """What was shown; nothing more appears."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            shown, self._shown, self._timer = self._shown, None, None
        return shown


def _bundle(card: Card, lines: Iterable[str] | None = None) -> dict[str, str]:
    return {"text/html": card.html(), "text/plain": "\n".join(card.lines() if lines is None else lines)}


def wrapped(line: str) -> list[str]:
    """A line in pieces of at most 100 characters, the later ones indented like the first."""
    indent = line[: len(line) - len(line.lstrip())]
    return [indent + piece for piece in folded(line.lstrip(), WIDTH - len(indent))]


def folded(text: str, width: int) -> list[str]:
    """A text in pieces of at most so many characters, where that goes without breaking a bracket or a word; nobody
    reads more than its beginning."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ..."
    for depth in range(4):
        pieces = _pieces(text, depth)
        if len(text) <= width or max(map(len, pieces)) <= width:
            break
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines if len(text) > width else [text]


def _pieces(text: str, depth: int) -> list[str]:
    """The text taken apart at blanks that stand within no more brackets than so many."""
    pieces, start, inside = [], 0, 0
    for place, character in enumerate(text):
        inside = max(0, inside + (character in "([{") - (character in ")]}"))
        if character == " " and inside <= depth:
            pieces.append(text[start:place])
            start = place + 1
    return [*pieces, text[start:]]


def _prose(text: str) -> str:
    """A sentence; what stands in backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _details(folded: tuple[Folded, ...]) -> str:
    others = len(folded) - 1
    summary = "The author's answer" + f", and {others} other{'s' * (others > 1)} to compare yours with" * (others > 0)
    rule = "border-left:2px solid var(--jp-border-color2, #bdbdbd);padding-left:10px;margin:3px 0 10px"
    inside = "".join(
        f'<div style="margin-top:6px">{_prose(one.text)}</div><pre style="{_CODE};{rule}">{escape(one.code)}</pre>'
        for one in folded
    )
    return f'<details style="margin-top:2px"><summary style="cursor:pointer">{summary}</summary>{inside}</details>'


def _table(parts: tuple[Part, ...]) -> str:
    rows = "".join(
        f'<span style="opacity:.75">{escape(part.label)}</span><pre style="{_CODE}">{_code(part)}</pre>'
        if part.label
        else f'<span style="grid-column:1/3">{_prose(part.text)} {_inline(part.code)}</span>'
        for part in parts
    )
    return (
        '<div style="display:grid;grid-template-columns:max-content 1fr;column-gap:1em;row-gap:3px;margin-top:5px">'
        f"{rows}</div>"
    )


def _inline(code: str) -> str:
    return f'<code style="{_CODE};margin-left:.5em">{escape(code)}</code>' if code else ""


def _code(part: Part) -> str:
    differs = ' <strong style="text-decoration:underline 2px">'
    return escape(part.text).replace(MARK, differs).replace(UNMARK, "</strong> ")
