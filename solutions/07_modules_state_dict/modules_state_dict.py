# %% [markdown]
# # Modules and state_dict
# A model is a registry: what is entered in it can be trained, saved and moved, and what is not stays behind without a
# word. After this chapter you can
#
# - say for any attribute of a module whether it is trained, saved and moved, and choose between Parameter, buffer,
#   non-persistent buffer and plain attribute;
# - walk a model (children, modules, named parameters) without counting anything twice;
# - save and load safely: `state_dict`, `weights_only`, partial loading with a report, and a checkpoint that resumes bit
#   for bit;
# - use train, eval and freezing correctly, batch norm included;
# - read the four messages that everybody meets: "before `Module.__init__()` call", "Missing key(s)", "size mismatch"
#   and "Weights only load failed".
#
# **55 minutes to read, 142 minutes to practise, 20 points.** You need chapter 2, sections 2.1 to 2.4 (shape, view or
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
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchinfo import summary

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.batch_norm import bn_explorer
from torchkata.pictures.checkpoint_layout import checkpoint_anatomy
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
# ## 7.1 A module is a registry with a forward
#
# **Predict.** `super().__init__()` was forgotten here. Which of the two assignments raises?


# %% facts=["07-super-init-inherits"]
class Forgotten(nn.Module):
    def __init__(self):
        self.size = 3
        print("size is set")
        self.fc = nn.Linear(1, 1)


class Complete(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 3
        self.fc = nn.Linear(1, 1)


error_of(Forgotten)
attributes = vars(Complete())
for name in ("_parameters", "_buffers", "_modules", "size", "fc"):
    print(f"{name:11} is an attribute: {name in attributes}")

# %% [markdown]
# The second. A module keeps three registries, the dicts `_parameters`, `_buffers` and `_modules`, and
# `super().__init__()` creates them. A number goes into the object like any attribute; a layer belongs in `_modules`,
# which does not exist yet. In the complete class `fc` is no attribute of its own: it lies in `_modules`, and `self.fc`
# finds it there.
#
# Inheritance comes from the line `class Complete(nn.Module)`. The older spelling `super(Complete, self).__init__()`
# means the same call.

# %% [markdown]
# **Predict.** How often has `forward` run after `net = Net()`? And what is the difference between creating a layer in
# `__init__` and creating it in `forward`?


# %% facts=["07-init-builds-forward-connects", "07-call-invokes-forward"]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        print("  __init__ runs")
        self.fc = nn.Linear(1, 1)

    def forward(self, x):
        print("  forward runs")
        return self.fc(x)


class LayerInForward(nn.Module):
    def forward(self, x):
        return nn.Linear(1, 1)(x)


x = torch.ones(1, 1)
net = Net()
net.register_forward_pre_hook(lambda module, args: print("  pre-hook"))
net.register_forward_hook(lambda module, args, output: print("  hook"))
print("two calls:")
same = torch.equal(net(x), net(x))
print("parameters:", len(list(net.parameters())), "- same output twice:", same)

bad = LayerInForward()
print("parameters:", len(list(bad.parameters())), "- same output twice:", torch.equal(bad(x), bad(x)))

# %% [markdown]
# Not once: `__init__` builds, `forward` connects. Calling the module runs `Module.__call__`, and that runs the
# pre-hooks, `forward` and the hooks (chapter 6); calling `net.forward(x)` yourself would skip the hooks. A layer that
# is created in `forward` is a new one with new random weights at every call, and no optimizer ever sees it.

# %% [markdown]
# **Predict.** Two convolutions, joined by `F.relu`. How many entries does `state_dict()` have? Is a loss function a
# module? And what does a module without `forward` say when it is called?


# %% facts=["07-module-sample", "07-module-base-class", "07-nn-has-four-parts"]
class TwoConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 20, 5)

    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x))))


model = TwoConvolutions()
print(list(model.state_dict()), tuple(model(torch.ones(1, 1, 28, 28)).shape))
for thing in (nn.MSELoss(), nn.ReLU(), nn.Sequential(), nn.Transformer):
    kind = thing if isinstance(thing, type) else type(thing)
    print(f"{kind.__name__:11} is a module:", issubclass(kind, nn.Module))
error_of(lambda: nn.Module()(torch.ones(1)))
print("nn.Layer exists:", hasattr(nn, "Layer"))

# %% [markdown]
# Four: only what has parameters or buffers leaves a trace in the `state_dict`; a function like `F.relu` is not part of
# the registry at all. Layers, losses and containers are all modules. A base class called Layer belongs to another
# framework.

# %% [markdown]
# **Predict.** `x.to(model.device)` moves data to where the model is. Or does it?

# %% facts=["07-module-has-device"]
model = nn.Linear(2, 2)
error_of(lambda: model.device)
print(next(model.parameters()).device)

with torch.device("meta"):
    elsewhere = nn.Linear(2, 2)
print(next(elsewhere.parameters()).device)

# %% [markdown]
# A module has no device: its parameters do, and they may lie on several. `next(model.parameters()).device` asks the
# first one. The device "meta" has shapes and dtypes but no numbers. It exists on every machine, and in this chapter
# it plays the second device.

# %% [markdown]
# ## 7.2 Parameter, buffer, plain attribute
#
# **Predict.** `tensor` requires grad, and it is an attribute of the model. Will an optimizer over `model.parameters()`
# train it? Will `model.to("meta")` move it?


# %% facts=["07-attribute-parameter-auto-registers", "07-parameter-vs-buffer", "07-plain-attribute-not-saved-not-moved"]
class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.parameter = nn.Parameter(torch.ones(2))
        self.register_buffer("buffer", torch.ones(2))
        self.tensor = torch.ones(2, requires_grad=True)
        self.in_list = [nn.Parameter(torch.ones(2))]


