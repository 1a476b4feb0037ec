# %% [markdown]
# # Hooks
#
# A hook is a function of yours that PyTorch calls at a certain moment of a forward or backward pass. With hooks you
# look into a model, or change what flows through it, without touching its code. After this chapter you can
#
# - say which hook fires when and with which arguments, and predict the order for a nested model, with and without a
#   gradient on its input;
# - take features and gradients out of any model, and leave no hook behind when an exception flies;
# - change what flows forward or backward by returning a value, and say what is *not* changed by it;
# - use hooks as instruments: bytes kept for backward, gradient norms for each layer and each sample, an optimizer
#   step inside backward;
# - read old code with `register_backward_hook`, explain its strange triples, and port it.
#
# **45 minutes to read, 130 minutes to practise, 20 points.** You need chapter 4: leaves, `.grad`, what `backward`
# adds where, saved tensors; from chapter 2 what a view is, and from chapter 5 what a custom Function is. A module
# here is a layer or a model that you call.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import copy
import io
import pickle
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from torchkata.demos import error_of, every_warning, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.feature_maps import feature_maps
from torchkata.pictures.gradient_bars import gradient_bars
from torchkata.pictures.hook_timeline import hook_explorer
from torchkata.pictures.old_hook import old_and_full_hook
from torchkata.verdicts import (
    check,
    incoming_gradient,
    mistake,
    observe_scenario,
    observe_value,
)

# %% [markdown]
# ## 6.1 `model(x)` is more than `model.forward(x)`
#
# **Predict.** A forward hook notes each call. The layer is called twice, then its `forward` once; then the hook is
# removed and the layer is called again. How many calls are noted, before and after?

# %% facts=["06-call-runs-forward-and-hooks"]
layer = nn.Linear(2, 3)
x = torch.ones(1, 2)
noted = []

handle = layer.register_forward_hook(lambda module, args, output: noted.append(tuple(output.shape)))
layer(x)
layer(x)
layer.forward(x)
print("before remove:", noted)

handle.remove()
layer(x)
print("after remove: ", noted)

# %% [markdown]
# Two, and two. Calling a module runs its forward pre-hooks, then `forward`, then its forward hooks. Calling `forward`
# yourself runs `forward` and nothing else. This is why one writes `model(x)`.
#
# Every function that registers a hook returns a *handle*. A hook stays, for all later calls, until `handle.remove()`.
# Or let the handle open a block, `with layer.register_forward_hook(...):`, at whose end the hook is removed.

# %% [markdown]
# **Predict.** Hooks are registered in the order first, second, third, the third with `prepend=True`. In which order
# do they run? Does a deep copy of the layer have them? And a layer that loads the `state_dict`?

# %% facts=["06-call-runs-forward-and-hooks"]
layer = nn.Linear(2, 3)
order = []

layer.register_forward_hook(lambda module, args, output: order.append("first"))
layer.register_forward_hook(lambda module, args, output: order.append("second"))
layer.register_forward_hook(lambda module, args, output: order.append("third"), prepend=True)

layer(x)
print("the layer:         ", order)

order.clear()
copy.deepcopy(layer)(x)
print("a deep copy:       ", order)

order.clear()
print("the state_dict:    ", list(layer.state_dict()))
loaded = nn.Linear(2, 3)
loaded.load_state_dict(layer.state_dict())
loaded(x)
print("a layer with it:   ", order)

try:
    torch.save(layer, io.BytesIO())
except (AttributeError, pickle.PicklingError):
    print("the layer on disk:  refused, a lambda can't be pickled")

# %% [markdown]
# Hooks run in the order of registration; `prepend=True` puts one in front of those that are there. They belong to the
# module object, not to its state: a deep copy takes them along, a `state_dict` does not contain them. Saving the
# whole object tries to save the hooks too, and fails with a lambda: one more reason to save the `state_dict`.

# %% [markdown]
# ## 6.2 Who fires when
#
# Six kinds of hook can watch one training step:
#
# | on a module | your function is called as | when |
# |---|---|---|
# | `register_forward_pre_hook` | `hook(module, args)` | before `forward` |
# | `register_forward_hook` | `hook(module, args, output)` | after `forward` |
# | `register_full_backward_pre_hook` | `hook(module, grad_output)` | the gradient of the output is known |
# | `register_full_backward_hook` | `hook(module, grad_input, grad_output)` | the gradient of the input is known too |
# | **on a tensor** | | |
# | `register_hook` | `hook(grad)` | its gradient is known, `.grad` is not yet touched |
# | `register_post_accumulate_grad_hook` | `hook(tensor)` | its gradient has been added to `.grad` (leaves only) |
#
# **Predict.** `net` is a Sequential of `a` and `b`. In which order do the full backward hooks of `net`, `a` and `b`
# fire? Is the order the same when `x` does not require grad?


# %% facts=["06-backward-hooks-fire-in-reverse", "06-input-needs-requires-grad"] shows_warning="UserWarning"
def backward_order(x: Tensor) -> list[str]:
    """The names of the modules, in the order in which their full backward hooks fire."""
    a, b = nn.Linear(2, 3), nn.Linear(3, 1)
    net = nn.Sequential(a, b)
    order = []
    for name, module in {"net": net, "a": a, "b": b}.items():
        module.register_full_backward_hook(lambda *arguments, name=name: order.append(name))
    net(x).sum().backward()
    return order


print("x requires grad:", backward_order(torch.ones(1, 2, requires_grad=True)))

with every_warning() as caught:
    print("a plain x:      ", backward_order(torch.ones(1, 2)))
for warning in caught:
    print(f"{warning.category.__name__}: {str(warning.message).partition(' See ')[0]}")

# %% [markdown]
# Backward visits the modules in reverse: `b`, then `a`. A full backward hook reports the gradient of its module's
# *input*, so it can't fire before that is known. The input of `net` is the input of `a`: `net` comes last.
#
# With a plain `x` nobody computes that gradient. A module none of whose inputs requires grad has nothing to wait for:
# its hook fires as soon as the gradient of its *output* is known, with None for the input, and PyTorch warns. That is
# so for `net`, whose output comes first in backward, and for `a`. The page `torch.nn.Module` states the rule under
# `register_full_backward_hook`.

# %% [markdown]
# The explorer runs such a step with all six kinds and draws what was called, as it was called: forward from left to
# right, below it backward from right to left. A bar joins the two hooks that open and close a module.
#
# It opens with a nested net: `block` holds `a` and `b`, and `net` holds `block` and `c`. In forward, `net` opens
# first and closes last. In backward, the tensor hook of a weight fires before the post-accumulate hook of the same
# weight, and here both before the hook that closes the layer. Then switch off *x requires grad* and see where `net`,
# `block` and `a` close now. Choose *one layer used twice* and count the hooks of its weight. Switch on *no_grad*.
# *next event* says what each hook is given. Leave *two layers* for later: the exercise below asks you for its order.

# %% facts=["06-backward-hooks-fire-in-reverse"]
hook_explorer()

# %% [markdown]
# A layer that is used twice has its module hooks called twice, but its weight is one tensor with one gradient, the
# sum of both uses: its hooks fire once. Under `no_grad` there is no graph, hence no backward hook of any kind.
#
# Some of this is a rule: what a hook waits for must be there. The rest is the order in which this version of PyTorch
# works through branches that don't wait for one another. Switch off both kinds of full backward hook: now the hooks
# of `x` fire before those of `a.weight`. Don't build on the order of two branches.

# %% [markdown]
# ### Exercise 6.1 · Who fires when?
#
# predict · warm-up · 8 min · 2 points
#
# Ten hooks hang on two layers, their container, a weight and the input. Each hook appends a label to a list:
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
# In which order do the labels arrive? Write both lists down before you run anything.
#
# **Contract**
#
# - `ORDER_X_GRAD`: the ten labels in the order of firing, for `x = torch.ones(1, 2, requires_grad=True)`.
# - `ORDER_X_PLAIN`: the nine labels without `x.grad`, for `x = torch.ones(1, 2)`.
# - A list or tuple of strings, or one string with commas; capitals and blanks don't matter. Each list is worth one
#   point.
#
# <details><summary>Hint 1</summary>
#
# Which gradient is complete first: the one of the last layer's input, or the one of the whole net's input?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A full backward hook reports the gradient of the module's *input*, so it can only fire when that exists; a container
# shares its input with its first layer. And where no input needs a gradient, the hook has nothing to wait for: it fires
# as soon as the gradient of the module's *output* is known.
#
# </details>

# %% answer="hook-firing-order"
### BEGIN SOLUTION
ORDER_X_GRAD = ["net.pre", "a.fwd", "b.fwd", "net.fwd", "b.bwd", "w.grad", "w.acc", "a.bwd", "net.bwd", "x.grad"]
ORDER_X_PLAIN = ["net.pre", "a.fwd", "b.fwd", "net.fwd", "net.bwd", "b.bwd", "a.bwd", "w.grad", "w.acc"]
### END SOLUTION
### BEGIN GIVEN
# ORDER_X_GRAD = ...  # ten labels, the first is "net.pre"
# ORDER_X_PLAIN = ...  # nine labels
### END GIVEN

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
            "a.weight's gradient is ready before the gradient of a's input is handed on: "
            "w.grad and w.acc come before a.bwd here.",
            when=lambda seen: out_of_order("w.grad", "a.bwd")(seen) or out_of_order("w.acc", "a.bwd")(seen),
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
        f"The list holds something that is none of the ten labels: {odd}.",
        mistake("In a string, a comma must stand between two labels.", when=lambda seen: len(came) == 1),
    )
    missing = ", ".join(label for label in fired if label not in came)
    seen.that(not missing, f"Labels are missing: {missing}. Each of the ten hooks fires once.")
    seen.that(len(came) == len(fired), "A label stands twice in the list. Each of the ten hooks fires once.")
    seen.that(came == fired, "The order is another one. Which hook waits for which gradient?", *known)

    ### BEGIN HIDDEN TESTS
    test.hidden("the order does not depend on the weights")
    for seed in (1, 2):
        seen.that(came == firing_order(seed), "The order is another one. Which hook waits for which gradient?", *known)
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
        f"The list holds something that is none of the nine labels: {odd}.",
        mistake(
            "A plain x needs no gradient and has no hook: x.grad does not fire.", when=lambda seen: odd == "x.grad"
        ),
        mistake("In a string, a comma must stand between two labels.", when=lambda seen: len(came) == 1),
    )
    missing = ", ".join(label for label in fired if label not in came)
    seen.that(not missing, f"Labels are missing: {missing}. Each of the nine hooks fires once.")
    seen.that(len(came) == len(fired), "A label stands twice in the list. Each of the nine hooks fires once.")
    seen.that(came == fired, "The order is another one. Which hook waits for which gradient?", *known)

    ### BEGIN HIDDEN TESTS
    test.hidden("the order does not depend on the weights")
    for seed in (1, 2):
        seen.that(came == firing_order(seed), "The order is another one. Which hook waits for which gradient?", *known)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.3 What a forward hook sees and may change
#
# **Predict.** A forward hook returns ten times the output. Is the return value ignored? What are `y`, `x.grad` and
# `weight.grad`?

# %% facts=["06-forward-hook-no-return-value"]
layer = nn.Linear(2, 1, bias=False)
nn.init.ones_(layer.weight)
layer.register_forward_hook(lambda module, args, output: output * 10)

x = torch.tensor([[1.0, 2.0]], requires_grad=True)
y = layer(x)
y.backward()
print("y:          ", y.tolist())
print("x.grad:     ", x.grad.tolist())
print("weight.grad:", layer.weight.grad.tolist())

# %% [markdown]
# Whatever a forward hook returns, other than None, replaces the output of the module. Autograd records the
# multiplication like any other, so the factor is in every gradient. A hook that only looks must return None. A lambda
# always returns the value of its expression: `append` and `print` give None, other calls may not.

# %% [markdown]
# **Predict.** And the input? A forward hook writes zeros into it, after `forward` has run. Which of the three outputs
# below are zero?


# %% facts=["06-forward-hook-input-change-harmless", "06-forward-hook-cannot-change-input"]
def zero_the_input(module, args, output):
    args[0].zero_()


linear = nn.Linear(2, 1, bias=False)
nn.init.ones_(linear.weight)

for module in (linear, nn.Identity(), nn.Flatten()):
    with module.register_forward_hook(zero_the_input):
        print(f"{type(module).__name__:9}", module(torch.ones(1, 2)).tolist())

linear.register_forward_pre_hook(lambda module, args: (args[0] * 10,))
print("ten times the input, by a pre-hook:", linear(torch.ones(1, 2)).tolist())

# %% [markdown]
# The output of `Linear` is computed and has memory of its own. `Identity` returns its input and `Flatten` a view of
# it (chapter 2): there the output changes as well. So a forward hook comes too late to change what `forward` reads,
# and writing into its arguments is not harmless either. The hook for changing an input is the forward *pre*-hook:
# what it returns takes the place of the arguments.

# %% [markdown]
# **Predict.** `args` is a tuple. What is in it after `layer(input=x)`?

# %% facts=["06-forward-hook-input-is-x-only"]
layer = nn.Linear(2, 2)


def look(module, args, output):
    print("  plain:      ", [tuple(value.shape) for value in args])


def look_at_all(module, args, kwargs, output):
    shapes = {name: tuple(value.shape) for name, value in kwargs.items()}
    print("  with_kwargs:", [tuple(value.shape) for value in args], shapes)


layer.register_forward_hook(look)
layer.register_forward_hook(look_at_all, with_kwargs=True)

x = torch.ones(1, 2)
print("layer(x)")
layer(x)
print("layer(input=x)")
_ = layer(input=x)

# %% [markdown]
# Nothing: `args` holds the *positional* arguments. A hook that is to see keyword arguments is registered with
# `with_kwargs=True` and takes one argument more. Parameters are in neither: they belong to the module, which is the
# first argument.

# %% [markdown]
# ## 6.4 Collecting features
#
# A forward hook is the usual way to keep the outputs of inner layers, their *features*. The short loop for it holds two
# mistakes.
#
# **Predict.** The net has five modules besides itself, one of them a Sequential with two layers inside. How many keys
# does `features` have after one forward pass, in the first loop and in the second?


# %% facts=["06-forward-hook-gets-feature-maps", "06-hook-every-module-via-named-children"]
def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), nn.Linear(4, 1))


net, features = small_net(), {}
for name, module in net.named_children():
    module.register_forward_hook(lambda module, args, output: features.update({name: output}))  # noqa: B023
net(torch.ones(3, 2))
print("first loop: ", {name: tuple(output.shape) for name, output in features.items()})

net, features = small_net(), {}
for name, module in net.named_children():
    module.register_forward_hook(lambda module, args, output, name=name: features.update({name: output}))
net(torch.ones(3, 2))
print("second loop:", {name: tuple(output.shape) for name, output in features.items()})

print("all modules:", [name for name, module in net.named_modules()])

# %% [markdown]
# One key, then three. In the first loop each lambda looks up `name` when it *runs*, and by then the loop is over: all
# hooks write under the last name. (The linter ruff knows this mistake as B023; the comment `noqa` silences it.) As a
# default argument, `name=name` keeps the value that the name has when the hook is defined.
#
# The second mistake is left: `named_children` goes one level deep, so the two layers inside "1" have no hook.
# `named_modules` goes all the way down, with dotted names; its first entry, with the empty name, is the net itself.

# %% [markdown]
# **Predict.** The output of a Linear layer is kept twice, as `output.detach()` and as `output.detach().clone()`. The
# next layer is an in-place ReLU. Are the two the same after the forward pass?

# %% facts=["06-forward-hook-gets-feature-maps"]
net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(inplace=True))
with torch.no_grad():
    net[0].weight.copy_(torch.tensor([[2.0], [-1.0], [3.0], [-4.0]]))
    net[0].bias.zero_()

kept = {}


def keep(module, args, output):
    kept["output"] = output
    kept["detached"] = output.detach()
    kept["cloned"] = output.detach().clone()


net[0].register_forward_hook(keep)
net(torch.ones(1, 1))
for name, feature in kept.items():
    print(f"{name:9} requires grad: {feature.requires_grad!s:6}{feature.tolist()}")

# %% [markdown]
# `detach` cuts the feature from the graph, so that a list of features doesn't keep whole graphs alive. It doesn't
# copy: the memory is that of the output, and the ReLU wrote into it. Only the clone still has the negative values. If
# a later layer may work in place, store `output.detach().clone()`.

# %% [markdown]
# **Predict.** Below, `forward` raises in the middle of the net. Is the hook of the `with` gone afterwards? And which
# of the two other hooks has run?


# %%
class Strict(nn.Module):
    def forward(self, x):
        if x.shape[0] > 1:
            raise ValueError("one sample at a time")
        return x


net = nn.Sequential(nn.Linear(2, 2), Strict())
net.register_forward_hook(lambda module, args, output: print("usual hook"))
net.register_forward_hook(lambda module, args, output: print("always_call:", output), always_call=True)


def run_with_a_hook():
    with net[0].register_forward_hook(lambda module, args, output: print("hook of the with")):
        net(torch.ones(3, 2))


error_of(run_with_a_hook)
print("and once more:")
error_of(lambda: net(torch.ones(3, 2)))

# %% [markdown]
# The hook of the `with` is removed at the end of the block, however the block ends. For many handles take
# `contextlib.ExitStack`, or remove them in a `finally`. When `forward` raises, forward hooks are skipped, except
# those that were registered with `always_call=True`; they get None as output. Such a hook can clean up or report; it
# can't catch the exception.

# %% [markdown]
# **Predict.** What does a convolution see in an image? Three filters, set by hand, look for a step from dark to
# bright: to the right, downwards, and to the left. The image is a bright frame around a dark square. Where are the
# features positive?

# %% facts=["06-forward-hook-gets-feature-maps"]
net = nn.Sequential(nn.Conv2d(1, 3, kernel_size=2, bias=False), nn.ReLU())
with torch.no_grad():
    right = torch.tensor([[-1.0, 1.0], [-1.0, 1.0]])
    net[0].weight.copy_(torch.stack([right, right.T, -right]).unsqueeze(1))

image = torch.ones(1, 1, 7, 7)
image[..., 2:5, 2:5] = 0

features = {"image": image[0]}


def keep(module, args, output):
    features[type(module).__name__] = output[0].detach().clone()


with net[0].register_forward_hook(keep), net[1].register_forward_hook(keep):
    net(image)
feature_maps(features)

# %% [markdown]
# Each map is positive where its step is: the first at the right edge of the dark square, the second at its lower edge,
# the third at its left edge. Before the ReLU the opposite edge is there too, with a minus. After the `with` the net has
# no hook.

