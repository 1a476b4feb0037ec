# %% [markdown]
# ### Exercise 9.8 · Could not guard on data-dependent expression
#
# debug · solid · 15 min · 3 points
#
# This layer runs, but can't be exported:
#
#     class Gate(nn.Module):                          # x: (N, D)
#         def forward(self, x):
#             if x.mean() > 0:
#                 return torch.log(x.clamp(min=1e-6))
#             return 0.1 / x
#
#     # torch.onnx.export -> TorchExportError, caused by
#     # GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1)
#
# The old exporter (`dynamo=False`) accepts it, but keeps only the branch that the example took.
#
# **Contract**
#
# - The function is the same as above: *one* decision for the whole batch, made for every input, both in PyTorch and in
#   onnxruntime (after an export with a dynamic batch). If the mean is exactly 0 or nan, the second branch is taken.
# - If the branch that is not taken gives inf or nan (as the second does for 0), none of it may reach the values or the
#   gradients of the other branch.
# - The result has the dtype and shape of x.
#
# **Rule.** No Python branch on values in what is exported. (The check exports your layer with the default exporter, and
# judges the file.)
#
# <details><summary>Hint 1</summary>
#
# Can you compute both branches and choose afterwards? What is inf times 0?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.where` with a 0-d condition chooses for the whole tensor; `torch.cond` chooses between two functions. With
# `where`, the slope of the branch that is not taken is multiplied by 0, and inf times 0 is nan. So pass harmless
# numbers to that branch.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The comparison of the mean with 0 stays a tensor, and is False for nan. Use it three times with `where`: to give the
# logarithm harmless numbers if the mean is not positive, to give the division harmless numbers if it is, and to choose
# between the two results.
#
# </details>


# %% answer="branch-on-data"
### BEGIN SOLUTION
class Gate(nn.Module):
    """The logarithm of x where the batch's mean is positive, else 0.1 / x: (N, D) -> (N, D)."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x.mean() > 0
        logarithm = torch.log(torch.where(positive, x, 1.0).clamp(min=1e-6))
        return torch.where(positive, logarithm, 0.1 / torch.where(positive, 1.0, x))


### END SOLUTION
### BEGIN GIVEN
# class Gate(nn.Module):
#     """The logarithm of x where the batch's mean is positive, else 0.1 / x: (N, D) -> (N, D)."""
#
#     def forward(self, x: Tensor) -> Tensor:
#         raise NotImplementedError  # fix the code below, then delete this line
#         if x.mean() > 0:
#             return torch.log(x.clamp(min=1e-6))
#         return 0.1 / x
### END GIVEN


# %% helpers="branch-on-data"
def gated(make, *inputs):
    """Run the layer on inputs, with gradients, without the modes that record operations."""
    facts = {"results": [], "grads": []}
    with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        for x in inputs:
            x = x.clone().requires_grad_()
            came = make()(x)
            facts["results"].append(came.detach() if isinstance(came, Tensor) else came)
            tracked = isinstance(came, Tensor) and came.requires_grad
            facts["grads"].append(torch.autograd.grad(came.sum(), x)[0] if tracked else None)
    return facts


def exported(make, example, *inputs):
    """Export the layer, and run the file on inputs."""
    facts = {"refused": "", "results": []}
    with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        model = make().eval()
        model(example.clone())
        try:
            how = {"dynamic_shapes": ({0: "batch"},), "verbose": False}
            program = torch.onnx.export(model, (example.clone(),), **how)
        except Exception as error:
            facts["refused"] = f"{error} {error.__cause__}"
            return facts
    session = ort.InferenceSession(program.model_proto.SerializeToString())
    for x in inputs:
        try:
            facts["results"].append(torch.tensor(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]))
        except Exception as error:
            facts["results"].append(str(error))
    return facts


def expected(x):
    """The given class."""
    return torch.log(x.clamp(min=1e-6)) if x.mean() > 0 else 0.1 / x


def by_rows(x):
    """A decision for each row."""
    return torch.cat([expected(row[None]) for row in x])


def by_columns(x):
    """A decision for each column."""
    return torch.cat([expected(column[:, None]) for column in x.t()], 1)


def by_elements(x):
    """A decision for each element."""
    return torch.where(x > 0, torch.log(x.clamp(min=1e-6)), 0.1 / x)


