# corners: caller's modes
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

double = {"dtype": torch.float64, "requires_grad": True}


def asks(*inputs, ask=gradcheck, **options):
    """Right tests are made of this: it asks about copies of these inputs, with recording on."""

    def unmask(function):
        with torch.enable_grad():
            copies = tuple(t.detach().clone().requires_grad_(t.requires_grad) for t in inputs)
            return ask(function, copies, raise_exception=False, **options)

    return unmask


def all_of(*tests):
    return lambda function: all(test(function) for test in tests)


x = torch.tensor([0.5, -1.5, 2.0], **double)
rows, bias = torch.arange(12.0, **double), torch.tensor([0.3, -1.1, 2.0], **double)
a, b = torch.tensor([[0.5, -1.3], [2.2, 0.7]], **double).detach().requires_grad_()
many = torch.linspace(-3, 3, 61, **double)
once, twice = asks(x), asks(x, ask=gradgradcheck)
a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
both, only_a, only_b = asks(a, b), asks(a, b.detach()), asks(a.detach(), b)

unmask_cube = all_of(once, twice)
unmask_add_bias = asks(rows.detach().reshape(4, 3).requires_grad_(), bias)
unmask_gelu = asks(many, atol=1e-7, rtol=1e-7)
unmask_product = all_of(both, only_a, only_b)


