# %% [markdown]
# ### Exercise 8.8 · Accumulate, unscale, clip: in that order
#
# fix · long · 25 min · 2 points
#
# If a batch doesn't fit into memory, you cut it into micro-batches, accumulate their gradients and clip them before the
# step; here all of that happens under a loss scaler. Each part is easy, but in the code below the order is wrong, and
# that is not the only mistake.
#
# **Contract**
#
# - `train_accumulated` makes one optimizer step per group of `accum` consecutive micro-batches. A last, shorter group
#   also gets a step.
# - The gradient of a group is that of the MEAN of its micro-batch losses. It is clipped to `max_norm` by its norm over
#   all parameters together. Gradients from before the call don't leak in.
# - It returns a list with one float per step: the true (unscaled) norm before clipping. A gradient may be 0.
# - Forward pass and loss run under `autocast()`, called anew for every region. With the scaler enabled or disabled the
#   weights are the same up to rounding.
# - With an enabled scaler, a group whose gradients overflow is skipped, the scale shrinks and training goes on; its
#   norm is reported as inf or nan.
# - You may assume that all micro-batches have the same size, that `loss_fn` is a mean over its samples, and that the
#   optimizer's parameter groups contain exactly the model's parameters. A group may take any number of forward and
#   backward passes.
#
# Exercise 12.8 is this step for a language model, whose micro-batches are of different sizes.
#
# <details><summary>Hint 1</summary>
#
# Are the gradients scaled or unscaled between `backward` and `step`, and what does `max_norm` mean for scaled
# gradients? How many losses does a group average?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Write two lists: what happens once for each micro-batch, and what happens once for each group. Where do `zero_grad`,
# `scale(…).backward()`, `unscale_`, clipping, `step` and `update` belong?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Only the forward pass, the loss and its scaled backward belong to the micro-batch; divide each loss by the real size
# of its group, which is smaller for the last group. Everything else happens once per group, in the order of the list
# that ends section 8.6.
#
# </details>


# %% answer="accumulate-and-clip"
def train_accumulated(
    model: nn.Module,
    optimizer: Optimizer,
    scaler: torch.amp.GradScaler,
    micro_batches: Sequence[tuple[Tensor, Tensor]],
    accum: int,
    max_norm: float,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    autocast: Callable[[], AbstractContextManager],
) -> list[float]:
    """One clipped step per group of micro-batches; returns each step's norm before clipping."""
    ### BEGIN SOLUTION
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return norms
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # norms = []
    # for i, (x, y) in enumerate(micro_batches):
    #     with autocast():
    #         loss = loss_fn(model(x), y)
    #     scaler.scale(loss).backward()
    #     norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
    #     scaler.unscale_(optimizer)  # RuntimeError: unscale_() has already been called
    #     if (i + 1) % accum == 0:
    #         scaler.step(optimizer)
    #         optimizer.zero_grad()
    # scaler.update()
    # return norms
    ### END GIVEN


