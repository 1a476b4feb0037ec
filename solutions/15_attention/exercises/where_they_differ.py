# %% [markdown]
# ### Exercise 15.3 · Where the two part
#
# separate · solid · 15 min · 2 points
#
# Here are six pairs of functions that people take for equal. For each pair, find inputs for which the results differ,
# or say that there are none.
#
# ```python
# def scores(q, k):
#     return q @ k.mT / q.shape[-1] ** 0.5
#
# def a_1(q, k, v):
#     return scores(q, k).softmax(-1) @ v
#
# def a_2(q, k, v):
#     weights = scores(q, k).exp()
#     return weights / weights.sum(-1, keepdim=True) @ v
#
# def b_1(q, k, v):
#     return F.scaled_dot_product_attention(q, k, v, is_causal=True)
#
# def b_2(q, k, v):
#     mask = causal_lower_right(q.shape[2], k.shape[2])
#     return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
#
# def c_1(q, k, v):  # the last key is hidden from all queries
#     s = scores(q, k)
#     s[..., -1] = -torch.inf
#     return s.softmax(-1) @ v
#
# def c_2(q, k, v):
#     weights = scores(q, k).softmax(-1)
#     weights[..., -1] = 0
#     return weights / weights.sum(-1, keepdim=True) @ v
#
# def d_1(q, k, v):
#     return c_1(q, k, v)
#
# def d_2(q, k, v):
#     s = scores(q, k)
#     s[..., -1] -= 10_000
#     return s.softmax(-1) @ v
#
# def e_1(q, k, v):
#     return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
#
# def e_2(q, k, v):
#     group = q.shape[1] // k.shape[1]
#     return F.scaled_dot_product_attention(q, k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1))
#
# def f_1(q, k, v):
#     return a_1(q, k, v)
#
# def f_2(q, k, v):
#     return F.scaled_dot_product_attention(q, k, v)
# ```
#
# **Contract**
#
# - `INPUTS` is a dict with the keys "a" to "f". Each value is a tuple (q, k, v), or None where no such input exists.
# - q is (B, H, Q, D), k and v are (B, H', K, D), all float32, with 1 to 64 numbers in each tensor, and each number from
#   -1000 to 1000. Both functions of the pair accept them.
# - The first function gives finite numbers. The second gives nan or inf somewhere, or a result that is more than 0.01
#   away from the first one somewhere.
# - Rounding alone doesn't count: if both results are finite, they must also be 0.01 apart when q, k and v are float64.
# - Each pair earns a third of a point.
#
# <details><summary>Hint 1</summary>
#
# What does the second function do otherwise than the first? Which number must be large, or which sizes must be
# unequal, so that it shows?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For a, ask which numbers exp can still hold in float32. For b, equal numbers of queries and keys show nothing. For e,
# write down for each query head which key-value head it gets.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In c and d, the hidden key wins before it is hidden: in c it leaves nothing to the others, and in d 10,000 is not
# enough. One of the six pairs computes the same formula twice.
#
# </details>

# %% answer="where-they-differ"
### BEGIN SOLUTION
def numbers(*rows: list[float]) -> Tensor:
    """One row of the batch and one head, with a row of numbers for each position: (1, 1, n, D)."""
    return torch.tensor(rows)[None, None]


INPUTS = {
    "a": (numbers([10.0]), numbers([10.0], [0.0]), numbers([1.0], [2.0])),
    "b": (numbers([1.0]), numbers([0.0], [0.0]), numbers([0.0], [1.0])),
    "c": (numbers([20.0]), numbers([0.0], [10.0]), numbers([1.0], [2.0])),
    "d": (numbers([200.0]), numbers([0.0], [100.0]), numbers([1.0], [2.0])),
    "e": (torch.ones(1, 4, 1, 1), torch.ones(1, 2, 1, 1), torch.arange(2.0).view(1, 2, 1, 1)),
    "f": None,
}
### END SOLUTION
### BEGIN GIVEN
# INPUTS = {
#     "a": ...,  # (q, k, v) or None
#     "b": ...,
#     "c": ...,
#     "d": ...,
#     "e": ...,
#     "f": ...,
# }
### END GIVEN


# %% helpers="where-they-differ"
def scores(q, k):
    """q · k / √D."""
    return q @ k.mT / q.shape[-1] ** 0.5


def a_1(q, k, v):
    """Attention by the formula."""
    return scores(q, k).softmax(-1) @ v


def a_2(q, k, v):
    """The same with exponentials and their sum."""
    weights = scores(q, k).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def b_1(q, k, v):
    """Causal, from the upper left corner."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def b_2(q, k, v):
    """Causal, from the lower right corner."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]))


