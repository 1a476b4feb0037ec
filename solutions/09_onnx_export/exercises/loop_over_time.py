# %% [markdown]
# ### Exercise 9.9 · A loop that the exporter unrolls
#
# fix · long · 25 min · 3 points
#
# Here is exponential smoothing along time, written as it is usually explained:
#
#     class Smooth(nn.Module):
#         def __init__(self, a=0.9):
#             super().__init__()
#             self.a = a
#
#         def forward(self, x):                       # (N, T, D) -> (N, T, D)
#             h, out = torch.zeros_like(x[:, 0]), []
#             for t in range(x.shape[1]):
#                 h = self.a * h + (1 - self.a) * x[:, t]
#                 out.append(h)
#             return torch.stack(out, 1)
#
#     # dynamic_shapes=({0: "batch", 1: "time"},) -> TorchExportError, caused by
#     # ValueError: ... tracing inferred a static shape of 5 for dimension inputs['x'].shape[1]
#
# The exporter unrolls the loop, so the graph has five steps forever. Write the same function without a loop.
#
# **Contract**
#
# - The values are the same as with the loop (in float32 to 1e-4, in float64 to its full precision) for every a with
#   0 < a < 1 and every T from 1 to 2000, without inf or nan.
# - The model exports with dynamic batch and time, and onnxruntime agrees for other lengths than the example's,
#   including 1.
# - x is not changed. The result has the dtype and device of x, and gradients flow to x. O(T²) memory is fine.
#
# **Rule.** No Python loop over the steps in what is exported. (The check exports your model, and judges the file.)
#
# <details><summary>Hint 1</summary>
#
# Write h₃ in terms of x₀ … x₃. What is the weight of xₛ in hₜ, and for which s is it zero? What happens to `a**(-s)`
# for s = 2000?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The newest value has the weight `1 - a`, the value before it `(1 - a) * a`, and so on. So the weight of xₛ in hₜ
# depends only on `t - s`. A matrix W with a row for each t and a column for each s contains all weights, and `W @ x` is
# the sum over time. Above its diagonal `t - s` is negative. What would the power be there?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# If you make an arange of the steps once a column and once a row, broadcasting gives all differences `t - s`. A power
# with a large negative exponent is inf, and inf times 0 is nan, so make the differences above the diagonal harmless
# *before* you take the power. Set what is above the diagonal to zero only after that.
#
# </details>


# %% answer="loop-over-time"
### BEGIN SOLUTION
class Smooth(nn.Module):
    """Exponential smoothing along time; the state starts at zero: (N, T, D) -> (N, T, D)."""

    def __init__(self, a: float = 0.9):
        super().__init__()
        self.a = a

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        lag = (steps.unsqueeze(1) - steps).clamp(min=0)
        weights = ((1 - self.a) * self.a**lag).tril()
        return weights @ x


### END SOLUTION
### BEGIN GIVEN
# class Smooth(nn.Module):
#     """Exponential smoothing along time; the state starts at zero: (N, T, D) -> (N, T, D)."""
#
#     def __init__(self, a: float = 0.9):
#         super().__init__()
#         self.a = a
#
#     def forward(self, x: Tensor) -> Tensor:
#         raise NotImplementedError  # fix the code below, then delete this line
#         h, out = torch.zeros_like(x[:, 0]), []
#         for t in range(x.shape[1]):
#             h = self.a * h + (1 - self.a) * x[:, t]
#             out.append(h)
#         return torch.stack(out, 1)
### END GIVEN


# %% helpers="loop-over-time"
def filled(*size):
    """Numbers between -1 and 1 without a pattern."""
    count = torch.Size(size).numel()
    return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)


def smoothed(make, a, x):
    """Smooth x, and x with another last step; gradients too, where x is short. No modes that record operations."""
    facts = {"grad": None, "foresees": False}
    with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        model = make() if a is None else make(a)
        short = x.shape[1] < 100
        came = model(x.requires_grad_(short))
        facts |= {"result": came.detach() if isinstance(came, Tensor) else came, "x": x.detach().clone()}
        if short and isinstance(came, Tensor) and came.shape == x.shape:
            other = torch.cat([x.detach()[:, :-1], x.detach()[:, -1:] + 1], 1)
            facts["foresees"] = not torch.equal(model(other)[:, :-1], came[:, :-1])
            if came.requires_grad:
                incoming = torch.arange(1.0, came.numel() + 1).reshape(came.shape) % 7 - 2.5
                facts["grad"] = torch.autograd.grad(came, x, incoming.to(came.dtype), allow_unused=True)[0]
    return facts


