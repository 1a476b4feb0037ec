# %% [markdown]
# ### Exercise 6.2 · Capture features and leave no trace
#
# implement · warm-up · 15 min · 3 points
#
# What does the third layer of somebody else's model see in your data? Capture the outputs of any layers during one
# forward pass without touching the model's code, and leave the model as you found it. (In Exercise 12.6, such hooks
# find the layer that explodes first.)
#
# **Contract**
#
# - Call `model(*args, **kwargs)` exactly once. Return a pair: the model's output, unchanged and still attached to its
#   graph, and a dict `features` whose keys are exactly `names`.
# - `features[name]` is a list with one tensor per call of the submodule called `name` (a dotted path; `""` is the model
#   itself), in call order. If the submodule is never called, the list is empty. If it is registered under two names,
#   `names` may contain either or both.
# - Every feature is a separate, detached copy that the caller may change in place. Neither later in-place operations
#   nor further calls of your function change it or the dict.
# - When the function returns, or the model's forward raises, the model has the same hooks and the same training mode as
#   before. Exceptions from the model propagate.
# - An unknown name raises `KeyError` with that name, before the model runs and before any hook is registered.
# - You may assume that the outputs asked for are tensors, that no other hook replaces them, that no module's `forward`
#   has been replaced, and that no name is given twice.
#
# **Rule.** Leave the model's own code, its state, other people's hooks and the caller's grad mode, whatever it is, as
# they are.
#
# <details><summary>Hint 1</summary>
#
# What is the value of the loop variable by the time the hook runs? And what happens to a layer's output when an
# in-place ReLU comes next?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Look all names up first. Bind the name when you define each hook (a default argument or a small factory); store a
# detached *clone*; keep the handles and remove them in a `finally`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `named_modules` can give you every name (read about `remove_duplicate`), and a dict lookup raises the KeyError for
# you. Write a factory that takes the list of one name and returns a hook that appends a copy of the output to it and
# returns None. Register the hooks inside the `try`. Call the model, not its `forward`, which would skip the hooks of
# the model itself.
#
# </details>


# %% answer="capture-features"
def capture_features(
    model: nn.Module, names: Sequence[str], *args: Any, **kwargs: Any
) -> tuple[Any, dict[str, list[Tensor]]]:
    """The model's output for these arguments; the named submodules' outputs, one for each call."""
    ### BEGIN SOLUTION
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}  # raises KeyError for an unknown name
    features: dict[str, list[Tensor]] = {name: [] for name in names}

    def storing(kept: list[Tensor]) -> Callable:
        def hook(module: nn.Module, args: tuple, output: Tensor) -> None:
            kept.append(output.detach().clone())

        return hook

    handles = []
    try:
        for name, module in chosen.items():
            handles.append(module.register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()
    ### END SOLUTION


# %% helpers="capture-features"
def small_net():
    """body.0, body.1, body.2, head and last, one after the other."""
    torch.manual_seed(3)
    net = nn.Sequential()
    net.add_module("body", nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)))
    net.add_module("head", nn.Linear(4, 2))
    net.add_module("last", nn.Tanh())
    return net


def features_of(capture, names, x):
    """Capture features of the small net."""
    return capture(small_net(), names, x)


def filled(seen):
    """The names under which something arrived."""
    return [name for name, entries in seen.value[1].items() if not isinstance(entries, list) or entries]


pair = "Return the model's output and the dict of features, in this order."
still_attached = (
    "The stored feature still requires grad, so it keeps the whole graph alive. "
    "Detach it (but not the output you return)."
)


