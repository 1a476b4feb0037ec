"""How verdicts look: as text in every place, and as cards for somebody who looks at a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from jupyter_client.manager import start_new_kernel

from tests.tools.learning.small_course import make_course
from torchkata.base.chapter import exercise_of
from torchkata.base.remembering import read_verdicts
from torchkata.base.ways import ways_file
from torchkata.tools.course import Chapter, read_unchecked
from torchkata.tools.learning.workbook import fill_workbook
from torchkata.verdicts import WrongAnswer, check, observe, observe_scenario
from torchkata.verdicts.comparing import show
from torchkata.verdicts.grids import MARK, UNMARK, grids, wrong_places
from torchkata.verdicts.plain import Other
from torchkata.verdicts.showing import WAIT, Card, Part, folded

# ---------------------------------------------------------------- text


def shown(answer, *args, expected) -> list[str]:
    """The lines of the verdict on an answer that is wrong."""
    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        test("an idea")
        observe(answer, *args).returns(expected)
    return caught.value.lines


def test_small_tensors_stand_one_below_the_other_with_marks():
    came = torch.tensor([[0, 2, 4], [6, -8, 10]])
    assert shown(lambda x: came, 1, expected=came.abs())[1:] == [
        "  The values are wrong: 1 of 6 values differ.",
        "    asked:    <lambda>(1)",
        "    expected: [[  0    2    4 ]",
        "               [  6   *8*  10 ]]",
        "    got:      [[  0    2    4 ]",
        "               [  6  *-8*  10 ]]",
    ]


def test_of_large_tensors_the_first_differences_are_told():
    x = torch.arange(200.0)
    told = shown(lambda x: x + (x > 196), x, expected=x)
    assert told[1] == "  The values are wrong: 3 of 200 values differ, the largest difference is 1."
    assert [line.strip() for line in told[-3:]] == [
        "such as:  at [197] expected 197, got 198",
        "at [198] expected 198, got 199",
        "at [199] expected 199, got 200",
    ]


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (2, 2, 3), (2, 1, 2, 2)])
def test_a_grid_is_what_torch_would_read(shape: tuple[int, ...]):
    values = torch.arange(float(torch.tensor(shape).prod())).reshape(shape)
    text, _ = grids(values, values, wrong_places(values, values))
    listed = re.sub(r"(?<=\d)\s+(?=-?\d)", ", ", re.sub(r"\]\s+\[", "], [", text))
    assert torch.equal(torch.tensor(eval(listed)).float(), values)


def test_what_four_digits_do_not_tell_apart_gets_more():
    expected, came = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001])
    assert grids(expected, came, wrong_places(came, expected, 0, 0))[1] == f"[       1  {MARK}2.00001{UNMARK}]"


def test_a_story_of_the_checks_own_is_told_in_words():
    def frozen(prepare, n):
        """Prepare the model and train it for n steps."""
        return prepare(n)

    with pytest.raises(WrongAnswer) as caught, check("an-exercise") as test:
        test("an idea")
        observe_scenario(frozen, abs, 3).returns(4)
    assert "    asked:    Prepare the model and train it for n steps (abs, n=3)" in caught.value.lines


@pytest.mark.parametrize(
    "value, words",
    [
        ([1] * 200, "[1, 1, 1,"),
        ({"a": [Other("Value"), 2.0]}, "{'a': [a Value, 2.0]}"),
        ("x" * 200, "'xxx"),
        ((1,), "(1,)"),
        ([[3] * 40] * 40, "[[3, 3,"),
    ],
)
def test_values_are_never_cut_inside_a_bracket(value: object, words: str):
    text = show(value)
    assert text.startswith(words) and len(text) < 160
    assert text.count("[") == text.count("]") and text.count("'") % 2 == 0


def test_of_a_line_without_end_the_beginning_is_folded():
    assert sum(map(len, folded("((a, " * 10**6, 80))) < 10_000 and folded("a" * 10**6, 80)[-1] == "..."


def test_lines_are_folded_between_brackets():
    call = f"step({', '.join(f'tensor([{n}, 1, 2, 3])' for n in range(9))})"
    pieces = folded(call, 80)
    assert len(pieces) > 1 and " ".join(pieces) == call
    assert all(len(piece) <= 80 and piece.count("[") == piece.count("]") for piece in pieces)


# ---------------------------------------------------------------- cards


class Read(HTMLParser):
    """The text of HTML, its links, and whether all that was opened is closed."""

    def __init__(self, html: str):
        super().__init__()
        self.text, self.links, self.open = "", [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_card_is_plain_html_without_accidental_links_or_markup():
    part = Part("got", f"[1 {MARK}<b>{UNMARK}]")
    card = Card(
        "wrong", "an-exercise", ", test: 1 / 2", "Use / or `x <= 2`.", (part, Part("", "line 1 of <your> code"))
    )
    read = Read(card.html())
    assert read.open == [] and read.links == []
    assert "Use / or x <= 2." in read.text and "<b>" in read.text and MARK not in read.text
    assert "script" not in card.html() and "<code>x &lt;= 2</code>" in card.html()


# ---------------------------------------------------------------- in a kernel


class Notebook:
    """A kernel in a folder; each cell is run as JupyterLab runs it, or as a tool does."""

    def __init__(self, folder: Path):
        self.manager, self.client = start_new_kernel(cwd=str(folder))
        self.seen: list[str] = []  # the text of each display, and of each that took the place of an earlier one

    def run(self, source: str, looked_at: bool = True) -> list[dict]:
        """The outputs of a cell, as they are in the end."""
        self.seen = []
        session, outputs = self.client.session, []
        content = {
            "code": source,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "stop_on_error": True,
        }
        metadata = {"cellId": "c1"} if looked_at else {}
        message = session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        while True:
            told = self.client.get_iopub_msg(timeout=120)
            if told["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
                return outputs
            if told["msg_type"] in ("display_data", "update_display_data"):
                self.seen.append(told["content"]["data"]["text/plain"])
            if told["msg_type"] == "update_display_data":
                place = told["content"]["transient"]["display_id"]
                [out] = [out for out in outputs if out.get("transient", {}).get("display_id") == place]
                out["data"] = told["content"]["data"]
            if told["msg_type"] == "stream" and outputs and outputs[-1]["type"] == "stream":
                outputs[-1]["text"] += told["content"]["text"]  # what is printed comes in pieces
            elif told["msg_type"] in ("stream", "display_data", "execute_result", "error"):
                outputs.append({"type": told["msg_type"], **told["content"]})


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    made = make_course(tmp_path_factory.mktemp("course"))
    fill_workbook(made.place)
    return made


@pytest.fixture(scope="module")
def notebook(chapter: Chapter) -> Iterator[Notebook]:
    one = Notebook(chapter.workbook.parent)
    one.run(next(cell.source for cell in chapter.master.cells if cell.cell_type == "code"))
    yield one
    one.client.stop_channels()
    one.manager.shutdown_kernel(now=True)


@pytest.fixture
def verdict_on(chapter: Chapter, notebook: Notebook):
    """The outputs of an exercise's check cell after an answer."""
    cells = {
        exercise_of(cell): cell.source for cell in read_unchecked(chapter.workbook).cells if "nbgrader" in cell.metadata
    }

    def run(exercise: str, answer: str, looked_at: bool = True) -> list[dict]:
        assert notebook.run(answer, looked_at) == []
        return notebook.run(cells[exercise], looked_at)

    return run


