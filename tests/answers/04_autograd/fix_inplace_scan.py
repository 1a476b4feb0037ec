# corners: empty, half precision
# %% right: keeps the in-place style, but on clones
def leaky_scan(x, w, conf):
    if len(x) == 0:
        return torch.zeros_like(x)
    h = torch.zeros_like(x[0])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w).clone()
        g *= conf[t]
        h += g * (x[t] - h)
        outs.append(h.clone())
    return torch.stack(outs)


# %% right: torch.lerp for the step
def leaky_scan(x, w, conf):
    h = x.new_zeros(x.shape[1:])
    outs = [h]
    for step, c in zip(x, conf):
        outs.append(torch.lerp(outs[-1], step, c * (step * w).sigmoid()))
    return torch.stack(outs)[1:]


# %% right: all gates at once, results written into a preallocated tensor
def leaky_scan(x, w, conf):
    gates = torch.sigmoid(x * w) * conf
    out = torch.empty_like(x)
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    for t in range(x.shape[0]):
        h = (1 - gates[t]) * h + gates[t] * x[t]
        out[t] = h
    return out


# %% right: weights of all steps, without a state
def leaky_scan(x, w, conf):
    g = conf * torch.sigmoid(x * w)
    rows = []
    for t in range(len(x)):
        total = torch.zeros_like(x[t])
        for s in range(t + 1):
            total = total + g[s] * x[s] * torch.prod(1 - g[s + 1 : t + 1], dim=0)
        rows.append(total)
    return torch.stack(rows) if rows else x.clone()


# %% right: scales in place what no backward needs
def leaky_scan(x, w, conf):
    outs, h = [], torch.zeros(x.shape[1:], dtype=x.dtype)
    for t in range(len(x)):
        step = x[t] - h
        step = step * torch.sigmoid(x[t] * w)
        step = step.mul_(conf[t])
        h = h.add(step)
        outs += [h]
    return torch.cat([h[None] for h in outs]) if outs else torch.zeros_like(x)


# %% wrong: the code as given
# says: All time steps are equal to the last one: outs contains the same tensor T times, and `h +=` changes it in place.
# says: The gate g is still changed in place after sigmoid
# says: T = 0: there is nothing to stack
# earns: 0 of 2
# lesson
def leaky_scan(x, w, conf):
    h = torch.zeros_like(x[0])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        g *= conf[t]
        h += g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs)


# %% wrong: repairs the line the message points to, nothing else
# says: All time steps are equal to the last one: outs contains the same tensor T times, and `h +=` changes it in place.
# says: Only the last state has a gradient that is right
# says: T = 0: there is nothing to stack
# earns: 0 of 2
# lesson
def leaky_scan(x, w, conf):
    h = torch.zeros_like(x[0])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        g = g * conf[t]
        h += g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs)


# %% wrong: stores clones but still scales the gate in place
# says: The gate g is still changed in place after sigmoid: its backward needs the unchanged output
# says: T = 0: there is nothing to stack
# earns: 0.5 of 2
# lesson
def leaky_scan(x, w, conf):
    h = torch.zeros_like(x[0])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        g *= conf[t]
        h = h + g * (x[t] - h)
        outs.append(h.clone())
    return torch.stack(outs)


# %% wrong: clones only at the end
# says: All time steps are equal to the last one: outs contains the same tensor T times, and `h +=` changes it in place.
# says: Only the last state has a gradient that is right
# says: T = 0: there is nothing to stack
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros_like(x[0])
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w) * conf[t]
        h += g * (x[t] - h)
        outs.append(h)
    return torch.stack([h.clone() for h in outs])


