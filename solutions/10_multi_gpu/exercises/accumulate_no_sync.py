# %% [markdown]
# ### Exercise 10.5 · Accumulate without talking
#
# implement · solid · 15 min · 2 points
#
# In a step with three micro-batches, only the last backward needs to communicate with the other ranks.
#
# **Contract**
#
# - Make one step of the optimizer on the mean loss of this rank's micro-batches (all of equal size). The loss of each
#   is `loss_fn(output, y)`. For all ranks together this is the same as training on all the data at once. Afterwards all
#   ranks have the same weights.
# - The gradients are synchronised exactly once, by DDP in the last backward (the check counts what DDP sends).
# - Gradients from before the call must not influence the step. After the call, DDP works as before.
# - Return the mean of this rank's losses as a float.
# - There may be just a single micro-batch, which then communicates. If there is none, raise ValueError.
#
# **Rule.** Run one forward, then its backward, for each micro-batch, because the activations of two don't fit into
# memory together. The check sees what the model runs, but not what a copy of it does, so please keep to the rule there.
#
# In Exercise 12.8 you accumulate again, in one process and with micro-batches of different sizes.
#
# <details><summary>Hint 1</summary>
#
# When does DDP decide that a backward will communicate: in forward or in backward? Which of the micro-batches must
# communicate?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# DDP decides in forward, so `ddp.no_sync()` goes around forward *and* backward. By what must you divide each loss so
# that the accumulated gradients are those of the mean?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# First check that there is a micro-batch, and clear the gradients. Run all micro-batches except the last under
# `no_sync`, forward and backward, and the last outside. Each loss is divided by the number of micro-batches, so their
# sum is also the value to return. Step once, at the end.
#
# </details>


# %% answer="accumulate-no-sync"
def ddp_step(
    ddp: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    micro_batches: Sequence[tuple[Tensor, Tensor]],
) -> float:
    """One optimizer step on the mean loss of the micro-batches (x, y), with one synchronisation.

    Returns that mean.
    """
    ### BEGIN SOLUTION
    if not micro_batches:
        raise ValueError("no micro-batches: there is nothing to learn from")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, start=1):
        is_last = number == len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total
    ### END SOLUTION


# %% helpers="accumulate-no-sync"
def share(rank, world, count, size=1.0):
    """The micro-batches of a rank: pairs of (2, 3) and (2, 1), no two alike; the targets are of this size."""
    batches = []
    for k in range(count):
        numbers = torch.arange(8.0) + 3 * k + 7 * rank + 1
        x = (numbers[:6] * 5 % 13 / 8 - 0.6).reshape(2, 3)
        batches.append((x, size * (numbers[6:] * 3 % 7 / 4 - 0.4).reshape(2, 1)))
    return batches


def model():
    """A linear layer with fixed weights."""
    layer = nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, -0.25, 0.75]]))
        layer.bias.fill_(0.125)
    return layer


def loss_of(out, y):
    """The mean squared error, and something for large outputs, so that out and y can't change places."""
    return (out - y).square().mean() + 0.1 * out.square().mean()


def targets_size(calls):
    """How large the targets of a case are, and so its gradients, by its number of calls."""
    return 16.0 if calls == 2 else 1.0


def stepped(step, cases):
    """For each case (micro-batches, old gradients, calls) what each rank got, sent and has afterwards."""

    def on_rank(rank, world):
        facts = []
        for count, old, calls in cases:
            noted = {"sent": 0, "steps": 0, "backward": False, "waiting": 0, "together": 0}

            def runs(layer, inputs, noted=noted):
                noted["waiting"] += len(inputs[0])
                noted["together"] = max(noted["together"], noted["waiting"])

            def arrives(grad, noted=noted):
                noted |= {"backward": True, "waiting": 0}

            def send(state, bucket, noted=noted):
                noted["sent"] += 1
                future = dist.all_reduce(bucket.buffer() / world, async_op=True).get_future()
                return future.then(lambda done: done.value()[0])

            class Counting(torch.optim.SGD):
                def step(self, closure=None, noted=noted):
                    noted["steps"] += 1
                    return super().step(closure)

            ddp = DistributedDataParallel(model())
            ddp.register_comm_hook(None, send)
            ddp.module.register_forward_pre_hook(runs)
            for parameter in ddp.parameters():
                parameter.register_hook(arrives)
            optimizer = Counting(ddp.parameters(), lr=0.25, momentum=0.5)
            if old:
                for parameter in ddp.parameters():
                    parameter.grad = torch.full_like(parameter, 1.5)
            try:
                got = [
                    step(ddp, optimizer, loss_of, share(rank, world, count, targets_size(calls))) for _ in range(calls)
                ]
            except ValueError:
                if count:
                    raise
                got = ["ValueError"]
            noted["are floats"] = all(isinstance(one, float) for one in got)
            noted["got"] = [float(one) if isinstance(one, float) else one for one in got]
            noted["weights"] = torch.cat([p.detach().reshape(-1) for p in ddp.parameters()])
            facts.append(dict(noted))
            if count:
                loss_of(ddp(torch.ones(2, 3)), torch.ones(2, 1)).backward()
            facts[-1]["sent later"] = noted["sent"] - facts[-1]["sent"]
        return facts

    return run_on_ranks(on_rank, stall=1.0 + 0.5 * len(cases))


