import copy
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def training(loss_of, result=None):
    """fit with another loss, or another result; loss_of takes the predictions and the targets of a batch."""

    def fit(model, x, y, epochs, lr, batch_size):
        opt = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(epochs):
            batches = []
            for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
                opt.zero_grad()
                loss = loss_of(model(xb), yb)
                loss.backward()
                opt.step()
                batches.append((loss.item(), len(yb)))
        if result:
            return result(batches)
        return sum(loss * size for loss, size in batches) / len(x)

    return fit


def checked(prediction, target):
    if prediction.numel() != target.numel():
        raise ValueError("sizes differ")
    return functional.mse_loss(prediction.flatten(), target.flatten())


# corners: 0-d


# %% right: the prediction viewed as the target, squared by hand
def fit(model, x, y, epochs, lr, batch_size):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    loader = DataLoader(TensorDataset(x, y), batch_size)
    for epoch in range(epochs):
        squares = []
        for inputs, targets in loader:
            outputs = model(inputs)
            if outputs.nelement() != targets.nelement():
                raise ValueError("the model gives another number of values")
            errors = (outputs.view_as(targets) - targets) ** 2
            model.zero_grad()
            errors.mean().backward()
            optimizer.step()
            squares.append(errors.detach().flatten())
    return torch.cat(squares).mean().item()


# %% right: both brought to (B, 1), the update by hand
def fit(model, x, y, epochs, lr, batch_size):
    y = y.reshape(-1, 1)
    for _ in range(epochs):
        total = 0.0
        for start in range(0, len(x), batch_size):
            xb, yb = x[start : start + batch_size], y[start : start + batch_size]
            out = model(xb)
            if out.numel() != len(yb):
                raise ValueError(out.shape)
            loss = nn.MSELoss(reduction="sum")(out.reshape(-1, 1), yb)
            grads = torch.autograd.grad(loss / len(yb), list(model.parameters()))
            with torch.no_grad():
                for p, g in zip(model.parameters(), grads):
                    p -= lr * g
            total += float(loss.detach())
    return total / len(x)


# %% right: an element check, then squeeze() on both
def loss_of(prediction, target):
    if prediction.numel() != target.numel():
        raise ValueError("sizes differ")
    return functional.mse_loss(prediction.squeeze(), target.squeeze())


fit = training(loss_of)


# %% right: raises a subclass of ValueError, with gradients set to zeros
class SizeError(ValueError):
    pass


def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    loss_fn = nn.MSELoss()
    for epoch in range(epochs):
        seen, total = 0, torch.zeros((), dtype=torch.float64)
        for xb, yb in zip(x.split(batch_size), y.split(batch_size)):
            out = model(xb)
            if out.shape not in (yb.shape, (len(yb),), (len(yb), 1)):
                raise SizeError
            loss = loss_fn(out.ravel(), yb.ravel())
            opt.zero_grad(set_to_none=False)
            loss.backward()
            opt.step()
            total += loss.detach() * len(xb)
            seen += len(xb)
    return (total / seen).item()


# %% wrong: the given code
# says: The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B).
# earns: 0 of 2
# lesson
fit = training(functional.mse_loss, result=lambda batches: batches[-1][0])


# %% wrong: the warning is filtered out
# says: The warning is gone, but the targets are still broadcast, so the loss can't fall below the variance.
# says: The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B).
# earns: 0 of 2
# lesson
def fit(model, x, y, epochs, lr, batch_size):
    warnings.filterwarnings("ignore")
    return training(functional.mse_loss)(model, x, y, epochs, lr, batch_size)


# %% wrong: the difference squared by hand, no warning
# says: The warning is gone, but the targets are still broadcast, so the loss can't fall below the variance.
# says: The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B).
# earns: 0 of 2
fit = training(lambda prediction, target: ((prediction - target) ** 2).mean())


# %% wrong: squeeze() on the prediction, targets flattened
# says: Your code failed or warned when the last batch was a single sample. squeeze() without a dimension also
# earns: 1 of 2
# corner: 0-d
# lesson
def loss_of(prediction, target):
    if prediction.numel() != target.numel():
        raise ValueError("sizes differ")
    return functional.mse_loss(prediction.squeeze(), target.flatten())


fit = training(loss_of)


