# %% [markdown]
# # Autograd and leaf tensors
#
# `loss.backward()` is one line, and most of what goes wrong with it happens somewhere else: a tensor isn't a leaf, a
# gradient is added instead of replaced, a value is overwritten without anybody noticing, or a nan comes out of a branch
# that was never taken. After this chapter you can
#
# - draw the graph that a few lines record, and say which tensors are leaves, which get a `.grad`, and which get one
#   only if you ask;
# - call `backward` with a vector, and build a Jacobian from such calls;
# - cut gradients on purpose (`detach`, `no_grad`) and see when you cut them by accident (`.data`, `.item()`,
#   conversions);
# - fix in-place errors, and the silent bugs next to them;
# - keep nan out of gradients, and make a gradient part of a loss.
#
# **70 minutes to read, 175 minutes to practise, 20 points.** You need chapter 2, sections 2.1 and 2.2 (storage, view or
# copy), and the idea of a derivative and of the chain rule. It helps to have run a training loop once.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import dis
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchkata.demos import error_of, results_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.backward_graph import graph_explorer, graph_of, graph_picture
from torchkata.pictures.call_path import call_path
from torchkata.pictures.row_by_row import row_by_row
from torchkata.pictures.version_strip import version_strip
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    incoming_gradient,
    mistake,
    noting_calls,
    observe,
    observe_scenario,
    observe_value,
    prediction,
    separation,
)

# %% [markdown]
# A colleague's training loop raised "element 0 of tensors does not require grad and does not have a grad_fn". They
# looked the message up, added a line, and the error went away.

# %%
torch.manual_seed(0)
linear, inputs = nn.Linear(2, 1), torch.randn(32, 2)
targets = inputs.sum(1, keepdim=True)
optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)

for step in range(3):
    errors = [(linear(x) - y).square().item() for x, y in zip(inputs, targets, strict=True)]
    loss = torch.tensor(errors).mean()
    loss.requires_grad_()  # the line that was added
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}, gradient of the weight: {linear.weight.grad}")

# %% [markdown]
# Now there is no error, and the model learns nothing. The error was right: one of these lines cuts the path from the
# loss back to the weights. By section 4.6 you will see at a glance which.
#
# In the picture of `x + y` that chapters 1 to 4 share, this is the third station. While the kernel computes a number,
# autograd records how to send a gradient back:

# %%
call_path("autograd")

# %% [markdown]
# ## 4.1 The graph is written while Python runs
#
# Before you can find the cut, you need to know what it cuts. For each operation on a *tracked* tensor (a tensor with
# `requires_grad=True`), autograd creates a *node* that can send a gradient back through that operation. The result
# stores its node in `grad_fn`, and each node stores the nodes behind it in `next_functions`.
#
# **Predict.** Only `w` is tracked. Which nodes will the next cell print for `((w * x) + 1).sum()`, in which order, and
# where is `x`?


# %% facts=["04-graph-nodes-and-edges", "04-only-requires-grad-needed"]
def print_graph(node, depth: int = 0) -> None:
    """Print a backward node and, indented, the nodes that it sends gradients to."""
    leaf = f" (leaf of shape {tuple(node.variable.shape)})" if hasattr(node, "variable") else ""
    print("    " * depth + type(node).__name__ + leaf)
    for following, _ in node.next_functions:
        if following is not None:
            print_graph(following, depth + 1)


w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
x = torch.tensor([10.0, 20.0, 30.0])

y = ((w * x) + 1).sum()
print_graph(y.grad_fn)

y.backward()
print("w.grad:", w.grad, "x.grad:", x.grad)

# %% [markdown]
# The last operation comes first, because gradients travel backwards, from results to inputs. Nodes are backward
# functions, not tensors. The path ends at `w`, which is called a *leaf* (section 4.2 says exactly what that is). It
# appears as AccumulateGrad, the node that adds to its `.grad`. `x` and the 1 are not tracked, so no edge leads to them.
# Marking `w` was enough: while autograd records, a floating point result of a tracked tensor is tracked, too (section
# 4.6 has the exceptions).

# %% [markdown]
# The explorer below draws that graph for lines that you type. Gradients flow down. Each box is a node; below the node's
# name are the Python name of its result and what the node keeps for backward. A rounded box is a leaf. The lines have
# been run once. Press *backward* to send a gradient through, then *forward* to run them again. Now let the graph grow:
# write `z = (y * w).sum()` in the field *next line* and press Enter. Two arrows end at `w`. The list *example* has one
# or two examples for most sections.

# %%
graph_explorer()

# %% [markdown]
# The next function contains an `if`. We call it with 2 and with -2:

# %% facts=["04-graph-recorded-automatically", "04-dynamic-graph"]
w = torch.tensor(3.0, requires_grad=True)


def branch(x: float) -> Tensor:
    product = w * x
    if product > 0:
        return product * product
    return product.exp()


for x in (2.0, -2.0):
    print(f"x = {x}")
    print_graph(branch(x).grad_fn, 1)

# %% [markdown]
# The two calls record two different graphs. A graph doesn't describe the function; it lists what this call did. `if`,
# loops and recursion are plain Python and leave no node. The next call records a new graph, and the old graph is freed
# when nothing refers to its result any more. In the first graph, the MulBackward0 of `w * x` is printed twice because
# `product` is used twice, so two paths lead to the same node.
#
# What is the graph needed for? Here a model runs twice, the second time under `torch.no_grad()`.

# %% facts=["04-graph-computes-forward", "04-graph-recorded-automatically"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.tensor([[1.0, 2.0, 3.0]])

with_graph = model(x)
with torch.no_grad():
    without_graph = model(x)

print("same numbers:", torch.equal(with_graph, without_graph))
print("grad_fn:", type(with_graph.grad_fn).__name__, "and", without_graph.grad_fn)

# %% [markdown]
# The numbers are the same. The graph plays no part in computing the output; it is recorded only for backward. Inference
# doesn't need it, and section 4.6 shows how much memory you save without it.
#
# Some tensors can't be tracked, and a new tensor isn't tracked unless you ask for it:

# %% facts=["04-requires-grad-default", "04-autograd-dtypes", "04-factories-requires-grad", "04-variable-wrapper"]
print("torch.ones:     ", torch.ones(2).requires_grad)
print("nn.Parameter:   ", nn.Parameter(torch.ones(2)).requires_grad)
print("torch.randn:    ", torch.randn(2, requires_grad=True).requires_grad)
print("torch.full:     ", torch.full((2,), 0.5, requires_grad=True).requires_grad)
error_of(lambda: torch.tensor([1, 2, 3], requires_grad=True))
error_of(lambda: torch.ones(2, dtype=torch.bool).requires_grad_())
error_of(lambda: torch.as_tensor([1.0, 2.0], requires_grad=True))

old_code = torch.autograd.Variable(torch.ones(2), requires_grad=True)
print("Variable makes a", type(old_code).__name__)

# %% [markdown]
# `nn.Parameter` sets the flag for you. Factory functions accept `requires_grad=True`; functions that convert
# (`as_tensor`, `from_numpy`) don't. Integers and bools have no derivatives, so PyTorch refuses them. (`Variable`, which
# you'll meet in old code, returns a plain tensor.)
#
# **Now you know.** The graph records what this call did with tracked tensors, as nodes that lead from the result back
# to the leaves.
#
# ## 4.2 Leaf or not?
#
# An optimizer refuses some tensors ("can't optimize a non-leaf Tensor"), and other tensors never get a `.grad`. Both
# depend on one definition: a *leaf* is a tensor that wasn't made by a recorded operation. So what counts is whether
# autograd was recording, not how you got the tensor.
#
# **Predict.** `w` is a tracked leaf. Which of the nine tensors below are *not* leaves?

# %% facts=["04-leaf-when-not-requiring-grad", "04-leaf-user-created-grad-fn", "04-grad-fn-creator"]
w = torch.ones(3, requires_grad=True)
with torch.no_grad():
    unrecorded = w * 2

tensors = {
    "torch.ones(3)": torch.ones(3),
    "torch.ones(3) * 2": torch.ones(3) * 2,
    "w": w,
    "w * 2": w * 2,
    "w * 2 under no_grad": unrecorded,
    "w.detach()": w.detach(),
    "w.double()": w.double(),
    "w.to(w.dtype)": w.to(w.dtype),
    "nn.Parameter(w * 2)": nn.Parameter(w * 2),
}

print(f"{'':22}{'is_leaf':10}{'requires_grad':16}grad_fn")
for name, t in tensors.items():
    node = type(t.grad_fn).__name__ if t.grad_fn else "None"
    print(f"{name:22}{t.is_leaf!s:10}{t.requires_grad!s:16}{node}")
print("w.to(w.dtype) is w:", tensors["w.to(w.dtype)"] is w)

# %% [markdown]
# Only `w * 2` and `w.double()`, the two tensors that have a `grad_fn`, are not leaves. A tensor that doesn't require
# grad is a leaf by definition, even if it was computed. A tensor that you marked yourself is also a leaf, and its
# `grad_fn` is None because no operation made it. A conversion that changes something is a recorded operation; a
# conversion that changes nothing returns the tensor itself. `nn.Parameter` uses the numbers without their history.
#
# Can you change the flag afterwards?

# %% facts=["04-requires-grad-attribute"]
w = torch.ones(3, requires_grad=True)
h = w * 2

error_of(lambda: setattr(h, "requires_grad", False))
w.requires_grad = False
now = (w * 2).requires_grad
print("h computed now requires grad:", now, "- the old h still does:", h.requires_grad)

# %% [markdown]
# You can change it only on leaves. This is how layers are frozen. You set the flag to False on the parameters, and the
# next forward pass records nothing for them. On a result, the flag follows from the inputs and can't be changed.
#
# **Find the lines.** We want to train three tensors. Which two lines does the optimizer refuse?

# %% facts=["04-leaf-lost-by-conversion", "04-leaf-when-not-requiring-grad"]
torch.manual_seed(0)
converted = torch.randn(3, requires_grad=True).double()
scaled = torch.randn(3, requires_grad=True) / 10
created = torch.randn(3, dtype=torch.float64, requires_grad=True)


def optimize(tensor: Tensor) -> str:
    torch.optim.SGD([tensor], lr=0.1)
    return "accepted"


results_of(
    {
        "converted": lambda: optimize(converted),
        "scaled": lambda: optimize(scaled),
        "created": lambda: optimize(created),
    }
)

# %% [markdown]
# The optimizer refuses the first two, because they are results of a conversion and of a division. Their gradients would
# go to the tensors that `torch.randn` returned, and your program no longer has a reference to those. So finish the
# numbers first and mark the tensor last: create it with its `dtype` and `device`, or compute it and call
# `requires_grad_()` on the untracked result. `.to("cuda")` is a conversion, just like `.double()`.
#
# **Now you know.** A leaf is a tensor that wasn't made by a recorded operation. Do all arithmetic and conversion first,
# and call `requires_grad_()` last.
#
# ## 4.3 Where gradients end up
#
# A training loop calls `zero_grad()` in every step. What would happen without it?
#
# **Predict.** `backward` runs twice, each time on a freshly computed `(w * x).sum()`. What are the gradients of `w`, of
# `x` and of `unused` afterwards?

# %% facts=["04-grad-none-then-accumulates", "04-autograd-gives-all-gradients", "04-only-leaves-keep-grad"]
w = torch.ones(3, requires_grad=True)
unused = torch.ones(3, requires_grad=True)
x = torch.tensor([1.0, 2.0, 3.0])

for _ in range(2):
    print("before:", w.grad)
    (w * x).sum().backward()
print("after: ", w.grad)
print("x.grad:", x.grad, " unused.grad:", unused.grad)

# %% [markdown]
# `.grad` is None at first, and then every backward pass *adds* to it. `zero_grad()` sets it back to None. If a tensor
# doesn't require grad, or the result doesn't depend on it, its `.grad` stays None, which is not the same as zeros.
#
# **By hand.** A is the leaf (1, 1), B = 2A, and C is the length of B, so that C's gradient with respect to B is B
# divided by its length. Work out the gradient of B and that of A, then see which of them is kept.

# %% facts=["04-only-leaves-keep-grad", "04-retain-grad"] shows_warning="UserWarning"
A = torch.ones(2, requires_grad=True)
B = 2 * A
B.norm().backward()
print("A.grad:", A.grad)
warning_of(lambda: print("B.grad:", B.grad), lines=1)

