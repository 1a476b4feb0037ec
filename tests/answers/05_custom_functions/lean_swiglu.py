# corners: half precision
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


class Lean(torch.autograd.Function):
    """A right one; wrong ones below change a part of it."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def same(a, b):
    if a.shape != b.shape:
        raise ValueError("shapes")


# %% right: joined form, all gradients always
def swiglu(a, b):
    same(a, b)
    return Lean.apply(a, b)


# %% right: setup_context form with needs_input_grad
class Split(torch.autograd.Function):
    @staticmethod
    def forward(a, b):
        return a * torch.sigmoid(a) * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a)
        of_a = g * b * (s + a * s * (1 - s)) if ctx.needs_input_grad[0] else None
        of_b = g * F.silu(a) if ctx.needs_input_grad[1] else None
        return of_a, of_b


def swiglu(a, b):
    if a.size() != b.size():
        raise ValueError(f"{a.shape} {b.shape}")
    return Split.apply(a, b)


# %% right: recomputes the plain formula in backward and differentiates it
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        if a.shape != b.shape:
            raise ValueError("shapes")
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        with torch.enable_grad():
            pair = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in (a, b)]
            out = F.silu(pair[0]) * pair[1]
            return torch.autograd.grad(out, pair, g, create_graph=True)


swiglu = Again.apply


# %% right: shape and size as attributes, saves b first
class Other(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(b, a)
        ctx.size, ctx.note = a.shape, {"name": "swiglu"}
        return a.sigmoid().mul_(a).mul_(b)

    @staticmethod
    def backward(ctx, g):
        b, a = ctx.saved_tensors
        s = torch.special.expit(a)
        slope = torch.where(a < -800, torch.zeros_like(a), s * (1 + a * (1 - s)))
        return (g * b * slope).reshape(ctx.size), g * a * s


def swiglu(a, b):
    same(a, b)
    return Other.apply(a, b)


# %% right: checkpoint of the plain formula
def swiglu(a, b):
    same(a, b)
    return torch.utils.checkpoint.checkpoint(lambda x, y: F.silu(x) * y, a, b, use_reentrant=False)


# %% wrong: F.silu(a) * b
# says: 288 bytes are kept for backward where the two inputs would be enough: you also save an intermediate result (silu or sigmoid)
# says: Keep exactly a and b for backward
# earns: 0 of 2
# lesson
def swiglu(a, b):
    same(a, b)
    return F.silu(a) * b


# %% wrong: the formula with the sigmoid
# says: bytes are kept for backward where the two inputs would be enough
# says: Keep exactly a and b for backward
# earns: 0 of 2
def swiglu(a, b):
    same(a, b)
    return a * torch.sigmoid(a) * b


# %% wrong: saves the sigmoid as well
# says: 288 bytes are kept for backward where the two inputs would be enough: you also save an intermediate result (silu or sigmoid)
# says: Keep exactly a and b for backward
# earns: 0 of 2
# lesson
class Three(Lean):
    @staticmethod
    def forward(ctx, a, b):
        s = a.sigmoid()
        ctx.save_for_backward(a, b, s)
        return a * s * b

    @staticmethod
    def backward(ctx, g):
        a, b, s = ctx.saved_tensors
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Three.apply(a, b)


# %% wrong: ctx.t = (a, b)
# says: Autograd's saved tensors hold only 0 bytes: something was stored as an attribute
# says: Keep exactly a and b for backward
# earns: 0 of 2
# lesson
class Attributes(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.t = (a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.t
        s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Attributes.apply(a, b)


# %% wrong: one of the two as an attribute
# says: Autograd's saved tensors hold only 96 bytes: something was stored as an attribute
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Attribute(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a)
        ctx.b = b
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        (a,), b = ctx.saved_tensors, ctx.b
        s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Attribute.apply(a, b)


# %% wrong: the sigmoid beside them, as an attribute
# says: Autograd's saved tensors hold 192 bytes: something was stored as an attribute
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Beside(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.kept = {"s": [a.sigmoid()]}
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = ctx.kept["s"][0]
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Beside.apply(a, b)


# %% wrong: calls save_for_backward but reads the tensors from ctx attributes in backward
# says: An in-place change between forward and backward went unnoticed and would give wrong gradients.
# earns: 1 of 2
# caught: hidden
class Both(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.a, ctx.b = a, b
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.a, ctx.b
        s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Both.apply(a, b)


# %% wrong: treats the sigmoid as a constant
# says: The gradients are not those of silu(a) * b: the gradient of a is off
# earns: 0 of 2
# lesson
class Constant(Lean):
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        return g * b * s, g * a * s


def swiglu(a, b):
    same(a, b)
    return Constant.apply(a, b)


# %% wrong: ignores the incoming gradient
# says: The gradients are not those of silu(a) * b: the gradient of a is off
# earns: 0 of 2
class Ignored(Lean):
    @staticmethod
    def backward(ctx, g):
        return Lean.backward(ctx, torch.ones_like(g))


def swiglu(a, b):
    same(a, b)
    return Ignored.apply(a, b)


# %% wrong: ignores the incoming gradient for b
# says: The gradients are not those of silu(a) * b: the gradient of b is off
# earns: 0 of 2
class Ignored(Lean):
    @staticmethod
    def backward(ctx, g):
        return Lean.backward(ctx, g)[0], Lean.backward(ctx, torch.ones_like(g))[1]


def swiglu(a, b):
    same(a, b)
    return Ignored.apply(a, b)


# %% wrong: returns the gradients in the wrong order
# says: The gradients of a and b are exchanged.
# says: The gradients are not those of silu(a) * b
# earns: 0 of 2
class Exchanged(Lean):
    @staticmethod
    def backward(ctx, g):
        of_a, of_b = Lean.backward(ctx, g)
        return of_b, of_a


def swiglu(a, b):
    same(a, b)
    return Exchanged.apply(a, b)


# %% wrong: saves the two derivatives in place of the inputs (same memory)
# says: Of the 192 bytes that are kept for backward, 192 are neither a's nor b's
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Derivatives(Lean):
    @staticmethod
    def forward(ctx, a, b):
        s = a.sigmoid()
        ctx.save_for_backward(b * s * (1 + a * (1 - s)), a * s)
        return a * s * b

    @staticmethod
    def backward(ctx, g):
        by_a, by_b = ctx.saved_tensors
        return g * by_a, g * by_b


def swiglu(a, b):
    same(a, b)
    return Derivatives.apply(a, b)


# %% wrong: detaches the saved inputs
# says: a saved intermediate is a constant to it.
# earns: 1 of 2
# caught: hidden
class Detached(Lean):
    @staticmethod
    def backward(ctx, g):
        a, b = (t.detach() for t in ctx.saved_tensors)
        s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Detached.apply(a, b)


# %% wrong: only the sigmoid is recomputed without recording
# says: a saved intermediate is a constant to it.
# earns: 1 of 2
# caught: hidden
class NoGrad(Lean):
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        with torch.no_grad():
            s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return NoGrad.apply(a, b)


# %% wrong: marked once_differentiable
# says: `once_differentiable` does this, whatever backward computes, so leave it out.
# earns: 1 of 2
# caught: hidden
class Once(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return Lean.backward(ctx, g)


def swiglu(a, b):
    same(a, b)
    return Once.apply(a, b)


# %% wrong: g.mul_(...) for the last use of g
# says: The incoming gradient was changed in place.
# earns: 1 of 2
# caught: hidden
class InPlace(Lean):
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        of_a = g * b * s * (1 + a * (1 - s))
        return of_a, g.mul_(a * s) if not torch.is_grad_enabled() else g * a * s


def swiglu(a, b):
    same(a, b)
    return InPlace.apply(a, b)


# %% wrong: broadcasts unequal shapes
# says: Unequal shapes must raise ValueError.
# earns: 1 of 2
def swiglu(a, b):
    return Lean.apply(a, b)


# %% wrong: compares the numbers of elements
# says: Unequal shapes must raise ValueError
# earns: 1 of 2
# caught: hidden
def swiglu(a, b):
    if a.numel() != b.numel():
        raise ValueError("sizes")
    return Lean.apply(a, b)


# %% wrong: an assertion for unequal shapes
# says: Unequal shapes must raise ValueError
# earns: 1 of 2
def swiglu(a, b):
    assert a.shape == b.shape
    return Lean.apply(a, b)


# %% wrong: forgets the factor a
# says: The value is not silu(a) * b
# earns: 0 of 2
class NoFactor(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.sigmoid() * b


def swiglu(a, b):
    same(a, b)
    return NoFactor.apply(a, b)


# %% wrong: saves clones of the inputs
# says: Of the 192 bytes that are kept for backward, 192 are neither a's nor b's
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Clones(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a.clone(), b.clone())
        return F.silu(a) * b


def swiglu(a, b):
    same(a, b)
    return Clones.apply(a, b)


# %% wrong: computes in float32
# says: The dtype must be kept
# earns: 1 of 2
# caught: hidden
def swiglu(a, b):
    same(a, b)
    return Lean.apply(a, b).to(torch.promote_types(a.dtype, torch.float32))


# %% wrong: overflows for large numbers
# says: overflows for large numbers
# earns: 1 of 2
# caught: hidden
class Overflows(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * a.exp() / (1 + a.exp()) * b


def swiglu(a, b):
    same(a, b)
    return Overflows.apply(a, b)


# %% wrong: b gets no gradient
# says: no gradient reaches b
# earns: 0 of 2
class NoB(Lean):
    @staticmethod
    def backward(ctx, g):
        return Lean.backward(ctx, g)[0], None


def swiglu(a, b):
    same(a, b)
    return NoB.apply(a, b)


# %% right: an out-of-place backward with addcmul, compares lists of sizes
class Addcmul(Lean):
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        return torch.addcmul(s, a * s, 1 - s).mul(b).mul(g), F.silu(a) * g


def swiglu(a, b):
    if list(a.shape) != list(b.shape):
        raise ValueError("shapes")
    return Addcmul.apply(a, b)


# %% wrong: saves both inputs in one new tensor
# says: Of the 192 bytes that are kept for backward, 192 are neither a's nor b's
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Stacked(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(torch.stack([a, b]))
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors[0]
        s = a.sigmoid()
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    same(a, b)
    return Stacked.apply(a, b)


# %% wrong: saves float32 copies
# says: Of the 96 bytes that are kept for backward, 96 are neither a's nor b's
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Single(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a.float(), b.float())
        return F.silu(a) * b


def swiglu(a, b):
    same(a, b)
    return Single.apply(a, b)


# %% wrong: a closure keeps the tensors
# says: Autograd's saved tensors hold only 0 bytes
# says: Keep exactly a and b for backward
# earns: 0 of 2
def swiglu(a, b):
    same(a, b)

    class Closure(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return F.silu(a) * b

        @staticmethod
        def backward(ctx, g):
            s = a.sigmoid()
            return g * b * s * (1 + a * (1 - s)), g * a * s

    return Closure.apply(a, b)


# %% wrong: works on g in place, always
# says: The incoming gradient was changed in place.
# earns: 1 of 2
# caught: hidden
class AlwaysInPlace(Lean):
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        of_b = g * a * s
        return g.mul_(b).mul_(s * (1 + a * (1 - s))), of_b


def swiglu(a, b):
    same(a, b)
    return AlwaysInPlace.apply(a, b)


# %% wrong: saves float32 copies of bfloat16 inputs
# says: For bfloat16 you keep tensors other than a and b, such as float32 copies of them
# earns: 1 of 2
# corner: half precision
# caught: hidden
class Wide(Lean):
    @staticmethod
    def forward(ctx, a, b):
        wide = torch.promote_types(a.dtype, torch.float32)
        ctx.save_for_backward(a.to(wide), b.to(wide))
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = a.sigmoid()
        return (g * b * s * (1 + a * (1 - s))).to(g.dtype), (g * a * s).to(g.dtype)


def swiglu(a, b):
    same(a, b)
    return Wide.apply(a, b)


# %% wrong: computes in float32
# says: digits of float32
# earns: 1 of 2
# caught: hidden
class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a.float())
        return (g * b * s * (1 + a * (1 - s))).to(a.dtype), (g * a * s).to(b.dtype)


def swiglu(a, b):
    if a.shape != b.shape:
        raise ValueError("a and b have different shapes")
    return Swiglu.apply(a, b)


# %% wrong: keeps the sigmoid on the class
# says: something was stored as an attribute
# says: Keep exactly a and b for backward
# earns: 0 of 2
class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        Swiglu.sigmoid = torch.sigmoid(a)
        return a * Swiglu.sigmoid * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a)
        return g * b * (s * (1 + a * (1 - s))), g * (a * s)


def swiglu(a, b):
    if a.shape != b.shape:
        raise ValueError("a and b have different shapes")
    return Swiglu.apply(a, b)


# %% wrong: takes no incoming gradient for ones
# says: `gradcheck` fails: Expected
# says: `gradgradcheck` fails
# earns: 0 of 2
class Lean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.set_materialize_grads(False)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        g = torch.ones_like(a) if g is None else g
        s = torch.sigmoid(a)
        return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(a, b):
    if a.shape != b.shape:
        raise ValueError("unequal shapes")
    return Lean.apply(a, b)


# %% wrong: a sigmoid of its own in backward
# says: The second derivative is nan where a is a large negative number
# earns: 1 of 2
# caught: hidden
class Lean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return F.silu(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = 1 / (1 + torch.exp(-a))
        return g * b * (s + a * s * (1 - s)), g * a * s


def swiglu(a, b):
    if a.shape != b.shape:
        raise ValueError("unequal shapes")
    return Lean.apply(a, b)


# %% wrong: saves the data of the inputs
# says: Save a and b themselves: a.data and a.detach() are tensors without a graph.
# earns: 1 of 2
# caught: hidden
class Data(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a.data, b.data)
        return F.silu(a) * b


def swiglu(a, b):
    same(a, b)
    return Data.apply(a, b)


# %% wrong: makes the inputs contiguous and saves those
# says: Of inputs that are not contiguous you keep copies
# earns: 1 of 2
# caught: hidden
class Contiguous(Lean):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        return F.silu(a) * b


def swiglu(a, b):
    same(a, b)
    return Contiguous.apply(a, b)


# %% wrong: a matrix by view
# says: The inputs need not be contiguous, and view refuses such a tensor: use reshape.
# earns: 1 of 2
# caught: hidden
class Rows(Lean):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return F.silu(a.view(-1, a.shape[-1]) if a.dim() else a).view(a.shape) * b


def swiglu(a, b):
    same(a, b)
    return Rows.apply(a, b)
