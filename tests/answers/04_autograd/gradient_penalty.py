# corners: zeros
# %% right: grad_outputs=ones and a two-sided torch.where around the root
def penalised_loss(model, x, y, lam):
    inputs = x.detach().clone().requires_grad_(True)
    out = model(inputs)
    g = torch.autograd.grad(out, inputs, grad_outputs=torch.ones_like(out), create_graph=True, retain_graph=True)[0]
    squares = g.square().reshape(len(g), -1).sum(1)
    some = squares > 0
    norms = torch.where(some, torch.where(some, squares, 1.0).sqrt(), 0.0)
    return ((out - y) ** 2).mean() + lam * ((norms - 1) ** 2).mean()


# %% right: one grad call per sample, Tensor.norm
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    penalty = 0
    for b, o in enumerate(out):
        g = torch.autograd.grad(o, x, create_graph=True)[0][b]
        penalty = penalty + (g.norm() - 1).pow(2) / len(x)
    return nn.functional.mse_loss(out, y) + lam * penalty


# %% right: uses x itself where it requires grad
def penalised_loss(model, x, y, lam):
    own = x if x.requires_grad else x.detach().requires_grad_()
    out = model(own)
    g = torch.autograd.grad(out.sum(), own, create_graph=True)[0]
    dims = tuple(range(1, g.dim()))
    return nn.MSELoss()(out, y).add((torch.linalg.vector_norm(g, dim=dims) - 1).square().mean(), alpha=lam)


# %% wrong: the code as given
# says: You took one norm over the whole batch; each sample has its own norm.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x.requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.mean(), x, retain_graph=True)
    penalty = (g.pow(2).sum().sqrt() - 1) ** 2
    return F.mse_loss(out, y) + lam * penalty


# %% wrong: everything repaired but create_graph (and no retain_graph)
# says: The inner grad call freed the graph that loss.backward() still needs: create_graph=True keeps it
# earns: 0 of 2
# lesson
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: retain_graph=True in place of create_graph=True
# says: The penalty is a constant for autograd: torch.autograd.grad without create_graph=True returns plain numbers
# earns: 0 of 2
# lesson
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: differentiates the mean of the outputs
# says: The gradient of out.mean() is 1/B of each sample's gradient: differentiate the sum of the outputs
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
# lesson
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.mean(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: one norm for the batch
# says: You took one norm over the whole batch; each sample has its own norm.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
# lesson
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.norm() - 1).square()


# %% wrong: squared norm minus 1
# says: The norm is missing its square root: (|g|^2 - 1)^2 is another penalty.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).square().sum(1) - 1).square().mean()


# %% wrong: sums over the samples
# says: The penalty is averaged over the samples, not summed.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().sum()


# %% wrong: sqrt of the sum of squares
# says: A sample with zero gradient gives nan: the slope of the root at 0 is infinite.
# earns: 1 of 2
# corner: zeros
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).square().sum(1).sqrt() - 1).square().mean()


# %% wrong: penalises the norm itself
# says: The norm is compared with 1.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * g.flatten(1).square().sum(1).mean()


# %% wrong: backward(create_graph=True)
# says: The .grad of a parameter was filled while the penalty was computed: backward() fills every leaf.
# earns: 1 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    out.sum().backward(create_graph=True)
    return F.mse_loss(out, y) + lam * (x.grad.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: x.requires_grad_()
# says: x.requires_grad was changed: work on a detached copy that requires grad.
# earns: 1 of 2
def penalised_loss(model, x, y, lam):
    x.requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: calls the model again for the data term
# says: Your code called model 2 times; once is enough (dropout would give different numbers).
# earns: 1 of 2
def penalised_loss(model, x, y, lam):
    own = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(model(own).sum(), own, create_graph=True)
    return F.mse_loss(model(x), y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: returns the penalty only
# says: The data term is missing or detached.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: a data term that is detached
# says: The data term is missing or detached.
# says: Some parameters get no gradient
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out.detach(), y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: forgets lam
# says: The penalty is multiplied by lam.
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: the norm over the last dimension only
# says: The norm was taken over one dimension of an image only
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * (g.norm(dim=-1) - 1).square().mean()


# %% wrong: an eps in the root
# says: a number was added to the squares under the root
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return F.mse_loss(out, y) + lam * ((g.flatten(1).square().sum(1) + 1e-2).sqrt() - 1).square().mean()


# %% wrong: clears the old .grad of x
# says: The .grad of x was changed before backward.
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    own = x.detach().requires_grad_()
    out = model(own)
    (g,) = torch.autograd.grad(out.sum(), own, create_graph=True)
    x.grad = None
    return F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()


# %% wrong: returns a number
# says: Return a 0-d tensor; yours is of type float.
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return (F.mse_loss(out, y) + lam * (g.flatten(1).norm(dim=1) - 1).square().mean()).item()


# %% right: the square of the difference, multiplied out
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y) + lam * (g.square().sum(1) - 2 * g.norm(dim=1) + 1).mean()


# %% right: one derivative for each output
def penalised_loss(model, x, y, lam):
    x = nn.Parameter(x.detach().clone())
    out = model(x)
    norms = []
    for b in range(len(out)):
        (slope,) = torch.autograd.grad(out[b], x, create_graph=True)
        norms.append(slope[b].norm())
    return ((out - y) ** 2).mean() + lam * F.mse_loss(torch.stack(norms), torch.ones(len(out), dtype=x.dtype))


# %% wrong: a penalty for slopes above 1 only
# says: you cut the difference off at 0
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y) + lam * (g.norm(dim=1) - 1).relu().square().mean()


