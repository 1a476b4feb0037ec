# %% right: empty leaves, filled in place
# The tensors are leaves from the start, and under no_grad writing into them is allowed. `nn.init` works this way.
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    """Two leaves that are filled after they were marked."""
    w = torch.empty(n_in, n_out, dtype=dtype, device=device, requires_grad=True)
    b = torch.empty(n_out, dtype=dtype, device=device, requires_grad=True)
    with torch.no_grad():
        w.normal_(0, 1 / n_in**0.5)
        b.zero_()
    return w, b


# %% right: nn.Parameter around the finished numbers
# A Parameter is a leaf whatever it is made from. In a module it would be registered too.
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    """Two parameters."""
    w = nn.Parameter(torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5)
    b = nn.Parameter(torch.zeros(n_out, dtype=dtype, device=device))
    return w, b


# %% wrong: retain_grad() on the scaled tensor
# says: retain_grad() fills .grad of a non-leaf, but the optimizer still would not update the tensor you created.
# An optimizer accepts a non-leaf that retains its gradient, so the ValueError is gone, and the first step even works.
# The second backward raises, because w still has the graph of the division, which the first has freed.
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    """A non-leaf whose gradient can be read."""
    w = torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True) / n_in**0.5
    w.retain_grad()
    b = torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)
    return w, b
