"""The overview of a class as one page: a plot, then each exercise with the mistakes that were made most."""

from __future__ import annotations

from torchkata.tools.grading.handed_out.overview import GROUPS, ExerciseOverview, Overview
from torchkata.tools.grading.handed_out.pages import rendered

MISTAKES = 5  # sentences of one exercise
MAX_SENTENCE = 300  # characters


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
    mistakes = [(_cut(sentence), count) for sentence, count in one.mistakes[:MISTAKES]]
    return {
        "title": one.title,
        "anchor": f"exercise-{one.exercise}",
        "counts": one.counts,
        "bars": bars,
        "mistakes": mistakes,
        "more": len(one.mistakes) - len(mistakes),
    }


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[:MAX_SENTENCE]}…"
