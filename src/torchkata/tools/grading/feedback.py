"""The page that a student gets back: points, each verdict's sentence, the student's own code, and no test."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from torchkata.tools.grading.records import ExerciseMark, NotGradable, Record, Submission

PLAIN = {"solved": "Solved.", "not solved": "Not solved yet."}  # states that need no details
MAX_SHOWN = 20_000  # characters of one answer or verdict


def feedback_page(title: str, record: Record, submission: Submission) -> str:
    """The page of a graded submission, as HTML that needs no other file. All that comes from a learner is escaped."""
    code = {cell.exercise: cell.source for cell in submission.cells if cell.kind == "answer"}
    marks = [_shown(mark, code.get(mark.exercise, "")) for mark in record.marks]
    points = {"points": f"{record.points:g}", "of": f"{record.of:g}"}
    return _template().render(title=title, student=record.student, marks=marks, reason="", **points)


def refusal_page(title: str, refusal: NotGradable) -> str:
    """The page of a submission that could not be graded: why, and what to do."""
    return _template().render(title=title, student=refusal.student, reason=refusal.reason)


def _shown(mark: ExerciseMark, code: str) -> dict[str, str]:
    sentence, _, details = mark.verdict.partition("\n")
    return {
        "title": mark.title,
        "points": f"{mark.points:g}",
        "of": f"{mark.of:g}",
        "style": mark.state if mark.state in ("solved", "partly") else "wrong",
        "sentence": PLAIN.get(mark.state) or _cut(sentence) or mark.state,
        "details": "" if mark.state in PLAIN else _cut(details),
        "code": _cut(code.strip("\n")),
    }


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n[… {len(text) - MAX_SHOWN} more characters]"


@cache
def _template() -> Template:
    pages = Environment(
        loader=PackageLoader("torchkata.tools.grading", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template("feedback.html.j2")
