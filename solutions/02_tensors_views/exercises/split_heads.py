# %% [markdown]
# ### Exercise 2.3 · Attention heads: one silent bug, one loud one
#
# debug · solid · 15 min · 3 points
#
# Multi-head attention cuts the channels of every position into h heads of D channels each, and later joins them again.
# In the code below, `split_heads` is wrong silently: a model trains with it, without an error, but its heads get
# scrambled channels. `merge_heads` raises on attention's output: "view size is not compatible with input tensor's size
# and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead." Fix both.
#
# **Contract**
#
# - `split_heads(x, h)` turns (B, T, h\*D) into (B, h, T, D). Head k of position t is the block of channels k\*D to
#   (k+1)\*D - 1 of that position: `split_heads(x, h)[b, k, t]` equals `x[b, t, k*D:(k+1)*D]`. If h does not divide the
#   width, it raises `ValueError`.
# - `merge_heads(y)` is the inverse: (B, h, T, D) becomes (B, T, h\*D). It may copy.
# - Both work for empty batches and sequences, and for inputs that are not contiguous, such as a slice `qkv[..., :C]` or
#   a transposed (T, B, C) batch. Gradients flow through both.
#
# **Rule.** `split_heads` returns a view: it shares x's storage, whatever x looks like, so that a write into a head
# shows up in x.
#
# <details><summary>Hint 1</summary>
#
# `view` keeps the elements in their old order and only changes where the brackets are. Which two numbers are next to
# each other in memory: two channels of one position, or one channel of two positions?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Take an example with two positions, four channels, 0 to 7, and two heads. Head 0 has 0, 1 of the first position and 4,
# 5 of the second. Which dimension has to be split for that, and which shape do you have before you swap anything? And
# on the way back, what is next to what in memory once two dimensions have been swapped?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# First refuse a C that h doesn't divide. Then split the last dimension into h heads of C // h channels, leaving it
# where it is, and swap the dimensions of heads and positions. On the way back, swap first. The result is not row-major
# any more, so merging the last two dimensions needs the function that copies when it must.
#
# </details>


# %% answer="split-heads"
### BEGIN SOLUTION
def split_heads(x: Tensor, h: int) -> Tensor:
    """Give each of h heads its block of channels: (B, T, h*D) -> (B, h, T, D), a view of x.

    Raises ValueError when h does not divide the number of channels.
    """
    B, T, C = x.shape
    if C % h:
        raise ValueError(f"{h} heads can't share {C} channels")
    return x.view(B, T, h, C // h).transpose(1, 2)


def merge_heads(y: Tensor) -> Tensor:
    """Put the heads' blocks of channels side by side again: (B, h, T, D) -> (B, T, h*D)."""
    B, h, T, D = y.shape
    return y.transpose(1, 2).reshape(B, T, h * D)


### END SOLUTION
### BEGIN GIVEN
# def split_heads(x: Tensor, h: int) -> Tensor:
#     """Give each of h heads its block of channels: (B, T, h*D) -> (B, h, T, D), a view of x.
#
#     Raises ValueError when h does not divide the number of channels.
#     """
#     raise NotImplementedError  # fix the code below, then delete this line
#     B, T, C = x.shape
#     return x.view(B, h, T, C // h)
#
#
# def merge_heads(y: Tensor) -> Tensor:
#     """Put the heads' blocks of channels side by side again: (B, h, T, D) -> (B, T, h*D)."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     B, h, T, D = y.shape
#     return y.transpose(1, 2).view(B, T, h * D)
### END GIVEN


# %% helpers="split-heads"
def numbered(*shape):
    """The numbers 1, 2, 3, ... in the given shape."""
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape)


copied = mistake(
    "split_heads copied the data. Splitting one dimension and swapping two never needs a copy.", stage="aliasing"
)
not_viewable = mistake(
    "view cannot express the merged dimensions: after the transpose, heads and channels of one position do not lie "
    "in one run. Copy explicitly (contiguous, or reshape, which copies when it must).",
    raises="view size is not compatible",
)


