# %% [markdown]
# # Custom Functions
#
# Autograd differentiates what it has recorded. This chapter is about what it can't record, and about gradients that you
# choose yourself. It begins by asking whether you need a `torch.autograd.Function` at all, or whether ordinary
# operations or an `nn.Module` will do. After this chapter you can
#
# - write `forward`, `setup_context` and `backward`: return one gradient for each argument, None where there is none,
#   leave the incoming gradient alone, and save tensors with `save_for_backward`;
# - test a backward with `gradcheck` and `gradgradcheck`, choose inputs and tolerances that find mistakes, and say which
#   mistakes they don't see;
# - define a gradient by choice (straight-through, reversal) and say why gradcheck must fail then;
# - make torch functions accept your own classes;
# - declare foreign code as an operator that `torch.compile` accepts as it is.
#
# **75 minutes to read, 162 minutes to practise, 20 points.** You need chapter 4, sections 4.1 to 4.4, 4.7 and 4.8: leaf
# tensors, nodes, `torch.autograd.grad`, how autograd notices an in-place change, and `create_graph`.
#
# How it works: answer each *Predict* question before you run the cell below it (Shift + Enter). In an exercise, run
# your answer cell, then the check cell, the grey line below it, which says what is right or wrong and why.

# %% setup=true
import gc
import inspect
import math
import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable

from torchkata.demos import error_of, results_of, warning_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo
from torchkata.pictures.call_log import call_log_explorer
from torchkata.pictures.function_contract import function_contract
from torchkata.pictures.saved_for_backward import saved_for_backward
from torchkata.pictures.step_surrogate import surrogate_explorer
from torchkata.verdicts import (
    FIRST_CHECK_FIRST,
    check,
    incoming_gradient,
    mistake,
    noting_events,
    observe,
    observe_scenario,
    observe_value,
    separation,
)

# %% [markdown]
# An amplifier boosts the signal of a sensor. A table says how many degrees each voltage means, and NumPy interpolates
# between its entries. We want to learn the gain of the amplifier.

# %% facts=["05-use-for-numpy-code"]
volts, degrees = [0.0, 1.0, 2.0, 3.0], [0.0, 30.0, 45.0, 50.0]
gain, signal = torch.tensor(0.5, requires_grad=True), torch.tensor([0.8, 2.4])

error_of(lambda: np.interp((gain * signal).numpy(), volts, degrees))

amplified = (gain * signal).detach().numpy()  # as the message advises
temperature = torch.from_numpy(np.interp(amplified, volts, degrees))
print("degrees:", temperature.tolist(), " requires grad:", temperature.requires_grad)

# %% [markdown]
# The first attempt raises before NumPy gets anything: `.numpy()` refuses a tracked tensor, because NumPy would compute
# without autograd knowing. If you follow the advice, the error goes away, and so does the gradient: what NumPy returns
# is a constant, and `gain` never learns. Yet you could say by hand how the degrees change with the volts, namely by the
# slope of the table. You need a place to say it.
#
# That place is a `torch.autograd.Function`. Its `forward` says how the result is computed, and its `backward` how a
# gradient passes; `ctx` ("context") carries what backward will need from one to the other. At the end of the chapter
# you write both for the table, in a form that the compiler also accepts.

# %%
function_contract()

# %% [markdown]
# ## 5.1 Do you need one?
#
# Often you don't. PyTorch has no operation called `bump`, and nobody has written down its derivatives:


# %% facts=["05-not-needed-for-builtin-ops"]
def bump(x: Tensor) -> Tensor:
    return torch.exp(-x * x)


x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)

(first,) = torch.autograd.grad(bump(x).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
print("first: ", [round(number, 4) for number in first.tolist()])
print("second:", [round(number, 4) for number in second.tolist()])

# %% [markdown]
# `bump` consists of operations whose backward PyTorch knows (`exp`, `mul`, `neg`). Autograd records them one by one,
# and `create_graph=True` also records the backward pass. If you can write a new loss or activation in this way, it
# needs no custom backward. It is just a function.
#
# There are four reasons to write a backward yourself: code that autograd can't see, memory, a formula that overflows or
# becomes nan where its true value is harmless, and a gradient that is a decision rather than a derivative. Exercise 5.5
# practises the third, and section 5.7 is about the fourth. Here is the first, with NumPy's `exp` as an example of
# foreign code:


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
# Inside `forward` you may call `x.numpy()` (section 5.2 says why). `backward` connects the Function to the rest of the
# graph: it gets the gradient of the output, multiplies it by the derivative, which for exp is the result itself, and
# returns the gradient of the input. The factor 3 is not its business; autograd multiplies by it at the next node.
#
# Both methods are static. You never create an instance; you call the Function through `apply`.

# %% [markdown]
# The second reason is memory. **By hand.** `a` below takes 400 bytes. How many bytes does `a * torch.sigmoid(a)` keep
# until its backward pass? Count tensors that share a storage once.


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
# It keeps 800 bytes. The product needs both of its factors and the sigmoid needs its own result, but that result is one
# of the factors. What counts is the storage, and there are only two, those of `a` and of the sigmoid.
#
# `LeanSwish` pays for the other half with a second sigmoid in `backward`. Before you write such a Function, check
# whether PyTorch already has it: `F.silu` computes the same and keeps no more. ([Chapter
# 15](../15_attention/attention.ipynb) does the same to attention, where it saves most.)

# %% [markdown]
# If such an operation should be trained, where do you store its weights? Not in the Function:


# %% facts=["05-state-belongs-in-a-module"]
class ScaledSwish(nn.Module):
    """Swish with a factor that is learned."""

    def __init__(self, factor: float = 2.0):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, a: Tensor) -> Tensor:
        return self.factor * LeanSwish.apply(a)