def exported(make, a, example, *others):
    """Export the model with a dynamic batch and time, and run the file on others."""
    facts = {"refused": "", "shape": [], "onnx": []}
    with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        model = make(a).eval()
        model(example.clone())
        try:
            how = {"dynamic_shapes": ({0: "batch", 1: "time"},), "verbose": False}
            program = torch.onnx.export(model, (example.clone(),), **how)
        except Exception as error:
            facts["refused"] = f"{error} {error.__cause__}"
            return facts
    session = ort.InferenceSession(program.model_proto.SerializeToString())
    facts["shape"] = list(session.get_inputs()[0].shape)
    for x in others:
        try:
            facts["onnx"].append(torch.tensor(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]))
        except Exception as error:
            facts["onnx"].append(str(error))
    return facts


def loop(x, a, scale=None, start=None):
    """The given loop, in float64; with another factor, or another start, where that is asked for."""
    x = x.double()
    h, out = torch.zeros_like(x[:, 0]) if start is None else start.double(), []
    for t in range(x.shape[1]):
        h = a * h + (1 - a if scale is None else scale) * x[:, t]
        out.append(h)
    return torch.stack(out, 1)


def close(came, truth):
    """Whether values agree, to 1e-4 of the largest."""
    fits = isinstance(came, Tensor) and came.shape == truth.shape
    return fits and torch.allclose(came.double(), truth, rtol=1e-4, atol=1e-5 * float(truth.abs().max()))


overflow = (
    "inf or nan comes from a negative power of `a`, which overflows in long sequences. Clamp the exponent (or "
    "mask it) before you take the power."
)
future = "Later steps influence earlier ones. W[t, s] must be zero for s > t."


def judge_values(seen, came, x, a, sentence):
    """Judge the smoothed x, by its look-alikes."""
    seen.that(isinstance(came, Tensor), "forward must return a tensor, and the file must run.", stage="type")
    seen.that(came.shape == x.shape, "The result must have the shape of x.", stage="shape")
    truth = loop(x, a)
    start = "The state must start at zero, not at the first step of x."
    wrong = [
        ("The factor (1 - a) is missing.", lambda: loop(x, a, scale=1.0)),
        ("The newest value must have the weight (1 - a) * a**0.", lambda: a * truth),
        (start, lambda: loop(x, a, start=x[:, 0])),
        (start, lambda: loop(x, a, start=x[:, 0] / a)),
        ("You swapped `a` and `1 - a`.", lambda: loop(x, 1 - a)),
    ]
    named = [
        mistake(overflow, when=lambda seen: not bool(came.isfinite().all())),
        mistake(future, when=lambda seen: seen["foresees"]),
    ]
    named += [mistake(words, when=lambda seen, other=other: close(came, other())) for words, other in wrong]
    seen.that(close(came, truth), sentence, *named)


def judge(seen, a, x, sentence="The values differ from those of the loop."):
    """Judge what forward returned."""
    judge_values(seen, seen["result"], x, a, sentence)
    seen.that(seen["result"].dtype == x.dtype, "The weights must have the dtype and device of x.", stage="dtype")


# %% check="loop-over-time" points=2
"""The loop's values in PyTorch, and after an export with a dynamic time."""
with check("loop-over-time") as test:
    test("the values of the loop, for several a")
    x = filled(2, 5, 3)
    for a in (0.9, 0.3, 0.6):
        judge(observe_scenario(smoothed, Smooth, a, x), a, x)

    test("an export with a dynamic batch and time, run with other lengths")
    inputs = [filled(3, 5, 4), filled(2, 8, 4), filled(4, 3, 4)]
    out = observe_scenario(exported, Smooth, 0.6, inputs[0], *inputs)
    unrolled = (
        "The number of steps is fixed in the export, because a dynamic size became a plain number: by a loop (or a "
        "Python list) over the steps, a table that was made for the example's length, or `int()`."
    )
    out.that(
        not out["refused"],
        "The exporter refuses this model. Export it yourself, and read the end of the message.",
        mistake(
            unrolled,
            when=lambda seen: "inferred a static shape" in seen["refused"] and "shape[1]" in seen["refused"],
        ),
    )
    out.that(out["shape"] == ["batch", "time", 4], unrolled, stage="shape")
    for x, came in zip(inputs, out["onnx"], strict=True):
        judge_values(out, came, x, 0.6, "After the export, the values differ from those of the loop.")


