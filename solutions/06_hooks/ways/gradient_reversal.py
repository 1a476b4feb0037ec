# %% right: a tensor hook on a view of x
# forward makes a view and attaches the hook to it, so the other uses of x keep their gradient. An operation in place on
# the result changes x as well and loses the hook, so nothing is reversed. With the author's answer it raises.
class GradientReversal(nn.Module):
    """Passes on a view of x whose gradient is multiplied by -lambda_."""

    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        """The values of x."""
        passed = x.view_as(x)
        if passed.requires_grad:
            passed.register_hook(lambda grad: -self.lambda_ * grad)
        return passed


# %% right: constant values plus a path that adds nothing
# The values come from a detached x, and the gradient takes the scaled path, which adds zeros. There is no hook, and the
# result may be changed in place. Forward makes three tensors as large as x, and where lambda_ * x overflows, the result
# is nan.
class GradientReversal(nn.Module):
    """The values of x with the gradient of -lambda_ * x."""

    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        """The values of x."""
        scaled = -self.lambda_ * x
        return x.detach() + (scaled - scaled.detach())


# %% wrong: a tensor hook on x itself
# says: The label branch also got a reversed gradient.
# x is the same tensor for both branches, and the hook gets the sum of their gradients.
class GradientReversal(nn.Module):
    """Reverses the gradient of every use of x."""

    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        """x itself."""
        if x.requires_grad:
            x.register_hook(lambda grad: -self.lambda_ * grad)
        return x
