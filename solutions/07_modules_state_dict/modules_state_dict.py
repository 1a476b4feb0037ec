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

# %% [markdown]
# ### Exercise 7.1 · Registered or not?
#
# predict · warm-up · 8 min · 2 points
#
# Ten attributes, three questions about each. Read this class and answer without running it.
#
#     class M(nn.Module):
#         def __init__(self):
#             super().__init__()
#             self.a = nn.Parameter(torch.ones(2))
#             self.b = torch.ones(2, requires_grad=True)
#             self.c = [nn.Parameter(torch.ones(2))]
#             self.d = nn.Buffer(torch.ones(2))
#             self.register_buffer("e", torch.ones(2), persistent=False)
#             self.f = nn.ParameterList([torch.ones(2)])  # a plain tensor inside
#             self.g = [nn.Linear(2, 2)]
#             self.h = nn.ModuleDict({"x": nn.Linear(2, 2)})
#             self.i = nn.Parameter(torch.ones(2), requires_grad=False)
#             self.j = torch.ones(2)
#
# **Contract**
#
# - For each attribute write the letters that apply, in any order: `p` if it (or what it holds) is in `parameters()`,
#   `s` if it is in `state_dict()`, `m` if it changes its dtype with `model.double()`.
# - Where none applies, write the empty string `""`. A list of letters is as good as a string.
# - The check builds an M and looks; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Which of these assignments can `Module.__setattr__` recognise? What does it see when you assign a Python list?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Parameter, Buffer and Module are recognised on assignment, also inside the nn containers; lists and plain tensors are
# not. `persistent=False` removes only the s; `requires_grad=False` removes nothing.
#
# </details>

# %% answer="registered-or-not"
### BEGIN SOLUTION
letters = {
    "a": "psm",
    "b": "",
    "c": "",
    "d": "sm",
    "e": "m",
    "f": "psm",
    "g": "",
    "h": "psm",
    "i": "psm",
    "j": "",
}
### END SOLUTION
### BEGIN GIVEN
# letters = {
#     "a": ...,
#     "b": ...,
#     "c": ...,
#     "d": ...,
#     "e": ...,
#     "f": ...,
#     "g": ...,
#     "h": ...,
#     "i": ...,
#     "j": ...,
# }
### END GIVEN

# %% check="registered-or-not" points=2
"""Each attribute against a living module; every right item earns its share."""
with check("registered-or-not") as test:

    class M(nn.Module):
        """The module of the exercise."""

        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(2))
            self.b = torch.ones(2, requires_grad=True)
            self.c = [nn.Parameter(torch.ones(2))]
            self.d = nn.Buffer(torch.ones(2))
            self.register_buffer("e", torch.ones(2), persistent=False)
            self.f = nn.ParameterList([torch.ones(2)])
            self.g = [nn.Linear(2, 2)]
            self.h = nn.ModuleDict({"x": nn.Linear(2, 2)})
            self.i = nn.Parameter(torch.ones(2), requires_grad=False)
            self.j = torch.ones(2)

    def tensors_of(attribute):
        """The tensors that an attribute is or holds."""
        if isinstance(attribute, Tensor):
            return [attribute]
        if isinstance(attribute, nn.Module):
            return list(attribute.parameters())
        return [tensor for item in attribute for tensor in tensors_of(item)]

    def found_in(name):
        """The letters that apply to an attribute of a new M."""
        model = M()
        registered = {id(parameter) for parameter in model.parameters()}
        trained = any(id(tensor) in registered for tensor in tensors_of(getattr(model, name)))
        saved = any(key.split(".")[0] == name for key in model.state_dict())
        model.double()
        moved = any(tensor.dtype == torch.float64 for tensor in tensors_of(getattr(model, name)))
        return "p" * trained + "s" * saved + "m" * moved

    def letters_in(value):
        """The letters that somebody wrote, as a set; None for anything else."""
        parts = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(part, str) for part in parts):
            return None
        return set("".join(parts).lower()) - set(", ")

    plain_list = (
        "A Python list hides its contents: no parameter, no state, no move - and the optimizer never sees it. "
        "Use ModuleList or ParameterList."
    )
    container = (
        "nn containers register what they hold (a plain tensor put into a ParameterList even becomes a Parameter)."
    )
    buffer = "Buffers are saved and moved but are not in parameters(); an optimizer never gets them."
    tensor = "A plain tensor attribute is neither saved nor moved, and not in parameters()."
    sentences = {
        "a": "A Parameter that is assigned as an attribute is registered: in parameters(), saved and moved.",
        "b": "requires_grad=True does not make a tensor a parameter; a plain tensor attribute is neither saved nor "
        "moved.",
        "c": plain_list,
        "d": buffer,
        "e": "persistent=False keeps the buffer out of state_dict(), but it still moves with the module.",
        "f": container,
        "g": plain_list,
        "h": container,
        "i": "requires_grad=False freezes, it does not unregister: still in parameters() and state_dict(), still "
        "moved.",
        "j": tensor,
    }

    test("every attribute is compared with a living module")
    seen = observe_value(letters)
    given = seen.value if isinstance(seen.value, dict) else {}
    items = {}
    for name, sentence in sentences.items():
        came, truth = letters_in(given.get(name)), found_in(name)
        if came is not None and not came <= set("psm"):
            sentence = "The letters are p, s and m; the empty string stands for none of them."
        elif came is None:
            sentence = "Write the letters as a string, such as 'sm', or as a list of letters."
        elif name == "e" and "p" in came:
            sentence = buffer
        # any spelling of the right letters is right: the truth is spelled as the answer spells it
        items[name] = prediction(given[name] if came == set(truth) else truth, because=sentence)
    test.points = seen.predicts(items, points=2)
test.points

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

# %% [markdown]
# ### Exercise 7.2 · How big is this model?
#
# measure · warm-up · 10 min · 1 point
#
# Write the report that everybody writes once, and counts wrong once: how many numbers are trained, how many are frozen,
# how many are in buffers, and what memory do they take?
#
# **Contract**
#
# - Returns a dict of four plain ints. `trainable`, `frozen` and `buffers` count elements; `bytes` is the sum of number
#   of elements times element size, over all parameters and buffers.
# - Each tensor object counts once, under however many names it is known. Non-persistent buffers count, too.
# - The model is not changed, and nothing of its size is allocated: the report must work on the meta device.
#
# <details><summary>Hint 1</summary>
#
# Which of `parameters()`, `state_dict()` and `modules()` lists a tied weight once, twice, or several times over?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `parameters()` and `buffers()` already walk the tree and skip duplicates; `element_size()` knows the bytes.
#
# </details>


# %% answer="param-report"
def param_report(model: nn.Module) -> dict[str, int]:
    """The numbers of elements that are trainable, frozen and in buffers, and the bytes that all of them take."""
    ### BEGIN SOLUTION
    parameters, buffers = list(model.parameters()), list(model.buffers())
    return {
        "trainable": sum(tensor.numel() for tensor in parameters if tensor.requires_grad),
        "frozen": sum(tensor.numel() for tensor in parameters if not tensor.requires_grad),
        "buffers": sum(tensor.numel() for tensor in buffers),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in parameters + buffers),
    }
    ### END SOLUTION