def test_right_is_green_with_points_and_a_link(verdict_on):
    [told] = verdict_on("twice", "def twice(x):\n    return 2 * x")
    assert told["type"] == "display_data"
    read = Read(told["data"]["text/html"])
    assert "✓" in read.text and "2 of 2 points" in read.text and "--jp-success" in told["data"]["text/html"]
    assert len(read.links) == 1 and read.links[0].startswith("things.ipynb#cell-id=")
    assert told["data"]["text/plain"].startswith("✓ twice: 2 tests passed, 2 of 2 points.\n  Next: ")


WAYS = """# %% right: adds
# Two additions & no product.
def twice(x):
    return x + x if x < 10**6 else x + x


# %% wrong: squares
# says: expected 8
# 2 hides it.
def twice(x):
    return x**2
"""


def test_a_solved_exercise_offers_other_answers_folded(verdict_on, chapter):
    file = ways_file(chapter.solution.parent, "twice")
    file.parent.mkdir()
    file.write_text(WAYS)
    [told] = verdict_on("twice", "def twice(x):\n    return 2 * x")
    html = told["data"]["text/html"]
    inside = html.partition("<details")[2].partition("</details>")[0]
    assert "The author's answer, and 2 others to compare yours with</summary>" in inside
    assert "return 2 * x" in inside and "return x + x if x &lt; 10**6" in inside
    assert "Another right answer: adds. Two additions &amp; no product." in inside
    assert "An easy mistake: squares. 2 hides it. A check says: “expected 8”" in inside
    assert "adds" not in told["data"]["text/plain"]
    wrong = verdict_on("twice", "def twice(x):\n    return x")
    assert not any("<details" in one.get("data", {}).get("text/html", "") for one in wrong)


def test_a_share_of_the_points_offers_nothing_yet(verdict_on):
    told = verdict_on("guess", 'answers = {"a": 1, "b": ...}')
    assert not any("<details" in one.get("data", {}).get("text/html", "") for one in told)


ONE_MORE = """with check("one-more") as test:
    test("{0} gives {1}")
    observe(one_more, {0}).returns({1})
"""
WAITS = "one-more: this check waits for the first one, which your answer doesn't pass yet."


