# %% [markdown]
# # Autograd and leaf tensors
#
# `loss.backward()` is one line, and most of what goes wrong with it happens somewhere else: a tensor that is no leaf,
# a gradient that is added instead of replaced, a write that nobody noticed, a nan in a branch that was never taken.
# After this chapter you can
#
# - draw the graph that a few lines record, and say which tensors are leaves, which get a `.grad`, and which have to
#   be asked for it;
# - use backward with a vector, and build a Jacobian from it;
# - cut gradients on purpose (`detach`, `no_grad`) and see when you cut them by accident (`.data`, `.item()`,
#   conversions);
# - repair in-place errors, and the silent bugs next to them;
# - keep nan out of gradients, and make a gradient part of a loss.
#
# **60 minutes to read, 135 minutes to practise, 20 points.** You need chapter 2, sections 2.1 and 2.2 (storage, view
# or copy), and the idea of a derivative and of the chain rule. It helps to have run a training loop once.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

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

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.backward_graph import graph_explorer, graph_of, graph_picture
from torchkata.pictures.row_by_row import row_by_row
from torchkata.pictures.version_strip import version_strip
from torchkata.verdicts import (
    check,
    incoming_gradient,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)

# %% [markdown]
# ## 4.1 The graph is written while Python runs
#
# Python computes the numbers. Beside it, autograd takes notes: for each operation on a *tracked* tensor (one with
# `requires_grad=True`) it makes a *node* that knows how to send a gradient back through that operation. A result
# keeps its node in `grad_fn`; a node knows the nodes behind it as `next_functions`.
#
# **Predict.** Only `w` is tracked. Which nodes will the next cell print for `((w * x) + 1).sum()`, in which order,
# and where is `x`?


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
# The last operation comes first, because gradients travel backwards: the edges lead from results to inputs. Nodes are
# backward functions, not tensors. `w`, where the way ends, is called a *leaf* (section 4.2 says exactly what that
# is); it appears as AccumulateGrad, the node that adds to its `.grad`. `x` and the 1 are not tracked, so no edge
# leads to them. Marking `w` was all it took: everything that is computed from it is tracked in turn.

# %% [markdown] facts=["04-graph-view-in-tensorboard"]
# This is the real graph. TensorBoard's `add_graph` draws something else, a trace of the module, and never looks at
# `grad_fn`.

# %% [markdown]
# The explorer below draws that graph for lines that you type. Gradients flow down. A box is a node; under its name
# stand the Python name of its result and what the node keeps for backward. A rounded box is a leaf. Press *forward*
# to run the lines and *backward* to send a gradient through. Then let the graph grow: write `z = (y * w).sum()` in
# the field *next line* and press Enter. Two arrows now end at `w`. The list *example* has one or two for most
# sections.

# %%
graph_explorer()

# %% [markdown]
# **Predict.** A function with an `if` is called on 2 and on -2. Do both calls record the same graph?

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
# No. The graph is no description of the function; it is the list of what this call did. `if`, loops and recursion are
# plain Python and leave no node. The next call writes a new graph, and the old one goes when nobody holds its result
# any more. In the first graph MulBackward0 of `w * x` is printed twice: `product` is used twice, and two paths lead
# to its one node.

# %% [markdown]
# **Predict.** The same model runs twice, the second time under `torch.no_grad()`. Are the numbers the same? What is
# `grad_fn` of each?

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
# The graph has no part in computing the output; it is a by-product for backward. Inference needs none, and section
# 4.6 shows what that saves.

# %% [markdown]
# **Predict.** Which of the tensors in the next cell are tracked? And which three calls are refused?

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
# Tensors are not tracked unless you say so; `nn.Parameter` says so for you. Factories take `requires_grad=True`,
# functions that convert (`as_tensor`, `from_numpy`) do not. Integers and bools have no derivatives and are refused.
# `Variable` is a name from before version 0.4: today it returns a plain tensor, and nobody needs it.

# %% [markdown]
# ## 4.2 Leaf or not?
#
# A *leaf* is a tensor that no recorded operation made. That is a sentence about the recording, not about how you came
# by the tensor.
#
# **Predict.** `w` is a tracked leaf. For each of the nine tensors below: is it a leaf, does it require grad, and does
# it have a `grad_fn`?

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
# Only two are not leaves: the two that have a `grad_fn`. Whatever does not require grad is a leaf by definition,
# computed or not. A tensor that you marked yourself is a leaf as well, and its `grad_fn` is None: nobody computed it.
# A conversion that changes something is a recorded operation; one that changes nothing returns the tensor itself.
# `nn.Parameter` takes the numbers and leaves the history behind.

# %% [markdown]
# **Predict.** `h = w * 2` requires grad. Can you set `h.requires_grad = False`? And `w.requires_grad = False`?

# %% facts=["04-requires-grad-attribute"]
w = torch.ones(3, requires_grad=True)
h = w * 2

error_of(lambda: setattr(h, "requires_grad", False))
w.requires_grad = False
print("h computed now requires grad:", (w * 2).requires_grad, "- the old h still does:", h.requires_grad)

# %% [markdown]
# The flag can be changed on leaves only. That is how layers are frozen: set it to False on the parameters, and the
# next forward pass records nothing for them. On a result the flag is a consequence of its operands.

# %% [markdown]
# **Predict.** Which of these three tensors does an optimizer take?

# %% facts=["04-leaf-lost-by-conversion", "04-leaf-when-not-requiring-grad"]
torch.manual_seed(0)
converted = torch.randn(3, requires_grad=True).double()
scaled = torch.randn(3, requires_grad=True) / 10
created = torch.randn(3, dtype=torch.float64, requires_grad=True)

error_of(lambda: torch.optim.SGD([converted], lr=0.1))
error_of(lambda: torch.optim.SGD([scaled], lr=0.1))
print("taken:", len(torch.optim.SGD([created], lr=0.1).param_groups[0]["params"]), "tensor")

# %% [markdown]
# The first two are results: of a conversion, and of a division. Their gradients would land on the tensors that
# `torch.randn` returned, which nobody holds any more. So finish the numbers first and mark them last: create the
# tensor with its `dtype` and `device`, or compute it and call `requires_grad_()` on the untracked result.
# `.to("cuda")` is a conversion like `.double()`.

# %% [markdown]
# ## 4.3 Where gradients end up
#
# **Predict.** `backward` runs twice, each time on a freshly computed `(w * x).sum()`. What are the gradients of `w`,
# of `x` and of `unused` afterwards?

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
# `.grad` is None at first; then every backward pass *adds* to it. That is why a training loop calls
# `optimizer.zero_grad()`, which sets it back to None. A tensor that does not require grad, or that the result does
# not depend on, keeps None, which is not the same as zeros.
#
# The loop computed the product anew each time, so each pass had a graph of its own. Whether one graph can be walked
# twice depends on what its nodes keep for backward: the first pass frees it (section 4.5).

# %% [markdown]
# **Predict.** A is a leaf, B = 2A, and C is the length of B. After `C.backward()`, what is `B.grad`?

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
# Only leaves keep their gradient; that of an intermediate result is passed on and forgotten. `retain_grad()` asks for
# it to be kept, and has to ask before backward. (The length of a vector grows fastest in its own direction, so the
# gradient is B divided by its length: 2 / √8 = 0.7071.)

# %% [markdown]
# The same as a picture, after two backward passes through B = 2A: `retain_grad` was called on the second B, and
# `A.grad` holds the sum of both passes.

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
# **Predict.** There are two more ways to the gradient of an intermediate result. Does `torch.autograd.grad` fill
# `w.grad`?

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
# `torch.autograd.grad(loss, h)` returns the gradient and touches no `.grad` at all: the tool for everything that is
# not a training step. A hook sees the gradient as it passes (chapter 6). So the gradient of an intermediate result
# exists and can be had in three ways; it is just not kept unasked. (`retain_graph=True`, explained in section 4.5, is
# a different thing in spite of its name.)

# %% [markdown]
# **Predict.** A layer with three inputs and one output computes w · x + b. Of its mean, which gradients do b, w and x
# get?

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
# Parameters are ordinary leaves. The derivative of w · x with respect to w is x, and the other way round. An input
# gets a gradient too if you mark it: that is what saliency maps and adversarial examples are made of.

# %% [markdown]
# **Predict.** After `backward`, has the weight changed? And can an optimizer make a step when there was never a
# forward pass?

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
# `backward` fills `.grad` and changes no value; `step` changes values and knows nothing of graphs. `.grad` is all
# that passes between them. So gradients can be clipped, averaged over machines or made up between the two calls.

# %% [markdown]
# ### Exercise 4.1 · Leaf or not, and who gets a gradient?
#
# predict · warm-up · 10 min · 2 points
#
# "Why is .grad None?" is answered by reading: was an operation recorded, and is the tensor marked? Read this program
# and answer twelve questions about it, without running it.
#
#     w = torch.ones(3, requires_grad=True)
#     x = torch.ones(3)
#     a = x * 2
#     b = w * 2
#     c = b.detach()
#     d = torch.ones(3, requires_grad=True).double()
#     e = w.to(torch.float32)
#     with torch.no_grad():
#         f = w * 2
#         g = torch.ones(3, requires_grad=True)
#     for _ in range(2):
#         (w * 2 * x).sum().backward()
#
# **Contract**
#
# - Replace each `...`: True or False, but for `w_grad`, which is a list of numbers.
# - The check runs the program and compares; every right item earns a twelfth of the points.
#
# <details><summary>Hint 1</summary>
#
# For each tensor ask two questions: did autograd record an operation that made it, and is it marked as requiring grad?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Not requiring grad makes any tensor a leaf. A recorded operation (a real change of dtype is one, a `.to` that changes
# nothing is none) makes a non-leaf. backward adds into `.grad`. A second backward fails only if saved tensors were
# freed, and `w + 1` saves none.
#
# </details>

