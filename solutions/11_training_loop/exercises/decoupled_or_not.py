# %% [markdown]
# ### Exercise 11.8 · Which weight decay is it?
#
# measure · solid · 15 min · 1 point
#
# A colleague gives you a function that builds an optimizer, and you can't see which optimizer it is. Does its weight
# decay go through the gradient, as in Adam, or directly to the weight, as in AdamW? Find out with an experiment.
#
# **Contract**
#
# - `make_optimizer(parameters)` builds an adaptive optimizer over a list of parameters of any shape and floating-point
#   dtype. "Adaptive" means that it divides by the size of the gradient from the first step on, as Adam, NAdam, Adamax,
#   RMSprop and Adagrad do. You may call it several times.
# - Return True if the decay is decoupled (the weight shrinks by a fixed proportion, whatever the gradients are) and
#   False if it is added to the gradient. If the optimizer doesn't decay at all, raise ValueError.
# - lr and weight_decay may be anything from 1e-4 to 0.5. The result must be right for all settings of amsgrad, eps (up
#   to 1e-5) and similar options.
#
# **Rule.** Decide from how far the optimizer's steps move weights, not from its class, its name, its defaults, its
# state or its source. The check can see that you make a step, but not how you decide, so please keep to the rule.
#
# <details><summary>Hint 1</summary>
#
# If the gradient is zero, how large is Adam's first step for a weight of 1, and for a weight of 1000?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With gradients of zero, one step shows the decay alone. One weight can't tell the two kinds apart, so give the
# optimizer a small and a large weight. Which is the same for both, the step or the proportion?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Take two parameters of very different size, in float64 (float32 loses a proportion of 1e-8), with gradients of zeros.
# Take one step and compare the *relative* changes. If the decay is decoupled, the proportions are equal. If it goes
# through the gradient, the division makes the absolute steps equal.
#
# </details>


