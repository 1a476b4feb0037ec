import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# corners: beyond 2**24, members


# %% right: one all_reduce per parameter, divided in place
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            p.grad = p.grad.contiguous()
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad.div_(dist.get_world_size())


# %% right: all gradients in one flat tensor
def average_gradients(model):
    params = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in params])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
        p.grad = part.view_as(p).clone()


# %% right: asynchronous, predivided gradients
@torch.no_grad()
def average_gradients(model):
    world = dist.get_world_size()
    work = []
    for p in model.parameters():
        if not p.requires_grad:
            continue
        grad = (torch.zeros_like(p.data) if p.grad is None else p.grad / world).contiguous()
        work.append((p, grad, dist.all_reduce(grad, async_op=True)))
    for p, grad, handle in work:
        handle.wait()
        p.grad = grad


# %% right: gathers everybody's gradients
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            mine = torch.zeros_like(p) if p.grad is None else p.grad.detach().contiguous()
            every = [
                torch.empty_like(mine, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())
            ]
            dist.all_gather(every, mine)
            p.grad = torch.stack(every).mean(0)


# %% wrong: no division
# says: You summed the gradients, because all_reduce adds. Divide by the world size.
# earns: 0 of 2
# lesson
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            p.grad = p.grad.contiguous()
            dist.all_reduce(p.grad)


# %% wrong: divides by 2
# says: You always divide by 2. Use dist.get_world_size().
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            p.grad = p.grad.contiguous()
            dist.all_reduce(p.grad)
            p.grad /= 2


# %% wrong: all_reduce on the parameters
# says: You averaged the parameters, not the gradients.
# earns: 0 of 2
def average_gradients(model):
    with torch.no_grad():
        for p in model.parameters():
            dist.all_reduce(p)
            p /= dist.get_world_size()


# %% wrong: parameters and gradients moved by one step
# says: Your code changed a parameter. Average only gradients.
# earns: 0 of 2
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(grad)
            p.grad = grad / dist.get_world_size()
            p.data -= 0.1 * p.grad


# %% wrong: skips None gradients
# says: A rank skipped the collective for a parameter without a gradient
# earns: 0 of 2
# lesson
def average_gradients(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


# %% wrong: creates gradients for frozen parameters
# says: Frozen parameters must keep .grad None.
# earns: 1 of 2
# corner: members
def average_gradients(model):
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        p.grad = p.grad.contiguous()
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


# %% wrong: wraps the model in DDP
# says: Use only collectives, without DistributedDataParallel.
# earns: 0 of 2
def average_gradients(model):
    DistributedDataParallel(model)


# %% wrong: wraps the model in nn.parallel.DistributedDataParallel
# says: Use only collectives, without DistributedDataParallel.
# earns: 0 of 2
def average_gradients(model):
    nn.parallel.DistributedDataParallel(model)
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


# %% wrong: divides by the number of ranks that had a gradient
# says: A rank without a gradient counts as zeros. Divide by the world size, not by the number of ranks that
# earns: 0 of 2
# lesson
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            count = torch.tensor(float(p.grad is not None))
            grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(count)
            dist.all_reduce(grad)
            p.grad = grad / count.clamp(min=1)


# %% wrong: takes part with zeros but writes the result only where a gradient was
# says: A parameter that was unused on one rank has no gradient there afterwards, so the ranks would drift apart.
# earns: 0 of 2
# lesson
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(grad)
            if p.grad is not None:
                p.grad = grad / dist.get_world_size()


# %% wrong: forgets to store the result
# says: The gradients are still those of each rank alone, because nothing was averaged.
# earns: 0 of 2
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(grad)
            grad /= dist.get_world_size()
            if p.grad is None:
                p.grad = grad


# %% wrong: all_reduce into a non-contiguous gradient's copy
# says: The gradients are still those of each rank alone, because nothing was averaged.
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            whole = p.grad.reshape(-1)
            dist.all_reduce(whole)
            whole /= dist.get_world_size()
            if p.grad.is_contiguous():
                p.grad = whole.view_as(p)


# %% wrong: flattens without undoing the strides
# says: You sent a non-contiguous gradient in memory order, but on another rank the same numbers have a
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            flat = p.grad.t().contiguous().view(-1) if not p.grad.is_contiguous() else p.grad.view(-1)
            dist.all_reduce(flat)
            p.grad = (flat / dist.get_world_size()).view(p.shape)


# %% wrong: everything in float32
# says: The gradients must keep their dtype
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            grad = grad.float()
            dist.all_reduce(grad)
            p.grad = None
            p.data, kept = p.data.float(), p.data
            p.grad = grad / dist.get_world_size()
            if kept.dtype == torch.float32:
                p.data = kept


# %% right: gathers objects, sums in float64, in the other order
def average_gradients(model):
    for p in reversed([p for p in model.parameters() if p.requires_grad]):
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, p.grad)
        total = sum((grad.double() for grad in every if grad is not None), start=torch.zeros_like(p).double())
        p.grad = (total / len(every)).to(p.dtype).detach()


