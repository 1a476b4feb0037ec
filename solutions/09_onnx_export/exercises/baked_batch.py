# %% [markdown]
# ### Exercise 9.7 · Four samples of five steps, forever
#
# fix · solid · 15 min · 2 points
#
# This model pools the steps of a sequence, with weights that grow along time. It was written for a batch of 4 with 5
# steps, and works for nothing else. Fix it so that it runs, and can be exported, with any batch size and any number of
# steps.
#
#     class Pooler(nn.Module):                       # (N, T, 6) -> (N, 3), but only for N = 4, T = 5
#         def __init__(self):
#             super().__init__()
#             self.proj = nn.Linear(6, 3)
#             self.start = torch.zeros(4, 3)
#
#         def forward(self, x):
#             h = self.proj(x.view(20, 6)).view(4, 5, 3)
#             w = (torch.zeros(4, 5) + torch.arange(5) / 4).softmax(1)
#             return (h * w.unsqueeze(2)).sum(1) + self.start
#
# **Contract**
#
# - The result for `(4, 5, 6)` is the same as above. For other sizes the weights are the softmax over t of `t / (T -
#   1)`; a single step has weight 1. The start values stay zero.
# - The keys of `state_dict()` are still `proj.weight` and `proj.bias`.
# - x may be non-contiguous. The result has x's dtype (also after `.double()`) and is on x's device.
# - The model exports with `dynamic_shapes=({0: "batch", 1: "time"},)`, and onnxruntime returns the same numbers for
#   every N and T, including 1.
#
# **Rule.** No Python branch or loop on a shape, because both are decided once, during export. Use arithmetic, not
# `torch.cond`. (The check exports, and runs other sizes.)
#
# <details><summary>Hint 1</summary>
#
# Which of the numbers 4, 5 and 20 in the code are properties of the model, and which belong to one batch?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `nn.Linear` works on the last dimension, so you don't need a view. Make the weights as a vector of length
# `x.shape[1]`, with x's dtype and device, and let it broadcast; `clamp(min=1)` makes the division safe. The start
# values need no batch dimension at all.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The numbers inside the softmax depend only on T, so count the steps of this x with an arange. Divide by the last of
# these numbers, which is 0 for a single step. What remains is one sum over the time dimension. What do the start values
# add to it?
#
# </details>


# %% answer="baked-batch"
### BEGIN SOLUTION
class Pooler(nn.Module):
    """Each sample's steps, projected and added up with growing weights: (N, T, 6) -> (N, 3)."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        weights = (steps / steps[-1].clamp(min=1)).softmax(0)
        return (self.proj(x) * weights.unsqueeze(1)).sum(1)


### END SOLUTION
### BEGIN GIVEN
# class Pooler(nn.Module):
#     """Each sample's steps, projected and added up with growing weights: (N, T, 6) -> (N, 3)."""
#
#     def __init__(self):
#         super().__init__()
#         self.proj = nn.Linear(6, 3)
#         self.start = torch.zeros(4, 3)
#
#     def forward(self, x: Tensor) -> Tensor:
#         raise NotImplementedError  # fix the code above and below, then delete this line
#         h = self.proj(x.view(20, 6)).view(4, 5, 3)
#         w = (torch.zeros(4, 5) + torch.arange(5) / 4).softmax(1)
#         return (h * w.unsqueeze(2)).sum(1) + self.start
### END GIVEN


# %% helpers="baked-batch"
def filled(*size):
    """Numbers between -1 and 1 without a pattern."""
    count = torch.Size(size).numel()
    return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)


batch_baked = (
    "The batch size is still fixed by a constant 4, a view(4, ...), or a tensor that was built for four samples."
)


