"""Run JupyterLab on the learner's workbook."""

import os
import sys
from pathlib import Path

from torchkata.remembering import KEPT
from torchkata.tools.course import course_root, workbook_of

# switches off what a learner has no use for: Jupyter's news and the teacher's side of nbgrader
JUPYTER_CONFIG = Path(__file__).parent / "jupyter"
# with these, JupyterLab prints something and starts no server
ONLY_PRINT = {"--version", "-h", "--help", "--help-all", "--show-config", "--show-config-json", "--generate-config"}


def start_lab(arguments: list[str], root: Path | None = None) -> None:
    """Run JupyterLab in workbook/ until it is stopped; further arguments are those of `jupyter lab`.

    Raises CourseError where starting it makes no sense; what a learner should know is printed.
    """
    root = root or course_root()
    if not ONLY_PRINT.intersection(arguments):
        from torchkata.tools.learning.preflight import preflight

        for note in preflight(root):
            print(note, file=sys.stderr)
    from jupyterlab.labapp import LabApp

    paths = [str(JUPYTER_CONFIG), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    LabApp.launch_instance([*lab_options(root), *arguments])


def lab_options(root: Path) -> list[str]:
    """The options with which JupyterLab serves the workbook, opens the start page and asks nothing of the network."""
    workbook = workbook_of(root)
    options = [
        f"--ServerApp.root_dir={workbook}",
        f"--LabApp.workspaces_dir={workbook / KEPT / 'workspaces'}",  # open tabs, apart from other folders'
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--ServerApp.contents_manager_class=torchkata.tools.learning.contents.WorkbookContents",
    ]
    if (workbook / "start.ipynb").exists():
        options.append("--LabApp.default_url=/lab/tree/start.ipynb")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # JupyterLab refuses to run as root without it
    return options
