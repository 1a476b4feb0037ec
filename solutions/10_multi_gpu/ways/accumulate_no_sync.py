# %% right: the bare model for all but the last
# `ddp.module` adds gradients to the same parameters, and DDP is only called for the last micro-batch, whose backward
# sends the sums. Forward hooks on `ddp` also run for the last micro-batch only, where `no_sync` runs them for all.
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    """One step, in which DDP takes part in the last micro-batch only."""
    if not micro_batches:
        raise ValueError("no micro-batches: there is nothing to learn from")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, start=1):
        model = ddp if number == len(micro_batches) else ddp.module
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: no_sync around backward only
# says: You synchronised the gradients for every micro-batch.
# DDP decides in forward whether the following backward will synchronise, so forward must also be inside.
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    """One step, with a synchronisation for each micro-batch."""
    if not micro_batches:
        raise ValueError("no micro-batches: there is nothing to learn from")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, start=1):
        is_last = number == len(micro_batches)
        loss = loss_fn(ddp(x), y) / len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total
