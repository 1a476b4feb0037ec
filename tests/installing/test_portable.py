"""The package keeps to what works on Linux, macOS and Windows; what does not is listed here, with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests import ROOT

SRC = ROOT / "src"

SANDBOX = "the sandbox of torchkata grade is made of Linux's namespaces"
# by file and kind of problem: why it may be there
ALLOWED = {
    "torchkata/tools/grading/sandbox/inside/confine.py": {
        "os.path": SANDBOX,
        "joined by hand": SANDBOX,
        "no encoding": "the kernel's files in /proc are ASCII",
        "Unix only": SANDBOX,
    },
    "torchkata/tools/grading/sandbox/inside/zygote.py": {
        "fork": SANDBOX + "; workers are forked so that they need not load torch",
        "no encoding": "the kernel's files in /proc are ASCII, and so is a number in a pipe",
        "Unix only": SANDBOX,
    },
    "torchkata/tools/grading/sandbox/session.py": {
        "joined by hand": SANDBOX,
        "no encoding": "the kernel's files are ASCII",
    },
    "torchkata/tools/grading/sandbox/usage.py": {
        "joined by hand": SANDBOX,
        "Unix only": "where there are no such handles, it says so",
    },
    "torchkata/tools/mutant_worker.py": {
        "fork": "torchkata mutants refuses to run where there is none",
        "Unix only": "torchkata mutants refuses to run there",
    },
    "torchkata/tools/grading/watchdog.py": {
        "no encoding": "the kernel's files in /proc are ASCII",
        "Unix only": "the pool calls it on Linux alone",
    },
    "torchkata/tools/grading/sandbox/bubblewrap.py": {"Unix only": SANDBOX},
    "torchkata/tools/site/text_pages.py": {"os.path": "a link in a text has slashes on every system"},
    "torchkata/tools/grading/judge.py": {"forkserver": "where the system has none, it takes spawn"},
    "torchkata/processes/running.py": {
        "forkserver": "on Windows, it takes spawn",
        "Unix only": "the signal is sent to processes that listen to it, which they do where there is one",
    },
}

FORKS = {"fork", "forkpty"}
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
STARTS = {"subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
UNIX_ONLY = {
    "os": {"chroot", "geteuid", "getpgid", "getuid", "killpg", "mkfifo", "nice", "pidfd_open", "sched_getaffinity"}
    | {"setns", "setsid", "unshare", "wait4", "waitid", "setresuid", "setresgid", "setgroups"},
    "signal": {"SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGSTOP", "SIGCONT", "alarm", "setitimer"},
    "faulthandler": {"register"},
}
UNIX_MODULES = {"fcntl", "grp", "pwd", "resource", "termios"}
# what begins processes, when taken from multiprocessing itself: with fork on Linux, with spawn elsewhere
DEFAULT_CONTEXT = {"Process", "Pool", "Queue", "SimpleQueue", "Pipe", "Manager", "set_start_method"}


def problems(tree: ast.AST) -> set[tuple[int, str]]:
    """The lines of a module that do not work everywhere, each with the kind of its problem."""
    return {(node.lineno, kind) for node in ast.walk(tree) for kind in _kinds(node)} | set(_unix_only(tree))


def _kinds(node: ast.AST) -> Iterator[str]:
    name = _dotted(node)
    if name.startswith(("os.path.", "posixpath.", "ntpath.")) or name == "os.sep":
        yield "os.path"
    if name in {f"os.{word}" for word in FORKS}:
        yield "fork"
    if name in SHELLS:
        yield "shell"
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _import_kinds(node)
    if isinstance(node, ast.Call):
        yield from _call_kinds(node)


def _import_kinds(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Names taken from their modules would pass unseen, so those that matter must not be."""
    module = getattr(node, "module", None)
    taken = {alias.name for alias in node.names}
    if (module or "").startswith("os.path") or (module == "os" and "path" in taken) or "os.path" in taken:
        yield "os.path"
    if module in ("os", "subprocess") and taken & (FORKS | {name.partition(".")[2] for name in SHELLS | STARTS}):
        yield "fork" if taken & FORKS else "shell"
    if module == "multiprocessing" and taken & DEFAULT_CONTEXT:
        yield "default context"


def _call_kinds(call: ast.Call) -> Iterator[str]:
    name = _dotted(call.func)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if "shell" in keywords and not _is_constant(keywords["shell"], False):
        yield "shell"
    if name.startswith("multiprocessing.") and name.partition(".")[2] in DEFAULT_CONTEXT:
        yield "default context"
    if name.endswith("get_context"):
        methods = {part.value for part in ast.walk(call) if isinstance(part, ast.Constant)} - {"win32"}
        yield from sorted(methods - {"spawn"}) if methods else ["default context"]
    if _opens_text(call, name, keywords) and "encoding" not in keywords:
        yield "no encoding"
    if _takes_path(call, name) and any(_joins(part) for argument in call.args for part in ast.walk(argument)):
        yield "joined by hand"


