"""Speaking for the worker: forged, oversized, slow and malformed replies on the boundary."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack

# finds the worker's socket among the open files, and the number of the request that is being answered
CHANNEL = """
import json, os, socket, stat, struct, sys, time
from torchkata.verdicts.observing import Observation
from torchkata.tools.grading.sandbox.messages import encode

def plain(**fields):
    noted = Observation(**fields).as_plain() | {"ops": '{"kinds": [], "order": []}'}
    del noted["seconds"]
    return noted

def channel():
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return socket.socket(fileno=os.dup(number))
        except OSError:
            pass

def request():
    frame = sys._getframe()
    while frame:
        if isinstance(frame.f_locals.get("number"), bytes):
            return int.from_bytes(frame.f_locals["number"], "big")
        frame = frame.f_back
    return 1

def say(data, length=None, ahead=0):
    data = struct.pack("!Q", request() + ahead) + data
    channel().sendall(struct.pack("!Q", len(data) if length is None else length) + data)

def reply(**fields):
    say(encode(fields))

def tensor(**fields):
    row = {"dtype": "torch.float32", "size": [3], "stride": [1], "offset": 0, "storage": 0, "requires_grad": False,
           "parameter": False} | fields
    return ["tensor", row]

def raw(result, storages=({"device": "cpu", "bytes": "AAAAAAAAAAAAAAAA"},)):
    noted = {"result": result, "raised": None, "arguments": ["dict", []], "tracked": False,
             "gradients": ["dict", []], "backward_raised": None, "ops": ["list", []], "warned": ["list", []],
             "printed": ""}
    value = ["dict", [["noted", ["dict", list(map(list, noted.items()))]]]]
    say(json.dumps({"storages": list(storages), "value": value}).encode())
"""


def speak(it: HandIn, words: list[str]) -> None:
    """Each exercise of the rest that has a function says one of these things when it is called."""
    for task, word in zip([task for task in it.rest if task.functions], words, strict=False):
        lines = "\n".join(f"    {line}" for line in word.splitlines())
        it.answer(task, f"{CHANNEL}\ndef {task.functions[0].name}(*args, **kwargs):\n{lines}")


@attack(nbgrader_safe=False)
def forged_points(it: HandIn):
    """Sends replies that speak of points, of a solved state, and of a result that needs no judging."""
    noted = "plain(result=None)"
    speak(
        it,
        [
            f"reply(noted={noted}, points=100.0, verdict='solved', state='solved')",
            "reply(noted={'points': 100.0})",
            "reply(points=100.0)",
            "reply(error=None, defined=['points'])",
            f"say(encode([{{'noted': {noted}}}] * 9))",
        ],
    )


@attack(nbgrader_safe=False)
def replies_in_advance(it: HandIn):
    """Answers the next hundred requests before they are made."""
    guess = "plain(result=torch.zeros(3), raised=None)"
    speak(it, [f"for n in range(1, 100):\n    say(encode({{'noted': {guess}}}), ahead=n)"] * 5)
    it.unsure.add(it.last.exercise.id)


@attack(nbgrader_safe=False)
def refusals_in_advance(it: HandIn):
    """Answers all requests at once with exceptions of all kinds, as the tests of bad input want them."""
    raised = "{'types': ['IndexError', 'ValueError', 'RuntimeError'], 'message': '', 'frames': []}"
    forged = f"{{'noted': plain(raised={raised})}}"
    speak(it, [f"for n in range(100):\n    say(encode({forged}), ahead=n)"] * 5)
    it.unsure.add(it.last.exercise.id)


@attack(nbgrader_safe=False)
def forged_cells(it: HandIn):
    """Answers in an answer cell, for the cell, and says that names exist that don't."""
    for task in it.rest:
        names = [function.name for function in task.functions] or [task.items[0]]
        it.answer(
            task,
            f"{CHANNEL}\nreply(error=None, defined={[*names, '__import__', 'check', 'observe']!r})\ntime.sleep(0.1)",
        )
    it.unsure.add(it.last.exercise.id)


@attack(nbgrader_safe=False)
def oversized_frames(it: HandIn):
    """Announces messages of exabytes, sends real ones of 80 MiB, and messages without a length's end."""
    speak(
        it,
        [
            "say(b'', length=2**64 - 1)",
            "say(b'{', length=2**40)",
            "say(b' ' * (80 * 2**20))",
            "channel().sendall(b'\\0\\0\\0')\nos._exit(0)",
            "say(b'', length=2**63)",
        ],
    )


@attack(nbgrader_safe=False)
def slow_reply(it: HandIn):
    """Sends a legal message byte by byte, a few in a second."""
    drip = """
data, sock = struct.pack("!Q", 2**20), channel()
while True:
    sock.sendall(data[:1])
    data = data[1:] or b" "
    time.sleep(0.1)
"""
    speak(it, [drip.strip()])


@attack(nbgrader_safe=False)
def unfinished_reply(it: HandIn):
    """Announces a message, sends half of it, and waits; another closes its half of the connection."""
    speak(it, ["say(b'{' * 100, length=1000)\ntime.sleep(100)", "channel().shutdown(socket.SHUT_WR)"])


@attack(nbgrader_safe=False)
def deaf_worker(it: HandIn):
    """Stops reading, so that requests pile up, and talks without end."""
    speak(it, ["sock = channel()\nsock.settimeout(100)\nwhile True:\n    say(b'{}')"])


