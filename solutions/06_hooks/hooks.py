# %% [markdown]
# # Hooks
#
# A hook is a function of yours that PyTorch calls at a certain moment of a forward or backward pass. With hooks you
# look into a model, or change what flows through it, without touching its code. After this chapter you can
#
# - say which hook fires when and with which arguments, and predict the order for a nested model, with and without a
# gradient on its input;
# - take features and gradients out of any model, and leave no hook behind when an exception is raised;
# - change what flows backward by returning a value, and say what is *not* changed by it;
# - use hooks as instruments: bytes kept for backward, gradient norms for each layer and each sample, an optimizer
# step inside backward;
# - read old code with `register_backward_hook`, explain its strange triples, and port it.
#
# **65 minutes to read, 130 minutes to practise, 20 points.** You need chapter 4: leaves, `.grad`, what `backward`
# adds where, saved tensors; from chapter 2 what a view is, and from chapter 5 what a custom Function is. A module
# here is a layer or a model that you call.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import copy
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from textwrap import fill
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from torchkata.demos import error_of, every_warning, warning_of
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
)

# %% [markdown]
# You are given a net, and told that it doesn't learn.

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
# A target is the sign of one of the inputs; one layer would learn that. This net gives the same answer to every input,
# and stays there. There is no error to read. It is not your code, so you won't put a `print` into each of its layers.
# You want to stand beside it and watch the gradients go by.
#
# Here is where you can stand. The blue boxes are one call of one layer: forward in the upper row, backward in the lower
# ones. The orange boxes are hooks, each with the arguments that your function gets.

# %%
hook_places()

# %% [markdown]
# In section 6.9 we come back to the net with five lines, and know.
#
# ## 6.1 `model(x)` is more than `model.forward(x)`
#
# A hook only works if the call goes past it. So begin with what a call is.
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
#
# Where does a hook live: in the object, or in its state? Here are three hooks, the third put in front, and a copy of
# the layer made in two ways.

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
# In the object. Hooks run in the order of registration, except for those with `prepend=True`. A deep copy takes them
# along, a `state_dict` knows nothing of them. So a model that you save by its `state_dict` comes back without hooks;
# `torch.save(layer)` would try to save your functions too, and fails with a lambda.
#
# **Now you know.** Hooks hang on the call of a module object, not on `forward` and not on the weights. They stay until
# they are removed.
#
# ## 6.2 Who fires when
#
# The rest of the chapter is about six kinds of hook; all of them can watch one training step:
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
# A full backward hook reports the gradient of its module's *input*, so it waits for that gradient. If no input requires
# grad, there is none to wait for, and the hook fires when the gradient of the *output* is known.
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
# Backward visits the modules in reverse: `b`, then `a`. The input of `net` is the input of `a`, so `net` comes last.
#
# With a plain `x` nobody computes the gradient of the input. The hooks of `net`, whose output comes first in backward,
# and of `a` then fire with None for the input, and PyTorch warns. The page `torch.nn.Module` states the rule under
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
# **Now you know.** A hook fires when what it waits for is there; that is a rule. The order of two branches that don't
# wait for one another is none: it belongs to this version of PyTorch, and you can't build on it.

# %% exercise="hook-firing-order"

