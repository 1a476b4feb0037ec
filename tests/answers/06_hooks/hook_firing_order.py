# corners: none

import warnings

import torch
from torch import nn

X_GRAD = ["net.pre", "a.fwd", "b.fwd", "net.fwd", "b.bwd", "w.grad", "w.acc", "a.bwd", "net.bwd", "x.grad"]
X_PLAIN = ["net.pre", "a.fwd", "b.fwd", "net.fwd", "net.bwd", "b.bwd", "a.bwd", "w.grad", "w.acc"]


# %% right: two lists
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = X_PLAIN


# %% right: tuples with stray blanks and capitals
ORDER_X_GRAD = tuple(f" {label.upper()} " for label in X_GRAD)
ORDER_X_PLAIN = tuple(label.replace(".", ". ").title() for label in X_PLAIN)


# %% right: strings with commas
ORDER_X_GRAD = "net.pre, a.fwd, b.fwd, net.fwd, b.bwd, w.grad, w.acc, a.bwd, net.bwd, x.grad"
ORDER_X_PLAIN = "net.pre,a.fwd,b.fwd,net.fwd,\n  net.bwd,b.bwd,a.bwd,w.grad,w.acc,"


# %% right: strings that hold several labels each
ORDER_X_GRAD = ["net.pre, a.fwd, b.fwd, net.fwd", "b.bwd, w.grad, w.acc, a.bwd", "net.bwd,x.grad"]
ORDER_X_PLAIN = (", ".join(X_PLAIN[:4]), ",".join(X_PLAIN[4:]))


