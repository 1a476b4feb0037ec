# %% [markdown]
# ### Exercise 6.6 · Step inside backward
#
# implement · solid · 15 min · 2 points
#
# Between `backward` and `step`, all gradients of a model exist at the same time and take as much memory as its weights.
# If an update needs only the parameter's own gradient, you can make it inside backward, parameter by parameter, and
# drop each gradient at once.
#
# **Contract**
#
# - After `attach_sgd(model, lr)`, each `loss.backward()` alone performs one plain SGD step and gives the same weights
#   as `torch.optim.SGD(model.parameters(), lr)` would.
# - Every parameter is updated as soon as its gradient is complete, and that gradient is freed at once: `.grad` is None
#   again before the next one arrives.
# - Frozen parameters are skipped. A parameter that is used twice is updated once, with its whole gradient.
# - The parameter objects stay the same and keep their requires_grad, also after the hooks are removed.
# - Return a function that removes your hooks and no others. Later backward passes accumulate into `.grad` as usual.
#
# <details><summary>Hint 1</summary>
#
# Which hook runs after the gradient has been added to .grad, and what does it receive, the gradient or the parameter?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A tensor hook on the parameter runs too early, before the gradient is in `.grad`. The hook that you need runs after
# the accumulation and gets the parameter. Update each parameter and drop its gradient in that parameter's own hook. If
# you wait for the last parameter, all gradients exist at once.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Register a post-accumulate hook on each parameter that requires grad (on a frozen one it raises). The hook changes the
# parameter in place without recording it, by lr times its gradient, and then drops the gradient. Collect the handles,
# and return a function that removes every one of them.
#
# </details>


# %% answer="update-inside-backward"
def attach_sgd(model: nn.Module, lr: float) -> Callable[[], None]:
    """Let each backward pass do an SGD step; returns a function that removes the hooks."""
    ### BEGIN SOLUTION

    @torch.no_grad()
    def step(parameter: Tensor) -> None:
        parameter.sub_(lr * parameter.grad)
        parameter.grad = None

    trained = [p for p in model.parameters() if p.requires_grad]
    handles = [p.register_post_accumulate_grad_hook(step) for p in trained]

    def detach() -> None:
        for handle in handles:
            handle.remove()

    return detach
    ### END SOLUTION


# %% helpers="update-inside-backward"
def small_net():
    """Three Linear layers with fixed weights."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    with torch.no_grad():
        for shift, parameter in enumerate(net.parameters()):
            numbers = torch.arange(parameter.numel()) * 7 % 11 / 8 + shift / 16 - 0.6
            parameter.copy_(numbers.reshape(parameter.shape))
    return net


def loss_of(net, x):
    """The sum of squares of the net's output."""
    return net(x).square().sum()


def values_of(net):
    """Copies of the parameters."""
    return {name: parameter.detach().clone() for name, parameter in net.named_parameters()}


def with_gradient(net):
    """The names of parameters whose .grad is not None."""
    return [name for name, parameter in net.named_parameters() if parameter.grad is not None]


def by_hand(net, x, lr, steps):
    """The parameters after each of some steps of plain SGD."""
    found = []
    for _ in range(steps):
        parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        grads = torch.autograd.grad(loss_of(net, x), parameters, materialize_grads=True)
        with torch.no_grad():
            for parameter, grad in zip(parameters, grads, strict=True):
                parameter -= lr * grad
        found.append(values_of(net))
    return found


def same_weights(came, expected):
    """Whether all parameters agree."""
    return all(torch.allclose(came[name], expected[name], rtol=1e-4, atol=1e-5) for name in expected)


no_gradient = mistake(
    "A hook found no gradient. In a tensor hook .grad is not filled yet (None, or the previous value), in a "
    "module's backward hook perhaps not. Use the post-accumulate hook; and hook each parameter once, since a "
    "second hook finds a gradient that the first one has freed.",
    raises="NoneType",
)


