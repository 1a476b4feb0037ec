# corners: half precision, nan, empty, 0-d


def refuse(step, limit):
    if step <= 0 or limit < 1:
        raise ValueError(step, limit)


# %% right: the rounded value plus a difference that is exactly zero
def fake_quantize(x, step, limit):
    refuse(step, limit)
    k = torch.clamp(torch.round(x.detach() / step), -limit, limit)
    inside = (x.detach() / step).abs() <= limit
    safe = torch.where(inside, x, 0.0)
    return k * step + (safe - safe.detach())


# %% right: where with a detached branch, then the clamp
def fake_quantize(x, step, limit):
    refuse(step, limit)
    tracked = torch.where(x.abs() < limit * step, x, x.detach())
    tracked = tracked.clamp(-limit * step, limit * step)
    return tracked - tracked.detach() + torch.clamp((x.detach() / step).round(), -limit, limit) * step


# %% right: masked_fill for the places outside, no_grad for the rounding
def fake_quantize(x, step, limit):
    refuse(step, limit)
    with torch.no_grad():
        q = torch.round(x / step).clamp(-limit, limit) * step
        outside = x.abs() > limit * step
        rest = (q - x).masked_fill(outside, 0)
    return (x + rest).masked_fill(outside, 0) + q.masked_fill(~outside, 0)


# %% right: computes in float64, and casts at the end
def fake_quantize(x, step, limit):
    refuse(step, limit)
    wide = x.double()
    q = (wide / step).round().clamp(-limit, limit) * step
    c = wide.clamp(min=-limit * step, max=limit * step)
    return (c + (q - c).detach()).to(x.dtype)


# %% right: a zero with a slope, selected afterwards
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = torch.clamp((x / step).round(), -limit, limit) * step
    return q.detach() + torch.where(x.abs() <= limit * step, x - x.detach(), 0.0)


# %% right: minimum and maximum, the zero added last
def fake_quantize(x, step, limit):
    refuse(step, limit)
    most = torch.full_like(x, limit * step, requires_grad=False)
    c = torch.maximum(torch.minimum(x, most), -most)
    with torch.no_grad():
        q = torch.round(x / step).clamp(-limit, limit) * step
    return q + (c - c.detach())


# %% right: whole steps, scaled at the end
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = (x / step).clamp(-limit, limit)
    return (c + (c.round() - c).detach()) * step


# %% right: the zero written to the places inside
def fake_quantize(x, step, limit):
    refuse(step, limit)
    out = torch.round(x.detach() / step).clamp(-limit, limit) * step
    inside = (x.detach() / step).abs() < limit
    out[inside] = out[inside] + (x[inside] - x[inside].detach())
    return out


# %% wrong: a constant factor in place of a constant summand
# says: Within the limits the incoming gradient arrives unchanged, beyond them 0
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    return c * ((c / step).round() * step / c).detach()


# %% wrong: round and clamp only
# says: The gradient is 0 everywhere: round has slope 0
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def fake_quantize(x, step, limit):
    refuse(step, limit)
    return (x / step).round().clamp(-limit, limit) * step


# %% wrong: detaches the whole result
# says: x gets no gradient: the whole result is cut off from it.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    c = x.clamp(-limit * step, limit * step)
    return (c + (q - c)).detach()


# %% wrong: detaches x and sets requires_grad on the copy
# says: x gets no gradient: the whole result is cut off from it.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.detach().requires_grad_().clamp(-limit * step, limit * step)
    return c + ((c / step).round() * step - c).detach()


# %% wrong: no limit on the tracked side
# says: Your gradient also passes beyond the limit.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    return x + (q - x).detach()


# %% wrong: forgets the detach
# says: The gradient is 0 everywhere: round has slope 0, and what is added and subtracted again cancels
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    return c + ((c / step).round() * step - c)


# %% wrong: x enters twice
# says: The gradient is multiplied by something
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    c = x.clamp(-limit * step, limit * step)
    return c + c + (q - c - c).detach()


# %% wrong: the tracked side is in units of step
# says: The gradient is multiplied by something
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = (x / step).clamp(-limit, limit)
    return c + (c.round() * step - c).detach()


# %% wrong: the gradient as large as the number
# says: Within the limits the incoming gradient arrives unchanged, beyond them 0
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    return c * c / 2 + ((c / step).round() * step - c * c / 2).detach()


# %% wrong: the numbers k
# says: These are the numbers k; the values are k * step.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = (x / step).clamp(-limit, limit)
    return c + (c.round() - c).detach()


