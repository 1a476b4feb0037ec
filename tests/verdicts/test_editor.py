"""In whichever folder an editor lets its kernel work: where the notebook lies in a workbook, its hidden tests run;
where it lies in none, a ✓ says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tools.learning.small_course import make_course
from tests.verdicts.test_cards import Notebook
from torchkata.base.chapter import exercise_of
from torchkata.base.places import KEPT
from torchkata.tools.course import Chapter, read_unchecked
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.verdicts.telling import IN_NO_WORKBOOK

ALL_TESTS = "✓ twice: 2 tests passed, 2 of 2 points."
SHOWN_ONES = "✓ twice: 1 test passed here; tests that you don't see may follow when it is graded."
VS_CODE, SERVER = "__vsc_ipynb_file__ = {!r}", "import os\nos.environ['JPY_SESSION_NAME'] = {!r}"
FORGET = "import os\nos.environ.pop('JPY_SESSION_NAME', None)\n__vsc_ipynb_file__ = None"
AGAIN = "import importlib, torchkata.verdicts.at_hand\n_ = importlib.reload(torchkata.verdicts.at_hand)"
Ticked = Callable[..., list[str]]


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    made = make_course(tmp_path_factory.mktemp("opened"))
    fill_workbook(made.place)
    return made


@pytest.fixture(scope="module")
def ticked(chapter: Chapter) -> Iterator[Ticked]:
    """The lines of the verdict on a right answer, in a kernel that works in the folder above the workbook, after a cell
    has told it of its editor."""
    notebook = Notebook(chapter.root)
    cells = [cell for cell in read_unchecked(chapter.workbook).cells if cell.cell_type == "code"]
    check = next(cell.source for cell in cells if exercise_of(cell) == "twice" and "check" in cell.id)
    notebook.run(cells[0].source)
    notebook.run("def twice(x):\n    return 2 * x")

    def run(editor: str = "", looked_at: bool = True) -> list[str]:
        for source in (FORGET, editor, AGAIN):
            notebook.run(source, looked_at)
        [told] = notebook.run(check)
        return (told.get("text") or told["data"]["text/plain"]).splitlines()

    yield run
    notebook.client.stop_channels()
    notebook.manager.shutdown_kernel(now=True)


@pytest.fixture
def two_workbooks(chapter: Chapter) -> Iterator[None]:
    """Another workbook beside the one."""
    kept = chapter.root / "another" / KEPT
    kept.mkdir(parents=True)
    yield
    kept.rmdir()


def test_the_only_workbook_below_the_working_folder(ticked: Ticked):
    assert ticked()[0] == ALL_TESTS
    assert ticked(looked_at=False)[0] == SHOWN_ONES, "tools find no workbook that nobody has opened"


@pytest.mark.parametrize("editor", [VS_CODE, SERVER], ids=["VS Code", "a Jupyter server"])
@pytest.mark.usefixtures("two_workbooks")
def test_the_editor_tells_where_the_notebook_lies(ticked: Ticked, chapter: Chapter, editor: str):
    assert ticked(editor.format(str(chapter.workbook)))[0] == ALL_TESTS
    assert ticked(editor.format(str(chapter.release)))[0] == SHOWN_ONES, "it lies in no workbook"
    assert ticked(editor.format("/no/such/notebook.ipynb"))[0] == SHOWN_ONES


def test_what_another_notebook_has_started_is_not_in_its_workbook(ticked: Ticked, chapter: Chapter, tmp_path: Path):
    (tmp_path / KEPT).mkdir()
    other = tmp_path / "other.ipynb"
    other.touch()
    assert ticked(SERVER.format(str(other)))[0] == ALL_TESTS, "by the only one below, as without it"


@pytest.mark.usefixtures("two_workbooks")
def test_where_there_is_no_workbook_the_first_tick_says_so(ticked: Ticked):
    again = "import torchkata.verdicts.telling\ntorchkata.verdicts.telling._told.clear()"
    assert ticked(again) == [SHOWN_ONES, *IN_NO_WORKBOOK.strip("\n").splitlines()]
    assert ticked() == [SHOWN_ONES]
