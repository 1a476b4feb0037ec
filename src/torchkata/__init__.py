"""A course on how PyTorch really works: what its notebooks import, and the tools behind them."""

__version__ = "0.1.0"
