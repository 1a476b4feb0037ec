"""What the stored outputs of solutions/ may say differently where torch is another release than the locked one.

On the locked release outputs are compared as they are. Elsewhere words that PyTorch has changed and nothing depends on
are made equal on both sides first, and cells that show what the installed torch does are run without a comparison.
"""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from torchkata.facts.releases import installed_release
from torchkata.tools import lock

# (what is looked for, as a regular expression; what both sides read in its place; why it differs)
REWORDED = (
    (r"\bmm: self must be a matrix, got \d+-D tensor", "self must be a matrix", "2.15 names operation and dimensions"),
    (r"\baddmm: mat1 and mat2 shapes", "mat1 and mat2 shapes", "2.15 names the operation"),
    (r"inputs\[(?:0|'x')\]\.shape", "inputs[…].shape", "2.14 names an exported input by its place"),
    (
        r"\bexpected scalar type Long but found",
        "expected target dtype to be Long or Byte, but got",
        "2.12 names both dtypes that labels may have",
    ),
    (r"\b\d+ dtypes;", "… dtypes;", "new releases bring new dtypes"),
    (r"\bUnsafeViewBackward0\b", "ViewBackward0", "2.15 reshapes the result of a Linear by another operation"),
)
OLD_NODES = "before 2.13 an error names a node by its class, ExpBackward0, and breaks its lines elsewhere"
# (how the cell's source begins; on which releases its output is not compared; why)
NOT_COMPARED = (
    ("folklore(", "", "the table shows what holds on the installed torch; the facts have tests of their own"),
    ("w, unused = torch.ones(2", "<2.13", "2.13 says which tensor was not used"),
    ("a = torch.zeros(3, requires_grad=True)\n\nb = a.exp()", "<2.13", OLD_NODES),
    ("w = torch.zeros(3, requires_grad=True)\n\nerror_of", "<2.13", OLD_NODES),
    ("with warnings.catch_warnings(record=True) as caught, torch.autograd.set", "<2.13", OLD_NODES),
    ("w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\nerror_of", "<2.13", OLD_NODES),
    ("class SquareAttribute(Function)", "<2.13", OLD_NODES),
    ("for inplace in (False, True):\n    net = nn.Sequential(nn.Linear(2, 3)", "<2.13", OLD_NODES),
    ("values = [-0.7, 0.4, 1.3]\nsingle", "<2.13", "2.13 has corrected a slip in gradcheck's sentence"),
    ('print("float16:      ", torch.tensor([65519.0', "<2.13", "a number beyond float8_e4m3fn was nan, and is 448 now"),
    ("# a machine with one GPU refuses a second one", "<2.13", "fake tensors have another error for two devices"),
    ("torch.manual_seed(0)\ngru = nn.GRU(3, 4", ">=2.15", "a GRU's output declares its number of steps"),
    ("def polynomial(z: Tensor)", ">=2.15", "multiplying by a number rounds differently in bfloat16"),
)


def is_other_release() -> bool:
    """Whether the torch that is installed is another release than the locked one, however it was built."""
    return installed_release() != Version(Version(lock.TORCH).base_version)


def patterns() -> dict[str, str]:
    """What nbval replaces on both sides before it compares."""
    return {pattern: replacement for pattern, replacement, _ in REWORDED}


def is_not_compared(source: str) -> bool:
    """Whether a cell with this source is run without a comparison of its output."""
    here = installed_release()
    return any(source.startswith(start) and here in SpecifierSet(releases) for start, releases, _ in NOT_COMPARED)
