"""`torchkata skip`: what is asked, what counts as known, and what becomes of whoever breaks off."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from tests import ROOT
from tests.tools.learning.small_course import SOURCE, learner_writes, make_course, publish
from torchkata.base.chapter import Exercise
from torchkata.facts.collection import chapter_names, load
from torchkata.facts.questions import Question
from torchkata.tools.course import Chapter, chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.choosing import to_run
from torchkata.tools.learning.deck import FILE, read_deck
from torchkata.tools.learning.outcomes import Verdict
from torchkata.tools.learning.progress import progress_markdown
from torchkata.tools.learning.review import begin, cards_of, section_of
from torchkata.tools.learning.skip_terminal import run_trial
from torchkata.tools.learning.skipping import Trial, asked_to_skip, authors_choice, known_chapters, spread, trial_of
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place

NAME = "03_gather_scatter"
RIGHT = "def twice(x):\n    return 2 * x"
WRONG = "def twice(x):\n    return x"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workbook of a small course whose one chapter passes as chapter 03, with the exercise that stands for that."""
    made = make_course(tmp_path)
    publish(made, SOURCE.replace('"twice"', f'"{authors_choice()[NAME]["exercise"]}"'))
    for folder in ("solutions", "notebooks"):
        (tmp_path / folder / made.name).rename(tmp_path / folder / NAME)
        for file in (tmp_path / folder / NAME).iterdir():
            file.rename(file.with_name(f"gather_scatter{file.suffix}"))
    fill_workbook(Place(tmp_path))
    return Place(tmp_path)


def the_chapter(place: Place) -> Chapter:
    return chapters(place)[0]


def writes(place: Place, answer: str) -> None:
    learner_writes(the_chapter(place), **{authors_choice()[NAME]["exercise"]: answer})


def keys(trial: Trial, missed: int = 0) -> list[str]:
    """What to type to answer all questions, the first ones wrongly."""
    right = [str(card.question.choices.index(card.question.answer) + 1) for card in trial.cards]
    return ["?"] * missed + right[missed:]


def noted(place: Place) -> dict:
    return read_deck(place.workbook, datetime.now(UTC)).skips


