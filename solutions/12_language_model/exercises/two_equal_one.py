# %% [markdown]
# ### Exercise 12.10 · Two processes, one gradient
#
# implement · solid · 18 min · 1 point
#
# Several processes train one model, each on its own texts. The texts differ in length, so one rank may have 10 targets,
# another 30, and the last perhaps none. Together they must take the step that a single process would take with all the
# texts. This exercise builds on chapter 10.
#
# **Contract**
#
# - `sync_gradients(model, count)` is called on every rank after a backward pass of the *sum* of its losses; `count` is
#   its number of targets. The model has the same parameters on all ranks. A rank with `count` 0 has run no backward
#   pass. If a rank hasn't used a parameter, its `.grad` is None there.
# - Afterwards `.grad` of every trainable parameter is, on all ranks, the gradient of the mean over all targets of all
#   ranks. A parameter that no rank has used gets zeros. If no rank has a target, all of these gradients are zeros.
# - Return the number of all targets as an int, exact and the same on each rank.
# - A frozen parameter keeps `.grad` None. A tied parameter is one parameter. Weights and flags are not changed.
# - The function works with any number of ranks, including one.
#
# **Rule.** Use only collectives, no `DistributedDataParallel`.
#
# <details><summary>Hint 1</summary>
#
# Rank 0 has 10 targets, rank 1 has 30. How much does each target count in the mean of the two means? And what does a
# rank do in a collective for a parameter for which it has no gradient?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sum two things over the ranks: the gradients and the counts. Divide once, after both. If a rank skips a collective,
# the others wait for it forever.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Reduce the count first, as an integer tensor. Then go through the trainable parameters in the same order on every
# rank, put zeros where there is no gradient, reduce, and divide by the total. Think of a total of 0.
#
# </details>


# %% answer="two-equal-one"
def sync_gradients(model: nn.Module, count: int) -> int:
    """Make all gradients those of the mean over the targets of all ranks; return their number.

    Called on every rank after a backward pass of the sum of its losses over `count` targets.
    """
    ### BEGIN SOLUTION
    counts = torch.tensor(count)
    dist.all_reduce(counts)
    total = int(counts)
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= max(total, 1)
    return total
    ### END SOLUTION