# %% [markdown]
# ## 6.3 What a forward hook sees and may change
#
# A hook that was only to look can change a model's results, by what it returns and by what it writes.
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
#
# And the input? Here a forward hook writes zeros into it, after `forward` has run, on three kinds of module.


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
#
# **Find the line.** The same layer is called twice below, once as `layer(x)` and once as `layer(input=x)`. In one of
# the two calls a hook that reads `args[0]` would raise. Which, and why?

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
# The second: `args` holds the *positional* arguments, and there are none. A hook that is to see keyword arguments is
# registered with `with_kwargs=True` and takes one argument more. Parameters are in neither: they belong to the module,
# which is the first argument.
#
# **Now you know.** What a forward hook returns becomes the output; None leaves it alone. The input is changed before
# `forward`, by a pre-hook.
#
# ## 6.4 Collecting features
#
# A forward hook is the usual way to keep the outputs of inner layers, their *features*. The short loop for it holds two
# mistakes.
#
# **Predict.** The net has five modules besides itself, one of them a Sequential with two layers inside. How many keys
# does `features` have after one forward pass, in the first loop and in the second?


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
# One key, then three. In the first loop each lambda looks up `name` when it *runs*, and by then the loop is over: all
# hooks write under the last name. As a default argument, `name=name` keeps the value that the name has when the hook is
# defined.
#
# The second mistake is left: `named_children` goes one level deep, so the two layers inside "1" have no hook.
# `named_modules` goes all the way down, with dotted names; its first entry, with the empty name, is the net itself.
#
# What a hook keeps may still change afterwards. The output of a Linear layer is kept in three ways, and the next layer
# is an in-place ReLU:

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
#
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
net.register_forward_hook(lambda module, args, out: print("always_call:", out), always_call=True)


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
# Now a convolution, looked at from inside. Three filters, set by hand, look for a step from dark to bright: to the
# right, downwards, and to the left. The image is a bright frame around a dark square. Before you run the cell, take a
# pencil and mark on the square where each filter will answer.

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
# the third at its left edge. Before the ReLU the opposite edge is there too, with a minus.
#
# **Now you know.** Bind the name in the hook, go through `named_modules`, store `detach().clone()`, and let a `with`
# take the hooks off again.

# %% exercise="capture-features"

# %% [markdown]
# ## 6.5 Full backward hooks
#
# A layer's gradients pass between two tensors that you never hold in your hands. A backward hook shows you both.
#
# **Predict.** A full backward hook gets two tuples. For `nn.Linear(2, 3)` and a batch of four: how many entries does
# each have, and with which shapes? Is the gradient of the weight among them?

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
# One entry each: `grad_input` has one for each positional input of `forward`, `grad_output` one for each output. Both
# are tuples even then. Gradients of parameters are in neither; they are read from `weight.grad`. What one layer hands
# back as `grad_input` is what the layer before it gets as `grad_output`.
#
# Like a forward hook, a backward hook may return something else. Full hook and pre-hook return five times what they
# got:


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
#
# **Find the line.** Three hooks that are wrong, the first tried with two sizes of batch. One of the four lines below
# raises nothing and does harm. Which?


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
# The last. A bare tensor is taken for the tuple and cut along its first dimension: four rows are four entries, and with
# a batch of one the single row has lost a dimension. Return a tuple with one entry for each positional input. Writing
# into `grad_input` is forbidden but not noticed: the zeros simply flow on.
#
# What is in `grad_input` for an argument that has no gradient? `forward` takes a tensor that requires grad, a number,
# and a tensor that does not; then the last two by keyword. The other two modules take a list, and return a dict.


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
# None for what is not a tensor. A tensor without `requires_grad` shows as zeros, as long as another input requires
# grad. Keyword arguments have no entry at all. Tensors inside a list are not seen, although both require grad; and on a
# module that returns a dict the hook never fires, and a warning is all that tells you. Models that return dicts are
# common: put the hook on one of their layers, or a tensor hook (section 6.7) on the entry.
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
# The parameters get their gradients in any case; only the input has none. A hook that computes with `grad_input` must
# let None pass. Or switch on `x.requires_grad_()`, if the gradient of the data is what you want to see.
#
# Last, a bug that you may meet on the day you look for another. A hook that does nothing at all sits on a Linear layer.
# After the layer stands an in-place ReLU.

# %%
for inplace in (False, True):
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=inplace))
    print(f"ReLU(inplace={inplace}), no hook:", tuple(net(torch.ones(1, 2)).shape))

net[0].register_full_backward_hook(lambda module, grad_input, grad_output: None)
error_of(lambda: net(torch.ones(1, 2)))

# %% [markdown]
# Without the hook it runs; with the hook it doesn't. To notice when a gradient passes, PyTorch puts a node of its own,
# `BackwardHookFunction`, on the inputs and the outputs of a module with full backward hooks. What the next layer gets
# is a view of what `forward` returned, and writing into that view is refused. Switch off `inplace` where you want such
# a hook.
#
# That node is made in *forward*, which has a consequence for you.
#
# **Predict.** The hook below multiplies the gradient by 3. Once it is registered during forward only, once during
# backward only. The third hook sits on a tensor and is removed before backward. What is `x.grad` each time?


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
# 3, 1 and 1. The node in the graph got the hooks that the module had during forward. To remove such a hook afterwards
# is too late, and to register it afterwards as well. So a `with` around the forward pass doesn't end the hook's work
# with the block. A hook on a tensor comes and goes at once.
#
# And does the node always run? Autograd computes only what it is asked for. Here it is asked for the gradient of the
# weight, then for that of the input too:

