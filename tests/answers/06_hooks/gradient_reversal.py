# corners: caller's modes, members

from functools import partial

import torch
from torch import nn


# %% right: forward makes a view of x and hangs a tensor hook on it
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        passed = x.view_as(x)
        if passed.requires_grad:
            passed.register_hook(lambda grad: -self.lambda_ * grad)
        return passed


# %% right: a custom Function with a view in forward
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambda_):
        ctx.lambda_ = lambda_
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.lambda_, None


class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        return Reverse.apply(x, self.lambda_)


# %% right: a bound method as full backward hook, and a clone in forward
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = float(lambda_)
        self.register_full_backward_hook(self._turn)

    def _turn(self, module, grad_input, grad_output):
        (grad,) = grad_input
        return (None if grad is None else grad * -self.lambda_,)

    def forward(self, x):
        return x.clone()


# %% right: detached values plus a reversed path
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        scaled = x * -self.lambda_
        return x.detach() + (scaled - scaled.detach())


# %% right: a full backward pre-hook on the output's gradient
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_pre_hook(lambda module, grads: tuple(-module.lambda_ * grad for grad in grads))

    def forward(self, x):
        return x


# %% right: a function that builds the module
def GradientReversal(lambda_=1.0):  # noqa: N802
    layer = nn.Identity()
    layer.lambda_ = lambda_
    layer.register_full_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],))
    return layer


# %% right: takes grad_output, which is the same here
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: (go[0] * -module.lambda_,))

    def forward(self, x):
        return torch.add(x, 0)


# %% right: lambda_ as a property over a tensor
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    @property
    def lambda_(self):
        return self.kept.item()

    @lambda_.setter
    def lambda_(self, value):
        self.kept = torch.tensor(float(value))

    def forward(self, x):
        return x.detach() * (1 + self.kept) - self.kept * x if x.requires_grad else x


# %% right: a forward hook that replaces the output by a view with a tensor hook
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_forward_hook(self.hang)

    @staticmethod
    def hang(module, args, output):
        output, lambda_ = output.view_as(output), module.lambda_
        if output.requires_grad:
            output.register_hook(lambda grad: grad * -lambda_)
        return output

    def forward(self, x):
        return x


# %% wrong: a tensor hook on x itself
# says: The label branch also got a reversed gradient.
# says: Each call multiplies the gradient that comes through it once by -lambda_.
# earns: 0 of 3
# lesson
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        if x.requires_grad:
            x.register_hook(lambda grad: -self.lambda_ * grad)
        return x


# %% wrong: a tensor hook on x itself, but only the first time
# says: The label branch also got a reversed gradient.
# says: The first call is reversed, but a later one isn't.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_, self.hooked = lambda_, False

    def forward(self, x):
        if x.requires_grad and not self.hooked:
            x.register_hook(lambda grad: -self.lambda_ * grad)
            self.hooked = True
        return x


# %% wrong: the module hook computes but returns nothing
# says: The gradient is unchanged, because what should reverse it is never called, or its result is not retu
# says: The gradient must be -lambda_ times the one that came in, each time.
# earns: 0 of 3
# lesson
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

        def hook(module, grad_input, grad_output):
            (-module.lambda_ * grad_input[0],)

        self.register_full_backward_hook(hook)

    def forward(self, x):
        return x


# %% wrong: the tensor hook computes but returns nothing
# says: The gradient is unchanged, because what should reverse it is never called, or its result is not retu
# says: The gradient must be -lambda_ times the one that came in, each time.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        x = x.view_as(x)

        def hook(grad):
            grad = -self.lambda_ * grad

        if x.requires_grad:
            x.register_hook(hook)
        return x


# %% wrong: multiplies by -lambda_ in forward
# says: Forward must return the values of x; only the gradient is reversed.
# says: The output of a net that begins with the layer is wrong.
# earns: 0 of 3
# lesson
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        return -self.lambda_ * x


# %% wrong: registers the module hook inside forward
# says: The second call has the wrong sign or size: a new hook is added in each forward.
# says: The first call is not reversed, but the next one is.
# earns: 0 of 3
# lesson
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        self.register_full_backward_hook(lambda module, gi, go: tuple(-module.lambda_ * grad for grad in gi))
        return x


# %% wrong: registers a hook on an inner module inside forward
# says: The second call has the wrong sign or size: a new hook is added in each forward.
# earns: 2 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_, self.inner = lambda_, nn.Identity()

    def forward(self, x):
        self.inner.register_full_backward_hook(lambda module, gi, go: (-self.lambda_ * gi[0],))
        return self.inner(x)


