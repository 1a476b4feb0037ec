"""`torchkata review`: which cards come, what is noted of them, and what becomes of a damaged or odd file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.tools.learning.small_course import digests, make_course
from torchkata import cli
from torchkata.base.places import KEPT
from torchkata.base.remembering import Remembered, remember
from torchkata.facts.cards import asked_in, judged
from torchkata.facts.collection import chapter_names
from torchkata.facts.orders import Order, all_orders
from torchkata.facts.pairs import pairs
from torchkata.facts.questions import questions
from torchkata.tools.course import Chapter, chapters, course_root
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.deck import FILE, read_deck, time_of
from torchkata.tools.learning.progress import progress_markdown
from torchkata.tools.learning.review import TEN, Card, answered, begin, cards_of, count_due, section_of
from torchkata.tools.learning.review_terminal import ask_card, run_round
from torchkata.tools.learning.update import update
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.tools.placing import Place

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workbook of a small course whose one chapter passes as the course's chapter 03, which has facts."""
    made = make_course(tmp_path)
    for folder in ("solutions", "notebooks"):
        (tmp_path / folder / made.name).rename(tmp_path / folder / "03_gather_scatter")
        for file in (tmp_path / folder / "03_gather_scatter").iterdir():
            file.rename(file.with_name(f"gather_scatter{file.suffix}"))
    fill_workbook(Place(tmp_path))
    return Place(tmp_path)


def the_chapter(place: Place) -> Chapter:
    return chapters(place)[0]


def file_of(place: Place) -> Path:
    return place.workbook / KEPT / FILE


def ids(session) -> list[str]:
    return [card.id for card in session.cards]


def read_and_begin(place: Place, now: datetime = NOW):
    return begin(place, now, [the_chapter(place)])


CARDS = [question.id for question in asked_in("03_gather_scatter")]


# ---------------------------------------------------------------- which cards come


def test_nothing_read_nothing_asked(place: Place):
    session = begin(place, NOW)
    assert session.cards == session.read == []
    assert count_due(place, [], NOW) == 0


def test_a_chapter_in_which_a_check_was_run_is_asked(place: Place):
    digest, *_ = digests(the_chapter(place), "twice")
    remember(place.workbook, Remembered("twice", digest, "wrong"))
    assert ids(begin(place, NOW)) == CARDS[:TEN]


def test_a_chapter_that_was_named_is_remembered(place: Place):
    assert ids(read_and_begin(place)) == CARDS[:TEN]
    assert ids(begin(place, NOW)) == CARDS[:TEN]
    assert count_due(place, [], NOW) == TEN


def test_ten_new_cards_a_day(place: Place):
    for card in ids(read_and_begin(place)):
        answered(place, card, True, NOW)
    assert begin(place, NOW + timedelta(hours=1)).cards == []
    assert ids(begin(place, NOW + DAY)) == CARDS[TEN:]


def test_who_knew_it_is_asked_later_than_who_did_not(place: Place):
    read_and_begin(place)
    known, unknown = CARDS[:2]
    right, wrong = answered(place, known, True, NOW), answered(place, unknown, False, NOW)
    assert NOW + DAY <= wrong < right
    assert unknown in ids(begin(place, wrong)) and known not in ids(begin(place, wrong))
    assert ids(begin(place, right))[:2] == [unknown, known], "the longest due comes first"


def test_a_card_that_is_known_again_and_again_comes_ever_later(place: Place):
    now, gaps = NOW, []
    for _ in range(4):
        due = answered(place, CARDS[0], True, now)
        gaps.append(due - now)
        now = due
    assert gaps == sorted(set(gaps)) and gaps[-1] > 20 * DAY
    assert answered(place, CARDS[0], False, now) - now < gaps[-1] / 2


def test_every_card_of_the_course_can_be_answered(place: Place):
    """All facts, none of them twice, with a section of their chapter."""
    root = course_root()
    cards = cards_of(chapters(Place(root)))
    assert len(cards) == len({card.id for card in cards}) == sum(len(asked_in(name)) for name in chapter_names()) > 183
    sections = {card.id: section_of(card) for card in cards if card.chapter.number in ("03", "11")}
    assert all(link.startswith(fact[:2]) and "#cell-id=markdown-" in link for fact, (_, link) in sections.items())
    title, link = sections["03-gather-index-formula"]
    assert title == "3.1 gather: one coordinate is replaced"
    assert link.startswith("03_gather_scatter/gather_scatter.ipynb#cell-id=")


def test_without_solutions_a_card_links_to_its_chapter(place: Place):
    the_chapter(place).solution.unlink()
    card = read_and_begin(place).cards[0]
    assert section_of(card) == ("Three things", "03_gather_scatter/gather_scatter.ipynb")


