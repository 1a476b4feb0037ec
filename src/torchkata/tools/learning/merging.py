"""Carry what a learner wrote over into a newer release of a chapter: pure, from notebooks to a notebook.

Answers go over by exercise id. Cells of the chapter that the learner changed, and cells of their own, are kept: in
place where the chapter's cell is still there, else behind the cell that they stood behind, wherever the new release has
it. All other cells are the new release's.
"""

from __future__ import annotations

import ast
import hashlib
from bisect import bisect_left
from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from torchkata.base.chapter import exercise_of, is_checking
from torchkata.base.layout import plain, without_layout
from torchkata.tools.learning.exercises import fenced
from torchkata.tools.learning.news import news, same_code
from torchkata.tools.missing import without_notice

NEW_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
GIVEN_HAS_CHANGED = "What {} gives you to begin with has changed."
WIDGETS = "widgets"  # in a notebook's metadata: their states when it was saved
TOP = ""  # stands for "before the first cell of the chapter"


@dataclass
class Merged:
    """A merged notebook, how many answers it carries over, how many cells of the learner's own it keeps, and what a
    learner should know about the rest, in sentences."""

    notebook: NotebookNode
    answers: int = 0
    own: int = 0
    notes: list[str] = field(default_factory=list)


def merge(base: NotebookNode | None, mine: list[NotebookNode], new: NotebookNode) -> Merged:
    """The new release with what is the learner's in `mine`. Several notebooks are sides of one conflict: the first
    comes first, and what the others have besides is kept beside it.

    base: the release that the learner's copy came from, None where it is not known.
    """
    work = _Merging(base, new)
    for side in mine:
        work.take(side)
    return work.finish()


