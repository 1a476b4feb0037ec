# %% right: keeps the sampler, and leaves out its padding
# DistributedSampler gives rank r the positions r, r + world, and so on, and pads behind position n - 1. What it has
# padded isn't counted, but it is still predicted: 12 samples instead of 11 on two ranks. The code depends on this
# order, so `shuffle` must stay False.
def distributed_accuracy(predict, dataset, batch_size):
    """The accuracy, without the samples that the sampler has added."""
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("the dataset is empty: there is no accuracy")
    sampler = DistributedSampler(dataset, shuffle=False)
    correct, place = torch.zeros((), dtype=torch.int64), rank
    for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
        positions = place + world * torch.arange(len(y))
        correct += ((predict(x) == y) & (positions < n)).sum()
        place += world * len(y)
    dist.all_reduce(correct)
    return correct.item() / n


# %% right: one block of samples for each rank
# `tensor_split` makes shares of neighbouring samples, whose sizes differ by one at most. The counts are Python numbers,
# so there is no dtype to choose, but `all_gather_object` pickles them and makes two collectives.
def distributed_accuracy(predict, dataset, batch_size):
    """The accuracy, from the counts of all ranks."""
    if len(dataset) == 0:
        raise ValueError("the dataset is empty: there is no accuracy")
    world = dist.get_world_size()
    mine = torch.arange(len(dataset)).tensor_split(world)[dist.get_rank()].tolist()
    correct = 0
    for x, y in DataLoader(Subset(dataset, mine), batch_size=batch_size):
        correct += int((predict(x) == y).sum())
    everybody = [None] * world
    dist.all_gather_object(everybody, correct)
    return sum(everybody) / len(dataset)


# %% wrong: adds the counts, padding included
# says: Your code counts repeated samples twice, because DistributedSampler pads to equal shares.
# Adding counts instead of averaging accuracies is right. But with 11 samples on 2 ranks, `seen` is 12.
def distributed_accuracy(predict, dataset, batch_size):
    """The accuracy over all samples, some of them counted twice."""
    if len(dataset) == 0:
        raise ValueError("the dataset is empty: there is no accuracy")
    sampler = DistributedSampler(dataset, shuffle=False)
    counts = torch.zeros(2, dtype=torch.int64)
    for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
        counts += torch.tensor([int((predict(x) == y).sum()), len(y)])
    dist.all_reduce(counts)
    correct, seen = counts.tolist()
    return correct / seen
