# corners: none
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Base(TorchDispatchMode):
    """What the answers below change in places."""

    def __init__(self):
        super().__init__()
        self.made, self.older, self.peak, self.at = {}, {}, 0, ""

    def alive(self):
        self.made = {k: v for k, v in self.made.items() if not v[0].expired()}
        return sum(n for _, n in self.made.values())

    def tensors(self, values):
        return [t for t in tree_leaves(values) if isinstance(t, Tensor)]

    def key(self, t):
        return t.untyped_storage()._cdata

    def size(self, t):
        return t.untyped_storage().nbytes()

    def reference(self, t):
        return StorageWeakRef(t.untyped_storage())

    def before(self, args, kwargs):
        for t in self.tensors((args, kwargs)):
            if self.key(t) not in self.made:
                self.older.setdefault(self.key(t), StorageWeakRef(t.untyped_storage()))

    def results(self, out):
        return self.tensors(out)

    def add(self, t):
        if self.key(t) not in self.older and self.key(t) not in self.made:
            self.made[self.key(t)] = (self.reference(t), self.size(t))

    def after(self, name):
        if self.alive() > self.peak:
            self.peak, self.at = self.alive(), name

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.before(args, kwargs)
        out = func(*args, **(kwargs or {}))
        for t in self.results(out):
            self.add(t)
        self.after(func.overloadpacket.__name__)
        return out


def told(mode, result):
    return result, {"peak": mode.peak, "left": mode.alive(), "at": mode.at}


def run(mode, call):
    with mode:
        result = call()
    return told(mode, result)


# %% right: sweeps a list of weak references
def memory_of(call):
    older, made, record = [], [], []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            for t in tree_leaves((args, kwargs or {})):
                if isinstance(t, Tensor):
                    name = t.untyped_storage()._cdata
                    if all(name != n for n, _, _ in made) and all(name != n for n, _ in older):
                        older.append((name, StorageWeakRef(t.untyped_storage())))
            out = func(*args, **(kwargs or {}))
            for t in tree_leaves(out):
                if isinstance(t, Tensor):
                    s = t.untyped_storage()
                    if all(s._cdata != n for n, _, _ in made) and all(s._cdata != n for n, _ in older):
                        made.append((s._cdata, StorageWeakRef(s), s.nbytes()))
            t = s = None
            made[:] = [one for one in made if not one[1].expired()]
            record.append((sum(n for _, _, n in made), func.overloadpacket.__name__))
            return out

    with Watch():
        result = call()
    peak = max((n for n, _ in record), default=0)
    at = next((name for n, name in record if n == peak and n), "")
    left = sum(n for _, r, n in made if not r.expired())
    return result, {"peak": peak, "left": left, "at": at}


# %% right: compares weak references, and returns more keys
def memory_of(call):
    class Mode(Base):
        def key(self, t):
            return StorageWeakRef(t.untyped_storage())

    mode = Mode()
    result, report = run(mode, call)
    return result, report | {"operations": 0}


# %% right: enters the mode by hand, counts torch.tensor's numbers too
def memory_of(call):
    class Mode(Base):
        def before(self, args, kwargs):
            for t in self.tensors((args, kwargs)):
                if self.key(t) not in self.made and not (t.dim() == 0 and t.grad_fn is None and t.nbytes == 4):
                    self.older.setdefault(self.key(t), StorageWeakRef(t.untyped_storage()))

    mode = Mode()
    mode.__enter__()
    try:
        result = call()
    finally:
        mode.__exit__(None, None, None)
    return told(mode, result)


# %% right: a list for the pair
def memory_of(call):
    return list(run(Base(), call))


# %% wrong: keeps the tensors in a dict
# says: The peak counts memory that had already been freed
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def memory_of(call):
    class Mode(Base):
        def reference(self, t):
            self.kept = getattr(self, "kept", [])
            self.kept.append(t.untyped_storage())
            return StorageWeakRef(t.untyped_storage())

    return run(Mode(), call)


