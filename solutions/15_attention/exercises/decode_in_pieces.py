# %% [markdown]
# ### Exercise 15.9 · The same answer in pieces
#
# debug · solid · 25 min · 3 points
#
# This layer has a cache of its own, with mistakes like those of the opening. Without a cache the layer is right. With
# one it raises no error, but it is wrong from the second call on. Find the mistakes, and fix `forward`.
#
# **Contract**
#
# - `forward(x, cache)` gets x, (B, T, E), the next T >= 1 positions, and a dict in which earlier calls stored what they
#   know. `{}` is an empty cache. The result is (B, T, E). float32 on the CPU is enough.
# - Without a cache the layer gives the numbers that it gives now, and the same gradients.
# - With a cache, however a sequence is cut into pieces, the joined results of the calls are what the layer gives for
#   the whole sequence without a cache, up to rounding (1e-5 of the size of x, however large that is). No gradient is
#   asked for here.
# - After each call the dict holds under "k" the keys and under "v" the values of all positions so far, each (B,
#   kv_heads, positions, dim). It may also hold plain numbers, and tensors of at most one number for each position, but
#   no others.
# - A key is turned once, before it is stored, and never again.
# - The caller may keep `dict(cache)`, to go back to it and go on differently, and may use one layer with several caches
#   in turn. So the layer never writes into a tensor that it has stored, and the layer itself remembers nothing.
# - `turn` and `__init__` stay as they are.
#
# **Rule.** Each call of `forward` calls `scaled_dot_product_attention` once. There is no loop over positions.
#
# <details><summary>Hint 1</summary>
#
# Feed the layer one position at a time. Which keys can the query of the fourth call see, and by which position is that
# query turned?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Where does a piece begin? The length of what is stored tells you. And from which corner of the scores does `is_causal`
# start if there are more keys than queries?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The new queries and the new keys have the same positions, and these begin where the stored keys end. Turn both first;
# then join the new keys to the stored ones, which are turned already. The mask must line up the last query with the
# last key. For a whole sequence without a cache, such a mask is the same as is_causal.
#
# </details>


# %% answer="decode-in-pieces"
### BEGIN SOLUTION
def turn(x: Tensor, positions: Tensor) -> Tensor:
    """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Causal attention with grouped heads, in which positions are angles."""

    def __init__(self, size: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        """x: (B, T, E), the next T positions; cache: what is stored; returns (B, T, E)."""
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        start = cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache is not None:
            if cache:
                k = torch.cat([cache["k"], k], 2)
                v = torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        mask = causal_lower_right(T, start + T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))


### END SOLUTION
### BEGIN GIVEN
# def turn(x: Tensor, positions: Tensor) -> Tensor:
#     """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
#     D = x.shape[-1]
#     angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
#     pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
#     return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
#
#
# class Attention(nn.Module):
#     """Causal attention with grouped heads, in which positions are angles."""
#
#     def __init__(self, size: int, heads: int, kv_heads: int):
#         super().__init__()
#         self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
#         self.q = nn.Linear(size, heads * self.dim, bias=False)
#         self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
#         self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
#         self.out = nn.Linear(heads * self.dim, size, bias=False)
#
#     def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
#         """x: (B, T, E), the next T positions; cache: what is stored; returns (B, T, E)."""
#         raise NotImplementedError  # fix the code below, then delete this line
#         B, T, _ = x.shape
#         q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
#         k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
#         v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
#         positions = torch.arange(T)
#         if cache is not None:
#             if cache:
#                 k = torch.cat([cache["k"], k], 2)
#                 v = torch.cat([cache["v"], v], 2)
#             cache["k"], cache["v"] = k, v
#             k = turn(k, torch.arange(k.shape[2]))
#         else:
#             k = turn(k, positions)
#         q = turn(q, positions)
#         y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
#         return self.out(y.transpose(1, 2).reshape(B, T, -1))
### END GIVEN


