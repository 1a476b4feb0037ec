# %% right: agrees on the names, then adds one table
# Only the names are sent as objects. The sums and counts of all metrics are one float64 tensor, which takes one
# all_reduce more than the author's answer. A rank's memory doesn't grow with the values of the other ranks.
def reduce_metrics(metrics):
    """The means, from a table of sums and counts."""
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    names = sorted({name for one in lists for name in one})
    table = torch.zeros(2, len(names), dtype=torch.float64)
    for column, name in enumerate(names):
        if name in metrics:
            table[0, column], table[1, column] = metrics[name], 1
    dist.all_reduce(table)
    sums, counts = table.tolist()
    return {name: total / count for name, total, count in zip(names, sums, counts, strict=True)}


# %% wrong: sorted names, one all_reduce each
# says: The ranks made different numbers of collective calls
# Sorting repairs the second symptom and not the first: rank 0 still makes one call more, and waits in it.
def reduce_metrics(metrics):
    """The means, if all ranks have the same names."""
    out = {}
    for name in sorted(metrics):
        total = torch.tensor(metrics[name], dtype=torch.float64)
        dist.all_reduce(total)
        out[name] = (total / dist.get_world_size()).item()
    return out
