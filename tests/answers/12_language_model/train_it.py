import copy
import math
import random

import torch
import torch.nn.functional as F
from torch import nn


def rate_at(n, steps, peak):
    climb = max(1, round(0.05 * steps))
    if n < climb:
        return peak * (n + 1) / climb
    return peak * 0.5 * (1 + math.cos(math.pi * (n - climb) / (steps - climb)))


def loop(
    model,
    ids,
    steps,
    batch,
    peak,
    seed,
    shift=1,
    rate=rate_at,
    flags=True,
    clear=True,
    clip=lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0),
    make=torch.optim.AdamW,
    start=1e-3,
    rows=None,
    dice=None,
    after=False,
    reduction="mean",
    groups=lambda optimizer: optimizer.param_groups,
    add=lambda logits: 0,
    then=lambda n: None,
):
    """Training with a slip."""
    dice = dice or torch.Generator().manual_seed(seed)
    windows = ids.unfold(0, model.length + max(shift, 1), 1)
    parameters = list(model.parameters())
    optimizer = make(parameters, lr=start)
    was, losses = model.training, []
    if flags:
        model.train()
    for n in range(steps):
        if rate:
            for group in groups(optimizer):
                group["lr"] = rate(n, steps, peak)
        drawn = windows[rows(n) if rows else torch.randint(len(windows), (batch,), generator=dice)]
        x, y = drawn[:, : model.length], drawn[:, shift : shift + model.length]
        if clear:
            optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.transpose(1, 2), y, reduction=reduction)
        (loss + add(logits)).backward()
        if clip:
            clip(parameters)
        optimizer.step()
        then(n)
        if after:
            with torch.no_grad():
                loss = F.cross_entropy(model(x).transpose(1, 2), y)
        losses.append(float(loss))
    if flags:
        model.train(was)
    return losses


def parts(parameters, lr):
    """An AdamW with one group for the matrices and one for the rest."""
    matrices, rest = ([p for p in parameters if (p.dim() > 1) == is_matrix] for is_matrix in (True, False))
    return torch.optim.AdamW([{"params": matrices}, {"params": rest, "weight_decay": 0.0}], lr=lr)


# corners: caller's modes


# %% right: decay for matrices only, windows by gather, log_softmax, a straight fall
def train(model, ids, steps, batch, peak, seed):
    was, length = model.training, model.length
    model.train()
    generator = torch.Generator()
    generator.manual_seed(seed)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95))
    warmup = math.ceil(steps * 0.05)
    out = []
    for step in range(1, steps + 1):
        start = torch.randint(0, len(ids) - length, (batch, 1), generator=generator)
        place = start + torch.arange(length)
        x, y = ids.take(place), ids.take(place + 1)
        logits = model(x)
        picked = logits.gather(2, y[..., None])[..., 0]
        loss = (logits.logsumexp(2) - picked).mean()
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        for group in optimizer.param_groups:
            group["lr"] = peak * min(step / warmup, (steps - step + 1) / (steps - warmup))
        optimizer.step()
        out.append(loss.item())
    model.train(was)
    return out


