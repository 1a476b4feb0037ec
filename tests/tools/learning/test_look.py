"""JupyterLab and the website know the same words and colours; what JupyterLab does with them is in tests/browser."""

from __future__ import annotations

import re

from tests import ROOT
from torchkata.tools.learning.lab import JUPYTER_CONFIG
from torchkata.tools.site.blocks import BEGINS, GOES_ON

LOOK = JUPYTER_CONFIG / "labextensions" / "torchkata-look" / "static"
COLOUR = re.compile(r"(--tk-(?:predict|contract|rule|know|line|card)(?:-back)?): (#[0-9a-f]{6})")


def test_the_same_words_begin_a_box():
    script = (LOOK / "look.js").read_text(encoding="utf-8")
    kinds = dict(re.findall(r"\['(\w+)', /\^(.+)\\b/\]", script))
    assert {kind: words.removeprefix("(").removesuffix(")") for kind, words in kinds.items()} == {
        kind: words.removesuffix(")") if words.endswith(")") else words for kind, words in BEGINS.items()
    }
    assert f"GOES_ON = {list(GOES_ON)}" in script


def test_boxes_have_the_same_colours():
    css = (LOOK / "look.css").read_text(encoding="utf-8")
    site = (ROOT / "src/torchkata/tools/site/static/site.css").read_text(encoding="utf-8")
    assert len(set(COLOUR.findall(css))) == 20
    assert set(COLOUR.findall(css)) == set(COLOUR.findall(site))
