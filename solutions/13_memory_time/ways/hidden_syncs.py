# %% right: an optimizer, and gradients of zero for a batch that is skipped
# `clip_grad_norm_` and SGD don't wait either. A skipped batch still makes a step, with gradients of 0. Plain SGD then
# leaves the weights alone, but with momentum or weight decay, or with Adam, they would change.
def train_epoch(model, batches, lr):
    """An epoch of SGD, gradients clipped: mean loss, share of hits, skipped batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    sums = torch.zeros(4, dtype=torch.float64, device=next(model.parameters()).device)
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits, y, ignore_index=-100)
        ok = torch.isfinite(loss)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.no_grad():
            for p in model.parameters():
                p.grad = torch.where(ok, p.grad, 0.0)
            keep = y != -100
            hits = (logits.argmax(-1) == y) & keep
            numbers = torch.stack([n.double() for n in (loss, ok, hits.sum(), keep.sum())])
            sums += torch.where(ok, numbers, 0.0)
        optimizer.step()
    loss_sum, good, right, seen = sums.tolist()
    return loss_sum / good, right / seen, len(batches) - int(good)


# %% wrong: multiplies the step by 0 to skip it
# says: Weights became nan: a number that isn't finite stays so when it is multiplied by 0.
# 0 · nan is nan, so one bad batch spoils all weights. `where` takes nothing from the side that isn't chosen.
def train_epoch(model, batches, lr):
    """An epoch that doesn't wait and doesn't skip."""
    parameters = list(model.parameters())
    sums = torch.zeros(4, dtype=torch.float64, device=parameters[0].device)
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits, y, ignore_index=-100)
        ok = torch.isfinite(loss)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            norm = torch.stack([g.norm() for g in gradients]).norm()
            scale = lr * (1.0 / (norm + 1e-6)).clamp(max=1.0)
            for p, g in zip(parameters, gradients, strict=True):
                p -= scale * g * ok
            keep = y != -100
            hits = (logits.argmax(-1) == y) & keep
            numbers = torch.stack([n.double() for n in (loss, ok, hits.sum(), keep.sum())])
            sums += torch.where(ok, numbers, 0.0)
    loss_sum, good, right, seen = sums.tolist()
    return loss_sum / good, right / seen, len(batches) - int(good)
