# %% [markdown]
# ### Exercise 2.10 · Where are the cuts?
#
# predict · warm-up · 8 min · 1 point
#
# Batches are cut into parts for heads and devices, and a cut that doesn't mean what you think often raises no error.
# Replace each `...` by what the snippet next to it gives, with `v = torch.arange(10)` and `sizes(parts) = [len(p) for p
# in parts]`.
#
# **Contract**
#
# - You may write a list as a tuple. `split_3_3` asks for `True` or `False`.
# - Every right item earns a tenth of the point.
#
# <details><summary>Hint 1</summary>
#
# For each call: is the number a size, a count, or a position to cut at?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# split takes sizes. tensor_split takes an int as a count, or a list of cut positions, which follow the rules of slices.
# chunk makes at most that many parts, all of size ceil(10 / n) except the last.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `split(4)` cuts off fours until less is left. `tensor_split(4)` makes four parts of two, and the first two get one
# each of the two that are left. `chunk(6)` takes parts of ceil(10 / 6) = 2 until nothing is left, and five are enough.
# The places [3, 7] give v[:3], v[3:7], v[7:]; a place beyond the end is allowed, as in a slice. Sizes have to sum to
# ten. `repeat` puts whole rows one after the other, `repeat_interleave` repeats each element.
#
# </details>

# %% answer="predict-cuts"
# v = torch.arange(10)
### BEGIN SOLUTION
cut_answers = {
    "split_4": [4, 4, 2],  # sizes(v.split(4))
    "tsplit_4": [3, 3, 2, 2],  # sizes(v.tensor_split(4))
    "chunk_4": [3, 3, 3, 1],  # sizes(v.chunk(4))
    "chunk_6": [2, 2, 2, 2, 2],  # sizes(v.chunk(6))
    "split_3_7": [3, 7],  # sizes(v.split([3, 7]))
    "tsplit_3_7": [3, 4, 3],  # sizes(v.tensor_split([3, 7]))
    "split_3_3": True,  # does v.split([3, 3]) raise?
    "tsplit_2_20": [2, 8, 0],  # sizes(v.tensor_split([2, 20]))
    "interleave": [0, 0, 1, 1, 2, 2],  # v[:3].repeat_interleave(2).tolist()
    "repeat": [0, 1, 2, 0, 1, 2],  # v[:3].repeat(2).tolist()
}
### END SOLUTION
### BEGIN GIVEN
# cut_answers = {
#     "split_4": ...,  # sizes(v.split(4))
#     "tsplit_4": ...,  # sizes(v.tensor_split(4))
#     "chunk_4": ...,  # sizes(v.chunk(4))
#     "chunk_6": ...,  # sizes(v.chunk(6))
#     "split_3_7": ...,  # sizes(v.split([3, 7]))
#     "tsplit_3_7": ...,  # sizes(v.tensor_split([3, 7]))
#     "split_3_3": ...,  # does v.split([3, 3]) raise?
#     "tsplit_2_20": ...,  # sizes(v.tensor_split([2, 20]))
#     "interleave": ...,  # v[:3].repeat_interleave(2).tolist()
#     "repeat": ...,  # v[:3].repeat(2).tolist()
# }
### END GIVEN

# %% check="predict-cuts" points=1
"""Each item against what its snippet really gives; every right item earns its share."""
with check("predict-cuts") as test:
    test("every item is compared with what its snippet gives")
    ten = torch.arange(10)

    def sizes(parts):
        """How long the parts are."""
        return [len(part) for part in parts]

    def refuses(sizes_given):
        """Whether split raises for these sizes."""
        try:
            ten.split(sizes_given)
        except RuntimeError:
            return True
        return False

    swapped = "A list means sizes for split and cut positions for tensor_split; you swapped them."
    repeating = (
        "repeat tiles the whole tensor (numpy.tile); repeat_interleave repeats each element in place (numpy.repeat)."
    )
    a_size = "split's integer is the size of each part, not the number of parts."
    a_count = "tensor_split's integer is the number of parts; the first 10 % 4 of them get one element more."
    a_ceil = "chunk(n) uses parts of size ceil(10 / n) until the elements are used up: the last one is smaller."
    test.points = observe_value(cut_answers).predicts(
        {
            "split_4": prediction(
                sizes(ten.split(4)),
                ([3, 3, 2, 2], a_size),
                ([3, 3, 3, 1], a_size),
                because="Parts of size 4 are cut off until the elements are used up: the last one is smaller.",
            ),
            "tsplit_4": prediction(
                sizes(ten.tensor_split(4)),
                ([4, 4, 2], a_count),
                (
                    [2, 2, 2, 4],
                    "tensor_split gives the extra elements to the first parts, one each; "
                    "it is split whose last part is smaller.",
                ),
                because=a_count,
            ),
            "chunk_4": prediction(
                sizes(ten.chunk(4)),
                ([4, 4, 2], "chunk's integer is a number of parts, not their size."),
                because=a_ceil,
            ),
            "chunk_6": prediction(
                sizes(ten.chunk(6)),
                (
                    [2, 2, 2, 2, 1, 1],
                    "chunk(6) needs parts of size ceil(10 / 6) = 2, and five of them are enough: "
                    "chunk may return fewer parts than asked for.",
                ),
                ([6, 4], "chunk's integer is a number of parts, not their size."),
                because="chunk(n) uses parts of size ceil(10 / n) until the elements are used up.",
            ),
            "split_3_7": prediction(
                sizes(ten.split([3, 7])), ([3, 4, 3], swapped), because="For split a list means sizes."
            ),
            "tsplit_3_7": prediction(
                sizes(ten.tensor_split([3, 7])),
                ([3, 7], swapped),
                because="The parts are v[:3], v[3:7] and v[7:].",
            ),
            "split_3_3": prediction(
                refuses([3, 3]),
                because="The list given to split must sum to the size of the dimension "
                "(its length is the number of parts): it raises.",
            ),
            "tsplit_2_20": prediction(
                sizes(ten.tensor_split([2, 20])),
                because="Cut positions follow slicing rules: v[:2], v[2:20], v[20:], the last one empty.",
            ),
            "interleave": prediction(ten[:3].repeat_interleave(2), because=repeating),
            "repeat": prediction(ten[:3].repeat(2), because=repeating),
        },
        points=1,
    )
test.points
