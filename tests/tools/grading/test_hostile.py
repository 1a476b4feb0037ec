"""The hostile corpus in one grading run: no point that was not earned, honest marks unchanged, nothing left behind."""

from __future__ import annotations

import ctypes
import hashlib
import html.parser
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from nbgrader.api import Gradebook

import torchkata
from tests import ROOT
from tests.tools.grading.hostile import course
from tests.tools.grading.hostile.corpus import CORPUS
from tests.tools.grading.hostile.handin import CHAPTER, Attack, HandIn, Surroundings
from torchkata.tools.grading.handed_out.results import Results
from torchkata.tools.grading.records import NotGradable, Record

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox for submissions needs Linux"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap"),
]

OUTPUTS = ("autograded", "feedback", "graded", "gradebook.db", ".torchkata-grade.lock")
OPEN_TO_ALL = ("/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", "/root", "/home")
PACKAGE = Path(torchkata.__file__).parent
PR_SET_CHILD_SUBREAPER = 36
SHARED_MEMORY_KEY = 0x7051  # of the attack files_everywhere
SAMPLE = 6  # of each kind, every sixth attack belongs to a sample
a_further_one = pytest.mark.exhaustive("a further hostile submission", thorough=True)


def _attacks() -> Iterator[pytest.ParameterSet]:
    seen: Counter[str] = Counter()
    for attack in CORPUS:
        yield pytest.param(attack, id=attack.name, marks=a_further_one if seen[attack.kind] % SAMPLE else ())
        seen[attack.kind] += 1


each_attack = pytest.mark.parametrize("attack", list(_attacks()))


@dataclass
class Aftermath:
    """What there is when the run is over."""

    around: Surroundings
    people: course.Class
    said: subprocess.CompletedProcess
    results: dict[str, Record | NotGradable]
    scores: dict[str, float | None]
    left: list[str] = field(default_factory=list)
    peak: int = 0  # bytes of memory of the largest process

    def points(self, handed_in: HandIn) -> dict[str, float]:
        result = self.results[handed_in.student]
        assert isinstance(result, Record), result
        return {mark.exercise: mark.points for mark in result.marks}


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Aftermath]:
    root, temporary = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("temporary")
    token = f"hostile-{uuid.uuid4().hex}"
    with _trap(token) as trap, _adopting():
        around = Surroundings(root, token, trap.port)
        course.build(root)
        people = course.hand_in(_asked_for(request.session.items), around)
        before = _fingerprint(root), Path("/proc/self/mountinfo").read_text()
        said = subprocess.run(
            [sys.executable, "-m", "tests.tools.grading.hostile.course", str(root)],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            timeout=900,
        )
        after = _fingerprint(root), Path("/proc/self/mountinfo").read_text()
        left = [
            *_processes_left(token),
            *_files_left(token),
            *(f"temporary file {path}" for path in temporary.rglob("*")),
            *_sockets_left(token),
            *(f"a connection to the server: {what}" for what in trap.caught),
            *(f"{what} changed" for what, a, b in zip(("course", "mounts"), before, after, strict=True) if a != b),
        ]
        results = {result.student: result for result in Results(root / "graded" / CHAPTER.name).all()}
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        yield Aftermath(around, people, said, results, _scores(root), left, peak)


def _asked_for(tests: list[pytest.Item]) -> list[Attack]:
    """The attacks that the tests of this run are about."""
    named = {
        test.callspec.params.get("attack")
        for test in tests
        if isinstance(test, pytest.Function) and hasattr(test, "callspec")
    }
    return [attack for attack in CORPUS if attack in named]


# ---------------------------------------------------------------- what is asserted


def test_the_run_ends_well(aftermath: Aftermath):
    assert aftermath.said.returncode == 0, aftermath.said.stderr[-3000:]


@each_attack
def test_no_point_that_was_not_earned(aftermath: Aftermath, attack: Attack):
    handed_in = aftermath.people.attackers[attack]
    if handed_in.refused:
        _assert_refused(aftermath, handed_in.student)
        return
    points = aftermath.points(handed_in)
    won = {name for name, got in points.items() if got > handed_in.earned[name] + 1e-3}
    assert won == ({attack.limit} if attack.limit else set())


@each_attack
def test_what_was_earned_stays_earned(aftermath: Aftermath, attack: Attack):
    handed_in = aftermath.people.attackers[attack]
    if handed_in.refused:
        _assert_refused(aftermath, handed_in.student)
        return
    points = aftermath.points(handed_in)
    lost = {name for name, due in handed_in.earned.items() if points[name] < due - 1e-3}
    assert not lost - handed_in.unsure, aftermath.results[handed_in.student]


def _assert_refused(aftermath: Aftermath, student: str) -> None:
    """Not graded, with a reason; and no zero in the gradebook."""
    result = aftermath.results.get(student)
    assert result is None or isinstance(result, NotGradable), "it was to be refused, but was graded"
    assert student not in aftermath.scores
    if result is not None:
        assert len(result.reason) > 10


def test_honest_marks_are_unchanged(aftermath: Aftermath):
    off = {
        handed_in.student: aftermath.points(handed_in)
        for handed_in in aftermath.people.honest
        if aftermath.points(handed_in) != pytest.approx(handed_in.earned, abs=1e-3)
    }
    assert not off


def test_honest_students_get_no_notes(aftermath: Aftermath):
    assert not [note for one in aftermath.people.honest for note in aftermath.results[one.student].notes]


def test_the_gradebook_has_the_same_marks(aftermath: Aftermath):
    points = {name: one.points for name, one in aftermath.results.items() if isinstance(one, Record)}
    assert aftermath.scores == pytest.approx(points, abs=1e-2)


