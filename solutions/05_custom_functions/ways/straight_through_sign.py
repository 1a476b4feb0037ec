# %% right: the surrogate plus a detached correction
# There is no Function: the value comes from the step and the slope from the clamp, and `detach` keeps the two apart.
# Exercise 4.6 does the same with `round`.
def ste_sign(x):
    """The step, with the slope of a clamp."""
    step = torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)
    surrogate = x.clamp(-1, 1)
    return surrogate + (step - surrogate).detach()


# %% right: keeps the mask
# Backward only needs to know where the gradient passes. The mask takes one byte for each element, where a float32 x
# takes four, but it comes on top if x is kept anyway. A change of x in place between forward and backward does no
# harm.
class Masked(torch.autograd.Function):
    """The step, which remembers where its gradient passes."""

    @staticmethod
    def forward(ctx, x):
        """1 and -1, and nan for nan."""
        ctx.save_for_backward(x.abs() <= 1)
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        """What passes."""
        (passes,) = ctx.saved_tensors
        return g * passes


ste_sign = Masked.apply


# %% wrong: clips the incoming gradient
# says: You cut off the incoming gradient at -1 and 1
# The limit is about x. A gradient may have any size.
class Step(torch.autograd.Function):
    """The step, with a limit in the wrong place."""

    @staticmethod
    def forward(ctx, x):
        """1 and -1, and nan for nan."""
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        """A clipped gradient."""
        return g.clamp(-1, 1)


ste_sign = Step.apply
