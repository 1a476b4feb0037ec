"""What check cells share stands in one cell of a notebook: whoever checks it, and whatever happens to the cell."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from tests.tools.grading.classroom import blank, folder_of
from tests.tools.grading.sandbox.test_boundary import WHY_NOT
from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish, read
from torchkata.base.chapter import exercises_of
from torchkata.base.shared_helpers import whole_checks
from torchkata.tools.course import Chapter
from torchkata.tools.grading.batch import grade_chapter
from torchkata.tools.grading.chapter import read_release
from torchkata.tools.grading.grader import grader_of
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import Record, Submission
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.choosing import to_run
from torchkata.tools.learning.update import update
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.nbgrader_parts import MasterMetadata
from torchkata.tools.placing import Place

HELPERS = '''# %% helpers="four"
"""What the checks of four share."""


def doubled(x):
    return 2 * x


def of_doubled(answer, x):
    return answer(doubled(x))

'''
FOUR = (
    """
# %% answer="four"
def four(x):
    ### BEGIN SOLUTION
    return 4 * x
    ### END SOLUTION

"""
    + HELPERS
    + '''# %% check="four" points=2
"""Four."""
with check("four") as test:
    test("a number")
    observe(four, 4).returns(doubled(doubled(4)))

# %% check="four" points=1
"""Of twice as much."""
with check("four") as test:
    test("a number")
    observe_scenario(of_doubled, four, 4).returns(32)
    ### BEGIN HIDDEN TESTS
    test.hidden("a negative number")
    observe(four, -4).returns(doubled(doubled(-4)))
    ### END HIDDEN TESTS
'''
)
SHARING = SOURCE.replace("observe, observe_value", "observe, observe_scenario, observe_value") + FOUR
DOUBLED = "\n    def doubled(x):\n        return 2 * x\n"
STORY = "\n    def of_doubled(answer, x):\n        return answer(doubled(x))\n"
TEST = '\n    test("a number")\n    observe'
WITHOUT = (  # the same in the form of an earlier release
    SHARING.replace(HELPERS, "")
    .replace(f"{TEST}(four", f"\n{DOUBLED}{TEST}(four")
    .replace(f"{TEST}_scenario(of", f"\n{DOUBLED}{STORY}{TEST}_scenario(of")
)
RIGHT, WRONG = "def four(x): return 4 * x", "def four(x): return x + 12"


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    made = make_course(tmp_path)
    publish(made, SHARING)
    fill_workbook(Place(tmp_path))
    return made


def grade_ids(notebook: NotebookNode) -> list[str]:
    return [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]


def of_four(notebook: NotebookNode) -> list[str]:
    return [name for name in grade_ids(notebook) if name.startswith("four")]


def points(chapter: Chapter) -> float:
    (verdict,) = check_chapter(chapter, {"four"})
    return verdict.points


def change(notebook: NotebookNode, how: str) -> None:
    """What may happen to a helpers cell."""
    place = next(n for n, cell in enumerate(notebook.cells) if cell.id == "four-helpers")
    if how == "edited":
        notebook.cells[place].source = notebook.cells[place].source.replace("2 * x", "3 * x")
    if how == "broken":
        notebook.cells[place].source = "def doubled(x"
    if how in ("deleted", "moved", "text", "another's"):
        cell = notebook.cells.pop(place)
        notebook.cells += [cell] if how == "moved" else []
    if how == "copied":
        notebook.cells.append(NotebookNode(notebook.cells[place] | {"id": "copy", "source": "doubled = 1 / 0"}))


HOW = ("not at all", "edited", "broken", "deleted", "moved", "copied")


def test_the_release_shows_helpers_once_and_says_what_they_are(chapter: Chapter):
    release = nbformat.read(chapter.release, as_version=4)
    assert of_four(release) == ["four", "four-helpers", "four-check", "four-check-2"]
    (cell,) = [cell for cell in release.cells if cell.id == "four-helpers"]
    assert cell.metadata.nbgrader.locked and not cell.metadata.nbgrader.grade and "points" not in cell.metadata.nbgrader
    assert cell.metadata.jupyter.source_hidden and not cell.metadata.editable and not cell.metadata.deletable
    assert sum(cell.source.count("def doubled") for cell in release.cells) == 1


@pytest.mark.parametrize("how", HOW)
def test_check_runs_the_authors_helpers(chapter: Chapter, how: str):
    for answer, earned in ((RIGHT, 3), (WRONG, 2)):
        notebook = learner_writes(chapter, four=answer)
        change(notebook, how) if how not in ("deleted", "moved") or earned == 3 else None
        nbformat.write(notebook, chapter.workbook)
        assert points(chapter) == earned
    assert "doubled = 1 / 0" not in [cell.source for cell in to_run(chapter.master, read(chapter))]


@pytest.mark.parametrize("how", HOW)
def test_grade_takes_the_authors_helpers(chapter: Chapter, how: str):
    notebook = blank(chapter, four=RIGHT)
    change(notebook, how)
    hand_in(chapter, "ada", notebook)
    release = read_release(chapter)
    submission = read_submission(folder_of(chapter, "ada"), "ada", chapter, release)
    assert isinstance(submission, Submission)
    assert [(cell.kind, cell.exercise) for cell in submission.cells][-1] == ("answer", "four")
    assert not [cell for cell in submission.cells if cell.kind == "own"]
    changed = "changed or are of another release"
    told = {"edited": changed, "broken": changed, "deleted": "deleted", "copied": changed}.get(how)
    wanted = [f"Check cells were {told} (the chapter's own ones are run): four-helpers."] if told else []
    assert submission.notes == wanted


def test_marks_are_those_of_the_authors_helpers(chapter: Chapter):
    for how in HOW:
        notebook = blank(chapter, four=WRONG)
        change(notebook, how)
        hand_in(chapter, how.replace(" ", "-"), notebook)
    grader = grader_of(chapter, sandboxed=WHY_NOT is None)
    written = Results(grade_chapter(chapter, grader, sandboxed=WHY_NOT is None).folder).all()
    marks = {one.student: one.points for one in written if isinstance(one, Record)}
    assert marks == {how.replace(" ", "-"): 2.0 for how in HOW}


def hand_in(chapter: Chapter, student: str, notebook: NotebookNode) -> None:
    path = folder_of(chapter, student) / chapter.release.name
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


@pytest.mark.parametrize("how", HOW)
def test_nbgrader_gets_the_helpers_above_the_checks(chapter: Chapter, how: str):
    """nbgrader itself then overwrites the cell with the author's, since it is locked."""
    notebook = blank(chapter)
    change(notebook, how)
    step = MasterMetadata(release_directory=str(chapter.root / "notebooks"))
    info = {"assignment": chapter.name, "notebook": chapter.topic}
    cleaned, _ = step.preprocess(notebook, {"nbgrader": info})
    assert of_four(cleaned) == ["four", "four-helpers", "four-check", "four-check-2"]


