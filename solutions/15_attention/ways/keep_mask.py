# %% right: vmap over the rows
# The rule is written for one row, with (Q,) and (K,), and `vmap` adds the batch, whichever tensors have one. Documents
# and `valid` that aren't given become constants that are compared all the same, so four tables of Q × K are made where
# the author makes one.
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    """The mask of one row, for all rows."""
    if window is not None and window < 1:
        raise ValueError(f"a window has at least 1 position, not {window}")
    if (query_documents is None) != (key_documents is None):
        raise ValueError("documents are needed for both queries and keys")
    if query_documents is None:
        query_documents, key_documents = query_positions.new_zeros(()), key_positions.new_zeros(())
        query_documents = query_documents.expand(query_positions.shape[-1])
        key_documents = key_documents.expand(key_positions.shape[-1])
    if valid is None:
        valid = key_positions.new_ones((), dtype=torch.bool).expand(key_positions.shape[-1])

    def of_row(q, k, q_document, k_document, is_valid):
        keep = (k <= q[:, None]) & (k_document == q_document[:, None]) & is_valid
        return keep if window is None else keep & (q[:, None] - k < window)

    given = (query_positions, key_positions, query_documents, key_documents, valid)
    rows = max((len(t) for t in given if t.dim() == 2), default=1)
    return torch.vmap(of_row)(*(t.expand(rows, -1) for t in given))[:, None]


# %% wrong: a triangle of ones
# says: Your mask follows from the sizes or the indices, as with `tril` and `arange`.
# It is right for a whole sequence, where the positions are 0, 1, 2, and so on. A query behind a cache has index 0 and a
# later position.
def keep_mask(query_positions, key_positions, *, window=None, query_documents=None, key_documents=None, valid=None):
    """The mask of a sequence that begins at 0."""
    if window is not None and window < 1:
        raise ValueError(f"a window has at least 1 position, not {window}")
    if (query_documents is None) != (key_documents is None):
        raise ValueError("documents are needed for both queries and keys")
    queries, keys = query_positions[..., None], key_positions[..., None, :]
    keep = torch.ones(torch.broadcast_shapes(queries.shape, keys.shape), dtype=torch.bool).tril()
    if window is not None:
        keep = keep & (queries - keys < window)
    if query_documents is not None:
        keep = keep & (query_documents[..., None] == key_documents[..., None, :])
    if valid is not None:
        keep = keep & valid[..., None, :]
    return keep[None, None] if keep.dim() == 2 else keep[:, None]