def trained(count, calls, factor=1.0, loss_of=loss_of):
    """Weights and losses of one process that has everybody's data; losses are (call, rank, micro-batch)."""
    layer = model()
    momentum = [torch.zeros_like(parameter) for parameter in layer.parameters()]
    batches = [share(rank, 2, count, targets_size(calls)) for rank in range(2)]
    losses = []
    for _ in range(calls):
        layer.zero_grad()
        each = [[loss_of(layer(x), y) for x, y in own] for own in batches]
        (factor * sum(map(sum, each)) / (2 * count)).backward()
        losses.append([[loss.item() for loss in own] for own in each])
        with torch.no_grad():  # a step of SGD by hand, which is there at once
            for parameter, velocity in zip(layer.parameters(), momentum, strict=True):
                parameter -= 0.25 * velocity.mul_(0.5).add_(parameter.grad)
    return torch.cat([p.detach().reshape(-1) for p in layer.parameters()]), losses


def all_end_with(seen, case, wanted):
    """Whether all ranks have these weights after a case."""
    return all(torch.allclose(one[case]["weights"], wanted, rtol=1e-4, atol=1e-5) for one in seen.value)


def judge(seen, case, count, calls, *mistakes):
    """Judge synchronisations, steps and weights of one case on both ranks; mistakes: those of this case's weights."""
    facts = [one[case] for one in seen.value]
    sent, steps = [one["sent"] for one in facts], [one["steps"] for one in facts]
    wanted, _ = trained(count, calls)
    weights = [one["weights"] for one in facts]
    seen.that(
        min(sent) > 0,
        "The gradients were never synchronised, so the ranks drift apart. Either the last micro-batch also "
        "ran under no_sync, or you called ddp.module, which bypasses DDP.",
        mistake("No backward pass ran.", when=lambda seen: not any(one["backward"] for one in facts)),
        mistake(
            "The weights are right, but you averaged the gradients by yourself. Here DDP does it, in the last "
            "backward: run that one outside of no_sync.",
            when=lambda seen: all_end_with(seen, case, wanted),
        ),
        stage="rule",
    )
    seen.that(
        steps == [calls, calls],
        "The optimizer must step exactly once per call.",
        mistake("The optimizer never stepped.", when=lambda seen: max(steps) == 0),
        mistake("The optimizer stepped once for each micro-batch.", when=lambda seen: max(steps) == calls * count),
        stage="rule",
    )
    seen.that(
        all_end_with(seen, case, wanted),
        "The weights differ from those of training on all ranks' data at once.",
        *mistakes,
        mistake(
            "With k micro-batches your step is k times too large. Divide each loss by the number of micro-batches.",
            when=lambda seen: count > 1 and all_end_with(seen, case, trained(count, calls, factor=count)[0]),
        ),
        mistake("The ranks have different weights afterwards.", when=lambda seen: not torch.equal(*weights)),
    )
    seen.that(
        sent == [calls, calls],
        "You synchronised the gradients more than once per call.",
        mistake(
            "You synchronised the gradients for every micro-batch. That is correct, but with k micro-batches "
            "it is k times the traffic. Use no_sync for all but the last, around forward and backward (DDP "
            "prepares the synchronisation in forward).",
            when=lambda seen: max(sent) == calls * count,
        ),
        stage="rule",
    )


hangs = mistake(
    "A rank waits in a backward or a collective that the other rank never reaches. All ranks must make the same calls.",
    raises="RanksHang",
)


