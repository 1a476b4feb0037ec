# %% [markdown]
# ### Exercise 10.4 · DDP's gradient step by hand
#
# implement · solid · 20 min · 2 points
#
# Every rank has run backward on its own share of the batch. Make the gradients equal to those that
# DistributedDataParallel would have computed.
#
# **Contract**
#
# - The function is called on every rank after a local backward. Each trainable parameter's `.grad` becomes the mean
#   over the ranks, the same on all of them.
# - If a parameter got no gradient on some rank (a branch that was not used there), it counts as zeros on that rank.
#   Afterwards it has a gradient on every rank. (PyTorch's tutorial has a function of this name that expects a gradient
#   everywhere.) If *no* rank has used a parameter, its gradient may stay None, as in DDP, or be zeros.
# - Frozen parameters keep `.grad` None. No parameter is changed. Each gradient keeps its dtype, without a detour
#   through a smaller one, and with one rank also its values.
# - Gradients may be non-contiguous. You may assume that some parameter is trainable, that all trainable parameters have
#   the same dtype, and that the sum over the ranks fits into it.
#
# **Rule.** Do not use torch.nn.parallel.
#
# You meet this again in Exercise 12.10, where the ranks have different numbers of targets.
#
# <details><summary>Hint 1</summary>
#
# What does all_reduce compute by default? If rank 1 skips the collective for a parameter that it didn't use, which call
# of rank 1 is matched with rank 0's?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# All ranks must make the same calls in the same order, whatever each has used. Which parameters do all of them know
# about? And what can a rank contribute for a parameter whose grad is None?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# All ranks know the same trainable parameters in the same order, so go through those. Use zeros if a gradient is None.
# Sum first and divide afterwards, and remember that a collective needs contiguous memory.
#
# </details>


# %% answer="average-gradients"
def average_gradients(model: nn.Module) -> None:
    """Replace each trainable parameter's gradient by its mean over the ranks, as DDP does."""
    ### BEGIN SOLUTION
    world = dist.get_world_size()
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        grad = parameter.grad
        grad = torch.zeros_like(parameter) if grad is None else grad.contiguous()
        dist.all_reduce(grad)
        parameter.grad = grad / world
    ### END SOLUTION


# %% helpers="average-gradients"
def numbers(shape, k, rank):
    """Values without symmetry; those of parameter k on a rank."""
    count = torch.arange(math.prod(shape), dtype=torch.float64)
    return ((count * 7 + 3 * k + 5 * rank) % 11 + k / 4 - 3 * rank).reshape(shape)


def branches(dtype, rank=9):
    """A model with a frozen part and branches that not every batch uses; its weights tell the rank."""
    layers = {name: nn.Linear(3, 2, bias=False) for name in ("a", "frozen", "b", "c")}
    model = nn.ModuleDict(layers).to(dtype)
    model["frozen"].requires_grad_(False)
    with torch.no_grad():
        for k, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers((2, 3), k, rank))
    return model


def with_cases(average, rank, cases):
    """For each case (dtype, the branches that each rank has used, strided) the gradients on this rank."""
    made = []
    build = DistributedDataParallel.__init__
    DistributedDataParallel.__init__ = lambda *args, **kwargs: (made.append(1), build(*args, **kwargs))[1]
    facts = []
    for dtype, used, strided in cases:
        model = branches(dtype, rank)
        for k, (name, parameter) in enumerate(model.named_parameters()):
            if name[0] in used[rank] and name != "frozen.weight":
                grad = numbers((2, 3), k, rank).to(dtype)
                parameter.grad = grad.t().contiguous().t() if strided else grad
        average(model)
        grads = {name: parameter.grad for name, parameter in model.named_parameters()}
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        trainable = [parameter.requires_grad for parameter in model.parameters()]
        facts.append({"grads": grads, "weights": weights, "trainable": trainable})
    return {"cases": facts, "ddp": len(made)}


def averaged(average, cases):
    """For each case (dtype, the branches that each rank has used, strided) the gradients on each of two ranks."""
    return run_on_ranks(lambda rank, world: with_cases(average, rank, cases), stall=1.0 + 0.7 * len(cases))


def close(came, expected):
    """Whether two gradients agree within rounding."""
    return isinstance(came, Tensor) and came.shape == expected.shape and torch.allclose(came.double(), expected)