# %% [markdown]
# ### Exercise 6.2 · Capture features and leave no trace
#
# implement · warm-up · 15 min · 3 points
#
# What does the third layer of somebody else's model see in your data? Take the outputs of any layers out of one forward
# pass, without touching the model's code, and leave the model as you found it.
#
# **Contract**
#
# - Runs `model(*args, **kwargs)` once and returns its output, untouched and still attached to its graph, and a dict of
#   features. Its keys are exactly the given names.
# - `features[name]` lists the outputs of the submodule with that dotted name (`""` is the model itself), one entry for
#   each call of the submodule, in the order of the calls; no call, no entry. The outputs asked for are tensors.
# - Every feature is a detached copy of its own: what happens in place later does not change it.
# - Afterwards the model has exactly the hooks and the training mode that it had before, also when its forward raises;
#   the exception passes through.
# - An unknown name raises `KeyError` with that name, before anything runs and without leaving a hook.
#
# **Rule.** The model's own code, its state, hooks that are not yours and torch's grad mode stay as they are.
#
# <details><summary>Hint 1</summary>
#
# What does the loop variable hold by the time the hook runs? And who owns the memory of a layer's output once an
# in-place ReLU has passed over it?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Look all names up first. Bind the name when you define each hook (a default argument or a small factory); store a
# detached *clone*; keep the handles and remove them in a `finally`.
#
# </details>


# %% answer="capture-features"
def capture_features(
    model: nn.Module, names: Sequence[str], *args: Any, **kwargs: Any
) -> tuple[Any, dict[str, list[Tensor]]]:
    """The model's output for these arguments, and the outputs of the named submodules, one for each call."""
    ### BEGIN SOLUTION
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = {name: modules[name] for name in names}  # raises KeyError for an unknown name
    features: dict[str, list[Tensor]] = {name: [] for name in names}

    def storing(kept: list[Tensor]) -> Callable:
        def hook(module: nn.Module, args: tuple, output: Tensor) -> None:
            kept.append(output.detach().clone())

        return hook

    handles = []
    try:
        for name, module in chosen.items():
            handles.append(module.register_forward_hook(storing(features[name])))
        return model(*args, **kwargs), features
    finally:
        for handle in handles:
            handle.remove()
    ### END SOLUTION


# %% check="capture-features" points=2
"""Output and features are right; the features are detached copies, one for each call of a layer."""
with check("capture-features") as test:

    def small_net():
        """body.0, body.1, body.2, head and last, one after the other."""
        torch.manual_seed(3)
        net = nn.Sequential()
        net.add_module("body", nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)))
        net.add_module("head", nn.Linear(4, 2))
        net.add_module("last", nn.Tanh())
        return net

    def features_of(capture, names, x):
        """Capture features of the small net."""
        return capture(small_net(), names, x)

    def filled(seen):
        """The names under which something arrived."""
        return [name for name, entries in seen.value[1].items() if not isinstance(entries, list) or entries]

    def all_under_one_name(seen):
        """Whether the hooks share a name that they can't all have."""
        (name,) = filled(seen)
        return name != "head" or len(seen.value[1][name]) > 1

    children_only = (
        "Only direct children are found; 'body.0' lives deeper. "
        "Look the names up in named_modules() or with get_submodule()."
    )
    pair = "Return the model's output and the dict of features, in this order."
    still_attached = (
        "The stored feature still requires grad, so it keeps the whole graph alive. "
        "Detach it (but not the output you return)."
    )
    known = [
        mistake(children_only, raises=r"(Key|Attribute)Error.*body\.0"),
        mistake(pair, when=lambda seen: not isinstance(seen.value, tuple) or len(seen.value) != 2),
        mistake(pair, when=lambda seen: isinstance(seen.value[0], dict) and isinstance(seen.value[1], Tensor)),
        mistake(
            "Every name has a list, with one entry for each call; you stored the tensor itself.",
            when=lambda seen: isinstance(next(iter(seen.value[1].values())), Tensor),
        ),
        mistake(
            "Every feature landed under one name: the hook looked up the loop variable when it ran, "
            "not when you registered it. Bind it with a default argument.",
            when=all_under_one_name,
        ),
        mistake(children_only, when=lambda seen: filled(seen) == ["head"]),
        mistake(
            "The features are there, but the output is missing: return what the model returned.",
            when=lambda seen: seen.value[0] is None,
        ),
        mistake(
            "The keys of the dict must be exactly the names that were asked for; {detail}.",
            stage="shape",
            when=lambda seen: set(seen.value[1]) != {"head", "body.0", "body.2"},
        ),
    ]

    test("three layers of a nested model, asked for in another order")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    net = small_net()
    body_0 = net.body[0](x)
    body_2 = net.body[2](net.body[1](body_0))
    head = net.head(body_2)
    seen = observe_scenario(features_of, capture_features, ["head", "body.0", "body.2"], x).expecting(*known)
    seen.returns(
        (net.last(head), {"head": [head], "body.0": [body_0], "body.2": [body_2]}),
        mistake(
            "Those are the layers' inputs; a feature is what a layer gives out.",
            when=lambda seen: isinstance(seen.value[1], dict) and torch.allclose(seen.value[1]["head"][0], body_2),
        ),
    )

    test("the features are detached")
    attached = any(entry.requires_grad for entries in seen.value[1].values() for entry in entries)
    seen.that(not attached, still_attached, stage="gradient")

    def trained_by(capture, x):
        """Capture features, then run a backward pass from the returned output."""
        net = small_net()
        output = capture(net, ["body.0", "head"], x)[0]
        grad_mode = torch.is_grad_enabled()
        tracked = isinstance(output, Tensor) and output.requires_grad
        if tracked:
            with torch.enable_grad():
                output.square().sum().backward()
        gradients = {name: p.grad for name, p in net.named_parameters()}
        return {"tracked": tracked, "gradients": gradients, "grad mode": grad_mode}

    test("the returned output still trains the model")
    seen = observe_scenario(trained_by, capture_features, x)
    seen.that(
        seen["tracked"],
        "The returned output has lost its graph, so it can't train the model: detach the stored features only, "
        "return nothing from the hook, and leave the grad mode as it is.",
        stage="gradient",
    )
    net = small_net()
    net(x).square().sum().backward()
    for name, parameter in net.named_parameters():
        came = seen["gradients"][name]
        seen.that(
            isinstance(came, Tensor) and torch.allclose(came, parameter.grad),
            f"A backward pass from the returned output gives another gradient for {name} than without your hooks.",
            mistake(
                "The returned output does not train this model: no gradient reaches its parameters. Run the model "
                "itself, not a copy.",
                when=lambda seen: all(came is None for came in seen["gradients"].values()),
            ),
            stage="gradient",
        )
    seen.that(seen["grad mode"], "After the call the grad mode is off: leave it as it is.", stage="rule")

    ### BEGIN HIDDEN TESTS
    test.hidden("the model itself, under the name ''")
    seen = observe_scenario(features_of, capture_features, ["", "body.1", "body"], x)
    seen.returns(
        (net(x), {"": [net(x)], "body.1": [torch.tanh(body_0)], "body": [body_2]}),
        mistake(
            "Hooks on the model itself did not fire: you called model.forward(...), which skips them. Call model(...).",
            when=lambda seen: filled(seen) == ["body.1", "body"],
        ),
        mistake("The name '' is the model itself and no other module.", when=lambda seen: len(seen.value[1][""]) > 1),
        mistake("The name '' is the model itself; here it raised: {detail}", raises="."),
    )
    seen.that(not seen.value[1][""][0].requires_grad, still_attached, stage="gradient")

    def before_in_place(capture, x):
        """The layer after the captured ones works in place; then the returned output is changed in place."""
        torch.manual_seed(4)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2), nn.Identity())
        returned = capture(net, ["0", "2", "3", ""], x)
        with torch.no_grad():
            returned[0].fill_(7.0)
        return returned[1]

    test.hidden("what works in place later does not change a feature")
    torch.manual_seed(4)
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    before, after = first(x), second(first(x).relu())
    seen = observe_scenario(before_in_place, capture_features, x)
    seen.returns(
        {"0": [before], "2": [after], "3": [after], "": [after]},
        mistake(
            "The captured tensor changed after you stored it: the next layer works in place and detach() shares "
            "memory. Clone it.",
            when=lambda seen: torch.equal(seen.value["0"][0], before.relu()),
        ),
        mistake(
            "A feature changed when the returned output was changed in place: every feature needs memory of its own.",
            when=lambda seen: any((entries[0] == 7).all() for entries in seen.value.values()),
        ),
    )

    class Again(nn.Module):
        """Uses one layer three times, another one not at all."""

        def __init__(self):
            super().__init__()
            self.cell, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, start, *, steps=1, shift=0.0):
            state = start + shift
            for _ in range(steps):
                state = self.cell(state)
            return {"state": state, "steps": steps}

    def repeated(capture, start):
        """One layer, several calls; keyword arguments; a dict as output."""
        torch.manual_seed(5)
        return capture(Again().double(), ("cell", "idle"), start, steps=3, shift=0.5)

    test.hidden("a layer called three times gives three entries; one that is not called gives none")
    torch.manual_seed(5)
    start, again = torch.tensor([[0.25, -1.5]], dtype=torch.float64), Again().double()
    one = again.cell(start + 0.5)
    two = again.cell(one)
    three = again.cell(two)
    seen = observe_scenario(repeated, capture_features, start)
    seen.returns(
        ({"state": three, "steps": 3}, {"cell": [one, two, three], "idle": []}),
        mistake(
            "A layer used twice must give two entries; a plain assignment keeps only the last.",
            when=lambda seen: len(seen.value[1]["cell"]) == 1,
        ),
        mistake(
            "A layer that was not called has an empty list: its name is a key of the dict all the same.",
            when=lambda seen: "idle" not in seen.value[1],
        ),
        mistake("The arguments of the call must all reach the model, those given by keyword too.", raises="TypeError"),
    )
    seen.that(seen.value[0]["state"].requires_grad, "The returned output has lost its graph.", stage="gradient")

    def two_towers():
        """left and right, each with layers 0 and 1; a norm in training mode."""
        torch.manual_seed(6)
        net = nn.Sequential()
        net.add_module("left", nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
        net.add_module("right", nn.Sequential(nn.Linear(4, 2), nn.Tanh()))
        return net

    def in_training(capture, x):
        """Features of the two towers."""
        return capture(two_towers(), ["left.1", "right.1"], x)

    test.hidden("a model in training mode, with layers of the same name in two containers")
    net = two_towers()
    left = net.left(x)
    frozen = two_towers().eval()
    seen = observe_scenario(in_training, capture_features, x)
    seen.returns(
        (net.right(left), {"left.1": [left], "right.1": [net.right(left)]}),
        mistake(
            "The model was in training mode and must run in it; a norm or a dropout gives other values in eval mode.",
            when=lambda seen: torch.allclose(seen.value[0], frozen(x)),
        ),
        mistake(
            "Layers 'left.1' and 'right.1' are two: a dotted name must be found as a whole.",
            when=lambda seen: any(len(entries) > 1 for entries in seen.value[1].values()),
        ),
    )
    ### END HIDDEN TESTS

# %% check="capture-features" points=1
"""No hook stays and none is lost, also after an error; an unknown name is refused at once."""
with check("capture-features") as test:

    def small_net():
        """body.0, body.1, body.2 and head, one after the other."""
        net = nn.Sequential()
        net.add_module("body", nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)))
        net.add_module("head", nn.Linear(4, 2))
        return net

    def hooks_on(model):
        """Every hook of the model's modules, and those that torch calls for all modules, with their places."""
        places = [(name or "the model", vars(module)) for name, module in model.named_modules()]
        places.append(("all modules", vars(nn.modules.module)))
        return [
            (f"{kind} of {place}", key, hook)
            for place, attributes in places
            for kind, hooks in attributes.items()
            if kind.endswith("_hooks") and isinstance(hooks, dict)
            for key, hook in hooks.items()
        ]

    def changed_hooks(model, before):
        """The places of hooks that came, and of hooks that went."""
        after = hooks_on(model)
        came = [place for place, key, hook in after if (place, key, hook) not in before]
        return {"came": came, "went": [place for place, key, hook in before if (place, key, hook) not in after]}

    def condition_of(model):
        """What must stay as it is, apart from hooks."""
        return {
            "the training modes": [module.training for module in model.modules()],
            "the gradients": [parameter.grad is None for parameter in model.parameters()],
            "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
            "the parameters": [parameter.tolist() for parameter in model.parameters()],
            "the attributes": [sorted(vars(module)) for module in model.modules()],
        }

    def with_hooks_of_others(capture, x):
        """Capture features of a model on which somebody else has hooks; two of them count calls."""
        net, calls = small_net(), []
        net.body[1].eval()
        net.body[0].register_forward_hook(lambda *args: calls.append("body.0"))
        net.body[2].register_forward_pre_hook(lambda *args: calls.append("body.2"))
        net.head.register_full_backward_hook(lambda *args: None)
        before, condition = hooks_on(net), condition_of(net)
        returned = capture(net, ["body.0", "head"], x)
        changed = [what for what, was in condition.items() if condition_of(net)[what] != was]
        features = returned[1] if isinstance(returned, tuple) and len(returned) == 2 else None
        features = features if isinstance(features, dict) else {}
        entries = [len(entry) for entry in features.values() if isinstance(entry, list)]
        return {"hooks": changed_hooks(net, before), "calls": calls, "entries": entries, "changed": changed}

    def judge_hooks(seen, sentence="{places}"):
        """Judge that the hooks are those that were there before."""
        came, went = seen["hooks"]["came"], seen["hooks"]["went"]
        seen.that(
            not went,
            "Someone else's hook disappeared: remove your own handles only, never clear the dictionary "
            f"({', '.join(went)}).",
            stage="rule",
        )
        seen.that(not came, sentence.replace("{places}", ", ".join(dict.fromkeys(came))), stage="rule")

    test("no hook is left, and the hooks of others survive")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    seen = observe_scenario(with_hooks_of_others, capture_features, x)
    judge_hooks(
        seen,
        "Hooks are still registered after the call; the next forward would go on collecting. Remove the handles "
        "({places}).",
    )
    seen.that(
        seen["calls"] == ["body.0", "body.2"],
        "The model must run once, and the hooks of others fire in it as usual.",
        stage="rule",
    )
    seen.that(seen["entries"] == [1, 1], "Two layers were asked for, and they were not both captured, once each.")

    ### BEGIN HIDDEN TESTS
    test.hidden("training modes, parameters and gradients of the model stay")
    changed = ", ".join(seen["changed"])
    seen.that(not changed, f"Something of the model was changed: {changed}.", stage="arguments")

    class Broken(nn.Module):
        """A layer that raises."""

        def forward(self, x):
            raise ArithmeticError("this layer is broken")

    def forward_raises(capture, x):
        """Capture features of a model whose forward raises."""
        net, raised = small_net(), "nothing"
        net.add_module("broken", Broken())
        net.head.register_forward_hook(lambda *args: None)
        before = hooks_on(net)
        try:
            capture(net, ["", "body.0", "head", "broken"], x)
        except Exception as error:
            raised = type(error).__name__
        return {"raised": raised, "hooks": changed_hooks(net, before)}

    test.hidden("a forward that raises: no hook is left, the exception passes through")
    seen = observe_scenario(forward_raises, capture_features, x)
    judge_hooks(seen, "When forward raised, your hooks stayed. Removal belongs into `finally`.")
    seen.that(
        seen["raised"] == "ArithmeticError",
        "The model's own exception must reach the caller; it was swallowed or replaced by another one.",
        stage="raised",
    )

    def unknown_name(capture, names, x):
        """Ask for a name that does not exist."""
        net, runs, raised = small_net(), [], ["nothing", ""]
        net.body[0].register_forward_pre_hook(lambda *args: runs.append(1))
        before = hooks_on(net)
        try:
            capture(net, names, x)
        except Exception as error:
            raised = [type(error).__name__, str(error)]
        return {"raised": raised, "runs": len(runs), "hooks": changed_hooks(net, before)}

    refused = (
        "An unknown name must raise KeyError with that name before anything runs; "
        "otherwise a typo gives an empty result."
    )
    too_late = "The unknown name was refused, but hooks for the other names stayed: look all names up first."
    for idea, names, unknown in [
        ("an unknown name after known ones", ["body.0", "head", "haed"], "haed"),
        ("an unknown name before known ones", ["body.7", "head"], "body.7"),
        ("the name of a parameter", ["head.weight"], "head.weight"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(unknown_name, capture_features, names, x)
        raised, message = seen["raised"]
        seen.that(raised != "nothing", refused, stage="raised")
        seen.that(raised == "KeyError", f"An unknown name must raise KeyError; it raised {raised}.", stage="raised")
        seen.that(seen["runs"] == 0, "The model ran before the unknown name was refused: look all names up first.")
        judge_hooks(seen, too_late)
        seen.that(unknown in message, "The KeyError must name the unknown name.", stage="raised")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.5 Full backward hooks
#
# **Predict.** A full backward hook gets two tuples. For `nn.Linear(2, 3)` and a batch of four: how many entries does
# each have, and with which shapes? Is the gradient of the weight among them?

# %% facts=["06-full-backward-hook-signature", "06-backward-hooks-fire-in-reverse"]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
reports = {}


def report(module, grad_input, grad_output, name):
    reports[name] = (grad_input, grad_output)
    print(f"{name} {type(module).__name__:7}", "grad_input", [tuple(g.shape) for g in grad_input], end="  ")
    print("grad_output", [tuple(g.shape) for g in grad_output])


for name, module in net.named_children():
    module.register_full_backward_hook(partial(report, name=name))

x = torch.randn(4, 2, requires_grad=True)
net(x).sum().backward()

print("grad_input of 2 is grad_output of 1:", torch.equal(reports["2"][0][0], reports["1"][1][0]))
print("grad_input of 0 is x.grad:          ", torch.equal(reports["0"][0][0], x.grad))

# %% [markdown]
# One entry each: `grad_input` has one for each positional input of `forward`, `grad_output` one for each output. Both
# are tuples even then. Gradients of parameters are in neither; they are read from `weight.grad`. What one layer hands
# back as `grad_input` is what the layer before it gets as `grad_output`.

# %% [markdown]
# **Predict.** A full backward hook returns `(grad_input[0] * 5,)`, a full backward *pre*-hook `(grad_output[0] *
# 5,)`. Which of `x.grad` and `weight.grad` is five times larger, with the one and with the other?


# %% facts=["06-full-hook-replaces-grad-input"]
def gradients(hook=None, register: str = "register_full_backward_hook", batch: int = 1) -> str:
    layer = nn.Linear(2, 1, bias=False)
    nn.init.ones_(layer.weight)
    if hook is not None:
        getattr(layer, register)(hook)
    x = torch.ones(batch, 2, requires_grad=True)
    layer(x).sum().backward()
    return f"x.grad {x.grad.tolist()}  weight.grad {layer.weight.grad.tolist()}"


def times_five(module, grad_input, grad_output):
    return (grad_input[0] * 5,)


def times_five_before(module, grad_output):
    return (grad_output[0] * 5,)


print("no hook: ", gradients())
print("hook:    ", gradients(times_five))
print("pre-hook:", gradients(times_five_before, "register_full_backward_pre_hook"))

# %% [markdown]
# What the hook returns replaces what flows *further back*. The layer's own weight gradient comes from `grad_output`
# and stays as it is. The pre-hook replaces `grad_output` itself, on the way in, so it changes both.

# %% [markdown]
# **Predict.** Three hooks that are wrong, the first tried with two sizes of batch. Which of them raise?


# %% facts=["06-full-hook-replaces-grad-input", "06-hook-must-not-modify-arguments"]
def bare_tensor(module, grad_input, grad_output):
    return grad_input[0] * 5


def one_too_many(module, grad_input, grad_output):
    return (grad_input[0], grad_output[0])


def in_place(module, grad_input, grad_output):
    grad_input[0].zero_()


print("bare tensor, batch of 4:")
error_of(lambda: gradients(bare_tensor, batch=4))
print("bare tensor, batch of 1:")
error_of(lambda: gradients(bare_tensor, batch=1))
print("one entry too many:")
error_of(lambda: gradients(one_too_many))
print("changed in place:")
print(gradients(in_place))

# %% [markdown]
# All but the last, and that is worse. A bare tensor is taken for the tuple and cut along its first dimension: four
# rows are four entries, and with a batch of one the single row has lost a dimension. Return a tuple with one entry
# for each positional input. Writing into `grad_input` is forbidden but not noticed: the zeros simply flow on.

# %% [markdown]
# **Predict.** `forward` takes a tensor that requires grad, a number, and a tensor that does not. What stands in
# `grad_input` for each? And if the last two are passed by keyword?


# %% facts=["06-full-hook-non-tensor-none"]
class ScaleAndShift(nn.Module):
    def forward(self, x, factor, shift):
        return x * factor + shift


module = ScaleAndShift()
module.register_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input))

