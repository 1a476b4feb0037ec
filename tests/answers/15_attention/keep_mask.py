# corners: empty
def refuse(window, query_documents, key_documents):
    if window is not None and window < 1:
        raise ValueError("window")
    if (query_documents is None) != (key_documents is None):
        raise ValueError("documents")


def batched(keep):
    return keep[None, None] if keep.dim() == 2 else keep[:, None]


def before(queries, keys):
    return keys[..., None, :] <= queries[..., None]


def build(
    query_positions,
    key_positions,
    *,
    window=None,
    query_documents=None,
    key_documents=None,
    valid=None,
    order=torch.ge,
    near=lambda q, k, window: q - k < window,
    same=torch.eq,
    seen=lambda valid: valid[..., None, :],
):
    """A right mask with parts to replace."""
    refuse(window, query_documents, key_documents)
    q, k = query_positions[..., None], key_positions[..., None, :]
    keep = order(q, k)
    if window is not None:
        keep = keep & near(q, k, window)
    if query_documents is not None:
        keep = keep & same(query_documents[..., None], key_documents[..., None, :])
    if valid is not None:
        keep = keep & seen(valid)
    return batched(keep)


# %% right: logical_and over a list of conditions, with an explicit batch
def keep_mask(q, k, *, window=None, query_documents=None, key_documents=None, valid=None):
    refuse(window, query_documents, key_documents)
    given = [t for t in (q, k, query_documents, key_documents, valid) if t is not None]
    B = max((t.shape[0] for t in given if t.dim() == 2), default=1)
    q, k = q.expand(B, -1), k.expand(B, -1)
    conditions = [q.unsqueeze(2) >= k.unsqueeze(1)]
    if window is not None:
        conditions.append(k.unsqueeze(1) > q.unsqueeze(2) - window)
    if query_documents is not None:
        conditions.append(query_documents.expand(B, -1).unsqueeze(2) == key_documents.expand(B, -1).unsqueeze(1))
    if valid is not None:
        conditions.append(valid.expand(B, -1).unsqueeze(1))
    keep = conditions[0]
    for condition in conditions[1:]:
        keep = torch.logical_and(keep, condition)
    return keep[:, None]


# %% right: everything has a batch dimension first, hidden keys are filled in
def keep_mask(query_positions, key_positions, window=None, query_documents=None, key_documents=None, valid=None):
    refuse(window, query_documents, key_documents)
    q, k = torch.atleast_2d(query_positions)[:, None, :, None], torch.atleast_2d(key_positions)[:, None, None]
    hidden = k > q
    if window is not None:
        hidden = hidden | (k <= q - window)
    if query_documents is not None:
        same = torch.atleast_2d(query_documents)[:, None, :, None] == torch.atleast_2d(key_documents)[:, None, None]
        hidden = hidden.logical_or(~same)
    if valid is not None:
        hidden = hidden.logical_or(~torch.atleast_2d(valid)[:, None, None])
    return ~hidden


# %% right: masked_fill on a mask of ones, on the device of the positions
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    refuse(window, query_documents, key_documents)
    gap = query_positions[..., :, None] - key_positions[..., None, :]
    shapes = [gap.shape]
    if query_documents is not None:
        shapes += [(*query_documents.shape, 1), (*key_documents.shape[:-1], 1, key_documents.shape[-1])]
    if valid is not None:
        shapes.append((*valid.shape[:-1], 1, valid.shape[-1]))
    keep = torch.ones(torch.broadcast_shapes(*shapes), dtype=torch.bool, device=gap.device)
    keep = keep.masked_fill(gap < 0, False)
    if window is not None:
        keep = keep.masked_fill(gap >= window, False)
    if query_documents is not None:
        keep = keep.masked_fill(query_documents[..., None] != key_documents[..., None, :], False)
    if valid is not None:
        keep = keep.masked_fill(~valid[..., None, :], False)
    return batched(keep)


# %% right: products of zeros and ones, converted at the end
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    refuse(window, query_documents, key_documents)
    q, k = query_positions.unsqueeze(-1), key_positions.unsqueeze(-2)
    keep = (k <= q).int()
    if window is not None:
        keep = keep * (q - k).lt(window).int()
    if query_documents is not None:
        keep = keep * query_documents.unsqueeze(-1).eq(key_documents.unsqueeze(-2)).int()
    if valid is not None:
        keep = keep * valid.unsqueeze(-2).int()
    keep = keep > 0
    return keep.unsqueeze(-3) if keep.ndim == 3 else keep.unsqueeze(0).unsqueeze(0)


