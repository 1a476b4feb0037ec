import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


def shard_of(weight, rank, world):
    flat = weight.detach().flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel()))[rank * size : (rank + 1) * size].clone()


def whole(shard, out, width):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts)[: out * width].view(out, width)


def piece_of_mean(grad, shard):
    world, mine = dist.get_world_size(), torch.empty_like(shard)
    full = F.pad(grad.flatten(), (0, world * len(shard) - grad.numel()))
    dist.reduce_scatter(mine, list(full.chunk(world)))
    return mine / world


class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        return of_x, piece_of_mean(g.t() @ x, shard), None


def sharded_linear(x, shard, out_features):
    return ShardedLinear.apply(x, shard, out_features)


# corners: empty


# %% right: single-tensor collectives, divides before sending
def shard_of(weight, rank, world):
    size = -(-weight.numel() // world)
    share = torch.zeros(size, dtype=weight.dtype)
    mine = weight.detach().reshape(-1)[rank * size : (rank + 1) * size]
    share[: len(mine)] = mine
    return share


class Sharded(torch.autograd.Function):
    @staticmethod
    def gather(shard, out, width):
        full = shard.new_empty(len(shard) * dist.get_world_size())
        getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(full, shard.contiguous())
        return full[: out * width].reshape(out, width)

    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return torch.einsum("ni,oi->no", x, Sharded.gather(shard, out, x.shape[1]))

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        world = dist.get_world_size()
        full = shard.new_zeros(world * len(shard))
        full[: g.shape[1] * x.shape[1]] = torch.einsum("no,ni->oi", g, x).reshape(-1) / world
        mine = torch.empty_like(shard)
        getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(mine, full)
        of_x = None
        if x.requires_grad:
            of_x = torch.einsum("no,oi->ni", g, Sharded.gather(shard, g.shape[1], x.shape[1]))
        return of_x, mine, None


def sharded_linear(x, shard, out_features):
    return Sharded.apply(x, shard, out_features)


# %% right: setup_context, attributes on ctx, ReduceOp.AVG
class Sharded(torch.autograd.Function):
    @staticmethod
    def forward(x, shard, out):
        return F.linear(x, whole(shard, out, x.shape[1]))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x, ctx.shard, ctx.out = inputs

    @staticmethod
    def backward(ctx, g):
        weight = whole(ctx.shard, ctx.out, ctx.x.shape[1]) if ctx.needs_input_grad[0] else None
        of_x = None if weight is None else g.mm(weight)
        full = F.pad((g.t() @ ctx.x).flatten(), (0, dist.get_world_size() * len(ctx.shard) - weight_size(ctx)))
        mine = torch.empty_like(ctx.shard)
        dist.reduce_scatter(mine, list(full.tensor_split(dist.get_world_size())), op=dist.ReduceOp.AVG)
        return of_x, mine, None


def weight_size(ctx):
    return ctx.out * ctx.x.shape[1]


def sharded_linear(x, shard, out_features):
    return Sharded.apply(x, shard, out_features)


# %% right: old names of the collectives, asynchronous, a copy of the share
class Sharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard.clone())
        full = torch.empty(len(shard) * dist.get_world_size(), dtype=shard.dtype)
        dist.all_gather_into_tensor(full, shard, async_op=True).wait()
        return F.linear(x, full[: out * x.shape[1]].view(out, -1))

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        world, out, width = dist.get_world_size(), g.shape[1], x.shape[1]
        padding = shard.new_zeros(world * len(shard) - out * width)
        mine = torch.empty_like(shard)
        job = dist.reduce_scatter_tensor(mine, torch.cat([(g.t() @ x).flatten(), padding]), async_op=True)
        job.wait()
        of_x = None
        if ctx.needs_input_grad[0]:
            full = torch.empty(len(shard) * world, dtype=shard.dtype)
            dist.all_gather_into_tensor(full, shard)
            of_x = g @ full[: out * width].view(out, width)
        return of_x, mine.div_(world), None


def sharded_linear(x, shard, out_features):
    return Sharded.apply(x, shard, out_features)


# %% right: once_differentiable, backward through F.linear
class Sharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return F.linear(x, whole(shard, out, x.shape[1]))

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        sizes = g.shape[1], x.shape[1]
        weight = whole(shard, *sizes) if ctx.needs_input_grad[0] else x.new_zeros(sizes)
        with torch.enable_grad():
            leaves = x.detach().requires_grad_(), weight.requires_grad_()
            of_x, of_weight = torch.autograd.grad(F.linear(*leaves), leaves, g)
        return of_x if ctx.needs_input_grad[0] else None, piece_of_mean(of_weight, shard), None


