# %% [markdown]
# ### Exercise 8.5 · Your own LinearFn under autocast
#
# fix · solid · 15 min · 2 points
#
# Somebody used the LinearFn of Exercise 5.2 in a model, and ran the model under `torch.autocast("cpu",
# dtype=torch.bfloat16)`. It raises:
#
#     RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::BFloat16 != float
#
# Without autocast it is right. Fix it, so that it works in every region.
#
# **Contract**
#
# - `linear(x, weight, bias)` does what `F.linear` does for x (N, I), weight (O, I), bias (O,), in every region that
#   autocast supports on the CPU.
# - Under autocast in bfloat16 or float16, with float32 arguments, all three matrix products (one in forward, two in
#   backward) run in the lower precision, and the result has that dtype. x may already be in the lower precision, as the
#   output of the layer before is.
# - Without a region, or in a disabled region, everything runs in the dtype of the arguments. float64 is left alone
#   everywhere.
# - The gradients are right and have the dtypes of the tensors that they belong to. They don't depend on where you call
#   backward: outside the region, in a disabled region, or in another one that has not used the weight. Second
#   derivatives are not asked for.
# - x, weight and bias are not changed, and the autocast state of the caller is the same afterwards.
#
# **Rule.** The result comes from your own Function: its node is the `grad_fn` of what you return.
#
# <details><summary>Hint 1</summary>
#
# Which two tensors are multiplied in the failing product, and which dtype does each have? Inside the region the same
# line would have worked: why?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Backward must run in the region of its forward. Either store that region in `ctx` and enter it again in backward, or
# let two decorators of `torch.amp` do both.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Section 8.4 shows the two decorators. The first stores the autocast state of the call, the second restores the same
# state for backward. Before you pass `cast_inputs`, ask what it does to the region that forward runs in.
#
# </details>


# %% answer="linear-under-autocast"
### BEGIN SOLUTION
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias, in the precision of the region in which it is called."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (N, I), weight (O, I), bias (O,); returns (N, O), through LinearFn."""
    return LinearFn.apply(x, weight, bias)


### END SOLUTION
### BEGIN GIVEN
# class LinearFn(torch.autograd.Function):
#     """x @ weight.T + bias, in the precision of the region in which it is called."""
#
#     @staticmethod
#     def forward(ctx, x, weight, bias):
#         ctx.save_for_backward(x, weight)
#         return torch.addmm(bias, x, weight.t())
#
#     @staticmethod
#     def backward(ctx, g):
#         x, weight = ctx.saved_tensors
#         return g @ weight, g.t() @ x, g.sum(0)
#
#
# def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
#     """x (N, I), weight (O, I), bias (O,); returns (N, O), through LinearFn."""
#     raise NotImplementedError  # fix LinearFn, then delete this line
#     return LinearFn.apply(x, weight, bias)
### END GIVEN


# %% helpers="linear-under-autocast"
class Products(TorchDispatchMode):
    """Notes the matrix products that run while it is on: [forward or backward, dtypes that go in and come out]."""

    def __init__(self):
        super().__init__()
        self.found, self.phase = [], "forward"

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "mkldnn_linear"):
            tensors = [a for a in [*args, out] if isinstance(a, Tensor)]
            self.found.append([self.phase, sorted({str(a.dtype)[6:] for a in tensors})])
        return out


def state():
    """Whether autocast is on, in which dtype, and whether it keeps copies."""
    dtype = str(torch.get_autocast_dtype("cpu"))
    return [torch.is_autocast_enabled("cpu"), dtype, torch.is_autocast_cache_enabled()]


def arguments(dtypes):
    """x (4, 3), weight (5, 3) and bias (5,) in these dtypes; they require grad."""
    x = (torch.arange(12.0) * 5 % 13 / 6 - 0.9).reshape(4, 3)
    weight = (torch.arange(15.0) * 7 % 17 / 8 - 1.1).reshape(5, 3)
    bias = torch.arange(5.0) * 3 % 7 / 4 - 0.7
    return [t.to(dtype).requires_grad_() for t, dtype in zip((x, weight, bias), dtypes, strict=True)]


def regions(settings):
    """The autocast regions with these settings, entered one inside the other."""
    stack = ExitStack()
    for each in settings:
        stack.enter_context(torch.autocast("cpu", **each))
    return stack


