import copy
import io

import torch
from torch import nn

# corners: none


def seen_data(model, batches=10):
    """The model after some batches in train mode."""
    model.train()
    for _ in range(batches):
        model(torch.randn(16, 3))
    return model


def agree(one, other):
    x = torch.randn(16, 3)
    return torch.equal(one.eval()(x), other.eval()(x))


def survives(make):
    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% right: through a file in memory, without gradients, many inputs
def survives(make):
    trained, file = make(), io.BytesIO()
    with torch.no_grad():
        for _ in range(50):
            trained.train()(2 * torch.randn(64, 3))
        torch.save(trained.state_dict(), file)
        file.seek(0)
        fresh = make()
        fresh.load_state_dict(torch.load(file))
        return all(agree(trained, fresh) for _ in range(5))


# %% right: trains with an optimizer
def survives(make):
    trained, fresh = make().train(), make()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    for _ in range(10):
        optimizer.zero_grad()
        trained(torch.randn(16, 3)).square().mean().backward()
        optimizer.step()
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% right: an assertion in place of False, and a report in place of an error
def survives(make):
    fresh, trained = make(), make()
    seen_data(trained, 20)
    report = fresh.load_state_dict(trained.state_dict(), strict=False)
    assert not report.missing_keys and not report.unexpected_keys
    x = torch.randn(100, 3)
    torch.testing.assert_close(fresh.eval()(x), trained.eval()(x), rtol=0, atol=0)
    return True


# %% right: the fresh model has seen other data, three models, a tensor of one bool
def survives(make):
    trained, fresh, used = seen_data(make()), make(), seen_data(make(), 3)
    try:
        for model in (fresh, used):
            model.load_state_dict(trained.state_dict())
    except RuntimeError:
        return False
    x = torch.randn(32, 3)
    return (trained.eval()(x) == fresh.eval()(x)).all()


# %% right: with an optimizer where there is something to train
def survives(make):
    trained, fresh = make().train(), make()
    weights = [p for p in trained.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.01) if weights else None
    for _ in range(12):
        loss = trained(torch.randn(16, 3)).square().mean()
        if optimizer:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: a copy of the model, not a new one
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# says: Your test lets through a model that keeps its weight in a plain tensor that requires grad. It lets 2 of 2 wrong ones through.
# earns: 0 of 2
# lesson
def survives(make):
    trained = seen_data(make())
    fresh = copy.deepcopy(trained)
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: loads into the same model
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# says: Your test lets through a model that keeps its weight in a plain tensor that requires grad. It lets 2 of 2 wrong ones through.
# earns: 0 of 2
def survives(make):
    trained = seen_data(make())
    x = torch.randn(16, 3)
    before = trained.eval()(x)
    trained.load_state_dict(trained.state_dict())
    return torch.equal(trained(x), before)


# %% wrong: the same seed for both, so that random numbers agree
# says: Your test lets through a model that computes a plain tensor from its weight when it is built.
# says: Your test lets through a model that keeps its weight in a plain tensor that requires grad.
# earns: 0 of 2
# lesson
def survives(make):
    torch.manual_seed(0)
    trained = seen_data(make())
    torch.manual_seed(0)
    fresh = make()
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: compares the state_dicts
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# says: Your test lets through a model that keeps its weight in a plain tensor that requires grad. It lets 2 of 2 wrong ones through.
# earns: 0 of 2
# lesson
def survives(make):
    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    return all(torch.equal(a, b) for a, b in zip(trained.state_dict().values(), fresh.state_dict().values()))


# %% wrong: the model never sees data
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# earns: 1 of 2
# lesson
def survives(make):
    trained, fresh = make(), make()
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: the model sees data in eval mode only
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# earns: 1 of 2
def survives(make):
    trained, fresh = make().eval(), make()
    for _ in range(10):
        trained(torch.randn(16, 3))
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: both models see the same data
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# earns: 1 of 2
def survives(make):
    trained, fresh = make(), make()
    for _ in range(10):
        x = torch.randn(16, 3)
        trained(x), fresh(x)
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: one batch only
# says: Your test lets through a model that uses a plain number that it has measured only after five batches.
# earns: 1 of 2
# caught: hidden
def survives(make):
    trained, fresh = seen_data(make(), 1), make()
    fresh.load_state_dict(trained.state_dict())
    return agree(trained, fresh)


# %% wrong: compares in train mode
# says: Your test fails a right model, which has batch norm and dropout.
# earns: 1 of 2
# lesson
def survives(make):
    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    x = torch.randn(16, 3)
    return torch.equal(trained.train()(x), fresh.train()(x))


# %% wrong: saves before the model sees data
# says: Your test fails a right model, which assigns a running mean to its buffer.
# earns: 1 of 2
def survives(make):
    trained, fresh = make(), make()
    state = trained.state_dict()  # shares the memory of the first buffers, not of those that replace them
    seen_data(trained)
    fresh.load_state_dict(state)
    return agree(trained, fresh)


# %% wrong: inputs of ones
# says: Your test lets through a model that draws a plain tensor at random and uses it only where an input is negative.
# earns: 1 of 2
# caught: hidden
def survives(make):
    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    x = torch.ones(2, 3)
    return torch.equal(trained.eval()(x), fresh.eval()(x))


