"""`torchkata update`: a newer release comes with all that the learner wrote, whatever has happened to their copy."""

from __future__ import annotations

import json
import random
import shutil
import string
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from typer.testing import CliRunner

from tests.tools.learning.small_course import SOURCE, as_editors_leave_it, learner_writes, make_course, publish
from torchkata.base.places import KEPT
from torchkata.cli import app
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.learning import workbook
from torchkata.tools.learning.exercises import find_exercise, reset
from torchkata.tools.learning.merging import merge
from torchkata.tools.learning.update import Updated, update
from torchkata.tools.learning.workbook import fill_workbook, release_of_copy
from torchkata.tools.placing import Place

NEWER = SOURCE.replace("# # Three things", "# # Three good things").replace('test("a number")', 'test("any number")')
TWICE = "def twice(x):\n    return x + x  # mine"


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    made = make_course(tmp_path)
    fill_workbook(Place(tmp_path))
    return made


def mine(chapter: Chapter) -> NotebookNode:
    return nbformat.read(chapter.workbook, as_version=4)


def sources(notebook: NotebookNode) -> dict[str, str]:
    return {cell.id: cell.source for cell in notebook.cells}


def changed(chapter: Chapter, change) -> None:
    """Apply a change to the list of cells of the learner's notebook and save it."""
    notebook = mine(chapter)
    notebook.cells = change(notebook.cells) or notebook.cells
    nbformat.write(notebook, chapter.workbook)


def place(cells: list[NotebookNode], name: str) -> int:
    return next(n for n, cell in enumerate(cells) if cell.id == name)


# ---------------------------------------------------------------- a newer release


def test_answers_and_own_cells_come_along(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)

    def add(cells):
        cells[place(cells, "twice")].outputs = [nbformat.v4.new_output("stream", text="ran\n")]
        cells.insert(place(cells, "twice"), new_code_cell("helper = 1", id="own-1"))
        cells.append(new_markdown_cell("my notes", id="own-2"))

    changed(chapter, add)
    before = chapter.workbook.read_bytes()
    publish(chapter, NEWER)
    done = update(chapter)
    cells = mine(chapter).cells
    assert (done.state, done.answers, done.own) == ("updated", 1, 2)
    assert "Three good things" in cells[0].source
    answer = place(cells, "twice")
    assert cells[answer].source == TWICE and cells[answer].outputs[0].text == "ran\n"
    assert cells[answer].metadata.nbgrader.solution
    assert cells[answer - 1].source == "helper = 1"
    assert "any number" in cells[answer + 1].source
    assert cells[-1].source == "my notes"
    assert done.backup.read_bytes() == before
    assert release_of_copy(chapter).read_bytes() == chapter.release.read_bytes()
    assert update(chapter).state == "current"


def test_saved_states_of_widgets_stay(chapter: Chapter):
    saved = {"application/vnd.jupyter.widget-state+json": {"version_major": 2, "version_minor": 0, "state": {}}}
    notebook = mine(chapter)
    notebook.metadata["widgets"] = saved
    nbformat.write(notebook, chapter.workbook)
    publish(chapter, NEWER)
    assert update(chapter).state == "updated" and mine(chapter).metadata["widgets"] == saved


def test_own_cells_keep_pictures_and_outputs(chapter: Chapter):
    ran = nbformat.v4.new_output("stream", text="ran\n")
    own = [new_code_cell("mine = 1", id="own-1", outputs=[ran], execution_count=7), new_markdown_cell("![me](me.png)")]
    own[1].attachments = {"me.png": {"image/png": "aGk="}}
    changed(chapter, lambda cells: cells.extend(own))
    publish(chapter, NEWER)
    update(chapter)
    code, text = mine(chapter).cells[-2:]
    assert code.outputs == [ran] and code.execution_count == 7
    assert text.attachments == {"me.png": {"image/png": "aGk="}}


