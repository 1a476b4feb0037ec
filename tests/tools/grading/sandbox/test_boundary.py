"""The boundary between a submission and the one who grades it: what gets in, what gets out, what is left behind."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import platform
import random
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgpack
import pytest
import torch

from torchkata.tools.course import course_root
from torchkata.tools.errors import CourseError
from torchkata.tools.grading.sandbox import bubblewrap, messages, unlimited, usage, wire
from torchkata.tools.grading.sandbox.inside import confine, syscalls
from torchkata.tools.grading.sandbox.limits import MIB, Limits
from torchkata.tools.grading.sandbox.messages import Caps, TooLarge, decode, encode
from torchkata.tools.grading.sandbox.replies import BadReply, observation_from, parameters_of
from torchkata.tools.grading.sandbox.scenarios import ScenarioError, scenario_source
from torchkata.tools.grading.sandbox.session import Sandbox, SubmissionSession, WorkerLost
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.plain import Copier

SETUP = "import os\nimport torch\nfrom torch import Tensor, nn\n"
LIMITS = Limits(exercise_seconds=20, memory=512 * MIB, processes=12, disk=4 * MIB, files=200)


def missing() -> str | None:
    """Why there is no sandbox here, or None."""
    try:
        works = subprocess.run(bubblewrap.command(["true"]), capture_output=True, text=True, check=False)
    except CourseError as error:
        return str(error)
    return None if works.returncode == 0 else f"bubblewrap does not work here: {works.stderr.strip()}"


WHY_NOT = missing()
needs_bubblewrap = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


def test_what_bubblewrap_complains_of_is_told_with_one_full_stop(monkeypatch: pytest.MonkeyPatch):
    failed = SimpleNamespace(returncode=1, stderr="a line before\nbwrap: No permission. See its page.\n")
    monkeypatch.setattr(bubblewrap, "command", list)
    monkeypatch.setattr(bubblewrap.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(CourseError, match=r"here: bwrap: No permission\. See its page\. The sandbox"):
        bubblewrap.try_out()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    if WHY_NOT is None:
        confine.own_keyring()  # one that processes inherit, as after a login
    with Sandbox(SETUP, LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def bare() -> Iterator[Sandbox]:
    """The same without bubblewrap."""
    with Sandbox(SETUP, LIMITS, enabled=False) as running:
        yield running


def run(session: SubmissionSession, source: str, *args: object, recorded: bool = True) -> object:
    """Define `probe` inside and call it; what it returns, as plain data."""
    reply = session.run_cell(textwrap.dedent(source), asks=["probe"])
    assert reply.error is None, reply.error
    seen = session.observe("probe", list(args), {}, recorded)
    assert seen.raised is None, seen.raised
    return seen.result


# ---------------------------------------------------------------- wire


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def test_a_message_comes_through():
    left, right = pair()
    with left, right:
        threading.Thread(target=wire.send, args=(left, b"x" * 3_000_000)).start()
        assert wire.receive(right, limit=3_000_000, seconds=20) == b"x" * 3_000_000


def test_the_length_is_checked_before_anything_is_read():
    left, right = pair()
    with left, right:
        left.sendall(struct.pack("!Q", 2**62) + b"body")
        with pytest.raises(wire.WireError, match="allowed are 100"):
            wire.receive(right, limit=100, seconds=20)
        assert right.recv(10) == b"body"


def test_a_message_that_trickles_meets_one_deadline_for_the_whole():
    left, right = pair()
    stop = threading.Event()

    def trickle():
        left.sendall(struct.pack("!Q", 10**6))
        while not stop.wait(0.02):
            left.sendall(b".")

    thread = threading.Thread(target=trickle)
    thread.start()
    with pytest.raises(wire.TooSlow):
        wire.receive(right, limit=10**6, seconds=0.3)
    stop.set()
    thread.join()
    left.close(), right.close()


def test_silence_a_closed_end_and_a_full_pipe_are_told_apart():
    left, right = pair()
    with pytest.raises(wire.TooSlow):
        wire.receive(right, limit=10, seconds=0.05)
    with pytest.raises(wire.TooSlow):
        wire.send(right, b"x" * 10_000_000, seconds=0.05)  # nobody reads
    left.close()
    with pytest.raises(wire.Ended):
        wire.receive(right, limit=10, seconds=20)
    with pytest.raises(wire.Ended):
        wire.send(right, b"x", seconds=20)
    right.close()


# ---------------------------------------------------------------- what may come back


def packed(value: object) -> bytes:
    """As MessagePack; a function makes its bytes itself."""
    return value() if callable(value) else msgpack.packb(value, default=lambda one: one())


def message(value: object, storages: object = (), data: bytes = b"") -> bytes:
    """A message as `encode` puts them together, of whatever parts."""
    table, tree = packed(storages), packed(value)
    return messages.HEAD.pack(len(table), len(tree)) + table + tree + data


def extension(code: int, data: object) -> msgpack.ExtType:
    return msgpack.ExtType(code, data if isinstance(data, bytes) else packed(data))


def row(
    size: object, stride: object, dtype: object = "torch.float32", place: object = 0, offset: object = 0, grad=False
):
    return extension(messages.TENSOR, [place, dtype, size, stride, offset, grad, False])


def nested(inner: bytes, times: int, code: int = messages.TUPLE) -> bytes:
    """Extensions in extensions."""
    for _ in range(times):
        inner = packed(extension(code, b"\x91" + inner))
    return inner


FOUR_BYTES: tuple = ([[False, 4]], bytes(4))
HOSTILE: dict[str, bytes | Callable[[], bytes]] = {
    "nothing": b"",
    "half a head": b"\0\0\0",
    "a pickle": b"\x80\x04\x95",
    "JSON": b'{"storages": [], "value": 1}',
    "lengths beyond its end": messages.HEAD.pack(100, 100) + b"\x90\xc0",
    "lengths of gigabytes": messages.HEAD.pack(1, 2**32 - 1) + b"\x90\xc0",
    "more bytes than it says": message(None, [], b"more"),
    "two values": message(lambda: b"\x01\x02"),
    "half a value": message(lambda: b"\x92\x01"),
    "no value": message(lambda: b""),
    "a kind that does not exist": message(lambda: b"\xc1"),
    "an unknown extension": message(extension(99, b"x")),
    "a point in time": message([msgpack.Timestamp(1)]),
    "a point in time as a key": message(lambda: b"\x81" + msgpack.packb(msgpack.Timestamp(1)) + b"\x01"),
    "a point in time in a tuple": message([extension(messages.TUPLE, [msgpack.Timestamp(1)])]),
    "a tuple that is a text": message(extension(messages.TUPLE, packed("abc"))),
    "a text that is none": message(lambda: b"\xa2\xff\xfe"),
    "a million members": lambda: message({str(i): 0 for i in range(600_000)}),
    "a list that is said to be long": message(lambda: b"\xdd\xff\xff\xff\xff"),
    "long lists in each other": message(lambda: b"\xdd\x00\x10\x00\x00" * 100),
    "a million items": lambda: message([0] * 4_200_000),
    "deep nesting": message(lambda: b"\x91" * 60 + b"\x01"),
    "deeply nested members": message(lambda: b"\x81\xa1a" * 60 + b"\x01"),
    "deeply nested tuples": message(lambda: nested(b"\x01", 60)),
    "many tuples in each other": message(lambda: nested(b"\x01", 3000)),
    "tensors in the rows of tensors": message(lambda: nested(b"\x01", 200, messages.TENSOR)),
    "tuples in the row of a tensor": message(row(extension(messages.TUPLE, [1]), [1]), *FOUR_BYTES),
    "tuples in the table of storages": message(None, lambda: nested(b"\x01", 200)),
    "tensors in the table of storages": message(None, lambda: nested(b"\x01", 200, messages.TENSOR)),
    "a type with a long name": message(extension(messages.OTHER, b"x" * 201)),
    "nesting beyond MessagePack's own depth": message(lambda: b"\x91" * 200_000),
    "an endless expanded tensor": message(row([2**20, 2**20], [0, 0]), *FOUR_BYTES),
    "an expanded tensor of many dimensions": message(row([2**17] + [1] * 62, [0] * 63), *FOUR_BYTES),
    "many of them": message([row([2**14] + [1] * 62, [0] * 63)] * 3, *FOUR_BYTES),
    "many expanded tensors": message([row([2**20], [0])] * 40, *FOUR_BYTES),
    "an expanded tensor on meta": message(row([2**40], [0]), [[True, 4]]),
    "a tensor that reaches out of its storage": message(row([2], [1]), *FOUR_BYTES),
    "a negative stride": message(row([2], [-1]), *FOUR_BYTES),
    "a float as size": message(row([1.0], [1]), *FOUR_BYTES),
    "a text as size": message(row("1", [1]), *FOUR_BYTES),
    "True as size": message(row([True], [1]), *FOUR_BYTES),
    "a size beyond 64 bits": message(row([extension(messages.INTEGER, b"9" * 30)], [1]), *FOUR_BYTES),
    "more dimensions than there can be": message(row([1] * 65, [0] * 65), *FOUR_BYTES),
    "a storage that is not there": message(row([1], [1], place=7), *FOUR_BYTES),
    "a storage from the end": message(row([1], [1], place=-1), *FOUR_BYTES),
    "a storage that is cut off": message(row([1], [1]), [[False, 8]], bytes(4)),
    "a storage of less than nothing": message(None, [[False, -4]]),
    "a storage on another device": message(row([1], [1]), [["cuda", 4]], bytes(4)),
    "a table that is none": message(None, {"a": 1}),
    "storages without end": lambda: message(None, [[True, 4]] * 20_000),
    "a module as dtype": message(row([1], [1], dtype="torch.onnx"), *FOUR_BYTES),
    "a list as dtype": message(row([1], [1], dtype=[]), *FOUR_BYTES),
    "a number as requires_grad": message(row([1], [1], grad=1), *FOUR_BYTES),
    "a gradient on integers": message(row([1], [1], dtype="torch.int32", grad=True), *FOUR_BYTES),
    "a tensor of one part": message(extension(messages.TENSOR, [0]), *FOUR_BYTES),
    "a number with many digits": message(extension(messages.INTEGER, b"9" * 100_000)),
    "a number that is none": message(extension(messages.COMPLEX, b"__import__('os')")),
    "a dtype that is a function": message(extension(messages.DTYPE, b"torch.load")),
    "an ellipsis that says something": message(extension(messages.ELLIPSIS, b"x")),
    "keys that may collide": message({k * (2**61 - 1) % 2**63: 0 for k in range(5000)}),
    "keys that can't be": message(lambda: b"\x81\x90\x01"),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_decode_refuses_what_encode_does_not_make(data: bytes | Callable[[], bytes]):
    data = data if isinstance(data, bytes) else data()
    with pytest.raises(ValueError):
        decode(data)


def test_what_nobody_would_accept_is_not_made():
    with pytest.raises(TooLarge):
        encode("x" * 2**22)
    assert decode(encode("x" * (2**22 - 10))) == "x" * (2**22 - 10)


def test_the_caps_of_decode_can_be_changed():
    data = encode([torch.ones(8).expand(4, 8)])
    assert decode(data)[0].shape == (4, 8)
    with pytest.raises(ValueError, match="too many elements"):
        decode(data, Caps(elements=31))


def honest() -> dict:
    x = torch.ones(2, requires_grad=True)
    noted = Observation(result=x, arguments={"x": x}, gradients={"x": None}, warned=[["UserWarning", "old"]]).as_plain()
    op = ["add", "aten", "forward", False, None, 3, "x"]
    del noted["seconds"]
    raised = {"types": ["ValueError"], "stumbled": False, "message": "no", "frames": [[2, "f", "raise"]]}
    return noted | {"ops": json.dumps({"kinds": [op], "order": [0, 0]}), "backward_raised": raised}


def test_an_honest_observation_is_read():
    seen = observation_from(honest(), ["def f():\n    raise"])
    assert [(op["name"], op["reads"]) for op in seen.ops] == [("add", ["x"])] * 2 and seen.warned == [
        ["UserWarning", "old"]
    ]
    assert seen.backward_raised == honest()["backward_raised"]


BENT = {
    "a field more": {"more": 1},
    "raised is no dict": {"raised": ["ValueError"]},
    "raised has no types": {"raised": {"types": []}},
    "arguments are a list": {"arguments": [1]},
    "a gradient is a number": {"gradients": {"x": 1}},
    "tracked is a number": {"tracked": 1},
    "operations are no JSON": {"ops": "[" * 100_000},
    "the operations are a list": {"ops": "[]"},
    "an operation is a text": {"ops": '{"kinds": ["add"], "order": [0]}'},
    "an operation too short": {"ops": '{"kinds": [["add", "aten"]], "order": [0]}'},
    "an operation that is not there": {"ops": '{"kinds": [], "order": [0]}'},
    "an operation from the end": {"ops": json.dumps(json.loads(honest()["ops"]) | {"order": [-1]})},
    "an operation by a text": {"ops": json.dumps(json.loads(honest()["ops"]) | {"order": ["0"]})},
    "a warning of three": {"warned": [["a", "b", "c"]]},
    "printed is bytes": {"printed": b""},
    "how long it took": {"seconds": 0.0},
}


@pytest.mark.parametrize("change", BENT.values(), ids=BENT.keys())
def test_a_bent_observation_is_refused(change: dict):
    with pytest.raises(BadReply):
        observation_from(honest() | change, [])
    with pytest.raises(BadReply):
        observation_from([], [])


BENT_ERRORS: dict[str, object] = {
    "a list": ["raised"],
    "no types": {"types": [], "message": "", "frames": []},
    "no message": {"types": ["E"], "frames": []},
    "a message of bytes": {"types": ["E"], "message": b"no", "frames": []},
    "a frame of two": {"types": ["E"], "message": "", "frames": [[1, "f"]]},
    "a line that is no number": {"types": ["E"], "message": "", "frames": [["1", "f", "c"]]},
}


@pytest.mark.parametrize("field", ["raised", "backward_raised"])
@pytest.mark.parametrize("error", BENT_ERRORS.values(), ids=BENT_ERRORS.keys())
def test_a_bent_exception_is_refused(error: object, field: str):
    with pytest.raises(BadReply):
        observation_from(honest() | {field: error}, [])


def test_a_frame_that_is_no_line_of_the_learners_is_left_out():
    frames = [[1, "f", "def f(x):"], [2, "f", "return 1 / x"], [2, "f", "secret"], [3, "f", "return 1 / x"]]
    raised = {"types": ["E"], "message": "no", "frames": frames}
    seen = observation_from(honest() | {"raised": raised}, ["def f(x):\n    return 1 / x"])
    assert seen.raised == {"types": ["E"], "message": "no", "frames": frames[:2], "stumbled": False}


def test_an_argument_has_a_name_of_the_learners_source_or_a_number():
    """A name that is made up while the answer runs could carry numbers of a hidden test."""
    sources = ["def f(x, *, y=1): return x", "class g:\n    def __init__(self, z): pass", "f = (", "def h(secret): 1"]
    assert parameters_of("f", sources) == {"x", "y"} and parameters_of("g", sources) == {"self", "z"}
    x = torch.ones(2, requires_grad=True)
    noted = honest() | {"arguments": {"x": x, "n_314159": x, "secret": 1}, "gradients": {"x": None, "n_314159": x}}
    seen = observation_from(noted, sources, parameters_of("f", sources))
    assert [*seen.arguments] == ["x", "argument 2", "argument 3"] and [*seen.gradients] == ["x", "argument 2"]


def test_long_texts_are_cut():
    raised = {"types": ["E" * 5000], "message": "m" * 10**6, "frames": [[1, "<module>", "c"]] * 100}
    seen = observation_from(honest() | {"raised": raised, "printed": "p" * 10**6}, ["c"])
    assert len(seen.raised["message"]) == 10_000 and len(seen.raised["types"][0]) == 200
    assert len(seen.raised["frames"]) == 5 and len(seen.printed) == 10_000


# ---------------------------------------------------------------- scenarios


def cell(source: str, name: str) -> dict:
    """The namespace of a check cell after it has run."""
    source = textwrap.dedent(source)
    file = f"<check {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict = {"__name__": "__main__", "torch": torch}
    exec(compile(source, file, "exec"), space)
    return space


def test_a_scenario_travels_with_its_helpers_and_nothing_else():
    space = cell(
        """
        if True:
            expected = [3.25]

            def helper(x):
                return torch.neg(x)

            def other(x):
                return expected

            class Holder:
                size = 2

            def story(answer, x):
                '''Calls it twice.'''
                local = Holder.size
                return [helper(answer(x)) for _ in range(local)]
        """,
        "travels",
    )
    source = scenario_source(space["story"], {"torch"})
    assert "def helper" in source and "class Holder" in source and "def story" in source
    assert "expected" not in source and "3.25" not in source and "other" not in source


def test_of_two_functions_with_one_name_the_one_that_is_bound_travels():
    space = cell(
        """
        def helper(x):
            return 1

        def story(answer):
            return helper(answer)

        def helper(x):
            return 2
        """,
        "twice",
    )
    assert "return 2" in scenario_source(space["story"], set())
    assert "return 1" not in scenario_source(space["story"], set())


@pytest.mark.parametrize(
    "source",
    [
        "expected = [1]\ndef story(answer):\n    return answer(expected)",
        "story = lambda answer: 1",
        "def maker(k):\n    def story(answer):\n        return k\n    return story\nstory = maker(3)",
    ],
    ids=["data of the cell", "a lambda", "a closure"],
)
def test_a_scenario_that_would_carry_data_of_the_check_is_refused(source: str):
    with pytest.raises(ScenarioError):
        scenario_source(cell(source, str(hash(source)))["story"], set())


# ---------------------------------------------------------------- the sandbox: what it shows


@needs_bubblewrap
def test_nothing_of_the_one_who_grades_is_in_the_process(sandbox: Sandbox):
    """His environment, his folders and the command line of his program, wherever a process keeps them."""
    with sandbox.session() as session:
        told = run(
            session,
            """
            def probe():
                import multiprocessing, sys
                from multiprocessing import process
                with open("/proc/self/cmdline") as file:
                    texts = [file.read()]
                texts += [str(dict(os.environ)), str(sys.path), str(sys.argv), str(sys.orig_argv), os.getcwd()]
                return texts, str(multiprocessing.parent_process()), str(process.ORIGINAL_DIR)
            """,
        )
    texts, parent, folder = told
    assert "HOME" in os.environ and f"'HOME': '{Path.home()}'" not in str(texts) and "PYTEST" not in str(texts)
    assert parent == "None" and folder in ("/", "/tmp", "None")
    places = {place for text in texts for place in text.replace("'", "\0").split("\0")}
    assert not places & {str(course_root()), str(Path.cwd()), str(Path.home())}


@needs_bubblewrap
def test_no_file_of_the_one_who_grades_is_open(sandbox: Sandbox):
    with sandbox.session() as session:
        opened = run(
            session,
            "def probe(): return [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
            " if os.path.lexists(f'/proc/self/fd/{n}')]",
        )
    assert all(place == "/dev/null" or place.startswith("socket:") for place in opened), opened
    assert sum(place.startswith("socket:") for place in opened) == 1


@needs_bubblewrap
def test_nothing_of_the_course_or_the_machine_can_be_read(sandbox: Sandbox, tmp_path: Path):
    root = course_root()
    secret = tmp_path / "submitted" / "other" / "03_gather_scatter.ipynb"
    secret.parent.mkdir(parents=True)
    secret.write_text("{}")
    names = ["solutions", "notebooks", "tests", "submitted", "gradebook.db", "nbgrader_config.py", ".git"]
    paths = [*(str(root / name) for name in names), str(secret), str(tmp_path), str(Path.home() / ".ssh")]
    paths += ["/etc/shadow", "/etc/passwd", "/etc/hostname", "/var", "/home", "/sys", "/run", "/proc/1", "/proc/2"]
    with sandbox.session() as session:
        seen = run(session, "def probe(paths): return [p for p in paths if os.path.lexists(p)]", paths)
        assert seen == []
        listed = run(session, "def probe(): return [sorted(os.listdir(p)) for p in ('/proc', '/tmp', '/dev/shm')]")
        kept = {Path(folder).parts[2] for folder in bubblewrap.folders_in_tmp()}  # Python or the package, if there
        assert listed == [["cpuinfo", "meminfo", "self"], sorted({"work"} | kept), []]
        walked = run(
            session,
            """
            def probe():
                tops = [t for t in os.listdir("/") if t not in ("usr", "proc", "dev")]
                return [
                    os.path.join(folder, name)
                    for top in tops for folder, _, names in os.walk("/" + top) for name in names
                    if name.endswith(".ipynb") or "gather_scatter" in name
                ]
            """,
        )
        ours = [p for p in walked if "site-packages" not in p and "torchkata/facts/data" not in p]
        assert ours == []


FILES = """
def probe():
    counts = []
    for place in ("/tmp/", "/dev/shm/"):
        for count in range(10**6):
            try:
                os.close(os.open(f"{place}empty{count}", os.O_CREAT))
            except OSError:
                break
        counts.append(count)
    return counts
