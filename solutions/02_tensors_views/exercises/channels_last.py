# %% [markdown]
# ### Exercise 2.2 · Where is the green value?
#
# predict · warm-up · 7 min · 1 point
#
# Code that expects row-major images raises on a `channels_last` batch, or silently converts it back. Replace each `...`
# by what the snippet next to it gives, with
#
#     w = torch.randn(2, 3, 5, 7)                  # batch, channels, height, width
#     x = w.to(memory_format=torch.channels_last)
#
# **Contract**
#
# - Shapes and strides are tuples; you may write them as lists. All other items ask for `True` or `False`.
# - Every right item earns a tenth of the point.
#
# <details><summary>Hint 1</summary>
#
# How far in memory is the green value of a pixel from its red value? And how far is the red value of the next pixel?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The strides are those of a row-major (N, H, W, C) tensor, written in the order N, C, H, W. Whether two dimensions can
# be viewed as one is decided by the rule of merging, so try it on these strides.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# They are H\*W\*C = 105, 1, W\*C = 21 and C = 3. H and W merge, since 21 = 7 · 3; C and H don't. Functions that compare
# or copy by *index* (`equal`, `flatten`) work whatever the layout is; `clone` keeps it, and `contiguous` replaces it by
# the row-major one. The stride of a dimension of size 1 is never used, so it can't spoil either order.
#
# </details>

# %% answer="channels-last"
# w = torch.randn(2, 3, 5, 7)
# x = w.to(memory_format=torch.channels_last)
### BEGIN SOLUTION
layout_answers = {
    "shape": (2, 3, 5, 7),  # x.shape
    "stride": (105, 1, 21, 3),  # x.stride()
    "contiguous": False,  # x.is_contiguous()
    "as_nhwc": True,  # x.permute(0, 2, 3, 1).is_contiguous()
    "view": False,  # does x.view(2, -1) work?
    "view_planes": True,  # does x.view(2, 3, -1) work?
    "flatten_same": True,  # torch.equal(x.flatten(1), w.flatten(1))
    "clone": True,  # x.clone().stride() == x.stride()
    "made_contiguous": (105, 35, 7, 1),  # x.contiguous().stride()
    "one_channel": True,  # torch.ones(2, 1, 5, 7).is_contiguous(memory_format=torch.channels_last)
}
### END SOLUTION
### BEGIN GIVEN
# layout_answers = {
#     "shape": ...,  # x.shape
#     "stride": ...,  # x.stride()
#     "contiguous": ...,  # x.is_contiguous()
#     "as_nhwc": ...,  # x.permute(0, 2, 3, 1).is_contiguous()
#     "view": ...,  # does x.view(2, -1) work?
#     "view_planes": ...,  # does x.view(2, 3, -1) work?
#     "flatten_same": ...,  # torch.equal(x.flatten(1), w.flatten(1))
#     "clone": ...,  # x.clone().stride() == x.stride()
#     "made_contiguous": ...,  # x.contiguous().stride()
#     "one_channel": ...,  # torch.ones(2, 1, 5, 7).is_contiguous(memory_format=torch.channels_last)
# }
### END GIVEN

# %% check="channels-last" points=1
"""Each item against what its snippet really gives; every right item earns its share."""
with check("channels-last") as test:
    test("every item is compared with what its snippet gives")
    rows = torch.arange(210.0).reshape(2, 3, 5, 7)
    last = rows.to(memory_format=torch.channels_last)

    def works(*sizes):
        """Whether the channels_last images can be viewed so."""
        try:
            last.view(*sizes)
        except RuntimeError:
            return False
        return True

    same_indices = (
        "channels_last never changes shape or the order of indices: x[n, c, h, w] stays x[n, c, h, w]. Only the "
        "strides change."
    )
    neighbours = "In channels_last the three channels of a pixel are neighbours: stride 1 belongs to C."
    in_bytes = "Those are strides in bytes, as NumPy shows them. torch counts elements."
    keeps = "clone, empty_like and element-wise operations keep a dense layout as it is (torch.preserve_format)."
    row_major = "contiguous() without a memory_format means row-major: it writes the images back in that order."
    test.points = observe_value(layout_answers).predicts(
        {
            "shape": prediction(last.shape, because=same_indices),
            "stride": prediction(
                last.stride(),
                ((105, 35, 7, 1), "These are the strides of the ordinary layout. " + neighbours),
                ((105, 21, 3, 1), same_indices + " Write them in the order N, C, H, W."),
                ((420, 4, 84, 12), in_bytes),
                because=neighbours + " The next pixel is C cells further, the next row W*C, the next image H*W*C.",
            ),
            "contiguous": prediction(
                last.is_contiguous(),
                because="is_contiguous() asks for the ordinary row-major order; ask "
                "is_contiguous(memory_format=torch.channels_last).",
            ),
            "as_nhwc": prediction(
                last.permute(0, 2, 3, 1).is_contiguous(),
                because="Read in the order N, H, W, C the cells are exactly row-major: that is what channels_last "
                "means.",
            ),
            "view": prediction(
                works(2, -1),
                because="To merge C, H and W, C must be the slowest of them in memory. Here it is the fastest, so the "
                "merge would need a copy.",
            ),
            "view_planes": prediction(
                works(2, 3, -1),
                because="Only H and W are to be merged: one step down is as far as walking through a row, 21 == 7 * 3.",
            ),
            "flatten_same": prediction(
                torch.equal(last.flatten(1), rows.flatten(1)),
                because="flatten copies where it can't view, and keeps the order of *indices*: the same numbers come "
                "out.",
            ),
            "clone": prediction(last.clone().stride() == last.stride(), because=keeps),
            "made_contiguous": prediction(
                last.contiguous().stride(),
                ((105, 1, 21, 3), row_major),
                ((420, 140, 28, 4), in_bytes),
                because=row_major,
            ),
            "one_channel": prediction(
                torch.ones(2, 1, 5, 7).is_contiguous(memory_format=torch.channels_last),
                because="With one channel both layouts are the same cells: a tensor can be contiguous in both formats "
                "at once.",
            ),
        },
        points=1,
    )
test.points
