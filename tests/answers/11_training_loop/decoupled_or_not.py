import torch
from torch import nn


def changes(make_optimizer, sizes, grad=0.0, dtype=torch.float64):
    """How much weights of these sizes lose in one step with a gradient."""
    weights = [nn.Parameter(torch.tensor([size], dtype=dtype)) for size in sizes]
    optimizer = make_optimizer(weights)
    for weight in weights:
        weight.grad = None if grad is None else torch.full_like(weight, grad)
    optimizer.step()
    return [size - weight.item() for size, weight in zip(sizes, weights)]


# corners: zeros


# %% right: relative changes of the two halves of one experiment
def is_decoupled(make_optimizer):
    one, many = changes(make_optimizer, (0.5, 5000.0))
    if one == 0 and many == 0:
        raise ValueError("no decay")
    return bool(torch.isclose(torch.tensor(one / 0.5), torch.tensor(many / 5000.0), rtol=1e-3, atol=0.0))


# %% right: two runs, the ratio of the absolute steps
def is_decoupled(make_optimizer):
    (small,) = changes(make_optimizer, (2.0,))
    (large,) = changes(make_optimizer, (2000.0,))
    if abs(small) < 1e-13:
        raise ValueError("this optimizer leaves a weight without gradient alone")
    return large / small > 50


# %% right: large gradients of both signs cancel; what is left is the decay
def is_decoupled(make_optimizer):
    (at_rest,) = changes(make_optimizer, (1.0,))
    if not at_rest:
        raise ValueError
    (down,), (up,) = changes(make_optimizer, (1.0,), 1e4), changes(make_optimizer, (1.0,), -1e4)
    return abs((down + up) / 2 - at_rest) < 0.01 * at_rest


# %% right: several steps, many weights in one parameter
def is_decoupled(make_optimizer):
    start = torch.logspace(0, 3, 7, dtype=torch.float64)
    weight = nn.Parameter(start.clone())
    optimizer = make_optimizer([weight])
    for _ in range(3):
        optimizer.zero_grad()
        (weight * 0).sum().backward()
        optimizer.step()
    shrunk = weight.detach() / start
    if shrunk.eq(1).all():
        raise ValueError("nothing decays")
    return torch.allclose((1 - shrunk) / (1 - shrunk[0]), torch.ones_like(shrunk), rtol=1e-3)


# %% wrong: asks for the class
# says: You decided without a step, by the class or its name: Adam(decoupled_weight_decay=True) is
# earns: 0 of 1
# lesson
def is_decoupled(make_optimizer):
    optimizer = make_optimizer([nn.Parameter(torch.ones(1))])
    if not optimizer.defaults.get("weight_decay", 1):
        raise ValueError
    return type(optimizer).__name__ == "AdamW"


# %% wrong: reads the defaults
# says: You read the optimizer's settings (its defaults or its groups), which a wrapper doesn't have:
# earns: 0 of 1
def is_decoupled(make_optimizer):
    optimizer = make_optimizer([nn.Parameter(torch.ones(1))])
    if optimizer.defaults["weight_decay"] == 0:
        raise ValueError
    return optimizer.defaults["decoupled_weight_decay"]


# %% wrong: reads the groups, after a step for the sake of appearance
# says: Behind a class of its own, AdamW was taken for the other kind: the class, its name, its settings and
# earns: 0 of 1
def is_decoupled(make_optimizer):
    optimizer = make_optimizer([nn.Parameter(torch.ones(1))])
    optimizer.step()
    group = optimizer.param_groups[0]
    if group.get("weight_decay") == 0:
        raise ValueError
    return group.get("decoupled_weight_decay", False)


# %% wrong: one weight, did it shrink?
# says: A single weight can't tell the two kinds apart. Compare a small and a large weight.
# earns: 0 of 1
# lesson
def is_decoupled(make_optimizer):
    (change,) = changes(make_optimizer, (1.0,))
    if change == 0:
        raise ValueError
    return change > 0


# %% wrong: with a gradient of one
# says: With a non-zero gradient, the step hides the decay. Set the gradient to zero (not to None).
# earns: 0 of 1
# lesson
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0), grad=1.0)
    return abs(small / large * 1000 - 1) < 0.01


# %% wrong: no gradient
# says: The optimizer skips a parameter whose gradient is None, so it doesn't decay either. Give it a gradient
# earns: 0 of 1
# lesson
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0), grad=None)
    return small > 0 and abs(small / large * 1000 - 1) < 0.01


