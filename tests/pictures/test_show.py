"""How a picture or an explorer reaches the notebook."""

import base64

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from torchkata.pictures import cuts, index_steps, show, strides


def test_outside_of_a_notebook_the_words_are_printed(capsys):
    picture = index_steps.collision_map([[0, 1, 1, 1], [2, 0, 0, 4]], 1, (3, 5))
    show.show(picture.figure, picture.alt)
    assert capsys.readouterr().out.strip() == picture.alt


CELLS = (
    "from torchkata.pictures.strides import strides_explorer\nstrides_explorer()",
    "from torchkata.pictures.cuts import cut_ruler\ncut_ruler(8, ['split(3)'])",
    "import torch\nfrom torchkata.pictures.bins import three_bins\nthree_bins(torch.arange(12.0).reshape(3, 4))",
)


@pytest.fixture(scope="module")
def notebook():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, timeout=120, store_widget_state=False).execute()
    return notebook


def test_an_explorer_brings_widget_still_picture_and_words(notebook):
    picture, words = notebook.cells[0].outputs
    assert set(picture.data) == {show.WIDGET, show.SVG, "text/plain"}
    assert picture.data["text/plain"] == picture.metadata[show.SVG]["alt"] == strides.strides_explorer().alt
    assert words.data["text/markdown"].startswith("<details><summary>The starting picture in words</summary>x has")


def test_a_picture_brings_svg_and_words(notebook):
    picture, words = notebook.cells[1].outputs
    expected = cuts.cut_ruler(8, ["split(3)"])
    assert picture.data == {show.SVG: expected.svg, "text/plain": expected.alt}
    assert picture.metadata == {show.SVG: {"alt": expected.alt}}
    assert expected.alt in words.data["text/markdown"]


def test_a_static_page_shows_the_still_picture_of_an_explorer(notebook):
    page, _ = HTMLExporter().from_notebook_node(notebook)
    still = base64.b64encode(strides.strides_explorer().svg.encode()).decode()
    assert still in page.replace("\n", "")
    assert "The starting picture in words" in page
    assert "widget-view+json" not in page.split("<body", 1)[1]
