# %% [markdown]
# ### Exercise 2.9 · Overlapping windows without copying
#
# implement · long · 18 min · 3 points
#
# Moving averages, frames of audio and patches of a long sequence all begin with overlapping windows. If you copy them,
# they need `size` times the memory; with the right strides they need none.
#
# **Contract**
#
# - `out[..., i, j] == x[..., i * step + j]`: (..., T) becomes (..., n, size), with n = (T - size) // step + 1 windows.
#   An incomplete last window is left out. Any number of leading dimensions is kept.
# - The result is a view of x, whatever x looks like (contiguous or not, with an offset, expanded). A later write to x
#   shows up in every window that contains the element.
# - size < 1, step < 1 or size > T raises `ValueError`.
# - Gradients flow: an element's gradient is the sum over all windows that contain it. (In an expanded x, elements that
#   share a cell may each get the mean of their gradients.)
#
# **Rule.** Nothing may be copied, so use no operation that reads the elements of x (stack, cat, gather, index, clone,
# contiguous and the like).
#
# <details><summary>Hint 1</summary>
#
# How many memory cells is it from one window to the next, and from one element of a window to the next, in terms of
# x.stride(-1)?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The last dimension becomes two, with strides (step \* s, s), where s is x's own last stride; all leading strides and
# the offset are kept. The general tool takes size, stride and offset. One Tensor method, which you met in the explorer
# of section 2.1, does exactly this along a dimension of your choice.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# First refuse a bad size or step. Then either call the method of the explorer on the last dimension, or call the
# general tool. The general tool needs x's own sizes and strides for the leading dimensions, the number of windows and
# the window size with the two strides of hint 2, and x's own offset.
#
# </details>


# %% answer="sliding-windows"
def windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """All windows of `size` neighbours along the last dimension, `step` apart, as a view of x.

    (..., T) -> (..., n, size). Raises ValueError for size < 1, step < 1 or size > T.
    """
    ### BEGIN SOLUTION
    if not 1 <= size <= x.shape[-1] or step < 1:
        raise ValueError(f"no windows of {size} with step {step} in {x.shape[-1]} elements")
    return x.unfold(-1, size, step)
    ### END SOLUTION


# %% helpers="sliding-windows"
not_copied = [
    mistake(
        "What comes back from NumPy has neither x's storage nor x's graph: stay with PyTorch's views.",
        stage="aliasing",
        when=lambda seen: "numpy" in seen.op_names(),
    ),
    mistake(
        "The windows were copied ({detail}). With the right strides they can overlap in the same memory.",
        stage="aliasing",
    ),
    mistake(
        "The view does not belong to the autograd graph: gradients must flow to x.",
        stage="gradient",
        when=lambda seen: not seen.noted.tracked,
    ),
    mistake("The windows have the dtype of x: {detail}. A view keeps it.", stage="dtype"),
]


# %% check="sliding-windows" points=2
"""Window i begins at i * step, and all windows look into the memory of x."""
with check("sliding-windows") as test:

    def one_by_one(x, size, step=1):
        """The windows of a 1-d x, element by element."""
        count = (len(x) - size) // step + 1
        rows = [[x[i * step + j].item() for j in range(size)] for i in range(count)]
        return torch.tensor(rows, dtype=x.dtype).reshape(count, size)

    def spread(x, size, step=1):
        """The elements of a window are step apart, windows begin one apart."""
        count = (len(x) - size) // step + 1
        return torch.tensor([[x[i + j * step].item() for j in range(size)] for i in range(count)])

    for step in (1, 2, 3, 4):
        test(f"windows of 4 in ten numbers, step {step}")
        seen = observe(windows, torch.arange(10, 20), 4, step).expecting(*not_copied)
        seen.returns(
            one_by_one,
            mistake(
                "One window is missing: there are (T - size) // step + 1 of them.",
                gives=lambda x, size, step: one_by_one(x, size, step)[:-1],
            ),
            mistake(
                "step was ignored: windows start every `step` elements.",
                gives=lambda x, size, step: one_by_one(x, size),
                stage=("shape", "value"),
            ),
            mistake(
                "step spreads the elements inside a window; it should move the window.",
                gives=spread,
                stage=("shape", "value"),
            ),
            mistake(
                "Your windows do not overlap: consecutive windows start `step` apart, not `size`.",
                gives=lambda x, size, step: one_by_one(x, size, size),
                stage=("shape", "value"),
            ),
            mistake(
                "Each window is a column: asked for is (n, size), one window in each row.",
                gives=lambda x, size, step: one_by_one(x, size, step).t(),
            ),
            mistake("An incomplete last window is left out; yours reads beyond the end of x.", raises="setStorage"),
        )
        seen.shares_memory_with(0)

    test("a (2, 3, 8) batch, size 3, step 2")
    batch = torch.arange(100, 148).reshape(2, 3, 8)
    seen = observe(windows, batch, 3, 2).expecting(*not_copied)
    seen.returns(
        torch.stack([torch.stack([one_by_one(line, 3, 2) for line in lines]) for lines in batch]),
        mistake("Leading dimensions must stay as they are: {detail}", stage="shape"),
        mistake("The windows run along the last dimension, T: {detail}.", stage="raised"),
    )
    seen.shares_memory_with(0)

    test("a later write to x shows in every window that contains the element")

    def write_after(windows, x):
        """Take windows, write into x, return the windows."""
        out = windows(x, 3)
        x[2] = 77
        return out

    observe_scenario(write_after, windows, torch.tensor([5, 6, 8, 9, 4])).returns(
        torch.tensor([[5, 6, 77], [6, 77, 9], [77, 9, 4]])
    )

