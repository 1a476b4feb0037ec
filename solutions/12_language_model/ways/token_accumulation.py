# %% right: gradients of sums, divided at the end
# The summed losses go backward as they are, and the finished gradients are divided once, which is one more pass over
# all of them. Until then they are `count` times as large.
def train_step(model, optimizer, micro, clip):
    """One step, with the mean taken of the gradients."""
    count = sum((targets != -100).sum().item() for _, targets in micro)
    if not count:
        raise ValueError("there is no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids)
        logits = logits.float().flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="sum")
        loss.backward()
        total += loss.item()
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= count
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip).item()
    if math.isfinite(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total / count, norm


# %% wrong: the mean of the micro-batches' means
# says: Every micro-batch counts the same, however many targets it has.
# It is right if all micro-batches have equally many targets. Otherwise a target counts for more in a micro-batch that
# has fewer of them.
def train_step(model, optimizer, micro, clip):
    """One step, in which every micro-batch has the same weight."""
    count = sum((targets != -100).sum().item() for _, targets in micro)
    if not count:
        raise ValueError("there is no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        if not (targets != -100).any():
            continue
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten()) / len(micro)
        loss.backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip).item()
    if math.isfinite(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total, norm
