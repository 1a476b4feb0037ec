# %% [markdown]
# # Custom Functions
#
# Autograd differentiates what it has recorded. This chapter is about what it can't record, and about gradients that you
# choose yourself. After this chapter you can
#
# - decide whether you need a `torch.autograd.Function` at all, or whether ordinary operations or an `nn.Module` do;
# - write `forward`, `setup_context` and `backward`: one gradient for each argument, None where there is none, the
#   incoming gradient left alone, tensors saved with `save_for_backward`;
# - let `gradcheck` and `gradgradcheck` judge a backward, and say what they don't see;
# - define a gradient by choice (straight-through, reversal) and say why gradcheck must fail then;
# - make torch functions accept your own classes, with and without subclassing Tensor;
# - declare foreign code as an operator that `torch.compile` takes as it is.
#
# **60 minutes to read, 135 minutes to practise, 20 points.** You need chapter 4, sections 4.1 to 4.4, 4.7 and 4.8: leaf
# tensors, nodes, `torch.autograd.grad`, how autograd notices an in-place change, and `create_graph`.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import gc
import inspect
import math
import weakref
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable

from torchkata.demos import error_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.call_log import call_log_explorer
from torchkata.pictures.saved_for_backward import saved_for_backward
from torchkata.pictures.step_surrogate import surrogate_explorer
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
# ## 5.1 Do you need one?
#
# **Predict.** `bump` is a new function, and PyTorch has no operation of that name. Who writes its derivative, and who
# the derivative of the derivative?


# %% facts=["05-not-needed-for-builtin-ops"]
def bump(x: Tensor) -> Tensor:
    return torch.exp(-x * x)


x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)

(first,) = torch.autograd.grad(bump(x).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
print("first: ", [round(number, 4) for number in first.tolist()])
print("second:", [round(number, 4) for number in second.tolist()])

# %% [markdown]
# Nobody: autograd does both. `bump` is made of operations whose backward PyTorch knows (`exp`, `mul`, `neg`), they are
# recorded one by one, and `create_graph=True` records the backward pass as well. A new loss or activation that can be
# written in this way needs no custom backward. It is just a function.
#
# To write a backward yourself you subclass `torch.autograd.Function`. Three reasons remain for that: code that autograd
# can't see, memory, and a gradient that is a decision rather than a derivative. The decision gets a section of its own,
# 5.7. Here are the other two.

# %% [markdown]
# **Predict.** NumPy computes `exp`, too. What happens when it gets a tensor that requires grad, and what becomes of the
# gradient when the tensor is detached first?

# %% facts=["05-use-for-numpy-code"]
x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)

error_of(lambda: torch.from_numpy(np.exp(x.numpy())))

y = torch.from_numpy(np.exp(x.detach().numpy()))
print("detached: the result requires grad:", y.requires_grad)

# %% [markdown]
# `numpy()` refuses, because NumPy would compute without autograd knowing. `detach()` silences the error and gives the
# gradient up: what NumPy returns is a constant. A Function is the way out. Its `forward` says how the result is
# computed, its `backward` how a gradient passes through it; `ctx` ("context") carries from the one to the other what
# backward will need.


# %% facts=["05-use-for-numpy-code", "05-function-static-and-apply"]
class NumpyExp(Function):
    """exp, computed by NumPy."""

    @staticmethod
    def forward(ctx, x):
        result = torch.from_numpy(np.exp(x.numpy()))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = NumpyExp.apply(3 * x)
print("the node on the result:", type(y.grad_fn).__name__)

y.sum().backward()
quotient = x.grad / (3 * torch.exp(3 * x))
print("x.grad divided by 3 * exp(3 * x):", [round(number, 4) for number in quotient.tolist()])

# %% [markdown]
# Inside `forward` the call `x.numpy()` is fine, since nothing is recorded there (section 5.2). The tie to the rest of
# the graph is `backward`: it gets the gradient of the output, multiplies by the derivative, which is the result itself,
# and returns the gradient of the input. The factor 3 comes from outside; autograd chains the Function like any other
# operation.
#
# Both methods are static, nobody makes an instance, and the Function is used through `apply`.

# %% [markdown]
# **Predict.** The second reason is memory. `a` takes 400 bytes. How many bytes does `a * torch.sigmoid(a)` keep until
# its backward pass? Count tensors that share a storage once.


# %% facts=["05-use-to-save-memory"]
class LeanSwish(Function):
    """a * sigmoid(a); keeps a alone and computes the sigmoid again in backward."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * torch.sigmoid(a)

    @staticmethod
    def backward(ctx, grad_output):
        (a,) = ctx.saved_tensors
        s = torch.sigmoid(a)
        return grad_output * s * (1 + a * (1 - s))


a = torch.linspace(-3, 3, 100, requires_grad=True)
saved_for_backward(
    {
        "a * torch.sigmoid(a)": lambda a: a * torch.sigmoid(a),
        "LeanSwish.apply(a)": LeanSwish.apply,
        "F.silu(a)": F.silu,
    },
    {"a": a},
)

# %% [markdown]
# 800 bytes. Three tensors are saved: the product needs both of its factors, and the sigmoid saves its own result to
# differentiate itself. But there are only two storages behind the three, `a` and the sigmoid; what counts is the
# storage.
#
# `LeanSwish` keeps the input alone and computes the sigmoid a second time in `backward`: less memory for more work.
# Look before you write such a thing: `F.silu` is the same function and keeps no more than that.

# %% [markdown]
# **Predict.** A Function has no place for weights: where do they live, if the operation is to be trained?


# %% facts=["05-state-belongs-in-a-module"]
class ScaledSwish(nn.Module):
    """Swish with a factor that is learned."""

    def __init__(self, factor: float = 2.0):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, a: Tensor) -> Tensor:
        return self.factor * LeanSwish.apply(a)

    def extra_repr(self) -> str:
        return f"factor={self.factor.item()}"


layer = ScaledSwish()
print(nn.Sequential(nn.Linear(4, 3), layer))
print("state_dict:", list(layer.state_dict()))

layer(torch.tensor([0.0, 1.0])).sum().backward()
print(f"gradient of the factor: {layer.factor.grad.item():.4f}")
print("a Function has parameters():", hasattr(LeanSwish, "parameters"))

# %% [markdown]
# In a module that calls `apply`. A Function knows how to compute and how to differentiate, and nothing else: no
# `parameters()` for the optimizer, no `state_dict()`, no `to(device)`. The module owns what is trained or saved. If you
# need no backward of your own, the module is all you write: ordinary operations in its `forward`. (`extra_repr` is what
# appears between the brackets when the model is printed.)

# %% [markdown]
# ## 5.2 What apply does
#
# **Predict.** The next Function multiplies by 10, and its backward says 7. That is wrong on purpose, so that we see who
# made a gradient. Inside `forward`, is grad mode on? Does `x` require grad? Does `x * 10`?


# %% facts=["05-forward-inputs-untracked", "05-setup-context-is-optional", "05-setup-context-only-fills-ctx"]
class Tenfold(Function):
    @staticmethod
    def forward(x):
        result = x * 10
        print("forward        grad mode:", torch.is_grad_enabled())
        print("               requires grad: x", x.requires_grad, "- result", result.requires_grad)
        return result

    @staticmethod
    def setup_context(ctx, inputs, output):
        print("setup_context  inputs:", [t.item() for t in inputs], "- output:", output.item())

    @staticmethod
    def backward(ctx, grad_output):
        print("backward       incoming gradient:", grad_output.item())
        return grad_output * 7


x = torch.tensor(1.0, requires_grad=True)
y = Tenfold.apply(x)
print("after apply    result requires grad:", y.requires_grad, "- node:", type(y.grad_fn).__name__)
y.backward()
print("x.grad:", x.grad.item())

# %% [markdown]
# `apply` switches recording off and calls `forward`. The argument is the original tensor and still says that it
# requires grad, but nothing computed from it is recorded. Then `setup_context` gets the tuple of all arguments and the
# result, and may put into `ctx` whatever backward will need. At last `apply` hangs a node on the result, named after
# the class. Only then does the result require grad.
#
# And `x.grad` is 7. Autograd doesn't check your formula; whatever `backward` returns *is* the gradient.

# %% [markdown]
# **Predict.** This is the second of two styles, the split one. In the joined one `forward(ctx, …)` computes and fills
# `ctx` itself, as `NumpyExp` did above. `torch.func` has transforms of whole functions: `grad(f)` is the function that
# computes the gradient of f, `vmap(f)` maps f over the rows of a batch. Only one of the styles works with them. Which?
# (The first use of `torch.func` loads PyTorch's compiler, which takes a few seconds.)


# %% facts=["05-setup-context-is-optional", "05-setup-context-for-transforms"]
class JoinedScale(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor, None


class SplitScale(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor, None


def split_sum(t: Tensor) -> Tensor:
    return SplitScale.apply(t, 5.0).sum()


def joined_sum(t: Tensor) -> Tensor:
    return JoinedScale.apply(t, 5.0).sum()


x = torch.tensor([1.0, 2.0], requires_grad=True)
for function in (JoinedScale, SplitScale):
    (grad,) = torch.autograd.grad(function.apply(x, 5.0).sum(), x)
    print(f"{function.__name__}, gradient: {grad.tolist()}")

x = x.detach()
print("torch.func.grad, split, gradient:", torch.func.grad(split_sum)(x).tolist())
print("torch.func.vmap, split, value:", torch.func.vmap(lambda t: SplitScale.apply(t, 5.0))(x).tolist())
error_of(lambda: torch.func.grad(joined_sum)(x))

# %% [markdown]
# The split one, and the message names what is missing. For plain `backward()` both styles are the same. `vmap` wants
# one thing more: a `vmap` method, or `generate_vmap_rule = True` when forward and backward consist of torch operations.
# Write new Functions in the split style: `forward` computes, `setup_context` only fills `ctx`. That is a convention;
# nothing enforces it. But don't mix the styles: next to a `setup_context`, `forward` gets no `ctx`.
#
# The explorer below runs a Function in this style with two results, `10 * k * x` and `100 * x`, and lists who calls
# whom, in order; at the right, what the engine sees. Set *call* to "forward": the node changes its name, and the calls
# of `setup_context` and `backward` disappear. Then go back to "apply" and switch "x requires grad" off: `setup_context`
# still runs, but no node is hung on the results. The switches that change what `backward` gets and returns belong to
# the next section.

# %% facts=["05-function-static-and-apply", "05-setup-context-only-fills-ctx"]
call_log_explorer()

# %% [markdown]
# **Predict.** Back to `Tenfold`, whose backward wrongly says 7. Which gradient does `x` get from `Tenfold.forward(x)`,
# called directly?

# %% facts=["05-do-not-call-forward"]
x = torch.tensor(1.0, requires_grad=True)
y = Tenfold.forward(x)
y.backward()
print("node:", type(y.grad_fn).__name__, "- x.grad:", x.grad.item())

# %% [markdown]
# It gets 10. A `forward` without `ctx` is a plain static method: called directly it runs as ordinary code with
# recording on, autograd differentiates the multiplication, and your `backward` is silently not used. If you wrote the
# Function to change a gradient, the change is gone, without an error. Always call `apply`.

# %% [markdown]
# **Predict.** Older notes say that `apply` takes positional arguments only. `factor` has a default below. Which of the
# three calls work, and what gradient do they give?


# %% facts=["05-wrapper-for-keyword-arguments", "05-forward-takes-any-arguments"]
class SinCos(Function):
    """Two results, factor * sin(x) and factor * cos(x)."""

    @staticmethod
    def forward(x, factor=1.0):
        return factor * x.sin(), factor * x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_sin, grad_cos):
        (x,) = ctx.saved_tensors
        return ctx.factor * (grad_sin * x.cos() - grad_cos * x.sin()), None


x = torch.tensor(0.0, requires_grad=True)
for results in (SinCos.apply(x), SinCos.apply(x, 2.0), SinCos.apply(x, factor=3.0)):
    (grad,) = torch.autograd.grad(results[0] + results[1], x)
    print([y.item() for y in results], "gradient:", grad.item())

# %% [markdown]
# All three. On torch 2.13 `apply` accepts keywords and fills in defaults; `inputs` in `setup_context` always holds all
# arguments, defaults included. A wrapper function around `apply` is no longer needed for that, and still nice for type
# hints and a docstring. The example also shows that `forward` may take anything and return several tensors: then
# `backward` gets one gradient for each result.

# %% [markdown]
# **Predict.** The tensors to add arrive in a list. Which gradient do they get?


# %% facts=["05-forward-does-not-look-into-containers"]
class SumOfList(Function):
    @staticmethod
    def forward(ctx, tensors):
        return torch.stack(tensors).sum(0)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class SumOfArguments(Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.count = len(tensors)
        return torch.stack(tensors).sum(0)

    @staticmethod
    def backward(ctx, grad_output):
        return (grad_output,) * ctx.count


a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
print("in a list, the result requires grad:   ", SumOfList.apply([a, b]).requires_grad)
print("as arguments, the result requires grad:", SumOfArguments.apply(a, b).requires_grad)

# %% [markdown]
# None: the result doesn't even require grad. `apply` looks at its direct arguments and doesn't search lists or dicts.
# Unpack the list, and take it up again with `*tensors`.

# %% [markdown]
# **Predict.** In old code you find a Function that is instantiated and called, `Threefold()(x)`. What does torch 2.13
# say?


# %% facts=["05-missing-staticmethod"] shows_warning="DeprecationWarning"
class Threefold(Function):
    def forward(self, x):
        return x * 3

    def backward(self, grad_output):
        return grad_output * 3


def call_an_instance() -> None:
    instance = Threefold()
    error_of(lambda: instance(torch.ones(2, requires_grad=True)))


warning_of(call_an_instance)

# %% [markdown]
# A warning when the instance is made, an error when it is called. (The error is printed first, since the cell collects
# warnings to the end.) Such code often comes from a page where the lines with `@staticmethod` got lost. A page that
# sends you to "engine.py" to understand autograd is out of date as well: the engine is written in C++.

# %% [markdown]
# ## 5.3 The contract of backward
#
# **Predict.** `backward` of the next Function negates its incoming gradient in place, to save memory, and returns it.
# The gradient of `a` comes out right. What about the gradient of `b`, which has nothing to do with the Function? It
# should be exp(0) = 1.


# %% facts=["05-never-modify-grad-output"]
class NegateInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg_()


a = torch.tensor(0.0, requires_grad=True)
b = torch.tensor(0.0, requires_grad=True)
(b.exp() + NegateInPlace.apply(a)).backward()
print("a.grad:", a.grad.item(), " b.grad:", b.grad.item())

# %% [markdown]
# -1: wrong, and nothing was raised. The gradient of a sum is the same for both of its terms, so the engine hands the
# same tensor to both. Write into yours, and you write into the neighbour's. In a test with a single branch all looks
# well. What comes in belongs to others; return `-grad_output`.

# %% [markdown]
# **Predict.** `forward` takes a tensor and a number. Three versions of `backward` follow. Which of them are refused?


# %% facts=["05-backward-one-gradient-per-input"]
def times_with(backward_function) -> type[Function]:
    """A Function x * number with this backward."""

    class Times(Function):
        @staticmethod
        def forward(ctx, x, number):
            ctx.number = number
            return x * number

        backward = staticmethod(backward_function)

    return Times


def try_backward(backward_function) -> Tensor:
    x = torch.ones(2, requires_grad=True)
    times_with(backward_function).apply(x, 5.0).sum().backward()
    return x.grad


error_of(lambda: try_backward(lambda ctx, g: g * ctx.number))
error_of(lambda: try_backward(lambda ctx, g: (g * ctx.number, g.sum())))
print(try_backward(lambda ctx, g: (g * ctx.number, None)).tolist())

# %% [markdown]
# The first two. `backward` returns one value for each argument of `forward`, in the same order, and None for what is
# not a tensor (the message says "Variable", an old name for it). The error comes when backward runs, not when the class
# is written. (In the explorer of section 5.2: set *backward returns* to "too few".)

# %% [markdown]
# **Predict.** `bias` below is optional, and `backward` always returns three values. Is that refused when `apply` got
# only two arguments?


# %% facts=["05-backward-extra-trailing-nones"]
class MulAdd(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return x * weight if bias is None else x * weight + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g * weight, g * x, g if ctx.has_bias else None


x = torch.tensor(2.0, requires_grad=True)
weight = torch.tensor(3.0, requires_grad=True)
bias = torch.tensor(1.0, requires_grad=True)

print([g.item() for g in torch.autograd.grad(MulAdd.apply(x, weight), (x, weight))])
print([g.item() for g in torch.autograd.grad(MulAdd.apply(x, weight, bias), (x, weight, bias))])

# %% [markdown]
# No: extra values at the end are ignored as long as they are None. That is meant for optional arguments. An extra value
# that is not None raises.

# %% [markdown]
# **Predict.** `Powers` returns x² and x³, and only x² is used. What does `backward` get for x³?


# %% facts=["05-materialize-grads"]
def powers_with(materialize: bool) -> type[Function]:
    class Powers(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(materialize)
            return x**2, x**3

        @staticmethod
        def backward(ctx, grad_square, grad_cube):
            (x,) = ctx.saved_tensors
            print(f"set_materialize_grads({materialize}):", grad_square, grad_cube)
            grad = grad_square * 2 * x
            return grad if grad_cube is None else grad + grad_cube * 3 * x**2

    return Powers


for materialize in (True, False):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    square, _ = powers_with(materialize).apply(x)
    square.sum().backward()

# %% [markdown]
# Zeros, made for the purpose ("materialized"). After `ctx.set_materialize_grads(False)` it gets None and has to check
# for it, and the zeros and the products with them are spared. It is about *outputs* that nobody used. It says nothing
# about the inputs, although you may read that. The explorer has this switch, too: watch `g_second`.

# %% [markdown]
# **Predict.** `b` doesn't require grad, and `backward` returns a gradient for it all the same. Is that an error? And is
# `backward` called when no argument requires grad?


# %% facts=["05-needs-input-grad", "05-input-without-tensor"]
class Multiply(Function):
    @staticmethod
    def forward(ctx, a, b, note):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad_output):
        print("backward runs; needs_input_grad:", ctx.needs_input_grad)
        a, b = ctx.saved_tensors
        return grad_output * b, grad_output * a, None


a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)
Multiply.apply(a, b, "a note").backward()
print("a.grad:", a.grad, "- b.grad:", b.grad)

y = Multiply.apply(a.detach(), b, "a note")
print("nothing tracked:", y.requires_grad, y.grad_fn)

# %% [markdown]
# No error: a gradient that nobody asked for is dropped. `ctx.needs_input_grad` has one True or False for each argument,
# and asking it only saves work, which for a frozen weight may be a large matrix product. Without a tracked tensor among
# the direct arguments there is no node and nothing that could be called.

# %% [markdown]
# **Predict.** `backward` returns float64 for a float32 input. What is the dtype of `x.grad`? (And the method is called
# `vjp` here. Does that matter?)


# %% facts=["05-backward-must-return-double", "05-vjp-is-backward"]
class DoubleWithVjp(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, grad_output):
        print("incoming:", grad_output.dtype)
        return grad_output.double() * 2


x = torch.ones(2, requires_grad=True)
DoubleWithVjp.apply(x).sum().backward()
print("x.grad:  ", x.grad.dtype, x.grad.tolist())

# %% [markdown]
# float32: the engine casts to the dtype of the input, so there is no need to cast by hand. `vjp` ("vector-Jacobian
# product", section 4.4) is another name for `backward`. Write one or the other; both in one class, or neither, is an
# error.

# %% [markdown]
# **Predict.** The engine compares shapes, too. Here are two mistakes in the gradients of a layer `x @ weight.t() +
# bias`, for five rows. The gradient of the weight is transposed, and the one of the bias is `g`, of shape (5, 3), where
# `g.sum(0)` of shape (3,) is due. Which of the two are reported, for a weight of shape (3, 4)? And for a square one?


# %% facts=["05-linear-function-sample", "05-backward-one-gradient-per-input"]
class CarelessLinear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, x.t() @ g, g


def gradients(outputs: int) -> tuple[Tensor, ...]:
    """Gradients of weight and bias, for five rows of four numbers."""
    x = torch.arange(20.0).reshape(5, 4)
    weight = torch.ones(outputs, 4, requires_grad=True)
    bias = torch.zeros(outputs, requires_grad=True)
    out = CarelessLinear.apply(x, weight, bias)
    return torch.autograd.grad((out * torch.arange(outputs)).sum(), (weight, bias))


error_of(lambda: gradients(outputs=3))

weight_grad, bias_grad = gradients(outputs=4)
print("weight, first row:", weight_grad[0].tolist(), "- right is [0.0, 0.0, 0.0, 0.0]")
print("bias:", bias_grad.tolist(), "- right is [0.0, 5.0, 10.0, 15.0]")

# %% [markdown]
# The transposed gradient is refused for (3, 4) and goes unnoticed for a square weight; there the numbers are wrong. The
# gradient of the bias is right! The engine sums a gradient that is too large over the dimensions in which its tensor
# would have been broadcast. That is a courtesy; write `g.sum(0)` and say what you mean. The lesson is the square
# weight: test with sizes that are all different.

# %% [markdown]
# ### Exercise 5.1 · What does apply do with it?
#
# predict · warm-up · 10 min · 2 points
#
# Ten questions about this class. Its backward is wrong on purpose, 5 in place of 2, so that you can tell whose gradient
# you are looking at.
#
#     seen = {}
#
#     class Twice(torch.autograd.Function):
#         @staticmethod
#         def forward(x, k=1.0):
#             seen["grad mode"], seen["requires_grad"] = torch.is_grad_enabled(), x.requires_grad
#             return x * 2 * k
#
#         @staticmethod
#         def setup_context(ctx, inputs, output):
#             pass
#
#         @staticmethod
#         def backward(ctx, g):
#             return g.double() * 5, None
#
#     x = torch.tensor(1.0, requires_grad=True)
#
# **Contract**
#
# - Replace each `...`: True or False for questions, a number, a dtype, or a name as a string.
# - The check runs the snippets and compares each item with what they give; every right item earns a tenth of the
#   points.
#
# <details><summary>Hint 1</summary>
#
# Who calls backward, and what does autograd know about how forward computed its result?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# forward runs with recording off but sees the original tensor. Autograd trusts whatever backward returns, casts it to
# the dtype of the input, and looks only at tensors that are direct arguments.
#
# </details>

# %% answer="predict-function-calls"
### BEGIN SOLUTION
answers = {
    "grad_mode": False,  # torch.is_grad_enabled() inside forward, called through apply
    "req": True,  # x.requires_grad inside forward, called through apply
    "apply": 5.0,  # x.grad after Twice.apply(x).backward()
    "forward": 2.0,  # x.grad after Twice.forward(x).backward(); x.grad was None before
    "dtype": torch.float32,  # x.grad.dtype after Twice.apply(x).backward(), although backward returns float64
    "node": "TwiceBackward",  # type(Twice.apply(x).grad_fn).__name__
    "keyword": False,  # does Twice.apply(x, k=3.0) raise?
    "plain": False,  # Twice.apply(torch.tensor(1.0)).requires_grad
    "list": False,  # ListSum.apply([x]).requires_grad, where forward(xs) of ListSum returns sum(xs)
    "too_few": True,  # a backward returns one value, forward(x, k) got two arguments: does the backward pass raise?
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "grad_mode": ...,  # torch.is_grad_enabled() inside forward, called through apply
#     "req": ...,  # x.requires_grad inside forward, called through apply
#     "apply": ...,  # x.grad after Twice.apply(x).backward()
#     "forward": ...,  # x.grad after Twice.forward(x).backward(); x.grad was None before
#     "dtype": ...,  # x.grad.dtype after Twice.apply(x).backward(), although backward returns float64
#     "node": ...,  # type(Twice.apply(x).grad_fn).__name__
#     "keyword": ...,  # does Twice.apply(x, k=3.0) raise?
#     "plain": ...,  # Twice.apply(torch.tensor(1.0)).requires_grad
#     "list": ...,  # ListSum.apply([x]).requires_grad, where forward(xs) of ListSum returns sum(xs)
#     "too_few": ...,  # a backward returns one value, forward(x, k) got two arguments: does the backward pass raise?
# }
### END GIVEN

# %% check="predict-function-calls" points=2
"""Each item against what its snippet really gives; every right item earns its share."""
with check("predict-function-calls") as test:
    inside = {}

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(x, k=1.0):
            inside["grad mode"], inside["requires_grad"] = torch.is_grad_enabled(), x.requires_grad
            return x * 2 * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g.double() * 5, None

    class ListSum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, xs):
            return sum(xs)

        @staticmethod
        def backward(ctx, g):
            return g

    class TooFew(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g

    def gradient_after(function):
        """The gradient of a fresh x after function(x).backward()."""
        fresh = torch.tensor(1.0, requires_grad=True)
        function(fresh).backward()
        return fresh.grad

    def does_raise(function):
        """Whether function() raises."""
        try:
            function()
        except (RuntimeError, TypeError):
            return True
        return False

    test("every item is compared with what its snippet gives")
    one = torch.tensor(1.0, requires_grad=True)
    name_of_node = type(Twice.apply(one).grad_fn).__name__
    grad_mode, req = inside["grad mode"], inside["requires_grad"]
    test.points = observe_value(answers).predicts(
        {
            "grad_mode": prediction(
                grad_mode,
                because="forward runs with grad mode off: nothing computed in it is recorded, that is backward's job.",
            ),
            "req": prediction(
                req,
                because="The argument itself is the original tensor, flag and all; what is off is the recording. "
                "(To ask whether a gradient is needed use ctx.needs_input_grad.)",
            ),
            "apply": prediction(
                gradient_after(Twice.apply).item(),
                (2.0, "autograd does not check your formula: what backward returns is the gradient, 5 here."),
                (10.0, "backward replaces the derivative of forward, it is not multiplied by it."),
                because="What backward returns is the gradient, whatever forward computes.",
            ),
            "forward": prediction(
                gradient_after(Twice.forward).item(),
                (
                    5.0,
                    "Calling forward directly bypasses the Function: the multiplication is recorded as ordinary "
                    "operations, gradient 2, and backward is silently unused.",
                ),
                because="forward is an ordinary function here: what it does is recorded, backward is silently unused.",
            ),
            "dtype": prediction(
                gradient_after(Twice.apply).dtype,
                ("float64", "The engine casts a returned gradient to the dtype of the input: float32."),
                because="The engine casts a returned gradient to the dtype of the input.",
            ),
            "node": prediction(
                name_of_node,
                ("Twice", "The node is called after the class with Backward appended."),
                (
                    "TwiceBackward0",
                    "A number at the end is what nodes of built-in operations have, such as MulBackward0; "
                    "the node of a custom Function has none.",
                ),
                because="The node is called after the class, with one word appended.",
            ),
            "keyword": prediction(
                does_raise(lambda: Twice.apply(torch.tensor(1.0, requires_grad=True), k=3.0)),
                because="Older notes say apply takes no keyword arguments; in 2.13 it does, defaults included.",
            ),
            "plain": prediction(
                Twice.apply(torch.tensor(1.0)).requires_grad,
                because="Without a tensor input that requires grad the output does not require grad, "
                "and backward is never called.",
            ),
            "list": prediction(
                ListSum.apply([one]).requires_grad,
                because="Only tensors that are direct arguments are seen: a list hides them, "
                "the output is not tracked.",
            ),
            "too_few": prediction(
                does_raise(lambda: gradient_after(lambda x: TooFew.apply(x, 2.0))),
                because="backward must return one value per argument of forward (None for k): "
                "returning fewer raises when backward runs.",
            ),
        },
        points=2,
    )
test.points

# %% [markdown]
# ## 5.4 ctx: save tensors properly
#
# **Predict.** `h` is 3 times a leaf of value 1, and the Function squares it. Between forward and backward `h` is
# multiplied by 10 in place. The gradient of the leaf should be 2 · 3 · 3 = 18. What happens if the Function kept its
# input as `ctx.x`, and what with `ctx.save_for_backward(x)`?


# %% facts=["05-save-for-backward-must"]
class SquareAttribute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * ctx.x * grad_output


class SquareSaved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


def gradient_after_a_change(function: type[Function]) -> float:
    leaf = torch.tensor(1.0, requires_grad=True)
    h = leaf * 3
    y = function.apply(h)
    h.mul_(10)
    y.backward()
    return leaf.grad.item()


print("as an attribute:", gradient_after_a_change(SquareAttribute))
error_of(lambda: gradient_after_a_change(SquareSaved), lines=1)

# %% [markdown]
# 180, silently; and an error. `save_for_backward` notes the version of the tensor (section 4.7), and
# `ctx.saved_tensors` compares. An attribute is just a reference to a tensor that has changed since. Attributes also
# escape the saved-tensor hooks, with which tools count what is kept or move it elsewhere (the picture in section 5.1
# would not have shown it).

# %% [markdown]
# **Predict.** There is one more difference, for a Function that keeps its *output*. The result is thrown away at once.
# Does its memory come free?


# %% facts=["05-save-for-backward-must"]
def exp_that_keeps_its_result(as_attribute: bool) -> type[Function]:
    class KeepsResult(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            if as_attribute:
                ctx.result = result
            else:
                ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * (ctx.result if as_attribute else ctx.saved_tensors[0])

    return KeepsResult


x = torch.ones(3, requires_grad=True)
gc.disable()
for as_attribute in (True, False):
    result = exp_that_keeps_its_result(as_attribute).apply(x)
    alive = weakref.ref(result)
    del result
    way = "attribute" if as_attribute else "save_for_backward"
    print(f"{way:18} still there:", alive() is not None)
gc.enable()

# %% [markdown]
# Not with the attribute. The result holds its node, the node is `ctx`, and `ctx` holds the result: a cycle, which stays
# until Python's garbage collector happens to run (switched off in the cell, so that it can't interfere).
# `save_for_backward` knows how to keep an output without a cycle. Its page in the documentation,
# `torch.autograd.function.FunctionCtx.save_for_backward`, names both reasons: wrong gradients and memory leaks.

# %% [markdown]
# **Predict.** Does `save_for_backward` keep the exponent 3 as well?


# %% facts=["05-non-tensors-on-ctx"]
class Power(Function):
    @staticmethod
    def forward(x, exponent, save_all):
        return x**exponent

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, exponent, save_all = inputs
        if save_all:
            ctx.save_for_backward(x, exponent)
        else:
            ctx.save_for_backward(x)
            ctx.exponent = exponent

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * ctx.exponent * x ** (ctx.exponent - 1), None, None


x = torch.tensor(2.0, requires_grad=True)
error_of(lambda: Power.apply(x, 3, True))
Power.apply(x, 3, False).backward()
print("x.grad:", x.grad.item())

# %% [markdown]
# No: it takes tensors, and None for those that are missing. Numbers, shapes and flags are attributes of `ctx`. They
# can't be changed in place behind your back. Call `save_for_backward` once, with everything.
#
# Two warm-ups follow. In both, what `backward` returns is not the derivative of what `forward` computes, but a
# decision. Why one would want that is the subject of section 5.7; here it is the rules of the last two sections that
# count.

# %% [markdown]
# ### Exercise 5.2 · A gradient for a step function
#
# implement · warm-up · 12 min · 2 points
#
# Networks with binary weights or activations send everything through a step. Its derivative is 0 wherever it exists, so
# nothing would be learned. The usual way out is the *straight-through estimator*: the forward is the step, the backward
# is that of a smoother function, the *surrogate*, here `clamp(x, -1, 1)`.
#
# **Contract**
#
# - Forward: exactly +1 where x >= 0 (0 and -0 included), exactly -1 where x < 0, nan stays nan. Same shape, dtype and
#   device as x, new memory.
# - Backward: the incoming gradient where |x| <= 1, zero elsewhere. (What it is where x is nan is left open.) A second
#   differentiation works: the result of backward depends on the incoming gradient only, so its derivative with respect
#   to x is zero, not an error.
# - x and the incoming gradient are never changed. x may be of any shape and need not require grad. Other uses of x keep
#   their ordinary gradient.
# - If x is changed in place between forward and backward, backward raises, or the gradient is right all the same.
#
# gradcheck compares with the true derivative of the step, so it fails here by design. The tests compare with the
# gradient of the surrogate.
#
# <details><summary>Hint 1</summary>
#
# The derivative of the step is 0 almost everywhere. Whose derivative do you want instead, and where does that one look
# at x?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Either a Function whose backward multiplies by the indicator of |x| <= 1 (save x), or arithmetic: the surrogate plus a
# correction that is invisible to autograd.
#
# </details>


# %% answer="straight-through-sign"
### BEGIN SOLUTION
class StraightThroughSign(torch.autograd.Function):
    """The sign with 0 counted as positive; its gradient is that of clamp(x, -1, 1)."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.where(x >= 0, 1, -1).to(x.dtype).masked_fill(x.isnan(), torch.nan)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)


