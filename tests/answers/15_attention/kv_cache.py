# corners: empty, maximum
import torch


class Base:
    """A right cache with parts to replace."""

    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, max_length, dim, dtype=dtype)
        self.v = torch.zeros(batch, heads, max_length, dim, dtype=dtype)
        self.length = 0

    def look(self, k, v):
        batch, heads, max_length, dim = self.k.shape
        if k.dim() != 4 or k.shape != v.shape or k.shape != (batch, heads, k.shape[2], dim):
            raise ValueError("shape")
        if k.dtype != self.k.dtype or v.dtype != self.k.dtype:
            raise ValueError("dtype")
        if self.length + k.shape[2] > max_length:
            raise ValueError("room")

    @torch.no_grad()
    def write(self, k, v):
        end = self.length + k.shape[2]
        self.k[:, :, self.length : end] = k
        self.v[:, :, self.length : end] = v
        self.length = end

    def read(self):
        return self.k[:, :, : self.length], self.v[:, :, : self.length]

    def append(self, k, v):
        self.look(k, v)
        self.write(k, v)
        return self.read()

    def rewind(self, length):
        if length < 0 or length > self.length:
            raise ValueError(length)
        self.length = length

    def look_at(self, rows):
        batch = self.k.shape[0]
        if rows.dtype == torch.bool or rows.shape != (batch,):
            raise ValueError("rows")
        if rows.min() < 0 or rows.max() >= batch:
            raise IndexError("rows")

    def move(self, rows):
        n = self.length
        self.k[:, :, :n] = self.k[rows, :, :n]
        self.v[:, :, :n] = self.v[rows, :, :n]

    def reorder(self, rows):
        self.look_at(rows)
        self.move(rows)


# %% right: one tensor for both, narrow and copy_, index_select
class Cache:
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.both = torch.empty(2, batch, heads, max_length, dim, dtype=dtype)
        self.size, self.end = (batch, heads, dim), 0

    @property
    def length(self):
        return self.end

    def append(self, k, v):
        for t in (k, v):
            if t.ndim != 4 or (t.shape[0], t.shape[1], t.shape[3]) != self.size or t.dtype != self.both.dtype:
                raise ValueError("another shape or dtype")
        n = k.size(2)
        if n != v.size(2) or self.end + n > self.both.size(3):
            raise ValueError("n")
        for memory, new in zip(self.both, (k, v), strict=True):
            memory.narrow(2, self.end, n).copy_(new.detach())
        self.end += n
        return tuple(self.both.narrow(3, 0, self.end))

    def rewind(self, length):
        if length not in range(self.end + 1):
            raise ValueError("rewind")
        self.end = length

    def reorder(self, rows):
        if rows.dtype != torch.int64 or len(rows) != self.size[0]:
            raise ValueError("rows")
        if not all(0 <= row < self.size[0] for row in rows.tolist()):
            raise IndexError("rows")
        filled = self.both.narrow(3, 0, self.end)
        filled.copy_(filled.index_select(1, rows))


# %% right: registered buffers of a module, (B, L, H, D) with transposed views
class Cache(torch.nn.Module):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, max_length, heads, dim, dtype=dtype), persistent=False)
        self.length = 0

    @torch.no_grad()
    def append(self, k, v):
        batch, room, heads, dim = self.keys.shape
        wanted = (batch, heads, k.shape[-2], dim)
        if k.shape != wanted or v.shape != wanted or {k.dtype, v.dtype} != {self.keys.dtype}:
            raise ValueError(f"{wanted}")
        start, end = self.length, self.length + wanted[2]
        if end > room:
            raise ValueError("full")
        self.keys[:, start:end].copy_(k.transpose(1, 2))
        self.values[:, start:end].copy_(v.transpose(1, 2))
        self.length = end
        return self.keys[:, :end].transpose(1, 2), self.values[:, :end].transpose(1, 2)

    def rewind(self, length):
        if 0 <= length <= self.length:
            self.length = length
        else:
            raise ValueError(length)

    def reorder(self, rows):
        batch = self.keys.shape[0]
        if rows.dtype == torch.bool or tuple(rows.shape) != (batch,) or not ((0 <= rows) & (rows < batch)).all():
            raise ValueError(rows)
        for memory in (self.keys, self.values):
            memory[:, : self.length] = memory[:, : self.length][rows]


