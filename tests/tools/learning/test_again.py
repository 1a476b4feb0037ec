"""`torchkata review --exercise`: an exercise once more, beside the old answer, and what becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from tests.tools.learning.small_course import SOURCE, digests, learner_writes, make_course, publish
from torchkata import cli
from torchkata.base.places import KEPT
from torchkata.base.remembering import Remembered, remember
from torchkata.tools.course import Chapter
from torchkata.tools.learning.again import FOLDER, repeat
from torchkata.tools.learning.deck import read_deck, time_of
from torchkata.tools.learning.standing import standing
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place

TASK = '# %% [markdown]\n# ### Exercise 98.1 · Twice\n# Twice a number.\n\n# %% answer="twice"'
MINE = "def twice(x):\n    return x + x  # mine"
DAY = timedelta(days=1)
SOLVED_ON = datetime.now(UTC)  # verdicts bear the time at which they are made
LATER = SOLVED_ON + 22 * DAY


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    """A chapter with `twice` solved."""
    made = make_course(tmp_path)
    publish(made, SOURCE.replace('# %% answer="twice"', TASK))
    fill_workbook(Place(tmp_path))
    learner_writes(made, twice=MINE)
    verdict(made, made.place.workbook, "solved")
    return made


def verdict(chapter: Chapter, workbook: Path, state: str, exercise: str = "twice") -> None:
    for digest in digests(chapter, exercise):
        remember(workbook, Remembered(exercise, digest, state))


def again(chapter: Chapter) -> Path:
    return chapter.place.workbook / FOLDER


def offered(chapter: Chapter, now: datetime) -> str | None:
    found, _ = repeat(chapter.place, now)
    return found and found.exercise.id


def test_an_exercise_rests_for_three_weeks(chapter: Chapter):
    assert offered(chapter, SOLVED_ON + 20 * DAY) is None
    assert not again(chapter).exists()
    assert offered(chapter, LATER) == "twice"


def test_what_is_not_solved_is_not_offered(chapter: Chapter):
    verdict(chapter, chapter.place.workbook, "wrong")
    assert offered(chapter, LATER) is None


def test_the_notebook_holds_the_stub_and_what_it_needs(chapter: Chapter):
    before = chapter.workbook.read_bytes()
    found, _ = repeat(chapter.place, LATER)
    assert found.path == again(chapter) / "98_things" / "twice.ipynb"
    cells = nbformat.read(found.path, as_version=4).cells
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "markdown", "code", "code"]
    when = next(one.when for one in standing(chapter) if one.exercise.id == "twice")
    assert "Once more: Exercise 98.1 · Twice" in cells[0].source and f"on {when[:10]}." in cells[0].source
    assert "import torch" in cells[1].source and "Twice a number." in cells[2].source
    assert "raise NotImplementedError" in cells[3].source and "mine" not in cells[3].source
    assert "hidden" not in cells[4].source
    assert chapter.workbook.read_bytes() == before, "the old answer stays"


def test_its_check_judges_with_hidden_tests_and_leaves_the_progress_alone(chapter: Chapter):
    """The stub, then a wrong answer that only a hidden test refuses: the exercise stays solved in the chapter."""
    found, _ = repeat(chapter.place, LATER)
    sources = [cell.source for cell in nbformat.read(found.path, as_version=4).cells if cell.cell_type == "code"]
    sources[1] = "def twice(x):\n    return 2 * abs(x)"
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        f"for source in {sources!r}:\n    shell.run_cell(source, store_history=True)"
    )
    env = os.environ | {"IPYTHONDIR": str(chapter.root / "ipython")}
    done = subprocess.run([sys.executable, "-c", code], cwd=found.path.parent, env=env, capture_output=True, text=True)
    assert "✗ twice" in done.stdout, done.stdout + done.stderr
    assert (again(chapter) / KEPT / "verdicts").is_dir()
    assert next(one.state for one in standing(chapter) if one.exercise.id == "twice") == "solved"


def test_what_was_begun_is_offered_until_it_is_solved(chapter: Chapter):
    first, _ = repeat(chapter.place, LATER)
    once_more, _ = repeat(chapter.place, LATER + DAY)
    assert once_more.begun and once_more.path == first.path
    verdict(chapter, again(chapter), "solved")
    found, notes = repeat(chapter.place, LATER + 2 * DAY)
    assert found is None and notes == ["twice: solved once more."]
    card = read_deck(chapter.place.workbook, LATER + 2 * DAY).cards["exercise:twice"]
    assert offered(chapter, time_of(card["due"]) - DAY / 2) is None
    assert offered(chapter, time_of(card["due"])) == "twice"


def test_a_second_repetition_has_a_notebook_of_its_own(chapter: Chapter):
    first, _ = repeat(chapter.place, LATER)
    first.path.write_text("what I wrote")
    verdict(chapter, again(chapter), "solved")
    repeat(chapter.place, LATER + DAY)
    second, _ = repeat(chapter.place, LATER + 100 * DAY)
    assert second.path.name == "twice-2.ipynb" and not second.begun
    assert first.path.read_text() == "what I wrote"
    found, notes = repeat(chapter.place, LATER + 101 * DAY)
    assert found.begun and found.path == second.path and notes == [], "the verdict of the first one is forgotten"


def test_not_solved_in_a_week_it_comes_back(chapter: Chapter):
    repeat(chapter.place, LATER)
    verdict(chapter, again(chapter), "wrong")
    found, notes = repeat(chapter.place, LATER + 8 * DAY)
    assert notes == ["twice: not solved in a week; it comes back soon."] and found is None
    assert offered(chapter, LATER + 10 * DAY) == "twice"


def test_the_oldest_comes_first(chapter: Chapter, monkeypatch):
    class Earlier(datetime):
        @classmethod
        def now(cls, zone=None):
            return SOLVED_ON - 9 * DAY

    monkeypatch.setattr("torchkata.base.remembering.datetime", Earlier)
    verdict(chapter, chapter.place.workbook, "solved", "thrice")
    assert offered(chapter, LATER) == "thrice"


def test_a_notebook_that_was_deleted_is_made_anew(chapter: Chapter):
    first, _ = repeat(chapter.place, LATER)
    first.path.unlink()
    found, _ = repeat(chapter.place, LATER + DAY)
    assert not found.begun and found.path == first.path and found.path.exists()


def test_the_command(chapter: Chapter, monkeypatch):
    monkeypatch.chdir(chapter.root)
    told = CliRunner().invoke(cli.app, ["review", "--exercise"])
    assert told.exit_code == 0 and "each is offered three weeks after it was solved" in told.output
    monkeypatch.setattr("torchkata.tools.learning.again.right_now", lambda: LATER)
    for words in ("Once more, with a fresh stub:", "You have begun"):
        told = CliRunner().invoke(cli.app, ["review", "--exercise"])
        assert f"{words} Exercise 98.1 · Twice (98_things)." in told.output
        assert "twice.ipynb. Your old answer stays in its chapter." in told.output