def test_one_slip_is_told_once(notebook, chapter):
    """A later check that the same answer fails says in one line that it waits; what is kept of it is the same."""
    first, later = ONE_MORE.format(1, 2), ONE_MORE.format(5, 6)
    assert notebook.run("def one_more(x):\n    return x") == []
    assert [told["type"] for told in notebook.run(first)] == ["display_data", "error"]
    [told] = notebook.run(later)
    assert told["data"]["text/plain"] == WAITS and "--jp-error" not in told["data"]["text/html"]
    kept = [one for one in read_verdicts(chapter.root / "workbook").values() if one.exercise == "one-more"]
    assert sorted((one.state, one.line) for one in kept) == [
        ("wrong", f"The values are wrong: expected {right}, got {right - 1}.") for right in (2, 6)
    ]
    [told] = notebook.run(later, looked_at=False)
    assert told["type"] == "error" and told["evalue"] == "one-more: The values are wrong: expected 6, got 5."

    assert notebook.run("def one_more(x):\n    return x if x > 2 else x + 1") == []
    assert [told["type"] for told in notebook.run(first)] == ["stream"]
    told, error = notebook.run(later)
    assert "expected 6, got 5" in told["data"]["text/plain"] and error["type"] == "error"


def test_an_open_exercise_is_no_error_for_somebody_who_looks(verdict_on, chapter):
    stub = "def twice(x):\n    raise NotImplementedError  # your code here"
    [told] = verdict_on("twice", stub)
    assert told["type"] == "display_data" and told["data"]["text/plain"] == "twice: not solved yet."
    assert "--jp-error" not in told["data"]["text/html"]
    assert [kept.state for kept in read_verdicts(chapter.root / "workbook").values() if kept.exercise == "twice"] == [
        "open"
    ]
    [told] = verdict_on("twice", stub, looked_at=False)
    assert (told["type"], told["ename"]) == ("error", "NotSolvedYet")
    assert [out["type"] for out in verdict_on("guess", 'answers = {"a": ..., "b": ...}')] == ["display_data"]


def test_wrong_is_a_card_and_one_line(verdict_on):
    wrong = "def twice(x):\n    return abs(x) * 2"
    card, error = verdict_on("twice", wrong)
    assert "expected -2, got 2" in Read(card["data"]["text/html"]).text and "twice(-1)" in card["data"]["text/plain"]
    assert error["ename"] == "WrongAnswer" and error["traceback"] == ["✗ twice, hidden test: a negative number"]
    [error] = verdict_on("twice", wrong, looked_at=False)
    assert any("asked:" in line for line in error["traceback"])


def test_predictions_are_told_once(verdict_on):
    card, points = verdict_on("guess", 'answers = {"a": 1, "b": 3}')
    assert card["data"]["text/html"].count("One too many.") == 1 and "1.5 of 3 points" in card["data"]["text/html"]
    assert points["data"]["text/plain"] == "1.5"
    stream, points = verdict_on("guess", 'answers = {"a": 1, "b": 3}', looked_at=False)
    assert stream["text"].startswith("✗ b = 3: One too many.\n")


def test_a_learners_own_check_does_not_break_the_checks(verdict_on):
    [told] = verdict_on("twice", "def check(x):\n    return 2 * x\n\ndef twice(x):\n    return check(x)")
    assert told["data"]["text/plain"].startswith("✓ twice")


# ---------------------------------------------------------------- while it runs

SLOW = "import time\n\ndef twice(x):\n    time.sleep({seconds})\n    {then}"


def test_a_check_that_takes_long_says_which_test_runs_until_the_verdict_takes_its_place(verdict_on, notebook):
    [told] = verdict_on("twice", SLOW.format(seconds=2 * WAIT, then="return 2 * x"))
    assert notebook.seen[:2] == [
        "twice: test 1 is running (a number).",
        "twice: test 2 is running (a negative number).",
    ]
    assert told["data"]["text/plain"].startswith("✓ twice: 2 tests passed, 2 of 2 points.")
    assert "is running" not in str(told)
    card, error = verdict_on("twice", SLOW.format(seconds=2 * WAIT, then="return 3 * x"))
    assert "expected 8, got 12" in card["data"]["text/plain"] and error["ename"] == "WrongAnswer"
    assert notebook.seen[0] == "twice: test 1 is running (a number)."


def test_what_is_stopped_leaves_nothing_that_seems_to_run(verdict_on, notebook):
    gone, error = verdict_on("twice", SLOW.format(seconds=2 * WAIT, then="raise KeyboardInterrupt"))
    assert notebook.seen == ["twice: test 1 is running (a number).", ""]
    assert gone["data"] == {"text/plain": ""} and error["ename"] == "Interrupted"


def test_where_nobody_looks_nothing_is_said_before_the_verdict(verdict_on, notebook):
    [told] = verdict_on("twice", SLOW.format(seconds=2 * WAIT, then="return 2 * x"), looked_at=False)
    assert told["type"] == "stream" and told["text"].startswith("✓ twice") and notebook.seen == []
