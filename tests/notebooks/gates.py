"""The rules that every chapter keeps. Each gate takes a notebook and returns what is wrong, in words."""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from torchkata.base.chapter import exercise_of
from torchkata.base.marks import GIVEN, HIDDEN, SOLUTION, regions, without
from torchkata.base.names import names_of
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.site.blocks import blocks, box_of

OBSERVERS = {"observe", "observe_scenario", "observe_value", "corners"}
RELEASE_METADATA = {"nbgrader", "tags", "deletable", "editable", "jupyter"}
KINDS = "implement|fix|predict|measure|debug|separate|order"
FACTS_LINE = re.compile(rf"^({KINDS}) · (warm-up|solid|long) · (\d+) min · (\d+) points?$", re.M)
READING = re.compile(r"\*\*(\d+) minutes to read")
TEST = re.compile(r"\btest\(|\btest\.each\(|\btest\.points\b|\bcorners\(test\b|\bjudge\w*\(test\b")
HINT = re.compile(r"<details><summary>Hint ([123])</summary>\n\n.+?\n\n</details>", re.S)


def exercises(notebook: NotebookNode) -> dict[str, dict]:
    """By id: the Markdown cell before the answer (or None), the answer cell, the check cells with their helpers."""
    found: dict[str, dict] = {}
    cells = whole_checks(notebook.cells)
    for before, cell in zip([None, *cells], cells, strict=False):
        exercise = exercise_of(cell)
        if exercise is None:
            continue
        if cell.metadata.nbgrader.solution:
            text = before if before is not None and before.cell_type == "markdown" else None
            found[exercise] = {"text": text, "answer": cell, "checks": []}
        else:
            found[exercise]["checks"].append(cell)
    return found


# ---------------------------------------------------------------- what a learner gets


def leaks(solution: NotebookNode, release: NotebookNode) -> list[str]:
    """Solution lines, hidden tests, outputs and author-only metadata in a release."""
    problems = [f"{line!r} reached the release" for line in _secret_lines(solution, release)]
    if extra := set(release.metadata) - {"kernelspec"}:
        problems.append(f"notebook metadata {sorted(extra)}")
    for cell in release.cells:
        if extra := set(cell.metadata) - RELEASE_METADATA:
            problems.append(f"cell {cell.id}: metadata {sorted(extra)}")
        if cell.get("outputs") or cell.get("execution_count"):
            problems.append(f"cell {cell.id}: outputs or an execution count")
    return problems


def not_python(release: NotebookNode) -> list[str]:
    """The code cells of a release that are no Python, such as a block of which only hidden tests were the body."""
    problems = []
    for cell in release.cells:
        try:
            ast.parse(TransformerManager().transform_cell(cell.source) if cell.cell_type == "code" else "")
        except SyntaxError as error:
            problems.append(f"cell {cell.id}: {error}")
    return problems