# %% answer="predict-leaves"
### BEGIN SOLUTION
answers = {
    "a_leaf": True,  # a.is_leaf
    "b_leaf": False,  # b.is_leaf
    "c_leaf": True,  # c.is_leaf
    "d_leaf": False,  # d.is_leaf
    "e_leaf": True,  # e.is_leaf
    "f_req": False,  # f.requires_grad
    "g_req": True,  # g.requires_grad
    "w_fn": True,  # w.grad_fn is None
    "w_grad": [4.0, 4.0, 4.0],  # w.grad.tolist(), at the end
    "x_grad": True,  # x.grad is None, at the end
    "param": True,  # nn.Parameter(b).is_leaf
    "second": False,  # s = (w + 1).sum(); s.backward(): does a second s.backward() raise?
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "a_leaf": ...,  # a.is_leaf
#     "b_leaf": ...,  # b.is_leaf
#     "c_leaf": ...,  # c.is_leaf
#     "d_leaf": ...,  # d.is_leaf
#     "e_leaf": ...,  # e.is_leaf
#     "f_req": ...,  # f.requires_grad
#     "g_req": ...,  # g.requires_grad
#     "w_fn": ...,  # w.grad_fn is None
#     "w_grad": ...,  # w.grad.tolist(), at the end
#     "x_grad": ...,  # x.grad is None, at the end
#     "param": ...,  # nn.Parameter(b).is_leaf
#     "second": ...,  # s = (w + 1).sum(); s.backward(): does a second s.backward() raise?
# }
### END GIVEN

# %% check="predict-leaves" points=2
"""Each item against what the program really gives; every right item earns its share."""
with check("predict-leaves") as test:
    test("every item is compared with what the program gives")
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    a = x * 2
    b = w * 2
    c = b.detach()
    d = torch.ones(3, requires_grad=True).double()
    e = w.to(torch.float32)
    with torch.no_grad():
        f = w * 2
        g = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (w * 2 * x).sum().backward()
    gradient = w.grad.tolist()

    s = (w + 1).sum()
    s.backward()
    try:
        s.backward()
        raised = False
    except RuntimeError:
        raised = True

    passes = "backward adds to .grad: two passes of [2, 2, 2] give [4, 4, 4]."
    test.points = observe_value(answers).predicts(
        {
            "a_leaf": prediction(
                a.is_leaf,
                because="a was computed, but from tensors that nobody tracks: everything with requires_grad=False "
                "counts as a leaf.",
            ),
            "b_leaf": prediction(
                b.is_leaf,
                because="b is the result of a recorded operation on w: it has a grad_fn and is no leaf.",
            ),
            "c_leaf": prediction(
                c.is_leaf,
                because="detach() starts anew: no history, requires_grad=False, hence a leaf.",
            ),
            "d_leaf": prediction(
                d.is_leaf,
                because="A real dtype (or device) change is a recorded operation: d is no leaf any more, its .grad "
                "will stay empty and an optimizer refuses it.",
            ),
            "e_leaf": prediction(
                e.is_leaf,
                because="float32 to float32 changes nothing: .to returns w itself, which is a leaf.",
            ),
            "f_req": prediction(
                f.requires_grad,
                because="Results computed under no_grad do not require grad.",
            ),
            "g_req": prediction(
                g.requires_grad,
                because="no_grad concerns results of operations; a tensor created with requires_grad=True inside "
                "keeps its flag.",
            ),
            "w_fn": prediction(
                w.grad_fn is None,
                because="A leaf has no grad_fn, requires_grad or not: nobody computed it.",
            ),
            "w_grad": prediction(
                gradient,
                ([2.0, 2.0, 2.0], passes),
                ([1.0, 1.0, 1.0], "The slope of w * 2 * x is 2 * x, that is 2. " + passes),
                (None, "w is a leaf that requires grad: backward fills its .grad. " + passes),
                because="Each pass adds the slope 2 * x = 2 for every element of w: a list of three numbers. " + passes,
            ),
            "x_grad": prediction(
                x.grad is None,
                because="x does not require grad: backward leaves its .grad at None.",
            ),
            "param": prediction(
                nn.Parameter(b).is_leaf,
                because="nn.Parameter takes the data only, not the history: the parameter is a fresh leaf.",
            ),
            "second": prediction(
                raised,
                because="A second backward fails only if the first one freed saved tensors; w + 1 and sum save none, "
                "so it runs (and adds to .grad).",
            ),
        },
        points=2,
    )
test.points

# %% [markdown]
# ### Exercise 4.2 · can't optimize a non-leaf Tensor
#
# fix · warm-up · 6 min · 1 point
#
# A layer written by hand, and the first line of training already raises:
#
#     torch.optim.SGD(init_layer(3, 2), lr=0.1)       ValueError: can't optimize a non-leaf Tensor
#
# Repair `init_layer`. One of its two lines is always wrong, the other one only sometimes.
#
# **Contract**
#
# - It returns `w` of shape (n_in, n_out), normal with mean 0 and standard deviation 1 / sqrt(n_in), and `b` of shape
#   (n_out,), zeros; both in the given dtype on the given device.
# - Both are leaves that require grad, for every dtype and device: after `loss.backward()` their `.grad` is filled, and
#   an optimizer takes them.
# - Gradient recording does not stay switched off afterwards.
#
# <details><summary>Hint 1</summary>
#
# In which of the two lines does an operation come after `requires_grad=True`? And is `.to(device, dtype)` always one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Do all arithmetic and conversion first; mark the finished tensor last.
#
# </details>


# %% answer="fix-non-leaf-parameter"
def init_layer(
    n_in: int, n_out: int, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Weights (n_in, n_out), normal with standard deviation 1 / sqrt(n_in), and a bias (n_out,) of zeros: leaves."""
    ### BEGIN SOLUTION
    w = torch.randn(n_in, n_out, dtype=dtype, device=device) / n_in**0.5
    b = torch.zeros(n_out, dtype=dtype, device=device)
    return w.requires_grad_(), b.requires_grad_()
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # w = torch.randn(n_in, n_out, requires_grad=True) / n_in**0.5
    # b = torch.zeros(n_out, requires_grad=True).to(device, dtype)
    # return w, b
    ### END GIVEN


# %% check="fix-non-leaf-parameter" points=1
"""Both tensors are leaves that learn, for every dtype and device; w has the right spread."""
with check("fix-non-leaf-parameter") as test:

    def described(tensor):
        """What the contract says about w and b, as plain facts."""
        return {
            "shape": list(tensor.shape),
            "dtype": tensor.dtype,
            "device": tensor.device.type,
            "leaf": tensor.is_leaf,
            "made by": type(tensor.grad_fn).__name__,
            "requires_grad": tensor.requires_grad,
            "kept": tensor.retains_grad,
            "values": tensor.detach().clone(),
        }

    def layer(init_layer, n_in, n_out, *options):
        """Call it, describe w and b, and take a step of training where that makes sense."""
        pair = init_layer(n_in, n_out, *options)
        recording = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        is_pair = isinstance(pair, (tuple, list)) and [isinstance(t, Tensor) for t in pair] == [True, True]
        if not is_pair:
            return {"pair": False}
        facts = {"pair": True, "recording": recording, "w": described(pair[0]), "b": described(pair[1])}
        w, b = pair
        if (w.shape, b.shape) == ((n_in, n_out), (n_out,)) and w.dtype == b.dtype and w.device == b.device:
            facts["step"] = one_step(w, b)
        return facts

    def one_step(w, b):
        """A loss with gradient 8 for every entry, and the step that SGD does: how far w and b moved, or its error."""
        if not (w.is_leaf and b.is_leaf and w.requires_grad and b.requires_grad):
            return {}
        start = [t.detach().clone() for t in (w, b)]
        ((torch.ones(4, len(w), dtype=w.dtype, device=w.device) @ w + b).sum() * 2).backward()
        try:
            with torch.no_grad():
                for t in (w, b):
                    t.sub_(t.grad, alpha=0.25)
        except (TypeError, RuntimeError) as error:
            return {"raised": str(error)}
        return {"moved": [old - t.detach() for old, t in zip(start, (w, b), strict=True)]}

    def judge_layer(seen, n_in, n_out, dtype=torch.float32, device="cpu"):
        """Two tensors of the right shape, dtype and device; leaves that require grad; recording is on."""
        seen.that(seen["pair"], "Return two tensors, w and b.", stage="type")
        seen.that(
            seen["recording"],
            "Gradient recording is switched off after the call: use the context manager, not set_grad_enabled(False).",
            stage="rule",
        )
        for name, shape in (("w", [n_in, n_out]), ("b", [n_out])):
            came = seen[name]
            words = f"w must have shape (n_in, n_out): expected {shape}, got {came['shape']}."
            if name == "b":
                words = f"b must be zeros of shape (n_out,): expected {shape}, got {came['shape']}."
            seen.that(came["shape"] == shape, words, stage="shape")
            words = f"{name} must have the dtype that was asked for: expected {dtype}, got {came['dtype']}."
            seen.that(came["dtype"] == dtype, words, stage="dtype")
            words = f"{name} must be on the device that was asked for: expected {device}, got {came['device']}."
            seen.that(came["device"] == device, words, stage="device")
            seen.that(
                not came["kept"],
                "retain_grad() fills .grad of a non-leaf, but the optimizer still would not update the tensor "
                "you created.",
                stage="gradient",
            )
            words = (
                f"{name} is the result of a recorded operation ({came['made by']}): no leaf, so the optimizer refuses "
                f"it and {name}.grad stays None. Scale first, then mark."
            )
            if "Copy" in came["made by"]:
                words = (
                    f"{name} is a leaf only when .to changes nothing: with another dtype (or device) it is a recorded "
                    "conversion. Create it there, or mark it afterwards."
                )
            seen.that(came["leaf"], words, stage="gradient")
            seen.that(
                came["requires_grad"],
                f"{name} does not require grad: nothing would ever be learned.",
                stage="gradient",
            )
        if device == "cpu":
            seen.that(not seen["b"]["values"].any(), "b must be zeros of shape (n_out,): it holds other numbers.")

    def judge_step(seen):
        """The gradient of each entry is 8, the learning rate 1/4: everything moves by 2."""
        step = seen["step"]
        seen.that("raised" not in step, f"The optimizer step raised: {step.get('raised')}", stage="rule")
        right = all(torch.allclose(way, torch.full_like(way, 2.0), atol=1e-4) for way in step["moved"])
        seen.that(right, "One step of SGD does not move w and b by lr * gradient.", stage="gradient")

    test("float32: leaves that require grad, and one SGD step moves both")
    seen = observe_scenario(layer, init_layer, 3, 2)
    judge_layer(seen, 3, 2)
    judge_step(seen)

    test("float64: still leaves")
    seen = observe_scenario(layer, init_layer, 3, 2, torch.float64)
    judge_layer(seen, 3, 2, torch.float64)
    judge_step(seen)

    ### BEGIN HIDDEN TESTS
    test.hidden("another device (here: meta), as a string and as torch.device")
    for device in ("meta", torch.device("meta")):
        judge_layer(observe_scenario(layer, init_layer, 4, 3, torch.float32, device), 4, 3, device="meta")

    test.hidden("bfloat16 and float16")
    for dtype in (torch.bfloat16, torch.float16):
        judge_layer(observe_scenario(layer, init_layer, 4, 3, dtype), 4, 3, dtype)

    test.hidden("the spread of w: normal, with standard deviation 1 / sqrt(n_in)")
    for n_in, n_out in ((400, 50), (1, 20_000), (25, 800)):
        seen = observe_scenario(layer, init_layer, n_in, n_out)
        judge_layer(seen, n_in, n_out)
        values, wanted = seen["w"]["values"], n_in**-0.5
        seen.that(
            0.9 < (values.std() / wanted).item() < 1.1,
            "The standard deviation must be 1 / sqrt(n_in): it is not within 10 % of that.",
        )
        seen.that((values.mean() / wanted).abs().item() < 0.05, "The mean of w must be 0.")
        beyond_two = (values.abs() > 2 * wanted).double().mean().item()
        seen.that(0.035 < beyond_two < 0.055, "The numbers of w must come from a normal distribution.")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 4.4 backward takes a vector
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
# The derivative of three outputs by three inputs is a 3 × 3 matrix, the Jacobian J: row i holds the derivatives of
# output i. Backward never builds it. It multiplies from the left by a vector, one weight for each output, and
# delivers v · J (a *vector-Jacobian product*). For a loss, a single number, v is 1 and nobody has to say so; for more
# outputs there is no obvious choice, and you must.

# %% [markdown]
# **Predict.** `f` turns three numbers into two. Which v delivers the second row of its Jacobian?


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
# A v with a single 1 picks one row. Any other v mixes the rows: [1, 10] gives the first plus ten times the second. A
# whole Jacobian therefore costs one backward pass for each output. That is why losses are single numbers: one pass
# gives all derivatives, however many parameters there are.

# %% [markdown]
# **Predict.** Are the two gradients below equal? Does a (1, 1) result need an argument? And may v have another shape
# than `y`?

# %% facts=["04-backward-gradient-argument", "04-backward-only-for-scalars"]
v = torch.tensor([1.0, 10.0])
(one,) = torch.autograd.grad(f(w), w, v)
(other,) = torch.autograd.grad((f(w) * v).sum(), w)
print("equal:", torch.equal(one, other))

single = torch.full((1, 1), 5.0, requires_grad=True)
(single * 3).backward()
print("of shape (1, 1):", single.grad.tolist())

error_of(lambda: f(w).backward(torch.tensor([1.0, 10.0, 100.0])))

# %% [markdown]
# `y.backward(v)` is `(y * v).sum().backward()` without the product. v says how much each output counts, so it has the
# shape of `y`. Any result with one element stands for a loss, whatever its number of dimensions.

# %% [markdown]
# ## 4.5 How long a graph lives
#
# **Predict.** Each of these three sums is computed once, and backward runs on it twice. Which second call raises?

# %% facts=["04-backward-only-once"]
w = torch.ones(3, requires_grad=True)

sums = {"(w + 1).sum()": (w + 1).sum(), "(w * w).sum()": (w * w).sum(), "w.exp().sum()": w.exp().sum()}
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
# To send a gradient through `w * w`, its node needs `w`; exp needs its own result; `w + 1` needs nothing. What a node
# keeps is freed as backward passes it, since these are the large tensors. The nodes themselves stay (in the explorer,
# their boxes then say *what it kept is freed*). So a second pass fails only if it comes to a node that had something
# to free.

# %% [markdown]
# **Predict.** With `retain_graph=True` the kept tensors stay. What is `x.grad` after each of the three calls?

# %% facts=["04-retain-graph"]
x = torch.tensor([3.0], requires_grad=True)
y = (x**2).sum()

y.backward(retain_graph=True)
print("first: ", x.grad.item())
y.backward()
print("second:", x.grad.item())
error_of(lambda: y.backward(), lines=1)

# %% [markdown]
# Every call but the last has to keep the graph, and the gradients add up as always. There are honest uses: two losses
# that share a part, several rows of a Jacobian. But most of the time this error means something else.

# %% [markdown]
# **Predict.** A recurrent state is carried from step to step, and each step calls backward. The second step raises,
# "Trying to backward through the graph a second time". People add `retain_graph=True`, and it runs. What has that
# step walked through?

# %% facts=["04-retain-graph"]
w = torch.tensor(0.5, requires_grad=True)


def three_steps(carry, **options) -> None:
    """Train on three steps of one sequence; carry makes the state for the next step."""
    state = torch.tensor(1.0)
    for step in range(3):
        state = (state * w).tanh()
        loss = (state - 1) ** 2
        print(f"step {step}: {len(graph_of(loss, {}).nodes)} nodes")  # those that the explorer would draw
        loss.backward(**options)
        state = carry(state)


print("retain_graph=True")
three_steps(lambda state: state, retain_graph=True)
print("state.detach() between the steps")
three_steps(lambda state: state.detach())
print("neither")
error_of(lambda: three_steps(lambda state: state), lines=1)

# %% [markdown]
# Through all steps since the beginning: the state still hangs on the graph of the step before, and that one on the
# step before it. With `retain_graph=True` every step is slower and larger than the last. If the gradient is meant to
# stop at the border, cut there with `detach()`; the error was right.

# %% [markdown]
# **Predict.** A loop adds up its losses, to print their mean later. How many nodes hang on `total` after 1, 2 and 3
# rounds of `total = total + loss`? And on `number` after `number += loss.item()`?

# %%
w = torch.tensor([0.5, 1.5], requires_grad=True)
x = torch.tensor([1.0, 2.0])

total, number = 0.0, 0.0
for _ in range(3):
    loss = (w * x).sum()
    total = total + loss
    number += loss.item()
    print(f"total: {len(graph_of(total, {}).nodes):2} nodes    number: a {type(number).__name__}, no graph")

# %% [markdown]
# A graph lives as long as something refers to its end, and `total` refers to the graphs of all rounds, with all that
# they keep. Memory grows until the loop ends, or the machine gives up. `.item()` takes the number and lets the graph
# go. This is what hangs on `total` after three rounds:

# %%
graph_explorer("4.5 a total that grows")

# %% [markdown]
# ### Exercise 4.3 · Count what autograd recorded
#
# measure · solid · 12 min · 2 points
#
# Memory that grows with every iteration is mostly a graph that somebody holds on to. Write the instrument that shows
# it: the names of all nodes of a graph, with their numbers. Afterwards use it: print `census(total).total()` in a loop
# with `total = total + loss` and in one with `total += loss.item()`.
#
# **Contract**
#
# - `census(t)` counts every node that can be reached from `t.grad_fn` over `next_functions`, `t.grad_fn` itself
#   included, by the name of its type, such as `MulBackward0`. Leaves that require grad appear as `AccumulateGrad`,
#   untracked inputs not at all.
# - Each node counts once, however many paths lead to it, and is looked at once: graphs with thousands of nodes in a row
#   work, and so does `y = y + y`, thirty times, which has 31 nodes and a billion paths.
# - A tensor without `grad_fn` gives an empty Counter.
# - It only looks: no backward pass, no gradient is filled, and the graph can still be used.
#
# <details><summary>Hint 1</summary>
#
# In `y = x * x + x`, how many paths lead from y to x, and how many nodes stand for x?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keep a list of nodes to visit and a set of the nodes already seen; the nodes themselves can be members of a set.
# `next_functions` holds pairs (node, input number), and the node may be None.
#
# </details>


# %% answer="graph-census"
def census(t: Tensor) -> Counter[str]:
    """How many nodes of each name (e.g. "MulBackward0") belong to the graph that ends in t."""
    ### BEGIN SOLUTION
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node).__name__ for node in seen)
    ### END SOLUTION


# %% check="graph-census" points=1
"""Every kind of node is found: the last one, the leaves, all branches; nothing for untracked inputs."""
with check("graph-census") as test:

    def as_facts(counts):
        """A census as plain facts; names that the documentation writes in full lose their C++ namespace."""
        if not isinstance(counts, Counter):
            return {"type": type(counts).__name__}
        named = {key.split("::")[-1] if isinstance(key, str) else str(key): n for key, n in counts.items()}
        return {"type": "Counter", "counts": {key: n for key, n in named.items() if n != 0}}

    def judge(seen, expected, *mistakes):
        """A Counter with exactly the expected entries."""
        none_counted = mistake(
            "An edge to None (an input that is not tracked) is no node.",
            when=lambda seen: any("None" in name for name in seen["counts"]),
        )
        none_raises = mistake(
            "An edge to None (an input that is not tracked) is no node: {detail}.",
            raises="'NoneType' object has no attribute 'n",
        )
        other_names = mistake(
            "Count by the name of each node's type, a text such as 'MulBackward0': type(node).__name__.",
            when=lambda seen: seen["counts"] and set(expected) & set(seen["counts"]) <= {"AccumulateGrad"},
        )
        seen.expecting(none_raises, *mistakes, none_counted, other_names)
        seen.that(
            seen["type"] == "Counter", f"The result must be a Counter; yours is of type {seen['type']}.", stage="type"
        )
        names = [*dict.fromkeys([*expected, *seen["counts"]])]
        off = [f"{expected.get(name, 0)} of {name}, you counted {seen['counts'].get(name, 0)}" for name in names]
        off = [
            words for words, name in zip(off, names, strict=True) if expected.get(name, 0) != seen["counts"].get(name)
        ]
        seen.that(not off, f"The counts are wrong. There are {'; '.join(off)}.")

    def two_products(census):
        """(w * x).sum() + (b * 3).mean() with an untracked x."""
        w, x = torch.tensor([1.0, 2], requires_grad=True), torch.tensor([3.0, 4])
        b = torch.tensor([5.0, 6, 7], requires_grad=True)
        return as_facts(census((w * x).sum() + (b * 3).mean()))

    test("(w * x).sum() + (b * 3).mean() with an untracked x")
    judge(
        observe_scenario(two_products, census),
        {"AddBackward0": 1, "SumBackward0": 1, "MeanBackward0": 1, "MulBackward0": 2, "AccumulateGrad": 2},
        mistake(
            "Different nodes may have the same name: mark nodes as seen, not names.",
            when=lambda seen: len(seen["counts"]) == 5 and set(seen["counts"].values()) == {1},
        ),
        mistake(
            "t.grad_fn itself is missing.",
            when=lambda seen: "AddBackward0" not in seen["counts"] and "SumBackward0" in seen["counts"],
        ),
        mistake(
            "The AccumulateGrad nodes (the leaves) are missing.",
            when=lambda seen: "MulBackward0" in seen["counts"] and "AccumulateGrad" not in seen["counts"],
        ),
        mistake(
            "Whole branches are missing: a node has one entry in next_functions per input, you followed only one.",
            when=lambda seen: len({"SumBackward0", "MeanBackward0"} & set(seen["counts"])) == 1,
        ),
    )

    def without_history(census):
        """Four tensors that no recorded operation made."""
        w = torch.tensor([1.0, 2], requires_grad=True)
        with torch.no_grad():
            unrecorded = w * 2
        return [as_facts(census(t)) for t in (w, torch.ones(2) * 3, (w * 2).detach(), unrecorded)]

    test("tensors without grad_fn: leaves, untracked results, detached ones")
    observe_scenario(without_history, census).returns(
        [{"type": "Counter", "counts": {}}] * 4,
        mistake("A leaf has no grad_fn: the answer is an empty Counter ({detail}).", raises="NoneType"),
        mistake("A tensor without grad_fn gives an empty Counter.", stage=("type", "shape", "value")),
    )

    ### BEGIN HIDDEN TESTS
    def counted(t):
        """The census of the check: breadth first, level by level."""
        levels, known = [{t.grad_fn}], set()
        while levels[-1]:
            known |= levels[-1]
            levels.append({f for node in levels[-1] for f, _ in node.next_functions if f is not None} - known)
        return dict(Counter(type(node).__name__ for node in known))

    def mixed_graph(name):
        """A graph of each kind, by name."""
        w = torch.tensor([1.0, 2, 3], requires_grad=True)
        if name == "in place":
            h = w * 2
            h.add_(1).exp_()
            return h[1:].sum()
        if name == "custom":
            return Doubled.apply(Doubled.apply(w)).sum()
        if name == "concatenation":
            leaves = [torch.ones(2, requires_grad=True) for _ in range(5)]
            return torch.cat([leaf * 2 for leaf in leaves] + [torch.ones(2)]).norm()
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 1))
        layers[2].weight.requires_grad_(False)
        return layers(torch.ones(2, 3)).square().mean()

    class Doubled(torch.autograd.Function):
        """Twice the input."""

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def mixed(census, name):
        return as_facts(census(mixed_graph(name)))

    for idea, name in [
        ("operations in place", "in place"),
        ("a Function of one's own", "custom"),
        ("a node with six inputs, one of them untracked", "concatenation"),
        ("a small network with a frozen layer", "network"),
    ]:
        test.hidden(idea)
        judge(observe_scenario(mixed, census, name), counted(mixed_graph(name)))
    ### END HIDDEN TESTS

# %% check="graph-census" points=1
"""Each node once, however many paths lead to it; deep graphs work; nothing is touched."""
with check("graph-census") as test:

    def total_of(counts):
        """All nodes of a census. Recording goes on, for what is computed next."""
        torch.set_grad_enabled(True)
        return sum(counts.values()) if isinstance(counts, dict) else type(counts).__name__

    def judge_numbers(seen, expected, where, *first):
        """The numbers of nodes of some graphs; `where` is a node that is used twice."""
        seen.returns(
            expected,
            *first,
            mistake(
                f"You counted paths, not nodes: a node that is used twice (here by {where}) must be counted once. "
                "Remember which nodes you have seen.",
                when=lambda seen: any(n > right > 0 for n, right in zip(seen.value, expected, strict=True)),
            ),
            mistake(
                "Nodes are missing: different nodes may have the same name. Keep the nodes themselves in your set.",
                when=lambda seen: any(0 < n < right for n, right in zip(seen.value, expected, strict=True)),
            ),
        )

    def twice_used(census):
        """A leaf used three times, and the same graph again; a result used by two branches."""
        x = torch.tensor([1.0, 2], requires_grad=True)
        y = x * x + x
        h = x.exp()
        return [total_of(census(y)), total_of(census(y)), total_of(census((h * 2 + h.sin()).sum()))]

    test("x * x + x, counted twice, and a result that two branches use")
    judge_numbers(
        observe_scenario(twice_used, census),
        [3, 3, 6],
        "x * x",
        mistake(
            "The same graph, counted again, gives another number: something is kept from call to call, such as a set "
            "that is made only once. Begin every call with an empty one.",
            when=lambda seen: seen.value[0] != seen.value[1],
        ),
    )

    def both_loops(census):
        """Nodes after each of three rounds, with the loss itself and with its item()."""
        w = torch.tensor([1.0, 2], requires_grad=True)
        total, number = torch.zeros(()), torch.zeros(())
        kept, let_go = [], []
        for i in range(3):
            loss = (w * torch.tensor([3.0, i])).sum()
            total, number = total + loss, number + loss.item()
            kept.append(total_of(census(total)))
            let_go.append(total_of(census(number)))
        return kept + let_go

    test("total = total + loss keeps 3 more nodes in every round, total += loss.item() keeps none")
    judge_numbers(
        observe_scenario(both_loops, census),
        [4, 7, 10, 0, 0, 0],
        "w in every round",
        mistake(
            "Nothing hangs on a sum of plain numbers: a tensor without grad_fn gives an empty Counter.",
            when=lambda seen: seen.value[3:] != [0, 0, 0],
        ),
    )

    ### BEGIN HIDDEN TESTS
    def several_outputs(census):
        """Two and three outputs of one node."""
        w = torch.tensor([1.0, 2, 3], requires_grad=True)
        first, second, _ = w.unbind()
        parts = w.exp().split([1, 2])
        return [total_of(census(first * second + first.exp())), total_of(census(torch.cat([*parts, *parts])))]

    test.hidden("several outputs of one node")
    judge_numbers(observe_scenario(several_outputs, census), [5, 4], "two of its outputs")

    def many_in_a_row(census):
        """The census of 3000 additions, one after the other."""
        h = torch.tensor([1.0], requires_grad=True)
        for _ in range(3000):
            h = h + 1
        return as_numbers(census(h))

    def as_numbers(counts):
        """The sorted numbers of a census."""
        return sorted(counts.values()) if isinstance(counts, dict) else type(counts).__name__

    test.hidden("thousands of additions in a row")
    observe_scenario(many_in_a_row, census).returns(
        [1, 3000],
        mistake(
            "Recursion is limited to about 1000 levels; graphs are deeper. Use a list as a stack.",
            raises="RecursionError|recursion depth",
        ),
        because="The chain has 3000 AddBackward0 and one AccumulateGrad.",
    )

    class TooMuchWork(BaseException):
        """More lines were run than any walk over the nodes needs."""

    def watched(lines, action):
        """What action returns, or a note that it ran more than so many lines of Python."""
        left = [lines]

        def trace(frame, event, argument):
            left[0] -= 1
            if left[0] < 0:
                raise TooMuchWork
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return action()
        except TooMuchWork:
            return "too much work"
        finally:
            sys.settrace(before)

    def thirty_doublings(census):
        """y = y + y, thirty times."""
        y = torch.tensor([1.0], requires_grad=True)
        for _ in range(30):
            y = y + y
        counts = watched(50_000, lambda: census(y))
        return counts if isinstance(counts, str) else as_numbers(counts)

    test.hidden("y = y + y, thirty times")
    observe_scenario(thirty_doublings, census).returns(
        [1, 30],
        mistake(
            "The number of visits explodes: 30 times `y = y + y` is 31 nodes but a billion paths. "
            "Remember which nodes you have seen.",
            when=lambda seen: seen.value == "too much work",
        ),
        because="30 times `y = y + y` has 30 AddBackward0 and one AccumulateGrad.",
    )

    def looked_at(census):
        """What a census does to the graph: gradients, backward passes, the values."""
        w, b = torch.tensor([1.0, 2], requires_grad=True), torch.tensor([3.0, 4], requires_grad=True)
        b.grad = torch.tensor([5.0, 6])
        passes = []
        w.register_hook(passes.append)
        h = w.exp() * b
        y = h.sum()
        census(y)
        facts = {"passes": len(passes), "w": w.grad is None, "b": b.grad.tolist(), "recording": torch.is_grad_enabled()}
        torch.set_grad_enabled(True)
        try:
            y.backward()
        except RuntimeError:
            return facts | {"usable": False}
        return facts | {"usable": True}

    test.hidden("no gradient is filled, and the graph can still be used")
    observe_scenario(looked_at, census).returns(
        {"passes": 0, "w": True, "b": [5.0, 6.0], "recording": True, "usable": True},
        mistake(
            "Gradient recording was switched off and not on again.",
            when=lambda seen: not seen["recording"],
        ),
        because="Counting must not run backward or fill .grad.",
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4.4 · A Jacobian, row by row
#
# implement · solid · 15 min · 2 points
#
# One backward pass with a vector v delivers v times the Jacobian. With the right vectors, that is all it takes to build
# the whole matrix.
#
# **Contract**
#
# - `J[i..., j...]` is the derivative of `fn(x)[i...]` with respect to `x[j...]`: the shape of the output, followed by
#   the shape of x. Outputs and inputs may have any shape, 0-d and empty ones included. What does not depend on x has
#   derivative zero, a whole output included. J has the dtype of x.
# - x may or may not require grad, and it may be the result of other operations. Afterwards `x.requires_grad` and every
#   `.grad` (that of x, those of parameters inside fn) are what they were. J carries no graph.
# - fn is called once.
#
# **Rule.** By hand: `torch.autograd.functional` and the transforms of `torch.func` (jacrev, vjp, grad, …) are not
# allowed; `torch.autograd.grad`, `backward` and `torch.vmap` are.
#
# <details><summary>Hint 1</summary>
#
# backward on a result with several elements needs a vector v and delivers v times J. Which v delivers row i?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# One tensor of x's data that requires grad; one call of fn; then for each output element a vector with a single 1,
# handed to `torch.autograd.grad` as `grad_outputs`. The graph must survive all calls but the last, and an input that
# is not used must count as zero.
#
# </details>


# %% answer="jacobian-by-vjp"
def jacobian(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """All derivatives of fn at x: shape (*fn(x).shape, *x.shape), dtype of x, no graph."""
    ### BEGIN SOLUTION
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = fn(x)
    rows = x.new_zeros(y.numel(), *x.shape)
    if y.requires_grad:
        for i, v in enumerate(torch.eye(y.numel(), dtype=y.dtype)):
            (row,) = torch.autograd.grad(y, x, v.view(y.shape), retain_graph=True, allow_unused=True)
            if row is not None:
                rows[i] = row
    return rows.view(y.shape + x.shape)
    ### END SOLUTION


# %% check="jacobian-by-vjp" points=2
"""Every row of J, for all shapes; nothing else is touched; fn is called once; by hand."""
with check("jacobian-by-vjp") as test:

    class NotByHand(BaseException):
        """A ready-made Jacobian was called."""

    def forbid(frame, event, argument):
        """Stops a call into torch.autograd.functional or the transforms of torch.func."""
        if event == "call":
            module, name = frame.f_globals.get("__name__"), frame.f_code.co_name
            of_func = module == "torch._functorch.eager_transforms"
            of_func |= module == "torch._functorch.apis" and name in ("grad", "grad_and_value")
            if of_func or module == "torch.autograd.functional":
                raise NotByHand

    def by_hand(jacobian, fn, x):
        """Call it without the ready-made ones, and note what it did to x and how often it called fn."""
        calls = []

        def counted(v):
            calls.append(type(v).__name__)
            return fn(v)

        before = [x.requires_grad, x.detach().clone(), None if x.grad is None else x.grad.clone()]
        profiler = sys.getprofile()
        sys.setprofile(forbid)
        try:
            result = jacobian(counted, x)
        except NotByHand:
            return {"by hand": False}
        finally:
            sys.setprofile(profiler)
        facts = {
            "by hand": True,
            "calls": len(calls),
            "type": type(result).__name__,
            "recording": torch.is_grad_enabled(),
        }
        facts["flag"] = [before[0], x.requires_grad]
        with_grad = x.grad if x.is_leaf else None
        facts["x"] = [before[1], x.detach().clone()]
        facts["x.grad"] = [before[2], None if with_grad is None else with_grad.clone()]
        if isinstance(result, Tensor):
            facts |= {"tracked": result.requires_grad, "jacobian": result.detach().clone()}
        return facts

    def judge(seen, expected, *mistakes):
        """The values first, then what the call left behind."""
        seen.expecting(
            mistake(
                "The graph was freed after the first row: all but the last call need retain_graph=True.",
                raises="backward through the graph a second time",
            ),
            mistake(
                "On an output with several elements backward and grad need the vector (grad_outputs); by default they "
                "only know scalars.",
                raises="implicitly created only for scalar outputs",
            ),
            mistake(
                "An output that does not use x has derivative zero: allow it (allow_unused), and replace None by "
                "zeros ({detail}).",
                raises="not have been used|does not require grad and does not have a grad_fn|NoneType(?!.*callable)",
            ),
        )
        seen.that(
            seen["by hand"],
            "This exercise is about doing it by hand: torch.autograd.functional and torch.func are not allowed.",
            stage="rule",
        )
        came = seen.value.get("jacobian")
        sparse = seen["type"] in ("Tensor", "Parameter")
        words = "Return an ordinary tensor, not a sparse one." if sparse else f"Return a tensor, not a {seen['type']}."
        seen.that(isinstance(came, Tensor), words, stage="type")
        shape = f"expected {tuple(expected.shape)}, got {tuple(came.shape)}."
        seen.that(
            came.shape == expected.shape,
            f"The Jacobian has the shape of the output followed by the shape of x: {shape}",
            *mistakes,
            stage="shape",
        )
        seen.that(
            came.dtype == expected.dtype,
            f"The Jacobian has the dtype of x: expected {expected.dtype}, got {came.dtype}.",
            stage="dtype",
        )
        seen.that(
            torch.allclose(came, expected, rtol=1e-5, atol=1e-6),
            f"The derivatives are wrong. Expected {expected.tolist()}, got {came.tolist()}."
            if expected.numel() <= 12
            else "The derivatives are wrong.",
            *mistakes,
        )
        seen.that(not seen["tracked"], "The result must not carry a graph: it requires grad.", stage="gradient")
        seen.that(seen["flag"][0] == seen["flag"][1], "x.requires_grad was changed.", stage="arguments")
        seen.that(torch.equal(*seen["x"]), "The values of x were changed.", stage="arguments")
        old, new = seen["x.grad"]
        same = new is old if old is None or new is None else torch.equal(old, new)
        seen.that(
            same,
            "The .grad of x was changed: backward fills every leaf it reaches. "
            "torch.autograd.grad returns the gradient and touches nothing.",
            stage="arguments",
        )
        seen.that(seen["calls"] == 1, f"Your code called fn {seen['calls']} times; one call is enough.", stage="rule")
        seen.that(seen["recording"], "Gradient recording was switched off and not on again.", stage="rule")

    def looks(wrong):
        """Whether the Jacobian that came has these values, in whatever shape."""
        return lambda seen: (
            seen["jacobian"].numel() == len(wrong)
            and torch.allclose(seen["jacobian"].double().flatten(), torch.tensor(wrong).double())
        )

    def two_of_three(jacobian):
        """Three numbers in, two numbers out."""
        return by_hand(
            jacobian, lambda v: torch.stack([v[0] * v[1], v[2] ** 2 + 3 * v[0]]), torch.tensor([2.0, 5.0, 7.0])
        )

    test("three inputs, two outputs: x0 * x1 and x2 ** 2 + 3 * x0, at 2, 5, 7")
    summed = "You differentiated the sum of the outputs: one row in place of one row per output."
    judge(
        observe_scenario(two_of_three, jacobian),
        torch.tensor([[5.0, 2.0, 0.0], [3.0, 0.0, 14.0]]),
        mistake(
            "Rows contain the sum of all rows before: .grad accumulates. Use torch.autograd.grad, or clear .grad "
            "between rows.",
            when=looks([5.0, 2, 0, 8, 2, 14]),
        ),
        mistake(
            "Rows and columns are exchanged: output dimensions come first, then those of x.",
            when=looks([5.0, 3, 2, 0, 0, 14]),
        ),
        mistake(summed, when=looks([8.0, 2, 14])),
        mistake(summed, when=looks([8.0, 2, 14, 8, 2, 14])),
    )

    def transposed(jacobian):
        """(2, 3) to (3, 2), each element times 10."""
        return by_hand(jacobian, lambda v: v.t() * 10, torch.arange(6.0).reshape(2, 3))

    def to_one_number(jacobian):
        """(3,) to a 0-d output."""
        return by_hand(jacobian, lambda v: (v * v).sum(), torch.tensor([1.0, 2, 3], dtype=torch.float64))

    test("(2, 3) to (3, 2), and three inputs to one number")
    times_ten = torch.zeros(3, 2, 2, 3)
    for i in range(2):
        for j in range(3):
            times_ten[j, i, i, j] = 10
    judge(observe_scenario(transposed, jacobian), times_ten)
    judge(observe_scenario(to_one_number, jacobian), torch.tensor([2.0, 4, 6], dtype=torch.float64))

    def unused(jacobian, kind):
        """One output element without x; all of them; all of them, but with a parameter."""
        p = torch.tensor([3.0, 4], dtype=torch.float64, requires_grad=True)
        functions = {
            "one element": lambda v: torch.stack([v[0] * v[1], p[0], v[1] ** 2]),
            "no graph": lambda v: torch.tensor([1.0, 2, 3], dtype=torch.float64),
            "another graph": lambda v: p * p,
        }
        return by_hand(jacobian, functions[kind], torch.tensor([2.0, 5], dtype=torch.float64))

    test("an output element, or a whole output, that does not depend on x")
    judge(observe_scenario(unused, jacobian, "one element"), torch.tensor([[5.0, 2], [0, 0], [0, 10]]).double())
    judge(observe_scenario(unused, jacobian, "another graph"), torch.zeros(2, 2).double())
    judge(observe_scenario(unused, jacobian, "no graph"), torch.zeros(3, 2).double())

    ### BEGIN HIDDEN TESTS
    def with_gradients(jacobian, kind):
        """A parameter inside fn, and x, have gradients already; or x is the result of other operations."""
        p = torch.tensor([[1.0, 2, 3], [4, 5, 6]], requires_grad=True)
        base = torch.tensor([0.5, 1.5, -1], requires_grad=True)
        p.grad = torch.full((2, 3), 7.0)
        x = base * 2 if kind == "result" else base
        if kind == "leaf":
            base.grad = torch.tensor([8.0, 9, 10])
        old = None if base.grad is None else base.grad.clone()
        facts = by_hand(jacobian, lambda v: (p * v.exp()).sum(1), x)
        torch.set_grad_enabled(True)
        kept = torch.equal(p.grad, torch.full((2, 3), 7.0))
        kept &= base.grad is None if old is None else base.grad is not None and torch.equal(base.grad, old)
        facts |= {"kept": kept, "flags": [p.requires_grad, base.requires_grad], "usable": True}
        if kind == "result":
            try:
                x.exp().sum().backward()
            except RuntimeError:
                facts["usable"] = False
        return facts

    rows = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    for idea, kind, place in [
        ("a parameter inside fn and x have gradients already", "leaf", [0.5, 1.5, -1.0]),
        ("x is the result of other operations", "result", [1.0, 3.0, -2.0]),
    ]:
        test.hidden(idea)
        seen = observe_scenario(with_gradients, jacobian, kind)
        judge(seen, rows * torch.tensor(place).exp())
        seen.that(
            seen["kept"],
            "The .grad of a parameter inside fn, or of x, was changed: backward fills every leaf it reaches. "
            "torch.autograd.grad returns the gradient and touches nothing.",
            stage="arguments",
        )
        seen.that(seen["flags"] == [True, True], "Somebody's requires_grad was changed.", stage="arguments")
        seen.that(seen["usable"], "The graph that leads to x was freed: x can't be used any more.", stage="arguments")

    def shaped(v, name):
        """Functions with inputs and outputs of many shapes."""
        if name in ("itself", "0-d"):
            return v
        if name == "a copy":
            copy = v.clone()
            copy[0] *= 3
            return copy.mul_(copy.detach() + v)
        if name == "nothing":
            return v[:0].exp()
        if name == "wider":
            return v.double() * 3
        if name == "rows":
            return torch.stack([v, v * v, v.sin()])
        return (v[..., None] * v).cumsum(0)

    def any_shape(jacobian, name, x):
        return by_hand(jacobian, lambda v: shaped(v, name), x)

    some = torch.tensor([[0.5, 1.5, -1.0], [2.0, 0.25, 3.0]])
    for idea, name, x in [
        ("the identity", "itself", torch.tensor([1.0, 2, 3])),
        ("a 0-d input", "0-d", torch.tensor(2.0)),
        ("an empty input", "rows", torch.empty(0, dtype=torch.float64)),
        ("an empty output", "nothing", torch.tensor([1.0, 2, 3], dtype=torch.float64)),
        ("a 0-d input, three outputs", "rows", torch.tensor(2.0)),
        ("a function that works in place on a copy", "a copy", torch.tensor([1.0, 2, 3])),
        ("(2, 3) to (2, 3, 3) by products and sums", "products", torch.tensor([1.5, -2.0])),
        ("float64", "rows", some.double()),
        ("float32 in, float64 out", "wider", torch.tensor([1.0, 2])),
        ("a view, not contiguous", "rows", some.t()[1:]),
    ]:
        test.hidden(idea)
        expected = torch.zeros(shaped(x, name).shape + x.shape, dtype=x.dtype)
        if expected.numel():
            expected = torch.autograd.functional.jacobian(lambda v, name=name: shaped(v, name), x)
        judge(observe_scenario(any_shape, jacobian, name, x), expected)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 4.6 Cutting: detach, .data, no_grad
#
# `detach()` and `.data` both give a tensor that shares memory with the original and has no history. They differ when
# you write into it.
#
# **Predict.** `b = a.exp()`, and the loss is computed from `b`. Then the memory of `b` is doubled through
# `b.detach()`, or through `b.data`. The right gradient of `a` is 1 (a is 0, and the derivative of exp is exp). What
# does backward deliver?

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
# exp keeps its result for backward, and both writes spoil it. A write through `detach()` is noticed (section 4.7
# shows how), and backward refuses. A write through `.data` is not, and the gradient is wrong by a factor of 2 without
# a word. `.data` is a leftover from the days of Variable; there is always something better.

# %% [markdown]
# **Predict.** `d` is a detached tensor, and `requires_grad_()` is called on it. How far do gradients from `d` travel?

# %% facts=["04-detach-never-requires-grad"]
w = torch.ones(2, requires_grad=True)
h = w * 3
d = h.detach()
print("shares memory:", d.data_ptr() == h.data_ptr(), " leaf:", d.is_leaf, " requires grad:", d.requires_grad)

d.requires_grad_()
(d * 2).sum().backward()
print("d.grad:", d.grad, " w.grad:", w.grad)

# %% [markdown]
# To `d` and no further. It is a new leaf at the border; marking it begins a second graph that knows nothing of the
# first.

# %% [markdown]
# **Predict.** A second model is trained on the output of a first one. Which of the two gets gradients when the output
# is passed as `inter.detach()`? And when `inter.detach()` stands on a line of its own?

# %% facts=["04-detach-blocks-upstream"]
torch.manual_seed(0)
first, second = nn.Linear(4, 3), nn.Linear(3, 1)
x = torch.randn(8, 4)


def who_learns(case: str) -> None:
    print(f"{case:36}first: {first.weight.grad is not None!s:7}second: {second.weight.grad is not None}")
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
# Gradients stop where the detached tensor enters: the second model learns, the first learns nothing, and no error
# says so. `detach()` changes nothing about `inter` itself. On a line of its own its result is thrown away, and
# nothing is cut.

# %% [markdown]
# **Predict.** The tensor that is detached in place, `detach_()`, becomes a leaf itself. Does that work for a view
# too?

# %% facts=["04-detach-in-place"]
w = torch.ones(4, requires_grad=True)
h = w * 2
h.detach_()
print("leaf:", h.is_leaf, " requires grad:", h.requires_grad)

error_of(lambda: (w * 2).view(2, 2).detach_())

# %% [markdown]
# A view's history runs through its base; it can't be cut alone, and `detach_()` refuses. Take `detach()`.

# %% [markdown]
# **Predict.** Besides `detach` there are cuts that don't look like one. Which of these results still lead back to
# `w`?

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
# Whole numbers, comparisons and positions have no derivative, and a way through Python numbers (`.item()`,
# `.tolist()`) leaves the graph at once. `.numpy()` would as well, and asks you to say `detach()` first. `round` is
# recorded, but flat almost everywhere: its gradient is 0. A model that learns nothing often has one of these in its
# loss.

# %% [markdown]
# **Predict.** `x.sin().exp().tanh()` on 1000 numbers of 4 bytes: how many bytes are kept for backward, as usual and
# under `no_grad`?

# %% facts=["04-no-grad-saves-memory"]
x = torch.linspace(-1, 1, 1000, requires_grad=True)


def kept_bytes() -> int:
    """What x.sin().exp().tanh() keeps for backward, each storage counted once."""
    kept = {}

    def note(saved: Tensor) -> Tensor:  # called with every tensor that a node is about to keep
        kept[saved.data_ptr()] = saved.nbytes
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        x.sin().exp().tanh()
    return sum(kept.values())


print("as usual:", kept_bytes())
with torch.no_grad():
    print("no_grad: ", kept_bytes())

# %% [markdown]
# Each of the three keeps 4000 bytes: sin its input, exp and tanh their results. Under `no_grad` no node is made,
# nothing is kept, and each intermediate result is freed as soon as the next one is there.

# %% [markdown]
# **Predict.** Inside `no_grad`, which of these require grad: `w * 2`, `w` itself, `torch.ones(2,
# requires_grad=True)`, the weight of a new `nn.Linear`?

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
# `no_grad` concerns results of operations. Flags of tensors that exist stay as they are, and so do those of new
# leaves. Since nothing is recorded, leaves may be changed in place inside: that is how optimizers make their step.

# %% [markdown]
# **Predict.** `torch.inference_mode()` promises more speed and is stricter. What can't you do with its results later?

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
# autograd could not notice a write into it, and refuses to keep it for backward. Use it where nothing that comes out
# will ever meet a gradient, such as a server; in a training loop's evaluation `no_grad` gives fewer surprises.

# %% [markdown]
# ## 4.7 In place, with version numbers
#
# **Predict.** Three writes in place: `w.add_(1)` on a leaf; `h = w * 2`, then `h.add_(1)`; `h = w.sigmoid()`, then
# `h.mul_(2)`. Which of them raise, and when: at once, or in backward?

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
# The first is refused at once: a tracked leaf is where gradients arrive, and a write into it would make it somebody's
# result. The second is fine: to go back through `w * 2` nobody needs the old numbers in `h`. The third raises in
# backward, because sigmoid computes its slope from its own result.
#
# How does backward know? Every tensor counts its writes in `_version`; its views and what `detach()` returns share
# the counter, while `.data` starts one of its own. A node notes the version of what it keeps, and compares when it
# needs it.

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
# raise. The second sin came after the write; it expects version 1 and is content. The message above says all this: it
# names whose result it was ("output 0 of Sigmoid"), the version that it has and the version that was noted. What it
# doesn't name is the line that wrote.

# %% [markdown]
# **Predict.** `torch.autograd.set_detect_anomaly` promises to find the line. Which line will it show: the one that
# keeps the tensor, or the one that spoils it?

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
# The one that keeps it. From there look further down for a write into the same memory, under any of its names: `h
# +=`, `h[0] =`, `h.relu_()`, a view of `h`. Then make a new tensor at that place (`h = h * 2`). Going round the check
# with `.data` gives a wrong gradient, as in section 4.6. The mode slows everything down; switch it on for the hunt
# only.

# %% [markdown]
# **Predict.** So it matters what an operation keeps. Which of these keep their input, which their result, and which
# neither?

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
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        result = operation()
    words = [word for word, t in (("input", x), ("result", result)) if t.data_ptr() in kept]
    print(f"{name:16}{' and '.join(words) or 'neither'}")

# %% [markdown]
# The rule behind it: a node keeps what its derivative is written in. The derivative of exp is exp, the result; that
# of sin is cos of the input; a sum needs no number at all. (`x * 2` keeps the 2 and nothing of yours. That is still
# something to free, so a second backward through it raises.) So `relu_()` right after a linear layer is safe, and
# `relu_()` after a sigmoid is not.

# %% [markdown]
# ### Exercise 4.5 · One of the variables needed … modified by an inplace operation
#
# debug · solid · 15 min · 3 points
#
# A recurrent layer: the state h moves towards the input of each step, as far as its gate g says. Steps that are
# unreliable count less; padding (conf 0) does not count at all. Training stops in the first backward pass:
#
#     RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation:
#     [torch.FloatTensor [2, 4]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead.
#
# Repair it. Do not stop when the message is gone: look at `out[0]` and `out[-1]` as well.
#
# **Contract**
#
# - `out[t]` is the state *after* step t: `h_t = h_{t-1} + g_t * (x_t - h_{t-1})` with `h_{-1} = 0` and
#   `g_t = conf_t * sigmoid(x_t * w)`. It holds the T different states, not the last one T times.
# - The gradients with respect to x and w are right through all steps.
# - x, w and conf are not changed. They share one dtype, which is that of the result. T = 0 gives shape (0, B, D).
#
# <details><summary>Hint 1</summary>
#
# The message names the operation whose output was overwritten. Which line overwrites it, and what does sigmoid's
# backward formula need? (There is a second line that changes something in place. It raises nothing.)
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sigmoid's derivative is computed from its own output, so g must stay as it was: make a new tensor. And every entry of
# outs is the same tensor h: make a new h in every step as well.
#
# </details>


# %% answer="fix-inplace-scan"
def leaky_scan(x: Tensor, w: Tensor, conf: Tensor) -> Tensor:
    """The states of a leaky recurrent layer.

    x: (T, B, D); w: (D,); conf: (T, B, 1), between 0 and 1; returns (T, B, D), the state after each step.
    """
    ### BEGIN SOLUTION
    h = x.new_zeros(x.shape[1:])  # there may be no x[0]
    outs = []
    for t in range(len(x)):
        g = conf[t] * torch.sigmoid(x[t] * w)
        h = h + g * (x[t] - h)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros_like(x)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # h = torch.zeros_like(x[0])
    # outs = []
    # for t in range(len(x)):
    #     g = torch.sigmoid(x[t] * w)
    #     g *= conf[t]
    #     h += g * (x[t] - h)
    #     outs.append(h)
    # return torch.stack(outs)
    ### END GIVEN


# %% check="fix-inplace-scan" points=1
"""The state after each of the steps; the arguments stay as they are."""
with check("fix-inplace-scan") as test:
    all_equal = mistake(
        "All time steps are equal to the last one: outs holds the same tensor T times, `h +=` changes it in place. "
        "No error, wrong result; make a new h in every step.",
        when=lambda seen: len(seen.value) > 1 and all(step.equal(seen.value[-1]) for step in seen.value),
    )

    test("four steps with conf 1, 1/2, 0 and 1/4")
    some_x = torch.tensor([[2.0, -1.0], [0.5, 3.0], [-4.0, 1.0], [1.0, -2.0]]).reshape(4, 1, 2)
    some_w = torch.tensor([0.5, -1.5])
    some_conf = torch.tensor([1.0, 0.5, 0.0, 0.25]).reshape(4, 1, 1)
    seen = observe(leaky_scan, some_x, some_w, some_conf)
    seen.leaves_arguments_alone(mistake("An argument was changed in place: {detail}.", stage="arguments"))
    seen.returns(
        torch.tensor(
            [[1.46212, -0.81757], [1.19168, -0.79660], [1.19168, -0.79660], [1.16185, -1.08318]],
        ).reshape(4, 1, 2),
        all_equal,
        mistake(
            "The gate is scaled, not the new state: a step with conf 0 keeps the state. You multiplied the state "
            "itself by conf.",
            when=lambda seen: not seen.value[2].any() and seen.value[3].any(),
        ),
        mistake(
            "The state after step t is out[t]; you stored the state before it.",
            when=lambda seen: len(seen.value) == 4 and not seen.value[0].any() and seen.value[1].any(),
        ),
        mistake("Each out[t] is a state of its own: that is one state only.", shape=(1, 2)),
        mistake("That is one state too many: out[0] is the state after the first step.", shape=(5, 1, 2)),
        mistake("The state begins with zeros, not with x[0].", when=lambda seen: seen.value[0].equal(seen.args[0][0])),
        rtol=1e-4,
        atol=1e-4,
    )

    ### BEGIN HIDDEN TESTS
    def unrolled(x, w, conf):
        """Each state as a sum over all steps until then, what is left of each input."""
        g, states = conf * torch.sigmoid(x * w), []
        for t in range(len(x)):
            states.append(sum(g[s] * x[s] * (1 - g[s + 1 : t + 1]).prod(0) for s in range(t + 1)))
        return torch.stack(states)

    generator = torch.Generator().manual_seed(5)
    for idea, steps, batch, dtype in [
        ("three sequences of five steps", 5, 3, torch.float32),
        ("one step", 1, 2, torch.float32),
        ("an empty batch", 3, 0, torch.float32),
        ("float64", 4, 2, torch.float64),
    ]:
        test.hidden(idea)
        some_x = torch.randn(steps, batch, 4, generator=generator, dtype=dtype) * 2
        some_w = torch.randn(4, generator=generator, dtype=dtype)
        some_conf = torch.rand(steps, batch, 1, generator=generator, dtype=dtype)
        seen = observe(leaky_scan, some_x, some_w, some_conf)
        seen.returns(unrolled, all_equal)
        seen.leaves_arguments_alone()

    test.hidden("no steps at all")
    for dtype in (torch.float32, torch.float64):
        seen = observe(
            leaky_scan,
            torch.empty(0, 2, 3, dtype=dtype),
            torch.ones(3, dtype=dtype),
            torch.empty(0, 2, 1, dtype=dtype),
        )
        seen.returns(
            torch.empty(0, 2, 3, dtype=dtype),
            mistake("T = 0: there is nothing to stack, return an empty (0, B, D) tensor.", stage=("raised", "shape")),
        )

    test.hidden("conf 0 everywhere: the state stays 0")
    some_x = torch.randn(3, 2, 4, generator=generator)
    seen = observe(leaky_scan, some_x, torch.ones(4), torch.zeros(3, 2, 1))
    seen.returns(torch.zeros(3, 2, 4))

    test.hidden("x, w and conf that are not contiguous")
    some_x = torch.randn(4, 3, 5, generator=generator).permute(2, 1, 0)
    some_w = torch.randn(8, generator=generator)[::2]
    some_conf = torch.rand(3, 5, 1, generator=generator).transpose(0, 1)
    observe(leaky_scan, some_x, some_w, some_conf).returns(unrolled, all_equal)
    ### END HIDDEN TESTS

# %% check="fix-inplace-scan" points=2
"""Backward runs, and the gradients of x and w are right through all steps."""
with check("fix-inplace-scan") as test:
    inplace = mistake(
        "The gate g is still changed in place after sigmoid: its backward needs the unchanged output (that is what the "
        "message says). Make a new tensor for the scaled gate.",
        raises="output 0 of Sigmoid",
    )
    cut = mistake(
        "No (or no full) gradient reaches w: the gate was detached, or computed without recording.",
        when=lambda seen: not seen.error_text and (not seen.noted.tracked or seen.gradient(1) is None),
    )
    written = mistake(
        "An argument was changed in place. Autograd refuses that for a leaf: {detail}.",
        raises="a leaf Variable that requires grad",
    )

    test("a weighted sum over all steps: the gradients of x and w")
    some_x = torch.tensor([[2.0, -1.0], [0.5, 3.0], [-4.0, 1.0], [1.0, -2.0]]).reshape(4, 1, 2)
    some_w = torch.tensor([0.5, -1.5])
    some_conf = torch.tensor([1.0, 0.5, 0.0, 0.25]).reshape(4, 1, 1)
    seen = observe(leaky_scan, some_x.requires_grad_(), some_w.requires_grad_(), some_conf)

    def is_near(argument, values):
        """Whether the gradient that reached an argument has these values."""
        return lambda seen: torch.allclose(seen.gradient(argument).flatten(), torch.tensor(values), atol=1e-3)

    seen.gives_gradients(
        {
            0: torch.tensor([0.7370, 0.2094, 0.1526, -0.0223, 0, 0, 0.0747, -0.2235]).reshape(4, 1, 2),
            1: torch.tensor([0.5785, 0.0608]),
        },
        inplace,
        written,
        mistake("Backward raised: {detail}.", when=lambda seen: seen.noted.backward_raised is not None),
        cut,
        mistake(
            "The forward is right, the gradient is not: writing through .data hides the change from autograd, "
            "and sigmoid's backward then uses the overwritten output.",
            when=is_near(1, [0.5454, -0.2929]),
        ),
        mistake(
            "The gradient stops between time steps: the state was detached, so earlier steps learn nothing from "
            "later ones.",
            when=is_near(1, [0.1692, -0.0980]),
        ),
        mistake(
            "Only the last state has a gradient that is right: all entries of the result are one tensor.",
            when=lambda seen: seen.value[0].equal(seen.value[-1]),
        ),
        because="The gradients are not those of the formula: {detail}.",
        rtol=1e-3,
        atol=2e-4,
    )

    ### BEGIN HIDDEN TESTS
    def unrolled(x, w, conf):
        """Each state as a sum over all steps until then, what is left of each input."""
        g, states = conf * torch.sigmoid(x * w), []
        for t in range(len(x)):
            states.append(sum(g[s] * x[s] * (1 - g[s + 1 : t + 1]).prod(0) for s in range(t + 1)))
        return torch.stack(states)

    generator = torch.Generator().manual_seed(6)
    test.hidden("three sequences of six steps, float64, against the formula written as one sum")
    some_x = torch.randn(6, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    some_w = torch.randn(4, generator=generator, dtype=torch.float64, requires_grad=True)
    some_conf = torch.rand(6, 3, 1, generator=generator, dtype=torch.float64)
    some_conf[2, 1] = some_conf[4] = 0
    seen = observe(leaky_scan, some_x, some_w, some_conf)
    seen.returns(unrolled)
    seen.gives_gradients(unrolled, inplace, cut, rtol=1e-7, atol=1e-9)

    test.hidden("one step; a batch of none")
    for steps, batch in ((1, 2), (3, 0)):
        some_x = torch.randn(steps, batch, 4, generator=generator, requires_grad=True)
        some_conf = torch.rand(steps, batch, 1, generator=generator)
        seen = observe(leaky_scan, some_x, torch.randn(4, generator=generator, requires_grad=True), some_conf)
        seen.gives_gradients(unrolled, inplace, cut)

    test.hidden("x is not contiguous, only one of x and w requires grad")
    some_x = torch.randn(4, 3, 5, generator=generator).permute(2, 1, 0)
    some_w = torch.randn(4, generator=generator)
    some_conf = torch.rand(5, 3, 1, generator=generator)
    seen = observe(leaky_scan, some_x, some_w.clone().requires_grad_(), some_conf)
    seen.gives_gradients(unrolled, inplace, cut)
    seen = observe(leaky_scan, some_x.detach().requires_grad_(), some_w, some_conf)
    seen.gives_gradients(unrolled, inplace)

    def from_other_operations(leaky_scan, base, w, conf):
        """x is computed from base; the loss is taken from the last step alone."""
        base, w = base.requires_grad_(), w.requires_grad_()
        out = leaky_scan(base * 2, w, conf)
        torch.set_grad_enabled(True)
        out[-1].square().sum().backward()
        return [base.grad, w.grad]

    test.hidden("x is the result of other operations, the loss is that of the last step")
    some_base = torch.randn(4, 2, 3, generator=generator, dtype=torch.float64)
    some_w = torch.randn(3, generator=generator, dtype=torch.float64)
    some_conf = torch.rand(4, 2, 1, generator=generator, dtype=torch.float64)
    seen = observe_scenario(from_other_operations, leaky_scan, some_base, some_w, some_conf)
    base, own_w = some_base.clone().requires_grad_(), some_w.clone().requires_grad_()
    unrolled(base * 2, own_w, some_conf)[-1].square().sum().backward()
    seen.returns([base.grad, own_w.grad], inplace, because="The gradients are not those of the formula: {detail}.")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 4.8 nan in backward, gradients in a loss
#
# **Predict.** Each of these three outputs is right. What are the gradients?

# %% facts=["04-gradient-norm-at-zero"]
cases = {
    "(x * x).sqrt() at 0": (0.0, lambda x: (x * x).sqrt()),
    "where(x == 0, 0, x.sqrt()) at 0": (0.0, lambda x: torch.where(x == 0, 0.0, x.sqrt())),
    "where(x > 20, x, x.exp().log1p()) at 1000": (1000.0, lambda x: torch.where(x > 20, x, x.exp().log1p())),
}

for name, (start, function) in cases.items():
    x = torch.tensor(start, requires_grad=True)
    y = function(x)
    y.backward()
    print(f"{name:44}output {y.item():g}, gradient {x.grad.item()}")

# %% [markdown]
# All nan. The root has an infinite slope at 0, and backward multiplies: 0 (the slope of x²) times infinity is nan.
# `torch.where` computes both branches and selects afterwards. In backward it sends 0 to the branch that was not
# chosen, and that branch multiplies the 0 by its own slope, infinity or nan. A zero does not stop a nan. `exp` of
# 1000 is infinite, and the same happens there.

# %% [markdown]
# **Predict.** So the bad number must not reach the root at all. `where` now stands on both sides: first to put a
# harmless 1 in place of each 0, then to put the 0 back. Which gradient comes out? And which from `vector_norm`, which
# takes a root as well?

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
# The unused branch now has a finite slope, and 0 times that is 0. The first `where` is a gate on the way back, too:
# to `x` it sends only the gradients of places where it took its number from `x`. A length has no derivative at the
# origin; `vector_norm` settles on 0 there, which is what one wants from a distance of 0. A small number under the
# root also gives a finite gradient, at the price of a length that is never 0.

# %% [markdown]
# **Predict.** Softmax has the same trap. Every score of this row is masked with -inf, the result is nan, and `where`
# puts zeros in its place. What is the gradient of the scores?

# %%
scores = torch.tensor([1.0, 2.0], requires_grad=True)
masked = scores + torch.tensor([-torch.inf, -torch.inf])

p = masked.softmax(0)
repaired = torch.where(torch.tensor(False), p, 0.0)
print("softmax", p.tolist(), "repaired", repaired.tolist())
print("gradient", torch.autograd.grad(repaired.sum(), scores)[0].tolist())

# %% [markdown]
# nan again. Softmax keeps its result and multiplies by it, and 0 times nan is nan. Repairing the output comes too
# late; the nan must not arise.

# %% [markdown]
# ### Exercise 4.6 · A distance whose gradient survives zero
#
# implement · solid · 12 min · 2 points
#
# Contrastive losses, spread penalties, particle models: all of them push points apart by their distances, and every
# point has distance 0 to itself. Write the distances so that their gradient stays finite.
#
# **Contract**
#
# - `out[i, j]` is the Euclidean distance of rows i and j: exactly 0 on the diagonal and for rows that are equal. For
#   any other pair it is accurate to 1e-6 (relative, in float64), also for points 1e-7 apart and far from the origin.
# - The gradient is finite everywhere: pairs at distance 0 contribute 0, all others their exact gradient (unit vectors
#   times the incoming gradient).
# - float32 and float64 keep their dtype; N = 0, N = 1 and D = 0 work; x is not changed. An (N, N, D) tensor on the
#   way is fine.
#
# <details><summary>Hint 1</summary>
#
# What is the derivative of the square root at 0, and what is 0 times infinity? Does it help to repair the *output* at
# those places?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keep zeros away from the root on the way in: replace the squared distance by a harmless number where it is 0, take
# the root, and replace the result by 0 at the same places. Two selections, one before and one after.
#
# </details>


# %% answer="distance-gradient"
def pairwise_distance(x: Tensor) -> Tensor:
    """Euclidean distances of all pairs of rows, (N, D) to (N, N), with gradient 0 where the distance is 0."""
    ### BEGIN SOLUTION
    squares = (x[:, None] - x[None, :]).square().sum(-1)
    apart = squares > 0
    roots = torch.where(apart, squares, 1.0).sqrt()
    return torch.where(apart, roots, 0.0)
    ### END SOLUTION


# %% check="distance-gradient" points=1
"""The distances: exactly 0 for equal rows, accurate for all others, close ones too."""
with check("distance-gradient") as test:

    def pair_by_pair(x):
        """The distances by Python's math.dist, in the dtype of x."""
        rows = x.tolist()
        return torch.tensor([[math.dist(a, b) for b in rows] for a in rows], dtype=x.dtype)

    def between(x):
        """All differences of two rows."""
        return x[:, None] - x

    def lifted(seen):
        """Whether a distance that must be 0 is positive."""
        diagonal = seen.value.diagonal()
        return diagonal.isfinite().all() and diagonal.max() > 0

    known = (
        mistake("Those are squared distances.", gives=lambda x: between(x).square().sum(-1)),
        mistake("That is the sum of absolute differences.", gives=lambda x: between(x).abs().sum(-1)),
        mistake("The result is nan somewhere.", when=lambda seen: seen.value.isnan().any()),
        mistake(
            "Equal rows get a positive distance, and it must be 0: an eps added inside the root, or a bound from "
            "below, keeps zeros away from the root but changes the values.",
            stage="value",
            when=lifted,
        ),
    )

    test("(0, 0), (3, 4) and (0, 12)")
    seen = observe(pairwise_distance, torch.tensor([[0.0, 0], [3, 4], [0, 12]]))
    expected = torch.tensor([[0, 5, 12], [5, 0, 73**0.5], [12, 73**0.5, 0]])
    seen.returns(expected, *known, rtol=1e-6, atol=0)
    seen.leaves_arguments_alone()

    test("five points in three dimensions, float64; two of them are equal")
    some_points = torch.tensor(
        [[0.5, -1.25, 2.0], [1.5, 0.75, -0.5], [-2.0, 0.25, 1.0], [1.5, 0.75, -0.5], [3.0, -1.5, 0.1]]
    ).double()
    seen = observe(pairwise_distance, some_points)
    seen.returns(pair_by_pair(some_points), *known, rtol=1e-6, atol=0)
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    expanded = mistake(
        "The formula a^2 + b^2 - 2ab loses all digits for close points; torch.cdist computes like that by default from "
        "26 rows on (compute_mode). Subtract first.",
        when=lambda seen: (seen.value - pair_by_pair(seen.args[0])).abs().max() > 1e-12,
    )
    generator = torch.Generator().manual_seed(7)
    close = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    close = torch.cat([close, close + torch.tensor([1e-7, 0, 0]).double()])
    tiny = mistake(
        "Small distances became 0: only distance 0 itself is special.",
        when=lambda seen: not seen.value.diagonal(20).any(),
    )
    shifted = mistake(
        "Small distances are off by a constant: an eps inside the root must not be seen in the result.",
        when=lambda seen: seen.value.diagonal(20).std() < 1e-3 * seen.value.diagonal(20).mean(),
    )
    for idea, place in [("points 1e-7 apart", 0.0), ("points 1e-7 apart, far from the origin", 1000.0)]:
        test.hidden(idea)
        seen = observe(pairwise_distance, close + place)
        seen.returns(pair_by_pair(close + place), tiny, shifted, expanded, rtol=1e-6, atol=0)

    test.hidden("40 rows, float32: 0 on the diagonal, symmetric")
    some_points = torch.randn(40, 3, generator=generator)
    seen = observe(pairwise_distance, some_points)
    seen.returns(pair_by_pair(some_points), *known, rtol=1e-5, atol=0)

    for idea, some_points in [
        ("no rows", torch.empty(0, 3)),
        ("one row", torch.tensor([[1.5, 2.5]])),
        ("no columns", torch.empty(3, 0)),
        ("one column", torch.tensor([[1.0], [4.0], [-2.5]])),
        ("all rows equal", torch.tensor([[0.1, 0.7, 1.3]]).expand(4, 3).clone()),
        ("not contiguous", torch.randn(3, 4, generator=generator).t()),
    ]:
        test.hidden(idea)
        seen = observe(pairwise_distance, some_points)
        n = len(some_points)
        expected = pair_by_pair(some_points) if some_points.numel() else torch.zeros(n, n)
        seen.returns(expected, *known)
        seen.leaves_arguments_alone()
    ### END HIDDEN TESTS

# %% check="distance-gradient" points=1
"""The gradient: finite everywhere, 0 from pairs at distance 0, exact from all others."""
with check("distance-gradient") as test:

    def pulls(x):
        """The gradient that the rows get: each pair pulls along the line between its points; equal rows don't pull."""
        weights, rows = incoming_gradient(torch.empty(len(x), len(x), dtype=x.dtype)).tolist(), x.tolist()
        gradient = torch.zeros_like(x)
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                length = math.dist(a, b)
                if length > 0:
                    gradient[i] += torch.tensor([weights[i][j] * (p - q) / length for p, q in zip(a, b, strict=True)])
                    gradient[j] -= torch.tensor([weights[i][j] * (p - q) / length for p, q in zip(a, b, strict=True)])
        return gradient

    def is_nan(seen):
        return seen.gradient(0).isnan().any()

    at_zero = mistake(
        "The value is right, but the gradient is nan: at distance 0 the root has slope infinity, and 0 * inf is nan. "
        "Selecting or repairing after the root can't undo it; the zeros must not reach it.",
        when=is_nan,
    )
    missing = (
        mistake("No gradient reaches x.", when=lambda seen: not seen.error_text and seen.gradient(0) is None),
        mistake(
            "A result that backward needs was changed in place (section 4.7), such as that of the root. Make a new "
            "tensor.",
            raises="modified by an inplace operation",
        ),
        mistake("{detail}.", when=lambda seen: seen.noted.backward_raised is not None),
    )
    wrong_pull = "Pairs at a distance above 0 must keep their exact gradient, and the others contribute 0: {detail}."

    test("three points: the diagonal is always 0")
    some_points = torch.tensor([[0.0, 0], [3, 4], [0, 12]])
    seen = observe(pairwise_distance, some_points.requires_grad_())
    seen.gives_gradients({0: pulls(some_points.detach())}, *missing, at_zero, because=wrong_pull)

    test("four points, two of them equal")
    some_points = torch.tensor([[0.5, -1.25], [1.5, 0.75], [0.5, -1.25], [-2.0, 0.25]])
    seen = observe(pairwise_distance, some_points.requires_grad_())
    seen.gives_gradients(
        {0: pulls(some_points.detach())},
        *missing,
        mistake("The diagonal is treated, other equal rows are not: {detail}.", when=is_nan),
        because=wrong_pull,
    )

    ### BEGIN HIDDEN TESTS
    generator = torch.Generator().manual_seed(8)
    close = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    for idea, some_points in [
        ("seven points in float64", torch.randn(7, 3, generator=generator, dtype=torch.float64)),
        ("points 1e-7 apart", torch.cat([close, close + torch.tensor([1e-7, 0, 0]).double()])),
        ("40 rows, far from the origin", torch.randn(40, 2, generator=generator, dtype=torch.float64) + 100),
        ("all rows equal", torch.tensor([[0.1, 0.7, 1.3]]).expand(4, 3).clone()),
        ("one row", torch.tensor([[1.5, 2.5]])),
        ("one column", torch.tensor([[1.0], [4.0], [-2.5], [4.0]])),
        ("not contiguous", torch.randn(3, 4, generator=generator).t()),
    ]:
        test.hidden(idea)
        seen = observe(pairwise_distance, some_points.requires_grad_())
        seen.gives_gradients({0: pulls(some_points.detach())}, *missing, at_zero, because=wrong_pull)

    test.hidden("no rows, and no columns")
    for size in ((0, 3), (3, 0)):
        seen = observe(pairwise_distance, torch.empty(size, requires_grad=True))
        seen.returns(torch.zeros(size[0], size[0]))
        seen.that(seen.noted.backward_raised is None, "Backward raised for an empty x.", stage="gradient")
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4.7 · The nan that torch.where did not stop
#
# fix · solid · 15 min · 3 points
#
# Attention over a padded batch. The function below returns the right probabilities for ordinary scores, row for row:
# rows without any valid entry are blanked by `torch.where`. And after the first batch with such a row, every parameter
# of the model is nan. Repair it.
#
# **Contract**
#
# - Softmax over the last dimension among the entries whose mask is True; the others get exactly 0. A row without any
#   True is all 0.
# - No nan in the result or in the gradient, whatever the masked scores hold, inf and nan included; masked entries get
#   gradient 0. Valid scores of 1e4 are fine, and a masked score larger than all valid ones makes no difference.
# - The dtype of `scores` is kept (float16 and bfloat16 work). `mask` may broadcast against it, such as (B, 1, T) or
#   (T,). The arguments are not changed.
#
# <details><summary>Hint 1</summary>
#
# Which value does softmax's backward multiply by the zero gradient that `torch.where` sends back for the empty row? And
# what does `nan + -inf` give?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Do not let nan arise at all: bring masked scores to a harmless value by *selection*, not by adding. Let rows without a
# valid entry go through the softmax with ordinary numbers, and blank the result afterwards.
#
# </details>


# %% answer="masked-softmax"
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension among the entries where mask is True; 0 elsewhere.

    scores: (..., T); mask: bool, broadcastable to scores; returns (..., T) in the dtype of scores.
    """
    ### BEGIN SOLUTION
    harmless = torch.where(mask, scores, torch.finfo(scores.dtype).min)  # finite, so that no row becomes nan
    return torch.where(mask, harmless.softmax(-1), 0.0)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # bias = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))  # the mask, to be added
    # p = (scores + bias).softmax(-1)
    # return torch.where(mask.any(-1, keepdim=True), p, 0.0)  # rows without any valid entry: 0 in place of nan
    ### END GIVEN


# %% check="masked-softmax" points=1
"""The probabilities: 0 where masked, whatever stands there; any scores, mask shapes and dtypes."""
with check("masked-softmax") as test:
    leaked = mistake(
        "A masked score leaked into the result: adding -inf (or multiplying by 0) does not remove nan or inf. Replace "
        "masked scores by selection.",
        when=lambda seen: not seen.value.isfinite().all(),
    )

    test("four columns; rows with four valid entries, three, one and none")
    some_scores = torch.tensor([[1.0, 2, 4, 3], [2, 6, 5, 1], [5, 3, 2, 7], [1, 8, 2, 3]]).log()  # exp gives them back
    some_mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        torch.tensor([[0.1, 0.2, 0.4, 0.3], [2 / 9, 6 / 9, 0, 1 / 9], [0, 0, 1, 0], [0, 0, 0, 0]]),
        mistake("A mask of True means valid.", when=lambda seen: not seen.value[0].any() and seen.value[3].any()),
        mistake(
            "A row without valid entries must be all 0; yours is not (a large negative number shifts all entries of "
            "the row equally).",
            when=lambda seen: torch.allclose(seen.value[:3].sum(-1), torch.ones(3)) and seen.value[3].isfinite().all(),
        ),
        mistake(
            "The valid entries of a row must sum to 1: you blanked entries of an ordinary softmax without "
            "renormalising.",
            when=lambda seen: torch.allclose(seen.value[1], torch.tensor([2 / 14, 6 / 14, 0, 1 / 14])),
        ),
        mistake("There is nan in the output: {detail}.", when=lambda seen: seen.value.isnan().any()),
    )
    seen.leaves_arguments_alone()

    test("nan and inf at masked places")
    some_scores = torch.tensor([[0.0, torch.nan, 0], [torch.inf, 0, 0], [0, torch.nan, -torch.inf], [torch.nan] * 3])
    some_mask = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(torch.tensor([[0.5, 0, 0.5], [0, 0.5, 0.5], [1, 0, 0], [0, 0, 0]]), leaked)
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    def row_by_row(scores, mask):
        """Each row by Python floats: exponentials of what is valid, divided by their sum."""
        rows = []
        valid = mask.expand(scores.shape).reshape(-1, scores.shape[-1]).tolist()
        for row, kept in zip(scores.double().reshape(-1, scores.shape[-1]).tolist(), valid, strict=True):
            largest = max((s for s, k in zip(row, kept, strict=True) if k), default=0.0)
            powers = [math.exp(s - largest) if k else 0.0 for s, k in zip(row, kept, strict=True)]
            rows.append([p / (sum(powers) or 1.0) for p in powers])
        return torch.tensor(rows, dtype=torch.float64).reshape(scores.shape).to(scores.dtype)

    small_fill = mistake(
        "The number -1e9 does not exist in float16: use -inf or torch.finfo(dtype).min. {detail}.",
        raises="without overflow|cannot be converted",
    )
    broadcast = "The mask may broadcast against scores: {detail}."
    generator = torch.Generator().manual_seed(9)

    test.hidden("valid scores of 1e4 and -1e4")
    some_mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 0]]) > 0
    some_scores = torch.tensor([[1e4, 9999, 3, -1e4], [-1e4, -1e4, -9999, -1e4], [-1e4, -9990, -1e4, -1e4]])
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        row_by_row,
        mistake(
            "Subtract the row's maximum before the exponential: exp(1e4) is inf.",
            when=lambda seen: not seen.value.isfinite().all(),
        ),
        mistake(
            "Masked places took part in a row's maximum or sum: valid scores may be as low as -1e4. The number that "
            "stands in for a masked score must be far below all of them, such as torch.finfo(dtype).min.",
            stage="value",
        ),
        rtol=5e-3,  # logsumexp keeps only three digits of scores this large
        atol=1e-6,
    )

    test.hidden("a masked score 1e4 above the valid ones")
    some_scores = torch.tensor([[1.0, 2, 1e4, 3], [2, 1e4, 1, 0.5], [9e3, 2, 1e4, 8e3]])
    seen = observe(masked_softmax, some_scores, some_mask)
    seen.returns(
        row_by_row,
        mistake(
            "A masked score that is larger than the valid ones makes them underflow to 0 before you renormalise: "
            "mask before the exponential.",
            when=lambda seen: True,
        ),
    )

    for idea, size, mask_size in [
        ("a mask (T,)", (2, 3, 4), (4,)),
        ("a mask (B, 1, T)", (2, 3, 4), (2, 1, 4)),
        ("a mask (B, H, 1): whole rows", (3, 4, 2), (3, 4, 1)),
        ("one row of scores, 1-d", (5,), (5,)),
        ("four dimensions", (2, 3, 4, 5), (2, 1, 1, 5)),
        ("T = 1", (3, 1), (3, 1)),
        ("no rows", (0, 4), (0, 4)),
    ]:
        test.hidden(idea)
        some_scores = torch.randn(size, generator=generator) * 3
        some_mask = torch.rand(mask_size, generator=generator) < 0.6
        seen = observe(masked_softmax, some_scores, some_mask)
        seen.returns(row_by_row, because=broadcast if mask_size != size else "")
        seen.leaves_arguments_alone()

    test.hidden("a single True, a single False")
    for single in (torch.tensor(True), torch.tensor([False])):
        seen = observe(masked_softmax, torch.tensor([[1.0, 2, 0.5], [0, 0, 3]]), single)
        seen.returns(row_by_row, because=broadcast)

    test.hidden("an expanded mask, scores that are not contiguous")
    some_mask = torch.tensor([True, False, True, True]).expand(3, 4)
    seen = observe(masked_softmax, torch.randn(4, 3, generator=generator).t(), some_mask)
    seen.returns(row_by_row)
    seen.leaves_arguments_alone()

    test.hidden("float64, float16 and bfloat16 keep their dtype")
    some_mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [0, 0, 0, 0]]) > 0
    for dtype, rtol, atol in [(torch.float64, 1e-9, 0), (torch.float16, 5e-3, 1e-4), (torch.bfloat16, 3e-2, 1e-3)]:
        some_scores = torch.tensor([[0.5, -1.25, 3, 2], [1.5, 0.25, -0.75, 1], [1, 2, 3, 4]], dtype=dtype)
        seen = observe(masked_softmax, some_scores, some_mask)
        seen.returns(
            row_by_row,
            small_fill,
            mistake("The dtype of scores must be kept: {detail}.", stage="dtype"),
            rtol=rtol,
            atol=atol,
        )
    ### END HIDDEN TESTS

# %% check="masked-softmax" points=2
"""The gradient: no nan from empty rows or from what is masked, 0 there, softmax's gradient elsewhere."""
with check("masked-softmax") as test:

    def softmax_gradient(p):
        """The gradient of the scores, from the probabilities: p_i times (v_i minus the mean of v under p)."""
        v = incoming_gradient(p)
        return p * (v - (p * v).sum(-1, keepdim=True))

    nan_below_right_output = mistake(
        "The output is right, the gradient is nan: in the empty row softmax produced nan, and its backward multiplies "
        "the zero gradient by that nan. Selecting afterwards is too late; keep nan from arising.",
        when=lambda seen: seen.value.isfinite().all() and seen.gradient(0).isnan().any(),
    )
    nan_from_masked = mistake(
        "The gradient is nan: a masked score was multiplied or added, not replaced. Masked scores must not enter the "
        "computation.",
        when=lambda seen: seen.gradient(0).isnan().any(),
    )
    off = "Masked entries must get gradient 0, valid ones the softmax gradient: {detail}."

    test("rows with three valid entries, one and none")
    some_scores = torch.tensor([[1.0, 2, 4, 3], [2, 6, 5, 1], [5, 3, 2, 7], [1, 8, 2, 3]]).log()
    some_mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores.requires_grad_(), some_mask)
    some_probs = torch.tensor([[0.1, 0.2, 0.4, 0.3], [2 / 9, 6 / 9, 0, 1 / 9], [0, 0, 1, 0], [0, 0, 0, 0]])
    seen.gives_gradients({0: softmax_gradient(some_probs)}, nan_below_right_output, because=off)

    test("nan and inf at masked places")
    some_scores = torch.tensor([[0.0, torch.nan, 0], [torch.inf, 0, 0], [0, torch.nan, -torch.inf], [torch.nan] * 3])
    some_mask = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]]) > 0
    seen = observe(masked_softmax, some_scores.requires_grad_(), some_mask)
    some_probs = torch.tensor([[0.5, 0, 0.5], [0, 0.5, 0.5], [1, 0, 0], [0, 0, 0]])
    seen.gives_gradients({0: softmax_gradient(some_probs)}, nan_from_masked, because=off)

    ### BEGIN HIDDEN TESTS
    def probabilities(scores, mask):
        """Softmax over what is valid, in float64."""
        powers = torch.where(mask, scores.detach().double(), -torch.inf).softmax(-1)
        return powers.nan_to_num(0.0)

    overflow = mistake(
        "Result and gradient hold nan: exp(1e4) is inf. Subtract the row's maximum before the exponential.",
        when=lambda seen: seen.gradient(0).isnan().any(),
    )
    generator = torch.Generator().manual_seed(10)
    some_large = torch.tensor([[1e4, 9999, 3, -1e4], [1, 2, 1e4, 3], [5, -1e4, 1e4, 1]])
    some_mask = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0]]) > 0
    for idea, some_scores, mask in [
        ("large scores, valid and masked", some_large, some_mask),
        ("float64, three dimensions, a mask (B, 1, T)", None, torch.tensor([[[1, 0, 1]], [[0, 0, 0]]]) > 0),
        ("a mask (T,)", None, torch.tensor([True, False, True])),
        ("all valid", None, torch.tensor(True)),
        ("nothing valid", None, torch.tensor(False)),
    ]:
        test.hidden(idea)
        if some_scores is None:
            some_scores = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
        seen = observe(masked_softmax, some_scores.requires_grad_(), mask)
        wanted = softmax_gradient(probabilities(some_scores, mask)).to(some_scores.dtype)
        rtol, atol = (5e-3, 1e-3) if some_scores is some_large else (1e-6, 1e-9)
        if mask.any() or seen.noted.tracked or seen.error_text:  # without a valid entry, a constant is fine, too
            nan = overflow if some_scores is some_large else nan_from_masked
            seen.gives_gradients({0: wanted}, nan_below_right_output, nan, because=off, rtol=rtol, atol=atol)

    test.hidden("float16 and bfloat16")
    for dtype, rtol, atol in [(torch.float16, 1e-2, 2e-3), (torch.bfloat16, 5e-2, 1e-2)]:
        some_scores = torch.tensor([[0.5, -1.25, 3, 2], [1.5, 0.25, -0.75, 1], [1, 2, 3, 4]], dtype=dtype)
        seen = observe(masked_softmax, some_scores.requires_grad_(), some_mask)
        wanted = softmax_gradient(probabilities(some_scores, some_mask)).to(dtype)
        seen.gives_gradients({0: wanted}, nan_below_right_output, because=off, rtol=rtol, atol=atol)
    ### END HIDDEN TESTS