# %% facts=["06-full-hook-needs-input-gradient"]
fired = []
with layer.register_full_backward_hook(lambda *arguments: fired.append("fired")):
    y = layer(x)
torch.autograd.grad(y, layer.weight, retain_graph=True)
print("asked for the weight:          ", fired)
torch.autograd.grad(y, (layer.weight, x))
print("asked for weight and input too:", fired)

# %% [markdown]
# `x` requires grad, so the hook waits for the gradient of `x`, and in the first call nobody computes it. The same
# happens with `y.backward(inputs=[layer.weight])`. If you count on a hook, call a plain `backward()`.
#
# **Now you know.** A full backward hook gets and returns tuples, one entry for each positional tensor. It sees the
# borders of a module, never its weights. It belongs to the forward pass in which it was there, and fires only if the
# gradient of the input is computed.

# %% exercise="scale-input-grads"

# %% [markdown]
# ## 6.6 Reading old code: `register_backward_hook`
#
# Before the full backward hook there was another one. It still exists, and code that was written for it does curious
# things: it takes `grad_input[0]` for a bias, `grad_input[2]` for a weight, and transposes it. Here is what both kinds
# report. Compare the two lines of each row.


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
# The full hook reports one gradient, with the shape of the input, in every row. The old hook sits on the *last
# autograd node* that the module recorded and reports that node's inputs. What the last node is depends on how the
# layer happens to be computed:

# %% facts=["06-register-backward-hook", "06-linear-grad-input-triple", "06-input-must-be-2d"]
old_and_full_hook(3, 4, batch=5)

# %% [markdown]
# For a matrix the last node of `Linear` adds the bias to a product of `x` and `weight.t()`. Its inputs are the bias,
# `x` and the *transposed* weight: that is the triple, and the reason for the transpose. For a single vector the
# last node is a reshape, and its one input is the result of that sum, with a batch of one. For the Sequential it is
# the last node of its last layer. None of this is about the layer as you know it.
#
# PyTorch itself warns of it, when the layer with the hook is called:

# %% facts=["06-register-backward-hook"] shows_warning="FutureWarning"
layer = nn.Linear(3, 4)
layer.register_backward_hook(lambda module, grad_input, grad_output: None)
warning_of(lambda: layer(torch.ones(5, 3)))

# %% [markdown]
# To port old code, take the full hook for the gradients of input and output, and `.grad` for those of the parameters.
#
# **By hand.** A Linear layer has seen five samples, a convolution four images with 3 × 3 positions each, and the loss
# is the sum of all outputs. What is each entry of the gradient of the bias?

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
# is the sum over them: five for a batch of five; 4 · 3 · 3 = 36 for the images. It is a mean only if the loss is one.
#
# **Now you know.** The old hook reports one node of the graph, whichever was last. Replace it by the full hook and by
# `.grad`.

# %% exercise="port-old-hooks"

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
#
# Next, `b` is used twice, by `b * 3` and by `b * 4`. Four hooks are tried on it, and two that are wrong.


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
# The hook fires once, with the sum over both uses. A tensor that the hook returns replaces the gradient for everything
# further back, so gradients can be scaled or clamped in flight, without a custom Function. It must be a tensor of the
# same shape. A new value that isn't returned is lost, without a word.
#
# To see the gradient of an inner tensor you could also call `retain_grad()` on it. What does each of the two ways keep,
# for 1000 numbers?

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
# 4 bytes for each number, both times. `retain_grad` keeps one gradient and no graph, and so does the hook. But the list
# grows by one gradient with every backward pass, for ever; only a hook that looks and forgets is lighter.
#
# Some methods (domain-adversarial training is one) reverse the gradient at one place of a net. Below, `x` goes through
# such a reversal (times 3) and also directly (times 10) into the result.
#
# **Predict.** Without reversal `x.grad` is 13. What is it with the custom Function of chapter 5, with a module that
# returns `x` and has a backward hook, and with a tensor hook on `x`?


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
# 7, 7 and -13. The Function and the module negate what comes back through *them*, -3, and leave the direct path
# alone. The module does it although its `forward` returns `x` itself, since the hook machinery makes views of inputs
# and outputs (section 6.5). The hook on `x` sees the whole gradient of `x`, the sum over all paths, and negates that.
# It also stays on `x`: a second call would register a second hook.
#
# **Now you know.** A tensor hook gets the whole gradient of its tensor, before `.grad` does, and may replace it by what
# it returns.

