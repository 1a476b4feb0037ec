# %% [markdown]
# ### Exercise 15.1 · Who sees whom
#
# predict · warm-up · 10 min · 2 points
#
# Ten questions about masks. `sdpa` stands for `F.scaled_dot_product_attention`. Where nothing else is said, all scores
# are 0 before the mask, sequences are short, and nothing is dropped.
#
# - `sdpa_true`: The boolean `attn_mask` of `sdpa` is True at (i, j). May query i look at key j?
# - `mha_true`: The boolean `attn_mask` of `nn.MultiheadAttention` is True at (i, j). May query i look at key j?
# - `zero_one`: The `attn_mask` of `sdpa` is the float tensor `torch.ones(2, 2).tril()`. Which weight does query 0 give
#   to key 1?
# - `no_key`: The row of a query in the boolean mask of `sdpa` is False everywhere. Is the query's output nan?
# - `mha_no_key`: `nn.MultiheadAttention`, called with `need_weights=True` (the default), hides all keys from a query.
#   Is the query's output nan?
# - `least`: Two keys have the values [1, 0] and [0, 1], and the row of a query in the float mask of `sdpa` holds
#   `torch.finfo(torch.float32).min` twice. What is the first entry of the query's output?
# - `one_query`: One query, four keys, `is_causal=True`. How many keys does the query see?
# - `lower_right`: Two queries, four keys, `attn_mask=causal_lower_right(2, 4)`. How many keys does each query see?
# - `eval`: A module in eval mode calls `sdpa(q, k, v, dropout_p=0.5)` in its forward. Do two calls with the same q, k
#   and v give the same?
# - `behind`: The boolean mask hides key 1 from query 0, and the value row of key 1 is nan. Is the output of query 0
#   nan?
#
# **Contract**
#
# - Replace each `...` by True or False, by a number (two digits after the point are enough), or for `lower_right` by a
#   tuple of two numbers, that of the first query first. Decide before you run anything.
# - The check makes each of these calls on your PyTorch. Each right answer earns a tenth of the two points.
#
# <details><summary>Hint 1</summary>
#
# How can you look at a mask? If all scores are 0 and the values are the identity matrix, what does the output show?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two of the questions are about functions with opposite signs, three about a row in which nothing is left, and two
# about sequences of different lengths.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A float mask is added to the scores. `is_causal` counts from the upper left corner. A mask acts on scores, not on
# values, and 0 times nan is nan. A function can't know what mode a module is in.
#
# </details>