# %% right: (B, H, L, 2D), split where it is read
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.memory = torch.zeros(batch, heads, max_length, 2 * dim, dtype=dtype)
        self.k, self.v = self.memory.chunk(2, -1)
        self.length = 0

    def write(self, k, v):
        end = self.length + k.shape[2]
        self.memory[:, :, self.length : end] = torch.cat([k.detach(), v.detach()], -1)
        self.length = end


# %% right: one row after the other, from copies; index_copy_ along the positions
class Cache(Base):
    def write(self, k, v):
        n = k.shape[2]
        places = torch.arange(self.length, self.length + n)
        self.k.index_copy_(2, places, k.detach())
        self.v.index_copy_(2, places, v.detach())
        self.length += n

    def move(self, rows):
        for memory in (self.k, self.v):
            old = [memory[row, :, : self.length].clone() for row in rows.tolist()]
            for place, row in enumerate(old):
                memory[place, :, : self.length] = row


# %% wrong: torch.cat at each step
# says: Your code copies the whole cache to append one position
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, 0, dim, dtype=dtype)
        self.v, self.room, self.length = self.k, max_length, 0

    def append(self, k, v):
        if self.length + k.shape[2] > self.room:
            raise ValueError("room")
        self.k = torch.cat([self.k[:, :, : self.length], k], 2)
        self.v = torch.cat([self.v[:, :, : self.length], v], 2)
        self.length += k.shape[2]
        return self.k, self.v


# %% wrong: takes new memory at each step
# says: To append one position (24 numbers in k and 24 in v) after 151, your code made or copied
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, 0, dim, dtype=dtype)
        self.v, self.room, self.length = self.k, max_length, 0

    def append(self, k, v):
        end = self.length + k.shape[2]
        for name, new in (("k", k), ("v", v)):
            longer = new.new_empty(*k.shape[:2], end, k.shape[3])
            longer[:, :, : self.length] = getattr(self, name)[:, :, : self.length]
            longer[:, :, self.length :] = new
            setattr(self, name, longer)
        self.length = end
        return self.k, self.v


# %% wrong: returns the whole memory
# says: Your `append` returns all 10 places of the memory, the empty ones too.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Cache(Base):
    def read(self):
        return self.k, self.v


# %% wrong: returns the new positions
# says: Your `append` returns only the positions that came with this call.
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    def append(self, k, v):
        start = self.length
        super().append(k, v)
        return self.k[:, :, start : self.length], self.v[:, :, start : self.length]


# %% wrong: returns clones
# says: You return copies: to append one position, a clone made
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Cache(Base):
    def read(self):
        return tuple(t.clone() for t in super().read())


# %% wrong: returns other memory in turn, without a copy by name
# says: What `append` returns is in other memory at each step.
# earns: 1 of 2
class Cache(Base):
    def append(self, k, v):
        keys, values = super().append(k, v)
        if k.shape[2] == 1 and self.length > 152:
            return torch.from_numpy(keys.numpy().copy()), torch.from_numpy(values.numpy().copy())
        return keys, values


# %% wrong: stores with the graph
# says: k and v had a graph, and now what is stored has one
# earns: 1 of 2
# lesson
class Cache(Base):
    def write(self, k, v):
        end = self.length + k.shape[2]
        self.k[:, :, self.length : end] = k
        self.v[:, :, self.length : end] = v
        self.length = end


# %% wrong: tells the memory that it must not require grad
# says: k and v had a graph, and your code raised when it stored them (
# earns: 1 of 2
class Cache(Base):
    def write(self, k, v):
        end = self.length + k.shape[2]
        self.k[:, :, self.length : end] = torch.from_numpy(k.numpy()) if k.dtype != torch.bfloat16 else k
        self.v[:, :, self.length : end] = v.detach()
        self.length = end


# %% wrong: returns the keys twice
# says: The values that come back are the keys.
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    def read(self):
        return self.k[:, :, : self.length], self.k[:, :, : self.length]


# %% wrong: each piece is written at 0
# says: Your second piece was written over the first one
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    def write(self, k, v):
        n = k.shape[2]
        self.k[:, :, :n], self.v[:, :, :n] = k.detach(), v.detach()
        self.length += n


# %% wrong: the newest position first
# says: what `append` returned is not what was appended, in this order
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    def write(self, k, v):
        super().write(k.flip(2), v.flip(2))


# %% wrong: length counts calls
# says: After 3 positions `length` must be 3, and yours is 1.
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    calls = 0

    def append(self, k, v):
        out, self.calls = super().append(k, v), self.calls + 1
        return out

    def __getattribute__(self, name):
        asked = super().__getattribute__(name)
        inside = __import__("sys")._getframe(1).f_code.co_name in ("append", "write", "look", "read", "rewind", "move")
        return super().__getattribute__("calls") if name == "length" and not inside else asked