model = Attributes()
print("parameters():", [name for name, _ in model.named_parameters()])
print("buffers():   ", [name for name, _ in model.named_buffers()])
print("state_dict():", list(model.state_dict()))
model.double().to("meta")
for name, value in (
    ("parameter", model.parameter),
    ("buffer", model.buffer),
    ("tensor", model.tensor),
    ("in_list[0]", model.in_list[0]),
):
    print(f"{name:10} {value.dtype} on {value.device}")

# %% [markdown]
# Neither. Only an assignment that the module recognises makes an entry: a Parameter, a buffer or a module. A plain
# tensor is not recognised, whether it requires grad or not, and nobody looks into a Python list.
#
# Three questions decide where a tensor belongs:
#
# | | trained: in `parameters()` | saved: in `state_dict()` | moved: by `.to()`, `.double()`, `.cuda()` |
# |---|---|---|---|
# | `nn.Parameter` | yes | yes | yes |
# | buffer | no | yes | yes |
# | buffer, `persistent=False` | no | no | yes |
# | plain attribute, list, dict | no | no | no |

# %% [markdown]
# **Predict.** A mask that can be computed anew, and a mean that can't. Both must move with the model. How do you
# register each of them, without calling `register_buffer`?

# %% facts=["07-buffer-only-via-register-buffer", "07-register-buffer-signature"]
model = nn.Module()
model.mean = nn.Buffer(torch.zeros(3))
model.mask = nn.Buffer(torch.ones(4, 4).tril(), persistent=False)
model.register_buffer("scale", torch.ones(3), persistent=True)

print("buffers():   ", [name for name, _ in model.named_buffers()])
print("state_dict():", list(model.state_dict()))

model.mean = torch.ones(3)
print("after assigning a plain tensor to mean:", [name for name, _ in model.named_buffers()])

# %% [markdown]
# `nn.Buffer` (since 2.5) registers on assignment, as `nn.Parameter` does; `register_buffer` remains, and both know
# `persistent`. The name stays registered: a plain tensor that is assigned to it later becomes the buffer's new value.
# With a Parameter that would raise, as the next cell shows.

# %% [markdown]
# **Predict.** Which of these four lines are refused?
#
#     model.register_parameter("w2", nn.Parameter(torch.ones(1)))
#     model.register_parameter("a.b", nn.Parameter(torch.ones(1)))
#     model.register_parameter("c", torch.ones(1))
#     model.w0 = torch.zeros(1)          # w0 is a Parameter already

# %% facts=["07-register-parameter-equivalent"]
model = nn.Module()
model.w0 = nn.Parameter(torch.ones(1))
for number in (1, 2):
    model.register_parameter(f"w{number}", nn.Parameter(torch.ones(1)))
print(list(model.state_dict()))

error_of(lambda: model.register_parameter("a.b", nn.Parameter(torch.ones(1))))
error_of(lambda: model.register_parameter("c", torch.ones(1)))
error_of(lambda: setattr(model, "w0", torch.zeros(1)))

# %% [markdown]
# All but the first. A dot separates levels in the names of a `state_dict`, so it can't be part of a name. The last
# message is a guard: a Parameter that silently turned into a tensor would drop out of training. To change its value,
# write into it: `with torch.no_grad(): model.w0.fill_(0)`.

# %% [markdown]
# **Predict.** A Parameter with `requires_grad=False` is saved and moved, and not trained. Is there any difference to a
# buffer?

# %% facts=["07-frozen-parameter-or-buffer"]
model = nn.Module()
model.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
model.buffer = nn.Buffer(torch.ones(1))

print("parameters():", [name for name, _ in model.named_parameters()])
model.requires_grad_(True)
print("after requires_grad_(True):")
print("  frozen", model.frozen.requires_grad, "- buffer", model.buffer.requires_grad)

# %% [markdown]
# It is still in `parameters()`: it is counted and handed to optimizers. And it wakes up when somebody unfreezes the
# whole model with `requires_grad_(True)`. What must never be trained belongs in a buffer.

# %% [markdown]
# **Predict.** Buffers are not trained. Does that mean that their values stay the same during training?

# %% facts=["07-buffer-never-updated-by-gradient"]
bn = nn.BatchNorm1d(1)
bn(torch.full((4, 1), 9.0))
print("running_mean after one forward:", round(bn.running_mean.item(), 4))

model = nn.Module()
model.b = nn.Buffer(torch.ones(1, requires_grad=True))
(model.b * 2).sum().backward()
print("parameters():", list(model.parameters()), "- gradient of the buffer:", model.b.grad.item())

# %% [markdown]
# No. A buffer is state that `forward` may write, like batch norm's running statistics. Nothing forbids a buffer that
# requires grad, either: it gets one, and an optimizer that is given it on purpose would train it. Only
# `model.parameters()` leaves it out.

# %% [markdown]
# The explorer below shows a module as its registry sees it: a row for every tensor that hangs on it, what kind it is,
# and whether it is trained and saved. For the third question press `.double()` or `.to("meta")` and see which rows
# stay behind. Press `.requires_grad_(False)` and see that the parameters remain in `parameters()`. *Only what is saved*
# keeps exactly the entries of the `state_dict`.
#
# In the tied embedding two names hold one tensor: two entries in the `state_dict`, one in `parameters()`. Moving it
# to the device meta makes new Parameters, and so it unties them: press the button and compare the line below the
# table.

# %%
state_explorer()

# %% exercise="registered-or-not"

# %% [markdown]
# ## 7.3 Containers
#
# **Predict.** Both models hold three layers in a list. How many parameters does each of them have?

# %% facts=["07-modulelist-registers", "07-modulelist-is-not-callable"]
plain, registered = nn.Module(), nn.Module()
plain.layers = [nn.Linear(2, 2) for _ in range(3)]
registered.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
for model in (plain, registered):
    print(len(list(model.parameters())), list(model.state_dict())[:3])
    model.eval()

