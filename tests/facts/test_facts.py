"""The facts: their schema, their table, and every proof run on the torch that is installed."""

import dataclasses
import re
from functools import cache
from html.parser import HTMLParser

import pytest
import torch

from torchkata.facts import FactError, chapter_names, find, folklore, load, look, prove
from torchkata.facts.collection import DATA, parse
from torchkata.facts.faults import VERDICTS
from torchkata.facts.table import Folklore
from torchkata.tools.proofs import choose, run_proofs, skip_reasons, summarise

CHAPTERS = chapter_names()
ENTRY = """
- id: 03-gather-copies
  belief: gather copies.
  verdict: holds
  fact: It always does.
  level: core
  proof: |
    assert True
"""


def entry(**changes):
    """A fact of chapter 03 with some fields replaced."""
    return dataclasses.replace(parse(ENTRY, "03_gather_scatter")[0], **changes)


# ---------------------------------------------------------------- every proof


SLOW = ("09_onnx_export", "10_multi_gpu")  # proofs that export, or start processes
a_detail = pytest.mark.exhaustive("a detail among the facts of a slow chapter", thorough=True)


def is_slow_detail(chapter, fact):
    return chapter in SLOW and fact.level == "detail"


@cache
def results_of(chapter, slow_details):
    """The results of these proofs of a chapter, run once: importing torch takes longer than most of them."""
    return run_proofs(
        [fact for fact in load(chapter) if is_slow_detail(chapter, fact) == slow_details], jobs=1, timeout=600
    )


@pytest.mark.parametrize(
    ("chapter", "fact"),
    [
        pytest.param(chapter, fact, id=fact.id, marks=a_detail if is_slow_detail(chapter, fact) else ())
        for chapter in CHAPTERS
        for fact in load(chapter)
    ],
)
def test_proof(chapter, fact):
    result = results_of(chapter, is_slow_detail(chapter, fact))[fact.id]
    if result.state == "skipped":
        pytest.skip(result.detail)
    assert result.state == "passed", (
        f"{chapter}: {fact.id} no longer holds on torch {torch.__version__}:\n{fact.fact}\n\n{result.detail}"
    )


def test_the_collection_is_whole():
    names = [fact.id for chapter in CHAPTERS for fact in load(chapter)]
    assert len(CHAPTERS) == 15
    assert len(names) == len(set(names)) >= 427
    assert all(any(fact.level == "core" for fact in load(chapter)) for chapter in CHAPTERS)


# ---------------------------------------------------------------- the proof runner


BAD_PROOFS = {
    "assert 1 == 2, 'one is not two'": "one is not two",
    "import sys; sys.exit(0)": "SystemExit",
    "import os; os._exit(3)": "status 3",
    "import torch; torch.set_default_dtype(torch.float64)": "default dtype",
    "import os; os.environ['LEFT'] = '1'": "environment",
    "open('left', 'w').close()": "files in the working folder",
    "import sys; sys.modules['left'] = type(sys)('left')": "sys.modules['left'] added",
    "import time; time.sleep(600)": "Timeout (0:00:10)",
}


@cache
def results_of_bad_proofs():
    """By place; after each bad proof comes a good one."""
    good = "import os, torch; assert torch.get_default_dtype() is torch.float32 and os.listdir() == []"
    proofs = [one for bad in BAD_PROOFS for one in (bad, good)]
    return run_proofs([entry(id=str(place), proof=proof) for place, proof in enumerate(proofs)], jobs=1, timeout=10)


@pytest.mark.exhaustive("proofs that harm their process", thorough=True)
@pytest.mark.parametrize(("place", "words"), list(enumerate(BAD_PROOFS.values())), ids=BAD_PROOFS)
def test_a_bad_proof_fails_and_the_next_one_still_runs(place, words):
    results = results_of_bad_proofs()
    bad, good = results[str(2 * place)], results[str(2 * place + 1)]
    assert (bad.state, good.state) == ("failed", "passed"), good.detail
    assert words in bad.detail


