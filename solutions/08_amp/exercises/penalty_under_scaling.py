# %% [markdown]
# ### Exercise 8.9 · A gradient penalty under loss scaling
#
# implement · long · 25 min · 2 points
#
# A gradient penalty uses the gradient before the step does, and differentiates it once more. Under loss scaling you
# have to be careful twice: what `torch.autograd.grad` returns is scaled, and it belongs to no optimizer.
#
# **Contract**
#
# - `penalised_step` makes one training step on `mse + lam * |g|`: mse is `F.mse_loss(model(x), y)`, g is its gradient
#   with respect to all parameters together, and `|g|` is the L2 norm of g. The penalty itself is differentiated (double
#   backward).
# - It returns `(mse, |g|)`, two floats: true, unscaled numbers.
# - With the scaler enabled or disabled the step is the same up to rounding. Gradients left over from before don't leak
#   in, and the next call also works.
# - The forward pass runs under `autocast()`, called anew for every region; `autograd.grad` and `backward` do not. You
#   may compute the loss and the penalty inside or outside the region, in the precision that they get there.
# - With an enabled scaler: if g is not finite, the optimizer's step is skipped and the scale shrinks.
# - You may assume that all parameters of the model require grad and are in the optimizer, and that g is not 0. But
#   `|g|` may be as small as 1e-6, and the part of one parameter may be 0.
#
# **Rule.** The first gradient is taken of the SCALED loss (so that it does not underflow in float16) and unscaled by
# hand. The check records what flows back.
#
# <details><summary>Hint 1</summary>
#
# Which optimizer do the tensors returned by `autograd.grad` belong to, and so, will `unscale_` ever see them? What must
# `autograd.grad` keep so that its result can be differentiated again?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `create_graph=True` lets you differentiate what `autograd.grad` returns. It is scaled: which number makes it true
# again? And which sum is then scaled and sent backward?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scale the loss, take its gradients with a graph, and divide each of them by the current scale. From these compute the
# norm and the sum of loss and penalty. That sum is what you scale for the real backward; step and update follow as
# usual.
#
# </details>


# %% answer="penalty-under-scaling"
def penalised_step(
    model: nn.Module,
    optimizer: Optimizer,
    scaler: torch.amp.GradScaler,
    x: Tensor,
    y: Tensor,
    lam: float,
    autocast: Callable[[], AbstractContextManager],
) -> tuple[float, float]:
    """One step on mse + lam * |g|; returns (mse, |g|). x: (B, D), y like model(x)."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    with autocast():
        norm = torch.cat([(g / scaler.get_scale()).flatten() for g in scaled]).norm()
        total = mse + lam * norm
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()
    ### END SOLUTION


# %% helpers="penalty-under-scaling"
class PlainSGD(Optimizer):
    """SGD and nothing else: weights minus lr times gradient."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    def add_param_group(self, group):
        self.param_groups.append(self.defaults | group)

    def parameters(self):
        return [p for group in self.param_groups for p in group["params"]]

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else torch.zeros_like(p.grad)

    def step(self, closure=None):
        with torch.no_grad():
            for p in self.parameters():
                if p.grad is not None:
                    p -= self.defaults["lr"] * p.grad


class OnlyOnce(torch.autocast):
    """A region that can be entered once, as those of a generator are."""

    used = False

    def __enter__(self):
        if self.used:
            raise RuntimeError("what autocast() returned was entered twice")
        self.used = True
        return super().__enter__()


