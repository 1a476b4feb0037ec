# corners: zeros, half precision, empty, nan


def expanded(segment, values):
    return segment.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)


# %% right: scatter_reduce('mean', include_self=False) with an expanded index
def segment_mean(values, segment, num_segments):
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    return zeros.scatter_reduce(0, expanded(segment, values), values, "mean", include_self=False)


# %% right: scatter_add of values and of ones, clamped division under a where
def segment_mean(values, segment, num_segments):
    zeros = torch.zeros((num_segments, *values.shape[1:]), dtype=values.dtype, device=values.device)
    index = expanded(segment, values)
    sums = zeros.scatter_add(0, index, values)
    sizes = zeros.scatter_add(0, index, torch.ones_like(values))
    return torch.where(sizes > 0, sums / sizes.clamp(min=1), 0)


# %% right: divides every row by its segment's size (looked up by index), then adds
def segment_mean(values, segment, num_segments):
    sizes = segment.new_zeros(num_segments).index_add(0, segment, torch.ones_like(segment))
    share = values / sizes[segment].reshape(-1, *[1] * (values.dim() - 1))
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, share)


# %% right: bincount for the sizes
def segment_mean(values, segment, num_segments):
    out = values.new_zeros(num_segments, *values.shape[1:])
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    out.index_add_(0, segment, values)
    return out.flatten(1).div(sizes[:, None]).to(values.dtype).view_as(out) if out.dim() > 1 else out / sizes


# %% right: index_put_ with accumulate, after a range check
def segment_mean(values, segment, num_segments):
    if ((segment < 0) | (segment >= num_segments)).any():
        raise ValueError("no such segment")
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_put((segment,), values, accumulate=True)
    ones = torch.ones_like(segment)
    sizes = segment.new_zeros(num_segments).index_put((segment,), ones, accumulate=True)
    return sums / sizes.clamp(min=1).view(-1, *[1] * (values.dim() - 1))


# %% wrong: scatter_reduce('mean') with its default include_self=True
# says: The zeros you started from were averaged in
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def segment_mean(values, segment, num_segments):
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    return zeros.scatter_reduce(0, expanded(segment, values), values, "mean")


# %% wrong: forgets to divide
# says: Those are sums
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)


# %% wrong: divides by len(values)
# says: You divided by the number of all rows
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values) / len(values)


# %% wrong: divides by the number of segments
# says: You divided by the number of segments
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values) / num_segments


# %% wrong: copies rows instead of adding
# says: keeps one row per segment
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    return values.new_zeros(num_segments, *values.shape[1:]).scatter(0, expanded(segment, values), values)


# %% wrong: out[segment] += values
# says: keeps one row per segment
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def segment_mean(values, segment, num_segments):
    out = values.new_zeros(num_segments, *values.shape[1:])
    out[segment] += values
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return out / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: scatter_reduce with an (N, 1) index
# says: Only the first column was reduced
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def segment_mean(values, segment, num_segments):
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    index = segment.reshape(-1, *[1] * (values.dim() - 1))
    return zeros.scatter_reduce(0, index, values, "mean", include_self=False)


# %% wrong: scatter with a 1-d index
# says: A scatter needs an index with as many dimensions as values
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    return values.new_zeros(num_segments, *values.shape[1:]).scatter_reduce(
        0, segment, values, "mean", include_self=False
    )


# %% wrong: divides by sizes that may be 0
# says: A segment without rows gives 0 / 0
# earns: 2 of 3
# lesson
# corner: empty
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: divides by 0 and replaces every nan afterwards
# says: A nan that was in the data has disappeared
# earns: 2 of 3
# corner: nan
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments)
    return (sums / sizes.reshape(-1, *[1] * (values.dim() - 1))).nan_to_num()


# %% wrong: membership matrix times values
# says: A nan in one segment spoiled the others
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    if ((segment < 0) | (segment >= num_segments)).any():
        raise ValueError("no such segment")
    member = (torch.arange(num_segments)[:, None] == segment).to(values.dtype)
    sums = torch.tensordot(member, values, 1)
    return sums / member.sum(1).clamp(min=1).reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: adds 1e-6 to the sizes
# says: Adding a small number to the sizes makes every mean slightly wrong
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = values.new_zeros(num_segments).index_add(0, segment, values.new_ones(len(segment)))
    return sums / (sizes + 1e-6).reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: adds 1e-10 to the sizes
