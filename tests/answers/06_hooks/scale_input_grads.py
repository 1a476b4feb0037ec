# corners: zeros

import torch


# %% right: a written-out loop; returns None at once where no entry is a tensor
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        if all(grad is None for grad in grad_input):
            return None
        scaled = []
        for grad in grad_input:
            if grad is not None:
                grad = grad * factor
            scaled.append(grad)
        return tuple(scaled)

    return module.register_full_backward_hook(hook)


# %% right: a forward pre-hook that passes on views with a tensor hook of their own
def scale_input_grads(module, factor):
    def pre_hook(mod, args):
        passed = []
        for arg in args:
            if isinstance(arg, torch.Tensor) and arg.requires_grad and torch.is_grad_enabled():
                arg = arg.view_as(arg)
                arg.register_hook(lambda grad: grad * factor)
            passed.append(arg)
        return tuple(passed)

    return module.register_forward_pre_hook(pre_hook)


# %% right: an instance of a class as hook
class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, module, grad_input, grad_output):
        return tuple(None if grad is None else torch.mul(grad, self.factor) for grad in grad_input)


def scale_input_grads(module, factor):
    return module.register_full_backward_hook(Scale(factor))


# %% right: copies, then multiplies the copies in place
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(grad if grad is None else grad.clone().mul_(factor) for grad in grad_input)

    return module.register_full_backward_hook(hook, prepend=True)


# %% right: a custom Function in a forward pre-hook
class Passing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None


def scale_input_grads(module, factor):
    def pre_hook(mod, args):
        return tuple(Passing.apply(arg, factor) if isinstance(arg, torch.Tensor) else arg for arg in args)

    return module.register_forward_pre_hook(pre_hook)


# %% right: a process-wide hook that asks for the module
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        if mod is module:
            return tuple(None if grad is None else factor * grad for grad in grad_input)

    return torch.nn.modules.module.register_module_full_backward_hook(hook)


# %% right: a forward pre-hook that keeps the values and scales a part of the gradient
def scale_input_grads(module, factor):
    def pre_hook(mod, args):
        return tuple(
            arg.detach() + factor * (arg - arg.detach()) if torch.is_tensor(arg) and arg.requires_grad else arg
            for arg in args
        )

    return module.register_forward_pre_hook(pre_hook)


# %% right: a handle of its own that sets a switch
class Switch:
    on = True

    def remove(self):
        self.on = False


def scale_input_grads(module, factor):
    switch = Switch()

    def hook(mod, grad_input, grad_output):
        if switch.on:
            return tuple(grad if grad is None else grad * torch.tensor(factor) for grad in grad_input)

    module.register_full_backward_hook(hook)
    return switch


# %% wrong: the code as given
# says: You returned a bare tensor, which PyTorch splits along its first dimension.
# says: What the hook returned doesn't fit.
# earns: 0 of 2
# lesson
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return factor * grad_input[0]

    return module.register_full_backward_hook(hook)


# %% wrong: returns a bare tensor, guarded against None
# says: You returned a bare tensor, which PyTorch splits along its first dimension.
# says: What the hook returned doesn't fit.
# earns: 0 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        if grad_input[0] is not None:
            return factor * grad_input[0]

    return module.register_full_backward_hook(hook)


# %% wrong: packs the batch into a tuple of rows
# says: You returned a bare tensor, which PyTorch splits along its first dimension.
# says: What the hook returned doesn't fit.
# earns: 0 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        if grad_input[0] is not None:
            return tuple(factor * grad_input[0])

    return module.register_full_backward_hook(hook)


# %% wrong: a tuple, but multiplies None
# says: An input that needs no gradient appears as None
# earns: 0 of 2
# lesson
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: one entry, for one input
# says: An input that needs no gradient appears as None
# says: You handed back one entry, and this module has three positional inputs
# earns: 0 of 2
def scale_input_grads(module, factor):
    return module.register_full_backward_hook(lambda mod, grad_input, grad_output: (factor * grad_input[0],))


# %% wrong: skips None entries
# says: You left out the None entries, so the tuple got shorter than the list of inputs.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(factor * grad for grad in grad_input if grad is not None)

    return module.register_full_backward_hook(hook)


# %% wrong: one entry, guarded against None
# says: You handed back one entry, and this module has three positional inputs
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return None if grad_input[0] is None else (factor * grad_input[0],)

    return module.register_full_backward_hook(hook)


# %% wrong: scales entry 0 only
# says: Only the first input's gradient was scaled; grad_input has one entry for each positional input.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        first, *others = grad_input
        return (None if first is None else factor * first, *others)

    return module.register_full_backward_hook(hook)


# %% wrong: multiplies the entries in place, returns nothing
# says: You changed grad_input in place.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        for grad in grad_input:
            if grad is not None:
                grad.mul_(factor)

    return module.register_full_backward_hook(hook)