"""


@needs_bubblewrap
def test_nothing_can_be_written_but_the_own_small_disk(sandbox: Sandbox):
    with sandbox.session() as session:
        seen = run(
            session,
            """
            def probe():
                import sys, sysconfig, torchkata
                places = ["/", "/usr", "/usr/bin", "/dev", "/proc", "/lib", sys.prefix, sys.base_prefix, os.getcwd(),
                          sysconfig.get_path("purelib"), os.path.dirname(torchkata.__file__), "/tmp", "/dev/shm"]
                open_to = []
                for place in places:
                    try:
                        with open(place + "/probe", "w") as file:
                            file.write("x")
                        open_to.append(place)
                    except OSError:
                        pass
                return open_to
            """,
        )
        assert set(seen) <= {"/tmp/work", "/tmp", "/dev/shm", "/proc"}  # /proc is a cover of 64 KiB, its own
        written = run(
            session,
            """
            def probe():
                sizes = []
                for place in ("/tmp/", "/dev/shm/"):
                    count = 0
                    try:
                        for k in range(100):
                            with open(f"{place}{k}", "wb") as file:
                                count += file.write(b"x" * 2**20)
                    except OSError:
                        pass
                    sizes.append(count)
                return sizes
            """,
        )
        assert all(0 < size <= LIMITS.disk for size in written)
        made = run(session, FILES)
        assert all(0 < number <= LIMITS.files for number in made)
        with sandbox.session() as neighbour:  # at the same time
            assert all(number > LIMITS.files / 2 for number in run(neighbour, FILES))


@needs_bubblewrap
def test_no_network(sandbox: Sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind("\0torchkata-probe")
        hidden.listen()
        with sandbox.session() as session:
            seen = run(
                session,
                """
                def probe(port):
                    import socket
                    found = [name for _, name in socket.if_nameindex() if name != "lo"]
                    for kind, where in [(2, ("127.0.0.1", port)), (2, ("9.9.9.9", 53)), (1, "\\0torchkata-probe")]:
                        try:
                            with socket.socket(kind) as sock:
                                sock.settimeout(2)
                                sock.connect(where)
                            found.append(str(where))
                        except OSError:
                            pass
                    return found
                """,
                server.getsockname()[1],
            )
    assert seen == []


@needs_bubblewrap
def test_no_power_over_the_machine_or_other_processes(sandbox: Sandbox):
    with sandbox.session() as session:
        status = dict(
            line.split(":\t", 1)
            for line in run(session, "def probe(): return open('/proc/self/status').read()").splitlines()
        )
        assert {status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}
        assert status["NoNewPrivs"] == "1"
        seen = run(
            session,
            """
            def probe():
                import ctypes
                libc = ctypes.CDLL(None, use_errno=True)
                done = {"pid": os.getpid(), "root": os.getuid() == 0}
                done["mount"] = libc.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None) == 0
                done["umount"] = libc.umount2(b"/tmp", 2) == 0 or libc.umount2(b"/proc", 2) == 0
                done["sethostname"] = libc.sethostname(b"x", 1) == 0
                done["attached"] = [pid for pid in range(2, 300) if libc.ptrace(16, pid, None, None) == 0]
                done["memory"] = os.access("/proc/2/mem", os.R_OK)
                done["dumpable"] = libc.prctl(3, 0, 0, 0, 0)
                own = {n for n in range(2, 300) if libc.tgkill(os.getpid(), n, 0) == 0}  # its threads
                done["killed"] = []
                for pid in {*range(2, 300)} - own:
                    try:
                        os.kill(pid, 0)
                        done["killed"].append(pid)
                    except OSError:
                        pass
                try:
                    os.setuid(0)
                    done["setuid"] = True
                except OSError:
                    done["setuid"] = False
                return done
            """,
        )
    nothing = {name: False for name in ("mount", "umount", "sethostname", "memory", "setuid", "root")}
    assert seen == {"pid": 1, "attached": [], "killed": [], "dumpable": 0} | nothing


NEW_NAMESPACE = """
def probe():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    user, group, done = os.getuid(), os.getgid(), []
    if libc.unshare(0x10000000 | 0x20000) == 0:  # of users and of mounts
        done.append("a namespace of users")
        libc.prctl(4, 1, 0, 0, 0)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            try:
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            except OSError:
                pass
        for kind in (b"tmpfs", b"cgroup2"):
            if libc.mount(b"none", b"/tmp/work", kind, 0, None) == 0:
                done.append(kind.decode())
    return done