# %% check="param-report" points=1
"""Elements and bytes of each tensor, once; nothing is changed or allocated."""
with check("param-report") as test:

    def state_of(model):
        """What must stay: objects, flags, modes and values."""
        tensors = [*model.named_parameters(), *model.named_buffers()]
        return [
            [
                (name, id(tensor), str(tensor.dtype), tensor.requires_grad, tensor.grad is None)
                for name, tensor in tensors
            ],
            [module.training for module in model.modules()],
            [tensor.tolist() for _, tensor in tensors if tensor.device.type == "cpu" and tensor.numel() < 100],
        ]

    def watched(answer, model):
        """The report on a model, and whether the model changed. Two calls of lgamma frame what the answer runs."""
        before = state_of(model)
        torch.lgamma(torch.ones(1))
        report = answer(model)
        torch.lgamma(torch.ones(1))
        return {"report": report, "changed": state_of(model) != before}

    def on_nested(answer):
        """Two layers, one of them in a container."""
        return watched(answer, nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Linear(2, 3)))

    def on_batch_norm(answer):
        """Batch norm."""
        return watched(answer, nn.BatchNorm1d(3))

    sentences = {
        "nested": "Counted over modules() with their own parameters(): every nested parameter is counted once per "
        "level.",
        "tied": "A shared weight was counted under each of its names (state_dict() lists both).",
        "non-persistent": "Non-persistent buffers take memory too, although state_dict() does not list them.",
        "top level": "Only direct attributes or certain layer types were counted; walk the whole tree.",
        "buffers": "Buffers belong in `buffers` and `bytes`, not in trainable or frozen.",
        "element size": "Not every element takes 4 bytes: use element_size() of each tensor.",
        "frozen": "Frozen parameters must be separated by requires_grad.",
        "no buffers": "`bytes` is the memory of all parameters and buffers.",
    }

    def largest_made(seen):
        """The number of elements of the largest tensor that the answer made."""
        frames = [place for place, op in enumerate(seen.noted.ops) if op["name"] == "lgamma" and op["level"] == "aten"]
        inside = seen.noted.ops[frames[0] + 1 : frames[-1]]
        return max(
            [op["elements"] for op in inside if op["level"] == "aten" and not op["view"] and op["device"] != "meta"],
            default=0,
        )

    def judge(seen, trainable, frozen, buffers, size, betrayed):
        """Judge the four numbers; `betrayed` holds (key, wrong number) pairs by the misconception that they betray."""
        none = "A name may be registered with None (a Linear without bias has one): there is nothing to count then."
        seen.expecting(mistake(none, raises="NoneType"))
        report = seen["report"]
        expected = {"trainable": trainable, "frozen": frozen, "buffers": buffers, "bytes": size}
        seen.that(
            isinstance(report, dict) and set(report) == set(expected),
            "Return a dict with the keys trainable, frozen, buffers and bytes.",
            stage="type",
        )
        plain = all(type(number) is int for number in report.values())
        seen.that(plain, "The four numbers must be plain ints.", stage="type")
        for key, number in expected.items():
            came = report[key]
            named = [
                mistake(sentences[name], when=lambda seen, pairs=pairs, pair=(key, came): pair in pairs)
                for name, pairs in betrayed.items()
            ]
            seen.that(came == number, f"`{key}` should be {number}; it is {came}.", *named)
        seen.that(not seen["changed"], "The report changed the model.", stage="arguments")
        frugal = largest_made(seen) <= 1000
        seen.that(frugal, "Tensors of the model's size were made: count, don't copy.", stage="rule")

    test("layers in containers: 17 trainable parameters, 68 bytes")
    judge(
        observe_scenario(on_nested, param_report),
        trainable=17,
        frozen=0,
        buffers=0,
        size=68,
        betrayed={
            "nested": [("trainable", n) for n in (42, 34)] + [("bytes", n) for n in (168, 136)],
            "top level": [("trainable", n) for n in (0, 9)],
            "element size": [("bytes", 17)],
        },
    )

    test("batch norm: running_mean, running_var and a counter of 8 bytes are buffers")
    judge(
        observe_scenario(on_batch_norm, param_report),
        trainable=6,
        frozen=0,
        buffers=7,
        size=56,
        betrayed={
            "buffers": [("trainable", 13), ("frozen", 7), ("buffers", 0)],
            "top level": [("trainable", 0)],
            "element size": [("bytes", n) for n in (52, 13, 104)],
            "no buffers": [("bytes", 24)],
        },
    )

    ### BEGIN HIDDEN TESTS
    class Tied(nn.Module):
        """A weight, a layer and a buffer with several names; a bare parameter; a non-persistent buffer."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight
            self.scale = nn.Parameter(torch.ones(4))
            self.first = nn.Linear(2, 2)
            self.again = self.first
            self.register_buffer("mask", torch.ones(7, dtype=torch.bool), persistent=False)
            self.register_buffer("table", torch.ones(3, dtype=torch.float64))
            self.first.register_buffer("same_table", self.table)

    def on_tied(answer):
        """A weight, a layer and a buffer with several names."""
        return watched(answer, Tied())

    def on_partly_frozen(answer):
        """A frozen layer and a frozen bias; half precision."""
        model = nn.Sequential(nn.Linear(3, 2), nn.Conv1d(2, 2, 3), nn.LayerNorm(5)).to(torch.bfloat16)
        model[0].requires_grad_(False)
        model[2].bias.requires_grad_(False)
        return watched(answer, model.eval())

    def on_meta(answer):
        """A layer of a million by a million, on the meta device."""
        layers = nn.Linear(10**6, 10**6, device="meta"), nn.BatchNorm1d(10**6, device="meta")
        return watched(answer, nn.Sequential(*layers))

    def on_large(answer):
        """A layer that is too large to be copied for a report."""
        return watched(answer, nn.Sequential(nn.Linear(100, 100), nn.ReLU()))

    def on_nothing(answer):
        """A module without parameters."""
        return watched(answer, nn.Sequential(nn.ReLU(), nn.Flatten()))

    def on_bare(answer):
        """A module with a column of something larger as its parameter, and with two names that hold nothing."""
        model = nn.Module()
        model.weight = nn.Parameter(torch.ones(6, 4)[:, 1:2])
        model.register_buffer("nothing", None)
        model.register_parameter("bias", None)
        return watched(answer, model)

    test.hidden("a weight, a layer and a buffer with several names; a bare parameter; a non-persistent buffer")
    judge(
        observe_scenario(on_tied, param_report),
        trainable=25,
        frozen=0,
        buffers=10,
        size=131,
        betrayed={
            "tied": [("trainable", n) for n in (40, 46, 31)] + [("buffers", n) for n in (13, 16)],
            "nested": [("trainable", n) for n in (61, 55, 50)],
            "top level": [("trainable", n) for n in (0, 4, 6, 12, 15, 21, 27, 36, 42)] + [("buffers", 7)],
            "non-persistent": [("buffers", n) for n in (3, 6, 9)] + [("bytes", 124)],
            "element size": [("bytes", 140)],
        },
    )

    test.hidden("a frozen layer, a frozen bias, half precision, eval mode")
    judge(
        observe_scenario(on_partly_frozen, param_report),
        trainable=19,
        frozen=13,
        buffers=0,
        size=64,
        betrayed={
            "frozen": [("trainable", n) for n in (0, 24, 32)] + [("frozen", n) for n in (0, 8)],
            "element size": [("bytes", 128)],
        },
    )

    test.hidden("a model that nobody could hold, on the meta device")
    judge(
        observe_scenario(on_meta, param_report),
        trainable=10**12 + 3 * 10**6,
        frozen=0,
        buffers=2 * 10**6 + 1,
        size=4 * (10**12 + 5 * 10**6) + 8,
        betrayed={},
    )

    test.hidden("a layer of 10,100 parameters: nothing of that size is made")
    judge(observe_scenario(on_large, param_report), trainable=10100, frozen=0, buffers=0, size=40400, betrayed={})

    test.hidden("a module without parameters")
    judge(observe_scenario(on_nothing, param_report), trainable=0, frozen=0, buffers=0, size=0, betrayed={})

    test.hidden("a parameter that is a column of something larger; names that hold nothing")
    judge(
        observe_scenario(on_bare, param_report),
        trainable=6,
        frozen=0,
        buffers=0,
        size=24,
        betrayed={"top level": [("trainable", 0)]},
    )
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 7.3 · The best weights that were not
#
# fix · warm-up · 12 min · 2 points
#
# This loop is meant to train for some steps and to return the best weights. It returns the last ones, whatever the
# scores. Find out why and repair it; while you are there, give train_step and score the modes that they need.
#
# **Contract**
#
# - Runs `train_step(model)` and `score(model)` in turn, `steps` times each: train_step with the model in train mode and
#   with gradients as usual, score in eval mode and without gradient tracking.
# - Keeps an independent snapshot of all that is in the state_dict, from the step with the highest score. The first one
#   wins a tie, NaN never wins, minus infinity is a score like any other.
# - Returns (best score, snapshot). The snapshot is a dict of tensors that don't require grad, and whatever happens to
#   the model later does not change it.
# - At the end the model holds the snapshot's values and has the training flag that it came with.
# - `steps < 1` raises ValueError before anything runs. If all scores are NaN: ValueError, and the weights stay as they
#   are then.
#
# <details><summary>Hint 1</summary>
#
# Does `state_dict()` return values or references? After ten more steps, what do the tensors in best_state contain?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Copy every tensor at the moment of the best score (deepcopy of the dict, or clone of each value), switch modes around
# the two calls, restore the flag at the end.
#
# </details>


# %% answer="snapshot-best"
def fit_keep_best(
    model: nn.Module, train_step: Callable[[nn.Module], None], score: Callable[[nn.Module], float], steps: int
) -> tuple[float, dict[str, Tensor]]:
    """Train for some steps; return the best score and the state of that step, which the model holds, too."""
    ### BEGIN SOLUTION
    if steps < 1:
        raise ValueError("steps must be at least 1")
    training = model.training
    best, best_state = None, {}
    for _ in range(steps):
        model.train()
        train_step(model)
        model.eval()
        with torch.no_grad():
            s = score(model)
        if not math.isnan(s) and (best is None or s > best):
            best, best_state = s, {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train(training)
    if best is None:
        raise ValueError("all scores are NaN")
    model.load_state_dict(best_state)
    return best, best_state
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # best, best_state = -math.inf, None
    # for _ in range(steps):
    #     train_step(model)
    #     s = score(model)
    #     if s > best:
    #         best, best_state = s, model.state_dict()
    # model.load_state_dict(best_state)
    # return best, best_state
    ### END GIVEN


# %% check="snapshot-best" points=2
"""The best step's state comes back, independent of the model; modes, ties and NaN are handled."""
with check("snapshot-best") as test:

    def small_net():
        """A batch norm in a container, with fixed weights."""
        net = nn.Sequential(nn.BatchNorm1d(2))
        with torch.no_grad():
            net[0].weight.copy_(torch.tensor([0.5, -1.0]))
            net[0].bias.copy_(torch.tensor([0.1, -0.2]))
        return net

    def values_of(net):
        """Copies of all that is in the state_dict."""
        return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}

    def story(answer, scores, training=True, steps=None):
        """Train with given scores; note each call, the state after each step, and what is there at the end."""
        net = small_net().train(training)
        calls, states = [], [values_of(net)]

        def note(name, module):
            calls.append(
                {
                    "call": name,
                    "model": module is net,
                    "modes": sorted({m.training for m in net.modules()}),
                    "tracks": torch.is_grad_enabled(),
                }
            )

        def one_step(module):
            """What a step of training does: parameters and buffers change in place."""
            with torch.no_grad():
                for tensor in (net[0].weight, net[0].bias, net[0].running_mean, net[0].num_batches_tracked):
                    tensor += 1

        def train_step(module):
            note("train_step", module)
            one_step(module)
            states.append(values_of(net))

        def score(module):
            note("score", module)
            return scores[min(len(states), len(scores) + 1) - 2]

        facts = {"calls": calls, "states": states, "raised": ""}
        try:
            result = answer(net, train_step, score, len(scores) if steps is None else steps)
        except ValueError as error:
            facts |= {"raised": type(error).__name__, "message": str(error)}
            return facts | {"model": values_of(net), "flags": sorted({m.training for m in net.modules()})}
        facts |= {"model": values_of(net), "flags": sorted({m.training for m in net.modules()})}
        pair = isinstance(result, (tuple, list)) and len(result) == 2
        best, snapshot = result if pair else (None, None)
        facts |= {
            "kind": type(result).__name__,
            "pair": pair,
            "best": best,
            "kind of snapshot": type(snapshot).__name__,
        }
        if not isinstance(snapshot, dict) or not all(isinstance(t, Tensor) for t in snapshot.values()):
            return facts | {"snapshot": None}
        facts["tracked"] = [name for name, tensor in snapshot.items() if tensor.requires_grad]
        facts["snapshot"] = {name: tensor.detach().clone() for name, tensor in snapshot.items()}
        net.train()
        one_step(net)
        facts["model later"] = values_of(net)
        facts["snapshot later"] = {name: tensor.detach().clone() for name, tensor in snapshot.items()}
        return facts

    def same_state(came, state):
        """Whether two states agree, name by name."""
        return came.keys() == state.keys() and all(
            came[name].dtype == state[name].dtype and torch.equal(came[name], state[name]) for name in state
        )

    def agrees_in(came, state, kind):
        """Whether a state agrees with another one in its parameters, or in its buffers."""
        names = [name for name in state if ("weight" in name or "bias" in name) == (kind == "parameters")]
        return all(name in came and torch.equal(came[name], state[name]) for name in names)

    sentences = {
        "alias": "The snapshot changed while training went on: state_dict() hands out references to the living "
        "tensors. Copy them.",
        "params": "The batch-norm statistics belong to the best state too; parameters alone are not enough.",
        "not restored": "At the end the model must hold the best weights, not the last ones.",
        "mode": "train_step needs train mode, score needs eval mode; and the flag the model came with must be back at "
        "the end.",
        "grad": "score ran with gradient tracking.",
        "tie": "On equal scores the first one wins.",
        "nan": "NaN must never win (and all-NaN is a ValueError): every comparison with NaN is False - check which way "
        "round you compare.",
        "infinity": "Minus infinity is a score like any other: where nothing else came, it is the best.",
    }
    known = [
        mistake(sentences["params"], raises=r"(?s)Missing key\(s\)"),
        mistake(
            "There was no snapshot to load: nothing had beaten the start value of your comparison.",
            raises="Expected state_dict to be dict-like|NoneType",
        ),
    ]

    def judge_turns(seen):
        """Judge that train_step and score ran in turn, on the model itself."""
        calls = seen["calls"]
        in_turn = [call["call"] for call in calls] == ["train_step", "score"] * len(seen.args[1])
        seen.that(in_turn, "train_step and score must run in turn, once each for every step.", stage="rule")
        itself = all(call["model"] for call in calls)
        seen.that(itself, "train_step and score get the model itself, not a copy.", stage="rule")

    def judge_modes(seen):
        """Judge that train_step and score ran each in its mode."""
        modes = [call["modes"] for call in seen["calls"]]
        seen.that(modes == [[True], [False]] * len(seen.args[1]), sentences["mode"], stage="rule")
        tracks = [call["tracks"] for call in seen["calls"]]
        seen.that(not any(tracks[1::2]), sentences["grad"], stage="gradient")
        untracked = "train_step ran without gradient tracking: no gradient would come."
        seen.that(all(tracks[::2]), untracked, stage="gradient")

    def judge_result(seen, best, step, *mistakes):
        """Judge that the state of a step came back, as the snapshot and in the model."""
        seen.expecting(*known)
        seen.that(seen["raised"] == "", "It raised a ValueError where there is a best step.", *mistakes, stage="raised")
        judge_turns(seen)
        seen.that(seen["pair"], "Return a pair: the best score and the snapshot.", stage="type")
        seen.that(
            seen["snapshot"] is not None,
            "The snapshot must be a dict from the names of the state_dict to tensors.",
            stage="type",
        )
        wanted, last = seen["states"][step], seen["states"][-1]
        snapshot, later = seen["snapshot"], seen["snapshot later"]
        score_is_right = type(seen["best"]) in (int, float) and seen["best"] == best
        seen.that(score_is_right, "The first item of the result must be the best score.", *mistakes)
        seen.that(
            same_state(later, snapshot),
            sentences["alias"],
            stage="aliasing",
        )
        betrayed = [
            mistake(sentences["params"], when=lambda seen: snapshot.keys() < wanted.keys()),
            mistake(
                sentences["params"],
                when=lambda seen: (
                    agrees_in(snapshot, wanted, "parameters") and not agrees_in(snapshot, wanted, "buffers")
                ),
            ),
            mistake(
                sentences["alias"], when=lambda seen: step < len(seen["states"]) - 1 and same_state(snapshot, last)
            ),
        ]
        seen.that(same_state(snapshot, wanted), "The snapshot is not the state of the best step.", *mistakes, *betrayed)
        model = seen["model"]
        seen.that(
            same_state(model, wanted),
            "At the end the model must hold the state of the best step.",
            mistake(
                sentences["params"],
                when=lambda seen: agrees_in(model, wanted, "parameters") and not agrees_in(model, wanted, "buffers"),
            ),
            mistake(sentences["not restored"], when=lambda seen: same_state(model, last)),
        )
        tracked = ", ".join(seen["tracked"])
        seen.that(not tracked, f"The snapshot's tensors must not require grad: {tracked}.", stage="gradient")

    test("scores 1, 3, 2: the state of step 2 comes back, and stays so when training goes on")
    seen = observe_scenario(story, fit_keep_best, [1.0, 3.0, 2.0])
    judge_result(seen, best=3.0, step=2)

    test("train mode for train_step, eval mode for score; the flag is restored")
    judge_modes(seen)
    seen.that(seen["flags"] == [True], sentences["mode"])
    seen = observe_scenario(story, fit_keep_best, [1.0, 3.0, 2.0], False)
    judge_result(seen, best=3.0, step=2)
    judge_modes(seen)
    seen.that(seen["flags"] == [False], sentences["mode"])

    ### BEGIN HIDDEN TESTS
    inf, nan = float("inf"), float("nan")
    tie = mistake(sentences["tie"], stage=("value", "raised"))
    not_a_number = mistake(sentences["nan"], stage=("value", "raised"))
    not_a_number_raised = mistake(sentences["nan"], stage="raised")
    minus_infinity = mistake(sentences["infinity"], stage=("value", "raised"))
    for idea, scores, best, step, *named in [
        ("the best step is the first one", [3.0, 1.0, 2.0], 3.0, 1),
        ("the best step is the last one; negative scores", [-3.0, -1.0, -2.0, -0.5], -0.5, 4),
        ("a tie: the first one wins", [1.0, 2.0, 2.0, 1.0], 2.0, 2, tie),
        ("all scores are equal", [0.0, 0.0, 0.0], 0.0, 1, tie),
        ("NaN first", [nan, 1.0, 3.0, 2.0], 3.0, 3, not_a_number),
        ("NaN after the best", [1.0, 3.0, nan, 2.0], 3.0, 2, not_a_number),
        ("NaN last", [1.0, 2.0, nan], 2.0, 2, not_a_number),
        ("NaN before a score that is not the best", [3.0, nan, 2.0], 3.0, 1, not_a_number),
        ("minus infinity only", [-inf, -inf], -inf, 1, minus_infinity),
        ("minus infinity, then a number", [-inf, -5.0, -inf], -5.0, 2, minus_infinity),
        ("minus infinity and NaN", [nan, -inf, nan], -inf, 2, minus_infinity),
        ("infinity", [1.0, inf, 5.0], inf, 2),
        ("a single step", [0.5], 0.5, 1, mistake("steps=1 is allowed.", stage="raised")),
    ]:
        test.hidden(idea)
        seen = observe_scenario(story, fit_keep_best, scores).expecting(*named)
        judge_result(seen, best, step, *named)
        judge_modes(seen)

    for training in (True, False):
        test.hidden("all scores are NaN: ValueError, the weights as they are")
        seen = observe_scenario(story, fit_keep_best, [nan, nan], training).expecting(not_a_number_raised)
        seen.that(seen["raised"] == "ValueError", sentences["nan"], stage="raised")
        judge_turns(seen)
        judge_modes(seen)
        seen.that(same_state(seen["model"], seen["states"][-1]), "The weights must stay as they are then.")

    for steps in (0, -1):
        test.hidden("no steps at all, or fewer: ValueError")
        seen = observe_scenario(story, fit_keep_best, [], True, steps).expecting(
            mistake("steps < 1 must raise a ValueError.", stage="raised")
        )
        seen.that(seen["raised"] == "ValueError", "steps < 1 must raise a ValueError.", stage="raised")
        seen.that(not seen["calls"], "With steps < 1 nothing may run.", stage="rule")
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 7.4 · Missing key(s), Unexpected key(s)
#
# debug · warm-up · 12 min · 2 points
#
# A checkpoint was written by a training script that wrapped its model twice, and now it does not load:
#
#     RuntimeError: Error(s) in loading state_dict for Net:
#         Missing key(s) in state_dict: "encoder.0.weight", "encoder.0.bias", "submodule.weight", "head.bias".
#         Unexpected key(s) in state_dict: "module._orig_mod.encoder.0.weight",
#             "module._orig_mod.encoder.0.bias", "module._orig_mod.submodule.weight", "module._orig_mod.head.bias".
#
# Wrappers add components to the path of a name: `nn.DataParallel` and `DistributedDataParallel` hold the model as
# `module`, `torch.compile` holds it as `_orig_mod`. Write the function that gives the names of the bare model back.
#
# **Contract**
#
# - Returns a new dict with the same tensor objects in the same order; the argument is not changed.
# - `_orig_mod` components go wherever they stand: any submodule may have been compiled.
# - Then `module` components go, only at the front, again and again while *all* names begin with one: a model may have
#   a child that is called module.
# - Components are whole: a name that merely contains these words, such as `submodule`, stays.
# - If two keys become the same name, ValueError. An empty dict gives an empty dict.
#
# <details><summary>Hint 1</summary>
#
# What does `str.lstrip("module.")` strip - a prefix or a set of characters? And what does `replace` do to
# "submodule.weight"?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Split each key at the dots and work on the list of components: drop every "_orig_mod", then, while there are lists and
# all of them begin with "module", drop the first component of each.
#
# </details>