def sharded_linear(x, shard, out_features):
    return Sharded.apply(x, shard, out_features)


# %% right: frees the memory of the gathered weight and gathers into it again
class Sharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        full = shard.new_empty(dist.get_world_size() * len(shard))
        dist.all_gather(list(full.chunk(dist.get_world_size())), shard)
        y = F.linear(x, full[: out * x.shape[1]].view(out, -1))
        full.untyped_storage().resize_(0)
        ctx.full, ctx.out = full, out
        ctx.save_for_backward(x, shard)
        return y

    @staticmethod
    def backward(ctx, g):
        (x, shard), full, of_x = ctx.saved_tensors, ctx.full, None
        if ctx.needs_input_grad[0]:
            full.untyped_storage().resize_(full.numel() * full.element_size())
            dist.all_gather(list(full.chunk(dist.get_world_size())), shard)
            of_x = g @ full[: ctx.out * x.shape[1]].view(ctx.out, -1)
            full.untyped_storage().resize_(0)
        return of_x, piece_of_mean(g.t() @ x, shard), None


def sharded_linear(x, shard, out_features):
    return Sharded.apply(x, shard, out_features)


# %% wrong: does not divide by the number of ranks
# says: The share's gradient is the sum over the ranks. As in DDP, it must be the mean.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
# lesson
def piece_of_mean(grad, shard):
    world, mine = dist.get_world_size(), torch.empty_like(shard)
    full = F.pad(grad.flatten(), (0, world * len(shard) - grad.numel()))
    dist.reduce_scatter(mine, list(full.chunk(world)))
    return mine


# %% wrong: divides by 2
# says: The divisor is fixed. Use dist.get_world_size().
# earns: 2 of 3
# caught: hidden
def piece_of_mean(grad, shard):
    world, mine = dist.get_world_size(), torch.empty_like(shard)
    full = F.pad(grad.flatten(), (0, world * len(shard) - grad.numel()))
    dist.reduce_scatter(mine, list(full.chunk(world)))
    return mine / 2


# %% wrong: divides twice
# says: You divided the share's gradient by the number of ranks twice.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
def piece_of_mean(grad, shard):
    world, mine = dist.get_world_size(), torch.empty_like(shard)
    full = F.pad(grad.flatten(), (0, world * len(shard) - grad.numel())) / world
    dist.reduce_scatter(mine, list(full.chunk(world)))
    return mine / world


# %% wrong: takes its piece of its own gradient
# says: The share's gradient uses only this rank's samples, because reduce_scatter is missing.
# says: Forward has one all_gather, and backward has one all_gather and one reduce_scatter, but your code sent
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
# lesson
def piece_of_mean(grad, shard):
    full = F.pad(grad.flatten(), (0, dist.get_world_size() * len(shard) - grad.numel()))
    return full.chunk(dist.get_world_size())[dist.get_rank()].clone()


# %% wrong: all_reduce, then the piece
# says: all_reduce and broadcast send whole weights or gradients everywhere
# earns: 1 of 3
# lesson
def piece_of_mean(grad, shard):
    world = dist.get_world_size()
    grad = grad.contiguous()
    dist.all_reduce(grad)
    full = F.pad(grad.flatten(), (0, world * len(shard) - grad.numel()))
    return full.chunk(world)[dist.get_rank()] / world


# %% wrong: broadcasts the shares one by one
# says: all_reduce and broadcast send whole weights or gradients everywhere
# earns: 1 of 3
def whole(shard, out, width):
    parts = []
    for rank in range(dist.get_world_size()):
        part = shard.detach().clone()
        dist.broadcast(part, src=rank)
        parts.append(part)
    return torch.cat(parts)[: out * width].view(out, width)


# %% wrong: gathers objects
# says: Objects are pickled, and their sizes are sent first. Use the collectives for tensors.
# earns: 2 of 3
def whole(shard, out, width):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, shard.detach())
    return torch.cat(parts)[: out * width].view(out, width)


# %% wrong: gathers a whole weight that is zero but for the share
# says: You sent something other than shares. Pass a share to all_gather, and let reduce_scatter return a share.
# earns: 2 of 3
def whole(shard, out, width):
    world = dist.get_world_size()
    mine = shard.new_zeros(world * len(shard))
    mine[dist.get_rank() * len(shard) : (dist.get_rank() + 1) * len(shard)] = shard
    parts = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(parts, mine)
    return sum(parts)[: out * width].view(out, width)