layer = ScaledSwish()
print("state_dict:", list(layer.state_dict()))

layer(torch.tensor([0.0, 1.0])).sum().backward()
print(f"gradient of the factor: {layer.factor.grad.item():.4f}")
print("a Function has parameters():", hasattr(LeanSwish, "parameters"))

# %% [markdown]
# A Function only computes and differentiates. What is trained, saved or moved to a device belongs to a module, which
# calls `apply`.
#
# **Now you know.** Ordinary operations need no Function. You may need one for foreign code, to save memory, for a
# formula that overflows, or for a gradient of your own choice.
#
# ## 5.2 What apply does
#
# Who calls your methods, and when is recording on? If you can answer that, you can explain most mistakes with
# Functions.
#
# **Predict.** The next Function multiplies by 10, and its backward by 7. That is wrong on purpose, so that we see where
# a gradient comes from. What is `x.grad` at the end? And inside `forward`, does `x * 10` require grad?


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
# `x.grad` is 7, and inside `forward` the result doesn't require grad. `apply` switches recording off and calls
# `forward`. The argument is the original tensor and still says that it requires grad, but nothing computed from it is
# recorded. Then `setup_context` gets the tuple of all arguments and the result, and may store in `ctx` whatever
# backward will need. Finally, `apply` attaches a node to the result, named after the class. Only then does the result
# require grad.
#
# Autograd doesn't check your formula; whatever `backward` returns *is* the gradient.

# %% [markdown]
# `Tenfold` is written in the split style, one of two. In the joined style, `forward(ctx, …)` computes and fills `ctx`
# itself, as `NumpyExp` did above. `backward()` works with both. But `torch.func`, which transforms whole functions
# (`grad(f)` is the function that computes the gradient of f, `vmap(f)` maps f over the rows of a batch), needs the
# split style. (The first use of `torch.func` loads PyTorch's compiler, which takes a few seconds.)


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
of_each = torch.func.vmap(lambda t: SplitScale.apply(t, 5.0))
print("torch.func.vmap, split, value:", of_each(x).tolist())
error_of(lambda: torch.func.grad(joined_sum)(x))

# %% [markdown]
# `vmap` needs one more thing: a `vmap` method, or `generate_vmap_rule = True` if forward and backward consist of torch
# operations. Write new Functions in the split style: `forward` computes, `setup_context` only fills `ctx`. That is a
# convention; nothing enforces it. But don't mix the styles: if there is a `setup_context`, `forward` gets no `ctx`.
#
# The explorer below runs a Function in this style with two results, `10 * k * x` and `100 * x`, and lists who calls
# whom, in order; at the right is what the engine sees. Set *call* to "forward": the node changes its name, and the
# calls of `setup_context` and `backward` disappear. Then go back to "apply" and switch "x requires grad" off:
# `setup_context` still runs, but the results get no node. The switches that change what `backward` gets and returns
# belong to the next section.

# %% facts=["05-function-static-and-apply", "05-setup-context-only-fills-ctx"]
call_log_explorer()

# %% [markdown]
# **Predict.** Back to `Tenfold`, whose backward wrongly multiplies by 7. Which gradient does `x` get from
# `Tenfold.forward(x)`, called directly?

# %% facts=["05-do-not-call-forward"]
x = torch.tensor(1.0, requires_grad=True)
y = Tenfold.forward(x)
y.backward()
print("node:", type(y.grad_fn).__name__, "- x.grad:", x.grad.item())

