# %% right: einsum, which names the dimensions
# The ellipsis stands for all leading dimensions, so you write no reshape and no transpose; einsum does them. Whatever
# is missing on the right, a letter or the ellipsis, is summed over.
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        """The product, plus the bias where there is one."""
        ctx.save_for_backward(x, weight)
        out = torch.einsum("...i,oi->...o", x, weight)
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g):
        """The gradients of all inputs that need one."""
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, *needs_bias = ctx.needs_input_grad
        return (
            torch.einsum("...o,oi->...i", g, weight) if needs_x else None,
            torch.einsum("...o,...i->oi", g, x) if needs_weight else None,
            torch.einsum("...o->o", g) if any(needs_bias) else None,
        )


# %% right: hands back g for the bias as it is
# Autograd sums a gradient over the dimensions that were broadcast, so g is accepted although it is larger than the
# bias. Nothing says so in the code: whoever reads it has to know.
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        """The product, plus the bias where there is one."""
        ctx.save_for_backward(x, weight)
        out = x @ weight.t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g):
        """The gradients of all inputs that need one."""
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, *needs_bias = ctx.needs_input_grad
        rows = g.reshape(-1, g.shape[-1])
        return (
            g @ weight if needs_x else None,
            rows.t() @ x.reshape(-1, x.shape[-1]) if needs_weight else None,
            g if any(needs_bias) else None,
        )
