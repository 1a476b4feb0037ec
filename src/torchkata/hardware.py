"""What this machine has, and demos that need a CUDA device."""

import contextlib
import functools
import hashlib
import inspect
import io
import json
import os
import platform
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from torchkata.base.system import usable_cores

RECORDINGS = Path(__file__).parent / "recordings"
RECORD = "TORCHKATA_RECORD"  # set in the environment: demos that run record their output


@dataclass(frozen=True)
class MachineReport:
    """What matters to PyTorch on this machine; no paths, so that it can be shown to others.

    python, system, processor and torch are versions and names; build is "CPU", "CUDA 13.0" or "ROCm 6.4".
    cuda_devices are names. cudnn is its version or None. cores are those that this process may use; threads
    are those that one torch operation uses. memory_gib is the main memory in GiB.
    """

    python: str
    system: str
    processor: str
    torch: str
    build: str
    cuda_built: bool
    cuda_available: bool
    cuda_devices: tuple[str, ...]
    cudnn: int | None
    mps_built: bool
    mps_available: bool
    xpu_available: bool
    mkldnn: bool
    cores: int
    threads: int
    memory_gib: float


def machine_report() -> MachineReport:
    """Look at this machine and at the torch that is installed."""
    cuda = torch.cuda.is_available()
    devices = tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())) if cuda else ()
    return MachineReport(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        processor=platform.machine(),
        torch=torch.__version__,
        build=_build(),
        cuda_built=torch.version.cuda is not None,
        cuda_available=cuda,
        cuda_devices=devices,
        cudnn=torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        mps_built=torch.backends.mps.is_built(),
        mps_available=torch.backends.mps.is_available(),
        xpu_available=torch.xpu.is_available(),
        mkldnn=torch.backends.mkldnn.is_available(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        memory_gib=round(_memory_bytes() / 2**30, 1),
    )


def cuda_demo(chapter: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Decorate a demo function without arguments that needs a CUDA device: @cuda_demo("08_amp").

    The function runs where there is a device. Elsewhere calling it prints one line and, when there is one, the
    output that was recorded on another machine. `torchkata record` makes the recordings.
    """

    def decorate(function: Callable[[], object]) -> Callable[[], object]:
        @functools.wraps(function)
        def demo() -> object:
            if not torch.cuda.is_available():
                print("No CUDA device here: skipped.")
                _print_recording(chapter, function)
                return None
            if RECORD in os.environ:
                return _run_and_record(chapter, function)
            return function()

        return demo

    return decorate


@dataclass(frozen=True)
class _Recording:
    """What a demo printed, on which device, with which torch, when (UTC), and the hash of its source."""

    device: str
    torch: str
    date: str
    source: str
    output: str


def _run_and_record(chapter: str, function: Callable[[], object]) -> object:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        result = function()
    text = output.getvalue()
    print(text, end="")
    recording = _Recording(
        device=torch.cuda.get_device_name(),
        torch=torch.__version__,
        date=datetime.now(UTC).date().isoformat(),
        source=_source_hash(function),
        output=text,
    )
    path = _recording_path(chapter, function)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(recording), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return result


def _print_recording(chapter: str, function: Callable[[], object]) -> None:
    path = _recording_path(chapter, function)
    if not path.is_file():
        return
    recording = _Recording(**json.loads(path.read_text(encoding="utf-8")))
    print(f"Recorded on {recording.device} with torch {recording.torch}, {recording.date}:")
    if recording.source != _source_hash(function):
        print("(This recording is stale: the demo has changed since.)")
    print(textwrap.indent(recording.output.rstrip(), "    "))


def _recording_path(chapter: str, function: Callable[[], object]) -> Path:
    return RECORDINGS / chapter / f"{function.__name__}.json"


def _source_hash(function: Callable[[], object]) -> str:
    lines = textwrap.dedent(inspect.getsource(function)).strip().splitlines()
    return hashlib.sha256("\n".join(line.rstrip() for line in lines).encode()).hexdigest()


def _build() -> str:
    if torch.version.cuda is not None:
        return f"CUDA {torch.version.cuda}"
    if torch.version.hip is not None:
        return f"ROCm {torch.version.hip}"
    return "CPU"


def _memory_bytes() -> int:
    import psutil

    return psutil.virtual_memory().total
