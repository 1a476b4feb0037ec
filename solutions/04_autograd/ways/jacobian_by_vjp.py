# %% right: all unit vectors at once
# `is_grads_batched` runs one backward for all rows, with vmap. It needs the memory of all rows at the same time. An
# operation without a batching rule is run row by row, and a backward that calls `item` raises.
def jacobian(fn, x):
    """All rows in one batched vector-Jacobian product."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(x)
    if not y.requires_grad or not y.numel():
        return torch.zeros(y.shape + x.shape, dtype=x.dtype)
    units = torch.eye(y.numel(), dtype=y.dtype).reshape(-1, *y.shape)
    (rows,) = torch.autograd.grad(y, x, units, is_grads_batched=True, allow_unused=True)
    return torch.zeros(y.shape + x.shape, dtype=x.dtype) if rows is None else rows.reshape(y.shape + x.shape)


# %% right: differentiates each output element
# No unit vectors: an element is a scalar, which needs none. `materialize_grads=True` gives zeros where x has no part in
# it.
def jacobian(fn, x):
    """The gradients of the elements of fn(x), one after the other."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(x)
        elements = y.reshape(-1).unbind()
    rows = [
        torch.autograd.grad(element, x, retain_graph=True, materialize_grads=True)[0]
        if element.requires_grad
        else torch.zeros_like(x, requires_grad=False)
        for element in elements
    ]
    return (torch.stack(rows) if rows else x.new_zeros(0, *x.shape)).reshape(y.shape + x.shape)


# %% wrong: backward for each row, without clearing .grad
# says: Rows contain the sum of all rows before: .grad accumulates.
# The first row is right, and each later row is the sum of itself and all rows before.
def jacobian(fn, x):
    """Rows that add up."""
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = []
    for v in torch.eye(y.numel()):
        y.backward(v.view(y.shape), retain_graph=True, inputs=[x])
        rows.append(x.grad.clone())
    return torch.stack(rows).view(y.shape + x.shape)
