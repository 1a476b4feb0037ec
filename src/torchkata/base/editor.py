"""What the editor tells of the notebook that runs here: whether somebody looks at it, and where it lies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchkata.base.places import workbook_below, workbook_with

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

BY_VS_CODE, BY_A_SERVER = "__vsc_ipynb_file__", "JPY_SESSION_NAME"  # a name in the kernel, and one in its environment


def shell_here() -> InteractiveShell | None:
    """The kernel's shell; None elsewhere."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell and get_shell()


def somebody_looks() -> bool:
    """Whether a person has run this cell, in JupyterLab or the like: these say which cell it is; tools do not."""
    kernel = getattr(shell_here(), "kernel", None)
    if kernel is None:
        return False
    asked = kernel.get_parent("shell") or {}
    return bool(asked.get("metadata", {}).get("cellId")) or "google.colab" in sys.modules


def notebook_here() -> Path | None:
    """The notebook that runs here; None where no editor tells it, or tells one that is not on this machine. Raises
    OSError.

    What a notebook starts inherits its environment: there a notebook counts only if it lies below the working folder.
    """
    shell = shell_here()
    told = shell.user_ns.get(BY_VS_CODE) if shell else None
    if isinstance(told, str) and Path(told).is_file():
        return Path(told)
    by_server = Path(os.environ.get(BY_A_SERVER, ""))
    return by_server if by_server.is_file() and Path.cwd() in by_server.parents else None


def folder_here() -> Path:
    """The folder of the notebook that runs here; the working folder where no editor tells it. Raises OSError."""
    notebook = notebook_here()
    return notebook.parent if notebook else Path.cwd()


def workbook_here() -> Path | None:
    """The workbook that holds the notebook's folder. Where no editor tells that, and the working folder lies in none,
    the only one below it, if somebody looks: some editors work in the folder that was opened."""
    try:
        holding = workbook_with(folder_here())
        if holding or notebook_here() or not somebody_looks():
            return holding
        return workbook_below(Path.cwd())
    except OSError:  # the folder has gone
        return None
