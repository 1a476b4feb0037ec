# %% [markdown]
# # ONNX export
#
# With an ONNX file, a model runs without PyTorch and without your code. This chapter shows how to make the file, what
# is fixed in it forever, and how to find out whether it still computes what your model computes. After this chapter you
# can
#
# - export a model with the default exporter, with named dynamic dimensions, into one file;
# - run the file in onnxruntime without PyTorch, and pass it the right inputs;
# - say what is fixed in the graph (sizes, Python branches, loops), and rewrite a model so that it is not;
# - verify an export by numbers, for several sizes, and say what the checker and `verify=True` don't see;
# - find out which files must be deployed.
#
# You will also see how to give the exporter a translation for an operator that it doesn't know.
#
# **50 minutes to read, 138 minutes to practise, 20 points.** You need chapter 7: modules, `eval`, buffers; and from
# chapter 2 views and shapes. The packages onnx, onnxscript and onnxruntime must be installed. The first export takes a
# few seconds, and each later export less than a second.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import copy
import io
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor, nn

from torchkata.demos import error_of
from torchkata.exporting import export_warnings_of, quiet_exporter, refusal_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.export_way import export_way
from torchkata.pictures.onnx_graph import graph_picture
from torchkata.pictures.onnx_models import onnx_explorer
from torchkata.verdicts import (
    check,
    mistake,
    noting_events,
    observe_scenario,
    observe_value,
    separation,
)

quiet_exporter()

# %% [markdown]
# A model scores products by how much better each product is than the average of its batch. A single product keeps its
# score. We export the model for any number of rows, and it passes both tests that come with the tools. Then we use it.


# %%
class Relative(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0) if x.shape[0] > 1 else x


any_batch = {"dynamic_shapes": ({0: "batch"},)}  # dimension 0 may have any size (section 9.3)
example = (torch.randn(4, 3),)
relative_program = torch.onnx.export(Relative().eval(), example, **any_batch, verify=True)
onnx.checker.check_model(relative_program.model_proto)  # would raise
export = partial(torch.onnx.export, verbose=False)  # from here on, without the report


def session_of(program: torch.onnx.ONNXProgram) -> ort.InferenceSession:
    model = program.model_proto.SerializeToString()
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


session = session_of(relative_program)
for x in (torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]), torch.tensor([[1.0, 2.0, 3.0]])):
    (y,) = session.run(None, {"x": x.numpy()})
    print(f"{len(x)} rows: PyTorch  {Relative()(x).tolist()}")
    print(f"        the file {y.tolist()}")

# %% [markdown]
# For two rows the file is right. For a customer who sends one product it returns 0, with no error and no warning. By
# the end of this chapter you will see such a mistake in the model's code, find it in a file, and fix it.
#
# The picture shows how a model becomes a file. Keep an eye on the first arrow, because nearly all surprises of this
# chapter happen there.

# %%
export_way()

# %% [markdown]
# ## 9.1 A file that runs without PyTorch
#
# Why do you need a file at all? Because your model may have to run on a phone, in a browser, or on a server where you
# don't want to install PyTorch. An ONNX file contains a graph of standard operators, and the weights. A *runtime* reads
# the file and computes. Here the runtime is onnxruntime; there are others, for C++, browsers and phones.
#
# `torch.onnx.export` takes the model, an example of its inputs as a tuple, and a path. Below, we export a linear layer,
# and a second Python process reads the file.
#
# **Predict.** The second process has numpy and onnxruntime, but neither `linear` nor torch. Does it print the same
# numbers as this process, other numbers, or an error?

# %% facts=["09-onnx-framework-neutral"]
folder = tempfile.TemporaryDirectory()  # for the files of this chapter
linear_file = Path(folder.name) / "linear.onnx"

torch.manual_seed(0)
linear = nn.Linear(3, 2).eval()
names = {"input_names": ["x"], "output_names": ["y"]}
torch.onnx.export(linear, (torch.ones(1, 3),), linear_file, **names, verbose=False)

reader = """
import sys
import numpy as np
import onnxruntime as ort

session = ort.InferenceSession(sys.argv[1])
(y,) = session.run(None, {"x": np.ones((1, 3), dtype=np.float32)})
print("there:", [round(float(number), 4) for number in y[0]], end="  ")
print("torch is loaded:", "torch" in sys.modules)
"""
child = subprocess.run([sys.executable, "-c", reader, linear_file], capture_output=True, text=True)
print(child.stdout.strip())

print("here: ", [round(number, 4) for number in linear(torch.ones(1, 3))[0].tolist()])

# %% [markdown]
# It prints the same two numbers. The file contained everything that the other process needed: the operator `Gemm` (a
# matrix product plus a bias) and the two tensors `weight` and `bias`. The class, its `forward` and the optimizer are
# not in the file.
#
# Exporting needs more packages. Here is an export in a process that pretends not to have onnxscript:

# %% facts=["09-pip-install-onnx-enough"]
exporter = """
import sys
import torch

sys.modules["onnxscript"] = None  # as if it were not installed
try:
    torch.onnx.export(torch.nn.Linear(3, 2).eval(), (torch.ones(1, 3),), verbose=False)
except ModuleNotFoundError as error:
    print(type(error).__name__ + ":", error)
"""
child = subprocess.run([sys.executable, "-c", exporter], capture_output=True, text=True)
print(child.stdout.strip().splitlines()[0])

# %% [markdown]
# The exporter needs onnx and onnxscript, because the translations of the operators are written with them. To run the
# file, you need only onnxruntime.
#
# **Now you know.** The file contains the graph and the weights. Export with torch, onnx and onnxscript; run with
# onnxruntime.
#
# ## 9.2 What the exporter does
#
# The file can contain only what the exporter sees of your model. So let's put a spy into `forward`.
#
# **Predict.** `forward` below prints its input. What is printed during the export: the numbers, something else, or
# nothing?


# %% facts=["09-export-runs-the-model", "09-verbose-prints-graph"]
class Spy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        print("forward sees", x)
        return x * 2 + 1


spy = Spy().eval()
program = torch.onnx.export(spy, (torch.tensor([[1.0, 2.0, 3.0]]),), verbose=False)

print(type(program).__name__)
for line in onnx.printer.to_text(program.model_proto.graph).splitlines():
    print(fill(line, 90, subsequent_indent="    "))

# %% [markdown]
# It prints a FakeTensor. The default exporter passes your model to `torch.export`, which runs `forward` on
# *FakeTensors*: stand-ins that have a shape and a dtype, but no numbers. So the example input tells the exporter how
# large things are, not what is in them. The surprises of sections 9.3 and 9.7 follow from it.
#
# The result is an `ONNXProgram`. You can call it, save it or print it. `onnx.printer.to_text` prints the graph alone:
# its constants, 2 and 1, between `<` and `>`, and then its two nodes. (`verbose=True` reports progress and prints no
# graph; this chapter turns it off.)
#
# There is also an older exporter, `dynamo=False`, and much that is written about ONNX describes it:


