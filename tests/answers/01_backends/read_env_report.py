# corners: equal values, empty

import re

from torch.torch_version import TorchVersion


def numbers(version):
    return [int(part) for part in re.match(r"[\d.]*\d", version)[0].split(".")[:3]]


def too_old(report):
    return numbers(report["torch"]) < numbers(report["needs_torch"])


def hides_all(report):
    visible = report["visible_devices"]
    if visible is None:
        return False
    first = visible.split(",")[0].strip()
    return not first.isdigit() or int(first) >= report["cards"]


def older_driver(report):
    return int(report["driver_cuda"].split(".")[0]) < int(report["built_cuda"].split(".")[0])


def from_driver_on(report):
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


def from_build_on(report):
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    return from_driver_on(report)


# %% right: torch's own TorchVersion, an if chain
def diagnose(report):
    if TorchVersion(report["torch"]) < TorchVersion(report["needs_torch"]):
        return "torch-too-old"
    elif report["built_cuda"] is None:
        return "cpu-build"
    elif report["cuda_available"] and report["device_count"] >= 1:
        return "ok"
    elif report["driver_cuda"] is None:
        return "no-driver"
    elif report["cards"] == 0:
        return "no-card"
    elif hides_all(report):
        return "hidden-by-env"
    elif older_driver(report):
        return "driver-too-old"
    return "unknown"


# %% right: a table of reasons, integers, all entries up to the first bad one
def visible_cards(report):
    visible = report["visible_devices"]
    if visible is None:
        return list(range(report["cards"]))
    cards = []
    for entry in visible.split(","):
        try:
            number = int(entry)
        except ValueError:
            break
        if not 0 <= number < report["cards"]:
            break
        cards.append(number)
    return cards


REASONS = [
    ("torch-too-old", lambda r: numbers(r["torch"]) < numbers(r["needs_torch"])),
    ("cpu-build", lambda r: r["built_cuda"] is None),
    ("ok", lambda r: r["cuda_available"] and r["device_count"]),
    ("no-driver", lambda r: r["driver_cuda"] is None),
    ("no-card", lambda r: not r["cards"]),
    ("hidden-by-env", lambda r: not visible_cards(r)),
    ("driver-too-old", lambda r: float(r["driver_cuda"]) // 1 < float(r["built_cuda"]) // 1),
]


def diagnose(report):
    return next((code for code, applies in REASONS if applies(report)), "unknown")


# %% right: takes the keys apart by pattern matching
def diagnose(report):
    match report:
        case {"torch": old, "needs_torch": new} if numbers(old) < numbers(new):
            return "torch-too-old"
        case {"built_cuda": None}:
            return "cpu-build"
        case {"cuda_available": True, "device_count": int(count)} if count > 0:
            return "ok"
        case {"driver_cuda": None}:
            return "no-driver"
        case {"cards": 0}:
            return "no-card"
    return "hidden-by-env" if hides_all(report) else "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: compares the version strings as text
# says: Versions are not text and not decimals: as text '2.13' < '2.9'
# earns: 1 of 2
# lesson
def diagnose(report):
    if report["torch"] < report["needs_torch"]:
        return "torch-too-old"
    return from_build_on(report)


# %% wrong: turns '2.13' into the number 2.13
# says: Versions are not text and not decimals: as text '2.13' < '2.9', as a number 2.13 < 2.9.
# earns: 1 of 2
def diagnose(report):
    def number(version):
        return float(".".join(version.split(".")[:2]))

    return "torch-too-old" if number(report["torch"]) < number(report["needs_torch"]) else from_build_on(report)


# %% wrong: compares lists of strings
# says: Versions are not text and not decimals
# earns: 1 of 2
def diagnose(report):
    if report["torch"].split(".") < report["needs_torch"].split("."):
        return "torch-too-old"
    return from_build_on(report)


# %% wrong: leaves the third number out
# says: The third number of a version also counts: 2.9.0 is older than 2.9.1.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if numbers(report["torch"])[:2] < numbers(report["needs_torch"])[:2]:
        return "torch-too-old"
    return from_build_on(report)


# %% wrong: cannot read a nightly
# says: A version may carry more than numbers
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    installed = [int(part) for part in report["torch"].split("+")[0].split(".")]
    if installed < [int(part) for part in report["needs_torch"].split(".")]:
        return "torch-too-old"
    return from_build_on(report)


# %% wrong: demands a newer version than the demanded one
# says: A version equal to needs_torch is not too old.
# earns: 1 of 2
# corner: equal values
# caught: hidden
def diagnose(report):
    needed = numbers(report["needs_torch"])
    if numbers(report["torch"])[: len(needed)] <= needed:
        return "torch-too-old"
    return from_build_on(report)


# %% wrong: checks is_available before the demanded version
# says: You returned ok although the report needs a newer torch: `needs_torch` comes first.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    return from_driver_on(report)


# %% wrong: looks at the version last
# says: The report needs a newer torch, and `needs_torch` comes before all other reasons.
# earns: 1 of 2
def diagnose(report):
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if too_old(report):
        return "torch-too-old"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: recognises the CPU build by '+cpu' in the version
# says: You looked for '+cpu' in the version.
# earns: 1 of 2
# lesson
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if "+cpu" in report["torch"]:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    return from_driver_on(report)


# %% wrong: recognises the CPU build by '+cpu' and expects no other
# says: You looked for '+cpu' in the version.
# earns: 1 of 2
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["torch"].endswith("+cpu"):
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report):
        return "hidden-by-env"
    if report["built_cuda"] and older_driver(report):
        return "driver-too-old"
    return "unknown"