# %% check="loop-over-time" points=1
"""2000 steps without overflow; one step; dtype, device and gradient; x doesn't change."""
with check("loop-over-time") as test:
    test("2000 steps, with a small and a large a")
    x = filled(1, 2000, 2)
    for a in (0.5, 0.999):
        judge(observe_scenario(smoothed, Smooth, a, x), a, x)

    ### BEGIN HIDDEN TESTS
    test.hidden("0.9 is the value of a that is assumed")
    x = filled(2, 4, 3)
    judge(observe_scenario(smoothed, Smooth, None, x), 0.9, x, "Without an argument, a is 0.9.")

    test.hidden("one step, and as many samples as steps and numbers")
    for x in (filled(3, 1, 2), filled(4, 4, 4)):
        judge(observe_scenario(smoothed, Smooth, 0.7, x), 0.7, x)

    test.hidden("exported: a single step, and 1500 steps")
    more = [filled(2, 1, 4), filled(1, 1, 4), filled(1, 1500, 4)]
    out = observe_scenario(exported, Smooth, 0.6, filled(3, 5, 4), *more)
    out.that(not out["refused"], "The exporter refuses this model. Pass the first check cell first.")
    short = "After the export, the values for other lengths differ from those of the loop."
    for x, came in zip(more, out["onnx"], strict=True):
        judge_values(out, came, x, 0.6, short)

    test.hidden("float64 with all its digits")
    follows = "The weights must have the dtype and device of x."
    x = filled(2, 6, 3).double()
    seen = observe_scenario(smoothed, Smooth, 0.7, x).expecting(mistake(follows, stage="raised"))
    judge(seen, 0.7, x)
    digits = (
        "Digits were lost, because `a`, the weights or the sum had a lower precision than x, such as float32. Keep `a` "
        "as a Python float, and compute in the dtype of x."
    )
    seen.that(torch.allclose(seen["result"], loop(x, 0.7), rtol=1e-9, atol=1e-12), digits, stage="dtype")

    test.hidden("bfloat16")
    x = filled(2, 6, 3).bfloat16()
    seen = observe_scenario(smoothed, Smooth, 0.7, x).expecting(mistake(follows, stage="raised"))
    rounded = seen["result"]
    right = isinstance(rounded, Tensor) and rounded.dtype == torch.bfloat16
    right = right and torch.allclose(rounded.double(), loop(x, 0.7), rtol=0.05, atol=0.05)
    seen.that(right, follows, stage="dtype")

    def on_another_device(make):
        """Smooth tensors without numbers on the meta device, which must not meet tensors of the CPU."""
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make(0.7)
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
                came = model(torch.empty(2, 6, 3, device="meta"))
            return {"device": came.device.type if isinstance(came, Tensor) else ""}

    test.hidden("another device: the result lies where x lies, and so does all that x meets on the way")
    seen = observe_scenario(on_another_device, Smooth).expecting(mistake(follows, stage="raised"))
    seen.that(seen["device"] == "meta", follows, stage="device")

    test.hidden("x is not changed, and the gradient reaches it")
    x = filled(2, 5, 3)
    seen = observe_scenario(smoothed, Smooth, 0.6, x)
    seen.that(torch.equal(seen["x"], x), "x was changed.", stage="arguments")
    incoming = (torch.arange(1.0, x.numel() + 1).reshape(x.shape) % 7 - 2.5).double()
    truth = loop(incoming.flip(1), 0.6).flip(1)
    seen.that(close(seen["grad"], truth), "The gradient of x is missing or wrong.", stage="gradient")
    ### END HIDDEN TESTS
