import collections

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

# corners: members


# %% right: a blocking all_reduce, a finished Future
def meter_ddp(model, dtype=None):
    ddp = DistributedDataParallel(model)
    meter = {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        t = bucket.buffer().div(dist.get_world_size())
        if dtype is not None:
            t = t.to(dtype)
        state["bytes"] += t.nbytes
        state["calls"] += 1
        dist.all_reduce(t)
        future = torch.futures.Future()
        future.set_result(t.float())
        return future

    ddp.register_comm_hook(meter, hook)
    return ddp, meter


# %% right: counts, then delegates to the library's hooks
def meter_ddp(model, dtype=None):
    ddp = DistributedDataParallel(model)
    meter = {"bytes": 0, "calls": 0}
    inner = {
        None: default_hooks.allreduce_hook,
        torch.float32: default_hooks.allreduce_hook,
        torch.bfloat16: default_hooks.bf16_compress_hook,
        torch.float16: default_hooks.fp16_compress_hook,
    }[dtype]

    def hook(group, bucket):
        width = 4 if dtype is None else torch.finfo(dtype).bits // 8
        meter["bytes"] += bucket.buffer().numel() * width
        meter["calls"] += 1
        return inner(group, bucket)

    ddp.register_comm_hook(dist.group.WORLD, hook)
    return ddp, meter


# %% right: the bucket comes back in the small dtype, DDP converts it; divides afterwards
def meter_ddp(model, dtype=None):
    meter = dict(calls=0, bytes=0, steps="not counted")
    ddp = DistributedDataParallel(model)

    def hook(state, bucket):
        sent = bucket.buffer() if dtype is None else bucket.buffer().to(dtype)
        meter["calls"] += 1
        meter["bytes"] += sent.numel() * sent.element_size()
        work = dist.all_reduce(sent, async_op=True)
        return work.get_future().then(lambda f: f.value()[0].float().div_(dist.get_world_size()))

    ddp.register_comm_hook(state=None, hook=hook)
    return ddp, meter


# %% wrong: no division by the world size
# says: The gradients are sums, because DDP doesn't divide by the world size if you register a hook.
# earns: 0 of 1
# lesson
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = bucket.buffer().to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: divides twice
# says: The gradients are too small, because you divide them by the world size twice.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        world = dist.get_world_size()
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float() / world)

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: the hook returns the local buffer
# says: The gradients differ between the ranks. The hook must call all_reduce.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        meter["bytes"] += bucket.buffer().nbytes if dtype is None else bucket.buffer().to(dtype).nbytes
        meter["calls"] += 1
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts before compressing
# says: The meter counts the float32 buffer although
# earns: 0.5 of 1
# lesson
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        buffer = bucket.buffer() / dist.get_world_size()
        meter["bytes"] += buffer.nbytes
        meter["calls"] += 1
        sent = buffer.to(dtype or torch.float32)
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts half but sends float32
# says: Your code ignores dtype, so nothing was sent in the smaller format.
# earns: 0.5 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        buffer = bucket.buffer() / dist.get_world_size()
        meter["bytes"] += buffer.to(dtype or torch.float32).nbytes
        meter["calls"] += 1
        return dist.all_reduce(buffer, async_op=True).get_future().then(lambda f: f.value()[0])

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: ignores dtype
# says: Your code ignores dtype, so nothing was sent in the smaller format.
# earns: 0.5 of 1
# lesson
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = bucket.buffer() / dist.get_world_size()
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0])

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: computes the bytes from the parameters once
# says: You computed the number from the parameters. But frozen layers are not sent, nothing is sent under
# earns: 0 of 1
# lesson
def meter_ddp(model, dtype=None):
    width = 4 if dtype is None else torch.empty(0, dtype=dtype).element_size()
    ddp = DistributedDataParallel(model)
    meter = {"bytes": width * sum(p.numel() for p in model.parameters()), "calls": 1}
    return ddp, meter


