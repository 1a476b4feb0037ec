"""Write requirements.lock and environment.yml anew: make lock.

Runs in any Python, before anything is installed. It makes a fresh environment in a temporary folder, installs
what pyproject.toml asks for, with torch at TORCH, and notes the version of everything that came.
"""

import os
import re
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TORCH = "2.13.0"
NOT_LOCKED = {"pip", "torchkata", "wheel"}
# packages that exist on some systems only
MARKERS = {
    "pexpect": 'sys_platform != "win32"',
    "ptyprocess": 'os_name != "nt"',
}
# what a CUDA build of torch brings along; torch itself asks for exact versions of these
BROUGHT_BY_TORCH = re.compile(r"(nvidia-|cuda-|triton)", re.IGNORECASE)

LOCK_HEADER = "# The exact versions that make lab, make test and CI install. Made by: make lock\n"
ENVIRONMENT = """\
# For conda users: the same versions as in requirements.lock. Made by: make lock
#     conda env create -f environment.yml
#     conda activate torchkata
#     pip install --no-deps --no-build-isolation -e .
name: torchkata
channels:
  - conda-forge
dependencies:
  - python>=3.11,<3.14
  - pip
  - pip:
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pins = locked(_freeze(Path(folder)))
    (ROOT / "requirements.lock").write_text(lock_text(pins), encoding="utf-8")
    (ROOT / "environment.yml").write_text(environment_text(pins), encoding="utf-8")
    print(f"Locked {len(pins)} packages.")


def locked(freeze: str) -> list[str]:
    """The pins for the lock file, from what `pip freeze --all` printed."""
    pins = []
    for line in freeze.splitlines():
        name, separator, version = line.partition("==")
        if line.startswith("#") or not separator:
            continue
        if name.lower() in NOT_LOCKED or BROUGHT_BY_TORCH.match(name):
            continue
        marker = f"; {MARKERS[name]}" if name in MARKERS else ""
        pins.append(f"{name}=={version.partition('+')[0]}{marker}")
    return sorted(pins, key=str.lower)


def lock_text(pins: list[str]) -> str:
    return LOCK_HEADER + "".join(f"{pin}\n" for pin in pins)


def environment_text(pins: list[str]) -> str:
    return ENVIRONMENT + "".join(f"      - {_yaml_text(pin)}\n" for pin in pins)


def _yaml_text(pin: str) -> str:
    return f"'{pin}'" if ";" in pin else pin


def _freeze(folder: Path) -> str:
    """Install everything into a fresh environment in folder; what `pip freeze --all` prints there."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [str(python), "-m", "pip"]
    wanted = [f"torch=={TORCH}", "setuptools", f"{ROOT}[cluster,test]"]
    subprocess.run([*pip, "install", *wanted], check=True)
    freeze = subprocess.run([*pip, "freeze", "--all"], check=True, capture_output=True, text=True)
    return freeze.stdout


if __name__ == "__main__":
    main()
