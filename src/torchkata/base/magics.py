"""What notebooks add to Python: magics, `!` and `?`, prompts copied with the code, a common indent."""

from __future__ import annotations


def without_magics(source: str) -> str:
    """The Python that a cell means which is none as it stands: magics, `!` and `?` are calls of get_ipython()."""
    from IPython.core.inputtransformer2 import TransformerManager  # loaded for the few cells that need it

    return TransformerManager().transform_cell(source)
