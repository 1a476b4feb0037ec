# corners: none
import torch
import torch.nn.functional as F


def epoch(
    model,
    batches,
    lr,
    loss_of=lambda logits, y: F.cross_entropy(logits, y, ignore_index=-100),
    each=lambda loss, logits, y: None,
    ok_of=lambda loss, x: torch.isfinite(loss),
    choose=lambda ok, step: torch.where(ok, step, 0.0),
    scale_of=lambda norms: (1.0 / (norms.norm() + 1e-6)).clamp(max=1.0),
    count=lambda ok, numbers: torch.where(ok, numbers, 0.0),
    end=lambda loss, right, skipped: (loss, right, skipped),
):
    """What the answers below change in places."""
    parameters, sums = list(model.parameters()), torch.zeros(4, dtype=torch.float64)
    for x, y in batches:
        logits = model(x)
        loss = loss_of(logits, y)
        each(loss, logits, y)
        ok = ok_of(loss, x)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            scale = lr * scale_of(torch.stack([g.norm() for g in gradients]))
            for number, (p, g) in enumerate(zip(parameters, gradients)):
                p -= choose(ok, (scale[number] if scale.ndim else scale) * g)
            hits = ((logits.argmax(-1) == y) & (y != -100)).sum()
            numbers = torch.stack([n.double() for n in (loss, ok, hits, (y != -100).sum())])
            sums += count(ok, numbers)
    loss, good, right, seen = sums.tolist()
    return end(loss / good, right / seen, len(batches) - int(good))


def as_given(model, batches, lr):
    losses, skipped, right, seen = [], 0, 0, 0
    for x, y in batches:
        logits = model(x)
        keep = y != -100
        loss = F.cross_entropy(logits[keep], y[keep])
        if not torch.isfinite(loss):
            skipped += 1
            continue
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.stack([g.norm() for g in gradients]).norm().item()
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients):
                p -= lr * min(1.0, 1.0 / (norm + 1e-6)) * g
        losses.append(loss.item())
        right += (logits.argmax(-1)[keep] == y[keep]).sum().item()
        seen += len(y[keep])
    return sum(losses) / len(losses), right / seen, skipped


# %% right: lists of tensors, three reads at the end
def train_epoch(model, batches, lr):
    losses, oks, hits, targets = [], [], [], []
    for x, y in batches:
        logits = model(x)
        keep = (y != -100).float()
        each = F.cross_entropy(logits, y, ignore_index=-100, reduction="none")
        loss = each.sum() / keep.sum()
        oks.append(loss.isfinite())
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            factor = torch.minimum(torch.ones(()), 1.0 / (norm + 1e-6))
            for p in model.parameters():
                p.sub_((lr * factor * p.grad).masked_fill(~oks[-1], 0.0))
        losses.append(loss.detach().masked_fill(~oks[-1], 0.0))
        hits.append(((logits.argmax(-1) == y) * keep).sum() * oks[-1])
        targets.append(keep.sum() * oks[-1])
    good = torch.stack(oks).sum()
    mean = (torch.stack(losses).double().sum() / good).item()
    share = (torch.stack(hits).sum() / torch.stack(targets).sum()).item()
    return mean, share, len(batches) - int(good.item())


# %% right: gradients filled with zeros, clip_grad_norm_ and an optimizer, one-hot targets
def train_epoch(model, batches, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, foreach=False)
    totals = []
    for x, y in batches:
        logits = model(x)
        keep = y != -100
        classes = F.one_hot(y.clamp(min=0), logits.shape[1]).to(logits.dtype)
        each = torch.where(keep, -(classes * logits.log_softmax(-1).clamp(min=-3e38)).sum(-1), 0.0)
        loss = F.cross_entropy(logits, y, ignore_index=-100) + 0 * each.detach().sum().nan_to_num(0.0, 0.0, 0.0)
        ok = loss.isfinite()
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            for p in model.parameters():
                p.grad = torch.where(ok, p.grad * (1.0 / (norm + 1e-6)).clamp(max=1.0), torch.zeros_like(loss))
        optimizer.step()
        numbers = [loss, ok, ((logits.argmax(-1) == y) & keep).sum(), keep.sum()]
        totals.append(torch.where(ok, torch.stack([n.double() for n in numbers]), 0.0))
    loss, good, right, seen = torch.stack(totals).sum(0).tolist()
    return loss / good, right / seen, round(len(batches) - good)