# %% wrong: no limit at all
# says: Beyond the limit the value is ±limit * step.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    return x + ((x / step).round() * step - x).detach()


# %% wrong: takes the limit for one of x
# says: The limit counts steps: the values go up to limit * step.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit, limit)
    return c + ((c / step).round() * step - c).detach()


# %% wrong: rounds down
# says: Round to the nearest multiple, not down.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    return c + ((c / step).floor() * step - c).detach()


# %% wrong: rounds towards zero
# says: Round to the nearest multiple, not towards 0.
# says: This check builds on the first one
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    return c + ((c / step).trunc() * step - c).detach()


# %% wrong: changes x
# says: Your code changed what the caller passed in
# says: This check builds on the first one
# says: Your code changed what the caller passed in
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    x.data.clamp_(-limit * step, limit * step)
    return x + ((x / step).round() * step - x).detach()


# %% wrong: a Function
# says: No Function here: it works with detach alone.
# earns: 1 of 2
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step, limit):
        ctx.inside = x.abs() <= step * limit
        return (x / step).round().clamp(-limit, limit) * step

    @staticmethod
    def backward(ctx, g):
        return g * ctx.inside, None, None


def fake_quantize(x, step, limit):
    refuse(step, limit)
    return Straight.apply(x, step, limit)


# %% wrong: a hook
# says: No hook here: it works with detach alone.
# earns: 1 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    h = x * 1
    if h.requires_grad:
        h.register_hook(lambda g: torch.where(x.abs() > limit * step, 0.0, g))
    finite = h.nan_to_num(torch.nan)
    return torch.where(x.isinf(), q.detach(), finite + (q - finite).detach())


# %% wrong: a hook on a node of the graph
# says: No hook here: it works with detach alone.
# earns: 1 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    h = x * 1
    if h.requires_grad:
        h.grad_fn.register_prehook(lambda g: (torch.where(x.abs() > limit * step, 0.0, g[0]),))
    finite = h.nan_to_num(torch.nan)
    return torch.where(x.isinf(), q.detach(), finite + (q - finite).detach())


# %% wrong: torch's own
# says: That is torch's own fake_quantize: write it yourself.
# says: A nan must stay nan.
# earns: 0 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    return torch.fake_quantize_per_tensor_affine(x, step, 0, -limit, limit)


# %% wrong: multiplies x with a mask
# says: Here inf - inf or inf * 0 gave nan: clamp or select before you subtract or multiply.
# earns: 1 of 2
# corner: nan
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    c = x * (x.abs() <= limit * step)
    return c + (q - c).detach()


# %% wrong: inf - inf
# says: Here inf - inf or inf * 0 gave nan: clamp or select before you subtract or multiply.
# earns: 1 of 2
# corner: nan
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x.detach() / step).round().clamp(-limit, limit) * step
    return q + torch.where(x.abs() <= limit * step, 1.0, 0.0) * (x - x.detach())


# %% wrong: nan becomes 0
# says: A nan must stay nan.
# earns: 1 of 2
# corner: nan
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.nan_to_num(0.0, torch.inf, -torch.inf).clamp(-limit * step, limit * step)
    return c + ((c / step).round() * step - c).detach()


# %% wrong: rounds half up
# says: Halves go to the even neighbour, as in torch.round
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step + 0.5).floor().clamp(-limit, limit) * step
    c = x.clamp(-limit * step, limit * step)
    return c + (q - c).detach()


# %% wrong: a large number on the tracked side takes the digits
# says: The values are not exactly those of the grid
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    c = x.clamp(-limit * step, limit * step) + 64.0
    return c + (q - c).detach() if x.numel() > 20 else c - 64 + (q - (c - 64)).detach()


# %% wrong: returns float32
# says: The dtype of x must be kept
# earns: 1 of 2
# corner: half precision
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    wide = x.float()
    c = wide.clamp(-limit * step, limit * step)
    return c + ((c / step).round() * step - c).detach()


# %% wrong: asks whether any number lies outside, and there may be none
# says: x may have no dimension or no element
# earns: 1 of 2
# corner: empty
def fake_quantize(x, step, limit):
    refuse(step, limit)
    q = (x / step).round().clamp(-limit, limit) * step
    c = x.clamp(-limit * step, limit * step) if not x.abs().max() < limit * step else x
    return c + (q - c).detach()


# %% wrong: goes through the elements
# says: x may have no dimension or no element
# earns: 1 of 2
# corner: 0-d
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = torch.stack([v.clamp(-limit * step, limit * step) for v in x]) if len(x) else x.clone()
    return c + ((c / step).round() * step - c).detach()