def judge(seen, number, case, frozen_too=False):
    """Judge one case (dtype, the branches that each rank has used, strided) on all ranks.

    number: where in the facts it is. frozen_too: also judge that frozen parameters have no gradient.
    """
    dtype, used, strided = case
    world = len(used)
    seen.that(
        not any(one["ddp"] for one in seen.value),
        "Use only collectives, without DistributedDataParallel.",
        stage="rule",
    )
    facts = [one["cases"][number] for one in seen.value[:world]]
    names = ["a.weight", "frozen.weight", "b.weight", "c.weight"]
    start = {name: [numbers((2, 3), k, rank) for rank in range(world)] for k, name in enumerate(names)}
    mean_start = sum(start["a.weight"]) / world
    kept = [close(one["weights"][name], start[name][rank]) for rank, one in enumerate(facts) for name in names]
    seen.that(
        all(kept),
        "Your code changed a parameter. Average only gradients.",
        mistake(
            "You averaged the parameters, not the gradients.",
            when=lambda seen: all(close(one["weights"]["a.weight"], mean_start) for one in facts),
        ),
    )
    local = {
        name: [numbers((2, 3), k, rank) if name[0] in used[rank] else None for rank in range(world)]
        for k, name in enumerate(names)
    }
    frozen = [one["grads"]["frozen.weight"] is None for one in facts]
    seen.that(all(frozen) or not frozen_too, "Frozen parameters must keep .grad None.")
    seen.that(
        all(one["trainable"] == [True, False, True, True] for one in facts),
        "requires_grad must stay as it is on every parameter.",
    )
    for name in ("a.weight", "b.weight", "c.weight"):
        parts = local[name]
        total = sum(part for part in parts if part is not None)
        users = sum(part is not None for part in parts)
        came = [one["grads"][name] for one in facts]

        def all_close(wrong, came=came):
            """Whether every gradient that is there is this one."""
            return all(close(grad, wrong) for grad in came if grad is not None)

        none = [grad is None for grad in came]
        others = [part for other in ("a.weight", "b.weight", "c.weight") for part in local[other] if other != name]
        sums = [own + other for own in parts for other in others if own is not None and other is not None]
        mixed = [wrong / by for wrong in sums for by in (1, 2, world)]
        seen.that(
            not any(none) and all_close(total / world),
            f"The gradient of {name} is not the mean over the ranks.",
            mistake(
                "You summed the gradients, because all_reduce adds. Divide by the world size.",
                when=lambda seen, total=total, users=users: users == world and all_close(total),
            ),
            mistake(
                "You sent a non-contiguous gradient in memory order, but on another rank the same numbers "
                "have a different order in memory. Make it contiguous first.",
                when=lambda seen, total=total, came=came: (
                    strided and any(close(grad, (total / world).t().reshape(2, 3)) for grad in came)
                ),
            ),
            mistake(
                "You always divide by 2. Use dist.get_world_size().",
                when=lambda seen, total=total: world > 2 and all_close(total / 2),
            ),
            mistake(
                "A rank without a gradient counts as zeros. Divide by the world size, not by the number of "
                "ranks that used the parameter.",
                when=lambda seen, total=total, users=users, none=none: (
                    users < world and not any(none) and all_close(total / users)
                ),
            ),
            mistake(
                "A parameter that was unused on one rank has no gradient there afterwards, so the ranks "
                "would drift apart.",
                when=lambda seen, total=total, none=none: any(none) and all_close(total / world),
            ),
            mistake(
                "A rank skipped the collective for a parameter without a gradient, so its next call was "
                "matched with a different parameter of the other rank. Every rank must take part for every "
                "trainable parameter.",
                when=lambda seen, came=came, mixed=mixed: any(close(g, m) for g in came for m in mixed),
            ),
            mistake(
                "The gradients are still those of each rank alone, because nothing was averaged.",
                when=lambda seen, came=came, parts=parts: all(
                    close(grad, part) for grad, part in zip(came, parts, strict=True) if part is not None
                ),
            ),
        )
        kinds = {grad.dtype for grad in came}
        seen.that(kinds == {dtype}, f"The gradients must keep their dtype, {dtype}.", stage="dtype")


skipped = (
    "A rank skipped the collective for a parameter without a gradient (or skipped more), and the other waits "
    "forever. Every rank must take part for every trainable parameter."
)
known = [
    mistake(skipped, raises="RanksHang"),
    mistake("A gradient can be None, because a rank may not have used the parameter.", raises="NoneType"),
    mistake(
        "A gradient may be non-contiguous, and then `view` can't flatten it. Use `reshape(-1)`, which copies where it "
        "has to, or make the gradient contiguous first.",
        raises="view size is not compatible",
    ),
    mistake(
        "The ranks passed different amounts of data to one collective. Zeros for a missing gradient need the "
        "shape and dtype of the parameter.",
        raises="RankDied|preamble|nbytes|Connection (closed|reset)|data size",
    ),
]