# %% right: vmap over the rows
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    refuse(window, query_documents, key_documents)
    Q, K = query_positions.shape[-1], key_positions.shape[-1]
    none = torch.zeros((), dtype=torch.int64, device=query_positions.device)
    given = [query_positions, key_positions]
    given += [none.expand(Q) if query_documents is None else query_documents]
    given += [none.expand(K) if key_documents is None else key_documents]
    given += [none.expand(K) == 0 if valid is None else valid]
    B = max((t.shape[0] for t in given if t.dim() == 2), default=1)

    def of_row(q, k, dq, dk, valid):
        keep = (k <= q[:, None]) & (dq[:, None] == dk) & valid
        return (keep & (k > q[:, None] - window) if window else keep)[None]

    return torch.vmap(of_row)(*[t.expand(B, -1) for t in given])


# %% wrong: torch.ones(Q, K).tril()
# says: Your mask follows from the sizes or the indices, as with `tril` and `arange`.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    def order(q, k):
        return torch.ones(q.shape[-2], k.shape[-1], dtype=torch.bool).tril()

    return build(query_positions, key_positions, window=window, query_documents=query_documents,
                 key_documents=key_documents, valid=valid, order=order)  # fmt: skip


# %% wrong: a triangle at the lower right
# says: Your mask follows from the sizes or the indices, as with `tril` and `arange`.
# earns: 0 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    refuse(window, query_documents, key_documents)
    Q, K = query_positions.shape[-1], key_positions.shape[-1]
    keep = torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
    if window is not None:
        keep = keep & ~torch.ones(Q, K, dtype=torch.bool).tril(K - Q - window)
    if query_documents is not None:
        keep = keep & (query_documents[..., None] == key_documents[..., None, :])
    if valid is not None:
        keep = keep & valid[..., None, :]
    return batched(keep)


# %% wrong: True where hidden, as nn.MultiheadAttention wants it
# says: Your mask is inverted: True marks the keys that are hidden
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def keep_mask(*args, **kwargs):
    return ~build(*args, **kwargs)


# %% wrong: key < query, nobody sees itself
# says: In your mask no query sees its own position.
# says: This check builds on the first one
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, order=torch.gt)


# %% wrong: key >= query
# says: Your mask is upside down: queries see the keys at later positions
# says: This check builds on the first one
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, order=torch.le)


# %% wrong: the window is one too wide
# says: Your window is one position off.
# says: Your window is one position off.
# earns: 0 of 2
# lesson
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, near=lambda q, k, window: q - k <= window)


# %% wrong: the window is one too narrow
# says: Your window is one position off.
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, near=lambda q, k, window: q - k < window - 1)


# %% wrong: a window by the absolute distance
# says: Your mask shows queries some keys that come after them.
# earns: 0 of 2
# lesson
def keep_mask(query_positions, key_positions, *, window=None, **kwargs):
    if window is None:
        return build(query_positions, key_positions, **kwargs)
    return build(query_positions, key_positions, window=window, **kwargs, order=lambda q, k: (q - k).abs() < window)


# %% wrong: the window in place of the order
# says: Your mask shows queries some keys that come after them.
# earns: 0 of 2
def keep_mask(query_positions, key_positions, *, window=None, **kwargs):
    if window is None:
        return build(query_positions, key_positions, **kwargs)
    return build(query_positions, key_positions, window=window, **kwargs, order=lambda q, k: q - k < window)


# %% wrong: documents by <=
# says: Your mask lets a query see keys of another document, because it compares documents by their order.
# earns: 0 of 2
# lesson
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, same=lambda q, k: q <= k)


# %% wrong: documents by >=
# says: Your mask lets a query see keys of another document, because it compares documents by their order.
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, same=torch.ge)


# %% wrong: valid laid along the queries
# says: You applied `valid` to the queries.
# earns: 1 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, seen=lambda valid: valid[..., None])


# %% wrong: valid for queries and keys
# says: You applied `valid` to the queries.
# earns: 1 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, seen=lambda valid: valid[..., None] & valid[..., None, :])