# %% wrong: the penalty as a Python number
# says: The penalty is a constant for autograd
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y) + lam * (g.norm(dim=1) - 1).square().mean().item()


# %% wrong: recorded, then read through .data
# says: The penalty is a constant for autograd
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y) + lam * (g.data.norm(dim=1) - 1).square().mean()


# %% wrong: the slope of the data term
# says: you differentiated the mean squared error
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(F.mse_loss(out, y), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y) + lam * (g.norm(dim=1) - 1).square().mean()


# %% wrong: the absolute difference
# says: you took its absolute value
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y) + lam * (g.norm(dim=1) - 1).abs().mean()


# %% wrong: the sum of squared errors
# says: you took the sum
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y, reduction="sum") + lam * (g.norm(dim=1) - 1).square().mean()


# %% wrong: a loss of shape (1,)
# says: The loss must be 0-d, not of shape (1,).
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return (F.mse_loss(out, y) + lam * (g.norm(dim=1) - 1).square().mean()).reshape(1)


# %% wrong: two losses
# says: Return a 0-d tensor; yours is of type tuple.
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return F.mse_loss(out, y), lam * (g.norm(dim=1) - 1).square().mean()


# %% wrong: every output against every y
# says: Every output was compared with every y
# says: The loss is wrong, even for an ordinary network
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0].flatten(1)
    return (out[:, None] - y).square().mean() + lam * (g.norm(dim=1) - 1).square().mean()


# %% wrong: the norm over dimension 1, which an image has more of
# says: `norm(2, dim=1)` is over the channels there
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    return F.mse_loss(out, y) + lam * ((g.norm(2, dim=1) - 1) ** 2).mean()


# %% wrong: subtracts 1 from the norms in place
# says: The call of loss.backward() raised:
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)
    norms -= 1
    return F.mse_loss(out, y) + lam * norms.square().mean()


# %% wrong: a loss without its graph
# says: No gradient reaches the parameters.
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)
    return (F.mse_loss(out, y) + lam * (norms - 1).square().mean()).detach()


# %% wrong: one of the two factors of the square is detached
# says: The gradient of the parameters is not that of the formula.
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)
    return F.mse_loss(out, y) + lam * ((norms - 1) * (norms.detach() - 1)).mean()


# %% wrong: the norm as a square over a norm
# says: A sample with zero gradient gives nan: nan came out as the loss.
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    g = g.flatten(1)
    norms = (g * g).sum(1) / torch.linalg.vector_norm(g, dim=1)
    return F.mse_loss(out, y) + lam * (norms - 1).square().mean()


# %% wrong: the mean squared error alone
# says: The penalty is missing: that is the mean squared error alone.
# says: The loss is wrong
# earns: 0 of 2
def penalised_loss(model, x, y, lam):
    return F.mse_loss(model(x.detach()), y)


# %% wrong: leaves recording switched off
# says: Gradient recording was switched off and not on again.
# earns: 1 of 2
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)
    loss = F.mse_loss(out, y) + lam * (norms - 1).square().mean()
    torch.set_grad_enabled(False)
    return loss


# %% wrong: scales the batch of the caller afterwards
# says: The values of x were changed.
# earns: 1 of 2
def penalised_loss(model, x, y, lam):
    with torch.no_grad():
        mine = x.detach().clone()
        x.mul_(1 + 1e-3)
    mine.requires_grad_()
    out = model(mine)
    (g,) = torch.autograd.grad(out.sum(), mine, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)
    return F.mse_loss(out, y) + lam * (norms - 1).square().mean()


# %% wrong: 1e-12 under the root
# says: The gradient of the penalty is wrong where the slopes are about 1e-9
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    norms = torch.sqrt(torch.sum(g.flatten(1) ** 2, dim=1) + 1e-12)
    return F.mse_loss(out, y) + lam * ((norms - 1) ** 2).mean()


# %% wrong: 1e-16 under the root
# says: The gradient of the penalty is wrong where the slopes are about 1e-9
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    norms = torch.sqrt(torch.sum(g.flatten(1) ** 2, dim=1) + 1e-16)
    return F.mse_loss(out, y) + lam * ((norms - 1) ** 2).mean()


# %% wrong: the norm bounded from below
# says: The gradient of the penalty is wrong where the slopes are about 1e-9
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    norms = g.flatten(1).norm(dim=1).clamp(min=1e-6)
    return F.mse_loss(out, y) + lam * (norms - 1).square().mean()


# %% wrong: the derivative flattened by view
# says: view refuses it
# earns: 1 of 2
# caught: hidden
def penalised_loss(model, x, y, lam):
    x = x.detach().clone().requires_grad_(True)
    out = model(x)
    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
    g = g.view(g.size(0), -1)
    return F.mse_loss(out, y) + lam * ((g.norm(2, dim=1) - 1) ** 2).mean()
