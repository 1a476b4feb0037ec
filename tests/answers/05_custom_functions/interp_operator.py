# corners: 0-d, empty
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._library.custom_ops import OPDEFS, get_library_allowing_overwrite


def values(x, xp, fp):
    return torch.as_tensor(np.interp(x.numpy(), xp.numpy(), fp.numpy()), dtype=x.dtype)


def fake(x, xp, fp):
    return x.new_empty(x.shape)


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def segments(x, xp):
    """The entry to the right of each x, the width of its segment, and how far along it x lies."""
    x, xp = x.double(), xp.double()
    k = torch.searchsorted(xp, x.contiguous(), right=True).clamp(1, len(xp) - 1)
    width = xp[k] - xp[k - 1]
    return k, width, ((x - xp[k - 1]) / width).clamp(0, 1)


def of_x(g, x, xp, fp):
    k, width, _ = segments(x, xp)
    return g * (fp[k] - fp[k - 1]) / width * ((x >= xp[0]) & (x < xp[-1]))


def of_fp(g, x, xp, fp):
    k, _, t = segments(x, xp)
    left, right = ((g * share).flatten().to(fp.dtype) for share in (1 - t, t))
    return torch.zeros_like(fp).index_add(0, (k - 1).flatten(), left).index_add(0, k.flatten(), right)


def end_slopes(g, x, xp, fp):
    k, width, _ = segments(x, xp)
    return g * (fp[k] - fp[k - 1]) / width


def beyond(g, x, xp, fp):
    k, width, _ = segments(x, xp)
    t = (x - xp[k - 1]) / width
    left, right = ((g * share).flatten().to(fp.dtype) for share in (1 - t, t))
    return torch.zeros_like(fp).index_add(0, (k - 1).flatten(), left).index_add(0, k.flatten(), right)


def gradients(of_x=of_x, of_fp=of_fp):
    """A backward made of these two."""

    def backward(ctx, g):
        saved = ctx.saved_tensors
        return of_x(g, *saved).to(saved[0].dtype), None, of_fp(g, *saved)

    return backward


