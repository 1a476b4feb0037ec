# %% [markdown]
# ### Exercise 4.8 · One of the variables needed … modified by an inplace operation
#
# debug · solid · 15 min · 2 points
#
# In this recurrent layer, the state h moves towards the input of each step; the gate g says how far. Unreliable steps
# count less, and padding (conf 0) doesn't count at all. Training stops in the first backward pass:
#
#     RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation:
#     [torch.FloatTensor [2, 4]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead.
#
# Fix it. Don't stop when the message is gone: also look at `out[0]` and `out[-1]`.
#
# **Contract**
#
# - `out[t]` is the state *after* step t: `h_t = h_{t-1} + g_t * (x_t - h_{t-1})` with `h_{-1} = 0` and `g_t = conf_t *
#   sigmoid(x_t * w)`. It contains the T different states, not the last state T times.
# - The gradients with respect to x and w are right through all steps.
# - x, w and conf are not changed. They share one dtype, which the result also has. T = 0 gives shape (0, B, D).
#
# <details><summary>Hint 1</summary>
#
# The message names the operation whose output was overwritten. Which line overwrites it, and what does sigmoid's
# backward formula need? (A second line also changes something in place. It raises nothing.)
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sigmoid's derivative is computed from its own output, so g must stay as it was: make a new tensor. And all entries of
# outs are the same tensor h, so also make a new h in every step.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Replace both in-place writes with the same arithmetic that makes a new tensor. For T = 0 there is no x[0] to take a
# shape from and there are no states to stack, so take the starting state from the shape of x, and return an empty
# tensor if there are no steps.
#
# </details>


# %% answer="fix-inplace-scan"
def leaky_scan(x: Tensor, w: Tensor, conf: Tensor) -> Tensor:
    """The states of a leaky recurrent layer.

    x: (T, B, D); w: (D,); conf: (T, B, 1), between 0 and 1;
    returns (T, B, D), the state after each step.
    """
    ### BEGIN SOLUTION
    h = x.new_zeros(x.shape[1:])  # there may be no x[0]
    outs = []
    for t in range(len(x)):
        g = conf[t] * torch.sigmoid(x[t] * w)
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # h = torch.zeros_like(x[0])
    # outs = []
    # for t in range(len(x)):
    #     g = torch.sigmoid(x[t] * w)
    #     g *= conf[t]
    #     h += g * (x[t] - h)
    #     outs.append(h)
    # return torch.stack(outs)
    ### END GIVEN


# %% helpers="fix-inplace-scan"
inplace = mistake(
    "The gate g is still changed in place after sigmoid: its backward needs the unchanged output (that is what the "
    "message says). Make a new tensor for the scaled gate.",
    raises="output 0 of Sigmoid",
)
cut = mistake(
    "No (or no full) gradient reaches w: the gate or the state was detached, or computed without recording.",
    when=lambda seen: not seen.error_text and (not seen.noted.tracked or seen.gradient(1) is None),
)
written = mistake(
    "An argument was changed in place. Autograd refuses that for a leaf: {detail}.",
    raises="a leaf Variable that requires grad",
)


def unrolled(x, w, conf):
    """Each state as a sum over all steps until then, what is left of each input."""
    g, states = conf * torch.sigmoid(x * w), []
    for t in range(len(x)):
        states.append(sum(g[s] * x[s] * (1 - g[s + 1 : t + 1]).prod(0) for s in range(t + 1)))
    return torch.stack(states)


