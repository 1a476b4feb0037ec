"""Damage: what happens to notebooks by accident and by hand, and files that are no notebooks."""

from __future__ import annotations

import copy
import json
import pickle

import nbformat

from tests.tools.grading.hostile.handin import CHAPTER, HandIn, attack
from torchkata.tools.course import Chapter

NAME = f"{CHAPTER.topic}.ipynb"


# ---------------------------------------------------------------- cells


@attack()
def copied_cells(it: HandIn):
    """Copies answer and check cells; of an answer's copies the last one counts."""
    for task in (it.rest[0], it.rest[-1]):
        it.solve(task)
        answer = it.cell(task.exercise.id)
        wrong = copy.deepcopy(answer) | {"source": task.wrong, "id": f"copy-{task.exercise.id}"}
        it.notebook["cells"].insert(it.place(answer), wrong)
    it.notebook["cells"] += copy.deepcopy(it.checks())


@attack()
def copies_that_are_wrong(it: HandIn):
    """Leaves a wrong copy behind a right answer."""
    task = it.rest[0]
    it.solve(task)
    it.earned[task.exercise.id] = 0.0
    wrong = copy.deepcopy(it.cell(task.exercise.id)) | {"source": task.wrong}
    it.notebook["cells"].append(wrong)


@attack()
def deleted_cells(it: HandIn):
    """Deletes check cells, texts, the first code cell, and an answer that had been right."""
    it.solve(it.rest[0], it.rest[1])
    it.earned[it.rest[1].exercise.id] = 0.0
    gone = [*it.checks(), it.cell(it.rest[1].exercise.id)]
    gone += [cell for cell in it.notebook["cells"] if cell["cell_type"] == "markdown"]
    gone.append(next(cell for cell in it.notebook["cells"] if cell["cell_type"] == "code"))
    it.notebook["cells"] = [cell for cell in it.notebook["cells"] if cell not in gone]


@attack()
def merged_cells(it: HandIn):
    """Merges two answers into one cell, and an answer with its check."""
    one, other = [task for task in it.rest if task.functions][:2]
    it.solve(one, other)
    it.answer(one, f"{one.solution}\n\n\n{other.solution}")
    it.notebook["cells"].remove(it.cell(other.exercise.id))


@attack()
def moved_cells(it: HandIn):
    """Turns the order of all cells around."""
    it.solve(*it.rest[:2])
    it.notebook["cells"].reverse()


@attack()
def retyped_cells(it: HandIn):
    """Makes Markdown of an answer, raw text of another, and code of all texts."""
    it.solve(*it.rest[:2])
    for cell in it.notebook["cells"]:
        cell["cell_type"] = "code" if cell["cell_type"] == "markdown" else cell["cell_type"]
    it.cell(it.rest[0].exercise.id)["cell_type"] = "markdown"
    it.cell(it.rest[1].exercise.id)["cell_type"] = "raw"
    for cell in it.checks():
        cell["cell_type"] = "markdown"


@attack()
def split_cells(it: HandIn):
    """Splits an answer, so that its first half bears the id and its second half stands in a cell of its own."""
    task = next(task for task in it.rest if task.functions)
    lines = task.solution.splitlines()
    place = next(number for number, line in enumerate(lines) if '"""' in line)
    cell = it.cell(task.exercise.id)
    cell["source"] = "\n".join(lines[:place])
    half = copy.deepcopy(cell) | {"source": "\n".join(lines[place:]), "metadata": {}, "id": "half"}
    it.notebook["cells"].insert(it.place(cell) + 1, half)


# ---------------------------------------------------------------- metadata


@attack()
def changed_points(it: HandIn):
    """Changes points to thousands, to less than nothing, to nan, to text and to lists."""
    values = [1000, -5, float("nan"), "9", [9], None, True, 1e308]
    for cell, points in zip(it.checks(), values, strict=False):
        cell["metadata"]["nbgrader"]["points"] = points