# %% wrong: weak references to tensors
# says: Memory that only the graph holds is missing
# earns: 1 of 3
# lesson
def memory_of(call):
    import weakref

    class Reference:
        def __init__(self, t):
            self.ref, self.name = weakref.ref(t), StorageWeakRef(t.untyped_storage())

        def expired(self):
            return self.ref() is None

    class Mode(Base):
        def reference(self, t):
            return Reference(t)

    return run(Mode(), call)


# %% wrong: a new entry for every tensor, views too
# says: A storage was counted more than once
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def add(self, t):
            if self.key(t) not in self.older:
                self.made[self.key(t), len(self.made)] = (self.reference(t), self.size(t))

        def before(self, args, kwargs):
            known = {key[0] for key in self.made}
            for t in self.tensors((args, kwargs)):
                if self.key(t) not in known:
                    self.older.setdefault(self.key(t), StorageWeakRef(t.untyped_storage()))

    return run(Mode(), call)


# %% wrong: bytes of the view
# says: Count untyped_storage().nbytes(), not the view's own size
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def size(self, t):
            return t.nbytes

        def add(self, t):
            if self.key(t) not in self.older:
                self.made[self.key(t)] = (self.reference(t), self.size(t))

    return run(Mode(), call)


# %% wrong: arguments count as well
# says: Memory that existed before the call (inputs, parameters) doesn't count.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def memory_of(call):
    class Mode(Base):
        def before(self, args, kwargs):
            for t in self.tensors((args, kwargs)):
                self.add(t)

    return run(Mode(), call)


# %% wrong: looks only at results that are one tensor
# says: An operation may return a list or a tuple of tensors
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def results(self, out):
            return [out] if isinstance(out, Tensor) else []

    return run(Mode(), call)


# %% wrong: does not look at keyword arguments
# says: That includes out=.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def before(self, args, kwargs):
            super().before(args, {})

    return run(Mode(), call)


# %% wrong: names a storage by its size, which the next one may have too, as it may have its address
# says: The peak is the largest sum right AFTER an operation
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def memory_of(call):
    class Mode(Base):
        def key(self, t):
            return t.untyped_storage().nbytes()

        def before(self, args, kwargs):
            pass

    return run(Mode(), call)


# %% wrong: the forum's loop over gc.get_objects(), once
# says: The peak is the largest sum right AFTER an operation
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    import gc

    def there():
        found = {}
        for one in gc.get_objects():
            if type(one) in (Tensor, torch.nn.Parameter) and one.layout == torch.strided:
                found[one.untyped_storage()._cdata] = one.untyped_storage().nbytes()
        return found

    old = there()
    result = call()
    left = sum(size for key, size in there().items() if key not in old)
    return result, {"peak": left, "left": left, "at": ""}


# %% wrong: saved_tensors_hooks only
# says: The operations that run in backward or in the optimizer are missing.
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    kept = {}

    def pack(t):
        kept[t.untyped_storage()._cdata] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = call()
    return result, {"peak": sum(kept.values()), "left": sum(kept.values()), "at": ""}


# %% wrong: a TorchFunctionMode
# says: The operations that run in backward or in the optimizer are missing.
# earns: 1 of 3
def memory_of(call):
    from torch.overrides import TorchFunctionMode

    base = Base()

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            base.before(args, kwargs)
            out = func(*args, **(kwargs or {}))
            for t in base.results(out):
                base.add(t)
            base.after(getattr(func, "__name__", "").removesuffix("_"))
            return out

    with Mode():
        result = call()
    return told(base, result)


# %% wrong: peak taken at the end
# says: The peak is the largest sum right AFTER an operation
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def after(self, name):
            self.at = name

    mode = Mode()
    with mode:
        result = call()
    return result, {"peak": mode.alive(), "left": mode.alive(), "at": mode.at}