"""


@pytest.fixture(scope="module")
def unfiltered() -> Iterator[Sandbox]:
    """The sandbox where system calls can't be refused."""
    box = Sandbox(SETUP, LIMITS)
    box.filtered = False
    with box as running:
        yield running


@needs_bubblewrap
@pytest.mark.parametrize("kind", ["sandbox", "unfiltered"])
def test_no_namespace_inside_of_the_own_one(kind: str, request: pytest.FixtureRequest):
    with request.getfixturevalue(kind).session() as session:
        assert run(session, NEW_NAMESPACE) == []


@needs_bubblewrap
@pytest.mark.skipif(syscalls.missing() is not None, reason=f"no filter of system calls: {syscalls.missing()}")
def test_system_calls_that_no_exercise_needs_are_refused(sandbox: Sandbox):
    with sandbox.session() as session:
        refused = run(
            session,
            """
            def probe():
                import ctypes, errno
                libc = ctypes.CDLL(None, use_errno=True)
                calls = {"memfd_create": (b"x", 0), "shmget": (4711, 4096, 0o1666), "unshare": (0,), "setns": (-1, 0),
                         "ptrace": (0, 0, 0, 0), "process_vm_readv": (1, None, 0, None, 0, 0)}
                refused = []
                for name, arguments in calls.items():
                    ctypes.set_errno(0)
                    if getattr(libc, name)(*arguments) == -1 and ctypes.get_errno() == errno.EPERM:
                        refused.append(name)
                try:
                    import mmap
                    mmap.mmap(-1, 4096)
                except PermissionError:
                    refused.append("mmap")
                return refused
            """,
        )
    assert refused == ["memfd_create", "shmget", "unshare", "setns", "ptrace", "process_vm_readv", "mmap"]


