# %% [markdown]
# # ONNX export
#
# A model as a file that runs without PyTorch and without your code: how it is made, what is fixed in it for ever, and
# how you find out whether it is still the same function. After this chapter you can
#
# - export a model with the default exporter, with named dynamic dimensions, into one file;
# - run the file in onnxruntime without PyTorch, and feed it correctly;
# - say what is fixed in the graph (sizes, Python branches, loops), and rewrite a model so that it is not;
# - verify an export by numbers, for several sizes, and say what the checker does not check;
# - find out which files must be deployed;
# - give the exporter a translation for an operator that it does not know.
#
# **40 minutes to read, 129 minutes to practise, 20 points.** You need chapter 7: modules, `eval`, buffers; and from
# chapter 2 views and shapes. The packages onnx, onnxscript and onnxruntime must be installed. The first export takes
# a few seconds, each later one less than one.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

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
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnxscript import opset18 as op
from torch import Tensor, nn

from torchkata.demos import error_of
from torchkata.exporting import export_warnings_of, quiet_exporter, refusal_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.onnx_graph import graph_picture
from torchkata.pictures.onnx_models import onnx_explorer
from torchkata.verdicts import (
    check,
    mistake,
    observe_scenario,
    observe_value,
    prediction,
)

quiet_exporter()

# %% [markdown]
# ## 9.1 A file that runs without PyTorch
#
# An ONNX file holds a graph of standard operators, and the weights. A *runtime* reads it and computes. Here the
# runtime is onnxruntime; there are others, in C++, in a browser, on a phone.
#
# `torch.onnx.export` takes the model, an example of its inputs as a tuple, and a path. **Predict.** The cell exports a
# linear layer. Then a second Python process reads the file. It has numpy and onnxruntime, but neither `linear` nor
# torch. What can it print?

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
print("there:", [round(float(number), 4) for number in y[0]], " torch is loaded:", "torch" in sys.modules)
"""
child = subprocess.run([sys.executable, "-c", reader, linear_file], capture_output=True, text=True)
print(child.stdout.strip())

print("here: ", [round(number, 4) for number in linear(torch.ones(1, 3))[0].tolist()])

# %% [markdown]
# The same two numbers. All that the other process needed was in the file: the operator `Gemm` (a matrix product plus
# a bias) and the two tensors `weight` and `bias`. The class, its `forward` and the optimizer stayed here.

# %% [markdown]
# **Predict.** Three packages have to do with it: onnx, onnxscript, onnxruntime. Which are needed to export, and which
# to run the file? The cell exports in a process that pretends to have no onnxscript.

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
# The exporter needs onnx and onnxscript, in which the translations of the operators are written. To run the file,
# onnxruntime alone is enough.

# %% [markdown]
# ## 9.2 What the exporter does
#
# **Predict.** `forward` below prints its input. What appears during the export: the numbers, something else, or
# nothing?


# %% facts=["09-export-runs-the-model", "09-verbose-prints-graph"]
class Spy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        print("forward sees", x)
        return x * 2 + 1


spy = Spy().eval()
program = torch.onnx.export(spy, (torch.tensor([[1.0, 2.0, 3.0]]),), verbose=False)

print(type(program).__name__)
print(onnx.printer.to_text(program.model_proto.graph))

# %% [markdown]
# The default exporter hands your model to `torch.export`, which runs `forward` on *FakeTensors*: stand-ins with a
# shape and a dtype, but without numbers. So the example input says how large things are, not what is in them.
# Everything in this chapter follows from that one fact.
#
# The result is an `ONNXProgram`. You can call it, save it, or print it; `onnx.printer.to_text` prints the graph
# alone: two nodes, and in braces the constants 2 and 1. The option `verbose=True` once did that. Today it only
# reports progress, and this chapter switches it off.

# %% [markdown]
# **Predict.** The old exporter is still there: `dynamo=False`. What does `forward` see now, and what does the call
# return?


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
# Real numbers, and no program. The old exporter runs the model on the example and notes what happens. Tutorials that
# say "export records one run" or "export returns nothing" describe this one; it warns that it will go.

# %% [markdown]
# **Predict.** A small network: convolution, batch norm, relu, flatten, linear layer. How many of these five will be
# nodes of the exported graph?

# %%
export = partial(torch.onnx.export, verbose=False)  # from here on

torch.manual_seed(0)
cnn = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
for _ in range(3):
    cnn(torch.randn(16, 1, 8, 8) * 2 + 1)  # in train mode: batch norm collects its statistics
cnn.eval()

images = torch.randn(2, 1, 8, 8)
image_names = {"input_names": ["image"], "output_names": ["scores"]}
by_batch = {"dynamic_shapes": ({0: "batch"},)}

as_it_is = export(cnn, (images,), **image_names, **by_batch, optimize=False)
cnn_program = export(cnn, (images,), **image_names, **by_batch)

graph_picture(cnn_program.model_proto, "The network after the export")

# %% [markdown]
# Four: `Reshape` flattens, `Gemm` is the linear layer, and batch norm is gone. In eval mode it multiplies and adds
# fixed numbers for each channel, and a convolution can do that by itself: the exporter *folds* them into its weight
# and bias. With `optimize=False` nothing is folded:

# %%
print("optimize=False:", " ".join(node.op_type for node in as_it_is.model_proto.graph.node))
print("as exported:   ", " ".join(node.op_type for node in cnn_program.model_proto.graph.node))

# %% [markdown]
# (The nodes with `Shape`, `Constant` and `Concat` put together the sizes for `Reshape`; they are simplified, too.) So
# the weights in the file need not be those of your `state_dict`: don't look for `running_mean` there. And mind the
# mode in which you export:

# %% shows_warning="UserWarning"
with_dropout = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
programs = []
export_warnings_of(lambda: programs.append(export(with_dropout, (torch.ones(1, 3),))))
print("train mode:", " ".join(node.op_type for node in programs[0].model_proto.graph.node))

programs.append(export(with_dropout.eval(), (torch.ones(1, 3),)))
print("eval mode: ", " ".join(node.op_type for node in programs[1].model_proto.graph.node))

# %% [markdown]
# The mode is decided during the export; in the file there is no `train()` and no `eval()`. Call `eval()` first.

# %% [markdown]
# ## 9.3 Fixed and dynamic sizes
#
# **Predict.** A linear layer is exported with an example of 2 rows. What happens when onnxruntime is given 5?


# %% facts=["09-dimensions-fixed-by-default"]
def session_of(program: torch.onnx.ONNXProgram) -> ort.InferenceSession:
    return ort.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])


fixed = session_of(export(linear, (torch.ones(2, 3),), input_names=["x"]))
print("declared:", fixed.get_inputs()[0].shape)
error_of(lambda: fixed.run(None, {"x": np.ones((5, 3), np.float32)}))

# %% [markdown]
# Every dimension that is not declared dynamic is fixed to the example's. The declaration is `dynamic_shapes`: one
# entry for each input of `forward`, a dictionary from dimension to name.
#
# **Predict.** Some say that an example of one row spoils a dynamic batch. Does it?

# %% facts=["09-dimensions-fixed-by-default", "09-dynamic-axes"]
one_row = torch.ones(1, 3)
dynamic = session_of(export(linear, (one_row,), input_names=["x"], **by_batch))

print("declared:", dynamic.get_inputs()[0].shape, "->", dynamic.get_outputs()[0].shape)
for rows in (1, 5, 1000):
    (y,) = dynamic.run(None, {"x": np.ones((rows, 3), np.float32)})
    print(f"rows {rows:4}: result {y.shape}")

# %% [markdown]
# It does not. The name `batch` travels through the graph, and the output has it too.
#
# Older code says it with `dynamic_axes`. That still works, with two warnings:

# %% facts=["09-dynamic-axes"] shows_warning="DeprecationWarning"
axes = {"x": {0: "batch"}, "y": {0: "batch"}}
programs = []
export_warnings_of(lambda: programs.append(export(linear, (one_row,), **names, dynamic_axes=axes)))
print("declared:", session_of(programs[0]).get_inputs()[0].shape)

# %% [markdown]
# **Predict.** Now a size that the model itself fixes: a loop over the steps, with `time` declared dynamic. Once
# `time` is a plain name, once a `torch.export.Dim` object. What happens in each case?


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
# The name is refused: "tracing inferred a static shape of 5". With a `Dim` object the export succeeds, and the
# dimension is 5 all the same; nobody says so. Use names, and print `session.get_inputs()[0].shape` after each export:
# that is what came out, whatever you declared. What fixed the size here, and how to avoid it, is the matter of
# section 9.7.

# %% [markdown]
# ### Exercise 9.1 · What did the exporter record?
#
# predict · warm-up · 12 min · 2 points
#
# Five exports. What is in the files, and what does onnxruntime give? Write your answers down before you export
# anything. Some of it comes later in the chapter (files in 9.5, the checker in 9.6, branches in 9.7): think about how
# an exporter must work, and guess.
#
#     batch = dict(dynamic_shapes=({0: "batch"},))
#
#     A  nn.Linear(100, 100), exported with torch.ones(2, 100) to a file in an empty folder
#     B  the same layer and input, exported with **batch and external_data=False to a file in another empty folder
#     C  def forward(self, x): return x * 2 if x.shape[0] > 2 else x * 3      exported with torch.ones(4, 3) and **batch
#     D  def forward(self, x): return x * 2 if x.sum() > 0 else x * 3         exported with torch.ones(4, 3) and **batch
#     E  def forward(self, x): return x.view(4, -1)                           exported with torch.ones(4, 6) and **batch
#
# **Contract.** The dict `exported` has these twelve items; shapes are lists, lengths are numbers, names and words
# strings.
#
# - `"A shape"`, `"B shape"`: the shape of the input, as `session.get_inputs()[0].shape` shows it.
# - `"A batch 5"`, `"B batch 5"`: `"ok"` or `"error"`, when the session gets 5 rows.
# - `"A files"`, `"B files"`: how many files are in the folder afterwards.
# - `"C torch"`, `"C onnx"`: the first number of the result for `torch.ones(1, 3)`, in PyTorch and in onnxruntime.
# - `"C checker"`: `"ok"` or `"error"`, what `onnx.checker.check_model` says of C's file.
# - `"C type"`: the name of the type of the x that C's forward gets during the export.
# - `"D export"`: `"ok"` or `"error"`.
# - `"E shape"`: the shape of onnxruntime's result for `torch.ones(8, 6)`.
#
# <details><summary>Hint 1</summary>
#
# What does the exporter run: your numbers, or stand-ins for them? And can a graph without `if` follow a Python
# branch?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sizes are fixed unless they are declared. A Python branch on a *shape* is decided once, during export, without a
# message; one on *values* can't be decided and is refused. `check_model` looks at the structure only. Weights above
# a small size go to a second file.
#
# </details>

# %% answer="fixed-or-dynamic"
### BEGIN SOLUTION
exported = {
    "A shape": [2, 100],
    "A batch 5": "error",
    "A files": 2,
    "B shape": ["batch", 100],
    "B batch 5": "ok",
    "B files": 1,
    "C torch": 3.0,
    "C onnx": 2.0,
    "C checker": "ok",
    "C type": "FakeTensor",
    "D export": "error",
    "E shape": [4, 12],
}
### END SOLUTION
### BEGIN GIVEN
# exported = {
#     "A shape": ...,  # such as [1, 2]
#     "A batch 5": ...,  # "ok" or "error"
#     "A files": ...,  # a number
#     "B shape": ...,
#     "B batch 5": ...,  # "ok" or "error"
#     "B files": ...,  # a number
#     "C torch": ...,  # a number
#     "C onnx": ...,  # a number
#     "C checker": ...,  # "ok" or "error"
#     "C type": ...,  # such as "ndarray"
#     "D export": ...,  # "ok" or "error"
#     "E shape": ...,
# }
### END GIVEN

# %% check="fixed-or-dynamic" points=2
"""Each item is compared with what the exporter and onnxruntime do now."""
with check("fixed-or-dynamic") as test:

    class OnShape(nn.Module):
        """C: a branch on a shape, which keeps the type of x."""

        def forward(self, x):
            seen_types.append(type(x).__name__)
            return x * 2 if x.shape[0] > 2 else x * 3

    class OnValues(nn.Module):
        """D: a branch on values."""

        def forward(self, x):
            return x * 2 if x.sum() > 0 else x * 3

    class Four(nn.Module):
        """E: four rows, whatever comes."""

        def forward(self, x):
            return x.view(4, -1)

    class Both(nn.Module):
        """C and E in one file, each with its own input and output, because every export takes half a second."""

        def __init__(self):
            super().__init__()
            self.c, self.e = OnShape(), Four()

        def forward(self, x_of_c, x_of_e):
            return self.c(x_of_c), self.e(x_of_e)

    def linear(**how):
        """The session of nn.Linear(100, 100), and how many files its export writes."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            torch.onnx.export(nn.Linear(100, 100).eval(), (torch.ones(2, 100),), path, verbose=False, **how)
            return ort.InferenceSession(path), len(os.listdir(folder))

    def run(session, *sizes):
        """The results for ones of these sizes."""
        names = [one.name for one in session.get_inputs()]
        return session.run(None, {k: np.ones(size, np.float32) for k, size in zip(names, sizes, strict=True)})

    def outcome(action):
        """ "ok", or "error" where the action raises."""
        try:
            action()
        except Exception:
            return "error"
        return "ok"

    def simple(value):
        """Words in small letters, a type by its last name."""
        return value.strip(" \n'<>").split(".")[-1].lower() if isinstance(value, str) else value

    def simply(answers):
        """The answers with simple words."""
        if not isinstance(answers, dict):
            return answers
        return {
            name: [simple(one) for one in value] if isinstance(value, (list, tuple)) else simple(value)
            for name, value in answers.items()
        }

    test("every item is compared with a live export")
    seen_types, rows = [], {0: "batch"}
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        a, a_files = linear()
        b, b_files = linear(dynamic_shapes=(rows,), external_data=False)
        examples = (torch.ones(4, 3), torch.ones(4, 6))
        both = torch.onnx.export(
            Both().eval(), examples, dynamic_shapes=(rows, {0: "other"}), verbose=False
        ).model_proto
        # torch.export is the first step of the exporter, and where it fails
        of_d = outcome(
            lambda: torch.export.export(OnValues(), examples[:1], dynamic_shapes=({0: torch.export.Dim.AUTO},))
        )
    c_onnx, e_onnx = run(ort.InferenceSession(both.SerializeToString()), (1, 3), (8, 6))

    fixed = "Every input dimension that is not declared dynamic is fixed to the example's: A refuses 5 rows."
    named = 'The declared dimension appears by its name, the other one is fixed: ["batch", 100].'
    dynamic = "With the dimension declared dynamic, any number of rows runs."
    baked = (
        "The branch was decided during export, with 4 rows, and only `x * 2` is in the graph: for 1 row onnxruntime "
        "gives 2.0 where PyTorch gives 3.0, without any message."
    )
    structure = "check_model looks at the structure, not at the numbers: a wrong export passes."
    refused = "A branch on values can't be decided for all inputs: torch.export refuses (GuardOnDataDependentSymNode)."
    view = (
        "view(4, -1) is exported faithfully: 8 rows still give 4, as in PyTorch itself. The 4 is baked into the model, "
        "not by the exporter."
    )
    fake = "The default exporter runs the model with FakeTensors: shapes and dtypes without data."
    files = "Weights are written to a second file, <name>.onnx.data, unless external_data=False."
    items = {
        "A shape": prediction(list(a.get_inputs()[0].shape), because=fixed),
        "A batch 5": prediction(outcome(lambda: run(a, (5, 100))), because=fixed),
        "A files": prediction(a_files, because=files),
        "B shape": prediction(list(b.get_inputs()[0].shape), because=named),
        "B batch 5": prediction(outcome(lambda: run(b, (5, 100))), because=dynamic),
        "B files": prediction(b_files, because=files),
        "C torch": prediction(float(OnShape()(torch.ones(1, 3))[0, 0]), because=baked),
        "C onnx": prediction(float(c_onnx[0, 0]), because=baked),
        "C checker": prediction(outcome(lambda: onnx.checker.check_model(both)), because=structure),
        "C type": prediction(simple(seen_types[0]), because=fake),
        "D export": prediction(of_d, because=refused),
        "E shape": prediction(list(e_onnx.shape), because=view),
    }
    test.points = observe_value(simply(observe_value(exported).value)).predicts(items, points=2)
