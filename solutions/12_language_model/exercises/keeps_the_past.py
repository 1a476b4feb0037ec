# %% [markdown]
# ### Exercise 12.9 · A test that no leak passes
#
# separate · solid · 15 min · 1 point
#
# Section 12.2 changed the last byte and looked at all outputs before it. That found a mask with one diagonal too many,
# but leaks come in many forms: some are at the first position only, some are small, some show only in long texts. Write
# a test that finds them all, and that no correct layer fails because of its rounding. This exercise builds on section
# 12.2.
#
# **Contract**
#
# - `layer(x)` maps x (B, T, 8) float32 to (B, T, 8), for T from 1 to 32. It has fixed weights and returns the same for
#   the same x. It is made for numbers such as `torch.randn` draws.
# - `keeps_the_past(layer)` returns True if the output at each position depends only on the inputs up to that position.
#   Otherwise it returns False or raises an error.
# - If later inputs change, rounding may change the earlier outputs of a right layer, but by less than 1e-5.
# - A wrong layer may look right for a short x and at most positions. But for T = 32 there is a position where it shows:
#   if you draw everything after it anew with `torch.randn`, even once, an output at or before it changes by more than
#   1e-3.
# - Autograd follows every path from x to the output, so you may also test with gradients. For a right layer those that
#   should be zero are below 1e-5.
#
# The check asks your test about right layers and wrong ones, some of which it shows you.
#
# <details><summary>Hint 1</summary>
#
# Suppose that position 5 sees position 6, and no other position sees too far. Which inputs must change, and which
# outputs must you compare?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For a given t, draw all inputs from position t on anew, and compare the outputs before t with those for the old x. One
# t isn't enough. New numbers are better than adding the same number to each feature, because a LayerNorm takes that
# out again.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Draw x of shape (1, 32, 8) and keep `layer(x)`. In a loop over t from 1 to 31, clone x, overwrite `[:, t:]`, call the
# layer, and compare the outputs `[:, :t]`. If the largest difference is above a tolerance between the two numbers of
# the contract, return False. After the loop, return True.
#
# </details>


# %% answer="keeps-the-past"
def keeps_the_past(layer: Callable[[Tensor], Tensor]) -> bool:
    """Whether no output of layer, (B, T, 8) -> (B, T, 8), depends on a later input."""
    ### BEGIN SOLUTION
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if (layer(changed) - before)[:, :t].abs().max() > 1e-4:
            return False
    return True
    ### END SOLUTION