# %% wrong: scales through g.data
# says: The forward is right, the gradient is not: writing through .data hides the change from autograd
# says: The gradients are not those of the formula
# earns: 0.5 of 2
# lesson
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        g.data *= conf[t]
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: scales in place under no_grad
# says: The gate g is still changed in place after sigmoid
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        with torch.no_grad():
            g *= conf[t]
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: detaches h every step
# says: The gradient stops between time steps: the state was detached, so earlier steps learn nothing from later ones.
# says: The gradients are not those of the formula
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        h = h.detach()
        g = torch.sigmoid(x[t] * w) * conf[t]
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: detaches the gate
# says: No (or no full) gradient reaches w: the gate or the state was detached, or computed without recording.
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w).detach()
        g *= conf[t]
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: the whole loop under no_grad
# says: No (or no full) gradient reaches w: the gate or the state was detached, or computed without recording.
# earns: 0.5 of 2
@torch.no_grad()
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        h = h + torch.sigmoid(x[t] * w) * conf[t] * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: the gate does not pass a gradient to x
# says: The gate also depends on x
# says: The gradients are not those of the formula
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        h = h + torch.sigmoid(x[t].detach() * w) * conf[t] * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: multiplies the new state by conf
# says: The gate is scaled, not the new state: a step with conf 0 keeps the state.
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        h = (h + g * (x[t] - h)) * conf[t]
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: stores h before the update
# says: The state after step t is out[t]; you stored the state before it.
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        outs.append(h)
        h = h + torch.sigmoid(x[t] * w) * conf[t] * (x[t] - h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: scales the input in place
# says: Your code changed what the caller passed in: the values in x are no longer the same
# says: Your code changed what the caller passed in: x was changed
# says: An argument was changed in place. Autograd refuses that for a leaf
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        g = torch.sigmoid(x[t] * w)
        x[t].sub_(h).mul_(conf[t])
        h = h + g * x[t]
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: takes x[0] of an empty sequence
# says: T = 0: there is nothing to stack, return an empty (0, B, D) tensor.
# earns: 1.5 of 2
# corner: empty
def leaky_scan(x, w, conf):
    h = torch.zeros_like(x[0])
    outs = []
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs)


# %% wrong: an empty list for an empty sequence
# says: T = 0: there is nothing to stack, return an empty (0, B, D) tensor.
# earns: 1.5 of 2
# corner: empty
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    outs = []
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.empty(0, dtype=x.dtype)


# %% wrong: writes into a table of the default dtype
# says: The states have the dtype of x: expected torch.float64, got torch.float32
# earns: 1.5 of 2
def leaky_scan(x, w, conf):
    out = torch.zeros(x.shape)
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        out[t] = h
    return out


# %% wrong: returns the last state only
# says: Each out[t] is a separate state; you return only one.
# says: The states are not right yet
# says: T = 0: there is nothing to stack
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h = torch.zeros(x.shape[1:], dtype=x.dtype)
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
    return h


# %% right: recursion over the steps
def leaky_scan(x, w, conf, h=None):
    if len(x) == 0:
        return x.clone()
    h = torch.zeros_like(x[0]) if h is None else h
    h = h + conf[0] * torch.sigmoid(x[0] * w) * (x[0] - h)
    return torch.cat([h[None], leaky_scan(x[1:], w, conf[1:], h)])


# %% right: a Function with its own backward
class Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, conf):
        s, states = torch.sigmoid(x * w), [torch.zeros(x.shape[1:], dtype=x.dtype)]
        for t in range(len(x)):
            states.append(states[-1] + conf[t] * s[t] * (x[t] - states[-1]))
        states = torch.stack(states)
        ctx.save_for_backward(x, w, conf, s, states)
        return states[1:].clone()

    @staticmethod
    def backward(ctx, incoming):
        x, w, conf, s, states = ctx.saved_tensors
        of_x, of_w, of_h = torch.zeros_like(x), torch.zeros_like(w), torch.zeros_like(states[0])
        for t in reversed(range(len(x))):
            of_h = of_h + incoming[t]
            slope = of_h * (x[t] - states[t]) * conf[t] * s[t] * (1 - s[t])
            of_x[t] = of_h * conf[t] * s[t] + slope * w
            of_w += (slope * x[t]).sum(0)
            of_h = of_h * (1 - conf[t] * s[t])
        return of_x, of_w, None


leaky_scan = Scan.apply


# %% wrong: begins with x[0]
# says: The state begins with zeros, not with x[0].
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h, outs = x.sum(0) * 0 if len(x) == 0 else x[0], []
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: returns the state before the first step, too
# says: That is one state too many: out[0] is the state after the first step.
# says: The states are not right yet
# says: T = 0: there is nothing to stack
# earns: 0 of 2
def leaky_scan(x, w, conf):
    outs = [x.new_zeros(x.shape[1:])]
    for t in range(len(x)):
        outs.append(outs[-1] + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - outs[-1]))
    return torch.stack(outs)


