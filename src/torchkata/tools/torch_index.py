"""Which build of torch `make` installs: prints options for pip, and on stderr what will come.

    python torch_index.py LOCK WANTED

WANTED is the value of TORCH_INDEX: an index of packages that torch is taken from; "pip" for what pip finds by itself;
"auto" for PyTorch's own index of CPU builds, on a Linux machine without an NVIDIA device and where that index answers.
Runs before anything is installed.
"""

import platform
import shutil
import sys
import threading
from pathlib import Path
from urllib.request import Request, urlopen

CPU = "https://download.pytorch.org/whl/cpu"
PATIENCE = 5  # seconds for the index to answer, looking up its name included
SMALL, LARGE = "about 1 GB on disk", "about 5 GB on disk, most of it CUDA"


def main(lock: str, wanted: str) -> None:
    options, note = choose(wanted)
    count = sum(not line.startswith("#") for line in Path(lock).read_text(encoding="utf-8").splitlines())
    print(f"{count} packages will come. {note}", file=sys.stderr)
    print(*options)


def choose(wanted: str) -> tuple[list[str], str]:
    """Options for pip, and a sentence on the build of torch that comes."""
    if wanted == "pip":
        return [], "torch comes from where pip finds it."
    if wanted != "auto":
        return ["--extra-index-url", wanted], f"torch comes from {wanted}."
    if platform.system() != "Linux":
        return [], f"With torch that is {SMALL}."
    if has_nvidia_device():
        return [], f"There is an NVIDIA device: torch comes with CUDA where pip finds that, {LARGE}."
    if answers(CPU):
        how = "make lab TORCH_INDEX=pip takes what pip finds instead."
        return ["--extra-index-url", CPU], f"No NVIDIA device here: torch comes as its CPU build, {SMALL}. {how}"
    return [], (
        "No NVIDIA device here, but the index of CPU builds does not answer: torch comes from where pip finds it. "
        f"From PyPI that is {LARGE}."
    )


def has_nvidia_device() -> bool:
    """Whether a driver has found one; under WSL the driver is Windows's and brings nvidia-smi."""
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def answers(index: str) -> bool:
    """Whether an index can be reached within seconds; never waits longer, not even for the look-up of its name."""
    found = []

    def ask() -> None:
        try:
            with urlopen(Request(f"{index}/", method="HEAD"), timeout=PATIENCE):
                found.append(True)
        except (OSError, ValueError):  # no network, no such name, a refusal, no address
            pass

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return bool(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
