"""Run JupyterLab on the learner's workbook."""

import os
from pathlib import Path

from torchkata.tools.course import course_root

# switches off what a learner has no use for: Jupyter's news and the teacher's side of nbgrader
JUPYTER_CONFIG = Path(__file__).parent / "jupyter"


def start_lab(arguments: list[str], root: Path | None = None) -> None:
    """Run JupyterLab in workbook/ until it is stopped; further arguments are those of `jupyter lab`."""
    from jupyterlab.labapp import LabApp

    paths = [str(JUPYTER_CONFIG), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    LabApp.launch_instance([*lab_options(root or course_root()), *arguments])


def lab_options(root: Path) -> list[str]:
    """The options with which JupyterLab serves the workbook and asks nothing of the network."""
    options = [
        f"--ServerApp.root_dir={root / 'workbook'}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # JupyterLab refuses to run as root without it
    return options
