# %% right: the target takes the shape of the prediction
# `view_as` raises if the number of elements differs, so no test is needed before. The `except` turns this
# RuntimeError into the ValueError of the contract, but it also hides any other RuntimeError of the loss.
def fit(model, x, y, epochs, lr, batch_size):
    """Train with SGD, with targets in the shape of the predictions."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            optimizer.zero_grad()
            prediction = model(xb)
            try:
                loss = nn.functional.mse_loss(prediction, yb.view_as(prediction))
            except RuntimeError as error:
                raise ValueError("the model gives another number of values") from error
            loss.backward()
            optimizer.step()
            total += loss.item() * len(yb)
    return total / len(x)


# %% wrong: squeeze() on the prediction
# says: Your code failed or warned when the last batch was a single sample.
# For a batch of one, `squeeze` removes every dimension. The loss is still right, but PyTorch warns that the target
# has a different size.
def fit(model, x, y, epochs, lr, batch_size):
    """Train with SGD, but for a batch of one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            optimizer.zero_grad()
            prediction = model(xb)
            if prediction.numel() != yb.numel():
                raise ValueError("the model gives another number of values")
            loss = nn.functional.mse_loss(prediction.squeeze(), yb.flatten())
            loss.backward()
            optimizer.step()
            total += loss.item() * len(yb)
    return total / len(x)
