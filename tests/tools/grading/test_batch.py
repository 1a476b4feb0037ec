"""A grading run over a class: what is graded, kept, resumed; and what happens to marks when the run is stopped."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from filelock import FileLock
from nbgrader.api import Gradebook

from tests import ROOT
from tests.tools.grading import classroom
from tests.tools.grading.classroom import folder_of, hand_in
from tests.tools.grading.fake_grading import (
    NAME,
    closed_grader,
    fake_grader,
    hurried_grader,
    limited_grader,
    stubborn_grader,
)
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading import batch, desk
from torchkata.tools.grading.batch import Run, grade_chapter, students_of
from torchkata.tools.grading.desk import LOCK, complaint_about
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.pool import Pool
from torchkata.tools.grading.records import NotGradable, Submission
from torchkata.tools.grading.sandbox.limits import MIB, Limits

a_further_trouble = pytest.mark.exhaustive("a further trouble of a grading run", thorough=True)


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return classroom.course(tmp_path)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary.txt"
    path.touch()
    return path


@pytest.fixture
def grade(chapter: Chapter, diary: Path):
    """Run the batch with a grader that judges by words; its options are those of grade_chapter."""

    def run(**options) -> Run:
        sandboxed = options.get("sandboxed", True)
        return grade_chapter(chapter, partial(fake_grader, diary, sandboxed), **options)

    return run


def scores(chapter: Chapter) -> dict[str, float]:
    with Gradebook(f"sqlite:///{chapter.root / 'gradebook.db'}", "torchkata") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(NAME)}


def students(records: list) -> list[str]:
    return sorted(record.student for record in records)


# ---------------------------------------------------------------- what a run does


def test_a_class(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="right", guess="right", thrice="right")
    hand_in(chapter, "bob", twice="half")
    hand_in(chapter, "eve", b"{")
    seen = []
    run = grade(jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert students(run.graded) == ["ada", "bob"] and not run.kept and not run.cut_off
    assert not any(record.marks for record in run.graded)  # a large class would not fit into memory
    assert [(refusal.student, refusal.reason[:28]) for refusal in run.refused] == [
        ("eve", "The notebook can't be read: ")
    ]
    assert scores(chapter) == {"ada": 6.0, "bob": 1.0}
    assert seen[-1] == (3, 3) and seen == sorted(seen)
    out = chapter.root / "graded" / NAME
    assert sorted(path.name for path in out.iterdir()) == [
        "canvas.csv",
        "marks.csv",
        "moodle.csv",
        "overview.html",
        "records",
        "run.json",
    ]
    assert len((out / "marks.csv").read_text().splitlines()) == 1 + 3 + 3 + 1
    summary = json.loads((out / "run.json").read_text())
    assert sorted(summary["graded"]) == ["ada", "bob"] and list(summary["not_graded"]) == ["eve"]
    for student, words in (("ada", "6 of 6"), ("bob", "1 of 6"), ("eve", "could not be graded")):
        assert words in (chapter.root / "feedback" / student / NAME / "things.html").read_text()
    assert (chapter.root / "autograded" / "ada" / NAME / "things.ipynb").is_file()
    assert not (chapter.root / "autograded" / "eve").exists()


def test_only_what_is_new_or_changed_is_graded_again(chapter: Chapter, grade, diary: Path):
    for student in ("ada", "bob"):
        hand_in(chapter, student, twice="right")
    grade()
    again = grade()
    assert (students(again.kept), again.graded) == (["ada", "bob"], [])
    hand_in(chapter, "bob", twice="half")
    hand_in(chapter, "cyd", twice="right")
    third = grade()
    assert (students(third.kept), students(third.graded)) == (["ada"], ["bob", "cyd"])
    assert scores(chapter) == {"ada": 2.0, "bob": 1.0, "cyd": 2.0}
    assert sorted(diary.read_text().split()) == ["ada", "bob", "bob", "cyd"]
    assert students(grade(force=True).graded) == ["ada", "bob", "cyd"]


def test_a_changed_chapter_is_graded_again(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="right")
    grade()
    chapter.release.write_text(chapter.release.read_text() + "\n")
    assert students(grade().graded) == ["ada"]


@pytest.mark.parametrize("lost", ["autograded", "feedback", "graded"])
def test_deleted_results_come_back(chapter: Chapter, grade, lost: str):
    hand_in(chapter, "ada", twice="right")
    grade()
    for path in sorted((chapter.root / lost).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert students(grade().graded) == ["ada"]
    assert any(path.is_file() for path in (chapter.root / lost).rglob("*"))


def test_a_deleted_gradebook_is_filled_again_without_grading(chapter: Chapter, grade, diary: Path):
    hand_in(chapter, "ada", twice="right")
    grade()
    (chapter.root / "gradebook.db").write_bytes(classroom.gradebook())
    assert students(grade().kept) == ["ada"]
    assert scores(chapter) == {"ada": 2.0} and diary.read_text().split() == ["ada"]


def test_some_students_only(chapter: Chapter, grade, diary: Path):
    for student in ("ada", "bob", "cyd"):
        hand_in(chapter, student, twice="right")
    assert students(grade(students=["cyd", "ada", "ada"]).graded) == ["ada", "cyd"]
    assert len(Results(chapter.root / "graded" / NAME).csv.read_text().splitlines()) == 1 + 3 + 3
    with pytest.raises(CourseError, match="submitted/ holds no folder of eve, joe"):
        grade(students=["eve", "ada", "joe"])
    assert sorted(diary.read_text().split()) == ["ada", "cyd"]


def test_a_student_without_the_chapter_is_not_graded_when_asked_for(chapter: Chapter, grade):
    (chapter.root / "submitted" / "ada").mkdir(parents=True)
    [refusal] = grade(students=["ada"]).refused
    assert "nothing was handed in" in refusal.reason
    assert scores(chapter) == {}


def test_nobody_handed_in(chapter: Chapter, grade):
    with pytest.raises(CourseError, match="Put the submissions into submitted/STUDENT/CHAPTER"):
        grade()
    (chapter.root / "submitted" / "ada" / "99_other").mkdir(parents=True)
    with pytest.raises(CourseError, match="Nobody has handed in 98_things"):
        grade()


def test_results_go_where_they_are_wanted(chapter: Chapter, grade, tmp_path: Path):
    hand_in(chapter, "ada", twice="right")
    run = grade(out=tmp_path / "elsewhere")
    assert run.folder == tmp_path / "elsewhere" / NAME and (run.folder / "marks.csv").is_file()
    assert not (chapter.root / "graded").exists()


def test_what_ran_without_a_sandbox_is_marked_and_graded_again(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="right")
    assert grade(sandboxed=False).summary()["not_sandboxed"] == ["ada"]
    assert students(grade(sandboxed=False).kept) == ["ada"]
    run = grade()
    assert students(run.graded) == ["ada"] and run.summary()["not_sandboxed"] == []
    assert students(grade(sandboxed=False).kept) == ["ada"]


def test_cut_off_submissions_are_named(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="slow", guess="right")
    run = grade()
    assert students(run.cut_off) == ["ada"] and run.summary()["cut_off"] == ["ada"]
    assert scores(chapter) == {"ada": 3.0}
    assert students(grade().cut_off) == ["ada"]


@a_further_trouble
def test_what_was_cut_off_is_graded_once_more_alone_at_the_end(chapter: Chapter, tmp_path: Path):
    hand_in(chapter, "ada", twice="right, but late", guess="right")
    hand_in(chapter, "bob", twice="slow", guess="right")
    for student in ("cyd", "dan", "eve"):
        hand_in(chapter, student, twice="right")
    run = grade_chapter(chapter, partial(hurried_grader, tmp_path), jobs=2)
    assert students(run.graded) == ["ada", "bob", "cyd", "dan", "eve"] and students(run.cut_off) == ["bob"]
    assert scores(chapter) == {"ada": 5.0, "bob": 3.0, "cyd": 2.0, "dan": 2.0, "eve": 2.0}
    assert all(record.final for record in run.records)
    *_, first, first_ends, second, second_ends = (tmp_path / "at-work.txt").read_text().split()
    assert first_ends == first.replace("+", "-") and second_ends == second.replace("+", "-")
    assert {first, second} == {"+ada", "+bob"}
    assert not grade_chapter(chapter, partial(hurried_grader, tmp_path)).graded


@a_further_trouble
def test_a_second_run_takes_nothing_away(chapter: Chapter, tmp_path: Path):
    hand_in(chapter, "ada", twice="late, and then slow", guess="right")
    first = grade_chapter(chapter, partial(hurried_grader, tmp_path))
    assert first.records[0].points == 3.0 and first.records[0].final
    assert scores(chapter) == {"ada": 3.0}


@a_further_trouble
def test_a_run_that_ends_before_the_second_try_makes_up_for_it_later(chapter: Chapter, grade, monkeypatch):
    hand_in(chapter, "ada", twice="slow")
    with monkeypatch.context() as patch:
        patch.setattr(batch._Grading, "_once_more", lambda *arguments: None)
        grade()
    assert students(grade().graded) == ["ada"] and students(grade().kept) == ["ada"]


# ---------------------------------------------------------------- not graded is never a zero


def test_a_broken_second_submission_leaves_the_marks_of_the_first(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="right")
    grade()
    hand_in(chapter, "ada", b"")
    run = grade()
    assert run.refused and scores(chapter) == {"ada": 2.0}
    assert "not graded" in (run.folder / "marks.csv").read_text()
    hand_in(chapter, "ada", twice="right")
    assert students(grade().graded) == ["ada"]


FORMULAS = ["=1+1", "@sum", "+1", "-rf"]


@pytest.mark.parametrize(
    "name", ["a,b", "a\nb", 'a"b', "a\x1b[31mb", " ada", "ö" * 120, "\udcff", *FORMULAS, ".hidden"], ids=ascii
)
def test_odd_names_are_refused_and_leave_no_file(chapter: Chapter, grade, name: str):
    try:
        hand_in(chapter, name, twice="right")
    except OSError:
        pytest.skip("this file system has no such names")
    hand_in(chapter, "zoe", twice="right")
    run = grade()
    assert [refusal.student for refusal in run.refused] == [name] and "Rename it" in run.refused[0].reason
    assert scores(chapter) == {"zoe": 2.0}
    assert [path.name for path in (chapter.root / "feedback").iterdir()] == ["zoe"]


@pytest.mark.parametrize(
    "name", ["ada", "Ada Lovelace", "ada@example.org", "José", "Jose\u0301", "李", "o'hara", "a=1"]
)
def test_usual_names_are_taken(chapter: Chapter, name: str):
    assert complaint_about(name) is None


def test_links_hidden_folders_and_files_in_submitted(chapter: Chapter, grade, tmp_path: Path):
    hand_in(chapter, "ada", twice="right")
    (chapter.root / "submitted" / "notes.txt").touch()
    (chapter.root / "submitted" / ".git").mkdir(parents=True)
    (chapter.root / "submitted" / ".hidden" / NAME).mkdir(parents=True)
    (chapter.root / "submitted" / "link").symlink_to(chapter.root / "submitted" / "ada")
    folder_of(chapter, "dangling").parent.mkdir()
    folder_of(chapter, "dangling").symlink_to("/nowhere")
    assert students_of(chapter) == [".hidden", "ada", "dangling", "link"]
    run = grade()
    linked = {r.student: "symbolic link" in r.reason for r in run.refused}
    assert linked == {"dangling": True, "link": True, ".hidden": False}


# ---------------------------------------------------------------- a grader that fails


@pytest.fixture
def stubborn(chapter: Chapter, tmp_path: Path):
    return lambda **options: grade_chapter(chapter, partial(stubborn_grader, tmp_path), **options)


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_bad_submission_never_stops_the_batch(chapter: Chapter, stubborn, jobs: int):
    hand_in(chapter, "a-kill", twice="kill")
    hand_in(chapter, "b-fault", twice="fault")
    hand_in(chapter, "c-once", twice="right once")
    hand_in(chapter, "c-sandbox", twice="sandbox")
    for number in range(4):
        hand_in(chapter, f"d{number}", twice="right")
    run = stubborn(jobs=jobs)
    assert {refusal.student: refusal.reason for refusal in run.refused} == {
        "a-kill": "The grader failed: its process ended without a result, 2 times. Run the command again.",
        "b-fault": "The grader failed: RuntimeError: a fault of the grader.",
        "c-sandbox": "The grader failed: The sandbox has ended, 2 times. Run the command again.",
    }
    assert scores(chapter) == {"c-once": 2.0} | {f"d{number}": 2.0 for number in range(4)}
    assert {refusal.student for refusal in stubborn().refused} == {"a-kill", "b-fault", "c-sandbox"}  # tried again


def test_a_grader_has_its_next_submission_before_results_are_dealt_with(diary: Path):
    tasks = [Submission(name, NAME, []) for name in ("ada", "bob", "cyd")]
    with Pool(partial(fake_grader, diary), jobs=1, patience=60) as pool:
        results = pool.grade(tasks)
        first, _ = next(results)
        assert first.student == "ada" and pool.workers[0].task.student == "bob"
        assert [task.student for task, _ in results] == ["bob", "cyd"]


@a_further_trouble
def test_a_grader_that_does_not_answer_is_ended(chapter: Chapter, stubborn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "PATIENCE", 12)
    hand_in(chapter, "hang", twice="hang")
    hand_in(chapter, "zoe", twice="right")
    run = stubborn(jobs=2)
    assert "no answer within 12 seconds, 2 times" in run.refused[0].reason and scores(chapter) == {"zoe": 2.0}


@pytest.mark.skipif(sys.platform != "linux", reason="the limits on judging are the kernel's")
def test_judging_beyond_its_limits_costs_that_exercise_only(chapter: Chapter):
    hand_in(chapter, "ada", twice="right, uses cpu", guess="right, uses memory", thrice="right, uses the clock")
    hand_in(chapter, "bob", guess="half", thrice="right, uses cpu")
    hand_in(chapter, "cyd", twice="right")
    limits = Limits(judge_seconds=0.5, judge_memory=256 * MIB, submission_seconds=0.1)
    run = grade_chapter(chapter, partial(limited_grader, limits))
    lost = {record.student: sorted(record.notes) for record in run.records}
    assert not run.refused and lost == {"ada": ["guess", "thrice", "twice"], "bob": ["thrice"], "cyd": []}


def test_a_grader_that_can_not_start_stops_the_run(chapter: Chapter):
    hand_in(chapter, "ada", twice="right")
    with pytest.raises(CourseError, match="install bubblewrap"):
        grade_chapter(chapter, partial(closed_grader, CourseError("install bubblewrap")))
    with pytest.raises(CourseError, match=r"The grader can't start\. ZeroDivisionError: 7"):
        grade_chapter(chapter, partial(closed_grader, ZeroDivisionError(7)))
    assert scores(chapter) == {} and list(Results(chapter.root / "graded" / NAME).all()) == []


# ---------------------------------------------------------------- faults


def test_two_runs_at_once(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="right")
    with FileLock(chapter.root / LOCK), pytest.raises(CourseError, match="Another grading run is at work"):
        grade()
    assert students(grade().graded) == ["ada"]


def wait_until_all_have_ended(session: int) -> None:
    """Wait until no process of a session is left; fails after half a minute."""
    for _ in range(300):
        if not (left := [process for process in psutil.process_iter() if session_of(process.pid) == session]):
            return
        time.sleep(0.1)
    pytest.fail(f"these processes outlive the run: {left}")


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


PROGRAM = """
    import signal
    import sys
    from functools import partial
    from pathlib import Path
    sys.path.insert(0, {checkout!r})
    from tests.tools.grading.fake_grading import NAME, fake_grader
    from torchkata.tools.course import Chapter
    from torchkata.tools.grading import batch, desk
    from torchkata.tools.placing import Place
    if __name__ == "__main__":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
        desk.GROUP = 2
        root = Path({root!r})
        batch.grade_chapter(Chapter(Place(root), NAME), partial(fake_grader, root / "diary.txt"))