# %% facts=["09-export-runs-the-model", "09-legacy-exporter-deprecated"] shows_warning="DeprecationWarning"
class Times2(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        seen.append(type(x).__name__)
        return x * 2


seen, returned = [], []
example = (torch.tensor([[1.0, 2.0, 3.0]]),)
old_export = partial(torch.onnx.export, Times2().eval(), example, io.BytesIO(), dynamo=False)
export_warnings_of(lambda: returned.append(old_export()))

print("forward saw a", seen[0])
print("returned:", returned[0])

# %% [markdown]
# The old exporter sees real numbers, because it runs the model on the example and records what happens. It returns
# nothing, and warns that it will be removed.
#
# The exporter also simplifies the graph. If the weights of one layer can do the work of the next layer, both become one
# node.
#
# **Predict.** Here is a small network in eval mode: convolution, batch norm (which now multiplies each channel by a
# fixed number and adds another), relu, flatten, linear layer. How many of these five will be nodes of the exported
# graph?

# %%
torch.manual_seed(0)
cnn = nn.Sequential(
    nn.Conv2d(1, 4, 3),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(144, 2),
)
for _ in range(3):
    cnn(torch.randn(16, 1, 8, 8) * 2 + 1)  # in train mode: batch norm collects its statistics
cnn.eval()

images = torch.randn(2, 1, 8, 8)
image_names = {"input_names": ["image"], "output_names": ["scores"]}

as_it_is = export(cnn, (images,), **image_names, **any_batch, optimize=False)
cnn_program = export(cnn, (images,), **image_names, **any_batch)

graph_picture(cnn_program.model_proto, "The network after the export")

# %% [markdown]
# Four of the five are nodes of the graph. `Reshape` flattens, `Gemm` is the linear layer, and batch norm is gone. A
# convolution also multiplies and adds for each channel, so the exporter *folds* the numbers of the batch norm into the
# convolution's weight and bias. With `optimize=False` it folds nothing:

# %%
for name, program in {"optimize=False": as_it_is, "as exported": cnn_program}.items():
    print(f"{name}:\n   ", " ".join(node.op_type for node in program.model_proto.graph.node))

# %% [markdown]
# (The nodes `Shape`, `Constant` and `Concat` compute the sizes for `Reshape`; the exporter simplifies them as well.) So
# the weights in the file may differ from those in your `state_dict`, and the file has no `running_mean`. The mode in
# which you export also matters:

# %% shows_warning="UserWarning"
with_dropout = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
programs = []
export_warnings_of(lambda: programs.append(export(with_dropout, (torch.ones(1, 3),))))
print("train mode:", " ".join(node.op_type for node in programs[0].model_proto.graph.node))

programs.append(export(with_dropout.eval(), (torch.ones(1, 3),)))
print("eval mode: ", " ".join(node.op_type for node in programs[1].model_proto.graph.node))

# %% [markdown]
# The mode is fixed during the export, because a file has no `train()` and no `eval()`. Call `eval()` first.
#
# **Now you know.** The exporter runs `forward` once, with shapes and without numbers, and simplifies what it recorded.
#
# ## 9.3 Fixed and dynamic sizes
#
# The most common complaint about an exported model is that it accepts one batch size and no other.

# %% facts=["09-dimensions-fixed-by-default"]
fixed = session_of(export(linear, (torch.ones(2, 3),), input_names=["x"]))
print("declared:", fixed.get_inputs()[0].shape)
error_of(lambda: fixed.run(None, {"x": np.ones((5, 3), np.float32)}))

# %% [markdown]
# Every dimension that you don't declare dynamic is fixed to the example's size. To declare dimensions, pass
# `dynamic_shapes`, with one entry for each input of `forward`: a dictionary from dimension to name. This is what
# `any_batch` contains.
#
# **Predict.** The next export gets an example with a single row, and `any_batch`. For how many rows does the file run?

# %% facts=["09-dimensions-fixed-by-default", "09-dynamic-axes"]
one_row = torch.ones(1, 3)
dynamic = session_of(export(linear, (one_row,), input_names=["x"], **any_batch))

print("declared:", dynamic.get_inputs()[0].shape, "->", dynamic.get_outputs()[0].shape)
for rows in (1, 5, 1000):
    (y,) = dynamic.run(None, {"x": np.ones((rows, 3), np.float32)})
    print(f"rows {rows:4}: result {y.shape}")

# %% [markdown]
# The file runs for any number of rows. The example's own size doesn't matter. The name `batch` is passed along the
# graph, so the output has it as well.
#
# Older code uses `dynamic_axes` instead. That still works, with two warnings:

# %% facts=["09-dynamic-axes"] shows_warning="DeprecationWarning"
axes = {"x": {0: "batch"}, "y": {0: "batch"}}
programs = []
export_warnings_of(lambda: programs.append(export(linear, (one_row,), **names, dynamic_axes=axes)))
print("declared:", session_of(programs[0]).get_inputs()[0].shape)

# %% [markdown]
# The next model itself fixes a size, with a loop over the steps, although we declare `time` dynamic. We export it
# twice: once `time` is a plain name, and once it is a `torch.export.Dim` object. One of the two ways fails, and the
# other does worse.


# %%
class Decay(nn.Module):
    """(N, T) -> (N): each step counts half as much as the one after it."""

    def forward(self, x: Tensor) -> Tensor:
        h = x[:, 0]
        for t in range(1, x.shape[1]):
            h = 0.5 * h + x[:, t]
        return h


def export_decay(batch, time) -> torch.onnx.ONNXProgram:
    shapes = ({0: batch, 1: time},)
    return export(Decay().eval(), (torch.ones(2, 5),), dynamic_shapes=shapes)


refusal_of(lambda: export_decay("batch", "time"))
surprise = export_decay(torch.export.Dim("batch"), torch.export.Dim("time"))
print("\nwith Dim objects:", session_of(surprise).get_inputs()[0].shape)

# %% [markdown]
# The exporter refuses the name: "tracing inferred a static shape of 5". With a `Dim` object the export succeeds, but
# the dimension is still 5, and there is no warning. Section 9.7 explains what fixed the size here and how to avoid it.
#
# A file also declares its outputs. Here is a GRU. `Dim.AUTO` lets the exporter find out which sizes can be dynamic, and
# the exporter makes up names for those. (With names of your own, torch 2.11 and 2.12 refuse this GRU, as they refuse
# the loop above.)

# %%
torch.manual_seed(0)
gru = nn.GRU(3, 4, batch_first=True).eval()
auto = torch.export.Dim.AUTO
with redirect_stderr(io.StringIO()):  # where torch complains about how nn.GRU stores its weights
    exported = export(gru, (torch.ones(2, 5, 3),), dynamic_shapes=({0: auto, 1: auto},))
session = session_of(exported)
put_in, taken_out = session.get_inputs()[0], session.get_outputs()[0]
print("declared:", put_in.shape, "->", taken_out.shape)

x = torch.randn(1, 12, 3)
out = session.run([taken_out.name], {put_in.name: x.numpy()})[0]
print("12 steps:", out.shape, " as in PyTorch:", np.allclose(out, gru(x)[0].detach(), atol=1e-5))

# %% [markdown]
# The input's first two sizes are dynamic, and the file computes all twelve steps correctly. But it declares an output
# of 5 steps, the length of the example, so a program that allocates memory by the declared shape would allocate too
# little.
#
# **Now you know.** Declare sizes with names. After each export, print the shapes of `session.get_inputs()` *and* of
# `session.get_outputs()`, because they may differ from what you declared.
#
# ## 9.4 Run the file
#
# A runtime is stricter than PyTorch. This model has two inputs and two outputs. Ask the session what it expects:


# %% facts=["09-session-run-returns-list"]
class PickRows(nn.Module):
    def forward(self, x: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
        return x[idx], x.mean(0)


examples = (torch.ones(4, 3), torch.tensor([0, 1]))
shapes = ({0: "rows"}, {0: "picks"})
picker = session_of(export(PickRows().eval(), examples, dynamic_shapes=shapes))

for put_in in picker.get_inputs():
    print("in: ", put_in.name, put_in.type, put_in.shape)
for taken_out in picker.get_outputs():
    print("out:", taken_out.name, taken_out.type, taken_out.shape)

x, idx = np.arange(15, dtype=np.float32).reshape(5, 3), np.array([4, 0, 4])
outputs = picker.run(None, {"x": x, "idx": idx})
print(type(outputs).__name__, "of", [type(output).__name__ for output in outputs])
print([output.tolist() for output in outputs])

# %% [markdown]
# You pass `run` a dictionary from names to NumPy arrays and get a list of arrays; `None` asks for all outputs. An input
# has the name of `forward`'s argument, unless `input_names` says otherwise. The exporter invents the names of outputs.
#
# **Predict.** Here are four calls, each with one mistake. Which does the runtime refuse, and does it silently convert
# any input?

# %% facts=["09-session-run-returns-list"]
error_of(lambda: picker.run(None, {"input": x, "idx": idx}))
error_of(lambda: picker.run(None, {"x": x.astype(np.float64), "idx": idx}))
error_of(lambda: picker.run(None, {"x": torch.from_numpy(x), "idx": idx}))
error_of(lambda: picker.run(None, {"x": x[:, :2], "idx": idx}))

# %% [markdown]
# It refuses all four. The runtime casts nothing, not even int32 to int64; it accepts only arrays, and compares every
# fixed dimension with the declared size. The float64 case is the most common, because `np.ones(3)` and `np.array([0.5,
# 1.5])` are float64. To make an array from a tensor, call `tensor.numpy(force=True)`; it also works if the tensor
# requires grad or is on another device.
#
# **Now you know.** Don't guess. `get_inputs()` tells you names, types and shapes.

# %% exercise="run-session"

# %% [markdown]
# ## 9.5 Files and weights
#
# The model works on your machine, but doesn't load on the server. How many files did you copy?
#
# **Predict.** We export a network with 10,403 parameters (4 bytes each). How many files does a default export write,
# and which is the largest?

# %% facts=["09-file-holds-graph-and-weights"]
torch.manual_seed(0)
mlp = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 3)).eval()
mlp_program = export(mlp, (torch.ones(1, 100),), **any_batch)

