# %% [markdown]
# ### Exercise 11.5 · Six faults in an evaluation loop
#
# fix · solid · 15 min · 2 points
#
# This loop runs, and its numbers look plausible, but six things are wrong with it. Fix `evaluate`.
#
# **Contract**
#
# - `loader` is any iterable of pairs (inputs, labels), possibly a generator, and `loss_fn(outputs, labels)` averages
#   over its batch. Return the loss and the accuracy *per sample* over the whole loader as two Python floats, for
#   batches of any size, which may differ.
# - The model runs in eval mode, and no graph is recorded. No parameter, `requires_grad` flag, gradient or buffer
#   changes.
# - When the function returns, or something in the loop raises (even Ctrl-C), every submodule has the same training flag
#   as before (a frozen batch norm stays in eval mode), and the grad mode is the same as before. Exceptions propagate to
#   the caller.
# - If the loader yields no batch, raise ValueError.
#
# <details><summary>Hint 1</summary>
#
# How does a layer that behaves differently in training know that this is an evaluation? Which batch counts too much in
# a mean of batch means?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Ask of each line: In which mode does the model run here? Is a graph recorded? How many samples does this number
# describe? And what is left behind if the next line raises?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Remember the flag of every module before you change the mode. Without a graph, add up loss times number of samples and
# the number of hits, and divide both by the number of samples. Restore the flags one by one in `finally`.
#
# </details>


# %% answer="evaluate-loop"
def evaluate(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
) -> tuple[float, float]:
    """Mean loss and accuracy per sample of a classifier.

    model maps (B, ...) to logits (B, C); labels are (B,).
    """
    ### BEGIN SOLUTION
    flags = [(module, module.training) for module in model.modules()]
    loss, hits, count = 0.0, 0, 0
    try:
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                out = model(x)
                loss += loss_fn(out, y).item() * len(y)
                hits += (out.argmax(1) == y).sum().item()
                count += len(y)
    finally:
        for module, training in flags:
            module.training = training
    if not count:
        raise ValueError("the loader holds no sample")
    return loss / count, hits / count
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # losses, accs = [], []
    # for x, y in loader:
    #     out = model(x)
    #     losses.append(loss_fn(out, y))
    #     accs.append((out.argmax(1) == y).float().mean())
    # return sum(losses) / len(losses), sum(accs) / len(accs)
    ### END GIVEN


# %% helpers="evaluate-loop"
class Notes(list):
    """A list that a copy of its owner shares."""

    def __deepcopy__(self, memo):
        return self


