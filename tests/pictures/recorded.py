"""A small program, and the graph that autograd recorded of it."""

from torchkata.pictures.backward_graph import graph_of
from torchkata.pictures.programs import FORWARD, replay

SHARED = "a = torch.tensor([1., 2.], requires_grad=True)\nb = a.exp()\nc = b * b\nd = (c + b).sum()"


def graph_after(program, *actions, gradient=""):
    session = replay(program, [(FORWARD,), *actions], gradient)
    return graph_of(session.root, session.tensors), session


def by_name(graph):
    return {node.name: node for node in graph.nodes if node.name}
