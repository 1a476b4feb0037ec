import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, Subset

# corners: beyond 2**24, empty


# %% right: strided indices, correct and seen reduced together
def distributed_accuracy(predict, dataset, batch_size):
    n = len(dataset)
    if not n:
        raise ValueError("empty")
    counts = torch.zeros(2, dtype=torch.int64)
    mine = Subset(dataset, list(range(dist.get_rank(), n, dist.get_world_size())))
    for x, y in DataLoader(mine, batch_size=batch_size):
        counts += torch.tensor([int((predict(x) == y).sum()), len(y)])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


# %% right: contiguous blocks and all_gather_object
def distributed_accuracy(predict, dataset, batch_size):
    if len(dataset) == 0:
        raise ValueError
    parts = torch.arange(len(dataset)).tensor_split(dist.get_world_size())
    correct = 0
    for x, y in DataLoader(Subset(dataset, parts[dist.get_rank()].tolist()), batch_size=batch_size):
        correct += int((predict(x) == y).sum())
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, (correct, len(parts[dist.get_rank()])))
    return sum(c for c, _ in everybody) / sum(n for _, n in everybody)


# %% right: DistributedSampler, the padded duplicates masked out by position
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if n == 0:
        raise ValueError("nothing to evaluate")
    sampler = DistributedSampler(dataset, shuffle=False)
    correct, place = 0, rank
    for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
        hits = predict(x) == y
        for hit in hits:
            correct += int(hit) if place < n else 0
            place += world
    total = torch.tensor(correct)
    dist.all_reduce(total)
    return float(total) / n


# %% right: no DataLoader at all
def distributed_accuracy(predict, dataset, batch_size):
    n = len(dataset)
    if n == 0:
        raise ValueError("empty")
    mine = range(dist.get_rank(), n, dist.get_world_size())
    correct = torch.zeros(1, dtype=torch.float64)
    for start in range(0, len(mine), batch_size):
        pairs = [dataset[i] for i in mine[start : start + batch_size]]
        x = torch.stack([x for x, _ in pairs])
        correct += (predict(x) == torch.tensor([y for _, y in pairs])).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: the given code
# says: Your code counts repeated samples twice, because DistributedSampler pads to equal shares.
# says: An empty dataset must raise ValueError on every rank.
# earns: 0 of 2
# lesson
def distributed_accuracy(predict, dataset, batch_size):
    sampler = DistributedSampler(dataset, shuffle=False)
    correct, seen = 0, 0
    for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
        correct += (predict(x) == y).sum()
        seen += len(y)
    acc = correct / seen
    dist.all_reduce(acc)
    return (acc / dist.get_world_size()).item()


# %% wrong: counts reduced, but padded samples counted
# says: Your code counts repeated samples twice, because DistributedSampler pads to equal shares.
# earns: 0 of 2
# lesson
def distributed_accuracy(predict, dataset, batch_size):
    if not len(dataset):
        raise ValueError
    sampler = DistributedSampler(dataset, shuffle=False)
    counts = torch.zeros(2, dtype=torch.int64)
    for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
        counts += torch.tensor([int((predict(x) == y).sum()), len(y)])
    dist.all_reduce(counts)
    return counts[0].item() / counts[1].item()


# %% wrong: drop_last=True
# says: Your code leaves out samples (by drop_last or integer division).
# earns: 0 of 2
# lesson
def distributed_accuracy(predict, dataset, batch_size):
    if not len(dataset):
        raise ValueError
    sampler = DistributedSampler(dataset, shuffle=False, drop_last=True)
    counts = torch.zeros(2, dtype=torch.int64)
    for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
        counts += torch.tensor([int((predict(x) == y).sum()), len(y)])
    dist.all_reduce(counts)
    return counts[0].item() / counts[1].item()


# %% wrong: blocks of n // world
# says: Your code leaves out samples (by drop_last or integer division).
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    size = n // world
    counts = torch.zeros(2, dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank * size, (rank + 1) * size)), batch_size=batch_size):
        counts += torch.tensor([int((predict(x) == y).sum()), len(y)])
    dist.all_reduce(counts)
    return counts[0].item() / max(1, counts[1].item())


# %% wrong: exact shares, mean of accuracies
# says: You averaged the ranks' accuracies, but their shares have different sizes.
# earns: 0 of 2
# lesson
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = seen = 0
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += int((predict(x) == y).sum())
        seen += len(y)
    acc = torch.tensor(correct / seen)
    dist.all_reduce(acc)
    return (acc / world).item()


# %% wrong: mean of accuracies with max(seen, 1)
# says: You averaged the ranks' accuracies, but their shares have different sizes.
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = seen = 0
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += int((predict(x) == y).sum())
        seen += len(y)
    acc = torch.tensor(correct / max(seen, 1))
    dist.all_reduce(acc)
    return (acc / world).item()


