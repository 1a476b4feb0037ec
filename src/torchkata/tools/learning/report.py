"""A report on a doubtful verdict: all that somebody else needs to judge it, and nothing that names the learner."""

from __future__ import annotations

import builtins
import getpass
import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

from torchkata.base.chapter import Exercise
from torchkata.tools.course import Chapter
from torchkata.tools.learning.checking import check_chapter
from torchkata.tools.learning.choosing import to_run
from torchkata.tools.learning.damaged import read_learners
from torchkata.tools.learning.exercises import fenced
from torchkata.tools.learning.outcomes import Verdict
from torchkata.tools.learning.workbook import put, writing

PACKAGES = ("torchkata", "torch", "numpy", "onnx", "onnxruntime")
HOMES = re.compile(r"(?:/home|/Users|[A-Za-z]:\\+Users)[/\\]+[^/\\\s'\":;,)]+")


def report(chapter: Chapter, exercise: Exercise) -> tuple[str, Path]:
    """Check an exercise now and write down what came of it: the text, and the new file in the workbook that holds it.

    Raises CourseError when the exercise can't be checked or the workbook can't be written.
    """
    verdicts = check_chapter(chapter, {exercise.id})
    text = _nameless(_text(chapter, verdicts[0]), chapter)
    with writing(chapter.place):
        path = _free(chapter.place.workbook / "reports", exercise.id)
        put(path, text.encode(errors="replace"))
    return text, path


def where_to_send() -> str:
    """Where a report goes: what the installed package names as its `Issues` (project.urls in pyproject.toml)."""
    try:
        urls = metadata("torchkata").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    named = dict(url.split(", ", 1) for url in urls)
    if "Issues" in named:
        return f"open an issue with it at {named['Issues'].rstrip('/')}/new?template=verdict.yml"
    return "send it to whoever gave you the course"


def _text(chapter: Chapter, verdict: Verdict) -> str:
    exercise = verdict.exercise
    _, *cells = to_run(chapter.master, read_learners(chapter), {exercise.id})
    answer = [cell.source for cell in cells if cell.exercise == exercise.id and not cell.is_check]
    before = [cell.source for cell in cells if cell.exercise != exercise.id]
    parts = [
        f"# A verdict in doubt: {exercise.id}",
        f"{exercise.title or exercise.id}, chapter {chapter.name}",
        f"Verdict: {verdict.points:g} of {exercise.points:g} points. {verdict.line}",
        "\n".join(f"- {line}" for line in (*verdict.more, *filter(None, [verdict.test]))),
        "## Why I doubt it\n\n(Your words, please: what is right, or wrong, about the answer?)",
        "## The answer\n\n" + fenced("\n\n".join(answer)),
        "## Cells before it that it needs\n\n" + fenced("\n\n".join(before)) if before else "",
        "## What the check said\n\n" + fenced("\n".join(verdict.details), "text"),
        "## Where\n\n" + "\n".join(f"- {line}" for line in _where(chapter)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _where(chapter: Chapter) -> list[str]:
    """Versions, and which release it is: a digest tells releases apart."""
    digest = hashlib.sha256(chapter.release.read_bytes()).hexdigest()[:12] if chapter.release.exists() else "missing"
    hidden = "with" if chapter.solution.exists() else "without"
    return [
        *(f"{name} {_version(name)}" for name in PACKAGES),
        f"Python {platform.python_version()} on {platform.system()} {platform.release()}, {platform.machine()}",
        f"release of {chapter.name}: {digest}, checked {hidden} hidden tests",
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _nameless(text: str, chapter: Chapter) -> str:
    """Without folders of the learner's and without their name, unless that is a word of the chapter's own."""
    for folder, word in ((chapter.place.workbook, "WORKBOOK"), (chapter.root, "COURSE"), (Path.home(), "~")):
        for spelled in {str(folder), str(folder.resolve())} - {"/"}:
            text = text.replace(spelled, word)
    text = HOMES.sub("~", text)
    name = _user()
    common = {*dir(builtins), *re.findall(r"\w+", "\n".join(cell.source for cell in chapter.master.cells)), "root"}
    return re.sub(rf"\b{re.escape(name)}\b", "USER", text) if name and name not in common else text


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without an entry
        return ""


def _free(folder: Path, name: str) -> Path:
    """A file that is not there yet."""
    number = next(n for n in range(1, 10_000) if not (folder / f"{name}-{n}.md").exists())
    return folder / f"{name}-{number}.md"
