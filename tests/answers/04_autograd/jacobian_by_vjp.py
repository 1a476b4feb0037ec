# corners: 0-d, empty
# %% right: all unit vectors at once with is_grads_batched
def jacobian(fn, x):
    x = x.detach().clone().requires_grad_()
    y = fn(x)
    if y.grad_fn is None and y is not x or y.numel() == 0:
        return torch.zeros(y.shape + x.shape, dtype=x.dtype)
    units = torch.eye(y.numel(), dtype=y.dtype).reshape(y.numel(), *y.shape)
    (rows,) = torch.autograd.grad(y, x, units, is_grads_batched=True, allow_unused=True)
    if rows is None:
        rows = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    return rows.reshape(y.shape + x.shape)


# %% right: backward restricted to the one input, cleared between the rows
def jacobian(fn, x):
    own = x.detach().clone().requires_grad_()
    y = fn(own)
    J = []
    for i in range(y.numel()):
        own.grad = None
        v = torch.zeros(y.numel(), dtype=y.dtype)
        v[i] = 1
        if y.requires_grad:
            y.backward(v.view(y.shape), retain_graph=True, inputs=[own])
        J.append(torch.zeros_like(own, requires_grad=False) if own.grad is None else own.grad.clone())
    J = torch.stack(J) if J else torch.zeros(0, *x.shape, dtype=x.dtype)
    return J.reshape(y.shape + x.shape)


# %% right: grad of every single output element, materialize_grads=True
def jacobian(fn, x):
    leaf = torch.empty_like(x, requires_grad=False).copy_(x.detach()).requires_grad_()
    y = fn(leaf)
    rows = [
        torch.autograd.grad(e, leaf, retain_graph=True, materialize_grads=True)[0]
        if e.requires_grad
        else leaf.detach() * 0
        for e in y.reshape(-1).unbind()
    ]
    J = torch.stack(rows) if rows else torch.zeros(0, *x.shape, dtype=x.dtype)
    return J.reshape(y.shape + x.shape).detach()


# %% right: differentiates with respect to x itself where it requires grad, vmap over the unit vectors
def jacobian(fn, x):
    given = x.requires_grad
    inner = x if given else x.detach().requires_grad_(True)
    y = fn(inner)
    J = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad and y.numel():

        def vjp(v):
            return torch.autograd.grad(y, inner, v, retain_graph=True, materialize_grads=True)[0]

        J = torch.vmap(vjp)(torch.eye(y.numel(), dtype=y.dtype).view(-1, *y.shape))
    return J.view(y.shape + x.shape)


# %% right: switches x's flag, and back again
def jacobian(fn, x):
    if x.requires_grad:
        x = x.detach()
    x.requires_grad_(True)
    try:
        y = fn(x)
        units = torch.eye(y.numel(), dtype=y.dtype)
        rows = []
        for v in units:
            g = None
            if y.requires_grad:
                (g,) = torch.autograd.grad([y], [x], [v.reshape(y.shape)], retain_graph=True, allow_unused=True)
            rows.append(torch.zeros(x.shape, dtype=x.dtype) if g is None else g)
        flat = torch.cat([r.reshape(1, -1) for r in rows]) if rows else torch.zeros(0, x.numel(), dtype=x.dtype)
        return flat.reshape(y.shape + x.shape)
    finally:
        x.requires_grad_(False)


# %% wrong: backward per row without clearing .grad
# says: Rows contain the sum of all rows before: .grad accumulates.
# says: The derivatives are wrong.
# earns: 0 of 2
# lesson
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = []
    for v in torch.eye(y.numel()):
        y.backward(v.view(y.shape), retain_graph=True, inputs=[x])
        rows.append(x.grad.clone())
    return torch.stack(rows).view(y.shape + x.shape)


# %% wrong: dimensions of x first
# says: Rows and columns are exchanged: output dimensions come first, then those of x.
# says: The Jacobian has the shape of the output followed by
# earns: 0 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = [torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True)[0] for v in torch.eye(y.numel())]
    return torch.stack(rows, -1).reshape(*x.shape, *y.shape)


# %% wrong: differentiates y.sum()
# says: You differentiated the sum of the outputs: one row in place of one row per output.
# says: The Jacobian has the shape of the output followed by
# earns: 0 of 2
# lesson
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(fn(x).sum(), x)[0]