def small_net():
    """Two Linear layers with fixed weights."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with torch.no_grad():
        for shift, p in enumerate(net.parameters()):
            p.copy_((torch.arange(p.numel()) * 7 % 11 / 8 + shift / 16 - 0.6).reshape(p.shape))
    return net


def weights_of(net):
    """All weights in one vector."""
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def unrecorded(answer, *args):
    """What an answer returns, without a record of every operation: that would cost more than the operations."""
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        return answer(*args)


def stepped(penalised_step, x, y, lam, options):
    """One step or two; note the numbers, the weights, the scale, and what flowed into the model's output."""
    net, forward, backward = small_net(), [], []

    def watch(module, args, out):
        forward.append([torch.is_autocast_enabled("cpu"), str(out.dtype)])
        if out.requires_grad:
            out.register_hook(
                lambda g: backward.append([torch.is_autocast_enabled("cpu"), g.detach().double().norm().item()])
            )

    net.register_forward_hook(watch)
    optimizer = PlainSGD(net.parameters(), 0.25)
    scaler = torch.amp.GradScaler("cpu", init_scale=options.get("scale", 65536.0), enabled=options.get("enabled", True))
    for p in net.parameters():
        p.grad = torch.full_like(p, options["old"]) if "old" in options else None

    def autocast():
        return OnlyOnce("cpu", torch.bfloat16) if options.get("low") else nullcontext()

    numbers = []
    for _ in range(options.get("calls", 1)):
        numbers.append(unrecorded(penalised_step, net, optimizer, scaler, x, y, lam, autocast))
    last = numbers[-1]
    pair = isinstance(last, (tuple, list)) and len(last) == 2
    facts = {"kinds": [type(n).__name__ for n in last] if pair else [type(last).__name__], "numbers": numbers}
    facts |= {"forward": forward, "backward": backward, "scale": scaler.get_scale()}
    return facts | {"weights": weights_of(net)}


def by_hand(x, y, lam, calls=1, low=False, old=0.0, constant=False, each=False, power=1):
    """(mse, |g|, weights, norm of the gradient of the output) of plain training; options are misconceptions."""
    net = small_net()
    parameters = list(net.parameters())
    for _ in range(calls):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            out = net(x)
            mse = (out - y).square().mean()
        grads = torch.autograd.grad(mse, parameters, create_graph=True)
        squares = [g.square().sum() for g in grads]
        norm = sum(s.sqrt() for s in squares) if each else sum(squares).sqrt() ** power
        total = mse + lam * (norm.detach() if constant else norm)
        flowed = (2 * (out.detach() - y) / out.numel()).norm().item()
        with torch.no_grad():
            for p, g in zip(parameters, torch.autograd.grad(total, parameters), strict=True):
                p -= 0.25 * (g + old)
    return mse.item(), norm.item(), weights_of(net), flowed


def near(a, b, tolerance=1e-4):
    """Whether two numbers or vectors agree."""
    a, b = (torch.as_tensor(v, dtype=torch.float64) for v in (a, b))
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance / 10)


not_unscaled = (
    "|g| is {times} times too large: the gradients from autograd.grad are still scaled. Divide by scaler.get_scale()."
)
no_graph = (
    "autograd.grad without create_graph=True returns constants and frees the graph: then backward fails with "
    "'Trying to backward through the graph a second time'."
)
no_effect = (
    "The penalty has no effect on the update: |g| is a constant there, or is missing. autograd.grad needs "
    "create_graph=True, and |g| must be computed from its result with grad mode on."
)
squared = (
    "|g| is the norm over all parameters together: the root of the summed squares, not the sum of the norms, nor "
    "the square."
)
double_scale = (
    "The step is far too small or too large: the scale was applied, or divided out, twice or not at all. "
    "Call scale(total).backward() once, with an unscaled |g|; then scaler.step, and only then scaler.update."
)
returned = "Return (mse, |g|) as unscaled Python floats."
known = [
    mistake(no_graph, raises="second time|does not require grad"),
    mistake(
        "scaler.update() belongs at the end of every step, once, after scaler.step: {detail}.",
        raises=r"No inf checks|has already been called|is being called after step",
    ),
    mistake(
        "You entered twice what one call of autocast() returned, and it may be good for one use only: call autocast() "
        "for every region.",
        raises="autocast.. returned was entered twice",
    ),
]


