# %% right: nn.Buffer, with sines and cosines stacked
# An attribute that is an `nn.Buffer` registers itself, as a Parameter does. `flatten` puts each sine beside its cosine,
# and the cut at the end serves an odd d_model.
class SinusoidalPositions(nn.Module):
    """Adds a fixed table of sines and cosines."""

    def __init__(self, d_model, max_len=512):
        super().__init__()
        pairs = (d_model + 1) // 2
        angle = torch.outer(torch.arange(max_len).float(), 10000.0 ** (-2 * torch.arange(pairs) / d_model))
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]
        self.table = nn.Buffer(table, persistent=False)

    def forward(self, x):
        """x plus the first rows of the table."""
        if x.size(1) > len(self.table):
            raise ValueError(f"{x.size(1)} positions, but the table has {len(self.table)}")
        return x + self.table[: x.size(1)].to(x.dtype)


# %% wrong: a plain attribute
# says: After .double() or .to(device) the table has not changed: a plain attribute is not registered.
# On the CPU, in float32, everything works. On a GPU the addition raises, because the table is still on the CPU.
class SinusoidalPositions(nn.Module):
    """Adds a table that stays behind when the module moves."""

    def __init__(self, d_model, max_len=512):
        super().__init__()
        pairs = (d_model + 1) // 2
        angle = torch.outer(torch.arange(max_len).float(), 10000.0 ** (-2 * torch.arange(pairs) / d_model))
        self.table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]

    def forward(self, x):
        """x plus the first rows of the table."""
        if x.size(1) > len(self.table):
            raise ValueError(f"{x.size(1)} positions, but the table has {len(self.table)}")
        return x + self.table[: x.size(1)].to(x.dtype)
