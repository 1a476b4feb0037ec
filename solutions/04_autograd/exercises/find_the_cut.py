# %% [markdown]
# ### Exercise 4.5 · Three cuts too many, and one that must stay
#
# debug · solid · 15 min · 2 points
#
# Two networks each see a differently augmented copy of the same samples (`view_a`, `view_b`). `online` learns to agree
# with `target`, `target` must not learn, and `log_scale` learns how much a disagreement counts. The first version of
# this loss raised "element 0 of tensors does not require grad". Then its last line was added. The error is gone, and
# the loss never falls. Fix it.
#
# **Contract**
#
# - The value is already right and must not change: the mean over the batch of `exp(log_scale) * (1 - cos) - log_scale`,
#   where cos is the cosine of `online(view_a)` and `target(view_b)`. The loss is 0-d and has the dtype of the networks.
#   The rows of both outputs are at least 1e-6 long.
# - Every parameter of `online` gets a gradient, and so do `log_scale` and, if it requires grad, `view_a`. These are the
#   gradients of the formula with `target(view_b)` as a constant.
# - Nothing is learned through `target(view_b)`: the graph of the loss doesn't lead through this call to the target's
#   parameters or to `view_b`, and the call leaves their `.grad` as it was, None or not.
# - `target` may be the very same object as `online`, so no `requires_grad` flag (of networks, log_scale or views) and
#   no mode (train, eval) is changed, not even for a moment.
# - If the caller uses `no_grad`, the loss is untracked. After the call, grad mode is what it was before.
#
# <details><summary>Hint 1</summary>
#
# Print `requires_grad` and `grad_fn` line by line. Where has the history disappeared, although it should be there? And
# which of these values is meant to be a constant?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# There are four cuts: `no_grad`, `.item()`, `.data` and the conversion by `.tolist()`. Three of them cut off something
# that must learn, and have to go. The fourth is meant for the target, but its block contains more than the target.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Compute only the target's output under `no_grad`. Compute everything else outside the block from tensors that still
# have their history: the online output, the scale, and the mean, which torch can take without a detour through Python
# numbers. After that, you don't need to mark anything.
#
# </details>


# %% answer="find-the-cut"
def agreement_loss(
    online: nn.Module,
    target: nn.Module,
    log_scale: Tensor,
    view_a: Tensor,
    view_b: Tensor,
) -> Tensor:
    """The batch's mean of exp(log_scale) * (1 - cos(online(view_a), target(view_b))) - log_scale.

    The networks turn a view (B, ...) into (B, D); log_scale is 0-d, in their dtype;
    returns a 0-d tensor.
    """
    ### BEGIN SOLUTION
    with torch.no_grad():  # the target must not learn
        t = F.normalize(target(view_b), dim=-1)
    p = F.normalize(online(view_a), dim=-1)
    per_sample = log_scale.exp() * (1 - (p * t).sum(-1)) - log_scale
    return per_sample.mean()
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # with torch.no_grad():  # the target must not learn
    #     p = F.normalize(online(view_a), dim=-1)
    #     t = F.normalize(target(view_b), dim=-1)
    # scale = math.exp(log_scale.item())
    # per_sample = scale * (1 - (p * t).sum(-1)) - log_scale.data
    # loss = torch.tensor(per_sample.tolist()).mean()
    # return loss.requires_grad_()  # "element 0 of tensors does not require grad" is gone
    ### END GIVEN


# %% helpers="find-the-cut"
class Watched(nn.Linear):
    """A linear layer that calls `look` whenever it runs."""

    def forward(self, x):
        self.look()
        return super().forward(x)


def network(numbers):
    """A layer with these numbers: for each output three weights and a bias."""
    layer = Watched(3, 2, dtype=numbers.dtype)
    with torch.no_grad():
        layer.weight.copy_(numbers[:, :3])
        layer.bias.copy_(numbers[:, 3])
    return layer


def led_to(loss):
    """The leaves to which the graph of a loss leads."""
    found, waiting, known = [], [loss.grad_fn], {None}
    while waiting:
        node = waiting.pop()
        if node not in known:
            known.add(node)
            found += [node.variable] if hasattr(node, "variable") else []
            waiting += [following for following, _ in node.next_functions]
    return found


