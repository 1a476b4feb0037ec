"""The course as a package: sdist and wheel are built, and the wheel is installed where nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

NOT_COPIED = (".git", ".venv", "build", "workbook", "*.egg-info", "__pycache__", ".*_cache", "submitted", "graded")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
PATIENCE = 300  # seconds


def build(kind: str, tree: Path, folder: Path) -> Path:
    """Build the sdist or wheel of a source tree, with the build backend that is installed here."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD.format(kind=kind), str(folder)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


def source_tree(folder: Path) -> Path:
    """A copy of the checkout, without what git ignores: a build leaves files in the tree that it is made from."""
    return Path(shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED)))


def unpacked(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


@dataclass(frozen=True)
class Installed:
    """An environment, with torchkata where that was installed; its other packages are those of the Python that runs the
    tests."""

    folder: Path

    @property
    def _scripts(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def python(self) -> Path:
        return self._scripts / ("python.exe" if os.name == "nt" else "python")

    @property
    def torchkata(self) -> Path:
        return self._scripts / ("torchkata.exe" if os.name == "nt" else "torchkata")

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes: JupyterLab's pages and nbgrader's commands are files of the environment they came with."""
        share = Path(sys.prefix, "share", "jupyter")
        path = os.pathsep.join([str(self._scripts), str(Path(sys.executable).parent), os.environ["PATH"]])
        told = {"COLUMNS": "200", "JUPYTERLAB_DIR": str(share / "lab"), "JUPYTER_PATH": str(share), "PATH": path}
        return {**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **told, "PYTHONUTF8": "1"}

    def run(self, *arguments: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run its torchkata."""
        return self._run([self.torchkata, *arguments], cwd, more)

    def run_python(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        return self._run([self.python, *arguments], cwd, {})

    def _run(self, command: list, cwd: Path, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **more}
        return subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=PATIENCE,
        )


def bare(folder: Path) -> Installed:
    """A new environment in a folder: all packages but torchkata, which an editable installation does not lend."""
    venv.create(folder, symlinks=os.name != "nt")
    installed = Installed(folder)
    paths = {"base": str(folder), "platbase": str(folder)}
    own = Path(sysconfig.get_path("purelib", "venv", paths))
    (own / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return installed


def install(wheel: Path, folder: Path) -> Installed:
    """Install a wheel into a new environment in a folder."""
    installed = bare(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(installed.python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    return installed