def told(linear, dtypes, around, later, others=None):
    """Call `linear` on x, weight and bias in the regions `around`, and backward in the regions `later`.

    others: unless None, another call comes first, with twice the weight, and one in these regions before backward.
    """
    given, products = arguments(dtypes), Products()
    before = [t.detach().clone() for t in given]
    if others is not None:
        given[1].data.mul_(2)
        with regions(around):
            linear(*given)
        given[1].data.div_(2)
    with regions(around):
        states = [state()]
        with products:
            out = linear(*given)
        states.append(state())
    if not isinstance(out, Tensor):
        return {"kind": type(out).__name__}
    facts = {"kind": "Tensor", "own": isinstance(out.grad_fn, torch.autograd.function.BackwardCFunction)}
    facts |= {"states": states, "out": out.detach().clone(), "products": products.found}
    if others is not None:
        with regions(others):
            linear(*arguments(dtypes))
    if out.requires_grad:
        products.phase = "backward"
        incoming = (torch.arange(out.numel()) % 3 - 0.75).reshape(out.shape).to(out.dtype)
        with regions(later), products:
            out.backward(incoming)
    facts["unchanged"] = all(torch.equal(a, b) for a, b in zip(before, given, strict=True))
    return facts | {"grads": [t.grad for t in given]}


def reference(dtypes, around):
    """The result and the gradients of F.linear, called in the regions `around`."""
    given = arguments(dtypes)
    with regions(around):
        out = F.linear(*given)
    out.backward((torch.arange(out.numel()) % 3 - 0.75).reshape(out.shape).to(out.dtype))
    return out.detach(), [t.grad for t in given]


def dtypes_in(seen, phase):
    """The dtypes that went into and came out of the products of a phase."""
    return {dtype for where, dtypes in seen["products"] if where == phase for dtype in dtypes}


not_tied = (
    "Backward runs outside the region, where nothing casts. g has the dtype of the result, the saved tensors are "
    "still float32."
)
half_tied = "custom_bwd needs what custom_fwd stores in ctx: also decorate forward."
not_lower = (
    "Forward no longer runs in the lower precision: casting all arguments to float32 (cast_inputs) or disabling "
    "autocast defeats the purpose of autocast."
)
backward_wide = (
    "The two products of backward run in float32: correct, but slow. Give backward the region "
    "of its forward (custom_bwd), or cast the saved tensors to g's dtype."
)
fixed_dtype = (
    "You fixed the dtype, but the right dtype is different in a float16 region, in a bfloat16 region and without a "
    "region."
)
promoted = (
    "bfloat16 + float32 gives float32: add the bias in the dtype of the product, so that the result keeps the lower "
    "precision."
)


def judge(seen, dtypes, around, *mistakes, backward_words=backward_wide):
    """The Function, the dtypes of all products and of the result; then values, gradients and what must stay."""
    expected, gradients = reference(dtypes, around)
    name = str(expected.dtype)[6:]
    seen.expecting(
        *mistakes,
        mistake(half_tied, raises="_fwd_used_autocast"),
        mistake(not_tied, raises="same dtype|same data type|Expected.*dtype"),
    )
    seen.that(
        seen["kind"] == "Tensor",
        "Nothing came back: is a `return` missing?" if seen["kind"] == "NoneType" else "linear must return a tensor.",
        stage="type",
    )
    seen.in_sight()
    seen.that(seen["own"], "Go through your own Function: its node must be the grad_fn of the result.", stage="rule")
    forward = dtypes_in(seen, "forward")
    odd = f"The product of forward must run in {name}; yours: {', '.join(sorted(forward)) or 'none'}."
    lower = mistake(not_lower, when=lambda seen: name in ("bfloat16", "float16") and forward == {"float32"})
    fixed = mistake(fixed_dtype, when=lambda seen: name != "float64")
    seen.that(forward == {name}, odd, lower, fixed, stage="dtype")
    wide = mistake(promoted, when=lambda seen: name in ("bfloat16", "float16"))
    seen.that(seen["out"].dtype == expected.dtype, f"The result must be {name}.", wide, stage="dtype")
    back = dtypes_in(seen, "backward")
    fixed = mistake(fixed_dtype, when=lambda seen: back == {"bfloat16"} and backward_words == backward_wide)
    seen.that(back == {name}, backward_words, fixed, stage="dtype")
    small = name in ("bfloat16", "float16")
    near = {"rtol": 0.05, "atol": 0.05} if small else {"rtol": 1e-5, "atol": 1e-6}
    same = seen["out"].shape == expected.shape and torch.allclose(seen["out"], expected, **near)
    seen.that(same, "The result is not that of F.linear.")
    for what, grad, right in zip(("x", "weight", "bias"), seen["grads"], gradients, strict=True):
        fine = grad is not None and grad.dtype == right.dtype and torch.allclose(grad, right, **near)
        seen.that(fine, f"The gradient of {what} is not that of F.linear.", stage="gradient")
    seen.that(seen["unchanged"], "x, weight or bias was changed.", stage="arguments")
    seen.that(seen["states"][0] == seen["states"][1], "The autocast state of the caller was changed.", stage="rule")


