# %% [markdown]
# ### Exercise 12.6 · Which layer explodes first?
#
# debug · solid · 15 min · 2 points
#
# The loss is nan, and from some point on every layer's output is too large or not a number. Write the monitor that
# names the first of these layers.
#
# **Contract**
#
# - `first_exploding(model, x, limit)` runs `model(x)` once, without a graph, to its end or to the first explosion. It
#   judges only modules without children. It returns a tuple (name, size) for the first output that explodes, in the
#   order in which the modules *run*, or None if no output explodes. The name is the dotted name, as in
#   `named_modules()`.
# - The *size* of an output is its root mean square, computed in float32 or better for every dtype, as a Python float.
#   Where the squares, or their sum, overflow in float32, it may be infinite, and then the output explodes. An output
#   may be a tensor, or tuples, lists and dicts of tensors, possibly nested; then the size is that of all their
#   floating-point numbers together. Integer tensors don't count, and an output without floating-point numbers never
#   explodes.
# - An output explodes if its size is above the limit (a finite number), infinite or nan. A module that runs twice is
#   judged after each run.
# - The training flags are not changed. When the function returns, or the model raises, none of your hooks is left and
#   the grad mode is the same as before. Other hooks run as ever. Exceptions from the model propagate, even a
#   KeyboardInterrupt. You may assume that the model itself catches none, and that no other hook changes an output.
#
# **Rule.** Use only hooks, and leave the model's code and weights alone.
#
# `tree_leaves(output)`, from `torch.utils._pytree`, lists the tensors in any nesting of tuples, lists and dicts.
#
# <details><summary>Hint 1</summary>
#
# Is nan greater than limit? In which order do modules run, and in which were they registered? What is 300 squared in
# float16?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Register a forward hook on every module without children. The hooks fire in running order, so the first entry that a
# hook makes is the answer. Remove the handles in `finally`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In the hook, take the floating-point tensors of the output, convert them to float32 (float64 may stay) and join them.
# If they hold any number, compute the root of the mean square. Negate the condition that must hold, because the
# negation also catches nan. Keep only the first hit.
#
# </details>


# %% answer="find-exploder"
def first_exploding(model: nn.Module, x: Tensor, limit: float) -> tuple[str, float] | None:
    """Name and size (root mean square) of the first output beyond limit in model(x), or None."""
    ### BEGIN SOLUTION
    hits: list[tuple[str, float]] = []

    def watching(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple, output: object) -> None:
            tensors = [t for t in tree_leaves(output) if isinstance(t, Tensor)]
            floats = [t for t in tensors if t.is_floating_point()]
            values = sum(t.numel() for t in floats)
            if values:
                squares = sum(t.detach().double().square().sum().item() for t in floats)
                size = math.sqrt(squares / values)
                if not size <= limit:
                    hits.append((name, size))

        return hook

    handles = []
    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(watching(name)))
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return hits[0] if hits else None
    ### END SOLUTION


# %% helpers="find-exploder"
class Times(nn.Module):
    """x times a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def in_a_row(factors):
    """body.0, body.1, … and head, each multiplying by a factor."""
    *body, head = (Times(factor) for factor in factors)
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(*body))
    model.add_module("head", head)
    return model


def hooks_on(model):
    """Every hook of the model's modules, and those that torch calls for all modules."""
    places = [*(vars(module) for module in model.modules()), vars(nn.modules.module)]
    return [
        (kind, key)
        for attributes in places
        for kind, hooks in attributes.items()
        if kind.endswith("_hooks") and isinstance(hooks, dict)
        for key in hooks
    ]


def found_in_a_row(first_exploding, factors, x, limit):
    """Look for an explosion in a model of layers that multiply by these factors."""
    return first_exploding(in_a_row(factors), x, limit)


last = "You return the last output over the limit, not the first."
left_behind = (
    "Your function left hooks behind. Remove every handle in `finally`, so that none is left after an exception either."
)