# %% [markdown]
# `x` gets 10. A `forward` without `ctx` is a plain static method. If you call it directly, it runs as ordinary code
# with recording on, autograd differentiates the multiplication, and your `backward` is never called. If you wrote the
# Function to change a gradient, the change is lost, without an error. Always call `apply`.
#
# `apply` accepts positional arguments, and since torch 2.13 keyword arguments such as `factor=3.0`. It fills in
# defaults:


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
for results in (SinCos.apply(x), SinCos.apply(x, 2.0)):
    (grad,) = torch.autograd.grad(results[0] + results[1], x)
    print([y.item() for y in results], "gradient:", grad.item())

# %% [markdown]
# `inputs` in `setup_context` always contains all arguments, including defaults. If `forward` returns several tensors,
# `backward` gets one gradient for each of them.
#
# There is one thing that `apply` doesn't do. **Find the bug.** The tensors to add arrive in a list, and the first
# version doesn't learn.


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

# %% [markdown] facts=["05-missing-staticmethod"]
# `apply` looks for tensors only among its direct arguments, not inside lists or dicts. Unpack the list when you call
# `apply`, and collect the tensors again with `*tensors`.
#
# In older code you may meet a Function without `@staticmethod`, which is used by calling an instance, as in
# `MyFunction()(x)`. PyTorch no longer accepts that, and the call raises an error.
#
# **Now you know.** `apply` switches recording off, runs `forward`, fills `ctx`, and attaches a node to the result.
# Whatever `backward` returns *is* the gradient.
#
# ## 5.3 The contract of backward
#
# A wrong backward seldom raises. It returns numbers, and everybody believes them.
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
# It is -1, which is wrong, and there is no error. The gradient of a sum is the same for both of its terms, so the
# engine passes the same tensor to both, and a write into yours changes the neighbour's. A test with a single branch
# doesn't notice. The incoming gradient isn't yours, so return `-grad_output`.

# %% [markdown]
# **Find the one that works.** `forward` takes a tensor and a number. Three versions of `backward` follow.


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


versions = {
    "A: g * number": lambda ctx, g: g * ctx.number,
    "B: g * number, None": lambda ctx, g: (g * ctx.number, None),
    "C: g * number, g.sum()": lambda ctx, g: (g * ctx.number, g.sum()),
}
results_of({name: partial(try_backward, version) for name, version in versions.items()})

# %% [markdown]
# Only B works. `backward` returns one value for each argument of `forward`, in the same order, and None for an argument
# that isn't a tensor (the message says "Variable", an old name for it). The error comes when backward runs, not when
# you define the class. (In the explorer of section 5.2, set *backward returns* to "too few".)
#
# For optional arguments there is a convenient exception. `bias` may be missing below, and `backward` always returns
# three values:


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
# Extra values at the end are ignored if they are None. Any other extra value raises an error.
#
# `Powers` returns x² and x³, and only x² is used. What does `backward` get for x³?


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
# It gets zeros, which the engine creates for this purpose ("materialized"). After `ctx.set_materialize_grads(False)` it
# gets None and has to check for it. Then the zeros are never created or multiplied. The explorer also has this switch:
# watch `g_second`.
#
# And what does `backward` do for an input that needs no gradient?


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
# `backward` may return a gradient for it, and the engine drops that gradient. `ctx.needs_input_grad` has one True or
# False for each argument. Checking it only saves work, but for a frozen weight that may be a large matrix product. If
# none of the direct arguments is a tracked tensor, there is no node and `backward` is never called.
#
# The engine casts the returned gradient to the dtype of the input:


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
# (`vjp`, "vector-Jacobian product", is another name for `backward`. Write one or the other; both in one class, or
# neither, is an error.)
#
# The engine also compares shapes. Here are two mistakes in the gradients of a layer `x @ weight.t() + bias`, for five
# rows: the gradient of the weight is transposed, and that of the bias is `g`, of shape (5, 3), instead of `g.sum(0)`,
# of shape (3,).
#
# **Predict.** Which of the two mistakes are reported for a weight of shape (3, 4)? And for a square weight?


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
# The engine refuses the transposed gradient for (3, 4). For a square weight it doesn't notice, and the numbers are
# wrong. The gradient of the bias is right! If a gradient is too large, the engine sums it over the dimensions in which
# its tensor would have been broadcast. Don't rely on that; write `g.sum(0)` and say what you mean. The lesson from the
# square weight is to test with sizes that are all different.
#
# There is one more rule, and it is about forward. This Function doubles its input *in place*, and its backward is
# right.
#
# **Predict.** `h` is `x * 1`, and `y` is the Function's result on `h`. Both are 2x afterwards, so the gradient of `h +
# y` should be 4. What is it?


# %% facts=["05-mark-dirty"]
def doubling(marked: bool) -> type[Function]:
    class DoubleInPlace(Function):
        @staticmethod
        def forward(ctx, x):
            if marked:
                ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return DoubleInPlace


