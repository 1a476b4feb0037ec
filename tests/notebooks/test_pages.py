"""The start page and the gallery: built, linked, and the start page opens with the learner's progress."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from tests.notebooks import gates
from tests.tools.learning.small_course import digests
from torchkata.base.remembering import KEPT, Remembered, remember
from torchkata.cli import app
from torchkata.tools.build import stale
from torchkata.tools.course import SideNotebook, chapters, course_root, read_notebook, side_notebooks
from torchkata.tools.errors import CourseError
from torchkata.tools.learning import progress
from torchkata.tools.learning.contents import START, WorkbookContents
from torchkata.tools.learning.lab import lab_options
from torchkata.tools.learning.progress import contents_markdown, progress_markdown
from torchkata.tools.placing import Place

ROOT = course_root()
PAGES = {page.name: page for page in side_notebooks(Place(ROOT))}
NAMES = ("03_gather_scatter", "04_autograd")
GATHER, AUTOGRAD = (len(chapter.exercises) for chapter in chapters(Place(ROOT)) if chapter.name in NAMES)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of two chapters and the start page, with a workbook in which nothing has been checked."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for name in (*NAMES, "start"):
        shutil.copytree(ROOT / "notebooks" / name, tmp_path / "notebooks" / name)
    for name in NAMES:
        shutil.copytree(ROOT / "notebooks" / name, tmp_path / "workbook" / name)
    shutil.copy(PAGES["start"].release, tmp_path / "workbook" / START)
    (tmp_path / "workbook" / KEPT).mkdir()
    return tmp_path


def verdict(course: Path, number: int, exercise: int, state: str, points: float | None = None) -> None:
    """Remember a verdict on all check cells of an exercise of one of the two chapters."""
    chapter = chapters(Place(course))[number]
    chosen = chapter.exercises[exercise].id
    for digest in digests(chapter, chosen):
        remember(course / "workbook", Remembered(chosen, digest, state, points=points))


def made_now(course: Path, monkeypatch: pytest.MonkeyPatch, time: str) -> None:
    """Verdicts that follow bear this time."""

    class Clock:
        @staticmethod
        def now(zone):
            return Clock()

        def isoformat(self, timespec):
            return time

    monkeypatch.setattr("torchkata.base.remembering.datetime", Clock)


def rows(markdown: str) -> list[list[str]]:
    return [line[2:-2].split(" | ") for line in markdown.splitlines() if line.startswith("| [")]


def next_step(markdown: str) -> str:
    return next(line for line in markdown.splitlines() if line.startswith("**"))


# ---------------------------------------------------------------- all pages


def test_there_are_three_pages():
    assert sorted(PAGES) == ["gallery", "review", "start"]


@pytest.mark.parametrize("name", PAGES)
def test_is_up_to_date(name):
    assert stale(PAGES[name]) is None


@pytest.mark.parametrize("name", PAGES)
def test_keeps_the_rules_of_chapters(name):
    solution, release = read_notebook(PAGES[name].solution), read_notebook(PAGES[name].release)
    problems = gates.leaks(solution, release) + gates.exercise_form(solution) + gates.headings(solution)
    assert problems + gates.waist(solution) + gates.alternative_text(solution) == []


@pytest.mark.parametrize("name", PAGES)
def test_each_link_leads_to_a_notebook_of_the_workbook(name):
    text = "\n".join(cell.source for cell in read_notebook(PAGES[name].release).cells if cell.cell_type == "markdown")
    known = [c.workbook.relative_to(ROOT / "workbook").as_posix() for c in (*chapters(Place(ROOT)), *PAGES.values())]
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    assert links and set(links) <= set(known)
    assert len(links) >= 11 or name == "review"


def test_the_released_table_is_that_of_the_chapters():
    cell = released_table()
    assert cell.source == contents_markdown(chapters(Place(ROOT)))
    assert "To see your progress here, open this page with `torchkata lab` or `make lab`." in cell.source


def released_table():
    (cell,) = [c for c in read_notebook(PAGES["start"].release).cells if "progress" in c.metadata.get("tags", [])]
    return cell


# ---------------------------------------------------------------- progress


def test_nothing_done_yet(course):
    text = progress_markdown(chapters(Place(course)))
    (gather, autograd) = rows(text)
    assert gather[0] == "[03 Gather and scatter](03_gather_scatter/gather_scatter.ipynb)"
    assert gather[1] == '<progress value="0" max="20" title="0 of 20 points"></progress>'
    assert gather[2] == f"0 of 20 points, 0 of {GATHER} exercises"
    first_cell = read_notebook(chapters(Place(course))[0].release).cells[0].source
    assert f"**{gather[3]}utes to read, {gather[4]}utes to practise," in first_cell
    assert autograd[2] == f"0 of 20 points, 0 of {AUTOGRAD} exercises"
    assert "**Next:** begin with [Exercise 3.1 · " in next_step(text) and next_step(text).endswith("in chapter 03.")
    assert "In all 0 of 40 points." in text


def test_the_first_step_is_on_the_start_page_itself(course):
    start = SideNotebook(Place(course), "start")
    told = next_step(progress_markdown(chapters(Place(course)), start))
    assert told == "**Next:** solve the exercise above, on this page."
    for digest in digests(start, "warm-up"):
        remember(course / "workbook", Remembered("warm-up", digest, "solved"))
    told = next_step(progress_markdown(chapters(Place(course)), start))
    assert "your first exercise is solved. Begin with [Exercise 3.1 · " in told
    verdict(course, 0, 0, "solved")
    assert "go on with [Exercise 3.2 · " in next_step(progress_markdown(chapters(Place(course)), start))


def test_some_done(course, monkeypatch):
    made_now(course, monkeypatch, "2026-01-02T10:00:00+00:00")
    verdict(course, 1, 0, "solved")
    made_now(course, monkeypatch, "2026-01-02T11:00:00+00:00")
    verdict(course, 0, 0, "solved")
    verdict(course, 0, 1, "wrong")
    text = progress_markdown(chapters(Place(course)))
    earned = chapters(Place(course))[0].exercises[0].points
    assert rows(text)[0][1] == f'<progress value="{earned:g}" max="20" title="{earned:g} of 20 points"></progress>'
    assert rows(text)[0][2] == f"{earned:g} of 20 points, 1 of {GATHER} exercises"
    assert rows(text)[1][2].endswith(f"1 of {AUTOGRAD} exercises")
    assert "go on with [Exercise 3.2 · " in next_step(text)


def test_the_next_step_is_in_the_chapter_last_worked_on(course, monkeypatch):
    made_now(course, monkeypatch, "2026-01-02T10:00:00+00:00")
    verdict(course, 0, 0, "solved")
    made_now(course, monkeypatch, "2026-01-02T11:00:00+00:00")
    verdict(course, 1, 0, "wrong")
    text = progress_markdown(chapters(Place(course)))
    assert "go on with [Exercise 4.1 · " in next_step(text) and next_step(text).endswith("in chapter 04.")


def test_the_next_step_leads_to_the_text_of_the_exercise(course):
    text = progress_markdown(chapters(Place(course)))
    place, cell_id = re.search(r"\]\(([^)#]+)#cell-id=([^)]+)\)", next_step(text)).groups()
    cells = {cell.id: cell for cell in read_notebook(course / "workbook" / place).cells}
    assert cells[cell_id].source.startswith("### Exercise 3.1 · ")


def test_after_the_last_exercise_of_a_chapter_comes_the_next_chapter(course):
    for exercise in range(GATHER):
        verdict(course, 0, exercise, "solved")
    assert "go on with [Exercise 4.1 · " in next_step(progress_markdown(chapters(Place(course))))


def test_after_the_last_chapter_comes_what_was_left_out(course):
    for exercise in range(AUTOGRAD):
        verdict(course, 1, exercise, "solved")
    assert "go on with [Exercise 3.1 · " in next_step(progress_markdown(chapters(Place(course))))


@pytest.mark.parametrize(("kept", "counted"), [(0.5, "0.5"), (99.0, "all"), (-3.0, "0")])
def test_a_share_of_the_points_counts(course, kept, counted):
    exercises = chapters(Place(course))[0].exercises
    number = next(n for n, e in enumerate(exercises) if e.id == "indices-apart")
    verdict(course, 0, number, "solved", points=kept)
    done = rows(progress_markdown(chapters(Place(course))))[0][2]
    earned = f"{exercises[number].points:g}" if counted == "all" else counted
    assert done == f"{earned} of 20 points, {int(counted == 'all')} of {GATHER} exercises"


def test_all_done(course):
    for number, count in enumerate((GATHER, AUTOGRAD)):
        for exercise in range(count):
            verdict(course, number, exercise, "solved")
    text = progress_markdown(chapters(Place(course)))
    assert [row[2] for row in rows(text)] == [f"20 of 20 points, {n} of {n} exercises" for n in (GATHER, AUTOGRAD)]
    assert "All exercises are solved." in next_step(text) and "In all 40 of 40 points." in text


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"exercise": 3}', "\x00\xff"])
def test_damaged_verdicts_count_as_none(course, damage):
    verdict(course, 0, 0, "solved")
    verdict(course, 0, 1, "solved")
    first, *_ = sorted((course / "workbook" / KEPT / "verdicts").glob("*.json"))
    first.write_text(damage, encoding="latin-1")
    assert len(rows(progress_markdown(chapters(Place(course))))) == 2
    assert f"0 of {AUTOGRAD} exercises" in progress_markdown(chapters(Place(course)))


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"cells": [3]}'])
def test_a_damaged_chapter_has_its_row_without_a_bar(course, content):
    release = chapters(Place(course))[0].release
    known = chapters(Place(course))
    if content is None:
        release.unlink()
    else:
        release.write_text(content, encoding="utf-8")
    text = progress_markdown(known)
    assert rows(text)[0][1:3] == ["", ""] and rows(text)[0][0].startswith("[03 ")
    assert "<progress" in rows(text)[1][1] and "Exercise 4.1" in next_step(text)


def test_no_chapter_at_all():
    assert "**Next:** open the first chapter." in progress_markdown([])


def test_a_title_can_not_break_the_table():
    assert progress._plain("a | b [c]") == r"a \| b \[c\]"


# ---------------------------------------------------------------- opening and saving in JupyterLab


def opened(course: Path, path: str = START, **options):
    return asyncio.run(WorkbookContents(root_dir=str(course / "workbook")).get(path, **options))


def saved(course: Path, content, path: str = START):
    manager = WorkbookContents(root_dir=str(course / "workbook"))
    return asyncio.run(manager.save({"type": "notebook", "format": "json", "content": content}, path))


def on_disk(course: Path) -> nbformat.NotebookNode:
    return read_notebook(course / "workbook" / START)


def test_the_start_page_opens_with_progress_and_the_file_stays_as_it_is(course):
    before = (course / "workbook" / START).read_bytes()
    plain, page = opened(course, content=False, require_hash=True), opened(course, require_hash=True)
    assert "<progress" in json.dumps(page["content"])
    assert (course / "workbook" / START).read_bytes() == before and b"<progress" not in before
    assert (page["hash"], page["last_modified"]) == (plain["hash"], plain["last_modified"])
    nbformat.validate(page["content"])


def test_opened_again_it_shows_the_newer_state(course):
    assert f"0 of 20 points, 0 of {GATHER}" in json.dumps(opened(course)["content"])
    verdict(course, 0, 0, "solved")
    assert f"1 of {GATHER} exercises" in json.dumps(opened(course)["content"])


def test_a_page_that_is_saved_keeps_what_was_written_and_not_the_progress(course):
    content = opened(course)["content"]
    content["cells"][3]["source"] = "my_own = 1"
    told = saved(course, content)
    now = on_disk(course)
    assert now.cells[3].source == "my_own = 1"
    assert "<progress" not in json.dumps(now) and now.cells[-1].source == released_table().source
    assert told["last_modified"] == opened(course, content=False)["last_modified"]
    assert "<progress" in json.dumps(opened(course)["content"])


def test_saving_twice_is_no_change_on_disk(course):
    saved(course, opened(course)["content"])
    first = (course / "workbook" / START).read_bytes()
    saved(course, opened(course)["content"])
    assert (course / "workbook" / START).read_bytes() == first


def test_the_cell_is_found_wherever_the_learner_moved_it(course):
    content = opened(course)["content"]
    content["cells"].insert(0, content["cells"].pop())
    saved(course, content)
    assert "<progress" in opened(course)["content"]["cells"][0]["source"]


def test_without_the_cell_the_page_is_an_ordinary_notebook(course):
    content = opened(course)["content"]
    content["cells"].pop()
    saved(course, content)
    assert "<progress" not in json.dumps(opened(course)["content"])


def test_other_notebooks_are_left_alone(course):
    path = "03_gather_scatter/gather_scatter.ipynb"
    shutil.copy(course / "workbook" / START, course / "workbook" / "03_gather_scatter" / START)
    for other in (path, f"03_gather_scatter/{START}"):
        text = (course / "workbook" / other).read_text(encoding="utf-8")
        cells = opened(course, other)["content"]["cells"]
        assert [cell["source"] for cell in cells] == [c.source for c in nbformat.reads(text, as_version=4).cells]


def test_errors_in_the_progress_leave_the_plain_page(course, monkeypatch):
    def broken(chapters):
        raise CourseError("no way")

    monkeypatch.setattr("torchkata.tools.learning.contents.progress_markdown", broken)
    page = opened(course)["content"]
    assert page["cells"][-1]["source"] == released_table().source
    saved(course, page)
    assert on_disk(course).cells[-1].source == released_table().source


def test_a_first_save_without_a_file_works(course):
    content = opened(course)["content"]
    (course / "workbook" / START).unlink()
    saved(course, content)
    assert on_disk(course).cells


def test_the_lab_uses_it():
    (option,) = [o for o in lab_options(Place(ROOT)) if "contents_manager_class" in o]
    assert option.endswith(f"={WorkbookContents.__module__}.{WorkbookContents.__name__}")


def test_the_warm_up_can_be_checked_like_a_chapter(course, monkeypatch):
    monkeypatch.chdir(course)
    notebook = read_notebook(course / "workbook" / START)
    (answer,) = [cell for cell in notebook.cells if cell.id == "warm-up"]
    answer.source = "def halve(x):\n    return x / 2"
    nbformat.write(notebook, course / "workbook" / START)
    result = CliRunner().invoke(app, ["check", "start"])
    assert result.exit_code == 0 and "1 of 1" in result.stdout


def test_each_chapter_ends_with_the_way_to_the_next():
    course = chapters(Place(ROOT))
    ends = {chapter.number: read_notebook(chapter.release).cells[-1].source.splitlines()[-1] for chapter in course}
    ways = [
        f"**Next:** chapter {int(one.number)}, [{one.title}](../{one.place_in_workbook.as_posix()})." for one in course
    ]
    assert list(ends.values())[:-1] == ways[1:]
    assert ends[course[-1].number].endswith("[the start page](../start.ipynb).")
