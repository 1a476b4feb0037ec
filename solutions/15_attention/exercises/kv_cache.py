# %% [markdown]
# ### Exercise 15.7 · Memory taken once
#
# implement · solid · 30 min · 2 points
#
# Write the cache of one attention layer. It takes its memory once, writes each new position into it, and returns views.
#
# **Contract**
#
# - `Cache(batch, heads, max_length, dim, dtype)` allocates memory for keys and values, (B, H, max_length, D) each, and
#   no more. `length` is the number of positions that are filled, an int.
# - `append(k, v)`, each (B, H, n, D) with n >= 0, stores the n new positions behind the filled ones, without allocating
#   memory. It returns all keys and all values so far, (B, H, length, D) each, as views of the cache's own memory. What
#   was stored before is neither copied nor moved.
# - What is stored requires no grad and has no graph, whatever k and v have. The cache keeps no reference to k and v,
#   and shares no memory with them or with another cache.
# - `rewind(length)` forgets everything from that position on, and writes nothing; 0 empties the cache. The next
#   `append` writes there. A `length` below 0 or above what is filled raises ValueError.
# - `reorder(rows)`, (B,) int64, makes row i what row rows[i] was, as a beam search needs it. A row may be asked for
#   several times or not at all. Only filled positions are moved, within the same memory; a copy of them may exist for a
#   moment.
# - `append` raises ValueError if the positions don't fit (exactly `max_length` do), if k or v has other dimensions (B,
#   H, D or their number) or another dtype than the cache, or if k and v have different n.
# - `reorder` raises IndexError or ValueError for an index outside 0 … B-1, for rows of another length and for a bool
#   mask, however many positions are filled.
# - After each refusal the cache is what it was, and nothing has been written into its memory.
#
# **Rule.** All memory that stays is allocated in `__init__`.
#
# <details><summary>Hint 1</summary>
#
# What does `append` have to know besides the two tensors? Which of its checks can come after the first write?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Assigning to a slice writes into the memory, and a slice that you return is a view. But an assignment broadcasts and
# casts without a word, and a slice beyond the end is cut off. So compare shapes, dtypes and the new end before you
# write anything.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Write under `no_grad`, and return the first `length` positions of each tensor. For `reorder`, indexing with a tensor
# makes a copy, so select all rows of the filled part before you write any of them back. PyTorch takes negative indices,
# so look for them yourself.
#
# </details>


# %% answer="kv-cache"
### BEGIN SOLUTION
class Cache:
    """Keys and values of one attention layer, in memory that is taken once."""

    def __init__(
        self,
        batch: int,
        heads: int,
        max_length: int,
        dim: int,
        dtype: torch.dtype = torch.float32,
    ):
        self.k = torch.zeros(batch, heads, max_length, dim, dtype=dtype)
        self.v = torch.zeros(batch, heads, max_length, dim, dtype=dtype)
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store n more positions (B, H, n, D); return views (B, H, length, D) of all so far."""
        batch, heads, max_length, dim = self.k.shape
        if k.dim() != 4 or k.shape != v.shape or k.shape != (batch, heads, k.shape[2], dim):
            raise ValueError(f"{tuple(k.shape)} and {tuple(v.shape)} for {tuple(self.k.shape)}")
        if k.dtype != self.k.dtype or v.dtype != self.k.dtype:
            raise ValueError(f"{k.dtype} and {v.dtype} for {self.k.dtype}")
        end = self.length + k.shape[2]
        if end > max_length:
            raise ValueError(f"{end} positions, but there is room for {max_length}")
        with torch.no_grad():
            self.k[:, :, self.length : end] = k
            self.v[:, :, self.length : end] = v
        self.length = end
        return self.k[:, :, :end], self.v[:, :, :end]

    def rewind(self, length: int) -> None:
        """Forget everything from this position on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"{length} is not between 0 and {self.length}")
        self.length = length

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; rows: (B,) int64."""
        batch = self.k.shape[0]
        if rows.dtype == torch.bool or rows.shape != (batch,):
            raise ValueError(f"rows must be ({batch},) int64")
        if ((rows < 0) | (rows >= batch)).any():
            raise IndexError(f"a row outside 0 … {batch - 1}")
        for memory in (self.k, self.v):
            filled = memory[:, :, : self.length]
            filled.copy_(filled[rows])


### END SOLUTION
### BEGIN GIVEN
# class Cache:
#     """Keys and values of one attention layer, in memory that is taken once."""
#
#     length: int  # positions filled so far
#
#     def __init__(
#         self,
#         batch: int,
#         heads: int,
#         max_length: int,
#         dim: int,
#         dtype: torch.dtype = torch.float32,
#     ):
#         raise NotImplementedError  # your code here
#
#     def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
#         """Store n more positions (B, H, n, D); return views (B, H, length, D) of all so far."""
#         raise NotImplementedError  # your code here
#
#     def rewind(self, length: int) -> None:
#         """Forget everything from this position on."""
#         raise NotImplementedError  # your code here
#
#     def reorder(self, rows: Tensor) -> None:
#         """Row i becomes what row rows[i] was; rows: (B,) int64."""
#         raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="kv-cache"
def some(seed, *size):
    """Random keys and values of this size."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator) for _ in range(2)]


