# %% [markdown]
# ### Exercise 12.1 · All windows of a text, without copying it
#
# implement · warm-up · 10 min · 1 point
#
# In each step a model learns from a few windows of the text, so all windows must be cheap to get. This exercise builds
# on chapter 2: views, strides, and who owns the memory.
#
# **Contract**
#
# - `ids` is (N,), of any integer dtype. Return a tuple (x, y) of two tensors (N - length, length) of the same dtype.
#   Row i of x has ids i to i + length - 1, and row i of y has the ids one position later. So y[i, t] is what follows
#   x[i, t] in the text.
# - x and y are views of `ids`: they share its memory, even if `ids` itself is a view with a stride and an offset.
# - `ids` is not changed. If `length` < 1 or N <= `length`, raise `ValueError`. A single row is allowed.
#
# **Rule.** Allocate no memory for the windows.
#
# <details><summary>Hint 1</summary>
#
# How many rows have a last target? And which method of chapter 2 makes windows that overlap?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each row needs `length` ids, and one more id for its last target. Start with windows of that size.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# First reject a text that is too short. Then `unfold` makes the longer windows, each shifted by one id from the last.
# Inputs and targets are two slices of these windows: which column does each leave out?
#
# </details>


# %% answer="text-windows"
def windows(ids: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """All windows of a text and what follows: ids (N,) -> x, y, both (N - length, length).

    Both are views of ids. Raises ValueError for length < 1 or N <= length.
    """
    ### BEGIN SOLUTION
    if not 1 <= length < len(ids):
        raise ValueError(f"no windows of {length} with targets in {len(ids)} ids")
    both = ids.unfold(0, length + 1, 1)
    return both[:, :-1], both[:, 1:]
    ### END SOLUTION


# %% check="text-windows" points=1
"""Row i of x starts at id i, y is one id later, and both share the memory of the text."""
with check("text-windows") as test:

    def from_places(first, apart=1):
        """A function that makes windows which begin at `first`, `apart` ids from each other, id by id."""

        def made(ids, length):
            starts = range(0, len(ids) - length, apart)
            rows = [[int(ids[(i + first + t) % len(ids)]) for t in range(length)] for i in starts]
            return torch.tensor(rows, dtype=ids.dtype)

        return made

    def are(x_first, y_first, apart=1):
        """A function that says whether x and y are windows that begin at these places."""

        def ask(seen):
            wanted = [from_places(first, apart)(*seen.args) for first in (x_first, y_first)]
            return all(torch.equal(came, one) for came, one in zip(seen.value, wanted, strict=True))

        return ask

    def text_of(seen):
        """The ids as they are after the call."""
        return next(iter(seen.noted.arguments.values()))

    def shapes(seen):
        """The shapes of x and y."""
        return [tuple(tensor.shape) for tensor in seen.value]

    def follow(windows, ids, length):
        """Take the windows and add 1 to every id of the text: do the windows follow?"""
        pairs = [(tensor, tensor + 1) for tensor in windows(ids, length)]
        ids += 1
        return all(torch.equal(tensor, wanted) for tensor, wanted in pairs)

    def judge(seen, *known):
        """Judge the windows, then their memory."""
        ids, length = seen.args
        rows = len(ids) - length
        expected = from_places(0)(ids, length), from_places(1)(ids, length)
        seen.returns(
            expected,
            mistake(
                "Your code changed the text. Leave `ids` as it is.",
                when=lambda seen: not torch.equal(text_of(seen), seen.args[0]),
            ),
            mistake(
                "y equals x: the target of a position is the NEXT id. Otherwise the model learns to copy.",
                when=lambda seen: torch.equal(*seen.value),
            ),
            mistake(
                "The last target is the first id of the text, because roll() moves an id from one end to the other.",
                when=lambda seen: "roll" in seen.op_names() and seen.value[1][-1, -1] == seen.args[0][0],
            ),
            mistake("y is shifted the wrong way: y[i, t] must follow x[i, t], not precede it.", when=are(1, 0)),
            mistake("y is too far on: y[i, t] is the very next id after x[i, t].", when=are(0, 2)),
            mistake(
                "Your windows do not overlap. Row i must start at id i, so that each id appears at every "
                "position of a window.",
                when=are(0, 1, length),
                stage="shape",
            ),
            mistake(
                "Your windows are columns. Each window is a row, so x and y are (N - length, length).",
                when=lambda seen: shapes(seen) == [(length, rows)] * 2 and rows != length,
            ),
            mistake(
                "Each position has a target, so y must have the shape of x. Your y has one target for a whole window.",
                when=lambda seen: shapes(seen)[0] == (rows, length) and shapes(seen)[1] in [(rows,), (rows, 1)],
            ),
            mistake(
                "There must be N - length rows, because each row needs length ids and one more id for the last target.",
                stage="shape",
                when=lambda seen: all(shape[1:] == (length,) for shape in shapes(seen)),
            ),
            mistake("x and y are (N - length, length): {detail}.", stage="shape"),
            mistake("x and y must have the dtype of the ids: {detail}.", stage="dtype"),
            mistake("A single row must work, and so must a length of 1: {detail}.", raises="^ValueError"),
            *known,
        )
        memory = text_of(seen).untyped_storage()
        for name, tensor in zip("xy", seen.value, strict=True):
            own = tensor.untyped_storage()
            seen.that(
                own._cdata == memory._cdata or observe_scenario(follow, windows, ids, length).value,
                f"{name} does not share the memory of `ids`, because your code made a copy. Return views.",
                mistake(
                    "The windows have their own memory. With length 128 this is 128 times the text. Return views "
                    "of `ids`.",
                    when=lambda seen, own=own: own.nbytes() > memory.nbytes(),
                ),
                stage="aliasing",
            )
        seen.leaves_arguments_alone()

    test("ten ids, windows of four")
    judge(observe(windows, torch.tensor([7, 3, 9, 14, 2, 11, 5, 8, 12, 6]), 4))

    test("a longer text, windows of three; what is written into the text later shows in the windows")

    def write_after(windows, ids):
        """Take windows of three, write into the text, return the windows."""
        x, y = windows(ids, 3)
        ids[4] = 99
        return x, y

    judge(observe(windows, torch.arange(40, 60), 3))
    seen = observe_scenario(write_after, windows, torch.tensor([5, 6, 8, 9, 4, 7]))
    seen.returns((torch.tensor([[5, 6, 8], [6, 8, 9], [8, 9, 99]]), torch.tensor([[6, 8, 9], [8, 9, 99], [9, 99, 7]])))

    ### BEGIN HIDDEN TESTS
    def with_strides(offset, stride):
        """A function that makes x with this offset and this stride in the storage of ids."""

        def made(ids, length):
            size = len(ids) - length, length
            offset_of = ids.storage_offset() if offset is None else offset
            return ids.as_strided(size, (stride or ids.stride(0),) * 2, offset_of)

        return made

    def starts_with(offset, stride):
        """A function that says whether x or y has been cut with this offset and this stride."""

        def ask(seen):
            ids, length = seen.args
            first = with_strides(offset, stride)(ids, length)
            after = with_strides((offset or 0) + 1 if offset is not None else None, stride)(ids, length)
            return torch.equal(seen.value[0], first) or torch.equal(seen.value[1], after)

        return ask

    where_it_begins = [
        mistake(
            "`ids` may start anywhere in its storage, and storage_offset counts elements of the storage, not ids.",
            when=starts_with(0, None),
        ),
        mistake(
            "For `ids` with a stride your values are wrong. The stride of a view is not always 1.",
            when=starts_with(None, 1),
        ),
    ]
    numbers = torch.arange(60) * 3 + 1
    for idea, ids, length in [
        ("every third id of a longer text", numbers[::3], 5),
        ("a piece out of the middle", numbers[7:20], 4),
        ("a column of a matrix", numbers.reshape(12, 5)[2:, 3], 3),
        ("bytes", (numbers % 251).to(torch.uint8), 8),
        ("int32 with a stride", numbers.int()[1::2], 6),
        ("one row", numbers[:6], 5),
        ("one row, length 1", numbers[4:6], 1),
        ("length 1", numbers[:9], 1),
        ("as many rows as columns", numbers[:8], 4),
    ]:
        test.hidden(idea)
        judge(observe(windows, ids, length), *where_it_begins)

    for length, count in [(0, 6), (-1, 6), (6, 6), (7, 6), (9, 6), (1, 1), (1, 0), (0, 0)]:
        test.hidden("a length below 1, and texts that are too short")
        seen = observe(windows, numbers[:count], length)
        because = "A length below 1, or a text that is too short for it, must raise ValueError."
        none_left = mistake(
            "If N = length, the last position has no target and there is no row, so this must raise ValueError.",
            when=lambda seen: len(seen.args[0]) == seen.args[1],
        )
        seen.raises(ValueError, because=because, mistakes=[none_left])
    ### END HIDDEN TESTS