# %% check="find-exploder" points=1
"""The first layer over the limit, with its size; nan counts; no hook stays."""
with check("find-exploder") as test:
    x = torch.tensor([[1.0, -1.0, 2.0, -2.0], [6.0, -6.0, 1.0, -0.2]])

    def size_is(factor):
        """Whether the size is about the factor."""
        return lambda seen: isinstance(seen.value[1], float) and abs(seen.value[1] - factor) < 0.01 * abs(factor)

    test("body.1 and head are over the limit of 10")
    seen = observe_scenario(found_in_a_row, first_exploding, [2.0, 30.0, 3.0], x, 10.0)
    seen.returns(
        ("body.1", math.sqrt(83.04 / 8) * 60),
        mistake(
            "You return the largest value, but one outlier is no explosion here. The size is the root mean square.",
            when=size_is(12.0),
        ),
        mistake(
            "A norm grows with the number of values. The size is the root of the MEAN square.",
            when=size_is(math.sqrt(83.04) * 2),
        ),
        mistake("You return the mean square. The size is its root.", when=size_is(83.04 / 8 * 4)),
        *[
            mistake(
                "In a mean (or sum) the values cancel. The size is the root of the mean SQUARE.", when=size_is(wrong)
            )
            for wrong in (18.0, 48.0)
        ],
        mistake(last, when=lambda seen: seen.value[0] == "head"),
        mistake(
            "Name the layer without children, not the container around it.",
            when=lambda seen: seen.value[0] in ("", "body"),
        ),
        mistake("A layer exploded here, but you return None.", when=lambda seen: seen.value is None),
        because="You don't return (dotted name, root mean square) of the first output over the limit: {detail}.",
        rtol=1e-4,
        atol=0.0,
    )

    test("a layer that makes nan, and one that makes inf")
    for factors, limit, size in (([2.0, math.nan, 3.0], 10.0, math.nan), ([0.5, math.inf, 1.0], 1e9, math.inf)):
        seen = observe_scenario(found_in_a_row, first_exploding, factors, x, limit)
        seen.returns(
            ("body.1", size),
            mistake(
                "Your code didn't notice a nan, because every comparison with nan is False. Check `not size <= limit`.",
                when=lambda seen, size=size: seen.value is None and math.isnan(size),
            ),
            mistake(last, when=lambda seen: seen.value[0] == "head"),
            because="The first output that holds nan or inf is that of body.1: {detail}.",
            rtol=1e-4,
            atol=0.0,
        )

    def without_trace(first_exploding, x, limit):
        """Look for an explosion in a model with a hook of somebody else; note the hooks afterwards."""
        model, heard = in_a_row([0.5, 2.0, 1.5]), []
        model.body[1].register_forward_hook(lambda *args: heard.append(1))
        before = hooks_on(model)
        found = first_exploding(model, x, limit)
        return {
            "found": found,
            "hooks": len(hooks_on(model)) - len(before),
            "same": hooks_on(model) == before,
            "heard": len(heard),
        }

    test("nothing explodes, and no hook is left")
    seen = observe_scenario(without_trace, first_exploding, x, 10.0)
    seen.that(
        seen["hooks"] >= 0 and (seen["hooks"] > 0 or seen["same"]),
        "Your function removed somebody else's hook. Remove only your own handles.",
        stage="rule",
    )
    seen.that(seen["hooks"] == 0, left_behind, stage="rule")
    seen.that(
        seen["heard"] > 0,
        "While your function ran the model, somebody else's hook was not called. Leave other hooks in place.",
        stage="rule",
    )
    seen.that(seen["found"] is None, "Nothing exceeds the limit here: return None.")