# %% check="update-inside-backward" points=1
"""The weights of plain SGD from backward alone; one gradient at a time."""
with check("update-inside-backward") as test:

    def trained(attach, x):
        """Three backward passes, watched: what is alive and what has been updated when a gradient is complete."""
        net = small_net()
        parameters = dict(net.named_parameters())
        start, steps, alive, late, arrived = values_of(net), [], [0], [], []
        gradients, living = [], [0]

        def watching(name):
            def hook(parameter):
                alive.append(len(with_gradient(net)))
                gradients.append(weakref.ref(parameter.grad))
                living.append(sum(gradient() is not None for gradient in gradients))
                late.extend(other for other in arrived if torch.equal(parameters[other], start[other]))
                arrived.append(name)

            return hook

        for name, parameter in parameters.items():
            parameter.register_post_accumulate_grad_hook(watching(name))
        detach = attach(net, 0.125)
        for _ in range(3):
            start = values_of(net)
            arrived.clear()
            loss_of(net, x).backward()
            now = dict(net.named_parameters())
            steps.append(
                {
                    "values": values_of(net),
                    "kept": with_gradient(net),
                    "replaced": [name for name in parameters if now.get(name) is not parameters[name]],
                    "odd": [name for name, p in now.items() if not (p.is_leaf and p.requires_grad)],
                }
            )
            if steps[-1]["odd"] or steps[-1]["replaced"]:
                break
        tensor_hooks = sum(len(parameter._backward_hooks or {}) for parameter in parameters.values())
        facts = {"alive": max(alive), "late": len(late), "tensor hooks": tensor_hooks, "callable": callable(detach)}
        return facts | {"steps": steps, "living": max(living)}

    test("three steps, the same as plain SGD; .grad is None afterwards")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    start = values_of(small_net())
    expected = by_hand(small_net(), x, 0.125, steps=3)
    seen = observe_scenario(trained, attach_sgd, x).expecting(no_gradient)
    first, *later = seen["steps"]
    replaced, odd = ", ".join(first["replaced"]), ", ".join(first["odd"])
    seen.that(
        not replaced,
        f"The parameter object was replaced ({replaced}); optimizers and other modules hold the old one. "
        "Change it in place.",
        stage="aliasing",
    )
    seen.that(not odd, f"A parameter must stay a leaf that requires grad: {odd}.", stage="gradient")
    seen.that(
        same_weights(first["values"], expected[0]),
        "After one backward pass the weights are not those of plain SGD.",
        mistake(
            "In a tensor hook .grad is not filled yet (None, or the previous value). Use the post-accumulate hook.",
            when=lambda seen: same_weights(first["values"], start) and seen["tensor hooks"],
        ),
        mistake("Nothing was updated.", when=lambda seen: same_weights(first["values"], start)),
        mistake(
            "The weights shrank by a factor: the hook receives the PARAMETER, not its gradient; read p.grad.",
            when=lambda seen: same_weights(first["values"], {name: 0.875 * w for name, w in start.items()}),
        ),
        mistake(
            "The sign is wrong: a step goes against the gradient.",
            when=lambda seen: same_weights(first["values"], {n: 2 * w - expected[0][n] for n, w in start.items()}),
        ),
    )
    kept = ", ".join(first["kept"])
    seen.that(
        not kept,
        f"After backward .grad still holds tensors ({kept}): free each one inside the hook, or the next backward adds "
        "to it.",
        mistake(
            f"After backward .grad still holds tensors ({kept}). A tensor hook runs before the gradient is stored, "
            "so it can't free it: register_post_accumulate_grad_hook registers one that runs afterwards.",
            when=lambda seen: seen["tensor hooks"] > 0,
        ),
    )
    for step, wanted in zip(later, expected[1:], strict=False):
        seen.that(not step["replaced"] and not step["odd"], "A parameter was replaced or switched.", stage="aliasing")
        seen.that(
            same_weights(step["values"], wanted), "The first step is right, but a later one is not that of plain SGD."
        )

    test("at most two gradients alive at any time")
    all_at_once = "All gradients were alive at the same time: step and free each one in its own hook."
    seen.that(seen["alive"] <= 2, all_at_once, stage="rule")
    seen.that(
        seen["late"] == 0,
        "A parameter was not yet updated when the next gradient arrived: step each one in its own hook.",
        stage="rule",
    )
    seen.that(
        seen["living"] <= 2,
        "Every .grad is None in time, and still more than two gradients were alive at the same time: something else "
        "refers to them, such as a dict or a list. Keep no gradient.",
        stage="rule",
    )