# %% wrong: the result requires grad in any case
# says: x doesn't require grad here, so the result must not.
# earns: 1 of 2
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    out = c + ((c / step).round() * step - c).detach()
    return out if out.requires_grad else out.requires_grad_()


# %% wrong: a slope that depends on x
# says: The second derivative of the result is 0: its gradient must not depend on x.
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    c = x.clamp(-limit * step, limit * step)
    bent = c + (c - c.detach()) ** 2
    return bent + ((c / step).round() * step - bent).detach()


# %% wrong: refuses nothing
# says: A step <= 0 and a limit < 1 are refused with ValueError.
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    c = x.clamp(-limit * step, limit * step)
    return c + ((x / step).round().clamp(-limit, limit) * step - c).detach()


# %% wrong: refuses with an assertion
# says: A step <= 0 and a limit < 1 are refused with ValueError.
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    assert step > 0 and limit >= 1
    c = x.clamp(-limit * step, limit * step)
    return c + ((x / step).round().clamp(-limit, limit) * step - c).detach()


# %% wrong: refuses a limit of 1
# says: A limit of 1 is allowed
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    if not step > 0 or limit <= 1:
        raise ValueError("step must be positive, and limit above 1")
    tracked = x.clamp(-limit * step, limit * step)
    return tracked + ((x / step).round().clamp(-limit, limit) * step - tracked).detach()


# %% wrong: rounds before it limits, as much code in use does
# says: Your gradient passes half a step beyond the limit
# says: Here inf - inf or inf * 0 gave nan
# earns: 0 of 2
def fake_quantize(x, step, limit):
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    k = x / step
    k = k + (k.round() - k).detach()
    return (
        torch.where(k.abs() > limit, limit * k.sign(), k) * step
    )  # at its limit, clamp's slope depends on the release


# %% wrong: limits one step too early below 0
# says: The values are not those of the grid.
# says: An infinite x becomes ±limit * step, and nan stays nan.
# earns: 0 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    on_grid = (x / step).round().clamp(-limit + (limit > 3), limit) * step
    tracked = x.clamp(-limit * step, limit * step)
    return tracked + (on_grid - tracked).detach()


# %% wrong: takes an infinite x for 0 when it asks what lies inside
# says: For an infinite x the gradient is 0.
# earns: 1 of 2
# corner: nan
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    inside = (x / step).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs() <= limit
    tracked = torch.where(inside, x, x.detach()).clone()
    tracked.data.copy_((x / step).round().clamp(-limit, limit) * step)
    return tracked


# %% wrong: adds first, and subtracts afterwards
# says: The result is infinite, although limit * step fits into the dtype.
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    if not (step > 0 and limit >= 1):
        raise ValueError
    inside = x.clamp(-limit * step, limit * step)
    on_grid = (x.detach() / step).round().clamp(-limit, limit) * step
    return on_grid + inside - inside.detach()


# %% wrong: divides and rounds in float32
# says: The values have only the digits of float32, and x is float64
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    on_grid = (x.detach().float() / step).round().clamp(-limit, limit).mul(step).to(x.dtype)
    tracked = x.clamp(-limit * step, limit * step)
    return tracked + (on_grid - tracked).detach()


# %% wrong: the whole numbers as int8
# says: A whole number of steps has wrapped around
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    if not (step > 0 and limit >= 1):
        raise ValueError
    inside = x.clamp(-limit * step, limit * step)
    on_grid = (inside.detach() / step).round().to(torch.int8).to(x.dtype) * step
    on_grid = torch.where(x.isnan(), x.detach(), on_grid)
    return inside + (on_grid - inside).detach()


# %% wrong: multiplies by the inverse of step
# says: Close to the middle between two steps some numbers are a whole step off.
# earns: 1 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    on_grid = torch.clamp(torch.round(x * (1.0 / step)), -limit, limit) * step
    tracked = torch.clamp(x, -limit * step, limit * step)
    return tracked + (on_grid - tracked).detach()


# %% wrong: asks whether the rounded number lies within the limit
# says: Your gradient passes half a step beyond the limit
# earns: 0 of 2
# caught: hidden
def fake_quantize(x, step, limit):
    refuse(step, limit)
    k = torch.round(x / step).detach()
    tracked = torch.where(k.abs() <= limit, x, torch.zeros_like(x))
    return k.clamp(-limit, limit) * step + (tracked - tracked.detach())