# %% check="linear-under-autocast" points=1
"""Under bfloat16 autocast; without a region; float64."""
with check("linear-under-autocast") as test:
    test("in a bfloat16 region, backward after it")
    plain, low = [torch.float32] * 3, [{"dtype": torch.bfloat16}]
    judge(observe_scenario(told, linear, plain, low, []), plain, low)

    test("without a region: all in float32, and in float64 as exact as that is")
    for dtypes in (plain, [torch.float64] * 3):
        judge(observe_scenario(told, linear, dtypes, [], []), dtypes, [])


# %% check="linear-under-autocast" points=1
"""Other regions, other dtypes, backward elsewhere."""
with check("linear-under-autocast") as test:
    plain, low = [torch.float32] * 3, [{"dtype": torch.bfloat16}]

    test("the case of the first check, then a float16 region")
    seen = observe_scenario(told, linear, plain, low, [])
    judge(seen, plain, low, FIRST_CHECK_FIRST)
    half = [{"dtype": torch.float16}]
    judge(observe_scenario(told, linear, plain, half, []), plain, half, mistake(fixed_dtype, when=lambda seen: True))

    ### BEGIN HIDDEN TESTS
    test.hidden("a disabled region inside another; float64 in a region")
    hole = [{"dtype": torch.bfloat16}, {"enabled": False}]
    judge(observe_scenario(told, linear, plain, hole, []), plain, hole, mistake(fixed_dtype, when=lambda seen: True))
    double = [torch.float64] * 3
    alone = mistake("float64 must be left alone.", when=lambda seen: True)
    judge(observe_scenario(told, linear, double, low, []), double, low, alone)

    test.hidden("backward in a region: the same, another one, a disabled one")
    elsewhere = (
        "The gradients depend on the region in which backward is called: it must follow forward's region, not the "
        "caller's."
    )
    for later in (low, half, [{"dtype": torch.bfloat16}, {"enabled": False}]):
        seen = observe_scenario(told, linear, plain, low, later)
        judge(seen, plain, low, mistake(elsewhere, raises="dtype|data type"), backward_words=elsewhere)
    seen = observe_scenario(told, linear, plain, [], low)
    judge(seen, plain, [], mistake(elsewhere, raises="dtype|data type"), backward_words=elsewhere)

    test.hidden("x comes in bfloat16, from a layer before")
    mixed = [torch.bfloat16, torch.float32, torch.float32]
    judge(observe_scenario(told, linear, mixed, low, []), mixed, low)

    test.hidden("other calls before this one, and between its forward and its backward")
    kept_copy = mistake(
        "`linear` was called before, when the weight had other numbers, and the result still uses those. A copy that "
        "you keep from call to call doesn't notice every change of its weight: cast the weight anew in every call.",
        stage="value",
    )
    kept_region = (
        "Between this forward and its backward `linear` was called in another region, and backward followed that one. "
        "Every call has a region of its own: store it in `ctx`, not in the class."
    )
    for around, others in ((low, []), ([], low)):
        seen = observe_scenario(told, linear, plain, around, [], others)
        mixed_up = mistake(kept_region, raises="dtype|data type")
        judge(seen, plain, around, kept_copy, mixed_up, backward_words=kept_region)
    ### END HIDDEN TESTS
