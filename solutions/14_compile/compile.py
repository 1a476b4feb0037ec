# %% [markdown]
# # torch.compile: captured, guarded, broken
#
# `torch.compile` records one call of your function: its tensor operations (captured) and what they depended on
# (guarded). Where it can't follow, Python runs the line (a break). After this chapter you can
#
# - write a backend, and so see, count and replace what is captured;
# - predict how many graphs a sequence of calls makes, and name the guard that failed;
# - take "recompile_limit reached" apart, and fix the code that caused it instead of raising the limit;
# - make one graph serve all sizes, and take breaks out of a function without losing what it prints, logs or learns;
# - say what a compiled forward keeps for backward, and what fusing saves.
#
# **40 minutes to read, 165 minutes to practise, 20 points.** You need chapters 4 and 6, [section
# 5.9](../05_custom_functions/custom_functions.ipynb) (what a compiler sees of an operator),
# [7.6](../07_modules_state_dict/modules_state_dict.ipynb) (names in the state_dict of a wrapper) and
# [9.7](../09_onnx_export/onnx_export.ipynb) (Python that is baked into an export). Everything here is counted: graphs,
# guards, bytes. Without a GPU nothing is timed on your machine (section 14.8 quotes one measurement, and the end of the
# chapter shows a run on a GPU), and you need no C++ compiler: the backends are functions of our own, "eager" and
# "aot_eager".
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import contextlib
import io
import logging
import math
import operator
import random
import textwrap
import time
from collections.abc import Callable

import numpy as np
import torch
import torch._dynamo
import torch.nn.functional as F
from functorch.compile import (
    default_partition,
    make_boxed_func,
    min_cut_rematerialization_partition,
)
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

from torchkata.demos import error_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.instruments.captured import (
    Counting,
    fresh_compiler,
    graphs_after,
    instruments_used,
    logged,
    reasons,
    recompiles,
    settings_changed,
)
from torchkata.instruments.cut import cut_of
from torchkata.pictures.compile_breaks import breaks_explorer
from torchkata.pictures.compile_cache import cache_explorer
from torchkata.pictures.compile_cut import cut_explorer
from torchkata.pictures.compile_way import compile_way, ring_of_kernels
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    mistake,
    noting_operations,
    observe,
    observe_scenario,
    observe_value,
    prediction,
    separation,
)

# %% [markdown]
# This module counts its steps. It is compiled and called 12 times with the same input. (A *backend* is what compiles a
# graph. `Counting` is one that changes nothing and counts the graphs that it gets; you will write your own below.)


