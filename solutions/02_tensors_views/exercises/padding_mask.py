# %% [markdown]
# ### Exercise 2.7 · One write, all rows
#
# fix · warm-up · 8 min · 1 point
#
# A batch of sequences of different lengths needs a mask that says which positions are real. ([Section
# 15.2](../15_attention/attention.ipynb) makes all masks of attention in this way.) This one was meant to save memory.
# For lengths [3, 1, 2], every row is [True, False, False], without an error or a warning. Fix it.
#
# **Contract**
#
# - `mask[b, t]` is True exactly where t < lengths[b].
# - `T=None` means the largest length (0 for an empty batch). A length above T gives a full row, 0 an empty one.
# - The result is bool, is on the device of `lengths` and owns its memory: writing `mask[0, 0]` changes only that
#   element, and nothing in another mask.
# - `lengths` (int64 or int32, none above 2**24) is not changed.
#
# <details><summary>Hint 1</summary>
#
# How many memory cells does the expanded mask have, and to which of them does `mask[1, 1:] = False` write?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# There are two ways. You can give every row its own memory before writing, or write nothing and compare. For the
# second, put the positions 0, 1, 2 above the mask and the lengths 3, 1, 2 beside it. How do you get each element from
# the number of its column and the number of its row?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Compare positions, as one row, with lengths, as one column. Broadcasting makes that (B, T). Make the positions on the
# device of `lengths`. If T is None, it is the largest length as a Python int; an empty batch has no maximum, so there T
# is 0.
#
# </details>


# %% answer="padding-mask"
def padding_mask(lengths: Tensor, T: int | None = None) -> Tensor:
    """Which positions of each sequence are real: (B,) integer lengths -> (B, T) bool."""
    ### BEGIN SOLUTION
    if T is None:
        T = int(lengths.max()) if len(lengths) else 0
    return torch.arange(T, device=lengths.device) < lengths[:, None]
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # T = T if T is not None else int(lengths.max())
    # mask = torch.ones(1, T, dtype=torch.bool).expand(len(lengths), T)  # saves memory
    # for i, n in enumerate(lengths):
    #     mask[i, n:] = False
    # return mask
    ### END GIVEN


# %% check="padding-mask" points=0.5
"""True where t < lengths[b], with the largest length as T or with a T that is given."""
with check("padding-mask") as test:
    test("lengths 3, 1 and 2 give three different rows")
    three = torch.tensor([3, 1, 2])
    real = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]]).bool()
    one_row = (
        "All rows are the same: after expand they are one row of memory, so every write hit all of them. "
        "Give each row its own memory before writing."
    )
    elementwise = (
        "Positions and lengths were compared elementwise: for B == T that silently gives a (T,) result, else it "
        "raises. The lengths must be a column (B, 1)."
    )
    seen = observe(padding_mask, three).expecting(mistake("The mask must be bool: {detail}", stage="dtype"))
    seen.returns(
        real,
        mistake(one_row, gives=torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0]])),
        mistake(
            "Position t belongs to the sequence when t < length; you counted one too many.",
            gives=torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1]]),
        ),
        mistake(elementwise, shape=(3,)),
        mistake("The mask is (T, B): sequences belong in rows.", gives=torch.tensor([[1, 1, 1], [1, 0, 1], [1, 0, 0]])),
        mistake("True marks the real positions, not the padding.", gives=~real),
        mistake(
            "The rows end with the real positions; padding comes after them.",
            gives=torch.tensor([[1, 1, 1], [0, 0, 1], [0, 1, 1]]),
        ),
    )

    test("T is given: longer than all, or shorter than some; a length of 0")
    lengths = torch.tensor([4, 0, 2])
    long = torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]).bool()
    t_ignored = mistake("T was given, but the mask has as many columns as the largest length.", shape=(3, 4))
    observe(padding_mask, lengths, 6).returns(long, t_ignored)
    observe(padding_mask, lengths, 3).returns(torch.tensor([[1, 1, 1], [0, 0, 0], [1, 1, 0]]).bool(), t_ignored)