# %% wrong: saves the gathered weight
# says: You keep the whole weight from forward to backward, so no memory is saved. Keep the share and gather
# earns: 2 of 3
# lesson
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        weight = whole(shard, out, x.shape[1])
        ctx.save_for_backward(x, shard, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, g):
        x, shard, weight = ctx.saved_tensors
        return g @ weight, piece_of_mean(g.t() @ x, shard), None


# %% wrong: keeps the gathered weight on ctx, in parts
# says: You keep the whole weight from forward to backward, so no memory is saved. Keep the share and gather
# earns: 2 of 3
# lesson
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        ctx.parts = list(whole(shard, out, x.shape[1]).clone().chunk(4))
        return x @ torch.cat(ctx.parts).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ torch.cat(ctx.parts) if ctx.needs_input_grad[0] else None
        return of_x, piece_of_mean(g.t() @ x, shard), None


# %% wrong: keeps the last gathered weight in the class
# says: You keep the whole weight from forward to backward, so no memory is saved. Keep the share and gather
# says: x needs no gradient, so backward needs no weight
# earns: 1 of 3
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        ShardedLinear.weight = whole(shard, out, x.shape[1])
        return x @ ShardedLinear.weight.t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1])
        return of_x, piece_of_mean(g.t() @ x, shard), None


# %% wrong: keeps the weight that backward has gathered
# says: After backward the whole weight (or its gradient) is still in memory.
# earns: 2 of 3
class ShardedLinear(torch.autograd.Function):
    cache = []

    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = None
        if ctx.needs_input_grad[0]:
            ShardedLinear.cache.append(whole(shard, g.shape[1], x.shape[1]))
            of_x = g @ ShardedLinear.cache[-1]
        return of_x, piece_of_mean(g.t() @ x, shard), None


# %% wrong: gathers although x needs no gradient
# says: x needs no gradient, so backward needs no weight: leave the all_gather out.
# earns: 2 of 3
# caught: hidden
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1])
        return of_x, piece_of_mean(g.t() @ x, shard), None


# %% wrong: drops what does not divide
# says: 15 elements don't divide by 2 ranks
# earns: 2 of 3
def shard_of(weight, rank, world):
    size = weight.numel() // world
    return weight.detach().flatten()[rank * size : (rank + 1) * size].clone()


# %% wrong: views the weight as flat
# says: A weight may be non-contiguous, and then `view` can't flatten it.
# earns: 2 of 3
# caught: hidden
def shard_of(weight, rank, world):
    flat = weight.detach().view(-1)
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel())).chunk(world)[rank].clone()


# %% wrong: the last share is shorter
# says: 15 elements don't divide by 2 ranks
# earns: 2 of 3
def shard_of(weight, rank, world):
    return weight.detach().flatten().tensor_split(world)[rank].clone()


# %% wrong: does not cut the padding off
# says: If the weight's size is not divisible by the number of ranks, there is padding at its end. Cut it off
# earns: 2 of 3
# caught: hidden
def whole(shard, out, width):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts).view(out, width)


# %% wrong: does not fill the gradient up
# says: If the weight's size is not divisible by the number of ranks, there is padding at its end. Cut it off
# earns: 2 of 3
# caught: hidden
def piece_of_mean(grad, shard):
    world, mine = dist.get_world_size(), torch.empty_like(shard)
    dist.reduce_scatter(mine, list(grad.flatten().chunk(world)))
    return mine / world


# %% wrong: views the weight as (in, out)
# says: The weight has the wrong orientation. The shares are the rows of (out, in), one after another.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
def whole(shard, out, width):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts)[: out * width].view(width, out).t()


# %% wrong: the gradient of the weight lies as (in, out)
# says: The weight's gradient has the wrong orientation. It must be (out, in), like the weight.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        return of_x, piece_of_mean(x.t() @ g, shard), None


# %% wrong: the shares in the wrong order
# says: You joined the shares in the wrong order. Rank 0's comes first.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
def whole(shard, out, width):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    rank = dist.get_rank()
    others = [part for other, part in enumerate(parts) if other != rank]
    return torch.cat([*others[::-1], shard])[: out * width].view(out, width)