# %% wrong: valid is inverted
# says: `valid` is inverted in your mask
# earns: 1 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, seen=lambda valid: ~valid[..., None, :])


# %% wrong: no dimension for the heads
# says: The result must be (B, 1, Q, K), where B is the batch size of whichever tensor has one
# says: This check builds on the first one
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs)[:, 0]


# %% wrong: (Q, K) without a batch
# says: The result must be (B, 1, Q, K), where B is the batch size of whichever tensor has one
# says: This check builds on the first one
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    keep = build(*args, **kwargs)
    return keep[0, 0] if len(keep) == 1 else keep


# %% wrong: 0 and -inf instead of bool
# says: Return a bool tensor (expected
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def keep_mask(*args, **kwargs):
    return torch.zeros(()).masked_fill(~build(*args, **kwargs), -torch.inf)


# %% wrong: a mask of uint8
# says: Return a bool tensor (expected
# says: This check builds on the first one
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs).to(torch.uint8)


# %% wrong: only the first row of the batch
# says: The result must be (B, 1, Q, K), where B is the batch size of whichever tensor has one
# says: The result must be (B, 1, Q, K), where B is the batch size of whichever tensor has one
# earns: 1 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs)[:1]


# %% wrong: the first row's mask for every row
# says: Every row of the batch has the mask of the first row.
# earns: 1 of 2
def keep_mask(*args, **kwargs):
    keep = build(*args, **kwargs)
    return keep[:1].expand_as(keep)


# %% wrong: B only from the positions
# says: The result must be (B, 1, Q, K), where B is the batch size of whichever tensor has one
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    keep = build(query_positions, key_positions, **kwargs)
    return keep if 2 in (query_positions.dim(), key_positions.dim()) else keep[:1]


# %% wrong: the window is counted from the indices
# says: Your mask follows from the sizes or the indices, as with `tril` and `arange`.
# says: Your mask follows from the sizes or the indices, as with `tril` and `arange`.
# earns: 0 of 2
# caught: hidden
def keep_mask(*args, **kwargs):
    def near(q, k, window):
        return torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-1]) < window

    return build(*args, **kwargs, near=near)


# %% wrong: the window is counted from the last index
# says: Your mask follows from the sizes or the indices, as with `tril` and `arange`.
# earns: 0 of 2
# caught: hidden
def keep_mask(*args, **kwargs):
    def near(q, k, window):
        Q, K = q.shape[-2], k.shape[-1]
        return torch.arange(Q)[:, None] + K - Q - torch.arange(K) < window

    return build(*args, **kwargs, near=near)


# %% wrong: no window where there are documents
# says: Your mask takes no notice of `window` in this call.
# earns: 0 of 2
# caught: hidden
def keep_mask(*args, window=None, query_documents=None, **kwargs):
    if query_documents is None:
        return build(*args, window=window, **kwargs)
    refuse(window, query_documents, kwargs.get("key_documents"))
    return build(*args, query_documents=query_documents, **kwargs)


# %% wrong: no window for a batch of positions
# says: Your mask takes no notice of `window` in this call.
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, window=None, **kwargs):
    refuse(window, None, None)
    return build(query_positions, key_positions, window=window if query_positions.dim() == 1 else None, **kwargs)


# %% wrong: valid (K,) is ignored for a batch of positions
# says: Your mask takes no notice of `valid` in this call.
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, valid=None, **kwargs):
    ignored = valid is not None and valid.dim() == 1 and query_positions.dim() == 2
    return build(query_positions, key_positions, valid=None if ignored else valid, **kwargs)


# %% wrong: documents are ignored
# says: Your mask takes no notice of `documents` in this call.
# earns: 0 of 2
# lesson
def keep_mask(*args, query_documents=None, key_documents=None, **kwargs):
    refuse(None, query_documents, key_documents)
    return build(*args, **kwargs)


# %% wrong: key documents for both
# says: Your mask uses one tensor of documents for both sides.
# says: Two tensors don't fit together
# earns: 0 of 2
# caught: hidden
def keep_mask(*args, query_documents=None, key_documents=None, **kwargs):
    refuse(None, query_documents, key_documents)
    return build(*args, query_documents=key_documents, key_documents=key_documents, **kwargs)


