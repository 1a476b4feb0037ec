# corners: zeros
import torch
from torch.autograd.function import once_differentiable


class Reverse(torch.autograd.Function):
    """A right one; wrong ones below change a line of it."""

    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


def refuse(lam):
    if lam < 0:
        raise ValueError("lam must not be negative")


# %% right: a gradient hook on a view of x, no Function at all
def grad_reverse(x, lam=1.0):
    refuse(lam)
    out = x.view_as(x)
    if out.requires_grad:
        out.register_hook(lambda g: -lam * g)
    return out


# %% right: split form, a clone in the forward, needs_input_grad
class Split(torch.autograd.Function):
    @staticmethod
    def forward(x, lam):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.lam = inputs

    @staticmethod
    def backward(ctx, g):
        return (g.neg() * ctx.lam if ctx.needs_input_grad[0] else None), None


def grad_reverse(x, lam=1.0):
    if not lam >= 0:
        raise ValueError(lam)
    return Split.apply(x, lam)


# %% right: returns x itself from forward
class Itself(Reverse):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x


def grad_reverse(x, lam=1):
    refuse(lam)
    return Itself.apply(x, lam)


# %% right: lam as a tensor in save_for_backward, checked inside of forward
class Saved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam=1.0):
        if lam < 0:
            raise ValueError("negative")
        ctx.save_for_backward(torch.tensor(float(lam), dtype=torch.float64))
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        (lam,) = ctx.saved_tensors
        return -(g * lam), None, None


def grad_reverse(x, lam=1.0):
    return Saved.apply(x, lam)