# %% wrong: multiplies the entries in place and returns them
# says: You changed grad_input in place.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else grad.mul_(factor) for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: in place, but every tensor once only
# says: You changed grad_input in place.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        for grad in {id(grad): grad for grad in grad_input if grad is not None}.values():
            if 0 in grad.stride():
                return tuple(g if g is None else g * factor for g in grad_input)
            grad.mul_(factor)

    return module.register_full_backward_hook(hook)


# %% wrong: a full backward pre-hook that scales grad_output
# says: The module's own weight gradient was also scaled, because you changed grad_output (on the way in) an
# says: The gradient of the module's own weight must be as it is without the hook.
# earns: 0 of 2
# lesson
def scale_input_grads(module, factor):
    def hook(mod, grad_output):
        return tuple(None if grad is None else factor * grad for grad in grad_output)

    return module.register_full_backward_pre_hook(hook)


# %% wrong: scales the parameters' gradients too
# says: The module's own weight gradient was also scaled, because you changed grad_output (on the way in) an
# says: The gradient of the module's own weight must be as it is without the hook.
# earns: 0 of 2
def scale_input_grads(module, factor):
    for parameter in module.parameters():
        parameter.register_hook(lambda grad: grad * factor)
    return module.register_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else factor * grad for grad in grad_input)
    )


# %% wrong: a tensor hook on the output
# says: The module's own weight gradient was also scaled, because you changed grad_output (on the way in) an
# says: The gradient of the module's own weight must be as it is without the hook.
# earns: 0 of 2
def scale_input_grads(module, factor):
    def hook(mod, args, output):
        if output.requires_grad:
            output.register_hook(lambda grad: grad * factor)

    return module.register_forward_hook(hook)


# %% wrong: tensor hooks on the caller's input tensors
# says: A gradient that reaches x around the module was also scaled.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def pre_hook(mod, args):
        for arg in args:
            if isinstance(arg, torch.Tensor) and arg.requires_grad:
                arg.register_hook(lambda grad: grad * factor)

    return module.register_forward_pre_hook(pre_hook)


# %% wrong: views with a tensor hook, but not for plain data
# says: You can't register a tensor hook on a tensor that needs no gradient.
# says: Inputs that are no tensors, such as a number, must be left in peace: your code
# earns: 0 of 2
def scale_input_grads(module, factor):
    def pre_hook(mod, args):
        passed = tuple(arg.view_as(arg) for arg in args)
        for view in passed:
            view.register_hook(lambda grad: grad * factor)
        return passed

    return module.register_forward_pre_hook(pre_hook)


# %% wrong: returns a list instead of a tuple
# says: Refused ("should always return None or None for all gradients"): a list in
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return [None if grad is None else factor * grad for grad in grad_input]

    return module.register_full_backward_hook(hook)


# %% wrong: zeros in place of None
# says: Refused ("should always return None or None for all gradients"): a list in
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(torch.zeros(1) if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: the right hook, handle not returned
# says: Your function must return the handle, so that the caller can remove the hook.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    module.register_full_backward_hook(hook)


# %% wrong: returns the hook in place of the handle
# says: Your function must return the handle, so that the caller can remove the hook.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    module.register_full_backward_hook(hook)
    return hook


# %% wrong: the handle of another hook
# says: After handle.remove() gradients are still scaled.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    module.register_full_backward_hook(hook)
    return module.register_forward_hook(lambda *args: None)


# %% wrong: the hook computes and returns nothing
# says: is what it is without the hook: what a hook returns replaces grad_input, and None replaces nothing.
# says: Nothing was scaled, because one entry is None. Let that one pass, and scale the
# earns: 0 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: the old hook
# says: You registered the old, non-full hook.
# earns: 0 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_backward_hook(hook)


# %% wrong: scales the input itself
# says: The output of the module must stay as it is.
# earns: 0 of 2
def scale_input_grads(module, factor):
    return module.register_forward_pre_hook(lambda mod, args: tuple(arg * factor for arg in args))


# %% wrong: flips the sign as well
# says: must be factor times what it is without the hook.
# says: The gradient of an input is wrong where two inputs and a number between them.
# earns: 0 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else -factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: through numpy, in float32
# says: The gradient that your hook returned has another dtype than the one it got.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        return tuple(None if grad is None else torch.tensor(grad.numpy() * factor).float() for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: scales grad_output and returns it as the gradient of the input
# says: What the hook returned doesn't fit.
# says: It is grad_output that has one entry for each output
# earns: 0 of 2
def scale_input_grads(module, factor):
    return module.register_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else factor * grad for grad in grad_output)
    )


# %% wrong: gives up where an entry is None
# says: Nothing was scaled, because one entry is None.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        if all(grad is not None for grad in grad_input):
            return tuple(factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: catches the TypeError
# says: Nothing was scaled, because one entry is None.
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        try:
            return tuple(factor * grad for grad in grad_input)
        except TypeError:
            return grad_input

    return module.register_full_backward_hook(hook)


# %% wrong: a process-wide hook that asks for nothing
# says: must be factor times what it is without the hook.
# says: Where an addition, a view or a sum hands its gradient on, what arrives at the
# earns: 0 of 2
def scale_input_grads(module, factor):
    return torch.nn.modules.module.register_module_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else factor * grad for grad in grad_input)
    )