# %% [markdown]
# ### A gradient as part of a loss
#
# Backward consists of ordinary tensor operations. With `create_graph=True` autograd takes notes of them too, and the
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
# 3x², 6x and 6. Each of the three has a graph that leads back to `x`, so it can be differentiated again. Without
# `create_graph` the number is the same, but it is only a number: it no longer knows that it came from `x`.

# %% [markdown]
# **Predict.** A penalty on the gradient g of w² is added to the loss: w² + g². At w = 3, g is 6, and the derivative
# of the whole is 2w + 8w = 30. What arrives with `create_graph=False`?

# %% facts=["04-gradient-penalty-create-graph"]
for create_graph in (True, False):
    w = torch.tensor([3.0], requires_grad=True)
    loss = (w**2).sum()
    (g,) = torch.autograd.grad(loss, w, create_graph=create_graph, retain_graph=True)
    total = loss + g.pow(2).sum()
    total.backward()
    print(f"create_graph={create_graph}: total {total.item():g}, w.grad {w.grad.item():g}, tracked: {g.requires_grad}")

# %% [markdown]
# 6, as if there were no penalty. The loss that is printed contains it, and looks right; but for autograd g is a
# constant. Ask `g.requires_grad` before you add a gradient to a loss. And if the penalty takes a root of g², remember
# its slope at 0: a gradient of exactly zero, from a dead relu, turns the whole step into nan.