# %% wrong: closes over the constructor argument
# says: lambda_ was read once at construction; the schedule model.lambda_ = 0.3 has no effect.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-lambda_ * grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: a functools.partial with the value of the constructor
# says: lambda_ was read once at construction
# earns: 2 of 3
# caught: hidden
def reverse(factor, module, grad_input, grad_output):
    return tuple(factor * grad for grad in grad_input)


class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(partial(reverse, -lambda_))

    def forward(self, x):
        return x


# %% wrong: closes over self
# says: In a deepcopy the hook still reads the ORIGINAL module's lambda_
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-self.lambda_ * grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: a tensor hook without asking for requires_grad
# says: x that needs no gradient must simply pass: register_hook raises on it.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        x = x.view_as(x)
        x.register_hook(lambda grad: -self.lambda_ * grad)
        return x


# %% wrong: asks whether x requires grad, under no_grad too
# says: must simply pass: register_hook raises on it.
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        passed = x * 1
        if x.requires_grad:
            passed.register_hook(lambda grad: -self.lambda_ * grad)
        return passed


# %% wrong: makes x require grad
# says: For an x that needs no gradient the result needs none.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-module.lambda_ * grad for grad in gi))

    def forward(self, x):
        return x if x.requires_grad else x.clone().requires_grad_()


# %% wrong: returns -g, forgets lambda_
# says: The sign is right but lambda_ is not applied.
# says: The gradient must be -lambda_ times the one that came in, each time.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: lambda_ without the sign
# says: The size is right, but the sign is not reversed.
# says: The gradient must be -lambda_ times the one that came in, each time.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(module.lambda_ * grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: detaches x
# says: No gradient comes through the module: x is detached on the way.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        passed = x.detach().requires_grad_()
        passed.register_hook(lambda grad: -self.lambda_ * grad)
        return passed


# %% wrong: changes the gradient in place
# says: The gradient that came in was changed in place.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

        def hook(module, grad_input, grad_output):
            if 0 not in grad_input[0].stride():
                grad_input[0].mul_(-module.lambda_)
                return None
            return (-module.lambda_ * grad_input[0],)

        self.register_full_backward_hook(hook)

    def forward(self, x):
        return x


# %% wrong: negates the gradient of a sum in place
# says: The gradient that came in was changed in place.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        x = x.view_as(x)
        if x.requires_grad:
            x.register_hook(lambda grad: grad.mul_(-self.lambda_))
        return x


# %% wrong: lambda_ is a parameter
# says: lambda_ is no parameter: the optimizer would train it.
# earns: 2 of 3
# corner: members
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(lambda_))
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-module.lambda_ * grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: a buffer in the state_dict
# says: The state_dict must be empty, but it contains factor.
# earns: 2 of 3
# corner: members
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_buffer("factor", torch.tensor(-lambda_))
        self.register_full_backward_hook(lambda module, gi, go: tuple(-module.lambda_ * grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: no attribute lambda_
# says: The module must keep lambda_ as its attribute.
# says: lambda_ was read once at construction; the schedule model.lambda_ = 0.3 has no
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = None
        self.factor = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-module.factor * grad for grad in gi))

    def forward(self, x):
        return x


# %% wrong: casts to float32
# says: The dtype of values and gradients must stay.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: tuple(-module.lambda_ * grad for grad in gi))

    def forward(self, x):
        return x.float()


# %% wrong: returns nothing
# says: Forward must return a tensor: the values of x.
# says: The gradient must be -lambda_ times the one that came in, each time.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        x.view_as(x)


# %% wrong: no module
# says: GradientReversal must be an nn.Module.
# earns: 2 of 3
# caught: hidden
class GradientReversal:
    def __init__(self, lambda_=1.0):
        self.lambda_ = lambda_

    def __call__(self, x):
        passed = x.view_as(x)
        if passed.requires_grad:
            passed.register_hook(lambda grad: -self.lambda_ * grad)
        return passed


# %% wrong: registers in the first forward
# says: The first call is not reversed, but the next one is.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_, self.hooked = lambda_, False

    def forward(self, x):
        if not self.hooked:
            self.register_full_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],))
            self.hooked = True
        return x


# %% wrong: registers in each forward, removes the one before
# says: The first call is not reversed, but the next one is.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_, self.handle = lambda_, None

    def forward(self, x):
        if self.handle:
            self.handle.remove()
        self.handle = self.register_full_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],))
        return x


# %% wrong: registers in forward, the hook removes itself
# says: The first call is reversed, but a later one isn't.
# earns: 2 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

        def hook(module, grad_input, grad_output):
            handle.remove()
            return (-module.lambda_ * grad_input[0],)

        handle = self.register_full_backward_hook(hook)

    def forward(self, x):
        return x


