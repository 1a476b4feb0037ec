"""The same corpus through `torchkata grade` and through `nbgrader autograde`: who wins what, and who comes to harm.

    python -m tests.tools.grading.hostile.compare [--jobs N] [NAME or KIND ...]

nbgrader runs, without a sandbox, only what stays inside of its course: no kills, forks, floods and writing elsewhere.
Each attack has a course of its own there, between two honest students, with the settings of nbgrader_config.py. Takes
some minutes.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.tools.grading.hostile import course
from tests.tools.grading.hostile.corpus import CORPUS
from tests.tools.grading.hostile.handin import CHAPTER, Attack, HandIn, Surroundings
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import Record

SETTINGS = "\nc.Execute.timeout = 5\nc.Execute.startup_timeout = 20\n"
PATIENCE = 300  # seconds for one run of nbgrader
PR_SET_CHILD_SUBREAPER = 36
Points = dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """What became of an attack: points that it won without having earned them, what others came to."""

    won: float
    harm: str

    @property
    def text(self) -> str:
        return ", ".join(filter(None, [f"{self.won:g}" if self.won else "", self.harm])) or "–"


def outcome(attacker: HandIn, honest: list[HandIn], points: dict[str, Points]) -> Outcome:
    """Compare the points by student and exercise with what was earned."""
    got = points.get(attacker.student, {})
    won = sum(max(0.0, got.get(name, 0.0) - due) for name, due in attacker.earned.items())
    missing = [one for one in honest if one.student not in points]
    changed = [one for one in honest if one not in missing and _differ(points[one.student], one.earned)]
    harm = [f"{len(missing)} honest not graded"] if missing else []
    harm += [f"{len(changed)} honest marks changed"] if changed else []
    return Outcome(round(won, 2), ", ".join(harm))


def _differ(points: Points, earned: Points) -> bool:
    return any(abs(points.get(name, 0.0) - due) > 1e-2 for name, due in earned.items())


# ---------------------------------------------------------------- torchkata grade


def graded_by_torchkata(attacks: list[Attack], folder: Path) -> dict[Attack, Outcome]:
    """All attacks in one run."""
    root = folder / "torchkata"
    course.build(root)
    people = course.hand_in(attacks, Surroundings(root, "hostile-compare", 9))
    course.main(root)
    found = Results(root / "graded" / CHAPTER.name).all()
    points = {one.student: {m.exercise: m.points for m in one.marks} for one in found if isinstance(one, Record)}
    attackers = list(people.attackers.items())
    return {
        attack: outcome(one, people.honest[number : number + 2], points)
        for number, (attack, one) in enumerate(attackers)
    }


# ---------------------------------------------------------------- nbgrader


def template(folder: Path) -> Path:
    """A course after `nbgrader generate_assignment`."""
    root = folder / "template"
    course.build(root)
    config = root / "nbgrader_config.py"
    config.write_text(config.read_text(encoding="utf-8") + SETTINGS, encoding="utf-8")
    said = nbgrader(root, "generate_assignment", "--force")
    if said is None or said.returncode:
        raise SystemExit(f"nbgrader generate_assignment failed: {said and said.stderr}")
    return root


def graded_by_nbgrader(attack: Attack, folder: Path, base: Path) -> Outcome | None:
    """One attack between two honest students; None for one that is not run there."""
    if not attack.nbgrader_safe:
        return None
    root = folder / attack.name
    shutil.copytree(base, root)
    people = course.hand_in([attack], Surroundings(root, "hostile-compare", 9))
    try:
        said = nbgrader(root, "autograde")
        found = outcome(people.attackers[attack], people.honest, points_of(root))
        return found if said else Outcome(found.won, ", ".join(filter(None, [found.harm, "never ends"])))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def nbgrader(root: Path, command: str, *options: str) -> subprocess.CompletedProcess | None:
    """Run nbgrader in a course, with all places for settings and temporary files inside of it; None if it hangs."""
    home = root / ".home"
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    places = {
        "HOME": home,
        "TMPDIR": home / "tmp",
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_CONFIG_DIR": home / "jupyter",
    }
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = os.environ | {name: str(place) for name, place in places.items()} | {"PATH": path}
    run = [sys.executable, "-m", "nbgrader", command, CHAPTER.name, *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    try:
        return subprocess.run(run, cwd=root, env=environment, timeout=PATIENCE, **quiet)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_all_in(root)


def _end_all_in(root: Path) -> None:
    """End descendants of this process that were left behind in a course."""
    for process in psutil.Process().children(recursive=True):
        try:
            if process.environ().get("HOME") == str(root / ".home"):
                process.kill()
        except psutil.Error:
            pass


def points_of(root: Path) -> dict[str, Points]:
    """By student and exercise, what the gradebook says; only students who were graded."""
    query = """
        select submitted_assignment.student_id, base_cell.name, grade.auto_score
        from grade join base_cell on base_cell.id = grade.cell_id
        join submitted_notebook on submitted_notebook.id = grade.notebook_id
        join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
    """
    points: dict[str, Points] = {}
    exercise_of = {check: exercise.id for exercise in CHAPTER.exercises for check in exercise.check_ids}
    try:
        with sqlite3.connect(root / "gradebook.db") as book:
            rows = book.execute(query).fetchall()
    except sqlite3.Error:
        return {}
    for student, check, score in rows:
        if score is not None and check in exercise_of:
            mine = points.setdefault(student, {})
            mine[exercise_of[check]] = mine.get(exercise_of[check], 0.0) + score
    return points


# ---------------------------------------------------------------- the table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wanted", nargs="*", help="names or kinds of attacks; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="runs of nbgrader at a time")
    asked = parser.parse_args()
    attacks = [a for a in CORPUS if not asked.wanted or {a.name, a.kind} & set(asked.wanted)]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # so that nothing that is left behind can hide
    with tempfile.TemporaryDirectory(prefix="hostile-") as name, ThreadPoolExecutor(asked.jobs) as pool:
        folder = Path(name)
        ours = graded_by_torchkata(attacks, folder)
        base = template(folder)
        outcomes = pool.map(partial(graded_by_nbgrader, folder=folder, base=base), attacks)
        theirs = dict(zip(attacks, track(outcomes, "nbgrader autograde", len(attacks)), strict=True))
    show(attacks, ours, theirs)


def show(attacks: list[Attack], ours: dict[Attack, Outcome], theirs: dict[Attack, Outcome | None]) -> None:
    out = Console(width=None if sys.stdout.isatty() else 150)
    table = Table("kind", "attack", "torchkata grade", "nbgrader autograde", title="points wrongly won, harm to others")
    for attack in attacks:
        other = theirs[attack]
        table.add_row(attack.kind, attack.name, ours[attack].text, other.text if other else "not run")
    out.print(table)
    run = [attack for attack in attacks if theirs[attack]]
    for what, outcomes, number in (
        ("torchkata grade", list(ours.values()), len(attacks)),
        ("nbgrader autograde", [theirs[attack] for attack in run], len(run)),
    ):
        winners, harmful = sum(one.won > 0 for one in outcomes), sum(bool(one.harm) for one in outcomes)
        out.print(f"{what}: of {number} attacks {winners} won points, {harmful} did harm to others")


if __name__ == "__main__":
    main()
