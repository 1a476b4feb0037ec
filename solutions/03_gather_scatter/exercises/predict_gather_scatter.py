# %% [markdown]
# ### Exercise 3.4 · Ten index puzzles
#
# predict · warm-up · 12 min · 2 points
#
# If you can read these ten calls in your head, you will find a wrong index in a code review and not in a loss curve.
# Predict, then let the check run the snippets.
#
# Throughout, `t = torch.tensor([[1, 2], [3, 4]])`, `y = torch.arange(12).reshape(3, 4)` and `L = torch.tensor`.
#
# **Contract**
#
# - Replace each `...`: nested lists for tensors, tuples for shapes, a number for `corner`, True or False for questions.
# - The check compares each item with what its snippet really returns (for `guaranteed` the documentation decides).
#   Every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# First write down the formula for the call. Which of the coordinates i, j is replaced by `index[i][j]`, and is it on
# the reading or on the writing side?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `gather`: out has the shape of index, and `out[i][j] = t[i][index[i][j]]` for dim 1. `scatter_`: `self[i][index[i][j]]
# = src[i][j]`, only over the shape of index. `scatter_reduce_` includes the old value, unless `include_self=False`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For dim 0 the first coordinate is replaced: `out[i][j] = t[index[i][j]][j]`. `index_twice` is not a gather: each entry
# of its list picks a whole column. gather does not count from the end. `corner`: the index has four entries, so which
# four numbers of src are written, and do two of them meet? `guaranteed`: what does the documentation promise for
# duplicates? `mean_self`: three numbers enter the first mean, and a cell that nothing reaches keeps its value.
#
# </details>