# says: Adding a small number to the sizes makes every mean slightly wrong
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = values.new_zeros(num_segments).index_add(0, segment, values.new_ones(len(segment)))
    return sums / (sizes + 1e-10).reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: treats every run of equal numbers as a segment of its own
# says: only its last run was counted
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    found, run, sizes = segment.unique_consecutive(return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(found), *values.shape[1:]).index_add(0, run, values)
    out = values.new_zeros(num_segments, *values.shape[1:])
    out[found] = sums / sizes.reshape(-1, *[1] * (values.dim() - 1))
    return out


# %% wrong: returns one row for every run
# says: so every run of equal numbers became a separate segment
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    found, run, sizes = segment.unique_consecutive(return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(found), *values.shape[1:]).index_add(0, run, values)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: returns rows for the occurring segments only
# says: Segments without rows must also be there (as zeros):
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    found, place, sizes = segment.unique(return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(found), *values.shape[1:]).index_add(0, place, values)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: as many rows as the largest segment asks for
# says: Segments without rows must also be there (as zeros):
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    n = int(segment.max()) + 1
    sums = values.new_zeros(n, *values.shape[1:]).index_add(0, segment, values)
    return sums / torch.bincount(segment).clamp(min=1).reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: one masked mean per segment
# says: The number of operations grows with the number of segments
# earns: 1 of 3
def segment_mean(values, segment, num_segments):
    if ((segment < 0) | (segment >= num_segments)).any():
        raise ValueError("no such segment")
    zero = values.new_zeros(values.shape[1:])
    rows = [values[segment == s].mean(0) if (segment == s).any() else zero for s in range(num_segments)]
    return torch.stack(rows)


# %% wrong: a loop over rows
# says: The number of operations grows
# earns: 1 of 3
def segment_mean(values, segment, num_segments):
    sums = [values.new_zeros(values.shape[1:])] * num_segments
    sizes = [0] * num_segments
    for row, s in zip(values, segment.tolist()):
        if not 0 <= s < num_segments:
            raise IndexError(s)
        sums[s] = sums[s] + row
        sizes[s] += 1
    return torch.stack([total / max(1, n) for total, n in zip(sums, sizes)])


# %% wrong: accumulates in float32
# says: The result must have the dtype of values
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = torch.zeros(num_segments, *values.shape[1:]).index_add(0, segment, values.float())
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: adds into a float32 target
# says: The result must have the dtype of values
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = torch.zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: float32 sums, converted back
# says: This is float32 precision in a float64 tensor
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = torch.zeros(num_segments, *values.shape[1:]).index_add(0, segment, values.float())
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return (sums / sizes.reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


# %% wrong: drops out-of-range rows
# says: Segment -1 must raise.
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    keep = (segment >= 0) & (segment < num_segments)
    values, segment = values[keep], segment[keep]
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: negative segments wrap around
# says: Segment -1 must raise.
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_put((segment,), values, accumulate=True)
    sizes = torch.zeros(num_segments, dtype=torch.int64).index_put(
        (segment,), torch.ones_like(segment), accumulate=True
    )
    return sums / sizes.clamp(min=1).reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: matrices only
# says: The rows may have any trailing shape
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, values.shape[1]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes[:, None]


# %% wrong: the sizes broadcast against the last dimension
# says: The rows may have any trailing shape
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / (sizes[:, None] if values.dim() > 1 else sizes)


# %% wrong: detaches the values
# says: No gradient reaches the values
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values.detach())
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: sorts the segments in place
# says: Your code changed what the caller passed in: the values in segment are no longer the same
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    order = segment.argsort(stable=True)
    values, sorted_segment = values[order], segment[order]
    segment.copy_(sorted_segment)
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: the gradient of the sum
# says: That is the gradient of the sum
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    means = sums / sizes.reshape(-1, *[1] * (values.dim() - 1))
    return sums + (means - sums).detach()


# %% wrong: forgets the device
# says: The result must be on the device of values
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    sums = torch.zeros(num_segments, *values.shape[1:], dtype=values.dtype).index_add(0, segment, values)
    sizes = torch.zeros(num_segments, dtype=torch.int64).index_add(0, segment, torch.ones_like(segment)).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% right: vmap over the segments with a selection
