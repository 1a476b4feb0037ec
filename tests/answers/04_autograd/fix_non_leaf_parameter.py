# corners: caller's modes, half precision
import functools


# %% right: detaches the computed tensor and marks it
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, requires_grad=True) / n_in**0.5
    w = w.detach().to(device, dtype).requires_grad_()
    b = torch.zeros(n_out).to(device, dtype).requires_grad_()
    return w, b


# %% right: nn.init, computed in float64 first, returned as a list
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = nn.init.normal_(torch.empty(n_in, n_out, dtype=torch.float64), std=n_in**-0.5)
    layer = [w.to(device=device, dtype=dtype), torch.zeros(n_out, dtype=dtype, device=device)]
    for tensor in layer:
        tensor.requires_grad = True
    return layer


# %% right: recording off inside a context manager, marked outside
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    with torch.no_grad():
        w = torch.normal(0.0, n_in**-0.5, (n_in, n_out)).to(device, dtype)
        b = torch.zeros_like(w[0])
    return w.requires_grad_(True), b.requires_grad_(True)


# %% wrong: the code as given
# says: w is the result of a recorded operation (DivBackward0): it is not a leaf, so the optimizer refuses it and w.grad stays None. Do all arithmetic and conversion first, then mark.
# earns: 0 of 1
# lesson
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, requires_grad=True) / n_in**0.5
    b = torch.zeros(n_out, requires_grad=True).to(device, dtype)
    return w, b


# %% wrong: repairs w only
# says: b is a leaf only when .to changes nothing: with another dtype (or device) it is a recorded conversion. Create it there, or mark it afterwards.
# earns: 0 of 1
# lesson
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    b = torch.zeros(n_out, requires_grad=True).to(device, dtype)
    return w, b


# %% wrong: detaches w and does not mark it again
# says: w does not require grad: nothing would ever be learned.
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True) / n_in**0.5).detach()
    b = torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)
    return w, b


# %% wrong: calls retain_grad() on the scaled tensor
# says: retain_grad() fills .grad of a non-leaf, but the optimizer still would not update the tensor you created.
# earns: 0 of 1
# lesson
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True) / n_in**0.5
    w.retain_grad()
    b = torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)
    return w, b


# %% wrong: drops the scaling
# says: The standard deviation must be 1 / sqrt(n_in)
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True)
    b = torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)
    return w, b


# %% wrong: divides by n_in
# says: The standard deviation must be 1 / sqrt(n_in)
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in).requires_grad_()
    b = torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)
    return w, b


# %% wrong: divides by the root of n_out
# says: The standard deviation must be 1 / sqrt(n_in)
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_out**0.5).requires_grad_()
    b = torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)
    return w, b


# %% wrong: switches recording off globally
# says: Gradient recording is switched off after the call: use the context manager, not set_grad_enabled(False).
# earns: 0 of 1
# corner: caller's modes
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    torch.set_grad_enabled(False)
    w = torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5
    b = torch.zeros(n_out, dtype=dtype, device=device)
    return w.requires_grad_(), b.requires_grad_()


# %% wrong: bias of shape (1, n_out)
# says: b must be zeros of shape (n_out,): expected [2], got [1, 2].
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    return w, torch.zeros(1, n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: weights for n_out rows, as in nn.Linear
# says: w must have shape (n_in, n_out): expected [3, 2], got [2, 3].
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_out, n_in, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    return w, torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: a bias of random numbers
# says: b must be zeros of shape (n_out,): it contains other numbers.
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    return w, torch.randn(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: uniform numbers of the right standard deviation
# says: The numbers of w must come from a normal distribution.
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = ((torch.rand(n_in, n_out, dtype=dtype, device=device) - 0.5) * (12 / n_in) ** 0.5).requires_grad_()
    return w, torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: forgets the dtype
# says: w must have the dtype that was asked for: expected torch.float64, got torch.float32.
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out) / n_in**0.5).to(device).requires_grad_()
    return w, torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: forgets the device
# says: w must be on the device that was asked for: expected meta, got cpu.
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype) / n_in**0.5).requires_grad_()
    return w, torch.zeros(n_out, dtype=dtype, requires_grad=True)