# %%
class Counted(nn.Module):
    """A layer that counts its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.step = 0

    def forward(self, x: Tensor) -> Tensor:
        self.step += 1
        return self.lin(x).relu()


with fresh_compiler(), logged("torch._dynamo.convert_frame") as warned:
    backend, made = Counting(), []
    compiled = torch.compile(Counted(), backend=backend)
    for _ in range(12):
        compiled(torch.ones(4))
        made.append(len(backend.graphs))
print("graphs after each call:", made)
warning = next(message for message in warned if "recompile_limit" in message)
for line in warning.splitlines()[:3:2]:
    print(textwrap.shorten(line.partition("#")[0], 96))

# %% [markdown]
# Eight graphs were made, and then a warning came: the limit was hit, and the last reason is `self.step == 7`. From call
# 9 on *nothing is compiled any more*. There is no error; the module runs as if it were not compiled, and eight
# compilations were paid for. (The full message recommends a setting for such ints. This chapter looks for the constant
# instead.) Two questions remain. What is a graph, and what does `self.step == 7` have to do with it?
#
# The picture shows the way of a call. An entry of the cache is a callable with its guards, and each function has at
# most eight entries. (In messages, 0/7 is the eighth entry, number 7, of the first function, number 0.)

# %%
compile_way()

# %% [markdown]
# ## 14.1 A backend of your own
#
# A backend is a function. It gets a graph module and the example inputs, and returns a callable. The backend itself
# runs once for each graph, and what it returns runs in each call.
#
# **Predict.** The backend below prints the code of what it gets. What has become of the `if`?


# %% facts=["14-lazy", "14-backend-is-trusted"]
def f(x: Tensor) -> Tensor:
    """A function with a branch."""
    y = torch.relu(x) * 2
    if x.shape[0] > 3:
        y = y + 1
    return y.sum()


def printing(module: fx.GraphModule, examples: list) -> Callable:
    """A backend that prints the code of its graph, without annotations."""
    for line in module.code.strip().splitlines():
        print(line.partition(";")[0].partition(" # ")[0])
    return module


with fresh_compiler():
    compiled = torch.compile(f, backend=printing)
    print("compiled, and nothing has happened yet")
    print(compiled(torch.ones(5)))


def liar(module: fx.GraphModule, examples: list) -> Callable:
    """A backend whose graphs return zeros."""
    return lambda *args: [out * 0 for out in module(*args)]


with fresh_compiler():
    print("x + 1, compiled by liar:", torch.compile(lambda x: x + 1, backend=liar)(torch.ones(3)))

# %% [markdown]
# The `if` is gone. Tracing decided it, and only the operations of the side that was taken are left. The compiler ran at
# the first call and not before; `torch.compile` itself only wraps the function. And PyTorch doesn't compare results: it
# believes the second backend, which returns zeros.
#
# **Predict.** `torch.relu(x) + F.relu(x) + x.relu()` has three calls of relu. Are they three different things in the
# graph?


# %% facts=["14-three-relus", "14-graph-is-inputs"]
def graph_of_first(function: Callable, *args: object) -> fx.Graph:
    """The first graph of a function."""
    with fresh_compiler():
        counting = Counting()
        torch.compile(function, backend=counting)(*args)
    return counting.graphs[0].graph


for node in graph_of_first(lambda x: torch.relu(x) + F.relu(x) + x.relu(), torch.ones(3)).nodes:
    name = getattr(node.target, "__name__", node.target)
    place = f" of {node.target.__module__}" if callable(node.target) else ""
    print(f"{node.op:14} {name}{place}")

layer = nn.Linear(2, 2)
nodes = graph_of_first(layer, torch.ones(2)).nodes
print("inputs of a Linear:", [node.name for node in nodes if node.op == "placeholder"])

# %% [markdown]
# They are. Two are `call_function` nodes whose targets are different functions, and the third is a `call_method` node
# whose target is the string "relu". The last line shows that parameters are *inputs* of the graph, so the graph doesn't
# contain their numbers.
#
# A trap: if somebody has looked at `module.code` and you change a node afterwards, the module goes on with its old
# code. Call `module.recompile()` after every change.
#
# **Now you know.** A graph is a list of calls on tensors. The Python around them ran once, while the function was
# traced.

# %% exercise="write-a-backend"

# %% [markdown]
# ## 14.2 Guards, and the cache behind them
#
# Most of what tracing reads becomes a condition, a *guard*. In the next call, the entries of the cache are tried in
# turn, and the first one whose guards hold runs. If there is none, the function is compiled once more.
#
# To see why a function was compiled again, set the environment variable `TORCH_LOGS=recompiles`. Here we collect the
# same log in a list.

# %% facts=["14-string-list-dict", "14-tensor-guards"]
with fresh_compiler(), recompiles() as log:
    compiled, x = torch.compile(lambda x, s: x * s, backend="eager"), torch.ones(4)
    calls = [(x, 2), (x, 3), (torch.ones(5), 3), (torch.ones(5).double(), 3)]
    for args in calls:
        compiled(*args)
for number, reason in enumerate(reasons(log), 2):
    print(f"call {number}:", reason.replace("; ", "\n        "))

# %% [markdown]
# The second call failed the guard `s == 2` of entry 0/0, the first entry of the function. Each later call lists one
# reason for each entry that was tried. The entry that was hit last is tried first.
#
# **Predict.** A function is called with grad, under `no_grad`, and with grad again. How many graphs does that make? And
# does another seed make a new graph, or another number of threads?


# %% facts=["14-global-state", "14-train-eval", "14-environment"]
def with_changes(*changes: Callable[[], contextlib.AbstractContextManager]) -> int:
    """The number of graphs of x + 1 after calls under these changes."""
    with fresh_compiler():
        counting = Counting()
        compiled = torch.compile(lambda x: x + 1, backend=counting)
        compiled(torch.ones(4))
        for change in changes:
            with change():
                compiled(torch.ones(4))
    return len(counting.graphs)


@contextlib.contextmanager
def threads(number: int):
    """Another number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


