import collections
import statistics
import time

import torch
import torch.distributed as dist

# corners: zeros, beyond 2**24, chance order, empty, nan


# %% right: names agreed on, then one all_reduce of values and counts in float64
def reduce_metrics(metrics):
    world = dist.get_world_size()
    lists = [None] * world
    dist.all_gather_object(lists, list(metrics))
    names = sorted(set().union(*lists))
    if not names:
        return {}
    table = torch.zeros(2, len(names), dtype=torch.float64)
    for k, name in enumerate(names):
        if name in metrics:
            table[0, k], table[1, k] = metrics[name], 1
    dist.all_reduce(table)
    return {name: (table[0, k] / table[1, k]).item() for k, name in enumerate(names)}


# %% right: gathered to rank 0, computed there, sent back
def reduce_metrics(metrics):
    world, rank = dist.get_world_size(), dist.get_rank()
    found = [None] * world if rank == 0 else None
    dist.gather_object(dict(metrics), found, dst=0)
    box = [None]
    if rank == 0:
        sums = {}
        for one in found:
            for name, value in one.items():
                total, count = sums.get(name, (0.0, 0))
                sums[name] = (total + value, count + 1)
        box = [{name: float(sums[name][0] / sums[name][1]) for name in sorted(sums)}]
    dist.broadcast_object_list(box, src=0)
    return box[0]


# %% right: one all_reduce a name, after the names are agreed on
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, sorted(metrics.keys()))
    out = {}
    for name in sorted({name for one in lists for name in one}):
        has = name in metrics
        pair = torch.tensor([metrics[name] if has else 0.0, float(has)], dtype=torch.float64)
        dist.all_reduce(pair)
        out[name] = float(pair[0] / pair[1])
    return out


# %% wrong: the given code
# says: You added values of different metrics, because collectives are matched by order, not by name. Sort the
# says: You added values of different metrics, because the ranks went through the names in different orders.
# earns: 0 of 1
# lesson
def reduce_metrics(metrics):
    out = {}
    for name, value in metrics.items():
        t = torch.tensor(value)
        dist.all_reduce(t)
        out[name] = (t / dist.get_world_size()).item()
    return out


# %% wrong: sorted names, one collective each
# says: The ranks made different numbers of collective calls, or passed tensors of different sizes to one
# earns: 0 of 1
# lesson
def reduce_metrics(metrics):
    out = {}
    for name in sorted(metrics):
        t = torch.tensor(metrics[name], dtype=torch.float64)
        dist.all_reduce(t)
        out[name] = (t / dist.get_world_size()).item()
    return out


# %% wrong: a collective under if rank == 0
# says: The ranks made different numbers of collective calls, or passed tensors of different sizes to one
# earns: 0 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    if dist.get_rank() == 0:
        dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one or {}})
    return {name: sum(one[name] for one in everybody) / len(everybody) for name in names}


# %% wrong: all values in one tensor, sorted
# says: gree on the names first.
# earns: 0 of 1
def reduce_metrics(metrics):
    names = sorted(metrics)
    t = torch.tensor([metrics[name] for name in names], dtype=torch.float64)
    dist.all_reduce(t)
    return dict(zip(names, (t / dist.get_world_size()).tolist(), strict=True))


# %% wrong: sums
# says: You summed the values instead of averaging them.
# earns: 0 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    return {name: sum(one.get(name, 0.0) for one in everybody) for name in names}


# %% wrong: divides by the world size
# says: If only some ranks have a metric, divide by their number, not by the world size.
# earns: 0 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    return {name: sum(one.get(name, 0.0) for one in everybody) / len(everybody) for name in names}


# %% wrong: keeps the common names only
# says: You dropped metrics that not every rank has.
# earns: 0 of 1
# lesson
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted(set.intersection(*(set(one) for one in everybody)))
    return {name: sum(one[name] for one in everybody) / len(everybody) for name in names}


# %% wrong: rank 0's names only
# says: You dropped metrics that not every rank has.
# earns: 0.5 of 1
# caught: hidden
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    found = {name: [one[name] for one in everybody if name in one] for name in sorted(everybody[0])}
    return {name: sum(values) / len(values) for name, values in found.items()}


# %% wrong: the mean of a float32 tensor
# says: float32 cannot hold the value: use float64
# earns: 0.5 of 1
# corner: beyond 2**24
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one] for name in names}
    return {name: torch.tensor(values).mean().item() for name, values in found.items()}


# %% wrong: only rank 0 returns the result
# says: Only some ranks return the result, but all ranks need it.
# earns: 0 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [one[name] for one in everybody if name in one] for name in names}
    if dist.get_rank() == 0:
        return {name: sum(values) / len(values) for name, values in found.items()}


# %% wrong: names in the order of the first appearance
# says: The result must be sorted by name, as plain floats.
# earns: 0.5 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = dict.fromkeys(name for one in everybody for name in one)
    found = {name: [one[name] for one in everybody if name in one] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


# %% wrong: tensors in the result
# says: The result must be sorted by name, as plain floats.
# earns: 0.5 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one] for name in names}
    return {name: torch.tensor(values, dtype=torch.float64).mean() for name, values in found.items()}


# %% wrong: nan is skipped
# says: The result is not the mean over the ranks that have the metric.
# earns: 0.5 of 1
# caught: hidden
# corner: nan
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one and one[name] == one[name]] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


