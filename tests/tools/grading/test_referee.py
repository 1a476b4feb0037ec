"""The referee: the same marks and words as in a notebook, and what was earned stays earned, whatever happens."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator
from itertools import zip_longest

import pytest
import torch

from tests.notebooks import running
from tests.notebooks.answers import Answer, answers_of
from tests.tools.grading.sandbox.test_boundary import WHY_NOT, needs_bubblewrap
from torchkata.base.chapter import CheckCell
from torchkata.tools.errors import CourseError
from torchkata.tools.grading import referee
from torchkata.tools.grading.chapter import MasterChapter, points_of
from torchkata.tools.grading.records import ExerciseMark, Record, Submission, SubmittedCell
from torchkata.tools.grading.sandbox import usage
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.grading.sandbox.messages import encode
from torchkata.tools.grading.sandbox.session import Sandbox
from torchkata.tools.grading.sandbox.usage import Usage
from torchkata.tools.grading.stopping import PYTHON
from torchkata.tools.source import notebook_of
from torchkata.verdicts.originals import answers_elsewhere, put_back_torch

SOURCE = '''
# %% setup=true
import torch
from torch import Tensor

from torchkata.verdicts import check, mistake, observe, observe_scenario, observe_value, prediction

# %% answer="double"
def double(x):
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION


def triple(x):
    ### BEGIN SOLUTION
    return x * 3
    ### END SOLUTION

# %% check="double" points=2
"""Doubles."""
with check("double") as test:
    test("three numbers")
    observe(double, torch.tensor([1.0, 2.0, 4.0])).returns(torch.tensor([2.0, 4.0, 8.0]))

# %% check="double" points=1
"""Triples."""
with check("double") as test:
    test("two numbers")
    observe(triple, torch.tensor([1.0, 5.0])).returns(torch.tensor([3.0, 15.0]))

# %% answer="guess"
guesses = {
    ### BEGIN SOLUTION
    "a": 1,
    "b": 2,
    ### END SOLUTION
}

# %% check="guess" points=2
"""Two guesses."""
with check("guess") as test:
    test("compared")
    items = {"a": prediction(1, (7, "Seven is too many.")), "b": prediction(2)}
    test.points = observe_value(guesses).predicts(items, points=2)
test.points

# %% answer="counter"
class Counter:
    ### BEGIN SOLUTION
    def __init__(self):
        self.count = 0

    def step(self):
        self.count += 1
        return self.count
    ### END SOLUTION

# %% check="counter" points=3
"""Counts."""
with check("counter") as test:

    def steps_of(counter, times):
        return [counter.step() for _ in range(times)]

    def two_counters(Counter, times):
        """Two counters, one after the other."""
        return [steps_of(Counter(), times), steps_of(Counter(), times)]

    secret = [[1, 2, 3], [1, 2, 3]]
    ### BEGIN HIDDEN TESTS
    test.hidden("two counters")
    observe_scenario(two_counters, Counter, 3).returns(secret, because="Each counter begins at 1.")
    ### END HIDDEN TESTS
'''
LIMITS = Limits(exercise_seconds=20)
GOOD = {
    "double": "def double(x): return x + x\ndef triple(x): return x + x + x",
    "guess": "guesses = {'a': 1, 'b': 2}",
    "counter": "class Counter:\n    n = 0\n    def step(self):\n        self.n += 1\n        return self.n",
}


@pytest.fixture(scope="module")
def master() -> MasterChapter:
    return MasterChapter.from_notebook("01_small", notebook_of(SOURCE.lstrip(), "small.py"))


@pytest.fixture(scope="module")
def sandbox(master: MasterChapter) -> Iterator[Sandbox]:
    with Sandbox(master.setup, LIMITS, enabled=WHY_NOT is None) as running_sandbox:
        yield running_sandbox


def submission(*cells: tuple[str | None, str]) -> Submission:
    return Submission(
        "ada", "01_small", [SubmittedCell("answer" if e else "own", e, s) for e, s in cells], ["noted"], "d"
    )


def answers(**changed: str) -> list[tuple[str | None, str]]:
    return list((GOOD | changed).items())


@pytest.fixture
def grade(master: MasterChapter, sandbox: Sandbox):
    def run(*cells: tuple[str | None, str], **limits: float) -> Record:
        return referee.grade(submission(*cells), master, sandbox, dataclasses.replace(LIMITS, **limits))

    return run


def mark(record: Record, exercise: str) -> ExerciseMark:
    return next(mark for mark in record.marks if mark.exercise == exercise)


def states(record: Record) -> dict[str, str]:
    return {mark.exercise: mark.state for mark in record.marks}


ALL_SOLVED = dict.fromkeys(GOOD, "solved")

# ---------------------------------------------------------------- marks


def test_right_answers_get_full_marks(grade, sandbox: Sandbox):
    record = grade(*answers())
    assert states(record) == ALL_SOLVED and (record.points, record.of) == (8, 8)
    assert record.notes == ["noted"] and record.digest == "d" and record.student == "ada"
    assert record.sandboxed == sandbox.enabled and record.seconds > 0
    assert mark(record, "double").checks == {"double-check": 2, "double-check-2": 1}
    assert mark(record, "double").verdict.splitlines()[0] == "solved"


def test_each_check_cell_gives_its_own_points(grade):
    record = grade(*answers(double="def double(x): return x\ndef triple(x): return x * 3"))
    got = mark(record, "double")
    assert (got.points, got.checks, got.state) == (1, {"double-check": 0, "double-check-2": 1}, "partly")
    assert got.verdict.startswith("The values are wrong: 3 of 3 values differ.\n✗ double, ")
    assert "    expected: [ 2   4   8 ]\n    got:      [ 1   2   4 ]\n" in got.verdict
    assert got.verdict.endswith("✓ double: 1 test passed.")


TWICE = '''
# %% setup=true
import torch
from torch import Tensor

from torchkata.verdicts import FIRST_CHECK_FIRST, check, observe

# %% answer="double"
def double(x):
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION

# %% check="double" points=1
"""Doubles."""
with check("double") as test:
    test("one number")
    observe(double, torch.ones(1)).returns(2 * torch.ones(1))

# %% check="double" points=1
"""Doubles again."""
with check("double") as test:
    test("the number of the first check")
    observe(double, torch.ones(1)).returns(2 * torch.ones(1), FIRST_CHECK_FIRST)
'''


ONCE_RIGHT = "def double(x, calls=[]):\n    calls.append(x)\n    return x * (2 if len(calls) == 1 else 3)"


@pytest.mark.parametrize(
    ("answer", "sends_back"), [(ONCE_RIGHT, False), ("def double(x): return x * 3", True)], ids=["once", "never"]
)
def test_a_later_check_knows_what_the_first_one_said(answer: str, sends_back: bool):
    master = MasterChapter.from_notebook("01_small", notebook_of(TWICE.lstrip(), "small.py"))
    with Sandbox(master.setup, LIMITS, enabled=WHY_NOT is None) as sandbox:
        [found] = referee.grade(submission(("double", answer)), master, sandbox).marks
    assert found.points == (0 if sends_back else 1)
    assert ("builds on the first one, which doesn't pass yet" in found.verdict) is sends_back


def test_a_share_of_the_points(grade):
    got = mark(grade(*answers(guess="guesses = {'a': 7, 'b': 2}")), "guess")
    assert (got.points, got.state) == (1, "partly")
    assert got.verdict.startswith("a = 7: Seven is too many.")


def test_stubs_missing_cells_and_missing_names_are_told_apart(grade):
    stub = "def double(x):\n    raise NotImplementedError\ndef triple(x):\n    raise NotImplementedError"
    record = grade(("double", stub), ("counter", "class Kounter: pass"))
    assert states(record) == {"double": "not solved", "guess": "missing", "counter": "wrong"}
    assert record.points == 0
    assert "name 'Counter' is not defined. Run the cell of your answer first" in mark(record, "counter").verdict


def test_an_answer_cell_that_fails_halfway_has_defined_its_first_half(grade):
    record = grade(*answers(double="def double(x): return x * 2\n1 / 0\ndef triple(x): return x * 3"))
    assert mark(record, "double").checks == {"double-check": 2, "double-check-2": 0}


def test_an_answer_may_use_own_cells_and_earlier_answers(grade):
    record = grade(
        (None, "def plus(a, b): return a + b"), *answers(double=GOOD["double"].replace("x + x", "plus(x, x)"))
    )
    assert record.points == 8


def test_a_check_that_stands_further_below_sees_the_cells_before_it(master: MasterChapter, sandbox: Sandbox):
    both = SubmittedCell("answer", "double", GOOD["double"].replace("x + x + x", "x"), {"double-check-2": 1})
    cells = [both, SubmittedCell("own", None, "def triple(x): return 3 * x\ndel double")]
    found = referee.grade(Submission("ada", "01_small", cells), master, sandbox)
    assert found.marks[0].checks == {"double-check": 2.0, "double-check-2": 1.0}


def test_an_own_cell_that_fails_changes_nothing(grade):
    assert grade((None, "x = = 1"), (None, "1 / 0"), *answers()).points == 8


@pytest.mark.parametrize(
    "source, told",
    [
        ("from my_utils import double, triple", "ModuleNotFoundError: No module named 'my_utils' (line 1)"),
        ("x = 1\ndef double(x): return x * (2", f"SyntaxError: '(' was never closed (line 2, in {PYTHON})"),
        ("def f():\n    raise KeyError\n\nf()\ndouble = triple = f", "KeyError (line 4)"),
    ],
)
def test_a_cell_that_stopped_says_with_what(grade, source: str, told: str):
    got = mark(grade(*answers(double=source)), "double")
    line, *shown = got.verdict.splitlines()
    assert (got.points, got.state, line) == (0, "wrong", f"Your cell stopped with {told}.")
    assert "name 'double' is not defined" in shown[1]


def test_a_cell_that_stopped_behind_its_answer_says_so_below_the_verdict(grade):
    late = "def double(x): return x * FACTOR\ndef triple(x): return x * 3\nimport nowhere_to_be_found\nFACTOR = 2"
    first, *_, last = mark(grade(*answers(double=late)), "double").verdict.splitlines()
    assert "name 'FACTOR' is not defined" in first
    assert last == "Your cell stopped with ModuleNotFoundError: No module named 'nowhere_to_be_found' (line 3)."
    solved = mark(grade(*answers(double=GOOD["double"] + "\ndouble(None)")), "double")
    assert (solved.state, solved.verdict.splitlines()[0]) == ("solved", "solved")


def test_own_cells_that_stopped_are_noted_where_points_are_missing(grade):
    helpers = [(None, f"import lacking_{n}\ndef helper_{n}(): ...") for n in range(7)]
    record = grade(*helpers, *answers(double="def double(x): return helper_1()\ndef triple(x): return x * 3"))
    assert record.notes[1] == (
        "A cell of the learner's own ('import lacking_0') stopped with ModuleNotFoundError: "
        "No module named 'lacking_0' (line 1)."
    )
    assert record.notes[6:] == ["2 more cells of the learner's own stopped."]
    assert grade(*helpers, *answers()).notes == ["noted"]


def test_names_that_a_learner_takes_from_the_setup_do_not_reach_the_check(grade):
    record = grade((None, "torch = check = observe = Tensor = None"), *answers())
    assert states(record) == ALL_SOLVED


REPLACING = {
    "by an assignment": ["torch.add = len"],
    "by a function of an earlier cell": ["def change(): torch.add = len", "change()"],
    "by a name": ["setattr(torch, 'add', len)"],
    "by a name that stands nowhere": ["getattr(torch, '__seta' + 'ttr__')('add', len)"],
}


@pytest.mark.parametrize("cells", REPLACING.values(), ids=REPLACING)
def test_what_a_cell_replaces_in_torch_is_put_back_before_the_next(grade, cells):
    adding = GOOD["double"].replace("x + x", "torch.add(x, x)")
    assert grade(*((None, cell) for cell in cells), *answers(double=adding)).points == 8


def test_submissions_do_not_see_each_other(grade):
    grade((None, "import builtins, torch\nbuiltins.double = torch.double_trouble = 1"), *answers())
    record = grade(
        (
            "counter",
            "import torch\nif hasattr(torch, 'double_trouble'):\n    " + GOOD["counter"].replace("\n", "\n    "),
        )
    )
    assert mark(record, "counter").points == 0


def test_expected_values_and_other_parts_of_a_check_do_not_travel(grade, monkeypatch: pytest.MonkeyPatch):
    sent = []
    monkeypatch.setattr(
        "torchkata.tools.grading.sandbox.session.encode", lambda request: sent.append(repr(request)) or encode(request)
    )
    grade(*answers())
    text = "\n".join(sent)
    assert "def two_counters" in text and "def steps_of" in text and "tensor([1., 2., 4.])" in text
    for secret in ("secret", "[1, 2, 3]", "begins at 1", "hidden", "Seven", "tensor([2., 4., 8.])"):
        assert secret not in text


# ---------------------------------------------------------------- crashes and time-outs

CRASH = "\nimport os\ndef double(x): os._exit(1)"
LOOP = "\ndef double(x):\n    while True: pass"


def test_a_crash_costs_one_check(grade):
    record = grade(
        (None, "import math"), *answers(double=GOOD["double"] + CRASH, counter=GOOD["counter"] + "\nmath.pi")
    )
    got = mark(record, "double")
    assert (got.state, got.checks) == ("crashed", {"double-check": 0, "double-check-2": 1})
    assert "your code did not get through this check: its process ended" in got.verdict
    assert states(record) == ALL_SOLVED | {"double": "crashed"} and record.cut_off


def test_what_was_earned_before_a_crash_stays(grade):
    source = GOOD["double"] + "\nimport os\ndef triple(x): os._exit(1)"
    record = grade(*answers(double=source))
    assert mark(record, "double").checks == {"double-check": 2, "double-check-2": 0}
    assert record.points == 7


def test_a_time_out_ends_the_exercise_and_no_more(grade):
    record = grade(*answers(double=GOOD["double"] + LOOP), exercise_seconds=1.0)
    assert states(record) == ALL_SOLVED | {"double": "cut off"}
    assert mark(record, "double").points == 0 and "it took too long" in mark(record, "double").verdict


SHORT_CHILDREN = """
import os, time
def busy(end):
    while time.process_time() < end: pass