def test_nbgrader_gets_them_where_the_answer_is_gone(chapter: Chapter):
    notebook = new_notebook()
    step = MasterMetadata(release_directory=str(chapter.root / "notebooks"))
    cleaned, _ = step.preprocess(notebook, {"nbgrader": {"assignment": chapter.name, "notebook": chapter.topic}})
    assert of_four(cleaned) == ["four-helpers", "four-check", "four-check-2"]


# ---------------------------------------------------------------- update


def checks_of_four(chapter: Chapter) -> list[tuple[str, float]]:
    """The check cells in the learner's copy: digest and points."""
    [four] = [one for one in exercises_of(read(chapter).cells) if one.id == "four"]
    return [(check.digest, check.points) for check in four.checks]


def test_a_notebook_of_the_earlier_form_gets_them_and_keeps_answers_and_verdicts(tmp_path: Path):
    chapter = make_course(tmp_path)
    publish(chapter, WITHOUT)
    fill_workbook(Place(tmp_path))
    learner_writes(chapter, four=RIGHT)
    before = checks_of_four(chapter)
    publish(chapter, SHARING)
    done = update(chapter)
    assert (done.state, done.answers, done.own, done.notes) == ("updated", 1, 0, ())
    assert of_four(read(chapter)) == ["four", "four-helpers", "four-check", "four-check-2"]
    assert checks_of_four(chapter) == before, "what is remembered of a check holds for the same check"


def test_checks_of_the_earlier_form_run_as_they_are(tmp_path: Path):
    chapter = make_course(tmp_path)
    publish(chapter, WITHOUT)
    fill_workbook(Place(tmp_path))
    learner_writes(chapter, four=RIGHT)
    old = [cell.source for cell in read(chapter).cells if cell.id.startswith("four-check")]
    publish(chapter, SHARING)
    new = nbformat.read(chapter.release, as_version=4).cells
    assert old == [cell.source for cell in whole_checks(new) if cell.id.startswith("four-check")]


@pytest.mark.parametrize("how", HOW)
def test_update_brings_back_the_courses_cell(chapter: Chapter, how: str):
    notebook = read(chapter)
    change(notebook, how)
    nbformat.write(notebook, chapter.workbook)
    assert update(chapter).state == ("current" if how == "not at all" else "mended")
    now = read(chapter)
    assert of_four(now) == ["four", "four-helpers", "four-check", "four-check-2"]
    release = {cell.id: cell.source for cell in nbformat.read(chapter.release, as_version=4).cells}
    assert {cell.id: cell.source for cell in now.cells if cell.id in release} == release
    assert not [cell for cell in now.cells if cell.cell_type == "code" and cell.id not in release], "nothing else runs"
