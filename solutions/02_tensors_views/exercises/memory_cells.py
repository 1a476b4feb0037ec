# %% [markdown]
# ### Exercise 2.8 · Where does every element live?
#
# implement · solid · 12 min · 2 points
#
# For each element of a tensor, compute the memory cell that it is stored in. With such a map, two everyday questions
# become one line each: do two tensors share a cell, and is a tensor contiguous?
#
# **Contract**
#
# - Entry [i, j, ...] of the result is the number of the storage cell of t[i, j, ...], counted from the beginning of the
#   *storage* in elements of t's dtype. The result is int64 and has t's shape.
# - It works for every strided CPU tensor with fewer than 2**31 cells: slices, transposes, expanded and overlapping
#   views, 0-d and empty tensors, any dtype, with or without requires_grad. t is not changed.
#
# **Rule.** The values of t are never read, because shape, strides and offset say where everything is.
#
# <details><summary>Hint 1</summary>
#
# t[0, 0, ...] is in cell storage_offset(). How far is it from there to t[1, 0, ...]?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# cell = offset + i\*stride(0) + j\*stride(1) + ... All i together are an arange, and so are all j. Which shapes must
# the two have, so that their sum is a table?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Start with the offset as a 0-d tensor. Then, for each dimension from the first to the last, append a dimension of size
# 1 to what you have and add the positions along that dimension times its stride, which broadcasts. Without dimensions
# only the offset is left, and with a size of 0 everything is empty.
#
# </details>


# %% answer="memory-cells"
def memory_cells(t: Tensor) -> Tensor:
    """The number of the storage cell of each element of t, in elements: int64, same shape as t."""
    ### BEGIN SOLUTION
    cells = torch.tensor(t.storage_offset())
    for size, stride in zip(t.shape, t.stride(), strict=True):
        cells = cells.unsqueeze(-1) + torch.arange(size) * stride
    return cells
    ### END SOLUTION


# %% helpers="memory-cells"
row_by_row = (
    "You numbered the elements in row-major order of the shape. That is only right for a fresh tensor; strides decide."
)
no_offset = "A view does not start at cell 0: add storage_offset()."


# %% check="memory-cells" points=1
"""The storage cell of each element: offset and strides, counted in elements."""
with check("memory-cells") as test:
    t = torch.tensor([[7.0, 30, 12, 25], [3, 41, 18, 9], [50, 22, 6, 33]])
    in_bytes = "Cells are counted in elements, not bytes."
    paired = "Strides and dimensions are paired the wrong way round: stride(d) belongs to dimension d."
    known = [
        mistake(
            "You returned values of t. They happen to equal the cell numbers for an arange; "
            "look at strides and offset.",
            gives=lambda t: t,
        ),
        mistake("Cell numbers are int64: {detail}", stage="dtype"),
        mistake(
            "A view may lie anywhere in its storage, which has more cells than t has elements: count from the "
            "beginning of the storage.",
            raises="setStorage",
        ),
    ]

    test("a fresh 3x4 tensor")
    seen = observe(memory_cells, t).expecting(*known)
    seen.returns(
        torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        mistake(in_bytes, gives=torch.tensor([[0, 4, 8, 12], [16, 20, 24, 28], [32, 36, 40, 44]])),
        mistake(paired, gives=torch.tensor([[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14]])),
        mistake(
            "You went down the columns: in a fresh tensor the cells of one row are neighbours.",
            gives=torch.tensor([[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]),
        ),
        mistake("The first cell has number 0.", gives=torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])),
    )

    test("its transpose")
    seen = observe(memory_cells, t.t()).expecting(*known)
    seen.returns(
        torch.tensor([[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]),
        mistake(row_by_row, gives=torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])),
        mistake(paired, gives=torch.tensor([[0, 1, 2], [4, 5, 6], [8, 9, 10], [12, 13, 14]])),
    )

    test("a slice that begins at row 1, column 1")
    seen = observe(memory_cells, t[1:, 1:3]).expecting(*known)
    seen.returns(
        torch.tensor([[5, 6], [9, 10]]),
        mistake(no_offset, gives=torch.tensor([[0, 1], [4, 5]])),
        mistake(row_by_row, gives=torch.tensor([[0, 1], [2, 3]])),
        mistake(row_by_row, gives=torch.tensor([[5, 6], [7, 8]])),
        mistake(in_bytes, gives=torch.tensor([[20, 21], [24, 25]])),
        mistake(in_bytes, gives=torch.tensor([[20, 24], [36, 40]])),
    )

