# %% [markdown]
# ### Exercise 15.5 · Backward without the weights
#
# implement · long · 45 min · 3 points
#
# Between forward and backward, plain attention keeps its weights, one number for each pair of a query and a key. They
# are the largest tensor of the layer, and they are not needed: a single number for each query brings them back. Write
# forward and backward of a Function that keeps no more than this.
#
# **Contract**
#
# - `LeanAttention.apply(q, k, v)` takes `q` (…, Q, D), `k` (…, K, D) and `v` (…, K, E) with equal leading dimensions
#   (or none), K >= 1, all float32 or all float64. It returns softmax(q kᵀ / √D) v, (…, Q, E), in their dtype. The
#   gradients are those of this formula.
# - Between forward and backward nothing stays alive but `q`, `k`, `v`, the output and at most two numbers for each
#   query. All of it is kept by `save_for_backward`, so that backward raises if one of these was changed in place.
#   During forward and backward, all scores may exist for a moment.
# - Backward computes no gradient for an input that needs none, and nothing that only such a gradient needs.
# - The arguments and the incoming gradient may be views with any strides, and neither is changed. Scores of 1e4 and
#   -1e4 work; in float32, two right digits are enough there.
# - A second derivative is right, or it is refused: making gradients of `out.square().sum()` with `create_graph=True`,
#   or the `backward()` of a loss that contains them, raises RuntimeError.
#
# **Rule.** `forward` and `backward` are static methods of the Function. Backward is a formula of your own, without
# autograd, torch.func, a checkpoint or a kernel for attention. The check can't see numbers that are kept outside of
# torch, in lists or NumPy arrays, so please keep to the rule there.
#
# <details><summary>Hint 1</summary>
#
# Write S = q kᵀ / √D, P = softmax(S) and O = P v, and call the incoming gradient dO. What are the gradients of v and of
# P, and what is the gradient of a row of S if that of the same row of P is known?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The gradient of a softmax subtracts from dP the sum over the keys of P · dP. Put in what dP is: the same sum can be
# had from dO and O, without any matrix. And which number for each query turns S into P by one subtraction and one exp?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Keep the logsumexp of each row of S. In backward compute S again, and with it P, then go back through the three
# products one after another. √D belongs to S, so the gradients of both q and k get it. `ctx.needs_input_grad` says
# which of the last products are wanted. torch.autograd.function has a decorator for a backward that can't be
# differentiated.
#
# </details>


# %% answer="lean-attention"
### BEGIN SOLUTION
class LeanAttention(torch.autograd.Function):
    """apply(q, k, v): softmax(q kᵀ / √D) v, keeping nothing of size Q x K for backward."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        normaliser = scores.logsumexp(-1, keepdim=True)
        out = (scores - normaliser).exp() @ v
        ctx.save_for_backward(q, k, v, out, normaliser)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        q, k, v, out, normaliser = ctx.saved_tensors
        needs_q, needs_k, needs_v = ctx.needs_input_grad
        root = math.sqrt(q.shape[-1])
        weights = (q @ k.mT / root - normaliser).exp()
        of_q = of_k = of_v = None
        if needs_v:
            of_v = weights.mT @ grad
        if needs_q or needs_k:
            of_scores = weights * (grad @ v.mT - (grad * out).sum(-1, keepdim=True)) / root
            of_q = of_scores @ k if needs_q else None
            of_k = of_scores.mT @ q if needs_k else None
        return of_q, of_k, of_v


### END SOLUTION
### BEGIN GIVEN
# class LeanAttention(torch.autograd.Function):
#     """apply(q, k, v): softmax(q kᵀ / √D) v, keeping nothing of size Q x K for backward."""
#
#     @staticmethod
#     def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
#         raise NotImplementedError  # keep less, add backward, then delete this line
#         weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
#         ctx.save_for_backward(q, k, v, weights)
#         return weights @ v
### END GIVEN


# %% helpers="lean-attention"
def attention(q, k, v):
    """The formula, which autograd can go back through."""
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def applied(LeanAttention, q, k, v):
    """Call `LeanAttention.apply` with q, k and v, then run the backward pass."""
    return LeanAttention.apply(q, k, v)


def numbers(seed, *sizes, dtype=torch.float64):
    """Queries, keys and values of these sizes, which require grad."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=g, dtype=torch.float64).to(dtype).requires_grad_() for size in sizes]


