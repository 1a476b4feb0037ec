# %% right: all gradients in one message
# The gradients are copied into one flat tensor, so there is one all_reduce, however many parameters there are. The copy
# takes as much memory as all gradients together, and if their dtypes differ, all are sent in the widest.
def average_gradients(model):
    """Average all gradients with one all_reduce."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        return
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
        p.grad = part.to(p.dtype, copy=True).view(p.shape)


# %% right: starts all messages, then waits
# With `async_op=True`, all_reduce returns at once, so all messages are under way before the first one is waited for.
# Dividing first also rounds first: in float16, two gradients of 50,000 become 49,984, where their sum is inf. Until the
# end, the new gradients of all parameters are in memory besides the old ones.
def average_gradients(model):
    """Average the gradients with overlapping all_reduces."""
    world, work = dist.get_world_size(), []
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else (p.grad / world).contiguous()
            work.append((p, grad, dist.all_reduce(grad, async_op=True)))
    for p, grad, handle in work:
        handle.wait()
        p.grad = grad


# %% wrong: skips parameters without a gradient
# says: A rank skipped the collective for a parameter without a gradient
# Collectives are matched by their order. The next call of this rank meets the skipped one of another rank.
def average_gradients(model):
    """Average the gradients, if all ranks have the same."""
    for p in model.parameters():
        if p.grad is not None:
            p.grad = p.grad.contiguous()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
