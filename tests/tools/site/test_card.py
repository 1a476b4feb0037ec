"""The card for shared links: it is what its command draws, fits, and is told only where the website has an address."""

from __future__ import annotations

import re
from types import SimpleNamespace
from xml.etree import ElementTree

from PIL import Image

from torchkata.tools.site import card, settings


def head(address: str) -> dict[str, str]:
    """What the head of a page says, by name, for a website at address."""
    app, context = SimpleNamespace(config=SimpleNamespace(html_baseurl=address)), {"title": "Hooks"}
    settings.open_graph(app, "chapters/06_hooks", "page.html", context, None)
    return dict(re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', context["metatags"]))


def test_the_file_is_what_the_command_draws():
    with Image.open(card.FILE) as kept:
        assert kept.size == (card.WIDTH, card.HEIGHT) == (1200, 630)
        assert kept.text[card.DIGEST] == card.digest(card.card_svg()), "draw it: python -m torchkata.tools.site.card"
    assert card.FILE.stat().st_size < 100_000


def test_its_words_and_pictures_are_there():
    words = list(ElementTree.fromstring(card.card_svg()).itertext())
    assert "torchkata" in words and "rank 3" in words
    assert " ".join(card.SENTENCE) in settings.ABOUT.replace(", and folklore with proofs", "")


def test_a_page_tells_the_card():
    told = head("https://example.org/kata/")
    assert told["og:image"] == "https://example.org/kata/_static/card.png"
    assert (told["og:image:width"], told["og:image:height"]) == ("1200", "630")
    assert told["og:image:alt"] == card.ALT and told["twitter:card"] == "summary_large_image"


def test_without_an_address_there_is_no_card():
    told = head("")
    assert told["og:title"] == "Hooks" and told["description"] == settings.ABOUT
    assert not [name for name in told if "image" in name or "twitter" in name or name == "og:url"]
