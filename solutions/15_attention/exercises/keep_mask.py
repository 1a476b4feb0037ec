# %% [markdown]
# ### Exercise 15.2 · One function for every mask
#
# implement · solid · 15 min · 2 points
#
# A chunk of a long prompt, one new token behind a cache, a sliding window, several documents packed into one row, a
# batch with padding: each needs a different mask, and people write each of them anew. One comparison of positions makes
# them all.
#
# **Contract**
#
# - `query_positions` and `query_documents` are (Q,) or (B, Q), `key_positions` and `key_documents` are (K,) or (B, K),
#   in any combination, and all are int32 or int64. `valid` is (K,) or (B, K) bool. A tensor without a batch dimension
#   applies to every row, and B is 1 if none of them has one.
# - The result is (B, 1, Q, K) bool, on the device of the positions. It is True exactly where the key's position isn't
#   after the query's and all other conditions that are given hold. With `window`, the key must be less than `window`
#   positions before the query, so `window=1` leaves only the query's own position. With documents, both must be in the
#   same document. With `valid`, the key must be valid; it doesn't matter whether the query is.
# - Positions are compared, never counted from the shapes: they may start anywhere, be in any order, and differ from row
#   to row. Q or K may be 0. The arguments are not changed.
# - A window below 1 raises ValueError, and so do documents for only the queries or only the keys.
# - You may assume that differences of positions, and positions plus or minus `window`, fit into their dtype.
#
# **Rule.** No loop over queries, keys or rows: the number of operations doesn't grow with any of them (it is recorded),
# and `tolist` isn't called. The check can't see loops over NumPy arrays, so please keep to the rule there.
#
# <details><summary>Hint 1</summary>
#
# Take one query and one key. Which comparisons decide whether the query may look?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Let broadcasting compare all pairs at once. Where does each tensor of queries need a dimension of size 1, and where
# does each tensor of keys?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Queries get a last dimension of size 1, and keys get one before their last. Start with the order of the positions and
# combine it with whatever else is given by "and". Whether there is a batch is only known at the end: then insert the
# dimensions that the result still lacks.
#
# </details>


# %% answer="keep-mask"
def keep_mask(
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    window: int | None = None,
    query_documents: Tensor | None = None,
    key_documents: Tensor | None = None,
    valid: Tensor | None = None,
) -> Tensor:
    """True where a query may look at a key, ready for scaled_dot_product_attention.

    query_positions, query_documents: (Q,) or (B, Q) int; key_positions, key_documents: (K,) or
    (B, K) int; valid: (K,) or (B, K) bool; returns (B, 1, Q, K) bool.
    """
    ### BEGIN SOLUTION
    if window is not None and window < 1:
        raise ValueError(f"a window has at least 1 position, not {window}")
    if (query_documents is None) != (key_documents is None):
        raise ValueError("documents are needed for both queries and keys")
    queries, keys = query_positions[..., None], key_positions[..., None, :]
    keep = keys <= queries
    if window is not None:
        keep = keep & (queries - keys < window)
    if query_documents is not None and key_documents is not None:
        keep = keep & (query_documents[..., None] == key_documents[..., None, :])
    if valid is not None:
        keep = keep & valid[..., None, :]
    return keep[None, None] if keep.dim() == 2 else keep[:, None]
    ### END SOLUTION


# %% helpers="keep-mask"
def comparing(
    order=torch.ge,
    near=lambda queries, keys, window: queries - keys < window,
    same=torch.eq,
    seen=lambda valid: valid[..., None, :],
):
    """A function like `keep_mask` that compares (…, Q, 1) with (…, 1, K) in these ways."""

    def mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
        queries, keys = query_positions[..., None], key_positions[..., None, :]
        keep = order(queries, keys)
        if window is not None:
            keep = keep & near(queries, keys, window)
        if query_documents is not None:
            keep = keep & same(query_documents[..., None], key_documents[..., None, :])
        if valid is not None:
            keep = keep & seen(valid)
        return keep[None, None] if keep.dim() == 2 else keep[:, None]

    return mask


right = comparing()


def without(*names):
    """A right mask that takes no notice of these arguments."""
    return lambda *args, **kwargs: right(*args, **{name: v for name, v in kwargs.items() if name not in names})