# %% helpers="decode-in-pieces"
def weights_of(size, heads, kv_heads):
    """Weights of the four projections, by name."""
    generator, rows = torch.Generator().manual_seed(7), kv_heads * (size // heads)
    return {
        name: torch.randn(count, size, generator=generator) * scale / size**0.5
        for name, count, scale in (("q", size, 2), ("k", rows, 2), ("v", rows, 1), ("out", size, 1))
    }


def layer_of(Attention, size, heads, kv_heads):
    """A layer with these weights."""
    layer = Attention(size, heads, kv_heads)
    with torch.no_grad():
        for name, weight in weights_of(size, heads, kv_heads).items():
            getattr(layer, name).weight.copy_(weight)
    return layer


def without_graph(t):
    """The values of a tensor; anything else as it is."""
    return t.detach() if isinstance(t, Tensor) else t


def tensors_in(value):
    """The tensors that a value is or holds."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple, set)):
        return [tensor for one in value for tensor in tensors_in(one)]
    return [value] if isinstance(value, Tensor) else []


def in_pieces(Attention, x, sizes, heads, kv_heads):
    """Feed x to an Attention in pieces of these sizes, with one cache, and compare with the whole."""
    layer, cache = layer_of(Attention, x.shape[2], heads, kv_heads), {}
    own = set(vars(layer))
    y = [without_graph(layer(piece, cache)) for piece in x.split(sizes, 1)]
    extra = [
        str(name)
        for name, value in cache.items()
        if name not in ("k", "v") and sum(tensor.numel() for tensor in tensors_in(value)) > x.shape[1]
    ]
    return {
        "y": torch.cat(y, 1),
        "k": without_graph(cache.get("k")),
        "v": without_graph(cache.get("v")),
        "empty": not cache,
        "extra": extra,
        "remembered": [name for name, value in vars(layer).items() if name not in own and tensors_in(value)],
    }


def turned_by(x, positions):
    """Each pair of neighbours turned by the angle of its position, in float64."""
    angles = positions.double()[:, None] * 10000.0 ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)


def simulated(x, sizes, heads, kv_heads, *, queries=True, keys=True, corner="lower right", again=""):
    """What comes out in pieces, in float64, with what is stored; by default the right thing.

    queries, keys: whether their positions go on from what is stored, or begin at 0 again; corner: where the mask
    starts; again: which keys are turned a second time.
    """
    w = {name: weight.double() for name, weight in weights_of(x.shape[2], heads, kv_heads).items()}
    stored, found, start = None, [], 0
    for piece in x.double().split(sizes, 1):
        T = piece.shape[1]
        q, k, v = [
            (piece @ w[n].T).unflatten(-1, (m, -1)).transpose(1, 2)
            for n, m in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        ]
        here = torch.arange(start, start + T)
        q = turned_by(q, here if queries else torch.arange(T))
        if again != "stored":
            k = turned_by(k, here if keys else torch.arange(T))
        if stored:
            k, v = torch.cat([stored[0], k], 2), torch.cat([stored[1], v], 2)
        start += T
        once_more = turned_by(k, torch.arange(start)) if again else k
        stored = (k if again == "in each call" else once_more, v)
        keep = {
            "lower right": torch.ones(T, start).tril(start - T),
            "upper left": torch.ones(T, start).tril(),
            "none": torch.ones(T, start),
            "upper left, unless alone": torch.ones(T, start).tril(0 if T > 1 else start),
        }[corner]
        group = heads // kv_heads
        scores = q @ once_more.repeat_interleave(group, 1).mT / q.shape[-1] ** 0.5
        y = scores.masked_fill(keep == 0, -torch.inf).softmax(-1) @ v.repeat_interleave(group, 1)
        found.append(y.transpose(1, 2).flatten(2) @ w["out"].T)
    return {"y": torch.cat(found, 1), "k": stored[0], "v": stored[1]}


def close(came, wanted):
    """Whether two tensors agree up to rounding."""
    same_shape = isinstance(came, Tensor) and came.shape == wanted.shape
    return same_shape and torch.allclose(came.double(), wanted, rtol=1e-5, atol=1e-5)


def misread(x, sizes, heads, kv_heads):
    """The mistakes that show when x is fed in pieces of these sizes."""
    second = sizes[0]
    variants = {
        "Your mask starts at the upper left corner of the scores. So the first query of a piece is lined up with the "
        "first stored key, and a single query sees that key and no other. `is_causal=True` does this however many "
        "keys there are. The last query belongs to the last key: pass `causal_lower_right(T, keys)` as `attn_mask`, "
        "or a mask made from positions.": [
            {"corner": "upper left", "queries": q, "keys": k} for q in (True, False) for k in (True, False)
        ],
        "A single new query sees all keys now. But the mask of a piece of several, such as `is_causal=T > 1`, still "
        "starts at the upper left corner, so behind stored keys its first query sees only the first of them. Pass "
        "`causal_lower_right(T, keys)` as `attn_mask`; for a single query it hides nothing.": [
            {"corner": "upper left, unless alone"}
        ],
        "The positions of your queries begin at 0 in every call, although the queries come after everything that is "
        f"stored. Here the second call begins at position {second}: the length of what is stored says so.": [
            {"queries": False}
        ],
        "The positions of your new keys begin at 0 in every call, although these keys come after everything that is "
        f"stored. Here the second call begins at position {second}: the length of what is stored says so.": [
            {"keys": False}
        ],
        "The positions of your queries and of your new keys begin at 0 in every call, although both come after "
        f"everything that is stored. Here the second call begins at position {second}: the length of what is stored "
        "says so.": [{"queries": False, "keys": False}],
        "The queries of a piece see the keys of the same piece that come after them, because you passed no mask. One "
        "query at the end needs none, but several do: the last query belongs to the last key, and each earlier one "
        "sees one key less.": [{"corner": "none"}],
        "You turn keys again that are stored already turned, so their positions move on with every call. Turn a key "
        "once, before you store it.": [{"again": how} for how in ("stored", "in each call", "both")],
    }
    return [
        mistake(sentence, when=lambda seen, how=how: close(seen["y"], simulated(x, sizes, heads, kv_heads, **how)["y"]))
        for sentence, ways in variants.items()
        for how in ways
    ]


def judge_pieces(seen, x, sizes, heads, kv_heads, *mistakes, because=""):
    """The results are those of the whole sequence, up to rounding."""
    other = because or (
        f"Fed in pieces of {', '.join(map(str, sizes))}, the sequence gives other numbers than in one piece without a "
        "cache. Compare the results piece by piece: which is the first that differs?"
    )
    right = simulated(x, [x.shape[1]], heads, kv_heads)["y"]
    never = mistake(
        "After all calls the dict is still empty, so nothing was ever stored in it. `{}` is false: `if cache:` passes "
        "over it, and `cache or {}` makes another dict. Ask `cache is not None`.",
        when=lambda seen: seen["empty"],
    )
    seen.that(close(seen["y"], right), other, *mistakes, never, *misread(x, sizes, heads, kv_heads))


def some(seed, *size):
    """Random numbers of this size."""
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


# %% check="decode-in-pieces" points=2
"""Whole, token by token, in chunks; what is stored; several conversations, and going back."""
with check("decode-in-pieces") as test:

    def whole(Attention, x, heads, kv_heads):
        """Call an Attention with a whole sequence and without a cache, then backward."""
        layer, x = layer_of(Attention, x.shape[2], heads, kv_heads), x.clone().requires_grad_()
        y = layer(x)
        if isinstance(y, Tensor) and y.requires_grad:
            (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
        weights = {name: getattr(layer, name).weight.grad for name in ("q", "k", "v", "out")}
        return {"y": without_graph(y), "gradients": {"x": x.grad, **weights}}

    test("two rows of six positions, without a cache")
    x = some(1, 2, 6, 16)
    seen = observe_scenario(whole, Attention, x, 4, 2)
    seen.that(
        isinstance(seen["y"], Tensor) and seen["y"].shape == x.shape,
        "`forward` must return a tensor with the shape of x.",
        stage="type",
    )
    seen.that(
        close(seen["y"], simulated(x, [6], 4, 2)["y"]),
        "Without a cache the layer was right, and now it gives other numbers. Only calls with a cache need to change.",
    )

    test("the same six positions, one at a time")
    seen = observe_scenario(in_pieces, Attention, x, [1] * 6, 4, 2)
    judge_pieces(seen, x, [1] * 6, 4, 2)

    test("in pieces of three, two and one, and a prompt of four with two single positions after it")
    for sizes in ([3, 2, 1], [4, 1, 1]):
        judge_pieces(observe_scenario(in_pieces, Attention, x, sizes, 4, 2), x, sizes, 4, 2)

    ### BEGIN HIDDEN TESTS
    test.hidden("what is stored after six positions")
    seen = observe_scenario(in_pieces, Attention, x, [3, 2, 1], 4, 2)
    right = simulated(x, [6], 4, 2)
    both = isinstance(seen["k"], Tensor) and isinstance(seen["v"], Tensor)
    seen.that(both, 'The dict must hold the keys under "k" and the values under "v".', stage="type")
    seen.that(
        seen["k"].shape == right["k"].shape and seen["v"].shape == right["v"].shape,
        "After six positions of two rows, k and v must be (2, 2, 6, 4) each: (B, kv_heads, positions, dim).",
        mistake(
            "Your cache holds the heads repeated for the four query heads. Store the two key-value heads once; "
            "`enable_gqa=True`, or repeating after you have stored them, lets each serve two query heads.",
            when=lambda seen: seen["k"].shape[1] == 4 or seen["v"].shape[1] == 4,
        ),
        stage="shape",
    )
    seen.that(
        close(seen["k"], right["k"]),
        "The keys in the cache are not the layer's keys, each turned by its own position.",
        mistake(
            "Your cache holds keys that are not turned, so every call must turn all of them again. Turn a key once, "
            "before you store it.",
            when=lambda seen: close(turned_by(seen["k"].double(), torch.arange(6)), right["k"]),
        ),
    )
    seen.that(close(seen["v"], right["v"]), "The values in the cache are not the layer's values.")
    seen.that(
        not seen["extra"],
        "Beside k and v your cache holds another tensor with more than one number for each position. Keys and values "
        "are all that a step needs of the past.",
    )
    seen.that(
        not seen["remembered"],
        "After the calls the layer itself holds tensors that it didn't have before. What a call remembers belongs in "
        "the cache, because one layer serves several conversations. What follows from the sizes alone, such as a mask, "
        "is made anew in each call.",
    )

    def in_turn(Attention, x, other, heads, kv_heads):
        """Feed two sequences to one Attention, a position of each in turn, with a cache for each."""
        layer, caches = layer_of(Attention, x.shape[2], heads, kv_heads), ({}, {})
        layer(x[:, :2], caches[0])
        steps = range(2, x.shape[1])
        y = [[without_graph(layer(z[:, s : s + 1], c)) for z, c in zip((x, other), caches, strict=True)] for s in steps]
        return {"y": torch.cat([first for first, _ in y], 1), "of other": torch.cat([second for _, second in y], 1)}

    test.hidden("one layer and two conversations, each with its own cache")
    other = some(2, 2, 6, 16)
    seen = observe_scenario(in_turn, Attention, x, other, 4, 2)
    mixed = mistake(
        "One layer served two conversations, each with its own cache, and mixed them up. How many positions are stored "
        "must be read from the cache that came with the call. The layer itself must not count.",
        stage=("raised", "value"),
    )
    seen.expecting(mixed)
    seen.that(close(seen["y"], simulated(x, [6], 4, 2)["y"][:, 2:]), "")
    seen.that(close(seen["of other"], simulated(other[:, 2:], [4], 4, 2)["y"]), "")

    def going_back(Attention, x, other, heads, kv_heads):
        """Keep the cache after three positions, go on from it twice with different inputs, and then with the first."""
        layer, cache = layer_of(Attention, x.shape[2], heads, kv_heads), {}
        layer(x[:, :3], cache)
        kept = dict(cache)
        before = {name: value.detach().clone() for name, value in kept.items() if isinstance(value, Tensor)}
        first, second = dict(kept), dict(kept)
        y = [layer(x[:, 3:4], first), layer(x[:, 4:5], first)]
        stored = [value for value in first.values() if isinstance(value, Tensor)]
        noted = [value.detach().clone() for value in stored]
        of_other = [layer(other[:, 3:4], second), layer(other[:, 4:5], second)]
        overwritten = not all(torch.equal(value, was) for value, was in zip(stored, noted, strict=True))
        y.append(layer(x[:, 5:], first))
        return {
            "overwritten": overwritten,
            "y": torch.cat([without_graph(one) for one in y], 1),
            "of other": torch.cat([without_graph(one) for one in of_other], 1),
            "same": all(
                kept[name].shape == was.shape and bool((kept[name] == was).all()) for name, was in before.items()
            ),
        }

    test.hidden("a caller keeps the cache after three positions, and goes on from it twice")
    other = torch.cat([x[:, :3], other[:, 3:]], 1)
    seen = observe_scenario(going_back, Attention, x, other, 4, 2)
    seen.that(
        seen["same"],
        "A tensor that the caller had kept, to go back to position 3, was changed in place by a later call. Make new "
        "tensors, and put these into the dict.",
        stage="aliasing",
    )
    seen.that(
        close(seen["y"], simulated(x, [6], 4, 2)["y"][:, 3:])
        and close(seen["of other"], simulated(other, [6], 4, 2)["y"][:, 3:5]),
        "The caller went on twice from a cache that it had kept after three positions, with different inputs. Nothing "
        "was overwritten, but a result is wrong. The position of a piece must come from the length of what the cache "
        'has under "k", not from a list, which all copies of the dict share, or from the layer.',
        mistake(
            "The caller went on twice from a cache that it had kept after three positions, with different inputs, and "
            "one continuation overwrote what the other had stored. Don't write into memory behind the stored "
            "positions.",
            when=lambda seen: seen["overwritten"],
        ),
        stage="aliasing",
    )

    test.hidden("the gradient of a layer without a cache")
    seen = observe_scenario(whole, Attention, x, 4, 2)
    leaves = {name: t.double().requires_grad_() for name, t in {"x": x, **weights_of(16, 4, 2)}.items()}

    def plain(x, **w):
        """The layer's result for this x and these weights, by the formula."""
        q, k, v = [(x @ w[name].T).unflatten(-1, (-1, 4)).transpose(1, 2) for name in ("q", "k", "v")]
        q, k = (turned_by(t, torch.arange(6)) for t in (q, k))
        scores = q @ k.repeat_interleave(2, 1).mT / 2
        seen_keys = scores.masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf).softmax(-1)
        return (seen_keys @ v.repeat_interleave(2, 1)).transpose(1, 2).flatten(2) @ w["out"].T

    incoming = torch.linspace(-1, 1, 192).view(2, 6, 16).double()
    right = torch.autograd.grad((plain(**leaves) * incoming).sum(), list(leaves.values()))
    came = seen["gradients"].values()
    lost = [
        "x" if name == "x" else f"the weight of `{name}`"
        for name, one, wanted in zip(leaves, came, right, strict=True)
        if not isinstance(one, Tensor) or not torch.allclose(one.double(), wanted, rtol=1e-3, atol=1e-4)
    ]
    seen.that(
        not lost,
        "Without a cache the layer could be trained, and now {detail} gets no gradient, or a wrong one.",
        stage="gradient",
        detail=", ".join(lost),
    )
    ### END HIDDEN TESTS

