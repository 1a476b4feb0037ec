# corners: none
import torch

RIGHT = {"loop": torch.ones(1, 3), "half": None, "tail": torch.ones(4, 3)}


# %% right: other numbers, many rows
inputs = {
    "loop": torch.tensor([[0.0, -5.0, 0.0]]),
    "half": None,
    "tail": torch.arange(60.0).reshape(20, 3),
}


# %% right: a view, one row that counts
inputs = {
    "tail": torch.eye(5)[:, :3].requires_grad_(),
    "half": None,
    "loop": torch.randn(3, 1).t(),
}


# %% wrong: the loop with two rows
# says: With 2 rows or more, the loop doesn't run in PyTorch either, so both return x * 2.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"loop": torch.ones(2, 3)}


# %% wrong: one row of zeros
# says: Both return tensor([[0, 0, 0]]). The number of rows is right: the factor is 3 in PyTorch and 2 in the file.
# earns: 0.6667 of 1
inputs = RIGHT | {"loop": torch.zeros(1, 3)}


# %% wrong: no input for the loop
# says: There is an input that shows a difference: the condition of the loop was decided during the export, with 4 rows.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"loop": None}


# %% wrong: an odd number of rows for the half
# says: x.shape[0] // 2 is arithmetic with a size, not a decision.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"half": torch.ones(5, 3)}


# %% wrong: one row for the half
# says: x.shape[0] // 2 is arithmetic with a size, not a decision.
# earns: 0.6667 of 1
inputs = RIGHT | {"half": torch.ones(1, 3)}


# %% wrong: three rows for the tail
# says: With 3 rows or fewer, the last three rows are all rows, so both files return the same.
# earns: 0.6667 of 1
# lesson
inputs = RIGHT | {"tail": torch.ones(3, 3)}


# %% wrong: rows before the last three that add up to 0
# says: One adds up all rows, the other the last three. Here the rows before these add up to 0, or to too little to show.
# earns: 0.6667 of 1
inputs = RIGHT | {"tail": torch.tensor([[0.0] * 3, [1.0] * 3, [2.0] * 3, [3.0] * 3])}


# %% wrong: no input for the tail
# says: There is an input that shows a difference: each file contains only the branch that its example took.
# earns: 0.6667 of 1
inputs = RIGHT | {"tail": None}


# %% wrong: no rows
# says: The tensor has 1 to 20 rows of numbers between -1000 and 1000.
# earns: 0.6667 of 1
inputs = RIGHT | {"loop": torch.ones(0, 3)}


# %% wrong: nan
# says: The tensor has 1 to 20 rows of numbers between -1000 and 1000.
# earns: 0.6667 of 1
inputs = RIGHT | {"half": torch.full((4, 3), torch.nan)}


# %% wrong: two columns
# says: Write a dense float32 tensor with 3 columns.
# earns: 0.6667 of 1
inputs = RIGHT | {"tail": torch.ones(4, 2)}


# %% wrong: numbers of rows
# says: None of the items is right yet.
# earns: 0 of 1
inputs = {"loop": 1, "half": 3, "tail": 4}


# %% wrong: one is left open
# says: tail = ...: There is no input yet
# earns: 0.6667 of 1
inputs = RIGHT | {"tail": ...}