place = Path(folder.name) / "deploy"
for way, external in (("default", True), ("external_data=False", False)):
    (place / way).mkdir(parents=True, exist_ok=True)
    mlp_program.save(place / way / "mlp.onnx", external_data=external)
    print(way)
    for file in sorted((place / way).iterdir()):
        print(f"    {file.name:14} {file.stat().st_size // 1000:3} kB")

# %% [markdown]
# By default it writes two files, and the second is by far the larger. With `external_data=True`, the default (also of
# `torch.onnx.export` with a path), larger weights go into a second file, `<name>.onnx.data`, because a file in
# protobuf, the format of ONNX, can't be larger than 2 GiB. Small weights stay inside. ONNX calls a stored weight an
# *initializer*:

# %% facts=["09-file-holds-graph-and-weights"]
deployed = place / "default" / "mlp.onnx"
proto = onnx.load(deployed, load_external_data=False)
for tensor in proto.graph.initializer:
    elsewhere = {entry.key: entry.value for entry in tensor.external_data}
    print(
        f"{tensor.name:9} {list(tensor.dims)!s:11}",
        elsewhere or f"{len(tensor.raw_data)} bytes inside",
    )

# %% [markdown]
# Suppose the server has only `mlp.onnx`, because somebody forgot the second file.

# %% facts=["09-file-holds-graph-and-weights"]
deployed.with_name("mlp.onnx.data").unlink(missing_ok=True)

error_of(lambda: onnx.load(deployed), lines=0)  # (the message names the missing file)
error_of(lambda: ort.InferenceSession(deployed), lines=0)
graph_alone = onnx.load(deployed, load_external_data=False)
print("without its weights:", len(graph_alone.graph.node), "nodes")

# %% [markdown]
# You get an error as soon as you load the model. The model refers to the second file by its name, so you must not
# rename that file either.
#
# **Now you know.** Deploy both files together under their original names, or write a single file with
# `external_data=False`.

# %% exercise="export-dynamic-batch"

# %% exercise="where-are-the-weights"

# %% [markdown]
# ## 9.6 The same function?
#
# The file at the start of this chapter passed two tests and was wrong. What do such tests look at? In one copy of a
# file we change a weight by 0.05. In another, a node asks for an input that no other node computes.
#
# **Predict.** Does `onnx.checker` reject the first copy, the second, or both?

# %% facts=["09-onnx-load-and-check"]
spoiled = onnx.ModelProto()
spoiled.CopyFrom(cnn_program.model_proto)
kernel = spoiled.graph.initializer[0]
numbers = onnx.numpy_helper.to_array(kernel).copy()
numbers.flat[0] += 0.05
kernel.CopyFrom(onnx.numpy_helper.from_array(numbers, kernel.name))
print("a changed weight:", onnx.checker.check_model(spoiled))

