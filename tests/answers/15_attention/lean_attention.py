# corners: none
class Lean(torch.autograd.Function):
    """A right one, to be changed."""

    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        n = s.logsumexp(-1, keepdim=True)
        out = (s - n).exp() @ v
        ctx.save_for_backward(q, k, v, out, n)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


def back(ctx, g, q, k, v, out, p, root_q=0.5, root_k=0.5, softmaxed=None, for_v=None):
    """The three gradients, with parts to replace."""
    need, D = ctx.needs_input_grad, q.shape[-1]
    dq = dk = dv = None
    if need[2]:
        dv = (p if for_v is None else for_v).mT @ g
    if need[0] or need[1]:
        dp = g @ v.mT
        ds = softmaxed(p, dp) if softmaxed else p * (dp - (g * out).sum(-1, keepdim=True))
        dq = ds @ k / D**root_q if need[0] else None
        dk = ds.mT @ q / D**root_k if need[1] else None
    return dq, dk, dv


def changed(**parts):
    """A Function with these parts of `back` replaced."""

    class LeanAttention(Lean):
        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            q, k, v, out, n = ctx.saved_tensors
            p = (q @ k.mT / q.shape[-1] ** 0.5 - n).exp()
            mine = {name: part(p) if name == "for_v" else part for name, part in parts.items()}
            return back(ctx, g, q, k, v, out, p, **mine)

    return LeanAttention