def judge(seen, x, y, lam, *mistakes, told=False, tolerance=1e-4, scale=65536.0, **options):
    """The two numbers, then the step."""
    mse, norm, weights, _ = by_hand(x, y, lam, **options)
    seen.expecting(*known)
    nothing = seen["kinds"] == ["NoneType"]
    words = "nothing came back, is a `return` missing?" if nothing else f"{' and '.join(seen['kinds'])}."
    seen.that(
        seen["kinds"] in (["float", "float"], ["int", "float"], ["float", "int"]),
        f"{returned} Yours: {words}",
        stage="type",
    )
    came_mse, came_norm = seen["numbers"][-1]
    seen.that(
        near(came_norm, norm, tolerance),
        "The returned |g| is wrong" + (f": expected {norm:.5g}, got {came_norm:.5g}." if told else "."),
        *mistakes,
        mistake(
            not_unscaled.replace("{times}", f"{scale:g}"),
            when=lambda seen: near(came_norm, scale * norm, tolerance),
        ),
        mistake(
            squared, when=lambda seen: near(came_norm, norm**2) or near(came_norm, by_hand(x, y, 0.0, each=True)[1])
        ),
        mistake(
            "The scale was divided out twice, or out of a gradient that was never scaled.",
            when=lambda seen: near(came_norm * scale, norm) and scale > 1,
        ),
    )
    total = mse + lam * norm
    seen.that(
        near(came_mse, mse, tolerance),
        f"{returned} The first one is wrong" + (f": expected {mse:.5g}, got {came_mse:.5g}." if told else "."),
        *mistakes,
        mistake(
            returned + " Yours is still scaled.",
            when=lambda seen: near(came_mse, scale * mse) or near(came_mse, scale * total),
        ),
        mistake("The first number must be the mse alone, without the penalty.", when=lambda s: near(came_mse, total)),
    )
    start = weights_of(small_net())
    way = (seen["weights"].double() - start).norm() / (weights - start).norm()
    seen.that(
        near(seen["weights"], weights, tolerance),
        "The numbers are right, but the weights are not those of a step on mse + lam * |g|.",
        *mistakes,
        mistake("The weights did not move: no step was made.", when=lambda seen: way == 0),
        mistake(double_scale, when=lambda seen: way < 0.01 or way > 100 or not math.isfinite(way)),
        mistake(no_effect, when=lambda seen: near(seen["weights"], by_hand(x, y, lam, **options, constant=True)[2])),
        mistake(squared, when=lambda seen: near(seen["weights"], by_hand(x, y, lam, **options, power=2)[2])),
        mistake(squared, when=lambda seen: near(seen["weights"], by_hand(x, y, lam, **options, each=True)[2])),
    )


# %% check="penalty-under-scaling" points=1
"""The two numbers and the step, scaled or not."""
with check("penalty-under-scaling") as test:
    test("an enabled scaler: the numbers and the step are those of plain float32")
    some_x = (torch.arange(12.0) * 5 % 13 / 6 - 1).reshape(4, 3)
    some_y = (torch.arange(8.0) * 3 % 7 / 2 - 1.7).reshape(4, 2)
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {})
    judge(seen, some_x, some_y, 0.75, told=True)

    test("a disabled scaler: the same step")
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"enabled": False})
    judge(seen, some_x, some_y, 0.75, told=True, scale=1.0)