@needs_bubblewrap
@pytest.mark.skipif(syscalls.missing() is not None, reason=f"no filter of system calls: {syscalls.missing()}")
def test_sockets_that_no_exercise_needs_are_refused(sandbox: Sandbox):
    with sandbox.session() as session:
        refused = run(
            session,
            """
            def probe():
                import ctypes, errno, platform, socket
                libc = ctypes.CDLL(None, use_errno=True)
                number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
                refused = []
                for family in [*range(50), 2**32 + 40, 2**32 + 3]:
                    ctypes.set_errno(0)
                    opened = libc.syscall(number, ctypes.c_ulong(family), ctypes.c_ulong(1), ctypes.c_ulong(0))
                    if opened == -1 and ctypes.get_errno() == errno.EPERM:
                        refused.append(family)
                for family in (socket.AF_UNIX, socket.AF_INET):
                    socket.socket(family).close()
                return refused
            """,
        )
    assert {*range(50), 2**32 + 40, 2**32 + 3} - {*refused} == {1, 2, 10, 16}


TRACED = """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(4, 1, 0, 0, 0)
libc.prctl(0x59616D61, -1, 0, 0, 0)
if os.fork() == 0:
    attached = libc.ptrace(0x4206, 1, 0, 0x40)  # SEIZE with TRACEEXIT
    open("/tmp/attached", "w").write(str(attached))
    time.sleep(600)
while not os.path.exists("/tmp/attached") or not open("/tmp/attached").read():
    time.sleep(0.01)
attached = int(open("/tmp/attached").read())
def probe(): return attached
"""