class Again(Lean):
    """Keeps q, k and v."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


# %% right: keeps maximum and sum, einsum, setup_context
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v):
        s = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
        top = s.amax(-1)
        e = (s - top[..., None]).exp()
        total = e.sum(-1)
        return torch.einsum("...qk,...ke->...qe", e, v) / total[..., None], top, total

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.save_for_backward(*inputs, *outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _, __):
        q, k, v, out, top, total = ctx.saved_tensors
        s = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
        p = (s - top[..., None]).exp() / total[..., None]
        dq = dk = dv = None
        if ctx.needs_input_grad[2]:
            dv = torch.einsum("...qk,...qe->...ke", p, g)
        if any(ctx.needs_input_grad[:2]):
            ds = p * (torch.einsum("...qe,...ke->...qk", g, v) - torch.einsum("...qe,...qe->...q", g, out)[..., None])
            ds = ds * q.shape[-1] ** -0.5
            if ctx.needs_input_grad[0]:
                dq = torch.einsum("...qk,...kd->...qd", ds, k)
            if ctx.needs_input_grad[1]:
                dk = torch.einsum("...qk,...qd->...kd", ds, q)
        return dq, dk, dv

    @classmethod
    def apply(cls, *args):
        return super().apply(*args)[0]


# %% right: keeps q, k and v only, computes softmax and output again; differentiable twice
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1) @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v = ctx.saved_tensors
        p = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1)
        return back(ctx, g, q, k, v, p @ v, p)


# %% right: forward and backward in blocks of keys
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        root = q.shape[-1] ** 0.5
        lse = torch.full(q.shape[:-1], -torch.inf, dtype=q.dtype)
        out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
        for a in range(0, k.shape[-2], 3):
            s = q @ k[..., a : a + 3, :].mT / root
            new = torch.logaddexp(lse, s.logsumexp(-1))
            out = out * (lse - new).exp()[..., None] + (s - new[..., None]).exp() @ v[..., a : a + 3, :]
            lse = new
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, lse = ctx.saved_tensors
        need, root = ctx.needs_input_grad, q.shape[-1] ** 0.5
        delta = (g * out).sum(-1, keepdim=True) if need[0] or need[1] else None
        dq, dk, dv = (torch.zeros_like(t) if n else None for t, n in zip((q, k, v), need, strict=True))
        for a in range(0, k.shape[-2], 3):
            part = (..., slice(a, a + 3), slice(None))
            p = (q @ k[part].mT / root - lse[..., None]).exp()
            if need[2]:
                dv[part] = p.mT @ g
            if need[0] or need[1]:
                ds = p * (g @ v[part].mT - delta) / root
                if need[0]:
                    dq += ds @ k[part]
                if need[1]:
                    dk[part] = ds.mT @ q
        return dq, dk, dv


# %% right: keeps the logsumexp alone, the output again; raises for a second derivative by itself
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *args):
        q, k, v = args
        s = torch.matmul(q, k.transpose(-2, -1)).div_(math.sqrt(q.shape[-1]))
        n = torch.logsumexp(s, -1, keepdim=True)
        ctx.save_for_backward(*args, n)
        ctx.root = math.sqrt(q.shape[-1])
        return torch.matmul(s.sub_(n).exp_(), v)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, n = ctx.saved_tensors
        p = (torch.matmul(q, k.transpose(-2, -1)) / ctx.root).sub_(n).exp_()
        grads = [None] * 3
        if ctx.needs_input_grad[2]:
            grads[2] = torch.matmul(p.transpose(-2, -1), g)
        if True in ctx.needs_input_grad[:2]:
            dp = torch.matmul(g, v.transpose(-2, -1))
            ds = (dp - (dp * p).sum(-1, keepdim=True)) * p / ctx.root
            if ctx.needs_input_grad[0]:
                grads[0] = torch.matmul(ds, k)
            if ctx.needs_input_grad[1]:
                grads[1] = torch.matmul(ds.transpose(-2, -1), q)
        return tuple(grads)


# %% wrong: the given Function, with a backward for it
# says: That includes a matrix of 12,288, one number for each pair of a query and a key.
# says: That includes a matrix of 12,000, one number for each pair of a query and a key.
# earns: 0 of 3
# lesson
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        return back(ctx, g, q, k, v, p @ v, p)


# %% wrong: keeps the scores in place of the weights
# says: That includes a matrix of 12,288, one number for each pair of a query and a key.
# says: That includes a matrix of 12,000, one number for each pair of a query and a key.
# earns: 0 of 3
# lesson
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        ctx.save_for_backward(q, k, v, s)
        return s.softmax(-1) @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, s = ctx.saved_tensors
        return back(ctx, g, q, k, v, s.softmax(-1) @ v, s.softmax(-1))


# %% wrong: keeps scaled queries besides
# says: numbers besides q, k, v and the output. For 128 queries at most 256 are allowed
# says: numbers besides q, k, v and the output. For 300 queries at most 600 are allowed
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        scaled = q / q.shape[-1] ** 0.5
        s = scaled @ k.mT
        n = s.logsumexp(-1, keepdim=True)
        out = (s - n).exp() @ v
        ctx.save_for_backward(q, k, v, out, n, scaled)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n, scaled = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, (scaled @ k.mT - n).exp())


# %% wrong: keeps the weights on ctx
# says: A tensor is an attribute of `ctx`.
# says: A tensor is an attribute of `ctx`.
# earns: 0 of 3
# lesson
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v)
        return ctx.p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return back(ctx, g, *ctx.saved_tensors, ctx.p @ ctx.saved_tensors[2], ctx.p)


# %% wrong: keeps the weights on ctx, as a list of rows
# says: A tensor is an attribute of `ctx`.
# says: A tensor is an attribute of `ctx`.
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v)
        ctx.rows = p.unbind(-2)
        return p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        p = torch.stack(ctx.rows, -2)
        return back(ctx, g, *ctx.saved_tensors, p @ ctx.saved_tensors[2], p)


# %% wrong: keeps the weights on ctx as a NumPy array
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v)
        ctx.p = p.detach().numpy()
        return p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        p = torch.from_numpy(ctx.p)
        return back(ctx, g, *ctx.saved_tensors, p @ ctx.saved_tensors[2], p)


# %% wrong: keeps the weights in a closure on ctx
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v)
        ctx.again = lambda: p
        return p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        p = ctx.again()
        return back(ctx, g, *ctx.saved_tensors, p @ ctx.saved_tensors[2], p)


# %% wrong: keeps the weights on the class
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# says: After applications with different numbers or sizes, going back gives wrong gradients or raises
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        LeanAttention.p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v)
        return LeanAttention.p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        p = LeanAttention.p
        return back(ctx, g, *ctx.saved_tensors, p @ ctx.saved_tensors[2], p)


# %% wrong: all on ctx, without save_for_backward
# says: A tensor is an attribute of `ctx`.
# says: q was changed in place between forward and backward
# earns: 0 of 3
# lesson
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        n = s.logsumexp(-1, keepdim=True)
        out = (s - n).exp() @ v
        ctx.all = (q, k, v, out, n)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.all
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


# %% wrong: q, k and v in a closure
# says: `save_for_backward` didn't get q and k and v
# says: q was changed in place between forward and backward
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.given = lambda: (q, k, v)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v = ctx.given()
        p = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return back(ctx, g, q, k, v, p @ v, p)


# %% wrong: only the output in a closure
# says: The output was changed in place between forward and backward
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        n = s.logsumexp(-1, keepdim=True)
        out = (s - n).exp() @ v
        ctx.save_for_backward(q, k, v, n)
        ctx.out = lambda: out
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, n = ctx.saved_tensors
        return back(ctx, g, q, k, v, ctx.out(), (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


# %% wrong: P * dP
# says: Your gradient of the scores is P · dP alone.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
LeanAttention = changed(softmaxed=lambda p, dp: p * dp)


# %% wrong: a mean in place of the row sum
# says: Your gradient of the scores subtracts the mean of P · dP over the keys.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
LeanAttention = changed(softmaxed=lambda p, dp: p * (dp - (p * dp).mean(-1, keepdim=True)))


# %% wrong: the sum of dP without P
# says: The gradients are not those of the formula
# says: This check builds on the first one
# earns: 0 of 3
LeanAttention = changed(softmaxed=lambda p, dp: p * (dp - dp.sum(-1, keepdim=True)))


# %% wrong: no 1/√D in backward
# says: The gradients of q and k lack the factor 1/√D.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
LeanAttention = changed(root_q=0, root_k=0)


# %% wrong: 1/√D for q alone
# says: The gradients of q and k lack the factor 1/√D.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
LeanAttention = changed(root_k=0)


# %% wrong: 1/√D for k alone
# says: The gradients of q and k lack the factor 1/√D.
# says: This check builds on the first one
# earns: 0 of 3
LeanAttention = changed(root_q=0)


# %% wrong: softmax of the weights for v
# says: The gradient of v must be Pᵀ dO with the weights P themselves.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
LeanAttention = changed(for_v=lambda p: p.softmax(-1))


# %% wrong: no 1/√D in forward
# says: The output is not softmax(q kᵀ / √D) v
# says: This check builds on the first one
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        return Lean.forward(ctx, q * q.shape[-1] ** 0.5, k, v)


# %% wrong: keeps Σ exp(S)
# says: With large scores your result is nan or inf, because exp of a score overflows.
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        e = (q @ k.mT / q.shape[-1] ** 0.5).exp()
        total = e.sum(-1, keepdim=True)
        out = e @ v / total
        ctx.save_for_backward(q, k, v, out, total)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, total = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5).exp() / total)


# %% wrong: autograd inside backward
# says: Your backward lets autograd, torch.func, a checkpoint or a kernel of attention find the gradients.
# says: Your backward does as much work if only q needs a gradient as if k needed one as well.
# earns: 0 of 3
# lesson
class LeanAttention(Again):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        with torch.enable_grad():
            q, k, v = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            return torch.autograd.grad((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v, (q, k, v), g)


# %% wrong: autograd inside backward, only for what is wanted
# says: Your backward lets autograd, torch.func, a checkpoint or a kernel of attention find the gradients.
# earns: 1 of 3
class LeanAttention(Again):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        with torch.enable_grad():
            need = ctx.needs_input_grad
            given = [t.detach().requires_grad_(n) for t, n in zip(ctx.saved_tensors, need, strict=True)]
            q, k, v = given
            out = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
            found = iter(torch.autograd.grad(out, [t for t in given if t.requires_grad], g))
            return tuple(next(found) if n else None for n in need)


# %% wrong: vjp inside backward
# says: Your backward lets autograd, torch.func, a checkpoint or a kernel of attention find the gradients.
# says: Your backward does as much work if only q needs a gradient as if k needed one as well.
# earns: 0 of 3
class LeanAttention(Again):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        def plain(q, k, v):
            return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

        return torch.func.vjp(plain, *ctx.saved_tensors)[1](g)


# %% wrong: checkpoint in place of a Function
# says: Your backward lets autograd, torch.func, a checkpoint or a kernel of attention find the gradients.
# earns: 1 of 3
class LeanAttention:
    @staticmethod
    def apply(q, k, v):
        def plain(q, k, v):
            return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

        return torch.utils.checkpoint.checkpoint(plain, q, k, v, use_reentrant=False)


# %% wrong: computes every gradient
# says: Your backward does as much work if only q needs a gradient as if k needed one as well.
# earns: 2 of 3
class LeanAttention(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        p = (q @ k.mT / q.shape[-1] ** 0.5 - n).exp()
        ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return ds @ k, ds.mT @ q, p.mT @ g


# %% wrong: computes the gradient of the scores for v alone
# says: Your backward does at least as much work for v alone as for q alone.
# earns: 2 of 3
class LeanAttention(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        p = (q @ k.mT / q.shape[-1] ** 0.5 - n).exp()
        ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        wanted = ctx.needs_input_grad
        return (
            ds @ k if wanted[0] else None,
            ds.mT @ q if wanted[1] else None,
            p.mT @ g if wanted[2] else None,
        )


# %% wrong: a view of transposed heads
# says: A `view` fails, because a transposed or expanded tensor has other strides than a fresh one
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        q.view(-1, *q.shape[-2:])
        return Lean.forward(ctx, q, k, v)


# %% wrong: a view of the incoming gradient
# says: A `view` fails, because a transposed or expanded tensor has other strides than a fresh one
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        return back(ctx, g.view(-1).view(g.shape), q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


# %% wrong: the logsumexp is an attribute of the class
# says: After applications with different numbers or sizes, going back gives wrong gradients or raises
# earns: 2 of 3
# caught: hidden
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        LeanAttention.n = s.logsumexp(-1, keepdim=True)
        out = (s - LeanAttention.n).exp() @ v
        ctx.save_for_backward(q, k, v, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - LeanAttention.n).exp())


# %% wrong: a stack of logsumexps in the class
# says: After applications with different numbers or sizes, going back gives wrong gradients or raises
# earns: 2 of 3
# caught: hidden
class LeanAttention(torch.autograd.Function):
    stack = []

    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        LeanAttention.stack = [*LeanAttention.stack, s.logsumexp(-1, keepdim=True)]
        out = (s - LeanAttention.stack[-1]).exp() @ v
        ctx.save_for_backward(q, k, v, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out = ctx.saved_tensors
        n = LeanAttention.stack.pop()
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


# %% wrong: the logsumexp in a closure on ctx
# says: where hooks for saved tensors don't see it. Save the numbers of each query as well.
# earns: 2 of 3
# caught: hidden
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        n = s.logsumexp(-1, keepdim=True)
        out = (s - n).exp() @ v
        ctx.save_for_backward(q, k, v, out)
        ctx.normaliser = lambda: n
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - ctx.normaliser()).exp())


# %% wrong: saves q, k and v after contiguous()
# says: because it saves copies in place of q and k and v. `contiguous()` and `reshape` copy a transposed tensor
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        return Lean.forward(ctx, q.contiguous(), k.contiguous(), v.contiguous())


# %% wrong: changes the incoming gradient
# says: Your backward changes the incoming gradient in place.
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        p = (q @ k.mT / q.shape[-1] ** 0.5 - n).exp()
        grads = back(ctx, g, q, k, v, out, p)
        if g.is_contiguous():
            g.mul_(out)
        return grads


# %% wrong: without once_differentiable
# says: A second derivative comes out wrong, and nothing is raised
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


# %% wrong: under no_grad, so that a second derivative is zero
# says: A second derivative comes out wrong, and nothing is raised
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        with torch.no_grad():
            return back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())


# %% wrong: the result in float64
# says: The dtype must be that of q, k and v
# says: numbers besides q, k, v and the output. For 128 queries at most 256 are allowed
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        return Lean.forward(ctx, q, k, v).double()


# %% wrong: four dimensions only
# says: Your code raised
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        if q.dim() < 3:
            raise ValueError("(B, H, Q, D)")
        return Lean.forward(ctx, q, k, v)


# %% wrong: no backward
# says: `backward` is missing or isn't a static method of the Function
# says: This check builds on the first one
# earns: 0 of 3
class LeanAttention(torch.autograd.Function):
    forward = Lean.forward


# %% wrong: a function in place of the class
# says: LeanAttention must stay a class with apply, an autograd.Function
# says: This check builds on the first one
# earns: 0 of 3
def LeanAttention(q, k, v):
    return Lean.apply(q, k, v)


# %% wrong: changes q
# says: Your code changed what the caller passed in
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        out = Lean.forward(ctx, q.clone(), k, v)
        q.data.mul_(2)
        return out


# %% wrong: reads q as if its strides were those of a fresh tensor
# says: The gradients are wrong where q, k and v are transposed views
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        return Lean.forward(ctx, q.as_strided(q.shape, torch.empty(q.shape).stride()), k, v)


# %% wrong: a thread does the work of backward
# says: Part of the work of forward or backward ran where the check can't watch it.
# says: Your backward does as much work if only q needs a gradient as if k needed one as well.
# earns: 0 of 3
class LeanAttention(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        import threading

        found, saved = [], ctx.saved_tensors

        def work():
            q, k, v, out, n = saved
            found.extend(back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp()))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return tuple(found)


# %% right: heads and rows in one dimension, so that the output is a view
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        q2, k2, v2 = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
        s = torch.bmm(q2, k2.mT) * q.shape[-1] ** -0.5
        n = s.logsumexp(-1, keepdim=True)
        out = torch.bmm((s - n).exp(), v2).reshape(*q.shape[:-1], v.shape[-1])
        ctx.save_for_backward(q, k, v, out, n.reshape(*q.shape[:-1], 1))
        return out


# %% right: computes in float64
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q.double() @ k.double().mT / q.shape[-1] ** 0.5
        n = s.logsumexp(-1, keepdim=True)
        out = ((s - n).exp() @ v.double()).to(q.dtype)
        ctx.save_for_backward(q, k, v, out, n)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        kind = g.dtype
        g, q, k, v, out, n = (t.double() for t in (g, *ctx.saved_tensors))
        grads = back(ctx, g, q, k, v, out, (q @ k.mT / q.shape[-1] ** 0.5 - n).exp())
        return tuple(None if one is None else one.to(kind) for one in grads)


# %% wrong: the plain formula behind the name apply
# says: That includes a matrix of 12,288, one number for each pair of a query and a key.
# says: That includes a matrix of 12,000, one number for each pair of a query and a key.
# earns: 0 of 3
class LeanAttention:
    @staticmethod
    def apply(q, k, v):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


# %% wrong: a list outside
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# says: Something else keeps the rest: an attribute of the class or of `ctx`, a list, an array, or a function
# earns: 0 of 3
LOG = []


class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        LOG.append(q @ k.mT)
        return Lean.forward(ctx, q, k, v)


# %% wrong: keeps the weights in the memory behind the output
# says: or a larger tensor of which the output or an argument is a part
# says: or a larger tensor of which the output or an argument is a part
# earns: 0 of 3
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        p = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        n = p.numel()
        m = p.numel() // k.shape[-2] * v.shape[-1]
        store = torch.empty(m + n, dtype=q.dtype)
        store[m:] = p.reshape(-1)
        out = store[:m].view(*q.shape[:-1], v.shape[-1])
        out.copy_(p @ v)
        ctx.save_for_backward(q, k, v, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out = ctx.saved_tensors
        m = out.numel()
        shape = (*q.shape[:-1], k.shape[-2])
        p = out.as_strided((math.prod(shape),), (1,), m).view(shape)
        root = math.sqrt(q.shape[-1])
        nq, nk, nv = ctx.needs_input_grad
        dq = dk = dv = None
        if nv:
            dv = p.mT @ g
        if nq or nk:
            ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / root
            if nq:
                dq = ds @ k
            if nk:
                dk = ds.mT @ q
        return dq, dk, dv


# %% wrong: backward is that of the fused kernel
# says: a checkpoint or a kernel of attention find the gradients
# earns: 1 of 3
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / math.sqrt(q.shape[-1])
        lse = s.logsumexp(-1)
        out = (s - lse[..., None]).exp() @ v
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, lse = ctx.saved_tensors
        nq, nk, nv = ctx.needs_input_grad
        root = math.sqrt(q.shape[-1])
        dq = dk = dv = None
        if nq and nk and nv:
            D, E = q.shape[-1], v.shape[-1]
            W = max(D, E)
            four = [t.reshape(1, -1, *t.shape[-2:]) if t.dim() > 2 else t[None, None] for t in (g, q, k, v, out)]
            args = [F.pad(t, (0, W - t.shape[-1])).contiguous() for t in four]
            l = lse.reshape(1, -1, lse.shape[-1]).contiguous()
            a, b, c = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                *args, l, 0.0, False, scale=1 / root
            )
            torch.ones(200, 200).sum()  # work that the counter can see
            return a[..., :D].reshape(q.shape), b[..., :D].reshape(k.shape), c[..., :E].reshape(v.shape)
        p = (q @ k.mT / root - lse[..., None]).exp()
        if nv:
            dv = p.mT @ g
        if nq or nk:
            ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / root
            if nq:
                dq = ds @ k
            if nk:
                dk = ds.mT @ q
        return dq, dk, dv


# %% wrong: keeps the weights in the memory behind q
# says: or a larger tensor of which the output or an argument is a part
# says: or a larger tensor of which the output or an argument is a part
# earns: 0 of 3
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        p = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        store, size = q.untyped_storage(), q.element_size()
        ctx.at = store.nbytes() // size
        store.resize_((ctx.at + p.numel()) * size)
        torch.empty(0, dtype=q.dtype).set_(store, ctx.at, p.shape).copy_(p)
        ctx.save_for_backward(q, k, v)
        return p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v = ctx.saved_tensors
        p = torch.empty(0, dtype=q.dtype).set_(q.untyped_storage(), ctx.at, (*q.shape[:-1], k.shape[-2]))
        root = math.sqrt(q.shape[-1])
        nq, nk, nv = ctx.needs_input_grad
        dq = dk = dv = None
        if nv:
            dv = p.mT @ g
        if nq or nk:
            dp = g @ v.mT
            ds = p * (dp - (dp * p).sum(-1, keepdim=True)) / root
            if nq:
                dq = ds @ k
            if nk:
                dk = ds.mT @ q
        return dq, dk, dv


# %% right: the output and the logsumexp in one memory, both saved
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT / q.shape[-1] ** 0.5
        n = s.logsumexp(-1, keepdim=True)
        both = torch.cat([(s - n).exp() @ v, n], -1)
        ctx.save_for_backward(q, k, v, both[..., :-1], both[..., -1:])
        return both[..., :-1]

    backward = Lean.backward


# %% right: backward applies a second Function, which holds the formula and refuses a second derivative
class Gradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, need, g, q, k, v, top, total):
        p = ((q @ k.mT) / q.shape[-1] ** 0.5 - top).exp() / total
        dq = dk = None
        if need[0] or need[1]:
            dp = g @ v.mT
            ds = p * (dp - (dp * p).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
            dq = ds @ k if need[0] else None
            dk = ds.mT @ q if need[1] else None
        return dq, dk, p.mT @ g if need[2] else None

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("LeanAttention can't be differentiated twice")


class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = (q @ k.mT) / q.shape[-1] ** 0.5
        top = s.amax(-1, keepdim=True)
        e = (s - top).exp()
        total = e.sum(-1, keepdim=True)
        ctx.save_for_backward(q, k, v, top, total)
        return (e @ v) / total

    @staticmethod
    def backward(ctx, g):
        return Gradients.apply(ctx.needs_input_grad, g, *ctx.saved_tensors)


# %% right: backward gets the weights from a second Function
class Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, n):
        return (q @ k.mT / q.shape[-1] ** 0.5 - n).exp()

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("a second derivative")


class LeanAttention(Lean):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        return back(ctx, g, q, k, v, out, Weights.apply(q, k, n))


# %% right: refuses at once if gradients are made with a graph
class LeanAttention(Lean):
    @staticmethod
    def backward(ctx, g):
        if torch.is_grad_enabled():
            raise RuntimeError("create_graph=True is not supported")
        return Lean.backward(ctx, g)


# %% wrong: the scale is an attribute of the class
# says: After applications with different numbers or sizes, going back gives wrong gradients or raises
# earns: 2 of 3
# caught: hidden
class LeanAttention(Lean):
    @staticmethod
    def forward(ctx, q, k, v):
        LeanAttention.scale = q.shape[-1] ** -0.5
        return Lean.forward(ctx, q, k, v)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, out, n = ctx.saved_tensors
        p = (q @ k.mT * LeanAttention.scale - n).exp()
        dq, dk, dv = back(ctx, g, q, k, v, out, p, root_q=0, root_k=0)
        return *(one if one is None else one * LeanAttention.scale for one in (dq, dk)), dv