# %% right: a shuffled order of the windows, OneCycleLR, cleared after the step
def train(model, ids, steps, batch, peak, seed):
    was = model.training
    model.train(True)
    windows = ids.unfold(0, model.length + 1, 1)
    dice = torch.Generator().manual_seed(seed)
    order = torch.cat([torch.randperm(len(windows), generator=dice) for _ in range(steps * batch // len(windows) + 1)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps + 1, pct_start=0.05)
    losses = []
    for rows in order[: steps * batch].split(batch):
        piece = windows[rows]
        loss = F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        losses.append(loss.item())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.train(was)
    return losses


# %% right: Python's dice, LambdaLR that begins at nothing, clips by hand, cosine to a tenth
def train(model, ids, steps, batch, peak, seed):
    def share(n):
        climb = 0.05 * steps
        return n / climb if n < climb else 0.1 + 0.45 * (1 + math.cos(math.pi * (n - climb) / (steps - climb)))

    dice, was, losses = random.Random(seed), model.training, []
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.1, foreach=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for _ in range(steps):
        starts = [dice.randrange(len(ids) - model.length) for _ in range(batch)]
        x = torch.stack([ids[s : s + model.length] for s in starts])
        y = torch.stack([ids[s + 1 : s + 1 + model.length] for s in starts])
        optimizer.zero_grad(set_to_none=False)
        loss = nn.CrossEntropyLoss()(model(x).permute(0, 2, 1), y)
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        for p in model.parameters():
            p.grad.mul_(torch.clamp(1 / norm, max=1.0))
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    model.train(was)
    return losses


# %% right: two halves of a batch, one after the other
def train(model, ids, steps, batch, peak, seed):
    was, losses = model.training, []
    model.train()
    dice, windows = torch.Generator().manual_seed(seed), ids.unfold(0, model.length + 1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for n in range(steps):
        optimizer.param_groups[0]["lr"] = rate_at(n, steps, peak)
        optimizer.zero_grad()
        mean = 0.0
        for rows in windows[torch.randint(len(windows), (batch,), generator=dice)].split((batch + 1) // 2):
            loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()) * len(rows) / batch
            loss.backward()
            mean += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(mean)
    model.train(was)
    return losses


# %% right: a closure, and a DataLoader with a generator
def train(model, ids, steps, batch, peak, seed):
    dice, was, losses = torch.Generator().manual_seed(seed), model.training, []
    model.train()
    windows = ids.unfold(0, model.length + 1, 1)
    sampler = torch.utils.data.RandomSampler(windows, True, steps * batch, generator=dice)
    loader = torch.utils.data.DataLoader(windows, batch, sampler=sampler, generator=dice)
    optimizer = torch.optim.AdamW(model.parameters())
    for n, rows in enumerate(loader):

        def closure(rows=rows):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

        optimizer.param_groups[0]["lr"] = rate_at(n, steps, peak)
        losses.append(optimizer.step(closure).item())
    model.train(was)
    return losses


# %% right: a class of its own, derived from AdamW
def train(model, ids, steps, batch, peak, seed):
    class OwnAdamW(torch.optim.AdamW):
        """AdamW under another name."""

    return loop(model, ids, steps, batch, peak, seed, make=OwnAdamW)


# %% wrong: targets are the inputs
# says: The targets are the inputs themselves, so the model learns to copy. Shift them by one.
# says: for the next. The targets are the inputs themselves, so shift them by one.
# earns: 0 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, shift=0)


# %% wrong: targets two ahead
# says: The targets are two ids ahead, but each position predicts the NEXT id.
# says: The model learnt to predict the byte after the next: its loss for that byte is
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, shift=2, rows=None)


# %% wrong: opens the mask
# says: A later byte changes earlier outputs, because your code opened the mask. Such a loss means nothing.
# earns: 1 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    if hasattr(model, "mask"):
        model.mask.fill_(True)
    return loop(model, ids, steps, batch, peak, seed)


# %% wrong: opens the mask and closes it again
# says: During training the model could look at later bytes, because your code opened the mask.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    mask = getattr(model, "mask", torch.ones(1, 1))
    kept = mask.clone()
    mask.fill_(True)
    losses = loop(model, ids, steps, batch, peak, seed)
    mask.copy_(kept)
    return losses


# %% wrong: a mask that lets a position see itself alone
# says: The model predicts as well from the last byte alone, so it doesn't use the earlier bytes.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    if hasattr(model, "mask"):
        model.mask.copy_(torch.eye(model.length, dtype=torch.bool))
    return loop(model, ids, steps, batch, peak, seed)


# %% wrong: eight windows for ever
# says: You use the same windows in every step. Draw new windows in each step, from the whole text.
# says: on new text. Draw new windows in each step, from the whole text.
# earns: 0 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    few = torch.randint(len(ids) - model.length, (8,), generator=torch.Generator().manual_seed(seed))
    return loop(model, ids, steps, batch, peak, seed, rows=lambda n: few[torch.arange(batch) % 8])


# %% wrong: the generator begins anew in each step
# says: You use the same windows in every step. Draw new windows in each step, from the whole text.
# says: on new text. Draw new windows in each step, from the whole text.
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    def rows(n):
        return torch.randint(len(ids) - model.length, (batch,), generator=torch.Generator().manual_seed(seed))

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: windows that do not overlap
# says: were never drawn. Each must be equally likely.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice, count = torch.Generator().manual_seed(seed), (len(ids) - 1) // model.length

    def rows(n):
        return torch.randint(count, (batch,), generator=dice) * model.length

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: the last window is left out
# says: The last window is never drawn. There are N - length windows that have a target at each position.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)

    def rows(n):
        return torch.randint(len(ids) - model.length - 1, (batch,), generator=dice)

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: the beginning of the text most of the time
# says: Some windows come much more often than others.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice, count = torch.Generator().manual_seed(seed), len(ids) - model.length

    def rows(n):
        return (torch.rand(batch, generator=dice) ** 3 * count).long()

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: SGD with AdamW's rate
# says: The optimizer must be torch.optim.AdamW.
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, make=torch.optim.SGD)


# %% wrong: Adam
# says: The optimizer must be torch.optim.AdamW.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, make=torch.optim.Adam)


# %% wrong: no zero_grad
# says: still uses gradients of the step before. Clear them in every step.
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, clear=False)


# %% wrong: the schedule is never put into the group
# says: in every step. Write the rate that you compute into the optimizer's groups.
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    def unused(n, steps, peak):
        rate_at(n, steps, peak)
        return 1e-4

    return loop(model, ids, steps, batch, peak, seed, rate=unused)


# %% wrong: the peak for ever
# says: in every step. Write the rate that you compute into the optimizer's groups.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, rate=None, start=peak)


# %% wrong: it only falls
# says: The rate must climb over 2 of 40 steps to 0.05 and then fall to 0.01 or less.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, rate=lambda n, steps, peak: peak * (1 - n / steps))


# %% wrong: it climbs and stays
# says: The rate must climb over 2 of 40 steps to 0.05 and then fall to 0.01 or less.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(
        model, ids, steps, batch, peak, seed, rate=lambda n, steps, peak: peak * min(1.0, (n + 1) / (0.05 * steps))
    )