x, shift = torch.ones(2, requires_grad=True), torch.ones(2)
module(x, 3, shift).sum().backward()
module(x, factor=3, shift=shift).sum().backward()

# %% [markdown]
# None for what is no tensor. A tensor without `requires_grad` shows as zeros, as long as another input requires grad.
# Keyword arguments have no entry at all.
#
# And if *no* input requires grad, which is the usual state of the first layer of a net? That was the plain `x` of
# section 6.2: the entry is None.
#
# **Predict.** This hook reverses the gradient. It works on inner layers. What happens on a first layer?


# %% facts=["06-input-needs-requires-grad"]
def negate(module, grad_input, grad_output):
    return (-grad_input[0],)


def negate_safely(module, grad_input, grad_output):
    return tuple(None if grad is None else -grad for grad in grad_input)


def first_layer_with(hook) -> None:
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(hook)
    with every_warning():
        layer(torch.ones(1, 2)).sum().backward()
    print("weight.grad:", layer.weight.grad.tolist())


error_of(lambda: first_layer_with(negate))
first_layer_with(negate_safely)

# %% [markdown]
# The parameters get their gradients in any case; only the input has none. A hook that computes with `grad_input` lets
# None pass. Or switch on `x.requires_grad_()`, if the gradient of the data is what you want to see.

# %% [markdown]
# **Predict.** A hook that does nothing at all sits on a Linear layer. After the layer stands an in-place ReLU. Does
# the net still run?

# %%
for inplace in (False, True):
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=inplace))
    print(f"ReLU(inplace={inplace}), no hook:", tuple(net(torch.ones(1, 2)).shape))

net[0].register_full_backward_hook(lambda module, grad_input, grad_output: None)
error_of(lambda: net(torch.ones(1, 2)))

# %% [markdown]
# No. To notice when a gradient passes, PyTorch puts a node of its own, `BackwardHookFunction`, on the inputs and the
# outputs of a module with full backward hooks. What the next layer gets is a view of what `forward` returned, and
# writing into that view is refused. Switch off `inplace` where you want such a hook.

# %% [markdown]
# ### Exercise 6.3 · Two error messages from one backward hook
#
# debug · solid · 12 min · 2 points
#
# A lower learning rate for everything before a certain layer can be had by a hook that shrinks the gradient which the
# layer hands back. This attempt raises, and with another layer or another batch it raises something else. Repair it.
#
# **Contract**
#
# - While the handle lives, the gradient that the module hands back to its positional tensor inputs is multiplied by
#   `factor`. The module's outputs, the gradients of its own parameters, and what reaches the same tensors by another
#   path are unchanged.
# - It works for one or several inputs. Inputs that need no gradient, and inputs that are no tensors, are left in peace.
# - No gradient is changed in place.
# - The handle is returned; after `handle.remove()` nothing is scaled any more.
#
# <details><summary>Hint 1</summary>
#
# What is grad_input: a tensor or a tuple? How many entries must a replacement have, and what stands in the place of an
# input that has no gradient?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Return a tuple as long as grad_input: a new scaled tensor where there is one, None where there is None.
#
# </details>


# %% answer="scale-input-grads"
def scale_input_grads(module: nn.Module, factor: float) -> RemovableHandle:
    """Multiply the gradient that the module hands back to its inputs by factor, until the handle is removed."""
    ### BEGIN SOLUTION

    def hook(module: nn.Module, grad_input: tuple, grad_output: tuple) -> tuple:
        return tuple(None if grad is None else factor * grad for grad in grad_input)

    return module.register_full_backward_hook(hook)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    #
    # def hook(module, grad_input, grad_output):
    #     return factor * grad_input[0]
    #
    # return module.register_full_backward_hook(hook)
    #
    # # On a Linear in the middle of a net, with a batch of 4:
    # # RuntimeError: Backward hook returned an invalid number of grad_input, got 4, but expected 1
    # # The same with a batch of 1:
    # # RuntimeError: hook 'hook' has changed the size of value
    # # On the first Linear of a net, with data that needs no gradient:
    # # TypeError: unsupported operand type(s) for *: 'float' and 'NoneType'
    ### END GIVEN


# %% check="scale-input-grads" points=2
"""What flows back to the inputs is scaled, and nothing else; no error for any kind of input."""
with check("scale-input-grads") as test:

    def two_layers():
        """Two Linear layers with fixed weights."""
        net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
        with torch.no_grad():
            for shift, parameter in enumerate(net.parameters()):
                numbers = torch.arange(parameter.numel()) * 7 % 5 + shift / 4 - 1.5
                parameter.copy_(numbers.reshape(parameter.shape))
        return net

    def gradients_of(net, x):
        """The output of the net, and all gradients of the sum of its squares."""
        out = net(x)
        out.square().sum().backward()
        grads = {name: parameter.grad for name, parameter in net.named_parameters()}
        return {"output": out.detach(), "x": x.grad} | grads

    def hooked(scale, layer, x):
        """Run the net with a hook on one of its layers."""
        net = two_layers()
        scale(net[layer], 3.0)
        return gradients_of(net, x)

    def same(came, expected):
        """Whether two gradients agree; None agrees with None only."""
        if came is None or expected is None:
            return came is expected
        same_kind = came.shape == expected.shape and came.dtype == expected.dtype
        return same_kind and torch.allclose(came, expected, rtol=1e-4, atol=1e-5)

    dropped_none = (
        "You left out the None entries, so the tuple got shorter than the list of inputs. Keep one entry per input."
    )
    known = [
        mistake(
            "You returned a bare tensor: the hook machinery takes it apart along its first dimension. "
            "Return a tuple, one entry per positional input.",
            raises="invalid number of grad_input, got 4, but expected 1",
        ),
        mistake(
            "What the hook returned has another shape than the gradient that it is to replace: scale grad_input, "
            "not grad_output.",
            raises="has changed the size of value",
        ),
        mistake(
            "An input that needs no gradient appears as None; multiplying None is the TypeError you saw. "
            "Pass it through.",
            raises="NoneType",
        ),
        mistake(
            'A list is refused here ("should always return None or None for all gradients"): return a tuple, '
            "with None where there is no gradient.",
            raises="should always return None or None for all gradients",
        ),
        mistake(dropped_none, raises="invalid number of grad_input"),
        mistake(
            "A tensor hook can't be hung on a tensor that needs no gradient: such an input must simply pass.",
            raises="cannot register a hook on a tensor that doesn't require gradient",
        ),
        mistake(
            "After your function the grad mode is off, so there is no backward pass: leave it as it is.",
            raises="element 0 of tensors does not require grad",
        ),
        mistake(
            "You registered the old, non-full hook. Its grad_input lists the inputs of the last autograd node, "
            "not those of the module.",
            when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
        ),
    ]

    def judge(seen, facts, plain, larger):
        """Judge what a run with the hook gave: the named gradients three times as large, the others unchanged."""
        seen.that(same(facts["output"], plain["output"]), "The output of the module must stay as it is.")
        for name in [name for name in plain if name not in larger]:
            seen.that(
                same(facts[name], plain[name]),
                f"The gradient of {name} must not change: the hook is to scale what the module hands back to its "
                "inputs, nothing else.",
                *known,
                mistake(
                    "The module's own weight gradient was scaled as well: you changed grad_output (on the way in), "
                    "not grad_input (on the way out).",
                    when=lambda seen, name=name: same(facts[name], 3 * plain[name]),
                ),
                stage="gradient",
            )
        for name in larger:
            seen.that(
                same(facts[name], 3 * plain[name]),
                f"The gradient of {name} must be factor times what it is without the hook.",
                mistake(
                    f"The gradient of {name} is what it is without the hook: what a hook returns replaces grad_input, "
                    "and None replaces nothing.",
                    when=lambda seen, name=name: same(facts[name], plain[name]),
                ),
                mistake(
                    f"No gradient reaches {name} any more: the inputs must not be detached on their way into the "
                    "module.",
                    when=lambda seen, name=name: facts[name] is None,
                ),
                *known,
                stage="gradient",
            )

    for idea, x in [
        ("a Linear in the middle, a batch of 4", torch.tensor([[0.5, -1.0], [2.0, 1.5], [-0.25, 3.0], [1.0, 0.75]])),
        ("a Linear in the middle, a batch of 1", torch.tensor([[0.5, -1.0]])),
    ]:
        test(idea)
        plain = gradients_of(two_layers(), x.clone().requires_grad_())
        seen = observe_scenario(hooked, scale_input_grads, 1, x.clone().requires_grad_()).expecting(*known)
        judge(seen, seen.value, plain, larger=["x", "0.weight", "0.bias"])

    test("the first layer, with data that needs no gradient")
    seen = observe_scenario(hooked, scale_input_grads, 0, x).expecting(*known)
    judge(seen, seen.value, gradients_of(two_layers(), x), larger=[])

    def then_removed(scale, x):
        """Run the net twice with the hook and again after its removal."""
        net = two_layers()
        handle = scale(net[1], 3.0)
        if not callable(getattr(handle, "remove", None)):
            return {"handle": type(handle).__name__}
        runs = []
        for run in range(3):
            x.grad = None
            net.zero_grad()
            if run == 2:
                handle.remove()
            runs.append(gradients_of(net, x))
        return {"handle": None, "runs": runs}

    test("after handle.remove() nothing is scaled")
    seen = observe_scenario(then_removed, scale_input_grads, x.clone().requires_grad_())
    seen.that(
        seen["handle"] is None,
        "Nothing usable was returned: give back the handle so that the caller can remove the hook.",
        stage="type",
    )
    first, second, later = seen["runs"]
    judge(seen, first, plain, larger=["x", "0.weight", "0.bias"])
    again = all(same(second[name], first[name]) for name in plain)
    seen.that(again, "The second pass must be scaled like the first: the hook stays until remove().", stage="gradient")
    still = [name for name in plain if not same(later[name], plain[name])]
    seen.that(not still, "After handle.remove() gradients are still scaled.", stage="gradient")

    ### BEGIN HIDDEN TESTS
    def scaled(x, factor):
        """The values of x; the gradient is multiplied by factor."""
        return factor * x + (1 - factor) * x.detach()

    class Mixed(nn.Module):
        """Two tensors and a number between them."""

        def forward(self, a, power, b):
            return a.pow(power) * (b + 0.5 * a)

    def several_inputs(scale, a, b):
        """Gradients of both inputs."""
        module = Mixed()
        scale(module, 3.0)
        out = module(a, 2, b)
        out.sum().backward()
        return {"output": out.detach(), "a": a.grad, "b": b.grad}

    first_only = "Only the first input's gradient was scaled; grad_input has one entry for each positional input."
    a, b = torch.tensor([1.5, -2.0, 0.5]), torch.tensor([2.0, 0.75, -3.0])
    for idea, needs_a, needs_b in [
        ("two inputs and a number between them", True, True),
        ("the second input needs no gradient", True, False),
        ("the first input needs no gradient", False, True),
    ]:
        test.hidden(idea)
        inputs = [a.clone().requires_grad_(needs_a), b.clone().requires_grad_(needs_b)]
        seen = observe_scenario(several_inputs, scale_input_grads, *inputs).expecting(
            mistake(dropped_none, raises="invalid number of grad_input"), *known
        )
        out = Mixed()(scaled(inputs[0], 3), 2, scaled(inputs[1], 3))
        out.sum().backward()
        seen.that(torch.allclose(seen["output"], out), "The output of the module must stay as it is.")
        unscaled = [
            tensor.grad is None or same(seen[name], tensor.grad / 3) for name, tensor in zip("ab", inputs, strict=True)
        ]
        seen.that(
            not all(unscaled),
            "Nothing was scaled, because one entry is None. Let that one pass, and scale the others.",
            stage="gradient",
        )
        half = needs_a and needs_b and same(seen["a"], inputs[0].grad) and same(seen["b"], inputs[1].grad / 3)
        seen.that(not half, first_only, stage="gradient")
        for name, tensor in zip("ab", inputs, strict=True):
            seen.that(
                same(seen[name], tensor.grad), f"The gradient of an input is wrong where {idea}.", stage="gradient"
            )

    def around(scale, x):
        """x goes through the module and past it."""
        layer = two_layers()[0]
        scale(layer, 3.0)
        h = 2 * x
        (layer(h).square().sum() + h.pow(3).sum() + x.square().sum()).backward()
        return {"x": x.grad, "weight": layer.weight.grad}

    test.hidden("x is used once through the module and once around it")
    x = torch.tensor([[0.5, -1.0], [2.0, 1.5]], requires_grad=True)
    seen = observe_scenario(around, scale_input_grads, x).expecting(*known)
    (through,) = torch.autograd.grad(two_layers()[0](2 * x).square().sum(), x)
    (beside,) = torch.autograd.grad((2 * x).pow(3).sum() + x.square().sum(), x)
    seen.that(
        same(seen["x"], 3 * through + beside),
        "The gradient of x must be factor times the part through the module, plus the part around it.",
        mistake(
            "A gradient that reaches x around the module was scaled too: hook the module, not the input tensor.",
            when=lambda seen: not same(seen["x"], through + beside),
        ),
        stage="gradient",
    )

    in_place = (
        "You changed grad_input in place. That memory may be shared with another input or with an expanded gradient; "
        "return new tensors."
    )

    class Plus(nn.Module):
        """Hands the same gradient tensor to both inputs."""

        def forward(self, a, b):
            return a + b

    class AsItIs(nn.Module):
        """Hands back the very gradient that came in."""

        def forward(self, x):
            return x.view_as(x)

    class Total(nn.Module):
        """Hands back a gradient whose entries share one cell."""

        def forward(self, x):
            return x.sum()

    def shared_gradients(scale, a, b):
        """Three modules whose gradients share memory with others."""
        plus, as_it_is, total = Plus(), AsItIs(), Total()
        for module in (plus, as_it_is, total):
            scale(module, 3.0)
        grads = torch.autograd.grad(plus(a, b), [a, b], torch.tensor([1.0, 10.0, 100.0]))
        beside = 2 * b
        incoming = torch.tensor([1.0, 10.0, 100.0])
        past = torch.autograd.grad(as_it_is(a) + beside, [a, b], incoming)
        return {"plus": grads, "as it is": past, "incoming": incoming, "total": torch.autograd.grad(total(a), a)}

    test.hidden("gradients that share their memory with others")
    seen = observe_scenario(shared_gradients, scale_input_grads, a.clone().requires_grad_(), b.clone().requires_grad_())
    seen.expecting(mistake(in_place, raises="single memory location"), *known)
    ones = torch.tensor([1.0, 10.0, 100.0])
    found = [*seen["plus"], *seen["as it is"], seen["incoming"], *seen["total"]]
    expected = [3 * ones, 3 * ones, 3 * ones, 2 * ones, ones, torch.full((3,), 3.0)]
    seen.that(
        all(map(same, found, expected)),
        "Where an addition, a view or a sum hands its gradient on, what arrives at the inputs is wrong.",
        mistake(first_only, when=lambda seen: same(found[1], ones)),
        mistake(in_place, when=lambda seen: same(found[0], 9 * ones) or same(found[3], 6 * ones)),
        mistake(in_place, when=lambda seen: same(found[4], 3 * ones)),
        stage="gradient",
    )

    def square_layer():
        """A Linear in float64."""
        layer = nn.Linear(2, 2, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 3.0]]))
        return layer

    def repeated(scale, x):
        """The module is used three times in a row, then once more under no_grad; the factor is negative."""
        layer = square_layer()
        scale(layer, -0.5)
        layer(layer(layer(x))).square().sum().backward()
        with torch.no_grad():
            again = layer(x)
        return {"x": x.grad, "weight": layer.weight.grad, "again": again}

    test.hidden("a module used three times; float64; a negative factor; no_grad")
    x = torch.tensor([[0.5, -1.0], [2.0, 1.5]], dtype=torch.float64, requires_grad=True)
    seen = observe_scenario(repeated, scale_input_grads, x).expecting(*known)
    layer = square_layer()
    layer(scaled(layer(scaled(layer(scaled(x, -0.5)), -0.5)), -0.5)).square().sum().backward()
    seen.that(same(seen["x"], x.grad), "Each use of the module scales once, by any factor.", stage="gradient")
    seen.that(same(seen["weight"], layer.weight.grad), "The module's own gradient is wrong.", stage="gradient")
    seen.that(seen["x"].dtype == x.dtype, "The dtype of the gradient must stay as it is.", stage="dtype")
    seen.that(same(seen["again"], layer(x)) and not seen["again"].requires_grad, "Under no_grad nothing may change.")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.6 The old backward hook and the folklore it left
#
# Before the full backward hook there was `register_backward_hook`. It still exists, and old code and old advice are
# full of it: "grad_input holds bias, input and weight", "the weight gradient is transposed", "it only works for
# simple layers", "x must be a matrix".
#
# **Predict.** For `nn.Linear(3, 4)` and a batch of five: which shapes does the full hook report as `grad_input`? What
# could the three entries of the old hook be?


# %% facts=["06-register-backward-hook", "06-linear-grad-input-triple", "06-backward-hook-simple-modules-only"]
def grad_input_shapes(layer: nn.Module, x: Tensor, register: str) -> list:
    shapes = []

    def hook(module, grad_input, grad_output):
        shapes.extend(None if grad is None else tuple(grad.shape) for grad in grad_input)

    handle = getattr(layer, register)(hook)
    with every_warning():
        layer(x.clone().requires_grad_()).sum().backward()
    handle.remove()
    return shapes


cases = {
    "Linear(3, 4), batch of 5": (lambda: nn.Linear(3, 4), torch.ones(5, 3)),
    "Linear(3, 4), one vector": (lambda: nn.Linear(3, 4), torch.ones(3)),
    "Conv2d(2, 3, 3)": (lambda: nn.Conv2d(2, 3, 3), torch.ones(4, 2, 5, 5)),
    "Linear, Linear": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), torch.ones(5, 3)),
}
for name, (build, x) in cases.items():
    print(f"{name:25} input {tuple(x.shape)}")
    print("   full hook:", *grad_input_shapes(build(), x, "register_full_backward_hook"))
    print("   old hook: ", *grad_input_shapes(build(), x, "register_backward_hook"))

