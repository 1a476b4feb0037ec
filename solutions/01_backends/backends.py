# %% [markdown]
# # Install and backends
#
# Which PyTorch is installed, which device it can use, and in which format it keeps a number: three questions that cost
# many hours when they are asked late. After this chapter you can
#
# - read a report of any machine and name the reason why its GPU is not used;
# - choose a device once, in a way that also works on the next machine, and bring a model and its batches there;
# - predict what float32, float16 and bfloat16 make of a number, and what the default dtype changes;
# - turn "CUDA error: device-side assert triggered" into the label that caused it;
# - say what fills the memory of a training step, and which part of it grows with the batch.
#
# **45 minutes to read, 104 minutes to practise, 20 points.** You need Python, and to have run a training loop once:
# model, loss, `backward()`, `step()`. No GPU is needed.
#
# How it works: read, answer each *Predict* question in your head, then run the cell below it (Shift + Enter). In an
# exercise, write your answer in the answer cell and run it; then click on the grey line below it, the check cell, and
# run that too. It says at once what is right, or what is wrong and why.

# %% setup=true
import math
import os
import re
import subprocess
import sys
import time
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import distribution
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from torch import Tensor, nn
from torch.torch_version import TorchVersion
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from torchkata.demos import error_of
from torchkata.facts import folklore, prove
from torchkata.hardware import cuda_demo, machine_report
from torchkata.pictures.float_bits import float_explorer
from torchkata.pictures.late_error import Call, late_error
from torchkata.pictures.memory_bars import memory_bars, memory_explorer
from torchkata.verdicts import (
    check,
    mistake,
    observe,
    observe_scenario,
    observe_value,
    prediction,
)

assert (torch.ones(1, device="meta") + 1).is_meta  # loads what the device meta needs; section 1.2 is about it

# %% [markdown]
# ## 1.1 Two kinds of facts: built and available
#
# A *build* of PyTorch is the file that an installer brought here. What it was compiled with was settled on another
# machine, long ago. What *this* machine offers is known only when the program runs.
#
# **Predict.** On a build without CUDA (a "CPU build"), which of these four are True?

# %% facts=["01-cudnn-is-available", "01-cudnn-enabled-is-a-switch"] varies="it describes your machine"
print("torch.backends.cuda.is_built()       ", torch.backends.cuda.is_built())
print("torch.backends.cudnn.is_available()  ", torch.backends.cudnn.is_available())
print("torch.backends.cudnn.enabled         ", torch.backends.cudnn.enabled)
print("torch.cuda.is_available()            ", torch.cuda.is_available())

# %% [markdown]
# Only `enabled`. The four answer three different questions:
#
# - *Built with?* `cuda.is_built()` tells what was compiled in. So does `cudnn.is_available()`, whatever its name says:
#   it never looks for a GPU. On a machine without one, a CUDA build answers True to both.
# - *Available?* `torch.cuda.is_available()` looks at the machine: is there a driver, and a device?
# - *Enabled?* `cudnn.enabled` is a switch for you to turn off. It is True by default, also where cuDNN does not exist.
#
# Available implies built, never the reverse. To use cuDNN, all three must be yes, and the tensor must be on the GPU.
#
# **Predict.** There is more than CUDA: MPS (Apple's GPUs), XPU (Intel's), MKL-DNN (fast operations on the CPU; its new
# name is oneDNN). For which of the five can PyTorch be asked all three questions?

# %% facts=["01-cuda-is-built-vs-available"] varies="it describes your machine"
b = torch.backends
asked = {
    "CUDA": (b.cuda.is_built(), torch.cuda.is_available(), None),
    "cuDNN": (b.cudnn.is_available(), None, b.cudnn.enabled),
    "MPS": (b.mps.is_built(), b.mps.is_available(), None),
    "XPU": (torch.version.xpu is not None, torch.xpu.is_available(), None),
    "MKL-DNN": (b.mkldnn.is_available(), None, b.mkldnn.enabled),
}

print(f"{'':9}{'built':9}{'available':11}enabled")
for name, replies in asked.items():
    built, available, enabled = ("–" if answer is None else str(answer) for answer in replies)
    print(f"{name:9}{built:9}{available:11}{enabled}")

# %% [markdown]
# For none of them. A dash means that there is no such question. Devices have no switch; the two libraries (cuDNN,
# MKL-DNN) have one, and their `is_available()` means "built".
#
# When something is wrong, ask all of this at once, and show the answer to whoever helps you. In a terminal `torchkata
# doctor` prints this report and more, with advice.


# %% varies="it describes your machine"
BUILT = ("torch", "build", "cuda_built", "cudnn", "mps_built", "mkldnn")
NOW = ("cuda_available", "cuda_devices", "mps_available", "xpu_available", "cores", "threads", "memory_gib")


def show_report() -> None:
    """What was fixed when this PyTorch was built, and what is known only on this machine."""
    report = asdict(machine_report())
    for title, names in (("fixed when it was built", BUILT), ("known only now", NOW)):
        print(title)
        for name in names:
            print(f"    {name:15} {report[name]}")


show_report()

# %% [markdown]
# A reason why a GPU isn't used stands in the upper part or in the lower part, and the cures differ: another build, or
# something about this machine.
#
# **Predict.** Which of these questions may be asked on a CPU build: `torch.cuda.device_count()`,
# `torch.backends.cudnn.version()`, `torch.cuda.get_device_name(0)`, `torch.cuda.current_device()`?

# %% facts=["01-cuda-available-and-count", "01-cudnn-version-call"] varies="a GPU changes the answers"
print("device_count:   ", torch.cuda.device_count())
print("cudnn.version():", torch.backends.cudnn.version())

# %% facts=["01-cuda-get-device-name"] varies="a GPU changes the answers"
for question in (lambda: torch.cuda.get_device_name(0), torch.cuda.current_device):
    if torch.cuda.is_available():
        print(question())
    else:
        error_of(question)

# %% [markdown]
# The first two: counting is safe everywhere, and no version is None. A question about *the* GPU has no answer where
# there is none, so it raises: ask `is_available()` first.
#
# ### The version
#
# **Predict.** The version is 2.13 or newer. Three ways to ask whether it is at least 2.9; which of them says False?

# %% facts=["01-torch-version-string"]
print("torch.__version__ >= (2, 9):    ", torch.__version__ >= (2, 9))
print('torch.__version__ >= "2.9":     ', torch.__version__ >= "2.9")
print('str(torch.__version__) >= "2.9":', str(torch.__version__) >= "2.9")
print("type:", type(torch.__version__).__name__, " a str:", isinstance(torch.__version__, str))

# %% [markdown] facts=["01-doc-is-for-2-3"]
# The third compares text, letter by letter, and "1" comes before "9". `torch.__version__` is a `TorchVersion`: a string
# that compares itself as a version, also with tuples. It matters, because notes age: since PyTorch 2.3, for instance,
# `torch.load` has become strict about what it reads, and `torch.accelerator` (section 1.2) and a new ONNX exporter have
# come.

# %% [markdown] facts=["01-cuda-toolkit-must-be-installed", "01-torch-version-cuda"]
# ### Which CUDA number is which
#
# Three numbers are called "the CUDA version", and they may all differ:
#
# - `torch.version.cuda`: with which CUDA this PyTorch was built. Its libraries come with the wheel. None on a CPU
#   build.
# - the number in the corner of `nvidia-smi`: the newest CUDA that the *driver* can serve. It may well be larger.
# - `nvcc --version`: the *toolkit*, a set of compilers, if one is installed at all. PyTorch uses it only to compile
#   extensions.
#
# So a GPU needs a driver and a CUDA build of PyTorch. It does not need a toolkit.

# %% [markdown]
# ### Why the installer took a CPU build
#
# A wheel's version may end in a tag that names its build: `2.13.0+cpu`, `2.13.0+cu130` (CUDA 13.0). What does pip make
# of the tag?
#
# **Predict.** `2.13.0+cpu` is installed, and a project asks for `torch==2.13.0` because it needs a GPU. Does pip
# install anything? And which of the three offers at the end does pip take, if it is given all of them?

# %% facts=["01-conda-main-only-cpu-build"]
print('"==2.13.0" is satisfied by 2.13.0+cpu:', "2.13.0+cpu" in SpecifierSet("==2.13.0"))

offers = [Version("2.13.0+cpu"), Version("2.13.0+cu130"), Version("2.13.0")]
print("from old to new:", " < ".join(map(str, sorted(offers))))

# %% [markdown]
# Nothing is installed: any build will do for `==2.13.0`, and one is there. And of the three offers pip takes the last
# in this order, `2.13.0+cu130`: a tag counts as newer than no tag. (`Version` and `SpecifierSet` are pip's own rules,
# from the library `packaging`.) That explains how builds come about:
#
# - Without any option, pip asks PyPI. For Linux on Intel and AMD processors PyPI has a CUDA build, for Windows and
#   macOS it has none.
# - With `--index-url https://download.pytorch.org/whl/cu130` pip asks only that index; `/cpu` in place of `/cu130`
#   holds the CPU builds.
# - With `--extra-index-url …/whl/cpu` it asks both. No index has priority: the newest version wins, and `2.13.0+cpu`
#   counts as newer than the CUDA build `2.13.0` of PyPI.
# - If a CPU build is there already, it stays. Uninstall it first.

# %% [markdown] facts=["01-conda-pytorch-channel-ended", "01-conda-main-only-cpu-build"]
# conda once had a channel `pytorch`, and the order of the channels decided which build came. That channel ended with
# PyTorch 2.5 ([the announcement](https://github.com/pytorch/pytorch/issues/138506)); old instructions with `-c pytorch`
# stop there. Today it is pip, or the channel conda-forge. There conda looks for a driver on the machine *where it
# runs*: on a login node without a GPU, or while a container is built, it finds none and silently takes a CPU build,
# which has no tag `+cpu`. `conda install -c conda-forge "pytorch=*=cuda*"` asks for the other kind.
#
# `import torch` works with either build. So ask the build itself; the tag is only a habit of some wheels:

# %% facts=["01-torch-version-cuda", "01-conda-main-only-cpu-build"] varies="it describes your build"
print("built for:   ", torch.version.cuda or torch.version.hip or "the CPU only")
print("tag:         ", torch.__version__.partition("+")[2] or "none")
print("installed by:", (distribution("torch").read_text("INSTALLER") or "unknown").strip())

# %% [markdown]
# **Predict.** Four reports, made up after real cases; all four machines were meant to use a GPU. What is wrong with
# each?
#
# | | `torch.version.cuda` | CUDA available | cards | driver's CUDA | `CUDA_VISIBLE_DEVICES` |
# |---|---|---|---|---|---|
# | laptop | None | False | 1 | 13.0 | – |
# | container | 13.0 | False | – | – | – |
# | old server | 13.0 | False | 4 | 12.4 | – |
# | cluster node | 13.0 | False | 4 | 13.0 | `""` |
#
# <details><summary>Answers</summary>
#
# The laptop has a CPU build, and no driver can make up for that. In the container there is no driver (a container gets
# it from outside, when it is started with GPUs). The old server's driver is too old for a build for CUDA 13. On the
# cluster node an empty variable hides all cards; section 1.7 is about it.
#
# </details>
#
# Read a report in this order: first the build, then driver and card, then the environment.

# %% [markdown]
# The exercise turns this order into a function.

# %% [markdown]
# ### Exercise 1.1 · Why does this machine not use its GPU?
#
# debug · solid · 15 min · 3 points
#
# "It runs on the CPU, and I don't know why." Such a mail comes with a report like this one, from a server with four
# cards:
#
#     {"torch": "2.13.0", "needs_torch": "2.9", "built_cuda": None, "cuda_available": False,
#      "device_count": 0, "cudnn_enabled": True, "cudnn_version": None,
#      "visible_devices": None, "driver_cuda": "13.0", "cards": 4}
#
# Write the function that reads such a report and names the reason.
#
# **Contract**
#
# - Return the first code that applies, in this order:
#   - `torch-too-old`: the version `torch` is below `needs_torch`;
#   - `cpu-build`: the binary was built without CUDA (`built_cuda`, which is `torch.version.cuda`);
#   - `ok`: CUDA is available and there is at least one device;
#   - `no-driver`: no nvidia-smi (`driver_cuda`, the CUDA version in its corner, is None);
#   - `no-card`: a driver, but `cards` (the lines of `nvidia-smi -L`) is 0;
#   - `hidden-by-env`: `visible_devices` (CUDA_VISIBLE_DEVICES) leaves no card;
#   - `driver-too-old`: the major CUDA number of the driver is below that of the build;
#   - `unknown`: none of these.
# - Versions look like `2.13.0`, `2.13.0+cpu` or `2.14.0.dev20260101+cu126`; `needs_torch` has two or three numbers.
# - `visible_devices` is None (nothing is hidden) or a comma separated list of card numbers, with or without blanks.
#   Reading stops at the first entry that is no card of this machine. So `''`, `'-1'`, `'-1,0'` and, with two cards,
#   `'5'` hide everything; `'0,5'` leaves card 0.
# - The dict is not modified, and other keys in it are ignored. A missing CUDA toolkit (nvcc) is never a reason: wheels
#   bring their own CUDA libraries.
#
# <details><summary>Hint 1</summary>
#
# Which of these facts were fixed when the wheel was built, and which are only known when the program runs?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go through the order in the contract and use one fact per line: the version as numbers (not as text, not as a
# float), `built_cuda is None`, then the facts of the run. What was built in and the switch `cudnn_enabled` prove
# nothing about the machine.
#
# </details>


# %% answer="read-env-report"
def diagnose(report: dict[str, object]) -> str:
    """The code of the first reason that applies.

    report: "torch", "needs_torch": str; "built_cuda", "driver_cuda", "visible_devices": str or None;
    "cuda_available", "cudnn_enabled": bool; "device_count", "cards": int; "cudnn_version": int or None.
    """
    ### BEGIN SOLUTION
    if TorchVersion(report["torch"]) < report["needs_torch"]:
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if report["visible_devices"] is not None:
        first = report["visible_devices"].split(",")[0].strip()
        if not first.isdigit() or int(first) >= report["cards"]:
            return "hidden-by-env"
    if int(report["driver_cuda"].split(".")[0]) < int(report["built_cuda"].split(".")[0]):
        return "driver-too-old"
    return "unknown"
    ### END SOLUTION


# %% check="read-env-report" points=1
"""The version is compared as numbers, before anything else."""
with check("read-env-report") as test:

    def judge(installed, needed, code, *mistakes, **changes):
        """Judge the diagnosis of a working machine with these versions and changes."""
        report = {"torch": installed, "needs_torch": needed, "built_cuda": "12.6", "cuda_available": True}
        report |= {"device_count": 2, "cudnn_enabled": True, "cudnn_version": 91002, "visible_devices": None}
        report |= {"driver_cuda": "12.6", "cards": 2} | changes
        seen = observe(diagnose, report).expecting(*not_a_code, *mistakes, *suffix)
        seen.returns(code, because="This report asks for another code: {detail}.")
        seen.leaves_arguments_alone()

    codes = ["torch-too-old", "cpu-build", "ok", "no-driver", "no-card", "hidden-by-env", "driver-too-old", "unknown"]
    not_a_code = [
        mistake("The function must return one of the codes, as text: {detail}.", stage="type"),
        mistake(
            "That is none of the codes: write them exactly as the contract does.",
            stage="value",
            when=lambda seen: seen.value not in codes,
        ),
    ]
    suffix = [
        mistake(
            "A version may carry more than numbers, as in 2.13.0+cpu or 2.14.0.dev20260101+cu126. Cut that off before "
            "you turn the parts into numbers.",
            raises="invalid literal|could not convert",
        )
    ]
    no_text = (
        "Versions are not text and not decimals: as text '2.13' < '2.9', as a number 2.13 < 2.9. Compare (2, 13) with "
        "(2, 9), or use torch's TorchVersion."
    )
    as_text_high = mistake(no_text, gives="torch-too-old")
    as_text_low = mistake(no_text, gives="ok")

    test("torch 2.13.0 on a working machine that needs 2.9")
    judge("2.13.0", "2.9", "ok", as_text_high)

    test("torch 2.13.0+cu126 is not older than 2.9 either")
    judge("2.13.0+cu126", "2.9", "ok", as_text_high)

    test("torch 2.8.0 on a laptop without a driver that needs 2.9: the version comes first")
    no_driver = {"cuda_available": False, "device_count": 0, "driver_cuda": None, "cards": 0}
    version_first = "The report needs a newer torch, and `needs_torch` comes before all other reasons."
    judge("2.8.0", "2.9", "torch-too-old", mistake(version_first, stage="value"), **no_driver)

    ### BEGIN HIDDEN TESTS
    test.hidden("an old torch on a working machine")
    ok_first = mistake(
        "You returned ok although the report needs a newer torch: `needs_torch` comes first.", gives="ok"
    )
    judge("2.8.0", "2.9", "torch-too-old", ok_first)

    test.hidden("an old CPU build")
    judge("2.8.0+cpu", "2.9", "torch-too-old", mistake(version_first, stage="value"), built_cuda=None, **no_driver)

    test.hidden("2.9.1 where 2.10 is needed, 2.13 where 2.14 is needed")
    judge("2.9.1", "2.10", "torch-too-old", as_text_low)
    judge("2.13.0+cu126", "2.14", "torch-too-old", as_text_low)
    judge("2.13.0", "2.100", "torch-too-old", as_text_low)

    test.hidden("exactly the demanded version")
    exact = mistake("The demanded version itself is not too old.", gives="torch-too-old")
    for installed, needed in (("2.13.0", "2.13"), ("2.13.0", "2.13.0"), ("2.13.0+cu126", "2.13"), ("2.9.1", "2.9.1")):
        judge(installed, needed, "ok", exact)

    test.hidden("the third number counts too")
    third = mistake("The third number of a version counts as well: 2.9.0 is older than 2.9.1.", stage="value")
    judge("2.9.0", "2.9.1", "torch-too-old", third)
    judge("2.9.2", "2.9.1", "ok", third)
    judge("2.9.10", "2.9.9", "ok", as_text_high)
    judge("2.10.0", "2.9.1", "ok", as_text_high)

    test.hidden("another major number")
    major = mistake("The major number decides first: 3.0 is newer than 2.9, and 1.13 older than 2.0.", stage="value")
    judge("3.0.0", "2.9", "ok", major)
    judge("1.13.1", "2.0", "torch-too-old", major)

    test.hidden("a nightly build")
    judge("2.14.0.dev20260101", "2.9", "ok", as_text_high)
    judge("2.14.0.dev20260101+cu126", "2.13", "ok")
    judge("2.14.0.dev20260101", "2.15", "torch-too-old", as_text_low)
    ### END HIDDEN TESTS