# %% wrong: squeeze() on both, no check
# says: A prediction with a different number of values raises the wrong exception. Compare the numbers of
# earns: 1 of 2
# caught: hidden
# corner: 0-d
fit = training(lambda prediction, target: functional.mse_loss(prediction.squeeze(), target.squeeze()))


# %% wrong: squeeze() on the prediction
# says: The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B).
# says: Your code failed or warned when the last batch was a single sample. squeeze() without a dimension also
# earns: 0 of 2
fit = training(lambda prediction, target: functional.mse_loss(prediction.squeeze(), target))


# %% wrong: squeeze(1) on the prediction
# says: Your code fails if the model returns (B,) or the targets are (N, 1). Both must work.
# earns: 0 of 2
fit = training(lambda prediction, target: functional.mse_loss(prediction.squeeze(1), target))


# %% wrong: squeeze(-1) on the prediction
# says: The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B).
# says: Your code failed or warned when the last batch was a single sample. squeeze() without a dimension also
# earns: 0 of 2
fit = training(lambda prediction, target: functional.mse_loss(prediction.squeeze(-1), target))


# %% wrong: takes p[:, 0]
# says: Your code fails if the model returns (B,) or the targets are (N, 1). Both must work.
# earns: 0 of 2
fit = training(lambda prediction, target: functional.mse_loss(prediction[:, 0], target))


# %% wrong: unsqueeze(1) on the target
# says: The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B).
# earns: 0 of 2
fit = training(lambda prediction, target: functional.mse_loss(prediction, target.unsqueeze(1)))


# %% wrong: cuts the prediction to the target's length
# says: A prediction with a different number of values must raise ValueError, but your code broadcasts it.
# earns: 1 of 2
# caught: hidden
fit = training(lambda p, target: functional.mse_loss(p.flatten()[: target.numel()], target.flatten()))


# %% wrong: another size raises RuntimeError
# says: A prediction with a different number of values raises the wrong exception. Compare the numbers of
# earns: 1 of 2
# caught: hidden
fit = training(lambda p, target: functional.mse_loss(p.reshape(target.shape), target))


# %% wrong: a check that compares the first dimension only
# says: A prediction with a different number of values must raise ValueError, but your code broadcasts it.
# earns: 1 of 2
# caught: hidden
def loss_of(prediction, target):
    if len(prediction) != len(target):
        raise ValueError("sizes differ")
    return functional.mse_loss(prediction.flatten()[: target.numel()], target.flatten())


fit = training(loss_of)


# %% wrong: refuses only where there are more values
# says: A prediction with a different number of values must raise ValueError, but your code broadcasts it.
# earns: 1 of 2
# caught: hidden
def loss_of(prediction, target):
    if prediction.numel() > target.numel():
        raise ValueError("sizes differ")
    return functional.mse_loss(prediction.flatten(), target.flatten())


fit = training(loss_of)


# %% wrong: returns the last batch's loss
# says: Return the mean over the samples of the last epoch, not the loss of the last batch or a mean of batch
# earns: 1 of 2
# lesson
fit = training(checked, result=lambda batches: batches[-1][0])


# %% wrong: returns the mean of batch means
# says: Return the mean over the samples of the last epoch, not the loss of the last batch or a mean of batch
# earns: 1 of 2
fit = training(checked, result=lambda batches: sum(loss for loss, _ in batches) / len(batches))


# %% wrong: returns a tensor
# says: Return the loss as a Python float
# earns: 1 of 2
fit = training(checked, result=lambda batches: torch.tensor(0.0))


# %% wrong: returns nothing
# says: Return the loss as a Python float
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    training(checked)(model, x, y, epochs, lr, batch_size)


# %% wrong: the mean over all epochs
# says: You return the mean over all epochs. Return the mean over the last epoch.
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    losses = [training(checked)(model, x, y, 1, lr, batch_size) for _ in range(epochs)]
    if epochs > 3:
        return losses[-1]
    return sum(losses) / len(losses)


