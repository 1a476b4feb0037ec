"""The settings of a course for nbgrader, from its nbgrader_config.py."""

from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from torchkata.base.places import MARK


def course_config(root: Path) -> Config:
    return PyFileConfigLoader(MARK, path=str(root)).load_config()
