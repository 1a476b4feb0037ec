"""What a teacher learns of the class: counts, mistakes, the page, the table in the terminal."""

from __future__ import annotations

from dataclasses import replace

from tests.tools.grading.fake_grading import EXERCISES, NAME
from tests.tools.grading.handed_out.test_feedback import SCRIPT, Page, graded
from torchkata.base.chapter import CheckCell, Exercise
from torchkata.tools.grading.handed_out.overview import ExerciseOverview, Overview, overview_of
from torchkata.tools.grading.handed_out.pages import overview_page, shown
from torchkata.tools.grading.records import Counted, NotGradable

CHAPTER = [
    Exercise(name, f"Exercise 98 · {name}", checks=(CheckCell(f"{name}-check", "", of),))
    for name, of in EXERCISES.items()
]


def a_class() -> Overview:
    records = [
        graded("ada", twice="right", guess="right", thrice="right")[0],
        graded("bob", twice="no", guess="half", thrice="no")[0],
        graded("cyd", twice="no", guess="half")[0],
        graded("dan", twice="never", guess="no")[0],
    ]
    return overview_of([*records, NotGradable("eve", NAME, "The notebook is an empty file.")], CHAPTER)


def test_solved_and_mistakes_are_counted():
    overview = a_class()
    assert (overview.graded, overview.refused, overview.median, overview.of) == (4, 1, 1.5, 6.0)
    twice, guess, thrice = overview.exercises
    assert twice.counts == {"solved": 1, "partly": 0, "wrong": 3, "not tried": 0}
    assert guess.counts == {"solved": 1, "partly": 2, "wrong": 1, "not tried": 0}
    assert thrice.counts == {"solved": 1, "partly": 0, "wrong": 1, "not tried": 2}
    assert twice.mistakes == (("Not so: no", 2), ("Not so: never", 1))
    assert guess.mistakes == (("Half of it is right.", 2), ("Not so: no", 1))


def test_the_median_is_of_what_counts():
    late = replace(graded("ada", twice="right")[0], counted=Counted(0.5, penalty=1.5))
    assert overview_of([late], CHAPTER).median == 0.5


def test_the_hardest_is_one_that_was_tried():
    overview = a_class()
    assert overview.hardest is not None and overview.hardest.exercise == "twice"
    assert overview_of([], CHAPTER).hardest is None and overview_of([], CHAPTER).median is None


def test_the_page_shows_the_same():
    page = Page(overview_page("Three things", a_class()))
    for words in ("4 graded, 1 not gradable", "2 ×", "Not so: no", "1 of 4 solved", "solved by 1 of 4", "1.5 of 6"):
        assert words in page.text, words
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert "Exercise 98 · guess: 1 solved, 2 partly, 1 wrong, 0 not tried" in labels


def test_bars_fill_the_plot():
    for row in map(_shown_in_a_class, a_class().exercises):
        assert sum(bar["width"] for bar in row["bars"]) == 100
        assert [bar["width"] for bar in row["bars"]] == [25 * bar["count"] for bar in row["bars"]]


def _shown_in_a_class(one: ExerciseOverview) -> dict:
    return shown(one, students=4)


def test_an_empty_class_has_a_page():
    assert "0 graded" in Page(overview_page("Three things", overview_of([], CHAPTER))).text


def test_what_comes_from_learners_is_escaped():
    record = graded("ada", twice="no")[0]
    hostile = replace(record, marks=[replace(mark, verdict=SCRIPT, state="wrong") for mark in record.marks])
    page = Page(overview_page("Three things", overview_of([hostile], CHAPTER)))
    assert page.text.count(SCRIPT) == 3 and "script" not in page.tags and "img" not in page.tags