# %% wrong: no gradient, and so ValueError
# says: The optimizer skips a parameter whose gradient is None, so it doesn't decay either. Give it a gradient
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0), grad=None)
    if small == 0:
        raise ValueError
    return True


# %% wrong: a step below 0.05
# says: A fixed threshold on the step fails for other values of lr and weight_decay. Compare two weights with
# earns: 0 of 1
def is_decoupled(make_optimizer):
    (change,) = changes(make_optimizer, (1.0,))
    if change == 0:
        raise ValueError
    return change < 0.05


# %% wrong: in float32
# says: In float32 a proportion of 1e-8 is lost. Run the experiment in float64.
# earns: 0 of 1
# caught: hidden
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1024.0), dtype=torch.float32)
    if small == large == 0:
        raise ValueError
    return abs(small * 1024 - large) < 0.01 * large


# %% wrong: a bound that takes small changes for equal ones
# says: A fixed threshold on the step fails for other values of lr and weight_decay. Compare two weights with
# earns: 0 of 1
# caught: hidden
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0))
    if small == large == 0:
        raise ValueError
    return abs(small - large / 1000) < 1e-3


# %% wrong: compares the proportions exactly
# says: are equal only up to rounding. Don't compare them exactly.
# earns: 0 of 1
# caught: hidden
def is_decoupled(make_optimizer):
    weights = [nn.Parameter(torch.tensor(size, dtype=torch.float64)) for size in (1.0, 1000.0)]
    optimizer = make_optimizer(weights)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    small, large = 1 - weights[0].item(), 1 - weights[1].item() / 1000
    if small == large == 0:
        raise ValueError("no decay")
    return small == large


# %% wrong: exchanged
# says: You return True for False and False for True.
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0))
    if small == large == 0:
        raise ValueError
    return abs(small / large - 1) < 0.01


# %% wrong: no check for missing decay
# says: If the optimizer does not decay, your function must raise ValueError.
# earns: 0 of 1
# caught: hidden
# corner: zeros
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0))
    return abs(small * 1000 - large) <= 0.01 * large


# %% wrong: ZeroDivisionError for missing decay
# says: If the optimizer does not decay, your function must raise ValueError.
# earns: 0 of 1
# caught: hidden
# corner: zeros
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0))
    return abs(small / large * 1000 - 1) < 0.01


# %% wrong: a bound for missing decay that is too high
# says: A fixed threshold on the step fails for other values of lr and weight_decay. Compare two weights with
# earns: 0 of 1
# caught: hidden
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0))
    if large < 1e-3:
        raise ValueError
    return abs(small / large * 1000 - 1) < 0.01


# %% wrong: a tensor
# says: NumPy's and torch's booleans are not Python's: convert them with bool().
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, (1.0, 1000.0))
    return torch.tensor(abs(small / large * 1000 - 1) < 0.01)


# %% wrong: asks whether the class is Adam
# says: You decided without a step, by the class or its name: Adam(decoupled_weight_decay=True) is
# earns: 0 of 1
def is_decoupled(make_optimizer):
    return make_optimizer([nn.Parameter(torch.ones(1))]).__class__.__name__ != "Adam"


# %% right: weights of both signs in one parameter
def is_decoupled(make_optimizer):
    start = torch.tensor([-1.0, 64.0], dtype=torch.float64)
    weight = nn.Parameter(start.clone())
    optimizer = make_optimizer([weight])
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    step = weight.detach() - start
    if not step.any():
        raise ValueError("no decay")
    return bool(abs(step[1] / step[0] + 64) < 1)


# %% wrong: reads the optimizer's state after a step
# says: The names in the state differ from optimizer to optimizer
# earns: 0 of 1
def is_decoupled(make_optimizer):
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = make_optimizer([weight])
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    if weight.item() == 1:
        raise ValueError("no decay")
    return optimizer.state[weight]["exp_avg"].item() == 0


# %% wrong: compares with lr times weight_decay, read from the groups
# says: You read the optimizer's settings (its defaults or its groups), which a wrapper doesn't have:
# earns: 0 of 1
def is_decoupled(make_optimizer):
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = make_optimizer([weight])
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    if weight.item() == 1:
        raise ValueError("no decay")
    group = optimizer.param_groups[0]
    return abs(1 - weight.item() - group["lr"] * group["weight_decay"]) < 1e-12


