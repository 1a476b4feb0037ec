# corners: none
from typing import NamedTuple

import torch

DUNDERS_TOO = ("__getitem__", "__setitem__")


def is_hidden(name):
    return name.startswith("__") and name.endswith("__") and name not in DUNDERS_TOO


def shapes_of(args):
    return tuple(a.shape for a in args if isinstance(a, torch.Tensor))


# %% right: calls func under DisableTorchFunctionSubclass and wraps the results itself
def wrap(result):
    if isinstance(result, torch.Tensor):
        return result if isinstance(result, Audit) else result.as_subclass(Audit)
    if type(result) in (tuple, list):
        return type(result)(wrap(r) for r in result)
    return type(result)(wrap(r) for r in result) if hasattr(result, "values") and isinstance(result, tuple) else result


class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if not is_hidden(func.__name__):
                cls.diary.append((func.__name__, shapes_of(args)))
            result = func(*args, **(kwargs or {}))
            return result if func.__name__ == "__get__" and not isinstance(result, torch.Tensor) else wrap(result)


# %% right: calls the base class's implementation by name
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not is_hidden(func.__name__):
            cls.diary.append((func.__name__, shapes_of(args)))
        return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs)


# %% right: shapes through as_subclass
class Audit(torch.Tensor):
    diary: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = func.__name__
        if name in DUNDERS_TOO or not (name[:2] == "__" == name[-2:]):
            plain = [a.as_subclass(torch.Tensor) for a in args if isinstance(a, torch.Tensor)]
            Audit.diary += [(name, tuple(p.shape for p in plain))]
        return super().__torch_function__(func, types, args=args, kwargs=kwargs)


# %% right: lists of shapes, tuples of ints
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, [tuple(s) for s in shapes_of(args)]))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: the code as given
# says: Formatting an Audit tensor calls its __repr__, which is a torch method too and lands in __torch_function__ again
# earns: 0 of 2
# lesson
class Audit(torch.Tensor):
    diary = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Audit.diary.append(f"{func.__name__} {args}")
        return func(*args, **kwargs)


# %% wrong: adds @classmethod, still calls func
# says: `func(*args)` on Audit tensors lands in __torch_function__ again: pass the call on through super()
# earns: 0 of 2
# lesson
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return func(*args, **(kwargs or {}))


# %% wrong: no @classmethod
# says: `__torch_function__` is a plain method: deprecated. Make it a classmethod.
# earns: 1 of 2
# lesson
class Audit(torch.Tensor):
    diary = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: writes super().torch_function
# says: `super().torch_function` does not exist; the name has double underscores on both sides.
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().torch_function(func, types, args, kwargs)


# %% wrong: switches the protocol off and returns plain tensors
# says: Results must be Audit tensors, not of type Tensor.
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if not is_hidden(func.__name__):
                Audit.diary.append((func.__name__, shapes_of(args)))
            result = func(*args, **(kwargs or {}))
            return result.as_subclass(torch.Tensor) if isinstance(result, torch.Tensor) else result


# %% wrong: logs dunder names too
# says: Printing or attribute access left entries in the diary: __repr__
# earns: 1 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: logs dunder names too, and asks for shapes outside
# says: `x.shape` and the like go through __torch_function__ again, as __get__
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Audit.diary.append((func.__name__, tuple(a.shape for a in args if isinstance(a, torch.Tensor))))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: skips every dunder name, indexing included
# says: Indexing must be logged.
# earns: 1 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not func.__name__.startswith("__"):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: logs reading by index only
# says: Indexing must be logged.
# earns: 1 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not func.__name__.startswith("__") or func.__name__ == "__getitem__":
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: records the first tensor's shape only
# says: The entry must hold the shapes of the direct tensor arguments
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)[:1]))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: shapes of Audit tensors only
# says: The entry must hold the shapes of the direct tensor arguments
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, tuple(a.shape for a in args if isinstance(a, Audit))))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: shapes from keyword arguments too
# says: The entry must hold the shapes of the direct tensor arguments
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of([*args, *(kwargs or {}).values()])))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: logs only when the first argument is an Audit tensor
# says: A call is missing in the diary: add.
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__) and args and isinstance(args[0], Audit):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: logs before and after the call
# says: A call appears more than once (inner calls are logged too): matmul.
# says: A call appears more than once (inner calls are logged too)
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        result = super().__torch_function__(func, types, args, kwargs)
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return result


