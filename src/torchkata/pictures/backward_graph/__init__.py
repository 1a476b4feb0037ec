"""The graph that autograd recorded: nodes, leaves, what is kept for backward, and where gradients are.

graph       what autograd recorded, as plain data
layout      where its boxes stand and its arrows go
drawing     the picture, and the same in words
explorer    the lines of Python whose graph is shown, and the buttons that record and walk it
"""

from torchkata.pictures.backward_graph.explorer import graph_explorer, graph_picture
from torchkata.pictures.backward_graph.graph import graph_of

__all__ = ["graph_explorer", "graph_of", "graph_picture"]
