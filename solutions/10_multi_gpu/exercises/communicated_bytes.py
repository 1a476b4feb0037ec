# %% [markdown]
# ### Exercise 10.7 · What does DDP really send?
#
# measure · solid · 20 min · 1 point
#
# Build a measuring instrument: a communication hook that sees every bucket of gradients on its way to the other ranks,
# counts its bytes, and can send it in a smaller format.
#
# **Contract**
#
# - Wrap `model` in DDP with a communication hook and return `(ddp, meter)`. `meter` is a dict with "bytes", the bytes
#   that the hook has passed to all_reduce on this rank so far, and "calls", the number of its all_reduces. Both grow
#   during training.
# - If `dtype` is given (torch.float16 or torch.bfloat16), each bucket is sent in that dtype and converted back. The
#   meter counts what is sent.
# - In every case `.grad` ends as the float32 *mean* of that pass's gradients over the ranks, within the rounding of
#   dtype (of float32, if dtype is None). You may assume that each rank's gradients and their sum are in the range of
#   dtype. (float16 ends at 65,504, so in training a sum can leave its range where the mean doesn't. Dividing before
#   all_reduce avoids that.)
#
# **Rule.** Measure the bytes in the hook; don't compute them from the number of parameters.
#
# <details><summary>Hint 1</summary>
#
# Once a communication hook is registered, who divides by the world size? What must the hook return: a tensor, or a
# promise of one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The hook, registered with `ddp.register_comm_hook(None, hook)`, does everything that DDP did: divide and send. Here it
# also converts before and back after. `hook(state, bucket)` gets one bucket, and the meter counts what the hook passes
# to all_reduce.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In the hook, take the bucket's buffer, divide it by the world size, convert it, and count its bytes. An all_reduce
# with `async_op=True` has a future (the promise), whose value is a list with one tensor. The future's `then` makes
# another future, for the result converted back; return that.
#
# </details>


# %% answer="communicated-bytes"
def meter_ddp(
    model: nn.Module,
    dtype: torch.dtype | None = None,
) -> tuple[DistributedDataParallel, dict[str, int]]:
    """DDP around the model, and {"bytes": …, "calls": …} of what this rank hands to all_reduce."""
    ### BEGIN SOLUTION
    ddp = DistributedDataParallel(model)
    meter = {"bytes": 0, "calls": 0}

    def hook(state: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        buffer = bucket.buffer()
        sent = (buffer / dist.get_world_size()).to(dtype or buffer.dtype)
        meter["bytes"] += sent.numel() * sent.element_size()
        meter["calls"] += 1
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda done: done.value()[0].to(buffer.dtype))

    ddp.register_comm_hook(None, hook)
    return ddp, meter
    ### END SOLUTION


# %% helpers="communicated-bytes"
def network(sizes, frozen):
    """Linear layers of these sizes with fixed weights; the first ones frozen."""
    net = nn.Sequential(*(nn.Linear(sizes[k], sizes[k + 1]) for k in range(len(sizes) - 1)))
    with torch.no_grad():
        for k, parameter in enumerate(net.parameters()):
            numbers = torch.arange(parameter.numel()) * 7 % 11 / 16 - 0.3 + k / 32
            parameter.copy_(numbers.reshape(parameter.shape) / math.sqrt(sizes[0]))
    for layer in net[:frozen]:
        layer.requires_grad_(False)
    return net


def batch(rank, rows, width):
    """A batch of a rank; with seven rows, that of rank 0 is so large that gradients come near the end of float16."""
    size = 6400 if rows == 7 and rank == 0 else 1
    return size * (torch.arange(rows * width) * 5 % 13 / 8 - 0.7 + rank / 2).reshape(rows, width)