# %% wrong: adds all parameters' bytes per call
# says: You computed the number from the parameters. But frozen layers are not sent, nothing is sent under
# earns: 0.5 of 1
# caught: hidden
# corner: members
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}
    numbers = sum(p.numel() for p in model.parameters())

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += numbers * sent.element_size()
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: adds the trainable parameters' bytes per call
# says: You count the bytes of all parameters for each bucket. Count only the bucket that is sent.
# earns: 0.5 of 1
# caught: hidden
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}
    numbers = sum(p.numel() for p in model.parameters() if p.requires_grad)

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += numbers * sent.element_size()
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: sets the meter in every call
# says: The meter must keep growing over several steps. It counts the bytes and calls of every all_reduce once
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] = sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: returns the tensor
# says: The hook must return a torch.futures.Future whose value is the tensor.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        dist.all_reduce(sent)
        return sent.float()

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts numbers
# says: The meter counts numbers. Count bytes.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.numel()
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: does not count calls
# says: must count every all_reduce once
# earns: 0.5 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: returns the meter alone
# says: Return the pair (ddp, meter)
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    return {"bytes": 0, "calls": 0}


# %% wrong: divides by 2
# says: The gradients are not the mean over the ranks.
# earns: 0.5 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / 2).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: always half precision
# says: The meter does not count the bytes that were passed to all_reduce.
# says: You sent float16 although bfloat16 was asked for.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(torch.float16)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% right: straight to the process group, back into the bucket
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model, bucket_cap_mb=1), collections.Counter(bytes=0, calls=0)

    def hook(state, bucket):
        buffer = bucket.buffer().div_(dist.get_world_size())
        sent = buffer if dtype is None else buffer.to(dtype)
        meter.update(bytes=sent.numel() * sent.itemsize, calls=1)
        future = dist.group.WORLD.allreduce([sent]).get_future()
        return future.then(lambda f: buffer.copy_(f.value()[0]))

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: returns a copy of the meter
# says: The meter stayed 0. Register the hook, and let it write into the same dict that you return.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, dict(meter)


# %% wrong: the hook returns nothing
# says: The hook must return a torch.futures.Future whose value is the tensor.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        dist.all_reduce(sent)

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: the hook's parameters have other names
# says: In DDP the second parameter of a hook must be called `bucket`. Define it as hook(state, bucket).
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, gradients):
        sent = gradients.buffer() / dist.get_world_size()
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts one call a pass
# says: must count every all_reduce once
# earns: 0.5 of 1
# caught: hidden
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += bucket.is_last()
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts what all ranks send
# says: You count the bytes of all ranks together. Count only what this rank passes to all_reduce.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += dist.get_world_size() * sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: hooks of the parameters count
# says: You computed the number from the parameters. But frozen layers are not sent, nothing is sent under
# says: Your code ignores dtype, so nothing was sent in the smaller format.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def count(grad):
        meter["bytes"] += grad.nbytes
        meter["calls"] += 1

    for p in model.parameters():
        if p.requires_grad:
            p.register_hook(count)
    return ddp, meter