# %% check="read-env-report" points=1
"""Build, then availability, driver, card: the first that applies."""
with check("read-env-report") as test:

    def judge(code, *mistakes, **changes):
        """Judge the diagnosis of a machine with two cards and these changes; it works, unless they say otherwise."""
        report = {"torch": "2.13.0", "needs_torch": "2.10", "built_cuda": "12.6", "cuda_available": True}
        report |= {"device_count": 2, "cudnn_enabled": True, "cudnn_version": 91002, "visible_devices": None}
        report |= {"driver_cuda": "12.6", "cards": 2} | changes
        seen = observe(diagnose, report).expecting(*not_a_code, *mistakes)
        seen.returns(code, because="This report asks for another code: {detail}.")
        seen.leaves_arguments_alone()

    codes = ["torch-too-old", "cpu-build", "ok", "no-driver", "no-card", "hidden-by-env", "driver-too-old", "unknown"]
    not_a_code = [
        mistake("The function must return one of the codes, as text: {detail}.", stage="type"),
        mistake(
            "That is none of the codes: write them exactly as the contract does.",
            stage="value",
            when=lambda seen: seen.value not in codes,
        ),
    ]
    a_switch = mistake(
        "`cudnn_enabled` is a switch that is True by default, on CPU-only builds too, and `cudnn_version` says what "
        "was built in. Neither can tell you that the GPU works.",
        gives="ok",
    )
    trusts_smi = mistake(
        "You returned ok because nvidia-smi lists cards. Whether torch can use them is what `cuda_available` and "
        "`device_count` say.",
        gives="ok",
    )
    machine_first = [
        mistake(
            "You blamed driver or card first. A CPU build cannot see any card, whatever the driver: the build comes "
            "before the machine.",
            gives=code,
        )
        for code in ("no-driver", "no-card", "hidden-by-env", "driver-too-old")
    ]
    equal_numbers = (
        "The driver's CUDA number is the newest runtime it can serve, not the one you use: a newer driver runs older "
        "builds. Only a smaller major number is a problem, and only if CUDA is not available anyway."
    )
    nothing = {"cuda_available": False, "device_count": 0}
    cpu_build = nothing | {"built_cuda": None, "cudnn_version": None}

    test("a working machine is ok")
    judge("ok")

    test("it is ok, too, if its driver is newer than the build")
    judge("ok", mistake(equal_numbers, stage=("raised", "value")), driver_cuda="13.0")

    test("the CPU wheel, tagged +cpu, on a laptop without a driver")
    judge("cpu-build", a_switch, *machine_first, **cpu_build, torch="2.13.0+cpu", driver_cuda=None, cards=0)

    test("the CPU wheel, tagged +cpu, on a server with four cards")
    judge("cpu-build", trusts_smi, *machine_first, **cpu_build, torch="2.13.0+cpu", driver_cuda="13.0", cards=4)

    test("the report of the exercise: a CPU build without a tag (as from conda-forge), four cards")
    by_tag = mistake(
        "You looked for '+cpu' in the version. The tag is a naming habit of the wheels (conda-forge builds have none): "
        "whether the binary has CUDA is what `built_cuda` says.",
        stage=("raised", "value"),
    )
    judge("cpu-build", by_tag, **cpu_build, driver_cuda="13.0", cards=4)

    test("a CUDA wheel on a laptop without a driver")
    judge("no-driver", a_switch, **nothing, driver_cuda=None, cards=0)

    test("a driver, but no card")
    judge("no-card", a_switch, **nothing, cards=0)

    ### BEGIN HIDDEN TESTS
    test.hidden("available with no device, and devices counted where CUDA is not available: neither is ok")
    both = mistake("`ok` needs both: CUDA available, and at least one device.", gives="ok")
    judge("unknown", both, cuda_available=True, device_count=0)
    judge("unknown", both, cuda_available=False, device_count=2)
    judge("no-driver", both, cuda_available=False, device_count=1, driver_cuda=None, cards=0)

    test.hidden("one device is enough")
    judge("ok", device_count=1, cards=1)

    test.hidden("a working machine is ok, whatever nvidia-smi and the switch say")
    works = mistake(
        "CUDA is available and there is a device: this machine works, whatever nvidia-smi or a switch say.",
        stage=("raised", "value"),
    )
    judge("ok", works, driver_cuda=None, cards=0)
    judge("ok", works, built_cuda="13.0", driver_cuda="12.8")
    judge("ok", works, cudnn_enabled=False)
    judge("ok", works, cudnn_version=None)

    test.hidden("a CPU build, whatever the environment variable says")
    judge("cpu-build", *machine_first, **cpu_build, visible_devices="")

    test.hidden("the driver is too old for the build, by its major number")
    as_text = mistake(
        "You compared CUDA versions as text: '9.2' > '12.6' there. Compare the major numbers as integers.",
        stage="value",
    )
    too_old = mistake("A driver for an older major number of CUDA cannot serve this build.", stage="value")
    judge("driver-too-old", too_old, **nothing, driver_cuda="12.8", built_cuda="13.0")
    judge("driver-too-old", as_text, **nothing, driver_cuda="9.2")

    test.hidden("the driver is not the cause")
    newer = mistake(equal_numbers, gives="driver-too-old")
    judge("unknown", newer, **nothing, driver_cuda="13.0")
    judge("unknown", newer, **nothing, driver_cuda="12.4")
    judge("unknown", newer, **nothing)
    judge("unknown", as_text, **nothing, driver_cuda="10.1", built_cuda="9.2")

    test.hidden("other keys are ignored; a missing toolkit is no reason")
    judge("ok", nvcc=None, python="3.12", kernel=6)
    judge("unknown", **nothing, nvcc=None, toolkit="not found")
    ### END HIDDEN TESTS

# %% check="read-env-report" points=1
"""CUDA_VISIBLE_DEVICES hides cards from its first bad entry on."""
with check("read-env-report") as test:

    def judge(visible, code, *mistakes, **changes):
        """Judge the diagnosis of a machine with two cards on which torch sees nothing, with these changes."""
        report = {"torch": "2.13.0", "needs_torch": "2.10", "built_cuda": "12.6", "cuda_available": False}
        report |= {"device_count": 0, "cudnn_enabled": True, "cudnn_version": 91002, "visible_devices": visible}
        report |= {"driver_cuda": "12.6", "cards": 2} | changes
        seen = observe(diagnose, report).expecting(*not_a_code, *mistakes)
        seen.returns(code, because="This report asks for another code: {detail}.")
        seen.leaves_arguments_alone()

    codes = ["torch-too-old", "cpu-build", "ok", "no-driver", "no-card", "hidden-by-env", "driver-too-old", "unknown"]
    not_a_code = [
        mistake("The function must return one of the codes, as text: {detail}.", stage="type"),
        mistake(
            "That is none of the codes: write them exactly as the contract does.",
            stage="value",
            when=lambda seen: seen.value not in codes,
        ),
    ]

    test("CUDA_VISIBLE_DEVICES='' on a good machine hides everything")
    judge("", "hidden-by-env", mistake("An empty entry is no card number: {detail}", raises="invalid literal"))

    test("no such variable: nothing is hidden, and nothing else explains it")
    none_hides = mistake("None means that the variable is not set: then nothing is hidden.", stage=("raised", "value"))
    judge(None, "unknown", none_hides)

    ### BEGIN HIDDEN TESTS
    test.hidden("'-1', '-1,0', and '5' on two cards hide everything")
    not_only_empty = mistake(
        "An empty CUDA_VISIBLE_DEVICES is not the only one that hides everything: '-1', or a first entry that is no "
        "card of this machine, does it too.",
        stage=("raised", "value"),
    )
    stops = mistake(
        "Reading CUDA_VISIBLE_DEVICES stops at the first invalid entry: valid ones that come after it are not read.",
        gives="unknown",
    )
    judge("-1", "hidden-by-env", not_only_empty)
    judge("5", "hidden-by-env", not_only_empty)
    judge("-1,0", "hidden-by-env", stops)
    judge("5,0,1", "hidden-by-env", stops)
    judge("-2", "hidden-by-env", not_only_empty)

    test.hidden("cards are numbered from 0")
    judge("2", "hidden-by-env", mistake("With two cards the numbers are 0 and 1: there is no card 2.", stage="value"))
    judge("1", "unknown")
    judge("0", "unknown")

    test.hidden("'0,5' leaves card 0")
    one_bad = mistake(
        "Reading CUDA_VISIBLE_DEVICES stops at the first invalid entry; the valid ones before it stay visible "
        "('0,5' leaves card 0).",
        gives="hidden-by-env",
    )
    judge("0,5", "unknown", one_bad)
    judge("0,-1", "unknown", one_bad)
    judge("1,-1,0", "unknown", one_bad)

    test.hidden("blanks around the entries, numbers with two digits")
    blanks = mistake("Blanks around an entry of CUDA_VISIBLE_DEVICES do not matter.", stage=("raised", "value"))
    judge(" 1 , 0", "unknown", blanks)
    judge(" -1 , 0", "hidden-by-env", blanks)
    judge("12", "unknown", mistake("Entries are whole numbers: '12' is card 12.", stage="value"), cards=16)
    judge("12", "hidden-by-env", mistake("Entries are whole numbers: '12' is card 12.", stage="value"))

    test.hidden("a variable that hides one card of a working machine")
    working = {"cuda_available": True, "device_count": 1}
    still_ok = mistake("This machine works: CUDA is available, and one card is left. That is `ok`.", stage="value")
    judge("1", "ok", still_ok, **working)
    judge("0,5", "ok", still_ok, **working)

    test.hidden("the order: driver and card come before the variable, the driver's age after it")
    order = mistake("The order of the contract decides: another reason comes first here.", stage=("raised", "value"))
    judge("", "no-driver", order, driver_cuda=None, cards=0)
    judge("0", "no-card", order, cards=0)
    judge("-1", "hidden-by-env", order, driver_cuda="12.8", built_cuda="13.0")
    judge("0", "driver-too-old", order, driver_cuda="12.8", built_cuda="13.0")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 1.2 A device is a label
#
# **Predict.** Which of these four raise on a machine without a GPU?
#
#     torch.device("cuda:7")
#     torch.device("gpu")
#     torch.device("meta")
#     torch.zeros(1, device="cuda")

# %% facts=["01-device-strings", "01-device-index-out-of-range"] varies="a GPU changes the answers"
print(repr(torch.device("cuda:7")))
error_of(lambda: torch.device("gpu"))
print(repr(torch.device("meta")))

if torch.cuda.is_available():
    print(torch.zeros(1, device="cuda").device)
else:
    error_of(lambda: torch.zeros(1, device="cuda"))

# %% [markdown]
# The second and the fourth. A `torch.device` is a label: a type, and an index or None. Making one asks nobody whether
# that device exists, so `cuda:7` is fine everywhere. Only the spelling is checked, and "gpu" is no type; graphics cards
# of NVIDIA and AMD are both called "cuda". The error comes when memory is wanted there.
#
# **Predict.** `device = torch.device("cuda")` stands at the top of a program. Where is `torch.ones(2)` created after
# that line? And which of the labels below equal `torch.device("cuda:0")`?

# %% facts=["01-device-object-moves-nothing", "01-cuda-vs-cuda0-identical", "01-device-types-only-cpu-and-cuda"]
device = torch.device("cuda")
print("torch.ones(2) is on", torch.ones(2).device)

print(f"\n{'written':9}{'type':7}{'index':7}equals cuda:0")
for written in ("cpu", "cuda", "cuda:0", "cuda:7", "mps", "xpu", "meta"):
    device = torch.device(written)
    print(f"{written:9}{device.type:7}{device.index!s:7}{device == torch.device('cuda:0')}")

# %% [markdown]
# A label moves nothing. And labels are compared part by part: "cuda" has no index, it means *the current* CUDA device,
# and so it is not equal to `cuda:0`, even where both lead to the same card. The `.device` of a CUDA tensor always has
# its index. The test `x.device == torch.device("cuda")` is therefore never true; ask `x.is_cuda` or `x.device.type`.
#
# The CPU has its own form of this. **Predict.** Is a tensor that was made on `"cpu:0"` on the device
# `torch.device("cpu:0")`?

# %% facts=["01-cuda-vs-cuda0-identical"]
x = torch.ones(2, device="cpu:0")
print("x.device:", x.device, "  equals cpu:0:", x.device == torch.device("cpu:0"))

# %% [markdown]
# No: a CPU tensor says `cpu`, without an index. The device of a tensor is *concrete*, in the form that PyTorch itself
# uses. To compare labels, first bring them into that form.
#
# One label is special. **Predict.** How much memory does this matrix take, and what is in its corner?

# %% facts=["01-device-types-only-cpu-and-cuda"]
huge = torch.empty(100_000, 100_000, device="meta")
product = huge @ huge.T
print("product:", tuple(product.shape), product.dtype, product.device)
error_of(lambda: product[0, 0].item())

# %% [markdown]
# None, and nothing. A tensor on the device `meta` has shape, dtype and device, but no data; 40 GB of float32 cost
# nothing, and operations on it only work out shapes. It exists in every build, and so it serves in this chapter as "the
# other device": whatever is said about moving to a GPU can be tried with it.
#
# Now choose a device. **Predict.** Which of these two ways finds an Apple or an Intel GPU?

# %% facts=["01-device-choice-idiom"] varies="a GPU changes the answers"
old_way = torch.device("cuda" if torch.cuda.is_available() else "cpu")

if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")

print("old way:", old_way, "  portable way:", device, "  a tensor made there:", torch.ones(1, device=device).device)

# %% [markdown]
# The second. An *accelerator* is whatever the machine has besides the CPU: cuda, mps, xpu and others (page
# `torch.accelerator`). The old way is still right where CUDA and the CPU are all you care about. Either way choose
# once, at the top, and hand `device` on. Everything below it then works without a device's name in it.
#
# `current_accelerator()` tells what was *built*, without an index; that is why `is_available()` is asked before. The
# index is `torch.accelerator.current_device_index()`.

# %% [markdown]
# ### Exercise 1.2 · Choose the device once, properly
#
# implement · solid · 12 min · 3 points
#
# `"cuda" if torch.cuda.is_available() else "cpu"` is copied into every script. It knows one kind of accelerator, its
# result never equals `tensor.device`, and a typing error on the command line shows up a thousand lines later. Write
# the function that decides once, at the start.
#
# `counts` says how many devices of each kind the machine has, such as `{"cuda": 2}`, `{"mps": 1}` or `{}`; `current`
# is the index of the current one. So the function can be tested without a GPU.
#
# **Contract**
#
# - `spec=None`: the first of cuda, xpu, mps of which there is at least one, else the CPU.
# - The result is a torch.device that equals `.device` of a tensor allocated there. So cuda, xpu and mps without an
#   index get the index `current`; the CPU, also when written `cpu:0`, is `torch.device("cpu")`; `meta` always exists.
# - What cannot work here raises ValueError with the spec in its message: an unknown kind, a kind with no device, an
#   index that is too large. A wish that was spoken never falls back to the CPU.
# - Strings and torch.device objects are accepted. `torch.cuda` and `torch.accelerator` are not asked; `counts` and
#   the default device stay as they are.
#
# **Rule.** No tensor is created (the check records operations): the first one on a GPU starts CUDA, which takes time
# and memory.
#
# <details><summary>Hint 1</summary>
#
# If you only write `torch.device(spec)`, which of the demands in the contract are already met, and which does a
# device object simply not check?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Build the torch.device first (turning its RuntimeError into a ValueError), then look at `.type` and `.index`: the
# index is None for `cuda`, that is the place to put `current`, and the count is what you compare the index with.
#
# </details>


# %% answer="resolve-device"
def resolve_device(spec: str | torch.device | None, counts: Mapping[str, int], current: int = 0) -> torch.device:
    """The concrete device that is meant by spec, on a machine with that many devices of each kind."""
    ### BEGIN SOLUTION
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is no device") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"{spec} does not exist here, there are only {dict(counts)}")
    return torch.device(device.type, index)
    ### END SOLUTION


# %% check="resolve-device" points=2
"""A concrete device: the right kind, the current index, no tensor made to find out."""
with check("resolve-device") as test:
    known = (
        mistake(
            "You returned a device without an index. It works for allocation, but it never equals `tensor.device` "
            "(such as cuda:0): put the current index in.",
            when=lambda seen: seen.value.type in ("cuda", "xpu", "mps") and seen.value.index is None,
        ),
        mistake(
            "A torch.device is asked for, not its name.",
            when=lambda seen: isinstance(seen.value, str),
        ),
        mistake(
            "Nothing may be allocated to find out whether a device exists: `counts` says what there is.",
            raises="not compiled with|not linked with|NVIDIA driver|CUDA driver|invalid device ordinal",
        ),
        mistake(
            "The CPU and meta have no index here: `tensor.device` says `cpu`, or `meta`.",
            when=lambda seen: seen.value.type in ("cpu", "meta") and seen.value.index is not None,
        ),
        mistake(
            "`counts` lists only the kinds that the machine has: a kind that is missing has no device.",
            raises="^KeyError",
        ),
    )
    cpu = torch.device("cpu")

    def judge(seen, device, *mistakes):
        """Judge the device, and that no tensor was made on the way."""
        seen.expecting(*mistakes, *known).returns(torch.device(device), because="That is another device: {detail}.")
        made = ", ".join(dict.fromkeys(seen.op_names(level="aten")))
        seen.that(not made, f"Nothing may be allocated to find out; these operations ran: {made}.", stage="rule")
        seen.leaves_arguments_alone(because="The counts belong to the caller: they must stay as they are.")

    test("spec None: cuda if there is one, else the CPU")
    here_not_there = mistake(
        "The CPU came back although there are CUDA devices: `counts` says what there is, not the machine on which this "
        "runs.",
        gives=cpu,
    )
    judge(observe(resolve_device, None, {"cuda": 2}), "cuda:0", here_not_there)
    judge(observe(resolve_device, None, {}), "cpu")

    test("'cuda' is the current device, 'cuda:1' the second one")
    not_zero = mistake(
        "You used index 0; a spec without an index means the *current* device, which the caller passes as `current`.",
        gives=torch.device("cuda:0"),
    )
    judge(observe(resolve_device, "cuda", {"cuda": 2}, current=1), "cuda:1", not_zero, here_not_there)
    keeps_index = mistake(
        "The spec names an index: `current` is only for a spec without one.",
        when=lambda seen: seen.value.index != torch.device(seen.args[0]).index,
    )
    judge(observe(resolve_device, "cuda:1", {"cuda": 2}), "cuda:1", keeps_index)

    test("'cpu' and 'meta' need no count")
    no_count = mistake(
        "The CPU and meta exist on every machine; `counts` does not list them.",
        when=lambda seen: bool(seen.error_text) or seen.value.index is None,
    )
    judge(observe(resolve_device, "cpu", {"cuda": 2}, current=1), "cpu", no_count)
    judge(observe(resolve_device, "meta", {}), "meta", no_count)

    ### BEGIN HIDDEN TESTS
    test.hidden("spec None with current=1")
    judge(observe(resolve_device, None, {"cuda": 2}, current=1), "cuda:1", not_zero)

    test.hidden("machines with mps or xpu")
    others = mistake(
        "You considered cuda and cpu only; this machine has another accelerator (mps or xpu).",
        stage=("raised", "value"),
        when=lambda seen: bool(seen.error_text) or seen.value.type in ("cpu", "cuda"),
    )
    judge(observe(resolve_device, None, {"mps": 1}), "mps:0", others)
    judge(observe(resolve_device, None, {"xpu": 3}, current=2), "xpu:2", others)
    judge(observe(resolve_device, "mps", {"mps": 1}), "mps:0", others)
    judge(observe(resolve_device, "xpu", {"xpu": 3, "cuda": 1}, current=2), "xpu:2", others)
    judge(observe(resolve_device, "xpu:1", {"xpu": 2}), "xpu:1", others)

    test.hidden("the order of preference: cuda, xpu, mps, of which there is at least one")
    order = mistake(
        "The order is cuda, xpu, mps, whatever the order in `counts`; a kind with a count of 0 is not there.",
        stage=("raised", "value"),
    )
    judge(observe(resolve_device, None, {"mps": 1, "xpu": 1, "cuda": 1}), "cuda:0", order)
    judge(observe(resolve_device, None, {"mps": 1, "xpu": 2}, current=1), "xpu:1", order)
    judge(observe(resolve_device, None, {"cuda": 0, "mps": 1}), "mps:0", order)
    judge(observe(resolve_device, None, {"cuda": 0, "xpu": 0}), "cpu", order)

    test.hidden("an index of its own wins over `current`")
    judge(observe(resolve_device, "cuda:0", {"cuda": 2}, current=1), "cuda:0", keeps_index)

    test.hidden("torch.device objects")
    objects = mistake("torch.device objects are valid specs too.", stage="raised")
    judge(observe(resolve_device, torch.device("cuda"), {"cuda": 2}, current=1), "cuda:1", objects)
    judge(observe(resolve_device, torch.device("cuda", 1), {"cuda": 2}), "cuda:1", objects)
    judge(observe(resolve_device, torch.device("cpu"), {}), "cpu", objects)
    judge(observe(resolve_device, torch.device("meta"), {"cuda": 1}), "meta", objects)

    test.hidden("cpu:0 is the CPU")
    one_cpu = mistake(
        "`cpu:0` and `cpu` are the same place, and `tensor.device` says `cpu`: return torch.device('cpu').",
        gives=torch.device("cpu:0"),
    )
    for cpu_spec in ("cpu:0", torch.device("cpu", 0)):
        judge(observe(resolve_device, cpu_spec, {}), "cpu", one_cpu)
        judge(observe(resolve_device, cpu_spec, {"cuda": 2}, current=1), "cpu", one_cpu)

    test.hidden("the result agrees with tensor.device on this machine")
    for here_spec in ("cpu", "meta", "cpu:0"):
        judge(observe(resolve_device, here_spec, {}), torch.empty(0, device=here_spec).device)
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and accelerator.type in ("cuda", "xpu", "mps"):
        here = {accelerator.type: torch.accelerator.device_count()}
        now = torch.accelerator.current_device_index()
        judge(
            observe(resolve_device, None, here, current=now), torch.empty(0, device=accelerator.type).device, not_zero
        )

    def side_effects(resolve_device):
        """Which questions are asked of torch.cuda and torch.accelerator, and the default device before and after."""
        places = [torch.cuda, torch.accelerator]
        questions = ["is_available", "device_count", "current_device", "current_device_index", "current_accelerator"]
        questions += ["get_device_name", "init", "set_device", "set_device_index", "synchronize"]
        asked = []

        def listening(name, function):
            """The function, which notes that it was called."""

            def call(*args, **kwargs):
                asked.append(name)
                return function(*args, **kwargs)

            return call

        kept = [(place, name, vars(place)[name]) for place in places for name in questions if name in vars(place)]
        before = str(torch.get_default_device())
        try:
            for place, name, function in kept:
                setattr(place, name, listening(f"{place.__name__}.{name}", function))
            for spec, counts in (("cuda", {"cuda": 1}), (None, {"cuda": 2}), (None, {}), ("meta", {})):
                resolve_device(spec, counts)
            for spec, counts in (("cuda", {}), ("cuda:7", {"cuda": 2}), ("gpu", {"cuda": 2})):
                try:
                    resolve_device(spec, counts)
                except Exception:
                    asked.append("")  # how it refuses is another test
        finally:
            for place, name, function in kept:
                setattr(place, name, function)
        return {"asked": sorted(set(asked) - {""}), "default device": [before, str(torch.get_default_device())]}

    test.hidden("the default device stays, and torch.cuda and torch.accelerator are not asked")
    seen = observe_scenario(side_effects, resolve_device)
    before, after = seen["default device"]
    seen.that(before == after, "The default device was changed. Only the result of the function may be new.")
    seen.that(
        not seen["asked"],
        "torch.cuda or torch.accelerator was asked, but `counts` and `current` say all that is needed.",
        stage="rule",
    )
    ### END HIDDEN TESTS