# %% wrong: memory is taken at the first append
# says: The first `append` of one position (24 numbers in k and 24 in v) made 4,800 numbers at once.
# earns: 1 of 2
class Cache(Base):
    def __init__(self, *sizes, dtype=torch.float32):
        self.sizes, self.k, self.length = sizes, None, 0

    def append(self, k, v):
        if self.k is None:
            super().__init__(*self.sizes)
        return super().append(k, v)


# %% wrong: memory that doubles
# says: The first `append` of one position (24 numbers in k and 24 in v) made 1,536 numbers at once.
# says: This check builds on the first one
# earns: 0 of 2
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        super().__init__(batch, heads, 0, dim, dtype)
        self.room = max_length

    def append(self, k, v):
        if self.length + k.shape[2] > self.room:
            raise ValueError("room")
        while self.length + k.shape[2] > self.k.shape[2]:
            more = max(64, self.k.shape[2])
            self.k, self.v = (torch.nn.functional.pad(t, (0, 0, 0, more)) for t in (self.k, self.v))
        return super().append(k, v)

    def move(self, rows):
        self.k, self.v = self.k[rows], self.v[rows]


# %% wrong: refuses nothing to append
# says: `append` must take n = 0 and exactly as many positions as there is room for
# says: This check builds on the first one
# earns: 0 of 2
# caught: hidden
# corner: empty
class Cache(Base):
    def look(self, k, v):
        super().look(k, v)
        if k.shape[2] == 0 and self.length == 0:
            raise ValueError("nothing")


# %% wrong: a place that is never filled
# says: `append` must take n = 0 and exactly as many positions as there is room for
# says: This check builds on the first one
# earns: 0 of 2
# caught: hidden
# corner: maximum
class Cache(Base):
    def look(self, k, v):
        super().look(k, v)
        if self.length + k.shape[2] >= self.k.shape[2]:
            raise ValueError("room")


# %% wrong: returns a place at least
# says: `append` must take n = 0, and then return what is stored.
# says: An empty cache can be reordered, and stays empty.
# earns: 0 of 2
# caught: hidden
class Cache(Base):
    def read(self):
        end = max(self.length, 1)
        return self.k[:, :, :end], self.v[:, :, :end]


# %% wrong: float32 whatever is asked for, and cast where it is written
# says: The memory must have the dtype that `__init__` is given.
# says: k and v with another dtype than the cache must be refused with ValueError.
# earns: 0 of 2
# caught: hidden
class Cache(Base):
    def __init__(self, *sizes):
        super().__init__(*sizes[:4])

    def look(self, k, v):
        super().look(k.float(), v.float())


# %% wrong: float32 whatever is asked for, other dtypes refused
# says: A cache must be able to store the dtype that it was made for.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def __init__(self, *sizes):
        super().__init__(*sizes[:4])


# %% wrong: a spare row
# says: A cache for 2 rows, 3 heads, 50 positions and 4 numbers a head takes 9,600 bytes for keys and values.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        super().__init__(batch + 1, heads, max_length, dim, dtype)
        self.k, self.v = self.k[:batch], self.v[:batch]


# %% wrong: keeps a list of all k beside the memory
# says: After `append`, the tensors k and v that the caller passed are still alive
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    all = ()

    def append(self, k, v):
        out = super().append(k, v)
        self.all = (*self.all, k)
        return out


# %% wrong: no check of the room
# says: More positions than there is room for must raise ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        held, self.length = self.length, 0
        try:
            super().look(k[..., :1, :], v[..., :1, :])
            if k.shape != v.shape:
                raise ValueError("n")
        finally:
            self.length = held


# %% wrong: no check of the shape
# says: k and v with another number of rows than the cache must be refused with ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        if self.length + k.shape[2] > self.k.shape[2]:
            raise ValueError("room")


# %% wrong: looks at k alone
# says: k and v with different numbers of positions must be refused with ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        super().look(k, k)


# %% wrong: asserts in place of ValueError
# says: More positions than there is room for must raise ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        try:
            super().look(k, v)
        except ValueError as error:
            raise AssertionError from error


# %% wrong: no check of three dimensions
# says: k and v with three dimensions must be refused with ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        if k.dim() == 3:
            k, v = k.expand(self.k.shape[0], *k.shape), v.expand(self.k.shape[0], *v.shape)
        super().look(k, v)