"""


@pytest.mark.parametrize("how", ["SIGKILL", pytest.param("SIGINT", marks=a_further_trouble)])
def test_a_run_that_is_stopped_in_the_middle_goes_on_later(chapter: Chapter, grade, diary: Path, how: str):
    names = [f"s{number}" for number in range(6)]
    for number, name in enumerate(names):
        hand_in(
            chapter, name, twice="slow" if number == 5 else "right", guess=f"slow {number}" if number > 2 else "half"
        )
    program = chapter.root / "program.py"
    program.write_text(textwrap.dedent(PROGRAM.format(checkout=str(ROOT), root=str(chapter.root))))
    process = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while diary.read_text().count("s") < 4:  # the fourth is being graded
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(getattr(signal, how))
        assert process.wait(60) != 0
    finally:
        process.poll() is None and process.kill()
    wait_until_all_have_ended(process.pid)
    kept = students(Results(chapter.root / "graded" / NAME).all())
    assert 2 <= len(kept) < 6
    entered = scores(chapter)
    assert set(entered) <= set(kept)
    run = grade()
    assert students(run.kept) == kept and students(run.kept + run.graded) == names
    assert scores(chapter) == {
        name: 2.0 + (1.5 if n < 3 else 0.0) - (2.0 if n == 5 else 0.0) for n, name in enumerate(names)
    }
    assert not list(chapter.root.rglob(".new-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel to end a process with its parent")
@a_further_trouble
def test_a_busy_grader_ends_with_the_command(chapter: Chapter, diary: Path):
    hand_in(chapter, "ada", twice="for ever")
    program = chapter.root / "program.py"
    program.write_text(textwrap.dedent(PROGRAM.format(checkout=str(ROOT), root=str(chapter.root))))
    with subprocess.Popen([sys.executable, str(program)], stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not diary.read_text():
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    wait_until_all_have_ended(process.pid)


def test_what_a_killed_run_had_half_written_is_removed(chapter: Chapter, grade):
    hand_in(chapter, "ada")
    grade()
    places = [chapter.root / place / "ada" / NAME for place in ("autograded", "feedback")]
    places += [chapter.root / "graded" / NAME, chapter.root / "graded" / NAME / "records"]
    for place in places:
        (place / ".new-abc").write_text("half")
    own = chapter.root / "submitted" / "ada" / NAME / ".new-idea"
    own.write_text("a student's own file")
    assert students(grade().kept) == ["ada"]
    assert list(chapter.root.rglob(".new-*")) == [own]


@pytest.mark.parametrize("place", ["autograded", "feedback", "graded"])
def test_a_full_disk_stops_the_run_and_loses_nothing(
    chapter: Chapter, grade, monkeypatch: pytest.MonkeyPatch, place: str
):
    for student in ("ada", "bob", "cyd"):
        hand_in(chapter, student, twice="right")
    written = desk.write_whole

    def write_until_full(path: Path, text: str) -> None:
        if path.is_relative_to(chapter.root / place / "bob") or path.stem == "bob":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        written(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(desk, "write_whole", write_until_full)
        patch.setattr("torchkata.tools.grading.handed_out.results.write_whole", write_until_full)
        with pytest.raises(CourseError, match=r"can't be written: No space left on device .*bob"):
            grade()
    run = grade()
    assert (students(run.kept), students(run.graded)) == (["ada"], ["bob", "cyd"])
    assert scores(chapter) == {"ada": 2.0, "bob": 2.0, "cyd": 2.0}


def test_a_really_full_disk(chapter: Chapter, grade, tmp_path: Path):
    """The same with a tmpfs of 64 kB for the results, where this process may mount one."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs root and the right to mount")
    try:
        for student in ("ada", "bob"):
            hand_in(chapter, student, twice="right")
        (small / "filler").write_bytes(b"x" * 60_000)
        with pytest.raises(CourseError, match="No space left on device"):
            grade(out=small)
        (small / "filler").unlink()
        run = grade(out=small)
        assert students(run.kept + run.graded) == ["ada", "bob"] and scores(chapter) == {"ada": 2.0, "bob": 2.0}
        assert not list(small.rglob(".new-*"))
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_gradebook_that_is_locked_in_the_middle(
    chapter: Chapter, grade, monkeypatch: pytest.MonkeyPatch, diary: Path
):
    for number in range(3):
        hand_in(chapter, f"s{number}", twice="right")
    monkeypatch.setattr(desk, "GROUP", 2)
    enter = desk.ChapterBook.enter

    def locked(self, records):
        raise CourseError("another program has locked it")

    with monkeypatch.context() as patch:
        patch.setattr(desk.ChapterBook, "enter", locked)
        with pytest.raises(CourseError, match="another program has locked it"):
            grade()
    assert desk.ChapterBook.enter is enter and scores(chapter) == {}
    run = grade()
    assert len(run.kept) == 2 and scores(chapter) == {f"s{number}": 2.0 for number in range(3)}


def test_a_damaged_record_is_graded_again(chapter: Chapter, grade):
    hand_in(chapter, "ada", twice="right")
    run = grade()
    (run.folder / "records" / "ada.json").write_text('{"student": "ada"')
    assert students(grade().graded) == ["ada"]


def test_refusals_are_tried_again(chapter: Chapter, grade):
    hand_in(chapter, "ada", b"{")
    assert grade().refused and isinstance(grade().refused[0], NotGradable)


def test_an_intake_that_fails_does_not_stop_the_batch(chapter: Chapter, grade, monkeypatch: pytest.MonkeyPatch):
    read = desk.read_submission

    def failing(folder, student, *rest):
        return 1 / 0 if student == "ada" else read(folder, student, *rest)

    for student in ("ada", "bob"):
        hand_in(chapter, student, twice="right")
    monkeypatch.setattr(desk, "read_submission", failing)
    run = grade()
    assert run.refused[0].reason == "The notebook can't be read: ZeroDivisionError."
    assert scores(chapter) == {"bob": 2.0}
