"""Values are compared as torch.testing.assert_close compares them, without what it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from torchkata.verdicts.comparing import difference
from torchkata.verdicts.tolerances import EXACT, RELATIVE_AND_ABSOLUTE, tolerances

FIRST_VERDICT = """
import sys
import torch
from torchkata.verdicts import check, observe
before = set(sys.modules)
with check("negative") as test:
    test("nearly equal")
    observe(torch.neg, torch.ones(2)).returns(torch.full((2,), -1.0000001))
print(sorted({name.split(".")[0] for name in set(sys.modules) - before} & {"sympy", "mpmath", "matplotlib"}))
"""


@pytest.mark.parametrize("dtype", [*RELATIVE_AND_ABSOLUTE, torch.int64, torch.uint8, torch.bool], ids=str)
def test_tolerances_are_those_of_torch(dtype: torch.dtype):
    from torch.testing._comparison import default_tolerances

    expected = EXACT if dtype == torch.bool else default_tolerances(dtype)
    assert tolerances(dtype) == expected
    assert tolerances(dtype, 0.5, 0.25) == (0.5, 0.25)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("steps", [0.9, 1.1])
def test_the_verdict_is_that_of_assert_close(dtype: torch.dtype, steps: float):
    expected = torch.tensor([0.0, 3.0, torch.nan], dtype=dtype)
    rtol, atol = tolerances(dtype)
    came = torch.tensor(
        [0.0, 3.0 + steps * (atol + 3 * rtol), torch.nan], dtype=torch.promote_types(dtype, torch.float64)
    )
    came = came.to(dtype)
    try:
        torch.testing.assert_close(came, expected, equal_nan=True)
    except AssertionError:
        assert difference(came, expected)
    else:
        assert difference(came, expected) is None


def test_a_dtype_that_the_table_lacks_is_compared_too():
    one = torch.ones(2).to(torch.float8_e4m3fn)
    assert difference(one, one.clone()) is None
    assert difference(one, torch.zeros(2).to(torch.float8_e4m3fn))


def test_the_first_verdict_loads_nothing_large():
    run = subprocess.run([sys.executable, "-c", FIRST_VERDICT], capture_output=True, text=True)
    assert run.stdout.splitlines()[-1] == "[]", run.stdout + run.stderr
