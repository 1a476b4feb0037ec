import math

import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, a=0.9):
        super().__init__()
        self.a = a


def lags(x):
    t = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
    return t[:, None] - t


# corners: none


# %% right: clamped exponents, tril, matmul
class Smooth(Base):
    def forward(self, x):
        w = torch.tril(torch.pow(self.a, lags(x).clamp(min=0)))
        return torch.matmul(w, x) * (1 - self.a)


# %% right: where around the exponent and around the result, einsum
class Smooth(Base):
    def forward(self, x):
        lag = lags(x)
        past = lag >= 0
        safe = torch.where(past, lag, torch.zeros_like(lag))
        w = torch.where(past, (1 - self.a) * self.a**safe, torch.zeros_like(lag))
        return torch.einsum("ts,nsd->ntd", w, x)


# %% right: exp(lag * log a) with minus infinity where s > t
class Smooth(nn.Module):
    def __init__(self, a: float = 0.9):
        super().__init__()
        self.log_a, self.scale = math.log(a), 1 - a

    def forward(self, x):
        lag = lags(x)
        exponent = (lag * self.log_a).masked_fill(lag < 0, float("-inf"))
        return self.scale * (exponent.exp() @ x)


# %% right: integer lags, a as a buffer, integers cast late
class Smooth(nn.Module):
    def __init__(self, a: float = 0.9):
        super().__init__()
        self.register_buffer("a", torch.tensor(a, dtype=torch.float64))

    def forward(self, x):
        t = torch.arange(x.shape[1], device=x.device)
        lag = t.unsqueeze(-1) - t.unsqueeze(0)
        a = self.a.to(x.device)
        w = (1 - a) * a ** lag.clamp(min=0) * (lag >= 0)
        return w.to(x.dtype) @ x


# %% wrong: the given loop
# says: The number of steps is fixed in the export, because a dynamic size became a plain number: by a loop (or a
# says: The exporter refuses this model. Pass the first check cell first.
# earns: 0 of 3
# lesson
class Smooth(Base):
    def forward(self, x):
        h, out = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = self.a * h + (1 - self.a) * x[:, t]
            out.append(h)
        return torch.stack(out, 1)


# %% wrong: a list of rows of the matrix
# says: The number of steps is fixed in the export, because a dynamic size became a plain number: by a loop (or a
# says: The exporter refuses this model. Pass the first check cell first.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        t = x.shape[1]
        w = torch.tensor([[(1 - self.a) * self.a ** (i - j) if j <= i else 0.0 for j in range(t)] for i in range(t)])
        return w.to(x) @ x


# %% wrong: unbinds time
# says: The number of steps is fixed in the export, because a dynamic size became a plain number: by a loop (or a
# says: The exporter refuses this model. Pass the first check cell first.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        h, out = 0, []
        for step in x.unbind(1):
            h = self.a * h + (1 - self.a) * step
            out.append(h)
        return torch.stack(out, 1)


# %% wrong: cumulated sum of x / a**t times a**t
# says: nan comes from a negative power of `a`, which overflows in long sequences. Clamp the exponent (or
# earns: 2 of 3
# lesson
class Smooth(Base):
    def forward(self, x):
        p = (self.a ** torch.arange(x.shape[1], dtype=x.dtype, device=x.device))[:, None]
        return (1 - self.a) * p * (x / p).cumsum(1)


# %% wrong: no mask above the diagonal
# says: Later steps influence earlier ones. W[t, s] must be zero for s > t.
# says: The values differ from those of the loop.
# earns: 0 of 3
# lesson
class Smooth(Base):
    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).clamp(min=0)) @ x


# %% wrong: the absolute lag
# says: Later steps influence earlier ones. W[t, s] must be zero for s > t.
# says: The values differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).abs()) @ x


# %% wrong: powers of negative lags, multiplied by the mask
# says: nan comes from a negative power of `a`, which overflows in long sequences. Clamp the exponent (or
# earns: 2 of 3
# lesson
class Smooth(Base):
    def forward(self, x):
        lag = lags(x)
        return ((1 - self.a) * self.a**lag * (lag >= 0)) @ x


# %% wrong: exponent t - s + 1
# says: The newest value must have the weight (1 - a) * a**0.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return ((1 - self.a) * self.a ** (lags(x).clamp(min=0) + 1)).tril() @ x


# %% wrong: the factor (1 - a) is missing
# says: The factor (1 - a) is missing.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return (self.a ** lags(x).clamp(min=0)).tril() @ x


# %% wrong: transposed weights
# says: Later steps influence earlier ones. W[t, s] must be zero for s > t.
# says: The values differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril().t() @ x


# %% wrong: starts at the first step
# says: The state must start at zero, not at the first step of x.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        w = ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril()
        w = torch.cat([w[:, :1] / (1 - self.a), w[:, 1:]], 1)
        return w @ x


# %% wrong: without the newest value
# says: The values differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril(-1) @ x


# %% wrong: a and 1 - a exchanged
# says: You swapped `a` and `1 - a`.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return (self.a * (1 - self.a) ** lags(x).clamp(min=0)).tril() @ x


# %% wrong: 0.9 for every a
# says: The values differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        return (0.1 * 0.9 ** lags(x).clamp(min=0)).tril() @ x


# %% wrong: smooths along the last dimension
# says: The values differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        y = x.transpose(1, 2)
        return (((1 - self.a) * self.a ** lags(y).clamp(min=0)).tril() @ y).transpose(1, 2)


# %% wrong: a window of twenty steps
# says: The values differ from those of the loop.
# earns: 2 of 3
class Smooth(Base):
    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril().triu(-20) @ x