# %% [markdown]
# ### Exercise 4.8 · The penalty that penalised nothing
#
# fix · long · 15 min · 2 points
#
# A critic whose slope should be 1 everywhere: how far the slope is off is added to the loss. The code below trains
# without an error, exactly as if lam were 0. Repair it; there is more than one thing to repair.
#
# **Contract**
#
# - `penalised_loss(model, x, y, lam)` is the mean squared error of `model(x)` and y, plus lam times the mean over the
#   samples b of `(norm_b - 1) ** 2`, where `norm_b` is the norm of the derivative of `model(x)[b]` with respect to
#   `x[b]`, taken over all dimensions of that sample. The result is 0-d.
# - The penalty is part of the loss: `loss.backward()` gives the parameters its gradient, too. A sample whose derivative
#   is zero gives no nan.
# - Before that backward no `.grad` is filled or changed. x keeps its values and its `requires_grad`, be it True or
#   False. model is called once.
#
# <details><summary>Hint 1</summary>
#
# What kind of tensor is g: does it remember how it was computed from the parameters?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Four repairs: the inner grad call must record itself; every output counts fully (a sum, not a mean); the norm belongs
# to each sample; and the root of a sum of squares needs care at 0. Work on a detached copy of x that requires grad.
#
# </details>


# %% answer="gradient-penalty"
def penalised_loss(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, lam: float) -> Tensor:
    """Mean squared error plus lam times the mean of (norm of each sample's input gradient - 1) ** 2.

    x: (B, ...), at least two dimensions; model(x) and y: (B,); returns a 0-d tensor.
    """
    ### BEGIN SOLUTION
    x = x.detach().requires_grad_()
    out = model(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)  # samples don't influence each other
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)  # its own gradient at 0 is 0
    return F.mse_loss(out, y) + lam * (norms - 1).square().mean()
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # x.requires_grad_()
    # out = model(x)
    # # without retain_graph: RuntimeError: Trying to backward through the graph a second time
    # (g,) = torch.autograd.grad(out.mean(), x, retain_graph=True)
    # penalty = (g.pow(2).sum().sqrt() - 1) ** 2
    # return F.mse_loss(out, y) + lam * penalty
    ### END GIVEN