# %% answer="predict-gather-scatter"
### BEGIN SOLUTION
answers = {
    "gather_dim1": [[1, 1], [4, 3]],  # t.gather(1, L([[0, 0], [1, 0]]))
    "gather_dim0": [[3, 2]],  # t.gather(0, L([[1, 0]]))
    "no_broadcast": (1, 1),  # y.gather(1, L([[1]])).shape
    "index_twice": (4, 4),  # torch.zeros(4, 3)[:, L([0, 1, 2, 0])].shape
    "minus_one": True,  # does y.gather(1, L([[-1]])) raise?
    # torch.zeros(3, 5).scatter_(0, L([[0, 1, 2, 0]]), torch.arange(1., 11).reshape(2, 5)).sum()
    "corner": 10.0,
    "scatter_dim1": [[0, 0, 1], [1, 0, 0]],  # torch.zeros(2, 3).scatter_(1, L([[2], [0]]), 1.)
    "add": [[0, 6, 0]],  # torch.zeros(1, 3).scatter_add_(1, L([[1, 1, 1]]), L([[1., 2., 3.]]))
    # torch.zeros(1, 3).scatter_(1, L([[1, 1, 1]]), L([[1., 2., 3.]])): is [0, 1] certain to be 3?
    "guaranteed": False,
    # torch.full((1, 3), 5.).scatter_reduce_(1, L([[0, 0]]), L([[1., 3.]]), "mean")
    "mean_self": [[3, 5, 5]],
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "gather_dim1": ...,  # t.gather(1, L([[0, 0], [1, 0]]))
#     "gather_dim0": ...,  # t.gather(0, L([[1, 0]]))
#     "no_broadcast": ...,  # y.gather(1, L([[1]])).shape
#     "index_twice": ...,  # torch.zeros(4, 3)[:, L([0, 1, 2, 0])].shape
#     "minus_one": ...,  # does y.gather(1, L([[-1]])) raise?
#     # torch.zeros(3, 5).scatter_(0, L([[0, 1, 2, 0]]), torch.arange(1., 11).reshape(2, 5)).sum()
#     "corner": ...,
#     "scatter_dim1": ...,  # torch.zeros(2, 3).scatter_(1, L([[2], [0]]), 1.)
#     "add": ...,  # torch.zeros(1, 3).scatter_add_(1, L([[1, 1, 1]]), L([[1., 2., 3.]]))
#     # torch.zeros(1, 3).scatter_(1, L([[1, 1, 1]]), L([[1., 2., 3.]])): is [0, 1] certain to be 3?
#     "guaranteed": ...,
#     # torch.full((1, 3), 5.).scatter_reduce_(1, L([[0, 0]]), L([[1., 3.]]), "mean")
#     "mean_self": ...,
# }
### END GIVEN

# %% check="predict-gather-scatter" points=2
"""Ten predictions about gather and scatter, each compared with what its snippet returns."""
with check("predict-gather-scatter") as test:

    def truths():
        """What the snippets return."""
        t, y, L = torch.tensor([[1, 2], [3, 4]]), torch.arange(12).reshape(3, 4), torch.tensor
        ones_and_more = torch.arange(1.0, 11).reshape(2, 5)
        return {
            "gather_dim1": t.gather(1, L([[0, 0], [1, 0]])),
            "gather_dim0": t.gather(0, L([[1, 0]])),
            "no_broadcast": y.gather(1, L([[1]])).shape,
            "index_twice": torch.zeros(4, 3)[:, L([0, 1, 2, 0])].shape,
            "minus_one": does_raise(lambda: y.gather(1, L([[-1]]))),
            "corner": torch.zeros(3, 5).scatter_(0, L([[0, 1, 2, 0]]), ones_and_more).sum(),
            "scatter_dim1": torch.zeros(2, 3).scatter_(1, L([[2], [0]]), 1.0),
            "add": torch.zeros(1, 3).scatter_add_(1, L([[1, 1, 1]]), L([[1.0, 2.0, 3.0]])),
            "guaranteed": "the behavior is non-deterministic" not in " ".join(torch.Tensor.scatter_.__doc__.split()),
            "mean_self": torch.full((1, 3), 5.0).scatter_reduce_(1, L([[0, 0]]), L([[1.0, 3.0]]), "mean"),
        }

    def does_raise(call):
        """Whether a call raises."""
        try:
            call()
        except (RuntimeError, IndexError):
            return True
        return False

    test("every item is compared with what the call really returns")
    true = truths()
    other_dim = "That is the result for the other dim: dim names the coordinate that index replaces."
    one_each = "gather does not broadcast and its output has the shape of index: one index entry, one output."
    because = {
        "gather_dim1": "out[i][j] = t[i][index[i][j]]: each row of index chooses within the same row of t.",
        "gather_dim0": "out[i][j] = t[index[i][j]][j]: each entry of index chooses a row for its own column.",
        "no_broadcast": one_each,
        "index_twice": "A list of columns is taken from every one of the four rows.",
        "minus_one": "The question is answered by True or False.",
        "corner": "Only the corner of src that index covers is written: four numbers here, 1 to 4.",
        "scatter_dim1": "self[i][index[i][j]] = src[i][j]: row i gets its number in column index[i][j].",
        "add": "All three numbers go to column 1 of the only row, and scatter_add_ adds.",
        "guaranteed": "The question is answered by True or False.",
        "mean_self": "Column 0 gets the mean of what was there and what is written; the others keep what was there.",
    }
    mistakes = {
        "gather_dim1": [([[1, 2], [3, 2]], other_dim)],
        "gather_dim0": [([[2, 1]], other_dim), ([[3, 2], [3, 2]], one_each), ([[3, 4], [1, 2]], one_each)],
        "no_broadcast": [((3, 1), one_each), ((3,), one_each)],
        "index_twice": [
            (
                (4,),
                "Indexing the columns with a list of labels gives all of them for every row: "
                "a table, not one value per row.",
            )
        ],
        "minus_one": [(False, "gather and scatter do not take negative indices (ordinary indexing does): it raises.")],
        "corner": [(55.0, "Only the corner of src that index covers is written: four numbers here.")],
        "scatter_dim1": [([[0, 1, 0], [0, 0, 1]], other_dim), ([[0, 0, 0], [0, 0, 0]], "scatter_ writes into self.")],
        "add": [
            (
                [[0, n, 0]],
                "With a repeated index scatter_ keeps one of the values, it does not add them; scatter_add_ adds.",
            )
            for n in (1, 2, 3)
        ],
        "guaranteed": [
            (
                True,
                "Which duplicate wins is documented as undefined: eager CPU usually keeps the last, "
                "compiled or CUDA code need not.",
            )
        ],
        "mean_self": [([[2, 5, 5]], "include_self defaults to True: the 5 that was there is part of the mean.")],
    }
    test.points = observe_value(answers).predicts(
        {item: prediction(true[item], *mistakes[item], because=because[item]) for item in true},
        points=2,
    )
test.points
