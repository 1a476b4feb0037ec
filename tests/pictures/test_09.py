"""The pictures of chapter 09: graphs agree with their models, runs with PyTorch, and the drawings are readable."""

import warnings

import pytest
import torch

from tests.pictures import drawn

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from torchkata.pictures import onnx_models
from torchkata.pictures.onnx_graph import INPUT, OUTPUT, Edge, graph_layout, graph_picture
from torchkata.pictures.onnx_models import DIFFERENT, EQUAL, REFUSED, compare, exported, onnx_explorer, onnx_picture

LINEAR, CNN, BRANCH, VIEW, LOOP = onnx_models.SAMPLES


def layout_of(sample, batch=True, time=False):
    return graph_layout(exported(sample, batch, time).proto)


# ---------------------------------------------------------------- the graph


@pytest.mark.parametrize("sample", onnx_models.SAMPLES)
def test_every_node_and_weight_of_the_model_is_there_and_edges_lead_on(sample):
    proto, layout = exported(sample, True, False).proto, layout_of(sample)
    layers = {node.id: node.layer for node in layout.nodes}
    operators = [node for node in layout.nodes if node.op not in (INPUT, OUTPUT)]
    assert [node.op for node in operators] == [node.op_type for node in proto.graph.node]
    assert {name for node in operators for name, _ in node.initializers} == {w.name for w in proto.graph.initializer}
    assert layout.edges and all(layers[edge.src] < layers[edge.dst] for edge in layout.edges)
    assert [node.layer for node in layout.nodes if node.op == INPUT] == [0]
    assert [node.layer for node in layout.nodes if node.op == OUTPUT] == [max(layers.values())]


def test_batch_norm_is_gone_and_the_batch_travels_through():
    layout = layout_of(CNN)
    assert [node.op for node in layout.nodes] == [INPUT, "Conv", "Relu", "Reshape", "Gemm", OUTPUT]
    assert [edge.shape for edge in layout.edges] == [
        "batch×1×8×8",
        "batch×4×6×6",
        "batch×4×6×6",
        "batch×144",
        "batch×2",
    ]
    assert layout.nodes[1].initializers == (("0.weight", "4×1×3×3"), ("0.bias", "4"))
    assert [sizes for _, sizes in layout.nodes[3].initializers] == ["= -1, 144"]


def test_fixed_sizes_are_numbers_and_formulas_stay():
    assert [edge.shape for edge in layout_of(LINEAR, batch=False).edges] == ["4×3", "4×2"]
    assert layout_of(VIEW).edges[-1].shape == "4×(3*batch)//2"
    assert [sizes for _, sizes in layout_of(VIEW).nodes[1].initializers] == ["= 4, -1"]
    assert [sizes for _, sizes in layout_of(BRANCH).nodes[1].initializers] == ["= 2"]


def test_a_hand_made_graph_with_a_constant_two_readers_and_a_scalar():
    from onnx import TensorProto, helper

    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["c"], value=one),
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Neg", ["a"], ["b"]),
            helper.make_node("Add", ["b", "c"], ["d"]),
            helper.make_node("Mul", ["d", "d"], ["y"]),
        ],
        "small",
        [info("x", ["n"])],
        [info("y", ["n"]), info("a", ["n"])],
        value_info=[info("c", [])],
    )
    model = helper.make_model(graph)
    layout = graph_layout(model)
    layers = {node.op: node.layer for node in layout.nodes if node.op != OUTPUT}
    assert layers == {INPUT: 0, "Relu": 1, "Neg": 2, "Constant": 2, "Add": 3, "Mul": 4}
    assert {node.layer for node in layout.nodes if node.op == OUTPUT} == {5}
    assert sum(edge.tensor == "d" for edge in layout.edges) == 1  # read twice by one node: one arrow
    assert Edge("0 Constant", "3 Add", "c", "1 number") in layout.edges
    drawing = graph_picture(model, "A small graph")
    drawn.check_texts(drawing.figure)
    drawn.check_boxes(drawing.figure)


# ---------------------------------------------------------------- what is run


def test_the_branch_is_wrong_for_one_and_two_rows_only():
    verdicts = [compare(BRANCH, True, False, rows, 1).verdict for rows in range(1, onnx_models.LARGEST + 1)]
    assert verdicts == [DIFFERENT] * 2 + [EQUAL] * (onnx_models.LARGEST - 2)
    assert compare(BRANCH, True, False, 2, 1)[1:3] == ("shape (2, 1): 3, 6", "shape (2, 1): 2, 4")


