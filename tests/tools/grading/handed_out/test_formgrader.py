"""What formgrader shows: no name, verdicts right below the answer, check code folded behind them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

from tests import ROOT
from tests.tools.grading import classroom
from tests.tools.grading.fake_grading import fake_record
from torchkata.tools.course import read_notebook
from torchkata.tools.course_config import course_config
from torchkata.tools.grading.chapter import read_release
from torchkata.tools.grading.handed_out.formgrader import GradedNotebooks
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.nbgrader_parts import FoldChecks

NOTES = ["The notebook is named lovelace.ipynb in place of things.ipynb.", "twice: Ada99 wrote this.", "A third note."]
HIDDEN = "observe(twice, -1).returns(-2)"


@pytest.fixture
def notebook(tmp_path: Path):
    """The graded notebook of a student, ada99."""
    chapter = classroom.unknown_course(tmp_path)
    classroom.hand_in(chapter, "ada99", twice="no", guess="half", thrice="right")
    folder = classroom.folder_of(chapter, "ada99")
    submission = read_submission(folder, "ada99", chapter, read_release(chapter))
    record = replace(fake_record(submission), notes=NOTES)
    return nbformat.reads(GradedNotebooks(chapter.master, read_notebook(chapter.release)).graded(record, submission), 4)


def in_formgrader(notebook, resources: dict) -> str:
    """The notebook as formgrader's own exporter shows it, with the course's settings."""
    config = Config()
    config.merge(course_config(ROOT))
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    return HTMLExporter(config=config).from_notebook_node(notebook, resources=resources)[0]


RESOURCES = {
    **{"assignment_id": "98_things", "notebook_id": "things", "submission_id": "abc", "index": 0, "total": 1},
    **{"base_url": "", "student": "s", "last_name": "", "first_name": "", "notebook_path": ""},
}


def test_no_name_stands_in_the_graded_notebook(notebook):
    text = nbformat.writes(notebook).lower()
    assert "ada99" not in text and "lovelace" not in text
    assert "a third note." in text and "2.5 of 6 points" in text


def test_verdicts_stand_below_the_answer_and_check_code_is_folded(notebook):
    page = in_formgrader(notebook, RESOURCES)
    places = [page.index(words) for words in ("0 of 2 points", "Not so: no", "Check code", "observe(twice, 4)")]
    assert places == sorted(places)
    assert page.count("<details><summary>Check code</summary>") == 3
    assert page.count("Not so: no") == 1
    assert 'id="twice-check"' in page  # where points are given by hand


def test_a_solved_exercise_says_so(notebook):
    page = in_formgrader(notebook, RESOURCES)
    assert "1 of 1 points\nsolved" in page


def test_check_code_of_a_learner_does_no_harm(notebook):
    cell = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade"))
    cell.source = "</pre></details><script>alert(1)</script>\n\n# heading"
    page = in_formgrader(notebook, RESOURCES)
    assert "<script>alert(1)" not in page


def test_pages_of_others_are_left_alone(notebook):
    """nbgrader's feedback takes hidden tests out of code cells: they must still be code there."""
    before = nbformat.writes(notebook)
    assert HIDDEN in before
    made, _ = FoldChecks().preprocess(notebook, {"nbgrader": {"student": "ada99"}})
    assert nbformat.writes(made) == before


def test_what_nbgrader_itself_graded_is_shown_so_too(notebook):
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.outputs = []
    page = in_formgrader(notebook, RESOURCES)
    assert page.count("Not so: no") == 1 and page.index("Not so: no") < page.index("Check code")
