import torch
from torch import nn


def log_of(x):
    return torch.log(x.clamp(min=1e-6))


# corners: zeros, nan


# %% right: where on outputs, with inputs made safe
class Gate(nn.Module):
    def forward(self, x):
        c = torch.mean(x) > 0
        safe = torch.ones_like(x)
        a, b = log_of(torch.where(c, x, safe)), 0.1 / torch.where(c, safe, x)
        return torch.where(c, a, b)


# %% right: torch.cond with two functions
class Gate(nn.Module):
    def forward(self, x):
        return torch.cond(x.mean() > 0, lambda x: x.clamp(min=1e-6).log(), lambda x: 0.1 / x, (x,))


# %% right: torch.cond with functions of the cell
# alone
SMALLEST = 1e-6


def logarithm(x):
    return torch.log(x.clamp(min=SMALLEST))


class Gate(nn.Module):
    def forward(self, x):
        return torch.cond(x.mean() > 0, lambda x: logarithm(x), lambda x: 0.1 / x, (x,))


# %% right: stacks both branches, inputs made harmless, and picks by index
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean().gt(0)
        a = log_of(x.masked_fill(~c, 1.0))
        b = 0.1 / x.masked_fill(c, 1.0)
        return torch.stack([b, a]).index_select(0, c.long()[None])[0]


# %% right: only the divisor is made harmless
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean() > 0
        return torch.where(c, torch.log(torch.clamp(x, 1e-6)), 0.1 * torch.where(c, torch.ones_like(x), x).reciprocal())


