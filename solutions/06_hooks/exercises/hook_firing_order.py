# %% [markdown]
# ### Exercise 6.1 · Who fires when?
#
# predict · warm-up · 8 min · 2 points
#
# Ten hooks are registered on two layers, their container, a weight and the input. Each hook appends a label to a list:
#
#     net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
#     a, b = net
#     net.register_forward_pre_hook(...)                  # "net.pre"
#     a, b and net: .register_forward_hook(...)           # "a.fwd", "b.fwd", "net.fwd"
#     a, b and net: .register_full_backward_hook(...)     # "a.bwd", "b.bwd", "net.bwd"
#     a.weight.register_hook(...)                         # "w.grad"
#     a.weight.register_post_accumulate_grad_hook(...)    # "w.acc"
#     x.register_hook(...)                                # "x.grad", only where x requires grad
#
#     net(x).sum().backward()
#
# In which order do the labels arrive? Write down both lists before you run anything.
#
# **Contract**
#
# - `ORDER_X_GRAD`: the ten labels in the order of firing, for `x = torch.ones(1, 2, requires_grad=True)`.
# - `ORDER_X_PLAIN`: the nine labels without `x.grad`, for `x = torch.ones(1, 2)`.
# - Where two branches of backward don't wait for each other, their order is an accident of this version of PyTorch. In
#   the first list, `w.grad` and `w.acc` may therefore be anywhere after `b.bwd`, in this order.
# - Each list is a list or tuple of strings, or one string with commas. Upper or lower case and spaces don't matter.
#   Each list is worth one point.
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

# %% answer="hook-firing-order"
### BEGIN SOLUTION
forward = ["net.pre", "a.fwd", "b.fwd", "net.fwd"]
ORDER_X_GRAD = [*forward, "b.bwd", "w.grad", "w.acc", "a.bwd", "net.bwd", "x.grad"]
ORDER_X_PLAIN = [*forward, "net.bwd", "b.bwd", "a.bwd", "w.grad", "w.acc"]
### END SOLUTION
### BEGIN GIVEN
# ORDER_X_GRAD = ...  # ten labels, the first is "net.pre"
# ORDER_X_PLAIN = ...  # nine labels
### END GIVEN


# %% helpers="hook-firing-order"
def labels_in(value):
    """The labels of a list, a tuple or a string; None for anything else."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(part, str) for part in parts):
        return None
    labels = ["".join(label.split()).lower() for label in ",".join(parts).split(",")]
    return [label for label in labels if label]


def out_of_order(first, second):
    """Whether an answer puts these two labels the wrong way round."""
    return lambda seen: labels_in(seen.value).index(first) > labels_in(seen.value).index(second)


# %% check="hook-firing-order" points=1
"""The first list, for an x that requires grad, against a run of the net."""
with check("hook-firing-order") as test:

    def firing_order(seed):
        """Run the net with all hooks on it, with an x that requires grad."""
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        x = torch.ones(1, 2, requires_grad=True)
        fired = []

        def noting(label):
            return lambda *args: fired.append(label)

        net.register_forward_pre_hook(noting("net.pre"))
        for name, module in (("a", net[0]), ("b", net[1]), ("net", net)):
            module.register_forward_hook(noting(f"{name}.fwd"))
            module.register_full_backward_hook(noting(f"{name}.bwd"))
        net[0].weight.register_hook(noting("w.grad"))
        net[0].weight.register_post_accumulate_grad_hook(noting("w.acc"))
        x.register_hook(noting("x.grad"))
        net(x).sum().backward()
        return fired

    def waits(order):
        """What the order of firing must keep: all labels but those of the weight, and what the weight's wait for."""
        chain = [label for label in order if not label.startswith("w.")]
        place = order.index
        return chain, place("b.bwd") < place("w.grad") < place("w.acc")

    known = [
        mistake(
            "net.pre fires before anything else: a pre-hook gets the input, and forward runs after it.",
            when=lambda seen: labels_in(seen.value)[0] != "net.pre",
        ),
        mistake("Forward runs through a first, then through b.", when=out_of_order("a.fwd", "b.fwd")),
        mistake(
            "net.fwd gets the output of the net, so it can only fire when b is done.",
            when=out_of_order("b.fwd", "net.fwd"),
        ),
        mistake(
            "The forward pass is complete before backward begins: the first four labels are its hooks.",
            when=lambda seen: labels_in(seen.value)[3] != "net.fwd",
        ),
        mistake(
            "You let backward run in forward order; the chain rule needs the last layer's gradient first, "
            "so b.bwd comes before a.bwd.",
            when=out_of_order("b.bwd", "a.bwd"),
        ),
        mistake(
            "You closed the container before its layers. net.bwd reports the gradient of net's input, "
            "which is a's input: it cannot be known before a is done.",
            when=out_of_order("a.bwd", "net.bwd"),
        ),
        mistake(
            "A tensor hook sees the gradient BEFORE it is added to .grad; the post-accumulate hook sees it after.",
            when=out_of_order("w.grad", "w.acc"),
        ),
        mistake(
            "a.weight's gradient is computed from the gradient of a's output, which is what b hands back: "
            "b.bwd comes before w.grad.",
            when=out_of_order("b.bwd", "w.grad"),
        ),
        mistake(
            "x gets what net hands back, so net.bwd sees that gradient (and may replace it) before x.grad does.",
            when=out_of_order("net.bwd", "x.grad"),
        ),
    ]

    test("the list is compared with a run")
    seen = observe_value(ORDER_X_GRAD)
    fired = firing_order(seed=0)
    came = labels_in(seen.value)
    seen.that(came is not None, "The answer must be a list of labels, such as ['net.pre', ...].", stage="type")
    odd = ", ".join(dict.fromkeys(label for label in came if label not in fired))
    seen.that(
        not odd,
        f"Your list contains something that is none of the ten labels: {odd}.",
        mistake("In a string, put a comma between two labels.", when=lambda seen: len(came) == 1),
    )
    missing = ", ".join(label for label in fired if label not in came)
    seen.that(not missing, f"Labels are missing: {missing}. Each of the ten hooks fires once.")
    seen.that(len(came) == len(fired), "Your list contains a label twice, but each of the ten hooks fires once.")
    seen.that(waits(came) == waits(fired), "The order is another one. Which hook waits for which gradient?", *known)

    ### BEGIN HIDDEN TESTS
    test.hidden("the order does not depend on the weights")
    for seed in (1, 2):
        seen.that(
            waits(came) == waits(firing_order(seed)),
            "The order is another one. Which hook waits for which gradient?",
            *known,
        )
    ### END HIDDEN TESTS

