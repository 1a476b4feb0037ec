# %% right: counts in steps, and scales at the end
# Clamped first, so nothing beyond the limits has a slope, and one clamp serves both the value and the gradient.
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
# The values are right, so a look at the output shows nothing.
def fake_quantize(x, step, limit):
    """Slope 1 everywhere."""
    if not step > 0 or limit < 1:
        raise ValueError("step must be positive, and limit at least 1")
    on_grid = (x / step).round().clamp(-limit, limit) * step
    return x + (on_grid - x).detach()