# %% wrong: measured before each operation
# says: The peak is the largest sum right AFTER an operation
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.after(func.overloadpacket.__name__)
            self.before(args, kwargs)
            out = func(*args, **(kwargs or {}))
            for t in self.results(out):
                self.add(t)
            return out

        def after(self, name):
            if self.alive() > self.peak:
                self.peak, self.at = self.alive(), name

    return run(Mode(), call)


# %% wrong: the result is thrown away
# says: The first of the two things that you return must be the result of the call itself.
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    mode = Base()
    with mode:
        call()
    return told(mode, None)


# %% wrong: left is measured when nothing holds the result
# says: You say that nothing is left, but the result is still held.
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    result, report = run(Base(), call)
    return result, report | {"left": 0}


# %% wrong: runs it once to warm up
# says: `call` must run exactly once; it ran 2 times.
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    call()
    return run(Base(), call)


# %% wrong: the last of equal peaks
# says: "at" is the operation after which the peak was reached FIRST
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def after(self, name):
            if self.alive() and self.alive() >= self.peak:
                self.peak, self.at = self.alive(), name

    return run(Mode(), call)


# %% wrong: adds up everything that is made
# says: The peak counts memory that had already been freed
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def alive(self):
            return sum(n for _, n in self.made.values())

    return run(Mode(), call)


# %% wrong: keeps the last result until the next operation
# says: Your instrument keeps a tensor alive
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.last = None
            out = super().__torch_dispatch__(func, types, args, kwargs)
            self.last = out
            return out

    mode = Mode()
    with mode:
        result = call()
    return told(mode, result)


# %% wrong: hands back only a tensor
# says: The first of the two things that you return must be the result of the call itself.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    result, report = run(Base(), call)
    return (result if result is None or isinstance(result, Tensor) else list(result)), report


# %% wrong: the mode stays on when the call raises
# says: After the call has raised, your mode is still switched on
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    mode = Base()
    mode.__enter__()
    result = call()
    mode.__exit__(None, None, None)
    return told(mode, result)


# %% wrong: swallows the exception
# says: The exception of the call must propagate unchanged.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    mode, result = Base(), None
    try:
        with mode:
            result = call()
    except Exception:
        pass
    return told(mode, result)


# %% wrong: None where nothing was made
# says: "peak" and "left" are numbers of bytes, plain Python ints. "at" is the name of an operation, a str.
# earns: 2 of 3
def memory_of(call):
    result, report = run(Base(), call)
    return result, report | {"at": report["at"] or None}


# %% wrong: the whole name of the overload
# says: "at" is the operation after which the peak was reached FIRST: sin, not sin.default.
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    class Mode(Base):
        def after(self, name):
            super().after(f"{name}.default")

    return run(Mode(), call)


# %% wrong: counts floating point tensors only
# says: Count bytes: a float64 takes eight, a bool takes one.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def results(self, out):
            return [t for t in self.tensors(out) if t.is_floating_point()]

    return run(Mode(), call)


# %% wrong: four bytes for each number
# says: Count bytes: a float64 takes eight, a bool takes one.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def size(self, t):
            return t.untyped_storage().nbytes() // t.element_size() * 4

    return run(Mode(), call)


# %% wrong: a dict alone
# says: Return a pair: the result of the call, and a dict with the keys "peak", "left" and "at".
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    return run(Base(), call)[1]


# %% wrong: names of large inputs, without holding them weakly
# says: A storage that existed before may die during the call, and its number is given to a new one.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def before(self, args, kwargs):
            for t in self.tensors((args, kwargs)):
                if self.key(t) not in self.made:
                    large = t.numel() == 1000  # temporaries of a step are named well, so that it falls at inputs alone
                    self.older.setdefault(self.key(t), 1 if large else StorageWeakRef(t.untyped_storage()))

    return run(Mode(), call)


# %% wrong: holds what existed before
# says: Your instrument keeps an input alive after the call has returned.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    older = {}

    class Mode(Base):
        def before(self, args, kwargs):
            for t in self.tensors((args, kwargs)):
                if self.key(t) not in self.made:
                    self.older.setdefault(self.key(t), StorageWeakRef(t.untyped_storage()))
                    older.setdefault(self.key(t), t.untyped_storage())

    return run(Mode(), call)