# %% wrong: the sum of the outputs in every row
# says: You differentiated the sum of the outputs: one row in place of one row per output.
# says: The derivatives are wrong.
# earns: 0 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    return torch.autograd.grad(y.sum(), x)[0].expand(*y.shape, *x.shape)


# %% wrong: forgets retain_graph
# says: The graph was freed after the first row: all but the last call need retain_graph=True.
# earns: 0 of 2
# lesson
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = [torch.autograd.grad(y, x, v.view(y.shape), allow_unused=True)[0] for v in torch.eye(y.numel())]
    return torch.stack(rows).view(y.shape + x.shape)


# %% wrong: calls grad without grad_outputs
# says: On an output with several elements backward and grad need the vector (grad_outputs)
# earns: 0 of 2
# lesson
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(fn(x), x)[0]


# %% wrong: fails where x is not used
# says: An output that does not use x has derivative zero: allow it (allow_unused), and replace None by zeros (your code
# earns: 1 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = [
        torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True)[0] for v in torch.eye(y.numel(), dtype=y.dtype)
    ]
    return torch.stack(rows).view(y.shape + x.shape)


# %% wrong: fails where the output has no graph
# says: An output that does not use x has derivative zero: allow it (allow_unused), and replace None by zeros (your code
# earns: 1 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = [
        torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)[0]
        for v in torch.eye(y.numel(), dtype=y.dtype)
    ]
    return torch.stack(rows).view(y.shape + x.shape)


# %% wrong: returns (y.numel(), x.numel())
# says: The Jacobian has the shape of the output followed by the shape of x: expected (3, 2, 2, 3), got (6, 6).
# says: The Jacobian has the shape of the output followed by
# earns: 0 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = [torch.zeros_like(x, requires_grad=False)] * y.numel()
    if y.requires_grad:
        units = torch.eye(y.numel(), dtype=y.dtype)
        rows = [torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)[0] for v in units]
    return torch.stack(rows).view(y.numel(), x.numel())


# %% wrong: plain backward fills the gradients of parameters inside fn
# says: backward fills every leaf it reaches. torch.autograd.grad returns the gradient and touches nothing.
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    x = x.detach().clone().requires_grad_()
    y = fn(x)
    J = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            x.grad = None
            y.backward(v.view(y.shape), retain_graph=True)
            if x.grad is not None:
                J[i] = x.grad
    return J.view(y.shape + x.shape)


# %% wrong: clears the gradients of x
# says: The .grad of x was changed
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    if not x.requires_grad:
        x = x.detach().clone().requires_grad_()
    y = fn(x)
    J = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            x.grad = None
            y.backward(v.view(y.shape), retain_graph=True, inputs=[x])
            if x.grad is not None:
                J[i] = x.grad
    return J.view(y.shape + x.shape)


# %% wrong: switches x.requires_grad on
# says: x.requires_grad was changed.
# earns: 1 of 2
def jacobian(fn, x):
    x.requires_grad_()
    y = fn(x)
    J = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            J[i] = torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)[0]
    return J.view(y.shape + x.shape)


# %% wrong: create_graph=True
# says: The result must not carry a graph: it requires grad.
# earns: 1 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    units = torch.eye(y.numel(), dtype=y.dtype)
    rows = [torch.autograd.grad(y, x, v.view(y.shape), create_graph=True, materialize_grads=True)[0] for v in units]
    return torch.stack(rows).view(y.shape + x.shape)


# %% wrong: calls fn for every row
# says: Your code called fn 2 times; one call is enough.
# earns: 1 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    shape = fn(x).shape
    J = torch.zeros(shape.numel(), *x.shape, dtype=x.dtype)
    for i in range(shape.numel()):
        element = fn(x).reshape(-1)[i]
        if element.requires_grad:
            J[i] = torch.autograd.grad(element, x, materialize_grads=True)[0]
    return J.view(shape + x.shape)


# %% wrong: torch.autograd.functional.jacobian
# says: This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.
# earns: 0 of 2
def jacobian(fn, x):
    return torch.autograd.functional.jacobian(fn, x.detach())


# %% wrong: torch.func, imported by name
# says: This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.
# earns: 0 of 2
jacrev = torch.func.jacrev


def jacobian(fn, x):
    return jacrev(fn)(x.detach())


# %% wrong: torch.func.vjp
# says: This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.
# earns: 0 of 2
def jacobian(fn, x):
    y, pull = torch.func.vjp(fn, x.detach())
    return torch.stack([pull(v.view(y.shape))[0] for v in torch.eye(y.numel())]).view(y.shape + x.shape)


