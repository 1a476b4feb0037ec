"""What is looked at before JupyterLab starts: is it running already, will kernels start, can the workbook be saved."""

from __future__ import annotations

import errno
import json
import os
import ssl
import tempfile
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from torchkata.tools.doctor import kernel_finding
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.hiding import hiding_notes
from torchkata.tools.placing import Place

ROOM = 1 << 20  # bytes that must be free: a notebook with its outputs
FULL = (errno.ENOSPC, errno.EDQUOT)
PATIENCE = 3  # seconds for a server on this machine to answer


def preflight(place: Place) -> list[str]:
    """Look at all that keeps JupyterLab from serving the workbook of a place.

    Returns notes on what a learner should mend and can mend in JupyterLab. Raises CourseError where starting makes no
    sense: JupyterLab runs on this workbook already, no kernel would start, or nothing could be saved.
    """
    workbook = place.workbook
    _refuse_a_second_server(workbook)
    _need_a_kernel()
    _need_room(workbook)
    _need_runtime_folder()
    return hiding_notes(workbook)


def _refuse_a_second_server(workbook: Path) -> None:
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if Path(server.get("root_dir", "")).resolve() == workbook.resolve() and _answers(server):
            token = f"?token={server['token']}" if server.get("token") else ""
            raise CourseError(
                f"JupyterLab already runs on this workbook: {server['url']}lab{token}\n"
                "Open this address in your browser. To stop that JupyterLab, choose File, then Shut Down there, "
                "or press Ctrl + C twice in the terminal where it was started."
            )


def _answers(server: dict) -> bool:
    """Whether a server that is on record is still there, and not another one at its port: it must know its token."""
    request = Request(f"{server['url']}api/status", headers={"Authorization": f"token {server.get('token', '')}"})
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
            return isinstance(json.load(answer), dict)
    except HTTPError as error:
        return error.code in (401, 403) and bool(server.get("password"))
    except URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # a certificate of the learner's own
    except (OSError, ValueError):
        return False


def _need_a_kernel() -> None:
    finding = kernel_finding()
    if finding.state == "broken":
        raise CourseError(f"No notebook can run: {finding.what} {finding.value}. {finding.advice}")


def _need_room(workbook: Path) -> None:
    if error := _trial(workbook):
        if error.errno in FULL:
            raise CourseError(
                f"The disk that holds {workbook} is full: nothing that you write could be saved. Your notebooks stay "
                "as they are. Free some space, then try again."
            )
        raise CourseError(
            f"The workbook {workbook} cannot be written: {error.strerror or error}. Nothing that you write could be "
            "saved. Make it a folder that you may write to, or copy the course to a disk that can be written."
        )


def _need_runtime_folder() -> None:
    """Jupyter keeps there what runs and how to reach its kernels."""
    from jupyter_core.paths import jupyter_runtime_dir

    folder = Path(jupyter_runtime_dir())
    if error := _trial(folder):
        raise CourseError(
            f"Jupyter cannot write to {folder}, where it notes what runs: {error.strerror or error}. Make room there "
            "or make it writable; or set JUPYTER_RUNTIME_DIR to a folder of yours."
        )


def _trial(folder: Path) -> OSError | None:
    """The error that keeps a file from being written to the folder; None where it can be. Nothing is left behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return None
