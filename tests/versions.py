"""Proves the course on several releases of torch, each in an environment of its own under build/versions.

    make versions                        # RELEASES
    make versions TORCH="2.14.1 newest"  # these; newest is what pip finds

An environment is the locked one with another torch. It takes up to 7 GiB of disk where pip brings a CUDA build, and is
used again by the next run. Everything runs in turn, shows pip's and pytest's own progress, and ends in a table. The
exit code is 0 only when each release could be had and nothing failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tests import ROOT
from torchkata.tools import lock

RELEASES = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
NEWEST = "newest"
FOLDER = ROOT / "build" / "versions"
PYTEST = ("-q", "-n", "2", "--no-loadscope-reorder", "--by-group", "-p", "no:cacheprovider")
BACKEND = "setuptools>=77"  # torch 2.11 and 2.12 refuse the locked one, which is newer than 81
ANSWERS = "tests/notebooks/test_answers.py"
# what is run on each release, by the title of its column: what pytest is given
PARTS = {
    "facts": (
        "tests/facts/test_facts.py::test_proof",
        "tests/facts/test_releases.py",
        "tests/facts/test_pairs.py::test_a_pair_is_run",
        "tests/facts/test_orders.py::test_what_works_has_no_fault",
        "tests/facts/test_orders.py::test_what_fires_by_itself_fires_in_this_order",
    ),
    "solutions": (f"{ANSWERS}::test_solution_gets_full_marks",),
    "answers": (f"{ANSWERS}::test_answer", f"{ANSWERS}::test_stub_is_not_solved_yet"),
    "notebooks": ("--nbval", "notebooks"),
    "outputs of solutions": ("--nbval", "solutions"),
    "machine": ("tests/test_hardware.py", "tests/tools/test_doctor.py", "tests/notebooks/test_no_driver.py"),
}


@dataclass(frozen=True)
class Count:
    """How many tests of a part passed, failed (errors included) and were skipped."""

    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        return f"{self.passed} / {self.failed} / {self.skipped}"


@dataclass
class Row:
    """One release: what was asked for, the builds that ran, the counts by part; a part without a report has None.

    lacking: why the release could not be had, "" where it could.
    """

    asked: str
    build: str = ""
    counts: dict[str, Count | None] = field(default_factory=dict)
    lacking: str = ""

    @property
    def is_proved(self) -> bool:
        return not self.lacking and all(count and count.passed and not count.failed for count in self.counts.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make versions", description="Prove the course on releases of torch.")
    parser.add_argument("releases", nargs="*", default=RELEASES, help=f"such as 2.14.1, or {NEWEST}")
    rows = [prove(release) for release in parser.parse_args(arguments).releases]
    Console().print(table(rows))
    return int(not all(row.is_proved for row in rows))


def prove(release: str) -> Row:
    """Install a release and run all parts on it."""
    print(f"\ntorch {release}: installing into {_home(release)}", flush=True)
    try:
        python = install(release)
    except subprocess.CalledProcessError:
        return Row(release, lacking="could not be installed; pip said why above")
    row = Row(release, build=_build(python))
    for number, (title, tests) in enumerate(PARTS.items(), 1):
        print(f"\ntorch {row.build}: {title} ({number} of {len(PARTS)})", flush=True)
        row.counts[title] = run_part(python, title, tests)
    return row


def install(release: str) -> Path:
    """The Python of the release's environment, which is made or brought up to date.

    Raises subprocess.CalledProcessError where pip fails.
    """
    home = _home(release)
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    wanted = requirements((ROOT / lock.ALL).read_text(encoding="utf-8"), release)
    done = home / "installed.txt"
    if release != NEWEST and done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(home, with_pip=True)
    asked = home / "requirements.txt"
    asked.write_text(wanted, encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "-r", asked], check=True)
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-build-isolation", "-e", ROOT], check=True)
    done.write_text(wanted, encoding="utf-8")
    return python


def requirements(locked: str, release: str) -> str:
    """The lock file's text with another torch in it, and with the setuptools that this one asks for."""
    lines = [line for line in locked.splitlines() if not line.startswith(("torch==", "setuptools=="))]
    return "\n".join([*lines, BACKEND, "torch" if release == NEWEST else f"torch=={release}"]) + "\n"


def run_part(python: Path, title: str, tests: Sequence[str]) -> Count | None:
    """Run pytest on a part; what its report counts, or None where there is no report."""
    report = python.parent.parent / f"{title.replace(' ', '_')}.xml"
    report.unlink(missing_ok=True)
    subprocess.run([python, "-m", "pytest", *PYTEST, f"--junitxml={report}", *tests], cwd=ROOT, check=False)
    return count(report) if report.exists() else None


def count(report: Path) -> Count:
    """The counts in pytest's report in JUnit's format."""
    suites = list(ElementTree.parse(report).iter("testsuite"))
    tests, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return Count(tests - failures - errors - skipped, failures + errors, skipped)


def table(rows: Sequence[Row]) -> Table:
    """Release by part: passed / failed / skipped."""
    shown = Table("torch", *PARTS, box=SIMPLE, caption="passed / failed / skipped")
    for row in rows:
        cells = [str(row.counts.get(title) or "did not run") for title in PARTS]
        shown.add_row(row.build or row.asked, *(cells if not row.lacking else [row.lacking]))
    return shown


def _home(release: str) -> Path:
    return FOLDER / release


def _build(python: Path) -> str:
    """The torch and the Python of an environment, such as 2.14.1+cu130, Python 3.11.7."""
    words = "import platform, torch; print(f'{torch.__version__}, Python {platform.python_version()}')"
    return subprocess.run([python, "-c", words], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
