"""Facts that changed between releases of torch: their data, their faults, and that each part is needed."""

import dataclasses
from functools import cache

import pytest
from packaging.version import Version

from tests.versions import RELEASES
from torchkata.facts import FactError, chapter_names, folklore, load
from torchkata.facts.collection import DATA, parse
from torchkata.facts.releases import installed_release
from torchkata.tools.proofs import run_proofs

ENTRY = """
- id: 03-gather-copies
  belief: gather copies.
  verdict: holds
  level: core
  holds:
    "<2.14":
      fact: It always does.
      proof: |
        assert True
    ">=2.14":
      fact: It no longer does.
      trap: It never did.
      proof: |
        assert not False
"""


def of_release(release, text=ENTRY, chapter="03_gather_scatter"):
    return parse(text, chapter, Version(release))


@pytest.mark.parametrize(
    ("release", "words", "trap"),
    [
        ("2.13.0", "It always does.", ""),
        ("2.13.1", "It always does.", ""),
        ("2.14.0", "It no longer does.", "It never did."),
        ("2.15.0", "It no longer does.", "It never did."),
    ],
)
def test_a_fact_is_the_one_of_its_release(release, words, trap):
    (fact,) = of_release(release)
    assert (fact.fact, fact.trap, fact.verdict) == (words, trap, "holds")
    assert ("not" in fact.proof) == (release >= "2.14")


@pytest.mark.parametrize(
    ("installed", "release"),
    [("2.13.0+cpu", "2.13.0"), ("2.14.1+cu130", "2.14.1"), ("2.15.0.dev20261101+cu130", "2.15.0")],
)
def test_a_build_belongs_to_its_release(monkeypatch, installed, release):
    monkeypatch.setattr("torchkata.facts.releases.version", lambda name: installed)
    assert str(installed_release()) == release


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"<2.14"', '"before 2.14"', "'before 2.14' in holds is no version specifier such as '>=2.14'"),
        ('"<2.14"', '""', "is no version specifier"),
        ('"<2.14"', "2.14", "is no version specifier"),
        ('"<2.14"', '"<2.13"', "no part of holds is for torch 2.13.0"),
        ('"<2.14"', '"<=2.14"', "torch 2.14.0 belongs to <=2.14 and to >=2.14"),
        ('">=2.14"', '">2.14"', "no part of holds is for torch 2.14.0"),
        ('">=2.14"', '"~=2.14.1"', "no part of holds is for torch 2.14.0"),
        ("      fact: It always does.\n", "", "fact is missing"),
        ("      fact: It always does.", "      fact: 3", "fact must be text"),
        ("      fact: It always does.", "      level: core", "the part <2.14 of holds may have verdict, fact, trap"),
        ("assert not False", "assert (", "the proof does not compile"),
        ("assert True", "print(1)", "the proof asserts nothing"),
        ("  verdict: holds", "  verdict: holds\n  fact: Both.", "fact stands in the entry and in the part <2.14"),
        (ENTRY[ENTRY.index('    ">=') :], "", "holds must have a part for each group of releases"),
        (ENTRY[ENTRY.index("  holds:") :], "  holds: yes", "holds must have a part for each group of releases"),
    ],
)
@pytest.mark.parametrize("release", ["2.13.0", "2.15.0"])
def test_a_fault_in_any_part_is_named(old, new, words, release):
    assert old in ENTRY
    with pytest.raises(FactError, match=r"03_gather_scatter\.yaml: 03-gather-copies: ") as caught:
        of_release(release, ENTRY.replace(old, new))
    assert words in str(caught.value)


# ---------------------------------------------------------------- the course's own


@cache
def all_of(release):
    texts = {name: (DATA / f"{name}.yaml").read_text(encoding="utf-8") for name in chapter_names()}
    return {fact.id: fact for name, text in texts.items() for fact in of_release(release, text, name)}


CHANGED = sorted(name for name in all_of(RELEASES[0]) if len({all_of(release)[name] for release in RELEASES}) > 1)


def test_some_facts_have_changed():
    assert {"02-percentile-needs-numpy", "05-wrapper-for-keyword-arguments"} <= {*CHANGED}


@pytest.mark.parametrize("name", CHANGED)
def test_the_proof_of_another_release_fails_here(name):
    here = all_of(str(installed_release()))[name]
    others = {all_of(release)[name] for release in RELEASES} - {here}
    elsewhere = [dataclasses.replace(other, id=f"{name}-elsewhere-{n}") for n, other in enumerate(others)]
    results = run_proofs([here, *elsewhere], jobs=1)
    states = {result.id: result.state for result in results.values()}
    assert states == {name: "passed"} | {other.id: "failed" for other in elsewhere}


def test_the_table_shows_what_the_installed_torch_does(monkeypatch):
    words = "takes at most 2**24 elements"
    shown = {}
    for release in ("2.13.0", "2.14.1"):
        monkeypatch.setattr("torchkata.facts.collection.installed_release", lambda release=release: Version(release))
        load.cache_clear()
        shown[release] = folklore("02_tensors_views", everything=True)._repr_html_()
    load.cache_clear()
    assert words in shown["2.13.0"] and words not in shown["2.14.1"]
