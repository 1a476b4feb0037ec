"""What notebooks add to Python: magics, `!` and `?`."""

from __future__ import annotations


def without_magics(source: str) -> str:
    """A cell's source in which magics, `!` and `?` are calls of get_ipython(); as it is where it holds none."""
    from IPython.core.inputtransformer2 import TransformerManager  # loaded for the few cells that need it

    changed = TransformerManager().transform_cell(source)
    return changed if "get_ipython()" in changed else source