broken = onnx.ModelProto()
broken.CopyFrom(cnn_program.model_proto)
broken.graph.node[0].input[0] = "nobody"
error_of(lambda: onnx.checker.check_model(broken))

# %% [markdown]
# It rejects only the second. `check_model` returns None if it finds no problem. It checks the structure: known
# operators, legal attributes, and every input computed somewhere. It doesn't check numbers.
#
# `verify=True` does check numbers. It runs the file and the model on the example of the export, and on nothing else.
# The example at the start of the chapter had four rows.
#
# So compare numbers yourself, on inputs that were not used in the export:

# %% facts=["09-compare-with-pytorch"]
exported = session_of(cnn_program)
altered = ort.InferenceSession(spoiled.SerializeToString(), providers=["CPUExecutionProvider"])


def agrees(session: ort.InferenceSession, model: nn.Module, x: Tensor) -> bool:
    with torch.no_grad():
        expected = model(x).numpy()
    (out,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return out.shape == expected.shape and np.allclose(out, expected, rtol=1e-3, atol=1e-5)


torch.manual_seed(1)
for number in (1, 3, 7):
    batch = torch.randn(number, 1, 8, 8)
    first, second = agrees(exported, cnn, batch), agrees(altered, cnn, batch)
    print(f"images {number}: exported {first}, changed {second}")

print("against train mode:", agrees(exported, copy.deepcopy(cnn).train(), batch))

# %% [markdown]
# The numbers are nearly equal, not bit for bit: two runtimes add in different orders and fold different operations, so
# the last digits differ. Usual tolerances for float32 are `rtol=1e-3` and `atol=1e-5`. Four things make the test
# strong: eval mode, inputs other than the example, sizes other than the example's (including 1), and shapes compared
# before numbers, because NumPy broadcasts. With `agrees`, one line finds the mistake from the start of the chapter:

# %%
for rows in (4, 2, 1):
    print(f"rows {rows}: {agrees(session_of(relative_program), Relative(), torch.randn(rows, 3))}")

# %% [markdown]
# **Now you know.** The checker checks the structure, and `verify=True` compares one example. To find a wrong file, you
# need other sizes and other numbers.

# %% exercise="verify-export"

# %% [markdown]
# ## 9.7 Python that gets baked in
#
# The exporter sees shapes but no numbers, and it sees them once. So what happens to `if` and `for`? The answer explains
# the model at the start of this chapter.
#
# **Predict.** `x * 2 if x.shape[0] > 2 else x * 3` is exported with 4 rows and a dynamic batch. What do PyTorch and
# onnxruntime return for ones with 1, 2 and 3 rows?


# %%
class BranchOnShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 2 else x * 3


def export_by_batch(model: nn.Module, example: Tensor) -> torch.onnx.ONNXProgram:
    return export(model.eval(), (example,), **any_batch)


branch = BranchOnShape()
branch_program = export_by_batch(branch, torch.ones(4, 1))
session = session_of(branch_program)

for rows in (1, 2, 3):
    x = torch.ones(rows, 1)
    (out,) = session.run(None, {"x": x.numpy()})
    print(f"rows {rows}: PyTorch {branch(x)[0].item()}, onnxruntime {out[0].item()}")
print("nodes:", " ".join(node.op_type for node in branch_program.model_proto.graph.node))

captured = branch_program.exported_program  # what torch.export recorded: the picture's first arrow
print(captured.graph_module.code.strip())
print("rows for which this holds:", *captured.range_constraints.values())

# %% [markdown]
# A branch on a *shape* is decided during the export, silently. 4 > 2, so the graph has only `x * 2`. For 1 and 2 rows
# the result is wrong, and there is no warning.
#
# The last lines show where this happened. `torch.export` recorded a program without a branch, and noted that the
# program is valid from 3 rows on. The file has the program but not the note. So look at `range_constraints` after an
# export, and compare the file with the model for other sizes.
#
# A branch on a *value*, `if x.sum() > 0`, behaves differently:


# %%
class BranchOnValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x * 3


refusal_of(lambda: export_by_batch(BranchOnValue(), torch.ones(4, 1)), lines=1)

# %% [markdown]
# The exporter refuses it. A FakeTensor has no values, so the exporter can't know whether the sum is positive, and it
# raises `GuardOnDataDependentSymNode`. An error is better than a wrong result.
#
# There are two ways to write a decision that is made for each input. Compare their graphs.


# %%
class ByWhere(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.sum() > 0, x * 2, x * 3)


class ByCond(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))


for model in (ByWhere(), ByCond()):
    program = export_by_batch(model, torch.ones(4, 1))
    session = session_of(program)
    inputs = [{"x": np.full((1, 1), value, np.float32)} for value in (1, -1)]
    results = [session.run(None, feed)[0].item() for feed in inputs]
    print(f"{type(model).__name__:8} 1 -> {results[0]}, -1 -> {results[1]}  ", end="")
    print(" ".join(node.op_type for node in program.model_proto.graph.node))