# %% wrong: only the first parameter
# says: The gradients are still those of each rank alone, because nothing was averaged.
# earns: 0 of 2
def average_gradients(model):
    first = next(model.parameters())
    dist.all_reduce(first.grad)
    first.grad /= dist.get_world_size()


# %% wrong: zeros of the default dtype
# says: The ranks passed different amounts of data to one collective. Zeros for a missing gradient need the
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros(p.shape) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(grad)
            p.grad = (grad / dist.get_world_size()).to(p.dtype)


# %% wrong: freezes what was not used
# says: requires_grad must stay as it is on every parameter.
# earns: 0 of 2
def average_gradients(model):
    for p in model.parameters():
        if p.grad is None:
            p.requires_grad_(False)


# %% wrong: only rank 0 averages
# says: A rank skipped the collective for a parameter without a gradient (or skipped more), and the other waits
# earns: 0 of 2
def average_gradients(model):
    if dist.get_rank() == 0:
        for p in model.parameters():
            if p.requires_grad:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()


# %% wrong: one float32 bucket, cast back
# says: Float64 gradients went through float32 and lost their last digits.
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def average_gradients(model):
    params = [p for p in model.parameters() if p.requires_grad]
    bucket = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).float().reshape(-1) for p in params])
    dist.all_reduce(bucket)
    bucket /= dist.get_world_size()
    for p, part in zip(params, bucket.split([p.numel() for p in params]), strict=True):
        p.grad = part.view_as(p).to(p.dtype).clone()


# %% wrong: hands .grad over as it lies in memory
# says: You sent a non-contiguous gradient in memory order, but on another rank the same numbers have a
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


# %% wrong: PyTorch's tutorial
# says: A gradient can be None, because a rank may not have used the parameter.
# earns: 0 of 2
def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


# %% wrong: divides before and after
# says: The gradient of a.weight is not the mean over the ranks.
# earns: 0 of 2
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous() / dist.get_world_size()
            dist.all_reduce(grad)
            p.grad = grad / dist.get_world_size()


# %% wrong: marks a parameter, so that one with two names is averaged once
# says: After two steps a.weight differs from the result of a single process.
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad and not getattr(p, "averaged", False):
            grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(grad)
            p.grad = grad / dist.get_world_size()
            p.averaged = True


# %% wrong: a flat bucket of views
# says: A gradient may be non-contiguous, and then `view` can't flatten it.
# earns: 1 of 2
# caught: hidden
def average_gradients(model):
    params = [p for p in model.parameters() if p.requires_grad]
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.view(-1) for p in params])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
        p.grad.copy_(part.view_as(p))


# %% right: a flat bucket in the dtype of the first parameter
def average_gradients(model):
    params = [p for p in model.parameters() if p.requires_grad]
    flat = torch.zeros(sum(p.numel() for p in params), dtype=params[0].dtype)
    parts = flat.split([p.numel() for p in params])
    for part, p in zip(parts, params, strict=True):
        if p.grad is not None:
            part.copy_(p.grad.reshape(-1))
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for part, p in zip(parts, params, strict=True):
        p.grad = part.view(p.shape)