def gradients(q, k, v, softmaxed=None, of_q=0.5, of_k=0.5, of_weights=None):
    """The three gradients, with parts to replace: the gradient of the scores, both roots, and the weights for v."""
    q, k, v = q.detach(), k.detach(), v.detach()
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    grad = incoming_gradient(weights @ v)
    of_p = grad @ v.mT
    right = weights * (of_p - (of_p * weights).sum(-1, keepdim=True))
    of_scores = softmaxed(weights, of_p) if softmaxed else right
    for_v = of_weights(weights) if of_weights else weights
    D = q.shape[-1]
    return of_scores @ k / D**of_q, of_scores.mT @ q / D**of_k, for_v.mT @ grad


def has(wrong, *places):
    """A condition: the gradients at these places are those of `wrong`, and not the right ones."""

    def asked(seen):
        came, right = [seen.gradient(n) for n in range(3)], gradients(*seen.args[1:])
        like = [torch.allclose(came[n], wrong(*seen.args[1:])[n], rtol=1e-4, atol=1e-6) for n in places]
        return all(like) and not all(torch.allclose(came[n], right[n], rtol=1e-4, atol=1e-6) for n in places)

    return asked


WRONG_GRADIENTS = known(
    {
        "LeanAttention must stay a class with apply, an autograd.Function: {detail}.": {
            "raises": "has no attribute 'apply'"
        },
        "`backward` is missing or isn't a static method of the Function: {detail}.": {
            "raises": "must implement either the backward"
        },
        "Your gradient of the scores is P · dP alone. In a softmax each weight depends on all scores of its row: the "
        "sum of P · dP over the keys must be subtracted from dP first. It equals the sum of dO · O.": [
            has(lambda q, k, v: gradients(q, k, v, softmaxed=lambda p, dp: p * dp), 0, 1)
        ],
        "Your gradient of the scores subtracts the mean of P · dP over the keys. It must be the sum, because each "
        "score acts on all weights of its row.": [
            has(
                lambda q, k, v: gradients(q, k, v, softmaxed=lambda p, dp: p * (dp - (p * dp).mean(-1, keepdim=True))),
                0,
                1,
            )
        ],
        "The gradients of q and k lack the factor 1/√D. Scores are q · k divided by √D, so both get it on the way "
        "back.": [
            has(lambda q, k, v: gradients(q, k, v, of_q=0, of_k=0), 0, 1),
            has(lambda q, k, v: gradients(q, k, v, of_q=0), 0, 1),
            has(lambda q, k, v: gradients(q, k, v, of_k=0), 0, 1),
        ],
        "The gradient of v must be Pᵀ dO with the weights P themselves. Yours has other weights, such as the softmax "
        "of P or the scores.": [
            has(lambda q, k, v: gradients(q, k, v, of_weights=lambda p: p.softmax(-1)), 2),
            has(lambda q, k, v: gradients(q, k, v, of_weights=lambda p: p.exp()), 2),
            has(
                lambda q, k, v: (
                    0,
                    0,
                    gradients(q, k, v)[2] * 0
                    + (q @ k.mT / q.shape[-1] ** 0.5).mT @ incoming_gradient(attention(q, k, v)),
                ),
                2,
            ),
        ],
        "A `view` fails, because a transposed or expanded tensor has other strides than a fresh one: {detail}. Use "
        "`reshape` or no view at all.": {"raises": "view size is not compatible|input stride"},
    }
)


def judge(seen, *mistakes, rtol=1e-7, atol=1e-9):
    """Output and gradients are those of the formula, and the arguments stay as they are."""
    of_value = mistake("The output is not softmax(q kᵀ / √D) v: {detail}.", stage=("type", "shape", "dtype", "value"))
    seen.returns(attention(*seen.args[1:]).detach(), *mistakes, *WRONG_GRADIENTS, of_value, rtol=rtol, atol=atol)
    seen.gives_gradients(
        lambda LeanAttention, *args: attention(*args),
        *mistakes,
        *WRONG_GRADIENTS,
        because="The gradients are not those of the formula: {detail}.",
        rtol=rtol,
        atol=atol,
    )
    return seen.leaves_arguments_alone()


