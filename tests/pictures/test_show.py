"""How a picture or an explorer reaches the notebook."""

import json
import re
from urllib.parse import unquote

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from torchkata.pictures import cuts, image, index_steps, page, show
from torchkata.pictures.attention_map import attention_explorer
from torchkata.pictures.packing import spec_in, unpack
from torchkata.pictures.ring import ring_stepper
from torchkata.pictures.style import DARK


def test_outside_of_a_notebook_the_words_are_printed(capsys):
    picture = index_steps.collision_map([[0, 1, 1, 1], [2, 0, 0, 4]], 1, (3, 5))
    picture._ipython_display_()
    ring_stepper()._ipython_display_()
    assert capsys.readouterr().out.splitlines() == [picture.alt, ring_stepper().alt]


SMALL = '<svg>\n<rect x="0" y="0" width="9" height="9" fill="#fcfcf9"/>\n</svg>'
CELLS = (
    "from torchkata.pictures.ring import ring_stepper\nring_stepper()",
    "from torchkata.pictures.cuts import cut_ruler\ncut_ruler(8, ['split(3)'])",
    "import torch\nfrom torchkata.pictures.bins import three_bins\nthree_bins(torch.arange(12.0).reshape(3, 4))",
    "from torchkata.pictures.attention_map import attention_explorer\nattention_explorer()",
)


@pytest.fixture(scope="module")
def notebook():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, timeout=120, store_widget_state=False).execute()
    return notebook


def test_an_explorer_is_one_output_that_needs_no_widget(notebook):
    for place, explorer in ((0, ring_stepper()), (3, attention_explorer())):
        (output,) = notebook.cells[place].outputs
        assert set(output.data) == {show.HTML, "text/plain"} and output.metadata == {}
        assert output.data["text/plain"] == explorer.alt
        assert image.svg_in(output.data[show.HTML]) == image.slim(explorer.svg)


def test_an_explorer_brings_its_controls_and_all_frames(notebook):
    shown = notebook.cells[0].outputs[0].data[show.HTML]
    explorer = ring_stepper()
    packed = re.search(r'class="tk-frames">(.*?)</script>', shown)[1]
    assert spec_in(packed)["start"] == [2, 0] and spec_in(packed) == json.loads(json.dumps(explorer.spec()))
    assert unpack(packed) == explorer.frames()


def test_a_picture_brings_its_words_and_the_script_that_puts_it_into_the_page(notebook):
    (picture,) = notebook.cells[1].outputs
    expected = cuts.cut_ruler(8, ["split(3)"])
    assert picture.data["text/plain"] == expected.alt
    assert picture.data[show.HTML] == page.picture_html(expected.svg, expected.alt)[0]
    assert "tk-frames" not in picture.data[show.HTML]


def test_a_static_page_has_the_picture_and_its_words_where_no_script_runs(notebook):
    exported, _ = HTMLExporter().from_notebook_node(notebook)
    without = re.sub(r"<script.*?</script>", "", exported, flags=re.S)
    soup = BeautifulSoup(without, "html.parser")
    shown = soup.find("img", alt=ring_stepper().alt)
    assert unquote(shown["src"].partition(",")[2]).replace("'", '"') == image.slim(ring_stepper().svg)
    assert "widget-view+json" not in exported.split("<body", 1)[1]


def test_a_page_needs_nothing_from_elsewhere():
    for text in (page.loader(), page.still_script(), page.explorer_script()):
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        assert "</script" not in text  # it would end the script


def test_controls_take_their_colours_by_their_places_in_the_list_of_dark_ones():
    colours = list(DARK)
    used = re.findall(r"var\(--tk-(\d+), ?(#\w+)\)", page.still_style() + page.explorer_style())
    assert len(used) > 10
    assert {colour for place, colour in used if colours[int(place)] != colour} == set()


def test_the_name_of_a_picture_on_its_page_is_that_of_its_content():
    one, again = (page.picture_html(SMALL, "words", "abc") for _ in range(2))
    other = page.picture_html(SMALL, "words", "abd")
    assert one == again and one[1] != other[1]
    assert f'data-id="{one[1]}"' in one[0]