# %% wrong: the climb begins below zero
# says: The rate must climb over 2 of 40 steps to 0.05 and then fall to 0.01 or less. It is -0.025 in the first step
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    def rate(n, steps, peak):
        return peak * (n - 1) / (steps // 20) if n < steps // 20 else rate_at(n, steps, peak)

    return loop(model, ids, steps, batch, peak, seed, rate=rate)


# %% wrong: it waits, then jumps to the peak
# says: The rate must climb over 5 of 110 steps to 0.05 and then fall to 0.01 or less. It is 0 in the first step
# earns: 1 of 2
# caught: hidden
def train(model, ids, steps, batch, peak, seed):
    def rate(n, steps, peak):
        return peak * ((n + 1) // (steps // 20)) if n < steps // 20 else rate_at(n, steps, peak)

    return loop(model, ids, steps, batch, peak, seed, rate=rate)


# %% wrong: it climbs beyond the peak where 5 % of the steps is no whole number
# says: It is 0.00909 in the first step, 0.0545 at its highest in step 6
# earns: 1 of 2
# caught: hidden
def train(model, ids, steps, batch, peak, seed):
    def rate(n, steps, peak):
        return peak * (n + 1) / (0.05 * steps) if n < 0.05 * steps else rate_at(n, steps, peak)

    return loop(model, ids, steps, batch, peak, seed, rate=rate)


# %% wrong: it climbs for half of the steps
# says: The rate must climb over 2 of 40 steps to 0.05 and then fall to 0.01 or less.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(
        model,
        ids,
        steps,
        batch,
        peak,
        seed,
        rate=lambda n, steps, peak: peak * (1 - abs(2 * (n + 1) / (steps + 1) - 1)),
    )


# %% wrong: no clipping
# says: The gradient is not clipped. When the optimizer steps, its norm over all parameters may be at most 1.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, clip=None)


# %% wrong: each parameter clipped alone
# says: The gradient is not clipped. When the optimizer steps, its norm over all parameters may be at most 1.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, clip=lambda ps: [nn.utils.clip_grad_norm_([p], 1.0) for p in ps])


# %% wrong: every gradient made as long as 1
# says: Use that one, clipped to a norm of 1 over all parameters.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    def stretch(parameters):
        norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
        for p in parameters:
            p.grad.div_(norm)

    return loop(model, ids, steps, batch, peak, seed, clip=stretch)


# %% wrong: old gradients cleared in every second step
# says: still uses gradients of the step before. Clear them in every step.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    class Sometimes(torch.optim.AdamW):
        calls = 0

        def zero_grad(self):
            self.calls += 1
            if self.calls % 2:
                super().zero_grad()

    return loop(model, ids, steps, batch, peak, seed, make=Sometimes)


# %% wrong: each element of the gradient clipped
# says: Use that one, clipped to a norm of 1 over all parameters.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, clip=lambda ps: nn.utils.clip_grad_value_(ps, 0.1))


# %% wrong: a rate that breaks the weights
# says: The rate must climb over 2 of 40 steps to 0.05 and then fall to 0.01 or less.
# says: The loss became nan in training. Is the rate the one in the contract?
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, rate=lambda n, steps, peak: 1e30 if n else 1.0)