def indices(queries, keys, last=False):
    """The indices of (…, Q, 1) queries and (…, 1, K) keys; with `last`, the last query has that of the last key."""
    Q, K = queries.shape[-2], keys.shape[-1]
    return torch.arange(Q)[:, None] + (K - Q if last else 0), torch.arange(K)


def from_sizes():
    """Masks that are counted from the sizes: the order, the window, or both."""
    found = []
    for last in (False, True):

        def order(queries, keys, last=last):
            return torch.ge(*indices(queries, keys, last)).expand(torch.broadcast_shapes(queries.shape, keys.shape))

        def near(queries, keys, window, last=last):
            rows, columns = indices(queries, keys, last)
            return rows - columns < window

        found += [comparing(order=order), comparing(near=near), comparing(order=order, near=near)]
    return found


FLOATS = torch.float64, torch.float32, torch.bfloat16, torch.float16


def converted(*kinds):
    """Masks whose positions are compared as one of these kinds: without a window, with it, or both."""
    found = []
    for kind in kinds:

        def order(queries, keys, kind=kind):
            return queries.to(kind) >= keys.to(kind)

        def near(queries, keys, window, kind=kind):
            return queries.to(kind) - keys.to(kind) < window

        found += [comparing(order=order), comparing(near=near), comparing(order=order, near=near)]
    return found


def open_rows(*args, **kwargs):
    """A right mask in which a query without keys sees all."""
    keep = right(*args, **kwargs)
    return keep | ~keep.any(-1, keepdim=True)


def first_row(*args, **kwargs):
    """The mask of the first row of the batch for every row."""
    keep = right(*args, **kwargs)
    return keep[:1].expand_as(keep)


def ignored(name):
    """What is said of an argument that makes no difference."""
    return (
        f"Your mask takes no notice of `{name}` in this call. Position, window, documents and `valid` all apply at the "
        "same time, whatever the shapes: a query sees a key only if the key passes every one of these tests."
    )