# %% wrong: one number shared by the whole bias
# says: The optimizer step raised
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    return w, torch.zeros(1, dtype=dtype, device=device).expand(n_out).requires_grad_()


# %% wrong: returns w only
# says: Return two tensors, w and b.
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    return (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()


# %% right: a leaf whose numbers are scaled in place
@torch.no_grad()
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True)
    w /= math.sqrt(n_in)
    return w, torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% right: a transposed view, marked last
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    with torch.device(device):
        w, b = torch.randn(n_out, n_in, dtype=dtype).t() * n_in**-0.5, torch.zeros(n_out, dtype=dtype)
    w.requires_grad, b.requires_grad = True, True
    return w, b


# %% wrong: parameters that are moved afterwards
# says: w is a leaf only when .to changes nothing
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = nn.Parameter(torch.randn(n_in, n_out) / n_in**0.5).to(device, dtype)
    return w, nn.Parameter(torch.zeros(n_out)).to(device, dtype)


# %% wrong: marks the result that is tracked already
# says: w is the result of a recorded operation (DivBackward0)
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True) / n_in**0.5
    return w.requires_grad_(), torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: a write into the leaf
# says: a leaf Variable that requires grad is being used in an in-place operation
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, dtype=dtype, device=device, requires_grad=True)
    w /= n_in**0.5
    return w, torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: inference mode
# says: inference tensor
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    with torch.inference_mode():
        w = torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5
        b = torch.zeros(n_out, dtype=dtype, device=device)
        return w.requires_grad_(), b.requires_grad_()


# %% wrong: everything under no_grad, as given
# says: w does not require grad: nothing would ever be learned.
# earns: 0 of 1
@torch.no_grad()
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, requires_grad=True) / n_in**0.5
    b = torch.zeros(n_out, requires_grad=True).to(device, dtype)
    return w, b


# %% wrong: an integer as exponent
# says: The standard deviation must be 1 / sqrt(n_in)
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in ** (1 // 2)
    return w.requires_grad_(), torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: converts half precision after marking
# says: b is a leaf only when .to changes nothing
# earns: 0 of 1
# corner: half precision
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    wide = torch.promote_types(dtype, torch.float32)
    return w, torch.zeros(n_out, dtype=wide, device=device, requires_grad=True).to(dtype)


# %% wrong: sets the seed, so that every layer begins with the same numbers
# says: Two layers get the same numbers: a seed is set in init_layer
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    torch.manual_seed(0)
    w = torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5
    return w.requires_grad_(), torch.zeros(n_out, dtype=dtype, device=device, requires_grad=True)


# %% wrong: scales the gradient by a hook
# says: One step of SGD does not move w and b by lr * gradient.
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5).requires_grad_()
    w.register_hook(lambda g: g / n_in**0.5)
    return w, torch.zeros(n_out, dtype=dtype, device=device).requires_grad_()


# %% wrong: numbers around 0.1
# says: The mean of w must be 0.
# earns: 0 of 1
# caught: hidden
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = (torch.randn(n_in, n_out, dtype=dtype, device=device) + 0.1) / n_in**0.5
    return w.requires_grad_(), torch.zeros(n_out, dtype=dtype, device=device).requires_grad_()


# %% wrong: the numbers of an earlier call
# says: a seed is set in init_layer, or the numbers are kept from an earlier call.
# earns: 0 of 1
# caught: hidden
@functools.lru_cache(maxsize=None)  # noqa: UP033
def drawn(n_in, n_out):
    return torch.randn(n_in, n_out) / n_in**0.5


def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    w = drawn(n_in, n_out).to(device=device, dtype=dtype, copy=True)
    return w.requires_grad_(), torch.zeros(n_out, device=device, dtype=dtype, requires_grad=True)


# %% wrong: the transposed weight of a Linear
# says: w is the result of a recorded operation (TBackward0): it is not a leaf, so the optimizer refuses it and w.grad stays None. Do all arithmetic and conversion first, then mark.
# earns: 0 of 1
def init_layer(n_in, n_out, dtype=torch.float32, device="cpu"):
    layer = nn.Linear(n_in, n_out, dtype=dtype, device=device)
    nn.init.normal_(layer.weight, 0.0, n_in**-0.5)
    nn.init.zeros_(layer.bias)
    return layer.weight.t(), layer.bias
