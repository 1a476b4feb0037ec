# corners: nan

import contextlib


def together(grads):
    return sum(g.square().sum() for g in grads).sqrt()


def step_of(
    model,
    optimizer,
    scaler,
    x,
    y,
    lam,
    autocast,
    first=None,
    unscale=None,
    norm=together,
    total=None,
    finish=None,
    zero=True,
    returned=None,
):
    """A right answer with parts to replace."""
    if zero:
        optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    parameters = list(model.parameters())
    if first:
        grads = first(mse, parameters)
    else:
        grads = torch.autograd.grad(scaler.scale(mse), parameters, create_graph=True)
    grads = unscale(grads) if unscale else [g / scaler.get_scale() for g in grads]
    with autocast():
        length = norm(grads)
        loss = total(mse, length) if total else mse + lam * length
    if finish:
        finish(loss)
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return returned(mse, length, loss) if returned else (mse.item(), length.item())


# %% right: multiplies by the inverse scale, the norm of one concatenated vector
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad(set_to_none=False)
    with autocast():
        loss = F.mse_loss(model(x), y)
    grads = torch.autograd.grad(outputs=scaler.scale(loss), inputs=tuple(model.parameters()), create_graph=True)
    inverse = 1.0 / scaler.get_scale()
    with autocast():
        norm = torch.linalg.vector_norm(nn.utils.parameters_to_vector(grads) * inverse)
        total = loss + lam * norm
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return float(loss), float(norm)


# %% right: passes the scale as grad_outputs in place of scaling the loss
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    with autocast():
        out = model(x)
        loss = (out - y).square().mean()
    scale = scaler.get_scale()
    grads = torch.autograd.grad(loss, model.parameters(), torch.full_like(loss, scale), create_graph=True)
    norm = torch.stack([g.norm() for g in grads]).norm() / scale
    optimizer.zero_grad()
    scaler.scale(loss + lam * norm).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return [loss.detach().item(), norm.detach().item()]


# %% right: the two parts of the loss in two backward passes
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    with autocast():
        mse = F.mse_loss(model(x), y)
    parameters = list(model.parameters())
    grads = torch.autograd.grad(scaler.scale(mse), parameters, create_graph=True)
    for p, g in zip(parameters, grads, strict=True):
        p.grad = g.detach().clone()
    norm = together([g / scaler.get_scale() for g in grads])
    scaler.scale(lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% right: the first gradient by a backward pass that records itself
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = None
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = scaler.scale(mse)
    scaled.backward(create_graph=True)
    grads = [p.grad / scaler.get_scale() for p in parameters]
    for p in parameters:
        p.grad = None
    with autocast():
        total = mse + lam * together(grads)
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), together(grads).item()


# %% wrong: forgets to divide by the scale
# says: |g| is 65536 times too large: the gradients from autograd.grad are still scaled. Divide by scaler.get_scale().
# earns: 0 of 2
# lesson
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, autocast, unscale=lambda grads: grads)


# %% wrong: divides by 65536 whatever the scale is
# says: |g|
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, autocast, unscale=lambda grads: [g / 65536 for g in grads])


# %% wrong: create_graph is missing
# says: autograd.grad without create_graph=True returns constants and frees the graph
# earns: 0 of 2
# lesson
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def first(mse, parameters):
        return torch.autograd.grad(scaler.scale(mse), parameters)

    return step_of(model, optimizer, scaler, x, y, lam, autocast, first=first)


# %% wrong: retain_graph in place of create_graph
# says: The penalty has no effect on the update: |g| is a constant there, or is missing.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def first(mse, parameters):
        return torch.autograd.grad(scaler.scale(mse), parameters, retain_graph=True)

    return step_of(model, optimizer, scaler, x, y, lam, autocast, first=first)


# %% wrong: the penalty is detached
# says: The penalty has no effect on the update
# earns: 0 of 2
# lesson
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, autocast, total=lambda mse, norm: mse + lam * norm.item())


# %% wrong: the first gradient from the unscaled loss
# says: The first gradient was taken from the unscaled loss: in float16 it underflows. Scale it, then unscale the result.
# earns: 1 of 2
# lesson
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def first(mse, parameters):
        return torch.autograd.grad(mse, parameters, create_graph=True)

    return step_of(model, optimizer, scaler, x, y, lam, autocast, first=first, unscale=lambda grads: grads)


# %% wrong: unscales a gradient that was never scaled
# says: The scale was divided out twice, or out of a gradient that was never scaled.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def first(mse, parameters):
        return torch.autograd.grad(mse, parameters, create_graph=True)

    return step_of(model, optimizer, scaler, x, y, lam, autocast, first=first)


