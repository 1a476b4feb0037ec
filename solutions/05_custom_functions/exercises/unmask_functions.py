# %% [markdown]
# ### Exercise 5.3 · Four faulty Functions that gradcheck has passed
#
# implement · solid · 25 min · 3 points
#
# Each of these four Functions passed the single call of gradcheck in its row, and each is wrong.
#
# | Function | what it should be | the call that it passed |
# |---|---|---|
# | `cube` | x³, differentiable twice | `gradcheck(cube, x)`, x a single 1.5 |
# | `add_bias` | x + b, for x (N, D) and b (D,) | `gradcheck(add_bias, (x, b))`, x of one row |
# | `gelu` | x · Φ(x), the exact one | `gradcheck(gelu, x)`, x a single 3.0 |
# | `product` | a · b, for equal shapes | `gradcheck(product, (a, b))`, both require grad |
#
# Write the tests that would have caught them.
#
# **Contract**
#
# - `unmask_cube`, `unmask_add_bias`, `unmask_gelu` and `unmask_product` each get a function of that kind and return
#   True if it is right. If it is wrong they return False, or let the error of gradcheck or gradgradcheck through.
# - The mistakes: a `cube` whose first derivative is right and whose second is lost. An `add_bias` whose gradient of b
#   is the mean, the first or the last row in place of the sum. A `gelu` whose gradient is off by 0.0002 to 0.01, on a
#   stretch of 0.25 or more somewhere between -3 and 3. A `product` with wrong gradients where only a, or only b,
#   requires grad.
# - You choose the inputs, the options and the number of calls. The functions accept float32 and float64.
# - The verdict is the same for all states of the random number generators, and even if the caller has switched
#   recording off with `torch.no_grad()`.
#
# **Rule.** Only gradcheck and gradgradcheck judge: your own lines compare no gradients and run no backward pass. The
# check sees a backward pass that you run outside of gradcheck, but not what you compare, so please keep to the rule
# there.
#
# <details><summary>Hint 1</summary>
#
# What does each of the four calls not test? Think of a derivative, a row, most places, a case. And what would gradcheck
# still call equal?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For `cube` you need another function, for `add_bias` several rows, for `product` three calls that differ in which of
# the two requires grad. For `gelu`, use a fine grid from -3 to 3 and less tolerance: in float64 the difference quotient
# of such functions is right to about eight digits after the point.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# There is a separate check for second derivatives; give it a point away from 0. For `gelu`, a grid with steps of 0.1
# hits every faulty stretch, and the tolerances must be far below 0.0002 but not below what the quotient can do. You
# don't need random inputs anywhere. And if the caller has switched recording off, your tests must switch it on again
# for themselves.
#
# </details>


# %% answer="unmask-functions"
### BEGIN SOLUTION
def unmask_cube(function: Callable[[Tensor], Tensor]) -> bool:
    """Whether this x -> x**3 is right, including its second derivative."""
    x = torch.tensor([-1.3, 0.4, 2.1], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, x) and gradgradcheck(function, x)


