# corners: none
from dataclasses import dataclass

import torch
from torch import Tensor

MATMUL = (torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__)


class Base:
    """A right one; wrong ones below change a method of it."""

    def __init__(self, n, c):
        self.n, self.c = n, c

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in MATMUL:
            return cls.times(*(reversed(args) if func is Tensor.__rmatmul__ else args), **kwargs)
        if func is torch.trace:
            return cls.trace(*args, **kwargs)
        if func is torch.diagonal:
            return cls.diagonal(*args, **kwargs)
        if func is torch.add and all(isinstance(a, cls) for a in args):
            return cls.plus(*args, **kwargs)
        return cls.unknown(func)

    @classmethod
    def unknown(cls, func):
        return NotImplemented

    @classmethod
    def times(cls, a, b):
        if isinstance(a, cls) and isinstance(b, cls):
            return cls.both(a, b)
        if isinstance(a, cls):
            return cls.left(a, b)
        return cls.right(a, b)

    @classmethod
    def left(cls, a, t):
        if t.shape[0] != a.n:
            raise RuntimeError("size")
        return a.c * t

    @classmethod
    def right(cls, t, b):
        if t.shape[-1] != b.n:
            raise RuntimeError("size")
        return t * b.c

    @classmethod
    def both(cls, a, b):
        if a.n != b.n:
            raise RuntimeError("size")
        return cls(a.n, a.c * b.c)

    @classmethod
    def plus(cls, a, b):
        if a.n != b.n:
            raise ValueError("size")
        return cls(a.n, a.c + b.c)

    @classmethod
    def trace(cls, a):
        return torch.as_tensor(a.c * a.n)

    @classmethod
    def diagonal(cls, a):
        return torch.ones(a.n) * a.c

    def __matmul__(self, t):
        return torch.matmul(self, t)


# %% right: a helper's methods under one class
class ScaledEye(Base):
    pass


# %% right: table of function objects filled by a decorator, __matmul__ and __rmatmul__
TABLE = {}


def implements(*functions):
    def register(function):
        TABLE.update(dict.fromkeys(functions, function))
        return function

    return register


class ScaledEye:
    def __init__(self, n, c):
        self.n = n
        self.c = c if isinstance(c, torch.Tensor) else torch.tensor(float(c))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in TABLE:
            return NotImplemented
        return TABLE[func](*args, **(kwargs or {}))

    def __matmul__(self, other):
        return product(self, other)

    def __rmatmul__(self, other):
        return product(other, self)


def fits(condition):
    if not condition:
        raise ValueError("the sizes do not fit")


@implements(torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)
def product(a, b):
    if isinstance(a, ScaledEye) and isinstance(b, ScaledEye):
        fits(a.n == b.n)
        return ScaledEye(a.n, a.c * b.c)
    eye, t, size = (a, b, b.shape[0]) if isinstance(a, ScaledEye) else (b, a, a.shape[-1])
    fits(size == eye.n)
    return t * eye.c


@implements(torch.add)
def total(a, b):
    fits(a.n == b.n)
    return ScaledEye(a.n, a.c + b.c)


@implements(torch.trace)
def trace(a):
    return a.c * a.n


@implements(torch.diagonal)
def diagonal(a):
    return a.c.expand(a.n)


# %% right: looks up methods by func.__name__, no __matmul__ at all
class ScaledEye:
    def __init__(self, n, c):
        self.n, self.c = n, c

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        method = getattr(cls, "do_" + func.__name__.strip("_"), None)
        return method(*args, **(kwargs or {})) if method else NotImplemented

    @staticmethod
    def do_matmul(a, b):
        if not isinstance(a, ScaledEye):
            if a.shape[-1] != b.n:
                raise ValueError("size")
            return b.c * a
        if isinstance(b, ScaledEye):
            if a.n != b.n:
                raise ValueError("size")
            return ScaledEye(a.n, a.c * b.c)
        if b.shape[0] != a.n:
            raise ValueError("size")
        return a.c * b

    @staticmethod
    def do_rmatmul(t, eye):
        return ScaledEye.do_matmul(eye, t)

    @staticmethod
    def do_add(a, b):
        if a.n != b.n:
            raise ValueError("size")
        return ScaledEye(a.n, a.c + b.c)

    @staticmethod
    def do_trace(a):
        return torch.as_tensor(a.c).mul(a.n)

    @staticmethod
    def do_diagonal(a):
        return torch.stack([torch.as_tensor(a.c)]).repeat(a.n)


