"""Where torchkata is missing, as on Colab: what the first code cell of a released notebook says then."""

from __future__ import annotations

import re

# Later cells would all be red for the same reason: until torchkata is there, each of them prints the sentence in place
# of what it does. A cell that installs something is run.
NOTICE = """\
from importlib.util import find_spec

if not find_spec("torchkata"):  # then each cell says what to do, until it is there
    told = (
        "torchkata is not installed here. Run %pip install torchkata in a cell of its own, "
        "then this cell again."
    )
    get_ipython().input_transformers_cleanup.append(
        lambda cell: (
            cell
            if find_spec("torchkata") or "pip install" in str(cell)
            else [f"print({told!r})"]
        )
    )
    as_a_sentence = {"_render_traceback_": lambda error: [str(error)]}
    raise type("NotInstalled", (Exception,), as_a_sentence)(told)

"""


# the first lines of every release's notice, and what follows them up to an empty line
_ANY_NOTICE = re.compile(r'from importlib\.util import find_spec\n\nif not find_spec\("torchkata"\):.*?\n\n', re.S)


def with_notice(setup: str) -> str:
    """A setup cell's source as it is released."""
    return NOTICE + setup


def without_notice(source: str) -> str:
    """A cell's source as its author wrote it, whichever release's notice stands before it."""
    notice = _ANY_NOTICE.match(source)
    return source[notice.end() :] if notice else source