# %% check="find-exploder" points=1
"""Another order, nested outputs, float16, a model that raises; no graph."""
with check("find-exploder") as test:
    x = torch.tensor([[1.0, -1.0, 2.0, -2.0], [6.0, -6.0, 1.0, -0.2]])

    test("body.1 and head are over the limit of 10 (here this must hold, too)")
    seen = observe_scenario(found_in_a_row, first_exploding, [2.0, 30.0, 3.0], x, 10.0)
    seen.returns(("body.1", math.sqrt(83.04 / 8) * 60), FIRST_CHECK_FIRST, rtol=1e-4, atol=0.0)

    ### BEGIN HIDDEN TESTS
    class Backwards(nn.Module):
        """Runs its layers in another order than they were registered."""

        def __init__(self, late, early):
            super().__init__()
            self.late, self.early = late, early

        def forward(self, x):
            return self.late(self.early(x))

    class Nested(nn.Module):
        """Gives whole numbers, and floats in tuples, lists and dicts."""

        def __init__(self, kind):
            super().__init__()
            self.kind = kind

        def forward(self, x):
            ids = torch.full((3,), 1000)
            return {
                "tuple": (x, x[:1] * 50),
                "list in a dict": {"ids": ids, "more": [x * 20, (x[0] * 20, None)]},
                "inf in a tuple": (x, ids, {"last": x[0] * math.inf}),
                "whole numbers": ids,
                "nothing": None,
                "empty": x[:0],
            }[self.kind]

    def other_order(first_exploding, x, limit):
        """Look for an explosion in a model that runs `early` before `late`, which was registered first."""
        return first_exploding(Backwards(Times(3.0), Times(30.0)), x, limit)

    def one_layer_twice(first_exploding, x, limit):
        """Look for an explosion where one layer runs three times."""
        layer = Times(4.0)
        return first_exploding(nn.Sequential(layer, Times(0.5), layer, layer), x, limit)

    def between_two_runs(first_exploding, x, limit):
        """Look for an explosion in a model that runs layer 0, then layer 1, which multiplies by 30, then layer 0."""
        layer = Times(1.0)
        return first_exploding(nn.Sequential(layer, Times(30.0), layer), x, limit)

    def changed_in_place(first_exploding, x, limit):
        """Look for an explosion where the next layer changes the output in place."""
        return first_exploding(nn.Sequential(Times(-30.0), nn.Hardtanh(0.0, 1.0, inplace=True)), x, limit)

    class Residual(nn.Module):
        """A layer, and what it gives added a hundred times."""

        def __init__(self):
            super().__init__()
            self.layer = Times(0.5)

        def forward(self, x):
            return x + 100 * self.layer(x)

    def between_layers(first_exploding, x, limit):
        """Look for an explosion that happens in a container's own code, after its layers have run."""
        return first_exploding(nn.Sequential(Residual(), Times(2.0)), x, limit)

    def alone(first_exploding, x, limit):
        """Look for an explosion in a model that is one layer."""
        return first_exploding(Times(30.0), x, limit)

    def nested(first_exploding, kind, x, limit):
        """Look for an explosion in a layer whose output is no single floating-point tensor."""
        return first_exploding(nn.Sequential(Times(0.5), Nested(kind)), x, limit)

    def guarded(first_exploding, x, limit, raises, recording):
        """Look for an explosion in a model that notes how it is run, and perhaps raises an exception of this name."""
        runs, replaced, call = [], [], nn.Module.__call__

        class Guard(nn.Module):
            """Notes how it is run; may raise."""

            runs = 0

            def forward(self, x):
                self.runs += 1
                runs.append([torch.is_grad_enabled(), self.training])
                replaced.append(nn.Module.__call__ is not call or any("forward" in vars(m) for m in model.modules()))
                if raises:
                    raise {"ArithmeticError": ArithmeticError, "KeyboardInterrupt": KeyboardInterrupt}[raises]("broken")
                return x

        model = nn.Sequential(nn.Linear(4, 4), Guard(), Times(2.0), nn.Dropout(0.0))
        model[1].eval()
        before, flags, raised, found = hooks_on(model), [m.training for m in model.modules()], "", None
        with torch.set_grad_enabled(recording):
            try:
                found = first_exploding(model, x, limit)
            except (ArithmeticError, KeyboardInterrupt) as error:
                raised = type(error).__name__
            recording = torch.is_grad_enabled()
        return {
            "found": found,
            "raised": raised,
            "runs": runs,
            "own runs": model[1].runs,
            "replaced": any(replaced),
            "flags": flags == [m.training for m in model.modules()],
            "hooks": hooks_on(model) == before,
            "recording": recording,
        }

    size = math.sqrt(83.04 / 8)

    test.hidden("layers that run in another order than they were registered")
    observe_scenario(other_order, first_exploding, x, 10.0).returns(
        ("early", size * 30),
        mistake(
            "You went through the layers in the order of registration, but this model runs them in a different order.",
            when=lambda seen: seen.value[0] == "late",
        ),
        rtol=1e-4,
        atol=0.0,
    )

    test.hidden("a layer that runs three times")
    observe_scenario(one_layer_twice, first_exploding, x, 20.0).returns(
        ("0", size * 8),
        mistake(
            "Judge a layer each time it runs.",
            when=lambda seen: seen.value is None,
        ),
        mistake(last, when=lambda seen: seen.value[1] > size * 20),
        because="The first output over the limit is that of layer 0 when it runs again: {detail}.",
        rtol=1e-4,
        atol=0.0,
    )

    test.hidden("a layer explodes between two runs of another")
    observe_scenario(between_two_runs, first_exploding, x, 10.0).returns(
        ("1", size * 30),
        mistake(
            "You name layer 0, because it ran first. But its first output was not over the limit: layer 1 exploded "
            "before layer 0 ran again. Keep the first output over the limit, whichever layer it is from.",
            when=lambda seen: seen.value is not None and seen.value[0] == "0",
        ),
        rtol=1e-4,
        atol=0.0,
    )

    test.hidden("the next layer works in place")
    observe_scenario(changed_in_place, first_exploding, x, 10.0).returns(
        ("0", size * 30),
        mistake(
            "A later layer changed this output in place before you read it. Judge it in the hook.",
            when=lambda seen: seen.value is None or seen.value[1] <= 10.0,
        ),
        rtol=1e-4,
        atol=0.0,
    )

    test.hidden("a container adds to what its layer gives")
    observe_scenario(between_layers, first_exploding, x, 20.0).returns(
        ("1", size * 102),
        mistake(
            "Module 0 has a child: only modules without children are named, here the next one that runs. Put no hook "
            "on a container.",
            when=lambda seen: seen.value[0] in ("0", ""),
        ),
        because=(
            "The sum in module 0 is too large, and the first module without children whose output shows it is 1: "
            "{detail}."
        ),
        rtol=1e-4,
        atol=0.0,
    )

    test.hidden("a model that is one layer")
    observe_scenario(alone, first_exploding, x, 10.0).returns(
        ("", size * 30),
        because="The model itself may be a module without children. Its name is then the empty string: {detail}.",
        rtol=1e-4,
        atol=0.0,
    )

    nest = (
        "An output may be a tuple, list or dict. Its size is that of all its floating-point numbers together: {detail}."
    )
    in_tuple = math.sqrt((83.04 + 10 * 2500) / 12) / 2
    for kind, found in (
        ("tuple", ("1", in_tuple)),
        ("list in a dict", ("1", math.sqrt((83.04 + 10) / 12) * 10)),
        ("inf in a tuple", ("1", math.inf)),
        ("whole numbers", None),
        ("nothing", None),
        ("empty", None),
    ):
        test.hidden(f"an output that is no single floating-point tensor: {kind}")
        without = "An output without floating-point numbers never explodes: {detail}."
        because = without if found is None else nest
        observe_scenario(nested, first_exploding, kind, x, 10.0).returns(
            found, mistake(because, stage="raised"), because=because, rtol=1e-4, atol=0.0
        )

    halves = mistake("Squares overflow in float16. Compute in float32.", when=lambda seen: seen.value is not None)
    for idea, factors, limit, found in (
        ("float16: values of 300 are not infinite", [50.0, 1.0], 1000.0, None),
        ("float16: a size of 161 over a limit of 100", [50.0, 1.0], 100.0, ("body.0", size * 50)),
    ):
        test.hidden(idea)
        seen = observe_scenario(found_in_a_row, first_exploding, factors, x.half(), limit)
        seen.expecting(halves).returns(found, rtol=2e-3, atol=0.0)

    test.hidden("values that are all as large as the limit")
    seen = observe_scenario(found_in_a_row, first_exploding, [1.0, 1.0], torch.ones(2, 4), 1.0)
    seen.returns(None, because="Only a size above the limit explodes. Here the sizes are equal to it: {detail}.")

    for idea, raises, outside in (
        ("no graph, one run, flags left alone", "", True),
        ("a model that raises", "ArithmeticError", True),
        ("a model that raises KeyboardInterrupt", "KeyboardInterrupt", True),
        ("no graph, one run, flags left alone; gradients are off", "", False),
    ):
        test.hidden(idea)
        seen = observe_scenario(guarded, first_exploding, x, 1e6, raises, outside)
        seen.that(seen["hooks"], left_behind, stage="rule")
        seen.that(seen["raised"] == raises, "The model's exception must reach the caller.")
        seen.that(len(seen["runs"]) == 1, "Run the model exactly once.", stage="rule")
        of_copy = (
            "The model that you got hasn't run, because you ran a copy of it. Put the hooks on the model itself, and "
            "remove them in `finally`."
        )
        seen.that(seen["own runs"] == 1, of_copy, stage="rule")
        in_place = "While the model ran, its forward or __call__ was not its own. Use hooks, and leave its code alone."
        seen.that(not seen["replaced"], in_place, stage="rule")
        recording, training = seen["runs"][0]
        seen.that(not recording, "Run the model without a graph, because nothing here needs a gradient.", stage="rule")
        seen.that(
            seen["flags"] and not training,
            "The training flags were changed, during the run or afterwards. Leave them alone.",
            stage="arguments",
        )
        seen.that(
            seen["recording"] == outside,
            "Your function changed whether gradients are recorded.",
            mistake(
                "The caller had turned gradients off, and now they are on. `with torch.no_grad():` restores the "
                "caller's setting.",
                when=lambda seen: seen["recording"],
            ),
            stage="arguments",
        )
    ### END HIDDEN TESTS
