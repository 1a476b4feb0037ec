# %% [markdown]
# # Hooks
#
# A hook is a function of yours that PyTorch calls at a certain moment of a forward or backward pass. Hooks let you look
# into a model, or change what flows through it, without touching its code. After this chapter you can
#
# - say which hook fires when and with which arguments, and predict the order for a nested model, with and without a
# gradient on its input;
# - get features and gradients out of any model, and leave no hook behind even if an exception is raised;
# - change what flows backward by returning a value, and say what this does *not* change;
# - use hooks as instruments that measure the bytes kept for backward and the gradient norm of each layer and each
#   sample, or that take an optimizer step inside backward;
# - read old code with `register_backward_hook`, explain its strange triples, and port it.
#
# **65 minutes to read, 142 minutes to practise, 20 points.** You need chapter 4: leaves, `.grad`, what `backward`
# adds where, saved tensors; from chapter 2 what a view is, and from chapter 5 what a custom Function is. A module
# here is a layer or a model that you call.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import copy
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from textwrap import fill
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from torchkata.demos import error_of, every_warning, results_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.feature_maps import feature_maps
from torchkata.pictures.gradient_bars import gradient_bars
from torchkata.pictures.hook_places import hook_places
from torchkata.pictures.hook_timeline import hook_explorer
from torchkata.pictures.old_hook import old_and_full_hook
from torchkata.verdicts import (
    check,
    incoming_gradient,
    mistake,
    observe_scenario,
    observe_value,
    ordering,
    separation,
)

# %% [markdown]
# A colleague hands you this network and says it won't train.

# %%
torch.manual_seed(0)
blocks = [layer for _ in range(8) for layer in (nn.Linear(16, 16), nn.Sigmoid())]
deep = nn.Sequential(*blocks, nn.Linear(16, 1))
inputs = torch.randn(64, 16)
targets = inputs[:, :1].sign()
optimizer = torch.optim.SGD(deep.parameters(), lr=0.1)

for step in range(301):
    loss = (deep(inputs) - targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3}: loss {loss.item():.4f}")

# %% [markdown]
# The target is just the sign of the first input, which a single layer could learn. Yet the loss stays at 0.98, and the
# network gives every input nearly the same answer. Nothing crashed, so there is no traceback to read, and since the
# code isn't yours you'd rather not add a `print` to every layer. You want to watch the gradients without touching the
# model.
#
# Hooks let you do that. The picture shows the places around one layer where you can attach one. The blue boxes are one
# call of one layer, with the forward pass in the upper row and the backward pass in the lower ones. The orange boxes
# are hooks, each with the arguments that your function gets.

# %%
hook_places()

# %% [markdown]
# Section 6.9 returns to this network and finds the cause with one hook.
#
# ## 6.1 `model(x)` is more than `model.forward(x)`
#
# A hook can only run if PyTorch gets the chance to call it, so let's first see what happens when you call a module.
#
# **Predict.** The hook below records every call it sees. We call the layer twice, then call its `forward` method
# directly, then remove the hook and call the layer once more. How many calls has the hook recorded before it is
# removed, and how many at the end?

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
# The hook recorded the two calls of `layer(x)`, and nothing after it was removed. Calling a module runs its forward
# pre-hooks, then `forward`, then its forward hooks. `layer.forward(x)` skips all hooks, which is why everyone writes
# `model(x)`.
#
# Every function that registers a hook returns a *handle*. The hook runs in all later calls until you call
# `handle.remove()`. You can also use the handle in a `with` statement, `with layer.register_forward_hook(...):`, which
# removes the hook when the block ends.
#
# Do hooks belong to the module object or to its weights? To find out, we register three hooks (the third with
# `prepend=True`) and copy the layer in two ways.

# %% facts=["06-call-runs-forward-and-hooks"]
layer = nn.Linear(2, 3)
order = []
for name, in_front in (("first", False), ("second", False), ("third", True)):
    layer.register_forward_hook(lambda *_, name=name: order.append(name), prepend=in_front)

layer(x)
print("the layer:               ", order)

order.clear()
copy.deepcopy(layer)(x)
print("a deep copy:             ", order)

order.clear()
loaded = nn.Linear(2, 3)
loaded.load_state_dict(layer.state_dict())
loaded(x)
print("a layer with its weights:", order)