def segment_mean(values, segment, num_segments):
    if segment.numel() and ((segment < 0) | (segment >= num_segments)).any():
        raise IndexError
    flat = (
        values.reshape(values.shape[0], -1)
        if values.shape[0]
        else values.reshape(0, int(torch.tensor(values.shape[1:]).prod()))
    )

    def one(s):
        hit = (segment == s)[:, None]
        return torch.where(hit, flat, torch.zeros_like(flat)).sum(0) / hit.sum().clamp(min=1)

    out = torch.vmap(one)(torch.arange(num_segments))
    return out.reshape(num_segments, *values.shape[1:])


# %% right: embedding_bag
def segment_mean(values, segment, num_segments):
    if segment.numel() and (segment.min() < 0 or segment.max() >= num_segments):
        raise ValueError
    tail = values.shape[1:]
    if values.shape[0] == 0:
        return values.new_zeros(num_segments, *tail)
    order = segment.argsort(stable=True)
    starts = torch.searchsorted(segment[order], torch.arange(num_segments))
    flat = values.reshape(values.shape[0], -1)
    out = F.embedding_bag(order, flat, starts, mode="mean")
    return out.reshape(num_segments, *tail)


# %% right: index_reduce, half precision in float32
def segment_mean(values, segment, num_segments):
    wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    zeros = wide.new_zeros(num_segments, *values.shape[1:])
    return zeros.index_reduce(0, segment, wide, "mean", include_self=False).to(values.dtype)


# %% right: segment_reduce on sorted rows
def segment_mean(values, segment, num_segments):
    if segment.numel() and ((segment < 0).any() or (segment >= num_segments).any()):
        raise ValueError
    order = torch.argsort(segment, stable=True)
    lengths = torch.bincount(segment, minlength=num_segments)
    flat = values[order].reshape(len(values), max(1, values[:1].numel())) if len(values) else None
    if flat is None:
        return values.new_zeros(num_segments, *values.shape[1:])
    sums = torch.segment_reduce(flat, "sum", lengths=lengths, unsafe=True)
    return (sums / lengths.clamp(min=1)[:, None]).reshape(num_segments, *values.shape[1:])


# %% wrong: takes a sum of 0 for an empty segment
# says: A segment whose rows sum to 0 is not an empty one
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    s = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    n = (
        torch.zeros(num_segments, dtype=torch.int64, device=values.device)
        .index_add(0, segment, torch.ones_like(segment))
        .view(-1, *[1] * (values.dim() - 1))
    )
    return torch.where(s == 0, torch.zeros_like(s), s / n)


# %% wrong: sorted, then differences of a running sum
# says: it stays in a running sum
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    if segment.numel() and ((segment < 0) | (segment >= num_segments)).any():
        raise ValueError
    order = segment.argsort(stable=True)
    c = torch.cat([values.new_zeros(1, *values.shape[1:]), values[order].cumsum(0)])
    e = torch.searchsorted(segment[order], torch.arange(num_segments + 1))
    n = (e[1:] - e[:-1]).clamp(min=1).view(-1, *[1] * (values.dim() - 1))
    return (c[e[1:]] - c[e[:-1]]) / n


# %% wrong: refuses segments by assert
# says: raised another kind of exception
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    if values.device.type != "meta":
        assert ((segment >= 0) & (segment < num_segments)).all()
    sizes = torch.zeros(num_segments, dtype=torch.int64, device=values.device)
    sizes = sizes.index_add(0, segment, torch.ones_like(segment)).clamp(min=1)
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: float32 reciprocals of the sizes
# says: This is float32 precision
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    s = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    n = (
        torch.zeros(num_segments, device=values.device)
        .index_add(0, segment, torch.ones(len(segment), device=values.device))
        .clamp(min=1)
    )
    return s * (1 / n).to(values.dtype).view(-1, *[1] * (values.dim() - 1))


# %% wrong: gives zeros where anything raises
# says: Segment -1 must raise
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    try:
        s = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
        n = (
            torch.zeros(num_segments, dtype=torch.int64, device=values.device)
            .index_add(0, segment, torch.ones_like(segment))
            .view(-1, *[1] * (values.dim() - 1))
        )
        return s / n.clamp(min=1)
    except (IndexError, RuntimeError):
        return values.new_zeros(num_segments, *values.shape[1:])


# %% wrong: divides the rows of the caller
# says: Your code changed what the caller passed in: the values in values
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    n = torch.bincount(segment, minlength=num_segments).clamp(min=1)[segment].view(-1, *[1] * (values.dim() - 1))
    with torch.no_grad():
        values /= n
    return values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)