# %% wrong: scales the argument of sigmoid by conf
# says: conf is outside of it
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h, outs = x.new_zeros(x.shape[1:]), []
    for t in range(len(x)):
        h = h + torch.sigmoid(conf[t] * x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: takes conf for a mask
# says: You used conf as a mask
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h, outs = x.new_zeros(x.shape[1:]), []
    for t in range(len(x)):
        h = h + (conf[t] > 0) * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: a write into x that changes no number
# says: An argument was changed in place. Autograd refuses that for a leaf
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h, outs = x.new_zeros(x.shape[1:]), []
    x.clamp_(-100, 100)
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: stores detached copies
# says: No (or no full) gradient reaches w
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h, outs = x.new_zeros(x.shape[1:]), []
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h.detach().clone())
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: the result of h.add is dropped
# says: The state stays 0 in all steps
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h, outs = x.new_zeros(x.shape[1:]), []
    for t in range(len(x)):
        h.add(conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h))
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: a table that is never written
# says: The state stays 0 in all steps
# says: The states are not right yet
# earns: 0 of 2
def leaky_scan(x, w, conf):
    h, out = x.new_zeros(x.shape[1:]), torch.zeros_like(x)
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
    return out


# %% wrong: begins with a state in the default dtype, and so ends in it for half precision
# says: The states have the dtype of x
# earns: 1.5 of 2
# corner: half precision
# caught: hidden
def leaky_scan(x, w, conf):
    h, outs = torch.zeros(x.shape[1:]), []
    for t in range(len(x)):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: the state is detached after the first step
# says: The gradients are not those of the formula
# says: the gate or the state was detached
# earns: 0.5 of 2
def leaky_scan(x, w, conf):
    h = x.new_zeros(x.shape[1:])
    outs = []
    for t in range(len(x)):
        g = conf[t] * torch.sigmoid(x[t] * w)
        h = h + g * (x[t] - h)
        if t == 0:
            h = h.detach()
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: goes through NumPy, which has no bfloat16
# says: It must also work for
# earns: 1.5 of 2
# caught: hidden
def leaky_scan(x, w, conf):
    g = conf * torch.sigmoid(x * w)
    h, outs = torch.zeros(x.shape[1:], dtype=x.dtype), []
    for t in range(len(x)):
        h = h + g[t] * (x[t] - h)
        outs.append(torch.from_numpy(h.detach().numpy()) + h - h.detach())
    return torch.stack(outs) if outs else torch.zeros_like(x)


# %% wrong: a closed form that divides by what is left
# says: The states are nan where what is left of an input becomes 0.
# earns: 1.5 of 2
# caught: hidden
def leaky_scan(x, w, conf):
    g = conf * torch.sigmoid(x * w)
    left = torch.cumprod(1 - g, dim=0)
    return left * torch.cumsum(g * x / left, dim=0)


# %% wrong: a closed form by logarithms
# says: The states are nan where what is left of an input becomes 0.
# earns: 1.5 of 2
# caught: hidden
def leaky_scan(x, w, conf):
    g = conf * torch.sigmoid(x * w)
    left = torch.log1p(-g).cumsum(0)
    return torch.exp(left) * torch.cumsum(g * x * torch.exp(-left), dim=0)


# %% right: the shapes asserted first
def leaky_scan(x, w, conf):
    T, B, D = x.shape
    assert w.shape == (D,) and conf.shape == (T, B, 1)
    h, outs = x.new_zeros(B, D), []
    for t in range(T):
        h = h + conf[t] * torch.sigmoid(x[t] * w) * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else x.new_empty(0, B, D)


# %% wrong: a closed form that bounds what it divides by
# says: The states are wrong after a gate that rounds to 1
# earns: 1.5 of 2
# caught: hidden
def leaky_scan(x, w, conf):
    g = conf * torch.sigmoid(x * w)
    left = torch.cumprod(1 - g, dim=0).clamp_min(torch.finfo(x.dtype).tiny)
    return left * torch.cumsum(g * x / left, dim=0)
