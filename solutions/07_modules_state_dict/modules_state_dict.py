# %% [markdown]
# # Modules and state_dict
#
# A module is a registry. What is entered in it is trained, saved and moved; what is not stays behind without a word.
# Nearly everything that you ask of a model, from `parameters()` to `state_dict()`, is a walk over that registry. After
# this chapter you can
#
# - say for any attribute of a module whether it is trained, saved and moved, and choose between Parameter, buffer,
# non-persistent buffer and plain attribute;
# - walk a model (children, modules, named parameters) without counting anything twice;
# - save and load safely: `state_dict`, `weights_only`, partial loading with a report, and a checkpoint that resumes bit
# for bit;
# - use train, eval and freezing correctly, batch norm included;
# - read the three messages that everybody meets when loading: "Missing key(s)", "size mismatch" and "Weights only load
# failed".
#
# **65 minutes to read, 142 minutes to practise, 20 points.** You need chapter 2, sections 2.1 to 2.4 (shape, view or
# copy), and from chapter 4 what `requires_grad`, `.grad` and `torch.no_grad` do.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

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
    observe_value,
    prediction,
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
# Today's script loads them. At first `load_state_dict` raised; somebody looked the message up and added `strict=False`.

# %%
file.seek(0)
checkpoint = torch.load(file)
model = Classifier()
error_of(lambda: model.load_state_dict(checkpoint), lines=2)

model.load_state_dict(checkpoint, strict=False)
print(f"accuracy: {accuracy(model):.2f}")

# %% [markdown]
# No error, and no better than tossing a coin. Three things are wrong here: one in the class, one in the file, one in
# today's script. They are mended in sections 7.2, 7.6 and 7.8.
#
# ## 7.1 A module is a registry
#
# You assign a layer to an attribute, and from then on an optimizer finds its weights. Where have they been entered?
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
# The second. Three dicts make the registry, `_parameters`, `_buffers` and `_modules`, and `super().__init__()` creates
# them. A number goes into the object like any attribute. A Parameter, a buffer or a module is recognised and goes
# into one of the dicts, where `net.fc` finds it again; in `Forgotten` there was no dict yet.
#
# Here is `net`. The layers in it are modules too, with registries of their own.

# %%
registry_walk()

# %% [markdown]
# The walk over it is short enough to be written down. It takes what is in the two dicts of tensors, then goes down into
# each module of the third, with a longer prefix:


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
# That is all there is to the names in a checkpoint. The other walks differ in what they take along:
#
# | what you call | what the walk takes |
# |---|---|
# | `parameters()`, `requires_grad_()`, `zero_grad()` | parameters |
# | `buffers()` | buffers |
# | `state_dict()`, `load_state_dict()` | parameters and buffers, by their names |
# | `.to()`, `.double()`, `.cuda()` | parameters and buffers |
# | `train()`, `eval()`, `apply(f)` | the modules themselves |
#
# No walk came to `extra`, a Python list. And none looks into `forward`. Here are two classes with the same formula:


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
# `__init__` builds, once; `forward` connects, at every call. A layer that is created in `forward` is a new one with new
# random weights at every call. Here the optimizer complains, because it was given nothing at all; in a model with other
# layers it doesn't.
#
# What no registry says is where a model *is*. People write `x.to(model.device)`:

# %% facts=["07-module-has-device"]
error_of(lambda: net.device)
print(next(net.parameters()).device)

with torch.device("meta"):
    elsewhere = nn.Linear(2, 2)
print(next(elsewhere.parameters()).device)