def operator(body=values, fake=fake, backward=gradients(), keep=keep, name="kata::interp"):
    """A right one; wrong ones below change a part of it, or leave it out."""

    def typed(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
        return body(x, xp, fp)

    made = torch.library.custom_op(name, typed, mutates_args=())
    if fake:
        made.register_fake(fake)
    if backward:
        made.register_autograd(backward, setup_context=keep)
    return made


# %% right: gradients for all inputs, whether needed or not
interp = operator()


# %% right: torch inside, one-hot rows for the gradient of fp
def lerped(x, xp, fp):
    k, _, t = segments(x, xp)
    return torch.lerp(fp.double()[k - 1], fp.double()[k], t).to(x.dtype).contiguous()


def hats(g, x, xp, fp):
    k, _, t = segments(x, xp)
    rows = F.one_hot(k - 1, len(fp)) * (1 - t)[..., None] + F.one_hot(k, len(fp)) * t[..., None]
    return (rows * g[..., None]).reshape(-1, len(fp)).sum(0).to(fp.dtype)


interp = operator(lerped, backward=gradients(of_fp=hats))


# %% right: torch.library.Library
OPDEFS.pop("kata::interp", None)  # of another answer in this process
library = get_library_allowing_overwrite("kata", "interp")
library.define("interp(Tensor x, Tensor xp, Tensor fp) -> Tensor")
library.impl("interp", values, "CPU")
torch.library.register_fake("kata::interp", fake, lib=library)
torch.library.register_autograd("kata::interp", gradients(), setup_context=keep, lib=library)
interp = torch.ops.kata.interp.default


# %% right: a function around the operator, and from_numpy of an array
table = operator(
    lambda x, xp, fp: torch.from_numpy(np.asarray(np.interp(x.numpy(), xp.numpy(), fp.numpy()))).to(x.dtype),
    lambda x, xp, fp: torch.empty(x.shape, dtype=x.dtype, device=x.device),
)


def interp(x, xp, fp):
    return table(x, xp, fp)


# %% right: the slope is found in forward's segment, scatter_add for fp
def added(g, x, xp, fp):
    k, _, t = segments(x, xp)
    out = torch.zeros(len(fp), dtype=torch.float64, device=fp.device)
    out.scatter_add_(0, (k - 1).reshape(-1), (g.double() * (1 - t)).reshape(-1))
    return out.scatter_add(0, k.reshape(-1), (g.double() * t).reshape(-1)).to(fp.dtype)


def where(g, x, xp, fp):
    k = torch.bucketize(x.double().contiguous(), xp.double(), right=True)
    slopes = torch.cat([fp.new_zeros(1), fp.diff() / xp.diff(), fp.new_zeros(1)])
    return g * slopes[k]


interp = operator(backward=gradients(where, added))


# %% right: for the CPU alone, segments found in setup_context
@torch.library.custom_op("kata::interp", mutates_args=[], device_types="cpu")
def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    return torch.from_numpy(np.interp(x.numpy().reshape(-1), xp.numpy(), fp.numpy())).reshape(x.shape).to(x.dtype)


interp.register_fake(fake)


def keep_segments(ctx, inputs, output):
    x, xp, fp = (t.to(torch.float64, copy=True, memory_format=torch.contiguous_format) for t in inputs)
    k = torch.searchsorted(xp, x, right=True).clamp(1, len(xp) - 1)
    width = xp[k] - xp[k - 1]
    t = ((x - xp[k - 1]) / width).clamp(0, 1)
    slope = (fp[k] - fp[k - 1]) / width * ((x >= xp[0]) & (x < xp[-1]))
    ctx.save_for_backward(k, t, slope)
    ctx.length, ctx.dtype = len(fp), inputs[2].dtype


def from_segments(ctx, g):
    k, t, slope = ctx.saved_tensors
    shares = torch.cat([(g * (1 - t)).flatten(), (g * t).flatten()]).to(ctx.dtype)
    places = torch.cat([k.flatten() - 1, k.flatten()])
    return g * slope, None, shares.new_zeros(ctx.length).index_add(0, places, shares)


interp.register_autograd(from_segments, setup_context=keep_segments)


# %% wrong: a plain function, where an operator of that name was made before
# says: is no custom operator: a call does not arrive at torch.ops.kata.interp.
# earns: 0 of 3
made_before = operator()


def interp(x, xp, fp):
    return values(x.detach(), xp.detach(), fp.detach())


# %% wrong: a plain function
# says: is no custom operator: a call does not arrive at torch.ops.kata.interp.
# earns: 0 of 3
# lesson
def interp(x, xp, fp):
    return values(x.detach(), xp.detach(), fp.detach())


# %% wrong: a Function, as in the sections before
# says: is no custom operator: a call does not arrive at torch.ops.kata.interp.
# earns: 0 of 3
# lesson
class Interp(torch.autograd.Function):
    @staticmethod
    def forward(x, xp, fp):
        return values(x, xp, fp)

    setup_context = staticmethod(keep)
    backward = staticmethod(gradients())


interp = Interp.apply


# %% wrong: torch operations that autograd records, no operator
# says: is no custom operator: a call does not arrive at torch.ops.kata.interp.
# earns: 0 of 3
def interp(x, xp, fp):
    k, width, _ = segments(x.detach(), xp)
    inner = fp[k - 1] + (fp[k] - fp[k - 1]) / width * (x - xp[k - 1])
    return torch.where(x < xp[0], fp[0], torch.where(x >= xp[-1], fp[-1], inner)).to(x.dtype)


# %% wrong: no register_fake
# says: There is no fake (or it reads numbers): return x.new_empty(x.shape)
# earns: 2 of 3
# lesson
interp = operator(fake=None)


# %% wrong: the fake calls NumPy too
# says: There is no fake (or it reads numbers): return x.new_empty(x.shape)
# earns: 2 of 3
# lesson
interp = operator(fake=values)


# %% wrong: a function around the operator speaks for the fake
# says: There is no fake (or it reads numbers): return x.new_empty(x.shape)
# earns: 2 of 3
unfaked = operator(fake=None)


def interp(x, xp, fp):
    return x.new_empty(x.shape) if x.device.type == "meta" else unfaked(x, xp, fp)


# %% wrong: the fake makes a real tensor
# says: There is no fake (or it reads numbers): return x.new_empty(x.shape)
# earns: 2 of 3
interp = operator(fake=lambda x, xp, fp: torch.empty(x.shape, dtype=x.dtype))


# %% wrong: the fake takes the dtype of the table
# says: Fake and real result disagree in dtype or shape: the result has those of x, whatever the table's.
# earns: 2 of 3
# lesson
interp = operator(fake=lambda x, xp, fp: torch.empty_like(x, dtype=fp.dtype).contiguous())


# %% wrong: the fake has the shape of the table
# says: Fake and real result disagree in dtype or shape: the result has those of x, whatever the table's.
# says: For a transposed x the strides of the fake and of the result differ
# earns: 1 of 3
interp = operator(fake=lambda x, xp, fp: torch.empty_like(fp, dtype=x.dtype))


# %% wrong: the fake keeps the strides of x
# says: For a transposed x the strides of the fake and of the result differ
# earns: 2 of 3
interp = operator(fake=lambda x, xp, fp: torch.empty_like(x))


# %% wrong: no register_autograd
# says: There is no gradient: register_autograd is missing, or setup_context saved nothing.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
interp = operator(backward=None)


# %% wrong: setup_context saves nothing
# says: There is no gradient: register_autograd is missing, or setup_context saved nothing.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def keep(ctx, inputs, output):
    pass


def unpacked(ctx, g):
    x, xp, fp = ctx.saved_tensors
    return of_x(g, x, xp, fp), None, of_fp(g, x, xp, fp)


interp = operator(backward=unpacked, keep=keep)


# %% wrong: setup_context with other names
# says: `register_autograd` calls setup_context by the names of its parameters
# says: This check builds on the first one
# earns: 0 of 3
def keep(ctx, arguments, result):
    ctx.save_for_backward(*arguments)


interp = operator(keep=keep)


# %% wrong: backward returns two values
# says: `backward` returns one value for each argument: x, None for xp, fp.
# says: This check builds on the first one
# earns: 0 of 3
def two(ctx, g):
    return of_x(g, *ctx.saved_tensors), of_fp(g, *ctx.saved_tensors)


interp = operator(backward=two)


# %% wrong: backward with NumPy
# says: The compiler also goes through backward, with tensors without numbers, so backward must consist of torch operations.
# earns: 2 of 3
def numpy_backward(ctx, g):
    x, xp, fp = (t.detach().double().numpy() for t in ctx.saved_tensors)
    g = g.detach().double().numpy()
    k = np.clip(np.searchsorted(xp, x, side="right"), 1, len(xp) - 1)
    width = xp[k] - xp[k - 1]
    t = np.clip((x - xp[k - 1]) / width, 0, 1)
    slope = np.where((x < xp[0]) | (x >= xp[-1]), 0, (fp[k] - fp[k - 1]) / width)
    table = np.zeros(len(fp))
    np.add.at(table, k - 1, g * (1 - t))
    np.add.at(table, k, g * t)
    return torch.as_tensor(g * slope), None, torch.from_numpy(table)


interp = operator(backward=numpy_backward)


# %% wrong: backward asks numbers whether something lies outside
# says: The compiler also goes through backward, with tensors without numbers, so backward must consist of torch operations.
# earns: 2 of 3
def asks(ctx, g):
    x, xp, fp = ctx.saved_tensors
    if bool((x > xp[-1]).any()) or bool((x < xp[0]).any()):
        return gradients()(ctx, g)
    return gradients()(ctx, g)


interp = operator(backward=asks)


# %% wrong: no gradient for fp
# says: `fp` must also get a gradient, so that the table can be learned.
# says: The gradients are not those of np.interp: no gradient reaches fp
# earns: 1 of 3
interp = operator(backward=lambda ctx, g: (of_x(g, *ctx.saved_tensors), None, None))


# %% wrong: no gradient for x
# says: No gradient reaches x: what NumPy computes is a constant for autograd.
# says: The gradients are not those of np.interp: no gradient reaches x
# earns: 1 of 3
interp = operator(backward=lambda ctx, g: (None, None, of_fp(g, *ctx.saved_tensors)))


# %% wrong: writes instead of adding where x share an entry
# says: Several x share an entry of the table: their gradients must be added (index_add)
# says: The gradients are not those of np.interp: the gradient of fp is off
# earns: 1 of 3
# lesson
def written(g, x, xp, fp):
    k, _, t = segments(x, xp)
    out = torch.zeros_like(fp)
    out[k - 1] += (g * (1 - t)).to(fp.dtype)
    out[k] += (g * t).to(fp.dtype)
    return out


interp = operator(backward=gradients(of_fp=written))


# %% wrong: the end slopes go on outside of the table
# says: Outside of the table the slope is 0.
# says: The gradients are not those of np.interp: the gradient of x is off
# earns: 1 of 3
interp = operator(backward=gradients(end_slopes))


# %% wrong: the weights go on outside of the table
# says: Outside of the table the end entry has the whole weight, no more and no less.
# says: The gradients are not those of np.interp: the gradient of fp is off
# earns: 1 of 3
interp = operator(backward=gradients(of_fp=beyond))


# %% wrong: what lies outside of the table does not count for fp
# says: Outside of the table the end entry has the whole weight, no more and no less.
# says: The gradients are not those of np.interp: the gradient of fp is off
# earns: 1 of 3
interp = operator(backward=gradients(of_fp=lambda g, x, xp, fp: of_fp(g * ((x >= xp[0]) & (x <= xp[-1])), x, xp, fp)))


# %% wrong: continues the end segments
# says: Outside the table the values are constant; you extrapolated the last segment.
# says: This check builds on the first one
# says: The values are not those of np.interp
# earns: 0 of 3
def extrapolated(x, xp, fp):
    k, width, _ = segments(x, xp)
    return (fp[k - 1] + (fp[k] - fp[k - 1]) / width * (x - xp[k - 1])).to(x.dtype)


interp = operator(extrapolated, backward=gradients(end_slopes, beyond))


# %% wrong: takes the previous entry
# says: That is the nearest (or previous) entry, not the interpolated value.
# says: This check builds on the first one
# says: The values are not those of np.interp
# earns: 0 of 3
interp = operator(lambda x, xp, fp: fp[(torch.searchsorted(xp, x.to(xp.dtype), right=True) - 1).clamp(0)].to(x.dtype))


# %% wrong: the slope without the incoming gradient
# says: yours is only the slope
# says: The gradients are not those of np.interp: the gradient of x is off
# earns: 1 of 3
interp = operator(backward=gradients(lambda g, x, xp, fp: of_x(torch.ones_like(g), x, xp, fp)))


# %% wrong: weights without the incoming gradient
# says: The gradient of fp ignores the incoming gradient: every weight is multiplied by the gradient of its result.
# says: The gradients are not those of np.interp: the gradient of fp is off
# earns: 1 of 3
interp = operator(backward=gradients(of_fp=lambda g, x, xp, fp: of_fp(torch.ones_like(g), x, xp, fp)))


# %% wrong: the weights of the two entries exchanged
# says: The gradients are not those of np.interp: the gradient of fp is off
# earns: 1 of 3
def exchanged(g, x, xp, fp):
    k, _, t = segments(x, xp)
    left, right = ((g * share).flatten().to(fp.dtype) for share in (t, 1 - t))
    return torch.zeros_like(fp).index_add(0, (k - 1).flatten(), left).index_add(0, k.flatten(), right)


interp = operator(backward=gradients(of_fp=exchanged))


# %% wrong: writes the result into x and returns x
# says: The result must be new memory: an operator with mutates_args=() may neither return nor change an input.
# says: This check builds on the first one
# earns: 0 of 3
interp = operator(lambda x, xp, fp: x.copy_(values(x, xp, fp)))


# %% wrong: clamps x in place
# says: The result must be new memory: an operator with mutates_args=() may neither return nor change an input.
# says: Your code changed what the caller passed in
# says: This check builds on the first one
# earns: 0 of 3
interp = operator(lambda x, xp, fp: values(x.clamp_(xp[0].item(), xp[-1].item()), xp, fp))


# %% wrong: returns NumPy's float64 for a float32 x
# says: NumPy computes in float64: convert back, expected torch.float32, got torch.float64.
# earns: 2 of 3
interp = operator(lambda x, xp, fp: torch.as_tensor(np.interp(x.numpy(), xp.numpy(), fp.numpy())))


# %% wrong: float32 always
# says: The dtype is wrong: expected torch.float64, got torch.float32.
# says: This check builds on the first one
# says: The result must have the dtype of x: expected torch.float64, got torch.float32.
# earns: 0 of 3
interp = operator(lambda x, xp, fp: values(x, xp, fp).float())


# %% wrong: torch.from_numpy of what np.interp returns
# says: `np.interp` of a 0-d x gives a NumPy scalar, not an array: torch.from_numpy refuses it, torch.as_tensor accepts both.
# earns: 2 of 3
# corner: 0-d
# caught: hidden
interp = operator(lambda x, xp, fp: torch.from_numpy(np.interp(x.numpy(), xp.numpy(), fp.numpy())).to(x.dtype))


# %% wrong: asks for the smallest place, and an empty x has none
# says: x and the table may be of any shape and float dtype, here no places at all
# earns: 2 of 3
# corner: empty
# caught: hidden
interp = operator(lambda x, xp, fp: values(x.clamp(min(float(x.min()), 0.0) - 1), xp, fp))


# %% wrong: uses the gradient of x without looking at needs_input_grad
# says: With only one of x and fp tracked, the other must get None, and nothing may raise
# earns: 2 of 3
# caught: hidden
def without_looking(ctx, g):
    if ctx.needs_input_grad[0]:
        grad_x = of_x(g, *ctx.saved_tensors)
    if ctx.needs_input_grad[2]:
        grad_fp = of_fp(g, *ctx.saved_tensors)
    return grad_x, None, grad_fp


interp = operator(backward=without_looking)


# %% wrong: contiguous and double in setup_context
# says: `opcheck` refuses an operation that may return its own argument, such as contiguous or double
# earns: 2 of 3
def keep_as_float64(ctx, inputs, output):
    ctx.save_for_backward(*[t.contiguous().double() for t in inputs])


interp = operator(keep=keep_as_float64)


# %% wrong: searchsorted from the left
# says: At an inner knot the slope of the segment on its *right* counts
# earns: 2 of 3
def from_left(g, x, xp, fp):
    k = torch.searchsorted(xp.double(), x.double().contiguous()).clamp(1, len(xp) - 1)
    return g * (fp[k] - fp[k - 1]) / (xp[k] - xp[k - 1]) * ((x >= xp[0]) & (x < xp[-1]))


interp = operator(backward=gradients(from_left))


# %% wrong: the last slope at the last knot
# says: At the first knot the first slope counts, at the last one 0
# earns: 2 of 3
# caught: hidden
def at_the_last(g, x, xp, fp):
    k, width, _ = segments(x, xp)
    return g * (fp[k] - fp[k - 1]) / width * ((x >= xp[0]) & (x <= xp[-1]))


interp = operator(backward=gradients(at_the_last))


# %% wrong: adds into fp in the dtype of the incoming gradient
# says: x and the table may each have any float dtype
# earns: 2 of 3
def unconverted(g, x, xp, fp):
    k, _, t = segments(x, xp)
    out = torch.zeros_like(fp).index_add(0, (k - 1).flatten(), (g.double() * (1 - t)).flatten())
    return out.index_add(0, k.flatten(), (g.double() * t).flatten())


interp = operator(backward=gradients(of_fp=unconverted))


# %% wrong: view of the incoming gradient
# says: The incoming gradient need not be contiguous, and view refuses it: use reshape.
# earns: 2 of 3
# caught: hidden
def viewed(g, x, xp, fp):
    return of_fp(g.view(-1), x.reshape(-1), xp, fp)


interp = operator(backward=gradients(of_fp=viewed))


# %% wrong: returns a flat tensor
# says: The shape is wrong: expected shape
# says: This check builds on the first one
# says: The result has the shape of x
# earns: 0 of 3
interp = operator(lambda x, xp, fp: values(x, xp, fp).flatten())


# %% wrong: the result keeps the strides of x
# says: For a transposed x the result is not contiguous.
# earns: 2 of 3
interp = operator(lambda x, xp, fp: torch.empty_like(x).copy_(values(x, xp, fp)))


# %% wrong: a gradient for xp as well
# says: `xp` gets no gradient: the places are given.
# earns: 2 of 3
# caught: hidden
interp = operator(
    backward=lambda ctx, g: (of_x(g, *ctx.saved_tensors), -of_fp(g, *ctx.saved_tensors), of_fp(g, *ctx.saved_tensors))
)


# %% wrong: an operator of another name
# says: is no custom operator: a call does not arrive at torch.ops.kata.interp.
# earns: 0 of 3
interp = operator(name="mine::table")


# %% wrong: the incoming gradient read as it lies in memory
# says: The gradients are wrong:
# earns: 2 of 3
# caught: hidden
def as_it_lies(g, x, xp, fp):
    g = g.as_strided(g.shape, torch.empty(g.shape).stride()) if g.dim() == 2 and 0 not in g.stride() else g
    return of_x(g, x, xp, fp)


interp = operator(backward=gradients(of_x=as_it_lies))


# %% wrong: backward multiplies the incoming gradient in place
# says: `opcheck` runs forward and backward as the compiler does, and fails in test_aot_dispatch_dynamic
# earns: 2 of 3
def in_place(ctx, g):
    x, xp, fp = ctx.saved_tensors
    entries = of_fp(g, x, xp, fp)
    return g.mul_(of_x(torch.ones_like(g), x, xp, fp)), None, entries


interp = operator(backward=in_place)


# %% wrong: casts the table to the dtype of x
# says: The table was cast to float32, the dtype of x
# earns: 2 of 3
# caught: hidden
def lerped_in_dtype_of_x(x, xp, fp):
    k, _, t = segments(x, xp.to(x.dtype))
    return torch.lerp(fp.double()[k - 1], fp.double()[k], t).to(x.dtype).contiguous()


interp = operator(
    lerped_in_dtype_of_x,
    backward=gradients(
        lambda g, x, xp, fp: of_x(g, x, xp.to(x.dtype), fp), lambda g, x, xp, fp: of_fp(g, x, xp.to(x.dtype), fp)
    ),
)
