# %% right: computes the offsets in forward
# There is no table, so none is left behind or rounded by `.bfloat16()`, and more than `max_len` steps work, where the
# author's answer raises. The sines are computed in every forward pass, in float32, because bfloat16 has no number
# between 256 and 258.
class Tagger(nn.Module):
    """A GRU-cell tagger that keeps nothing but its cell: (T, B, d_in) -> (T, B, d_hid)."""

    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        offsets = torch.arange(len(x), device=x.device, dtype=torch.float32).sin().to(x.dtype)
        out = x.new_empty(*x.shape[:2], self.cell.hidden_size)
        h = None
        for t, row in enumerate(x + offsets[:, None, None]):
            h = self.cell(row, h)
            out[t] = h
        return out


# %% right: a plain attribute that moves along
# `.to`, `.double()` and their like call `_apply` on every module with one function for tensors. This is how buffers
# move too, but `_apply` is private, and a change of it in PyTorch could break the class.
class Tagger(nn.Module):
    """A GRU-cell tagger that moves its offsets itself: (T, B, d_in) -> (T, B, d_hid)."""

    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.offset = torch.sin(torch.arange(max_len).float())

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.offset = fn(self.offset)
        return self

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: forgets the table of offsets
# says: `self.offset` is a plain attribute: Module.to moves parameters and buffers only.
# The addition works all the same, because `self.offset[t]` has no dimension, and such a CPU tensor may be added to a
# tensor on another device. A row of a table with two dimensions would raise.
class Tagger(nn.Module):
    """A GRU-cell tagger that leaves its offsets behind: (T, B, d_in) -> (T, B, d_hid)."""

    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.offset = torch.sin(torch.arange(max_len).float())

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)