# %% wrong: shuffles
# says: The weights after training are not those of SGD on the mean squared error of each batch, in order.
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True):
            opt.zero_grad()
            loss = checked(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: drops the last batch
# says: The weights after training are not those of SGD
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size, drop_last=True):
            opt.zero_grad()
            loss = checked(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: no zero_grad
# says: The model didn't learn the relation: the weights should be 2 and -1 and the bias 0.5.
# says: The weights after training are not those of SGD
# earns: 0 of 2
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            loss = checked(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: zero_grad only after each step
# says: Gradients from before the call went into the first step, because `backward` adds to `.grad`. Clear them before
# earns: 1 of 2
# caught: hidden
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            loss = checked(model(xb), yb)
            loss.backward()
            opt.step()
            opt.zero_grad()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: goes back to the best epoch
# says: The loss rises here, and afterwards the model has the weights of an earlier epoch. Every batch of every epoch
# earns: 1 of 2
# caught: hidden
def fit(model, x, y, epochs, lr, batch_size):
    best, best_state = float("inf"), None
    for _ in range(epochs):
        loss = training(checked)(model, x, y, 1, lr, batch_size)
        if loss < best:
            best, best_state = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    return loss


# %% wrong: the exact solution at once
# says: The weights after training are not those of SGD
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    columns = torch.cat([x, torch.ones(len(x), 1)], 1)
    found = torch.linalg.lstsq(columns, y.reshape(-1, 1)).solution.flatten()
    weight, bias = model.parameters()
    weight.data[0], bias.data[0] = found[:2], found[2]
    return float((columns @ found - y.flatten()).square().mean())


# %% right: the target viewed as the prediction, the error turned into ValueError
def loss_of(prediction, target):
    try:
        return functional.mse_loss(prediction, target.view_as(prediction))
    except RuntimeError as error:
        raise ValueError("another number of values") from error


fit = training(loss_of)


# %% wrong: the loss is computed again after the training
# says: The weights are right, but the returned value is not the mean over the samples of the last epoch.
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    training(checked)(model, x, y, epochs, lr, batch_size)
    with torch.no_grad():
        return checked(model(x), y).item()


# %% wrong: one step for the whole set
# says: The weights after training are not those of SGD on the mean squared error of each batch, in order.
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    return training(checked)(model, x, y, epochs, lr, len(x))


# %% wrong: an assertion in place of ValueError
# says: A prediction with a different number of values raises the wrong exception. Compare the numbers of
# earns: 1 of 2
# caught: hidden
def loss_of(prediction, target):
    assert prediction.numel() == target.numel()
    return functional.mse_loss(prediction.flatten(), target.flatten())


fit = training(loss_of)


# %% wrong: every batch counts as a complete one
# says: The weights are right, but the returned value is not the mean over the samples of the last epoch.
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    sizes = -(-len(x) // batch_size) * batch_size
    return training(checked)(model, x, y, epochs, lr, batch_size) * len(x) / sizes


# %% wrong: momentum
# says: The weights after training are not those of SGD on the mean squared error of each batch, in order.
# earns: 1 of 2
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.05)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            opt.zero_grad()
            loss = checked(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: another layer takes the place of the model's
# says: Train the model's own parameters, don't replace them.
# says: The weights after training are not those of SGD on the mean squared error of each batch, in order.
# earns: 0 of 2
def fit(model, x, y, epochs, lr, batch_size):
    model.linear = nn.Linear(2, 1)
    return training(checked)(model, x, y, epochs, lr, batch_size)


# %% wrong: view_as alone
# says: A prediction with a different number of values raises the wrong exception. Compare the numbers of
# earns: 1 of 2
# caught: hidden
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(xb).view_as(yb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: asserts the shapes
# says: A prediction with a different number of values raises the wrong exception. Compare the numbers of
# earns: 1 of 2
# caught: hidden
def fit(model, x, y, epochs, lr, batch_size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            opt.zero_grad()
            out = model(xb).flatten()
            assert out.shape == yb.flatten().shape
            loss = (out - yb.flatten()).pow(2).mean()
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: warns by itself
# says: There is still a warning, because predictions and targets have different shapes.
# earns: 0 of 2
def loss_of(prediction, target):
    if prediction.shape != target.shape:
        warnings.warn("the shapes differ", UserWarning, stacklevel=2)
    return checked(prediction, target)


fit = training(loss_of)

# %% wrong: the sum over the samples
# says: You return the sum over the samples instead of their mean.
# earns: 1 of 2
fit = training(checked, result=lambda batches: sum(loss * size for loss, size in batches))
