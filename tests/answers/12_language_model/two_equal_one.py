import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# corners: beyond 2**24, members, second name, empty


def total_of(count):
    counts = torch.tensor(count)
    dist.all_reduce(counts)
    return int(counts)


def summed(parameter):
    grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
    dist.all_reduce(grad)
    return grad.detach()


def trainable(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


# %% right: one all_reduce per parameter, count reduced too
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total


# %% right: one collective, gradients and count in one float64 vector
@torch.no_grad()
def sync_gradients(model, count):
    params = trainable(model)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    both = torch.cat([g.double().flatten() for g in grads] + [torch.tensor([count], dtype=torch.float64)])
    dist.all_reduce(both)
    total = int(both[-1].item())
    for p, part in zip(params, both[:-1].split([p.numel() for p in params]), strict=True):
        p.grad = (part / max(total, 1)).view_as(p).to(p.dtype)
    return total


# %% right: all_gather and a sum in rank order
def sync_gradients(model, count):
    world = dist.get_world_size()
    counts = [None] * world
    dist.all_gather_object(counts, count)
    for p in trainable(model):
        every = [torch.empty(p.shape) for _ in range(world)]
        dist.all_gather(every, torch.zeros(p.shape) if p.grad is None else p.grad)
        p.grad = sum(every) / (sum(counts) or 1)
    return sum(counts)


# %% right: weights each rank's gradient before the sum, asynchronously, from the last parameter to the first
def sync_gradients(model, count):
    total, work = total_of(count), []
    for p in reversed(trainable(model)):
        p.grad = p.grad / total if total and p.grad is not None else torch.zeros_like(p)
        work.append(dist.all_reduce(p.grad, op=dist.ReduceOp.SUM, async_op=True))
    for one in work:
        one.wait()
    return total


# %% right: reduced to rank 0, divided there, sent to the others
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.reduce(grad, 0)
        if dist.get_rank() == 0 and total:
            grad.div_(total)
        dist.broadcast(grad, 0)
        p.grad = grad.detach()
    return total


# %% wrong: divided by the world size
# says: You divided the gradient by the number of ranks. Divide it by the number of all targets.
# earns: 0 of 1
# lesson
def sync_gradients(model, count):
    for p in trainable(model):
        p.grad = summed(p) / dist.get_world_size()
    return total_of(count)


# %% wrong: mean of local means
# says: You divided by the local count before summing, so every rank counts the same, however many targets it
# earns: 0 of 1
# lesson
def sync_gradients(model, count):
    for p in trainable(model):
        if p.grad is not None:
            p.grad /= max(count, 1)
        p.grad = summed(p) / dist.get_world_size()
    return total_of(count)


# %% wrong: sum of local means
# says: You divided by the local count before summing, so every rank counts the same, however many targets it
# earns: 0 of 1
# lesson
def sync_gradients(model, count):
    for p in trainable(model):
        if p.grad is not None:
            p.grad /= max(count, 1)
        p.grad = summed(p)
    return total_of(count)


# %% wrong: sum only
# says: You summed the gradients but didn't divide them by the total count.
# earns: 0 of 1
def sync_gradients(model, count):
    for p in trainable(model):
        p.grad = summed(p)
    return total_of(count)


# %% wrong: the mean over ranks of the sum over targets
# says: Your gradient is too small, because you divide it by the number of targets and by the number of ranks.
# earns: 0 of 1
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1) / dist.get_world_size()
    return total


# %% wrong: the sum divided by its own count
# says: You divided by the rank's own count, but the sum is over the targets of all ranks.
# earns: 0 of 1
def sync_gradients(model, count):
    for p in trainable(model):
        p.grad = summed(p) / max(count, 1)
    return total_of(count)


# %% wrong: skips parameters without gradient
# says: A rank without a gradient skipped a collective, so the others wait for it or are matched with a
# earns: 0 of 1
# caught: hidden
# corner: empty
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= max(total, 1)
    return total


# %% wrong: takes part, but writes only where a gradient was
# says: A rank without a gradient still has none afterwards. It must get the sum of the others'.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        grad = summed(p)
        if p.grad is not None:
            p.grad = grad / max(total, 1)
    return total


