# corners: empty, nan
import math

import torch
import torch.nn.functional as F
from torch import nn


def counted(micro):
    return sum(int((targets != -100).sum()) for _, targets in micro)


def logits_of(model, ids):
    with torch.autocast("cpu", torch.bfloat16):
        return model(ids)


def sum_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")


def clip_of(model, clip):
    return nn.utils.clip_grad_norm_(model.parameters(), clip).item()


def finish(model, optimizer, loss, norm):
    """The last part of a right answer."""
    if math.isfinite(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return loss, norm


def accumulated(model, optimizer, micro, clip, logits_of=logits_of, sum_of=sum_of, part=None):
    """A right answer with parts to replace; part(sum, targets, count, micro) is what a micro-batch adds to the loss."""
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        added = sum_of(logits_of(model, ids), targets)
        added = part(added, targets, count, micro) if part else added / count
        added.backward()
        total += added.item()
    return finish(model, optimizer, total, clip_of(model, clip))


# %% right: counts first, sums divided by the count of all
def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% right: gradients of sums, divided once before clipping
def train_step(model, optimizer, micro, clip):
    count = counted(micro)
    if count == 0:
        raise ValueError("nothing to predict")
    model.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets)
        loss.backward()
        total += loss.item()
    for p in model.parameters():
        p.grad /= count
    return finish(model, optimizer, total / count, clip_of(model, clip))


# %% right: means weighted by their share, empty ones skipped, the norm by hand
def train_step(model, optimizer, micro, clip):
    shares = [int((targets != -100).sum()) for _, targets in micro]
    if sum(shares) == 0:
        raise ValueError("nothing to predict")
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for (ids, targets), n in zip(micro, shares, strict=True):
        if n:
            logits = logits_of(model, ids).float()
            loss = F.cross_entropy(logits.transpose(1, 2), targets) * (n / sum(shares))
            loss.backward()
            total += float(loss)
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in grads))
    if not math.isfinite(norm):
        optimizer.zero_grad()
        return total, norm
    for g in grads:
        g *= min(1.0, clip / norm)
    optimizer.step()
    return total, norm


# %% right: the loss inside autocast, which computes cross_entropy in float32
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum") / count
        loss.backward()
        total += loss.item()
    return finish(model, optimizer, total, clip_of(model, clip))


# %% right: flattens the targets with view
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for ids, targets in micro:
        with torch.autocast(device_type=ids.device.type, dtype=torch.bfloat16):
            logits = model(ids)
            logits = logits.view(-1, logits.size(-1))
            loss = F.cross_entropy(logits, targets.view(-1), ignore_index=-100, reduction="sum") / count
        loss.backward()
        total += loss.item()
    return finish(model, optimizer, total, clip_of(model, clip))


# %% right: ends with the first loss that is nan
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        if loss.isnan():
            optimizer.zero_grad()
            return math.nan, math.nan
        loss.backward()
        total += loss.item()
    return finish(model, optimizer, total, clip_of(model, clip))


# %% wrong: the code as given
# says: Return the mean over all targets, not the last micro-batch's loss.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def train_step(model, optimizer, micro, clip):
    for ids, targets in micro:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / len(micro)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: the mean of means
# says: Every micro-batch counts the same, however many targets it has. Divide summed losses by the number of
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def train_step(model, optimizer, micro, clip):
    def part(added, targets, count, micro):
        return added / max(1, int((targets != -100).sum())) / len(micro)

    return accumulated(model, optimizer, micro, clip, part=part)


# %% wrong: the mean of means in the gradient only
# says: Every micro-batch counts the same, however many targets it has. Divide summed losses by the number of
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        added = sum_of(logits_of(model, ids), targets)
        (added / max(1, int((targets != -100).sum())) / len(micro)).backward()
        total += added.item() / count
    return finish(model, optimizer, total, clip_of(model, clip))


# %% wrong: adds up the means
# says: You add up the means of the micro-batches. Each must count in proportion to its targets.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    def part(added, targets, count, micro):
        return added / max(1, int((targets != -100).sum()))

    return accumulated(model, optimizer, micro, clip, part=part)


# %% wrong: sums, undivided
# says: Your gradient is that of the sum. Divide by the number of targets.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip, part=lambda added, *others: added)


# %% wrong: divides by all positions
# says: Targets of -100 don't count. Divide by the number of the other targets, not by the number of all
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    def part(added, targets, count, micro):
        return added / sum(targets.numel() for _, targets in micro)

    return accumulated(model, optimizer, micro, clip, part=part)


# %% wrong: clips in the loop
# says: You clip after every micro-batch, so the gradients of earlier micro-batches are clipped again and again.
# earns: 1 of 2
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total, norm = 0.0, 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        norm = clip_of(model, clip)
        total += loss.item()
    return finish(model, optimizer, total, norm)


# %% wrong: a step for each micro-batch
# says: Make exactly one optimizer step, after the last micro-batch.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    total = 0.0
    for ids, targets in micro:
        optimizer.zero_grad()
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        norm = clip_of(model, clip)
        optimizer.step()
        total += loss.item()
    return total, norm