# %% wrong: sums the norms of the parameters
# says: |g| is the norm over all parameters together: the root of the summed squares
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, autocast, norm=lambda grads: sum(g.norm() for g in grads))


# %% wrong: the squared norm
# says: |g| is the norm over all parameters together: the root of the summed squares
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(
        model, optimizer, scaler, x, y, lam, autocast, norm=lambda grads: sum(g.square().sum() for g in grads)
    )


# %% wrong: the squared norm in the loss, its root returned
# says: the root of the summed squares, not the sum of the norms, nor the square.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, autocast, total=lambda mse, norm: mse + lam * norm.square())


# %% wrong: multiplies the penalty by the scale
# says: The step is far too small or too large: the scale was applied, or divided out, twice or not at all.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(
        model, optimizer, scaler, x, y, lam, autocast, total=lambda mse, norm: mse + lam * scaler.scale(norm)
    )


# %% wrong: the total loss is not scaled before backward
# says: The step is far too small or too large: the scale was applied, or divided out, twice or not at all.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        loss.backward()
        scaler.step(optimizer)
        scaler.update()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% wrong: unscale_ and optimizer.step()
# says: If a gradient is not finite, the optimizer step must be skipped and the scale must shrink.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        optimizer.step()
        scaler.update()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% wrong: skips by hand, the scale stays
# says: The step was skipped, as it must be, but the scale is what it was: scaler.update(), once, after
# earns: 1 of 2
# corner: nan
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        if loss.isfinite():
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% wrong: no zero_grad
# says: Old contents of .grad leaked into the step: call zero_grad first.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, autocast, zero=False)


# %% wrong: no update
# says: belongs at the end of every step
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        if not loss.isfinite():
            scaler.update()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% wrong: autograd.grad inside the region
# says: The forward pass must run under autocast(), and autograd.grad and backward outside of it.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
        grads = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
        norm = together([g / scaler.get_scale() for g in grads])
        total = mse + lam * norm
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% wrong: the last backward inside the region
# says: The forward pass must run under autocast(), and autograd.grad and backward outside of it.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        with autocast():
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% wrong: ignores autocast
# says: The forward pass must run under autocast(), and autograd.grad and backward outside of it.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(model, optimizer, scaler, x, y, lam, contextlib.nullcontext)


# %% wrong: returns the scaled loss
# says: Return (mse, |g|) as unscaled Python floats. Yours is still scaled.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    scale = scaler.get_scale()
    return step_of(
        model,
        optimizer,
        scaler,
        x,
        y,
        lam,
        autocast,
        returned=lambda mse, norm, loss: (scale * mse.item(), norm.item()),
    )


# %% wrong: returns the total loss
# says: The first number must be the mse alone, without the penalty.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(
        model, optimizer, scaler, x, y, lam, autocast, returned=lambda mse, norm, loss: (loss.item(), norm.item())
    )


# %% wrong: returns tensors
# says: Return (mse, |g|) as unscaled Python floats. Yours: Tensor and Tensor.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    return step_of(
        model, optimizer, scaler, x, y, lam, autocast, returned=lambda mse, norm, loss: (mse.detach(), norm.detach())
    )


# %% wrong: returns nothing
# says: Return (mse, |g|) as unscaled Python floats. Yours: nothing came back, is a `return` missing?
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    step_of(model, optimizer, scaler, x, y, lam, autocast)