# %% [markdown]
# Tensors have devices, and those of one model may lie on several; `next(model.parameters()).device` asks the first. The
# device "meta" has shapes and dtypes but no numbers. It exists on every machine, and in this chapter it plays the
# second device.
#
# **Now you know.** An assignment enters parameters, buffers and modules into three dicts. Whatever you ask of a model
# walks over them and sees nothing else.
#
# ## 7.2 Parameter, buffer, plain attribute
#
# What is trained, what is saved, what is moved: the registry decides all three, at the moment of the assignment.
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
# Neither. A plain tensor is not recognised, whether it requires grad or not, and nobody looks into a Python list: not
# even for a Parameter. So there are four places for a tensor:
#
# | where it is kept | trained: in `parameters()` | saved: in `state_dict()` | moved: by `.to()`, `.cuda()` |
# |---|---|---|---|
# | `nn.Parameter` | yes | yes | yes |
# | buffer | no | yes | yes |
# | buffer, `persistent=False` | no | no | yes |
# | plain attribute, list, dict | no | no | no |
#
# Some containers are modules themselves, such as `nn.ModuleDict` and `nn.ParameterList` (section 7.3). What they hold
# is registered, and a plain tensor that is put into a `ParameterList` becomes a Parameter.
#
# A buffer is made by assigning an `nn.Buffer` (since 2.5) or by `register_buffer`, the older way. A name that is
# registered stays so:

# %% facts=["07-buffer-only-via-register-buffer", "07-register-buffer-signature"]
model = nn.Module()
model.weight = nn.Parameter(torch.ones(3))
model.mean = nn.Buffer(torch.zeros(3))
model.mask = nn.Buffer(torch.ones(4, 4).tril(), persistent=False)
model.register_buffer("scale", torch.ones(3), persistent=True)
print("buffers():   ", [name for name, _ in model.named_buffers()])
print("state_dict():", list(model.state_dict()))

model.mean = torch.ones(3)
print("mean is a buffer still:", "mean" in dict(model.named_buffers()), model.mean.tolist())
error_of(lambda: setattr(model, "weight", torch.zeros(3)))

# %% [markdown]
# A plain tensor that is assigned to a buffer's name becomes the buffer's new value. For a Parameter's name it is
# refused: a Parameter that silently turned into a tensor would drop out of training. To change its value, write into
# it: `with torch.no_grad(): model.weight.fill_(0)`.
#
# **Find the line** in `Classifier`, at the top of this chapter, that keeps something out of the file. Then compare the
# repaired class.


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
# `mean` and `std` were plain tensors. They were measured on the training data and are needed for every answer, and they
# were never saved. In yesterday's file they are lost; measure them again, or train again. As buffers they are saved,
# and the line in `fit` that assigns to them can stay as it is. That was the first of the three faults.
#
# A frozen Parameter, `requires_grad=False`, is saved and moved as well. Is there any difference to a buffer?

# %% facts=["07-frozen-parameter-or-buffer"]
model = nn.Module()
model.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
model.buffer = nn.Buffer(torch.ones(1))
print("parameters():", [name for name, _ in model.named_parameters()])

model.requires_grad_(True)
frozen, buffer = model.frozen.requires_grad, model.buffer.requires_grad
print("after requires_grad_(True): frozen", frozen, "- buffer", buffer)

# %% [markdown]
# The frozen Parameter is still in `parameters()`: it is counted, handed to optimizers, and wakes up when somebody
# unfreezes the whole model. What must never be trained belongs in a buffer. (Not trained doesn't mean constant: a
# buffer is state that `forward` may write, as batch norm writes its running statistics.)
#
# What does moving do to an optimizer that was built before?

# %%
model = nn.Linear(2, 2)
weight = model.weight

model.double()
print("after double():  the same Parameter:", model.weight is weight, "- now", weight.dtype)
model.to("meta")
print('after to("meta"): the same Parameter:', model.weight is weight)

# %% [markdown]
# Modules are changed in place, unlike tensors: `model.to(…)` needs no assignment. The Parameter objects stay, with new
# contents, and so they do on the way to a GPU; an optimizer that was built before still holds the right ones. (What it
# has gathered itself, such as momentum, does not follow. Move first, then.) The device meta is an exception: it has no
# contents, so there are new Parameters.
#
# The explorer below shows a module as its registry sees it: a row for every tensor that hangs on it, what kind it is,
# and whether it is trained and saved. To see what is moved, switch `.double()` or `.to("meta")` on and look for the
# rows that stay behind. Switch `.requires_grad_(False)` on: the parameters remain in `parameters()`. In *tied
# embedding* two names hold one tensor: two entries in the `state_dict`, one in `parameters()`. `.to("meta")` unties
# them.

# %%
state_explorer()

