# %% right: a checkpoint
# There is no formula to write: `checkpoint` keeps the inputs, and backward runs silu again. (It stops before the
# product, which backward doesn't need.) It can be differentiated twice. Each call also stores the state of the random
# number generator, in case the forward draws numbers.
def swiglu(a, b):
    """silu(a) * b, computed again in backward."""
    if a.shape != b.shape:
        raise ValueError(f"a and b have different shapes: {tuple(a.shape)} and {tuple(b.shape)}")
    return torch.utils.checkpoint.checkpoint(lambda x, y: F.silu(x) * y, a, b, use_reentrant=False)


# %% wrong: keeps the tensors as attributes of ctx
# says: Autograd's saved tensors hold only 0 bytes: something was stored as an attribute
# The memory is kept all the same, where neither autograd nor its hooks can see it: no check for in-place changes, no
# offloading.
class Attributes(torch.autograd.Function):
    """silu(a) * b, with the inputs out of autograd's sight."""

    @staticmethod
    def forward(ctx, a, b):
        """The product."""
        ctx.inputs = (a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        """The product rule."""
        a, b = ctx.inputs
        s = torch.sigmoid(a)
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    """silu(a) * b."""
    if a.shape != b.shape:
        raise ValueError(f"a and b have different shapes: {tuple(a.shape)} and {tuple(b.shape)}")
    return Attributes.apply(a, b)
