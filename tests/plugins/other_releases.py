"""What the stored outputs of solutions/ may say differently where torch is another release than the locked one.

On the locked release outputs are compared as they are. Elsewhere words that PyTorch has changed and nothing depends on
are made equal on both sides first, and cells that show what the installed torch does are run without a comparison.
"""

from __future__ import annotations

from importlib.metadata import version

from packaging.version import Version

from torchkata.tools import lock

# (what is looked for, as a regular expression; what both sides read in its place; why it differs)
REWORDED = (
    (r"\bmm: self must be a matrix, got \d+-D tensor", "self must be a matrix", "2.15 names operation and dimensions"),
    (r"\baddmm: mat1 and mat2 shapes", "mat1 and mat2 shapes", "2.15 names the operation"),
    (r"inputs\[(?:0|'x')\]\.shape", "inputs[…].shape", "2.14 names an exported input by its place"),
    (r"\b\d+ dtypes;", "… dtypes;", "new releases bring new dtypes"),
    (r"\bUnsafeViewBackward0\b", "ViewBackward0", "2.15 reshapes the result of a Linear by another operation"),
)
# (how the cell's source begins; why its output is not compared)
NOT_COMPARED = (("folklore(", "the table shows what holds on the installed torch; the facts have tests of their own"),)


def is_other_release() -> bool:
    """Whether the torch that is installed is another release than the locked one, however it was built."""
    return Version(version("torch")).base_version != Version(lock.TORCH).base_version


def patterns() -> dict[str, str]:
    """What nbval replaces on both sides before it compares."""
    return {pattern: replacement for pattern, replacement, _ in REWORDED}


def is_not_compared(source: str) -> bool:
    """Whether a cell with this source is run without a comparison of its output."""
    return source.startswith(tuple(start for start, _ in NOT_COMPARED))