# %% wrong: arange in float32 on the CPU
# says: The weights must have the dtype and device of x.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1], dtype=torch.float32)
        return ((1 - self.a) * self.a ** (t[:, None] - t).clamp(min=0)).tril() @ x


# %% wrong: arange with dtype, on the CPU
# says: The weights must have the dtype and device of x.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1], dtype=x.dtype)
        return ((1 - self.a) * self.a ** (t[:, None] - t).clamp(min=0)).tril() @ x


# %% wrong: weights in float32, cast afterwards
# says: Digits were lost, because `a`, the weights or the sum had a lower precision than x, such as float32.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def forward(self, x):
        w = ((1 - self.a) * self.a ** lags(x.float()).clamp(min=0)).tril()
        return (w @ x.float()).to(x.dtype)


# %% wrong: cuts the graph
# says: The gradient of x is missing or wrong.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def forward(self, x):
        with torch.no_grad():
            return ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril() @ x


# %% wrong: writes into x
# says: x was changed.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def forward(self, x):
        w = ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril()
        out = w @ x
        x.data.mul_(1.5) if x.requires_grad else None
        return out


# %% wrong: 0.5 where a is not given
# says: Without an argument, a is 0.9.
# earns: 2 of 3
# caught: hidden
class Smooth(nn.Module):
    def __init__(self, a=0.5):
        super().__init__()
        self.a = a

    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril() @ x


# %% right: a convolution along time
class Smooth(Base):
    def forward(self, x):
        t, y = x.shape[1], x.transpose(1, 2)
        kernel = (1 - self.a) * self.a ** torch.arange(t, dtype=x.dtype, device=x.device)
        rows = nn.functional.pad(y.reshape(-1, 1, t), (t - 1, 0))
        return nn.functional.conv1d(rows, kernel.flip(0).view(1, 1, -1)).reshape(y.shape).transpose(1, 2)


# %% right: lags as a cumulated sum of ones
class Smooth(Base):
    def forward(self, x):
        ones = torch.ones_like(x[0, :, 0])
        past = torch.outer(ones, ones).tril()
        w = self.a ** (past.cumsum(0) - 1).clamp(min=0) * past * (1 - self.a)
        return torch.einsum("ts,nsd->ntd", w, x)


# %% wrong: weights that sum to one
# says: The values differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        w = ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril()
        return w / w.sum(1, keepdim=True) @ x


# %% wrong: cumulated sum with a floor under the power
# says: The values differ from those of the loop.
# earns: 2 of 3
class Smooth(Base):
    def forward(self, x):
        p = (self.a ** torch.arange(x.shape[1], dtype=x.dtype, device=x.device)).clamp(min=1e-30)[:, None]
        return (1 - self.a) * p * (x / p).cumsum(1)


# %% wrong: a as a float32 buffer
# says: Digits were lost, because `a`, the weights or the sum had a lower precision than x, such as float32.
# earns: 2 of 3
# caught: hidden
class Smooth(nn.Module):
    def __init__(self, a=0.9):
        super().__init__()
        self.register_buffer("a", torch.tensor(a))

    def forward(self, x):
        return ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril().to(x.dtype) @ x


# %% wrong: returns the last state only
# says: The result must have the shape of x.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        weights = (1 - self.a) * self.a ** lags(x)[-1]
        return (weights[:, None] * x).sum(1)


# %% wrong: uses an operation that ONNX doesn't have
# says: The exporter refuses this model. Export it yourself, and read the end of the message.
# says: The exporter refuses this model. Pass the first check cell first.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        weights = ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril()
        return weights @ x * torch.special.i0(x.new_zeros(()) * x.shape[1])


# %% wrong: in half precision while it is exported
# says: After the export, the values differ from those of the loop.
# says: After the export, the values for other lengths differ from those of the loop.
# earns: 0 of 3
class Smooth(Base):
    def forward(self, x):
        weights = ((1 - self.a) * self.a ** lags(x).clamp(min=0)).tril()
        return (weights @ x).half().to(x.dtype) if torch.compiler.is_exporting() else weights @ x


# %% wrong: the logarithms of the weights in float32
# says: Digits were lost, because `a`, the weights or the sum had a lower precision than x, such as float32.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1], device=x.device)
        lag = t[:, None] - t
        weights = (lag * math.log(self.a)).masked_fill(lag < 0, float("-inf")).exp().to(x.dtype) * (1 - self.a)
        return torch.einsum("ts,nsd->ntd", weights, x)


# %% right: scan, with the step of the loop
# torch: >=2.13
class Smooth(Base):
    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        a = x.new_full((), self.a)  # 2.15 takes no number from outside of the step

        def step(h, x_t):
            h = a * h + (1 - a) * x_t
            return h, h.clone()

        return scan(step, x.new_zeros(x.shape[0], x.shape[2]), x.contiguous(), dim=1)[1]


# %% right: a table of the weights for 2000 steps, of which it takes what it needs
class Smooth(Base):
    def __init__(self, a=0.9):
        super().__init__(a)
        i = torch.arange(2000, dtype=torch.float64)
        self.table = torch.tril((1 - a) * a ** (i[:, None] - i).clamp(min=0))

    def forward(self, x):
        return self.table[: x.shape[1], : x.shape[1]].to(x) @ x


# %% wrong: a table of the weights that stays on the CPU
# says: The weights must have the dtype and device of x.
# earns: 2 of 3
# caught: hidden
class Smooth(Base):
    def __init__(self, a=0.9):
        super().__init__(a)
        i = torch.arange(2000, dtype=torch.float64)
        self.table = torch.tril((1 - a) * a ** (i[:, None] - i).clamp(min=0))

    def forward(self, x):
        return self.table[: x.shape[1], : x.shape[1]].to(x.dtype) @ x