def kept(LeanAttention, q, k, v):
    """Call `LeanAttention.apply`, and look at what is alive before the backward pass."""
    saved, held = {}, []
    own = {tensor.untyped_storage()._cdata for tensor in (q, k, v)}
    bytes_before = sum(tensor.untyped_storage().nbytes() for tensor in (q, k, v))

    def note_saved(tensor):
        held.append(tensor.detach())  # the storage without the graph
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage.nbytes() // tensor.element_size()
        return held[-1]

    with torch.autograd.graph.saved_tensors_hooks(note_saved, lambda tensor: tensor):
        out = LeanAttention.apply(q, k, v)
    of_out = out.untyped_storage()._cdata
    foreign = sum(count for place, count in saved.items() if place not in own and place != of_out)
    given = zip("qkv", (q, k, v), strict=True)
    unsaved = {name: t.numel() for name, t in given if t.untyped_storage()._cdata not in saved}
    values = [*getattr(out.grad_fn, "__dict__", {}).values()]
    for value in values:
        if isinstance(value, (list, tuple)):
            values += value
        elif isinstance(value, dict):
            values += value.values()
    attributes = sum(isinstance(value, Tensor) for value in values)

    made = {}

    def note_made(func, args, out):
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage())._cdata not in own:
                made[storage._cdata] = StorageWeakRef(storage), storage.nbytes() // tensor.element_size()

    with noting_operations(note_made) as lost:
        out = LeanAttention.apply(q, k, v)
    made.pop(out.untyped_storage()._cdata, None)
    alive = apart = sum(count for storage, count in made.values() if not storage.expired())
    # memory behind the output, or behind q, k and v
    alive += out.untyped_storage().nbytes() // out.element_size() - out.numel()
    alive += (sum(t.untyped_storage().nbytes() for t in (q, k, v)) - bytes_before) // out.element_size()
    return {
        "foreign": foreign,
        "unsaved": unsaved,
        "attributes": attributes,
        "alive": alive,
        "apart": apart,
        "lost": lost,
    }


OUT_OF_SIGHT = (
    "Part of the work of forward or backward ran where the check can't watch it. Do all of it in the call itself."
)


def judge_kept(seen, queries, matrix, saved=False):
    """No more than two numbers for each query, besides the arguments and the output; with `saved`, all of it saved."""
    foreign, alive, attributes = seen["foreign"], seen["alive"], seen["attributes"]
    names, copied = " and ".join(seen["unsaved"]), sum(seen["unsaved"].values())
    seen.that(not seen["lost"], OUT_OF_SIGHT)
    seen.that(
        foreign <= 2 * queries,
        f"Your code saves {foreign:,} numbers besides q, k, v and the output. For {queries:,} queries at most "
        f"{2 * queries:,} are allowed, two for each. The weights can be computed again from q, k and one number for "
        "each query.",
        mistake(
            f"Your code saves {foreign:,} numbers besides q, k, v and the output. That includes a matrix of "
            f"{matrix:,}, one number for each pair of a query and a key. Compute it again in backward: the logsumexp "
            "of each query's scores is enough for that.",
            when=lambda seen: foreign >= matrix,
        ),
        mistake(
            f"Your code saves {foreign:,} numbers besides q, k, v and the output, because it saves copies in place of "
            f"{names}. `contiguous()` and `reshape` copy a transposed tensor, and such a copy stays alive and doesn't "
            "notice when the argument is changed. Save the arguments, and convert them again in backward.",
            when=lambda seen: copied > 0 and 0 <= foreign - copied <= 2 * queries,
        ),
    )
    seen.that(
        attributes == 0,
        "A tensor is an attribute of `ctx`. There autograd doesn't notice a change in place, and hooks for saved "
        "tensors don't see it. Pass it to `save_for_backward`.",
    )
    seen.that(
        alive <= 2 * queries,
        f"Before backward, {alive:,} numbers that forward made are still alive besides the output, and autograd's "
        f"saved tensors hold {foreign:,} of them. Something else keeps the rest: an attribute of the class or of "
        "`ctx`, a list, an array, or a function that refers to it, or a larger tensor of which the output or an "
        "argument is a part.",
    )
    seen.that(
        not saved or seen["apart"] <= foreign,
        f"Before backward, {seen['apart']:,} numbers that forward made are still alive besides the output, and only "
        f"{foreign:,} of them went through `save_for_backward`. The rest is in a list, in an attribute of the class or "
        "in a function, where hooks for saved tensors don't see it. Save the numbers of each query as well.",
    )
    seen.that(
        not names,
        f"`save_for_backward` didn't get {names}, so your backward has it from elsewhere, where autograd doesn't "
        "notice a change in place.",
    )