# %% check="average-gradients" points=1
"""The mean gradient on every rank, even if a rank has not used a branch."""
with check("average-gradients") as test:
    test("the ranks have used different branches (and, in the same run, all of them)")
    cases = [(torch.float32, ["ab", "ac"], False), (torch.float32, ["abc", "abc"], False)]
    seen = observe_scenario(averaged, average_gradients, cases).expecting(*known)
    judge(seen, 0, cases[0])

    test("two ranks: the mean of the local gradients; parameters untouched")
    judge(seen, 1, cases[1])


# %% check="average-gradients" points=1
"""Frozen parameters, float64, other layouts and worlds, two steps of SGD."""
with check("average-gradients") as test:
    test("a frozen parameter keeps .grad None")
    case = (torch.float32, ["abc", "ab"], False)
    seen = observe_scenario(averaged, average_gradients, [case]).expecting(*known)
    judge(seen, 0, case, frozen_too=True)

    ### BEGIN HIDDEN TESTS
    def trained(average, cases):
        """The gradients of each case on three ranks, and of numbers that float32 cannot hold; then weights after two
        steps on shares of a batch; then a rank that is alone."""

        def on_rank(rank, world):
            facts = with_cases(average, rank, cases)
            layer = nn.Linear(1, 1, bias=False).double()
            layer.weight.grad = torch.tensor([[16777217.0 + 8 * rank]], dtype=torch.float64)
            average(layer)
            model = branches(torch.float32)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
            x = numbers((9, 3), 1, 0).float()[rank::world]
            for _ in range(2):
                optimizer.zero_grad()
                (model["c"](x) * model["a"](x)).square().mean().backward()
                average(model)
                optimizer.step()
            facts["large"] = layer.weight.grad
            facts["after"] = {name: parameter.detach() for name, parameter in model.named_parameters()}
            dist.barrier()
            _kept = dist.group.WORLD  # the end of a group takes 30 ms
            dist.destroy_process_group()
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            by_itself = with_cases(average, 0, [(torch.float32, ["abc"], False)])
            return facts | {"cases": facts["cases"] + by_itself["cases"], "ddp": facts["ddp"] + by_itself["ddp"]}

        return run_on_ranks(on_rank, world=3, stall=5.0)

    test.hidden("three ranks (and, in the same run, all that follows)")
    cases = [
        (torch.float32, ["a", "abc", "ab"], False),
        (torch.float64, ["ac", "abc", "b"], False),
        (torch.float32, ["ab", "cb", "c"], True),
    ]
    seen = observe_scenario(trained, average_gradients, cases).expecting(*known)
    for number, case in enumerate(cases):
        if number == 1:
            test.hidden("float64; gradients that are not contiguous")
        judge(seen, number, case, frozen_too=True)

    test.hidden("float64 gradients that float32 cannot hold")
    exact = [isinstance(one["large"], Tensor) and one["large"].item() == 16777225.0 for one in seen.value]
    seen.that(all(exact), "Float64 gradients went through float32 and lost their last digits.")

    test.hidden("two steps of SGD give what one process would get on the whole batch")
    alone = branches(torch.float32)
    trainable = [parameter for parameter in alone.parameters() if parameter.requires_grad]
    momentum = [torch.zeros_like(parameter) for parameter in trainable]
    x = numbers((9, 3), 1, 0).float()
    for _ in range(2):
        alone.zero_grad()
        (alone["c"](x) * alone["a"](x)).square().mean().backward()
        alone["b"].weight.grad = torch.zeros_like(alone["b"].weight)
        with torch.no_grad():  # a step of SGD by hand, which is there at once
            for parameter, velocity in zip(trainable, momentum, strict=True):
                parameter -= 0.01 * velocity.mul_(0.5).add_(parameter.grad)
    for name, parameter in alone.named_parameters():
        found = [one["after"][name] for one in seen.value]
        equal = all(torch.allclose(weight, parameter.detach(), rtol=1e-3, atol=1e-4) for weight in found)
        same = all(torch.equal(weight, found[0]) for weight in found)
        seen.that(equal and same, f"After two steps {name} differs from the result of a single process.")

    test.hidden("a world of one")
    judge(seen, len(cases), (torch.float32, ["abc"], False), frozen_too=True)
    ### END HIDDEN TESTS