# %% wrong: logs after the call
# says: The entry must be made before the call: a call that raised left no entry.
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        shapes = () if is_hidden(func.__name__) else shapes_of(args)
        result = super().__torch_function__(func, types, args, kwargs)
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes))
        return result


# %% wrong: does not pass kwargs on
# says: Keyword arguments were not passed on.
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        return super().__torch_function__(func, types, args)


# %% wrong: **kwargs with kwargs=None
# says: `kwargs` may be None: use kwargs or {}.
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        return result.as_subclass(Audit) if isinstance(result, torch.Tensor) else result


# %% wrong: formats args into the entry
# says: Formatting an Audit tensor calls its __repr__
# earns: 0 of 2
# lesson
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Audit.diary.append((f"{func.__name__}", f"{args}"))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: an entry in words
# says: An entry must be a pair: the function's name and a tuple of shapes.
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append(f"{func.__name__} {shapes_of(args)}")
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: str(func) in place of its name
# says: An entry begins with func.__name__, such as 'matmul', not with str(func).
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((str(func), shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: in-place methods make a new object
# says: An in-place method must return the very object.
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, shapes_of(args)))
        result = super().__torch_function__(func, types, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return result.view_as(result).as_subclass(Audit) if isinstance(result, torch.Tensor) else result


# %% wrong: only single tensors are wrapped
# says: The tensors in a tuple must be Audit tensors, not Tensor.
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if not is_hidden(func.__name__):
                Audit.diary.append((func.__name__, shapes_of(args)))
            result = func(*args, **(kwargs or {}))
            if isinstance(result, tuple) and not isinstance(result, torch.Size):
                return tuple(r.as_subclass(torch.Tensor) if isinstance(r, torch.Tensor) else r for r in result)
            return result.as_subclass(Audit) if isinstance(result, torch.Tensor) and result is not args[0] else result


# %% wrong: detaches what it returns
# says: Values or gradients of Audit tensors are wrong
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if not is_hidden(func.__name__):
                Audit.diary.append((func.__name__, shapes_of(args)))
            if func.__name__ == "pow":
                return func(args[0].detach(), *args[1:]).requires_grad_().as_subclass(Audit)
        return super().__torch_function__(func, types, args, kwargs)


# %% right: pairs with names, a new list for each entry
class Entry(NamedTuple):
    name: str
    shapes: tuple


class Audit(torch.Tensor):
    diary: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary = [*Audit.diary, Entry(func.__name__, shapes_of(args))]
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: no list in the class
# says: `Audit.diary` must be a list that belongs to the class.
# earns: 0 of 2
class Audit(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: writes when the call is over, in any case
# says: The entry must hold the shapes of the direct tensor arguments
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        try:
            return super().__torch_function__(func, types, args, kwargs)
        finally:
            if not is_hidden(func.__name__):
                Audit.diary.append((func.__name__, shapes_of(args)))


# %% wrong: shapes of tensors in lists, too
# says: The entry must hold the shapes of the direct tensor arguments
# earns: 1 of 2
# caught: hidden
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            flat = [part for arg in args for part in (arg if isinstance(arg, (list, tuple)) else [arg])]
            Audit.diary.append((func.__name__, shapes_of(flat)))
        return super().__torch_function__(func, types, args, kwargs)


# %% wrong: shapes beside the name, not in a tuple of their own
# says: An entry must be a pair: the function's name and a tuple of shapes.
# says: The entry must hold the shapes of the direct tensor arguments
# earns: 0 of 2
class Audit(torch.Tensor):
    diary = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not is_hidden(func.__name__):
            Audit.diary.append((func.__name__, *shapes_of(args)))
        return super().__torch_function__(func, types, args, kwargs)