def test_a_moved_cell_does_not_take_own_cells_along(chapter: Chapter):
    demo = next(cell for cell in mine(chapter).cells if "a demo that nobody changed" in cell.source)
    changed(chapter, lambda cells: [*(c for c in cells if c != demo), demo, new_markdown_cell("my notes at the end")])
    publish(chapter, NEWER)
    update(chapter)
    cells = mine(chapter).cells
    assert cells[-1].source == "my notes at the end" and place(cells, demo.id) == 2


def test_a_changed_demo_stays_in_its_place_or_beside_the_new_one(chapter: Chapter):
    demo = 'print("a demo that nobody changed")'
    index = next(n for n, cell in enumerate(mine(chapter).cells) if demo in cell.source)

    def edit(cells):
        cells[index].source = 'print("my demo")'

    changed(chapter, edit)
    publish(chapter, NEWER)  # the demo is the same in it
    update(chapter)
    assert mine(chapter).cells[index].source == 'print("my demo")'
    publish(chapter, NEWER.replace(demo, 'print("a better demo")'))
    told = update(chapter).notes
    assert told == (
        "Texts and demos that you changed and that are others now, or gone: 1. Yours stand beside the new ones.",
    )
    own, new = mine(chapter).cells[index : index + 2]
    assert own.source == 'print("my demo")' and 'print("a better demo")' in new.source


