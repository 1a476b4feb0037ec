# %% right: pads the queries to a square
# With `is_causal=True`, the mask begins in the upper left corner, so the new queries are moved to the last rows, and
# the rows above are cut off afterwards. It needs no mask, but for one query behind 99 keys it computes 100 rows.
def turn(x, positions):
    """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Causal attention with grouped heads, in which positions are angles."""

    def __init__(self, size, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def forward(self, x, cache=None):
        """x: (B, T, E), the next T positions; cache: what is stored; returns (B, T, E)."""
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        start = cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        q = F.pad(q, (0, 0, start, 0))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[:, :, start:]
        return self.out(y.transpose(1, 2).reshape(B, T, -1))


# %% wrong: the positions are right, and is_causal stays
# says: Your mask starts at the upper left corner of the scores.
# A single query then sees the first key and no other. Without a cache there are as many queries as keys, and both
# corners give the same mask.
def turn(x, positions):
    """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Attention whose mask is right without a cache."""

    def __init__(self, size, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def forward(self, x, cache=None):
        """x: (B, T, E), the next T positions; cache: what is stored; returns (B, T, E)."""
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        start = cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))