# %% [markdown]
# They belong to the object. A deep copy copies the whole object, while a `state_dict` contains only tensors. Hooks run
# in the order of registration, except that a hook with `prepend=True` goes to the front. `torch.save(layer)` tries to
# pickle the hook functions along with the layer, and fails if one of them is a lambda.
#
# **Now you know.** A hook is attached to a module object. It runs when you call the module, doesn't run when you call
# `forward`, isn't saved with the weights, and stays attached until you remove it.
#
# ## 6.2 Who fires when
#
# Sections 6.2 to 6.8 are mostly about six kinds of hook, all of which can watch one training step:
#
# | on a module | your function is called as | when |
# |---|---|---|
# | `register_forward_pre_hook` | `hook(module, args)` | before `forward` |
# | `register_forward_hook` | `hook(module, args, output)` | after `forward` |
# | `register_full_backward_pre_hook` | `hook(module, grad_output)` | the gradient of the output is known |
# | `register_full_backward_hook` | `hook(module, grad_input, grad_output)` | the gradient of the input is also known |
# | **on a tensor** | | |
# | `register_hook` | `hook(grad)` | its gradient is known, `.grad` is not yet touched |
# | `register_post_accumulate_grad_hook` | `hook(tensor)` | its gradient has been added to `.grad` (leaves only) |
#
# A full backward hook reports the gradient of its module's *input*, so it waits until that gradient is known. If no
# input requires grad, there is no such gradient, and the hook fires as soon as the gradient of the *output* is known.
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
    told = f"{warning.category.__name__}: {str(warning.message).partition(' See ')[0]}"
    print(fill(told, 90, subsequent_indent="    "))

# %% [markdown]
# Backward visits the modules in reverse, `b` first and then `a`. The input of `net` is also the input of `a`, so `net`
# comes last.
#
# With a plain `x`, autograd doesn't compute the gradient of the input, so the order changes. The hook of `net` fires
# first, because backward starts at the output of `net`, and the hook of `a` fires last. Both get None for the input,
# and PyTorch warns about it. The documentation states this rule on the page of `torch.nn.Module`, under
# `register_full_backward_hook`.

# %% [markdown]
# The explorer runs such a step with all six kinds of hook and draws the calls in the order in which they happened, with
# forward from left to right and backward below it from right to left. A bar joins the two hooks that open and close a
# module.
#
# It opens with a nested network, in which `net` contains `block` and `c`, and `block` contains `a` and `b`. In forward,
# `net` opens first and closes last. In backward, the tensor hook of a weight fires before the post-accumulate hook of
# the same weight, and here both fire before the hook that closes the layer. Now switch off *x requires grad* and see
# where `net`, `block` and `a` close. Choose *one layer used twice* and count how often the hooks of its weight fire.
# Switch on *no_grad*. *next event* shows what each hook is given. Leave *two layers* for later, because the exercise
# below asks you for its order.

# %% facts=["06-backward-hooks-fire-in-reverse"]
hook_explorer()

# %% [markdown]
# If a layer is used twice, its module hooks are called twice. Its weight is one tensor with one gradient, the sum of
# both uses, so the hooks of the weight fire once. Under `no_grad` there is no graph, so no backward hook fires.
#
# **Now you know.** A hook fires when what it waits for is ready, and you can rely on that. The order of two branches
# that don't wait for each other is an accident of this version of PyTorch, and you can't rely on that.

# %% exercise="hooks-in-order"

# %% [markdown]
# ## 6.3 What a forward hook sees and may change
#
# Even a hook that is only meant to look can change a model's results, through what it returns or what it writes.
#
# **Predict.** A forward hook returns ten times the output. Does PyTorch ignore the return value? What are `y`, `x.grad`
# and `weight.grad`?

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
# PyTorch doesn't ignore it. If a forward hook returns anything other than None, that value replaces the output of the
# module. Autograd records the multiplication like any other, so the factor is in every gradient. A hook that only looks
# must return None. A lambda always returns the value of its expression, and while `append` and `print` return None,
# other calls may not.
#
# Can a forward hook also change the input? This hook writes zeros into the input after `forward` has run, on three
# kinds of module.


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
# The output of `Linear` is a new tensor with its own memory, so it doesn't change. `Identity` returns its input, and so
# does `Flatten` here, because a matrix is flat already. (With more dimensions it returns a view, chapter 2.) So both
# outputs become zero. A forward hook therefore runs too late to change what `forward` reads, and yet writing into its
# arguments can do harm. To change an input, use a forward *pre*-hook, whose return value replaces the arguments.
#
# **Find the line.** The same layer is called twice below, once as `layer(x)` and once as `layer(input=x)`. In one of
# the two calls, a hook that reads `args[0]` would raise. Which one, and why?

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
# It would raise in the second call. `args` contains only the *positional* arguments, and that call has none. To see
# keyword arguments, register the hook with `with_kwargs=True` and give it one more parameter. The module's weights are
# in neither; read them from the module, which is the first argument.
#
# **Now you know.** What a forward hook returns becomes the output, and None leaves the output alone. To change the
# input, use a pre-hook, which runs before `forward`.
#
# ## 6.4 Collecting features
#
# A forward hook is the usual way to keep the outputs of inner layers, their *features*. The obvious loop for this
# contains two mistakes.
#
# **Predict.** The network has five modules besides itself; one of them is a Sequential with two layers inside. How many
# keys does `features` have after one forward pass, in the first loop and in the second?


# %% facts=["06-forward-hook-gets-feature-maps", "06-hook-every-module-via-named-children"]
def small_net() -> nn.Module:
    inner = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    return nn.Sequential(nn.Linear(2, 4), inner, nn.Linear(4, 1))


