# %% [markdown]
# ### Exercise 10.10 · Backward across two processes
#
# implement · long · 25 min · 2 points
#
# A model is too large for one device. Rank 0 has its first half, rank 1 the second, and an autograd graph ends where
# its process ends. Send activations forward and gradients back, so that both halves learn as one model.
#
# **Contract**
#
# - The function is called on two ranks. Rank 0 has the first part of the model and `inputs`, a list of `n_micro`
#   tensors of any dtype; its `targets` is None. Rank 1 has the second part and `targets`, also a list; its `inputs` is
#   None.
# - `hidden` is the shape (a tuple) of one micro-batch's activation between the two parts, which is contiguous and
#   float32. `loss_fn(output, target)` gives the loss of one micro-batch.
# - Each part has trainable parameters and doesn't change its input in place. There is no Dropout and no BatchNorm, so
#   the parts compute the same for a sample in every call.
# - Afterwards each rank's `.grad` is that of the mean loss over all micro-batches, with the same numbers as for the
#   undivided model. Old gradients are cleared first. No optimizer steps, and no weight changes.
# - Rank 1 returns the mean loss as a float, rank 0 returns None.
#
# **Rule.** Use only messages between two ranks: `send`, `recv`, `isend`, `irecv`, `batch_isend_irecv`. No collectives,
# no torch.distributed.pipelining. The check doesn't see files or stores, so please keep to the rule there.
#
# <details><summary>Hint 1</summary>
#
# What is the gradient of the loss with respect to the received tensor, and which rank needs it? How does rank 0 start a
# backward in the middle of the graph?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Rank 0 keeps each activation with its graph and sends a detached copy. On rank 1 the received tensor is a leaf. What
# must rank 1 do to it before the second part, so that it has a `.grad` after backward? And in which order can the
# messages go, so that the ranks never both wait in `send`?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Rank 0 first runs forward and sends for all micro-batches, and then receives one gradient for each and continues
# backward from the activation with it. Rank 1 makes each received tensor require grad, divides its loss by the number
# of micro-batches, and collects the gradients of the received tensors. It sends them only after it has received all
# activations, because `send` returns when the partner receives, and rank 0 receives nothing before it has sent
# everything.
#
# </details>


# %% answer="two-stage-backward"
def pipeline_step(
    stage: nn.Module,
    inputs: list[Tensor] | None,
    targets: list[Tensor] | None,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    hidden: tuple[int, ...],
    n_micro: int,
) -> float | None:
    """Gradients of the mean loss in both halves of a model; rank 1 returns that loss.

    inputs: n_micro tensors on rank 0; targets: n_micro tensors on rank 1;
    hidden: the shape that travels, float32.
    """
    ### BEGIN SOLUTION
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = []
        for x in inputs:
            activations.append(stage(x))
            dist.send(activations[-1].detach(), dst=1)
        for activation in activations:
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        return None
    losses, gradients = [], []
    for y in targets:
        received = torch.empty(hidden)
        dist.recv(received, src=0)
        received.requires_grad_()
        loss = loss_fn(stage(received), y) / n_micro
        loss.backward()
        losses.append(loss.item())
        gradients.append(received.grad)
    for gradient in gradients:
        dist.send(gradient, dst=0)
    return sum(losses)
    ### END SOLUTION


# %% helpers="two-stage-backward"
def numbers(shape, k):
    """Values between -0.6 and 0.7; no two k give the same."""
    return ((torch.arange(math.prod(shape)) * 7 + 3 * k) % 11 / 8 - 0.6).reshape(shape)


def halves(hidden):
    """The two parts of a model with fixed weights; the activation has `hidden[-1]` features, of tokens if it is 3-d."""
    first = nn.Embedding(7, hidden[-1]) if len(hidden) == 3 else nn.Linear(3, hidden[-1])
    second = nn.Linear(hidden[-1], 2)
    with torch.no_grad():
        for k, parameter in enumerate([*first.parameters(), *second.parameters()]):
            parameter.copy_(numbers(parameter.shape, k + 2))
    return nn.Sequential(first, nn.Tanh()), second