# %% check="split-heads" points=1
"""split_heads: head k is the k-th block of channels of each position, as a view of x."""
with check("split-heads") as test:
    test("split: 6 channels, 3 heads: each head gets a block of 2 channels")
    x = numbered(2, 5, 6)
    heads = torch.empty(2, 3, 5, 2)
    for b in range(2):
        for k in range(3):
            for t in range(5):
                heads[b, k, t] = x[b, t, 2 * k : 2 * k + 2]
    not_blocks = mistake(
        "Head k must be one block of D neighbouring channels; you gave it every h-th channel.",
        gives=lambda x, h: torch.stack([x[..., k::h] for k in range(h)], dim=1),
    )
    seen = observe(split_heads, x, 3).expecting(not_blocks, copied)
    seen.returns(
        heads,
        mistake(
            "The shape is right, the content is scrambled: viewing (B, T, C) directly as (B, h, T, D) cuts the memory "
            "of *positions*, not of channels. Split the last dimension first, then swap dimensions.",
            gives=x.reshape(2, 3, 5, 2),
        ),
        mistake("The last two dimensions are exchanged: asked for is (B, h, T, D).", shape=(2, 3, 2, 5)),
        mistake("Heads must come before positions: asked for is (B, h, T, D).", shape=(2, 5, 3, 2)),
    )
    seen.shares_memory_with(0)

    test("split: writing into a head shows in x")

    def write_into_a_head(split_heads, x):
        """Write into channel 1 of head 2 at position 4 of the second example and return x."""
        split_heads(x, 3)[1, 2, 4, 1] = 100.0
        return x

    written = x.clone()
    written[1, 4, 5] = 100.0
    observe_scenario(write_into_a_head, split_heads, x).returns(written)

# %% check="split-heads" points=1
"""merge_heads: the heads' blocks side by side again."""
with check("split-heads") as test:
    test("merge: a fresh (B, h, T, D) tensor, as attention produces it")
    heads = numbered(2, 3, 5, 2)
    merged = torch.empty(2, 5, 6)
    for b in range(2):
        for t in range(5):
            for k in range(3):
                merged[b, t, 2 * k : 2 * k + 2] = heads[b, k, t]
    seen = observe(merge_heads, heads).expecting(not_viewable)
    seen.returns(
        merged,
        mistake(
            "merge_heads put the blocks back in the wrong order: exchange the dimensions before flattening.",
            gives=heads.reshape(2, 5, 6),
        ),
        mistake(
            "Head k must be one block of D neighbouring channels; you gave it every h-th channel.",
            gives=torch.stack([merged[..., i] for i in (0, 2, 4, 1, 3, 5)], dim=-1),
        ),
        mistake("One dimension too many: the heads' blocks form one row of h*D channels.", shape=(2, 5, 3, 2)),
    )

    test("merge: the heads of x give x back")
    x = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    heads = torch.tensor(
        [
            [[[1.0, 2], [5, 6], [9, 10]], [[3, 4], [7, 8], [11, 12]]],
            [[[13, 14], [17, 18], [21, 22]], [[15, 16], [19, 20], [23, 24]]],
        ]
    )
    observe(merge_heads, heads).expecting(not_viewable).returns(
        x, mistake("There are two heads here: their number is that of dimension 1 of y.", stage="shape")
    )

    test("merge: a tensor that is not contiguous")
    heads = numbered(3, 2, 5, 2).transpose(0, 1)
    merged = torch.empty(2, 5, 6)
    for b in range(2):
        for t in range(5):
            for k in range(3):
                merged[b, t, 2 * k : 2 * k + 2] = heads[b, k, t]
    observe(merge_heads, heads).expecting(not_viewable).returns(merged)