def told(agreement_loss, own, other, log_scale, view_a, view_b, recording=True, old=False, frozen=False, plain=False):
    """Make two small networks (one as both where `other` is None), compute the loss and run its backward."""
    online = network(own)
    target = online if other is None else network(other)
    if frozen:
        target.eval().bias.requires_grad_(False)
    views = (log_scale, view_a, view_b)
    for t in views:
        t.requires_grad_(t is log_scale or not plain)
    constant = {"view_b": view_b}
    if other is not None:
        constant |= {f"target.{name}": p for name, p in target.named_parameters()}
    for t in constant.values():
        t.grad = torch.full_like(t, 3.0) if old else None
    both, runs = [*online.parameters(), *target.parameters()], []

    def standing():
        return [[t.requires_grad for t in (*both, *views)], [online.training, target.training]]

    def look(name):
        return lambda: runs.append([name, torch.is_grad_enabled(), standing()])

    online.look, target.look = look("online"), look("target")
    before = standing()
    with torch.set_grad_enabled(recording):
        loss = agreement_loss(online, target, log_scale, view_a, view_b)
        mode = torch.is_grad_enabled()
    facts = {"kind": type(loss).__name__, "mode": [recording, mode]}
    if not isinstance(loss, Tensor):
        return facts
    leads = [name for name, t in constant.items() if any(t is leaf for leaf in led_to(loss))]
    facts |= {"tracked": loss.requires_grad, "leaf": loss.is_leaf, "leads": leads}
    facts["standing"] = [before, *[flags for _, _, flags in runs], standing()]
    facts["recorded"] = all(recorded for name, recorded, _ in runs if name == "online")
    if loss.requires_grad and loss.dim() == 0:
        loss.backward()
    changed = [n for n, t in constant.items() if (t.grad is None) is old or (old and bool((t.grad != 3).any()))]
    learns = {"weight": online.weight, "bias": online.bias, "log_scale": log_scale, "view_a": view_a}
    gradients = {name: None if t.grad is None else t.grad.clone() for name, t in learns.items()}
    return facts | {"loss": loss.detach().clone(), "changed": changed} | gradients


def by_numbers(own, outputs, log_scale, view_a):
    """The loss by Python's numbers, for outputs of the target that don't change."""
    total = 0.0
    for row, t in zip(view_a.tolist(), outputs, strict=True):
        p = [sum(w * x for w, x in zip(weights, [*row, 1.0], strict=True)) for weights in own.tolist()]
        cosine = sum(a * b for a, b in zip(p, t, strict=True)) / math.hypot(*p) / math.hypot(*t)
        total += math.exp(log_scale.item()) * (1 - cosine) - log_scale.item()
    return total / len(view_a)


def slopes(arguments, place):
    """The slopes of the loss for each number of one argument, from two values close to each other."""
    found = []
    for i in range(arguments[place].numel()):
        values = []
        for step in (1e-6, -1e-6):
            moved = [a.clone() if isinstance(a, Tensor) else a for a in arguments]
            moved[place].view(-1)[i] += step
            values.append(by_numbers(*moved))
        found.append((values[0] - values[1]) / 2e-6)
    return torch.tensor(found, dtype=torch.float64).reshape(arguments[place].shape)


def near(came, right, rtol=1e-3, atol=1e-4):
    """Whether values agree, up to the rounding of float32."""
    return came is not None and torch.allclose(came.double(), right, rtol=rtol, atol=atol)


