"""Run the proofs of a job file one after the other, and hold that each leaves this process as it found it.

    python -m torchkata.tools.proof_worker JOB.json

The job names the facts, the timeout, a folder for the proofs' files and the file for the results. One JSON
line is appended there when a proof starts and one when it ends, so that the parent knows which one a crash
belongs to. After a proof that leaves something behind the process ends early; the parent runs the rest in a
clean one.
"""

import faulthandler
import inspect
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import ModuleType

import torch
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optim_module

from torchkata.facts.collection import Fact
from torchkata.facts.proof import missing_need, run_apart, run_here
from torchkata.verdicts.isolation import SWITCHES

# a library may set variables and write temporary files of its own when it is first imported
LIBRARY_VARIABLES = ("TORCHINDUCTOR_", "TRITON_", "KMP_", "PYTORCH_NVML", "TF_", "TORCH_COMPILE")
LIBRARY_FILES = ("torchinductor_", ".ses")


def main(job_path: Path) -> None:
    job = json.loads(job_path.read_text(encoding="utf-8"))
    folder = Path(job["folder"])
    with Path(job["results"]).open("a", encoding="utf-8") as results:

        def report(**row: object) -> None:
            results.write(json.dumps(row) + "\n")
            results.flush()

        for fields in job["facts"]:
            fact = Fact(**fields)
            report(start=fact.id)
            lacking = missing_need(fact)
            if lacking:
                report(id=fact.id, state="skipped", detail=f"needs {lacking}", seconds=0.0)
                continue
            began = time.monotonic()
            error, left_behind = _run(fact, folder, job["timeout"])
            state = "failed" if error else "passed"
            report(id=fact.id, state=state, detail=error or "", seconds=time.monotonic() - began)
            if left_behind:
                return


def _run(fact: Fact, folder: Path, timeout: float) -> tuple[str | None, list[str]]:
    """Run one proof; the error or None, and what the proof left behind in this process."""
    if fact.isolated:
        return run_apart(fact, folder, timeout), []
    faulthandler.dump_traceback_later(timeout, exit=True)  # a proof that hangs ends this process
    error, found = _run_clean(fact, folder)
    faulthandler.cancel_dump_traceback_later()
    if found and not error:
        error = "the proof leaves traces: " + "; ".join(found)
    return error, found


def _run_clean(fact: Fact, folder: Path) -> tuple[str | None, list[str]]:
    """Run a proof here, a second time when only that changed which a library changes at its first import."""
    filters, safe = list(warnings.filters), list(torch.serialization.get_safe_globals())
    error, found = _run_and_compare(fact, folder)
    if found and not error and all(trace.startswith(("warning filters", "safe globals")) for trace in found):
        warnings.filters[:] = filters  # type: ignore[index] # a list; typeshed promises only a sequence
        with warnings.catch_warnings():
            pass  # makes the warnings module notice the change
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(safe)
        error, found = _run_and_compare(fact, folder)
    return error, found


def _run_and_compare(fact: Fact, folder: Path) -> tuple[str | None, list[str]]:
    before, modules_before = _process_state(), dict(sys.modules)
    error = run_here(fact, folder)
    return error, _changes(before, _process_state()) + _module_changes(modules_before)


def _process_state() -> dict[str, object]:
    """What a proof has to leave as it was, as comparable values."""
    return {**_torch_state(), **_global_hooks(), **_python_state()}


def _torch_state() -> dict[str, object]:
    cudnn = torch.backends.cudnn
    return {name: switch.read() for name, switch in SWITCHES.items()} | {
        "default device": torch.get_default_device(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "cudnn flags": (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "safe globals": sorted(map(repr, torch.serialization.get_safe_globals())),
        "process group": torch.distributed.is_available() and torch.distributed.is_initialized(),
    }


def _global_hooks() -> dict[str, object]:
    return {
        f"{module.__name__} {name}": len(value)
        for module in (nn_module, optim_module)
        for name, value in vars(module).items()
        if name.startswith("_global_") and isinstance(value, dict)
    }


def _python_state() -> dict[str, object]:
    temporary = os.listdir(tempfile.gettempdir())
    return {
        "warning filters": list(warnings.filters),
        "working folder": os.getcwd(),
        "sys.path": list(sys.path),
        "sys.argv": list(sys.argv),
        "stdout": sys.stdout,
        "recursion limit": sys.getrecursionlimit(),
        "child processes": len(multiprocessing.active_children()),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "files in the working folder": sorted(os.listdir(".")),
        "temporary files": sorted(name for name in temporary if not name.startswith(LIBRARY_FILES)),
        "environment": {k: v for k, v in os.environ.items() if not k.startswith(LIBRARY_VARIABLES)},
    }


def _changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    found = []
    for key, value in before.items():
        if after.get(key) != value:
            told = "changed" if isinstance(value, dict | list) else f"{value} -> {after.get(key)}"
            found.append(f"{key}: {told}")
    return found


def _module_changes(before: dict[str, ModuleType]) -> list[str]:
    found = [f"sys.modules[{name!r}] replaced" for name in before if sys.modules.get(name) is not before[name]]
    added = [name for name in sys.modules if name not in before and _made_by_hand(name)]
    return found + [f"sys.modules[{name!r}] added" for name in added]


def _made_by_hand(name: str) -> bool:
    """Whether no library brought the module: it lies in a temporary folder or was put into sys.modules."""
    module = sys.modules[name]
    if module is None or "cython" in name:
        return False
    file = getattr(module, "__file__", None)
    if file:
        return Path(file).resolve().is_relative_to(Path(tempfile.gettempdir()).resolve())
    return getattr(module, "__spec__", None) is None and not inspect.isbuiltin(module) and "." not in name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
