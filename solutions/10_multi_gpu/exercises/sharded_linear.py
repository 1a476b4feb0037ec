# %% [markdown]
# ### Exercise 10.11 · FSDP in forty lines
#
# implement · long · 40 min · 3 points
#
# The weight of a layer is cut into equal shares, one for each rank. A rank has the whole weight only while it
# multiplies with it, once in forward and once in backward. This is what `fully_shard` does for each block. Write it for
# one linear layer, as an `autograd.Function` (chapter 5).
#
# **Contract**
#
# - `shard_of(weight, rank, world)` returns the share of that rank: the weight, which may be non-contiguous, is
#   flattened, padded with zeros at the end, and cut into `world` equally long pieces, no longer than necessary. A share
#   has its own memory, with nothing else in it, and is not tracked by autograd. The function needs no process group.
# - `sharded_linear(x, shard, out_features)` is called on every rank, with x (N, I) and the share of this rank. It
#   returns `F.linear(x, weight)`, (N, out_features).
# - The gradient of x is that of this rank's result alone. The gradient of the share is this rank's piece of the
#   weight's gradient, averaged over the ranks as DDP does, and 0 in the padding.
# - The ranks communicate only by one all_gather in forward, and by one all_gather and one reduce_scatter in backward,
#   always in equal shares. If x needs no gradient (then it needs none on any rank), backward skips the all_gather.
# - No rank keeps the whole weight after forward or after backward.
# - It works for any number of ranks, including 1; for float32 and float64; and for weights with fewer elements than
#   ranks. N may differ from rank to rank, and may be 0 on some.
#
# **Rule.** No all_reduce, no broadcast, no objects, no messages between two ranks. The check records what is sent, but
# doesn't see files or stores, so please keep to the rule there.
#
# <details><summary>Hint 1</summary>
#
# What does a rank need while it multiplies, and for how long? Which collective makes a whole from equal shares? Which
# collective sums wholes and leaves each rank its share?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In forward, gather, cut off the padding, view as (out, in) and multiply; save x and the *share*. In backward, gather
# again for `g @ weight`. `g.t() @ x` is what this rank adds to the weight's gradient: flatten it, pad it,
# reduce_scatter, and divide by the number of ranks.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Both collectives write into memory that you pass: `all_gather` into a list with a tensor for each rank,
# `reduce_scatter` into one tensor as large as a share. Backward does to this rank's gradient what `shard_of` does to
# the weight: flatten it, pad it to `world` equal pieces, and pass these as a list. `ctx.needs_input_grad` says which
# gradients are needed, and `out_features` gets None.
#
# </details>


# %% answer="sharded-linear"
### BEGIN SOLUTION
def shard_of(weight: Tensor, rank: int, world: int) -> Tensor:
    """A rank's equal share of the flattened weight, (ceil(numel / world),), zeros at the end.

    It has memory of its own.
    """
    flat = weight.detach().flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel())).chunk(world)[rank].clone()


def gathered(shard: Tensor, out_features: int, in_features: int) -> Tensor:
    """The whole weight, (out_features, in_features), of the shares of all ranks."""
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts)[: out_features * in_features].view(out_features, in_features)