for marked in (False, True):
    x = torch.tensor(3.0, requires_grad=True)
    h = x * 1
    y = doubling(marked).apply(h)
    (h + y).backward()
    print(f"mark_dirty: {marked!s:5}  h {h.item()}, y is h: {y is h!s:5}  x.grad {x.grad.item()}")

# %% [markdown]
# Without `ctx.mark_dirty(x)` it is 3, and nothing warns you. The numbers of `h` have changed, but as far as autograd
# knows `h` is still the result of `x * 1`. With the mark, `h` gets the Function's node as its history.
#
# **Now you know.** Return one value for each argument, None where it isn't a tensor, and never write into the incoming
# gradient. A forward that writes into its input must say so. The engine compares shapes, not numbers.

# %% exercise="backwards-apart"

# %% [markdown]
# ## 5.4 ctx: save tensors properly
#
# `ctx.x = x` is one line shorter than `save_for_backward`, and works in every test that you are likely to write.
#
# **Predict.** `h` is 3 times a leaf of value 1, and the Function squares it. Between forward and backward `h` is
# multiplied by 10 in place. The gradient of the leaf should be 2 · 3 · 3 = 18. What happens if the Function kept its
# input as `ctx.x`, and what if it used `ctx.save_for_backward(x)`?


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
# With `ctx.x` the gradient is 180, without an error; with `save_for_backward` backward raises. `save_for_backward`
# stores the version of the tensor (section 4.7), and `ctx.saved_tensors` compares. An attribute is just a reference to
# a tensor that has changed since. Saved-tensor hooks, which tools use to count what is kept or to move it elsewhere,
# also don't see attributes (the picture in section 5.1 wouldn't have shown this one).

# %% [markdown]
# There is one more difference, for a Function that keeps its *output*. Below, we delete the result at once. Is its
# memory freed?


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
# With the attribute it isn't. The result refers to its node, the node is `ctx`, and `ctx` refers to the result. This is
# a cycle, which stays until Python's garbage collector happens to run (we switch it off in the cell, so that it can't
# interfere). `save_for_backward` can keep an output without a cycle. Its page in the documentation,
# [`torch.autograd.function.FunctionCtx.save_for_backward`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.save_for_backward.html),
# names both reasons: wrong gradients and memory leaks.

# %% [markdown]
# Anything that isn't a tensor is stored elsewhere:


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
# `save_for_backward` accepts tensors, and None for missing tensors. Store numbers, shapes and flags as attributes of
# `ctx`; nothing can change them in place.
#
# **Now you know.** Pass the inputs and outputs that backward needs to one call of `save_for_backward`, and store
# numbers and flags as attributes of `ctx`.
#
# ## 5.5 gradcheck judges your backward
#
# You can compute a derivative without any backward, as a difference quotient: change the input a little, in both
# directions, and see how the output changes. The slope of x² at 1.3 is 2.6:

# %% facts=["05-gradcheck-compares-jacobians"]
for dtype in (torch.float64, torch.float32):
    x, step = torch.tensor(1.3, dtype=dtype), 1e-6
    slope = ((x + step) ** 2 - (x - step) ** 2) / (2 * step)
    print(f"{dtype!s:14} {slope.item():.4f}")

# %% [markdown]
# In float32 only the first digit is right: the squares are near 1.69, where neighbouring float32 numbers are 0.0000001
# apart, and their difference is only 0.000005. `torch.autograd.gradcheck` computes such a quotient for every entry of
# every input that requires grad, which gives the whole Jacobian. It then computes the Jacobian a second time with your
# `backward`, and compares.
#
# **Predict.** `torch.exp` is certainly right. Does it pass gradcheck on float32 inputs? And on float64 inputs that
# don't require grad?

# %% facts=["05-gradcheck-sample"] shows_warning="UserWarning"
values = [-0.7, 0.4, 1.3]
single = torch.tensor(values, requires_grad=True)
double = torch.tensor(values, dtype=torch.float64, requires_grad=True)

print("float64:", gradcheck(torch.exp, double))
error_of(lambda: gradcheck(torch.exp, double.detach()))
warning_of(lambda: error_of(lambda: gradcheck(torch.exp, single), lines=1))