# %% answer="strip-wrappers"
def strip_wrappers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A new dict with the same tensors under the names of the model without its wrappers."""
    ### BEGIN SOLUTION
    paths = [[part for part in key.split(".") if part != "_orig_mod"] for key in state]
    while paths and all(path[0] == "module" for path in paths):
        paths = [path[1:] for path in paths]
    names = [".".join(path) for path in paths]
    if len(set(names)) < len(names):
        raise ValueError("two keys have the same name without wrappers")
    return dict(zip(names, state.values(), strict=True))
    ### END SOLUTION


# %% check="strip-wrappers" points=2
"""The names of the bare model, in order, with the same tensors; the argument is left alone."""
with check("strip-wrappers") as test:

    def stripped(answer, keys, kind="dict"):
        """Strip a state_dict with these keys; note names, order, identity and what became of the argument."""
        tensors = [torch.full((2,), float(number)) for number in range(len(keys))]
        state = (OrderedDict if kind == "state_dict" else dict)(zip(keys, tensors, strict=True))
        if kind == "state_dict":
            state._metadata = OrderedDict({key.rpartition(".")[0]: {"version": 1} for key in keys})
            metadata = copy.deepcopy(state._metadata)
        if kind == "parameters":
            state = {key: nn.Parameter(tensor) for key, tensor in state.items()}
        before = list(state.items())
        try:
            came = answer(state)
        except ValueError as error:
            came = f"ValueError: {error}"
        now = list(state.items())
        same = len(now) == len(before) and all(a[0] == b[0] and a[1] is b[1] for a, b in zip(now, before, strict=True))
        if kind == "state_dict":
            same = same and state._metadata == metadata
        facts = {"kind": type(came).__name__, "argument same": same, "new": came is not state}
        facts["refused"] = isinstance(came, str) and came.startswith("ValueError")
        if not isinstance(came, dict):
            return facts | {"names": None}
        place = {id(tensor): number for number, (_, tensor) in enumerate(before)}
        facts["places"] = [place.get(id(tensor)) for tensor in came.values()]
        return facts | {"names": [str(name) for name in came]}

    def names_by(rename):
        """Whether the names are those that a wrong way of renaming gives."""
        return lambda seen: seen["names"] == list(dict.fromkeys(rename(key) for key in seen.args[1]))

    def front_only(key):
        """Strips both prefixes, but only at the front."""
        while key.startswith(("module.", "_orig_mod.")):
            key = key.removeprefix("module.").removeprefix("_orig_mod.")
        return key

    def each_on_its_own(key):
        """Strips a leading module from one key, whatever the others are."""
        parts = [part for part in key.split(".") if part != "_orig_mod"]
        while parts[0] == "module":
            parts = parts[1:]
        return ".".join(parts)

    def eaten(key):
        """Strips the letters of `module` and the dot, whatever their order."""
        while key[0] in "module.":
            key = key[1:]
        return key

    def eaten_later(key):
        """The same, after `_orig_mod` is gone."""
        return eaten(key.replace("_orig_mod.", ""))

    def everywhere(key):
        """Strips both words wherever they stand."""
        return ".".join(part for part in key.split(".") if part not in ("module", "_orig_mod"))

    def damaged_by(*renames):
        """Whether one of these ways of renaming gives the names, and a component that was not there before."""

        def fits(seen):
            came = {part for name in seen["names"] for part in name.split(".")}
            own = {part for key in seen.args[1] for part in key.split(".")}
            return not came <= own and any(names_by(rename)(seen) for rename in renames)

        return fits

    known = [
        mistake(
            "`lstrip` takes a set of characters, not a prefix: it ate letters of the layer name.",
            when=damaged_by(eaten, eaten_later),
        ),
        mistake(
            "A genuine name was damaged: replacing text also hits 'submodule.'. Compare whole path components.",
            when=damaged_by(
                lambda key: key.replace("module.", ""),
                lambda key: key.replace("module.", "").replace("_orig_mod.", ""),
                lambda key: key.replace("_orig_mod.", "").replace("module.", ""),
            ),
        ),
        mistake(
            "`_orig_mod` can sit in the middle of a key (a compiled submodule inside the model).",
            when=lambda seen: any("._orig_mod." in name for name in seen["names"]),
        ),
        mistake(
            "Wrappers nest: strip until nothing is left to strip.",
            when=lambda seen: (
                all(name.startswith(("module.", "_orig_mod.")) for name in seen["names"])
                or (names_by(lambda key: key[7:])(seen) and seen.args[1][0].startswith(("module", "_orig_mod")))
            ),
        ),
        mistake(
            "Keys without a wrapper lost their first letters: look at what you cut off.",
            when=lambda seen: any(names_by(lambda key, n=n: key[n:])(seen) for n in (7, 10, 17)),
        ),
        mistake(
            "The model itself has a child named `module`, but not all keys start with it: leave it.",
            when=lambda seen: names_by(front_only)(seen) or names_by(each_on_its_own)(seen),
        ),
        mistake(
            "`module` components go only at the front: further in, it is the name of a child.",
            when=names_by(everywhere),
        ),
        mistake(
            "Names other than `module` and `_orig_mod` belong to the model: they stay.",
            when=lambda seen: any(
                {*key.split(".")} - {"module", "_orig_mod"} - {*name.split(".")}
                for key, name in zip(seen.args[1], seen["names"], strict=True)
            ),
        ),
    ]

    def judge(seen, *names, hidden=False):
        """Judge names, order, objects and the argument."""
        names = list(names)
        seen.that(not seen["refused"], "A ValueError is for two keys that become the same name; here none do.")
        seen.that(seen["names"] is not None, "Return a dict from names to tensors.", stage="type")
        seen.that(seen["argument same"], "The argument was changed; the caller's state_dict must stay as it is.")
        seen.that(seen["new"], "Return a new dict: the caller may go on with both.", stage="aliasing")
        reordered = mistake("The order must stay.", when=lambda seen: sorted(seen["names"]) == sorted(names))
        found = "" if hidden else f": {', '.join(seen['names'])}"
        seen.that(seen["names"] == names, f"These are not the names of the bare model{found}.", reordered, *known)
        seen.that(
            None not in seen["places"],
            "The tensors must be the same objects; stripping names needs no copy.",
            stage="aliasing",
        )
        in_place = seen["places"] == list(range(len(names)))
        seen.that(in_place, "Names and tensors don't belong together any more: the order was lost.")

    test("DistributedDataParallel: `module` in front of every name")
    wrapped = ["module.encoder.0.weight", "module.encoder.0.bias", "module.submodule.weight", "module.mode.bias"]
    bare = ["encoder.0.weight", "encoder.0.bias", "submodule.weight", "mode.bias"]
    judge(observe_scenario(stripped, strip_wrappers, wrapped), *bare)

    test("torch.compile around it, and the other way round")
    both = [f"_orig_mod.{key}" for key in wrapped]
    judge(observe_scenario(stripped, strip_wrappers, both), *bare)
    other = [f"module._orig_mod.{key}" for key in bare]
    judge(observe_scenario(stripped, strip_wrappers, other), *bare)

    test("without wrappers the names stay; an empty dict stays empty")
    judge(observe_scenario(stripped, strip_wrappers, bare), *bare)
    judge(observe_scenario(stripped, strip_wrappers, []))

    ### BEGIN HIDDEN TESTS
    for idea, keys, names in [
        (
            "a compiled submodule in the middle",
            ["module.encoder._orig_mod.0.weight", "module.head.bias"],
            ["encoder.0.weight", "head.bias"],
        ),
        (
            "compiled submodules, without any wrapper in front",
            ["encoder._orig_mod.0._orig_mod.weight", "head._orig_mod.bias", "last.bias"],
            ["encoder.0.weight", "head.bias", "last.bias"],
        ),
        (
            "wrapped three times",
            ["_orig_mod.module._orig_mod.module.weight", "_orig_mod.module._orig_mod.module.bias"],
            ["weight", "bias"],
        ),
        (
            "wrapped four times by one kind of wrapper",
            ["module.module.module.module.a.weight", "module.module.module.module.b.bias"],
            ["a.weight", "b.bias"],
        ),
        (
            "a child called module that holds nearly everything",
            ["module.0.weight", "module.0.bias", "module.1.weight", "head.weight"],
            ["module.0.weight", "module.0.bias", "module.1.weight", "head.weight"],
        ),
        (
            "a child called model, which is no wrapper",
            ["module.model.weight", "module.model.bias"],
            ["model.weight", "model.bias"],
        ),
        (
            "one compiled inside another, directly",
            ["a._orig_mod._orig_mod.weight", "b.weight"],
            ["a.weight", "b.weight"],
        ),
        ("a child that is really called module", ["module.weight", "head.weight"], ["module.weight", "head.weight"]),
        (
            "a child that is really called module, in a wrapped model",
            ["module.module.weight", "module.head.weight", "module.head.bias"],
            ["module.weight", "head.weight", "head.bias"],
        ),
        (
            "a child that is called module further in",
            ["module.net.module.weight", "module.net.module.bias"],
            ["net.module.weight", "net.module.bias"],
        ),
        (
            "a compiled part of a model with a child called module",
            ["_orig_mod.module.weight", "_orig_mod.head.weight"],
            ["module.weight", "head.weight"],
        ),
        (
            "a wrapper that only shows when `_orig_mod` is gone",
            ["_orig_mod.module.weight", "module.bias"],
            ["weight", "bias"],
        ),
        (
            "names that contain the words",
            ["modules.0.weight", "module_list.weight", "my_module.bias", "submodule.module_", "x_orig_mod._orig_mods"],
            ["modules.0.weight", "module_list.weight", "my_module.bias", "submodule.module_", "x_orig_mod._orig_mods"],
        ),
        (
            "names that contain the words, in a wrapped model",
            ["module.modules.0.weight", "module.module_list._orig_mod.weight"],
            ["modules.0.weight", "module_list.weight"],
        ),
        (
            "names that merely begin with the word",
            ["module1.weight", "module2.weight"],
            ["module1.weight", "module2.weight"],
        ),
        ("one entry", ["module.weight"], ["weight"]),
        ("another order than that of the alphabet", ["module.z", "module.a", "module.m"], ["z", "a", "m"]),
    ]:
        test.hidden(idea)
        judge(observe_scenario(stripped, strip_wrappers, keys), *names, hidden=True)

    test.hidden("an OrderedDict with metadata, as state_dict() returns it")
    judge(observe_scenario(stripped, strip_wrappers, wrapped, "state_dict"), *bare, hidden=True)
    judge(observe_scenario(stripped, strip_wrappers, bare, "state_dict"), *bare, hidden=True)

    test.hidden("parameters stay the objects that they are")
    judge(observe_scenario(stripped, strip_wrappers, wrapped, "parameters"), *bare, hidden=True)

    for keys in (["a._orig_mod.weight", "a.weight"], ["module.a", "module._orig_mod.a"], ["b", "a", "_orig_mod.b"]):
        test.hidden("two keys that become the same name")
        lost = "Two keys became the same name and one tensor was silently lost: raise ValueError."
        other = mistake("Two keys that become the same name must raise a ValueError: {detail}.", stage="raised")
        seen = observe_scenario(stripped, strip_wrappers, keys)
        if seen.noted.raised:
            seen.expecting(other)
        seen.that(seen["refused"], lost, stage="raised")
        seen.that(seen["argument same"], "The argument was changed; the caller's state_dict must stay as it is.")
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 7.5 · A table that moves but is not saved
#
# implement · solid · 15 min · 2 points
#
# A transformer adds a fixed table of sines and cosines to its input, one row for each position. Write the module. The
# formula is the smaller part of it; the larger part is where the table lives.
#
# **Contract**
#
# - `forward(x)` adds to every sample of x (N, T, d) the first T rows of a table with
#   pe[t, 2i] = sin(t / 10000^(2i/d)) and pe[t, 2i+1] = cos(t / 10000^(2i/d)). An odd d_model is allowed.
# - The result has the dtype of x; x is not changed, and gradients pass to it.
# - The table of max_len rows is made once, in `__init__`. It moves and casts with the module (`.double()`,
#   `.to("meta")`), it is not trained, and it is not in the state_dict: a checkpoint of a model with max_len 512 loads
#   into one with max_len 1024.
# - T > max_len raises a ValueError that names both numbers. T = max_len and T = 0 are fine.
#
# <details><summary>Hint 1</summary>
#
# Which of Parameter, plain tensor attribute, buffer and non-persistent buffer moves but is not saved?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compute positions (max_len, 1) times frequencies (ceil(d/2),) in float32, fill even columns with sin and odd ones with
# cos (one cosine less for odd d), register with `persistent=False`, slice the first T rows in forward and cast to
# x.dtype.
#
# </details>


# %% answer="sinusoidal-positions"
class SinusoidalPositions(nn.Module):
    """Adds a fixed table of sines and cosines to x: (N, T, d_model) to (N, T, d_model), in the dtype of x."""

    def __init__(self, d_model: int, max_len: int = 512) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angle = position * frequency
        table = torch.empty(max_len, d_model)
        table[:, 0::2] = angle.sin()
        table[:, 1::2] = angle[:, : d_model // 2].cos()
        self.register_buffer("table", table, persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x plus the first T rows of the table."""
        ### BEGIN SOLUTION
        length = x.size(1)
        if length > len(self.table):
            raise ValueError(f"a sequence of {length} positions, but the table has max_len={len(self.table)}")
        return x + self.table[:length].to(x.dtype)
        ### END SOLUTION