@needs_bubblewrap
def test_a_worker_whose_child_traces_it_can_be_ended(unfiltered: Sandbox):
    with unfiltered.session() as session:
        assert run(session, TRACED) == 0  # it is traced
    with unfiltered.session() as session:
        assert run(session, "def probe(): return 1") == 1


@needs_bubblewrap
def test_a_worker_has_no_file_but_its_own_socket(sandbox: Sandbox):
    with sandbox.session() as session:
        seen = run(
            session,
            """
            def probe():
                import stat
                kinds = {}
                for number in range(256):
                    try:
                        kinds[number] = stat.filemode(os.fstat(number).st_mode)[0]
                    except OSError:
                        pass
                return list(kinds.values())
            """,
        )
    assert sorted(seen) == ["c", "c", "c", "s"]  # /dev/null three times, one socket


KEYCTL = confine.KEYCTL.get(platform.machine(), -1)
ADD_KEY = KEYCTL - 2 if KEYCTL > 0 else -1
LEAVE = """
import ctypes, sys, builtins
sys.modules["left"] = os
builtins.left = torch.left = 1
os.environ["LEFT"] = "1"
for place in ("/tmp/left", "/tmp/work/left", "/dev/shm/left", "/proc/left", "left"):
    open(place, "w").close()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(ADD_KEY, b"user", b"left", b"x", 1, -3)  # session keyring
libc.syscall(ADD_KEY, b"user", b"left", b"x", 1, -4)  # user keyring
libc.shmget(4711, 4096, 0o1666)
torch.manual_seed(99); torch.set_default_dtype(torch.float64)
""".replace("ADD_KEY", str(ADD_KEY))
LOOK = """
def probe():
    import ctypes, sys, builtins
    libc = ctypes.CDLL(None, use_errno=True)
    found = [p for p in ("/tmp/left", "/tmp/work/left", "/dev/shm/left", "/proc/left", "left") if os.path.exists(p)]
    found += [k for k in (-3, -4) if libc.syscall(KEYCTL, 10, k, b"user", b"left", 0) >= 0]
    if libc.shmget(4711, 4096, 0) >= 0:
        found.append("shared memory")
    if "left" in sys.modules or hasattr(builtins, "left") or hasattr(torch, "left") or "LEFT" in os.environ:
        found.append("state")
    return found + [str(torch.get_default_dtype())]
""".replace("KEYCTL", str(KEYCTL))


@needs_bubblewrap
def test_a_second_session_sees_nothing_of_the_first(sandbox: Sandbox):
    with sandbox.session() as first:
        assert first.run_cell(LEAVE).error is None
        assert len(run(first, LOOK)) > 6  # the look finds what there is
    with sandbox.session() as second:
        assert run(second, LOOK) == ["torch.float32"]


@needs_bubblewrap
def test_two_sessions_at_a_time_do_not_see_each_other(sandbox: Sandbox):
    with sandbox.session() as first, sandbox.session() as second:
        first.run_cell(LEAVE)
        assert run(second, LOOK) == ["torch.float32"]
        assert run(second, "def probe(): return [p for p in os.listdir('/proc') if p.isdigit()]") == []


# ---------------------------------------------------------------- what is left behind

DAEMON = """
import subprocess, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", {mark!r}])
    os._exit(0)
os.wait()
running = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {mark!r}], start_new_session=True)
"""