# %% check="two-equal-one" points=1
"""The gradient of all targets together, on every rank, however the targets are divided."""
with check("two-equal-one") as test:

    def tiny_lm():
        """A model whose head is its embedding, with a frozen layer and one that is not always used."""
        model = nn.ModuleDict(
            {
                "emb": nn.Embedding(5, 3),
                "frozen": nn.Linear(3, 3, bias=False),
                "extra": nn.Linear(3, 3, bias=False),
                "head": nn.Linear(3, 5, bias=False),
            }
        )
        model["head"].weight = model["emb"].weight
        model["frozen"].requires_grad_(False)
        with torch.no_grad():
            for k, parameter in enumerate(model.parameters()):
                numbers = torch.arange(parameter.numel()) * (7 + 2 * k) % 11
                parameter.copy_((numbers.float() / 4 - 1.2).reshape(parameter.shape))
        return model

    def backward(model, rank, targets, uses_extra):
        """The backward pass of the sum of a rank's losses, if it has any; for large counts of a few of them."""
        if targets := targets % 1000:
            ids = (torch.arange(targets + 1) * (3 + rank) + torch.arange(targets + 1) // 4) % 5
            x = model["frozen"](model["emb"](ids[:-1]))
            x = x + model["extra"](x) if uses_extra else x
            F.cross_entropy(model["head"](x), ids[1:], reduction="sum").backward()

    def after_sync(sync, rank, *cases):
        """What sync_gradients leaves on a rank after a backward pass for each case."""
        wrapper = nn.parallel.DistributedDataParallel
        made, build = [], wrapper.__init__
        wrapper.__init__ = lambda *args, **kwargs: (made.append(1), build(*args, **kwargs))[1]
        facts = []
        for case in cases:
            model = tiny_lm()
            backward(model, rank, case[rank][0], case[rank][1])
            total = sync(model, case[rank][0])
            kept = all(torch.equal(a, b) for a, b in zip(model.parameters(), tiny_lm().parameters(), strict=True))
            flags = [parameter.requires_grad for parameter in model.parameters()] == [True, False, True]
            grads = {name: parameter.grad for name, parameter in model.named_parameters()}
            facts.append({"total": total, "grads": grads, "kept": kept, "flags": flags})
        return {"cases": facts, "ddp": len(made)}

    def synced(sync, *cases):
        """Run sync_gradients after a backward pass on each rank, which has so many targets and uses a layer or not."""
        stall = 1.0 + 0.5 * len(cases)
        return run_on_ranks(lambda rank, world: after_sync(sync, rank, *cases), world=len(cases[0]), stall=stall)

    def local(case):
        """The gradients that each rank has before; zeros where it has none."""
        found = []
        for rank, (targets, uses_extra) in enumerate(case):
            model = tiny_lm()
            backward(model, rank, targets, uses_extra)
            weights = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
            found.append({name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in weights.items()})
        return found

    def judge(seen, *cases, first=0):
        """Judge each case on all ranks; the number of the first one among all that were run."""
        seen.expecting(
            mistake("A gradient can be None, because a rank may not have used the parameter.", raises="NoneType"),
            mistake(
                "A rank without a gradient skipped a collective, so the others wait for it or are matched with a "
                "different call. It must take part with zeros.",
                raises="RanksHang|RankDied|preamble|nbytes|Connection (closed|reset)|[Ss]ize",
            ),
            mistake("If there is no target at all, the total is 0. Don't divide by it.", raises="ZeroDivision"),
        )
        no_ddp = "Use only collectives, without DistributedDataParallel."
        seen.that(not any(one["ddp"] for one in seen.value), no_ddp, stage="rule")
        for number, case in enumerate(cases, start=first):
            facts, before = [one["cases"][number] for one in seen.value[: len(case)]], local(case)
            counts, world = [count for count, _ in case], len(case)
            total = sum(counts)
            wrapped = (total + 2**31) % 2**32 - 2**31

            def overflowed(seen, facts=facts, wrapped=wrapped, total=total):
                """Whether the total is what int32 makes of it."""
                return wrapped != total and all(one["total"] == wrapped for one in facts)

            int32 = mistake(
                f"The counts were summed as int32, which ends at {2**31 - 1}. The total of {total} is beyond that, so "
                "it became another number. Sum them as int64.",
                when=overflowed,
            )
            changed = "Your code changed a parameter. Change only gradients."
            seen.that(all(one["kept"] for one in facts), changed, stage="arguments")
            flags = "requires_grad must stay as it is on every parameter."
            seen.that(all(one["flags"] for one in facts), flags, stage="arguments")
            frozen = [one["grads"]["frozen.weight"] for one in facts]
            seen.that(all(grad is None for grad in frozen), "Frozen parameters must keep .grad None.")
            for name in before[0]:
                parts = [grads[name] for grads in before]
                came = [one["grads"][name] for one in facts]
                there = all(isinstance(grad, Tensor) for grad in came)
                seen.that(
                    there,
                    f"{name} has no gradient on some rank. If no rank has a gradient, it must be zeros.",
                    mistake(
                        "A rank without a gradient still has none afterwards. It must get the sum of the others'.",
                        when=lambda seen, parts=parts: any(part.any() for part in parts),
                    ),
                    stage="type",
                )

                def are(wanted, came=came):
                    """Whether the gradients are these, one for each rank; not where all are zeros."""
                    size = max(float(grad.abs().max()) for grad in wanted)
                    return size > 0 and all(
                        grad.shape == one.shape and bool(((grad - one).abs() <= 1e-5 * size).all())
                        for grad, one in zip(came, wanted, strict=True)
                    )

                whole = sum(parts)
                means = [part / max(count, 1) for part, count in zip(parts, counts, strict=True)]
                right = are([whole / max(total, 1)] * world) or not any(bool(g.any()) for g in [*parts, *came])
                seen.that(
                    right and len({grad.dtype for grad in came} | {torch.float32}) == 1,
                    f"The gradient of {name} is not the gradient of the mean over all targets.",
                    int32,
                    mistake(
                        "If there is no target at all, the gradients must be zero, not NaN.",
                        when=lambda seen, came=came, total=total: not total and any(g.isnan().any() for g in came),
                    ),
                    mistake(
                        f"With one rank alone the gradient is still the sum over its {total} targets. Divide it by "
                        "their number there, too.",
                        when=lambda seen, are=are, whole=whole, world=world: world == 1 and are([whole]),
                    ),
                    mistake(
                        "You divided the gradient by the number of ranks. Divide it by the number of all targets.",
                        when=lambda seen, are=are, whole=whole, world=world: are([whole / world] * world),
                    ),
                    mistake(
                        "You divided by the local count before summing, so every rank counts the same, however "
                        "many targets it has.",
                        when=lambda seen, are=are, means=means, world=world: (
                            are([sum(means)] * world) or are([sum(means) / world] * world)
                        ),
                    ),
                    mistake(
                        "You summed the gradients but didn't divide them by the total count.",
                        when=lambda seen, are=are, whole=whole, world=world: are([whole] * world),
                    ),
                    mistake(
                        "You divided by the rank's own count, but the sum is over the targets of all ranks.",
                        when=lambda seen, are=are, whole=whole, counts=counts: are([whole / max(c, 1) for c in counts]),
                    ),
                    mistake(
                        "Your gradient is too small, because you divide it by the number of targets and by the "
                        "number of ranks.",
                        when=lambda seen, are=are, whole=whole, world=world, total=total: are(
                            [whole / total / world] * world
                        ),
                    ),
                    mistake(
                        "You summed or divided the gradient of a tied parameter twice. It is one parameter.",
                        when=lambda seen, are=are, whole=whole, world=world, total=total, name=name: (
                            name == "emb.weight"
                            and any(are([whole * w / d] * world) for w in (1, world) for d in (total, total**2))
                        ),
                    ),
                    mistake(
                        "The gradients are still those of each rank alone, because nothing was exchanged.",
                        when=lambda seen, are=are, parts=parts, means=means, total=total: (
                            are(parts) or are(means) or are([part / total for part in parts])
                        ),
                    ),
                )
            totals = [one["total"] for one in facts]
            seen.that(
                totals == [total] * world,
                "The returned total must be that of all ranks, and the same on each.",
                int32,
                mistake(
                    "The counts went through floats that can't represent them. Sum them as int64.",
                    when=lambda seen, totals=totals, total=total: total > 2**24 and all(t > 2**24 for t in totals),
                ),
            )
            seen.that(all(type(one) is int for one in totals), "The total must be an int.", stage="type")

    test("ranks with 10 and 30 targets")
    ten_and_thirty = [(10, True), (30, True)]
    judge(observe_scenario(synced, sync_gradients, ten_and_thirty), ten_and_thirty)

    ### BEGIN HIDDEN TESTS
    def synced_then_alone(sync, alone, *cases):
        """Run sync_gradients on each rank after a backward pass for each case, then for others on a rank alone."""

        def on_rank(rank, world):
            facts = after_sync(sync, rank, *cases)
            dist.barrier()
            _kept = dist.group.WORLD  # the end of a group takes 30 ms
            dist.destroy_process_group()
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            by_itself = after_sync(sync, 0, *alone)
            return {"cases": facts["cases"] + by_itself["cases"], "ddp": facts["ddp"] + by_itself["ddp"]}

        return run_on_ranks(on_rank, world=len(cases[0]), stall=1.5 + 0.5 * len(cases))

    test.hidden("three ranks: one without targets, one that has not used a layer; nobody has any; large counts")
    none_on_one, unused, nobody = (
        [(8, True), (0, True), (5, False)],
        [(2, False), (9, False), (4, False)],
        [(0, True)] * 3,
    )
    large, alone = [(1_500_000_007, True), (1_000_000_002, True), (3002, True)], [[(1, True)], [(2, False)]]
    cases = [none_on_one, unused, nobody, large]
    seen = observe_scenario(synced_then_alone, sync_gradients, alone, *cases)
    judge(seen, *cases)

    test.hidden("one rank alone, with one target, and with two that don't use a layer")
    judge(seen, *alone, first=len(cases))
    ### END HIDDEN TESTS
