"""docs/contracts.md: the words that it quotes are those of the contracts; the tests and wrong answers exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT

ROWS = re.findall(r"^\| (\d+\.\d+) \| (.+) \| (.+) \|$", (ROOT / "docs/contracts.md").read_text(encoding="utf-8"), re.M)
LAST = r"(?m)^# <details>"  # what follows the contract and the rule


@cache
def exercises() -> dict[str, Path]:
    """The files of the exercises by their numbers."""
    files = (ROOT / "solutions").glob("*/exercises/*.py")
    return {re.findall(r"^# ### Exercise (\S+) ", one.read_text(encoding="utf-8"), re.M)[0]: one for one in files}


def faults(source: str, answers: str, says: str, fails: str) -> list[str]:
    """The quotations that the contract lacks, and the names that neither a test nor a wrong answer has."""
    text = re.split(LAST, source.partition("# **Contract")[2])[0]
    contract = " ".join(text.replace("\n#", "\n").split())
    missing = [words for words in re.findall('"(.+?)"', says) if words not in contract]
    tests, _, wrong = fails.partition("wrong ")
    missing += [name for name in _names(tests) if not re.search(rf'["\']{re.escape(name)}["\']', source)]
    missing += [name for name in _names(wrong) if f"\n# %% wrong: {name}\n" not in answers]
    return missing


def _names(text: str) -> list[str]:
    return [name.replace(r"\|", "|") for name in re.findall("`(.+?)`", text)]


@pytest.mark.parametrize("number, says, fails", ROWS)
def test_what_a_line_names_is_there(number: str, says: str, fails: str):
    path = exercises()[number]
    answers = ROOT / "tests/answers" / path.parent.parent.name / path.name
    assert '"' in says and "`" in fails
    assert faults(path.read_text(encoding="utf-8"), answers.read_text(encoding="utf-8"), says, fails) == []


def test_the_page_has_a_line_for_most_exercises():
    assert len({number for number, _, _ in ROWS}) > len(exercises()) / 2


def test_a_missing_word_test_or_answer_is_noticed():
    source = '# **Contract**\n#\n# - It never\n#   fails.\n# <details>\n# always\ntest("empty")\n'
    answers = "\n# %% wrong: refuses 0\n"
    assert faults(source, answers, '"never fails"', "`empty`; wrong `refuses 0`") == []
    assert faults(source, answers, '"always"', "`empt`; wrong `empty`, `refuses`") == [
        "always",
        "empt",
        "empty",
        "refuses",
    ]