def c_1(q, k, v):
    """The last key is hidden before the softmax."""
    s = scores(q, k)
    s[..., -1] = -torch.inf
    return s.softmax(-1) @ v


def c_2(q, k, v):
    """The last key is hidden after the softmax."""
    weights = scores(q, k).softmax(-1)
    weights[..., -1] = 0
    return weights / weights.sum(-1, keepdim=True) @ v


def d_2(q, k, v):
    """The last score is lowered by 10,000."""
    s = scores(q, k)
    s[..., -1] -= 10_000
    return s.softmax(-1) @ v


def e_1(q, k, v):
    """Grouped heads."""
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def e_2(q, k, v):
    """Keys and values repeated."""
    group = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(q, k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1))


def f_2(q, k, v):
    """The function."""
    return F.scaled_dot_product_attention(q, k, v)


PAIRS = {"a": (a_1, a_2), "b": (b_1, b_2), "c": (c_1, c_2), "d": (c_1, d_2), "e": (e_1, e_2), "f": (a_1, f_2)}
LEADS = {
    "a": "What is exp(100) in float32, and what is inf / inf?",
    "b": "Which key does the first query belong to if there are fewer queries than keys?",
    "c": "What is left of the other weights in float32 if the score of the last key is larger by 200?",
    "d": "How large can a score be? Lowered by 10,000, it may still be the largest one.",
    "e": "Which key-value head does query head 1 get from each of the two, with four heads and two key-value heads?",
}


def wrong_form(given):
    """What is wrong with the form of an input, or None."""
    if not isinstance(given, (tuple, list)) or len(given) != 3 or not all(isinstance(t, Tensor) for t in given):
        return "Give a tuple of three tensors (q, k, v), or None."
    if any(t.is_meta or t.layout != torch.strided for t in given):
        return "q, k and v must be ordinary dense tensors that hold numbers."
    q, k, v = given
    if any(t.dtype != torch.float32 for t in given):
        return "q, k and v must be float32."
    if any(t.dim() != 4 or not 1 <= t.numel() <= 64 for t in given):
        return "q, k and v must have four dimensions, (B, H, n, D), and 1 to 64 numbers each."
    if k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        return "k and v must have the same shape, and q the same number of rows and of numbers a head as these."
    if not all(bool((t.abs() <= 1000).all()) for t in given):
        return "Each number must be from -1000 to 1000."
    return None


def apart(one, other):
    """The largest difference of two results of the same shape."""
    return (one - other).abs().max().item()


def in_words(name, given):
    """What is wrong with the answer for a pair, or None."""
    if given is None:
        return None if name == "f" else f"There is such an input. {LEADS[name]}"
    if wrong := wrong_form(given):
        return wrong
    inputs = [t.detach() for t in given]
    try:
        first, second = (function(*inputs) for function in PAIRS[name])
        exact = [function(*[t.double() for t in inputs]) for function in PAIRS[name]]
    except Exception as error:
        return f"One of the two functions doesn't take this input ({type(error).__name__}: {error})."
    if not first.isfinite().all():
        return "The first of the two functions gives nan or inf for this input. It must give finite numbers."
    if name == "f":
        return (
            f"For this input the two are {apart(first, second):.1e} apart, and in float64 {apart(*exact):.1e}. Both "
            "compute the same formula, so only rounding can part them."
        )
    if not second.isfinite().all():
        return None
    if apart(first, second) <= 0.01:
        return f"With this input both give the same, up to {apart(first, second):.1e}. {LEADS[name]}"
    if apart(*exact) <= 0.01:
        return f"With this input only rounding parts the two: in float64 they give the same. {LEADS[name]}"
    return None


def judged(seen, names):
    """A prediction for each of these pairs: right, or the sentence that says what is wrong."""
    answers = seen.value if isinstance(seen.value, dict) else {}
    wrong = {name: in_words(name, answers[name]) for name in names if answers.get(name, ...) is not ...}
    return {
        name: prediction(answers[name])
        if wrong.get(name, "") is None
        else prediction(object(), because=wrong.get(name, ""))
        for name in names
    }


# %% check="where-they-differ" points=1
"""Inputs for a, b and c; each earns a third of the point."""
with check("where-they-differ") as test:
    test("a, b and c: both functions of each pair are called with your input")
    seen = observe_value(INPUTS)
    test.points = seen.predicts(judged(seen, "abc"), points=1)
test.points

# %% check="where-they-differ" points=1
"""Inputs for d, e and f; each earns a third of the point."""
with check("where-they-differ") as test:
    test("d, e and f: both functions of each pair are called with your input")
    seen = observe_value(INPUTS)
    test.points = seen.predicts(judged(seen, "def"), points=1)
test.points