print("in train mode after eval():", plain.layers[0].training, registered.layers[0].training)
error_of(lambda: registered.layers(torch.ones(1, 2)))

# %% [markdown]
# None and six. `parameters()`, `state_dict()`, `.to()` and `eval()` don't reach into the Python list, and no error
# says so. `nn.ModuleList` is a list that registers. It only holds: it has no `forward`, and the same goes for
# `ModuleDict`, `ParameterList` and `ParameterDict`. Your own `forward` loops over it. `nn.Sequential` is the
# container that can be called.

# %% [markdown]
# **Predict.** These two compute the same, one built from positional modules, one from an OrderedDict. Can they exchange
# checkpoints?

# %% facts=["07-sequential", "07-sequential-ordereddict-same"]
numbered = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
named = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3), act=nn.ReLU(), head=nn.Linear(3, 1)))
error_of(lambda: named.load_state_dict(numbered.state_dict()))

renamed = dict(zip(named.state_dict(), numbered.state_dict().values(), strict=True))
print(named.load_state_dict(renamed))
x = torch.randn(5, 2)
print("same output:", torch.equal(named(x), numbered(x)))
print("a slice is a Sequential:", list(numbered[:2].state_dict()))

# %% [markdown]
# Not as they are. The names of the attributes are the names in the checkpoint: "0.weight" here, "fc.weight" there.
# Renaming the keys is enough. A Sequential can be indexed and sliced; it hands exactly one value from layer to layer,
# so a branch or a skip connection needs a module of your own.

# %% [markdown]
# **Predict.** What becomes of the constant tensor and of the number in this `ParameterList`? And which of the two keys
# may a `ModuleDict` not have, "conv.1" or "keys"?

# %% facts=["07-parameterlist", "07-parameterlist-holds-only-parameters", "07-moduledict"]
values = nn.ParameterList([nn.Parameter(torch.ones(1)), torch.zeros(2), 3])
print([type(value).__name__ for value in values], list(values.state_dict()))

ends = nn.ParameterDict({"left": torch.ones(2), "right": torch.ones(2), "comment": "text"})
ends["left"].sum().backward()
print(list(ends.state_dict()), "- right.grad:", ends["right"].grad)

choice = nn.ModuleDict({"conv": nn.Conv2d(1, 1, 3), "pool": nn.MaxPool2d(3)})
print(list(choice.state_dict()))
error_of(lambda: nn.ModuleDict({"conv.1": nn.ReLU()}))
error_of(lambda: nn.ModuleDict({"keys": nn.ReLU()}))

# %% [markdown]
# A plain tensor in a `ParameterList` becomes a trainable Parameter, so constants don't belong there; other objects are
# kept but not registered. Keys become part of the checkpoint's names, so they have no dots; and a name that the
# container uses itself is taken. A parameter that `forward` didn't use gets no gradient: its `.grad` stays None.

# %% [markdown]
# **Predict.** `Split` groups a layer of its parent anew. How many parameters does it have, and how many entries in its
# `state_dict`? Does a checkpoint of `Base` load?


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
error_of(lambda: split.load_state_dict(Base().state_dict()))

# %% [markdown]
# Four and six. One layer is now registered under two names. `parameters()` lists each object once; `state_dict()` lists
# every name. So a checkpoint of the parent has too few of them. Where you only want another route through the layers,
# change `forward` and register nothing.

# %% [markdown]
# ## 7.4 Walking a model
#
# **Predict.** `net` is a Sequential that holds a Linear and another Sequential. Which of these five list the net
# itself, and which look inside of the inner Sequential?

# %% facts=["07-children-one-level", "07-named-modules", "07-named-parameters"]
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))

print("children:        ", [type(child).__name__ for child in net.children()])
print("modules:         ", [type(module).__name__ for module in net.modules()])
print("named_modules:   ", [name for name, _ in net.named_modules()])
print("named_parameters:", [name for name, _ in net.named_parameters()])
print("named_buffers:   ", [name for name, _ in net.named_buffers()])

# %% [markdown]
# `children()` is one level, without the net. `modules()` is everything, the net itself first; its name in
# `named_modules()` is empty. `named_parameters()` walks the whole tree, too, but never lists a buffer. All of them
# are generators: printing one shows `<generator object …>`, so loop over it or make a list. To look at the structure,
# print the model.

# %% [markdown]
# **Predict.** Here a layer is used twice. And somebody counts parameters with two loops. Which of the three counts is
# right?

# %% facts=["07-named-modules-redundant"]
layer = nn.Linear(2, 2)
shared = nn.Sequential(layer, nn.Sequential(nn.ReLU(), layer))

print("over parameters():        ", sum(p.numel() for p in shared.parameters()))
print("over modules():           ", sum(p.numel() for m in shared.modules() for p in m.parameters()))
print("over state_dict().values():", sum(t.numel() for t in shared.state_dict().values()))
print("modules:", [type(module).__name__ for module in shared.modules()])
print("leaves: ", [name for name, module in shared.named_modules() if not list(module.children())])

# %% [markdown]
# The first: four weights and two biases. `parameters()` already walks the whole tree, so the double loop counts a
# parameter once for each module that it lies in, however deep. `modules()` and `parameters()` skip an object
# that they have seen; `state_dict()` does not. A leaf is a module without children.

# %% [markdown]
# **Predict.** `net.apply(fn)` calls `fn` with each module. Is the net itself first or last?

# %% facts=["07-apply"]
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1)))
order = []
returned = net.apply(lambda module: order.append(type(module).__name__))
print(order, "- returns the net:", returned is net)


def zero_bias(module):
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


net.apply(zero_bias)
print([p.tolist() for name, p in net.named_parameters() if name.endswith("bias")])