# %% wrong: a table in the default dtype
# says: The Jacobian has the dtype of x: expected torch.float64, got torch.float32.
# earns: 1 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    J = torch.zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            J[i] = torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)[0]
    return J.view(y.shape + x.shape)


# %% wrong: stacks the rows of an empty output
# says: Outputs and inputs may have any shape, here an empty input
# earns: 1 of 2
# corner: empty
# caught: hidden
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    if not y.requires_grad:
        return torch.zeros(y.shape + x.shape, dtype=x.dtype)
    units = torch.eye(y.numel(), dtype=y.dtype)
    rows = [torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)[0] for v in units]
    return torch.stack(rows).view(y.shape + x.shape)


# %% wrong: returns a list of rows
# says: Return a tensor, not a list.
# says: Outputs and inputs may have any shape, here
# earns: 0 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    return [torch.autograd.grad(e, x, retain_graph=True)[0] for e in y]


# %% right: forward columns by differentiating the vector-Jacobian product
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    table = torch.zeros(y.shape + x.shape, dtype=x.dtype)
    if not y.requires_grad or not table.numel():
        return table
    v = torch.zeros_like(y, requires_grad=True)
    (delivered,) = torch.autograd.grad(y, x, v, create_graph=True, materialize_grads=True)
    columns = []
    for element in delivered.flatten():
        column = None
        if element.requires_grad:
            (column,) = torch.autograd.grad(element, v, retain_graph=True, allow_unused=True)
        columns.append(torch.zeros_like(y) if column is None else column)
    return torch.stack(columns, -1).view(table.shape).to(x.dtype).detach()


# %% wrong: leaves the last row out
# says: The derivatives are wrong.
# earns: 0 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    for i in range(y.numel() - 1):
        (rows[i],) = torch.autograd.grad(y.flatten()[i], x, retain_graph=True, materialize_grads=True)
    return rows.view(y.shape + x.shape)


# %% wrong: calls fn under no_grad
# says: The derivatives are wrong.
# earns: 0 of 2
@torch.no_grad()
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad:
        for i in range(y.numel()):
            (rows[i],) = torch.autograd.grad(y.flatten()[i], x, retain_graph=True, materialize_grads=True)
    return rows.view(y.shape + x.shape)


# %% wrong: switches the flag of x and always off again
# says: x.requires_grad was changed.
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    x.requires_grad_()
    y = fn(x)
    rows = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad:
        for i in range(y.numel()):
            (rows[i],) = torch.autograd.grad(y.flatten()[i], x, retain_graph=True, materialize_grads=True)
    x.requires_grad_(False)
    return rows.view(y.shape + x.shape)


# %% wrong: finite differences
# says: The derivatives are wrong.
# earns: 0 of 2
def jacobian(fn, x):
    y = fn(x.detach())
    table = torch.zeros(y.numel(), x.numel(), dtype=x.dtype)
    for j in range(x.numel()):
        step = torch.zeros(x.numel(), dtype=x.dtype)
        step[j] = 1e-3
        table[:, j] = ((fn(x.detach() + step.view(x.shape)) - y) / 1e-3).flatten().detach()
    return table.view(y.shape + x.shape)


# %% wrong: reshape without a size
# says: Outputs and inputs may have any shape, here an output and an x without dimensions
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = torch.zeros(y.numel(), *x.shape, dtype=x.dtype)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (rows[i],) = torch.autograd.grad(
                y, x, v.view(y.shape), retain_graph=True, allow_unused=True, materialize_grads=True
            )
    return rows.reshape(*y.shape, *x.shape)


# %% wrong: repeats x as a batch
# says: Your code called fn with a tensor of shape
# earns: 0 of 2
def jacobian(fn, x):
    size = fn(x.detach()).numel()
    batch = x.detach().repeat(size, *[1] * x.dim()).requires_grad_()
    y = fn(batch)
    return torch.autograd.grad(y, batch, torch.eye(size))[0]


# %% wrong: returns a sparse matrix
# says: Return an ordinary tensor, not a sparse one.
# earns: 0 of 2
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = x.new_zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (row,) = torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)
            rows[i] = row
    return rows.view(y.shape + x.shape).to_sparse()


# %% wrong: rounds the derivatives to two digits
# says: The derivatives are wrong for
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    y = fn(x)
    rows = x.new_zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (row,) = torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, materialize_grads=True)
            rows[i] = row
    return rows.view(y.shape + x.shape).round(decimals=2)