# %% check="resolve-device" points=1
"""What cannot work raises ValueError and names the spec."""
with check("resolve-device") as test:

    def judge(spec, counts, because, *mistakes):
        """Judge that this wish is refused."""
        seen = observe(resolve_device, spec, counts)
        fell_back = mistake(
            "The caller asked for a device that does not exist here and got the CPU. A wish that cannot be met must "
            "raise; falling back is only right for spec=None.",
            gives=torch.device("cpu"),
        )
        seen.raises(ValueError, mistakes=[fell_back, *mistakes], because=because)

    test("'cuda' on a machine without one")
    missing = "There is no CUDA device here: this must raise ValueError."
    judge("cuda", {}, missing)
    judge("cuda", {"xpu": 1}, missing)

    ### BEGIN HIDDEN TESTS
    unchecked = (
        "torch.device('cuda:7') is only a label: nobody checked that device 7 exists. Compare the index with the count."
    )
    test.hidden("'cuda:7' of two")
    judge("cuda:7", {"cuda": 2}, unchecked)
    judge(torch.device("cuda:7"), {"cuda": 1}, unchecked)

    test.hidden("'cuda:2' of two, 'mps:1' of one")
    from_zero = "Devices are numbered from 0: with two of them there is no number 2. This must raise ValueError."
    judge("cuda:2", {"cuda": 2}, from_zero)
    judge(torch.device("cuda:1"), {"cuda": 1}, from_zero)
    judge("mps:1", {"mps": 1}, from_zero)

    test.hidden("a kind of which there is none")
    none_here = "A kind with no device here must raise ValueError."
    judge("xpu", {"cuda": 2}, none_here)
    judge("mps", {"mps": 0}, none_here)
    judge("cuda", {"cuda": 0}, none_here)
    judge("cuda:0", {}, none_here)
    judge(torch.device("xpu"), {}, none_here)

    test.hidden("names that are no device")
    not_torchs = mistake(
        "An unknown name must end as ValueError naming the spec; you let torch's RuntimeError through.",
        raises="^(RuntimeError|AcceleratorError|DeferredCudaCallError)",
    )
    for unknown in ("gpu", "gpu:0", "", "cuda:x"):
        judge(unknown, {"cuda": 2}, "An unknown name must raise ValueError.", not_torchs)

    def refused(resolve_device, spec, counts):
        """The message with which a spec is refused."""
        try:
            resolve_device(spec, counts)
        except ValueError as error:
            return str(error)

    test.hidden("the message names the spec")
    for spec, counts in (("gpu", {"cuda": 2}), ("xpu", {"cuda": 2}), ("cuda:7", {"cuda": 2}), ("mps:1", {"mps": 1})):
        seen = observe_scenario(refused, resolve_device, spec, counts)
        seen.that(spec in str(seen.value), "The message must name the spec that the caller asked for.", stage="rule")
    ### END HIDDEN TESTS

# %% [markdown]
# ## 1.3 Tensors return, modules change
#
# **Predict.** After these two lines, where are `x` and `model.weight`?

# %% facts=["01-tensor-to-returns-new", "01-module-to-is-inplace"]
x = torch.ones(2)
model = nn.Linear(2, 2)

x.to("meta")
result = model.to("meta")

print("x:", x.device, "  model.weight:", model.weight.device, "  the same module:", result is model)
print('x.to("cpu") is x:', x.to("cpu") is x)

# %% [markdown]
# `Tensor.to` returns a tensor and leaves `x` where it is; here the result was dropped. If there is nothing to do, it
# returns `x` itself. `Module.to` changes the module: its parameters and buffers are moved, and the module is returned.
# So `x = x.to(device)` needs its assignment, for each batch and its labels too; `model.to(device)` does not.
#
# **Predict.** `torch.randn(3, 1).to(device)`, or `torch.randn(3, 1, device=device)`: is there a difference? The next
# cell lists the operations that run.