# %% wrong: does not clip
# says: The step used a gradient that was not clipped.
# earns: 1 of 2
def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, math.inf)


# %% wrong: no zero_grad
# says: Gradients from before the call were added.
# earns: 1 of 2
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    norm = clip_of(model, clip)
    if math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad()
    return total, norm


# %% wrong: no autocast
# says: The forward pass did not run under bfloat16 autocast.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip, logits_of=lambda model, ids: model(ids))


# %% wrong: the loss of bfloat16 logits
# says: You computed the loss from bfloat16 logits. Leave autocast and call .float() first.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    def low(logits, targets):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")

    return accumulated(model, optimizer, micro, clip, sum_of=low)


# %% wrong: logsumexp of bfloat16 logits under autocast
# says: You computed the loss from bfloat16 logits. Leave autocast and call .float() first.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    def low(logits, targets):
        counts = targets != -100
        picked = logits.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        return ((logits.logsumexp(-1) - picked) * counts).sum()

    return accumulated(model, optimizer, micro, clip, sum_of=low)


# %% wrong: the model in bfloat16
# says: Weights and gradients must always be float32. autocast casts copies, but .bfloat16() casts the weights
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    model.bfloat16()
    try:
        return accumulated(model, optimizer, micro, clip)
    finally:
        model.float()


# %% wrong: all micro-batches at once
# says: Run the model once for each micro-batch, because all of them at once don't fit into memory.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    if not counted(micro):
        raise ValueError("no target")
    micro = [tuple(torch.cat(part) for part in zip(*micro, strict=True))]
    return accumulated(model, optimizer, micro, clip)


# %% wrong: the mean of an empty micro-batch
# says: A micro-batch without any target gives 0/0 = nan, and then everything is nan.
# earns: 1 of 2
# caught: hidden
# corner: empty
def train_step(model, optimizer, micro, clip):
    def part(added, targets, count, micro):
        n = (targets != -100).sum()
        return added / n * (n / count)

    return accumulated(model, optimizer, micro, clip, part=part)


# %% wrong: returns the last loss
# says: Return the mean over all targets, not the last micro-batch's loss.
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    last = []

    def part(added, targets, count, micro):
        last.append((added / max(1, int((targets != -100).sum()))).item())
        return added / count

    _, norm = accumulated(model, optimizer, micro, clip, part=part)
    return last[-1], norm


# %% wrong: the norm after clipping
# says: Return the norm before clipping.
# earns: 1 of 2
def train_step(model, optimizer, micro, clip):
    loss, norm = accumulated(model, optimizer, micro, clip)
    return loss, min(norm, clip)


# %% wrong: tensors
# says: Return two Python floats
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    return tuple(map(torch.tensor, accumulated(model, optimizer, micro, clip)))


# %% wrong: steps with an infinite norm
# says: The norm was not finite, but you took a step or changed the optimizer's state. Check
# earns: 1 of 2
# caught: hidden
# corner: nan
def finish(model, optimizer, loss, norm):
    optimizer.step()
    return loss, norm


def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% wrong: sets the gradients to zero and steps
# says: The norm was not finite, but you took a step or changed the optimizer's state. Check
# earns: 1 of 2
# caught: hidden
# corner: nan
def finish(model, optimizer, loss, norm):
    if not math.isfinite(norm):
        optimizer.zero_grad(set_to_none=False)
    optimizer.step()
    return loss, norm


def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% wrong: looks for inf only
# says: The norm was not finite, but you took a step or changed the optimizer's state. Check
# earns: 1 of 2
# caught: hidden
# corner: nan
def finish(model, optimizer, loss, norm):
    if norm != math.inf:
        optimizer.step()
    else:
        optimizer.zero_grad()
    return loss, norm


def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% wrong: skips, and leaves the gradients
# says: If the step is skipped, the gradients must be cleared.
# earns: 1 of 2
# caught: hidden
def finish(model, optimizer, loss, norm):
    if math.isfinite(norm):
        optimizer.step()
    return loss, norm


def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% wrong: does not ask for targets
# says: If there is no target at all, raise ValueError before anything changes.
# earns: 1 of 2
# caught: hidden
# corner: empty
def counted(micro):
    return max(1, sum(int((targets != -100).sum()) for _, targets in micro))


def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% wrong: asks for targets after zero_grad
# says: If there is no target at all, raise ValueError before anything changes.
# earns: 1 of 2
# caught: hidden
# corner: empty
def train_step(model, optimizer, micro, clip):
    optimizer.zero_grad()
    return accumulated(model, optimizer, micro, clip)


# %% wrong: divides by a count of zero
# says: If there is no target at all, raise ValueError before anything changes.
# earns: 1 of 2
# caught: hidden
# corner: empty
def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip) if counted(micro) else (0.0 / counted(micro), 0.0)