# %% [markdown]
# **Now you know.** Trained, saved and moved: Parameter. Saved and moved: buffer. Moved: buffer with
# `persistent=False`. Everything else is yours to look after.

# %% exercise="registered-or-not"

# %% [markdown]
# ### A buffer that is not saved
#
# Why would one keep a buffer out of the checkpoint? Because it can be computed, and the next model may want another
# size of it. Here a model for 4 positions writes a checkpoint for one with 8:


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
# The table that was saved fits one length only. The other is made by `__init__`, moves with the model, and no
# checkpoint carries it.

# %% exercise="sinusoidal-positions"

# %% [markdown]
# ## 7.3 Containers
#
# Models hold layers in lists, dicts and chains. Whether such a container is a module decides whether a walk passes
# through it.
#
# Both models below hold three layers in a list. Compare what they answer.

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
# `parameters()`, `state_dict()`, `.to()` and `eval()` don't reach into the Python list, and no error says so. Such a
# model even trains, because its other layers learn around them. After loading it answers at random, because the layers
# in the list are new ones.
#
# `nn.ModuleList` is a list that registers. It only holds: it has no `forward`, and the same goes for `ModuleDict`,
# `ParameterList` and `ParameterDict`. `nn.Sequential` is the container that can be called; it hands one value from
# layer to layer, so a branch or a skip connection needs a module of your own.
#
# Where things stand in a container becomes part of their names. These two compute the same:

# %% facts=["07-sequential", "07-sequential-ordereddict-same"]
numbered = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
named = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3), act=nn.ReLU(), head=nn.Linear(3, 1)))
print(list(numbered.state_dict()))
print(list(named.state_dict()))
error_of(lambda: named.load_state_dict(numbered.state_dict()), lines=2)

renamed = dict(zip(named.state_dict(), numbered.state_dict().values(), strict=True))
print(named.load_state_dict(renamed))

# %% [markdown]
# In a Sequential the place is the name; the ReLU has one too, and nothing to save. Put a layer in, and all later names
# move: an old checkpoint doesn't fit any more, or fits in the wrong place. Names of your own are safer.
#
# Two containers have habits that one should know:

# %% facts=["07-parameterlist", "07-parameterlist-holds-only-parameters", "07-moduledict"]
values = nn.ParameterList([nn.Parameter(torch.ones(1)), torch.zeros(2), 3])
print([type(value).__name__ for value in values], list(values.state_dict()))

error_of(lambda: nn.ModuleDict({"conv.1": nn.ReLU()}))
error_of(lambda: nn.ModuleDict({"keys": nn.ReLU()}))

# %% [markdown]
# A plain tensor in a `ParameterList` becomes a trainable Parameter: no place for constants. Keys of a `ModuleDict` are
# parts of dotted names, so they have no dots, and a name that the container itself uses is taken.
#
# **Predict.** `Split` groups a layer of its parent anew. `Base` has four parameters. How many has `Split`, and how many
# entries has its `state_dict`?


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
# Four and six. One layer is now registered under two names. `parameters()` lists each object once; `state_dict()` lists
# every name, so a checkpoint of the parent has too few of them. Where you only want another route through the layers,
# change `forward` and register nothing.
#
# **Now you know.** A container must be a module to be seen, and its keys are names in the checkpoint.
#
# ## 7.4 Walking a model
#
# How many parameters does this model have? There are three ways to count, and two of them are wrong.
#
# First the walks themselves, over a Sequential that holds a Linear and another Sequential:

# %% facts=["07-children-one-level", "07-named-modules", "07-named-parameters"]
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))

print("children:        ", [type(child).__name__ for child in net.children()])
print("modules:         ", [type(module).__name__ for module in net.modules()])
print("named_modules:   ", [name for name, _ in net.named_modules()])
print("named_parameters:", [name for name, _ in net.named_parameters()])
print("named_buffers:   ", [name for name, _ in net.named_buffers()])

# %% [markdown]
# `children()` is one level, without the net. `modules()` is everything, the net itself first; its name in
# `named_modules()` is empty. All of them are generators: print one, and you see `<generator object …>`. To look at the
# structure, print the model. (The package torchinfo draws the walk as a table, with the shapes of all outputs if you
# give it the size of an input.)
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
print("leaves:   ", leaves)

