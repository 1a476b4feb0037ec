"""docs/plans.md and docs/notes.md: the minutes, exercises, pictures, outputs and verdicts that they name are the
course's."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests import ROOT
from torchkata.base.chapter import Exercise
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.learning.progress import MINUTES
from torchkata.tools.placing import Place

CHAPTERS = {chapter.number: chapter for chapter in chapters(Place(ROOT))}
NOTES = (ROOT / "docs/notes.md").read_text(encoding="utf-8")
PLANS = (ROOT / "docs/plans.md").read_text(encoding="utf-8")


@cache
def parts() -> dict[str, tuple[str, str]]:
    """By chapter's number: its heading and its notes."""
    found = re.split(r"^## (\d\d) (.+)$", NOTES, flags=re.M)[1:]
    return {number: (title, text) for number, title, text in zip(found[::3], found[1::3], found[2::3], strict=True)}


def minutes_of(chapter: Chapter) -> int:
    """To read it."""
    found = MINUTES.search(chapter.master.cells[0].source)
    assert found
    return int(found[1])


@cache
def minutes_to_solve(chapter: Chapter) -> dict[str, int]:
    """By the number of an exercise."""
    texts = {cell.get("id"): cell.source for cell in chapter.master.cells}

    def minutes(exercise: Exercise) -> int:
        found = re.search(r"· (\d+) min ·", texts[exercise.place])
        assert found
        return int(found[1])

    return {exercise.title.split()[1]: minutes(exercise) for exercise in chapter.exercises}


def outputs_of(chapter: Chapter) -> set[str]:
    """The lines that the chapter's cells print."""
    told = [output.get("text", "") for cell in chapter.master.cells for output in cell.get("outputs", [])]
    return {line.strip() for text in told for line in text.splitlines()}


def sentences_of(chapter: Chapter) -> str:
    """What the answers to the chapter's exercises must hear."""
    files = sorted((ROOT / "tests/answers" / chapter.name).glob("*.py"))
    said = [re.findall(r"^# says: (.+)$", file.read_text(encoding="utf-8"), re.M) for file in files]
    return "\n".join(sentence for sentences in said for sentence in sentences)


def test_each_chapter_has_notes_under_its_title():
    assert {number: title for number, (title, _) in parts().items()} == {
        number: chapter.title for number, chapter in CHAPTERS.items()
    }


@pytest.mark.parametrize("number", CHAPTERS)
def test_what_the_notes_name_is_in_the_chapter(number: str):
    chapter, (_, text) = CHAPTERS[number], parts()[number]
    assert re.findall(r"^\*\*(.+?)\*\*", text, re.M) == ["Show first.", "What goes wrong most.", "Ask."]
    assert len(re.findall(r"^\d\. \*[^*]+\?\*", text, re.M)) == 3, "three questions"

    code = set(re.findall(r"`([^`\n]+)`", text))
    words = {word for word in code if re.fullmatch(r"[a-z]+(-[a-z]+)+", word)}
    assert words and words <= {exercise.id for exercise in chapter.exercises}
    called = [word for word in code if re.fullmatch(r"\w+_(explorer|stepper|contract|places|way)\(.*\)", word)]
    names = {call.replace("…", "") if "…" in call else ast.unparse(ast.parse(call)) for call in called}
    source = re.sub("'", '"', chapter.source.read_text(encoding="utf-8"))
    assert called and all(name.replace("'", '"').removesuffix(")") in source for name in names)
    sections = [one for some in re.findall(r"sections? ([\d., and]+)", text) for one in re.findall(r"\d+\.\d+", some)]
    assert all(f"# ## {section} " in source for section in sections)

    printed = re.findall(r"^ {4}(.+)$", text, re.M)
    assert printed and [line for line in printed if line.strip() not in outputs_of(chapter)] == []
    quotes = re.findall(r"^> (.+)$", text, re.M)
    assert len(quotes) >= 2
    assert [quote for quote in quotes if quote not in sentences_of(chapter)] == []


def rows() -> list[list[str]]:
    """Week, chapters to read, what to solve, minutes."""
    return [[one.strip() for one in row.split("|")[1:-1]] for row in PLANS.splitlines() if re.match(r"\| \d", row)]


def solved_in(words: str) -> list[tuple[str, int]]:
    """Each exercise that a row names, with its minutes."""
    found = []
    for word in words.split(", "):
        if word.startswith("all of "):
            found += minutes_to_solve(CHAPTERS[word.removeprefix("all of ")]).items()
        else:
            chapter = CHAPTERS[f"{int(word.split('.')[0]):02}"]
            found.append((word, minutes_to_solve(chapter)[word]))
    return found


def test_the_plans_add_up():
    assert [row[0] for row in rows()] == [str(week) for week in [*range(1, 7), *range(1, 13)]]
    for plan in (rows()[:6], rows()[6:]):
        for week, read, solve, minutes in plan:
            solved = [time for _, time in solved_in(solve)]
            assert int(minutes) == sum(solved) + sum(minutes_of(CHAPTERS[one]) for one in read.split(", ")), week
        everything = [name for row in plan for name, _ in solved_in(row[2])]
        assert len(everything) == len(set(everything)), "nothing is solved twice"


def test_twelve_weeks_read_the_whole_course():
    assert sorted(one for row in rows()[6:] for one in row[1].split(", ")) == sorted(CHAPTERS)
