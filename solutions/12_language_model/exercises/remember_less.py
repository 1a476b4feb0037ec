# %% [markdown]
# ### Exercise 12.5 · Compute twice, remember once
#
# implement · long · 30 min · 2 points
#
# Write checkpointing yourself, for one block and one input, as a custom Function (chapter 5).
#
# **Contract**
#
# - `remember_less(block, x)` returns `block(x)`, with the same gradients for x and for every trainable parameter of
#   the block.
# - For backward, keep x, what the block owns, and the state of the random number generator, and nothing else: no copy
#   and no intermediate result. Backward runs the block again, even in eval mode.
# - The second run repeats the random numbers of the first, so that dropout drops the same places. To other code,
#   torch's global CPU generator looks the same as after a plain `block(x)`: the first run advances it, and backward
#   leaves it as it found it, even if other code drew random numbers in between.
# - If x needs no gradient, the parameters still get theirs. Parameters may be frozen or unused; then they have no
#   gradient. `torch.autograd.grad` works, even a second time on the same graph (`retain_graph=True`), and touches no
#   `.grad`. One graph may contain several calls, even of the same block.
# - x, the block's training flags and its hooks are not changed. First derivatives are enough.
# - The second run is an ordinary run of the block. You may therefore assume that the block has no buffers that a run
#   changes (batch norm would count each batch twice), that its parameters themselves have no hooks (they would run
#   twice), that its weights and flags stay the same until backward, that its result depends on x or a parameter, and
#   that neither pass is under autocast.
#
# **Rule.** Write one custom autograd Function, without `torch.utils.checkpoint`.
#
# <details><summary>Hint 1</summary>
#
# Which inputs of a Function decide whether its result has a graph at all? What must be the same when dropout runs a
# second time?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Call `apply(block, x, *block.parameters())`. `forward` runs without a graph anyway, so it only needs to keep the
# random state and x and return `block(x)`. `backward` must build the graph again from a detached x, with gradients
# turned on.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In `backward`, restore the random state inside `torch.random.fork_rng()`, so that the caller's random numbers don't
# change, and run the block on a detached x that requires grad. `torch.autograd.grad` then gives the gradients of x and
# of the trainable parameters; it can allow unused ones. `backward` returns one value per input of `apply`, in the same
# order.
#
# </details>


# %% answer="remember-less"
### BEGIN SOLUTION
class Recomputed(torch.autograd.Function):
    """block(x) without a memory: backward runs the block again."""

    @staticmethod
    def forward(ctx, block: nn.Module, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.block, ctx.dice = block, torch.get_rng_state()
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        inputs = (x, *ctx.block.parameters())
        needed = [t for t, needs in zip(inputs, ctx.needs_input_grad[1:], strict=True) if needs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.dice)
            out = ctx.block(x)
        found = iter(torch.autograd.grad(out, needed, gradient, allow_unused=True))
        return None, *[next(found) if needs else None for needs in ctx.needs_input_grad[1:]]


def remember_less(block: nn.Module, x: Tensor) -> Tensor:
    """block(x) for x (...) float, with its gradients; keeps x and computes the block again."""
    return Recomputed.apply(block, x, *block.parameters())


### END SOLUTION
### BEGIN GIVEN
# def remember_less(block: nn.Module, x: Tensor) -> Tensor:
#     """block(x) for x (...) float, with its gradients; keeps x and computes the block again."""
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="remember-less"
def small_block(drop):
    """Linear, tanh, dropout and Linear with fixed weights, (..., 3) to (..., 3)."""
    block = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(drop), nn.Linear(5, 3))
    with torch.no_grad():
        for shift, p in enumerate(block.parameters()):
            p.copy_((torch.arange(p.numel()) * 7 % 11 / 8 + shift / 16 - 0.6).reshape(p.shape))
    return block


def backward_from(out):
    """A backward pass from a fixed incoming gradient, where there is a graph."""
    if isinstance(out, Tensor) and out.requires_grad:
        out.backward((torch.arange(out.numel()).reshape(out.shape) * 37 % 101 / 101 + 0.3).to(out.dtype))