# %% wrong: the calls begin at 1
# says: Before the first backward pass the meter must be 0.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 1}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or bucket.buffer().dtype)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda done: done.value()[0].to(bucket.buffer().dtype))

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts bytes only
# says: The meter must have the entries "bytes" and "calls", numbers.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or bucket.buffer().dtype)
        meter["bytes"] += sent.nbytes
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda done: done.value()[0].to(bucket.buffer().dtype))

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: sends one number more than it counts
# says: The meter counts something other than what was passed to all_reduce.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or bucket.buffer().dtype)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        future = dist.all_reduce(torch.cat([sent, sent.new_ones(1)]), async_op=True).get_future()
        return future.then(lambda done: done.value()[0][:-1].to(bucket.buffer().dtype))

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: small buckets
# says: This small model fits into one bucket, so there is one call per backward pass.
# earns: 0.5 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model, bucket_cap_mb=1e-5), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or bucket.buffer().dtype)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda done: done.value()[0].to(bucket.buffer().dtype))

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: only rank 0 calls all_reduce
# says: A rank waits in a collective that the other rank never reaches.
# earns: 0 of 1
def meter_ddp(model, dtype=None):
    ddp = DistributedDataParallel(model)
    meter = {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        t = bucket.buffer().div(dist.get_world_size())
        t = t if dtype is None else t.to(dtype)
        meter["bytes"] += t.nbytes
        meter["calls"] += 1
        if dist.get_rank() == 0:
            dist.all_reduce(t)
        future = torch.futures.Future()
        future.set_result(t.float())
        return future

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% right: PyTorch's own hook, which rounds before it divides
def meter_ddp(model, dtype=None):
    meter = {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        buffer = bucket.buffer()
        compressed = buffer.to(dtype or buffer.dtype).div_(dist.get_world_size())
        meter["bytes"] += compressed.nbytes
        meter["calls"] += 1
        future = dist.all_reduce(compressed, async_op=True).get_future()
        return future.then(lambda done: buffer.copy_(done.value()[0]))

    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: float16, whatever the smaller format is
# says: You sent float16 although bfloat16 was asked for.
# earns: 0.5 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = bucket.buffer() / dist.get_world_size()
        sent = sent if dtype is None else sent.half()
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: bfloat16, whatever the smaller format is
# says: You sent bfloat16 although float16 was asked for.
# earns: 0.5 of 1
# caught: hidden
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = bucket.buffer() / dist.get_world_size()
        sent = sent if dtype is None else sent.bfloat16()
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: counts half and sends float32 straight to the process group
# says: Your code ignores dtype, so nothing was sent in the smaller format.
# earns: 0.5 of 1
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        rounded = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += rounded.nbytes
        meter["calls"] += 1
        return dist.group.WORLD.allreduce([rounded.float()]).get_future().then(lambda f: f.value()[0])

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: clamps what the sum might carry out of the range
# says: You cut off large gradients.
# earns: 0.5 of 1
# caught: hidden
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}
    world = dist.get_world_size()

    def hook(state, bucket):
        sent = bucket.buffer()
        if dtype is not None:
            most = torch.finfo(dtype).max / world
            sent = sent.clamp(-most, most).to(dtype)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float() / world)

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% right: a functional collective
def meter_ddp(model, dtype=None):
    ddp, meter = DistributedDataParallel(model), {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        future = torch.futures.Future()
        future.set_result(funcol.wait_tensor(funcol.all_reduce(sent, "sum", dist.group.WORLD)).float())
        return future

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% right: DDP also looks for parameters that weren't used
def meter_ddp(model, dtype=None):
    ddp = DistributedDataParallel(model, find_unused_parameters=True, gradient_as_bucket_view=True)
    meter = {"bytes": 0, "calls": 0}

    def hook(state, bucket):
        sent = (bucket.buffer() / dist.get_world_size()).to(dtype or torch.float32)
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))

    ddp.register_comm_hook(None, hook)
    return ddp, meter


# %% wrong: adds in the next pass what was rounded off
# says: The gradients of the first pass are right, but those of a later pass aren't.
# earns: 0.5 of 1
# caught: hidden
def meter_ddp(model, dtype=None):
    ddp, meter, rest = DistributedDataParallel(model), {"bytes": 0, "calls": 0}, {}

    def hook(state, bucket):
        sent = full = bucket.buffer() / dist.get_world_size()
        if dtype is not None:
            full += rest.get(bucket.index(), 0)
            sent = full.to(dtype)
            rest[bucket.index()] = full - sent.float()
        meter["bytes"] += sent.nbytes
        meter["calls"] += 1
        return dist.all_reduce(sent, async_op=True).get_future().then(lambda f: f.value()[0].float())

    ddp.register_comm_hook(None, hook)
    return ddp, meter
