"""Make a release of the whole course: make release VERSION=0.2.0.

Bumps the version, dates the changelog, builds sdist and wheel and looks into both; then they lie in dist/. All of it
happens in a copy: only when everything went well are the checkout's files changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from packaging.version import InvalidVersion, Version

from torchkata.base.places import course_of_package
from torchkata.tools.course import chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place
from torchkata.tools.website import linked

NOT_COPIED = (".git", ".venv", "build", "dist", "workbook", "*.egg-info", "__pycache__", ".*_cache")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
IN_WHEEL = (
    "torchkata/cli/__init__.py",
    "torchkata/course/nbgrader_config.py",
    "torchkata/course/notebooks/start/start.ipynb",
)
IN_SDIST = ("LICENSE", "LICENSE-TEXT.md", "Makefile", "conftest.py", "notebooks/start/start.ipynb", "setup.py")


def main(arguments: list[str]) -> None:
    try:
        if len(arguments) != 1:
            raise CourseError("Say which version: make release VERSION=0.2.0")
        made = release(course_of_package(), arguments[0], datetime.now(UTC).date().isoformat())
    except CourseError as error:
        sys.exit(str(error))
    for path in made:
        print(path)
    print(f"Look at `git diff`, then: git commit -am 'Release {arguments[0]}' && git tag v{arguments[0]}")
    print("Push the tag: the workflow `publish` builds the archives anew and puts them on PyPI.")


def release(root: Path, version: str, day: str) -> list[Path]:
    """Make version `version` of `day` (ISO 8601) from the checkout at root; returns both archives in dist/.

    Raises CourseError, and leaves the checkout as it is, for a version that is none or not newer, for a changelog
    without anything new, and where an archive can't be built or is not as it should be.
    """
    texts = {root / name: change(root / name, version, day) for name, change in CHANGES.items()}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
        for path, text in texts.items():
            (tree / path.relative_to(root)).write_text(text, encoding="utf-8", newline="\n")
        archives = _built(tree, Path(folder, "dist"))
        for path in archives:
            check(path, version)
        shutil.rmtree(root / "dist", ignore_errors=True)
        made = [Path(shutil.copy(path, _folder(root / "dist"))) for path in archives]
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    return made


# ---------------------------------------------------------------- what a release changes


def _with_version(module: Path, version: str, day: str) -> str:
    text = module.read_text(encoding="utf-8")
    old = re.search(r'^__version__ = "(.+)"$', text, re.M)
    if old is None:
        raise CourseError(f"{module} says no __version__.")
    try:
        newer = Version(version) > Version(old[1])
    except InvalidVersion:
        raise CourseError(f"{version} is no version. Name one such as 0.2.0.") from None
    if not newer:
        raise CourseError(f"{version} is not newer than {old[1]}. Name a version above it.")
    return text.replace(old[0], f'__version__ = "{version}"')


def _dated(changelog: Path, version: str, day: str) -> str:
    text = changelog.read_text(encoding="utf-8")
    new = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if new is None or not new[1].strip():
        raise CourseError(f"{changelog.name} says nothing below `## Unreleased`. Write there what is new.")
    return text.replace("## Unreleased\n", f"## Unreleased\n\n## {version}, {day}\n", 1)


def _cited(citation: Path, version: str, day: str) -> str:
    lines = [line for line in citation.read_text(encoding="utf-8").splitlines() if not line.startswith("date-released")]
    lines = [f'version: "{version}"' if line.startswith("version:") else line for line in lines]
    return "\n".join([*lines, f"date-released: {day}"]) + "\n"


def _linked(readme: Path, version: str, day: str) -> str:
    return linked(readme.read_text(encoding="utf-8"), chapters(Place(readme.parent)))


CHANGES: dict[str, Callable[[Path, str, str], str]] = {
    "src/torchkata/__init__.py": _with_version,
    "CHANGELOG.md": _dated,
    "CITATION.cff": _cited,
    "README.md": _linked,
}


# ---------------------------------------------------------------- the archives


def _built(tree: Path, folder: Path) -> list[Path]:
    """The sdist and the wheel of a source tree, made with the setuptools that is installed here."""
    for kind in ("sdist", "wheel"):
        command = [sys.executable, "-c", BUILD.format(kind=kind), str(_folder(folder))]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            raise CourseError(f"The {kind} could not be built:\n{done.stderr.strip()}")
    return sorted(folder.iterdir())


def check(archive: Path, version: str) -> None:
    """Raises CourseError for an sdist or wheel of another version, or one that lacks a part. What twine has to say is
    asked too, where it is installed."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            names, about = set(wheel.namelist()), f"torchkata-{version}.dist-info/METADATA"
            metadata = wheel.read(about).decode() if about in names else ""
        lacking = {*IN_WHEEL, about} - names
    else:
        with tarfile.open(archive) as sdist:
            names = {name.partition("/")[2] for name in sdist.getnames()}
            info = sdist.extractfile(f"torchkata-{version}/PKG-INFO") if "PKG-INFO" in names else None
            metadata = info.read().decode() if info else ""
        lacking = set(IN_SDIST) - names
    if lacking:
        raise CourseError(f"{archive.name} lacks {', '.join(sorted(lacking))}.")
    if f"\nVersion: {version}\n" not in metadata or "\nLicense-Expression: " not in metadata:
        raise CourseError(f"{archive.name} does not say that it is version {version}, or under which licence.")
    if find_spec("twine"):
        command = [sys.executable, "-m", "twine", "check", "--strict", str(archive)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            raise CourseError(f"twine has something against {archive.name}:\n{done.stdout.strip()}")


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