# %% [markdown]
# Last: children come first. `fn` gets modules, not parameters, so that it can decide by the type of layer. The
# functions of `nn.init` end in an underscore because they work in place and without tracking.

# %% [markdown]
# The package torchinfo draws such a walk as a table. **Predict.** Where does it know the output shapes from? And at
# which depth does the inside of a transformer's layers appear?

# %% facts=["07-torchinfo-summary", "07-torchinfo-depth"]
small = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
for given in ({}, {"input_size": (1, 4)}):
    table = str(summary(small, verbose=0, **given))
    print("\n".join(table.splitlines()[1:8]), end="\n\n")

sizes = dict(d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
transformer = nn.Transformer(**sizes, batch_first=True)
for depth in (3, 4):
    table = str(summary(transformer, depth=depth, verbose=0)).splitlines()
    print(f"depth={depth}:", *table[4:9], sep="\n  ")

# %% [markdown]
# From an input, real or imagined: with `input_size` (or `input_data`) it runs the model once and watches by hooks.
# Without, it lists layers and counts parameters. The depth defaults to 3, where the transformer's encoder layer is a
# single line; `depth=4` shows its attention.

# %% exercise="param-report"

# %% [markdown]
# ## 7.5 Shapes that layers expect
#
# **Predict.** A textbook writes `y = W x + b` with columns. Which of these inputs does `nn.Linear(3, 2)` take: (5, 3),
# (4, 7, 3), (3, 1)? And which shape has its weight?

# %% facts=["07-linear-input-is-column-vector"]
fc = nn.Linear(3, 2)
print("weight:", tuple(fc.weight.shape))
for shape in ((5, 3), (4, 7, 3)):
    print(shape, "→", tuple(fc(torch.ones(shape)).shape))
error_of(lambda: fc(torch.ones(3, 1)))

# %% [markdown]
# `nn.Linear` works on the last dimension: samples are rows, any number of dimensions may stand before it, and the
# formula is `x @ weight.T + bias` with a weight of shape (out, in).

# %% [markdown]
# **Predict.** The classic net flattens with `view(-1, 16 * 5 * 5)`. Now the images are larger: 25 feature maps of shape
# (16, 8, 8). Is there an error, or which batch size comes out?

# %% facts=["07-flatten-with-view-minus-one"]
body = nn.Sequential(
    *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
)
for size in (32, 28, 44):
    features = body(torch.zeros(25, 3, size, size))
    print(f"{size} pixels: features {tuple(features.shape)}")

print("view(-1, 400):", tuple(features.view(-1, 16 * 5 * 5).shape))
print("flatten(1):   ", tuple(features.flatten(1).shape))
error_of(lambda: nn.Linear(400, 120)(features.flatten(1)))

# %% [markdown]
# 64, silently: 25 · 16 · 8 · 8 numbers are also 64 rows of 400, and -1 takes whatever makes the product come out. The
# rows then mix pixels of several images. `flatten(1)` keeps the batch, and the wrong size raises where it should.

# %% [markdown]
# **Predict.** Does a 1×1 convolution do anything, seeing only one pixel? And does it matter whether it is a `Conv1d`, a
# `Conv2d` or a `Conv3d`?

# %% facts=["07-kernel-size-one"]
torch.manual_seed(0)
linear = nn.Linear(3, 5)
x = torch.randn(2, 3, 24)  # batch, channels, 24 positions
expected = linear(x.transpose(1, 2)).transpose(1, 2)

for kind, positions in ((nn.Conv1d, (24,)), (nn.Conv2d, (4, 6)), (nn.Conv3d, (2, 3, 4))):
    conv = kind(3, 5, kernel_size=1)
    state = {name: value.view_as(conv.state_dict()[name]) for name, value in linear.state_dict().items()}
    conv.load_state_dict(state)
    y = conv(x.view(2, 3, *positions)).flatten(2)
    print(f"{kind.__name__}: equal to the Linear: {torch.allclose(y, expected, atol=1e-5)}")

# %% [markdown]
# It is one Linear over the channels, the same at every position, in all three. Only the layout of the input differs.

# %% [markdown]
# **Predict.** The bias of a convolution is raised by 10, and batch norm follows. What changes in the output?

# %% facts=["07-conv-bias-before-bn"]
torch.manual_seed(0)
conv, bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
x = torch.randn(8, 3, 6, 6)

for mode in (True, False):
    bn.train(mode)
    before = bn(conv(x))
    with torch.no_grad():
        conv.bias += 10
    after = bn(conv(x))
    with torch.no_grad():
        conv.bias -= 10
    changed = not torch.allclose(before, after, atol=1e-3)
    print(f"{'train' if mode else 'eval'} mode: output changed: {changed}")

# %% [markdown]
# In train mode nothing: batch norm subtracts the batch's mean, and the bias with it. In eval mode everything: it
# subtracts the running mean, which knows the old bias. So build such a pair with `bias=False`, but don't drop the bias
# of a trained one.

# %% [markdown]
# **Predict.** `nn.Transformer` gets a batch of two: five source and four target positions, eight features, in the
# layout (batch, sequence, feature). Does it accept them?

# %% facts=["07-transformer-layers"] shows_warning="UserWarning"
sizes = dict(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=8)
source, target = torch.rand(2, 5, 8), torch.rand(2, 4, 8)

print(tuple(nn.Transformer(**sizes, batch_first=True)(source, target).shape))
models = []
warning_of(lambda: models.append(nn.Transformer(**sizes)))
error_of(lambda: models[0](source, target))

# %% [markdown]
# Only with `batch_first=True`. The default layout is (sequence, batch, feature), and in it these are batches of five
# and of four. The warning says, in its way, that a fast path for inference needs `batch_first=True`, too.

# %% [markdown]
# **Predict.** A transformer needs to know positions. This table gives each position `d` numbers: sines in the even
# columns, cosines in the odd ones, of the angle position / 10000^(2i/d) for the i-th pair. It can be computed anew at
# any time. Parameter, buffer or non-persistent buffer?


# %% facts=["07-positional-encoding-formula", "07-embedding-module-registration"]
class Embeddings(nn.Module):
    def __init__(self, words, d, max_len=50):
        super().__init__()
        angles = [[t / 10000 ** (2 * (column // 2) / d) for column in range(d)] for t in range(max_len)]
        table = [[math.cos(a) if c % 2 else math.sin(a) for c, a in enumerate(row)] for row in angles]
        self.words = nn.Embedding(words, d)
        self.pe = nn.Buffer(torch.tensor(table).unsqueeze(0), persistent=False)

    def forward(self, tokens):
        return self.words(tokens) + self.pe[:, : tokens.shape[1]]


model = Embeddings(words=100, d=5)
print("pe", tuple(model.pe.shape))
print("position 1:", [round(value, 3) for value in model.pe[0, 1].tolist()])
print("state_dict():", list(model.state_dict()))
print(tuple(model(torch.zeros(2, 7, dtype=torch.long)).shape))
error_of(lambda: model(torch.zeros(2, 51, dtype=torch.long)))

# %% [markdown]
# A non-persistent buffer: it moves with the model, and no checkpoint carries it. Its shape (1, max_len, d) broadcasts
# over the batch; for odd `d` there is one cosine fewer. A sequence that is longer than the table fails in the
# addition, with a message that says nothing about positions. Exercise 7.5, in the next section, makes this table the
# fast way.

# %% [markdown]
# ## 7.6 state_dict: references, names, shapes
#
# **Predict.** A `BatchNorm1d` has two parameters. How many entries has its `state_dict`?

# %% facts=["07-state-dict-holds-only-parameters"]
model = nn.Sequential(OrderedDict(fc=nn.Linear(3, 2), bn=nn.BatchNorm1d(2)))
state = model.state_dict()

print(type(state).__name__, "- parameters:", len(list(model.parameters())), "- entries:", len(state))
for name, value in state.items():
    print(f"{name:23} {tuple(value.shape)!s:7} {value.dtype}")

# %% [markdown]
# Five, so seven here: parameters and persistent buffers. `num_batches_tracked` is a counter, an int64 of shape ().
# What is not in it: no code, no list of layers, no hooks, no mode. The dots in the names are the levels of a tree,
# and the next cell opens it. (`state_explorer(net)` opens any module of yours in the explorer of section 7.2.)


# %%
def as_tree(state):
    tree = {}
    for name, value in state.items():
        *path, leaf = name.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[leaf] = value
    return tree


def print_tree(tree, depth=0):
    for name, branch in tree.items():
        leaf = not isinstance(branch, dict)
        print("    " * depth + name + (f" {tuple(branch.shape)}" if leaf else ""))
        if not leaf:
            print_tree(branch, depth + 1)


block = nn.ModuleDict({"conv": nn.Conv2d(3, 8, 3), "norm": nn.BatchNorm2d(8)})
net = nn.ModuleDict({"stem": block, "head": nn.Linear(8, 2)})
tree = as_tree(net.state_dict())
print_tree(tree)
print("opened by hand:", tree["stem"]["norm"]["running_var"].tolist())

# %% [markdown]
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
# The last weights, not the best ones. A `state_dict` holds references to the living tensors: detached from the graph,
# but with the same memory. A snapshot needs a copy of each tensor: `copy.deepcopy`, a `clone` for each value, or a
# file.

# %% exercise="snapshot-best"

# %% [markdown]
# **Predict.** `other` has another activation, and a dropout layer more. Does it load the weights of `saved`? And a
# single Linear, with tensors of exactly the right shapes?

# %% facts=["07-load-needs-same-architecture"]
saved = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
other = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Dropout())

print(other.load_state_dict(saved.state_dict()))
x = torch.tensor([[1.0, -2.0]])
print("same output:", torch.equal(saved(x), other.eval()(x)))
error_of(lambda: nn.Linear(2, 2).load_state_dict(saved.state_dict()))

# %% [markdown]
# The first loads, and computes something else. Loading compares names and shapes, nothing more. Read the second
# message like this: *missing* is what the model has and the checkpoint lacks, *unexpected* is what only the
# checkpoint has. When both lists are long and look alike, the names differ by a prefix.

# %% [markdown]
# **Predict.** Where do prefixes like these come from?

# %%
net = nn.Sequential(nn.Linear(2, 2))
compiled = torch.compile(net, backend="eager")
print("bare:              ", list(net.state_dict()))
print("torch.compile:     ", list(compiled.state_dict()))
print("DataParallel:      ", list(nn.DataParallel(net).state_dict()))
print("one inside another:", list(nn.DataParallel(compiled).state_dict()))

# %% [markdown]
# From wrappers. A wrapper is a module that holds the model as a child, and the name of the child becomes a part of
# every name: `module` for DataParallel and DistributedDataParallel, `_orig_mod` for `torch.compile`. It is cleaner to
# save the `state_dict` of the bare model; but there are checkpoints enough that were not.

# %% exercise="strip-wrappers"

# %% exercise="sinusoidal-positions"

# %% [markdown]
# **Predict.** `strict=False`: which of the three problems does it forgive, a missing name, an unexpected name, a wrong
# shape?

# %% facts=["07-partial-state-dict"]
model = nn.Linear(4, 2)
state = {"weight": torch.zeros(3, 4), "old": torch.zeros(1)}

error_of(lambda: model.load_state_dict(state), lines=4)
error_of(lambda: model.load_state_dict(state, strict=False), lines=4)
report = model.load_state_dict({"weight": torch.zeros(2, 4), "old": torch.zeros(1)}, strict=False)
print(report)
print("loaded all the same:", model.weight.tolist())

# %% [markdown]
# Two of them: it tolerates missing and unexpected names and returns both lists. A wrong shape raises all the same, so
# such entries must be taken out before. And `strict=False` without a look at the report is dangerous: if not a single
# name fits, nothing is loaded and no error is raised.

# %% [markdown]
# **Predict.** A float64 checkpoint is loaded into a float32 model. Which dtype do the weights have afterwards? Are they
# still the objects that an optimizer knows? And what does `assign=True` change?

# %%
state = {"weight": torch.ones(1, 2, dtype=torch.float64), "bias": torch.ones(1, dtype=torch.float64)}
for assign in (False, True):
    model = nn.Linear(2, 1)
    weight = model.weight
    model.load_state_dict(state, assign=assign)
    shares = model.weight.data_ptr() == state["weight"].data_ptr()
    print(f"assign={assign}: {model.weight.dtype}")
    print(f"  same object: {model.weight is weight}, shares memory with the checkpoint: {shares}")

with torch.device("meta"):
    empty = nn.Linear(2, 1)
empty.load_state_dict(state, assign=True)
print("from meta:", empty.weight.device, empty.weight.tolist())

# %% [markdown]
# Loading copies *into* the tensors that are there: dtype, device and the objects stay the model's, and an optimizer
# that was built before still holds the right ones. `assign=True` puts the checkpoint's tensors in their place, as new
# Parameters that share the checkpoint's memory; an optimizer must be built after that. It is the way to load a model
# that was built on the device meta, where there is nothing to copy into.

# %% exercise="partial-load"

# %% exercise="ema-weights"

# %% [markdown]
# ## 7.7 train, eval, freeze
#
# **Predict.** In which mode is a new module? In which is a freshly loaded one, whose weights come from a model in eval
# mode?

# %% facts=["07-training-mode-default", "07-train-before-every-batch", "07-eval-after-load"]
saved = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)).eval()
loaded = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2))
loaded.load_state_dict(saved.state_dict())
print("saved in train mode:", saved.training, "- loaded in train mode:", loaded.training)