class Classifier(nn.Module):
    """Batch norm, dropout and a linear layer with fixed weights; notes how it is run."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.last = nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3)
        self.body = nn.Sequential(self.norm, self.drop)
        self.runs = []
        with torch.no_grad():
            self.norm.running_mean.copy_(torch.tensor([0.25, -0.5, 0.0]))
            self.norm.running_var.copy_(torch.tensor([0.25, 1.0, 4.0]))
            self.last.weight.copy_(torch.tensor([[1.0, -0.5, 0.25], [-0.75, 0.5, 1.0], [0.5, 1.0, -0.5]]))
            self.last.bias.copy_(torch.tensor([0.1, 0.0, -0.2]))

    def forward(self, x):
        out = self.last(self.body(x))
        training = any(module.training for module in self.modules())
        self.runs.append({"training": training, "graph": out.requires_grad})
        if len(x) == 13:
            raise ArithmeticError("thirteen samples")
        return out


def flags_of(model):
    """The training flag of every module, by name."""
    return {name: module.training for name, module in model.named_modules()}


def state_of(model):
    """Copies of parameters, their flags and gradients, and of buffers."""
    found = {}
    for name, p in model.named_parameters():
        found[name] = [p.detach().clone(), p.requires_grad, None if p.grad is None else p.grad.clone()]
    return found | {name: [buffer.clone(), False, None] for name, buffer in model.named_buffers()}


def same_state(a, b):
    """Whether no value and no gradient has changed."""
    for name, (values, _, grad) in a.items():
        now, _, now_grad = b[name]
        same_grad = now_grad is None if grad is None else now_grad is not None and torch.equal(grad, now_grad)
        if not (torch.equal(values, now) and same_grad):
            return False
    return True


def failing(batches):
    """A loader that raises at its end."""
    yield from batches
    raise LookupError("no more batches")


def interrupted(batches):
    """A loader at whose end somebody presses Ctrl-C."""
    yield from batches
    raise KeyboardInterrupt


def loss_of(kind):
    """A loss function that averages over its batch, or raises."""

    def loss_fn(out, y):
        if kind == "raises":
            raise ZeroDivisionError("a loss that can't be computed")
        if kind == "squares":
            return (out[:, 0] - y).square().mean()
        return (out.logsumexp(1) - out.gather(1, y[:, None])[:, 0]).mean()

    return loss_fn


batch_means = "You return a mean of batch means, in which the smaller last batch counts too much."


def evaluated(evaluate, batches, modes, kind="list", loss="cross entropy", may_raise=False, grad=True):
    """Evaluate a classifier whose modules are in these modes; then look at its flags, weights and gradients."""
    model = Classifier()
    model.runs = Notes()
    for name, module in model.named_modules():
        module.training = modes.get(name, modes["all"])
    model.last.weight.grad = torch.full((3, 3), 0.5)
    model.norm.weight.requires_grad_(False)
    loader_of = {"list": list, "generator": iter, "fails": failing, "interrupted": interrupted}[kind]
    pairs = loader_of([tuple(pair) for pair in batches])
    flags, state, raised, came = flags_of(model), state_of(model), "nothing", None
    try:
        with torch.set_grad_enabled(grad):
            try:
                came = evaluate(model, pairs, loss_of(loss))
            finally:
                recording = torch.is_grad_enabled() == grad
    except (Exception, KeyboardInterrupt) as error:
        if not may_raise:
            raise
        raised = type(error).__name__
    is_pair = isinstance(came, (tuple, list)) and len(came) == 2
    is_pair = is_pair and all(isinstance(v, (int, float)) or (isinstance(v, Tensor) and v.dim() == 0) for v in came)
    return {
        "raised": raised,
        "pair": is_pair,
        "floats": is_pair and all(isinstance(value, float) for value in came),
        "values": [float(value) for value in came] if is_pair else [],
        "runs": list(model.runs),
        "before": flags,
        "after": flags_of(model),
        "recording": recording,
        "same state": same_state(state, state_of(model)),
        "same flags": [flag for _, flag, _ in state.values()] == [flag for _, flag, _ in state_of(model).values()],
    }


def judge_run(seen):
    """Two numbers came, from a run in eval mode without a graph."""
    seen.that(seen["pair"], "Return two numbers: the loss and the accuracy.", stage="type")
    seen.that(len(seen["runs"]) > 0, "The model never ran. You can iterate over a generator only once.", stage="rule")
    seen.that(
        not any(run["training"] for run in seen["runs"]),
        "Dropout or batch norm ran in train mode: the numbers depend on chance or on the other samples of the batch.",
        stage="rule",
    )
    seen.that(
        not any(run["graph"] for run in seen["runs"]),
        "A graph was recorded: memory grows with every batch. Use no_grad.",
        stage="rule",
    )


# %% check="evaluate-loop" points=1
"""Loss and accuracy per sample, in eval mode, without a graph."""
with check("evaluate-loop") as test:
    x = ((torch.arange(150) * 37 % 101) / 50 - 1).reshape(50, 3)
    y = torch.tensor([int(digit) for digit in "01111020000111102000011110200001222001110222200111"])

    test("50 samples in batches of 32 and 18")
    batches = [(x[:32], y[:32]), (x[32:], y[32:])]
    seen = observe_scenario(evaluated, evaluate, batches, {"all": True})
    judge_run(seen)
    with torch.no_grad():
        whole_batch = [(Classifier().eval()(part).argmax() == labels).float() for part, labels in batches]
    without_dim = [torch.cat(whole_batch).mean().item(), sum(hits.mean().item() for hits in whole_batch) / 2]
    for place, name, wanted, of_means in ((0, "loss", 1.21235, 1.39612), (1, "accuracy", 0.58, 0.46528)):
        seen.that(
            abs(seen["values"][place] - wanted) < 2e-4,
            f"The {name} is {wanted:.4f} here, and you return {seen['values'][place]:.4f}.",
            mistake(batch_means, when=lambda seen, p=place, m=of_means: abs(seen["values"][p] - m) < 2e-4),
            mistake(
                "argmax() without a dimension finds the largest number of the whole batch. Each row needs its "
                "own, so use argmax(1).",
                when=lambda seen, p=place: p == 1 and any(abs(seen["values"][1] - one) < 2e-4 for one in without_dim),
            ),
        )


# %% check="evaluate-loop" points=1
"""Floats; all flags and the grad mode as before, even after an exception; no sample at all."""
with check("evaluate-loop") as test:
    everything = {"all": True}
    left_in_eval = "The model is still in eval mode afterwards: the next epoch trains without dropout."
    thawed = (
        "The model, or a frozen layer, was in eval mode before and is in train mode now. train() reaches all "
        "submodules, so restore each module's own flag."
    )

    def judge_flags(seen, *mistakes):
        """Flags and recording are as before."""
        before, after = seen["before"], seen["after"]
        seen.that(
            before == after,
            "A training flag has changed. Restore the flag of each module.",
            *mistakes,
            mistake(left_in_eval, when=lambda seen: not any(after.values())),
            mistake(thawed, when=lambda seen: all(after.get(name) for name in before if before[name])),
            stage="arguments",
        )
        recording = (
            "You changed whether gradients are recorded. `with torch.no_grad():` restores the caller's setting, "
            "even after an exception."
        )
        seen.that(seen["recording"], recording, stage="arguments")

    def judge_floats(seen):
        """Two floats came, from a run in eval mode without a graph."""
        floats = "Return Python floats; tensors keep their storage (and their graph) alive."
        seen.that(seen["floats"] or not seen["pair"], floats, stage="type")
        judge_run(seen)

    def near(a, b):
        return len(a) == len(b) and all(abs(x - y) < 2e-4 for x, y in zip(a, b, strict=True))

    x = ((torch.arange(150) * 37 % 101) / 50 - 1).reshape(50, 3)
    y = torch.tensor([int(digit) for digit in "01111020000111102000011110200001222001110222200111"])

    test("afterwards the flags are as before, for a model in train mode and for one in eval mode")
    batches = [(x[:32], y[:32]), (x[32:], y[32:])]
    seen = observe_scenario(evaluated, evaluate, batches, everything)
    judge_floats(seen)
    judge_flags(seen)
    seen = observe_scenario(evaluated, evaluate, batches, {"all": False})
    judge_floats(seen)
    judge_flags(seen)

    test("a frozen batch norm stays frozen")
    for modes in (
        {"all": True, "norm": False},
        {"all": True, "body": False, "norm": False, "drop": False},
        {"all": False, "last": True},
        {"all": True, "": False},
        {"all": False, "": True, "drop": True},
    ):
        seen = observe_scenario(evaluated, evaluate, [(x[:20], y[:20]), (x[20:27], y[20:27])], modes)
        judge_floats(seen)
        judge_flags(seen)

    ### BEGIN HIDDEN TESTS
    def expected(batches, loss):
        """Loss and accuracy over all samples at once."""
        model = Classifier().eval()
        inputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
        with torch.no_grad():
            out = model(inputs)
            value = loss_of(loss)(out, labels)
        return [value.item(), (out.argmax(1) == labels).float().mean().item()]

    def cut(*sizes):
        """Batches of these sizes, in order."""
        places = [slice(sum(sizes[:n]), sum(sizes[: n + 1])) for n in range(len(sizes))]
        return [(x[place], y[place]) for place in places]

    for idea, sizes, kind, loss in [
        ("a generator, which has no length", (10, 10, 3), "generator", "cross entropy"),
        ("batches of very different size", (1, 40, 2, 7), "list", "cross entropy"),
        ("another loss", (5, 12, 1), "generator", "squares"),
        ("a single sample", (1,), "list", "cross entropy"),
        ("one batch", (50,), "list", "cross entropy"),
    ]:
        test.hidden(idea)
        some_batches = cut(*sizes)
        seen = observe_scenario(evaluated, evaluate, some_batches, everything, kind, loss)
        seen.expecting(mistake("The loader may be a generator, which has no len().", raises="has no len"))
        judge_floats(seen)
        single = [expected([batch], loss) for batch in some_batches]
        of_means = [sum(values) / len(single) for values in zip(*single, strict=True)]
        seen.that(
            near(seen["values"], expected(some_batches, loss)),
            "Loss or accuracy is not the mean over the samples.",
            mistake(
                batch_means,
                when=lambda seen, m=of_means: any(abs(a - b) < 1e-4 for a, b in zip(seen["values"], m, strict=True)),
            ),
        )
        judge_flags(seen)
        seen.that(
            seen["same state"],
            "Your evaluation changed a parameter, a gradient or a buffer of the model.",
            stage="arguments",
        )
        seen.that(
            seen["same flags"],
            "A parameter has another requires_grad flag after your evaluation than before, so a frozen parameter would "
            "be trained from now on, or a trained one would stay as it is. `torch.no_grad()` records no graph and "
            "needs no flags.",
            stage="arguments",
        )

    exception = mistake("After an exception the flags were not restored: use finally.", stage="arguments")
    interrupt = mistake(
        "A KeyboardInterrupt, which is Ctrl-C, left flags in eval mode, because it is no `Exception`. `finally` runs "
        "whatever is raised.",
        stage="arguments",
    )
    at_once = mistake(
        "The loader raised before its first batch, and the flags were not restored. After eval(), everything that can "
        "raise belongs into the `try` whose `finally` restores them, even `iter(loader)` and the first `next`.",
        stage="arguments",
    )
    for idea, modes, sizes, kind, loss, raised in [
        ("a loss that raises", everything, (8, 8, 8), "list", "raises", "ZeroDivisionError"),
        ("a loss that raises", {"all": True, "norm": False}, (8, 8), "generator", "raises", "ZeroDivisionError"),
        ("a model that raises", everything, (8, 13), "list", "cross entropy", "ArithmeticError"),
        ("a loader that raises", everything, (8, 9), "fails", "cross entropy", "LookupError"),
        ("a loader that raises at its first batch", everything, (), "fails", "cross entropy", "LookupError"),
        ("Ctrl-C", everything, (8, 9), "interrupted", "cross entropy", "KeyboardInterrupt"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(evaluated, evaluate, cut(*sizes), modes, kind, loss, True)
        lost = "An exception from the loss, the model or the loader must reach the caller."
        seen.that(seen["raised"] == raised, lost, stage="raised")
        judge_flags(seen, interrupt if kind == "interrupted" else exception if sizes else at_once)

    test.hidden("a caller that records no gradients")
    seen = observe_scenario(evaluated, evaluate, cut(9, 5), everything, "list", "cross entropy", False, False)
    judge_floats(seen)
    judge_flags(seen)

    test.hidden("an empty loader")
    for kind in ("list", "generator"):
        seen = observe_scenario(evaluated, evaluate, [], everything, kind, "cross entropy", True)
        empty = "An empty loader must raise ValueError instead of dividing by zero."
        seen.that(seen["raised"] == "ValueError", empty, stage="raised")
        judge_flags(seen, exception)
    ### END HIDDEN TESTS