# %% [markdown]
# It passes neither time. In float32 gradcheck warns, and fails although the formula is right, because of the rounding
# that you saw in the last cell. If no input requires grad, it raises. So before you doubt your backward, check the
# inputs: float64, requires_grad=True.
#
# When gradcheck does find a mistake, it says what is wrong. Here somebody saved the input of `exp` where the output is
# needed:


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
# "numerical" is the difference quotient, "analytical" is your backward. Entry (i, j) says how output j depends on input
# i, so a row belongs to an input (chapter 4's Jacobian, transposed). Here the diagonal of the second matrix is the
# input itself, -0.7, 0.4, 1.3, which tells you what went wrong. For a quick answer, `gradcheck(…,
# raise_exception=False)` returns True or False.
#
# gradcheck tests only the points that you give it. The backward of `torch.relu` is also correct:

# %% facts=["05-gradcheck-sample"]
for place in ([-1.0, 2.0], [-1.0, 0.0]):
    x = torch.tensor(place, dtype=torch.float64, requires_grad=True)
    print(place, gradcheck(torch.relu, x, raise_exception=False))

# %% [markdown]
# gradcheck fails at the kink: there the quotient is 0.5, the mean of both slopes, while backward chooses the left
# slope, which is 0. So a failure may come from the point and not from the formula. And a pass says nothing about points
# that you didn't test. Use random inputs of both signs, away from kinks.
#
# How close is close enough? The gradient below is 0.05 % too large, everywhere.


# %% facts=["05-gradcheck-compares-jacobians"]
class NearlyExp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result * 1.0005


for function in (NearlyExp.apply, torch.exp):
    default = gradcheck(function, double, raise_exception=False)
    strict = gradcheck(function, double, rtol=1e-7, atol=1e-7, raise_exception=False)
    print("by default:", default, "- rtol and atol 1e-7:", strict)

# %% [markdown]
# By default the two may differ by a thousandth of the value (`rtol=1e-3`, `atol=1e-5`). In float64 the quotient, with
# its step of 1e-6, is right to eight digits or more for smooth functions of ordinary size, so you can choose smaller
# tolerances. (At 1e-11 `torch.exp` itself would fail.)
#
# gradcheck treats an input that doesn't require grad as a constant. A backward that checks `ctx.needs_input_grad` may
# be right if all inputs require grad and wrong if only one does, so also test with each input alone.
#
# Here is the layer of section 5.3 without its mistakes, checked completely: the value, gradcheck, and `gradgradcheck`,
# which does the same for the second derivatives.


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
# Check the value first. gradcheck has no reference for it, so a wrong forward with a matching backward passes.
#
# **Predict.** Three Functions of this chapter have known mistakes: `NegateInPlace` writes into its incoming gradient,
# `SquareAttribute` keeps its input as an attribute, and `CarelessLinear` transposes the gradient of a weight, which is
# square here. Which of the three does gradcheck catch?