# %% wrong: looks whether .grad has changed
# says: A single weight can't tell the two kinds apart. Compare a small and a large weight.
# earns: 0 of 1
def is_decoupled(make_optimizer):
    weight = nn.Parameter(torch.ones(1))
    optimizer = make_optimizer([weight])
    weight.grad = torch.zeros(1)
    optimizer.step()
    return not weight.grad.any().item()


# %% wrong: two weights of nearly the same size
# says: A single weight can't tell the two kinds apart. Compare a small and a large weight.
# earns: 0 of 1
def is_decoupled(make_optimizer):
    one, other = changes(make_optimizer, (1.0, 1.001))
    if one == other == 0:
        raise ValueError("no decay")
    return abs(one / other * 1.001 - 1) < 0.01


# %% wrong: looks whether the moments in the state stay zero
# says: Behind a class of its own, Adam was taken for the other kind: the class, its name, its settings and
# earns: 0 of 1
def is_decoupled(make_optimizer):
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = make_optimizer([weight])
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    if weight.item() == 1:
        raise ValueError("no decay")
    moments = [kept for name, kept in optimizer.state[weight].items() if name != "step"]
    return all(not kept.any() for kept in moments if isinstance(kept, torch.Tensor))


# %% wrong: by the defaults
# says: You read the optimizer's settings (its defaults or its groups), which a wrapper doesn't have:
# earns: 0 of 1
def is_decoupled(make_optimizer):
    optimizer = make_optimizer([nn.Parameter(torch.ones(1))])
    if optimizer.defaults["weight_decay"] == 0:
        raise ValueError("no decay")
    return bool(optimizer.defaults.get("decoupled_weight_decay"))


# %% wrong: by the name
# says: You decided without a step, by the class or its name: Adam(decoupled_weight_decay=True) is
# earns: 0 of 1
def is_decoupled(make_optimizer):
    return "W" in type(make_optimizer([nn.Parameter(torch.ones(1))])).__name__


# %% wrong: a fixed threshold
# says: A fixed threshold on the step fails for other values of lr and weight_decay. Compare two weights with
# earns: 0 of 1
# caught: hidden
def is_decoupled(make_optimizer):
    w = nn.Parameter(torch.tensor(1000.0, dtype=torch.float64))
    optimizer = make_optimizer([w])
    w.grad = torch.zeros_like(w)
    optimizer.step()
    if w.item() == 1000.0:
        raise ValueError("no decay")
    return 1000.0 - w.item() > 1


# %% wrong: a boolean of torch
# says: NumPy's and torch's booleans are not Python's: convert them with bool().
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, [1.0, 100.0])
    if small == large == 0:
        raise ValueError("no decay")
    return torch.tensor(large) > 10 * torch.tensor(small)


# %% wrong: every decay is coupled
# says: AdamW's is decoupled, and you returned False.
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, [1.0, 100.0])
    if small == large == 0:
        raise ValueError("no decay")
    return False


# %% wrong: by the class, seen in a step
# says: Adam and NAdam have decoupled_weight_decay=True as well as False: neither the class nor its name tells which decay it is. Compare how far two weights move.
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, [1.0, 100.0])
    if small == large == 0:
        raise ValueError("no decay")
    weights = [nn.Parameter(torch.ones(2, dtype=torch.float64))]
    kind = type(make_optimizer(weights)).__name__
    return large > 10 * small if kind not in ("Adam", "NAdam") else False


# %% wrong: a boolean of NumPy's
# says: NumPy's and torch's booleans are not Python's: convert them with bool().
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, [1.0, 100.0])
    if small == large == 0:
        raise ValueError("no decay")
    return torch.tensor([large, 10 * small]).numpy().argmax() == torch.zeros(1, dtype=torch.int64).numpy()[0]


# %% wrong: in words
# says: Return True or False, a Python bool.
# earns: 0 of 1
def is_decoupled(make_optimizer):
    small, large = changes(make_optimizer, [1.0, 100.0])
    if small == large == 0:
        raise ValueError("no decay")
    return "decoupled" if large > 10 * small else "coupled"


# %% wrong: two weights, but with a large gradient, beside which a small decay is lost
# says: With a non-zero gradient, the step hides the decay. Set the gradient to zero (not to None).
# earns: 0 of 1
# caught: hidden
def is_decoupled(make_optimizer):
    if changes(make_optimizer, (1.0,)) == [0]:
        raise ValueError("no decay")
    small, large = changes(make_optimizer, (1.0, 100.0), grad=1e4)
    return abs(small / large - 1) > 0.01
