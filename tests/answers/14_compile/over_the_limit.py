# corners: none
import torch
import torch.nn.functional as F
from torch import nn


class Base(nn.Module):
    """Sum and count as fresh tensors; what most answers below change in one place."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.restart()

    def restart(self):
        self.steps = torch.zeros(())
        self.total = torch.zeros(4)

    def count(self):
        self.steps = self.steps + 1

    def add(self, x):
        self.total = self.total + x

    def context(self):
        return self.total / self.steps

    def apply_lin(self, context):
        return self.lin(context)

    def forward(self, x, heat):
        self.count()
        self.add(x)
        return torch.tanh(self.apply_lin(self.context())) / (heat * self.steps**0.5)


class AsGiven(Base):
    def restart(self):
        self.steps, self.seen = 0, []

    def count(self):
        self.steps += 1

    def add(self, x):
        self.seen.append(x)

    def context(self):
        return torch.stack(self.seen).mean(0)


# %% right: buffers, changed in place
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(4))

    def restart(self):
        self.steps.zero_()
        self.total.zero_()

    def forward(self, x, heat):
        self.steps += 1
        self.total.add_(x.detach())
        return torch.tanh(self.lin(self.total / self.steps)) / (heat * self.steps.sqrt())


# %% right: a running mean
class Reader(Base):
    def add(self, x):
        self.total = self.total + (x - self.total) / self.steps

    def context(self):
        return self.total


# %% right: a preallocated cache with a mask
class Reader(Base):
    def restart(self):
        self.steps = torch.zeros((), dtype=torch.int64)
        self.cache = torch.zeros(64, 4)

    def add(self, x):
        self.cache = self.cache.index_copy(0, (self.steps - 1)[None], x.detach()[None])

    def context(self):
        used = (torch.arange(64) < self.steps).float()
        return used @ self.cache / self.steps


# %% right: all state in one tensor
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.state = torch.zeros(5)

    @property
    def steps(self):
        return self.state[4]

    def restart(self):
        self.state = torch.zeros(5)

    def forward(self, x, heat):
        self.state = self.state + torch.cat([x, torch.ones(1)])
        total, steps = self.state[:4], self.state[4]
        return torch.tanh(self.lin(total / steps)) / (heat * steps**0.5)


# %% right: a running mean in place, handed on as a new tensor
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def restart(self):
        self.mean.zero_()
        self.steps.zero_()

    def forward(self, x, heat):
        self.steps += 1
        self.mean += (x - self.mean) / self.steps
        return torch.tanh(self.lin(self.mean.clone())) / (heat * self.steps**0.5)


# %% wrong: as given
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(AsGiven):
    pass


# %% wrong: mends the count only
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(AsGiven):
    def restart(self):
        self.steps, self.seen = torch.zeros(()), []

    def count(self):
        self.steps = self.steps + 1


# %% wrong: mends the list only
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(Base):
    def restart(self):
        self.steps, self.total = 0, torch.zeros(4)

    def count(self):
        self.steps += 1


# %% wrong: torch.cat and an int
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(Base):
    def restart(self):
        self.steps, self.all = 0, torch.zeros(0, 4)

    def count(self):
        self.steps += 1

    def add(self, x):
        self.all = torch.cat([self.all, x[None]])

    def context(self):
        return self.all.mean(0)


# %% wrong: torch.cat and a tensor for the count
# says: After 12 calls there are 3 graphs
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(Base):
    def restart(self):
        self.steps, self.all = torch.zeros(()), torch.zeros(0, 4)

    def add(self, x):
        self.all = torch.cat([self.all, x[None]])

    def context(self):
        return self.all.mean(0)


# %% wrong: counts an int in __call__
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(Base):
    def restart(self):
        self.steps, self.total = 0, torch.zeros(4)

    def count(self):
        pass

    def __call__(self, x, heat):
        self.steps += 1
        return super().__call__(x, heat)


# %% wrong: counts an int in a forward pre-hook
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(Base):
    def __init__(self):
        super().__init__()

        def count(module, args):
            module.steps += 1

        self.register_forward_pre_hook(count)

    def restart(self):
        self.steps, self.total = 0, torch.zeros(4)

    def count(self):
        pass


# %% wrong: raises the limit
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(AsGiven):
    def __init__(self):
        super().__init__()
        torch._dynamo.config.recompile_limit = 100


# %% wrong: a setting makes ints of modules symbols
# says: You changed a setting of the compiler: allow_unspec_int_on_nn_module.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def __init__(self):
        torch._dynamo.config.allow_unspec_int_on_nn_module = True
        super().__init__()

    def restart(self):
        self.number, self.total = 2, torch.zeros(4)

    @property
    def steps(self):
        return self.number - 2

    def count(self):
        self.number += 1


# %% wrong: forward under torch.compiler.disable
# says: Call 1 ran without any graph
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(AsGiven):
    @torch.compiler.disable
    def forward(self, x, heat):
        return super().forward(x, heat)


# %% wrong: reads the count with item()
# says: graphs, and two are enough
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class Reader(Base):
    def forward(self, x, heat):
        self.count()
        self.add(x)
        steps = self.steps.item()
        return torch.tanh(self.lin(self.total / steps)) / (heat * steps**0.5)


# %% wrong: counts an int on a plain object
# says: After 4 calls there are 4 graphs.
# says: This check builds on the first one
# earns: 0 of 2
class Counter:
    def __init__(self):
        self.n = 0


class Reader(Base):
    def restart(self):
        self.counter, self.total = Counter(), torch.zeros(4)

    @property
    def steps(self):
        return self.counter.n

    def count(self):
        self.counter.n += 1


# %% wrong: does not count
# says: Call 2: the result is another one
# says: This check builds on the first one
# earns: 0 of 2
class Reader(Base):
    def forward(self, x, heat):
        self.count()
        self.add(x)
        return torch.tanh(self.lin(self.context())) / heat


# %% wrong: a window of eight
# says: Call 9: the result is another one
# says: This check builds on the first one
# earns: 0 of 2
class Reader(Base):
    def restart(self):
        self.steps, self.cache = torch.zeros(()), torch.zeros(8, 4)

    def add(self, x):
        self.cache = torch.cat([self.cache[1:], x[None]])

    def context(self):
        return self.cache.sum(0) / self.steps.clamp(max=8)


# %% wrong: restart() forgets the sum
# says: Call 6: after restart() before call 6, the result is another one
# says: A nan that was read before restart() is still there after it.
# earns: 0 of 2
class Reader(Base):
    def __init__(self):
        super().__init__()
        self.total = torch.zeros(4)

    def restart(self):
        self.steps = torch.zeros(())


# %% wrong: restart() forgets the count
# says: Call 6: after restart() before call 6, the result is another one
# says: Call 7: with fullgraph=True, a nan in call 6 and a restart before call 7
# earns: 0 of 2
class Reader(Base):
    def __init__(self):
        super().__init__()
        self.steps = torch.zeros(())

    def restart(self):
        if not hasattr(self, "steps"):
            self.steps = torch.zeros(())
        self.total = torch.zeros(4)


# %% wrong: one count for all modules
# says: Each module counts and averages for itself.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    shared = torch.zeros(())

    def restart(self):
        super().restart()
        self.steps = self.shared.zero_()

    def count(self):
        self.steps += 1


# %% wrong: one sum for all modules, on the class
# says: Each module counts and averages for itself.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    sums = torch.zeros(4)

    def restart(self):
        self.steps = torch.zeros(())
        Reader.sums.zero_()

    def add(self, x):
        self.sums.add_(x)

    def context(self):
        return self.sums / self.steps


# %% wrong: room for 48
# says: All 64 calls must fit.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def restart(self):
        self.steps = torch.zeros((), dtype=torch.int64)
        self.cache = torch.zeros(48, 4)

    def add(self, x):
        place = (self.steps - 1) % 48
        self.cache = self.cache.index_copy(0, place[None], x[None])

    def context(self):
        return self.cache.sum(0) / self.steps


# %% wrong: keeps the caller's x until the next call
# says: the caller wrote into the x of an earlier call
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def restart(self):
        self.steps, self.total, self.last = torch.zeros(()), torch.zeros(4), torch.zeros(4)

    def add(self, x):
        self.total = self.total + self.last
        self.last = x

    def context(self):
        return (self.total + self.last) / self.steps


# %% wrong: the bias does not learn
# says: No gradient reaches lin.bias.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def apply_lin(self, context):
        return F.linear(context, self.lin.weight, self.lin.bias.detach())


# %% wrong: forward under no_grad
# says: No gradient reaches lin.weight.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    @torch.no_grad()
    def forward(self, x, heat):
        return super().forward(x, heat)


# %% wrong: counts only under no_grad
# says: With gradients switched on, the results are others
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def count(self):
        if not torch.is_grad_enabled():
            self.steps = self.steps + 1
        else:
            self.steps = torch.ones(())


# %% wrong: a running mean in place
# says: backward() after call 3 raised: a tensor that autograd had saved in an earlier call was overwritten by a later one.
# earns: 1 of 2
# caught: hidden
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def restart(self):
        self.mean.zero_()
        self.steps.zero_()

    def forward(self, x, heat):
        self.steps += 1
        self.mean += (x - self.mean) / self.steps
        return torch.tanh(self.lin(self.mean)) / (heat * self.steps**0.5)


# %% wrong: divides by a root that the next call overwrites
# says: backward() after call 3 raised: a tensor that autograd had saved in an earlier call was overwritten by a later one.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("root", torch.zeros(()))

    def forward(self, x, heat):
        self.count()
        self.add(x)
        self.root.copy_(self.steps.sqrt())
        return torch.tanh(self.lin(self.context())) / heat / self.root


# %% wrong: scales the tanh in place
# says: backward() after call 1 raised: forward overwrote a tensor that autograd had saved
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def forward(self, x, heat):
        self.count()
        self.add(x)
        return self.lin(self.context()).tanh_().mul_(1 / heat).mul_(self.steps.rsqrt())


# %% wrong: adds up what the weight gives, with its graph
# says: backward() after call 2 raised: it went back into the graph of an earlier call
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def add(self, x):
        self.total = self.total + F.linear(x, self.lin.weight)

    def apply_lin(self, context):
        return context + self.lin.bias


# %% wrong: makes symbols of ints by a setting
# says: Change the module instead.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def __init__(self):
        super().__init__()
        torch._dynamo.config.allow_unspec_int_on_nn_module = True

    def restart(self):
        self.calls = 2
        self.total = torch.zeros(4)

    @property
    def steps(self):
        return self.calls - 2

    def count(self):
        self.calls += 1


# %% wrong: averages what lin returns
# says: The gradient of lin.weight is another one than that of the given module.
# earns: 1 of 2
# caught: hidden
class Reader(Base):
    def add(self, x):
        self.outs = self.total.detach() + self.lin(x)
        self.total = self.outs.detach()

    def context(self):
        return self.outs / self.steps

    def apply_lin(self, context):
        return context


# %% wrong: the given code, hidden from the compiler
# says: Something in `forward` is hidden from the compiler: with aot_eager it raises.
# earns: 1 of 2
# caught: hidden
SEEN = {}


@torch._dynamo.allow_in_graph
def given(x, weight, bias, heat, who):
    if isinstance(x, torch._subclasses.FakeTensor):
        return x * 1
    seen = SEEN.setdefault(int(who), [])
    seen.append(x.clone())
    return torch.tanh(F.linear(torch.stack(seen).mean(0), weight, bias)) / (heat * len(seen) ** 0.5)


class Reader(nn.Module):
    made = 0

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        Reader.made += 1
        self.who = torch.tensor(Reader.made)
        self.restart()

    @property
    def steps(self):
        return len(SEEN.get(int(self.who), []))

    def restart(self):
        SEEN[int(self.who)] = []

    def forward(self, x, heat):
        return given(x, self.lin.weight, self.lin.bias, heat, self.who)


# %% wrong: the average, hidden from the compiler
# says: With the backend "aot_eager", which traces the operations once more, the results are others.
# earns: 1 of 2
# caught: hidden
@torch._dynamo.allow_in_graph
def average(x, total, steps):
    if type(x) is not torch.Tensor:
        return x * 1
    return (total / steps).detach()


class Reader(Base):
    def forward(self, x, heat):
        self.count()
        self.add(x)
        context = average(x, self.total, self.steps)
        return torch.tanh(self.lin(context)) / (heat * self.steps**0.5)


# %% wrong: restarts by *= 0
# says: multiplying by 0 doesn't help, because nan * 0 is nan.
# earns: 1 of 2
# caught: hidden
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("total", torch.zeros(4))

    def restart(self):
        self.steps *= 0
        self.total *= 0

    def forward(self, x, heat):
        self.steps += 1
        self.total += x
        return torch.tanh(self.lin(self.total / self.steps)) / (heat * self.steps.sqrt())