# %% check="lean-attention" points=2
"""Output and gradients are those of the formula; what is kept between forward and backward."""
with check("lean-attention") as test:
    test("five queries over seven keys, in two rows and three heads")
    sizes = (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)
    judge(observe_scenario(applied, LeanAttention, *numbers(1, *sizes)))

    test("64 queries over 96 keys in two heads: what is alive between forward and backward")
    many = numbers(2, (2, 64, 8), (2, 96, 8), (2, 96, 8), dtype=torch.float32)
    judge_kept(observe_scenario(kept, LeanAttention, *many), 2 * 64, 2 * 64 * 96)

    def watched(LeanAttention, q, k, v, g):
        """Call `LeanAttention.apply` and go back from g; note what runs in backward."""
        out = LeanAttention.apply(q, k, v)
        tracked, called = [], []

        def note(func, args, made):
            given = [one for one in args if isinstance(one, Tensor)]
            if "scaled_dot_product" in func.overloadpacket.__name__:
                called.append(func.overloadpacket.__name__)
            if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
                tracked.append(func.overloadpacket.__name__)

        def note_call(module, name):
            if module == "torch._functorch.utils":
                return  # `apply` of any Function passes through it
            if module in ("torch.func", "torch.utils.checkpoint") or module.startswith("torch._functorch."):
                called.append(name)

        with noting_operations(note) as lost, noting_calls(note_call) as stopped:
            torch.autograd.grad(out, (q, k, v), g)
        return {"tracked": tracked[:3], "called": called[:3], "lost": [*lost, *stopped]}

    test("what runs in backward")
    args = numbers(1, *sizes)
    seen = observe_scenario(watched, LeanAttention, *args, incoming_gradient(attention(*args)).detach())
    seen.that(not seen["lost"], OUT_OF_SIGHT)
    seen.that(
        not seen["tracked"] and not seen["called"],
        "Your backward lets autograd, torch.func, a checkpoint or a kernel of attention find the gradients. Here "
        "backward is a formula of your own: three products backwards and the gradient of softmax.",
    )