net, features = small_net(), {}
for name, layer in net.named_children():
    layer.register_forward_hook(lambda layer, args, out: features.update({name: out}))  # noqa: B023
net(torch.ones(3, 2))
print("first loop: ", {name: tuple(output.shape) for name, output in features.items()})

net, features = small_net(), {}
for name, layer in net.named_children():
    layer.register_forward_hook(lambda layer, args, out, name=name: features.update({name: out}))
net(torch.ones(3, 2))
print("second loop:", {name: tuple(output.shape) for name, output in features.items()})

print("all modules:", [name for name, module in net.named_modules()])

# %% [markdown]
# It has one key after the first loop and three after the second. In the first loop, each lambda looks up `name` when it
# *runs*. By then the loop is over, so all hooks write under the last name. The default argument `name=name` keeps the
# value that `name` has when the hook is defined.
#
# The second mistake is still there: `named_children` goes one level deep, so the two layers inside "1" have no hook.
# `named_modules` goes all the way down and gives dotted names. Its first entry, with the empty name, is the network
# itself.
#
# A feature that a hook has stored may still change afterwards. Here the output of a Linear layer is stored in three
# ways, and the next layer is an in-place ReLU:

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
# `detach` cuts the feature from the graph, so a list of features doesn't keep whole graphs alive. It doesn't copy. The
# detached feature shares its memory with the output, and the ReLU wrote into that memory. Only the clone still has the
# negative values. If a later layer may work in place, store `output.detach().clone()`.
#
# **Predict.** Below, `forward` raises in the middle of the network. Is the hook of the `with` gone afterwards? And
# which of the other two hooks has run?


# %%
class Strict(nn.Module):
    def forward(self, x):
        if x.shape[0] > 1:
            raise ValueError("one sample at a time")
        return x


net = nn.Sequential(nn.Linear(2, 2), Strict())
net.register_forward_hook(lambda module, args, output: print("usual hook"))
net.register_forward_hook(lambda module, args, out: print("always_call:", out), always_call=True)


def run_with_a_hook():
    with net[0].register_forward_hook(lambda module, args, output: print("hook of the with")):
        net(torch.ones(3, 2))


error_of(run_with_a_hook)
print("and once more:")
error_of(lambda: net(torch.ones(3, 2)))

# %% [markdown]
# The `with` removes its hook when the block ends, even if the block ends with an exception. Of the other two hooks,
# only the second has run. When `forward` raises, PyTorch skips forward hooks, except those registered with
# `always_call=True`, which get None as output. Such a hook can clean up or report, but it can't catch the exception. If
# you have many handles, use `contextlib.ExitStack`, or remove them in a `finally`.

# %% [markdown]
# Now let's look inside a convolution. Its three filters, set by hand, detect a step from dark to bright: to the right,
# downwards, and to the left. The image is a bright frame around a dark square. **By hand.** Sketch the square and mark
# where each filter will respond.

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
# Each map is positive where its step is, so the first responds at the right edge of the dark square, the second at its
# lower edge, and the third at its left edge. Before the ReLU, the opposite edge also responds, with a negative sign.
#
# **Now you know.** Bind the name in the hook, go through `named_modules`, store `detach().clone()`, and let a `with`
# remove the hooks.

# %% exercise="capture-features"

# %% [markdown]
# ## 6.5 Full backward hooks
#
# A layer receives one gradient and passes on another, and your code normally sees neither. A backward hook shows you
# both.
#
# **Predict.** A full backward hook gets two tuples. For `nn.Linear(2, 3)` and a batch of four, how many entries does
# each tuple have, and with which shapes? Is the gradient of the weight among them?

# %% facts=["06-full-backward-hook-signature", "06-backward-hooks-fire-in-reverse"]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
reports = {}


def report(module, grad_input, grad_output, name):
    reports[name] = (grad_input, grad_output)
    shapes = [tuple(g.shape) for g in grad_input]
    print(f"{name} {type(module).__name__:7}", "grad_input", shapes, end="  ")
    print("grad_output", [tuple(g.shape) for g in grad_output])


for name, module in net.named_children():
    module.register_full_backward_hook(partial(report, name=name))

x = torch.randn(4, 2, requires_grad=True)
net(x).sum().backward()

print("grad_input of 2 is grad_output of 1:", torch.equal(reports["2"][0][0], reports["1"][1][0]))
print("grad_input of 0 is x.grad:          ", torch.equal(reports["0"][0][0], x.grad))