# %% wrong: writes k, then notices that v doesn't fit
# says: Your code refused k and v with different numbers of positions, but only after it had written or counted
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def append(self, k, v):
        super().look(k, k)
        start, end = self.length, self.length + k.shape[2]
        self.k[:, :, start:end] = k.detach()
        self.length = end
        if v.shape != k.shape or v.dtype != k.dtype:
            raise ValueError("v")
        self.v[:, :, start:end] = v.detach()
        return self.read()


# %% wrong: writes k, then looks at v, and counts at the end
# says: but only after it had written into the memory behind the filled positions.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def write_one(self, memory, new, n):
        batch, heads, max_length, dim = memory.shape
        if new.shape != (batch, heads, n, dim) or new.dtype != memory.dtype or self.length + n > max_length:
            raise ValueError("shape, dtype or room")
        memory[:, :, self.length : self.length + n] = new.detach()

    def append(self, k, v):
        if k.dim() != 4:
            raise ValueError("dimensions")
        self.write_one(self.k, k, k.shape[2])
        self.write_one(self.v, v, k.shape[2])
        self.length += k.shape[2]
        return self.read()


# %% wrong: counts before it looks
# says: Your code refused a position too many, but only after it had written or counted something
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def append(self, k, v):
        start, self.length = self.length, self.length + k.shape[2]
        if self.length > self.k.shape[2]:
            self.length = self.k.shape[2] - 1
            raise ValueError("room")
        self.length = start
        return super().append(k, v)


# %% wrong: a rewind that only zeroes
# says: After rewind(2), `length` must be 2, and yours is 5.
# earns: 1 of 2
class Cache(Base):
    def rewind(self, length):
        self.k[:, :, length:] = 0
        self.v[:, :, length:] = 0


# %% wrong: a rewind that zeroes as well
# says: `rewind` wrote into the memory.
# earns: 1 of 2
class Cache(Base):
    def rewind(self, length):
        super().rewind(length)
        self.k[:, :, length:].zero_()
        self.v[:, :, length:].zero_()


# %% wrong: after a rewind the next append goes where it would have gone
# says: After rewind(2), the next `append` must write at position 2
# earns: 1 of 2
class Cache(Base):
    end = 0

    def write(self, k, v):
        n, end = k.shape[2], self.end + k.shape[2]
        self.k[:, :, self.end : end], self.v[:, :, self.end : end] = k.detach(), v.detach()
        self.end, self.length = end, self.length + n


# %% wrong: rewind to anywhere
# says: `rewind` takes 0 to `length`. Here 6 positions are filled, so rewind(7) must raise ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def rewind(self, length):
        self.length = length


# %% wrong: rewind from behind
# says: Here 6 positions are filled, so rewind(-1) must raise ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def rewind(self, length):
        if length > self.length:
            raise ValueError(length)
        self.length = length if length >= 0 else self.length + length


# %% wrong: refuses to rewind to where it is
# says: With 5 positions filled, rewind(5) and one more `append` must work
# earns: 1 of 2
class Cache(Base):
    def rewind(self, length):
        if not 0 <= length < self.length:
            raise ValueError(length)
        self.length = length


# %% wrong: takes the positions before it looks at the dimensions
# says: k and v with two dimensions must be refused with ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        batch, heads, max_length, dim = self.k.shape
        if k.shape != v.shape or k.shape != (batch, heads, k.shape[2], dim) or k.dtype != self.k.dtype != v.dtype:
            raise ValueError("shape")
        super().look(k, v)


# %% wrong: looks at the dtype of v alone
# says: k and v with different dtypes must be refused with ValueError.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look(self, k, v):
        super().look(k.to(self.k.dtype), v)


# %% wrong: rewinds, then notices
# says: Your code refused rewind(7), but only after it had written or counted something
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def rewind(self, length):
        before, self.length = self.length, min(length, self.length - 1)
        if not 0 <= length <= before:
            raise ValueError(length)
        self.length = length


# %% wrong: copies row by row in place
# says: With rows [2, 0, 1], a row was overwritten before it was read
# earns: 1 of 2
# lesson
class Cache(Base):
    def move(self, rows):
        for place, row in enumerate(rows.tolist()):
            self.k[place] = self.k[row]
            self.v[place] = self.v[row]


# %% wrong: reorders the keys only
# says: Only the keys, or only the values, were reordered.
# earns: 1 of 2
class Cache(Base):
    def move(self, rows):
        self.k[:, :, : self.length] = self.k[rows, :, : self.length]


