"""A card as an image: fewer bytes, the same drawing."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from tests.pictures.test_feature_maps import GALLERY as MAPS
from tests.pictures.test_loss_scale import GALLERY as CURVES
from tests.pictures.test_nucleus import GALLERY as BOXES
from tests.pictures.test_ring import GALLERY as RINGS
from torchkata.pictures.image import PASSED_ON, for_viewers, image_html, slim, svg_in
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.style import ORANGE, SKY

SOME = [gallery[name] for gallery in (MAPS, CURVES, BOXES, RINGS) for name in list(gallery)[:2]]


def shapes_of(svg):
    """Each shape with all that it has or is passed on; boxes as the outlines that they are. Texts apart."""
    shapes = list(_shapes(ElementTree.fromstring(svg), {}))
    return [shape for shape in shapes if shape[0] != "text"], Counter(shape for shape in shapes if shape[0] == "text")


def _shapes(node, passed):
    name, own = node.tag.partition("}")[2], {what: value for what, value in node.attrib.items() if what != "data-from"}
    look = passed | {what: value for what, value in own.items() if PASSED_ON.fullmatch(what)}
    if name in ("svg", "g"):
        for inner in node:
            yield from _shapes(inner, look if name == "g" else {})
        return
    rest = {what: value for what, value in own.items() if not PASSED_ON.fullmatch(what)}
    outlines = [rest]
    if name == "rect" and "rx" not in rest:
        name, outlines = "path", [{"d": "M{x} {y}h{width}v{height}h-{width}z".format(**rest)}]
    elif name == "path" and "z" in rest["d"]:  # capital Z ends the heads of arrows
        outlines = [{"d": f"{outline}z"} for outline in rest["d"].split("z")[:-1]]
    for outline in outlines:
        yield name, tuple(sorted((look | outline).items())), node.text


@pytest.mark.parametrize("picture", SOME)
def test_a_slim_card_draws_the_same(picture):
    assert shapes_of(slim(picture.svg)) == shapes_of(picture.svg)
    assert len(slim(picture.svg)) < 0.85 * len(picture.svg)


def test_boxes_on_one_another_stay_apart_and_those_beside_one_another_do_not():
    canvas = Canvas(200, 100)
    canvas.cells([Cell(10, 10, "", SKY), Cell(34, 10, "", SKY), Cell(80, 10, "", ORANGE), Cell(90, 10, "", ORANGE)])
    paths = re.findall(rf'(?:fill="{SKY}"|fill="{ORANGE}"|<path) d="([^"]+)"', slim(canvas.svg()))
    assert paths == ["M10 10h24v24h-24zM34 10h24v24h-24z", "M80 10h24v24h-24z", "M90 10h24v24h-24z"]


def test_the_title_stays_the_first_text():
    canvas = Canvas(200, 100)
    canvas.title("Title")
    canvas.text(10, 40, "before")
    canvas.note(10, 60, "between")
    canvas.text(10, 80, "after")
    assert re.findall(r">([^<]+)</text>", slim(canvas.svg())) == ["Title", "before", "after", "between"]


@pytest.mark.parametrize("words", ["100% of # & <b> \"quoted\" 'so' + ?", "7 × 8 − 1 → ␣ 😀", "%23 &amp; &#x27;"])
def test_an_image_holds_any_text(words):
    canvas = Canvas(200, 100)
    canvas.text(10, 40, words)
    html = image_html(canvas.svg(), words)
    assert svg_in(html) == svg_in(for_viewers(html)) == slim(canvas.svg())
    assert "image/svg+xml;base64," in for_viewers(html)
    image = BeautifulSoup(html, "html.parser").img
    assert image["alt"] == words and svg_in(f' src="{image["src"]}"') == slim(canvas.svg())
    [text] = ElementTree.fromstring(svg_in(html)).iter("{http://www.w3.org/2000/svg}text")
    assert text.text == words