# %% [markdown]
# Each tuple has one entry, and the gradient of the weight is in neither. `grad_input` has one entry per positional
# input of `forward`, `grad_output` has one per output, and both are tuples even if there is only one entry. The
# gradients of the parameters are in `weight.grad` and `bias.grad`. What one layer passes back as `grad_input` is what
# the layer before it gets as `grad_output`.
#
# Like a forward hook, a backward hook may return a replacement. Here a full hook and a pre-hook return five times what
# they got:


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
# What the full hook returns replaces the gradient that flows *further back*. The layer's weight gradient is computed
# from `grad_output`, so it doesn't change. The pre-hook replaces `grad_output` itself before the layer uses it, so both
# gradients change.
#
# **Find the line.** All three hooks below are wrong, and the first is tried with two batch sizes. One of the four lines
# raises no error and does harm. Which one?


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
# It is the last one. PyTorch takes a bare tensor for the tuple and splits it along its first dimension, so four rows
# become four entries, and with a batch of one the single row has lost a dimension. Return a tuple with one entry per
# positional input. Writing into `grad_input` is forbidden, but PyTorch doesn't notice, and the zeros simply flow on.
#
# What does `grad_input` contain for an argument that has no gradient? Here `forward` takes a tensor that requires grad,
# a number, and a tensor that doesn't, first all by position, then the last two by keyword. Of the other two modules,
# one takes a list and one returns a dict.


# %% facts=["06-full-hook-non-tensor-none"] shows_warning="UserWarning"
class ScaleAndShift(nn.Module):
    def forward(self, x, factor, shift):
        return x * factor + shift


class Total(nn.Module):
    def forward(self, parts):
        return parts[0] + parts[1]


class Named(nn.Module):
    def forward(self, x):
        return {"twice": x * 2}


def show(module, grad_input, grad_output):
    print(f"{type(module).__name__}: {grad_input}")


affine, total, named = ScaleAndShift(), Total(), Named()
for module in (affine, total, named):
    module.register_full_backward_hook(show)

x, shift = torch.ones(2, requires_grad=True), torch.ones(2)
affine(x, 3, shift).sum().backward()
affine(x, factor=3, shift=shift).sum().backward()

with every_warning() as caught:
    total([x, x * 2]).sum().backward()
    named(x)["twice"].sum().backward()
for warning in caught:
    told = f"{warning.category.__name__}: {str(warning.message).partition(' See ')[0]}"
    print(fill(told, 90, subsequent_indent="    "))

# %% [markdown]
# An argument that isn't a tensor gives None. A tensor without `requires_grad` gives zeros, as long as another input
# requires grad. Keyword arguments have no entry at all. The hook doesn't see tensors inside a list, although both
# require grad here. On a module that returns a dict the hook never fires, and all you get is a warning. Models that
# return dicts are common, so put the hook on one of their layers, or put a tensor hook (section 6.7) on the entry.
#
# **Predict.** This hook reverses the gradient, and it works on inner layers. What happens on a network's first layer,
# whose input is the data?


# %% facts=["06-input-needs-requires-grad"]
def negate(module, grad_input, grad_output):
    return (-grad_input[0],)


def first_layer_with(hook) -> Tensor:
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(hook)
    with every_warning():
        layer(torch.ones(1, 2)).sum().backward()
    return layer.weight.grad


results_of({"weight.grad, with negate": lambda: first_layer_with(negate)})

# %% [markdown]
# It raises, because *no* input of a first layer requires grad, and then `grad_input[0]` is None, as with the plain `x`
# of section 6.2. A hook that computes with `grad_input` must pass None through:


# %% facts=["06-input-needs-requires-grad"]
def negate_safely(module, grad_input, grad_output):
    return tuple(None if grad is None else -grad for grad in grad_input)


results_of({"weight.grad, with negate_safely": lambda: first_layer_with(negate_safely)})

# %% [markdown]
# The parameters get their gradients in any case; only the input has none. If you want to see the gradient of the data,
# call `x.requires_grad_()`.
#
# Last comes an error that is easy to run into while debugging something else. A hook that does nothing at all is
# registered on a Linear layer, and the next layer is an in-place ReLU.

# %%
for inplace in (False, True):
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=inplace))
    print(f"ReLU(inplace={inplace}), no hook:", tuple(net(torch.ones(1, 2)).shape))

net[0].register_full_backward_hook(lambda module, grad_input, grad_output: None)
error_of(lambda: net(torch.ones(1, 2)))

# %% [markdown]
# It runs without the hook and raises with it. To notice when a gradient passes, PyTorch adds a node,
# `BackwardHookFunction`, to the inputs and outputs of a module with full backward hooks. The next layer then gets a
# view of what `forward` returned, and PyTorch refuses to write into that view. Where you need such a hook, set
# `inplace=False`.
#
# PyTorch creates that node in *forward*, and this has a consequence for you.
#
# **Predict.** The hook below multiplies the gradient by 3. First it is registered only during forward, then only during
# backward. In the third case, a hook is registered on a tensor and removed before backward. What is `x.grad` in each
# case?


# %% facts=["06-full-hook-bound-at-forward"]
def triple(module, grad_input, grad_output):
    return (grad_input[0] * 3,)


layer = nn.Linear(1, 1, bias=False)
nn.init.ones_(layer.weight)
x = torch.ones(1, 1, requires_grad=True)