x = torch.ones(3, 2)
loaded.eval()
print("flags after eval():", [module.training for module in loaded.modules()])
print("two calls in eval mode agree:", torch.equal(loaded(x), loaded(x)))
print("still in train mode:", loaded.training, "- and after train():", loaded.train().training)

# %% [markdown]
# In train mode, both: the mode is a flag, `.training`, that every module carries, and no part of the `state_dict`. So
# `eval()` comes after loading. `eval()` is `train(False)`; both walk the whole tree, return the module, and hold until
# the next call. What people forget is the `train()` after a validation.

# %% [markdown]
# **Predict.** In eval mode: is batch norm the identity? Is `y.requires_grad` False? Do batch norm's weight and bias
# still get a gradient?

# %% facts=["07-eval-switches-off-batchnorm", "07-eval-fixes-batchnorm-parameters"]
torch.manual_seed(0)
bn = nn.BatchNorm1d(1)
for _ in range(200):
    bn(torch.randn(64, 1) * 3 + 5)  # mean 5, variance 9
bn.eval()

x = torch.tensor([[5.0], [8.0]])
y = bn(x)
print("output:", [round(value, 1) for value in y.flatten().tolist()])
print("requires grad:", y.requires_grad)
y.sum().backward()
print("gradients:", bn.weight.grad is not None, bn.bias.grad is not None)

