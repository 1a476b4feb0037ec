import torch
import torch.distributed as dist


def _exchange(out, shape_like):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(shape_like)
    arriving = dist.irecv(received, (rank - 1) % world)
    leaving = dist.isend(out, (rank + 1) % world)
    arriving.wait()
    leaving.wait()
    return received


# corners: beyond 2**24, empty, 0-d


# %% right: padded to a multiple of the world size, batch_isend_irecv
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    n = t.numel()
    per = -(-n // world)
    if per == 0:
        return
    buffer = torch.zeros(world, per, dtype=t.dtype)
    buffer.view(-1)[:n] = t.reshape(-1)
    for step in range(2 * (world - 1)):
        adding = step < world - 1
        send = (rank - step) % world if adding else (rank + 1 - (step - world + 1)) % world
        into = (send - 1) % world
        received = torch.empty(per, dtype=t.dtype)
        ops = [
            dist.P2POp(dist.isend, buffer[send], (rank + 1) % world),
            dist.P2POp(dist.irecv, received, (rank - 1) % world),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        buffer[into] = buffer[into] + received if adding else received
    t[...] = buffer.view(-1)[:n].view(t.shape)


# %% right: blocking, even ranks send first; in odd worlds rank 0 uses isend
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.contiguous().view(-1).clone()
    bounds = [k * flat.numel() // world for k in range(world + 1)]
    chunks = [flat[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
    right, left = (rank + 1) % world, (rank - 1) % world

    def swap(out, into):
        received = torch.zeros_like(into)
        if rank == 0 and world % 2 == 1:
            work = dist.isend(out, right)
            dist.recv(received, left)
            work.wait()
        elif rank % 2 == 0:
            dist.send(out, right)
            dist.recv(received, left)
        else:
            dist.recv(received, left)
            dist.send(out, right)
        return received

    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += swap(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(swap(chunks[(rank + 1 - s) % world], into))
    with torch.no_grad():
        t.copy_(flat.view_as(t))


# %% right: chunks one element longer than needed, any source, the ring shifted by one
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world < 2:
        return
    per = t.numel() // world + 1
    chunks = torch.cat([t.flatten(), t.new_zeros(per * world - t.numel())]).chunk(world)
    chunks = [c.clone() for c in chunks]
    inbox = torch.empty(per, dtype=t.dtype)
    for s in range(2 * world - 2):
        out = chunks[(rank - 1 - s) % world] if s < world - 1 else chunks[(rank - s + world - 1) % world]
        into = (rank - 2 - s) % world if s < world - 1 else (rank - s + world - 2) % world
        work = dist.isend(out, (rank + 1) % world)
        dist.recv(inbox)
        work.wait()
        if s < world - 1:
            chunks[into] += inbox
        else:
            chunks[into].copy_(inbox)
    t.copy_(torch.cat(chunks)[: t.numel()].reshape(t.shape))


# %% wrong: a line there and back: the sum is passed on, then the result
# says: You sent too much, because whole tensors went around the ring. Send one chunk per step.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    flat = t.reshape(-1).clone()
    left, right = (rank - 1) % world, (rank + 1) % world
    if rank > 0:
        before = torch.empty_like(flat)
        dist.recv(before, left)
        flat += before
    if rank < world - 1:
        dist.send(flat, right)
        dist.recv(flat, left)
    else:
        dist.send(flat, right)
    if rank < world - 2:
        dist.send(flat, right)
    t.copy_(flat.view(t.shape))


# %% wrong: whole tensors travel around the ring
# says: You sent too much, because whole tensors went around the ring. Send one chunk per step.
# earns: 0 of 3
# lesson
def ring_all_reduce(t):
    world = dist.get_world_size()
    total, moving = t.clone().contiguous(), t.clone().contiguous()
    for _ in range(world - 1):
        moving = _exchange(moving, moving)
        total += moving
    t.copy_(total)


# %% wrong: everything through rank 0
# says: A rank sent messages to ranks other than its right neighbour.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.contiguous().clone()
    if rank == 0:
        part = torch.empty_like(flat)
        for other in range(1, world):
            dist.recv(part, other)
            flat += part
        for other in range(1, world):
            dist.send(flat, other)
    else:
        dist.send(flat, 0)
        dist.recv(flat, 0)
    t.copy_(flat)


# %% wrong: the ring runs the other way round
# says: A rank sent messages to ranks other than its right neighbour.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    me = -rank

    def swap(out, into):
        received = torch.empty_like(into)
        works = [dist.irecv(received, (rank + 1) % world), dist.isend(out, (rank - 1) % world)]
        for work in works:
            work.wait()
        return received

    for s in range(world - 1):
        into = chunks[(me - s - 1) % world]
        into += swap(chunks[(me - s) % world], into)
    for s in range(world - 1):
        into = chunks[(me - s) % world]
        into.copy_(swap(chunks[(me + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: chunks of n // world
# says: The last elements are wrong, because the number of elements is not divisible by the world size.
# earns: 2 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    per = flat.numel() // world
    chunks = [flat[k * per : (k + 1) * per] for k in range(world)]
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: a table of world rows
# says: The number of elements need not be divisible by the world size.
# earns: 2 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = t.clone().view(world, -1)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(chunks.view(t.shape))


# %% wrong: torch.chunk
# says: A chunk is missing, because torch.chunk and split can return fewer pieces than there are ranks.
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.chunk(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: send first, then recv, on every rank
# says: The ranks wait for each other forever. Gloo's send returns only when the partner receives, but every
# earns: 0 of 3
# lesson
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)

    def swap(out, into):
        received = torch.empty_like(into)
        dist.send(out, (rank + 1) % world)
        dist.recv(received, (rank - 1) % world)
        return received

    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += swap(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(swap(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: recv first on every rank
# says: The ranks wait for each other forever, because a message has no partner, or no rank waits for it. Every
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        received = torch.empty_like(into)
        dist.recv(received, (rank - 1) % world)
        dist.send(chunks[(rank - s) % world], (rank + 1) % world)
        into += received
    t.copy_(flat.view(t.shape))


# %% wrong: only the first phase
# says: Each rank has only one complete chunk, because the second phase (all-gather) is missing.
# earns: 0 of 3
# lesson
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    t.copy_(flat.view(t.shape))


# %% wrong: second phase with the indices of the first
# says: Parts of the result are wrong, because the chunk indices of the two phases do not fit together.
# earns: 0 of 3
# lesson
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into.copy_(_exchange(chunks[(rank - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: adds in both phases
# says: Parts of the result are wrong, because the chunk indices of the two phases do not fit together.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into += _exchange(chunks[(rank + 1 - s) % world], into)
    t.copy_(flat.view(t.shape))


# %% wrong: result in a new tensor
# says: t itself must change (also if it is not contiguous): work on a copy and copy back into t.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    return flat.view(t.shape)


# %% wrong: gives t new data instead of writing into it
# says: t itself must change
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.data = flat.view(t.shape)


# %% wrong: reshape(-1) of a non-contiguous tensor, never copied back
# says: t itself must change (also if it is not contiguous): work on a copy and copy back into t.
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = t.reshape(-1).tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        out = chunks[(rank - s) % world]
        into += _exchange(out.contiguous(), into.contiguous())
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world].contiguous(), into.contiguous()))


# %% wrong: view(-1) of any tensor
# says: t need not be contiguous, and what isn't can be neither viewed flat nor sent
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = t.view(-1).tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))


# %% wrong: flattens the memory instead of the tensor
# says: hidden test: four ranks: every second element of a larger tensor
# says: This t is not contiguous. Flatten its elements with reshape(-1), not the memory in which they are stored.
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.as_strided((t.numel(),), (1,))
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))


# %% wrong: dist.all_reduce
# says: Only point-to-point messages are allowed.
# earns: 0 of 3
def ring_all_reduce(t):
    flat = t.contiguous()
    dist.all_reduce(flat)
    t.copy_(flat)


# %% wrong: all_gather and a sum
# says: Only point-to-point messages are allowed.
# earns: 0 of 3
def ring_all_reduce(t):
    flat = t.contiguous()
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, flat)
    t.copy_(sum(parts))


# %% wrong: a barrier after each step
# says: Only point-to-point messages are allowed.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
        dist.barrier()
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
        dist.barrier()
    t.copy_(flat.view(t.shape))


# %% wrong: fails for world size 1
# says: World size 1 (or an empty tensor) must simply return.
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(max(1, world - 1)):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: fits worlds of two and three only
# says: four ranks
# says: Parts of the result are wrong, because the chunk indices of the two phases do not fit together.
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(min(2, world - 1)):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(min(2, world - 1)):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: the mean
# says: Parts of the result are wrong, because the chunk indices of the two phases do not fit together.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape) / world)


# %% wrong: adds in float32 whatever the dtype
# says: hidden test: four ranks: two dimensions
# says: Digits were lost on the way. The messages and the sums must have the dtype of t.
# earns: 2 of 3
# caught: hidden
# corner: beyond 2**24
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).float()
    chunks = [chunk.clone() for chunk in flat.tensor_split(world)]
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(torch.cat(chunks).view(t.shape))


# %% wrong: sends float64
# says: Your chunks have the right number of elements, but their dtype is larger than t's
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).double()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: the last phase in half precision
# says: Parts of the result are wrong, because the chunk indices of the two phases do not fit together.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world].half(), into.half()))
    t.copy_(flat.view(t.shape))


# %% wrong: a buffer of the wrong chunk's size
# says: A process ended early, because a message was larger than the buffer that received it. In each step, your
# earns: 2 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], chunks[-1])[: len(into)]
    for s in range(world - 1):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], chunks[-1])[: len(into)])
    t.copy_(flat.view(t.shape))


# %% wrong: the right neighbour is rank + world
# says: A rank sent to itself or received from itself. The neighbours are (rank + 1) % world and (rank - 1) %
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        received = torch.empty_like(into)
        leaving = dist.isend(chunks[(rank - s) % world], (rank + world) % world)
        dist.recv(received, (rank - 1) % world)
        leaving.wait()
        into += received
    t.copy_(flat.view(t.shape))


# %% wrong: one step too many
# says: You sent too much. 2 (world - 1) chunks of numel / world elements are enough.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for s in range(world - 1):
        into = chunks[(rank - s - 1) % world]
        into += _exchange(chunks[(rank - s) % world], into)
    for s in range(world):
        into = chunks[(rank - s) % world]
        into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: pads, then splits into pieces of a size, which is 0 for an empty tensor
# says: A chunk is missing, because torch.chunk and split can return fewer pieces than there are ranks.
# earns: 2 of 3
# caught: hidden
# corner: empty
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    flat = t.detach().reshape(-1)
    whole = torch.cat([flat, flat.new_zeros(-flat.numel() % world)])
    rows = whole.split(len(whole) // world)
    for s in range(2 * (world - 1)):
        first = s < world - 1
        send = (rank - s) % world if first else (rank + world - s) % world
        receive = (send - 1) % world
        got = torch.empty_like(rows[receive])
        arriving, leaving = dist.irecv(got, (rank - 1) % world), dist.isend(rows[send], (rank + 1) % world)
        arriving.wait()
        leaving.wait()
        rows[receive].copy_(got + (rows[receive] if first else 0))
    t.copy_(whole[: t.numel()].reshape(t.shape))


# %% wrong: cuts the tensor along its first dimension
# says: t can have no dimension at all
# earns: 2 of 3
# caught: hidden
# corner: 0-d
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    whole = t.reshape(-1).clone() if t.dim() else t.clone()
    chunks = whole.tensor_split(world)
    for s in range(2 * (world - 1)):
        first = s < world - 1
        send = (rank - s) % world if first else (rank + world - s) % world
        receive = (send - 1) % world
        got = torch.empty_like(chunks[receive])
        arriving, leaving = dist.irecv(got, (rank - 1) % world), dist.isend(chunks[send], (rank + 1) % world)
        arriving.wait()
        leaving.wait()
        chunks[receive].copy_(got + (chunks[receive] if first else 0))
    t.copy_(whole.reshape(t.shape))


# %% wrong: PyTorch's tutorial
# says: You sent too much, because whole tensors went around the ring. Send one chunk per step.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, size = dist.get_rank(), dist.get_world_size()
    send_buff, recv_buff, accum = t.clone(), t.clone(), t.clone()
    left, right = (rank - 1 + size) % size, (rank + 1) % size
    for i in range(size - 1):
        if i % 2 == 0:
            send_req = dist.isend(send_buff, right)
            dist.recv(recv_buff, left)
            accum[:] += recv_buff[:]
        else:
            send_req = dist.isend(recv_buff, right)
            dist.recv(send_buff, left)
            accum[:] += send_buff[:]
        send_req.wait()
    t[:] = accum[:]


# %% wrong: all_reduce in a thread, where no message is counted
# says: The check counts messages that are sent in the call itself
# earns: 0 of 3
def ring_all_reduce(t):
    from threading import Thread

    whole = t.contiguous().clone()
    thread = Thread(target=dist.all_reduce, args=(whole,))
    thread.start()
    thread.join()
    t.copy_(whole)


# %% wrong: the sum by gloo itself, the messages for show
# says: The check counts messages that are sent in the call itself
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1 or t.numel() == 0:
        return
    whole = t.contiguous().flatten().clone()
    for sent in (*range(rank, rank - world + 1, -1), *range(rank + 1, rank + 2 - world, -1)):
        chunks = whole.tensor_split(world)
        _exchange(chunks[sent % world], chunks[(sent - 1) % world])
    gloo = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    gloo.allreduce([whole]).wait()
    t.copy_(whole.view(t.shape))


# %% wrong: whole tensors, one round too many
# says: You sent whole tensors around the ring, and the sums are wrong. Cut the tensor into `world` chunks
# earns: 0 of 3
def ring_all_reduce(t):
    passing = t.contiguous()
    for _ in range(dist.get_world_size()):
        passing = _exchange(passing, passing)
        t.add_(passing)


# %% wrong: a line, at whose end the sum is
# says: Some ranks have the sum and others don't.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        received = torch.empty(t.shape, dtype=t.dtype)
        dist.recv(received, rank - 1)
        t.add_(received)
    if rank < world - 1:
        dist.send(t.contiguous(), rank + 1)


# %% wrong: adds up the whole storage of t
# says: Your code changed memory outside t.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = t.new_empty(0).set_(t.untyped_storage()).tensor_split(world)
    for step in range(2 * (world - 1)):
        adding = step < world - 1
        send = (rank - step) % world if adding else (rank - step + world) % world
        into = (send - 1) % world
        received = _exchange(chunks[send], chunks[into])
        chunks[into].copy_(chunks[into] + received if adding else received)


# %% wrong: passes on tenths of the sums and multiplies them again
# says: The ranks' results differ in their last bits, but every rank must have the same bytes.
# earns: 0 of 3
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    for step in range(world - 1):
        send = (rank - step) % world
        chunks[send - 1].add_(_exchange(chunks[send], chunks[send - 1]))
    own = chunks[(rank + 1) % world]
    passing = own * 0.1
    for step in range(world - 1):
        into = (rank - step) % world
        passing = _exchange(passing, torch.empty(len(chunks[into]), dtype=passing.dtype))
        chunks[into].copy_(passing * 10)
    t.copy_(flat.reshape(t.shape))


# %% wrong: chunks in NumPy, which has no bfloat16
# says: t may be bfloat16, which NumPy doesn't have. Do the sums with tensors.
# earns: 2 of 3
# caught: hidden
def ring_all_reduce(t):
    import numpy as np

    rank, world = dist.get_rank(), dist.get_world_size()
    whole = t.detach().numpy().copy().ravel()
    chunks = [torch.from_numpy(chunk) for chunk in np.array_split(whole, world)]
    for step in range(2 * (world - 1)):
        adding = step < world - 1
        send = (rank - step) % world if adding else (rank - step + world) % world
        into = (send - 1) % world
        received = _exchange(chunks[send], chunks[into])
        chunks[into].copy_(chunks[into] + received if adding else received)
    t.copy_(torch.from_numpy(whole).reshape(t.shape))


# %% wrong: a lock outside of the function
# says: The check runs your code in other processes, but something that your code uses can't be sent there.
# earns: 0 of 3
lock = __import__("threading").Lock()


def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    flat = t.reshape(-1).clone()
    chunks = flat.tensor_split(world)
    with lock:
        for s in range(world - 1):
            into = chunks[(rank - s - 1) % world]
            into += _exchange(chunks[(rank - s) % world], into)
        for s in range(world - 1):
            into = chunks[(rank - s) % world]
            into.copy_(_exchange(chunks[(rank + 1 - s) % world], into))
    t.copy_(flat.view(t.shape))


# %% wrong: writes back into a slice, which a single number doesn't have
# says: Slices such as `t[:]` need a dimension, but t can have none at all, a single number.
# earns: 2 of 3
# caught: hidden
# corner: 0-d
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    chunks = torch.tensor_split(t.clone().reshape(-1), world)
    for step in range(2 * (world - 1)):
        adding = step < world - 1
        send = (rank - step) % world if adding else (rank - step + world) % world
        into = chunks[(send - 1) % world]
        received = torch.empty_like(into)
        leaving = dist.isend(chunks[send], (rank + 1) % world)
        dist.recv(received, (rank - 1) % world)
        leaving.wait()
        into.copy_(into + received if adding else received)
    t[:] = torch.cat(chunks).reshape(t.shape)


# %% wrong: receives from any source, also what is empty
# says: Gloo can't receive an empty message from any source.
# earns: 2 of 3
# caught: hidden
# corner: empty
def ring_all_reduce(t):
    rank, world = dist.get_rank(), dist.get_world_size()
    if world == 1:
        return
    chunks = torch.tensor_split(t.clone().reshape(-1), world)
    for step in range(2 * (world - 1)):
        adding = step < world - 1
        send = (rank - step) % world if adding else (rank - step + world) % world
        into = chunks[(send - 1) % world]
        received = torch.empty_like(into)
        leaving = dist.isend(chunks[send], (rank + 1) % world)
        dist.recv(received)
        leaving.wait()
        into.copy_(into + received if adding else received)
    t.copy_(torch.cat(chunks).reshape(t.shape))
