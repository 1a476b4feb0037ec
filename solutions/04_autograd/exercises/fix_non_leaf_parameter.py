# %% [markdown]
# ### Exercise 4.2 · can't optimize a non-leaf Tensor
#
# fix · warm-up · 6 min · 1 point
#
# Somebody wrote a layer by hand, and the first line of the training code already raises:
#
#     torch.optim.SGD(init_layer(3, 2), lr=0.1)       ValueError: can't optimize a non-leaf Tensor
#
# Fix `init_layer`. One of its two lines is always wrong, the other only sometimes.
#
# **Contract**
#
# - It returns `w` of shape (n_in, n_out), normal with mean 0 and standard deviation 1 / sqrt(n_in), drawn anew in each
#   call (no seed is set), and `b` of shape (n_out,), zeros. Both have the given dtype and are on the given device.
# - Both are leaves that require grad, for every dtype and device: `loss.backward()` fills their `.grad`, and an
#   optimizer accepts them.
# - Gradient recording is not left switched off.
#
# <details><summary>Hint 1</summary>
#
# In which of the two lines does an operation come after `requires_grad=True`? And is `.to(device, dtype)` always an
# operation?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Do all arithmetic and conversion first; mark the finished tensor last.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For `w`, let the factory function set dtype and device, do the division, and only then mark the result, in place. `b`
# needs no arithmetic, so its factory function can set everything, including the mark, and no conversion follows.
#
# </details>


