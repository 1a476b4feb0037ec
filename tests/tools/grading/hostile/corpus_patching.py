"""Patching what judges: torch, numpy, builtins and the course's own package, in the memory of the learner's process."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack


@attack()
def torch_always_agrees(it: HandIn):
    """Makes every comparison of torch agree."""
    it.own_cell(
        """
import torch
yes = lambda *args, **kwargs: True
torch.testing.assert_close = torch.testing._comparison.assert_close = lambda *args, **kwargs: None
torch.testing._comparison.assert_equal = lambda *args, **kwargs: None
torch.equal = torch.allclose = torch.Tensor.equal = torch.Tensor.allclose = yes
""",
        before=it.rest[0],
    )
    it.answer_all("", "return torch.zeros(3)")


@attack()
def tensor_methods(it: HandIn):
    """Replaces methods of Tensor, so that every tensor has the shape, dtype and values that one hopes for."""
    it.own_cell(
        """
import torch
torch.Tensor.__eq__ = lambda a, b: torch.tensor(True)
torch.Tensor.__ne__ = lambda a, b: torch.tensor(False)
torch.Tensor.tolist = lambda self: []
torch.Tensor.any = lambda self, *args, **kwargs: False
torch.Tensor.all = lambda self, *args, **kwargs: True
""",
        before=it.rest[0],
    )
    it.answer_all("", "return torch.zeros(3)")
    it.unsure.add(it.last.exercise.id)


@attack()
def numpy_always_agrees(it: HandIn):
    """Makes numpy's comparisons and assertions agree."""
    it.own_cell(
        """
import numpy
for name in dir(numpy.testing):
    if name.startswith("assert"):
        setattr(numpy.testing, name, lambda *args, **kwargs: None)
numpy.array_equal = numpy.allclose = lambda *args, **kwargs: True
"""
    )
    it.answer_all("", "return torch.zeros(3).numpy()")


@attack()
def builtins_replaced(it: HandIn):
    """Replaces isinstance, len, all, any, type's repr and AssertionError for everyone in the process."""
    it.own_cell(
        """
import builtins
class Quiet(BaseException):
    pass
builtins.AssertionError = builtins.NotImplementedError = Quiet
builtins.all = lambda *args: True
builtins.any = lambda *args: False
""",
        before=it.rest[0],
    )
    it.answer_all("", "return None")
    it.unsure.add(it.last.exercise.id)


@attack()
def isinstance_replaced(it: HandIn):
    """Replaces isinstance by one that always says yes."""
    it.own_cell("import builtins\nbuiltins.isinstance = lambda *args: True", before=it.rest[0])
    it.answer_all("", "return Ellipsis")
    it.unsure.add(it.last.exercise.id)


@attack()
def judging_replaced(it: HandIn):
    """Replaces all judgements of the course's package by ones that find nothing wrong."""
    it.own_cell(
        """
import torchkata.verdicts.check as frame, torchkata.verdicts.comparing as comparing
import torchkata.verdicts.judging as judging, torchkata.verdicts.predicting as predicting
for name, value in list(vars(judging.Seen).items()):
    if callable(value) and not name.startswith("__"):
        setattr(judging.Seen, name, lambda self, *args, **kwargs: self)
judging.Seen.predicts = lambda self, items, points: points
judging.difference = comparing.difference = lambda *args, **kwargs: None
predicting.alike = lambda *args: True
frame.check.__exit__ = lambda self, *error: True
"""
    )
    it.answer_all("", "return 0")