def measured(build, world, cases):
    """For each case (sizes, frozen layers, rows, backward passes, silent ones, dtype) the meter and the gradients."""

    def on_rank(rank, world):
        sent, facts = [], []

        def note(operation, args, out):
            """Note the dtype and the bytes of what goes to all_reduce, not DDP's own integers."""
            if "c10d" in operation.namespace and "allreduce" in operation.name().replace("_", ""):
                handed = [one for one in torch.utils._pytree.tree_leaves(args) if isinstance(one, Tensor)]
                if handed[0].is_floating_point():
                    sent.append([str(handed[0].dtype), sum(one.nbytes for one in handed)])

        for sizes, frozen, rows, passes, silent, dtype in cases:
            model = network(sizes, frozen)
            pair = build(model) if dtype is None else build(model, dtype)
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], dict)):
                return [{"kind": type(pair).__name__}]
            ddp, meter = pair
            if not isinstance(ddp, DistributedDataParallel):
                return [{"kind": type(ddp).__name__}]
            first = dict(meter)
            sent.clear()
            steps = []
            for number in range(passes + silent):
                ddp.zero_grad()
                silence = ddp.no_sync() if number >= passes else contextlib.nullcontext()
                size = 1000 if rows == 3 and number < passes - 1 else 1  # with three rows, all but the last pass
                with silence, noting_operations(note, frozenset(["c10d"])):
                    (size * ddp(batch(rank, rows, sizes[0])).square().mean()).backward()
                steps.append(dict(meter))
                if number in (0, passes - 1):
                    grads = [parameter.grad for parameter in model.parameters()]
                    grads = [None if grad is None else grad / size for grad in grads]
                    early = grads if number == 0 else early
            facts.append({"kind": None, "first": first, "steps": steps, "early": early, "grads": grads})
            facts[-1] |= {"sent": sum(size for _, size in sent), "all_reduces": len(sent)}
            facts[-1]["dtypes"] = sorted({kind for kind, _ in sent})
        return facts

    return run_on_ranks(on_rank, world=world, stall=2.0 + 0.5 * len(cases))


