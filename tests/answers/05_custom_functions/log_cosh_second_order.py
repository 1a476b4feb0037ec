# corners: zeros
import math

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


def value_of(x):
    size = x.abs()
    return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)


class Saved(torch.autograd.Function):
    """Wrong: saves tanh. The ones below change a part of it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.tanh(x))
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t


class KeepsInput(torch.autograd.Function):
    """Right, once it has a backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value_of(x)


# %% right: returns tanh as an extra output, saves it and handles its gradient
class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return value_of(x), t

    @staticmethod
    def backward(ctx, g, g_t):
        (t,) = ctx.saved_tensors
        return g * t + g_t * (1 - t * t)


def log_cosh(x):
    return Pair.apply(x)[0]


# %% right: setup_context form, tanh recomputed
class Split(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.logaddexp(x, -x) - math.log(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.tanh()


log_cosh = Split.apply


# %% right: no Function, a softplus form of built-in operations
def log_cosh(x):
    return x + F.softplus(-2 * x) - math.log(2)


# %% right: the other softplus form, under another name of the argument
def log_cosh(values):
    return F.softplus(2.0 * values) - values - math.log(2.0)


# %% right: logsigmoid
def log_cosh(x):
    return x - F.logsigmoid(2 * x) - math.log(2)


# %% wrong: the code as given
# says: `cosh` overflows for large |x|
# says: The second derivative is 0: the tanh in backward is a constant there
# earns: 0 of 2
# lesson
class LogCosh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return torch.log(torch.cosh(x))

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t


log_cosh = LogCosh.apply


# %% wrong: repairs the forward, still saves tanh
# says: The second derivative is 0: the tanh in backward is a constant there
# earns: 0 of 2
# lesson
log_cosh = Saved.apply


# %% wrong: keeps tanh as a ctx attribute
# says: The second derivative is 0: the tanh in backward is a constant there
# earns: 0 of 2
# lesson
class Attribute(Saved):
    @staticmethod
    def forward(ctx, x):
        ctx.t = torch.tanh(x)
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.t


log_cosh = Attribute.apply


# %% wrong: recomputes from a detached input
# says: The second derivative is 0: the tanh in backward is a constant there
# earns: 0 of 2
class Detached(Saved):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.tanh(x.detach())


log_cosh = Detached.apply


# %% wrong: adds once_differentiable
# says: once_differentiable forbids it, but the contract asks for its value.
# earns: 0 of 2
# lesson
class Once(Saved):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t


log_cosh = Once.apply


# %% wrong: returns tanh as an output but ignores its gradient
# says: The second derivative is 0: the tanh in backward is a constant there
# earns: 0 of 2
class Ignores(Saved):
    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return value_of(x), t

    @staticmethod
    def backward(ctx, g, g_t):
        (t,) = ctx.saved_tensors
        return g * t


def log_cosh(x):
    return Ignores.apply(x)[0]


# %% wrong: plain log(cosh(x))
# says: `cosh` overflows for large |x|
# earns: 1 of 2
def log_cosh(x):
    return torch.log(torch.cosh(x))


# %% wrong: built-in operations on |x|
# says: At x = 0 the second derivative must be 1; |x| has a kink there, and sign(0) = 0 makes it 0.
# earns: 1 of 2
# corner: zeros
# caught: hidden
def log_cosh(x):
    return value_of(x)


# %% wrong: x + softplus(-2x) with the switch to the linear branch disabled
# says: The first derivative is nan or wrong for large |x|
# earns: 1 of 2
# caught: hidden
class Branch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        e = torch.exp(-2 * x)
        return g * (1 - 2 * e / (1 + e))


log_cosh = Branch.apply


# %% wrong: torch.logaddexp(x, -x) - log 2
# says: The first derivative is right, the second one is nan or wrong for large |x|
# earns: 1 of 2
# caught: hidden
def log_cosh(x):
    return torch.logaddexp(x, -x) - math.log(2)


# %% wrong: returns the pair
# says: returns one tensor; don't return an additional output to the caller.
# earns: 0 of 2
def log_cosh(x):
    return value_of(x), torch.tanh(x)


# %% wrong: sinh in place of tanh
# says: The first derivative is wrong
# earns: 0 of 2
class Sinh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        return g * torch.sinh(ctx.saved_tensors[0])


log_cosh = Sinh.apply


# %% wrong: 1 - tanh for the second derivative
# says: The second derivative is wrong
# earns: 0 of 2
class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return value_of(x), t

    @staticmethod
    def backward(ctx, g, g_t):
        (t,) = ctx.saved_tensors
        return g * t + g_t * (1 - t)


def log_cosh(x):
    return Pair.apply(x)[0]


# %% wrong: sinh(x) / cosh(x) in backward
# says: The first derivative is nan or wrong for large |x|
# earns: 1 of 2
# caught: hidden
class Quotient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sinh(x) / torch.cosh(x)


log_cosh = Quotient.apply


# %% wrong: ignores the incoming gradient
# says: The first derivative is wrong
# earns: 0 of 2
class Ignored(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value_of(x)

    @staticmethod
    def backward(ctx, g):
        return torch.tanh(ctx.saved_tensors[0])


log_cosh = Ignored.apply


# %% wrong: clamps x so that cosh stays finite
# says: For large |x| the value must continue to grow
# earns: 1 of 2
def log_cosh(x):
    return torch.log(torch.cosh(x.clamp(-300, 300)))


# %% wrong: |x| - log 2 for all large x, cut too early
# says: A shortcut for large |x|, such as |x| - log 2, is right only if the rest is lost in rounding
# says: The value is not log(cosh(x))
# earns: 0 of 2
def log_cosh(x):
    return torch.where(x.abs() > 2, x.abs() - math.log(2), torch.log(torch.cosh(x.clamp(-2, 2))))


# %% wrong: |x| - log 2 from 8 on, where the values are right to six digits
# says: A shortcut for large |x| starts too early for the derivatives
# earns: 1 of 2
# caught: hidden
def log_cosh(x):
    far = x.abs() > 8
    return torch.where(far, x.abs() - math.log(2), torch.log(torch.cosh(torch.where(far, 0.0, x))))


# %% wrong: |x| - log 2 from 9.2 on
# says: A shortcut for large |x| starts too early for the derivatives
# earns: 1 of 2
# caught: hidden
def log_cosh(x):
    far = x.abs() > 9.2
    return torch.where(far, x.abs() - math.log(2), torch.log(torch.cosh(torch.where(far, 0.0, x))))


# %% right: |x| - log 2 from 15 on
def log_cosh(x):
    far = x.abs() > 15
    return torch.where(far, x.abs() - math.log(2), torch.log(torch.cosh(torch.where(far, 0.0, x))))


# %% wrong: where over an overflowing branch
# says: The first derivative is nan or wrong for large |x|
# earns: 1 of 2
# caught: hidden
def log_cosh(x):
    return torch.where(x.abs() > 20, x.abs() - math.log(2), torch.log(torch.cosh(x)))


# %% wrong: computes in float64 and stays there
# says: The dtype must be kept
# earns: 1 of 2
# caught: hidden
def log_cosh(x):
    x = x.double()
    return x + F.softplus(-2 * x) - math.log(2)


# %% wrong: not connected
# says: no gradient reaches x
# says: No gradient reaches x: the result is not connected
# earns: 0 of 2
def log_cosh(x):
    return value_of(x.detach())


# %% right: tanh as a sigmoid
class BySigmoid(KeepsInput):
    @staticmethod
    def backward(ctx, g):
        return g * (2 * torch.sigmoid(2 * ctx.saved_tensors[0]) - 1)


log_cosh = BySigmoid.apply


# %% right: a Function of its own for the tanh in backward, which may save its output
class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return t

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * (1 - t * t)


class Nested(KeepsInput):
    @staticmethod
    def backward(ctx, g):
        return g * Tanh.apply(ctx.saved_tensors[0])


log_cosh = Nested.apply


# %% wrong: no_grad in backward
# says: The second derivative raises: what backward computed is not connected to x or to its incoming gradient
# earns: 0 of 2
class NoGrad(KeepsInput):
    @staticmethod
    def backward(ctx, g):
        with torch.no_grad():
            return g * torch.tanh(ctx.saved_tensors[0])


log_cosh = NoGrad.apply


# %% wrong: saves a clamped x
# says: something computed from x (a clone, a clamped x)
# earns: 0 of 2
class LogCosh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clamp(-50, 50))
        return x.abs() + torch.log1p(torch.exp(-2 * x.abs())) - math.log(2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.tanh(x)


def log_cosh(x):
    return LogCosh.apply(x)


# %% wrong: detaches x in backward
# says: or backward cut it off
# earns: 0 of 2
class LogCosh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() + torch.log1p(torch.exp(-2 * x.abs())) - math.log(2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.tanh(x.detach())


def log_cosh(x):
    return LogCosh.apply(x)


# %% wrong: log1p and expm1 without |x|
# says: something overflows
# earns: 1 of 2
def log_cosh(x):
    return x + torch.log1p(torch.expm1(-2 * x) / 2)


# %% wrong: log1p and expm1 in forward, without |x|
# says: so does `exp(-2 * x)` for negative x
# earns: 1 of 2
class LogCosh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + torch.log1p(torch.expm1(-2 * x) / 2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.tanh(x)


def log_cosh(x):
    return LogCosh.apply(x)


# %% wrong: torch.where between two formulas
# says: perhaps in the branch that `torch.where` doesn't take
# earns: 1 of 2
# caught: hidden
def log_cosh(x):
    return torch.where(x.abs() > 20, x.abs() - math.log(2), torch.log(torch.cosh(x)))
