import contextlib

import numpy as np
import torch
import torch.distributed as dist

# corners: caller's modes, empty


# %% right: the with-block around all but the last, the last one outside
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    *first, last = micro_batches if micro_batches else _none()
    optimizer.zero_grad()
    losses = []
    with ddp.no_sync():
        for x, y in first:
            loss = loss_fn(ddp(x), y)
            (loss / len(micro_batches)).backward()
            losses.append(loss.detach())
    loss = loss_fn(ddp(last[0]), last[1])
    (loss / len(micro_batches)).backward()
    losses.append(loss.detach())
    optimizer.step()
    return float(sum(losses) / len(losses))


def _none():
    raise ValueError("no micro-batches")


# %% right: sets require_backward_grad_sync by hand and restores it
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    n = len(micro_batches)
    if n == 0:
        raise ValueError("empty")
    optimizer.zero_grad(set_to_none=False)
    total = 0.0
    try:
        for i in range(n):
            ddp.require_backward_grad_sync = i == n - 1
            x, y = micro_batches[i]
            loss = loss_fn(ddp(x), y)
            loss.backward()
            total += loss.item() / n
    finally:
        ddp.require_backward_grad_sync = True
    for p in ddp.parameters():
        p.grad /= n
    optimizer.step()
    return total


# %% right: an ExitStack
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if len(micro_batches) == 0:
        raise ValueError("nothing to do")
    for p in ddp.parameters():
        p.grad = None
    losses = []
    for k, (x, y) in enumerate(micro_batches):
        with contextlib.ExitStack() as stack:
            if k + 1 < len(micro_batches):
                stack.enter_context(ddp.no_sync())
            losses.append(loss_fn(ddp(x), y) / len(micro_batches))
            losses[-1].backward()
    optimizer.step()
    return sum(loss.item() for loss in losses)


# %% wrong: sets require_backward_grad_sync by hand and never restores it
# says: After your step DDP no longer synchronises, because you didn't restore its no_sync setting.
# earns: 1 of 2
# caught: hidden
# corner: caller's modes
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        ddp.require_backward_grad_sync = i == n - 1
        loss = loss_fn(ddp(x), y) / n
        loss.backward()
        total += loss.item()
    ddp.require_backward_grad_sync = False
    optimizer.step()
    return total


