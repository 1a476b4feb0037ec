# %% right: an optimizer for each parameter
# Each hook calls `step` and `zero_grad` of an SGD with a single parameter. There are as many optimizers as parameters,
# but another optimizer, such as Adam, can take the place of SGD without a formula to write.
def attach_sgd(model, lr):
    """Let each parameter be updated by its own optimizer."""
    optimizers = {p: torch.optim.SGD([p], lr) for p in model.parameters() if p.requires_grad}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(hook) for p in optimizers]
    return lambda: [handle.remove() for handle in handles]


# %% wrong: a tensor hook that reads .grad
# says: A hook found no gradient. In a tensor hook .grad is not filled yet (None, or the previous value)
# A tensor hook gets the gradient before it is added to `.grad`, and it may still replace it.
def attach_sgd(model, lr):
    """Steps that come too early."""

    def stepping(parameter):
        def hook(grad):
            parameter.data -= lr * parameter.grad
            parameter.grad = None

        return hook

    trained = [p for p in model.parameters() if p.requires_grad]
    handles = [p.register_hook(stepping(p)) for p in trained]
    return lambda: [handle.remove() for handle in handles]