def told(place: Place, lines: list[str], check: Callable[[], Verdict] | None = None) -> tuple[str, bool]:
    """What somebody reads who types these lines and then hangs up, and whether the chapter counts as known."""
    trial, typed, console = trial_of(place, "03"), iter(lines), Console(record=True, width=200)

    def ask(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    known = run_trial(trial, console, ask, check or (lambda: check_chapter(trial.chapter, {trial.exercise.id})[0]))
    return console.export_text(), known


def judged(points: float, is_open: bool = False) -> Callable[[], Verdict]:
    """A check that has come to this."""
    full = trial_exercise()
    return lambda: Verdict(full, points, "", is_open=is_open)


def trial_exercise() -> Exercise:
    chapter = next(one for one in chapters(Place(ROOT)) if one.name == NAME)
    return next(one for one in chapter.exercises if one.id == authors_choice()[NAME]["exercise"])


# ---------------------------------------------------------------- what the authors chose


def test_each_chapter_has_an_exercise_that_stands_alone_and_facts_with_sections_of_their_own():
    assert list(authors_choice()) == chapter_names()
    for chapter in chapters(Place(ROOT)):
        choice = authors_choice()[chapter.name]
        exercise = next(one for one in chapter.exercises if one.id == choice["exercise"])
        text = next(cell.source for cell in chapter.master.cells if cell.get("id") == exercise.place)
        minutes = re.search(r"· (\d+) min ·", text)
        assert minutes and int(minutes[1]) <= 20, exercise.id
        needed = {cell.exercise for cell in to_run(chapter.master, chapter.master, {exercise.id})}
        assert needed == {"", exercise.id}, "an answer to another exercise is needed"
        cards = {card.id: card for card in cards_of([chapter])}
        sections = [section_of(cards[fact])[0] for fact in choice["anyway"]]
        assert 2 <= len(set(sections)) == len(sections) <= 3
        assert all(title.startswith(f"{int(chapter.number)}.") for title in sections)
        verdicts = {fact.verdict for fact in load(chapter.name) if fact.id in choice["anyway"]}
        assert "holds" not in verdicts, "nobody gets wrong what they believe rightly"


def test_questions_come_from_as_many_sections_as_there_are():
    for chapter in chapters(Place(ROOT)):
        cards = asked_to_skip(chapter)
        assert all(isinstance(card.question, Question) for card in cards), "no pairs"
        asked = spread(cards)
        sections = {section_of(card)[0] for card in cards} - {chapter.title}
        assert 5 <= len(asked) <= 10
        assert len({section_of(card)[0] for card in asked}) == min(10, len(sections))
        assert asked == [card for card in cards if card in asked], "in the chapter's order"


# ---------------------------------------------------------------- passing and failing


def test_passed_it_is_known_for_progress_and_review(place: Place):
    trial = trial_of(place, "03")
    text, known = told(place, keys(trial, missed=2), judged(3))
    assert known and known_chapters(place) == {NAME}
    assert "8 of 10 right." in text and "Passed. Chapter 03 (Three things) now counts as known" in text
    for card in trial.cards[:2]:
        assert f"{card.question.answer}. {card.question.because.split()[0]}" in text, "what was missed is explained"
    assert all(card.question.fact.fact.split(".")[0] in " ".join(text.split()) for card in trial.anyway)
    cards = read_deck(place.workbook, datetime.now(UTC)).cards
    assert cards[trial.cards[0].id]["due"] < cards[trial.cards[2].id]["due"], "what was missed comes back sooner"
    assert begin(place).read == [the_chapter(place)]


def test_a_known_chapter_on_the_start_page(place: Place):
    before = progress_markdown(chapters(place))
    assert "**Next:** begin with" in before and "known" not in before
    told(place, keys(trial_of(place, "03")), judged(3))
    after = progress_markdown(chapters(place))
    assert "known; 0 of 6 points" in after and "**Every chapter is solved or known.**" in after
    (place.workbook / ".torchkata" / FILE).write_bytes(b"{")
    assert progress_markdown(chapters(place)) == before, "of a damaged file the page says nothing"


def test_too_many_missed_says_what_to_read_and_no_answers(place: Place):
    trial = trial_of(place, "03")
    text, known = told(place, keys(trial, missed=3), judged(3))
    assert not known and "7 of 10 right." in text and "nothing was noted" in text
    assert section_of(trial.cards[0])[0] in text
    assert not any(" ".join(card.question.because.split()[:6]) in text for card in trial.cards), (
        "the next try asks them"
    )
    assert noted(place) == {} and begin(place).read == []


def test_an_exercise_that_waits(place: Place):
    """The questions are kept; the second time only the exercise is asked for."""
    trial = trial_of(place, "03")
    text, known = told(place, [*keys(trial), "q"], judged(0, is_open=True))
    assert not known and str(trial.chapter.workbook) in text and "is not solved yet" in text
    assert known_chapters(place) == set() and begin(place).read == []
    text, known = told(place, [], judged(1))
    assert not known and "What is left is the exercise." in text and "Correct" in text and "Question" not in text
    checks = iter([judged(1), judged(3)])
    text, known = told(place, [""], lambda: next(checks)())
    assert known and known_chapters(place) == {NAME}


def test_a_second_time_it_says_since_when(place: Place):
    told(place, keys(trial_of(place, "03")), judged(3))
    before = noted(place)
    text, known = told(place, [])
    assert known and f"has counted as known since {datetime.now():%Y-%m-%d}" in text and "read their sections" in text
    assert noted(place) == before


def test_whoever_stops_at_a_question_has_lost_nothing(place: Place):
    text, known = told(place, ["1", "q"])
    assert not known and "Stopped. Nothing was noted." in text and noted(place) == {}


def test_of_damaged_notes_the_good_one_stays(place: Place):
    told(place, keys(trial_of(place, "03")), judged(3))
    path = place.workbook / ".torchkata" / FILE
    found = json.loads(path.read_text())
    good = found["skips"][NAME]
    odd = [3, {}, good | {"asked": "soon"}, good | {"asked": None}, good | {"right": 3}, good | {"missed": [3]}]
    found["skips"] |= {f"{n:02}_odd": one for n, one in enumerate(odd)}
    path.write_text(json.dumps(found))
    assert known_chapters(place) == {NAME}


# ---------------------------------------------------------------- what can't be skipped


def test_what_can_not_be_skipped_says_why(place: Place, tmp_path: Path):
    with pytest.raises(CourseError, match=r"There is no chapter '77'\. The chapters are: 03_gather_scatter"):
        trial_of(place, "77")
    chapter = the_chapter(place)
    publish(chapter, SOURCE)
    assert trial_of(place, "03").exercise.id == "segment-mean", "of the release that the copy was made from"
    chapter.workbook.unlink()
    with pytest.raises(CourseError, match=r"03_gather_scatter is not in your workbook.* `torchkata workbook`"):
        trial_of(place, "03")
    other = tmp_path / "other"
    other.mkdir()
    make_course(other)
    with pytest.raises(CourseError, match="There is no workbook yet"):
        trial_of(Place(other), "98")
    fill_workbook(Place(other))
    with pytest.raises(CourseError, match="98_things can't be skipped"):
        trial_of(Place(other), "98")


def test_a_copy_of_an_older_release_without_the_exercise(place: Place):
    chapter = the_chapter(place)
    publish(chapter, SOURCE)
    (place.workbook / ".torchkata/releases" / f"{NAME}.ipynb").unlink()
    with pytest.raises(CourseError, match=r"has no exercise segment-mean: it is of another release\. Run"):
        trial_of(place, "03")


# ---------------------------------------------------------------- real processes


def _heeds_ctrl_c() -> None:
    """As in a terminal: what a shell starts in the background, as this test run may be, ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """The command in a pseudo-terminal, with what it has written so far."""

    def __init__(self, place: Place):
        import pty

        self._mine, theirs = pty.openpty()
        environment = os.environ | {"COLUMNS": "200", "TERM": "dumb"}
        command = [sys.executable, "-m", "torchkata", "skip", "03"]
        self.process = subprocess.Popen(
            command,
            cwd=place.root,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_heeds_ctrl_c,
        )
        os.close(theirs)
        self.text = ""

    def wait_for(self, words: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Read on until these words have come since the last ones; each second without a word, do something."""
        end = time.monotonic() + 100
        while words not in self.text:
            assert time.monotonic() < end, self.text
            if not select.select([self._mine], [], [], 1)[0]:
                meanwhile()
                continue
            try:
                self.text += os.read(self._mine, 4096).decode()
            except OSError:  # it has ended
                assert words in self.text, self.text
        self.text = self.text.partition(words)[2]

    def interrupts(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def types(self, line: str) -> None:
        os.write(self._mine, f"{line}\n".encode())

    def ends(self) -> int:
        code = self.process.wait(100)
        os.close(self._mine)
        return code


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_in_a_terminal_from_the_first_question_to_the_known_chapter(place: Place):
    writes(place, WRONG)
    trial = trial_of(place, "03")
    terminal = Terminal(place)
    for n, key in enumerate(keys(trial), 1):
        terminal.wait_for(f"Question {n} of 10")
        terminal.wait_for("end: ")
        terminal.types(key)
    terminal.wait_for("10 of 10 right.")
    terminal.wait_for("0 of 2")
    terminal.wait_for("[Enter] check it")
    writes(place, RIGHT)
    terminal.types("")
    terminal.wait_for("now counts as known")
    assert terminal.ends() == 0 and known_chapters(place) == {NAME}
    assert "return 2 * x" in the_chapter(place).workbook.read_text(), "the answer stays as the learner wrote it"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_ctrl_c_and_no_terminal(place: Place):
    terminal = Terminal(place)
    terminal.wait_for("Question 1 of 10")
    terminal.wait_for("end: ")
    terminal.interrupts()
    # a signal between the prompt and the reading of a line waits for the next one
    terminal.wait_for("Stopped. Nothing was noted. To begin again: torchkata skip 03", meanwhile=terminal.interrupts)
    assert terminal.ends() == 1 and noted(place) == {}
    command = [sys.executable, "-m", "torchkata", "skip", "03"]
    done = subprocess.run(command, cwd=place.root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2 and "Run it in a terminal." in done.stderr