# %% [markdown]
# The first: four weights and two biases. `parameters()` already walks the whole tree, so the double loop counts a
# parameter once for each module that it lies in, however deep. `modules()` and `parameters()` skip an object that
# they have seen; `state_dict()` does not.
#
# The walk `apply` calls a function with each module, the net itself last. It is the usual way to initialise layers by
# their type:


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
# **Now you know.** Count over `parameters()`; take `named_modules()` to go everywhere, `children()` for one level.

# %% exercise="param-report"

# %% [markdown]
# ## 7.5 A state_dict holds living tensors
#
# A dict from names to tensors: that is all that `state_dict()` returns. But which tensors?

# %% facts=["07-state-dict-holds-only-parameters"]
model = nn.Sequential(OrderedDict(fc=nn.Linear(3, 2), bn=nn.BatchNorm1d(2)))
state = model.state_dict()

count = len(list(model.parameters()))
print(type(state).__name__, "- parameters:", count, "- entries:", len(state))
for name, value in state.items():
    print(f"{name:23} {tuple(value.shape)!s:7} {value.dtype}")

# %% [markdown]
# Parameters and persistent buffers: four and three here. `num_batches_tracked` is a counter, an int64 of shape (). What
# is not in it: code, the list of layers, hooks, train or eval mode.
#
# **Predict.** `best = model.state_dict()` at the best moment, then training goes on. What is in `best` at the end?

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
# The last weights, not the best ones. The tensors in a `state_dict` are detached from the graph, but share their memory
# with the model. A snapshot needs a copy of each tensor: `copy.deepcopy`, a `clone` for each value, or a file.
#
# **Now you know.** A `state_dict` is a view of the model under names. Copy what you want to keep.

# %% exercise="snapshot-best"

# %% [markdown]
# ## 7.6 Loading compares names and shapes
#
# "All keys matched successfully" sounds like a promise. What has been compared?
#
# **Predict.** `other` has another activation, and a dropout layer more. Does it load the weights of `saved`?

# %% facts=["07-load-needs-same-architecture"]
saved = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
other = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Dropout())

print(other.load_state_dict(saved.state_dict()))
x = torch.tensor([[1.0, -2.0]])
print("same output:", torch.equal(saved(x), other.eval()(x)))

error_of(lambda: nn.Linear(2, 2).load_state_dict(saved.state_dict()))

# %% [markdown]
# It loads, and computes something else: names and shapes agree, and nothing more was asked. The single Linear is
# refused, with tensors of exactly the right shapes. Read the message like this: *missing* is what the model has and the
# checkpoint lacks, *unexpected* is what only the checkpoint has. When both lists are long and look alike, the names
# differ by a prefix.
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
# A wrapper is a module that holds the model as a child, and the name of the child becomes a part of every name:
# `module` for DataParallel and DistributedDataParallel, `_orig_mod` for `torch.compile`. This is the second fault of
# the classifier, the one in the file. Here is the checkpoint of section 7.2, first loaded as today's script did it:

# %% facts=["07-partial-state-dict"]
model = Classifier()
report = model.load_state_dict(checkpoint, strict=False)
missing, unexpected = len(report.missing_keys), len(report.unexpected_keys)
print(f"{missing} missing, {unexpected} unexpected, accuracy {accuracy(model):.2f}")

bare = {name.removeprefix("_orig_mod."): value for name, value in checkpoint.items()}
print(model.load_state_dict(bare))
print(f"accuracy: {accuracy(model):.2f}")

# %% [markdown]
# Not one name fitted, so `strict=False` loaded nothing at all, and only the report that it returns would have said so.
# With bare names it loads strictly, and the answers are nearly right. What is left is for section 7.8. (It is cleaner
# to save the `state_dict` of the bare model, here `compiled._orig_mod`; but there are checkpoints enough that were
# not. `model.compile()` works in place and changes no names; [chapter 14](../14_compile/compile.ipynb) shows when it
# compiles nothing.)

# %% exercise="strip-wrappers"