# %% wrong: averages the gradient of x too
# says: Don't average the gradient of x. It belongs to this rank alone, because other ranks have other samples.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        g = g / dist.get_world_size()
        of_x = g @ whole(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        return of_x, piece_of_mean(g.t() @ x, shard) * dist.get_world_size(), None


# %% wrong: no gradient for x
# says: No gradient reaches x.
# says: Forward has one all_gather, and backward has one all_gather and one reduce_scatter, but your code sent
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        return None, piece_of_mean(g.t() @ x, shard), None


# %% wrong: returns one gradient too few
# says: Backward must return a gradient or None for each argument of forward
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        return g @ whole(shard, g.shape[1], x.shape[1]), piece_of_mean(g.t() @ x, shard)


# %% wrong: the share is a view of the weight
# says: A share must own its memory, because otherwise it keeps the whole weight alive.
# earns: 2 of 3
def shard_of(weight, rank, world):
    flat = weight.detach().flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel()))[rank * size : (rank + 1) * size]


# %% wrong: the share is tracked
# says: A share must not be tracked by autograd. Detach the weight first.
# earns: 2 of 3
def shard_of(weight, rank, world):
    flat = weight.flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel()))[rank * size : (rank + 1) * size].clone()


# %% wrong: rows of the weight, not flattened
# says: A share must be one-dimensional. Flatten the weight.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
def shard_of(weight, rank, world):
    return weight.detach().tensor_split(world)[rank].clone()


# %% wrong: deals the elements out
# says: You distributed single elements in turn. A share is one piece of the flattened weight.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
def shard_of(weight, rank, world):
    return weight.detach().flatten()[rank::world].clone()


# %% wrong: a rank without samples leaves the reduce_scatter out
# says: The ranks wait for each other forever. Each rank must call the same collectives in the same order, even
# earns: 2 of 3
# corner: empty
# caught: hidden
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        of_shard = piece_of_mean(g.t() @ x, shard) if len(x) else torch.zeros_like(shard)
        return of_x, of_shard, None


# %% wrong: a rank without samples returns early
# says: The ranks passed different amounts of data to one collective, or a rank skipped one. Each rank must call
# earns: 2 of 3
# corner: empty
# caught: hidden
def sharded_linear(x, shard, out_features):
    if not len(x):
        return x.new_empty(0, out_features) + 0 * shard.sum()
    return ShardedLinear.apply(x, shard, out_features)


# %% wrong: float32 buffers
# says: The weight may be float64. Everything that you gather and send needs its dtype, for example from
# earns: 2 of 3
# caught: hidden
def whole(shard, out, width):
    parts = [torch.empty(len(shard)) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts)[: out * width].view(out, width)


# %% wrong: takes the mean over samples of all ranks
# says: averaged over the ranks
# earns: 2 of 3
# caught: hidden
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        return of_x, piece_of_mean(g.t() @ x * len(x) / 3, shard), None


# %% wrong: sends the gradient unpadded as one tensor
# says: If the weight's size is not divisible by the number of ranks, there is padding at its end. Cut it off
# earns: 2 of 3
# caught: hidden
def piece_of_mean(grad, shard):
    mine = torch.empty_like(shard)
    getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(mine, grad.flatten().contiguous())
    return mine / dist.get_world_size()


# %% wrong: pads with whatever lies in memory
# says: The padding is not part of the weight, so its gradient must be 0.
# earns: 2 of 3
# caught: hidden
def piece_of_mean(grad, shard):
    world, mine = dist.get_world_size(), torch.empty_like(shard)
    full = torch.full((world * len(shard),), 2.5, dtype=shard.dtype)
    full[: grad.numel()] = grad.flatten()
    dist.reduce_scatter(mine, list(full.chunk(world)))
    return mine / world


# %% wrong: pads the share with ones
# says: 15 elements don't divide by 2 ranks
# earns: 2 of 3
def shard_of(weight, rank, world):
    flat = weight.detach().flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel()), value=1.0)[rank * size : (rank + 1) * size].clone()


# %% wrong: asks torch.distributed for its rank
# says: Use the arguments rank and world. shard_of needs no process group, and any rank may ask for any share.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 1 of 3
def shard_of(weight, rank, world):
    flat = weight.detach().flatten()
    size = math.ceil(flat.numel() / dist.get_world_size())
    return F.pad(flat, (0, size * world - flat.numel()))[dist.get_rank() * size :][:size].clone()


# %% wrong: returns nothing
# says: On each rank the result must be a tensor (N, out_features), but it is
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
def sharded_linear(x, shard, out_features):
    ShardedLinear.apply(x, shard, out_features)