# %% check="keeps-the-past" points=1
"""Your test is asked about layers that see the past only, and about layers that see the future."""
with check("keeps-the-past") as test:

    def weights(number):
        """One of four fixed matrices, (8, 8)."""
        return torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(0))[number] / 8**0.5

    def scores_of(x):
        """(B, T, T): how well the query of each position (row) fits the key of each (column); from -4 to 4."""
        q, k = F.normalize(x @ weights(0), dim=-1), F.normalize(x @ weights(1), dim=-1)
        return 4 * q @ k.transpose(1, 2)

    def ones(x):
        """(T, T) of True."""
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)

    def attention(x, mask):
        """The mean of what the mask allows."""
        return scores_of(x).masked_fill(~mask, -torch.inf).softmax(-1) @ x @ weights(2)

    def masked_late(x):
        return scores_of(x).softmax(-1).tril() @ x

    def filled_with_zeros(x):
        return scores_of(x).tril().softmax(-1) @ x

    def layers():
        """What each layer does, and the layer; the first two are right."""
        return {
            "masks the scores": lambda x: attention(x, ones(x).tril()),
            "calls scaled_dot_product_attention with is_causal=True": lambda x: F.scaled_dot_product_attention(
                x @ weights(0), x @ weights(1), x, is_causal=True
            ),
            "has one diagonal too many in its mask": lambda x: attention(x, ones(x).tril(1)),
            "masks after the softmax, so that the future counts in its denominators": masked_late,
            "fills the masked scores with 0 in place of -inf": filled_with_zeros,
        }

    def on_each(keeps_the_past):
        """Ask about two right layers and three wrong ones."""
        return opinions(keeps_the_past, layers())

    test("attention with a right mask, and with three wrong ones")
    names = list(layers())
    observe_scenario(on_each, keeps_the_past).tells_apart(names[:2], names[2:], noun="layer")

    ### BEGIN HIDDEN TESTS
    def by_hand(x):
        """Attention position by position, with the keys and values so far."""
        q, keys, values, rows = x @ weights(0), [], [], []
        for t in range(x.shape[1]):
            keys.append(x[:, t] @ weights(1))
            values.append(x[:, t])
            fits = (torch.stack(keys, 1) * q[:, t, None]).sum(-1).softmax(-1)
            rows.append((fits[..., None] * torch.stack(values, 1)).sum(1))
        return torch.stack(rows, 1)

    def shifted(x):
        """Attention whose softmax subtracts the largest of all scores, which may be one of the future's."""
        fits = scores_of(x)
        powers = (fits - fits.amax((1, 2), keepdim=True)).exp().tril()
        return powers / powers.sum(-1, keepdim=True) @ x

    def convolved(x, before, after):
        """Three neighbouring positions, weighted."""
        padded = F.pad(x.transpose(1, 2), (before, after))
        return F.conv1d(padded, torch.stack([weights(0), weights(1), weights(2)], 2)).transpose(1, 2)

    def blocks(x, masks):
        """A block for each mask: a norm over the features, attention, and one more norm."""
        for mask in masks:
            x = F.layer_norm(attention(F.layer_norm(x, (8,)), mask), (8,))
        return x

    def there_and_back(x):
        total = 4 * x.sum(1, keepdim=True)
        return (x + total) - total

    def so_far(x):
        return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]

    def over_time(x):
        return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True, correction=0) + 1e-3)

    def by_size(x):
        return x / x.square().mean(1, keepdim=True).sqrt()

    def next_ones(x):
        """At each position what comes next, zeros at the last."""
        return F.pad(x[:, 1:], (0, 0, 0, 1))

    def second_half(x):
        return torch.cat([so_far(x)[..., :4], (x + next_ones(x))[..., 4:]], -1)

    def one_pair(x):
        place = torch.arange(x.shape[1])[:, None]
        return x @ weights(0) + next_ones(x) @ weights(1) * (place == 5)

    def in_pairs(x):
        first = torch.arange(x.shape[1]) // 2 * 2
        second = (first + 1).clamp(max=x.shape[1] - 1)
        return (x[:, first] + x[:, second]) @ weights(0)

    def first_ones(x):
        mask = ones(x).tril()
        mask[:8, :8] = True
        return attention(x, mask)

    def strict(x):
        return scores_of(x).masked_fill(~ones(x).tril(-1), -1e9).softmax(-1) @ x

    def short_mask(x):
        mask = ones(x)
        mask[:16, :16] = mask[:16, :16].tril()
        return attention(x, mask)

    def weak(x):
        return (scores_of(x) - 6 * ones(x).triu(1)).softmax(-1) @ x

    def reflected(x):
        before = torch.cat([x[:, 1:2], x], 1)[:, : x.shape[1]]
        return x @ weights(0) + before @ weights(1)

    def in_windows(x):
        place = torch.arange(x.shape[1])
        window, last = place // 10, place // 10 == x.shape[1] // 10
        mask = (window[:, None] == window) & ones(x).tril()
        mask[last[:, None] & last] = True
        return attention(x, mask)

    def other_layers():
        """What each layer does, and the layer; the first seven are right."""
        return {
            "works through the positions in a loop and keeps their keys and values": by_hand,
            "subtracts the largest of all scores, so that its rounding depends on the future": shifted,
            "adds four times the sum of all positions and takes it off again, which rounds": there_and_back,
            "pads its convolution on the left": lambda x: convolved(x, 2, 0),
            "has three blocks with norms over the features": lambda x: blocks(x, [ones(x).tril()] * 3),
            "averages all positions so far": so_far,
            "looks at no other position": lambda x: (x @ weights(0)).relu() @ weights(1),
            "pads its convolution on both sides": lambda x: convolved(x, 1, 1),
            "pads its convolution by reflection, so that the first position sees the second": reflected,
            "has windows of ten positions and no mask in the short window at the end": in_windows,
            "normalises over the positions": over_time,
            "divides by the root mean square over all positions": by_size,
            "adds up the positions in pairs": in_pairs,
            "lets position 5 see position 6": one_pair,
            "sees one position ahead in its last four features": second_half,
            "adds a thousandth of the next position": lambda x: x + next_ones(x) / 1000,
            "lets the first eight positions see each other": first_ones,
            "lets the first position, which has no key, see all positions": strict,
            "has a mask for 16 positions only": short_mask,
            "subtracts only 6 from the future's scores": weak,
            "sees one position ahead between two norms over the features": lambda x: blocks(x, [ones(x).tril(1)]),
        }

    def on_others(keeps_the_past):
        """Ask about further layers."""
        return opinions(keeps_the_past, other_layers())

    test.hidden("layers that leak little, seldom, or not at all")
    names = list(other_layers())
    observe_scenario(on_others, keeps_the_past).tells_apart(names[:7], names[7:], noun="layer")
    ### END HIDDEN TESTS
