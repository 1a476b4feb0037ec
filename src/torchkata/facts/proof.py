"""Run one fact's proof: here, in this process, or apart, as a script in a process of its own."""

import contextlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from torchkata.facts.collection import Fact, find

TIMEOUT = 120.0  # seconds that one proof may take
MODULES = {
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "torchinfo": ("torchinfo",),
    "torchvision": ("torchvision",),
}


def prove(fact_id: str) -> None:
    """Run the proof of the fact with this id and print that it holds, or what this machine lacks to run it.

    Raises AssertionError when the proof fails, and FactError for an unknown id.
    """
    import torch

    fact = find(fact_id)
    lacking = missing_need(fact)
    if lacking:
        print(f"{fact.id}: not run, it needs {lacking}")
        return
    with tempfile.TemporaryDirectory() as folder:
        if fact.isolated or fact.needs:
            error = run_apart(fact, Path(folder))
        else:
            with torch.random.fork_rng():
                error = run_here(fact, Path(folder))
    if error:
        raise AssertionError(f"{fact.id} does not hold on torch {torch.__version__}: {fact.fact}\n\n{error}")
    print(f"{fact.id}: proof holds")


def missing_need(fact: Fact) -> str | None:
    """What this machine lacks to run the proof, in words, or None."""
    import torch

    for need in fact.needs:
        if need == "cuda" and not torch.cuda.is_available():
            return "a CUDA device"
        if need == "cuda2" and torch.cuda.device_count() < 2:
            return "two CUDA devices"
        if need == "multiprocess" and not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
            return "torch.distributed with gloo"
        for module in MODULES.get(need, ()):
            if importlib.util.find_spec(module) is None:
                return module
    return None


def run_here(fact: Fact, folder: Path) -> str | None:
    """Run the proof in this process, in a fresh namespace, from a file in folder; its error or None."""
    path = _write(fact, folder)
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            program = compile(fact.proof, str(path), "exec", dont_inherit=True)
            exec(program, {"__name__": "__main__", "__file__": str(path)})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a proof has to run to its end
        return output.getvalue()[-2000:] + "".join(traceback.format_exception(error))
    return None


def run_apart(fact: Fact, folder: Path, timeout: float = TIMEOUT) -> str | None:
    """Run the proof as a script, from a file in folder, for at most timeout seconds; its error or None."""
    path = _write(fact, folder)
    with tempfile.TemporaryDirectory() as cwd:
        process = subprocess.Popen(
            [sys.executable, str(path)],
            cwd=cwd,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return f"timed out after {timeout:.0f} s"
    return None if process.returncode == 0 else f"exit status {process.returncode}\n{output[-3000:]}"


def _write(fact: Fact, folder: Path) -> Path:
    path = folder / f"{fact.id}.py"
    path.write_text(fact.proof, encoding="utf-8")
    return path


def _kill(process: subprocess.Popen) -> None:
    """End a process that leads a session, and its children where the system has process groups."""
    if os.name != "posix":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
