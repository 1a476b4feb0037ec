"""The learner's own copies of the chapters: put them into workbook/."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from torchkata.tools.course import Chapter, CourseError, chapters, course_root

LEDGER = ".torchkata.json"  # the hash of each chapter's release at the time it was copied


@dataclass(frozen=True)
class Placed:
    """What happened to a chapter: "copied", "kept", or "outdated" (kept, though a newer release is there)."""

    chapter: str
    state: str


def fill_workbook(root: Path | None = None) -> list[Placed]:
    """Copy each released chapter that is not in workbook/ yet; a file that is there is never touched.

    Raises CourseError when the workbook cannot be written or its ledger cannot be read.
    """
    root = root or course_root()
    folder = root / "workbook"
    released = [chapter for chapter in chapters(root) if chapter.release.is_file()]
    try:
        folder.mkdir(exist_ok=True)
        ledger = _read_ledger(folder / LEDGER)
        known = dict(ledger)
        placed = [_place(chapter, ledger) for chapter in released]
        if ledger != known:
            (folder / LEDGER).write_text(json.dumps(ledger, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise CourseError(
            f"The workbook {folder} cannot be written: {error.strerror or error}. "
            "Make it a folder that you may write to, then try again."
        ) from None
    return placed


def _place(chapter: Chapter, ledger: dict[str, str]) -> Placed:
    """Copy a chapter's files that are not there yet, and note in the ledger which release they come from."""
    release = chapter.release.read_bytes()
    digest = hashlib.sha256(release).hexdigest()
    if chapter.workbook.exists():
        outdated = ledger.get(chapter.name, digest) != digest
        return Placed(chapter.name, "outdated" if outdated else "kept")
    chapter.workbook.parent.mkdir(parents=True, exist_ok=True)
    for file in sorted(chapter.release.parent.iterdir()):
        target = chapter.workbook.parent / file.name
        if file.is_file() and not target.exists():
            _copy(file, target)
    ledger[chapter.name] = digest
    return Placed(chapter.name, "copied")


def _copy(source: Path, target: Path) -> None:
    """Copy to a file that must not exist; a copy that breaks off is removed."""
    content = source.read_bytes()
    with target.open("xb") as stream:
        try:
            stream.write(content)
            stream.flush()
        except OSError:
            target.unlink()
            raise


def _read_ledger(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        ledger = None
    if not isinstance(ledger, dict):
        raise CourseError(f"{path} is damaged. Delete it and try again; your notebooks stay as they are.")
    return ledger
