"""The collection of facts: what people say about each topic of the course, judged by running code.

folklore("03_gather_scatter")       the closing table of a chapter
prove("03-gather-index-formula")    run one fact's proof
load("03_gather_scatter")           the facts themselves
"""

from torchkata.facts.collection import Fact, FactError, chapter_names, find, load
from torchkata.facts.proof import prove
from torchkata.facts.table import folklore

__all__ = ["Fact", "FactError", "chapter_names", "find", "folklore", "load", "prove"]