# %% check="sinusoidal-positions" points=1
"""The values: sines and cosines in turn, for every sample; odd d, T up to max_len; x untouched."""
with check("sinusoidal-positions") as test:

    def added(answer, sizes, x):
        """What the module of these sizes makes of x."""
        return answer(*sizes)(x)

    def column(k, d, length):
        """One column of the table, position by position."""
        function = math.cos if k % 2 else math.sin
        return [function(t / 10000 ** (k // 2 * 2 / d)) for t in range(length)]

    def table_of(d, length):
        """The table, column by column."""
        return torch.tensor([column(k, d, length) for k in range(d)], dtype=torch.float64).T.reshape(length, d)

    def halves_of(d, length):
        """The table with all sines first."""
        table = table_of(d, length)
        return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)

    def exchanged(d, length):
        """The table with cosines in even columns."""
        angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(d) // 2 * 2 / d)
        return torch.where(torch.arange(d) % 2 == 1, angles.sin(), angles.cos())

    def exponent_i(d, length):
        """The table with the exponent i/d, or with one exponent for every column."""
        angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(d) // 2 / d)
        return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos())

    def exponent_k(d, length):
        """The table with an exponent of its own for every column."""
        angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(d) / d)
        return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos())

    angles_off = (
        "The angles are off: the exponent is 2i/d with i the PAIR index, the position is not scaled, and 10000 is "
        "the base."
    )
    along_batch = "You sliced or broadcast along the batch: position is dimension 1 of x."
    odd = mistake(
        "For odd d_model there is one cosine column fewer.",
        raises="expanded size of the tensor|must match the size|stack expects each tensor|shape mismatch",
        when=lambda seen: seen.args[1][0] % 2 == 1,
    )

    def scaled(came, wanted):
        """Whether one factor, other than 1, leads from what is wanted to what came, but for zeros."""
        common = (came.abs() > 1e-6) & (wanted.abs() > 1e-2)
        factors = (came / wanted)[common]
        return bool(factors.numel() > 1 and factors.max() - factors.min() < 1e-2 and (factors - 1).abs().min() > 1e-2)

    def starts_right(added, d):
        """Whether what was added is a table of sines and cosines that begins with angles of zero."""
        start = (torch.arange(d) % 2).double().expand(len(added), d)
        return added.shape[1] > 0 and torch.allclose(added[:, 0], start, atol=1e-3) and bool(added.abs().max() < 1.001)

    def judge(seen):
        """Judge the sum of x and the table."""
        x = seen.args[2]
        n, t, d = x.shape
        table = table_of(d, t)
        known = [
            mistake(
                "You put all sines first; sines and cosines alternate column by column.",
                gives=lambda *asked: x + halves_of(d, t),
            ),
            mistake(
                "Sines and cosines are exchanged: even columns hold sines.", gives=lambda *asked: x + exchanged(d, t)
            ),
            mistake(angles_off, gives=lambda *asked: x + exponent_i(d, t)),
            mistake(angles_off, gives=lambda *asked: x + exponent_k(d, t)),
            mistake("The table was returned; it is to be added to x.", gives=lambda *asked: table.expand(n, t, d)),
            mistake("Positions count from 0.", gives=lambda *asked: x + table_of(d, t + 1)[1:]),
            mistake(
                along_batch,
                when=lambda seen: torch.allclose(seen.value.double(), x + table_of(d, n)[:, None], atol=1e-4),
            ),
            mistake(
                along_batch,
                when=lambda seen: torch.allclose(seen.value.double(), x + table_of(d, 1), atol=1e-4),
            ),
            odd,
            mistake(along_batch, raises=r"size of tensor .* must match"),
            mistake("The result must keep x's dtype (a float32 table promotes half precision input).", stage="dtype"),
            mistake("The result has the shape of x: {detail}.", stage="shape"),
            mistake(
                "The sum comes out scaled, or with zeros in it: x plus the table is asked for, without dropout.",
                when=lambda seen: scaled(seen.value.double(), x + table),
            ),
            mistake(
                "x itself came out scaled: the table is added to x as it is.",
                when=lambda seen: scaled(seen.value.double() - table, x.double()),
            ),
            mistake(angles_off, when=lambda seen: starts_right(seen.value.double() - x, d)),
        ]
        seen.expecting(*known).returns((x + table).to(x.dtype), rtol=1e-4, atol=1e-4)
        changed = torch.equal(seen.noted.arguments["x"].detach(), x.detach())
        seen.that(changed, "x was changed in place.", stage="arguments")

    def some(n, t, d):
        """Some x."""
        return (torch.arange(n * t * d) * 37 % 101 / 50 - 1).reshape(n, t, d)

    test("d = 4, three positions: sines in columns 0 and 2, cosines in columns 1 and 3")
    expected = torch.tensor(
        [[[0.0, 1.0, 0.0, 1.0], [0.84147, 0.54030, 0.01000, 0.99995], [0.90930, -0.41615, 0.02000, 0.99980]]]
    )
    zeros = observe_scenario(added, SinusoidalPositions, [4, 8], torch.zeros(1, 3, 4))
    judge(zeros)
    zeros.returns(expected, rtol=0, atol=1e-4)

    test("an odd d_model: one cosine fewer")
    judge(observe_scenario(added, SinusoidalPositions, [5, 8], some(2, 4, 5)))

    test("a batch larger than the sequence: every sample gets the same rows")
    judge(observe_scenario(added, SinusoidalPositions, [6, 8], some(5, 3, 6)))

    ### BEGIN HIDDEN TESTS
    for idea, sizes, shape in [
        ("as many samples as positions", [6, 8], (4, 4, 6)),
        ("one sample, one position", [6, 8], (1, 1, 6)),
        ("T = max_len", [6, 7], (2, 7, 6)),
        ("a batch of as many samples as the table has rows", [4, 5], (5, 3, 4)),
        ("max_len = 1", [4, 1], (2, 1, 4)),
        ("d = 1", [1, 4], (2, 3, 1)),
        ("d = 2", [2, 4], (2, 3, 2)),
        ("d = 7", [7, 4], (1, 4, 7)),
        ("an empty batch", [4, 5], (0, 3, 4)),
        ("T = 0", [4, 5], (2, 0, 4)),
        ("max_len is 512 if it is not given", [6], (1, 512, 6)),
    ]:
        test.hidden(idea)
        judge(observe_scenario(added, SinusoidalPositions, sizes, some(*shape)))

    def far_out(answer, d, length):
        """The table far out: zeros go in, the last rows come out."""
        return answer(d, length)(torch.zeros(1, length, d))[0, -3:]

    test.hidden("a long table with many columns stays accurate")
    far = torch.tensor(
        [
            [(math.cos if k % 2 else math.sin)(t / 10000 ** (k // 2 * 2 / 16)) for k in range(16)]
            for t in (1997, 1998, 1999)
        ]
    )
    inexact = mistake("The angles are inexact far out: compute them in float32 at least.", stage="value")
    observe_scenario(far_out, SinusoidalPositions, 16, 2000).returns(far, inexact, rtol=0, atol=5e-3)

    test.hidden("two calls, x as a view")
    judge(observe_scenario(added, SinusoidalPositions, [4, 9], some(3, 4, 6)[:, :, 1:5]))

    def refused(answer, sizes, length):
        """Ask for a sequence of some length; note what happens."""
        module = answer(*sizes)
        try:
            came = module(torch.zeros(2, length, sizes[0]))
        except Exception as error:
            return {"refused": isinstance(error, ValueError), "message": str(error)}
        return {"refused": False, "message": "", "shape": list(came.shape) if isinstance(came, Tensor) else None}

    too_long = "Longer sequences must raise ValueError naming T and max_len, not fail in broadcasting or wrap around."
    for idea, sizes, length in [
        ("one position too many", [4, 6], 7),
        ("many positions too many", [4, 6], 29),
        ("one more than the default of 512", [4], 513),
        ("a table of one row does not spread", [4, 1], 3),
    ]:
        test.hidden(idea)
        seen = observe_scenario(refused, SinusoidalPositions, sizes, length)
        seen.that(seen["refused"], too_long, stage="raised")
        names = str(length) in seen["message"] and str([*sizes, 512][1]) in seen["message"]
        seen.that(names, too_long, stage="raised")
    ### END HIDDEN TESTS

# %% check="sinusoidal-positions" points=1
"""Where the table lives: not trained, not saved, moved and cast with the module; dtypes and gradients."""
with check("sinusoidal-positions") as test:

    def where_it_lives(answer, sizes):
        """What the module has registered, before and after a cast and a move."""
        module = answer(*sizes)
        facts = {
            "module": isinstance(module, nn.Module),
            "parameters": [name for name, _ in module.named_parameters()],
            "state": list(module.state_dict()),
            "buffers": sum(buffer.numel() for buffer in module.buffers()),
            "unmade": all(buffer is None for buffer in module._buffers.values()) and len(module._buffers) > 0,
            "tracked": any(buffer.requires_grad for buffer in module.buffers()),
        }
        module.double()
        facts["dtypes"] = sorted({str(b.dtype) for b in module.buffers() if b.dtype.is_floating_point})
        module.to("meta")
        facts["devices"] = sorted({buffer.device.type for buffer in module.buffers()})
        return facts

    trained = (
        "The table is a Parameter: it is counted in parameters() and handed to optimizers, and requires_grad_(True) on "
        "the model wakes it even if it is frozen now."
    )
    saved = "The table is in state_dict: checkpoints of other lengths will not load. persistent=False."
    not_moved = "After .double() or .to(device) the table stayed behind: a plain attribute is not registered."
    forgotten = mistake("super().__init__() comes first in __init__.", raises="before Module.__init__")

    test("no parameters, nothing in the state_dict; the table follows .double() and .to('meta')")
    seen = observe_scenario(where_it_lives, SinusoidalPositions, [6, 10]).expecting(forgotten)
    seen.that(not seen["parameters"], trained, stage="rule")
    seen.that(not seen["state"], saved, stage="rule")
    made_later = mistake(
        "The table of max_len rows and d_model columns is made once, in __init__.", when=lambda seen: seen["unmade"]
    )
    seen.that(seen["buffers"] > 0, not_moved, made_later, stage="device")
    seen.that(
        seen["buffers"] >= 60, "The table of max_len rows and d_model columns is made once, in __init__.", stage="rule"
    )
    seen.that(seen["dtypes"] == ["torch.float64"] and seen["devices"] == ["meta"], not_moved, stage="device")
    seen.that(not seen["tracked"], "The table must not require grad.", stage="gradient")

    ### BEGIN HIDDEN TESTS
    def in_dtypes(answer, cast, x):
        """A forward pass after a cast of the module, of an x in any dtype."""
        return answer(6, 12).to(cast)(x)

    x = (torch.arange(30) * 37 % 101 / 50 - 1).reshape(1, 5, 6)
    table = torch.tensor(
        [[(math.cos if k % 2 else math.sin)(t / 10000 ** (k // 2 * 2 / 6)) for k in range(6)] for t in range(5)]
    )
    keep_dtype = mistake(
        "The result must keep x's dtype (a float32 table promotes half precision input).", stage="dtype"
    )
    for idea, cast, given, tolerance in [
        ("bfloat16 goes in, bfloat16 comes out", torch.float32, torch.bfloat16, 2e-2),
        ("float16 goes in, float16 comes out", torch.float32, torch.float16, 3e-3),
        ("float64 after .double(), with float32's accuracy at least", torch.float64, torch.float64, 1e-6),
        ("a float64 x, a float32 module", torch.float32, torch.float64, 1e-6),
        ("a float32 x, a float64 module", torch.float64, torch.float32, 1e-6),
        ("a half precision module and x", torch.bfloat16, torch.bfloat16, 3e-2),
    ]:
        test.hidden(idea)
        expected = (x.to(given) + table.to(given)).to(given)
        seen = observe_scenario(in_dtypes, SinusoidalPositions, cast, x.to(given))
        seen.returns(expected, keep_dtype, rtol=0, atol=tolerance)

    def with_gradient(answer, x):
        """A forward pass through a deep copy of the module, after the model was set to train everything."""
        model = nn.Sequential(answer(6, 12))
        return copy.deepcopy(model.requires_grad_(True).train())(x)

    test.hidden("gradients pass to x; a deep copy works; x stays as it was")
    seen = observe_scenario(with_gradient, SinusoidalPositions, x.clone().requires_grad_()).expecting(
        mistake("x was changed in place.", raises="leaf Variable that requires grad"),
        mistake("The table carries a graph: a module with it can't be copied.", raises="graph leaves"),
    )
    seen.returns(x + table, rtol=0, atol=1e-5)
    seen.gives_gradients({0: incoming_gradient(x)})

    def loaded(answer, short, long):
        """The checkpoint of a model with a short table goes into one with a long table."""
        models = [nn.Sequential(nn.Embedding(3, 6), answer(6, max_len=n), nn.Linear(6, 2)) for n in (short, long)]
        try:
            models[1].load_state_dict(models[0].state_dict())
        except RuntimeError:
            return {"loads": False}
        indices = torch.zeros(1, long, dtype=torch.int64)
        return {"loads": True, "same": torch.equal(models[0](indices[:, :short]), models[1](indices)[:, :short])}

    for short, long in ((4, 9), (9, 4)):
        test.hidden("a checkpoint loads into a model of another max_len")
        seen = observe_scenario(loaded, SinusoidalPositions, min(short, long), max(short, long))
        seen.that(seen["loads"], saved, stage="rule")
        seen.that(seen["same"], "With the same weights both models must give the same.")

    def used_twice(answer, x):
        """Two calls of one module, and a call of another one."""
        module, other = answer(6, 12), answer(6, 12)
        first = module(x)
        second = module(x)
        return [torch.equal(first, second), torch.equal(first, other(x))]

    test.hidden("two calls give the same")
    seen = observe_scenario(used_twice, SinusoidalPositions, x)
    seen.that(seen.value == [True, True], "A second call gives something else: forward must not change the table.")
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 7.6 · Load what fits and say what did not
#
# implement · solid · 15 min · 3 points
#
# A pretrained body under a new head: most of the checkpoint fits, some of it does not. `load_state_dict` has a flag for
# that, but it does not forgive everything, and it does not tell you enough. Write a loader that loads what fits and
# reports the rest.
#
# **Contract**
#
# - "The model" means the entries of `model.state_dict()`: parameters and persistent buffers. Every entry of the
#   checkpoint whose name *and shape* fit is copied into the model, in place: the parameter objects stay the same, dtype
#   and device stay the model's. Everything else in the model keeps its values.
# - Returns a LoadReport: `loaded`, `missing` (in the model, not in the checkpoint), `unexpected` (in the checkpoint,
#   not in the model) and `mismatched` (name to the pair of checkpoint's shape, model's shape). Lists and dict are
#   sorted by name; each name is in exactly one group.
# - The checkpoint `state` is not changed, neither its keys nor its tensors, and shares no memory with the model
#   afterwards.
#
# <details><summary>Hint 1</summary>
#
# Which of the three problems does `strict=False` forgive - missing, unexpected, or wrong shape?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compare the checkpoint with `model.state_dict()` by name and shape, build a filtered dict, hand only that to
# `load_state_dict(strict=False)`. Take `missing` from the comparison, not from what load_state_dict returns.
#
# </details>


# %% answer="partial-load"
class LoadReport(NamedTuple):
    loaded: list[str]
    missing: list[str]  # in the model, not in the checkpoint
    unexpected: list[str]  # in the checkpoint, not in the model
    mismatched: dict[str, tuple[torch.Size, torch.Size]]  # name -> (checkpoint's shape, model's shape)


def load_matching(model: nn.Module, state: Mapping[str, Tensor]) -> LoadReport:
    """Copy the entries of state that fit by name and shape into the model; report on all names."""
    ### BEGIN SOLUTION
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in state.items() if name in own and own[name].shape == tensor.shape}
    model.load_state_dict(fitting, strict=False)
    return LoadReport(
        loaded=sorted(fitting),
        missing=sorted(own.keys() - state.keys()),
        unexpected=sorted(state.keys() - own.keys()),
        mismatched={
            name: (state[name].shape, own[name].shape)
            for name in sorted(own.keys() & state.keys())
            if name not in fitting
        },
    )
    ### END SOLUTION


# %% check="partial-load" points=2
"""What fits is loaded, the rest keeps its values, and the report names every entry once."""
with check("partial-load") as test:

    def body_and_head(classes, width=3):
        """A body with batch norm, and a head; fixed values that depend on the number of classes."""
        net = nn.Sequential(OrderedDict(body=nn.Linear(2, width), norm=nn.BatchNorm1d(width)))
        net.add_module("head", nn.Linear(width, classes))
        return filled(net, classes)

    def filled(net, shift):
        """The net, its entries filled with numbers that depend on name, place and shift."""
        with torch.no_grad():
            for place, tensor in enumerate(net.state_dict().values()):
                numbers = torch.arange(tensor.numel()) * 7 % 11 + 16 * place + 128 * shift + 1
                tensor.copy_(numbers.reshape(tensor.shape))
        return net

    def as_lists(report, field):
        """One field of a report in plain data, or None."""
        value = getattr(report, field, None)
        if field != "mismatched":
            return [str(name) for name in value] if isinstance(value, (list, tuple)) else None
        if not isinstance(value, dict):
            return None
        pairs = [(str(name), pair if isinstance(pair, (tuple, list)) else [pair]) for name, pair in value.items()]
        return [[name, *[list(s) if isinstance(s, (tuple, list)) else str(s) for s in pair]] for name, pair in pairs]

    def story(answer, model, state):
        """Load a checkpoint; note the report, what the model holds, and what became of the checkpoint."""
        objects = {name: (id(tensor), tensor.dtype) for name, tensor in model.named_parameters()}
        objects |= {name: (0, tensor.dtype) for name, tensor in model.named_buffers()}
        flags = [parameter.requires_grad for parameter in model.parameters()]
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        given = {name: (tensor, tensor.detach().clone()) for name, tensor in state.items()}
        order = list(state)
        report = answer(model, state)
        now = dict(model.named_parameters())
        changed = [
            name
            for name, (tensor, values) in given.items()
            if name in state and (state[name] is not tensor or not torch.equal(tensor.detach(), values))
        ]
        facts = {
            "kind": type(report).__name__,
            "report": {field: as_lists(report, field) for field in ("loaded", "missing", "unexpected", "mismatched")},
            "before": before,
            "after": {name: tensor.detach().clone() for name, tensor in model.state_dict().items()},
            "replaced": [name for name in now if objects.get(name, (0,))[0] != id(now[name])],
            "cast": [n for n, t in [*now.items(), *model.named_buffers()] if objects.get(n, (0, 0))[1] != t.dtype],
            "flags same": [parameter.requires_grad for parameter in model.parameters()] == flags,
            "keys same": list(state) == order,
            "changed": changed,
        }
        with torch.no_grad():
            for tensor in model.state_dict().values():
                tensor.add_(1)
        facts["shared"] = [n for n, (tensor, values) in given.items() if not torch.equal(tensor.detach(), values)]
        facts["shared"] = [name for name in facts["shared"] if name not in changed]
        return facts

    refuses = mistake(
        "strict=False does not forgive a wrong shape: load_state_dict still raises. Filter before loading.",
        raises="size mismatch",
    )
    squeezed = mistake(
        "Same number of elements is not the same shape: (2, 6) or (4, 3) must not be squeezed into (3, 4).",
        when=lambda seen: seen.args[1] == "same number" and "same number.weight" in seen["report"]["loaded"],
    )

    def judge(seen, state, loaded, missing, unexpected, mismatched):
        """Judge report, values, objects and the checkpoint."""
        seen.expecting(
            refuses, squeezed, mistake("Names and tensors must fit: {detail}.", raises="must match the size")
        )
        report = seen["report"]
        for field, came in report.items():
            seen.that(
                came is not None,
                f"Return a LoadReport; its field {field} must be a {'dict' if field == 'mismatched' else 'list'}.",
                mistake("Return the LoadReport.", when=lambda seen: seen["kind"] == "NoneType"),
                stage="type",
            )
        expected = {"loaded": loaded, "missing": missing, "unexpected": unexpected, "mismatched": mismatched}
        names = {field: [row[0] for row in rows] if field == "mismatched" else rows for field, rows in report.items()}
        wanted = {
            field: [row[0] for row in rows] if field == "mismatched" else rows for field, rows in expected.items()
        }
        seen.that(
            sorted(names["missing"]) == sorted(missing) and sorted(names["unexpected"]) == sorted(unexpected),
            "`missing` or `unexpected` is not right.",
            squeezed,
            mistake(
                "Buffers (running_mean ...) are part of a checkpoint too.",
                when=lambda seen: (
                    any("running" in name for name in wanted["loaded"])
                    and not any("running" in name for name in names["loaded"])
                ),
            ),
            mistake(
                "A mismatched name must not appear under missing or unexpected too.",
                when=lambda seen: set(wanted["mismatched"]) & {*names["missing"], *names["unexpected"]},
            ),
            mistake(
                "missing and unexpected are exchanged: missing is what the model has and the checkpoint has not.",
                when=lambda seen: (
                    sorted(names["missing"]) == sorted(unexpected) and sorted(names["unexpected"]) == sorted(missing)
                ),
            ),
            mistake(
                "A non-persistent buffer is not in model.state_dict(): it can't be missing, nor be loaded.",
                when=lambda seen: any("mask" in name for name in (*names["missing"], *names["loaded"])),
            ),
            mistake(
                "load_state_dict supplies num_batches_tracked on its own when an old checkpoint lacks it, and does not "
                "list it; the report must.",
                when=lambda seen: set(missing) - set(names["missing"]) == {"norm.num_batches_tracked"},
            ),
        )
        doubled = "A name is in exactly one group; here one is in two, or in none."
        same_names = all(sorted(names[field]) == sorted(wanted[field]) for field in wanted)
        seen.that(
            same_names,
            doubled,
            squeezed,
            mistake(
                "Mismatched entries belong under `mismatched` only.",
                when=lambda seen: set(names["loaded"]) & set(wanted["mismatched"]),
            ),
        )
        seen.that(report == expected, "Names sorted, shapes as (checkpoint, model).", stage="value")
        seen.that(not seen["cast"], f"The dtype must stay the model's: {', '.join(seen['cast'])}.", stage="dtype")
        before, after = seen["before"], seen["after"]
        differ = ", ".join(n for n in loaded if not same_numbers(after[n], state[n].detach().to(before[n].dtype)))
        seen.that(not differ, f"Not loaded, although name and shape fit: {differ}.")
        touched = ", ".join(n for n in before if n not in loaded and not same_numbers(after[n], before[n]))
        seen.that(not touched, f"What does not fit must keep its values; changed: {touched}.")
        seen.that(
            not seen["replaced"],
            "The Parameter objects were replaced: an optimizer built before still holds the old ones. Copy in place.",
            stage="aliasing",
        )
        seen.that(seen["flags same"], "requires_grad of the model's parameters must stay.", stage="gradient")
        mutated = seen["keys same"] and not seen["changed"]
        seen.that(mutated, "The checkpoint dict was changed; work on a copy.", stage="arguments")
        shared = "Model and checkpoint now share memory: training would change the checkpoint."
        seen.that(not seen["shared"], shared, stage="aliasing")

    def same_numbers(a, b):
        """Whether two tensors agree, dtype and all."""
        return a.dtype == b.dtype and torch.equal(a, b)

    def new_head(answer, state):
        """The model has another head than the checkpoint."""
        return story(answer, body_and_head(classes=4), state)

    body = ["body.bias", "body.weight", "norm.bias", "norm.num_batches_tracked", "norm.running_mean"]
    body += ["norm.running_var", "norm.weight"]

    test("another head: the body is loaded, the head is reported and keeps its values")
    state = body_and_head(classes=5).state_dict()
    judge(
        observe_scenario(new_head, load_matching, state),
        state,
        loaded=body,
        missing=[],
        unexpected=[],
        mismatched=[["head.bias", [5], [4]], ["head.weight", [5, 3], [4, 3]]],
    )

    test("names that are missing, and names that nobody expects")
    state = {name.replace("head", "classifier"): tensor for name, tensor in state.items() if name != "norm.weight"}
    judge(
        observe_scenario(new_head, load_matching, state),
        state,
        loaded=body[:-1],
        missing=["head.bias", "head.weight", "norm.weight"],
        unexpected=["classifier.bias", "classifier.weight"],
        mismatched=[],
    )

    ### BEGIN HIDDEN TESTS
    def special_model(kind):
        """A model of a certain kind."""
        if kind in ("same number", "other"):
            return filled(nn.ModuleDict({"same number": nn.Linear(4, 3), "other": nn.Linear(2, 2)}), 3)
        if kind == "scalar":
            net = nn.Module()
            net.scale, net.shift = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.ones(1))
            return filled(net, 3)
        if kind == "tied":
            net = nn.ModuleDict({"embedding": nn.Embedding(4, 3), "head": nn.Linear(3, 4)})
            net.head.weight = net.embedding.weight
            net.register_buffer("mask", torch.ones(3), persistent=False)
            return filled(net, 3)
        net = body_and_head(classes=4)
        if kind == "frozen":
            net.body.requires_grad_(False)
        return net.to(torch.bfloat16) if kind == "half" else net

    def on_special(answer, kind, state):
        """Load into a model of a certain kind."""
        return story(answer, special_model(kind), state)

    test.hidden("the same number of elements in another shape")
    net = filled(nn.ModuleDict({"same number": nn.Linear(6, 2), "other": nn.Linear(2, 2)}), 4)
    state = net.state_dict() | {"other.bias": torch.ones(2, 1)}
    state["other.weight"] = state["other.weight"].t()[:, :1]
    judge(
        observe_scenario(on_special, load_matching, "same number", state),
        state,
        loaded=[],
        missing=[],
        unexpected=[],
        mismatched=[
            ["other.bias", [2, 1], [2]],
            ["other.weight", [2, 1], [2, 2]],
            ["same number.bias", [2], [3]],
            ["same number.weight", [2, 6], [3, 4]],
        ],
    )

    test.hidden("a shape the other way round")
    state = {"same number.weight": torch.arange(12.0).reshape(4, 3), "other.bias": torch.tensor([7.0, 8.0])}
    judge(
        observe_scenario(on_special, load_matching, "same number", state),
        state,
        loaded=["other.bias"],
        missing=["other.weight", "same number.bias"],
        unexpected=[],
        mismatched=[["same number.weight", [4, 3], [3, 4]]],
    )

    test.hidden("a single number is not a list of one")
    state = {"shift": torch.tensor(5.0), "scale": torch.tensor([7.0])}
    judge(
        observe_scenario(on_special, load_matching, "scalar", state),
        state,
        loaded=[],
        missing=[],
        unexpected=[],
        mismatched=[["scale", [1], []], ["shift", [], [1]]],
    )

    test.hidden("a transposed weight that fits by its shape; names in another order than that of the alphabet")
    square = filled(nn.ModuleDict({"same number": nn.Linear(4, 3), "other": nn.Linear(2, 2)}), 5).state_dict()
    state = {"same number.weight": square["same number.weight"].flip(0), "other.weight": square["other.weight"].t()}
    judge(
        observe_scenario(on_special, load_matching, "other", state),
        state,
        loaded=["other.weight", "same number.weight"],
        missing=["other.bias", "same number.bias"],
        unexpected=[],
        mismatched=[],
    )

    test.hidden("a float64 checkpoint, a model in bfloat16, an integer counter")
    wide = body_and_head(classes=4).double()
    with torch.no_grad():
        wide.body.weight += 0.37
    state = wide.state_dict()
    judge(
        observe_scenario(on_special, load_matching, "half", state),
        state,
        loaded=sorted(state),
        missing=[],
        unexpected=[],
        mismatched=[],
    )

    test.hidden("tied weights load under both names; a non-persistent buffer is no entry")
    state = special_model("tied").state_dict()
    state = {name: tensor + 1 for name, tensor in state.items()} | {"mask": torch.zeros(3)}
    judge(
        observe_scenario(on_special, load_matching, "tied", state),
        state,
        loaded=["embedding.weight", "head.bias", "head.weight"],
        missing=[],
        unexpected=["mask"],
        mismatched=[],
    )
    del state["mask"]
    judge(
        observe_scenario(on_special, load_matching, "tied", state),
        state,
        loaded=["embedding.weight", "head.bias", "head.weight"],
        missing=[],
        unexpected=[],
        mismatched=[],
    )

    test.hidden("an old checkpoint without num_batches_tracked")
    state = {name: t for name, t in body_and_head(classes=6).state_dict().items() if "tracked" not in name}
    judge(
        observe_scenario(on_special, load_matching, "plain", state),
        state,
        loaded=[name for name in body if "tracked" not in name],
        missing=["norm.num_batches_tracked"],
        unexpected=[],
        mismatched=[["head.bias", [6], [4]], ["head.weight", [6, 3], [4, 3]]],
    )

    test.hidden("a checkpoint of parameters that require grad; a frozen layer")
    other = body_and_head(classes=7)
    state = dict(other.named_parameters())
    judge(
        observe_scenario(on_special, load_matching, "frozen", state),
        state,
        loaded=["body.bias", "body.weight", "norm.bias", "norm.weight"],
        missing=["norm.num_batches_tracked", "norm.running_mean", "norm.running_var"],
        unexpected=[],
        mismatched=[["head.bias", [7], [4]], ["head.weight", [7, 3], [4, 3]]],
    )

    test.hidden("an empty checkpoint")
    judge(
        observe_scenario(new_head, load_matching, {}),
        {},
        loaded=[],
        missing=[*body[:1], "body.weight", "head.bias", "head.weight", *body[2:]],
        unexpected=[],
        mismatched=[],
    )
    ### END HIDDEN TESTS

# %% check="partial-load" points=1
"""Parameter objects stay, so that an optimizer made before trains on; the checkpoint stays as it is."""
with check("partial-load") as test:

    def trained_after(answer, state):
        """An optimizer is made, a checkpoint is loaded, two steps are made; the checkpoint is looked at."""
        torch.default_generator.manual_seed(3)
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        parameters = list(net.parameters())
        copies = {name: tensor.clone() for name, tensor in state.items()}
        answer(net, state)
        loaded = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        x = torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]])
        for _ in range(2):
            for parameter in parameters:
                parameter.grad = None
            net(x).square().sum().backward()
            with torch.no_grad():
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
        now = net.state_dict()
        return {
            "same objects": all(a is b for a, b in zip(parameters, net.parameters(), strict=True)),
            "loaded": [name for name in state if name in loaded and torch.equal(loaded[name], copies[name])],
            "trained": [name for name in now if not torch.equal(now[name], loaded[name])],
            "checkpoint same": all(torch.equal(tensor, copies[name]) for name, tensor in state.items()),
            "keys": len(state),
        }

    test("after loading, the optimizer's parameters are still the model's, and the checkpoint stays as it is")
    state = {
        "0.weight": torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 0.25]]),
        "0.bias": torch.tensor([0.5, 1.0, 1.5]),
        "1.weight": torch.tensor([1.0, 2.0, 3.0]),
        "1.running_mean": torch.tensor([4.0, 5.0, 6.0]),
        "2.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "3.weight": torch.tensor([1.0]),
    }
    seen = observe_scenario(trained_after, load_matching, state).expecting(
        mistake(
            "strict=False does not forgive a wrong shape: load_state_dict still raises. Filter before loading.",
            raises="size mismatch",
        )
    )
    fitting = ["0.weight", "0.bias", "1.weight", "1.running_mean"]
    left = ", ".join(name for name in fitting if name not in seen["loaded"])
    seen.that(not left, f"Not loaded, although name and shape fit: {left}.")
    seen.that(
        seen["same objects"],
        "The Parameter objects were replaced: an optimizer built before still holds the old ones. Copy in place.",
        stage="aliasing",
    )
    still = [name for name in ("0.weight", "1.weight", "2.weight") if name not in seen["trained"]]
    seen.that(not still, f"After loading, a step of training changes nothing in {', '.join(still)}.", stage="gradient")
    seen.that(seen["keys"] == 6, "The checkpoint dict was changed; work on a copy.", stage="arguments")
    shared = "Model and checkpoint now share memory: training would change the checkpoint."
    seen.that(seen["checkpoint same"], shared, stage="aliasing")