def ste_sign(x: Tensor) -> Tensor:
    """+1 where x >= 0, -1 where x < 0, the gradient of clamp(x, -1, 1). x: (...) float; gives the like of x."""
    return StraightThroughSign.apply(x)


### END SOLUTION
### BEGIN GIVEN
# def ste_sign(x: Tensor) -> Tensor:
#     """+1 where x >= 0, -1 where x < 0, the gradient of clamp(x, -1, 1). x: (...) float; gives the like of x."""
#     raise NotImplementedError  # your code here
### END GIVEN

# %% check="straight-through-sign" points=2
"""The forward is the step, the gradient that of clamp; nobody else's gradient is changed."""
with check("straight-through-sign") as test:
    keep_dtype = mistake("The dtype must be kept: {detail}", stage="dtype")
    x_changed = "x was changed in place."

    test("the step at -2, -0.5, 0, 0.5, 2")
    five = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
    seen = observe(ste_sign, five)
    seen.returns(
        torch.tensor([-1.0, -1, 1, 1, 1]),
        keep_dtype,
        mistake("torch.sign(0) is 0; here 0 counts as positive.", gives=torch.tensor([-1.0, -1, 0, 1, 1])),
        mistake("0 counts as positive: the comparison must be >=.", gives=torch.tensor([-1.0, -1, -1, 1, 1])),
        mistake("These are 0 and 1; asked for are -1 and +1.", gives=torch.tensor([0.0, 0, 1, 1, 1])),
    )
    seen.leaves_arguments_alone(because=x_changed)
    seen.owns_its_memory(because="The result must have memory of its own: {detail}")

    def incoming(seen):
        """The gradient that the observed backward pass started from."""
        return incoming_gradient(seen.args[0])

    passes_everywhere = mistake(
        "The gradient passes for |x| > 1 too: the surrogate is flat there.",
        when=lambda seen: torch.equal(seen.gradient(0), incoming(seen)),
    )
    not_connected = mistake(
        "The output is not connected to x: no gradient arrives.",
        stage="gradient",
        when=lambda seen: seen.gradient(0) is None,
    )
    edge = mistake(
        "|x| = 1 still passes the gradient (<=).",
        when=lambda seen: torch.allclose(seen.gradient(0), incoming(seen) * (seen.args[0].abs() < 1)),
    )
    gradient_is_off = "Inside [-1, 1] the incoming gradient passes unchanged, outside nothing does: {detail}"

    test("the gradient passes at -0.5, 0 and 0.5, not at -2 and 2")
    seen = observe(ste_sign, five.clone().requires_grad_())
    seen.gives_gradients(
        {0: incoming(seen) * torch.tensor([0.0, 1, 1, 1, 0])},
        not_connected,
        mistake(
            "The gradient is zero everywhere: that is the true derivative of a step, nothing would be learned. "
            "Replace it in backward.",
            when=lambda seen: not seen.gradient(0).any(),
        ),
        passes_everywhere,
        mistake(
            "The mask was used as the gradient: multiply the incoming gradient by it.",
            when=lambda seen: torch.equal(seen.gradient(0), (seen.args[0].abs() <= 1).float()),
        ),
        because=gradient_is_off,
    )
    seen.returns(torch.tensor([-1.0, -1, 1, 1, 1]))

    test("x = -1 and 1 pass the gradient, 1.001 and -1.001 do not")
    seen = observe(ste_sign, torch.tensor([-1.001, -1, 1, 1.001, -3], requires_grad=True))
    seen.gives_gradients(
        {0: incoming(seen) * torch.tensor([0.0, 1, 1, 0, 0])}, passes_everywhere, edge, because=gradient_is_off
    )

    ### BEGIN HIDDEN TESTS
    def shared(ste_sign, a, b):
        """A sum: both branches of the graph get the same incoming gradient."""
        return b.exp() + ste_sign(a)

    def started_from(ste_sign, a, g):
        """The incoming gradient, after the backward pass that started from it."""
        torch.autograd.grad(ste_sign(a), a, g)
        return g

    in_place = (
        "`backward` changed its incoming gradient in place: another branch of the graph received the same tensor "
        "and got a wrong gradient, silently."
    )
    test.hidden("two branches of a sum get the same incoming gradient")
    a, b = (
        torch.tensor([-3.0, 0.2, 1.7, -0.4], requires_grad=True),
        torch.tensor([0.5, -1, 0.3, 0.1], requires_grad=True),
    )
    seen = observe_scenario(shared, ste_sign, a, b)
    grads = {0: incoming_gradient(a) * torch.tensor([0.0, 1, 0, 1]), 1: (incoming_gradient(a) * b.exp()).detach()}
    seen.gives_gradients(
        grads,
        mistake(in_place, when=lambda seen: not torch.allclose(seen.gradient(1), grads[1])),
        because=gradient_is_off,
    )
    for dtype in (torch.float32, torch.bfloat16):
        some_x = torch.tensor([-3.0, 0.2, 1.7, -0.4], dtype=dtype, requires_grad=True)
        given = torch.tensor([3.0, -2, 5, 0.5], dtype=dtype)
        observe_scenario(started_from, ste_sign, some_x, given).returns(given, because=in_place)

    def reference(x):
        step = torch.ones_like(x, requires_grad=False)
        step[x < 0] = -1
        step[x.isnan()] = torch.nan
        return step.detach()

    rounds = mistake(
        "The values must be exactly +1 and -1, and some of these are only close to it.",
        when=lambda seen: (seen.value - reference(seen.args[0])).abs().max() < 0.1,
    )
    zero = mistake(
        "Where x is 0 or -0 the result must be +1.", when=lambda seen: (seen.value[seen.args[0] == 0] != 1).any()
    )
    infinite = mistake(
        "Where x is infinite the result is nan: inf - inf is nan, and so is 0 * inf.",
        when=lambda seen: seen.value[seen.args[0].isinf()].isnan().any(),
    )
    nan_stays = mistake(
        "`nan` must stay nan (a comparison with nan is False).",
        when=lambda seen: seen.args[0].isnan().any() and not seen.value[seen.args[0].isnan()].isnan().all(),
    )
    g = torch.Generator().manual_seed(1)
    many = torch.randn(10_000, generator=g, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        test.hidden(f"exactly +1 and -1 for 10,000 random numbers, {dtype}")
        seen = observe(ste_sign, many.to(dtype))
        seen.returns(reference, keep_dtype, rounds, rtol=0, atol=0)
        test.hidden(f"zeros, nan, infinities and the smallest numbers, {dtype}")
        tiny, inf = torch.finfo(dtype).smallest_normal, torch.inf
        seen = observe(ste_sign, torch.tensor([-0.0, 0.0, tiny, -tiny, inf, -inf, torch.nan, 1, -1], dtype=dtype))
        seen.returns(reference, keep_dtype, zero, infinite, nan_stays, rtol=0, atol=0)
        seen.leaves_arguments_alone(because=x_changed)
    for idea, some_x in [
        ("an empty x", torch.empty(0, 3)),
        ("a 0-d x", torch.tensor(-0.3)),
        ("a row that is expanded", torch.tensor([[-0.5, 0.0, 3.0]]).expand(2, 3)),
        ("a transposed x", many[:12].reshape(3, 4).t()),
    ]:
        test.hidden(idea)
        seen = observe(ste_sign, some_x)
        seen.returns(reference, keep_dtype)
        seen.leaves_arguments_alone(because=x_changed)
        seen.owns_its_memory(because="The result must have memory of its own: {detail}")

    test.hidden("x on another device: the result is there too")
    seen = observe(ste_sign, torch.empty(2, 3, device="meta"))
    if not seen.error_text or "expected device" in seen.error_text or "same device" in seen.error_text:
        seen.returns(
            torch.empty(2, 3, device="meta"),
            mistake("The result must be on the device of x: {detail}", stage=("raised", "device")),
        )

    test.hidden("the gradient of clamp at many points")
    for some_x in (
        many[:1000] * 1.5,
        (many[1000:2000] * 1.5).reshape(20, 50).t(),
        torch.tensor(0.4),
        torch.empty(0, 2),
    ):
        seen = observe(ste_sign, some_x.clone().requires_grad_())
        seen.gives_gradients(lambda x: x.clamp(-1, 1), not_connected, passes_everywhere, edge, because=gradient_is_off)
        seen.leaves_arguments_alone(because=x_changed)
    for dtype in (torch.float16, torch.bfloat16):
        seen = observe(ste_sign, (many[:100] * 1.5).to(dtype).requires_grad_())
        seen.gives_gradients(lambda x: x.clamp(-1, 1), not_connected, passes_everywhere, edge, because=gradient_is_off)

    def used_twice(ste_sign, x):
        """The step of x, and beside it x itself; once for a leaf, once for a tensor in the graph."""
        h = x * 2
        return torch.stack([ste_sign(x) + x, ste_sign(h) + h])

    test.hidden("x is used a second time, directly: that gradient is not masked")
    some_x = torch.tensor([-3.0, 0.2, 1.7, -0.6], requires_grad=True)
    seen = observe_scenario(used_twice, ste_sign, some_x)
    of_x, of_h = incoming_gradient(torch.empty(2, 4))
    seen.gives_gradients(
        {0: of_x * torch.tensor([1.0, 2, 1, 2]) + 2 * of_h * torch.tensor([1.0, 2, 1, 1])},
        because="x is used directly, too, and that gradient was changed: a hook (or the change) sits on x itself.",
    )

    def changed_between(ste_sign, x, g):
        """The gradient, or the error, where x is changed between forward and backward."""
        h = x * 1
        out = ste_sign(h)
        h.add_(7)
        try:
            return torch.autograd.grad(out, x, g)[0]
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            return g * (x.detach().abs() <= 1)

    test.hidden("x is changed in place between forward and backward")
    given = torch.tensor([3.0, -2.0, 5.0, 0.5])
    observe_scenario(changed_between, ste_sign, some_x, given).returns(
        given * torch.tensor([0.0, 1, 0, 1]),
        mistake(
            "x was changed in place between forward and backward, and the gradient is silently that of the new x: "
            "store x with ctx.save_for_backward, not as an attribute of ctx.",
            gives=torch.zeros(4),
        ),
    )

    def twice(ste_sign, x, g):
        """Differentiate gradient * x once more, with respect to x and to the incoming gradient."""
        (first,) = torch.autograd.grad(ste_sign(x), x, g, create_graph=True)
        by_x, by_g = torch.autograd.grad((first * x).sum(), (x, g), materialize_grads=True)
        return {"first": first.detach(), "by x": by_x, "by g": by_g}

    test.hidden("differentiate twice: the gradient times x has the mask as its derivative")
    some_x = torch.tensor([-1.5, -0.7, 0.3, 1.0, 2.5], dtype=torch.float64, requires_grad=True)
    given = torch.tensor([2.0, -3, 5, 0.5, 7], dtype=torch.float64, requires_grad=True)
    passing = torch.tensor([0.0, 1, 1, 1, 0], dtype=torch.float64)
    observe_scenario(twice, ste_sign, some_x, given).returns(
        {
            "first": (given * passing).detach(),
            "by x": (given * passing).detach(),
            "by g": (some_x * passing).detach(),
        },
        mistake("Differentiating twice must work: {detail}", stage=("raised", "value")),
        rtol=1e-9,
        atol=1e-12,
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 5.3 · Three bugs in a gradient reversal layer
#
# fix · warm-up · 10 min · 2 points
#
# A gradient reversal layer passes its input on unchanged and turns the gradient round: what lies behind it learns to do
# well, what lies before it learns to make that hard. This one has three bugs. Repair it.
#
# **Contract**
#
# - Forward: bit for bit the values of x, in the same dtype and shape; whether as a view or as a copy is up to you.
# - Backward: `-lam` times the incoming gradient, for any number `lam >= 0` (0.3, 0, 1, …); for `lam = 0` these are
#   zeros, not None. A negative `lam` raises ValueError. The default is 1.
# - Only uses of the *result* are reversed: x used elsewhere keeps its ordinary gradient.
# - The incoming gradient and x are never changed. x need not require grad. A second differentiation works.
#
# <details><summary>Hint 1</summary>
#
# One bug raises for lam = 0.5, one raises in backward, one raises nothing and spoils the gradient of a neighbour. Which
# is which?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# backward owes one value per argument of forward, and may not write into its own argument. The contract asks for one
# more thing that the code does not do at all.
#
# </details>


# %% answer="fix-gradient-reversal"
### BEGIN SOLUTION
class GradReverse(torch.autograd.Function):
    """The identity; backward multiplies the incoming gradient by -lam."""

    @staticmethod
    def forward(ctx, x: Tensor, lam: float) -> Tensor:
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * -ctx.lam, None


def grad_reverse(x: Tensor, lam: float = 1.0) -> Tensor:
    """x unchanged, with -lam times the incoming gradient as its gradient. x: (...) float; lam >= 0."""
    if lam < 0:
        raise ValueError(f"lam must not be negative, it is {lam}")
    return GradReverse.apply(x, lam)


### END SOLUTION
### BEGIN GIVEN
# class GradReverse(torch.autograd.Function):
#     """The identity; backward multiplies the incoming gradient by -lam."""
#
#     @staticmethod
#     def forward(ctx, x, lam):
#         assert isinstance(lam, int)
#         ctx.lam = lam
#         return x.view_as(x)
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         return grad_output.neg_().mul_(ctx.lam)
#
#
# def grad_reverse(x: Tensor, lam: float = 1) -> Tensor:
#     """x unchanged, with -lam times the incoming gradient as its gradient. x: (...) float; lam >= 0."""
#     raise NotImplementedError  # repair the code above and below, then delete this line
#     return GradReverse.apply(x, lam)
### END GIVEN

# %% check="fix-gradient-reversal" points=2
"""The identity on the way forward, -lam times the gradient on the way back, and only there."""
with check("fix-gradient-reversal") as test:
    known = [
        mistake("`lam` may be any number >= 0; nothing in the maths needs an integer.", raises="^AssertionError"),
        mistake(
            "`backward` must return two values, one per argument of forward: None for lam.",
            raises="incorrect number of gradients",
        ),
        mistake("`x` need not require grad: {detail}", raises="hook on a tensor that doesn't require grad"),
        mistake(
            "The gradient of lam = 0 is a tensor of zeros (not None, not an error).",
            stage="gradient",
            when=lambda seen: seen.gradient(0) is None and seen.args[1] == 0,
        ),
        mistake("No gradient reaches x: the result is not connected to it.", raises="element 0 of tensors does not"),
        mistake(
            "No gradient reaches x: the result is not connected to it.",
            stage="gradient",
            when=lambda seen: seen.gradient(0) is None,
        ),
    ]
    identity = [
        mistake(
            "The forward must be the identity; only the gradient is scaled.",
            when=lambda seen: not torch.allclose(seen.value, seen.args[0], rtol=1e-2, atol=1e-2, equal_nan=True),
        ),
        mistake(
            "The forward is not bit for bit x: arithmetic like x * (-lam) + (1 + lam) * x.detach() rounds. ({detail})",
            stage="value",
        ),
    ]
    scale = "The sign or the factor is wrong, the gradient is -lam times the incoming one: {detail}"

    test("lam = 0.5: the result is x, its gradient -0.5 times the incoming one")
    x = torch.tensor([[0.1, -0.7, 1.3], [2.9, -3.1, 0.3]], requires_grad=True)
    seen = observe(grad_reverse, x, 0.5).expecting(*known)
    seen.returns(x.detach(), *identity, rtol=0, atol=0)
    seen.gives_gradients({0: -0.5 * incoming_gradient(x)}, because=scale)
    seen.leaves_arguments_alone()

    test("the default is lam = 1")
    seen = observe(grad_reverse, x).expecting(*known)
    seen.returns(x.detach(), *identity, rtol=0, atol=0)
    seen.gives_gradients({0: -incoming_gradient(x)}, because=scale)

    test("lam = 2, an int, by name")
    seen = observe(grad_reverse, x, lam=2).expecting(*known)
    seen.returns(x.detach(), *identity, rtol=0, atol=0)
    seen.gives_gradients({0: -2 * incoming_gradient(x)}, because=scale)

    def shared(grad_reverse, a, b):
        """A sum: both branches of the graph get the same incoming gradient."""
        return b.exp() + grad_reverse(a, 0.5)

    spoilt = (
        "`backward` modified its incoming gradient in place: another branch of the graph received the same tensor "
        "and got a wrong gradient, without an error."
    )
    test("exp(b) + grad_reverse(a, 0.5): the gradient of b is right")
    a, b = torch.tensor([1.5, -2.0, 0.7], requires_grad=True), torch.tensor([0.5, -1.0, 0.3], requires_grad=True)
    seen = observe_scenario(shared, grad_reverse, a, b).expecting(*known)
    of_b = (incoming_gradient(b) * b.exp()).detach()
    seen.gives_gradients(
        {0: -0.5 * incoming_gradient(a), 1: of_b},
        mistake(spoilt, when=lambda seen: not torch.allclose(seen.gradient(1), of_b)),
        because=scale,
    )

    ### BEGIN HIDDEN TESTS
    def used_twice(grad_reverse, x, weight):
        """The result and what it was made of are both used; once for a leaf, once for a tensor in the graph."""
        h = x * 3
        return torch.stack([grad_reverse(x, 0.5) * weight + x, grad_reverse(h, 0.25) * weight + h])

    test.hidden("x is used a second time, directly: that gradient is not reversed")
    x = torch.tensor([1.5, -2.0, 0.7], requires_grad=True)
    weight = torch.tensor([3.0, 0.5, -2.0])
    seen = observe_scenario(used_twice, grad_reverse, x, weight).expecting(*known)
    with torch.no_grad():
        seen.returns(torch.stack([x * weight + x, 3 * x * weight + 3 * x]))
        first, second = incoming_gradient(torch.empty(2, 3))
        right = first * (1 - 0.5 * weight) + second * 3 * (1 - 0.25 * weight)
        second_lam = right + first * 0.25 * weight
    seen.gives_gradients(
        {0: right},
        mistake(
            "Of two calls with different lam, the first took the lam of the second on the way back: keep lam on ctx, "
            "not on the class or in a global name.",
            when=lambda seen: torch.allclose(seen.gradient(0), second_lam),
        ),
        because="x's other uses were reversed as well: the hook (or the change) sits on x itself, not on the result.",
    )

    def started_from(grad_reverse, x, g):
        """The incoming gradient, after the backward pass that started from it."""
        torch.autograd.grad(grad_reverse(x, 0.5), x, g)
        return g

    test.hidden("the incoming gradient stays as it is")
    given = torch.tensor([3.0, -2.0, 5.0])
    observe_scenario(started_from, grad_reverse, x, given).expecting(*known).returns(given, because=spoilt)

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        test.hidden(f"large, tiny and special numbers, {dtype}")
        most, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
        special = [most, -most, least, -least, 0.0, -0.0, torch.inf, -torch.inf, torch.nan, 0.1, 1 / 3, -1000.7]
        special = torch.tensor(special, dtype=dtype).requires_grad_()
        for lam in (0.1, 1e3):
            seen = observe(grad_reverse, special, lam).expecting(*known)
            seen.returns(special.detach(), *identity, rtol=0, atol=0)
            seen.that(
                torch.equal(seen.value.signbit()[:-4], special.signbit()[:-4]),
                "The forward is not bit for bit x: a zero has lost its sign.",
            )
            seen.gives_gradients({0: incoming_gradient(special) * -lam}, because=scale)

    test.hidden("lam = 0")
    for lam in (0, 0.0):
        seen = observe(grad_reverse, x, lam).expecting(*known)
        seen.returns(x.detach(), *identity, rtol=0, atol=0)
        seen.gives_gradients({0: torch.zeros(3)}, because="The gradient of lam = 0 is zero: {detail}")

    test.hidden("an x that does not require grad")
    seen = observe(grad_reverse, weight, 0.3).expecting(*known)
    seen.returns(weight, *identity, rtol=0, atol=0)
    seen.is_untracked(because="x does not require grad, and so the result must not: {detail}")
    seen.leaves_arguments_alone()

    def left_as_it_was(grad_reverse, x):
        """Call grad_reverse twice; is x still the tensor that it was, and does it differentiate as before?"""
        grad_reverse(x, 0.5)
        grad_reverse(x, 3.0).sum()
        (gradient,) = torch.autograd.grad((x * 2).sum(), x)
        return {"gradient": gradient, "requires_grad": x.requires_grad, "is leaf": x.is_leaf}

    test.hidden("x itself is left as it was")
    observe_scenario(left_as_it_was, grad_reverse, x).expecting(*known).returns(
        {"gradient": torch.full((3,), 2.0), "requires_grad": True, "is leaf": True},
        because="x's other uses were reversed as well: the hook (or the change) sits on x itself, not on the result.",
    )

    for idea, some_x in [
        ("a 0-d x", torch.tensor(0.3)),
        ("an empty x", torch.empty(0, 2)),
        ("a transposed x", torch.arange(6.0).reshape(2, 3).t()),
    ]:
        test.hidden(idea)
        seen = observe(grad_reverse, some_x.clone().requires_grad_(), 0.3).expecting(*known)
        seen.returns(some_x, *identity, rtol=0, atol=0)
        seen.gives_gradients({0: incoming_gradient(some_x) * -0.3}, because=scale)

    test.hidden("a negative lam is refused")
    for lam in (-0.5, -1):
        for some_x in (x, weight):
            observe(grad_reverse, some_x, lam).raises(ValueError, because="A negative lam must raise ValueError.")

    def twice(grad_reverse, x, g, lam):
        """The gradient of (reverse(x) ** 2 * g).sum(), and the gradients of that one."""
        (first,) = torch.autograd.grad((grad_reverse(x, lam) ** 2 * g).sum(), x, create_graph=True)
        by_x, by_g = torch.autograd.grad(first.sum(), (x, g), materialize_grads=True)
        return {"first": first.detach(), "by x": by_x, "by g": by_g}

    test.hidden("the gradient of the gradient")
    g = torch.tensor([2.0, 0.5, -3.0], requires_grad=True)
    for lam in (0.5, 3):
        expected = {"first": -2 * lam * x * g, "by x": 2 * lam**2 * g, "by g": -2 * lam * x}
        observe_scenario(twice, grad_reverse, x, g, lam).expecting(*known).returns(
            {name: value.detach() for name, value in expected.items()},
            mistake("Differentiating twice must work: {detail}", stage=("raised", "type", "value")),
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 5.5 gradcheck judges your backward
#
# A derivative is a difference quotient, and that can be computed without any backward: change the input a little, in
# both directions, and look at what the output does.
#
# **Predict.** The slope of x² at 1.3 is 2.6. The next cell computes it from a step of 0.000001, once in float64 and
# once in float32. How many digits are right?

# %% facts=["05-gradcheck-compares-jacobians"]
for dtype in (torch.float64, torch.float32):
    x, step = torch.tensor(1.3, dtype=dtype), 1e-6
    slope = ((x + step) ** 2 - (x - step) ** 2) / (2 * step)
    print(f"{dtype!s:14} {slope.item():.4f}")

# %% [markdown]
# In float32 only the first: neighbouring float32 numbers near 1.7 are 0.0000001 apart, and the difference of the two
# squares is 0.000005. `torch.autograd.gradcheck` does this for every entry of every input that requires grad and so
# builds the whole Jacobian; it builds it a second time with your `backward`, and compares.

# %% [markdown]
# **Predict.** `torch.exp` is certainly right. Does gradcheck pass it on float32 inputs? And on float64 inputs that
# don't require grad?

# %% facts=["05-gradcheck-sample"] shows_warning="UserWarning"
values = [-0.7, 0.4, 1.3]
single = torch.tensor(values, requires_grad=True)
double = torch.tensor(values, dtype=torch.float64, requires_grad=True)

print("float64:", gradcheck(torch.exp, double))
error_of(lambda: gradcheck(torch.exp, double.detach()))
warning_of(lambda: error_of(lambda: gradcheck(torch.exp, single), lines=1))

# %% [markdown]
# Neither. In float32 it warns, and fails although the formula is right: what it sees is the rounding of the last cell.
# So before you doubt your backward, look at the inputs: float64, requires_grad=True. Without an input that requires
# grad there is nothing to compare, and gradcheck says so.

# %% [markdown]
# **Predict.** Somebody saved the input of `exp` where the output is needed. What does gradcheck's message contain?


# %% facts=["05-gradcheck-compares-jacobians"]
class WrongExp(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad_output):
        (saved,) = ctx.saved_tensors
        return grad_output * saved


error_of(lambda: gradcheck(WrongExp.apply, double), lines=7)

# %% [markdown]
# Both Jacobians. "numerical" is the difference quotient, "analytical" your backward; entry (i, j) says how output j
# depends on input i (rows and columns have changed places against section 4.4). Here the diagonal of the second is the
# input itself, -0.7, 0.4, 1.3, which tells what went wrong.
#
# For a quick answer, `gradcheck(…, raise_exception=False)` returns True or False. Only backward is compared;
# derivatives in forward mode, another way through the graph, only if you ask with `check_forward_ad=True`.

# %% [markdown]
# **Predict.** gradcheck tests at the points that you give it. `torch.relu` has a right backward, too. Does it pass at
# -1 and 2? At 0?

# %% facts=["05-gradcheck-sample"]
for place in ([-1.0, 2.0], [-1.0, 0.0]):
    x = torch.tensor(place, dtype=torch.float64, requires_grad=True)
    print(place, gradcheck(torch.relu, x, raise_exception=False))

# %% [markdown]
# Not at the kink: there the quotient is the mean of both slopes, 0.5, and backward decides for one of them, 0. So a
# failure may come from the point and not from the formula. And a pass says nothing about points that were not tested:
# give inputs of both signs, random, and away from kinks.

# %% [markdown]
# **Predict.** Here is the layer of section 5.3 without its mistakes, for x of two dimensions. It is checked completely:
# the value, gradcheck, and `gradgradcheck`, which does the same for the second derivatives. What does it say to x of
# three dimensions?


# %% facts=["05-linear-function-sample", "05-needs-input-grad"]
class MatrixLinear(Function):
    @staticmethod
    def forward(x, weight, bias):
        return x.mm(weight.t()) + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        x_grad = g.mm(weight) if ctx.needs_input_grad[0] else None
        weight_grad = g.t().mm(x) if ctx.needs_input_grad[1] else None
        bias_grad = g.sum(0) if ctx.needs_input_grad[2] else None
        return x_grad, weight_grad, bias_grad


torch.manual_seed(0)
sizes = (5, 4), (3, 4), (3,)
x, weight, bias = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes)

value = MatrixLinear.apply(x, weight, bias)
print("value:        ", torch.allclose(value, F.linear(x, weight, bias)))
print("gradcheck:    ", gradcheck(MatrixLinear.apply, (x, weight, bias)))
print("gradgradcheck:", gradgradcheck(MatrixLinear.apply, (x, weight, bias)))
error_of(lambda: MatrixLinear.apply(torch.zeros(2, 5, 4), weight, bias))

# %% [markdown]
# It refuses, because `mm` multiplies matrices only. The value must be checked, too, and first: gradcheck has no
# reference for it, and a wrong forward with the matching backward passes.

# %% [markdown]
# **Predict.** Three Functions of this chapter have known faults: `NegateInPlace` writes into its incoming gradient,
# `SquareAttribute` keeps its input as an attribute, and `CarelessLinear` transposes the gradient of a weight, which is
# square here. Which of the three does gradcheck catch?

# %% facts=["05-gradcheck-compares-jacobians"]
torch.manual_seed(0)
x, weight = (torch.randn(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)

faulty = {NegateInPlace: (x,), SquareAttribute: (x,), CarelessLinear: (x, weight, bias)}
for function, inputs in faulty.items():
    print(f"{function.__name__:16} passes gradcheck:", gradcheck(function.apply, inputs, raise_exception=False))

# %% [markdown]
# The transposed weight, which no shape gives away. The other two are right when they are alone, and gradcheck runs them
# alone. For those you need tests of their own: a second branch whose gradient must stay right (5.3), an in-place change
# between forward and backward that must raise (5.4), and, where memory is the point, a count of what is kept (5.1).

# %% [markdown]
# ### Exercise 5.4 · returned an invalid gradient at index 1
#
# debug · solid · 15 min · 3 points
#
# A colleague has written a linear layer as a Function:
#
#     LinearFn.apply(x, w, b).sum().backward()          # x: (5, 4), w: (3, 4), b: (3,)
#
#     RuntimeError: Function LinearFnBackward returned an invalid gradient at index 1 -
#     got [4, 3] but expected shape compatible with [3, 4]
#
# With a square weight there is no error at all, and the layer learns nonsense. Find out why, and repair what else is
# missing for the contract.
#
# **Contract**
#
# - `LinearFn.apply(x, weight, bias)` equals `F.linear` for x of shape (…, n_in) with any number of leading dimensions,
#   also none; with or without bias: `apply(x, w)`, `apply(x, w, None)`, `apply(x, w, b)`. LinearFn stays an
#   `autograd.Function` with a backward of its own.
# - The gradients of x, weight and bias pass gradcheck and gradgradcheck.
# - A gradient that nobody needs is not computed: with a frozen weight no product for the weight runs in backward, with
#   a frozen x none for x. (The products are recorded.)
# - A change of x or weight in place between forward and backward raises, as it does for built-in operations. The
#   incoming gradient is never changed.
#
# <details><summary>Hint 1</summary>
#
# Which shape must a gradient have, and why does a square weight hide the mistake? And what is `.t()` of a tensor with
# three dimensions?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Everything but the last dimension is "batch": flatten it for the weight gradient. Every row's g belongs to the bias
# (autograd itself sums a gradient over broadcast dimensions, but say what you mean). `ctx.needs_input_grad` says which
# of the three are wanted; it has as many entries as `apply` got arguments.
#
# </details>


# %% answer="debug-linear-backward"
### BEGIN SOLUTION
class LinearFn(torch.autograd.Function):
    """x @ weight.T + bias. x: (..., n_in), weight: (n_out, n_in), bias: (n_out,) or None; gives (..., n_out)."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = x @ weight.t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, *needs_bias = ctx.needs_input_grad
        rows = g.reshape(-1, g.shape[-1])
        grad_x = g @ weight if needs_x else None
        grad_weight = rows.t() @ x.reshape(-1, x.shape[-1]) if needs_weight else None
        grad_bias = rows.sum(0) if any(needs_bias) else None
        return grad_x, grad_weight, grad_bias


### END SOLUTION
### BEGIN GIVEN
# class LinearFn(torch.autograd.Function):
#     """x @ weight.T + bias. x: (..., n_in), weight: (n_out, n_in), bias: (n_out,) or None; gives (..., n_out)."""
#
#     @staticmethod
#     def forward(ctx, x, weight, bias=None):
#         raise NotImplementedError  # repair the code below, then delete this line
#         ctx.save_for_backward(x, weight)
#         out = x @ weight.t()
#         return out if bias is None else out + bias
#
#     @staticmethod
#     def backward(ctx, g):
#         x, weight = ctx.saved_tensors
#         return g @ weight, x.t() @ g, g
### END GIVEN

# %% check="debug-linear-backward" points=2
"""Value and gradients as in F.linear, for any leading dimensions, with and without bias."""
with check("debug-linear-backward") as test:

    def applied(LinearFn, x, weight, bias):
        """The layer, called with three arguments."""
        return LinearFn.apply(x, weight, bias)

    def applied_to_two(LinearFn, x, weight):
        """The layer, called with two arguments."""
        return LinearFn.apply(x, weight)

    def numbers(*size, start=0):
        """A float64 tensor without zeros, equal values or symmetry, that requires grad."""
        k = torch.arange(start, start + torch.Size(size).numel(), dtype=torch.float64)
        return ((k * 29 % 67 - 30.5) / 20).reshape(size).requires_grad_()

    def by_autograd(*inputs):
        """The value of F.linear, and its gradients for the incoming gradient of an observed backward pass."""
        out = F.linear(*inputs)
        tracked = {place: t for place, t in enumerate(inputs) if t is not None and t.requires_grad}
        grads = torch.autograd.grad(out, list(tracked.values()), incoming_gradient(out))
        return out.detach(), dict(zip(tracked, grads, strict=True))

    def like_linear(seen, *inputs, **tolerance):
        """Judge value and gradients."""
        value, grads = by_autograd(*inputs)
        seen.returns(value, because="The forward differs from F.linear: {detail}", **tolerance)
        seen.gives_gradients(
            grads,
            mistake(
                "x was multiplied by the transposed weight on the way back: with out = x Wᵀ its gradient is g W.",
                when=lambda seen: torch.allclose(seen.gradient(0), incoming_gradient(value) @ inputs[1].T),
            ),
            because="The gradients differ from those of F.linear: {detail}",
            **tolerance,
        )

    transposed = mistake(
        "The weight gradient is transposed: its shape must be (n_out, n_in). With a square weight nothing raises "
        "and the numbers are wrong.",
        raises="invalid gradient at index 1",
    )
    returned = mistake(
        "`backward` must return one value per argument passed to apply (three when a bias is given).",
        raises="incorrect number of gradients",
    )
    third = mistake(
        "`apply(x, w)` got two arguments: a third value that backward returns must be None.",
        raises="expected 2, got 3",
    )
    optional = mistake("The bias may be left out or None: {detail}", raises=".", stage=("raised", "gradient"))

    test("x (5, 4), weight (3, 4), bias (3,)")
    inputs = numbers(5, 4), numbers(3, 4, start=7), numbers(3, start=40)
    seen = observe_scenario(applied, LinearFn, *inputs).expecting(transposed, returned)
    like_linear(seen, *inputs)
    seen.leaves_arguments_alone()

    test("apply(x, w) and apply(x, w, None)")
    seen = observe_scenario(applied_to_two, LinearFn, *inputs[:2]).expecting(transposed, third, returned, optional)
    like_linear(seen, *inputs[:2])
    seen = observe_scenario(applied, LinearFn, *inputs[:2], None).expecting(transposed, third, returned, optional)
    like_linear(seen, *inputs[:2], None)

    test("a batch of sequences: x (2, 5, 4)")
    inputs = numbers(2, 5, 4), numbers(3, 4, start=7), numbers(3, start=40)
    matrices_only = mistake(
        "It works for matrices only: {detail}. Flatten the leading dimensions (g.t() has no meaning for three).",
        raises=r"t\(\) expects|<= 2 dimensions|must match the size|cannot be multiplied|invalid gradient|2D|matri",
    )
    seen = observe_scenario(applied, LinearFn, *inputs).expecting(matrices_only)
    like_linear(seen, *inputs)

    def node(LinearFn, x, weight):
        """What the result remembers."""
        return {
            "function": issubclass(LinearFn, torch.autograd.Function),
            "own node": LinearFn.apply(x, weight).grad_fn.name() == f"{LinearFn.__name__}Backward",
        }

    test("LinearFn is a Function, and its own backward is used")
    observe_scenario(node, LinearFn, *inputs[:2]).returns(
        {"function": True, "own node": True},
        because="LinearFn must stay a Function whose apply leads to its own backward: {detail}",
    )

    ### BEGIN HIDDEN TESTS
    single = mistake("A single vector (n_in,) must work: {detail}", raises=".", stage=("raised", "gradient"))
    of_square = mistake(
        "The weight gradient is transposed: its shape must be (n_out, n_in). With a square weight nothing raises "
        "and the numbers are wrong.",
        when=lambda seen: torch.allclose(seen.gradient(1).T, by_autograd(*seen.args[1:])[1][1]),
    )
    for idea, x_size, out in [
        ("a single vector", (4,), 3),
        ("four leading dimensions", (2, 1, 3, 2, 4), 3),
        ("an empty batch", (0, 4), 3),
        ("an empty batch of sequences", (2, 0, 4), 3),
        ("one output", (5, 4), 1),
        ("one output, a batch of sequences", (2, 3, 4), 1),
        ("a square weight", (5, 4), 4),
        ("a square weight, a batch of square matrices", (2, 4, 4), 4),
        ("one row", (1, 4), 3),
        ("one input", (3, 1), 2),
    ]:
        inputs = numbers(*x_size), numbers(out, x_size[-1], start=7), numbers(out, start=40)
        known = (
            [single] if len(x_size) == 1 else [of_square, matrices_only] if len(x_size) > 2 else [of_square, transposed]
        )
        test.hidden(idea)
        seen = observe_scenario(applied, LinearFn, *inputs).expecting(*known)
        like_linear(seen, *inputs)
        seen.leaves_arguments_alone()
        test.hidden(f"{idea}, no bias")
        seen = observe_scenario(applied_to_two, LinearFn, *inputs[:2]).expecting(*known, optional)
        like_linear(seen, *inputs[:2])
        seen = observe_scenario(applied, LinearFn, *inputs[:2], None).expecting(*known, optional)
        like_linear(seen, *inputs[:2], None)

    test.hidden("a bias whose gradient alone is wanted")
    inputs = numbers(2, 5, 4).detach(), numbers(3, 4, start=7).detach(), numbers(3, start=40)
    like_linear(observe_scenario(applied, LinearFn, *inputs), *inputs)

    test.hidden("float32, x and weight transposed")
    inputs = [
        t.detach().float().mT.contiguous().mT.requires_grad_() for t in (numbers(2, 5, 4), numbers(3, 4, start=7))
    ]
    inputs.append(numbers(3, start=40).detach().float().requires_grad_())
    like_linear(observe_scenario(applied, LinearFn, *inputs), *inputs, rtol=1e-4, atol=1e-5)

    def then_transposed(LinearFn, x, weight, bias):
        """The layer, and what follows it exchanges the dimensions: the incoming gradient is not contiguous."""
        return LinearFn.apply(x, weight, bias).transpose(0, 1)

    test.hidden("the result is transposed: the incoming gradient is not contiguous")
    trio = numbers(2, 5, 4), numbers(3, 4, start=7), numbers(3, start=40)
    plain = F.linear(*trio).transpose(0, 1)
    of_trio = torch.autograd.grad(plain, trio, incoming_gradient(plain))
    seen = observe_scenario(then_transposed, LinearFn, *trio)
    seen.gives_gradients(
        dict(enumerate(of_trio)),
        mistake("g need not be contiguous, and view refuses it: use reshape. ({detail})", raises="view size is not"),
        because="The gradients differ from those of F.linear: {detail}",
    )

    def started_from(LinearFn, x, weight, bias, g):
        """The incoming gradient, after the backward pass that started from it."""
        torch.autograd.grad(LinearFn.apply(x, weight, bias), (x, weight, bias), g)
        return g

    test.hidden("the incoming gradient stays as it is")
    given = numbers(2, 5, 3).detach()
    observe_scenario(started_from, LinearFn, *trio, given).returns(
        given,
        because="`backward` changed its incoming gradient in place: it may belong to another branch of the graph.",
    )

    test.hidden("nothing requires grad")
    inputs = [t.detach() for t in inputs]
    seen = observe_scenario(applied, LinearFn, *inputs)
    seen.returns(F.linear(*inputs), because="The forward differs from F.linear: {detail}", rtol=1e-4, atol=1e-5)
    seen.is_untracked()
    ### END HIDDEN TESTS

# %% check="debug-linear-backward" points=1
"""Differentiable twice, nothing computed in vain, and changes in place are noticed."""
with check("debug-linear-backward") as test:

    def applied(LinearFn, x, weight, bias):
        """The layer, called with three arguments."""
        return LinearFn.apply(x, weight, bias)

    def checked(LinearFn, x, weight, bias):
        """gradcheck's opinion."""
        return gradcheck(LinearFn.apply, (x, weight, bias), raise_exception=False)

    torch.manual_seed(2)
    x, weight = torch.randn(5, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)

    test("gradcheck for x (2, 2) and weight (3, 2)")
    trio = [t.clone().requires_grad_() for t in (x[:2, :2], weight[:, :2], bias)]
    seen = observe_scenario(checked, LinearFn, *trio)
    seen.returns(True, because="`gradcheck` fails: the gradients are not those of the forward.")

    ### BEGIN HIDDEN TESTS
    def twice(LinearFn, x, weight, bias, g):
        """The gradients of a weighted sum of the first gradients, with respect to all that they depend on."""
        inputs = (x, weight, bias)
        firsts = torch.autograd.grad(LinearFn.apply(*inputs), inputs, g, create_graph=True)
        total = sum((first.sin() * torch.arange(1.0, first.numel() + 1).reshape(first.shape)).sum() for first in firsts)
        return list(torch.autograd.grad(total, (*inputs, g), materialize_grads=True))

    class Plain:
        apply = staticmethod(F.linear)

    in_place = mistake("`backward` changes its incoming gradient in place.", raises="used in an in-place operation")
    again = mistake(
        "The second derivative is wrong or missing: {detail}. "
        "The backward must consist of differentiable operations on saved inputs.",
        stage=("raised", "type", "value"),
    )
    test.hidden("the second derivatives, for an x with three dimensions")
    for some_x in (x[:2], x[:4].reshape(2, 2, 4)):
        g = torch.randn(*some_x.shape[:-1], 3, dtype=torch.float64)
        four = [t.clone().requires_grad_() for t in (some_x, weight, bias, g)]
        seen = observe_scenario(twice, LinearFn, *four)
        seen.returns(twice(Plain, *four), in_place, again, rtol=1e-8, atol=1e-10)

    def checked_twice(LinearFn, x, weight, bias):
        """gradcheck's and gradgradcheck's opinion."""
        inputs = (x, weight, bias)
        return [check(LinearFn.apply, inputs, raise_exception=False) for check in (gradcheck, gradgradcheck)]

    test.hidden("gradcheck and gradgradcheck, for an x with three dimensions")
    trio = [t.clone().requires_grad_() for t in (x[:2, :2].reshape(2, 1, 2), weight[:1, :2], bias[:1])]
    observe_scenario(checked_twice, LinearFn, *trio).returns([True, True], again)

    products = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "matmul", "linear")

    def products_of(seen):
        """The backward's products that are as large as a gradient of x or weight, or as all outer products together."""
        ops = [op for op in seen.noted.ops if op["phase"] == "backward" and op["level"] == "aten"]
        named = [op for op in ops if op["name"] in products and op["elements"] in (12, 20, 60)]
        return named + [op for op in ops if op["name"] == "mul" and op["elements"] == 60]

    for frozen, needed in (("weight",), 1), (("x",), 1), (("x", "weight"), 0):
        test.hidden(f"frozen: {' and '.join(frozen)}")
        trio = [t.clone() for t in (x, weight, bias)]
        for name, tensor in zip(("x", "weight", "bias"), trio, strict=True):
            tensor.requires_grad_(name not in frozen)
        seen = observe_scenario(applied, LinearFn, *trio)
        out = F.linear(*trio)
        tracked = {place: t for place, t in enumerate(trio) if t.requires_grad}
        grads = torch.autograd.grad(out, list(tracked.values()), incoming_gradient(out))
        seen.gives_gradients(dict(zip(tracked, grads, strict=True)))
        count = len(products_of(seen))
        seen.that(
            count <= needed,
            f"A product was computed for a gradient nobody asked for: {count} where {needed} would do, with "
            f"{' and '.join(frozen)} frozen. Check ctx.needs_input_grad.",
            stage="rule",
        )

    def changed_between(LinearFn, which, x, weight, bias):
        """Change x or weight in place between forward and backward; does backward raise?"""
        layer_in = {"x": x.clone(), "weight": weight.clone()}
        out = LinearFn.apply(layer_in["x"], layer_in["weight"], bias)
        with torch.no_grad():
            layer_in[which].mul_(2)
        try:
            torch.autograd.grad(out.sum(), weight if which == "x" else x)
        except RuntimeError as error:
            return str(error)
        return "nothing was raised"

    for which in ("x", "weight"):
        test.hidden(f"{which}.mul_(2) between forward and backward")
        trio = [t.clone().requires_grad_() for t in (x, weight, bias)]
        seen = observe_scenario(changed_between, LinearFn, which, *trio)
        seen.that(
            "modified by an inplace operation" in seen.value,
            f"An in-place change of {which} between forward and backward went unnoticed: store inputs with "
            "ctx.save_for_backward, not as ctx.x.",
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 5.6 Twice
#
# A gradient penalty, a Hessian, learning to learn: all differentiate a gradient. With `create_graph=True` the
# operations inside your `backward` are recorded like any others.
#
# **Predict.** The first of these two saves the derivative 3x², ready-made, in forward. The second saves x. Which pass
# gradcheck, which pass gradgradcheck?


# %% facts=["05-saved-intermediate-breaks-double-backward"]
class CubeReadyMade(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3 * x**2)  # neither an input nor an output
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (derivative,) = ctx.saved_tensors
        return grad_output * derivative


class CubeFromInput(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2


def derivatives(function) -> list[float]:
    """First and second derivative at 2; of x³ they are 12 and 12."""
    x = torch.tensor(2.0)
    first = torch.autograd.functional.jacobian(function, x)
    second = torch.autograd.functional.hessian(function, x)
    return [first.item(), second.item()]


x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
for function in (CubeReadyMade, CubeFromInput):
    print(f"{function.__name__:14} derivatives at 2:", derivatives(function.apply))
    print(f"{'':14} gradcheck:    ", gradcheck(function.apply, x))
    print(f"{'':14} gradgradcheck:", gradgradcheck(function.apply, x, raise_exception=False))

# %% [markdown]
# Both pass gradcheck; only the second passes gradgradcheck. `forward` ran without recording, so nobody knows any more
# that the ready-made 3x² came from x: to the second differentiation it is a constant, and the second derivative is 0 in
# place of 12. A saved *input* (or output) is different: `ctx.saved_tensors` gives it back connected to the graph, and
# what `backward` computes from it is recorded.

# %% [markdown]
# **Predict.** If recomputing is too expensive, there is a way to have both: return the intermediate as a second output.
# How many gradients does `backward` get then, and what has to become of the new one?


# %% facts=["05-intermediate-as-output"]
class CubeWithSlope(Function):
    @staticmethod
    def forward(x):
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx, grad_cube, grad_slope):
        x, slope = ctx.saved_tensors
        return grad_cube * slope + grad_slope * 6 * x


def cube(x: Tensor) -> Tensor:
    return CubeWithSlope.apply(x)[0]


x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
print("derivatives at 2:", derivatives(cube))
print("gradcheck:", gradcheck(cube, x), "- gradgradcheck:", gradgradcheck(cube, x))

# %% [markdown]
# Two. As an output, the slope is a part of the graph: in the second differentiation its gradient arrives as
# `grad_slope` and is multiplied by the slope of the slope, 6x. Ignore it, and the second derivative is 0 again. The
# function `cube` keeps the second output to itself.

# %% [markdown]
# **Predict.** `once_differentiable` declares that a backward can't be differentiated; asking for it then raises. Below
# is a loss with a gradient penalty, y + (dy/dx)² = x² + 4x², at x = 2. Its gradient is 10x = 20. What comes out with
# the Function?


# %% facts=["05-once-differentiable"]
class SquareOnce(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


def with_penalty(y: Tensor, x: Tensor) -> Tensor:
    """y plus the square of its derivative."""
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    print("the gradient in the penalty requires grad:", grad.requires_grad)
    return y + grad**2


for square in (torch.square, SquareOnce.apply):
    x = torch.tensor(2.0, requires_grad=True)
    with_penalty(square(x), x).backward()
    print("x.grad:", x.grad.item())


# %% [markdown]
# 4, and no error: the penalty is silently ignored. `once_differentiable` runs your backward without recording, and it
# prepares the error only if the gradient that *arrives* requires grad. Here a plain 1 arrives, as it does wherever the
# results are only added up. So the first gradient comes back as a number that knows nothing of x.
#
# **Predict.** Now the Function's result is squared: y = x⁴, and what arrives at the Function depends on x. The gradient
# of y + (dy/dx)² at 2 is 3104. What do `backward` and `torch.autograd.grad` say?

# %% facts=["05-once-differentiable"]
x = torch.tensor(2.0, requires_grad=True)

error_of(lambda: with_penalty(SquareOnce.apply(x) ** 2, x).backward())
(grad,) = torch.autograd.grad(with_penalty(SquareOnce.apply(x) ** 2, x), x)
print("torch.autograd.grad:", grad.item())

# %% [markdown]
# `backward` raises what was promised. `torch.autograd.grad` follows only the paths that lead to `x`, and the marked
# node leads nowhere: 32, the gradient without the penalty. So look at gradients when you penalise them, and mark a
# Function in this way only if you must, because its backward uses NumPy, say.

# %% [markdown]
# ### Exercise 5.5 · SwiGLU that keeps two tensors, not three
#
# measure · solid · 18 min · 3 points
#
# The feed-forward block of most language models multiplies `silu(a) = a · sigmoid(a)` by a gate `b`. Written as
# `F.silu(a) * b` it keeps three tensors for backward where two would do, in every layer. Write the lean version.
#
# **Contract**
#
# - `swiglu(a, b)` has the values and gradients of `F.silu(a) * b`. a and b have equal shapes; unequal ones raise
#   ValueError (no broadcasting).
# - For backward it keeps exactly the two inputs: `saved_tensors_hooks` see the storages of a and of b and no other, and
#   no other tensor is stored beside them, say as an attribute.
# - gradcheck and gradgradcheck pass. A change of a or b in place between forward and backward raises.
# - The dtype is kept (bfloat16 too), the arguments are not changed; a and b need not require grad. The incoming
#   gradient is never changed.
#
# <details><summary>Hint 1</summary>
#
# Measure first: which tensors does the plain formula save, and which of them can be recomputed from the others in
# backward?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A Function that saves a and b with save_for_backward and recomputes the sigmoid in backward with ordinary
# differentiable operations. silu'(a) = s (1 + a (1 - s)) with s = sigmoid(a).
#
# </details>


# %% answer="lean-swiglu"
### BEGIN SOLUTION
class LeanSwiGLU(torch.autograd.Function):
    """silu(a) * b, which keeps a and b only."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return F.silu(a) * b

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        s = torch.sigmoid(a)
        grad_a = g * b * (s * (1 + a * (1 - s))) if ctx.needs_input_grad[0] else None
        grad_b = g * (a * s) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    """silu(a) * b for a and b of one shape, (...) float. Keeps a and b for backward, and nothing else."""
    if a.shape != b.shape:
        raise ValueError(f"a and b have different shapes: {tuple(a.shape)} and {tuple(b.shape)}")
    return LeanSwiGLU.apply(a, b)


### END SOLUTION
### BEGIN GIVEN
# def swiglu(a: Tensor, b: Tensor) -> Tensor:
#     """silu(a) * b for a and b of one shape, (...) float. Keeps a and b for backward, and nothing else."""
#     raise NotImplementedError  # your code here
### END GIVEN

# %% check="lean-swiglu" points=2
"""Values and gradients of silu(a) * b; only a and b are kept for backward."""
with check("lean-swiglu") as test:

    def plain(a, b):
        """The formula, with three tensors kept."""
        return a * torch.sigmoid(a) * b

    def kept(swiglu, a, b):
        """Bytes of the storages that the hooks see, of those not a's or b's, and of others on the graph's nodes."""
        saved, held, beside = {}, [], {}
        own = {tensor.untyped_storage().data_ptr() for tensor in (a, b)}

        def note(tensor):
            held.append(tensor)
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            out = swiglu(a, b)
        nodes, values = [out.grad_fn], []
        for node in nodes:
            nodes += [other for other, _ in node.next_functions if other is not None and other not in nodes]
            values += getattr(node, "__dict__", {}).values()
        for value in values:
            if isinstance(value, (list, tuple)):
                values += value
            elif isinstance(value, dict):
                values += value.values()
            elif isinstance(value, Tensor) and value.untyped_storage().data_ptr() not in saved:
                beside[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        foreign = sum(size for storage, size in saved.items() if storage not in own)
        return {"saved": sum(saved.values()), "foreign": foreign, "beside": sum(beside.values())}

    k = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    a, b = ((k * 7 % 12 - 5.25) / 3).requires_grad_(), ((k * 5 % 13 - 4.75) / 2).requires_grad_()

    test("value and gradients for two (3, 4) matrices")
    seen = observe(swiglu, a, b)
    seen.returns(plain(a, b).detach(), because="The value is not silu(a) * b: {detail}")
    of_a, of_b = torch.autograd.grad(plain(a, b), (a, b), incoming_gradient(a))
    seen.gives_gradients(
        {0: of_a, 1: of_b},
        mistake(
            "The gradients of a and b are exchanged.",
            when=lambda seen: torch.allclose(seen.gradient(0), of_b) and torch.allclose(seen.gradient(1), of_a),
        ),
        because="The gradients are not those of silu(a) * b: {detail}",
    )
    seen.leaves_arguments_alone()

    test("what is kept for backward: a and b, of 96 bytes each")
    seen = observe_scenario(kept, swiglu, a, b)
    saved, foreign, beside = seen["saved"], seen["foreign"], seen["beside"]
    recompute = (
        "where the two inputs would do: an intermediate result (silu or sigmoid) is saved as well. Recompute it."
    )
    seen.that(saved <= 192, f"{saved} bytes are kept for backward {recompute}")
    seen.that(
        foreign == 0,
        f"Of the {saved} bytes that are kept for backward, {foreign} are neither a's nor b's: another tensor was made "
        "and saved (a copy, a conversion or an intermediate result). Save a and b themselves; they are there anyway.",
    )
    seen.that(
        saved == 192 and beside == 0,
        f"Autograd's saved tensors hold {'only ' * (saved < 192)}{saved} bytes: something was stored as an attribute "
        "(such as ctx.a = a). Then in-place changes go unnoticed, and hooks for saved tensors do not see it: "
        "use save_for_backward.",
    )

    def checked(swiglu, a, b):
        """gradcheck's opinion."""
        return gradcheck(swiglu, (a, b), raise_exception=False)

    test("gradcheck in float64")
    pair = [t.detach()[:2, :2].clone().requires_grad_() for t in (a, b)]
    observe_scenario(checked, swiglu, *pair).returns(True, because="`gradcheck` fails: backward does not fit forward.")

    ### BEGIN HIDDEN TESTS
    test.hidden("what is kept by a (64, 32) pair of float32 inputs, and by 3-d ones")
    for size in ((64, 32), (2, 3, 5)):
        pair = [torch.ones(size, requires_grad=True), torch.full(size, 0.5, requires_grad=True)]
        observe_scenario(kept, swiglu, *pair).returns(
            {"saved": 2 * pair[0].nbytes, "foreign": 0, "beside": 0},
            because="Exactly a and b are to be kept for backward: {detail}",
        )

    def reference(a, b):
        return F.silu(a) * b

    torch.manual_seed(4)
    wide, gate = torch.randn(40, 50), torch.randn(40, 50)
    extreme = torch.tensor([-1e4, -200.0, -100, -30, 30, 100, 200, 1e4, 0])
    for idea, some_a, some_b in [
        ("many random numbers", wide, gate),
        ("float64", wide.double(), gate.double()),
        ("inputs that are not contiguous", wide[:6, ::5].t(), gate[::4][:10, 3:9]),
        ("0-d inputs", torch.tensor(0.7), torch.tensor(-1.3)),
        ("empty inputs", torch.empty(0, 3), torch.empty(0, 3)),
        ("large numbers", extreme, torch.arange(1.0, 10)),
        ("large numbers, float64", extreme.double(), torch.arange(1.0, 10).double()),
    ]:
        test.hidden(idea)
        pair = [t.clone().requires_grad_() for t in (some_a, some_b)]
        seen = observe(swiglu, *pair)
        seen.returns(reference, because="The value is not silu(a) * b: {detail}")
        seen.gives_gradients(reference, because="The gradients are not those of silu(a) * b: {detail}")
        seen.leaves_arguments_alone()

    test.hidden("bfloat16")
    pair = [t[:5].bfloat16().requires_grad_() for t in (wide, gate)]
    seen = observe(swiglu, *pair)
    seen.returns(reference, mistake("The dtype must be kept: {detail}", stage="dtype"), rtol=3e-2, atol=1e-2)
    seen.gives_gradients(reference, rtol=3e-2, atol=2e-2)

    test.hidden("only one of the two requires grad")
    for place in (0, 1):
        pair = [wide[:3].clone(), gate[:3].clone()]
        pair[place].requires_grad_()
        seen = observe(swiglu, *pair)
        seen.returns(reference)
        seen.gives_gradients(reference)

    test.hidden("nothing requires grad")
    seen = observe(swiglu, wide, gate)
    seen.returns(reference)
    seen.is_untracked()
    seen.leaves_arguments_alone()

    test.hidden("unequal shapes are refused")
    for sizes in (((3, 4), (4,)), ((3, 4), (3, 1)), ((), (2,)), ((2, 6), (3, 4)), ((3,), (4,)), ((1, 3), (3,))):
        pair = [torch.ones(size) for size in sizes]
        wrong_kind = mistake("Unequal shapes must raise ValueError: {detail}", raises=".")
        observe(swiglu, *pair).raises(
            ValueError, because="Unequal shapes must raise ValueError.", mistakes=[wrong_kind]
        )
    ### END HIDDEN TESTS

# %% check="lean-swiglu" points=1
"""Differentiable twice; changes in place are noticed; the incoming gradient stays as it is."""
with check("lean-swiglu") as test:
    torch.manual_seed(4)
    a, b = torch.randn(3, 4, dtype=torch.float64, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    b = (b.detach() + 0.5).double().requires_grad_()

    def saved_bytes(swiglu, a, b):
        """Bytes of the distinct storages that are saved for backward."""
        sizes = {}

        def note(tensor):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            out = swiglu(a, b)
        return {"bytes": sum(sizes.values()), "tracked": out.requires_grad}

    test("only a and b are kept for backward (here this must hold, too)")
    observe_scenario(saved_bytes, swiglu, a, b).returns(
        {"bytes": a.nbytes + b.nbytes, "tracked": True}, because="Exactly a and b are to be kept for backward: {detail}"
    )

    ### BEGIN HIDDEN TESTS
    def twice(function, a, b, g):
        """The gradients of a weighted sum of the first gradients, with respect to all that they depend on."""
        by_a, by_b = torch.autograd.grad(function(a, b), (a, b), g, create_graph=True)
        weights = torch.arange(1.0, a.numel() + 1, dtype=a.dtype).reshape(a.shape)
        total = (by_a * weights).sum() + (by_b * weights.sin()).sum()
        return list(torch.autograd.grad(total, (a, b, g), materialize_grads=True))

    def plain(a, b):
        return F.silu(a) * b

    in_place = mistake("The incoming gradient was changed in place.", raises="used in an in-place operation")
    again = mistake(
        "`gradgradcheck` fails: {detail}. The backward must compute from the saved *inputs* with differentiable "
        "operations; a saved intermediate is a constant to it.",
        stage=("raised", "type", "value"),
    )
    test.hidden("the second derivatives")
    g = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    observe_scenario(twice, swiglu, a, b, g).returns(twice(plain, a, b, g), in_place, again, rtol=1e-8, atol=1e-10)

    def checked_twice(swiglu, a, b):
        """gradcheck's and gradgradcheck's opinion."""
        return [check(swiglu, (a, b), raise_exception=False) for check in (gradcheck, gradgradcheck)]

    test.hidden("gradcheck and gradgradcheck")
    pair = [t.detach()[0, :2].clone().requires_grad_() for t in (a, b)]
    observe_scenario(checked_twice, swiglu, *pair).returns([True, True], again)

    def shared(swiglu, a, b, c):
        """A sum: both branches of the graph get the same incoming gradient."""
        return c.exp() + swiglu(a, b)

    def started_from(swiglu, a, b, g):
        """The incoming gradient, after the backward pass that started from it."""
        torch.autograd.grad(swiglu(a, b), (a, b), g)
        return g

    test.hidden("c.exp() + swiglu(a, b): the neighbour's gradient")
    changed = "The incoming gradient was changed in place."
    c = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    seen = observe_scenario(shared, swiglu, a, b, c)
    seen.gives_gradients({2: (incoming_gradient(c) * c.exp()).detach()}, because=changed)
    given = torch.arange(1.0, 13, dtype=torch.float64).reshape(3, 4)
    observe_scenario(started_from, swiglu, a, b, given).returns(given, because=changed)

    def changed_between(swiglu, which, a, b):
        """Multiply a or b in place between forward and backward; what does backward say?"""
        pair = {"a": a * 1, "b": b * 1}
        out = swiglu(pair["a"], pair["b"])
        pair[which].mul_(2)
        try:
            torch.autograd.grad(out.sum(), (a, b))
        except RuntimeError as error:
            return str(error)
        return "nothing was raised"

    for which in ("a", "b"):
        test.hidden(f"{which}.mul_(2) between forward and backward")
        seen = observe_scenario(changed_between, swiglu, which, a, b)
        seen.that(
            "modified by an inplace operation" in seen.value,
            "An in-place change between forward and backward went unnoticed and would give wrong gradients.",
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 5.6 · gradcheck passes, the second derivative is zero
#
# fix · solid · 12 min · 2 points
#
# log(cosh(x)) is a smooth cousin of |x|, used as a robust loss. This one passes gradcheck. A gradient penalty on it has
# no effect at all, and `log_cosh(torch.tensor(1000.0))` is inf. Repair both.
#
# **Contract**
#
# - log(cosh(x)), elementwise, one tensor of the shape and dtype of x. Finite for |x| up to 1e4, and in float64 right to
#   a millionth of the value (or to 1e-12 where that is more).
# - The first derivative is tanh(x), the second 1 - tanh(x)², both right for all these x, x = 0 and large |x| included.
#   gradcheck and gradgradcheck pass.
# - x is not changed and need not require grad. A custom Function is allowed, not demanded.
#
# <details><summary>Hint 1</summary>
#
# In backward, t is a saved number: does autograd know that it came from x?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Save the input and compute tanh again in backward (then it is recorded), or give t out as a second output and add its
# gradient, or write the whole thing with built-in operations, in a form that neither overflows nor has a kink at 0.
# For the value take e^|x| out of the logarithm.
#
# </details>


# %% answer="log-cosh-second-order"
### BEGIN SOLUTION
class LogCosh(torch.autograd.Function):
    """log(cosh(x)), elementwise; keeps x and computes tanh(x) again in backward, where it can be recorded."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        size = x.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)

    @staticmethod
    def backward(ctx, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * torch.tanh(x)


def log_cosh(x: Tensor) -> Tensor:
    """log(cosh(x)), elementwise, twice differentiable. x: (...) float; returns the same shape and dtype."""
    return LogCosh.apply(x)


### END SOLUTION
### BEGIN GIVEN
# class LogCosh(torch.autograd.Function):
#     """log(cosh(x)), elementwise."""
#
#     @staticmethod
#     def forward(ctx, x):
#         t = torch.tanh(x)
#         ctx.save_for_backward(t)
#         return torch.log(torch.cosh(x))
#
#     @staticmethod
#     def backward(ctx, g):
#         (t,) = ctx.saved_tensors
#         return g * t
#
#
# def log_cosh(x: Tensor) -> Tensor:
#     """log(cosh(x)), elementwise, twice differentiable. x: (...) float; returns the same shape and dtype."""
#     raise NotImplementedError  # repair the code above and below, then delete this line
#     return LogCosh.apply(x)
### END GIVEN

# %% check="log-cosh-second-order" points=2
"""Values also where cosh overflows; first and second derivative, at 0 and far out too."""
with check("log-cosh-second-order") as test:
    value_is_off = [
        mistake(
            "`cosh` overflows for large |x|: {detail}. Take e^|x| out of the logarithm.",
            when=lambda seen: seen.value.isinf().any(),
        ),
        mistake(
            "`log_cosh` returns one tensor; keep an additional output to yourself.",
            when=lambda seen: isinstance(seen.value, (tuple, list)),
        ),
    ]
    precise = {"rtol": 1e-6, "atol": 1e-12}

    test("values between -3 and 3, and at 20, -100 and 1e4")
    x = torch.tensor([-3.0, -1.2, 0.0, 0.01, 0.5, 3.0, 20.0, -100.0, 1e4], dtype=torch.float64)
    near = [math.log(math.cosh(number)) for number in x[:6].tolist()]
    far = [19.306852819440055, 99.30685281944005, 9999.306852819440]
    seen = observe(log_cosh, x)
    seen.returns(torch.tensor(near + far, dtype=torch.float64), *value_is_off, **precise)
    seen.leaves_arguments_alone()

    test("the first derivative is tanh(x)")
    seen = observe(log_cosh, x[:6].clone().requires_grad_())
    slopes = torch.tensor([math.tanh(number) for number in x[:6].tolist()], dtype=torch.float64)
    seen.gives_gradients(
        {0: incoming_gradient(slopes) * slopes}, because="The first derivative is wrong: {detail}", **precise
    )

    def checked(log_cosh, x):
        """gradcheck's opinion."""
        return gradcheck(log_cosh, (x,), raise_exception=False)

    test("gradcheck")
    observe_scenario(checked, log_cosh, x[:6].clone().requires_grad_()).returns(
        True, because="The first derivative is wrong: gradcheck fails."
    )

    def derivatives(log_cosh, x, g):
        """The first derivative, and the second one for an incoming gradient g that is tracked."""
        (first,) = torch.autograd.grad(log_cosh(x), x, g, create_graph=True)
        try:
            first.sum().backward()
        except RuntimeError as error:
            return {"error": str(error)}
        return {"first": first.detach(), "second": torch.zeros_like(x) if x.grad is None else x.grad}

    def has_derivatives(seen, first, second, *mistakes):
        """Judge what `derivatives` found."""
        error = seen.value.get("error", "")
        seen.that(
            "once_differentiable" not in error,
            "The second derivative raises: once_differentiable forbids it, asked for is the right value.",
            stage="gradient",
        )
        seen.that(
            not error,
            "The second derivative raises: what backward computed is not connected to x or to its incoming gradient "
            "(no_grad, detach or .data cuts it off).",
            stage="gradient",
        )
        seen.returns(
            {"first": first, "second": second},
            *mistakes,
            mistake(
                "The first derivative is wrong: {detail}",
                when=lambda seen: not torch.allclose(seen["first"], first, rtol=1e-6, atol=1e-9),
            ),
            mistake(
                "The second derivative is 0: the saved tanh is a constant for backward. Save x and recompute, "
                "or return it as an output.",
                when=lambda seen: not seen["second"].any(),
            ),
            because="The second derivative is wrong: {detail}",
            rtol=1e-6,
            atol=1e-9,
        )

    test("the second derivative is 1 - tanh(x)²")
    x = torch.tensor([-2.0, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    ones = torch.ones(3, dtype=torch.float64, requires_grad=True)
    seconds = torch.tensor([1 - math.tanh(number) ** 2 for number in (-2.0, 0.5, 1.0)], dtype=torch.float64)
    seen = observe_scenario(derivatives, log_cosh, x, ones)
    has_derivatives(seen, torch.tensor([math.tanh(v) for v in (-2.0, 0.5, 1.0)], dtype=torch.float64), seconds)

    ### BEGIN HIDDEN TESTS
    kink = mistake(
        "At x = 0 the second derivative must be 1; |x| has a kink there and sign(0) = 0 swallows it.",
        when=lambda seen: not torch.allclose(seen["second"], torch.ones(1, dtype=torch.float64)),
    )
    test.hidden("x = 0: the first derivative is 0, the second is 1")
    one = torch.ones(1, dtype=torch.float64, requires_grad=True)
    for zero in (0.0, -0.0):
        x = torch.tensor([zero], dtype=torch.float64, requires_grad=True)
        seen = observe_scenario(derivatives, log_cosh, x, one)
        has_derivatives(seen, x.detach().abs(), one.detach(), kink)

    test.hidden("x = 50, -800 and 1e4: the first derivative is 1, -1 and 1, the second is 0")
    x = torch.tensor([50.0, -800.0, 1e4, -1e4, 400.0], dtype=torch.float64, requires_grad=True)
    seen = observe_scenario(derivatives, log_cosh, x, torch.ones(5, dtype=torch.float64, requires_grad=True))
    far_out = mistake("The gradient is nan or wrong for large |x|.", when=lambda seen: True)
    has_derivatives(seen, x.detach().sign(), torch.zeros(5, dtype=torch.float64), far_out)

    torch.manual_seed(3)
    matrix = torch.randn(3, 4, dtype=torch.float64) * 3
    test.hidden("a matrix with other incoming gradients")
    seen = observe_scenario(derivatives, log_cosh, matrix.clone().requires_grad_(), (matrix + 7).requires_grad_())
    has_derivatives(seen, matrix.tanh() * (matrix + 7), (matrix + 7) * (1 - matrix.tanh() ** 2))

    def checked_twice(log_cosh, x):
        """gradcheck's and gradgradcheck's opinion."""
        return [check(log_cosh, (x,), raise_exception=False) for check in (gradcheck, gradgradcheck)]

    test.hidden("gradcheck and gradgradcheck for a matrix")
    observe_scenario(checked_twice, log_cosh, matrix[:2].clone().requires_grad_()).returns(
        [True, True], because="The second derivative is wrong: gradgradcheck fails."
    )

    def penalty(log_cosh, w, x):
        """The gradient of a gradient penalty with respect to the weights."""
        (slope,) = torch.autograd.grad(log_cosh(x @ w).sum(), x, create_graph=True)
        (gradient,) = torch.autograd.grad((slope.norm(dim=1) - 1).pow(2).sum(), w)
        return gradient

    test.hidden("a gradient penalty")
    w = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    data = (matrix / 5).requires_grad_()
    observe_scenario(penalty, log_cosh, w, data).returns(
        penalty(lambda x: torch.log(torch.cosh(x)), w, data),
        because="A gradient penalty through log_cosh gets the wrong gradient.",
    )

    test.hidden("many values")
    x = torch.cat([torch.linspace(-12, 12, 241, dtype=torch.float64), torch.tensor([-1e4, 700, -711, 1e3]).double()])
    expected = [abs(v) + math.log1p(math.exp(-2 * abs(v))) - math.log(2) for v in x.tolist()]
    observe(log_cosh, x).returns(torch.tensor(expected, dtype=torch.float64), *value_is_off, **precise)

    keep_dtype = mistake("The dtype must be kept: {detail}", stage="dtype")
    for idea, some_x in [
        ("float32", torch.tensor([-1e4, -95.0, -3, -0.3, 0, 0.7, 2, 30, 89, 1000])),
        ("a 0-d x", torch.tensor(-0.7)),
        ("an empty x", torch.empty(0, 2)),
        ("a transposed x", matrix.float().t()),
    ]:
        test.hidden(idea)
        expected = [abs(v) + math.log1p(math.exp(-2 * abs(v))) - math.log(2) for v in some_x.flatten().tolist()]
        expected = torch.tensor(expected).reshape(some_x.shape)
        seen = observe(log_cosh, some_x)
        seen.returns(expected, keep_dtype, *value_is_off, rtol=1e-5, atol=1e-6)
        seen.is_untracked()
        seen.leaves_arguments_alone()
        seen = observe(log_cosh, some_x.clone().requires_grad_())
        seen.gives_gradients(
            {0: incoming_gradient(some_x) * some_x.tanh()},
            because="The first derivative is wrong: {detail}",
            rtol=1e-5,
            atol=1e-6,
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 5.7 Gradients by choice
#
# So far `backward` had a duty: the derivative. Now it is a decision. In Exercise 5.3 you repaired a *gradient
# reversal*: it does nothing on the way forward and turns the gradient round on the way back, so that the layers before
# it learn to make the task behind it harder. In domain adaptation that task is to tell two data sets apart.
#
# **Predict.** Does the factor have to be a whole number, as old code asserts? `forward` returns `x` itself: is the
# result the same object? And what does gradcheck say?


# %% facts=["05-gradient-reversal-function", "05-gradient-reversal-int-only", "05-gradient-reversal-view-as"]
class ReverseGradient(Function):
    @staticmethod
    def forward(x, strength):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.strength = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


x = torch.tensor([1.0, 2.0], requires_grad=True)
for strength in (1, 0.3, 0):
    (grad,) = torch.autograd.grad(ReverseGradient.apply(x, strength), x, torch.tensor([1.0, 10.0]))
    print(f"strength {strength}:", [round(number, 4) for number in grad.tolist()])

y = ReverseGradient.apply(x, 1)
print("the same object:", y is x, "- a view of x:", y._base is x, "- node:", type(y.grad_fn).__name__)
double = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(lambda t: ReverseGradient.apply(t, 1), double, raise_exception=False))

# %% [markdown]
# Any number from 0 up will do; training usually raises it slowly from 0 to 1. An input that `forward` returns as it is
# becomes a view with the Function's node, so `x.view_as(x)`, which you find in older code, is good style and no longer
# needed.
#
# gradcheck fails, and it must: the slope of the identity is 1, and we return something else. So test the decision
# itself: the gradient that comes out, against the one that you wanted.

# %% [markdown]
# **Predict.** The other famous case is the step: rounding, sign, quantising. What is the derivative of `torch.round`,
# where it exists, and what would the layers before it learn?


# %% facts=["05-not-needed-for-builtin-ops"]
class RoundStraightThrough(Function):
    @staticmethod
    def forward(x):
        return torch.round(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


def round_by_detour(x: Tensor) -> Tensor:
    """The same without a Function: to autograd, what is detached is a constant."""
    return x + (torch.round(x) - x).detach()


x = torch.tensor([0.2, 0.7, 1.4], requires_grad=True)
for function in (torch.round, RoundStraightThrough.apply, round_by_detour):
    y = function(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    print(y.tolist(), "gradient:", grad.tolist())

# %% [markdown]
# 0 everywhere: nothing would be learned. The *straight-through* gradient pretends that rounding was the identity. It
# need not be that: any smooth function that resembles the step, a *surrogate*, can lend its derivative. The last
# version needs no Function at all: the detached difference is a constant to autograd, so the gradient is that of `x`.
# (Adding and subtracting may round in the last digit; the Function returns exactly what `torch.round` returns.)
#
# In the explorer below, the upper curve is the step, the lower one the gradient that leaves `backward` when 1 comes in;
# dashed, what gradcheck would expect. It opens on sign with the tanh surrogate. Move *steepness* up: the surrogate
# comes closer to the step, and its gradient is nearly 0 in more and more of the range. Then choose "round" with
# "identity".

# %%
surrogate_explorer()

# %% [markdown]
# **Predict.** A third decision: let only the middle of a gradient pass. [3, -1, 2, 0.5] comes in, and the entries
# outside of the quartiles are set to 0. One of the two versions sorts first. Which one is wrong?


# %% facts=["05-filter-the-sorted-gradient"]
def middle(gradient: Tensor, values: Tensor) -> Tensor:
    """`values`, with those set to 0 that lie outside the quartiles of the gradient."""
    low, high = torch.quantile(gradient, torch.tensor([0.25, 0.75]))
    return torch.where((values < low) | (values > high), 0.0, values)


class KeepMiddle(Function):
    @staticmethod
    def forward(ctx, x, sort_first):
        ctx.sort_first = sort_first
        return x

    @staticmethod
    def backward(ctx, grad_output):
        values = grad_output.sort().values if ctx.sort_first else grad_output
        return middle(grad_output, values), None


x = torch.zeros(4, requires_grad=True)
incoming = torch.tensor([3.0, -1.0, 2.0, 0.5])
for sort_first in (True, False):
    (grad,) = torch.autograd.grad(KeepMiddle.apply(x, sort_first), x, incoming)
    print(f"sort first: {sort_first!s:5}", grad.tolist())

# %% [markdown]
# The sorted one. 2 and 0.5 stay in both, but after sorting they have changed places: the weights get each other's
# gradients. The shape is right, nothing raises, and gradcheck can't help, because it must fail anyway. Find the
# thresholds in a sorted copy if you like, and apply them to the gradient as it came; or put the values back with
# `scatter_`, as in section 3.5.

# %% [markdown]
# ## 5.8 Your own classes in torch functions
#
# From here on it is not about gradients. How does `torch.mean` know what to do with an object that is no tensor?
#
# **Predict.** What do the two calls say: for an object of a plain class, and for one with a method `__torch_function__`
# that returns NotImplemented?


# %% facts=["05-torch-function-duck-type"]
class Plain:
    pass


class Declines:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


error_of(lambda: torch.mean(Plain()))
error_of(lambda: torch.mean(Declines()), lines=1)

# %% [markdown]
# The first is no tensor, and that is the end. With the second, torch asked: "all `__torch_function__` handlers returned
# NotImplemented". A torch function that meets a class with this method hands the call over to it before doing anything
# else. The class need not be a Tensor.

# %% [markdown]
# **Predict.** What exactly arrives in the method? `func`, the types, the arguments: as lists or tuples? Is
# `torch.Tensor` among the types?


# %% facts=["05-torch-function-arguments"]
class Curious:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        which = {torch.add: "torch.add", Tensor.add: "Tensor.add", torch.stack: "torch.stack"}[func]
        names = [kind.__name__ for kind in types]
        print(f"{which:12} types: {names}, args: {type(args).__name__}, kwargs: {kwargs}")


curious, t = Curious(), torch.ones(2)
torch.add(t, curious, alpha=2)
t + curious
curious + t
torch.stack([t, curious])

# %% [markdown]
# `types` holds only classes that have the method themselves, each once; plain torch.Tensor is left out. `args` is a
# tuple, and `kwargs` a dict or None, so write `kwargs or {}`. Notice `func`: an operator arrives as the *method*
# `Tensor.add`, which is another object than the function `torch.add`, although both are called "add". In a list, too,
# the object is found.

# %% [markdown]
# **Predict.** `Repeated` stands for n times the same number, without storing them. A table says which torch function
# does what. In which of the three calls is it found?

# %% facts=["05-torch-function-duck-type"]
TABLE = {}


def implements(torch_function):
    """Enter the decorated function into the table."""

    def enter(function):
        TABLE[torch_function] = function
        return function

    return enter


class Repeated:
    def __init__(self, n: int, value: float):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in TABLE:
            return NotImplemented
        return TABLE[func](*args, **(kwargs or {}))


@implements(torch.mean)
def mean_of_repeated(r: Repeated) -> float:
    return r.value


def sum_of_repeated(r: Repeated) -> float:
    return r.n * r.value


many = Repeated(1_000_000, 2.5)
print("mean:", torch.mean(many))
error_of(lambda: torch.sum(many), lines=1)
error_of(lambda: many + many)

# %% [markdown]
# Only in the first. `sum_of_repeated` is written, but never entered: its decorator line is missing. (This mistake
# travels with a well-known example from which the lines with `@` got lost.) And `many + many` is Python's affair before
# it is torch's: two objects of a class without `__add__`. Where a tensor takes part, its own operator hands the call
# over, as you saw above.

# %% [markdown]
# **Predict.** Now a subclass of Tensor, with nothing in it. Which of these results are of the subclass?

# %% facts=["05-subclass-is-preserved"]


class Tagged(Tensor):
    pass


t = torch.ones(2).as_subclass(Tagged)
results = {
    "t + 1": t + 1,
    "torch.ones(2) * t": torch.ones(2) * t,
    "t.sum()": t.sum(),
    "t[0]": t[0],
    "torch.stack([t, t])": torch.stack([t, t]),
    "t.as_subclass(Tensor)": t.as_subclass(Tensor),
}
for expression, result in results.items():
    print(f"{expression:22} {type(result).__name__}")

# %% [markdown]
# All but the last. Tensor has a `__torch_function__` of its own, which runs the function and turns the result into the
# subclass, for mixed operands too. `as_subclass` is the way in and, with `Tensor`, the way out.

# %% [markdown]
# **Predict.** A subclass that notes each call overrides the method. Three attempts: the first calls `func` itself, the
# second formats the arguments into its note, the third writes only the name. Which work?


# %% facts=["05-logging-tensor", "05-torch-function-must-call-super"]
class CallsFunc(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class FormatsArguments(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        note = f"{func.__name__} with {args}"
        notes.append(note)
        return super().__torch_function__(func, types, args, kwargs or {})


class Logged(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        notes.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def message_of_adding_one(kind: type[Tensor]) -> str:
    try:
        return f"{(torch.ones(1).as_subclass(kind) + 1).item()}"
    except RecursionError:
        return "RecursionError"


notes = []
for kind in (CallsFunc, FormatsArguments, Logged):
    notes.clear()
    print(f"{kind.__name__:17}", message_of_adding_one(kind))

notes.clear()
t = torch.arange(3.0).as_subclass(Logged)
total = torch.sum(2 * t)
shape = total.shape
print("notes:", notes)

# %% [markdown]
# Only the third. `func` gets arguments of the subclass, so calling it leads back into the override, again and again.
# Formatting an argument calls its `__repr__`, which is a method of Tensor and goes through the override as well.
# `super().__torch_function__(func, types, args, kwargs)` runs the function with the protocol switched off. (In some
# copies of this example the underscores got lost; `super().torch_function` doesn't exist.)
#
# In the notes, `2 * t` is "mul", and even looking at `total.shape` appears, as `__get__`.

# %% [markdown]
# **Predict.** All examples had `@classmethod`. What if it is forgotten?


# %% facts=["05-torch-function-plain-method"] shows_warning="UserWarning"
class PlainMethod:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return "handled"


warning_of(lambda: print(torch.mean(PlainMethod())))

# %% [markdown]
# It still works and warns, though only once in a process, so that it is easily missed. It will be an error one day;
# write `@classmethod`.

# %% [markdown]
# ### Exercise 5.7 · c times the identity, without the identity
#
# implement · solid · 18 min · 2 points
#
# `c * torch.eye(n)` needs n² numbers to say one. Write a class that stands for this matrix, that torch functions
# accept, and that never builds it. It is a plain class, no subclass of Tensor.
#
# **Contract**
#
# - `E = ScaledEye(n, c)` has the attributes n and c; c is a float or a 0-d tensor.
# - These work, with the results of the dense matrix: `torch.matmul(E, t)`, `torch.matmul(t, E)`, `E @ t`, `t @ E` and
#   `t.matmul(E)` for t of shape (n,), (n, m) or (m, n), as it fits; `torch.trace(E)` and `torch.diagonal(E)`, which are
#   tensors. A float64 t gives a float64 result.
# - `torch.add(E, F)` and `torch.matmul(E, F)` of two ScaledEyes give a ScaledEye.
# - Further arguments, such as `alpha` of `torch.add` or `offset` of `torch.diagonal`, need not be understood, but must
#   not be ignored: they raise TypeError, or the result is right.
# - If c requires grad, gradients reach it. A size that does not fit raises ValueError or RuntimeError.
# - Every other torch function raises TypeError, and that is the protocol's own: where `__torch_function__` returns
#   NotImplemented, torch asks the classes of the other arguments, and raises if they don't know either. No deprecation
#   warning.
#
# **Rule.** No tensor of n · n elements is made: this is recorded, and n = 100,000 occurs in the tests.
#
# <details><summary>Hint 1</summary>
#
# `torch.matmul(E, t)` asks E's class what to do: with which four arguments, and what do you return for functions that
# you do not know?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A classmethod with a table from torch functions to your own. `t @ E` arrives as another function object than
# `torch.matmul` (print func), and `E @ t` is Python's own protocol first. If your functions get all of `args` and
# `kwargs`, Python itself raises TypeError for what they don't know.
#
# </details>


# %% answer="scaled-eye"
class ScaledEye:
    """Stands for c * torch.eye(n) in torch functions, and holds nothing but n and c (a float or a 0-d tensor)."""

    ### BEGIN SOLUTION
    def __init__(self, n: int, c: float | Tensor):
        self.n, self.c = n, c

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs:
            return NotImplemented
        if func in (torch.matmul, Tensor.matmul):
            return cls._product(*args)
        if func is torch.add and all(isinstance(arg, cls) for arg in args):
            return cls._combined(*args, args[0].c + args[1].c)
        if func is torch.diagonal and len(args) == 1:
            return torch.as_tensor(args[0].c).expand(args[0].n)
        if func is torch.trace:
            return torch.as_tensor(args[0].c * args[0].n)
        return NotImplemented

    @classmethod
    def _product(cls, left, right):
        if isinstance(left, cls) and isinstance(right, cls):
            return cls._combined(left, right, left.c * right.c)
        eye, t, size = (left, right, right.shape[:1]) if isinstance(left, cls) else (right, left, left.shape[-1:])
        if size != (eye.n,):
            raise ValueError(f"a matrix of {eye.n} × {eye.n} does not fit a tensor of shape {tuple(t.shape)}")
        return eye.c * t

    @classmethod
    def _combined(cls, left, right, c):
        if left.n != right.n:
            raise ValueError(f"the sizes {left.n} and {right.n} do not fit")
        return cls(left.n, c)

    def __matmul__(self, other):
        return torch.matmul(self, other)

    ### END SOLUTION
    ### BEGIN GIVEN
    # def __init__(self, n: int, c: float | Tensor):
    #     raise NotImplementedError  # your code here
    ### END GIVEN


# %% check="scaled-eye" points=1
"""Products from both sides, in all spellings, without a dense matrix."""
with check("scaled-eye") as test:

    def product(ScaledEye, spelling, n, c, t):
        """E times t or t times E, in one of five spellings."""
        E = ScaledEye(n, c)
        if spelling == "torch.matmul(E, t)":
            return torch.matmul(E, t)
        if spelling == "torch.matmul(t, E)":
            return torch.matmul(t, E)
        if spelling == "E @ t":
            return E @ t
        return t @ E if spelling == "t @ E" else t.matmul(E)

    def handler(ScaledEye):
        """What kind of method __torch_function__ is, and whether torch warns when it meets the class."""
        torch.matmul(ScaledEye(3, 2.5), torch.ones(3))
        found = inspect.getattr_static(ScaledEye, "__torch_function__", None)
        is_class = isinstance(ScaledEye, type)
        return {
            "kind": type(found).__name__,
            "class": is_class,
            "tensor": is_class and issubclass(ScaledEye, Tensor),
        }

    refused = mistake(
        "torch functions refuse the object: it needs a classmethod __torch_function__(cls, func, types, args=(), "
        "kwargs=None).",
        raises="must be Tensor, not ",
    )
    vector = torch.tensor([1.0, -2.0, 4.0])
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-4.0, 7.0]])

    test("torch.matmul(E, t) for a vector and a matrix, n = 3 and c = 2.5")
    seen = observe_scenario(product, ScaledEye, "torch.matmul(E, t)", 3, 2.5, vector)
    seen.returns(torch.tensor([2.5, -5.0, 10.0]), refused)
    seen.leaves_arguments_alone()
    seen = observe_scenario(product, ScaledEye, "torch.matmul(E, t)", 3, 2.5, matrix)
    seen.returns(torch.tensor([[2.5, 5.0], [7.5, 12.5], [-10.0, 17.5]]), refused)

    test("__torch_function__ is a classmethod, and ScaledEye no subclass of Tensor")
    seen = observe_scenario(handler, ScaledEye)
    seen.that(seen["class"], "ScaledEye is to be a class.", stage="type")
    plain = "`__torch_function__` is a plain method: deprecated. Make it a classmethod."
    seen.that(seen["kind"] != "function", plain, stage="rule")
    seen.warned_nothing(because="torch warns about the class: {detail}")
    seen.that(not seen["tensor"], "ScaledEye is to be a plain class, not a subclass of Tensor.", stage="rule")

    one_sided = mistake("The product must work from both sides: {detail}", stage=("raised", "type", "shape", "value"))
    test("torch.matmul(t, E) for a vector and a matrix")
    seen = observe_scenario(product, ScaledEye, "torch.matmul(t, E)", 3, 2.5, vector)
    seen.returns(torch.tensor([2.5, -5.0, 10.0]), one_sided)
    seen = observe_scenario(product, ScaledEye, "torch.matmul(t, E)", 3, 2.5, matrix.t())
    seen.returns(torch.tensor([[2.5, 7.5, -10.0], [5.0, 12.5, 17.5]]), one_sided)

    ### BEGIN HIDDEN TESTS
    spellings = "torch.matmul(E, t)", "torch.matmul(t, E)", "E @ t", "t @ E", "t.matmul(E)"
    for spelling in spellings:
        test.hidden(spelling)
        must_work = mistake(
            f"{spelling} must work too: {{detail}}. The operators arrive as other function objects than torch.matmul, "
            "and E @ t starts with Python's own __matmul__.",
            stage=("raised", "type"),
        )
        from_left = spelling.index("E") < spelling.rindex("t")
        for t in (
            vector,
            matrix if from_left else matrix.t(),
            vector.double(),
            torch.empty((3, 0)[:: 1 if from_left else -1]),
        ):
            seen = observe_scenario(product, ScaledEye, spelling, 3, -0.75, t)
            seen.returns(-0.75 * t, must_work, mistake("The dtype of t must be kept: {detail}", stage="dtype"))
            seen.warned_nothing(because="torch warns about the class: {detail}")

    def dense(seen, n):
        """The operations that made a tensor of n * n elements or more."""
        return ", ".join(dict.fromkeys(op["name"] for op in seen.noted.ops if op["elements"] >= n * n))

    for n in (12, 1000, 100_000):
        test.hidden(f"n = {n:,}: no n × n tensor")
        t = torch.arange(2.0 * n).reshape(n, 2)
        for spelling in spellings:
            from_left = spelling.index("E") < spelling.rindex("t")
            seen = observe_scenario(product, ScaledEye, spelling, n, 2.0, t if from_left else t.t())
            made = dense(seen, n)
            seen.that(
                not made,
                f"A dense n x n tensor was made, by {made}. c * t is all that the product needs.",
                stage="rule",
            )
            seen.returns(2 * (t if from_left else t.t()))

    for spelling in spellings:
        test.hidden(f"{spelling}: gradients reach c and t")
        c, t = torch.tensor(1.5, requires_grad=True), vector.clone().requires_grad_()
        seen = observe_scenario(product, ScaledEye, spelling, 3, c, t)
        g = incoming_gradient(t)
        seen.returns((c * t).detach())
        lost = mistake(
            "No gradient reaches c: it was converted to a Python number.",
            stage="gradient",
            when=lambda seen: list(seen.noted.gradients.values())[:1] in ([], [None]),
        )
        names = list(seen.noted.arguments)
        seen.gives_gradients({names.index("c"): (g * t).sum().detach(), names.index("t"): 1.5 * g}, lost)

    for spelling in spellings:
        test.hidden(f"{spelling}: a size that does not fit is refused")
        from_left = spelling.index("E") < spelling.rindex("t")
        for size in (
            (4,),
            (1,),
            (2,),
            (4, 2),
            (1, 3) if from_left else (3, 1),
            (2, 3) if from_left else (3, 2),
            (4, 4),
        ):
            seen = observe_scenario(product, ScaledEye, spelling, 3, 2.5, torch.ones(size))
            seen.raises(
                ValueError,
                RuntimeError,
                because=f"A size that does not fit must raise ValueError or RuntimeError: {spelling} with n = 3 and "
                f"t of shape {size}.",
            )
    ### END HIDDEN TESTS

# %% check="scaled-eye" points=1
"""trace, diagonal, sums and products of two; every other function ends in the protocol's TypeError."""
with check("scaled-eye") as test:

    def applied(ScaledEye, function, n, c):
        """The trace or the diagonal."""
        E = ScaledEye(n, c)
        return torch.trace(E) if function == "trace" else torch.diagonal(E)

    refused = mistake(
        "torch functions refuse the object: it needs a classmethod __torch_function__(cls, func, types, args=(), "
        "kwargs=None).",
        raises="must be Tensor, not ",
    )
    test("trace and diagonal of 2.5 times the identity, n = 3: tensors")
    observe_scenario(applied, ScaledEye, "trace", 3, 2.5).returns(torch.tensor(7.5), refused)
    observe_scenario(applied, ScaledEye, "diagonal", 3, 2.5).returns(torch.tensor([2.5, 2.5, 2.5]), refused)

    def combined(ScaledEye, function, n, c, m, d):
        """The sum or the product of two, with what it does to a vector of ones."""
        E, F = ScaledEye(n, c), ScaledEye(m, d)
        out = torch.add(E, F) if function == "add" else torch.matmul(E, F)
        if not isinstance(out, ScaledEye):
            return {"kind": type(out).__name__}
        times_ones = torch.matmul(out, torch.ones(n)) if n < 9 else None
        return {"kind": "ScaledEye", "n": out.n, "c": float(out.c), "times ones": times_ones}

    again = mistake(
        "The sum (or product) of two ScaledEyes is a ScaledEye again: {detail}",
        when=lambda seen: seen.noted.raised or seen["kind"] != "ScaledEye",
    )
    test("torch.add and torch.matmul of two, with the factors 2.5 and 4 and n = 3")
    seen = observe_scenario(combined, ScaledEye, "add", 3, 2.5, 3, 4.0)
    seen.returns({"kind": "ScaledEye", "n": 3, "c": 6.5, "times ones": torch.full((3,), 6.5)}, again)
    seen = observe_scenario(combined, ScaledEye, "matmul", 3, 2.5, 3, 4.0)
    seen.returns(
        {"kind": "ScaledEye", "n": 3, "c": 10.0, "times ones": torch.full((3,), 10.0)},
        mistake(
            "The product of two ScaledEyes multiplies their factors: {detail}",
            when=lambda seen: seen["c"] == 6.5,
        ),
        again,
    )

    def unknown(ScaledEye, name):
        """Call a function that ScaledEye does not know; what came of it?"""
        E = ScaledEye(3, 2.5)
        function = {"torch.exp": torch.exp, "torch.linalg.inv": torch.linalg.inv, "torch.sum": torch.sum}.get(name)
        try:
            out = function(E) if function else torch.sub(E, E)
        except Exception as error:
            return {"outcome": f"it raised {type(error).__name__}", "kinds": [t.__name__ for t in type(error).__mro__]}
        return {"outcome": f"it returned an object of type {type(out).__name__}", "kinds": []}

    def ends_in_type_error(seen, name):
        """Judge what came of an unknown function."""
        seen.that(
            "TypeError" in seen["kinds"],
            f"An unknown function must end in TypeError; return NotImplemented from __torch_function__. For {name} "
            f"{seen['outcome']}.",
        )

    test("torch.exp(E) and torch.linalg.inv(E) raise TypeError")
    for name in ("torch.exp", "torch.linalg.inv"):
        ends_in_type_error(observe_scenario(unknown, ScaledEye, name), name)

    ### BEGIN HIDDEN TESTS
    for name in ("torch.sum", "torch.sub"):
        test.hidden(f"{name} raises TypeError")
        ends_in_type_error(observe_scenario(unknown, ScaledEye, name), name)

    def with_more(ScaledEye, call):
        """Call a known function with one more argument; what came of it?"""
        E, F = ScaledEye(3, 2.5), ScaledEye(3, 4.0)
        try:
            if call == "torch.add(E, F, alpha=2)":
                return float(torch.add(E, F, alpha=2).c)
            return (torch.diagonal(E, offset=1) if "=" in call else torch.diagonal(E, 1)).tolist()
        except TypeError:
            return "TypeError"

    for call, right in [
        ("torch.add(E, F, alpha=2)", 10.5),
        ("torch.diagonal(E, offset=1)", [0.0, 0.0]),
        ("torch.diagonal(E, 1)", [0.0, 0.0]),
    ]:
        test.hidden(f"{call}: TypeError, or right")
        seen = observe_scenario(with_more, ScaledEye, call)
        seen.that(
            seen.value in ("TypeError", right),
            f"{call}: the additional argument was ignored, and the result is wrong. Raise TypeError for arguments that "
            "you don't support.",
        )

    def in_company(ScaledEye):
        """A function that ScaledEye does not know, but the class of the other argument does."""

        class Willing:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return "asked"

        return torch.atan2(ScaledEye(3, 2.5), Willing())

    test.hidden("an unknown function is left to the class of the other argument")
    observe_scenario(in_company, ScaledEye).returns(
        "asked",
        mistake(
            "An unknown function must end in the protocol's own TypeError: where __torch_function__ returns "
            "NotImplemented, the class of the other argument is asked, too. Here it was not.",
            stage=("raised", "type", "value"),
        ),
    )

    def dense(seen, n):
        """The operations that made a tensor of n * n elements or more."""
        return ", ".join(dict.fromkeys(op["name"] for op in seen.noted.ops if op["elements"] >= n * n))

    for n in (12, 1000, 100_000):
        test.hidden(f"n = {n:,}: no n × n tensor")
        for seen, expected in [
            (observe_scenario(applied, ScaledEye, "trace", n, -0.5), torch.tensor(-0.5 * n)),
            (observe_scenario(applied, ScaledEye, "diagonal", n, -0.5), torch.full((n,), -0.5)),
        ]:
            made = dense(seen, n)
            seen.that(not made, f"A dense n x n tensor was made, by {made}.", stage="rule")
            seen.returns(expected)
        for function, c in (("add", 1.75), ("matmul", -1.5)):
            seen = observe_scenario(combined, ScaledEye, function, n, -0.5 if function == "matmul" else -1.25, n, 3.0)
            made = dense(seen, n)
            seen.that(not made, f"A dense n x n tensor was made, by {made}.", stage="rule")
            seen.returns({"kind": "ScaledEye", "n": n, "c": c, "times ones": None}, again)

    lost = mistake(
        "No gradient reaches c: it was converted to a Python number.",
        stage="gradient",
        when=lambda seen: not seen.noted.gradients or None in seen.noted.gradients.values(),
    )
    c = torch.tensor(1.5, requires_grad=True)
    for function, value, factor in [("trace", torch.tensor(6.0), 4), ("diagonal", torch.full((4,), 1.5), 1)]:
        test.hidden(f"torch.{function}: gradients reach c")
        seen = observe_scenario(applied, ScaledEye, function, 4, c)
        seen.returns(value)
        seen.gives_gradients({2: incoming_gradient(value).sum() * factor}, lost)

    def factor_of(ScaledEye, function, c, d):
        """c of the sum or the product of two."""
        E, F = ScaledEye(5, c), ScaledEye(5, d)
        return (torch.add(E, F) if function == "add" else torch.matmul(E, F)).c

    for function, value, slopes in [("add", 3.5, (1, 1)), ("matmul", 3.0, (2, 1.5))]:
        test.hidden(f"torch.{function} of two: gradients reach both factors")
        pair = torch.tensor(1.5, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        seen = observe_scenario(factor_of, ScaledEye, function, *pair)
        seen.returns(torch.tensor(value))
        g = incoming_gradient(torch.tensor(value))
        seen.gives_gradients({1: g * slopes[0], 2: g * slopes[1]}, lost)

    test.hidden("two of different sizes are refused")
    for function in ("add", "matmul"):
        for n, m in ((3, 4), (4, 3), (1, 3)):
            seen = observe_scenario(combined, ScaledEye, function, n, 2.5, m, 4.0)
            seen.raises(
                ValueError,
                RuntimeError,
                because=f"A size that does not fit must raise: torch.{function} of two with n = {n} and n = {m}.",
            )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 5.8 · A tensor that keeps a diary
#
# fix · solid · 15 min · 2 points
#
# `Audit` is to write down which torch functions its tensors go through: a tool to find out who calls what in a library.
# As it stands, `torch.ones(2, 3).as_subclass(Audit) + 1` ends in a RecursionError.
#
# **Contract**
#
# - Every torch function or method that gets an Audit tensor adds one entry to the list `Audit.diary`, before it runs:
#   `(func.__name__, shapes)`, where shapes is the tuple of the shapes of the tensors among its positional arguments.
#   Tensors inside of lists or keyword arguments don't count there. Calls that a torch function makes inside are not
#   logged.
# - Names that begin and end with two underscores are not logged, except `__getitem__` and `__setitem__`. So printing,
#   attributes and `len` leave no trace.
# - Results, in tuples too, are Audit tensors. Values, gradients and keyword arguments are right, and operands may be
#   mixed in either order. `x.as_subclass(torch.Tensor)` gives a plain tensor, which is not logged any more.
# - No deprecation warning, no recursion.
#
# <details><summary>Hint 1</summary>
#
# Two different things recurse here: calling func with Audit arguments, and formatting args. Where does each lead?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A classmethod that passes the call on to `super().__torch_function__` (with all four arguments). Take shapes instead
# of formatting; and `x.shape` of an Audit tensor goes through the protocol too (as `__get__`).
#
# </details>


# %% answer="audit-tensor"
class Audit(torch.Tensor):
    """A tensor that notes in Audit.diary which torch functions it goes through, with the shapes of their tensors."""

    ### BEGIN SOLUTION
    diary: ClassVar[list[tuple[str, tuple[torch.Size, ...]]]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = func.__name__
        hidden = name.startswith("__") and name.endswith("__") and name not in ("__getitem__", "__setitem__")
        if not hidden:
            Audit.diary.append((name, tuple(arg.shape for arg in args if isinstance(arg, Tensor))))
        return super().__torch_function__(func, types, args, kwargs)

    ### END SOLUTION
    ### BEGIN GIVEN
    # diary = []
    #
    # def __torch_function__(self, func, types, args=(), kwargs=None):
    #     raise NotImplementedError  # repair the code below, then delete this line
    #     Audit.diary.append(f"{func.__name__} {args}")
    #     return func(*args, **kwargs)
    ### END GIVEN


# %% check="audit-tensor" points=2
"""One entry for each call, with the shapes; results are Audit tensors; nothing else changes."""
with check("audit-tensor") as test:

    def entries(Audit):
        """The diary as it is now, in plain form; then it is emptied."""
        taken = list(Audit.diary)
        Audit.diary.clear()
        pairs = [isinstance(e, tuple) and len(e) == 2 and isinstance(e[1], (tuple, list)) for e in taken]
        return [
            [str(e[0]), [list(s) if isinstance(s, tuple) else type(s).__name__ for s in e[1]]] if pair else "no pair"
            for e, pair in zip(taken, pairs, strict=True)
        ]

    def plain(result):
        """A result in plain form: its values, and whether it is an Audit tensor; tuples item by item."""
        with torch._C.DisableTorchFunctionSubclass():
            if isinstance(result, Tensor):
                return {"kind": type(result).__name__, "values": result.detach().as_subclass(Tensor).clone()}
            return [plain(item) for item in result] if isinstance(result, (tuple, list)) else result

    def made(Audit, rows, columns, start=0.0):
        """An Audit tensor, and an empty diary."""
        x = (torch.arange(float(rows * columns)).reshape(rows, columns) + start).as_subclass(Audit)
        Audit.diary.clear()
        return x

    def one_call(Audit, call):
        """Make one call; its result and the diary."""
        x, y, p = made(Audit, 2, 3), made(Audit, 3, 4, 0.5), torch.ones(2, 3)
        calls = {
            "x + 1": lambda: x + 1,
            "torch.matmul(x, y)": lambda: torch.matmul(x, y),
            "F.softmax(x, dim=1)": lambda: F.softmax(x, dim=1),
            "x[0]": lambda: x[0],
            "p + x": lambda: p + x,
            "x - p": lambda: x - p,
            "p @ y": lambda: p @ y,
            "2 * x": lambda: 2 * x,
            "x.split(2, dim=1)": lambda: x.split(2, dim=1),
            "x.max(dim=1)": lambda: tuple(x.max(dim=1)),
            "torch.stack([p, x])": lambda: torch.stack([p, x]),
            "x.sum(dim=1, keepdim=True)": lambda: x.sum(dim=1, keepdim=True),
            "torch.add(p, other=x)": lambda: torch.add(p, other=x),
            "F.layer_norm(q, (3,), weight=y[:, 1])": lambda: F.layer_norm(p + p.cumsum(1), (3,), weight=y[:, 1]),
            "torch.where(p > 0, x, p)": lambda: torch.where(p > 0, x, p),
            "x.sum().item()": lambda: x.sum().item(),
            "-x.t()": lambda: -x.t(),
        }
        result = calls[call]()
        return {"result": plain(result), "log": entries(Audit)}

    def is_logged(seen, log, *mistakes):
        """Judge the diary of one call."""
        came = seen["log"]
        odd = [entry for entry in came if isinstance(entry, str)]
        seen.that(
            not odd, "An entry must be a pair: the function's name and a tuple of shapes.", *mistakes, stage="type"
        )
        names, wanted = [name for name, _ in came], [name for name, _ in log]
        inner = [name for name in dict.fromkeys(wanted) if names.count(name) > wanted.count(name)]
        seen.that(
            not inner, f"A call appears more than once (inner calls are logged too): {', '.join(inner)}.", *mistakes
        )
        lost = [name for name in dict.fromkeys(wanted) if names.count(name) < wanted.count(name)]
        seen.that(not lost, f"A call is missing in the diary: {', '.join(lost)}.", *mistakes)
        extra = [name for name in dict.fromkeys(names) if name not in wanted]
        seen.that(not extra, f"The diary holds calls that do not belong there: {', '.join(extra)}.", *mistakes)
        seen.that(
            [list(entry) for entry in came] == [[name, [list(s) for s in shapes]] for name, shapes in log],
            f"The entry must hold the shapes of the direct tensor arguments: expected {log}, got {came}.",
            *mistakes,
        )

    def is_right(seen, values, *mistakes):
        """Judge the result of one call: an Audit tensor with these values."""
        came = seen["result"]
        is_tensor = isinstance(came, dict)
        kind = came["kind"] if is_tensor else type(came).__name__
        seen.that(kind == "Audit", f"Results must be Audit tensors, not of type {kind}.", *mistakes, stage="type")
        right = came["values"].shape == values.shape and torch.allclose(came["values"].float(), values.float())
        seen.that(right, "The result of the call is wrong.", *mistakes)

    def recursion_in(words):
        """Whether the code of the learner went round and round in lines with one of these words."""

        def through(seen):
            lines = [source for _, _, source in seen.noted.raised["frames"][:-1]]
            return any(word in line for word in words for line in lines)

        return through

    known = [
        mistake(
            "`func(*args)` on Audit tensors lands in __torch_function__ again: pass the call on through "
            "super().__torch_function__.",
            raises="^RecursionError",
            when=recursion_in(["func(*"]),
        ),
        mistake(
            "`x.shape` and the like go through __torch_function__ again, as __get__: see to it that names with double "
            "underscores are passed on before you ask for shapes.",
            raises="^RecursionError",
            when=recursion_in([".shape", ".size(", ".dim("]),
        ),
        mistake(
            "Formatting an Audit tensor calls its __repr__, which is a torch method too and lands in "
            "__torch_function__ again: log shapes, not the tensors themselves.",
            raises="^RecursionError",
        ),
        mistake(
            "`super().torch_function` does not exist; the name has double underscores on both sides.",
            raises="'super' object has no attribute",
        ),
        mistake("`kwargs` may be None: use kwargs or {}.", raises="must be a mapping, not NoneType"),
        mistake("`Audit.diary` must be a list that belongs to the class.", raises="has no attribute '(diary|clear)'"),
    ]
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4) + 0.5
    p = torch.ones(2, 3)

    test("torch.matmul(x, y), x + 1 and F.softmax(x, dim=1): one entry each, results are Audit tensors")
    for call, values, log in [
        ("torch.matmul(x, y)", x @ y, [("matmul", [(2, 3), (3, 4)])]),
        ("x + 1", x + 1, [("add", [(2, 3)])]),
        ("F.softmax(x, dim=1)", x.softmax(1), [("softmax", [(2, 3)])]),
    ]:
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        is_right(seen, values)

    def handler(Audit):
        """What kind of method __torch_function__ is."""
        return type(inspect.getattr_static(Audit, "__torch_function__", None)).__name__

    test("__torch_function__ is a classmethod; no warning")
    seen = observe_scenario(handler, Audit)
    seen.that(
        seen.value == "classmethod",
        "`__torch_function__` is a plain method: deprecated. Make it a classmethod.",
        stage="rule",
    )
    seen = observe_scenario(one_call, Audit, "x + 1").expecting(*known)
    seen.warned_nothing(because="torch warns: {detail}")

    def looked_at(Audit):
        """Print a tensor, ask for its attributes; the diary must not notice."""
        x = made(Audit, 2, 3)
        words = [repr(x), f"{x}", str(x.dtype), str(len(x)), str(list(x.shape)), str(x.requires_grad)]
        return {"words": words[2:], "looks like a tensor": "3., 4., 5." in words[0], "log": entries(Audit)}

    test("repr, an f-string, shape, dtype and len leave no entry")
    seen = observe_scenario(looked_at, Audit).expecting(*known)
    traces = ", ".join(dict.fromkeys(str(entry[0]) for entry in seen["log"]))
    seen.that(not traces, f"Printing or attribute access left entries in the diary: {traces}. Skip dunder names.")
    seen.that(
        seen["words"] == ["torch.float32", "2", "[2, 3]", "False"] and seen["looks like a tensor"],
        "An Audit tensor must look like a tensor when it is printed, and have the attributes of one.",
    )

    def written_to(Audit):
        """Write into an Audit tensor."""
        x = made(Audit, 2, 3)
        x[0] = 7.0
        return {"result": plain(x), "log": entries(Audit)}

    test("x[0] is logged, x[0] = 7 too")
    indexing = mistake("Indexing must be logged.", when=lambda seen: not seen["log"])
    seen = observe_scenario(one_call, Audit, "x[0]").expecting(*known)
    is_logged(seen, [("__getitem__", [(2, 3)])], indexing)
    is_right(seen, x[0])
    seen = observe_scenario(written_to, Audit).expecting(*known)
    is_logged(seen, [("__setitem__", [(2, 3)])], indexing)
    is_right(seen, torch.tensor([[7.0, 7, 7], [3, 4, 5]]))

    ### BEGIN HIDDEN TESTS
    for call, values, log in [
        ("p + x", p + x, [("add", [(2, 3), (2, 3)])]),
        ("x - p", x - p, [("sub", [(2, 3), (2, 3)])]),
        ("p @ y", p @ y, [("matmul", [(2, 3), (3, 4)])]),
        ("2 * x", 2 * x, [("mul", [(2, 3)])]),
        ("torch.where(p > 0, x, p)", x, [("where", [(2, 3), (2, 3), (2, 3)])]),
        ("-x.t()", -x.t(), [("t", [(2, 3)]), ("neg", [(3, 2)])]),
    ]:
        test.hidden(f"mixed operands: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        is_right(seen, values)

    keywords = mistake("Keyword arguments were not passed on.", stage=("raised", "value", "type"))
    norm = F.layer_norm(p + p.cumsum(1), (3,), weight=y[:, 1])
    for call, values, log in [
        ("x.sum(dim=1, keepdim=True)", x.sum(dim=1, keepdim=True), [("sum", [(2, 3)])]),
        ("torch.add(p, other=x)", p + x, [("add", [(2, 3)])]),
        ("F.layer_norm(q, (3,), weight=y[:, 1])", norm, [("__getitem__", [(3, 4)]), ("layer_norm", [(2, 3)])]),
        ("torch.stack([p, x])", torch.stack([p, x]), [("stack", [])]),
    ]:
        test.hidden(f"keyword arguments and lists: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        if seen.noted.raised or torch.is_tensor(seen["result"]):
            seen.returns({}, keywords)
        is_right(seen, values, *([] if "stack" in call else [keywords]))
        is_logged(seen, log)

    for call, values, log in [
        ("x.split(2, dim=1)", list(x.split(2, dim=1)), [("split", [(2, 3)])]),
        ("x.max(dim=1)", [torch.tensor([2.0, 5.0]), torch.tensor([2, 2])], [("max", [(2, 3)])]),
    ]:
        test.hidden(f"several results: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        came = seen["result"]
        seen.that(isinstance(came, list) and len(came) == 2, "The result must be a tuple of two tensors.", stage="type")
        for one, value in zip(came, values, strict=True):
            kind = one["kind"] if isinstance(one, dict) else type(one).__name__
            seen.that(kind == "Audit", f"The tensors in a tuple must be Audit tensors, not {kind}.", stage="type")
            seen.that(torch.equal(one["values"], value), "The result of the call is wrong.")

    test.hidden("item gives a number")
    seen = observe_scenario(one_call, Audit, "x.sum().item()").expecting(*known)
    seen.that(seen["result"] == 15.0, "`item` must give a plain number.")
    names = [entry[0] for entry in seen["log"]]
    seen.that("sum" in names and "item" in names, "A call is missing in the diary: sum or item.")

    def failing(Audit):
        """A call that raises; the diary all the same."""
        x = made(Audit, 2, 3)
        try:
            torch.matmul(x, x)
        except RuntimeError as error:
            return {"error": "cannot be multiplied" in str(error), "log": entries(Audit)}
        return {"error": False, "log": entries(Audit)}

    test.hidden("the entry is made before the call: one that fails is logged, too")
    seen = observe_scenario(failing, Audit).expecting(*known)
    seen.that(seen["error"], "torch.matmul of (2, 3) and (2, 3) must raise torch's own RuntimeError.")
    seen.that(bool(seen["log"]), "The entry must be made before the call: a call that raised left no entry.")
    is_logged(seen, [("matmul", [(2, 3), (2, 3)])])

    def in_place(Audit):
        """In-place calls; the same object must come back."""
        x = made(Audit, 2, 3)
        same = [x.add_(1) is x, x.t_() is x]
        return {"same": same, "result": plain(x), "log": entries(Audit)}

    test.hidden("in-place calls: the same object comes back, with the shape from before in the diary")
    seen = observe_scenario(in_place, Audit).expecting(*known)
    seen.that(seen["same"] == [True, True], "An in-place method must return the very object.", stage="aliasing")
    is_logged(seen, [("add_", [(2, 3)]), ("t_", [(2, 3)])])
    is_right(seen, (x + 1).t())

    def differentiated(Audit, leaf):
        """Gradients through Audit tensors."""
        out = (leaf.as_subclass(Audit) ** 2 * torch.tensor([1.0, 2.0, 3.0])).sum()
        with torch._C.DisableTorchFunctionSubclass():
            out.backward()
            gradient = None if leaf.grad is None else leaf.grad.as_subclass(Tensor).clone()
            return {"gradient": gradient, "value": out.item()}

    test.hidden("gradients pass")
    leaf = torch.tensor([1.0, -2.0, 4.0], requires_grad=True)
    observe_scenario(differentiated, Audit, leaf).expecting(*known).returns(
        {"gradient": torch.tensor([2.0, -8.0, 24.0]), "value": 57.0},
        because="Values or gradients of Audit tensors are wrong: {detail}",
    )

    def out_again(Audit):
        """Leave the class and go on with a plain tensor."""
        x = made(Audit, 2, 3)
        free = x.as_subclass(torch.Tensor)
        Audit.diary.clear()
        more = free * 2 + free[0]
        return {
            "kinds": [type(free).__name__, type(more).__name__],
            "log": entries(Audit),
            "more": plain(more)["values"],
        }

    test.hidden("as_subclass(torch.Tensor) gets out of it")
    observe_scenario(out_again, Audit).expecting(*known).returns(
        {"kinds": ["Tensor", "Tensor"], "log": [], "more": x * 2 + x[0]},
        because="x.as_subclass(torch.Tensor) must give a plain tensor, which is not logged any more: {detail}",
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 5.9 Operations that a compiler must see
#
# `torch.compile` goes through your Python code and collects the tensor operations that it meets. It looks into a
# Function made of torch operations, too. A call into a foreign library it can't look into; declare such a call as an
# *operator*, something with a name that a compiler takes as it is. `torch.library.custom_op` does that. NumPy's `exp`
# stands here for any such library.
#
# **Predict.** The operator below says how to compute exp, nothing more. Can PyTorch say what its value is, what its
# gradient is, and which shape the result has for a tensor on the device "meta", which has a shape but no data?


# %%
@torch.library.custom_op("torchkata::numpy_exp", mutates_args=())
def numpy_exp(x: Tensor) -> Tensor:
    return torch.from_numpy(np.exp(x.numpy()))


x = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
print([round(number, 4) for number in numpy_exp(x).tolist()])
error_of(lambda: numpy_exp(x).sum().backward())
error_of(lambda: numpy_exp(torch.empty(2, device="meta")))

# %% [markdown]
# The value only. The other two have to be told: `register_autograd` takes a `backward` and a `setup_context` as you
# know them by now, and `register_fake` a function that says shape and dtype of the result without computing it.

# %% [markdown]
# **Predict.** What does the compiler see of `numpy_exp(2 * x) + 1`?


# %%
def save_the_result(ctx, inputs, output):
    ctx.save_for_backward(output)


def exp_backward(ctx, grad_output):
    (result,) = ctx.saved_tensors
    return grad_output * result


numpy_exp.register_autograd(exp_backward, setup_context=save_the_result)


@numpy_exp.register_fake
def numpy_exp_without_data(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def show_graph(graph: torch.fx.GraphModule, inputs: list) -> torch.fx.GraphModule:
    """A compiler that compiles nothing: it prints what it is given to compile, and runs that."""
    print("the compiler sees:", [node.name for node in graph.graph.nodes if node.op == "call_function"])
    return graph


compiled = torch.compile(lambda x: numpy_exp(2 * x) + 1, backend=show_graph, fullgraph=True)
print([round(number, 4) for number in compiled(x).tolist()])
print("gradcheck:", gradcheck(numpy_exp, x), "- gradgradcheck:", gradgradcheck(numpy_exp, x))

# %% [markdown]
# Three steps, and the middle one is our operator, under its name; nobody looks into it. `fullgraph=True` makes sure
# that it is one graph: it would raise if the compiler had to give up in between. gradcheck judges an operator like
# anything else.

# %% [markdown]
# **Predict.** A last tool belongs to it: `torch.library.opcheck` compares the registrations with what the operator
# does. The next operator returns float32 always, and its fake says "like x". How many of opcheck's four tests notice?


# %%
@torch.library.custom_op("torchkata::single_exp", mutates_args=())
def single_exp(x: Tensor) -> Tensor:
    return x.exp().float()


@single_exp.register_fake
def single_exp_without_data(x: Tensor) -> Tensor:
    return torch.empty_like(x)


cases = {
    "numpy_exp, float64 sample": (numpy_exp, torch.float64),
    "single_exp, float64 sample": (single_exp, torch.float64),
    "single_exp, float32 sample": (single_exp, torch.float32),
}
for name, (operator, dtype) in cases.items():
    verdicts = torch.library.opcheck(operator, (torch.ones(2, dtype=dtype),), raise_exception=False)
    passed = [test for test, verdict in verdicts.items() if verdict == "SUCCESS"]
    print(f"{name}: {len(passed)} of {len(verdicts)} passed; failed:", sorted(set(verdicts) - set(passed)))

# %% [markdown]
# One, the test of the fake, and only with a float64 sample. As with gradcheck, it depends on the samples that you give.
# opcheck doesn't judge whether a gradient is right; that stays with gradcheck.
#
# Which one when? A Function for gradients by choice and to save memory, in code of torch operations. An operator for
# foreign code that has to work with `torch.compile` and `torch.export`.

# %% [markdown]
# ### Exercise 5.9 · A differentiable look-up table around numpy.interp
#
# implement · long · 25 min · 2 points
#
# A calibration curve, a tone curve, a learned activation: a table of points with straight lines between them. NumPy has
# `np.interp` for that, and autograd cannot see into it. Write `interp` so that both the places x and the entries of the
# table can be learned.
#
# **Contract**
#
# - The values are those of `np.interp(x, xp, fp)`: piecewise linear through the K >= 2 points (xp increases), constant
#   outside. NumPy may be used or not.
# - The gradient of x is the slope of its segment, 0 outside. At a knot the slope to the right counts, which at the last
#   knot is 0.
# - The gradient of fp: each `fp[k]` collects, over all x that used it, the weight that it had in the result. xp gets no
#   gradient. Away from the knots gradcheck passes, in x and fp.
# - x has any shape; the result has the same, in dtype and on the device of x, whatever the dtype of the table (float32
#   or float64, as that of x).
# - An xp that does not strictly increase, unequal lengths of xp and fp, and fewer than 2 points raise ValueError. The
#   arguments are not changed.
#
# <details><summary>Hint 1</summary>
#
# np.interp refuses a tensor that requires grad, outside of a Function. Inside of one, where is it allowed, and what
# must you write yourself then?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Find the segment k of every x (searchsorted, limited to 0..K-2) and its fraction t. The value is a mix of fp[k] and
# fp[k+1]; so are their gradients, and several x may share a knot: they must be *added*. Outside, t is cut to 0 or 1 and
# the slope is 0.
#
# </details>


# %% answer="interp-table"
### BEGIN SOLUTION
class Interp(torch.autograd.Function):
    """np.interp, with gradients for x and fp."""

    @staticmethod
    def forward(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
        values = np.interp(x.cpu().numpy(), xp.cpu().numpy(), fp.cpu().numpy())
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        x, xp, fp = (saved.double() for saved in ctx.saved_tensors)
        k = torch.searchsorted(xp, x.contiguous(), right=True).clamp(1, len(xp) - 1) - 1
        width = xp[k + 1] - xp[k]
        grad_x = grad_fp = None
        if ctx.needs_input_grad[0]:
            inside = (x >= xp[0]) & (x < xp[-1])
            grad_x = g * torch.where(inside, (fp[k + 1] - fp[k]) / width, 0.0)
        if ctx.needs_input_grad[2]:
            t = ((x - xp[k]) / width).clamp(0, 1)
            shares, places = torch.stack([g * (1 - t), g * t]), torch.stack([k, k + 1])
            grad_fp = torch.zeros_like(fp).index_add(0, places.flatten(), shares.flatten())
        return grad_x, None, grad_fp


def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """np.interp(x, xp, fp), differentiable in x and fp. x: (...), xp and fp: (K,); returns (...), dtype of x."""
    if len(xp) != len(fp) or len(xp) < 2:
        raise ValueError(f"{len(xp)} places and {len(fp)} entries: equal lengths of 2 or more are needed")
    if not (xp[1:] > xp[:-1]).all():
        raise ValueError("xp must strictly increase")
    return Interp.apply(x, xp, fp)


### END SOLUTION
### BEGIN GIVEN
# def interp(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
#     """np.interp(x, xp, fp), differentiable in x and fp. x: (...), xp and fp: (K,); returns (...), dtype of x."""
#     raise NotImplementedError  # your code here
### END GIVEN

# %% check="interp-table" points=1
"""The values of np.interp, the gradient of x, dtypes and shapes; bad tables are refused."""
with check("interp-table") as test:
    xp, fp = torch.tensor([0.0, 1.0, 3.0, 4.0]), torch.tensor([0.0, 2.0, 1.0, 4.0])
    known = [
        mistake(
            "NumPy cannot take a tensor that is being recorded: inside a Function's forward recording is off, "
            "elsewhere detach first (and write backward).",
            raises="numpy\\(\\) on Tensor that requires grad",
        )
    ]
    wrong_dtype = [
        mistake(
            "NumPy computes in float64: convert back, {detail}.",
            stage="dtype",
            when=lambda seen: seen.value.dtype == torch.float64 != seen.args[2].dtype,
        ),
        mistake("The result must have the dtype of x: {detail}.", stage="dtype"),
    ]

    test("inside, at knots and outside of the table (0, 0), (1, 2), (3, 1), (4, 4)")
    x = torch.tensor([-1.0, 0.0, 0.25, 1.0, 2.0, 3.0, 3.5, 4.0, 6.0])
    seen = observe(interp, x, xp, fp).expecting(*known)
    seen.returns(
        torch.tensor([0.0, 0.0, 0.5, 2.0, 1.5, 1.0, 2.5, 4.0, 4.0]),
        mistake(
            "Outside the table the end values continue; you extrapolated the last segment.",
            gives=torch.tensor([-2.0, 0.0, 0.5, 2.0, 1.5, 1.0, 2.5, 4.0, 10.0]),
        ),
        mistake(
            "That is the nearest (or previous) entry, not the interpolated value.",
            when=lambda seen: torch.isin(seen.value, torch.tensor([0.0, 2.0, 1.0, 4.0])).all(),
        ),
        *wrong_dtype,
    )
    seen.leaves_arguments_alone()

    disconnected = mistake(
        "No gradient reaches x: what NumPy computes is a constant for autograd.",
        stage="gradient",
        when=lambda seen: seen.gradient(0) is None,
    )
    slope_is_off = "The gradient of x is wrong: {detail}"

    test("slopes 2, -0.5 and 3 inside, 0 outside")
    x = torch.tensor([0.25, 0.75, 2.0, 3.5, -1.0, 6.0], requires_grad=True)
    seen = observe(interp, x, xp, fp).expecting(*known)
    seen.gives_gradients(
        {0: incoming_gradient(x) * torch.tensor([2.0, 2.0, -0.5, 3.0, 0.0, 0.0])},
        disconnected,
        mistake(
            "Outside the table the result is constant: slope 0.", when=lambda seen: seen.gradient(0)[4:].ne(0).any()
        ),
        mistake(
            "The slope is the difference of two entries divided by the width of the segment: {detail}",
            when=lambda seen: torch.allclose(
                seen.gradient(0), incoming_gradient(seen.args[0]) * torch.tensor([2.0, 2.0, -1.0, 3.0, 0.0, 0.0])
            ),
        ),
        because=slope_is_off,
    )
    seen.returns(torch.tensor([0.5, 1.5, 1.5, 2.5, 0.0, 4.0]))

    ### BEGIN HIDDEN TESTS
    def by_hand(x, xp, fp):
        """Values and slopes, one by one, in float64."""
        xs, places, entries = x.double().flatten().tolist(), xp.double().tolist(), fp.double().tolist()
        values, slopes = [], []
        for one in xs:
            later = [k for k, place in enumerate(places) if place > one]
            k = later[0] - 1 if later else len(places) - 1
            if k < 0 or k == len(places) - 1:
                values.append(entries[max(k, 0)])
                slopes.append(0.0)
            else:
                slopes.append((entries[k + 1] - entries[k]) / (places[k + 1] - places[k]))
                values.append(entries[k] + slopes[-1] * (one - places[k]))
        return torch.tensor(values).reshape(x.shape), torch.tensor(slopes).reshape(x.shape)

    def like_np_interp(seen, *mistakes):
        """Judge the value, and the gradient of x where it is wanted."""
        x, xp, fp = seen.args
        with torch.no_grad():
            values, slopes = (t.to(x.dtype) for t in by_hand(x, xp, fp))
        seen.returns(
            values,
            *wrong_dtype,
            mistake("The result has the shape of x: {detail}", stage=("shape", "type")),
            rtol=1e-5,
            atol=1e-5,
        )
        if x.requires_grad:
            grads = {0: incoming_gradient(values) * slopes}
            seen.gives_gradients(grads, *mistakes, disconnected, because=slope_is_off, rtol=1e-5, atol=1e-5)
        seen.leaves_arguments_alone()

    torch.manual_seed(5)
    places = torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64)
    entries = torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64)
    some_x = torch.randn(3, 4, dtype=torch.float64) * 2
    for idea, x, table in [
        ("a matrix of random places", some_x, (places, entries)),
        ("0-d places", torch.tensor(0.6, dtype=torch.float64), (places, entries)),
        ("a 0-d place outside", torch.tensor(-7.0, dtype=torch.float64), (places, entries)),
        ("no places at all", torch.empty(0, 3, dtype=torch.float64), (places, entries)),
        ("places that are not contiguous", some_x.t()[:, ::2], (places, entries)),
        ("a table of two points", some_x, (places[1:3], entries[1:3])),
        ("a table that is not contiguous", some_x, (places[::2], entries[::2])),
        ("float32", some_x.float(), (places.float(), entries.float())),
        ("float32 places, a float64 table", some_x.float(), (places, entries)),
        ("float64 places, a float32 table", some_x, (places.float(), entries.float())),
        ("a falling table", some_x, (places, entries.sort(descending=True).values)),
    ]:
        test.hidden(idea)
        like_np_interp(observe(interp, x, *table).expecting(*known))
        like_np_interp(observe(interp, x.clone().requires_grad_(), *table).expecting(*known))

    test.hidden("at inner knots: the slope of the segment on the right")
    for dtype in (torch.float64, torch.float32):
        x, table = places[1:-1].to(dtype).requires_grad_(), (places.to(dtype), entries.to(dtype))
        on_the_right = mistake(
            "At an inner knot the slope of the segment on its *right* counts: {detail}", stage="gradient"
        )
        like_np_interp(observe(interp, x, *table).expecting(*known), on_the_right)
        test.hidden("at the first knot the first slope, at the last one 0")
        at_the_ends = mistake(
            "At the first knot the first slope counts, at the last one 0 (what follows is constant): {detail}",
            stage="gradient",
        )
        x = places[[0, -1]].to(dtype).requires_grad_()
        like_np_interp(observe(interp, x, *table).expecting(*known), at_the_ends)

    test.hidden("xp gets no gradient, x does")
    trio = [t.clone().requires_grad_() for t in (some_x, places, entries)]
    seen = observe(interp, *trio).expecting(*known)
    like_np_interp(seen)
    of_places = seen.gradient(1)
    seen.that(
        of_places is None or not of_places.any(), "`xp` gets no gradient: the places are given.", stage="gradient"
    )

    test.hidden("bad tables are refused")
    for idea, table in [
        ("An xp that falls", ([0.0, 2.0, 1.0], [0.0, 1.0, 2.0])),
        ("An xp that falls at the end", ([0.0, 1.0, 2.0, 1.5], [0.0, 1.0, 2.0, 3.0])),
        ("An xp with two equal knots", ([0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0])),
        ("A table of one point", ([1.0], [2.0])),
        ("A table without points", ([], [])),
        ("An xp longer than fp", ([0.0, 1.0, 2.0], [0.0, 1.0])),
        ("An xp shorter than fp", ([0.0, 1.0], [0.0, 1.0, 2.0])),
    ]:
        for x in (torch.tensor([0.5, 0.7]), torch.tensor([0.5, 0.7], requires_grad=True)):
            wrong_kind = mistake(f"{idea} must raise ValueError: {{detail}}", raises=".")
            observe(interp, x, *map(torch.tensor, table)).raises(
                ValueError, because=f"{idea} must raise ValueError.", mistakes=[wrong_kind]
            )
    ### END HIDDEN TESTS

# %% check="interp-table" points=1
"""The gradient of fp: weights times incoming gradients, added up; and gradcheck."""
with check("interp-table") as test:

    def weights(x, xp):
        """One row for each x: the weights of the entries of the table in its result."""
        rows = []
        for one in x.flatten().tolist():
            row, places = [0.0] * len(xp), xp.tolist()
            if one <= places[0]:
                row[0] = 1.0
            elif one >= places[-1]:
                row[-1] = 1.0
            else:
                k = max(k for k, place in enumerate(places) if place <= one)
                row[k + 1] = (one - places[k]) / (places[k + 1] - places[k])
                row[k] = 1 - row[k + 1]
            rows.append(row)
        return torch.tensor(rows, dtype=xp.dtype).reshape(-1, len(xp))

    def last_one_stays(x, xp):
        """The gradient of fp where contributions are assigned by index, twice, in place of being added."""
        table, both = weights(x, xp), torch.zeros(2, len(xp), dtype=xp.dtype)
        for row, g in zip(table, incoming_gradient(x).flatten(), strict=True):
            k = min(int((row > 0).nonzero()[0]), len(xp) - 2)
            both[0, k], both[1, k + 1] = row[k] * g, row[k + 1] * g
        return both.sum(0)

    known = [
        mistake(
            "NumPy cannot take a tensor that is being recorded: inside a Function's forward recording is off, "
            "elsewhere detach first (and write backward).",
            raises="numpy\\(\\) on Tensor that requires grad",
        )
    ]
    fp_is_off = [
        mistake(
            "`fp` must get a gradient too: a look-up table that can be learned.",
            stage="gradient",
            when=lambda seen: seen.gradient(2) is None,
        ),
        mistake(
            "Several x in one segment share its knots; their contributions must be added. An assignment by index keeps "
            "only one.",
            when=lambda seen: torch.allclose(seen.gradient(2), last_one_stays(*seen.args[:2]).to(seen.gradient(2))),
        ),
        mistake(
            "The gradient of fp ignores the incoming gradient: every weight is multiplied by the gradient of its "
            "result.",
            when=lambda seen: torch.allclose(seen.gradient(2), weights(*seen.args[:2]).sum(0).to(seen.gradient(2))),
        ),
    ]

    def has_gradient_of_fp(seen, **tolerance):
        """Judge the gradient of the entries."""
        x, xp, fp = seen.args
        expected = weights(x, xp).T @ incoming_gradient(x).flatten().to(xp.dtype)
        because = "The gradient of fp is wrong: {detail}"
        seen.gives_gradients({2: expected.to(fp.dtype)}, *fp_is_off, because=because, **tolerance)
        seen.leaves_arguments_alone()

    test("several x in one segment, and some outside: the weights add up")
    xp, fp = torch.tensor([0.0, 1.0, 3.0, 4.0]), torch.tensor([0.0, 2.0, 1.0, 4.0], requires_grad=True)
    x = torch.tensor([0.25, 0.5, 2.0, 2.5, -1.0, 6.0, 0.875])
    seen = observe(interp, x, xp, fp).expecting(*known)
    has_gradient_of_fp(seen)
    seen.returns(torch.tensor([0.5, 1.0, 1.5, 1.25, 0.0, 4.0, 1.75]))

    ### BEGIN HIDDEN TESTS
    torch.manual_seed(5)
    places = torch.tensor([-2.0, -1.25, 0.5, 0.75, 3.0], dtype=torch.float64)
    entries = torch.tensor([1.5, -0.5, 2.0, 0.25, 7.0], dtype=torch.float64)
    some_x = torch.randn(3, 4, dtype=torch.float64) * 2
    for idea, x, table in [
        ("a matrix of random places", some_x, (places, entries)),
        ("at the knots", places, (places, entries)),
        ("all outside", torch.tensor([-9.0, 8.0, 4.0, -3.0, 5.0], dtype=torch.float64), (places, entries)),
        ("a 0-d place", torch.tensor(0.6, dtype=torch.float64), (places, entries)),
        ("no places at all", torch.empty(0, 3, dtype=torch.float64), (places, entries)),
        ("places that are not contiguous", some_x.t()[:, ::2], (places, entries)),
        ("a table of two points", some_x, (places[1:3], entries[1:3])),
        ("float32", some_x.float(), (places.float(), entries.float())),
        ("float32 places, a float64 table", some_x.float(), (places, entries)),
        ("float64 places, a float32 table", some_x, (places.float(), entries.float())),
    ]:
        test.hidden(f"the gradient of fp: {idea}")
        single = torch.float32 in (x.dtype, table[0].dtype)
        tolerance = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 1e-7, "atol": 1e-9}
        has_gradient_of_fp(
            observe(interp, x, table[0], table[1].clone().requires_grad_()).expecting(*known), **tolerance
        )
        if "knots" not in idea and not single:
            both = x.clone().requires_grad_(), table[0], table[1].clone().requires_grad_()
            has_gradient_of_fp(observe(interp, *both).expecting(*known), **tolerance)

    def checked(interp, x, xp, fp):
        """gradcheck's opinion."""
        return gradcheck(lambda x, fp: interp(x, xp, fp), (x, fp), raise_exception=False)

    test.hidden("gradcheck in x and fp, away from the knots")
    far = [x for x in (torch.rand(40, dtype=torch.float64) * 7 - 3).tolist() if (places - x).abs().min() > 0.01][:6]
    pair = torch.tensor(far, dtype=torch.float64).reshape(2, 3).requires_grad_(), entries.clone().requires_grad_()
    observe_scenario(checked, interp, pair[0], places, pair[1]).expecting(*known).returns(
        True, because="gradcheck in x and fp fails."
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ## On a GPU
#
# Without a CUDA device the next cells print one line, and the output that was recorded on another machine where there
# is one.
#
# **Predict.** Eight layers of swish, each on a tensor of 64 MiB. How much memory does the forward pass leave in use,
# with the plain formula, with `LeanSwish` of section 5.1 and with `F.silu`?


# %% facts=["05-use-to-save-memory"] varies="a CUDA device changes what is shown"
@cuda_demo("05_custom_functions")
def swish_memory() -> None:
    """Memory that forward leaves in use, and the time of forward and backward."""
    mib = 2**20

    def plain(a: Tensor) -> Tensor:
        return a * torch.sigmoid(a)

    for name, swish in {"a * sigmoid(a)": plain, "LeanSwish": LeanSwish.apply, "F.silu": F.silu}.items():
        for attempt in range(2):  # the first one warms up
            a = torch.rand(4096, 4096, device="cuda", requires_grad=True)
            before = torch.cuda.memory_allocated()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            y = a
            for _ in range(8):
                y = swish(y)
            kept = torch.cuda.memory_allocated() - before
            y.sum().backward()
            end.record()
            end.synchronize()
            if attempt:
                print(f"{name:15} {kept / mib:5.0f} MiB, {start.elapsed_time(end):.2f} ms")
            del a, y


swish_memory()

# %% [markdown]
# The plain formula keeps two tensors a layer, its input and the sigmoid; the lean ones keep the input, which is the
# output of the layer before. So count 16 tensors of 64 MiB against 8. `LeanSwish` computes the sigmoid a second time;
# where the demo ran, the times say what that costs.

# %% [markdown]
# **Predict.** On a GPU, `index_add_` adds in an order that may change from run to run (chapter 3, "On a GPU"). What
# does gradcheck say to a backward that uses it?


# %% facts=["05-gradcheck-sample"] varies="a CUDA device changes what is shown"
@cuda_demo("05_custom_functions")
def order_of_adding() -> None:
    """The gradient of 20,000 copies of one number, added in any order."""
    where = torch.zeros(20_000, dtype=torch.int64, device="cuda")

    class Copies(Function):
        @staticmethod
        def forward(ctx, x):
            return x[where]

        @staticmethod
        def backward(ctx, g):
            return g.new_zeros(1).index_add_(0, where, g)

    x = torch.ones(1, dtype=torch.float64, device="cuda", requires_grad=True)
    incoming = torch.rand(20_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cuda()
    values = {torch.autograd.grad(Copies.apply(x), x, incoming)[0].item() for _ in range(20)}
    print("different gradients in 20 runs:", len(values))
    for tolerance in (0.0, 1e-9):
        passed = gradcheck(Copies.apply, x, fast_mode=True, nondet_tol=tolerance, raise_exception=False)
        print(f"gradcheck with nondet_tol={tolerance}:", passed)


order_of_adding()

# %% [markdown]
# gradcheck also runs each backward twice and compares. By default the two must agree to the last digit, so a right
# backward fails when the order of adding changes the last digit; `nondet_tol` says how far the two may be apart.
# (`fast_mode` compares one random combination of the 20,000 outputs rather than each.)

# %% [markdown]
# ## Folklore, checked
#
# What people say about custom Functions, and what is so. Each row unfolds its proof: a few lines that run through only
# if the statement on the right holds.

# %%
folklore(
    "05_custom_functions",
    ids=[
        "05-missing-staticmethod",
        "05-gradient-reversal-int-only",
        "05-gradient-reversal-view-as",
        "05-wrapper-for-keyword-arguments",
        "05-forward-inputs-untracked",
        "05-materialize-grads",
        "05-input-without-tensor",
        "05-once-differentiable",
        "05-backward-must-return-double",
        "05-filter-the-sorted-gradient",
        "05-torch-function-duck-type",
        "05-torch-function-must-call-super",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of PyTorch,
# and raises if it does not.

# %%
prove("05-once-differentiable")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - the note "Extending PyTorch": Functions, modules, `__torch_function__`, with the conventions of this chapter;
# - the note "Extending torch.func with autograd.Function": `setup_context`, `vmap`, and when they are needed;
# - `torch.autograd.Function` and its context: `save_for_backward`, `set_materialize_grads`, `mark_dirty`,
#   `mark_non_differentiable`;
# - the tutorial "Double Backward with Custom Functions": what to save so that backward can be differentiated;
# - `torch.autograd.gradcheck.gradcheck` and the note "Gradcheck mechanics": what is compared, and with which
#   tolerances;
# - `torch.library` and the tutorial "Custom Python Operators": `custom_op`, `register_autograd`, `register_fake`,
#   `opcheck`.