# %% check="capture-features" points=1
"""Output and features are those of the named layers; features are detached, the output is not."""
with check("capture-features") as test:

    def all_under_one_name(seen):
        """Whether the hooks share a name that they can't all have."""
        (name,) = filled(seen)
        return name != "head" or len(seen.value[1][name]) > 1

    children_only = (
        "Your function finds only direct children, and 'body.0' is deeper. Look up the names in "
        "named_modules() or with get_submodule()."
    )
    known = [
        mistake(children_only, raises=r"(Key|Attribute)Error.*body\.0"),
        mistake(pair, when=lambda seen: not isinstance(seen.value, tuple) or len(seen.value) != 2),
        mistake(pair, when=lambda seen: isinstance(seen.value[0], dict) and isinstance(seen.value[1], Tensor)),
        mistake(
            "Every name has a list, with one entry for each call; you stored the tensor itself.",
            when=lambda seen: isinstance(next(iter(seen.value[1].values())), Tensor),
        ),
        mistake(
            "Every feature landed under one name: the hook looked up the loop variable when it ran, "
            "not when you registered it. Bind it with a default argument.",
            when=all_under_one_name,
        ),
        mistake(children_only, when=lambda seen: filled(seen) == ["head"]),
        mistake(
            "The features are there, but the output is missing: return what the model returned.",
            when=lambda seen: seen.value[0] is None,
        ),
        mistake(
            "The keys of the dict must be exactly the names that were asked for; {detail}.",
            stage="shape",
            when=lambda seen: set(seen.value[1]) != {"head", "body.0", "body.2"},
        ),
    ]

    test("three layers of a nested model, asked for in another order")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    net = small_net()
    body_0 = net.body[0](x)
    body_2 = net.body[2](net.body[1](body_0))
    head = net.head(body_2)
    seen = observe_scenario(features_of, capture_features, ["head", "body.0", "body.2"], x).expecting(*known)
    seen.returns(
        (net.last(head), {"head": [head], "body.0": [body_0], "body.2": [body_2]}),
        mistake(
            "Those are the layers' inputs; a feature is what a layer gives out.",
            when=lambda seen: isinstance(seen.value[1], dict) and torch.allclose(seen.value[1]["head"][0], body_2),
        ),
    )

    test("the features are detached")
    attached = any(entry.requires_grad for entries in seen.value[1].values() for entry in entries)
    seen.that(not attached, still_attached, stage="gradient")

    def trained_by(capture, x):
        """Capture features, then run a backward pass from the returned output."""
        net = small_net()
        output = capture(net, ["body.0", "head"], x)[0]
        grad_mode = torch.is_grad_enabled()
        tracked = isinstance(output, Tensor) and output.requires_grad
        if tracked:
            with torch.enable_grad():
                output.square().sum().backward()
        gradients = {name: p.grad for name, p in net.named_parameters()}
        return {"tracked": tracked, "gradients": gradients, "grad mode": grad_mode}

    test("the returned output still trains the model")
    seen = observe_scenario(trained_by, capture_features, x)
    seen.that(
        seen["tracked"],
        "The returned output has lost its graph, so it can't train the model: detach the stored features only, "
        "return nothing from the hook, and leave the grad mode as it is.",
        stage="gradient",
    )
    net = small_net()
    net(x).square().sum().backward()
    for name, parameter in net.named_parameters():
        came = seen["gradients"][name]
        seen.that(
            isinstance(came, Tensor) and torch.allclose(came, parameter.grad),
            f"A backward pass from the returned output gives another gradient for {name} than without your hooks.",
            mistake(
                "The returned output does not train this model: no gradient reaches its parameters. Run the model "
                "itself, not a copy.",
                when=lambda seen: all(came is None for came in seen["gradients"].values()),
            ),
            stage="gradient",
        )
    seen.that(seen["grad mode"], "After the call the grad mode is off: leave it as it is.", stage="rule")