WRONG_MASKS = known(
    {
        "Your mask is inverted: True marks the keys that are hidden, as `nn.MultiheadAttention` wants it. For "
        "`scaled_dot_product_attention` True means that the query may look at the key.": [
            {"gives": lambda *args, **kwargs: ~right(*args, **kwargs)}
        ],
        ignored("window"): [{"gives": without("window")}],
        ignored("documents"): [{"gives": without("query_documents", "key_documents")}],
        ignored("valid"): [{"gives": without("valid")}],
        "Your mask compares positions as floats. float64 can't tell 2**60 from 2**60 + 1, float32 can't tell 2**30 "
        "from 2**30 + 1, and bfloat16 can't even tell 1003 from 1004. Compare the integers as they are.": [
            {"gives": wrong} for wrong in converted(*FLOATS)
        ],
        "Your mask compares positions in fewer bits than they have. int64 positions may lie beyond 2**31, and as int32 "
        "they become other numbers. Compare the integers as they are.": [
            {"gives": wrong} for wrong in converted(torch.int32)
        ],
        "Your mask shows queries some keys that come after them. A window, documents and `valid` hide further keys, "
        "and those at later positions stay hidden all the same.": [
            {
                "gives": comparing(
                    order=lambda queries, keys: (queries >= keys) | True,
                    near=lambda queries, keys, window: (queries - keys).abs() < window,
                )
            },
            {"gives": comparing(order=lambda queries, keys: (queries >= keys) | True)},
        ],
        "Your mask follows from the sizes or the indices, as with `tril` and `arange`. Only the positions say which "
        "key comes after a query and how far apart the two are. Compare `key_positions` with `query_positions`.": [
            {"gives": wrong} for wrong in from_sizes()
        ],
        "Your mask hides keys whose position is negative. Positions may start anywhere, and only `valid` says which "
        "keys are padding.": [{"gives": comparing(order=lambda queries, keys: (queries >= keys) & (keys >= 0))}],
        "In your mask no query sees its own position. A key at the query's own position isn't after it, so it stays "
        "visible.": [{"gives": comparing(order=torch.gt)}],
        "Your mask is upside down: queries see the keys at later positions and not those at earlier ones.": [
            {"gives": comparing(order=torch.le)}
        ],
        "Your window is one position off. With `window=1` a query sees its own position and no other; with `window=2` "
        "it also sees the position before.": [
            {"gives": comparing(near=lambda queries, keys, window: queries - keys <= window)},
            {"gives": comparing(near=lambda queries, keys, window: queries - keys < window - 1)},
        ],
        "Your mask takes two documents for one, because it compares their numbers as floats or in fewer bits. int32 "
        "can't tell 5 from 2**32 + 5, and float64 can't tell 2**60 from 2**60 + 1. Compare the integers as they are.": [
            {"gives": comparing(same=lambda queries, keys, kind=kind: queries.to(kind) == keys.to(kind))}
            for kind in (torch.int32, *FLOATS)
        ],
        "Your mask lets a query see keys of another document, because it compares documents by their order. Two tokens "
        "are in the same document only if the numbers are equal.": [
            {"gives": comparing(same=torch.ge)},
            {"gives": comparing(same=torch.le)},
        ],
        "Your mask uses one tensor of documents for both sides. Queries and keys have documents of their own: compare "
        "`query_documents` with `key_documents`.": [
            {"gives": comparing(same=lambda queries, keys: keys.mT == keys)},
            {"gives": comparing(same=lambda queries, keys: queries == queries.mT)},
            {"gives": comparing(same=lambda queries, keys: keys.mT[..., -queries.shape[-2] :, :] == keys)},
        ],
        "You applied `valid` to the queries. It says which keys may be seen: a query at a padded position may look "
        "like any other, but nobody may look at a padded key.": [
            {"gives": comparing(seen=lambda valid: valid[..., None])},
            {"gives": comparing(seen=lambda valid: valid[..., None] & valid[..., None, :])},
        ],
        "`valid` is inverted in your mask: False marks a key that nobody may see.": [
            {"gives": comparing(seen=lambda valid: ~valid[..., None, :])}
        ],
        "Your mask lets a query without any visible key see all keys. Leave its row False: what such a query gets is "
        "for the attention function to decide.": [{"gives": open_rows}],
        "Every row of the batch has the mask of the first row. The rows have positions, documents or padding of their "
        "own.": [{"gives": first_row}],
        "Return a bool tensor ({detail}). `scaled_dot_product_attention` adds a mask of floats to the scores, and it "
        "refuses one of integers.": [{"stage": "dtype"}],
        "With no query or no key, a size of -1 in `view` or `reshape` could be any number: {detail}. Insert the "
        "dimensions of size 1 without asking for a size.": "of 0 elements|ambiguous",
        "Two tensors don't fit together: {detail}. What belongs to queries must lie along the last dimension but one, "
        "what belongs to keys along the last, and a batch, if there is one, before both. Which of the two does each "
        "tensor of documents belong to, and which does `valid`?": "must match|shape mismatch|broadcast|expanded size",
        "The result must be (B, 1, Q, K), where B is the batch size of whichever tensor has one (1 if none has) and "
        "the 1 is the dimension of the heads: {detail}.": [{"stage": "shape"}],
    }
)


IN_LISTS = (
    "`tolist` turns the numbers into a list, which only a loop in Python can compare. Leave them in tensors, and "
    "compare all pairs at once."
)


def judge_mask(seen):
    """Shape, dtype and values of the mask for these arguments, which must stay as they are."""
    seen.returns(right, *WRONG_MASKS).leaves_arguments_alone()
    return seen


