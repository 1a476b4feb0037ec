# %% [markdown]
# ### Exercise 2.1 · Strides without running
#
# predict · warm-up · 10 min · 2 points
#
# If you can tell the strides of a result without running it, you know which lines of a program copy and which don't.
# Replace each `...` by what the snippet next to it gives. All items are about `x = torch.arange(24).reshape(4, 6)`, an
# int64 tensor.
#
# **Contract**
#
# - Strides and offsets count elements. You may write a tuple as a list.
# - The two `alias` items ask whether both tensors use the same storage: `True` or `False`.
# - Every right item earns a twelfth of the points.
#
# <details><summary>Hint 1</summary>
#
# In which of the 24 memory cells is element [1, 0] of each of these tensors, and in which is [0, 1]? The distance to
# element [0, 0] is the stride.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In x, [1, 0] is in cell 6 and [0, 1] in cell 1. Now the slice: its [0, 0] is x[1, 0]. Which elements of x are its [1,
# 0] and its [0, 1], and in which cells are they? For the `alias` items, look at the three bins of section 2.2.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `t()` swaps the two strides of (6, 1). A step of 2 doubles a stride; starting at row 1 moves the offset by one row.
# `expand` adds stride 0. A tensor is contiguous if its strides are those of a fresh tensor of this shape, and then
# `contiguous()` returns the tensor itself. A list picks freely, so it copies; the elements of `x.t()` in index order
# follow no single stride.
#
# </details>

# %% answer="predict-strides"
# x = torch.arange(24).reshape(4, 6)
### BEGIN SOLUTION
stride_answers = {
    "t_stride": (1, 6),  # x.t().stride()
    "slice_stride": (6, 2),  # x[1:, ::2].stride()
    "slice_offset": 6,  # x[1:, ::2].storage_offset()
    "t_contiguous": False,  # x.t().is_contiguous()
    "cols": False,  # x[:, :3].is_contiguous()
    "rows": True,  # x[:2].is_contiguous()
    "expand": (0, 6, 1),  # x.unsqueeze(0).expand(5, -1, -1).stride()
    "t_copy_stride": (4, 1),  # x.t().contiguous().stride()
    "noop": True,  # x.contiguous() is x
    "alias_reshape": False,  # do x.t().reshape(-1) and x use the same storage?
    "alias_list": False,  # do x[[0, 1]] and x use the same storage?
    "infer": (3, 8),  # tuple(x.view(-1, 8).shape)
}
### END SOLUTION
### BEGIN GIVEN
# stride_answers = {
#     "t_stride": ...,  # x.t().stride()
#     "slice_stride": ...,  # x[1:, ::2].stride()
#     "slice_offset": ...,  # x[1:, ::2].storage_offset()
#     "t_contiguous": ...,  # x.t().is_contiguous()
#     "cols": ...,  # x[:, :3].is_contiguous()
#     "rows": ...,  # x[:2].is_contiguous()
#     "expand": ...,  # x.unsqueeze(0).expand(5, -1, -1).stride()
#     "t_copy_stride": ...,  # x.t().contiguous().stride()
#     "noop": ...,  # x.contiguous() is x
#     "alias_reshape": ...,  # do x.t().reshape(-1) and x use the same storage?
#     "alias_list": ...,  # do x[[0, 1]] and x use the same storage?
#     "infer": ...,  # tuple(x.view(-1, 8).shape)
# }
### END GIVEN

# %% check="predict-strides" points=2
"""Each item against what its snippet really gives; every right item earns its share."""
with check("predict-strides") as test:
    test("every item is compared with what its snippet gives")
    grid = torch.arange(24).reshape(4, 6)
    storage_of = Tensor.untyped_storage
    in_bytes = "Those are byte strides, as NumPy shows them. torch counts elements."
    as_fresh = "That would be the stride of a fresh tensor of this shape. "
    not_moved = "A slice keeps the strides of its base (times the step): the data did not move."
    test.points = observe_value(stride_answers).predicts(
        {
            "t_stride": prediction(
                grid.t().stride(),
                ((8, 48), in_bytes),
                ((6, 1), "t() copies nothing, so it must swap the strides together with the sizes: (1, 6)."),
                ((4, 1), as_fresh + "t() copies nothing: the data did not move."),
                because="One step down in x.t() is one step to the right in x; one step to the right is one step down.",
            ),
            "slice_stride": prediction(
                grid[1:, ::2].stride(),
                ((3, 1), as_fresh + not_moved),
                ((48, 16), in_bytes),
                ((6, 1), "The next column of the slice is the next but one of x: a step of 2 doubles that stride."),
                because=not_moved,
            ),
            "slice_offset": prediction(
                grid[1:, ::2].storage_offset(),
                (0, "The slice starts at row 1: its first element is memory cell 6, although its index is [0, 0]."),
                (48, "That is an offset in bytes, as NumPy would count. torch counts elements."),
                (1, "The slice starts one row further on, and a row is 6 cells long."),
                because="The offset is the number of the memory cell in which the slice's element [0, 0] lies.",
            ),
            "t_contiguous": prediction(
                grid.t().is_contiguous(),
                because="After t() neighbours in memory are no longer neighbours in the last dimension: "
                "the strides (1, 6) are not row-major for shape (6, 4).",
            ),
            "cols": prediction(
                grid[:, :3].is_contiguous(),
                because="Rows of the slice are 6 cells apart but only 3 long: there are gaps, so it is not contiguous.",
            ),
            "rows": prediction(
                grid[:2].is_contiguous(),
                because="The first two rows lie back to back: slicing leading rows of a contiguous tensor "
                "stays contiguous.",
            ),
            "expand": prediction(
                grid.unsqueeze(0).expand(5, -1, -1).stride(),
                ((24, 6, 1), "expand adds a dimension with stride 0: all five 'copies' are the same memory."),
                because="The new dimension does not move in memory at all; the other two keep their strides.",
            ),
            "t_copy_stride": prediction(
                grid.t().contiguous().stride(),
                (
                    (1, 6),
                    "contiguous() writes the elements down again in row-major order for shape (6, 4): stride (4, 1).",
                ),
                ((6, 1), "Those are x's strides. The copy has shape (6, 4), so its rows are 4 long."),
                because="contiguous() writes the elements down in row-major order for shape (6, 4).",
            ),
            "noop": prediction(
                grid.contiguous() is grid,
                because="For a contiguous tensor contiguous() returns the same object: it is no way to get a copy.",
            ),
            "alias_reshape": prediction(
                storage_of(grid.t().reshape(-1)).data_ptr() == storage_of(grid).data_ptr(),
                because="reshape returns a view when it can and copies when it must. Flattening a transposed matrix "
                "cannot be described by one stride, so it copies.",
            ),
            "alias_list": prediction(
                storage_of(grid[[0, 1]]).data_ptr() == storage_of(grid).data_ptr(),
                because="Indexing with a list (or tensor) copies; only slices and integers give views.",
            ),
            "infer": prediction(
                tuple(grid.view(-1, 8).shape),
                ((4, 8), "-1 is whatever makes 24 elements: 24 / 8 = 3 rows."),
                ((-1, 8), "The -1 is computed: a shape never holds a -1."),
                because="-1 is whatever makes 24 elements.",
            ),
        },
        points=2,
    )
test.points