# %% check="memory-cells" points=1
"""Any number of dimensions, shared cells, any dtype; the values of t are not read."""
with check("memory-cells") as test:
    test("a slice of a 3x4 tensor, transposed; t is not changed")
    t = torch.tensor([[7.0, 30, 12, 25], [3, 41, 18, 9], [50, 22, 6, 33]])
    seen = observe(memory_cells, t[1:, 1:3].t())
    seen.returns(torch.tensor([[5, 9], [6, 10]]), FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone()

    test("expanded rows and columns: several elements in one cell")
    own_cells = mistake(
        "In an expanded tensor many elements share a cell (stride 0): they must get the same number.",
        when=lambda seen: seen.value.unique().numel() == seen.value.numel(),
    )
    looked_up = mistake(
        "The third row got the cell of the first, which has the same value. Equal values are in different cells.",
        gives=torch.tensor([[0, 0], [1, 1], [0, 0]]),
    )
    seen = observe(memory_cells, torch.tensor([8.0, 5, 9]).expand(4, 3))
    seen.returns(torch.tensor([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), own_cells)
    flags = torch.tensor([[True], [False], [True]])
    seen = observe(memory_cells, flags.expand(3, 2))
    seen.returns(torch.tensor([[0, 0], [1, 1], [2, 2]]), own_cells, looked_up)

    test("a permuted 3-d tensor")
    permuted = (torch.arange(12.0) + 40).reshape(2, 2, 3).permute(2, 0, 1)
    observe(memory_cells, permuted).returns(
        torch.tensor([[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]]),
        mistake(row_by_row, gives=torch.tensor([[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]])),
        mistake("The tensor may have any number of dimensions: {detail}.", stage=("raised", "shape")),
    )

    ### BEGIN HIDDEN TESTS
    def cell_by_cell(t):
        """Offset plus strides, one element at a time."""
        cells = torch.full(t.shape, t.storage_offset())
        for position in torch.cartesian_prod(*map(torch.arange, t.shape)).reshape(-1, t.dim()).tolist():
            cells[tuple(position)] += sum(i * s for i, s in zip(position, t.stride(), strict=True))
        return cells

    four_bytes = mistake(
        "The offset is off: it counts elements of t's dtype, which need not have four bytes each.",
        when=lambda seen: (
            seen.args[0].element_size() != 4 and (seen.value - cell_by_cell(*seen.args)).unique().numel() == 1
        ),
    )
    no_bfloat16 = mistake(
        "NumPy has no bfloat16, so a tensor of that dtype can't go there: {detail}. PyTorch itself knows t's strides.",
        raises="unsupported ScalarType",
    )
    row, many = torch.arange(12.0) * 3 + 20, torch.arange(24.0) * 2 + 50
    for idea, view in [
        ("three overlapping windows", row.unfold(0, 4, 3)),
        ("a diagonal", row.view(3, 4).diagonal(1)),
        ("one dimension, every third element from the second on", row[1::3]),
        ("a channels_last image", many.view(2, 3, 2, 2).to(memory_format=torch.channels_last)),
        ("five dimensions, permuted", many.view(2, 3, 1, 2, 2).permute(4, 2, 0, 3, 1)),
        ("complex numbers, with an offset", torch.complex(row, row).view(3, 4)[1:, ::2]),
        ("int8", (torch.arange(12, dtype=torch.int8) + 50).view(4, 3)[2:].t()),
        ("half the bytes of each number, with an offset", row.view(torch.int16)[5:9]),
        ("bfloat16", row.view(3, 4).bfloat16()[:, 1:]),
        ("a tensor that requires grad", row.view(3, 4)[:, 1:].requires_grad_()),
        ("a square tensor, transposed", many[:9].clone().view(3, 3).t()),
    ]:
        test.hidden(idea)
        seen = observe(memory_cells, view)
        seen.returns(cell_by_cell, four_bytes, no_bfloat16)
        seen.leaves_arguments_alone()

    test.hidden("0-d with an offset")
    observe(memory_cells, row[7]).returns(
        torch.tensor(7),
        mistake("A 0-d tensor lives in one cell, storage_offset(): the result is 0-d too.", shape=(1,)),
        mistake("A 0-d tensor has no dimension and lives in one cell, storage_offset(): {detail}.", stage="raised"),
        mistake(no_offset, gives=torch.tensor(0)),
    )

    test.hidden("empty shapes")
    for empty in (torch.empty(0), torch.empty(2, 0, 3), row.view(3, 4)[1:1]):
        observe(memory_cells, empty).returns(
            torch.empty(empty.shape, dtype=torch.int64),
            mistake("Cell numbers are int64, also where there are none: {detail}", stage="dtype"),
            mistake("An empty tensor has no cells; the result has its shape: {detail}.", stage=("raised", "shape")),
        )

    test.hidden("values that tell nothing: all equal, and nobody reads them")
    for view in (torch.ones(4, 3).t()[1:], torch.ones(3, 4)[:, 2], torch.ones(3).expand(2, 3)):
        seen = observe(memory_cells, view)
        seen.returns(cell_by_cell)
        readers = ", ".join(dict.fromkeys(name for name, _ in seen.reads))
        read = "The values of t were read: {detail}. Shape, strides and offset are enough."
        seen.that(not readers, read, stage="rule", detail=readers)

    def far_out(memory_cells):
        """The cells of three int8 numbers, the last of them in cell 2**24 + 1."""
        return memory_cells(torch.empty(2**24 + 4, dtype=torch.int8)[1 :: 2**23]).tolist()

    test.hidden("a cell above 2**24")
    observe_scenario(far_out, memory_cells).returns(
        [1, 2**23 + 1, 2**24 + 1],
        mistake(
            "Your cell numbers went through float32, which can't tell 2**24 from 2**24 + 1. Compute them as integers.",
            gives=[1, 2**23 + 1, 2**24],
        ),
    )

    def again(memory_cells, t):
        """The cells of a tensor for the second time; the first result was overwritten with zeros."""
        with torch.inference_mode():
            memory_cells(t).zero_()
        return memory_cells(t)

    test.hidden("the second result, where the first was overwritten")
    observe_scenario(again, memory_cells, t[1:, 1:3]).returns(
        torch.tensor([[5, 6], [9, 10]]),
        mistake(
            "The second call returned the tensor of the first, which the caller had overwritten. Each call must create "
            "its own tensor.",
            when=lambda seen: not seen.value.any(),
        ),
    )
    ### END HIDDEN TESTS