@pytest.mark.parametrize(
    ("proof", "timeout", "words"),
    [("assert 1 == 2, 'one is not two'", 120, "one is not two"), ("while True: pass", 2, "timed out after 2 s")],
)
def test_a_bad_isolated_proof_fails(proof, timeout, words):
    results = run_proofs([entry(proof=proof, isolated=True)], timeout=timeout)
    assert results["03-gather-copies"].state == "failed"
    assert words in results["03-gather-copies"].detail


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="this machine has two CUDA devices")
def test_a_missing_need_skips():
    facts = [entry(id="a", needs=("cuda2",)), entry(id="b")]
    results = run_proofs(facts)
    assert results["a"].state == "skipped"
    assert skip_reasons(results.values()) == "needs two CUDA devices (1)"
    assert summarise("03_gather_scatter", facts, results)[:6] == ["03_gather_scatter", "2", "2", "1", "1", "0"]


def test_choose():
    assert list(choose(["3", "autograd"], [])) == ["03_gather_scatter", "04_autograd"]
    assert list(choose([], [])) == CHAPTERS
    (only,) = choose([], ["03-gather-index-formula"]).values()
    assert [fact.id for fact in only] == ["03-gather-index-formula"]
    with pytest.raises(FactError, match=r"no facts on 'nope'.*03_gather_scatter"):
        choose(["nope"], [])
    with pytest.raises(FactError, match="03-nope"):
        choose(["03"], ["03-nope"])


# ---------------------------------------------------------------- prove


def test_prove_prints_the_same_everywhere_and_leaves_the_random_state_alone(capsys):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    prove("03-gather-index-formula")
    assert capsys.readouterr().out == "03-gather-index-formula: proof holds\n"
    assert torch.equal(torch.get_rng_state(), state)


def test_prove_runs_isolated_proofs(capsys):
    name = next(fact.id for fact in load("02_tensors_views") if fact.isolated)
    prove(name)
    assert capsys.readouterr().out == f"{name}: proof holds\n"


def test_prove_says_what_no_longer_holds(monkeypatch):
    monkeypatch.setattr("torchkata.facts.proof.find", lambda name: entry(proof="assert 1 == 2"))
    with pytest.raises(AssertionError, match=r"03-gather-copies does not hold on torch .*: It always does\."):
        prove("03-gather-copies")


def test_prove_says_what_the_machine_lacks(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("torchkata.facts.proof.find", lambda name: entry(needs=("cuda",)))
    prove("03-gather-copies")
    assert capsys.readouterr().out == "03-gather-copies: not run, it needs a CUDA device\n"


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("id: 03-gather-copies", "id: 04-gather-copies", "another chapter"),
        ("id: 03-gather-copies", "id: 03_Gather", "hyphens"),
        ("  verdict: holds", "  verdict: maybe", "unknown verdict 'maybe'"),
        ("  level: core", "  level: high", "unknown level 'high'"),
        ("  level: core", "  level: core\n  extra: 1", "unknown field extra"),
        ("  level: core", "  level: core\n  needs: [gpu]", "needs must be"),
        ("  level: core", "  level: core\n  isolated: false", "isolated may only be true"),
        ("  level: core", "  level: core\n  table: true", "table must be"),
        ("  level: core", "  level: core\n  table: 0", "table must be"),
        ("  level: core", "  level: core\n  table: 2", "no fact stands in row 1"),
        ("  level: core\n", "", "level is missing"),
        ("belief: gather copies.", "belief: 3", "belief must be text"),
        ("assert True", "print(1)", "asserts nothing"),
        ("assert True", "assert (", "does not compile"),
    ],
)
def test_a_faulty_entry_is_named(old, new, words):
    assert old in ENTRY
    with pytest.raises(FactError, match=r"03_gather_scatter\.yaml: .*0[34][-_][gG]ather") as caught:
        parse(ENTRY.replace(old, new), "03_gather_scatter")
    assert words in str(caught.value)


def test_an_id_used_twice_is_named():
    with pytest.raises(FactError, match="03-gather-copies: the id is used twice"):
        parse(ENTRY + ENTRY, "03_gather_scatter")


def test_a_file_that_is_no_list_is_named():
    for text in ("a: 1", "- [", ""):
        with pytest.raises(FactError, match=r"03_gather_scatter\.yaml"):
            parse(text, "03_gather_scatter")
    with pytest.raises(FactError, match="entry 1: not a mapping"):
        parse("- text", "03_gather_scatter")