# %% check="decode-in-pieces" points=1
"""The work of a call; grouped heads, several rows, a long text."""
with check("decode-in-pieces") as test:
    test("in pieces of three, two and one")
    x = some(1, 2, 6, 16)
    seen = observe_scenario(in_pieces, Attention, x, [3, 2, 1], 4, 2).expecting(FIRST_CHECK_FIRST)
    judge_pieces(seen, x, [3, 2, 1], 4, 2, FIRST_CHECK_FIRST)

    ### BEGIN HIDDEN TESTS
    class Work(torch.overrides.TorchFunctionMode):
        """Counts torch's functions that are called, and the numbers in the largest result of arithmetic.

        A TorchDispatchMode would see more, but under one causal_lower_right can't make its tensor.
        """

        ARITHMETIC = (
            "mul", "multiply", "add", "sub", "subtract", "div", "neg", "addcmul", "lerp", "cos", "sin", "polar",
            "complex", "matmul", "mm", "bmm", "baddbmm", "einsum", "tensordot", "linear", "outer", "rmul", "radd",
        )  # fmt: skip

        def __init__(self):
            super().__init__()
            self.count, self.attentions, self.largest = 0, 0, 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            self.count += 1
            self.attentions += func is F.scaled_dot_product_attention
            name = getattr(func, "__name__", "").strip("_")
            if isinstance(out, Tensor) and name in self.ARITHMETIC:
                self.largest = max(self.largest, out.numel())
            return out

    def work_of(Attention, x, stored, new, heads, kv_heads):
        """Store positions in one call, feed a piece after them, and count what that call does; drop the dict."""
        layer, cache = layer_of(Attention, x.shape[2], heads, kv_heads), {}
        layer(x[:, :stored], cache)
        with Work() as work:
            layer(x[:, stored : stored + new], cache)
        refs = [StorageWeakRef(t.untyped_storage()) for name in ("k", "v") for t in tensors_in(cache.get(name))]
        del cache
        if not all(ref.expired() for ref in refs):
            gc.collect()  # a function that refers to itself may have kept them until now
        alive = any(not ref.expired() for ref in refs)
        return {"calls": work.attentions, "count": work.count, "largest": work.largest, "alive": alive}

    test.hidden("the work of a call after 60 positions")
    x = some(3, 2, 72, 16)
    few, many = (observe_scenario(work_of, Attention, x, 60, new, 4, 2) for new in (2, 12))
    for seen in (few, many):
        seen.that(
            seen["calls"] == 1,
            "A call of `forward` must call `scaled_dot_product_attention` once, for all heads and all new positions "
            "together. Yours called it {detail}.",
            stage="rule",
            detail=f"{seen['calls']} times",
        )
    many.that(
        many["count"] <= few["count"] + 5,
        "The number of operations grows with the positions of a piece. Handle all of them at once, without a loop.",
        stage="rule",
    )
    few.that(
        few["largest"] < 2 * 2 * 60 * 4 // 2,
        "A call with two new positions calculates with all 60 stored keys outside of `scaled_dot_product_attention`. "
        "Turn a key once, before you store it; after that only attention reads it.",
        stage="rule",
    )

    few.that(
        not few["alive"],
        "The caller has dropped its dict, and the keys or values that were stored in it are still alive. So something "
        "beside the dict keeps them, such as an attribute of the layer or of its class, or a global variable. What a "
        "call remembers belongs in the dict and nowhere else.",
        stage="aliasing",
    )

    for idea, heads, kv_heads, rows in (
        ("one key-value head for all four query heads, three rows", 4, 1, 3),
        ("as many key-value heads as query heads, one row", 4, 4, 1),
        ("two query heads, two rows", 2, 1, 2),
    ):
        test.hidden(idea)
        x, sizes = some(4, rows, 7, 16), [2, 1, 4]
        seen = observe_scenario(in_pieces, Attention, x, sizes, heads, kv_heads)
        judge_pieces(
            seen,
            x,
            sizes,
            heads,
            kv_heads,
            because="With other numbers of rows, of query heads or of key-value heads, the pieces no longer give what "
            "the whole gives. Take these numbers from x and from the layer.",
        )

    test.hidden("seventy positions, one at a time behind a prompt of twenty")
    x, sizes = some(5, 1, 70, 16), [20] + [1] * 50
    seen = observe_scenario(in_pieces, Attention, x, sizes, 4, 2)
    judge_pieces(
        seen,
        x,
        sizes,
        4,
        2,
        because="In a longer text the pieces no longer give what the whole gives. A query sees every stored key, "
        "however many there are.",
    )

    test.hidden("numbers that are 100,000 times as large")
    x, sizes = some(4, 2, 7, 16), [2, 1, 4]
    seen = observe_scenario(in_pieces, Attention, x * 1e5, sizes, 4, 2)
    seen.that(
        close(seen["y"] / 1e5, simulated(x * 1e5, [7], 4, 2)["y"] / 1e5),
        "With x 100,000 times as large, the pieces no longer give what the whole gives. Many scores lie far below -1e9 "
        "here, so a mask that adds such a number doesn't hide a key from a query whose other scores are lower still. "
        "Hide keys with -inf, or with a bool mask.",
    )
    ### END HIDDEN TESTS