# %% wrong: None where no rank has a gradient
# says: has no gradient on some rank. If no rank has a gradient, it must be zeros.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        used = total_of(int(p.grad is not None))
        grad = summed(p)
        p.grad = grad / max(total, 1) if used else None
    return total


# %% wrong: does not expect None
# says: A gradient can be None, because a rank may not have used the parameter.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = p.grad.clone()
        dist.all_reduce(p.grad)
        p.grad /= max(total, 1)
    return total


# %% wrong: a rank without targets goes away
# says: A rank without a gradient skipped a collective, so the others wait for it or are matched with a
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    if count == 0:
        return 0
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / total
    return total


# %% wrong: returns its own count
# says: The returned total must be that of all ranks, and the same on each.
# earns: 0 of 1
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return count


# %% wrong: returns a tensor
# says: The total must be an int.
# earns: 0 of 1
def sync_gradients(model, count):
    total = torch.tensor(total_of(count))
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: returns a float
# says: The total must be an int.
# earns: 0 of 1
def sync_gradients(model, count):
    total = float(total_of(count))
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: divides by a total of 0
# says: If there is no target at all, the gradients must be zero, not NaN.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / total
    return total


# %% wrong: divides 1 by a total of 0
# says: If there is no target at all, the total is 0. Don't divide by it.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    weight = 1 / total
    for p in trainable(model):
        p.grad = summed(p) * weight
    return total


# %% wrong: gives frozen parameters zeros
# says: Frozen parameters must keep .grad None.
# earns: 0 of 1
# corner: members
def sync_gradients(model, count):
    total = total_of(count)
    for p in model.parameters():
        p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: each module's parameters, the tied one twice
# says: You summed or divided the gradient of a tied parameter twice. It is one parameter.
# earns: 0 of 1
# corner: second name
def sync_gradients(model, count):
    total = total_of(count)
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if p.requires_grad:
                p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: counts in float32
# says: The counts went through floats that can't represent them. Sum them as int64.
# earns: 0 of 1
# caught: hidden
# corner: beyond 2**24
def sync_gradients(model, count):
    counts = torch.tensor(float(count))
    dist.all_reduce(counts)
    total = int(counts.item())
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: nothing is exchanged
# says: The gradients are still those of each rank alone, because nothing was exchanged.
# earns: 0 of 1
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad / max(total, 1)
    return total


# %% wrong: DistributedDataParallel
# says: Use only collectives, without DistributedDataParallel.
# earns: 0 of 1
def sync_gradients(model, count):
    DistributedDataParallel(model)
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: moves the weights too
# says: Your code changed a parameter. Change only gradients.
# earns: 0 of 1
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
        p.data -= 0.01 * p.grad
    return total


# %% wrong: two ranks for ever
# says: is not the gradient of the mean over all targets.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        both = [torch.zeros_like(p), torch.zeros_like(p)]
        if dist.get_rank() < 2:
            both[dist.get_rank()] = torch.zeros_like(p) if p.grad is None else p.grad
        for rank, part in enumerate(both[: dist.get_world_size()]):
            dist.broadcast(part, rank)
        p.grad = (both[0] + both[1]) / max(total, 1)
    return total


# %% wrong: divides by two at least
# says: is not the gradient of the mean over all targets.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 2)
    return total


# %% wrong: counts as int32
# says: The counts were summed as int32, which ends at 2147483647. The total of 2500003011 is beyond that, so it
# earns: 0 of 1
# caught: hidden
# corner: beyond 2**24
def sync_gradients(model, count):
    counts = torch.IntTensor([count])
    dist.all_reduce(counts)
    total = int(counts)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total


# %% wrong: gradients divided by the float total, the total as int32
# says: The counts were summed as int32, which ends at 2147483647. The total of 2500003011 is beyond that, so it
# earns: 0 of 1
# caught: hidden
# corner: beyond 2**24
def sync_gradients(model, count):
    counts = torch.tensor([count], dtype=torch.int32)
    dist.all_reduce(counts)
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return int(counts)


# %% wrong: a process that is alone has nothing to do
# says: With one rank alone the gradient is still the sum over its 2 targets. Divide it by their number there, too.
# earns: 0 of 1
# caught: hidden
def sync_gradients(model, count):
    if dist.get_world_size() == 1:
        return count
    total = total_of(count)
    for p in trainable(model):
        p.grad = summed(p) / max(total, 1)
    return total