# %% [markdown]
# ### An old body under a new head
#
# This is what `strict=False` is for: most of a checkpoint fits, and the head is another one. Missing and unexpected
# names are forgiven, as you saw.
#
# **Predict.** The new head has as many inputs, but other classes: its name fits, its shape doesn't. Is that tensor
# skipped?

# %% facts=["07-partial-state-dict"]
model = nn.Linear(4, 2)
report = model.load_state_dict({"weight": torch.zeros(2, 4), "old": torch.zeros(1)}, strict=False)
print(report)
print("loaded all the same:", model.weight.tolist())

half = {"weight": torch.zeros(3, 4), "bias": torch.full((2,), 7.0)}
error_of(lambda: model.load_state_dict(half, strict=False))
print("the bias after the refusal:", model.bias.tolist())

# %% [markdown]
# No, a wrong shape raises all the same, with `strict=False` too; take such entries out before. And look at the last
# line. `load_state_dict` collects its complaints and raises at the end, when it has already copied everything that
# fitted. After the error the model is half old and half new, so don't catch the error and go on: build the model again.

# %% [markdown]
# ### Shapes
#
# A "size mismatch" tells two shapes. To read it one must know which number is which; a textbook writes W x, with
# columns. What does `nn.Linear(4, 3)` take?

# %% facts=["07-linear-input-is-column-vector"]
fc = nn.Linear(4, 3)
print("weight:", tuple(fc.weight.shape))

for shape in ((5, 4), (2, 7, 4)):
    print(f"input {shape}, output {tuple(fc(torch.ones(shape)).shape)}")
error_of(lambda: fc(torch.ones(4, 1)))

# %% [markdown]
# The weight is (out, in): the formula is `x @ weight.T + bias`, and samples are rows. Any number of dimensions may
# stand before the last one; a column is refused. So a "size mismatch" in the first number is about outputs, a head with
# other classes; in the second, about inputs.
#
# A shape that fits is no proof either.
#
# **Predict.** This net was made for images of 32 pixels: its features are (N, 16, 5, 5), and `forward` flattens them by
# `view(-1, 16 * 5 * 5)`. Now 25 images of 44 pixels come. How many rows are there after the `view`?

# %% facts=["07-flatten-with-view-minus-one"]
body = nn.Sequential(
    *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
)
features = body(torch.zeros(25, 3, 44, 44))

print("features:     ", tuple(features.shape))
print("view(-1, 400):", tuple(features.view(-1, 16 * 5 * 5).shape))
print("flatten(1):   ", tuple(features.flatten(1).shape))
error_of(lambda: nn.Linear(400, 120)(features.flatten(1)))

# %% [markdown]
# 64, silently: 25 · 16 · 8 · 8 numbers are also 64 rows of 400, and -1 takes whatever makes the product come out. The
# third row begins in the first image and ends in the second. `flatten(1)` keeps the batch, and the wrong size raises
# where it should.
#
# ### Copy or assign
#
# A float64 checkpoint goes into a float32 model, in two ways:

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
# Loading copies *into* the tensors that are there: dtype, device and the objects stay the model's, and an optimizer
# that was built before still holds the right ones. `assign=True` puts the checkpoint's tensors in their place, as new
# Parameters that share the checkpoint's memory; build the optimizer after that. It is the way to fill a model that was
# built on the device meta, where there is nothing to copy into: the tutorial [Tips for loading an `nn.Module` from a
# checkpoint](https://docs.pytorch.org/tutorials/recipes/recipes/module_load_state_dict_tips.html) shows why one does.
#
# **Now you know.** Loading compares names and shapes, and copies in place. `strict=False` is only as good as what you
# do with its report.

# %% exercise="partial-load"

# %% [markdown]
# ## 7.7 A module that follows another
#
# Modules of your own may use the registry for more than layers. One that is often wanted keeps a moving average of
# another model's weights. First, what such an average is good for. A regression with two weights and much noise:

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
# The last weights jump with each batch; their average hardly does. Where should it live? Saved and moved, but not
# trained: in buffers, one for each entry of the model's `state_dict`. A buffer's name has no dot, so number them and
# keep the names in a list.
#
# There are two ways to spoil it. Without the `clone`, the average *is* the weight. And a model that is kept as an
# attribute is registered: its weights are in the same `state_dict`, and its parameters in `parameters()`.
#
# **Now you know.** What a module should keep, it must own: a copy, in a buffer, under a name without dots.