def same(came, truth):
    """Whether two results agree, nan where nan is."""
    fits = isinstance(came, Tensor) and came.shape == truth.shape and came.dtype == truth.dtype
    return fits and torch.allclose(came, truth, rtol=1e-4, atol=1e-6, equal_nan=True)


leak = (
    "inf or nan of the other branch reached the result, because multiplying it by 0 gives nan. Select, don't multiply."
)
own_inf = (
    "The branch that is taken gives inf here, as it must, and arithmetic between the branches turned it into nan. "
    "Select, don't multiply."
)
one_branch = "Your layer has only one branch, or the decision was made once, for the example."


def look_alikes(x, came, truth):
    """The mistakes that a wrong result for x can be."""
    wrong = [
        ("You decide for each element. Make one decision for the whole batch.", by_elements(x)),
        ("You decide for each row. Make one decision for the whole batch.", by_rows(x)),
        ("You decide for each column. Make one decision for the whole batch.", by_columns(x)),
        (one_branch, torch.log(x.clamp(min=1e-6))),
        (one_branch, 0.1 / x),
    ]
    named = [mistake(words, when=lambda seen, other=other: same(came, other)) for words, other in wrong]
    return [
        *named,
        mistake(own_inf, when=lambda seen: bool((came.isnan() & truth.isinf()).any())),
        mistake(leak, when=lambda seen: bool((came.isnan() & ~truth.isnan()).any())),
    ]


def judge(seen, inputs, results, sentence):
    """Judge the results for these inputs, each by its own look-alikes."""
    for x, came in zip(inputs, results, strict=True):
        seen.that(isinstance(came, Tensor), "forward must return a tensor, and the file must run.", stage="type")
        seen.that(came.shape == x.shape, "The result must have the shape of x.", stage="shape")
        seen.that(came.dtype == x.dtype, f"The result is {came.dtype}, x is {x.dtype}.", stage="dtype")
        truth = expected(x)
        named = [] if same(came, truth) else look_alikes(x, came, truth)
        seen.that(same(came, truth), sentence, *named)


values = "The values differ from those of the given class."


# %% check="branch-on-data" points=2
"""Both branches, chosen for each batch, in PyTorch and after the export."""
with check("branch-on-data") as test:
    first = torch.tensor([[2.0, -0.5, 1.5], [0.25, 1.0, -3.0]])  # the mean is positive
    second = torch.tensor([[-2.0, 0.5, -1.5], [0.25, 1.0, -3.0]])  # the mean is negative, that of one element too
    rows = torch.tensor([[-2.0, -0.5, -1.5], [1.0, 2.0, 4.0], [0.5, 0.25, 0.125], [-0.5, 0.5, 1.0]])

    test("both branches, in PyTorch")
    inputs = [first, second, rows, -rows]
    seen = observe_scenario(gated, Gate, *inputs)
    judge(seen, inputs, seen["results"], values)

    test("both branches in onnxruntime, after an export with a dynamic batch")
    out = observe_scenario(exported, Gate, first, *inputs)
    still = (
        "Python needs True or False from a tensor here, as for an `if`, `and` or `bool()`, but a FakeTensor has no "
        "value during export. Choose with tensors."
    )
    number = (
        "Python needs an integer from a tensor here, as for an index, but a FakeTensor has no value during export. "
        "Choose with torch.where."
    )
    out.that(
        not out["refused"],
        "The exporter refuses this layer. Export it yourself, and read the end of the message.",
        mistake(number, when=lambda seen: "specialized integer" in seen["refused"]),
        mistake(still, when=lambda seen: "data-dependent" in seen["refused"] or "DataDependent" in seen["refused"]),
        mistake(
            "The batch size is fixed, because something turned a dynamic size into a plain number.",
            when=lambda seen: "inferred a static shape" in seen["refused"],
        ),
    )
    judge(out, inputs, out["results"], "After the export the values differ.")


