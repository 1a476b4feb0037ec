# %% right: a convolution along time
# All rows of the author's matrix contain the same numbers, shifted, so one kernel of T weights is enough. For T = 2000
# the matrix has 4 million entries, while the padded copy of x is twice as large as x. It takes as many multiplications.
class Smooth(nn.Module):
    """Exponential smoothing along time; the state starts at zero: (N, T, D) -> (N, T, D)."""

    def __init__(self, a=0.9):
        super().__init__()
        self.a = a

    def forward(self, x):
        steps, channels = x.shape[1], x.transpose(1, 2)
        lags = torch.arange(steps, dtype=x.dtype, device=x.device).flip(0)
        kernel = ((1 - self.a) * self.a**lags).view(1, 1, -1)
        rows = nn.functional.pad(channels.reshape(-1, 1, steps), (steps - 1, 0))
        return nn.functional.conv1d(rows, kernel).reshape(channels.shape).transpose(1, 2)


# %% wrong: a cumulative sum of x / aᵗ
# says: nan comes from a negative power of `a`, which overflows in long sequences.
# The formula is right, and it takes T numbers instead of T². But 0.9 ** 1000 is 0 in float32, and x / 0 is inf or nan.
class Smooth(nn.Module):
    """Smoothing by a sum that overflows."""

    def __init__(self, a=0.9):
        super().__init__()
        self.a = a

    def forward(self, x):
        steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device).unsqueeze(1)
        powers = self.a**steps
        return (1 - self.a) * powers * (x / powers).cumsum(1)
