"""What the pictures look like and how they reach the notebook."""

import base64
import hashlib
import html
import os
import subprocess
import sys

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from tests import ROOT
from tests.pictures import drawn
from torchkata.pictures import cuts, index_steps, kit, nucleus, show, strides, style


def draw_call(call, done):
    return index_steps.draw_steps(call.op, call.dim, call.index, call.other_shape, done, call.source_shape)


def gallery():
    """Return one picture of every kind, and the awkward ones: refused calls, sharing, many dimensions."""
    x = torch.arange(12).reshape(3, 4)
    copied = (("t",), ("contiguous",), ("expand", 2, -1, -1))
    long_row, many = (("reshape", -1),), (("expand", 50, -1, -1), ("clone",), ("contiguous",))
    empty = (("slice", slice(4, None)), ("clone",))
    refused = (("unfold", 1, 2, 1), ("view", -1))
    steps = {name: draw_call(call, 2) for name, call in index_steps.PRESETS.items()}
    cut_calls = ["split(3)", "tensor_split(3)", "split([2, 3])", "tensor_split([2, 20])", "chunk(6)"]
    return {
        "strip": strides.draw_strip({"x": x, "x.t()": x.t(), "x[1:]": x[1:], "x[:1].expand(3, 4)": x[:1].expand(3, 4)}),
        "base": strides.draw_state(strides.view_state((4, 6), ()), (), 0),
        "scalar": strides.draw_state(strides.view_state((1,), (("select", 0, 0),)), (("select", 0, 0),), 0),
        "copy": strides.draw_state(strides.view_state((3, 4), copied), copied, 5),
        "refused view": strides.draw_state(strides.view_state((4, 6, 2), refused), refused, 3),
        "long row": strides.draw_state(strides.view_state((4, 6, 2), long_row), long_row, 47),
        "many elements": strides.draw_state(strides.view_state((4, 6), many), many, 90),
        "no elements": strides.draw_state(strides.view_state((4, 6), empty), empty, 0),
        "cuts of 8": cuts.cut_ruler(8, cut_calls),
        "cuts of 10": cuts.cut_ruler(10, cut_calls),
        "nucleus": nucleus.sort_decide_put_back([0.1, 0.35, 0.05, 0.3, 0.2], 0.7),
        "collisions": index_steps.collision_map([[0, 1, 1, 1], [2, 0, 0, 4]], 1, (3, 5)),
        "three dimensions": index_steps.draw_steps("gather", 1, [[[0, 1], [1, 0]]] * 2, (2, 3, 4), 3),
        **steps,
    }


GALLERY = gallery()

FINGERPRINT = """
import hashlib, sys
sys.path.insert(0, {root!r})
{before}
from tests.pictures.test_drawing import GALLERY
print(hashlib.sha256("".join(picture.svg for picture in GALLERY.values()).encode()).hexdigest())
"""


OWN_SETTINGS = """
from matplotlib import rcParams
rcParams.update({"font.size": 20, "font.family": "monospace", "lines.linewidth": 5, "patch.linewidth": 5})
rcParams.update({"savefig.facecolor": "red", "savefig.bbox": "tight", "svg.fonttype": "path", "svg.hashsalt": "x"})
"""


@pytest.mark.parametrize(
    "before",
    ["", OWN_SETTINGS],
    ids=["as it is", "with the learner's own settings"],
)
def test_another_process_draws_the_same_bytes(before):
    script = FINGERPRINT.format(root=str(ROOT), before=before)
    seed = {"PYTHONHASHSEED": "7"}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | seed, check=True
    )
    here = hashlib.sha256("".join(picture.svg for picture in GALLERY.values()).encode()).hexdigest()
    assert run.stdout.strip() == here


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(GALLERY[name])


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_or_covered_by_another(name):
    drawn.check_texts(GALLERY[name].figure)


@pytest.mark.parametrize("name", GALLERY)
def test_every_cell_stands_on_the_card_and_none_on_another(name):
    drawn.check_boxes(GALLERY[name].figure)


@pytest.mark.parametrize(
    "spoil, kept",
    [
        (lambda card: card.text(95, 50, "cut off at the right"), drawn.check_texts),
        (lambda card: card.text(12, 41, "covers the other"), drawn.check_texts),
        (lambda card: card.cells([kit.Cell(90, 60, "off")]), drawn.check_boxes),
        (lambda card: card.cells([kit.Cell(20, 64, "on it")]), drawn.check_boxes),
    ],
)
def test_a_spoiled_picture_is_noticed(spoil, kept):
    card = kit.Canvas(110, 100)
    card.text(10, 40, "some words")
    card.cells([kit.Cell(10, 60, "1")])
    kept(card.figure)
    spoil(card)
    with pytest.raises(AssertionError):
        kept(card.figure)


