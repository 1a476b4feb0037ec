# corners: empty, maximum, half precision

import math

import torch
from torch import nn


def table_of(d, length, exponent=lambda i: 2 * i, start=0):
    i = torch.arange(d) // 2
    angle = torch.arange(start, length + start)[:, None] / 10000.0 ** (exponent(i) / d)
    return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())


class Base(nn.Module):
    """A right module with parts to replace."""

    def __init__(self, d_model, max_len=512):
        super().__init__()
        self.max_len = max_len
        self.keep(self.make(d_model, max_len))

    def make(self, d, length):
        return table_of(d, length)

    def keep(self, table):
        self.register_buffer("pe", table, persistent=False)

    def look(self, x):
        if x.shape[1] > self.max_len:
            raise ValueError(f"T={x.shape[1]} > max_len={self.max_len}")

    def rows(self, x):
        return self.pe[: x.shape[1]].to(x.dtype)

    def forward(self, x):
        self.look(x)
        return x + self.rows(x)


# %% right: nn.Buffer, sin and cos stacked and flattened
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        pairs = (d_model + 1) // 2
        angle = torch.outer(torch.arange(max_len).float(), 10000.0 ** (-2 * torch.arange(pairs) / d_model))
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]
        self.pe = nn.Buffer(table, persistent=False)

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"sequence length {x.size(1)} exceeds {self.pe.size(0)}")
        return (x + self.pe[: x.size(1)].to(dtype=x.dtype)).to(x.dtype)


# %% right: computed in float64, stored as float32; a loop over columns; a leading dimension of one
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        self.max_len = max_len
        table = torch.zeros(1, max_len, d_model, dtype=torch.float64)
        for k in range(d_model):
            angle = torch.arange(max_len, dtype=torch.float64) / 10000 ** ((k - k % 2) / d_model)
            table[0, :, k] = torch.cos(angle) if k % 2 else torch.sin(angle)
        self.register_buffer("table", table.float(), persistent=False)

    def forward(self, x):
        n, t, d = x.shape
        if t > self.max_len:
            raise ValueError(f"{t} positions, but only {self.max_len} rows")
        return torch.add(x, self.table[:, :t].type_as(x))


# %% right: two buffers, sines and cosines; forward puts them together
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        table = table_of(d_model, max_len)
        self.register_buffer("sines", table[:, 0::2].contiguous(), persistent=False)
        self.register_buffer("cosines", table[:, 1::2].contiguous(), persistent=False)

    def forward(self, x):
        if x.shape[1] > self.sines.shape[0]:
            raise ValueError(f"T = {x.shape[1]}, max_len = {self.sines.shape[0]}")
        out = x.clone()
        out[:, :, 0::2] += self.sines[: x.shape[1]]
        out[:, :, 1::2] += self.cosines[: x.shape[1]]
        return out


# %% right: narrow, the sum computed in the wider dtype, then cast
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe.narrow(0, 0, x.size(1))

    def forward(self, x):
        self.look(x)
        return (x + self.rows(x)).to(x.dtype)


# %% right: a subclass of ValueError, by assertion of its own; an index lookup
class TooLong(ValueError):
    pass


class SinusoidalPositions(Base):
    def look(self, x):
        if x.shape[1] > self.max_len:
            raise TooLong(f"max_len is {self.max_len}, the sequence has {x.shape[1]}")

    def rows(self, x):
        return torch.nn.functional.embedding(torch.arange(x.shape[1], device=x.device), self.pe).to(x.dtype)


# %% wrong: a plain tensor attribute
# says: After .double() or .to(device) the table has not changed: a plain attribute is not registered.
# earns: 1 of 2
# lesson
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = table


# %% wrong: a plain tensor attribute that forward moves after x
# says: After .double() or .to(device) the table has not changed: a plain attribute is not registered.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = table

    def rows(self, x):
        return self.pe[: x.shape[1]].to(x)


# %% wrong: a list of rows
# says: a plain attribute is not registered.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = [table]

    def rows(self, x):
        return self.pe[0][: x.shape[1]].to(x.dtype)


# %% wrong: a trainable Parameter
# says: The table is a Parameter: it is counted in parameters() and passed to optimizers
# earns: 1 of 2
# lesson
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = nn.Parameter(table)


# %% wrong: a Parameter with requires_grad=False
# says: requires_grad_(True) on the model makes it trainable even if it is frozen now.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = nn.Parameter(table, requires_grad=False)


# %% wrong: an embedding from a pretrained table
# says: The table is a Parameter
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.embedding = nn.Embedding.from_pretrained(table)

    def rows(self, x):
        return self.embedding(torch.arange(x.shape[1], device=x.device)).to(x.dtype)