with layer.register_full_backward_hook(triple):
    y = layer(x)
y.backward()
print("around forward only:  ", x.grad.item())

x.grad = None
y = layer(x)
with layer.register_full_backward_hook(triple):
    y.backward()
print("around backward only: ", x.grad.item())

x.grad = None
y = layer(x)
y.register_hook(lambda grad: grad * 3).remove()
y.backward()
print("a removed tensor hook:", x.grad.item())

# %% [markdown]
# It is 3, then 1, then 1. The node in the graph uses the hooks that the module had during forward, so removing or
# registering a hook after forward has no effect on that graph. A `with` around the forward pass therefore doesn't stop
# the hook from running in backward. A tensor hook takes effect at once, and so does its removal.
#
# Does the node run in every backward pass? Autograd computes only what you ask for. Here we ask for the gradient of the
# weight alone, then for those of the weight and the input:

# %% facts=["06-full-hook-needs-input-gradient"]
fired = []
with layer.register_full_backward_hook(lambda *arguments: fired.append("fired")):
    y = layer(x)
torch.autograd.grad(y, layer.weight, retain_graph=True)
print("asked for the weight:          ", fired)
torch.autograd.grad(y, (layer.weight, x))
print("asked for weight and input too:", fired)

# %% [markdown]
# `x` requires grad, so the hook waits for the gradient of `x`, and the first call never computes it. The same happens
# with `y.backward(inputs=[layer.weight])`. If you depend on a hook, call a plain `backward()`.
#
# **Now you know.** A full backward hook gets tuples. `grad_input` has one entry per positional argument, None for those
# without a gradient, and `grad_output` has one per output. It sees the gradients of a module's inputs and outputs,
# never those of its weights. It acts on graphs whose forward pass ran while it was registered, and fires only if the
# gradient of the input is computed.

# %% exercise="scale-input-grads"

# %% [markdown]
# ## 6.6 Reading old code: `register_backward_hook`
#
# Before the full backward hook there was another kind. It still exists, and code written for it looks strange: it
# treats `grad_input[0]` as the gradient of a bias and `grad_input[2]` as that of a weight, and transposes the latter.
# Here is what both kinds report. Compare the two lines of each case.


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
    "Linear, Linear": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), torch.ones(5, 3)),
}
for name, (build, x) in cases.items():
    print(f"{name:25} input {tuple(x.shape)}")
    print("   full hook:", *grad_input_shapes(build(), x, "register_full_backward_hook"))
    print("   old hook: ", *grad_input_shapes(build(), x, "register_backward_hook"))

# %% [markdown]
# The full hook always reports one gradient, with the shape of the input. The old hook is attached to the *last autograd
# node* that the module recorded, and reports the gradients of that node's inputs. Which node is last depends on how the
# layer happens to be computed:

# %% facts=["06-register-backward-hook", "06-linear-grad-input-triple", "06-input-must-be-2d"]
old_and_full_hook(3, 4, batch=5)

# %% [markdown]
# For a matrix, the last node of `Linear` adds the bias to a product of `x` and `weight.t()`. Its inputs are the bias,
# `x` and the *transposed* weight, which explains both the triple and the transpose. For a single vector, the last node
# is a reshape, whose only input is the result of that sum with a batch dimension of one. For the Sequential, it is the
# last node of the last layer. Only in the first case is one of the entries the gradient of the layer's input, and it
# isn't the first one.
#
# PyTorch itself warns about this when you call a layer with such a hook:

# %% facts=["06-register-backward-hook"] shows_warning="FutureWarning"
layer = nn.Linear(3, 4)
layer.register_backward_hook(lambda module, grad_input, grad_output: None)
warning_of(lambda: layer(torch.ones(5, 3)))

# %% [markdown]
# To port old code, use the full hook for the gradients of inputs and outputs, and `.grad` for those of the parameters.
#
# **By hand.** A Linear layer has seen five samples, and a convolution has seen four images with 3 × 3 positions each.
# The loss is the sum of all outputs. What is each entry of the gradient of the bias?

# %% facts=["06-linear-weight-grad-transposed", "06-fc-bias-grad-per-sample"]
linear = nn.Linear(3, 4)
linear(torch.ones(5, 3)).sum().backward()
print("weight", tuple(linear.weight.shape), " weight.grad", tuple(linear.weight.grad.shape))
print("bias  ", tuple(linear.bias.shape), "   bias.grad  ", linear.bias.grad.tolist())

conv = nn.Conv2d(2, 3, 3)
conv(torch.ones(4, 2, 5, 5)).sum().backward()
print("bias of the convolution: ", conv.bias.grad.tolist())

# %% [markdown]
# Each entry is 5 for the Linear layer and 4 · 3 · 3 = 36 for the convolution. All samples use the same parameter, so
# its gradient is the sum over the samples. It is a mean only if the loss is a mean. `.grad` always has the shape of its
# parameter, so the weight's gradient isn't transposed either.
#
# **Now you know.** The old hook reports the inputs of whichever graph node came last. Replace it by the full hook and
# by `.grad`.

