"""Objects that lie about what they are and what they equal."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack


@attack()
def equals_everything(it: HandIn):
    """Returns an object that equals everything, has every attribute and every item."""
    it.answer_all(
        """
        class Any:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __getattr__(self, name): return Any()
            def __getitem__(self, key): return Any()
            def __call__(self, *args, **kwargs): return Any()
            def __len__(self): return 3
            def __iter__(self): return iter([Any()] * 3)
            def __bool__(self): return True
            def __hash__(self): return 0
            def get(self, key, default=None): return Any()
        """,
        "return Any()",
    )


@attack()
def tensor_that_agrees(it: HandIn):
    """Returns a Tensor subclass whose __torch_function__ lets every comparison agree."""
    it.answer_all(
        """
        class Agreeing(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                name = getattr(function, "__name__", "")
                if name in ("equal", "allclose", "eq", "all", "isclose"):
                    return True
                return super().__torch_function__(function, types, args, kwargs or {})
            shape = property(lambda self: Size())
        class Size(tuple):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
        """,
        "return torch.zeros(3).as_subclass(Agreeing)",
    )


@attack()
def dispatching_tensor(it: HandIn):
    """Returns a tensor that answers at the dispatcher's level, without data of its own."""
    it.answer_all(
        """
        class Hollow(torch.Tensor):
            @staticmethod
            def __new__(cls): return torch.Tensor._make_wrapper_subclass(cls, (3, 5))
            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None): return torch.tensor(True)
        """,
        "return Hollow()",
    )


@attack()
def lying_containers(it: HandIn):
    """Returns a dict, a list and a string of its own kinds that agree with all keys, items and spellings."""
    it.answer_all(
        """
        class Text(str):
            def __eq__(self, other): return True
            def __hash__(self): return 0
            def strip(self): return self
        class Items(list):
            def __len__(self): return 3
            def __eq__(self, other): return True
        class Dict(dict):
            def __contains__(self, key): return True
            def __missing__(self, key): return Text()
            def get(self, key, default=None): return Text()
            def items(self): return [("a", Text())]
        """,
        "return Dict(a=Items([Text()]))",
    )


@attack()
def lying_class(it: HandIn):
    """Returns an object that claims to be a Tensor by __class__, with a metaclass that claims every type."""
    it.answer_all(
        """
        class Meta(type):
            def __instancecheck__(cls, value): return True
            def __subclasscheck__(cls, other): return True
            def __eq__(cls, other): return True
            def __hash__(cls): return hash(torch.Tensor)
        class Claim(metaclass=Meta):
            __class__ = torch.Tensor
            layout, is_quantized, dtype, device = torch.strided, False, torch.float32, torch.device("cpu")
            def untyped_storage(self): return torch.zeros(3).untyped_storage()
            def __eq__(self, other): return True
        """,
        "return Claim()",
    )


@attack()
def all_nan(it: HandIn):
    """Returns nan, which is compared as equal to nan, in every dtype and shape of the arguments."""
    it.answer_all(
        "",
        """
        shaped = next((arg for arg in args if isinstance(arg, torch.Tensor)), torch.zeros(3))
        return torch.full(shaped.shape, float("nan"))
        """,
    )


@attack()
def exception_of_all_kinds(it: HandIn):
    """Raises an exception that is an IndexError, RuntimeError and ValueError, with a message that lies and fails."""
    it.answer_all(
        """
        class All(IndexError, ValueError):
            def __str__(self): raise KeyboardInterrupt
            __repr__ = __str__
            __class__ = property(lambda self: 1 / 0)
        All.__name__ = "RuntimeError"
        """,
        "raise All()",
    )


@attack()
def unfinished_stub(it: HandIn):
    """Pretends to be no answer at all, or one that is right only at its second call."""
    it.answer_all(
        "calls = []", "calls.append(1)\nif len(calls) < 3:\n    raise NotImplementedError\nreturn torch.zeros(1)"
    )


@attack()
def changed_later(it: HandIn):
    """Returns its own argument, and changes the arguments by a thread after it has returned."""
    it.answer_all(
        """
        import threading, time
        def later(values):
            time.sleep(0.001)
            for value in values:
                if isinstance(value, torch.Tensor) and not value.requires_grad:
                    value.zero_()
        """,
        "threading.Thread(target=later, args=(args,), daemon=True).start()\nreturn args[0] if args else None",
    )


@attack()
def names_and_signatures_that_lie(it: HandIn):
    """Answers with objects whose signature and attributes raise, loop or lie when they are looked at."""
    it.answer_all(
        """
        class Callable:
            @property
            def __signature__(self): raise SystemExit
            @property
            def __wrapped__(self): return self
            def __call__(self, *args, **kwargs): return None
            def __getattribute__(self, name):
                if name == "__name__": raise KeyboardInterrupt
                return object.__getattribute__(self, name)
        """,
        "return Callable()",
    )


@attack()
def only_the_visible_tests(it: HandIn):
    """Knows the visible tests' results by heart (found in the released check cells) and nothing else."""
    task = next(task for task in it.tasks if task.exercise.id == "segment-mean")
    shown = it.cell(task.exercise.check_ids[0])["source"]
    it.answer(task, f"shown = {shown!r}\ndef segment_mean(*args):\n    return torch.zeros(2)")
