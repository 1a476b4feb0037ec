# %% [markdown]
# # Modules and state_dict
#
# A module is a registry. What isn't registered is neither trained nor saved nor moved, and there is no error. What is
# registered is treated according to its kind. Nearly everything that you ask of a model, from `parameters()` to
# `state_dict()`, is a walk over that registry. After this chapter you can
#
# - say for any attribute of a module whether it is trained, saved and moved, and choose between Parameter, buffer,
#   non-persistent buffer and plain attribute;
# - walk a model (children, modules, named parameters) without counting anything twice;
# - save and load safely: `state_dict`, `weights_only`, partial loading with a report, and a checkpoint that resumes bit
#   for bit;
# - use train, eval and freezing correctly, including for batch norm;
# - read the three messages that everybody meets when loading: "Missing key(s)", "size mismatch" and "Weights only load
#   failed".
#
# **65 minutes to read, 146 minutes to practise, 20 points.** You need chapter 2, sections 2.1 to 2.4 (shape, view or
# copy), and from chapter 4 what `requires_grad`, `.grad` and `torch.no_grad` do.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import copy
import io
import math
import os
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import NamedTuple

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.demos import error_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.batch_norm import bn_explorer
from torchkata.pictures.checkpoint_layout import checkpoint_anatomy
from torchkata.pictures.registry_walk import registry_walk
from torchkata.pictures.state_tree import state_explorer
from torchkata.verdicts import (
    check,
    incoming_gradient,
    mistake,
    observe_scenario,
    opinions,
)

# %% [markdown]
# Yesterday a script trained this classifier, compiled it, and saved its weights.


# %%
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = torch.zeros(2), torch.ones(2)
        self.net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


