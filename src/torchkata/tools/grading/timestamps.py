"""When a submission was handed in, from its timestamp.txt. A late submission can cost all points, so a text that could
mean several times is not guessed at: it is named, with how to write it."""

from __future__ import annotations

import codecs
import re
from datetime import UTC, datetime, tzinfo
from email.utils import parsedate_to_datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from torchkata.tools.errors import CourseError
from torchkata.tools.grading.files import Unreadable, read_plain_file

TIMESTAMP = "timestamp.txt"
FORM = "Write it like this: 2026-01-31T17:30:00+01:00."
MOST_SHOWN = 60  # characters of a text that can't be used
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?) ?(\S*)", re.A)
OF_DATE = re.compile(r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) (\d{1,2}) (\d\d:\d\d:\d\d) (\S+) (\d{4})", re.A)
OF_MAIL = re.compile(r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(:\d\d)? ([+-]\d{4}|GMT|UTC)", re.A)
OFFSET = re.compile(r"[+-]\d\d(:?\d\d)?", re.A)
PLACE = re.compile(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+)+", re.A)  # a zone's name in the IANA's list: Europe/Berlin
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class _Unclear(ValueError):
    """A text without one meaning; the message says why, as a clause."""


def read_timestamp(folder: Path, zone: str = "UTC") -> tuple[datetime | None, list[str]]:
    """When the submission in this folder was handed in (UTC, naive), with a note where that can't be told.

    `zone` is the time zone that nbgrader's exchange writes; its abbreviations (CET) mean something then.
    """
    path = folder / TIMESTAMP
    if not (path.is_symlink() or path.exists()):
        return None, []
    try:
        content = read_plain_file(path, 400)
    except Unreadable as error:
        return None, [f"{TIMESTAMP} is ignored: {error}."]
    text = ""
    try:
        text = " ".join(_decoded(content).split())
        return (_in_utc(text, zone) if text else None), []
    except UnicodeDecodeError:
        return None, [f"{TIMESTAMP} is ignored: it is not text. {FORM}"]
    except (ValueError, OverflowError) as error:
        why = str(error) if isinstance(error, _Unclear) else "there is no such time"
        return None, [f'{TIMESTAMP} is ignored. It says "{_shown(text)}", and {why}. {FORM}']


def time_of(text: str, zone: str = "UTC") -> datetime:
    """The time that a teacher wrote (UTC, naive), in a form that timestamp.txt may have; `zone` as above.

    Raises CourseError.
    """
    try:
        return _in_utc(" ".join(text.split()), zone)
    except (ValueError, OverflowError) as error:
        why = str(error) if isinstance(error, _Unclear) else "there is no such time"
        raise CourseError(f"{_shown(text)} is not a time that can be used: {why}. {FORM}") from None


def _shown(text: str) -> str:
    """A text that a student may have written, short and without control characters."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain if len(plain) <= MOST_SHOWN else f"{plain[:MOST_SHOWN]}..."


def _decoded(content: bytes) -> str:
    return content.decode(next((name for bom, name in BOMS.items() if content.startswith(bom)), "utf-8"))


def _in_utc(text: str, zone: str) -> datetime:
    """Raises ValueError or OverflowError."""
    if OF_MAIL.fullmatch(text):
        return _naive(parsedate_to_datetime(text.replace("UTC", "GMT")))
    if found := ISO.fullmatch(text):
        day, clock, suffix = found.groups()
    elif found := OF_DATE.fullmatch(text):
        month, number, clock, suffix, year = found.groups()
        if month not in MONTHS:
            raise _Unclear("the month is not known")
        day = f"{year}-{MONTHS.index(month) + 1:02}-{int(number):02}"
    else:
        raise _Unclear("that is no date with a time, or can be read in several ways")
    when = datetime.fromisoformat(f"{day} {clock}")
    if OFFSET.fullmatch(suffix):
        return _naive(datetime.fromisoformat(f"{day} {clock}{suffix}"))
    if suffix in ("", "Z", "UTC", "GMT"):
        return when
    if PLACE.fullmatch(suffix):
        return _in_place(when, suffix)
    return _in_class(when, suffix, zone)


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _Unclear(f"{_shown(name)} is not the name of a time zone") from None


def _in_place(when: datetime, name: str) -> datetime:
    """A time in this zone as UTC. Raises _Unclear where the clocks were changed then: it came twice, or never."""
    first, second = (when.replace(tzinfo=_zone(name), fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        raise _Unclear(f"in {name} the clocks were changed in this hour")
    return _naive(first)


def _in_class(when: datetime, abbreviation: str, zone: str) -> datetime:
    """A time in the class's own zone as UTC, where that has this abbreviation at that time; else raises _Unclear."""
    both = [when.replace(tzinfo=_zone(zone), fold=fold) for fold in (0, 1)]
    found = {_naive(one) for one in both if one.tzname() == abbreviation}
    if len(found) != 1:
        raise _Unclear(f"{_shown(abbreviation)} is not the name of one time zone")
    return found.pop()


def _naive(when: datetime) -> datetime:
    return when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when
