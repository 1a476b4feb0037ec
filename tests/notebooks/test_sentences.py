"""Each sentence that a check can say is heard by a wrong answer."""

from __future__ import annotations

import pytest

from tests.notebooks import running
from tests.notebooks.answers import answers_of
from tests.notebooks.sentences import GAP, heard, readable, sentences_in
from torchkata.tools.course import chapters
from torchkata.tools.placing import here

EXERCISES = [(one.name, exercise) for one in chapters(here()) for exercise in running.exercise_ids(one.name)]


def unheard(chapter: str, exercise: str) -> list[str]:
    """The sentences that the checks of an exercise can say and no answer hears; … is a gap."""
    checks = running.exercise_cells(chapter, exercise)[1]
    sentences = list(dict.fromkeys(one for cell in checks for one in sentences_in(cell.source)))
    said = {one for answer in answers_of(chapter, exercise) for says in answer.says for one in heard(sentences, says)}
    return [readable(one) for one in sentences if one not in said]


@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_each_sentence_is_heard(chapter: str, exercise: str):
    assert unheard(chapter, exercise) == [], "add a wrong answer that hears this, or delete it"


CHECK = '''"""What a learner sees of it."""
with check("it") as test:

    def scenario(it):
        """Call it twice, and note what comes."""
        raise ValueError("This is no sentence of a check.")

    test("The idea of a test is no sentence.")
    mistakes = {
        "A sentence of a table.": "A pattern|that is none.",
        "A sentence with a part: {detail}.": {"raises": "A pattern that is none."},
    }
    seen.returns(1, mistake("A sentence of a mistake.", raises="A pattern that is none."), *known(mistakes))
    seen.that(True, f"It must be {wanted}, " + f"and it is {found}.")
'''
TABLE, PART, MISTAKE, FORMED = SENTENCES = [
    "A sentence of a table.",
    f"A sentence with a part: {GAP}.",
    "A sentence of a mistake.",
    f"It must be {GAP}, and it is {GAP}.",
]
HEARD = {
    "A sentence of a": [TABLE, MISTAKE],
    "A sentence of a table": [TABLE],
    "sentence with a part: 4 of 4 values": [PART],
    "must be 12, and it is 11": [FORMED],
    "It must be a list of more numbers than the sentence has letters, and it is 11.": [FORMED],
    "a list of more numbers than the sentence has letters, and it is 11.": [],
    "first = [1, 2]: A sentence of a table.": [TABLE],
    "Another sentence.": [],
    "4 of 4 values differ": [],
}


def test_the_sentences_of_a_check():
    assert sorted(sentences_in(CHECK)) == sorted(SENTENCES)


@pytest.mark.parametrize("says", HEARD)
def test_what_an_answer_hears(says: str):
    assert heard(SENTENCES, says) == HEARD[says]