def judge(seen, case, given, world):
    """Judge the gradients of one case on all ranks, then the bytes that the meter counts."""
    sizes, frozen, rows, passes, silent, dtype = given
    seen.that(
        all(one[0]["kind"] is None for one in seen.value),
        "Return the pair (ddp, meter): a DistributedDataParallel and a dict.",
        stage="type",
    )
    facts = [one[case] for one in seen.value]
    net = network(sizes, frozen)
    torch.stack([net(batch(rank, rows, sizes[0])).square().mean() for rank in range(world)]).mean().backward()
    wanted = [parameter.grad for parameter in net.parameters()]
    loose = 1e-4 if dtype is None else 0.03
    scale = max(grad.abs().max().item() for grad in wanted if grad is not None)

    def near(grads, factor):
        return all(
            (came is None and truth is None)
            or (
                isinstance(came, Tensor)
                and truth is not None
                and torch.allclose(came.float(), truth * factor, rtol=loose, atol=loose * scale)
            )
            for came, truth in zip(grads, wanted, strict=True)
        )

    def cuts_off(grads):
        """Whether what is wrong is too small, and has the same size everywhere."""
        pairs = [(a.flatten().tolist(), b.flatten().tolist()) for a, b in zip(grads, wanted, strict=True)]
        numbers = [pair for came, truth in pairs for pair in zip(came, truth, strict=True)]
        wrong = [(abs(a), abs(b)) for a, b in numbers if abs(a - b) > loose * (abs(b) + scale)]
        size = wrong[0][0] if wrong else 0
        return bool(wrong) and all(a < b and math.isclose(a, size, rel_tol=loose) for a, b in wrong)

    right = [near(one["grads"], 1) for one in facts]
    seen.that(
        all(right),
        "The gradients are not the mean over the ranks.",
        mistake(
            "The gradients are sums, because DDP doesn't divide by the world size if you register a hook.",
            when=lambda seen: all(near(one["grads"], world) for one in facts),
        ),
        mistake(
            "The gradients are too small, because you divide them by the world size twice.",
            when=lambda seen: all(near(one["grads"], 1 / world) for one in facts),
        ),
        mistake(
            "The gradients differ between the ranks. The hook must call all_reduce.",
            when=lambda seen: any(
                a is not None and b is not None and not torch.equal(a, b)
                for a, b in zip(facts[0]["grads"], facts[1]["grads"], strict=True)
            ),
        ),
        mistake(
            "The gradients of the first pass are right, but those of a later pass aren't. If you add what was rounded "
            "off before (error feedback), a small gradient after a large one is lost in that remainder.",
            when=lambda seen: passes > 1 and all(near(one["early"], 1) for one in facts),
        ),
        mistake(
            "You cut off large gradients. They and their sum are in the range of float16 here. If you want to be "
            "safe from larger sums, divide before all_reduce.",
            when=lambda seen: rows == 7 and all(cuts_off(one["grads"]) for one in facts),
        ),
    )
    numbers = sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)
    everything = sum(parameter.numel() for parameter in net.parameters())
    width = 4 if dtype is None else torch.empty(0, dtype=dtype).element_size()
    keyed = all(
        set(step) >= {"bytes", "calls"} and all(type(step[key]) in (int, float) for key in ("bytes", "calls"))
        for one in facts
        for step in (one["first"], *one["steps"])
    )
    seen.that(keyed, 'The meter must have the entries "bytes" and "calls", numbers.', stage="type")
    sent = [step["bytes"] for step in facts[0]["steps"]]
    by_parameters = (
        "You computed the number from the parameters. But frozen layers are not sent, nothing is sent under "
        "no_sync, and without a backward the meter stays 0."
    )
    seen.that(
        facts[0]["first"]["bytes"] == 0 and facts[0]["first"]["calls"] == 0,
        "Before the first backward pass the meter must be 0.",
        mistake(by_parameters, when=lambda seen: facts[0]["first"]["bytes"] > 0),
    )
    growing = [numbers * width * min(k + 1, passes) for k in range(passes + silent)]
    seen.that(
        all([step["bytes"] for step in one["steps"]] == growing for one in facts),
        "The meter does not count the bytes that were passed to all_reduce.",
        mistake(
            f"The meter counts the float32 buffer although {str(dtype).removeprefix('torch.')} was sent. "
            "Count what you pass to all_reduce.",
            when=lambda seen: dtype is not None and sent[0] == 4 * numbers and facts[0]["sent"] < 4 * passes * numbers,
        ),
        mistake(
            "Your code ignores dtype, so nothing was sent in the smaller format.",
            when=lambda seen: dtype is not None and sent[0] == 4 * numbers,
        ),
        mistake(
            "The meter must keep growing over several steps. It counts the bytes and calls of every "
            "all_reduce once (this small model fits into one bucket).",
            when=lambda seen: passes > 1 and sent[0] == sent[passes - 1] == numbers * width,
        ),
        mistake("The meter counts numbers. Count bytes.", when=lambda seen: sent[0] == numbers),
        mistake(
            "The meter stayed 0. Register the hook, and let it write into the same dict that you return.",
            when=lambda seen: sent[-1] == 0,
        ),
        mistake(
            "You count the bytes of all parameters for each bucket. Count only the bucket that is sent.",
            when=lambda seen: numbers >= 10_000 and sent[-1] > growing[-1],
        ),
        mistake(
            "You count the bytes of all ranks together. Count only what this rank passes to all_reduce.",
            when=lambda seen: sent[0] == world * numbers * width,
        ),
        mistake(
            by_parameters,
            when=lambda seen: sent[0] == everything * width > numbers * width or sent[-1] > sent[passes - 1],
        ),
    )
    on_the_wire = [one["sent"] for one in facts]
    seen.that(
        all(got in (0, growing[-1]) for got in on_the_wire),
        "The meter counts something other than what was passed to all_reduce.",
        mistake(
            "Your code ignores dtype, so nothing was sent in the smaller format.",
            when=lambda seen: dtype is not None and on_the_wire[0] == 4 * numbers * passes,
        ),
        stage="rule",
    )