# %% check="penalty-under-scaling" points=1
"""The first gradient is scaled; overflow, autocast, old gradients, lam = 0."""
with check("penalty-under-scaling") as test:
    some_x = (torch.arange(12.0) * 5 % 13 / 6 - 1).reshape(4, 3)
    some_y = (torch.arange(8.0) * 3 % 7 / 2 - 1.7).reshape(4, 2)

    test("the first gradient is taken of the scaled loss")
    unscaled_first = (
        "The first gradient was taken from the unscaled loss: in float16 it underflows. Scale it, then unscale the "
        "result."
    )
    for scale in (65536.0, 1024.0):
        seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"scale": scale})
        judge(seen, some_x, some_y, 0.75, scale=scale)
        flowed = by_hand(some_x, some_y, 0.75)[3]
        first = seen["backward"][0][1] if seen["backward"] else 0.0
        seen.that(near(first, scale * flowed), unscaled_first, stage="rule")

    ### BEGIN HIDDEN TESTS
    grad_left = "Old contents of .grad leaked into the step: call zero_grad first."

    test.hidden("gradients left from before do not leak in")
    for old, switched in ((3.0, False), (2.0e5, True)):
        leak = old / 65536 if switched else old
        wrong = by_hand(some_x, some_y, 0.75, old=leak)[2]
        seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"old": old, "enabled": switched})
        as_left = mistake(grad_left, when=lambda seen, wrong=wrong: near(seen["weights"], wrong))
        judge(seen, some_x, some_y, 0.75, as_left)

    test.hidden("gradients that are not finite")
    no_skip = "If a gradient is not finite, the optimizer step must be skipped and the scale must shrink."
    for huge in (some_y * 1e36, some_y * math.inf):
        seen = observe_scenario(stepped, penalised_step, some_x, huge, 0.75, {})
        seen.expecting(*known, mistake(no_skip, when=lambda seen: bool(seen.error_text)))
        seen.that(torch.equal(seen["weights"], weights_of(small_net())), no_skip)
        seen.that(
            seen["scale"] == 32768.0,
            f"The step was skipped, as it must be, but the scale is {seen['scale']:g}: after one step that was skipped "
            "it must be halved, once.",
            mistake(
                "The step was skipped, as it must be, but the scale is what it was: scaler.update(), once, after "
                "scaler.step, shrinks it.",
                when=lambda seen: seen["scale"] == 65536.0,
            ),
        )

    test.hidden("under bfloat16 autocast")
    outside = "The forward pass must run under autocast(), and autograd.grad and backward outside of it."
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"low": True})
    seen.expecting(*known)
    seen.that(all(on and dtype == "torch.bfloat16" for on, dtype in seen["forward"]), outside, stage="rule")
    seen.that(not any(on for on, _ in seen["backward"]), outside, stage="rule")
    judge(seen, some_x, some_y, 0.75, tolerance=0.05, low=True)

    test.hidden("the gradient of one parameter is 0; a gradient of about 1e-6")
    root = (
        "x is 0, so the gradient of the first weight is 0, and no step was made. The root of 0 has an infinite slope, "
        "which makes nan of the gradient of the penalty: take one root, of the sum over all parameters, or use "
        "`torch.linalg.vector_norm`."
    )
    infinite = mistake(root, when=lambda seen: torch.equal(seen["weights"], weights_of(small_net())))
    seen = observe_scenario(stepped, penalised_step, 0 * some_x, some_y, 0.75, {})
    judge(seen, 0 * some_x, some_y, 0.75, infinite)
    near_y = small_net()(some_x).detach() + 4e-7
    seen = observe_scenario(stepped, penalised_step, some_x, near_y, 0.75, {})
    came, right = seen["numbers"][-1][1], by_hand(some_x, near_y, 0.75)[1]
    seen.that(
        abs(came - right) < 0.1 * right,
        "For a gradient of about 1e-6 the returned |g| is wrong.",
        mistake(
            "For a gradient of about 1e-6 the returned |g| is too large: a number that is added to the squares or to "
            "the root is no longer small there. g isn't 0, so leave it out.",
            when=lambda seen: came > right,
        ),
    )

    test.hidden("lam = 0; a second call")
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.0, {})
    judge(seen, some_x, some_y, 0.0)
    seen = observe_scenario(stepped, penalised_step, some_x, some_y, 0.75, {"calls": 3})
    judge(seen, some_x, some_y, 0.75, calls=3)
    ### END HIDDEN TESTS