# %% helpers="accumulate-and-clip"
class PlainSGD(Optimizer):
    """SGD and nothing else: weights minus lr times gradient."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
        self.steps = 0

    def add_param_group(self, group):
        self.param_groups.append(self.defaults | group)

    def parameters(self):
        return [p for group in self.param_groups for p in group["params"]]

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else torch.zeros_like(p.grad)

    def step(self, closure=None):
        self.steps += 1
        with torch.no_grad():
            for p in self.parameters():
                if p.grad is not None:
                    p -= self.defaults["lr"] * p.grad


def small_net():
    """Two Linear layers with fixed weights."""
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    with torch.no_grad():
        for shift, p in enumerate(net.parameters()):
            p.copy_((torch.arange(p.numel()) * 7 % 11 / 8 + shift / 16 - 0.6).reshape(p.shape))
    return net


class OnlyOnce(torch.autocast):
    """A region that can be entered once, as those of a generator are."""

    used = False

    def __enter__(self):
        if self.used:
            raise RuntimeError("what autocast() returned was entered twice")
        self.used = True
        return super().__enter__()


def data(count, broken=None, reached=0):
    """Micro-batches of four samples; in the broken one the targets are so large that gradients overflow; in the first
    ones, as many as are `reached`, the targets are what the net gives.
    """
    pairs = []
    for k in range(count):
        x = (torch.arange(12.0) * (5 + k) % 13 / 6 - 1 + k / 10).reshape(4, 3)
        y = (torch.arange(8.0) * (3 + k) % 7 / 2 - 1.7 - k / 5).reshape(4, 2)
        y = small_net()(x).detach() if k < reached else y
        pairs.append((x, y * 1e36 if k == broken else y))
    return pairs


def unrecorded(answer, *args):
    """What an answer returns, without a record of every operation: that would cost more than the operations."""
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        return answer(*args)


def trained(train_accumulated, count, accum, max_norm, options):
    """Train; note the norms, the weights, the scale, and what was on in the forward pass and the loss."""
    net, on, lossy = small_net(), [], []
    net.register_forward_pre_hook(lambda *args: on.append(torch.is_autocast_enabled("cpu")))
    optimizer = PlainSGD([{"params": [*part.parameters()]} for part in (net[0], net[2])], 0.5)
    scaler = torch.amp.GradScaler("cpu", enabled=options.get("enabled", True))
    for p in net.parameters():
        p.grad = torch.full_like(p, options["old"]) if "old" in options else None

    def loss_fn(out, y):
        lossy.append(torch.is_autocast_enabled("cpu"))
        return F.mse_loss(out, y.detach())  # a target is no output

    def autocast():
        return OnlyOnce("cpu", torch.bfloat16) if options.get("low") else nullcontext()

    pairs = data(count, options.get("broken"), options.get("reached", 0))
    settings = (pairs, accum, max_norm, loss_fn, autocast)
    norms = unrecorded(train_accumulated, net, optimizer, scaler, *settings)
    kinds = sorted({type(n).__name__ for n in norms}) if isinstance(norms, (list, tuple)) else []
    facts = {"norms": norms, "type": type(norms).__name__, "kinds": kinds, "steps": optimizer.steps}
    facts |= {"on": on, "lossy": lossy, "scale": scaler.get_scale()}
    return facts | {"weights": torch.cat([p.detach().flatten() for p in net.parameters()])}


def by_hand(
    pairs,
    accum,
    max_norm,
    divide=None,
    low=False,
    keep=False,
    drop=False,
    old=0.0,
    first=False,
    each=False,
    last=False,
    apart=4,
    around=False,
):
    """(norms, weights) of plain training in float32; the options are misconceptions. apart: how many tensors have a
    norm in common. around: one region around everything.
    """
    outer = torch.autocast("cpu", torch.bfloat16) if around else nullcontext()
    outer.__enter__()
    net, norms = small_net(), []
    parameters = list(net.parameters())
    left = [torch.full_like(p, old) for p in parameters]
    for start in range(0, len(pairs), accum):
        group = pairs[start : start + accum]
        if drop and len(group) < accum:
            break
        grads = left if keep or start == 0 else [torch.zeros_like(p) for p in parameters]
        for x, y in group:
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                loss = (net(x) - y).square().mean()
            new = torch.autograd.grad(loss / (divide or len(group)), parameters)
            grads = new if last else [a + b for a, b in zip(grads, new, strict=True)]
        norm = sum(g.double().square().sum() for g in (grads[:2] if first else grads)).sqrt().item()
        norms.append(norm)
        owns = [torch.cat([g.flatten() for g in grads[k : k + apart]]).norm().item() for k in range(0, 4, apart)]
        owns = owns if apart < 4 else [norm]
        factors = [min(1.0, max_norm / (own or 1.0)) for own in owns]
        left = [g * (1.0 if first and k > 1 else factors[k // apart]) for k, g in enumerate(grads)]
        if each:
            left = [g.clamp(-max_norm, max_norm) for g in grads]
        with torch.no_grad():
            for p, g in zip(parameters, left, strict=True):
                p -= 0.5 * g
    outer.__exit__(None, None, None)
    return norms, torch.cat([p.detach().flatten() for p in parameters])


def near(a, b, tolerance=1e-4):
    """Whether two lists of numbers agree."""
    if len(a) != len(b):
        return False
    a, b = (torch.as_tensor(v, dtype=torch.float64) for v in (a, b))
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance / 10)


clip_scaled = (
    "You clipped SCALED gradients: with scale 65536 the clipped step is about 65536 times too small (the weights "
    "hardly move). unscale_ first."
)
scaled_or_twice = (
    "The first norm is right, but the step is about {scale:g} times too small: either you clipped SCALED gradients, or "
    "you divided them by the scale yourself and scaler.step did so again. Call scaler.unscale_(optimizer) before you "
    "clip; then scaler.step doesn't divide once more."
)
no_update = "scaler.update() belongs after every step; without it the next step raises and the scale never adapts."
stale = "Gradients from before the call (or from the previous group) leaked in: zero_grad at the start of each group."
known = [
    mistake(
        "unscale_ may be called once per optimizer between updates: do it after the last micro-batch of the group.",
        raises=r"unscale_\(\) has already been called",
    ),
    mistake(
        "unscale_ was called after a step, with no update in between: unscale_ belongs before the step, and "
        "scaler.update() after every step.",
        raises=r"unscale_\(\) is being called after step",
    ),
    mistake(no_update, raises=r"step\(\) has already been called"),
    mistake(
        "`update` found no step in this iteration: let scaler.step(optimizer) make the step, and call update once, "
        "after it.",
        raises="No inf checks were recorded",
    ),
    mistake(
        "You entered twice what one call of autocast() returned, and it may be good for one use only: call autocast() "
        "for every region.",
        raises="autocast.. returned was entered twice",
    ),
]


def judge_kinds(seen, steps):
    """One float for each group."""
    seen.expecting(*known)
    named = seen["type"]
    nothing = "Nothing came back (None): is a `return` missing? Return the list of norms."
    other = f"Return a list of floats, not a value of type {named}."
    seen.that(named in ("list", "tuple"), nothing if named == "NoneType" else other, stage="type")
    every_batch = "There must be one step per group, not one per micro-batch."
    seen.that(
        len(seen["norms"]) == steps,
        f"The list must hold one number per step, here {steps}; yours has {len(seen['norms'])}.",
        mistake(every_batch, when=lambda seen: seen["steps"] == len(seen["on"]) > steps),
        mistake(
            clip_scaled + " And return one number per step.",
            when=lambda seen: len(seen["norms"]) == len(seen["on"]) and max(seen["norms"]) > 1000,
        ),
        mistake(
            "Return one number per step, not one per micro-batch: clip once, when the group is complete.",
            when=lambda seen: len(seen["norms"]) == len(seen["on"]) > steps,
        ),
        stage="shape",
    )
    odd = [kind for kind in seen["kinds"] if kind not in ("float", "int")]
    seen.that(not odd, f"The norms must be Python floats; some are of type {', '.join(odd)}.", stage="type")


def usual(pairs, accum, max_norm):
    """Misconceptions that show in every case: pairs of (sentence, a function for what each gives)."""
    give = partial(by_hand, pairs, accum, max_norm)
    mean_not_sum = (
        "The gradient is the sum over the group, not the mean: divide each loss by the number of micro-batches in the "
        "group."
    )
    first_group = (
        "You clipped only the first parameter group of the optimizer: the norm is that of all parameters, and one "
        "factor scales all of them."
    )
    own_factors = (
        "{parts} was clipped by its own norm. One factor, from the norm of the whole gradient, scales all tensors, so "
        "that the direction stays."
    )
    each_number = "You clipped each number of the gradient; clip its norm, so that the direction stays."
    return [
        (mean_not_sum, partial(give, divide=1)),
        (stale, partial(give, keep=True)),
        (first_group, partial(give, first=True)),
        (each_number, partial(give, each=True)),
        (own_factors.replace("{parts}", "Each tensor"), partial(give, apart=1)),
        (own_factors.replace("{parts}", "Each parameter group of the optimizer"), partial(give, apart=2)),
        (
            "Only the last micro-batch of a group counts: zero_grad belongs before the group, not before each of them.",
            partial(give, last=True),
        ),
        (
            "The step was taken with gradients that were not clipped: clip after unscale_ and before step.",
            partial(by_hand, pairs, accum, math.inf),
        ),
    ]


def judge(seen, expected, max_norm, *wrongs, tolerance=1e-4):
    """The norms, then the weights; wrongs are (sentence, a function for what the misconception gives)."""
    norms, weights = expected
    judge_kinds(seen, len(norms))

    def gives(wrong):
        """Whether the norms are those of a misconception; where these are right, the weights."""
        part = "weights" if near(seen["norms"], norms, tolerance) else "norms"
        return near(seen[part], wrong()[part == "weights"])

    start = torch.cat([p.detach().flatten() for p in small_net().parameters()])
    way = (seen["weights"] - start).norm() / (weights - start).norm()
    named = [
        mistake("The weights did not move: no step was made.", when=lambda seen: way == 0),
        mistake(
            scaled_or_twice.replace("{scale:g}", f"{seen['scale']:g}"),
            when=lambda seen: way < 1e-3 and near(seen["norms"][:1], norms[:1], tolerance),
        ),
        mistake(clip_scaled, when=lambda seen: way < 1e-3 or seen["norms"][0] > 1000 * norms[0] > 0),
        *[mistake(sentence, when=lambda seen, wrong=wrong: gives(wrong)) for sentence, wrong in wrongs],
    ]
    clipped = [min(norm, max_norm) for norm in norms]
    seen.that(
        near(seen["norms"], norms, tolerance),
        "The norms are not those of plain float32 training.",
        *named,
        mistake(
            "Return one number per step: the unscaled norm BEFORE clipping. Yours equal max_norm: measured after "
            "clipping, or each micro-batch was clipped already.",
            when=lambda seen: clipped != norms and max(seen["norms"]) <= 1.01 * max_norm,
        ),
    )
    seen.that(
        near(seen["weights"], weights, tolerance),
        "The norms are right, but the weights are not those of plain float32 training.",
        *named,
    )


# %% check="accumulate-and-clip" points=1
"""Norms and weights as in plain float32, scaled or not."""
with check("accumulate-and-clip") as test:
    test("6 micro-batches, groups of 3, scaler enabled: norms and weights as in plain float32")
    pairs = data(6)
    right = by_hand(pairs, 3, 0.8)
    wrongs = usual(pairs, 3, 0.8)
    seen = observe_scenario(trained, train_accumulated, 6, 3, 0.8, {})
    judge(seen, right, 0.8, *wrongs)
    seen.that(seen["steps"] == 2, f"There must be one step per group; there were {seen['steps']} steps.")

    test("the same with a scaler that is switched off, and a max_norm that nothing reaches")
    right = by_hand(pairs, 3, 100.0)
    seen = observe_scenario(trained, train_accumulated, 6, 3, 100.0, {"enabled": False})
    judge(seen, right, 100.0, *usual(pairs, 3, 100.0))


# %% check="accumulate-and-clip" points=1
"""A shorter last group, old gradients, an overflow, autocast."""
with check("accumulate-and-clip") as test:
    last_group = "The last, shorter group was dropped, or divided by accum instead of its own size."
    test("the last group is shorter")
    for count, accum, switched in ((5, 3, True), (5, 2, False)):
        pairs = data(count)
        right = by_hand(pairs, accum, 0.8)
        wrongs = [(last_group, partial(by_hand, pairs, accum, 0.8, divide=accum))]
        seen = observe_scenario(trained, train_accumulated, count, accum, 0.8, {"enabled": switched})
        fewer = partial(lambda groups, seen: seen["steps"] < groups, len(right[0]))
        seen.expecting(mistake(last_group, when=fewer))
        judge(seen, right, 0.8, *wrongs, *usual(pairs, accum, 0.8))

    ### BEGIN HIDDEN TESTS
    test.hidden("gradients left from before do not leak in")
    pairs = data(4)
    right = by_hand(pairs, 2, 0.8)
    for old, switched in ((3.0, False), (-2.0e5, True)):
        wrongs = [
            (stale, partial(by_hand, pairs, 2, 0.8, old=old / 65536 if switched else old)),
            (stale, partial(by_hand, pairs, 2, 0.8, old=old / 65536 if switched else old, keep=True)),
        ]
        seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"old": old, "enabled": switched})
        judge(seen, right, 0.8, *wrongs, *usual(pairs, 2, 0.8))

    test.hidden("the gradients of a group overflow")
    overflow = "An overflowing group must be skipped by scaler.step and must not end the run or touch the weights."
    for broken, kept in ((1, 1), (2, 0)):
        seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"broken": broken})
        seen.expecting(mistake(overflow, when=lambda seen: bool(seen.error_text)))
        judge_kinds(seen, 2)
        pairs = data(4)
        norms, weights = by_hand(pairs[2:] if kept else pairs[:2], 2, 0.8)
        seen.that(seen["weights"].isfinite().all(), overflow)
        seen.that(not math.isfinite(seen["norms"][1 - kept]), "The norm of a group that overflows is inf or nan.")
        seen.that(near([seen["norms"][kept]], norms), "The group that does not overflow has the wrong norm.")
        seen.that(near(seen["weights"], weights), overflow)
        seen.that(seen["scale"] == 32768.0, "After one overflow the scale must have been halved, once.")

    test.hidden("under bfloat16 autocast")
    right = by_hand(data(4), 2, 0.8, low=True)
    seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"low": True})
    forward = "The forward pass and the loss must run under autocast()."
    seen.expecting(mistake(forward, raises="Found dtype"))
    judge_kinds(seen, 2)
    seen.that(all(seen["on"]) and all(seen["lossy"]), forward, stage="rule")
    stale_copies = (
        "A later forward used the weights of before the step: autocast keeps its copies of them until the outermost "
        "region ends. Open a region for every forward, and step outside of it."
    )
    judge(seen, right, 0.8, (stale_copies, partial(by_hand, data(4), 2, 0.8, low=True, around=True)), tolerance=0.02)

    test.hidden("groups of one; one group of all")
    for accum in (1, 5):
        seen = observe_scenario(trained, train_accumulated, 3, accum, 0.8, {})
        seen.expecting(mistake(last_group, when=lambda seen: not seen["norms"]))
        wrong = partial(by_hand, data(3), accum, 0.8, divide=accum)
        judge(seen, by_hand(data(3), accum, 0.8), 0.8, (last_group, wrong), *usual(data(3), accum, 0.8))

    test.hidden("a group whose gradient is 0")
    pairs = data(4, reached=2)
    seen = observe_scenario(trained, train_accumulated, 4, 2, 0.8, {"reached": 2})
    by_zero = "The gradient of the first group is 0, and you divided by its norm. Its norm is 0 and the weights stay."
    seen.expecting(mistake(by_zero, raises="ZeroDivisionError"))
    judge_kinds(seen, 2)
    seen.that(seen["weights"].isfinite().all(), by_zero)
    judge(seen, by_hand(pairs, 2, 0.8), 0.8, *usual(pairs, 2, 0.8))
    ### END HIDDEN TESTS