def double(x):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    while True:
        for _ in range(16):
            if os.fork() == 0:
                busy(time.process_time() + 0.02)
                os._exit(0)
        busy(time.process_time() + 0.02)
        for _ in range(16):
            os.wait()
"""


@needs_bubblewrap
def test_what_ended_children_took_is_the_submissions_time(grade, monkeypatch: pytest.MonkeyPatch):
    """They take the one CPU from the process that is waited for, which is not the fault of others."""
    taken, starved = [], Usage.starved

    def noting(own: Usage, seconds: float) -> float:
        family = usage._family(own.process)
        taken.append(sum(usage._cpu_seconds(one) + usage._of_ended(one.pid) for one in family) - own._ran - own._ended)
        return starved(own, seconds)

    monkeypatch.setattr(Usage, "starved", noting)
    record = grade(*answers(double=SHORT_CHILDREN), exercise_seconds=1.0)
    assert states(record) == ALL_SOLVED | {"double": "cut off"}
    assert 0.1 < max(taken) < 1.5  # seconds of a CPU, however busy the machine is


def test_an_answer_cell_that_never_ends(grade):
    record = grade(*answers(guess=GOOD["guess"] + "\nwhile True: pass"), exercise_seconds=1.0)
    assert states(record) == ALL_SOLVED | {"guess": "cut off"}


def test_own_cells_that_crash_or_hang_are_left_out_and_noted(grade):
    record = grade(
        (None, "number = 2"),
        (None, "import os; os._exit(1)"),
        (None, "while True: pass"),
        *answers(double=GOOD["double"] + "\ndef double(x): return x * number"),
        exercise_seconds=1.5,
    )
    assert states(record) == ALL_SOLVED
    assert [("os._exit" in note, "while True" in note) for note in record.notes[1:]] == [(True, False), (False, True)]


def test_the_time_for_a_submission_is_limited(grade):
    record = grade((None, "import time; time.sleep(1)"), *answers(), submission_seconds=0.5)
    assert set(states(record).values()) == {"cut off"} and record.points == 0
    assert "0.5 seconds for a submission" in mark(record, "counter").verdict


def test_ever_new_crashes_come_to_an_end(grade, monkeypatch: pytest.MonkeyPatch):
    sessions = []
    honest = Sandbox.session
    monkeypatch.setattr(Sandbox, "session", lambda self: sessions.append(1) or honest(self))
    record = grade(*[(None, "import os; os._exit(1)")] * 40, *answers(), losses=3)
    assert len(sessions) == 4 and record.points == 0
    assert "ended too often" in mark(record, "guess").verdict


def test_a_thread_that_ends_the_process_later_is_survived(grade):
    bomb = "import os, threading\nthreading.Timer(0.3, os._exit, [1]).start()"
    slow = "\nimport time\n" + GOOD["counter"].replace("self.n += 1", "self.n += 1; time.sleep(0.2)")
    record = grade(*answers(double=GOOD["double"] + "\n" + bomb, counter=slow))
    assert mark(record, "double").state == mark(record, "guess").state == "solved"
    assert mark(record, "counter").state == "crashed"


def test_a_sandbox_that_ends_is_nobodys_mark(master: MasterChapter):
    source = "import os, signal\ndef double(x): os.kill(os.getppid(), signal.SIGKILL); os._exit(1)"
    with Sandbox(master.setup, LIMITS, enabled=False) as bare, pytest.raises(CourseError, match="sandbox has ended"):
        referee.grade(submission(*answers(double=source)), master, bare)


def test_an_exercise_that_can_not_be_judged_within_its_limits_is_left_out(master: MasterChapter, sandbox: Sandbox):
    uses_it = answers(guess="guesses = {'a': double(torch.tensor(0.5)).item(), 'b': 2}")
    handed_in = dataclasses.replace(submission(*uses_it), unjudged=["double"])
    record = referee.grade(handed_in, master, sandbox)
    assert states(record) == ALL_SOLVED | {"double": "crashed"} and mark(record, "double").points == 0
    assert "too much to be judged" in mark(record, "double").verdict and "by hand" in record.notes[-1]


# ---------------------------------------------------------------- words


def test_what_is_shown_holds_no_control_characters(grade):
    source = "def double(x): raise ValueError('\\x1b[2Jred\\u202e\\ud800 <b>bold</b>\\0')\ndef triple(x): pass"
    verdict = mark(grade(*answers(double=source)), "double").verdict
    assert "ValueError: [2Jred <b>bold</b>" in verdict
    verdict.encode()


def test_a_long_story_is_cut(grade):
    source = "def double(x): raise ValueError('no ' * 10**6)\ndef triple(x): raise ValueError('no ' * 10**6)"
    assert len(mark(grade(*answers(double=source)), "double").verdict) <= referee.MAX_TEXT + 2


def test_a_check_that_fails_itself_is_no_verdict(master: MasterChapter, sandbox: Sandbox):
    broken = CheckCell("guess-check", "1 / 0", 2.0)
    chapter = dataclasses.replace(master, checks=master.checks | {"guess": (broken,)})
    record = referee.grade(submission(*answers()), chapter, sandbox)
    assert mark(record, "guess").points == 0
    assert "guess-check stopped with ZeroDivisionError" in record.notes[-1] and "by hand" in record.notes[-1]


def test_a_scenario_with_data_of_the_check_is_the_authors_mistake(master: MasterChapter, sandbox: Sandbox):
    check = master.checks["counter"][0]
    changed = dataclasses.replace(
        check, id="changed", written=check.source.replace("for _ in", "for secret in secret or")
    )
    leaky = dataclasses.replace(
        check, id="leaky", written=check.source.replace("steps_of(Counter(), times)]", "secret]")
    )
    for cell in (changed, leaky):
        chapter = dataclasses.replace(master, checks=master.checks | {"counter": (cell,)})
        record = referee.grade(submission(*answers()), chapter, sandbox)
        assert mark(record, "counter").points == 0
    assert "ScenarioError" in record.notes[-1]


@pytest.mark.parametrize(
    "last, points", [("0.5", 0.5), ("9", 2), ("-1", 0), ("float('nan')", 0), ("True", 2), ("None", 2)]
)
def test_the_last_line_of_a_check_as_nbgrader_reads_it(last: str, points: float):
    assert points_of(CheckCell(f"last-{last}", f"x = 1\n{last}", 2.0), {}) == points


def test_where_a_hidden_test_failed_tells_no_data_of_it(grade):
    many = "".join(f"        if times == {k}: raise ValueError\n" for k in range(9))
    source = f"class Counter:\n    def step(self):\n        times = 4\n{many}"
    verdict = mark(grade(*answers(counter=source)), "counter").verdict
    assert "in your function step" in verdict and "line" not in verdict and "times ==" not in verdict
    visible = mark(grade(*answers(double="def double(x): return 1 / 0\ndef triple(x): pass")), "double").verdict
    assert "line 1 of your code, in double:  def double(x): return 1 / 0" in visible


# ---------------------------------------------------------------- parity

CHAPTER = "03_gather_scatter"


def rounds() -> list[dict[str, Answer]]:
    """All answers of the chapter's tests, and the stubs, as submissions with one answer to each exercise."""
    exercises = running.exercise_ids(CHAPTER)
    stubs = [Answer("wrong", "stub", running.stub(CHAPTER, exercise)) for exercise in exercises]
    columns = [[*answers_of(CHAPTER, e), stub] for e, stub in zip(exercises, stubs, strict=True)]
    return [
        {e: answer for e, answer in zip(exercises, row, strict=True) if answer is not None}
        for row in zip_longest(*columns)
    ]