# %% exercise="port-old-hooks"

# %% [markdown]
# ## 6.7 Hooks on tensors
#
# A module hook watches what goes into a module and what comes out of it. A tensor hook watches one tensor, which can be
# anywhere in the graph.
#
# **Predict.** `a` is (1, 1), `b` is twice that, and `c` is the norm of `b`. When does the hook on `b` print, and what?
# How often does the hook on `a` print, and what is `a.grad` at that moment?

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
# Neither hook prints anything in forward. In backward each prints once, `b` before `a`. The hook runs when the gradient
# of its tensor is known but not yet added to `.grad`, so `a.grad` is still None. `print` returns None, which leaves the
# gradient alone. A tensor that doesn't require grad never gets a gradient, so `register_hook` refuses it.
#
# Next, `b` is used twice, by `b * 3` and by `b * 4`. We try four hooks on it, and then two that are wrong.


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
# The hook fires once, with the sum over both uses. If the hook returns a tensor, that tensor replaces the gradient for
# everything further back. You can scale or clamp gradients this way without writing a custom Function. The tensor must
# have the same shape. If you compute a new value and forget to return it, it is lost without a warning.
#
# To see the gradient of an inner tensor you could also call `retain_grad()` on it. How much does each of the two ways
# keep for 1000 numbers?

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

equal = torch.equal(retained.grad, stored[0])
print("the same numbers:", equal, " with a graph:", stored[0].requires_grad)

# %% [markdown]
# Both keep 4 bytes per number, and neither keeps a graph. `retain_grad` keeps one gradient, but the list grows by one
# gradient with every backward pass. A hook saves memory only if it doesn't store the gradient.
#
# Some methods, such as domain-adversarial training, reverse the gradient at one place in a network. Below, `x` reaches
# the result both through such a reversal (times 3) and directly (times 10).
#
# **Predict.** Without the reversal, `x.grad` is 13. What is it with the custom Function of chapter 5, with a module
# that returns `x` and has a backward hook, and with a tensor hook on `x`?


# %% facts=["06-negate-gradient-with-hook"]
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


reverse_module = nn.Identity()
reverse_module.register_full_backward_hook(lambda module, grads_in, grads_out: (-grads_in[0],))


def reverse_on_x(x: Tensor) -> Tensor:
    x.register_hook(lambda grad: -grad)
    return x


ways = {"Function": Reverse.apply, "module hook": reverse_module, "hook on x": reverse_on_x}
for name, reverse in ways.items():
    x = torch.tensor([1.0], requires_grad=True)
    (reverse(x) * 3 + x * 10).backward()
    print(f"{name:12} x.grad {x.grad.tolist()}")

# %% [markdown]
# It is 7, 7 and -13. The Function and the module negate only what comes back through *them*, so 3 becomes -3 and the
# direct path keeps its 10. This works for the module even though its `forward` returns `x` itself, because PyTorch
# makes views of the inputs and outputs of a hooked module (section 6.5). The hook on `x` gets the whole gradient of
# `x`, the sum over all paths, and negates that. It also stays on `x`, so a second call would register a second hook.
#
# **Now you know.** A tensor hook gets the whole gradient of its tensor before it is added to `.grad`. What the hook
# returns replaces that gradient.

# %% exercise="gradient-reversal"

# %% [markdown]
# ## 6.8 When the gradient has arrived
#
# Between backward and the optimizer step, all gradients are in memory together and take as much room as the weights. Is
# that necessary?
#
# Here a tensor hook and a post-accumulate hook are on the same tensor, and backward runs twice:

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
# The tensor hook runs before the gradient is added to `.grad`, the post-accumulate hook after it. The post-accumulate
# hook gets the tensor instead of a gradient and must return None. It waits for the node that adds to the `.grad` of a
# leaf, the `AccumulateGrad` of chapter 4. Only leaves have this node, so you can register such a hook only on a leaf.
#
# **Predict.** Each of four layers has a post-accumulate hook on its weight, which counts how many weights have a
# gradient at that moment. Then we run the same with a hook that also drops each gradient as soon as it has counted.
# Which two lists come out?


# %% facts=["06-post-accumulate-grad-hook"]
def living_gradients(drop: bool) -> list[int]:
    """How many weights have a gradient, each time that a weight gets its own."""
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
# The lists are 1, 2, 3, 4 and 1, 1, 1, 1. Usually all gradients exist together before the optimizer takes its step. A
# hook that uses a gradient at once and drops it needs room for only one at a time. The price is that you can no longer
# do anything that needs all gradients together, such as clipping by their common norm. PyTorch's tutorial [How to save
# memory by fusing the optimizer step into the backward
# pass](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html) is built on this.
#
# **Now you know.** A post-accumulate hook runs when a leaf's `.grad` is complete. If it uses that gradient and drops
# it, the gradients never have to be in memory together.