# %% wrong: a loop over the segments that occur
# says: number of operations grows
# earns: 1 of 3
def segment_mean(values, segment, num_segments):
    out = values.new_zeros(num_segments, *values.shape[1:])
    if ((segment < 0) | (segment >= num_segments)).any():
        raise ValueError
    for s in segment.unique():
        out = out.index_put((s[None],), values[segment == s].mean(0)[None])
    return out


# %% wrong: counts the values that are not 0
# says: A zero is a value like any other
# earns: 2 of 3
# corner: zeros
def segment_mean(values, segment, num_segments):
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    sizes = zeros.long().index_add(0, segment, (values != 0).long())
    return zeros.index_add(0, segment, values) / sizes.clamp(min=1)


# %% wrong: counts the rows that are not 0
# says: A zero is a value like any other
# earns: 2 of 3
# corner: zeros
def segment_mean(values, segment, num_segments):
    some = (values.reshape(len(values), -1) != 0).any(1) if len(values) else segment.bool()
    sizes = segment.new_zeros(num_segments).index_add(0, segment, some.long()).clamp(min=1)
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: counts in the dtype of the values
# says: in a dtype that can't hold their number
# earns: 2 of 3
# corner: half precision
# caught: hidden
def segment_mean(values, segment, num_segments):
    sizes = values.new_zeros(num_segments).index_add(0, segment, values.new_ones(len(segment))).clamp(min=1)
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% right: half precision is added in float32
def segment_mean(values, segment, num_segments):
    wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    sums = wide.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, wide)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return (sums / sizes.reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


# %% wrong: adds 1e-3 to the sizes
# says: A small number was added to the sizes
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments)
    return sums / (sizes.reshape(-1, *[1] * (values.dim() - 1)) + 1e-3)


# %% wrong: adds 1 to the sizes
# says: or 1 was added to each size
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments)
    return sums / (sizes.reshape(-1, *[1] * (values.dim() - 1)) + 1)


# %% wrong: divides by sizes of shape (S,)
# says: The sizes were divided along the columns
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    return sums / torch.bincount(segment, minlength=num_segments).clamp(min=1)


# %% wrong: sorts the segment numbers, not the rows
# says: You sorted the segment numbers and left the rows where they were
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    segment = segment.sort().values
    sums = values.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, values)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: reduces runs of rows that are not sorted
# says: You sorted the segment numbers and left the rows where they were
# says: This check builds on the first one
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    return torch.segment_reduce(values, "mean", lengths=torch.bincount(segment, minlength=num_segments), initial=0)


# %% wrong: a one-hot matrix, for matrices only
# says: The rows may have any trailing shape
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    member = F.one_hot(segment, num_segments).to(values.dtype)
    return member.t() @ values / member.sum(0).clamp(min=1)[:, None]


# %% wrong: one row for each number that occurs
# says: Segments without rows must also be there (as zeros):
# earns: 2 of 3
# corner: empty
def segment_mean(values, segment, num_segments):
    found, sizes = segment.unique(return_counts=True)
    index = segment.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    sums = values.new_zeros(len(found), *values.shape[1:]).scatter_add(0, index, values)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


# %% wrong: a one-hot matrix, the empty segments selected after the division
# says: A segment without rows put nan into the gradient: divide by sizes of at least 1.
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    member = F.one_hot(segment, num_segments).to(values.dtype).t()
    sizes = member.sum(1, keepdim=True)
    return torch.where(sizes > 0, (member / sizes) @ values, 0)


# %% wrong: a loop that makes 500 turns whenever it is called
# says: A loop that always makes the same number of turns is a loop, too
# earns: 1 of 3
def segment_mean(values, segment, num_segments):
    if len(segment) and not (0 <= int(segment.min()) and int(segment.max()) < num_segments):
        raise ValueError("no such segment")
    wide = torch.float32 if values.dtype in (torch.float16, torch.bfloat16) else values.dtype
    means = []
    for s in range(max(500, num_segments)):
        mine = segment == s
        rows = torch.where(mine.reshape(-1, *[1] * (values.dim() - 1)), values.to(wide), 0)
        means.append(rows.sum(0) / mine.sum().clamp(min=1))
    return torch.stack(means[:num_segments]).to(values.dtype)


