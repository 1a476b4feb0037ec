# %% [markdown]
# ### Exercise 4.7 · Writing through a view
#
# predict · solid · 10 min · 1 point
#
# A write to a part of a tensor can be refused, recorded, lost in a copy, or hidden from autograd. For each of ten
# writes, say what happens, without running it. Before every item these two lines run again:
#
#     w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
#     h = w * 2
#
# **Contract**
#
# - Replace each `...`: with True or False if the question is whether something raises; with a list of three numbers for
#   `w.grad` after `h.sum().backward()`; with the name of a node, as text, for `node`.
# - The check runs the lines and compares; every right item earns a tenth of the point. An item left open counts as
#   wrong, so guess if you don't know.
#
# <details><summary>Hint 1</summary>
#
# Whose memory does each line write to, and does autograd see it?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Ask three questions about each line: is the thing on the left a view or a copy? Does it belong to a leaf? Is the write
# recorded, or hidden by `detach` or `no_grad`?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A slice, an index and `view` give views; a list of indices gives a copy. `h[…] *= 5` reads, multiplies, and then
# *writes back* into h. A recorded write through a view gives h a new `grad_fn`, whose name is always the one that
# section 4.7 prints, whatever the write was. A hidden write changes the value and no slope.
#
# </details>

# %% answer="predict-view-writes"
### BEGIN SOLUTION
answers = {
    "leaf": True,  # w[1:] = 0.0: does it raise?
    "leaf_no_grad": False,  # the same under torch.no_grad(): does it raise?
    "scaled": [2.0, 8.0, 8.0],  # h[1:] *= 4; then w.grad
    "assigned": [0.0, 2.0, 2.0],  # h[0] = 7.0; then w.grad
    "copy": [2.0, 2.0, 2.0],  # h[[0, 1]].mul_(5); then w.grad
    "written_back": [10.0, 10.0, 2.0],  # h[[0, 1]] *= 5; then w.grad
    "detached": [2.0, 2.0, 2.0],  # h.detach()[0] = 7.0; then w.grad
    "node": "CopySlices",  # h.view(3, 1).add_(1); then type(h.grad_fn).__name__
    "unbind": True,  # a, b, c = h.unbind(); a.mul_(2): does it raise?
    "saved": True,  # h = w.exp(); h[0] *= 2; h.sum().backward(): does it raise?
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "leaf": ...,  # w[1:] = 0.0: does it raise?
#     "leaf_no_grad": ...,  # the same under torch.no_grad(): does it raise?
#     "scaled": ...,  # h[1:] *= 4; then w.grad
#     "assigned": ...,  # h[0] = 7.0; then w.grad
#     "copy": ...,  # h[[0, 1]].mul_(5); then w.grad
#     "written_back": ...,  # h[[0, 1]] *= 5; then w.grad
#     "detached": ...,  # h.detach()[0] = 7.0; then w.grad
#     "node": ...,  # h.view(3, 1).add_(1); then type(h.grad_fn).__name__
#     "unbind": ...,  # a, b, c = h.unbind(); a.mul_(2): does it raise?
#     "saved": ...,  # h = w.exp(); h[0] *= 2; h.sum().backward(): does it raise?
# }
### END GIVEN

# %% check="predict-view-writes" points=1
"""Each item against what the lines really do; every right item earns its share."""
with check("predict-view-writes") as test:
    test("every item is compared with what the lines do")

    def fresh():
        """The two lines that begin every item."""
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        return w, w * 2

    def raises(action):
        """Whether an action raises."""
        try:
            action()
            return False
        except RuntimeError:
            return True

    def gradient(write):
        """The gradient of w after a write to h."""
        w, h = fresh()
        write(h)
        h.sum().backward()
        return w.grad.tolist()

    def zero_a_part():
        w, _ = fresh()
        w[1:] = 0.0

    def zero_a_part_unrecorded():
        with torch.no_grad():
            zero_a_part()

    def scale(h):
        h[1:] *= 4

    def assign(h):
        h[0] = 7.0

    def scale_a_copy(h):
        h[[0, 1]].mul_(5)

    def write_back(h):
        h[[0, 1]] *= 5

    def write_detached(h):
        h.detach()[0] = 7.0

    def write_to_the_first_of_three():
        _, h = fresh()
        a, *_ = h.unbind()
        a.mul_(2)

    def double_what_is_kept():
        w, _ = fresh()
        h = w.exp()
        h[0] *= 2
        h.sum().backward()

    _, seen_through_a_view = fresh()
    seen_through_a_view.view(3, 1).add_(1)

    chain = "d/dw[1] is 2 * 4: w * 2 comes first, then the factor 4."
    test.points = observe_value(answers).predicts(
        {
            "leaf": prediction(
                raises(zero_a_part),
                because="w[1:] is a view of the leaf: a write to it is a write to the leaf, and is refused while "
                "autograd records.",
            ),
            "leaf_no_grad": prediction(
                raises(zero_a_part_unrecorded),
                because="Under no_grad you may write to a leaf, even through a view. Optimizers do that in every step.",
            ),
            "scaled": prediction(
                gradient(scale),
                (
                    [2.0, 2.0, 2.0],
                    "The write through the view is recorded in h: its history is rewritten (CopySlices). " + chain,
                ),
                ([2.0, 4.0, 4.0], "h[1] was 2 * w[1] before the write. " + chain),
                because="A slice is a view, and the write is recorded. " + chain,
            ),
            "assigned": prediction(
                gradient(assign),
                ([2.0, 2.0, 2.0], "h[0] is 7 now and no longer comes from w[0]: no gradient arrives there."),
                ([7.0, 2.0, 2.0], "7 is a constant, not a factor: h[0] no longer comes from w[0], so its slope is 0."),
                because="h[0] no longer comes from w[0], so its slope is 0; the others are as before.",
            ),
            "copy": prediction(
                gradient(scale_a_copy),
                (
                    [10.0, 10.0, 2.0],
                    "Indexing with a list gives a copy: mul_ changed the copy, and h is as it was.",
                ),
                because="Indexing with a list gives a copy: h is as it was, twice w.",
            ),
            "written_back": prediction(
                gradient(write_back),
                (
                    [2.0, 2.0, 2.0],
                    "h[…] *= 5 reads, multiplies and *writes back* (__setitem__): h changes, and autograd knows.",
                ),
                (
                    [5.0, 5.0, 2.0],
                    "h[0] was 2 * w[0] before the write: the slope is 2 * 5.",
                ),
                because="h[…] *= 5 writes the product back into h, recorded: the slopes of the two are 2 * 5.",
            ),
            "detached": prediction(
                gradient(write_detached),
                (
                    [0.0, 2.0, 2.0],
                    "The value of h changes, but autograd doesn't learn of it: the gradient is still that of w * 2.",
                ),
                because="Autograd doesn't learn of the write: the gradient is still that of w * 2.",
            ),
            "node": prediction(
                type(seen_through_a_view.grad_fn).__name__,
                (
                    "MulBackward0",
                    "The multiplication is no longer the last thing that happened to h: the write was recorded.",
                ),
                (
                    "AddBackward0",
                    "add_ was applied to a view of h. To h it looks like a changed slice that is copied into the old "
                    "h, which gives the node its name.",
                ),
                because="h is now the result of copying a changed slice into the old h, which gives the node its name.",
            ),
            "unbind": prediction(
                raises(write_to_the_first_of_three),
                because="unbind gives several views at once, as split does: writing to one of them is refused.",
            ),
            "saved": prediction(
                raises(double_what_is_kept),
                because="exp keeps its result for backward, and a write through a view is a new version of the whole.",
            ),
        },
        points=1,
    )
test.points