# %% facts=["05-gradcheck-compares-jacobians"]
torch.manual_seed(0)
x, weight = (torch.randn(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)

faulty = {NegateInPlace: (x,), SquareAttribute: (x,), CarelessLinear: (x, weight, bias)}
for function, inputs in faulty.items():
    passes = gradcheck(function.apply, inputs, raise_exception=False)
    print(f"{function.__name__:16} passes gradcheck:", passes)

# %% [markdown]
# gradcheck catches only the transposed weight, which the shapes don't reveal. The other two are right when nothing else
# uses their tensors, and gradcheck runs them alone. They need separate tests: a second branch whose gradient must stay
# right (section 5.3), an in-place change between forward and backward that must raise (section 5.4), and, if you care
# about memory, a count of what is kept (section 5.1).

# %% [markdown]
# **Now you know.** Give gradcheck inputs that are float64, tracked, random and away from kinks, with sizes that are all
# different. It finds wrong numbers; writes in place and leaks need separate tests.

# %% exercise="debug-linear-backward"

# %% [markdown]
# ## 5.6 Differentiating twice
#
# A gradient penalty, a Hessian and meta-learning all differentiate a gradient. With `create_graph=True` the operations
# inside your `backward` are recorded like any others.
#
# **Predict.** The first of these two Functions computes the derivative 3x² in forward and saves it. The second saves x.
# Which pass gradcheck, which pass gradgradcheck?


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
# Both pass gradcheck; only the second passes gradgradcheck. `forward` ran without recording, so autograd doesn't know
# that the saved 3x² came from x. To the second differentiation it is a constant, and the second derivative is 0 instead
# of 12. A saved *input* (or output) is different: `ctx.saved_tensors` returns it connected to the graph, and what
# `backward` computes from it is recorded.

# %% [markdown]
# If computing the derivative again in backward is too expensive, you can save it and still differentiate twice: return
# the intermediate result as a second output.


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
# As an output, the slope is a part of the graph: `backward` gets a second gradient, which the second differentiation
# multiplies by the slope of the slope, 6x. If `backward` ignores it, the second derivative is 0 again. The function
# `cube` hides the second output from its caller.
#
# `once_differentiable` declares that a backward can't be differentiated, and is meant to raise if you try. Does it?
# **By hand.** Below is a loss with a gradient penalty, y + (dy/dx)², for y = x² at x = 2. Work out its gradient, then
# see what you get with the Function.


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
# The gradient is 10x = 20, and the Function gives 4 without an error: the penalty is ignored. `once_differentiable`
# runs your backward without recording, and prepares the error only if the *incoming* gradient requires grad. Here the
# incoming gradient is a plain 1, as it always is if the results are only added up. So the first gradient comes back
# without a connection to x. If the Function's result is squared, the incoming gradient does depend on x:

# %% facts=["05-once-differentiable"]
x = torch.tensor(2.0, requires_grad=True)

error_of(lambda: with_penalty(SquareOnce.apply(x) ** 2, x).backward())
(grad,) = torch.autograd.grad(with_penalty(SquareOnce.apply(x) ** 2, x), x)
print("torch.autograd.grad:", grad.item())

# %% [markdown]
# Now `backward` raises the promised error. `torch.autograd.grad` follows only the paths that lead to `x`, and the
# marked node leads nowhere, so it returns 32, the gradient without the penalty, where 3104 is right. So check the
# gradients when you use a penalty, and mark a Function in this way only if you must, for example because its backward
# uses NumPy.
#
# **Now you know.** Save inputs and outputs, and compute the rest in backward. Then you can differentiate the gradient.

# %% exercise="unmask-functions"

# %% exercise="lean-swiglu"

# %% exercise="log-cosh-second-order"

# %% [markdown]
# ## 5.7 Gradients by choice
#
# So far `backward` had to return the derivative. In this section you choose what it returns. Suppose a network should
# learn features that don't reveal which of two data sets a sample comes from. A second network tries to tell the data
# sets apart. Between the two we put a layer that does nothing in forward and changes the sign of the gradient in
# backward, so that the features learn to make the second network's task *harder*. That is a *gradient reversal*.


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
node = type(y.grad_fn).__name__
print("the same object:", y is x, "- a view of x:", y._base is x, "- node:", node)
double = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(lambda t: ReverseGradient.apply(t, 1), double, raise_exception=False))

# %% [markdown]
# You can use any strength from 0 up; training usually raises it slowly from 0 to 1. If `forward` returns an input as it
# is, the result becomes a view with the Function's node, so `x.view_as(x)` is good style but not needed.
#
# gradcheck fails, and it must, because the slope of the identity is 1 and we return something else. So test the
# decision itself: compare the gradient that comes out with the one that you wanted.
#
# The other famous case is the step: rounding, sign, quantising. The derivative of `torch.round` is 0 wherever it exists
# (section 4.6), so the layers before it would learn nothing.
#
# **Predict.** Two other ways to round follow. Which gradient does each of them send back when 1 comes in?


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
    """The same without a Function."""
    return x + (torch.round(x) - x).detach()