# %% check="update-inside-backward" points=1
"""detach() ends it; frozen, tied and idle parameters; several models."""
with check("update-inside-backward") as test:
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])

    def detached(attach, x):
        """A step, then detach(), then two backward passes."""
        net = small_net()
        detach = attach(net, 0.125)
        loss_of(net, x).backward()
        if not callable(detach):
            return {"callable": False}
        detach()
        net.zero_grad()
        before = values_of(net)
        kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
        left = [name for name, p in net.named_parameters() if any(getattr(p, kind) for kind in kinds)]
        grads = []
        for _ in range(2):
            loss_of(net, x).backward()
            grads.append({name: parameter.grad for name, parameter in net.named_parameters()})
            grads[-1] = {name: None if grad is None else grad.clone() for name, grad in grads[-1].items()}
        return {"callable": True, "before": before, "after": values_of(net), "grads": grads, "left": left}

    test("detach() ends it")
    switched = mistake("A parameter must stay a leaf that requires grad.", raises="does not require grad")
    seen = observe_scenario(detached, attach_sgd, x).expecting(no_gradient, switched)
    seen.that(seen["callable"], "Return a function that removes the hooks.", stage="type")
    changed = ", ".join(name for name, w in seen["before"].items() if not torch.equal(w, seen["after"][name]))
    seen.that(
        not changed,
        f"After detach() the parameters still change ({changed}): remove every handle.",
        stage="rule",
    )
    freed = ", ".join(name for name, grad in seen["grads"][0].items() if grad is None)
    seen.that(not freed, f"After detach() gradients are still freed ({freed}): remove every handle.", stage="rule")
    once, twice = seen["grads"]
    doubled = all(torch.allclose(twice[name], 2 * once[name], rtol=1e-4, atol=1e-6) for name in once)
    seen.that(doubled, "After detach() gradients must accumulate as usual: two backward passes add up.")
    left = ", ".join(seen["left"])
    seen.that(
        not left,
        f"After detach() hooks are still registered ({left}), even if they do nothing: remove every handle.",
        stage="rule",
    )

    ### BEGIN HIDDEN TESTS
    def special_net(kind):
        """A net with a frozen layer, tied weights or an idle layer; nested, in eval mode, or in float64."""
        net = small_net()
        if kind == "frozen":
            net[2].requires_grad_(False)
            net[4].bias.requires_grad_(False)
        if kind == "tied":
            net[0] = nn.Linear(3, 4)
            with torch.no_grad():
                net[0].weight.fill_(0.25)
                net[0].bias.fill_(-0.5)
            net.insert(3, nn.Linear(4, 4))
            net[3].weight, net[3].bias = net[2].weight, net[2].bias
        if kind == "idle":
            net.add_module("idle", nn.Identity())
            net.idle.extra = nn.Linear(2, 2)
            with torch.no_grad():
                net.idle.extra.weight.fill_(1.0)
                net.idle.extra.bias.fill_(1.0)
        if kind == "nested":
            net = nn.Sequential(nn.Sequential(net, nn.Tanh()), nn.Linear(2, 1))
            with torch.no_grad():
                net[1].weight.fill_(0.5)
                net[1].bias.fill_(0.25)
        if kind == "eval":
            net.eval()
        return net.double() if kind == "float64" else net

    def two_steps(attach, kind, x):
        """Two backward passes of a special net."""
        net = special_net(kind)
        flags = [parameter.requires_grad for parameter in net.parameters()]
        objects = list(net.parameters())
        detach, steps = attach(net, 0.125), []
        for _ in range(2):
            loss_of(net, x).backward()
            steps.append(values_of(net))
        kept, attached = with_gradient(net), [parameter.requires_grad for parameter in net.parameters()]
        if callable(detach):
            detach()
        return {
            "steps": steps,
            "kept": kept,
            "flags": flags == attached == [parameter.requires_grad for parameter in net.parameters()],
            "objects": all(a is b for a, b in zip(objects, net.parameters(), strict=True)),
            "callable": callable(detach),
        }

    shared_twice = (
        "A shared parameter was updated more than once: it appears under two names. parameters() lists it once."
    )
    for idea, kind, known in [
        (
            "frozen layers are skipped",
            "frozen",
            mistake(
                "A frozen parameter has no gradient to hook: skip requires_grad=False (registering raises).",
                raises="doesn't require grad",
            ),
        ),
        ("tied weights get one update with the summed gradient", "tied", mistake(shared_twice, raises="NoneType")),
        (
            "a layer that the loss does not need stays as it is",
            "idle",
            mistake("A parameter that the loss does not need gets no gradient; don't wait for it.", stage="value"),
        ),
        (
            "containers in containers",
            "nested",
            mistake("Parameters can be at any depth; parameters() finds all of them.", stage="value"),
        ),
        (
            "a model in eval mode",
            "eval",
            mistake("In eval mode too, each backward pass makes a step. Don't ask for model.training.", stage="value"),
        ),
        ("float64 weights stay float64", "float64", mistake("The dtype must stay: {detail}", stage="raised")),
    ]:
        test.hidden(idea)
        data = x.double() if kind == "float64" else x
        seen = observe_scenario(two_steps, attach_sgd, kind, data).expecting(
            known, mistake(f"Here it raised ({idea}): {{detail}}.", stage="raised")
        )
        wanted = by_hand(special_net(kind), data, 0.125, steps=2)
        for came, weights in zip(seen["steps"], wanted, strict=True):
            seen.that(
                same_weights(came, weights),
                f"The weights are not those of plain SGD ({idea}).",
                mistake(
                    shared_twice,
                    when=lambda seen, kind=kind, came=came, weights=weights: (
                        kind == "tied" and same_weights(came, {n: w for n, w in weights.items() if n[0] != "2"})
                    ),
                ),
            )
        seen.that(
            not seen["kept"],
            "After backward .grad still holds tensors: free each one when its parameter has been updated.",
        )
        seen.that(seen["flags"], "requires_grad of a parameter was changed, here or by detach().", stage="gradient")
        seen.that(seen["objects"], "The parameter object was replaced: change it in place.", stage="aliasing")

    def attached_again(attach, x):
        """Two nets; one has a hook of its own, is detached and attached again with another rate, the other goes on."""
        net, other, calls = small_net(), small_net(), []
        net[0].weight.register_post_accumulate_grad_hook(lambda parameter: calls.append(1))
        detach, detach_other = attach(net, 0.125), attach(other, 0.25)
        for each in (net, other):
            loss_of(each, x).backward()
        found = [values_of(net), values_of(other)]
        detach()
        loss_of(other, x).backward()
        found += [values_of(other)]
        net.zero_grad()
        detach = attach(net, 0.5)
        loss_of(net, x).backward()
        found += [values_of(net)]
        detach()
        loss_of(net, x).backward()
        detach_other()
        return [*found, values_of(net), len(calls)]

    def nobody_keeps_it(attach, x):
        """Two backward passes; what attach_sgd returned was not kept."""
        net = small_net()
        attach(net, 0.125)
        for _ in range(2):
            loss_of(net, x).backward()
        return values_of(net)

    test.hidden("a caller who doesn't keep the function that removes the hooks")
    seen = observe_scenario(nobody_keeps_it, attach_sgd, x).expecting(no_gradient)
    seen.that(
        same_weights(seen.value, by_hand(small_net(), x, 0.125, steps=2)[-1]),
        "The updates end when the caller drops the function that you return: something that only this function holds "
        "is freed with it. Register hooks that live as long as the parameters.",
    )

    test.hidden("detach, then attach again with another rate; another model is not affected")
    seen = observe_scenario(attached_again, attach_sgd, x).expecting(no_gradient)
    net = small_net()
    (wanted,), (again,) = by_hand(net, x, 0.125, steps=1), by_hand(net, x, 0.5, steps=1)
    other, other_again = by_hand(small_net(), x, 0.25, steps=2)
    came, came_other, came_other_again, came_again, at_last, calls = seen.value
    own_rate = same_weights(came, wanted) and same_weights(came_other, other)
    seen.that(own_rate, "Each model must use its own rate.")
    seen.that(
        same_weights(came_other_again, other_again),
        "detach() ended the updates of another model: remove the handles of this call only.",
    )
    seen.that(
        calls == 3,
        "A hook that isn't yours disappeared. Remove your own handles only, and never clear the dictionary.",
        stage="rule",
    )
    seen.that(same_weights(came_again, again), "After attaching again the new rate must count, once.")
    seen.that(same_weights(at_last, again), "After the second detach() the parameters still change.")
    ### END HIDDEN TESTS