def contrast(one, two):
    """Return the contrast of two colours as WCAG defines it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


def test_text_stands_out_from_what_is_behind_it():
    fills = (*style.FILLS, style.BLANK, style.UNUSED, style.CARD)
    pairs = [(style.INK, fill) for fill in fills] + [(style.SOFT_INK, style.CARD), (style.ERROR_INK, style.CARD)]
    assert min(contrast(*pair) for pair in pairs) >= 4.5


def test_draw_strip_refuses_tensors_of_two_storages():
    x = torch.arange(4)
    with pytest.raises(ValueError, match="share one storage"):
        strides.draw_strip({"x": x, "y": x.clone()})


def test_collision_map_refuses_with_torchs_words():
    with pytest.raises(ValueError, match="index 5 is out of bounds"):
        index_steps.collision_map(torch.tensor([[5]]), 1, (1, 3))


def test_strides_explorer_shows_what_its_controls_say():
    explorer = strides.strides_explorer()
    controls = explorer.controls
    controls["size 0"].value = 4
    controls["operation 1"].value = "t"
    controls["operation 2"].value = "slice"
    controls["arguments 2"].value = "1:, ::3"
    for _ in range(3):
        controls["next element"].click()
    controls["back"].click()
    ops = (("t",), ("slice", slice(1, None), slice(None, None, 3)))
    expected = strides.draw_state(strides.view_state((4, 4), ops), ops, 2)
    assert drawn.shown(explorer) == expected.svg
    assert explorer.alt == expected.alt
    assert "x.t()[1:, ::3] has shape (3, 2), stride (1, 12) and offset 1" in expected.alt


def test_strides_explorer_walks_round_and_starts_again():
    explorer = strides.strides_explorer()
    explorer.controls["back"].click()
    assert "Element [2][3] lies in cell 0 + 2 * 4 + 3 * 1 = 11." in explorer.alt
    explorer.controls["next element"].click()
    explorer.controls["next element"].click()
    explorer.controls["size 2"].value = 2
    assert "Element [0][0][0] lies in cell 0" in explorer.alt


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("view", "5", "x.view(5) is refused: shape &#x27;[5]&#x27; is invalid for input of size 12"),
        ("view", "five", "arguments 1: &#x27;five&#x27; is not a whole number."),
        ("slice", "::-1", "step must be greater than zero"),
        ("slice", "0, 0, 0", "too many indices"),
        ("transpose", "", "transpose() missing 2 required positional argument"),
        ("expand", "99999999, 99999999, -1, -1", "too many to show"),
        ("permute", "99999999999999999999", "refused"),
    ],
)
def test_strides_explorer_says_what_is_refused(operation, arguments, message):
    explorer = strides.strides_explorer()
    explorer.controls["operation 1"].value = operation
    explorer.controls["arguments 1"].value = arguments
    assert message in explorer.words.value
    drawn.shown(explorer)


def test_stepper_shows_what_its_controls_say():
    explorer = index_steps.gather_scatter_stepper()
    controls = explorer.controls
    controls["operation"].value = "scatter_"
    controls["index"].value = "[[0, 1, 1], [2, 2, 2]]"
    controls["dim"].value = 1
    controls["shape"].value = "2, 4"
    controls["src shape"].value = "2, 3"
    for _ in range(4):
        controls["step"].click()
    controls["back"].click()
    expected = index_steps.draw_steps("scatter_", 1, [[0, 1, 1], [2, 2, 2]], (2, 4), 3, (2, 3))
    assert drawn.shown(explorer) == expected.svg
    assert "self[0][1] = src[0][2]" in expected.alt and "undefined which one stays" in expected.alt
    controls["all"].click()
    assert "step 6 of 6" in explorer.alt


@pytest.mark.parametrize("name", index_steps.PRESETS)
def test_every_example_of_the_stepper_can_be_chosen(name):
    explorer = index_steps.gather_scatter_stepper()
    explorer.controls["example"].value = name
    expected = draw_call(index_steps.PRESETS[name], 0)
    assert drawn.shown(explorer) == expected.svg
    assert ("refused." in expected.alt) == name.startswith("refused")


@pytest.mark.parametrize(
    ("control", "text", "message"),
    [
        ("index", "[[0, 1", "write a table such as [[0, 1], [1, 0]]"),
        ("index", "[[0, 1], [1]]", "expected sequence of length 2 at dim 1"),
        ("index", '"word"', "write a table"),
        ("index", "{}", "write a table"),
        ("index", "", "write a table"),
        ("index", str([[0] * 50]), "at most 48 entries"),
        ("index", "[[0.5]]", "Expected dtype int32/int64"),
        ("index", "[]", "step 0 of 0"),
        ("index", "0", "refused"),
        ("shape", "3, 99", "write one to three sizes from 1 to 5"),
        ("shape", "", "write one to three sizes"),
        ("src shape", "x", "shape of src"),
    ],
)
def test_stepper_says_what_is_refused(control, text, message):
    explorer = index_steps.gather_scatter_stepper()
    explorer.controls[control].value = text
    explorer.controls["step"].click()
    assert message in html.unescape(explorer.words.value)
    drawn.shown(explorer)


def test_every_control_has_a_description():
    for explorer in (strides.strides_explorer(), index_steps.gather_scatter_stepper()):
        assert all(control.description for control in explorer.controls.values())


def test_outside_of_a_notebook_the_words_are_printed(capsys):
    picture = GALLERY["collisions"]
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
