"""Loading modules without the collector of garbage, which would look at all of them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """What is loaded inside stays: the collector never looks at it. Nor does it touch, and so copy, the pages that
    processes forked later share. All else that exists at the end stays, too, if it is part of a cycle."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
