import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 3)


def ramp(x):
    t = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
    return t / t[-1].clamp(min=1)


# corners: none


# %% right: linear on the last dimension, broadcasting weights, start without a batch
class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 3)
        self.register_buffer("start", torch.zeros(3), persistent=False)

    def forward(self, x):
        w = ramp(x).softmax(-1)[None, :, None]
        return torch.sum(w * self.proj(x), dim=1) + self.start


# %% right: einsum, weights from a cumulated sum of ones
class Pooler(Base):
    def forward(self, x):
        t = torch.ones_like(x[0, :, 0]).cumsum(0) - 1
        w = torch.softmax(t / t.max().clamp(min=1), 0)
        return torch.einsum("ntd,t->nd", self.proj(x), w)


# %% right: pools x first, then projects; the weights sum to one
class Pooler(Base):
    def forward(self, x):
        w = ramp(x).softmax(0)
        return self.proj((w.unsqueeze(0) @ x).squeeze(1))


# %% right: max of two sizes is no branch, and is exported
class Pooler(Base):
    def forward(self, x):
        steps = x.shape[1]
        t = torch.arange(steps, dtype=x.dtype, device=x.device)
        return (self.proj(x) * (t / max(steps - 1, 1)).softmax(0)[:, None]).sum(1)


# %% right: reshape with sizes of x, nan replaced
class Pooler(Base):
    def forward(self, x):
        n, t = x.shape[0], x.shape[1]
        h = self.proj(x.reshape(n * t, 6)).reshape(n, t, 3)
        k = torch.arange(t, device=x.device).to(x.dtype)
        w = torch.where(k > 0, k / (t - 1), torch.zeros_like(k)).softmax(0)
        return (h * w.view(1, -1, 1)).sum(dim=1)


# %% wrong: keeps the start tensor for four samples
# says: The batch size is still fixed by a constant 4, a view(4, ...), or a tensor that was built for four
# lesson
# earns: 0 of 2
class Pooler(Base):
    def __init__(self):
        super().__init__()
        self.start = torch.zeros(4, 3)

    def forward(self, x):
        return (self.proj(x) * ramp(x).softmax(0)[:, None]).sum(1) + self.start