test.points

# %% [markdown]
# ## 9.4 Run the file
#
# **Predict.** This model has two inputs and two outputs. What does the session want, and what does it return?


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
# A dictionary from names to NumPy arrays goes in, a list of arrays comes out; `None` asks for all outputs. The names
# of inputs are those of `forward`'s arguments, unless `input_names` says otherwise; names of outputs are made up.
# Don't guess: `get_inputs()` knows names, types and shapes.
#
# **Predict.** Four feeds, each with one mistake. Which are refused? (Is any of them quietly cast or converted?)

# %% facts=["09-session-run-returns-list"]
error_of(lambda: picker.run(None, {"input": x, "idx": idx}))
error_of(lambda: picker.run(None, {"x": x.astype(np.float64), "idx": idx}))
error_of(lambda: picker.run(None, {"x": torch.from_numpy(x), "idx": idx}))
error_of(lambda: picker.run(None, {"x": x[:, :2], "idx": idx}))

# %% [markdown]
# All four. The runtime casts nothing, takes arrays only, and holds every fixed dimension against what was declared.
# The float64 case is the common one: `np.ones(3)` and `np.array([0.5, 1.5])` are float64.
#
# **Predict.** And from a tensor to an array: which of these raises?

# %% facts=["09-to-numpy-helper"]
weight = linear.weight
error_of(lambda: weight.numpy())
print(type(weight.detach().cpu().numpy()).__name__, type(weight.numpy(force=True)).__name__)

# %% [markdown]
# Only the first. Tutorials write a helper that asks `requires_grad` and then calls `detach()` or not. There is no
# need to ask: `detach()` does no harm to any tensor, and `numpy(force=True)` does it all in one.

# %% [markdown]
# ### Exercise 9.2 · Four messages from onnxruntime
#
# debug · warm-up · 12 min · 2 points
#
# Four first attempts to run a file whose inputs are called `x` and `idx`, and what they gave:
#
#     session.run(None, {"input": x.numpy()})              # ValueError: Required inputs (['x', 'idx']) are missing from
#                                                          # input feed (['input']).
#     session.run(None, {"x": x.double().numpy(), ...})    # InvalidArgument: Unexpected input data type.
#                                                          # Actual: (tensor(double)) , expected: (tensor(float))
#     session.run(None, {"x": x, ...})                     # RuntimeError: Input must be a list of dictionaries or a
#                                                          # single numpy array for input 'x'.
#     session.run(None, {"x": w.numpy(), ...})             # RuntimeError: Can't call numpy() on Tensor that requires
#                                                          # grad.
#
# Write a function that runs any session on tensors.
#
# **Contract**
#
# - Feeds the tensors in the order of the session's inputs, whatever these are called, and returns all outputs, in
#   order, as a list of tensors. Writing into one of them changes nothing else.
# - Tensors that require grad and tensors that are not contiguous are accepted.
# - A floating tensor of another precision is cast to the floating type that the session expects there: float16,
#   float32 or float64. bfloat16 tensors are accepted, too.
# - An integer tensor where a floating one is expected, or the reverse, raises `TypeError` that names the input.
# - A wrong number of inputs raises `ValueError` that names the expected ones.
# - The tensors that were given are not changed.
#
# <details><summary>Hint 1</summary>
#
# Who knows the names and types of the inputs: you or the session?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Loop over `zip(session.get_inputs(), inputs)`. `one.type` is a string such as `'tensor(float)'`; a small dict maps
# it to a torch dtype. Detach, cast where both are floating, then `.cpu().numpy()`. `torch.from_numpy` makes tensors
# of the outputs.
#
# </details>


# %% answer="run-session"
def run_onnx(session: ort.InferenceSession, *inputs: Tensor) -> list[Tensor]:
    """All outputs of a session for these inputs, which come in the order of session.get_inputs()."""
    ### BEGIN SOLUTION
    floats = {"tensor(float16)": torch.float16, "tensor(float)": torch.float32, "tensor(double)": torch.float64}
    expected = session.get_inputs()
    if len(inputs) != len(expected):
        raise ValueError(f"expected {[one.name for one in expected]}, got {len(inputs)} tensors")
    feed = {}
    for one, tensor in zip(expected, inputs, strict=True):
        if tensor.is_floating_point() != (one.type in floats):
            raise TypeError(f"input {one.name!r} is a {one.type}, got {tensor.dtype}")
        feed[one.name] = tensor.detach().to(floats.get(one.type, tensor.dtype)).cpu().numpy()
    return [torch.from_numpy(array) for array in session.run(None, feed)]
    ### END SOLUTION


# %% check="run-session" points=1
"""Inputs by the session's own names, all outputs as tensors with memory of their own."""
with check("run-session") as test:

    def file_of(name):
        """The bytes of a small model: nodes, inputs and outputs as (name, type, shape)."""
        real, whole, rows = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, ["rows", 3]
        nodes, inputs, outputs = {
            "twice and picked": (
                [("Add", ["x", "x"], ["twice"]), ("Gather", ["x", "idx"], ["picked"])],
                [("x", real, rows), ("idx", whole, ["n"])],
                [("twice", real, rows), ("picked", real, ["n", 3])],
            ),
            "negated": ([("Neg", ["pixels"], ["y"])], [("pixels", real, rows)], [("y", real, rows)]),
            "three": (
                [("Sub", ["z", "a"], ["d"]), ("Div", ["d", "m"], ["q"]), ("Shape", ["q"], ["n"])],
                [("z", real, rows), ("a", real, rows), ("m", real, rows)],
                [("q", real, rows), ("n", whole, [2]), ("d", real, rows)],
            ),
            "total": (
                [("ReduceSum", ["x"], ["kept"]), ("Squeeze", ["kept"], ["total"])],
                [("x", real, [4, 3])],
                [("total", real, [])],
            ),
            "copies": (
                [("Identity", ["x"], ["one"]), ("Identity", ["x"], ["two"])],
                [("x", real, rows)],
                [("one", real, rows), ("two", real, rows)],
            ),
        }[name]
        infos = [[onnx.helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
        graph = onnx.helper.make_graph([onnx.helper.make_node(*node) for node in nodes], "model", *infos)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        return model.SerializeToString()

    def outputs_of(run, name, *inputs):
        """Run a session on the inputs, then write into the first output."""
        came = run(ort.InferenceSession(file_of(name)), *inputs)
        items = came if isinstance(came, (list, tuple)) else []
        tensors = all(isinstance(one, Tensor) for one in items)
        facts = {
            "type": type(came).__name__,
            "items": [type(one).__name__ for one in items],
            "outputs": [one.detach().clone() for one in items] if tensors else None,
            "inputs": [(one.detach().clone(), one.requires_grad) for one in inputs],
        }
        if items and tensors:
            items[0].detach().fill_(-9)
        facts["then"] = [one.detach().clone() for one in (*items[1:], *inputs)] if tensors else None
        return facts

    a_list = "The result must be a list of tensors, one for each output of the session."
    arrays = "A session takes NumPy arrays, not tensors, and gives NumPy arrays, too: convert on the way in and out."
    known = [
        mistake(
            "The feed must use the names of session.get_inputs(); they depend on the export.",
            raises=r"missing from input feed|Invalid input name|Invalid Feed Input Name",
        ),
        mistake(arrays, raises="Input must be a list of dictionaries or a single numpy array"),
        mistake("numpy() on a tensor that requires grad raises: detach first.", raises="requires grad"),
    ]

    def judge(seen, expected):
        """Judge the outputs, and that they and the inputs are left alone."""
        seen.expecting(*known)
        seen.that(seen["type"] == "list", a_list, stage="type")
        seen.that("ndarray" not in seen["items"], arrays, stage="type")
        seen.that(seen["outputs"] is not None, a_list, stage="type")
        first_only = "All outputs are wanted, in order, as a list."
        seen.that(len(seen["outputs"]) == len(expected), first_only, stage="shape")
        for came, wanted in zip(seen["outputs"], expected, strict=True):
            same_type = came.dtype == wanted.dtype
            seen.that(same_type, f"An output came as {came.dtype}; the session gave {wanted.dtype}.", stage="dtype")
            same = came.shape == wanted.shape and torch.equal(came, wanted)
            seen.that(same, "The outputs are not what the session gives for these inputs, in its order.")
        alone = all(torch.equal(a, b) for a, b in zip(seen["then"], [*expected[1:], *given], strict=True))
        seen.that(alone, "Writing into an output must change neither another output nor an input.", stage="aliasing")

    test("two inputs with names of their own, two outputs")
    x, idx = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]), torch.tensor([2, 0])
    given = [x, idx]
    seen = observe_scenario(outputs_of, run_onnx, "twice and picked", x, idx)
    judge(seen, [2 * x, torch.tensor([[7.0, 8, 9], [1, 2, 3]])])

    ### BEGIN HIDDEN TESTS
    test.hidden("another session: other names, one input, one output")
    given = [x]
    judge(observe_scenario(outputs_of, run_onnx, "negated", x), [-x])

    test.hidden("three inputs of one type, the order of their names is not that of the alphabet")
    given = [8 * x, 4 * x, torch.full((4, 3), 2.0)]
    seen = observe_scenario(outputs_of, run_onnx, "three", *given)
    judge(seen, [2 * x, torch.tensor([4, 3]), 4 * x])

    test.hidden("a batch of one")
    given = [x[:1], idx[1:]]
    judge(observe_scenario(outputs_of, run_onnx, "twice and picked", *given), [2 * x[:1], x[:1]])

    test.hidden("a number without dimensions among the outputs")
    given = [x]
    judge(observe_scenario(outputs_of, run_onnx, "total", x), [torch.tensor(78.0)])

    test.hidden("outputs that are equal to the input and to each other")
    given = [x]
    judge(observe_scenario(outputs_of, run_onnx, "copies", x), [x, x])
    ### END HIDDEN TESTS