# %% right: the shared one, a list
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, end=lambda *three: list(three))


# %% right: copies without waiting for them
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: loss.detach().to("cpu", non_blocking=True))


# %% right: copies the sums once, and reads each of them on the CPU
def train_epoch(model, batches, lr):
    sums = []

    def count(ok, numbers):
        sums.append(torch.where(ok, numbers, 0.0))
        return sums[-1]

    epoch(model, batches, lr, count=count, end=lambda *three: None)
    loss, good, right, seen = torch.stack(sums).sum(0).cpu()
    return loss.item() / good.item(), float(right) / float(seen), len(batches) - int(good)


# %% right: numpy's floats, read once
def train_epoch(model, batches, lr):
    def end(loss, right, skipped):
        loss, right = torch.tensor([loss, right], dtype=torch.float64).numpy()
        return loss, right, skipped

    return epoch(model, batches, lr, end=end)


# %% wrong: as given
# says: Python waits 90 times in an epoch of 9 batches: x[mask] 45, item 36, x[mask] = tensor 9.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
train_epoch = as_given


# %% wrong: the masks stay
# says: Python waits 28 times in an epoch of 9 batches
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def train_epoch(model, batches, lr):
    def loss_of(logits, y):
        keep = y != -100
        return F.cross_entropy(logits[keep], y[keep])

    return epoch(model, batches, lr, loss_of=loss_of)


# %% wrong: nonzero and masked_select
# says: Python waits 19 times in an epoch of 9 batches
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    def loss_of(logits, y):
        keep = (y != -100).nonzero().flatten()
        return F.cross_entropy(logits.index_select(0, keep), y.masked_select(y != -100))

    return epoch(model, batches, lr, loss_of=loss_of)


# %% wrong: no batch is skipped
# says: Weights became nan
# earns: 1 of 2
# lesson
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, choose=lambda ok, step: step)


# %% wrong: step * ok
# says: Weights became nan
# earns: 1 of 2
# lesson
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, choose=lambda ok, step: step * ok)


# %% wrong: where on the loss
# says: Weights became nan
# earns: 1 of 2
def train_epoch(model, batches, lr):
    def loss_of(logits, y):
        loss = F.cross_entropy(logits, y, ignore_index=-100)
        return torch.where(loss.isfinite(), loss, 0.0)

    return epoch(model, batches, lr, loss_of=loss_of, choose=lambda ok, step: step)


# %% wrong: skips nan only
# says: ask the loss and nothing else.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, ok_of=lambda loss, x: ~loss.isnan())


# %% wrong: looks at the inputs
# says: ask the loss and nothing else.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, ok_of=lambda loss, x: x.isfinite().all())


# %% wrong: nan_to_num on the step
# says: ask the loss and nothing else.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, choose=lambda ok, step: step.nan_to_num(0.0, 0.0, 0.0))


# %% wrong: skips as GradScaler does, by the norm of the gradients as well
# says: The loss of the last batch is finite, though the norm of its gradients is beyond float32
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    finite = []

    def scale_of(norms):
        finite.append(norms.norm().isfinite())
        return (1.0 / (norms.norm() + 1e-6)).clamp(max=1.0)

    def both(ok, numbers):
        return torch.where(ok & finite[-1], numbers, 0.0)

    return epoch(model, batches, lr, scale_of=scale_of, choose=both, count=both)


# %% wrong: a masked mean, with class 0 in place of -100
# says: Two rows with target -100 have finite logits, but a loss that is inf for one of the classes
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    def loss_of(logits, y):
        mask = y != -100
        return (F.cross_entropy(logits, y.clamp(min=0), reduction="none") * mask).sum() / mask.sum()

    return epoch(model, batches, lr, loss_of=loss_of)


# %% right: a masked mean, chosen with where, and the norm in float64
def train_epoch(model, batches, lr):
    def loss_of(logits, y):
        mask = y != -100
        each = F.cross_entropy(logits, y.clamp(min=0), reduction="none")
        return torch.where(mask, each, 0.0).sum() / mask.sum()

    def scale_of(norms):
        return (1.0 / (norms.double().norm() + 1e-6)).clamp(max=1.0).float()

    return epoch(model, batches, lr, loss_of=loss_of, scale_of=scale_of)


# %% wrong: formats the loss for the log
# says: Python waits 10 times in an epoch of 9 batches: __format__ 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: f"{loss:.3f}")


