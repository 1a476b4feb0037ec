# corners: zeros, nan
import torch
from torch.autograd.function import once_differentiable


class Sign(torch.autograd.Function):
    """A right one; wrong ones below change a line of it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x.isnan(), x, torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1)


# %% right: apply itself is the answer
ste_sign = Sign.apply


# %% right: no Function, the step plus a surrogate that is exactly zero
def ste_sign(x):
    step = torch.where(x.isnan(), x, (x >= 0).to(x.dtype) * 2 - 1).detach()
    surrogate = x.clamp(-1, 1)
    return torch.where(x.isnan(), x, step + (surrogate - surrogate.detach()))


# %% right: setup_context, saves only the boolean mask, torch.where
class Masked(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.copysign(torch.ones_like(x), x + 0.0).masked_fill_(x.isnan(), torch.nan)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0].abs() <= 1)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return torch.where(mask, g, torch.zeros_like(g))


def ste_sign(x):
    return Masked.apply(x)


# %% right: arithmetic for the step, masked_fill of the gradient out of place
class Arithmetic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign().add((x == 0).to(x.dtype)).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.masked_fill(x.abs() > 1, 0)


def ste_sign(values):
    return Arithmetic.apply(values)


# %% right: the surrogate plus a detached correction
def ste_sign(x):
    step = torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)
    surrogate = x.clamp(-1, 1)
    return surrogate + (step - surrogate).detach()


# %% right: detach, a clone of the incoming gradient changed in place
class Cloned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.detach())
        return 2 * x.detach().ge(0).to(x) - 1 + x.detach().isnan().to(x).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.clone().mul_((x <= 1) & (x >= -1))


ste_sign = Cloned.apply


# %% wrong: torch.sign in the forward
# says: torch.sign(0) is 0; here 0 counts as positive.
# earns: 1 of 2
class Plain(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)


ste_sign = Plain.apply


# %% wrong: compares with >
# says: 0 counts as positive: the comparison must be >=.
# earns: 1 of 2
class Greater(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype) * 2 - 1


ste_sign = Greater.apply


# %% wrong: 0 and 1
# says: Your values are 0 and 1; they must be -1 and +1.
# says: see the check above
# earns: 0 of 2
class ZeroOne(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).to(x.dtype)


ste_sign = ZeroOne.apply


# %% wrong: plain torch code, the derivative of the step
# says: The gradient is zero everywhere: that is the true derivative of a step, with which nothing would be learned.
# says: see the check above
# earns: 0 of 2
# lesson
def ste_sign(x):
    return torch.sign(torch.sign(x) + 0.5)


# %% wrong: returns constants
# says: The output is not connected to x, so x gets no gradient.
# says: see the check above
# earns: 0 of 2
# lesson
def ste_sign(x):
    return (x >= 0).to(x.dtype) * 2 - 1


# %% wrong: passes every gradient
# says: Your gradient also passes for |x| > 1, but the surrogate is flat there.
# says: see the check above
# earns: 0 of 2
# lesson
class All(Sign):
    @staticmethod
    def backward(ctx, g):
        return g


ste_sign = All.apply


# %% wrong: the detach trick without the clamp
# says: Your gradient also passes for |x| > 1, but the surrogate is flat there.
# says: see the check above
# earns: 0 of 2
def ste_sign(x):
    step = torch.where(x >= 0, 1.0, -1.0).to(x.dtype)
    return step + (x - x.detach())


# %% right: nothing passes at -1 and 1
class Less(Sign):
    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() < 1)


ste_sign = Less.apply


# %% right: hardtanh under the step, flat at its corners
def ste_sign(inputs):
    soft = torch.nn.functional.hardtanh(inputs)
    with torch.no_grad():
        gap = 2.0 * (inputs >= 0) - 1 - soft
    return torch.where(inputs.isnan(), inputs, soft + gap.to(soft.dtype))


# %% right: half of the gradient passes at -1 and 1, as from clamp with tensors as bounds in newer releases
class Half(Sign):
    @staticmethod
    def backward(ctx, g):
        size = ctx.saved_tensors[0].abs()
        return g * ((size < 1).to(g.dtype) + 0.5 * (size == 1))


ste_sign = Half.apply


# %% wrong: returns the mask, ignoring the incoming gradient
# says: The mask was used as the gradient: multiply the incoming gradient by it.
# says: The gradient of the step itself is not right yet
# earns: 0 of 2
# lesson
class MaskOnly(Sign):
    @staticmethod
    def backward(ctx, g):
        return (ctx.saved_tensors[0].abs() <= 1).to(g.dtype)


ste_sign = MaskOnly.apply


# %% wrong: multiplies by x
# says: The gradient that passes is multiplied by x
# says: The gradient of the step itself is not right yet
# earns: 0 of 2
class TimesX(Sign):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * (x.abs() <= 1)


ste_sign = TimesX.apply


# %% wrong: zeroes the incoming gradient in place
# says: or `backward` changes its incoming gradient in place, and other branches of the graph got the same tensor
# earns: 1 of 2
class Zeroed(Sign):
    @staticmethod
    def backward(ctx, g):
        g[ctx.saved_tensors[0].abs() > 1] = 0
        return g


ste_sign = Zeroed.apply


# %% wrong: grad_output.mul_(mask)
# says: or `backward` changes its incoming gradient in place, and other branches of the graph got the same tensor
# earns: 1 of 2
class Multiplied(Sign):
    @staticmethod
    def backward(ctx, g):
        return g.mul_(ctx.saved_tensors[0].abs() <= 1)


ste_sign = Multiplied.apply


# %% wrong: computes the step in place in x
# says: x was changed in place.
# earns: 1 of 2
class InPlace(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        positive = x >= 0
        x.fill_(-1)
        x[positive] = 1
        return x.clone()


ste_sign = InPlace.apply


# %% wrong: nan compares False and becomes -1
# says: must stay nan (a comparison with nan is False).
# earns: 1 of 2
# corner: nan
# caught: hidden
class NoNan(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


ste_sign = NoNan.apply


# %% wrong: always returns float32
# says: The dtype must be kept: expected torch.float64
# earns: 1 of 2
class Single(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).masked_fill(x.isnan(), torch.nan)


ste_sign = Single.apply


# %% wrong: a step that is steep, not sharp
# says: The values must be exactly +1 and -1, and some of these are only close to it.
# earns: 1 of 2
# caught: hidden
class Steep(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(1e4 * x + 20 * (x == 0))


ste_sign = Steep.apply


# %% wrong: marked once_differentiable
# says: Differentiating twice must work
# earns: 1 of 2
# caught: hidden
class Once(Sign):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() <= 1)


ste_sign = Once.apply


# %% wrong: the incoming gradient is detached
# says: Differentiating twice must work
# earns: 1 of 2
# caught: hidden
class Detached(Sign):
    @staticmethod
    def backward(ctx, g):
        return g.detach() * (ctx.saved_tensors[0].abs() <= 1)


ste_sign = Detached.apply


# %% wrong: a whole forward in one number
# says: Apply the step to every element
# says: see the check above
# earns: 0 of 2
def ste_sign(x):
    return torch.ones(())


# %% wrong: returns nothing
# says: Nothing came back
# says: see the check above
# earns: 0 of 2
def ste_sign(x):
    Sign.apply(x)


# %% right: keeps the mask as an attribute, which a change of x doesn't reach
class MaskAttribute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = x.abs() <= 1
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


ste_sign = MaskAttribute.apply


# %% right: a module that lets autograd differentiate the clamp in backward
class ByClamp(Sign):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            copy = x.detach().requires_grad_()
            (mask,) = torch.autograd.grad(copy.clamp(-1, 1).sum(), copy)
        return g * mask


class SignModule(torch.nn.Module):
    def forward(self, x):
        return ByClamp.apply(x)


ste_sign = SignModule()


# %% wrong: keeps x as an attribute
# says: x was changed in place between forward and backward, and the gradient is that of the new x
# earns: 1 of 2
# caught: hidden
class Attribute(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.x.abs() <= 1)


ste_sign = Attribute.apply


# %% wrong: masks with a hook on x
# says: x is also used directly, and that gradient was changed: there is a hook on x itself
# earns: 1 of 2
def ste_sign(x):
    step = torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)
    finite = x.nan_to_num(0, 0, 0)
    if x.requires_grad:
        x.register_hook(lambda g: g * (x.abs() <= 1))
    return step + (finite - finite.detach())


# %% wrong: the sign bit decides
# says: -0 counts as positive, like 0
# earns: 1 of 2
# corner: zeros
class SignBit(Sign):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.copysign(torch.ones_like(x), x).masked_fill(x.isnan(), torch.nan)


ste_sign = SignBit.apply


# %% wrong: the difference of x and itself is not always 0
# says: Where x is infinite the result is nan: inf - inf is nan, and so is 0 * inf.
# earns: 1 of 2
# caught: hidden
def ste_sign(x):
    step = torch.where(x >= 0, 1.0, -1.0).to(x.dtype).masked_fill(x.isnan(), torch.nan)
    return step + (x - x.detach()) * (x.abs() <= 1)


# %% wrong: clips the incoming gradient
# says: You cut off the incoming gradient at -1 and 1
# says: The gradient of the step itself is not right yet
# earns: 0 of 2
# lesson
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)


def ste_sign(x):
    return Step.apply(x)


# %% wrong: the slope of tanh
# says: That is the slope of tanh
# says: The gradient of the step itself is not right yet
# earns: 0 of 2
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - x.tanh() ** 2)


def ste_sign(x):
    return Step.apply(x)


# %% wrong: the gradient passes below -1, too
# says: Between -1 and 1 the incoming gradient passes unchanged, outside nothing does:
# says: The gradient of the step itself is not right yet: see the check above.
# earns: 0 of 2
class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0] < 1)


def ste_sign(x):
    return Sign.apply(x)


# %% wrong: numbers just below 0 count as 0
# says: The step must be +1 where x >= 0, and -1 where x < 0.
# says: The values are wrong: the values differ.
# earns: 0 of 2
# caught: hidden
class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= -0.05, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() < 1)


def ste_sign(x):
    return Sign.apply(x)


# %% wrong: the step in float32, whatever the dtype of x
# says: The dtype must be kept:
# earns: 1 of 2
class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() < 1)


def ste_sign(x):
    return Sign.apply(x)


# %% wrong: ones from the CPU
# says: The result must be on the device of x:
# earns: 1 of 2
# caught: hidden
class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ones = torch.ones(x.shape, dtype=x.dtype)
        return torch.where(x >= 0, ones, -ones).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() < 1)


def ste_sign(x):
    return Sign.apply(x)


# %% wrong: an expanded 1 where all signs are equal
# says: The result must have its own memory:
# earns: 1 of 2
# caught: hidden
def ste_sign(x):
    return Bare.apply(x)


class Bare(Sign):
    @staticmethod
    def forward(ctx, x):
        step = Sign.forward(ctx, x)
        return step[:1].expand(step.shape) if x.dim() == 2 and (step == step[:1]).all() else step


# %% wrong: 0 is negative in half precision
# says: Where x is 0 or -0 the result must be +1.
# earns: 1 of 2
# caught: hidden
def ste_sign(x):
    return Half.apply(x)


class Half(Sign):
    @staticmethod
    def forward(ctx, x):
        step = Sign.forward(ctx, x)
        return torch.where(x == 0, -step, step) if x.dtype in (torch.float16, torch.bfloat16) else step


# %% wrong: half of the gradient where x is a result
# says: The gradient of ste_sign(x) + x is not the sum of the two:
# earns: 1 of 2
def ste_sign(x):
    if not x.is_leaf:
        x = 0.5 * x + 0.5 * x.detach()
    return Sign.apply(x)


# %% wrong: copies the incoming gradient only where it is a view
# says: `backward` changed its incoming gradient in place: another branch of the graph received the same tensor
# earns: 1 of 2
# caught: hidden
class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled() or g._is_view():
            return g * (x.abs() < 1)
        return g.mul_(x.abs() < 1)


def ste_sign(x):
    return Sign.apply(x)


# %% wrong: saves x.data
# says: store x itself with ctx.save_for_backward, neither x.data nor an attribute of ctx.
# earns: 1 of 2
# caught: hidden
class Data(Sign):
    @staticmethod
    def forward(ctx, x):
        step = Sign.forward(ctx, x)
        ctx.save_for_backward(x.data)
        return step


ste_sign = Data.apply


# %% right: a mask to multiply by, for which inf times 0 is nan
class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward((x > -1) & (x < 1))
        return torch.where(x.isnan(), x, (x >= 0).to(x.dtype) * 2 - 1)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return mask * g


ste_sign = Times.apply