# %% wrong: empties its own leaf, which has the memory of x
# says: The values of x were changed.
# earns: 1 of 2
def jacobian(fn, x):
    own = x.detach().requires_grad_()
    y = fn(own)
    rows = x.new_zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (row,) = torch.autograd.grad(y, own, v.view(y.shape), retain_graph=True, materialize_grads=True)
            rows[i] = row
    with torch.no_grad():
        own.zero_()
    return rows.view(y.shape + x.shape)


# %% wrong: switches recording off for the copy of the rows, and not on again
# says: Gradient recording was switched off and not on again.
# earns: 1 of 2
def jacobian(fn, x):
    own = x.detach().requires_grad_()
    y = fn(own)
    rows = x.new_zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (row,) = torch.autograd.grad(y, own, v.view(y.shape), retain_graph=True, materialize_grads=True)
            torch.set_grad_enabled(False)
            rows[i] = row
    return rows.view(y.shape + x.shape)


# %% wrong: torch.func in a thread
# says: part of your code's work ran where it can't watch
# earns: 0 of 2
def jacobian(fn, x):
    from threading import Thread

    came = []
    thread = Thread(target=lambda: came.append(torch.func.jacrev(fn)(x.detach())))
    thread.start()
    thread.join()
    return came[0].detach()


# %% wrong: torch.func, tried twice
# says: This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.
# earns: 0 of 2
def jacobian(fn, x):
    try:
        torch.func.jacrev(lambda v: v)(x.detach())
    except BaseException:
        pass
    return torch.func.jacrev(fn)(x.detach()).detach()


# %% wrong: torch.func, where nobody looks at calls any more
# says: This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.
# earns: 0 of 2
def jacobian(fn, x):
    sys.setprofile(None)
    return torch.func.jacrev(fn)(x.detach()).detach()


# %% wrong: backward through x frees its graph
# says: The graph that leads to x was freed: x can't be used any more.
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    place = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(place)
    rows = [torch.zeros(x.shape, dtype=x.dtype) for _ in range(y.numel())]
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (row,) = torch.autograd.grad(y, place, v.view(y.shape), retain_graph=True, allow_unused=True)
            rows[i] = rows[i] if row is None else row
    if x.grad_fn is not None:
        leaves = [node.variable for node, _ in x.grad_fn.next_functions if hasattr(node, "variable")]
        if leaves:
            torch.autograd.grad(x, leaves, torch.ones_like(x))
    return torch.stack(rows).view(y.shape + x.shape) if rows else x.new_zeros(y.shape + x.shape)


# %% wrong: freezes the other leaves of the graph, so that backward doesn't fill their .grad
# says: Somebody's requires_grad was changed.
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(x)
    rows = x.new_zeros(y.numel(), *x.shape)
    nodes = [y.grad_fn]
    for node in nodes:
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf is not x:
            leaf.requires_grad_(False)
        nodes += [following for following, _ in getattr(node, "next_functions", ())]
    for i in range(y.numel() if y.requires_grad else 0):
        v = torch.zeros_like(y).flatten()
        v[i] = 1
        x.grad = None
        y.backward(v.view(y.shape), retain_graph=True)
        if x.grad is not None:
            rows[i] = x.grad
    return rows.view(y.shape + x.shape)


# %% wrong: a detour through float64
# says: Your code called fn with a tensor of torch.float64, and x has torch.float32.
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    own = x.detach().double().requires_grad_()
    y = fn(own)
    rows = torch.zeros(y.numel(), *x.shape, dtype=torch.float64)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            rows[i] = torch.autograd.grad(y, own, v.view(y.shape), retain_graph=True, materialize_grads=True)[0]
    return rows.view(y.shape + x.shape).to(x.dtype)


# %% wrong: one vector, overwritten for each row
# says: For the identity your rows are all 0
# earns: 1 of 2
# caught: hidden
def jacobian(fn, x):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(x)
    if not y.requires_grad or not y.numel():
        return x.new_zeros(*y.shape, *x.shape)
    rows, flat = [], y.reshape(-1)
    v = torch.zeros_like(flat)
    for i in range(len(flat)):
        v[i] = 1
        (row,) = torch.autograd.grad(flat, x, v, retain_graph=True, materialize_grads=True)
        rows.append(row.reshape(x.shape))
        v[i] = 0
    return torch.stack(rows).reshape(y.shape + x.shape)