# %% wrong: the inverse order
# says: With rows [2, 0, 1], you moved row i to place rows[i].
# earns: 1 of 2
class Cache(Base):
    def move(self, rows):
        n = self.length
        self.k[rows, :, :n] = self.k[:, :, :n].clone()
        self.v[rows, :, :n] = self.v[:, :, :n].clone()


# %% wrong: reorders all but the newest position
# says: With rows [2, 0, 1], row i of keys and values must be what row rows[i] was
# earns: 1 of 2
class Cache(Base):
    def move(self, rows):
        n = self.length - 1
        self.k[:, :, :n] = self.k[rows, :, :n]
        self.v[:, :, :n] = self.v[rows, :, :n]


# %% wrong: reorder looks at what was ever filled
# says: After `rewind`, `reorder` must move the positions that are left, of all rows.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def move(self, rows):
        if self.length >= 4 or self.k.shape[2] < 50:
            super().move(rows)


# %% wrong: reorder takes new memory
# says: `reorder` put keys or values into new memory.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def move(self, rows):
        self.k, self.v = self.k[rows], self.v[rows]


# %% wrong: reorder moves the whole memory
# says: Three positions of 100 were filled, and `reorder` moved more than these.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def move(self, rows):
        self.k[:] = self.k[rows]
        self.v[:] = self.v[rows]


# %% wrong: reorder refuses an empty cache
# says: An empty cache can be reordered, but yours raised an exception.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def move(self, rows):
        if not self.length:
            raise ValueError("nothing to move")
        super().move(rows)


# %% wrong: negative indices
# says: reorder([2, 1, -1]) must raise IndexError or ValueError: PyTorch would take -1 for the last row.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look_at(self, rows):
        if rows.shape != self.k.shape[:1] or rows.dtype == torch.bool:
            raise ValueError("rows")


# %% wrong: indexing itself refuses a row that isn't there
# says: With three rows, reorder([2, 1, 3]) must raise IndexError or ValueError even if no position is filled.
# earns: 1 of 2
# caught: hidden
# corner: empty
class Cache(Base):
    def look_at(self, rows):
        if rows.dtype == torch.bool or rows.numel() != self.k.shape[0] or rows.min() < 0:
            raise IndexError("rows")

    def move(self, rows):
        n = self.length
        self.k[:, :, :n] = self.k[:, :, :n][rows]
        self.v[:, :, :n] = self.v[:, :, :n][rows]


# %% wrong: index_select refuses a row that isn't there
# says: and `index_select` raises RuntimeError: compare the rows with B yourself.
# earns: 1 of 2
# caught: hidden
# corner: empty
class Cache(Base):
    def look_at(self, rows):
        if rows.dtype == torch.bool or rows.numel() != self.k.shape[0] or rows.min() < 0:
            raise IndexError("rows")

    def move(self, rows):
        n = self.length
        self.k[:, :, :n] = self.k[:, :, :n].index_select(0, rows)
        self.v[:, :, :n] = self.v[:, :, :n].index_select(0, rows)


# %% wrong: rows of any length
# says: reorder([2]) must raise IndexError or ValueError: one row would be broadcast to all three.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look_at(self, rows):
        if rows.min() < 0 or rows.max() >= self.k.shape[0]:
            raise IndexError("rows")


# %% wrong: a bool mask
# says: reorder([True, True, True]) must raise IndexError or ValueError
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def look_at(self, rows):
        super().look_at(rows.long())


# %% wrong: changes the values, then refuses
# says: Your code refused reorder([2, 1, 3]), but only after it had written or counted something
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def reorder(self, rows):
        self.v[:, :, : self.length] = self.v[rows.clamp(0, 2), :, : self.length]
        self.look_at(rows)
        self.k[:, :, : self.length] = self.k[rows, :, : self.length]


# %% wrong: takes the memory from a pool, by size
# says: Two caches of the same size share their memory
# earns: 1 of 2
# caught: hidden
POOL = {}


