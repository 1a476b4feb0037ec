"""A built notebook as the source of a page: what a reader may see, with marks for what is folded.

Demos and their outputs come from the executed solution; answer cells come from the release, so that no solution gets
onto a page, and check cells are left out. What follows a Predict stands between two comments, FOLD and END, which
marks.py turns into a fold. An exercise ends with the comment CARD.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode

from torchkata.base.shared_helpers import is_helpers
from torchkata.facts.collection import Fact, load
from torchkata.facts.look import prose_html
from torchkata.tools.course import Chapter, SideNotebook, read_unchecked
from torchkata.tools.site.blocks import blocks, box_of, boxed, ends_answer, with_boxes
from torchkata.tools.site.edition import edition, start_command
from torchkata.tools.site.home import Home
from torchkata.tools.site.live_pictures import is_picture, picture_of
from torchkata.tools.site.ways import in_html, in_markdown, opening, released_file

FOLD, END, CARD = "tk-fold", "tk-end", "tk-card"  # comments in a page's source
ANSWER = "What happens, and why"
IMPORTS = "Imports"
OWN_PAGE = "review"  # its cell needs a kernel: the website asks the cards itself
SECTION = re.compile(r"## (\d+\.\d+) ")
EXERCISE = re.compile(r"### Exercise (\d+\.\d+) · (.+)")
LINK = re.compile(r"\]\((?:\.\./)*(?:notebooks/)?((?:\d\d_\w+/)?\w+)\.ipynb(?:#[^)]*)?\)")
FACT_IN_TABLE = re.compile(r"<summary>Proof (\d\d-[a-z0-9-]+)")


@dataclass
class ChapterPage:
    """The source of a page, and the place of each fact that it teaches.

    taught: by the fact's id the anchor and the name of the section, such as ("s-3-1", "3.1 gather: …").
    frames: what the explorers of the page show, by their names.
    """

    notebook: NotebookNode
    taught: dict[str, tuple[str, str]] = field(default_factory=dict)
    frames: dict[str, str] = field(default_factory=dict)


def document(chapter: Chapter) -> str:
    """The name of a chapter's page, from the top of the site: chapters/03_gather_scatter, gallery."""
    return chapter.name if isinstance(chapter, SideNotebook) else f"chapters/{chapter.name}"


def chapter_page(chapter: Chapter, home: Home) -> ChapterPage:
    """The page of a chapter or of the gallery or the start page. Raises CourseError where it isn't built."""
    return _Writer(chapter, home).page()