# %% [markdown]
# ### Exercise 7.7 · Exponential moving average of the weights
#
# implement · long · 25 min · 3 points
#
# Many models are evaluated not with their last weights but with a moving average of them. Write the module that keeps
# it beside the model that is trained. Most of the work is to decide where a tensor lives, and who may change it.
#
# **Contract**
#
# - `EMA(model)` starts at the model's current values. `update(model)`: every floating point entry of the model's
#   state_dict becomes `decay * average + (1 - decay) * current`; integer entries (such as num_batches_tracked) are
#   copied. A weight with two names is averaged once, and known under both.
# - `average()` returns a dict with exactly the names of `model.state_dict()`. `copy_to(model)` writes the averages into
#   a model, in place.
# - The averages are state: `ema.state_dict()` restores them in a new EMA of another model of the same kind, `ema.to(…)`
#   moves and casts them, and `update` goes on in their dtype then, whatever the model's is. Nothing in EMA requires
#   grad.
# - `update` never changes the model, and training never changes the EMA.
#
# <details><summary>Hint 1</summary>
#
# If the average starts as a reference to the parameter, how far can the two ever differ? And where must a tensor live
# to be saved and moved but never trained?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Register one buffer for each entry of `model.state_dict()`, from a detached clone; a buffer's name must not contain a
# dot, so number the buffers and keep the list of names. Update under `no_grad` with `mul_` and `add_`; entries that are
# not floating point with `copy_`.
#
# </details>