# %% check="baked-batch" points=1
"""The old numbers, other batches and lengths, in PyTorch."""
with check("baked-batch") as test:

    def pooled(make, x, sliced=False):
        """Run the model on x, in x's dtype and on x's device; note the result, or what was raised."""
        model = make()
        keys, named = sorted(model.state_dict()), dict(model.named_parameters())
        facts = {"keys": keys, "raised": "", "result": None, "grad": None}
        if keys != ["proj.bias", "proj.weight"] or set(keys) != set(named):
            return facts
        with torch.no_grad():
            named["proj.weight"].copy_(filled(3, 6))
            named["proj.bias"].copy_(filled(3) + 0.5)
        model = model.to(x.device, x.dtype)
        if sliced:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        try:
            came = model(x.requires_grad_(x.shape[1] < 100))
        except NotImplementedError as error:
            if not str(error):
                raise
            facts["raised"] = f"{type(error).__name__}: {error}"
            return facts
        except Exception as error:
            facts["raised"] = f"{type(error).__name__}: {error}"
            return facts
        if isinstance(came, Tensor) and came.requires_grad and x.requires_grad:
            facts["grad"] = torch.autograd.grad(came.sum(), x, allow_unused=True)[0]
        facts["result"] = came.detach() if isinstance(came, Tensor) else came
        return facts

    def weights_of(steps):
        """The weights of the contract, one by one."""
        grown = [torch.tensor(t / (steps - 1) if steps > 1 else 0.0, dtype=torch.float64).exp() for t in range(steps)]
        total = sum(grown)
        return [one / total for one in grown]

    def expected(x):
        """The pooled steps, in float64."""
        h = x.detach().double() @ filled(3, 6).double().t() + (filled(3) + 0.5).double()
        return sum(weight * h[:, t] for t, weight in enumerate(weights_of(x.shape[1])))

    state = "The keys of state_dict() have changed. Nothing that depends on a batch belongs in the state."

    def judge(seen, x, sentence, rtol=1e-4, atol=1e-5):
        """Judge the result for x."""
        seen.that(seen["keys"] == ["proj.bias", "proj.weight"], state)
        by_cond = mistake(
            "`torch.cond` does not run inside this check. Use arithmetic, such as a divisor that is at least 1.",
            when=lambda seen: "HigherOrderOperator cond" in seen["raised"],
        )
        seen.that(not seen["raised"], sentence, by_cond, stage="raised")
        seen.that(isinstance(seen["result"], Tensor), "forward must return a tensor.", stage="type")
        truth, came = expected(x), seen["result"]
        squeezed = mistake(
            "squeeze() without a dimension also removes a batch of one. Say which dimension you mean.",
            when=lambda seen: came.shape == truth.squeeze().shape,
        )
        seen.that(came.shape == truth.shape, sentence, squeezed, stage="shape")
        dtype = "The result must have the dtype and device of x, so tensors made in forward need them too."
        seen.that(came.dtype == x.dtype, dtype, stage="dtype")
        seen.that(torch.allclose(came.double(), truth, rtol=rtol, atol=atol), sentence)

    same_values = "For (4, 5, 6) the numbers differ from those of the given class."
    time_baked = (
        "The number of steps is still fixed, or the weights differ from the contract. The 5 must come from x.shape[1]."
    )
    one_step = "For a single step 0 / 0 gives nan. Its weight must be 1."
    contiguous = "A non-contiguous x must work, but view needs a matching memory layout."

    test("the old numbers for 4 samples of 5 steps")
    x = filled(4, 5, 6)
    judge(observe_scenario(pooled, Pooler, x), x, same_values)

    test("other batch sizes")
    for size in (2, 7, 1):
        x = filled(size, 5, 6)
        judge(observe_scenario(pooled, Pooler, x), x, batch_baked)

    test("other lengths")
    for steps in (3, 8, 2):
        x = filled(4, steps, 6)
        judge(observe_scenario(pooled, Pooler, x), x, time_baked)

    test("a single step")
    x = filled(4, 1, 6)
    judge(observe_scenario(pooled, Pooler, x), x, one_step)

    ### BEGIN HIDDEN TESTS
    test.hidden("an x that is not contiguous")
    for x in (filled(4, 5, 6), filled(3, 2, 6)):
        judge(observe_scenario(pooled, Pooler, x, True), x, contiguous)

    test.hidden("4 by 5 exchanged, and as many steps as outputs")
    for x in (filled(5, 4, 6), filled(3, 3, 6), filled(6, 6, 6)):
        judge(observe_scenario(pooled, Pooler, x), x, time_baked)

    test.hidden("6000 steps, in PyTorch")
    limit = (
        "Your class doesn't work for 6000 steps, so something in it has a fixed length, such as a table of positions. "
        "Make the weights for the steps of this x."
    )
    x = filled(1, 6000, 6)
    judge(observe_scenario(pooled, Pooler, x), x, limit)

    follows = "The result must have the dtype and device of x, so tensors made in forward need them too."
    test.hidden("float64, and bfloat16")
    x = filled(3, 4, 6).double()
    judge(observe_scenario(pooled, Pooler, x), x, follows, rtol=1e-6, atol=1e-7)
    x = filled(3, 4, 6).bfloat16()
    judge(observe_scenario(pooled, Pooler, x), x, follows, rtol=0.05, atol=0.05)

    test.hidden("the gradient reaches x")
    x = filled(2, 3, 6)
    seen = observe_scenario(pooled, Pooler, x)
    grad = torch.stack([weight.float() * filled(3, 6).sum(0) for weight in weights_of(3)]).expand(2, 3, 6)
    reached = isinstance(seen["grad"], Tensor) and torch.allclose(seen["grad"], grad, rtol=1e-4, atol=1e-5)
    seen.that(reached, "The gradient of x is missing or wrong.", stage="gradient")

    def on_another_device(make):
        """Pool a tensor without numbers on the meta device, which must not meet tensors of the CPU."""
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make().to("meta")
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
                came = model(torch.empty(2, 3, 6, device="meta"))
            return {"device": came.device.type if isinstance(came, Tensor) else ""}

    test.hidden("another device: everything that forward makes lies where x lies")
    seen = observe_scenario(on_another_device, Pooler).expecting(mistake(follows, stage="raised"))
    seen.that(seen["device"] == "meta", follows, stage="device")
    ### END HIDDEN TESTS