def test_what_is_given_is_told_once_and_not_kept_when_it_changes_again(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    for given in ("def twice(x: int):", "def twice(x: float):"):
        publish(chapter, SOURCE.replace("def twice(x):", given))
        update(chapter)
    told = [cell.source for cell in mine(chapter).cells if "gives you to begin with has changed" in cell.source]
    assert len(told) == 1 and "x: float" in told[0]
    assert sources(mine(chapter))["twice"] == TWICE


def test_an_exercise_that_has_changed_or_gone_is_told(chapter: Chapter):
    learner_writes(chapter, twice=TWICE, thrice="def thrice(x): return x * 3  # mine")
    start = SOURCE.index('# %% answer="thrice"')
    publish(chapter, SOURCE[:start].replace("def twice(x):", "def twice(x: int):"))
    done = update(chapter)
    assert sources(mine(chapter))["twice"] == TWICE
    cells = mine(chapter).cells
    assert cells[-1].source == "def thrice(x): return x * 3  # mine" and "nbgrader" not in cells[-1].metadata
    given = cells[place(cells, "twice-check") + 1]
    assert given.source.startswith("What twice gives you to begin with has changed") and "x: int" in given.source
    assert done.notes == (
        "twice: what is given has changed. Your answer is there; what is given now stands below its checks.",
        "thrice is no longer in this chapter. Your answer stays as a cell of your own; the task stands in your copy "
        "as it was.",
    )
    publish(chapter, NEWER[: NEWER.index('# %% answer="thrice"')].replace("def twice(x):", "def twice(x: int):"))
    assert (update(chapter).state, update(chapter).notes) == ("updated", ())
    assert [cell.source for cell in mine(chapter).cells].count(given.source) == 1


def test_news_of_a_release_are_told(chapter: Chapter):
    text = "# %% [markdown]\n# ### Exercise 98.1 · Twice\n#\n# implement · easy · 5 min · 2 points\n#\n# Twice {}.\n\n"
    twice, thrice = SOURCE.index('# %% answer="twice"'), SOURCE.index('# %% answer="thrice"')
    publish(chapter, SOURCE[:twice] + text.format("a number") + SOURCE[twice:thrice])
    update(chapter)
    learner_writes(chapter, twice=TWICE)
    worth = SOURCE[twice:].replace('check="guess" points=3', 'check="guess" points=2')
    newer = text.replace("98.1", "98.2").replace("easy", "warm-up")
    publish(chapter, SOURCE[:twice] + newer.format("`a number`") + worth)
    assert update(chapter).notes == (
        "New, to be solved: thrice (1 point).",
        "Other points, to make room: guess 2 (was 3).",
    )
    publish(chapter, SOURCE[:twice] + newer.format("a tensor") + worth)
    assert update(chapter).notes == ("The task has other words now, read it again: twice.",)


def test_own_cells_go_where_the_exercise_goes(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    changed(chapter, lambda cells: cells.insert(place(cells, "twice-check") + 1, new_code_cell("own = 1", id="own")))
    twice, guess = (SOURCE.index(f'# %% answer="{name}"') for name in ("twice", "guess"))
    publish(chapter, SOURCE[:twice] + SOURCE[guess:] + "\n" + SOURCE[twice:guess])
    update(chapter)
    names = [cell.id for cell in mine(chapter).cells]
    assert names[names.index("twice") :] == ["twice", "twice-check", "own"]


def test_an_edited_check_cell_becomes_the_chapters_again(chapter: Chapter):
    learner_writes(chapter, **{"twice-check": "print('my own check')"})
    publish(chapter, NEWER)
    update(chapter)
    cells = mine(chapter).cells
    check = place(cells, "twice-check")
    assert "any number" in cells[check].source and cells[check + 1].source == "print('my own check')"


def test_a_copy_of_unknown_origin(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    release_of_copy(chapter).unlink()
    publish(chapter, NEWER)
    assert [one.state for one in fill_workbook(chapter.place)] == ["kept"]
    done = update(chapter)
    assert sources(mine(chapter))["twice"] == TWICE
    assert done.state == "updated"
    assert {cell.cell_type for cell in mine(chapter).cells if "Twice" in cell.source} == {"code", "raw"}


def test_of_a_copy_of_unknown_origin_only_the_learners_cells_are_kept(chapter: Chapter):
    """Also where the newest release has them no more: neither its texts, nor the answer to an exercise that is gone as
    that to a new one which asks for the same name."""
    learner_writes(chapter, twice=TWICE, thrice="def thrice(x): return x * 3  # mine")
    changed(chapter, lambda cells: cells.append(new_code_cell("own = 1", id="own")))
    mine_before = sources(mine(chapter))
    release_of_copy(chapter).unlink()
    demo = 'print("a demo that nobody changed")'
    other = SOURCE.replace('"thrice"', '"threefold"').replace(demo, 'print("a better demo")')
    publish(chapter, other.replace("import torch\n", "import math\n\nimport torch\n"))
    done = update(chapter)
    found = {cell.source: cell.cell_type for cell in mine(chapter).cells}
    assert not [text for text in found if demo in text] and sum("import torch\n" in text for text in found) == 1
    assert found["def thrice(x): return x * 3  # mine"] == found["own = 1"] == "code" and done.own == 3
    assert found[mine_before["thrice-check"]] == "raw", "it judges an exercise that is gone: it must not run"
    assert "NotImplementedError" in sources(mine(chapter))["threefold"]
    assert "threefold: your copy has no answer cell for it. It is there now, not solved." in done.notes


def test_a_damaged_record_of_the_release_does_no_harm(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    release_of_copy(chapter).write_text("{")
    assert update(chapter).state == "updated"
    assert sources(mine(chapter))["twice"] == TWICE
    assert update(chapter).state == "current"


def test_an_own_function_is_not_taken_for_the_answer_to_a_new_exercise(chapter: Chapter):
    changed(chapter, lambda cells: cells.insert(2, new_code_cell("def thrice(x): return 'mine'", id="own")))
    publish(chapter, SOURCE)
    without = SOURCE[: SOURCE.index('# %% answer="thrice"')]
    publish(chapter, without)
    update(chapter)
    publish(chapter, SOURCE)
    update(chapter)
    found = sources(mine(chapter))
    assert found["own"] == "def thrice(x): return 'mine'" and "NotImplementedError" in found["thrice"]


def test_merging_twice_changes_nothing(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    changed(chapter, lambda cells: cells.insert(2, new_code_cell("own = 1", id="own")))
    release = nbformat.read(chapter.release, as_version=4)
    once = merge(release, [mine(chapter)], release).notebook
    assert merge(release, [once], release).notebook == once


# ---------------------------------------------------------------- damage


def test_deleted_cells_come_back(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    changed(chapter, lambda cells: [cell for cell in cells if cell.id not in ("twice-check", "guess", "thrice")])
    done = update(chapter)
    assert done.state == "mended"
    assert list(sources(mine(chapter))) == list(sources(nbformat.read(chapter.release, as_version=4)))
    assert sources(mine(chapter))["twice"] == TWICE
    assert "guess: its answer cell was missing. It is back, not solved." in done.notes


def test_of_copies_the_last_counts_and_the_other_stays(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    changed(chapter, lambda cells: cells.append(dict_cell(cells[place(cells, "twice")], "def twice(x): return 2 * x")))
    assert update(chapter).state == "mended"
    cells = mine(chapter).cells
    answers = [cell.source for cell in cells if cell.source.startswith("def twice")]
    assert cells[place(cells, "twice")].source == "def twice(x): return 2 * x"
    assert sorted(answers) == sorted([TWICE, "def twice(x): return 2 * x"])


def dict_cell(cell: NotebookNode, source: str) -> NotebookNode:
    return nbformat.from_dict(dict(cell, id="a-copy", source=source))


def test_reordered_cells_stand_in_order_again(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    changed(chapter, lambda cells: [*cells[:2], *cells[2:][::-1]])
    assert update(chapter).state == "mended"
    assert list(sources(mine(chapter))) == list(sources(nbformat.read(chapter.release, as_version=4)))
    assert sources(mine(chapter))["twice"] == TWICE


def merged_cells(first: str, second: str):
    """What JupyterLab's Merge Cells does: the texts with an empty line between, the metadata of the first."""

    def change(cells):
        a, b = place(cells, first), place(cells, second)
        cells[a].source += "\n\n" + cells[b].source
        del cells[b]

    return change


def demo_of(chapter: Chapter) -> str:
    return next(cell.id for cell in mine(chapter).cells if "a demo that nobody" in cell.source)


@pytest.mark.parametrize("which", ["demo and answer", "answer and check", "both"])
def test_merged_cells_are_told_apart(chapter: Chapter, which: str):
    learner_writes(chapter, twice=TWICE)
    demo = demo_of(chapter)
    if which != "demo and answer":
        changed(chapter, merged_cells("twice", "twice-check"))
    if which != "answer and check":
        changed(chapter, merged_cells(demo, "twice"))
    assert update(chapter).state == "mended"
    assert sources(mine(chapter)) == sources(nbformat.read(chapter.release, as_version=4)) | {"twice": TWICE}


def test_an_answer_cell_that_became_text_is_code_again(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)

    def retype(cells):
        cell = cells[place(cells, "twice")]
        cell.cell_type = "markdown"
        del cell["outputs"], cell["execution_count"]

    changed(chapter, retype)
    assert update(chapter).state == "mended"
    cell = mine(chapter).cells[place(mine(chapter).cells, "twice")]
    assert (cell.cell_type, cell.source) == ("code", TWICE)


def test_a_conflict_is_put_together(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    ours = chapter.workbook.read_text(encoding="utf-8")
    learner_writes(chapter, twice="def twice(x): return 2 * x", thrice="def thrice(x): return 3 * x")
    theirs = chapter.workbook.read_text(encoding="utf-8")
    chapter.workbook.write_text(conflict_of(ours, theirs), encoding="utf-8")
    done = update(chapter)
    cells = mine(chapter).cells
    answer = place(cells, "twice")
    assert cells[answer].source == TWICE
    assert cells[answer + 1].source == "def twice(x): return 2 * x"
    assert sources(mine(chapter))["thrice"] == "def thrice(x): return 3 * x"
    assert done.notes[0].startswith("Two versions of it were in conflict")
    assert "<<<<<<<" in done.backup.read_text(encoding="utf-8")


def conflict_of(ours: str, theirs: str) -> str:
    """The text that git leaves in a file."""
    import difflib

    one, two, lines = ours.splitlines(True), theirs.splitlines(True), []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += one[a:b]
        else:
            lines += ["<<<<<<< HEAD\n", *one[a:b], "=======\n", *two[c:d], ">>>>>>> other\n"]
    return "".join(lines)


def test_cells_of_two_sides_get_ids_of_their_own(chapter: Chapter):
    release = mine(chapter)
    sides = [nbformat.from_dict(release), nbformat.from_dict(release)]
    for number, side in enumerate(sides):
        side.cells = [*side.cells[:3], new_code_cell(f"own = {number}", id="own"), *side.cells[3:]]
    merged = merge(release, sides, release).notebook
    assert [cell.source for cell in merged.cells if cell.source.startswith("own")] == ["own = 0", "own = 1"]
    assert len({cell.id for cell in merged.cells}) == len(merged.cells)


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"cells": 3}', "<<<<<<< mine\n{}\n=======\n{}\n>>>>>>> theirs\n"])
def test_what_cannot_be_read_stays_and_is_explained(chapter: Chapter, broken: str):
    publish(chapter, NEWER)
    chapter.workbook.write_text(broken, encoding="utf-8")
    with pytest.raises(CourseError, match="is not a readable notebook") as told:
        update(chapter)
    assert "rename it and run `torchkata lab`" in str(told.value)
    assert "JupyterLab kept a copy" not in str(told.value)
    checkpoint = chapter.workbook.parent / ".ipynb_checkpoints" / "things-checkpoint.ipynb"
    checkpoint.parent.mkdir()
    checkpoint.write_text("{}")
    with pytest.raises(CourseError, match=r"JupyterLab kept a copy at [\d: -]+: .*things-checkpoint"):
        update(chapter)
    assert chapter.workbook.read_text(encoding="utf-8") == broken


# ---------------------------------------------------------------- nothing is lost


def damage(rng: random.Random, cells: list[NotebookNode], written: list[str]) -> None:
    """One thing that a learner may do to a notebook; what they write goes into `written`."""
    n = rng.randrange(len(cells))
    own = f"own_{''.join(rng.choices(string.ascii_lowercase, k=8))} = 1"
    match rng.randrange(7):
        case 0:
            cells.insert(n, new_code_cell(own))
            written.append(own)
        case 1:
            cells.append(cells.pop(n))
        case 2 if not any(line in cells[n].source for line in written):
            del cells[n]
        case 3:
            cells[n].source += f"\n{own}"
            written.append(own)
        case 4:
            cells.insert(n, nbformat.from_dict(dict(cells[n], id=own[4:12])))
        case 5 if n:
            cells[n - 1].source += "\n\n" + cells[n].source
            del cells[n]
        case 6:
            cells[n].source = own
            written.append(own)
            written[:] = [line for line in written if any(line in cell.source for cell in cells)]


@pytest.mark.parametrize("seed", range(150))
def test_no_line_is_lost_whatever_the_learner_did(release: NotebookNode, newer: NotebookNode, seed: int):
    rng = random.Random(seed)
    learner = nbformat.from_dict(release)
    written: list[str] = []
    for _ in range(rng.randrange(1, 9)):
        damage(rng, learner.cells, written)
    base = release if seed % 3 else None
    new = newer if seed % 2 else release
    merged = merge(base, [learner], new)
    after = "\n".join(cell.source for cell in merged.notebook.cells)
    assert [line for line in written if line not in after] == []
    known = [cell.id for cell in merged.notebook.cells if cell.id in sources(new)]
    assert known == list(sources(new)), "each cell of the release stands once, in its order"
    nbformat.validate(merged.notebook)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    return nbformat.read(make_course(tmp_path_factory.mktemp("course")).release, as_version=4)


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    chapter = make_course(tmp_path_factory.mktemp("course"))
    publish(chapter, NEWER)
    return nbformat.read(chapter.release, as_version=4)


@pytest.mark.parametrize("fails", ["backup", "notebook"])
def test_a_full_disk_changes_nothing(chapter: Chapter, fails: str, monkeypatch: pytest.MonkeyPatch):
    learner_writes(chapter, twice=TWICE)
    publish(chapter, NEWER)
    before = chapter.workbook.read_bytes()
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if ("backups" in path.parts) == (fails == "backup"):
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CourseError, match=r"No space left on device\. Nothing of yours is lost"):
        update(chapter)
    monkeypatch.undo()
    assert chapter.workbook.read_bytes() == before
    assert not list(chapter.root.rglob(".new-*"))
    assert update(chapter).state == "updated"


def test_a_conflict_with_one_side_that_cannot_be_read_is_told(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    ours = chapter.workbook.read_text(encoding="utf-8")
    chapter.workbook.write_text(conflict_of(ours, ours.replace('"cells"', '"oops')), encoding="utf-8")
    done = update(chapter)
    assert (done.state, sources(mine(chapter))["twice"]) == ("mended", TWICE)
    assert done.notes[0].startswith("Of two versions in conflict one could not be read")
    assert update(chapter).state == "current"


@pytest.mark.parametrize("origin", ["known", "unknown"])
def test_an_editors_layout_is_no_change(chapter: Chapter, origin: str):
    learner_writes(chapter, twice=TWICE)

    def laid_out(cells):
        for cell in cells:
            if cell.cell_type == "code" and cell.id != "twice":
                cell.source = as_editors_leave_it(cell.source)

    changed(chapter, laid_out)
    assert update(chapter).state == "current"
    if origin == "unknown":
        release_of_copy(chapter).unlink()
    publish(chapter, SOURCE.replace("# # Three things", "# # Three good things"))
    told = update(chapter)
    assert (told.answers, told.own) == (1, 0)
    assert sources(mine(chapter)) == sources(nbformat.read(chapter.release, as_version=4)) | {"twice": TWICE}


def test_an_edited_check_cell_is_mended_without_a_newer_release(chapter: Chapter):
    learner_writes(chapter, **{"twice-check": "print('my own check')"})
    assert update(chapter).state == "mended"
    assert "my own check" not in sources(mine(chapter))["twice-check"]
    assert update(chapter).state == "current"


MALFORMED = {
    "an unknown kind": {"cell_type": "sql"},
    "no kind": {"cell_type": None},
    "no source": {"source": None},
    "no outputs": {"outputs": None},
    "an id that is a number": {"id": 5},
    "a long id": {"id": "x" * 200},
    "a list as grade id": {"metadata": {"nbgrader": {"grade_id": [], "solution": True}}},
    "no grade id": {"metadata": {"nbgrader": {"solution": True}}},
    "nbgrader as a list": {"metadata": {"nbgrader": ["solution"]}},
    "nbgrader as a text": {"metadata": {"nbgrader": "solution"}},
    "half a surrogate pair": {"source": "x = '\ud800'"},
}


@pytest.mark.parametrize("minor", [2, 5])
@pytest.mark.parametrize("odd", MALFORMED.values(), ids=MALFORMED)
def test_cells_as_other_programs_leave_them(chapter: Chapter, odd: dict, minor: int):
    learner_writes(chapter, twice=TWICE)
    text = json.loads(chapter.workbook.read_text(encoding="utf-8"))
    cell = {"cell_type": "code", "id": "odd", "metadata": {}, "source": "y = 1", "outputs": [], "execution_count": None}
    cell = {key: value for key, value in (cell | odd).items() if value is not None}
    text["cells"].insert(2, cell)
    text["nbformat_minor"] = minor
    if minor < 5:
        for one in text["cells"]:
            one.pop("id", None)
    chapter.workbook.write_text(json.dumps(text), encoding="utf-8")
    assert find_and_reset(chapter)
    nbformat.validate(mine(chapter))
    learner_writes(chapter, twice=TWICE)
    publish(chapter, NEWER)
    update(chapter)
    nbformat.validate(mine(chapter))
    assert sources(mine(chapter))["twice"] == TWICE


def find_and_reset(chapter: Chapter) -> bool:
    return reset(*find_exercise("twice", chapter.place))


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of Unix")
def test_a_link_and_a_mode_stay(chapter: Chapter):
    elsewhere = chapter.root / "elsewhere.ipynb"
    chapter.workbook.rename(elsewhere)
    elsewhere.chmod(0o600)
    chapter.workbook.symlink_to(elsewhere)
    publish(chapter, NEWER)
    assert update(chapter).state == "updated"
    assert chapter.workbook.is_symlink() and "Three good things" in elsewhere.read_text()
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    elsewhere.unlink()
    assert [one.state for one in fill_workbook(chapter.place)] == ["kept"]
    assert chapter.workbook.is_symlink()


@pytest.mark.parametrize("place", ["lock", "version", "releases", "releases/{}.ipynb", "backups", "backups/{}"])
def test_a_link_in_what_the_course_keeps_is_not_followed(chapter: Chapter, tmp_path: Path, place: str):
    """The workbook may be a stranger's, and the one who runs the command may write what the stranger may not."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("theirs")
    link = chapter.place.workbook / KEPT / place.format(chapter.name)
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(theirs if link.name in ("releases", "backups", chapter.name) else theirs / "file")
    publish(chapter, SOURCE.replace("twice", "double"))
    with pytest.raises(CourseError, match="is a link, which torchkata doesn't write through"):
        update(chapter)
    assert [path.name for path in theirs.iterdir()] == ["file"] and (theirs / "file").read_text() == "theirs"


def test_backups_do_not_replace_one_another(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    texts = []
    for n in range(3):
        learner_writes(chapter, twice=f"def twice(x): return {n}")
        texts.append(chapter.workbook.read_bytes())
        workbook.back_up(chapter)
    folder = chapter.root / "workbook" / ".torchkata" / "backups" / chapter.name
    assert sorted(path.read_bytes() for path in folder.iterdir()) == sorted(texts)


# ---------------------------------------------------------------- the command


def test_the_command(chapter: Chapter, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(chapter.root)
    run = CliRunner().invoke
    assert run(app, ["update"]).stdout == "98_things is up to date.\n"
    learner_writes(chapter, twice=TWICE)
    publish(chapter, NEWER)
    told = " ".join(run(app, ["update", "98"]).stdout.split())
    assert "98_things: updated. Answers carried over: 1; cells of your own: 0." in told
    assert "Your copy as it was: " in told and "Reload Notebook from Disk" in told
    publish(Chapter(chapter.place, "97_more"), SOURCE)
    assert "Not in your workbook yet: 97_more. `torchkata lab` puts it there." in run(app, ["update"]).stdout
    chapter.workbook.write_text("{")
    failed = run(app, ["update"])
    assert failed.exit_code == 2 and "is not a readable notebook" in failed.output


def test_the_result_says_what_happened(chapter: Chapter):
    assert update(chapter) == Updated(chapter, "current")


def test_a_byte_order_mark_is_read_over(chapter: Chapter):
    learner_writes(chapter, twice=TWICE)
    chapter.workbook.write_bytes(b"\xef\xbb\xbf" + chapter.workbook.read_bytes())
    publish(chapter, NEWER)
    assert update(chapter).answers == 1


def test_what_is_no_text_stays_as_it_is(chapter: Chapter):
    chapter.workbook.write_bytes(b"\xff\xfe{\x00}\x00")
    with pytest.raises(CourseError, match="not text in UTF-8\nIt stays as it is"):
        update(chapter)
    assert chapter.workbook.read_bytes() == b"\xff\xfe{\x00}\x00"
