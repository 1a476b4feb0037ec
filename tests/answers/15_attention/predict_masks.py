# corners: none
import numpy as np

TRUE = {
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


# %% right: more digits, a list for the tuple
answers = TRUE | {"zero_one": 0.2689414, "lower_right": [3, 4], "one_query": 1.0}


# %% right: NumPy's numbers and arrays
answers = TRUE | {
    "sdpa_true": np.bool_(True),
    "no_key": np.bool_(False),
    "zero_one": np.float32(0.2689),
    "one_query": np.int64(1),
    "lower_right": np.array([3, 4]),
    "least": np.float64(0.5),
}


# %% right: tensors, in another order
answers = {name: torch.tensor(value) for name, value in reversed(TRUE.items())}


# %% right: computed with torch in the notebook
q, k, v = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2), torch.eye(2)[None, None]
seen = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(2, 2).tril())
counts = torch.tensor([torch.tensor(3), torch.tensor(4)])
answers = TRUE | {"zero_one": seen[0, 0, 0, 1], "lower_right": tuple(counts), "least": seen[0, 0, 1, :1]}


# %% right: 1 / (1 + e)
answers = TRUE | {"zero_one": 1 / (1 + math.e), "least": 1 / 2}


# %% wrong: True hides in scaled_dot_product_attention
# says: `scaled_dot_product_attention` and `nn.MultiheadAttention` use opposite signs.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"sdpa_true": False}


# %% wrong: True shows in nn.MultiheadAttention
# says: `scaled_dot_product_attention` and `nn.MultiheadAttention` use opposite signs.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"mha_true": True}


# %% wrong: a float mask selects
# says: A float mask doesn't select keys; it is added to the scores, and adding 0 hides nothing.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"zero_one": 0.0}


# %% wrong: a float mask changes nothing
# says: Those of query 0 were both 0, but now they are 1 and 0, so its weights are no longer equal.
# earns: 1.8 of 2
answers = TRUE | {"zero_one": 0.5}


# %% wrong: the weight of the other key
# says: That is the weight of key 0, whose score is 1 after the mask is added.
# earns: 1.8 of 2
answers = TRUE | {"zero_one": torch.tensor(0.7311)}


# %% wrong: some other weight
# says: So query 0 has the scores 1 and 0, and their softmax gives key 1 the weight 1 / (1 + e).
# earns: 1.8 of 2
answers = TRUE | {"zero_one": 0.25}


# %% wrong: nothing visible gives nan in scaled_dot_product_attention
# says: The softmax of a row of -inf is nan, but `scaled_dot_product_attention` puts zeros into such a row.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"no_key": True}


# %% wrong: nothing visible gives zeros in nn.MultiheadAttention
# says: When `nn.MultiheadAttention` returns weights, it calls softmax itself
# earns: 1.8 of 2
# lesson
answers = TRUE | {"mha_no_key": False}


# %% wrong: the least number hides both keys
# says: The least finite number isn't -inf. Added to both scores it makes them equal
# earns: 1.8 of 2
# lesson
answers = TRUE | {"least": 0.0}


# %% wrong: the first key wins
# says: The least finite number isn't -inf. Added to both scores it makes them equal
# earns: 1.8 of 2
answers = TRUE | {"least": 1.0}


# %% wrong: nan, as for -inf
# says: nan would come out of a softmax over nothing but -inf.
# earns: 1.8 of 2
answers = TRUE | {"least": torch.nan}


# %% wrong: one query sees all keys
# says: But `is_causal=True` lines up the first query with the first key, not the last with the last.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"one_query": 4}


# %% wrong: one query sees nothing
# says: The only query here is the first.
# earns: 1.8 of 2
answers = TRUE | {"one_query": 0}


# %% wrong: the upper left corner
# says: That is what `is_causal=True` gives, which starts at the upper left corner.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"lower_right": (1, 2)}


# %% wrong: all keys for both
# says: the last query sees all four keys, and the query before it sees one key less.
# earns: 1.8 of 2
answers = TRUE | {"lower_right": (4, 4)}


# %% wrong: two and three
# says: the last query sees all four keys, and the query before it sees one key less.
# earns: 1.8 of 2
answers = TRUE | {"lower_right": [2, 3]}


# %% wrong: two and two
# says: the last query sees all four keys, and the query before it sees one key less.
# earns: 1.8 of 2
answers = TRUE | {"lower_right": torch.tensor([2, 2])}


# %% wrong: eval() switches dropout off
# says: The function doesn't know which module calls it, so `eval()` has no effect on it
# earns: 1.8 of 2
# lesson
answers = TRUE | {"eval": True}


# %% wrong: a mask hides values
# says: The weight of the hidden key is exactly 0, and 0 times nan is nan.
# earns: 1.8 of 2
# lesson
answers = TRUE | {"behind": False}


# %% wrong: one item is left as ...
# says: There is no prediction yet
# earns: 1.8 of 2
answers = TRUE | {"behind": ...}


# %% wrong: words, a number for two, and 1 for True
# says: The answer here is two numbers, such as (0, 1). Write that in place of '4'.
# says: The answer here is True or False. Write that in place of '1'.
# says: The answer here is a number. Write that in place of 'None'.
# earns: 1.4 of 2
answers = TRUE | {"lower_right": 4, "sdpa_true": 1, "one_query": None}


# %% wrong: two opposite signs, both turned round
# says: `scaled_dot_product_attention` and `nn.MultiheadAttention` use opposite signs.
# earns: 1.6 of 2
answers = TRUE | {"sdpa_true": False, "mha_true": True}


# %% wrong: a list in place of the dict
# says: The answer must be a dict from item names to predictions
# says: The answer must be a dict from item names to predictions
# earns: 0 of 2
answers = list(TRUE.values())