# %% right: a staticmethod does not warn either; sizes left to a torch function of vectors
class ScaledEye(Base):
    @staticmethod
    def __torch_function__(func, types, args=(), kwargs=None):
        return Base.__torch_function__.__func__(ScaledEye, func, types, args, kwargs)

    @classmethod
    def left(cls, a, t):
        torch.empty(a.n, dtype=t.dtype, device="meta") @ t.to("meta")
        return a.c * t


# %% wrong: no __torch_function__
# says: Torch functions refuse the object: it needs a classmethod __torch_function__(cls, func, types, args=(),
# earns: 0 of 2
# lesson
class ScaledEye:
    def __init__(self, n, c):
        self.n, self.c = n, c

    def __matmul__(self, t):
        return self.c * t


# %% wrong: __torch_function__ without @classmethod
# says: `__torch_function__` is a plain method: deprecated. Make it a classmethod.
# earns: 1 of 2
class ScaledEye(Base):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return Base.__torch_function__.__func__(type(self), func, types, args, kwargs)


# %% wrong: multiplies by torch.eye(n)
# says: A dense n x n tensor was made, by
# earns: 0 of 2
# lesson
class ScaledEye(Base):
    @classmethod
    def left(cls, a, t):
        return (a.c * torch.eye(a.n, dtype=t.dtype)) @ t

    @classmethod
    def right(cls, t, b):
        return t @ (b.c * torch.eye(b.n, dtype=t.dtype))


# %% wrong: takes the diagonal of the dense matrix
# says: A dense n x n tensor was made, by
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def diagonal(cls, a):
        return torch.eye(a.n).diagonal() * a.c


# %% wrong: an expanded zero is dense, too
# says: A dense n x n tensor was made, by
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def trace(cls, a):
        return torch.as_tensor(a.c).expand(a.n, a.n)[0].sum()


# %% wrong: handles E on the left only
# says: The product must work from both sides
# earns: 0 of 2
# lesson
class ScaledEye(Base):
    @classmethod
    def right(cls, t, b):
        return b.left(t, b)


# %% wrong: E on the right is not known
# says: The product must work from both sides
# says: must also work
# earns: 0 of 2
class ScaledEye(Base):
    @classmethod
    def right(cls, t, b):
        return NotImplemented


# %% wrong: handles torch.matmul only
# says: The operators arrive as function objects other than torch.matmul
# earns: 1 of 2
class ScaledEye:
    def __init__(self, n, c):
        self.n, self.c = n, c

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in MATMUL and func is not torch.matmul:
            return NotImplemented
        return Base.__torch_function__.__func__(Half, func, types, [half(a) for a in args], kwargs)


class Half(Base):
    @classmethod
    def both(cls, a, b):
        return ScaledEye(a.n, Base.both(a, b).c)

    @classmethod
    def plus(cls, a, b):
        return ScaledEye(a.n, Base.plus(a, b).c)


def half(a):
    return Half(a.n, a.c) if isinstance(a, ScaledEye) else a


# %% wrong: t @ E is not known
# says: t @ E must also work
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in MATMUL[1:]:
            return NotImplemented
        return Base.__torch_function__.__func__(cls, func, types, args, kwargs)


# %% wrong: returns None for unknown functions
# says: An unknown function must end in TypeError; return NotImplemented from __torch_function__.
# earns: 1 of 2
# lesson
class ScaledEye(Base):
    @classmethod
    def unknown(cls, func):
        return None


# %% wrong: raises NotImplementedError
# says: For torch.exp it raised NotImplementedError.
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def unknown(cls, func):
        raise NotImplementedError


# %% wrong: raises TypeError itself
# says: torch also asks the class of the other argument. Here it was not asked.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def unknown(cls, func):
        raise TypeError(func)


# %% wrong: takes every other function for add
# says: For torch.sub it returned an object of type ScaledEye.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.sub:
            return cls.plus(*args)
        return Base.__torch_function__.__func__(cls, func, types, args, kwargs)


# %% wrong: float(c)
# says: No gradient reaches c: it was converted to a Python number.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    def __init__(self, n, c):
        self.n, self.c = n, float(c)


# %% wrong: float(c) for the trace and the diagonal
# says: No gradient reaches c: it was converted to a Python number.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def trace(cls, a):
        return torch.tensor(float(a.c) * a.n)

    @classmethod
    def diagonal(cls, a):
        return torch.full((a.n,), float(a.c))


# %% wrong: never compares sizes
# says: A size that does not fit must raise
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def left(cls, a, t):
        return a.c * t


# %% wrong: compares the first dimension on both sides
# says: A size that does not fit must raise
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def right(cls, t, b):
        if b.n not in t.shape:
            raise ValueError("size")
        return b.c * t


# %% wrong: asserts sizes
# says: A size that does not fit must raise ValueError or RuntimeError
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def left(cls, a, t):
        assert t.shape[0] == a.n
        return a.c * t