class ShardedLinear(torch.autograd.Function):
    """F.linear, whose weight is there as a whole only while it is multiplied with."""

    @staticmethod
    def forward(ctx, x, shard, out_features):
        ctx.save_for_backward(x, shard)
        return F.linear(x, gathered(shard, out_features, x.shape[1]))

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        world = dist.get_world_size()
        of_x = g @ gathered(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        full = (g.t() @ x).flatten()
        full = F.pad(full, (0, world * len(shard) - len(full)))
        of_shard = torch.empty_like(shard)
        dist.reduce_scatter(of_shard, list(full.chunk(world)))
        return of_x, of_shard / world, None


def sharded_linear(x: Tensor, shard: Tensor, out_features: int) -> Tensor:
    """x (N, I), the share of this rank (S,); returns (N, out_features). Every rank calls it."""
    return ShardedLinear.apply(x, shard, out_features)


### END SOLUTION
### BEGIN GIVEN
# def shard_of(weight: Tensor, rank: int, world: int) -> Tensor:
#     """A rank's equal share of the flattened weight, (ceil(numel / world),), zeros at the end.
#
#     It has memory of its own.
#     """
#     raise NotImplementedError  # your code here
#
#
# class ShardedLinear(torch.autograd.Function):
#     """F.linear, whose weight is there as a whole only while it is multiplied with."""
#
#     @staticmethod
#     def forward(ctx, x, shard, out_features):
#         raise NotImplementedError  # your code here
#
#     @staticmethod
#     def backward(ctx, g):
#         raise NotImplementedError  # your code here
#
#
# def sharded_linear(x: Tensor, shard: Tensor, out_features: int) -> Tensor:
#     """x (N, I), the share of this rank (S,); returns (N, out_features). Every rank calls it."""
#     return ShardedLinear.apply(x, shard, out_features)
### END GIVEN


# %% helpers="sharded-linear"
everywhere = (
    "all_reduce and broadcast send whole weights or gradients everywhere: all_gather makes one whole of the shares, "
    "and reduce_scatter gives each rank just its share of a sum."
)
uncounted = (
    "The check sees what is sent in the call itself: not in another thread or process, and not below torch's modes. Do "
    "all the work in the call."
)
begin = "This check builds on the first one, which doesn't pass yet. Fix that first."


class Traffic(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes what is sent while it is on, and which memory that was made meanwhile is still there."""

    def __init__(self):
        super().__init__()
        self.sent, self.made = [], {}

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **(kwargs or {}))
        leaves = torch.utils._pytree.tree_leaves
        if "c10d" in operation.namespace:
            name = operation.name().split("::")[1].replace("_", "")
            kinds = {"allgather": "all_gather", "reducescatter": "reduce_scatter", "allreduce": "all_reduce"}
            kind = next((full for short, full in kinds.items() if name.startswith(short)), name)
            if not name.startswith(("wait", "wrap", "barrier")):
                handed = [one for one in leaves(args) if isinstance(one, Tensor)]
                smallest = min((one.numel() for one in handed), default=0)
                self.sent.append([kind, smallest, str(handed[0].dtype) if handed else ""])
        for one in leaves(out):
            if isinstance(one, Tensor):
                storage = one.untyped_storage()
                reference = torch.multiprocessing.reductions.StorageWeakRef(storage)
                self.made.setdefault(storage._cdata, (reference, one.element_size()))
        return out

    def kept(self, *others):
        """How many numbers fit into the memory that is still there and belongs to none of the others."""
        theirs = {one.untyped_storage()._cdata for one in others if isinstance(one, Tensor)}
        made = [(one.cdata, width) for place, (one, width) in self.made.items() if place not in theirs]
        there = [(torch.UntypedStorage._new_with_weak_ptr(one), width) for one, width in made]
        return sum(storage.nbytes() / width for storage, width in there if storage is not None)


def only_sent():
    """Where messages are sent that Traffic can't note; gloo's own threads compute, too."""
    return noting_operations(lambda *operation: None, frozenset(["c10d"]))


def numbers(shape, k, dtype):
    """Values between -0.6 and 0.7 without symmetry; no two k give the same."""
    return ((torch.arange(math.prod(shape)) * 7 + 3 * k) % 11 / 8 - 0.6 + k / 64).to(dtype).reshape(shape)


def pieces(whole, world):
    """The shares of all ranks."""
    flat, size = whole.flatten(), math.ceil(whole.numel() / world)
    full = torch.zeros(size * world, dtype=flat.dtype)
    full[: len(flat)] = flat
    return [full[rank * size : (rank + 1) * size].clone() for rank in range(world)]


def passed(linear, rank, case, patience=0.0):
    """Forward and backward through one layer on one rank: results, gradients, what was sent and kept.

    patience: seconds that memory has to go away, for a thread of gloo holds for a moment what it has sent.
    """
    out, width, rows, dtype, tracked = case
    shard = pieces(numbers((out, width), 1, dtype), len(rows))[rank].requires_grad_()
    x = numbers((rows[rank], width), 4 + rank, dtype).requires_grad_(tracked)

    def kept(traffic, *others):
        """How many numbers still lie in memory that was made meanwhile."""
        until = time.monotonic() + patience
        while traffic.kept(*others) > len(shard) and time.monotonic() < until:
            time.sleep(0.05)
        return traffic.kept(*others)

    with only_sent() as unseen, Traffic() as forward:
        y = linear(x, shard, out)
    if not isinstance(y, Tensor) or tuple(y.shape) != (rows[rank], out):
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        return {"y": None, "shape": str(shape), "sent": [forward.sent], "unseen": unseen}
    facts = {"y": y.detach(), "shape": str(tuple(y.shape)), "kept": [kept(forward, x, shard, y)]}
    with only_sent() as unseen_later, Traffic() as backward:
        y.backward(numbers((rows[rank], out), 8 + rank, dtype))
    facts["kept"].append(kept(backward, x, shard, y, x.grad, shard.grad))
    facts["unseen"] = unseen + unseen_later
    return facts | {"x": x.grad, "shard": shard.grad, "sent": [forward.sent, backward.sent]}


def right_for(case):
    """What each rank must get: results, gradients of x, gradients of the shares, each rank's part of them."""
    out, width, rows, dtype, _ = case
    weight, world = numbers((out, width), 1, dtype), len(rows)
    xs = [numbers((n, width), 4 + rank, dtype) for rank, n in enumerate(rows)]
    gs = [numbers((n, out), 8 + rank, dtype) for rank, n in enumerate(rows)]
    parts = [g.t() @ x for g, x in zip(gs, xs, strict=True)]
    return {
        "xs": xs,
        "y": [x @ weight.t() for x in xs],
        "x": [g @ weight for g in gs],
        "parts": parts,
        "shard": pieces(sum(parts) / world, world),
    }


def near(came, right):
    """Whether these tensors, one for each rank, are those."""
    return all(
        isinstance(a, Tensor)
        and a.shape == b.shape
        and a.dtype == b.dtype
        and torch.allclose(a, b, rtol=0, atol=3e-6 if b.dtype == torch.float32 else 1e-12)
        for a, b in zip(came, right, strict=True)
    )


def judge(seen, facts, case, *known):
    """Judge results and gradients on all ranks."""
    out, width, rows, dtype, tracked = case
    world, right = len(rows), right_for(case)
    seen.that(not any(one["unseen"] for one in facts), uncounted, stage="rule")
    seen.that(
        all(one["y"] is not None for one in facts),
        f"On each rank the result must be a tensor (N, out_features), but it is {facts[0]['shape']}.",
        *known,
        stage="shape",
    )
    wrong_kind = f"The result must have the dtype of x and the weight, {dtype}."
    seen.that(all(one["y"].dtype == dtype for one in facts), wrong_kind, *known, stage="dtype")
    shares = pieces(numbers((out, width), 1, dtype), world)
    orders = [shares[k:] + shares[:k] for k in range(world)] + [shares[::-1]]
    mixed = [torch.cat(order)[: out * width].view(out, width) for order in orders]
    lying = numbers((out, width), 1, dtype).view(width, out)
    y = [one["y"] for one in facts]
    seen.that(
        near(y, right["y"]),
        "The result is not F.linear(x, weight).",
        *known,
        mistake(
            "The weight has the wrong orientation. The shares are the rows of (out, in), one after another.",
            when=lambda seen: near(y, [x @ lying for x in right["xs"]]),
        ),
        mistake(
            "You joined the shares in the wrong order. Rank 0's comes first.",
            when=lambda seen: all(
                any(near([one], [x @ weight.t()]) for weight in mixed) for one, x in zip(y, right["xs"], strict=True)
            ),
        ),
    )
    of_x = [one["x"] for one in facts]
    if tracked:
        own, alike = right["x"], len(set(rows)) == 1
        seen.that(
            near(of_x, own),
            "The gradient of x is not that of this rank's result.",
            *known,
            mistake("No gradient reaches x.", when=lambda seen: all(one is None for one in of_x)),
            mistake(
                "Don't average the gradient of x. It belongs to this rank alone, because other ranks have other "
                "samples.",
                when=lambda seen: (
                    (alike and any(near(of_x, [sum(own) / by] * world) for by in (1, world)))
                    or near(of_x, [one / world for one in own])
                ),
            ),
        )
    of_shard = [one["shard"] for one in facts]
    seen.that(
        near(of_shard, right["shard"]),
        "The gradient of the share is not this rank's piece of the weight's gradient, averaged over the ranks.",
        *known,
        mistake("No gradient reaches the share.", when=lambda seen: all(one is None for one in of_shard)),
        mistake(
            "The share's gradient is the sum over the ranks. As in DDP, it must be the mean.",
            when=lambda seen: world > 1 and near(of_shard, pieces(sum(right["parts"]), world)),
        ),
        mistake(
            "The divisor is fixed. Use dist.get_world_size().",
            when=lambda seen: world == 1 and near(of_shard, [right["shard"][0] / 2]),
        ),
        mistake(
            "You divided the share's gradient by the number of ranks twice.",
            when=lambda seen: world > 1 and near(of_shard, [one / world for one in right["shard"]]),
        ),
        mistake(
            "The share's gradient uses only this rank's samples, because reduce_scatter is missing.",
            when=lambda seen: any(
                near(of_shard, [pieces(part / by, world)[rank] for rank, part in enumerate(right["parts"])])
                for by in (1, world)
            ),
        ),
        mistake(
            "The padding is not part of the weight, so its gradient must be 0.",
            when=lambda seen: near([torch.cat(of_shard)[: out * width]], [torch.cat(right["shard"])[: out * width]]),
        ),
        mistake(
            "The weight's gradient has the wrong orientation. It must be (out, in), like the weight.",
            when=lambda seen: near(of_shard, pieces((sum(right["parts"]) / world).t(), world)),
        ),
    )


known = [
    mistake(
        "The ranks wait for each other forever. Each rank must call the same collectives in the same order, even "
        "a rank without samples.",
        raises="RanksHang",
    ),
    mistake(
        "The ranks passed different amounts of data to one collective, or a rank skipped one. Each rank must "
        "call the same collectives in the same order, even a rank without samples.",
        raises="RankDied|preamble|Connection (closed|reset)",
    ),
    mistake(
        "Backward must return a gradient or None for each argument of forward: three here, the last one None.",
        raises="incorrect number of gradients",
    ),
]


# %% check="sharded-linear" points=1
"""Shares, results and gradients on two ranks, without all_reduce."""
with check("sharded-linear") as test:
    test("the shares of a (6, 4) weight for two ranks")
    weight = numbers((6, 4), 1, torch.float32)
    for rank in range(2):
        observe(shard_of, weight, rank, 2).returns(
            pieces(weight, 2)[rank],
            mistake("A share must be one-dimensional. Flatten the weight.", shape=(3, 4)),
            mistake("You cut columns. Flatten the weight row by row.", shape=(6, 2)),
            mistake("This is another rank's share.", gives=pieces(weight, 2)[1 - rank]),
            mistake(
                "You distributed single elements in turn. A share is one piece of the flattened weight.",
                gives=weight.flatten()[rank::2],
            ),
            mistake(
                "You transposed the weight before you flattened it. Flatten it row by row.",
                gives=pieces(weight.t(), 2)[rank],
            ),
            mistake(
                "Use the arguments rank and world. shard_of needs no process group, and any rank may ask for any "
                "share.",
                raises="process group",
            ),
        )

    def on_two(linear, case):
        """Call sharded_linear on two ranks, each with its own x, then backward."""
        return run_on_ranks(lambda rank, world: passed(linear, rank, case), stall=3.0)

    test("two ranks, a (6, 4) weight: the result, and the gradients of x and of the share")
    case = (6, 4, (3, 3), torch.float32, True)
    seen = observe_scenario(on_two, sharded_linear, case).expecting(*known)
    facts = seen.value
    judge(seen, facts, case)

    test("two ranks: only all_gather and reduce_scatter were used")
    used = {name for one in facts for phase in one["sent"] for name, *_ in phase}
    seen.that(
        used <= {"all_gather", "reduce_scatter"},
        "Only all_gather and reduce_scatter are used here.",
        mistake(
            everywhere,
            when=lambda seen: bool(used & {"all_reduce", "broadcast"}),
        ),
        stage="rule",
    )


# %% check="sharded-linear" points=1
"""Three ranks: what is sent, and that no rank keeps the whole weight."""
with check("sharded-linear") as test:

    def on_three(linear, case):
        """Call sharded_linear on three ranks, then backward; note what is sent, and what is still there afterwards."""
        return run_on_ranks(lambda rank, world: passed(linear, rank, case, patience=1.0), world=3, stall=3.0)

    test("three ranks, a (40, 30) weight: nobody keeps the whole of it")
    case = (40, 30, (2, 2, 2), torch.float32, True)
    seen = observe_scenario(on_three, sharded_linear, case).expecting(*known)
    facts = seen.value
    seen.that(near([one["y"] for one in facts], right_for(case)["y"]), begin)
    seen.that(not any(one["unseen"] for one in facts), uncounted, stage="rule")
    after_forward, after_backward = (max(one["kept"][k] for one in facts) for k in range(2))
    seen.that(
        after_forward < 800,
        "You keep the whole weight from forward to backward, so no memory is saved. Keep the share and gather again.",
        stage="rule",
    )
    seen.that(
        after_backward < 800, "After backward the whole weight (or its gradient) is still in memory.", stage="rule"
    )

    test("three ranks: one all_gather in forward, one all_gather and one reduce_scatter in backward")
    names = [[sorted(name for name, *_ in phase) for phase in one["sent"]] for one in facts]
    wanted = [["all_gather"], ["all_gather", "reduce_scatter"]]
    everything = {name for one in names for phase in one for name in phase}
    no_numbers = any(kind != "torch.float32" for one in facts for phase in one["sent"] for _, _, kind in phase)
    seen.that(
        all(one == wanted for one in names),
        "Forward has one all_gather, and backward has one all_gather and one reduce_scatter, but your code sent "
        f"{names[0]}.",
        mistake(
            everywhere,
            when=lambda seen: bool(everything & {"all_reduce", "broadcast"}),
        ),
        mistake(
            "Objects are pickled, and their sizes are sent first. Use the collectives for tensors.",
            when=lambda seen: no_numbers,
        ),
        stage="rule",
    )
    shares = {name: [] for name in everything}
    for one in facts:
        for name, size, _ in one["sent"][0] + one["sent"][1]:
            shares[name].append(size)
    seen.that(
        set(shares["all_gather"]) == {400} and set(shares["reduce_scatter"]) <= {400, 1200},
        "You sent something other than shares. Pass a share to all_gather, and let reduce_scatter return a share.",
        stage="rule",
    )


# %% check="sharded-linear" points=1
"""Sizes that don't divide, an x without gradient, a rank without samples, one rank, training."""
with check("sharded-linear") as test:
    test("the shares of a (5, 3) weight for two ranks: equally long, zeros at the end; memory of their own")
    weight = numbers((5, 3), 1, torch.float32)
    unequal = "15 elements don't divide by 2 ranks: fill up with zeros at the end and cut equally long shares."
    even = numbers((6, 4), 1, torch.float32)
    observe(shard_of, even, 0, 2).returns(pieces(even, 2)[0], mistake(begin, when=lambda seen: True))
    for rank in range(2):
        seen = observe(shard_of, weight.clone().requires_grad_(), rank, 2)
        of_size = mistake(unequal, raises="size|divi")
        seen.returns(pieces(weight, 2)[rank], mistake(unequal, stage=("shape", "value")), of_size)
        seen.is_untracked(because="A share must not be tracked by autograd. Detach the weight first.")
        own = "A share must own its memory, because otherwise it keeps the whole weight alive."
        seen.owns_its_memory(because=own)
        seen.that(seen.value.untyped_storage().nbytes() <= 4 * 8, own, stage="aliasing")

    ### BEGIN HIDDEN TESTS
    test.hidden("the share of a weight that is not contiguous")
    turned = numbers((4, 5), 2, torch.float32).t()
    viewed = "A weight may be non-contiguous, and then `view` can't flatten it. Use `reshape(-1)` or `flatten()`."
    observe(shard_of, turned, 1, 3).returns(pieces(turned, 3)[1], mistake(viewed, raises="view size is not compatible"))

    plain = (6, 4, (3, 3), torch.float32, True)
    cases = {
        "sizes that don't divide": (5, 3, (3, 1), torch.float32, True),
        "x needs no gradient": (4, 5, (2, 2), torch.float32, False),
        "fewer elements than ranks": (1, 1, (2, 3), torch.float32, True),
        "float64": (3, 3, (2, 4), torch.float64, True),
        "a rank without samples": (3, 5, (2, 0), torch.float32, True),
    }
    alone = (3, 5, (4,), torch.float32, True)

    def on_all(linear, cases, alone):
        """Call sharded_linear for several weights on two ranks, train two layers, then on a rank that is alone."""

        def on_rank(rank, world):
            torch.use_deterministic_algorithms(True, warn_only=True)  # what nobody has written is nan
            try:
                facts = [passed(linear, rank, cases[0])]
            except NotImplementedError:
                raise
            except Exception:  # it is told in the first check
                return None
            if facts[0]["y"] is None:
                return None
            facts += [passed(linear, rank, case) for case in cases[1:]]
            shards = [pieces(numbers(shape, k, torch.float64), world)[rank] for k, shape in enumerate([(4, 3), (2, 4)])]
            shards = [nn.Parameter(shard) for shard in shards]
            optimizer = torch.optim.Adam(shards, lr=0.05, weight_decay=0.01)
            for step in range(3):
                optimizer.zero_grad()
                x = numbers((6, 3), 20 + step, torch.float64)[rank::world]
                y = linear(linear(x, shards[0], 4).tanh(), shards[1], 2)
                y.square().mean().backward()
                optimizer.step()
            dist.barrier()
            _kept = dist.group.WORLD  # the end of a group takes 30 ms
            dist.destroy_process_group()
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            by_itself = passed(linear, 0, alone)
            return {"cases": facts, "trained": [shard.detach() for shard in shards], "alone": by_itself}

        return run_on_ranks(on_rank, stall=5.0)

    test.hidden("sizes that don't divide (and the other cases, in the same run)")
    seen = observe_scenario(on_all, sharded_linear, [plain, *cases.values()], alone).expecting(
        mistake(
            "If the weight's size is not divisible by the number of ranks, there is padding at its end. Cut it "
            "off before you view the gathered shares as (out, in), and pad the gradient before you send it.",
            raises=r"(?i)invalid for input of size|sizes\(\)|shape\[0\]|same size|world.?size|number of input",
        ),
        mistake(
            "The weight may be float64. Everything that you gather and send needs its dtype, for example from "
            "torch.empty_like.",
            raises="dtype|scalar type",
        ),
        *known,
    )
    seen.that(all(one is not None for one in seen.value), begin, stage="raised")
    judge(seen, [one["cases"][0] for one in seen.value], plain, mistake(begin, when=lambda seen: True))
    for number, (idea, case) in enumerate(cases.items(), start=1):
        facts = [one["cases"][number] for one in seen.value]
        if number > 1:
            test.hidden(idea)
        judge(seen, facts, case)
        if idea == "x needs no gradient":
            seen.that(
                not any(name == "all_gather" for one in facts for name, *_ in one["sent"][1]),
                "x needs no gradient, so backward needs no weight: leave the all_gather out.",
                stage="rule",
            )

    test.hidden("three steps of Adam with two layers, against one process")
    weights = [nn.Parameter(numbers(shape, k, torch.float64)) for k, shape in enumerate([(4, 3), (2, 4)])]
    means = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]
    for step in range(3):
        for weight in weights:
            weight.grad = None
        y = F.linear(F.linear(numbers((6, 3), 20 + step, torch.float64), weights[0]).tanh(), weights[1])
        y.square().mean().backward()
        with torch.no_grad():  # a step of Adam by hand, which is there at once
            for weight, (first, second) in zip(weights, means, strict=True):
                gradient = weight.grad + 0.01 * weight
                first.lerp_(gradient, 0.1)
                second.lerp_(gradient.square(), 0.001)
                scale = (second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
                weight -= 0.05 / (1 - 0.9 ** (step + 1)) * first / scale
    for layer, weight in enumerate(weights):
        came = torch.cat([one["trained"][layer] for one in seen.value])
        same = torch.allclose(came[: weight.numel()].view_as(weight), weight.detach(), rtol=0, atol=1e-6)
        seen.that(same, "After three steps the weights differ from those of a single process with all samples.")

    test.hidden("one rank alone")
    judge(seen, [seen.value[0]["alone"]], alone)
    ### END HIDDEN TESTS