B = 2 * A
B.retain_grad()
B.norm().backward()
print("B.grad, with retain_grad:", B.grad)

B = 2 * A
B.norm().backward()
B.retain_grad()
print("B.grad, with retain_grad after backward:", B.grad)

# %% [markdown]
# The gradient of B is 2 / √8 = 0.7071 in both elements, and that of A is twice as much. Only leaves keep their
# gradient. The gradient of an intermediate result is passed on and then freed, unless you call `retain_grad()` on that
# result before backward.
#
# Here is the same as a picture, after two backward passes. `retain_grad` was called on the second B, and `A.grad` is
# the sum of both passes.

# %%
graph_picture(
    """
A = torch.ones(2, requires_grad=True)
B = 2 * A
C = B.norm()
""",
    rounds=2,
    retain=("B",),
)

# %% [markdown]
# There are two more ways to get the gradient of an intermediate result.

# %% facts=["04-nonleaf-gradient-unavailable"]
w = torch.ones(2, requires_grad=True)
h = w * 3
loss = (h * h).sum()

(gradient,) = torch.autograd.grad(loss, h, retain_graph=True)
print("autograd.grad:", gradient, " w.grad:", w.grad)

h.register_hook(lambda gradient: print("hook:         ", gradient))
loss.backward()
print("w.grad:", w.grad)

# %% [markdown]
# `torch.autograd.grad(loss, h)` returns the gradient and doesn't touch any `.grad`. Use it for everything that isn't a
# training step. A hook sees the gradient as it passes (chapter 6). (`retain_graph=True` is explained in section 4.5;
# despite its name, it has nothing to do with `retain_grad`.)
#
# If the result doesn't depend on one of the tensors, `autograd.grad` raises an error instead of returning None. You can
# choose what you want instead:

# %%
w, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

error_of(lambda: torch.autograd.grad(w.sum(), (w, unused)))
print(torch.autograd.grad(w.sum(), (w, unused), allow_unused=True)[1])
print(torch.autograd.grad(w.sum(), (w, unused), materialize_grads=True)[1])
error_of(lambda: torch.autograd.grad(w.sum(), torch.ones(2)))

# %% [markdown]
# You can ask for None, or for zeros of the right shape. A tensor that was never tracked is refused in any case.
#
# The leaves that get a gradient are the model's parameters, and also its input if you mark it. **By hand.** A layer
# with three inputs and one output computes w · x + b. What are the gradients of its output with respect to b, w and x?

# %% facts=["04-leaf-parameters-too"]
torch.manual_seed(0)
layer = nn.Linear(3, 1)
x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
print("leaves:", layer.weight.is_leaf, layer.bias.is_leaf, x.is_leaf)

layer(x).mean().backward()
print("bias:  ", layer.bias.grad.tolist())
print("weight:", layer.weight.grad.tolist())
print("x:     ", torch.equal(x.grad, layer.weight), "- it is the weight")

# %% [markdown]
# They are 1, x and w. The derivative of w · x with respect to w is x, and the derivative with respect to x is w.
# Saliency maps and adversarial examples are made from gradients of inputs.
#
# Finally, what does the optimizer see of all this? Watch the values of `p`.

# %% facts=["04-backward-updates-parameters", "04-optimizer-uses-graph"]
p = nn.Parameter(torch.tensor([1.0, 1.0]))
optimizer = torch.optim.SGD([p], lr=0.1)

(p * torch.tensor([5.0, -5.0])).sum().backward()
print("after backward:", p.tolist())
optimizer.step()
print("after step:    ", p.tolist())

p.grad = torch.tensor([100.0, 0.0])  # no forward pass, no graph: a number that we made up
optimizer.step()
print("after another: ", p.tolist())

# %% [markdown]
# `backward` fills `.grad` and doesn't change any value. `step` changes the values and never looks at the graph. The
# only thing they share is `.grad`, which is why you can clip gradients, average them over machines or make them up
# between the two calls.
#
# **Now you know.** Every backward pass adds to the `.grad` of the leaves. Other tensors keep their gradient only if you
# ask before backward. `.grad` is all that the optimizer gets from backward.

# %% exercise="gradients-apart"

# %% exercise="fix-non-leaf-parameter"

# %% [markdown]
# ## 4.4 backward takes a vector
#
# A loss is a single number, but many results have several elements.
#
# **Predict.** `y = w * factors` has three elements. What does `y.backward()` do? And `y.backward(v)` with v = [0, 1,
# 0]?

# %% facts=["04-backward-only-for-scalars", "04-backward-gradient-argument"]
w = torch.ones(3, requires_grad=True)
factors = torch.tensor([1.0, 10.0, 100.0])

error_of(lambda: (w * factors).backward())

