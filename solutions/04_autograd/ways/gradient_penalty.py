# %% right: one derivative for each sample
# It doesn't rely on samples not influencing each other, so it is also right for a model with BatchNorm in train mode,
# where the derivative of the sum mixes the samples. It runs one backward for each sample.
def penalised_loss(model, x, y, lam):
    """The norms of the gradients of single outputs."""
    x = x.detach().requires_grad_()
    out = model(x)
    penalty = 0
    for b, one in enumerate(out):
        (g,) = torch.autograd.grad(one, x, create_graph=True)
        penalty = penalty + (g[b].norm() - 1).square() / len(x)
    return F.mse_loss(out, y) + lam * penalty


# %% right: grad_outputs of ones
# The author differentiates the sum of the outputs, whose backward passes on a vector of ones. Here the ones are given
# directly, which saves the sum.
def penalised_loss(model, x, y, lam):
    """One vector-Jacobian product for all samples."""
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: retain_graph in place of create_graph
# says: The penalty is a constant for autograd: torch.autograd.grad without create_graph=True returns plain numbers
# retain_graph keeps what backward needs. It doesn't record the backward itself.
def penalised_loss(model, x, y, lam):
    """A penalty that changes the loss, and no gradient."""
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()
