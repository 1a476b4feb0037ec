"""Programs are run line by line, again and again, and their errors told in one line."""

import pytest
import torch

from tests.pictures.recorded import SHARED, by_name, graph_after
from torchkata.pictures import programs
from torchkata.pictures.backward_graph.explorer import PRESETS
from torchkata.pictures.programs import BACKWARD, FORWARD, RETAIN, replay


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


def test_unknown_actions_are_told():
    assert "none of forward, retain, backward" in replay(SHARED, [("sideways",)]).error
    assert programs.one_line(ValueError("")) == "ValueError"