# %% wrong: no no_sync at all
# says: You synchronised the gradients for every micro-batch. That is correct, but with k micro-batches it is k
# earns: 0 of 2
# lesson
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(ddp(x), y) / len(micro_batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: no_sync around backward only
# says: You synchronised the gradients for every micro-batch. That is correct, but with k micro-batches it is k
# earns: 0 of 2
# lesson
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        loss = loss_fn(ddp(x), y) / n
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: no_sync around everything
# says: The gradients were never synchronised, so the ranks drift apart. Either the last micro-batch also ran
# earns: 0 of 2
# lesson
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total = 0.0
    with ddp.no_sync():
        for x, y in micro_batches:
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
            total += loss.item()
    optimizer.step()
    return total


# %% wrong: calls ddp.module
# says: The gradients were never synchronised, so the ranks drift apart. Either the last micro-batch also ran
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(ddp.module(x), y) / len(micro_batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: ddp.module for all but the last
# says: The ranks have different weights afterwards.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        if i == n - 1:
            kept = [p.grad for p in ddp.parameters()]
            optimizer.zero_grad()
        loss = loss_fn(ddp(x) if i == n - 1 else ddp.module(x), y) / n
        loss.backward()
        total += loss.item()
    for p, grad in zip(ddp.parameters(), kept, strict=True):
        p.grad = p.grad if grad is None else p.grad + grad
    optimizer.step()
    return total


# %% wrong: losses not divided
# says: With k micro-batches your step is k times too large. Divide each loss by the number of micro-batches.
# earns: 0 of 2
# lesson
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total / n


# %% wrong: the targets before the outputs
# says: You called loss_fn with the targets first. It takes the outputs, then the targets.
# says: The weights differ from those of training on all ranks' data at once.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    losses = []
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss = loss_fn(y, ddp(x))
            (loss / len(micro_batches)).backward()
        losses.append(loss.item())
    optimizer.step()
    return sum(losses) / len(losses)


# %% wrong: no zero_grad
# says: Gradients from before the call were added. Call zero_grad first.
# earns: 1 of 2
# caught: hidden
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: zero_grad after the step only
# says: Gradients from before the call were added. Call zero_grad first.
# earns: 1 of 2
# caught: hidden
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    return total


# %% wrong: steps after each micro-batch
# says: The optimizer stepped once for each micro-batch.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    total = 0.0
    for x, y in micro_batches:
        optimizer.zero_grad()
        loss = loss_fn(ddp(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() / len(micro_batches)
    return total


# %% wrong: never steps
# says: The optimizer never stepped.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total += loss.item()
    return total


# %% wrong: returns 0.0 for no micro-batches
# says: If there are no micro-batches, raise ValueError.
# earns: 1 of 2
# caught: hidden
# corner: empty
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        return 0.0
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: no micro-batches raise IndexError
# says: If there are no micro-batches, raise ValueError.
# earns: 1 of 2
# caught: hidden
# corner: empty
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    *first, last = list(micro_batches)[:-1] + [micro_batches[-1]]
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate([*first, last]):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: returns the last loss
# says: Return the mean of this rank's micro-batch losses as a float.
# earns: 1 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    n = len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y)
            (loss / n).backward()
    optimizer.step()
    return loss.item()


# %% wrong: returns a tensor
# says: Return the mean of this rank's micro-batch losses as a float.
# earns: 1 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


# %% right: a closure for the optimizer
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")

    def closure():
        optimizer.zero_grad()
        total, n = 0.0, len(micro_batches)
        for i, (x, y) in enumerate(micro_batches):
            with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
                loss = loss_fn(ddp(x), y) / n
                loss.backward()
            total += loss.item()
        return total

    return optimizer.step(closure)


# %% wrong: no backward
# says: No backward pass ran.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    total = sum(loss_fn(ddp(x), y).item() for x, y in micro_batches)
    optimizer.step()
    return total / len(micro_batches)


# %% wrong: only rank 0 works
# says: A rank waits in a backward or a collective that the other rank never reaches. All ranks must make the
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    if dist.get_rank():
        return 0.0
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(ddp(x), y) / len(micro_batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: all micro-batches in one
# says: You ran several forwards before a backward, so their activations fill the memory together. Call backward
# earns: 1 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    xs, ys = zip(*micro_batches, strict=True)
    optimizer.zero_grad()
    loss = loss_fn(ddp(torch.cat(xs)), torch.cat(ys))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: one backward of the summed losses
# says: You ran several forwards before a backward, so their activations fill the memory together. Call backward
# earns: 1 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    loss = sum(loss_fn(ddp(x), y) for x, y in micro_batches) / len(micro_batches)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: returns the mean over all ranks
# says: You return the mean over all ranks. Return the mean of this rank's own losses.
# earns: 1 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError
    optimizer.zero_grad()
    total, n = torch.zeros(()), len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        with contextlib.nullcontext() if i == n - 1 else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / n
            loss.backward()
        total += loss.detach()
    optimizer.step()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


# %% right: the bare model for the silent ones
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    total, n = 0.0, len(micro_batches)
    for i, (x, y) in enumerate(micro_batches):
        loss = loss_fn((ddp if i == n - 1 else ddp.module)(x), y) / n
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: five steps for each call
# says: The optimizer must step exactly once per call.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    for _ in range(5):
        optimizer.step()
    return total


# %% wrong: clips the gradients
# says: The weights differ from those of training on all ranks' data at once.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_value_(ddp.parameters(), 1e-3)
    optimizer.step()
    return total


# %% wrong: synchronises the first and the last micro-batch
# says: You synchronised the gradients more than once per call.
# says: You synchronised the gradients for every micro-batch.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number in (1, len(micro_batches)) else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: steps without micro-batches
# says: Without micro-batches the optimizer must not step.
# earns: 1 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = 0.0
    try:
        if not micro_batches:
            raise ValueError("no micro-batches")
        for number, (x, y) in enumerate(micro_batches, 1):
            with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
                loss = loss_fn(ddp(x), y) / len(micro_batches)
                loss.backward()
            total += loss.item()
    finally:
        optimizer.step()
    return total


# %% wrong: clips the gradients
# says: Small gradients give the right step, and large ones too small a one.
# earns: 1 of 2
# caught: hidden
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
    optimizer.step()
    return total


# %% wrong: one all_reduce by hand
# says: The weights are right, but you averaged the gradients by yourself.
# earns: 0 of 2
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if not micro_batches:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    total = 0.0
    with ddp.no_sync():
        for x, y in micro_batches:
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
            total += loss.item()
    for p in ddp.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
    return total


# %% right: NumPy's mean of the losses
def ddp_step(ddp, optimizer, loss_fn, micro_batches):
    if len(micro_batches) == 0:
        raise ValueError("no micro-batches")
    optimizer.zero_grad()
    losses = []
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss = loss_fn(ddp(x), y)
            (loss / len(micro_batches)).backward()
        losses.append(loss.item())
    optimizer.step()
    return np.mean(losses)
