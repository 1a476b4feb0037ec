"""Which edition of the course the website shows: its version, and the command that starts it, from PyPI or not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchkata.tools.errors import CourseError
from torchkata.tools.site.home import Home


@dataclass(frozen=True)
class Edition:
    """version: such as 0.1.0; released: the day of its release (ISO 8601), or "" before the first one."""

    version: str
    released: str = ""

    @property
    def in_words(self) -> str:
        return f"Version {self.version}, {f'released on {self.released}' if self.released else 'not released yet'}"


def edition(root: Path) -> Edition:
    """What CITATION.cff says, in which `make release` writes the day of a release.

    Raises CourseError where it says no version.
    """
    text = (root / "CITATION.cff").read_text(encoding="utf-8")
    said = dict(re.findall(r'^(version|date-released): "?([^"\n]+)"?$', text, re.M))
    if "version" not in said:
        raise CourseError("CITATION.cff says no version, which the website's first page tells.")
    return Edition(said["version"], said.get("date-released", ""))


def start_command(home: Home, now: Edition) -> str:
    """What begins the course in a terminal on the day on which the page is built."""
    if now.released:
        return "pip install 'torchkata[lab]' && torchkata lab"
    if not home.repository:
        return "make lab"
    return f"git clone {home.repository_address} && make -C {home.repository.rpartition('/')[2]} lab"
