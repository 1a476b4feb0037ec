"""torchkata doctor: each thing that can be missing is found, and told with what to do."""

import importlib.metadata
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from torchkata import hardware
from torchkata.hardware import machine_report
from torchkata.tools import doctor
from torchkata.tools.grading.sandbox import bubblewrap, unlimited, usage
from torchkata.tools.grading.sandbox.inside import syscalls


@pytest.fixture
def course(tmp_path):
    (tmp_path / "nbgrader_config.py").touch()
    release = tmp_path / "notebooks" / "03_b" / "b.ipynb"
    release.parent.mkdir(parents=True)
    release.write_text("{}")
    return tmp_path


def finding(what, start=None):
    (found,) = [finding for finding in doctor.examine(start) if finding.what == what]
    return found


@pytest.fixture
def machine(monkeypatch, course):
    """What is found of a machine like this one, but for the fields of its report that are given, and on `what`."""

    def found(what, **changes):
        other = replace(machine_report(), **changes)
        with monkeypatch.context() as patched:
            patched.setattr(hardware, "machine_report", lambda: other)
            return finding(what, course)

    return found


def test_all_is_well_here(course):
    assert [found for found in doctor.examine(course) if found.state == "broken"] == []


def test_an_old_python(monkeypatch, course):
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (3, 99))
    found = finding("Python", course)
    assert found.state == "broken"
    assert "Python 3.99 or newer" in found.advice


def test_a_torch_that_does_not_import(monkeypatch, course):
    monkeypatch.setitem(sys.modules, "torchkata.hardware", None)
    found = finding("PyTorch", course)
    assert found.state == "broken"
    assert "make clean" in found.advice


@pytest.mark.parametrize(
    ("torch", "state"),
    [
        ("2.13.0+cpu", "good"),
        ("2.15.1+cu130", "good"),
        ("2.12.1", "note"),
        ("2.16.0.dev20270101+cpu", "note"),
        ("3.0.0", "note"),
    ],
)
def test_a_release_that_the_course_is_not_proved_on(monkeypatch, machine, torch, state):
    monkeypatch.setattr(doctor, "requires", lambda name: ["rich", "torch<2.16,>=2.13", "torchinfo"])
    found = machine("PyTorch", torch=torch, build="CPU")
    assert (found.state, found.value) == (state, f"{torch}, built for CPU")
    assert ("torch >=2.13, <2.16;" in found.advice) == (state == "note")


def test_cuda_in_words(machine):
    found = machine("CUDA", cuda_built=True, cuda_available=True, cuda_devices=("NVIDIA Test",))
    assert (found.value, found.state) == ("1: NVIDIA Test", "good")
    found = machine("CUDA", cuda_built=True, cuda_available=False, cuda_devices=())
    assert (found.value, found.state) == ("built, no device", "note")
    assert "nvidia-smi" in found.advice
    found = machine("CUDA", cuda_built=False, cuda_available=False, cuda_devices=())
    assert found.state == "note"
    assert "runs on the CPU" in found.advice


def test_little_memory(machine):
    assert machine("Memory", memory_gib=2.0).state == "note"
    assert machine("Memory", memory_gib=8.0).state == "good"


def test_no_jupyterlab(monkeypatch, course):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)
    found = finding("JupyterLab", course)
    assert (found.value, found.state) == ("missing", "note")
    assert "pip install 'torchkata[lab]'" in found.advice


def kernel_spec(command, folder=""):
    return SimpleNamespace(argv=[command], resource_dir=folder)


@pytest.mark.parametrize("command", ["python", "python3", sys.executable])
def test_a_kernel_of_this_python(monkeypatch, command):
    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", lambda *_: kernel_spec(command))
    assert doctor.kernel_finding().state == "good"


def test_a_kernel_of_another_python(monkeypatch, tmp_path):
    other = kernel_spec(str(tmp_path / "python"), folder="/home/ada/kernels/python3")
    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", lambda *_: other)
    found = doctor.kernel_finding()
    assert found.state == "broken"
    assert "ipykernel install" in found.advice
    assert "rename the folder /home/ada/kernels/python3" in found.advice