for v in ([0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [2.0, 0.0, -1.0]):
    w.grad = None
    (w * factors).backward(torch.tensor(v))
    print(v, "gives", w.grad.tolist())

# %% [markdown]
# The derivative of three outputs with respect to three inputs is a 3 × 3 matrix, the Jacobian J. Row i contains the
# derivatives of output i. Backward never builds this matrix. You give it a vector v that says how much each output
# counts, and it computes the product v · J (a *vector-Jacobian product*). A loss is a single number, so v is 1 and you
# can leave it out. With more outputs there is no obvious choice, and you have to pass v.

# %% [markdown]
# **By hand.** `f` below turns three numbers into two: w0·w1 and w1 + w2². Write down its 2 × 3 Jacobian at (2, 3, 4).
# Which v gives you the second row?


# %% facts=["04-backward-gradient-argument"]
def f(w: Tensor) -> Tensor:
    return torch.stack([w[0] * w[1], w[1] + w[2] ** 2])


w = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
y = f(w)

for v in ([1.0, 0.0], [0.0, 1.0], [1.0, 10.0]):
    (delivered,) = torch.autograd.grad(y, w, torch.tensor(v), retain_graph=True)
    print(v, "gives", delivered.tolist())

# %%
row_by_row([[3.0, 2.0, 0.0], [0.0, 1.0, 8.0]], v=[0.0, 1.0])

# %% [markdown]
# If v has a single 1, backward returns one row, so [0, 1] gives the second. Any other v mixes the rows: [1, 10] gives
# the first plus ten times the second. A whole Jacobian therefore costs one backward pass for each output. For a loss
# this is cheap: it is a single number, so one pass gives all derivatives, however many parameters there are.

# %% [markdown]
# Four details follow. The last of them is where the gradient goes if two elements are equally large:

# %% facts=["04-backward-gradient-argument", "04-backward-only-for-scalars"]
v = torch.tensor([1.0, 10.0])
(one,) = torch.autograd.grad(f(w), w, v)
(other,) = torch.autograd.grad((f(w) * v).sum(), w)
print("equal:", torch.equal(one, other))

single = torch.full((1, 1), 5.0, requires_grad=True)
(single * 3).backward()
print("of shape (1, 1):", single.grad.tolist())

error_of(lambda: f(w).backward(torch.tensor([1.0, 10.0, 100.0])))

tied = torch.tensor([2.0, 2.0, 1.0], requires_grad=True)
by_all, by_dim = (torch.autograd.grad(top, tied)[0] for top in (tied.max(), tied.max(0).values))
print("max():", by_all.tolist(), " max(0):", by_dim.tolist())

# %% [markdown]
# `y.backward(v)` gives the same gradients as `(y * v).sum().backward()`, without computing the product. v must have the
# shape of `y`. A result with a single element counts as a loss, whatever its number of dimensions. And `max()` splits
# its gradient between equal elements, while `max(dim)` returns a position and sends the whole gradient there.
#
# Only a few rules describe how a node turns v into the next v. Compare them with the pictures above.
#
# | operation | what its node sends back, for an incoming g |
# |---|---|
# | `a + b` | g to both |
# | `a * b` | g·b to a, g·a to b |
# | `x.sum()` | g, expanded to the shape of x |
# | `x.expand(…)`, broadcasting | g, summed over the expanded dimensions |
# | `x.max(dim)`, `x[i]`, `gather` | g to the places that were taken, 0 elsewhere |
# | `x.max()`, `x.amax(…)` | g in equal shares to the largest elements, 0 elsewhere |
# | `x @ w` | g @ w.T to x, x.T @ g to w |
#
# **Now you know.** Backward computes v · J without ever building J. One pass gives one weighted sum of the rows of J,
# and the J of a loss has only one row.
#
# ## 4.5 How long a graph lives
#
# "Trying to backward through the graph a second time" is probably the most common autograd error, and the one most
# often silenced. It is raised because each node keeps the tensors that its derivative needs, and backward frees them as
# it goes.
#
# **Predict.** Each of these three sums is computed once, and backward runs on it twice. Which second call raises?

# %% facts=["04-backward-only-once"]
w = torch.ones(3, requires_grad=True)

sums = {
    "(w + 1).sum()": (w + 1).sum(),
    "(w * w).sum()": (w * w).sum(),
    "w.exp().sum()": w.exp().sum(),
}
for name, total in sums.items():
    w.grad = None
    total.backward()
    print(f"{name}  first  {w.grad}")
    try:
        total.backward()
        print(f"{'':13}  second {w.grad}")
    except RuntimeError as error:
        print(f"{'':13}  second raises: {str(error).partition(' (')[0]} …")

# %% [markdown]
# The second call raises for the last two sums. To send a gradient through `w * w`, its node needs `w`; exp needs its
# own result; `w + 1` needs nothing. Backward frees what the nodes keep because these are the large tensors. The nodes
# themselves stay (in the explorer, their boxes then say *what it kept is freed*). So a second pass fails only if it
# reaches a node that had something to free.

# %% [markdown]
# With `retain_graph=True`, backward doesn't free the kept tensors:

# %% facts=["04-retain-graph"]
x = torch.tensor([3.0], requires_grad=True)
y = (x**2).sum()

y.backward(retain_graph=True)
print("first: ", x.grad.item())
y.backward()
print("second:", x.grad.item())
error_of(lambda: y.backward(), lines=1)

# %% [markdown]
# Every call but the last has to keep the graph, and the gradients add up as always: 6, then 12. There are good reasons
# to do this, for example two losses that share a part, or several rows of a Jacobian. But most of the time the error
# has another cause. In the next cell a recurrent state is carried from step to step, and each step calls backward. The
# second step raises; somebody adds `retain_graph=True`, and it runs. (With an optimizer's step in between,
# `retain_graph=True` doesn't even help: the old steps need the old weights, and section 4.7's error comes instead.)
#
# **Predict.** How many nodes does the third step's backward walk through, compared with the first?

# %% facts=["04-retain-graph"]
w = torch.tensor(0.5, requires_grad=True)


def three_steps(carry, **options) -> None:
    """Run backward on three steps of one sequence; carry makes the state for the next step."""
    state = torch.tensor(1.0)
    for step in range(3):
        state = (state * w).tanh()
        loss = (state - 1) ** 2
        nodes = graph_of(loss, {}).nodes  # those that the explorer would draw
        print(f"step {step}: {len(nodes)} nodes")
        loss.backward(**options)
        state = carry(state)


print("retain_graph=True")
three_steps(lambda state: state, retain_graph=True)
print("state.detach() between the steps")
three_steps(lambda state: state.detach())
print("neither of the two")
error_of(lambda: three_steps(lambda state: state), lines=1)

# %% [markdown]
# The third step's backward walks through 9 nodes, the first through 5. Each step adds two nodes, for its product and
# its tanh, and the nodes of all earlier steps are still there, because the state is the result of the previous step's
# graph. With `retain_graph=True` every step is slower and larger than the last. If you want the gradient to stop
# between the steps, cut there with `detach()`. The error was right.
#
# The same thing can happen without any error. This loop adds up its losses to print their mean later:

# %%
w = torch.tensor([0.5, 1.5], requires_grad=True)
x = torch.tensor([1.0, 2.0])

total, number = 0.0, 0.0
for _ in range(3):
    loss = (w * x).sum()
    total = total + loss
    number += loss.item()
    nodes = len(graph_of(total, {}).nodes)
    print(f"total: {nodes:2} nodes    number: a {type(number).__name__}, no graph")

# %% [markdown]
# A graph lives as long as something refers to its end, and `total` refers to the graphs of all rounds, including
# everything their nodes keep. Memory grows until the loop ends or the machine runs out. (If the loop also calls
# `loss.backward()`, what the nodes keep is freed, and only the nodes pile up.) `.item()` returns the number and lets
# the graph be freed. This is the graph of `total` after three rounds:

# %%
graph_explorer("4.5 a total that grows")

# %% [markdown]
# **Now you know.** Backward frees what the nodes keep. The graph itself lives as long as something refers to its end.

# %% exercise="graph-census"

# %% exercise="jacobian-by-vjp"

# %% [markdown]
# ## 4.6 Cutting: detach, .data, no_grad
#
# A network that only supplies targets must not learn, and a metric must not keep a graph alive, so you cut. The trouble
# is that some cuts don't look like cuts, and none of them raises an error.
#
# **Find the lines.** Which of these results still lead back to `w`?

# %% facts=["04-detach-replaces-data"]
w = torch.tensor([0.5, 2.5], requires_grad=True)
h = w * 1

cases = {
    "h.clone()": h.clone(),
    "h.double()": h.double(),
    "h.long()": h.long(),
    "h > 1": h > 1,
    "h.argmax()": h.argmax(),
    "torch.tensor(h.tolist())": torch.tensor(h.tolist()),
    "h.round()": h.round(),
}

for name, result in cases.items():
    print(f"{name:26}{type(result.grad_fn).__name__ if result.grad_fn else 'cut'}")
error_of(lambda: h.numpy())
print("gradient of round:", torch.autograd.grad(h.round().sum(), w)[0].tolist())

# %% [markdown]
# `clone`, `double` and `round` still lead back to `w`. Integers, comparisons and positions have no derivative, and
# `.item()` and `.tolist()` return Python numbers, which have no graph. `.numpy()` would also leave the graph, so it
# raises and asks you to call `detach()` first. `round` is recorded, but it is flat almost everywhere, so its gradient
# is 0. When a model learns nothing, look for one of these in its loss.
#
# Back to the loop at the start of the chapter. `.item()` turned each error into a Python number, `torch.tensor` made a
# new leaf from these numbers, and `requires_grad_()` only marked that leaf. The loop needs none of the three: compute
# `errors = (linear(inputs) - targets).square()` in one go, and take its mean:

# %%
optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
for step in range(3):
    loss = (linear(inputs) - targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")

# %% [markdown]
# When you do want to cut, you can use `detach()` or `.data`. Both return a tensor that shares memory with the original
# and has no history. They differ when you write into it.
#
# **Predict.** `b = a.exp()`, and the loss is computed from `b`. Then the numbers in `b` are multiplied by 2 in place,
# either through `b.detach()` or through `b.data`. The right gradient of `a` is 1 (a is 0, and the derivative of exp is
# exp). What does backward compute?

# %% facts=["04-detach-replaces-data"]
a = torch.zeros(3, requires_grad=True)

b = a.exp()
loss = b.sum()
b.data.mul_(2)
loss.backward()
print("through .data:", a.grad.tolist())

b = a.exp()
loss = b.sum()
b.detach().mul_(2)
error_of(lambda: loss.backward())

# %% [markdown]
# exp keeps its result for backward, and both writes spoil that result. Autograd notices a write through `detach()`
# (section 4.7 shows how), and backward raises. It doesn't notice a write through `.data`, so the gradient is wrong by a
# factor of 2, without an error or a warning.
#
# How far do gradients travel on the other side of a cut?

# %% facts=["04-detach-never-requires-grad"]
w = torch.ones(2, requires_grad=True)
h = w * 3
d = h.detach()
shares = d.data_ptr() == h.data_ptr()
print("shares memory:", shares, " leaf:", d.is_leaf, " requires grad:", d.requires_grad)

d.requires_grad_()
(d * 2).sum().backward()
print("d.grad:", d.grad, " w.grad:", w.grad)

# %% [markdown]
# They travel to `d` and no further. `d` is a new leaf at the cut. Marking it starts a second graph, which has no
# connection to the first.
#
# **Predict.** A second model is trained on the output of a first one. Which of the two gets gradients when the output
# is passed as `inter.detach()`? And when `inter.detach()` is called on a line by itself?

# %% facts=["04-detach-blocks-upstream"]
torch.manual_seed(0)
first, second = nn.Linear(4, 3), nn.Linear(3, 1)
x = torch.randn(8, 4)


def who_learns(case: str) -> None:
    one, two = (layer.weight.grad is not None for layer in (first, second))
    print(f"{case:36}first: {one!s:7}second: {two}")
    first.zero_grad()
    second.zero_grad()


inter = first(x)
second(inter.detach()).mean().backward()
who_learns("second(inter.detach())")

inter = first(x)
inter.detach()
second(inter).mean().backward()
who_learns("inter.detach(), then second(inter)")

# %% [markdown]
# Gradients stop where the detached tensor enters: the second model learns, the first learns nothing, and there is no
# error. `detach()` doesn't change `inter` itself. If you call it on a line by itself, you throw its result away and
# nothing is cut. (There is also `detach_()`, which turns a result into a leaf in place. It refuses a view, because a
# view's history runs through its base and can't be cut separately.)
#
# `torch.no_grad()` cuts everything within its block, and saves memory. **By hand.** `x.sin().exp().tanh()` runs on 1000
# numbers of 4 bytes each. What must each of the three operations keep for its derivative, and how many bytes is that?

# %% facts=["04-no-grad-saves-memory"]
x = torch.linspace(-1, 1, 1000, requires_grad=True)


def kept_bytes() -> int:
    """What x.sin().exp().tanh() keeps for backward, each storage counted once."""
    kept = {}

    def note(saved: Tensor) -> Tensor:  # called with every tensor that a node is about to keep
        kept[saved.data_ptr()] = saved.nbytes
        return saved.detach()  # without its history, which would keep it (section 1.5)

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        x.sin().exp().tanh()
    return sum(kept.values())


print("as usual:", kept_bytes())
with torch.no_grad():
    print("no_grad: ", kept_bytes())

# %% [markdown]
# Each operation keeps 4000 bytes: sin keeps its input, exp and tanh keep their results. Under `no_grad` autograd
# creates no nodes and keeps nothing, and each intermediate result is freed as soon as the next one has been computed.
#
# **Predict.** Inside `no_grad`, which of these require grad: `w * 2`, `w` itself, `torch.ones(2, requires_grad=True)`,
# the weight of a new `nn.Linear`?

# %% facts=["04-no-grad-results"]
w = torch.ones(2, requires_grad=True)

with torch.no_grad():
    print("w * 2:          ", (w * 2).requires_grad)
    print("w:              ", w.requires_grad)
    print("a new leaf:     ", torch.ones(2, requires_grad=True).requires_grad)
    print("a new parameter:", nn.Linear(2, 1).weight.requires_grad)
    w.mul_(10)
print("w afterwards:", w.tolist())

# %% [markdown]
# All of them do, except the first. `no_grad` affects only the results of operations. It doesn't change the flags of
# existing tensors or of new leaves. Since nothing is recorded inside the block, you can change leaves in place there,
# which is how optimizers make their step.
#
# `torch.inference_mode()` is stricter, and saves a little more:

# %% facts=["04-no-grad-results"]
w = torch.ones(2, requires_grad=True)
with torch.no_grad():
    plain = w * 2
with torch.inference_mode():
    strict = w * 2

print("after no_grad:       ", (plain * w).sum().requires_grad)
error_of(lambda: (strict * w).sum(), lines=1)
error_of(lambda: strict.requires_grad_(), lines=1)
print("a clone:             ", (strict.clone() * w).sum().requires_grad)

# %% [markdown]
# A result of `no_grad` is an ordinary tensor. A result of `inference_mode` has no version counter (next section), so
# autograd couldn't notice a write into it, and refuses to keep it for backward. Use `inference_mode` where no output
# will ever need a gradient, for example in a server. For the evaluation in a training loop, `no_grad` causes fewer
# surprises.
#
# You can also cut inside a formula. **By hand.** At w = 3, what is the derivative of `w * w`, and what is that of `w *
# w.detach()`?

# %%
w = torch.tensor(3.0, requires_grad=True)

for name, y in {"w * w": w * w, "w * w.detach()": w * w.detach()}.items():
    print(f"{name:16}value {y.item():g}, gradient {torch.autograd.grad(y, w)[0].item():g}")

# %% [markdown]
# The derivatives are 6 and 3, because the detached factor is a constant that happens to be 3. A detached part counts in
# the value but not in the gradient, so a formula can take its value from one part and its gradient from another.
#
# **Now you know.** Call `detach()` or use `no_grad` on the *value* that should be a constant. Python numbers, integers,
# comparisons and positions cut without asking. Never write through `.data`.

# %% exercise="find-the-cut"

# %% exercise="fake-quantize"

# %% [markdown]
# ## 4.7 In place, with version numbers
#
# "One of the variables needed for gradient computation has been modified by an inplace operation": why does this error
# come so late, and why only sometimes?
#
# **Predict.** Here are three in-place writes: `w.add_(1)` on a leaf; `h = w * 2`, then `h.add_(1)`; `h = w.sigmoid()`,
# then `h.mul_(2)`. Which of them raise, and do they raise at once or in backward?

# %% facts=["04-inplace-forbidden-if-requires-grad"]
w = torch.zeros(3, requires_grad=True)

error_of(lambda: w.add_(1))

h = w * 2
h.add_(1)
h.sum().backward()
print("w * 2, then add_:", w.grad.tolist())

h = w.sigmoid()
print("version before:", h._version)
h.mul_(2)
print("version after: ", h._version)
error_of(lambda: h.sum().backward())

# %% [markdown]
# The first write raises at once: gradients end at a tracked leaf, and an in-place operation would turn it into the
# result of an operation. The second write works, because the backward of `w * 2` doesn't need the old numbers in `h`.
# The third raises in backward, because sigmoid computes its slope from its own result.
#
# How does backward know? Every tensor counts its writes in `_version`. Its views and the result of `detach()` share
# that counter, while `.data` starts a new one. A node stores the version of each tensor that it keeps, and compares it
# when it uses the tensor.

# %%
version_strip(
    """
w = torch.zeros(3, requires_grad=True)
h = w.sigmoid()
k = h.sin()
h.mul_(2)
m = h.sin()
""",
    watch="h",
)

# %% [markdown]
# Sigmoid keeps its result and the first sin its input, both at version 0. The write makes it version 1, so both would
# raise. The second sin runs after the write, so it expects version 1 and doesn't raise. The error message above
# contains all this: it names the operation whose result was overwritten ("output 0 of Sigmoid"), the current version
# and the version that was stored. It doesn't say which line wrote.

# %% [markdown]
# `torch.autograd.set_detect_anomaly` promises to find a line. Which line does it show?

# %% facts=["04-inplace-forbidden-if-requires-grad"] shows_warning="UserWarning"
with warnings.catch_warnings(record=True) as caught, torch.autograd.set_detect_anomaly(True):
    warnings.simplefilter("always")
    w = torch.zeros(3, requires_grad=True)
    h = w.sigmoid()
    h.mul_(2)
    error_of(lambda: h.sum().backward())

for warning in caught:
    shown = [line.strip() for line in str(warning.message).splitlines() if "igmoid" in line]
    if shown:
        print(warning.category.__name__, "\n  ".join(shown), sep=": ")

# %% [markdown]
# It shows the line that *keeps* the tensor, not the line that overwrites it. From there, look further down for a write
# into the same memory, under any of its names: `h +=`, `h[0] =`, `h.relu_()`, a write into a view of `h`. Replace that
# write with a new tensor (`h = h * 2`). Anomaly detection slows everything down, so switch it on only while you are
# looking for a bug.
#
# So it matters what an operation keeps.
#
# **Predict.** For each operation in the next cell: does it keep its input, its result, or neither? For each one, ask
# whether you would write its derivative with the input or with the result.

# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
operations = {
    "x + 1": lambda: x + 1,
    "x * 2": lambda: x * 2,
    "x.sum()": lambda: x.sum(),
    "x.cumsum(0)": lambda: x.cumsum(0),
    "x * x": lambda: x * x,
    "x.square()": lambda: x.square(),
    "x.sin()": lambda: x.sin(),
    "x.log()": lambda: x.log(),
    "x.exp()": lambda: x.exp(),
    "x.sigmoid()": lambda: x.sigmoid(),
    "x.relu()": lambda: x.relu(),
    "x.softmax(0)": lambda: x.softmax(0),
    "x.norm()": lambda: x.norm(),
}

for name, operation in operations.items():
    kept = []

    def note(saved: Tensor, kept=kept) -> Tensor:
        kept.append(saved.data_ptr())
        return saved.detach()

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        result = operation()
    words = [word for word, t in (("input", x), ("result", result)) if t.data_ptr() in kept]
    print(f"{name:16}{' and '.join(words) or 'neither'}")

# %% [markdown]
# A node keeps what the formula of its derivative uses. The derivative of exp is exp, which is the result; the
# derivative of sin is cos of the input; a sum needs no number at all. (`x * 2` keeps the 2 and neither of your tensors.
# That is still something to free, so a second backward through it raises.) This is why `relu_()` is safe right after a
# linear layer, and not after a sigmoid.

# %% [markdown]
# A write through a view is a write into its base. Autograd knows this, and rewrites the history of the base:

# %%
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
error_of(lambda: w[0].mul_(2))

h = w * 2
h[0] *= 5
print(h, type(h.grad_fn).__name__)
h.sum().backward()
print("w.grad:", w.grad)

first, rest = (w * 2).split([1, 2])
error_of(lambda: first.mul_(5), lines=1)

# %% [markdown]
# `w[0]` is a view of a leaf, and is refused like the leaf itself. On `h` the write is recorded: `h` is now the result
# of copying a changed slice into the old `h` (`CopySlices`), and the gradient of `w[0]` is 2 · 5. If one call returns
# several views, as `split` does, you can't write into any of them; clone the one that you want to change.
#
# **Now you know.** Each tensor counts its writes. Each node stores the count of what it keeps, and backward compares
# the two. Making a new tensor instead of writing in place is always safe.

# %% exercise="predict-view-writes"

# %% exercise="fix-inplace-scan"

# %% [markdown]
# ## 4.8 nan in backward, gradients in a loss
#
# The loss is fine for hours, and then every weight is nan. Often the output was right until the end.
#
# **Predict.** Each of these five outputs is right. Which of the gradients are nan?

# %% facts=["04-gradient-norm-at-zero"]
cases = {
    "x.abs() at 0": (0.0, lambda x: x.abs()),
    "(x * x).sqrt() at 0": (0.0, lambda x: (x * x).sqrt()),
    "where(x == 0, 0, x.sqrt()) at 0": (0.0, lambda x: torch.where(x == 0, 0.0, x.sqrt())),
}
for place in (30.0, 1000.0):
    cases[f"where(x > 20, x, x.exp().log1p()) at {place:g}"] = (
        place,
        lambda x: torch.where(x > 20, x, x.exp().log1p()),
    )

for name, (start, function) in cases.items():
    x = torch.tensor(start, requires_grad=True)
    y = function(x)
    y.backward()
    print(f"{name:44}output {y.item():g}, gradient {x.grad.item()}")

# %% [markdown]
# Three are: the two with a root, and the last. The square root has an infinite slope at 0, and backward multiplies it
# by the slope of x², which is 0. Zero times infinity is nan. `torch.where` computes both branches and selects
# afterwards. In backward it sends 0 to the branch that wasn't chosen, and that branch multiplies the 0 by its own
# slope, which is infinity or nan. So a gradient of zero doesn't stop a nan. `exp` of 1000 is infinite, and the same
# thing happens there. `exp` of 30 is finite, so nothing goes wrong, and the slope that PyTorch chose for `abs` at 0 is
# 0.

# %% [markdown]
# So the bad number must never reach the root. Below, `where` is used on both sides of it: first to replace each 0 with
# a harmless 1, then to put the 0 back.

# %% facts=["04-gradient-norm-at-zero"]
x = torch.tensor([0.0, 4.0], requires_grad=True)

harmless = torch.where(x == 0, 1.0, x)
y = torch.where(x == 0, 0.0, harmless.sqrt())
print("output", y.tolist(), "gradient", torch.autograd.grad(y.sum(), x)[0].tolist())

origin = torch.zeros(2, requires_grad=True)
for name, length in {
    "(x * x).sum().sqrt()": (origin * origin).sum().sqrt(),
    "(x * x).sum().add(1e-12).sqrt()": (origin * origin).sum().add(1e-12).sqrt(),
    "torch.linalg.vector_norm(x)": torch.linalg.vector_norm(origin),
}.items():
    (gradient,) = torch.autograd.grad(length, origin)
    print(f"{name:34}{length.item():g}, gradient {gradient.tolist()}")

# %% [markdown]
# The unused branch now has a finite slope, and 0 times a finite slope is 0. The first `where` also selects in backward:
# it sends a gradient to `x` only at the places where it used the number from `x`. A length has no derivative at the
# origin. `vector_norm` returns 0 there, which is what you want for a distance of 0. A small number under the root also
# gives a finite gradient, but then the length is never exactly 0.

# %% [markdown]
# Softmax has the same trap. Every score of this row is masked with -inf, so the result is nan, and `where` replaces it
# with zeros.

# %%
scores = torch.tensor([1.0, 2.0], requires_grad=True)
masked = scores + torch.tensor([-torch.inf, -torch.inf])

p = masked.softmax(0)
blanked = torch.where(torch.tensor(False), p, 0.0)
print("softmax", p.tolist(), "blanked", blanked.tolist())
print("gradient", torch.autograd.grad(blanked.sum(), scores)[0].tolist())

# %% [markdown]
# The gradient is nan again. Softmax keeps its result and multiplies the gradient by it, and 0 times nan is nan, so
# fixing the output is too late. Once softmax has produced a nan, only a selection on the *input* side can stop it
# (`masked_fill` on the scores, instead of the sum). It is better if no nan arises in the first place. (Chapters
# [12](../12_language_model/language_model.ipynb) and [15](../15_attention/attention.ipynb) meet such rows in
# attention.)

# %% exercise="distance-gradient"

# %% exercise="masked-softmax"

# %% [markdown]
# ### A gradient as part of a loss
#
# Backward consists of ordinary tensor operations. With `create_graph=True` autograd records these operations, and the
# gradient is then a result like any other.
#
# **Predict.** For y = x³ at x = 2: what are the first, second and third derivatives?

# %% facts=["04-gradient-penalty-create-graph"]
x = torch.tensor(2.0, requires_grad=True)
derivative = x**3

for order in ("first", "second", "third"):
    (derivative,) = torch.autograd.grad(derivative, x, create_graph=True)
    print(f"{order:7}{derivative.item():g}, has a graph: {derivative.grad_fn is not None}")

(plain,) = torch.autograd.grad(x**3, x)
print(f"first, without create_graph: {plain.item():g}, has a graph: {plain.grad_fn is not None}")

# %% [markdown]
# They are 3x² = 12, 6x = 12 and 6. Each of the three has a graph that leads back to `x`, so it can be differentiated
# again. Without `create_graph` you get the same number, but it has no graph that leads back to `x`.

# %% [markdown]
# **By hand.** We add a penalty on the gradient g of w² to the loss: w² + g². At w = 3, what is g, and what is the
# derivative of the whole loss with respect to w? Then see what you get with `create_graph=False`.

# %% facts=["04-gradient-penalty-create-graph"]
for create_graph in (True, False):
    w = torch.tensor([3.0], requires_grad=True)
    loss = (w**2).sum()
    (g,) = torch.autograd.grad(loss, w, create_graph=create_graph, retain_graph=True)
    total = loss + g.pow(2).sum()
    total.backward()
    numbers = f"total {total.item():g}, w.grad {w.grad.item():g}"
    print(f"create_graph={create_graph}: {numbers}, tracked: {g.requires_grad}")

# %% [markdown]
# g is 6, and the derivative is 2w + 8w = 30. Without `create_graph` you get only 6, as if there were no penalty. The
# printed loss contains the penalty and looks right, but to autograd g is a constant. Check `g.requires_grad` before you
# add a gradient to a loss. And if the penalty contains a root of g², remember its slope at 0: a gradient of exactly
# zero, from a dead relu, turns the whole step into nan.
#
# **Now you know.** A gradient of zero doesn't stop a nan, so select before the dangerous function. A gradient can be
# part of a loss if it was computed with `create_graph=True`.

# %% exercise="gradient-penalty"

# %% [markdown]
# ## 4.9 The engine, by hand
#
# You have seen all the parts; now put them together. You can call a node like a function: it takes the gradient of its
# result and returns the gradients of its inputs.
#
# **Predict.** `h` is used twice, in `h.sin()` and in the sum. In which order must the nodes be called?

# %% facts=["04-graph-nodes-and-edges", "04-micrograd-recommendation"]
w = torch.tensor(2.0, requires_grad=True)
h = w * w
y = h.sin() + h

add_node = y.grad_fn
sin_node, mul_node = (node for node, _ in add_node.next_functions)

to_sin, to_h = add_node(torch.tensor(1.0))
through_sin = sin_node(to_sin)
print(f"h gets {through_sin.item():.4f} through sin and {to_h.item():.4f} from the sum")

print(f"too early: {sum(mul_node(to_h)).item():.4f}")
print(f"complete:  {sum(mul_node(through_sin + to_h)).item():.4f}")

y.backward()
print(f"backward:  {w.grad.item():.4f}")

# %% [markdown]
# The sum must be called first, then sin, and the product of `w` with itself last. A node can pass its gradient on only
# when every operation that used its result has sent its share. The product returns two gradients, one for each factor.
# Both factors are `w`, so the two are added.
#
# **Now you know.** That is the whole engine: an order, local derivatives, and addition. In the last exercise you write
# it for single numbers, without torch, and compare it with torch.

# %% exercise="micrograd"

# %% [markdown]
# ## On a GPU
#
# In a training step on a GPU most lines only queue work and return, but `.item()` needs the number and waits for all of
# it. The cell times each line of a step. Without a GPU it shows a recorded run. No exercise needs it.


# %% varies="a CUDA device changes what is shown"
@cuda_demo("04_autograd")
def where_python_waits() -> None:
    """Milliseconds until each line of a training step returns to Python, the median of 10 steps."""
    model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.rand(4096, 4096, device="cuda")
    times: dict[str, list[float]] = {}

    def timed(name: str, call):
        start = time.perf_counter()
        result = call()
        times.setdefault(name, []).append(1000 * (time.perf_counter() - start))
        return result

    for step in range(15):
        if step == 5:
            times.clear()  # the first steps set up libraries
        loss = timed("forward", lambda: model(x).mean())
        timed("backward", loss.backward)
        timed("step", optimizer.step)
        timed("zero_grad", optimizer.zero_grad)
        timed("loss.item()", loss.item)
    for name, values in times.items():
        print(f"{name:12}{sorted(values)[len(values) // 2]:8.2f} ms")


where_python_waits()

# %% [markdown]
# ## Folklore, checked
#
# The table lists what people say about autograd, and whether it is true. Each row has a proof that you can expand, a
# few lines that run without an error only if the statement on the right is true.

# %%
folklore("04_autograd")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("04-backward-only-once")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - the note [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html): how the graph is recorded,
#   what is saved, in-place checks, and the modes `no_grad` and `inference_mode` side by side;
# - [`torch.Tensor.backward`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html),
#   [`torch.autograd.grad`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html),
#   [`torch.Tensor.retain_grad`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.retain_grad.html) and
#   [`torch.Tensor.is_leaf`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html): the four pages
#   behind sections 4.2 to 4.5;
# - [`torch.autograd.graph`](https://docs.pytorch.org/docs/stable/autograd.html#autograd-graph): nodes, hooks and
#   `saved_tensors_hooks`, which this chapter uses to see what nodes keep;
# - the tutorial [Hooks for autograd saved
#   tensors](https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html): these
#   hooks, with examples of use;
# - [`torch.func.jacrev`](https://docs.pytorch.org/docs/stable/generated/torch.func.jacrev.html) and
#   [`torch.func.vjp`](https://docs.pytorch.org/docs/stable/generated/torch.func.vjp.html): rows of a Jacobian all at
#   once;
# - [`torch.autograd.detect_anomaly`](https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.detect_anomaly),
#   and [`torch.linalg.vector_norm`](https://docs.pytorch.org/docs/stable/generated/torch.linalg.vector_norm.html).
#
# **Next:** chapter 5, [Custom Functions](../05_custom_functions/custom_functions.ipynb).
