"""Run the command as a user does, and `torchkata lab` with its real server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil

TOKEN = "a-token-for-the-test"
PATIENCE = 300  # seconds


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run torchkata with these arguments; a server that starts though it should not is ended after some minutes."""
    return subprocess.run(
        [sys.executable, "-m", "torchkata", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def released_course(folder: Path, *names: str) -> Path:
    """A course with a released chapter of one cell for each name."""
    folder.mkdir(exist_ok=True)
    (folder / "nbgrader_config.py").touch()
    for name in names:
        release = folder / "notebooks" / name / f"{name[3:]}.ipynb"
        release.parent.mkdir(parents=True)
        cell = nbformat.v4.new_markdown_cell(f"# {name}", id="title")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), release)
    return folder


@dataclass(frozen=True)
class Server:
    """A running `torchkata lab`: its process, its port and the file with all that it prints."""

    process: subprocess.Popen
    port: int
    log: Path

    def ask(self, path: str, method: str = "GET", data: bytes | None = None) -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}", data, {"Authorization": f"token {TOKEN}"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()


def torchkata_lab(options: list[str]) -> list[str]:
    """The command that starts JupyterLab with these options."""
    return [sys.executable, "-m", "torchkata", "lab", *options]


@contextmanager
def lab_server(
    course: Path, own: Path, command: Callable[[list[str]], list[str]] = torchkata_lab, **environment: str
) -> Iterator[Server]:
    """`torchkata lab` in the course, its log and its runtime folder in `own`. Stopped at the end, whatever happens."""
    port = _free_port()
    options = ["--no-browser", f"--port={port}", f"--IdentityProvider.token={TOKEN}"]
    with (own / "log").open("w") as log:
        process = subprocess.Popen(
            command(options),
            cwd=course,
            env={**os.environ, "JUPYTER_RUNTIME_DIR": str(own / "runtime"), **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    server = Server(process, port, own / "log")
    try:
        _wait_for(server)
        yield server
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
            with suppress(psutil.NoSuchProcess):  # it ends meanwhile
                child.kill()
        process.kill()
        process.wait()


def _wait_for(server: Server) -> None:
    for _ in range(600):
        try:
            server.ask("api/status")
        except (urllib.error.URLError, ConnectionError):
            assert server.process.poll() is None, server.log.read_text()
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the server did not answer:\n{server.log.read_text()}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
