# %% right: lerp for the step
# `h + g * (x - h)` has a name. It is one operation in place of three, and there is nothing to write into.
def leaky_scan(x, w, conf):
    """Each state between the last one and the input."""
    states = [x.new_zeros(x.shape[1:])]
    for step, confidence in zip(x, conf, strict=True):
        states.append(torch.lerp(states[-1], step, confidence * (step * w).sigmoid()))
    return torch.stack(states)[1:]


# %% right: stays in place, on clones
# The smallest change: each tensor that backward needs is cloned before it is written to. It copies what a new result
# would have been.
def leaky_scan(x, w, conf):
    """The given loop, with two clones."""
    h = x.new_zeros(x.shape[1:])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w).clone()
        g *= conf[t]
        h += g * (x[t] - h)
        outs.append(h.clone())
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: scales through .data
# says: The forward is right, the gradient is not: writing through .data hides the change from autograd
# The error message is gone, and with it the only sign that something is wrong.
def leaky_scan(x, w, conf):
    """A change that autograd doesn't notice."""
    h = x.new_zeros(x.shape[1:])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        g.data *= conf[t]
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)