# %% exercise="ema-weights"

# %% [markdown]
# ## 7.8 train, eval, freeze
#
# The classifier has all its tensors back, and still makes mistakes that it didn't make yesterday.

# %% facts=["07-training-mode-default", "07-eval-after-load"]
model = Classifier()
model.load_state_dict(bare)
print("in train mode:", model.training, f"- accuracy: {accuracy(model):.2f}")

model.eval()
print("in train mode:", model.training, f"- accuracy: {accuracy(model):.2f}")
print("the modules in it:", [module.training for module in model.modules()])

# %% [markdown]
# That was the third fault. The mode is a flag, `.training`, on every module; it is no part of the `state_dict`, and a
# new module is in train mode. So `eval()` comes after loading. It is `train(False)`: a walk that sets the flags, and
# that holds until the next call. What people forget is the `train()` after a validation.
#
# **Predict.** In eval mode dropout does nothing. Does batch norm do nothing too? This one has seen data with mean 5 and
# standard deviation 3; what are its outputs for 5 and for 8?

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
# It normalises with its running statistics, which now stand still: 5 is the mean and becomes 0; 8 lies one standard
# deviation above it. No gradient is switched off. That is the work of `torch.no_grad()` or `torch.inference_mode()`;
# for a validation you need both.
#
# Here is what goes wrong without `eval()`. The same sample passes twice, each time with another companion in its batch:

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
# In train mode mean and variance are those of the batch, so each sample's output depends on the others. One value for
# a channel has no spread at all, and that raises. In eval mode each sample stands for itself.
#
# The explorer below shows one channel after six forwards in train mode. *One forward* sends the batch through the layer
# in the mode that is chosen; the lines at the bottom are the running mean and variance, which creep towards the dashed
# values of the batch in train mode and stand still in eval mode. Switch to eval, change mean and spread, and look at
# the output: it moves with the batch, because the layer no longer looks at the batch's own mean and spread.

# %%
bn_explorer(steps=6)

# %% [markdown]
# `eval()` reaches modules. **Find the line** that it doesn't reach:


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
# A function is in no registry and has no mode, and its argument `training` defaults to True. Pass `self.training`, or
# use `nn.Dropout`, which does.

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
# It doesn't move: its `.grad` is None, and optimizers skip such a parameter, weight decay included. They look at
# `.grad`, never at `requires_grad`. Which has a consequence when a parameter is frozen in the middle of training. This
# one is trained, frozen, and trained again; the true gradient is 1 and the learning rate 0.1:

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
# 0.8. In the third step a new 1 is added to it, and the step is twice as long: 0.6. Clear the gradients when you
# freeze.
#
# **Predict.** `requires_grad_(False)` on a batch-norm layer, then a forward in train mode. Which entries of its
# `state_dict` have changed?

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
# All three buffers. The flag stops gradients, and statistics are not made by gradients: `forward` writes them. Both
# switches are needed, and `eval()` on the layer is undone by the next `net.train()`, a walk that comes to every module;
# so by the next epoch of any training loop.
#
# **Now you know.** Three switches, and none does the work of another: `eval()` for what `forward` does, `no_grad` for
# what is recorded, `requires_grad_(False)` for what gets a gradient.

# %% exercise="freeze-batchnorm"

