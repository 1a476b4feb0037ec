# %% right: one tensor for keys and values, positions before heads
# With (2, B, L, H, D), a new position of a row is written to one block of memory, and `reorder` copies keys and values
# in one call. The views that come back are transposed, so `keys.flatten(2)` copies, where the author's doesn't.
class Cache:
    """Keys and values of one layer, in one tensor (2, B, max_length, H, D)."""

    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.memory = torch.zeros(2, batch, max_length, heads, dim, dtype=dtype)
        self.length = 0

    def append(self, k, v):
        """Store n more positions (B, H, n, D); return views (B, H, length, D) of all so far."""
        _, batch, max_length, heads, dim = self.memory.shape
        if k.dim() != 4 or k.shape != v.shape or k.shape != (batch, heads, k.shape[2], dim):
            raise ValueError(f"{tuple(k.shape)} and {tuple(v.shape)}")
        if {k.dtype, v.dtype} != {self.memory.dtype}:
            raise ValueError(f"{k.dtype} and {v.dtype} for {self.memory.dtype}")
        end = self.length + k.shape[2]
        if end > max_length:
            raise ValueError(f"{end} positions, but there is room for {max_length}")
        for memory, new in zip(self.memory, (k, v), strict=True):
            memory[:, self.length : end] = new.detach().transpose(1, 2)
        self.length = end
        keys, values = self.memory[:, :, :end].transpose(2, 3)
        return keys, values

    def rewind(self, length):
        """Forget everything from this position on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"{length} is not between 0 and {self.length}")
        self.length = length

    def reorder(self, rows):
        """Row i becomes what row rows[i] was; rows: (B,) int64."""
        batch = self.memory.shape[1]
        if rows.dtype == torch.bool or rows.shape != (batch,):
            raise ValueError(f"rows must be ({batch},) int64")
        if ((rows < 0) | (rows >= batch)).any():
            raise IndexError(f"a row outside 0 … {batch - 1}")
        filled = self.memory[:, :, : self.length]
        filled.copy_(filled[:, rows])


# %% wrong: torch.cat at each step
# says: Your code copies the whole cache to append one position
# It returns the right keys and values. But in 1,000 steps of one position, `cat` writes 500,500 positions, where the
# author's answer writes 1,000.
class Cache:
    """Keys and values of one layer, as long as they are."""

    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, 0, dim, dtype=dtype)
        self.v = torch.zeros(batch, heads, 0, dim, dtype=dtype)
        self.max_length, self.length = max_length, 0

    def append(self, k, v):
        """Store n more positions (B, H, n, D); return all so far."""
        if self.length + k.shape[2] > self.max_length:
            raise ValueError(f"there is room for {self.max_length}")
        self.k = torch.cat([self.k, k.detach()], 2)
        self.v = torch.cat([self.v, v.detach()], 2)
        self.length = self.k.shape[2]
        return self.k, self.v

    def rewind(self, length):
        """Forget everything from this position on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"{length} is not between 0 and {self.length}")
        self.k, self.v, self.length = self.k[:, :, :length], self.v[:, :, :length], length

    def reorder(self, rows):
        """Row i becomes what row rows[i] was; rows: (B,) int64."""
        self.k, self.v = self.k[rows], self.v[rows]