# %% wrong: an empty dict returns early
# says: The ranks made different numbers of collective calls, or passed tensors of different sizes to one
# earns: 0.5 of 1
# caught: hidden
# corner: empty
def reduce_metrics(metrics):
    if not metrics:
        return {}
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


# %% wrong: writes the means into the argument
# says: Your code changed the argument.
# earns: 0.5 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one] for name in names}
    metrics.clear()
    metrics.update({name: sum(values) / len(values) for name, values in found.items()})
    return dict(metrics)


# %% wrong: a missing metric counts as 0 on that rank
# says: If only some ranks have a metric, divide by their number, not by the world size.
# earns: 0 of 1
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    names = sorted(set().union(*lists))
    t = torch.tensor([metrics.get(name, 0.0) for name in names], dtype=torch.float64)
    dist.all_reduce(t)
    return dict(zip(names, (t / len(lists)).tolist(), strict=True))


# %% right: an OrderedDict, after a pause on one rank
def reduce_metrics(metrics):
    time.sleep(0.3 * dist.get_rank())
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    out = collections.OrderedDict()
    for name in sorted({name for one in everybody for name in one}):
        out[name] = statistics.fmean([one[name] for one in everybody if name in one])
    return out


# %% wrong: only the own names
# says: A rank left out a metric that only another rank has. The result must be the same on all ranks.
# says: The result is not the mean over the ranks that have the metric.
# earns: 0 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    found = {name: [float(one[name]) for one in everybody if name in one] for name in sorted(metrics)}
    return {name: sum(values) / len(values) for name, values in found.items()}


# %% wrong: vectors in the result
# says: The result is not the mean over the ranks that have the metric.
# earns: 0 of 1
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    return {name: torch.tensor([one[name] for one in everybody if name in one]) for name in names}


# %% right: what one rank alone has is returned as it is
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [one[name] for one in everybody if name in one] for name in names}
    return {name: sum(values) / len(values) if len(values) > 1 else values[0] for name, values in found.items()}


# %% wrong: a value of 0 counts as missing
# says: 0.0 is a value like any other
# earns: 0.5 of 1
# corner: zeros
def reduce_metrics(metrics):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    out = {}
    for name in sorted({name for one in everybody for name in one}):
        found = [one.get(name) for one in everybody if one.get(name)]
        out[name] = sum(found) / len(found) if found else 0.0
    return out


# %% wrong: one all_reduce a name, sorted only where the ranks have different names
# says: You added values of different metrics, because
# earns: 0 of 1
# corner: chance order
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    out = {}
    same = all(set(names) == set(metrics) for names in lists)
    for name in metrics if same else sorted(set().union(*lists)):
        pair = torch.tensor([metrics.get(name, 0.0), float(name in metrics)], dtype=torch.float64)
        dist.all_reduce(pair)
        out[name] = (pair[0] / pair[1]).item()
    return dict(sorted(out.items()))


# %% wrong: one all_reduce a name, in the order of a set of all names
# says: These ranks agree by chance. You go through the names in the order of a set, which depends on their
# earns: 0.5 of 1
# corner: chance order
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    out = {}
    for name in set().union(*lists):
        pair = torch.tensor([metrics.get(name, 0.0), float(name in metrics)], dtype=torch.float64)
        dist.all_reduce(pair)
        out[name] = (pair[0] / pair[1]).item()
    return dict(sorted(out.items()))


# %% wrong: one tensor of all values, in the order of a set
# says: These ranks agree by chance. You go through the names in the order of a set, which depends on their
# earns: 0.5 of 1
# corner: chance order
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    names = list({name for one in lists for name in one})
    table = torch.tensor([[metrics.get(name, 0.0), name in metrics] for name in names], dtype=torch.float64)
    dist.all_reduce(table)
    return {name: (total / count).item() for name, (total, count) in sorted(zip(names, table, strict=True))}


# %% right: the order of a set, but that of rank 0 for all
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    names = [list(set().union(*lists))]
    dist.broadcast_object_list(names, src=0)
    out = {}
    for name in names[0]:
        pair = torch.tensor([metrics.get(name, 0.0), float(name in metrics)], dtype=torch.float64)
        dist.all_reduce(pair)
        out[name] = (pair[0] / pair[1]).item()
    return dict(sorted(out.items()))


# %% wrong: one tensor of all values, as long as the dict
# says: The ranks made different numbers of collective calls, or passed tensors of different sizes to one
# earns: 0 of 1
def reduce_metrics(metrics):
    names = sorted(metrics)
    values = torch.tensor([metrics[name] for name in names], dtype=torch.float64)
    dist.all_reduce(values)
    return dict(zip(names, (values / dist.get_world_size()).tolist(), strict=True))


# %% wrong: takes every name from its own dict
# says: A rank may have a name that another rank doesn't have.
# earns: 0 of 1
def reduce_metrics(metrics):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, list(metrics))
    names = sorted(set().union(*lists))
    values = torch.tensor([metrics[name] for name in names], dtype=torch.float64)
    dist.all_reduce(values)
    return dict(zip(names, (values / len(lists)).tolist()))


# %% wrong: returns a list of pairs
# says: Return a dict on every rank.
# earns: 0 of 1
def reduce_metrics(metrics):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, metrics)
    names = sorted(set().union(*found))
    return [(name, statistics.fmean(one[name] for one in found if name in one)) for name in names]