# %% check="run-session" points=1
"""Tensors of every kind are converted; what can't be meant is refused with the input's name."""
with check("run-session") as test:

    def file_of(kind):
        """The bytes of a model that picks rows of `pixels`, numbers of some kind, by `idx`; "mixed" multiplies."""
        types = {"float16": onnx.TensorProto.FLOAT16, "float64": onnx.TensorProto.DOUBLE}
        types |= {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64, "mixed": onnx.TensorProto.FLOAT}
        sides = [
            [("pixels", types[kind], ["rows", 3]), ("idx", types["int64"], ["n"])],
            [("picked", types[kind], ["n", 3])],
        ]
        nodes = [onnx.helper.make_node("Gather", ["pixels", "idx"], ["picked"])]
        if kind == "mixed":
            sides[0][1] = ("factor", types["float64"], [1])
            cast = onnx.helper.make_node("Cast", ["factor"], ["f"], to=types["float32"])
            nodes = [cast, onnx.helper.make_node("Mul", ["pixels", "f"], ["picked"])]
        infos = [[onnx.helper.make_tensor_value_info(*one) for one in side] for side in sides]
        graph = onnx.helper.make_graph(nodes, "model", *infos)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        return model.SerializeToString()

    def condition_of(tensor):
        """What must stay as it is."""
        return [tensor.dtype, list(tensor.shape), list(tensor.stride()), tensor.requires_grad, tensor.tolist()]

    def converted(run, expects, *inputs):
        """The first output of a session that expects numbers of some kind, and whether the inputs have changed."""
        before = [condition_of(one) for one in inputs]
        came = run(ort.InferenceSession(file_of(expects)), *inputs)
        first = came[0] if isinstance(came, (list, tuple)) and came else None
        first = torch.from_numpy(first) if isinstance(first, np.ndarray) else first
        return {
            "first": first.detach() if isinstance(first, Tensor) else None,
            "changed": [condition_of(one) for one in inputs] != before,
        }

    by_name = "The feed must use the names of session.get_inputs(); they depend on the export."
    cast = (
        "Each input has its own type: cast floating tensors to the float type that the session expects there, and "
        "leave integers alone."
    )
    known = [
        mistake(by_name, raises=r"missing from input feed|Invalid input name|Invalid Feed Input Name"),
        mistake(
            "A session takes NumPy arrays, not tensors: convert on the way in.",
            raises="Input must be a list of dictionaries or a single numpy array",
        ),
        mistake("numpy() on a tensor that requires grad raises: detach first.", raises="requires grad"),
        mistake(cast, raises="Unexpected input data type|unsupported ScalarType|INT64|int64"),
    ]

    def judge(seen, expected):
        """Judge the first output, and that the inputs are as before."""
        seen.expecting(*known)
        seen.that(seen["first"] is not None, "The result must be a list of tensors, one for each output.", stage="type")
        seen.that(seen["first"].dtype == expected.dtype, cast, stage="dtype")
        same = seen["first"].shape == expected.shape and torch.equal(seen["first"], expected)
        seen.that(same, "The output is not what the session gives for these inputs.")
        seen.that(not seen["changed"], "A tensor that was given has changed.", stage="arguments")

    x, idx = torch.tensor([[0.5, 2, 3], [4, 5, 6], [7, 8, 9]]), torch.tensor([2, 0])
    rows = torch.tensor([[7.0, 8, 9], [0.5, 2, 3]])

    test("a tensor that requires grad")
    judge(observe_scenario(converted, run_onnx, "float32", x.clone().requires_grad_(), idx), rows)

    test("float64 where float32 is expected")
    judge(observe_scenario(converted, run_onnx, "float32", x.double(), idx), rows)

    test("float32 where float64 is expected")
    judge(observe_scenario(converted, run_onnx, "float64", x, idx), rows.double())

    ### BEGIN HIDDEN TESTS
    for idea, kind, tensor in [
        ("a tensor that is not contiguous", "float32", x.t().contiguous().t()),
        ("bfloat16, which NumPy does not know", "float32", x.bfloat16()),
        ("bfloat16 that requires grad, where float64 is expected", "float64", x.bfloat16().requires_grad_()),
        ("float16 where float32 is expected", "float32", x.half()),
        ("float32 where float16 is expected", "float16", x),
        ("float64 where float64 is expected: nothing to cast", "float64", x.double()),
        ("integers where integers are expected", "int64", (2 * x).long()),
    ]:
        test.hidden(idea)
        expected = (2 * rows).long() if kind == "int64" else rows.to(getattr(torch, kind))
        judge(observe_scenario(converted, run_onnx, kind, tensor, idx), expected)

    test.hidden("two inputs of different floating types")
    judge(observe_scenario(converted, run_onnx, "mixed", x.double(), torch.tensor([3.0])), 3 * x)

    test.hidden("float64 keeps all its digits")
    fine = x.double() + 1e-12
    judge(observe_scenario(converted, run_onnx, "float64", fine, idx), fine[[2, 0]])

    def refused(run, expects, *inputs):
        """What running these inputs raises."""
        try:
            run(ort.InferenceSession(file_of(expects)), *inputs)
        except Exception as error:
            return {"raised": [one.__name__ for one in type(error).__mro__], "message": str(error)}
        return {"raised": [], "message": ""}

    too_many = "Too many or too few inputs: raise ValueError with the expected names (zip silently drops the rest)."
    for idea, inputs in [
        ("one input is missing", (x,)),
        ("one input is too many", (x, idx, x)),
        ("no inputs at all", ()),
    ]:
        test.hidden(idea)
        seen = observe_scenario(refused, run_onnx, "float32", *inputs)
        names_told = all(name in seen["message"] for name in ("pixels", "idx"))
        seen.that("ValueError" in seen["raised"] and names_told, too_many, stage="raised")

    kinds = (
        "An integer tensor where a floating one is expected (or the reverse) is a mistake of the caller: raise "
        "TypeError with the input's name, don't cast."
    )
    for idea, kind, inputs, name in [
        ("integers where a floating tensor is expected", "float32", (x.long(), idx), "pixels"),
        ("integers where float64 is expected", "float64", (x.long(), idx), "pixels"),
        ("a floating tensor where integers are expected", "float32", (x, idx.float()), "idx"),
        ("float64 where integers are expected", "int64", (x.double(), idx), "pixels"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(refused, run_onnx, kind, *inputs)
        seen.that("TypeError" in seen["raised"] and name in seen["message"], kinds, stage="raised")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 9.5 Files and weights
#
# **Predict.** A network with 10,403 parameters (4 bytes each) is exported. How many files appear, and which is the
# largest?

# %% facts=["09-file-holds-graph-and-weights"]
torch.manual_seed(0)
mlp = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 3)).eval()
mlp_program = export(mlp, (torch.ones(1, 100),), **by_batch)

place = Path(folder.name) / "deploy"
place.mkdir(exist_ok=True)
mlp_program.save(place / "two.onnx", external_data=True)  # the default of torch.onnx.export(..., path)
mlp_program.save(place / "one.onnx", external_data=False)

for file in sorted(place.iterdir()):
    print(f"{file.name:14} {file.stat().st_size // 1000:3} kB")

# %% [markdown]
# `external_data=True` is the default. It writes larger weights into a second file, `<name>.onnx.data`: a file in
# protobuf, the format of ONNX, can't be larger than 2 GiB. Small weights stay inside:

# %% facts=["09-file-holds-graph-and-weights"]
proto = onnx.load(place / "two.onnx", load_external_data=False)
for tensor in proto.graph.initializer:
    elsewhere = {entry.key: entry.value for entry in tensor.external_data}
    print(f"{tensor.name:9} {list(tensor.dims)!s:11}", elsewhere or f"{len(tensor.raw_data)} bytes inside")

# %% [markdown]
# **Predict.** On the server there is only `two.onnx`; the second file was forgotten. When is that noticed?

# %% facts=["09-file-holds-graph-and-weights"]
(place / "two.onnx.data").unlink(missing_ok=True)

error_of(lambda: onnx.load(place / "two.onnx"), lines=0)  # (the message names the missing file)
error_of(lambda: ort.InferenceSession(place / "two.onnx"), lines=0)
print("without its weights:", len(onnx.load(place / "two.onnx", load_external_data=False).graph.node), "nodes")

# %% [markdown]
# When the model is loaded, at the latest. Deploy both files, together and unrenamed: the model refers to the second
# one by its name. Or write one with `external_data=False`.

# %% [markdown]
# ### Exercise 9.3 · One file, any batch, eval mode
#
# implement · warm-up · 15 min · 3 points
#
# The export that you will want most often: everything in one file, any number of rows, the model as it is used after
# training. It is called in the middle of a training script, so the model must come out of it as it went in.
#
# **Contract**
#
# - Writes *one* file at `path`, which needs no second one beside it. A file that is already there is replaced.
# - The input is called `"input"`, the output `"output"`. The first dimension of both is dynamic and called
#   `"batch"`; the others are fixed as in `example`. `example` may have any number of rows, one included.
# - The graph is the eval form of the model: no dropout, the running statistics of batch norm.
# - Afterwards every submodule has the training flag that it had before (some may be frozen in eval mode), also if
#   the export fails; the exception of a failing export reaches the caller. Parameters, buffers and gradients are as
#   before.
#
# **Rule.** The default exporter, without a DeprecationWarning and without the warning about training mode.
#
# <details><summary>Hint 1</summary>
#
# In which mode is the model when its forward runs, and who puts the mode back? Which argument of the new exporter
# declares a dynamic dimension?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Remember the flag of each of `model.modules()`, then `model.eval()`; in `try` `torch.onnx.export(...,
# verbose=False)` with `dynamic_shapes=({0: "batch"},)`, `external_data=False`, `input_names` and `output_names`; in
# `finally` put the flags back.
#
# </details>


# %% answer="export-dynamic-batch"
def export_dynamic(model: nn.Module, example: Tensor, path: str) -> None:
    """Write the eval form of the model to one ONNX file whose first dimension is "batch"."""
    ### BEGIN SOLUTION
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        torch.onnx.export(
            model,
            (example,),
            path,
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=({0: "batch"},),
            external_data=False,
            verbose=False,
        )
    finally:
        for module, training in flags:
            module.training = training
    ### END SOLUTION


# %% check="export-dynamic-batch" points=2
"""One file with the agreed names, a dynamic batch, and the numbers of the eval form."""
with check("export-dynamic-batch") as test:

    class Spy(nn.Module):
        """Keeps the names of the types that pass through it."""

        types: ClassVar = []

        def forward(self, x):
            self.types.append(type(x).__name__)
            return x

    class Short(nn.Module):
        """One layer, with a way of its own to differ in training mode, and an input that is not called "input"."""

        def __init__(self, spy):
            super().__init__()
            self.spy, self.linear = spy, nn.Linear(3, 2)

        def forward(self, x):
            h = self.linear(self.spy(x))
            return h + 1 if self.training else h

    def filled(*size):
        """Numbers between -1 and 1, no two rows alike."""
        count = torch.Size(size).numel()
        return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)

    def model_of(kind):
        """A small model with batch norm and dropout, or "short"."""
        if kind == "short":
            net = Short(Spy())
        else:
            net = nn.Sequential(Spy(), nn.Linear(8, 40), nn.BatchNorm1d(40), nn.Dropout(0.5), nn.Linear(40, 3))
        with torch.no_grad():
            for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
                numbers = filled(*tensor.shape)
                tensor.copy_(numbers.abs() + 0.5 if name.endswith("var") else numbers)
        return net

    def exported(export, kind, example, *batches):
        """Export into a folder with nothing, or an older file, in it; look at the file, and run it somewhere else."""
        Spy.types.clear()
        model, x = model_of(kind), example.clone()
        facts = {"results": [], "refused": ""}
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
            path = os.path.join(folder, "model.onnx")
            if kind == "short":
                Path(path).write_bytes(b"something older, and much longer than the new file" * 1000)
            with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
                export(model, x, path)  # without the modes that record operations
            facts |= {"files": sorted(os.listdir(folder)), "types": list(Spy.types)}
            if facts["files"] != ["model.onnx"]:
                return facts
            alone = os.path.join(elsewhere, "alone.onnx")
            Path(alone).write_bytes(Path(path).read_bytes())
            proto = onnx.load(alone, load_external_data=False)
            facts["external"] = [one.name for one in proto.graph.initializer if one.data_location == 1]
            facts["operations"] = [node.op_type for node in proto.graph.node]
            if not facts["external"]:
                session = ort.InferenceSession(alone)
                for side, ends in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
                    facts[side] = [(end.name, list(end.shape)) for end in ends]
                for batch in batches:
                    try:
                        facts["results"].append(
                            torch.tensor(session.run(None, {facts["inputs"][0][0]: batch.numpy()})[0])
                        )
                    except Exception as error:
                        facts["refused"] = str(error)
                        break
        return facts

    def judge(seen, inputs, outputs, batches):
        """Judge the file, its names and sizes, and the numbers."""
        seen.expecting(
            mistake(
                "dynamic_shapes is a tuple with one dict for each argument of forward, whatever these are called.",
                raises="UserError|Constraints",
            ),
            mistake(
                "A dimension was declared dynamic that the layers of the model fix: declare dimension 0, and no other.",
                raises="inferred a static shape",
            ),
        )
        seen.that("model.onnx" in seen["files"], "There is no file at the path that was given.", stage="value")
        one_file = "The weights went to a second file: external_data=False."
        seen.that(seen["files"] == ["model.onnx"] and not seen["external"], one_file)
        seen.that(
            "FakeTensor" in seen["types"],
            "This file is not from the default exporter, which runs the model with FakeTensors; dynamo=False is the "
            "old one.",
            stage="rule",
        )
        warned = [kind for kind, message in seen.noted.warned if "LeafSpec" not in message]
        about_mode = any("in training mode" in message for _, message in seen.noted.warned)
        train = "The training branch of the model is in the graph: export in eval mode."
        seen.that("Dropout" not in seen["operations"] and not about_mode, train)
        seen.that(
            "DeprecationWarning" not in warned,
            "The export gives a DeprecationWarning: declare the dimension with dynamic_shapes, not dynamic_axes.",
            stage="rule",
        )
        came_in, came_out = seen["inputs"], seen["outputs"]
        fixed = (
            "The session accepts only the example's batch size: declare dimension 0, and no other, in dynamic_shapes, "
            'under the name "batch".'
        )
        seen.that(not came_in or not isinstance(came_in[0][1][0], int), fixed, stage="shape")
        others = "Only the first dimension is dynamic; the others are fixed as in the example."
        seen.that(not came_in or came_in[0][1][1:] == inputs[0][1][1:], others, stage="shape")
        named = "Input, output and dimension names must be input, output, batch."
        seen.that(came_in == inputs and came_out == outputs, named)
        seen.that(not seen["refused"], fixed, stage="shape")
        for came, batch in zip(seen["results"], batches, strict=True):
            truth = model_of(kind).eval()(batch).detach()
            same = came.shape == truth.shape and torch.allclose(came, truth, rtol=1e-4, atol=1e-5)
            seen.that(same, f"For {len(batch)} rows, onnxruntime does not give the numbers of the eval form.")

    test("batch norm and dropout, in training mode: one file for any batch, in eval form")
    kind, batches = "norm", [filled(1, 8), filled(2, 8), filled(7, 8)]
    seen = observe_scenario(exported, export_dynamic, kind, filled(4, 8), *batches)
    judge(seen, [("input", ["batch", 8])], [("output", ["batch", 3])], batches)

    ### BEGIN HIDDEN TESTS
    test.hidden("another model, an example with one row and three dimensions; an older file is replaced")
    kind, batches = "short", [filled(1, 5, 3), filled(3, 5, 3)]
    seen = observe_scenario(exported, export_dynamic, kind, filled(1, 5, 3), *batches)
    judge(seen, [("input", ["batch", 5, 3])], [("output", ["batch", 5, 2])], batches)
    ### END HIDDEN TESTS

# %% check="export-dynamic-batch" points=1
"""The model comes out of the export as it went in, also out of one that fails."""
with check("export-dynamic-batch") as test:

    class Breaks(nn.Module):
        """A layer that can't run."""

        def forward(self, x):
            raise ArithmeticError("this layer is broken")

    def condition_of(model):
        """What must stay as it is."""
        return {
            "flags": [module.training for module in model.modules()],
            "tensors": [t.tolist() for t in (*model.parameters(), *model.buffers())],
            "gradients": [p.grad.tolist() for p in model.parameters()],
            "requires_grad": [p.requires_grad for p in model.parameters()],
        }

    def before_and_after(export, *layers, frozen):
        """Export a model; what of it has changed, and what was raised."""
        model = nn.Sequential(*layers)
        model[frozen].eval()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        before, raised = condition_of(model), ""
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
                    export(model, torch.ones(4, 3), os.path.join(folder, "model.onnx"))
            except NotImplementedError:
                raise
            except Exception as error:
                raised = type(error).__name__
        after = condition_of(model)
        return {"raised": raised, "changed": [name for name, value in before.items() if after[name] != value]}

    def frozen_norm(export):
        """A model in training mode whose batch norm is in eval mode."""
        return before_and_after(export, nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), frozen=1)

    def breaks(export):
        """A model whose export fails."""
        return before_and_after(export, nn.Linear(3, 4), nn.Dropout(0.5), Breaks(), frozen=1)

    def judge(seen):
        """Judge that nothing has changed."""
        flags = "The model, or a layer of it, is not in the mode it was in before: put back the flag of each module."
        seen.that("flags" not in seen["changed"], flags, stage="arguments")
        others = ", ".join(seen["changed"])
        seen.that(not others, f"Something else of the model has changed: {others}.", stage="arguments")

    test("a model in training mode with a frozen batch norm: every layer is in the mode it was in before")
    seen = observe_scenario(frozen_norm, export_dynamic)
    seen.that(not seen["raised"], f"The export raised {seen['raised']}.", stage="raised")
    judge(seen)

    ### BEGIN HIDDEN TESTS
    test.hidden("a model whose export fails")
    seen = observe_scenario(breaks, export_dynamic)
    judge(seen)
    seen.that(seen["raised"], "An export that fails must say so: its exception reaches the caller.", stage="raised")
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 9.4 · What must be deployed?
#
# measure · solid · 15 min · 2 points
#
# Somebody hands you a folder with a model in it, and with other things. Which files does the model need, and how
# large are its weights? Build the instrument that says so, without loading the weights.
#
# **Contract.** `onnx_size(path)` returns a dict with three items.
#
# - `"files"`: the sorted names, relative to the model's folder, of all files that must be deployed, the model file
#   included. External files are those that the model *refers to*, whatever they are called and whatever else lies
#   in the folder.
# - `"weights"`: the bytes of all initializers (number of elements times bytes of an element), wherever they are
#   stored.
# - `"graph"`: the bytes of the .onnx file, minus the weight bytes stored inside it.
# - A file that is referred to and missing raises `FileNotFoundError` that names it.
#
# **Rule.** External data are not read into memory: the check has an external file of many gigabytes (on paper).
#
# The file is a `TensorProto` per initializer: `dims`, `data_type`, `data_location`, `external_data` (a list of
# `key` and `value`, keys `location`, `offset` and `length`), and `raw_data` or a typed field such as `float_data`.
#
# <details><summary>Hint 1</summary>
#
# Where does an initializer say that its data are elsewhere? And how do you know their size without reading them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `onnx.load(path, load_external_data=False)`; for each initializer look whether `data_location` is
# `onnx.TensorProto.EXTERNAL`, and where it is, at `external_data`.
# `onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize` times the product of `dims` is the size, inside and
# outside.
#
# </details>


