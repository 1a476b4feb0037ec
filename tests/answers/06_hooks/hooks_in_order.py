# corners: none

import torch
from torch import nn

RIGHT = {
    "x_grad": ["b.bwd", "w.grad", "w.acc", "a.bwd", "net.bwd", "x.grad"],
    "x_plain": ["net.bwd", "b.bwd", "a.bwd", "w.grad", "w.acc"],
}


# %% right: the weight's branch after a's
orders = RIGHT | {"x_grad": ["b.bwd", "a.bwd", "w.grad", "w.acc", "net.bwd", "x.grad"]}


# %% right: the weight's branch at the very end, and tuples
orders = {"x_grad": ("b.bwd", "a.bwd", "w.grad", "net.bwd", "x.grad", "w.acc"), "x_plain": tuple(RIGHT["x_plain"])}


# %% right: runs the net
def fired_for(x):
    net, fired = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), []

    def noting(name):
        return lambda *args: fired.append(name)

    for name, module in (("a", net[0]), ("b", net[1]), ("net", net)):
        module.register_full_backward_hook(noting(f"{name}.bwd"))
    net[0].weight.register_hook(noting("w.grad"))
    net[0].weight.register_post_accumulate_grad_hook(noting("w.acc"))
    if x.requires_grad:
        x.register_hook(noting("x.grad"))
    net(x).sum().backward()
    return fired


orders = {"x_grad": fired_for(torch.ones(1, 2, requires_grad=True)), "x_plain": fired_for(torch.ones(1, 2))}


# %% wrong: backward in forward order
# says: You let backward run in forward order.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"x_grad": ["w.grad", "w.acc", "a.bwd", "b.bwd", "net.bwd", "x.grad"]}


# %% wrong: net first, as if brackets were mirrored
# says: You closed the container before its layers.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"x_grad": ["net.bwd", "b.bwd", "w.grad", "w.acc", "a.bwd", "x.grad"]}


# %% wrong: post-accumulate before the tensor hook
# says: A tensor hook gets the gradient before it is added to .grad, and a post-accumulate hook runs afterwards.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"x_grad": ["b.bwd", "w.acc", "w.grad", "a.bwd", "net.bwd", "x.grad"]}


# %% wrong: the weight before the last layer
# says: The gradient of a.weight is computed from the gradient of a's output, which b passes back.
# earns: 0.5 of 1
orders = RIGHT | {"x_grad": ["w.grad", "w.acc", "b.bwd", "a.bwd", "net.bwd", "x.grad"]}


# %% wrong: x.grad before the container
# says: x gets what net passes back, so net.bwd sees that gradient, and may replace it, before x.grad does.
# earns: 0.5 of 1
orders = RIGHT | {"x_grad": ["b.bwd", "w.grad", "w.acc", "a.bwd", "x.grad", "net.bwd"]}


# %% wrong: a plain x as an x that requires grad
# says: For a plain x the order isn't the same without x.grad.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"x_plain": RIGHT["x_grad"][:-1]}


# %% wrong: x.grad fires for a plain x
# says: A plain x needs no gradient and has no hook, so x.grad doesn't fire.
# earns: 0.5 of 1
orders = RIGHT | {"x_plain": [*RIGHT["x_plain"], "x.grad"]}


# %% wrong: a plain x, the container between its layers
# says: net has no input gradient to wait for, so net.bwd fires when the gradient of net's output is known.
# earns: 0.5 of 1
orders = RIGHT | {"x_plain": ["b.bwd", "net.bwd", "a.bwd", "w.grad", "w.acc"]}


# %% wrong: a plain x, a before b
# says: a.bwd fires when the gradient of a's output is known. That is what b passes back, so b.bwd comes before a.bwd.
# earns: 0.5 of 1
orders = RIGHT | {"x_plain": ["net.bwd", "a.bwd", "b.bwd", "w.grad", "w.acc"]}


# %% wrong: a plain x, the weight before a
# says: a has no input gradient to wait for, so a.bwd fires when the gradient of a's output is known.
# earns: 0.5 of 1
orders = RIGHT | {"x_plain": ["net.bwd", "b.bwd", "w.grad", "w.acc", "a.bwd"]}


# %% wrong: a plain x, post-accumulate before the tensor hook
# says: A tensor hook gets the gradient before it is added to .grad, so w.grad comes before w.acc.
# earns: 0.5 of 1
orders = RIGHT | {"x_plain": ["net.bwd", "b.bwd", "a.bwd", "w.acc", "w.grad"]}


# %% wrong: x.grad is missing
# says: Your list lacks x.grad.
# earns: 0.5 of 1
orders = RIGHT | {"x_grad": RIGHT["x_grad"][:-1]}


# %% wrong: a name twice, and a name that is none
# says: None of the items is right yet.
# earns: 0 of 1
orders = {"x_grad": [*RIGHT["x_grad"], "w.acc"], "x_plain": ["net.forward", *RIGHT["x_plain"]]}


# %% wrong: a string
# says: Write a list of names, such as ['net.bwd', 'a.bwd'].
# earns: 0.5 of 1
orders = RIGHT | {"x_grad": ", ".join(RIGHT["x_grad"])}


# %% wrong: one list left open
# says: There is no order yet: write yours in place of the `...`.
# earns: 0.5 of 1
orders = RIGHT | {"x_plain": ...}


# %% wrong: two lists without names
# says: The answer must be a dict from item names to orders
# earns: 0 of 1
orders = [RIGHT["x_grad"], RIGHT["x_plain"]]