@attack()
def changed_flags(it: HandIn):
    """Turns all of nbgrader's flags around: answers that are graded, checks that are solutions, tasks."""
    for cell in it.notebook["cells"]:
        if own := cell["metadata"].get("nbgrader"):
            own |= {"grade": not own["grade"], "solution": not own["solution"], "locked": False, "task": True}
            own["checksum"] = "0"


@attack()
def changed_versions(it: HandIn):
    """Changes the schema versions of nbgrader's metadata: old ones, unknown ones, text."""
    for number, cell in enumerate(it.checks() + [it.cell(task.exercise.id) for task in it.tasks]):
        cell["metadata"]["nbgrader"]["schema_version"] = [1, 2, 99, "three", None][number % 5]


@attack()
def lost_metadata(it: HandIn):
    """Loses all metadata, as some editors do; only the cells' own ids are left."""
    it.notebook["metadata"] = {}
    for cell in it.notebook["cells"]:
        cell["metadata"] = {}


@attack()
def swapped_ids(it: HandIn):
    """Gives one right answer the ids of all exercises, and checks the ids of answers."""
    solution = it.last.solution
    for task in it.rest:
        it.answer(task, solution)
    for cell in it.checks(it.rest):
        cell["metadata"]["nbgrader"]["grade_id"] = it.rest[0].exercise.id
        cell["metadata"]["nbgrader"] |= {"grade": False, "solution": True}


@attack()
def odd_ids(it: HandIn):
    """Adds cells whose grade ids are lists, paths, very long, empty, or those of the gradebook's columns."""
    for number, odd in enumerate(
        ([1], {"a": 1}, None, 5, "", "../../x", "x" * 10**5, "__proto__", "grade'; drop table")
    ):
        cell = copy.deepcopy(it.cell(it.rest[0].exercise.id)) | {"id": f"odd-{number}", "source": "pass"}
        cell["metadata"]["nbgrader"]["grade_id"] = odd
        it.notebook["cells"].append(cell)


@attack()
def foreign_kernel(it: HandIn):
    """Names another language's kernel, and one whose name is a path and a command."""
    it.notebook["metadata"]["kernelspec"] = {
        "name": "../../evil; rm",
        "language": "R",
        "display_name": "",
        "argv": ["sh"],
    }


@attack()
def other_kinds_of_cells(it: HandIn):
    """Adds cells that are no cells: numbers, lists, without source, with sources that are dicts."""
    it.notebook["cells"] += [
        1,
        None,
        [],
        {},
        {"cell_type": "code"},
        {"cell_type": 7, "source": {"a": 1}, "metadata": 3},
    ]
    it.notebook["cells"].append({"cell_type": "code", "source": ["pass", 5], "metadata": {"nbgrader": "solution"}})


# ---------------------------------------------------------------- versions and files


@attack()
def old_format(it: HandIn):
    """Saves the notebook in format 3, with worksheets."""
    it.content = nbformat.v3.writes_json(nbformat.v4.downgrade(nbformat.v4.reads(json.dumps(it.notebook)))).encode()


@attack()
def format_of_the_future(it: HandIn):
    """Says that its format is 5, with fields that nobody knows."""
    it.notebook |= {"nbformat": 5, "nbformat_minor": 99, "future": {"cells": []}}
    for cell in it.notebook["cells"]:
        cell["future"] = 1


@attack()
def no_cell_ids(it: HandIn):
    """Saves without cell ids, with sources as lists of lines, and with a byte order mark."""
    for cell in it.notebook["cells"]:
        cell.pop("id", None)
        cell["source"] = cell["source"].splitlines(keepends=True) if isinstance(cell["source"], str) else cell["source"]
    it.content = b"\xef\xbb\xbf" + json.dumps(it.notebook | {"nbformat_minor": 4}).encode()


@attack()
def torn_file(it: HandIn):
    """Hands in the first half of a notebook."""
    it.content = json.dumps(it.notebook).encode()[:20_000]
    it.refused = True