# %% exercise="update-inside-backward"

# %% [markdown]
# ## 6.9 Hooks as instruments
#
# Back to the network that won't train. A full backward hook on each Linear layer records the norm of the gradient that
# arrives there.
#
# **Predict.** The slope of a Sigmoid is at most 1/4, and with PyTorch's initial weights each Linear layer roughly
# halves the gradient again. There are eight of each between the first layer and the last. Is the gradient at the first
# layer ten times, a thousand times or ten million times smaller than at the last?

# %% facts=["06-hooks-purpose"]
norms = {}


def note(module, grad_input, grad_output, name):
    norms[name] = grad_output[0].norm().item()


linear = [(name, layer) for name, layer in deep.named_children() if isinstance(layer, nn.Linear)]
handles = [layer.register_full_backward_hook(partial(note, name=name)) for name, layer in linear]

(deep(inputs.requires_grad_()) - targets).square().mean().backward()
for name in reversed(norms):
    print(f"layer {name:>2}: {norms[name]:.0e}")

for handle in handles:
    handle.remove()

# %% [markdown]
# It is more than ten million times smaller. Each layer gets about an eighth of what the layer after it got, and 8 to
# the power of 8 is 17 million. The first layers hardly move. The last layer learns the only thing it can learn alone,
# the mean of the targets, and that gives the loss of 0.9756.
#
# The last two lines of the cell also matter. If you don't remove a measuring hook, it keeps measuring in every later
# pass, and that costs time.
#
# The same measurement for fresh networks with three activations:

# %% facts=["06-hooks-purpose"]
gradient_bars(("Sigmoid", "Tanh", "ReLU"), depth=8, seed=0)

# %% [markdown]
# With Sigmoid, each norm is about an eighth of its right neighbour; with Tanh and ReLU it is about half or less. Over
# eight layers, both become large factors. The slope of ReLU is 0 or 1, so there the gradient shrinks because some units
# are off, and because of the initial weights.
#
# **Change one word** in the cell that trained the network, at the top of this chapter, so that it learns; run that
# cell, then come back.

# %%
for activation in (nn.Sigmoid, nn.Tanh, nn.ReLU):
    torch.manual_seed(1)
    blocks = [layer for _ in range(8) for layer in (nn.Linear(16, 16), activation())]
    deep = nn.Sequential(*blocks, nn.Linear(16, 1))
    optimizer = torch.optim.SGD(deep.parameters(), lr=0.1)
    losses = []
    for _step in range(1001):
        loss = (deep(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"{activation.__name__:8} step 300: {losses[300]:.2f}, step 1000: {losses[1000]:.2f}")

# %% [markdown]
# Tanh has a slope of 1 at 0, four times that of Sigmoid, so the gradients reach every layer, and after 300 steps the
# network has learned. With ReLU the gradients also reach every layer, and yet the loss is still 0.97 after 300 steps.
# It falls to zero later. So after 300 steps you could not have told ReLU, which is on a *plateau*, from Sigmoid, which
# is stuck. The picture told them apart before the first step. A short run can't tell a plateau from a dead network; the
# gradients of the first layers can.

# %% [markdown]
# Another instrument tells you which module made a loss nan. You can register a hook on *all* modules of the process at
# once, and this one checks each of them.


# %%
class Entropy(nn.Module):
    def forward(self, p):
        return -(p * p.log()).sum(1)


def first_nan(module, args, output):
    made = output.isnan().any() and not args[0].isnan().any()
    if made and not list(module.children()):  # a container only passes on what its parts make
        print("the first nan is made by", type(module).__name__, "from", args[0][0].tolist())


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=1), Entropy())
with nn.modules.module.register_module_forward_hook(first_nan):
    print("ordinary input:", f"{net(torch.ones(1, 3)).item():.4f}")
    print("large input:   ", net(torch.full((1, 3), 1000.0)).item())

# %% [markdown]
# With large inputs softmax gives exact zeros, and 0 · log 0 is 0 · (-inf), which is nan. (`torch.special.entr` uses the
# limit, 0.) Such global hooks are for debugging, because they slow down every module of the process.
#
# A third instrument measures memory. Inside the block `with torch.autograd.graph.saved_tensors_hooks(pack, unpack)`,
# PyTorch calls `pack` with every tensor that autograd saves for backward, and keeps what `pack` returns in its place.
# When backward needs the tensor, PyTorch passes that value to `unpack`.
#
# **Predict.** Which of ReLU, Sigmoid and GELU keeps the most memory between two Linear layers?


