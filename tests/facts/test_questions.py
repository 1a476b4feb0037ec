"""The questions of the review: their schema, their share of each answer, what their code prints."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from tests.facts.test_facts import ENTRY
from torchkata.facts import FactError, chapter_names
from torchkata.facts.collection import parse
from torchkata.facts.faults import JUDGED
from torchkata.facts.questions import Question, question_of, questions

ALL = [question for chapter in chapter_names() for question in questions(chapter)]
# what no learner should be able to go by
STRONG = ("always", "never", "all", "any", "each", "every", "only", "without")
RUN = """
import contextlib, io, json, sys
import numpy, torch
from torch import nn
printed = {}
for name, code in json.load(sys.stdin).items():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {"numpy": numpy, "torch": torch, "nn": nn})
    torch.set_default_dtype(torch.float32)
    printed[name] = out.getvalue().strip()
print(json.dumps(printed))
"""


def printed(codes: dict[str, str]) -> dict[str, str]:
    done = subprocess.run([sys.executable, "-c", RUN], input=json.dumps(codes), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_core_fact_has_a_card_with_three_choices():
    assert len(ALL) >= 183
    assert len({question.fact.id for question in ALL}) == len(ALL)
    for question in ALL:
        assert len(set(question.choices)) == 3 and question.answer in question.choices, question.fact.id
        assert bool(question.says) != bool(question.code), question.fact.id
        assert question.because.strip(), question.fact.id
        assert max(map(len, question.choices)) <= 40, question.fact.id  # they stand on buttons


def test_about_a_third_of_the_cards_are_so():
    count = Counter(question.answer for question in ALL if question.says)
    assert set(count) == set(JUDGED)
    assert 0.28 <= count["so"] / len(ALL) <= 0.42, count
    assert count["partly"] >= 10


@pytest.mark.parametrize("chapter", chapter_names())
def test_no_chapter_is_answered_by_one_word(chapter):
    asked = questions(chapter)
    count = Counter(question.answer for question in asked)
    assert max(count.values()) <= 0.7 * len(asked), count
    assert count["so"] >= 0.2 * len(asked), count


def test_strong_words_give_no_answer_away():
    """Who says "not so" where a strong word stands, and "so" elsewhere, or the reverse, is right two times of three."""
    judged = [question for question in ALL if question.says]
    guesses = ["not so" if set(STRONG) & set(question.says.lower().split()) else "so" for question in judged]
    for flipped in (False, True):
        told = [("so" if guess == "not so" else "not so") if flipped else guess for guess in guesses]
        right = sum(guess == question.answer for guess, question in zip(told, judged, strict=True))
        assert right <= 2 / 3 * len(judged), right


def test_the_sentences_are_sentences():
    for question in ALL:
        if question.says:
            assert question.says.endswith((".", "?")) and len(question.says) <= 200, question.fact.id


def test_the_code_prints_the_answer():
    codes = {question.fact.id: question.code for question in ALL if question.code}
    assert len(codes) >= 20
    assert printed(codes) == {question.fact.id: question.answer for question in ALL if question.code}


# ---------------------------------------------------------------- the schema

SAYS = {"says": "gather returns a view.", "answer": "not so"}
PRINTS = {"prints": "print(1)", "answer": "1", "others": ["2", "3"]}


def test_a_fact_without_a_question_is_asked_by_its_belief():
    [fact] = parse(ENTRY, "03_gather_scatter")
    assert question_of(fact, None) == Question(fact, "gather copies.", "", JUDGED, "so", "It always does.")


def test_a_belief_that_holds_is_half_of_the_answer():
    [fact] = parse(ENTRY, "03_gather_scatter")
    assert question_of(fact, SAYS).because == "gather copies. It always does."
    assert question_of(fact, {**SAYS, "because": "It copies."}).because == "It copies."


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("gather?", "either says or prints"),
        ({}, "either says or prints"),
        ({**SAYS, **PRINTS}, "either says or prints"),
        ({**SAYS, "verdict": "holds"}, "unknown field verdict"),
        ({**SAYS, "others": ["so"]}, "unknown field others"),
        ({"says": "gather copies."}, "must have an answer"),
        ({**SAYS, "says": " "}, "must be text"),
        ({**SAYS, "answer": "yes"}, "one of so, not so, partly"),
        ({**SAYS, "answer": False}, "must be text"),
        ({**PRINTS, "others": ["2"]}, "must have 2 others"),
        ({**PRINTS, "others": ["2", "1"]}, "must have 2 others"),
        ({**PRINTS, "others": [2, 3]}, "must have 2 others"),
        ({**PRINTS, "prints": "print("}, "does not compile"),
    ],
)
def test_a_faulty_question_is_named(part, words):
    with pytest.raises(FactError, match=rf"03_gather_scatter\.yaml: 03-gather-copies: .*{words}"):
        parse(f"{ENTRY.rstrip()}\n  question: {json.dumps(part)}\n", "03_gather_scatter")
