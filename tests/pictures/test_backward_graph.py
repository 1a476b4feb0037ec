"""The graph agrees with what autograd recorded; its layers; the explorer."""

from collections import Counter
from functools import partial
from itertools import pairwise

import pytest
import torch

from tests.pictures import drawn
from tests.pictures.recorded import SHARED, by_name, graph_after
from torchkata.pictures.backward_graph import graph_explorer, graph_of, graph_picture
from torchkata.pictures.backward_graph.drawing import MAX_NODES, draw_graph
from torchkata.pictures.backward_graph.explorer import PRESETS
from torchkata.pictures.backward_graph.layout import layout
from torchkata.pictures.programs import BACKWARD, RETAIN


def test_one_weight_one_input():
    graph, _ = graph_after(PRESETS["4.1 one weight, one input"][0])
    assert [node.label for node in graph.nodes] == ["SumBackward0", "AddBackward0", "MulBackward0", "AccumulateGrad"]
    assert [node.kind for node in graph.nodes] == ["root", "op", "op", "leaf"]
    assert graph.edges == ((0, 1), (1, 2), (2, 3))
    assert graph.unrecorded == ("x",) and graph.unreached == ()
    assert graph.nodes[2].keeps == ("x",) and graph.nodes[3].grad == "empty"


def test_a_shared_result_is_one_node_with_several_edges():
    graph, _ = graph_after(SHARED)
    assert Counter(node.label for node in graph.nodes)["ExpBackward0"] == 1
    ends = Counter(end for _, end in graph.edges)
    assert ends[by_name(graph)["b"].id] == 3
    assert by_name(graph)["b"].keeps == ("its result",)
    assert by_name(graph)["c"].keeps == ("b",)


def test_gradients_before_and_after_backward():
    before, _ = graph_after(SHARED, (RETAIN, "b"))
    after, session = graph_after(SHARED, (RETAIN, "b"), (BACKWARD,))
    assert by_name(before)["b"].grad == by_name(before)["a"].grad == "empty"
    assert by_name(after)["b"].grad == "kept" and by_name(after)["a"].grad == "filled"
    assert by_name(after)["c"].grad == "empty" and by_name(after)["c"].value == ""
    b = torch.tensor([1.0, 2.0]).exp()
    torch.testing.assert_close(session.tensors["b"].grad, 2 * b + 1)
    torch.testing.assert_close(session.tensors["a"].grad, (2 * b + 1) * b)
    assert [node.grad for node in after.nodes if not node.name] == ["-"]
    assert by_name(after)["b"].keeps == by_name(after)["c"].keeps == ("freed",)


def test_the_walk_touches_no_gradient_and_frees_nothing():
    w = torch.ones(3, requires_grad=True)
    y = (w * w).sum()
    for _ in range(2):
        graph_of(y, {"w": w, "y": y})
    assert w.grad is None
    y.backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_untracked_and_detached_tensors_are_listed():
    graph, session = graph_after(PRESETS["4.6 detach"][0], (BACKWARD,))
    assert graph.unrecorded == ("d",) and set(graph.unreached) == {"w", "h"}
    assert session.tensors["w"].grad is None and session.tensors["v"].grad is not None


def test_a_tensor_without_a_graph_gives_no_nodes():
    leaf = torch.ones(2, requires_grad=True)
    graph = graph_of(leaf, {"leaf": leaf, "x": torch.ones(1)})
    assert graph.nodes == () and graph.edges == ()
    assert graph.unrecorded == ("x",) and graph.unreached == ("leaf",)


def test_an_overwritten_tensor_is_noticed():
    graph, _ = graph_after(PRESETS["4.7 a write in place"][0])
    assert [node.keeps for node in graph.nodes if node.label == "SigmoidBackward0"] == [("overwritten",)]
    _, session = graph_after(PRESETS["4.7 a write in place"][0], (BACKWARD,))
    assert "modified by an inplace operation" in session.error and session.passes == 0


def test_parameters_and_views_have_names():
    graph, _ = graph_after(PRESETS["4.3 a layer"][0])
    assert {node.name for node in graph.nodes if node.kind == "leaf"} == {"layer.weight", "layer.bias", "x"}
    keeps = next(node.keeps for node in graph.nodes if node.label == "AddmmBackward0")
    assert set(keeps) == {"x", "a view of layer.weight"}


