"""The HTML pages of grading: what stands on each of them. A page needs no other file, and shows no test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from torchkata import __version__
from torchkata.tools.grading.handed_out.overview import GROUPS, ExerciseOverview, Overview
from torchkata.tools.grading.records import (
    ABOUT_FILES,
    OWN_CELL,
    UNTRIED,
    ExerciseMark,
    NotGradable,
    Record,
    Submission,
)

PLAIN = {"solved": "Solved.", "not solved": "Not solved yet."}  # states that need no details
MAX_SHOWN = 20_000  # characters of one answer or verdict
MAX_WHY = 200  # characters of a sentence in the summary
FOR_STUDENT = (*ABOUT_FILES, OWN_CELL)  # beginnings of notes that the student reads; the others are the teacher's
FIRST = 3  # exercises that the summary names
OtherAnswers = Mapping[str, Sequence[tuple[str, str]]]  # by exercise: what each is, and its source
NO_OTHERS: OtherAnswers = {}
MISTAKES = 5  # sentences of one exercise in the overview
MAX_SENTENCE = 300  # characters of one of them

# ---------------------------------------------------------------- what a student gets back


def feedback_page(
    title: str, record: Record, submission: Submission, site: str | None = None, others: OtherAnswers = NO_OTHERS
) -> str:
    """The page of a graded submission, as HTML that needs no other file. All that comes from a learner is escaped.

    `site` is the address of the chapter on the course's site; None where that is unknown. `others` are shown below the
    exercises that are solved.
    """
    code = submission.answers
    return rendered(
        "feedback.html.j2",
        title=title,
        student=record.student,
        reason="",
        points=f"{record.final_points:g}",
        of=f"{record.of:g}",
        penalty=_penalty(record),
        notes=told_to_student(record),
        solved=sum(mark.state == "solved" for mark in record.marks),
        first=[{"why": _why(mark), "title": mark.title, "anchor": _anchor(mark)} for mark in look_first(record.marks)],
        marks=[_shown(mark, record, code.get(mark.exercise, ""), others) for mark in record.marks],
        handed_in=shown_date(datetime.fromisoformat(record.handed_in)) if record.handed_in else None,
        site=site,
    )


def refusal_page(title: str, refusal: NotGradable) -> str:
    """The page of a submission that could not be graded: why, and what to do."""
    about = {"title": title, "student": refusal.student, "reason": refusal.reason}
    return rendered("feedback.html.j2", **about, handed_in=None, site=None)


def look_first(marks: Sequence[ExerciseMark]) -> list[ExerciseMark]:
    """The exercises to look at first: those that were tried before those that were not, where most is lost first."""
    open_ones = [mark for mark in marks if mark.state != "solved"]
    return sorted(open_ones, key=lambda mark: (mark.state in UNTRIED, mark.points - mark.of))[:FIRST]


def _why(mark: ExerciseMark) -> str:
    return _shortened(_sentence(mark), MAX_WHY)


def _sentence(mark: ExerciseMark) -> str:
    return PLAIN.get(mark.state) or _cut(mark.verdict.partition("\n")[0]) or mark.state


def _anchor(mark: ExerciseMark) -> str:
    return f"exercise-{mark.exercise}"


def told_to_student(record: Record) -> list[str]:
    """The notes that the student reads, in words to the student."""
    notes = [note for note in record.notes if note.startswith(FOR_STUDENT)]
    return [note.replace(OWN_CELL, "A cell of your own", 1) for note in notes]


def verdict_for_student(mark: ExerciseMark) -> str:
    """What a student reads of an exercise: a sentence and, below it, details."""
    return f"{_sentence(mark)}\n{_details(mark)}".strip()


def _details(mark: ExerciseMark) -> str:
    return "" if mark.state in PLAIN else _cut(mark.verdict.partition("\n")[2])


def _penalty(record: Record) -> str:
    """What handing in late costs; empty where it costs nothing."""
    penalty = record.counted.penalty if record.counted else 0.0
    return f"{record.final_points + penalty:g} points, less {penalty:g} for handing in late." if penalty else ""


def _by_hand(mark: ExerciseMark, record: Record) -> str:
    """That a teacher gave the points; empty where the checks did."""
    if not record.given_by_hand(mark):
        return ""
    return f"Your teacher gave {record.points_of(mark):g} of {mark.of:g} points. The checks gave {mark.points:g}."


def _shown(mark: ExerciseMark, record: Record, code: str, others: OtherAnswers) -> dict[str, object]:
    return {
        "title": mark.title,
        "anchor": _anchor(mark),
        "points": f"{record.points_of(mark):g}",
        "of": f"{mark.of:g}",
        "by_hand": _by_hand(mark, record),
        "comment": _cut(record.counted.comments.get(mark.exercise, "")) if record.counted else "",
        "style": mark.state if mark.state in ("solved", "partly") else "wrong",
        "sentence": _sentence(mark),
        "details": _details(mark),
        "code": _cut(code.strip("\n")),
        "others": others.get(mark.exercise, ()) if mark.state == "solved" else (),
    }


# ---------------------------------------------------------------- the overview of a class


def overview_page(title: str, overview: Overview) -> str:
    """The page, as HTML that needs no other file. All that comes from a learner is escaped."""
    return rendered(
        "overview.html.j2",
        title=title,
        overview=overview,
        groups=GROUPS,
        rows=[shown(one, overview.graded) for one in overview.exercises],
    )


def shown(one: ExerciseOverview, students: int) -> dict:
    """What the template says of an exercise; bars are in percent of the class."""
    bars, before = [], 0.0
    for group in GROUPS:
        width = 100 * one.counts[group] / students if students else 0.0
        bars.append({"group": group, "count": one.counts[group], "x": round(before, 2), "width": round(width, 2)})
        before += width
    mistakes = [(_shortened(sentence, MAX_SENTENCE), count) for sentence, count in one.mistakes[:MISTAKES]]
    return {
        "title": one.title,
        "anchor": f"exercise-{one.exercise}",
        "counts": one.counts,
        "bars": bars,
        "mistakes": mistakes,
        "more": len(one.mistakes) - len(mistakes),
    }


# ---------------------------------------------------------------- both


def rendered(template: str, **values: object) -> str:
    """The page that a template makes of these values, as HTML. All values are escaped."""
    about = {"graded": shown_date(datetime.now(UTC)), "release": f"torchkata {__version__}"}
    return _templates().get_template(template).render(**about, **values)


def shown_date(when: datetime) -> str:
    """A date in UTC, such as 22 November 2026, 14:05 UTC."""
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("torchkata.tools.grading.handed_out", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shortened(sentence: str, limit: int) -> str:
    return sentence if len(sentence) <= limit else f"{sentence[:limit]}…"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n[… {len(text) - MAX_SHOWN} more characters]"
