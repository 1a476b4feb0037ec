# %% right: a forward pre-hook that passes on views
# Each view has its own tensor hook, so the same tensor on another path is not scaled. It also scales for a module that
# returns a dict, where a full backward hook never runs. If the module changes its input in place, the hook is lost
# without a word; the author's answer raises there.
def scale_input_grads(module, factor):
    """Scale the gradients of the views that the module gets as inputs."""

    def pre_hook(module, args):
        passed = []
        for arg in args:
            if isinstance(arg, Tensor) and arg.requires_grad:
                arg = arg.view_as(arg)
                if arg.requires_grad:  # not under no_grad
                    arg.register_hook(lambda grad: factor * grad)
            passed.append(arg)
        return tuple(passed)

    return module.register_forward_pre_hook(pre_hook)


# %% right: a custom Function in a forward pre-hook
# An operation in the graph scales the gradient, so it also scales for a module that returns a dict. autograd decides
# whether the operation is recorded, so nothing has to be asked about gradients or the grad mode. Like the author's
# answer, it raises for a module that changes its input in place.
class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None


def scale_input_grads(module, factor):
    """Pass the module's inputs through a Function that scales their gradients."""

    def pre_hook(module, args):
        return tuple(_Scaled.apply(arg, factor) if isinstance(arg, Tensor) else arg for arg in args)

    return module.register_forward_pre_hook(pre_hook)


# %% wrong: a tuple, but without the None entries
# says: You left out the None entries, so the tuple got shorter than the list of inputs.
# It works as long as every input needs a gradient. PyTorch expects one entry for each positional input, and None for an
# input without a gradient.
def scale_input_grads(module, factor):
    """Scale the gradients, and drop the missing ones."""

    def hook(module, grad_input, grad_output):
        return tuple(factor * grad for grad in grad_input if grad is not None)

    return module.register_full_backward_hook(hook)