def fit(model):
    model.mean, model.std = points.mean(0), points.std(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        loss = F.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def accuracy(model):
    return (model(points).argmax(1) == labels).float().mean().item()


torch.manual_seed(0)
z = torch.randn(400, 2)
points, labels = 30 + 7 * z, (z.prod(1) > 0).long()

model = Classifier()
fit(model)
file = io.BytesIO()  # a file in memory
torch.save(torch.compile(model, backend="eager").state_dict(), file)
print(f"accuracy: {accuracy(model.eval()):.2f}")

# %% [markdown]
# Today's script loads them. At first `load_state_dict` raised an error. Somebody looked the message up and added
# `strict=False`.

# %%
file.seek(0)
checkpoint = torch.load(file)
model = Classifier()
error_of(lambda: model.load_state_dict(checkpoint), lines=2)

model.load_state_dict(checkpoint, strict=False)
print(f"accuracy: {accuracy(model):.2f}")

# %% [markdown]
# With `strict=False` there is no error any more, but the accuracy is no better than tossing a coin. Three things are
# wrong here: one in the class, one in the file, one in today's script. Sections 7.2, 7.6 and 7.8 fix them.
#
# ## 7.1 A module is a registry
#
# You assign a layer to an attribute, and from then on an optimizer finds its weights. Where does the assignment store
# them?
#
# **Find the line.** `super().__init__()` is missing in the first class. Which of its two assignments raises?


# %% facts=["07-super-init-inherits"]
class Forgotten(nn.Module):
    def __init__(self):
        self.size = 3
        print("size is set")
        self.fc = nn.Linear(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.mean = nn.Buffer(torch.zeros(2))
        self.fc = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.size = 3
        self.extra = [nn.Linear(3, 3)]


error_of(Forgotten)
net = Net()
for name in ("_parameters", "_buffers", "_modules"):
    print(f"{name:11}", list(vars(net)[name]))
print("fc is an ordinary attribute:", "fc" in vars(net))

# %% [markdown]
# The second assignment raises. The registry consists of three dicts, `_parameters`, `_buffers` and `_modules`, which
# `super().__init__()` creates. A number is stored in the object like any attribute. A Parameter, a buffer or a module
# is recognised and stored in one of the dicts, where `net.fc` finds it again. In `Forgotten` these dicts didn't exist
# yet.
#
# Here is `net`. The layers in it are also modules, and each has its own registry.

# %%
registry_walk()

# %% [markdown]
# The walk over the registry is short enough to write down. It lists what is in the two dicts of tensors, then visits
# each module in the third dict, with a longer prefix:


# %% facts=["07-parameter-vs-buffer"]
def walk(module, prefix=""):
    """All parameters and buffers of a module and of those in it, with dotted names."""
    for registry in (module._parameters, module._buffers):
        yield from ((prefix + name, tensor) for name, tensor in registry.items())
    for name, child in module._modules.items():
        yield from walk(child, prefix + name + ".")


for name, tensor in walk(net):
    kind = "parameter" if isinstance(tensor, nn.Parameter) else "buffer"
    print(f"{name:25}{kind:10}{tuple(tensor.shape)}")
print("as in state_dict():", [name for name, _ in walk(net)] == list(net.state_dict()))

# %% [markdown]
# This is where the names in a checkpoint come from. The other walks differ only in what they collect:
#
# | what you call | what the walk collects |
# |---|---|
# | `parameters()`, `requires_grad_()`, `zero_grad()` | parameters |
# | `buffers()` | buffers |
# | `state_dict()`, `load_state_dict()` | parameters and buffers, by their names |
# | `.to()`, `.double()`, `.cuda()` | parameters and buffers |
# | `train()`, `eval()`, `apply(f)` | the modules themselves |
#
# No walk reached `extra`, which is a Python list. And no walk looks into `forward`. Here are two classes with the same
# formula:


# %% facts=["07-init-builds-forward-connects"]
class LayerInInit(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 1)

    def forward(self, x):
        return self.fc(x)


class LayerInForward(nn.Module):
    def forward(self, x):
        return nn.Linear(1, 1)(x)


x = torch.ones(1, 1)
for kind in (LayerInInit, LayerInForward):
    built = kind()
    same = torch.equal(built(x), built(x))
    count = len(list(built.parameters()))
    print(f"{kind.__name__:15}{count} parameters, same output twice: {same}")
error_of(lambda: torch.optim.SGD(LayerInForward().parameters(), lr=0.1))

# %% [markdown]
# `__init__` builds the layers, once; `forward` connects them, in every call. A layer that you create in `forward` is a
# new layer with new random weights in every call. Here the optimizer complains, because it got no parameters at all. In
# a model with other layers it doesn't complain.
#
# The registry doesn't say which device a model is on. People write `x.to(model.device)`:

# %% facts=["07-module-has-device"]
error_of(lambda: net.device)
print(next(net.parameters()).device)

with torch.device("meta"):
    elsewhere = nn.Linear(2, 2)
print(next(elsewhere.parameters()).device)

# %% [markdown]
# Only tensors have a device, and the tensors of one model may be on several devices. `next(model.parameters()).device`
# returns the device of the first parameter. As in chapter 1, "meta" is the second device that every machine has.
#
# **Now you know.** An assignment registers parameters, buffers and modules in three dicts. Saving, moving, counting and
# switching modes are walks over these dicts, and see nothing else.
#
# ## 7.2 Parameter, buffer, plain attribute
#
# Whether a tensor is trained, saved and moved is decided by the registry, at the moment of the assignment.
#
# **Predict.** `tensor` requires grad, and it is an attribute of the model. Will an optimizer over `model.parameters()`
# train it, and will `model.to("meta")` move it?


# %% facts=["07-attribute-parameter-auto-registers", "07-parameter-vs-buffer", "07-plain-attribute-not-saved-not-moved"]
class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.parameter = nn.Parameter(torch.ones(2))
        self.buffer = nn.Buffer(torch.ones(2))
        self.tensor = torch.ones(2, requires_grad=True)
        self.in_list = [nn.Parameter(torch.ones(2))]


model = Attributes()
print("parameters():", [name for name, _ in model.named_parameters()])
print("buffers():   ", [name for name, _ in model.named_buffers()])
print("state_dict():", list(model.state_dict()))

model.double().to("meta")
for name in ("parameter", "buffer", "tensor"):
    value = getattr(model, name)
    print(f"{name:10} {value.dtype} on {value.device}")
print(f"in_list[0] {model.in_list[0].dtype} on {model.in_list[0].device}")

# %% [markdown]
# The optimizer doesn't train `tensor`, and `.to("meta")` doesn't move it. A plain tensor isn't registered, even if it
# requires grad, and nothing in a Python list is registered, not even a Parameter. So there are four places for a
# tensor:
#
# | where it is kept | trained: in `parameters()` | saved: in `state_dict()` | moved: by `.to()`, `.cuda()` |
# |---|---|---|---|
# | `nn.Parameter` | yes | yes | yes |
# | buffer | no | yes | yes |
# | buffer, `persistent=False` | no | no | yes |
# | plain attribute, list, dict | no | no | no |
#
# Some containers are modules, for example `nn.ModuleDict` and `nn.ParameterList` (section 7.3). Their contents are
# registered, and a plain tensor that you put into a `ParameterList` becomes a Parameter.
#
# To make a buffer, assign an `nn.Buffer` (since 2.5) or call `register_buffer`, the older way. What happens if you
# later assign a plain tensor to a registered name?

# %% facts=["07-buffer-only-via-register-buffer", "07-register-buffer-signature"]
model = nn.Module()
model.weight = nn.Parameter(torch.ones(3))
model.mean = nn.Buffer(torch.zeros(3))
model.mask = nn.Buffer(torch.ones(4, 4).tril(), persistent=False)
model.register_buffer("scale", torch.ones(3), persistent=True)
print("buffers():   ", [name for name, _ in model.named_buffers()])
print("state_dict():", list(model.state_dict()))

model.mean = torch.ones(3)
print("mean is still a buffer:", "mean" in dict(model.named_buffers()), model.mean.tolist())
error_of(lambda: setattr(model, "weight", torch.zeros(3)))

# %% [markdown]
# The name of a buffer stays registered: the plain tensor becomes the buffer's new value. For the name of a Parameter,
# the assignment raises, because a Parameter that silently turned into a plain tensor would drop out of training. To
# change its value, write into it: `with torch.no_grad(): model.weight.fill_(0)`.
#
# **Find the line** in `Classifier`, at the top of this chapter, that keeps something out of the file. Then compare it
# with the fixed class.


# %% facts=["07-plain-attribute-not-saved-not-moved"]
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = nn.Buffer(torch.zeros(2)), nn.Buffer(torch.ones(2))
        self.net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


print("in yesterday's file:", list(checkpoint)[:2], "and so on")

torch.manual_seed(0)
model = Classifier()
fit(model)
checkpoint = torch.compile(model, backend="eager").state_dict()
print("in the new one:     ", list(checkpoint)[:2], "and so on")

# %% [markdown]
# `mean` and `std` were plain tensors. They were measured on the training data, the model needs them for every
# prediction, and they were never saved. Yesterday's file doesn't contain them, so you'd have to measure them again, or
# train again. As buffers they are saved, and the line in `fit` that assigns to them can stay as it is. That was the
# first of the three faults.
#
# A frozen Parameter, with `requires_grad=False`, is also saved and moved. How does it differ from a buffer?

# %% facts=["07-frozen-parameter-or-buffer"]
model = nn.Module()
model.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
model.buffer = nn.Buffer(torch.ones(1))
print("parameters():", [name for name, _ in model.named_parameters()])

model.requires_grad_(True)
frozen, buffer = model.frozen.requires_grad, model.buffer.requires_grad
print("after requires_grad_(True): frozen", frozen, "- buffer", buffer)

# %% [markdown]
# The frozen Parameter is still in `parameters()`: it is counted, it is passed to optimizers, and it becomes trainable
# when somebody unfreezes the whole model. If a tensor must never be trained, make it a buffer. (A buffer doesn't have
# to be constant. It is state that `forward` may write, as batch norm writes its running statistics.)
#
# What does moving a model do to an optimizer that was built before?

# %%
model = nn.Linear(2, 2)
weight = model.weight

model.double()
print("after double():  the same Parameter:", model.weight is weight, "- now", weight.dtype)
model.to("meta")
print('after to("meta"): the same Parameter:', model.weight is weight)

# %% [markdown]
# Unlike a tensor, a module is changed in place, so `model.to(…)` needs no assignment. [Section
# 1.2](../01_backends/backends.ipynb) showed what that means for an optimizer: it still has the right Parameters, except
# after a move to meta, but its own state is not moved. So move the model first.
#
# The explorer below shows a module as its registry sees it: one row for every tensor in the module, with its kind and
# whether it is trained and saved. To see what is moved, switch `.double()` or `.to("meta")` on and look for the rows
# that don't change. Switch `.requires_grad_(False)` on: the parameters remain in `parameters()`. In *tied embedding*,
# one tensor has two names, which makes two entries in the `state_dict` and one in `parameters()`. `.to("meta")` unties
# them.

# %%
state_explorer()

# %% [markdown]
# **Now you know.** A Parameter is trained, saved and moved. A buffer is saved and moved, and a buffer with
# `persistent=False` is only moved. Anything else you have to save and move yourself.

# %% exercise="survives-loading"

# %% [markdown]
# ### A buffer that is not saved
#
# Why would you keep a buffer out of the checkpoint? Because it can be computed, and the next model may need another
# size of it. Here a model for 4 positions writes a checkpoint for a model with 8:


# %% facts=["07-embedding-module-registration"]
class Positions(nn.Module):
    def __init__(self, length, persistent):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.table = nn.Buffer(torch.arange(float(length)), persistent=persistent)


def extend(persistent):
    return Positions(8, persistent).load_state_dict(Positions(4, persistent).state_dict())


error_of(lambda: extend(persistent=True), lines=2)
print(extend(persistent=False))

# %% [markdown]
# The saved table fits only one length, so loading it raises. The non-persistent table is computed in `__init__`, moves
# with the model, and is in no checkpoint.

# %% exercise="sinusoidal-positions"

# %% [markdown]
# ## 7.3 Containers
#
# Models keep layers in lists, dicts and chains. Whether such a container is a module decides whether a walk passes
# through it.
#
# Both models below have three layers in a list. Compare their answers.

# %% facts=["07-modulelist-registers", "07-modulelist-is-not-callable"]
plain, registered = nn.Module(), nn.Module()
plain.layers = [nn.Linear(2, 2) for _ in range(3)]
registered.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

for name, model in {"a list:    ": plain, "ModuleList:": registered}.items():
    model.eval()
    count, entries = len(list(model.parameters())), len(model.state_dict())
    training = model.layers[0].training
    print(f"{name} {count} parameters, {entries} entries, a layer in train mode: {training}")

error_of(lambda: registered.layers(torch.ones(1, 2)))

# %% [markdown]
# `parameters()`, `state_dict()`, `.to()` and `eval()` don't reach into the Python list, and there is no error. Such a
# model even trains, because its other layers learn to cope with the untrained ones. After loading, its answers are
# random, because the layers in the list are new.
#
# `nn.ModuleList` is a list that registers its layers. It has no `forward`, and neither have `ModuleDict`,
# `ParameterList` and `ParameterDict`. `nn.Sequential` is the container that you can call. It passes one value from
# layer to layer, so for a branch or a skip connection you have to write your own module.
#
# A layer's place in the container becomes part of its name. These two models compute the same:

# %% facts=["07-sequential", "07-sequential-ordereddict-same"]
numbered = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
named = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3), act=nn.ReLU(), head=nn.Linear(3, 1)))
print(list(numbered.state_dict()))
print(list(named.state_dict()))
error_of(lambda: named.load_state_dict(numbered.state_dict()), lines=2)