# %% [markdown]
# The full hook reports one gradient, with the shape of the input, in every row. The old hook sits on the *last
# autograd node* that the module recorded and reports that node's inputs. What the last node is depends on how the
# layer happens to be computed:

# %% facts=["06-register-backward-hook", "06-linear-grad-input-triple", "06-input-must-be-2d"]
old_and_full_hook(3, 4, batch=5)

# %% [markdown]
# For a matrix the last node of `Linear` adds the bias to a product of `x` and `weight.t()`. Its inputs are the bias,
# `x` and the *transposed* weight: that is the triple, and the transpose, of the folklore. For a single vector the
# last node is a reshape, and its one input is the result of that sum, with a batch of one. For the Sequential it is
# the last node of its last layer. None of this is about the layer as you know it.
#
# PyTorch itself warns of it, when the layer with the hook is called:

# %% facts=["06-register-backward-hook"] shows_warning="FutureWarning"
layer = nn.Linear(3, 4)
layer.register_backward_hook(lambda module, grad_input, grad_output: None)
warning_of(lambda: layer(torch.ones(5, 3)))

error_of(lambda: layer.register_full_backward_hook(lambda module, grad_input, grad_output: None))

# %% [markdown]
# The two kinds of hook can't be mixed on one module. To port old code, take the full hook for the gradients of input
# and output.
#
# **Predict.** And the gradients of weight and bias? They are in `.grad`. What are their shapes for a batch of five;
# is the one of the bias kept for each sample?

# %% facts=["06-linear-weight-grad-transposed", "06-fc-bias-grad-per-sample"]
linear = nn.Linear(3, 4)
linear(torch.ones(5, 3)).sum().backward()
print("weight", tuple(linear.weight.shape), " weight.grad", tuple(linear.weight.grad.shape))
print("bias  ", tuple(linear.bias.shape), "   bias.grad  ", linear.bias.grad.tolist())

conv = nn.Conv2d(2, 3, 3)
conv(torch.ones(4, 2, 5, 5)).sum().backward()
print("bias of the convolution: ", conv.bias.grad.tolist())

# %% [markdown]
# `.grad` always has the shape of its parameter, weights included. A parameter is used by all samples, so its gradient
# is the sum over them: five for a batch of five; 4 · 3 · 3 = 36 for four images with 3 × 3 positions each. It is a
# mean only if the loss is one.

# %% [markdown]
# ### Exercise 6.4 · Port a gradient report from the old hooks
#
# fix · solid · 20 min · 3 points
#
# This function is from 2018. It reports the gradients of every layer, or did so at the time: today it raises, and five
# faults must go until it is right. Rewrite it.
#
# **Contract**
#
# - Runs `loss_fn(model(x))` and returns a dict with one entry for each *leaf* module that owns parameters, under its
#   dotted name. You may count on this: each of them is called once, with one tensor, and all parameters require grad.
# - Each entry is a dict with `output` and `input` (the gradients of the module's output and input), `weight` and `bias`
#   (the gradients of this loss, whatever `.grad` holds already). `input` is None where the input needs no gradient,
#   `bias` is None where there is no bias.
# - All tensors are detached and have the shape of what they belong to. No `FutureWarning`.
# - Afterwards no hook remains, also where the loss raises. `x` and its `requires_grad` are not touched. The `.grad` of
#   every parameter, and of `x`, is the same object (or None) with the same values as before.
#
# <details><summary>Hint 1</summary>
#
# What does grad_input of a full hook contain, and what does it no longer contain? Where do weight gradients live, and
# what was in there before you started?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Loop over named_modules(), keep modules without children but with parameters; bind the name; get the gradients of
# weight and bias by `torch.autograd.grad`, which does not write `.grad` (ask it for x too, where x requires grad: only
# what is asked for is computed); remove the handles in a `finally`.
#
# </details>


# %% answer="port-old-hooks"
def gradient_report(
    model: nn.Module, x: Tensor, loss_fn: Callable[[Tensor], Tensor]
) -> dict[str, dict[str, Tensor | None]]:
    """The gradients of output, input, weight and bias of each leaf module that owns parameters."""
    ### BEGIN SOLUTION
    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters())
    }
    report: dict[str, dict[str, Tensor | None]] = {name: {} for name in layers}

    def noting(entry: dict) -> Callable:
        def hook(module: nn.Module, grad_input: tuple, grad_output: tuple) -> None:
            entry.update(output=grad_output[0], input=grad_input[0])

        return hook

    handles = []
    try:
        for name, layer in layers.items():
            handles.append(layer.register_full_backward_hook(noting(report[name])))
        loss = loss_fn(model(x))
        wanted = [parameter for layer in layers.values() for parameter in layer.parameters()] + [x] * x.requires_grad
        grads = dict(zip(wanted, torch.autograd.grad(loss, wanted), strict=True))
    finally:
        for handle in handles:
            handle.remove()

    for name, layer in layers.items():
        report[name].update(weight=grads[layer.weight], bias=grads.get(getattr(layer, "bias", None)))
    return report
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # report = {}
    # for name, layer in model.named_children():
    #
    #     def hook(mod, grad_input, grad_output):
    #         report[name] = {
    #             "bias": grad_input[0],
    #             "input": grad_input[1],
    #             "weight": grad_input[2].t(),
    #             "output": grad_output[0],
    #         }
    #
    #     layer.register_backward_hook(hook)
    # loss_fn(model(x)).backward()
    # return report
    ### END GIVEN


# %% check="port-old-hooks" points=2
"""One entry for each leaf module with parameters, with the right gradients of this loss."""
with check("port-old-hooks") as test:

    def nested_net(width=4):
        """enc.0, enc.1 (no parameters), enc.2 (no bias), head and last (no parameters), with fixed weights."""
        net = nn.Sequential()
        encoder = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width, bias=False))
        net.add_module("enc", encoder)
        net.add_module("head", nn.Linear(width, 3))
        net.add_module("last", nn.Tanh())
        with torch.no_grad():
            for shift, parameter in enumerate(net.parameters()):
                numbers = torch.arange(parameter.numel()) * 7 % 11 / 8 + shift / 16 - 0.6
                parameter.copy_(numbers.reshape(parameter.shape))
        return net

    def weighted_loss(out):
        """A loss that treats every output differently."""
        weights = torch.arange(1.0, out.numel() + 1, dtype=out.dtype).reshape(out.shape)
        return (weights * out.square()).sum()

    def report_of(answer, x):
        """The report on the nested net."""
        return answer(nested_net(), x, weighted_loss)

    def by_hand(net, steps, x):
        """The report, layer after layer, with one torch.autograd.grad for each entry."""
        ends = {}
        for name in steps:
            before, x = x, net.get_submodule(name)(x)
            ends[name] = (x, before)
        loss, report = weighted_loss(x), {}
        for name, (output, before) in ends.items():
            layer = net.get_submodule(name)
            if list(layer.parameters()):
                belongings = (output, before, layer.weight, getattr(layer, "bias", None))
                report[name] = {}
                for what, tensor in zip(("output", "input", "weight", "bias"), belongings, strict=True):
                    tracked = tensor is not None and tensor.requires_grad
                    grad = torch.autograd.grad(loss, tensor, retain_graph=True)[0] if tracked else None
                    report[name][what] = grad
        return report

    def filled(seen):
        """The names of entries that hold something."""
        return [name for name, entry in seen.value.items() if entry]

    known = [
        mistake(
            "FutureWarning: you still register the non-full hook. Its grad_input lists the inputs of the last autograd "
            "node, not of the layer.",
            when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
        ),
        mistake(
            "All reports overwrite each other under one name: bind the loop variable when defining the hook.",
            when=lambda seen: (
                filled(seen) in ([name] for name in ("enc", "enc.2", "last"))
                or (filled(seen) == ["head"] and seen.value["head"]["output"].shape != (2, 3))
            ),
        ),
        mistake(
            "Layers inside a container are missing: named_children() is one level deep.",
            when=lambda seen: "head" in filled(seen) and "enc.0" not in filled(seen),
        ),
        mistake(
            "Containers or layers without parameters are listed; only leaf modules with parameters belong in the "
            "report.",
            when=lambda seen: {"", "enc", "enc.1", "last"} & set(seen.value),
        ),
        mistake(
            "The parameters of a layer are listed one by one: an entry stands for a layer, such as 'enc.0'.",
            when=lambda seen: "enc.0.weight" in seen.value,
        ),
        mistake(
            "A full hook's grad_input has one entry for each input and none for parameters: read the gradients of "
            "weight and bias elsewhere.",
            raises="IndexError: tuple index out of range",
        ),
        mistake(
            "A layer without a bias has None there; here it raised: {detail}", raises="'NoneType' object has no .*grad"
        ),
    ]
    no_input_gradient = [
        mistake(
            "The first layer's input needs no gradient: report None, not zeros - "
            "and do not switch on requires_grad for the caller's tensor.",
            when=lambda seen: not seen.value["enc.0"]["input"].any(),
        ),
        mistake(
            "The first layer's input needs no gradient: report None, and do not switch on requires_grad to get one.",
            when=lambda seen: isinstance(seen.value["enc.0"]["input"], Tensor),
        ),
    ]
    in_out = [
        mistake(
            "weight gradients have the weight's own shape (out, in); the transpose belonged to the old hook.",
            when=lambda seen: seen.value["enc.0"]["weight"].shape == (3, 4),
        ),
        mistake(
            "`input` and `output` are swapped: grad_input belongs to what goes into the layer.",
            when=lambda seen: torch.equal(seen.value["head"]["input"], wanted["head"]["output"]),
        ),
    ]

    test("the names: leaf modules with parameters, dotted")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    steps = ["enc.0", "enc.1", "enc.2", "head", "last"]
    wanted = by_hand(nested_net(), steps, x)
    seen = observe_scenario(report_of, gradient_report, x).expecting(*known)
    names = list(seen.value) if isinstance(seen.value, dict) else []
    seen.that(isinstance(seen.value, dict), "The report must be a dict from names to dicts.", stage="type")
    seen.that(
        sorted(map(str, names)) == ["enc.0", "enc.2", "head"],
        f"The names of the report should be enc.0, enc.2 and head; they are: {', '.join(map(str, names)) or 'none'}.",
        stage="shape",
    )

    test("the gradients, compared with torch.autograd.grad")
    seen.returns(wanted, *in_out, *no_input_gradient)
    grads = {f"{name}: {what}": grad for name in wanted for what, grad in seen[name].items() if grad is not None}
    tracked = ", ".join(place for place, grad in grads.items() if grad.requires_grad)
    seen.that(not tracked, f"A gradient in the report carries a graph ({tracked}): detach it.", stage="gradient")
    old_hook = any(category == "FutureWarning" for category, _ in seen.noted.warned)
    seen.that(not old_hook, "A FutureWarning came up: register full backward hooks.", *known[:1], stage="rule")

    ### BEGIN HIDDEN TESTS
    def report_with_old_gradients(answer, x):
        """The report on a net whose parameters hold gradients already."""
        net = nested_net()
        for shift, parameter in enumerate(net.parameters()):
            parameter.grad = torch.full_like(parameter, 100.0 + shift)
        return answer(net, x, weighted_loss)

    test.hidden("the parameters hold gradients already")
    old = dict(nested_net().named_parameters())
    added = {name: 100.0 + shift for shift, name in enumerate(old)}
    seen = observe_scenario(report_with_old_gradients, gradient_report, x).expecting(*known)
    seen.returns(
        wanted,
        mistake(
            "The weight gradient includes what .grad held before the call: backward() adds. Report this loss only.",
            when=lambda seen: torch.allclose(seen["head"]["weight"], wanted["head"]["weight"] + added["head.weight"]),
        ),
        mistake(
            "The report holds what .grad held before the call. Report this loss only.",
            when=lambda seen: (seen["head"]["weight"] == added["head.weight"]).all(),
        ),
    )

    test.hidden("an x that requires grad")
    seen = observe_scenario(report_of, gradient_report, x.clone().requires_grad_()).expecting(*known)
    seen.returns(
        by_hand(nested_net(), steps, x.clone().requires_grad_()),
        mistake(
            "Where x requires grad, the first layer must be reported too. torch.autograd.grad runs only what leads to "
            "the tensors that it is asked for, and a hook elsewhere does not fire.",
            when=lambda seen: "input" not in seen["enc.0"],
        ),
        mistake(
            "Where x requires grad, the first layer's input has a gradient, and the report must tell it.",
            when=lambda seen: seen["enc.0"].get("input") is None,
        ),
    )

    def report_on_squares(answer, x):
        """The report on a net of square layers."""
        return answer(nested_net(width=3), x, weighted_loss)

    test.hidden("square layers: the shape alone cannot tell a transposed gradient")
    wanted = by_hand(nested_net(width=3), steps, x)
    seen = observe_scenario(report_on_squares, gradient_report, x).expecting(*known)
    seen.returns(
        wanted,
        mistake(
            "A weight gradient is transposed: it has the weight's own layout (out, in).",
            when=lambda seen: torch.allclose(seen["head"]["weight"], wanted["head"]["weight"].t()),
        ),
        *no_input_gradient,
    )

    def other_layers():
        """A convolution, a layer whose class knows no bias, a norm, in float64."""
        torch.manual_seed(2)
        return nn.Sequential(
            nn.Conv2d(1, 2, 2), nn.PReLU(2), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 2, bias=False)
        ).double()

    def report_on_others(answer, x):
        """The report on other kinds of layers."""
        return answer(other_layers(), x, weighted_loss)

    test.hidden("other layers: a convolution, a norm, one that has no bias at all; float64")
    x = torch.arange(18.0, dtype=torch.float64).reshape(2, 1, 3, 3) * 7 % 5 - 2
    seen = observe_scenario(report_on_others, gradient_report, x)
    seen.returns(
        by_hand(other_layers(), ["0", "1", "2", "3", "4"], x),
        mistake(
            "A layer may have no attribute `bias` at all: its bias is reported as None.",
            raises="has no attribute 'bias'|'NoneType'",
        ),
        mistake(
            "Every leaf module that owns parameters belongs in the report, whatever its class.",
            when=lambda seen: list(seen.value) == ["4"],
        ),
    )
    ### END HIDDEN TESTS