# %% wrong: every rank evaluates everything
# says: Every rank predicted the whole dataset, so the work is not shared.
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    if not len(dataset):
        raise ValueError
    correct = sum(int((predict(x) == y).sum()) for x, y in DataLoader(dataset, batch_size=batch_size))
    return correct / len(dataset)


# %% wrong: a rank without samples returns early
# says: One rank waits in a collective that the other rank never reaches. Every rank must make the same calls,
# earns: 1 of 2
# caught: hidden
# corner: empty
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    mine = range(rank, n, world)
    if not len(mine):
        return 0.0
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, mine), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: dist.reduce to rank 0
# says: Only one rank has the right result, but all ranks need it.
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.reduce(correct, 0)
    return correct.item() / n


# %% wrong: only rank 0 returns the result
# says: Only one rank has the right result, but all ranks need it.
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    if rank == 0:
        return correct.item() / n


# %% wrong: an empty dataset gives 0.0
# says: An empty dataset must raise ValueError on every rank.
# earns: 1 of 2
# caught: hidden
# corner: empty
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / max(n, 1)


# %% wrong: an empty dataset raises ZeroDivisionError
# says: An empty dataset must raise ValueError on every rank.
# earns: 1 of 2
# caught: hidden
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: returns a tensor
# says: Return a Python float.
# earns: 1 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct / n


# %% wrong: prints the accuracy
# says: The function returned nothing. It must return the accuracy.
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    print(correct / n)


# %% wrong: rank 0 takes the larger half and one more
# says: A rank predicted more than its share of the samples, so the work is not shared evenly.
# earns: 1 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, rank = len(dataset), dist.get_rank()
    if not n:
        raise ValueError
    first = min(n, n // 2 + 2)
    mine = range(first) if rank == 0 else range(first, n) if rank == 1 else range(0)
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, mine), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: the shares overlap by one
# says: Not every sample was predicted.
# earns: 1 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    size = -(-n // world)
    correct = torch.zeros((), dtype=torch.int64)
    mine = range(max(0, rank * size - 1), min(n, (rank + 1) * size - 1))
    for x, y in DataLoader(Subset(dataset, mine), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% right: each verdict in a table, joined by the maximum
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if n == 0:
        raise ValueError("empty")
    mine, table, place = range(rank, n, world), torch.zeros(n), 0
    for x, y in DataLoader(Subset(dataset, mine), batch_size=batch_size):
        for hit in predict(x) == y:
            table[mine[place]] = float(hit)
            place += 1
    dist.all_reduce(table, op=dist.ReduceOp.MAX)
    return float(table.mean())


# %% right: sleeps on one rank
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if n == 0:
        raise ValueError("empty")
    time.sleep(0.3 * rank)
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: two numbers in a tensor
# says: The result is not the accuracy over the whole dataset.
# earns: 0 of 2
def distributed_accuracy(predict, dataset, batch_size):
    return torch.tensor([0.25, 0.75])


# %% wrong: a rank without samples raises
# says: A rank without samples must not raise an error; it takes part with a count of 0. Only an empty dataset
# earns: 1 of 2
# caught: hidden
# corner: empty
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    mine = range(rank, n, world)
    if not len(mine):
        raise ValueError("no samples here")
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, mine), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: one all_reduce for each batch
# says: One rank waits in a collective that the other rank never reaches. Every rank must make the same calls,
# earns: 1 of 2
# caught: hidden
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    total = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct = (predict(x) == y).sum()
        dist.all_reduce(correct)
        total += correct
    return total.item() / n


# %% wrong: one large batch
# says: A batch was larger than batch_size.
# earns: 1 of 2
def distributed_accuracy(predict, dataset, batch_size):
    n, world, rank = len(dataset), dist.get_world_size(), dist.get_rank()
    if not n:
        raise ValueError
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=n):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: adds the counts in float32
# says: You add the ranks' counts in a dtype that can't represent them. float32 represents all integers only up
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def distributed_accuracy(predict, dataset, batch_size):
    n = len(dataset)
    if n == 0:
        raise ValueError("empty")
    mine = Subset(dataset, range(dist.get_rank(), n, dist.get_world_size()))
    correct = sum((predict(x) == y).sum().item() for x, y in DataLoader(mine, batch_size=batch_size))
    counts = torch.tensor([correct, len(mine)], dtype=torch.float32)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