# %% check="hook-firing-order" points=1
"""The second list, for a plain x, against a run of the net."""
with check("hook-firing-order") as test:

    def firing_order(seed, x_requires_grad=False):
        """Run the net with all hooks on it."""
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        x = torch.ones(1, 2, requires_grad=x_requires_grad)
        fired = []

        def noting(label):
            return lambda *args: fired.append(label)

        net.register_forward_pre_hook(noting("net.pre"))
        for name, module in (("a", net[0]), ("b", net[1]), ("net", net)):
            module.register_forward_hook(noting(f"{name}.fwd"))
            module.register_full_backward_hook(noting(f"{name}.bwd"))
        net[0].weight.register_hook(noting("w.grad"))
        net[0].weight.register_post_accumulate_grad_hook(noting("w.acc"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that no input of a and net requires grad
            net(x).sum().backward()
        return fired

    known = [
        mistake(
            "net.pre fires before anything else: a pre-hook gets the input, and forward runs after it.",
            when=lambda seen: labels_in(seen.value)[0] != "net.pre",
        ),
        mistake("Forward runs through a first, then through b.", when=out_of_order("a.fwd", "b.fwd")),
        mistake(
            "net.fwd gets the output of the net, so it can only fire when b is done.",
            when=out_of_order("b.fwd", "net.fwd"),
        ),
        mistake(
            "The forward pass is complete before backward begins: the first four labels are its hooks.",
            when=lambda seen: labels_in(seen.value)[3] != "net.fwd",
        ),
        mistake(
            "A tensor hook sees the gradient BEFORE it is added to .grad; the post-accumulate hook sees it after.",
            when=out_of_order("w.grad", "w.acc"),
        ),
        mistake(
            "Without requires_grad on x the order is not simply the same minus x.grad: net and a have no input "
            "gradient to wait for, so they fire at their OUTPUT gradient - net.bwd first of all.",
            when=lambda seen: labels_in(seen.value) == firing_order(0, x_requires_grad=True),
        ),
        mistake(
            "The container has no input gradient to wait for, so net.bwd fires at the gradient of net's OUTPUT: "
            "before b.bwd, which waits for the gradient of b's input.",
            when=out_of_order("net.bwd", "b.bwd"),
        ),
        mistake(
            "The gradient of a's output is what b hands back: b.bwd comes before a.bwd and before w.grad.",
            when=lambda seen: out_of_order("b.bwd", "a.bwd")(seen) or out_of_order("b.bwd", "w.grad")(seen),
        ),
        mistake(
            "Layer a has no input gradient to wait for, so a.bwd fires at the gradient of a's OUTPUT, from which the "
            "gradient of a.weight is still to be computed: a.bwd comes before w.grad.",
            when=out_of_order("a.bwd", "w.grad"),
        ),
    ]

    test("the list is compared with a run")
    seen = observe_value(ORDER_X_PLAIN)
    fired = firing_order(seed=0)
    came = labels_in(seen.value)
    seen.that(came is not None, "The answer must be a list of labels, such as ['net.pre', ...].", stage="type")
    odd = ", ".join(dict.fromkeys(label for label in came if label not in fired))
    seen.that(
        not odd,
        f"Your list contains something that is none of the nine labels: {odd}.",
        mistake(
            "A plain x needs no gradient and has no hook: x.grad does not fire.", when=lambda seen: odd == "x.grad"
        ),
        mistake("In a string, put a comma between two labels.", when=lambda seen: len(came) == 1),
    )
    missing = ", ".join(label for label in fired if label not in came)
    seen.that(not missing, f"Labels are missing: {missing}. Each of the nine hooks fires once.")
    seen.that(len(came) == len(fired), "Your list contains a label twice, but each of the nine hooks fires once.")
    seen.that(came == fired, "The order is another one. Which hook waits for which gradient?", *known)

    ### BEGIN HIDDEN TESTS
    test.hidden("the order does not depend on the weights")
    for seed in (1, 2):
        seen.that(came == firing_order(seed), "The order is another one. Which hook waits for which gradient?", *known)
    ### END HIDDEN TESTS