@contextlib.contextmanager
def seed():
    """Another seed."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        yield


print("grad, no_grad, grad:", with_changes(torch.no_grad, contextlib.nullcontext))
print("autocast:           ", with_changes(lambda: torch.autocast("cpu", torch.bfloat16)))
print("threads:            ", with_changes(lambda: threads(torch.get_num_threads() + 1)))
print("seed:               ", with_changes(seed))

x = torch.ones(4)
print("f(x, x), f(x, y):   ", graphs_after(lambda a, b: a + b, (x, x), (x, x.clone()))[-1])
print("unused argument:    ", graphs_after(lambda x, unused: x + 1, (x, 3), (x, "b"))[-1])
keys = ({"a": x}, {"a": x, "b": x})
print("another key:        ", graphs_after(lambda x, q: x + q["a"], *[(x, q) for q in keys])[-1])

# %% [markdown]
# The three calls make two graphs, because the third call finds the first graph. A new seed makes no new graph. Another
# number of threads does, although the function never asks for it.
#
# | always guarded | guarded if it was read | not guarded |
# |---|---|---|
# | dtype, device, sizes (14.4), strides, class of a tensor in use | strings, flags | the numbers in a tensor |
# | its requires_grad; whether two arguments are one tensor | lengths of lists | other keys of a dict |
# | grad mode, autocast, default dtype | `self.training` in Dropout | `self.training` in Linear |
# | deterministic algorithms, number of threads | `os.environ["X"]`, if X was set | `os.getenv("X")`, the seed |
#
# Training steps and `load_state_dict` only change numbers, so they find the same graph. A region of autocast
# ([chapter 8](../08_amp/amp.ipynb)) needs another one.
#
# The test of a training loop can insist that nothing is compiled again:

# %% facts=["14-fail-on-recompile"]
with fresh_compiler():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(torch.ones(4))
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.zeros(4))
        try:
            compiled(torch.ones(2, 2))
        except RuntimeError as error:
            print(next(line.strip() for line in str(error).splitlines() if "mismatch" in line))

# %% [markdown]
# With the stance `"fail_on_recompile"`, the next recompile is an error that names the guard. With
# `"eager_on_recompile"`, such a call runs without a compiler instead.
#
# The explorer shows the cache call by call. Choose *numbers*: why does 0.5 need a new entry, and which entry does the
# last call hit? Then step through *a counter* to its end.

# %%
cache_explorer()

# %% [markdown]
# **Now you know.** Most of what tracing read is guarded, and a few global settings always are. The numbers in tensors
# never are, and the last column lists what else isn't.

# %% exercise="what-happened"

# %% [markdown]
# ## 14.3 The limit
#
# The cache of a function has at most eight entries, `torch._dynamo.config.recompile_limit`. They belong to the code,
# not to the wrapper that `torch.compile` returned.
#
# **Predict.** Twelve modules of one class are compiled separately. Each has a different int, which forward reads. How
# many graphs do they make together? And how many do six modules make that differ in their weights and in an index that
# forward doesn't read?


# %% facts=["14-limit-is-shared", "14-same-block", "14-limit-raises"]
class Indexed(nn.Module):
    """A layer with an index that forward reads, or ignores."""

    def __init__(self, index: int, reads: bool) -> None:
        super().__init__()
        self.lin, self.index, self.reads = nn.Linear(4, 4), index, reads

    def forward(self, x: Tensor) -> Tensor:
        return self.lin(x) * self.index if self.reads else self.lin(x)


for count, reads in ((12, True), (6, False)):
    with fresh_compiler():
        backend = Counting()
        for index in range(count):
            torch.compile(Indexed(index, reads), backend=backend)(torch.ones(4))
    print(f"{count} modules, index read: {reads}, graphs: {len(backend.graphs)}")

# %% [markdown]
# The twelve make eight graphs, because all of them share the code of `forward`, and with it one limit. The six share a
# single graph. With `isolate_recompiles=True` (since torch 2.13), each `torch.compile` has a separate limit. With
# `fullgraph=True`, reaching the limit is an error.
#
# So it matters what becomes a constant. Here, functions are called four times with changing values:


# %% facts=["14-int-argument", "14-float-rate", "14-counter"]
def times(x: Tensor, s: object) -> Tensor:
    """x times s, or times the length of a string."""
    return x * (len(s) if isinstance(s, str) else s)


for name, values in {
    "int argument": (2, 3, 4, 5),
    "float argument": (0.5, 0.25, 0.125, 0.0625),
    "tensor argument": torch.arange(2, 6).unbind(),
    "string argument": ("a", "b", "a", "b"),
}.items():
    print(f"{name:16}", graphs_after(times, *[(x, value) for value in values]))

with fresh_compiler():
    backend, module, made = Counting(), Indexed(2, True), []
    compiled = torch.compile(module, backend=backend)
    for module.index in (2, 3, 4, 5):
        compiled(x)
        made.append(len(backend.graphs))
print("int of a module ", made)

# %% [markdown]
# At its second value, an int argument becomes a *symbol*, a name such as `s72` that stands for any whole number; the
# graph computes with the name, and each call supplies its number. A float becomes an input of the graph, and so does a
# float attribute of a module. An int attribute of a module stays a constant, and so does a global int. A learning rate
# that is a float therefore costs two graphs in all, not one for each step of the scheduler.
#
# **Now you know.** Don't raise the limit. Find the constant that should be a tensor.

# %% exercise="over-the-limit"

# %% [markdown]
# ## 14.4 Sizes
#
# The first graph has the size as a number. When a second size comes, a graph is made with a symbol for it, which is
# right for all sizes from 2 on that meet the conditions in the code. 0 and 1 stay numbers, because broadcasting depends
# on them.
#
# **Predict.** `x[:-1] + x[1:]` is compiled with `dynamic=True`, which begins with symbols, and called with sizes 5, 6,
# 7 and 2. How many graphs does that make?


# %% facts=["14-every-size", "14-zero-one", "14-size-branch"]
def sizes(*lengths: int) -> list[tuple]:
    """Calls with vectors of these lengths."""
    return [(torch.ones(n),) for n in lengths]


def branch(x: Tensor) -> Tensor:
    """A branch on a size."""
    return x * 2 if x.shape[0] > 6 else x * 3


def loop(x: Tensor) -> Tensor:
    """A loop over a size."""
    return torch.stack([x[i] * i for i in range(x.shape[0])])


def double(x: Tensor) -> Tensor:
    """Twice x."""
    return x * 2


def neighbours(x: Tensor) -> Tensor:
    """Sums of neighbours."""
    return x[:-1] + x[1:]


for name, function, lengths, dynamic in (
    ("x * 2", double, (5, 6, 7, 8), None),
    ("x * 2", double, (5, 6, 7, 8), False),
    ("x * 2", double, (5, 6, 1, 0), True),
    ("x[:-1] + x[1:]", neighbours, (5, 6, 7, 2), True),
    ("if size > 6", branch, (5, 6, 7, 8), True),
    ("for i in range(size)", loop, (5, 6, 7, 8), True),
):
    made = graphs_after(function, *sizes(*lengths), dynamic=dynamic)
    print(f"{name:20} sizes {lengths}, dynamic={dynamic!s:5} {made}")

# %% [markdown]
# It makes two graphs, because the slices of a vector with two numbers have size 1, which no symbol covers. A branch on
# a size becomes a guard, so each side costs a graph. A loop over a size is unrolled, so each size costs one, and each
# is longer than the one before. Two sizes that are equal in the first call share one symbol, so a first call with a
# square matrix makes a graph for square matrices.
#
# `torch._dynamo.mark_dynamic(x, 0)` demands a symbol for dimension 0 of `x`: code that makes a constant of it raises an
# error. `torch._dynamo.maybe_mark_dynamic` asks for a symbol and accepts a constant.
#
# The last, shorter batch of a DataLoader costs one graph in all, not one for each epoch, so you don't have to drop or
# pad it. And what does decoding cost, with a cache that grows?


# %% facts=["14-kv-cache"]
def grow(query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """One step of decoding, with a cache that grows."""
    keys = torch.cat([keys, query[None]])
    return (keys @ query).softmax(0) @ keys, keys


def fixed(query: Tensor, cache: Tensor, position: Tensor) -> Tensor:
    """One step of decoding, with a cache of fixed size."""
    cache.index_copy_(0, position, query[None])
    unused = torch.arange(len(cache)) > position
    return (cache @ query).masked_fill(unused, -math.inf).softmax(0) @ cache


print("last batch:", graphs_after(double, *sizes(*[32, 32, 32, 7] * 3)))
print("growing:   ", graphs_after(grow, *[(torch.ones(4), torch.ones(n, 4)) for n in range(6)]))
cache = torch.zeros(8, 4)
positions = [torch.tensor([n]) for n in range(6)]
print("fixed:     ", graphs_after(fixed, *[(torch.ones(4), cache, n) for n in positions]))

# %% [markdown]
# The growing cache pays for the lengths 0 and 1 before a symbol serves all others. No size of the fixed cache ever
# changes, and its position is a tensor, so it pays once. ([Chapter 15](../15_attention/attention.ipynb) is about what
# else such a cache must do.)
#
# **Now you know.** From the second value on, a size is a symbol. 0 and 1 never are.

# %% exercise="how-many-graphs"

# %% exercise="one-graph-for-all-sizes"

# %% [markdown]
# ## 14.5 Breaks
#
# When tracing can't go on, the graph so far is compiled, Python runs the line in question, and the rest becomes a
# function with a separate cache. `torch._dynamo.explain` gives the reason.


# %%
def printed(x: Tensor) -> Tensor:
    """A line that breaks."""
    x = x + 1
    print("here", end="")
    return x * 2


def lines_of(text: object, count: int) -> str:
    """The first lines of a text, in the width of the page."""
    return "\n".join(textwrap.shorten(line, 96) for line in str(text).splitlines()[:count])


with fresh_compiler(), contextlib.redirect_stdout(io.StringIO()):
    told = torch._dynamo.explain(printed)(torch.ones(3))
print(told.graph_count, "graphs,", told.graph_break_count, "break")
print(lines_of(told.break_reasons[0].reason, 3))

# %% [markdown]
# **Predict.** Which of these also break a function in 2.13? An append to a list, a try with a raise in it, a generator,
# `np.tanh(x.numpy())`, a line that is logged, `.item()`, `x[x > 0]`.


# %% facts=["14-no-longer-breaks", "14-item-breaks", "14-fullgraph-only-checks"]
def appends(x: Tensor) -> Tensor:
    """Collects in a list."""
    many = []
    for i in range(3):
        many.append(x + i)
    return torch.stack(many)


def tries(x: Tensor) -> Tensor:
    """Raises and catches."""
    try:
        x = x + 1
        raise ValueError
    except ValueError:
        return x * 2


def logs(x: Tensor) -> Tensor:
    """Logs a line."""
    x = x + 1
    logging.getLogger("of our own").debug("size %s", x.shape)
    return x * 2


with contextlib.redirect_stdout(io.StringIO()):
    by_print = graphs_after(printed, (x,))
for name, counts in {
    "print": by_print,
    "append": graphs_after(appends, (x,)),
    "try and raise": graphs_after(tries, (x,)),
    "generator": graphs_after(lambda x: sum(y for y in (x + i for i in range(3))), (x,)),
    "NumPy": graphs_after(lambda x: torch.from_numpy(np.tanh(x.numpy())) + 1, (x,)),
    "logging": graphs_after(logs, (x,)),
    "item()": graphs_after(lambda x: x * x.sum().item(), (x,)),
    "item(), fullgraph": graphs_after(lambda x: x * x.sum().item(), (x,), fullgraph=True),
    "x[x > 0]": graphs_after(lambda x: x[x > 0] * 2, (x,)),
    "x[x > 0], fullgraph": graphs_after(lambda x: x[x > 0] * 2, (x,), fullgraph=True),
}.items():
    print(f"{name:20} {counts[-1]} graph{'s' * (counts[-1] != 1)}")

# %% [markdown]
# `print`, `logging`, `item()` and `x[x > 0]` break; the others don't. NumPy calls become torch operations. And
# `fullgraph=True` is more than a check: it captures `item()` and `x[x > 0]`, which break without it. An `if` on such a
# number breaks without `fullgraph=True`, and is an error with it.
#
# **Predict.** The same print, now inside a `for` loop. How many graphs?


# %% facts=["14-break-in-loop", "14-if-on-data"]
def in_a_loop(x: Tensor) -> Tensor:
    """Prints in a loop."""
    for _ in range(2):
        x = x.sin() + 1
        print("here", end="")
    return x


def one_turn(x: Tensor) -> Tensor:
    """What the loop computes in one turn."""
    return x.sin() + 1


def calling(x: Tensor) -> Tensor:
    """Prints in a loop, and computes in a function that it calls."""
    for _ in range(2):
        x = one_turn(x)
        print("here", end="")
    return x


def by_sign(x: Tensor) -> Tensor:
    """A branch on data."""
    if x.sum() > 0:
        return x + 1
    return x - 1


with contextlib.redirect_stdout(io.StringIO()):
    counts = graphs_after(in_a_loop, (x,)), graphs_after(calling, (x,))
print("print in a loop:         ", counts[0])
print("computed in a function:  ", counts[1])
print("if x.sum() > 0, +, +, -: ", graphs_after(by_sign, (x,), (x,), (-x,)))
made = graphs_after(lambda x: torch.where(x.sum() > 0, x + 1, x - 1), (x,), (-x,))
print("torch.where:             ", made)

# %% [markdown]
# It makes no graph at all. Python can't jump into the middle of a loop, so the compiler gives up the whole function,
# and `explain` reports 0 graphs and −1 breaks. A break in a `try` block has the same effect. The functions that such a
# function *calls* are still compiled, each by itself, and that is the way out for a training loop with a print in it.
#
# An `if` on data breaks, and each side is compiled when it is first taken. `torch.where` and `torch.cond` keep one
# graph.
#
# Put each line into the loop, with `fullgraph=True` and without. Which line breaks nothing, even there?

# %%
breaks_explorer()

# %% [markdown]
# The append breaks nothing. `item()` does, unless `fullgraph=True` captures it.
#
# **Now you know.** A break cuts a function in two. In a loop or a `try` block, it leaves the whole function to Python.

# %% exercise="mend-the-breaks"

# %% [markdown]
# ## 14.6 What runs once, and what runs in every call
#
# What a function does to Python's objects is repeated after each run of the graph. What was decided while tracing is
# never asked again, unless a guard asks it.


# %% facts=["14-side-effects-once", "14-growing-list", "14-random"]
def noting(x: Tensor) -> Tensor:
    """Appends to a list outside."""
    notes.append("here")
    return x + 1


notes: list[str] = []
print("graphs:", graphs_after(noting, *[(x,)] * 4), "entries:", len(notes))

with fresh_compiler():
    throw = torch.compile(lambda x: x * random.randint(0, 10**6), backend="eager")
    print("different numbers in four calls:", len({throw(torch.ones(())).item() for _ in range(4)}))

# %% [markdown]
# Four calls make four entries. They also make four graphs, because the length of the list is guarded. The functions of
# `random` are called before each run, so the numbers differ. `torch.rand` and dropout draw in the graph; with
# "aot_eager" they draw exactly the numbers that they draw without a compiler.
#
# **Predict.** A forward hook is registered after the first call of a compiled module. How often does it run in the next
# three calls?


# %% facts=["14-late-hooks", "14-wrapper", "14-in-place-builtin"]
class Writer(nn.Module):
    """A model with a method that calls its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin(x)

    def generate(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self(x).detach()
        return x


fired: list[str] = []
with fresh_compiler():
    model, backend = Writer(), Counting()
    wrapper = torch.compile(model, backend=backend)
    wrapper(x)
    model.lin.register_forward_hook(lambda *args: fired.append("late hook"))
    for _ in range(3):
        wrapper(x)
    print("late hook:", len(fired))
    print("a Writer:", isinstance(wrapper, Writer), "names:", list(wrapper.state_dict()))

with fresh_compiler():
    backend, model = Counting(), Writer()
    torch.compile(model, backend=backend).generate(x)
    print("wrapper.generate:", len(backend.graphs), "graphs")
    model.compile(backend=backend)
    model.generate(x)
    print("after model.compile():", len(backend.graphs), "graph")

# %% [markdown]
# The hook never runs, and PyTorch says nothing. For speed, hooks of modules are not guarded. The hook would run from
# the next graph on, such as one for another size. Register hooks before the first call, or call
# `torch.compiler.reset()` afterwards. A hook on a parameter works at any time.
#
# `torch.compile(model)` returns a wrapper. It has another class, and other names in its state_dict (section 7.6 takes
# the prefix off). Only its forward is compiled; `generate` belongs to the model inside and compiles nothing.
# `model.compile()` works in place.
#
# The table at the end has known wrong results of 2.13, each with a proof: inputs that overlap but were apart in the
# first call, a method that is replaced on its class, and a tensor operation that fails inside a `try`. Newer releases
# correct some of them. An exception raised by your own Python code is captured correctly, in one graph:


# %% facts=["14-try-around-op"]
def trying(x: Tensor) -> Tensor:
    """An exception of Python's own, caught."""
    try:
        raise RuntimeError
    except RuntimeError:
        return x * 2


with fresh_compiler():
    print(torch.compile(trying, backend="eager", fullgraph=True)(torch.ones(2)))

# %% [markdown]
# **Now you know.** Effects on Python's objects are repeated in every call. Decisions are made once, while tracing.

# %% exercise="once-or-every-time"

# %% [markdown]
# ## 14.7 Forward and backward, cut apart
#
# Dynamo, the part of PyTorch that traces Python, hands its graph to most backends through *AOTAutograd*. It traces
# forward and backward together, removes what writes in place, and cuts the joint graph in two. What crosses the cut is
# kept for backward.
#
# **Predict.** `x.sin().sin().sin()` keeps three tensors without a compiler. Can a cut keep fewer?


# %% facts=["14-saves-memory", "14-lazy-backward"]
def sines(x: Tensor) -> Tensor:
    """Three sines."""
    return x.sin().sin().sin()


x = torch.linspace(0.1, 1.0, 300).reshape(100, 3).requires_grad_()
for name, recompute in (("default partition", False), ("min-cut", True)):
    cut = cut_of(sines, [x], recompute)
    operations = f"{len(cut.forward)} + {len(cut.backward)} operations"
    print(f"{name:18} keeps {cut.kept} bytes besides x; {operations}")

order: list[str] = []


def compiler(name: str) -> Callable:
    """A compiler that notes when it gets a graph."""

    def compile_half(module: fx.GraphModule, examples: list) -> Callable:
        order.append(name)
        return make_boxed_func(module.forward)

    return compile_half


with fresh_compiler():
    backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
    out = torch.compile(sines, backend=backend)(x)
    print("after the call:", order)
    out.sum().backward()
    print("after backward:", order)

# %% [markdown]
# It can. The default partition keeps what PyTorch keeps without a compiler. The *min-cut* chooses the cut that keeps
# the fewest bytes, and computes cheap results again in backward, here two of the sines. The backward half goes to its
# compiler at the first `backward()`, or at once if sizes are symbols.

# %% facts=["14-functional", "14-double-backward"]
with fresh_compiler():
    halves: list[fx.GraphModule] = []

    def keeping(module: fx.GraphModule, examples: list) -> Callable:
        """A compiler that keeps its graph."""
        halves.append(module)
        return make_boxed_func(module.forward)

    backend = aot_autograd(fw_compiler=keeping)
    torch.compile(lambda y: y.add_(1) * 2, backend=backend)(torch.zeros(2))
    print([str(node.target) for node in halves[0].graph.nodes if node.op == "call_function"])
    print("returned:", [node.name for node in halves[0].graph.output_node().args[0]])

with fresh_compiler():
    y = torch.ones(3, requires_grad=True)
    squared = torch.compile(lambda x: (x.sin() ** 2).sum(), backend="aot_eager")
    (g,) = torch.autograd.grad(squared(y), y, create_graph=True)
    error_of(lambda: torch.autograd.grad(g.sum(), y), lines=1)
    inside = torch.compile(torch.func.grad(lambda x: (x.sin() ** 2).sum()), backend="aot_eager")
    (second,) = torch.autograd.grad(inside(y).sum(), y)
    print("second derivative:", second.tolist())
    print("2 cos(2y):        ", (2 * (2 * y).cos()).tolist())

# %% [markdown]
# AOTAutograd turns a function that writes in place into one that doesn't: the graph returns the input's new value as
# one more result, and a wrapper copies it into the input. Double backward raises an error; compile the gradient itself
# instead, and differentiate that, as in the last line.
#
# `loss.backward()` inside a compiled function is a break. A whole step (zero_grad, forward, backward, step) makes two
# graphs, and later steps add none.
#
# Which of these functions keep fewer bytes with the min-cut, and what do they compute again in return?

# %%
cut_explorer()

# %% [markdown]
# The sines and the gelu do. The gelu keeps only x and the result of tanh, and computes the rest again. With `exp` and
# the matrix products there is nothing to gain. Their backward needs the results of `exp` and of relu, and the min-cut
# would rather keep these than compute them again.
#
# **Now you know.** What is kept for backward is a choice of the compiler.

# %% exercise="kept-for-backward"

# %% [markdown]
# ## 14.8 Why it is faster: fusing
#
# An elementwise operation reads and writes more than it computes. If only the next operation reads its result, that
# result doesn't have to be written at all.
#
# **Predict.** Here is gelu, written out, for 2^20 numbers. How many MiB do its calls move, and how many would a single
# kernel move?


# %%
def gelu(x: Tensor) -> Tensor:
    """gelu, in nine calls."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


calls = [node for node in graph_of_first(gelu, torch.ones(3)).nodes if node.op.startswith("call")]
arrays = sum(1 + len(node.all_input_nodes) for node in calls)
print(f"{len(calls)} calls move {arrays} arrays, {arrays * 4} MiB")
print("one kernel would move 2 arrays, 8 MiB")

# %% [markdown]
# The nine calls move 88 MiB, and one kernel would move 8. Inductor, the default backend, wrote one kernel for this
# function. In one measurement, on a busy machine with two cores, the first call took 22 seconds, and each later call
# 4.5 ms instead of 14.2. Compiling paid off after 2,300 calls.
#
# Which calls can't be merged into one kernel? In the exercise, a result that is returned or has two readers must be
# written. The picture shows what may go wrong with two readers. (Real compilers go further. They put both readers into
# one kernel where that is possible, or compute a cheap result twice.)

# %%
ring_of_kernels()

# %% exercise="fuse-pointwise"

# %% [markdown]
# ## 14.9 The same numbers?
#
# "eager" and "aot_eager" give the bits that you get without a compiler. Inductor doesn't round between the operations
# that it fuses.
#
# **Predict.** `(z * 3.1 + 1.7) * z - z * 2.3` is computed in bfloat16 for 10,000 numbers, once by kernels that each
# round, and once by a single kernel that rounds only at its end. How many results differ, and which of the two is
# nearer to float64?


# %%
def polynomial(z: Tensor) -> Tensor:
    """Five operations, each of which rounds."""
    return (z * 3.1 + 1.7) * z - z * 2.3


z = torch.linspace(-4, 4, 10_000, dtype=torch.bfloat16)
with fresh_compiler():
    compiled = torch.compile(polynomial, backend="aot_eager")
    print("aot_eager, same bits:", torch.equal(compiled(z), polynomial(z)))
plain, once, exact = polynomial(z), polynomial(z.float()).bfloat16(), polynomial(z.double())
errors = [f"{(result - exact).abs().max():.3f}" for result in (plain, once)]
print("rounded once:", (once != plain).sum().item(), "differ; largest errors:", *errors)

# %% [markdown]
# About half of them differ, and the kernel that rounds only once is *nearer*. The cell imitates such a kernel by
# computing in float32 and rounding the result. On a machine with a C++ compiler, inductor returned the same bits as
# this imitation, and in float32 the same bits as PyTorch without a compiler.
#
# If a compiled model really is wrong, go up the ladder of backends. `backend="eager"` tells you whether the capture is
# wrong, "aot_eager" whether the joint graph is, and "aot_eager_decomp_partition" whether the decompositions or the cut
# are. What is left is inductor's code. Compare with float64, not with eager. For a bug report you will be asked for a
# trace (the environment variable `TORCH_TRACE`, read by the tool tlparse).

# %% exercise="separate-the-two"

# %% [markdown]
# ## On a GPU
#
# The nine calls of `gelu` are nine kernels on a GPU. The cell counts them with the profiler and measures the time,
# first without a compiler, then with inductor. `x` has 64 MiB, so it doesn't fit into a GPU's caches. Without a GPU you
# see a recorded run.


# %% varies="a CUDA device changes what is shown"
@cuda_demo("14_compile")
def nine_kernels_or_one() -> None:
    """The kernels and the time of gelu on 64 MiB, with and without inductor."""
    x = torch.randn(2**24, device="cuda")
    with fresh_compiler():
        for name, function in (("eager", gelu), ("inductor", torch.compile(gelu))):
            torch.cuda.synchronize()
            start = time.perf_counter()
            function(x)
            torch.cuda.synchronize()
            first = time.perf_counter() - start
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
                function(x)
                torch.cuda.synchronize()
            kernels = [one.name for one in seen.events() if one.device_type.name == "CUDA"]
            start = time.perf_counter()
            for _ in range(100):
                function(x)
            torch.cuda.synchronize()
            milliseconds = (time.perf_counter() - start) * 10
            print(
                f"{name:8} first call {first:5.1f} s, then {milliseconds:.3f} ms,",
                f"kernels: {len(kernels)}",
            )
    print("the one kernel:", kernels[0])


nine_kernels_or_one()

# %% [markdown]
# In the recorded run the single kernel is seven times as fast as the nine, which move eleven times as many bytes.
# Triton is the language in which inductor writes kernels for a GPU, and `triton_poi_fused` in the kernel's name says
# that it fuses pointwise operations.
#
# ## Folklore, checked
#
# The table lists what people say about `torch.compile`, and whether it is true. Each row has a proof that you can
# expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("14_compile")

# %%
prove("14-break-in-loop")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - [`torch.compile`](https://docs.pytorch.org/docs/stable/generated/torch.compile.html): all its arguments;
# - [torch.compiler](https://docs.pytorch.org/docs/stable/torch.compiler.html): the programming model, with its pages
#   on recompilation and graph breaks;
# - [torch.fx](https://docs.pytorch.org/docs/stable/fx.html): the nodes of a graph, and how to change them;
# - [`torch.compiler.disable`](https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html): leaving a
#   function to Python on purpose;
# - [Dynamic compilation control with `torch.compiler.set_stance`](https://docs.pytorch.org/tutorials/recipes/torch_compiler_set_stance_tutorial.html).
#
# **Next:** chapter 15, [Attention that fits](../15_attention/attention.ipynb).
