# %% right: the surrogate plus a detached correction
# No Function: the value comes from the step, the slope from the clamp, and `detach` keeps the two apart. The same trick
# as in fake quantization.
def ste_sign(x):
    """The step, with the slope of a clamp."""
    step = torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)
    surrogate = x.clamp(-1, 1)
    return surrogate + (step - surrogate).detach()


# %% right: keeps the mask
# One byte for each element, where x has four: backward needs to know only where the gradient passes.
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