# %% wrong: repr for the log
# says: Python waits 10 times in an epoch of 9 batches: __repr__ 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: repr(loss))


# %% wrong: cpu() per batch
# says: Python waits 10 times in an epoch of 9 batches: cpu 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: loss.detach().cpu())


# %% wrong: reads a copy that nobody has waited for, per batch
# says: Python waits 10 times in an epoch of 9 batches: item 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: loss.detach().to("cpu", non_blocking=True).item())


# %% wrong: copies into a tensor on the CPU, per batch
# says: Python waits 10 times in an epoch of 9 batches: copy to cpu 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    on_cpu = torch.empty(())
    return epoch(model, batches, lr, each=lambda loss, logits, y: on_cpu.copy_(loss.detach()))


# %% wrong: writes into a row on the CPU, per batch
# says: Python waits 10 times in an epoch of 9 batches: copy to cpu 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    losses = torch.zeros(100)
    return epoch(model, batches, lr, each=lambda loss, logits, y: losses.__setitem__(len(y), loss.detach()))


# %% wrong: a tensor of all losses at the end reads each
# says: Python waits 10 times in an epoch of 9 batches: tensor 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    losses = []
    result = epoch(model, batches, lr, each=lambda loss, logits, y: losses.append(loss.detach()))
    torch.tensor(losses)
    return result


# %% wrong: makes a number on the device, per batch
# says: Python waits 10 times in an epoch of 9 batches: tensor 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: torch.tensor(1.0, device=loss.device))


# %% wrong: chooses between the step and a zero that lies on the CPU
# says: Python waits 37 times in an epoch of 9 batches: where with a tensor on the cpu 36, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, choose=lambda ok, step: torch.where(ok, step, torch.tensor(0.0)))


# %% wrong: a sum on the CPU that takes what the device has, per batch
# says: Python waits 10 times in an epoch of 9 batches: item 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    total = torch.zeros(2)
    return epoch(model, batches, lr, each=lambda loss, logits, y: float(total[0].add_(loss.detach()) + total[0]))


# %% wrong: to('cpu:0') per batch
# says: Python waits 10 times in an epoch of 9 batches: to cpu 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: loss.detach().to(device="cpu:0"))


# %% wrong: to(torch.device('cpu')) per batch
# says: Python waits 10 times in an epoch of 9 batches: to cpu 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: loss.detach().to(torch.device("cpu")))


# %% wrong: four reads at the end
# says: Python waits 4 times in an epoch of 9 batches: item 3, tolist 1. Three times are allowed
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    kept = []
    result = epoch(model, batches, lr, each=lambda loss, logits, y: kept.append(loss.detach()))
    [loss.item() for loss in kept[:3]]
    return result


# %% wrong: trains in train mode, whatever the mode was
# says: The model's training mode must stay as it is.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    model.train()
    return epoch(model, batches, lr)


# %% right: brings batches to the model's device first
def train_epoch(model, batches, lr):
    device = next(model.parameters()).device
    return epoch(model, [(x.to(device), y.to(device)) for x, y in batches], lr)


# %% wrong: as_tensor on the CPU per batch
# says: Python waits 10 times in an epoch of 9 batches: as_tensor 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: torch.as_tensor(loss.detach(), device="cpu"))


# %% wrong: numpy() per batch
# says: Python waits 10 times in an epoch of 9 batches: numpy 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: loss.detach().numpy())


# %% wrong: float() per batch
# says: Python waits 10 times in an epoch of 9 batches: item 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: float(loss))


# %% wrong: an if on the loss
# says: Python waits 10 times in an epoch of 9 batches: item 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: 1 if loss > 100 else 0)


# %% wrong: clip_grad_norm_ that refuses what is not finite
# says: Python waits 10 times in an epoch of 9 batches: item 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    def each(loss, logits, y):
        weight = torch.nn.Parameter(torch.zeros_like(logits[0]))
        weight.grad = torch.ones_like(weight)
        torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)

    return epoch(model, batches, lr, each=each)


# %% wrong: unique per batch
# says: Python waits 10 times in an epoch of 9 batches: _unique2 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, each=lambda loss, logits, y: y.unique())


# %% wrong: skipped batches count among the targets
# says: The given loop returns
# earns: 1 of 2
def train_epoch(model, batches, lr):
    def count(ok, numbers):
        return torch.where(torch.stack([ok, ok, ok, ok | True]), numbers, 0.0)

    return epoch(model, batches, lr, count=count)