before = bn.running_mean.clone()
bn(x + 100)
print("statistics moved:", not torch.equal(bn.running_mean, before))

# %% [markdown]
# No, no and yes. In eval mode batch norm normalises with its running statistics, which then stand still: 5 is the
# mean and becomes 0, 8 lies one standard deviation above it. No gradient is switched off; that is the work of
# `torch.no_grad()` or `torch.inference_mode()`. For a validation you need both.

# %% [markdown]
# **Predict.** The same sample twice, each time with another companion in its batch. When does the companion matter?

# %% facts=["07-bn-small-test-batch"]
bn = nn.BatchNorm1d(2)
x = torch.tensor([[0.5, -1.0]])
companions = (torch.tensor([[0.0, 0.0]]), torch.tensor([[0.6, -9.0]]))

for mode in (True, False):
    bn.train(mode)
    for companion in companions:
        y = bn(torch.cat([x, companion]))[0]
        print(f"training={mode}: {[round(value, 2) for value in y.tolist()]}")
print("alone, in eval mode:", tuple(bn(x).shape))
error_of(lambda: bn.train()(x))

# %% [markdown]
# In train mode: mean and variance are those of the batch, so each sample's output depends on the others, and of two
# samples only their order is left. One value per channel has no spread at all, and that raises. In eval mode each
# sample stands for itself.
#
# The explorer below shows one channel after six forwards. *One forward* sends the batch through the layer in the mode
# that is chosen; the lines at the bottom are the running mean and variance, which creep towards the dashed values of
# the batch in train mode and stand still in eval mode. Switch to eval, change mean and spread, and look at the
# output: it moves with the batch, because the layer no longer looks at the batch's own mean and spread.

# %%
bn_explorer(steps=6)

# %% [markdown]
# **Predict.** `F.dropout(x, 0.2)` in `forward`. Does `model.eval()` reach it?


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
# No. A function has no mode, and its argument `training` defaults to True. Pass `self.training`, or use `nn.Dropout`,
# which does.

# %% [markdown]
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
# It doesn't move: its `.grad` is None, and optimizers skip such a parameter, weight decay included. So the optimizer
# may know frozen parameters.

# %% [markdown]
# **Predict.** A parameter is trained, frozen, trained again; the true gradient is 1 and the learning rate 0.1. Which
# values does it take, with `zero_grad()` in each step, and without?

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
# 0.9, 0.9, 0.8 with it. Without, the gradient of the first step is still there in the second, and the frozen parameter
# moves. The optimizer looks at `.grad`, never at `requires_grad`: clear the gradients when you freeze.