def _opens_text(call: ast.Call, name: str, keywords: dict) -> bool:
    """Whether a call reads or writes text: a file that it opens, or the output of a program."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method in ("read_text", "write_text"):
        return True
    if name in STARTS:
        return any(_is_constant(keywords.get(word), True) for word in ("text", "universal_newlines"))
    if name.rpartition(".")[2] in ("NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile"):
        return "b" not in _mode(call, keywords, place=0, default="w+b")
    if name in ("open", "io.open", "os.fdopen"):
        return "b" not in _mode(call, keywords, place=1)
    if method == "open" and not name.startswith(("os.", "io.", "webbrowser.")):
        mode = _mode(call, keywords, place=0)
        return bool(mode) and set(mode) <= set("rwxat+")
    return False


def _mode(call: ast.Call, keywords: dict, place: int, default: str = "r") -> str:
    """The mode with which a call opens a file; "" where it is not written out."""
    given = keywords.get("mode", call.args[place] if len(call.args) > place else ast.Constant(default))
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _takes_path(call: ast.Call, name: str) -> bool:
    return name in ("Path", "open", "io.open") or name.startswith(("os.", "shutil."))


def _joins(node: ast.AST) -> bool:
    """Whether an expression puts a path together out of strings."""
    if isinstance(node, ast.JoinedStr):
        return any("/" in part.value for part in node.values if isinstance(part, ast.Constant))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return any(isinstance(side, ast.Constant) and "/" in str(side.value) for side in (node.left, node.right))
    return isinstance(node, ast.Call) and _dotted(node.func) == "" and _is_constant(_owner(node.func), "/")


def _unix_only(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Uses of what Windows lacks, in functions that do not ask whether it is there."""
    asking = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _asks_for_system(node)]
    asked = {id(part) for function in asking for part in ast.walk(function)}
    for node in ast.walk(tree):
        module, _, word = _dotted(node).partition(".")
        if word in UNIX_ONLY.get(module, ()) and id(node) not in asked:
            yield node.lineno, "Unix only"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        if isinstance(node, ast.Import | ast.ImportFrom) and UNIX_MODULES.intersection(names) and id(node) not in asked:
            yield node.lineno, "Unix only"


def _asks_for_system(function: ast.FunctionDef) -> bool:
    """Whether a function asks which system it is on, or whether the system has what it uses."""
    names = {_dotted(node) for node in ast.walk(function)}
    return bool(names & {"hasattr", "os.name", "sys.platform", "platform.system"})


def _dotted(node: ast.AST | None) -> str:
    """a.b.c for such an expression, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def _owner(node: ast.AST) -> ast.AST | None:
    return node.value if isinstance(node, ast.Attribute) else None


def _is_constant(node: ast.AST | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


# ---------------------------------------------------------------- the gate


@cache
def found() -> dict[str, set[tuple[int, str]]]:
    return {
        path.relative_to(SRC).as_posix(): problems(ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SRC.rglob("*.py"))
    }


@pytest.mark.parametrize("module", sorted(path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py")))
def test_a_module_works_everywhere(module: str):
    allowed = ALLOWED.get(module, {})
    assert sorted(problem for problem in found()[module] if problem[1] not in allowed) == []


def test_no_permission_is_left_over():
    used = {(module, kind) for module, lines in found().items() for _, kind in lines}
    assert {(module, kind) for module, kinds in ALLOWED.items() for kind in kinds} <= used


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("os.path.join(a, b)", "os.path"),
        ("from os import path", "os.path"),
        ("import os.path", "os.path"),
        ("a + os.sep + b", "os.path"),
        ("os.fork()", "fork"),
        ("from os import fork", "fork"),
        ("multiprocessing.get_context('fork')", "fork"),
        ("multiprocessing.get_context('forkserver')", "forkserver"),
        ("get_context('spawn' if sys.platform == 'win32' else 'fork')", "fork"),
        ("multiprocessing.get_context()", "default context"),
        ("multiprocessing.Process(target=f)", "default context"),
        ("from multiprocessing import Pool", "default context"),
        ("os.system('ls')", "shell"),
        ("os.popen('ls')", "shell"),
        ("from subprocess import run", "shell"),
        ("subprocess.run('ls', shell=True)", "shell"),
        ("subprocess.Popen('ls', shell=fast)", "shell"),
        ("open(a)", "no encoding"),
        ("open(a, 'w')", "no encoding"),
        ("path.open()", "no encoding"),
        ("path.open('a')", "no encoding"),
        ("path.read_text()", "no encoding"),
        ("path.write_text(text)", "no encoding"),
        ("subprocess.run(command, text=True)", "no encoding"),
        ("tempfile.NamedTemporaryFile('w')", "no encoding"),
        ("Path(f'{a}/{b}')", "joined by hand"),
        ("open(a + '/b', encoding='utf-8')", "joined by hand"),
        ("shutil.copy(a, '/'.join([b, c]))", "joined by hand"),
        ("Path('%s/b' % a)", "joined by hand"),
        ("os.setsid()", "Unix only"),
        ("def f():\n os.kill(pid, signal.SIGKILL)", "Unix only"),
        ("import fcntl", "Unix only"),
    ],
)
def test_each_kind_is_noticed(line: str, kind: str):
    assert kind in {kind for _, kind in problems(ast.parse(line))}


@pytest.mark.parametrize(
    "line",
    [
        "Path(a) / b / 'c.txt'",
        "path.open(encoding='utf-8')",
        "path.open('rb')",
        "open(a, 'wb')",
        "os.open(a, os.O_RDONLY)",
        "desk.open(opening, token)",
        "path.read_text(encoding='utf-8')",
        "tempfile.TemporaryFile(dir=folder)",
        "tempfile.NamedTemporaryFile('wb')",
        "subprocess.run(command, text=True, encoding='utf-8')",
        "subprocess.run(command, shell=False)",
        "multiprocessing.get_context('spawn')",
        "f'{points}/{full} points'",
        "print(f'{step}/{world}')",
        "def f():\n if hasattr(os, 'setsid'): os.setsid()",
        "def f():\n if os.name != 'nt':\n  import fcntl",
    ],
)
def test_what_works_everywhere_is_let_through(line: str):
    assert problems(ast.parse(line)) == set()
