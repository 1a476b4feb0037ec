"""Run JupyterLab on the learner's workbook."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from torchkata.base.places import KEPT
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place

# switches off what a learner has no use for: Jupyter's news and the teacher's side of nbgrader
JUPYTER_CONFIG = Path(__file__).parent / "jupyter"
# with these, JupyterLab prints something and starts no server
ONLY_PRINT = {"--version", "-h", "--help", "--help-all", "--show-config", "--show-config-json", "--generate-config"}


def need_jupyterlab() -> None:
    """Raises CourseError, with what to install, where JupyterLab is missing."""
    if find_spec("jupyterlab") is None:
        raise CourseError(
            "JupyterLab is not installed here. Run `pip install 'torchkata[lab]'`, or make the notebooks for another "
            "editor with `torchkata workbook`."
        )


def start_lab(arguments: list[str], place: Place) -> None:
    """Run JupyterLab in the workbook until it is stopped; further arguments are those of `jupyter lab`.

    Raises CourseError where starting it makes no sense; what a learner should know is printed.
    """
    if not ONLY_PRINT.intersection(arguments):
        from torchkata.tools.learning.preflight import preflight

        for note in preflight(place):
            print(note, file=sys.stderr)
    from jupyterlab.labapp import LabApp

    paths = [str(JUPYTER_CONFIG), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    os.environ["PYTHONSAFEPATH"] = "1"  # a kernel starts in the notebook's folder: a module there would run at once
    LabApp.launch_instance([*lab_options(place), *arguments])


def lab_options(place: Place) -> list[str]:
    """The options with which JupyterLab serves the workbook, opens the start page and asks nothing of the network."""
    workbook = place.workbook
    options = [
        f"--ServerApp.root_dir={workbook}",
        f"--LabApp.workspaces_dir={workbook / KEPT / 'workspaces'}",  # open tabs, apart from other folders'
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        f"--LabApp.extra_labextensions_path={JUPYTER_CONFIG / 'labextensions'}",  # where a link leads to (landing.js)
        "--ServerApp.contents_manager_class=torchkata.tools.learning.contents.WorkbookContents",
    ]
    if (workbook / "start.ipynb").exists():
        options.append("--LabApp.default_url=/lab/tree/start.ipynb")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # JupyterLab refuses to run as root without it
    return options