# %% check="port-old-hooks" points=1
"""No hook remains; x, its requires_grad and all .grad are as they were."""
with check("port-old-hooks") as test:

    def small_net():
        """Two Linear layers, one of them in a container."""
        return nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 2))

    def squares(out):
        """A loss."""
        return out.square().sum()

    def hooks_on(model, *tensors):
        """Every hook of the model's modules, of all modules and of some tensors, with its place."""
        places = [(name or "the model", vars(module)) for name, module in model.named_modules()]
        places.append(("all modules", vars(nn.modules.module)))
        for tensor in tensors:
            kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
            places.append(("a tensor", {kind: getattr(tensor, kind) for kind in kinds}))
        return [
            (place, kind, key, hook)
            for place, attributes in places
            for kind, hooks in attributes.items()
            if kind.endswith("_hooks") and isinstance(hooks, dict)
            for key, hook in hooks.items()
        ]

    def traces(answer, x, old_gradients):
        """What a report leaves behind: on x, on the parameters, in the hook dictionaries."""
        net = small_net()
        net[1].register_forward_hook(lambda *args: None)
        tensors = {"x": x} | dict(net.named_parameters())
        if old_gradients:
            for shift, tensor in enumerate(tensors.values()):
                tensor.grad = torch.full_like(tensor, 5.0 + shift) if tensor.requires_grad else None
        was = {name: [tensor, tensor.grad, tensor.requires_grad, tensor.tolist()] for name, tensor in tensors.items()}
        values = {name: None if tensor.grad is None else tensor.grad.tolist() for name, tensor in tensors.items()}
        before = hooks_on(net)
        report = answer(net, x, squares)
        after = hooks_on(net, *tensors.values())
        entries = [entry for entry in report.values() if entry] if isinstance(report, dict) else []
        now = {"x": x} | dict(net.named_parameters())
        return {
            "entries": len(entries),
            "came": [hook[0] for hook in after if hook not in before],
            "went": [hook[0] for hook in before if hook not in after],
            "requires_grad": [name for name, tensor in now.items() if tensor.requires_grad != was[name][2]],
            "values": [name for name, t in now.items() if t is not was[name][0] or t.tolist() != was[name][3]],
            "other grad": [name for name, tensor in now.items() if tensor.grad is not was[name][1]],
            "changed grad": [name for name, t in now.items() if t.grad is not None and t.grad.tolist() != values[name]],
        }

    def judge_values(seen):
        """Judge that x and the parameters are as they were."""
        seen.that(
            "x" not in seen["requires_grad"], "You changed x.requires_grad on the caller's tensor.", stage="arguments"
        )
        frozen = ", ".join(seen["requires_grad"])
        seen.that(not frozen, f"requires_grad of a parameter was changed: {frozen}.", stage="arguments")
        changed = ", ".join(seen["values"])
        seen.that(not changed, f"Something was changed that is not yours: {changed}.", stage="arguments")

    def judge_hooks(seen, sentence):
        """Judge that the hooks are those that were there before."""
        seen.that(not seen["went"], "Someone else's hook disappeared: remove your own handles only.", stage="rule")
        seen.that(not seen["came"], sentence, stage="rule")

    test("x keeps its requires_grad flag")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    seen = observe_scenario(traces, gradient_report, x, False)
    judge_values(seen)

    test("no hooks afterwards")
    judge_hooks(seen, "Hooks remain after the call: each further report would pay for all earlier ones.")
    seen.that(seen["entries"] > 0, "Nothing was reported, so there was nothing to clean up.")

    ### BEGIN HIDDEN TESTS
    touched = "A parameter's .grad differs after the call: restore it, or use autograd.grad, which does not write it."
    of_x = mistake(
        "x.grad was written: it belongs to the caller.",
        when=lambda seen: {*seen["other grad"], *seen["changed grad"]} == {"x"},
    )
    for idea, some_x, old_gradients in [
        (".grad is None before, and afterwards too", x, False),
        (".grad is the same object with the same values as before", x, True),
        ("an x that requires grad: x.grad stays None", x.clone().requires_grad_(), False),
        ("an x that requires grad: x.grad stays as it was", x.clone().requires_grad_(), True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(traces, gradient_report, some_x, old_gradients)
        differs = [*seen["other grad"], *seen["changed grad"]]
        seen.that(not differs, touched, of_x, stage="arguments")
        judge_values(seen)
        judge_hooks(seen, "Hooks remain after the call: each further report would pay for all earlier ones.")

    def raising_loss(out):
        """A loss that raises."""
        raise ArithmeticError("no loss today")

    def loss_raises(answer, x):
        """The hooks after a loss that raises."""
        net = small_net()
        try:
            answer(net, x, raising_loss)
        except Exception as error:
            return {"raised": type(error).__name__, "came": len(hooks_on(net))}
        return {"raised": "nothing", "came": len(hooks_on(net))}

    test.hidden("a loss that raises leaves no hooks")
    seen = observe_scenario(loss_raises, gradient_report, x)
    stayed = "When the loss raised, your hooks stayed. Removal belongs into `finally`."
    seen.that(seen["came"] == 0, stayed, stage="rule")
    seen.that(seen["raised"] == "ArithmeticError", "The exception of the loss must reach the caller.", stage="raised")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.7 Hooks on tensors
#
# A module hook watches what goes into a module and what comes out. A tensor hook watches one tensor, which may lie
# anywhere in the graph.
#
# **Predict.** `a` is (1, 1), `b` twice that, `c` the length of `b`. When does the hook on `b` print, and what? How
# often does the hook on `a`, and what is `a.grad` at that moment?

# %% facts=["06-tensor-register-hook", "06-register-hook-lambda-print"]
a = torch.ones(2, requires_grad=True)
b = a * 2
b.register_hook(lambda grad: print("gradient of b:", grad))
a.register_hook(lambda grad: print("gradient of a:", grad, " a.grad:", a.grad))

c = b.norm()
print("forward is done")
c.backward()
print("a.grad afterwards:", a.grad)
error_of(lambda: torch.ones(2).register_hook(print))

# %% [markdown]
# Nothing in forward, then once each in backward, from back to front. The hook runs when the gradient of its tensor is
# known and before it is added to `.grad`. `print` returns None, and None means: leave the gradient alone. A tensor
# that does not require grad has no gradient to wait for, and refuses.

# %% [markdown]
# **Predict.** `b` is used twice. Does its hook fire once, with the sum, or once for each use? And which of the hooks
# below change `a.grad`?


# %% facts=["06-register-hook-return-value", "06-tensor-register-hook"]
def gradient_with(hook) -> list:
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    b.register_hook(hook)
    (b * 3 + b * 4).sum().backward()
    return a.grad.tolist()


def forgets_to_return(grad):
    grad * 10


print("looks:            ", gradient_with(lambda grad: print("gradient of b:    ", grad.tolist())))
print("forgets to return:", gradient_with(forgets_to_return))
print("grad * 10:        ", gradient_with(lambda grad: grad * 10))
print("clamped to 0.5:   ", gradient_with(lambda grad: grad.clamp(max=0.5)))
error_of(lambda: gradient_with(lambda grad: grad[:1]))
error_of(lambda: gradient_with(lambda grad: "ten"))

# %% [markdown]
# Once, with the sum over both uses. A tensor that the hook returns replaces the gradient for everything further back,
# so gradients can be scaled or clamped in flight, without a custom Function. It must be a tensor of the same shape. A
# new value that isn't returned is lost, without a word.

# %% [markdown]
# **Predict.** A hook that stores gradients is sometimes recommended because `retain_grad` is said to cost much more
# memory. For 1000 numbers: how many bytes does each keep?

# %% facts=["06-register-hook-cheaper-than-retain-grad", "06-register-hook-collect-in-list"]
torch.manual_seed(0)
a, weights = torch.randn(1000, requires_grad=True), torch.randn(1000)

retained = a * 2
retained.retain_grad()
(retained * weights).sum().backward()
print("retain_grad:", retained.grad.untyped_storage().nbytes(), "bytes")

stored = []
for _ in range(3):
    hooked = a * 2
    hooked.register_hook(stored.append)
    (hooked * weights).sum().backward()
    print("in the list:", sum(grad.untyped_storage().nbytes() for grad in stored), "bytes")

print("the same numbers:", torch.equal(retained.grad, stored[0]), " with a graph:", stored[0].requires_grad)

# %% [markdown]
# The same: 4 bytes for each number. `retain_grad` keeps one gradient and no graph, and so does the hook. But the list
# grows by one gradient with every backward pass, for ever; only a hook that looks and forgets is lighter.

# %% [markdown]
# **Predict.** Domain-adversarial training reverses the gradient at one place of a net. Below, `x` goes through a
# reversal (times 3) and also directly (times 10) into the result. Without reversal `x.grad` is 13. What is it with
# the custom Function of chapter 5, with a module that returns `x` and has a backward hook, and with a tensor hook on
# `x`?


# %% facts=["06-negate-gradient-with-hook"]
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


reverse_module = nn.Identity()
reverse_module.register_full_backward_hook(lambda module, grad_input, grad_output: (-grad_input[0],))


def reverse_on_x(x: Tensor) -> Tensor:
    x.register_hook(lambda grad: -grad)
    return x


ways = {"Function": Reverse.apply, "module hook": reverse_module, "hook on x": reverse_on_x}
for name, reverse in ways.items():
    x = torch.tensor([1.0], requires_grad=True)
    (reverse(x) * 3 + x * 10).backward()
    print(f"{name:12} x.grad {x.grad.tolist()}")

# %% [markdown]
# 7, 7 and -13. The Function and the module negate what comes back through *them*, -3, and leave the direct path
# alone. The module does it although its `forward` returns `x` itself, since the hook machinery makes views of inputs
# and outputs (section 6.5). The hook on `x` sees the whole gradient of `x`, the sum over all paths, and negates that.
# It also stays on `x`: a second call would register a second hook.

# %% [markdown]
# ### Exercise 6.5 · A layer that reverses gradients
#
# implement · solid · 15 min · 3 points
#
# Domain-adversarial training puts a layer between the features and a domain classifier: forward it does nothing,
# backward it turns the gradient round, so that the features learn to *hide* the domain. The label classifier sees the
# same features, and its gradient must stay as it is. Chapter 5 writes the layer as a custom Function; here the question
# is where a hook hangs and what it sees. You may solve it with any kind of hook.
#
# **Contract**
#
# - Forward returns the values of x. Backward multiplies the gradient by `-lambda_`, but only the gradient of what
#   passes through this module: other consumers of the same x notice nothing. No gradient is changed in place.
# - `self.lambda_` may be set to another value between two training steps (training raises it), and the new one counts.
#   Every module goes by its own, a deep copy too.
# - The module may be called several times, in one graph and in one training step after the other. It works for an x
#   that needs no gradient, as the first layer of a net, and under `no_grad`; the dtype stays as it is.
# - It has no parameters, and its state_dict is empty.
#
# <details><summary>Hint 1</summary>
#
# If you hang a hook on x itself, which paths does it see? And how many hooks are there after the second forward?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Register one full backward hook in `__init__` and let it use its `module` argument; or put the tensor hook on a new
# view of x made in forward.
#
# </details>


# %% answer="gradient-reversal"
class GradientReversal(nn.Module):
    """Passes x on; multiplies the gradient that comes back by -lambda_."""

    lambda_: float

    def __init__(self, lambda_: float = 1.0):
        super().__init__()
        ### BEGIN SOLUTION
        self.lambda_ = lambda_

        def reverse(module: nn.Module, grad_input: tuple, grad_output: tuple) -> tuple:
            return (-module.lambda_ * grad_input[0],)

        self.register_full_backward_hook(reverse)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """The values of x."""
        ### BEGIN SOLUTION
        return x
        ### END SOLUTION


# %% check="gradient-reversal" points=2
"""The values of x forward; the gradient times -lambda_ backward, of this path only."""
with check("gradient-reversal") as test:

    def two_branches(answer, x, lambda_):
        """A domain branch through the layer and a label branch around it, in three training steps."""
        layer, steps = answer(lambda_=lambda_), []
        for _ in range(3):
            features = 2 * x
            passed = layer(features)
            if not isinstance(passed, Tensor) or passed.shape != features.shape:
                return [{"odd": True}]
            domain = (passed * torch.tensor([1.0, 10.0])).sum()
            label = (features * torch.tensor([100.0, 1000.0])).sum()
            (grad,) = torch.autograd.grad(domain + label, x)
            steps.append({"passed": passed.detach(), "gradient": grad})
        return steps

    def first_is(*row):
        """Whether the gradient of the first training step is this row."""
        return lambda seen: torch.allclose(seen[0]["gradient"], torch.tensor(row))

    late = mistake(
        "The first call is not reversed, the next one is: a module hook that is registered inside forward counts from "
        "the next call on. Register it in __init__.",
        when=lambda seen: first_is(202.0, 2020.0)(seen) and not first_is(202.0, 2020.0)([seen[1]]),
    )
    old_hook = mistake(
        "You registered the old, non-full hook: it reports the inputs of an autograd node, not those of the module.",
        raises="incorrect number of values",
    )
    no_tuple = mistake(
        "A full backward hook returns a tuple with one entry for each input.",
        raises="invalid number of grad_input|has changed the size of value",
    )

    test("x feeds two branches, only one is reversed")
    x = torch.tensor([3.0, -5.0], requires_grad=True)
    seen = observe_scenario(two_branches, GradientReversal, x, 0.5).expecting(old_hook, no_tuple)
    seen.that("odd" not in seen[0], "Forward must return a tensor: the values of x.", stage="type")
    kept = "Forward must return the values of x; only the gradient is reversed."
    seen.that(torch.equal(seen[0]["passed"], torch.tensor([6.0, -10.0])), kept)
    seen.that(
        torch.allclose(
            seen[0]["gradient"], torch.tensor([199.0, 1990.0])
        ),  # 2 * (100 - 0.5 * 1), 2 * (1000 - 0.5 * 10)
        "The gradient of x is wrong: that of the label branch as it is, that of the domain branch times -lambda_.",
        mistake(
            "The label branch got a reversed gradient too: the hook sits on x itself, so it sees the sum over all "
            "consumers.",
            when=first_is(-101.0, -1010.0),
        ),
        late,
        mistake(
            "The gradient is unchanged: a hook that computes -g without returning it has no effect.",
            when=first_is(202.0, 2020.0),
        ),
        mistake("The sign is right but lambda_ is not applied.", when=first_is(198.0, 1980.0)),
        mistake("The size is right, but the sign is not reversed.", when=first_is(201.0, 2010.0)),
        mistake("No gradient comes through the module: x is detached on the way.", when=first_is(200.0, 2000.0)),
        stage="gradient",
    )

    def alone(answer, x, *lambda_):
        """Nothing but the layer."""
        layer = answer(*lambda_)
        passed = layer(x)
        incoming = incoming_gradient(passed)
        (grad,) = torch.autograd.grad(passed, x, incoming)
        return {"passed": passed.detach(), "gradient": grad, "lambda_": layer.lambda_}

    def times(came, incoming, factor):
        """Whether a gradient is factor times the incoming one, in dtype and shape too."""
        same_kind = (came.dtype, came.shape) == (incoming.dtype, incoming.shape)
        return same_kind and torch.allclose(came, factor * incoming)

    test("values kept, gradient -lambda_ times; lambda_ is 1 where none is given")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], requires_grad=True)
    for given, factor in (([], -1.0), ([0.25], -0.25), ([3.0], -3.0)):
        seen = observe_scenario(alone, GradientReversal, x, *given)
        seen.that(torch.equal(seen["passed"], x.detach()), kept)
        seen.that(
            times(seen["gradient"], incoming_gradient(x), factor),
            f"The gradient must be {factor:g} times the one that came in.",
            mistake(
                "The sign is right but lambda_ is not applied.",
                when=lambda seen: times(seen["gradient"], incoming_gradient(x), -1.0),
            ),
            stage="gradient",
        )
        seen.that(seen["lambda_"] == -factor, "The module must keep lambda_ as its attribute.")

    ### BEGIN HIDDEN TESTS
    def two_calls(answer, x):
        """Two calls side by side and one after the other, in one graph."""
        layer = answer(0.5)
        h = 2 * x
        once, other = layer(h), layer(3 * h)
        twice = layer(layer(h))
        rows = torch.tensor([1.0, 10.0], dtype=x.dtype)
        out = (once * rows).sum() + 100 * (other * rows).sum() + 10000 * (twice * rows).sum()
        (grad,) = torch.autograd.grad(out, x)
        return {"gradient": grad, "dtypes": [str(once.dtype), str(grad.dtype)]}

    test.hidden("several calls in one graph; float64 is kept")
    for dtype in (torch.float32, torch.float64):
        seen = observe_scenario(two_calls, GradientReversal, torch.tensor([3.0, -5.0], dtype=dtype, requires_grad=True))
        seen.that(seen["dtypes"] == [str(dtype)] * 2, "The dtype of values and gradients must stay.", stage="dtype")
        expected = 2 * (-0.5 - 100 * 3 * 0.5 + 10000 * 0.25) * torch.tensor([1.0, 10.0], dtype=dtype)
        seen.that(
            torch.allclose(seen["gradient"], expected),
            "Each call multiplies the gradient that comes through it once by -lambda_.",
            stage="gradient",
        )

    def beside_others(answer, x):
        """A sum hands one gradient to the layer and to a neighbour; then a gradient of the caller's own."""
        layer = answer(0.5)
        neighbour = 2 * x
        incoming = torch.tensor([1.0, 10.0])
        (shared,) = torch.autograd.grad(layer(x.view_as(x)) + neighbour, x, incoming)
        (own,) = torch.autograd.grad(layer(x), x, incoming)
        wide = torch.autograd.grad(layer(x).sum(), x)[0]
        return {"shared": shared, "own": own, "wide": wide, "incoming": incoming}

    test.hidden("the incoming gradient is not changed in place")
    seen = observe_scenario(beside_others, GradientReversal, torch.tensor([3.0, -5.0], requires_grad=True))
    in_place = (
        "The gradient that came in was changed in place. Its memory may be shared with other consumers; "
        "return a new tensor."
    )
    seen.expecting(mistake(in_place, raises="single memory location"))
    ones = torch.tensor([1.0, 10.0])
    seen.that(torch.equal(seen["incoming"], ones), in_place, stage="gradient")
    seen.that(torch.allclose(seen["shared"], (2 - 0.5) * ones), in_place, stage="gradient")
    seen.that(
        torch.allclose(seen["own"], -0.5 * ones), "The gradient must be multiplied by -lambda_.", stage="gradient"
    )
    seen.that(torch.allclose(seen["wide"], torch.full((2,), -0.5)), "The gradient of a sum is wrong.", stage="gradient")

    def state_of(answer):
        """What the module holds."""
        layer = answer(0.5)
        if not isinstance(layer, nn.Module):
            return {"kind": type(layer).__name__}
        return {"kind": "a module", "parameters": len(list(layer.parameters())), "state": list(layer.state_dict())}

    test.hidden("no parameters, an empty state_dict")
    seen = observe_scenario(state_of, GradientReversal)
    seen.that(seen["kind"] == "a module", "GradientReversal must be an nn.Module.", stage="type")
    seen.that(seen["parameters"] == 0, "lambda_ is no parameter: the optimizer would train it.")
    seen.that(seen["state"] == [], f"The state_dict must be empty; it holds {', '.join(seen['state'])}.")
    ### END HIDDEN TESTS

# %% check="gradient-reversal" points=1
"""Called again and again, with another lambda_, as a copy, for an x that needs no gradient."""
with check("gradient-reversal") as test:

    def gradient_through(layer, x):
        """The gradient of x for the incoming gradient (1, 10); zeros if what comes out is no such tensor."""
        passed = layer(2 * x)
        if not isinstance(passed, Tensor) or passed.shape != x.shape:
            return torch.zeros(2)
        (grad,) = torch.autograd.grad(passed, x, torch.tensor([1.0, 10.0]))
        return grad / 2

    def again(answer, x):
        """The same x, three times."""
        layer = answer(0.5)
        return [gradient_through(layer, x) for _ in range(3)]

    test("called again: same result")
    x, rows = torch.tensor([3.0, -5.0], requires_grad=True), torch.tensor([1.0, 10.0])
    seen = observe_scenario(again, GradientReversal, x)
    for grad in seen.value:
        seen.that(
            torch.allclose(grad, -0.5 * rows),
            "The gradient must be -lambda_ times the one that came in, each time.",
            mistake(
                "The first call is reversed, and a later one is not any more: the hook must stay.",
                when=lambda seen: torch.allclose(seen[0], -0.5 * rows) and torch.allclose(seen[2], rows),
            ),
            mistake(
                "The first call is not reversed, the next one is: a module hook that is registered inside forward "
                "counts from the next call on. Register it in __init__.",
                when=lambda seen: (
                    torch.allclose(seen[0], rows)
                    and torch.allclose(seen[1], -0.5 * rows)
                    and torch.allclose(seen[2], -0.5 * rows)
                ),
            ),
            mistake(
                "The second call has the wrong sign or size: a new hook is added in each forward.",
                when=lambda seen: not torch.allclose(seen[1], seen[2]),
            ),
            stage="gradient",
        )

    ### BEGIN HIDDEN TESTS
    def schedule(answer, x):
        """lambda_ changes during training; at last in eval mode."""
        layer = answer(0.5)
        grads = [gradient_through(layer, x)]
        for lambda_ in (0.75, 0.0, 2.0):
            layer.lambda_ = lambda_
            grads.append(gradient_through(layer, x))
        return [*grads, gradient_through(layer.eval(), x)]

    test.hidden("lambda_ changed after construction; eval mode")
    seen = observe_scenario(schedule, GradientReversal, x)
    for lambda_, grad in zip((0.5, 0.75, 0.0, 2.0, 2.0), seen.value, strict=True):
        seen.that(
            torch.allclose(grad, -lambda_ * rows),
            "lambda_ was changed, and the gradient does not follow.",
            mistake(
                "lambda_ was read once at construction; the schedule model.lambda_ = 0.3 has no effect.",
                when=lambda seen: all(torch.allclose(came, seen[0]) for came in seen.value),
            ),
            mistake(
                "In eval mode the gradient must be reversed, too.",
                when=lambda seen: torch.allclose(seen[3], -2 * rows) and not torch.allclose(seen[4], -2 * rows),
            ),
            stage="gradient",
        )

    def neighbours(answer, x):
        """Two layers, alone and one after the other."""
        one, other = answer(0.5), answer(3.0)
        return [gradient_through(layer, x) for layer in (one, other, nn.Sequential(one, other))]

    test.hidden("two layers, each with its own lambda_")
    seen = observe_scenario(neighbours, GradientReversal, x)
    for factor, grad in zip((-0.5, -3.0, 1.5), seen.value, strict=True):
        seen.that(
            torch.allclose(grad, factor * rows),
            "Where there are two layers, each must go by its own lambda_ and touch nothing else.",
            stage="gradient",
        )

    def copied(answer, x):
        """A deep copy of a net with the layer in it; then the copy's, then the original's lambda_ is changed."""
        net = nn.Sequential(answer(0.5), nn.Identity())
        twin = copy.deepcopy(net)
        twin[0].lambda_ = 0.25
        before = [gradient_through(net, x), gradient_through(twin, x)]
        net[0].lambda_ = 4.0
        return [*before, gradient_through(net, x), gradient_through(twin, x)]

    test.hidden("a deepcopy goes by its own lambda_")
    seen = observe_scenario(copied, GradientReversal, x)
    for lambda_, grad in zip((0.5, 0.25, 4.0, 0.25), seen.value, strict=True):
        seen.that(
            torch.allclose(grad, -lambda_ * rows),
            "In a deepcopy the hook still reads the ORIGINAL module's lambda_: use the module argument of the hook, "
            "not a closure over self.",
            stage="gradient",
        )

    def without_gradient(answer, x, weight):
        """As the first layer of a net, for plain data; and under no_grad."""
        net = nn.Sequential(answer(0.5), nn.Linear(2, 1, bias=False))
        with torch.no_grad():
            net[1].weight.copy_(weight)
        out = net(x)
        (grad,) = torch.autograd.grad(out, net[1].weight)
        with torch.no_grad():
            quiet = net[0](weight.clone().requires_grad_())
        return {"out": out.detach(), "gradient": grad, "quiet": quiet, "plain": net[0](x)}

    test.hidden("an x that needs no gradient; no_grad; the first layer of a net")
    x, weight = torch.tensor([3.0, -5.0]), torch.tensor([[2.0, 0.5]])
    refused = "x that needs no gradient must simply pass: register_hook raises on it."
    seen = observe_scenario(without_gradient, GradientReversal, x, weight).expecting(
        mistake(refused, raises="cannot register a hook on a tensor that doesn't require gradient")
    )
    seen.that(
        torch.allclose(seen["out"], torch.tensor([3.5])),
        "The output of a net that begins with the layer is wrong.",
    )
    seen.that(
        torch.allclose(seen["gradient"], torch.tensor([[3.0, -5.0]])),
        "The gradient of a layer after the reversal must stay as it is.",
        stage="gradient",
    )
    for name, values in (("quiet", weight), ("plain", x)):
        seen.that(torch.equal(seen[name], values), "Where nothing needs a gradient, x must pass as it is.")
    seen.that(not seen["plain"].requires_grad, "For an x that needs no gradient the result needs none.")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.8 When the gradient has arrived
