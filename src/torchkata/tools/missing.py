"""What is put in front of the first code cell of a released notebook: a line that says what the cell imports, and, for
places without torchkata such as Colab, what to do there."""

from __future__ import annotations

import ast
import re
import sys

WIDTH = 96  # characters of the first line, which is all that JupyterLab shows of a folded cell
OURS = "torchkata"

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
_ANY_NOTICE = re.compile(
    r'(?:# Run this first.*\n)?from importlib\.util import find_spec\n\nif not find_spec\("torchkata"\):.*?\n\n', re.S
)


def with_notice(setup: str) -> str:
    """A setup cell's source as it is released."""
    return f"{imports_told(setup)}\n{NOTICE}{setup}"


def imports_told(setup: str) -> str:
    """A comment of one line that says what a setup cell imports, torch's names first; the course's own are left out."""
    names = imported_names(setup)
    if not names:
        return "# Run this first. It loads what this page needs."
    for shown in range(len(names), 0, -1):
        listed = [*names[:shown], f"{len(names) - shown} more"] if shown < len(names) else names
        line = f"# Run this first. It imports {_in_words(listed)}."
        if len(line) <= WIDTH:
            return line
    raise ValueError(f"the name {names[0]} is too long for one line")


def imported_names(setup: str) -> list[str]:
    """The names that a cell imports, those of torch first, then those of other packages, then Python's own."""
    found: list[tuple[int, str]] = []
    for node in ast.parse(setup).body:
        if isinstance(node, ast.Import):
            found += [(_rank(one.name), one.asname or one.name.partition(".")[0]) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(_rank(node.module or ""), one.asname or one.name) for one in node.names]
    shown = sorted((one for one in found if one[0] < 3), key=lambda one: one[0])
    return list(dict.fromkeys(name for _, name in shown))


def _rank(module: str) -> int:
    package = module.partition(".")[0]
    if package == OURS:
        return 3
    if package == "torch":
        return 1 if "._" in module else 0
    return 2 if package in sys.stdlib_module_names else 1


def _in_words(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def without_notice(source: str) -> str:
    """A cell's source as its author wrote it, whichever release's notice stands before it."""
    notice = _ANY_NOTICE.match(source)
    return source[notice.end() :] if notice else source