# %% answer="decoupled-or-not"
def is_decoupled(make_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> bool:
    """Whether an adaptive optimizer's weight decay acts on the weight, not through the gradient."""
    ### BEGIN SOLUTION
    sizes = (1.0, 1000.0)
    weights = [nn.Parameter(torch.tensor(size, dtype=torch.float64)) for size in sizes]
    optimizer = make_optimizer(weights)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    small, large = (1 - weight.item() / size for weight, size in zip(weights, sizes, strict=True))
    if small == large == 0:
        raise ValueError("this optimizer does not decay")
    return abs(small / large - 1) < 0.01
    ### END SOLUTION


# %% check="decoupled-or-not" points=1
"""An experiment decides, whatever the class, the settings and the rates; no decay at all."""
with check("decoupled-or-not") as test:

    def measured(is_decoupled, name, lr, weight_decay, options=None, wrapped=False):
        """Ask about this optimizer, and watch what is done with it."""
        grads, dtypes = [], []

        class Wrapped(torch.optim.Optimizer):
            """An optimizer that hands its steps on to another one."""

            def __init__(self, params, inner):
                super().__init__(params, {})
                self.inner = inner

            def step(self, closure=None):
                return self.inner.step(closure)

        def noting(optimizer, args, kwargs):
            for p in (p for group in optimizer.param_groups for p in group["params"]):
                if len(grads) < 1000:
                    grads.append("none" if p.grad is None else "some" if p.grad.any().item() else "zero")
                    dtypes.append(str(p.dtype))

        def make_optimizer(parameters):
            parameters = list(parameters)
            kind = getattr(torch.optim, name)
            optimizer = kind(parameters, lr=lr, weight_decay=weight_decay, **(options or {}))
            optimizer.register_step_pre_hook(noting)
            return Wrapped(parameters, optimizer) if wrapped else optimizer

        raised, found = None, None
        try:
            found = is_decoupled(make_optimizer)
        except ValueError:
            raised = "ValueError"
        facts = {
            "kind": f"{type(found).__module__}.{type(found).__name__}",
            "value": found if isinstance(found, bool) else None,
        }
        return facts | {"raised": raised, "grads": sorted(set(grads)), "dtypes": sorted(set(dtypes))}

    by_class = (
        "You decided without a step, by the class or its name: Adam(decoupled_weight_decay=True) is decoupled too, and "
        "a wrapper hides the class."
    )
    by_default = mistake(
        "You read the optimizer's settings (its defaults or its groups), which a wrapper doesn't have: measure a step.",
        raises="AttributeError: 'Wrapped'|KeyError: '(lr|weight_decay|decoupled|betas)",
    )
    by_state = mistake(
        "The names in the state differ from optimizer to optimizer, and a wrapper has none: measure the weights.",
        raises="KeyError: '(exp_avg|square_avg|sum|step)",
    )
    by_none = mistake(
        "The optimizer skips a parameter whose gradient is None, so it doesn't decay either. Give it a gradient "
        "of zeros.",
        when=lambda seen: seen["grads"] == ["none"],
    )
    by_gradient = mistake(
        "With a non-zero gradient, the step hides the decay. Set the gradient to zero (not to None).",
        when=lambda seen: "some" in seen["grads"],
    )

    test("Adam and AdamW")
    adam = observe_scenario(measured, is_decoupled, "Adam", 0.1, 0.1)
    adamw = observe_scenario(measured, is_decoupled, "AdamW", 0.1, 0.1)
    for seen in (adam, adamw):
        seen.that(
            seen["kind"] == "builtins.bool" or seen["raised"] is not None,
            "Return True or False, a Python bool.",
            mistake(
                "NumPy's and torch's booleans are not Python's: convert them with bool().",
                when=lambda seen: seen["kind"].startswith(("numpy.", "torch.")),
            ),
            stage="type",
        )
    adamw.that(
        [adam["value"], adamw["value"]] != [True, False],
        "You return True for False and False for True.",
    )
    for seen, decoupled, name in (
        (adam, False, "Adam adds its decay to the gradient"),
        (adamw, True, "AdamW's is decoupled"),
    ):
        came = "raised ValueError" if seen["raised"] else f"returned {seen['value']}"
        seen.that(
            seen["value"] is decoupled,
            f"{name}, and you {came}.",
            by_none,
            by_gradient,
            mistake(
                "A single weight can't tell the two kinds apart. Compare a small and a large weight.",
                when=lambda seen: seen["value"] is True,
            ),
        )

    test("the same two, hidden behind a class of their own: only steps can tell")
    for name, decoupled in (("Adam", False), ("AdamW", True)):
        seen = observe_scenario(measured, is_decoupled, name, 0.1, 0.1, {}, True)
        seen.expecting(by_state, by_default)
        seen.that(bool(seen["grads"]), by_class, stage="rule")
        seen.that(
            seen["value"] is decoupled,
            f"Behind a class of its own, {name} was taken for the other kind: the class, its name, its settings and "
            "its state must not decide, only how far the weights move.",
            stage="rule",
        )

    threshold = (
        "A fixed threshold on the step fails for other values of lr and weight_decay. Compare two weights with "
        "each other."
    )

    def judge(sentence, decoupled, *arguments):
        """The verdict is right, and it came from stepping."""
        seen = observe_scenario(measured, is_decoupled, *arguments)
        seen.expecting(by_state, by_default)
        seen.that(bool(seen["grads"]), by_class, stage="rule")
        rounded = mistake(
            "In float32 a proportion of 1e-8 is lost. Run the experiment in float64.",
            when=lambda seen: arguments[1] * arguments[2] < 1e-6 and "torch.float32" in seen["dtypes"],
        )
        seen.that(seen["value"] is decoupled, sentence, rounded, by_gradient)

    by_name = (
        "Adam and NAdam have decoupled_weight_decay=True as well as False: neither the class nor its name tells which "
        "decay it is. Compare how far two weights move."
    )
    test("decoupled_weight_decay=True, other members of the family")
    for name in ("Adam", "NAdam"):
        for decoupled in (True, False):
            judge(by_name, decoupled, name, 0.1, 0.1, {"decoupled_weight_decay": decoupled})
            judge(by_name, decoupled, name, 0.1, 0.1, {"decoupled_weight_decay": decoupled}, True)
            judge(threshold, decoupled, name, 0.02, 0.3, {"decoupled_weight_decay": decoupled}, True)

    ### BEGIN HIDDEN TESTS
    test.hidden("other lr and weight_decay")
    for lr, weight_decay in ((0.5, 0.5), (0.01, 0.01), (0.5, 1e-4), (1e-4, 0.5), (1e-4, 1e-4)):
        judge(threshold, True, "AdamW", lr, weight_decay)
        judge(threshold, False, "Adam", lr, weight_decay)

    test.hidden("an lr and a weight_decay for which equal proportions differ by rounding")
    rounding = (
        "With lr=0.01815 and weight_decay=0.2733 the proportions by which AdamW shrinks a weight of 1 and one of 1000 "
        "are equal only up to rounding. Don't compare them exactly."
    )
    judge(rounding, True, "AdamW", 0.01815, 0.2733)

    test.hidden("other adaptive optimizers and settings")
    for name, decoupled, options in [
        ("RMSprop", False, {}),
        ("RMSprop", False, {"momentum": 0.9, "centered": True}),
        ("Adagrad", False, {}),
        ("Adamax", False, {}),
        ("Adam", False, {"amsgrad": True, "betas": (0.5, 0.9)}),
        ("AdamW", True, {"amsgrad": True, "betas": (0.5, 0.9)}),
        ("Adam", False, {"eps": 1e-5}),
        ("AdamW", True, {"eps": 1e-5}),
        ("Adam", False, {"maximize": True, "foreach": True}),
        ("AdamW", True, {"maximize": True, "foreach": True}),
    ]:
        judge(threshold, decoupled, name, 0.05, 0.2, options)
        judge(threshold, decoupled, name, 0.002, 0.05, options, True)

    test.hidden("no decay at all")
    for name, lr in (("Adam", 0.1), ("AdamW", 0.1), ("AdamW", 1e-4), ("RMSprop", 0.01), ("Adagrad", 0.5)):
        seen = observe_scenario(measured, is_decoupled, name, lr, 0.0)
        missing = "If the optimizer does not decay, your function must raise ValueError."
        seen.expecting(mistake(missing, stage="raised"))
        seen.that(seen["raised"] == "ValueError", missing, stage="value")
    ### END HIDDEN TESTS