def without_visible_tests(release: NotebookNode) -> list[str]:
    """Check cells of a release that are left without a test, as all of theirs are hidden."""
    checks = [cell for cell in release.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    return [f"cell {cell.id}: all tests are hidden" for cell in checks if not TEST.search(cell.source)]


def _secret_lines(solution: NotebookNode, release: NotebookNode) -> list[str]:
    """Lines of solutions and hidden tests that stand in the release more often than in the open parts of the source."""
    secret, shown = Counter(), Counter()
    for cell in solution.cells:
        open_part = without(without(cell.source, SOLUTION), HIDDEN)
        given = "\n".join(
            re.sub(r"^ *# ?", "", line) for region in regions(open_part, GIVEN) for line in region.text.split("\n")
        )
        shown.update(_lines(open_part + "\n" + given))
        for kind in (SOLUTION, HIDDEN):
            secret.update(line for region in regions(cell.source, kind) for line in _lines(region.text))
    released = Counter(
        line for cell in release.cells for line in _lines(json.dumps(cell.metadata) + "\n" + cell.source)
    )
    return [line for line in secret if released[line] > shown[line]]


def _lines(text: str) -> list[str]:
    """The lines that say something: 12 characters or more, without indentation."""
    return [line.strip() for line in text.split("\n") if len(line.strip()) >= 12]


# ---------------------------------------------------------------- exercises


def exercise_form(notebook: NotebookNode) -> list[str]:
    """Each exercise has its text with a line of facts, a contract and two or three hints; its check cells begin as
    agreed."""
    problems = []
    for name, parts in exercises(notebook).items():
        text = parts["text"].source if parts["text"] is not None else ""
        if not re.match(r"### Exercise \d+\.\d+ · \S", text):
            problems.append(f"{name}: the cell before the answer must begin with '### Exercise N.k · Title'")
        if not (facts := FACTS_LINE.search(text)):
            problems.append(f"{name}: no line 'implement · solid · 10 min · 2 points'")
        elif float(facts[4]) != _points(parts):
            problems.append(f"{name}: the text says {facts[4]} points, its check cells give {_points(parts):g}")
        if "**Contract" not in text:
            problems.append(f"{name}: no **Contract**")
        if re.search(r"\*\*Rules?(?!\.\*\*)", text):
            problems.append(f"{name}: a rule begins with **Rule.**")
        if HINT.findall(text) not in (["1", "2"], ["1", "2", "3"]):
            problems.append(f"{name}: it needs Hint 1 and Hint 2, perhaps Hint 3, each in <details>")
        problems += [p for cell in parts["checks"] if (p := _check_form(name, cell))]
    return problems


def _points(parts: dict) -> float:
    return sum(cell.metadata.nbgrader.points for cell in parts["checks"])


def _check_form(name: str, cell: NotebookNode) -> str | None:
    if not cell.metadata.nbgrader.points > 0:
        return f"{name}: the check cell {cell.id} has no points"
    tree = ast.parse(cell.source)
    words = ast.get_docstring(tree) or ""
    if not 0 < len(words) <= 100 or "\n" in words:
        return f"{name}: the check cell {cell.id} must begin with a docstring of one line, 100 characters at most"
    frames = [node for node in tree.body if isinstance(node, ast.With)]
    if not frames or not ast.unparse(frames[0].items[0]).startswith(f"check({name!r}) as test"):
        return f'{name}: the check cell {cell.id} needs `with check("{name}") as test:`'
    return None


def points_sum(notebook: NotebookNode, total: float = 20) -> list[str]:
    """A chapter's points sum to 20."""
    found = sum(_points(parts) for parts in exercises(notebook).values())
    return [] if found == total else [f"the points sum to {found:g}, not {total:g}"]


def numbering(notebook: NotebookNode, number: int) -> list[str]:
    """Exercises are numbered N.1, N.2, ... in order."""
    titles = [parts["text"].source for parts in exercises(notebook).values() if parts["text"] is not None]
    found = [re.match(r"### Exercise (\d+)\.(\d+)", title).groups() for title in titles]
    wanted = [(str(number), str(k)) for k in range(1, len(found) + 1)]
    return [] if found == wanted else [f"exercises are numbered {found}"]


def waist(notebook: NotebookNode) -> list[str]:
    """A check cell touches an answer only by handing it to an observer, and uses no name that it does not own."""
    setup = names_of(next(c.source for c in notebook.cells if c.metadata.get("setup"))).binds
    problems = []
    for name, parts in exercises(notebook).items():
        answers = names_of(parts["answer"].source).binds
        for cell in parts["checks"]:
            problems += [f"{name}: {p}" for p in waist_of_check(cell.source, answers, setup)]
    return problems


def waist_of_check(source: str, answers: Collection[str], setup: Collection[str]) -> list[str]:
    """Breaches of the waist in one check cell, for the names that its answer cell and the setup cell define."""
    tree = ast.parse(source)
    handed_over = {id(arg) for call in ast.walk(tree) if _is_observer(call) for arg in call.args}
    own, answers = names_of(source), frozenset(answers)
    problems = [f"line 1: the cell binds {name}, the name of an answer" for name in sorted(own.binds & answers)]
    for node in _names_read(tree, own.reads):
        if node.id in answers:
            if id(node) not in handed_over:
                problems.append(f"line {node.lineno} uses the answer {node.id} outside observe")
        elif node.id not in own.binds.union(setup) and not hasattr(builtins, node.id):
            problems.append(f"line {node.lineno} uses {node.id}, which neither the setup nor this cell defines")
    if imports := [n.lineno for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]:
        problems.append(f"line {imports[0]} imports; imports belong into the setup cell")
    return problems


def _names_read(node: ast.AST, wanted: frozenset[str]) -> Iterator[ast.Name]:
    """Where a cell reads these names; a function's own names of the same spelling are left out."""
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        wanted &= names_of(ast.unparse(node)).reads
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in wanted:
        yield node
    for inner in ast.iter_child_nodes(node):
        yield from _names_read(inner, wanted)


def _is_observer(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OBSERVERS


# ---------------------------------------------------------------- lines on a page

LONGEST = 100  # letters of a line that JupyterLab shows beside its side bar, at 1280 pixels


def long_lines(notebook: NotebookNode) -> list[str]:
    """Lines of code that are cut on a narrow page; a check cell is folded, and may be wider."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and not _is_check(cell)]
    return [problem for cell in cells for problem in _too_long(cell, "code", cell.source)]


def long_outputs(notebook: NotebookNode) -> list[str]:
    """Printed lines that a narrow page breaks within words; the words beside a picture or a page are not shown."""
    problems = []
    for cell in notebook.cells:
        for output in [] if _is_check(cell) else cell.get("outputs", []):
            shown = output.get("data", {"text/plain": output.get("text", "")})
            if set(shown) == {"text/plain"}:
                problems += _too_long(cell, "output", shown["text/plain"])
    return problems


def _too_long(cell: NotebookNode, kind: str, text: str) -> list[str]:
    lines = [line for line in text.split("\n") if len(line) > LONGEST]
    return [f"cell {cell.id}: {len(line)} letters, where {LONGEST} fit, in the {kind} {line!r}" for line in lines]


def _is_check(cell: NotebookNode) -> bool:
    return exercise_of(cell) is not None and not cell.metadata.nbgrader.solution


# ---------------------------------------------------------------- teaching


def rhythm(notebook: NotebookNode, at_most: int = 20) -> list[str]:
    """So many questions to predict, and no more; each begins a paragraph (there the website folds its answer)."""
    texts = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    predicts = texts.count("**Predict")
    problems = [] if predicts <= at_most else [f"{predicts} times **Predict**, where {at_most} are enough"]
    within = re.findall(r"\S[ \n](\*\*Predict.*)", texts)
    return problems + [f"begin a paragraph with it: {line}" for line in within]


def reading_time(notebook: NotebookNode, longest: int = 75) -> list[str]:
    """The minutes to read that the chapter promises are those of a person who runs the cells, and not too many."""
    needed = reading_minutes(notebook)
    said = int(READING.search(notebook.cells[0].source)[1])
    problems = [] if needed <= longest else [f"{needed:.0f} minutes to read, where {longest} are enough"]
    if abs(said - needed) > 5:
        problems.append(f"the chapter promises {said} minutes to read, and takes {needed:.0f}")
    return problems


def reading_minutes(notebook: NotebookNode) -> float:
    """150 words and 40 lines of code a minute, 20 seconds to run a cell, 30 for a question; exercises have minutes
    of their own."""
    exercise_texts = {id(parts["text"]) for parts in exercises(notebook).values()}
    texts = [c.source for c in notebook.cells if c.cell_type == "markdown" and id(c) not in exercise_texts]
    cells = [c for c in notebook.cells if c.cell_type == "code" and not exercise_of(c) and not c.metadata.get("setup")]
    questions = sum(box_of(part) == "predict" for text in texts for part in blocks(text))
    lines = sum(bool(line.strip()) for cell in cells for line in cell.source.splitlines())
    return sum(len(text.split()) for text in texts) / 150 + lines / 40 + len(cells) / 3 + questions / 2


def untaught(notebook: NotebookNode, core: set[str], known: set[str]) -> list[str]:
    """Core facts that no cell teaches, and ids that are no facts."""
    taught = {fact for cell in notebook.cells for fact in cell.metadata.get("facts", [])}
    problems = [f"no cell teaches the core fact {fact}" for fact in sorted(core - taught)]
    return problems + [f"{fact} is not a fact" for fact in sorted(taught - known)]


def warnings_marked(notebook: NotebookNode) -> list[str]:
    """A cell that shows a warning is marked with its category, and shows it."""
    problems = []
    for cell in notebook.cells:
        category = cell.metadata.get("shows_warning")
        shows = cell.cell_type == "code" and re.search(r"\bwarning_of\(|catch_warnings", cell.source)
        if shows and not category and "nbgrader" not in cell.metadata:
            problems.append(f"cell {cell.id} shows a warning; mark it shows_warning=…")
        if category and category not in json.dumps(cell.get("outputs", [])):
            problems.append(f"cell {cell.id} is marked shows_warning={category!r}, but shows none")
    return problems


def alternative_text(notebook: NotebookNode) -> list[str]:
    """Every picture in outputs and in the text says in words what it shows."""
    problems = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(|<img(?![^>]*alt=\"[^\"]+\")", cell.source):
            problems.append(f"cell {cell.id}: an image without alternative text")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            words = str(data.get("text/plain", ""))
            alt = [output.metadata.get(kind, {}).get("alt") for kind in data if kind.startswith("image/")]
            alt += [bool(re.match(r'alt="[^"]{20}', image)) for image in data.get("text/html", "").split("<img ")[1:]]
            if alt and (len(words) < 20 or words.startswith("<") or not all(alt)):
                problems.append(f"cell {cell.id}: a picture without alternative text")
    return problems


def headings(notebook: NotebookNode) -> list[str]:
    """One title, at the top; levels go down one at a time."""
    levels = [
        len(match[1])
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for match in re.finditer(r"^(#{1,6}) ", re.sub(r"^```.*?^```", "", cell.source, flags=re.M | re.S), re.M)
    ]
    problems = [] if levels[:1] == [1] and levels.count(1) == 1 else ["a chapter has one title, in its first cell"]
    jumps = [f"a heading of level {b} follows one of level {a}" for a, b in pairwise(levels) if b > a + 1]
    return problems + jumps


def varying_with_reason(notebook: NotebookNode) -> list[str]:
    """A cell whose output is not compared says why, in a sentence; tags that switch nbval off are not used."""
    problems = []
    for cell in notebook.cells:
        if "varies" in cell.metadata and len(str(cell.metadata.varies).split()) < 3:
            problems.append(f"cell {cell.id}: varies needs a reason")
        if any(tag.startswith(("nbval", "raises")) for tag in cell.metadata.get("tags", [])) or "NBVAL" in cell.source:
            problems.append(f"cell {cell.id}: nbval is switched off by a tag or comment")
    return problems