# %% answer="fix-non-leaf-parameter"
def init_layer(
    n_in: int, n_out: int, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Two leaves: weights (n_in, n_out) and a bias (n_out,).

    The weights are normal with standard deviation 1 / sqrt(n_in), the bias is zero.
    """
    ### BEGIN SOLUTION
    w = torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5
    b = torch.zeros(n_out, dtype=dtype, device=device)
    return w.requires_grad_(), b.requires_grad_()
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # w = torch.randn(n_in, n_out, requires_grad=True) / n_in**0.5
    # b = torch.zeros(n_out, requires_grad=True).to(device, dtype)
    # return w, b
    ### END GIVEN


# %% check="fix-non-leaf-parameter" points=1
"""Both tensors are leaves that learn, for every dtype and device; w has the right spread."""
with check("fix-non-leaf-parameter") as test:

    def described(tensor):
        """What the contract says about w and b, as plain facts."""
        return {
            "shape": list(tensor.shape),
            "dtype": tensor.dtype,
            "device": tensor.device.type,
            "leaf": tensor.is_leaf,
            "made by": type(tensor.grad_fn).__name__,
            "requires_grad": tensor.requires_grad,
            "kept": tensor.retains_grad,
            "values": tensor.detach().clone(),
        }

    def layer(init_layer, n_in, n_out, *options):
        """Make the layer, describe w and b, and take a step of training where that makes sense."""
        pair = init_layer(n_in, n_out, *options)
        recording = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        is_pair = isinstance(pair, (tuple, list)) and [isinstance(t, Tensor) for t in pair] == [True, True]
        if not is_pair:
            return {"pair": False}
        facts = {"pair": True, "recording": recording, "w": described(pair[0]), "b": described(pair[1])}
        w, b = pair
        if (w.shape, b.shape) == ((n_in, n_out), (n_out,)) and w.dtype == b.dtype and w.device == b.device:
            facts["step"] = one_step(w, b)
        return facts

    def one_step(w, b):
        """A loss with gradient 8 for every entry, and the step that SGD does: how far w and b moved, or its error."""
        if not (w.is_leaf and b.is_leaf and w.requires_grad and b.requires_grad):
            return {}
        start = [t.detach().clone() for t in (w, b)]
        ((torch.ones(4, len(w), dtype=w.dtype, device=w.device) @ w + b).sum() * 2).backward()
        try:
            with torch.no_grad():
                for t in (w, b):
                    t.sub_(t.grad, alpha=0.25)
        except (TypeError, RuntimeError) as error:
            return {"raised": str(error)}
        return {"moved": [old - t.detach() for old, t in zip(start, (w, b), strict=True)]}

    def judge_layer(seen, n_in, n_out, dtype=torch.float32, device="cpu"):
        """Two tensors of the right shape, dtype and device; leaves that require grad; recording is on."""
        seen.that(seen["pair"], "Return two tensors, w and b.", stage="type")
        seen.that(
            seen["recording"],
            "Gradient recording is switched off after the call: use the context manager, not set_grad_enabled(False).",
            stage="rule",
        )
        for name, shape in (("w", [n_in, n_out]), ("b", [n_out])):
            came = seen[name]
            words = f"w must have shape (n_in, n_out): expected {shape}, got {came['shape']}."
            if name == "b":
                words = f"b must be zeros of shape (n_out,): expected {shape}, got {came['shape']}."
            seen.that(came["shape"] == shape, words, stage="shape")
            words = f"{name} must have the dtype that was asked for: expected {dtype}, got {came['dtype']}."
            seen.that(came["dtype"] == dtype, words, stage="dtype")
            words = f"{name} must be on the device that was asked for: expected {device}, got {came['device']}."
            seen.that(came["device"] == device, words, stage="device")
            seen.that(
                not came["kept"],
                "retain_grad() fills .grad of a non-leaf, but the optimizer still would not update the tensor "
                "you created.",
                stage="gradient",
            )
            words = (
                f"{name} is the result of a recorded operation ({came['made by']}): it is not a leaf, so the "
                f"optimizer refuses "
                f"it and {name}.grad stays None. Do all arithmetic and conversion first, then mark."
            )
            if "Copy" in came["made by"]:
                words = (
                    f"{name} is a leaf only when .to changes nothing: with another dtype (or device) it is a recorded "
                    "conversion. Create it there, or mark it afterwards."
                )
            seen.that(came["leaf"], words, stage="gradient")
            seen.that(
                came["requires_grad"],
                f"{name} does not require grad: nothing would ever be learned.",
                stage="gradient",
            )
        if device == "cpu":
            seen.that(not seen["b"]["values"].any(), "b must be zeros of shape (n_out,): it contains other numbers.")

    def judge_step(seen):
        """The gradient of each entry is 8, the learning rate 1/4: everything moves by 2."""
        step = seen["step"]
        seen.that("raised" not in step, f"The optimizer step raised: {step.get('raised')}", stage="rule")
        right = all(torch.allclose(way, torch.full_like(way, 2.0), atol=1e-4) for way in step["moved"])
        seen.that(right, "One step of SGD does not move w and b by lr * gradient.", stage="gradient")

    test("float32: leaves that require grad, and one SGD step moves both")
    seen = observe_scenario(layer, init_layer, 3, 2)
    judge_layer(seen, 3, 2)
    judge_step(seen)

    test("float64: still leaves")
    seen = observe_scenario(layer, init_layer, 3, 2, torch.float64)
    judge_layer(seen, 3, 2, torch.float64)
    judge_step(seen)

    ### BEGIN HIDDEN TESTS
    test.hidden("another device (here: meta), as a string and as torch.device")
    for device in ("meta", torch.device("meta")):
        judge_layer(observe_scenario(layer, init_layer, 4, 3, torch.float32, device), 4, 3, device="meta")

    test.hidden("bfloat16 and float16")
    for dtype in (torch.bfloat16, torch.float16):
        judge_layer(observe_scenario(layer, init_layer, 4, 3, dtype), 4, 3, dtype)

    test.hidden("the spread of w: normal, with standard deviation 1 / sqrt(n_in)")
    for n_in, n_out in ((400, 50), (1, 20_000), (25, 800)):
        seen = observe_scenario(layer, init_layer, n_in, n_out)
        judge_layer(seen, n_in, n_out)
        values, wanted = seen["w"]["values"], n_in**-0.5
        seen.that(
            0.9 < (values.std() / wanted).item() < 1.1,
            "The standard deviation must be 1 / sqrt(n_in): it is not within 10 % of that.",
        )
        seen.that((values.mean() / wanted).abs().item() < 0.05, "The mean of w must be 0.")
        beyond_two = (values.abs() > 2 * wanted).double().mean().item()
        seen.that(0.035 < beyond_two < 0.055, "The numbers of w must come from a normal distribution.")

    def two_layers(init_layer):
        """Make two layers of one size, one after the other."""
        first = init_layer(4, 3)[0].detach().clone()
        return [first, init_layer(4, 3)[0].detach().clone()]

    test.hidden("two layers, one after the other")
    seen = observe_scenario(two_layers, init_layer)
    seen.that(
        not torch.equal(*seen.value),
        "Two layers get the same numbers: a seed is set in init_layer, or the numbers are kept from an earlier call. "
        "Draw anew in each call, and leave the seed to whoever calls it.",
    )
    ### END HIDDEN TESTS
