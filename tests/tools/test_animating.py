"""The README's picture shows each step of the ring once, and what all steps share once."""

import re
from xml.etree import ElementTree

from tests import ROOT
from torchkata.pictures.ring import ring_stepper
from torchkata.tools import animating

SVG = "{http://www.w3.org/2000/svg}"


def test_the_file_is_what_the_command_writes():
    assert animating.FILE.read_text(encoding="utf-8") == animating.animated(
        animating.steps_of(ring_stepper(), "step")
    ), "write it anew: python -m torchkata.tools.animating"


def test_each_step_is_a_group_and_what_they_share_stands_once():
    steps = animating.steps_of(ring_stepper(), "step")
    tree = ElementTree.fromstring(animating.animated(steps))
    groups = [node for node in tree if node.tag == f"{SVG}g"]
    assert len(groups) == len(steps) == 7
    titles = [node for node in tree.iter(f"{SVG}text") if (node.text or "").startswith("Ring all-reduce")]
    assert len(titles) == 1
    told = [[t.text for t in group.iter(f"{SVG}text") if (t.text or "").startswith("Step ")] for group in groups]
    assert [len(lines) for lines in told] == [1] * 7 and told[0] != told[6]


def test_the_readme_shows_it_with_words():
    (words, path) = re.search(r"!\[([^\]]+)\]\(([^)]+ring\.svg)\)", (ROOT / "README.md").read_text()).groups()
    assert (ROOT / path).samefile(animating.FILE) and len(words) > 40