# %% [markdown]
# `torch.where` computes both results and selects. `torch.cond` becomes an `If` node with two small graphs, of which
# only one runs. `where` is simple and fast; `cond` is worth it if a branch is expensive.
#
# **Change it.** How would you write `Relative` so that its file is also right for one row? The condition of `where`
# must be a tensor. Where do you get a tensor that contains the number of rows?


# %%
class RelativeByTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = torch.ones_like(x[:, 0]).sum()
        return torch.where(rows > 1, x - x.mean(0), x)


corrected = export_by_batch(RelativeByTensor(), torch.randn(4, 3))
for rows in (4, 2, 1):
    print(f"rows {rows}: {agrees(session_of(corrected), Relative(), torch.randn(rows, 3))}")
print("nodes:", " ".join(node.op_type for node in corrected.model_proto.graph.node))

# %% [markdown]
# You get it by adding up as many ones as there are rows. The file computes this sum, and decides with it. Plain
# arithmetic with a size would also be safe, because the exporter records it with a symbol instead of the number. Only a
# Python *decision* about a size is baked in.
#
# Now let's look at loops. The loop in section 9.3 fixed the number of steps. Here is what the exporter made of it, for
# the five steps of the example:

# %%
print(" ".join(node.op_type for node in surprise.model_proto.graph.node))

# %% [markdown]
# The loop is gone; the graph has its iterations one after the other.
#
# **By hand.** `Decay` is a sum in which `x[:, s]` has the weight 0.5 to the power of T - 1 - s. Check that for T = 3.
# How would you write it without a loop, so that `time` may be dynamic?


# %% facts=["09-no-inplace-on-shape"]
class DecayBySum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        lag = x.shape[1] - 1 - torch.arange(x.shape[1], device=x.device)
        return (x * 0.5**lag).sum(1)


free = export(DecayBySum().eval(), (torch.ones(2, 5),), dynamic_shapes=({0: "batch", 1: "time"},))
session = session_of(free)
print("declared:", session.get_inputs()[0].shape)

for size in ((2, 5), (1, 1), (3, 12)):
    x = torch.randn(size, generator=torch.Generator().manual_seed(0))
    (out,) = session.run(None, {"x": x.numpy()})
    print(size, "agrees with the loop:", np.allclose(out, Decay()(x).numpy(), atol=1e-5))

# %% [markdown]
# With tensors instead of a loop, the number of steps stays a symbol: `torch.arange(x.shape[1])` becomes a `Range` node
# that reads the size at run time. If every step is linear, you can compute all steps at once, even where each depends
# on the one before it.
#
# You can't write a recurrent step as a sum if it isn't linear. ONNX has operators for `nn.GRU` and `nn.LSTM`. For a
# step that you wrote yourself there is `scan`, which takes the step as a function and calls it once for each time step:


# %%
from torch._higher_order_ops.scan import scan