def micro_batches(hidden, n_micro, call):
    """Inputs and targets of one call."""
    at = 20 * call
    inputs = [numbers((*hidden[:-1], 3), at + k) for k in range(n_micro)]
    if len(hidden) == 3:
        inputs = [(8 * x[..., 0] + 5).long() % 7 for x in inputs]
    return inputs, [numbers((*hidden[:-1], 2), at + 5 + 2 * k) for k in range(n_micro)]


def relative_error(out, y):
    """The squared error relative to the target's size: another number if the two are exchanged."""
    return ((out - y).square() / (1 + y.square())).mean()


def root_error(out, y):
    """The root of the mean error: a mean of several isn't that of all their numbers together."""
    return relative_error(out, y).sqrt()


def loss_of(calls):
    """The loss of a case, by its number of calls."""
    return relative_error if calls == 1 else root_error


class Messages:
    """Notes what torch.distributed does other than sending and receiving."""

    def __init__(self):
        self.others = []

    def note(self, operation, args, out):
        """Note one operation."""
        if "c10d" in operation.namespace and operation.name().split("::")[1] not in (
            "send",
            "recv_",
            "recv_any_source_",
        ):
            self.others.append(operation.name())


def both_ranks(step, cases):
    """Train two stages on two ranks, for each (hidden, n_micro, old gradients, calls): what each has afterwards."""

    def on_rank(rank, world):
        facts = []
        for hidden, n_micro, old, calls in cases:
            stage = halves(hidden)[rank]
            before = [parameter.detach().clone() for parameter in stage.parameters()]
            for parameter in stage.parameters():
                parameter.grad = torch.full_like(parameter, 1.5) if old else None
            messages = Messages()
            with noting_operations(messages.note) as unseen:
                for call in range(calls):
                    inputs, targets = micro_batches(hidden, n_micro, call)
                    own = (inputs, None) if rank == 0 else (None, targets)
                    got = step(stage, *own, loss_of(calls), hidden, n_micro)
            after = [parameter.detach() for parameter in stage.parameters()]
            others = messages.others + ["pipelining"] * ("torch.distributed.pipelining" in sys.modules)
            facts.append({"got": got if isinstance(got, float) else None, "nothing": got is None, "others": others})
            facts[-1]["grads"] = [parameter.grad for parameter in stage.parameters()]
            facts[-1]["unseen"] = unseen
            facts[-1]["unchanged"] = all(map(torch.equal, before, after))
        return facts

    return run_on_ranks(on_rank, timeout=30, stall=1.0 + 0.6 * len(cases))


def close(came, wanted):
    """Whether these gradients, one for each parameter, are those."""
    return all(
        isinstance(a, Tensor) and a.shape == b.shape and (a - b).norm() <= 1e-4 * b.norm() + 1e-6
        for a, b in zip(came, wanted, strict=True)
    )


uncounted = (
    "The check sees messages that are sent in the call itself: not in another thread or process, and not below torch's "
    "modes. Do all the work in the call."
)
known = [
    mistake(
        "Both ranks are in send(), which returns only when the partner receives. Let one rank receive first, or "
        "send with isend and wait() at the end.",
        raises="RanksHang.*rank 0 waits in send, rank 1 waits in send",
    ),
    mistake(
        "A rank is in send(), but the other does not receive. Every send needs a recv on the other rank.",
        raises="RanksHang.* waits in send",
    ),
    mistake(
        "One rank waits for a message that the other sends only later (or never). Both must use the same order "
        "of messages.",
        raises="RanksHang",
    ),
    mistake(
        "The received tensor must require grad (as a leaf) before it goes through the second stage, and the loss "
        "needs a backward; otherwise its .grad is None.",
        raises="got <class 'NoneType'>|differentiated Tensors (does not require|appears to not)",
    ),
    mistake(
        "The inputs may be integers, such as token ids, and can't require grad. On rank 0 nobody needs a gradient of "
        "its inputs; only what rank 1 has received must require grad.",
        raises="only Tensors of floating point",
    ),
    mistake(
        "Rank 0 calls backward on something without a graph: send a detached copy, but keep the activation itself.",
        raises="element 0 of tensors does not require grad.*on rank 0",
    ),
    mistake(
        "An activation is not a single number: its backward needs the gradient that arrived, "
        "activation.backward(gradient).",
        raises="grad can be implicitly created only for scalar outputs",
    ),
    mistake(
        "Rank 0 has no targets and rank 1 no inputs: each of them is None there.",
        raises="'NoneType' object is not|NoneType' has no len",
    ),
    mistake(
        "A rank sent to itself or received from itself. The partner of rank 0 is rank 1, and the partner of rank "
        "1 is rank 0.",
        raises="Pair is not connected|Connection closed|SIGSEGV|not be the same as the rank",
    ),
    mistake(
        "A process ended early. The receiving buffer must have the size of the message.",
        raises="SIGABRT",
    ),
]