# ---------------------------------------------------------------- the file


def test_an_update_leaves_the_cards_alone(place: Place):
    read_and_begin(place)
    answered(place, CARDS[0], True, NOW)
    before = file_of(place).read_bytes()
    release = the_chapter(place).release
    release.write_text(release.read_text().replace("Three things", "Four things"))
    assert update(the_chapter(place)).state == "updated"
    assert file_of(place).read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"cards": 3}', b"[" * 100_000])
def test_a_damaged_file_is_kept_aside(place: Place, content: bytes):
    file_of(place).write_bytes(content)
    [note] = read_and_begin(place).notes
    [aside] = file_of(place).parent.glob("review-damaged-*.json")
    assert aside.read_bytes() == content
    assert "was damaged" in note and str(aside) in note
    assert begin(place, NOW).notes == [], "it is told once"
    answered(place, CARDS[0], True, NOW)
    assert list(read_deck(place.workbook, NOW).cards) == [CARDS[0]]


@pytest.mark.parametrize(
    "change",
    [
        {"due": "soon"},
        {"due": None},
        {"stability": "3"},
        {"stability": float("inf")},
        {"difficulty": None},
        {"state": 9},
        {"last_review": None},
    ],
)
def test_of_a_damaged_file_the_good_cards_stay(place: Place, change: dict):
    read_and_begin(place)
    for card in CARDS[:2]:
        answered(place, card, True, NOW)
    found = json.loads(file_of(place).read_text())
    found["cards"][CARDS[0]] |= change
    file_of(place).write_text(json.dumps(found))
    damaged = file_of(place).read_bytes()
    [note] = begin(place, NOW).notes
    assert "1 card could be read, 1 card to begin anew" in note
    assert list(read_deck(place.workbook, NOW).cards) == [CARDS[1]]
    [aside] = file_of(place).parent.glob("review-damaged-*.json")
    assert aside.read_bytes() == damaged


def test_two_damages_of_a_day_are_both_kept(place: Place):
    for content in (b"one", b"two"):
        file_of(place).write_bytes(content)
        begin(place, NOW)
    kept = sorted(file_of(place).parent.glob("review-damaged-*.json"))
    assert sorted(path.read_bytes() for path in kept) == [b"one", b"two"]


def test_a_clock_that_went_backwards(place: Place):
    read_and_begin(place)
    due = answered(place, CARDS[0], True, NOW + 400 * DAY)
    interval = due - NOW - 400 * DAY
    [note] = begin(place, NOW).notes
    assert "a time that is still to come" in note
    card = read_deck(place.workbook, NOW).cards[CARDS[0]]
    assert time_of(card["last_review"]) == NOW and time_of(card["due"]) == NOW + interval
    assert begin(place, NOW).notes == [], "it is told once"
    assert answered(place, CARDS[0], True, NOW + interval) > NOW + interval


def test_a_clock_that_was_set_right_is_no_matter(place: Place):
    read_and_begin(place)
    answered(place, CARDS[0], True, NOW + timedelta(minutes=3))
    assert begin(place, NOW).notes == []
    assert answered(place, CARDS[0], True, NOW) > NOW


def test_a_fact_that_vanished_is_told_once_and_kept(place: Place):
    read_and_begin(place)
    answered(place, "03-no-such-fact", True, NOW)
    [note] = begin(place, NOW + 60 * DAY).notes
    assert note == "Left out, because this release does not have them: 1 card, kept in your file."
    session = begin(place, NOW + 60 * DAY)
    assert session.notes == [] and "03-no-such-fact" not in ids(session)
    assert "03-no-such-fact" in read_deck(place.workbook, NOW + 60 * DAY).cards


def test_a_workbook_that_cannot_be_written_says_so(place: Place, monkeypatch):
    read_and_begin(place)
    before = file_of(place).read_bytes()

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torchkata.tools.learning.deck.put", full)
    with pytest.raises(CourseError, match="No space left on device"):
        answered(place, CARDS[0], True, NOW)
    assert file_of(place).read_bytes() == before


def test_no_workbook(tmp_path: Path):
    make_course(tmp_path)
    with pytest.raises(CourseError, match="There is no workbook yet"):
        begin(Place(tmp_path), NOW)
    assert not (tmp_path / "workbook").exists()


# ---------------------------------------------------------------- the terminal