class Recurrent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def step(h: Tensor, x_t: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(h + x_t)
            return h, h.clone()  # what the next step gets, and what is collected

        return scan(step, torch.zeros_like(x[:, 0]), x, dim=1)[0]


both = {"dynamic_shapes": ({0: "batch", 1: "time"},)}
program = export(Recurrent().eval(), (torch.ones(2, 5),), **both)
print(" ".join(node.op_type for node in program.model_proto.graph.node))
session = session_of(program)
for size in ((2, 5), (1, 1), (3, 12)):
    x, h = torch.randn(size), torch.zeros(size[0])
    for t in range(size[1]):
        h = torch.tanh(h + x[:, t])
    (out,) = session.run(None, {"x": x.numpy()})
    print(size, "agrees with the loop:", np.allclose(out, h.numpy(), atol=1e-5))

# %% [markdown]
# The loop has become a `Scan` node that contains the step as a small graph, and the file runs for any number of steps.
# In torch 2.13, `scan` is a prototype in a private module, so its name may change. In 2.12 it stacks the second
# result in dimension 0, whatever `dim` says, and its gradients are wrong.
#
# Not every function works with a dynamic size. Here is `torch.linspace(0, 1, x.shape[1])`, with `time` dynamic:


# %%
class Ramp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.linspace(0, 1, x.shape[1])


refusal_of(lambda: export(Ramp().eval(), (torch.ones(4, 5),), dynamic_shapes=({1: "time"},)))

# %% [markdown]
# You get the same message as for the loop: `linspace` needs a plain number, so the 5 was fixed. And a number that you
# write yourself, as in `x.view(4, -1)`, is exported just as you wrote it. With 8 rows you still get 4, as in PyTorch.
# Take sizes from `x.shape`, or let -1 be the batch.
#
# NumPy inside `forward` is a trap of the older exporter. Below, both exporters export `x * np.exp(x)`.


# %% facts=["09-avoid-numpy-in-model"] shows_warning="DeprecationWarning"
class UsesNumpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.from_numpy(np.exp(x.detach().numpy()))


old_file = io.BytesIO()
old_export = partial(export, UsesNumpy().eval(), (torch.ones(1, 3),), old_file, dynamo=False)
export_warnings_of(partial(old_export, input_names=["x"]))
old = onnx.load_from_string(old_file.getvalue())
new = export_by_batch(UsesNumpy(), torch.ones(1, 3)).model_proto

for name, model in (("old", old), ("new", new)):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (out,) = session.run(None, {"x": np.full((1, 3), 2.0, np.float32)})
    nodes = " ".join(node.op_type for node in model.graph.node)
    print(f"{name}: {nodes:13} f(2) = {out[0, 0]:.3f}")
print(f"PyTorch:           f(2) = {UsesNumpy()(torch.full((1, 3), 2.0))[0, 0]:.3f}")

# %% [markdown]
# For the old exporter the result of NumPy was a constant, so it kept exp(1) from the example. The new exporter
# translates plain NumPy calls. Torch operations are still the safer choice.
#
# Here is everything in one table:
#
# | in `forward` | during the export | at run time |
# |---|---|---|
# | `if x.shape[0] > 2` | decided, silently | one branch is left, for all sizes |
# | `if x.sum() > 0` | refused | |
# | `for t in range(x.shape[1])` | unrolled, and the size is fixed | always as many steps |
# | `x.view(4, -1)` | kept as it is | always 4 |
# | `torch.where`, `torch.cond` | recorded | decided for each input |
# | `scan` | recorded, with the step as a graph | as many steps as the input has |
# | `x.shape[0] - 1`, `torch.arange(x.shape[1])` | recorded, with a symbol | follows the size |
#
# The explorer puts it together. Choose a model, declare dimensions dynamic, and watch a name move along the edges. Then
# move the size sliders in *run*, and compare PyTorch with onnxruntime. It opens with the branch on a shape, at 2 rows.

# %%
onnx_explorer()

# %% [markdown]
# **Now you know.** The exporter knows the shapes of one example, and no values. It makes Python decisions during the
# export, and only tensors can decide at run time. (`torch.compile` reads Python in the same way, but it can come back:
# it checks its assumptions at each call and compiles again. See [chapter 14](../14_compile/compile.ipynb).)

# %% exercise="exports-apart"

# %% exercise="verify-passed"

# %% exercise="baked-batch"

# %% exercise="branch-on-data"

# %% exercise="loop-over-time"

# %% [markdown]
# ## 9.8 Operators, translations, versions
#
# PyTorch has more than 1,500 operators, ONNX about 200. Sooner or later your model uses an operator that ONNX doesn't
# have, such as `cummax`, the largest value so far.


# %%
class SoFar(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = x.cummax(1)
        return values, indices


by_both = {"dynamic_shapes": ({0: "batch", 1: "time"},)}
refusal_of(lambda: export(SoFar().eval(), (torch.ones(2, 5),), **by_both), lines=1)

# %% [markdown]
# The capture (step 1) succeeded, and so did step 2, which splits large operators into smaller ones. The translation
# (step 3) found nothing for `aten.cummax.default`. You can write the model with other operators, or pass your own
# translation: a function with the operator's arguments, which builds ONNX nodes with onnxscript.
#
# **By hand.** The translation below makes a table with one row for each step. For T steps, how many numbers does the
# table have?


# %%
from onnxscript import opset18 as op


def cummax(x, dim: int):
    """The largest value so far along dim, and its index; for the last dimension of x."""
    steps = op.Shape(x, start=-1)
    square = op.Expand(op.Constant(value_float=1.0), op.Concat(steps, steps, axis=0))
    # row t: the steps 0 … t
    up_to_now = op.Cast(op.Trilu(square, upper=0), to=onnx.TensorProto.BOOL)
    table = op.Where(up_to_now, op.Unsqueeze(x, [-2]), op.Constant(value_float=float("-inf")))
    largest = op.ReduceMax(table, [-1], keepdims=0)
    return largest, op.ArgMax(table, axis=-1, keepdims=0, select_last_index=1)


translated = export(
    SoFar().eval(),
    (torch.ones(2, 5),),
    **by_both,
    custom_translation_table={torch.ops.aten.cummax.default: cummax},
)
session = session_of(translated)
print(" ".join(node.op_type for node in translated.model_proto.graph.node))

for size in ((2, 5), (1, 1), (3, 40)):
    x = torch.randint(9, size, generator=torch.Generator().manual_seed(0)).float()
    outputs = session.run(None, {"x": x.numpy()})
    pairs = zip(outputs, x.cummax(1), strict=True)
    same = all(np.array_equal(out, wanted.numpy()) for out, wanted in pairs)
    print(size, "values and indices as in PyTorch:", same)

# %% [markdown]
# It has T times T numbers for each row of x. That is correct, but expensive for long sequences. Ties matter, because
# PyTorch returns the *last* index of the maximum and `ArgMax` by default the first. A translation is a second
# implementation, so test it like one. The same table also takes operators that you registered yourself with
# `torch.library.custom_op`.
#
# The operators of ONNX come in numbered sets, called *opsets*. Here we export the same model, `gelu`, for opset 13, for
# 18 and for the default.

# %%
gelu = nn.GELU().eval()
row = torch.linspace(-2, 2, 5).view(1, 5)

for version in (13, 18, None):
    program = export(gelu, (row,), opset_version=version)
    graph = program.model_proto.graph
    (opset,) = [entry.version for entry in program.model_proto.opset_import if entry.domain == ""]
    (out,) = session_of(program).run(None, {"input": row.numpy()})
    nodes = " ".join(node.op_type for node in graph.node)
    same = np.allclose(out, gelu(row).numpy(), atol=1e-6)
    print(f"asked for {version!s:5} opset {opset}: {nodes:20} as in PyTorch: {same}")

# %% [markdown]
# `Gelu` exists since opset 20, the default of torch 2.13; for 18, the exporter writes it out with other operators. A
# file states which opset it needs, and a runtime states which opsets it knows. If an old runtime must read the file,
# ask for a lower number, and look at what you got. We asked for 13, but the file says 18: the translations are written
# in 18, and the conversion down to 13 failed. The only sign is a line in a log (which this chapter's setup cell keeps
# off the screen).
#
# **Now you know.** If an operator is missing, you can write its translation. Read the opset from the file, not from
# your call.
#
# ## On a GPU
#
# An ONNX file says nothing about devices; the session chooses them. `providers` lists, in order, the devices that it
# may use. For a CUDA device the package is onnxruntime-gpu. The cell times the exported network there; without a GPU it
# prints one line. No exercise needs it. (`run` copies each array to the device and each result back.
# `session.io_binding()` keeps them there.)


# %% varies="a CUDA device changes what is shown"
def microseconds(function) -> float:
    """The best of five rounds."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(20):
            function()
        best = min(best, (time.perf_counter() - start) / 20)
    return best * 1e6


@cuda_demo("09_onnx_export")
def on_cuda() -> None:
    """Run the exported network on the GPU if onnxruntime can, and time both runtimes."""
    print("providers:", ", ".join(ort.get_available_providers()))
    model = copy.deepcopy(cnn).cuda()
    session = None
    if "CUDAExecutionProvider" in ort.get_available_providers():
        providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
        exported = cnn_program.model_proto.SerializeToString()
        session = ort.InferenceSession(exported, providers=providers)

    def eager(batch: Tensor) -> None:
        with torch.inference_mode():
            model(batch)
        torch.cuda.synchronize()

    for number in (1, 256, 4096):
        batch = torch.randn(number, 1, 8, 8)
        on_device = batch.cuda()
        eager(on_device)
        used = microseconds(lambda on_device=on_device: eager(on_device))
        line = f"images {number:4}: PyTorch {used:6.0f} µs"
        if session is not None:
            array = batch.numpy()
            session.run(None, {"image": array})
            used = microseconds(lambda array=array: session.run(None, {"image": array}))
            line += f", onnxruntime {used:6.0f} µs with both copies"
        print(line)


on_cuda()

# %% [markdown]
# ## Folklore, checked
#
# These are common beliefs about exporting and what we found. Each row unfolds a proof: a few lines that run without an
# error only if the statement on the right is true.

# %%
folklore("09_onnx_export")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("09-avoid-tensor-data-in-model")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [`torch.onnx`](https://docs.pytorch.org/docs/stable/onnx.html), and there [torch.export-based ONNX
#   Exporter](https://docs.pytorch.org/docs/stable/onnx_export.html): all arguments of `torch.onnx.export`, and
#   `ONNXProgram`;
# - [`torch.export`](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/export.html), with [Expressing
#   Dynamism](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/export.html#expressing-dynamism) and
#   [Limitations of
#   torch.export](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/export.html#limitations-of-torch-export):
#   what can be captured, and how shapes are declared;
# - [`torch.cond`](https://docs.pytorch.org/docs/stable/generated/torch.cond.html): a branch on values that survives the
#   export;
# - the tutorials [Introduction to ONNX](https://docs.pytorch.org/tutorials/beginner/onnx/intro_onnx.html), [Extending
#   the ONNX Exporter Operator Support](https://docs.pytorch.org/tutorials/beginner/onnx/onnx_registry_tutorial.html)
#   and [Export a model with control flow to
#   ONNX](https://docs.pytorch.org/tutorials/beginner/onnx/export_control_flow_model_to_onnx_tutorial.html).
#
# Elsewhere: [ONNX Operators](https://onnx.ai/onnx/operators/), the list with the opset in which each operator appeared;
# onnxruntime's [Python API](https://onnxruntime.ai/docs/api/python/api_summary.html); and the viewer
# [Netron](https://netron.app), which draws any `.onnx` file.
#
# **Next:** chapter 10, [Several devices, several processes](../10_multi_gpu/multi_gpu.ipynb).