def judge(seen, number, case, *mistakes):
    """Judge messages, weights and gradients of one case on both ranks; mistakes: those of this case's gradients."""
    hidden, n_micro, _, calls = case
    first, second = halves(hidden)
    inputs, targets = micro_batches(hidden, n_micro, calls - 1)
    activations = [first(x) for x in inputs]
    loss_fn = loss_of(calls)
    losses = [loss_fn(second(h), y) for h, y in zip(activations, targets, strict=True)]
    mean = sum(losses) / n_micro
    wanted = [torch.autograd.grad(mean, list(part.parameters()), retain_graph=True) for part in (first, second)]
    arrived = torch.autograd.grad(mean, activations, retain_graph=True)
    exchanged = sum(loss_fn(y, second(h)) for h, y in zip(activations, targets, strict=True)) / n_micro
    together = loss_fn(torch.cat(list(map(second, activations))), torch.cat(targets))
    ones = [torch.ones_like(h) for h in activations]

    def continued(chosen, starts):
        """The gradients of the first part for a backward that starts in these activations."""
        return torch.autograd.grad(chosen, list(first.parameters()), starts, retain_graph=True)

    facts = [one[number] for one in seen.value]
    seen.that(
        not any(one["others"] for one in facts),
        "Only point-to-point messages are allowed here.",
        mistake(
            "torch.distributed.pipelining does all of this by itself; here you write the messages.",
            when=lambda seen: any("pipelining" in one["others"] for one in facts),
        ),
        stage="rule",
    )
    seen.that(not any(one["unseen"] for one in facts), uncounted, stage="rule")
    seen.that(all(one["unchanged"] for one in facts), "Your code changed a weight. Don't step here.")
    front, back = facts[0]["grads"], facts[1]["grads"]
    stale = "Old gradients were added, or gradients were cleared between micro-batches."
    seen.that(
        close(back, wanted[1]),
        "Rank 1's gradients are not those of the undivided model.",
        *mistakes,
        mistake(
            "The loss has its arguments exchanged: the output of the second part comes first, then the target.",
            when=lambda seen: close(back, torch.autograd.grad(exchanged, list(second.parameters()))),
        ),
        mistake(
            "You called loss_fn once, for all micro-batches together. It gives the loss of one micro-batch, and "
            "you need the mean of these losses, which is another number for a loss such as a root.",
            when=lambda seen: close(back, torch.autograd.grad(together, list(second.parameters()))),
        ),
        mistake(
            "The gradients are n_micro times too large. The loss is the mean over all micro-batches.",
            when=lambda seen: n_micro > 1 and close(back, [n_micro * grad for grad in wanted[1]]),
        ),
        mistake(
            "Rank 1's parameters have no gradient. Call backward on its loss, so that .grad is filled.",
            when=lambda seen: all(grad is None for grad in back),
        ),
        mistake(
            stale,
            when=lambda seen: any(
                close(back, torch.autograd.grad(loss / by, list(second.parameters()), retain_graph=True))
                for loss in losses
                for by in (1, n_micro)
            ),
        ),
    )
    seen.that(
        close(front, wanted[0]),
        "Rank 1 is right, but rank 0 is wrong. You started its backward with something other than the "
        "gradient received for the same micro-batch (ones, or the gradient of another), or cleared gradients "
        "in between.",
        *mistakes,
        mistake(
            "Rank 0's parameters got no gradient. Continue backward there with the gradient that rank 1 sends back.",
            when=lambda seen: all(grad is None or not grad.any() for grad in front),
        ),
        mistake(
            "Rank 1 is right, but rank 0 is wrong. You started its backward with ones instead of the "
            "gradient that rank 1 sends back.",
            when=lambda seen: any(
                close(front, continued(activations, [one / by for one in ones])) for by in (1, n_micro)
            ),
        ),
        mistake(
            "Rank 1 is right, but rank 0 is wrong. You matched the gradients with the micro-batches in reverse order.",
            when=lambda seen: n_micro > 1 and close(front, continued(activations, arrived[::-1])),
        ),
        mistake(
            "Rank 1 is right, but rank 0 is wrong. You cleared its gradients between micro-batches, so only "
            "one is left.",
            when=lambda seen: any(
                close(front, continued([h], [start])) for h, start in zip(activations, arrived, strict=True)
            ),
        ),
        mistake(
            "Rank 1 is right, but rank 0 is wrong. You divided its gradients by n_micro again, but the "
            "gradient that arrives is already that of the mean.",
            when=lambda seen: n_micro > 1 and close(front, [grad / n_micro for grad in wanted[0]]),
        ),
    )


