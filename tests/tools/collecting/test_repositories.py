"""`torchkata collect` on real git repositories, with nbgrader reading the times, up to the marks."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps.api import NbGraderAPI
from typer.testing import CliRunner

from tests.tools.grading.classroom import blank, folder_of
from tests.tools.grading.fake_grading import NAME
from tests.tools.grading.test_command import RIGHT, scores
from torchkata import cli
from torchkata.tools.collecting import repositories
from torchkata.tools.course import Chapter
from torchkata.tools.course_config import course_config
from torchkata.tools.errors import CourseError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
THEN = datetime(2026, 1, 31, 16, 30, tzinfo=UTC)
FILE = f"work/{NAME}/things.ipynb"


def git(folder: Path, *words: str, when: datetime = THEN) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always")
    dates = {f"GIT_{kind}_DATE": when.isoformat() for kind in ("AUTHOR", "COMMITTER")}
    subprocess.run(["git", *who, "-C", folder, *words], check=True, capture_output=True, env=os.environ | dates)


def commit(folder: Path, files: dict[str, str], when: datetime = THEN) -> Path:
    """Commit these files to a repository, which is made where there is none."""
    if not folder.exists():
        folder.mkdir(parents=True)
        git(folder, "init", "-b", "main")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "-m", "x", when=when)
    return folder


def answered(chapter: Chapter, **answers: str) -> str:
    return nbformat.writes(blank(chapter, **answers))


def collect(*words: str | Path):
    result = CliRunner().invoke(cli.app, ["collect", *map(str, words)])
    if isinstance(result.exception, CourseError):
        raise result.exception
    return result


def stamp(chapter: Chapter, student: str) -> str:
    return (folder_of(chapter, student) / "timestamp.txt").read_text().strip()


def test_clones_become_submissions_that_nbgrader_dates_and_grade_marks(chapter: Chapter, tmp_path: Path):
    clones = tmp_path / "clones"
    commit(clones / "things-ada-lovelace", {FILE: answered(chapter, **RIGHT)})
    commit(clones / "things-ada-lovelace", {"README.md": "later"}, THEN + timedelta(days=9))  # says nothing of it
    commit(clones / "things-gracehopper", {"things.ipynb": answered(chapter, thrice=RIGHT["thrice"])})
    (tmp_path / "class" / "students.csv").write_text(
        "id,first_name,last_name,account\nada,Ada,Lovelace,Ada-Lovelace\ngrace,Grace,Hopper,gracehopper\n"
    )
    result = collect(clones)
    assert result.exit_code == 0 and "2 new, 0 newer, 0 the same, 0 kept, 0 not taken." in result.output
    api = NbGraderAPI(config=course_config(chapter.root))
    for student in ("ada", "grace"):
        assert api.get_submitted_timestamp(NAME, student) == THEN.replace(tzinfo=None)
    done = CliRunner().invoke(cli.app, ["grade", "98", "--jobs", "1", "--no-sandbox"])
    assert done.exit_code == 0, done.output
    assert scores(chapter) == {"ada": 6.0, "grace": 1.0}
    assert "0 new, 0 newer, 2 the same, 0 kept, 0 not taken." in collect(clones).output


def test_only_a_newer_notebook_takes_the_place_and_the_earlier_one_is_kept(chapter: Chapter, tmp_path: Path):
    first, second = answered(chapter, thrice="def thrice(x): return 3"), answered(chapter, **RIGHT)
    repository = commit(tmp_path / "ada", {FILE: first})
    collect(repository)
    commit(repository, {FILE: second}, THEN + timedelta(hours=3))
    on_time = collect(repository, "--before", "2026-01-31 17:30 Europe/Berlin")
    assert "1 the same" in on_time.output and stamp(chapter, "ada") == "2026-01-31 16:30:00 UTC"
    newer = collect(repository)
    assert "1 newer" in newer.output and stamp(chapter, "ada") == "2026-01-31 19:30:00 UTC"
    earlier = chapter.root / "replaced" / "ada" / NAME / "2026-01-31_16.30.00"
    assert (earlier / "things.ipynb").read_text() == first and (earlier / "timestamp.txt").is_file()
    back = collect(repository, "--before", "2026-01-31 16:30")
    assert "1 kept" in back.output and "was handed in at 2026-01-31 19:30:00 UTC" in back.output
    (folder_of(chapter, "ada") / "timestamp.txt").unlink()
    assert "nothing says which is newer" in collect(repository, "--before", "2026-01-31 16:30").output
    assert (folder_of(chapter, "ada") / "things.ipynb").read_text() == second
    collect(repository, "--before", "2026-01-31 16:30", "--replace")
    assert (folder_of(chapter, "ada") / "things.ipynb").read_text() == first
    assert [path.read_text() for path in chapter.root.glob("replaced/ada/*/*/things.ipynb")].count(second) == 1


def test_addresses_in_a_file_one_of_them_bare(chapter: Chapter, tmp_path: Path):
    git(tmp_path, "clone", "--bare", str(commit(tmp_path / "ada", {FILE: answered(chapter, **RIGHT)})), "hw-ada.git")
    listed = tmp_path / "list.txt"
    listed.write_text(f"# the class\n\nfile://{tmp_path}/hw-ada.git\nfile://{tmp_path}/hw-nobody.git\n")
    (chapter.root / ".collecting-x" / "1").mkdir(parents=True)  # left by a run that was killed: the fixture looks
    result = collect(listed, "--prefix", "hw-")
    assert result.exit_code == 1 and "1 new" in result.output and stamp(chapter, "ada")
    assert "hw-nobody.git: not taken. git can't copy the repository:" in result.output


def test_an_address_names_the_repository_and_its_owner_and_no_password_is_shown():
    found = repositories.repository_at("https://joe:secret@host.example/Ada/torch.git")
    assert (found.name, found.owner, found.shown) == ("torch", "Ada", "https://host.example/Ada/torch.git")
    found = repositories.repository_at("git@host.example:ada/torch")
    assert (found.name, found.owner) == ("torch", "ada")
    assert all(repositories.repository_at(word) is None for word in ("ext::sh -c id", "--upload-pack=id", "host:x"))


# ---------------------------------------------------------------- what can't be taken


def test_what_is_wrong_with_a_repository_is_said_and_the_others_go_on(chapter: Chapter, tmp_path: Path):
    clones = tmp_path / "clones"
    commit(clones / "ada", {FILE: answered(chapter, **RIGHT)})
    commit(clones / "bob", {"notes/other.ipynb": "{}"})
    commit(clones / "cyd", {FILE: "<<<<<<< HEAD\n{}"})
    commit(clones / "dan", {"a/things.ipynb": "{}", "b/things.ipynb": "{}"})
    commit(clones / "eve", {FILE: chapter.release.read_text(), ".torchkata/backups/things.ipynb": "{}"})
    (clones / "fay").mkdir()
    git(commit(clones / "gus", {"x": ""}), "checkout", "--orphan", "empty")
    (clones / "hal").symlink_to(clones / "ada")
    commit(clones / "-x", {FILE: "{}"})
    result = collect(clones, "--chapter", "98")
    assert result.exit_code == 1 and "2 new, 0 newer, 0 the same, 0 kept, 7 not taken." in result.output
    for sentence in (
        "bob, 98_things: not taken. things.ipynb is not in it; these notebooks are: notes/other.ipynb.",
        "cyd, 98_things: It can't be graded: The notebook can't be read: it holds the marks of a merge conflict.",
        "dan, 98_things: not taken. things.ipynb is in it 2 times: a/things.ipynb, b/things.ipynb.",
        "eve, 98_things: not taken. The notebook is as it was handed out.",
        "fay: not taken. The folder is no git repository.",
        "gus: not taken. The repository has no commit on the branch that its HEAD names.",
        "hal: not taken. The folder is a symbolic link. Links are not followed.",
        "-x: not taken. The name '-x' begins with -, which makes a formula of it in a table.",
    ):
        assert sentence in result.output, result.output
    late = collect(clones / "ada", "--before", "2026-01-31 16:29:59")
    assert "No commit was made until 2026-01-31 16:29:59 UTC." in late.output


def test_two_that_are_one_students_or_nobodys(chapter: Chapter, tmp_path: Path):
    for name in ("hw-ada", "lab-ada", "hw-bob", "hw-joe"):
        commit(tmp_path / "clones" / name, {FILE: answered(chapter, **RIGHT)})
    (chapter.root / "students.csv").write_text("id,account\nada,\nbo,bob\nbob,\n")
    result = collect(tmp_path / "clones", tmp_path / "clones" / "hw-joe")
    assert "hw-ada, 98_things: not taken. lab-ada holds this chapter of the same student." in result.output
    assert "lab-ada, 98_things: not taken. hw-ada holds this chapter of the same student." in result.output
    assert "hw-bob: not taken. hw-bob could be of 2 students in students.csv: bo, bob." in result.output
    assert "hw-joe: not taken. students.csv has no student whose id or account is in the name hw-joe." in result.output
    assert "hw-joe: not taken. It was named twice." in result.output
    assert not (chapter.root / "submitted").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "There is no folder or file nowhere, and it is no address for git."),
        (["notebooks"], "notebooks is no git repository, and there is none in it."),
        (["list.txt"], "list.txt, line 2: ext::sh -c id is neither an address for git nor a clone."),
        (["empty.txt"], "empty.txt lists no address."),
        (["gradebook.db"], "gradebook.db is neither a list of addresses nor a zip file."),
        (["damaged.zip"], "damaged.zip is a damaged zip file. Download it again."),
        (["repository", "--before", "01/02/2026"], "01/02/2026 is not a time that can be used: that is no date"),
        (["repository", "--chapter", "97"], "There is no chapter '97'"),
    ],
)
def test_a_source_or_a_time_that_can_not_be_used_stops_it(chapter: Chapter, words: list[str], sentence: str):
    commit(chapter.root / "repository", {FILE: answered(chapter, **RIGHT)})
    Path("list.txt").write_text("https://host.example/a/b\next::sh -c id\n")
    Path("empty.txt").write_text("# nothing\n")
    Path("damaged.zip").write_bytes(b"PK\3\4")
    with pytest.raises(CourseError) as told:
        collect(*words)
    assert sentence in str(told.value) and not (chapter.root / "submitted").exists()


def test_nothing_of_a_strangers_repository_runs_or_leads_elsewhere(chapter: Chapter, tmp_path: Path):
    """Hooks and settings in a .git that came from a stranger, a link as the notebook, a submodule, a filter."""
    alarm, secret = tmp_path / "alarm", tmp_path / "secret.ipynb"
    secret.write_text(answered(chapter, **RIGHT))
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {alarm}\n")
    program.chmod(0o755)
    clones = tmp_path / "clones"
    ada = commit(clones / "ada", {FILE: answered(chapter, **RIGHT), ".gitattributes": "*.ipynb filter=x diff=x"})
    for hook in ("post-checkout", "post-merge", "reference-transaction", "pre-auto-gc"):
        shutil.copy(program, ada / ".git" / "hooks" / hook)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "filter.x.smudge", "diff.x.textconv"):
        git(ada, "config", key, str(program))
    for key in ("uploadpack.packObjectsHook", "gpg.program", "core.gitProxy", "credential.helper", "alias.clone"):
        git(ada, "config", key, str(program))
    git(ada, "config", "log.showSignature", "true")
    bob = commit(clones / "bob", {"x": ""})
    (bob / "things.ipynb").symlink_to(secret)
    commit(bob, {})
    cyd = commit(clones / "cyd", {"x": ""})
    git(cyd, "submodule", "add", str(ada), "inner")
    commit(cyd, {"y": ""})
    dan = clones / "dan"
    dan.mkdir()
    (dan / ".git").write_text(f"gitdir: {ada / '.git'}\n")
    git(ada, "status")
    alarm.unlink()  # in such a repository, even this runs the program
    result = collect(clones)
    assert not alarm.exists()
    assert "bob, 98_things: not taken. things.ipynb is a symbolic link. Links are not followed." in result.output
    assert "cyd: not taken. No chapter's notebook is in it; submodules are not looked into." in result.output
    assert "dan: not taken. The folder is no git repository." in result.output
    assert [path.name for path in (chapter.root / "submitted").iterdir()] == ["ada"]