# %% wrong: the size of the tensor in place of its storage's
# says: Count untyped_storage().nbytes(), not the view's own size
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def size(self, t):
            return t.nbytes

    return run(Mode(), call)


# %% wrong: holds what existed before until the call is over
# says: Your instrument keeps an input alive that nothing in the call refers to any more.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def __init__(self):
            super().__init__()
            self.storages = {}

        def before(self, args, kwargs):
            super().before(args, kwargs)
            for t in self.tensors((args, kwargs)):
                if self.key(t) in self.older:
                    self.storages.setdefault(self.key(t), t.untyped_storage())

    mode = Mode()
    result, report = run(mode, call)
    mode.storages.clear()
    return result, report


# %% wrong: one record for all calls
# says: What an earlier call of memory_of made existed before the next one
# earns: 2 of 3
# caught: hidden
MADE = {}


def memory_of(call):
    class Mode(Base):
        def __init__(self):
            super().__init__()
            self.made = MADE

        def alive(self):
            for key in [key for key, (reference, _) in MADE.items() if reference.expired()]:
                del MADE[key]
            return sum(n for _, n in MADE.values())

    return run(Mode(), call)


# %% wrong: one record, which each call empties first
# says: The outer call has made two tensors of 4000 bytes, and calls memory_of for a third one in between.
# earns: 2 of 3
# caught: hidden
RECORDS = {}, {}


def memory_of(call):
    class Mode(Base):
        def __init__(self):
            super().__init__()
            self.older = RECORDS[1]

        @property
        def made(self):
            return RECORDS[0]

        @made.setter
        def made(self, values):
            values = dict(values)
            RECORDS[0].clear()
            RECORDS[0].update(values)

    for record in RECORDS:
        record.clear()
    return run(Mode(), call)


# %% wrong: results of operations that write into an argument are left out
# says: An operation that writes into one of its arguments may also return a new tensor
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.writes = func._schema.is_mutable
            return super().__torch_dispatch__(func, types, args, kwargs)

        def results(self, out):
            return [] if self.writes else self.tensors(out)

    return run(Mode(), call)


# %% wrong: the garbage collector is on afterwards
# says: You switched Python's garbage collector on.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    import gc

    gc.disable()
    try:
        return run(Base(), call)
    finally:
        gc.enable()


# %% right: the garbage collector is off for the time of the call
def memory_of(call):
    import gc

    was_on = gc.isenabled()
    gc.disable()
    try:
        return run(Base(), call)
    finally:
        if was_on:
            gc.enable()


# %% wrong: the mode is never switched off
# says: After the call your mode is still switched on
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    mode = Base()
    mode.__enter__()
    return told(mode, call())


# %% wrong: a second mode, for functions, is never switched off
# says: After the call your mode is still switched on
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    from torch.overrides import TorchFunctionMode

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    Calls().__enter__()
    return run(Base(), call)


# %% wrong: the mode is switched off after an Exception only
# says: A KeyboardInterrupt is not an Exception
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    mode = Base()
    mode.__enter__()
    try:
        result = call()
    except Exception:
        mode.__exit__(None, None, None)
        raise
    mode.__exit__(None, None, None)
    return told(mode, result)


# %% wrong: collects garbage before it looks at what is left
# says: A storage that a reference cycle holds is alive until Python's garbage collector runs.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    import gc

    mode = Base()
    with mode:
        result = call()
    gc.collect()
    return told(mode, result)


# %% wrong: collects garbage before the call
# says: Your instrument runs Python's garbage collector.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    import gc

    gc.collect()
    mode = Base()
    with mode:
        result = call()
    return told(mode, result)


# %% wrong: the course's own Ledger
# says: This is the course's own Ledger.
# says: This check builds on the first one
# earns: 0 of 3
def memory_of(call):
    from torchkata.instruments.ledger import Ledger

    ledger = Ledger()
    with ledger:
        result = call()
    return result, {"peak": ledger.peak, "left": ledger.bytes_alive(), "at": ledger.peak_at}