def session_told(place: Place, *words: str) -> str:
    """What a session says to someone who types these lines and then hangs up."""
    lines = iter(words)
    console = Console(record=True, width=100)

    def ask(prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    run_round(place, read_and_begin(place), console, ask)
    return console.export_text()


def test_a_session_in_the_terminal(place: Place):
    first = questions("03_gather_scatter")[0]
    key = str(first.choices.index(first.answer) + 1)
    told = session_told(place, "seven", "", key, "p", "", "?", "q")
    assert "Card 1 of 10 · chapter 03" in told and "1 so   2 not so   3 partly" in told
    assert f"✓ Right: {first.answer}." in told and "It comes back in 2 days." in told
    assert "import torch" in told, "the proof"
    assert "✗ No: so." in told and "It comes back tomorrow." in told
    assert "1 of 2 right." in told
    assert list(read_deck(place.workbook, NOW).cards) == CARDS[:2]


def test_who_ends_at_once_has_answered_nothing(place: Place):
    assert "No card was answered." in session_told(place)
    assert read_deck(place.workbook, NOW).cards == {}


def test_code_is_asked_for_what_it_prints(place: Place):
    number = next(n for n, question in enumerate(questions("03_gather_scatter"), 1) if question.code)
    told = session_told(place, *["?", ""] * (number - 1), "1")
    assert "What does this print?" in told and "1 [[1], [4]]   2 [[1]]   3 an error" in told


def known_but(place: Place, *wanted: str, now: datetime = NOW) -> None:
    """All cards of the chapter were answered the day before, but for those that are wanted."""
    read_and_begin(place, now)
    for card in CARDS:
        if card not in wanted:
            answered(place, card, True, now - DAY)


def in_letters(order: Order, names: str) -> str:
    """What to type for an order of lines."""
    return "".join("abcdef"[order.offered.index(name)] for name in names.split())


def test_lines_in_order_in_the_terminal():
    """One card, answered three times: letters that are no order and then a wrong one, none, and a right one."""
    order = next(order for order in all_orders() if order.id == "11-order-step")
    console = Console(record=True, width=80, no_color=True)
    for typed, given in (
        (
            ["abc", "aabbcc", in_letters(order, "zero backward forward clip step schedule")],
            "zero backward forward clip step schedule",
        ),
        (["?"], ""),
        ([" ".join(in_letters(order, order.answer)).upper()], order.answer),
    ):
        lines = iter(typed)
        assert ask_card(Card(None, order), console, lambda prompt, lines=lines: next(lines)) == given
    told = console.export_text()
    assert told.count(f"a  {order.lines[order.offered[0]]}") == 3 and order.asks.split(". ")[0] in told
    assert judged(order, "")[:2] == (False, "you gave no order")
    assert judged(order, "forward zero backward clip step schedule")[:2] == (True, "this order works")
    assert judged(order, "zero backward forward clip step schedule")[2].startswith("The loss has to be computed")


def test_two_functions_in_the_terminal(place: Place):
    some, never = pairs("03_gather_scatter")
    known_but(place, some.id, never.id)
    told = session_told(place, "3", "1", "p", "r", "", "never", "p", "q")
    assert "Do these two ever return different results?" in told and "1 for some input   2 never" in told
    assert "def first(i, v):" in told and "def second(i, v):" in told
    assert told.count("✓ Right: for some input.") == told.count("✓ Right: never.") == 1, "3 is no answer to a pair"
    assert f"second(i, v)  # {some.returns[1]}" in told and f"second returns {some.returns[1]}" in told
    assert never.inputs[-1] in told and "2 of 2 right." in told
    assert {some.id, never.id} < set(read_deck(place.workbook, NOW).cards)


def command(place: Place, monkeypatch, *arguments: str):
    monkeypatch.chdir(place.root)
    return CliRunner().invoke(cli.app, ["review", *arguments], input="q\n")


def test_the_command(place: Place, monkeypatch):
    assert "Name a chapter that you have read" in str(command(place, monkeypatch).exception)
    done = command(place, monkeypatch, "03")
    assert done.exit_code == 0 and "Card 1 of 10" in done.output
    assert "There is no chapter '77'" in str(command(place, monkeypatch, "77").exception)


# ---------------------------------------------------------------- the start page


def test_the_start_page_says_how_many_are_due(place: Place):
    read_and_begin(place)
    assert "review" not in progress_markdown(chapters(place)).lower(), "there is no review page in this workbook"
    (place.workbook / "review.ipynb").touch()
    told = progress_markdown(chapters(place))
    assert "**Review:** 10 cards due. [Open the review page](review.ipynb)." in told
    file_of(place).write_bytes(b"{")
    assert "**Review:**" not in progress_markdown(chapters(place))
    assert file_of(place).read_bytes() == b"{", "it only reads"