# %% right: runs the net
def fired_for(x):
    net, fired = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), []

    def noting(label):
        return lambda *args: fired.append(label)

    net.register_forward_pre_hook(noting("net.pre"))
    for name, module in (("a", net[0]), ("b", net[1]), ("net", net)):
        module.register_forward_hook(noting(f"{name}.fwd"))
        module.register_full_backward_hook(noting(f"{name}.bwd"))
    net[0].weight.register_hook(noting("w.grad"))
    net[0].weight.register_post_accumulate_grad_hook(noting("w.acc"))
    if x.requires_grad:
        x.register_hook(noting("x.grad"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net(x).sum().backward()
    return fired


ORDER_X_GRAD = fired_for(torch.ones(1, 2, requires_grad=True))
ORDER_X_PLAIN = fired_for(torch.ones(1, 2))


# %% wrong: backward hooks listed a, b, net as in forward
# says: You let backward run in forward order
# earns: 1 of 2
# lesson
ORDER_X_GRAD = X_GRAD[:4] + ["w.grad", "w.acc", "a.bwd", "b.bwd", "net.bwd", "x.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% wrong: net.bwd first, as if brackets were mirrored
# says: You closed the container before its layers.
# earns: 1 of 2
# lesson
ORDER_X_GRAD = X_GRAD[:4] + ["net.bwd", "b.bwd", "w.grad", "w.acc", "a.bwd", "x.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% wrong: net.bwd after b, before a
# says: You closed the container before its layers.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD[:4] + ["b.bwd", "net.bwd", "w.grad", "w.acc", "a.bwd", "x.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% wrong: post-accumulate before the tensor hook
# says: A tensor hook sees the gradient BEFORE it is added to .grad
# earns: 1 of 2
# lesson
ORDER_X_GRAD = X_GRAD[:4] + ["b.bwd", "w.acc", "w.grad", "a.bwd", "net.bwd", "x.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% wrong: the weight before the last layer
# says: b.bwd comes before w.grad.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD[:4] + ["w.grad", "w.acc", "b.bwd", "a.bwd", "net.bwd", "x.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% wrong: x.grad before the container
# says: net.bwd sees that gradient (and may replace it) before x.grad does.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD[:8] + ["x.grad", "net.bwd"]
ORDER_X_PLAIN = X_PLAIN


# %% wrong: net.fwd before its layers
# says: net.fwd gets the output of the net, so it can only fire when b is done.
# earns: 0 of 2
ORDER_X_GRAD = ["net.pre", "net.fwd", "a.fwd", "b.fwd", *X_GRAD[4:]]
ORDER_X_PLAIN = ["net.pre", "net.fwd", "a.fwd", "b.fwd", *X_PLAIN[4:]]


# %% wrong: the pre-hook after the first layer
# says: net.pre fires before anything else
# earns: 0 of 2
ORDER_X_GRAD = ["a.fwd", "net.pre", *X_GRAD[2:]]
ORDER_X_PLAIN = ["a.fwd", "net.pre", *X_PLAIN[2:]]


# %% wrong: b before a in forward
# says: Forward runs through a first
# earns: 0 of 2
ORDER_X_GRAD = ["net.pre", "b.fwd", "a.fwd", *X_GRAD[3:]]
ORDER_X_PLAIN = ["net.pre", "b.fwd", "a.fwd", *X_PLAIN[3:]]


# %% wrong: backward of a layer right after its forward
# says: The forward pass is complete before backward begins
# earns: 0 of 2
ORDER_X_GRAD = ["net.pre", "a.fwd", "b.fwd", "b.bwd", "net.fwd", *X_GRAD[5:]]
ORDER_X_PLAIN = ["net.pre", "a.fwd", "b.fwd", "net.bwd", "net.fwd", *X_PLAIN[5:]]


# %% wrong: the plain x as the first list without x.grad
# says: Without requires_grad on x the order is not simply the same minus x.grad
# earns: 1 of 2
# lesson
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = X_GRAD[:-1]


# %% wrong: x.grad in the second list
# says: x.grad does not fire.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = [*X_PLAIN, "x.grad"]


# %% wrong: plain x, net.bwd between its layers
# says: The container has no input gradient to wait for
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = X_GRAD[:4] + ["b.bwd", "net.bwd", "a.bwd", "w.grad", "w.acc"]


# %% wrong: plain x, a before b
# says: b.bwd comes before a.bwd and before w.grad.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = X_GRAD[:4] + ["net.bwd", "a.bwd", "b.bwd", "w.grad", "w.acc"]


# %% wrong: plain x, the weight before a
# says: a.bwd comes before w.grad.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = X_GRAD[:4] + ["net.bwd", "b.bwd", "w.grad", "w.acc", "a.bwd"]


# %% wrong: plain x, post-accumulate before the tensor hook
# says: A tensor hook sees the gradient BEFORE
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD
ORDER_X_PLAIN = [*X_PLAIN[:7], "w.acc", "w.grad"]


# %% wrong: a label is missing
# says: Labels are missing: w.acc.
# earns: 0 of 2
ORDER_X_GRAD = [label for label in X_GRAD if label != "w.acc"]
ORDER_X_PLAIN = [label for label in X_PLAIN if label != "w.acc"]


# %% wrong: a label stands twice
# says: Your list contains a label twice, but each of the
# earns: 0 of 2
ORDER_X_GRAD = [*X_GRAD, "x.grad"]
ORDER_X_PLAIN = [*X_PLAIN, "w.acc"]


# %% wrong: made-up labels
# says: none of the ten labels: b.grad.
# says: none of the nine labels: b.grad.
# earns: 0 of 2
ORDER_X_GRAD = [*X_GRAD, "b.grad"]
ORDER_X_PLAIN = [*X_PLAIN, "b.grad"]


# %% wrong: no lists at all
# says: The answer must be a list of labels
# earns: 0 of 2
ORDER_X_GRAD = None
ORDER_X_PLAIN = [1, 2, 3]


# %% wrong: functions and empty lists
# says: The answer must be a list of labels
# says: Labels are missing: net.pre
# earns: 0 of 2
ORDER_X_GRAD = print
ORDER_X_PLAIN = []


# %% wrong: strings with arrows, and with blanks only
# says: In a string, put a comma between two labels.
# earns: 0 of 2
ORDER_X_GRAD = " -> ".join(X_GRAD)
ORDER_X_PLAIN = " ".join(X_PLAIN)


# %% wrong: the two lists swapped
# says: Labels are missing: x.grad.
# says: x.grad does not fire.
# earns: 0 of 2
ORDER_X_GRAD = X_PLAIN
ORDER_X_PLAIN = X_GRAD


# %% wrong: a set and a dict
# says: The answer must be a list of labels
# earns: 0 of 2
ORDER_X_GRAD = set(X_GRAD)
ORDER_X_PLAIN = dict(enumerate(X_PLAIN))


# %% wrong: one name is missing
# says: name 'ORDER_X_PLAIN' is not defined.
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD


# %% wrong: brackets mirrored for either x
# says: You closed the container before its layers.
# says: Without requires_grad on x the order is not simply the same
# earns: 0 of 2
ORDER_X_GRAD = X_GRAD[:4] + ["x.grad", "net.bwd", "b.bwd", "w.grad", "w.acc", "a.bwd"]
ORDER_X_PLAIN = X_GRAD[:-1]


# %% wrong: the weight between the layers
# says: which is what b hands back: b.bwd comes before w.grad.
# says: b.bwd comes before a.bwd and before w.grad.
# earns: 0 of 2
ORDER_X_GRAD = X_GRAD[:4] + ["w.grad", "b.bwd", "w.acc", "a.bwd", "net.bwd", "x.grad"]
ORDER_X_PLAIN = X_GRAD[:4] + ["net.bwd", "w.grad", "w.acc", "b.bwd", "a.bwd"]


# %% wrong: the weight's two hooks exchanged and apart
# says: A tensor hook sees the gradient BEFORE it is added to .grad
# earns: 1 of 2
ORDER_X_GRAD = X_GRAD[:4] + ["b.bwd", "w.acc", "a.bwd", "net.bwd", "x.grad", "w.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% right: the weight's branch after a's
ORDER_X_GRAD = X_GRAD[:4] + ["b.bwd", "a.bwd", "w.grad", "w.acc", "net.bwd", "x.grad"]
ORDER_X_PLAIN = X_PLAIN


# %% right: the weight's branch at the very end
ORDER_X_GRAD = X_GRAD[:4] + ["b.bwd", "a.bwd", "w.grad", "net.bwd", "x.grad", "w.acc"]
ORDER_X_PLAIN = X_PLAIN
