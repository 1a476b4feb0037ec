"""`torchkata update --from`: what was solved on Colab or Kaggle comes into the workbook, and nothing there is lost."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from typer.testing import CliRunner, Result

from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish
from torchkata.cli import app
from torchkata.tools.colab import write_for_colab
from torchkata.tools.course import Chapter
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place

THERE, HERE = "def twice(x):\n    return x + x  # there", "def twice(x):\n    return 2 * x  # here"
OWN = "print('a cell of my own')"


@pytest.fixture
def chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chapter:
    """In a workbook; the working folder is its course."""
    made = make_course(tmp_path)
    fill_workbook(Place(tmp_path))
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def download(chapter: Chapter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chapter as Colab gives it back: solved, a cell added, a demo changed, ids only in the metadata."""
    folder = tmp_path_factory.mktemp("downloads")
    [path] = write_for_colab([chapter], folder / "colab")
    notebook = nbformat.read(path, as_version=4)
    for n, cell in enumerate(notebook.cells):
        cell.metadata["id"] = cell.pop("id")
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "twice":
            cell.source, after = THERE, n + 1
        if "a demo that nobody changed" in cell.source:
            cell.source = "print('changed there')"
    notebook.cells.insert(after, new_code_cell(OWN))
    del notebook.cells[after]["id"]
    notebook.nbformat_minor = 0
    path = folder / "Copy of things (1).ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return path


def update(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["update", *map(str, arguments)])


def told(result: Result) -> str:
    return " ".join(result.output.split())


def sources(chapter: Chapter) -> list[str]:
    return [cell.source for cell in nbformat.read(chapter.workbook, as_version=4).cells]


def test_answers_and_own_cells_come_from_colab(chapter: Chapter, download: Path):
    before = sources(chapter)
    result = update("--from", download)
    assert "98_things: updated. Answers carried over: 1; cells of your own: 1." in told(result), result.output
    after = sources(chapter)
    assert {*after} - {*before} == {THERE, OWN} and after.index(OWN) == after.index(THERE) + 1
    assert told(update("--from", download)) == "98_things is up to date."
    assert told(update("--from", download.parent)) == "98_things is up to date."  # a folder, such as one of Drive's
    assert sources(chapter) == after


def test_an_answer_in_the_workbook_stays(chapter: Chapter, download: Path):
    learner_writes(chapter, twice=HERE, guess="answers = {}")
    result = update("--from", download)
    assert "twice: two answers were there. The other one stands below it" in told(result)
    after = sources(chapter)
    assert after.index(HERE) < after.index(THERE) and "answers = {}" in after
    backup = told(result).partition("Your copy as it was: ")[2].partition(".ipynb")[0]
    assert HERE.splitlines()[1].strip() in Path(f"{backup}.ipynb").read_text(encoding="utf-8")


def test_a_download_of_an_older_release_brings_no_old_texts(chapter: Chapter, download: Path):
    publish(chapter, SOURCE.replace("# # Three things", "# # Three good things"))
    assert update("--from", download).exit_code == 0
    assert THERE in sources(chapter)
    assert [text for text in sources(chapter) if text.startswith("# Three")] == ["# Three good things"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "does not exist."),
        ("{", "is not a readable notebook"),
        (nbformat.writes(nbformat.v4.new_notebook(cells=[new_code_cell("1")])), "holds no exercise of the course"),
    ],
)
def test_another_file_changes_nothing(chapter: Chapter, tmp_path: Path, text: str | None, says: str):
    before, path = chapter.workbook.read_bytes(), tmp_path / "odd.ipynb"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = update("--from", path)
    assert result.exit_code != 0 and says in told(result) + str(result.exception)
    assert chapter.workbook.read_bytes() == before


def test_what_cannot_be_done(chapter: Chapter, download: Path):
    assert "leave the chapter out" in str(update("98", "--from", download).exception)
    chapter.workbook.unlink()
    assert "Not in your workbook yet: 98_things" in str(update("--from", download).exception)
    assert not chapter.workbook.exists()