# %% wrong: a loop over Python's numbers
# says: `tolist` leads to a loop in Python
# says: No gradient reaches the values
# earns: 0 of 3
def segment_mean(values, segment, num_segments):
    width = values[0].numel()
    sums, sizes = [[0.0] * width for _ in range(num_segments)], [0] * num_segments
    for row, s in zip(values.flatten(1).tolist(), segment.tolist(), strict=True):
        sizes[s] += 1
        sums[s] = [a + b for a, b in zip(sums[s], row, strict=True)]
    means = [[a / max(size, 1) for a in row] for row, size in zip(sums, sizes, strict=True)]
    return torch.tensor(means, dtype=values.dtype).reshape(num_segments, *values.shape[1:])


# %% wrong: a loop over NumPy's arrays, which no check sees
# says: No gradient reaches the values
# earns: 2 of 3
def segment_mean(values, segment, num_segments):
    rows, numbers = values.detach().numpy(), segment.numpy()
    means = [rows[numbers == s].mean(0) if (numbers == s).any() else 0 * rows[0] for s in range(num_segments)]
    return torch.tensor([mean.tolist() for mean in means])


# %% wrong: index_reduce, which counts in the dtype of the values where they have one dimension
# says: The rows were counted in half precision where values has one dimension
# earns: 2 of 3
# corner: half precision
# caught: hidden
def segment_mean(values, segment, num_segments):
    return values.new_zeros(num_segments, *values.shape[1:]).index_reduce(
        0, segment, values, "mean", include_self=False
    )


# %% right: a sparse matrix of ones times the rows, with a long error message on meta
def segment_mean(values, segment, num_segments):
    count = len(values)
    flat = values.reshape(count, math.prod(values.shape[1:])).to(torch.promote_types(values.dtype, torch.float32))
    places = torch.stack([segment, torch.arange(count, device=values.device)])
    ones = torch.ones(count, dtype=flat.dtype, device=values.device)
    sums = torch.sparse.mm(torch.sparse_coo_tensor(places, ones, (num_segments, count)), flat)
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1)
    return (sums / sizes[:, None]).to(values.dtype).reshape(num_segments, *values.shape[1:])


# %% right: counted in half precision by scatter_add, which adds in float32 on the CPU and rounds once
def segment_mean(values, segment, num_segments):
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    sums = wide.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, wide)
    sizes = values.new_zeros(num_segments).scatter_add(0, segment, values.new_ones(len(values))).clamp(min=1)
    return (sums / sizes.to(wide.dtype).reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


# %% wrong: counts in int16
# says: in a dtype that can't hold their number
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    sums = wide.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, wide)
    sizes = torch.zeros(num_segments, dtype=torch.int16, device=values.device)
    sizes = sizes.index_add(0, segment, torch.ones_like(segment, dtype=torch.int16)).clamp(min=1)
    return (sums / sizes.reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


# %% wrong: counts in uint8
# says: in a dtype that can't hold their number
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    sums = wide.new_zeros(num_segments, *values.shape[1:]).index_add(0, segment, wide)
    sizes = torch.zeros(num_segments, dtype=torch.uint8, device=values.device)
    sizes = sizes.index_add(0, segment, torch.ones_like(segment, dtype=torch.uint8)).clamp(min=1)
    return (sums / sizes.reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


# %% wrong: segment numbers in the dtype of the values
# says: bfloat16 can't tell 257 from 256
# earns: 2 of 3
# caught: hidden
def segment_mean(values, segment, num_segments):
    if ((segment < 0) | (segment >= num_segments)).any():
        raise IndexError("segment")
    numbers = torch.arange(num_segments, device=values.device).to(values.dtype)
    mine = (numbers[:, None] == segment).reshape(num_segments, len(values), *[1] * (values.dim() - 1))
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    return (torch.where(mine, wide, 0).sum(1) / mine.sum(1).clamp(min=1)).to(values.dtype)


# %% wrong: one tensor of sums for all calls of a shape
# says: the first result changed
# earns: 2 of 3
# caught: hidden
SUMS = {}


def segment_mean(values, segment, num_segments):
    sizes = torch.bincount(segment, minlength=num_segments).clamp(min=1).reshape(-1, *[1] * (values.dim() - 1))
    zeros = values.new_zeros(num_segments, *values.shape[1:])
    if values.requires_grad:
        return zeros.index_add(0, segment, values) / sizes
    sums = SUMS.setdefault((zeros.shape, zeros.dtype, zeros.device), zeros).zero_()
    return sums.index_add_(0, segment, values).div_(sizes)