# %% check="lean-attention" points=1
"""Other sizes, large scores, views, changes in place, a second derivative, and who needs a gradient."""
with check("lean-attention") as test:
    sizes = (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)

    test("five queries over seven keys, in two rows and three heads")
    judge(observe_scenario(applied, LeanAttention, *numbers(1, *sizes)), FIRST_CHECK_FIRST)

    def worked(LeanAttention, wanted, q, k, v, g):
        """Go back from g for some of the three inputs, and count the numbers that backward's operations make."""
        inputs = [t.detach().requires_grad_(name in wanted) for name, t in zip("qkv", (q, k, v), strict=True)]
        out, work = LeanAttention.apply(*inputs), [0]

        def note(func, args, made):
            if not func.is_view and isinstance(made, Tensor):
                inner = args[-1].shape[-2] if func.overloadpacket.__name__ in ("bmm", "mm", "baddbmm", "addmm") else 1
                work.append(made.numel() * inner)

        with noting_operations(note):
            torch.autograd.grad(out, [t for t in inputs if t.requires_grad], g)
        return sum(work)

    test("the work of backward if one or two of the three need a gradient")
    args = numbers(3, (2, 12, 3), (2, 14, 3), (2, 14, 9))
    g = incoming_gradient(attention(*args)).detach()
    for few, more in (("q", "qk"), ("k", "qk"), ("qk", "qkv"), ("k", "kv"), ("q", "qv"), ("v", "qv")):
        seen = observe_scenario(worked, LeanAttention, few, *args, g)
        fewer, larger = seen.value, observe_scenario(worked, LeanAttention, more, *args, g).value
        extra = "".join(name for name in more if name not in few)
        seen.that(
            fewer < larger,
            f"Your backward does as much work if only {' and '.join(few)} needs a gradient as if {extra} needed one as "
            "well. Ask `ctx.needs_input_grad`, and compute nothing that nobody wants.",
        )

    for_v, for_q = [observe_scenario(worked, LeanAttention, name, *args, g).value for name in "vq"]
    seen.that(
        for_v < for_q,
        "Your backward does at least as much work for v alone as for q alone. The gradient of v is one product of the "
        "weights and the incoming gradient, so leave out the gradients of the weights and of the scores.",
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("2, 3 and 5 dimensions; one key, one query, one number")
    for cut in (
        ((5, 4), (7, 4), (7, 6)),
        ((3, 5, 4), (3, 7, 4), (3, 7, 6)),
        ((2, 1, 3, 5, 4), (2, 1, 3, 7, 4), (2, 1, 3, 7, 2)),
        ((2, 5, 4), (2, 1, 4), (2, 1, 3)),
        ((2, 1, 4), (2, 7, 4), (2, 7, 3)),
        ((1, 1), (1, 1), (1, 1)),
    ):
        judge(observe_scenario(applied, LeanAttention, *numbers(4, *cut)))

    test.hidden("float32, which stays float32")
    kind = mistake("The dtype must be that of q, k and v: {detail}.", stage="dtype")
    single = numbers(5, *sizes, dtype=torch.float32)
    judge(observe_scenario(applied, LeanAttention, *single), kind, rtol=1e-4, atol=1e-5)

    test.hidden("scores of 1e4 and -1e4")
    overflow = mistake(
        "With large scores your result is nan or inf, because exp of a score overflows. Subtract the logsumexp, or the "
        "largest score, before exp, in forward and in backward.",
        when=lambda seen: (
            not seen.value.isfinite().all() or any(not seen.gradient(n).isfinite().all() for n in range(3))
        ),
    )
    for sign in (100, -100):
        for dtype in (torch.float64, torch.float32):
            q, k, v = numbers(6, *sizes, dtype=dtype)
            large = [(q.abs() * 100).detach().requires_grad_(), (k.abs() * sign).detach().requires_grad_(), v]
            digits = 1e-6 if dtype == torch.float64 else 2e-2
            judge(observe_scenario(applied, LeanAttention, *large), overflow, rtol=digits, atol=digits)

    def in_a_model(LeanAttention, q, k, v):
        """Call `LeanAttention.apply` on transposed heads; go back from a sum, then from the joined heads."""
        heads = [tensor.view(2, -1, 3, 4).transpose(1, 2) for tensor in (q, k, v)]
        of_sum = torch.autograd.grad(LeanAttention.apply(*heads).sum(), (q, k, v), retain_graph=True)
        joined = LeanAttention.apply(*heads).transpose(1, 2).flatten(2)
        return [*of_sum, *torch.autograd.grad(joined.square().sum(), (q, k, v))]

    test.hidden("transposed heads, and the expanded gradient of a sum")
    plain = type("Plain", (), {"apply": staticmethod(attention)})
    flat = numbers(7, (2, 5, 12), (2, 7, 12), (2, 7, 12))
    observe_scenario(in_a_model, LeanAttention, *flat).returns(
        in_a_model(plain, *flat),
        *WRONG_GRADIENTS,
        because="The gradients are wrong where q, k and v are transposed views, or where the incoming gradient is one, "
        "or an expanded 1, as `.sum()` gives it.",
        rtol=1e-7,
        atol=1e-9,
    )

    def started_from(LeanAttention, q, k, v, g):
        """Go back from g, then look at g again."""
        torch.autograd.grad(LeanAttention.apply(q, k, v), (q, k, v), g)
        return g

    test.hidden("the incoming gradient")
    args = numbers(1, *sizes)
    g = incoming_gradient(attention(*args)).detach()
    changed = (
        "Your backward changes the incoming gradient in place. Another branch of the graph may need it: work on a copy."
    )
    observe_scenario(started_from, LeanAttention, *args, g).returns(g, because=changed)

    def changed_between(LeanAttention, which, q, k, v):
        """Double q, k, v or the output in place between forward and backward, then go back."""
        inputs = [tensor * 1 for tensor in (q, k, v)]
        out = LeanAttention.apply(*inputs)
        try:
            [*inputs, out][which].mul_(2)
            return list(torch.autograd.grad(out.sum(), (q, k, v)))
        except RuntimeError:
            return "raised"

    test.hidden("q, k, v or the output is changed in place between forward and backward")
    doubled = [2 * one for one in torch.autograd.grad(attention(*args).sum(), args)]
    for which, name in enumerate(("q", "k", "v", "the output")):
        seen = observe_scenario(changed_between, LeanAttention, which, *args)
        unnoticed = (
            f"{name} was changed in place between forward and backward, and backward raised no error. Autograd notices "
            "such a change only for tensors that went through `save_for_backward` themselves, not as their `.data`."
        )
        if name != "the output" or seen.value != "raised":
            expected = "raised" if name != "the output" else doubled
            seen.returns(expected, because=unnoticed, rtol=1e-6)

    def two_layers(LeanAttention, q, k, v):
        """Apply it to q, k and v, then to other numbers; go back from the first, the second, and the first again.

        After that, apply it to smaller heads as well, and go back from the first once more.
        """
        first, second = LeanAttention.apply(q, k, v).sin().sum(), LeanAttention.apply(-q, 2 * k, v).sin().sum()
        back = [torch.autograd.grad(one, (q, k, v), retain_graph=True) for one in (first, second, first)]
        LeanAttention.apply(q[..., :1], k[..., :1], v)
        return [one for grads in (*back, torch.autograd.grad(first, (q, k, v))) for one in grads]

    test.hidden("two applications, then back from the first, the second, and the first again")
    of_another = (
        "After applications with different numbers or sizes, going back gives wrong gradients or raises, although one "
        "application alone works. Numbers in an attribute of the class or in a list outside belong to the latest "
        "application, or are gone after one use. What `save_for_backward` gets, and a plain number on `ctx`, belong to "
        "their own application."
    )
    layered = observe_scenario(two_layers, LeanAttention, *args).expecting(mistake(of_another, stage="raised"))
    layered.returns(two_layers(plain, *args), because=of_another, rtol=1e-7, atol=1e-9)

    def twice(LeanAttention, q, k, v):
        """Differentiate the sum of the squared output, add a penalty on these gradients to a loss, and go back."""
        leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
        loss = LeanAttention.apply(*leaves).square().sum()
        try:
            firsts = torch.autograd.grad(loss, leaves, create_graph=True)
            penalty = sum((one * one.detach().cos()).sum() for one in firsts)
            (penalty + sum((one * one).sum() for one in leaves)).backward()
        except RuntimeError:
            return "raised"
        return [leaf.grad for leaf in leaves]

    test.hidden("a second derivative is right or refused")
    seen = observe_scenario(twice, LeanAttention, *args)
    if seen.value != "raised":
        silent = (
            "A second derivative comes out wrong, and nothing is raised: what you saved from forward, or computed "
            "without a graph, is a constant to it. torch.autograd.function has a decorator that refuses it instead."
        )
        seen.returns(twice(plain, *args), because=silent, rtol=1e-6, atol=1e-8)

    test.hidden("what is kept for other sizes")
    other = numbers(9, (3, 2, 50, 4), (3, 2, 40, 4), (3, 2, 40, 6))
    judge_kept(observe_scenario(kept, LeanAttention, *other), 3 * 2 * 50, 3 * 2 * 50 * 40, saved=True)

    test.hidden("what is kept of transposed q, k and v")
    turned = [tensor.detach().mT.contiguous().mT.requires_grad_() for tensor in other]
    judge_kept(observe_scenario(kept, LeanAttention, *turned), 3 * 2 * 50, 3 * 2 * 50 * 40, saved=True)
    ### END HIDDEN TESTS