@pytest.mark.parametrize("name", PRESETS)
def test_every_edge_leads_down_one_layer_at_a_time(name):
    program, gradient = PRESETS[name]
    graph, _ = graph_after(program, gradient=gradient)
    plan = layout(graph)
    level = {item: number for number, layer in enumerate(plan.layers) for item in layer}
    assert sorted(item for layer in plan.layers for item in layer if isinstance(item, int)) == [
        node.id for node in graph.nodes
    ]
    for (start, end), stops in zip(graph.edges, plan.routes, strict=True):
        for one, two in pairwise([start, *stops, end]):
            assert level[two] == level[one] + 1


def test_there_is_room_for_the_graphs_of_the_chapter():
    assert MAX_NODES >= 20


def test_layout_is_by_the_longest_path():
    graph, _ = graph_after(SHARED)
    level = {item: number for number, layer in enumerate(layout(graph).layers) for item in layer}
    names = {node.name: level[node.id] for node in graph.nodes if node.name}
    assert names == {"d": 0, "c": 2, "b": 3, "a": 4}


def a_long_title():
    graph = graph_of(torch.ones(1, requires_grad=True) * 2, {})
    title = "Backward graph of loss, forward 10 times, then backward 10 times through this graph"
    return draw_graph(graph, "w = 2", title)


LEAVES = "m = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))\nloss = m(torch.ones(4, 2)).pow(2).mean()"
LARGE = "w = torch.ones(1, requires_grad=True)\nfor _ in range(40):\n    w = w + 1"
GALLERY = drawn.Gallery(
    {
        f"{name}, {rounds} rounds": partial(graph_picture, program, rounds, gradient=vector)
        for name, (program, vector) in PRESETS.items()
        for rounds in (0, 1)
    }
    | {
        "retained": partial(graph_picture, PRESETS["4.3 an intermediate result"][0], 2, ("B",)),
        "a long title": a_long_title,
        "no graph": partial(graph_picture, "x = torch.ones(2)\ny = x * 2"),
        "refused": partial(graph_picture, "x = torch.ones(2, requires_grad=True)\nx.add_(1)"),
        "too large": partial(graph_picture, LARGE),
        "many leaves": partial(graph_picture, LEAVES, 1),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True


def test_indentation_is_seen():
    assert "\u00a0\u00a0\u00a0\u00a0total = total" in GALLERY["4.5 a total that grows, 0 rounds"].svg


def test_buttons_record_and_walk():
    player = drawn.Player(graph_explorer())
    assert ".grad None" in player.shown.alt
    assert ".grad [10, 20, 30]" in player.press("backward", "on").alt
    assert "Trying to backward through the graph a second time" in player.press("backward", "on").alt
    anew = player.press("forward", "on").alt
    assert "a second time" not in anew and ".grad [10, 20, 30]" in anew and "forward twice: a new graph" in anew
    assert ".grad [20, 40, 60]" in player.press("backward", "on").alt
    assert "Nothing has run yet: press forward" in player.press("forward", "anew").alt
    assert player.press("forward", "on").svg == graph_explorer().svg


def test_a_round_begins_only_after_a_backward():
    player = drawn.Player(graph_explorer())
    before = player.shown.svg
    assert player.press("forward", "on").svg == before
    player.press("forward", "anew")
    nothing = player.shown.svg
    assert player.press("backward", "on").svg == nothing and player.says("backward") == 0


def test_where_nothing_is_kept_backward_can_go_on():
    player = drawn.Player(graph_explorer("4.5 nothing kept: backward twice"))
    player.press("backward", "on")
    assert ".grad [2, 2, 2]" in player.press("backward", "on").alt
    limits = player.explorer.frame(player.state).limits
    assert limits[list(player.explorer.controls).index("forward")] == 1
    assert ".grad [3, 3, 3]" in player.press("backward", "on").alt


@pytest.mark.parametrize(
    ("control", "value"),
    [
        ("example", "4.6 detach"),
        ("program", "w = torch.ones(2, requires_grad=True)\ny = w * 2"),
        ("left out", 1),
        ("next line", "z = y * 2"),
        ("gradient", "1"),
        ("retain_grad", "y"),
    ],
)
def test_other_lines_start_anew(control, value):
    player = drawn.Player(graph_explorer())
    for name in ("backward", "forward", "backward"):
        player.press(name, "on")
    player.set(control, value)
    assert (player.says("forward"), player.says("backward")) == (1, 0)


def test_lines_are_added_and_removed():
    player = drawn.Player(graph_explorer())
    before = player.shown.svg
    added = player.set("next line", "z = y.exp()")
    assert "ExpBackward0 (backward starts here; result: z" in added.alt and "; z = y.exp()." in added.alt
    assert player.set("next line", "").svg == before
    assert player.press("left out", "on").alt.count("No line gives a tensor with a grad_fn.")
    for _ in range(3):
        player.press("left out", "on")
    assert player.says("left out") == 3
    for _ in range(3):
        player.press("left out", "back")
    assert player.shown.svg == before


def test_a_next_line_takes_the_place_of_the_removed_one():
    player = drawn.Player(graph_explorer())
    player.press("left out", "on")
    replaced = player.set("next line", "y = (w * w).sum()").alt
    assert "requires_grad=True); x = torch.tensor([10., 20., 30.]); y = (w * w).sum()." in replaced
    player.set("program", "w = torch.ones(2, requires_grad=True)")
    assert player.says("left out") == 0 and "(w * w).sum()" in player.shown.alt


def test_several_statements_can_stand_in_a_line():
    player = drawn.Player(graph_explorer())
    assert "result: u" in player.set("next line", "z = y.exp(); u = z * z").alt


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("z = y.exp(", "not added: SyntaxError"),
        ("z = nobody * 2", "not added: NameError: name 'nobody' is not defined"),
        ("w.add_(1)", "not added: RuntimeError: a leaf Variable that requires grad"),
    ],
)
def test_a_line_that_fails_is_not_added(line, message):
    player = drawn.Player(graph_explorer())
    before = player.shown
    refused = player.set("next line", line)
    assert message in refused.alt and "Backward graph of y" in refused.alt
    walked = player.press("backward", "on").alt
    assert ".grad [10, 20, 30]" in walked and message in walked
    assert player.set("next line", "").svg == before.svg


