"""The review page without a browser: what its buttons do."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from tests.tools.learning.test_review import CARDS, NOW, file_of, known_but, place, read_and_begin, the_chapter
from torchkata.facts.orders import all_orders
from torchkata.facts.pairs import pairs
from torchkata.facts.questions import questions
from torchkata.tools.learning.deck import read_deck
from torchkata.tools.learning.review import Card, begin, right_now
from torchkata.tools.learning.review_page import CHECK, DONT_KNOW, NEXT, NO_WORKBOOK, ReviewPage, review
from torchkata.tools.placing import Place

__all__ = ["place"]  # the fixture


ORDER = next(order for order in all_orders() if order.id == "11-order-step")


@pytest.fixture
def page(place: Place) -> ReviewPage:
    read_and_begin(place)
    return ReviewPage(place)


def words(page: ReviewPage) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub("</?code>", "", page.words.value)))


def button(page: ReviewPage, label: str):
    return next(one for one in (*page.choices, page.onward, page.prove, page.read_it) if one.description == label)


def test_a_right_answer(page: ReviewPage):
    first = questions("03_gather_scatter")[0]
    assert "Card 1 of 10, chapter 03" in words(page) and first.says in words(page)
    assert [one.description for one in page.choices] == ["so", "not so", "partly"]
    assert page.more.outputs == () and page.prove.layout.display == "none"
    button(page, first.answer).click()
    assert f"✓ Right: {first.answer}." in words(page) and first.because in words(page)
    assert "It comes back in 2 days." in words(page)
    shown = page.more.outputs[0]["data"]["text/markdown"]
    assert "(03_gather_scatter/gather_scatter.ipynb)" in shown and "<summary>Proof 03-scatter-writes" in shown
    assert page.prove.layout.display is None
    assert "<code>logits.gather(1, y.unsqueeze(1))</code>" in page.words.value


def test_buttons_rest_after_an_answer(page: ReviewPage):
    """The one that was pressed keeps the focus, and goes on doing nothing."""
    button(page, "so").click()
    assert [one.disabled for one in page.choices] == [False, True, True]
    button(page, NEXT).click()
    assert not any(one.disabled for one in page.choices)
    button(page, DONT_KNOW).click()
    assert all(one.disabled for one in page.choices)


def test_a_second_answer_to_a_card_is_passed_over(page: ReviewPage, place: Place):
    button(page, "so").click()
    noted = file_of(place).read_bytes()
    button(page, "not so").click()
    assert "✗ No: not so." in words(page) and file_of(place).read_bytes() == noted


def test_who_does_not_know_reads_the_answer_and_goes_on(page: ReviewPage, place: Place):
    button(page, DONT_KNOW).click()
    assert "✗ No" in words(page) and list(read_deck(place.workbook, NOW).cards) == CARDS[:1]
    button(page, NEXT).click()
    assert "Card 2 of 10" in words(page) and page.more.outputs == () and page.onward.description == DONT_KNOW


def test_a_whole_session(page: ReviewPage, place: Place):
    asked = questions("03_gather_scatter")[:10]
    for question in asked:
        assert (question.says or "What does this print?") in words(page)
        button(page, question.answer).click()
        button(page, NEXT).click()
    assert "10 of 10 right. That is all for now." in words(page)
    assert page.answers.layout.display == "none"
    assert begin(place).cards == []
    assert "No card is due. Come back tomorrow." in words(ReviewPage(place))


def test_the_proof_is_run(page: ReviewPage, monkeypatch):
    monkeypatch.setattr("torchkata.tools.learning.review_page.run_of", lambda card: f"{card.id}: proof holds")
    button(page, DONT_KNOW).click()
    button(page, "run the proof").click()
    assert page.proof.outputs[0]["text"] == f"{CARDS[0]}: proof holds\n"
    button(page, NEXT).click()
    assert page.proof.outputs == ()


def test_two_functions_have_two_answers(place: Place):
    some, _ = pairs("03_gather_scatter")
    known_but(place, some.id, now=right_now())
    page = ReviewPage(place)
    assert "Do these two ever return different results?" in words(page) and "def second(i, v):" in words(page)
    assert [one.description for one in page.choices if one.layout.display != "none"] == ["for some input", "never"]
    button(page, "never").click()
    assert "✗ No: for some input." in words(page)
    shown = html.unescape(page.more.outputs[0]["data"]["text/markdown"])
    assert "<summary>An input on which they differ</summary>" in shown and some.shown in shown
    assert "Taught in [Three things]" in shown
    button(page, "run both functions").click()
    assert "first returns tensor([ 0., 20.,  0.,  0.])" in page.proof.outputs[0]["text"]


@pytest.fixture
def with_lines(place: Place) -> ReviewPage:
    """The page with lines to put in order; the small course's chapter has no such card."""
    page = ReviewPage(place)
    page.round = replace(page.round, cards=[Card(the_chapter(place), ORDER)])
    page._ask()
    return page