# %% check="gradient-penalty" points=2
"""The loss, what the parameters get from it, and that nothing else is touched."""
with check("gradient-penalty") as test:

    def bowl(a, x):
        """A model with one parameter for each input: half the sum of a * x ** 2. Its slope is a * x."""
        return (a * x.square()).flatten(1).sum(1) / 2

    def trained(penalised_loss, a, x, y, lam):
        """The loss for the bowl, what there was before its backward, and the gradient of a after it."""
        return followed(penalised_loss, [a.requires_grad_()], lambda v: bowl(a, v), x, y, lam)

    def followed(penalised_loss, parameters, model, x, y, lam):
        """Call it, note what it left behind, then run backward and note the gradients."""
        calls = []

        def counted(v):
            calls.append(type(v).__name__)
            return model(v)

        x_before = [x.requires_grad, x.detach().clone(), copied(x.grad)]
        before = [copied(p.grad) for p in parameters]
        loss = penalised_loss(counted, x, y, lam)
        recording = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        if not isinstance(loss, Tensor):
            return {"type": type(loss).__name__}
        facts = {
            "type": "Tensor",
            "loss": loss.detach().clone(),
            "tracked": loss.requires_grad,
            "calls": len(calls),
            "x": [x_before, [x.requires_grad, x.detach().clone(), copied(x.grad)]],
            "filled": [before, [copied(p.grad) for p in parameters]],
            "recording": recording,
            "raised": "",
        }
        for p in parameters:
            p.grad = None
        if loss.requires_grad and loss.dim() == 0:
            try:
                loss.backward()
            except RuntimeError as error:
                facts["raised"] = str(error)
        return facts | {"gradients": [copied(p.grad) for p in parameters]}

    def copied(gradient):
        """A copy of a gradient, or None."""
        return None if gradient is None else gradient.detach().clone()

    def same(old, new):
        """Whether two notes about gradients and flags agree."""
        if isinstance(old, list):
            return all(same(a, b) for a, b in zip(old, new, strict=True))
        return torch.equal(old, new) if isinstance(old, Tensor) and isinstance(new, Tensor) else old is new

    def judge_loss(seen, expected, *mistakes):
        """The value of the loss."""
        came = seen.value.get("loss")
        seen.that(isinstance(came, Tensor), f"Return a 0-d tensor; yours is of type {seen['type']}.", stage="type")
        seen.that(came.dim() == 0, f"The loss must be 0-d, not of shape {tuple(came.shape)}.", stage="shape")
        seen.that(
            not came.isnan(),
            "A sample with zero gradient gives nan: nan came out as the loss.",
        )
        near = torch.allclose(came.double(), torch.as_tensor(expected).double(), rtol=1e-5)
        seen.that(near, f"The loss is wrong: expected {float(expected):.6g}, got {float(came):.6g}.", *mistakes)

    def judge_manners(seen):
        """What must be as it was before backward."""
        seen.that(
            same(*seen["filled"]),
            "The .grad of a parameter was filled while the penalty was computed: backward() fills every leaf. "
            "Use torch.autograd.grad.",
            stage="arguments",
        )
        (flag, values, grad), (flag_now, values_now, grad_now) = seen["x"]
        seen.that(
            flag == flag_now,
            "x.requires_grad was changed: work on a detached copy that requires grad.",
            stage="arguments",
        )
        seen.that(torch.equal(values, values_now), "The values of x were changed.", stage="arguments")
        seen.that(same(grad, grad_now), "The .grad of x was changed before backward.", stage="arguments")
        seen.that(
            seen["calls"] == 1,
            f"Your code called model {seen['calls']} times; once is enough (dropout would give different numbers).",
            stage="rule",
        )
        seen.that(seen["recording"], "Gradient recording was switched off and not on again.", stage="rule")

    def judge_gradients(seen, expected, without_penalty):
        """What the parameters get; `without_penalty` is what they get from the data term."""
        seen.that(
            "second time" not in seen["raised"],
            "The inner grad call freed the graph that loss.backward() still needs: create_graph=True keeps it (and "
            "records the gradient, which is what you want here).",
            stage="gradient",
        )
        seen.that(not seen["raised"], f"The call of loss.backward() raised: {seen['raised']}", stage="gradient")
        came = seen["gradients"]
        seen.that(
            seen["tracked"] and all(g is not None for g in came),
            "No gradient reaches the parameters.",
            stage="gradient",
        )
        seen.that(
            not any(g.isnan().any() for g in came),
            "A sample with zero gradient gives nan: the slope of the root at 0 is infinite.",
            stage="gradient",
        )
        near = [torch.allclose(g, e, rtol=1e-4, atol=1e-6) for g, e in zip(came, expected, strict=True)]
        as_data = [torch.allclose(g, e, rtol=1e-4, atol=1e-6) for g, e in zip(came, without_penalty, strict=True)]
        words = "The gradient of the parameters is not that of the formula."
        if all(as_data):
            words = (
                "The penalty is a constant for autograd: torch.autograd.grad without create_graph=True returns plain "
                "numbers, so the parameters never feel it. (.item(), .data and no_grad do the same.)"
            )
        seen.that(all(near), words, stage="gradient")

    test("a model with slope a * x, three samples, lam = 2: the loss")
    some_a = torch.tensor([0.5, 2.0], dtype=torch.float64)
    some_x = torch.tensor([[1.0, 2.0], [3.0, -1.0], [-2.0, 0.5]], dtype=torch.float64)
    some_y = torch.tensor([4.0, 3.0, 1.0], dtype=torch.float64)
    slopes = some_a * some_x
    norms = slopes.square().sum(1).sqrt()
    data_term = (bowl(some_a, some_x) - some_y).square().mean()
    seen = observe_scenario(trained, penalised_loss, some_a, some_x, some_y, 2.0)

    def with_penalty(penalty):
        """Whether the loss is the data term plus lam times this penalty."""
        return lambda seen: torch.allclose(seen["loss"].double(), data_term + 2 * penalty, rtol=1e-4)

    one_norm = "You took one norm over the whole batch; each sample has its own norm."
    judge_loss(
        seen,
        data_term + 2 * (norms - 1).square().mean(),
        mistake(one_norm, when=with_penalty(((slopes / 3).square().sum().sqrt() - 1) ** 2)),
        mistake(one_norm, when=with_penalty((slopes.square().sum().sqrt() - 1) ** 2)),
        mistake(
            "The gradient of out.mean() is 1/B of each sample's gradient: differentiate the sum of the outputs "
            "(samples do not influence each other).",
            when=with_penalty((norms / 3 - 1).square().mean()),
        ),
        mistake(
            "The norm is missing its square root: (|g|^2 - 1)^2 is another penalty.",
            when=with_penalty((norms.square() - 1).square().mean()),
        ),
        mistake(
            "The penalty is averaged over the samples, not summed.",
            when=with_penalty((norms - 1).square().sum()),
        ),
        mistake("The norm is compared with 1.", when=with_penalty(norms.square().mean())),
        mistake("The norm is compared with 1.", when=with_penalty(norms.mean())),
        mistake(
            "The data term is missing or detached.",
            when=lambda seen: torch.allclose(seen["loss"], 2 * (norms - 1).square().mean()),
        ),
        mistake(
            "The penalty is missing: that is the mean squared error alone.",
            when=lambda seen: torch.allclose(seen["loss"], data_term),
        ),
        mistake(
            "The penalty is multiplied by lam.",
            when=lambda seen: torch.allclose(seen["loss"], data_term + (norms - 1).square().mean()),
        ),
    )

    test("before backward nothing is filled or changed; model is called once")
    judge_manners(seen)

    test("the parameters feel the penalty: their gradient, and not that of lam = 0")
    own_a = some_a.clone().requires_grad_()
    own_norms = (own_a * some_x).square().sum(1).sqrt()
    own_data = (bowl(own_a, some_x) - some_y).square().mean()
    expected = torch.autograd.grad(own_data + 2 * (own_norms - 1).square().mean(), own_a, retain_graph=True)
    only_data = torch.autograd.grad(own_data, own_a, retain_graph=True)
    only_penalty = torch.autograd.grad(2 * (own_norms - 1).square().mean(), own_a)
    seen.expecting(
        mistake(
            "The data term is missing or detached.",
            when=lambda seen: torch.allclose(seen["gradients"][0], only_penalty[0], rtol=1e-4),
        )
    )
    judge_gradients(seen, expected, only_data)

    ### BEGIN HIDDEN TESTS
    def network(name, weights):
        """A small model by name, and its parameters with the given numbers."""
        if name == "relu":
            layers = [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.Flatten(0)]
        elif name == "image":
            layers = [nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(1), nn.Linear(12, 1), nn.Flatten(0)]
        else:
            layers = [nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 1), nn.Flatten(0)]
        model = nn.Sequential(*layers).double()
        with torch.no_grad():
            start = 0
            for p in model.parameters():
                p.copy_(weights[start : start + p.numel()].view(p.shape))
                start += p.numel()
        return model

    def with_network(penalised_loss, name, weights, x, y, lam):
        """The story of the bowl, for a network."""
        model = network(name, weights)
        return followed(penalised_loss, list(model.parameters()), model, x, y, lam)

    def with_old_gradients(penalised_loss, weights, x, y, lam):
        """x requires grad and has a .grad already, and so has every parameter."""
        model = network("tanh", weights)
        for p in model.parameters():
            p.grad = torch.full_like(p, 3.0)
        x.requires_grad_().grad = torch.full_like(x, 7.0)
        return followed(penalised_loss, list(model.parameters()), model, x, y, lam)

    def reference(model, x, y, lam):
        """Sample by sample: the loss and the gradients of the parameters, with and without the penalty."""
        penalties = []
        for sample in x.detach().unbind():
            sample = sample[None].requires_grad_()
            (slope,) = torch.autograd.grad(model(sample).sum(), sample, create_graph=True)
            flat = slope.flatten()
            penalties.append((flat.norm() - 1) ** 2 if flat.any() else flat.sum() * 0 + 1)
        data = F.mse_loss(model(x.detach()), y)
        loss = data + lam * sum(penalties) / len(x)
        parameters = list(model.parameters())
        kept = {"retain_graph": True, "materialize_grads": True}
        gradients = torch.autograd.grad(loss, parameters, **kept)
        return loss.detach(), gradients, torch.autograd.grad(data, parameters, **kept)

    generator = torch.Generator().manual_seed(11)
    weights = torch.randn(60, generator=generator, dtype=torch.float64)
    dead = weights.clone()
    dead[12:16] = torch.tensor([-9.0, 0.5, -9.0, -9.0])  # only one unit of four is ever active
    some_x = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    some_x[1] = -4 * dead[3:6]  # and not for this sample
    for idea, name, numbers, x, lam in [
        ("a network", "tanh", weights, torch.randn(5, 3, generator=generator, dtype=torch.float64), 0.7),
        ("a model that is constant around a sample (dead relu)", "relu", dead, some_x, 1.5),
        ("images", "image", weights, torch.randn(3, 2, 3, 3, generator=generator, dtype=torch.float64), 2.0),
        ("a batch of one", "tanh", weights, torch.randn(1, 3, generator=generator, dtype=torch.float64), 2.0),
        ("lam = 0", "tanh", weights, torch.randn(4, 3, generator=generator, dtype=torch.float64), 0.0),
    ]:
        test.hidden(idea)
        y = torch.randn(len(x), generator=generator, dtype=torch.float64)
        seen = observe_scenario(with_network, penalised_loss, name, numbers, x, y, lam)
        loss, gradients, data_gradients = reference(network(name, numbers), x, y, lam)
        judge_loss(seen, loss)
        judge_manners(seen)
        judge_gradients(seen, gradients, data_gradients if lam else [torch.full_like(g, torch.inf) for g in gradients])

    test.hidden("x requires grad already, and everything has a .grad")
    x, y = torch.randn(4, 3, generator=generator, dtype=torch.float64), torch.randn(4, generator=generator).double()
    seen = observe_scenario(with_old_gradients, penalised_loss, weights, x, y, 1.5)
    loss, gradients, data_gradients = reference(network("tanh", weights), x, y, 1.5)
    judge_loss(seen, loss)
    judge_manners(seen)
    judge_gradients(seen, gradients, data_gradients)
    ### END HIDDEN TESTS