# %% check="baked-batch" points=1
"""Exported with a dynamic batch and time, and run with other sizes."""
with check("baked-batch") as test:

    def exported(make, example, *others):
        """Export a model, and run the file and the model on others; without the modes that record operations."""
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make().eval()
            model(example.clone())
            state = {name: one.detach().clone() for name, one in model.state_dict().items()}
            facts = {"refused": "", "shape": [], "state": state}
            try:
                how = {"dynamic_shapes": ({0: "batch", 1: "time"},), "verbose": False}
                program = torch.onnx.export(model, (example.clone(),), **how)
                session = ort.InferenceSession(program.model_proto.SerializeToString())
            except Exception as error:
                facts["refused"] = f"{error} {error.__cause__}"
                return facts
            facts["nodes"] = len(program.model_proto.graph.node)
            facts |= {"shape": list(session.get_inputs()[0].shape), "onnx": [], "torch": []}

            def result_of(run):
                try:
                    return torch.as_tensor(run()).detach().clone()
                except Exception as error:
                    return str(error)

            for x in others:
                feed = {session.get_inputs()[0].name: x.numpy()}
                facts["onnx"].append(result_of(lambda feed=feed: session.run(None, feed)[0]))
                facts["torch"].append(result_of(lambda x=x: model(x.clone())))
        return facts

    def expected(x, state):
        """The pooled steps for these weights and biases, in float64."""
        weight, bias = state["proj.weight"].double(), state["proj.bias"].double()
        steps = x.shape[1]
        grown = [torch.tensor(t / (steps - 1) if steps > 1 else 0.0, dtype=torch.float64).exp() for t in range(steps)]
        return sum(one / sum(grown) * (x[:, t].double() @ weight.t() + bias) for t, one in enumerate(grown))

    specialised = (
        "'tracing inferred a static shape' means that a dynamic size became a plain number: through a constant "
        "that it must fit, a Python loop over range(T), or an op that needs a number (such as torch.linspace)."
    )
    branch = "The export decided a Python `if` on a shape, so other sizes silently take the same branch."
    by_zero = (
        "For a single step the file divides 0 by 0, and your class doesn't. The export decides a Python `if` on a "
        "shape once, and may drop a small number that you add to a size. Make the divisor a tensor, and clamp it."
    )
    known = [
        mistake(batch_baked, raises="size of tensor|shape '|is invalid for input"),
        mistake(
            batch_baked,
            when=lambda seen: "inferred a static shape" in seen["refused"] and "shape[0]" in seen["refused"],
        ),
        mistake(specialised, when=lambda seen: "inferred a static shape" in seen["refused"]),
    ]

    def close(came, truth):
        """Whether a result is so, nan where nan is."""
        fits = isinstance(came, Tensor) and isinstance(truth, Tensor) and came.shape == truth.shape
        return fits and torch.allclose(came.double(), truth.double(), rtol=1e-3, atol=1e-5, equal_nan=True)

    def divides_by_zero(x, came, own):
        """Whether the file alone gives nan for a single step."""
        both = isinstance(came, Tensor) and isinstance(own, Tensor)
        return both and x.shape[1] == 1 and bool(came.isnan().any() and own.isfinite().all())

    def judge_runs(seen, which, sentence):
        """Judge what onnxruntime gave for some of the inputs."""
        for x, came, own in list(zip([*inputs, *more], seen["onnx"], seen["torch"], strict=True))[which]:
            model = "The file agrees with your class, but for this size your class is not the function of the contract."
            same = mistake(model, when=lambda seen, came=came, own=own: close(came, own))
            zero = mistake(by_zero, when=lambda seen, x=x, came=came, own=own: divides_by_zero(x, came, own))
            four = mistake(batch_baked, when=lambda seen, x=x, own=own: isinstance(own, str) and x.shape[:2] == (2, 5))
            seen.that(close(came, expected(x, seen["state"])), sentence, four, zero, same)

    test("an export with a dynamic batch and time, run with (4, 5), (2, 5) and (4, 7)")
    inputs = [filled(4, 5, 6), filled(2, 5, 6), filled(4, 7, 6)]
    more = [filled(9, 12, 6), filled(3, 2, 6), filled(1, 5, 6), filled(2, 70, 6), filled(1, 1, 6), filled(6, 1, 6)]
    seen = observe_scenario(exported, Pooler, inputs[0], *inputs, *more).expecting(*known)
    keys = "The keys of state_dict() have changed. Nothing that depends on a batch belongs in the state."
    seen.that(sorted(seen["state"]) == ["proj.bias", "proj.weight"], keys)
    seen.that(
        not seen["refused"], "The exporter refuses this model. Export it yourself, and read the end of the message."
    )
    seen.that(seen["shape"] == ["batch", "time", 6], specialised, stage="shape")
    judge_runs(seen, slice(3), "onnxruntime does not return the numbers of the contract for these sizes.")

    ### BEGIN HIDDEN TESTS
    test.hidden("(9, 12), (3, 2) and a single sample")
    judge_runs(seen, slice(3, 6), branch)

    test.hidden("70 steps, with fewer nodes than that in the file")
    judge_runs(seen, slice(6, 7), "For 70 steps the file gives other numbers: something limits the number of steps.")
    loop = "The file has a node for each step: a loop that always makes the same number of turns is a loop, too."
    seen.that(seen["nodes"] < 70, loop, stage="rule")

    test.hidden("a single step")
    judge_runs(seen, slice(7, None), branch)
    ### END HIDDEN TESTS