# %% facts=["01-randn-to-device-creates-there"]
class OperationLog(TorchDispatchMode):
    """Note the name of each operation that PyTorch runs."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


with OperationLog() as log:
    torch.randn(3, 1).to("meta")
print("made, then moved:", log.names)

with OperationLog() as log:
    torch.randn(3, 1, device="meta")
print("made there:      ", log.names)

# %% [markdown]
# The first makes the tensor on the CPU and copies it. With a large tensor in a training loop you pay for that in each
# step. Inside `forward`, make new tensors where they are needed: `torch.zeros(…, device=x.device, dtype=x.dtype)`,
# `torch.zeros_like(x)` or `x.new_zeros(…)`.
#
# **Predict.** This model has three tensors of two numbers. Which of them move with `.to("meta")`?


# %% facts=["01-all-operands-same-device", "01-module-to-is-inplace"]
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.ones(2))
        self.factor = torch.ones(2)

    def forward(self, x):
        return self.factor * (self.weight * x + self.shift)


model = Scale().to("meta")
for name in ("weight", "shift", "factor"):
    print(f"{name:7} is on {getattr(model, name).device}")

error_of(lambda: model(torch.ones(2, device="meta")))

# %% [markdown]
# A module knows its parameters and its buffers. A tensor in a plain attribute it does not know, and it stays behind.
# Everything that meets in one operation must be in one place: inputs, labels, an initial state, a mask. So the forward
# pass is refused; nothing follows the model by itself.
#
# Two notes. A single number, a tensor without dimensions on the CPU, may meet tensors of any device. And do not lean on
# the error while you practise with `meta`: in torch 2.13 a bare `torch.mm` of a CPU matrix and a meta matrix is not
# refused, and returns numbers that mean nothing. Look at `.device`.

# %% [markdown]
# ### Exercise 1.3 · Move a whole batch
#
# implement · solid · 12 min · 3 points
#
# A data loader hands out dicts, tuples, and dicts in tuples; every training loop needs one function that moves such a
# batch, whatever its form.
#
# **Contract**
#
# - Returns the same structure with every tensor on `device`. Structures are dict (and OrderedDict), list, tuple and
#   namedtuple, nested to any depth; their types, keys and order are kept.
# - Everything else (numbers, strings, None, objects, also such that have a `.to` of their own) is passed through: the
#   same object, unchanged.
# - The batch that was passed in is not modified. A tensor that is already there comes back as the same object. Dtype,
#   shape and requires_grad stay; a moved tensor still belongs to the autograd graph.
#
# The check moves batches to the data-less device `meta`, and to an accelerator where there is one.
#
# <details><summary>Hint 1</summary>
#
# What does `t.to(device)` do to t itself, and what happens to its return value in your code?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# One function that calls itself: tensor → `.to`; dict → same type with moved values; a tuple with `_fields` must be
# rebuilt with unpacked arguments, other tuples and lists with one iterable. A string is iterable but must not be
# walked into.
#
# </details>


# %% answer="move-batch"
def move(batch: Any, device: torch.device | str) -> Any:
    """The same structure of dicts, lists and tuples with all its tensors on device."""
    ### BEGIN SOLUTION
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
    ### END SOLUTION


# %% check="move-batch" points=2
"""Every tensor is moved, every container keeps its type, everything else is passed through."""
with check("move-batch") as test:

    def batches():
        """Batches by name."""
        Pair = namedtuple("Pair", ["x", "y"])  # a class of its own, as a dataset would define it
        x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([2, 0])
        return {
            "one tensor": x,
            "labels": y,
            "a dict of two": {"x": x, "y": y},
            "nested": [({"x": x, "length": 3}, None, "id-7"), ({"x": y, "mask": [x > 2, [y]]}, 2.5, "")],
            "a namedtuple": Pair(x, y),
            "a namedtuple in a dict": {"pair": Pair(x, {"y": y, "z": None}), "name": "p"},
            "namedtuples in a tuple": (Pair(1, x), Pair("ab", (y,))),
            "an OrderedDict": OrderedDict([("z", x), ("a", y), ("m", 1)]),
            "an OrderedDict in a list": [OrderedDict(x=x, more=OrderedDict(y=y))],
            "empty containers": [{}, [], (), OrderedDict(), ""],
            "deep": [[[[[[{"k": ((x,), {"v": [y]})}]]]]]],
            "keys that are no strings": {0: x, (1, "b"): y, None: [x]},
            "a tuple of one": (x,),
            "a string alone": "a batch of nothing",
            "no tensor": {"n": 3, "flag": True, "name": "abc", "none": None, "rate": 0.5},
        }

    def described(value, path="batch", noted=None):
        """Types, keys, plain values, devices, dtypes and shapes of all that is in a structure, by path."""
        noted = noted or {"types": {}, "keys": {}, "plain values": {}, "devices": {}, "dtypes": {}, "shapes": {}}
        is_tensor = isinstance(value, Tensor)
        noted["types"][path] = "tensor" if is_tensor else type(value).__name__
        if is_tensor:
            noted["devices"][path] = value.device.type
            noted["dtypes"][path] = str(value.dtype)
            noted["shapes"][path] = str(tuple(value.shape))
        elif isinstance(value, dict):
            noted["keys"][path] = [repr(key) for key in value]
            for key, item in value.items():
                described(item, f"{path}[{key!r}]", noted)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                described(item, f"{path}[{i}]", noted)
        elif type(value) in (int, float, bool, str, type(None)):
            noted["plain values"][path] = repr(value)
        return noted

    def journey(move, name, device):
        """Move one of the batches and describe the result; was the batch itself changed?"""
        batch = batches()[name]
        before = described(batch)
        result = described(move(batch, device))
        return result | {"batch changed": described(batch) != before}

    into_string = "A string is iterable, but it is a leaf here: pass it through as it is."
    as_fields = (
        "A namedtuple must come back as the same namedtuple (batch.x must still work): it takes its fields as separate "
        "arguments."
    )

    def mistakes_about(wanted):
        """The known mistakes; `wanted` is the description of what should come back."""

        def differ(seen, fact, *types):
            """The paths at which a fact of the result is another one, for things of these types only."""
            kinds, came = wanted["types"], seen[fact]
            places = [p for p in wanted[fact] if p in came and (not types or kinds[p] in types)]
            return [p for p in places if came[p] != wanted[fact][p]]

        return (
            mistake(
                "Nothing came back: the function must return the moved batch.",
                when=lambda seen: "batch" in differ(seen, "types") and seen["types"]["batch"] == "NoneType",
            ),
            mistake(as_fields, raises="argument", when=lambda seen: "Pair" in wanted["types"].values()),
            mistake(as_fields, when=lambda seen: differ(seen, "types", "Pair")),
            mistake(into_string, raises="RecursionError"),
            mistake(into_string, when=lambda seen: differ(seen, "types", "str") or differ(seen, "plain values", "str")),
            mistake(
                "Numbers, strings and None are passed through as they are: {detail}.",
                when=lambda seen: differ(seen, "types", "int", "float", "bool", "NoneType"),
            ),
            mistake(
                "The container type changed: {detail}.",
                when=lambda seen: differ(seen, "types", "list", "tuple", "dict", "OrderedDict"),
            ),
            mistake(
                "Numbers, strings and None are passed through as they are: {detail}.",
                when=lambda seen: differ(seen, "plain values"),
            ),
            mistake("The keys and their order must stay: {detail}.", when=lambda seen: differ(seen, "keys")),
            mistake(
                "The tensor did not move: Tensor.to returns a new tensor, and its result was not used.",
                when=lambda seen: differ(seen, "devices") == ["batch"],
            ),
            mistake(
                "An OrderedDict is a dict too, and a namedtuple is a tuple (isinstance says so): their tensors move.",
                when=lambda seen: differ(seen, "devices") and {"OrderedDict", "Pair"} & {*wanted["types"].values()},
            ),
            mistake(
                "A tensor deeper in the structure did not move: {detail}.", when=lambda seen: differ(seen, "devices")
            ),
            mistake(
                "Moving must not change the dtype (integer labels stay integers): {detail}.",
                when=lambda seen: differ(seen, "dtypes"),
            ),
            mistake("Not everything came back, or too much: {detail}.", stage="shape"),
        )

    def judge(name, device="meta", *mistakes):
        """Judge the journey of one of the batches."""
        wanted = described(batches()[name])
        wanted["devices"] = dict.fromkeys(wanted["devices"], "meta")
        seen = observe_scenario(journey, move, name, device).expecting(*mistakes, *mistakes_about(wanted))
        overwritten = "You wrote the moved tensors into the caller's own structure. Build a new one."
        seen.that(not seen["batch changed"], overwritten, mistake(overwritten, stage="arguments"), stage="arguments")
        seen.returns(wanted | {"batch changed": False})

    test("one tensor")
    judge("one tensor")
    only_floats = "A float tensor moved, this one of whole numbers did not: labels must move as well."
    judge("labels", "meta", mistake(only_floats, when=lambda seen: seen["devices"]["batch"] == "cpu"))

    test("a dict of two tensors")
    judge("a dict of two")

    test("a list of tuples of dicts, with numbers, None and strings in between")
    judge("nested")

    ### BEGIN HIDDEN TESTS
    for hidden_name in (
        "a namedtuple",
        "a namedtuple in a dict",
        "namedtuples in a tuple",
        "an OrderedDict",
        "an OrderedDict in a list",
        "empty containers",
        "deep",
        "keys that are no strings",
        "a tuple of one",
        "a string alone",
        "no tensor",
    ):
        test.hidden(hidden_name)
        judge(hidden_name)

    test.hidden("the device as a torch.device")
    judge("nested", torch.device("meta"), mistake("The device may also be a torch.device.", stage="raised"))
    ### END HIDDEN TESTS

# %% check="move-batch" points=1
"""What is there already stays the same object; moved tensors keep dtype, shape and graph."""
with check("move-batch") as test:

    def leaves(value):
        """All that is in a structure, in order."""
        if isinstance(value, dict):
            value = list(value.values())
        return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (list, tuple)) else [value]

    def in_place(move, device):
        """Move tensors that are on the device already: what comes back as another object, what on another device?"""
        x, y = torch.ones(2, 3, device=device), torch.zeros(2, dtype=torch.int64, device=device)
        batch = {"x": x, "y": [y, (x.t(), y[:1])], "long text": "a text of some length"}
        old, new = leaves(batch), leaves(move(batch, device))
        others = [b for a, b in zip(old, new, strict=False) if a is not b]
        return {
            "leaves": len(new),
            "elsewhere": sum(isinstance(b, Tensor) and b.device.type != device for b in new),
            "new objects": [type(b).__name__ for b in others],
        }

    def judge_in_place(device):
        """Judge that nothing is copied that is on the device already."""
        observe_scenario(in_place, move, device).returns(
            {"leaves": 5, "elsewhere": 0, "new objects": []},
            mistake(
                "These tensors came back on another device than the one that was asked for.",
                when=lambda seen: seen["elsewhere"],
            ),
            mistake(
                "The tensor was on that device already, yet you made a copy; `.to` alone returns the same object then.",
                when=lambda seen: seen["leaves"] == 5 and {*seen["new objects"]} <= {"Tensor", "Parameter"},
            ),
            because="What came back is not the batch that went in: {detail}.",
        )

    test("tensors that are on the CPU already come back as the same objects")
    judge_in_place("cpu")

    ### BEGIN HIDDEN TESTS
    test.hidden("tensors that are on meta already come back as the same objects")
    judge_in_place("meta")

    def kinds_of_tensors(move):
        """Move tensors of many kinds; note what they are then."""
        made = {
            "float64": torch.ones(2, dtype=torch.float64),
            "float16": torch.ones(3, dtype=torch.float16),
            "int32": torch.ones(2, 2, dtype=torch.int32),
            "uint8": torch.ones(2, dtype=torch.uint8),
            "bool": torch.tensor([True, False]),
            "complex64": torch.ones(2, dtype=torch.complex64),
            "0-d": torch.tensor(3),
            "empty": torch.ones(0, 4),
            "4-d": torch.ones(2, 1, 3, 1),
        }
        return dict(zip(made, map(told, leaves(move(made, "meta"))), strict=False))

    def told(tensor):
        """Device, dtype and shape of a tensor, and whether it requires grad; of anything else its type."""
        if not isinstance(tensor, Tensor):
            return {"type": type(tensor).__name__}
        return {
            "device": tensor.device.type,
            "dtype": str(tensor.dtype),
            "shape": str(tuple(tensor.shape)),
            "requires_grad": tensor.requires_grad,
        }

    def on_meta(dtype, shape):
        """What is told of a tensor on meta that does not require grad."""
        return {"device": "meta", "dtype": str(dtype), "shape": str(shape), "requires_grad": False}

    test.hidden("dtype and shape of the tensors stay")
    observe_scenario(kinds_of_tensors, move).returns(
        {
            "float64": on_meta(torch.float64, (2,)),
            "float16": on_meta(torch.float16, (3,)),
            "int32": on_meta(torch.int32, (2, 2)),
            "uint8": on_meta(torch.uint8, (2,)),
            "bool": on_meta(torch.bool, (2,)),
            "complex64": on_meta(torch.complex64, (2,)),
            "0-d": on_meta(torch.int64, ()),
            "empty": on_meta(torch.float32, (0, 4)),
            "4-d": on_meta(torch.float32, (2, 1, 3, 1)),
        },
        because="Every tensor moves, and its dtype, shape and requires_grad stay: {detail}.",
    )

    def comes_from(tensor, leaf):
        """Whether backward from a tensor would reach a leaf."""
        nodes = [getattr(tensor, "grad_fn", None)]
        for node in nodes:
            nodes += [following for following, _ in getattr(node, "next_functions", ())]
        return any(getattr(node, "variable", None) is leaf for node in nodes)

    def in_the_graph(move):
        """Move a leaf and a result computed from it: do they still belong to the graph?"""
        leaf = torch.ones(3, requires_grad=True)
        result = leaves(move([leaf, (leaf * 2,), torch.ones(3)], "meta"))
        return {
            "requires grad": [getattr(tensor, "requires_grad", None) for tensor in result],
            "reaches the leaf": [comes_from(tensor, leaf) for tensor in result],
            "leaf still requires grad": leaf.requires_grad,
        }

    test.hidden("a moved tensor still belongs to the graph")
    observe_scenario(in_the_graph, move).returns(
        {
            "requires grad": [True, True, False],
            "reaches the leaf": [True, True, False],
            "leaf still requires grad": True,
        },
        mistake(
            "A tensor of the caller was changed: it no longer requires grad.",
            when=lambda seen: not seen["leaf still requires grad"],
        ),
        mistake(
            "The moved tensor left the autograd graph: `.data`, `.detach()`, torch.tensor(...) or torch.no_grad() cuts "
            "it off.",
            when=lambda seen: len(seen["requires grad"]) == 3 and None not in seen["requires grad"],
        ),
        because="These are not the three tensors that went in: {detail}.",
    )

    def other_objects(move):
        """Move objects that are no tensors and no structures: which come back as other objects?"""

        class Movable:
            """An object with a `.to` of its own."""

            device = "cpu"

            def to(self, device):
                self.device = device
                return self

        named = {
            "a set": {1, 2},
            "a range": range(300, 305),
            "bytes": b"some bytes",
            "an object": object(),
            "a function": len,
            "a dtype": torch.float64,
            "a module": nn.Linear(2, 1),
            "an object with a `.to`": Movable(),
            "a generator": (i for i in range(3)),
            "a large number": 10**20,
        }
        others = [name for name, thing in named.items() if move(thing, "meta") is not thing]
        others += ["an item of a list"] * (leaves(move([[len]], "meta")) != [len])
        moved = [named["a module"].weight.device.type, named["an object with a `.to`"].device]
        return {"others": others, "moved": moved}

    test.hidden("other objects are passed through, also such that have a `.to`")
    seen = observe_scenario(other_objects, move)
    seen.that(not seen["others"], "Objects that are neither tensors nor structures must come back as they are.")
    seen.that(
        seen["moved"] == ["cpu", "cpu"],
        "Only tensors are moved: a module, or an object with a `.to` of its own, is passed through unchanged.",
        stage="arguments",
    )

    def by_field(move):
        """Move a namedtuple of a class with defaults: is it still that class, are the fields in place?"""
        Sample = namedtuple("Sample", ["image", "label", "weight"], defaults=[1.0])
        sample = Sample(torch.ones(2), 7)
        result = move(sample, "meta")
        same = type(result) is Sample
        return [same, *map(str, (result.image.device, result.label, result.weight))] if same else [same]

    test.hidden("the fields of a namedtuple can be read by name")
    observe_scenario(by_field, move).returns(
        [True, "meta", "7", "1.0"],
        because="A namedtuple must come back as the same namedtuple, with all its fields.",
    )

    def with_accelerator(move):
        """Move a batch to this machine's accelerator, if it has one: do the values arrive?"""
        if not torch.accelerator.is_available():
            return [True, True]
        device = torch.accelerator.current_accelerator()
        batch = {"x": torch.arange(6.0), "y": [torch.tensor([3, 1])]}
        pairs = zip(leaves(batch), leaves(move(batch, device)), strict=False)
        return [told(new).get("device") == device.type and torch.equal(new.cpu(), old) for old, new in pairs]

    test.hidden("the values arrive on the accelerator, where there is one")
    observe_scenario(with_accelerator, move).returns(
        [True, True], because="On the accelerator the values are not those of the batch."
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.4 · The model that only half moved
#
# fix · solid · 15 min · 3 points
#
# This tagger (a GRU cell, with a fixed sine offset for each time step) works on the laptop. After
# `model.to(device)`, or after `model.double()`, it fails or computes with the wrong tensors: part of it did not move
# along. Repair it.
#
# **Contract**
#
# - Wherever the module has been moved (`.to(device)`, `.double()`, `.to(device, dtype)`, again and again), forward
#   works and returns a tensor of the *parameters'* device and dtype; x is brought there first if it lives elsewhere,
#   and is not changed itself. The numbers on the CPU in float32 are those of the given code, and gradients reach x and
#   the weights.
# - No device is named in the class, and no global default (device, dtype) is changed.
# - Old checkpoints still load: the keys of `state_dict()` and the parameters stay those of the GRU cell.
# - T = 0 gives an empty (0, B, d_hid) tensor of that device and dtype.
#
# **Rule.** Every tensor that is produced inside forward is on the parameters' device (the check records operations).
#
# <details><summary>Hint 1</summary>
#
# Which three tensors take part in `self.cell(...)`, and which of them does `model.to(device)` know about?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Three places: the result of `x.to` is dropped; `zeros` is told neither device nor dtype; `offset` is a plain
# attribute. Either make it known to the module without putting it in the state_dict, or derive it from x's device and
# dtype where it is used.
#
# </details>


# %% answer="fix-hidden-cpu-tensors"
class Tagger(nn.Module):
    """A GRU-cell tagger with fixed sine offsets for the time steps: (T, B, d_in) -> (T, B, d_hid)."""

    ### BEGIN SOLUTION
    def __init__(self, d_in: int, d_hid: int, max_len: int = 64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)

    ### END SOLUTION
    ### BEGIN GIVEN
    # def __init__(self, d_in: int, d_hid: int, max_len: int = 64):
    #     raise NotImplementedError  # repair the code below, then delete this line
    #     super().__init__()
    #     self.cell = nn.GRUCell(d_in, d_hid)
    #     self.offset = torch.sin(torch.arange(max_len).float())
    #
    # def forward(self, x: Tensor) -> Tensor:
    #     x.to(self.cell.weight_ih.device)
    #     h = torch.zeros(x.shape[1], self.cell.hidden_size)
    #     outs = []
    #     for t in range(x.shape[0]):
    #         h = self.cell(x[t] + self.offset[t], h)
    #         outs.append(h)
    #     return torch.stack(outs)
    ### END GIVEN


# %% check="fix-hidden-cpu-tensors" points=2
"""All of the module moves: to another device and to another dtype."""
with check("fix-hidden-cpu-tensors") as test:

    def checkpoint():
        """Weights that were saved from the given code, with d_in = 5 and d_hid = 4."""
        generator = torch.Generator().manual_seed(5)
        sizes = {"weight_ih": (12, 5), "weight_hh": (12, 4), "bias_ih": (12,), "bias_hh": (12,)}
        return {f"cell.{name}": torch.randn(size, generator=generator) / 2 for name, size in sizes.items()}

    def loaded(Tagger, **settings):
        """A tagger with these weights."""
        module = Tagger(5, 4, **settings)
        if unknown := module.load_state_dict(checkpoint(), strict=False).unexpected_keys:
            raise KeyError(f"old checkpoints have {', '.join(unknown)}")
        return module

    other_keys = mistake(
        "Old checkpoints no longer load: the keys of `state_dict()` must stay those of the GRU cell.",
        raises="old checkpoints have",
    )
    generator = torch.Generator().manual_seed(6)
    some_x = torch.randn(2, 3, 5, generator=generator)  # T = 2, B = 3

    class Products(TorchDispatchMode):
        """Notes what is produced while it is on: [operation, device, shape] of every tensor."""

        def __init__(self):
            super().__init__()
            self.made = []

        @classmethod
        def _should_skip_dynamo(cls):
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.split("::")[-1]
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, Tensor) and name not in ("detach", "alias"):  # these are other names
                    self.made.append([name, tensor.device.type, list(tensor.shape)])
            return out

    def called(module, x):
        """Call a tagger, note what came and what was produced on the way."""
        products, out, error = Products(), None, ""
        with products:
            try:
                out = module(x)
            except Exception as caught:
                error = f"{type(caught).__name__}: {(str(caught).splitlines() or ['no message'])[0]}"
        came = out if isinstance(out, Tensor) else x.new_empty(0)
        return {
            "returned": "error" if error else type(out).__name__,
            "error": error,
            "device": came.device.type,
            "dtype": str(came.dtype),
            "shape": list(came.shape),
            "out": came,
            "products": products.made,
        }

    def plain_tensors(module, device):
        """Names of tensors that are attributes but no parameters or buffers, and are on another device."""
        named = [pair for part in module.modules() for pair in vars(part).items()]
        return [name for name, value in named if isinstance(value, Tensor) and value.device.type != device]

    def moved(Tagger, x, *how):
        """Move a tagger to meta; call it with x there, and with x on the CPU."""
        module = loaded(Tagger)
        module.to("meta", *how)
        there, here = called(module, x.to("meta", *how)), called(module, x)
        plain = plain_tensors(module, "meta")
        return {"there": there, "here": here, "plain": plain, "weights": next(module.parameters()).device.type}

    def stayed(seen):
        """What stayed on the CPU, in words."""
        there, here = ([p for p in seen[key]["products"] if p[1] != "meta"] for key in ("there", "here"))
        factories = ("zeros", "empty", "full", "ones", "zeros_like", "new_zeros", "scalar_tensor")
        met = seen["there"]["error"] or any(op not in factories for op, _, _ in there)
        names = [f"`self.{name}`" for name in seen["plain"]] if met else []
        if any(op in factories and shape == [3, 4] for op, _, shape in there):
            names.append("the initial hidden state")
        if any(shape[-1:] == [5] for _, _, shape in here):
            names.append("x")
        return names

    def state_from_x(seen):
        """Whether the initial hidden state was made on the device of x, before x was moved."""
        return any(shape == [3, 4] and device == "cpu" for _, device, shape in seen["here"]["products"])

    def fixed_choice(seen):
        """Whether a tensor was brought to a device that is not the parameters'."""
        copies = [p for p in seen["there"]["products"] + seen["here"]["products"] if p[:2] == ["_to_copy", "cpu"]]
        return bool(copies) or any("Cannot copy out of meta" in seen[key]["error"] for key in ("there", "here"))

    def all_on_meta(seen):
        """Whether all that was produced is on meta, and what came has the right shape."""
        runs = [seen["there"], seen["here"]]
        right = [(r["returned"], r["device"], r["shape"]) == ("Tensor", "meta", [2, 3, 4]) for r in runs]
        return all(right) and all(p[1] == "meta" for r in runs for p in r["products"])

    def in_words(run):
        """What a call gave."""
        if run["returned"] != "Tensor":
            return run["error"] or f"forward returned {run['returned']}"
        elsewhere = ", ".join(dict.fromkeys(f"{p[0]} on {p[1]}" for p in run["products"] if p[1] != "meta"))
        return f"the result is on {run['device']}, of shape {run['shape']}" + f"; {elsewhere}" * bool(elsewhere)

    def judge_moved(seen):
        """Judge a tagger that was moved to meta."""
        seen.expecting(other_keys)
        right = "the result is on meta, of shape [2, 3, 4]"
        wrong, x_is = ("there", "there too") if in_words(seen["there"]) != right else ("here", "on the CPU")
        names = stayed(seen)
        seen.that(
            all_on_meta(seen),
            f"With the module on meta and x {x_is}: {in_words(seen[wrong])}. Asked for is a result on meta, of shape "
            "[2, 3, 4].",
            mistake(
                "Calling forward moved the module itself: x is brought to the parameters, not the other way round.",
                when=lambda seen: seen["weights"] != "meta",
            ),
            mistake(
                "The result follows the device of x: it belongs on the parameters' device.",
                when=lambda seen: wrong == "here" and "Cannot copy out of meta" in seen["here"]["error"],
            ),
            mistake(
                "The device must follow the module's parameters; a fixed 'cuda'/'cpu' choice is right on one machine "
                "only.",
                when=fixed_choice,
            ),
            mistake(
                f"Tensors stayed on the CPU while the module moved: {', '.join(names)}.",
                when=lambda seen: len(names) > 1,
            ),
            mistake(
                "The initial hidden state was created without device=: it lands on the default device, wherever the "
                "module is.",
                when=lambda seen: names == ["the initial hidden state"],
            ),
            mistake(
                f"{', '.join(names)} is a plain attribute: Module.to moves parameters and buffers only.",
                when=lambda seen: names and names != ["x"],
            ),
            mistake(
                "`x.to(...)` returns a new tensor; its result is not used, so x stays where it was.",
                when=lambda seen: names and ["_to_copy", "meta", [2, 3, 5]] in seen["here"]["products"],
            ),
            mistake("x stays where it was: bring it to the parameters' device first.", when=lambda seen: names),
            mistake(
                "The initial hidden state was made on the device of x before x was moved.",
                when=lambda seen: wrong == "here" and state_from_x(seen),
            ),
            stage="device",
        )

    test("moved to meta, with x there and with x on the CPU")
    judge_moved(observe_scenario(moved, Tagger, some_x))

    def original(weights, x):
        """What the given code computes, in the dtype of x."""
        weights = [weights[f"cell.{name}"].to(x.dtype) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        h, outs = torch.zeros(x.shape[1], 4, dtype=x.dtype), []
        for t, row in enumerate(x):
            h = torch.gru_cell(row + math.sin(t), h, *weights)
            outs.append(h)
        return torch.stack(outs) if outs else torch.zeros(0, x.shape[1], 4, dtype=x.dtype)

    def doubled(Tagger, x):
        """Call a tagger in float64 with x in float64 and in float32."""
        module = loaded(Tagger).double()
        return {"x in float64": called(module, x.double()), "x in float32": called(module, x)}

    def judge_values(run, x, about):
        """Judge what a call on the CPU gave, for this x in the dtype that is expected."""
        dtype = str(x.dtype)
        right = run["returned"] == "Tensor" and run["dtype"] == dtype
        detail = f"the result is {run['dtype']}" if run["returned"] == "Tensor" else in_words(run)
        forgotten = f"The module is {dtype.removeprefix('torch.')} now, but forward still makes tensors of another "
        forgotten += "dtype (or keeps an x of another one): take device *and* dtype from the parameters. "
        forgotten += f"With {about}: {detail}."
        seen.that(right, forgotten, stage="dtype")
        expected = original(checkpoint(), x)
        same = run["out"].shape == expected.shape and torch.allclose(run["out"], expected, rtol=1e-5, atol=1e-6)
        seen.that(same, f"The numbers are not those of the given code ({about}).")

    test("after .double(), with x in float64 and in float32")
    seen = observe_scenario(doubled, Tagger, some_x).expecting(other_keys)
    for about, run in seen.value.items():
        judge_values(run, some_x.double(), about)

    ### BEGIN HIDDEN TESTS
    test.hidden("moved to meta in bfloat16")
    seen = observe_scenario(moved, Tagger, some_x, torch.bfloat16)
    judge_moved(seen)
    seen.that(
        seen["there"]["dtype"] == seen["here"]["dtype"] == "torch.bfloat16",
        "Take device *and* dtype from the parameters: after .to(device, dtype) the result has another dtype.",
        stage="dtype",
    )

    def back_and_forth(Tagger, x):
        """Call a tagger after each of several moves."""
        module = loaded(Tagger)
        first = called(module, x)
        second = called(module.double(), x)
        third = called(module.float(), x.double())
        module.to("meta")
        return {"at first": first, "double": second, "float again": third, "there": called(module, x)}

    test.hidden("moved again and again, and called in between")
    seen = observe_scenario(back_and_forth, Tagger, some_x).expecting(other_keys)
    judge_values(seen["at first"], some_x, "the module as it was made")
    judge_values(seen["double"], some_x.double(), "the module after .double()")
    judge_values(seen["float again"], some_x, "the module after .float()")
    seen.that(
        all(p[1] == "meta" for p in seen["there"]["products"]) and seen["there"]["device"] == "meta",
        "What was made at the first call stayed behind when the module moved again.",
        stage="device",
    )

    def no_steps(Tagger, x):
        """A tagger in float64, then on meta, on no time step at all: what comes for x in float32, on the CPU."""
        module = loaded(Tagger)
        outs = [module.double()(x), module.to("meta")(x)]
        return [[list(out.shape), str(out.dtype), out.device.type] for out in outs]

    test.hidden("T = 0 after a move")
    observe_scenario(no_steps, Tagger, torch.ones(0, 2, 5)).returns(
        [[[0, 2, 4], "torch.float64", "cpu"], [[0, 2, 4], "torch.float64", "meta"]],
        mistake(
            "With T = 0 there is nothing to stack: return an empty (0, B, d_hid) tensor of the parameters' device and "
            "dtype.",
            stage=("raised", "value", "type", "shape"),
        ),
    )

    def reached(Tagger, x):
        """Whether a gradient reaches an x that is float32, by a module in float32 and by one in float64."""
        noted = []
        for move in ("float", "double"):
            mine = x.clone().requires_grad_()
            out = getattr(loaded(Tagger), move)()(mine)
            if out.requires_grad:
                out.sum().backward()
            noted.append(mine.grad is not None)
        return noted

    test.hidden("a gradient reaches x through the move")
    by_float, by_double = observe_scenario(reached, Tagger, some_x).value
    seen.that(by_double or not by_float, "Where x is converted it leaves the autograd graph: no gradient reaches it.")
    ### END HIDDEN TESTS

# %% check="fix-hidden-cpu-tensors" points=1
"""The numbers, gradients, checkpoints and global defaults stay; no time step at all works too."""
with check("fix-hidden-cpu-tensors") as test:

    def checkpoint():
        """Weights that were saved from the given code, with d_in = 5 and d_hid = 4."""
        generator = torch.Generator().manual_seed(5)
        sizes = {"weight_ih": (12, 5), "weight_hh": (12, 4), "bias_ih": (12,), "bias_hh": (12,)}
        return {f"cell.{name}": torch.randn(size, generator=generator) / 2 for name, size in sizes.items()}

    def loaded(Tagger, **settings):
        """A tagger with these weights."""
        module = Tagger(5, 4, **settings)
        if unknown := module.load_state_dict(checkpoint(), strict=False).unexpected_keys:
            raise KeyError(f"old checkpoints have {', '.join(unknown)}")
        return module

    other_keys = mistake(
        "Old checkpoints no longer load: the keys of `state_dict()` must stay those of the GRU cell.",
        raises="old checkpoints have",
    )
    generator = torch.Generator().manual_seed(6)
    some_x = torch.randn(2, 3, 5, generator=generator)  # T = 2, B = 3

    def original(weights, x):
        """What the given code computes, in the dtype of x."""
        weights = [weights[f"cell.{name}"].to(x.dtype) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        h, outs = torch.zeros(x.shape[1], 4, dtype=x.dtype), []
        for t, row in enumerate(x):
            h = torch.gru_cell(row + math.sin(t), h, *weights)
            outs.append(h)
        return torch.stack(outs) if outs else torch.zeros(0, x.shape[1], 4, dtype=x.dtype)

    def on_the_cpu(Tagger, x, settings):
        """What a tagger returns in float32, and x afterwards."""
        module, mine = loaded(Tagger, **settings), x.clone()
        return {"out": module(mine), "x": mine}

    def judge_numbers(x, settings):
        """Judge a tagger on the CPU."""
        seen = observe_scenario(on_the_cpu, Tagger, x, settings).expecting(other_keys)
        seen.returns(
            {"out": original(checkpoint(), x), "x": x},
            mistake("x itself was changed.", when=lambda seen: not torch.equal(seen["x"], x)),
            because="On the CPU in float32 the result must be that of the given code: {detail}.",
        )

    test("on the CPU in float32 the numbers are those of the given code")
    judge_numbers(some_x, {})

    ### BEGIN HIDDEN TESTS
    def keys_and_parameters(Tagger, x):
        """The state_dict's keys and the parameters before and after a call, and how an old checkpoint loads."""
        module = Tagger(5, 4)
        try:
            module.load_state_dict(checkpoint())
            refused = ""
        except RuntimeError as error:
            refused = str(error)
        module(x)
        tracked = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        names = [name for name, _ in module.named_parameters()]
        return {"keys": sorted(module.state_dict()), "names": names, "tracked": tracked, "refused": refused}

    test.hidden("old checkpoints load: the keys of state_dict() and the parameters are those of the GRU cell")
    seen = observe_scenario(keys_and_parameters, Tagger, some_x)
    extra = [name for name in seen["names"] if name not in checkpoint()]
    seen.that(
        not extra,
        "There are other parameters than those of the GRU cell: old checkpoints no longer match.",
        mistake(
            "The offsets became a parameter: they would be trained, and checkpoints no longer match.",
            when=lambda seen: len(extra) == 1,
        ),
    )
    seen.that(
        seen["keys"] == sorted(checkpoint()) and not seen["refused"],
        "The state_dict changed: old checkpoints no longer load. A non-persistent buffer, or a tensor made in forward, "
        "leaves the keys alone.",
    )
    seen.that(sorted(seen["tracked"]) == sorted(checkpoint()), "All parameters of the GRU cell must still be trained.")

    def defaults(Tagger, x):
        """The default dtype and device, before and after a tagger was built, moved and called."""
        noted = []

        def note():
            noted.append([str(torch.get_default_dtype()), str(torch.get_default_device())])

        note()
        module = loaded(Tagger)
        for move in (module.float, module.double, lambda: module.to("meta")):
            move()
            try:
                module(x)
            except Exception:
                noted.append(noted[0])  # whether it works after a move is another test
            note()
        return noted

    test.hidden("the default dtype and device stay")
    seen = observe_scenario(defaults, Tagger, some_x)
    seen.that(
        all(noted == seen.value[0] for noted in seen.value),
        "A global default was changed to make it fit; every other module in the program now sees it.",
    )

    test.hidden("another max_len, long sequences, one sequence")
    judge_numbers(torch.randn(70, 1, 5, generator=generator), {"max_len": 100})
    judge_numbers(torch.randn(2, 3, 5, generator=generator), {"max_len": 2})
    judge_numbers(torch.randn(64, 1, 5, generator=generator), {})

    def no_steps(Tagger, x):
        """What a tagger returns for no time step at all."""
        out = loaded(Tagger)(x)
        return [list(out.shape), str(out.dtype), out.device.type]

    test.hidden("T = 0, and B = 0")
    observe_scenario(no_steps, Tagger, torch.ones(0, 2, 5)).returns(
        [[0, 2, 4], "torch.float32", "cpu"],
        mistake(
            "With T = 0 there is nothing to stack: return an empty (0, B, d_hid) tensor of the right device and dtype.",
            stage=("raised", "value", "type", "shape"),
        ),
    )
    judge_numbers(torch.ones(3, 0, 5), {})

    def gradients(Tagger, x):
        """The gradients of x and of the weights for the sum of squares of the result."""
        module, mine = loaded(Tagger), x.clone().requires_grad_()
        module(mine).square().sum().backward()
        named = {name: parameter.grad for name, parameter in module.named_parameters()} | {"x": mine.grad}
        return {name: None if grad is None else grad.double() for name, grad in named.items()}

    def reference_gradients(x):
        """The same by the given code, in float64."""
        leaves = {name: value.double().requires_grad_() for name, value in (checkpoint() | {"x": x}).items()}
        loss = original(leaves, leaves["x"]).square().sum()
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    test.hidden("gradients reach x and the weights")
    observe_scenario(gradients, Tagger, some_x).returns(
        reference_gradients(some_x),
        mistake(
            "No gradient comes back: something in forward leaves the autograd graph.",
            stage=("raised", "type"),
        ),
        because="The gradients of x and of the weights must be those of the given code.",
        rtol=1e-4,
        atol=1e-5,
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 1.4 How a number is stored
#
# **Predict.** float16 and bfloat16 both have 16 bits. What do they make of 257, 70000, 1e-8 and 0.1? (One of the eight
# results is infinite, one is zero, one is exact.)

# %% facts=["01-bf16-range-versus-precision"]
print(f"{'':8}{'float16':>18}{'bfloat16':>25}")
for number in (257.0, 70000.0, 1e-8, 0.1):
    x = torch.tensor(number)
    print(f"{number:<8g}{x.half().item():>18}{x.bfloat16().item():>25}")

# %% [markdown]
# Range and precision are bought separately. float16 spends its bits on digits: 257 is exact and 0.1 nearly right, but
# it ends at 65504, and what is too small becomes 0. bfloat16 spends them on range: 70000 and 1e-8 survive, with two or
# three digits, and between 256 and 512 it has only the even numbers.
#
# The explorer shows how. A floating point number has three groups of bits: the *sign*, the *exponent* (which power of
# two) and the *fraction* (where between this power of two and the next). It opens with 257 in bfloat16. Press *next
# above* a few times and watch the fraction count; then change the format to float16, which has room for 257. (The error
# is measured against Python's own number, which is a float64; so float64 shows none, not even for 0.1.)

# %%
float_explorer()

# %% [markdown]
# Try these:
#
# - 70000 in float16, then *next below*: you arrive at 65504, the last finite number.
# - 1e-8 in float16 is 0. *next above* gives the smallest number that float16 has. It is *subnormal*: the exponent is at
#   its end, so the leading 1 is given up and with it, bit by bit, the precision.
# - 1/3 in float16, bfloat16 and float32: the same row 0101…, rounded at different places.
#
# **Predict.** From the number of exponent and fraction bits alone: how far is it from 1 to the next number (`eps`), and
# what is the smallest normal number?

# %% facts=["01-float-format-bit-table"]
print(f"{'':10}{'sign':>5}{'exponent':>10}{'fraction':>10}{'eps':>11}{'smallest normal':>18}{'max':>11}")
for dtype, exponent, fraction in ((torch.float32, 8, 23), (torch.float16, 5, 10), (torch.bfloat16, 8, 7)):
    info = torch.finfo(dtype)
    assert info.bits == 1 + exponent + fraction
    assert info.eps == 2.0**-fraction
    assert info.smallest_normal == 2.0 ** (2 - 2 ** (exponent - 1))
    name = str(dtype).removeprefix("torch.")
    print(f"{name:10}{1:5}{exponent:10}{fraction:10}{info.eps:11.3g}{info.smallest_normal:18.3g}{info.max:11.3g}")

# %% [markdown]
# `eps` is 2 to the power of minus the fraction bits; the smallest normal number is 2 to the power of 2 - 2^(exponent
# bits - 1). The three `assert` lines say so, and they passed. bfloat16 has the exponent of float32: it is a float32
# rounded to its first 16 bits.
#
# And which format do you get when you don't ask? **Predict.** The default dtype is set to float64. Which of the lines
# below print float64?

# %% facts=["01-default-dtype-float32", "01-factories-follow-default-dtype"]
before = torch.tensor(1.5)
array = np.zeros(2, dtype=np.float32)
makers = {
    "torch.tensor(1.5)": lambda: torch.tensor(1.5),
    "torch.zeros(2)": lambda: torch.zeros(2),
    "torch.arange(3.0)": lambda: torch.arange(3.0),
    "nn.Linear(2, 2).weight": lambda: nn.Linear(2, 2).weight,
    "torch.tensor([1, 2])": lambda: torch.tensor([1, 2]),
    "torch.tensor([1, 2]) / 2": lambda: torch.tensor([1, 2]) / 2,
    "torch.from_numpy(array)": lambda: torch.from_numpy(array),
    "before": lambda: before,
}

usual = {name: make().dtype for name, make in makers.items()}
torch.set_default_dtype(torch.float64)
try:
    for name, make in makers.items():
        print(f"{name:26}{usual[name]!s:15} -> {make().dtype}")
finally:
    torch.set_default_dtype(torch.float32)

error_of(lambda: torch.set_default_dtype(torch.int64))

# %% [markdown]
# The default is float32, and it concerns floating point numbers that are *made* and that no one gave a dtype. Whole
# numbers stay int64; what exists already stays as it is, a NumPy array that is wrapped too. (A division of whole
# numbers makes floating point numbers, so it follows.) The default is one setting for the whole program: other people's
# modules see it as well. Giving `dtype=` is safer.
#
# Two exercises follow. The first looks back at sections 1.1 to 1.4; the second is about formats alone.

# %% [markdown]
# ### Exercise 1.5 · Ten questions about labels, copies and small floats
#
# predict · warm-up · 8 min · 2 points
#
# Device labels, moves that move nothing, numbers that do not survive 16 bits: each of these ten lines is a bug that
# somebody has looked for. Replace each `...` from memory, before you run anything.
#
# **Contract**
#
# - Each item asks for the value of one expression; where the comment is a question, answer True or False.
# - A dtype may be written as `"int64"` or `torch.int64`, infinity as `math.inf`.
# - The check runs every snippet on your machine and compares; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Which of these expressions allocates memory somewhere, and which only builds a small label object?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A device object is (type, index or None), compared field by field. A tensor never changes in place when you call
# `.to`, a module does. bfloat16 keeps 8 significant bits (7 of them stored), so its step doubles from one power of two
# to the next; float16 ends at 65504.
#
# </details>

# %% answer="predict-devices-and-dtypes"
### BEGIN SOLUTION
answers = {
    "same_label": False,  # torch.device("cuda") == torch.device("cuda:0")
    "index_7": False,  # does torch.device("cuda:7") raise on a machine without a GPU number 7?
    "gpu": True,  # does torch.device("gpu") raise?
    "dropped_to": "cpu",  # x = torch.ones(2); x.to("meta"); x.device.type
    "module_to": "meta",  # m = nn.Linear(2, 2); m.to("meta"); m.weight.device.type
    "noop_to": True,  # x = torch.ones(2); x.to("cpu") is x
    "int_literal": "int64",  # torch.set_default_dtype(torch.float64); torch.tensor([1, 2]).dtype
    "bf16_513": 512.0,  # torch.tensor(513.0).bfloat16().item()
    "half_70000": math.inf,  # torch.tensor(70000.0).half().item()
    "cudnn_enabled": True,  # torch.backends.cudnn.enabled on the CPU-only wheel
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "same_label": ...,  # torch.device("cuda") == torch.device("cuda:0")
#     "index_7": ...,  # does torch.device("cuda:7") raise on a machine without a GPU number 7?
#     "gpu": ...,  # does torch.device("gpu") raise?
#     "dropped_to": ...,  # x = torch.ones(2); x.to("meta"); x.device.type
#     "module_to": ...,  # m = nn.Linear(2, 2); m.to("meta"); m.weight.device.type
#     "noop_to": ...,  # x = torch.ones(2); x.to("cpu") is x
#     "int_literal": ...,  # torch.set_default_dtype(torch.float64); torch.tensor([1, 2]).dtype
#     "bf16_513": ...,  # torch.tensor(513.0).bfloat16().item()
#     "half_70000": ...,  # torch.tensor(70000.0).half().item()
#     "cudnn_enabled": ...,  # torch.backends.cudnn.enabled on the CPU-only wheel
# }
### END GIVEN

# %% check="predict-devices-and-dtypes" points=2
"""Ten predictions about devices and dtypes, each compared with what its snippet gives here."""
with check("predict-devices-and-dtypes") as test:

    def does_raise(call):
        """Whether a call raises."""
        try:
            call()
        except (RuntimeError, ValueError, AssertionError):
            return True
        return False

    def dtype_of_ints():
        """The dtype of a tensor of whole numbers while the default dtype is float64."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return torch.tensor([1, 2]).dtype
        finally:
            torch.set_default_dtype(before)

    def types_after_to():
        """The types of the devices of a tensor and of a module after .to("meta") on both."""
        x, m = torch.ones(2, device="cpu"), nn.Linear(2, 2, device="cpu")
        x.to("meta")
        m.to("meta")
        return x.device.type, m.weight.device.type

    test("every item is compared with what its snippet gives")
    dropped, moved = types_after_to()
    on_cpu = torch.ones(2, device="cpu")
    step_four = (
        "bfloat16 stores 7 fraction bits: between 512 and 1024 it has only multiples of 4, so 513 is rounded to 512."
    )
    the_type = "The item asks for the device's `.type`, which is a string."
    integers = "The default dtype concerns floating point creation only; Python ints still become int64."
    over = "float16 ends at 65504, so 70000 overflows to infinity (it is not clamped)."
    test.points = observe_value(answers).predicts(
        {
            "same_label": prediction(
                torch.device("cuda") == torch.device("cuda:0"),
                because='torch.device("cuda") has index None, "cuda:0" has index 0: as labels they differ, although '
                "both may end up on the same card. Compare `.type`, or resolve the index first.",
            ),
            "index_7": prediction(
                does_raise(lambda: torch.device("cuda:7")),
                because='A device object is only a label: torch.device("cuda:7") is built without asking whether that '
                "card exists. The error comes at the first allocation.",
            ),
            "gpu": prediction(
                does_raise(lambda: torch.device("gpu")),
                because='"gpu" is no device type. The name is "cuda" (also for AMD cards under ROCm); '
                'torch.device("gpu") raises at once.',
            ),
            "dropped_to": prediction(
                dropped,
                (torch.device("cpu"), the_type),
                because="Tensor.to returns a new tensor and leaves x where it was; here the result was dropped.",
            ),
            "module_to": prediction(
                moved,
                (torch.device("meta"), the_type),
                because="Module.to moves the parameters of the module itself (in place) and returns the module: "
                "no assignment needed, unlike for tensors.",
            ),
            "noop_to": prediction(
                on_cpu.to("cpu") is on_cpu,
                because="When device and dtype already match, Tensor.to returns the very same object, no copy.",
            ),
            "int_literal": prediction(
                dtype_of_ints(),
                ("int32", "Python ints become int64 tensors."),
                because=integers,
            ),
            "bf16_513": prediction(
                torch.tensor(513.0, device="cpu").bfloat16().item(),
                (514, "Between 256 and 512 bfloat16 has the even numbers; at 512 the step doubles. " + step_four),
                ("512", "The item asks for a number, and this is text."),
                ("512.0", "The item asks for a number, and this is text."),
                (516, "513 is nearer to 512 than to 516. " + step_four),
                (math.inf, "bfloat16 has the range of float32; what it lacks is digits. " + step_four),
                because=step_four,
            ),
            "half_70000": prediction(
                torch.tensor(70000.0, device="cpu").half().item(),
                (70144, "That is what bfloat16 makes of it. " + over),
                (math.nan, "Too large a number becomes infinity. " + over),
                because=over,
            ),
            "cudnn_enabled": prediction(
                torch.backends.cudnn.enabled,
                because="`enabled` is a switch that you may turn off, not a test: it is True even where cuDNN does not "
                "exist.",
            ),
        },
        points=2,
    )
test.points

# %% [markdown]
# ### Exercise 1.6 · Which float format can hold this tensor?
#
# implement · solid · 12 min · 2 points
#
# Before weights or features are stored in 16 bits, one would like to know whether they survive it. `finfo` does not
# answer that: it knows the format, not the numbers.
#
# **Contract**
#
# - Returns the first of float16, bfloat16, float32, float64 (in this order) that holds x: converting x there and back
#   changes no finite element by more than `rtol * |element|`, keeps finite elements finite, and leaves inf and nan as
#   they are.
# - So a nonzero element that becomes zero has a relative error of 1, and a zero has none. `rtol = 0` asks for exactly
#   the same values. Empty tensors fit float16.
# - x may have any real floating dtype and any shape, and may require grad; it is not modified. Integer, bool and
#   complex tensors raise TypeError.
#
# <details><summary>Hint 1</summary>
#
# Two things can go wrong when a number is stored in 16 bits. Which one does float16 do badly, and which one bfloat16?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Really convert and convert back, then compare element by element in float64: `|back - x| <= rtol * |x|` where x is
# finite. Written as a product there is no division by zero.
#
# </details>


# %% answer="smallest-float"
def smallest_float(x: Tensor, rtol: float) -> torch.dtype:
    """The first of float16, bfloat16, float32, float64 that holds every element of x within rtol.

    x: any shape, floating point; returns a dtype.
    """
    ### BEGIN SOLUTION
    if not x.is_floating_point():
        raise TypeError(f"only real floating tensors, not {x.dtype}")
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        error = (wide.to(dtype).double() - wide).abs()
        if ((error <= rtol * wide.abs()) | ~wide.isfinite()).all():
            return dtype
    return torch.float64
    ### END SOLUTION


# %% check="smallest-float" points=1
"""The first format in which no element is off by more than rtol, relative to itself."""
with check("smallest-float") as test:
    formats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

    def first_that(fits, among=formats):
        """The rule that returns the first format for which fits(x, x there and back, rtol, finfo) holds."""

        def rule(x, rtol):
            for dtype in among:
                if bool(fits(x, x.to(dtype).to(x.dtype), rtol, torch.finfo(dtype))):
                    return dtype
            return torch.float64

        return rule

    def largest(x):
        """The largest magnitude of the finite elements."""
        return max([abs(v) for v in x.flatten().tolist() if math.isfinite(v)], default=0.0)

    def smallest(x):
        """The smallest magnitude of the elements that are not zero."""
        return min([abs(v) for v in x.flatten().tolist() if v != 0], default=1.0)

    by_range = "The range fits, the precision does not: {detail}. Convert and look at the relative error too."
    by_eps = (
        "You decided by machine epsilon without looking at the numbers: overflow or exactly representable values are "
        "missed ({detail})."
    )
    by_absolute = (
        "The error must be relative to the element: 1e-3 is nothing for 1000 and everything for 0.001 ({detail})."
    )
    by_zero = "Zeros are exact in every format: the relative error 0/0 must not count as an error ({detail})."
    by_hidden_atol = (
        "A small number that becomes 0 has lost everything (relative error 1). An absolute tolerance (torch.allclose "
        "has one by default) hides it: {detail}."
    )
    by_largest = "Every element must fit; you looked at the average, or at the largest one ({detail})."
    by_inf = (
        "Infinity and nan are allowed in x and exist in every format; a finite number turning into inf is what counts "
        "({detail})."
    )
    by_sign = "An error has no sign: a number that was rounded down is off as well ({detail})."
    by_negative = (
        "The error is relative to the element's magnitude, `|element|`: there are negative elements ({detail})."
    )
    by_float32 = "You compared in too low a precision: the difference itself was rounded away ({detail})."
    wrong_rules = [
        (by_sign, first_that(lambda x, back, rtol, info: (back - x <= rtol * x.abs())[x.isfinite()].all())),
        (by_negative, first_that(lambda x, back, rtol, info: ((back - x).abs() <= rtol * x)[x.isfinite()].all())),
        (by_range, first_that(lambda x, back, rtol, info: largest(x) <= info.max)),
        (by_range, first_that(lambda x, back, rtol, info: largest(x) <= info.max and smallest(x) >= info.tiny)),
        (
            by_range,
            first_that(
                lambda x, back, rtol, info: largest(x) <= info.max and smallest(x) >= info.smallest_normal / 1024
            ),
        ),
        (by_range, first_that(lambda x, back, rtol, info: (back.isfinite() == x.isfinite()).all())),
        (by_eps, first_that(lambda x, back, rtol, info: info.eps <= rtol)),
        (by_eps, first_that(lambda x, back, rtol, info: info.eps / 2 <= rtol)),
        (by_eps, first_that(lambda x, back, rtol, info: info.eps <= rtol and largest(x) <= info.max)),
        (by_absolute, first_that(lambda x, back, rtol, info: not ((back - x).abs() > rtol).any())),
        (by_absolute, first_that(lambda x, back, rtol, info: ((back - x).abs() <= rtol).all())),
        (by_hidden_atol, first_that(lambda x, back, rtol, info: torch.allclose(back, x, rtol=rtol))),
        (
            by_hidden_atol,
            first_that(lambda x, back, rtol, info: torch.allclose(back, x, rtol=rtol, equal_nan=True)),
        ),
        (by_zero, first_that(lambda x, back, rtol, info: ((back - x).abs() / x.abs() <= rtol).all())),
        (
            "A finite number that turns into inf does not fit; you left it out of the comparison ({detail}).",
            first_that(
                lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs())[back.isfinite() & x.isfinite()].all()
            ),
        ),
        (
            by_inf,
            first_that(lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs()).all()),
        ),
        (
            by_float32,
            first_that(lambda x, back, rtol, info: ((back.float() - x.float()).abs() <= rtol * x.float().abs()).all()),
        ),
        (
            "bfloat16 was skipped: the candidates are float16, bfloat16, float32, float64 in this order ({detail}).",
            first_that(
                lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs()).all(), (torch.float16, torch.float32)
            ),
        ),
        (
            "float16 comes before bfloat16 ({detail}).",
            first_that(
                lambda x, back, rtol, info: ((back - x).abs() <= rtol * x.abs()).all(),
                (torch.bfloat16, torch.float16, torch.float32),
            ),
        ),
        (by_largest, first_that(lambda x, back, rtol, info: (back - x).abs().mean() <= rtol * x.abs().mean())),
        (by_largest, first_that(lambda x, back, rtol, info: (back - x).abs().max() <= rtol * x.abs().max())),
        (by_largest, first_that(lambda x, back, rtol, info: ((back - x).abs() / x.abs()).nan_to_num().mean() <= rtol)),
    ]

    def probes():
        """Numbers and tolerances, by name."""
        return {
            "[70000] at 1e-2": ([70000.0], 1e-2),
            "[65504] at 0": ([65504.0], 0.0),
            "[257] at 0": ([257.0], 0.0),
            "[1.0001] at 1e-5": ([1.0001], 1e-5),
            "[1.9999] at 1e-5": ([1.9999], 1e-5),
            "[0.1] at 1e-3": ([0.1], 1e-3),
            "[1000.3] at 1e-3": ([1000.3], 1e-3),
            "[70000, 257] at 3e-3": ([70000.0, 257.0], 3e-3),
            "[0, 0.5] at 1e-3": ([0.0, 0.5], 1e-3),
            "[1e-30] at 1e-2": ([1e-30], 1e-2),
        }

    def bank(smallest_float):
        """What is returned for each of the probes."""
        return {name: smallest_float(torch.tensor(numbers), rtol) for name, (numbers, rtol) in probes().items()}

    no_name = mistake(
        "A torch.dtype is asked for, not its name.",
        stage="type",
        when=lambda seen: any(
            isinstance(v, str) for v in (seen.value.values() if isinstance(seen.value, dict) else [seen.value])
        ),
    )

    test("ten probes, in float32")
    observe_scenario(bank, smallest_float).returns(
        {
            "[70000] at 1e-2": torch.bfloat16,
            "[65504] at 0": torch.float16,
            "[257] at 0": torch.float16,
            "[1.0001] at 1e-5": torch.float32,
            "[1.9999] at 1e-5": torch.float32,
            "[0.1] at 1e-3": torch.float16,
            "[1000.3] at 1e-3": torch.float16,
            "[70000, 257] at 3e-3": torch.float32,
            "[0, 0.5] at 1e-3": torch.float16,
            "[1e-30] at 1e-2": torch.bfloat16,
        },
        no_name,
        *[
            mistake(
                sentence, gives={name: rule(torch.tensor(numbers), rtol) for name, (numbers, rtol) in probes().items()}
            )
            for sentence, rule in wrong_rules
        ],
        because="Another format is the first that holds this: {detail}.",
    )

    ### BEGIN HIDDEN TESTS
    known = [
        mistake("The tensor belongs to the caller: it must stay as it is.", stage="arguments"),
        *[mistake(sentence, gives=rule) for sentence, rule in wrong_rules],
    ]

    def judge(x, rtol, expected, *mistakes):
        """Judge the format for one tensor."""
        seen = observe(smallest_float, x, rtol).expecting(*mistakes, *known)
        seen.returns(expected, because="Another format is the first that holds this tensor.")
        seen.leaves_arguments_alone()

    test.hidden("the error is relative to the element")
    judge(torch.tensor([1.0031e-4]), 1e-6, torch.float32, mistake(by_absolute, gives=torch.float16))
    judge(torch.tensor([3e-9]), 1e-2, torch.bfloat16, mistake(by_hidden_atol, gives=torch.float16))
    judge(torch.tensor([3000.3, -70000.0]), 1e-2, torch.bfloat16)
    judge(torch.tensor([-1.0001]), 1e-5, torch.float32)
    judge(torch.tensor([-1000.3]), 1e-3, torch.float16)

    test.hidden("every element must fit")
    one_bad = torch.ones(1001)
    one_bad[437] = 1.001
    judge(one_bad, 1e-5, torch.float32, mistake(by_largest, gives=torch.float16))
    judge(torch.tensor([1000.0, 1.0001, 0.5]), 1e-5, torch.float32, mistake(by_largest, gives=torch.float16))
    judge(torch.tensor([[1.5, 70000.0], [0.0, 2.0]]), 1e-2, torch.bfloat16)

    test.hidden("finite numbers stay finite")
    judge(torch.tensor([3.4e38]), 1e-2, torch.float32)
    judge(torch.tensor([-3.4e38, 1.0]), 1.0, torch.float32)
    judge(torch.tensor([65520.0]), 1e-2, torch.bfloat16)
    judge(torch.tensor([65519.0]), 1e-2, torch.float16)

    test.hidden("float64 numbers")
    double = torch.float64
    last = mistake("float64 is a candidate too: float32 does not hold this tensor.", gives=torch.float32)
    judge(torch.tensor([1 + 1e-12], dtype=double), 0.0, double, mistake(by_float32, gives=torch.float16), last)
    judge(torch.tensor([1 + 1e-12], dtype=double), 1e-9, torch.float16)
    judge(torch.tensor([1 + 1e-6], dtype=double), 1e-12, double, last)
    judge(torch.tensor([1e300], dtype=double), 1e-3, double, last)
    judge(torch.tensor([1e-300], dtype=double), 1e-3, double, last)
    judge(torch.tensor([1 / 3], dtype=double), 1e-7, torch.float32)
    judge(torch.tensor([0.5, -2.0, 65504.0], dtype=double), 0.0, torch.float16)
    judge(torch.tensor([2.0**127, 1.0], dtype=double), 0.0, torch.bfloat16)

    test.hidden("float16 and bfloat16 numbers")
    judge(torch.tensor([0.1, 65504.0, 6e-8], dtype=torch.float16), 0.0, torch.float16)
    judge(torch.tensor([70000.0], dtype=torch.bfloat16), 0.0, torch.bfloat16)
    judge(torch.tensor([1.5, 1e-30], dtype=torch.bfloat16), 1e-3, torch.bfloat16)
    judge(torch.tensor([1.0078125, 0.0], dtype=torch.bfloat16), 0.0, torch.float16)

    test.hidden("a tolerance that is just met, and just not")
    judge(torch.tensor([257.0, 70000.0]), 1 / 256, torch.bfloat16)
    judge(torch.tensor([1 + 2**-12], dtype=double), 2.0**-12, torch.float16)
    judge(torch.tensor([1 + 2**-12], dtype=double), 2.0**-13, torch.float32)
    ### END HIDDEN TESTS

# %% check="smallest-float" points=1
"""Any shape, empty ones, inf and nan in them; integers, bools and complex numbers are refused."""
with check("smallest-float") as test:

    def judge(x, rtol, expected, *mistakes):
        """Judge the format for one tensor."""
        seen = observe(smallest_float, x, rtol).expecting(
            mistake("The tensor belongs to the caller: it must stay as it is.", stage="arguments"), *mistakes
        )
        seen.returns(expected, because="Another format is the first that holds this tensor.")
        seen.leaves_arguments_alone()

    test("two dimensions, and none")
    judge(torch.tensor([[1.5, 70000.0], [0.5, 2.0]]), 1e-2, torch.bfloat16)
    judge(torch.tensor(70000.0), 1e-2, torch.bfloat16)

    ### BEGIN HIDDEN TESTS
    test.hidden("inf and nan stay what they are")
    allowed = mistake(
        "Infinity and nan are allowed in x and exist in every format; a finite number turning into inf is what counts.",
        stage="value",
    )
    judge(torch.tensor([math.inf, 1.5, math.nan, -math.inf]), 0.0, torch.float16, allowed)
    judge(torch.tensor([math.nan]), 1e-3, torch.float16, allowed)
    judge(torch.tensor([math.inf]), 1e-3, torch.float16, allowed)
    judge(torch.tensor([math.inf, 1.0001]), 1e-5, torch.float32)
    judge(torch.tensor([math.nan, 70000.0]), 1e-2, torch.bfloat16)

    test.hidden("empty and not contiguous tensors")
    empty = mistake("An empty tensor fits float16.", stage=("raised", "value"))
    judge(torch.empty(0), 1e-3, torch.float16, empty)
    judge(torch.empty(2, 0, dtype=torch.float64), 0.0, torch.float16, empty)
    judge(torch.tensor([[1.5, 70000.0], [0.5, 3.0]]).t()[0], 0.0, torch.float16)
    judge(torch.tensor([70000.0, 1.5, 2.0, 0.5])[1::2], 0.0, torch.float16)

    test.hidden("tensors that require grad")
    judge(torch.tensor([1000.3, 0.5]).requires_grad_(), 1e-3, torch.float16)
    judge(torch.tensor(1.0001).requires_grad_(), 1e-5, torch.float32)

    test.hidden("integer, bool and complex tensors raise TypeError")
    for dtype in (torch.int64, torch.uint8, torch.bool, torch.complex64):
        for numbers in ([1, 0], []):
            observe(smallest_float, torch.tensor(numbers, dtype=dtype), 1e-3).raises(
                TypeError, because=f"Only real floating tensors make sense here; {dtype} must raise TypeError."
            )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 1.5 Errors that arrive late
#
# **Predict.** Three classes: 0, 1 and 2. Which of the labels 5, -1 and -100 does `F.cross_entropy` refuse?

# %% facts=["01-negative-target-out-of-bounds", "01-rerun-on-cpu-for-clear-error"]
logits = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]])

error_of(lambda: F.cross_entropy(logits, torch.tensor([5, 0])))
error_of(lambda: F.cross_entropy(logits, torch.tensor([-1, 0])))
print(f"with -100: {F.cross_entropy(logits, torch.tensor([-100, 0])):.4f}")
print(f"second row: {F.cross_entropy(logits[1:], torch.tensor([0])):.4f}")

# %% [markdown]
# 5 and -1. The label -100 is skipped without a word: it is the default of `ignore_index`, and the mean is taken over
# the other rows. No negative label means "the last class". Other operations are as clear on the CPU:

# %% facts=["01-rerun-on-cpu-for-clear-error", "01-negative-target-out-of-bounds"]
error_of(lambda: torch.zeros(2, 3).gather(1, torch.tensor([[5]])))
error_of(lambda: torch.zeros(2, 3).gather(1, torch.tensor([[-1]])))
error_of(lambda: F.one_hot(torch.tensor([-1, 0])))
error_of(lambda: F.one_hot(torch.tensor([5, 0]), num_classes=3))

# %% [markdown]
# On the CPU an operation has finished when its line has finished, and it checks indices itself: the error stands at the
# line that is wrong, and often names the number. On a GPU Python only *queues* the work and goes on. The GPU finds the
# bad label later. By then Python is somewhere else, and the error is reported at the line where Python notices.
#
# **Predict.** In the picture Python queues four calls. The first is `cross_entropy`, which makes the loss from a bad
# label; `item()` is the first that needs a number from the GPU. Which line is blamed?

# %% facts=["01-async-error-points-at-wrong-line"]
calls = [
    Call("loss", work=4, faulty=True),
    Call("double", work=2),
    Call("backward", work=3),
    Call("item", work=1, waits=True),
]
late_error(calls)

# %% [markdown]
# The last one, which has done nothing wrong. "Where Python notices" is any later call that talks to the GPU; at the
# latest it is one that waits. After such an error, no CUDA call works in the process, not even a correct one.
#
# The cure is a variable of the environment, `CUDA_LAUNCH_BLOCKING=1`: Python waits for every call.

# %% facts=["01-cuda-launch-blocking"]
late_error(calls, blocking=True)

# %% [markdown]
# Now the right line is blamed, and everything is slow, since Python and the GPU no longer work side by side. The
# variable is read when CUDA starts; setting it after the error, in the same process, is too late.
#
# Here is the same training step as a program. On the CPU first. **Predict.** Which line is blamed, and is the label
# named?

# %% facts=["01-rerun-on-cpu-for-clear-error"]
PROGRAM = """
import sys, torch, torch.nn.functional as F
device = sys.argv[1]
logits = torch.zeros(4, 3, device=device, requires_grad=True)
labels = torch.tensor([0, 2, 5, 1], device=device)
loss = F.cross_entropy(logits, labels)
double = loss * 2
double.backward()
print(double.item())
"""


def blame(device: str, **environment: str) -> None:
    """Run PROGRAM in a process of its own; print the line that is blamed and the error."""
    environment = {**os.environ, "CUDA_LAUNCH_BLOCKING": "0", **environment}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, device], env=environment, capture_output=True, text=True, timeout=120
    )
    places = re.findall(r'File "<string>", line (\d+)', run.stderr)
    errors = re.findall(r"^[\w.]*Error: .*", run.stderr, re.MULTILINE)
    asserts = re.findall(r"Assertion .* failed", run.stderr)
    print("blamed:", PROGRAM.splitlines()[int(places[0]) - 1] if places else "no line")
    print("error: ", errors[-1] if errors else "none")
    if asserts:
        print("kernel:", asserts[0])


blame("cpu")

# %% [markdown]
# The line with the bad label, and the label. Now the same program on a GPU, as usual and with the variable set, each
# in a fresh process. (Without a CUDA device the cell prints one line and nothing is lost: the picture above says what
# to expect.)


# %% facts=["01-async-error-points-at-wrong-line", "01-cuda-launch-blocking"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def blamed_on_a_gpu() -> None:
    """The line that is blamed on a GPU, as usual and with CUDA_LAUNCH_BLOCKING=1."""
    print("as usual")
    blame("cuda")
    print("with CUDA_LAUNCH_BLOCKING=1")
    blame("cuda", CUDA_LAUNCH_BLOCKING="1")


blamed_on_a_gpu()

# %% [markdown]
# The recipe for "CUDA error: device-side assert triggered":
#
# 1. Don't trust the line. Start a fresh process.
# 2. Run the same batch on the CPU: `model.to("cpu")`, and the batch too. Usually the error now names the index.
# 3. If that takes too long, run with `CUDA_LAUNCH_BLOCKING=1`.

# %% [markdown] facts=["01-copy-forces-sync"]
# Which calls wait, apart from `item()`? Copying to the CPU (`.cpu()`, `.tolist()`, `copy_` into a CPU tensor),
# printing, and `if` on a tensor: all of them need the numbers. A copy with `non_blocking=True` need not wait, and a
# copy from GPU to GPU is only queued. To wait on purpose there are `torch.cuda.synchronize()` and the portable
# `torch.accelerator.synchronize()`. Whoever times a GPU needs them: without, the clock measures the queueing.

# %% [markdown]
# Before the exercise a trap on the CPU. **Predict.** Labels may be stored as uint8, which holds 0 to 255. Is 255 ≥ 300?

# %%
labels = torch.tensor([255], dtype=torch.uint8)
print("uint8:", (labels >= 300).tolist(), "  int64:", (labels.long() >= 300).tolist())

# %% [markdown]
# In torch 2.13 it is: the number 300 is brought to uint8 first, where it wraps around to 44 ([PyTorch issue
# 101653](https://github.com/pytorch/pytorch/issues/101653)). Convert to int64 before you compare with a number that may
# not fit.

# %% [markdown]
# ### Exercise 1.7 · Before the device-side assert: find the labels that do not fit
#
# debug · solid · 10 min · 2 points
#
# A training step on the GPU stops with "CUDA error: device-side assert triggered", reported at `loss.backward()`,
# three lines too late. The same batch on the CPU says at the right line: `IndexError: Target 5 is out of bounds.`
# Which label is it, and where? Write the function that finds out.
#
# **Contract**
#
# - The result holds the positions of all bad labels: one row for each, one column for each dimension of `labels`, in
#   the order of the elements (row by row), shape (n, labels.ndim), int64.
# - A label is good if it is one of 0 … num_classes - 1 or equals `ignore_index`, which may itself lie inside or outside
#   that range. Everything else is bad, other negative numbers too.
# - Where nothing is bad the result has shape (0, labels.ndim), also for empty labels. The labels are not changed.
# - `labels` may have any shape. int64 and uint8 are what cross_entropy takes; other dtypes raise TypeError.
#
# So the result is empty exactly where `F.cross_entropy` on the CPU raises no IndexError; the check compares the two.
#
# <details><summary>Hint 1</summary>
#
# Which negative label does cross_entropy silently skip, and what decides that?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Build one boolean mask "inside the range OR equal to ignore_index", negate it, and turn it into positions. Beware of
# comparing a uint8 tensor with a Python number that does not fit in uint8.
#
# </details>


# %% answer="find-bad-labels"
def bad_labels(labels: Tensor, num_classes: int, ignore_index: int = -100) -> Tensor:
    """The positions of the labels that F.cross_entropy would refuse.

    labels: any shape, int64 or uint8; returns (n, labels.ndim) int64.
    """
    ### BEGIN SOLUTION
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"cross_entropy takes int64 or uint8 class indices, not {labels.dtype}")
    wide = labels.long()
    good = (wide >= 0) & (wide < num_classes) | (wide == ignore_index)
    return (~good).nonzero()
    ### END SOLUTION


# %% check="find-bad-labels" points=1
"""All positions of labels that cross_entropy would refuse, and no others."""
with check("find-bad-labels") as test:

    def where(labels, is_bad):
        """The positions at which a condition holds, as the contract wants them."""
        found = [[]]
        for size in labels.shape:
            found = [[*position, i] for position in found for i in range(size)]
        rows = [row for row, label in zip(found, labels.flatten().tolist(), strict=True) if is_bad(label)]
        return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), labels.dim())

    def reference(labels, num_classes, ignore_index=-100):
        """The contract, label by label."""
        return where(labels, lambda label: not (0 <= label < num_classes or label == ignore_index))

    def if_bad(rule):
        """What comes out when the labels for which `rule` holds are reported."""

        def positions(labels, num_classes, ignore_index=-100):
            return where(labels, lambda label: rule(label, num_classes, ignore_index))

        return positions

    def values(labels, num_classes, ignore_index=-100):
        """The bad labels themselves."""
        return torch.stack([labels[tuple(row)] for row in reference(labels, num_classes, ignore_index)])

    def flat(labels, num_classes, ignore_index=-100):
        """Positions in the flattened tensor."""
        return reference(labels.flatten(), num_classes, ignore_index)

    the_positions = "You returned the bad values; asked for are their positions."
    coordinates = (
        "Positions must be coordinates in the shape of the labels (one column per dimension), not numbers in the "
        "flattened tensor."
    )
    skips = "You reported labels equal to ignore_index: cross_entropy skips them, they are good."
    by_argument = "-100 is only the default: which label is skipped is decided by the argument ignore_index."
    first = "You returned the first bad position only."
    known = (
        mistake("The labels belong to the caller: they must stay as they are.", stage="arguments"),
        mistake(
            "None came back: where nothing is bad, an empty tensor of shape (0, ndim) is asked for.",
            when=lambda seen: seen.value is None and len(reference(*seen.args, **seen.kwargs)) == 0,
        ),
        mistake("None came back: the function must return the positions.", when=lambda seen: seen.value is None),
        mistake(the_positions, gives=values),
        mistake(the_positions, gives=lambda *call, **named: values(*call, **named)[:, None]),
        mistake(
            "nonzero(as_tuple=True) and torch.where give one tensor per dimension; stack them as columns.",
            when=lambda seen: isinstance(seen.value, tuple) and len(seen.value) == seen.args[0].dim(),
        ),
        mistake(
            "You returned a mask; asked for are the positions where it is true.",
            when=lambda seen: seen.value.dtype == torch.bool,
        ),
        mistake(
            "With one dimension there is one column: the result has shape (n, 1).",
            gives=lambda *call, **named: reference(*call, **named).squeeze(1),
            when=lambda seen: seen.args[0].dim() == 1,
        ),
        mistake(coordinates, gives=flat, when=lambda seen: seen.args[0].dim() != 1),
        mistake(
            coordinates,
            gives=lambda *call, **named: flat(*call, **named).squeeze(1),
            when=lambda seen: seen.args[0].dim() != 1,
        ),
        mistake(
            "One column for each bad label came out; asked for is one row for each.",
            gives=lambda *call, **named: reference(*call, **named).t(),
        ),
        mistake(
            "Negative labels other than ignore_index are out of bounds too: -1 does not mean 'last class' here.",
            gives=if_bad(lambda label, classes, ignored: label >= classes and label != ignored),
        ),
        mistake(
            "Labels that are too large are out of bounds too.",
            gives=if_bad(lambda label, classes, ignored: label < 0 and label != ignored),
        ),
        mistake(
            "With num_classes = C the last legal label is C-1; you let C pass.",
            gives=if_bad(lambda label, classes, ignored: not 0 <= label <= classes and label != ignored),
        ),
        mistake(
            "With num_classes = C the last legal label is C-1: it is good.",
            gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes - 1 and label != ignored),
        ),
        mistake(
            "Label 0 is the first class: it is good.",
            gives=if_bad(lambda label, classes, ignored: not 0 < label < classes and label != ignored),
        ),
        mistake(
            "You reported the good labels; asked for are the bad ones.",
            gives=if_bad(lambda label, classes, ignored: 0 <= label < classes or label == ignored),
        ),
        mistake(skips, gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes)),
        mistake(by_argument, gives=lambda labels, num_classes, ignore_index: reference(labels, num_classes, -100)),
        mistake(
            by_argument,
            gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes and label not in (ignored, -100)),
        ),
        mistake(
            "ignore_index may lie inside the range as well: then that label is skipped, and it is good.",
            gives=if_bad(lambda label, classes, ignored: not 0 <= label < classes or label == ignored),
        ),
        mistake(first, gives=lambda *call, **named: reference(*call, **named)[:1]),
        mistake(first, gives=lambda *call, **named: reference(*call, **named)[0]),
        mistake(
            "These are the positions, but not in the order of the elements, row by row.",
            when=lambda seen: sorted(seen.value.tolist()) == reference(*seen.args, **seen.kwargs).tolist(),
        ),
        mistake(
            "Fewer positions came out than there are bad labels: {detail}.",
            stage="shape",
            when=lambda seen: (
                seen.value.shape[1:] == (seen.args[0].dim(),)
                and len(seen.value) < len(reference(*seen.args, **seen.kwargs))
            ),
        ),
        mistake(
            "More positions came out than there are bad labels: {detail}.",
            stage="shape",
            when=lambda seen: (
                seen.value.shape[1:] == (seen.args[0].dim(),)
                and len(seen.value) > len(reference(*seen.args, **seen.kwargs))
            ),
        ),
    )

    def judge(labels, *more, **named):
        """Judge the positions in these labels."""
        seen = observe(bad_labels, labels, *more, **named).expecting(*known)
        seen.returns(reference(labels, *more, **named))
        seen.leaves_arguments_alone()

    test("[0, 5, 2, -1, 3, 1, -7] with 3 classes: positions 1, 3, 4 and 6")
    seen = observe(bad_labels, torch.tensor([0, 5, 2, -1, 3, 1, -7]), 3).expecting(*known)
    seen.returns(torch.tensor([[1], [3], [4], [6]]))
    seen.leaves_arguments_alone()

    test("nothing is bad")
    observe(bad_labels, torch.tensor([2, 0, 1]), 3).expecting(*known).returns(torch.empty(0, 1, dtype=torch.int64))

    test("labels of shape (2, 2, 3) with -100 in them")
    some_labels = torch.tensor([[[0, -100, 2], [1, 4, -100]], [[-100, 3, 3], [0, -2, 1]]])
    seen = observe(bad_labels, some_labels, 4).expecting(*known)
    seen.returns(torch.tensor([[0, 1, 1], [1, 1, 1]]))
    seen.leaves_arguments_alone()

    test("ignore_index=255, ignore_index=-1, and one inside the range")
    some_labels = torch.tensor([[255, 2, 0], [-1, -100, 1]])
    seen = observe(bad_labels, some_labels, 3, 255).expecting(*known)
    seen.returns(torch.tensor([[1, 0], [1, 1]]))
    seen = observe(bad_labels, some_labels, 3, ignore_index=-1).expecting(*known)
    seen.returns(torch.tensor([[0, 0], [1, 1]]))
    seen = observe(bad_labels, some_labels, 3, ignore_index=1).expecting(*known)
    seen.returns(torch.tensor([[0, 0], [1, 0], [1, 1]]))

    ### BEGIN HIDDEN TESTS
    test.hidden("no labels at all")
    empty = mistake(
        "labels.min()/max() of an empty tensor raises: an empty batch has no bad labels.",
        raises="numel|empty|no elements",
    )
    for size in ((0,), (0, 3), (2, 0), (2, 0, 3)):
        seen = observe(bad_labels, torch.empty(size, dtype=torch.int64), 3).expecting(empty, *known)
        seen.returns(torch.empty(0, len(size), dtype=torch.int64))

    test.hidden("a single label without a dimension")
    no_dims = mistake(
        "A 0-d label has no coordinates: a bad one gives shape (1, 0), a good one (0, 0).", stage=("raised", "shape")
    )
    for label in (4, 2, -100):
        seen = observe(bad_labels, torch.tensor(label), 3).expecting(no_dims, *known)
        seen.returns(torch.empty(int(label == 4), 0, dtype=torch.int64))

    test.hidden("labels that are not contiguous")
    judge(torch.tensor([[0, 7, 1], [-5, 2, 3]]).t(), 3)
    judge(torch.arange(-6, 12).reshape(3, 6)[:, ::2], 4)

    test.hidden("all labels ignored, all labels bad, a single class")
    judge(torch.full((2, 3), -100), 3)
    judge(torch.full((2, 2), 9), 3)
    judge(torch.tensor([0, 1, 0, -100, -99]), 1)
    judge(torch.full((3,), 7), 3, ignore_index=7)

    test.hidden("four dimensions, and huge labels")
    judge(torch.arange(-8, 16).reshape(2, 3, 2, 2), 12, ignore_index=-3)
    judge(torch.tensor([2**40, -(2**40), 2**32 + 1, 1]), 3)

    def refused(labels, num_classes, ignore_index):
        """Whether F.cross_entropy raises an IndexError for these labels."""
        logits = torch.zeros(len(labels), num_classes)
        try:
            F.cross_entropy(logits, labels, ignore_index=ignore_index)
        except IndexError:
            return True
        return False

    def emptiness(bad_labels, batches, num_classes, ignore_index):
        """Whether anything is found in each of many rows of labels."""
        return [len(bad_labels(labels, num_classes, ignore_index)) for labels in batches]

    test.hidden("random labels: empty exactly where F.cross_entropy raises no IndexError")
    g = torch.Generator().manual_seed(7)
    for classes, ignored in ((6, -100), (6, -1), (5, 2), (6, 6)):
        some_labels = torch.randint(-2, classes + 2, (8, 2), generator=g)
        seen = observe_scenario(emptiness, bad_labels, some_labels, classes, ignored)
        differ = [bool(n) != refused(row, classes, ignored) for n, row in zip(seen.value, some_labels, strict=True)]
        seen.that(not any(differ), "Your verdict differs from F.cross_entropy on the CPU.")
    ### END HIDDEN TESTS

# %% check="find-bad-labels" points=1
"""Labels that are stored as uint8 are judged by their number; other dtypes raise TypeError."""
with check("find-bad-labels") as test:

    def judge(labels, num_classes, ignored, rows):
        """Judge the positions that are found in labels of dtype uint8."""
        wraps = (
            "uint8 labels: a Python number that does not fit into uint8 wraps around in the comparison (300 becomes "
            "44, -1 becomes 255). Convert the labels to int64 before comparing."
        )
        seen = observe(bad_labels, torch.tensor(labels, dtype=torch.uint8), num_classes, ignore_index=ignored)
        seen.expecting(
            mistake(wraps, raises="overflow|converted|out of bounds for"),
            mistake("cross_entropy takes labels of dtype uint8 as well: {detail}.", stage="raised"),
            mistake(wraps, stage=("shape", "value"), when=lambda seen: max(num_classes, -ignored, ignored) > 255),
            mistake(wraps, stage=("shape", "value"), when=lambda seen: ignored < 0 and 256 + ignored in labels),
        )
        seen.returns(torch.tensor(rows, dtype=torch.int64).reshape(len(rows), 1))
        seen.leaves_arguments_alone()

    test("[0, 5, 2, 255, 3] in uint8 with 3 classes: positions 1, 3 and 4")
    judge([0, 5, 2, 255, 3], 3, -100, [[1], [3], [4]])

    ### BEGIN HIDDEN TESTS
    test.hidden("uint8 labels with 300 classes")
    judge([0, 44, 50, 255], 300, -100, [])

    test.hidden("uint8 labels, 255 against ignore_index=-1")
    judge([0, 255, 2, 1], 3, -1, [[1]])

    test.hidden("uint8 labels, 156 against ignore_index=-100")
    judge([156, 1, 2, 200], 3, -100, [[0], [3]])

    test.hidden("uint8 labels, ignore_index=255")
    judge([255, 1, 2, 200], 3, 255, [[3]])

    test.hidden("uint8 labels, ignore_index=300")
    judge([44, 1, 2], 3, 300, [[0]])

    test.hidden("uint8 labels, 256 classes")
    judge([0, 255, 128], 256, -100, [])

    test.hidden("other dtypes raise TypeError")
    for dtype in (torch.int32, torch.int16, torch.int8, torch.float32, torch.float64, torch.bool):
        observe(bad_labels, torch.tensor([0, 1, 1]).to(dtype), 3).raises(
            TypeError, because=f"cross_entropy takes int64 or uint8 class indices; {dtype} must raise TypeError."
        )
    observe(bad_labels, torch.empty(0, dtype=torch.int32), 3).raises(
        TypeError, because="cross_entropy takes int64 or uint8 class indices; empty labels of another dtype raise too."
    )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 1.6 What fills the memory, what takes the time
#
# A training step keeps four things: the parameters, their gradients, the state of the optimizer, and the *activations*:
# what autograd keeps from the forward pass because the backward pass needs it.
#
# **Predict.** You halve the batch of a model that is trained with Adam. Which of the four become smaller?
#
# First count, with paper and pencil, for Linear(256, 512), ReLU, Linear(512, 10) with cross-entropy, in float32:

# %% facts=["01-memory-is-params-plus-intermediates"]
batch = 64
numbers = 256 * 512 + 512 + 512 * 10 + 10  # weight and bias, twice
kept = {
    "the batch, input of the first layer": batch * 256 * 4,
    "after ReLU, input of the second layer": batch * 512 * 4,
    "logarithms of the probabilities": batch * 10 * 4,
    "the labels, int64": batch * 8,
    "the number of labels, for the mean": 4,
}

print(f"{4 * numbers:9,}  parameters: {numbers:,} numbers of 4 bytes")
print(f"{4 * numbers:9,}  gradients: the same")
print(f"{8 * numbers:9,}  Adam: two numbers for each parameter")
print(f"{sum(kept.values()):9,}  activations:")
for what, size in kept.items():
    print(f"           {size:9,}  {what}")

# %% [markdown]
# Now measure. The function runs one training step and counts the bytes of real tensors:

# %% facts=["01-memory-is-params-plus-intermediates"]
for batch in (64, 128):
    print(f"batch of {batch}:", ", ".join(f"{name} {size:,}" for name, size in memory_bars(batch).items()))

# %% [markdown]
# As counted (Adam has besides a step counter of 4 bytes for each of the four parameter tensors). Only the activations
# depend on the batch; gradients and optimizer state have the size of the parameters. Move the slider, and change the
# optimizer:

# %% facts=["01-memory-is-params-plus-intermediates"]
memory_explorer()

# %% [markdown]
# In this small model what depends on the parameters weighs most. In a deep network with long inputs the activations
# often do, and then a smaller batch helps. When parameters, gradients and optimizer state alone don't fit, no batch
# size does.
#
# **Predict.** Does Adam's state exist before the first `step()`? Does `backward()` need it?

# %% facts=["01-momentum-used-in-backward"]
model = nn.Linear(256, 512)
optimizer = torch.optim.Adam(model.parameters())


def state_bytes() -> int:
    return sum(value.nbytes for entry in optimizer.state.values() for value in entry.values())


print("at the start:  ", state_bytes())
model(torch.ones(1, 256)).sum().backward()
print("after backward:", state_bytes())
optimizer.step()
print("after step:    ", state_bytes(), " parameters:", sum(p.nbytes for p in model.parameters()))

# %% [markdown]
# No, and no: it is made in the first `step()`. So a program may run out of memory there, after a forward and a backward
# pass that fitted. SGD with momentum keeps one number for each parameter, plain SGD none.
#
# **Predict.** Do the parameters themselves ever depend on the input?

# %% facts=["01-params-fixed-after-init"]
conv = nn.Conv2d(3, 8, 3)
for side in (8, 64):
    conv(torch.ones(2, 3, side, side))
    print(f"Conv2d after images of {side} x {side}:", sum(p.numel() for p in conv.parameters()), "parameters")

lazy = nn.LazyLinear(5)
print("LazyLinear before its first input:", type(lazy.weight).__name__)
lazy(torch.ones(2, 7))
print("LazyLinear after it:              ", tuple(lazy.weight.shape))

# %% [markdown]
# In ordinary modules they are fixed when the module is built. Lazy modules wait for their first input and take the size
# from it; after that they are fixed too.
#
# And time? **Predict.** Which of these layers has more parameters, and which takes more arithmetic? (Operations are
# counted on `meta`, with shapes alone. A FLOP is one addition or multiplication of floating point numbers.)


# %% facts=["01-param-count-vs-flops", "01-mobilenet-more-params-less-compute"]
def parameters_and_flops(layer: nn.Module, *shape: int) -> str:
    with FlopCounterMode(display=False) as counter:
        layer.to("meta")(torch.empty(shape, device="meta"))
    count = sum(p.numel() for p in layer.parameters())
    return f"{count:12,} parameters {counter.get_total_flops():14,} FLOPs"


linear = nn.Linear(4096, 4096, bias=False, device="meta")
conv = nn.Conv2d(64, 64, 3, padding=1, bias=False, device="meta")
print("linear, 4096 to 4096  ", parameters_and_flops(linear, 1, 4096))
print("conv 3x3, 64 to 64    ", parameters_and_flops(conv, 1, 64, 56, 56))

wide = nn.Conv2d(64, 128, 3, padding=1, bias=False)
depthwise = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
separable = nn.Sequential(depthwise, nn.Conv2d(64, 128, 1, bias=False))
print("conv 3x3, 64 to 128   ", parameters_and_flops(wide, 1, 64, 56, 56))
print("the same, separable   ", parameters_and_flops(separable, 1, 64, 56, 56))

# %% [markdown]
# The linear layer has 455 times the parameters of the convolution, and the convolution takes 7 times the arithmetic: it
# uses each of its numbers at 56 · 56 places. So a count of parameters says how much memory a model needs, and little
# about time.
#
# Nor is one traded for the other. The last line is the building block of MobileNet: a 3x3 convolution for each channel
# by itself, then a 1x1 convolution that mixes the channels. Both numbers fall, by the same factor of 8.4. (Time is a
# third thing: memory must be read and written too.)

# %% [markdown]
# ### Exercise 1.8 · Where does the memory of a training step go?
#
# measure · long · 20 min · 2 points
#
# "Out of memory: reduce the batch size." Whether that helps depends on what fills the memory. Write the instrument that
# tells it.
#
# **Contract**
#
# - Runs exactly one complete step (forward, loss, backward, optimizer.step) and returns a dict of four sizes in
#   *bytes*:
#   - `"parameters"`: all parameters of the model;
#   - `"gradients"`: the `.grad` tensors that are there after backward;
#   - `"optimizer"`: all tensors in the optimizer's state after the step;
#   - `"activations"`: the storages of the tensors that autograd saves for backward during forward and loss, each
#     distinct storage once and with its full size. Storages of parameters are left out; the batch counts if it is
#     saved.
# - Frozen and unused parameters have no gradient and no optimizer state. Any dtype (bytes, not elements) and any
#   optimizer whose `step()` takes no argument will do. Other keys in the dict are ignored.
#
# `torch.autograd.graph.saved_tensors_hooks` shows what autograd saves.
#
# <details><summary>Hint 1</summary>
#
# Which of the four numbers change if you halve the batch? Predict before you measure.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A pack hook sees every tensor that is saved. Two saved tensors may be one storage (a ReLU's output is the next
# layer's input), and a Linear layer saves its weight: key a dict by the storage's data_ptr and leave the parameters'
# storages out. The optimizer's state is filled by the first step.
#
# </details>


# %% answer="training-memory"
def training_memory(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
) -> dict[str, int]:
    """Bytes of "parameters", "gradients", "optimizer" and "activations" for one training step, which it runs."""
    ### BEGIN SOLUTION
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()

    state = [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)]
    return {
        "parameters": sum(parameter.nbytes for parameter in model.parameters()),
        "gradients": sum(parameter.grad.nbytes for parameter in model.parameters() if parameter.grad is not None),
        "optimizer": sum(value.nbytes for value in state),
        "activations": sum(saved.values()),
    }
    ### END SOLUTION


# %% check="training-memory" points=1
"""One complete step; the bytes of parameters, gradients and optimizer state."""
with check("training-memory") as test:

    def mlp(dtype=torch.float32):
        """Three linear layers with 6922 parameters."""
        torch.default_generator.manual_seed(0)
        layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
        return nn.Sequential(*layers).to(dtype)

    def batch(size, dtype=torch.float32):
        """Inputs and targets."""
        generator = torch.Generator().manual_seed(1)
        return [torch.randn(size, n, generator=generator).to(dtype) for n in (32, 10)]

    def watched(training_memory, make, x, y):
        """What is reported for a new model and optimizer; how often what ran; was it one step, and no more?"""
        other, its_optimizer = make()
        F.mse_loss(other(x), y).backward()
        its_optimizer.step()
        wanted = [parameter.detach() for parameter in other.parameters()]
        model, optimizer = make()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        ran = {"forward": 0, "loss": 0, "step": 0}

        def count(name):
            ran[name] += 1

        def loss_fn(out, target):
            count("loss")
            return F.mse_loss(out, target)

        model.register_forward_hook(lambda *args: count("forward"))
        optimizer.register_step_post_hook(lambda *args: count("step"))
        report = training_memory(model, optimizer, loss_fn, x, y)
        after = [parameter.detach() for parameter in model.parameters()]
        keys = ("parameters", "gradients", "optimizer")
        return {
            "type": "dict" if isinstance(report, dict) else type(report).__name__,
            "report": {key: report.get(key) for key in keys} if isinstance(report, dict) else {},
            "ran": ran,
            "changed": any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)),
            "as one step": all(torch.allclose(a, b) for a, b in zip(wanted, after, strict=True)),
        }

    def optimizer_of(name, parameters):
        """An optimizer by name."""
        if name == "Adam":
            return torch.optim.Adam(parameters, lr=0.01)
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9 * (name == "SGD with momentum"))

    def with_mlp(training_memory, name, x, y):
        """Measure a step of the multilayer perceptron with an optimizer."""

        def make():
            model = mlp()
            return model, optimizer_of(name, model.parameters())

        return watched(training_memory, make, x, y)

    def judge(seen, parameters, gradients, optimizer, *mistakes, shown=False):
        """Judge the three sizes, and that one complete step ran."""
        expected = {"parameters": parameters, "gradients": gradients, "optimizer": optimizer}
        seen.that(seen["type"] == "dict", f"A dict is asked for, not {seen['type']}.", stage="type")
        missing = ", ".join(key for key, value in seen["report"].items() if value is None)
        seen.that(not missing, f"The dict has no {missing}.", stage="shape")
        numbers = all(isinstance(value, (int, float)) for value in seen["report"].values())
        seen.that(numbers, "The sizes must be numbers.", stage="type")
        seen.that(seen["changed"], "Run the complete step: the parameters did not change.")
        too_often = [f"{name} {n} times" for name, n in seen["ran"].items() if n != 1]
        seen.that(not too_often, f"Exactly one step is asked for, but it ran {', '.join(too_often)}.", stage="rule")
        seen.that(seen["as one step"], "The parameters are not those after one complete step.")
        wrong = [key for key, value in expected.items() if seen["report"][key] != value]
        off = "; ".join(f"{key}: expected {expected[key]} bytes, got {seen['report'][key]}" for key in wrong)
        seen.that(
            not wrong,
            f"These sizes are off: {off if shown else ', '.join(wrong)}.",
            *mistakes,
            mistake(
                "The sizes are asked for in bytes.",
                when=lambda seen: round(parameters / seen["report"]["parameters"]) in (1000, 1024, 10**6, 2**20),
            ),
            mistake(
                "You counted elements, not bytes: multiply by element_size().",
                when=lambda seen: seen["report"]["parameters"] in (parameters // 4, parameters // 8),
            ),
            mistake(
                "The gradients were cleared before you counted them, or not there yet.",
                when=lambda seen: seen["report"]["gradients"] == 0 < gradients,
            ),
            mistake(
                "The optimizer holds nothing before its first step (state is created lazily): measure after step().",
                when=lambda seen: seen["report"]["optimizer"] == 0 < optimizer,
            ),
            mistake(
                "The optimizer's state depends on the optimizer (Adam: two tensors per parameter plus a step counter, "
                "SGD without momentum: nothing) and on which parameters have gradients: count the tensors in its "
                "state.",
                when=lambda seen: wrong == ["optimizer"],
            ),
        )

    test("three linear layers (6922 parameters) with Adam, batch 64")
    seen = observe_scenario(with_mlp, training_memory, "Adam", *batch(64))
    judge(seen, 27688, 27688, 2 * 27688 + 6 * 4, shown=True)

    test("SGD, without and with momentum")
    judge(observe_scenario(with_mlp, training_memory, "SGD", *batch(64)), 27688, 27688, 0, shown=True)
    seen = observe_scenario(with_mlp, training_memory, "SGD with momentum", *batch(64))
    judge(seen, 27688, 27688, 27688, shown=True)

    ### BEGIN HIDDEN TESTS
    class Counting(torch.optim.Optimizer):
        """An optimizer that keeps a number and a float64 mean for each parameter."""

        def __init__(self, parameters):
            super().__init__(parameters, {})

        @torch.no_grad()
        def step(self):
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter] = {"steps": 1, "name": "mean", "mean": parameter.grad.double().mean(0)}
                parameter -= 0.01 * parameter.grad

    def with_variant(training_memory, name, x, y):
        """Measure a step of a variant, mostly with Adam."""

        def make():
            model = mlp(torch.float64 if name == "double" else torch.float32)
            if name == "frozen":
                model[0].requires_grad_(False)
            if name == "unused":
                model[0].register_parameter("spare", nn.Parameter(torch.ones(100)))
            if name == "buffer":
                model[0].register_buffer("spare", torch.ones(100))
            if name == "tied":
                model[2].bias = model[0].bias
            if name == "an optimizer of one's own":
                return model, Counting(model.parameters())
            parameters = model[4].parameters() if name == "one layer trained" else model.parameters()
            return model, torch.optim.Adam(parameters, lr=0.01)

        return watched(training_memory, make, x, y)

    first_layer, last_layer = (32 * 64 + 64) * 4, (64 * 10 + 10) * 4
    rest = 27688 - first_layer

    test.hidden("a frozen layer")
    judge(
        observe_scenario(with_variant, training_memory, "frozen", *batch(8)),
        27688,
        rest,
        2 * rest + 4 * 4,
        mistake(
            "Frozen parameters take memory as well: all parameters are asked for.",
            when=lambda seen: seen["report"]["parameters"] == rest,
        ),
        mistake(
            "Gradients are not always as big as the parameters: frozen or unused parameters have none.",
            when=lambda seen: seen["report"]["gradients"] == 27688,
        ),
    )

    test.hidden("a parameter that forward does not use")
    judge(
        observe_scenario(with_variant, training_memory, "unused", *batch(8)),
        27688 + 400,
        27688,
        2 * 27688 + 6 * 4,
        mistake(
            "Gradients are not always as big as the parameters: frozen or unused parameters have none.",
            when=lambda seen: seen["report"]["gradients"] == 27688 + 400,
        ),
    )

    test.hidden("a float64 model")
    judge(
        observe_scenario(with_variant, training_memory, "double", *batch(8, torch.float64)),
        2 * 27688,
        2 * 27688,
        4 * 27688 + 6 * 4,
        mistake(
            "You assumed 4 bytes per element; this model is in another dtype.",
            when=lambda seen: seen["report"]["parameters"] == 27688,
        ),
    )

    test.hidden("an optimizer that has one layer only")
    judge(
        observe_scenario(with_variant, training_memory, "one layer trained", *batch(8)),
        27688,
        27688,
        2 * last_layer + 2 * 4,
        mistake(
            "The gradients are those of the model; the optimizer may have fewer parameters.",
            when=lambda seen: seen["report"]["gradients"] == last_layer or seen["report"]["parameters"] == last_layer,
        ),
    )

    test.hidden("an optimizer whose state holds numbers and text besides tensors")
    own = (32 + 64 + 64 + 3) * 8  # the means along dim 0: of three weights, and of three biases
    seen = observe_scenario(with_variant, training_memory, "an optimizer of one's own", *batch(8)).expecting(
        mistake(
            "An optimizer's state may hold other things than tensors: count the tensors only.", raises="Attribute|Type"
        )
    )
    judge(seen, 27688, 27688, own)

    test.hidden("a bias that two layers share")
    shared = 27688 - 256
    judge(
        observe_scenario(with_variant, training_memory, "tied", *batch(8)),
        shared,
        shared,
        2 * shared + 5 * 4,
        mistake(
            "A parameter that two layers share is one parameter: count it once.",
            when=lambda seen: 27688 in (seen["report"]["parameters"], seen["report"]["gradients"]),
        ),
    )

    test.hidden("a buffer")
    judge(
        observe_scenario(with_variant, training_memory, "buffer", *batch(8)),
        27688,
        27688,
        2 * 27688 + 6 * 4,
        mistake(
            "Buffers are no parameters: the state_dict holds both.",
            when=lambda seen: seen["report"]["parameters"] == 27688 + 400,
        ),
    )
    ### END HIDDEN TESTS

# %% check="training-memory" points=1
"""Activations: the distinct storages that autograd saves, without those of the parameters."""
with check("training-memory") as test:

    def mlp(dtype=torch.float32):
        """Three linear layers."""
        torch.default_generator.manual_seed(0)
        layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
        return nn.Sequential(*layers).to(dtype)

    def batch(size, dtype=torch.float32):
        """Inputs and targets."""
        generator = torch.Generator().manual_seed(1)
        return [torch.randn(size, n, generator=generator).to(dtype) for n in (32, 10)]

    def activations(report):
        """The number that is asked for, or what came in its place."""
        if not isinstance(report, dict):
            return f"a dict is asked for, not {type(report).__name__}"
        value = report.get("activations")
        return value if isinstance(value, (int, float)) else 'the dict has no number under "activations"'

    def with_mlp(training_memory, x, y):
        """Measure the activations of the multilayer perceptron."""
        model = mlp()
        report = training_memory(model, torch.optim.Adam(model.parameters()), F.mse_loss, x, y)
        return activations(report)

    def judge_mlp(size):
        """Judge the activations of the multilayer perceptron for a batch of this size."""
        inputs, hidden, outputs, weights = 32 * size * 4, 64 * size * 4, 10 * size * 4, (64 * 64 + 64 * 10) * 4
        expected = inputs + 2 * hidden + 2 * outputs  # x, two outputs of ReLU, the prediction, y
        no_views = expected + 2 * hidden
        known = {
            "You counted elements, not bytes: multiply by element_size().": (expected / 4, no_views / 4),
            "The size is asked for in bytes.": (expected / 1000, expected / 1024, expected / 10**6, expected / 2**20),
            "Saved weights are parameters, already counted there: leave the parameters' storages out of the "
            "activations.": (expected + weights,),
            "The same storage was counted more than once: a ReLU's output and the next layer's input are one tensor "
            "saved twice.": (no_views, no_views + weights),
            "You added up layer outputs. Autograd keeps what the backward formulas need, which is something else (a "
            "Linear needs its input, a ReLU its output, dropout a mask).": (
                4 * hidden + outputs,
                4 * hidden + 2 * outputs,
                4 * hidden + outputs + inputs,
            ),
            "The loss function saves tensors as well: it must run inside the hooks.": (expected - 2 * outputs,),
            "The batch counts too where it is saved: the first layer needs x for the gradient of its weight, the loss "
            "needs y.": (expected - inputs, expected - inputs - outputs, expected - outputs),
        }
        seen = observe_scenario(with_mlp, training_memory, *batch(size))
        seen.that(not isinstance(seen.value, str), f"No activations were reported: {seen.value}.", stage="type")
        seen.that(
            seen.value == expected,
            f"The activations are {expected} bytes here, got {seen.value}.",
            *[
                mistake(sentence, when=lambda seen, sizes=sizes: seen.value in sizes)
                for sentence, sizes in known.items()
            ],
        )

    test("three linear layers, batch 64")
    judge_mlp(64)

    test("batch 32: half of it")
    judge_mlp(32)

    ### BEGIN HIDDEN TESTS
    class Slices(nn.Module):
        """Saves two slices of one large tensor."""

        def __init__(self):
            super().__init__()
            self.wide, self.last = nn.Linear(6, 40), nn.Linear(3, 2)

        def forward(self, x):
            wide = self.wide(x)
            return self.last(wide[:, :3] ** 2 + wide[:, 20:23].sin())

    class PartOfWeight(nn.Module):
        """Uses the last rows of a weight only."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(12, 32))

        def forward(self, x):
            return F.linear(x.sin(), self.weight[2:]).tanh() * self.weight[5, 3]

    def in_one_storage(model):
        """The model, with all its parameters in one large tensor, a few numbers apart from its beginning."""
        flat, place = torch.zeros(8000), 8
        for parameter in model.parameters():
            part = flat[place : place + parameter.numel()].view_as(parameter)
            parameter.data = part.copy_(parameter.detach())
            place += parameter.numel()
        return model

    def case(name):
        """A model, a loss function, x and y."""
        torch.default_generator.manual_seed(2)
        if name == "slices":
            return Slices(), F.mse_loss, torch.randn(5, 6), torch.randn(5, 2)
        if name == "labels":
            return mlp(), F.cross_entropy, batch(16)[0], torch.randint(10, (16,))
        if name == "double":
            return mlp(torch.float64), F.mse_loss, *batch(16, torch.float64)
        if name == "dropout":
            model = nn.Sequential(nn.Linear(32, 20), nn.Dropout(0.3), nn.Linear(20, 10), nn.Tanh())
            return model, F.l1_loss, *batch(16)
        if name == "part of a weight":
            return PartOfWeight(), F.mse_loss, batch(16)[0].requires_grad_(), batch(16)[1]
        if name == "one storage":
            return in_one_storage(mlp()), F.mse_loss, *batch(16)
        model = mlp()
        if name == "frozen":
            model[0].requires_grad_(False)
        if name == "all frozen but the last bias":
            model.requires_grad_(False)[4].bias.requires_grad_(True)
        if name == "intermediate results":
            return model, lambda out, target: ((out - target) * out.exp()).mean(), *batch(16)
        return model, F.mse_loss, *batch(16)

    def with_case(training_memory, name):
        """Measure the activations of one of the cases, with plain SGD."""
        model, loss_fn, x, y = case(name)
        torch.default_generator.manual_seed(3)
        return activations(training_memory(model, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, x, y))

    def saved(name):
        """What autograd saves in one of the cases: the tensors, without those that lie in parameters."""
        model, loss_fn, x, y = case(name)
        parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        kept = []
        torch.default_generator.manual_seed(3)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            loss_fn(model(x), y)
        return [tensor for tensor in kept if tensor.untyped_storage().data_ptr() not in parameters]

    view_elements = mistake(
        "Count the storage that is kept alive, not the elements of the view that was saved (a saved slice keeps the "
        "whole storage).",
        stage="value",
        when=lambda seen: isinstance(seen.value, (int, float)),
    )
    four_bytes = mistake(
        "You assumed 4 bytes per element; this model is in another dtype.",
        when=lambda seen: seen.value == expected / 2,
    )
    in_weight = mistake(
        "Storages of parameters are left out, also where the parameter, or what is saved of it, is only a part of the "
        "storage.",
        when=lambda seen: seen.value > expected,
    )
    for idea, name, *mistakes in (
        ("two slices of one tensor are saved", "slices", view_elements),
        ("a float64 model", "double", four_bytes),
        ("cross_entropy saves its labels too", "labels"),
        ("a frozen first layer does not need x", "frozen"),
        ("hardly anything is trained", "all frozen but the last bias"),
        ("dropout saves a mask", "dropout"),
        ("a loss function with intermediate results", "intermediate results"),
        ("a part of a weight is saved", "part of a weight", in_weight),
        ("all parameters in one large storage", "one storage", in_weight),
    ):
        test.hidden(f"activations: {idea}")
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in saved(name)}
        expected = sum(storages.values())
        seen = observe_scenario(with_case, training_memory, name)
        seen.that(
            seen.value == expected,
            "Another number of bytes is saved here. A pack hook sees every saved tensor; count each storage once.",
            *mistakes,
        )
    ### END HIDDEN TESTS

# %% [markdown]
# ## 1.7 Which of several GPUs?
#
# **Predict.** A job was started with `CUDA_VISIBLE_DEVICES=3` and reports a crash on `cuda:0`. Which card is that?

# %% facts=["01-cuda-visible-devices-env", "01-visible-devices-before-import"]
code = """
import os
import torch

for value in ("3", "2,0", "", "-1", "0,-1,2"):
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    print(f"{value!r:9} leaves the cards {torch.cuda._parse_visible_devices()}")
print("CUDA has been started:", torch.cuda.is_initialized())
"""
run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
print(run.stdout.strip())

# %% [markdown]
# Card number 3. The variable selects *and renumbers*: the process sees the cards of the list, in this order, and counts
# them from 0. An empty value hides all of them, and so does -1: reading stops at the first entry that names no card.
# (`_parse_visible_devices` is PyTorch's own reader, a private function; it doesn't look whether the cards exist.)
#
# The cell also shows when the variable is read. It was changed *after* `import torch`, five times, and each change
# counted: the import does not start CUDA. The deadline is the first call that does. Setting it in the shell, before
# Python starts, is still the safest habit.
#
# **Predict.** Two ways to write `with`: `torch.device("meta")` and `torch.cuda.device(0)`. Which of them changes where
# `torch.ones(2)` is made?

# %% facts=["01-cuda-device-context-manager"] varies="a GPU changes the answers"
with torch.device("meta"):
    print("inside torch.device:     ", torch.ones(2).device)
print("after it:                ", torch.ones(2).device)


def select_card() -> None:
    with torch.cuda.device(0):
        print("inside torch.cuda.device:", torch.ones(2).device)


if torch.cuda.is_available():
    select_card()
else:
    error_of(select_card)

# %% [markdown] facts=["01-set-device-discouraged"]
# The first: it is the default device for everything that is made in the block. `torch.cuda.device(d)` only selects
# which card the word "cuda" means; a plain `torch.ones(2)` stays on the CPU. On a CPU build there is nothing to select,
# and it raises.
#
# `torch.cuda.set_device(d)` selects a card until further notice. Its own documentation discourages it, in favour of
# `CUDA_VISIBLE_DEVICES` or the block. Programs that run one process for each GPU (chapter 10) call it all the same,
# once at their start; the portable form is `torch.accelerator.set_device_index(d)`.

# %% [markdown]
# ## On a GPU
#
# What this chapter says about GPUs, to be tried on one. Without a CUDA device each of the next cells prints one line,
# and this chapter comes with no recording of what they print elsewhere. No exercise needs them: read on, or run them
# when you have a GPU at hand.
#
# **Predict.** Which lines of the report of section 1.1 differ on a machine with a GPU?


# %% facts=["01-torch-version-cuda", "01-cudnn-version-call"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def report_with_a_gpu() -> None:
    """The report of section 1.1, and the number in the corner of nvidia-smi."""
    show_report()
    try:
        corner = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=60).stdout
    except OSError:
        corner = ""
    found = re.search(r"CUDA[^:|]*Version: *([\d.]+)", corner)
    print("nvidia-smi:", f"CUDA {found[1]}" if found else "says nothing of CUDA")


report_with_a_gpu()

# %% [markdown]
# The number of `nvidia-smi` is that of the driver, `build` is that of the wheel. They need not agree.
#
# **Predict.** Which of the two comparisons is True? And does a card that doesn't exist raise when it is named, or when
# memory is wanted there?


# %% facts=["01-cuda-vs-cuda0-identical", "01-device-index-out-of-range"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def labels_on_a_gpu() -> None:
    """Compare the device of a CUDA tensor with labels; allocate on a card that does not exist."""
    x = torch.zeros(1, device="cuda")
    print("x.device:", x.device)
    print("equals cuda:", x.device == torch.device("cuda"))
    print("equals cuda with the current index:", x.device == torch.device("cuda", torch.cuda.current_device()))
    error_of(lambda: torch.zeros(1, device=f"cuda:{torch.cuda.device_count()}"), lines=1)


labels_on_a_gpu()

# %% [markdown]
# The second comparison: the device of a tensor has its index, the label "cuda" has none (section 1.2). And the error
# comes with the memory.
#
# **Predict.** `CUDA_VISIBLE_DEVICES=-1` is set at three moments. Which of the three hides the card?


# %% facts=["01-visible-devices-before-import", "01-cuda-visible-devices-env"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def too_late_to_hide() -> None:
    """Hide all cards before the import, after it, and after CUDA has started; each in a process of its own."""
    hide = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'"
    count = "print(torch.cuda.device_count(), 'cards,', 'available:', torch.cuda.is_available())"
    programs = {
        "before the import": (hide, "import torch", count),
        "after the import": ("import torch", hide, count),
        "after the first CUDA call": ("import torch", "torch.zeros(1, device='cuda')", hide, count),
    }
    for moment, lines in programs.items():
        run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)
        print(f"{moment:26} {run.stdout.strip() or 'raised an error'}")


too_late_to_hide()

# %% [markdown]
# The first two, for the deadline is the first CUDA call (section 1.7).
#
# **Predict.** A product of two matrices of 4096 by 4096, in four formats. Which is slowest? And what does the clock
# show if nobody waits for the GPU? (TF32 is a way to multiply float32 matrices with fewer digits.)


# %% facts=["01-bf16-faster-on-gpu", "01-copy-forces-sync"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def formats_against_the_clock() -> None:
    """Time a matrix product in four formats, with and without waiting for the GPU."""

    def milliseconds(a: Tensor, wait: bool) -> float:
        for _ in range(5):
            a @ a
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            a @ a
        if wait:
            torch.cuda.synchronize()
        taken = (time.perf_counter() - start) / 20 * 1000
        torch.cuda.synchronize()
        return taken

    before = torch.get_float32_matmul_precision()
    print(f"{'':16}{'waited for':>14}{'only queued':>14}")
    for name, dtype, precision in (
        ("float32", torch.float32, "highest"),
        ("float32 as TF32", torch.float32, "high"),
        ("bfloat16", torch.bfloat16, "highest"),
        ("float16", torch.float16, "highest"),
    ):
        torch.set_float32_matmul_precision(precision)
        try:
            a = torch.rand(4096, 4096, device="cuda").to(dtype)
            print(f"{name:16}{milliseconds(a, True):11.3f} ms{milliseconds(a, False):11.3f} ms")
        finally:
            torch.set_float32_matmul_precision(before)


formats_against_the_clock()

# %% [markdown]
# The right column is the time to put a product into the queue; it has nothing to do with the product. In the left one
# compare each format with float32. bfloat16 gains on cards with units for it, as float16 does; older cards only imitate
# it.
#
# **Predict.** The bars of section 1.6, asked of the GPU: how much is allocated after the model is made, after backward,
# after `step()`? Which of these numbers change with the batch?


# %% facts=["01-memory-is-params-plus-intermediates"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def memory_on_a_gpu() -> None:
    """Bytes allocated on the GPU in the course of a training step; the first line warms up."""
    for batch in (64, 64, 128):
        start = torch.cuda.memory_allocated()

        def taken(start: int = start) -> int:
            return torch.cuda.memory_allocated() - start

        model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        print(f"batch {batch}: model {taken():,}", end="")
        x, y = torch.zeros(batch, 256, device="cuda"), torch.zeros(batch, dtype=torch.int64, device="cuda")
        loss = F.cross_entropy(model(x), y)
        print(f", after forward {taken():,}", end="")
        loss.backward()
        print(f", after backward {taken():,}", end="")
        optimizer.step()
        print(f", after step {taken():,} bytes")
        del model, optimizer, x, y, loss


memory_on_a_gpu()

# %% [markdown]
# Compare the second line with the third; in the first, libraries may also take working space that they keep.
# `memory_allocated` counts in pieces of 512 bytes, so expect numbers a little above the bars. After backward the
# activations are no longer needed, and the gradients are there.
#
# **Predict.** A result is copied to the CPU while the GPU is still at work. Which of the two copies returns at once?


# %% facts=["01-copy-forces-sync"] varies="a CUDA device changes it"
@cuda_demo("01_backends")
def copies_that_wait() -> None:
    """Time until a copy to the CPU returns, and until the GPU has finished."""
    a = torch.rand(8192, 8192, device="cuda")
    ordinary, pinned = torch.empty(8192, 8192), torch.empty(8192, 8192, pin_memory=True)
    for name, target, non_blocking in (("copy_", ordinary, False), ("copy_, non_blocking", pinned, True)):
        a @ a
        torch.cuda.synchronize()
        start = time.perf_counter()
        target.copy_(a @ a, non_blocking=non_blocking)
        returned = time.perf_counter() - start
        torch.cuda.synchronize()
        finished = time.perf_counter() - start
        print(f"{name:22} returns after {returned * 1000:7.2f} ms, the GPU is ready after {finished * 1000:7.2f} ms")


copies_that_wait()

# %% [markdown]
# The second: with `non_blocking=True` and *pinned* memory (which the system promises not to move) a copy is only
# queued. A copy into ordinary memory waits. Without waiting yourself, don't read the target: the numbers may not be
# there yet.

# %% [markdown]
# ## Folklore, checked
#
# What people say about installing, devices and number formats, and what is so. Each row unfolds its proof: a few lines
# that run through only if the statement on the right holds.

# %%
folklore(
    "01_backends",
    ids=[
        "01-doc-is-for-2-3",
        "01-conda-pytorch-channel-ended",
        "01-conda-main-only-cpu-build",
        "01-cuda-toolkit-must-be-installed",
        "01-cudnn-enabled-is-a-switch",
        "01-device-object-moves-nothing",
        "01-device-types-only-cpu-and-cuda",
        "01-visible-devices-before-import",
        "01-memory-is-params-plus-intermediates",
        "01-momentum-used-in-backward",
        "01-mobilenet-more-params-less-compute",
        "01-bf16-range-versus-precision",
        "01-bf16-faster-on-gpu",
    ],
)

# %% [markdown]
# A proof can be run by its name. It prints one line if the fact holds on this machine and with this version of PyTorch,
# and raises if it does not.

# %%
prove("01-device-object-moves-nothing")

# %% [markdown]
# ## Where to read on
#
# In the documentation of PyTorch:
#
# - "Get Started" on pytorch.org: the command that installs the build you want;
# - `torch.backends`: the questions of section 1.1, and more switches;
# - `torch.accelerator`, and the section on `torch.device` of the page "Tensor Attributes";
# - "Meta device";
# - "CUDA semantics": asynchronous execution, how memory is managed, the variables of the environment;
# - `torch.finfo` and the page "Numerical accuracy";
# - `torch.autograd.graph.saved_tensors_hooks`, for a look at what autograd keeps.
#
# On conda-forge's pages: "NVIDIA CUDA packages".
