"""What a result is called in the files that other systems read: Gradescope's and PrairieLearn's results.json.

Their formats: https://gradescope-autograders.readthedocs.io/en/latest/specs/ and
https://docs.prairielearn.com/externalGrading/.
"""

from __future__ import annotations

from typing import Any

from torchkata.tools.grading.handed_out.pages import told_to_student, verdict_for_student
from torchkata.tools.grading.records import NotGradable, Record


def gradescope(result: Record | NotGradable) -> dict[str, Any]:
    """Gradescope's results.json: a test for each exercise. What is noted for the teacher is a test that students don't
    see. Where nothing could be graded, the file has no test and 0 points, which Gradescope demands, and says why."""
    if isinstance(result, NotGradable):
        return {"score": 0, "output": f"Not graded: {result.reason}", "visibility": "visible", "tests": []}
    tests: list[dict[str, Any]] = [
        {
            "name": mark.title,
            "score": mark.points,
            "max_score": mark.of,
            "status": "passed" if mark.points == mark.of else "failed",
            "output": verdict_for_student(mark),
            "visibility": "visible",
        }
        for mark in result.marks
    ]
    if notes := [*result.notes, *result.not_limited]:
        tests.append({"name": "For the teacher", "output": "\n".join(notes), "visibility": "hidden"})
    about = "\n".join(told_to_student(result))
    return {"score": result.points, "execution_time": round(result.seconds), "output": about, "tests": tests}


def prairielearn(result: Record | NotGradable) -> dict[str, Any]:
    """PrairieLearn's results.json: a test for each exercise, the score as a share of 1. What could not be graded is not
    gradable there either, so that it takes no attempt."""
    if isinstance(result, NotGradable):
        return {"gradable": False, "message": f"Not graded: {result.reason}"}
    return {
        "gradable": True,
        "score": result.points / result.of if result.of else 0.0,
        "output": "\n".join(told_to_student(result)),
        "tests": [
            {"name": mark.title, "points": mark.points, "max_points": mark.of, "message": verdict_for_student(mark)}
            for mark in result.marks
        ],
    }


SYSTEMS = {"gradescope": gradescope, "prairielearn": prairielearn}