# %% wrong: the weight's gradient is reduced in a thread, where nothing is counted
# says: The check sees what is sent in the call itself
# earns: 0 of 3
class ReducesElsewhere(ShardedLinear):
    @staticmethod
    def backward(ctx, g):
        from threading import Thread

        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1]) if ctx.needs_input_grad[0] else None
        grad, start = g.t() @ x, dist.get_rank() * len(shard)
        thread = Thread(target=dist.all_reduce, args=(grad,))
        thread.start()
        thread.join()
        full = F.pad(grad.flatten() / dist.get_world_size(), (0, dist.get_world_size() * len(shard) - grad.numel()))
        return of_x, full[start : start + len(shard)].clone(), None


def sharded_linear(x, shard, out_features):
    return ReducesElsewhere.apply(x, shard, out_features)


# %% wrong: the result is divided by the number of ranks
# says: The result is not F.linear(x, weight).
# says: This check builds on the first one
# earns: 0 of 3
def sharded_linear(x, shard, out_features):
    return ShardedLinear.apply(x, shard, out_features) / dist.get_world_size()


# %% wrong: the share gets no gradient
# says: No gradient reaches the share.
# says: Your code raised RuntimeError
# earns: 1 of 3
def sharded_linear(x, shard, out_features):
    return ShardedLinear.apply(x, shard.detach(), out_features)


# %% wrong: the gradient of x with a rounded weight
# says: The gradient of x is not that of this rank's result.
# says: This check builds on the first one
# earns: 1 of 3
class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, out):
        ctx.save_for_backward(x, shard)
        return x @ whole(shard, out, x.shape[1]).t()

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        of_x = g @ whole(shard, g.shape[1], x.shape[1]).round() if ctx.needs_input_grad[0] else None
        return of_x, piece_of_mean(g.t() @ x, shard), None


def sharded_linear(x, shard, out_features):
    return Rounded.apply(x, shard, out_features)


# %% wrong: shares of columns
# says: You cut columns. Flatten the weight row by row.
# says: This check builds on the first one
# earns: 1 of 3
def shard_of(weight, rank, world):
    return weight.detach().chunk(world, dim=1)[rank].clone()


# %% wrong: the shares in reverse order
# says: This is another rank's share.
# says: This check builds on the first one
# earns: 1 of 3
def shard_of(weight, rank, world):
    flat = weight.detach().flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel())).chunk(world)[world - 1 - rank].clone()


# %% wrong: shares of the transposed weight
# says: You transposed the weight before you flattened it. Flatten it row by row.
# says: This check builds on the first one
# earns: 1 of 3
def shard_of(weight, rank, world):
    flat = weight.detach().t().flatten()
    size = math.ceil(flat.numel() / world)
    return F.pad(flat, (0, size * world - flat.numel())).chunk(world)[rank].clone()


# %% wrong: computes in float64
# says: The result must have the dtype of x and the weight, torch.float32.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
def sharded_linear(x, shard, out_features):
    return ShardedLinear.apply(x, shard, out_features).double()


# %% wrong: one reduce for each rank
# says: Only all_gather and reduce_scatter are used here.
# says: Forward has one all_gather, and backward has one all_gather and one reduce_scatter, but your code sent
# earns: 1 of 3
def piece_of_mean(grad, shard):
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = list(F.pad(grad.flatten(), (0, world * len(shard) - grad.numel())).chunk(world))
    for to, chunk in enumerate(chunks):
        dist.reduce(chunk, to)
    return chunks[rank] / world


# %% wrong: keeps the whole weight with its share
# says: You keep the whole weight from forward to backward, so no memory is saved.
# says: After three steps the weights differ from those of a single process with all samples.
# earns: 1 of 3
def whole(shard, out, width):
    if not hasattr(shard, "kept"):
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, shard)
        shard.kept = torch.cat(parts)[: out * width].view(out, width)
    return shard.kept


# %% wrong: nobody writes the padding of the gradient
# says: The padding is not part of the weight, so its gradient must be 0.
# earns: 2 of 3
# caught: hidden
def piece_of_mean(grad, shard):
    world = dist.get_world_size()
    flat = grad.new_empty(world * len(shard))
    flat[: grad.numel()] = grad.flatten() / world
    piece = torch.empty_like(shard)
    dist.reduce_scatter(piece, list(flat.chunk(world)))
    return piece