def judge(seen, *first):
    """The value, then what online, log_scale and view_a get, then what the target gets."""
    own, other, log_scale, view_a, view_b = (None if a is None else a.detach().double() for a in seen.args[1:6])
    ones = torch.ones(len(view_b), 1, dtype=torch.float64)
    outputs = (torch.cat([view_b, ones], 1) @ (own if other is None else other).t()).tolist()
    arguments = [own, outputs, log_scale, view_a]
    seen.expecting(
        *first,
        mistake(
            "A result of inference_mode can't be kept for backward. Use no_grad, or detach.",
            raises="Inference tensors",
        ),
        mistake(
            "Your agreement_loss runs backward itself, which frees what the nodes keep. Leave backward to the caller.",
            raises="backward through the graph a second time",
        ),
    )
    nothing = "Nothing came back: is a `return` missing? Return the loss."
    kind = seen["kind"]
    seen.that(kind == "Tensor", nothing if kind == "NoneType" else "The loss must be a tensor.", stage="type")
    loss = seen["loss"]
    seen.that(loss.dim() == 0, f"The loss is a mean: 0-d, not of shape {tuple(loss.shape)}.", stage="shape")
    seen.that(
        loss.dtype == seen.args[1].dtype,
        f"The loss must have the dtype of the networks, {seen.args[1].dtype}; yours is {loss.dtype}.",
        stage="dtype",
    )
    right = torch.tensor(by_numbers(*arguments), dtype=torch.float64)
    seen.that(near(loss, right), "The value of the loss has changed. It was right; only the cuts are wrong.")
    seen.that(
        loss.dtype != torch.float64 or near(loss, right, 1e-9, 0.0),
        "The value of the loss has changed a little. It was right; do not add anything to a norm or a cosine.",
    )
    seen.that(
        not (seen["tracked"] and seen["leaf"]),
        "The loss is a leaf: nothing was recorded on the way to it, and requires_grad_() at the end only silences the "
        "error. Nothing reaches the networks.",
        *first,
        mistake(
            "The loss is a new leaf: torch.tensor(….tolist()) copies numbers, and requires_grad_() at the end only "
            "silences the error. Nothing reaches the networks.",
            when=lambda seen: "tolist" in seen.op_names(),
        ),
        stage="gradient",
    )
    seen.that(
        seen["tracked"], "The loss is not tracked: every way back to online and log_scale is cut.", stage="gradient"
    )
    got = [seen[name] is not None for name in ("weight", "bias")]
    seen.that(
        all(got),
        "No gradient reaches online, although its forward was recorded: its output was cut later, or not used.",
        *first,
        mistake("No gradient reaches online: its forward runs under no_grad.", when=lambda seen: not seen["recorded"]),
        stage="gradient",
    )
    of_scale, scale_slope = seen["log_scale"], slopes(arguments, 2)
    halves = (torch.tensor(-1.0, dtype=torch.float64), scale_slope + 1)
    seen.that(
        near(of_scale, scale_slope),
        "The gradient of log_scale is not that of the formula.",
        *first,
        mistake(
            "log_scale gets no gradient, or half of it: no_grad, .item(), .data, detach and float() leave the graph.",
            when=lambda seen: of_scale is None or any(near(of_scale, half) for half in halves),
        ),
        stage="gradient",
    )
    seen.that(
        not seen["leads"],
        f"The target learns: the loss leads back to {', '.join(seen['leads'])}. Its forward must be under no_grad, or "
        "its output detached.",
        *first,
        mistake(
            "The target's parameters are left out, but its way back to view_b is not: a gradient would reach view_b. "
            "Its forward must be under no_grad, or its output detached.",
            when=lambda seen: seen["leads"] == ["view_b"],
        ),
        stage="gradient",
    )
    changed = f"The .grad of {', '.join(seen['changed'])} is not what it was before the call."
    seen.that(not seen["changed"], changed, stage="gradient")
    weights = slopes(arguments, 0)
    tracked = seen["standing"][0][0][-1]
    seen.that(
        seen["view_a"] is not None or not tracked,
        "view_a gets no gradient: it was cut on its way in.",
        stage="gradient",
    )
    as_formula = near(seen["weight"], weights[:, :3]) and near(seen["bias"], weights[:, 3])
    seen.that(
        as_formula and (near(seen["view_a"], slopes(arguments, 3)) or not tracked),
        "The gradients of online are not those of the formula with the output of target as a constant.",
        stage="gradient",
    )


