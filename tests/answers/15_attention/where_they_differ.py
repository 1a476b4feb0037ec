# corners: none
import torch


def numbers(*rows):
    return torch.tensor(rows)[None, None]


RIGHT = {
    "a": (numbers([10.0]), numbers([10.0], [0.0]), numbers([1.0], [2.0])),
    "b": (numbers([1.0]), numbers([0.0], [0.0]), numbers([0.0], [1.0])),
    "c": (numbers([20.0]), numbers([0.0], [10.0]), numbers([1.0], [2.0])),
    "d": (numbers([200.0]), numbers([0.0], [100.0]), numbers([1.0], [2.0])),
    "e": (torch.ones(1, 4, 1, 1), torch.ones(1, 2, 1, 1), torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)),
    "f": None,
}


# %% right: lists, other sizes, larger heads
INPUTS = {
    "a": [20 * torch.ones(2, 1, 2, 4), 20 * torch.ones(2, 1, 2, 4), torch.ones(2, 1, 2, 4)],
    "b": [torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 4, 2), torch.arange(16.0).view(1, 2, 4, 2)],
    "c": [numbers([100.0, 0.0]), numbers([0.0, 1.0], [1.0, 5.0], [10.0, 0.0]), numbers(*3 * [[1.0, 2.0]])],
    "d": [numbers([1000.0]), numbers([0.0], [-5.0], [11.0]), numbers([1.0], [2.0], [3.0])],
    "e": [torch.ones(1, 6, 1, 1), torch.ones(1, 2, 1, 1), torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)],
    "f": None,
}


# %% right: negative scores that underflow to 0/0; more queries than keys; requires grad
INPUTS = RIGHT | {
    "a": (numbers([-20.0]), numbers([10.0], [11.0]), numbers([1.0], [2.0])),
    "b": (torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 2, 1), numbers([1.0], [2.0])),
    "d": tuple(t.clone().requires_grad_() for t in RIGHT["d"]),
}


# %% right: as large as is allowed
INPUTS = RIGHT | {
    "a": (numbers([1000.0]), numbers([1000.0], [-1000.0]), numbers([1000.0], [2.0])),
    "c": (numbers([1000.0]), numbers([-1000.0], [1000.0]), numbers([1.0], [2.0])),
    "d": (numbers([1000.0]), numbers([-1000.0], [1000.0]), numbers([1.0], [2.0])),
}


# %% wrong: a, small scores
# says: With this input both give the same, up to
# earns: 1.67 of 2
# lesson
INPUTS = RIGHT | {"a": (numbers([1.0]), numbers([1.0], [0.0]), numbers([1.0], [2.0]))}


# %% wrong: b, as many queries as keys
# says: With this input both give the same, up to 0.0e+00. Which key does the first query belong to
# earns: 1.67 of 2
# lesson
INPUTS = RIGHT | {"b": (torch.ones(1, 1, 3, 1), torch.ones(1, 1, 3, 1), numbers([1.0], [2.0], [3.0]))}


# %% wrong: c, a hidden score that is larger by 20
# says: What is left of the other weights in float32 if the score of the last key is larger by 200?
# earns: 1.67 of 2
# lesson
INPUTS = RIGHT | {"c": (numbers([20.0]), numbers([0.0], [1.0]), numbers([1.0], [2.0]))}


# %% wrong: d, a hidden score of 5,000
# says: With this input both give the same, up to 0.0e+00. How large can a score be?
# earns: 1.67 of 2
# lesson
INPUTS = RIGHT | {"d": (numbers([100.0]), numbers([0.0], [50.0]), numbers([1.0], [2.0]))}


# %% wrong: e, one key-value head
# says: Which key-value head does query head 1 get from each of the two
# earns: 1.67 of 2
# lesson
INPUTS = RIGHT | {"e": (torch.ones(1, 4, 1, 1), torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))}


# %% wrong: e, as many key-value heads as heads
# says: Which key-value head does query head 1 get from each of the two
# earns: 1.67 of 2
INPUTS = RIGHT | {"e": (torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1, 1), torch.tensor([0.0, 1.0]).view(1, 2, 1, 1))}


# %% wrong: f, large values
# says: compute the same formula, so only rounding can part them.
# earns: 1.67 of 2
# lesson
INPUTS = RIGHT | {
    "f": (numbers([1.3, 7.0, 2.9]), numbers([3.3, 0.1, 2.0], [3.2, 0.2, 1.0]), numbers(*2 * [[999.9] * 3]))
}


