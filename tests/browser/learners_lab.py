"""A learner's checkout of the course, and the real JupyterLab of `make lab` on it."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.tools.learning.lab_server import Server, lab_server, run, torchkata_lab
from torchkata.base.places import MARK
from torchkata.tools.course import course_root

OURSELVES = ("127.0.0.1", "localhost")
STAMPS = (".installed", ".installed-lab")
KEPT = ("Makefile", "pyproject.toml", "requirements*.lock", MARK)
# settings, workspaces and histories of the person at this machine stay out of it
OWN_FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab and the course that it serves."""

    course: Path
    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def workbook(self) -> Path:
        return self.course / "workbook"

    def end_kernels(self) -> None:
        """Shut down what runs, as a learner does at the end of the day."""
        for session in json.loads(self.server.ask("api/sessions")):
            self.server.ask(f"api/sessions/{session['id']}", method="DELETE")

    def torchkata(self, *arguments: str) -> str:
        """Run the command in the course, as a learner does in a second terminal; what it printed."""
        done = run(*arguments, cwd=self.course)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def copy_of_course(folder: Path) -> Path:
    """What a learner's checkout holds: the releases and the Makefile, without solutions."""
    root = course_root()
    for pattern in KEPT:
        for file in root.glob(pattern):
            shutil.copy(file, folder)
    shutil.copytree(root / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return folder


@contextlib.contextmanager
def learners_lab(course: Path, own: Path, command: Callable[[list[str]], list[str]] | None = None) -> Iterator[Lab]:
    """JupyterLab on the course, ready to serve; it ends with all its kernels. `own`: for its settings and its log.

    `command`: makes the command from JupyterLab's options; left out, it is `make lab`.
    """
    folders = {name: str(own / folder) for name, folder in OWN_FOLDERS.items()}
    with lab_server(course, own, command or _make_lab(course), **folders) as server:
        yield Lab(course, server)


def _make_lab(course: Path) -> Callable[[list[str]], list[str]]:
    """`make lab` with the environment of these tests, told that all is installed; where there is no make, or it would
    install something nevertheless, the command that it runs."""
    stamps = [f"--old-file={sys.prefix}/{stamp}" for stamp in STAMPS]
    make = ["make", *stamps, "lab", f"VENV={sys.prefix}"]

    def command(options: list[str]) -> list[str]:
        options = [*options, "--LabApp.expose_app_in_browser=True"]
        return [*make, f"ARGS={' '.join(options)}"] if usable else torchkata_lab(options)

    usable = False
    if shutil.which("make"):
        steps = subprocess.run([*make, "--dry-run"], cwd=course, capture_output=True, text=True, check=False)
        usable = steps.returncode == 0 and "pip" not in steps.stdout
    return command


def foreign(addresses: list[str]) -> list[str]:
    """The addresses on other hosts than this one."""
    reached = [address for address in addresses if urlsplit(address).scheme not in ("data", "blob", "file")]
    return [address for address in reached if urlsplit(address).hostname not in OURSELVES]