# %% [markdown]
# ## 4.9 The engine, by hand
#
# You have seen all the parts; now put them together. A node can be called like a function: it takes the gradient of
# its result and returns the gradients of its inputs.
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
# First the sum, then sin, and the product of `w` with itself last: a node may pass its gradient on only when
# everything that used its result has reported. The product returns two gradients, one for each factor; both factors
# are `w`, so the two are added. That is the whole engine: an order, local derivatives, and addition. In the last
# exercise you write it for single numbers, without torch, and compare with torch.

# %% [markdown]
# ### Exercise 4.9 · Autograd from scratch, for single numbers
#
# implement · long · 35 min · 3 points
#
# Write a class of numbers that record how they were computed and can run backward: what torch does for tensors, for
# single numbers. Write all the methods that the docstring names; `__init__` is only the first. It takes 40 to 80
# lines.
#
# Python turns `a + b` into `a.__add__(b)`, and `2 + b` into `b.__radd__(2)`, since the 2 does not know what to do
# with a Value. The others are called `__sub__`, `__mul__`, `__truediv__`, with `r` for the left side, and `__neg__`,
# `__pow__`.
#
# **Contract**
#
# - `.data` is the number, as Python computes it; `.grad` is 0.0 at first. The derivative of relu at 0 is 0. A value
#   that is used several times gets the sum over all its uses.
# - `backward()` adds the derivative of self with respect to v to `v.grad`, for every leaf v: every Value that was made
#   by `Value(number)`. As in torch, two calls add up, on one expression or on two. What results in between hold in
#   `.grad` is up to you, but it must not spoil a later backward.
# - The work grows with the number of nodes, not of paths: `v = v + v`, thirty times, is thirty additions. Chains of
#   3000 operations work.
#
# **Rule.** No torch and no numpy inside the class; `math` is fine.
#
# <details><summary>Hint 1</summary>
#
# If v is used by two results, when may v pass its gradient on: after the first of them has reported, or after the
# last?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Every result remembers its inputs and the local derivatives. backward: order all reachable nodes so that results
# come before their inputs, start with 1 for self, and let each node *add* gradient times local derivative to its
# inputs. Keep the running gradients of one call apart from the `.grad` of the leaves.
#
# </details>


