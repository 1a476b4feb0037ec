"""Write requirements.lock, requirements-lab.lock and environment.yml anew: make lock.

Runs before anything is installed, in the lowest Python that pyproject.toml promises. It makes a fresh environment in a
temporary folder, installs what pyproject.toml asks for with all its extras, with torch at TORCH, and notes the version
of everything that came: the newest that also goes with the first release of that Python. That is requirements.lock.
What learning alone needs of it goes into requirements-lab.lock, with the same versions.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TORCH = "2.13.0"
BUILD_BACKEND = "setuptools"  # make installs the course itself with it
NOT_LOCKED = {"pip", "torchkata", "wheel"}
# from 4.25 on, JupyterLab brings rfc3987-syntax along, which builds grammars whenever jsonschema is imported, for a
# second: https://github.com/python-jsonschema/jsonschema/issues/1428. The course's own commands keep it out (see
# skip_rare_formats), but JupyterLab, nbgrader and pytest do not.
HELD_BACK = ["jsonschema<4.25"]
# packages that exist on some systems only
MARKERS = {
    "pexpect": 'sys_platform != "win32"',
    "ptyprocess": 'os_name != "nt"',
}
# what a CUDA build of torch brings along; torch itself asks for exact versions of these
BROUGHT_BY_TORCH = re.compile(r"(nvidia-|cuda-|triton)", re.IGNORECASE)

ALL = "requirements.lock"
LEARNING = "requirements-lab.lock"
HEADERS = {
    ALL: "# The exact versions that make install, make test and CI install. Made by: make lock\n",
    LEARNING: f"# What make lab installs: the part of {ALL} that learning needs. Made by: make lock\n",
}
ENVIRONMENT = """\
# For conda users: the same versions as in requirements.lock. Made by: make lock
#     conda env create -f environment.yml
#     conda activate torchkata
#     pip install --no-deps --no-build-isolation -e .
name: torchkata
channels:
  - conda-forge
dependencies:
  - python>=3.11,<3.15
  - pip
  - pip:
"""


def main() -> None:
    lowest = lowest_python()
    if ".".join(map(str, sys.version_info[:2])) != lowest:  # what packages ask for depends on the Python that asks
        sys.exit(f"The lock files are made in the lowest Python of the course: make lock PYTHON=python{lowest}")
    with tempfile.TemporaryDirectory() as folder:
        python = _install_all(Path(folder))
        pins = locked(_output(python, "-m", "pip", "freeze", "--all"))
        needed = _output(python, __file__, "--learning").split()
    write(pins, set(needed))


def write(pins: list[str], needed: set[str]) -> None:
    """Write the three files: all pins, and those of the packages that learning needs."""
    small = part(pins, needed)
    (ROOT / ALL).write_text(lock_text(pins, ALL), encoding="utf-8")
    (ROOT / LEARNING).write_text(lock_text(small, LEARNING), encoding="utf-8")
    (ROOT / "environment.yml").write_text(environment_text(pins), encoding="utf-8")
    print(f"Locked {len(pins)} packages; learning needs {len(small)} of them.")


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


def part(pins: Iterable[str], names: set[str]) -> list[str]:
    """The pins of the packages with these names, which are in normal form (lower case, dashes)."""
    return [pin for pin in pins if _normal(pin.partition("==")[0]) in names]


def needed_for_learning() -> set[str]:
    """The names of what pyproject.toml asks for with the extra `lab` and no other, and of all that this asks for in
    turn, as the packages say that are installed in this Python.
    """
    project = _project()
    return _closure([*project["dependencies"], *project["optional-dependencies"]["lab"], BUILD_BACKEND])


def lowest_python() -> str:
    """The lowest Python that pyproject.toml promises, such as 3.11."""
    return _project()["requires-python"].removeprefix(">=")


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _closure(wanted: Iterable[str]) -> set[str]:
    from packaging.requirements import Requirement  # at hand once the packages are installed

    extras: dict[str, set[str]] = {}  # by package: the extras that were followed; "" stands for none
    todo = [Requirement(text) for text in wanted]
    while todo:
        asked = todo.pop()
        known = extras.setdefault(_normal(asked.name), set())
        new = {"", *asked.extras} - known
        known |= new
        for text in _requires(asked.name) if new else ():
            next_one = Requirement(text)
            if next_one.marker is None or any(next_one.marker.evaluate({"extra": extra}) for extra in new):
                todo.append(next_one)
    return set(extras)


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        sys.exit(f"{name} is not installed, so what it needs is not known.")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock_text(pins: list[str], file: str = ALL) -> str:
    return HEADERS[file] + "".join(f"{pin}\n" for pin in pins)


def environment_text(pins: list[str]) -> str:
    return ENVIRONMENT + "".join(f"      - {_yaml_text(pin)}\n" for pin in pins)


def _yaml_text(pin: str) -> str:
    return f"'{pin}'" if ";" in pin else pin


def _install_all(folder: Path) -> Path:
    """Install everything into a fresh environment in folder; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [str(python), "-m", "pip", "install"]
    report = folder / "report.json"
    subprocess.run([*install, *resolving(report), *wanted()], check=True)
    subprocess.run([*install, "--no-deps", *resolved(report.read_text(encoding="utf-8"))], check=True)
    return python


def wanted() -> list[str]:
    """All that pyproject.toml asks for, with torch at TORCH and some packages below a version."""
    project = _project()
    extras = [name for extra in project["optional-dependencies"].values() for name in extra]
    return [f"torch=={TORCH}", BUILD_BACKEND, *HELD_BACK, *project["dependencies"], *extras]


def resolving(report: Path) -> list[str]:
    """Options for `pip install`: only note what would be installed in the first release of the lowest Python."""
    nowhere = str(report.parent / "nothing")  # pip wants it named, and does not make it
    target = ["--python-version", lowest_python(), "--only-binary", ":all:", "--target", nowhere]
    return ["--dry-run", "--ignore-installed", "--report", str(report), *target]


def resolved(report: str) -> list[str]:
    """The exact versions in a report of pip's."""
    packages = [package["metadata"] for package in json.loads(report)["install"]]
    return [f"{package['name']}=={package['version']}" for package in packages]


def _output(python: Path, *arguments: str) -> str:
    return subprocess.run([python, *arguments], check=True, capture_output=True, text=True, encoding="utf-8").stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--learning"]:
        print("\n".join(sorted(needed_for_learning())))
    else:
        main()