# %% wrong: the given class
# says: Python needs True or False from a tensor here, as for an `if`, `and` or `bool()`, but a FakeTensor has no value
# says: The exporter refuses this layer. Pass the first check cell first.
# earns: 0 of 3
# lesson
class Gate(nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            return torch.log(x.clamp(min=1e-6))
        return 0.1 / x


# %% wrong: a list and its index, an int
# says: Python needs True or False from a tensor here, as for an `if`, `and` or `bool()`, but a FakeTensor has no value
# says: The exporter refuses this layer. Pass the first check cell first.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        return [0.1 / x, log_of(x)][int(x.mean() > 0)]


# %% wrong: a list and its index, a tensor
# says: Python needs an integer from a tensor here, as for an index, but a FakeTensor has no value during export.
# says: The exporter refuses this layer. Pass the first check cell first.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        return [0.1 / x, log_of(x)][(x.mean() > 0).long()]


# %% wrong: bool of an item
# says: Python needs True or False from a tensor here, as for an `if`, `and` or `bool()`, but a FakeTensor has no value
# says: The exporter refuses this layer. Pass the first check cell first.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        c = bool((x.mean() > 0).item())
        return log_of(x) if c else 0.1 / x


# %% wrong: a decision for each element
# says: You decide for each element. Make one decision for the whole batch.
# earns: 0 of 3
# lesson
class Gate(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, log_of(x), 0.1 / x)


# %% wrong: a decision for each row
# says: You decide for each row. Make one decision for the whole batch.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        return torch.where(x.mean(1, keepdim=True) > 0, log_of(x), 0.1 / x)


# %% wrong: adds both branches, one of them times 0
# says: nan of the other branch reached the result, because multiplying it by 0 gives nan. Select, don't
# earns: 2 of 3
# lesson
class Gate(nn.Module):
    def forward(self, x):
        c = (x.mean() > 0).to(x.dtype)
        return c * log_of(x) + (1 - c) * (0.1 / x)


# %% wrong: keeps the first branch
# says: Your layer has only one branch, or the decision was made once, for the example.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        return torch.log(x.clamp(min=1e-6))


# %% wrong: keeps the branch that was taken first
# says: Your layer has only one branch, or the decision was made once, for the example.
# says: A mean of 0 (and of nan) belongs to the second branch.
# earns: 0 of 3
class Gate(nn.Module):
    first = None

    def forward(self, x):
        if not torch.compiler.is_exporting():
            return log_of(x) if x.mean() > 0 else 0.1 / x
        return log_of(x)


# %% wrong: plain where over both branches
# says: The value is right, but the gradient is nan, because the other branch's infinite slope is multiplied by 0
# earns: 2 of 3
# lesson
class Gate(nn.Module):
    def forward(self, x):
        return torch.where(x.mean() > 0, log_of(x), 0.1 / x)


# %% wrong: the mean may be zero
# says: A mean of 0 (and of nan) belongs to the second branch.
# earns: 2 of 3
# caught: hidden
# corner: zeros
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean() >= 0
        return torch.where(c, log_of(x), 0.1 / torch.where(c, 1.0, x))


# %% wrong: asks for the second branch, so that nan takes the first
# says: A mean of 0 (and of nan) belongs to the second branch.
# earns: 2 of 3
# caught: hidden
# corner: nan
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean() <= 0
        return torch.where(c, 0.1 / torch.where(c, x, 1.0), log_of(x))


# %% wrong: the divisor is kept away from zero for all inputs
# says: The values differ from those of the given class.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean() > 0
        return torch.where(c, log_of(x), 0.1 / x.clamp(min=1e-3))


# %% wrong: decides in float32, result in float32
# says: The result is torch.float32, x is torch.float64.
# earns: 2 of 3
# caught: hidden
class Gate(nn.Module):
    def forward(self, x):
        x = x.float()
        c = x.mean() > 0
        return torch.where(c, log_of(x), 0.1 / torch.where(c, 1.0, x))


# %% wrong: cuts the graph
# says: No gradient reaches x, because the layer detaches it (no_grad, detach or .data).
# earns: 2 of 3
class Gate(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            c = x.mean() > 0
            return torch.where(c, log_of(x), 0.1 / torch.where(c, 1.0, x))


# %% wrong: the sign of the sum of signs
# says: The values differ from those of the given class.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        c = x.sign().sum() > 0
        return torch.where(c, 0.1 / torch.where(c, 1.0, x) * 0 + log_of(x), -0.1 / torch.where(c, 1.0, x))


# %% right: a power of a divisor made harmless
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean() > 0
        one = torch.ones((), dtype=x.dtype, device=x.device)
        return torch.where(c, log_of(torch.where(c, x, one)), 0.1 * torch.where(c, one, x).pow(-1))


# %% wrong: a divisor that is never zero
# says: In the second branch 0.1 / 0 is inf, as in the given class. Only the branch that is not chosen may be
# earns: 2 of 3
# caught: hidden
class Gate(nn.Module):
    def forward(self, x):
        return torch.where(x.mean() > 0, log_of(x), 0.1 / torch.where(x == 0, 1e-12, x))


# %% wrong: nan becomes 0 at the end
# says: The values differ from those of the given class.
# earns: 2 of 3
class Gate(nn.Module):
    def forward(self, x):
        c = (x.mean() > 0).to(x.dtype)
        return (c * log_of(x) + (1 - c) * (0.1 / x)).nan_to_num()


# %% wrong: a decision for each column
# says: You decide for each column. Make one decision for the whole batch.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean(0, keepdim=True) > 0
        return torch.where(c, log_of(x), 0.1 / torch.where(c, 1.0, x))


# %% wrong: the mean must exceed a hundredth
# says: Your layer has only one branch, or the decision was made once, for the example.
# earns: 2 of 3
# caught: hidden
class Gate(nn.Module):
    def forward(self, x):
        c = x.mean() > 0.01
        return torch.where(c, log_of(x), 0.1 / torch.where(c, 1.0, x))


# %% wrong: returns nothing
# says: must return a tensor
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        log_of(x)


# %% wrong: the mean added up row by row
# says: The batch size is fixed, because something turned a dynamic size into a plain number.
# says: The exporter refuses this layer. Pass the first check cell first.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        total = x.new_zeros(())
        for row in range(x.shape[0]):
            total = total + x[row].sum()
        positive = total > 0
        return torch.where(positive, log_of(torch.where(positive, x, 1)), 0.1 / torch.where(positive, 1, x))


# %% wrong: uses an operation that ONNX doesn't have
# says: The exporter refuses this layer. Export it yourself, and read the end of the message.
# says: The exporter refuses this layer. Pass the first check cell first.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        positive = torch.special.i1(x.mean()) > 0  # as good as the sign of the mean
        return torch.where(positive, log_of(torch.where(positive, x, 1)), 0.1 / torch.where(positive, 1, x))


# %% wrong: one number for each row
# says: The result must have the shape of x.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        positive = x.mean() > 0
        both = torch.where(positive, log_of(torch.where(positive, x, 1)), 0.1 / torch.where(positive, 1, x))
        return both.sum(1)


# %% wrong: in half precision while it is exported
# says: After the export the values differ.
# earns: 0 of 3
class Gate(nn.Module):
    def forward(self, x):
        positive = x.mean() > 0
        both = torch.where(positive, log_of(torch.where(positive, x, 1)), 0.1 / torch.where(positive, 1, x))
        return both.half().to(x.dtype) if torch.compiler.is_exporting() else both


# %% wrong: the second branch with a detached divisor
# says: The gradient is not that of the chosen branch.
# earns: 2 of 3
class Gate(nn.Module):
    def forward(self, x):
        positive = x.mean() > 0
        safe = torch.where(positive, 1, x)
        return torch.where(positive, log_of(torch.where(positive, x, 1)), 0.1 * safe / safe.detach().square())


# %% wrong: a mask from the mean, multiplied with what it hides
# says: arithmetic between the branches turned it into nan. Select, don't multiply.
# earns: 2 of 3
# caught: hidden
# corner: nan
class Gate(nn.Module):
    def forward(self, x):
        mask = (x.mean() > 0).to(x.dtype)
        safe = x * (1 - mask) + mask
        return mask * log_of(x) + (1 - mask) * (0.1 / safe)


# %% wrong: a mask times the logarithm, which may be infinite
# says: nan of the other branch reached the result, because multiplying it by 0 gives nan. Select, don't
# earns: 2 of 3
# caught: hidden
class Gate(nn.Module):
    def forward(self, x):
        mask = (x.mean() > 0).to(x.dtype)
        return mask * log_of(x) + (1 - mask) * 0.1 / torch.where(mask > 0, torch.ones_like(x), x)


# %% wrong: stacks both branches as they are, and picks by index
# says: The value is right, but the gradient is nan, because the other branch's infinite slope is multiplied by 0
# earns: 2 of 3
class Gate(nn.Module):
    def forward(self, x):
        return torch.stack([0.1 / x, log_of(x)]).index_select(0, (x.mean() > 0).long()[None])[0]


# %% wrong: lerp between the branches, which makes nan of the inf of the branch that is taken
# says: The branch that is taken gives inf here, as it must, and arithmetic between the branches turned it into nan.
# earns: 2 of 3
# caught: hidden
class Gate(nn.Module):
    def forward(self, x):
        positive = (x.mean() > 0).to(x.dtype)
        logarithm = torch.log(torch.clamp(x * positive + (1 - positive), min=1e-6))
        return torch.lerp(0.1 / (x * (1 - positive) + positive), logarithm, positive)