#
# **Predict.** A tensor hook and a post-accumulate hook sit on the same tensor, and backward runs twice. What does
# each of the two get, and what does it find in `w.grad`?

# %% facts=["06-post-accumulate-grad-hook", "06-tensor-register-hook"]
w = torch.ones(2, requires_grad=True)


def before(grad):
    print("tensor hook:     gets", grad, "  w.grad:", w.grad)


def after(parameter):
    print("post-accumulate: gets w itself:", parameter is w, "  w.grad:", parameter.grad)


w.register_hook(before)
w.register_post_accumulate_grad_hook(after)
for _ in range(2):
    (w * 3).sum().backward()

error_of(lambda: (w * 3).register_post_accumulate_grad_hook(after))

# %% [markdown]
# The tensor hook comes before the sum, the post-accumulate hook after it; the latter gets the tensor, not a gradient,
# and must return None. It waits for the node that adds into the `.grad` of a leaf, `AccumulateGrad` of chapter 4. No
# other tensor has one, so only leaves take it.
#
# **Predict.** Four layers; a post-accumulate hook on each weight counts how many weights have a gradient at that
# moment. Then the same with a hook that drops each gradient as soon as it has counted. Which two lists come out?


# %% facts=["06-post-accumulate-grad-hook"]
def living_gradients(drop: bool) -> list[int]:
    """How many gradients there are each time that a weight has got its own."""
    net = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(4)))
    counts = []

    def count(parameter):
        counts.append(sum(weight.grad is not None for weight in net.parameters()))
        if drop:
            parameter.grad = None

    for weight in net.parameters():
        weight.register_post_accumulate_grad_hook(count)
    net(torch.ones(1, 8)).sum().backward()
    return counts


print("gradients stay: ", living_gradients(drop=False))
print("dropped at once:", living_gradients(drop=True))

# %% [markdown]
# Usually all gradients are there together before the optimizer takes its step: as much memory as the parameters. A
# hook that uses a gradient at once and drops it needs room for one at a time. The tutorial "How to save memory by
# fusing the optimizer step into the backward pass" is built on this.

# %% [markdown]
# ### Exercise 6.6 · Step inside backward
#
# implement · solid · 15 min · 2 points
#
# Between `backward` and `step` all gradients of a model exist at the same time: one more copy of its weights. Where an
# update needs nothing but the parameter's own gradient, it can be made inside backward, parameter by parameter, and
# each gradient thrown away at once.
#
# **Contract**
#
# - After `attach_sgd(model, lr)` each `loss.backward()` alone performs one plain SGD step, with the same weights as
#   `torch.optim.SGD(model.parameters(), lr)` would give.
# - Every parameter is updated as soon as its gradient is complete, and that gradient is freed at once: `.grad` is None
#   again before the next one arrives.
# - Frozen parameters are skipped. A parameter that is used twice is updated once, with its whole gradient.
# - The parameter objects stay the same and keep requires_grad.
# - The returned function removes the hooks; later backward passes accumulate into `.grad` as usual.
#
# <details><summary>Hint 1</summary>
#
# Which hook runs after the gradient was added to .grad, and what does it receive: the gradient or the parameter?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `register_post_accumulate_grad_hook` on each parameter that requires grad; inside it change the parameter in place
# without autograd and set .grad to None; collect the handles.
#
# </details>


# %% answer="update-inside-backward"
def attach_sgd(model: nn.Module, lr: float) -> Callable[[], None]:
    """Let every backward pass make an SGD step, parameter by parameter; returns a function that ends it."""
    ### BEGIN SOLUTION

    @torch.no_grad()
    def step(parameter: Tensor) -> None:
        parameter.sub_(lr * parameter.grad)
        parameter.grad = None

    handles = [p.register_post_accumulate_grad_hook(step) for p in model.parameters() if p.requires_grad]

    def detach() -> None:
        for handle in handles:
            handle.remove()

    return detach
    ### END SOLUTION


# %% check="update-inside-backward" points=2
"""The weights of plain SGD from backward alone; one gradient at a time; detach() ends it."""
with check("update-inside-backward") as test:

    def small_net():
        """Three Linear layers with fixed weights."""
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        with torch.no_grad():
            for shift, parameter in enumerate(net.parameters()):
                numbers = torch.arange(parameter.numel()) * 7 % 11 / 8 + shift / 16 - 0.6
                parameter.copy_(numbers.reshape(parameter.shape))
        return net

    def loss_of(net, x):
        """The sum of squares of the net's output."""
        return net(x).square().sum()

    def values_of(net):
        """Copies of the parameters."""
        return {name: parameter.detach().clone() for name, parameter in net.named_parameters()}

    def with_gradient(net):
        """The names of parameters whose .grad is not None."""
        return [name for name, parameter in net.named_parameters() if parameter.grad is not None]

    def by_hand(net, x, lr, steps):
        """The parameters after each of some steps of plain SGD."""
        found = []
        for _ in range(steps):
            parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
            grads = torch.autograd.grad(loss_of(net, x), parameters, materialize_grads=True)
            with torch.no_grad():
                for parameter, grad in zip(parameters, grads, strict=True):
                    parameter -= lr * grad
            found.append(values_of(net))
        return found

    def trained(attach, x):
        """Three backward passes, watched: what is alive and what has been updated when a gradient is complete."""
        net = small_net()
        parameters = dict(net.named_parameters())
        start, steps, alive, late, arrived = values_of(net), [], [0], [], []

        def watching(name):
            def hook(parameter):
                alive.append(len(with_gradient(net)))
                late.extend(other for other in arrived if torch.equal(parameters[other], start[other]))
                arrived.append(name)

            return hook

        for name, parameter in parameters.items():
            parameter.register_post_accumulate_grad_hook(watching(name))
        detach = attach(net, 0.125)
        for _ in range(3):
            start = values_of(net)
            arrived.clear()
            loss_of(net, x).backward()
            now = dict(net.named_parameters())
            steps.append(
                {
                    "values": values_of(net),
                    "kept": with_gradient(net),
                    "replaced": [name for name in parameters if now.get(name) is not parameters[name]],
                    "odd": [name for name, p in now.items() if not (p.is_leaf and p.requires_grad)],
                }
            )
            if steps[-1]["odd"] or steps[-1]["replaced"]:
                break
        tensor_hooks = sum(len(parameter._backward_hooks or {}) for parameter in parameters.values())
        facts = {"alive": max(alive), "late": len(late), "tensor hooks": tensor_hooks, "callable": callable(detach)}
        return facts | {"steps": steps}

    def same_weights(came, expected):
        """Whether all parameters agree."""
        return all(torch.allclose(came[name], expected[name], rtol=1e-4, atol=1e-5) for name in expected)

    no_gradient = mistake(
        "A hook found no gradient. In a tensor hook .grad is not filled yet (None, or the previous value), in a "
        "module's backward hook perhaps not. Use the post-accumulate hook; and hook each parameter once, since a "
        "second hook finds a gradient that the first one has freed.",
        raises="NoneType",
    )

    test("three steps, the same as plain SGD; .grad is None afterwards")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    start = values_of(small_net())
    expected = by_hand(small_net(), x, 0.125, steps=3)
    seen = observe_scenario(trained, attach_sgd, x).expecting(no_gradient)
    first, *later = seen["steps"]
    replaced, odd = ", ".join(first["replaced"]), ", ".join(first["odd"])
    seen.that(
        not replaced,
        f"The parameter object was replaced ({replaced}); optimizers and other modules hold the old one. "
        "Change it in place.",
        stage="aliasing",
    )
    seen.that(not odd, f"A parameter must stay a leaf that requires grad: {odd}.", stage="gradient")
    seen.that(
        same_weights(first["values"], expected[0]),
        "After one backward pass the weights are not those of plain SGD.",
        mistake(
            "In a tensor hook .grad is not filled yet (None, or the previous value). Use the post-accumulate hook.",
            when=lambda seen: same_weights(first["values"], start) and seen["tensor hooks"],
        ),
        mistake("Nothing was updated.", when=lambda seen: same_weights(first["values"], start)),
        mistake(
            "The weights shrank by a factor: the hook receives the PARAMETER, not its gradient; read p.grad.",
            when=lambda seen: same_weights(first["values"], {name: 0.875 * w for name, w in start.items()}),
        ),
        mistake(
            "The sign is wrong: a step goes against the gradient.",
            when=lambda seen: same_weights(first["values"], {n: 2 * w - expected[0][n] for n, w in start.items()}),
        ),
    )
    kept = ", ".join(first["kept"])
    seen.that(
        not kept,
        f"After backward .grad still holds tensors ({kept}): free each one inside the hook, or the next backward adds "
        "to it.",
    )
    for step, wanted in zip(later, expected[1:], strict=False):
        seen.that(not step["replaced"] and not step["odd"], "A parameter was replaced or switched.", stage="aliasing")
        seen.that(
            same_weights(step["values"], wanted), "The first step is right, but a later one is not that of plain SGD."
        )

    test("at most two gradients alive at any time")
    all_at_once = "All gradients were alive at the same time: step and free each one in its own hook."
    seen.that(seen["alive"] <= 2, all_at_once, stage="rule")
    seen.that(
        seen["late"] == 0,
        "A parameter was not yet updated when the next gradient arrived: step each one in its own hook.",
        stage="rule",
    )

    def detached(attach, x):
        """A step, then detach(), then two backward passes."""
        net = small_net()
        detach = attach(net, 0.125)
        loss_of(net, x).backward()
        if not callable(detach):
            return {"kind": type(detach).__name__}
        detach()
        before = values_of(net)
        kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
        left = [name for name, p in net.named_parameters() if any(getattr(p, kind) for kind in kinds)]
        grads = []
        for _ in range(2):
            loss_of(net, x).backward()
            grads.append({name: parameter.grad for name, parameter in net.named_parameters()})
            grads[-1] = {name: None if grad is None else grad.clone() for name, grad in grads[-1].items()}
        return {"before": before, "after": values_of(net), "grads": grads, "left": left}

    test("detach() ends it")
    seen.that(seen["callable"], "Return a function that removes the hooks.", stage="type")
    seen = observe_scenario(detached, attach_sgd, x).expecting(no_gradient)
    changed = ", ".join(name for name, w in seen["before"].items() if not torch.equal(w, seen["after"][name]))
    seen.that(
        not changed,
        f"After detach() the parameters still change ({changed}): remove every handle.",
        stage="rule",
    )
    freed = ", ".join(name for name, grad in seen["grads"][0].items() if grad is None)
    seen.that(not freed, f"After detach() gradients are still freed ({freed}): remove every handle.", stage="rule")
    once, twice = seen["grads"]
    doubled = all(torch.allclose(twice[name], 2 * once[name], rtol=1e-4, atol=1e-6) for name in once)
    seen.that(doubled, "After detach() gradients must accumulate as usual: two backward passes add up.")
    left = ", ".join(seen["left"])
    seen.that(
        not left,
        f"After detach() hooks are still registered ({left}), even if they do nothing: remove every handle.",
        stage="rule",
    )

    ### BEGIN HIDDEN TESTS
    def special_net(kind):
        """A net with a frozen layer, tied weights or a layer that the loss does not need; nested, or in float64."""
        net = small_net()
        if kind == "frozen":
            net[2].requires_grad_(False)
            net[4].bias.requires_grad_(False)
        if kind == "tied":
            net[0] = nn.Linear(3, 4)
            with torch.no_grad():
                net[0].weight.fill_(0.25)
                net[0].bias.fill_(-0.5)
            net.insert(3, nn.Linear(4, 4))
            net[3].weight, net[3].bias = net[2].weight, net[2].bias
        if kind == "idle":
            net.add_module("idle", nn.Identity())
            net.idle.extra = nn.Linear(2, 2)
            with torch.no_grad():
                net.idle.extra.weight.fill_(1.0)
                net.idle.extra.bias.fill_(1.0)
        if kind == "nested":
            net = nn.Sequential(nn.Sequential(net, nn.Tanh()), nn.Linear(2, 1))
            with torch.no_grad():
                net[1].weight.fill_(0.5)
                net[1].bias.fill_(0.25)
        return net.double() if kind == "float64" else net

    def two_steps(attach, kind, x):
        """Two backward passes of a special net."""
        net = special_net(kind)
        flags = [parameter.requires_grad for parameter in net.parameters()]
        objects = list(net.parameters())
        detach, steps = attach(net, 0.125), []
        for _ in range(2):
            loss_of(net, x).backward()
            steps.append(values_of(net))
        return {
            "steps": steps,
            "kept": with_gradient(net),
            "flags": flags == [parameter.requires_grad for parameter in net.parameters()],
            "objects": all(a is b for a, b in zip(objects, net.parameters(), strict=True)),
            "leaves": all(parameter.is_leaf for parameter in net.parameters()),
            "callable": callable(detach),
        }

    shared_twice = (
        "A shared parameter was updated more than once: it appears under two names. parameters() lists it once."
    )
    for idea, kind, known in [
        (
            "frozen layers are skipped",
            "frozen",
            mistake(
                "A frozen parameter has no gradient to hook: skip requires_grad=False (registering raises).",
                raises="doesn't require grad",
            ),
        ),
        ("tied weights get one update with the summed gradient", "tied", mistake(shared_twice, raises="NoneType")),
        (
            "a layer that the loss does not need stays as it is",
            "idle",
            mistake("A parameter that the loss does not need gets no gradient; don't wait for it.", stage="value"),
        ),
        (
            "containers in containers",
            "nested",
            mistake("Parameters lie at any depth; parameters() finds all of them.", stage="value"),
        ),
        ("float64 weights stay float64", "float64", mistake("The dtype must stay: {detail}", stage="dtype")),
    ]:
        test.hidden(idea)
        data = x.double() if kind == "float64" else x
        seen = observe_scenario(two_steps, attach_sgd, kind, data).expecting(known)
        wanted = by_hand(special_net(kind), data, 0.125, steps=2)
        for came, weights in zip(seen["steps"], wanted, strict=True):
            seen.that(
                same_weights(came, weights),
                f"The weights are not those of plain SGD ({idea}).",
                mistake(shared_twice, when=lambda seen, kind=kind: kind == "tied"),
            )
        seen.that(not seen["kept"], "After backward .grad still holds tensors: free each one inside the hook.")
        seen.that(seen["flags"], "requires_grad of a parameter was changed.", stage="gradient")
        seen.that(seen["objects"], "The parameter object was replaced: change it in place.", stage="aliasing")
        seen.that(seen["leaves"], "A parameter must stay a leaf.", stage="gradient")

    def attached_again(attach, x):
        """Two nets; one is detached and attached again with another rate, the other goes on."""
        net, other = small_net(), small_net()
        detach, detach_other = attach(net, 0.125), attach(other, 0.25)
        for each in (net, other):
            loss_of(each, x).backward()
        found = [values_of(net), values_of(other)]
        detach()
        loss_of(other, x).backward()
        found += [values_of(other)]
        net.zero_grad()
        detach = attach(net, 0.5)
        loss_of(net, x).backward()
        found += [values_of(net)]
        detach()
        loss_of(net, x).backward()
        detach_other()
        return [*found, values_of(net)]

    test.hidden("detach, then attach again with another rate; another model is not affected")
    seen = observe_scenario(attached_again, attach_sgd, x).expecting(no_gradient)
    net = small_net()
    (wanted,), (again,) = by_hand(net, x, 0.125, steps=1), by_hand(net, x, 0.5, steps=1)
    other, other_again = by_hand(small_net(), x, 0.25, steps=2)
    came, came_other, came_other_again, came_again, at_last = seen.value
    own_rate = same_weights(came, wanted) and same_weights(came_other, other)
    seen.that(own_rate, "Each model goes by its own rate.")
    seen.that(
        same_weights(came_other_again, other_again),
        "detach() ended the updates of another model: remove the handles of this call only.",
    )
    seen.that(same_weights(came_again, again), "After attaching again the new rate must count, once.")
    seen.that(same_weights(at_last, again), "After the second detach() the parameters still change.")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.9 Hooks as instruments
#
# A net of eight layers doesn't learn. Instead of guessing, look.
#
# **Predict.** Eight times Linear and Sigmoid, with PyTorch's usual initial weights. By what factor is the gradient at
# the first layer smaller than at the last? And how many norms are noted if backward runs once more?

# %% facts=["06-hooks-purpose"]
torch.manual_seed(0)
net = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(16, 16), nn.Sigmoid())))
norms = {}


def note(module, grad_input, grad_output, name):
    norms[name] = grad_output[0].norm().item()


linear = [(name, layer) for name, layer in net.named_children() if isinstance(layer, nn.Linear)]
handles = [layer.register_full_backward_hook(partial(note, name=name)) for name, layer in linear]
x = torch.randn(4, 16, requires_grad=True)

net(x).sum().backward()
for name in reversed(norms):
    print(f"layer {name:>2}: {norms[name]:.0e}")

norms.clear()
net(x).sum().backward()
print("noted in a second pass:", len(norms))

norms.clear()
for handle in handles:
    handle.remove()
net(x).sum().backward()
print("noted after remove:    ", len(norms))

# %% [markdown]
# More than a million. Each Sigmoid multiplies the gradient by its slope, which is 1/4 at most, and each Linear makes
# it smaller too. The first layers hardly move. And note the second pass: the hooks are still there. An instrument
# that is not taken off goes on measuring, and costs time, in all later passes.
#
# The same measurement for three activations:

# %% facts=["06-hooks-purpose"]
gradient_bars(("Sigmoid", "Tanh", "ReLU"), depth=8, seed=0)

# %% [markdown]
# With Sigmoid each norm is about an eighth of its right neighbour, with Tanh and ReLU about half of it or less; eight
# layers make a large factor of either. The slope of ReLU is 0 or 1: what is lost there is lost to units that are off,
# and to the initial weights.

