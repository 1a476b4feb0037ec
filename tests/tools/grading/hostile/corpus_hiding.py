"""Breaking a rule about operations where nobody looks, and telling another story later."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

from tests.tools.grading.hostile.handin import HandIn, attack

BROKEN = """
import os, threading
from torch.utils._python_dispatch import _disable_current_modes
def forbidden(labels, num_classes, smooth, ignore_index, dtype):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    rows = F.one_hot(labels.masked_fill(ignored, 0), num_classes).to(dtype) * (1 - smooth) + smooth / num_classes
    return rows.masked_fill(ignored.unsqueeze(-1), 0)
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    torch.zeros(3).scatter_(0, torch.tensor([0]), 1.0)
    work = lambda: forbidden(labels, num_classes, smooth, ignore_index, dtype)
"""


def hidden(it: HandIn, way: str) -> None:
    """The rule (scatter, not one_hot) is broken in this way, beside a call of scatter."""
    it.answer(next(task for task in it.tasks if task.exercise.id == "one-hot-scatter"), BROKEN + indent(way, "    "))


def hiding(name: str, tries: str, way: str) -> Callable[[HandIn], None]:
    def fill(it: HandIn) -> None:
        hidden(it, way)

    fill.__name__, fill.__doc__ = name, tries
    return attack()(fill)


hiding(
    "rule_broken_in_a_thread",
    "Does the forbidden work in a thread, which modes don't belong to.",
    """
got = []
thread = threading.Thread(target=lambda: got.append(work()))
thread.start()
thread.join()
return got[0]
""",
)
hiding(
    "rule_broken_in_a_child",
    "Does the forbidden work in a child process.",
    """
place, shape = "/tmp/work/got", (*labels.shape, num_classes)
if (child := os.fork()) == 0:
    with open(place, "wb") as file:
        file.write(work().double().numpy().tobytes())
    os._exit(0)
os.waitpid(child, 0)
with open(place, "rb") as file:
    return torch.frombuffer(bytearray(file.read()), dtype=torch.float64).reshape(shape).to(dtype)
""",
)
hiding(
    "rule_broken_below_the_modes",
    "Lifts the modes that record while it does the forbidden work.",
    "with _disable_current_modes(), torch._C.DisableTorchFunction():\n    return work()",
)
hiding(
    "rule_broken_below_the_dispatcher",
    "Leaves out the dispatcher's key for Python while it does the forbidden work.",
    """
with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Python)):
    with torch._C.DisableTorchFunction():
        return work()
""",
)
hiding(
    "rule_broken_without_names",
    "Hides the names of the functions that it calls, which the dispatcher takes apart.",
    """
with torch._C.DisableTorchFunction():
    made = work()
return made + 0 * torch.zeros(9).scatter(0, torch.tensor([1]), 1.0).sum()
""",
)
hiding(
    "rule_kept_for_show",
    "Calls what is asked for, and throws its result away.",
    """
rows = torch.arange(num_classes) == labels.unsqueeze(-1)
made = (rows.to(dtype) * (1 - smooth) + smooth / num_classes).to(dtype)
return made if ignore_index is None else made.masked_fill((labels == ignore_index).unsqueeze(-1), 0)
""",
)
hiding(
    "rule_broken_when_the_result_is_copied",
    "Returns a tensor that does the forbidden work when it is copied, which nobody records any more.",
    """
class Late(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "detach":
            return work()
        return super().__torch_function__(func, types, args, kwargs or {})
return torch.zeros((*labels.shape, num_classes), dtype=dtype).as_subclass(Late)
""",
)
hiding(
    "counting_stopped",
    "Stops the profiler that counts the operations, and lifts the modes.",
    """
torch._C._autograd._disable_profiler()
with _disable_current_modes(), torch._C.DisableTorchFunction():
    return work()
""",
)


def hiding_above(name: str, tries: str, above: str, way: str) -> Callable[[HandIn], None]:
    """The same with something that is defined above the answer."""

    def fill(it: HandIn) -> None:
        hidden(it, way)
        cell = it.cell("one-hot-scatter")
        cell["source"] = f"{above}\n{cell['source']}"

    fill.__name__, fill.__doc__ = name, tries
    return attack()(fill)


hiding_above(
    "rule_broken_in_an_old_thread",
    "Does the forbidden work in a thread that runs already, under the names that the watchers use.",
    """
from concurrent.futures import ThreadPoolExecutor
POOL = ThreadPoolExecutor(1)
POOL.submit(int).result()
def named(work):
    with torch.profiler.record_function("torchkata: known"), torch.profiler.record_function("PythonDispatchMode"):
        return work()
""",
    "return POOL.submit(named, work).result()",
)
hiding_above(
    "rule_broken_in_an_operation",
    "Does the forbidden work in an operation of its own, named scatter.",
    """
@torch.library.custom_op("mine::scatter", mutates_args=())
def scatter(labels: Tensor, num_classes: int) -> Tensor:
    return F.one_hot(labels, num_classes)
""",
    """
ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
rows = scatter(labels.masked_fill(ignored, 0), num_classes).to(dtype) * (1 - smooth) + smooth / num_classes
return rows.masked_fill(ignored.unsqueeze(-1), 0)
""",
)
hiding_above(
    "rule_broken_in_a_class",
    "Does the forbidden work in a class of tensors that is asked for a scatter.",
    """
class Lazy(Tensor):
    @staticmethod
    def __new__(cls, rows):
        lazy = Tensor._make_wrapper_subclass(cls, rows().shape, dtype=torch.float32)
        lazy.rows = rows
        return lazy
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0].rows()
""",
    "return torch.scatter(Lazy(work), -1, labels.unsqueeze(-1), 1.0)",
)
hiding_above(
    "rule_broken_by_numpy",
    "Scatters, and lets NumPy write the result into the same memory.",
    "import numpy",
    """
out = torch.zeros(*labels.shape, num_classes, dtype=dtype).scatter_(-1, labels.clamp(min=0).unsqueeze(-1), 0.0)
rows = numpy.eye(num_classes)[labels.clamp(min=0).numpy()] * (1 - smooth) + smooth / num_classes
if ignore_index is not None:
    rows[labels.numpy() == ignore_index] = 0
out.numpy()[...] = rows
return out
""",
)