@attack(nbgrader_safe=False)
def malformed_frames(it: HandIn):
    """Sends noise, nothing, other encodings, broken JSON and JSON that is too deep for a parser."""
    speak(
        it,
        [
            "say(os.urandom(10_000))",
            "say(b'')",
            "say('{\"value\": 1}'.encode('utf-16'))",
            "say(b'[' * 10**6)",
            "say(b'{\"storages\": [], \"value\": ' + b'[\"list\", [' * 20_000 + b']]' * 20_000 + b'}')",
        ],
    )


@attack(nbgrader_safe=False)
def pickled_frames(it: HandIn):
    """Sends pickles, and JSON that names functions, which do something when they are loaded."""
    pickled = """
import pickle
class Run:
    def __reduce__(self): return os.system, ("touch @COURSE/@TOKEN /tmp/@TOKEN",)
"""
    named = "{'__reduce__': 'os.system', 'py/object': 'os.system', 'py/reduce': ['touch /tmp/@TOKEN']}"
    speak(
        it,
        [
            f"{pickled.strip()}\nsay(pickle.dumps(Run()))",
            f"{pickled.strip()}\ntorch.save(Run(), 'saved')\nsay(open('saved', 'rb').read())",
            f"say(json.dumps({named}).encode())",
            "raw(['pickle', 'Y29zCnN5c3RlbQ=='])",
            "raw(['other', '__import__(\"os\").system(\"touch /tmp/@TOKEN\")'])",
        ],
    )


@attack(nbgrader_safe=False)
def malformed_observations(it: HandIn):
    """Sends observations with missing fields, wrong types, endless numbers and lists as keys."""
    honest = "plain(result=1)"
    speak(
        it,
        [
            f"reply(noted={honest} | {{'printed': 1}})",
            f"reply(noted={honest} | {{'ops': [{{'name': 1}}], 'warned': [[1]]}})",
            f"reply(noted={honest} | {{'raised': {{'types': [], 'message': 1, 'frames': [[1]]}}}})",
            "raw(['dict', [[['list', [1]], 2]]])",
            "raw(['float', '1' * 10**6])",
        ],
    )


@attack(nbgrader_safe=False)
def malformed_tensors(it: HandIn):
    """Sends tensors that reach out of their storage: by offset, by stride, by negative numbers, by a false dtype."""
    speak(
        it,
        [
            "raw(tensor(offset=2**40))",
            "raw(tensor(stride=[2**60]))",
            "raw(tensor(offset=-8, stride=[-1]))",
            "raw(tensor(dtype='torch.float32.__class__'))",
            "raw(tensor(dtype='torch.quint8', requires_grad=True))",
        ],
    )


@attack(nbgrader_safe=False)
def boundless_tensors(it: HandIn):
    """Sends tensors that are huge when they are looked at, though nothing is stored."""
    speak(
        it,
        [
            "raw(tensor(size=[2**40], stride=[0]))",
            "raw(tensor(size=[2**31, 2**31, 2**31], stride=[0, 0, 0]))",
            "raw(tensor(size=[2**50]), [{'device': 'meta', 'bytes': str(2**62)}])",
            "raw(['list', [tensor(size=[2**24], stride=[0])] * 1000])",
            "raw(tensor(size=[1] * 10**5, stride=[0] * 10**5))",
        ],
    )


@attack(nbgrader_safe=False)
def costly_numbers(it: HandIn):
    """Sends tensors whose sizes have thousands of digits, so that multiplying them takes minutes."""
    many = "big = int('9' * 4200)\nn = 2000\n"
    speak(
        it,
        [
            f"{many}raw(tensor(size=[big] * n + [0], stride=[0] * n + [0]))",
            f"{many}raw(tensor(size=[big] * n, stride=[big] * n))",
            "raw(['list', [['bytes', 'AAAA' * 10**6]] * 10])",
            "raw(['dict', [[n * (2**61 - 1), 0] for n in range(100_000)]])",
            "raw(['dict', [[['float', str(n)], 0] for n in range(100_000)]])",
        ],
    )


@attack(nbgrader_safe=False)
def files_over_the_socket(it: HandIn):
    """Sends open files along with its bytes, and bytes out of band."""
    speak(
        it,
        [
            "for _ in range(50):\n    socket.send_fds(channel(), [b'\\0'], [os.open('/dev/zero', os.O_RDONLY)] * 10)",
            "channel().send(b'x', socket.MSG_OOB)",
        ],
    )


@attack(nbgrader_safe=False)
def voice_of_a_child(it: HandIn):
    """Lets children and threads go on talking on the boundary while the next exercises are judged."""
    it.answer_one(
        CHANNEL
        + """
if os.fork() == 0:
    sock = channel()
    while True:
        sock.sendall(struct.pack("!Q", 2) + b"{}")
        time.sleep(0.001)
"""
    )
    it.unsure.add(it.last.exercise.id)


@attack(nbgrader_safe=False)
def namespace_of_its_own(it: HandIn):
    """Makes a namespace of users, in which it may mount: the control groups, to kill everything; a disk without end."""
    it.answer_one(
        """
        import ctypes, os
        def break_out():
            libc = ctypes.CDLL(None)
            user, group = os.getuid(), os.getgid()
            libc.unshare(0x10020000)
            libc.prctl(4, 1, 0, 0, 0)
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            if libc.mount(b"none", b"/tmp/work", b"cgroup2", 0, None) == 0:
                with open("/tmp/work/cgroup.kill", "w") as file:
                    file.write("1")
            libc.mount(b"none", b"/tmp/work", b"tmpfs", 0, None)
            for number in range(100):
                with open(f"/tmp/work/{number}", "wb") as file:
                    file.write(b"x" * 2**22)
        """,
        "return break_out()",
    )