def unmask_add_bias(function: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether this (x, b) -> x + b is right, for x (N, D) and b (D,)."""
    x = torch.arange(12, dtype=torch.float64).reshape(4, 3).requires_grad_()
    b = torch.tensor([0.3, -1.1, 2.0], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, (x, b), raise_exception=False)


def unmask_gelu(function: Callable[[Tensor], Tensor]) -> bool:
    """Whether this x -> x * Phi(x) is right from -3 to 3, to more digits than gradcheck's."""
    x = torch.linspace(-3, 3, 61, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, x, atol=1e-7, rtol=1e-7, raise_exception=False)


def unmask_product(function: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether this (a, b) -> a * b is right, whichever of the two requires grad."""
    a, b = torch.tensor([[0.5, -1.3], [2.2, 0.7]], dtype=torch.float64)
    with torch.enable_grad():
        for of_a, of_b in ((True, True), (True, False), (False, True)):
            pair = a.clone().requires_grad_(of_a), b.clone().requires_grad_(of_b)
            if not gradcheck(function, pair, raise_exception=False):
                return False
    return True


### END SOLUTION
### BEGIN GIVEN
# def unmask_cube(function: Callable[[Tensor], Tensor]) -> bool:
#     """Whether this x -> x**3 is right, including its second derivative."""
#     raise NotImplementedError  # your code here
#
#
# def unmask_add_bias(function: Callable[[Tensor, Tensor], Tensor]) -> bool:
#     """Whether this (x, b) -> x + b is right, for x (N, D) and b (D,)."""
#     raise NotImplementedError  # your code here
#
#
# def unmask_gelu(function: Callable[[Tensor], Tensor]) -> bool:
#     """Whether this x -> x * Phi(x) is right from -3 to 3, to more digits than gradcheck's."""
#     raise NotImplementedError  # your code here
#
#
# def unmask_product(function: Callable[[Tensor, Tensor], Tensor]) -> bool:
#     """Whether this (a, b) -> a * b is right, whichever of the two requires grad."""
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="unmask-functions"
def made(forward, backward):
    """A function with this forward and this backward(ctx, g, *inputs)."""

    class Made(Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(ctx, g, *ctx.saved_tensors)

    return Made.apply


def slope_of_gelu(x):
    """The derivative of x * Phi(x)."""
    return (1 + torch.erf(x / math.sqrt(2))) / 2 + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def sum_of_inputs(x, b):
    """The forward of add_bias."""
    return x + b


def product_of_inputs(a, b):
    """The forward of product."""
    return a * b


def examined(unmask, function):
    """Give a function to a test: what does it say, what has gradcheck asked for, and did other lines differentiate?"""
    asked, others, here = [], [], inspect.currentframe()

    def watch_backward(made):
        """A node that is called by hand runs no hooks, but its Function's backward."""
        backward = made.backward

        def watched_backward(ctx, g):
            if "gradcheck" not in frames_of_gradcheck():
                others.append("backward")
            return backward(ctx, g)

        made.backward = staticmethod(watched_backward)

    def frames_of_gradcheck():
        found, frame = {}, inspect.currentframe()
        while frame is not None and frame is not here:
            if frame.f_code.co_filename == gradcheck.__code__.co_filename:
                found[frame.f_code.co_name] = frame.f_locals
            frame = frame.f_back
        return found

    def watched(*inputs):
        frames = frames_of_gradcheck()
        out = function(*inputs)
        if "gradcheck" in frames:
            call = {
                "twice": "gradgradcheck" in frames,
                "tolerance": float(max(frames["gradcheck"]["atol"], frames["gradcheck"]["rtol"])),
                "single": any(t.dtype == torch.float32 for t in inputs),
                "tracked": [t.requires_grad for t in inputs],
                "shape": list(inputs[0].shape),
                "reach": [round(t.item(), 2) for t in inputs[0].detach().aminmax()]
                if inputs[0].numel()
                else [0.0, 0.0],
            }
            if call not in asked:
                asked.append(call)
        if out.requires_grad:
            out.register_hook(lambda g: None if "gradcheck" in frames_of_gradcheck() else others.append("backward"))
        return out

    if isinstance(getattr(function, "__self__", None), type):
        watch_backward(function.__self__)
    said, error = None, ""
    with noting_events() as events:
        try:
            said = unmask(watched)
        except NotImplementedError:
            raise
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}".partition("\n")[0]
    facts = {"said": said, "error": error, "asked": asked, "others": len(others)}
    return facts | {"elsewhere": bool(events.processes)}


def stays_away_from_gradients(seen):
    """Judge that gradcheck or gradgradcheck was asked, and that nothing else differentiated."""
    error = f" It raised {seen['error']}." if seen["error"] else ""
    seen.that(bool(seen["asked"]), f"You did not call `gradcheck`: only gradcheck and gradgradcheck judge.{error}")
    seen.that(
        not seen["others"],
        "Only gradcheck and gradgradcheck judge: lines of your own ran a backward pass through the Function.",
        stage="rule",
    )
    in_process = (
        "Only gradcheck and gradgradcheck judge: leave other processes alone, nobody sees what they differentiate."
    )
    seen.that(not seen["elsewhere"], in_process, stage="rule")


def passes(seen, kind):
    """Judge that a right function was accepted."""
    stays_away_from_gradients(seen)
    calls = seen["asked"]
    found = f" ({seen['error']})" if seen["error"] else ""
    refused = mistake(
        "A right Function was refused: finite differences need float64; in float32 a step of eps=1e-6 is lost in "
        "rounding.",
        when=lambda seen: any(call["single"] for call in calls),
    )
    strict = mistake(
        "A right Function was refused: no difference quotient meets tolerances as strict as these.",
        when=lambda seen: min(call["tolerance"] for call in calls) < 1e-9,
    )
    nothing = mistake("Nothing came back: is a `return` missing?", when=lambda seen: seen["said"] is None and not found)
    right = seen["said"] is True
    seen.that(right, f"{kind}: a right Function must give True, this one was refused{found}.", refused, strict, nothing)


def is_unmasked(seen, kind, *mistakes):
    """Judge that a faulty function was refused: False, or an error."""
    stays_away_from_gradients(seen)
    nothing = mistake("Nothing came back: is a `return` missing?", when=lambda seen: seen["said"] is None)
    refused = seen["said"] is False or bool(seen["error"])
    seen.that(refused, f"{kind}: a faulty Function passes your test.", *mistakes, nothing)


once_only = mistake(
    "cube: the first derivative is right. Only gradgradcheck looks at the second.",
    when=lambda seen: seen["said"] is True and not any(call["twice"] for call in seen["asked"]),
)
one_row = mistake(
    "add_bias: with one row, a sum over the rows is the same as the first row or the mean. Use several rows.",
    when=lambda seen: seen["said"] is True and all(call["shape"][:1] == [1] for call in seen["asked"]),
)
at_zero = mistake(
    "cube: at x = 0 the second derivative is 0 anyway, so a lost one looks the same. Test elsewhere.",
    when=lambda seen: seen["said"] is True and all(call["reach"] == [0, 0] for call in seen["asked"] if call["twice"]),
)
too_tolerant = mistake(
    "gelu: the gradient is off by so little that your tolerance lets it pass (by default rtol is 1e-3). Use smaller "
    "tolerances.",
    when=lambda seen: seen["said"] is True and min(call["tolerance"] for call in seen["asked"]) > 1e-4,
)
elsewhere = mistake(
    "gelu: the gradient is off at places that you didn't test. Test many, from -3 to 3.",
    when=lambda seen: (
        seen["said"] is True
        and (
            max(math.prod(call["shape"]) for call in seen["asked"]) < 24
            or min(call["reach"][0] for call in seen["asked"]) > -2.8
            or max(call["reach"][1] for call in seen["asked"]) < 2.8
        )
    ),
)
never_alone = mistake(
    "product: the mistake shows only if one of the inputs does not require grad. Also test each input alone.",
    when=lambda seen: (
        seen["said"] is True
        and not all(alone in [call["tracked"] for call in seen["asked"]] for alone in ([True, False], [False, True]))
    ),
)


# %% check="unmask-functions" points=1
"""cube and add_bias: the faulty ones are found, the right ones pass."""
with check("unmask-functions") as test:

    def on_cube(unmask_cube, backward):
        """Give unmask_cube a Function for x**3 with this backward."""
        if backward == "saves the derivative, ready-made":

            class Made(Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(3 * x**2)
                    return x**3

                @staticmethod
                def backward(ctx, g):
                    return g * ctx.saved_tensors[0]

            return examined(unmask_cube, Made.apply)
        return examined(unmask_cube, made(lambda x: x**3, lambda ctx, g, x: g * 3 * x**2))

    test("cube: a Function that saves its derivative ready-made; then one that saves x")
    is_unmasked(observe_scenario(on_cube, unmask_cube, "saves the derivative, ready-made"), "cube", once_only, at_zero)
    passes(observe_scenario(on_cube, unmask_cube, "saves x"), "cube")

    def on_add_bias(unmask_add_bias, of_b):
        """Give unmask_add_bias a Function for x + b with this gradient of b."""
        sums = {"the sum": lambda g: g.sum(0), "the mean": lambda g: g.mean(0), "the first row": lambda g: g[0]}
        return examined(unmask_add_bias, made(sum_of_inputs, lambda ctx, g, x, b: (g, sums[of_b](g))))

    test("add_bias: gradients of b that are the sum over the rows, their mean, the first row")
    passes(observe_scenario(on_add_bias, unmask_add_bias, "the sum"), "add_bias")
    for wrong in ("the mean", "the first row"):
        is_unmasked(observe_scenario(on_add_bias, unmask_add_bias, wrong), "add_bias", one_row)

# %% check="unmask-functions" points=1
"""gelu and product: the faulty ones are found, the right ones pass."""
with check("unmask-functions") as test:

    def slope_of_tanh_gelu(x):
        """The derivative of GELU's approximation by tanh."""
        t = torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        return (1 + t) / 2 + x / 2 * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)

    def on_gelu(unmask_gelu, slope):
        """Give unmask_gelu a Function for x * Phi(x) with this gradient."""
        slopes = {
            "exact": slope_of_gelu,
            "that of the approximation by tanh": slope_of_tanh_gelu,
            "0.05 % too large": lambda x: 1.0005 * slope_of_gelu(x),
        }
        return examined(unmask_gelu, made(F.gelu, lambda ctx, g, x: g * slopes[slope](x)))

    test("gelu: a gradient 0.05 % too large, the exact one, and that of the approximation by tanh")
    is_unmasked(observe_scenario(on_gelu, unmask_gelu, "0.05 % too large"), "gelu", too_tolerant, elsewhere)
    passes(observe_scenario(on_gelu, unmask_gelu, "exact"), "gelu")
    tanh = "that of the approximation by tanh"
    is_unmasked(observe_scenario(on_gelu, unmask_gelu, tanh), "gelu", too_tolerant, elsewhere)

    def on_product(unmask_product, wrong_where):
        """Give unmask_product a Function for a * b; where are its gradients wrong?"""

        def backward(ctx, g, a, b):
            both = list(ctx.needs_input_grad) == [True, True]
            of_a = a if wrong_where == "only a requires grad" and not both else b
            of_b = b if wrong_where == "only b requires grad" and not both else a
            return g * of_a, g * of_b

        return examined(unmask_product, made(product_of_inputs, backward))

    test("product: right ones, and such with wrong gradients where only a, or only b, requires grad")
    passes(observe_scenario(on_product, unmask_product, "nowhere"), "product")
    for wrong_where in ("only b requires grad", "only a requires grad"):
        is_unmasked(observe_scenario(on_product, unmask_product, wrong_where), "product", never_alone)

# %% check="unmask-functions" points=1
"""Other faults and other right functions; any random state; in the caller's no_grad."""
with check("unmask-functions") as test:

    def on_torchs_own(unmask, kind):
        """Give a test torch's own operations, which are right: x**3, x + b, F.gelu or a * b."""
        functions = {"cube": lambda x: x**3, "add_bias": sum_of_inputs, "gelu": F.gelu, "product": product_of_inputs}
        return examined(unmask, functions[kind])

    test("torch's own x**3, x + b, F.gelu(x) and a * b are right")
    passes(observe_scenario(on_torchs_own, unmask_cube, "cube"), "cube")
    passes(observe_scenario(on_torchs_own, unmask_add_bias, "add_bias"), "add_bias")
    passes(observe_scenario(on_torchs_own, unmask_gelu, "gelu"), "gelu")
    passes(observe_scenario(on_torchs_own, unmask_product, "product"), "product")

    ### BEGIN HIDDEN TESTS
    def on_another(unmask, kind, which, seed):
        """Give a test another function of its kind."""
        torch.default_generator.manual_seed(seed)

        def detached(ctx, g, x):
            return g * 3 * x.detach() ** 2

        def with_bump(center):
            size = 2e-4 if which.endswith("barely") else 5e-4
            return lambda ctx, g, x: g * (slope_of_gelu(x) + size * ((x - center).abs() < 0.13))

        def by_need(ctx, g, a, b):
            needs_a, needs_b = ctx.needs_input_grad
            return g * b if needs_a else None, g * a if needs_b else None

        def halved(ctx, g, a, b):
            return g * b, g * a * (1.0 if ctx.needs_input_grad[0] else 0.5)

        functions = {
            "cube, right": lambda: lambda x: x * x * x,
            "cube, detached": lambda: made(lambda x: x**3, detached),
            "cube, once": lambda: made(lambda x: x**3, once_differentiable(lambda ctx, g, x: g * 3 * x**2)),
            "add_bias, right": lambda: made(sum_of_inputs, lambda ctx, g, x, b: (g, g)),
            "add_bias, last row": lambda: made(sum_of_inputs, lambda ctx, g, x, b: (g, g[-1])),
            "product, right": lambda: made(product_of_inputs, by_need),
            "product, halved": lambda: made(product_of_inputs, halved),
        }
        if kind == "gelu":
            return examined(unmask, made(F.gelu, with_bump(float(which.partition(",")[0]))))
        return examined(unmask, functions[f"{kind}, {which}"]())

    test.hidden("other faults of the same kind, other right functions, some random states")
    for seed in (0, 20):
        passes(observe_scenario(on_another, unmask_cube, "cube", "right", seed), "cube")
        for which in ("detached", "once"):
            is_unmasked(observe_scenario(on_another, unmask_cube, "cube", which, seed), "cube", once_only, at_zero)
        passes(observe_scenario(on_another, unmask_add_bias, "add_bias", "right", seed), "add_bias")
        is_unmasked(observe_scenario(on_another, unmask_add_bias, "add_bias", "last row", seed), "add_bias", one_row)
        passes(observe_scenario(on_another, unmask_product, "product", "right", seed), "product")
        seen = observe_scenario(on_another, unmask_product, "product", "halved", seed)
        is_unmasked(seen, "product", never_alone)
    for seed, center in enumerate(("-2.42", "0.04", "2.83")):
        seen = observe_scenario(on_another, unmask_gelu, "gelu", center, seed)
        is_unmasked(seen, "gelu", too_tolerant, elsewhere)

    test.hidden("gelu: the gradient is off by 0.0002 around 1.4, where it is above 1")
    barely_tolerant = mistake(
        "gelu: the gradient is off by 0.0002 where it is above 1, and your tolerance lets that pass: atol and rtol "
        "times the gradient are added up. Use smaller tolerances.",
        when=lambda seen: seen["said"] is True and min(call["tolerance"] for call in seen["asked"]) > 5e-5,
    )
    seen = observe_scenario(on_another, unmask_gelu, "gelu", "1.4, barely", 0)
    is_unmasked(seen, "gelu", too_tolerant, barely_tolerant, elsewhere)

    test.hidden("gelu: the gradient is off on a stretch of 0.26, at many places in turn")
    between = mistake(
        "gelu: the gradient is off on a stretch of 0.25, and none of the places that you tested is in it. Test "
        "places that are closer together.",
        when=lambda seen: seen["said"] is True,
    )
    for place in range(12):
        seen = observe_scenario(on_another, unmask_gelu, "gelu", f"{-2.85 + 0.479 * place:.3f}", place)
        is_unmasked(seen, "gelu", too_tolerant, elsewhere, between)

    def without_recording(unmask, kind):
        """The same under torch.no_grad."""
        with torch.no_grad():
            return on_torchs_own(unmask, kind)

    def changes(seen):
        """Judge the verdict on a right function in the caller's no_grad."""
        seen.that(seen["said"] is True, "In the caller's no_grad the verdict changes: use torch.enable_grad().")

    test.hidden("in the caller's no_grad")
    changes(observe_scenario(without_recording, unmask_cube, "cube"))
    changes(observe_scenario(without_recording, unmask_add_bias, "add_bias"))
    changes(observe_scenario(without_recording, unmask_gelu, "gelu"))
    changes(observe_scenario(without_recording, unmask_product, "product"))
    ### END HIDDEN TESTS