# %% wrong: not isnan
# says: The norm was not finite, but you took a step or changed the optimizer's state. Check
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    count = counted(micro)
    if not count:
        raise ValueError("none")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    norm = clip_of(model, clip)
    if not math.isnan(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total, norm


# %% wrong: judges by the loss
# says: The norm was not finite, but you took a step or changed the optimizer's state. Check
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    count = counted(micro)
    if not count:
        raise ValueError("none")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    norm = clip_of(model, clip)
    if math.isfinite(total):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total, norm


# %% wrong: clip_grad_value
# says: You clipped each element separately, which changes the gradient's direction. Clip its norm.
# earns: 1 of 2
def train_step(model, optimizer, micro, clip):
    count = counted(micro)
    if not count:
        raise ValueError("none")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in model.parameters()))
    nn.utils.clip_grad_value_(model.parameters(), clip)
    if math.isfinite(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total, norm


# %% wrong: clips only the first group
# says: You return the norm of the optimizer's first group of parameters. It must be the norm over all groups,
# says: This check builds on the first one
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    count = counted(micro)
    if not count:
        raise ValueError("none")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], clip).item()
    if math.isfinite(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total, norm


# %% wrong: refuses micro-batches of different sizes
# says: This raised ValueError
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    if len({ids.shape for ids, _ in micro}) > 1:
        raise ValueError("all micro-batches must have one size")
    return accumulated(model, optimizer, micro, clip)


# %% wrong: the mean in bits
# says: The loss is not the mean over all targets.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    loss, norm = accumulated(model, optimizer, micro, clip)
    return loss / math.log(2), norm


# %% wrong: the square of the norm
# says: The norm you return is not that of the gradient of this mean.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def train_step(model, optimizer, micro, clip):
    loss, norm = accumulated(model, optimizer, micro, clip)
    return loss, norm**2


# %% wrong: a norm of 0 where it is not finite
# says: The norm is not finite here. Return it unchanged.
# earns: 1 of 2
# corner: nan
# caught: hidden
def train_step(model, optimizer, micro, clip):
    loss, norm = accumulated(model, optimizer, micro, clip)
    return loss, norm if math.isfinite(norm) else 0.0


# %% wrong: clips, then clips again by hand with the norm from before
# says: The step differs from the step with all micro-batches in one batch.
# earns: 1 of 2
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    norm = clip_of(model, clip)
    for p in model.parameters():
        p.grad *= min(1.0, clip / norm)
    return finish(model, optimizer, total, norm)


# %% wrong: all forward passes first, then one backward
# says: When the model ran on the last of 4 micro-batches, the graphs of 3 earlier ones were still in memory. Run
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    loss = sum(sum_of(logits_of(model, ids), targets) for ids, targets in micro) / count
    optimizer.zero_grad()
    loss.backward()
    return finish(model, optimizer, loss.item(), clip_of(model, clip))


# %% wrong: no step if the loss or the norm is not finite
# says: You made no step, though the norm of the gradient was finite. Only a norm of inf or nan prevents the step,
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    def finish_if_finite(loss, norm):
        return finish(model, optimizer, loss, norm if math.isfinite(loss) else math.nan)

    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    return finish_if_finite(total, clip_of(model, clip))


# %% wrong: no step from a norm of 1000 on
# says: You made no step, though the norm of the gradient was finite. Only a norm of inf or nan prevents the step,
# earns: 1 of 2
# caught: hidden
def finish(model, optimizer, loss, norm):
    if norm < 1e3:
        optimizer.step()
    else:
        optimizer.zero_grad()
    return loss, norm


def train_step(model, optimizer, micro, clip):
    return accumulated(model, optimizer, micro, clip)


# %% wrong: ends with the first gradient that is not finite
# says: For 2 micro-batches, the number of your forward passes was 1. Run the model exactly once
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
        if not all(p.grad.isfinite().all() for p in model.parameters()):
            break
    return finish(model, optimizer, total, clip_of(model, clip))


# %% wrong: empties the list of micro-batches
# says: You changed the list `micro` or its tensors. The caller may need them again
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    def taken():
        while micro:
            yield micro.pop(0)

    if not (count := counted(micro)):
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in taken():
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    return finish(model, optimizer, total, clip_of(model, clip))


# %% wrong: writes zeros over the targets that don't count
# says: You changed the list `micro` or its tensors. The caller may need them again
# earns: 1 of 2
# caught: hidden
def train_step(model, optimizer, micro, clip):
    def sum_of(logits, targets):
        counts = targets != -100
        targets[~counts] = 0
        picked = logits.float().log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        return -picked[counts].sum()

    return accumulated(model, optimizer, micro, clip, sum_of=sum_of)


# %% right: the norm is computed in float64
def train_step(model, optimizer, micro, clip):
    def clip_of(model, clip):
        norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in model.parameters()))
        for p in model.parameters():
            p.grad.mul_(min(1.0, clip / norm))
        return norm

    count = counted(micro)
    if count == 0:
        raise ValueError("no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        loss = sum_of(logits_of(model, ids), targets) / count
        loss.backward()
        total += loss.item()
    return finish(model, optimizer, total, clip_of(model, clip))