# %% wrong: query documents for both
# says: Your mask uses one tensor of documents for both sides.
# says: Two tensors don't fit together
# earns: 0 of 2
# caught: hidden
def keep_mask(*args, query_documents=None, key_documents=None, **kwargs):
    refuse(None, query_documents, key_documents)
    return build(*args, query_documents=query_documents, key_documents=query_documents, **kwargs)


# %% wrong: the last documents of the keys for the queries
# says: Your mask uses one tensor of documents for both sides.
# earns: 0 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, query_documents=None, key_documents=None, **kwargs):
    refuse(None, query_documents, key_documents)
    if key_documents is not None:
        query_documents = key_documents[..., -query_positions.shape[-1] :]
    return build(query_positions, key_positions, query_documents=query_documents, key_documents=key_documents, **kwargs)


# %% wrong: three loops
# says: operations for 3 queries and 4 keys, and
# says: operations for 2 rows and
# earns: 0 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    if "meta" in str(query_positions.device):
        return build(query_positions, key_positions, **kwargs)
    keep = build(query_positions, key_positions, **kwargs)
    out = torch.zeros_like(keep)
    for b in range(keep.shape[0]):
        for q in range(keep.shape[2]):
            out[b, 0, q] = keep[b, 0, q]
    return out


# %% wrong: a list of rows that is stacked
# says: operations for 2 rows and
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    keep = build(query_positions, key_positions, **kwargs)
    return torch.stack([row & True for row in keep])


# %% wrong: lists in Python
# says: `tolist` turns the numbers into a list
# earns: 0 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    keep = build(query_positions, key_positions, **kwargs)
    if keep.is_meta:
        return keep
    return torch.tensor(keep.flatten().tolist(), dtype=torch.bool).view(keep.shape)


# %% wrong: torch.ones without a device
# says: Part of the work was done on another device than that of the positions
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    keep = build(query_positions, key_positions, **kwargs)
    return torch.ones(keep.shape, dtype=torch.bool) & keep


# %% wrong: the result is moved to the CPU
# says: Part of the work was done on another device than that of the positions
# earns: 1 of 2
# caught: hidden
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs).cpu()


# %% wrong: rows without keys are opened
# says: Your mask lets a query without any visible key see all keys.
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    keep = build(*args, **kwargs)
    return keep | ~keep.any(-1, keepdim=True)


# %% wrong: refuses nothing
# says: Your code takes a window below 1
# earns: 1 of 2
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    keep = query_positions[..., None] >= key_positions[..., None, :]
    if window is not None:
        keep = keep & (query_positions[..., None] - key_positions[..., None, :] < window)
    if query_documents is not None and key_documents is not None:
        keep = keep & (query_documents[..., None] == key_documents[..., None, :])
    if valid is not None:
        keep = keep & valid[..., None, :]
    return batched(keep)


# %% wrong: ignores half of the documents
# says: Your code takes documents of the queries without documents of the keys
# earns: 1 of 2
def keep_mask(*args, query_documents=None, key_documents=None, **kwargs):
    if query_documents is None or key_documents is None:
        return build(*args, **kwargs)
    return build(*args, query_documents=query_documents, key_documents=key_documents, **kwargs)


# %% wrong: if window, which is False for 0
# says: Your code takes a window below 1
# earns: 1 of 2
def keep_mask(*args, window=None, **kwargs):
    return build(*args, window=window or None, **kwargs)


# %% wrong: an assertion
# says: A call that must be refused raised another kind of exception: this must raise ValueError, but it raised AssertionError. Raise ValueError.
# earns: 1 of 2
def keep_mask(*args, window=None, **kwargs):
    assert window is None or window > 0
    return build(*args, window=window, **kwargs)


# %% wrong: a batch size of -1, which is unknown where nothing is there
# says: With no query or no key, a size of -1
# earns: 1 of 2
# corner: empty
# caught: hidden
def keep_mask(*args, **kwargs):
    keep = build(*args, **kwargs)
    return keep.reshape(-1, 1, *keep.shape[-2:])


# %% wrong: changes the positions
# says: Your code changed what the caller passed in
# says: Your code changed what the caller passed in
# earns: 0 of 2
def keep_mask(query_positions, key_positions, **kwargs):
    keep = build(query_positions, key_positions, **kwargs)
    if not keep.is_meta:
        query_positions.add_(1)
    return keep