# %% answer="ema-weights"
class EMA(nn.Module):
    """The exponential moving average of all floating point entries of a model's state_dict."""

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.decay = decay
        self.names = list(model.state_dict())
        for number, tensor in enumerate(model.state_dict().values()):
            self.register_buffer(f"average_{number}", tensor.clone())
        ### END SOLUTION

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the averages towards the model's current values."""
        ### BEGIN SOLUTION
        current = model.state_dict()
        for name, average in self.average().items():
            if average.is_floating_point():
                average.mul_(self.decay).add_(current[name].to(average), alpha=1 - self.decay)
            else:
                average.copy_(current[name])
        ### END SOLUTION

    def average(self) -> dict[str, Tensor]:
        """The averages under the names of the model's state_dict."""
        ### BEGIN SOLUTION
        return {name: self.get_buffer(f"average_{number}") for number, name in enumerate(self.names)}
        ### END SOLUTION

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Write the averages into a model, in place."""
        ### BEGIN SOLUTION
        current = model.state_dict()
        for name, average in self.average().items():
            current[name].copy_(average)
        ### END SOLUTION


# %% check="ema-weights" points=2
"""The formula for parameters and buffers; the averages are saved; nothing requires grad."""
with check("ema-weights") as test:

    class Tied(nn.Module):
        """Two names for one weight, and a frozen parameter."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(4, 3)
            self.head = nn.Linear(3, 4)
            self.head.weight = self.embedding.weight
            self.head.bias.requires_grad_(False)

    class Alike(nn.Module):
        """Names that become the same when dots become underscores."""

        def __init__(self):
            super().__init__()
            self.x = nn.Sequential(OrderedDict(y=nn.Linear(2, 1)))
            self.x_y = nn.Linear(2, 1)
            self.x__y = nn.Linear(2, 1)

    def model_of(kind):
        """A model of some kind."""
        if kind == "alike":
            return Alike()
        if kind == "tied":
            return Tied()
        if kind == "flat":
            return nn.Linear(2, 3)
        return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))

    def moved(net, shift):
        """The net, every entry set to numbers that depend on its place and on the shift."""
        with torch.no_grad():
            for place, tensor in enumerate(net.state_dict().values()):
                numbers = torch.arange(tensor.numel()) * 7 % 11 / 4 + place / 2 + shift
                tensor.copy_(numbers.reshape(tensor.shape))
        return net

    def copies_of(state):
        """Copies of a dict of tensors; None for anything else."""
        if not isinstance(state, Mapping) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
            return None
        return {str(name): tensor.detach().clone() for name, tensor in state.items()}

    def tracked_in(ema):
        """Which tensors of an EMA require grad."""
        named = [*ema.named_parameters(), *ema.named_buffers(), *ema.average().items()]
        return sorted({str(name) for name, tensor in named if tensor.requires_grad})

    def story(answer, kind, decay, shifts):
        """Make an EMA, move the model without an update, then with one after each move; note everything."""
        net = moved(model_of(kind), 0.5)
        facts = {"models": [copies_of(net.state_dict())], "averages": [], "changed": []}
        ema = answer(net) if decay is None else answer(net, decay)
        facts["is module"] = isinstance(ema, nn.Module)
        if not facts["is module"]:
            return facts
        facts["averages"].append(copies_of(ema.average()))
        moved(net, 30.0)
        facts["untouched"] = copies_of(ema.average())
        objects = [id(parameter) for parameter in net.parameters()]
        for shift in shifts:
            moved(net, shift)
            before = copies_of(net.state_dict())
            ema.update(net)
            now = copies_of(net.state_dict())
            facts["changed"] += [name for name in before if not torch.equal(before[name], now[name])]
            facts["models"].append(before)
            facts["averages"].append(copies_of(ema.average()))
        facts["replaced"] = objects != [id(parameter) for parameter in net.parameters()]
        if facts["averages"][-1] is not None:
            facts["tracked"] = tracked_in(ema)
            facts["trainable"] = [name for name, parameter in ema.named_parameters() if parameter.requires_grad]
        return facts

    known = [
        mistake(
            "A buffer name must not contain a dot (KeyError): encode the dots and decode them in average().",
            raises="buffer name can",
        ),
        mistake(
            "Integer entries cannot be averaged: copy them.",
            raises="can't be cast to the desired output type Long|not implemented for 'Long'|dtype .*[lL]ong",
        ),
        mistake("super().__init__() comes first in __init__.", raises="before Module.__init__"),
    ]

    def same_state(came, state, tolerance=1e-5):
        """Whether two states agree in names, dtypes and values."""
        return came.keys() == state.keys() and all(
            came[name].dtype == state[name].dtype
            and came[name].shape == state[name].shape
            and torch.allclose(came[name].double(), state[name].double(), rtol=tolerance, atol=tolerance)
            for name in state
        )

    def averaged(average, current, decay):
        """The formula, entry by entry."""
        return {
            name: decay * average[name] + (1 - decay) * current[name]
            if average[name].is_floating_point()
            else current[name].clone()
            for name in average
        }

    def judge(seen, decay):
        """Judge names, start, each update, the model and who requires grad."""
        seen.expecting(*known)
        seen.that(seen["is module"], "EMA must be a module.", stage="type")
        names = set(seen["models"][0])
        for average in seen["averages"]:
            seen.that(average is not None, "average() must return a dict from names to tensors.", stage="type")
            seen.that(
                average.keys() == names,
                "average() must have the names of model.state_dict().",
                mistake(
                    "Batch-norm statistics are averaged too: walk state_dict(), not parameters().",
                    when=lambda seen, average=average: {*average} == {n for n in names if "weight" in n or "bias" in n},
                ),
                mistake(
                    "All entries of the state_dict belong in average(), the integer ones too.",
                    when=lambda seen, average=average: {*average} == {n for n in names if "tracked" not in n},
                ),
                stage="shape",
            )
        one_name = mistake(
            "Names that differ only in dots and underscores have become one.", when=lambda seen: seen.args[1] == "alike"
        )
        starts = same_state(seen["averages"][0], seen["models"][0])
        seen.that(starts, "The EMA starts at the model's current values.", one_name)
        seen.that(
            same_state(seen["untouched"], seen["models"][0]),
            "The average follows the model exactly: it shares memory with the parameter. Clone at construction.",
            stage="aliasing",
        )
        changed = ", ".join(dict.fromkeys(seen["changed"]))
        seen.that(not changed, f"update() changed the model: {changed}.", stage="arguments")
        expected = seen["averages"][0]
        for current, average in zip(seen["models"][1:], seen["averages"][1:], strict=True):
            before, expected = expected, averaged(expected, current, decay)
            wrong = [name for name in expected if not same_state({name: average[name]}, {name: expected[name]})]
            exchanged = averaged(before, current, 1 - decay)
            twice = averaged(expected, current, decay)
            whole = [name for name in wrong if not expected[name].is_floating_point()]
            seen.that(
                not whole,
                f"Integer entries cannot be averaged: copy them, with their dtype ({', '.join(whole)}).",
            )
            seen.that(
                not wrong,
                f"The average is not decay * average + (1 - decay) * current: {', '.join(wrong)}.",
                mistake(
                    "decay and 1 - decay are exchanged: the average moved almost all the way.",
                    when=lambda seen, average=average, exchanged=exchanged: same_state(average, exchanged),
                ),
                mistake(
                    "A weight with two names was averaged twice: state_dict() lists it under both.",
                    when=lambda seen, average=average, twice=twice, wrong=wrong: (
                        seen.args[1] == "tied" and all(same_state({n: average[n]}, {n: twice[n]}) for n in wrong)
                    ),
                ),
                mistake(
                    "Batch-norm statistics are averaged too: walk state_dict(), not parameters().",
                    when=lambda seen, wrong=wrong: all("running" in name for name in wrong),
                ),
                one_name,
                mistake(
                    f"Not updated: {', '.join(wrong)}.",
                    when=lambda seen, average=average, before=before, wrong=wrong: all(
                        torch.equal(average[name], before[name]) for name in wrong
                    ),
                ),
            )
        seen.that(
            not seen["trainable"],
            "ema.parameters() holds trainable parameters: an optimizer would train the average.",
            stage="gradient",
        )
        seen.that(
            not seen["tracked"],
            "The averages require grad (or grow a graph): update under no_grad, from detached values.",
            stage="gradient",
        )
        seen.that(not seen["replaced"], "update() replaced the model's parameters.", stage="aliasing")

    test("two updates with decay 0.75: parameters and batch-norm statistics are averaged, the counter is copied")
    seen = observe_scenario(story, EMA, "batch norm", 0.75, [4.0, -2.0])
    judge(seen, 0.75)
    numbers = [float(average["0.weight"][0, 0]) for average in seen["averages"]]
    counters = [int(average["1.num_batches_tracked"]) for average in seen["averages"]]
    seen.that(
        [round(number, 4) for number in numbers] == [0.5, 1.375, 0.5312],
        f"The first weight goes 0.5, 4, -2, so its average goes 0.5, 1.375, 0.5312; yours goes {numbers}.",
    )
    seen.that(counters == [3, 7, 1], f"The counter goes 3, 7, 1, and the copy with it; yours goes {counters}.")

    def restored(answer, kind, decay):
        """An EMA's state_dict goes into a new EMA of another model."""
        net, other = moved(model_of(kind), 0.5), moved(model_of(kind), 9.0)
        ema = answer(net, decay)
        ema.update(moved(net, 4.0))
        wanted = copies_of(ema.average())
        new = answer(other, decay)
        before = copies_of(new.average())
        new.load_state_dict(ema.state_dict())
        after = copies_of(new.average())
        new.update(net)
        return {
            "saved": len(ema.state_dict()),
            "wanted": wanted,
            "before": before,
            "after": after,
            "first after update": copies_of(ema.average()),
            "model": copies_of(net.state_dict()),
            "next": copies_of(new.average()),
        }

    not_saved = (
        "ema.state_dict() (or ema.to()) does not reach the averages: plain attributes and dicts are neither saved nor "
        "moved. Use buffers."
    )

    def judge_restored(seen, decay):
        """Judge that the averages went over, and that the new EMA goes on from there."""
        seen.expecting(*known)
        all_dicts = all(seen[key] is not None for key in ("wanted", "before", "after", "next"))
        seen.that(all_dicts, "average() must return a dict from names to tensors.", stage="type")
        seen.that(same_state(seen["after"], seen["wanted"]), not_saved)
        independent = same_state(seen["first after update"], seen["wanted"])
        seen.that(independent, "Two EMAs share their averages after load_state_dict.", stage="aliasing")
        goes_on = same_state(seen["next"], averaged(seen["wanted"], seen["model"], decay))
        seen.that(goes_on, "After load_state_dict, update() must go on from the averages that were loaded.")

    test("the state_dict goes into a new EMA of another model")
    judge_restored(observe_scenario(restored, EMA, "batch norm", 0.75), 0.75)

    ### BEGIN HIDDEN TESTS
    for idea, kind, decay, shifts in [
        ("decay 0: the average is the model", "batch norm", 0.0, [4.0, -2.0]),
        ("decay 1: the average stays", "batch norm", 1.0, [4.0, -2.0]),
        ("the default decay is 0.999", "batch norm", None, [400.0, -200.0]),
        ("many updates", "batch norm", 0.9, [4.0, -2.0, 1.0, 7.0, 3.0, 8.0]),
        ("names that differ in dots and underscores only", "alike", 0.75, [4.0, -2.0]),
        ("a weight with two names, a frozen parameter", "tied", 0.75, [4.0, -2.0]),
        ("a model that is a single layer", "flat", 0.75, [4.0, -2.0]),
    ]:
        test.hidden(idea)
        judge(observe_scenario(story, EMA, kind, decay, shifts), 0.999 if decay is None else decay)

    for kind in ("alike", "tied"):
        test.hidden("the state_dict, for models with special names")
        judge_restored(observe_scenario(restored, EMA, kind, 0.5), 0.5)
    ### END HIDDEN TESTS