# %% [markdown]
# **Predict.** `requires_grad_(False)` on a batch-norm layer, then a forward in train mode. Is anything in its
# `state_dict` different afterwards? And how long does `bn.eval()` help?

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
# The flag stops gradients, and statistics are not made by gradients: `forward` writes them. Both switches are needed,
# and `eval()` on the layer is undone by the next `net.train()`, so by the next epoch of any training loop.

# %% exercise="freeze-batchnorm"

# %% [markdown]
# ## 7.8 Files: save, load, resume
#
# **Predict.** What does `torch.load` return for this file, and what does `load_state_dict` return?

# %% facts=["07-save-load-state-dict"]
trained, fresh = nn.Linear(4, 2), nn.Linear(4, 2)
with TemporaryDirectory() as folder:
    path = Path(folder) / "model.pt"
    torch.save(trained.state_dict(), path)
    loaded = torch.load(path, map_location="cpu")

print("torch.load returns:     ", type(loaded).__name__, list(loaded))
print("load_state_dict returns:", fresh.load_state_dict(loaded))
x = torch.randn(3, 4)
print("same function now:      ", torch.equal(fresh(x), trained(x)))

# %% [markdown]
# A dict and a report, not a model: `model = model.load_state_dict(…)` loses the model. The recipe is to build the
# model by its code, then to fill it. `map_location="cpu"` makes a file that was written on a GPU readable anywhere.

# %% [markdown]
# **Predict.** Which of these names does `torch.save` accept? And can `tar` unpack a checkpoint.tar?

# %% facts=["07-file-extensions", "07-torch-save-signature", "07-t7-and-h5-files"]
with TemporaryDirectory() as folder:
    for extension in ("pt", "pth", "tar", "h5", "banana"):
        path = Path(folder) / f"checkpoint.{extension}"
        torch.save({"epoch": 1, "weight": torch.ones(2)}, path)
        print(f"{path.name:17} zip: {zipfile.is_zipfile(path)}, tar: {tarfile.is_tarfile(path)}")
    with zipfile.ZipFile(path) as archive:
        inside = [name.partition("/")[2] for name in archive.namelist()]

print("inside:", [name for name in inside if name.startswith("data")])

# %% [markdown]
# All of them: the extension is a habit, and the file is a zip (since 1.6). Inside of it, `data.pkl` is a pickle that
# says how to put things together, and `data/0` holds the bytes of the first tensor. What an HDF5 library wrote as
# `.h5`, `torch.load` can't read.

# %% [markdown]
# A pickle is a small program: it may name any function and ask for a call. **Predict.** `Note` tells pickle to
# rebuild it by calling `print`. What happens on loading, by default and with `weights_only=False`?


# %% facts=["07-load-whole-model"]
class Note:
    def __reduce__(self):
        return print, ("this line was printed by the file, while it was loaded",)


file = io.BytesIO()
torch.save({"weight": torch.ones(1), "note": Note()}, file)

file.seek(0)
print("what the file asks for:", torch.serialization.get_unsafe_globals_in_checkpoint(file))
file.seek(0)
error_of(lambda: torch.load(file), lines=1)
file.seek(0)
print(torch.load(file, weights_only=False))

# %% [markdown]
# With `weights_only=False` the file had its say. Here it printed a line; it could have been any function with any
# arguments, deleting files included. Since 2.6 `weights_only=True` is the default: only tensors, plain containers,
# numbers, strings and a few known types are rebuilt, and all else is refused before it runs.
# `get_unsafe_globals_in_checkpoint` lists what a file asks for without running anything.

# %% [markdown]
# **Predict.** A whole model, `torch.save(model, …)`: is it a case for `weights_only=True`? Is the file larger than
# that of its `state_dict`?

# %% facts=["07-load-whole-model", "07-whole-model-is-larger"]
model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
whole, weights = io.BytesIO(), io.BytesIO()
torch.save(model, whole)
torch.save(model.state_dict(), weights)
sizes = [len(file.getvalue()) for file in (whole, weights)]
print(f"whole model {sizes[0] / 1e6:.1f} MB, state_dict {sizes[1] / 1e6:.1f} MB")

whole.seek(0)
print("what the file asks for:", sorted(torch.serialization.get_unsafe_globals_in_checkpoint(whole)))
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

# %% [markdown]
# Most weights that are shared today come as *safetensors*: a header in JSON, then the bytes of the tensors, nothing
# that could be run. **Predict.** Will it take a number? And two names for one tensor?

# %%
tied = nn.ModuleDict({"embed": nn.Embedding(3, 2), "out": nn.Linear(2, 3, bias=False)})
tied["out"].weight = tied["embed"].weight

data = safetensors.torch.save(nn.Linear(4, 2).state_dict())
length = int.from_bytes(data[:8], "little")
print(data[8 : 8 + length].decode().strip())
error_of(lambda: safetensors.torch.save({"epoch": 1}), lines=1)
try:
    safetensors.torch.save(tied.state_dict())
except RuntimeError as error:
    print("RuntimeError:", str(error).strip().partition(":")[0])

with TemporaryDirectory() as folder:
    path = Path(folder) / "tied.safetensors"
    safetensors.torch.save_model(tied, path)
    print("written by save_model:", list(safetensors.torch.load_file(path)))

# %% [markdown]
# Neither: it holds a flat dict of separate tensors (and strings as metadata). For tied weights the library has
# `save_model` and `load_model`, which write such a tensor once. It is a format for weights, not for optimizer states
# and epochs; for those `torch.save` with plain containers remains.

# %% [markdown]
# **Predict.** `.pth` is a popular extension for weights. What does Python itself do with a file of that name in its
# package directory, at every start?