class _Writer:
    """Goes through the cells of a solution once and writes those of the page."""

    def __init__(self, chapter: Chapter, home: Home):
        self.chapter, self.home = chapter, home
        self.solution = read_unchecked(chapter.solution)
        released = read_unchecked(chapter.release).cells
        self.stubs = {cell.metadata.nbgrader.grade_id: cell.source for cell in released if "nbgrader" in cell.metadata}
        self.cells: list[NotebookNode] = []
        self.taught: dict[str, tuple[str, str]] = {}
        self.frames: dict[str, str] = {}
        self.section = ("", "")
        self.predicted = False  # a Predict waits for its answer
        self.folded = False  # a fold is open
        self.exercise = ""  # the number of the exercise whose card is open
        self.answer = ""  # its id

    def page(self) -> ChapterPage:
        for place, cell in enumerate(self.solution.cells):
            meta = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "markdown":
                self._text(cell.source, place)
            elif is_helpers(meta):
                continue
            elif meta.get("grade"):
                self._end_card()
            elif meta.get("solution"):
                self._code(self.stubs[meta["grade_id"]], [])
            else:
                self._demo(cell)
            self._note_facts(cell)  # now: a cell may begin the section that it belongs to
        self._end_card()
        self._end_fold()
        if self.chapter.name == "start":
            title, _, text = self.cells[0].source.partition("\n\n")
            self.cells[0].source = f"{title}\n\n{self._only_to_read()}\n\n{text}"
        notebook = nbformat.v4.new_notebook(cells=self.cells, metadata=self.solution.metadata)
        notebook.metadata.pop("torchkata", None)
        return ChapterPage(notebook, self.taught, self.frames)

    def _note_facts(self, cell: NotebookNode) -> None:
        """The section that teaches a fact is the first; what opens a chapter belongs to none, and has no address."""
        for fact in cell.metadata.get("facts", ()):
            if not self.taught.get(fact, ("", ""))[0]:
                self.taught[fact] = self.section

    # ------------------------------------------------------------ text

    def _text(self, source: str, place: int) -> None:
        parts = blocks(site_links(source, self.chapter))
        answer = next((n for n, part in enumerate(parts) if ends_answer(part)), len(parts))
        if self.predicted and not self.folded and answer:  # a Predict without a cell: its answer is the next text
            self._begin_fold()
        if self.folded:
            self._write(with_boxes(parts[:answer]))
            self._end_fold()
            parts = parts[answer:]
        written: list[str] = []
        for part in parts:
            written += [*self._before(part, place), part]
        self._write(with_boxes(written))
        self.predicted = any(box_of(part) == "predict" for part in parts)

    def _before(self, part: str, place: int) -> list[str]:
        """The anchor of a section or exercise; marks its beginning."""
        if match := SECTION.match(part):
            anchor = f"s-{match[1].replace('.', '-')}"
            self.section = (anchor, part[3:].strip())
            return [f"({anchor})="]
        if match := EXERCISE.match(part):
            self.exercise, self.answer = match[1], self._answer_after(place)
            return [f"(ex-{self.answer})="]
        return []

    def _answer_after(self, place: int) -> str:
        metas = (cell.metadata.get("nbgrader", {}) for cell in self.solution.cells[place:])
        return next(meta["grade_id"] for meta in metas if meta.get("solution"))

    def _write(self, parts: list[str]) -> None:
        if parts:
            self.cells.append(nbformat.v4.new_markdown_cell("\n\n".join(parts)))

    def _end_card(self) -> None:
        if not self.exercise:
            return
        lines = [f"Write your answer in the notebook, `{self.chapter.place_in_workbook.as_posix()}` in your workbook."]
        lines += [f"`torchkata check {self.exercise.lstrip('0')}` judges it."] if self.exercise[0] != "0" else []
        links = [("Colab", self.home.colab(released_file(self.chapter)))]
        links += [("Binder", self.home.binder(self.chapter.place_in_workbook.as_posix()))]
        links += [("report its verdict", self.home.doubt_verdict(self.answer))]
        if self.home.repository:
            lines.append(f"Or: {' · '.join(in_markdown(links))}")
        self._write(["::::::{container} work\n" + "\n".join(lines) + "\n::::::", f"% {CARD}"])
        self.exercise = ""

    def _only_to_read(self) -> str:
        """For the start page: where one can do what it says."""
        links = in_html(opening(self.chapter, self.home, ""), ", ")
        command = start_command(self.home, edition(self.chapter.root))
        return boxed(
            "know",
            [
                "**Here you can only read.** This page shows the notebook with which the course begins; “this folder” "
                f"is where yours is. To answer its exercise, open it ({links}), or start the course on your machine:",
                f"```bash\n{command}\n```",
            ],
        )

    # ------------------------------------------------------------ folds

    def _begin_fold(self, summary: str = ANSWER) -> None:
        self._write([f"% {FOLD} {summary}"])
        self.folded = True

    def _end_fold(self) -> None:
        if self.folded:
            self._write([f"% {END}"])
        self.folded = self.predicted = False

    # ------------------------------------------------------------ code

    def _demo(self, cell: NotebookNode) -> None:
        if cell.metadata.get("setup"):
            self._begin_fold(IMPORTS)
            self._code(cell.source, [])
            self._end_fold()
            return
        if "folklore(" in cell.source:
            self._write([_beliefs(self.chapter.name, cell)])
            return
        self._code(cell.source, cell.outputs)
        if self.predicted and not self.folded:
            self._begin_fold()  # from here: the output goes with it

    def _code(self, source: str, outputs: list[NotebookNode]) -> None:
        shown = [self._picture(output) if is_picture(output) else output for output in outputs]
        self.cells.append(nbformat.v4.new_code_cell(source, outputs=shown))

    def _picture(self, output: NotebookNode) -> NotebookNode:
        html, frames = picture_of(output, "" if isinstance(self.chapter, SideNotebook) else "../")
        self.frames |= frames
        return nbformat.v4.new_output("display_data", {"text/html": html})


def site_links(text: str, chapter: Chapter | None = None) -> str:
    """The text with its links to notebooks as links to their pages."""
    up = "../" if chapter is not None and not isinstance(chapter, SideNotebook) else ""

    def to_page(match: re.Match[str]) -> str:
        folder, _, name = match[1].rpartition("/")
        if folder:
            return f"]({up}chapters/{folder}.ipynb)"
        return f"]({up}{name}.{'md' if name == OWN_PAGE else 'ipynb'})"

    return LINK.sub(to_page, text)


def _beliefs(chapter: str, cell: NotebookNode) -> str:
    """The closing table of a chapter as a list of beliefs, each with its verdict and a link to its proof."""
    by_id = {fact.id: fact for fact in load(chapter)}
    tables = "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
    rows = [_belief(by_id[name], chapter) for name in FACT_IN_TABLE.findall(tables)]
    return "\n".join(['<ul class="beliefs">', *rows, "</ul>"])


def _belief(fact: Fact, chapter: str) -> str:
    link = f'<a href="../folklore/{chapter}.html#{fact.id}">{prose_html(fact.belief)}</a>'
    verdict = f'<span class="verdict {fact.verdict}">{fact.verdict}</span>'
    return f'<li>{verdict} {link}<span class="holds">{prose_html(fact.fact)}</span></li>'
