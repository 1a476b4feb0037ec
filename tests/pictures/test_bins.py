"""Same object, view or copy."""

import torch

from torchkata.pictures import bins


def test_three_bins():
    x = torch.arange(12.0).reshape(3, 4)
    table = bins.three_bins(x)
    answers = {row.expression: (row.same_object, row.same_storage, row.own_memory) for row in table.rows}
    assert len(answers) == len(table.rows)
    assert answers["x.contiguous()"] == (True, True, False)
    assert answers["x.t()"] == answers["x.reshape(-1)"] == (False, True, False)
    assert answers["x[[0, 1]]"] == answers["x.t().reshape(-1)"] == (False, False, True)
    assert "| <code>x[x &gt; 3]</code> | – | – | yes |" in table._repr_markdown_()