# %% wrong: an ordinary buffer
# says: The table is in state_dict: checkpoints of other lengths will not load. Use persistent=False.
# earns: 1 of 2
# lesson
class SinusoidalPositions(Base):
    def keep(self, table):
        self.register_buffer("pe", table)


# %% wrong: the table is computed in every forward
# says: The table is in no buffer
# earns: 1 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        self.d = d

    def keep(self, table):
        pass

    def rows(self, x):
        return table_of(self.d, x.shape[1]).to(x)


# %% wrong: a buffer of frequencies only
# says: The table of max_len rows and d_model columns is made once, in __init__.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        self.d = d
        return 10000.0 ** (-2 * (torch.arange(d) // 2) / d)

    def rows(self, x):
        angle = torch.arange(x.shape[1], device=x.device)[:, None] * self.pe
        even = torch.arange(self.d, device=x.device) % 2 == 0
        return torch.where(even, angle.sin(), angle.cos()).to(x.dtype)


# %% wrong: a buffer that requires grad
# says: The table must not require grad.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.register_buffer("pe", table.requires_grad_(), persistent=False)


# %% wrong: all sines, then all cosines
# says: You put all sines first
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
# lesson
class SinusoidalPositions(Base):
    def make(self, d, length):
        table = table_of(d, length)
        return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


# %% wrong: cosines first
# says: Sines and cosines are exchanged: even columns contain sines.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(d) // 2 * 2 / d)
        return torch.where(torch.arange(d) % 2 == 0, angle.cos(), angle.sin())


# %% wrong: the same number of cosines for odd d
# says: For odd d_model there is one cosine column fewer.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        table = torch.zeros(length, d)
        table[:, 0::2] = angle.sin()
        table[:, 1::2] = angle.cos()
        return table


# %% wrong: slices with x.size(0)
# says: You sliced or broadcast along the batch: position is dimension 1 of x.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe[: x.size(0)].to(x.dtype)


# %% wrong: for inputs with the sequence first
# says: You sliced or broadcast along the batch: position is dimension 1 of x.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe[: x.size(0), None].to(x.dtype)


# %% wrong: adds the whole table
# says: You sliced or broadcast along the batch
# says: Only the first T rows of the table are added to x.
# earns: 0 of 2
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe.to(x.dtype)


# %% wrong: no length check
# says: Longer sequences must raise ValueError naming T and max_len, not fail in broadcasting or wrap around.
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        pass


# %% wrong: positions modulo max_len
# says: Longer sequences must raise ValueError naming T and max_len, not fail in broadcasting or wrap around.
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        pass

    def rows(self, x):
        return self.pe[torch.arange(x.shape[1], device=x.device) % self.max_len].to(x.dtype)


# %% wrong: an assertion
# says: Longer sequences must raise ValueError
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        assert x.shape[1] <= self.max_len, f"{x.shape[1]} > {self.max_len}"


# %% wrong: a message without the numbers
# says: Longer sequences must raise ValueError naming T and max_len
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        if x.shape[1] > self.max_len:
            raise ValueError("too long")


# %% wrong: refuses T = max_len
# says: T = max_len and T = 0 are fine
# earns: 1 of 2
# corner: maximum
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        if x.shape[1] >= self.max_len:
            raise ValueError(f"{x.shape[1]} {self.max_len}")


# %% wrong: refuses T = 0
# says: T = max_len and T = 0 are fine
# earns: 1 of 2
# corner: empty
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        if not 0 < x.shape[1] <= self.max_len:
            raise ValueError(f"{x.shape[1]} {self.max_len}")


# %% wrong: another default for max_len
# says: Longer sequences must raise ValueError
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def __init__(self, d_model, max_len=5000):
        super().__init__(d_model, max_len)


# %% wrong: no cast to x.dtype
# says: The result must keep x's dtype (a float32 table promotes half precision input).
# earns: 1 of 2
# corner: half precision
# caught: hidden
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe[: x.shape[1]]


# %% wrong: casts x to the dtype of the table
# says: The result must keep x's dtype
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        return x.to(self.pe.dtype) + self.pe[: x.shape[1]]


# %% wrong: always float32
# says: The result must keep x's dtype
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe[: x.shape[1]].float()

    def forward(self, x):
        return super().forward(x).float()


# %% wrong: add_ on x
# says: x was changed in place.
# earns: 0 of 2
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        return x.add_(self.rows(x))


# %% wrong: the exponent i/d in place of 2i/d
# says: The angles are off: the exponent is 2i/d with i the PAIR index, the position is not scaled
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        return table_of(d, length, exponent=lambda i: i)


# %% wrong: an exponent of its own for every column
# says: The angles are off
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(d) / d)
        return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())


# %% wrong: the base 1000
# says: The angles are off
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        angle = torch.arange(length)[:, None] / 1000.0 ** (torch.arange(d) // 2 * 2 / d)
        return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())