# %% check="branch-on-data" points=1
"""Nothing of the other branch reaches the values or the gradients; zeros, nan, dtypes."""
with check("branch-on-data") as test:
    first = torch.tensor([[2.0, -0.5, 1.5], [0.25, 1.0, -3.0]])  # the mean is positive
    second = torch.tensor([[-2.0, 0.5, -1.5], [0.25, 1.0, -3.0]])  # the mean is negative, that of one element too
    rows = torch.tensor([[-2.0, -0.5, -1.5], [1.0, 2.0, 4.0], [0.5, 0.25, 0.125], [-0.5, 0.5, 1.0]])
    zeros = torch.tensor([[2.0, 0.0, 1.5], [0.0, -1.0, 3.0]])

    balanced = torch.tensor([[2.0, -2.0, 1.0], [-1.0, 0.5, -0.5]])  # the mean is 0
    unknown = torch.tensor([[2.0, float("nan"), 1.0]])
    many = torch.arange(3000.0).reshape(1000, 3) % 17 - 8.5
    infinite = torch.tensor([[-2.0, 0.0, -1.5], [0.25, 1.0, -3.0]])  # the second branch gives inf
    nearly = torch.tensor([[1.0, -1.5, 0.503]])  # the mean is 0.001
    far = torch.tensor([[float("inf"), 1.0, 2.0]])  # in PyTorch only
    opposed = torch.tensor([[float("inf"), -float("inf"), 2.0]])  # the mean is nan; in PyTorch only
    more = [zeros, balanced, unknown, nearly, many + 1, many - 1, infinite]
    test("the branch not taken may be infinite or nan: nothing of it in the values")
    seen = observe_scenario(gated, Gate, first, second, rows, -rows)
    judge(seen, [first, second, rows, -rows], seen["results"], values)
    zero = observe_scenario(gated, Gate, *more, far, opposed)
    judge(zero, [zeros], zero["results"][:1], values)

    test("the same after the export")
    out = observe_scenario(exported, Gate, first, *more)
    out.that(not out["refused"], "The exporter refuses this layer. Pass the first check cell first.")
    judge(out, [zeros], out["results"][:1], "After the export the values differ.")

    test("the gradient of the branch taken is finite and right")
    for x, came in zip([first, second, rows, -rows, zeros], [*seen["grads"], zero["grads"][0]], strict=True):
        leaf = x.clone().requires_grad_()
        truth = torch.autograd.grad(expected(leaf).sum(), leaf)[0]
        seen.that(
            same(came, truth),
            "The gradient is not that of the chosen branch.",
            mistake(
                "No gradient reaches x, because the layer detaches it (no_grad, detach or .data).",
                when=lambda seen, came=came: not isinstance(came, Tensor) or not came.any(),
            ),
            mistake(
                "The value is right, but the gradient is nan, because the other branch's infinite slope is multiplied "
                "by 0 on the way back. Make that branch's input harmless first.",
                when=lambda seen, came=came: isinstance(came, Tensor) and bool(came.isnan().any()),
            ),
            stage="gradient",
        )

    ### BEGIN HIDDEN TESTS
    test.hidden("a mean of exactly zero, and of nan")
    boundary = mistake("A mean of 0 (and of nan) belongs to the second branch.", stage=("value", "type"))
    for one, results in ((zero, zero["results"][1:3]), (out, out["results"][1:3])):
        for x, came in zip([balanced, unknown], results, strict=True):
            one.that(same(came, 0.1 / x), "A mean of 0 (and of nan) belongs to the second branch.", boundary)

    test.hidden("one row, a thousand rows")
    judge(zero, more[3:6], zero["results"][3:6], values)
    judge(out, more[3:6], out["results"][3:6], "After the export the values differ.")

    test.hidden("a zero among the inputs of the second branch")
    kept = (
        "In the second branch 0.1 / 0 is inf, as in the given class. Only the branch that is not chosen may be made "
        "harmless."
    )
    judge(zero, [infinite], zero["results"][6:7], kept)
    judge(out, [infinite], out["results"][6:], kept)

    test.hidden("inf among the inputs of the first branch")
    judge(zero, [far], zero["results"][7:8], values)

    test.hidden("inf and -inf among the inputs of the second branch")
    judge(zero, [opposed], zero["results"][8:], values)

    test.hidden("float64 stays float64")
    inputs = [first.double(), second.double()]
    seen = observe_scenario(gated, Gate, *inputs)
    judge(seen, inputs, seen["results"], values)
    ### END HIDDEN TESTS