# %% wrong: looks for lists and plain tensors in place of running the model
# says: Your test lets through a model that counts its calls in a plain number. It lets 5 of 8 wrong ones through.
# says: Your test fails a right model, which has a plain tensor and a list that are the same in every new model.
# earns: 0 of 2
# caught: hidden
def survives(make):
    modules = [make(), *make().modules()]
    loose = [value for module in modules for name, value in vars(module).items() if name[0] != "_"]
    return not any(isinstance(value, (list, dict, torch.Tensor)) for value in loose)


# %% wrong: looks for attributes that no state_dict has
# says: Your test fails a right model, which saves the number of its calls with `get_extra_state`.
# says: Your test fails a right model, which has a non-persistent buffer that is the same in every new model.
# earns: 0 of 2
def survives(make):
    model = make()
    saved = {name.split(".")[0] for name in model.state_dict()}
    ignored = {*vars(nn.Module()), "forward"}
    held = {*vars(model), *dict(model.named_buffers())} - ignored
    return {name.split(".")[0] for name in held} <= saved


# %% wrong: functional_call in place of loading
# says: Your test fails a right model, which uses one layer twice and has a frozen one: your test raised ValueError
# says: Your test fails a right model, which saves the number of its calls with `get_extra_state`.
# earns: 0 of 2
# caught: hidden
def survives(make):
    trained, fresh = seen_data(make()).eval(), make().eval()
    x = torch.randn(16, 3)
    return torch.equal(trained(x), torch.func.functional_call(fresh, trained.state_dict(), x))


# %% wrong: compares in train mode, with a seed
# says: Your test lets through a model that subtracts a mean that it keeps in a plain tensor, in eval mode only.
# earns: 1 of 2
# caught: hidden
def survives(make):
    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    x, results = torch.randn(16, 3) / 10, []
    for model in (trained, fresh):
        torch.manual_seed(1)
        results.append(model(x))
    return torch.equal(*results)


# %% wrong: compares all that the models hold
# says: Your test fails a right model, which notes the size of its last batch, which `forward` doesn't use.
# earns: 1 of 2
# caught: hidden
def survives(make):
    def alike(one, other):
        if isinstance(one, torch.Tensor):
            return torch.equal(one, other)
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
        if isinstance(one, (list, tuple)):
            return len(one) == len(other) and all(map(alike, one, other))
        if isinstance(one, nn.Module):
            return alike(vars(one), vars(other))
        return not isinstance(one, (int, float)) or one == other

    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    return alike(trained.eval(), fresh.eval())


# %% wrong: saves the whole model
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# says: Your test fails a right model, which keeps its weight in a Parameter and its bias in a buffer:
# earns: 0 of 2
def survives(make):
    trained, file = seen_data(make()), io.BytesIO()
    torch.save(trained, file)
    file.seek(0)
    return agree(trained, torch.load(file, weights_only=False))


# %% wrong: other inputs for the two models
# says: Your test fails a right model, which has batch norm and dropout.
# says: Your test fails a right model, which keeps its weight in a Parameter and its bias in a buffer.
# earns: 0 of 2
def survives(make):
    trained, fresh = seen_data(make()), make()
    fresh.load_state_dict(trained.state_dict())
    return torch.equal(trained.eval()(torch.randn(16, 3)), fresh.eval()(torch.randn(16, 3)))


# %% wrong: returns what load_state_dict reports
# says: Your test must return True or False, but it returned a _IncompatibleKeys.
# earns: 0 of 2
def survives(make):
    trained, fresh = seen_data(make()), make()
    return fresh.load_state_dict(trained.state_dict())


# %% wrong: always True
# says: Your test lets through a model that keeps a running mean in a plain tensor.
# says: It lets 2 of 2 wrong ones through.
# earns: 0 of 2
def survives(make):
    return True


# %% wrong: always False
# says: Your test fails a right model, which has batch norm and dropout.
# says: Your test fails a right model, which keeps its weight in a Parameter and its bias in a buffer.
# earns: 0 of 2
def survives(make):
    return False


# %% wrong: goes by the function's name
# says: Your test fails a right model, which has batch norm and dropout.
# says: Your test fails a right model, which keeps its weight in a Parameter and its bias in a buffer.
# earns: 0 of 2
def survives(make):
    return "right" in make.__name__


# %% wrong: counts its calls
# says: Your test was asked about one model twice, and changed its opinion.
# earns: 0 of 2
def survives(make):
    CALLS.append(make)
    return len(CALLS) % 4 in (1, 2)


CALLS = []


# %% wrong: batches of two rows
# says: Your test lets through a model that counts its rows in a plain number, and uses it from 100 rows on.
# earns: 1 of 2
# caught: hidden
def survives(make):
    trained, fresh = make().train(), make()
    for _ in range(10):
        trained(torch.randn(2, 3))
    fresh.load_state_dict(trained.state_dict())
    x = torch.randn(2, 3)
    return torch.equal(trained.eval()(x), fresh.eval()(x))


# %% wrong: the model that loads has been called in train mode
# says: Your test lets through a model that measures its first batch and notes in a plain bool that it has done so.
# earns: 1 of 2
# caught: hidden
def survives(make):
    trained, fresh = seen_data(make()), make()
    try:
        fresh.load_state_dict(trained.state_dict())
        seen_data(fresh, 1)
        seen_data(trained, 1)
        fresh.load_state_dict(trained.state_dict())
    except RuntimeError:
        return False
    return agree(trained, fresh)