# %% wrong: positions from 1
# says: Positions count from 0.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        return table_of(d, length, start=1)


# %% wrong: positions in degrees of the circle
# says: The angles are off
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        angle = torch.arange(length)[:, None] * 2 * math.pi / 10000.0 ** (torch.arange(d) // 2 * 2 / d)
        return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())


# %% wrong: computed in half precision
# says: The angles are inexact far out: compute them in float32 at least.
# earns: 1 of 2
# corner: half precision
# caught: hidden
class SinusoidalPositions(Base):
    def make(self, d, length):
        if length < 1000:
            return table_of(d, length)
        angle = torch.arange(length)[:, None] * (10000.0 ** (-2 * (torch.arange(d) // 2) / d)).to(torch.bfloat16)
        return torch.where(torch.arange(d) % 2 == 0, angle.float().sin(), angle.float().cos())


# %% wrong: returns the table
# says: You returned the table; add it to x.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def forward(self, x):
        return self.rows(x).expand_as(x).clone()


# %% wrong: scales x by the square root of d
# says: You scaled x: add the table to x as it is.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        return x * math.sqrt(x.shape[-1]) + self.rows(x)


# %% wrong: detaches x
# says: no gradient
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        return x.detach() + self.rows(x)


# %% wrong: super().__init__() forgotten
# says: before Module.__init__
# says: Call super().__init__() first in __init__.
# earns: 0 of 2
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        self.register_buffer("pe", table_of(d_model, max_len), persistent=False)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


# %% wrong: no module at all
# says: SinusoidalPositions
# says: The check can't go on from what your code gave it
# says: Longer sequences must raise ValueError naming T and max_len, not fail in
# earns: 0 of 2
class SinusoidalPositions:
    def __init__(self, d_model, max_len=512):
        self.pe = table_of(d_model, max_len)

    def __call__(self, x):
        return x + self.pe[: x.shape[1]].to(x.dtype)


# %% wrong: forward returns nothing
# says: Nothing came back (None): is a `return` missing?
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        self.rows(x)


# %% wrong: forward changes the table
# says: A second call gives a different result: forward must not change the table.
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def rows(self, x):
        rows = self.pe[: x.shape[1]].to(x.dtype).clone()
        if not x.requires_grad:
            self.pe += 0.125
        return rows


# %% right: complex numbers; a float64 table that is cast after the sum
class SinusoidalPositions(Base):
    def make(self, d, length):
        i = torch.arange(0, d, 2, dtype=torch.float64)
        angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (i / d)
        pairs = torch.view_as_real(torch.polar(torch.ones_like(angle), math.pi / 2 - angle))
        return pairs.flatten(1)[:, :d].contiguous()

    def forward(self, x):
        self.look(x)
        return (x + self.pe[: x.shape[1]]).to(x.dtype)


# %% right: an ordinary buffer, kept out of the state_dict by hand
class SinusoidalPositions(Base):
    def keep(self, table):
        self.register_buffer("pe", table)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        pass

    def _load_from_state_dict(self, *args):
        pass


# %% wrong: with dropout, as in a tutorial
# says: Your sum is scaled, or has zeros in it: return x plus the table, without dropout.
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.25, self.training)


# %% wrong: adds the last rows
# says: The first T rows of the table are added
# says: The result is not x plus the table of the first check, in the
# earns: 0 of 2
class SinusoidalPositions(Base):
    def rows(self, x):
        return self.pe[len(self.pe) - x.shape[1] :].to(x.dtype)


# %% wrong: the table is made by the first forward
# says: The table of max_len rows and d_model columns is made once, in __init__.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.size = table.shape[::-1]
        self.register_buffer("pe", None, persistent=False)

    def rows(self, x):
        if self.pe is None:
            self.pe = table_of(*self.size)
        return super().rows(x)


# %% wrong: the table grows on demand
# says: Longer sequences must raise ValueError naming T and max_len
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def look(self, x):
        if x.shape[1] > self.max_len:
            self.pe = table_of(x.shape[2], x.shape[1])


# %% wrong: fairseq's table, sines in the first half
# says: Your table has sines in one half and cosines in the other, as in some implementations; here they
# says: The result is not x plus the table of the first check, in the dtype of x.
# earns: 0 of 2
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        half = max(d_model // 2, 1)
        scale = math.log(10000) / max(half - 1, 1)
        angle = torch.arange(max_len)[:, None] * torch.exp(torch.arange(half) * -scale)
        table = torch.cat([angle.sin(), angle.cos()], 1)
        if d_model % 2 == 1:
            table = torch.cat([table, torch.zeros(max_len, 1)], 1)
        self.register_buffer("table", table[:, :d_model], persistent=False)

    def forward(self, x):
        if x.size(1) > len(self.table):
            raise ValueError(f"{x.size(1)} > {len(self.table)}")
        return x + self.table[: x.size(1)].to(x.dtype)


# %% wrong: a diffusion model's embedding, cosines in the first half
# says: Your table has sines in one half and cosines in the other, as in some implementations; here they
# says: The result is not x plus the table of the first check, in the dtype of x.
# earns: 0 of 2
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        half = d_model - d_model // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
        args = torch.arange(max_len)[:, None].float() * freqs[None]
        table = torch.cat([torch.cos(args), torch.sin(args)], dim=-1)[:, :d_model]
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        if x.size(1) > len(self.table):
            raise ValueError(f"{x.size(1)} > {len(self.table)}")
        return x + self.table[: x.size(1)].to(x.dtype)


# %% wrong: PyTorch's tutorial
# says: You sliced or broadcast along the batch: position is dimension 1 of x.
# says: The table is in state_dict: checkpoints of other lengths will not load. Use persistent=False.
# earns: 0 of 2
class SinusoidalPositions(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


# %% wrong: one row for each sample
# says: The result has the shape of x:
# says: The result is not x plus the table of the first check, in the dtype of x.
# earns: 0 of 2
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        return (x + self.rows(x)).flatten(1)


# %% wrong: keeps the rows of the last length, in the dtype that they had
# says: Called again with as many rows in another dtype, the module answers in the dtype of an earlier call:
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    cached = None

    def rows(self, x):
        if self.cached is None or len(self.cached) != x.shape[1]:
            self.cached = super().rows(x)
        return self.cached


# %% wrong: keeps the rows of the last length and dtype, on the device where they were
# says: After .to('meta') the module still uses a table on the CPU
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    cached = None

    def rows(self, x):
        if self.cached is None or (len(self.cached), self.cached.dtype) != (x.shape[1], x.dtype):
            self.cached = super().rows(x)
        return self.cached


# %% right: keeps the rows of the last length, dtype and device
class SinusoidalPositions(Base):
    cached = None

    def rows(self, x):
        wanted = (x.shape[1], x.dtype, x.device)
        if self.cached is None or (len(self.cached), self.cached.dtype, self.cached.device) != wanted:
            self.cached = super().rows(x).to(x.device)
        return self.cached


# %% wrong: a buffer for show, and a list of rows for forward
# says: `forward` doesn't read the buffer: with a buffer of zeros it adds the same sines and cosines
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def keep(self, table):
        super().keep(table)
        self.list_of_rows = list(table.unbind(0))

    def rows(self, x):
        return torch.stack(self.list_of_rows)[: x.shape[1]].to(x)


# %% wrong: one complex buffer
# says: `double()` leaves complex buffers as they are, so your table is still complex64.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def make(self, d, length):
        self.d = d
        angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, d, 2) / d)
        return torch.polar(torch.ones_like(angle), angle)

    def rows(self, x):
        table = self.pe[: x.shape[1]]
        return torch.stack([table.imag, table.real], -1).flatten(1)[:, : self.d].to(x.dtype)


# %% right: a plain attribute that the module's own _apply moves and casts
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = table

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.pe = fn(self.pe)
        return self


# %% wrong: a plain attribute, moved by double and to of the module alone
# says: A model that contains your module never calls the `double()` or `to()` of your class
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = table

    def double(self):
        self.pe = self.pe.double()
        return super().double()

    def to(self, *args, **kwargs):
        self.pe = self.pe.to(*args, **kwargs)
        return super().to(*args, **kwargs)


# %% wrong: a plain attribute that requires grad, moved by _apply
# says: The table must not require grad.
# earns: 1 of 2
class SinusoidalPositions(Base):
    def keep(self, table):
        self.pe = table.requires_grad_()

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.pe = fn(self.pe).detach().requires_grad_()
        return self


# %% wrong: casts its buffer to the dtype of x, for good
# says: Called with float32, float16, float64 and the same float32 again, the module answers differently
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def forward(self, x):
        self.look(x)
        if self.pe.dtype != x.dtype:
            self.pe = self.pe.to(x.dtype)
        return x + self.pe[: x.size(1)]


# %% wrong: a persistent buffer that a hook takes out of the state_dict
# says: Loading raises `Missing key(s)`: the table is registered as a persistent buffer
# earns: 1 of 2
# caught: hidden
class SinusoidalPositions(Base):
    def __init__(self, d_model, max_len=512):
        super().__init__(d_model, max_len)
        self._register_state_dict_hook(self.leave_out)

    def keep(self, table):
        self.register_buffer("pe", table)

    @staticmethod
    def leave_out(module, state, prefix, metadata):
        del state[prefix + "pe"]