def processes_with(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(path.parent.name)
    return found


@pytest.mark.skipif(not confine.LINUX, reason="looks for processes in /proc")
@pytest.mark.parametrize("kind", [pytest.param("sandbox", marks=needs_bubblewrap), "bare"])
def test_no_process_outlives_its_session(kind: str, request: pytest.FixtureRequest):
    box = request.getfixturevalue(kind)
    mark = f"left-{kind}-{os.getpid()}"
    with box.session() as session:
        assert session.run_cell(DAEMON.format(mark=mark)).error is None
        assert wait_for(lambda: len(processes_with(mark)) == 2)
    assert processes_with(mark) == []


@pytest.mark.skipif(not confine.LINUX, reason="looks for processes in /proc")
@needs_bubblewrap
def test_no_process_outlives_the_sandbox_even_when_its_owner_is_killed():
    mark = f"left-owner-{os.getpid()}"
    source = f"""
import time
from torchkata.tools.grading.sandbox.session import Sandbox
box = Sandbox({SETUP!r}).__enter__()
session = box.session()
session.run_cell({DAEMON.format(mark=mark)!r})
print("running", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout.readline() == "running\n"
            assert wait_for(lambda: len(processes_with(mark)) == 2)
        finally:
            owner.kill()
    assert wait_for(lambda: processes_with(mark) == [])


def wait_for(condition) -> bool:
    """Whether the condition comes true within a while."""
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


# ---------------------------------------------------------------- limits


@needs_bubblewrap
def test_a_fork_bomb_is_small(sandbox: Sandbox):
    with sandbox.session() as session:
        count = run(
            session,
            """
            def probe():
                import time
                count = 0
                try:
                    while count < 500:
                        if os.fork() == 0:
                            time.sleep(600)
                        count += 1
                except OSError:
                    pass
                return count
            """,
        )
        assert 0 < count < LIMITS.processes
    with sandbox.session() as session:  # the next one is not touched by it
        assert run(session, "def probe(): return 1") == 1


@needs_bubblewrap
def test_memory_files_and_cores_are_limited(sandbox: Sandbox):
    with sandbox.session() as session:
        session.run_cell("def probe(n): return torch.ones(n, dtype=torch.uint8).sum()", asks=["probe"])
        assert session.observe("probe", [LIMITS.memory // 16], {}).raised is None
        assert "memory" in session.observe("probe", [LIMITS.memory * 2], {}).raised["message"]
        seen = run(
            session,
            """
            def probe():
                import resource
                names = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_MEMLOCK")
                return [resource.getrlimit(getattr(resource, name))[1] for name in names]
            """,
        )
        assert seen == [0, LIMITS.disk, LIMITS.open_files, LIMITS.processes, 0]
        opened = run(
            session,
            """
            def probe():
                files = []
                try:
                    while True:
                        files.append(open(os.devnull))
                except OSError:
                    return len(files)
            """,
        )
        assert opened < LIMITS.open_files


@needs_bubblewrap
def test_output_goes_nowhere(sandbox: Sandbox, capfd: pytest.CaptureFixture):
    flood = "import sys\nfor _ in range(300): print('x' * 100_000); sys.stderr.write('y' * 100_000); os.write(1, b'z')"
    with sandbox.session() as session:
        assert session.run_cell(flood).error is None
        session.run_cell("def probe():\n    for _ in range(1000): print('x' * 1000)\n    return 5", asks=["probe"])
        seen = session.observe("probe", [], {})
        assert seen.result == 5 and len(seen.printed) == 10_000
    assert capfd.readouterr() == ("", "")


def lost(session: SubmissionSession, source: str) -> WorkerLost:
    with pytest.raises(WorkerLost) as caught:
        session.run_cell(textwrap.dedent(source))
    return caught.value


BUSY = """
import time
def probe(seconds):
    began = time.process_time()
    while time.process_time() < began + seconds:
        pass
    return 5
"""


@contextlib.contextmanager
def crowded(process: int) -> Iterator[None]:
    """A process gets one CPU, on which others are at work. Each is a session of its own: Linux may share out a CPU by
    session first (sched_autogroup_enabled)."""
    place = min(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, [{place}])\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop], start_new_session=True) for _ in range(4)]
    os.sched_setaffinity(process, {place})
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


@pytest.mark.exhaustive("a crowded CPU", thorough=True)
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes can't be put onto one CPU here")
@pytest.mark.parametrize("kind", [pytest.param("sandbox", marks=needs_bubblewrap), "bare"])
def test_time_in_which_the_machine_is_busy_with_others_does_not_count(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    running = request.getfixturevalue(kind)
    monkeypatch.setattr(running, "limits", replace(LIMITS, patience=100))
    with running.session() as session:
        session.run_cell(BUSY, asks=["probe"])
        with crowded(session._usage.process):
            session.allow(1.5)
            begun = time.monotonic()
            seen = session.observe("probe", [1.0], {})
            assert time.monotonic() - begun > 1.5, "it was not crowded"
            assert seen.result == 5 and 0 < session.left < 1.0
            session.allow(1.0)
            with pytest.raises(WorkerLost, match="too long"):
                session.observe("probe", [600.0], {})


def test_who_looks_late_at_a_deadline_gives_no_time_away(monkeypatch):
    """On a busy machine the judge is kept waiting as well: here each look comes a second late. Half the time does not
    count."""
    now, given = 0.0, 0.0
    monkeypatch.setattr(wire.time, "monotonic", lambda: now)

    def more() -> float:
        nonlocal given
        found = now / 2 - given
        given += found
        return found

    deadline = wire.Deadline(1.5, more)
    with pytest.raises(wire.TooSlow):
        for _ in range(20):
            now += deadline.left + 1.0
    assert now < 3.0 + 1.0, "1.5 seconds that count, and a late look"


@pytest.mark.parametrize(
    "waited, children, starved",
    [(6.0, [], 6.0), (6.0, [(5.0, 0.0)], 4.0), (0.5, [(1.0, 6.5)], 6.5), (6.0, [(4.5, 2.0), (4.5, 2.0)], 0.0)],
    ids=["others were at work", "a child was, too", "a child had to wait", "its own children took it all"],
)
def test_only_what_others_take_does_not_count(monkeypatch, waited: float, children: list, starved: float):
    """In 10 seconds the process itself runs for one, and waits to run for some."""
    before, now = (2.0, 1.0), (3.0, 1.0 + waited)
    times = {1: before, **{number: times for number, times in enumerate(children, 2)}}
    monkeypatch.setattr(usage, "_times", times.get)
    monkeypatch.setattr(usage, "_family", lambda process: [SimpleNamespace(pid=number) for number in times])
    monkeypatch.setattr(usage, "_cpu_seconds", lambda process: times[process.pid][0])
    monkeypatch.setattr(usage, "_forgets_ended", lambda process: False)
    monkeypatch.setattr(usage, "_of_ended", lambda process: 0.0)
    used = usage.Usage(1)
    used.begin()
    times[1] = now
    assert used.starved(10.0) == pytest.approx(starved)
    assert usage.Usage(None).starved(10.0) == 0.0


ENDS = {
    "an endless loop": ("while True: pass", "cut off", "too long"),
    "a sleep": ("import time; time.sleep(600)", "cut off", "too long"),
    "ignored signals": (
        "import signal, time\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except OSError: pass\ntime.sleep(600)",
        "cut off",
        "too long",
    ),
    "os._exit": ("os._exit(3)", "crashed", "exit code 3"),
    "os._exit with 0": ("os._exit(0)", "crashed", "exit code 0"),
    "a bad pointer": ("import ctypes; ctypes.string_at(1)", "crashed", "SIGSEGV"),
    "a closed socket": ("os.closerange(3, 256)", "crashed", "ended"),
}


@needs_bubblewrap
@pytest.mark.parametrize("source, state, words", ENDS.values(), ids=ENDS.keys())
def test_a_worker_that_ends_or_never_answers(sandbox: Sandbox, source: str, state: str, words: str):
    with sandbox.session() as session:
        if state == "cut off":
            session.allow(0.5)
        error = lost(session, source)
        assert error.state == state and words in str(error)
        with pytest.raises(WorkerLost):  # and is of no more use
            session.run_cell("1")
    with sandbox.session() as session:
        assert session.run_cell("x = 1", asks=["x", "y"]).defined == {"x"}


FIND_SOCKET = """
import socket, struct, json
def our_socket():
    for number in range(3, 256):
        try:
            return socket.socket(fileno=os.dup(number))
        except OSError:
            pass
sock = our_socket()
def say(data): sock.sendall(struct.pack("!Q", len(data)) + data)
"""
ALL_WELL = {"error": None, "defined": [], "needs": []}


def reply(value: object, number: int = 1) -> bytes:
    return wire.LENGTH.pack(number) + message(value)


LIES = {
    "an oversized frame": "sock.sendall(struct.pack('!Q', 2**40))",
    "half a frame, then silence": "sock.sendall(struct.pack('!Q', 100) + b'x'); import time; time.sleep(600)",
    "a trickle": "import time\nsock.sendall(struct.pack('!Q', 10**6))\nwhile True: sock.sendall(b'.'); time.sleep(.1)",
    "an empty frame": "say(b'')",
    "binary": "say(os.urandom(1000))",
    "a pickle": "import pickle; say(pickle.dumps(print))",
    "another request's number": f"say({reply(ALL_WELL, number=77)!r})",
    "a bent reply": f"say({reply({'error': 5, 'defined': [], 'needs': []})!r})",
    "no dict": f"say({reply(None)!r})",
    "a field that nobody asked for": f"say({reply({**ALL_WELL, 'noted': None})!r})",
    "a field too few": f"say({reply({'error': None, 'defined': []})!r})",
    "a tensor where there is none": f"say({reply({**ALL_WELL, 'error': row([1], [1])})!r})",
    "a long reply to a cell": f"say({reply(ALL_WELL)[:8]!r} + bytes(100_000))",
    "deep nesting": f"say({reply(lambda: b'[' * 10**4)!r})",
    "a number and nothing else": f"say({wire.LENGTH.pack(1)!r})",
    "a message that is cut off": f"say({reply(ALL_WELL)[:-1]!r})",
}


@needs_bubblewrap
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_reply_that_no_honest_worker_makes(sandbox: Sandbox, lie: str):
    with sandbox.session() as session:
        session.allow(2.0)
        assert lost(session, FIND_SOCKET + lie).state in ("cut off", "crashed")


@needs_bubblewrap
def test_a_reply_sent_in_advance_is_out_of_step(sandbox: Sandbox):
    forged = FIND_SOCKET + f"say({reply(ALL_WELL)!r})"
    with sandbox.session() as session:
        session.run_cell(forged)  # this request is answered twice
        assert "nobody asked" in str(lost(session, "1"))


@needs_bubblewrap
@pytest.mark.parametrize("raised", ["5", "['raised']", "{'types': ['E'], 'message': 'no', 'frames': [[1]]}"])
def test_a_bent_exception_costs_the_process(sandbox: Sandbox, raised: str):
    source = (
        "from torchkata.tools.grading.sandbox.inside import worker\nhonest = worker.reply_with\n"
        f"worker.reply_with = lambda seen: {{'noted': honest(seen)['noted'] | {{'raised': {raised}}}}}\n"
        "def f(x): raise ValueError(x)"
    )
    with sandbox.session() as session:
        session.run_cell(source)
        with pytest.raises(WorkerLost, match="can't be used"):
            session.observe("f", [1], {})
        with pytest.raises(WorkerLost):
            session.observe("f", [1], {})


@needs_bubblewrap
def test_a_worker_can_not_speak_for_the_zygote(sandbox: Sandbox):
    attack = FIND_SOCKET + "for n in range(3, 256):\n    try: os.write(n, b'x' * 8)\n    except OSError: pass"
    with sandbox.session() as session:
        lost(session, attack)
    with sandbox.session() as session:
        assert session.run_cell("1").error is None


BREAKS = {
    "the observing half": "from torchkata.verdicts import observing\nobserving.run_answer = lambda *a: 1 / 0",
    "torch": "torch.Tensor.__eq__ = torch.equal = torch.testing.assert_close = lambda *a, **k: True",
    "builtins": "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.type = builtins.len = int",
}


@pytest.mark.parametrize("source", BREAKS.values(), ids=BREAKS.keys())
def test_what_a_learner_breaks_is_broken_in_one_session_only(bare: Sandbox, source: str):
    with bare.session() as session:
        session.run_cell("def probe(x): return x")
        with contextlib.suppress(WorkerLost):
            session.run_cell(source)
            session.observe("probe", [torch.ones(2)], {})
    assert not (torch.ones(2) == torch.zeros(2)).any() and not torch.equal(torch.ones(2), torch.zeros(2))
    with bare.session() as session:
        session.run_cell("def probe(x): return x")
        assert torch.equal(session.observe("probe", [torch.ones(2)], {}).result, torch.ones(2))


# ---------------------------------------------------------------- what honest code may do


def test_a_cell_may_use_ipython(bare: Sandbox):
    with bare.session() as session:
        source = "%time y = 4\nfiles = !echo one\nlen?\ndisplay(y)\nget_ipython().run_line_magic('pwd', '')"
        assert session.run_cell(source).error is None
        assert run(session, "def probe(): return [y, list(files)]") == [4, ["one"]]
        assert session.run_cell("%%capture out\nz = 5", asks=["z"]).defined == {"z"}
        assert session.run_cell("x = = 3").error["types"][0] == "SyntaxError"
        assert session.run_cell("raise SystemExit").error["types"][0] == "SystemExit"


def test_random_numbers_go_on_from_cell_to_cell_as_in_a_notebook(bare: Sandbox):
    """Each call begins with the same ones; a cell behind them, where the cell before them has ended."""
    numbers = "[random.random(), torch.rand(1).item()]"
    with bare.session() as session:
        session.run_cell(f"import random\nrandom.seed(5), torch.manual_seed(5)\ndef f():\n    return {numbers}")
        asked = [session.observe("f", [], {}).result for _ in range(2)]
        session.run_cell(f"after = {numbers}")
        after = session.value("after").result
    assert asked == [[random.Random(0).random(), torch.rand(1, generator=torch.Generator().manual_seed(0)).item()]] * 2
    assert after == [random.Random(5).random(), torch.rand(1, generator=torch.Generator().manual_seed(5)).item()]


def test_a_cell_is_in_the_module_main(bare: Sandbox):
    with bare.session() as session:
        source = """
        import pickle
        class Mine(nn.Module): pass
        def probe():
            return [Mine.__module__, type(pickle.loads(pickle.dumps(Mine()))).__name__, __name__]
        """
        assert run(session, source) == ["__main__", "Mine", "__main__"]


def test_annotations_in_a_cell_are_what_a_notebook_makes_of_them(bare: Sandbox):
    source = """
    class Marked:
        def __init__(self, x: int): ...

    def probe() -> str:
        return Marked.__init__.__annotations__["x"].__name__
    """
    with bare.session() as session:
        assert run(session, source) == "int"


def test_arguments_cross_with_their_memory(bare: Sandbox):
    base = torch.arange(12.0).reshape(3, 4)
    args = Copier().copy([base[1:, ::2], base[0]])
    with bare.session() as session:
        session.run_cell("def probe(x, y): y.add_(1); return x")
        seen = session.observe("probe", args, {})
    assert seen.result.stride() == (4, 2)
    assert seen.arguments["y"].untyped_storage()._cdata == seen.result.untyped_storage()._cdata
    assert torch.equal(seen.arguments["y"], torch.arange(1.0, 5))


def test_gradients_and_a_backward_pass_of_ones_own_work_after_a_fork(bare: Sandbox):
    with bare.session() as session:
        source = """
        def probe(x):
            w = torch.ones(3, requires_grad=True)
            (w * 2).sum().backward()
            return x * w.grad
        """
        session.run_cell(textwrap.dedent(source))
        seen = session.observe("probe", [torch.ones(3, requires_grad=True)], {})
        assert seen.raised is None and torch.equal(seen.result, torch.full((3,), 2.0))
        assert set(seen.gradients) == {"x"}


def test_what_a_cell_raises_fits_into_its_reply(bare: Sandbox):
    deep = "def f(n): return f(n - 1) if n else g('" + "x" * 20_000 + "')\nf(5)"
    text = "class Own(str): pass\nclass E(Exception):\n    def __str__(self): return Own('m' * 10**6)"
    kind = "E.__name__ = Own('n' * 10**6)\ndef g(_): raise E\n"
    with bare.session() as session:
        error = session.run_cell(f"{text}\n{kind}{deep}").error
        assert error["message"] == "m" * 1000 and error["types"][0] == "n" * 200 and len(error["frames"]) == 5


def test_what_is_too_large_to_send_is_said(bare: Sandbox):
    with bare.session() as session:
        session.run_cell("def probe(): return [torch.zeros(2**23) for _ in range(3)]")
        assert session.observe("probe", [], {}).raised["types"][0] == "ResultTooLarge"


# ---------------------------------------------------------------- starting


def test_without_bubblewrap_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bubblewrap.sys, "platform", "linux")
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    with pytest.raises(CourseError, match="apt-get install bubblewrap"), Sandbox(SETUP):
        pass


@needs_bubblewrap
def test_a_course_that_the_sandbox_would_show_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bubblewrap, "course_root", lambda: Path("/usr/share/course"))
    with pytest.raises(CourseError, match="Move it"), Sandbox(SETUP):
        pass


def test_a_setup_that_fails_is_named():
    with pytest.raises(CourseError, match="no_such_module"), Sandbox("import no_such_module", enabled=False):
        pass


@needs_bubblewrap
def test_a_bubblewrap_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bubblewrap, "_user", lambda: ["--no-such-option"])
    with pytest.raises(CourseError, match="no-such-option"), Sandbox(SETUP):
        pass


@needs_bubblewrap
def test_a_worker_that_can_not_be_confined_does_not_run(monkeypatch: pytest.MonkeyPatch):
    with Sandbox(SETUP, Limits(disk=-1)) as broken, pytest.raises(CourseError, match="mount"):
        broken.session()


@needs_bubblewrap
def test_ranks_of_a_process_group_work_inside_and_end_with_the_session():
    setup = SETUP + "import torch.distributed as dist\nfrom torchkata.processes import run_on_ranks\n"
    program = """
    def total(rank, world):
        t = torch.tensor([rank + 1.0])
        dist.all_reduce(t)
        return t.item()

    def probe():
        return run_on_ranks(total, world=3)
    """
    with Sandbox(setup) as sandbox, sandbox.session() as session:
        session.allow(120)
        assert run(session, program) == [6.0, 6.0, 6.0]


@needs_bubblewrap
def test_the_processes_of_a_submission_share_its_memory(sandbox: Sandbox):
    """Each of six stays within its own limit."""
    hold = (
        "import time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = bytearray(b'x') * 2**28\n        break\n"
    )
    with sandbox.session() as session:
        assert "memory together" in str(lost(session, hold + "time.sleep(600)"))
        few = "import time\nif os.fork() == 0:\n    x = bytearray(b'x') * 2**26\n    time.sleep(600)\ntime.sleep(0.6)"
    with sandbox.session() as session:
        assert session.run_cell(few).error is None


MAPPED = """
import mmap, time
def probe():
    for _ in range(6):
        if os.fork() == 0:
            held = mmap.mmap(-1, 2**27)
            held[::4096] = bytes(len(held[::4096]))
            time.sleep(600)
    time.sleep(600)
"""


NOT_MAPPED = """
import mmap
def probe():
    reasons = []
    for place in (-1, os.open("/dev/zero", os.O_RDWR)):
        try:
            mmap.mmap(place, 2**20)
        except OSError as error:
            reasons.append(type(error).__name__)
    return reasons
"""


@needs_bubblewrap
def test_memory_that_processes_can_share_is_memory_too(sandbox: Sandbox, unfiltered: Sandbox):
    with unfiltered.session() as session, pytest.raises(WorkerLost, match="memory together"):
        run(session, MAPPED)
    with sandbox.session() as session:
        assert run(session, NOT_MAPPED) == ["PermissionError", "OSError"]


@needs_bubblewrap
def test_what_is_not_limited_here_is_said(sandbox: Sandbox, unfiltered: Sandbox, monkeypatch: pytest.MonkeyPatch):
    with sandbox.session() as session:
        without = [unlimited.UNFILTERED.format(syscalls.missing())] if syscalls.missing() else []
        assert session.not_limited == [unlimited.WATCHED, *without, unlimited.IN_SOCKETS]
    with unfiltered.session() as session:
        assert [one for one in session.not_limited if "System calls are not filtered" in one]
    known = Sandbox._process_behind_handle
    monkeypatch.setattr(Sandbox, "_process_behind_handle", staticmethod(lambda control: known(control) and None))
    with Sandbox(SETUP, LIMITS) as unwatched, unwatched.session() as session:
        assert unlimited.UNWATCHED in session.not_limited and unlimited.WATCHED not in session.not_limited


@needs_bubblewrap
def test_what_ended_children_took_was_not_taken_by_others(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    """Short children, one after another, use the time in which the first process waits."""
    busy = "for _ in range(10**7): pass"
    forks = f"import signal\n{{}}for _ in range(4):\n    if os.fork() == 0:\n        {busy}\n        os._exit(0)\n"
    with sandbox.session() as session:
        session.run_cell(forks.format("") + "for _ in range(4): os.wait()")
        taken = usage._of_ended(session._usage.process)
        assert taken > 0.1 and session._usage.starved(taken) < taken / 10  # both clocks tick in hundredths
        session.run_cell("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)")
        assert usage._forgets_ended(session._usage.process) and session._usage.starved(1000.0) == 0.0