class _Merging:
    def __init__(self, base: NotebookNode | None, new: NotebookNode):
        self.release, self.result = new, deepcopy(new)
        self.new = {cell.id: cell for cell in self.result.cells}
        self.base = {cell.id: cell for cell in (base or new).cells}
        self.known_base = base is not None
        self.order = {name: n for n, name in enumerate(self.base)}  # in which the learner got the cells
        self.chapter_texts = {
            text for cell in (*self.new.values(), *self.base.values()) for text in (_said(cell), plain(cell.source))
        }
        self.answered: dict[str, str] = {}  # by exercise: the text that was carried over
        self.seen: set[str] = set()
        self.own: dict[str, list[NotebookNode]] = defaultdict(list)  # behind which cell of the chapter
        self.notes: list[str] = []
        self.released = {cell.id: _text(cell) for cell in new.cells}
        self.stubs = {name: text for name, text in self.released.items() if is_answer(self.new[name])}
        self.changed: dict[str, NotebookNode] = {}  # cells of the chapter that the learner's version stands in for
        self.beside = 0  # changed cells of the chapter that it has no more, or others: they stand beside the new ones
        self.given: dict[str, NotebookNode] = {}  # by exercise: what is given now, where that has changed
        self.missing: set[str] = set()  # from the side that is being taken

    def take(self, side: NotebookNode) -> None:
        """Sort the learner's cells: answers, changed cells of the chapter, cells of their own."""
        keys = [self._key(cell) for cell in side.cells]
        last = {key: n for n, key in enumerate(keys) if key}
        self.missing = self.base.keys() - last.keys()
        steady, behind = self._in_order(keys), TOP
        for n, (cell, key) in enumerate(zip(side.cells, keys, strict=True)):
            if key is not None and n in steady:
                behind = self._place_behind(key, behind)
            if key is None and self._is_as_released(cell):
                continue
            if key is None or (n != last[key] and key in self.stubs):
                self._keep(cell, behind)
            else:
                self._place(cell, key, behind)
                self.seen.add(key)
        self._find_lost_answers()
        if WIDGETS in side.metadata:  # without them, outputs that are kept show none
            self.result.metadata[WIDGETS] = side.metadata[WIDGETS]

    def _place_behind(self, key: str, before: str) -> str:
        """Where own cells stand that stood behind this cell of the chapter: behind it; where it is gone, behind the one
        before it, or at the end where it was the last."""
        if key in self.new:
            return key
        return next(reversed(self.new)) if key == next(reversed(self.base)) else before

    def _in_order(self, keys: list[str | None]) -> set[int]:
        """Which of the learner's cells stand in the order of the release that they got (a longest rising row of them):
        the others were moved, and say nothing about where the learner's own cells belong."""
        place = self.order
        tops: list[int] = []
        rows: list[list[int]] = []  # rows[k]: the row of k + 1 cells that ends lowest
        for n, key in enumerate(keys):
            if key in place:
                k = bisect_left(tops, place[key])
                row = [*(rows[k - 1] if k else ()), n]
                tops[k : k + 1], rows[k : k + 1] = [place[key]], [row]
        return set(rows[-1]) if rows else set()

    def finish(self) -> Merged:
        cells, taken = [self._copy(cell) for cell in self.own[TOP]], set(self.new)
        last = {name: cell.id for cell in self.result.cells if (name := exercise_of(cell))}
        for cell in self.result.cells:
            cells.append(cell)
            cells += [text for name, text in self.given.items() if last[name] == cell.id]
            cells += [self._copy(own) for own in self.own[cell.id]]
        for own in [cell for cell in cells if cell.id not in self.new]:
            if own.id in taken:
                own.id = new_raw_cell("").id  # a fresh one
            taken.add(own.id)
        old = NotebookNode(cells=list(self.base.values()))
        self.result.cells, notes = cells, [*self.notes, *news(old, self.release, self.answered)]
        if self.beside:
            notes.append(
                f"Texts and demos that you changed and that are others now, or gone: {self.beside}. Yours stand beside "
                "the new ones."
            )
        return Merged(self.result, len(self.answered), sum(map(len, self.own.values())), notes)

    # ------------------------------------------------------------ one cell

    def _key(self, cell: NotebookNode) -> str | None:
        """The id of the chapter's cell that this one is, or was; None for a cell of the learner's own."""
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        for name in (grade_id, cell.get("id")):
            if name in self.base or name in self.new:
                return name
        if is_answer(cell):
            return grade_id  # of an exercise that neither release knows
        same = (c.id for c in (*self.base.values(), *self.new.values()) if _same(c, cell))
        return next(same, None)

    def _place(self, cell: NotebookNode, key: str, behind: str) -> None:
        new, base = self.new.get(key), self.base.get(key)
        if key in self.stubs:
            self._answer(cell, key)
        elif new is not None and _said(cell) == _said(new):
            _keep_outputs(cell, new)
        elif self._unchanged(cell, base):
            return
        elif new is not None and base is not None and _same(new, base) and not is_checking(new):
            self.changed[key] = cell
            _stand_in(cell, new)
        else:
            graded = is_checking(cell)
            if is_answer(cell):
                self.notes.append(
                    f"{key} is no longer in this chapter. Your answer stays as a cell of your own; the task stands in "
                    "your copy as it was."
                )
            elif not graded:
                self.beside += 1
            self._keep(cell, key if key in self.new else behind)

    def _unchanged(self, cell: NotebookNode, base: NotebookNode | None) -> bool:
        """Whether a cell is as it was released. Where that release is not known: whether it can be taken for it."""
        if base is not None and _same(base, cell):
            return True
        return self._is_as_released(cell)

    def _is_as_released(self, cell: NotebookNode) -> bool:
        """Whether a cell of a release that is not known is unchanged: the cell's id tells its first text."""
        text = f"{cell.cell_type}\n{without_notice(cell.source)}".replace("\r\n", "\n")
        return not self.known_base and hashlib.sha256(text.encode()).hexdigest()[:12] in cell.get("id", "")

    def _answer(self, cell: NotebookNode, key: str) -> None:
        base = self.base.get(key)
        text = self._without_chapter(_text(cell))
        stubs = [self.stubs[key], *([base.source] if base is not None else [])]
        if without_layout(text) in map(without_layout, stubs):
            return
        if key in self.answered:
            if text != self.answered[key]:
                self._keep(cell, key)
                self.notes.append(
                    f"{key}: two answers were there. The other one stands below it, as a cell of your own."
                )
            return
        self.answered[key] = text
        self.new[key].source = text
        if base is not None and not same_code(_text(base), self.stubs[key]):
            self.given[key] = new_markdown_cell(self._given_now(key))
            self.notes.append(
                f"{key}: what is given has changed. Your answer is there; what is given now stands below its checks."
            )
        if text == _text(cell):
            _keep_outputs(cell, self.new[key])

    def _given_now(self, key: str) -> str:
        return f"{GIVEN_HAS_CHANGED.format(key)} It is this now:\n\n{fenced(self.stubs[key])}"

    def _keep(self, cell: NotebookNode, behind: str) -> None:
        """Keep a cell as the learner's own, unless it holds nothing but the chapter's text, or is kept already."""
        if is_checking(cell) and (not self.known_base or not cell.metadata.nbgrader.get("grade")):
            cell = new_raw_cell(cell.source)  # perhaps an older release's, or for other checks: it must not run
        text = _text(cell)
        told = (key for key in self.stubs if text.startswith(GIVEN_HAS_CHANGED.format(key)))
        if any(text != self._given_now(key) for key in told):
            return  # of an update before, and no longer so
        kept = (_text(own) for cells in self.own.values() for own in cells)
        if text and _said(cell) not in self.chapter_texts and text not in kept and text not in self.answered.values():
            self.own[behind].append(cell)

    # ------------------------------------------------------------ damage

    def _find_lost_answers(self) -> None:
        """Where an answer cell is gone but another cell of the learner's defines what it asks for, that cell becomes
        the answer: it was copied, or merged with another."""
        for key in [name for name in self.stubs if name in self.base and name not in self.seen]:
            self.seen.add(key)
            if (cell := self._take_defining(_names(self.stubs[key]))) is not None:
                self._answer(cell, key)
                self.notes.append(
                    f"{key}: its answer cell was missing. The cell that defines the same names took its place."
                )
            elif self.known_base:
                self.notes.append(f"{key}: its answer cell was missing. It is back, not solved.")
            else:
                self.notes.append(f"{key}: your copy has no answer cell for it. It is there now, not solved.")

    def _take_defining(self, names: set[str]) -> NotebookNode | None:
        """The learner's last code cell that defines all these names, taken from where it is kept."""
        own = [cell for cells in self.own.values() for cell in cells]
        for cell in reversed([*own, *self.changed.values()]):
            if cell.cell_type == "code" and names and names <= _names(_text(cell)) and not self._answers_another(cell):
                for cells in self.own.values():
                    cells[:] = [kept for kept in cells if kept is not cell]
                for key in [key for key, changed in self.changed.items() if changed is cell]:
                    self.new[key].source = self.released[key]
                    del self.changed[key]
                self.missing |= self.base.keys() & {cell.get("id")}  # what it was merged with
                return cell
        return None

    def _answers_another(self, cell: NotebookNode) -> bool:
        """Whether a cell is the answer to an exercise that is no longer in the chapter."""
        return is_answer(cell) and self._key(cell) not in self.stubs

    def _without_chapter(self, text: str) -> str:
        """A text without the cells of the chapter that were merged into it at its beginning or end."""
        for other in sorted((_text(self.base[name]) for name in self.missing), key=len, reverse=True):
            if other and text.startswith(f"{other}\n"):
                text = text[len(other) :].strip("\n")
            if other and text.endswith(f"\n{other}"):
                text = text[: -len(other)].strip("\n")
        return text

    def _copy(self, cell: NotebookNode) -> NotebookNode:
        """A learner's cell without metadata that would make it one of the chapter's."""
        made = NEW_CELL[cell.cell_type](cell.source)
        if cell.cell_type == "code":
            made.outputs, made.execution_count = cell.get("outputs", []), cell.get("execution_count")
        if "attachments" in cell:
            made.attachments = cell.attachments
        if cell.get("id") and cell.id not in self.new:
            made.id = cell.id
        return made


