# %% [markdown]
# ### Exercise 4.1 · Leaf or not, and who gets a gradient?
#
# predict · warm-up · 10 min · 1 point
#
# You can answer "Why is .grad None?" by reading code: was an operation recorded, and is the tensor marked? Read this
# program and answer twelve questions about it, without running it.
#
#     w = torch.ones(3, requires_grad=True)
#     x = torch.ones(3)
#     a = x * 2
#     b = w * 2
#     c = b.detach()
#     d = torch.ones(3, requires_grad=True).double()
#     e = w.to(torch.float32)
#     with torch.no_grad():
#         f = w * 2
#         g = torch.ones(3, requires_grad=True)
#     for _ in range(2):
#         (w * 2 * x).sum().backward()
#
# **Contract**
#
# - Replace each `...` with True or False, and that of `w_grad` with a list of numbers.
# - The check runs the program and compares; every right item earns a twelfth of the points. An item left open counts as
#   wrong, so guess if you don't know.
#
# <details><summary>Hint 1</summary>
#
# For each tensor ask two questions: did autograd record an operation that made it, and is it marked as requiring grad?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A tensor that doesn't require grad is a leaf, and so is a tensor that you marked yourself. The result of a recorded
# operation is not a leaf. A real change of dtype is a recorded operation; a `.to` that changes nothing is not.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `no_grad` affects the results of operations and leaves new marked tensors alone. `detach()` and `nn.Parameter` take
# the numbers without the history. backward *adds* to the `.grad` of leaves that require grad. An intermediate result
# keeps its gradient only if you asked for it, and section 4.3 says when you have to ask.
#
# </details>

# %% answer="predict-leaves"
### BEGIN SOLUTION
answers = {
    "a_leaf": True,  # a.is_leaf
    "b_leaf": False,  # b.is_leaf
    "c_leaf": True,  # c.is_leaf
    "d_leaf": False,  # d.is_leaf
    "e_leaf": True,  # e.is_leaf
    "f_req": False,  # f.requires_grad
    "g_req": True,  # g.requires_grad
    "w_fn": True,  # w.grad_fn is None
    "w_grad": [4.0, 4.0, 4.0],  # w.grad.tolist(), at the end
    "x_grad": True,  # x.grad is None, at the end
    "param": True,  # nn.Parameter(b).is_leaf
    "late": True,  # h = w * 2; h.sum().backward(); h.retain_grad(): is h.grad None?
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "a_leaf": ...,  # a.is_leaf
#     "b_leaf": ...,  # b.is_leaf
#     "c_leaf": ...,  # c.is_leaf
#     "d_leaf": ...,  # d.is_leaf
#     "e_leaf": ...,  # e.is_leaf
#     "f_req": ...,  # f.requires_grad
#     "g_req": ...,  # g.requires_grad
#     "w_fn": ...,  # w.grad_fn is None
#     "w_grad": ...,  # w.grad.tolist(), at the end
#     "x_grad": ...,  # x.grad is None, at the end
#     "param": ...,  # nn.Parameter(b).is_leaf
#     "late": ...,  # h = w * 2; h.sum().backward(); h.retain_grad(): is h.grad None?
# }
### END GIVEN

# %% check="predict-leaves" points=1
"""Each item against what the program really gives; every right item earns its share."""
with check("predict-leaves") as test:
    test("every item is compared with what the program gives")
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    a = x * 2
    b = w * 2
    c = b.detach()
    d = torch.ones(3, requires_grad=True).double()
    e = w.to(torch.float32)
    with torch.no_grad():
        f = w * 2
        g = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (w * 2 * x).sum().backward()
    gradient = w.grad.tolist()

    h = w * 2
    h.sum().backward()
    h.retain_grad()

    passes = "backward adds to .grad: two passes of [2, 2, 2] give [4, 4, 4]."
    test.points = observe_value(answers).predicts(
        {
            "a_leaf": prediction(
                a.is_leaf,
                because="a was computed, but from tensors that nobody tracks: everything with requires_grad=False "
                "counts as a leaf.",
            ),
            "b_leaf": prediction(
                b.is_leaf,
                because="b is the result of a recorded operation on w: it has a grad_fn and is not a leaf.",
            ),
            "c_leaf": prediction(
                c.is_leaf,
                because="detach() starts anew: no history, requires_grad=False, hence a leaf.",
            ),
            "d_leaf": prediction(
                d.is_leaf,
                because="A real dtype (or device) change is a recorded operation: d is not a leaf any more, its "
                ".grad will stay empty and an optimizer refuses it.",
            ),
            "e_leaf": prediction(
                e.is_leaf,
                because="float32 to float32 changes nothing: .to returns w itself, which is a leaf.",
            ),
            "f_req": prediction(
                f.requires_grad,
                because="Results computed under no_grad do not require grad.",
            ),
            "g_req": prediction(
                g.requires_grad,
                because="no_grad concerns results of operations; a tensor created with requires_grad=True inside "
                "keeps its flag.",
            ),
            "w_fn": prediction(
                w.grad_fn is None,
                because="A leaf has no grad_fn, requires_grad or not: nobody computed it.",
            ),
            "w_grad": prediction(
                gradient,
                ([2.0, 2.0, 2.0], passes),
                ([1.0, 1.0, 1.0], "The slope of w * 2 * x is 2 * x, that is 2. " + passes),
                (None, "w is a leaf that requires grad: backward fills its .grad. " + passes),
                because="Each pass adds the slope 2 * x = 2 for every element of w: a list of three numbers. " + passes,
            ),
            "x_grad": prediction(
                x.grad is None,
                because="x does not require grad: backward leaves its .grad at None.",
            ),
            "param": prediction(
                nn.Parameter(b).is_leaf,
                because="nn.Parameter takes the data only, not the history: the parameter is a fresh leaf.",
            ),
            "late": prediction(
                h.grad is None,
                because="h is an intermediate result: backward passed its gradient on and kept nothing. retain_grad() "
                "counts for the backward passes that come after it.",
            ),
        },
        points=1,
    )
test.points
