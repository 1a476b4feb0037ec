# %% right: a hook on a view
# A tensor hook may return another gradient, so no Function is needed. The hook belongs to the view, and x itself keeps
# its own gradient for everybody else.
def grad_reverse(x, lam=1.0):
    """x, with a gradient that turns round."""
    if lam < 0:
        raise ValueError(f"lam must not be negative, it is {lam}")
    out = x.view_as(x)
    if out.requires_grad:
        out.register_hook(lambda g: -lam * g)
    return out


# %% wrong: turns the gradient round in place
# says: The incoming gradient was modified in place, in `backward`
# It avoids a new tensor, but everything else that uses the same gradient, such as a hook or another branch, sees it
# change.
class GradReverse(torch.autograd.Function):
    """The identity, with a backward that writes into what it was given."""

    @staticmethod
    def forward(ctx, x, lam):
        """x as it is."""
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        """Changes g."""
        return g.neg_().mul_(ctx.lam), None


def grad_reverse(x, lam=1.0):
    """x, with a gradient that turns round."""
    if lam < 0:
        raise ValueError(f"lam must not be negative, it is {lam}")
    return GradReverse.apply(x, lam)