# %% check="ema-weights" points=1
"""Casts and moves reach the averages; copy_to writes in place; training does not reach the EMA."""
with check("ema-weights") as test:

    def small_net(shift):
        """A layer and a batch norm; every entry depends on its place and on the shift."""
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        with torch.no_grad():
            for place, tensor in enumerate(net.state_dict().values()):
                numbers = torch.arange(tensor.numel()) * 7 % 11 / 4 + place / 2 + shift
                tensor.copy_(numbers.reshape(tensor.shape))
        return net

    def copies_of(state):
        """Copies of a dict of tensors; None for anything else."""
        if not isinstance(state, Mapping) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
            return None
        return {str(name): tensor.detach().clone() for name, tensor in state.items()}

    def same_values(came, state, tolerance=1e-5):
        """Whether two states agree in names and values."""
        return came.keys() == state.keys() and all(
            came[name].shape == state[name].shape
            and torch.allclose(came[name].double(), state[name].double(), rtol=tolerance, atol=tolerance)
            for name in state
        )

    def beside_training(answer):
        """A step of training after an update, with gradients on everywhere."""
        net = small_net(0.5)
        ema = answer(net, 0.75)
        ema.update(net)
        before = copies_of(ema.average())
        net(torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]])).square().sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
        graphs = [name for name, tensor in ema.average().items() if tensor.grad_fn is not None]
        filled = [name for name, parameter in ema.named_parameters() if parameter.grad is not None]
        return {"before": before, "after": copies_of(ema.average()), "graphs": graphs, "filled": filled}

    known = [
        mistake(
            "A buffer name must not contain a dot (KeyError): encode the dots and decode them in average().",
            raises="buffer name can",
        ),
        mistake(
            "Integer entries cannot be averaged: copy them.",
            raises="can't be cast to the desired output type Long|not implemented for 'Long'|dtype .*[lL]ong",
        ),
    ]

    test("training the model does not move the average")
    seen = observe_scenario(beside_training, EMA).expecting(*known)
    seen.that(seen["before"] is not None, "average() must return a dict from names to tensors.", stage="type")
    seen.that(
        same_values(seen["after"], seen["before"]),
        "The average follows the model exactly: it shares memory with the parameter. Clone at construction.",
        stage="aliasing",
    )
    seen.that(
        not seen["graphs"] and not seen["filled"],
        "The averages require grad (or grow a graph): update under no_grad, from detached values.",
        stage="gradient",
    )

    def copied(answer):
        """copy_to a model; then both go on."""
        net, target = small_net(0.5), small_net(9.0)
        objects = dict(target.named_parameters())
        buffers = dict(target.named_buffers())
        target[0].bias.requires_grad_(False)
        ema = answer(net, 0.75)
        moved = small_net(4.0)
        ema.update(moved)
        average = copies_of(ema.average())
        ema.copy_to(target)
        facts = {
            "average": average,
            "target": copies_of(target.state_dict()),
            "replaced": [name for name, p in target.named_parameters() if objects.get(name) is not p],
            "replaced buffers": [name for name, b in target.named_buffers() if buffers.get(name) is not b],
            "flags": [parameter.requires_grad for parameter in target.parameters()],
            "net": copies_of(net.state_dict()),
            "moved": copies_of(moved.state_dict()),
        }
        ema.update(moved)
        facts["target later"] = copies_of(target.state_dict())
        with torch.no_grad():
            for tensor in target.state_dict().values():
                tensor.add_(1)
        facts["average later"] = copies_of(ema.average())
        ema.copy_to(target)
        facts["target again"] = copies_of(target.state_dict())
        return facts

    test("copy_to writes the averages into a model, in place")
    seen = observe_scenario(copied, EMA).expecting(*known)
    seen.that(
        same_values(seen["target"], seen["average"]),
        "After copy_to the model must hold the averages, parameters and buffers.",
        mistake("copy_to wrote nothing.", when=lambda seen: float(seen["target"]["0.weight"][0, 0]) == 9.0),
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("copy_to keeps the model's objects and flags; then the two are independent")
    in_place = "copy_to must write in place; the model's parameter objects were replaced."
    seen.that(not seen["replaced"], in_place, stage="aliasing")
    seen.that(not seen["replaced buffers"], "copy_to must write in place; buffers were replaced.", stage="aliasing")
    seen.that(seen["flags"] == [True, False, True, True], "copy_to must leave requires_grad alone.", stage="gradient")
    seen.that(
        same_values(seen["target later"], seen["target"]),
        "After copy_to the model still shares memory with the averages: an update changes it.",
        stage="aliasing",
    )
    same = same_values(seen["target again"], seen["average later"])
    seen.that(same, "After copy_to the model and the EMA share memory: copy the values.", stage="aliasing")
    first = {name: tensor for name, tensor in seen["average later"].items() if tensor.is_floating_point()}
    wanted = {name: 0.75 * seen["average"][name] + 0.25 * seen["moved"][name] for name in first}
    alone = same_values(first, wanted)
    stands = same_values(first, {name: seen["average"][name] for name in first})
    still = mistake("update() did not move the averages.", when=lambda seen: stands)
    seen.that(alone, "After copy_to a change of the model reaches the averages.", still, stage="aliasing")

    def cast_and_moved(answer, ema_dtype, net_dtype):
        """Cast the EMA, go on updating from a model in another dtype, copy back; then move it to the meta device."""
        net = small_net(0.5).to(net_dtype)
        ema = answer(net, 0.75)
        ema.to(ema_dtype)
        start = copies_of(ema.average())
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(1 / 4)
        ema.update(net)
        average = copies_of(ema.average())
        now = copies_of(net.state_dict())
        ema.copy_to(net)
        back = copies_of(net.state_dict())
        ema.to("meta")
        devices = sorted({tensor.device.type for tensor in ema.average().values()})
        return {"start": start, "average": average, "model": now, "back": back, "devices": devices}

    not_moved = (
        "ema.state_dict() (or ema.to()) does not reach the averages: plain attributes and dicts are neither saved nor "
        "moved. Use buffers."
    )
    for ema_dtype, net_dtype in (
        (torch.float64, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float32),
    ):
        test.hidden("an EMA that is cast, and goes on from a model in another dtype")
        seen = observe_scenario(cast_and_moved, EMA, ema_dtype, net_dtype).expecting(
            *known,
            mistake(
                "After a cast of the EMA update() must go on, whatever the model's dtype: cast the current values.",
                stage="raised",
            ),
        )
        for key, dtype in (("start", ema_dtype), ("average", ema_dtype), ("back", net_dtype)):
            kinds = {tensor.dtype for tensor in seen[key].values()}
            kept = "update() must keep the dtype that the averages have." if key == "average" else not_moved
            kept = "copy_to must leave the model's dtypes alone." if key == "back" else kept
            seen.that(kinds == {dtype, torch.int64}, kept, stage="dtype")
        floating = [name for name, tensor in seen["start"].items() if tensor.is_floating_point()]
        wanted = {n: 0.75 * seen["start"][n].double() + 0.25 * seen["model"][n].double() for n in floating}
        tolerance = 2e-2 if ema_dtype == torch.bfloat16 else 1e-5
        exact = same_values({name: seen["average"][name] for name in floating}, wanted, tolerance)
        coarse = same_values({name: seen["average"][name] for name in floating}, wanted, 5e-2)
        seen.that(
            exact,
            "After a cast of the EMA an update gives something else than decay * average + (1 - decay) * current.",
            mistake(
                "The average is computed in the model's dtype and loses precision: compute in its own.",
                when=lambda seen, coarse=coarse: coarse,
            ),
        )
        seen.that(seen["devices"] == ["meta"], not_moved, stage="device")

    def many_small_steps(answer, decay, steps):
        """A float32 EMA of a bfloat16 model that stays where it is."""
        net = nn.Linear(2, 1, dtype=torch.bfloat16)
        with torch.no_grad():
            net.weight.fill_(1.0)
            net.bias.fill_(1.0)
        ema = answer(net, decay).float()
        with torch.no_grad():
            net.weight.fill_(1.0078125)
        for _ in range(steps):
            ema.update(net)
        return ema.average()["weight"].detach().clone()

    test.hidden("many small steps add up")
    expected = torch.full((1, 2), 1.0078125 - 0.0078125 * 0.99**50)
    observe_scenario(many_small_steps, EMA, 0.99, 50).returns(
        expected,
        mistake("Small steps are lost: compute in the dtype of the averages.", stage=("value", "dtype")),
        rtol=0,
        atol=1e-4,
    )
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 7.8 · Freeze batch norm so that it stays frozen
#
# fix · solid · 15 min · 2 points
#
# For fine-tuning on small batches the batch-norm layers of a pretrained model are to stay as they are. Somebody wrote
# this function, and yet the statistics drift from epoch to epoch. Repair it, for every model and for good.
#
# **Contract**
#
# - Freezes every batch-norm layer (BatchNorm1d, 2d, 3d and SyncBatchNorm) at any depth, the model itself included, and
#   returns how many there are.
# - A frozen layer never changes its running statistics and num_batches_tracked, and always normalises with the running
#   statistics, also after later calls of `train()` on the model or on any part of it. Its weight and bias have
#   requires_grad False. A layer without running statistics has none to keep; a layer without weight and bias is fine.
# - All other layers (also LayerNorm, InstanceNorm, Dropout) behave as before and still follow train() and eval().
# - Keys and values of the state_dict stay; a checkpoint can still be loaded, and is used. Calling twice is harmless.
#
# <details><summary>Hint 1</summary>
#
# Who undoes your eval() at the start of the next epoch? Does momentum=0 change what the layer divides by?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each frozen layer needs a way to refuse train mode: after calling eval() once, replace its `train` method on the
# instance by one that leaves the flag False (or use a forward pre-hook that sets it).
#
# </details>


# %% answer="freeze-batchnorm"
def freeze_batchnorm(model: nn.Module) -> int:
    """Freeze all batch-norm layers of a model, for good; return how many."""
    ### BEGIN SOLUTION
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.requires_grad_(False)
        layer.eval()
        layer.train = lambda mode=True, layer=layer: layer
    return len(layers)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # for m in model.children():
    #     if isinstance(m, nn.BatchNorm2d):
    #         m.requires_grad_(False)
    #         m.eval()
    ### END GIVEN


# %% check="freeze-batchnorm" points=2
"""Running statistics are used and kept, whoever calls train(); all other layers are as before."""
with check("freeze-batchnorm") as test:

    def small_net():
        """Three batch norms, one of them in a container, with statistics of their own; layer norm and dropout."""
        block = nn.Sequential(OrderedDict(leak=nn.LeakyReLU(0.5), mix=nn.Linear(2, 2), norm=nn.BatchNorm2d(2)))
        layers = {"mix": nn.Linear(3, 2), "norm": nn.BatchNorm2d(2, eps=0.25), "block": block}
        layers |= {"flat": nn.Flatten(), "last_norm": nn.BatchNorm1d(8), "layer_norm": nn.LayerNorm(8)}
        net = nn.Sequential(OrderedDict(layers, drop=nn.Dropout(0.5), head=nn.Linear(8, 2)))
        with torch.no_grad():
            for shift, (name, tensor) in enumerate(net.state_dict().items()):
                if "norm" in name and "layer_norm" not in name:
                    tensor.copy_((torch.arange(tensor.numel()) * 7 % 5 / 8 + shift / 4 + 0.5).reshape(tensor.shape))
        return net

    def copies_of(net):
        """Copies of all that is in the state_dict."""
        return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}

    def frozen_by(answer, net, times):
        """Freeze; the number that came back, and whether batch norms elsewhere are as they were."""
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        kinds += tuple(kinds[0].__mro__[1:-1])  # what they inherit from, nn.Module included
        kept = [(kind, dict(vars(kind))) for kind in kinds]
        bystander = nn.BatchNorm1d(2)
        x = torch.tensor([[3.0, 1.0], [5.0, -2.0]])
        try:
            for _ in range(times):
                count = answer(net)
            modes = [bystander.eval().training, bystander.train().training]
            bystander(x)
            moved = bool(bystander.running_mean.any()) and bystander.training
        finally:
            for kind, attributes in kept:
                for name in [name for name in vars(kind) if vars(kind)[name] is not attributes.get(name)]:
                    if name in attributes:
                        setattr(kind, name, attributes[name])
                    elif not name.startswith("__"):
                        delattr(kind, name)
        return count, modes == [False, True] and moved

    def woken(net, way):
        """Call train() in some way."""
        if way == "train":
            net.train()
        if way == "eval and train":
            net.eval()
            net.train(True)
        if way == "parts":
            for module in net.children():
                module.train()
            net.block.norm.train(True)
        if way == "apply":
            net.apply(lambda module: module.train())

    def story(answer, ways, times=1, loads=False):
        """Freeze; wake the layers and run, for each way; note what batch norms get and give, and all that changes."""
        net = small_net()
        before = copies_of(net)
        count, alone = frozen_by(answer, net, times)
        facts = {"count": count, "alone": alone, "before": before, "after freezing": copies_of(net), "steps": []}
        if loads:
            loaded = {n: t + 1 if "norm" in n else t for n, t in before.items()}
            net.load_state_dict(loaded)
            facts["before"] = facts["after freezing"] = loaded
        norms = {name: net.get_submodule(name) for name in ("norm", "block.norm", "last_norm")}
        for step, way in enumerate(ways):
            woken(net, way)
            passed = {}

            def noting(name, passed=passed):
                def note(module, args, output):
                    passed[name] = [args[0].detach().clone(), output.detach().clone()]

                return note

            handles = [module.register_forward_hook(noting(name)) for name, module in norms.items()]
            out = net(torch.arange(48.0).reshape(4, 2, 2, 3) * (7 + 4 * step) % 11 - 3 + step)
            for handle in handles:
                handle.remove()
            facts["steps"].append({"passed": passed, "state": copies_of(net)})
        out.square().sum().backward()
        named = dict(net.named_parameters())
        facts["flags"] = {name: parameter.requires_grad for name, parameter in named.items()}
        facts["no gradient"] = [n for n, p in named.items() if p.requires_grad and (p.grad is None or not p.grad.any())]
        facts["modes"] = {}
        for mode in (False, True):
            net.train(mode)
            others = [name for name, module in net.named_modules() if name not in norms and module.training != mode]
            facts["modes"][str(mode)] = others
        net.train()
        ones = torch.ones(1, 100)
        facts["drops"] = bool((net.drop(ones) == 0).any())
        net.eval()
        facts["drops in eval"] = bool((net.drop(ones) == 0).any())
        return facts

    def normalised(x, state, name):
        """What batch norm makes of x with the running statistics in a state."""
        shape = (1, -1) + (1,) * (x.dim() - 2)
        mean, var, weight, bias = (
            state[f"{name}.{key}"].reshape(shape) for key in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + (0.25 if name == "norm" else 1e-5)).sqrt() * weight + bias

    sentences = {
        "drift": "requires_grad=False freezes weight and bias only; the running statistics are buffers and are updated "
        "in every train-mode forward.",
        "thawed": "model.train() switched the layers back: eval() does not last. The layer must refuse train mode.",
        "batch": "The statistics no longer change, but the layer still normalises with those of the batch (momentum=0 "
        "or track_running_stats=False does that). It must use the running ones.",
        "children": "Nested layers were missed: walk modules().",
        "types": "Exactly the batch norms count: BatchNorm1d, 2d, 3d and SyncBatchNorm, but not InstanceNorm, which "
        "shares their base class.",
        "count": "Return the number of frozen batch-norm layers - those and no others.",
        "affine": "weight and bias of the frozen layers must have requires_grad=False.",
        "state": "The layers were replaced or their state changed: keys and values of state_dict must stay.",
        "others": "Other layers must still follow train() and eval(): only the batch norms are frozen.",
    }

    def same_state(came, state):
        """Whether two states agree, name by name."""
        return came.keys() == state.keys() and all(torch.equal(came[name], state[name]) for name in state)

    def drifted_in(step, before):
        """The layers whose running statistics have changed."""
        state = step["state"]
        names = [name for name in before if name.endswith(("running_mean", "running_var"))]
        return {
            name.rpartition(".")[0] for name in names if name in state and not torch.equal(state[name], before[name])
        }

    def judge(seen, *woken, first=()):
        """Judge state, outputs, statistics; mistakes in `woken` are for layers that came back to life."""
        before = seen["before"]
        elsewhere = "Batch norms of another model were frozen, too: change the layers of this model, not their class."
        seen.that(seen["alone"], elsewhere, stage="rule")
        seen.that(same_state(seen["after freezing"], before), sentences["state"])
        for step in seen["steps"]:
            drifted = drifted_in(step, before)
            wrong = {
                name
                for name, (x, out) in step["passed"].items()
                if not torch.allclose(out, normalised(x, before, name), rtol=1e-4, atol=1e-4)
            }
            alive = drifted | wrong
            seen.that(
                not alive,
                "Batch-norm layers do not normalise with their running statistics, or change them.",
                *first,
                mistake(sentences["children"], when=lambda seen, alive=alive: alive == {"block.norm"}),
                mistake(sentences["types"], when=lambda seen, alive=alive: "last_norm" in alive and len(alive) < 3),
                mistake(sentences["batch"], when=lambda seen, drifted=drifted: not drifted),
                *woken,
            )
        last = seen["steps"][-1]["state"]
        counters = [name for name in before if "tracked" in name and name in last]
        counted = any(int(last[name]) != int(before[name]) for name in counters)
        seen.that(not counted, "num_batches_tracked still counts: a frozen layer changes none of its buffers.")
        seen.that(same_state(last, before), sentences["state"])

    def judge_rest(seen):
        """Judge flags, gradients, modes and the number."""
        flags = seen["flags"]
        frozen = [name for name in flags if "norm." in name and "layer_norm" not in name]
        seen.that(not any(flags[name] for name in frozen), sentences["affine"], stage="gradient")
        kept = all(on for name, on in flags.items() if name not in frozen)
        seen.that(kept, "Only the batch norms are frozen: other parameters must still require grad.", stage="gradient")
        stuck = ", ".join(seen["no gradient"])
        seen.that(
            not stuck, f"No gradient reaches {stuck}: the layers before a frozen one are trained.", stage="gradient"
        )
        follow = not seen["modes"]["True"] and not seen["modes"]["False"]
        seen.that(follow, sentences["others"], stage="rule")
        seen.that(seen["drops"] and not seen["drops in eval"], sentences["others"], stage="rule")
        number = seen["count"]
        seen.that(type(number) is int and number == 3, sentences["count"])

    test("in train mode, right after freezing, the layers normalise with their running statistics")
    judge(
        observe_scenario(story, freeze_batchnorm, ["not at all"]),
        mistake(sentences["drift"], when=lambda seen: not any(on for n, on in seen["flags"].items() if "norm.w" in n)),
        mistake(sentences["drift"], when=lambda seen: not seen["flags"]["norm.weight"]),
    )

    test("the statistics stay after train(), a forward pass, train(), a forward pass; three layers are frozen")
    thawed = mistake(sentences["thawed"], stage="value")
    seen = observe_scenario(story, freeze_batchnorm, ["train", "train"])
    judge(seen, thawed)

    test("weight and bias don't require grad; all other parameters are trained; other layers follow train and eval")
    judge_rest(seen)

    ### BEGIN HIDDEN TESTS
    test.hidden("eval() and train() in turn, train() of the parts, train() by apply")
    seen = observe_scenario(story, freeze_batchnorm, ["eval and train", "parts", "apply"])
    judge(seen, thawed)
    judge_rest(seen)

    test.hidden("frozen twice")
    seen = observe_scenario(story, freeze_batchnorm, ["train"], 2)
    judge(seen, thawed)
    judge_rest(seen)

    test.hidden("a checkpoint is loaded after freezing")
    later = mistake("Frozen layers must use the statistics that a checkpoint brings.", stage="value")
    judge(observe_scenario(story, freeze_batchnorm, ["train"], 1, True), thawed, first=[later])

    def kinds_of_norm(answer):
        """Norm layers of all kinds beside each other."""
        layers = {
            "batch 1d": (nn.BatchNorm1d(2), (3, 2)),
            "batch 3d": (nn.BatchNorm3d(2), (3, 2, 2, 1, 2)),
            "sync": (nn.SyncBatchNorm(2), (3, 2, 4)),
            "instance": (nn.InstanceNorm1d(2, affine=True, track_running_stats=True), (3, 2, 4)),
            "instance 2d": (nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (3, 2, 2, 2)),
            "group": (nn.GroupNorm(1, 2), (3, 2)),
            "layer": (nn.LayerNorm(2), (3, 2)),
        }
        net = nn.ModuleDict({name: layer for name, (layer, _) in layers.items()})
        net["shared"] = net["batch 1d"]
        count = answer(net)
        net.train()
        facts = {"count": count, "drifted": [], "in train mode": [], "trained": []}
        for name, (_, shape) in layers.items():
            before = copies_of(net[name])
            out = net[name](torch.arange(math.prod(shape)).reshape(shape) * 7 % 11 + 1.0)
            if not same_state(copies_of(net[name]), before):
                facts["drifted"].append(name)
            if out.mean().abs() < 0.01:
                facts["in train mode"].append(name)
            facts["trained"] += [name for p in net[name].parameters(recurse=False) if p.requires_grad][:1]
        return facts

    test.hidden("batch norms of all kinds, and norms that are no batch norms")
    seen = observe_scenario(kinds_of_norm, freeze_batchnorm).expecting(
        mistake(sentences["types"], raises="SyncBatchNorm")
    )
    others = ["instance", "instance 2d", "group", "layer"]
    asleep = mistake(sentences["thawed"], when=lambda seen: {"batch 1d", "batch 3d", "sync"} <= {*seen["drifted"]})
    seen.that(seen["drifted"] == others[:2], sentences["types"], asleep)
    seen.that(seen["in train mode"] == others, sentences["types"])
    seen.that(seen["trained"] == others, sentences["types"], stage="gradient")
    seen.that(seen["count"] == 3, sentences["count"])

    def without_parts(answer):
        """A layer without weight and bias, and one without running statistics, in train mode."""
        net = nn.Sequential(nn.BatchNorm1d(2, affine=False), nn.BatchNorm1d(2, track_running_stats=False), nn.Tanh())
        count = answer(net)
        net.train()
        before = copies_of(net)
        out = net(torch.tensor([[3.0, 1.0], [5.0, -2.0], [4.0, 0.0]]))
        same = same_state(copies_of(net), before)
        return {
            "count": count,
            "same": same,
            "first": net[0](torch.full((2, 2), 7.0)),
            "finite": bool(out.isfinite().all()),
        }

    test.hidden("without weight and bias, without running statistics")
    seen = observe_scenario(without_parts, freeze_batchnorm).expecting(
        mistake("A layer may have no weight and bias, or no running statistics.", raises="NoneType|Attribute|Type")
    )
    seen.that(seen["count"] == 2, sentences["count"])
    seen.that(seen["same"] and seen["finite"], sentences["state"])
    seen.that(torch.allclose(seen["first"], torch.full((2, 2), 7.0), atol=1e-3), sentences["batch"])

    def single_sample(answer, mode):
        """One sample, in train mode; the model is itself a batch norm."""
        net = nn.BatchNorm1d(2)
        count = answer(net)
        net.train(mode)
        try:
            out = net(torch.tensor([[3.0, 1.0]])).detach().clone()
        except ValueError:  # batch norm in train mode needs more than one value per channel
            out = None
        return {"count": count, "out": out}

    test.hidden("a single sample in train mode; the model itself is a batch norm")
    seen = observe_scenario(single_sample, freeze_batchnorm, True)
    itself = mistake("The model itself may be a batch norm: modules() lists it.", when=lambda seen: seen["count"] == 0)
    seen.that(seen["count"] == 1, sentences["count"], itself)
    seen.that(seen["out"] is not None, sentences["thawed"])
    seen.that(torch.allclose(seen["out"], torch.tensor([[3.0, 1.0]]), atol=1e-3), sentences["batch"])

    def nothing_to_freeze(answer):
        """A model without batch norm."""
        net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2), nn.Dropout())
        count = answer(net)
        return {"count": count, "flags": all(p.requires_grad for p in net.parameters()), "mode": net[2].training}

    test.hidden("a model without batch norm: 0")
    seen = observe_scenario(nothing_to_freeze, freeze_batchnorm)
    seen.that(type(seen["count"]) is int and seen["count"] == 0, sentences["count"])
    seen.that(seen["flags"] and seen["mode"], sentences["others"], stage="rule")
    ### END HIDDEN TESTS

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