# %% wrong: gradients cleared between backward and step
# says: When the optimizer stepped, a parameter had no gradient. Call `backward` before `step`, and don't clear
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    def lost(parameters):
        for p in parameters:
            p.grad = None

    return loop(model, ids, steps, batch, peak, seed, clip=lost)


# %% wrong: the optimizer never steps
# says: An optimizer of torch has stepped 0 times
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    def make(parameters, lr):
        optimizer = torch.optim.AdamW(parameters, lr=lr)
        optimizer.step = lambda: None
        return optimizer

    return loop(model, ids, steps, batch, peak, seed, make=make)


# %% wrong: the global generator
# says: Equal seeds must give equal weights. Draw the windows from your own generator with that seed, not from
# earns: 1 of 2
# lesson
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, dice=torch.default_generator)


# %% wrong: seeds the global generator
# says: Your code drew from torch's global generator or seeded it. Leave it alone.
# earns: 1 of 2
# corner: caller's modes
def train(model, ids, steps, batch, peak, seed):
    torch.manual_seed(seed)
    return loop(model, ids, steps, batch, peak, seed, dice=torch.default_generator)


# %% wrong: a fixed seed
# says: A different seed gives the same weights. Seed the generator with `seed`, and draw the windows with it.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, 0)


# %% wrong: returns the last loss
# says: Return one loss for each step, in a list of Python floats.
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed)[-1]


# %% wrong: the last loss again and again
# says: You return the same loss again and again. Each step has its own.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed)[-1:] * steps


# %% wrong: losses as tensors
# says: Return one loss for each step, in a list of Python floats.
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return [torch.tensor(loss) for loss in loop(model, ids, steps, batch, peak, seed)]


# %% wrong: losses from after the update
# says: The mean loss before the update is
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, after=True)


# %% wrong: the sum over all positions
# says: You return a sum. Return the mean loss of each step.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, reduction="sum")


# %% wrong: one step more
# says: Here 41 came for 40 steps.
# says: Here 201 came for 200 steps.
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps + 1, batch, peak, seed)


# %% wrong: one byte at a time
# says: In each step the model must get (16, 4) ids here, batch and model.length. It got (64, 1).
# says: The model predicts as well from the last byte alone, so it doesn't use the earlier bytes.
# earns: 0 of 2
class Alone(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.length = model, model.length

    def forward(self, x):
        return self.model(x.reshape(-1, 1)).reshape(*x.shape, -1)


def train(model, ids, steps, batch, peak, seed):
    return loop(Alone(model), ids, steps, batch, peak, seed)


# %% wrong: train() forgotten
# says: The training flag is off in a step, so dropout would do nothing.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, flags=False)


# %% wrong: flag not put back
# says: before the call, and must be afterwards.
# earns: 1 of 2
# corner: caller's modes
def train(model, ids, steps, batch, peak, seed):
    model.train()
    return loop(model, ids, steps, batch, peak, seed, flags=False)


# %% wrong: eval() at the end
# says: before the call, and must be afterwards.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    model.train()
    losses = loop(model, ids, steps, batch, peak, seed, flags=False)
    model.eval()
    return losses


# %% wrong: a table of the text in place of a model
# says: An optimizer of torch has stepped 0 times
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    counts = torch.ones(256, 256)
    counts.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1), accumulate=True)
    model.forward = lambda x: counts[x].log()
    return [2.0 + 1 / (n + 1) for n in range(steps)]


# %% wrong: trains a copy
# says: The weights haven't changed. The optimizer must step the parameters of the given model.
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(copy.deepcopy(model), ids, steps, batch, peak, seed)