# %% answer="micrograd"
class Value:
    """A number that remembers how it was computed.

    Attributes: data, the number; grad, the sum of all derivatives that reached it, 0.0 at first.
    Operators: +, -, *, / with Values and Python numbers on either side, unary -, ** with a Python number.
    Methods: tanh(), exp(), relu(), and backward(), which adds to the grad of every leaf.
    """

    def __init__(self, data: float):
        ### BEGIN SOLUTION
        self.data, self.grad = data, 0.0
        self._inputs = ()  # pairs: an input, and the derivative with respect to it

    @staticmethod
    def _result(data, *inputs):
        made = Value(data)
        made._inputs = inputs
        return made

    @staticmethod
    def _value(other):
        return other if isinstance(other, Value) else Value(other)

    def __add__(self, other):
        other = Value._value(other)
        return Value._result(self.data + other.data, (self, 1.0), (other, 1.0))

    def __mul__(self, other):
        other = Value._value(other)
        return Value._result(self.data * other.data, (self, other.data), (other, self.data))

    def __truediv__(self, other):
        other = Value._value(other)
        slope = -self.data / other.data**2
        return Value._result(self.data / other.data, (self, 1 / other.data), (other, slope))

    def __pow__(self, n):
        return Value._result(self.data**n, (self, n * self.data ** (n - 1)))

    def __neg__(self):
        return Value._result(-self.data, (self, -1.0))

    def __sub__(self, other):
        return self + -Value._value(other)

    def __rsub__(self, other):
        return Value._value(other) - self

    def __rtruediv__(self, other):
        return Value._value(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def tanh(self):
        t = math.tanh(self.data)
        return Value._result(t, (self, 1 - t * t))

    def exp(self):
        e = math.exp(self.data)
        return Value._result(e, (self, e))

    def relu(self):
        return Value._result(max(self.data, 0.0), (self, float(self.data > 0)))

    def backward(self):
        order, seen, waiting = [], set(), [(self, False)]
        while waiting:
            node, is_done = waiting.pop()
            if is_done:
                order.append(node)  # after all of its inputs
            elif node not in seen:
                seen.add(node)
                waiting.append((node, True))
                waiting.extend((v, False) for v, _ in node._inputs)
        gradients = {self: 1.0}  # of this call
        for node in reversed(order):
            for v, slope in node._inputs:
                gradients[v] = gradients.get(v, 0.0) + gradients[node] * slope
            if not node._inputs:
                node.grad += gradients[node]
        ### END SOLUTION


# %% check="micrograd" points=1
"""Values and derivatives of single operations, numbers on either side, and the chain rule."""
with check("micrograd") as test:

    def operation(name, a, b):
        """One operation by its name, for Values and for tensors."""
        functions = {
            "a + b": lambda: a + b,
            "a - b": lambda: a - b,
            "a * b": lambda: a * b,
            "a / b": lambda: a / b,
            "-a": lambda: -a,
            "a ** 3": lambda: a**3,
            "a ** -1": lambda: a**-1,
            "a ** 0.5": lambda: a**0.5,
            "a.tanh()": lambda: a.tanh(),
            "b.tanh()": lambda: b.tanh(),
            "a.exp()": lambda: a.exp(),
            "a.relu()": lambda: a.relu(),
            "b.relu()": lambda: b.relu(),
            "a + 2": lambda: a + 2,
            "a - 2": lambda: a - 2,
            "a * 3": lambda: a * 3,
            "a / 4": lambda: a / 4,
            "2 + a": lambda: 2 + a,
            "2 - a": lambda: 2 - a,
            "3 * a": lambda: 3 * a,
            "1 / a": lambda: 1 / a,
            "a * b * 3": lambda: a * b * 3,
            "((2 * a + b) * 3).tanh()": lambda: ((2 * a + b) * 3).tanh(),
            "(a / b - a.exp()) ** 2": lambda: (a / b - a.exp()) ** 2,
        }
        return functions[name]()

    def results_of(Value, names, x, y):
        """Value, derivative by a and derivative by b of each operation."""
        facts = {}
        for name in names:
            a, b = Value(x), Value(y)
            out = operation(name, a, b)
            data = getattr(out, "data", out)
            out.backward()
            facts[name] = [data, a.grad, b.grad]
        return facts

    def in_torch(name, x, y):
        """The same by torch, in float64."""
        a, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, y))
        out = operation(name, a, b)
        grads = torch.autograd.grad(out, [a, b], materialize_grads=True)
        return [v.item() for v in (out.detach(), *grads)]

    def near(came, wanted):
        """Whether two numbers agree."""
        return math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-9)

    def judge(seen, x, y, *mistakes):
        """Compare each operation with torch: the value first, then the derivatives."""
        for name, numbers in seen.value.items():
            odd = [type(n).__name__ for n in numbers if type(n) not in (int, float)]
            odd = odd and f"The class must compute with Python floats, in data and in grad; {name} gave another kind."
            seen.that(not odd, odd or "", stage="type")
            wanted = in_torch(name, x, y)
            words = f"The forward value of {name} is wrong: expected {wanted[0]:.6g}, got {numbers[0]:.6g}."
            seen.that(near(numbers[0], wanted[0]), words, *mistakes)
            right = near(numbers[1], wanted[1]) and near(numbers[2], wanted[2])
            words = f"The derivative of {name} is wrong."
            if not any(numbers[1:]) and any(wanted[1:]):
                words = "No gradient arrives: backward starts with d self / d self = 1."
            seen.that(right, words, *mistakes, stage="gradient")

    test("every operation on Values, at a = 0.75 and b = -1.25")
    names = ["a + b", "a * b", "a * b * 3", "-a", "a - b", "a ** 3", "a ** -1", "a ** 0.5", "a / b"]
    names += ["a.tanh()", "b.tanh()", "a.exp()", "a.relu()", "b.relu()"]
    no_chain = mistake(
        "The incoming gradient is missing: each local derivative is multiplied by the gradient of the result.",
        stage="gradient",
        when=lambda seen: near(seen["a * b * 3"][1], -1.25) and near(seen["a * b * 3"][2], 0.75),
    )
    seen = observe_scenario(results_of, Value, names, 0.75, -1.25)
    seen.expecting(
        mistake(
            "A method is missing: {detail}. `a + b` needs __add__, -a needs __neg__, a ** 3 needs __pow__, and so on.",
            raises="unsupported operand|bad operand|has no attribute '(backward|tanh|exp|relu|grad)'",
        )
    )
    judge(seen, 0.75, -1.25, no_chain)

    test("Python numbers on the right: a + 2, a - 2, a * 3, a / 4")
    names = ["a + 2", "a - 2", "a * 3", "a / 4"]
    judge(observe_scenario(results_of, Value, names, 0.75, -1.25), 0.75, -1.25)

    test("Python numbers on the left: 2 + a, 2 - a, 3 * a, 1 / a")
    left = "Python numbers on the left side need __radd__, __rmul__, __rsub__, __rtruediv__{detail}"
    names = ["2 + a", "2 - a", "3 * a", "1 / a"]
    seen = observe_scenario(results_of, Value, names, 0.75, -1.25)
    seen.expecting(
        mistake(left.replace("{detail}", ": {detail}."), raises="unsupported operand|__r[a-z]+__|must be real number"),
        mistake(left.replace("{detail}", "; 2 - a is not a - 2, and 1 / a is not a / 1."), stage=("value", "gradient")),
    )
    judge(seen, 0.75, -1.25)

    test("the chain rule: ((2 * a + b) * 3).tanh() and (a / b - a.exp()) ** 2")
    names = ["((2 * a + b) * 3).tanh()", "(a / b - a.exp()) ** 2"]
    judge(observe_scenario(results_of, Value, names, 0.35, -0.8), 0.35, -0.8)

    ### BEGIN HIDDEN TESTS
    test.hidden("all of them at two other places")
    names = ["a + b", "a - b", "a * b", "a / b", "-a", "a ** 3", "a ** -1", "a.tanh()", "a.exp()", "a.relu()"]
    names += ["b.relu()", "2 - a", "1 / a", "a / 4", "((2 * a + b) * 3).tanh()", "(a / b - a.exp()) ** 2"]
    for x, y in ((-0.5, 2.25), (2.0, 0.5)):
        judge(observe_scenario(results_of, Value, names, x, y), x, y)

    test.hidden("relu at exactly 0")
    seen = observe_scenario(results_of, Value, ["a.relu()"], 0.0, 1.0)
    judge(seen, 0.0, 1.0, mistake("The derivative of relu at 0 is 0, as in torch.", stage="gradient"))

    def fresh(Value):
        """A leaf before and after its own backward, and one that nobody used."""
        v, other = Value(1.5), Value(2.5)
        before = v.grad
        v.backward()
        return [before, v.data, v.grad, other.grad]

    test.hidden("a leaf: grad is 0.0 at first, and its own backward adds 1")
    observe_scenario(fresh, Value).returns(
        [0.0, 1.5, 1.0, 0.0],
        because="A fresh leaf has its number in data and 0.0 in grad; its own backward adds 1 to its grad.",
    )
    ### END HIDDEN TESTS