# %% check="split-heads" points=1
"""Both cope with awkward layouts, sizes and dtypes; gradients pass; a width must fit."""
with check("split-heads") as test:
    not_yet = mistake(
        "One of the checks above is not passed yet, and this one goes on from there: begin with that one.",
        when=lambda seen: True,
    )

    test("two positions, four channels, two heads; the arguments are not changed")
    x = numbered(1, 2, 4)
    heads = torch.tensor([[[[1.0, 2], [5, 6]], [[3, 4], [7, 8]]]])
    seen = observe(split_heads, x, 2)
    seen.returns(heads, not_yet)
    seen.shares_memory_with(0, not_yet)
    seen.leaves_arguments_alone()
    seen = observe(merge_heads, heads)
    seen.returns(x, not_yet)
    seen.leaves_arguments_alone()

    test("split: 7 channels can't be shared by 2 heads")
    seen = observe(split_heads, torch.ones(2, 5, 7), 2)
    seen.raises(ValueError, because="A width that is no multiple of h must raise ValueError; {detail}.")

    ### BEGIN HIDDEN TESTS
    def expected_heads(x, h):
        """The blocks of channels, stacked as heads."""
        return torch.stack(x.tensor_split(h, dim=-1), dim=1)

    def fresh_strides(x, h):
        """What you get with the strides that a fresh tensor of x's shape would have."""
        B, T, C = x.shape
        return x.as_strided((B, h, T, C // h), (T * C, C // h, C, 1))

    def side_one(x, h):
        """What you get when the last stride is taken to be 1."""
        B, T, C = x.shape
        return x.as_strided((B, h, T, C // h), (x.stride(0), C // h, x.stride(1), 1))

    fresh_only = (
        "It works for a fresh x only: a slice of a fused projection has other strides. Derive strides from x, "
        "or use an operation that does."
    )
    for idea, awkward in [
        ("split: the middle third of a fused (B, T, 3C) projection", numbered(2, 5, 18)[..., 6:12]),
        ("split: a batch that was transposed from (T, B, C)", numbered(5, 2, 6).transpose(0, 1)),
        ("split: every second position", numbered(2, 10, 6)[:, ::2]),
        ("split: every second channel", numbered(2, 5, 12)[..., ::2]),
        ("split: one example, expanded to a batch", numbered(1, 5, 6).expand(2, 5, 6)),
    ]:
        test.hidden(idea)
        seen = observe(split_heads, awkward, 3).expecting(
            mistake(fresh_only, gives=fresh_strides),
            mistake(fresh_only, raises="view size is not compatible"),
            mistake(
                "Two channels of one position need not be neighbours in memory: take x.stride(-1).",
                gives=side_one,
                stage="value",
            ),
            copied,
        )
        seen.returns(expected_heads)
        seen.shares_memory_with(0)

    ambiguous = mistake("-1 cannot be inferred for an empty tensor: compute the sizes.", raises="ambiguous")
    for idea, shape, h in [
        ("split: one head", (2, 5, 6), 1),
        ("split: heads of one channel", (2, 5, 6), 6),
        ("split: one position", (2, 1, 6), 3),
        ("split: an empty batch", (0, 5, 6), 3),
        ("split: an empty sequence", (2, 0, 6), 3),
    ]:
        test.hidden(idea)
        seen = observe(split_heads, numbered(*shape), h).expecting(copied)
        seen.returns(expected_heads, ambiguous)
        if 0 not in shape:
            seen.shares_memory_with(0)

    test.hidden("split: float64 and int64")
    for x in (numbered(2, 5, 6).double(), torch.arange(60).reshape(2, 5, 6)):
        seen = observe(split_heads, x, 2).expecting(copied)
        seen.returns(expected_heads)
        seen.shares_memory_with(0)

    test.hidden("split: gradients come back to the right channels")
    seen = observe(split_heads, numbered(2, 5, 6).requires_grad_(), 3).expecting(copied)
    seen.shares_memory_with(0)
    seen.gives_gradients(
        expected_heads, mistake("The gradient does not flow back correctly: {detail}", stage="gradient")
    )

    def side_by_side(y):
        """The heads' blocks, concatenated."""
        return torch.cat(y.unbind(1), dim=-1)

    for idea, y in [
        ("merge: a view, as split_heads returns it", numbered(2, 5, 3, 2).transpose(1, 2)),
        ("merge: every second channel of larger heads", numbered(2, 3, 5, 4)[..., ::2]),
        ("merge: one head", numbered(2, 1, 5, 6)),
        ("merge: heads of one channel", numbered(2, 6, 5, 1)),
        ("merge: one position", numbered(2, 3, 1, 2)),
        ("merge: an empty batch", numbered(0, 3, 5, 2)),
        ("merge: an empty sequence", numbered(2, 3, 0, 2)),
        ("merge: float64", numbered(2, 3, 5, 2).double()),
        ("merge: int64", torch.arange(60).reshape(2, 3, 5, 2)),
    ]:
        test.hidden(idea)
        keeps_dtype = mistake(
            "The merged tensor has the dtype of y: {detail}. (torch.empty takes the default dtype unless told.)",
            stage="dtype",
        )
        observe(merge_heads, y).returns(side_by_side, not_viewable, ambiguous, keeps_dtype)

    def merged_twice(merge_heads, y):
        """Merge y and then -y."""
        return {"first": merge_heads(y), "second": merge_heads(-y)}

    test.hidden("merge: two tensors of one shape")
    y = numbered(2, 3, 5, 2)
    observe_scenario(merged_twice, merge_heads, y).returns(
        {"first": side_by_side(y), "second": side_by_side(-y)},
        mistake(
            "The second call wrote into the result of the first. Each call must create its own tensor.",
            stage="value",
            when=lambda seen: torch.equal(seen["first"], seen["second"]),
        ),
    )

    test.hidden("merge: gradients come back to the right heads")
    seen = observe(merge_heads, numbered(2, 3, 5, 2).requires_grad_())
    seen.gives_gradients(side_by_side, mistake("The gradient does not flow back correctly: {detail}", stage="gradient"))
    ### END HIDDEN TESTS