# %% answer="predict-masks"
### BEGIN SOLUTION
answers = {
    "sdpa_true": True,
    "mha_true": False,
    "zero_one": 0.27,
    "no_key": False,
    "mha_no_key": True,
    "least": 0.5,
    "one_query": 1,
    "lower_right": (3, 4),
    "eval": False,
    "behind": True,
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "sdpa_true": ...,  # True or False
#     "mha_true": ...,  # True or False
#     "zero_one": ...,  # a number
#     "no_key": ...,  # True or False
#     "mha_no_key": ...,  # True or False
#     "least": ...,  # a number
#     "one_query": ...,  # a number
#     "lower_right": ...,  # two numbers, such as (0, 1)
#     "eval": ...,  # True or False
#     "behind": ...,  # True or False
# }
### END GIVEN


# %% helpers="predict-masks"
def plain(value):
    """A tensor as what it holds; nan, inf and all else as they are."""
    return value.tolist() if isinstance(value, Tensor) else value


def is_number(value):
    """Whether it is an int or a float, and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fits(value, truth):
    """Whether an answer is of the truth's kind: a bool, a number or two numbers."""
    if isinstance(truth, bool):
        return isinstance(value, bool)
    if isinstance(truth, tuple):
        return isinstance(value, (list, tuple)) and len(value) == 2 and all(is_number(plain(one)) for one in value)
    return is_number(value)


FORMS = {bool: "True or False", tuple: "two numbers, such as (0, 1)", float: "a number", int: "a number"}


def item(given, name, truth, *mistakes, because):
    """One item. A number is right to two digits; what is of another kind is told so."""
    answer = given.get(name, ...) if isinstance(given, dict) else ...
    value = plain(answer)
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if not fits(value, truth):
        asked = (answer, f"The answer here is {FORMS[type(truth)]}. Write that in place of {str(answer)[:40]!r}.")
        return prediction(torch.tensor(truth), asked)
    near = is_number(value) and abs(value - truth) <= 0.00501
    told = [(answer, sentence) for wrong, sentence in mistakes if is_same(value, wrong)]
    return prediction(answer if near else torch.tensor(truth), *told, because=because)


def is_same(value, wrong):
    """Whether a number, or two, is what a mistake gives, to two digits."""
    if isinstance(wrong, tuple):
        return tuple(map(plain, value)) == wrong
    return abs(value - wrong) <= 0.00501 or (value != value and wrong != wrong)


def weights(queries, keys, mask=None, **options):
    """(queries, keys): the weights that sdpa gives to the keys if all scores are 0 before the mask."""
    q, k = torch.zeros(1, 1, queries, keys), torch.zeros(1, 1, keys, keys)
    return F.scaled_dot_product_attention(q, k, torch.eye(keys)[None, None], attn_mask=mask, **options)[0, 0]


# %% check="predict-masks" points=1
"""The first five questions, asked of your torch; every right answer earns its share."""
with check("predict-masks") as test:
    test("the first five answers are compared with what PyTorch does")
    mask = torch.tensor([[True, False]])
    with torch.random.fork_rng(devices=[]):
        module = nn.MultiheadAttention(2, 1)
    query, keys = torch.zeros(1, 2), torch.zeros(2, 2)
    _, by_module = module(query, keys, keys, attn_mask=mask)
    nothing, _ = module(query, keys, keys, attn_mask=torch.ones(1, 2) > 0)

    signs = (
        "`scaled_dot_product_attention` and `nn.MultiheadAttention` use opposite signs. In the function, True means "
        "that the query may look at the key. In the module, True means that the key is hidden, in `attn_mask` as in "
        "`key_padding_mask`."
    )
    given = observe_value(answers).value
    test.points = observe_value(answers).predicts(
        {
            "sdpa_true": item(given, "sdpa_true", bool(weights(1, 2, mask)[0, 0] > 0), because=signs),
            "mha_true": item(given, "mha_true", bool(by_module[0, 0] > 0), because=signs),
            "zero_one": item(
                given,
                "zero_one",
                float(weights(2, 2, torch.ones(2, 2).tril())[0, 1]),
                (
                    0.0,
                    "A float mask doesn't select keys; it is added to the scores, and adding 0 hides nothing. To hide "
                    "a key, a float mask needs -inf.",
                ),
                (
                    0.5,
                    "A float mask is added to the scores. Those of query 0 were both 0, but now they are 1 and 0, so "
                    "its weights are no longer equal.",
                ),
                (
                    0.73,
                    "That is the weight of key 0, whose score is 1 after the mask is added. The question is about key "
                    "1.",
                ),
                because="A float mask is added to the scores. So query 0 has the scores 1 and 0, and their softmax "
                "gives key 1 the weight 1 / (1 + e).",
            ),
            "no_key": item(
                given,
                "no_key",
                bool(weights(1, 2, torch.zeros(1, 2) > 0).isnan().any()),
                because="The softmax of a row of -inf is nan, but `scaled_dot_product_attention` puts zeros into such "
                "a row. (Early releases returned nan.)",
            ),
            "mha_no_key": item(
                given,
                "mha_no_key",
                bool(nothing.isnan().any()),
                because="When `nn.MultiheadAttention` returns weights, it calls softmax itself, and the softmax of a "
                "row of -inf is nan. Only with `need_weights=False` does it leave the work to "
                "`scaled_dot_product_attention`, which returns zeros.",
            ),
        },
        points=1,
    )
test.points

# %% check="predict-masks" points=1
"""The other five questions, asked of your torch; every right answer earns its share."""
with check("predict-masks") as test:
    test("the other five answers are compared with what PyTorch does")

    class Dropping(nn.Module):
        """A module that passes dropout_p on, whatever its mode."""

        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    with torch.random.fork_rng(devices=[]):
        q, module = torch.ones(1, 1, 64, 64), Dropping().eval()
        is_same_in_eval = torch.equal(module(q, q, q), module(q, q, q))
    least = torch.full((1, 2), torch.finfo(torch.float32).min)
    bad = torch.tensor([[1.0], [torch.nan]])[None, None]
    q, k, hides = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 2, 1), torch.tensor([[True, False]])
    masked = F.scaled_dot_product_attention(q, k, bad, attn_mask=hides)

    mean = (
        "The least finite number isn't -inf. Added to both scores it makes them equal, so both weights are 1/2, and "
        "the query that should see nothing gets the mean of all values."
    )
    given = observe_value(answers).value
    test.points = observe_value(answers).predicts(
        {
            "least": item(
                given,
                "least",
                float(weights(1, 2, least)[0, 0]),
                (
                    torch.nan,
                    "nan would come out of a softmax over nothing but -inf. `torch.finfo(torch.float32).min` is "
                    "finite, and the softmax of two equal finite scores is well defined.",
                ),
                because=mean,
            ),
            "one_query": item(
                given,
                "one_query",
                int((weights(1, 4, is_causal=True) > 0).sum()),
                (
                    4,
                    "Behind a cache that is what you want, and there you leave the mask out or use "
                    "`causal_lower_right`. But `is_causal=True` lines up the first query with the first key, not the "
                    "last with the last.",
                ),
                because="`is_causal=True` lines up the first query with the first key, and each query sees the keys up "
                "to its own. The only query here is the first.",
            ),
            "lower_right": item(
                given,
                "lower_right",
                tuple((weights(2, 4, causal_lower_right(2, 4)) > 0).sum(1).tolist()),
                (
                    (1, 2),
                    "That is what `is_causal=True` gives, which starts at the upper left corner. `causal_lower_right` "
                    "lines up the last query with the last key.",
                ),
                because="`causal_lower_right` lines up the last query with the last key: the last query sees all four "
                "keys, and the query before it sees one key less.",
            ),
            "eval": item(
                given,
                "eval",
                is_same_in_eval,
                because="The function doesn't know which module calls it, so `eval()` has no effect on it: `dropout_p` "
                "drops weights in every call. The module must pass 0.0 itself when it isn't training.",
            ),
            "behind": item(
                given,
                "behind",
                bool(masked.isnan().any()),
                because="The weight of the hidden key is exactly 0, and 0 times nan is nan. A mask hides scores, not "
                "values. (A kernel may skip keys that are hidden from many queries, so don't rely on nan either.)",
            ),
        },
        points=1,
    )
test.points
