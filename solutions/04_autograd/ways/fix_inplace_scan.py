# %% right: lerp for the step
# `torch.lerp(h, x, g)` is `h + g * (x - h)`, one operation instead of three, and it always makes a new tensor. The
# zero state is stacked with the others, so T = 0 is no special case; the result is a view that keeps one state more
# than it shows.
def leaky_scan(x, w, conf):
    """Each state between the last one and the input."""
    states = [x.new_zeros(x.shape[1:])]
    for step, confidence in zip(x, conf, strict=True):
        states.append(torch.lerp(states[-1], step, confidence * (step * w).sigmoid()))
    return torch.stack(states)[1:]


# %% right: stays in place, on clones
# This adds two clones to the given loop. The first leaves the output of sigmoid, which its backward needs, as it was;
# the second keeps each state, because otherwise all entries of `outs` are one tensor. A clone takes as much memory as
# a new result, so writing in place saves nothing here.
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
