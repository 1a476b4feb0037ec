"""Where the website is, for what is committed: the links of README.md and the first cell of a released notebook."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError

_LINK = re.compile(r"^\[(\d\d)\]: \S+$", re.M)


def website(root: Path) -> str:
    """The address that a course's pyproject.toml names `Website` in its [project.urls], with a slash at its end, or an
    empty text.

    Raises CourseError when the file is no TOML.
    """
    path = root / "pyproject.toml"
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path} is not readable TOML: {error}") from None
    address = said.get("project", {}).get("urls", {}).get("Website", "")
    return f"{address.rstrip('/')}/" if address else ""


def linked(readme: str, chapters: list[Chapter]) -> str:
    """The text of README.md with each chapter linked on the website, or where there is none to its notebook."""
    targets = {chapter.number: chapter_link(chapter) for chapter in chapters}
    return _LINK.sub(lambda found: f"[{found[1]}]: {targets[found[1]]}", readme)


def chapter_link(chapter: Chapter) -> str:
    """Where README.md leads for a chapter."""
    return page_of(chapter) or chapter.release.relative_to(chapter.root).as_posix()


def page_of(chapter: Chapter) -> str:
    """The address of a chapter's page; empty where the website's is not known."""
    address = website(chapter.root)
    return f"{address}chapters/{chapter.name}.html" if address else ""
