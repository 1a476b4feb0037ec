"""Look at the whole set-up: Python, torch, Jupyter, the course; say in plain words what is missing and what to do."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from torchkata.tools.course import chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.hiding import hiding_notes
from torchkata.tools.placing import here

if TYPE_CHECKING:
    from torchkata.hardware import MachineReport

SET_UP_ANEW = (
    "Set everything up anew: in a checkout make clean, then make lab; else pip install 'torchkata[lab]' in a fresh "
    "environment."
)
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Finding:
    """One line of the report. state: "good", "note" (less than there could be) or "broken" (learning is impossible).

    advice says what to do, "" when nothing needs doing.
    """

    what: str
    value: str
    state: str = "good"
    advice: str = ""


def examine(start: Path | None = None) -> list[Finding]:
    """All findings, for the course at or above start (default: the working folder)."""
    return [_python(), *_torch(), *_jupyter(), *_course(start), *_classroom()]


def _python() -> Finding:
    text = f"{sys.version.split()[0]}, {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        advice = f"The course needs Python {oldest} or newer: make clean, then make lab PYTHON=python{oldest}"
        return Finding("Python", text, "broken", advice)
    return Finding("Python", text)


def _torch() -> Iterator[Finding]:
    try:
        from torchkata.hardware import machine_report

        report = machine_report()
    except (ImportError, OSError) as error:
        yield Finding("PyTorch", f"cannot be imported: {error}", "broken", SET_UP_ANEW)
        return
    yield Finding("System", f"{report.system}, {report.processor}")
    yield _release(report)
    yield _cuda(report)
    yield Finding("cuDNN", str(report.cudnn) if report.cudnn else "none")
    yield Finding("MPS", _built_and_available(report.mps_built, report.mps_available))
    yield Finding("XPU", "available" if report.xpu_available else "not available")
    yield Finding("MKL-DNN", "available" if report.mkldnn else "not available")
    yield Finding("CPU", f"{report.cores} cores, {report.threads} threads in one torch operation")
    yield _memory(report.memory_gib)


def _release(report: "MachineReport") -> Finding:
    text = f"{report.torch}, built for {report.build}"
    proved = _proved_releases()
    if Version(Version(report.torch).base_version) in proved:
        return Finding("PyTorch", text)
    words = ", ".join(sorted(map(str, proved), reverse=True))
    advice = f"The course is proved on torch {words}; on other releases a right answer may be refused. {SET_UP_ANEW}"
    return Finding("PyTorch", text, "note", advice)


def _proved_releases() -> SpecifierSet:
    """The releases of torch that this torchkata asks for, as its installation says."""
    asked = (Requirement(text) for text in requires("torchkata") or ())
    return next((each.specifier for each in asked if each.name == "torch"), SpecifierSet())


def _cuda(report: "MachineReport") -> Finding:
    if report.cuda_available:
        return Finding("CUDA", f"{len(report.cuda_devices)}: {', '.join(report.cuda_devices)}")
    if report.cuda_built:
        advice = (
            "This torch is built for CUDA but finds no device. If the machine has an NVIDIA GPU, "
            "see whether nvidia-smi lists it and update the driver. Otherwise all is well."
        )
        return Finding("CUDA", "built, no device", "note", advice)
    advice = (
        "Everything in the course runs on the CPU; CUDA demos show what was recorded. "
        "If the machine has an NVIDIA GPU, install a CUDA build of torch (see pytorch.org)."
    )
    return Finding("CUDA", "not built, no device", "note", advice)


def _built_and_available(built: bool, available: bool) -> str:
    if available:
        return "available"
    return "built, not available" if built else "not built"


def _memory(gib: float) -> Finding:
    if gib < 4:
        return Finding("Memory", f"{gib:.1f} GiB", "note", "Little: close other programs, run one notebook at a time.")
    return Finding("Memory", f"{gib:.1f} GiB")


def _jupyter() -> Iterator[Finding]:
    try:
        yield Finding("JupyterLab", version("jupyterlab"))
    except PackageNotFoundError:
        advice = (
            "For torchkata lab: pip install 'torchkata[lab]'. Other editors open the notebooks that torchkata workbook "
            "makes."
        )
        yield Finding("JupyterLab", "missing", "note", advice)
        return
    yield kernel_finding()


def kernel_finding() -> Finding:
    """Whether the kernel that notebooks ask for is there and starts this Python."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    manager = KernelSpecManager()
    try:
        spec = manager.get_kernel_spec("python3")
    except NoSuchKernel:  # Jupyter makes it up itself where ipykernel is installed
        return Finding("Kernel python3", "missing", "broken", SET_UP_ANEW)
    except ValueError:  # its kernel.json is no JSON
        folder = manager.find_kernel_specs()["python3"]
        return Finding("Kernel python3", "damaged", "broken", f"Rename the folder {folder}.")
    command = spec.argv[0]
    if not _is_this_python(command):
        mend = (
            f'Run: "{sys.executable}" -m ipykernel install --sys-prefix\n'
            f"If that changes nothing, rename the folder {spec.resource_dir}."
        )
        return Finding("Kernel python3", f"starts another Python, {command}", "broken", mend)
    return Finding("Kernel python3", "starts this Python")


def _is_this_python(command: str) -> bool:
    """Whether a kernel's command starts this Python. Jupyter replaces a bare python by its own interpreter."""
    major, minor = sys.version_info[:2]
    if command in ("python", f"python{major}", f"python{major}.{minor}"):
        return True
    return Path(command).parent.resolve() == Path(sys.executable).parent.resolve()


def _course(start: Path | None) -> Iterator[Finding]:
    try:
        place = here(start)
        released = [chapter for chapter in chapters(place) if chapter.release.is_file()]
    except CourseError as error:
        yield Finding("Course", "not found", "broken", str(error))
        return
    if not released:
        yield Finding("Course", f"{place.root}, no chapters", "broken", "notebooks/ is empty. Run: make build")
        return
    yield Finding("Course", f"{place.root}, {len(released)} chapters")
    if not (place.has_workbook and place.workbook.is_dir()):
        yield Finding("Workbook", "not there yet", "note", "torchkata lab makes it.")
        return
    copied = sum(chapter.workbook.exists() for chapter in released)
    yield Finding("Workbook", f"{copied} of {len(released)} chapters")
    for note in hiding_notes(place.workbook):
        yield Finding("Workbook", "a file hides a package", "note", note)


def _classroom() -> Iterator[Finding]:
    """The sandbox of `torchkata grade`; nothing where that is not installed."""
    if find_spec("nbgrader") is None:
        return
    from torchkata.tools.grading.sandbox import usage
    from torchkata.tools.grading.sandbox.inside import syscalls
    from torchkata.tools.grading.sandbox.unlimited import unlimited

    unfiltered, why_not = syscalls.missing(), _why_no_sandbox()
    if why_not:
        yield Finding("Sandbox for grading", "not there", "note", why_not)
    elif unfiltered:
        advice = f"Submissions are kept in without it; for one wall more: {unfiltered}"
        yield Finding("Sandbox for grading", "bubblewrap, without a filter of system calls", "note", advice)
    else:
        yield Finding("Sandbox for grading", "bubblewrap, with a filter of system calls")
    said = unlimited(not why_not, unfiltered, watched=usage.can_watch())
    yield Finding("Limits in grading", f"{len(said)} things are not limited", "note", " ".join(said))


def _why_no_sandbox() -> str:
    """Why submissions can't be run behind the boundary here; empty where they can."""
    from torchkata.tools.grading.sandbox import bubblewrap

    try:
        bubblewrap.try_out()
    except CourseError as error:
        return str(error)
    return ""