# %% check="micrograd" points=2
"""Shared values, any graph, two calls of backward, long chains, many paths; by hand."""
with check("micrograd") as test:

    def built(steps, values):
        """The last of the values that one gets by a list of steps [operation, position, position]."""
        values = list(values)
        for kind, i, j in steps:
            a, b = values[i], values[j]
            functions = {
                "add": lambda a=a, b=b: a + b,
                "sub": lambda a=a, b=b: a - b,
                "mul": lambda a=a, b=b: a * b,
                "div": lambda a=a, b=b: a / (b * b + 1),
                "tanh": lambda a=a: a.tanh(),
                "relu": lambda a=a: a.relu(),
                "exp": lambda a=a: (-a * a).exp(),
                "neg": lambda a=a: 2 - a,
                "pow": lambda a=a: a**2,
            }
            values.append(functions[kind]())
        return values[-1]

    def gradients_of(Value, programs, numbers):
        """The gradients of all leaves, for each of the programs."""
        found = []
        for steps in programs:
            leaves = [Value(n) for n in numbers]
            built(steps, leaves).backward()
            found.append([leaf.grad for leaf in leaves])
        return found

    def in_torch(programs, numbers):
        """The same by torch, in float64."""
        found = []
        for steps in programs:
            leaves = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]
            built(steps, leaves).backward()
            found.append([0.0 if leaf.grad is None else leaf.grad.item() for leaf in leaves])
        return found

    def alike(came, wanted):
        """Whether two lists of numbers, or lists of such lists, agree."""
        if isinstance(wanted, list):
            return len(came) == len(wanted) and all(alike(a, b) for a, b in zip(came, wanted, strict=True))
        return isinstance(came, (int, float)) and math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-9)

    test("values that are used twice: a * a + a, and (a + b) * (a - b)")
    twice_used = [
        [["mul", 0, 0], ["add", 2, 0]],
        [["add", 0, 1], ["sub", 0, 1], ["mul", 2, 3]],
    ]
    seen = observe_scenario(gradients_of, Value, twice_used, [3.0, 2.0])
    seen.that(
        alike(seen.value, [[7.0, 0.0], [6.0, -4.0]]),
        f"The derivatives are wrong: expected [7, 0] and [6, -4], got {seen.value}.",
        mistake(
            "A value that is used twice must receive the sum of both contributions: you overwrite its gradient (=) "
            "instead of adding (+=).",
            when=lambda seen: abs(seen.value[0][0]) < 7,
        ),
        stage="gradient",
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("a result in between that two branches of different length use")
    diamonds = [
        # c = a * b;  d = c.tanh();  out = d * c  (and the other way round, and longer)
        [["mul", 0, 1], ["tanh", 2, 2], ["mul", 3, 2]],
        [["mul", 0, 1], ["tanh", 2, 2], ["mul", 2, 3]],
        [["add", 0, 1], ["mul", 2, 2], ["tanh", 3, 3], ["exp", 4, 4], ["sub", 5, 2], ["mul", 6, 2], ["add", 2, 7]],
        [["mul", 0, 1], ["neg", 2, 2], ["neg", 3, 3], ["mul", 2, 4], ["mul", 5, 3], ["add", 6, 2]],
    ]
    seen = observe_scenario(gradients_of, Value, diamonds, [0.5, -0.75])
    seen.that(
        alike(seen.value, in_torch(diamonds, [0.5, -0.75])),
        "A node passed its gradient on before all of its users had reported: process results before their inputs "
        "(topological order).",
        stage="gradient",
    )

    test.hidden("30 random expressions, compared with torch")
    generator = torch.Generator().manual_seed(12)
    kinds = ["add", "sub", "mul", "div", "tanh", "relu", "exp", "neg", "tanh", "mul", "add", "pow"]
    programs = []
    for _ in range(30):
        steps = []
        for k in range(12):
            kind = "tanh" if k % 4 == 3 else kinds[int(torch.randint(len(kinds), (), generator=generator))]
            newest = torch.randint(max(0, k - 2), 3 + k, (2,), generator=generator).tolist()
            steps.append([kind, *newest])
        programs.append(steps)
    seen = observe_scenario(gradients_of, Value, programs, [0.7, -1.1, 0.4])
    seen.that(
        alike(seen.value, in_torch(programs, [0.7, -1.1, 0.4])),
        "The derivatives of a random expression differ from those of torch.",
        stage="gradient",
    )

    def again_and_again(Value):
        """backward twice on one expression, then on another one that shares a part with it, then on that part."""
        a, b = Value(3.0), Value(2.0)
        c = a * b
        first, second = c * c + a, c + b * b
        noted = []
        for out in (first, first, second, c):
            out.backward()
            noted.append([a.grad, b.grad])
        return noted

    test.hidden("backward again: on one expression, on another one, on a part of both")
    # d first = [25, 36], d second = [2, 7], d c = [2, 3]
    seen = observe_scenario(again_and_again, Value)
    seen.that(
        alike(seen.value, [[25.0, 36.0], [50.0, 72.0], [52.0, 79.0], [54.0, 82.0]]),
        "A second backward goes wrong: gradients left over in intermediate results are counted again. Start every call "
        "from zero for them, and only add to leaves.",
        mistake(
            "Two backward calls must add up in the leaves' .grad; yours start again.",
            when=lambda seen: alike(seen.value[:2], [[25.0, 36.0]] * 2) or alike(seen.value[2], [2.0, 7.0]),
        ),
        mistake("The first backward is wrong already.", when=lambda seen: not alike(seen.value[0], [25.0, 36.0])),
        stage="gradient",
    )

    class TooMuchWork(BaseException):
        """More lines were run than any walk over the nodes needs."""

    def watched(lines, action):
        """What action returns, or a note that it ran more than so many lines of Python."""
        left = [lines]

        def trace(frame, event, argument):
            left[0] -= 1
            if left[0] < 0:
                raise TooMuchWork
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return action()
        except TooMuchWork:
            return "too much work"
        finally:
            sys.settrace(before)

    def thirty_doublings(Value):
        """v = v + v, thirty times."""
        leaf = Value(0.5)

        def run():
            v = leaf
            for _ in range(30):
                v = v + v
            v.backward()
            return leaf.grad

        return watched(100_000, run)

    def long_chain(Value):
        """3000 additions, one after the other."""
        leaf = Value(0.5)
        v = leaf
        for _ in range(3000):
            v = v + 1
        v.backward()
        return [v.data, leaf.grad]

    too_deep = mistake(
        "Recursion stops at about 1000 levels: build the order with a list.", raises="RecursionError|recursion depth"
    )
    test.hidden("v = v + v, thirty times")
    observe_scenario(thirty_doublings, Value).returns(
        2.0**30,
        mistake(
            "The work explodes: 30 times v = v + v has a billion paths but 30 nodes. Visit every node once.",
            when=lambda seen: seen.value == "too much work",
        ),
        because="The derivative of v = v + v, thirty times, is 2 ** 30.",
    )

    test.hidden("a chain of 3000 additions")
    observe_scenario(long_chain, Value).returns(
        [3000.5, 1.0], too_deep, because="The derivative of a chain of additions is 1."
    )

    def codes(function):
        """The code objects of a function, those of functions inside it too."""
        found = [function.__code__]
        for code in found:
            found += [inner for inner in code.co_consts if isinstance(inner, type(code))]
        return found

    def libraries_in(Value):
        """The libraries that the methods of a class use, of torch and numpy; those of its base classes, too."""
        found = []
        members = [member for kind in Value.__mro__[:-1] for member in vars(kind).values()]
        for member in members:
            member = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if not hasattr(member, "__code__"):
                continue
            for code in codes(member):
                for step in dis.get_instructions(code):
                    if step.opname == "IMPORT_NAME":
                        found.append(step.argval)
                    elif step.opname == "LOAD_GLOBAL":
                        thing = member.__globals__.get(step.argval)
                        found.append(getattr(thing, "__module__", None) or getattr(thing, "__name__", ""))
        return sorted({root for root in (str(name).split(".")[0] for name in found) if root in ("torch", "numpy")})

    def used_libraries(Value):
        """A small computation, and what the class is made of."""
        a = Value(0.5)
        (a.tanh() * a.exp() + a.relu() / 2).backward()
        return libraries_in(Value)

    test.hidden("no torch and no numpy inside the class")
    seen = observe_scenario(used_libraries, Value)
    libraries = ", ".join(dict.fromkeys([*seen.value, *["torch"] * bool(seen.op_names())]))
    seen.that(not libraries, f"The class must do the work itself: {libraries} is used inside it.", stage="rule")
    ### END HIDDEN TESTS

# %% [markdown]
# ## On a GPU
#
# Without a CUDA device the next cells print one line, and the output that was recorded on another machine where there
# is one.
#
# **Predict.** The loop of section 4.5 again, with a loss from a million weights. How does memory grow over 30 rounds
# of `total = total + loss`, and of `total += loss.item()`?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("04_autograd")
def growing_total() -> None:
    """Memory that is allocated on the device after 1, 10, 20 and 30 rounds."""
    w = torch.ones(1_000_000, device="cuda", requires_grad=True)
    for name, number_of in (("total + loss", lambda loss: loss), ("loss.item()", lambda loss: loss.item())):
        before = torch.cuda.memory_allocated()
        total, seen = 0.0, []
        for step in range(1, 31):
            loss = w.exp().sum()
            total = total + number_of(loss)
            if step in (1, 10, 20, 30):
                seen.append(f"{(torch.cuda.memory_allocated() - before) / 2**20:.0f} MiB")
        print(f"{name:14}{', '.join(seen)}")
        del total, loss


growing_total()

# %% [markdown]
# Each round's graph keeps the result of exp, 4 bytes for each of a million weights. Nothing of it can be given back
# while `total` refers to it.

# %% [markdown]
# **Predict.** A stack of 20 layers runs on a batch, as usual and under `no_grad`. How far apart are the peaks of
# memory?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("04_autograd")
def peak_memory() -> None:
    """Peak memory of a forward pass beyond what the model and its input take."""
    layers = [layer for _ in range(20) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    model = nn.Sequential(*layers).cuda()
    x = torch.rand(4096, 1024, device="cuda")
    with torch.no_grad():
        model(x)  # the first call sets up libraries, which take memory of their own
    for name, recording in (("as usual", True), ("no_grad", False)):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        with torch.set_grad_enabled(recording):
            out = model(x)
        peak = torch.cuda.max_memory_allocated() - before
        print(f"{name:10}{peak / 2**20:.0f} MiB")
        del out


peak_memory()

# %% [markdown]
# Each result takes 16 MiB here. With a graph the results of all 20 ReLUs are kept, because their own slopes and the
# weight gradients of the layers after them need them. Without one only the newest two results live at a time.

# %% [markdown]
# **Predict.** `torch.ones(2, requires_grad=True).to("cuda")`: is it a leaf, and where does its gradient arrive?


# %% facts=["04-leaf-lost-by-conversion"] varies="a CUDA device changes what is shown"
@cuda_demo("04_autograd")
def moved_or_created() -> None:
    """A tensor that was moved to the device, and one that was created there."""
    w = torch.ones(2, requires_grad=True)
    moved = w.to("cuda")
    created = torch.ones(2, device="cuda", requires_grad=True)
    (moved * created).sum().backward()
    print("moved:  leaf", moved.is_leaf, "- gradient of the original:", w.grad)
    print("created: leaf", created.is_leaf, "- gradient:", created.grad)


moved_or_created()

# %% [markdown]
# The move is a recorded copy (section 4.2). The gradient travels back over it to the CPU, to the tensor that you no
# longer meant to use.

# %% [markdown]
# **Predict.** In a training step on a GPU, which of the lines takes longest to return: the forward pass, `backward`,
# `optimizer.step()`, or `loss.item()`?


# %% varies="a CUDA device changes what is shown"
@cuda_demo("04_autograd")
def where_python_waits() -> None:
    """Time until each line of a training step returns to Python, the median of 10 steps in milliseconds."""
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
# PyTorch's note "CUDA semantics", section "Asynchronous execution", says what to expect: the other lines only queue
# work for the device and return. `.item()` needs the number, so Python waits there until the work queued before it is
# done, backward included. Called in every step it lets the queue run empty; once every hundred steps is enough to
# print a loss.

# %% [markdown]
# ## Folklore, checked
#
# What people say about autograd, and what is so. Each row unfolds its proof: a few lines that run through only if the
# statement on the right holds.

# %%
folklore(
    "04_autograd",
    ids=[
        "04-variable-wrapper",
        "04-leaf-user-created-grad-fn",
        "04-graph-computes-forward",
        "04-backward-updates-parameters",
        "04-optimizer-uses-graph",
        "04-backward-only-for-scalars",
        "04-autograd-dtypes",
        "04-backward-only-once",
        "04-inplace-forbidden-if-requires-grad",
        "04-detach-replaces-data",
        "04-graph-view-in-tensorboard",
        "04-micrograd-recommendation",
        "04-dynamic-graph",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises if it does not.

# %%
prove("04-backward-only-once")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - the note "Autograd mechanics": how the graph is recorded, what is saved, in-place checks, and the modes `no_grad`
#   and `inference_mode` side by side;
# - `torch.Tensor.backward`, `torch.autograd.grad`, `torch.Tensor.retain_grad` and `torch.Tensor.is_leaf`: the four
#   pages behind sections 4.2 to 4.5;
# - `torch.autograd.graph`: nodes, hooks and `saved_tensors_hooks`, with which this chapter looked at what is kept;
# - the tutorial "Hooks for autograd saved tensors": the same, with uses;
# - `torch.func.jacrev` and `torch.func.vjp`: rows of a Jacobian all at once;
# - the page "Anomaly detection" of `torch.autograd`, and `torch.linalg.vector_norm`.