def put(page: ReviewPage, names: str) -> None:
    for name in names.split():
        next(one for one in page.lines if one.description == ORDER.lines[name]).click()


def test_lines_are_put_in_order(with_lines: ReviewPage, place: Place):
    page = with_lines
    assert ORDER.asks in words(page) and page.line_box.layout.display is None
    assert [one.description for one in page.lines] == [ORDER.lines[name] for name in ORDER.offered]
    assert all(one.layout.display == "none" for one in page.choices) and page.undo.disabled
    put(page, "step zero")
    page.undo.click()
    page.undo.click()
    put(page, "forward zero backward clip step")
    page.lines[ORDER.offered.index("zero")].click()  # has a place already
    assert page.onward.description == DONT_KNOW
    put(page, "schedule")
    assert f"2. {ORDER.lines['zero']}" in [one.description for one in page.lines]
    assert html.unescape(page.in_order.value).endswith(f"6. {ORDER.lines['schedule']}</pre>")
    button(page, CHECK).click()
    assert "✓ Right: this order works." in words(page) and ORDER.because in words(page)
    assert page.prove.layout.display == "none" and page.undo.disabled and all(one.disabled for one in page.lines)
    assert "<summary>An order that works</summary>" in page.more.outputs[0]["data"]["text/markdown"]
    assert ORDER.id in read_deck(place.workbook, right_now()).cards
    button(page, NEXT).click()
    assert page.line_box.layout.display == "none"


def test_a_wrong_order_is_told_what_is_broken(with_lines: ReviewPage):
    put(with_lines, "forward zero backward step clip schedule")
    button(with_lines, CHECK).click()
    assert "✗ No: this order doesn't work." in words(with_lines)
    assert "After step, clipping changes nothing any more." in words(with_lines)


def test_who_gives_up_an_order_reads_why(with_lines: ReviewPage):
    put(with_lines, "forward zero")
    button(with_lines, DONT_KNOW).click()
    assert "✗ No: you gave no order." in words(with_lines) and ORDER.because in words(with_lines)


def test_a_chapter_is_named(place: Place):
    page = ReviewPage(place)
    assert "Choose a chapter that you have read" in words(page) and page.answers.layout.display == "none"
    hidden = [row for row in page.widget.children if row.layout.display == "none"]
    assert hidden == [page.line_box, page.answers, page.prove, page.widget.children[-1]], "the chapters can be seen"
    assert page.chapter.value == the_chapter(place)
    button(page, "I have read it").click()
    assert "Card 1 of 10" in words(page) and page.answers.layout.display is None


def test_a_damaged_file_is_told(place: Place):
    file_of(place).write_bytes(b"{")
    assert "was damaged" in words(ReviewPage(place))


def test_an_answer_that_cannot_be_written_is_told_and_not_lost(page: ReviewPage, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("torchkata.tools.learning.deck.put", full)
        button(page, "so").click()
        assert "No space left on device" in words(page)
    button(page, "so").click()
    assert "It comes back" in words(page)


def test_outside_of_a_workbook(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert review() is None
    assert capsys.readouterr().out == f"{NO_WORKBOOK}\n"