# %% wrong: makes the start tensor a buffer
# says: The keys of state_dict() have changed. Nothing that depends on a batch belongs in the state.
# earns: 0 of 2
class Pooler(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("start", torch.zeros(4, 3))

    def forward(self, x):
        return (self.proj(x) * ramp(x).softmax(0)[:, None]).sum(1) + self.start[: x.shape[0]]


# %% wrong: start as a buffer of one row in the state
# says: The keys of state_dict() have changed. Nothing that depends on a batch belongs in the state.
# earns: 0 of 2
class Pooler(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("start", torch.zeros(1, 3))

    def forward(self, x):
        return (self.proj(x) * ramp(x).softmax(0)[:, None]).sum(1) + self.start


# %% wrong: the batch is still four
# says: The batch size is still fixed by a constant 4, a view(4, ...), or a tensor that was built for four
# lesson
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        h = self.proj(x.reshape(-1, 6)).view(4, -1, 3)
        return (h * ramp(x).softmax(0)[:, None]).sum(1)


# %% wrong: time is still five
# says: The number of steps is still fixed, or the weights differ from the contract. The 5 must come from
# says: 'tracing inferred a static shape' means that a dynamic size became a plain number: through a constant
# lesson
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        w = (torch.arange(5, dtype=x.dtype, device=x.device) / 4).softmax(0)
        return (self.proj(x) * w[:, None]).sum(1)


# %% wrong: a loop over range(T)
# says: 'tracing inferred a static shape' means that a dynamic size became a plain number: through a constant
# lesson
# earns: 1 of 2
class Pooler(Base):
    def forward(self, x):
        w = ramp(x).softmax(0)
        return sum(w[t] * self.proj(x[:, t]) for t in range(x.shape[1]))


# %% wrong: `if T > 1` around the division
# says: For a single step the file divides 0 by 0, and your class doesn't. The export decides a Python `if` on a shape
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        w = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        if x.shape[1] > 1:
            w = w / (x.shape[1] - 1)
        return (self.proj(x) * w.softmax(0)[:, None]).sum(1)


# %% wrong: torch.linspace
# says: 'tracing inferred a static shape' means that a dynamic size became a plain number: through a constant
# earns: 1 of 2
class Pooler(Base):
    def forward(self, x):
        w = torch.linspace(0, 1, x.shape[1], dtype=x.dtype, device=x.device).softmax(0)
        return (self.proj(x) * w[:, None]).sum(1)


# %% wrong: divides by T - 1 also for a single step
# says: For a single step 0 / 0 gives nan. Its weight must be 1.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        w = torch.arange(x.shape[1], dtype=x.dtype, device=x.device) / (x.shape[1] - 1)
        return (self.proj(x) * w.softmax(0)[:, None]).sum(1)


# %% wrong: divides by T
# says: For (4, 5, 6) the numbers differ from those of the given class.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        w = torch.arange(x.shape[1], dtype=x.dtype, device=x.device) / x.shape[1]
        return (self.proj(x) * w.softmax(0)[:, None]).sum(1)


# %% wrong: divides by 4
# says: The number of steps is still fixed, or the weights differ from the contract. The 5 must come from
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        w = torch.arange(x.shape[1], dtype=x.dtype, device=x.device) / 4
        return (self.proj(x) * w.softmax(0)[:, None]).sum(1)


# %% wrong: a plain mean over time
# says: For (4, 5, 6) the numbers differ from those of the given class.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        return self.proj(x).mean(1)


# %% wrong: reshape with exchanged dimensions
# says: For (4, 5, 6) the numbers differ from those of the given class.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        h = self.proj(x).reshape(x.shape[1], x.shape[0], 3).transpose(0, 1)
        return (h * ramp(x).softmax(0)[:, None]).sum(1)


# %% wrong: view instead of reshape
# says: A non-contiguous x must work, but view needs a matching memory layout.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        h = self.proj(x.view(x.shape[0] * x.shape[1], 6)).view(x.shape[0], x.shape[1], 3)
        return (h * ramp(x).softmax(0)[:, None]).sum(1)


# %% wrong: arange and zeros without dtype and device of x
# says: The result must have the dtype and device of x, so tensors made in forward need them too.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1])
        w = (torch.zeros(x.shape[1]) + t / t[-1].clamp(min=1)).softmax(0)
        return (self.proj(x) * w[:, None]).sum(1)


# %% wrong: dtype follows, device does not
# says: The result must have the dtype and device of x, so tensors made in forward need them too.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1], dtype=x.dtype)
        return (self.proj(x) * (t / t[-1].clamp(min=1)).softmax(0)[:, None]).sum(1)


# %% wrong: cuts the graph
# says: The gradient of x is missing or wrong.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        return (self.proj(x.detach()) * ramp(x).softmax(0)[:, None]).sum(1)


# %% wrong: returns the weights as well
# says: must return a tensor.
# earns: 1 of 2
class Pooler(Base):
    def forward(self, x):
        w = ramp(x).softmax(0)
        return (self.proj(x) * w[:, None]).sum(1), w


# %% right: powers of e divided by their sum, zeros for each sample
class Pooler(Base):
    def forward(self, x):
        t = x.new_ones(x.shape[1]).cumsum(0) - 1
        w = torch.exp(t / torch.clamp(t[-1:], min=1))
        return torch.matmul(w, self.proj(x)) / w.sum() + x.new_zeros(x.shape[0], 3)


# %% wrong: pads or cuts to five steps
# says: The number of steps is still fixed, or the weights differ from the contract. The 5 must come from
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        x = nn.functional.pad(x, (0, 0, 0, 5))[:, :5]
        return (self.proj(x) * ramp(x).softmax(0)[:, None]).sum(1)


# %% wrong: a loop of 16 turns
# says: For 70 steps the file gives other numbers: something limits the number of steps.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    turns = 16

    def forward(self, x):
        h = self.proj(x) * ramp(x).softmax(0)[:, None]
        if not torch.compiler.is_exporting():
            return h.sum(1)
        h = nn.functional.pad(h, (0, 0, 0, self.turns - x.shape[1]))
        return sum(h[:, t] for t in range(self.turns))


# %% wrong: a loop of 80 turns
# says: The file has a node for each step: a loop that always makes the same number of turns is a loop, too.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    turns = 80

    def forward(self, x):
        h = self.proj(x) * ramp(x).softmax(0)[:, None]
        if not torch.compiler.is_exporting():
            return h.sum(1)
        h = nn.functional.pad(h, (0, 0, 0, self.turns - x.shape[1]))
        return sum(h[:, t] for t in range(self.turns))


# %% wrong: nan becomes 0 for a single step
# says: For a single step 0 / 0 gives nan. Its weight must be 1.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        return (self.proj(x) * (t / t[-1]).softmax(0).nan_to_num(0.0)[:, None]).sum(1)


# %% wrong: a branch for the single step
# says: For a single step the file divides 0 by 0, and your class doesn't. The export decides a Python `if` on a shape
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        if x.shape[1] == 1:
            return self.proj(x[:, 0])
        t = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        return (self.proj(x) * (t / (x.shape[1] - 1)).softmax(0)[:, None]).sum(1)


# %% wrong: forward returns nothing
# says: must return a tensor.
# says: The exporter refuses this model. Export it yourself, and read the end of the message.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        self.proj(x)


# %% wrong: weights over the batch
# says: For (4, 5, 6) the numbers differ from those of the given class.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        w = (torch.zeros_like(x[:, :, 0]) + ramp(x)).softmax(0)
        return (self.proj(x) * w.unsqueeze(2)).sum(1)


# %% wrong: a small number beside T - 1, which the exporter drops
# says: For a single step the file divides 0 by 0, and your class doesn't.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        steps = x.shape[1]
        w = (torch.arange(steps, dtype=x.dtype, device=x.device) / (steps - 1 + 1e-9)).softmax(0)
        return torch.einsum("ntd,t->nd", self.proj(x), w)


# %% wrong: squeezes a batch of one as well
# says: squeeze() without a dimension also removes a batch of one.
# says: The file agrees with your class, but for this size your class is not the function of the contract.
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        return (self.proj(x).transpose(1, 2) @ ramp(x).softmax(0)[:, None]).squeeze()


# %% wrong: a branch for the batch of one, which squeeze() removes
# says: The export decided a Python `if` on a shape, so other sizes silently take the same branch.
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def forward(self, x):
        pooled = (self.proj(x).transpose(1, 2) @ ramp(x).softmax(0)[:, None]).squeeze()
        return pooled[None] if x.shape[0] == 1 else pooled


# %% wrong: a table of positions for 5000 steps
# says: Your class doesn't work for 6000 steps, so something in it has a fixed length
# earns: 1 of 2
# caught: hidden
class Pooler(Base):
    def __init__(self, max_len=5000):
        super().__init__()
        self.register_buffer("steps", torch.arange(max_len).float(), persistent=False)

    def forward(self, x):
        t = self.steps[: x.shape[1]].to(x)
        return torch.einsum("ntd,t->nd", self.proj(x), (t / t[-1].clamp(min=1)).softmax(0))


# %% wrong: torch.cond in place of arithmetic
# says: `torch.cond` does not run inside this check. Use arithmetic, such as a divisor that is at least 1.
# says: Your code raised
# earns: 0 of 2
class Pooler(Base):
    def forward(self, x):
        t = torch.arange(x.shape[1], device=x.device).to(x.dtype)
        grown = torch.cond(t[-1] > 0, lambda t: t / t[-1], lambda t: t * 1, (t,))
        return torch.einsum("ntd,t->nd", self.proj(x), grown.softmax(0))