# %% [markdown]
# ## 7.9 Files: save, load, resume
#
# A `state_dict` must get into a file and out of it, on another day and another machine. What is in such a file, and
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
# pickle that says how to put things together. `torch.load` returns the dict, and `load_state_dict` a report:
# `model = model.load_state_dict(…)` loses the model. So the recipe is to build the model by its code, then to fill it.
# `map_location="cpu"` makes a file that was written on a GPU readable anywhere.
#
# A pickle is a small program: it may name any function and ask for a call. `Note` tells pickle to rebuild it by calling
# `print`.
#
# **Predict.** Who prints the line: `torch.save`, `torch.load` as it is called by default, or `torch.load` with
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
# Only the last. With `weights_only=False` the file had its say. Here it printed a line; it could have been any function
# with any arguments, deleting your files included. Since 2.6 `weights_only=True` is the default: tensors, plain
# containers, numbers, strings and a few known types are rebuilt, and all else is refused before it runs. This includes
# the NumPy number that `np.mean` returned in the last save: write `float(loss)` into a checkpoint.
# `get_unsafe_globals_in_checkpoint` lists what a file asks for without running anything. The rules stand in the note
# [Serialization semantics](https://docs.pytorch.org/docs/stable/notes/serialization.html).
#
# A whole model can be saved too. Is the file larger, and does it load?

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
# Nearly the same size: the tensors dominate both. But a whole model names classes, so it is refused. You can allow
# those that you know, with `safe_globals`, or trust the file with `weights_only=False`; either way the classes must
# be importable under their old names. A `state_dict` needs neither trust nor old code, and that is the reason to
# prefer it.
#
# Most weights that are shared today come as *safetensors*: a header in JSON, then the bytes of the tensors, nothing
# that could be run. It is strict about what it takes:

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
# It holds a flat dict of separate tensors (and strings as metadata): no numbers, and no tensor under two names. For
# tied weights the library has `save_model` and `load_model`, which write such a tensor once; its page [Torch shared
# tensors](https://huggingface.co/docs/safetensors/torch_shared_tensors) says why. It is a format for weights, not for
# optimizer states and epochs; for those `torch.save` with plain containers remains.

# %% [markdown]
# ### Resuming
#
# A training stops and goes on. It has an Adam optimizer, a learning rate that halves every four steps, dropout, and
# shuffled data.
#
# **Predict.** Model, optimizer, scheduler, the state of the random generator: one of the four is left out of the
# checkpoint. For each of them, how many of the next six losses are still the right ones?


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
expected = train(parts, 6)  # what would have come without a stop
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
# With all four the six losses are equal to the last bit. Without the generator's state, dropout masks and shuffle are
# others. Without Adam's moments the first loss is right, since the step comes after it, and all later ones differ.
# Without the scheduler three losses are right, until the next halving is due: the error that nobody notices.
#
# Such a dict holds tensors, numbers and containers, so it passes `weights_only`. The step is there for your loop. The
# generator's state is restored last: building a model draws random numbers, and so may anything that runs in between.
#
# The picture opens that checkpoint and shows where its bytes are. Adam keeps two moments for each weight and a step
# count for each tensor. It knows parameters by number, in the order in which it was given them, not by name.

# %%
checkpoint_anatomy(checkpoint)

# %% [markdown]
# **Now you know.** A run is its code and one dict: the `state_dict` of everything that has one, the number of the step,
# and the generator's state.

# %% exercise="resumable-checkpoint"

# %% [markdown]
# ## On a GPU
#
# Two things about checkpoints are different on a GPU. Each tensor in a file remembers its device, and dropout draws
# from a separate generator. Without a GPU each cell shows a recorded run. No exercise needs them.


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
    """Dropout masks after restoring the CPU's generator only, and those of the GPUs, too."""
    x = torch.ones(1000, device="cuda")
    on_cpu, on_gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    mask = F.dropout(x, 0.5)
    torch.set_rng_state(on_cpu)
    print("CPU's state only:   same mask:", torch.equal(F.dropout(x, 0.5), mask))
    torch.cuda.set_rng_state_all(on_gpus)
    print("GPUs' states, too:  same mask:", torch.equal(F.dropout(x, 0.5), mask))


the_generator_of_the_gpu()

# %% [markdown]
# Where the device of a tensor is missing, loading fails and points to `map_location`. And a checkpoint of a training on
# GPUs also needs `torch.cuda.get_rng_state_all()`, with `set_rng_state_all` after loading.
#
# ## Folklore, checked
#
# What people say about modules and their files, and what is so. Each row unfolds its proof: a few lines that run
# through only if the statement on the right holds.

# %%
folklore("07_modules_state_dict")

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

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