# %% check="sliding-windows" points=1
"""Any layout of x, sizes and steps at their ends; what makes no sense raises; gradients add up."""
with check("sliding-windows") as test:
    batch = torch.arange(100, 148).reshape(2, 3, 8)

    test("a (2, 3, 8) batch, size 3, step 2; x is not changed")
    seen = observe(windows, batch, 3, 2)
    starts = [batch[..., i : i + 3] for i in (0, 2, 4)]
    seen.returns(torch.stack(starts, dim=2), FIRST_CHECK_FIRST)
    seen.shares_memory_with(0, FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    def by_slices(x, size, step=1):
        """The windows as stacked slices."""
        return torch.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], dim=-2)

    def fresh_strides(x, size, step=1):
        """What you get with the strides that a fresh tensor of x's shape would have."""
        count = (x.shape[-1] - size) // step + 1
        return x.as_strided((*x.shape[:-1], count, size), (*torch.empty(x.shape).stride()[:-1], step, 1))

    def row_strides(x, size, step=1):
        """What you get when only the last stride is taken to be 1."""
        count = (x.shape[-1] - size) // step + 1
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step, 1))

    def from_cell_0(x, size, step=1):
        """What you get when x is taken to begin at the start of its storage."""
        count, s = (x.shape[-1] - size) // step + 1, x.stride(-1)
        return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * s, s), 0)

    fresh_only = (
        "It works for a fresh tensor only: you computed the strides from the shape. "
        "A transposed or sliced x has its own: use x.stride()."
    )
    at_start = mistake(
        "The windows begin at the start of the storage, not at x's first element: keep x.storage_offset().",
        gives=from_cell_0,
        stage="value",
    )
    allowed = mistake(
        "A size of T gives one window, and so does a step that leads beyond the end: both are allowed. {detail}.",
        raises="ValueError",
    )
    apart = mistake(
        "Consecutive windows start `step` apart, also where that leaves gaps.",
        gives=lambda x, size, step: by_slices(x, size, size),
    )
    numbers = torch.arange(60) * 3 + 1
    for idea, x, size, step in [
        ("a transposed matrix", numbers.reshape(10, 6).t(), 4, 2),
        ("a slice with an offset", numbers[7:20], 5, 3),
        ("every second element", numbers[1::2], 4, 1),
        ("columns out of the middle of a matrix", numbers.reshape(6, 10)[1:4, 2:9], 3, 2),
        ("an expanded row", numbers[:8].expand(3, 8), 3, 2),
        ("one number, expanded", numbers[4:5].expand(6), 3, 1),
        ("a permuted 3-d tensor", numbers.reshape(3, 5, 4).permute(2, 0, 1), 2, 2),
        ("size = T", numbers[:7], 7, 3),
        ("size = 1", numbers[:7], 1, 2),
        ("a step larger than the tensor", numbers[:7], 3, 9),
        ("steps larger than the windows", numbers[:13], 2, 5),
        ("an incomplete last window", numbers[:12], 4, 3),
        ("a last window that just fits", numbers[:13], 4, 3),
        ("bool", numbers[:9] % 2 == 0, 4, 2),
        ("float64, four dimensions", torch.arange(48.0, dtype=torch.float64).reshape(2, 1, 3, 8), 3, 1),
        ("an empty batch", torch.empty(0, 8), 3, 2),
    ]:
        test.hidden(idea)
        seen = observe(windows, x, size, step).expecting(*not_copied)
        seen.returns(
            by_slices,
            mistake(fresh_only, gives=fresh_strides, stage="value"),
            mistake(fresh_only, gives=row_strides, stage="value"),
            at_start,
            mistake(
                "An empty batch has no window: {detail}.", stage="raised", when=lambda seen: not seen.args[0].numel()
            ),
            allowed,
            apart,
        )
        seen.shares_memory_with(0)
        readers = ", ".join(
            dict.fromkeys(name for name, _ in seen.reads if name != "set_")
        )  # set_ only takes a storage
        seen.that(
            not readers,
            "The windows were copied ({detail}). With the right strides they can overlap in the same memory.",
            stage="rule",
            detail=readers,
        )

    test.hidden("step is 1 when it is not given")
    observe(windows, numbers[:7], 3).returns(by_slices)

    for size, step in [(0, 1), (-1, 1), (8, 1), (3, 0), (3, -1), (8, 0)]:
        test.hidden("sizes and steps that make no sense")
        seen = observe(windows, numbers[:7], size, step)
        seen.raises(ValueError, because=f"size={size} and step={step} for T = 7 must raise ValueError.")
    test.hidden("sizes and steps that make no sense, with leading dimensions")
    seen = observe(windows, batch, 9)
    seen.raises(ValueError, because="size=9 for a (2, 3, 8) tensor must raise ValueError: T is its last dimension.")

    for idea, x in [
        ("gradients: every window passes its own on", torch.arange(9.0, requires_grad=True)),
        ("gradients of a batch", torch.arange(18.0).reshape(2, 9).requires_grad_()),
        ("gradients of a transposed leaf", torch.arange(18.0).reshape(9, 2).t().requires_grad_()),
    ]:
        test.hidden(idea)
        seen = observe(windows, x, 4, 2).expecting(
            mistake(
                "You changed a view of x in place, which autograd refuses if x is a leaf that requires grad: {detail}. "
                "`as_strided` and `unfold` return a new view.",
                raises="view of a leaf",
            ),
            *not_copied,
        )
        seen.gives_gradients(
            by_slices, because="The gradient of an element is the sum over all windows that contain it: {detail}"
        )
        seen.shares_memory_with(0)
    ### END HIDDEN TESTS