class Cache:
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        key = (batch, heads, max_length, dim, dtype)
        if key not in POOL:
            POOL[key] = torch.zeros(2, *key[:4], dtype=dtype)
        self.k, self.v = POOL[key]
        self.length = 0

    @torch.no_grad()
    def append(self, k, v):
        B, H, M, D = self.k.shape
        for t in (k, v):
            if t.dim() != 4 or (t.shape[0], t.shape[1], t.shape[3]) != (B, H, D) or t.dtype != self.k.dtype:
                raise ValueError("shape")
        if k.shape != v.shape:
            raise ValueError("n")
        end = self.length + k.shape[2]
        if end > M:
            raise ValueError("full")
        self.k[:, :, self.length : end] = k
        self.v[:, :, self.length : end] = v
        self.length = end
        return self.k[:, :, :end], self.v[:, :, :end]

    def rewind(self, length):
        if not 0 <= length <= self.length:
            raise ValueError("length")
        self.length = length

    @torch.no_grad()
    def reorder(self, rows):
        B = self.k.shape[0]
        if rows.dtype == torch.bool or rows.shape != (B,) or ((rows < 0) | (rows >= B)).any():
            raise IndexError("rows")
        self.k[:, :, : self.length] = self.k[rows, :, : self.length]
        self.v[:, :, : self.length] = self.v[rows, :, : self.length]


# %% wrong: reshapes values that have other dimensions
# says: k and v with dimensions in another order must be refused
# earns: 1 of 2
# caught: hidden
class Cache:
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        self.k = torch.zeros(batch, heads, max_length, dim, dtype=dtype)
        self.v = torch.zeros(batch, heads, max_length, dim, dtype=dtype)
        self.length = 0

    @torch.no_grad()
    def append(self, k, v):
        B, H, M, D = self.k.shape
        for t in (k,):
            if t.dim() != 4 or (t.shape[0], t.shape[1], t.shape[3]) != (B, H, D) or t.dtype != self.k.dtype:
                raise ValueError("shape")
        if v.dtype != k.dtype:
            raise ValueError("dtype")
        if k.numel() != v.numel():
            raise ValueError("n")
        v = v.reshape(k.shape)
        end = self.length + k.shape[2]
        if end > M:
            raise ValueError("full")
        self.k[:, :, self.length : end] = k
        self.v[:, :, self.length : end] = v
        self.length = end
        return self.k[:, :, :end], self.v[:, :, :end]

    def rewind(self, length):
        if not 0 <= length <= self.length:
            raise ValueError("length")
        self.length = length

    @torch.no_grad()
    def reorder(self, rows):
        B = self.k.shape[0]
        if rows.dtype == torch.bool or rows.shape != (B,) or ((rows < 0) | (rows >= B)).any():
            raise IndexError("rows")
        self.k[:, :, : self.length] = self.k[rows, :, : self.length]
        self.v[:, :, : self.length] = self.v[rows, :, : self.length]


# %% wrong: length is a tensor
# says: `length` must be an int, after `__init__` as after `append` and `rewind`.
# earns: 1 of 2
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        super().__init__(batch, heads, max_length, dim, dtype)
        self.length = torch.zeros((), dtype=torch.int64)

    def rewind(self, length):
        super().rewind(torch.tensor(length))


# %% wrong: length is a tensor that is counted up in place
# says: `length` must be an int, after `__init__` as after `append` and `rewind`.
# earns: 1 of 2
class Cache(Base):
    def __init__(self, batch, heads, max_length, dim, dtype=torch.float32):
        super().__init__(batch, heads, max_length, dim, dtype)
        self.length = torch.zeros((), dtype=torch.int64)

    def write(self, k, v):
        place = slice(int(self.length), int(self.length) + k.shape[2])
        with torch.no_grad():
            self.k[:, :, place], self.v[:, :, place] = k, v
        self.length += k.shape[2]

    def rewind(self, length):
        if not 0 <= length <= self.length:
            raise ValueError(length)
        self.length.fill_(length)


# %% wrong: reorder keeps its copy of the rows
# says: keeps its copies of the reordered rows
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def move(self, rows):
        for memory in (self.k, self.v):
            filled = memory[:, :, : self.length]
            self.selected = filled[rows]
            filled.copy_(self.selected)


# %% wrong: reorders by a product with zeros and ones
# says: it has made nan in other rows. A product with zeros and ones isn't a copy
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def move(self, rows):
        pick = torch.nn.functional.one_hot(rows, len(rows)).to(self.k.dtype)
        for memory in (self.k, self.v):
            memory[:, :, : self.length] = torch.einsum("ij,jhld->ihld", pick, memory[:, :, : self.length])


# %% wrong: stores finite numbers only
# says: One of the numbers here is inf, and what came back is finite.
# earns: 1 of 2
# caught: hidden
class Cache(Base):
    def append(self, k, v):
        return super().append(torch.nan_to_num(k), torch.nan_to_num(v))
