# %% right: no Function at all
# log cosh x = x + softplus(-2x) - log 2. These are operations of PyTorch, stable for large x and differentiable as
# often as you like. For backward -2x is kept, a new tensor, where the author's answer keeps x, which is often there
# anyway.
def log_cosh(x):
    """log(cosh(x)), by softplus."""
    return x + F.softplus(-2 * x) - math.log(2)


# %% right: tanh as a second output
# What is saved is an output, so autograd knows where it comes from and gives backward a gradient for it. tanh is
# computed only once, but it is a new tensor that is kept, where the author's answer keeps x.
class Pair(torch.autograd.Function):
    """log(cosh(x)) and tanh(x)."""

    @staticmethod
    def forward(ctx, x):
        """Both at once."""
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        size = x.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2), t

    @staticmethod
    def backward(ctx, g, g_t):
        """The sum of what both outputs hand back."""
        (t,) = ctx.saved_tensors
        return g * t + g_t * (1 - t * t)


def log_cosh(x):
    """log(cosh(x)), elementwise."""
    return Pair.apply(x)[0]


# %% wrong: saves tanh, which is neither an input nor an output
# says: The second derivative is 0: the tanh in backward is a constant there
# gradcheck passes, because the first derivative is right.
class LogCosh(torch.autograd.Function):
    """log(cosh(x)), once differentiable without saying so."""

    @staticmethod
    def forward(ctx, x):
        """A stable value."""
        ctx.save_for_backward(torch.tanh(x))
        size = x.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)

    @staticmethod
    def backward(ctx, g):
        """The incoming gradient times a constant."""
        (t,) = ctx.saved_tensors
        return g * t


log_cosh = LogCosh.apply