@pytest.mark.parametrize("sample", [LINEAR, CNN])
def test_a_dynamic_batch_is_right_for_every_size_and_a_fixed_one_is_refused(sample):
    for rows in range(1, onnx_models.LARGEST + 1):
        assert compare(sample, True, False, rows, 1).verdict == EQUAL
        outcome = compare(sample, False, False, rows, 1)
        assert outcome.verdict == (EQUAL if rows == 4 else REFUSED)
    assert outcome.runtime.startswith("InvalidArgument: Got invalid dimensions")


def test_view_with_a_number_refuses_in_both_or_gives_four_rows():
    refused = compare(VIEW, True, False, 1, 1)
    assert refused.verdict == REFUSED and refused.pytorch.startswith("RuntimeError: shape '[4, -1]' is invalid")
    for rows in (2, 4, 8):
        outcome = compare(VIEW, True, False, rows, 1)
        assert outcome.verdict == EQUAL and outcome.runtime.startswith("shape (4, ")


def test_the_loop_keeps_its_three_steps():
    assert compare(LOOP, True, False, 7, 3).verdict == EQUAL
    assert [compare(LOOP, True, False, 2, steps).verdict for steps in (2, 4)] == [REFUSED, REFUSED]
    export = exported(LOOP, True, True)
    assert export.proto is None and "static shape of 3" in export.refusal
    assert compare(LOOP, True, True, 2, 4)[2:] == ("there is no file", REFUSED)


def test_only_large_weights_go_outside():
    assert exported(CNN, True, False).outside == (1, 2 * 144 * 4)
    assert exported(LINEAR, True, False).outside == (0, 0)
    assert "model.onnx.data with 1 of its weights, 1152 bytes" in onnx_picture(CNN).alt
    assert "model.onnx.data" not in onnx_picture(CNN, external=False).alt


def test_nothing_is_left_behind():
    exported.cache_clear()
    onnx_models.model_of.cache_clear()
    torch.manual_seed(3)
    before, filters = torch.get_rng_state(), list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught, torch.device("meta"):
        warnings.simplefilter("always")
        assert compare(LINEAR, True, False, 3, 1).verdict == EQUAL
    assert not caught
    assert torch.equal(torch.get_rng_state(), before)
    assert warnings.filters == filters


# ---------------------------------------------------------------- the drawing


CASES = {
    "linear": (LINEAR,),
    "cnn, one file": (CNN, True, False, False, 3),
    "branch": (BRANCH,),
    "view refused": (VIEW, True, False, True, 1),
    "view": (VIEW, True, False, True, 8),
    "loop": (LOOP,),
    "loop, other length": (LOOP, True, False, True, 2, 8),
    "loop, dynamic time": (LOOP, True, True),
    "fixed": (LINEAR, False),
}


@pytest.mark.parametrize("case", CASES)
def test_the_drawing_is_readable(case):
    picture = onnx_picture(*CASES[case])
    drawn.check_svg(picture)
    drawn.check_texts(picture.figure)
    drawn.check_boxes(picture.figure)
    assert picture.svg == onnx_picture(*CASES[case]).svg


def test_the_card_says_the_verdict_in_words():
    words = onnx_picture(BRANCH, rows=2).alt
    assert "PyTorch: shape (2, 1): 3, 6; onnxruntime: shape (2, 1): 2, 4. DIFFERENT, and no error." in words
    assert "Mul reads x (batch×1) from x" in words


def test_a_graph_that_is_too_large_is_refused():
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("t0", "t30")]
    chain = [helper.make_node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(30)]
    with pytest.raises(ValueError, match="32 nodes"):
        graph_picture(helper.make_model(helper.make_graph(chain, "chain", ends[:1], ends[1:])), "A chain")


def test_the_explorer_follows_its_controls():
    explorer = onnx_explorer()
    assert "DIFFERENT" in drawn.shown(explorer)
    assert explorer.controls["steps"].disabled and explorer.controls["dynamic time"].disabled
    explorer.controls["rows"].value = 3
    assert "DIFFERENT" not in drawn.shown(explorer) and "(3, 1)" in explorer.alt
    explorer.controls["dynamic time"].value = True  # the branch has no time
    assert "dynamic: batch." in explorer.alt
    explorer.controls["model"].value = LOOP
    assert not explorer.controls["steps"].disabled
    assert "The export is refused" in explorer.alt
    explorer.controls["dynamic time"].value = False
    explorer.controls["steps"].value = 5
    assert "(3, 5)" in explorer.alt and "Refused" in explorer.alt
    explorer.controls["model"].value = CNN
    explorer.controls["external data"].value = False
    assert "with all weights" in explorer.alt