# %% facts=["07-pth-is-python-storage"]
with TemporaryDirectory() as folder:
    (Path(folder) / "model.pth").write_text("import os; print('a line of model.pth runs')\n")
    program = f"import site; site.addsitedir({folder!r})"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    print(run.stdout.strip())

# %% [markdown]
# It executes the lines that begin with `import`: `.pth` are Python's path configuration files. A checkpoint of that
# name is harmless where it usually lies, but `.pt` says what is meant.

# %% [markdown]
# Now a training that stops and goes on. It has an Adam optimizer, a learning rate that halves every four steps,
# dropout, and shuffled data. **Predict.** Which of them must be in the checkpoint, if the losses are to be the same
# as without the stop? And what else?


# %% facts=["07-checkpoint-dictionary"]
def build(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


def train(parts, steps):
    """Return the losses of some steps, each on eight samples that are drawn from a fixed data set."""
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
# Each of them is needed. With all four, the generator of random numbers included, the six losses are equal to the
# last bit. Without the generator's state, dropout masks and shuffle are others. Without Adam's moments the first loss
# is right, since the step comes after it, and all later ones differ. Without the scheduler three losses are right,
# until the next halving is due: the error that nobody notices.
#
# Such a dict holds tensors, numbers and containers, so it passes `weights_only`. The step is there for your loop. The
# generator's state is restored last: building a model draws random numbers, and so may anything that runs in between.
#
# The picture below opens that checkpoint and shows where its bytes are. Adam keeps two moments for each weight and a
# step count for each tensor. It knows parameters by number, in the order in which it was given them, not by name.

# %%
checkpoint_anatomy(checkpoint)

# %% exercise="resumable-checkpoint"

# %% [markdown]
# ## 7.9 On a GPU
#
# **Predict.** Which of the three does `.to("cuda")` move: a parameter, a buffer, a plain tensor? And what does the next
# forward say?


# %% facts=["07-plain-attribute-not-saved-not-moved"] varies="a CUDA device changes what is shown"
@cuda_demo("07_modules_state_dict")
def what_moves() -> None:
    """Bytes on the GPU after moving a module, and a forward that meets a tensor left behind."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parameter = nn.Parameter(torch.ones(2**20))
            self.register_buffer("buffer", torch.ones(2**20))
            self.plain = torch.ones(2**20)

        def forward(self, x):
            return x * self.parameter + self.buffer + self.plain

    model = Model()
    before = torch.cuda.memory_allocated()
    model.to("cuda")
    print(f"{(torch.cuda.memory_allocated() - before) / 2**20:.0f} MiB of 12 MiB were moved")
    error_of(lambda: model(torch.ones(2**20, device="cuda")), lines=1)


what_moves()

# %% [markdown]
# Parameter and buffer, 4 MiB each; the plain tensor stays behind, and the sum finds tensors on two devices.

# %% [markdown]
# **Predict.** A file that was written on a GPU is loaded where none is visible. What does `torch.load` say, and what
# does `map_location="cpu"` change?


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
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=blind)
            lines = (done.stdout or done.stderr).strip().splitlines()
            print(f"torch.load(path{option}):", lines[-1][:260])


load_without_a_gpu()

# %% [markdown]
# Each tensor remembers its device, and without that device loading fails with a hint at `map_location`. Files that
# others will read are best loaded with it, always.

# %% [markdown]
# **Predict.** On the GPU dropout draws from a generator of its own. A checkpoint holds `torch.get_rng_state()`. Are the
# masks the same after resuming?


# %% facts=["07-checkpoint-dictionary"] varies="a CUDA device changes what is shown"
@cuda_demo("07_modules_state_dict")
def the_generator_of_the_gpu() -> None:
    """Dropout masks after restoring the CPU's generator only, and after restoring those of the GPUs, too."""
    x = torch.ones(1000, device="cuda")
    on_cpu, on_gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    mask = F.dropout(x, 0.5)
    torch.set_rng_state(on_cpu)
    print("CPU's state only:   same mask:", torch.equal(F.dropout(x, 0.5), mask))
    torch.cuda.set_rng_state_all(on_gpus)
    print("GPUs' states, too:  same mask:", torch.equal(F.dropout(x, 0.5), mask))


the_generator_of_the_gpu()

# %% [markdown]
# Only with `torch.cuda.get_rng_state_all()` in the checkpoint, and `set_rng_state_all` after loading.

# %% [markdown]
# ## Folklore, checked
#
# What people say about modules and their files, and what is so. Each row unfolds its proof: a few lines that run
# through only if the statement on the right holds.

# %% facts=["07-classmethod-extends-class"]
folklore(
    "07_modules_state_dict",
    ids=[
        "07-nn-has-four-parts",
        "07-torch-save-signature",
        "07-file-extensions",
        "07-pth-is-python-storage",
        "07-t7-and-h5-files",
        "07-positional-encoding-formula",
        "07-classmethod-extends-class",
        "07-whole-model-is-larger",
        "07-load-needs-same-architecture",
        "07-eval-fixes-batchnorm-parameters",
    ],
)

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
# - `torch.nn.Module`: `state_dict`, `load_state_dict`, `register_buffer`, `named_parameters`, `apply`, `train`;
# - `torch.nn.parameter.Parameter` and `torch.nn.parameter.Buffer`;
# - the note "Modules", a tour from a first module to hooks, and "Serialization semantics": what `torch.save` writes and
#   what `weights_only` lets pass;
# - `torch.load`, with its warning, and `torch.serialization`: `safe_globals`, `get_unsafe_globals_in_checkpoint`;
# - `torch.nn.BatchNorm1d`, on running statistics and momentum;
# - the tutorials "Saving and Loading Models" and "Tips for Loading an nn.Module from a Checkpoint".
#
# And of its neighbours: the documentation of safetensors, page "Torch shared tensors".
