# %% right: counts in steps, and scales at the end
# x is clamped before it is rounded, so one clamp serves both the value and the gradient. The gradient is multiplied
# by `step` and divided by it again, which rounds it: in float16 with a step of 1e-6, 1.001 becomes 1.0137.
def fake_quantize(x, step, limit):
    """x in whole steps, and the step put back."""
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    steps = (x / step).clamp(-limit, limit)
    return (steps + (steps.round() - steps).detach()) * step


# %% right: a zero with a slope
# The value and the slope come from different places: `x - x.detach()` is 0, and its derivative is 1. Nothing is added
# to the value but this zero, so it lies on the grid exactly.
def fake_quantize(x, step, limit):
    """The rounded value, plus a zero that carries the gradient."""
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    on_grid = ((x / step).round().clamp(-limit, limit) * step).detach()
    return on_grid + torch.where(x.abs() <= limit * step, x - x.detach(), 0.0)


# %% wrong: no limit on the side that carries the gradient
# says: Your gradient also passes beyond the limit.
# For ordinary x the values are right, so a look at the output shows nothing. An infinite x becomes nan, because x is
# added and subtracted without a limit.
def fake_quantize(x, step, limit):
    """Slope 1 everywhere."""
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    on_grid = (x / step).round().clamp(-limit, limit) * step
    return x + (on_grid - x).detach()
