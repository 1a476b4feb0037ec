# %% [markdown]
# ### Exercise 7.1 · Which models survive a checkpoint?
#
# separate · warm-up · 12 min · 2 points
#
# You get models from other people, and want to know whether a checkpoint contains everything that they compute with. A
# list of their attributes doesn't tell you that, but a test does: if you train a model, save it, and load the
# `state_dict` into a newly built one, both must compute the same. Write that test.
#
# `fresh.load_state_dict(trained.state_dict())` copies what is saved from one model into another of the same class.
#
# **Contract**
#
# - `make()` builds a new model of a class, with new random weights. All models map (N, 3) float32 to (N, 2), for any N
#   from 2 on.
# - `survives(make)` returns True if everything that the model's `forward` uses is restored by loading, and False if
#   not. If loading raises an error, you may return False or let it through.
# - Some models change while they are trained, without an optimizer: when `forward` runs in train mode, it counts or
#   measures. That must be restored as well. Compare the outputs in eval mode (`model.eval()`, section 7.8), because in
#   train mode some models draw random numbers.
# - If a model doesn't survive, it shows after ten batches of `torch.randn(16, 3)` in train mode, for inputs of the same
#   kind. A model that does survive gives bit for bit the same outputs.
#
# The check asks your test about models that survive and models that don't, some of which it shows you.
#
# <details><summary>Hint 1</summary>
#
# Where could the new model get the right numbers from, other than from the checkpoint? Think of copies, of equal seeds,
# and of numbers that every new model has.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You need two calls of `make()`. Let only one of the two models see data in train mode, and let it see all of them
# before you take its `state_dict`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Build both models and call the first one ten times in train mode, on random rows. Load its `state_dict` into the
# second. Then switch both to eval mode, and compare their outputs for one more batch of random rows with `torch.equal`.
#
# </details>


# %% answer="survives-loading"
def survives(make: Callable[[], nn.Module]) -> bool:
    """Whether a model that is loaded from another one's state_dict computes the same."""
    ### BEGIN SOLUTION
    trained, fresh = make(), make()
    trained.train()
    for _ in range(10):
        trained(torch.randn(16, 3))
    fresh.load_state_dict(trained.state_dict())
    x = torch.randn(16, 3)
    return torch.equal(trained.eval()(x), fresh.eval()(x))
    ### END SOLUTION


# %% helpers="survives-loading"
def built(attributes, forward):
    """A function that builds a model: `attributes()` gives its attributes, and `forward` computes with them."""

    def make():
        model = nn.Module()
        for name, value in attributes().items():
            setattr(model, name, value)
        model.forward = partial(forward, model)
        return model

    return make


def two_by_three():
    """New random weights."""
    return torch.randn(2, 3)