x = torch.tensor([0.2, 0.7, 1.4], requires_grad=True)
for function in (torch.round, RoundStraightThrough.apply, round_by_detour):
    y = function(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    print(y.tolist(), "gradient:", grad.tolist())

# %% [markdown]
# Both send back 1. The *straight-through* gradient pretends that rounding was the identity. The last version needs no
# Function at all, as in exercise 4.6: the detached difference is a constant to autograd, so the gradient is that of
# `x`. (Adding and subtracting may round in the last digit; the Function returns exactly what `torch.round` returns.) In
# place of the identity you can use the derivative of any smooth function that resembles the step, a *surrogate*.
#
# In the explorer below, the upper curve is the step, and the lower curve is the gradient that leaves `backward` when 1
# comes in; the dashed line is what gradcheck would expect. It starts with sign and the tanh surrogate. Move *steepness*
# up: the surrogate gets closer to the step, and its gradient is nearly 0 in more and more of the range. Then choose
# "round" with "identity".

# %%
surrogate_explorer()

# %% [markdown]
# Here is a third decision: let only the middle of a gradient pass. [3, -1, 2, 0.5] comes in, and the entries outside
# the quartiles are set to 0. **Find the bug.** One of the two versions sorts first, and nothing raises. What goes
# wrong?


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
# Both versions keep 2 and 0.5. But after sorting, 0.5 is in the second place instead of the last, so the second weight
# gets the gradient of the last. The shape is right, and gradcheck can't help, because it must fail anyway. You can find
# the thresholds in a sorted copy, but apply them to the gradient in its original order, or put the values back with
# `scatter_`, as in section 3.5.
#
# **Now you know.** Test a gradient that you chose against your choice. Often you need no Function at all, because you
# can detach a part of the formula.

# %% exercise="straight-through-sign"

# %% exercise="fix-gradient-reversal"

# %% [markdown]
# ## 5.8 Your own classes in torch functions
#
# This section isn't about gradients. It shows how your own classes, such as numbers with units or matrices that are
# never built, can be passed to functions such as `torch.mean`.


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
# The first object is refused because it isn't a tensor. With the second, torch asked its class: "all
# `__torch_function__` handlers returned NotImplemented". If an argument's class has this method, a torch function hands
# the call over to it before doing anything else. The class doesn't have to be a Tensor. What are the arguments of the
# method?


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


class Inherits(Tensor):
    pass


torch.stack([nn.Parameter(t), t.as_subclass(Inherits), curious])

# %% [markdown]
# `types` contains the classes of the arguments that have the method, each once. A class that inherits it counts, as the
# last line shows; plain Tensor and Parameter are left out. `args` is a tuple, and `kwargs` a dict or None, so write
# `kwargs or {}`. Note `func`: an operator arrives as the *method* `Tensor.add`, which is not the same object as the
# function `torch.add`, although both are called "add". torch also finds the object if it is in a list.

# %% [markdown]
# `Repeated` represents n times the same number, without storing them. A table maps each torch function to the function
# that does its work.
#
# **Predict.** Three calls follow, the mean, the sum and `many + many`. Which of them works?

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
results_of(
    {
        "torch.mean(many)": lambda: torch.mean(many),
        "torch.sum(many)": lambda: torch.sum(many),
        "many + many": lambda: many + many,
    },
    lines=1,
)

# %% [markdown] facts=["05-torch-function-must-call-super"]
# Only the mean works. `sum_of_repeated` is not in the table, because its decorator line is missing. And `many + many`
# never reaches torch: Python looks for `__add__` in the class, and there is none. If one of the two is a tensor, the
# tensor's own operator hands the call over, as you saw above.
#
# A subclass of Tensor inherits `__torch_function__`. If you override it there, end with
# `super().__torch_function__(func, types, args, kwargs)`. If you call `func` yourself with arguments of the subclass,
# the call comes back to your override, again and again.
#
# **Now you know.** torch asks the classes of its arguments first. `__torch_function__` is a classmethod (a plain method
# still works, with a warning). If it returns NotImplemented, torch asks the other classes.

# %% exercise="scaled-eye"

# %% [markdown]
# ## 5.9 Foreign code that a compiler accepts
#
# `torch.compile` goes through your Python code and collects the tensor operations in it. It also looks into a Function
# made of torch operations. It can't look into a call of a foreign library, so declare such a call as an *operator*,
# something with a name that the compiler accepts as it is. `torch.library.custom_op` does that. It reads the types from
# the annotations, so you must write them, and `mutates_args=()` promises that no argument is written to.
#
# The operator below says only how to compute exp:


# %%
@torch.library.custom_op("torchkata::numpy_exp", mutates_args=())
def numpy_exp(x: Tensor) -> Tensor:
    return torch.from_numpy(np.exp(x.numpy()))


x = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
print([round(number, 4) for number in numpy_exp(x).tolist()])
error_of(lambda: numpy_exp(x).sum().backward())
error_of(lambda: numpy_exp(torch.empty(2, device="meta")))

# %% [markdown]
# It has a value, but no gradient, and no shape for a tensor without data (the device "meta"). You supply both:
# `register_autograd` takes a `backward` and a `setup_context` like those you have written, and `register_fake` takes a
# function that returns a tensor with the shape and dtype of the result, without computing it.
#
# **Predict.** How many steps does the compiler see in `numpy_exp(2 * x) + 1`?


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
    calls = [node.name for node in graph.graph.nodes if node.op == "call_function"]
    print("the compiler sees:", calls)
    return graph


compiled = torch.compile(lambda x: numpy_exp(2 * x) + 1, backend=show_graph, fullgraph=True)
print([round(number, 4) for number in compiled(x).tolist()])
print("gradcheck:", gradcheck(numpy_exp, x), "- gradgradcheck:", gradgradcheck(numpy_exp, x))

# %% [markdown]
# It sees three steps, and the middle one is our operator, under its name; the compiler doesn't look into it.
# `fullgraph=True` guarantees that this is one graph: it would raise if the compiler had to give up in between. You can
# test an operator with gradcheck like anything else.

# %% [markdown]
# One more tool is useful here: `torch.library.opcheck` compares the registrations with what the operator does. The next
# operator always returns float32, but its fake returns a tensor like x.


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
    failed = sorted(set(verdicts) - set(passed))
    print(f"{name}: {len(passed)} of {len(verdicts)} passed; failed:", failed)

# %% [markdown]
# One of the four tests notices, the test of the fake, and only with a float64 sample. As with gradcheck, the result
# depends on the samples that you give. opcheck doesn't judge whether a gradient is right; for that, use gradcheck.
#
# An operator must keep three promises, and you need them in the last exercise. It returns new memory, never one of its
# inputs. Its fake must also have the right strides: `torch.empty_like(x)` copies those of x, even if x is transposed
# and the result is not. And although the compiler doesn't look into the operator, it does go through its `backward`, so
# `backward` must consist of torch operations.
#
# **Now you know.** Write a Function for a gradient by choice or to save memory, in code made of torch operations. Write
# an operator for foreign code that has to work with `torch.compile` and `torch.export`. Now you can handle the table of
# the opening. ([Chapter 14](../14_compile/compile.ipynb) is about everything else that a compiler sees, guards and
# gives up.)

# %% exercise="interp-operator"

# %% [markdown]
# At the beginning of this chapter the gain couldn't learn. With your operator it can. A thermometer has read 28.8 and
# 49.4 degrees, which the table gives for a gain of 1.2, and the gain starts at 0.5:

# %%
gain = torch.tensor(0.5, requires_grad=True)
table, measured = (torch.tensor(volts), torch.tensor(degrees)), torch.tensor([28.8, 49.4])

try:
    for step in range(21):
        loss = (torch.ops.kata.interp(gain * signal, *table) - measured).square().mean()
        (slope,) = torch.autograd.grad(loss, gain)
        if step % 10 == 0:
            print(f"step {step}: gain {gain.item():.2f}, loss {loss.item():.2f}")
        with torch.no_grad():
            gain -= 0.001 * slope
except Exception as error:
    print(f"This cell needs a right answer to Exercise 5.9. It ended with {type(error).__name__}.")

# %% [markdown]
# NumPy still computes the degrees, as it did at the beginning. The difference is that autograd knows how the degrees
# change with the volts, because your backward says so.

# %% [markdown]
# ## On a GPU
#
# The cell runs eight layers of swish, each on a tensor of 64 MiB. The plain formula keeps two tensors a layer,
# `LeanSwish` and `F.silu` keep one. The cell prints what stays in memory, and the time. Without a GPU it shows a
# recorded run. No exercise needs it.


# %% facts=["05-use-to-save-memory"] varies="a CUDA device changes what is shown"
@cuda_demo("05_custom_functions")
def swish_memory() -> None:
    """Memory that forward leaves in use, and the time of forward and backward."""
    mib = 2**20

    def plain(a: Tensor) -> Tensor:
        return a * torch.sigmoid(a)

    for name, swish in {
        "a * sigmoid(a)": plain,
        "LeanSwish": LeanSwish.apply,
        "F.silu": F.silu,
    }.items():
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
# ## Folklore, checked
#
# The table lists what people say about custom Functions, and whether it is true. Each row has a proof that you can
# expand, a few lines that run without an error only if the statement on the right is true.

# %%
folklore("05_custom_functions")

# %% [markdown]
# You can run a proof by its name. It prints one line if the fact holds on this machine and with this version of
# PyTorch, and raises an error if it doesn't.

# %%
prove("05-once-differentiable")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - the note [Extending PyTorch](https://docs.pytorch.org/docs/stable/notes/extending.html): Functions, modules,
#   `__torch_function__`, with the conventions of this chapter;
# - the note [Extending torch.func with
#   autograd.Function](https://docs.pytorch.org/docs/stable/notes/extending.func.html): `setup_context`, `vmap`, and
#   when they are needed;
# - [`torch.autograd.Function`](https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.Function) and its
#   context:
#   [`save_for_backward`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.save_for_backward.html),
#   [`set_materialize_grads`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.set_materialize_grads.html),
#   [`mark_dirty`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.mark_dirty.html),
#   [`mark_non_differentiable`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.mark_non_differentiable.html);
# - the tutorial [Double Backward with Custom
#   Functions](https://docs.pytorch.org/tutorials/intermediate/custom_function_double_backward_tutorial.html): what to
#   save so that backward can be differentiated;
# - [`torch.autograd.gradcheck.gradcheck`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html)
#   and the note [Gradcheck mechanics](https://docs.pytorch.org/docs/stable/notes/gradcheck.html): what is compared, and
#   with which tolerances;
# - [`torch.library`](https://docs.pytorch.org/docs/stable/library.html) and the tutorial [Custom Python
#   Operators](https://docs.pytorch.org/tutorials/advanced/python_custom_ops.html): `custom_op`, `register_autograd`,
#   `register_fake`, `opcheck`.
#
# **Next:** chapter 6, [Hooks](../06_hooks/hooks.ipynb).