def _text(cell: NotebookNode) -> str:
    return cell.source.strip("\n")


def _said(cell: NotebookNode) -> str:
    """What a cell says, whatever its layout."""
    return without_layout(cell.source) if cell.cell_type == "code" else plain(cell.source)


def _same(a: NotebookNode, b: NotebookNode) -> bool:
    return a.cell_type == b.cell_type and _said(a) == _said(b)


def is_answer(cell: NotebookNode) -> bool:
    """Whether a cell is one of the chapter's for an answer."""
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _stand_in(cell: NotebookNode, new: NotebookNode) -> None:
    """Put a learner's version of a cell into the place of the chapter's."""
    made = NEW_CELL[cell.cell_type](cell.source)
    new.source, new.cell_type = cell.source, cell.cell_type
    for key in ("outputs", "execution_count", "attachments"):
        new.pop(key, None)
        if key in made or key in cell:
            new[key] = deepcopy(cell.get(key, made.get(key)))


def _keep_outputs(cell: NotebookNode, new: NotebookNode) -> None:
    if cell.cell_type == new.cell_type == "code":
        new.outputs, new.execution_count = cell.get("outputs", []), cell.get("execution_count")


def _names(source: str) -> set[str]:
    """The names that a cell defines at its top level; none where it is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assigned = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    stored = (n for node in assigned for n in ast.walk(node) if isinstance(n, ast.Name))
    return defined | {n.id for n in stored if isinstance(n.ctx, ast.Store)}