# %% wrong: detaches the inputs
# says: No gradient reaches x any more
# says: Inputs that are no tensors, such as a number, must be left in peace: your code
# earns: 0 of 2
def scale_input_grads(module, factor):
    return module.register_forward_pre_hook(lambda mod, args: tuple(arg.detach().requires_grad_() for arg in args))


# %% wrong: makes plain data require grad
# says: The gradient of x must not change
# says: The gradient of an input is wrong where the second input needs no gradient.
# earns: 0 of 2
def scale_input_grads(module, factor):
    def pre_hook(mod, args):
        for arg in args:
            if torch.is_tensor(arg) and arg.is_leaf:
                arg.requires_grad_()

    module.register_forward_pre_hook(pre_hook)
    return module.register_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else factor * grad for grad in grad_input)
    )


# %% wrong: removes itself after one pass
# says: The second pass must be scaled like the first
# earns: 1 of 2
def scale_input_grads(module, factor):
    def hook(mod, grad_input, grad_output):
        handle.remove()
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    handle = module.register_full_backward_hook(hook)
    return handle


# %% wrong: always three
# says: Each use of the module scales once, by any factor.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    return module.register_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else 3 * grad for grad in grad_input)
    )


# %% wrong: drops the sign of the factor
# says: Each use of the module scales once, by any factor.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    return module.register_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else abs(factor) * grad for grad in grad_input)
    )


# %% wrong: switches gradients off
# says: After your function the grad mode is off
# earns: 0 of 2
def scale_input_grads(module, factor):
    torch.set_grad_enabled(False)
    return module.register_full_backward_hook(
        lambda mod, grad_input, grad_output: tuple(None if grad is None else factor * grad for grad in grad_input)
    )


# %% wrong: None for a factor of 0
# says: With a factor of 0 the gradient came back unscaled.
# earns: 1 of 2
# corner: zeros
# caught: hidden
def scale_input_grads(module, factor):
    def hook(module, grad_input, grad_output):
        if factor:
            return tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% right: a hook on the view of each input, bound to the calls that come
def scale_input_grads(module, factor):
    def through(module, args):
        def scaled(arg):
            if not isinstance(arg, Tensor) or not arg.requires_grad:
                return arg
            arg = arg.view_as(arg)
            arg.register_hook(lambda grad: factor * grad)
            return arg

        return tuple(map(scaled, args)) if torch.is_grad_enabled() else None

    return module.register_forward_pre_hook(through)


# %% wrong: detaches the inputs for a factor of 0
# says: With a factor of 0 the gradient of the inputs is a tensor of zeros.
# earns: 1 of 2
# corner: zeros
# caught: hidden
def scale_input_grads(module, factor):
    if factor == 0:
        return module.register_forward_pre_hook(lambda module, args: tuple(arg.detach() for arg in args))

    def hook(module, grad_input, grad_output):
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: switches recording on for its views, and leaves it on
# says: Under no_grad nothing may change.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def pass_on(module, args):
        torch.set_grad_enabled(True)
        views = [arg.view_as(arg) if isinstance(arg, Tensor) and arg.requires_grad else arg for arg in args]
        for view in views:
            if isinstance(view, Tensor) and view.requires_grad:
                view.register_hook(lambda grad: factor * grad)
        return tuple(views)

    return module.register_forward_pre_hook(pass_on)


# %% wrong: factor times the input plus the rest of it, detached
# says: The outputs of the module must be the same to the last bit
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def pre_hook(module, args):
        return tuple(
            arg * factor + (arg * (1 - factor)).detach() if isinstance(arg, Tensor) and arg.requires_grad else arg
            for arg in args
        )

    return module.register_forward_pre_hook(pre_hook)


# %% wrong: scales in float32 and casts back
# says: Each use of the module scales once, by any factor.
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def hook(module, grad_input, grad_output):
        return tuple(None if grad is None else (grad.float() * factor).to(grad.dtype) for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: asks whether the factor is true
# says: A condition such as `if factor` is False for 0
# earns: 1 of 2
# corner: zeros
# caught: hidden
def scale_input_grads(module, factor):
    def hook(module, grad_input, grad_output):
        return tuple(grad * factor if grad is not None and factor else grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: scales in training mode only
# says: In eval mode the gradient that the module passes back was not scaled
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def hook(module, grad_input, grad_output):
        if not module.training:
            return None
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)


# %% wrong: blends every floating input, also one that needs no gradient
# says: An input that needs no gradient, here a mask with -inf, did not reach the module as it was
# earns: 1 of 2
# caught: hidden
def scale_input_grads(module, factor):
    def blend(module, args):
        return tuple(
            torch.lerp(arg.detach(), arg, factor) if torch.is_tensor(arg) and arg.is_floating_point() else arg
            for arg in args
        )

    return module.register_forward_pre_hook(blend)