# %% [markdown]
# A second instrument: `saved_tensors_hooks(pack, unpack)` of `torch.autograd.graph`. Within its block, `pack` is called
# with every tensor that autograd saves for backward, and what it returns is kept in its place; `unpack` gets that when
# backward wants the tensor back.
#
# **Predict.** Between two Linear layers, which of ReLU, Sigmoid and GELU keeps the most?


# %%
def kept_for_backward(activation: nn.Module) -> str:
    """What is kept for backward apart from the parameters: the shapes, and in how many storages they lie."""
    net = nn.Sequential(nn.Linear(8, 16), activation, nn.Linear(16, 4))
    own = {parameter.untyped_storage().data_ptr() for parameter in net.parameters()}
    kept = []

    def pack(saved):
        if saved.untyped_storage().data_ptr() not in own:
            kept.append(saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        net(torch.ones(10, 8))
    storages = {saved.untyped_storage().data_ptr() for saved in kept}
    return f"{[tuple(saved.shape) for saved in kept]} in {len(storages)} storages"


for activation in (nn.ReLU(), nn.Sigmoid(), nn.GELU()):
    print(f"{type(activation).__name__:8}", kept_for_backward(activation))

# %% [markdown]
# GELU, although the shapes are the same in all three rows. The first Linear keeps its input, (10, 8), the second its
# own, (10, 16). In between, ReLU and Sigmoid need their *output* for backward: that is the very tensor which the
# second Linear keeps, so it is in the list twice and in memory once. GELU needs its *input*, one more tensor. Memory
# is counted in storages, not in shapes.

# %% [markdown]
# ### Exercise 6.7 · What does backward keep in memory?
#
# measure · solid · 15 min · 2 points
#
# In a large batch most of the memory of a training step is neither weights nor gradients: it is what forward keeps for
# backward. Build the instrument that measures it, for any model.
#
# **Contract**
#
# - Runs `model(x)` once and returns the number of bytes that autograd keeps for backward, apart from the model's own
#   parameters and buffers. x itself counts if it is saved.
# - What counts is the sum over *distinct storages*: a storage that is seen through several views counts once, with its
#   whole size.
# - Under `no_grad` nothing is saved, and the result is 0.
# - The model, its gradients and x are unchanged, no hook stays, and no backward pass is run.
#
# **Rule.** Measure, don't derive it from shapes: the check has layers that you have not seen, such as a custom Function
# and one that keeps only its input and computes everything again in backward (checkpointing).
#
# <details><summary>Hint 1</summary>
#
# Autograd packs every tensor it saves. Who can watch the packing, and when are two saved tensors the same memory?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.autograd.graph.saved_tensors_hooks(pack, unpack)` around the forward; in pack remember `untyped_storage()`:
# `data_ptr()` as the key, `nbytes()` as the value; leave out the storages of parameters and buffers; keep the output
# alive until you have counted.
#
# </details>


# %% answer="activation-bytes"
def activation_bytes(model: nn.Module, x: Tensor) -> int:
    """The bytes that autograd keeps for a backward pass through model(x), parameters and buffers not counted."""
    ### BEGIN SOLUTION
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)  # while it lives, the graph does, and no storage is given to somebody else
    for tensor in [*model.parameters(), *model.buffers()]:
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    del output
    return sum(kept.values())
    ### END SOLUTION


# %% check="activation-bytes" points=2
"""The bytes of all distinct storages that are saved, parameters and buffers not counted."""
with check("activation-bytes") as test:

    class Square(nn.Module):
        """Saves x twice, in one storage."""

        def forward(self, x):
            return x * x

    def three_layers():
        """Linear, ReLU, Linear."""
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))

    def watched(measure, model, x):
        """Measure, and note what happened to the model and to x."""
        leaves, tensors = [*model.parameters(), x], [*model.parameters(), *model.buffers(), x]
        calls, modes = [], [module.training for module in model.modules()]
        grads, flags = [t.grad for t in leaves], [t.requires_grad for t in leaves]
        values = [t.tolist() for t in tensors]
        tables = [table for m in model.modules() for kind, table in vars(m).items() if kind.endswith("_hooks")]
        counter = model.register_forward_pre_hook(lambda *args: calls.append(1))
        hooks = [len(table) for table in tables]
        came = measure(model, x)
        changed = {
            "gradients": any(t.grad is not grad for t, grad in zip(leaves, grads, strict=True)),
            "requires_grad": [t.requires_grad for t in leaves] != flags,
            "training mode": [module.training for module in model.modules()] != modes,
            "values": [t.tolist() for t in tensors] != values,
            "hooks": [len(table) for table in tables] != hooks,
            "hooks of saved tensors": torch._C._autograd._top_saved_tensors_default_hooks(True) is not None,
        }
        counter.remove()
        return {"bytes": came, "calls": len(calls), "changed": [what for what, differs in changed.items() if differs]}

    def of_three_layers(measure, x):
        """What three layers keep, in the dtype of x."""
        return watched(measure, three_layers().to(x.dtype), x)

    def of_square(measure, x):
        """What a square keeps."""
        return watched(measure, Square(), x)

    sentences = {
        "params": "Parameters or buffers are included: Linear saves its weight too (as a transposed view). Exclude by "
        "storage, not by object identity.",
        "lost": "Storages are missing: what pack neither returns nor keeps is freed during forward, and its address is "
        "given to the next one.",
        "shape": "Two storages of one shape are two storages.",
        "twice": "A storage that is saved through two views, or twice, was counted twice.",
        "numel": "That is the number of elements, not bytes; half precision takes two bytes each.",
        "outputs": "You summed the layers' outputs. Not every output is saved (a last Linear does not need its own), "
        "and some layers save their input or extra tensors.",
        "no x": "x is missing: a layer saves its input for the gradient of its weight, and the first one's input is x.",
        "view": "You counted the size of the view. What is kept alive is the whole storage behind it; an expanded "
        "tensor is the other way round.",
    }

    def judge(seen, expected, **betrayed):
        """Judge the number of bytes; numbers that betray a misconception are given by its name."""
        came = seen["bytes"]
        seen.that(
            isinstance(came, (int, float)) and not isinstance(came, bool),
            "The result must be a number of bytes, an int.",
            stage="type",
        )
        named = [
            mistake(
                "The number is wrong because the model was switched to another mode, which saves other things.",
                when=lambda seen: "training mode" in seen["changed"],
            ),
            mistake(
                "Nothing was counted. model(x) must run inside the block, with the grad mode as it is, and it is pack "
                "that is called there; unpack is called in backward.",
                when=lambda seen: came == 0 and not any(0 in numbers for numbers in betrayed.values()),
            ),
        ]
        named += [
            mistake(sentences[name.replace("_", " ")], when=lambda seen, numbers=numbers: came in numbers)
            for name, numbers in betrayed.items()
        ]
        seen.that(came == expected, f"Autograd keeps {expected} bytes here; your instrument says {came}.", *named)
        seen.that(seen["calls"] == 1, "model(x) must run once.", stage="rule")

    def batch_of(size, dtype=torch.float32):
        """A batch of inputs."""
        return (torch.arange(8 * size) * 7 % 11 - 5).reshape(size, 8).to(dtype)

    test("Linear, ReLU, Linear; a batch of 10: x (320 bytes) and the output of ReLU (640 bytes)")
    seen = observe_scenario(of_three_layers, activation_bytes, batch_of(10))
    judge(
        seen,
        960,
        params=[1280, 1920],  # 320 for a weight, with and without counting twice
        twice=[1600],
        numel=[240, 320, 400, 480],
        outputs=[1480, 1680],
        no_x=[640],
    )

    test("three times that for a batch of 30")
    judge(observe_scenario(of_three_layers, activation_bytes, batch_of(30)), 2880)

    test("x * x saves x twice, in one storage")
    seen = observe_scenario(of_square, activation_bytes, torch.arange(5.0).requires_grad_())
    judge(seen, 20, twice=[40], numel=[5, 10], no_x=[0])

    test("half precision: two bytes each")
    seen = observe_scenario(of_three_layers, activation_bytes, batch_of(10, torch.float16))
    judge(seen, 480, numel=[240, 960], params=[640, 960], twice=[800])

    ### BEGIN HIDDEN TESTS
    class Slice(nn.Module):
        """Saves a small view of a large storage."""

        def forward(self, x):
            return (2 * x)[:, 1:3].square()

    class Spread(nn.Module):
        """Saves a large view of a small storage."""

        def forward(self, x):
            return x.sum(1, keepdim=True).expand(-1, 1000).square()

    class Halves(nn.Module):
        """Saves two views of one storage that begin at different places."""

        def forward(self, x):
            h = 2 * x
            return h[:, :4] * h[:, 4:]

    class PartOfWeight(nn.Module):
        """Saves a part of its weight, which is itself a part of something larger, and a buffer."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(7, 8)[1:])
            self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)

        def forward(self, x):
            return (2 * x) @ self.weight[2:].t() * self.scale

    class Choice(nn.Module):
        """Saves a mask of one byte for each element."""

        def forward(self, x):
            return torch.where(x > 0, 2 * x, 3 * x)

    class SavesExtra(torch.autograd.Function):
        """Saves its input and a tensor of its own."""

        @staticmethod
        def forward(ctx, module, x):
            ctx.save_for_backward(x, torch.ones(7, dtype=torch.float64))
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return None, 2 * grad

    class Recomputes(torch.autograd.Function):
        """Runs a module without saving anything but x."""

        @staticmethod
        def forward(ctx, module, x):
            ctx.module = module
            ctx.save_for_backward(x)
            return module(x)

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                return None, torch.autograd.grad(ctx.module(x), x, grad)[0]

    class Through(nn.Module):
        """Hands a module and x to a function."""

        def __init__(self, function):
            super().__init__()
            self.inner, self.function = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8)), function

        def forward(self, x):
            return self.function(self.inner, x)

    def of_layer(measure, kind, x):
        """What a layer keeps, or three layers of which not all are trained."""
        if kind == "slice":
            model = Slice()
        elif kind == "spread":
            model = Spread()
        elif kind == "halves":
            model = Halves()
        elif kind == "part of weight":
            model = PartOfWeight()
        elif kind == "choice":
            model = Choice()
        elif kind == "norm":
            model = nn.BatchNorm1d(8).eval()
        elif kind == "deep":
            model = nn.Sequential(*[nn.Sigmoid() for _ in range(30)])
        elif kind == "sigmoid":
            model = nn.Sequential(nn.Sigmoid())
        else:
            model = three_layers()
            model.requires_grad_(kind != "frozen")
            model[0].requires_grad_(kind not in ("frozen", "frozen below"))
        with torch.set_grad_enabled(kind != "no_grad"):
            return watched(measure, model, x)

    def of_function(measure, kind, x):
        """What a custom Function keeps."""
        functions = {"as it is": lambda module, x: module(x), "again": Recomputes.apply, "extra": SavesExtra.apply}
        return watched(measure, Through(functions[kind]), x)

    tracked = batch_of(10).requires_grad_()
    for idea, kind, x, expected, betrayed in [
        ("a slice keeps the whole storage behind it", "slice", tracked, 320, {"view": [80]}),
        ("an expanded tensor keeps its small storage only", "spread", tracked, 40, {"view": [40000]}),
        ("two views of one storage that begin at different places", "halves", tracked, 320, {"twice": [640]}),
        ("x is a view itself", "three", torch.ones(10, 12)[:, 2:10], 1120, {"view": [960, 1600], "no x": [640]}),
        ("a mask takes one byte for each element", "choice", tracked, 80, {}),
        ("the output of a last layer, where that is what is saved", "sigmoid", tracked, 320, {}),
        ("under no_grad nothing is saved", "no_grad", batch_of(10), 0, {}),
        ("under no_grad nothing is saved, also where x requires grad", "no_grad", tracked, 0, {}),
        ("a frozen model saves nothing for a plain x", "frozen", batch_of(10), 0, {"outputs": [1480], "params": [320]}),
        ("a frozen first layer", "frozen below", batch_of(10), 640, {"params": [960]}),
        ("a part of a weight, and a buffer", "part of weight", tracked, 320, {"params": [336, 544, 560]}),
        (
            "batch norm in eval mode: its buffers are not counted",
            "norm",
            batch_of(10),
            320,
            {"params": [352, 384, 416]},
        ),
    ]:
        test.hidden(idea)
        seen = observe_scenario(of_layer, activation_bytes, kind, x)
        judge(seen, expected, **{name.replace(" ", "_"): numbers for name, numbers in betrayed.items()})

    test.hidden("many layers of one size")
    for width in (50, 70, 90, 110, 1000):  # whether a freed address is given out again depends on the size
        seen = observe_scenario(of_layer, activation_bytes, "deep", torch.ones(10, width).requires_grad_())
        judge(seen, 1200 * width, shape=[40 * width], lost=range(1200 * width))

    for idea, kind, expected in [
        ("the layers in a module of their own", "as it is", 1600),
        ("the same layers, computed again in backward: only x is saved", "again", 320),
        ("a custom Function that saves a tensor of its own", "extra", 376),
    ]:
        test.hidden(idea)
        judge(observe_scenario(of_function, activation_bytes, kind, tracked), expected)

    test.hidden("the model and x are unchanged")
    for kind, x in (("three", batch_of(10)), ("norm", tracked), ("frozen below", tracked)):
        seen = observe_scenario(of_layer, activation_bytes, kind, x)
        changed = ", ".join(seen["changed"])
        seen.that(
            not changed,
            f"The model or x was changed ({changed}).",
            mistake(
                "The hooks of saved tensors are still on: enter them by `with`, so that they end with the block.",
                when=lambda seen: seen["changed"] == ["hooks of saved tensors"],
            ),
            stage="arguments",
        )
    ### END HIDDEN TESTS

# %% [markdown]
# **Predict.** The gradient of a weight is a sum over the samples of a batch (section 6.6). Some methods need the norm
# of each summand: clipping for privacy, or looking for mislabelled samples. From which two tensors can the summands
# of a Linear layer be computed, and which hooks catch them?

# %% facts=["06-full-backward-hook-signature", "06-fc-bias-grad-per-sample"]
torch.manual_seed(0)
layer = nn.Linear(3, 2)
caught = {}
layer.register_forward_hook(lambda module, args, output: caught.update(a=args[0].detach()))
layer.register_full_backward_hook(lambda module, grad_input, grad_output: caught.update(g=grad_output[0]))

x = torch.randn(4, 3, requires_grad=True)
layer(x).square().sum().backward()

a, g = caught["a"], caught["g"]
summands = [torch.outer(g[n], a[n]) for n in range(4)]
print("their sum is weight.grad:", torch.allclose(sum(summands), layer.weight.grad, atol=1e-6))
print("norms of the summands:   ", [round(summand.norm().item(), 2) for summand in summands])
print("|g| times |a|:           ", [round((g[n].norm() * a[n].norm()).item(), 2) for n in range(4)])

# %% [markdown]
# The layer's input `a`, from a forward hook, and the gradient `g` of its output, from a full backward hook. The
# summand of sample n is the outer product of `g[n]` and `a[n]`, and the norm of an outer product is the product of
# the norms. So one forward and one backward pass serve all samples. It needs a loss that is a *sum* over samples, and
# no layer that mixes samples: then row n of `g` belongs to sample n alone.

# %% [markdown]
# ### Exercise 6.8 · Per-sample gradient norms from one backward
#
# implement · long · 30 min · 3 points
#
# How much does each single sample want to change the model? Training with differential privacy clips by this number,
# and it helps to find wrongly labelled samples. `.grad` holds only the sum over the batch; hooks get all the norms out
# of one backward pass.
#
# **Contract**
#
# - `loss_fn(model(x), y)` gives one loss for each sample, shape (N,). Returned is for each sample the L2 norm of the
#   gradient of *its* loss with respect to all trainable parameters together: shape (N,), dtype of the loss, detached.
# - You may count on this: all trainable parameters belong to nn.Linear layers (with or without bias, each called once)
#   that see (N, D) or (N, T, D); nothing works in place. What is frozen does not count.
# - No `.grad` changes, neither of a parameter nor of x, and no hook stays.
#
# **Rule.** The model runs once, backward runs once, and there is no loop over samples.
#
# <details><summary>Hint 1</summary>
#
# For one sample of a Linear, which two vectors multiply to give the weight gradient? What is the norm of an outer
# product, and what changes if a sample has T rows?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keep each Linear's input a (forward hook) and output gradient g (full backward hook, or `torch.autograd.grad` for the
# kept outputs) from *one* backward of `losses.sum()`. Per sample the weight gradient is the sum over t of g_t a_tᵀ: an
# einsum over t gives (N, out, in); the bias gradient is g summed over t. Add squared norms over layers, then the root.
#
# </details>


# %% answer="per-sample-grad-norms"
def per_sample_grad_norms(
    model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> Tensor:
    """The norm of the gradient of each sample's loss, (N,); loss_fn(model(x), y) is (N,)."""
    ### BEGIN SOLUTION
    ends: dict[nn.Linear, tuple[Tensor, Tensor]] = {}

    def keep(layer: nn.Linear, args: tuple, output: Tensor) -> None:
        ends[layer] = args[0].detach(), output

    layers = [m for m in model.modules() if isinstance(m, nn.Linear) and any(p.requires_grad for p in m.parameters())]
    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        losses = loss_fn(model(x), y)
    finally:
        for handle in handles:
            handle.remove()

    outputs = [output for _, output in ends.values()]
    squares = torch.zeros_like(losses)
    for (layer, (a, _)), g in zip(ends.items(), torch.autograd.grad(losses.sum(), outputs), strict=True):
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))  # (N, T, D), T is 1 for (N, D)
        if layer.weight.requires_grad:
            squares += torch.einsum("nto,nti->noi", g, a).square().sum((1, 2))
        if layer.bias is not None and layer.bias.requires_grad:
            squares += g.sum(1).square().sum(1)
    return squares.sqrt()
    ### END SOLUTION


