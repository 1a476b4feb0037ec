# %% right: saves the inputs in the dtype of the product
# Forward stores x and weight in the dtype of the product, so backward has nothing to convert and only switches off
# any region that it is called in. Under autocast these copies need memory besides x and weight, each is a second cast
# of the same numbers, and the result can't be differentiated twice.
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias, in the dtype that the product came out in."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        """The product, and its inputs in its own dtype."""
        out = x @ weight.t()
        ctx.save_for_backward(x.to(out.dtype), weight.to(out.dtype))
        return out + bias.to(out.dtype)

    @staticmethod
    def backward(ctx, g):
        """Products of one dtype."""
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    """x (N, I), weight (O, I), bias (O,); returns (N, O)."""
    return LinearFn.apply(x, weight, bias)


# %% right: what the decorators do, written out
# custom_fwd remembers whether a region was on and its dtype, and custom_bwd opens the same one again.
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias, with the region of forward in backward."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        """The product in the region that is on."""
        ctx.region = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        """The products in the same region."""
        x, weight = ctx.saved_tensors
        enabled, dtype = ctx.region
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    """x (N, I), weight (O, I), bias (O,); returns (N, O)."""
    return LinearFn.apply(x, weight, bias)