# %% exercise="gradient-reversal"

# %% [markdown]
# ## 6.8 When the gradient has arrived
#
# Between backward and the optimizer all gradients lie in memory together, as large as the weights. Must they?
#
# A tensor hook and a post-accumulate hook sit on the same tensor, and backward runs twice:

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
# Usually all gradients are there together before the optimizer takes its step. A hook that uses a gradient at once and
# drops it needs room for one at a time. The price: nothing that needs all gradients together, such as clipping by their
# common norm, can be done in between. PyTorch's tutorial [How to save memory by fusing the optimizer step into the
# backward pass](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html) is built on
# this.
#
# **Now you know.** A post-accumulate hook runs when a leaf's `.grad` is complete. What it uses and drops need not wait
# for the others.

# %% exercise="update-inside-backward"

# %% [markdown]
# ## 6.9 Hooks as instruments
#
# Back to the net that doesn't learn. A full backward hook on each Linear layer notes how large the gradient is that
# passes there.
#
# **Predict.** A Sigmoid's slope is 1/4 at most, and with PyTorch's initial weights each Linear layer about halves the
# gradient once more. There are eight of each between the first layer and the last. Is the gradient at the first layer
# ten times, a thousand times or ten million times smaller than at the last?

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
# More than ten million times: a layer gets about an eighth of what the layer after it got, and 8 to the power of 8 is
# 17 million. The first layers stand still. The last one learns the one thing that it can learn alone, the mean of the
# targets, and that was the loss of 0.9756.
#
# The last two lines of the cell matter too. An instrument that is not taken off goes on measuring, and costs time, in
# all later passes.
#
# The same measurement for fresh nets with three activations:

# %% facts=["06-hooks-purpose"]
gradient_bars(("Sigmoid", "Tanh", "ReLU"), depth=8, seed=0)

# %% [markdown]
# With Sigmoid each norm is about an eighth of its right neighbour, with Tanh and ReLU about half of it or less; eight
# layers make a large factor of either. The slope of ReLU is 0 or 1: what is lost there is lost to units that are off,
# and to the initial weights.
#
# **Change one word** in the cell that trained the net, at the top of this chapter, so that it learns; run that cell,
# then come back.

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
# net has learned. With ReLU they reach every layer as well, and yet the loss is still 0.97 after 300 steps. It falls to
# zero later. So after 300 steps you could not have told ReLU, which is on a *plateau*, from Sigmoid, which is stuck.
# The picture told them apart before the first step: a run shows that a net has learned, but only the gradients show
# whether it could.

# %% [markdown]
# Another instrument, for another day: a loss is nan. Which module made it? A hook can be put on *all* modules of the
# process at once, and this one asks each of them.


# %%
class Entropy(nn.Module):
    def forward(self, p):
        return -(p * p.log()).sum(1)


def first_nan(module, args, output):
    made = output.isnan().any() and not args[0].isnan().any()
    if made and not list(module.children()):  # a module that holds others only passes it on
        print("nan is born in", type(module).__name__, "from", args[0][0].tolist())


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=1), Entropy())
with nn.modules.module.register_module_forward_hook(first_nan):
    print("ordinary input:", net(torch.ones(1, 3)).item())
    print("large input:   ", net(torch.full((1, 3), 1000.0)).item())

# %% [markdown]
# With large inputs softmax gives exact zeros, and 0 · log 0 is 0 · (-inf): nan. (`torch.special.entr` knows that the
# limit is 0.) Such global hooks are for debugging: they slow down every module of the process.
#
# A third instrument measures memory. Within the block of `torch.autograd.graph.saved_tensors_hooks(pack, unpack)`,
# `pack` is called with every tensor that autograd saves for backward, and what it returns is kept in its place;
# `unpack` gets that when backward wants the tensor back.
#
# **Predict.** Between two Linear layers, which of ReLU, Sigmoid and GELU keeps the most?


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
        return saved.detach()  # saved itself may hold the graph that would hold it (section 1.5)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        net(torch.ones(10, 8))
    return f"{[shape for shape, _ in kept]} in {len({place for _, place in kept})} storages"


