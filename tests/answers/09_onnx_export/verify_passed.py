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
# says: : this file is wrong. verify=True ran it once, on the example of the export, which says nothing about
# earns: 1 of 2
# lesson
witnesses = dict.fromkeys(TRUE)


# %% wrong: None for the file without dynamic sizes
# says: : this file is wrong. verify=True ran it once, on the example of the export, which says nothing about
# earns: 1 of 2
# lesson
witnesses = TRUE | {"center": None}


# %% wrong: three rows for the branch
# says: : the file and the model agree on your input, so it proves nothing. What did the exporter decide from
# earns: 1 of 2
# lesson
witnesses = TRUE | {"branch": torch.ones(3, 3)}


# %% wrong: zeros for the branch
# says: : the file and the model agree on your input, so it proves nothing. What did the exporter decide from
# earns: 1 of 2
witnesses = TRUE | {"branch": torch.zeros(1, 3)}


# %% wrong: the size of the example
# says: : your input has 4 rows, the size that verify tried.
# earns: 1 of 2
witnesses = TRUE | {"center": torch.randn(4, 3)}


# %% wrong: an input for the file that computes its places
# says: : this file is right for your input as well, because the graph computes the size. Look at the nodes.
# earns: 1 of 2
# lesson
witnesses = TRUE | {"places": torch.ones(7, 3)}


# %% wrong: an input for the average
# says: : this file is right for your input as well, because the graph computes the size. Look at the nodes.
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
# says: : this file is right for your input as well, because the graph computes the size. Look at the nodes.
# earns: 1 of 2
witnesses = dict.fromkeys(TRUE, torch.ones(1, 3))


# %% wrong: one item is left open
# says: is still open. Give an input, or None.
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
