# %% [markdown]
# ### Exercise 10.8 · All-reduce as a ring
#
# implement · long · 35 min · 3 points
#
# Write the ring of section 10.9, in which each rank communicates only with its two neighbours.
#
# **Contract**
#
# - The function is called on every rank with a tensor of the same shape and dtype. Afterwards `t` contains, in place,
#   the sum over the ranks.
# - It works for any world size, including 1; float32, float64, bfloat16 and int64; any number of elements (fewer than
#   ranks, not divisible, none); any shape; and any layout, even non-contiguous. Memory outside `t` is not changed.
# - Each rank sends to rank + 1 and receives from rank - 1 (modulo the world size). In total, it sends no more data than
#   2 (world - 1) chunks of numel / world elements of t's dtype; one element of padding per chunk is allowed. (PyTorch's
#   own tutorial has a ring that sends whole tensors.)
# - The result is bit-identical on all ranks.
#
# **Rule.** Use only point-to-point messages: `send`, `recv`, `isend`, `irecv`, `batch_isend_irecv`. The check counts
# what is sent and to whom in the thread that makes the call, so send from there. It doesn't see files or stores, so
# please keep to the rule there.
#
# <details><summary>Hint 1</summary>
#
# After world - 1 steps in which each rank passes on and adds *one* chunk, which rank has which complete chunk? How do
# all ranks then get all of them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In each step of the first phase, a rank passes one chunk to the right and adds the chunk from the left to its own.
# Each rank starts with a different chunk, and next passes on the chunk that it has just added to. The second phase
# passes on the complete chunks in the same way, and an incoming chunk replaces the old one.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Work on a flat copy that is cut into `world` chunks; `tensor_split` also cuts what isn't divisible. On paper, write
# down for three ranks which chunk each rank sends and receives in each step: both numbers go down by one per step,
# modulo `world`, and the second phase starts one chunk further on. If every rank first waits until its message is
# received, no rank ever receives, so start the receive before you wait for the send.
#
# </details>


# %% answer="ring-all-reduce"
def ring_all_reduce(t: Tensor) -> None:
    """Replace t, on every rank, by the sum over all ranks; messages go to neighbours only."""
    ### BEGIN SOLUTION
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1 or t.numel() == 0:
        return
    flat = t.detach().reshape(-1).clone()
    chunks = flat.tensor_split(world)

    def pass_on(sent: int) -> Tensor:
        """Send one chunk to the right and return what comes from the left: the chunk before it."""
        received = torch.empty_like(chunks[(sent - 1) % world])
        arriving = dist.irecv(received, src=(rank - 1) % world)
        leaving = dist.isend(chunks[sent % world], dst=(rank + 1) % world)
        arriving.wait()
        leaving.wait()
        return received

    for step in range(world - 1):
        chunks[(rank - step - 1) % world].add_(pass_on(rank - step))
    for step in range(world - 1):
        chunks[(rank - step) % world].copy_(pass_on(rank + 1 - step))
    t.copy_(flat.reshape(t.shape))
    ### END SOLUTION


# %% helpers="ring-all-reduce"
def tensor_of(case, rank):
    """The tensor of a rank: a view into a larger one that is filled with sevens elsewhere."""
    shape, dtype, layout = case
    size, between = math.prod(shape), 2 if layout == "strided" else 1
    base = torch.full((between * size + 5,), 7, dtype=dtype)
    t = base[2 : 2 + between * size : between]
    t = t.view(shape[::-1]).t() if layout == "transposed" else t.view(shape)
    count = torch.arange(size, dtype=torch.int64)
    if dtype.is_floating_point:
        values = (count % 89) * (0.37 + 0.1 * rank) + rank * rank / 3 + 0.25
    else:
        values = count * (10**rank) + 2**60 + rank
    t.copy_(values.reshape(shape))
    return base, t


class Messages:
    """Notes what is sent, to whom, and what torch.distributed does other than sending and receiving."""

    def __init__(self):
        self.sent, self.others = [], []

    def note(self, operation, args, out):
        """Note one operation."""
        if "c10d" in operation.namespace:
            name = operation.name().split("::")[1]
            if name == "send":
                self.sent += [(args[2], part.numel() * part.itemsize, part.numel()) for part in args[0]]
            elif name not in ("recv_", "recv_any_source_"):
                self.others.append(name)


def with_cases(all_reduce, rank, cases):
    """For each case (shape, dtype, layout) what a rank has afterwards, and what it sent."""
    facts = []
    for case in cases:
        base, t = tensor_of(case, rank)
        layout = (t.shape, t.stride(), t.storage_offset())
        place, outside = base.as_strided(*layout), torch.ones_like(base, dtype=torch.bool)
        outside.as_strided(*layout).fill_(False)
        messages = Messages()
        with noting_operations(messages.note) as unseen:
            all_reduce(t)
        result = place.flatten()
        facts.append({"to": sorted({to for to, *_ in messages.sent}), "others": messages.others})
        facts[-1]["sizes"] = [size for _, size, _ in messages.sent]
        facts[-1]["elements"] = sum(elements for *_, elements in messages.sent)
        facts[-1]["unseen"] = unseen
        facts[-1]["outside"] = bool((base[outside] == 7).all())
        facts[-1]["sum"] = result.sum().item()
        facts[-1]["t"] = result if len(result) < 1000 else result[::997]
    return facts