# %% check="padding-mask" points=0.5
"""Every element has its own memory; empty batches, other dtypes and devices; lengths stay."""
with check("padding-mask") as test:
    test("lengths 3, 1 and 2, and a T of 4; the lengths are not changed")
    three = torch.tensor([3, 1, 2])
    real = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]]).bool()
    seen = observe(padding_mask, three)
    seen.returns(real, FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone()
    observe(padding_mask, three, 4).returns(F.pad(real, (0, 1)), FIRST_CHECK_FIRST)

    test("equal lengths: writing one element changes that element only")
    shared_cell = mistake(
        "The values are right, but several elements share one memory cell (a stride is 0): "
        "a caller's write would change many rows.",
        stage="aliasing",
    )
    seen = observe(padding_mask, torch.tensor([2, 2, 2]), 4).expecting(shared_cell)
    seen.returns(torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]).bool())
    seen.owns_its_memory()
    seen = observe(padding_mask, torch.tensor([3, 3])).expecting(shared_cell)
    seen.returns(torch.ones(2, 3, dtype=torch.bool))
    seen.owns_its_memory()

    ### BEGIN HIDDEN TESTS
    def mask_of_lists(lengths, T=None):
        """The mask from nested lists."""
        numbers = lengths.tolist()
        T = max(numbers, default=0) if T is None else T
        return torch.tensor([[t < n for t in range(T)] for n in numbers], dtype=torch.bool).reshape(len(numbers), T)

    no_maximum = mistake(
        "An empty batch has no maximum: T=None must give shape (0, 0).",
        raises=r"max\(\)|out of bounds for dimension 0 with size 0",
        when=lambda seen: seen.args[1] is None,
    )
    zero_is_none = mistake(
        "T=0 is not T=None: asked for is a mask without columns.", shape=(2, 2), when=lambda seen: seen.args[1] == 0
    )
    no_column = mistake(
        "T is 0 where all lengths are 0 or where there are none: the mask has no column then.",
        stage="shape",
        when=lambda seen: seen.value.shape[1] == 1 and int(seen.args[0].sum()) == 0,
    )
    int32_too = mistake(
        "Lengths may be int32 as well: {detail}.", stage="raised", when=lambda seen: seen.args[0].dtype == torch.int32
    )
    narrow = mistake(
        "Positions or lengths were converted to a dtype that is too narrow. A byte ends at 255 and int16 at 32,767, "
        "and float16 can't tell 2048 from 2049: compare the lengths in their own dtype.",
        stage="value",
        when=lambda seen: seen.args[0].numel() > 0 and int(seen.args[0].max()) > 255,
    )
    empty = torch.empty(0, dtype=torch.int64)
    for idea, lengths, T in [
        ("an empty batch without T", empty, None),
        ("an empty batch with T", empty, 4),
        ("an empty int32 batch", empty.int(), None),
        ("one sequence", torch.tensor([3]), None),
        ("one sequence that is cut", torch.tensor([5]), 2),
        ("T = 0", torch.tensor([2, 1]), 0),
        ("nothing but empty sequences", torch.tensor([0, 0]), None),
        ("int32 lengths", torch.tensor([1, 4, 2, 2], dtype=torch.int32), None),
        ("every second one of many lengths", torch.tensor([3, 9, 1, 9, 4, 9])[::2], 5),
        ("as many sequences as positions", torch.tensor([2, 4, 1, 3]), 4),
        ("a single column", torch.tensor([1, 0, 3]), 1),
        ("more positions than a byte can count", torch.tensor([300, 256, 40]), None),
        ("positions that float16 can't tell apart", torch.tensor([2049, 2050, 3]), 2060),
        ("lengths that int16 can't hold", torch.tensor([40_000, 65_537, 1]), 3),
    ]:
        test.hidden(idea)
        seen = observe(padding_mask, lengths, T).expecting(shared_cell, zero_is_none)
        seen.returns(mask_of_lists, no_maximum, no_column, int32_too, narrow)
        seen.owns_its_memory()
        seen.leaves_arguments_alone()

    def two_masks(padding_mask, lengths):
        """Two masks of the same lengths; the first is overwritten before the second is made."""
        first = padding_mask(lengths, 3)
        first.logical_not_()
        second = padding_mask(lengths, 3)
        return {"first": first, "second": second}

    test.hidden("two masks of the same lengths, the first overwritten before the second is made")
    observe_scenario(two_masks, padding_mask, three).returns(
        {"first": ~real, "second": real},
        mistake("The two masks share their memory. Each call must create its own mask.", stage="value"),
    )

    wrong_device = "The result is on the wrong device: build the mask on the device of lengths."

    def judge_device(seen, device):
        """Judge the result's device. Code that reads a tensor's values can't run on meta: it may raise."""
        mixed = "expected device" in seen.error_text or "same device" in seen.error_text
        if mixed or "meta" not in seen.error_text:
            seen.returns(device, mistake(wrong_device, when=lambda seen: mixed or not seen.error_text))

    def device_of_mask(padding_mask, lengths):
        """The device of the mask."""
        return padding_mask(lengths, 5).device.type

    def device_by_default(padding_mask, lengths):
        """The device of the mask when tensors are made on meta unless someone names another device."""
        with torch.device("meta"):
            return padding_mask(lengths, 5).device.type

    test.hidden("lengths on another device than the default one")
    on_meta = torch.empty(3, dtype=torch.int64, device="meta")
    judge_device(observe_scenario(device_of_mask, padding_mask, on_meta), "meta")
    judge_device(observe_scenario(device_by_default, padding_mask, torch.tensor([4, 0, 2])), "cpu")
    ### END HIDDEN TESTS