# %% check="two-stage-backward" points=1
"""Both ranks get the gradients of the undivided model; only messages between two ranks."""
with check("two-stage-backward") as test:
    test("one micro-batch (and four, in the same run): the gradients of the undivided model on both ranks")
    cases = [((2, 4), 1, False, 1), ((2, 4), 4, False, 1)]
    seen = observe_scenario(both_ranks, pipeline_step, cases).expecting(*known)
    judge(seen, 0, cases[0])

    test("four micro-batches")
    judge(seen, 1, cases[1])


# %% check="two-stage-backward" points=1
"""What the ranks return; old gradients, large activations, several calls."""
with check("two-stage-backward") as test:

    def judge_with_loss(seen, number, case, *mistakes):
        """Judge one case on both ranks, then the loss that they return."""
        judge(seen, number, case, *mistakes)
        hidden, n_micro, _, calls = case
        first, second = halves(hidden)
        pairs = zip(*micro_batches(hidden, n_micro, calls - 1), strict=True)
        mean = sum(loss_of(calls)(second(first(x)), y).item() for x, y in pairs) / n_micro
        front, back = (one[number] for one in seen.value)
        seen.that(
            front["nothing"] and back["got"] is not None and math.isclose(back["got"], mean, rel_tol=1e-4),
            "Rank 1 must return the mean loss as a float, and rank 0 None.",
        )

    test("two micro-batches: rank 1 returns the mean loss, rank 0 None")
    case = ((2, 4), 2, False, 1)
    seen = observe_scenario(both_ranks, pipeline_step, [case]).expecting(*known)
    judge_with_loss(seen, 0, case)

    ### BEGIN HIDDEN TESTS
    cases = [((3, 5), 2, True, 1), ((32, 4096), 3, False, 1), ((2, 3, 4), 3, False, 2)]
    stale = mistake(
        "Old gradients were added, or gradients were cleared between micro-batches.", when=lambda seen: True
    )

    test.hidden("old gradients on both ranks")
    seen = observe_scenario(both_ranks, pipeline_step, cases).expecting(*known)
    judge_with_loss(seen, 0, cases[0], stale)

    test.hidden("large activations")
    judge_with_loss(seen, 1, cases[1])

    test.hidden("two calls in a row; token ids, and activations of three dimensions; a loss that isn't a mean")
    judge_with_loss(seen, 2, cases[2])
    ### END HIDDEN TESTS
