# %% right: empties the cache around each step
# The region keeps its cache, and `clear_autocast_cache` empties it: before a forward, because the caller may have
# left casts there, and after a step, because the weights are new. The caller's casts have to be made again. A weight
# that one forward uses twice is cast once, where the author's answer, without a cache, casts it twice.
def fit(model, optimizer, batches):
    """One step per batch, with a cache that is emptied."""
    losses = []
    for x, y in batches:
        torch.clear_autocast_cache()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.clear_autocast_cache()
        losses.append(loss.item())
    return losses


# %% wrong: takes backward and step out of the region
# says: The loss never changes although the weights do
# A region that is switched off inside another one doesn't end it. The cache is emptied when the outermost one ends.
def fit(model, optimizer, batches):
    """The right region for each line, and a stale cache."""
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            loss = F.mse_loss(model(x), y)
            with torch.autocast("cpu", enabled=False):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
    return losses
