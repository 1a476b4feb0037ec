# %% right: keeps q, k and v, and nothing else
# All that backward uses is computed from the inputs, so a second derivative is right, where the author's answer refuses
# it. Backward computes the whole softmax again, maxima and sums included, and needs a table of Q × K for the row sums,
# where the author's takes Q × E.
class LeanAttention(torch.autograd.Function):
    """apply(q, k, v): softmax(q kᵀ / √D) v, keeping its inputs."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        needs_q, needs_k, needs_v = ctx.needs_input_grad
        root = math.sqrt(q.shape[-1])
        weights = (q @ k.mT / root).softmax(-1)
        of_q = of_k = of_v = None
        if needs_v:
            of_v = weights.mT @ grad
        if needs_q or needs_k:
            of_weights = grad @ v.mT
            of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) / root
            of_q = of_scores @ k if needs_q else None
            of_k = of_scores.mT @ q if needs_k else None
        return of_q, of_k, of_v


# %% right: blocks of keys, in both directions
# Neither forward nor backward ever has all scores in memory: they are computed for 64 keys at a time. That takes more
# operations. For 400 keys, forward makes 89 calls instead of 8 and backward 126 instead of 24.
class LeanAttention(torch.autograd.Function):
    """apply(q, k, v): softmax(q kᵀ / √D) v, with the scores of 64 keys at a time."""

    BLOCK = 64

    @staticmethod
    def forward(ctx, q, k, v):
        root = math.sqrt(q.shape[-1])
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])
        normaliser = q.new_full((*q.shape[:-1], 1), -torch.inf)
        for some_k, some_v in zip(*(t.split(LeanAttention.BLOCK, -2) for t in (k, v)), strict=True):
            scores = q @ some_k.mT / root
            new = torch.logaddexp(normaliser, scores.logsumexp(-1, keepdim=True))
            out = out * (normaliser - new).exp() + (scores - new).exp() @ some_v
            normaliser = new
        ctx.save_for_backward(q, k, v, out, normaliser)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v, out, normaliser = ctx.saved_tensors
        needs_q, needs_k, needs_v = ctx.needs_input_grad
        root = math.sqrt(q.shape[-1])
        row_sums = (grad * out).sum(-1, keepdim=True) if needs_q or needs_k else None
        of_q, of_k, of_v = torch.zeros_like(q) if needs_q else None, [], []
        for some_k, some_v in zip(*(t.split(LeanAttention.BLOCK, -2) for t in (k, v)), strict=True):
            weights = (q @ some_k.mT / root - normaliser).exp()
            if needs_v:
                of_v.append(weights.mT @ grad)
            if needs_q or needs_k:
                of_scores = weights * (grad @ some_v.mT - row_sums) / root
                if needs_q:
                    of_q += of_scores @ some_k
                if needs_k:
                    of_k.append(of_scores.mT @ q)
        return of_q, torch.cat(of_k, -2) if needs_k else None, torch.cat(of_v, -2) if needs_v else None


# %% wrong: the gradient of the scores is P · dP
# says: Your gradient of the scores is P · dP alone.
# That is the derivative of exp. In a softmax, every score also changes the sum that divides all weights of its row.
class LeanAttention(torch.autograd.Function):
    """apply(q, k, v), with a backward that forgets the normaliser."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        needs_q, needs_k, needs_v = ctx.needs_input_grad
        root = math.sqrt(q.shape[-1])
        weights = (q @ k.mT / root).softmax(-1)
        of_scores = weights * (grad @ v.mT) / root if needs_q or needs_k else None
        of_q = of_scores @ k if needs_q else None
        of_k = of_scores.mT @ q if needs_k else None
        return of_q, of_k, weights.mT @ grad if needs_v else None
