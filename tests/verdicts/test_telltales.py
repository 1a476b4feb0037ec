"""Operations are recorded in those tests of a check cell that ask for them, and in no others."""

from __future__ import annotations

import linecache
import textwrap

import pytest
import torch

from torchkata.verdicts import check, mistake, observe, observe_scenario
from torchkata.verdicts.judging import NotRecorded

CELL = """
with check("one") as test:

    def follows(seen):
        seen.avoided("eye")

    def made(seen):
        return "ones" in seen.op_names()

    def twice(answer, x):
        return answer(answer(x))

    by_ones = mistake("It came from ones.", when=made)

    test("values alone")
    seen = observe(answer, x)
    seen.returns(x + 1)
    noted.append(seen)

    test("its own lines")
    seen = observe(answer, x)
    assert seen.ops
    noted.append(seen)

    test("a scenario, by values")
    seen = observe_scenario(twice, answer, x)
    seen.returns(x + 2)
    noted.append(seen)

    test("a helper")
    seen = observe_scenario(twice, answer, x)
    follows(seen)
    noted.append(seen)

    test("a mistake")
    seen = observe(answer, x)
    seen.returns(x + 1, by_ones)
    noted.append(seen)

    for idea in ("in", "a loop"):
        test.hidden(idea)
        seen = (lambda: observe(answer, x))()
        seen.that(True, "It holds.", stage="rule")
        noted.append(seen)

    test.hidden("values again")
    seen = observe(answer, x)
    noted.append(seen)

    test.hidden("what another test goes on from")
    first = observe(answer, x)
    noted.append(first)

    test.hidden("goes on from it")
    follows(first)
"""
ASK = [False, True, False, True, True, True, True, False, True]


def run(source: str, file: str) -> list:
    """Run a check cell; what it has observed, in order."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    noted: list = []
    space = {"check": check, "observe": observe, "observe_scenario": observe_scenario, "mistake": mistake}
    space |= {"noted": noted, "x": torch.ones(2), "answer": lambda x: x + 1, "NotRecorded": NotRecorded}
    exec(compile(source, file, "exec"), space)
    return noted


def test_a_test_that_asks_for_operations_gets_them():
    assert [bool(seen.noted.ops) for seen in run(CELL, "<check of telltales>")] == ASK


def test_nothing_is_recorded_where_no_test_asks():
    source = textwrap.dedent("""
        with check("one") as test:
            test("a rule on something else")
            seen = observe(answer, x)
            seen.that(True, "It holds.", stage="rule")
            noted.append(seen)
        """)
    [seen] = run(source, "<check of no telltales>")
    assert not seen.noted.ops


@pytest.mark.parametrize(
    "asks",
    ["ops", "reads", "op_names()", "in_sight()", "used('add')", "avoided('add')", "that(True, '', stage='rule')"],
)
def test_who_asks_for_operations_that_were_not_recorded_hears_of_it(asks: str):
    source = textwrap.dedent(f"""
        with check("one") as test:
            test("in a list, where nobody finds it")
            found = []
            found.append(observe(answer, x))
            test("another one")
            found[0].{asks}
            observe(answer, x).in_sight()
        """)
    with pytest.raises(NotRecorded):
        run(source, f"<check of {asks}>")


def test_a_mistake_that_asks_in_vain_is_not_taken_for_one_that_does_not_match():
    source = textwrap.dedent("""
        with check("one") as test:
            test("in a list")
            found = []
            found.append(observe(answer, x))
            test("another one")
            found[0].returns(x, mistake("It was added.", when=lambda seen: "add" in seen.op_names()))
        """)
    with pytest.raises(NotRecorded):
        run(source, "<check of a mistake>")