# %%
def kept_for_backward(activation: nn.Module) -> str:
    """What is kept for backward apart from parameters: the shapes, and the number of storages."""
    net = nn.Sequential(nn.Linear(8, 16), activation, nn.Linear(16, 4))
    own = {parameter.untyped_storage().data_ptr() for parameter in net.parameters()}
    kept = []

    def pack(saved):
        place = saved.untyped_storage().data_ptr()
        if place not in own:
            kept.append((tuple(saved.shape), place))
        return saved.detach()  # a saved output would keep its own graph alive (section 1.5)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        net(torch.ones(10, 8))
    return f"{[shape for shape, _ in kept]} in {len({place for _, place in kept})} storages"


for activation in (nn.ReLU(), nn.Sigmoid(), nn.GELU()):
    print(f"{type(activation).__name__:8}", kept_for_backward(activation))

# %% [markdown]
# GELU keeps the most, although the shapes are the same in all three rows. The first Linear keeps its input, (10, 8),
# and the second keeps its input, (10, 16). Between them, ReLU and Sigmoid need their *output* for backward. That is the
# same tensor that the second Linear keeps, so it is in the list twice and in memory once. GELU needs its *input*, which
# is one more tensor. To measure memory, count storages, not shapes.

# %% exercise="activation-bytes"

# %% [markdown]
# The gradient of a weight is a sum over the samples of a batch (section 6.6). Some methods need the norm of each
# summand, for example to clip it for privacy or to find mislabelled samples. You could run backward once per sample.
# Two hooks do it in a single pass.

# %% facts=["06-full-backward-hook-signature", "06-fc-bias-grad-per-sample"]
torch.manual_seed(0)
layer = nn.Linear(3, 2)
caught = {}
layer.register_forward_hook(lambda module, args, output: caught.update(a=args[0].detach()))
layer.register_full_backward_hook(lambda module, grads_in, grads_out: caught.update(g=grads_out[0]))

x = torch.randn(4, 3, requires_grad=True)
layer(x).square().sum().backward()

a, g = caught["a"], caught["g"]
summands = [torch.outer(g[n], a[n]) for n in range(4)]
print("their sum is weight.grad:", torch.allclose(sum(summands), layer.weight.grad, atol=1e-6))
print("norms of the summands:   ", [round(summand.norm().item(), 2) for summand in summands])
print("|g| times |a|:           ", [round((g[n].norm() * a[n].norm()).item(), 2) for n in range(4)])

# %% [markdown]
# A forward hook records the layer's input `a`, and a full backward hook records the gradient `g` of its output. The
# summand of sample n is the outer product of `g[n]` and `a[n]`, and the norm of an outer product is the product of the
# norms. One forward and one backward pass are therefore enough for all samples. This requires a loss that is a *sum*
# over samples and no layer that mixes samples, so that row n of `g` belongs to sample n alone. The peak memory of a
# step is another question, and [chapter 13](../13_memory_time/memory_time.ipynb) builds the instruments for it.
#
# **Now you know.** A few lines of hooks measure the gradient norm of each layer, find the module that makes the first
# nan, and count the bytes kept for backward, without changing the model.

# %% exercise="per-sample-grad-norms"

# %% exercise="hooks-apart"

# %% [markdown]
# ## On a GPU
#
# The cell takes a step of plain SGD with twelve weights of 16 MiB each, first after backward and then inside it, and
# prints the peak of memory for both. Without a GPU it shows a recorded run. No exercise needs it.


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
        when = "inside" if inside else "after"
        print(f"{when} backward: {extra / mib:.0f} MiB on top of the weights")
        del net, x


peak_of_a_step()

# %% [markdown]
# ## Folklore, checked
#
# The table lists what people say about hooks and whether it is true. Each row has a proof that you can expand, a few
# lines that run without an error only if the statement on the right is true.

# %%
folklore("06_hooks")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it doesn't.

# %%
prove("06-backward-hook-simple-modules-only")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [`torch.nn.Module`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html): the functions
#   `register_…_hook`, each with the arguments of its hook and its options. Some hooks run when a model is saved or
#   loaded; `register_load_state_dict_pre_hook`, for example, can rename the keys of an old checkpoint;
# - [`torch.Tensor.register_hook`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html) and
#   [`torch.Tensor.register_post_accumulate_grad_hook`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_post_accumulate_grad_hook.html);
# - the note [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html), section [Backward Hooks
#   execution](https://docs.pytorch.org/docs/stable/notes/autograd.html#backward-hooks-execution): which backward hooks
#   fire and in which order, and what changes for tensors that are modified in place;
# - [`torch.autograd.graph`](https://docs.pytorch.org/docs/stable/autograd.html#autograd-graph): `saved_tensors_hooks`,
#   and hooks on single nodes of the graph;
# - [`torch.nn.modules.module.register_module_forward_hook`](https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.module.register_module_forward_hook.html)
#   and its relatives: hooks on every module of the process, for debugging;
# - the tutorials [How to save memory by fusing the optimizer step into the backward
#   pass](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html) and
#   [Per-sample-gradients](https://docs.pytorch.org/tutorials/intermediate/per_sample_grads.html).
#
# **Next:** chapter 7, [Modules and state_dict](../07_modules_state_dict/modules_state_dict.ipynb).