for activation in (nn.ReLU(), nn.Sigmoid(), nn.GELU()):
    print(f"{type(activation).__name__:8}", kept_for_backward(activation))

# %% [markdown]
# GELU, although the shapes are the same in all three rows. The first Linear keeps its input, (10, 8), the second its
# own, (10, 16). In between, ReLU and Sigmoid need their *output* for backward: that is the very tensor which the
# second Linear keeps, so it is in the list twice and in memory once. GELU needs its *input*, one more tensor. Memory
# is counted in storages, not in shapes.

# %% exercise="activation-bytes"

# %% [markdown]
# The gradient of a weight is a sum over the samples of a batch (section 6.6). Some methods need the norm of each
# summand: clipping for privacy, or looking for mislabelled samples. Running backward once for each sample would do. Two
# hooks do it in one pass.

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
# The layer's input `a` comes from a forward hook, the gradient `g` of its output from a full backward hook. The
# summand of sample n is the outer product of `g[n]` and `a[n]`, and the norm of an outer product is the product of
# the norms. So one forward and one backward pass serve all samples. It needs a loss that is a *sum* over samples, and
# no layer that mixes samples: then row n of `g` belongs to sample n alone. What a step needs at its worst moment is
# another question, and [chapter 13](../13_memory_time/memory_time.ipynb) builds the instruments for it.
#
# **Now you know.** Norms where gradients pass, the place where a nan is born, bytes in storages: a few lines each, and
# not one of them in the model.

# %% exercise="per-sample-grad-norms"

# %% [markdown]
# ## 6.10 Hooks on saving and loading
#
# A checkpoint that doesn't fit any more can be mended on its way in. Modules take four more kinds of hook, which have
# nothing to do with a forward pass: before and after `state_dict`, before and after `load_state_dict`.
#
# In this old checkpoint the layer was called `fc`; now it is `head`. A hook renames the keys of the dictionary just
# before the module reads it.
#
# **Predict.** Does `old_checkpoint` have the new names afterwards?


# %%
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 1)


def rename(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
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
saved = model.state_dict()["head.weight"]
print("saved as", saved.dtype, "while the model has", model.head.weight.dtype)

# %% [markdown]
# No: `load_state_dict` works on a copy of the dictionary. `prefix` is the place of the module in the whole model,
# here empty. When the classifier is a part of something larger, the dictionary holds the keys of the whole, and
# `prefix` tells which are its own. The second hook does the like on the way out, to the dictionary that `state_dict()`
# is about to return.
#
# **Now you know.** Both kinds change the dictionary in place and return nothing. Chapter 7 is about what stands in it.
#
# ## On a GPU
#
# Twelve weights of 16 MiB each take a step of plain SGD, after backward and inside it. The cell prints the peak of
# memory for both. Without a GPU it shows a recorded run. No exercise needs it.


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
# What people say about hooks, and what is so. Each row unfolds its proof: a few lines that run through only if the
# statement on the right holds.

# %%
folklore("06_hooks")

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
# - [`torch.nn.Module`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html): the functions
#   `register_…_hook`, each with the arguments of its hook and its options;
# - [`torch.Tensor.register_hook`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html) and
#   [`torch.Tensor.register_post_accumulate_grad_hook`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_post_accumulate_grad_hook.html);
# - the note [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html), section [Backward Hooks
#   execution](https://docs.pytorch.org/docs/stable/notes/autograd.html#backward-hooks-execution): which backward hooks
#   fire and in which order, also for tensors that are changed in place;
# - [`torch.autograd.graph`](https://docs.pytorch.org/docs/stable/autograd.html#autograd-graph): `saved_tensors_hooks`,
#   and hooks on single nodes of the graph;
# - [`torch.nn.modules.module.register_module_forward_hook`](https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.module.register_module_forward_hook.html)
#   and its relatives: hooks on every module of the process, for debugging;
# - the tutorials [How to save memory by fusing the optimizer step into the backward
#   pass](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html) and
#   [Per-sample-gradients](https://docs.pytorch.org/tutorials/intermediate/per_sample_grads.html).
#
# **Next:** chapter 7, [Modules and state_dict](../07_modules_state_dict/modules_state_dict.ipynb).