# %% check="accumulate-no-sync" points=1
"""One synchronisation, one step, the same weights as training on all data at once."""
with check("accumulate-no-sync") as test:
    test("three micro-batches: one synchronisation, the weights of training on the whole batch")
    seen = observe_scenario(stepped, ddp_step, [(3, False, 1)]).expecting(hangs)
    exchanged = mistake(
        "You called loss_fn with the targets first. It takes the outputs, then the targets.",
        when=lambda seen: all_end_with(seen, 0, trained(3, 1, loss_of=lambda out, y: loss_of(y, out))[0]),
    )
    judge(seen, 0, 3, 1, exchanged)

    test("three micro-batches, and never the activations of two at once")
    most = max(one[0]["together"] for one in seen.value)
    seen.that(
        most <= 2,
        "You ran several forwards before a backward, so their activations fill the memory together. Call "
        "backward for each micro-batch before the next forward.",
        stage="rule",
    )


# %% check="accumulate-no-sync" points=1
"""The returned mean; one micro-batch, none, old gradients, two steps, an ordinary backward."""
with check("accumulate-no-sync") as test:

    def judge_with_losses(seen, case, count, calls, *mistakes):
        """Judge one case on both ranks, then the losses that they return."""
        judge(seen, case, count, calls, *mistakes)
        facts = [one[case] for one in seen.value]
        _, losses = trained(count, calls)
        for rank, one in enumerate(facts):
            means = [sum(losses[call][rank]) / count for call in range(calls)]
            right = one["are floats"] and all(
                math.isclose(got, mean, rel_tol=1e-4) for got, mean in zip(one["got"], means, strict=True)
            )
            seen.that(
                right,
                "Return the mean of this rank's micro-batch losses as a float.",
                mistake(
                    "You return the mean over all ranks. Return the mean of this rank's own losses.",
                    when=lambda seen: all(
                        isinstance(got, float)
                        and math.isclose(got, sum(map(sum, losses[call])) / (2 * count), rel_tol=1e-4)
                        for one in facts
                        for call, got in enumerate(one["got"])
                    ),
                ),
            )

    test("a single micro-batch; then two of them: the mean of the losses comes back")
    seen = observe_scenario(stepped, ddp_step, [(1, False, 1), (2, False, 1)]).expecting(hangs)
    judge_with_losses(seen, 0, 1, 1)
    judge_with_losses(seen, 1, 2, 1)

    ### BEGIN HIDDEN TESTS
    cases = [(2, True, 1), (0, False, 1), (3, False, 2)]
    stale = mistake("Gradients from before the call were added. Call zero_grad first.", when=lambda seen: True)

    test.hidden("old gradients are present (in the same run: no micro-batches, and two steps in a row)")
    seen = observe_scenario(stepped, ddp_step, cases).expecting(
        mistake(
            "If there are no micro-batches, raise ValueError.", raises="IndexError|ZeroDivisionError|UnboundLocalError"
        ),
        hangs,
    )
    judge_with_losses(seen, 0, 2, 1, stale)

    test.hidden("no micro-batches")
    refused = [one[1]["got"] == ["ValueError"] for one in seen.value]
    seen.that(all(refused), "If there are no micro-batches, raise ValueError.", stage="raised")
    steps = [one[1]["steps"] for one in seen.value]
    seen.that(max(steps) == 0, "Without micro-batches the optimizer must not step.", stage="rule")

    test.hidden("two steps in a row with momentum, and large gradients")
    start = torch.cat([p.detach().reshape(-1) for p in model().parameters()])

    def falls_short(way, whole):
        """Whether a way goes in the direction of another, but isn't as long."""
        return F.cosine_similarity(way, whole, dim=0) > 0.9 and way.norm() < 0.9 * whole.norm()

    clipped = mistake(
        "Small gradients give the right step, and large ones too small a one. Don't clip or scale the gradients.",
        when=lambda seen: all(falls_short(one[2]["weights"] - start, trained(3, 2)[0] - start) for one in seen.value),
    )
    judge_with_losses(seen, 2, 3, 2, clipped)

    test.hidden("an ordinary backward afterwards is synchronised")
    later = [one[case]["sent later"] for one in seen.value for case in (0, 2)]
    seen.that(
        min(later) > 0, "After your step DDP no longer synchronises, because you didn't restore its no_sync setting."
    )
    ### END HIDDEN TESTS