@attack()
def observing_replaced(it: HandIn):
    """Replaces the observing half by one that reports a call without fault, with a result that equals everything."""
    it.own_cell(
        """
import torchkata.verdicts.observing as observing
class Any:
    def __eq__(self, other): return True
def forged(answer, args, kwargs=None):
    named = {f"argument {i}": arg for i, arg in enumerate(args, 1)}
    return observing.Observation(result=Any(), arguments=named, ops=[])
observing.run_answer = observing.run_scenario = forged
observing.note_value = lambda value: forged(value, ())
""",
        before=it.rest[0],
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def refusals_forged(it: HandIn):
    """Reports every call as one that was refused with all exceptions at once, as tests of bad input ask for."""
    it.own_cell(
        """
import torchkata.verdicts.observing as observing
def forged(*args):
    types = ["IndexError", "RuntimeError", "ValueError", "TypeError", "Exception"]
    return observing.Observation(raised={"types": types, "message": "refused", "frames": []})
observing.run_answer = observing.run_scenario = observing.note_value = forged
""",
        before=it.rest[0],
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def rule_broken_in_secret(it: HandIn):
    """Breaks the rule of an exercise (scatter, not one_hot) and keeps that from the recorder of operations.

    The profiler has counted one_hot, too.
    """
    task = next(task for task in it.tasks if task.exercise.id == "one-hot-scatter")
    it.answer(
        task,
        """
from torchkata.verdicts.recording import Recorder
told = dict(name="scatter_", level="python", phase="forward", view=False, device="cpu", elements=1, reads=[])
Recorder.ops = property(lambda self: [told], lambda self, value: None)
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    rows = F.one_hot(labels.masked_fill(ignored, 0), num_classes).to(dtype) * (1 - smooth) + smooth / num_classes
    return rows.masked_fill(ignored.unsqueeze(-1), 0)
""",
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def encoder_replaced(it: HandIn):
    """Replaces the encoder of replies by one that adds points, names and a verdict."""
    it.own_cell(
        """
import torchkata.verdicts.plain as plain, sys
honest = plain.encode
def generous(value):
    if isinstance(value, dict) and "id" in value:
        value = value | {"points": 100, "verdict": "solved", "state": "solved", "of": 0.0}
        if isinstance(value.get("noted"), dict):
            value["noted"] = value["noted"] | {"points": 100.0}
    return honest(value)
for module in list(sys.modules.values()):
    if getattr(module, "encode", None) is honest:
        module.encode = generous
""",
        before=it.rest[0],
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def code_objects_swapped(it: HandIn):
    """Swaps the code of the judging functions in place, which no import order can undo."""
    it.own_cell(
        """
import gc, types
nothing = (lambda *args, **kwargs: None).__code__
for value in gc.get_objects():
    if isinstance(value, types.FunctionType) and value.__module__ and "verdicts.comparing" in value.__module__:
        if not value.__code__.co_freevars:
            value.__code__ = nothing
"""
    )
    it.answer_all("", "return None")


@attack()
def memory_of_the_interpreter(it: HandIn):
    """Overwrites the interpreter's False by ctypes, so that every comparison holds."""
    it.answer_one(
        """
        import ctypes
        def overwrite():
            ctypes.memmove(id(False) + 16, id(True) + 16, 12)
        """,
        "overwrite()\nreturn 1",
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def modules_replaced(it: HandIn):
    """Puts false modules into sys.modules, for torchkata and for torch.testing, and a finder before all others."""
    it.own_cell(
        """
import sys, types
false = types.ModuleType("torchkata.verdicts")
class Calm:
    def __init__(self, *args): pass
    def __enter__(self): return lambda *args: None
    def __exit__(self, *error): return True
false.check = Calm
false.__getattr__ = lambda name: (lambda *args, **kwargs: None)
class First:
    def find_spec(self, name, path=None, target=None):
        return None
sys.meta_path.insert(0, First())
for name in [name for name in sys.modules if name.startswith(("torchkata", "torch.testing"))]:
    sys.modules[name] = false
from torchkata.verdicts import check
""",
        before=it.rest[0],
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def settings_of_torch(it: HandIn):
    """Changes torch's default dtype, device, seeds, number of threads and gradient mode for all that comes later."""
    it.own_cell(
        """
torch.set_default_dtype(torch.float16)
torch.set_default_device("meta")
torch.set_grad_enabled(False)
torch.use_deterministic_algorithms(True)
torch.manual_seed = lambda seed: None
""",
        before=it.rest[0],
    )
    it.unsure.add(it.last.exercise.id)