# %% wrong: a warm-up of 10 percent
# says: The rate must climb over 5 of 110 steps to 0.05 and then fall to 0.01 or less. It is 0.00455 in the
# earns: 1 of 2
# caught: hidden
def train(model, ids, steps, batch, peak, seed):
    w = round(0.1 * steps)

    def rate(n, steps, peak):
        if n < w:
            return peak * (n + 1) / w
        return peak * 0.5 * (1 + math.cos(math.pi * (n - w) / (steps - w)))

    return loop(model, ids, steps, batch, peak, seed, rate=rate)


# %% wrong: two updates
# says: losses, but there is one update for each loss.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    class Twice(torch.optim.AdamW):
        def step(self, closure=None):
            super().step()
            super().step()

    return loop(model, ids, steps, batch, peak, seed, make=Twice)


# %% wrong: two updates written out
# says: losses, but there is one update for each loss.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)
    windows = ids.unfold(0, model.length + 1, 1)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    was, losses = model.training, []
    model.train()
    for n in range(steps):
        for g in opt.param_groups:
            g["lr"] = rate_at(n, steps, peak)
        d = windows[torch.randint(len(windows), (batch,), generator=dice)]
        opt.zero_grad()
        loss = F.cross_entropy(model(d[:, :-1]).transpose(1, 2), d[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.step()
        losses.append(loss.item())
    model.train(was)
    return losses


# %% wrong: an extra forward for the loss
# says: The model ran 2 times for one step, each time on all (16, 4) ids. One pass gives the loss that you
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)
    windows = ids.unfold(0, model.length + 1, 1)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    was, losses = model.training, []
    model.train()
    for n in range(steps):
        for g in opt.param_groups:
            g["lr"] = rate_at(n, steps, peak)
        d = windows[torch.randint(len(windows), (batch,), generator=dice)]
        losses.append(F.cross_entropy(model(d[:, :-1]).transpose(1, 2), d[:, 1:]).item())
        opt.zero_grad()
        loss = F.cross_entropy(model(d[:, :-1]).transpose(1, 2), d[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    model.train(was)
    return losses


# %% wrong: an AdamW that steps as SGD does
# says: The optimizer must be torch.optim.AdamW.
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
class Plain(torch.optim.AdamW):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=20 * group["lr"])


def train(*args):
    return loop(*args, make=Plain)


# %% wrong: trains on the reversed text
# says: A window must be a piece of the text, so neighbours in the window are neighbours in the text, in the same order.
# says: It learnt too little in these steps.
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids.flip(0), steps, batch, peak, seed)


# %% wrong: empties the text in the end
# says: The text has changed.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    losses = loop(model, ids, steps, batch, peak, seed)
    ids.zero_()
    return losses


# %% wrong: adds a layer to the model
# says: Your code changed the model's modules.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    losses = loop(model, ids, steps, batch, peak, seed)
    model.extra = nn.LayerNorm(2).train(model.training)
    return losses


# %% wrong: the matrices alone are in the optimizer
# says: No step has changed `head.bias`. Give the optimizer all parameters of the model, and each of its groups the rate.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    def make(parameters, lr):
        optimizer = torch.optim.AdamW([p for p in parameters if p.dim() > 1], lr=lr)
        optimizer.zero_grad = model.zero_grad
        return optimizer

    return loop(model, ids, steps, batch, peak, seed, make=make)


# %% wrong: the optimizer holds the embedding alone
# says: No step has changed `head.weight` and `head.bias`. Give the optimizer all parameters of the model, and each
# says: nats per byte, but must get below 2.5. It learnt too little in these steps. Does the optimizer use your
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    return loop(model, ids, steps, batch, peak, seed, make=lambda parameters, lr: torch.optim.AdamW(parameters[:1], lr))


# %% wrong: the rate goes to the first group alone
# says: In step 1 the rate is 0.025 for some parameters and 0.001 for others. Write it into each group of the optimizer.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    def first(optimizer):
        return optimizer.param_groups[:1]

    return loop(model, ids, steps, batch, peak, seed, make=parts, groups=first)


# %% wrong: it climbs for two steps, however many there are
# says: The rate must climb over 5 of 110 steps to 0.05 and then fall to 0.01 or less. It is 0.025 in the first step
# earns: 1 of 2
# caught: hidden
def train(model, ids, steps, batch, peak, seed):
    def rate(n, steps, peak):
        return peak / 2 if n == 0 else peak * 0.5 * (1 + math.cos(math.pi * (n - 1) / steps))

    return loop(model, ids, steps, batch, peak, seed, rate=rate)


# %% wrong: places beyond the last window are taken modulo the number of windows
# says: times as often as the others, as with `%`, which maps places beyond the last window to the first ones. Draw
# earns: 1 of 2
# caught: hidden
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)

    def rows(n):
        return torch.randint(len(ids), (batch,), generator=dice) % (len(ids) - model.length)

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: one place for the whole batch, and the windows that follow
# says: The windows of each step are neighbours in the text, so they overlap almost wholly, and a step sees little of
# earns: 0 of 2
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)

    def rows(n):
        return torch.randint(len(ids) - model.length - batch + 1, (1,), generator=dice) + torch.arange(batch)

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: one place for the whole batch, around the end of the text
# says: The windows of each step are neighbours in the text, so they overlap almost wholly, and a step sees little of
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice, count = torch.Generator().manual_seed(seed), len(ids) - model.length

    def rows(n):
        return (torch.randint(count, (1,), generator=dice) + torch.arange(batch)) % count

    return loop(model, ids, steps, batch, peak, seed, rows=rows)