# %% wrong: two ScaledEyes of different n
# says: A size that does not fit must raise: torch.add of two
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def plus(cls, a, b):
        return cls(a.n, a.c + b.c)


# %% wrong: returns the diagonal of the sum
# says: The sum (or product) of two ScaledEyes is a ScaledEye again
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def plus(cls, a, b):
        return torch.full((a.n,), a.c + b.c)


# %% wrong: two are not known
# says: The sum (or product) of two ScaledEyes is a ScaledEye again
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def plus(cls, a, b):
        return NotImplemented


# %% wrong: adds the factors of two ScaledEyes in a product
# says: The product of two ScaledEyes multiplies their factors
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def both(cls, a, b):
        return cls.plus(a, b)


# %% wrong: the trace is c
# says: The trace is the sum of the diagonal, n times c
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def trace(cls, a):
        return torch.as_tensor(a.c)


# %% wrong: the trace is a Python number
# says: The trace is the sum of the diagonal, n times c, as a 0-d tensor
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def trace(cls, a):
        return a.c * a.n


# %% wrong: the diagonal has one entry
# says: The diagonal has n entries
# earns: 1 of 2
class ScaledEye(Base):
    @classmethod
    def diagonal(cls, a):
        return torch.as_tensor(a.c)


# %% wrong: results in float32
# says: The dtype of t must be kept
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def left(cls, a, t):
        return Base.left.__func__(cls, a, t).float()


# %% wrong: a subclass of Tensor
# says: ScaledEye must be a plain class, not a subclass of Tensor.
# earns: 0 of 2
class ScaledEye(torch.Tensor):
    def __new__(cls, n, c):
        return torch.Tensor._make_subclass(cls, torch.as_tensor(c))

    def __init__(self, n, c):
        self.n, self.c = n, c

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.matmul:
            a, b = args
            eye, t = (a, b) if isinstance(a, cls) else (b, a)
            return eye.c * t
        return super().__torch_function__(func, types, args, kwargs)


# %% right: supports alpha and offset
class ScaledEye(Base):
    @classmethod
    def plus(cls, a, b, *, alpha=1):
        return super().plus(a, cls(b.n, b.c * alpha))

    @classmethod
    def diagonal(cls, a, offset=0):
        return torch.ones(a.n) * a.c if offset == 0 else torch.zeros(a.n - abs(offset))


# %% wrong: passes on only what it expects
# says: torch.add(E, F, alpha=2): the additional argument was ignored, and the result is wrong.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args)


# %% wrong: ignores a second argument of diagonal
# says: torch.diagonal(E, 1): the additional argument was ignored, and the result is wrong.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args[:1] if func is torch.diagonal else args, kwargs)


# %% wrong: dense as long as it is small
# says: A dense n x n tensor was made, by
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def trace(cls, a):
        return torch.trace(a.c * torch.eye(a.n)) if a.n < 500 else super().trace(a)


# %% wrong: a function that returns the matrix
# says: ScaledEye must be a class.
# earns: 0 of 2
def ScaledEye(n, c):
    return c * torch.eye(n)


# %% wrong: the size of c only
# says: The product is not that of the dense matrix.
# says: The values are wrong: the values differ.
# earns: 0 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def left(cls, a, t):
        if t.shape[0] != a.n:
            raise RuntimeError("size")
        return abs(a.c) * t


# %% wrong: products without keyword arguments
# says: torch.matmul(E, t, out=given): the additional argument was ignored, and the result is wrong.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.matmul, Tensor.matmul):
            kwargs = {}
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: c = 1 changes nothing
# says: No gradient reaches c where c is 1: a special case for this number leaves c out.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def left(cls, a, t):
        return t if a.c == 1 and len(t) == a.n else super().left(a, t)


# %% wrong: c = 0 gives zeros
# says: No gradient reaches c where c is 0: a special case for this number leaves c out.
# earns: 1 of 2
# caught: hidden
class ScaledEye(Base):
    @classmethod
    def right(cls, t, b):
        return torch.zeros_like(t) if b.c == 0 and t.shape[-1] == b.n else super().right(t, b)


# %% wrong: stores the diagonal
# says: ScaledEye(30, 2.5) stores a tensor of 30 numbers, where n and c are enough.
# earns: 1 of 2
class ScaledEye(Base):
    def __init__(self, n, c):
        self.n, self.c = n, c
        self.entries = torch.as_tensor(c).repeat(n)

    @classmethod
    def diagonal(cls, a):
        return a.entries.clone()

    @classmethod
    def trace(cls, a):
        return a.entries.sum()


# %% right: frozen, with the table of all products
@dataclass(frozen=True)
class ScaledEye(Base):
    n: int
    c: float