# %% right: a closure in place of an argument
def grad_reverse(x, lam=1.0):
    refuse(lam)

    class Closure(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.detach().clone()

        @staticmethod
        def backward(ctx, g):
            return g.clone().mul_(-lam) if not torch.is_grad_enabled() else g * -lam

    return Closure.apply(x)


# %% wrong: the code as given
# says: `lam` may be any number >= 0; the formula doesn't need an integer.
# says: must return two values
# earns: 0 of 2
# lesson
class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        assert isinstance(lam, int)
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg_().mul_(ctx.lam)


def grad_reverse(x, lam=1):
    return GradReverse.apply(x, lam)


# %% wrong: removes the assertion only
# says: two values, one per argument of forward: None for lam.
# earns: 0 of 2
# lesson
class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg_().mul_(ctx.lam)


def grad_reverse(x, lam=1):
    refuse(lam)
    return GradReverse.apply(x, lam)


# %% wrong: repairs assertion and None, keeps neg_ and mul_
# says: The incoming gradient was modified in place, in `backward`
# earns: 0 of 2
# lesson
class InPlace(Reverse):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg_().mul_(ctx.lam), None


def grad_reverse(x, lam=1):
    refuse(lam)
    return InPlace.apply(x, lam)


# %% wrong: keeps mul_ only
# says: The incoming gradient was modified in place, in `backward`
# earns: 0 of 2
# lesson
class InPlace(Reverse):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.mul_(-ctx.lam), None


def grad_reverse(x, lam=1):
    refuse(lam)
    return InPlace.apply(x, lam)


# %% wrong: converts lam with int()
# says: The sign or the factor is wrong
# earns: 0 of 2
def grad_reverse(x, lam=1):
    refuse(lam)
    return Reverse.apply(x, int(lam))


# %% wrong: +lam
# says: The sign or the factor is wrong
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return Reverse.apply(x, -lam)


# %% wrong: always -1
# says: The sign or the factor is wrong
# says: The gradient of lam = 0 is zero
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return Reverse.apply(x, 1.0)


# %% wrong: the default is 0.5
# says: The default of lam is wrong
# earns: 1 of 2
def grad_reverse(x, lam=0.5):
    refuse(lam)
    return Reverse.apply(x, lam)


# %% wrong: multiplies x by -lam
# says: The forward must be the identity; only the gradient is scaled.
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return -lam * x


# %% wrong: x * -lam + (1 + lam) * x.detach()
# says: The forward is not bit for bit x: arithmetic like x * (-lam) + (1 + lam) * x.detach() rounds.
# earns: 1 of 2
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return x * -lam + (1 + lam) * x.detach()


# %% wrong: adds zero, which takes the sign of a zero
# says: The forward is not bit for bit x: a zero has lost its sign.
# earns: 1 of 2
# corner: zeros
# caught: hidden
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return Reverse.apply(x + 0.0, lam)


# %% wrong: registers the hook on x itself
# says: other uses were also reversed: the hook is on x itself
# earns: 1 of 2
# caught: hidden
def grad_reverse(x, lam=1.0):
    refuse(lam)
    if x.requires_grad:
        x.register_hook(lambda g: -lam * g)
    return x


# %% wrong: registers a hook also when nothing requires grad
# says: `x` need not require grad
# earns: 1 of 2
# caught: hidden
def grad_reverse(x, lam=1.0):
    refuse(lam)
    out = x.view_as(x)
    out.register_hook(lambda g: -lam * g)
    return out


# %% wrong: accepts a negative lam
# says: A negative lam must raise ValueError.
# earns: 1 of 2
def grad_reverse(x, lam=1.0):
    return Reverse.apply(x, lam)


# %% wrong: an assertion for a negative lam
# says: A negative lam must raise ValueError.
# earns: 1 of 2
def grad_reverse(x, lam=1.0):
    assert lam >= 0
    return Reverse.apply(x, lam)


# %% wrong: refuses a negative lam only where it is needed
# says: A negative lam must raise ValueError.
# earns: 1 of 2
# caught: hidden
def grad_reverse(x, lam=1.0):
    if x.requires_grad:
        refuse(lam)
    return Reverse.apply(x, lam)


# %% wrong: marked once_differentiable
# says: Differentiating twice must work
# earns: 1 of 2
# caught: hidden
class Once(Reverse):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return -ctx.lam * g, None


def grad_reverse(x, lam=1.0):
    refuse(lam)
    return Once.apply(x, lam)


# %% wrong: detaches the incoming gradient
# says: Differentiating twice must work
# earns: 1 of 2
# caught: hidden
class Detached(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g.detach(), None


def grad_reverse(x, lam=1.0):
    refuse(lam)
    return Detached.apply(x, lam)


# %% wrong: returns None for lam = 0
# says: The gradient of lam = 0 is a tensor of zeros (not None, not an error).
# earns: 1 of 2
class NoneForZero(Reverse):
    @staticmethod
    def backward(ctx, g):
        return (-ctx.lam * g if ctx.lam else None), None


def grad_reverse(x, lam=1.0):
    refuse(lam)
    return NoneForZero.apply(x, lam)


# %% wrong: takes 0 for missing
# says: The gradient of lam = 0 is zero
# earns: 1 of 2
def grad_reverse(x, lam=None):
    lam = lam or 1.0
    refuse(lam)
    return Reverse.apply(x, lam)


# %% wrong: refuses lam = 0
# says: = 0 is allowed, only negative numbers are refused
# earns: 1 of 2
def grad_reverse(x, lam=1.0):
    if lam <= 0:
        raise ValueError("lam")
    return Reverse.apply(x, lam)


# %% wrong: returns nothing
# says: Nothing came back
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    refuse(lam)
    Reverse.apply(x, lam)


# %% wrong: detached
# says: No gradient reaches x
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return x.detach().clone()


# %% right: a hook on a clone
def grad_reverse(x, lam=1.0):
    if not lam >= 0:
        raise ValueError("lam is negative")
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda g: -lam * g)
    return y


# %% right: a module with the strength as its attribute
class Reversing(torch.nn.Module):
    def __init__(self, lam):
        super().__init__()
        self.lam = lam

    def forward(self, x):
        return Reverse.apply(x, self.lam)


def grad_reverse(x, lam=1):
    if lam < 0:
        raise ValueError("lam is negative")
    return Reversing(lam)(x)


# %% wrong: keeps lam on the class
# says: Of two calls with different lam, the first used the lam of the second in backward
# earns: 1 of 2
# caught: hidden
class OnTheClass(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        OnTheClass.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g * -OnTheClass.lam, None


def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError("lam is negative")
    return OnTheClass.apply(x, lam)


# %% wrong: lam = 0 falls back to the default
# says: The gradient of lam = 0 is zero
# earns: 1 of 2
def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError("lam is negative")
    return Reverse.apply(x, lam or 1.0)


# %% wrong: switches grad mode off
# says: No gradient reaches x: the result is not connected to it.
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    torch.set_grad_enabled(False)
    return Reverse.apply(x, lam)


# %% wrong: a module with a method backward, which nobody calls
# says: The gradient comes through unchanged
# says: The sign or the factor is wrong
# earns: 0 of 2
class Reverse(nn.Module):
    def __init__(self, lam):
        super().__init__()
        self.lam = lam

    def forward(self, x):
        return x.view_as(x)

    def backward(self, g):
        return -self.lam * g


def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError(lam)
    return Reverse(lam)(x)


# %% wrong: a hook on the result that returns nothing
# says: The gradient comes through unchanged
# says: The sign or the factor is wrong
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError(lam)
    out = x.view_as(x)

    def turn(g):
        -lam * g

    if out.requires_grad:
        out.register_hook(turn)
    return out


# %% wrong: a hook that multiplies in place
# says: in `backward` or in a hook
# earns: 0 of 2
def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError(lam)
    out = x.view_as(x)
    if out.requires_grad:
        out.register_hook(lambda g: g.mul_(-lam))
    return out


# %% wrong: saves the number for backward
# says: `save_for_backward` takes tensors only
# earns: 0 of 2
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(x, lam)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        _, lam = ctx.saved_tensors
        return -lam * g, None


def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError(lam)
    return Reverse.apply(x, lam)


# %% right: lam as a tensor that is saved for backward
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(lam)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        (lam,) = ctx.saved_tensors
        return -lam * g, None


def grad_reverse(x, lam=1.0):
    if lam < 0:
        raise ValueError(lam)
    return Reverse.apply(x, torch.tensor(lam, dtype=torch.float64))


# %% wrong: the difference of two copies of x
# says: Where x is infinite the result is nan: inf - inf is nan, and so is 0 * inf.
# earns: 1 of 2
# caught: hidden
def grad_reverse(x, lam=1.0):
    refuse(lam)
    return Reverse.apply(x, lam) + (x.detach() - x.detach())


# %% wrong: lam as a float32 tensor
# says: The gradient has only the digits of float32
# earns: 1 of 2
# caught: hidden
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(lam)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        (lam,) = ctx.saved_tensors
        return -g * lam, None


def grad_reverse(x, lam=1):
    if lam < 0:
        raise ValueError("lam must not be negative")
    return Reversed.apply(x, torch.tensor(lam))


# %% right: lam as a tensor in the dtype of x
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(torch.as_tensor(lam, dtype=x.dtype))
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        (lam,) = ctx.saved_tensors
        return -g * lam, None


def grad_reverse(x, lam=1):
    refuse(lam)
    return Reversed.apply(x, lam)