# %% wrong: skipped batches count in the mean of the losses
# says: The given loop returns
# earns: 1 of 2
def train_epoch(model, batches, lr):
    loss, right, skipped = epoch(model, batches, lr)
    return loss * (len(batches) - skipped) / len(batches), right, skipped


# %% wrong: -100 becomes class 0
# says: The weights are not those that the given loop gives.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, loss_of=lambda logits, y: F.cross_entropy(logits, y.clamp(min=0)))


# %% wrong: hits on all targets
# says: The given loop returns
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    loss, right, skipped = epoch(model, batches, lr)
    with torch.no_grad():
        rows = sum(len(y) for _, y in batches)
    return loss, right * sum((y != -100).sum() for _, y in batches).item() / rows, skipped


# %% wrong: reads the loss of the batch before
# says: Python waits 9 times in an epoch of 9 batches: item 8, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    known = []

    def each(loss, logits, y):
        if known:
            known.pop().item()
        known.append(loss.detach())

    return epoch(model, batches, lr, each=each)


# %% wrong: gives tensors back
# says: The three results must be plain numbers, not tensors
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(
        model, batches, lr, end=lambda loss, right, skipped: (torch.tensor(loss), torch.tensor(right), skipped)
    )


# %% wrong: the number of skipped batches is a float
# says: The function returns a tuple of a float, a float and an int.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, end=lambda loss, right, skipped: (loss, right, float(skipped)))


# %% wrong: reads each loss at the end
# says: Python waits 10 times in an epoch of 9 batches: item 9, tolist 1.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    losses = []
    result = epoch(model, batches, lr, each=lambda loss, logits, y: losses.append(loss.detach()))
    [loss.item() for loss in losses]
    return result


# %% wrong: does not clip
# says: The weights are not those that the given loop gives.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, scale_of=lambda norms: torch.ones(()))


# %% wrong: clips each parameter by its own norm
# says: The weights are not those that the given loop gives.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, scale_of=lambda norms: (1.0 / (norms + 1e-6)).clamp(max=1.0))


# %% wrong: clips by the largest of the norms
# says: The weights are not those that the given loop gives.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    def scale_of(norms):
        return (1.0 / (norms.max() + 1e-6)).clamp(max=1.0)

    return epoch(model, batches, lr, scale_of=scale_of)


# %% wrong: always scales to norm 1
# says: The weights are not those that the given loop gives.
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, scale_of=lambda norms: 1.0 / (norms.norm() + 1e-6))


# %% wrong: skips large losses
# says: The loss of a batch is far above 10,000, but it is finite, so the batch counts.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    return epoch(model, batches, lr, ok_of=lambda loss, x: loss < 1e4)


# %% wrong: looks at the logits
# says: One logit of each row is -inf, but never that of the target
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    finite = []
    return epoch(
        model,
        batches,
        lr,
        each=lambda loss, logits, y: finite.append(logits.isfinite().all()),
        ok_of=lambda loss, x: loss.isfinite() & finite[-1],
    )


# %% wrong: changes the targets in place
# says: The batches must not be changed, and you changed one of them in place.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    result = epoch(model, batches, lr)
    for _, y in batches:
        y[y == -100] = 0
    return result


# %% wrong: leaves the model in eval mode
# says: The model's training mode must stay as it is.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    model.eval()
    return epoch(model, batches, lr)


# %% wrong: trains in eval mode
# says: The model's training mode must stay as it is.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    model.eval()
    result = epoch(model, batches, lr)
    model.train()
    return result


# %% wrong: waits less in a long epoch only
# says: Python waits 5 times in an epoch of 9 batches
# says: This check builds on the first one
# earns: 0 of 2
def train_epoch(model, batches, lr):
    number = []

    def each(loss, logits, y):
        number.append(1)
        if len(number) % 2 == 0:
            loss.item()

    return epoch(model, batches, lr, each=each)


# %% wrong: the loss of a batch without a target is 0
# says: The loss of a batch without a target is nan, and it is skipped.
# earns: 1 of 2
# caught: hidden
def train_epoch(model, batches, lr):
    def loss_of(logits, y):
        return F.cross_entropy(logits, y, ignore_index=-100, reduction="sum") / (y != -100).sum().clamp(min=1)

    return epoch(model, batches, lr, loss_of=loss_of)