# %% check="find-the-cut" points=1
"""The value; the gradients of online, log_scale and view_a; none for the target and view_b."""
with check("find-the-cut") as test:
    test("three samples: online, log_scale and view_a learn, and the target doesn't")
    own = torch.tensor([[0.5, -1.0, 0.25, 0.1], [1.5, 0.75, -0.5, -0.3]])
    other = torch.tensor([[-0.5, 1.0, 0.75, 0.2], [0.3, -0.6, 1.25, 0.4]])
    view_a = torch.tensor([[1.0, 2.0, -1.0], [0.5, -1.5, 2.0], [3.0, 0.25, 1.0]])
    view_b = torch.tensor([[1.2, 1.8, -0.7], [0.4, -1.1, 2.5], [2.5, 0.5, 1.5]])
    judge(observe_scenario(told, agreement_loss, own, other, torch.tensor(0.5), view_a, view_b))

    ### BEGIN HIDDEN TESTS
    test.hidden("other numbers, a batch of one, a large and a small scale")
    generator = torch.Generator().manual_seed(4)
    for rows, log_scale in ((5, -0.75), (1, -0.75), (3, 5.0), (3, -5.0)):
        own, other = torch.randn(2, 2, 4, generator=generator)
        view_a, view_b = torch.randn(2, rows, 3, generator=generator)
        judge(observe_scenario(told, agreement_loss, own, other, torch.tensor(log_scale), view_a, view_b))
    ### END HIDDEN TESTS

# %% check="find-the-cut" points=1
"""Flags and modes; one network as both; old gradients, float64, the caller's no_grad."""
with check("find-the-cut") as test:
    begin = mistake(
        FIRST_CHECK_FIRST.sentence,
        stage=("raised", "type", "shape", "dtype", "value", "gradient"),
        when=FIRST_CHECK_FIRST.when,
    )

    def judge_manners(seen):
        """Flags and modes of the networks while they ran and afterwards, and grad mode."""
        seen.that(
            all(now == seen["standing"][0] for now in seen["standing"]),
            "You changed a requires_grad flag, or the mode of a network, at least for a moment. If target and online "
            "are one object, that also changes online. Cut the *value*.",
            stage="arguments",
        )
        before, after = seen["mode"]
        seen.that(before == after, "Grad mode is not what it was before the call.", stage="rule")

    own = torch.tensor([[0.5, -1.0, 0.25, 0.1], [1.5, 0.75, -0.5, -0.3]])
    other = torch.tensor([[-0.5, 1.0, 0.75, 0.2], [0.3, -0.6, 1.25, 0.4]])
    view_a = torch.tensor([[1.0, 2.0, -1.0], [0.5, -1.5, 2.0], [3.0, 0.25, 1.0]])
    view_b = torch.tensor([[1.2, 1.8, -0.7], [0.4, -1.1, 2.5], [2.5, 0.5, 1.5]])
    log_scale = torch.tensor(0.5)

    test("three samples again: flags and modes stay as they are")
    seen = observe_scenario(told, agreement_loss, own, other, log_scale, view_a, view_b)
    judge(seen, begin)
    judge_manners(seen)

    test("target and online are one object")
    seen = observe_scenario(told, agreement_loss, own, None, log_scale, view_a, view_b)
    judge(seen)
    judge_manners(seen)

    ### BEGIN HIDDEN TESTS
    test.hidden("float64")
    numbers = [t.double() for t in (own, other, log_scale, view_a, view_b)]
    seen = observe_scenario(told, agreement_loss, *numbers)
    judge(seen)
    judge_manners(seen)

    for idea, *case in [
        ("the target has gradients from before", True, False, False),
        ("the target is in eval mode, its bias doesn't require grad", False, True, False),
        ("the views don't require grad", False, False, True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(told, agreement_loss, own, other, log_scale, view_a, view_b, True, *case)
        judge(seen)
        judge_manners(seen)

    test.hidden("in the caller's no_grad")
    seen = observe_scenario(told, agreement_loss, own, other, log_scale, view_a, view_b, False)
    seen.that(
        not seen["tracked"],
        "In the caller's no_grad the loss is tracked: you switched grad mode on by force.",
        stage="gradient",
    )
    judge_manners(seen)
    ### END HIDDEN TESTS