@attack()
def merge_conflict(it: HandIn):
    """Hands in a notebook with the marks of a merge conflict."""
    text = json.dumps(it.notebook, indent=1)
    it.content = text.replace('"cells"', '<<<<<<< HEAD\n=======\n>>>>>>> mine\n"cells"').encode()
    it.refused = True


@attack()
def binary_file(it: HandIn):
    """Hands in a picture as a notebook."""
    it.content = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 50
    it.refused = True


@attack()
def pickle_file(it: HandIn):
    """Hands in a pickle that runs a command when it is loaded."""

    class Run:
        def __reduce__(self):
            return exec, (f"open({str(it.around.course / it.around.token)!r}, 'w')",)

    it.content = pickle.dumps(Run())
    it.refused = True


@attack()
def empty_file(it: HandIn):
    """Hands in an empty file."""
    it.content = b""
    it.refused = True


@attack()
def no_cells(it: HandIn):
    """Hands in a notebook without cells."""
    it.notebook["cells"] = []
    it.refused = True


@attack(nbgrader_safe=False)
def huge_file(it: HandIn):
    """Hands in a notebook of 130 MiB."""
    it.notebook["metadata"]["filler"] = "x" * 130 * 2**20
    it.refused = True


@attack()
def many_cells(it: HandIn):
    """Hands in a notebook of 5000 cells."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": "pass"}
    it.notebook["cells"] += [cell | {"id": f"many-{number}"} for number in range(5000)]
    it.refused = True


@attack()
def deep_json(it: HandIn):
    """Hands in JSON that is nested a hundred thousand times."""
    it.content = b'{"cells":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    it.refused = True


@attack()
def odd_json(it: HandIn):
    """Hands in JSON with numbers of thousands of digits, with cells twice and with nan."""
    text = json.dumps(it.notebook)
    it.content = text.replace('"nbformat": 4', '"nbformat": 4, "x": NaN, "y": 1e999, "nbformat": 4').encode()


@attack()
def other_chapter(it: HandIn):
    """Hands in another chapter's notebook."""
    it.content = Chapter(CHAPTER.place, "02_tensors_views").release.read_bytes()
    it.refused = True


@attack()
def renamed_notebook(it: HandIn):
    """Hands in the notebook under another name, between copies of the browser's making."""
    it.files = {"gather_scatter (1).ipynb": json.dumps(it.notebook).encode()}
    it.links = {NAME: "nowhere"}
    it.refused = True


# ---------------------------------------------------------------- links and names


@attack()
def link_to_the_solutions(it: HandIn):
    """Hands in a link to the solutions."""
    it.links = {NAME: f"@COURSE/solutions/{CHAPTER.name}/{NAME}"}
    it.refused = True


@attack(nbgrader_safe=False)
def link_to_private_files(it: HandIn):
    """Hands in links beside its notebook, to private files of the teacher and to the gradebook."""
    it.links = {
        "a.txt": "/etc/passwd",
        "b.db": "@COURSE/gradebook.db",
        "c": "/proc/self/environ",
        "timestamp.txt": "/dev/zero",
    }


@attack(nbgrader_safe=False)
def link_to_an_endless_file(it: HandIn):
    """Hands in a link to a device that never ends."""
    it.links = {NAME: "/dev/zero"}
    it.refused = True


@attack()
def link_to_a_neighbour(it: HandIn):
    """Hands in a link to the work of the student next to it."""
    before = f"{int(it.student[:3]) - 1:03d}"
    it.links = {NAME: f"@COURSE/submitted/{before}-honest/{CHAPTER.name}/{NAME}"}
    it.refused = True


@attack()
def odd_name(it: HandIn):
    """Bears a name with a line break, that would split a CSV row and a log."""
    it.student += "\n,20.0"
    it.refused = True


@attack()
def odd_timestamp(it: HandIn):
    """Says that it was handed in in the year 9999, in a file that goes on with noise."""
    it.files = {"timestamp.txt": b"9999-12-31 23:59:59 UTC\0\xff" + b"x" * 10_000}