# %% [markdown]
# ### Exercise 7.9 · Stop, resume, and get the same numbers
#
# implement · long · 30 min · 3 points
#
# A training run is stopped in the night and goes on in the morning, in a new process. It should not matter: every
# number from then on should be the one that it would have been, to the last bit. Write the two functions that make it
# so.
#
# **Contract**
#
# - `save_checkpoint(path, …, epoch)` is called at the end of epoch `epoch`. Objects that are built anew (another seed,
#   the same classes) continue bit for bit after `load_checkpoint`: weights, Adam's moments, learning rate, dropout
#   masks and shuffling (torch's global CPU generator). Saving does not disturb the run that saves.
# - `load_checkpoint` returns the epoch to continue *with*, the saved one plus 1. Train/eval flags stay as they are, the
#   model's parameters stay the same objects, and the optimizer still holds them.
# - The file holds tensors and plain containers only: a bare `torch.load(path)` opens it where it was written.
#   `load_checkpoint` opens it anywhere, also where the GPU of the run that saved is missing: it loads to the CPU.
# - Saving is atomic. If it fails half way, the exception reaches the caller, a file that existed at `path` is still the
#   old, complete one, and no partial file stays in its folder.
# - Loading a file that does not exist raises FileNotFoundError before anything is changed.
#
# <details><summary>Hint 1</summary>
#
# List everything that the next step depends on. Which of these things live outside `model.state_dict()`? And what is in
# the file while torch.save is half way?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# One dict: three state_dicts, the epoch, `torch.get_rng_state()`. Write to a temporary name in the same folder, then
# `os.replace`; remove the temporary file if something fails. Load with `map_location="cpu"`, restore the three, and set
# the generator's state last.
#
# </details>


# %% answer="resumable-checkpoint"
def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    epoch: int,
) -> None:
    """Write all that the run needs to go on after epoch `epoch`, atomically."""
    ### BEGIN SOLUTION
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
        "rng": torch.get_rng_state(),
    }
    temporary = Path(f"{path}.{os.getpid()}.tmp")
    try:
        torch.save(checkpoint, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    ### END SOLUTION


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> int:
    """Bring model, optimizer, scheduler and generator into the saved state; return the epoch to continue with."""
    ### BEGIN SOLUTION
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["epoch"] + 1
    ### END SOLUTION


# %% check="resumable-checkpoint" points=2
"""Save, load into new objects, go on: bit for bit the run that was never stopped."""
with check("resumable-checkpoint") as test:

    def new_run(seed):
        """A model with dropout, Adam and a schedule, from a seed."""
        torch.default_generator.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.4), nn.Linear(6, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.125, foreach=False)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

    def epochs(run, number):
        """Some epochs of two shuffled batches each; the losses."""
        model, optimizer, scheduler = run
        x = torch.arange(12.0).reshape(4, 3) * 7 % 5 - 2
        losses = []
        for _ in range(number):
            for rows in torch.randperm(4).split(2):
                optimizer.zero_grad()
                loss = (model(x[rows]) - x[rows, :1]).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
            scheduler.step()
        return losses

    def state_of(run):
        """All that the next step depends on."""
        model, optimizer, scheduler = run
        moments = [state.get(key) for state in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq", "step")]
        return {
            "weights": [parameter.detach().clone() for parameter in model.parameters()],
            "moments": [moment.clone() for moment in moments if isinstance(moment, Tensor)],
            "rates": [[group["lr"] for group in optimizer.param_groups], scheduler.last_epoch],
            "generator": torch.get_rng_state(),
        }

    def story(save, load, stop, more, seed):
        """A run that saves and goes on; another one that loads and goes on from there; a third that does neither."""
        facts = {}
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.pt")
            run = new_run(1)
            epochs(run, stop)
            facts["saved"] = state_of(run)
            facts["save gave"] = type(save(path, *run, stop - 1)).__name__
            facts["files"] = sorted(os.listdir(folder))
            facts["went on"] = [epochs(run, more), state_of(run)]
            facts["is there"] = os.path.exists(path)
            if not facts["is there"]:
                return facts
            try:
                torch.load(path)
                facts["opens"] = "yes"
            except Exception as error:
                facts["opens"] = type(error).__name__
            other = new_run(seed)
            objects = [id(parameter) for parameter in other[0].parameters()]
            facts["epoch"] = load(path, *other)
            facts["loaded"] = state_of(other)
            held = [id(parameter) for group in other[1].param_groups for parameter in group["params"]]
            facts["holds"] = held == [id(parameter) for parameter in other[0].parameters()]
            facts["same objects"] = objects == [id(parameter) for parameter in other[0].parameters()]
            facts["resumed"] = [epochs(other, more), state_of(other)]
        straight = new_run(1)
        epochs(straight, stop)
        facts["straight"] = [epochs(straight, more), state_of(straight)]
        return facts

    def equal(came, wanted):
        """Whether two lists of tensors agree, bit for bit."""
        return len(came) == len(wanted) and all(torch.equal(a, b) for a, b in zip(came, wanted, strict=True))

    def same_end(came, wanted):
        """Whether two runs had the same losses and came to the same state."""
        return (
            came[0] == wanted[0]
            and all(equal(came[1][key], wanted[1][key]) for key in ("weights", "moments"))
            and came[1]["rates"] == wanted[1]["rates"]
            and torch.equal(came[1]["generator"], wanted[1]["generator"])
        )

    def judge(seen, stop):
        """Judge the run that was resumed, the file, the epoch, and the run that went on."""
        pickled = (
            "A bare torch.load(path) refuses the file ('Weights only load failed'): store state_dicts, not objects."
        )
        seen.expecting(
            mistake(pickled, raises="Weights only load failed|UnpicklingError"),
            mistake(
                "The optimizer or the scheduler got a state that is not one of its own: restore each from its "
                "state_dict.",
                raises="param_groups|KeyError",
            ),
        )
        seen.that(seen["is there"], "save_checkpoint wrote no file at `path`.")
        saved, loaded = seen["saved"], seen["loaded"]
        undisturbed = "Saving disturbed the run that saves: its numbers are others from then on."
        seen.that(
            same_end(seen["resumed"], seen["went on"]),
            "The run that was resumed does not continue as the one that was not stopped.",
            mistake(undisturbed, when=lambda seen: same_end(seen["resumed"], seen["straight"])),
            mistake(
                "After loading, the weights are not those that were saved.",
                when=lambda seen: not equal(loaded["weights"], saved["weights"]),
            ),
            mistake(
                "load_checkpoint must restore the objects that it is given: the optimizer holds other parameters now "
                "than the model.",
                when=lambda seen: not seen["holds"],
            ),
            mistake(
                "The run drifts after resuming although the weights are right: Adam's moments and step count are state "
                "too.",
                when=lambda seen: not equal(loaded["moments"], saved["moments"]),
            ),
            mistake(
                "The learning rate is not what it was: save the scheduler's state_dict as well.",
                when=lambda seen: loaded["rates"] != saved["rates"],
            ),
            mistake(
                "Dropout masks or the shuffle differ: torch's generator state was not saved, or restored before "
                "something else drew numbers.",
                when=lambda seen: not torch.equal(loaded["generator"], saved["generator"]),
            ),
        )
        seen.that(seen["opens"] == "yes", pickled, stage="raised")
        seen.that(
            type(seen["epoch"]) is int and seen["epoch"] == stop,
            "load_checkpoint must return the epoch to continue WITH (saved epoch + 1).",
        )
        seen.that(seen["holds"], "The optimizer must still hold the model's parameters.", stage="aliasing")
        seen.that(seen["same objects"], "The model's parameter objects were replaced.", stage="aliasing")
        seen.that(same_end(seen["went on"], seen["straight"]), undisturbed)
        stayed = "Next to the checkpoint another file stayed in its folder."
        seen.that(seen["files"] == ["run.pt"], stayed, stage="rule")

    test("3 epochs, save, load into new objects, 3 epochs: the same as 6 epochs, bit for bit")
    judge(observe_scenario(story, save_checkpoint, load_checkpoint, 3, 3, 5), 3)

    ### BEGIN HIDDEN TESTS
    test.hidden("another stopping point, another seed of the new objects")
    judge(observe_scenario(story, save_checkpoint, load_checkpoint, 1, 2, 11), 1)
    ### END HIDDEN TESTS

# %% check="resumable-checkpoint" points=1
"""Flags stay; pathlib; overwriting; a missing file; a save that fails half way leaves the old file."""
with check("resumable-checkpoint") as test:

    class Bomb:
        """An object that can't be pickled."""

        def __reduce__(self):
            raise OSError("no space left on device")

    class Extra(nn.Module):
        """A layer whose state_dict holds something more."""

        def __init__(self):
            super().__init__()
            self.layer, self.extra = nn.Linear(2, 1), None

        def get_extra_state(self):
            return {"extra": self.extra}

        def set_extra_state(self, state):
            self.extra = state["extra"]

    def new_run(shift=0.0):
        """A model, an optimizer and a schedule."""
        model = Extra()
        with torch.no_grad():
            model.layer.weight.fill_(1.5 + shift)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5 + shift, momentum=0.5)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def facts_of(run):
        """A few numbers of a run."""
        model, optimizer, scheduler = run
        return [model.layer.weight.tolist(), optimizer.param_groups[0]["lr"], scheduler.last_epoch, model.training]

    def saved_and_loaded(save, load, as_path, training):
        """Save twice to the same place and load; note what is there."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.pt" if as_path else f"{folder}/run.pt"
            run, other = new_run(), new_run(2.0)
            run[0].train(not training)
            other[0].train(training)
            save(path, *new_run(4.0), 3)
            save(path, *run, 7)
            facts = {"files": sorted(os.listdir(folder)), "run": facts_of(run)}
            facts["epoch"] = load(path, *other)
            return facts | {"other": facts_of(other)}

    test("a second checkpoint replaces the first; train/eval flags stay as they are")
    known = mistake(
        "A bare torch.load(path) refuses the file ('Weights only load failed'): store state_dicts, not objects.",
        raises="Weights only load failed|UnpicklingError|PicklingError",
    )
    for as_path, training in ((False, True), (True, False)):
        seen = observe_scenario(saved_and_loaded, save_checkpoint, load_checkpoint, as_path, training).expecting(
            known, mistake("A path may be a string or a pathlib.Path: {detail}.", raises="TypeError|AttributeError")
        )
        files = ", ".join(seen["files"])
        seen.that(seen["files"] == ["run.pt"], f"After two saves the folder should hold run.pt; it holds {files}.")
        seen.that(seen["other"][0] == seen["run"][0], "The second checkpoint is not what was loaded.")
        flags = seen["other"][3] == training and seen["run"][3] != training
        seen.that(flags, "Loading changed the train/eval flag.", stage="rule")
        seen.that(seen["epoch"] == 8, "load_checkpoint must return the epoch to continue WITH (saved epoch + 1).")

    def missing(save, load):
        """Load a file that does not exist."""
        with TemporaryDirectory() as folder:
            run = new_run()
            before, generator = facts_of(run), torch.get_rng_state()
            try:
                load(f"{folder}/nothing.pt", *run)
                raised = "nothing"
            except FileNotFoundError:
                raised = "FileNotFoundError"
            except Exception as error:
                raised = type(error).__name__
            same = facts_of(run) == before and torch.equal(torch.get_rng_state(), generator)
            return {"raised": raised, "same": same, "files": sorted(os.listdir(folder))}

    test("a missing file")
    seen = observe_scenario(missing, save_checkpoint, load_checkpoint)
    refused = "A missing file must raise FileNotFoundError."
    seen.that(seen["raised"] == "FileNotFoundError", refused, stage="raised")
    seen.that(seen["same"], "A missing file must raise before anything is changed.")
    seen.that(not seen["files"], "Loading a missing file must not make one.")

    ### BEGIN HIDDEN TESTS
    def from_elsewhere(save, load):
        """Save while tensors count as those of a device that is not there any more when the file is loaded."""

        def tag(storage):
            return "elsewhere:0"

        torch.serialization.register_package(0, tag, lambda storage, location: None)
        with TemporaryDirectory() as folder:
            path, run, other = f"{folder}/run.pt", new_run(), new_run(2.0)
            try:
                save(path, *run, 7)
            finally:
                registry = torch.serialization._package_registry
                registry[:] = [entry for entry in registry if entry[1] is not tag]
            return {"epoch": load(path, *other), "run": facts_of(run), "other": facts_of(other)}

    test.hidden("a file from a machine with a device that is missing here")
    seen = observe_scenario(from_elsewhere, save_checkpoint, load_checkpoint).expecting(
        mistake(
            "The file must load where the device is missing that it was written on: map_location='cpu'.",
            raises="restore data location|deserialize|device",
        )
    )
    seen.that(seen["other"] == seen["run"] and seen["epoch"] == 8, "The checkpoint is not what was loaded.")

    def fails_half_way(save, load, exists):
        """Save what can't be saved, perhaps onto a checkpoint that exists."""
        with TemporaryDirectory() as folder:
            path = f"{folder}/run.pt"
            run = new_run()
            if exists:
                save(path, *run, 3)
            before = Path(path).read_bytes() if exists else b""
            run[0].extra = Bomb()
            with torch.no_grad():
                run[0].layer.weight.fill_(9.0)
            try:
                save(path, *run, 4)
                raised = False
            except Exception:
                raised = True
            there = os.path.exists(path)
            now = Path(path).read_bytes() if there else b""
            return {"raised": raised, "there": there, "same": now == before, "files": sorted(os.listdir(folder))}

    not_atomic = (
        "After a failed save the old checkpoint is gone or damaged: write to a temporary file and os.replace it."
    )
    for exists in (True, False):
        test.hidden("a save that fails half way" if exists else "a first save that fails half way")
        seen = observe_scenario(fails_half_way, save_checkpoint, load_checkpoint, exists)
        seen.that(seen["there"] == exists, not_atomic if exists else "A failed save left a file.", stage="rule")
        seen.that(seen["same"], not_atomic, stage="rule")
        litter = "A partial temporary file was left behind after the failure."
        seen.that(seen["files"] == ["run.pt"] * exists, litter, stage="rule")
        seen.that(seen["raised"], "The exception of a failed save must reach the caller.", stage="raised")
    ### END HIDDEN TESTS

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