# %% right: lets gradcheck raise, numbers of a generator of its own, constants in lambdas
def numbers(*size):
    return torch.randn(size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def unmask_cube(function):
    with torch.enable_grad():
        return gradgradcheck(function, (numbers(5).requires_grad_(),))


def unmask_add_bias(function):
    with torch.enable_grad():
        rows = numbers(3, 2)
        return gradcheck(lambda b: function(rows, b), (numbers(2).requires_grad_(),))


def unmask_gelu(function):
    with torch.set_grad_enabled(True):
        return gradcheck(function, many, atol=1e-6, rtol=1e-6)


def unmask_product(function):
    a, b = numbers(2, 3, 1)
    with torch.enable_grad():
        of_a = gradcheck(lambda a: function(a, b), a.clone().requires_grad_())
        return of_a and gradcheck(lambda b: function(a, b), b.clone().requires_grad_())


# %% right: random inputs inside fork_rng, another step, grad_outputs of its own
def unmask_cube(function):
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(5)
        x = torch.randn(4, **double)
        return gradgradcheck(function, x, grad_outputs=torch.full((4,), 0.7, **double), raise_exception=False)


def unmask_gelu(function):
    with torch.enable_grad():
        return gradcheck(function, torch.linspace(-3.1, 3.1, 90, **double), eps=1e-5, atol=1e-6, rtol=0)


# %% right: try and except around gradcheck
def caught(test):
    def unmask(function):
        try:
            with torch.enable_grad():
                return bool(test(function))
        except Exception:
            return False

    return unmask


unmask_cube = caught(lambda f: gradcheck(f, (x,)) and gradgradcheck(f, (x,)))
unmask_gelu = caught(lambda f: gradcheck(f, (many,), atol=1e-8, rtol=1e-7))


# %% right: random rows from the global generator, since the verdict never changes
def unmask_add_bias(function):
    with torch.enable_grad():
        return gradcheck(function, (torch.randn(6, 2, **double), torch.randn(2, **double)), raise_exception=False)


# %% right: many single places for gelu
def unmask_gelu(function):
    with torch.enable_grad():
        places = (torch.tensor([k / 10], **double) for k in range(-30, 31))
        return all(gradcheck(function, x, atol=1e-6, rtol=1e-6, raise_exception=False) for x in places)


# %% wrong: the careless calls
# says: cube: the first derivative is right. Only gradgradcheck looks at the second.
# says: gelu: the gradient is off by so little that your tolerance lets it pass
# earns: 0 of 3
# lesson
def unmask_cube(function):
    return gradcheck(function, torch.tensor([1.5], **double))


def unmask_add_bias(function):
    return gradcheck(function, (torch.ones(1, 3, **double), torch.ones(3, **double)))


def unmask_gelu(function):
    return gradcheck(function, torch.tensor([3.0], **double))


def unmask_product(function):
    return gradcheck(function, (a, b))


# %% wrong: gradcheck for cube
# says: cube: the first derivative is right. Only gradgradcheck looks at the second.
# earns: 1 of 3
# lesson
unmask_cube = once


# %% wrong: one row for add_bias
# says: add_bias: with one row, a sum over the rows is the same as the first row or the mean. Use several rows.
# earns: 1 of 3
# lesson
unmask_add_bias = asks(torch.ones(1, 3, **double), bias)


# %% wrong: default tolerances for gelu, at many places
# says: gelu: the gradient is off by so little that your tolerance lets it pass
# earns: 1 of 3
# lesson
unmask_gelu = asks(many)


# %% wrong: strict tolerances for gelu, but three places only
# says: gelu: the gradient is off at places that you didn't test.
# earns: 2 of 3
# caught: hidden
unmask_gelu = asks(torch.tensor([-2.0, 0.5, 2.0], **double), atol=1e-7, rtol=1e-7)


# %% wrong: strict tolerances for gelu, at a place where the gradient is right
# says: gelu: the gradient is off at places that you didn't test.
# earns: 1 of 3
unmask_gelu = asks(torch.tensor([0.0], **double), atol=1e-7, rtol=1e-7)


# %% wrong: positive places for gelu
# says: gelu: the gradient is off at places that you didn't test.
# earns: 2 of 3
# caught: hidden
unmask_gelu = asks(torch.linspace(0, 3, 61, **double), atol=1e-7, rtol=1e-7)


# %% wrong: tolerances of 1e-12 for gelu
# says: A right Function was refused: no difference quotient meets tolerances as strict as these.
# earns: 1 of 3
unmask_gelu = asks(many, atol=1e-12, rtol=1e-12)


# %% wrong: float32 inputs
# says: A right Function was refused: finite differences need float64; in float32 a step of eps=1e-6 is lost in rounding.
# earns: 0 of 3
# lesson
unmask_cube = all_of(asks(x.detach().float().requires_grad_()), twice)
unmask_gelu = asks(many.detach().float().requires_grad_(), atol=1e-7, rtol=1e-7)


# %% wrong: both inputs of product tracked
# says: product: the mistake shows only if one of the inputs does not require grad. Also test each input alone.
# earns: 1 of 3
# lesson
unmask_product = both


# %% wrong: a alone, and both
# says: product: the mistake shows only if one of the inputs does not require grad. Also test each input alone.
# earns: 1 of 3
unmask_product = all_of(both, only_a)


# %% wrong: a equals b for product
# says: product: a faulty Function passes your test.
# earns: 2 of 3
ones = torch.ones(3, **double)
unmask_product = all_of(asks(ones, ones.detach()), asks(ones.detach(), ones))


# %% wrong: the second derivative of cube at 0
# says: cube: at x = 0 the second derivative is 0 anyway
# earns: 1 of 3
unmask_cube = asks(torch.zeros(3, **double), ask=gradgradcheck)


# %% wrong: a handful of random places for gelu
# says: gelu: the gradient is off at places that you didn't test.
# earns: 2 of 3
# caught: hidden
def unmask_gelu(function):
    with torch.enable_grad():
        return gradcheck(function, torch.randn(5, **double), atol=1e-7, rtol=1e-7, raise_exception=False)


# %% wrong: forgets the caller's no_grad
# says: In the caller's no_grad the verdict changes
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def unmask_add_bias(function):
    inputs = torch.ones(4, 3, **double), torch.ones(3, **double)
    return gradcheck(function, inputs, raise_exception=False)


# %% wrong: compares with the formula instead of asking gradcheck
# says: You did not call `gradcheck`: only gradcheck and gradgradcheck judge.
# earns: 0 of 3
def unmask_cube(function):
    x = torch.tensor([2.0], **double)
    (first,) = torch.autograd.grad(function(x), x, create_graph=True)
    try:
        return torch.autograd.grad(first, x)[0].item() == 12
    except RuntimeError:
        return False


def unmask_gelu(function):
    x = many.detach().requires_grad_()
    found = torch.autograd.grad(function(x).sum(), x)[0]
    return torch.allclose(found, torch.autograd.grad(F.gelu(x).sum(), x)[0], atol=1e-7)


# %% wrong: asks gradcheck, and judges by hand
# says: Only gradcheck and gradgradcheck judge: lines of your own ran a backward pass through the Function.
# earns: 1 of 3
def unmask_add_bias(function):
    x, b = torch.ones(4, 3, **double), torch.ones(3, **double)
    return gradcheck(function, (x[:1], b)) and torch.autograd.grad(function(x, b).sum(), b)[0][0].item() == 4


# %% wrong: asks gradcheck, and calls the node by hand
# says: Only gradcheck and gradgradcheck judge: lines of your own ran a backward pass through the Function.
# earns: 1 of 3
def unmask_add_bias(function):
    x, b = torch.ones(4, 3, **double), torch.ones(3, **double)
    out = function(x, b)
    by_hand = getattr(out.grad_fn, "apply", out.grad_fn)(torch.ones_like(out))[1]
    return gradcheck(function, (x[:1], b)) and (by_hand.shape == x.shape or by_hand[0].item() == 4)


# %% wrong: always False
# says: You did not call `gradcheck`: only gradcheck and gradgradcheck judge.
# earns: 0 of 3
unmask_cube = unmask_add_bias = unmask_gelu = unmask_product = lambda function: False


# %% wrong: asks, then says False
# says: a right Function must give True, this one was refused
# earns: 0 of 3
def never(test):
    return lambda function: test(function) and False


unmask_cube, unmask_gelu = never(unmask_cube), never(unmask_gelu)


# %% wrong: asks, then says True and False in turn
# says: cube: the first derivative is right. Only gradgradcheck looks at the second.
# says: gelu: the gradient is off by so little that your tolerance lets it pass
# says: cube: a right Function must give True, this one was refused
# earns: 0 of 3
turns = {"cube": 0, "gelu": 0}


def in_turn(test, kind):
    def unmask(function):
        test(function)
        turns[kind] += 1
        return turns[kind] % 2 == 1

    return unmask


unmask_cube, unmask_gelu = in_turn(once, "cube"), in_turn(asks(many), "gelu")


# %% wrong: forgets to return
# says: Nothing came back: is a `return` missing?
# earns: 1 of 3
def unmask_gelu(function):
    with torch.enable_grad():
        gradcheck(function, many, atol=1e-7, rtol=1e-7)


# %% wrong: True where it is faulty
# says: product: a right Function must give True, this one was refused
# earns: 1 of 3
right_one = unmask_product


def unmask_product(function):
    return not right_one(function)


# %% wrong: gelu at places 0.3 apart
# says: gelu: the gradient is off
# earns: 2 of 3
# caught: hidden
def unmask_cube(function):
    x = torch.tensor([-1.3, 0.4, 2.1], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, x) and gradgradcheck(function, x)


def unmask_add_bias(function):
    x = torch.arange(12, dtype=torch.float64).reshape(4, 3).requires_grad_()
    b = torch.tensor([0.3, -1.1, 2.0], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, (x, b), raise_exception=False)


def unmask_gelu(function):
    x = torch.linspace(-3, 3, 21, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, x, atol=1e-7, rtol=1e-7, raise_exception=False)


def unmask_product(function):
    a, b = torch.tensor([[0.5, -1.3], [2.2, 0.7]], dtype=torch.float64)
    with torch.enable_grad():
        for of_a, of_b in ((True, True), (True, False), (False, True)):
            pair = a.clone().requires_grad_(of_a), b.clone().requires_grad_(of_b)
            if not gradcheck(function, pair, raise_exception=False):
                return False
    return True


# %% wrong: gelu with tolerances of 1e-4
# says: where it is above 1, and your tolerance lets that pass
# earns: 2 of 3
# caught: hidden
def unmask_cube(function):
    x = torch.tensor([-1.3, 0.4, 2.1], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, x) and gradgradcheck(function, x)


def unmask_add_bias(function):
    x = torch.arange(12, dtype=torch.float64).reshape(4, 3).requires_grad_()
    b = torch.tensor([0.3, -1.1, 2.0], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, (x, b), raise_exception=False)


def unmask_gelu(function):
    x = torch.linspace(-3, 3, 61, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        return gradcheck(function, x, atol=1e-4, rtol=1e-4, raise_exception=False)


def unmask_product(function):
    a, b = torch.tensor([[0.5, -1.3], [2.2, 0.7]], dtype=torch.float64)
    with torch.enable_grad():
        for of_a, of_b in ((True, True), (True, False), (False, True)):
            pair = a.clone().requires_grad_(of_a), b.clone().requires_grad_(of_b)
            if not gradcheck(function, pair, raise_exception=False):
                return False
    return True


# %% wrong: differentiates by hand, in a child process
# says: Only gradcheck and gradgradcheck judge: leave other processes alone, nobody sees what they differentiate.
# earns: 1 of 3
def is_cube(function):
    x = torch.tensor([-1.3, 0.4, 2.1], **double)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return slope.requires_grad and torch.autograd.grad(slope.sum(), x)[0].allclose(6 * x)


def unmask_cube(function):
    import os

    once(function)
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(theirs, b"right" if is_cube(function) else b"wrong")
        finally:
            os._exit(0)
    os.close(theirs)  # else nobody would come to the end of it where the child says nothing
    os.waitpid(child, 0)
    return os.read(ours, 5) == b"right"


# %% wrong: differentiates by hand, under the name of gradcheck
# says: Only gradcheck and gradgradcheck judge: lines of your own ran a backward pass through the Function.
# earns: 1 of 3
def is_cube(function):
    x = torch.tensor([-1.3, 0.4, 2.1], **double)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return slope.requires_grad and torch.autograd.grad(slope.sum(), x)[0].allclose(6 * x)


def unmask_cube(function):
    space = {"__name__": "torch.autograd.gradcheck", "is_cube": is_cube}
    exec("def gradcheck(function, atol=1e-5, rtol=1e-3):\n    return is_cube(function)", space)
    return once(function) and space["gradcheck"](function)
