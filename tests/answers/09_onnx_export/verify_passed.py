import torch

TRUE = {"branch": torch.ones(2, 3), "places": None, "average": None, "center": torch.ones(1, 3)}

# corners: none


# %% right: ones, two rows, and a size that the file refuses
witnesses = TRUE


# %% right: tensors that require grad
witnesses = TRUE | {
    "branch": torch.randn(1, 3, requires_grad=True),
    "center": torch.arange(24.0).reshape(8, 3).requires_grad_(),
}


# %% right: large numbers, transposed
witnesses = TRUE | {"branch": torch.full((3, 2), -100.0).t(), "center": torch.linspace(-100, 100, 9).reshape(3, 3).t()}


# %% wrong: believes verify
# says: branch: verify=True ran the file once, on the example that it was exported from.
# earns: 1 of 2
# lesson
witnesses = dict.fromkeys(TRUE)


# %% wrong: None for the file without dynamic sizes
# says: center: verify=True ran the file once, on the example that it was exported from.
# earns: 1 of 2
# lesson
witnesses = TRUE | {"center": None}


# %% wrong: three rows for the branch
# says: branch: here file and model agree, so this input proves nothing.
# earns: 1 of 2
# lesson
witnesses = TRUE | {"branch": torch.ones(3, 3)}


# %% wrong: zeros for the branch
# says: branch: here file and model agree, so this input proves nothing.
# earns: 1 of 2
witnesses = TRUE | {"branch": torch.zeros(1, 3)}


# %% wrong: the size of the example
# says: center: 4 rows, the very size that verify tried.
# earns: 1 of 2
witnesses = TRUE | {"center": torch.randn(4, 3)}


# %% wrong: an input for the file that computes its places
# says: places: this file is right, here too: the size is computed in the graph.
# earns: 1 of 2
# lesson
witnesses = TRUE | {"places": torch.ones(7, 3)}


# %% wrong: an input for the average
# says: average: this file is right, here too: the size is computed in the graph.
# earns: 1 of 2
witnesses = TRUE | {"average": torch.ones(1, 3)}


# %% wrong: nan
# says: branch: 1 to 8 rows of 3 finite float32 numbers, at most 100 in magnitude.
# earns: 1 of 2
witnesses = TRUE | {"branch": torch.full((1, 3), torch.nan)}


# %% wrong: nine rows
# says: center: 1 to 8 rows of 3 finite float32 numbers, at most 100 in magnitude.
# earns: 1 of 2
witnesses = TRUE | {"center": torch.ones(9, 3)}


# %% wrong: True for wrong files
# says: branch: 1 to 8 rows of 3 finite float32 numbers
# earns: 1 of 2
witnesses = TRUE | {"branch": True, "center": True}


# %% wrong: an input for each file
# says: places: this file is right, here too
# earns: 1 of 2
witnesses = dict.fromkeys(TRUE, torch.ones(1, 3))


# %% wrong: one item is left open
# says: The item average is still open: give an input, or None.
# earns: 1 of 2
witnesses = TRUE | {"average": ...}


# %% wrong: a list
# says: The witnesses must be in a dict.
# earns: 0 of 2
witnesses = [torch.ones(1, 3), None, None, torch.ones(1, 3)]


# %% wrong: a fifth item
# says: There are four items: branch, places, average and center.
# earns: 0 of 2
witnesses = TRUE | {"all": None}
