"""Whose a repository or a file in an archive is: by students.csv where there is one, else by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from torchkata.tools.collecting.errors import NotTaken
from torchkata.tools.grading.desk import complaint_about
from torchkata.tools.grading.handed_out.roster import NAMES, STUDENTS, Roster, one_form, read_roster

ACCOUNT = "account"  # the column with a student's name where the repositories are


@dataclass(frozen=True)
class Students:
    """The class. prefix: what the names of repositories begin with, before the student's name."""

    roster: Roster
    prefix: str = ""

    @classmethod
    def of_class(cls, root: Path, prefix: str = "") -> Students:
        """Those in the students.csv of this class folder, if it has one. Raises CourseError as `read_roster` does."""
        path = root / STUDENTS
        return cls(read_roster(path, (*NAMES, ACCOUNT)) if path.exists() else {}, prefix)

    def with_repository(self, name: str, owner: str | None) -> str:
        """The student whose repository has this name: their id or account, alone or behind a dash. Where that is
        nobody's, the account that the repository belongs to counts. Raises NotTaken."""
        name = name.removeprefix(self.prefix)
        if not self.roster:
            return _usable(name)
        known = self._by(lambda student, said: (student, said.get(ACCOUNT)))
        form = _form(name)
        ends = [key for key in known if form == key or form.endswith(f"-{key}")]
        key = max(ends, key=len, default=_form(owner or ""))
        return self._only(known.get(key, set()), name, "id or account")

    def in_lms(self, word: str) -> str:
        """The student whom an LMS calls so, by id, LMS id, or first and last name. Raises NotTaken."""
        if not self.roster:
            return _usable(word)
        known = self._by(
            lambda student, said: (
                student,
                said.get("lms_user_id"),
                f"{said.get('first_name') or ''} {said.get('last_name') or ''}".strip(),
            )
        )
        return self._only(known.get(_form(word), set()), word, "id, lms_user_id, or first and last name")

    def _by(self, names: Callable[[str, dict[str, str | None]], Iterable[str | None]]) -> dict[str, set[str]]:
        """The students by each of their names."""
        found: dict[str, set[str]] = {}
        for student, said in self.roster.items():
            for name in filter(None, names(student, said)):
                found.setdefault(_form(name), set()).add(student)
        return found

    @staticmethod
    def _only(students: Iterable[str], name: str, what: str) -> str:
        found = sorted(students)
        if not found:
            raise NotTaken(f"{STUDENTS} has no student whose {what} is in the name {name}.")
        if len(found) > 1:
            raise NotTaken(f"{name} could be of {len(found)} students in {STUDENTS}: {', '.join(found)}.")
        return _usable(found[0])


def _form(name: str) -> str:
    """Accounts are the same in capitals and in small letters."""
    return one_form(name).casefold()


def _usable(student: str) -> str:
    """Raises NotTaken for what can't be the name of a student's folder."""
    if complaint := complaint_about(student) or ("" if student else "It has no name."):
        raise NotTaken(complaint.replace("The folder's name", f"The name {student!r}"))
    return student