renamed = dict(zip(named.state_dict(), numbered.state_dict().values(), strict=True))
print(named.load_state_dict(renamed))

# %% [markdown]
# In a Sequential the position is the name. The ReLU also has a position, but nothing to save. If you insert a layer,
# all later names change: an old checkpoint no longer fits, or fits in the wrong place. It is safer to choose names
# yourself.
#
# Two containers have surprising habits:

# %% facts=["07-parameterlist", "07-parameterlist-holds-only-parameters", "07-moduledict"]
values = nn.ParameterList([nn.Parameter(torch.ones(1)), torch.zeros(2), 3])
print([type(value).__name__ for value in values], list(values.state_dict()))

error_of(lambda: nn.ModuleDict({"conv.1": nn.ReLU()}))
error_of(lambda: nn.ModuleDict({"keys": nn.ReLU()}))

# %% [markdown]
# A plain tensor in a `ParameterList` becomes a trainable Parameter, so don't keep constants there. The keys of a
# `ModuleDict` are parts of dotted names, so a key can't contain a dot, and it can't be a name that the container itself
# uses.
#
# **Predict.** `Split` puts a layer that its parent class has already registered into a second container. `Base` has
# four parameters. How many has `Split`, and how many entries has its `state_dict`?


# %% facts=["07-regrouped-layers-duplicate-keys"]
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.fc = nn.Linear(2, 3)


class Split(Base):
    def __init__(self):
        super().__init__()
        self.first_part = nn.Sequential(self.conv)


split = Split()
print(len(list(split.parameters())), "parameters,", len(split.state_dict()), "entries:")
print(list(split.state_dict()))
error_of(lambda: split.load_state_dict(Base().state_dict()), lines=2)

# %% [markdown]
# `Split` has four parameters, and its `state_dict` has six entries, because one layer is now registered under two
# names. `parameters()` lists each object once; `state_dict()` lists every name, so a checkpoint of `Base` has too few
# names. If you only want another route through the layers, change `forward` and register nothing.
#
# **Now you know.** A walk sees a container only if it is a module, and its keys become names in the checkpoint.
#
# ## 7.4 Walking a model
#
# You can count a model's parameters in three ways, and two of them are wrong. Before that, here are the walks
# themselves, over a Sequential that contains a Linear and another Sequential:

# %% facts=["07-children-one-level", "07-named-modules", "07-named-parameters"]
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))

print("children:        ", [type(child).__name__ for child in net.children()])
print("modules:         ", [type(module).__name__ for module in net.modules()])
print("named_modules:   ", [name for name, _ in net.named_modules()])
print("named_parameters:", [name for name, _ in net.named_parameters()])
print("named_buffers:   ", [name for name, _ in net.named_buffers()])

# %% [markdown]
# `children()` goes one level deep and leaves out the net itself. `modules()` lists everything, starting with the net
# itself, whose name in `named_modules()` is empty. All of these are generators, so `print` shows only `<generator
# object …>`. To look at the structure, print the model. (The package torchinfo shows the walk as a table, with the
# shapes of all outputs if you give it the size of an input.)
#
# **Predict.** Here a layer is used twice. Which of the three counts is right?

# %% facts=["07-named-modules-redundant"]
layer = nn.Linear(2, 2)
shared = nn.Sequential(layer, nn.Sequential(nn.ReLU(), layer))

by_modules = [p for module in shared.modules() for p in module.parameters()]
print("over parameters():         ", sum(p.numel() for p in shared.parameters()))
print("over modules():            ", sum(p.numel() for p in by_modules))
print("over state_dict().values():", sum(t.numel() for t in shared.state_dict().values()))

print("modules():", [type(module).__name__ for module in shared.modules()])
leaves = [name for name, module in shared.named_modules() if not list(module.children())]
print("without children:", leaves)

# %% [markdown]
# The first count is right: four weights and two biases. `parameters()` already walks the whole tree, so the double loop
# counts a parameter once for each module that contains it, at every level. `modules()` and `parameters()` skip an
# object that they have already seen; `state_dict()` doesn't.
#
# `apply` is a walk that calls a function with each module, the net itself last. It is the usual way to initialise
# layers by their type:


# %% facts=["07-apply"]
def zero_bias(module):
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


net.apply(zero_bias)
print({name: p.tolist() for name, p in net.named_parameters() if name.endswith("bias")})

order = []
net.apply(lambda module: order.append(type(module).__name__))
print(order)

# %% [markdown]
# **Now you know.** To count, use `parameters()`. To visit every module, use `named_modules()`; for one level, use
# `children()`.

# %% exercise="param-report"

# %% [markdown]
# ## 7.5 What is in a state_dict
#
# `state_dict()` returns a dict from names to tensors, and that is all. But which tensors?

# %% facts=["07-state-dict-holds-only-parameters"]
model = nn.Sequential(OrderedDict(fc=nn.Linear(3, 2), bn=nn.BatchNorm1d(2)))
state = model.state_dict()

count = len(list(model.parameters()))
print(type(state).__name__, "- parameters:", count, "- entries:", len(state))
for name, value in state.items():
    print(f"{name:23} {tuple(value.shape)!s:7} {value.dtype}")

# %% [markdown]
# It contains the parameters and the persistent buffers, here four and three. `num_batches_tracked` is a counter, an
# int64 of shape (). A state_dict doesn't contain code, the list of layers, hooks, or the train or eval mode.
#
# **Predict.** We call `best = model.state_dict()` at the best moment, and then training continues. What is in `best` at
# the end?

# %% facts=["07-state-dict-is-ordered-dict"]
model = nn.Linear(2, 1)
with torch.no_grad():
    model.bias.fill_(1)
best = model.state_dict()
snapshot = copy.deepcopy(model.state_dict())

with torch.no_grad():
    model.bias.fill_(3)  # training goes on
print("best:    ", best["bias"].item(), "- requires grad:", best["bias"].requires_grad)
print("snapshot:", snapshot["bias"].item())

# %% [markdown]
# `best` contains the last weights, not the best ones. The tensors in a `state_dict` are detached from the graph, but
# share their memory with the model. For a snapshot you need a copy of each tensor: `copy.deepcopy`, a `clone` of each
# value, or a file.
#
# **Now you know.** The tensors in a `state_dict` are the model's own memory, under names. Copy what you want to keep.

# %% exercise="snapshot-best"

# %% [markdown]
# ## 7.6 Loading a state_dict
#
# "All keys matched successfully" sounds like a promise. What has PyTorch compared?
#
# **Predict.** `other` has a different activation and an additional dropout layer. Does it load the weights of `saved`?

# %% facts=["07-load-needs-same-architecture"]
saved = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
other = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Dropout())

print(other.load_state_dict(saved.state_dict()))
x = torch.tensor([[1.0, -2.0]])
print("same output:", torch.equal(saved(x), other.eval()(x)))

error_of(lambda: nn.Linear(2, 2).load_state_dict(saved.state_dict()))

# %% [markdown]
# It loads the weights and computes something else. The names and shapes agree, and PyTorch compares nothing more. The
# single Linear refuses the same checkpoint, although the shapes of the tensors are exactly right. Read the message like
# this: *missing* keys are in the model but not in the checkpoint, *unexpected* keys are only in the checkpoint. If both
# lists are long and look alike, the names differ by a prefix.
#
# Such prefixes come from wrappers:

# %%
net = nn.Sequential(nn.Linear(2, 2))
compiled = torch.compile(net, backend="eager")
print("bare:              ", list(net.state_dict()))
print("torch.compile:     ", list(compiled.state_dict()))
print("DataParallel:      ", list(nn.DataParallel(net).state_dict()))
print("one inside another:", list(nn.DataParallel(compiled).state_dict()))

# %% [markdown]
# A wrapper is a module that has the model as a child, and the name of that child becomes a part of every name: `module`
# for DataParallel and DistributedDataParallel, `_orig_mod` for `torch.compile`. This is the second fault of the
# classifier, the one in the file. Here is the checkpoint of section 7.2, first loaded the way today's script did it:

# %% facts=["07-partial-state-dict"]
model = Classifier()
report = model.load_state_dict(checkpoint, strict=False)
missing, unexpected = len(report.missing_keys), len(report.unexpected_keys)
print(f"{missing} missing, {unexpected} unexpected, accuracy {accuracy(model):.2f}")

bare = {name.removeprefix("_orig_mod."): value for name, value in checkpoint.items()}
print(model.load_state_dict(bare))
print(f"accuracy: {accuracy(model):.2f}")

# %% [markdown]
# No name fitted, so `strict=False` loaded nothing at all, and only the report that it returns says so. With the bare
# names the checkpoint loads strictly, and the answers are nearly right. Section 7.8 fixes the rest. (It is cleaner to
# save the `state_dict` of the bare model, here `compiled._orig_mod`, but you'll meet many checkpoints for which this
# wasn't done. `model.compile()` works in place and changes no names; [chapter 14](../14_compile/compile.ipynb) shows
# when it compiles nothing.)

# %% exercise="strip-wrappers"

# %% [markdown]
# ### An old body under a new head
#
# This is what `strict=False` is for: most of a checkpoint fits, but the model has a new head. `strict=False` forgives
# missing and unexpected names, as you saw.
#
# **Predict.** The new head has the same number of inputs, but another number of classes. Its name fits, its shape
# doesn't. Does `strict=False` skip that tensor?

# %% facts=["07-partial-state-dict"]
model = nn.Linear(4, 2)
report = model.load_state_dict({"weight": torch.zeros(2, 4), "old": torch.zeros(1)}, strict=False)
print(report)
print("the weight was loaded:", model.weight.tolist())

half = {"weight": torch.zeros(3, 4), "bias": torch.full((2,), 7.0)}
error_of(lambda: model.load_state_dict(half, strict=False))
print("the bias after the error:", model.bias.tolist())

# %% [markdown]
# No, a wrong shape raises even with `strict=False`, so take such entries out first. And look at the last line: the bias
# was loaded. `load_state_dict` collects its complaints and raises at the end, when it has already copied everything
# that fits. After the error the model is half old and half new, so don't catch the error and continue; build the model
# again.

# %% [markdown]
# A "size mismatch" names two shapes. To read it, you have to know which number is which. A textbook writes W x, with
# columns. Which shapes does `nn.Linear(4, 3)` use?

# %% facts=["07-linear-input-is-column-vector"]
fc = nn.Linear(4, 3)
print("weight:", tuple(fc.weight.shape))

for shape in ((5, 4), (2, 7, 4)):
    print(f"input {shape}, output {tuple(fc(torch.ones(shape)).shape)}")
error_of(lambda: fc(torch.ones(4, 1)))

# %% [markdown]
# The weight is (out, in): the formula is `x @ weight.T + bias`, and samples are rows. An input may have any number of
# dimensions before the last one, and a column is refused. So if the two shapes in a "size mismatch" of a Linear's
# weight differ in the first number, the numbers of outputs differ, for example because the head has other classes; if
# they differ in the second, the numbers of inputs do.
#
# ### Copy or assign
#
# We load a float64 checkpoint into a float32 model, in two ways:

# %%
state = {
    "weight": torch.ones(1, 2, dtype=torch.float64),
    "bias": torch.ones(1, dtype=torch.float64),
}
for assign in (False, True):
    model = nn.Linear(2, 1)
    weight = model.weight
    model.load_state_dict(state, assign=assign)
    shares = model.weight.data_ptr() == state["weight"].data_ptr()
    print(f"assign={assign}: {model.weight.dtype}")
    same = model.weight is weight
    print(f"  same Parameter: {same}, memory shared with the checkpoint: {shares}")

with torch.device("meta"):
    empty = nn.Linear(2, 1)
empty.load_state_dict(state, assign=True)
print("from meta:", empty.weight.device, empty.weight.tolist())

# %% [markdown]
# Loading copies *into* the existing tensors. The model keeps its dtype, its device and its Parameter objects, and an
# optimizer that was built before still has the right ones. `assign=True` instead replaces them with the checkpoint's
# tensors, as new Parameters that share the checkpoint's memory, so build the optimizer after loading. You need it to
# fill a model that was built on the device meta, which has nothing to copy into; the tutorial [Tips for loading an
# `nn.Module` from a checkpoint](https://docs.pytorch.org/tutorials/recipes/recipes/module_load_state_dict_tips.html)
# explains when that is useful.
#
# **Now you know.** Loading compares names and shapes, and copies in place. With `strict=False`, read the report.

# %% exercise="partial-load"

# %% [markdown]
# ## 7.7 A moving average of another model's weights
#
# You can use the registry for more than layers. A common need is a module that keeps a moving average of another
# model's weights. First, let's see what such an average is good for. Here is a regression with two weights and a lot of
# noise:

# %%
torch.manual_seed(0)
truth = torch.tensor([1.0, -2.0])
weight = nn.Parameter(torch.zeros(2))
average = weight.detach().clone()
optimizer = torch.optim.SGD([weight], lr=0.3)
off = {"last weights": [], "average": []}