# %% check="fix-inplace-scan" points=0.5
"""The state after each of the steps; the arguments stay as they are."""
with check("fix-inplace-scan") as test:
    all_equal = mistake(
        "All time steps are equal to the last one: outs contains the same tensor T times, and `h +=` changes it in "
        "place. "
        "No error, wrong result; make a new h in every step.",
        when=lambda seen: (
            len(seen.value) > 1 and seen.value.any() and all(step.equal(seen.value[-1]) for step in seen.value)
        ),
    )

    test("four steps with conf 1, 1/2, 0 and 1/4")
    some_x = torch.tensor([[2.0, -1.0], [0.5, 3.0], [-4.0, 1.0], [1.0, -2.0]]).reshape(4, 1, 2)
    some_w = torch.tensor([0.5, -1.5])
    some_conf = torch.tensor([1.0, 0.5, 0.0, 0.25]).reshape(4, 1, 1)
    seen = observe(leaky_scan, some_x, some_w, some_conf)
    seen.leaves_arguments_alone()
    seen.returns(
        torch.tensor(
            [[1.46212, -0.81757], [1.19168, -0.79660], [1.19168, -0.79660], [1.16185, -1.08318]],
        ).reshape(4, 1, 2),
        all_equal,
        mistake(
            "The gate is scaled, not the new state: a step with conf 0 keeps the state. You multiplied the state "
            "itself by conf.",
            when=lambda seen: not seen.value[2].any() and seen.value[3].any(),
        ),
        mistake(
            "The state after step t is out[t]; you stored the state before it.",
            when=lambda seen: len(seen.value) == 4 and not seen.value[0].any() and seen.value[1].any(),
        ),
        mistake(
            "The state stays 0 in all steps: what was added to it was dropped. `h.add(...)` makes a new tensor, which "
            "must be kept: h = h + ...",
            when=lambda seen: not seen.value.any(),
        ),
        mistake(
            "The gate is conf times the sigmoid: a step with conf 1/4 counts a quarter. You used conf as a mask.",
            when=lambda seen: (
                torch.allclose(seen.value[0], seen.args[0][0] * torch.sigmoid(seen.args[0][0] * seen.args[1]))
                and seen.value[2].equal(seen.value[1])
                and not seen.value[1].equal(seen.value[0])
            ),
        ),
        mistake(
            "The gate is conf times the sigmoid: conf is outside of it. A step with conf 0 keeps the state.",
            stage="value",
            when=lambda seen: not seen.value[2].equal(seen.value[1]),
        ),
        mistake("Each out[t] is a separate state; you return only one.", shape=(1, 2)),
        mistake("That is one state too many: out[0] is the state after the first step.", shape=(5, 1, 2)),
        mistake("The state begins with zeros, not with x[0].", when=lambda seen: seen.value[0].equal(seen.args[0][0])),
        rtol=1e-4,
        atol=1e-4,
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("three sequences of five steps")
    generator = torch.Generator().manual_seed(5)
    some_x, some_w = torch.randn(5, 3, 4, generator=generator) * 2, torch.randn(4, generator=generator)
    seen = observe(leaky_scan, some_x, some_w, torch.rand(5, 3, 1, generator=generator))
    seen.returns(unrolled, all_equal)
    seen.leaves_arguments_alone()
    ### END HIDDEN TESTS

# %% check="fix-inplace-scan" points=1
"""Backward runs, and the gradients of x and w are right through all steps."""
with check("fix-inplace-scan") as test:

    def other_states(seen):
        """Whether the states are others than those of the formula."""
        return seen.value.shape != states.shape or not torch.allclose(seen.value, states, atol=1e-3)

    states = torch.tensor([[1.46212, -0.81757], [1.19168, -0.79660], [1.19168, -0.79660], [1.16185, -1.08318]])
    states = states.reshape(4, 1, 2)
    values_first = mistake(
        "The states are not right yet, and so the gradients are not: see the check above.", when=other_states
    )

    test("a weighted sum over all steps: the gradients of x and w")
    some_x = torch.tensor([[2.0, -1.0], [0.5, 3.0], [-4.0, 1.0], [1.0, -2.0]]).reshape(4, 1, 2)
    some_w = torch.tensor([0.5, -1.5])
    some_conf = torch.tensor([1.0, 0.5, 0.0, 0.25]).reshape(4, 1, 1)
    seen = observe(leaky_scan, some_x.requires_grad_(), some_w.requires_grad_(), some_conf)

    def is_near(argument, values):
        """Whether the gradient that reached an argument has these values."""
        return lambda seen: torch.allclose(seen.gradient(argument).flatten(), torch.tensor(values), atol=1e-3)

    seen.gives_gradients(
        {
            0: torch.tensor([0.7370, 0.2094, 0.1526, -0.0223, 0, 0, 0.0747, -0.2235]).reshape(4, 1, 2),
            1: torch.tensor([0.5785, 0.0608]),
        },
        inplace,
        written,
        mistake("Backward raised: {detail}.", when=lambda seen: seen.noted.backward_raised is not None),
        mistake(
            "Only the last state has a gradient that is right: all entries of the result are one tensor.",
            when=lambda seen: len(seen.value) == 4 and seen.value[0].equal(seen.value[-1]) and seen.value.any(),
        ),
        values_first,
        cut,
        mistake(
            "The forward is right, the gradient is not: writing through .data hides the change from autograd, "
            "and sigmoid's backward then uses the overwritten output.",
            when=is_near(1, [0.5454, -0.2929]),
        ),
        mistake(
            "The gradient stops between time steps: the state was detached, so earlier steps learn nothing from "
            "later ones.",
            when=is_near(1, [0.1692, -0.0980]),
        ),
        mistake(
            "The gate also depends on x, so x also gets a gradient through the sigmoid.",
            when=is_near(1, [0.5785, 0.0608]),
        ),
        because="The gradients are not those of the formula: {detail}.",
        rtol=1e-3,
        atol=2e-4,
    )

    ### BEGIN HIDDEN TESTS
    generator = torch.Generator().manual_seed(6)
    test.hidden("three sequences of six steps, against the formula written as one sum")
    some_x = torch.randn(6, 3, 4, generator=generator, requires_grad=True)
    some_w = torch.randn(4, generator=generator, requires_grad=True)
    some_conf = torch.rand(6, 3, 1, generator=generator)
    some_conf[2, 1] = some_conf[4] = 0
    seen = observe(leaky_scan, some_x, some_w, some_conf)
    seen.returns(unrolled, rtol=1e-3, atol=1e-4)
    seen.gives_gradients(
        unrolled, inplace, cut, because="The gradients are not those of the formula: {detail}.", rtol=1e-3, atol=1e-4
    )
    ### END HIDDEN TESTS

# %% check="fix-inplace-scan" points=0.5
"""No steps, one step, an empty batch, other dtypes and layouts: values and gradients."""
with check("fix-inplace-scan") as test:
    states_first = mistake("The states are not right yet: see the first check.", stage="value")
    keeps_dtype = mistake(
        "The states have the dtype of x: {detail}. torch.zeros and torch.empty take the default dtype unless told.",
        stage="dtype",
    )
    wrong_way = "The gradients are not those of the formula: {detail}."
    test("no steps at all: shape (0, B, D)")
    for dtype in (torch.float32, torch.float64):
        seen = observe(
            leaky_scan,
            torch.empty(0, 2, 3, dtype=dtype),
            torch.ones(3, dtype=dtype),
            torch.empty(0, 2, 1, dtype=dtype),
        )
        seen.returns(
            torch.empty(0, 2, 3, dtype=dtype),
            mistake("T = 0: there is nothing to stack, return an empty (0, B, D) tensor.", stage=("raised", "shape")),
            keeps_dtype,
        )

    ### BEGIN HIDDEN TESTS
    generator = torch.Generator().manual_seed(5)
    for idea, steps, batch, dtype in [
        ("one step", 1, 2, torch.float32),
        ("an empty batch", 3, 0, torch.float32),
        ("float64", 4, 2, torch.float64),
        ("bfloat16", 4, 2, torch.bfloat16),
    ]:
        test.hidden(idea)
        some_x = torch.randn(steps, batch, 4, generator=generator, dtype=dtype) * 2
        some_w = torch.randn(4, generator=generator, dtype=dtype)
        some_conf = torch.rand(steps, batch, 1, generator=generator, dtype=dtype)
        seen = observe(leaky_scan, some_x, some_w, some_conf)
        rounding = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {}
        seen.returns(
            unrolled,
            mistake(f"It must also work for {idea}: {{detail}}.", stage=("raised", "shape")),
            keeps_dtype,
            states_first,
            **rounding,
        )
        seen.leaves_arguments_alone()

    test.hidden("conf 0 everywhere: the state stays 0")
    some_x = torch.randn(3, 2, 4, generator=generator)
    seen = observe(leaky_scan, some_x, torch.ones(4), torch.zeros(3, 2, 1))
    seen.returns(torch.zeros(3, 2, 4), states_first)

    test.hidden("x, w and conf that are not contiguous")
    some_x = torch.randn(4, 3, 5, generator=generator).permute(2, 1, 0)
    some_w = torch.randn(8, generator=generator)[::2]
    some_conf = torch.rand(3, 5, 1, generator=generator).transpose(0, 1)
    observe(leaky_scan, some_x, some_w, some_conf).returns(unrolled, states_first)

    test.hidden("one step; a batch of none")
    for steps, batch in ((1, 2), (3, 0)):
        some_x = torch.randn(steps, batch, 4, generator=generator, requires_grad=True)
        some_conf = torch.rand(steps, batch, 1, generator=generator)
        seen = observe(leaky_scan, some_x, torch.randn(4, generator=generator, requires_grad=True), some_conf)
        seen.gives_gradients(unrolled, inplace, cut, written, because=wrong_way)

    test.hidden("x is not contiguous, only one of x and w requires grad")
    some_x = torch.randn(4, 3, 5, generator=generator).permute(2, 1, 0)
    some_w = torch.randn(4, generator=generator)
    some_conf = torch.rand(5, 3, 1, generator=generator)
    seen = observe(leaky_scan, some_x, some_w.clone().requires_grad_(), some_conf)
    seen.gives_gradients(unrolled, inplace, cut, written, because=wrong_way)
    seen = observe(leaky_scan, some_x.detach().requires_grad_(), some_w, some_conf)
    seen.gives_gradients(unrolled, inplace, written, because=wrong_way)

    for idea, some_x, some_w in [
        ("a gate that rounds to 1: the state is x", torch.tensor([20.0, 1, 2, -1]).reshape(4, 1, 1), torch.ones(1)),
        ("60 steps with gates near 1", 3 + torch.rand(60, 2, 3, generator=generator), torch.full((3,), 1.25)),
    ]:
        test.hidden(idea)
        some_conf = torch.ones(*some_x.shape[:2], 1)
        seen = observe(leaky_scan, some_x.requires_grad_(), some_w.requires_grad_(), some_conf)
        seen.returns(
            unrolled,
            mistake(
                "The states are nan where what is left of an input becomes 0. A closed form divides by the product of "
                "all 1 - g, or takes its log, and g may round to 1 and a long product to 0. Compute step after step.",
                when=lambda seen: seen.value.isnan().any(),
            ),
            mistake(
                "The states are wrong after a gate that rounds to 1, or after many gates near 1. After a gate of 1 the "
                "state is x itself. If you divide by the product of all 1 - g, a bound on the product doesn't help: "
                "compute step after step.",
                stage="value",
            ),
        )
        seen.gives_gradients(unrolled, inplace, cut, written, because=wrong_way)

    def from_other_operations(leaky_scan, base, w, conf):
        """x is computed from base; the loss is taken from the last step alone."""
        base, w = base.requires_grad_(), w.requires_grad_()
        out = leaky_scan(base * 2, w, conf)
        torch.set_grad_enabled(True)
        out[-1].square().sum().backward()
        return [base.grad, w.grad]

    test.hidden("x is the result of other operations, the loss is that of the last step")
    some_base = torch.randn(4, 2, 3, generator=generator, dtype=torch.float64)
    some_w = torch.randn(3, generator=generator, dtype=torch.float64)
    some_conf = torch.rand(4, 2, 1, generator=generator, dtype=torch.float64)
    seen = observe_scenario(from_other_operations, leaky_scan, some_base, some_w, some_conf)
    base, own_w = some_base.clone().requires_grad_(), some_w.clone().requires_grad_()
    unrolled(base * 2, own_w, some_conf)[-1].square().sum().backward()
    seen.returns([base.grad, own_w.grad], inplace, because="The gradients are not those of the formula: {detail}.")
    ### END HIDDEN TESTS