# %% check="per-sample-grad-norms" points=2
"""The norms that one backward pass for each sample would give, from a single forward and backward."""
with check("per-sample-grad-norms") as test:

    class Pool(nn.Module):
        """The mean over T: (N, T, D) becomes (N, D)."""

        def forward(self, x):
            return x.mean(1)

    def numbers(shape, shift=0.0):
        """Fixed numbers of all sizes."""
        count = torch.Size(shape).numel()
        return torch.tensor([k * 7 % 11 / 8 + shift - 0.6 for k in range(count)]).reshape(shape)

    def model_for(kind):
        """The model of a setting, with fixed weights."""
        bias = kind != "no bias"
        width = 3 if kind == "square" else 4
        layers = [nn.Linear(3, width, bias=bias), nn.Tanh(), nn.Linear(width, width, bias=bias), nn.Tanh()]
        layers.append(nn.Linear(width, 2))
        if kind == "pooled":
            layers.insert(3, Pool())
        if kind == "nested":
            layers = [nn.Sequential(*layers[:2]), nn.Sequential(nn.Sequential(*layers[2:]))]
        model = nn.Sequential(*layers)
        with torch.no_grad():
            for shift, parameter in enumerate(model.parameters()):
                parameter.copy_(numbers(parameter.shape, shift / 16))
        if kind == "frozen first":
            model[0].requires_grad_(False)
        if kind == "frozen middle":
            model[2].requires_grad_(False)
        if kind == "frozen last":
            model[4].requires_grad_(False)
        if kind == "biases":
            model.requires_grad_(False)
            model[0].bias.requires_grad_()
            model[4].bias.requires_grad_()
        if kind == "weights":
            model[2].bias.requires_grad_(False)
        return model.double() if kind == "float64" else model

    def data_for(kind):
        """x and y of a setting."""
        size = {"one sample": 1, "twelve samples": 12}.get(kind, 5)
        if kind in ("sequence", "pooled", "one step"):
            x = numbers((size, 1 if kind == "one step" else 6, 3))
            return x, numbers((size, 2) if kind == "pooled" else (*x.shape[:2], 2), 0.25)
        x = numbers((size, 3))
        if kind in ("classes", "one sample", "twelve samples", "nested"):
            return x, torch.arange(size) % 2
        if kind == "square":
            x.requires_grad_()
        return (x.double() if kind == "float64" else x), numbers((size, 2), 0.25)

    def losses_for(kind, out, y):
        """The losses of a setting, one for each sample."""
        if not y.is_floating_point():
            return nn.functional.cross_entropy(out, y, reduction="none")
        if kind == "wide loss":
            out = out.double()
        squares = (out - y).square().flatten(1).mean(1)
        return (squares - 0.9).relu() if kind == "no gradient" else squares

    def measured(measure, kind):
        """The norms, and how often the first Linear and the backward pass of the output ran."""
        model, (x, y) = model_for(kind), data_for(kind)
        calls, backwards = [], []
        first = next(module for module in model.modules() if isinstance(module, nn.Linear))

        def count_call(module, args):
            calls.append(1)

        def count_backward(module, args, output):
            with suppress(RuntimeError):  # inside of torch.func no hook can be registered
                output.register_hook(lambda grad: backwards.append(1))

        first.register_forward_pre_hook(count_call)
        model.register_forward_hook(count_backward)
        norms = measure(model, lambda out, y: losses_for(kind, out, y), x, y)
        return {"norms": norms, "calls": len(calls), "backwards": len(backwards)}

    def one_by_one(kind):
        """For each sample the norms of the gradients of all trainable parameters, by a backward pass of its own."""
        model, (x, y) = model_for(kind), data_for(kind)
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        rows = []
        for i in range(len(x)):
            loss = losses_for(kind, model(x[i : i + 1]), y[i : i + 1]).sum()
            grads = torch.autograd.grad(loss, list(parameters.values()))
            rows.append({name: grad.norm() for name, grad in zip(parameters, grads, strict=True)})
        return rows

    def together(rows, keep=lambda name: True):
        """The norm of some parameters' gradients together, for each sample."""
        return torch.stack([torch.stack([n for name, n in row.items() if keep(name)]).norm() for row in rows])

    def judge(seen, kind, *mistakes):
        """Judge shape, dtype and values of the norms."""
        came, rows = seen["norms"], one_by_one(kind)
        expected = together(rows)
        if kind == "wide loss":
            expected = expected.double()
        seen.that(isinstance(came, Tensor), "The result must be a tensor with one norm for each sample.", stage="type")
        seen.that(
            came.shape == expected.shape,
            f"The result must have shape {tuple(expected.shape)}, one norm for each sample, not {tuple(came.shape)}.",
            stage="shape",
        )
        seen.that(
            came.dtype == expected.dtype,
            f"The result must have the dtype of the loss, {expected.dtype}; it has {came.dtype}.",
            stage="dtype",
        )

        seen.that(came.device == expected.device, "The result must be on the device of the loss.", stage="device")

        def looks_like(norms):
            return torch.allclose(came, norms.to(came.dtype), rtol=1e-4, atol=1e-6)

        size = len(expected)
        owners = {name.rpartition(".")[0] for name in rows[0]}
        of_layers = [together(rows, lambda name, owner=owner: name.rpartition(".")[0] == owner) for owner in owners]
        of_parameters = [together(rows, lambda name, one=one: name == one) for one in rows[0]]
        biased = any("bias" in name for name in rows[0])
        seen.that(
            looks_like(expected),
            "The norms differ from one backward per sample. Did you multiply the input with the gradient of the "
            "layer's OUTPUT (grad_output), not with grad_input?",
            *mistakes,
            mistake(
                "Your norms are N times too small: backward of the mean divides each sample's gradient by N. "
                "Sum the losses.",
                when=lambda seen: looks_like(expected / size),
            ),
            mistake(
                "The bias gradients are missing from the norm.",
                when=lambda seen: biased and looks_like(together(rows, lambda name: "bias" not in name)),
            ),
            mistake(
                "Norms of layers do not add; their squares do.",
                when=lambda seen: looks_like(sum(of_layers)) or looks_like(sum(of_parameters)),
            ),
            mistake("These are squares: the root is missing.", when=lambda seen: looks_like(expected.square())),
        )
        seen.that(not came.requires_grad, "The norms carry a graph: detach them.", stage="gradient")

    test("an MLP with cross entropy, compared with one backward for each sample")
    seen = observe_scenario(measured, per_sample_grad_norms, "classes").expecting(
        mistake(
            "The first layer's input needs no gradient, so grad_input is None there. Multiply the input with the "
            "gradient of the layer's OUTPUT (grad_output), not with grad_input.",
            raises="NoneType",
        ),
    )
    judge(seen, "classes")

    test("one forward, one backward")
    loop = "The model ran more than once: get all samples from one forward and one backward."
    seen.that(seen["calls"] == 1, loop, stage="rule")
    seen.that(
        seen["backwards"] <= 1,
        f"Backward ran {seen['backwards']} times: get all samples from one backward, without a loop over samples.",
        stage="rule",
    )

    test("no loop over samples: the same number of torch calls for a larger batch")
    larger = observe_scenario(measured, per_sample_grad_norms, "twelve samples")
    judge(larger, "twelve samples")
    larger.that(
        len(larger.op_names(level="python")) < len(seen.op_names(level="python")) + 7,
        "Seven samples more take seven torch calls more, or a multiple: work on all samples at once, without a loop.",
        stage="rule",
    )

    ### BEGIN HIDDEN TESTS
    def products_of_norms(kind):
        """What the product of norms would give for sequences, all layers and their biases together."""
        model, (x, y) = model_for(kind), data_for(kind)
        total, h, kept = 0, x, []
        for layer in model:
            out = layer(h)
            if isinstance(layer, nn.Linear):
                kept.append((h, out))
            h = out
        grads = torch.autograd.grad(losses_for(kind, h, y).sum(), [out for _, out in kept])
        for (a, _), g in zip(kept, grads, strict=True):
            a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (a, g))
            total = total + (g.square().sum((1, 2)) * a.square().sum((1, 2))) + g.sum(1).square().sum(1)
        return total.sqrt()

    for idea, kind, sentence in [
        ("layers without a bias", "no bias", "A Linear may have no bias."),
        ("float64", "float64", "The norms differ where the model and the loss are float64."),
        ("a batch of one", "one sample", "The norms differ for a batch of one."),
        ("layers inside of containers", "nested", "Layers inside of containers belong to the model too."),
        ("a loss of a wider dtype than the model", "wide loss", "The norms differ where the loss is float64."),
        ("a frozen first layer", "frozen first", "Frozen layers must not count."),
        ("a frozen layer in the middle", "frozen middle", "Frozen layers must not count."),
        ("a frozen last layer", "frozen last", "Frozen layers must not count."),
        (
            "only two biases are trained",
            "biases",
            "Frozen parameters must not count, not even in a layer that is trained.",
        ),
        ("one bias is frozen", "weights", "Frozen parameters must not count, not even in a layer that is trained."),
        ("square layers, and an x that requires grad", "square", "The norms differ for square layers."),
        ("a sequence of one step", "one step", "The norms differ for x of shape (N, 1, D)."),
    ]:
        test.hidden(idea)
        seen = observe_scenario(measured, per_sample_grad_norms, kind).expecting(mistake(sentence, stage="value"))
        seen.expecting(mistake(sentence + " Here it raised: {detail}", stage="raised"))
        judge(seen, kind)
        seen.that(seen["calls"] == 1, loop, stage="rule")

    for idea, kind in [
        ("x of shape (N, T, D)", "sequence"),
        ("some layers see (N, T, D), others (N, D)", "pooled"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(measured, per_sample_grad_norms, kind).expecting(
            mistake(
                "For (N, T, D) the gradient of a sample is a sum over its T rows: of outer products for the weight, "
                "of g for the bias.",
                stage="value",
            )
        )
        wrong_norms = products_of_norms(kind)
        judge(
            seen,
            kind,
            mistake(
                "For (N, T, D) the norm of a sum of outer products is not the product of norms: sum over T first.",
                when=lambda seen, norms=wrong_norms: torch.allclose(seen["norms"], norms, rtol=1e-3),
            ),
        )
        seen.that(seen["backwards"] <= 1, "Backward ran more than once.", stage="rule")

    test.hidden("samples whose loss has no gradient")
    seen = observe_scenario(measured, per_sample_grad_norms, "no gradient")
    judge(
        seen,
        "no gradient",
        mistake(
            "A sample whose loss has no gradient has norm 0, not nan.", when=lambda seen: seen["norms"].isnan().any()
        ),
        mistake("A sample whose loss has no gradient has norm 0, exactly.", when=lambda seen: seen["norms"].all()),
    )
    ### END HIDDEN TESTS

# %% check="per-sample-grad-norms" points=1
"""No .grad is written or changed, and no hook stays."""
with check("per-sample-grad-norms") as test:

    def distances(out, y):
        """One loss for each sample."""
        return (out - y).square().sum(1)

    def hooks_on(model, *tensors):
        """Every hook of the model's modules, of all modules and of some tensors, with its place."""
        places = [(f"module {name}".strip(), vars(module)) for name, module in model.named_modules()]
        places.append(("all modules", vars(nn.modules.module)))
        for tensor in tensors:
            kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
            places.append(("a tensor", {kind: getattr(tensor, kind) for kind in kinds}))
        return [
            (place, kind, key, hook)
            for place, attributes in places
            for kind, hooks in attributes.items()
            if kind.endswith("_hooks") and isinstance(hooks, dict)
            for key, hook in hooks.items()
        ]

    def traces(measure, x, old_gradients):
        """What measuring leaves behind, on a net of square layers."""
        torch.default_generator.manual_seed(3)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        net[0].register_forward_hook(lambda *args: None)
        tensors = {"x": x} | dict(net.named_parameters())
        for shift, tensor in enumerate(tensors.values()):
            if old_gradients and tensor.requires_grad:
                tensor.grad = torch.full_like(tensor, 5.0 + shift)
        flags = {name: tensor.requires_grad for name, tensor in tensors.items()}
        values = {name: tensor.tolist() for name, tensor in tensors.items()}
        grads = {name: tensor.grad for name, tensor in tensors.items()}
        numbers = {name: None if grad is None else grad.tolist() for name, grad in grads.items()}
        before = hooks_on(net)
        norms = measure(net, distances, x, torch.tensor([[0.5, 1.0, -2.0], [1.5, -0.25, 0.75]]))
        after, now = hooks_on(net, *tensors.values()), {"x": x} | dict(net.named_parameters())
        return {
            "size": len(norms) if isinstance(norms, Tensor) and norms.dim() == 1 else 0,
            "came": [hook[0] for hook in after if hook not in before],
            "went": [hook[0] for hook in before if hook not in after],
            "grad": [
                name
                for name, tensor in now.items()
                if (tensor.grad is None) != (grads[name] is None)
                or (tensor.grad is not None and tensor.grad.tolist() != numbers[name])
            ],
            "changed": [
                name for name, t in now.items() if t.requires_grad != flags[name] or t.tolist() != values[name]
            ],
        }

    def judge(seen):
        """Judge that nothing is left behind."""
        seen.that(not seen["went"], "Someone else's hook disappeared: remove your own handles only.", stage="rule")
        places = ", ".join(dict.fromkeys(seen["came"]))
        seen.that(not seen["came"], f"Hooks stayed on the model ({places}).", stage="rule")
        written = ", ".join(seen["grad"])
        seen.that(
            not written,
            f".grad of the parameters changed ({written}): use autograd.grad, or save and restore.",
            mistake("x.grad changed: it belongs to the caller.", when=lambda seen: seen["grad"] == ["x"]),
            stage="arguments",
        )
        changed = ", ".join(seen["changed"])
        seen.that(not changed, f"Values or requires_grad were changed: {changed}.", stage="arguments")

    test("no hooks and no .grad left")
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    seen = observe_scenario(traces, per_sample_grad_norms, x, False)
    judge(seen)
    seen.that(seen["size"] == 2, "The result must be a tensor with one norm for each sample.", stage="shape")

    ### BEGIN HIDDEN TESTS
    for idea, some_x, old_gradients in [
        ("gradients that are there already stay", x, True),
        ("an x that requires grad is accepted and left alone", x.clone().requires_grad_(), False),
        ("the gradient of x stays", x.clone().requires_grad_(), True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(traces, per_sample_grad_norms, some_x, old_gradients)
        judge(seen)
        seen.that(seen["size"] == 2, "The result must be a tensor with one norm for each sample.", stage="shape")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 6.10 Hooks on saving and loading
#
# Modules take four more kinds of hook, which have nothing to do with a forward pass: before and after `state_dict`,
# before and after `load_state_dict`.
#
# **Predict.** In an old checkpoint the layer was called `fc`; now it is `head`. A hook renames the keys of the
# dictionary just before the module reads it. Does `old_checkpoint` have the new names afterwards?


# %%
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 1)


def rename(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    old, new = prefix + "fc.", prefix + "head."
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key.removeprefix(old)] = state_dict.pop(key)


old_checkpoint = {"fc.weight": torch.full((1, 2), 7.0), "fc.bias": torch.zeros(1)}
model = Classifier()
error_of(lambda: model.load_state_dict(old_checkpoint))

model.register_load_state_dict_pre_hook(rename)
print(model.load_state_dict(old_checkpoint))
print("head.weight:   ", model.head.weight.tolist())
print("old_checkpoint:", list(old_checkpoint))


def halve(module, state_dict, prefix, local_metadata):
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key] = state_dict[key].half()


model.register_state_dict_post_hook(halve)
print("saved as", model.state_dict()["head.weight"].dtype, "while the model has", model.head.weight.dtype)

# %% [markdown]
# No: `load_state_dict` works on a copy of the dictionary. `prefix` is the place of the module in the whole model,
# here empty. When the classifier is a part of something larger, the dictionary holds the keys of the whole, and
# `prefix` tells which are its own. The second hook does the like on the way out, to the dictionary that `state_dict()`
# is about to return. Both change it in place and return nothing. Chapter 7 is about what stands in it.

# %% [markdown]
# ## On a GPU
#
# Without a CUDA device each of the next cells prints one line, and below it a recorded output if there is a recording
# from another machine.
#
# **Predict.** Twelve weights of 2048 × 2048, 16 MiB each, take a plain SGD step: once after backward, once inside it,
# each in its own post-accumulate hook. By how much does the peak of memory differ?


# %% facts=["06-post-accumulate-grad-hook"] varies="a CUDA device changes what is shown"
@cuda_demo("06_hooks")
def peak_of_a_step() -> None:
    """The peak of allocated memory for a step after backward and for a step inside backward."""
    mib = 2**20

    def update(parameter):
        with torch.no_grad():
            parameter.sub_(parameter.grad, alpha=0.01)
        parameter.grad = None

    def step(net, x, inside):
        net(x).sum().backward()
        if not inside:
            for parameter in net.parameters():
                update(parameter)

    for inside in (False, True):
        net = nn.Sequential(*(nn.Linear(2048, 2048, bias=False, device="cuda") for _ in range(12)))
        x = torch.ones(16, 2048, device="cuda")
        if inside:
            for parameter in net.parameters():
                parameter.register_post_accumulate_grad_hook(update)
        step(net, x, inside)  # the first step sets up what CUDA's libraries keep
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(net, x, inside)
        extra = torch.cuda.max_memory_allocated() - before
        print(f"{'inside' if inside else 'after'} backward: {extra / mib:.0f} MiB on top of the weights")
        del net, x


peak_of_a_step()

# %% [markdown]
# Section 6.8 counted gradients: after backward all twelve are there at once, which makes 12 · 16 = 192 MiB; inside it,
# each is dropped before the next one is added to its `.grad`. The price: nothing that needs all gradients together,
# such as clipping by their common norm, can be done in between.

# %% [markdown]
# **Predict.** Features of 16 MiB each are collected from twenty batches. What does the GPU hold at the end if they
# are stored attached, detached, or detached and moved to the CPU?


# %% facts=["06-forward-hook-gets-feature-maps"] varies="a CUDA device changes what is shown"
@cuda_demo("06_hooks")
def cost_of_capturing() -> None:
    """Memory that stays allocated after features were collected in three ways."""
    mib = 2**20
    ways = {
        "attached": lambda output: output,
        "detached": lambda output: output.detach(),
        "on the CPU": lambda output: output.detach().cpu(),
    }
    net = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.Tanh()))).cuda()
    net(torch.ones(4096, 1024, device="cuda"))  # the first pass sets up what CUDA's libraries keep
    for name, way in ways.items():
        features = []

        def keep(module, args, output, way=way, features=features):
            features.append(way(output))

        handle = net[-1].register_forward_hook(keep)
        before = torch.cuda.memory_allocated()
        for _ in range(20):
            net(torch.ones(4096, 1024, device="cuda"))
        print(f"{name:11} {(torch.cuda.memory_allocated() - before) / mib:.0f} MiB")
        handle.remove()
        features.clear()


cost_of_capturing()

# %% [markdown]
# An attached feature holds its graph, and with it every tensor that was saved on the way: here the input of the net
# and the outputs of all its activations, for each batch. Detached, only the features stay. On the CPU none of them is
# in the GPU's memory, but each copy waits until the GPU has finished the batch.

# %% [markdown]
# ## Folklore, checked
#
# What people say about hooks, and what is so. Each row unfolds its proof: a few lines that run through only if the
# statement on the right holds.

# %%
folklore(
    "06_hooks",
    ids=[
        "06-call-runs-forward-and-hooks",
        "06-forward-hook-no-return-value",
        "06-forward-hook-cannot-change-input",
        "06-full-hook-replaces-grad-input",
        "06-register-hook-cheaper-than-retain-grad",
        "06-backward-hook-simple-modules-only",
        "06-linear-weight-grad-transposed",
        "06-fc-bias-grad-per-sample",
        "06-input-must-be-2d",
        "06-backward-sample-runs",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

# %%
prove("06-backward-hook-simple-modules-only")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - `torch.nn.Module`: the functions `register_…_hook`, each with the arguments of its hook and its options;
# - `torch.Tensor.register_hook` and `torch.Tensor.register_post_accumulate_grad_hook`;
# - the note "Autograd mechanics", section "Backward Hooks execution": which backward hooks fire and in which order,
#   also for tensors that are changed in place;
# - `torch.autograd.graph`: `saved_tensors_hooks`, and hooks on single nodes of the graph;
# - `torch.nn.modules.module.register_module_forward_hook` and its relatives: hooks on every module of the process,
#   for debugging;
# - the tutorials "How to save memory by fusing the optimizer step into the backward pass" and "Per-sample-gradients".
