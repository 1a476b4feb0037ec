"""`make versions`: which torch it installs, what it counts, and that nothing counts as proved that was not run."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from tests import ROOT, versions
from tests.versions import Count, Row
from torchkata.tools import lock

PROVED = dict.fromkeys(versions.PARTS, Count(5, 0, 1))


def text_of(rows):
    out = io.StringIO()
    Console(width=160, file=out).print(versions.table(rows))
    return out.getvalue()


def test_only_torch_and_what_it_refuses_differ_from_the_lock():
    locked = (ROOT / lock.ALL).read_text()
    (backend,) = [line for line in locked.splitlines() if line.startswith("setuptools==")]
    for release, line in (("2.14.1", "torch==2.14.1"), (versions.NEWEST, "torch")):
        wanted = versions.requirements(locked, release).splitlines()
        differ = {*wanted} ^ {*locked.splitlines()}
        assert differ == {line, f"torch=={lock.TORCH}", versions.BACKEND, backend}


def test_every_part_names_tests_that_exist():
    for tests in versions.PARTS.values():
        for name in tests:
            if not name.startswith("--"):
                file, _, test = name.partition("::")
                assert (ROOT / file).exists(), name
                assert not test or f"def {test}(" in (ROOT / file).read_text()


def test_a_report_is_counted(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 0\n"
        "def test_c(): pytest.skip('why')\n"
        "@pytest.fixture\n"
        "def bad(): 1 / 0\n"
        "def test_d(bad): pass\n"
        "def test_e(): pass\n"
    )
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "test_some.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert versions.count(report) == Count(passed=2, failed=2, skipped=1)


@pytest.mark.parametrize(
    ("row", "proved"),
    [
        (Row("2.14.1", "2.14.1+cu130", PROVED), True),
        (Row("2.14.1", "2.14.1+cu130", {**PROVED, "answers": Count(5, 1, 0)}), False),
        (Row("2.14.1", "2.14.1+cu130", {**PROVED, "answers": Count(0, 0, 5)}), False),
        (Row("2.14.1", "2.14.1+cu130", {**PROVED, "answers": None}), False),
        (Row("2.99.0", lacking="could not be installed"), False),
    ],
)
def test_what_counts_as_proved(row, proved):
    assert row.is_proved == proved


def test_the_table_says_what_did_not_run_and_what_could_not_be_had():
    text = text_of(
        [Row("2.14.1", "2.14.1+cu130", {**PROVED, "answers": None}), Row("2.99.0", lacking="could not be installed")]
    )
    assert "2.14.1+cu130" in text and "5 / 0 / 1" in text and "did not run" in text
    assert "2.99.0" in text and "could not be installed" in text


@pytest.fixture
def without_pip(monkeypatch, tmp_path):
    """Environments are made below tmp_path, and pip has only torch 2.14.1; the calls that were made."""
    calls = []

    def run(command, **_):
        calls.append(command)
        if command[2:4] == ["pip", "install"] and "-r" in command:
            asked = command[-1].read_text()
            if "torch==2.14.1\n" not in asked:
                raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(versions, "FOLDER", tmp_path)
    monkeypatch.setattr(versions.venv, "create", lambda home, with_pip: home.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(versions.subprocess, "run", run)
    return calls


@pytest.mark.usefixtures("without_pip")
def test_a_release_that_cannot_be_had_is_a_row(capsys):
    row = versions.prove("2.99.0")
    assert (row.lacking, row.is_proved) == ("could not be installed; pip said why above", False)
    assert "torch 2.99.0: installing into" in capsys.readouterr().out


def test_an_environment_is_made_once_unless_the_newest_is_asked_for(without_pip, monkeypatch):
    versions.install("2.14.1")
    assert len(without_pip) == 2
    versions.install("2.14.1")
    assert len(without_pip) == 2
    monkeypatch.setattr(versions, "NEWEST", "2.14.1")
    monkeypatch.setattr(versions, "requirements", lambda locked, release: "torch==2.14.1\n")
    versions.install("2.14.1")
    assert len(without_pip) == 4


def test_a_part_that_leaves_no_report_did_not_run(without_pip, tmp_path):
    assert versions.run_part(tmp_path / "bin" / "python", "facts", ["tests"]) is None


def test_the_exit_code_says_whether_all_is_proved(monkeypatch, capsys):
    monkeypatch.setattr(versions, "prove", lambda release: Row(release, release, PROVED))
    assert versions.main([]) == 0
    assert {*versions.RELEASES} <= {*capsys.readouterr().out.split()}
    monkeypatch.setattr(versions, "prove", lambda release: Row(release, lacking="no"))
    assert versions.main(["2.14.1"]) == 1