# %% wrong: never steps
# says: The weights did not move: no step was made.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        scaler.scale(loss).backward()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% right: one backward for each part of the loss
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad(set_to_none=False)
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    norm = sum((g / scaler.get_scale()).square().sum() for g in scaled).sqrt()
    scaler.scale(mse).backward(retain_graph=True)
    scaler.scale(lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% right: the loss and the norm outside of the region
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    with autocast():
        out = model(x)
    mse = F.mse_loss(out.float(), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    norm = torch.cat([g.flatten() for g in scaled]).norm() / scaler.get_scale()
    optimizer.zero_grad()
    scaler.scale(mse + lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return [mse.item(), norm.item()]


# %% wrong: get_total_norm, which runs without grad
# says: The penalty has no effect on the update: |g| is a constant there, or is missing.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    norm = nn.utils.get_total_norm([g / scaler.get_scale() for g in scaled])
    scaler.scale(mse + lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% wrong: unscale_, update, step
# says: then scaler.step, and only then scaler.update.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    norm = torch.cat([(g / scaler.get_scale()).flatten() for g in scaled]).norm()
    scaler.scale(mse + lam * norm).backward()
    scaler.unscale_(optimizer)
    scaler.update()
    scaler.step(optimizer)
    return mse.item(), norm.item()


# %% wrong: the scale written as a number
# says: The returned |g| is wrong.
# earns: 1 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    scale = 65536.0 if scaler.is_enabled() else 1.0
    norm = torch.cat([(g / scale).flatten() for g in scaled]).norm()
    scaler.scale(mse + lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% wrong: no update, and a step that is skipped
# says: The step was skipped, as it must be, but the scale is what it was: scaler.update(), once, after
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        scaler.scale(loss).backward()
        scaler.step(optimizer)

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% wrong: PyTorch's recipe, without zero_grad
# says: Old contents of .grad leaked into the step: call zero_grad first.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    with autocast():
        loss = F.mse_loss(model(x), y)
    scaled_grad_params = torch.autograd.grad(
        outputs=scaler.scale(loss), inputs=list(model.parameters()), create_graph=True
    )
    inv_scale = 1.0 / scaler.get_scale()
    grad_params = [p * inv_scale for p in scaled_grad_params]
    with autocast():
        grad_norm = 0
        for grad in grad_params:
            grad_norm += grad.pow(2).sum()
        grad_norm = grad_norm.sqrt()
        total = loss + lam * grad_norm
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item(), grad_norm.item()


# %% wrong: the first number is the sum of the squares
# says: The first one is wrong
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def returned(mse, length, loss):
        return mse.item() * len(x), length.item()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, returned=returned)


# %% wrong: the first number is still scaled
# says: Yours is still scaled.
# earns: 0 of 2
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    scale = scaler.get_scale()

    def returned(mse, length, loss):
        return mse.item() * scale, length.item()

    return step_of(model, optimizer, scaler, x, y, lam, autocast, returned=returned)


# %% wrong: a step that was skipped halves the scale twice
# says: after one step that was skipped it must be halved, once.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    def finish(loss):
        scale = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < scale:
            scaler.update(scale / 4)

    return step_of(model, optimizer, scaler, x, y, lam, autocast, finish=finish)


# %% right: PyTorch's recipe, with the parameters that the optimizer has
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        loss = F.mse_loss(model(x), y)
    owned = [p for group in optimizer.param_groups for p in group["params"]]
    scaled = torch.autograd.grad(outputs=scaler.scale(loss), inputs=owned, create_graph=True)
    inv_scale = 1.0 / scaler.get_scale()
    with autocast():
        grad_norm = sum((g * inv_scale).pow(2).sum() for g in scaled).sqrt()
        total = loss + lam * grad_norm
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item(), grad_norm.item()


# %% wrong: a root for each parameter
# says: The root of 0 has an infinite slope
# earns: 1 of 2
# corner: nan
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    grads = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    inverse = 1.0 / scaler.get_scale()
    norm = torch.stack([(g * inverse).pow(2).sum().sqrt() for g in grads]).norm()
    scaler.scale(mse + lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% wrong: PyTorch's recipe with 1e-12 under the root
# says: a number that is added to the squares or to the root is no longer small there
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    with autocast():
        loss = F.mse_loss(model(x), y)
    scaled = torch.autograd.grad(outputs=scaler.scale(loss), inputs=model.parameters(), create_graph=True)
    inverse = 1.0 / scaler.get_scale()
    grads = [p * inverse for p in scaled]
    with autocast():
        norm = 0
        for grad in grads:
            norm += grad.pow(2).sum()
        norm = (norm + 1e-12).sqrt()
        total = loss + lam * norm
    optimizer.zero_grad()
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item(), norm.item()


# %% wrong: rounds the norm
# says: For a gradient of about 1e-6 the returned |g| is wrong.
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    grads = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    norm = torch.cat([g.flatten() for g in grads]).norm() / scaler.get_scale()
    scaler.scale(mse + lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), round(norm.item(), 5)


# %% wrong: one context manager for both regions
# says: You entered twice what one call of autocast() returned
# earns: 1 of 2
# caught: hidden
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    region = autocast()
    with region:
        mse = F.mse_loss(model(x), y)
    grads = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    with region:
        norm = torch.cat([g.flatten() for g in grads]).norm() / scaler.get_scale()
    scaler.scale(mse + lam * norm).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()


# %% right: |g| from a product, in the precision of the region
def penalised_step(model, optimizer, scaler, x, y, lam, autocast):
    optimizer.zero_grad()
    with autocast():
        mse = F.mse_loss(model(x), y)
    grads = torch.autograd.grad(scaler.scale(mse), list(model.parameters()), create_graph=True)
    with autocast():
        flat = torch.cat([(g / scaler.get_scale()).flatten() for g in grads])
        norm = (flat @ flat).sqrt().float()
        loss = mse + lam * norm
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return mse.item(), norm.item()
