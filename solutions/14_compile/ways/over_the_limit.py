# %% right: buffers that are changed in place
# The count and the total are always the same two tensors, and they move with the module. They are also in the
# `state_dict`, so loading a checkpoint of the author's module raises: two keys are missing.
class Reader(nn.Module):
    """Reads one vector a call: averages all since the last restart, and cools down."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("total", torch.zeros(4))

    def restart(self):
        self.steps.zero_()
        self.total.zero_()

    def forward(self, x, heat):
        self.steps += 1
        self.total += x
        return torch.tanh(self.lin(self.total / self.steps)) / (heat * self.steps.sqrt())


# %% right: a running mean
# The mean moves towards each new vector by 1 / steps of the distance. It doesn't grow, where a total can overflow: the
# mean of two vectors of 3e38 is 3e38 here and inf in the author's answer. Each step divides, and so rounds, once more.
class Reader(nn.Module):
    """Reads one vector a call: corrects a mean, and cools down."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.restart()

    def restart(self):
        self.steps = torch.zeros(())
        self.mean = torch.zeros(4)

    def forward(self, x, heat):
        self.steps = self.steps + 1
        self.mean = self.mean + (x - self.mean) / self.steps
        return torch.tanh(self.lin(self.mean)) / (heat * self.steps**0.5)


# %% wrong: repairs the count, and keeps the list
# says: After 4 calls there are 4 graphs.
# The graph is made for one length of the list, as it is for one value of an int attribute. The log names only the first
# guard that fails, so this one shows up after the other one has been repaired.
class Reader(nn.Module):
    """Reads one vector a call, and compiles in each."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.restart()

    def restart(self):
        self.steps = torch.zeros(())
        self.seen = []

    def forward(self, x, heat):
        self.steps = self.steps + 1
        self.seen.append(x)
        context = torch.stack(self.seen).mean(0)
        return torch.tanh(self.lin(context)) / (heat * self.steps**0.5)