# %% wrong: adds the counts in int32
# says: to 2**24, and int32 ends before 2**31. A dataset may have more samples. Pass int64 or float64 to the collective.
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def distributed_accuracy(predict, dataset, batch_size):
    n = len(dataset)
    if n == 0:
        raise ValueError("empty")
    correct = torch.zeros((), dtype=torch.int32)
    mine = Subset(dataset, range(dist.get_rank(), n, dist.get_world_size()))
    for x, y in DataLoader(mine, batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: adds the counts in float32 on rank 0 and broadcasts the sum
# says: You add the ranks' counts in a dtype that can't represent them. float32 represents all integers only up
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def distributed_accuracy(predict, dataset, batch_size):
    n = len(dataset)
    if n == 0:
        raise ValueError("empty")
    mine = Subset(dataset, range(dist.get_rank(), n, dist.get_world_size()))
    correct = torch.zeros(1)
    for x, y in DataLoader(mine, batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.reduce(correct, 0)
    dist.broadcast(correct, 0)
    return correct.item() / n


# %% wrong: means in float32, times the sizes
# says: You add counts that are not integers, because you compute them from a float32 mean times a size. Count
# earns: 1 of 2
# caught: hidden
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty")
    right = []
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        right.append(predict(x) == y)
    size = sum(map(len, right))
    mean = torch.cat(right).float().mean() if size else torch.tensor(0.0)
    total = mean.double() * size
    dist.all_reduce(total)
    return total.item() / n


# %% right: shares of the whole in float64
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty")
    right = 0
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        right += int((predict(x) == y).sum())
    part = torch.tensor(right / n, dtype=torch.float64)
    dist.all_reduce(part)
    return part.item()


# %% wrong: each rank divides by the number of its samples
# says: A rank without samples must not divide by zero. It still takes part, with a count of 0.
# earns: 1 of 2
# caught: hidden
def distributed_accuracy(predict, dataset, batch_size):
    n = len(dataset)
    if not n:
        raise ValueError("empty")
    correct, seen = 0, 0
    mine = Subset(dataset, list(range(dist.get_rank(), n, dist.get_world_size())))
    for x, y in DataLoader(mine, batch_size=batch_size):
        correct, seen = correct + int((predict(x) == y).sum()), seen + len(y)
    share = torch.tensor(correct / seen * (seen / n), dtype=torch.float64)
    dist.all_reduce(share)
    return share.item()


# %% wrong: gathers counts in float32
# says: You add the ranks' counts in a dtype that can't represent them.
# earns: 1 of 2
# caught: hidden
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    stats = torch.zeros(2)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        stats += torch.tensor([float((predict(x) == y).sum()), len(y)])
    gathered = [torch.zeros_like(stats) for _ in range(world)]
    dist.all_gather(gathered, stats)
    correct, total = torch.stack(gathered).sum(0)
    return (correct / total).item()


# %% right: gathers a flag for each sample in uint8
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    flags, place = torch.zeros(-(-n // world), dtype=torch.uint8), 0
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        flags[place : place + len(y)] = (predict(x) == y).to(torch.uint8)
        place += len(y)
    gathered = [torch.empty_like(flags) for _ in range(world)]
    dist.all_gather(gathered, flags)
    return int(torch.stack(gathered).sum()) / n


# %% right: gathers predictions and labels in int32 and cuts off the padding
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    both, place = torch.full((2, -(-n // world)), -1, dtype=torch.int32), 0
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        both[:, place : place + len(y)] = torch.stack([predict(x), y])
        place += len(y)
    gathered = [torch.empty_like(both) for _ in range(world)]
    dist.all_gather(gathered, both)
    predictions, labels = torch.stack(gathered, -1).flatten(1)[:, :n]
    return (predictions == labels).sum().item() / n


# %% right: a table of flags in uint8, each place filled by one rank, added up
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    table, place = torch.zeros(n, dtype=torch.uint8), rank
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        table[place : place + world * len(y) : world] = (predict(x) == y).to(torch.uint8)
        place += world * len(y)
    dist.all_reduce(table)
    return table.sum().item() / n


# %% right: gathers the predictions of each batch, with as many batches on every rank
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    correct, share = 0, -(-n // world)
    for start in range(0, share, batch_size):
        mine = [i for i in range(rank + start * world, n, world)][: min(batch_size, share - start)]
        flags = torch.zeros(min(batch_size, share - start), dtype=torch.int32)
        if mine:
            x, y = next(iter(DataLoader(Subset(dataset, mine), batch_size=batch_size)))
            flags[: len(mine)] = predict(x) == y
        every = torch.empty(world * len(flags), dtype=torch.int32)
        dist.all_gather_into_tensor(every, flags)
        correct += int(every.sum())
    return correct / n


# %% wrong: counts in float32, adds in float64
# says: You count the right samples in a dtype that can't represent all counts.
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    correct = torch.tensor(0.0)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).float().sum()
    correct = correct.double()
    dist.all_reduce(correct)
    return correct.item() / n


# %% wrong: gathers float32 counts into one tensor
# says: You add the ranks' counts in a dtype that can't represent them.
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    correct = 0
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum().item()
    every = torch.empty(world)
    dist.all_gather_into_tensor(every, torch.tensor([float(correct)]))
    return every.sum().item() / n


# %% wrong: gathers float32 counts as objects
# says: You add the ranks' counts in a dtype that can't represent them.
# earns: 1 of 2
# caught: hidden
# corner: beyond 2**24
def distributed_accuracy(predict, dataset, batch_size):
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("empty dataset")
    correct = torch.zeros(1)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    every = [None] * world
    dist.all_gather_object(every, correct)
    return (torch.stack(every).sum() / n).item()
