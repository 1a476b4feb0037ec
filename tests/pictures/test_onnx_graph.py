"""The drawn graph is that of the model."""

import pytest

from tests.pictures import drawn

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from torchkata.pictures import onnx_models
from torchkata.pictures.onnx_graph import INPUT, OUTPUT, Edge, graph_layout, graph_picture
from torchkata.pictures.onnx_models import exported

LINEAR, CNN, BRANCH, VIEW, LOOP = onnx_models.SAMPLES


def layout_of(sample, batch=True, time=False):
    return graph_layout(exported(sample, batch, time).proto)


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
    drawn.check_texts(drawing.canvas)
    drawn.check_boxes(drawing.canvas)


def test_a_graph_that_is_too_large_is_refused():
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("t0", "t30")]
    chain = [helper.make_node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(30)]
    with pytest.raises(ValueError, match="32 nodes"):
        graph_picture(helper.make_model(helper.make_graph(chain, "chain", ends[:1], ends[1:])), "A chain")


GALLERY = drawn.Gallery({"cnn": lambda: graph_picture(exported(CNN, True, False).proto, "A network")})


class TestLook(drawn.Look):
    gallery = GALLERY
