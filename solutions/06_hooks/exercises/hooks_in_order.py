# %% [markdown]
# ### Exercise 6.1 · Who fires when?
#
# order · warm-up · 8 min · 1 point
#
# Six hooks are registered on two layers, their container, a weight and the input, and each appends its name to a list
# when it fires:
#
#     net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
#     a, b = net
#
#     name      what is registered
#     net.bwd   net.register_full_backward_hook(...)
#     a.bwd     a.register_full_backward_hook(...)
#     b.bwd     b.register_full_backward_hook(...)
#     w.grad    a.weight.register_hook(...)
#     w.acc     a.weight.register_post_accumulate_grad_hook(...)
#     x.grad    if x.requires_grad: x.register_hook(...)
#
#     net(x).sum().backward()
#
# Put the names in the order in which the hooks fire. Do so before you run anything.
#
# **Contract**
#
# - `orders` is a dict with two lists of names. "x_grad" is the list for `x = torch.ones(1, 2, requires_grad=True)`,
#   "x_plain" that for `x = torch.ones(1, 2)`. Each list is worth half a point.
# - A name is in a list once if its hook fires, and otherwise not at all.
# - Where two branches of backward don't wait for each other, PyTorch promises no order, so any order of them is
#   accepted.
#
# <details><summary>Hint 1</summary>
#
# Which gradient is complete first: the one of the last layer's input, or the one of the whole net's input?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A full backward hook reports the gradient of the module's *input*, so it can only fire when that gradient exists, and
# a container shares its input with its first layer. If no input needs a gradient, the hook has nothing to wait for and
# fires as soon as the gradient of the module's *output* is known.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the first list: b passes back the gradient of its input, which is a's output. From there backward has two
# branches. One leads to a's weight, where the tensor hook comes before the accumulation. The other leads to a's input,
# which is also the net's input; there a's hook fires, then the net's, then x's own. For the second list: a and the net
# have no input gradient to wait for. The gradient of the net's output is the first of all gradients, and the gradient
# of a's output is what b passes back.
#
# </details>

# %% answer="hooks-in-order"
### BEGIN SOLUTION
orders = {
    "x_grad": ["b.bwd", "w.grad", "w.acc", "a.bwd", "net.bwd", "x.grad"],
    "x_plain": ["net.bwd", "b.bwd", "a.bwd", "w.grad", "w.acc"],
}
### END SOLUTION
### BEGIN GIVEN
# orders = {
#     "x_grad": ...,  # such as ["x.grad", "net.bwd"]
#     "x_plain": ...,
# }
### END GIVEN

# %% check="hooks-in-order" points=1
"""Each list is compared with a run of the net; every right list earns its share."""
with check("hooks-in-order") as test:
    hooks = {
        "net.bwd": "net.register_full_backward_hook(...)",
        "a.bwd": "a.register_full_backward_hook(...)",
        "b.bwd": "b.register_full_backward_hook(...)",
        "w.grad": "a.weight.register_hook(...)",
        "w.acc": "a.weight.register_post_accumulate_grad_hook(...)",
        "x.grad": "if x.requires_grad: x.register_hook(...)",
    }

    def firing_order(x):
        net, fired = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), []

        def noting(name):
            return lambda *args: fired.append(name)

        for name, module in (("a", net[0]), ("b", net[1]), ("net", net)):
            module.register_full_backward_hook(noting(f"{name}.bwd"))
        net[0].weight.register_hook(noting("w.grad"))
        net[0].weight.register_post_accumulate_grad_hook(noting("w.acc"))
        if x.requires_grad:
            x.register_hook(noting("x.grad"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns if no input of a and net requires grad
            net(x).sum().backward()
        return fired

    def waits(names):
        """What every order of firing keeps: the order of all hooks but the weight's, and what the weight's wait for."""
        place = names.index
        return [name for name in names if name[:2] != "w."], place("b.bwd") < place("w.grad") < place("w.acc")

    x_grad = firing_order(torch.ones(1, 2, requires_grad=True))
    x_plain = firing_order(torch.ones(1, 2))

    test("each list is compared with a run")
    test.points = observe_value(orders).orders(
        {
            "x_grad": ordering(
                hooks,
                lambda names: len(names) == len(x_grad) and waits(names) == waits(x_grad),
                {
                    "You let backward run in forward order. The chain rule needs the last layer's gradient first, so "
                    "b.bwd comes before a.bwd.": "a.bwd b.bwd",
                    "You closed the container before its layers. net.bwd reports the gradient of net's input, which is "
                    "a's input, so net.bwd can't fire before a.bwd.": "net.bwd a.bwd",
                    "A tensor hook gets the gradient before it is added to .grad, and a post-accumulate hook runs "
                    "afterwards. So w.grad comes before w.acc.": "w.acc w.grad",
                    "The gradient of a.weight is computed from the gradient of a's output, which b passes back. So "
                    "b.bwd comes before w.grad.": "w.grad b.bwd",
                    "x gets what net passes back, so net.bwd sees that gradient, and may replace it, before x.grad "
                    "does.": "x.grad net.bwd",
                },
            ),
            "x_plain": ordering(
                hooks,
                lambda names: names == x_plain,
                {
                    "A plain x needs no gradient and has no hook, so x.grad doesn't fire.": "x.grad",
                    "For a plain x the order isn't the same without x.grad. net and a have no input gradient to wait "
                    "for, so they fire once the gradient of their output is known, net.bwd "
                    "first.": "b.bwd a.bwd net.bwd",
                    "net has no input gradient to wait for, so net.bwd fires when the gradient of net's output is "
                    "known. b.bwd waits for the gradient of b's input, which comes later.": "b.bwd net.bwd",
                    "a.bwd fires when the gradient of a's output is known. That is what b passes back, so b.bwd comes "
                    "before a.bwd.": "a.bwd b.bwd",
                    "a has no input gradient to wait for, so a.bwd fires when the gradient of a's output is known. "
                    "The gradient of a.weight is computed from that, so w.grad comes later.": "w.grad a.bwd",
                    "A tensor hook gets the gradient before it is added to .grad, so w.grad comes before "
                    "w.acc.": "w.acc w.grad",
                },
            ),
        },
        points=1,
    )
test.points