# %% check="survives-loading" points=1
"""Your test is asked about models whose tensors are kept in different places."""
with check("survives-loading") as test:

    def models():
        """What each model does, and what builds it; the first two survive."""
        return {
            "keeps its weight in a Parameter and its bias in a buffer": built(
                lambda: {"weight": nn.Parameter(two_by_three()), "bias": nn.Buffer(torch.randn(2))},
                lambda model, x: F.linear(x, model.weight, model.bias),
            ),
            "has a non-persistent buffer that is the same in every new model": built(
                lambda: {"fc": nn.Linear(3, 2), "signs": nn.Buffer(torch.tensor([1.0, -1.0]), persistent=False)},
                lambda model, x: model.fc(x) * model.signs,
            ),
            "keeps its weight in a plain tensor that requires grad": built(
                lambda: {"weight": two_by_three().requires_grad_()},
                lambda model, x: F.linear(x, model.weight),
            ),
            "keeps its layers in a Python list": built(
                lambda: {"layers": [nn.Linear(3, 3), nn.Linear(3, 2)]},
                lambda model, x: model.layers[1](model.layers[0](x).relu()),
            ),
        }

    def on_each(survives):
        """Ask about two models that survive and two that don't."""
        return opinions(survives, models())

    test("a Parameter, a buffer, a plain tensor, a Python list")
    names = list(models())
    observe_scenario(on_each, survives).tells_apart(names[:2], names[2:], noun="model")

    ### BEGIN HIDDEN TESTS
    def noting(model, x):
        """One layer after a fixed mean; what it notes is for people only."""
        if model.training:
            model.last = x.norm().item()
        return model.fc(x - model.mean)

    def tied():
        first = nn.Linear(3, 3)
        return {"first": first, "second": first, "last": nn.Linear(3, 2).requires_grad_(False)}

    def other_models():
        """What each model does, and what builds it; the first four survive."""
        return {
            "keeps its layers in a ModuleList and its scales in a ParameterList": built(
                lambda: {
                    "layers": nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 2)]),
                    "scales": nn.ParameterList([torch.rand(1), torch.rand(1)]),
                },
                lambda model, x: model.layers[1](model.layers[0](x) * model.scales[0]) * model.scales[1],
            ),
            "uses one layer twice and has a frozen one": built(
                tied, lambda model, x: model.last(model.second(model.first(x).relu()))
            ),
            "has a plain tensor and a list that are the same in every new model": built(
                lambda: {"fc": nn.Linear(3, 2), "sizes": [3, 2], "signs": torch.tensor([1.0, -1.0])},
                lambda model, x: model.fc(x) * model.signs + len(model.sizes),
            ),
            "notes the size of its last batch, which `forward` doesn't use": built(
                lambda: {"fc": nn.Linear(3, 2), "mean": nn.Buffer(torch.randn(3)), "last": 0.0}, noting
            ),
            "keeps its layers in a Python dict": built(
                lambda: {"body": nn.Linear(3, 3), "heads": {"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)}},
                lambda model, x: model.heads["a"](model.body(x)),
            ),
            "keeps Parameters in a Python list": built(
                lambda: {"weights": [nn.Parameter(two_by_three())]}, lambda model, x: F.linear(x, model.weights[0])
            ),
            "draws a non-persistent buffer at random": built(
                lambda: {"fc": nn.Linear(3, 2), "random": nn.Buffer(torch.randn(3, 3), persistent=False)},
                lambda model, x: model.fc(x @ model.random),
            ),
            "draws a plain tensor at random and uses it only where an input is negative": built(
                lambda: {"fc": nn.Linear(3, 2), "slope": torch.rand(1)},
                lambda model, x: model.fc(F.prelu(x, model.slope)),
            ),
        }

    def on_others(survives):
        """Ask about further models."""
        return opinions(survives, other_models())

    test.hidden("further places for a tensor")
    names = list(other_models())
    observe_scenario(on_others, survives).tells_apart(names[:4], names[4:], noun="model")
    ### END HIDDEN TESTS

# %% check="survives-loading" points=1
"""Your test is asked about models that change while they are trained."""
with check("survives-loading") as test:

    class Measures(nn.Module):
        """Subtracts a running mean, which it measures in train mode; `keep` says in what it is kept."""

        def __init__(self, keep):
            super().__init__()
            self.fc, self.mean = nn.Linear(3, 2), keep(torch.zeros(3))

        def forward(self, x):
            if self.training:
                self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return self.fc(x - self.mean)

    def models():
        """What each model does, and what builds it; the first two survive."""
        return {
            "has batch norm and dropout": lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)),
            "assigns a running mean to its buffer": lambda: Measures(nn.Buffer),
            "keeps a running mean in a plain tensor": lambda: Measures(torch.clone),
        }

    def on_each(survives):
        """Ask about two models that survive and one that doesn't."""
        return opinions(survives, models())

    test("batch norm and dropout, and a running mean in a buffer and in a plain tensor")
    names = list(models())
    observe_scenario(on_each, survives).tells_apart(names[:2], names[2:], noun="model")

    ### BEGIN HIDDEN TESTS
    def counted(model, x):
        """One layer, whose output shrinks with each call in train mode."""
        model.calls += model.training
        return model.fc(x) / (1 + model.calls)

    def after_warm_up(model, x):
        """One layer; once five batches came in train mode, it uses the largest number that it has seen."""
        if model.training:
            model.calls += 1
            model.largest = max(model.largest, x.abs().max().item())
        return model.fc(x) / (model.largest if model.calls > 5 else 1.0)

    def late(model, x):
        """One layer, and a buffer that is first made in train mode."""
        if model.training:
            model.scale = nn.Buffer(x.detach().std())
        return model.fc(x) * getattr(model, "scale", 1.0)

    def in_dict(model, x):
        """One layer, and statistics in a dict."""
        if model.training:
            model.seen["sum"] += x.detach().sum(0)
        return model.fc(x + model.seen["sum"])

    def as_batch_norm(model, x):
        """One layer after the mean is taken off: in train mode the batch's, in eval mode the running one."""
        if model.training:
            model.mean = 0.9 * model.mean + 0.1 * x.detach().mean(0)
            return model.fc(x - x.mean(0))
        return model.fc(x - model.mean)

    def first_batch(model, x):
        """One layer; the mean of the first batch in train mode is taken off as soon as it is there."""
        if model.training and not model.measured:
            model.mean.copy_(x.detach().mean(0))
            model.measured = True
        return model.fc(x - model.mean if model.measured else x)

    def after_a_hundred(model, x):
        """One layer, whose output is ten times as large once a hundred rows came in train mode."""
        model.rows += len(x) * model.training
        return model.fc(x) * (10.0 if model.rows >= 100 else 1.0)

    def stale():
        weight = nn.Parameter(two_by_three())
        return {"weight": weight, "scaled": weight.detach() / weight.detach().norm()}

    class Extra(nn.Module):
        """Counts its calls in train mode in a plain number, and saves that as its extra state."""

        def __init__(self):
            super().__init__()
            self.fc, self.calls = nn.Linear(3, 2), 0

        def forward(self, x):
            return counted(self, x)

        def get_extra_state(self):
            return torch.tensor(self.calls)

        def set_extra_state(self, state):
            self.calls = int(state)

    def other_models():
        """What each model does, and what builds it; the first two survive."""
        return {
            "counts its calls in a buffer": built(
                lambda: {"fc": nn.Linear(3, 2), "calls": nn.Buffer(torch.tensor(0))}, counted
            ),
            "saves the number of its calls with `get_extra_state`": Extra,
            "counts its calls in a plain number": built(lambda: {"fc": nn.Linear(3, 2), "calls": 0}, counted),
            "keeps its statistics in a Python dict": built(
                lambda: {"fc": nn.Linear(3, 2), "seen": {"sum": torch.zeros(3)}}, in_dict
            ),
            "uses a plain number that it has measured only after five batches": built(
                lambda: {"fc": nn.Linear(3, 2), "calls": nn.Buffer(torch.tensor(0)), "largest": 0.0}, after_warm_up
            ),
            "subtracts a mean that it keeps in a plain tensor, in eval mode only": built(
                lambda: {"fc": nn.Linear(3, 2), "mean": torch.zeros(3)}, as_batch_norm
            ),
            "makes a buffer in train mode that a new model doesn't have": built(lambda: {"fc": nn.Linear(3, 2)}, late),
            "computes a plain tensor from its weight when it is built": built(
                stale, lambda model, x: F.linear(x, model.scaled)
            ),
            "measures its first batch and notes in a plain bool that it has done so": built(
                lambda: {"fc": nn.Linear(3, 2), "mean": nn.Buffer(torch.zeros(3)), "measured": False}, first_batch
            ),
            "counts its rows in a plain number, and uses it from 100 rows on": built(
                lambda: {"fc": nn.Linear(3, 2), "rows": 0}, after_a_hundred
            ),
        }

    def on_others(survives):
        """Ask about further models."""
        return opinions(survives, other_models())

    test.hidden("further things that a model may measure")
    names = list(other_models())
    observe_scenario(on_others, survives).tells_apart(names[:2], names[2:], noun="model")
    ### END HIDDEN TESTS