@pytest.fixture(scope="module")
def chapter() -> MasterChapter:
    return MasterChapter.from_notebook(CHAPTER, running.chapter_source(CHAPTER))


@pytest.fixture(scope="module")
def chapter_sandbox(chapter: MasterChapter) -> Iterator[Sandbox]:
    with Sandbox(chapter.setup, enabled=WHY_NOT is None) as running_sandbox:
        yield running_sandbox


@pytest.mark.parametrize("row", range(len(rounds())))
def test_points_and_words_are_those_of_a_notebook(chapter: MasterChapter, chapter_sandbox: Sandbox, row: int):
    handed_in = rounds()[row]
    cells = [SubmittedCell("answer", exercise, answer.source) for exercise, answer in handed_in.items()]
    record = referee.grade(Submission("ada", CHAPTER, cells), chapter, chapter_sandbox)
    assert record.notes == []
    for exercise, answer in handed_in.items():
        here, there = running.grade(CHAPTER, exercise, answer.source), mark(record, exercise)
        assert there.points == pytest.approx(here.points), answer.name
        assert there.verdict.partition("\n")[2].strip() == here.text.strip(), answer.name


@needs_bubblewrap
def test_speed(chapter: MasterChapter, chapter_sandbox: Sandbox, capsys: pytest.CaptureFixture):
    """Printed, not asserted: what a submission of right answers costs, and a session alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the processes that grade
    solutions = [(e.id, running.exercise_cells(CHAPTER, e.id)[0].source) for e in chapter.exercises]
    cells = [SubmittedCell("answer", exercise, source) for exercise, source in solutions]
    records = [referee.grade(Submission("ada", CHAPTER, cells), chapter, chapter_sandbox) for _ in range(6)][1:]
    assert all(record.points == record.of for record in records)
    began = time.perf_counter()
    for _ in range(10):
        with chapter_sandbox.session() as session:
            session.run_cell("pass")
    alone = (time.perf_counter() - began) / 10
    torch.set_num_threads(threads)
    stages = {name: round(1000 * statistics.median(r.stages[name] for r in records)) for name in records[0].stages}
    whole = statistics.median(record.seconds for record in records)
    with capsys.disabled():
        print(f"\n{1000 * whole:.0f} ms a submission of {CHAPTER} ({stages}); {1000 * alone:.0f} ms a session alone")


def test_after_grading_torch_is_looked_after_here_again(monkeypatch):
    with pytest.raises(ZeroDivisionError), answers_elsewhere():
        monkeypatch.setattr(torch, "relu", len)
        assert put_back_torch() == []
        raise ZeroDivisionError
    assert put_back_torch() == ["torch.relu"]