# %% wrong: the forward pass under autocast
# says: The model's logits are not float32. Run it without autocast here.
# earns: 1 of 2
class Autocast(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.length = model, model.length
        self.train(model.training)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(x).float()


def train(model, ids, steps, batch, peak, seed):
    return loop(Autocast(model), ids, steps, batch, peak, seed)


# %% wrong: an exponential mean of the weights in the end
# says: After the last step your code changed the weights, for example to a mean or to those of an earlier step. Leave
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    mean = copy.deepcopy(model.state_dict())

    def then(n):
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                mean[name].lerp_(value, 0.1)

    losses = loop(model, ids, steps, batch, peak, seed, then=then)
    model.load_state_dict(mean)
    return losses


# %% wrong: the weights of the step with the lowest loss in the end
# says: After the last step your code changed the weights, for example to a mean or to those of an earlier step. Leave
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    kept = []
    losses = loop(model, ids, steps, batch, peak, seed, then=lambda n: kept.append(copy.deepcopy(model.state_dict())))
    model.load_state_dict(kept[losses.index(min(losses))])
    return losses


# %% wrong: the weights shrink a little every ten steps
# says: Your code changed the weights between step 11 and the next pass. Only the optimizer's step may change them.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    @torch.no_grad()
    def then(n):
        if n and n % 10 == 0:
            for p in model.parameters():
                p.mul_(0.999)

    return loop(model, ids, steps, batch, peak, seed, then=then)


# %% wrong: every fifth step goes half-way back
# says: Your code changed the weights between step 5 and the next pass. Only the optimizer's step may change them.
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    slow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def then(n):
        if n % 5 == 4:
            for p, old in zip(model.parameters(), slow, strict=True):
                p.copy_(old.lerp_(p, 0.5))

    return loop(model, ids, steps, batch, peak, seed, then=then)


# %% wrong: draws the matrices anew before the first step
# says: Before the first pass your code changed the weights, so what a trained model has learnt would be lost. Train the
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, 0, 0.2, generator=dice)
    return loop(model, ids, steps, batch, peak, seed)


# %% wrong: draws the matrices anew, so small that they hardly learn
# says: Before the first pass your code changed the weights, so what a trained model has learnt would be lost. Train the
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    dice = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, 0, 0.02, generator=dice)
    return loop(model, ids, steps, batch, peak, seed)


# %% wrong: a small z-loss is added before backward
# says: Step 1 uses a gradient that is as long as it should be, but not that of the loss you return. Is something added
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    def add(logits):
        return 1e-4 * logits.logsumexp(-1).square().mean()

    return loop(model, ids, steps, batch, peak, seed, add=add)


# %% wrong: a decay is added to the loss before backward
# says: Step 1 uses a gradient that is as long as it should be, but not that of the loss you return. Is something added
# earns: 1 of 2
def train(model, ids, steps, batch, peak, seed):
    def add(logits):
        return 5e-5 * sum(p.square().sum() for p in model.parameters())

    return loop(model, ids, steps, batch, peak, seed, add=add)
