"""The settings of a course for nbgrader, from its nbgrader_config.py."""

from __future__ import annotations

from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from torchkata.tools.course import MARK

_steps_wanted = True


def course_config(root: Path, steps: bool = True) -> Config:
    """The settings in the course's nbgrader_config.py; without `steps` those of nbgrader's converters may be missing,
    which take half a second to load."""
    global _steps_wanted
    _steps_wanted = steps
    try:
        return PyFileConfigLoader(MARK, path=str(root)).load_config()
    finally:
        _steps_wanted = True


def steps_are_wanted() -> bool:
    """Whether the nbgrader_config.py that asks is to set the steps of nbgrader's converters."""
    return _steps_wanted