# %% wrong: takes cudnn_enabled for a proof that the GPU works
# says: `cudnn_enabled` is a switch that is True by default, on CPU-only builds too
# says: CUDA is not available in this report
# earns: 0 of 2
# lesson
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["cuda_available"] or report["cudnn_enabled"]:
        return "ok"
    if report["built_cuda"] is None:
        return "cpu-build"
    return "no-driver" if report["driver_cuda"] is None else "unknown"


# %% wrong: takes an existing cuDNN (a build fact) for a working GPU
# says: Neither can tell you that the GPU works.
# says: CUDA is not available in this report
# earns: 0 of 2
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cudnn_version"] is not None:
        return "ok"
    return from_driver_on(report)


# %% wrong: trusts nvidia-smi
# says: You returned ok because nvidia-smi lists cards.
# earns: 1 of 2
# lesson
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["cards"] > 0 and not hides_all(report):
        return "ok"
    if report["built_cuda"] is None:
        return "cpu-build"
    return "no-driver" if report["driver_cuda"] is None else "hidden-by-env" if report["cards"] else "no-card"


# %% wrong: demands that nvidia-smi's CUDA version equals torch.version.cuda
# says: The driver's CUDA number is the newest runtime it can serve, not the one you use
# earns: 1 of 2
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["driver_cuda"] != report["built_cuda"]:
        return "driver-too-old"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    return "no-card" if report["cards"] == 0 else "hidden-by-env" if hides_all(report) else "unknown"


# %% wrong: any difference of the CUDA versions is the cause when nothing else is
# says: a newer driver runs older builds. Only a smaller major number is a problem
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if report["driver_cuda"].split(".")[0] != report["built_cuda"].split(".")[0] else "unknown"


# %% wrong: compares CUDA versions as text
# says: You compared CUDA versions as text: '9.2' > '12.6' there.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if report["driver_cuda"].split(".")[0] < report["built_cuda"].split(".")[0] else "unknown"


# %% wrong: compares the minor number of CUDA too
# says: Only a smaller major number is a problem
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if numbers(report["driver_cuda"]) < numbers(report["built_cuda"]) else "unknown"


# %% wrong: treats only the empty variable as hiding
# says: An empty CUDA_VISIBLE_DEVICES is not the only one that hides everything: '-1' also does, and so does
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if report["visible_devices"] == "":
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: one invalid entry counts as hiding everything
# says: the valid ones before it stay visible ('0,5' leaves card 0)
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    entries = [] if report["visible_devices"] is None else report["visible_devices"].split(",")
    if any(not e.strip().isdigit() or int(e) >= report["cards"] for e in entries):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: any valid entry counts, also after a bad one
# says: valid ones that come after it are not read
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    visible = report["visible_devices"]
    if visible is not None and not any(e.strip().isdigit() and int(e) < report["cards"] for e in visible.split(",")):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: a variable that is set hides the cards
# says: This machine works: CUDA is available, and one card is left.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] == report["cards"] > 0:
        return "ok"
    if report["driver_cuda"] is None and not report["cuda_available"]:
        return "no-driver"
    if report["cuda_available"] and report["visible_devices"] is None and report["device_count"]:
        return "ok"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report) or report["cuda_available"] and report["visible_devices"] is not None:
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: numbers the cards from 1
# says: With two cards the numbers are 0 and 1: there is no card 2.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
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
        if not first.isdigit() or int(first) > report["cards"]:
            return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: blames driver and cards before the build
# says: You blamed driver or card first. A CPU build cannot see any card, whatever the driver
# earns: 1 of 2
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if report["built_cuda"] is None:
        return "cpu-build"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: cuda_available alone means ok
# says: `ok` needs both: CUDA available, and at least one device.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"]:
        return "ok"
    return from_driver_on(report)


# %% wrong: a device count alone means ok
# says: `ok` needs both: CUDA available, and at least one device.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["device_count"]:
        return "ok"
    return from_driver_on(report)


# %% wrong: asks for the driver before it looks whether CUDA works
# says: CUDA is available and there is a device: this machine works
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["cards"] == 0:
        return "no-card"
    if hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: takes entries out of the dict
# says: Your code changed what the caller passed in: report no longer holds torch and needs_torch
# earns: 1 of 2
def diagnose(report):
    if numbers(report.pop("torch")) < numbers(report.pop("needs_torch")):
        return "torch-too-old"
    return from_build_on(report)


# %% wrong: sentences in place of codes
# says: That is none of the codes: write them exactly as the contract does.
# earns: 0 of 2
def diagnose(report):
    if too_old(report):
        return "your torch is too old"
    return "fine" if report["cuda_available"] else "no GPU"