def test_no_kernel(monkeypatch):
    def missing(*_):
        raise NoSuchKernel("python3")

    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", missing)
    assert doctor.kernel_finding().state == "broken"


def test_a_damaged_kernel(monkeypatch, tmp_path):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text("{")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    found = doctor.kernel_finding()
    assert (found.value, found.state) == ("damaged", "broken")
    assert str(folder) in found.advice


def test_a_file_that_hides_a_package(course):
    chapter = course / "workbook" / "03_b"
    chapter.mkdir(parents=True)
    assert finding("Workbook", course).state == "good"
    (chapter / "torch.py").touch()
    told = [found.advice for found in doctor.examine(course) if found.what == "Workbook"]
    assert told[0] == ""
    assert told[1].startswith(f"{chapter / 'torch.py'} hides the package torch") and told[1].endswith("Rename it.")


def test_the_workbook(course):
    assert finding("Workbook", course).advice == "torchkata lab makes it."
    copy = course / "workbook" / "03_b" / "b.ipynb"
    copy.parent.mkdir(parents=True)
    copy.touch()
    assert finding("Workbook", course).value == "1 of 1 chapters"


def test_no_chapters(course):
    (course / "notebooks" / "03_b" / "b.ipynb").unlink()
    found = finding("Course", course)
    assert found.state == "broken"
    assert "make build" in found.advice


def test_the_sandbox_for_grading(course, monkeypatch):
    monkeypatch.setattr(bubblewrap, "try_out", lambda: None)
    monkeypatch.setattr(syscalls, "missing", lambda: None)
    assert finding("Sandbox for grading", course).state == "good"
    monkeypatch.setattr(syscalls, "missing", lambda: "pip install pyseccomp")
    found = finding("Sandbox for grading", course)
    assert found.state == "note" and found.advice.endswith("pip install pyseccomp")
    monkeypatch.undo()
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    monkeypatch.setattr(bubblewrap.sys, "platform", "linux")
    assert "apt-get install bubblewrap" in finding("Sandbox for grading", course).advice
    assert "Without the sandbox a submission has your rights" in finding("Limits in grading", course).advice


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox for submissions needs Linux")
def test_a_sandbox_that_does_not_work(course, monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: setting up uid map: Permission denied >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "program", lambda: str(broken))
    found = finding("Sandbox for grading", course)
    assert (found.value, found.state) == ("not there", "note")
    assert "uid map: Permission denied. The sandbox needs user namespaces" in found.advice


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")
def test_what_is_not_limited_is_said(course, monkeypatch):
    def said(sandboxed=True, missing=None, watched=True):
        monkeypatch.setattr(doctor, "_why_no_sandbox", lambda: "" if sandboxed else "no bubblewrap")
        monkeypatch.setattr(syscalls, "missing", lambda: missing)
        monkeypatch.setattr(usage, "can_watch", lambda: watched)
        return finding("Limits in grading", course).advice

    assert said() == f"{unlimited.WATCHED} {unlimited.IN_SOCKETS}"
    assert said(watched=False) == f"{unlimited.UNWATCHED} {unlimited.IN_SOCKETS}"
    assert "hold memory that nobody counts. To change that: pip install pyseccomp." in said(
        missing="pip install pyseccomp"
    )
    assert said(sandboxed=False).startswith(unlimited.NO_SANDBOX)
    monkeypatch.setattr(unlimited.sys, "platform", "darwin")
    assert said(sandboxed=False) == f"{unlimited.NO_SANDBOX} {unlimited.NOT_LINUX}"


def test_who_does_not_grade_hears_nothing_of_it(course, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert not [found for found in doctor.examine(course) if "Sandbox" in found.what]


def test_what_is_missing_for_a_filter_of_system_calls(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert syscalls.missing() == "pip install pyseccomp"
