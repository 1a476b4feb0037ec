# %% right: empties the cache around each step
# The region may stay as it is. `clear_autocast_cache` drops the casts of the old weights: before a forward those that
# somebody else left, after a step your own.
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
