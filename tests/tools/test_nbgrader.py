"""The real nbgrader grades a chapter: release, five submissions in one batch, feedback and export."""

from __future__ import annotations

import csv
import html
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from tests.tools.submissions import Classroom, Submission, Task
from torchkata.base.marks import HIDDEN, regions
from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.placing import here

CHAPTER = Chapter(here(), "03_gather_scatter")
STUDENTS = ("right", "untouched", "half", "damaged", "endless")
TIMEOUT = 8  # seconds for a check cell of the endless answer: it costs them, and a busy machine stays far below
SHORTER = """
c.Execute.timeout_func = lambda cell: {timeout} if 'with check("{exercise}")' in cell.source else c.Execute.timeout
"""


@dataclass(frozen=True)
class Batch:
    """A course in a temporary folder after the batch: what was handed in, and what nbgrader's commands said."""

    root: Path
    tasks: list[Task]
    submissions: dict[str, Submission]
    said: dict[str, subprocess.CompletedProcess]

    def points(self, student: str) -> dict[str, float]:
        """A student's points by exercise, as they stand in the gradebook."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}", "torchkata") as gradebook:
            grades = gradebook.find_submission_notebook(CHAPTER.topic, CHAPTER.name, student).grades
            assert not [grade.name for grade in grades if grade.needs_manual_grade]
            points = {grade.name: grade.auto_score for grade in grades}
        return {task.exercise.id: sum(points[check] for check in task.exercise.check_ids) for task in self.tasks}

    def graded(self, student: str) -> NotebookNode:
        return read_notebook(self.root / "autograded" / student / CHAPTER.name / CHAPTER.release.name)

    def feedback(self, student: str) -> str:
        """The text of a student's feedback page as a browser shows it."""
        page = self.root / "feedback" / student / CHAPTER.name / f"{CHAPTER.topic}.html"
        body = page.read_text(encoding="utf-8").partition("<body")[2]
        return html.unescape(re.sub(r"<[^>]*>", "", body))


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(CHAPTER.solution.parent, root / "solutions" / CHAPTER.name)
    classroom = Classroom(CHAPTER)
    config = (CHAPTER.root / "nbgrader_config.py").read_text(encoding="utf-8")
    shorter = SHORTER.format(exercise=classroom.endless_task.exercise.id, timeout=TIMEOUT)
    (root / "nbgrader_config.py").write_text(config + shorter, encoding="utf-8")
    submissions = {student: getattr(classroom, student)() for student in STUDENTS}
    for student, submission in submissions.items():
        folder = root / "submitted" / student / CHAPTER.name
        folder.mkdir(parents=True)
        nbformat.write(submission.notebook, folder / CHAPTER.release.name)
    commands = ("generate_assignment", "autograde", "generate_feedback")
    said = {command: nbgrader(root, command, CHAPTER.name) for command in commands}
    said["export"] = nbgrader(root, "export", "--to=grades.csv")
    return Batch(root, classroom.tasks, submissions, said)


def nbgrader(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run a command of nbgrader in a course, out of reach of the user's own settings."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])  # nbgrader calls alembic
    settings = {"PATH": path, "JUPYTER_CONFIG_DIR": str(root / ".jupyter"), "IPYTHONDIR": str(root / ".ipython")}
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=root,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=1200,
    )


def checks_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]


def errors_of(notebook: NotebookNode) -> list[NotebookNode]:
    outputs = [output for cell in checks_of(notebook) for output in cell.outputs]
    return [output for output in outputs if output.output_type == "error"]


def text_of(notebook: NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells)


@pytest.fixture(scope="module")
def hidden_lines() -> set[str]:
    """The lines of hidden tests that stand nowhere in the release."""
    sources = [cell.source for cell in checks_of(read_notebook(CHAPTER.solution))]
    texts = [region.text for source in sources for region in regions(source, HIDDEN)]
    found = {line.strip() for text in texts for line in text.splitlines()}
    release = text_of(read_notebook(CHAPTER.release))
    return {line for line in found if line not in release}


@pytest.mark.parametrize("command", ["generate_assignment", "autograde", "generate_feedback", "export"])
def test_every_command_succeeds(batch: Batch, command: str):
    assert batch.said[command].returncode == 0, batch.said[command].stderr


def test_release_is_the_one_in_the_repository(batch: Batch):
    release = batch.root / "notebooks" / CHAPTER.name
    assert [path.name for path in release.iterdir()] == [CHAPTER.release.name]
    assert (release / CHAPTER.release.name).read_bytes() == CHAPTER.release.read_bytes()


@pytest.mark.parametrize("student", STUDENTS)
def test_points(batch: Batch, student: str):
    assert batch.points(student) == pytest.approx(batch.submissions[student].points, abs=1e-3)


def test_part_of_the_items_earns_part_of_the_points(batch: Batch):
    of_items = [task.exercise for task in batch.tasks if task.has_items]
    shares = [batch.points("half")[exercise.id] / exercise.points for exercise in of_items]
    assert shares and all(0.5 < share < 1 for share in shares)


@pytest.mark.parametrize("student", STUDENTS)
def test_every_check_cell_is_run_as_the_author_wrote_it(batch: Batch, student: str):
    wanted = checks_of(read_notebook(CHAPTER.solution))
    run = {cell.metadata.nbgrader.grade_id: cell for cell in checks_of(batch.graded(student))}
    assert {name: cell.source for name, cell in run.items()} == {
        cell.metadata.nbgrader.grade_id: cell.source for cell in wanted
    }
    assert all(cell.execution_count for cell in run.values())


def test_the_endless_answer_is_cut_off(batch: Batch):
    assert {error.ename for error in errors_of(batch.graded("endless"))} == {"Interrupted", "TooLong"}


@pytest.mark.parametrize("student", STUDENTS)
def test_feedback_shows_no_hidden_test(batch: Batch, hidden_lines: set[str], student: str):
    page = batch.feedback(student)
    own = text_of(batch.submissions[student].notebook)
    assert not [line for line in hidden_lines if line in page and line not in own]
    assert "Traceback" not in page and not re.search(r"-> \d+", page), "a traceback shows lines of a check cell"


@pytest.mark.parametrize("student", STUDENTS)
def test_feedback_shows_the_verdicts(batch: Batch, student: str):
    page = " ".join(batch.feedback(student).split())  # long verdicts are wrapped
    sentences = [error.evalue.partition(": ")[2] or error.evalue for error in errors_of(batch.graded(student))]
    assert bool(sentences) == (student != "right")
    assert not [sentence for sentence in sentences if sentence not in page]


def test_exported_totals_agree(batch: Batch):
    with (batch.root / "grades.csv").open(newline="", encoding="utf-8") as stream:
        rows = {row["student_id"]: row for row in csv.DictReader(stream)}
    totals = {student: sum(submission.points.values()) for student, submission in batch.submissions.items()}
    assert {student: float(row["score"]) for student, row in rows.items()} == pytest.approx(totals, abs=1e-2)
    full = sum(task.exercise.points for task in batch.tasks)
    assert {float(row["max_score"]) for row in rows.values()} == {full}