# %% wrong: f, scores so large that rounding shows
# says: compute the same formula, so only rounding can part them.
# earns: 1.67 of 2
INPUTS = RIGHT | {
    "f": (
        numbers([999.0, 998.0, 997.0]),
        numbers([999.0, 997.1, 995.2], [999.1, 997.0, 995.2]),
        numbers([1000.0] * 3, [-1000.0] * 3),
    )
}


# %% wrong: a, only rounding
# says: With this input only rounding parts the two: in float64 they give the same.
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": (numbers([-1.0]), numbers([102.0], [102.6]), numbers([1000.0], [-1000.0]))}


# %% wrong: None for a
# says: There is such an input. What is exp(100) in float32, and what is inf / inf?
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": None}


# %% wrong: None everywhere
# says: None of the items is right yet.
# says: There is such an input. How large can a score be?
# earns: 0.33 of 2
INPUTS = dict.fromkeys("abcdef")


# %% wrong: b, sizes that don't fit
# says: One of the two functions doesn't take this input (RuntimeError
# earns: 1.67 of 2
INPUTS = RIGHT | {"b": (torch.ones(1, 3, 1, 1), torch.ones(1, 2, 2, 1), torch.ones(1, 2, 2, 1))}


# %% wrong: b, k and v of unequal length
# says: k and v must have the same shape, and q the same number of rows and of numbers a head as these.
# earns: 1.67 of 2
INPUTS = RIGHT | {"b": (torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 1), torch.ones(1, 1, 3, 1))}


# %% wrong: e, three heads and two key-value heads
# says: One of the two functions doesn't take this input (RuntimeError
# earns: 1.67 of 2
INPUTS = RIGHT | {"e": (torch.ones(1, 3, 1, 1), torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1, 1))}


# %% wrong: a, an infinite input
# says: Each number must be from -1000 to 1000.
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": (numbers([torch.inf]), numbers([10.0], [0.0]), numbers([1.0], [2.0]))}


# %% wrong: a, nan
# says: Each number must be from -1000 to 1000.
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": (numbers([torch.nan]), numbers([10.0], [0.0]), numbers([1.0], [2.0]))}


# %% wrong: f, values of a million
# says: Each number must be from -1000 to 1000.
# earns: 1.67 of 2
INPUTS = RIGHT | {"f": (numbers([1.0]), numbers([1.0], [0.7]), numbers([1e6], [2e6]))}


# %% wrong: c, too many numbers
# says: q, k and v must have four dimensions, (B, H, n, D), and 1 to 64 numbers each.
# earns: 1.67 of 2
INPUTS = RIGHT | {"c": (torch.ones(1, 1, 1, 1), 100 * torch.arange(65.0).view(1, 1, 65, 1), torch.ones(1, 1, 65, 1))}


# %% wrong: c, float64
# says: q, k and v must be float32.
# earns: 1.67 of 2
INPUTS = RIGHT | {"c": tuple(t.double() for t in RIGHT["c"])}


# %% wrong: a, sparse
# says: Give a tuple of three tensors (q, k, v), or None.
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": (RIGHT["a"][0].to_sparse(), *RIGHT["a"][1:])}


# %% wrong: d, without rows and heads
# says: q, k and v must have four dimensions, (B, H, n, D), and 1 to 64 numbers each.
# earns: 1.67 of 2
INPUTS = RIGHT | {"d": tuple(t[0, 0] for t in RIGHT["d"])}


# %% wrong: c, a single key, hidden
# says: The first of the two functions gives nan or inf for this input. It must give finite numbers.
# earns: 1.67 of 2
INPUTS = RIGHT | {"c": (numbers([20.0]), numbers([10.0]), numbers([1.0]))}


# %% wrong: q alone
# says: Give a tuple of three tensors (q, k, v), or None.
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": numbers([10.0])}


# %% wrong: no text is an input
# says: Give a tuple of three tensors (q, k, v), or None.
# earns: 1.33 of 2
INPUTS = RIGHT | {"a": "", "f": ""}


# %% wrong: one item left as ...
# says: There is no prediction yet
# earns: 1.67 of 2
INPUTS = RIGHT | {"b": ...}


# %% wrong: a, tensors without numbers
# says: q, k and v must be ordinary dense tensors that hold numbers
# earns: 1.67 of 2
INPUTS = RIGHT | {"a": (torch.ones(1, 1, 1, 1, device="meta"),) * 3}