def filled(cache):
    """The cache's `length` of this moment, which doesn't change with the cache if it is a tensor."""
    return cache.length.clone() if isinstance(cache.length, Tensor) else cache.length


def in_pieces(Cache, k, v, sizes, max_length):
    """Append k and v to a new Cache in pieces of these sizes, and note what comes back."""
    cache, told = Cache(k.shape[0], k.shape[1], max_length, k.shape[3], k.dtype), []
    for piece in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True):
        keys, values = cache.append(*piece)
        told.append([keys.detach().clone(), values.detach().clone(), filled(cache)])
    return told


class Watched(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the names of operations, how many numbers each new tensor has, and how many each copy writes."""

    def __init__(self):
        super().__init__()
        self.names, self.most, self.made = [], 0, {}

    def alive(self):
        """How many bytes of the new tensors are still there."""
        return sum(size for ref, size in self.made.values() if not ref.expired())

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        self.names.append(name)
        known = {arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, Tensor)}
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if not isinstance(tensor, Tensor) or func.is_view:
                continue
            is_new = tensor.untyped_storage().data_ptr() not in known
            if is_new or name in ("copy_", "fill_", "zero_", "mul_"):
                self.most = max(self.most, tensor.numel())
            if is_new:
                storage = tensor.untyped_storage()
                self.made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return out


def same(came, wanted):
    """Whether two tensors hold the same numbers in the same shape."""
    return isinstance(came, Tensor) and came.shape == wanted.shape and bool((came == wanted).all())


def judge_pieces(seen, k, v, sizes, max_length, *mistakes):
    """After each piece come all keys and values so far, and `length` says how many these are."""
    end = 0
    for size, (keys, values, length) in zip(sizes, seen.value, strict=True):
        first, end = end, end + size
        right = (k[:, :, :end], v[:, :, :end])
        seen.that(
            same(keys, right[0]) and same(values, right[1]),
            f"After pieces of {', '.join(map(str, sizes))} positions, what `append` returned is not what was appended, "
            f"in this order: the piece up to position {end} is where it begins to differ.",
            *mistakes,
            mistake(
                f"Your `append` returns all {max_length} places of the memory, the empty ones too. A key of zeros has "
                "the score 0 with every query, so its weight is not 0: attention would look at it. Return the first "
                "`length` positions.",
                when=lambda seen, keys=keys: keys.shape[2] == max_length,
            ),
            mistake(
                "Your `append` returns only the positions that came with this call. Attention needs all that are "
                "stored.",
                when=lambda seen, keys=keys, first=first, end=end: first > 0 and same(keys, k[:, :, first:end]),
            ),
            mistake(
                "The values that come back are the keys.",
                when=lambda seen, values=values, right=right: same(values, right[0]),
            ),
            mistake(
                f"Your second piece was written over the first one: its place begins at position {sizes[0]}, the "
                "`length` from before.",
                when=lambda seen, keys=keys, first=first, end=end: (
                    first > 0 and same(keys[:, :, : end - first], k[:, :, first:end])
                ),
            ),
        )
        seen.that(
            length == end,
            f"After {end} positions `length` must be {end}, and yours is {{detail}}.",
            detail=str(length),
        )


# %% check="kv-cache" points=1
"""What `append` returns, what it costs, and what it keeps."""
with check("kv-cache") as test:
    test("three positions, then one, then two")
    k, v = some(1, 2, 3, 6, 4)
    seen = observe_scenario(in_pieces, Cache, k, v, [3, 1, 2], 10)
    judge_pieces(seen, k, v, [3, 1, 2], 10)

    def costs(Cache, k, v, sizes, max_length):
        """Append k and v in pieces to a Cache, and note for each piece what is made, copied and returned."""
        cache, told = Cache(k.shape[0], k.shape[1], max_length, k.shape[3]), []
        for piece in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True):
            with Watched() as watched:
                out = cache.append(*piece)
            memory = [t.untyped_storage().data_ptr() for t in out]
            told.append({"most": watched.most, "names": watched.names, "memory": memory})
        return told

    test("what one position costs in a cache for 200: the first one, and one more after 151")
    sizes = [1, 150, 1, 1]
    seen = observe_scenario(costs, Cache, *some(2, 2, 3, 153, 4), sizes, 200)
    seen.in_sight()
    names = {name for step in seen.value for name in step["names"]}
    first = seen.value[0]["most"]
    seen.that(
        first <= 2 * 2 * 3 * 4,
        f"The first `append` of one position (24 numbers in k and 24 in v) made {first:,} numbers at once. Take the "
        "memory for all positions in `__init__`; `append` only writes into it.",
        stage="rule",
    )
    most = max(step["most"] for step in seen.value[2:])
    seen.that(
        most <= 2 * 2 * 3 * 4,
        f"To append one position (24 numbers in k and 24 in v) after 151, your code made or copied {most:,} numbers at "
        "once. Write the new position into memory that is taken once, and return views.",
        mistake(
            f"Your code copies the whole cache to append one position: torch.cat made {most:,} numbers, although only "
            "48 are new. After n steps that is about n²/2 positions. Write into memory that is taken once, and return "
            "views.",
            when=lambda seen: bool({"cat", "stack"} & names),
        ),
        mistake(
            f"You return copies: to append one position, a clone made {most:,} numbers. A slice is a view and costs "
            "nothing, so return the slice itself.",
            when=lambda seen: "clone" in names,
        ),
        stage="rule",
    )
    seen.that(
        all(step["memory"] == seen.value[0]["memory"] for step in seen.value),
        "What `append` returns is in other memory at each step. It must return views of the memory that was taken in "
        "`__init__`.",
        stage="aliasing",
    )

    def with_graph(Cache, k, v):
        """Append a k and a v that require grad, two positions and then one."""
        cache = Cache(*k.shape[:2], 8, k.shape[3])
        k, v = k.requires_grad_(), v.requires_grad_()
        out = [*cache.append(2 * k[:, :, :2], 2 * v[:, :, :2]), *cache.append(k[:, :, 2:], v[:, :, 2:])]
        return [t.requires_grad for t in out]

    test("k and v require grad")
    seen = observe_scenario(with_graph, Cache, *some(3, 2, 3, 3, 4))
    seen.expecting(
        mistake(
            "k and v had a graph, and your code raised when it stored them ({detail}). Write under `torch.no_grad()`, "
            "or detach k and v first.",
            stage="raised",
        )
    )
    seen.that(
        seen.value == [False] * 4,
        "k and v had a graph, and now what is stored has one: the memory requires grad, and keeps the graphs of all "
        "steps alive. Write under `torch.no_grad()`, or detach k and v first.",
        stage="gradient",
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("no position at all, and exactly as many as there is room for")
    k, v = some(4, 1, 2, 5, 3)
    k[0, 1, 2, 0] = torch.inf
    for sizes in ([0, 2, 0, 3, 0], [5]):
        seen = observe_scenario(in_pieces, Cache, k, v, sizes, 5)
        seen.expecting(
            mistake(
                "`append` must take n = 0 and exactly as many positions as there is room for, but yours raised an "
                "exception.",
                stage="raised",
            )
        )
        right = mistake(
            "`append` must take n = 0, and then return what is stored.",
            when=lambda seen, sizes=sizes: sizes[0] == 0,
        )
        finite = mistake(
            "One of the numbers here is inf, and what came back is finite. `append` stores numbers as they are.",
            when=lambda seen: same(seen.value[-1][0], k.nan_to_num()),
        )
        judge_pieces(seen, k, v, sizes, 5, finite, right)

    def side_by_side(Cache, k, v):
        """Fill one Cache with k and v and another of the same size with v and k, then read the first."""
        first, second = (Cache(*k.shape[:2], k.shape[2], k.shape[3]) for _ in range(2))
        first.append(k, v)
        second.append(v, k)
        return [t.clone() for t in first.append(k[:, :, :0], v[:, :, :0])]

    test.hidden("two caches of one size")
    seen = observe_scenario(side_by_side, Cache, k, v)
    seen.that(
        same(seen.value[0], k) and same(seen.value[1], v),
        "Two caches of the same size share their memory: after the second one was filled, the first one holds other "
        "numbers. Each cache takes memory of its own in `__init__`.",
        stage="aliasing",
    )

    test.hidden("bfloat16 and float64")
    for dtype in (torch.bfloat16, torch.float64):
        k, v = (t.to(dtype) for t in some(5, 2, 1, 3, 4))
        seen = observe_scenario(in_pieces, Cache, k, v, [1, 2], 4)
        seen.expecting(mistake("A cache must be able to store the dtype that it was made for.", stage="raised"))
        judge_pieces(seen, k, v, [1, 2], 4)
        seen.that(
            all(t.dtype == dtype for t in seen.value[-1][:2]),
            "The memory must have the dtype that `__init__` is given.",
            stage="dtype",
        )

    def kept(Cache, seed, max_length):
        """Make a Cache, append a k and a v that nobody else keeps, and see which memory stays."""
        refer = torch.multiprocessing.reductions.StorageWeakRef
        with Memories() as memories:
            cache = Cache(2, 3, max_length, 4)
        taken = sum(size for ref, size in memories.made.values() if not ref.expired())
        k, v = some(seed, 2, 3, 2, 4)
        refs = [refer(t.untyped_storage()) for t in (k, v)]
        out = cache.append(k, v)
        del k, v
        return {"taken": taken, "alive": [not ref.expired() for ref in refs], "length": out[0].shape[2]}

    class Memories(torch.utils._python_dispatch.TorchDispatchMode):
        """Notes the memory that operations take, without keeping it alive."""

        def __init__(self):
            super().__init__()
            self.made = {}

        @classmethod
        def _should_skip_dynamo(cls):
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor):
                storage = out.untyped_storage()
                reference = torch.multiprocessing.reductions.StorageWeakRef(storage)
                self.made[storage.data_ptr()] = (reference, storage.nbytes())
            return out

    test.hidden("what __init__ takes, and what is kept of k and v")
    seen = observe_scenario(kept, Cache, 6, 50)
    whole = 2 * 2 * 3 * 50 * 4 * 4
    seen.that(
        whole <= seen["taken"] <= whole + 64,
        f"A cache for 2 rows, 3 heads, 50 positions and 4 numbers a head takes {whole:,} bytes for keys and values. "
        "Yours takes another amount in `__init__`, or takes it later.",
        stage="rule",
    )
    seen.that(
        not any(seen["alive"]),
        "After `append`, the tensors k and v that the caller passed are still alive: the cache keeps a reference to "
        "them beside its own memory.",
        stage="rule",
    )
    ### END HIDDEN TESTS

# %% check="kv-cache" points=1
"""Rewind, reorder, and refusals that lose nothing."""
with check("kv-cache") as test:
    test("three positions, then one, then two")
    k, v = some(1, 3, 2, 6, 4)
    seen = observe_scenario(in_pieces, Cache, k, v, [3, 1, 2], 10).expecting(FIRST_CHECK_FIRST)
    judge_pieces(seen, k, v, [3, 1, 2], 10, FIRST_CHECK_FIRST)

    not_yet = mistake(
        FIRST_CHECK_FIRST.sentence, when=lambda seen: bool(seen.error_text) and FIRST_CHECK_FIRST.when(seen)
    )

    def rewound(Cache, k, v, sizes, back, more):
        """Fill a Cache in pieces, rewind it, and append positions again."""
        cache = Cache(*k.shape[:2], 8, k.shape[3])
        lengths = [filled(cache)]
        for piece in zip(k[:, :, : sum(sizes)].split(sizes, 2), v[:, :, : sum(sizes)].split(sizes, 2), strict=True):
            old = cache.append(*piece)
        lengths.append(filled(cache))
        cache.rewind(back)
        lengths.append(filled(cache))
        before, end = [t.detach().clone() for t in old], sum(sizes) + more
        keys, values = cache.append(k[:, :, sum(sizes) : end], v[:, :, sum(sizes) : end])
        others = [type(one).__name__ for one in lengths if not isinstance(one, int)]
        return {
            "length": lengths[-1],
            "others": others,
            "before": before,
            "keys": keys.clone(),
            "values": values.clone(),
        }

    test("five positions, rewind(2), one more position; rewind(0); rewind(5)")
    for back in (2, 0, 5):
        seen = observe_scenario(rewound, Cache, k, v, [4, 1], back, 1).expecting(not_yet)
        possible = (
            f"With 5 positions filled, rewind({back}) and one more `append` must work, but your code raised {{detail}}."
        )
        seen.expecting(mistake(possible, stage="raised", raises="Error"))
        seen.that(
            not seen["others"],
            "`length` must be an int, after `__init__` as after `append` and `rewind`. At one of these times yours is "
            "of type {detail}. Count the positions in Python's own numbers.",
            detail=" and ".join(dict.fromkeys(seen["others"])),
            stage="type",
        )
        seen.that(
            seen["length"] == back,
            f"After rewind({back}), `length` must be {back}, and yours is {{detail}}.",
            detail=str(seen["length"]),
        )
        right = [torch.cat([t[:, :, :back], t[:, :, 5:6]], 2) for t in (k, v)]
        seen.that(
            same(seen["keys"], right[0]) and same(seen["values"], right[1]),
            f"After rewind({back}), the next `append` must write at position {back} and return the {back} positions "
            "that are left with the new one behind them.",
        )
        seen.that(
            same(seen["before"][0], k[:, :, :5]) and same(seen["before"][1], v[:, :, :5]),
            "`rewind` wrote into the memory. Nothing has to be cleared: what is behind `length` is not returned, and "
            "the next `append` overwrites it.",
            stage="rule",
        )

    def reordered(Cache, k, v, rows):
        """Fill a Cache, reorder its rows, and read it."""
        cache = Cache(*k.shape[:2], 8, k.shape[3])
        cache.append(k, v)
        cache.reorder(rows)
        keys, values = cache.append(k[:, :, :0], v[:, :, :0])
        return {"keys": keys.clone(), "values": values.clone(), "length": cache.length}

    def judge_reordered(seen, k, v, rows):
        """Row i is what row rows[i] was, of keys and values."""

        def looks(by_rows):
            """Whether keys or values came out like this."""
            return lambda seen: same(seen["keys"], by_rows(k)) or same(seen["values"], by_rows(v))

        def one_by_one(t):
            """Each row copied after the other in place."""
            t = t.clone()
            for i, row in enumerate(rows.tolist()):
                t[i] = t[row]
            return t

        overwritten = mistake(
            f"With rows {rows.tolist()}, a row was overwritten before it was read, because you copy one row after the "
            "other within the same memory. Select all rows first, which makes a copy, and then write them.",
            when=lambda seen: not same(one_by_one(k), k[rows]) and looks(one_by_one)(seen),
        )
        turned = mistake(
            f"With rows {rows.tolist()}, you moved row i to place rows[i]. It is the other way round: place i gets "
            "what row rows[i] was.",
            when=lambda seen: not same(k[rows.argsort()], k[rows]) and looks(lambda t: t[rows.argsort()])(seen),
        )
        one_only = mistake(
            "Only the keys, or only the values, were reordered. A row's keys and values belong together.",
            when=lambda seen: same(seen["keys"], k[rows]) != same(seen["values"], v[rows]),
        )
        seen.that(
            same(seen["keys"], k[rows]) and same(seen["values"], v[rows]),
            f"With rows {rows.tolist()}, row i of keys and values must be what row rows[i] was, at all positions that "
            "are filled.",
            one_only,
            overwritten,
            turned,
        )

    test("reorder: the rows in another order, one of them twice, one of them lost")
    for rows in (torch.tensor([2, 0, 1]), torch.tensor([1, 1, 0])):
        seen = observe_scenario(reordered, Cache, k, v, rows).expecting(not_yet)
        judge_reordered(seen, k, v, rows)

    ### BEGIN HIDDEN TESTS
    def reorder_in_place(Cache, k, v, rows, max_length):
        """Fill a Cache, rewind it to three positions, reorder these, and see what was moved and where it is."""
        cache = Cache(*k.shape[:2], max_length, k.shape[3])
        old = cache.append(k, v)
        cache.rewind(3)
        with Watched() as watched:
            cache.reorder(rows)
        alive = watched.alive()
        behind = [t[:, :, 3:].clone() for t in old]
        now = cache.append(k[:, :, :0], v[:, :, :0])
        memory = [[t.untyped_storage().data_ptr() for t in pair] for pair in (old, now)]
        return {
            "same": memory[0] == memory[1],
            "behind": behind,
            "most": watched.most,
            "alive": alive,
            "now": [t.clone() for t in now],
        }

    test.hidden("reorder moves what is filled, and nothing else, in the same memory")
    rows, one_inf = torch.tensor([2, 0, 2]), k.clone()
    one_inf[0, 0, 1, 2] = torch.inf
    seen = observe_scenario(reorder_in_place, Cache, one_inf, v, rows, 100).expecting(not_yet)
    moved = one_inf[:, :, :3][rows].nan_to_num()
    seen.that(
        same(seen["now"][0].nan_to_num(), moved) and same(seen["now"][1], v[:, :, :3][rows]),
        "After `rewind`, `reorder` must move the positions that are left, of all rows.",
        mistake(
            "One number of row 0 is inf, and it has made nan in other rows. A product with zeros and ones isn't a "
            "copy, because 0 · inf is nan. Index the rows.",
            when=lambda seen: seen["now"][0].shape == moved.shape and bool(seen["now"][0].isnan().any()),
        ),
    )
    seen.that(
        seen["same"],
        "`reorder` put keys or values into new memory. Write the reordered rows into the memory that was taken in "
        "`__init__`.",
        FIRST_CHECK_FIRST,
        stage="rule",
    )
    seen.in_sight()
    seen.that(
        seen["alive"] <= 64,
        "After `reorder`, memory that it took is still in use, because it keeps its copies of the reordered rows. It "
        "may make them for a moment, but all memory that stays is taken in `__init__`.",
        stage="rule",
    )
    seen.that(
        seen["most"] <= 2 * 3 * 2 * 3 * 4
        and same(seen["behind"][0], k[:, :, 3:])
        and same(seen["behind"][1], v[:, :, 3:]),
        "Three positions of 100 were filled, and `reorder` moved more than these. Select and write only the first "
        "`length` positions.",
        stage="rule",
    )

    test.hidden("reorder an empty cache")
    seen = observe_scenario(reordered, Cache, k[:, :, :0], v[:, :, :0], torch.tensor([2, 1, 0])).expecting(
        not_yet, mistake("An empty cache can be reordered, but yours raised an exception.", stage="raised")
    )
    seen.that(
        same(seen["keys"], k[:, :, :0]) and seen["length"] == 0,
        "An empty cache can be reordered, and stays empty.",
    )

    def refusing(Cache, k, v, method, arguments):
        """Fill a Cache for eight positions, rewind it to k's, ask for what it must refuse, and read it."""
        cache, error = Cache(*k.shape[:2], 8, k.shape[3]), []
        cache.append(k, v)
        more = k.new_full((*k.shape[:2], 8 - k.shape[2], k.shape[3]), 7.0)
        behind = [t[:, :, k.shape[2] :] for t in cache.append(more, more)]
        cache.rewind(k.shape[2])
        try:
            getattr(cache, method)(*arguments)
        except Exception as raised:
            error = [kind.__name__ for kind in type(raised).__mro__]
        if not error:
            return {"error": error}
        length, written = cache.length, any((t != 7).any() for t in behind)
        keys, values = cache.append(k[:, :, :0], v[:, :, :0])
        return {"error": error, "length": length, "keys": keys.clone(), "values": values.clone(), "written": written}

    def judge_refusal(k, v, method, arguments, kinds, sentence, idea):
        """The right kind of exception, and a cache that is what it was."""
        seen = observe_scenario(refusing, Cache, k, v, method, arguments).expecting(not_yet)
        seen.that(bool(set(kinds) & set(seen["error"])), sentence, stage="raised")
        seen.that(
            seen["length"] == k.shape[2] and same(seen["keys"], k) and same(seen["values"], v),
            f"Your code refused {idea}, but only after it had written or counted something, so the cache is no longer "
            "what it was. Check everything first, then write.",
        )
        seen.that(
            not seen["written"],
            f"Your code refused {idea}, but only after it had written into the memory behind the filled positions. A "
            "view from before a `rewind` shows these numbers. Check everything first, both k and v, then write.",
        )

    test.hidden("more positions than there is room for")
    room = (
        "More positions than there is room for must raise ValueError. A slice beyond the end is cut off, so that "
        "assigning to it raises RuntimeError, or broadcasts in silence: compare the new end with `max_length` first."
    )
    eight = [torch.cat([t, t[:, :, :2]], 2) for t in (k, v)]
    judge_refusal(*eight, "append", [k[:, :, :1], v[:, :, :1]], ["ValueError"], room, "a position too many")
    judge_refusal(k, v, "append", [k[:, :, :3], v[:, :, :3]], ["ValueError"], room, "a position too many")

    test.hidden("another shape or dtype")
    k1, v1, two = k[:, :, :1], v[:, :, :1], [k[:, :, :2], v[:, :, :2]]
    for what, arguments in (
        ("another number of rows than the cache", [k1[:1], v1[:1]]),
        ("another number of heads than the cache", [k1[:, :1], v1[:, :1]]),
        ("another number of numbers a head than the cache", [k1[..., :1], v1[..., :1]]),
        ("two dimensions", [k1[0, 0], v1[0, 0]]),
        ("three dimensions", [k1[0], v1[0]]),
        ("five dimensions", [k1[None], v1[None]]),
        ("another dtype than the cache", [k1.double(), v1.double()]),
        ("different numbers of positions", [two[0], v1]),
        ("different numbers of positions", [k1, two[1]]),
        ("different dtypes", [k1, v1.double()]),
        ("different dtypes", [k1.double(), v1]),
        ("different numbers of rows", [k1, v1[:1]]),
        ("different numbers of heads", [k1, v1[:, :1]]),
        ("dimensions in another order", [k1, v1.transpose(1, 2)]),
    ):
        judge_refusal(
            k, v, "append", arguments, ["ValueError"],
            f"k and v with {what} must be refused with ValueError. An assignment would broadcast or cast them in "
            "silence, or raise RuntimeError.",
            f"k and v with {what}",
        )  # fmt: skip

    test.hidden("rewind to a position that isn't there")
    for asked in (7, -1):
        judge_refusal(
            k, v, "rewind", [asked], ["ValueError"],
            f"`rewind` takes 0 to `length`. Here 6 positions are filled, so rewind({asked}) must raise ValueError.",
            f"rewind({asked})",
        )  # fmt: skip

    test.hidden("rows that aren't there")
    for rows, why in (
        ([2, 1, 3], "there are 3 rows, so row 3 isn't one of them"),
        ([2, 1, -1], "PyTorch would take -1 for the last row"),
        ([2], "one row would be broadcast to all three"),
        ([2, 1, 0, 0], "there are 3 rows"),
        ([True, True, True], "a bool mask would select rows instead of naming them"),
    ):
        judge_refusal(
            k, v, "reorder", [torch.tensor(rows)], ["ValueError", "IndexError"],
            f"reorder({rows}) must raise IndexError or ValueError: {why}.",
            f"reorder({rows})",
        )  # fmt: skip
    judge_refusal(
        k[:, :, :0], v[:, :, :0], "reorder", [torch.tensor([2, 1, 3])], ["ValueError", "IndexError"],
        "With three rows, reorder([2, 1, 3]) must raise IndexError or ValueError even if no position is filled. "
        "Indexing notices nothing where there is nothing to read, and `index_select` raises RuntimeError: compare the "
        "rows with B yourself.",
        "reorder([2, 1, 3])",
    )  # fmt: skip
    ### END HIDDEN TESTS