def test_nothing_is_left_behind(aftermath: Aftermath):
    assert not aftermath.left


def test_only_results_are_new(aftermath: Aftermath):
    names = {path.name for path in aftermath.around.course.iterdir()}
    assert names == {"solutions", "notebooks", "submitted", "nbgrader_config.py", *OUTPUTS}
    known = {one.student for one in (*aftermath.people.honest, *aftermath.people.attackers.values())}
    for folder in ("autograded", "feedback"):
        assert {path.name for path in (aftermath.around.course / folder).iterdir()} <= known


def test_memory_of_one_process(aftermath: Aftermath):
    assert aftermath.peak < 2.5 * 2**30, f"{aftermath.peak / 2**30:.1f} GiB"


@each_attack
def test_feedback_holds_neither_scripts_nor_hidden_data(aftermath: Aftermath, attack: Attack):
    student = aftermath.people.attackers[attack].student
    path = aftermath.around.course / "feedback" / student / CHAPTER.name / f"{CHAPTER.topic}.html"
    if not path.exists():
        assert student not in aftermath.scores
        return
    page = path.read_text(encoding="utf-8")
    scan = _Scan()
    scan.feed(page)
    assert not scan.found
    assert aftermath.around.token[::-1] not in page, "data of hidden tests, or from out of the sandbox"
    assert not {"\x1b", "\x00", "\u202e", "\u2066"} & set(page), "characters that deceive the eye"


def test_the_table_holds_no_formulas(aftermath: Aftermath):
    lines = (aftermath.around.course / "graded" / CHAPTER.name / "marks.csv").read_text(encoding="utf-8").splitlines()
    cells = [cell.strip('"') for line in lines for cell in line.split(",")]
    assert not [cell for cell in cells if cell[:1] in ("=", "@") or "\x1b" in cell]


class _Scan(html.parser.HTMLParser):
    """Finds what runs or loads something."""

    def __init__(self):
        super().__init__()
        self.found: list[tuple] = []

    def handle_starttag(self, tag: str, attrs: list):
        loads = [name for name, _ in attrs if name.startswith("on") or name in ("src", "srcdoc", "action")]
        leaves = [value for name, value in attrs if name == "href" and not re.fullmatch(r"#[a-z0-9-]+", value or "")]
        bad = loads + leaves
        if tag in ("script", "img", "iframe", "object", "svg", "link", "base", "form") or bad:
            self.found.append((tag, attrs))


# ---------------------------------------------------------------- what is looked at


@dataclass
class _Trap:
    port: int
    caught: list = field(default_factory=list)


@contextmanager
def _trap(token: str) -> Iterator[_Trap]:
    """Servers on the loopback interface that note whoever reaches them."""
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket(socket.AF_UNIX) as name:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", tcp.getsockname()[1]))
        name.bind(f"\0{token}-server")
        tcp.listen()
        name.listen()
        trap = _Trap(tcp.getsockname()[1])
        for server in (tcp, name):
            threading.Thread(target=_note_connections, args=(server, trap.caught), daemon=True).start()
        threading.Thread(target=_note_messages, args=(udp, trap.caught), daemon=True).start()
        yield trap
        with suppress(OSError):
            for server in (tcp, udp, name):
                server.shutdown(socket.SHUT_RDWR)


def _note_connections(server: socket.socket, caught: list) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            connection.close()
            caught.append("a connection")


def _note_messages(server: socket.socket, caught: list) -> None:
    with suppress(OSError):
        while message := server.recv(1000):
            caught.append(message)


@contextmanager
def _adopting() -> Iterator[None]:
    """Processes whose parents have ended become children of this one, so that none can hide."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _processes_left(token: str) -> list[str]:
    """Descendants that this process did not have before, and processes that bear the token, after a moment."""
    time.sleep(1)
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        with suppress(psutil.Error):
            mine = token in " ".join(process.info["cmdline"] or [])
            if mine or process in psutil.Process().children(recursive=True):
                found.append(f"process {process.info['cmdline']} {process.info['status']}")
    return [line for line in found if "zombie" not in line and "multiprocessing" not in line]


def _files_left(token: str) -> list[str]:
    places = [*map(Path, OPEN_TO_ALL), Path.home(), Path.home() / ".ipython", Path(sys.prefix), *map(Path, sys.path)]
    found = [path for place in places if place.is_dir() for path in place.glob(f"*{token}*")]
    found += [
        p for place in (Path.home() / ".ipython", PACKAGE, Path(sys.prefix, "lib")) for p in place.rglob(f"*{token}*")
    ]
    found += [path for path in PACKAGE.rglob("*.py") if token in path.read_text(encoding="utf-8")]
    return [f"file {path}" for path in found]


def _sockets_left(token: str) -> list[str]:
    own = f"@{token}-server"
    lines = [line for line in Path("/proc/net/unix").read_text().splitlines() if token in line and own not in line]
    memory = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return lines + [line for line in memory if line.split()[0] == str(SHARED_MEMORY_KEY)]


def _fingerprint(folder: Path) -> dict[str, str]:
    """All files, links and folders below a folder, by content; without the results of grading."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] in OUTPUTS or "__pycache__" in name.parts:
            continue
        if path.is_symlink():
            found[str(name)] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[str(name)] = f"{path.stat().st_mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        else:
            found[str(name)] = "folder"
    return found


def _scores(root: Path) -> dict[str, float | None]:
    if not (root / "gradebook.db").exists():
        return {}
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "torchkata") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(CHAPTER.name)}