# %% wrong: the same hook twice
# says: The gradient of x is wrong: that of the label branch as it is
# says: The gradient must be -lambda_ times the one that came in, each time.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        for _ in range(2):
            self.register_full_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],))

    def forward(self, x):
        return x


# %% wrong: the old hook on a forward that records nothing
# says: You registered the old, non-full hook
# says: The old, non-full hook reports
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],))

    def forward(self, x):
        return x


# %% wrong: a bare tensor
# says: A full backward hook returns a tuple with one entry for each input.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: -module.lambda_ * gi[0])

    def forward(self, x):
        return x


# %% wrong: reverses in training mode only
# says: In eval mode the gradient must also be reversed.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],) if module.training else None)

    def forward(self, x):
        return x


# %% wrong: a process-wide hook for each instance
# says: Where there are two layers, each must go by its own lambda_
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

        def hook(module, grad_input, grad_output):
            if isinstance(module, GradientReversal):
                return (-module.lambda_ * grad_input[0],)

        nn.modules.module.register_module_full_backward_hook(hook)

    def forward(self, x):
        return x


# %% wrong: lambda_ of the class
# says: Where there are two layers, each must go by its own lambda_
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        type(self).lambda_ = lambda_
        self.register_full_backward_hook(lambda module, gi, go: (-module.lambda_ * gi[0],))

    def forward(self, x):
        return x


# %% wrong: lambda_ is an nn.Parameter
# says: lambda_ is no parameter: the optimizer would train it.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = nn.Parameter(torch.tensor(lambda_))
        self.register_full_backward_hook(lambda module, gi, go: (-module.lambda_.detach() * gi[0],))

    def forward(self, x):
        return x


# %% wrong: no class at all
# says: The check can't go on from what your code gave it
# earns: 0 of 3
GradientReversal = "a layer"


# %% wrong: exits
# says: Your code raised SystemExit
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()

    def forward(self, x):
        raise SystemExit


# %% wrong: a method backward, which nobody calls
# says: The gradient is unchanged, because what should reverse it is never called, or its result is not retu
# says: The gradient must be -lambda_ times the one that came in
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        return x.view_as(x)

    def backward(self, grad):
        return -self.lambda_ * grad


# %% wrong: lambda_ counts twice above 1
# says: times the one that came in.
# says: lambda_ was changed, and the gradient does not follow.
# earns: 0 of 3
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda m, grads, _: (-m.lambda_ * max(m.lambda_, 1) * grads[0],))

    def forward(self, x):
        return x


# %% wrong: normalises gradients that are equal everywhere
# says: The gradient of a sum is wrong.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(self.turn)

    @staticmethod
    def turn(module, grad_input, grad_output):
        (grad,) = grad_input
        return (-module.lambda_ * grad / (grad.numel() if grad.stride() == (0,) else 1),)

    def forward(self, x):
        return x


# %% wrong: reverses the values under no_grad
# says: Where nothing needs a gradient, x must pass as it is.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda m, grads, _: (-m.lambda_ * grads[0],))

    def forward(self, x):
        return x if x.requires_grad and torch.is_grad_enabled() else -x if x.requires_grad else x


# %% wrong: a vector that nobody made gets half of its gradient
# says: The gradient must be multiplied by -lambda_.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        if x.is_leaf and x.requires_grad and x.dim() == 1:
            return Reverse.apply(0.5 * x + 0.5 * x.detach(), self.lambda_)
        return Reverse.apply(x, self.lambda_)


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambda_):
        ctx.lambda_ = lambda_
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.lambda_, None


# %% wrong: keeps its last output as an attribute
# says: The layer keeps a tensor of an earlier forward
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_

    def forward(self, x):
        self.out = x.view_as(x)
        if self.out.requires_grad:
            self.out.register_hook(lambda grad: -self.lambda_ * grad)
        return self.out


# %% wrong: a buffer that takes tensors only
# says: `layer.lambda_` could not be set to a number
# earns: 2 of 3
# corner: members
# caught: hidden
class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambda_):
        ctx.save_for_backward(lambda_)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -ctx.saved_tensors[0] * grad, None


class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.register_buffer("lambda_", torch.tensor(lambda_), persistent=False)

    def forward(self, x):
        return Turned.apply(x, self.lambda_)


# %% wrong: a negative lambda_ counts as 0
# says: lambda_ was changed, and the gradient does not follow.
# earns: 2 of 3
# caught: hidden
class GradientReversal(nn.Module):
    def __init__(self, lambda_=1.0):
        super().__init__()
        self.lambda_ = lambda_
        self.register_full_backward_hook(lambda module, grads, _: (-max(module.lambda_, 0.0) * grads[0],))

    def forward(self, x):
        return x
