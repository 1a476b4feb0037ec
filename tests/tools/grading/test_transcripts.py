"""Transcripts: what was asked and told before need not be judged again, and nobody gets a verdict that is another's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.tools.grading.test_boundary import WHY_NOT
from tests.tools.grading.test_referee import LIMITS, SOURCE, answers, mark, submission
from torchkata.tools.grading import referee
from torchkata.tools.grading.master import CheckCell, MasterChapter
from torchkata.tools.grading.records import Record
from torchkata.tools.grading.replies import Reply
from torchkata.tools.grading.sandbox import Sandbox
from torchkata.tools.grading.transcripts import COST, Otherwise, Transcripts, Verdict, fingerprint
from torchkata.tools.source import notebook_of

UNSTEADY = '''

# %% answer="twice"
def twice(x):
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION

# %% check="twice" points=2
"""Asks for something else each time."""
with check("twice") as test:
    test("some number")
    ran.append(len(ran) + 1)
    for _ in range(ran[-1]):
        observe(twice, float(ran[-1])).returns(2.0 * ran[-1])
'''
REFUSING = '''

# %% answer="positive"
def positive(x):
    ### BEGIN SOLUTION
    if x < 0:
        raise ValueError("x is negative")
    return x
    ### END SOLUTION

# %% check="positive" points=2
"""Refuses what is negative, gives back the rest."""
with check("positive") as test:
    test("negative and positive")
    observe(positive, -1.0).raises(ValueError)
    observe(positive, 2.0).returns(2.0)
'''


class Memory:
    """Replies as told; notes what it was asked."""

    def __init__(self, **replies: str):
        self._replies = replies
        self.asked: list[str] = []

    def exchange(self, question: bytes) -> Reply:
        self.asked.append(question.decode())
        said, _, words = self._replies[self.asked[-1]].partition(": ")
        return Reply(said.encode(), words.encode())

    def words_of(self, reply: Reply) -> dict:
        return {"raised": reply.words.decode()}


def judged(transcripts: Transcripts, memory: Memory, *questions: str, looks: dict[str, int] | None = None) -> Verdict:
    """The verdict of a cell that asks these questions. Where it gets a reply of `looks` it looks at the words of the
    reply in that place."""
    known, script = transcripts.follow("cell", {"f"}, memory)
    if known:
        return known
    replies, words = zip(*(script.reply_to(question.encode()) for question in questions), strict=True)
    told = [reply.said.decode() for reply in replies]
    told += [words[place]()["raised"] for said, place in (looks or {}).items() if said in told]
    script.end()
    verdict = Verdict(1.0, ", ".join(told), ())
    transcripts.keep("cell", {"f"}, script, verdict)
    return verdict


def test_a_cell_whose_replies_are_known_does_not_run_again():
    transcripts = Transcripts()
    first = judged(transcripts, Memory(a="1", b="2"), "a", "b")
    again = Memory(a="1", b="2")
    assert judged(transcripts, again) is first  # it would have asked nothing
    assert again.asked == ["a", "b"]


def test_from_the_first_reply_that_is_new_the_cell_asks_itself():
    transcripts = Transcripts()
    judged(transcripts, Memory(a="1", b="2"), "a", "b")
    other = Memory(a="1", b="3", c="4")
    assert judged(transcripts, other, "a", "b", "c").line == "1, 3, 4"
    assert other.asked == ["a", "b", "c"]  # each once
    assert judged(transcripts, Memory(a="1", b="2")).line == "1, 2"
    assert judged(transcripts, Memory(a="1", b="3", c="4")).line == "1, 3, 4"


def test_a_cell_that_asks_otherwise_is_noticed():
    transcripts = Transcripts()
    judged(transcripts, Memory(a="1", b="2"), "a", "b")
    for questions in (["b"], ["a", "c"], ["a"]):  # the last one asks for less
        with pytest.raises(Otherwise):
            judged(transcripts, Memory(a="1", b="3", c="4"), *questions)
    transcripts.distrust("cell", {"f"})
    for _ in range(2):
        alone = Memory(a="1")
        assert judged(transcripts, alone, "a").line == "1" and alone.asked == ["a"]


def test_words_that_no_cell_looks_at_do_not_count():
    transcripts = Transcripts()
    first = judged(transcripts, Memory(a="raised: too large", b="2"), "a", "b")
    assert judged(transcripts, Memory(a="raised: that is too much", b="2")) is first


def test_words_that_a_cell_looks_at_count():
    transcripts, looks = Transcripts(), {"raised": 0}
    for _ in range(2):
        for words in ("mine", "yours"):
            assert judged(transcripts, Memory(a=f"raised: {words}"), "a", looks=looks).line == f"raised, {words}"
        assert judged(transcripts, Memory(a="1"), "a", looks=looks).line == "1"
    again = transcripts.follow("cell", {"f"}, Memory(a="raised: mine"))
    assert again[0] is not None


@pytest.mark.parametrize("order", [*permutations(["mine 2", "yours 2", "mine 3", "yours 3"])])
def test_a_later_reply_can_make_a_cell_look_back(order: tuple[str, ...]):
    transcripts, looks = Transcripts(), {"3": 0}
    for told in order * 2:
        words, b = told.split()
        line = {"2": "raised, 2", "3": f"raised, 3, {words}"}[b]
        assert judged(transcripts, Memory(a=f"raised: {words}", b=b), "a", "b", looks=looks).line == line


def test_other_names_are_another_script():
    transcripts = Transcripts()
    judged(transcripts, Memory(a="1"), "a")
    known, script = transcripts.follow("cell", {"f", "g"}, Memory())
    assert known is None and script.questions == []


def test_a_full_room_is_cleared():
    transcripts = Transcripts(room=3 * COST)
    for reply in "12345":
        judged(transcripts, Memory(a=reply, b="0"), "a", "b")
        assert judged(transcripts, Memory(a=reply, b="0"), "a", "b").line == f"{reply}, 0"
        assert transcripts._left >= 0
    memory = Memory(a="1", b="0")
    transcripts.follow("cell", {"f"}, memory)
    assert memory.asked in ([], ["a"])  # forgotten


def test_fingerprints_tell_parts_apart():
    assert len({fingerprint(b"ab", b"c"), fingerprint(b"a", b"bc"), fingerprint(b"abc"), fingerprint(b"abc", b"")}) == 4


# ---------------------------------------------------------------- with the referee


def chapter() -> MasterChapter:
    source = SOURCE.replace("from torch import Tensor\n", "from torch import Tensor\n\nran = []\n", 1)
    return MasterChapter.from_notebook("01_small", notebook_of((source + UNSTEADY + REFUSING).lstrip(), "small.py"))


@pytest.fixture(scope="module")
def running_sandbox() -> Iterator[Sandbox]:
    with Sandbox(chapter().setup, LIMITS, enabled=WHY_NOT is None) as opened:
        yield opened


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """How often each check cell ran."""
    found: Counter = Counter()
    run = CheckCell.run
    monkeypatch.setattr(CheckCell, "run", lambda self, space: found.update([self.id]) or run(self, space))
    return found


@pytest.fixture
def grade(running_sandbox: Sandbox, ran: Counter):
    master, transcripts = chapter(), Transcripts()

    def run(**changed: str) -> Record:
        return referee.grade(submission(*answers(**changed)), master, running_sandbox, None, transcripts)

    return run


def test_equal_answers_are_judged_once(grade, ran: Counter):
    first, again = grade(), grade(double="def triple(x): return 3 * x\ndef double(x): return 2 * x")
    assert first.marks == again.marks and first.points == 8
    assert set(ran.values()) == {1}


def test_each_answer_has_its_own_verdict(grade):
    sources = ["return x", "return x + 1", "return [x]", "raise ValueError('no')", "y = 1\n    raise ValueError('no')"]
    for _ in range(2):
        verdicts = [mark(grade(double=f"def double(x):\n    {s}"), "double").verdict for s in sources]
        assert len(set(verdicts)) == len(sources)


def test_a_line_of_code_that_is_named_is_the_learners_own(grade):
    """Two answers that raise the same in other words: the replies name their lines."""
    mine = "def double(x):\n    raise ValueError('no')  # mine"
    yours = "def double(x):\n    raise ValueError('no')  # yours"
    for _ in range(2):
        assert "# mine" in mark(grade(double=mine), "double").verdict
        assert "# yours" in mark(grade(double=yours), "double").verdict


def test_in_which_words_an_answer_refuses_makes_no_difference_where_it_must(grade, ran: Counter):
    refuses = "def positive(x):\n    if x < 0:\n        {}\n    return x"
    for line in ("raise ValueError('no')", "raise ValueError(f'{x} is too small')", "import math; math.sqrt(x)"):
        assert mark(grade(positive=refuses.format(line)), "positive").points == 2
    assert ran["positive-check"] == 1


def test_where_it_must_not_its_words_are_told(grade):
    """Three answers that raise the same where nothing must be raised, in other words or in another line."""
    source = "def positive(x):\n    if x < 0:\n        raise ValueError('x')\n    {}"
    for _ in range(2):
        for line in ("raise ValueError('no')", "raise ValueError('never')", "raise ValueError('no')  # mine"):
            verdict = mark(grade(positive=source.format(line)), "positive").verdict
            assert verdict.endswith(line) and f"raised ValueError: {line.split(chr(39))[1]}." in verdict


def test_a_cell_that_is_no_function_of_the_replies_runs_each_time(grade, ran: Counter):
    right, wrong = "def twice(x): return x * 2", "def twice(x): return x"
    got = [mark(grade(twice=source), "twice").points for source in (right, wrong, right, wrong, right, right)]
    assert got == [2, 0, 2, 0, 2, 2]
    assert ran["twice-check"] == 1 + 2 + 4  # twice for the first wrong one: that it asks otherwise was noticed


def test_what_is_asked_in_vain_leaves_no_trace(grade):
    """An answer that remembers its calls is asked by a fresh process where a cell asked otherwise than before."""
    assert mark(grade(twice="def twice(x): return x * 2"), "twice").points == 2  # was asked for twice(1.0)
    remembers = "calls = []\ndef twice(x):\n    calls.append(x)\n    return 0.0 if 1.0 in calls else x * 2"
    assert mark(grade(twice=remembers), "twice").points == 2