def without_graph(out):
    """The result's values."""
    return out.detach() if isinstance(out, Tensor) else out


def passed_through(remember_less, x, drop):
    """Run a block of two Linear layers through `remember_less`, then backward; roll a die after each pass."""
    torch.manual_seed(5)
    block = small_block(drop)
    out = remember_less(block, x)
    between = torch.rand(()).item()
    backward_from(out)
    gradients = {name: p.grad for name, p in block.named_parameters()}
    after = torch.rand(()).item()
    return {"out": without_graph(out), "of x": x.grad, "of parameters": gradients, "between": between, "after": after}


def plain(block, x):
    """What `remember_less` should be like, seen from outside."""
    return block(x)


def fresh(x):
    """A copy of x without a gradient of its own."""
    return x.detach().clone().requires_grad_(x.requires_grad)


class Makings(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the memory of every floating-point (or bool) tensor that an operation makes, without keeping it alive."""

    def __init__(self):
        super().__init__()
        self.made = {}

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor) and (tensor.is_floating_point() or tensor.dtype == torch.bool):
                storage = tensor.untyped_storage()
                reference = torch.multiprocessing.reductions.StorageWeakRef(storage)
                self.made[storage.data_ptr()] = (reference, storage.nbytes())
        return out


def bytes_kept(remember_less, x, drop, training=True):
    """Run a block through `remember_less`, keep the graph alone, and count the bytes beside x and the block."""
    block, makings, of_torch = small_block(drop).train(training), Makings(), []

    def note(module, name):
        """Note one call of a function."""
        if module == "torch.utils.checkpoint":
            of_torch.append(name)

    with makings, noting_calls(note) as unseen:
        out = remember_less(block, x)
    own = {t.untyped_storage().data_ptr() for t in (x, *block.parameters())}
    made = [one for place, one in makings.made.items() if place not in own]
    of_result = out.untyped_storage().data_ptr() if isinstance(out, Tensor) else 0
    nodes = [out.sum().grad_fn] if isinstance(out, Tensor) else []  # its node keeps the graph alone, without the result
    del out
    if any(not ref.expired() for ref, _ in made):
        gc.collect()
    for node in nodes:
        nodes += [other for other, _ in getattr(node, "next_functions", ()) if other not in nodes]
    leaves = [node.variable for node in nodes if hasattr(node, "variable")]
    recorded = type(
        torch.ones(1, requires_grad=True).tanh().grad_fn
    )  # the block's tanh, where its first run has a graph
    return {
        "kept": sum(size for ref, size in made if not ref.expired()),
        "another leaf": any(leaf.untyped_storage().data_ptr() not in own for leaf in leaves),
        "of result": sum(s for place, (ref, s) in makings.made.items() if place == of_result and not ref.expired()),
        "own function": any(isinstance(node, torch.autograd.function.BackwardCFunction) for node in nodes),
        "of torch": bool(of_torch or unseen) or any(type(node) is recorded for node in nodes),
    }


def same(a, b):
    """Whether two results, or two gradients, agree."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return a is None and b is None
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def judge_result(seen, right):
    """The result is that of block(x)."""
    seen.that(isinstance(seen["out"], Tensor), "Return the result of the block, a tensor.", stage="type")
    seen.that(same(seen["out"], right["out"]), "The result is not block(x).")


def wrong_gradients(seen, right):
    """The names of the gradients that are not the plain ones."""
    places = {"x": (seen["of x"], right["of x"])}
    places |= {name: (seen["of parameters"][name], grad) for name, grad in right["of parameters"].items()}
    return [name for name, pair in places.items() if not same(*pair)]


def judge_kept(seen, *mistakes):
    """Only x is kept, and the rule is kept."""
    too_much = (
        f"You keep more than x for backward: {seen['kept']} bytes in addition to x and the block. Run the forward "
        "pass without a graph, and keep nothing that it makes."
    )
    kept_result = mistake(
        "You keep the result for backward, which computes it again and doesn't need it. Save only x, and put the "
        "result neither on ctx nor into save_for_backward.",
        when=lambda seen: seen["kept"] == seen["of result"],
    )
    another_leaf = mistake(
        f"You pass a tensor of your own that requires grad to apply(), and the graph keeps it: {seen['kept']} bytes in "
        "addition to x and the block. Pass the parameters to apply(), so that the result has a graph without it.",
        when=lambda seen: seen["another leaf"],
    )
    seen.in_sight().that(seen["kept"] == 0, too_much, *mistakes, kept_result, another_leaf, stage="rule")
    by_hand = "Write the Function yourself, without torch.utils.checkpoint."
    seen.that(seen["own function"] and not seen["of torch"], by_hand, stage="rule")


not_detached = mistake(
    "The second run must start from x.detach().requires_grad_(): the saved x still belongs to the graph outside, or "
    "needs no gradient. ({detail})",
    raises="differentiated Tensors (does not require grad|appears to not have been used)|a second time|leaf variable",
)


# %% check="remember-less" points=1
"""Same result and gradients, even with dropout, and nothing but x is kept."""
with check("remember-less") as test:
    x = (torch.arange(12.0).reshape(4, 3) * 5 % 13 / 4 - 1.4).requires_grad_()

    test("result and gradients of a block without dropout")
    no_graph_in_backward = mistake(
        "Inside `backward` gradients are switched off, so what you compute there has no graph. Run the block, and "
        "compute whatever you derive from its result, under torch.enable_grad(). ({detail})",
        raises="element 0 of tensors does not require grad",
    )
    seen = observe_scenario(passed_through, remember_less, x, 0.0).expecting(no_graph_in_backward, not_detached)
    right = passed_through(plain, fresh(x), 0.0)
    judge_result(seen, right)
    wrong = wrong_gradients(seen, right)
    seen.that(
        not wrong,
        f"The result is right, but the gradient of {' and '.join(wrong)} is wrong.",
        mistake(
            "The result has no graph, so nothing gets a gradient.",
            when=lambda seen: seen["of x"] is None and not any(g is not None for g in seen["of parameters"].values()),
        ),
        mistake(
            "The parameters got no gradient. Pass them to apply() and return their gradients as well.",
            when=lambda seen: all(g is None for g in seen["of parameters"].values()),
        ),
        mistake("x got no gradient.", when=lambda seen: seen["of x"] is None and wrong == ["x"]),
        stage="gradient",
    )

    test("what is kept for backward: x, and nothing of the block's intermediate results")
    judge_kept(observe_scenario(bytes_kept, remember_less, x, 0.5))

    test("dropout drops the same places when the block runs again")
    right = passed_through(plain, fresh(x), 0.5)
    seen = observe_scenario(passed_through, remember_less, x, 0.5)
    judge_result(seen, right)
    seen.that(
        not wrong_gradients(seen, right),
        "The second run drew different random numbers, so the gradients belong to a different dropout mask. Save "
        "the generator's state before the first run, and set it before the second.",
        stage="gradient",
    )
    seen.that(
        seen["between"] == right["between"],
        "After the forward pass, the global generator is not in the state in which block(x) leaves it.",
        stage="rule",
    )
    seen.that(
        seen["after"] == right["after"],
        "Backward changed the state of the global generator. The second run must leave no trace, so restore the state.",
        stage="rule",
    )


# %% check="remember-less" points=1
"""An x without gradient, frozen parameters, autograd.grad, several calls; no side effects."""
with check("remember-less") as test:
    x = (torch.arange(12.0).reshape(4, 3) * 5 % 13 / 4 - 1.4).requires_grad_()

    test("result and gradients with dropout, and only x is kept")
    seen = observe_scenario(passed_through, remember_less, x, 0.5).expecting(FIRST_CHECK_FIRST)
    right = passed_through(plain, fresh(x), 0.5)
    judge_result(seen, right)
    seen.that(not wrong_gradients(seen, right), "", stage="gradient")
    judge_kept(observe_scenario(bytes_kept, remember_less, x, 0.5).expecting(FIRST_CHECK_FIRST))

    ### BEGIN HIDDEN TESTS
    def judge_run(seen, right, sentence, *mistakes):
        """Result and gradients are those of the plain block."""
        judge_result(seen, right)
        seen.that(not wrong_gradients(seen, right), sentence, *mistakes, stage="gradient")

    test.hidden("an x that needs no gradient")
    inputs = x.detach().clone()
    seen = observe_scenario(passed_through, remember_less, inputs, 0.5).expecting(not_detached)
    no_graph = mistake(
        "If x needs no gradient, your result has no graph. Pass the parameters to apply() as well.",
        when=lambda seen: all(g is None for g in seen["of parameters"].values()),
    )
    seen.leaves_arguments_alone(because="Your code changed the caller's x. Run the block on x.detach().")
    right = passed_through(plain, inputs, 0.5)
    judge_run(seen, right, "If x needs no gradient, a gradient of the parameters is wrong.", no_graph)

    for idea, needs, training in (
        ("what is kept for backward: an x that needs no gradient", False, True),
        ("what is kept for backward: a block in eval mode", True, False),
    ):
        test.hidden(idea)
        inputs = x.detach().clone().requires_grad_(needs)
        seen = observe_scenario(bytes_kept, remember_less, inputs, 0.5, training)
        plain_block = mistake(
            "Here you return block(x) as it is, and its graph keeps the intermediate results. The parameters need "
            "gradients in every mode and for every x, so use your Function always.",
            when=lambda seen: not seen["own function"],
        )
        judge_kept(seen, plain_block)

    class Noisy(nn.Module):
        """A block that draws random numbers without a layer for it."""

        def __init__(self):
            super().__init__()
            self.block = small_block(0.0)
            del self.block[2]

        def forward(self, x):
            return F.dropout(self.block(x), 0.5)

    def drawn_without_layer(remember_less, x):
        """Run a block that calls `F.dropout` in its forward through `remember_less`, then backward."""
        torch.manual_seed(5)
        block = Noisy()
        out = remember_less(block, x)
        backward_from(out)
        gradients = {name: p.grad for name, p in block.named_parameters()}
        return {"out": without_graph(out), "of x": x.grad, "of parameters": gradients}

    test.hidden("a block that calls F.dropout")
    judge_run(
        observe_scenario(drawn_without_layer, remember_less, x),
        drawn_without_layer(plain, fresh(x)),
        "This block draws random numbers in its forward, by F.dropout, and the second run drew different ones. Save "
        "the generator's state before the first run, whatever layers the block has.",
    )

    def half_frozen(remember_less, x, dtype, frozen):
        """Run a block, of which some parameters are frozen and one is not used, then backward."""
        block = small_block(0.5)
        block.register_parameter("spare", nn.Parameter(torch.ones(2)))
        block.to(dtype)
        for name, p in block.named_parameters():
            p.requires_grad_(name not in frozen)
        torch.manual_seed(6)
        out = remember_less(block, x)
        backward_from(out)
        return {
            "out": without_graph(out),
            "of x": x.grad,
            "of parameters": {name: p.grad for name, p in block.named_parameters()},
        }

    test.hidden("frozen parameters, and one that the block does not use")
    names = ["0.weight", "0.bias", "3.weight", "3.bias", "spare"]
    for dtype, frozen in ((torch.float32, ["0.weight", "3.bias"]), (torch.float64, []), (torch.float32, names)):
        inputs = x.detach().to(dtype).requires_grad_()
        seen = observe_scenario(half_frozen, remember_less, inputs, dtype, frozen)
        seen.expecting(
            mistake(
                "Frozen or unused parameters must be allowed; their gradient is None: {detail}",
                raises="not have been used in the graph|does not require grad",
            )
        )
        judge_run(
            seen,
            half_frozen(plain, fresh(inputs), dtype, frozen),
            "With frozen or unused parameters, a gradient is wrong, or should be None and isn't.",
        )

    def derived(remember_less, x):
        """Ask `torch.autograd.grad` for gradients, where every parameter has a .grad already."""
        block = small_block(0.5)
        for p in block.parameters():
            p.grad = torch.full_like(p, 0.25)
        torch.manual_seed(7)
        out = remember_less(block, x)
        wanted = [*block.parameters(), x]
        total = out.square().sum()
        found = torch.autograd.grad(total, wanted, allow_unused=True, retain_graph=True)
        raised, again = "", found
        try:
            again = torch.autograd.grad(total, wanted, allow_unused=True)
        except Exception as error:
            raised = type(error).__name__
        untouched = x.grad is None and all(bool((p.grad == 0.25).all()) for p in block.parameters())
        names = [name for name, _ in block.named_parameters()]
        return {
            "out": without_graph(out),
            "untouched": untouched,
            "raised": raised,
            "again": all(same(a, b) for a, b in zip(again, found, strict=True)),
            "of x": found[-1],
            "of parameters": dict(zip(names, found[:-1], strict=True)),
        }

    test.hidden("torch.autograd.grad")
    seen = observe_scenario(derived, remember_less, x)
    seen.that(
        seen["untouched"],
        "torch.autograd.grad changed a .grad: backward() inside backward writes where nobody asked. Use autograd.grad "
        "there, and return the results.",
        stage="gradient",
    )
    judge_run(seen, derived(plain, fresh(x)), "torch.autograd.grad gives another gradient than for block(x).")
    seen.that(
        not seen["raised"],
        f"The first torch.autograd.grad had retain_graph=True, but the second one raised {seen['raised']}. Don't "
        "delete what backward needs, because the graph may be used again.",
        stage="gradient",
    )
    seen.that(
        seen["again"],
        "The first torch.autograd.grad had retain_graph=True, and the second one gave other gradients. Every backward "
        "pass must repeat the random numbers of the first run, so keep the generator's state on ctx.",
        stage="gradient",
    )

    def several(remember_less, x):
        """Run two blocks one after the other and one of them twice, on inputs (2, 2, 3); the flags are mixed, and a
        hook doubles what the second block gives."""
        first, second = small_block(0.5), small_block(0.25)
        first.eval()
        first[2].train()
        second.eval()
        second[0].register_forward_hook(lambda *args: None)
        doubled = []

        def double(module, args, out):
            doubled.append(1)
            return 2 * out

        second.register_forward_hook(double)
        hooks = [list(m._forward_hooks) for block in (first, second) for m in block.modules()]
        results = [x.reshape(2, 2, 3)]
        for seed, block in ((7, first), (8, second), (9, first)):
            torch.manual_seed(seed)
            results.append(remember_less(block, results[-1]))
        out = results[-1] + results[-2]
        backward_from(out)
        now = [list(m._forward_hooks) for block in (first, second) for m in block.modules()]
        flags = [m.training for block in (first, second) for m in block.modules()]
        parameters = {f"parameter {n}": p.grad for n, p in enumerate([*first.parameters(), *second.parameters()])}
        return {
            "out": without_graph(out),
            "of x": x.grad,
            "of parameters": parameters,
            "flags": flags,
            "hooks": hooks == now,
            "doubled": len(doubled),
        }

    test.hidden("two blocks in one graph, one of them twice; one has a hook that changes its result")
    seen, right = observe_scenario(several, remember_less, x), several(plain, fresh(x))
    seen.expecting(not_detached)
    seen.that(
        seen["flags"] == right["flags"] and seen["hooks"],
        "Your code changed the block's training flags or hooks. Leave them alone, even in the second run.",
        stage="arguments",
    )
    seen.expecting(
        mistake(
            "The block has a forward hook, but it did not run in both passes. `block.forward(x)` skips the hooks of "
            "the block itself, so call `block(x)`.",
            stage=("value", "gradient"),
            when=lambda seen: seen["doubled"] < 2,
        )
    )
    judge_run(
        seen,
        right,
        "With several calls in one graph, a gradient is wrong. Each call needs its own x and its own random state.",
    )
    ### END HIDDEN TESTS