for _ in range(300):
    x = torch.randn(4, 2)
    loss = (x @ weight - x @ truth - torch.randn(4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        average.mul_(0.95).add_(weight, alpha=0.05)
    off["last weights"].append((weight - truth).norm().item())
    off["average"].append((average - truth).norm().item())

for name, distances in off.items():
    mean = sum(distances[100:]) / 200
    print(f"{name:13}{mean:.2f} away from the truth, on average over the last 200 steps")

error_of(lambda: nn.Module().register_buffer("net.0.weight", average))

# %% [markdown]
# The last weights jump with each batch; their average hardly moves. Where should you store it? It should be saved and
# moved, but not trained, so it belongs in buffers, one for each entry of the model's `state_dict`. A buffer's name
# can't contain a dot, so number the buffers and keep the names in a list.
#
# There are two ways to spoil it. Without the `clone`, the average *is* the weight. And if you store the model itself as
# an attribute, it is registered: its weights are in the same `state_dict`, and its parameters in `parameters()`.
#
# **Now you know.** If a module should keep another model's values, give it a copy in its own buffer, under a name
# without dots.

# %% exercise="ema-weights"

# %% [markdown]
# ## 7.8 train, eval, freeze
#
# The classifier has all its tensors back, and is still worse than it was after training.

# %% facts=["07-training-mode-default", "07-eval-after-load"]
model = Classifier()
model.load_state_dict(bare)
print("in train mode:", model.training, f"- accuracy: {accuracy(model):.2f}")

model.eval()
print("in train mode:", model.training, f"- accuracy: {accuracy(model):.2f}")
print("the modules in it:", [module.training for module in model.modules()])

# %% [markdown]
# That was the third fault. Each module has its mode in a flag, `.training`, which isn't part of the `state_dict`, and a
# new module is in train mode. So call `eval()` after loading. `eval()` is `train(False)`, a walk that sets all flags,
# and they stay that way until the next such call. What people forget is the `train()` after a validation.
#
# **Predict.** In eval mode dropout does nothing. Does batch norm also do nothing? This layer has seen data with mean 5
# and standard deviation 3. What are its outputs for 5 and for 8?

# %% facts=["07-eval-switches-off-batchnorm", "07-eval-fixes-batchnorm-parameters"]
torch.manual_seed(0)
bn = nn.BatchNorm1d(1)
for _ in range(200):
    bn(torch.randn(64, 1) * 3 + 5)
bn.eval()

before = bn.running_mean.clone()
y = bn(torch.tensor([[5.0], [8.0]]))
print("output:", [round(value, 1) for value in y.flatten().tolist()])
print("running mean moved:", not torch.equal(bn.running_mean, before))

y.sum().backward()
trained = bn.weight.grad is not None
print("requires grad:", y.requires_grad, "- weight and bias got gradients:", trained)

# %% [markdown]
# Batch norm normalises with its running statistics, which no longer change: 5 is the mean and becomes 0; 8 is one
# standard deviation above it and becomes 1. `eval()` doesn't switch off gradients. `torch.no_grad()` and the stricter
# `torch.inference_mode()` (section 4.6) do that. For a validation you need `eval()` and one of these two.
#
# Here is what goes wrong without `eval()`. The same sample passes through twice, each time with a different companion
# in its batch:

# %% facts=["07-bn-small-test-batch"]
bn = nn.BatchNorm1d(2)
x = torch.tensor([[0.5, -1.0]])
companions = (torch.tensor([[0.0, 0.0]]), torch.tensor([[0.6, -9.0]]))

for mode in (True, False):
    bn.train(mode)
    for companion in companions:
        y = bn(torch.cat([x, companion]))[0]
        print(f"training={mode}: {[round(value, 2) for value in y.tolist()]}")

error_of(lambda: bn.train()(x))

# %% [markdown]
# In train mode, batch norm uses the mean and variance of the batch, so each sample's output depends on the others. A
# single value for a channel has no spread, so batch norm raises. In eval mode, no sample depends on the others.
#
# The explorer below shows one channel after six forwards in train mode. *One forward* sends the batch through the layer
# in the selected mode. The lines at the bottom are the running mean and variance. In train mode they creep towards the
# dashed values of the batch; in eval mode they don't change. Switch to eval, change mean and spread, and look at the
# output: it moves with the batch, because the layer no longer uses the batch's own mean and spread.

# %%
bn_explorer(steps=6)

# %% [markdown]
# `eval()` reaches only modules. **Find the line** that it doesn't reach:


# %% facts=["07-functional-dropout-needs-training-flag"]
class Forgetful(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.2)


class Aware(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.2, self.training)


x = torch.ones(1000)
for kind in (Forgetful, Aware):
    print(f"{kind.__name__:9} in eval mode: still drops: {(kind().eval()(x) == 0).any().item()}")

# %% [markdown]
# `F.dropout(x, 0.2)` is a function. A function is in no registry and has no mode, and its argument `training` defaults
# to True. Pass `self.training`, or use `nn.Dropout`, which does that for you.

# %% [markdown]
# ### Freezing
#
# **Predict.** The first layer is frozen, yet the optimizer was built over all parameters, with weight decay. Does the
# frozen layer shrink?

# %% facts=["07-freeze-by-requires-grad"]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
net[0].requires_grad_(False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1)
before = copy.deepcopy(net.state_dict())

net(torch.ones(3, 2)).sum().backward()
optimizer.step()
for name, value in net.named_parameters():
    moved = not torch.equal(value, before[name])
    print(f"{name}: has a gradient: {value.grad is not None}, moved: {moved}")

# %% [markdown]
# The frozen layer doesn't change. Its `.grad` is None, and optimizers skip such a parameter, including its weight
# decay. They check `.grad`, never `requires_grad`. This matters if you freeze a parameter in the middle of training.
# The next parameter is trained, frozen, and trained again; the true gradient is 1 and the learning rate 0.1:

# %% facts=["07-toggle-requires-grad"]
for clear in (True, False):
    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.1)
    values = []
    for trainable in (True, False, True):
        p.requires_grad_(trainable)
        if clear:
            optimizer.zero_grad()
        x = torch.ones(1, requires_grad=True)
        (p * x).sum().backward()
        optimizer.step()
        values.append(round(p.item(), 2))
    print("with zero_grad:   " if clear else "without zero_grad:", values)

# %% [markdown]
# Without `zero_grad` the gradient of the first step is still there in the second, and the frozen parameter moves to
# 0.8. In the third step a new 1 is added to that gradient, so the step is twice as long and leads to 0.6. Clear the
# gradients when you freeze.
#
# **Predict.** We call `requires_grad_(False)` on a batch-norm layer, then run a forward in train mode. Which entries of
# its `state_dict` have changed?

# %% facts=["07-freeze-batchnorm"]
torch.manual_seed(0)
net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
bn = net[0].requires_grad_(False)


def moved_by_a_forward():
    before = copy.deepcopy(bn.state_dict())
    net(torch.randn(8, 2) + 5)
    return [name for name, value in bn.state_dict().items() if not torch.equal(value, before[name])]


print("requires_grad_(False):", moved_by_a_forward())
bn.eval()
print("and bn.eval():        ", moved_by_a_forward())
net.train()
print("after net.train():    ", moved_by_a_forward())

# %% [markdown]
# All three buffers have changed. The flag stops gradients, but the statistics don't come from gradients; `forward`
# writes them. You need both switches. And `eval()` on the layer is undone by the next `net.train()`, which walks over
# all modules. In most training loops, that is at the start of the next epoch.
#
# **Now you know.** There are three separate switches: `eval()` for what `forward` does, `no_grad` for what is recorded,
# `requires_grad_(False)` for what gets a gradient.

# %% exercise="freeze-batchnorm"

# %% [markdown]
# ## 7.9 Files: save, load, resume
#
# You want to put a `state_dict` into a file and load it on another day and another machine. What is in such a file, and
# what does `torch.load` return?

# %% facts=["07-save-load-state-dict", "07-file-extensions"]
trained, fresh = nn.Linear(4, 2), nn.Linear(4, 2)
with TemporaryDirectory() as folder:
    path = Path(folder) / "model.pt"
    torch.save(trained.state_dict(), path)
    loaded = torch.load(path, map_location="cpu")
    with zipfile.ZipFile(path) as archive:
        inside = [name.partition("/")[2] for name in archive.namelist()]

print("in the file:            ", [name for name in inside if name.startswith("data")])
print("torch.load returns:     ", type(loaded).__name__, list(loaded))
print("load_state_dict returns:", fresh.load_state_dict(loaded))

# %% [markdown]
# The file is a zip, whatever its name ends in. `data/0` and `data/1` are the bytes of the tensors, and `data.pkl` is a
# pickle that says how to put things together. `torch.load` returns the dict. `load_state_dict` returns a report, so
# `model = model.load_state_dict(…)` loses the model. The recipe is therefore to build the model with its code, then to
# load the weights into it. With `map_location="cpu"`, any machine can read a file that was written on a GPU.
#
# A pickle is a small program: it can name any function and ask for a call. `Note` tells pickle to rebuild it by calling
# `print`.
#
# **Predict.** Which call prints the line: `torch.save`, `torch.load` with its defaults, or `torch.load` with
# `weights_only=False`?


# %% facts=["07-load-whole-model"]
class Note:
    def __reduce__(self):
        return print, ("this line was printed by the file",)


file = io.BytesIO()
torch.save({"weight": torch.ones(1), "note": Note()}, file)

file.seek(0)
print("what the file asks for:", torch.serialization.get_unsafe_globals_in_checkpoint(file))
file.seek(0)
error_of(lambda: torch.load(file), lines=1)
file.seek(0)
print(torch.load(file, weights_only=False))

file = io.BytesIO()
torch.save({"epoch": 3, "loss": np.mean([0.25, 0.75])}, file)
file.seek(0)
error_of(lambda: torch.load(file), lines=1)

# %% [markdown]
# Only `torch.load` with `weights_only=False` prints the line, because it runs what the file asks for. Here the file
# printed a line, but it could have called any function with any arguments, for example to delete your files. Since 2.6
# the default is `weights_only=True`, which rebuilds tensors, plain containers, numbers, strings and a few known types,
# and refuses everything else before it runs. It also refuses the NumPy number that `np.mean` returned in the last save,
# so write `float(loss)` into a checkpoint. `get_unsafe_globals_in_checkpoint` lists what a file asks for without
# running anything. The note [Serialization semantics](https://docs.pytorch.org/docs/stable/notes/serialization.html)
# has the rules.
#
# You can also save a whole model. Is the file larger, and does it load?

# %% facts=["07-load-whole-model", "07-whole-model-is-larger"]
model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
whole, weights = io.BytesIO(), io.BytesIO()
torch.save(model, whole)
torch.save(model.state_dict(), weights)
sizes = [len(file.getvalue()) for file in (whole, weights)]
print(f"whole model {sizes[0] / 1e6:.1f} MB, state_dict {sizes[1] / 1e6:.1f} MB")

whole.seek(0)
error_of(lambda: torch.load(whole), lines=1)
whole.seek(0)
with torch.serialization.safe_globals([nn.Sequential, nn.Linear]):
    print("with safe_globals:", type(torch.load(whole)).__name__)

# %% [markdown]
# The files have nearly the same size, because the tensors dominate both. But a whole model names classes, so
# `torch.load` refuses it. You can allow the classes that you know, with `safe_globals`, or trust the file with
# `weights_only=False`. Either way, Python must be able to import the classes under their old names. A `state_dict`
# loads without trust and without the old classes; you only need code that builds the same names and shapes.
#
# Most weights that are shared today are *safetensors* files: a header in JSON, then the bytes of the tensors, and
# nothing that could run. The format is strict about what it accepts:

# %%
tied = nn.ModuleDict({"embed": nn.Embedding(3, 2), "out": nn.Linear(2, 3, bias=False)})
tied["out"].weight = tied["embed"].weight

data = safetensors.torch.save(nn.Linear(4, 2).state_dict())
length = int.from_bytes(data[:8], "little")
print(data[8 : 8 + length].decode().strip().replace('},"', '},\n "'))
error_of(lambda: safetensors.torch.save({"epoch": 1}), lines=1)
try:
    safetensors.torch.save(tied.state_dict())
except RuntimeError as error:
    print(fill(f"RuntimeError: {str(error).strip().partition(':')[0]}", 90))

# %% [markdown]
# It stores a flat dict of separate tensors (and strings as metadata): no numbers, and no tensor under two names. For
# tied weights the library has `save_model` and `load_model`, which write such a tensor once; its page [Torch shared
# tensors](https://huggingface.co/docs/safetensors/torch_shared_tensors) says why. It is a format for weights, not for
# optimizer states and epochs. For those, use `torch.save` with plain containers.

# %% [markdown]
# ### Resuming
#
# A training run stops and continues later. It has an Adam optimizer, a learning rate that halves every four steps,
# dropout, and shuffled data.
#
# **Predict.** The checkpoint has the state of the model, the optimizer, the scheduler and the random generator. We
# leave out one of the four at a time. For each of them, how many of the next six losses are still right?


# %% facts=["07-checkpoint-dictionary"]
def build(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


def train(parts, steps):
    """Return the losses of some steps, each on eight samples drawn from a fixed data set."""
    inputs = torch.linspace(-1, 1, 64).reshape(16, 4)
    losses = []
    for _ in range(steps):
        rows = torch.randperm(16)[:8]
        loss = (parts["model"](inputs[rows]) - inputs[rows].sum(1, keepdim=True)).square().mean()
        parts["optimizer"].zero_grad()
        loss.backward()
        parts["optimizer"].step()
        parts["scheduler"].step()
        losses.append(loss.item())
    return losses


parts = build(seed=0)
train(parts, 6)
checkpoint = {name: part.state_dict() for name, part in parts.items()}
checkpoint |= {"step": 6, "rng": torch.get_rng_state()}
file = io.BytesIO()
torch.save(checkpoint, file)
expected = train(parts, 6)  # the losses of a run that does not stop
print("without a stop:", [round(loss, 2) for loss in expected])

for left_out in ("nothing", "model", "optimizer", "scheduler", "rng"):
    file.seek(0)
    checkpoint = torch.load(file)
    parts = build(seed=1)
    for name in {"model", "optimizer", "scheduler"} - {left_out}:
        parts[name].load_state_dict(checkpoint[name])
    if left_out != "rng":
        torch.set_rng_state(checkpoint["rng"])
    losses = train(parts, 6)
    same = sum(a == b for a, b in zip(losses, expected, strict=True))
    print(f"left out: {left_out:9} - identical losses, of 6: {same}")

# %% [markdown]
# With all four, the six losses are equal to the last bit. Without the generator's state, the dropout masks and the
# shuffle are different. Without Adam's moments the first loss is right, since the step comes after it, and all later
# losses differ. Without the scheduler three losses are right, until the next halving is due. This is the error that
# nobody notices.
#
# The checkpoint is a dict of tensors, numbers and containers, so it passes `weights_only`. The number of the step is
# there for your loop. Restore the generator's state last, because building a model draws random numbers, and so may
# anything that runs in between.
#
# The picture opens that checkpoint and shows where its bytes are. Adam keeps two moments for each weight and a step
# count for each tensor. It identifies parameters by their number, in the order in which you passed them, not by name.

# %%
checkpoint_anatomy(checkpoint)

# %% [markdown]
# **Now you know.** To resume a run you need its code and one dict with the `state_dict` of everything that has one, the
# number of the step, and the generator's state.

# %% exercise="resumable-checkpoint"

# %% [markdown]
# ## On a GPU
#
# Two things about checkpoints are different on a GPU. Each tensor in a file remembers its device, and dropout uses a
# separate generator. Without a GPU each cell shows a recorded run. No exercise needs them.


# %% facts=["07-save-load-state-dict"] varies="a CUDA device changes what is shown"
@cuda_demo("07_modules_state_dict")
def load_without_a_gpu() -> None:
    """Save a tensor on the GPU, then load it in a process that sees none."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "on_gpu.pt")
        torch.save({"weight": torch.ones(2, device="cuda")}, path)
        for option in ("", ", map_location='cpu'"):
            program = f"import torch; print(torch.load({path!r}{option}))"
            blind = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
            command = [sys.executable, "-c", program]
            done = subprocess.run(command, capture_output=True, text=True, env=blind)
            lines = (done.stdout or done.stderr).strip().splitlines()
            print(f"torch.load(path{option}):")
            print(fill(lines[-1], 90))


load_without_a_gpu()


# %% facts=["07-checkpoint-dictionary"] varies="a CUDA device changes what is shown"
@cuda_demo("07_modules_state_dict")
def the_generator_of_the_gpu() -> None:
    """Dropout masks after restoring the CPU's generator only, then those of the GPUs."""
    x = torch.ones(1000, device="cuda")
    on_cpu, on_gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    mask = F.dropout(x, 0.5)
    torch.set_rng_state(on_cpu)
    print("CPU's state only:   same mask:", torch.equal(F.dropout(x, 0.5), mask))
    torch.cuda.set_rng_state_all(on_gpus)
    print("GPUs' states, too:  same mask:", torch.equal(F.dropout(x, 0.5), mask))


the_generator_of_the_gpu()

# %% [markdown]
# If a machine doesn't have the device of a tensor, loading fails and the message points to `map_location`. And if you
# train on GPUs, the checkpoint also needs `torch.cuda.get_rng_state_all()`, with `set_rng_state_all` after loading.
#
# ## Folklore, checked
#
# The table lists what people say about modules and their files, and whether it is true. Each row has a proof that you
# can expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("07_modules_state_dict")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("07-partial-state-dict")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [`torch.nn.Module`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html): `state_dict`,
#   `load_state_dict`, `register_buffer`, `named_parameters`, `apply`, `train`;
# - [`torch.nn.parameter.Parameter`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html)
#   and [`torch.nn.parameter.Buffer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Buffer.html);
# - the note [Modules](https://docs.pytorch.org/docs/stable/notes/modules.html), a tour from a first module to hooks;
# - [`torch.load`](https://docs.pytorch.org/docs/stable/generated/torch.load.html), with its warning, and the note
#   [Serialization semantics](https://docs.pytorch.org/docs/stable/notes/serialization.html): `safe_globals`,
#   `get_unsafe_globals_in_checkpoint`;
# - [`torch.nn.BatchNorm1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html), on running
#   statistics and momentum;
# - [`torch.optim.swa_utils.AveragedModel`](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema),
#   a moving average that comes with PyTorch;
# - the tutorial [Saving and Loading Models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html).
#
# **Next:** chapter 8, [Automatic mixed precision](../08_amp/amp.ipynb).
