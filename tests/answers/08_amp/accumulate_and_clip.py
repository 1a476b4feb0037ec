# corners: nan


def groups_of(micro_batches, accum):
    return [micro_batches[k : k + accum] for k in range(0, len(micro_batches), accum)]


def clip(model, max_norm):
    return nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


# %% right: one loop with a counter, the size of each group computed beforehand
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms, total = [], len(micro_batches)
    optimizer.zero_grad(set_to_none=False)
    for i, (x, y) in enumerate(micro_batches):
        size = min(accum, total - i // accum * accum)
        with autocast():
            loss = loss_fn(model(x), y) / size
        scaler.scale(loss).backward()
        if (i + 1) % accum == 0 or i + 1 == total:
            scaler.unscale_(optimizer)
            norms.append(clip(model, max_norm))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return norms


# %% right: sums scaled losses, divides the unscaled gradients by the group's size, clips by hand
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        model.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        grads = [p.grad for p in model.parameters()]
        torch._foreach_div_(grads, len(group))
        norm = torch.stack([g.norm() for g in grads]).norm().item()
        if norm > max_norm:
            torch._foreach_mul_(grads, max_norm / norm)
        norms.append(norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% right: one backward for the mean of the losses of a group
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(list(micro_batches), accum):
        for p in model.parameters():
            p.grad = None
        with autocast():
            losses = [loss_fn(model(x), y) for x, y in group]
        scaler.scale(torch.stack(losses).mean()).backward()
        scaler.unscale_(optimizer)
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% right: measures and clips the scaled gradients in the scaled unit
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        scale = scaler.get_scale()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        norms.append(clip(model, max_norm * scale) / scale)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: the given code
# says: You clipped SCALED gradients
# says: unscale_ first.
# earns: 0 of 2
# lesson
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for i, (x, y) in enumerate(micro_batches):
        with autocast():
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        if (i + 1) % accum == 0:
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return norms


# %% wrong: the given code to the letter
# says: unscale_ may be called once per optimizer between updates: do it after the last micro-batch of the group.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for i, (x, y) in enumerate(micro_batches):
        with autocast():
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.unscale_(optimizer)
        if (i + 1) % accum == 0:
            scaler.step(optimizer)
            optimizer.zero_grad()
    scaler.update()
    return norms


# %% wrong: clips before unscaling
# says: You clipped SCALED gradients: with scale 65536 the clipped step is about 65536 times too small
# earns: 0 of 2
# lesson
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: clips scaled gradients, divides only the returned norm by the scale
# says: The first norm is right, but the step is about 65536 times too small: either you clipped SCALED gradients
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        norms.append(clip(model, max_norm) / scaler.get_scale())
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: unscale_ in every micro-batch
# says: unscale_ may be called once per optimizer between updates: do it after the last micro-batch of the group.
# earns: 0 of 2
# lesson
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
            scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: does not divide the loss
# says: The gradient is the sum over the group, not the mean
# earns: 0 of 2
# lesson
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: drops the incomplete group
# says: The last, shorter group was dropped, or divided by accum instead of its own size.
# earns: 1 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches):
        with autocast():
            loss = loss_fn(model(x), y) / accum
        scaler.scale(loss).backward()
        if (i + 1) % accum == 0:
            scaler.unscale_(optimizer)
            norms.append(clip(model, max_norm))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return norms


# %% wrong: divides the last group by accum
# says: The last, shorter group was dropped, or divided by accum instead of its own size.
# earns: 1 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / accum).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: clips after each micro-batch
# says: measured after clipping, or each micro-batch was clipped already.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        scale = scaler.get_scale()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
            clip(model, max_norm * scale) / scale
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: one norm for each micro-batch
# says: Return one number per step, not one per micro-batch: clip once, when the group is complete.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        scale = scaler.get_scale()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
            norms.append(clip(model, max_norm * scale) / scale)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: steps after each micro-batch
# says: There must be one step per group, not one per micro-batch.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for x, y in micro_batches:
        optimizer.zero_grad()
        with autocast():
            loss = loss_fn(model(x), y)
        scaler.scale(loss / accum).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: one update at the very end
# says: unscale_ was called after a step, with no update in between
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
    scaler.update()
    return norms


# %% wrong: no update, unscales by hand
# says: scaler.update() belongs after every step
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        scale = scaler.get_scale()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        norms.append(clip(model, max_norm * scale) / scale)
        scaler.step(optimizer)
    return norms


# %% wrong: never zeroes gradients
# says: Gradients from before the call (or from the previous group) leaked in: zero_grad at the start of each group.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: zeroes only after each step
# says: Gradients from before the call (or from the previous group) leaked in: zero_grad at the start of each group.
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return norms


# %% wrong: zeroes once, at the start
# says: Gradients from before the call (or from the previous group) leaked in
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    optimizer.zero_grad()
    for group in groups_of(micro_batches, accum):
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: returns the norm after clipping
# says: the unscaled norm BEFORE clipping. Yours equal max_norm
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        clip(model, max_norm)
        norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: optimizer.step() in place of scaler.step
# says: An overflowing group must be skipped by scaler.step and must not end the run or touch the weights.
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        optimizer.step()
        scaler.update()
    return norms


# %% wrong: gives up when a norm is not finite
# says: An overflowing group must be skipped by scaler.step and must not end the run or touch the weights.
# earns: 1 of 2
# corner: nan
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm, error_if_nonfinite=True).item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: leaves out a group that overflows, update included
# says: After one overflow the scale must have been halved, once.
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        scale = scaler.get_scale()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        norms.append(clip(model, max_norm * scale) / scale)
        if math.isfinite(norms[-1]):
            scaler.step(optimizer)
            scaler.update()
    return norms


# %% wrong: ignores autocast
# says: The forward pass and the loss must run under autocast().
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            scaler.scale(loss_fn(model(x), y) / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: the loss outside the region
# says: The forward pass and the loss must run under autocast().
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                out = model(x)
            scaler.scale(loss_fn(out, y) / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: ignores the scaler
# says: After one overflow the scale must have been halved, once.
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            (loss / len(group)).backward()
        norms.append(clip(model, max_norm))
        if math.isfinite(norms[-1]):
            optimizer.step()
    return norms


# %% wrong: returns nothing
# says: Nothing came back (None): is a `return` missing? Return the list of norms.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        clip(model, max_norm)
        scaler.step(optimizer)
        scaler.update()


# %% wrong: returns tensors
# says: The norms must be Python floats; some are of type Tensor.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% right: one forward for the whole group, which is the mean since all pieces have one size
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad(set_to_none=False)
        with autocast():
            loss = loss_fn(model(torch.cat([x for x, _ in group])), torch.cat([y for _, y in group]))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: clips after the step
# says: The step was taken with gradients that were not clipped: clip after unscale_ and before step.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        norms.append(clip(model, max_norm))
        scaler.update()
    return norms


# %% wrong: unscale_ after step
# says: unscale_ was called after a step, with no update in between: unscale_ belongs before the step
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.step(optimizer)
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.update()
    return norms


# %% wrong: update twice
# says: `update` found no step in this iteration
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
        scaler.update()
    return norms


# %% wrong: makes every gradient as long as max_norm
# says: The norms are not those of plain float32 training.
# earns: 1 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        for p in model.parameters():
            p.grad *= max_norm / (norm + 1e-6)
        norms.append(norm.item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: clips the optimizer's first group
# says: You clipped only the first parameter group of the optimizer: the norm is that of all
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: clip_grad_value_
# says: You clipped each number of the gradient; clip its norm, so that the direction stays.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, math.inf))
        nn.utils.clip_grad_value_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: zero_grad after the loss was scaled
# says: Only the last micro-batch of a group counts: zero_grad belongs before the group, not before each of
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        for x, y in group:
            optimizer.zero_grad()
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: the largest norm
# says: Return a list of floats, not a value of type
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    return max(norms_of(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast))


def norms_of(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: only the last norm
# says: The list must hold one number per step, here
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    return norms_of(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast)[-1:]


def norms_of(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: puts the weights back
# says: The weights did not move: no step was made.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    before = [p.detach().clone() for p in model.parameters()]
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    with torch.no_grad():
        for p, old in zip(model.parameters(), before):
            p.copy_(old)
    return norms


# %% wrong: a norm of 0 for a group that overflows
# says: The norm of a group that overflows is inf or nan.
# earns: 1 of 2
# corner: nan
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = clip(model, max_norm)
        norms.append(norm if norm < float("inf") else 0.0)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: targets and outputs exchanged in the loss
# says: Your code raised RuntimeError: element 0 of tensors does not require g
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(y, model(x)) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: clips the scaled gradients after each micro-batch
# says: And return one number per step.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
            norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: steps when the next group begins, so that the last group makes no step
# says: The norms are right, but the weights are not those of plain float32 training.
# says: The last, shorter group was dropped, or divided by accum instead of its own size.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        if norms:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
    return norms


# %% wrong: one more step for a last group that isn't there
# says: There must be one step per group; there were
# earns: 1 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(clip(model, max_norm))
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()
    optimizer.step()
    return norms


# %% wrong: divides each norm by the scale of the beginning
# says: The group that does not overflow has the wrong norm.
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms, scale = [], scaler.get_scale()
    for group in groups_of(micro_batches, accum):
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        norms.append(clip(model, float("inf")) / scale)
        scaler.unscale_(optimizer)
        clip(model, max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% right: clips what the optimizer has
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms, owned = [], [p for group in optimizer.param_groups for p in group["params"]]
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(owned, max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: unscales by hand, and scaler.step does so again
# says: you divided them by the scale yourself and scaler.step did so again
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        for p in model.parameters():
            p.grad.mul_(1 / scaler.get_scale())
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: one region around all groups
# says: A later forward used the weights of before the step
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    with autocast():
        for start in range(0, len(micro_batches), accum):
            group = micro_batches[start : start + accum]
            optimizer.zero_grad()
            for x, y in group:
                scaler.scale(loss_fn(model(x), y) / len(group)).backward()
            scaler.unscale_(optimizer)
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
            scaler.step(optimizer)
            scaler.update()
    return norms


# %% wrong: one context manager for all forward passes
# says: You entered twice what one call of autocast() returned
# earns: 1 of 2
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    region = autocast()
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with region:
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: each tensor by its own norm
# says: Each tensor was clipped by its own norm.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
        for p in model.parameters():
            nn.utils.clip_grad_norm_(p, max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: each parameter group by its own norm
# says: Each parameter group of the optimizer was clipped by its own norm.
# earns: 0 of 2
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        parts = [nn.utils.clip_grad_norm_(group["params"], max_norm) for group in optimizer.param_groups]
        norms.append(torch.stack(parts).norm().item())
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: a factor in Python floats, which divides by 0
# says: The gradient of the first group is 0, and you divided by its norm.
# earns: 1 of 2
# corner: nan
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        grads = [p.grad for p in model.parameters()]
        norm = math.sqrt(sum(grad.double().square().sum().item() for grad in grads))
        factor = min(1.0, max_norm / norm)
        for grad in grads:
            grad.mul_(factor)
        norms.append(norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# %% wrong: divides the gradients by a norm that may be 0
# says: The gradient of the first group is 0, and you divided by its norm.
# earns: 1 of 2
# corner: nan
# caught: hidden
def train_accumulated(model, optimizer, scaler, micro_batches, accum, max_norm, loss_fn, autocast):
    norms = []
    for start in range(0, len(micro_batches), accum):
        group = micro_batches[start : start + accum]
        optimizer.zero_grad()
        for x, y in group:
            with autocast():
                loss = loss_fn(model(x), y)
            scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        grads = [p.grad for p in model.parameters()]
        norm = nn.utils.get_total_norm(grads)
        for grad in grads:
            grad.copy_(grad / norm * norm.clamp(max=max_norm))
        norms.append(norm.item())
        scaler.step(optimizer)
        scaler.update()
    return norms