def test_unknown_names():
    with pytest.raises(FactError, match="03_gather_scatter"):
        load("03")
    with pytest.raises(FactError, match="03-nope"):
        find("03-nope")


# ---------------------------------------------------------------- the table


class Reader(HTMLParser):
    """Collects the proofs, the text in <pre><code>, and fails on tags that do not close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.codes = [], []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)
        if self.open[-2:] == ["pre", "code"]:
            self.codes.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "pre" in self.open:
            self.codes[-1] += data


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_table_holds_every_proof_as_it_is(chapter):
    html = folklore(chapter, everything=True)._repr_html_()
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert reader.codes == [fact.proof.rstrip() + "\n" for fact in load(chapter)]
    assert html == folklore(chapter, everything=True)._repr_html_()
    assert "<script" not in html


def test_two_facts_in_one_row_are_named():
    first = ENTRY.rstrip().replace("level: core", "level: core\n  table: 1")
    with pytest.raises(FactError, match=r"03-gather-copies and 03-other both stand in row 1 of the table"):
        parse(first + "\n" + first.replace("03-gather-copies", "03-other"), "03_gather_scatter")


def test_the_closing_table_has_the_rows_that_the_facts_ask_for():
    closing, everything = folklore("03_gather_scatter"), folklore("03_gather_scatter", everything=True)
    assert [fact.table for fact in closing.facts] == [1, 2, 3, 4, 5, 6]
    assert closing.facts[0].id == "03-scatter-writes-all-of-src"
    assert repr(closing) == "Folklore, checked: 6 sayings of 03_gather_scatter"
    assert everything.facts == load("03_gather_scatter")
    with pytest.raises(FactError, match="03_gather_scatter"):
        folklore("03")


def test_a_chapter_whose_facts_ask_for_no_row_shows_them_all(monkeypatch):
    monkeypatch.setattr("torchkata.facts.table.load", lambda chapter: (entry(id="a"), entry(id="b")))
    assert [fact.id for fact in folklore("03_gather_scatter").facts] == ["a", "b"]


def test_the_table_escapes_html():
    html = Folklore("x", (entry(belief="a < b & c", proof="assert 1 < 2"),))._repr_html_()
    assert "a &lt; b &amp; c" in html
    assert '<span class="k">assert</span> <span class="mi">1</span> &lt; <span class="mi">2</span>' in html


def test_the_table_sets_code_as_code():
    said = {
        "belief": "x.t() of `a < b`.",
        "fact": "It keeps requires_grad=True and .grad. So does .to() with dim=0.",
        "trap": "Call `conda install`.",
    }
    html = Folklore("x", (entry(**said),))._repr_html_()
    for code in ("x.t()", "a &lt; b", "requires_grad=True", ".grad", ".to()", "dim=0", "conda install"):
        assert f"<code>{code}</code>" in html
    assert "`" not in html


BRIGHT = re.compile(r"var\(--tk-([a-z-]+), (#[0-9a-f]{6})\)")
PAGES = {"bright": ("#ffffff", "#f5f5f5"), "dark": ("#111111", "#212121")}  # JupyterLab's, and of every other row


def test_each_colour_stands_out_on_a_bright_page_and_on_a_dark_one():
    bright = dict(BRIGHT.findall((DATA.parent / "table.css").read_text(encoding="utf-8")))
    assert bright.keys() == look.DARK.keys()
    for page, colours in (("bright", bright), ("dark", look.DARK)):
        for name, colour in colours.items():
            if not name.endswith("-back"):
                behind = [colours[f"{name}-back"]] if f"{name}-back" in colours else PAGES[page]
                assert min(contrast(colour, back) for back in behind) >= 4.5, (page, name)


def contrast(one, other):
    """How two colours stand apart, as WCAG counts it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_each_verdict_has_a_sign_and_a_look_of_its_own():
    assert look.SIGNS.keys() == set(VERDICTS)
    assert len(set(look.SIGNS.values())) == len(VERDICTS)
    assert all(f".{verdict} {{" in look.style() for verdict in VERDICTS)
