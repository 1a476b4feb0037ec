# corners: caller's modes


# %% right: one region around everything, without a cache
def fit(model, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# %% right: a decorated inner function
def fit(model, optimizer, batches):
    @torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
    def loss_of(x, y):
        return (model(x) - y).square().mean()

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return [step(x, y) for x, y in batches]


# %% wrong: the given code
# says: The loss never changes although the weights do
# earns: 0 of 2
# lesson
def fit(model, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# %% wrong: takes backward and step out by a nested disabled region
# says: The loss never changes although the weights do
# earns: 0 of 2
# lesson
def fit(model, optimizer, batches):
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


# %% wrong: one region per batch, with the cache
# says: Inside a caller's region your own region is not the outermost: leaving it doesn't empty the cache.
# earns: 1 of 2
# corner: caller's modes
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: drops autocast
# says: The products no longer run in bfloat16: autocast is what the loop is about.
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: casts the model to bfloat16
# says: The parameters changed dtype. Rounded weights lose small updates; autocast casts copies.
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    model.bfloat16()
    losses = []
    for x, y in batches:
        loss = F.mse_loss(model(x.bfloat16()).float(), y)
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= (0.25 * p.grad).to(p.dtype)
        losses.append(loss.item())
    return losses


# %% wrong: switches the cache off globally and leaves it so
# says: The caller's autocast state is different afterwards.
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    torch.set_autocast_cache_enabled(False)
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: the switches by hand, not put back when the model raises
# says: If the model raises, the caller's autocast state must be restored.
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        before = (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        )
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.set_autocast_cache_enabled(False)
        loss = F.mse_loss(model(x), y)
        torch.set_autocast_enabled("cpu", before[0])
        torch.set_autocast_dtype("cpu", before[1])
        torch.set_autocast_cache_enabled(before[2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: the loss after the step
# says: The loss of a batch is that before its step
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []

    def loss_of(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            return F.mse_loss(model(x), y)

    for x, y in batches:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
        losses.append(loss_of(x, y).item())
    return losses


# %% wrong: forgets zero_grad
# says: The gradients of earlier batches were added to those of each batch: clear them (zero_grad) for
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: zeroes the gradients only after the step
# says: Gradients from before the call leaked into the first step: clear them (zero_grad) before the first
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


# %% wrong: returns nothing
# says: Nothing came back: is a `return` missing? Return the list of losses.
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# %% wrong: the loss by hand, in bfloat16
# says: The loss was computed in bfloat16, which keeps two or three digits of it: autocast runs F.mse_loss
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = (model(x) - y.bfloat16()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: zero_grad once, before the loop
# says: The gradients of earlier batches were added to those of each batch: clear them (zero_grad) for
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    optimizer.zero_grad()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: the mean of all losses
# says: Return a list with one float per batch.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


# %% wrong: losses as tensors
# says: The losses must be Python floats.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


# %% wrong: adds the losses up
# says: The losses are not those of a loop in which each forward sees the last step.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() + sum(losses[-1:]))
    return losses


# %% wrong: a step more at the end
# says: The weights are not those of one step per batch.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in [*batches, batches[-1]]:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[:-1]


# %% wrong: stops where the model raises
# says: What the model raises must reach the caller.
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    try:
        for x, y in batches:
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    except Exception:
        return losses
    return losses


# %% right: a closure, which the optimizer calls
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                loss = F.mse_loss(model(x), y)
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
    return losses


# %% wrong: never calls the model
# says: `fit` never called the model: no matrix product was seen.
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    return [y.square().mean().item() for _, y in batches]


# %% wrong: casts weights and input by hand, without autocast
# says: Your code cast the weights to a lower precision before the model ran.
# says: This check builds on the first one
# earns: 0 of 2
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", enabled=False):
            low = {name: p.bfloat16() for name, p in model.named_parameters()}
            out = torch.func.functional_call(model, low, (x.bfloat16(),))
            loss = F.mse_loss(out.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% right: the input cast beforehand
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x.bfloat16()), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: no dtype, so that of the caller's region
# says: Inside the caller's float16 region your products are float16.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: stacks the losses, which there may be none of
# says: No batches came, so no losses: return an empty list.
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


# %% wrong: None where there are no batches
# says: No batches came, so no losses: return an empty list.
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = None
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses = [*(losses or []), loss.item()]
    return losses


# %% wrong: asks for the gradients of all parameters, frozen or not
# says: One weight of the model is frozen, and asking for its gradient raises
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        parameters = list(model.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters)):
            p.grad = g
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: thaws what is frozen
# says: With a frozen weight the losses are wrong.
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    model.requires_grad_(True)
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: thaws what is frozen after the losses are known
# says: With a frozen weight the weights are wrong: it must stay as it is.
# earns: 1 of 2
# caught: hidden
def fit(model, optimizer, batches):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.0 if p.requires_grad else 0.25
    return losses