# %% check="keep-mask" points=1
"""Chunks of a text, a single query, windows and packed documents, in any order."""
with check("keep-mask") as test:
    p = torch.arange(6)

    test("six queries over six keys; then the last two of these queries; then the last one")
    for queries in (p, p[4:], p[5:]):
        judge_mask(observe(keep_mask, queries, p))

    test("six queries over six keys with a window of two")
    judge_mask(observe(keep_mask, p, p, window=2))

    test("two documents of three tokens packed into one row, with positions that begin at 0 in each")
    packed, documents = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([7, 7, 7, 3, 3, 3])
    judge_mask(observe(keep_mask, packed, packed, query_documents=documents, key_documents=documents))

    ### BEGIN HIDDEN TESTS
    test.hidden("a window of one; windows over keys in another order, and of a chunk")
    judge_mask(observe(keep_mask, p, p, window=1))
    judge_mask(observe(keep_mask, p, p.flip(0), window=2))
    judge_mask(observe(keep_mask, p[4:], p, window=2))
    judge_mask(observe(keep_mask, p[4:], p, window=100))

    test.hidden("positions that start at 1000, at -2 and at 2**30, in any order, as int32")
    some, others = torch.tensor([3, 0, 4, 1]), torch.tensor([2, 4, 0, 3, 1])
    for start in (1000, -2, 2**30):
        for window in (None, 1, 3):
            judge_mask(observe(keep_mask, some + start, others + start, window=window))
            judge_mask(observe(keep_mask, (some + start).int(), (others + start).int(), window=window))

    test.hidden("int64 positions and documents that int32 or float64 can't tell apart")
    queries = torch.tensor([3, 2**32 + 5, 2**60 + 1, 2**60 + 2])
    keys = torch.tensor([2**60 + 2, 2**60 + 1, 2**32 + 4, 7, 2])
    for window in (None, 3):
        judge_mask(observe(keep_mask, queries, keys, window=window))
    documents = torch.tensor([5, 2**32 + 5, 2**24, 2**24 + 1, 2**60, 2**60 + 1])
    judge_mask(observe(keep_mask, p, p, query_documents=documents, key_documents=documents))

    test.hidden("documents of the queries that differ from those of the keys")
    documents = torch.tensor([5, 5, -2, -2, -2, 9])
    judge_mask(observe(keep_mask, p, p, query_documents=documents.flip(0), key_documents=documents))
    judge_mask(observe(keep_mask, p[3:], p, query_documents=documents[3:], key_documents=documents))

    test.hidden("as many operations for 120 queries and 130 keys as for 3 and 4")
    calls = {}
    for Q, K in ((3, 4), (120, 130)):
        queries, keys = torch.arange(Q) + K - Q, torch.arange(K)
        kinds = {"query_documents": queries // 3, "key_documents": keys // 3}
        seen = judge_mask(observe(keep_mask, queries, keys, window=2, **kinds))
        seen.avoided("tolist", because=IN_LISTS)
        calls[Q] = len(seen.op_names())
    few, many = calls.values()
    seen.that(
        few == many < 120,
        f"Your code ran {few} operations for 3 queries and 4 keys, and {many} for 120 queries and 130 keys. Compare "
        "all pairs at once by broadcasting, without a loop.",
        stage="rule",
    )
    ### END HIDDEN TESTS

# %% check="keep-mask" points=1
"""Batches with padding, everything at once, empty tensors, devices; what doesn't fit is refused."""
with check("keep-mask") as test:
    p = torch.arange(6)

    test("six queries over six keys, then the last two")
    for queries in (p, p[4:]):
        observe(keep_mask, queries, p).returns(right, FIRST_CHECK_FIRST, *WRONG_MASKS)

    test("three rows of five tokens, the second padded on the left and the third on the right")
    valid = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]]) > 0
    positions = valid.cumsum(1) - 1
    judge_mask(observe(keep_mask, positions, positions, valid=valid))

    test("a window below 1, and one kind of documents without the other, are refused")
    another_kind = mistake(
        "A call that must be refused raised another kind of exception: {detail}. Raise ValueError.",
        stage="raised",
        raises=".",
    )
    for window in (0, -1):
        observe(keep_mask, p, p, window=window).raises(
            ValueError,
            because="Your code takes a window below 1, which has no room even for the query itself. Raise ValueError.",
            mistakes=[another_kind],
        )
    for name in ("query_documents", "key_documents"):
        observe(keep_mask, p, p, **{name: p}).raises(
            ValueError,
            because="Your code takes documents of the queries without documents of the keys, or the other way round. "
            "Neither can be compared with anything. Raise ValueError.",
            mistakes=[another_kind],
        )

    ### BEGIN HIDDEN TESTS
    test.hidden("which tensors have a batch dimension")
    for names in (["valid"], ["query_positions"], ["key_positions"], ["query_documents"], ["key_documents"], []):
        given = {
            "query_positions": torch.tensor([[3, 4, 1], [2, 0, 3], [7, 1, 5]]),
            "key_positions": torch.tensor([[0, 2, 4, 1, 3], [3, 1, 0, 2, 2], [5, 6, 0, 1, 7]]),
            "query_documents": torch.tensor([[2, 1, 2], [1, 2, 1], [2, 1, 1]]),
            "key_documents": torch.tensor([[2, 1, 2, 1, 2], [2, 1, 1, 2, 1], [1, 2, 2, 1, 1]]),
            "valid": torch.tensor([[1, 1, 1, 0, 1], [1, 0, 1, 1, 1], [0, 1, 1, 1, 1]]) > 0,
        }
        given = {name: tensor if name in names else tensor[0] for name, tensor in given.items()}
        queries, keys = given.pop("query_positions"), given.pop("key_positions")
        judge_mask(observe(keep_mask, queries, keys, **given))

    test.hidden("everything at once, with other numbers of queries and keys")
    g = torch.Generator().manual_seed(15)

    def any_number(top, *size):
        """Whole numbers below `top`."""
        return torch.randint(top, size, generator=g)

    for B, Q, K, window in ((3, 4, 7, 3), (2, 6, 5, 2), (2, 1, 8, 4), (3, 5, 5, 9)):
        judge_mask(observe(keep_mask, any_number(9, B, Q), any_number(9, B, K), window=window))
        kinds = {"query_documents": any_number(2, B, Q), "key_documents": any_number(2, B, K)}
        judge_mask(observe(keep_mask, any_number(9, B, Q), any_number(9, B, K), window=window, **kinds))
        valid = any_number(3, K) > 0
        judge_mask(observe(keep_mask, any_number(9, B, Q), any_number(9, B, K), window=window, **kinds, valid=valid))
        valid = any_number(3, B, K) > 0
        judge_mask(observe(keep_mask, any_number(9, Q), any_number(9, K), window=window, valid=valid))

    test.hidden("padding among positions beyond 2**30")
    far, valid = 2**30 + torch.arange(1, 6) * 2**24, torch.tensor([1, 0, 1, 0, 1]) > 0
    seen = observe(keep_mask, far, far, valid=valid)
    seen.returns(
        right,
        mistake(
            "Your mask gives padded keys another position in place of asking `valid`, and the queries here come after "
            'that position, so they see these keys. Combine the mask with `valid` by "and".',
            gives=lambda queries, keys, *, valid: right(queries, torch.where(valid, keys, 0)),
        ),
        *WRONG_MASKS,
    )

    test.hidden("no query, no key, neither; a query without a visible key")
    for Q, K in ((0, 4), (3, 0), (0, 0)):
        judge_mask(observe(keep_mask, torch.arange(Q), torch.arange(K), window=2))
        judge_mask(observe(keep_mask, torch.arange(Q).expand(2, Q), torch.arange(K), valid=torch.arange(K) > 0))
    judge_mask(observe(keep_mask, p, p + 3))

    test.hidden("as many operations for 110 rows as for 2")
    calls = {}
    for B in (2, 110):
        rows = torch.arange(B)[:, None] + torch.arange(4)
        seen = judge_mask(observe(keep_mask, rows, rows, valid=rows % 3 > 0))
        seen.avoided("tolist", because=IN_LISTS)
        calls[B] = len(seen.op_names())
    few, many = calls.values()
    seen.that(
        few == many < 110,
        f"Your code ran {few} operations for 2 rows and {many} for 110. Compare the pairs of all rows at once, without "
        "a loop over the batch.",
        stage="rule",
    )

    test.hidden("positions on another device: the mask is there too")
    there = {"query_documents": p[2:], "key_documents": p, "valid": p > 1}
    expected = right(p[2:], p, window=3, **there).to("meta")
    there = {name: tensor.to("meta") for name, tensor in there.items()}
    seen = observe(keep_mask, p[2:].to("meta"), p.to("meta"), window=3, **there)
    moved = ("expected device", "same device", "Cannot copy out of meta")
    if not seen.error_text or any(words in seen.error_text for words in moved):
        elsewhere = (
            "Part of the work was done on another device than that of the positions: {detail}. Tensors that you make "
            "need `device=query_positions.device`, and the result stays there."
        )
        seen.returns(expected, mistake(elsewhere, stage=("raised", "device")))
    ### END HIDDEN TESTS