# %% wrong: prints the code
# says: expected a str, got None
# earns: 0 of 2
def diagnose(report):
    print("ok" if report["cuda_available"] else "cpu-build")


# %% wrong: a missing variable hides the cards
# says: None means that the variable is not set: then nothing is hidden.
# earns: 1 of 2
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if not report["visible_devices"] or hides_all(report):
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% right: packaging's Version, the number before the point
def diagnose(report):
    if Version(report["torch"].partition("+")[0]) < Version(report["needs_torch"]):
        return "torch-too-old"
    if not report["built_cuda"]:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"]:
        return "ok"
    if not report["driver_cuda"]:
        return "no-driver"
    if not report["cards"]:
        return "no-card"
    visible = report["visible_devices"]
    if visible is not None and visible.split(",")[0].strip() not in map(str, range(report["cards"])):
        return "hidden-by-env"
    return "driver-too-old" if Version(report["driver_cuda"]).major < Version(report["built_cuda"]).major else "unknown"


# %% wrong: underscores in the codes
# says: That is none of the codes: write them exactly as the contract does.
# earns: 0 of 2
def diagnose(report):
    return ("torch-too-old" if too_old(report) else from_build_on(report)).replace("-", "_")


# %% wrong: a list of codes
# says: The function must return one of the codes, as text: expected a str, got a list.
# earns: 0 of 2
def diagnose(report):
    return ["torch-too-old" if too_old(report) else from_build_on(report)]


# %% wrong: the driver's age before the variable
# says: The order of the contract decides: another reason comes first here.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    code = "torch-too-old" if too_old(report) else from_build_on(report)
    return "driver-too-old" if code == "hidden-by-env" and older_driver(report) else code


# %% wrong: always the same code
# says: This report asks for another code: expected 'ok', got 'unknown'.
# says: This report asks for another code
# earns: 0 of 2
def diagnose(report):
    return "unknown"


# %% wrong: a driver of the same major number is too old
# says: A driver serves every build of its own major number
# earns: 1 of 2
def diagnose(report):
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
    if int(report["driver_cuda"].split(".")[0]) <= int(report["built_cuda"].split(".")[0]):
        return "driver-too-old"
    return "unknown"


# %% wrong: skips empty entries
# says: An empty entry is no card: reading stops there
# earns: 1 of 2
# corner: empty
# caught: hidden
def diagnose(report):
    def numbers(version):
        return [int(part) for part in version.partition("+")[0].split(".")[:3] if part.isdigit()]

    installed, needed = numbers(report["torch"]), numbers(report["needs_torch"])
    if installed < needed:
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
        entries = [entry.strip() for entry in report["visible_devices"].split(",") if entry.strip()]
        if not entries or not entries[0].isdigit() or int(entries[0]) >= report["cards"]:
            return "hidden-by-env"
    if int(report["driver_cuda"].split(".")[0]) < int(report["built_cuda"].split(".")[0]):
        return "driver-too-old"
    return "unknown"


# %% wrong: the driver's age is no reason
# says: A driver for an older major number of CUDA cannot serve this build.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    code = from_driver_on(report)
    return "unknown" if code == "driver-too-old" else code


# %% wrong: only card 0 can be shown
# says: A card stays visible here: `hidden-by-env` is not the reason.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    code = from_driver_on(report)
    visible = report["visible_devices"]
    return "hidden-by-env" if code == "unknown" and visible and visible.split(",")[0].strip() == "1" else code


# %% wrong: makes a number of an empty entry
# says: The order of the contract decides: another reason comes first here.
# says: An empty entry is no card number:
# earns: 0 of 2
# corner: empty
def diagnose(report):
    if too_old(report):
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
        first = int(report["visible_devices"].split(",")[0])
        if not 0 <= first < report["cards"]:
            return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: takes a missing variable apart
# says: None means that the variable is not set: your code
# earns: 1 of 2
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    first = report["visible_devices"].split(",")[0].strip()
    if not first.isdigit() or int(first) >= report["cards"]:
        return "hidden-by-env"
    return "driver-too-old" if older_driver(report) else "unknown"


# %% wrong: compares versions without their first number
# says: The major number decides first: 3.0 is newer than 2.9, and 1.13 older than 2.0.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if numbers(report["torch"])[1:] < numbers(report["needs_torch"])[1:]:
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    return from_driver_on(report)


# %% wrong: blanks make an entry no number
# says: Blanks around an entry of CUDA_VISIBLE_DEVICES do not matter.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    code = from_driver_on(report)
    visible = report["visible_devices"]
    blank = visible is not None and visible.startswith(" ")
    return "hidden-by-env" if code in ("unknown", "driver-too-old") and blank else code


# %% wrong: the first digit is the number of the card
# says: Entries are whole numbers: '12' is card 12.
# earns: 1 of 2
# caught: hidden
def diagnose(report):
    visible = report["visible_devices"]
    return diagnosed(report if visible is None else report | {"visible_devices": visible.strip()[:1]})


def diagnosed(report):
    if too_old(report):
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    return from_driver_on(report)
