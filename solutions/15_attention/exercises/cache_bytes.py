# %% [markdown]
# ### Exercise 15.6 · How long a conversation fits
#
# predict · warm-up · 10 min · 1 point
#
# A language model has 32 layers, 32 query heads, 8 key-value heads and 128 numbers a head. Keys, values and scores are
# bfloat16. How much memory does a conversation take? Compute it before you rent the card.
#
# **Contract**
#
# - Replace each `...` in the dict by a whole number, written as a product, such as `2 * 32 * 8`, or as it is.
# - "A row" is one conversation. Only keys, values and scores count, and the weights where the question names them.
# - 1 GiB is 2**30 bytes.
# - Each right number earns a seventh of the point.
#
# <details><summary>Hint 1</summary>
#
# What does the cache keep of one position in one layer? How many numbers is that?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For each row, layer, position and key-value head there are the numbers of one head, once for the key and once for the
# value, and each number takes the bytes of its dtype.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scores belong to pairs of positions, and each query head has its own. With `torch.cat`, step n writes a tensor of n
# positions: add these numbers up.
#
# </details>

# %% answer="cache-bytes"
### BEGIN SOLUTION
answers = {
    # bytes of keys and values for one row of 8,192 positions
    "gqa": 2 * 32 * 8 * 128 * 8192 * 2,
    # the same, if each of the 32 query heads had keys and values of its own
    "mha": 2 * 32 * 32 * 128 * 8192 * 2,
    # bytes that one more position of one row takes, in all layers
    "one_token": 2 * 32 * 8 * 128 * 2,
    # the weights take 16 GiB of 24 GiB, and the rest is free: how long can four rows become,
    # if all four have the same number of positions?
    "longest": 8 * 2**30 // (4 * 2 * 32 * 8 * 128 * 2),
    # bytes of the scores of one layer for one row of 8,192 positions, if all are in memory
    "scores": 32 * 8192 * 8192 * 2,
    # bytes of keys and values for one row of 8,192 positions, if a query in each layer sees 1,024
    # positions, its own included, and the cache keeps no others
    "ring": 2 * 32 * 8 * 128 * 1024 * 2,
    # the cache of a layer is empty at first; 1,000 steps each append one position with torch.cat:
    # how many positions does torch.cat write in all? (Key and value of a position count once.)
    "cat": 1000 * 1001 // 2,
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     # bytes of keys and values for one row of 8,192 positions
#     "gqa": ...,
#     # the same, if each of the 32 query heads had keys and values of its own
#     "mha": ...,
#     # bytes that one more position of one row takes, in all layers
#     "one_token": ...,
#     # the weights take 16 GiB of 24 GiB, and the rest is free: how long can four rows become,
#     # if all four have the same number of positions?
#     "longest": ...,
#     # bytes of the scores of one layer for one row of 8,192 positions, if all are in memory
#     "scores": ...,
#     # bytes of keys and values for one row of 8,192 positions, if a query in each layer sees 1,024
#     # positions, its own included, and the cache keeps no others
#     "ring": ...,
#     # the cache of a layer is empty at first; 1,000 steps each append one position with torch.cat:
#     # how many positions does torch.cat write in all? (Key and value of a position count once.)
#     "cat": ...,
# }
### END GIVEN

# %% check="cache-bytes" points=1
"""Each number is compared with the size of the tensors; every right one earns its share."""
with check("cache-bytes") as test:
    test("every item is compared with the sizes of tensors without memory")

    def bytes_of(layers=32, heads=8, positions=8192, rows=1, both=2, dtype=torch.bfloat16, dim=128):
        """The size of a tensor on meta, which has no memory."""
        return torch.empty(both, layers, rows, heads, positions, dim, dtype=dtype, device="meta").nbytes

    def written_by_cat(steps):
        """The positions that torch.cat writes in all, step by step."""
        cache, written = torch.empty(0, 1), 0
        for _ in range(steps):
            cache = torch.cat([cache, torch.empty(1, 1)])
            written += len(cache)
        return written

    free, pairs = 8 * 2**30, 8192 * 8192
    both = "Keys and values are stored: that is twice as much."
    heads_of_cache = (
        "The cache holds the 8 key-value heads. The 32 query heads share them in groups of four and store nothing."
    )
    own_heads = "Here each of the 32 query heads has keys and values of its own."
    single = "In bfloat16 a number takes two bytes, not four."
    half = "That is half of it: a number takes two bytes, and the scores that a causal mask hides are in memory too."
    layers = "Every one of the 32 layers has a cache of its own."

    cat_sum = "torch.cat writes everything that is stored and the new position, at every step: 1 + 2 + … + 1,000."
    test.points = observe_value(answers).predicts(
        {
            "gqa": prediction(
                bytes_of(),
                (bytes_of(both=1), both),
                (bytes_of(heads=32), heads_of_cache),
                (bytes_of(dtype=torch.float32), single),
                (bytes_of(layers=1), layers),
                (bytes_of(dim=1), "A head has 128 numbers for each position."),
                because="Multiply: 2 (key and value) · layers · key-value heads · numbers a head · positions · bytes a "
                "number.",
            ),
            "mha": prediction(
                bytes_of(heads=32),
                (bytes_of(), own_heads),
                (bytes_of(heads=32, both=1), both),
                (bytes_of(heads=32, dtype=torch.float32), single),
                (bytes_of(heads=32, layers=1), layers),
                because="As for `gqa`, but with 32 heads: four times as much.",
            ),
            "one_token": prediction(
                bytes_of(positions=1),
                (bytes_of(positions=1, layers=1), layers),
                (bytes_of(positions=1, both=1), both),
                (bytes_of(positions=1, dtype=torch.float32), single),
                (bytes_of(positions=1, heads=32), heads_of_cache),
                because="One position takes the 8,192nd part of what 8,192 take.",
            ),
            "longest": prediction(
                free // bytes_of(positions=1, rows=4),
                (free // bytes_of(positions=1), "Four rows are in memory, and each has keys and values of its own."),
                (24 * 2**30 // bytes_of(positions=1, rows=4), "The weights are there first, and 8 GiB are left."),
                (24 * 2**30 // bytes_of(positions=1), "The weights are there first, and there are four rows."),
                (8 * 10**9 // bytes_of(positions=1, rows=4), "1 GiB is 2**30 bytes, not 10**9."),
                (free // bytes_of(positions=1, rows=4, heads=32), heads_of_cache),
                (free // bytes_of(positions=1, rows=4, both=1), both),
                (free // bytes_of(positions=1, rows=4, dtype=torch.float32), single),
                (free // bytes_of(positions=1, rows=4, layers=1), layers),
                because="Divide the 8 GiB that are left by what one position takes in all layers of all four rows.",
            ),
            "scores": prediction(
                32 * pairs * 2,
                (8 * pairs * 2, "Each of the 32 query heads has scores of its own, although they share keys."),
                (32 * 8192 * 128 * 2, "That is the size of the queries. A score belongs to a pair of positions."),
                (32 * 8192 * 2, "A score belongs to a pair of positions: 8,192 times 8,192 for each head."),
                (32 * pairs * 4, single),
                (32 * pairs, half),
                (pairs * 2, "That is one head. Each of the 32 query heads has scores of its own."),
                (32 * 32 * pairs * 2, "The question is about the scores of one layer."),
                (32 * pairs * 128 * 2, "A score is one number for each pair: the sum over the 128 numbers of a head."),
                because="Multiply: query heads · positions · positions · bytes a number.",
            ),
            "ring": prediction(
                bytes_of(positions=1024),
                (bytes_of(), "A key that no query will see any more needs no memory: 1,024 positions are enough."),
                (
                    bytes_of(positions=1025),
                    "The position of the query itself is one of the 1,024 that it sees, so 1,024 are enough.",
                ),
                (bytes_of(positions=1024, both=1), both),
                (bytes_of(positions=1024, layers=1), layers),
                (bytes_of(positions=1024, heads=32), heads_of_cache),
                (bytes_of(positions=1024, dtype=torch.float32), single),
                (
                    bytes_of(positions=1023),
                    "1,024 positions must be there when a query looks, its own among them.",
                ),
                because="The same product as for `gqa`, with 1,024 positions in each layer.",
            ),
            "cat": prediction(
                written_by_cat(1000),
                (1000, f"That is only what is new. {cat_sum}"),
                (1_000_000, "At step n the result has n positions, not 1,000: the sum is 1,000 · 1,001 / 2."),
                (2 * written_by_cat(1000), "A position counts once here for its key and value together."),
                (written_by_cat(999), "Those are the old positions alone. torch.cat also writes the new one."),
                (500_000, "Half of 1,000² is close, but the sum 1 + 2 + … + 1,000 is 1,000 · 1,001 / 2."),
                because=cat_sum,
            ),
        },
        points=1,
    )
test.points