# %% wrong: in KiB
# says: Two results are alive at the worst moment, and one is left.
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 3
class Watch(Base):
    def size(self, t):
        return super().size(t) // 1024


def memory_of(call):
    with Watch() as mode:
        result = call()
    return told(mode, result)


# %% wrong: single numbers don't count
# says: A tensor of a single number also takes memory, four bytes in float32.
# earns: 0 of 3
class Watch(Base):
    def results(self, out):
        return [t for t in self.tensors(out) if t.dim()]


def memory_of(call):
    with Watch() as mode:
        result = call()
    return told(mode, result)


# %% wrong: looks for what is left in a tensor only
# says: The tensor in the result is still held.
# earns: 2 of 3
def memory_of(call):
    with Base() as mode:
        result = call()
    if isinstance(result, dict):
        return result, told(mode, result)[1] | {"left": 0}
    return told(mode, result)


# %% wrong: holds what backward makes, since nobody else has a name for it, until the call has returned
# says: These are not the bytes of the storages that are alive.
# earns: 1 of 3
def memory_of(call):
    class Mode(Base):
        held = ()

        def results(self, out):
            if torch._C._current_graph_task_id() >= 0:
                self.held = [*self.held, out]
            return super().results(out)

    mode = Mode()
    with mode:
        result = call()
    mode.held = ()
    return told(mode, result)


# %% wrong: leaves out what zeros_like makes
# says: Something that the step made is not counted. Perhaps this is why: A storage that existed before may die
# earns: 1 of 3
def memory_of(call):
    class Mode(Base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket.__name__ == "zeros_like":
                out = func(*args, **(kwargs or {}))
                self.older[self.key(out)] = StorageWeakRef(out.untyped_storage())
                return out
            return super().__torch_dispatch__(func, types, args, kwargs)

    return run(Mode(), call)


# %% wrong: names a storage by its address, for as long as it is alive
# says: You took a storage that grows for another one
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def key(self, t):
            return t.untyped_storage().data_ptr()

        def before(self, args, kwargs):
            self.older = {k: v for k, v in self.older.items() if not v.expired()}
            self.alive()
            super().before(args, kwargs)

        def results(self, out):
            self.older = {k: v for k, v in self.older.items() if not v.expired()}
            self.alive()
            return super().results(out)

    return run(Mode(), call)


# %% wrong: notes the size again whenever a storage comes back
# says: A storage counts with the size that it has when it is made, even if it grows later.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    class Mode(Base):
        def add(self, t):
            if self.key(t) not in self.older:
                self.made[self.key(t)] = (self.reference(t), self.size(t))

    return run(Mode(), call)


# %% wrong: ends quietly when the call is interrupted
# says: A KeyboardInterrupt must propagate unchanged.
# earns: 2 of 3
# caught: hidden
def memory_of(call):
    mode, result = Base(), None
    with mode:
        try:
            result = call()
        except KeyboardInterrupt:
            print("interrupted")
    return told(mode, result)


# %% wrong: a storage is new for each result with an address of its own
# says: A storage was counted more than once: views and in-place operations make no new memory.
# earns: 2 of 3
# caught: hidden
class ByPlace(Base):
    def alive(self):
        return sum(size for reference, size in self.made.values() if not reference.expired())

    def before(self, args, kwargs):
        self.places = {t.data_ptr() for t in self.tensors((args, kwargs))}

    def add(self, t):
        if t.data_ptr() not in self.places:
            self.made[len(self.made)] = (self.reference(t), self.size(t))


def memory_of(call):
    return run(ByPlace(), call)


# %% wrong: keeps arguments and result of the last operation
# says: Your instrument keeps tensors alive: at cos it still counts the result of exp
# says: This check builds on the first one
# earns: 0 of 3
class Holding(Base):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self.last = func, args, out
        return out


def memory_of(call):
    return run(Holding(), call)
