"""The cards with two functions: each is run on its inputs, and differs there or agrees."""

from __future__ import annotations

import re

import pytest
import torch
import yaml
from torch.testing import assert_close

from tests import ROOT
from torchkata.facts import FactError, chapter_names
from torchkata.facts.pairs import DATA, NEVER, SOME, Pair, all_pairs, pairs, parse

PAIRS = all_pairs()
ENTRY = yaml.safe_load(DATA.read_text(encoding="utf-8"))[0]


def same(one: object, other: object) -> bool:
    """Whether two results are the same but for rounding; nan equals nan."""
    try:
        assert_close(one, other, rtol=1e-5, atol=1e-12, equal_nan=True)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_pair_is_run(pair: Pair):
    runs = list(pair.run())
    assert [same(first, second) for _, first, second in runs] == [pair.answer == NEVER] * len(runs)
    if pair.returns:
        assert [str(one) for one in runs[0][1:]] == list(pair.returns)


def test_each_chapter_has_a_pair_and_a_third_never_differ():
    assert 18 <= len(PAIRS) <= 26
    assert all(pairs(name) for name in chapter_names())
    assert sum(len(pairs(name)) for name in chapter_names()) == len(PAIRS)
    never = sum(pair.answer == NEVER for pair in PAIRS)
    assert 0.28 <= never / len(PAIRS) <= 0.42, never


def test_a_pair_fits_a_card():
    for pair in PAIRS:
        lines = pair.code.splitlines()
        assert len(lines) <= 12 and max(map(len, lines)) <= 80, pair.id
        assert pair.input.endswith(".") and pair.because.endswith("."), pair.id
        assert pair.shown.startswith(pair.inputs[0]) and all(text in pair.shown for text in pair.returns)
        assert {SOME: "differ", NEVER: "were run"}[pair.answer] in pair.shown_title


def bare(code: str) -> str:
    """Code without its names of functions, comments and blanks."""
    return re.sub(r"def \w+|#.*|\s", "", code)


def test_no_card_has_the_pair_of_an_exercise():
    """Neither function of a card is one that an exercise asks to separate."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "solutions").glob("*/exercises/*.py")]
    asked = bare("\n".join(re.sub("^# ?", "", text, flags=re.M) for text in sources if "# separate · " in text))
    for pair in PAIRS:
        assert not all(bare(one).partition(":")[2] in asked for one in (pair.first, pair.second)), pair.id


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"because": " "}, "must be text"),
        ({"answer": "never"}, "its fields must be"),
        ({"returns": ["1"]}, "returns two texts"),
        ({"fact": "02-cat-remove-ith"}, "another chapter"),
        ({"second": "def second(y):\n    return y"}, "same arguments"),
    ],
)
def test_a_faulty_pair_is_named(change: dict, words: str):
    with pytest.raises(FactError, match=rf"pairs\.yaml: {ENTRY['id']}: .*{words}"):
        parse(yaml.safe_dump([{**ENTRY, **change}]))


def test_ids_are_used_once():
    with pytest.raises(FactError, match="used twice"):
        parse(yaml.safe_dump([ENTRY, ENTRY]))


def test_results_may_round():
    assert same(torch.tensor(1.0), torch.tensor(1.0 + 1e-7)) and same(torch.tensor(torch.nan), torch.tensor(torch.nan))
    assert not same(torch.tensor(0.0), torch.tensor(1e-8)) and not same([0, 1], [0, 1, 1])