# %% check="capture-features" points=1
"""No hook stays and none is lost, also after an error; an unknown name is refused at once."""
with check("capture-features") as test:

    def net_with_norm():
        """body.0, body.1, body.2 and head, one after the other."""
        net = nn.Sequential()
        net.add_module("body", nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)))
        net.add_module("head", nn.Linear(4, 2))
        return net

    def hooks_on(model):
        """Every hook of the model's modules, and those that torch calls for all modules, with their places."""
        places = [(name or "the model", vars(module)) for name, module in model.named_modules()]
        places.append(("all modules", vars(nn.modules.module)))
        return [
            (f"{kind} of {place}", key, hook)
            for place, attributes in places
            for kind, hooks in attributes.items()
            if kind.endswith("_hooks") and isinstance(hooks, dict)
            for key, hook in hooks.items()
        ]

    def changed_hooks(model, before):
        """The places of hooks that came, and of hooks that went."""
        after = hooks_on(model)
        came = [place for place, key, hook in after if (place, key, hook) not in before]
        return {"came": came, "went": [place for place, key, hook in before if (place, key, hook) not in after]}

    def condition_of(model):
        """What must stay as it is, apart from hooks."""
        return {
            "the training modes": [module.training for module in model.modules()],
            "the gradients": [parameter.grad is None for parameter in model.parameters()],
            "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
            "the parameters": [parameter.tolist() for parameter in model.parameters()],
            "the attributes": [sorted(vars(module)) for module in model.modules()],
        }

    def with_hooks_of_others(capture, x):
        """Capture features of a model on which somebody else has hooks; two of them count calls."""
        net, calls = net_with_norm(), []
        net.body[1].eval()
        net.body[0].register_forward_hook(lambda *args: calls.append("body.0"))
        net.body[2].register_forward_pre_hook(lambda *args: calls.append("body.2"))
        net.head.register_full_backward_hook(lambda *args: None)
        before, condition = hooks_on(net), condition_of(net)
        returned = capture(net, ["body.0", "head"], x)
        changed = [what for what, was in condition.items() if condition_of(net)[what] != was]
        features = returned[1] if isinstance(returned, tuple) and len(returned) == 2 else None
        features = features if isinstance(features, dict) else {}
        entries = [len(entry) for entry in features.values() if isinstance(entry, list)]
        return {"hooks": changed_hooks(net, before), "calls": calls, "entries": entries, "changed": changed}

    def judge_hooks(seen, sentence="{places}"):
        """Judge that the hooks are those that were there before."""
        came, went = seen["hooks"]["came"], seen["hooks"]["went"]
        seen.that(
            not went,
            f"A hook that isn't yours disappeared ({', '.join(went)}). Remove your own handles only, and never"
            " clear the dictionary.",
            stage="rule",
        )
        seen.that(not came, sentence.replace("{places}", ", ".join(dict.fromkeys(came))), stage="rule")

    test("no hook is left, and the hooks of others survive")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    seen = observe_scenario(with_hooks_of_others, capture_features, x).expecting(
        mistake(
            "Your function finds only direct children, and 'body.0' is deeper. Look up the names in "
            "named_modules() or with get_submodule().",
            raises=r"(Key|Attribute)Error.*body\.0",
        )
    )
    judge_hooks(
        seen,
        "Hooks are still registered after the call; the next forward would go on collecting. Remove the handles "
        "({places}).",
    )
    seen.that(
        seen["calls"] == ["body.0", "body.2"],
        "The model must run once, and the hooks of others fire in it as usual.",
        stage="rule",
    )
    seen.that(seen["entries"] == [1, 1], "Two layers were asked for, and they were not both captured, once each.")

    ### BEGIN HIDDEN TESTS
    test.hidden("training modes, parameters and gradients of the model stay")
    changed = ", ".join(seen["changed"])
    seen.that(not changed, f"Something of the model was changed: {changed}.", stage="arguments")

    class Broken(nn.Module):
        """A layer that raises, or is interrupted as by Ctrl-C."""

        def __init__(self, interrupted):
            super().__init__()
            self.error = KeyboardInterrupt if interrupted else ArithmeticError

        def forward(self, x):
            raise self.error("this layer is broken")

    def forward_raises(capture, x, interrupted):
        """Capture features of a model whose forward raises or is interrupted."""
        net, raised = net_with_norm(), "nothing"
        net.add_module("broken", Broken(interrupted))
        net.head.register_forward_hook(lambda *args: None)
        before = hooks_on(net)
        try:
            capture(net, ["", "body.0", "head", "broken"], x)
        except BaseException as error:
            raised = type(error).__name__
        return {"raised": raised, "hooks": changed_hooks(net, before)}

    for idea, interrupted, error in (
        ("a forward that raises: no hook is left, the exception passes through", False, "ArithmeticError"),
        ("a forward that is interrupted: no hook is left", True, "KeyboardInterrupt"),
    ):
        test.hidden(idea)
        seen = observe_scenario(forward_raises, capture_features, x, interrupted)
        judge_hooks(seen, "When forward raised, your hooks stayed. Removal belongs into `finally`.")
        seen.that(
            seen["raised"] == error,
            "The model's own exception must reach the caller; it was swallowed or replaced by another one.",
            stage="raised",
        )

    def unknown_name(capture, names, x):
        """Ask for a name that does not exist."""
        net, runs, raised = net_with_norm(), [], ["nothing", ""]
        net.body[0].register_forward_pre_hook(lambda *args: runs.append(1))
        before, number = hooks_on(net), RemovableHandle.next_id  # counts every hook that is registered anywhere
        try:
            capture(net, names, x)
        except Exception as error:
            raised = [type(error).__name__, str(error)]
        tried = RemovableHandle.next_id - number
        return {"raised": raised, "runs": len(runs), "hooks": changed_hooks(net, before), "tried": tried}

    refused = (
        "An unknown name must raise KeyError with that name before anything runs; "
        "otherwise a typo gives an empty result."
    )
    too_late = "The unknown name was refused, but hooks for the other names were left behind. Look up all names first."
    for idea, names, unknown in [
        ("an unknown name after known ones", ["body.0", "head", "haed"], "haed"),
        ("an unknown name before known ones", ["body.7", "head"], "body.7"),
        ("the name of a parameter", ["head.weight"], "head.weight"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(unknown_name, capture_features, names, x)
        raised, message = seen["raised"]
        seen.that(raised != "nothing", refused, stage="raised")
        seen.that(raised == "KeyError", f"An unknown name must raise KeyError; it raised {raised}.", stage="raised")
        seen.that(seen["runs"] == 0, "The model ran before the unknown name was refused. Look up all names first.")
        judge_hooks(seen, too_late)
        seen.that(
            seen["tried"] == 0,
            "Hooks for the other names were registered before the unknown name was refused. Look up all names first.",
            stage="rule",
        )
        seen.that(unknown in message, "The KeyError must name the unknown name.", stage="raised")

    def captured_before(capture, x):
        """Capture features of two models: what the first call returned, before and after the second."""
        features = capture(small_net(), ["body.0"], x)[1]
        before = str(features)
        capture(small_net(), ["body.0", "head"], 2 * x)
        return {"before": before, "after": str(features)}

    test.hidden("two models, one after the other")
    seen = observe_scenario(captured_before, capture_features, x)
    seen.that(
        seen["before"] == seen["after"],
        "The second call of your function changed what the first one had returned, because both use one dict or list "
        "that outlives a call. Make the dict and its lists within the function.",
        stage="aliasing",
    )
    ### END HIDDEN TESTS


# %% check="capture-features" points=1
"""Features are copies, one for each call; names of all kinds; the model runs in its own mode."""
with check("capture-features") as test:
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])

    def before_in_place(capture, x):
        """The layer after the captured ones works in place; then the returned output is changed in place."""
        torch.manual_seed(4)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2), nn.Identity())
        returned = capture(net, ["0", "2", "3", ""], x)
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], Tensor)):
            return None
        with torch.no_grad():
            returned[0].fill_(7.0)
        return returned[1]

    def too_many(seen):
        """Whether every name has a list, and that of the model itself more than one entry."""
        full = all(isinstance(entries, list) and entries for entries in seen.value.values())
        return full and len(seen.value[""]) > 1

    test("what works in place later does not change a feature")
    torch.manual_seed(4)
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    before, after = first(x), second(first(x).relu())
    seen = observe_scenario(before_in_place, capture_features, x).expecting(
        mistake(
            "A name was not found. '' means the model itself, and a dotted name may be deeper than "
            "named_children() goes.",
            raises="KeyError|AttributeError",
        )
    )
    seen.that(seen.value is not None, pair, stage="type")
    seen.returns(
        {"0": [before], "2": [after], "3": [after], "": [after]},
        mistake(
            "Hooks on the model itself did not fire: model.forward(...) skips them; named_children() does not list it.",
            when=lambda seen: not seen.value[""] and all(seen.value[name] for name in "023"),
        ),
        mistake("The name '' is the model itself and no other module.", when=too_many),
        mistake(
            "The captured tensor changed after you stored it: the next layer works in place and detach() shares "
            "memory. Clone it.",
            when=lambda seen: torch.equal(seen.value["0"][0], before.relu()),
        ),
        mistake(
            "A feature changed when the returned output was changed in place. Every feature needs its own memory.",
            when=lambda seen: any((entries[0] == 7).all() for entries in seen.value.values()),
        ),
        because="Each name has a list: the outputs of its layer, one for each call, as they were at that moment.",
    )

    class Again(nn.Module):
        """Uses one layer three times, another one not at all."""

        def __init__(self):
            super().__init__()
            self.cell, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, start, *, steps=1, shift=0.0):
            state = start + shift
            for _ in range(steps):
                state = self.cell(state)
            return {"state": state, "steps": steps}

    def repeated(capture, start):
        """One layer, several calls; keyword arguments; a dict as output."""
        torch.manual_seed(5)
        return capture(Again().double(), ("cell", "idle"), start, steps=3, shift=0.5)

    test("a layer called three times gives three entries; one that is not called gives none")
    torch.manual_seed(5)
    start, again = torch.tensor([[0.25, -1.5]], dtype=torch.float64), Again().double()
    one = again.cell(start + 0.5)
    two = again.cell(one)
    three = again.cell(two)
    seen = observe_scenario(repeated, capture_features, start)
    seen.returns(
        ({"state": three, "steps": 3}, {"cell": [one, two, three], "idle": []}),
        mistake(
            "A layer used twice must give two entries; a plain assignment keeps only the last.",
            when=lambda seen: len(seen.value[1]["cell"]) == 1,
        ),
        mistake(
            "The name of a layer that was not called must still be a key of the dict, with an empty list.",
            when=lambda seen: "idle" not in seen.value[1],
        ),
        mistake(
            "The entries must be in the order of the calls.",
            when=lambda seen: torch.allclose(seen.value[1]["cell"][0], three),
        ),
        mistake("A feature has the dtype of the output: {detail}.", stage="dtype"),
        mistake("The model's output may be of any kind, here a dict: return it as it is.", raises="AttributeError"),
        mistake("All arguments of the call must reach the model, including keyword arguments.", raises="TypeError"),
    )
    seen.that(seen.value[0]["state"].requires_grad, "The returned output has lost its graph.", stage="gradient")

    ### BEGIN HIDDEN TESTS
    net = small_net()
    body_0 = net.body[0](x)
    body_2 = net.body[2](net.body[1](body_0))
    net = small_net()

    test.hidden("the model itself, under the name ''")
    seen = observe_scenario(features_of, capture_features, ["", "body.1", "body"], x)
    seen.returns(
        (net(x), {"": [net(x)], "body.1": [torch.tanh(body_0)], "body": [body_2]}),
        mistake(
            "Hooks on the model itself did not fire: model.forward(...) skips them; named_children() does not list it.",
            when=lambda seen: filled(seen) == ["body.1", "body"],
        ),
        mistake("The name '' is the model itself and no other module.", when=lambda seen: len(seen.value[1][""]) > 1),
        mistake("The name '' is the model itself; here it raised: {detail}", raises="."),
        mistake("The keys of the dict must be exactly the names that were asked for; {detail}.", stage="shape"),
    )
    seen.that(not seen.value[1][""][0].requires_grad, still_attached, stage="gradient")

    def two_towers():
        """left and right, each with layers 0 and 1; a norm in training mode."""
        torch.manual_seed(6)
        net = nn.Sequential()
        net.add_module("left", nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
        net.add_module("right", nn.Sequential(nn.Linear(4, 2), nn.Tanh()))
        return net

    def in_training(capture, x):
        """Features of the two towers."""
        return capture(two_towers(), ["left.1", "right.1"], x)

    test.hidden("a model in training mode, with layers of the same name in two containers")
    net = two_towers()
    left = net.left(x)
    frozen = two_towers().eval()
    seen = observe_scenario(in_training, capture_features, x)
    seen.returns(
        (net.right(left), {"left.1": [left], "right.1": [net.right(left)]}),
        mistake(
            "The model was in training mode and must run in it; a norm or a dropout gives other values in eval mode.",
            when=lambda seen: torch.allclose(seen.value[0], frozen(x)),
        ),
        mistake(
            "Layers 'left.1' and 'right.1' are two different layers. Look up a dotted name as a whole.",
            when=lambda seen: any(len(entries) > 1 for entries in seen.value[1].values()),
        ),
    )

    class Shared(nn.Module):
        """One layer under two names."""

        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = self.first

        def forward(self, x):
            return self.second(self.first(x))

    def shared(capture, names, x):
        """Features of a layer with two names."""
        torch.manual_seed(7)
        return capture(Shared(), names, x)[1]

    def overwritten(capture, x):
        """Capture a layer under both of its names, and overwrite the features of one name."""
        torch.manual_seed(7)
        features = capture(Shared(), ["first", "second"], x)[1]
        for entry in features["first"]:
            entry.zero_()
        return features["second"]

    test.hidden("a layer that has two names")
    torch.manual_seed(7)
    layer = nn.Linear(3, 3)
    two_calls = [layer(x), layer(layer(x))]
    for names in (["second"], ["first"], ["first", "second"]):
        seen = observe_scenario(shared, capture_features, names, x)
        seen.returns(
            {name: two_calls for name in names},
            mistake(
                "A layer with two names was not found under the second one: named_modules() lists an object once. Use "
                "get_submodule, or remove_duplicate=False.",
                raises="KeyError",
            ),
            mistake(
                "The layer has two names, and only one of them has entries. A dict from modules to names keeps one "
                "name for each module. Go through the names.",
                when=lambda seen: len(seen.value) == 2 and [] in seen.value.values(),
            ),
            because="A layer with two names is called under both of them: each has all of its calls.",
        )
    observe_scenario(overwritten, capture_features, x).returns(
        two_calls,
        mistake(
            "The features are inference tensors, which nobody may change in place outside of inference_mode. Copy them "
            "with detach().clone() only.",
            raises="inference tensor",
        ),
        because="The two names of the layer share one copy: zero_() on the features of one name also changed those of "
        "the other. Clone the output once for each name.",
    )

    def under_no_grad(capture, x):
        """Capture features where the caller has switched gradients off."""
        with torch.no_grad():
            output = capture(small_net(), ["head"], x)[0]
            return {"grad mode": torch.is_grad_enabled(), "tracked": output.requires_grad}

    test.hidden("inside the caller's no_grad")
    seen = observe_scenario(under_no_grad, capture_features, x)
    own_mode = "Called under no_grad, the grad mode was on in the forward pass or afterwards: leave it as it is."
    seen.that(not seen["grad mode"] and not seen["tracked"], own_mode, stage="rule")
    ### END HIDDEN TESTS