# %% answer="where-are-the-weights"
def onnx_size(path: str) -> dict[str, Any]:
    """What must be deployed for the model at path: {"graph": bytes, "weights": bytes, "files": sorted names}."""
    ### BEGIN SOLUTION
    model, folder = onnx.load(path, load_external_data=False), Path(path).parent
    files, weights, inside = {Path(path).name}, 0, 0
    for one in model.graph.initializer:
        size = int(np.prod(one.dims)) * onnx.helper.tensor_dtype_to_np_dtype(one.data_type).itemsize
        weights += size
        if one.data_location == onnx.TensorProto.EXTERNAL:
            files.add(next(entry.value for entry in one.external_data if entry.key == "location"))
        else:
            inside += size
    for name in files:
        if not (folder / name).exists():
            raise FileNotFoundError(name)
    return {"graph": os.path.getsize(path) - inside, "weights": weights, "files": sorted(files)}
    ### END SOLUTION


# %% check="where-are-the-weights" points=2
"""Files, bytes of weights and bytes of the graph, with data inside, outside and both."""
with check("where-are-the-weights") as test:

    def saved(folder, weights):
        """Write a model into a folder. Weights are name: (dtype, number of elements, external file or "", typed)."""
        initializers = []
        for name, (dtype, count, file, typed) in weights.items():
            array = np.ones(count, dtype)
            one = onnx.numpy_helper.from_array(array, name)
            if typed:
                one = onnx.helper.make_tensor(name, one.data_type, one.dims, array)
            if file:
                with open(os.path.join(folder, file), "ab") as outside:
                    outside.write(bytes(-outside.tell() % 256))  # a weight begins where a block begins
                    offset = outside.tell()
                    outside.write(array.tobytes())
                one.ClearField("raw_data")
                one.data_location = onnx.TensorProto.EXTERNAL
                for key, value in (("location", file), ("offset", offset), ("length", array.nbytes)):
                    one.external_data.add(key=key, value=str(value))
            initializers.append(one)
        value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])
        out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        graph = onnx.helper.make_graph([node], "weights", [value], [out], initializers)
        path = os.path.join(folder, "model.onnx")
        Path(path).write_bytes(onnx.helper.make_model(graph).SerializeToString())
        return path

    def plainly(came):
        """The same with Python's whole numbers in place of NumPy's, and of floats such as 28.0."""
        if not isinstance(came, dict):
            return came
        return {
            key: int(value)
            if isinstance(value, np.integer) or (isinstance(value, float) and value.is_integer())
            else value
            for key, value in came.items()
        }

    def sizes(measure, weights, strangers, missing=""):
        """Measure a model in a folder with other files; one of its own may be missing."""
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, weights)
            for name in strangers:
                Path(folder, name).write_bytes(b"of somebody else")
            if missing:
                os.remove(os.path.join(folder, missing))
            facts = {"file": os.path.getsize(path), "raised": [], "message": ""}
            try:
                facts["came"] = plainly(measure(path))
            except NotImplementedError:
                raise
            except Exception as error:
                if not missing:
                    raise
                facts |= {"raised": [one.__name__ for one in type(error).__mro__], "message": str(error)}
        return facts

    only_main = (
        "Only the .onnx file was seen: with external data most bytes are in a second file, and the model does not load "
        "without it. (Loading with external data erases the references: load_external_data=False.)"
    )

    def judge(seen, weights, files, inside):
        """Judge what came, for weights of so many bytes, of which some lie inside the file."""
        came = seen["came"]
        is_dict = isinstance(came, dict) and set(came) == {"graph", "weights", "files"}
        seen.that(is_dict, 'The result must be a dict with "graph", "weights" and "files".', stage="type")
        listed = isinstance(came["files"], (list, tuple)) and all(isinstance(name, str) for name in came["files"])
        seen.that(listed, '"files" must be a list of names.', stage="type")
        names, numbers = list(came["files"]), {key: came[key] for key in ("weights", "graph")}
        whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers.values())
        seen.that(whole, '"graph" and "weights" must be numbers of bytes.', stage="type")
        guessed = "The external file is not always called <name>.onnx.data: read its location from the initializers."
        folder = "Other files of the folder do not belong to the model."
        relative = "The names must be relative to the model's folder, without the way to it."
        seen.that(not any(os.path.basename(name) != name for name in names), relative)
        seen.that(names != ["model.onnx"] or len(files) == 1, only_main)
        seen.that("model.onnx.data" not in names or "model.onnx.data" in files, guessed)
        seen.that(set(names) <= set(files), folder)
        seen.that(set(names) >= set(files), "A file is missing; each initializer has a location of its own, or none.")
        seen.that(names == sorted(files), "The names must be sorted, and each must be there once.")
        outside = weights - inside
        seen.that(
            numbers["weights"] == weights,
            f"The weights have {weights} bytes, and you count {numbers['weights']}.",
            mistake(
                "Small weights stay inside the .onnx file even with external data: a model can have both.",
                when=lambda seen: numbers["weights"] == outside and inside and outside,
            ),
            mistake(
                "The weights in the external file are not counted.",
                when=lambda seen: numbers["weights"] == inside and outside,
            ),
            mistake(
                "Not every weight has 4 bytes per element, and not every weight lies in raw_data.",
                when=lambda seen: not files_of_floats,
            ),
        )
        seen.that(
            numbers["graph"] == seen["file"] - inside,
            "`graph` is the structure alone: the size of the .onnx file minus the weights that are stored inside it, "
            "and only those.",
        )

    files_of_floats = True

    test("all inside one file: 1,200 bytes")
    seen = observe_scenario(sizes, onnx_size, {"w": ("float32", 300, "", False)}, [])
    judge(seen, 1200, ["model.onnx"], inside=1200)

    test("the same weights in a second file")
    seen = observe_scenario(sizes, onnx_size, {"w": ("float32", 300, "model.onnx.data", False)}, [])
    judge(seen, 1200, ["model.onnx", "model.onnx.data"], inside=0)

    test("an external file with another name, and a small weight that stayed inside")
    weights = {"w": ("float32", 300, "tensors.bin", False), "b": ("float32", 7, "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 1228, ["model.onnx", "tensors.bin"], inside=28)

    ### BEGIN HIDDEN TESTS
    test.hidden("other files in the folder")
    weights = {"w": ("float32", 300, "a.data", False), "v": ("float32", 50, "z.data", False)}
    weights |= {"u": ("float32", 20, "a.data", False)}
    seen = observe_scenario(sizes, onnx_size, weights, ["old.onnx.data", "model.data", "b.bin", "other.onnx"])
    judge(seen, 1480, ["a.data", "model.onnx", "z.data"], inside=0)

    test.hidden("a stranger that bears the usual name")
    weights = {"w": ("float32", 300, "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, ["model.onnx.data"])
    seen.that(
        isinstance(seen["came"], dict) and "model.onnx.data" not in (seen["came"].get("files") or []),
        "Other files of the folder do not belong to the model.",
    )
    judge(seen, 1200, ["model.onnx"], inside=1200)

    files_of_floats = False
    test.hidden("numbers of other sizes, inside and outside")
    weights = {"d": ("float64", 11, "", False), "h": ("float16", 300, "w.data", False), "i": ("int64", 5, "", False)}
    weights |= {"b": ("bool", 3, "", False), "far": ("int64", 40, "w.data", False), "zero": ("float32", 0, "", False)}
    weights |= {"number": ("float32", (), "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 88 + 600 + 40 + 3 + 320 + 4, ["model.onnx", "w.data"], inside=135)

    test.hidden("numbers in typed fields")
    weights = {"d": ("float64", 11, "", True), "f": ("float32", 9, "", True), "i": ("int64", 5, "", True)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 164, ["model.onnx"], inside=164)

    test.hidden("a file that is referred to is missing")
    gone = "A referenced file that is missing must raise FileNotFoundError with its name."
    weights = {"w": ("float32", 300, "here.data", False), "v": ("float32", 50, "gone.data", False)}
    seen = observe_scenario(sizes, onnx_size, weights, ["model.onnx.data"], "gone.data")
    seen.that("FileNotFoundError" in seen["raised"] and "gone.data" in seen["message"], gone, stage="raised")

    def of_something_large(measure):
        """Measure a model with an external tensor of 40 gigabytes, of which only the first bytes are there."""
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, {"w": ("float32", 4, "large.data", False)})
            model = onnx.load(path, load_external_data=False)
            model.graph.initializer[0].dims[:] = [100_000, 100_000]
            model.graph.initializer[0].external_data[2].value = str(40_000_000_000)
            Path(path).write_bytes(model.SerializeToString())
            return {"file": os.path.getsize(path), "came": plainly(measure(path))}

    test.hidden("a large external file is not read")
    seen = observe_scenario(of_something_large, onnx_size)
    seen.expecting(mistake("External data must not be loaded; this model has 40 gigabytes of them.", stage="raised"))
    judge(seen, 40_000_000_000, ["large.data", "model.onnx"], inside=0)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 9.6 The same function?
#
# **Predict.** One weight in the file is changed by 0.05. Does `onnx.checker` complain? And when a node asks for an
# input that nobody makes?

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
# `check_model` returns None when it is content. It looks at the structure: known operators, legal attributes, every
# input made by somebody. Numbers are not its business.
#
# So compare numbers. **Predict.** The exported network and PyTorch's, for 1, 3 and 7 images that neither has seen.
# Are the results equal bit by bit, nearly equal, or different?

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
    print(f"images {number}: exported {agrees(exported, cnn, batch)}, changed {agrees(altered, cnn, batch)}")

print("against train mode:", agrees(exported, copy.deepcopy(cnn).train(), batch))

# %% [markdown]
# Nearly equal. Two runtimes add in different orders and fold different things, so the last digits differ; `rtol=1e-3`
# and `atol=1e-5` are usual tolerances for float32. Four things make the test strong: eval mode, inputs other than the
# example, sizes other than the example's, and shapes compared before numbers (NumPy broadcasts).
#
# **Predict.** Is the file larger than what `torch.save(cnn.state_dict(), …)` writes? Is onnxruntime faster than PyTorch
# on one thread, for 1 image and for 4096? Your times will differ.


# %% varies="times and sizes"
def microseconds(function) -> float:
    """The best of five rounds."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(20):
            function()
        best = min(best, (time.perf_counter() - start) / 20)
    return best * 1e6


saved = io.BytesIO()
torch.save(cnn.state_dict(), saved)
print(f"state_dict {len(saved.getvalue()):,} bytes")
file = cnn_program.model_proto.SerializeToString()
print(f"ONNX       {len(file):,} bytes")

options = ort.SessionOptions()
options.intra_op_num_threads, threads = 1, torch.get_num_threads()
torch.set_num_threads(1)
on_one_thread = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
for number in (1, 64, 4096):
    batch = torch.randn(number, 1, 8, 8)
    array = batch.numpy()
    with torch.inference_mode():
        eager = microseconds(lambda batch=batch: cnn(batch))
    runtime = microseconds(lambda array=array: on_one_thread.run(None, {"image": array}))
    print(f"images {number:4}: PyTorch {eager:5.0f} µs, onnxruntime {runtime:5.0f} µs")
torch.set_num_threads(threads)

# %% [markdown]
# The file holds the graph as well, which counts only where the weights are small. As for the times: with one image
# most of PyTorch's time goes into Python and into calling one operator after the other; the runtime has planned the
# whole graph beforehand and fused what it could. The advantage shrinks as the single operators get more to do. Measure
# your own model, with the batch size that you will use.

# %% [markdown]
# ### Exercise 9.5 · Is the exported model the same function?
#
# implement · solid · 20 min · 3 points
#
# An export that succeeds has proved nothing yet. Write the check that you run after each one, with inputs of
# several sizes.
#
# **Contract**
#
# - Checks the file against the eval form of `model` for each tensor of `inputs`, and returns the problems that it
#   found as a list of strings; an empty list if there are none.
# - Every entry begins with its kind: `checker:` where `onnx.checker` refuses the file (then nothing is run), `run:`
#   where onnxruntime refuses an input, `shape:` or `value:` where an output differs. The last three tell the index
#   of the input.
# - All inputs are tried and all outputs compared, also after a problem. The model returns a tensor or a tuple of
#   tensors.
# - Shapes must be equal, not merely fit. Values may differ by `atol + rtol * |value|`; NaN against a number is a
#   difference.
# - Without inputs nothing would be verified: `ValueError`.
# - The training flags of all submodules, the parameters and the buffers are as before; no gradient is tracked.
#
# <details><summary>Hint 1</summary>
#
# What does `check_model` not look at? What happens when you compare a result of shape `(N, 1)` with one of shape
# `(1, N)`?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The checker first, then one session. For each input run the model in eval mode under `no_grad`, and the session in
# a `try`. Compare shapes exactly, then `np.allclose`, for which NaN differs from everything. Put the flags back in
# `finally`.
#
# </details>


# %% answer="verify-export"
def verify_onnx(
    path: str, model: nn.Module, inputs: Sequence[Tensor], rtol: float = 1e-3, atol: float = 1e-5
) -> list[str]:
    """The problems of the file at path, compared with model.eval() on each of the inputs."""
    ### BEGIN SOLUTION
    if not inputs:
        raise ValueError("without inputs nothing is verified")
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    session, problems = ort.InferenceSession(path), []
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for number, x in enumerate(inputs):
            with torch.no_grad():
                expected = model(x)
            try:
                came = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
            except Exception as error:
                problems.append(f"run: input {number}: {error}")
                continue
            expected = [expected] if isinstance(expected, Tensor) else expected
            for k, (a, b) in enumerate(zip(came, expected, strict=True)):
                if a.shape != tuple(b.shape):
                    problems.append(f"shape: input {number}, output {k}: {a.shape} instead of {tuple(b.shape)}")
                elif not np.allclose(a, b.numpy(), rtol=rtol, atol=atol):
                    problems.append(f"value: input {number}, output {k} differs")
    finally:
        for module, training in flags:
            module.training = training
    return problems
    ### END SOLUTION


# %% check="verify-export" points=2
"""A good file passes; other weights, sizes, shapes and outputs are found, each with its kind."""
with check("verify-export") as test:

    class Net(nn.Module):
        """A linear layer and dropout; what it returns depends on the kind."""

        def __init__(self, kind):
            super().__init__()
            self.kind, self.linear, self.dropout = kind, nn.Linear(3, 2), nn.Dropout(0.5)
            with torch.no_grad():
                self.linear.weight.copy_(torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]]))
                self.linear.bias.copy_(torch.tensor([0.25, -0.75]))

        def forward(self, x):
            h = self.dropout(self.linear(x))
            if self.kind == "branch":
                return h if x.shape[0] > 2 else h * 1.5
            if self.kind == "column":
                return x.sum(1, keepdim=True) * 0 + 4
            if self.kind == "two":
                return h, h + 1
            return h + float("nan") if self.kind == "nan here" else h

    def write(path, kind, scale=1.0, shift=0.0):
        """Write a file with the linear layer, scaled and shifted, and what is wrong with this kind of file."""
        weight = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]], np.float32) * scale
        bias = np.array([0.25, -0.75], np.float32) * scale + shift
        if kind == "weight":
            weight[1, 2] += 0.05
        if kind == "small":
            bias[0] += 0.003  # the output -0.75, beside -7.25
        constants = {"w": weight, "b": bias, "one": np.float32(1), "nan": np.float32("nan"), "four": np.float32([[4]])}
        if kind == "second":
            constants["one"] = np.float32(1.1)
        linear = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
        nodes, outputs = [linear], {"y": ["batch", 2]}
        if kind in ("two", "second"):
            nodes, outputs = (
                [linear, onnx.helper.make_node("Add", ["y", "one"], ["z"])],
                {"y": ["batch", 2], "z": ["batch", 2]},
            )
        if kind == "nan":
            nodes[0].output[0] = "h"
            nodes.append(onnx.helper.make_node("Add", ["h", "nan"], ["y"]))
        if kind == "row":
            nodes = [
                onnx.helper.make_node("ReduceSum", ["x", "last"], ["s"], keepdims=1),
                onnx.helper.make_node("Mul", ["s", "zero"], ["n"]),
                onnx.helper.make_node("Add", ["n", "four"], ["column"]),
                onnx.helper.make_node("Transpose", ["column"], ["y"]),
            ]
            constants |= {"last": np.array([1]), "zero": np.float32(0)}
            outputs = {"y": [1, "batch"]}
        rows = 3 if kind == "rows" else "batch"
        floats = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            nodes,
            "net",
            [onnx.helper.make_tensor_value_info("x", floats, [rows, 3])],
            [onnx.helper.make_tensor_value_info(name, floats, shape) for name, shape in outputs.items()],
            [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        onnx.save(model, path)

    def problems(verify, of_model, of_file, sizes, training=False, how=(), scale=1.0, shift=0.0):
        """What is found for inputs of these numbers of rows."""
        inputs = [(torch.arange(3.0 * rows) % 7 - 2.5).reshape(rows, 3) for rows in sizes]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            write(path, of_file, scale, shift)
            came = verify(path, Net(of_model).train(training), inputs, **dict(how))
        listed = isinstance(came, (list, tuple)) and all(isinstance(one, str) for one in came)
        return {"type": type(came).__name__, "found": [str(one) for one in came] if listed else None}

    def kinds_of(seen):
        """The kinds of the entries, and the whole numbers in each."""
        digits = ["".join(c if c.isdigit() else " " for c in entry).split() for entry in seen["found"]]
        return [(entry.split(":")[0], numbers) for entry, numbers in zip(seen["found"], digits, strict=True)]

    def judge(seen, expected, sentence):
        """Judge the entries: expected are pairs of a kind and the index of an input."""
        seen.expecting(
            mistake(
                "An exception from the checker or the runtime ended the verification: it must become an entry of the "
                "list.",
                raises="ONNXRuntimeError|InvalidArgument|ValidationError|InvalidGraph",
            ),
        )
        seen.that(
            seen["type"] == "list" and seen["found"] is not None, "The result must be a list of strings.", stage="type"
        )
        came = kinds_of(seen)
        odd = [kind for kind, _ in came if kind not in ("checker", "run", "shape", "value")]
        seen.that(not odd, "Every entry begins with its kind: checker:, run:, shape: or value:.")
        seen.that([kind for kind, _ in came] == [kind for kind, _ in expected], sentence)
        told = all(str(index) in numbers for (_, numbers), (_, index) in zip(came, expected, strict=True))
        seen.that(told, "Every entry must tell the index of its input, and the entries follow the order of the inputs.")

    test("a file that differs by rounding only: no problems for 1, 3 and 7 rows")
    exact = (
        "A good file is refused. Bit equality is too strict: the runtimes add in different order. Use rtol and atol."
    )
    judge(observe_scenario(problems, verify_onnx, "plain", "plain", [1, 3, 7], False, (), 1 + 1e-5), [], exact)

    test("the same, for a model in training mode")
    train = "The PyTorch side ran in training mode: dropout and batch statistics differ from the export."
    judge(observe_scenario(problems, verify_onnx, "plain", "plain", [1, 3, 7], True), [], train)

    test("one weight was changed by 0.05")
    seen = observe_scenario(problems, verify_onnx, "plain", "weight", [1, 3, 7])
    seen.expecting(
        mistake(
            "The checker only looks at the structure: a file with altered weights passes it. Compare numbers.",
            when=lambda seen: seen["found"] == [],
        ),
        mistake("All inputs are tried, also after a problem.", when=lambda seen: len(seen["found"]) == 1),
    )
    judge(seen, [("value", 0), ("value", 1), ("value", 2)], "Each of the three inputs must give one entry `value:`.")

    test("the file takes 3 rows and no other number")
    one_input = "Only one input was compared; a baked batch or branch shows up only with others, and must be `run:`."
    judge(observe_scenario(problems, verify_onnx, "plain", "rows", [3, 1, 7]), [("run", 1), ("run", 2)], one_input)

    ### BEGIN HIDDEN TESTS
    test.hidden("a baked branch: right for 3 rows, wrong for 1")
    sizes = [3, 4, 5, 3, 4, 5, 3, 1]
    judge(observe_scenario(problems, verify_onnx, "branch", "plain", sizes), [("value", 7)], one_input)

    test.hidden("an output of shape (1, N) instead of (N, 1), equal numbers")
    broadcast = (
        "An output of shape (1, N) where (N, 1) is expected must be a problem `shape:`, though NumPy compares the two "
        "by broadcasting. Compare shapes first."
    )
    seen = observe_scenario(problems, verify_onnx, "column", "row", [3, 1, 4])
    judge(seen, [("shape", 0), ("shape", 2)], broadcast)

    nan = "NaN slipped through: a comparison like (diff > tol).any() is False for NaN."
    for idea, of_model, of_file in [
        ("NaN where a number is expected", "plain", "nan"),
        ("a number where NaN is expected", "nan here", "plain"),
    ]:
        test.hidden(idea)
        judge(observe_scenario(problems, verify_onnx, of_model, of_file, [2]), [("value", 0)], nan)

    test.hidden("the second output differs")
    outputs = "Only the first output was compared."
    judge(observe_scenario(problems, verify_onnx, "two", "second", [2, 5]), [("value", 0), ("value", 1)], outputs)

    test.hidden("two outputs, both right")
    judge(observe_scenario(problems, verify_onnx, "two", "two", [2, 5]), [], "A good file with two outputs is refused.")

    test.hidden("one small number differs, by little, beside a large one")
    each = "Each number has a tolerance of its own, atol + rtol * |value|: here a small one differs by more than that."
    judge(observe_scenario(problems, verify_onnx, "plain", "small", [1]), [("value", 0)], each)

    tolerances = "The tolerances rtol and atol, or their default values, are not used."
    for idea, how, scale, shift, good in [
        ("a wider rtol", {"rtol": 0.1}, 1.05, 0.0, True),
        ("a narrower rtol", {"rtol": 1e-5}, 1.0005, 0.0, False),
        ("rtol by default: a difference of 0.05 per cent", {}, 1.0005, 0.0, True),
        ("rtol by default: a difference of 0.3 per cent", {}, 1.003, 0.0, False),
        ("a wider atol", {"atol": 0.1, "rtol": 0.0}, 1.0, 0.05, True),
        ("a narrower atol", {"atol": 1e-6, "rtol": 0.0}, 1.0, 1e-4, False),
        ("atol by default", {"rtol": 0.0}, 1.0, 3e-5, False),
        ("atol by default, a smaller difference", {"rtol": 0.0}, 1.0, 5e-6, True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(problems, verify_onnx, "plain", "plain", [2], False, tuple(how.items()), scale, shift)
        judge(seen, [] if good else [("value", 0)], tolerances)
    ### END HIDDEN TESTS

# %% check="verify-export" points=1
"""Refused files and empty lists; the model comes out as it went in."""
with check("verify-export") as test:

    class Noting(nn.Module):
        """Keeps whether gradients were tracked while it ran."""

        tracked: ClassVar = []

        def forward(self, x):
            self.tracked.append(torch.is_grad_enabled() or x.requires_grad)
            return x

    def write(path, kind):
        """Write a file that gives its input back; kinds with a node without input, without a graph's name."""
        floats = onnx.TensorProto.FLOAT
        node = onnx.helper.make_node("Identity", ["nobody" if kind == "no input" else "x"], ["y"])
        sides = [[onnx.helper.make_tensor_value_info(name, floats, ["batch", 3])] for name in ("x", "y")]
        graph = onnx.helper.make_graph([node], "" if kind == "no name" else "graph", *sides)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        Path(path).write_bytes(b"no model" if kind == "no model" else model.SerializeToString())

    def condition_of(model):
        """What must stay as it is."""
        tensors = [t.tolist() for t in (*model.parameters(), *model.buffers())]
        return {"flags": [module.training for module in model.modules()], "tensors": tensors}

    def verified(verify, kind, rows, breaks_for=0):
        """Verify a file for inputs of so many rows, with a model that does nothing in eval mode."""
        model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3, eps=0.0), Noting())
        if breaks_for:
            model.append(nn.Unflatten(0, (breaks_for, -1)))
        model[0].eval()
        Noting.tracked.clear()
        inputs = [torch.ones(n, 3) + torch.arange(3.0) for n in rows]
        before = condition_of(model)
        facts = {"raised": [], "type": "", "found": None}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            write(path, kind)
            try:
                came = verify(path, model, inputs)
                facts["type"] = type(came).__name__
                if isinstance(came, list):
                    facts["found"] = [one if isinstance(one, str) else "" for one in came]
            except NotImplementedError:
                raise
            except Exception as error:
                if rows and not breaks_for:
                    raise
                facts["raised"] = [one.__name__ for one in type(error).__mro__]
        after = condition_of(model)
        facts["changed"] = [name for name, value in before.items() if after[name] != value]
        return facts | {"tracked": any(Noting.tracked), "runs": len(Noting.tracked)}

    crash = mistake(
        "An exception from the checker or the runtime ended the verification: it must become an entry of the list.",
        stage="raised",
    )
    flags = "The model, or a frozen layer of it, is in another mode afterwards: put back each flag."

    def judge_model(seen):
        """Judge that the model has not changed."""
        seen.that("flags" not in seen["changed"], flags, stage="arguments")
        seen.that(not seen["changed"], "Parameters or buffers of the model have changed.", stage="arguments")

    test("a model in training mode with a layer in eval mode: it comes out as it went in")
    seen = observe_scenario(verified, verify_onnx, "good", [2, 5])
    judge_model(seen)

    test("a node whose input nobody makes")
    seen = observe_scenario(verified, verify_onnx, "no input", [2, 5]).expecting(crash)
    no_checker = "A file that onnx.checker refuses must be reported as one entry `checker:`."
    seen.that(bool(seen["found"]) and all(one.startswith("checker:") for one in seen["found"]), no_checker)

    ### BEGIN HIDDEN TESTS
    test.hidden("a good file, no gradient is tracked")
    seen = observe_scenario(verified, verify_onnx, "good", [2, 5])
    seen.that(seen["found"] == [], "A good file is refused.")
    seen.that(not seen["tracked"], "Gradients are tracked: run the model under no_grad.", stage="gradient")

    for idea, kind in [
        ("a file that the checker refuses and onnxruntime would run", "no name"),
        ("a file that is no model", "no model"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(verified, verify_onnx, kind, [2, 5]).expecting(crash)
        refused = bool(seen["found"]) and all(one.startswith("checker:") for one in seen["found"])
        seen.that(refused and len(seen["found"]) == 1, no_checker)
        seen.that(seen["runs"] == 0, "Where the checker refuses the file, nothing is run.", stage="rule")

    for idea, kind in [("no inputs", "good"), ("no inputs and a broken file", "no input")]:
        test.hidden(idea)
        seen = observe_scenario(verified, verify_onnx, kind, [])
        if kind == "good" or seen["raised"]:
            empty = "No inputs means that nothing was verified: ValueError."
            seen.that("ValueError" in seen["raised"], empty, stage="raised")

    test.hidden("a model that raises for an input: the flags are put back all the same")
    judge_model(observe_scenario(verified, verify_onnx, "good", [4, 3], 2))
    ### END HIDDEN TESTS

# %% [markdown]
# ## 9.7 Python that gets baked in
#
# The exporter saw shapes, but no numbers, and it saw them once. So what becomes of `if` and `for`?
#
# **Predict.** `x * 2 if x.shape[0] > 2 else x * 3` is exported with 4 rows and a dynamic batch. What do PyTorch and
# onnxruntime make of ones with 1, 2 and 3 rows?


# %%
class BranchOnShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 2 else x * 3


def export_by_batch(model: nn.Module, example: Tensor) -> torch.onnx.ONNXProgram:
    return export(model.eval(), (example,), **by_batch)


branch = BranchOnShape()
branch_program = export_by_batch(branch, torch.ones(4, 1))
session = session_of(branch_program)

for rows in (1, 2, 3):
    x = torch.ones(rows, 1)
    (out,) = session.run(None, {"x": x.numpy()})
    print(f"rows {rows}: PyTorch {branch(x)[0].item()}, onnxruntime {out[0].item()}")
print("checker:", onnx.checker.check_model(branch_program.model_proto))
print("nodes:  ", " ".join(node.op_type for node in branch_program.model_proto.graph.node))

# %% [markdown]
# A branch on a *shape* is decided during the export, silently: 4 > 2, so only `x * 2` is in the graph. For 1 and 2
# rows the answer is wrong, and nothing says so. Only a comparison for other sizes finds it.
#
# **Predict.** And a branch on a *value*, `if x.sum() > 0`?


# %%
class BranchOnValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x * 3


refusal_of(lambda: export_by_batch(BranchOnValue(), torch.ones(4, 1)), lines=1)

# %% [markdown]
# Refused. A FakeTensor has no values, so nobody can say whether the sum is positive: `GuardOnDataDependentSymNode`.
# Of the two, this is the friendlier outcome.
#
# **Predict.** There are two ways to write such a decision so that it is taken anew for each input. Which operators do
# you expect in the two graphs?


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
    results = [session.run(None, {"x": np.full((1, 1), value, np.float32)})[0].item() for value in (1, -1)]
    print(f"{type(model).__name__:8} 1 -> {results[0]}, -1 -> {results[1]}  ", end="")
    print(" ".join(node.op_type for node in program.model_proto.graph.node))

# %% [markdown]
# `torch.where` computes both results and selects; `torch.cond` becomes an `If` node with two small graphs inside, of
# which only one runs. `where` is simple and fast; `cond` pays when a branch is expensive.
#
# Now loops. Section 9.3 showed one that fixed the number of steps. Here is what the exporter made of it, for the five
# steps of the example:

# %%
print(" ".join(node.op_type for node in surprise.model_proto.graph.node))

# %% [markdown]
# The loop is gone; its rounds stand there one after the other. **Predict.** `Decay` is a sum in which x[:, s] has
# weight 0.5 to the power of T - 1 - s. How would you write it without a loop, so that `time` may be dynamic?


# %% facts=["09-no-inplace-on-shape"]
class DecayBySum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[1]
        steps -= 1
        lag = steps - torch.arange(x.shape[1], device=x.device)
        return (x * 0.5**lag).sum(1)


free = export(DecayBySum().eval(), (torch.ones(2, 5),), dynamic_shapes=({0: "batch", 1: "time"},))
session = session_of(free)
print("declared:", session.get_inputs()[0].shape)

for size in ((2, 5), (1, 1), (3, 12)):
    x = torch.randn(size, generator=torch.Generator().manual_seed(0))
    (out,) = session.run(None, {"x": x.numpy()})
    print(size, "agrees with the loop:", np.allclose(out, Decay()(x).numpy(), atol=1e-5))

# %% [markdown]
# With tensors in place of a loop the number of steps stays a symbol: `torch.arange(x.shape[1])` becomes a `Range`
# node that reads the size at run time. Changing such a number (`steps -= 1`) is fine, although old advice forbids it;
# the old tracer was at a loss only with loops. When a step needs the result before it, a matrix of weights, in which
# everything above the diagonal is 0, does the same for all steps at once.
#
# **Predict.** Not everything is so accommodating. `torch.linspace(0, 1, x.shape[1])`, with `time` dynamic?


# %%
class Ramp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.linspace(0, 1, x.shape[1])


refusal_of(lambda: export(Ramp().eval(), (torch.ones(4, 5),), dynamic_shapes=({1: "time"},)))

# %% [markdown]
# The same message as for the loop: `linspace` needs a plain number, so the 5 was fixed. And a number that you write
# yourself, as in `x.view(4, -1)`, is exported as faithfully as it runs in PyTorch: with 8 rows you still get 4. Take
# sizes from `x.shape`, or let -1 be the batch.
#
# **Predict.** What about NumPy inside `forward`? The cell exports `x * np.exp(x)`, written with `.numpy()`, with both
# exporters.


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
    print(f"{name}: {' '.join(node.op_type for node in model.graph.node):13} f(2) = {out[0, 0]:.3f}")
print(f"PyTorch:           f(2) = {UsesNumpy()(torch.full((1, 3), 2.0))[0, 0]:.3f}")

# %% [markdown]
# To the old exporter the result of NumPy was a constant: it kept exp(1) of the example. The new one translates plain
# NumPy calls. Torch operations are still the safer choice.
#
# One more habit to lose is `tensor.data`. `torch.export` refuses it; `detach()` goes through:


# %% facts=["09-avoid-tensor-data-in-model"]
class UsesData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.data * 2 + x


class UsesDetach(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.detach() * 2 + x


refusal_of(lambda: torch.export.export(UsesData(), (torch.ones(2, 3),)), lines=1)
print(type(torch.export.export(UsesDetach(), (torch.ones(2, 3),))).__name__)

# %% [markdown]
# All in one table:
#
# | in `forward` | during the export | at run time |
# |---|---|---|
# | `if x.shape[0] > 2` | decided, silently | one branch is left, for all sizes |
# | `if x.sum() > 0` | refused | |
# | `for t in range(x.shape[1])` | unrolled, and the size is fixed | always as many steps |
# | `x.view(4, -1)` | kept as it is | always 4 |
# | `torch.where`, `torch.cond` | recorded | decided for each input |
# | `torch.arange(x.shape[1])` | recorded, with a symbol | follows the size |
#
# The explorer puts it together. Choose a model, declare dimensions dynamic, and look how a name travels along the
# edges; then move the sliders of the sizes to *run*, and compare PyTorch with onnxruntime. It opens with the branch
# on a shape, at 2 rows. For which numbers of rows do the two differ?

# %%
onnx_explorer()

# %% [markdown]
# ### Exercise 9.6 · Four samples of five steps, for ever
#
# fix · solid · 15 min · 2 points
#
# This model pools the steps of a sequence, with weights that grow along time. It was written for a batch of 4 with
# 5 steps, and knows nothing else. Repair it, so that it runs with any batch and any number of steps, and can be
# exported like that.
#
#     class Pooler(nn.Module):                       # (N, T, 6) -> (N, 3), but only for N = 4, T = 5
#         def __init__(self):
#             super().__init__()
#             self.proj = nn.Linear(6, 3)
#             self.start = torch.zeros(4, 3)
#
#         def forward(self, x):
#             h = self.proj(x.view(20, 6)).view(4, 5, 3)
#             w = (torch.zeros(4, 5) + torch.arange(5) / 4).softmax(1)
#             return (h * w.unsqueeze(2)).sum(1) + self.start
#
# **Contract**
#
# - The same result as above for `(4, 5, 6)`. For other sizes the weights are the softmax over t of `t / (T - 1)`; a
#   single step has weight 1. The start values stay zero.
# - The keys of `state_dict()` are still `proj.weight` and `proj.bias`.
# - x need not be contiguous. The result has x's dtype (after `.double()` too) and lies on x's device.
# - It exports with `dynamic_shapes=({0: "batch", 1: "time"},)`, and onnxruntime gives the same numbers for every N
#   and T, 1 included.
#
# **Rule.** No Python branch or loop on a shape: both are decided once, during export. (The check exports, and runs
# other sizes.)
#
# <details><summary>Hint 1</summary>
#
# Which of the numbers 4, 5 and 20 in the code are properties of the model, and which belong to one batch?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `nn.Linear` works on the last dimension, so no view is needed. Make the weights as a vector of length
# `x.shape[1]`, with x's dtype and device, and let it broadcast; `clamp(min=1)` keeps the division safe. The start
# values need no batch dimension at all.
#
# </details>


# %% answer="baked-batch"
### BEGIN SOLUTION
class Pooler(nn.Module):
    """The steps of each sample, projected and added up with weights that grow along time: (N, T, 6) -> (N, 3)."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        weights = (steps / steps[-1].clamp(min=1)).softmax(0)
        return (self.proj(x) * weights.unsqueeze(1)).sum(1)


### END SOLUTION
### BEGIN GIVEN
# class Pooler(nn.Module):
#     """The steps of each sample, projected and added up with weights that grow along time: (N, T, 6) -> (N, 3)."""
#
#     def __init__(self):
#         super().__init__()
#         self.proj = nn.Linear(6, 3)
#         self.start = torch.zeros(4, 3)
#
#     def forward(self, x: Tensor) -> Tensor:
#         raise NotImplementedError  # repair the code above and below, then delete this line
#         h = self.proj(x.view(20, 6)).view(4, 5, 3)
#         w = (torch.zeros(4, 5) + torch.arange(5) / 4).softmax(1)
#         return (h * w.unsqueeze(2)).sum(1) + self.start
### END GIVEN


# %% check="baked-batch" points=1
"""The old numbers, other batches and lengths, in PyTorch."""
with check("baked-batch") as test:

    def filled(*size):
        """Numbers between -1 and 1 without a pattern."""
        count = torch.Size(size).numel()
        return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)

    def pooled(make, x, sliced=False):
        """Run the model on x, in x's dtype and on x's device; note the result, or what was raised."""
        model = make()
        keys, named = sorted(model.state_dict()), dict(model.named_parameters())
        facts = {"keys": keys, "raised": "", "result": None, "grad": None}
        if keys != ["proj.bias", "proj.weight"] or set(keys) != set(named):
            return facts
        with torch.no_grad():
            named["proj.weight"].copy_(filled(3, 6))
            named["proj.bias"].copy_(filled(3) + 0.5)
        model = model.to(x.device, x.dtype)
        if sliced:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        try:
            came = model(x.requires_grad_())
        except NotImplementedError as error:
            if not str(error):
                raise
            facts["raised"] = f"{type(error).__name__}: {error}"
            return facts
        except Exception as error:
            facts["raised"] = f"{type(error).__name__}: {error}"
            return facts
        if isinstance(came, Tensor) and came.requires_grad and came.device.type == "cpu":
            facts["grad"] = torch.autograd.grad(came.sum(), x, allow_unused=True)[0]
        facts["result"] = came.detach() if isinstance(came, Tensor) else came
        return facts

    def weights_of(steps):
        """The weights of the contract, one by one."""
        grown = [torch.tensor(t / (steps - 1) if steps > 1 else 0.0, dtype=torch.float64).exp() for t in range(steps)]
        return [one / sum(grown) for one in grown]

    def expected(x):
        """The pooled steps, in float64."""
        h = x.detach().double() @ filled(3, 6).double().t() + (filled(3) + 0.5).double()
        return sum(weight * h[:, t] for t, weight in enumerate(weights_of(x.shape[1])))

    state = "The keys of state_dict() changed: nothing that depends on a batch belongs into the state."

    def judge(seen, x, sentence, rtol=1e-4, atol=1e-5):
        """Judge the result for x."""
        seen.that(seen["keys"] == ["proj.bias", "proj.weight"], state)
        seen.that(not seen["raised"], sentence, stage="raised")
        seen.that(isinstance(seen["result"], Tensor), "forward must return a tensor.", stage="type")
        truth, came = expected(x), seen["result"]
        seen.that(came.shape == truth.shape, sentence, stage="shape")
        dtype = "The result does not follow x: tensors made in forward need dtype and device of x."
        seen.that(came.dtype == x.dtype, dtype, stage="dtype")
        seen.that(torch.allclose(came.double(), truth, rtol=rtol, atol=atol), sentence)

    same_values = "For (4, 5, 6) the numbers differ from those of the given class."
    batch_baked = (
        "The batch size is still fixed: by a constant 4, a view(4, ...), or a tensor that was built for four samples."
    )
    time_baked = (
        "The number of steps is still fixed, or its weights are not those of the contract: 5 comes from x.shape[1]."
    )
    one_step = "For a single step 0 / 0 gives nan: its weight is 1."
    contiguous = "An x that is not contiguous must work; view needs a matching memory layout."

    test("the old numbers for 4 samples of 5 steps")
    x = filled(4, 5, 6)
    judge(observe_scenario(pooled, Pooler, x), x, same_values)

    test("other batch sizes")
    for size in (2, 7, 1):
        x = filled(size, 5, 6)
        judge(observe_scenario(pooled, Pooler, x), x, batch_baked)

    test("other lengths")
    for steps in (3, 8, 2):
        x = filled(4, steps, 6)
        judge(observe_scenario(pooled, Pooler, x), x, time_baked)

    test("a single step")
    x = filled(4, 1, 6)
    judge(observe_scenario(pooled, Pooler, x), x, one_step)

    ### BEGIN HIDDEN TESTS
    test.hidden("an x that is not contiguous")
    for x in (filled(4, 5, 6), filled(3, 2, 6)):
        judge(observe_scenario(pooled, Pooler, x, True), x, contiguous)

    test.hidden("4 by 5 exchanged, and as many steps as outputs")
    for x in (filled(5, 4, 6), filled(3, 3, 6), filled(6, 6, 6)):
        judge(observe_scenario(pooled, Pooler, x), x, time_baked)

    follows = "The result does not follow x: tensors made in forward need dtype and device of x."
    test.hidden("float64, and bfloat16")
    x = filled(3, 4, 6).double()
    judge(observe_scenario(pooled, Pooler, x), x, follows, rtol=1e-6, atol=1e-7)
    x = filled(3, 4, 6).bfloat16()
    judge(observe_scenario(pooled, Pooler, x), x, follows, rtol=0.05, atol=0.05)

    test.hidden("the gradient reaches x")
    x = filled(2, 3, 6)
    seen = observe_scenario(pooled, Pooler, x)
    grad = torch.stack([weight.float() * filled(3, 6).sum(0) for weight in weights_of(3)]).expand(2, 3, 6)
    reached = isinstance(seen["grad"], Tensor) and torch.allclose(seen["grad"], grad, rtol=1e-4, atol=1e-5)
    seen.that(reached, "The gradient of x is missing or wrong.", stage="gradient")

    test.hidden("another device: everything that forward makes lies where x lies")
    seen = observe_scenario(pooled, Pooler, torch.empty(2, 3, 6, device="meta"))
    seen.that(not seen["raised"], follows, stage="device")
    seen.that(isinstance(seen["result"], Tensor) and seen["result"].device.type == "meta", follows, stage="device")
    ### END HIDDEN TESTS

# %% check="baked-batch" points=1
"""Exported with a dynamic batch and time, and run with other sizes."""
with check("baked-batch") as test:

    def filled(*size):
        """Numbers between -1 and 1 without a pattern."""
        count = torch.Size(size).numel()
        return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)

    def exported(make, example, *others):
        """Export a model, and run the file and the model on others; without the modes that record operations."""
        model = make().eval()
        model(example.clone())
        state = {name: one.detach().clone() for name, one in model.state_dict().items()}
        facts = {"refused": "", "shape": [], "state": state}
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            try:
                how = {"dynamic_shapes": ({0: "batch", 1: "time"},), "verbose": False}
                program = torch.onnx.export(model, (example.clone(),), **how)
                session = ort.InferenceSession(program.model_proto.SerializeToString())
            except Exception as error:
                facts["refused"] = f"{error} {error.__cause__}"
                return facts
        facts |= {"shape": list(session.get_inputs()[0].shape), "onnx": [], "torch": []}

        def result_of(run):
            try:
                return torch.as_tensor(run()).detach().clone()
            except Exception as error:
                return str(error)

        for x in others:
            feed = {session.get_inputs()[0].name: x.numpy()}
            facts["onnx"].append(result_of(lambda feed=feed: session.run(None, feed)[0]))
            facts["torch"].append(result_of(lambda x=x: model(x.clone())))
        return facts

    def expected(x, state):
        """The pooled steps for these weights and biases, in float64."""
        weight, bias = state["proj.weight"].double(), state["proj.bias"].double()
        steps = x.shape[1]
        grown = [torch.tensor(t / (steps - 1) if steps > 1 else 0.0, dtype=torch.float64).exp() for t in range(steps)]
        return sum(one / sum(grown) * (x[:, t].double() @ weight.t() + bias) for t, one in enumerate(grown))

    batch_baked = (
        "The batch size is still fixed: by a constant 4, a view(4, ...), or a tensor that was built for four samples."
    )
    specialised = (
        "'tracing inferred a static shape': something turned a dynamic size into a plain number, such as a Python loop "
        "over range(T), or an op that needs one (torch.linspace does)."
    )
    branch = "A Python `if` on a shape was decided during export; other sizes silently take the same branch."
    known = [
        mistake(batch_baked, raises="size of tensor|shape '|is invalid for input"),
        mistake(
            batch_baked,
            when=lambda seen: "inferred a static shape" in seen["refused"] and "shape[0]" in seen["refused"],
        ),
        mistake(specialised, when=lambda seen: "inferred a static shape" in seen["refused"]),
    ]

    def close(came, truth):
        """Whether a result is so, nan where nan is."""
        fits = isinstance(came, Tensor) and isinstance(truth, Tensor) and came.shape == truth.shape
        return fits and torch.allclose(came.double(), truth.double(), rtol=1e-3, atol=1e-5, equal_nan=True)

    def judge_runs(seen, which, sentence):
        """Judge what onnxruntime gave for some of the inputs."""
        for x, came, own in list(zip([*inputs, *more], seen["onnx"], seen["torch"], strict=True))[which]:
            model = "The file does what your class does, but that is not the contract's function for this size."
            same = mistake(model, when=lambda seen, came=came, own=own: close(came, own))
            seen.that(close(came, expected(x, seen["state"])), sentence, same)

    test("an export with a dynamic batch and time, run with (4, 5), (2, 5) and (4, 7)")
    inputs = [filled(4, 5, 6), filled(2, 5, 6), filled(4, 7, 6)]
    more = [filled(9, 12, 6), filled(3, 2, 6), filled(1, 5, 6), filled(1, 1, 6), filled(6, 1, 6)]
    seen = observe_scenario(exported, Pooler, inputs[0], *inputs, *more).expecting(*known)
    keys = "The keys of state_dict() changed: nothing that depends on a batch belongs into the state."
    seen.that(sorted(seen["state"]) == ["proj.bias", "proj.weight"], keys)
    seen.that(not seen["refused"], "The exporter refuses this model: try it, and read the end of its message.")
    seen.that(seen["shape"] == ["batch", "time", 6], specialised, stage="shape")
    judge_runs(seen, slice(3), "onnxruntime does not give the numbers of the contract for these sizes.")

    ### BEGIN HIDDEN TESTS
    test.hidden("(9, 12), (3, 2) and a single sample")
    judge_runs(seen, slice(3, 6), branch)

    test.hidden("a single step")
    judge_runs(seen, slice(6, None), branch)
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 9.7 · Could not guard on data-dependent expression
#
# debug · solid · 15 min · 3 points
#
# This layer runs, and can't be exported:
#
#     class Gate(nn.Module):                          # x: (N, D)
#         def forward(self, x):
#             if x.mean() > 0:
#                 return torch.log(x.clamp(min=1e-6))
#             return 0.1 / x
#
#     # torch.onnx.export -> TorchExportError, caused by
#     # GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1)
#
# The old exporter (`dynamo=False`) accepts it, and keeps only the branch that the example took.
#
# **Contract**
#
# - The same function as above: *one* decision for the whole batch, taken anew for every input, in PyTorch and in
#   onnxruntime after an export with a dynamic batch. A mean of exactly 0 takes the second branch, a mean of nan
#   too.
# - Where the branch not taken gives inf or nan (as the second one does for 0), nothing of it may leak into the
#   values or the gradients of the branch taken.
# - dtype and shape as x.
#
# **Rule.** The default exporter, no Python branch on values.
#
# <details><summary>Hint 1</summary>
#
# Can you compute both branches, and choose afterwards? What is inf times 0?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.where` with a condition without dimensions chooses for the whole tensor; or `torch.cond`, with two
# functions. With `where`, the slope of the branch not taken is multiplied by 0, and inf times 0 is nan: feed that
# branch with harmless numbers.
#
# </details>


# %% answer="branch-on-data"
### BEGIN SOLUTION
class Gate(nn.Module):
    """The logarithm of x where the mean of the batch is positive, else 0.1 / x: (N, D) -> (N, D)."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x.mean() > 0
        logarithm = torch.log(torch.where(positive, x, 1.0).clamp(min=1e-6))
        return torch.where(positive, logarithm, 0.1 / torch.where(positive, 1.0, x))


### END SOLUTION
### BEGIN GIVEN
# class Gate(nn.Module):
#     """The logarithm of x where the mean of the batch is positive, else 0.1 / x: (N, D) -> (N, D)."""
#
#     def forward(self, x: Tensor) -> Tensor:
#         raise NotImplementedError  # repair the code below, then delete this line
#         if x.mean() > 0:
#             return torch.log(x.clamp(min=1e-6))
#         return 0.1 / x
### END GIVEN


# %% check="branch-on-data" points=3
"""Both branches, decided anew for each batch, in PyTorch and after the export; nothing leaks."""
with check("branch-on-data") as test:

    def gated(make, *inputs):
        """Run the layer on inputs, with gradients, without the modes that record operations."""
        facts = {"results": [], "grads": []}
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            for x in inputs:
                x = x.clone().requires_grad_()
                came = make()(x)
                facts["results"].append(came.detach() if isinstance(came, Tensor) else came)
                tracked = isinstance(came, Tensor) and came.requires_grad
                facts["grads"].append(torch.autograd.grad(came.sum(), x)[0] if tracked else None)
        return facts

    def exported(make, example, *inputs):
        """Export the layer, and run the file on inputs."""
        facts = {"refused": "", "results": []}
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make().eval()
            model(example.clone())
            try:
                how = {"dynamic_shapes": ({0: "batch"},), "verbose": False}
                program = torch.onnx.export(model, (example.clone(),), **how)
            except Exception as error:
                facts["refused"] = f"{error} {error.__cause__}"
                return facts
        session = ort.InferenceSession(program.model_proto.SerializeToString())
        for x in inputs:
            try:
                facts["results"].append(torch.tensor(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]))
            except Exception as error:
                facts["results"].append(str(error))
        return facts

    def expected(x):
        """The given class."""
        return torch.log(x.clamp(min=1e-6)) if x.mean() > 0 else 0.1 / x

    def by_rows(x):
        """A decision for each row."""
        return torch.cat([expected(row[None]) for row in x])

    def by_columns(x):
        """A decision for each column."""
        return torch.cat([expected(column[:, None]) for column in x.t()], 1)

    def by_elements(x):
        """A decision for each element."""
        return torch.where(x > 0, torch.log(x.clamp(min=1e-6)), 0.1 / x)

    def same(came, truth):
        """Whether two results agree, nan where nan is."""
        fits = isinstance(came, Tensor) and came.shape == truth.shape and came.dtype == truth.dtype
        return fits and torch.allclose(came, truth, rtol=1e-4, atol=1e-6, equal_nan=True)

    leak = "inf or nan of the branch not taken leaked in: multiplying it by 0 gives nan. Select, don't multiply."
    one_branch = "Only one branch is there, or the decision was taken once, for the example."

    def judge(seen, inputs, results, sentence):
        """Judge the results for these inputs, each by its own look-alikes."""
        for x, came in zip(inputs, results, strict=True):
            seen.that(isinstance(came, Tensor), "forward must return a tensor, and the file must run.", stage="type")
            seen.that(came.shape == x.shape, "The result must have the shape of x.", stage="shape")
            seen.that(came.dtype == x.dtype, f"The result is {came.dtype}, x is {x.dtype}.", stage="dtype")
            truth = expected(x)
            named = [
                mistake(words, when=lambda seen, wrong=wrong, came=came, truth=truth: same(came, wrong))
                for words, wrong in [
                    ("The decision was made per element; it is one decision for the whole batch.", by_elements(x)),
                    ("The decision was made per row; it is one decision for the whole batch.", by_rows(x)),
                    ("The decision was made per column; it is one decision for the whole batch.", by_columns(x)),
                    (one_branch, torch.log(x.clamp(min=1e-6))),
                    (one_branch, 0.1 / x),
                ]
                if not same(wrong, truth)
            ]
            named.append(
                mistake(leak, when=lambda seen, came=came, truth=truth: bool((came.isnan() & ~truth.isnan()).any()))
            )
            seen.that(same(came, truth), sentence, *named)

    values = "The values differ from those of the given class."
    first = torch.tensor([[2.0, -0.5, 1.5], [0.25, 1.0, -3.0]])  # the mean is positive
    second = torch.tensor([[-2.0, 0.5, -1.5], [0.25, 1.0, -3.0]])  # the mean is negative, that of one element too
    rows = torch.tensor([[-2.0, -0.5, -1.5], [1.0, 2.0, 4.0], [0.5, 0.25, 0.125], [-0.5, 0.5, 1.0]])
    zeros = torch.tensor([[2.0, 0.0, 1.5], [0.0, -1.0, 3.0]])

    test("both branches, in PyTorch")
    inputs = [first, second, rows, -rows]
    seen = observe_scenario(gated, Gate, *inputs)
    judge(seen, inputs, seen["results"], values)

    test("both branches in onnxruntime, after an export with a dynamic batch")
    balanced = torch.tensor([[2.0, -2.0, 1.0], [-1.0, 0.5, -0.5]])  # the mean is 0
    unknown = torch.tensor([[2.0, float("nan"), 1.0]])
    many = torch.arange(3000.0).reshape(1000, 3) % 17 - 8.5
    infinite = torch.tensor([[-2.0, 0.0, -1.5], [0.25, 1.0, -3.0]])  # the second branch gives inf
    nearly = torch.tensor([[1.0, -1.5, 0.503]])  # the mean is 0.001
    more = [zeros, balanced, unknown, nearly, many + 1, many - 1, infinite]
    out = observe_scenario(exported, Gate, first, *inputs, *more)
    still = "The Python `if` needs a True or a False during export; FakeTensors have none. Choose with tensors."
    out.that(
        not out["refused"],
        "The exporter refuses this layer: try it, and read the end of its message.",
        mistake(still, when=lambda seen: "data-dependent" in seen["refused"] or "DataDependent" in seen["refused"]),
        mistake(
            "The batch size is fixed: something turned a dynamic size into a plain number.",
            when=lambda seen: "inferred a static shape" in seen["refused"],
        ),
    )
    judge(out, inputs, out["results"][:4], "After the export the values differ.")

    ### BEGIN HIDDEN TESTS
    test.hidden("zeros among the inputs of the first branch: 0.1 / 0 must not leak")
    zero = observe_scenario(gated, Gate, *more)
    judge(zero, [zeros], zero["results"][:1], leak)
    judge(out, [zeros], out["results"][4:5], leak)

    test.hidden("a mean of exactly zero, and of nan")
    boundary = mistake("A mean of 0 (and of nan) belongs to the second branch.", stage=("value", "type"))
    for one, results in ((zero, zero["results"][1:3]), (out, out["results"][5:7])):
        for x, came in zip([balanced, unknown], results, strict=True):
            one.that(same(came, 0.1 / x), "A mean of 0 (and of nan) belongs to the second branch.", boundary)

    test.hidden("the gradient of the branch taken is finite and right")
    for x, came in zip(
        [first, second, rows, -rows, zeros, balanced], [*seen["grads"], *zero["grads"][:2]], strict=True
    ):
        leaf = x.clone().requires_grad_()
        truth = torch.autograd.grad(expected(leaf).sum(), leaf)[0]
        seen.that(
            same(came, truth),
            "The gradient is wrong or missing.",
            mistake(
                "The gradient is nan although the value is right: where() multiplies the other branch's infinite slope "
                "by 0. Make that branch's input harmless first.",
                when=lambda seen, came=came: isinstance(came, Tensor) and bool(came.isnan().any()),
            ),
            stage="gradient",
        )

    test.hidden("one row, a thousand rows")
    judge(zero, more[3:6], zero["results"][3:6], values)
    judge(out, more[3:6], out["results"][7:10], "After the export the values differ.")

    test.hidden("a zero among the inputs of the second branch")
    kept = "In the second branch 0.1 / 0 is inf, as in the given class: only the branch not taken is made harmless."
    judge(zero, [infinite], zero["results"][6:], kept)
    judge(out, [infinite], out["results"][10:], kept)

    test.hidden("float64 stays float64")
    inputs = [first.double(), second.double()]
    seen = observe_scenario(gated, Gate, *inputs)
    judge(seen, inputs, seen["results"], values)
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 9.8 · A loop that the exporter unrolls
#
# fix · long · 25 min · 3 points
#
# Exponential smoothing along time, written as it is explained:
#
#     class Smooth(nn.Module):
#         def __init__(self, a=0.9):
#             super().__init__()
#             self.a = a
#
#         def forward(self, x):                       # (N, T, D) -> (N, T, D)
#             h, out = torch.zeros_like(x[:, 0]), []
#             for t in range(x.shape[1]):
#                 h = self.a * h + (1 - self.a) * x[:, t]
#                 out.append(h)
#             return torch.stack(out, 1)
#
#     # dynamic_shapes=({0: "batch", 1: "time"},) -> TorchExportError, caused by
#     # ValueError: ... tracing inferred a static shape of 5 for dimension inputs['x'].shape[1]
#
# The exporter has unrolled the loop: five steps, for ever. Write the same function without a loop.
#
# **Contract**
#
# - The same values as the loop (to a relative 1e-4 in float32) for every a with 0 < a < 1 and every T from 1 to
#   2000, without inf or nan.
# - It exports with a dynamic batch and time, and onnxruntime agrees for other lengths than the example's, 1
#   included.
# - x is not changed; dtype and device follow x; gradients flow to x. Memory up to O(T²) is allowed.
#
# **Rule.** No Python loop over the steps.
#
# <details><summary>Hint 1</summary>
#
# Write out h₃ in terms of x₀ … x₃. What is the weight of xₛ in hₜ, and for which s is it zero? What happens to
# `a**(-s)` for s = 2000?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Along time, `h = W @ x` with `W[t, s] = (1 - a) * a**(t - s)` for s ≤ t, else 0. Build `t - s` from an arange by
# broadcasting, clamp it at 0 *before* the power, then mask the upper triangle.
#
# </details>


# %% answer="loop-over-time"
### BEGIN SOLUTION
class Smooth(nn.Module):
    """Exponential smoothing along time, with a state that starts at zero: (N, T, D) -> (N, T, D)."""

    def __init__(self, a: float = 0.9):
        super().__init__()
        self.a = a

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        lag = (steps.unsqueeze(1) - steps).clamp(min=0)
        weights = ((1 - self.a) * self.a**lag).tril()
        return weights @ x


### END SOLUTION
### BEGIN GIVEN
# class Smooth(nn.Module):
#     """Exponential smoothing along time, with a state that starts at zero: (N, T, D) -> (N, T, D)."""
#
#     def __init__(self, a: float = 0.9):
#         super().__init__()
#         self.a = a
#
#     def forward(self, x: Tensor) -> Tensor:
#         raise NotImplementedError  # repair the code below, then delete this line
#         h, out = torch.zeros_like(x[:, 0]), []
#         for t in range(x.shape[1]):
#             h = self.a * h + (1 - self.a) * x[:, t]
#             out.append(h)
#         return torch.stack(out, 1)
### END GIVEN


# %% check="loop-over-time" points=3
"""The loop's values for every length, in PyTorch and after an export with a dynamic time."""
with check("loop-over-time") as test:

    def filled(*size):
        """Numbers between -1 and 1 without a pattern."""
        count = torch.Size(size).numel()
        return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)

    def smoothed(make, a, x):
        """Smooth x, and x with another last step; gradients too, where x is short. No modes that record operations."""
        facts = {"grad": None, "foresees": False}
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make() if a is None else make(a)
            short = x.shape[1] < 100
            came = model(x.requires_grad_(short))
            facts |= {"result": came.detach() if isinstance(came, Tensor) else came, "x": x.detach().clone()}
            if short and isinstance(came, Tensor) and came.shape == x.shape:
                other = torch.cat([x.detach()[:, :-1], x.detach()[:, -1:] + 1], 1)
                facts["foresees"] = not torch.equal(model(other)[:, :-1], came[:, :-1])
                if came.requires_grad:
                    incoming = torch.arange(1.0, came.numel() + 1).reshape(came.shape) % 7 - 2.5
                    facts["grad"] = torch.autograd.grad(came, x, incoming.to(came.dtype), allow_unused=True)[0]
        return facts

    def exported(make, a, example, *others):
        """Export the model with a dynamic batch and time, and run the file on others."""
        facts = {"refused": "", "shape": [], "onnx": []}
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make(a).eval()
            model(example.clone())
            try:
                how = {"dynamic_shapes": ({0: "batch", 1: "time"},), "verbose": False}
                program = torch.onnx.export(model, (example.clone(),), **how)
            except Exception as error:
                facts["refused"] = f"{error} {error.__cause__}"
                return facts
        session = ort.InferenceSession(program.model_proto.SerializeToString())
        facts["shape"] = list(session.get_inputs()[0].shape)
        for x in others:
            try:
                facts["onnx"].append(torch.tensor(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]))
            except Exception as error:
                facts["onnx"].append(str(error))
        return facts

    def loop(x, a, scale=None, start=None):
        """The given loop, in float64; with another factor, or another start, where that is asked for."""
        x = x.double()
        h, out = torch.zeros_like(x[:, 0]) if start is None else start.double(), []
        for t in range(x.shape[1]):
            h = a * h + (1 - a if scale is None else scale) * x[:, t]
            out.append(h)
        return torch.stack(out, 1)

    def close(came, truth):
        """Whether values agree, to 1e-4 of the largest."""
        fits = isinstance(came, Tensor) and came.shape == truth.shape
        return fits and torch.allclose(came.double(), truth, rtol=1e-4, atol=1e-5 * float(truth.abs().max()))

    overflow = (
        "inf or nan: a negative power of `a` overflows in long sequences. Clamp the exponent (or mask it) before "
        "taking the power."
    )
    future = "Later steps influence earlier ones: W[t, s] is zero for s > t."

    def judge_values(seen, came, x, a, sentence):
        """Judge the smoothed x, by its look-alikes."""
        seen.that(isinstance(came, Tensor), "forward must return a tensor, and the file must run.", stage="type")
        seen.that(came.shape == x.shape, "The result must have the shape of x.", stage="shape")
        truth = loop(x, a)
        start = "The state starts at zero, not at the first step of x."
        wrong = [
            ("The factor (1 - a) is missing.", lambda: loop(x, a, scale=1.0)),
            ("The newest value must have the weight (1 - a) * a**0.", lambda: a * truth),
            (start, lambda: loop(x, a, start=x[:, 0])),
            (start, lambda: loop(x, a, start=x[:, 0] / a)),
            ("You exchanged `a` and `1 - a`.", lambda: loop(x, 1 - a)),
        ]
        named = [
            mistake(overflow, when=lambda seen: not bool(came.isfinite().all())),
            mistake(future, when=lambda seen: seen["foresees"]),
        ]
        named += [mistake(words, when=lambda seen, other=other: close(came, other())) for words, other in wrong]
        seen.that(close(came, truth), sentence, *named)

    def judge(seen, a, x, sentence="The values are not those of the loop."):
        """Judge what forward returned."""
        judge_values(seen, seen["result"], x, a, sentence)
        seen.that(seen["result"].dtype == x.dtype, "The weights must follow x in dtype and device.", stage="dtype")

    test("the values of the loop, for several a")
    x = filled(2, 5, 3)
    for a in (0.9, 0.3, 0.6):
        judge(observe_scenario(smoothed, Smooth, a, x), a, x)

    test("an export with a dynamic batch and time, run with other lengths")
    inputs = [filled(3, 5, 4), filled(2, 8, 4), filled(4, 3, 4)]
    more = [filled(2, 1, 4), filled(1, 1, 4), filled(1, 1500, 4)]
    out = observe_scenario(exported, Smooth, 0.6, inputs[0], *inputs, *more)
    unrolled = "The loop (or a Python list over the steps) was unrolled during export: the number of steps is frozen."
    out.that(
        not out["refused"],
        "The exporter refuses this model: try it, and read the end of its message.",
        mistake(
            unrolled,
            when=lambda seen: "inferred a static shape" in seen["refused"] and "shape[1]" in seen["refused"],
        ),
    )
    out.that(out["shape"] == ["batch", "time", 4], unrolled, stage="shape")
    for x, came in zip(inputs, out["onnx"][:3], strict=True):
        judge_values(out, came, x, 0.6, unrolled)

    ### BEGIN HIDDEN TESTS
    test.hidden("0.9 is the value of a that is assumed")
    x = filled(2, 4, 3)
    judge(observe_scenario(smoothed, Smooth, None, x), 0.9, x, "Without an argument, a is 0.9.")

    test.hidden("2000 steps, with a small and a large a")
    x = filled(1, 2000, 2)
    for a in (0.5, 0.999):
        judge(observe_scenario(smoothed, Smooth, a, x), a, x)

    test.hidden("one step, and as many samples as steps and numbers")
    for x in (filled(3, 1, 2), filled(4, 4, 4)):
        judge(observe_scenario(smoothed, Smooth, 0.7, x), 0.7, x)

    test.hidden("exported: a single step, and 1500 steps")
    short = "After the export, the values for other lengths are not those of the loop."
    for x, came in zip(more, out["onnx"][3:], strict=True):
        judge_values(out, came, x, 0.6, short)

    test.hidden("float64 with all its digits")
    follows = "The weights must follow x in dtype and device."
    x = filled(2, 6, 3).double()
    seen = observe_scenario(smoothed, Smooth, 0.7, x).expecting(mistake(follows, stage="raised"))
    judge(seen, 0.7, x)
    seen.that(torch.allclose(seen["result"], loop(x, 0.7), rtol=1e-9, atol=1e-12), follows, stage="dtype")

    test.hidden("bfloat16")
    x = filled(2, 6, 3).bfloat16()
    seen = observe_scenario(smoothed, Smooth, 0.7, x).expecting(mistake(follows, stage="raised"))
    rounded = seen["result"]
    right = isinstance(rounded, Tensor) and rounded.dtype == torch.bfloat16
    right = right and torch.allclose(rounded.double(), loop(x, 0.7), rtol=0.05, atol=0.05)
    seen.that(right, follows, stage="dtype")

    def on_another_device(make, x):
        """Smooth x, with the modes that record operations."""
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model = make(0.7)
        return model(x)

    test.hidden("another device: everything that forward makes lies where x lies")
    seen = observe_scenario(on_another_device, Smooth, torch.empty(2, 6, 3, device="meta"))
    seen.expecting(mistake(follows, stage="raised"))
    seen.that(isinstance(seen.value, Tensor) and seen.value.device.type == "meta", follows, stage="device")
    elsewhere = [op["name"] for op in seen.noted.ops if op["device"] == "cpu" and op["elements"] > 1]
    seen.that(not elsewhere, follows, stage="device")

    test.hidden("x is not changed, and the gradient reaches it")
    x = filled(2, 5, 3)
    seen = observe_scenario(smoothed, Smooth, 0.6, x)
    seen.that(torch.equal(seen["x"], x), "x was changed.", stage="arguments")
    incoming = (torch.arange(1.0, x.numel() + 1).reshape(x.shape) % 7 - 2.5).double()
    truth = loop(incoming.flip(1), 0.6).flip(1)
    seen.that(close(seen["grad"], truth), "The gradient of x is missing or wrong.", stage="gradient")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 9.8 Operators, translations, versions
#
# **Predict.** PyTorch has more than 1,500 operators, ONNX some 200. What happens to one that has no counterpart, such
# as `cummax`, the largest value so far?


# %%
class SoFar(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = x.cummax(1)
        return values, indices


by_both = {"dynamic_shapes": ({0: "batch", 1: "time"},)}
refusal_of(lambda: export(SoFar().eval(), (torch.ones(2, 5),), **by_both), lines=1)

# %% [markdown]
# The capture (step 1) went well, and so did step 2, which splits large operators into smaller ones; the translation
# (step 3) found nothing for `aten.cummax.default`. There are two ways out: write the model with other operators, or
# hand in a translation of your own. That is a function with the operator's arguments, which builds ONNX nodes with
# onnxscript.
#
# **Predict.** The translation below makes a table with one row for each step. For T steps, how many numbers does it
# hold?


# %%
def cummax(x, dim: int):
    """The largest value so far along dim, and where it stands; for the last dimension of x."""
    steps = op.Shape(x, start=-1)
    square = op.Expand(op.Constant(value_float=1.0), op.Concat(steps, steps, axis=0))
    up_to_now = op.Cast(op.Trilu(square, upper=0), to=onnx.TensorProto.BOOL)  # row t: the steps 0 … t
    table = op.Where(up_to_now, op.Unsqueeze(x, [-2]), op.Constant(value_float=float("-inf")))
    return op.ReduceMax(table, [-1], keepdims=0), op.ArgMax(table, axis=-1, keepdims=0, select_last_index=1)


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
    same = all(np.array_equal(out, wanted.numpy()) for out, wanted in zip(outputs, x.cummax(1), strict=True))
    print(size, "values and indices as in PyTorch:", same)

# %% [markdown]
# T times T for each row: correct, but dear for long sequences. Ties count as well: PyTorch names the *last* place of
# the maximum, `ArgMax` by default the first. A translation is a second implementation, and is tested like one. The
# same table serves operators that you registered yourself with `torch.library.custom_op`.

# %% [markdown]
# **Predict.** The operators of ONNX come in numbered sets, *opsets*. The same model, `gelu`, is exported for 13, for
# 18 and for the default. Which nodes do you expect?

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
# `Gelu` exists since opset 20, the default of torch 2.13; for 18 it is written out. A file says which opset it needs,
# and a runtime says which ones it knows: when an old runtime must read the file, ask for a lower number, and look at
# what came out. For 13 the file still says 18. The translations are written in 18, the conversion down to 13 failed,
# and all that it leaves is a line in a log (which this chapter's setup cell keeps off the screen).

# %% [markdown]
# ## On a GPU
#
# An ONNX file says nothing about devices: the session does. `providers` lists, in order, who may compute; what the
# first can't do goes to the next. For a CUDA device the package is onnxruntime-gpu.
#
# **Predict.** A feed is a NumPy array, in main memory. What does that cost on a GPU?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("09_onnx_export")
def on_cuda() -> None:
    """Run the exported network on the GPU where onnxruntime can, and time it beside PyTorch."""
    print("providers:", ", ".join(ort.get_available_providers()))
    model = copy.deepcopy(cnn).cuda()
    session = None
    if "CUDAExecutionProvider" in ort.get_available_providers():
        providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
        session = ort.InferenceSession(cnn_program.model_proto.SerializeToString(), providers=providers)

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
# `run` copies each array to the device and each result back, and waits for both. To keep data on the device, bind
# inputs and outputs with `session.io_binding()`; onnxruntime's page "I/O Binding" shows how.

# %% [markdown]
# ## Folklore, checked
#
# What people say about exporting, and what is so. Each row unfolds its proof: a few lines that run through only if
# the statement on the right holds.

# %%
folklore("09_onnx_export")

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

# %%
prove("09-to-numpy-helper")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - `torch.onnx`, and there "torch.export-based ONNX Exporter": all arguments of `torch.onnx.export`, and
#   `ONNXProgram`;
# - `torch.export`, with "Expressing Dynamism" and "Limitations of torch.export": what can be captured, and how shapes
#   are declared;
# - `torch.cond`: a branch on values that survives the export;
# - the tutorials "Introduction to ONNX", "Extending the ONNX Exporter Operator Support" and "Export a model with
#   control flow to ONNX".
#
# Outside of it: "ONNX Operators", the list with the opset in which each operator appeared; onnxruntime's Python API;
# and the viewer Netron, which draws any `.onnx` file.
