# corners: caller's modes


# %% right: region and dtype kept by hand, a with-block in backward
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.region = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=ctx.region[1], enabled=ctx.region[0]):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% right: F.linear in forward, decorators
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return torch.mm(g, weight), torch.mm(g.t(), x), g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: the given code
# says: Backward runs outside the region, where nothing casts.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: casts everything up in backward
# says: The two products of backward run in float32: correct, but slow.
# says: This check builds on the first one
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        wide = torch.promote_types(g.dtype, weight.dtype)
        g, x, weight = g.to(wide), x.to(wide), weight.to(wide)
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: cast_inputs float32
# says: Forward no longer runs in the lower precision
# earns: 0 of 2
# lesson
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: casts the arguments to bfloat16 always
# says: You fixed the dtype, but the right dtype is different in a float16 region, in a bfloat16 region and without a region.
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x, weight, bias = x.bfloat16(), weight.bfloat16(), bias.bfloat16()
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: a bfloat16 region in backward, whatever forward had
# says: You fixed the dtype, but the right dtype is different in a float16 region, in a bfloat16 region and without a region.
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: casts the saved tensors to g's dtype, the caller's region rules in backward
# says: The gradients depend on the region in which backward is called
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = (t.to(g.dtype) for t in ctx.saved_tensors)
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: only custom_fwd
# says: Backward runs outside the region, where nothing casts.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: no Function at all
# says: Go through your own Function: its node must be the grad_fn of the result.
# says: This check builds on the first one
# earns: 0 of 2
def linear(x, weight, bias):
    return F.linear(x, weight, bias)


# %% wrong: the sum with the bias is left to promotion
# says: bfloat16 + float32 gives float32: add the bias in the dtype of the product
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: casts all arguments to the region's dtype, float64 too
# says: float64 must be left alone.
# earns: 1 of 2
# caught: hidden
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        x, weight, bias = x.to(low), weight.to(low), bias.to(low)
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: returns nothing
# says: Nothing came back: is a `return` missing?
# says: This check builds on the first one
# earns: 0 of 2
def linear(x, weight, bias):
    F.linear(x, weight, bias)


# %% wrong: only custom_bwd
# says: custom_bwd needs what custom_fwd stores in ctx
# says: This check builds on the first one
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: cast_inputs=torch.float32, from the documentation
# says: Forward no longer runs in the lower precision: casting all arguments to float32 (cast_inputs) or
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: no bias
# says: The result is not that of F.linear.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: the mean over the batch for the bias
# says: The gradient of
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.mean(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: the cache of casts stays off
# says: The autocast state of the caller was changed.
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
# corner: caller's modes
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        torch.set_autocast_cache_enabled(False)
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: float64 is multiplied in float32
# says: The product of forward must run in float64
# says: float64 must be left alone.
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        if x.dtype is torch.float64:
            return torch.addmm(bias.float(), x.float(), weight.float().t()).double()
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: the result of float64 is float32
# says: The result must be float64.
# says: float64 must be left alone.
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        out = torch.addmm(bias, x, weight.t())
        return out.float() if x.dtype is torch.float64 else out

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        g = g.to(x.dtype)
        return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: the region of the latest call, kept in the class
# says: Every call has a region of its own: store it in `ctx`, not in the class.
# earns: 1 of 2
# caught: hidden
class LinearFn(torch.autograd.Function):
    region = {}

    @staticmethod
    def forward(ctx, x, weight, bias):
        LinearFn.region = {"enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu")}
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", cache_enabled=False, **LinearFn.region):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% wrong: keeps low copies of the weights in a dict of its own
# says: `linear` was called before, when the weight had other numbers, and the result still uses those
# earns: 1 of 2
# caught: hidden
class LinearFn(torch.autograd.Function):
    copies = {}

    @staticmethod
    def low(weight, dtype):
        key = id(weight), dtype
        if key not in LinearFn.copies or LinearFn.copies[key][0] != weight._version:
            LinearFn.copies[key] = weight._version, weight.detach().to(dtype)
        return LinearFn.copies[key][1]

    @staticmethod
    def forward(ctx, x, weight, bias):
        dtype = x.dtype if weight.dtype == torch.float64 else weight.dtype
        if torch.is_autocast_enabled("cpu") and weight.dtype != torch.float64:
            dtype = torch.get_autocast_dtype("cpu")
        with torch.autocast("cpu", enabled=False):
            x, weight = x.to(dtype), LinearFn.low(weight, dtype)
            ctx.save_for_backward(x, weight)
            return torch.addmm(bias.to(dtype), x, weight.t())

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return g @ weight, g.t() @ x, g.sum(0)


def linear(x, weight, bias):
    return LinearFn.apply(x, weight, bias)


# %% right: the dtype of g says which region it was
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors[:2])
        return F.linear(*tensors)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        low = g.dtype in (torch.float16, torch.bfloat16)
        with torch.autocast("cpu", dtype=g.dtype if low else None, enabled=low, cache_enabled=False):
            return g.matmul(weight), g.mT.matmul(x), g.sum(0)


linear = LinearFn.apply