def reduced(all_reduce, world, cases):
    """For each case (shape, dtype, layout) what each rank has afterwards, and what it sent."""
    at_rest = 1.0 + 0.4 * len(cases)
    return run_on_ranks(lambda rank, world: with_cases(all_reduce, rank, cases), world=world, timeout=30, stall=at_rest)


uncounted = (
    "The check counts messages that are sent in the call itself: not in another thread or process, and not below "
    "torch's modes. Do all the work in the call."
)


def judge(seen, facts, case, world):
    """Judge the facts of one case on all ranks."""
    shape, dtype, _ = case
    n, chunk = math.prod(shape), math.ceil(math.prod(shape) / world)
    start = [tensor_of(case, rank)[1].flatten() for rank in range(world)]
    thin = slice(None) if n < 1000 else slice(None, None, 997)
    wanted = sum(start)[thin]
    came = [one["t"] for one in facts]
    near = 16 * torch.finfo(dtype).eps if dtype.is_floating_point else 0
    right = torch.stack([torch.isclose(one, wanted, rtol=near, atol=0) for one in came])
    partial = torch.stack(came)[~right] < 0.97 * wanted.expand_as(right)[~right]
    untouched = [torch.equal(one, own[thin]) for one, own in zip(came, start, strict=True)]
    seen.that(
        not any(one["others"] for one in facts),
        "Only point-to-point messages are allowed.",
        stage="rule",
    )
    seen.that(not any(one["unseen"] for one in facts), uncounted, stage="rule")
    seen.that(
        bool(right.all()),
        "Parts of the result are wrong, because the chunk indices of the two phases do not fit together.",
        mistake(
            "You sent whole tensors around the ring, and the sums are wrong. Cut the tensor into `world` "
            "chunks, and pass on one chunk in each step.",
            when=lambda seen: n > world and all(set(one["sizes"]) == {n * dtype.itemsize} for one in facts),
        ),
        mistake(
            "t itself must change (also if it is not contiguous): work on a copy and copy back into t.",
            when=lambda seen: n > 0 and all(untouched),
        ),
        mistake(
            "Digits were lost on the way. The messages and the sums must have the dtype of t.",
            when=lambda seen: (
                dtype != torch.float32 and all(torch.allclose(one.double(), wanted.double(), rtol=1e-4) for one in came)
            ),
        ),
        mistake(
            "This t is not contiguous. Flatten its elements with reshape(-1), not the memory in which they are stored.",
            when=lambda seen: case[2] != "plain",
        ),
        mistake(
            "The last elements are wrong, because the number of elements is not divisible by the world size.",
            when=lambda seen: n % world != 0 and bool(right[:, : n // world * world].all()),
        ),
        mistake(
            "Each rank has only one complete chunk, because the second phase (all-gather) is missing.",
            when=lambda seen: right.sum(0).tolist() == [1] * n and bool(right.any(1).all() and partial.all()),
        ),
        mistake(
            "Some ranks have the sum and others don't.",
            when=lambda seen: bool(right.all(1).any()),
        ),
    )
    seen.that(all(one["outside"] for one in facts), "Your code changed memory outside t.", stage="aliasing")
    seen.that(
        all(set(one["to"]) <= {(rank + 1) % world} for rank, one in enumerate(facts)),
        "A rank sent messages to ranks other than its right neighbour.",
        stage="rule",
    )
    most = 2 * (world - 1) * max(chunk, n / world + 1) * dtype.itemsize
    seen.that(
        max(sum(one["sizes"]) for one in facts) <= most,
        "You sent too much. 2 (world - 1) chunks of numel / world elements are enough.",
        mistake(
            "Your chunks have the right number of elements, but their dtype is larger than t's, so you sent more "
            "bytes than necessary. Send chunks of t's dtype.",
            when=lambda seen: all(one["elements"] * dtype.itemsize <= most for one in facts),
        ),
        mistake(
            "You sent too much, because whole tensors went around the ring. Send one chunk per step.",
            when=lambda seen: all(set(one["sizes"]) == {n * dtype.itemsize} for one in facts),
        ),
        stage="rule",
    )
    same = [torch.equal(one["t"], came[0]) and one["sum"] == facts[0]["sum"] for one in facts]
    seen.that(all(same), "The ranks' results differ in their last bits, but every rank must have the same bytes.")


known = [
    mistake(
        "The ranks wait for each other forever. Gloo's send returns only when the partner receives, but every "
        "rank sends first. Start isend and irecv together, then wait for both.",
        raises="RanksHang.* in send",
    ),
    mistake(
        "The ranks wait for each other forever, because a message has no partner, or no rank waits for it. Every "
        "rank must make the same steps: one isend to the right and one irecv from the left, then wait() for both.",
        raises="RanksHang",
    ),
    mistake(
        "A process ended early, because a message was larger than the buffer that received it. In each step, "
        "your right neighbour must receive the same chunk that you send.",
        raises="SIGABRT",
    ),
    mistake(
        "A rank sent to itself or received from itself. The neighbours are (rank + 1) % world and (rank - 1) % world.",
        raises="Pair is not connected|Connection closed|SIGSEGV|not be the same as the rank",
    ),
    mistake(
        "t need not be contiguous, and what isn't can be neither viewed flat nor sent: send and receive contiguous "
        "copies.",
        raises="contiguous",
    ),
    mistake(
        "t may be bfloat16, which NumPy doesn't have. Do the sums with tensors.",
        raises="unsupported ScalarType BFloat16",
    ),
    mistake(
        "The number of elements need not be divisible by the world size.",
        raises=r"shape '\[[-\d]+, [-\d]+\]' is invalid for input of size",
    ),
    mistake(
        "Slices such as `t[:]` need a dimension, but t can have none at all, a single number. Cut a flattened copy, "
        "and write the sum back with t.copy_().",
        raises=r"slice\(\) cannot be applied",
    ),
    mistake(
        "Gloo can't receive an empty message from any source. Name the source, or leave out empty chunks.",
        raises="enforce fail.*0 vs 0",
    ),
    mistake(
        "t can have no dimension at all, a single number: flatten it before you cut it.",
        raises="at least a 1-dimensional tensor|0-dim|zero-dimensional",
    ),
    mistake(
        "A chunk is missing, because torch.chunk and split can return fewer pieces than there are ranks. "
        "tensor_split always returns as many as you ask for, even if some are empty.",
        raises="IndexError",
    ),
]


# %% check="ring-all-reduce" points=2
"""The sum in place on all ranks; messages go only to the right neighbour, one chunk at a time."""
with check("ring-all-reduce") as test:
    test("two ranks, 8 numbers")
    case = ((8,), torch.float32, "plain")
    seen = observe_scenario(reduced, ring_all_reduce, 2, [case]).expecting(*known)
    judge(seen, [one[0] for one in seen.value], case, 2)

    test("three ranks, 12 numbers")
    case = ((12,), torch.float32, "plain")
    seen = observe_scenario(reduced, ring_all_reduce, 3, [case]).expecting(*known)
    judge(seen, [one[0] for one in seen.value], case, 3)


# %% check="ring-all-reduce" points=1
"""Any number of elements, any shape, dtype and layout; four ranks, and one."""
with check("ring-all-reduce") as test:
    test("three ranks, 10 numbers")
    case = ((10,), torch.float32, "plain")
    seen = observe_scenario(reduced, ring_all_reduce, 3, [case]).expecting(*known)
    judge(seen, [one[0] for one in seen.value], case, 3)

    ### BEGIN HIDDEN TESTS
    sizes = {
        "a hundred thousand numbers, three dimensions": ((7, 11, 1301), torch.float32, "plain"),
        "two dimensions, transposed, float64": ((3, 7), torch.float64, "transposed"),
        "every second element of a larger tensor of integers": ((11,), torch.int64, "strided"),
        "bfloat16": ((9,), torch.bfloat16, "plain"),
        "no dimension": ((), torch.float32, "plain"),
        "empty": ((0, 3), torch.float32, "plain"),
        "after the empty one, fewer elements than ranks": ((2,), torch.float32, "plain"),
    }
    alone = [((4,), torch.float32, "plain"), ((0,), torch.float32, "plain"), ((3, 2), torch.float32, "transposed")]

    def reduced_then_alone(all_reduce, cases, alone):
        """The same on four ranks for many cases, and then on each of them in a world of its own."""

        def on_rank(rank, world):
            facts = with_cases(all_reduce, rank, cases)
            dist.barrier()
            _kept = dist.group.WORLD  # the end of a group takes 30 ms
            dist.destroy_process_group()
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            try:
                return {"facts": facts, "alone": with_cases(all_reduce, 0, alone), "raised": ""}
            except Exception as error:
                return {"facts": facts, "alone": [], "raised": f"{type(error).__name__}: {error}"}

        return run_on_ranks(on_rank, world=4, timeout=30, stall=1.0 + 0.4 * len(cases))

    test.hidden("four ranks: many elements, few and none; other shapes, dtypes and layouts")
    seen = observe_scenario(reduced_then_alone, ring_all_reduce, list(sizes.values()), alone).expecting(*known)
    for number, (idea, case) in enumerate(sizes.items()):
        test.hidden(f"four ranks: {idea}")
        judge(seen, [one["facts"][number] for one in seen.value], case, 4)

    test.hidden("a world of one")
    raised = seen.value[0]["raised"]
    seen.that(not raised, f"World size 1 (or an empty tensor) must simply return. This raised {raised}", stage="raised")
    for number, case in enumerate(alone):
        judge(seen, [seen.value[0]["alone"][number]], case, 1)
    ### END HIDDEN TESTS