def test_retain_grad():
    player = drawn.Player(graph_explorer("4.3 an intermediate result"))
    assert "retain_grad: .grad None" in player.set("retain_grad", "B").alt
    assert ".grad kept: [0.7071, 0.7071]" in player.press("backward", "on").alt
    player.press("forward", "on")
    assert "retain_grad: .grad None" in player.shown.alt
    assert ".grad kept" in player.press("backward", "on").alt
    player.set("retain_grad", "")
    plain = player.press("backward", "on").alt
    assert ".grad kept" not in plain and "retain_grad" not in plain


def test_retain_grad_of_several():
    player = drawn.Player(graph_explorer("4.1 a result that is used twice"))
    player.set("retain_grad", "b, c")
    assert player.press("backward", "on").alt.count(".grad kept") == 2


@pytest.mark.parametrize("names", ["nobody", "A", "B, nobody"])
def test_retain_grad_needs_results(names):
    player = drawn.Player(graph_explorer("4.3 an intermediate result"))
    assert "is not a result with a grad_fn; the results are: B, C." in player.set("retain_grad", names).alt


@pytest.mark.parametrize("name", PRESETS)
def test_every_example_can_be_chosen(name):
    player = drawn.Player(graph_explorer())
    player.set("example", name)
    assert (player.says("program"), player.says("gradient")) == PRESETS[name]
    walked = player.press("backward", "on").alt
    assert ("RuntimeError" in walked) == name.startswith("4.7")
    assert ("forward once, then backward raised" in walked) == name.startswith("4.7")


def test_another_example_forgets_what_was_written():
    player = drawn.Player(graph_explorer())
    player.set("retain_grad", "y")
    player.set("next line", "z = nobody * 2")
    player.press("left out", "on")
    shown = player.set("example", "4.6 detach")
    assert player.says("next line") == player.says("retain_grad") == "" and player.says("left out") == 0
    assert shown.svg == graph_explorer("4.6 detach").svg


@pytest.mark.parametrize("program", ["", "w = (", "x = 3", "raise SystemError('no')", "import torch"])
def test_odd_programs_are_answered(program):
    player = drawn.Player(graph_explorer())
    player.set("program", program)
    for name, button in (("backward", "on"), ("forward", "on"), ("left out", "on"), ("forward", "anew")):
        shown = player.press(name, button)
        assert shown.alt
        drawn.check_svg(shown)
        drawn.check_texts(shown.canvas)


@pytest.mark.parametrize("example", [next(iter(PRESETS)), "4.5 a total that grows"])
def test_the_explorer_keeps_what_every_explorer_keeps(example):
    drawn.check_explorer(graph_explorer(example))
