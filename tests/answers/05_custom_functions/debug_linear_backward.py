# corners: empty
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


class Parts(torch.autograd.Function):
    """A right one; wrong ones below change a part of it."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        out = x @ weight.t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        of_x = g @ weight if ctx.needs_input_grad[0] else None
        of_weight = g.flatten(0, -2).t() @ x.flatten(0, -2) if ctx.needs_input_grad[1] and g.dim() > 1 else None
        if ctx.needs_input_grad[1] and g.dim() == 1:
            of_weight = torch.outer(g, x)
        return of_x, of_weight, g.reshape(-1, g.shape[-1]).sum(0) if wants_bias(ctx) else None


def wants_bias(ctx):
    return any(ctx.needs_input_grad[2:])


# %% right: setup_context, einsum with ellipsis, sum over all leading dimensions
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias=None):
        out = torch.einsum("...i,oi->...o", x, weight)
        return out if bias is None else out + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], inputs[1])

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        need = (*ctx.needs_input_grad, False)
        return (
            torch.einsum("...o,oi->...i", g, weight) if need[0] else None,
            torch.einsum("...o,...i->oi", g, x) if need[1] else None,
            g.sum(tuple(range(g.dim() - 1))) if need[2] and g.dim() > 1 else g if need[2] else None,
        )


# %% right: tensordot over the leading dimensions, sum_to_size for the bias
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        x, weight, bias = ctx.saved_tensors
        lead = list(range(x.dim() - 1))
        grads = [None, None, None]
        if ctx.needs_input_grad[0]:
            grads[0] = torch.matmul(g, weight)
        if ctx.needs_input_grad[1]:
            grads[1] = torch.tensordot(g, x, dims=(lead, lead))
        if bias is not None and ctx.needs_input_grad[2]:
            grads[2] = g.sum_to_size(bias.shape)
        return tuple(grads)


# %% right: returns g itself for the bias: the engine sums over broadcast dimensions
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        of_x, of_weight, _ = Parts.backward(ctx, g)
        return of_x, of_weight, g if wants_bias(ctx) else None


# %% right: as many values as arguments
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        return Parts.backward(ctx, g)[: len(ctx.needs_input_grad)]


# %% right: outer products summed, saves only what is needed
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        needs = ctx.needs_input_grad
        ctx.save_for_backward(x if needs[1] else None, weight if needs[0] else None)
        return (x.unsqueeze(-2) * weight).sum(-1) + (0 if bias is None else bias)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        of_x = (g.unsqueeze(-1) * weight).sum(-2) if weight is not None else None
        of_weight = None
        if x is not None:
            of_weight = (g.unsqueeze(-1) * x.unsqueeze(-2)).reshape(-1, g.shape[-1], x.shape[-1]).sum(0)
        return of_x, of_weight, g.reshape(-1, g.shape[-1]).sum(0) if wants_bias(ctx) else None


# %% right: differentiates F.linear again in backward
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        saved, need = ctx.saved_tensors, ctx.needs_input_grad
        with torch.enable_grad():
            views = [t.view_as(t) if t is not None else None for t in saved]
            out = F.linear(*views)
            wanted = [v for v, n in zip(views, need) if n]
            grads = iter(torch.autograd.grad(out, wanted, g, create_graph=True))
        return tuple(next(grads) if n else None for n in need)


# %% wrong: the code as given
# says: The weight gradient is transposed: its shape must be (n_out, n_in).
# says: got two arguments: a third value
# earns: 0 of 2
# lesson
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        out = x @ weight.t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, x.t() @ g, g


# %% wrong: bias gradient g.sum(0): for a single vector the bias gradient becomes a number
# says: A single vector (n_in,) must work
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        return *Parts.backward(ctx, g)[:2], g.sum(0) if wants_bias(ctx) else None


# %% wrong: averages in place of summing
# says: The gradients differ from those of F.linear: the gradient of weight is off
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        of_x, of_weight, of_bias = Parts.backward(ctx, g)
        rows = g.numel() / g.shape[-1]
        return of_x, of_weight / rows if of_weight is not None else None, of_bias / rows if wants_bias(ctx) else None


# %% wrong: averages for the bias
# says: The gradients differ from those of F.linear: the gradient of bias is off
# says: got two arguments: a third value
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        return *Parts.backward(ctx, g)[:2], g.reshape(-1, g.shape[-1]).mean(0)


# %% wrong: x^T g in place of g^T x
# says: The weight gradient is transposed: its shape must be (n_out, n_in).
# earns: 0 of 2
# lesson
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        of_x, of_weight, of_bias = Parts.backward(ctx, g)
        return of_x, of_weight.t(), of_bias


# %% wrong: x^T g only where nothing raises
# says: With a square weight nothing raises and the numbers are wrong.
# says: gradcheck` fails: the gradients are not
# earns: 0 of 2
# lesson
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        of_x, of_weight, of_bias = Parts.backward(ctx, g)
        square = of_weight is not None and of_weight.shape[0] == of_weight.shape[1]
        return of_x, of_weight.t() if square else of_weight, of_bias


# %% wrong: g.t() @ x
# says: It works for matrices only
# says: The first derivative already fails
# earns: 0 of 2
# lesson
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return (
            g @ weight if ctx.needs_input_grad[0] else None,
            g.t() @ x if ctx.needs_input_grad[1] else None,
            g.sum(0) if wants_bias(ctx) else None,
        )


# %% wrong: multiplies by weight.t() where shapes allow it
# says: Your backward multiplies by the transposed weight
# says: gradcheck` fails: the gradients are not
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        fits = weight.shape[0] == weight.shape[1]
        return g @ weight.t() if fits else g @ weight, *Parts.backward(ctx, g)[1:]


# %% wrong: computes all gradients always
# says: You computed a product for a gradient that nobody needs: 2 products where 1 would be enough, with weight frozen.
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        return g @ weight, rows.t() @ x.reshape(-1, x.shape[-1]), rows.sum(0) if wants_bias(ctx) else None


# %% wrong: computes the gradient of x always
# says: You computed a product for a gradient that nobody needs: 2 products where 1 would be enough, with x frozen.
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        of_weight = rows.t() @ x.reshape(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None
        return g @ weight, of_weight, rows.sum(0) if wants_bias(ctx) else None


# %% wrong: throws the products away when they are not needed
# says: You computed a product for a gradient that nobody needs
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        grads = g @ weight, rows.t() @ x.reshape(-1, x.shape[-1]), rows.sum(0) if wants_bias(ctx) else None
        return tuple(grad if need else None for grad, need in zip(grads, ctx.needs_input_grad))


# %% wrong: stores x and weight as ctx attributes
# says: An in-place change of x between forward and backward went unnoticed
# earns: 1 of 2
# caught: hidden
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.x, ctx.weight = x, weight
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        rows = g.reshape(-1, g.shape[-1])
        need = ctx.needs_input_grad
        return (
            g @ ctx.weight if need[0] else None,
            rows.t() @ ctx.x.reshape(-1, ctx.x.shape[-1]) if need[1] else None,
            rows.sum(0) if wants_bias(ctx) else None,
        )


# %% wrong: stores the weight as an attribute
# says: An in-place change of weight between forward and backward went unnoticed
# earns: 1 of 2
# caught: hidden
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x)
        ctx.weight = weight
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        need = ctx.needs_input_grad
        return (
            g @ ctx.weight if need[0] else None,
            rows.t() @ x.reshape(-1, x.shape[-1]) if need[1] else None,
            rows.sum(0) if wants_bias(ctx) else None,
        )


# %% wrong: detaches the saved tensors
# says: The second derivative is wrong or missing
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = (t.detach() for t in ctx.saved_tensors)
        rows = g.reshape(-1, g.shape[-1])
        need = ctx.needs_input_grad
        return (
            g @ weight if need[0] else None,
            rows.t() @ x.reshape(-1, x.shape[-1]) if need[1] else None,
            rows.sum(0) if wants_bias(ctx) else None,
        )


# %% wrong: marked once_differentiable
# says: The second derivative is wrong or missing
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return Parts.backward(ctx, g)


# %% wrong: no default for bias
# says: The bias may be left out or None
# earns: 1 of 2
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias):
        return Parts.forward(ctx, x, weight, bias)


# %% wrong: a bias of None is added
# says: The bias may be left out or None
# earns: 1 of 2
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias


# %% wrong: asks for the third entry of needs_input_grad
# says: The bias may be left out or None
# earns: 1 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        of_x, of_weight, of_bias = Parts.backward(ctx, g)
        return of_x, of_weight, of_bias if ctx.needs_input_grad[2] else None


# %% wrong: forgets to add the bias
# says: The forward differs from F.linear
# says: gradcheck` fails: the gradients are not
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        return Parts.forward(ctx, x, weight)


# %% wrong: returns two gradients in any case
# says: must return one value per argument passed to apply (three when a bias is given).
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        return Parts.backward(ctx, g)[:2]


# %% wrong: returns a gradient for a bias that was not passed
# says: `apply(x, w)` got two arguments: a third value that backward returns must be None.
# earns: 1 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        return *Parts.backward(ctx, g)[:2], g.reshape(-1, g.shape[-1]).sum(0)


# %% wrong: F.linear in a class's clothes
# says: LinearFn must stay a Function whose apply leads to its own backward
# earns: 0 of 2
class LinearFn(torch.autograd.Function):
    @staticmethod
    def apply(x, weight, bias=None):
        return F.linear(x, weight, bias)


# %% wrong: a function
# says: LinearFn must stay a class with apply, an autograd.Function:
# says: has no attribute 'apply'
# says: The bias may be left out or None: your code raised AttributeError
# earns: 0 of 2
def LinearFn(x, weight, bias=None):
    return F.linear(x, weight, bias)


# %% wrong: no gradient for x
# says: The gradients differ from those of F.linear: no gradient reaches x
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        return None, *Parts.backward(ctx, g)[1:]


# %% wrong: scales g in place
# says: The gradients differ from those of F.linear
# earns: 0 of 2
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        grads = Parts.backward(ctx, g)
        return g.mul_(2) @ ctx.saved_tensors[1], *grads[1:]


# %% right: another name for a class of another name
LinearFn = Parts


# %% right: vjp in place of backward, ones times g for the bias
class LinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def vjp(ctx, g):
        x, weight = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        of_x = rows.mm(weight).reshape(x.shape) if ctx.needs_input_grad[0] else None
        of_weight = rows.T.mm(x.reshape(-1, x.shape[-1])) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, torch.ones(len(rows), dtype=g.dtype) @ rows if wants_bias(ctx) else None


# %% wrong: view of the incoming gradient
# says: g need not be contiguous, and view refuses it: use reshape.
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        rows = g.view(-1, g.shape[-1])
        of_x = g @ weight if ctx.needs_input_grad[0] else None
        of_weight = rows.t() @ x.reshape(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, rows.sum(0) if wants_bias(ctx) else None


# %% wrong: empties the incoming gradient when it is done
# says: changes its incoming gradient in place
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        gradients = Parts.backward(ctx, g)
        g.zero_()
        return gradients


# %% wrong: adds up row by row, and an empty batch has none
# says: It must also work for an empty batch
# earns: 1 of 2
# corner: empty
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        of_x, _, of_bias = Parts.backward(ctx, g)
        if not ctx.needs_input_grad[1]:
            return of_x, None, of_bias
        rows = zip(g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1]), strict=True)
        return of_x, torch.stack([torch.outer(a, b) for a, b in rows]).sum(0), of_bias


# %% wrong: halves the incoming gradient in place, and doubles what comes of it
# says: `backward` changed its incoming gradient in place: it may belong to another branch of the graph.
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        if torch.is_grad_enabled():
            return Parts.backward(ctx, g)
        found = Parts.backward(ctx, g.mul_(0.5))
        return tuple(None if one is None else 2 * one for one in found)


# %% wrong: saves x.data and weight.data
# says: on x and weight themselves, saved as they are: x.data, x.detach() and a copy
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x.data, weight.data)
        return F.linear(x, weight, bias)


# %% wrong: makes x contiguous and saves that
# says: The second derivative is wrong or missing
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x.contiguous(), weight)
        return F.linear(x, weight, bias)


# %% wrong: makes the weight contiguous and saves that
# says: The second derivative is wrong or missing
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight.contiguous())
        return F.linear(x, weight, bias)


# %% wrong: view of x
# says: x need not be contiguous, and view refuses it: use reshape.
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        of_x = g @ weight if ctx.needs_input_grad[0] else None
        of_weight = rows.t() @ x.view(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, rows.sum(0) if wants_bias(ctx) else None


# %% wrong: sums for the bias wherever there is one
# says: You computed the gradient of a frozen bias
# earns: 1 of 2
# caught: hidden
class LinearFn(Parts):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.has_bias = bias is not None
        return Parts.forward(ctx, x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        of_x, of_weight, _ = Parts.backward(ctx, g)
        return of_x, of_weight, g.reshape(-1, g.shape[-1]).sum(0) if ctx.has_bias else None
