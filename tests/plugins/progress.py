"""A line for each group of tests that is done, one for each failure, and at the end one for each reason why tests were
left out or skipped.

[ 42%]  tests/notebooks/test_answers.py, chapter 06: 231 passed, 48 s
60 skipped
    58 × needs bubblewrap: apt-get install bubblewrap
     2 × needs two CUDA devices
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.plugins.groups import group_of
from tests.plugins.selection import LEFT_OUT

SKIPPED_FILES = pytest.StashKey[Counter]()
COUNTED = {LEFT_OUT: "left_out", SKIPPED_FILES: "skipped_files"}  # while tests are collected, by each worker
QUIET = {outcome: (outcome, "", outcome.upper()) for outcome in ("passed", "skipped", "failed")}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("torchkata").addoption("--by-group", action="store_true", help="a line for each group of tests")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[SKIPPED_FILES] = Counter()
    config.pluginmanager.register(SkippedFiles(config))
    if not hasattr(config, "workerinput"):  # this is the process that prints
        config.pluginmanager.register(Progress(config), "progress")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        for key, name in COUNTED.items():
            session.config.workeroutput[name] = dict(session.config.stash[key])


def _reasons(report: pytest.TestReport | pytest.CollectReport) -> list[str]:
    """Why the test or file of a report was skipped; none where it was not."""
    return [report.longrepr[2].removeprefix("Skipped: ")] if isinstance(report.longrepr, tuple) else []


class SkippedFiles:
    """Counts the files that are skipped as a whole."""

    def __init__(self, config: pytest.Config):
        self.config = config

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.config.stash[SKIPPED_FILES].update(_reasons(report))


class Progress:
    """Counts what became of the tests."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.by_group = config.getoption("by_group")
        self.groups: dict[str, set[str]] = {}  # by group, the ids of the tests that are not done yet
        self.found: dict[str, Counter] = defaultdict(Counter)
        self.seconds: dict[str, float] = defaultdict(float)
        self.skipped: Counter[str] = Counter()
        self.total = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._expect(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        for key in COUNTED:
            counted = getattr(node, "workeroutput", {}).get(COUNTED[key], {})
            self.config.stash[key] |= Counter(counted)  # the workers have collected the same

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    def _expect(self, ids: list[str]) -> None:
        if self.groups or not ids:
            return
        self.total = len(ids)
        for test in ids:
            self.groups.setdefault(group_of(test), set()).add(test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = group_of(report.nodeid)
        self.seconds[group] += report.duration
        if report.failed or report.skipped or report.when == "call":
            self.found[group][report.outcome] += 1
        if report.failed and self.by_group:
            self._write(
                f"{report.outcome.upper()}  {report.nodeid}" + ("" if report.when == "call" else f" ({report.when})")
            )
        if report.skipped:
            self.skipped.update(_reasons(report))
        if report.when == "teardown" and self.groups.get(group):
            self.groups[group].discard(report.nodeid)
            if self.by_group and not self.groups[group]:
                self._print(group)

    def _print(self, group: str) -> None:
        done = self.total - sum(map(len, self.groups.values()))
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.found[group].items())
        self._write(f"[{100 * done // self.total:3d}%]  {group}: {counts}, {self.seconds[group]:.0f} s")

    def _write(self, line: str) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(line)

    def pytest_report_teststatus(self, report: pytest.TestReport, config: pytest.Config) -> tuple | None:
        if not self.by_group or config.get_verbosity() > 0 or report.when != "call":
            return None
        return QUIET.get(report.outcome)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for what, reasons in [
            ("left out (make test-all runs them)", self.config.stash[LEFT_OUT]),
            ("skipped", self.skipped + self.config.stash[SKIPPED_FILES]),
        ]:
            if reasons:
                terminalreporter.write_line(f"{sum(reasons.values())} {what}")
            for reason, count in reasons.most_common():
                terminalreporter.write_line(f"{count:6d} × {' '.join(reason.split())}")