known = [
    mistake(
        "In DDP the second parameter of a hook must be called `bucket`. Define it as hook(state, bucket).",
        raises="KeyError: 'bucket'",
    ),
    mistake(
        "The hook must return a torch.futures.Future whose value is the tensor.",
        raises="[Ff]uture|callback must be|comm.?hook.*return|py::cast|Unable to cast|expected.*got|SIG[AS]",
    ),
    mistake("A rank waits in a collective that the other rank never reaches.", raises="RanksHang"),
]


# %% check="communicated-bytes" points=0.5
"""The meter counts what is sent in float32, and the gradients end as means."""
with check("communicated-bytes") as test:
    test("float32: 4 bytes per trainable parameter and pass; gradients averaged; silent under no_sync")
    given = ([3, 4, 2], 0, 5, 2, 1, None)
    seen = observe_scenario(measured, meter_ddp, 2, [given]).expecting(*known)
    judge(seen, 0, given, 2)


# %% check="communicated-bytes" points=0.5
"""The smaller format, the number of calls, frozen layers, several buckets."""
with check("communicated-bytes") as test:

    def judge_with_calls(seen, case, given, world):
        """Judge one case on all ranks, then the dtype that was sent and the calls that the meter counts."""
        judge(seen, case, given, world)
        sizes, frozen, _, passes, _, dtype = given
        facts = [one[case] for one in seen.value]
        calls = [step["calls"] for step in facts[0]["steps"]]
        kinds = {kind.removeprefix("torch.") for one in facts for kind in one["dtypes"]}
        asked = str(dtype or torch.float32).removeprefix("torch.")
        seen.that(
            kinds <= {asked},
            f"You sent {' and '.join(sorted(kinds))} although {asked} was asked for. Both have 2 bytes, but float16 "
            "ends at 65,504, and bfloat16 has fewer digits. Convert to `dtype`.",
            stage="dtype",
        )
        recorded = facts[0]["all_reduces"] or calls[-1]  # 0 where dist.all_reduce was not the way
        seen.that(
            calls == sorted(calls) and calls[0] >= 1 and calls[passes - 1] >= passes and calls[-1] == recorded,
            'The entry "calls" must count every all_reduce once.',
        )
        weights = network(sizes, frozen).parameters()
        if sum(weight.numel() for weight in weights if weight.requires_grad) < 10_000:
            seen.that(
                calls[passes - 1] == passes,
                "This small model fits into one bucket, so there is one call per backward pass.",
            )

    test("three ranks, bfloat16: half of it, gradients back in float32")
    given = ([3, 4, 2], 0, 5, 2, 1, torch.bfloat16)
    seen = observe_scenario(measured, meter_ddp, 3, [given]).expecting(*known)
    judge_with_calls(seen, 0, given, 3)

    ### BEGIN HIDDEN TESTS
    test.hidden("frozen layers are not sent; the batch size plays no part (and three more cases in the same run)")
    frozen, large = ([3, 4, 2, 3], 1, 2, 1, 1, None), ([64, 600, 450], 0, 1, 2, 0, None)
    half, high = ([4, 3, 3], 0, 3, 3, 0, torch.float16), ([4, 3, 3], 0, 7, 1, 0, torch.float16)
    seen = observe_scenario(measured, meter_ddp, 2, [frozen, large, half, high]).expecting(*known)
    judge_with_calls(seen, 0, frozen, 2)

    test.hidden("a model of several buckets")
    judge_with_calls(seen, 1, large, 2)

    test.hidden("float16, three passes, the last with gradients that are much smaller")
    judge_with_calls(seen, 2, half, 2)

    test.hidden("float16, a gradient of 45,000 on one rank")
    judge_with_calls(seen, 3, high, 2)
    ### END HIDDEN TESTS
