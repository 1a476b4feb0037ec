"""The pictures of chapter 04: the states agree with torch, and the drawings are readable."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
import torch

from tests import ROOT
from tests.pictures import drawn
from torchkata.pictures import backward_graph, programs, row_by_row, version_strip
from torchkata.pictures.backward_graph import PRESETS, draw_graph, graph_explorer, graph_of, graph_picture, layout
from torchkata.pictures.programs import BACKWARD, FORWARD, RETAIN, replay

SHARED = "a = torch.tensor([1., 2.], requires_grad=True)\nb = a.exp()\nc = b * b\nd = (c + b).sum()"
LIFE = "w = torch.zeros(3, requires_grad=True)\nh = w.sigmoid()\nk = h.sin()\nh.mul_(2)\nm = h.sin()"


def graph_after(program, *actions, gradient=""):
    session = replay(program, [(FORWARD,), *actions], gradient)
    return graph_of(session.root, session.tensors), session


def by_name(graph):
    return {node.name: node for node in graph.nodes if node.name}


# ---------------------------------------------------------------- the graph


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


# ---------------------------------------------------------------- running programs


def test_forward_again_keeps_leaves_and_records_anew():
    _, session = graph_after(SHARED, (BACKWARD,), (FORWARD,), (BACKWARD,))
    once, _ = graph_after(SHARED, (BACKWARD,))
    b = torch.tensor([1.0, 2.0]).exp()
    torch.testing.assert_close(session.tensors["a"].grad, 2 * (2 * b + 1) * b)
    assert session.passes == 1 and session.error is None
    assert by_name(once)["a"].grad == "filled"


def test_a_second_backward_raises_only_where_something_was_freed():
    _, kept = graph_after(SHARED, (BACKWARD,), (BACKWARD,))
    assert "a second time" in kept.error and kept.passes == 1
    _, nothing = graph_after("w = torch.ones(3, requires_grad=True)\ns = (w + 1).sum()", (BACKWARD,), (BACKWARD,))
    assert nothing.error is None and nothing.passes == 2
    assert nothing.tensors["w"].grad.tolist() == [2.0, 2.0, 2.0]


def test_retain_grad_after_backward_comes_too_late():
    graph, _ = graph_after(SHARED, (BACKWARD,), (RETAIN, "b"))
    assert by_name(graph)["b"].grad == "empty" and by_name(graph)["b"].value == "None"


def test_a_vector_for_backward():
    program = PRESETS["4.4 three outputs and a vector"][0]
    _, without = graph_after(program, (BACKWARD,))
    assert "implicitly created only for scalar outputs" in without.error
    _, session = graph_after(program, (BACKWARD,), gradient="[0, 1, 0]")
    assert session.tensors["w"].grad.tolist() == [0.0, 10.0, 0.0]
    assert "write numbers" in graph_after(program, (BACKWARD,), gradient="one")[1].error
    assert "Mismatch in shape" in graph_after(program, (BACKWARD,), gradient="1, 2")[1].error


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("w = (", "SyntaxError"),
        ("w = undefined + 1", "NameError: name 'undefined' is not defined"),
        ("w = torch.tensor([1, 2], requires_grad=True)", "floating point"),
    ],
)
def test_a_program_that_python_or_torch_refuses(program, message):
    session = replay(program, [(FORWARD,)])
    assert message in session.error and session.root is None


def test_replay_leaves_torch_alone_and_gives_the_same_each_time():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with torch.no_grad():
        sessions = [replay("w = torch.randn(3, requires_grad=True)\ny = w.sum()", [(FORWARD,)]) for _ in range(2)]
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(*(session.tensors["w"] for session in sessions))
    assert sessions[0].root is not None


def test_the_root_is_the_last_recorded_result():
    assert replay(SHARED + "\ne = d.item()", [(FORWARD,)]).root_name == "d"
    assert replay(SHARED + "\nb.tanh()", [(FORWARD,)]).root_name == ""
    assert replay(PRESETS["4.7 a write in place"][0].rpartition("\n")[0], [(FORWARD,)]).root_name == "h"


# ---------------------------------------------------------------- layers


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


def test_layout_is_by_the_longest_path():
    graph, _ = graph_after(SHARED)
    level = {item: number for number, layer in enumerate(layout(graph).layers) for item in layer}
    names = {node.name: level[node.id] for node in graph.nodes if node.name}
    assert names == {"d": 0, "c": 2, "b": 3, "a": 4}


# ---------------------------------------------------------------- versions, and a vector times a Jacobian


def test_the_life_of_a_tensor():
    life = version_strip.version_life(LIFE, "h")
    assert [step.version for step in life.statements] == [None, 0, 0, 1, 1]
    assert [step.wrote for step in life.statements] == [False, False, False, True, False]
    assert [(k.label, k.at, k.expects) for k in life.keepers] == [
        ("SigmoidBackward0", 1, 0),
        ("SinBackward0", 2, 0),
        ("SinBackward0", 4, 1),
    ]
    assert life.version == 1 and "is at version 1; expected version 0" in life.error


def test_a_harmless_write():
    life = version_strip.version_life("w = torch.ones(2, requires_grad=True)\nh = w * 2\nh.add_(1)", "h")
    assert life.version == 1 and life.keepers == () and life.error is None


def test_a_write_through_detach_counts_and_one_through_data_does_not():
    base = "w = torch.ones(2, requires_grad=True)\nh = w.exp()\n"
    assert version_strip.version_life(base + "h.detach().mul_(2)", "h").version == 1
    assert version_strip.version_life(base + "h.data.mul_(2)", "h").version == 0


def test_a_name_that_is_never_bound():
    with pytest.raises(ValueError, match="binds 'z'"):
        version_strip.version_life(LIFE, "z")


@pytest.mark.parametrize("v", [[1.0, 0.0], [0.0, 1.0], [1.0, 10.0], [0.0, 0.0]])
def test_what_backward_delivers(v):
    w = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    y = torch.stack([w[0] * w[1], w[1] + w[2] ** 2])
    jacobian = [torch.autograd.grad(y, w, torch.eye(2)[i], retain_graph=True)[0].tolist() for i in range(2)]
    state = row_by_row.vjp_state(jacobian, v)
    y.backward(torch.tensor(v))
    assert list(state.delivered) == w.grad.tolist()
    assert state.rows == tuple(i for i in range(2) if v[i])


def test_a_vector_of_another_length():
    with pytest.raises(ValueError, match="one number for each of the 2 rows"):
        row_by_row.vjp_state([[1.0], [2.0]], [1.0])


# ---------------------------------------------------------------- drawings


def gallery():
    graphs = {
        f"{name}, {r} rounds": graph_picture(p, r, gradient=v) for name, (p, v) in PRESETS.items() for r in (0, 1)
    }
    return graphs | {
        "retained": graph_picture(PRESETS["4.3 an intermediate result"][0], 2, ("B",)),
        "a long title": draw_graph(
            graph_of(torch.ones(1, requires_grad=True) * 2, {}),
            "w = 2",
            "Backward graph of loss, forward 10 times, then backward 10 times through this graph",
        ),
        "no graph": graph_picture("x = torch.ones(2)\ny = x * 2"),
        "refused": graph_picture("x = torch.ones(2, requires_grad=True)\nx.add_(1)"),
        "too large": graph_picture("w = torch.ones(1, requires_grad=True)\nfor _ in range(40):\n    w = w + 1"),
        "many leaves": graph_picture(
            "m = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))\nloss = m(torch.ones(4, 2)).pow(2).mean()",
            1,
        ),
        "life": version_strip.version_strip(LIFE, "h"),
        "harmless": version_strip.version_strip("w = torch.ones(2, requires_grad=True)\nh = w * 2\nh.add_(1)", "h"),
        "one row": row_by_row.row_by_row([[3.0, 2.0, 0.0], [0.0, 1.0, 8.0]], [0.0, 1.0]),
        "a mix of rows": row_by_row.row_by_row([[3.0, 2.0], [0.0, 1.0], [-2.0, 1.5]], [1.0, 0.0, 10.0]),
    }


GALLERY = gallery()

FINGERPRINT = """
import hashlib, sys
sys.path.insert(0, {root!r})
from matplotlib import rcParams
rcParams.update({{"font.size": 20, "lines.linewidth": 5, "patch.linewidth": 5, "lines.linestyle": ":"}})
from tests.pictures.test_04 import GALLERY
print(hashlib.sha256("".join(picture.svg + picture.alt for picture in GALLERY.values()).encode()).hexdigest())
"""


def test_another_process_with_other_settings_draws_the_same_bytes():
    script = FINGERPRINT.format(root=str(ROOT))
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    here = hashlib.sha256("".join(picture.svg + picture.alt for picture in GALLERY.values()).encode()).hexdigest()
    assert run.stdout.strip() == here


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(GALLERY[name])


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_covered_or_outside_of_its_box(name):
    figure = GALLERY[name].figure
    texts = drawn.check_texts(figure)
    scale = figure.dpi / 72
    height = figure.bbox.y1
    for left, top, right, bottom in drawn.boxes_of(figure):
        for words, box in texts:
            middle = (height - (box.y0 + box.y1) / 2) / scale
            centre = (box.x0 + box.x1) / 2 / scale
            if top < middle < bottom and left < centre < right:
                assert box.x0 / scale >= left and box.x1 / scale <= right, f"{words!r} leaves its box"


@pytest.mark.parametrize("name", GALLERY)
def test_every_box_stands_on_the_card_and_none_on_another(name):
    drawn.check_boxes(GALLERY[name].figure)


def test_indentation_is_seen():
    assert "\u00a0\u00a0\u00a0\u00a0total = total" in GALLERY["4.5 a total that grows, 0 rounds"].svg


# ---------------------------------------------------------------- the explorer


def test_buttons_record_and_walk():
    explorer = graph_explorer()
    controls = explorer.controls
    assert drawn.shown(explorer).startswith("<svg") and ".grad None" in explorer.alt
    assert not controls["backward"].disabled and controls["backward again"].disabled
    controls["backward"].click()
    assert ".grad [10, 20, 30]" in explorer.alt
    assert controls["backward"].disabled and not controls["backward again"].disabled
    controls["backward again"].click()
    assert "Trying to backward through the graph a second time" in explorer.alt
    controls["forward"].click()
    assert "a second time" not in explorer.alt and ".grad [10, 20, 30]" in explorer.alt
    controls["backward"].click()
    assert ".grad [20, 40, 60]" in explorer.alt
    controls["start over"].click()
    assert ".grad None" in explorer.alt
    drawn.shown(explorer)


def test_lines_are_added_and_removed():
    explorer = graph_explorer()
    controls = explorer.controls
    before = controls["program"].value
    controls["next line"].value = "z = y.exp()"
    assert controls["program"].value == before + "\nz = y.exp()" and controls["next line"].value == ""
    assert "ExpBackward0 (backward starts here; result: z" in explorer.alt
    controls["remove last line"].click()
    assert controls["program"].value == before
    assert "Backward graph of y" in explorer.alt


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("z = y.exp(", "not added: SyntaxError"),
        ("z = nobody * 2", "not added: NameError: name 'nobody' is not defined"),
        ("w.add_(1)", "not added: RuntimeError: a leaf Variable that requires grad"),
    ],
)
def test_a_line_that_fails_is_not_added(line, message):
    explorer = graph_explorer()
    before = explorer.controls["program"].value
    explorer.controls["next line"].value = line
    assert message in explorer.alt
    assert explorer.controls["program"].value == before and explorer.controls["next line"].value == line
    explorer.controls["backward"].click()
    assert "not added" not in explorer.alt


def test_retain_grad_boxes():
    explorer = graph_explorer("4.3 an intermediate result")
    box = explorer.controls["box 0"]
    assert box.description == "retain_grad on B" and box.layout.display is None
    assert explorer.controls["box 1"].layout.display == "none"
    box.value = True
    explorer.controls["backward"].click()
    assert ".grad kept: [0.7071, 0.7071]" in explorer.alt
    explorer.controls["start over"].click()
    explorer.controls["backward"].click()
    assert ".grad kept" in explorer.alt
    box.value = False
    explorer.controls["forward"].click()
    explorer.controls["backward"].click()
    assert ".grad kept" not in explorer.alt
    box.value = True
    assert "retain_grad: .grad None" in explorer.alt


def test_unticking_before_backward_takes_the_wish_back():
    explorer = graph_explorer("4.3 an intermediate result")
    box = explorer.controls["box 0"]
    box.value = True
    box.value = False
    explorer.controls["backward"].click()
    assert ".grad kept" not in explorer.alt and "retain_grad" not in explorer.alt


@pytest.mark.parametrize("name", PRESETS)
def test_every_example_can_be_chosen(name):
    explorer = graph_explorer()
    explorer.controls["example"].value = name
    assert explorer.controls["program"].value == PRESETS[name][0]
    explorer.controls["backward"].click()
    assert ("RuntimeError" in explorer.alt) == name.startswith("4.7")
    assert ("forward once, then backward raised" in explorer.alt) == name.startswith("4.7")
    drawn.shown(explorer)


def test_another_example_forgets_the_line_that_was_refused():
    explorer = graph_explorer()
    explorer.controls["next line"].value = "z = nobody * 2"
    explorer.controls["example"].value = "4.6 detach"
    assert explorer.controls["next line"].value == "" and "not added" not in explorer.alt
    assert explorer.controls["program"].value == PRESETS["4.6 detach"][0]


@pytest.mark.parametrize("program", ["", "w = (", "x = 3", "raise SystemError('no')", "import torch"])
def test_odd_programs_are_answered(program):
    explorer = graph_explorer()
    explorer.controls["program"].value = program
    for button in ("forward", "backward", "backward again", "remove last line", "start over"):
        explorer.controls[button].click()
    assert explorer.alt
    drawn.shown(explorer)


def test_every_control_has_a_description():
    assert all(control.description for control in graph_explorer().controls.values())


def test_unknown_actions_are_told():
    assert "none of forward, retain, backward" in replay(SHARED, [("sideways",)]).error
    assert programs.one_line(ValueError("")) == "ValueError"
    assert backward_graph.MAX_NODES >= 20