# %% wrong: documents in place of the order
# says: Your mask shows queries some keys that come after them.
# earns: 0 of 2
def keep_mask(*args, query_documents=None, key_documents=None, **kwargs):
    if query_documents is None or key_documents is None:
        return build(*args, query_documents=query_documents, key_documents=key_documents, **kwargs)
    kinds = {"query_documents": query_documents, "key_documents": key_documents}
    return build(*args, **kinds, **kwargs, order=lambda q, k: torch.ones_like(q >= k))


# %% wrong: everybody sees everything
# says: Your mask shows queries some keys that come after them.
# says: This check builds on the first one
# earns: 0 of 2
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, order=lambda q, k: torch.ones_like(q >= k))


# %% wrong: positions in bfloat16, which can't tell 1003 from 1004
# says: Your mask compares positions as floats.
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    return build(query_positions.bfloat16(), key_positions.bfloat16(), **kwargs)


# %% right: reads one value
def keep_mask(query_positions, key_positions, *, valid=None, **kwargs):
    if valid is not None and not valid.is_meta and bool(valid.all()):
        valid = torch.ones_like(valid)
    return build(query_positions, key_positions, valid=valid, **kwargs)


# %% wrong: takes negative positions and documents for padding
# says: Your mask hides keys whose position is negative
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    if window is not None and window < 1:
        raise ValueError("window")
    if (query_documents is None) != (key_documents is None):
        raise ValueError("documents")
    q, k = query_positions[..., None], key_positions[..., None, :]
    keep = (q >= k) & (k >= 0)
    if window is not None:
        keep = keep & (q - k < window)
    if query_documents is not None:
        keep = keep & (query_documents[..., None] == key_documents[..., None, :]) & (key_documents[..., None, :] >= 0)
    if valid is not None:
        keep = keep & valid[..., None, :]
    return keep[None, None] if keep.dim() == 2 else keep[:, None]


# %% wrong: compares positions as float32
# says: Your mask compares positions as floats. float64 can't tell 2**60 from 2**60 + 1, float32 can't tell 2**30
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    if window is not None and window < 1:
        raise ValueError("window")
    if (query_documents is None) != (key_documents is None):
        raise ValueError("documents")
    q, k = query_positions[..., None].float(), key_positions[..., None, :].float()
    keep = q >= k
    if window is not None:
        keep = keep & (q - k < window)
    if query_documents is not None:
        keep = keep & (query_documents[..., None] == key_documents[..., None, :])
    if valid is not None:
        keep = keep & valid[..., None, :]
    return keep[None, None] if keep.dim() == 2 else keep[:, None]


# %% wrong: compares positions as float64
# says: Your mask compares positions as floats.
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, **kwargs):
    return build(query_positions.double(), key_positions.double(), **kwargs)


# %% wrong: everything in int32
# says: Your mask compares positions in fewer bits than they have.
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, query_documents=None, key_documents=None, **kwargs):
    refuse(None, query_documents, key_documents)
    if query_documents is not None:
        query_documents, key_documents = query_documents.int(), key_documents.int()
    kinds = {"query_documents": query_documents, "key_documents": key_documents}
    return build(query_positions.int(), key_positions.int(), **kinds, **kwargs)


# %% wrong: documents in int32
# says: Your mask takes two documents for one, because it compares their numbers as floats or in fewer bits
# earns: 1 of 2
# caught: hidden
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, same=lambda q, k: q.int() == k.int())


# %% wrong: documents in float32
# says: Your mask takes two documents for one, because it compares their numbers as floats or in fewer bits
# earns: 1 of 2
# caught: hidden
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, same=lambda q, k: q.float() == k.float())


# %% wrong: documents in float64
# says: Your mask takes two documents for one, because it compares their numbers as floats or in fewer bits
# earns: 1 of 2
# caught: hidden
def keep_mask(*args, **kwargs):
    return build(*args, **kwargs, same=lambda q, k: q.double() == k.double())


# %% wrong: padding gets the position 2**30
# says: Your mask gives padded keys another position in place of asking `valid`
# earns: 1 of 2
# caught: hidden
def keep_mask(query_positions, key_positions, *, valid=None, **kwargs):
    if valid is not None:
        key_positions = torch.where(valid, key_positions, 2**30)
    return build(query_positions, key_positions, **kwargs)
