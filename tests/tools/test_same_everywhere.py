"""The same code comes to the same in a kernel, in `torchkata check`, in `torchkata grade` and under nbgrader: what a
notebook's cells can do besides Python, and what a learner's cells leave behind for the checks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from ipykernel.zmqshell import KernelMagics
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel

from tests.tools.grading.sandbox.test_boundary import needs_bubblewrap
from torchkata.tools.grading.sandbox.limits import Limits
from torchkata.tools.grading.sandbox.session import Sandbox
from torchkata.tools.learning.cell_runner import CellRunner

PATIENCE = 60.0  # seconds for a cell
SETUP = "import torch\nfrom torchkata.verdicts import check, observe"

# ---------------------------------------------------------------- what cells can do besides Python

ARGUMENTS = {  # of magics that would read from the terminal without
    **dict.fromkeys(("cat", "pycat", "less", "more", "load", "loadpy", "pfile"), "there.txt"),
    **dict.fromkeys(("pip", "uv"), "--version"),
    **{"man": "true", "cd": ".", "timeit": "-n1 -r1 1", "time": "1", "prun": "1", "matplotlib": "inline"},
    **{"load_ext": "autoreload", "edit": "there.txt", "ed": "there.txt", "reset": "-f", "xmode": "Plain"},
}
CELL_ARGUMENTS = {
    "writefile": "written.txt",
    "file": "written.txt",
    "script": "cat",
    "capture": "caught",
    "timeit": "-n1 -r1",
}
APART = {  # what they change lasts, they ask, or they begin anew what ran before
    *("automagic", "autocall", "code_wrap", "debug", "pdb", "recall", "rep", "rerun", "reset", "tb", "notebook"),
    *("pastebin", "perl", "pypy", "python2", "ruby"),  # and what this machine may have or not
    *("killbgscripts", "logoff", "logon", "logstart", "logstop", "logstate", "rehashx", "psearch", "hist", "history"),
}
DOWN_HERE = {"conda", "mamba", "micromamba"}  # what they need is not here
FORGIVEN = {  # fails on this machine; the learner's may have it, so in grading the rest of the cell runs
    "a back end that is not installed": "%matplotlib widget",
    "an extension that is not installed": "%load_ext not_installed_here",
    "a magic that it would have brought": "%not_installed_here --port 6006",
    **{name: f"%{name} x" for name in DOWN_HERE},
}
UNKNOWN = {"a magic that nobody knows": "%nobody_knows_this 1", "in Python": "get_ipython().run_line_magic('no', '')"}
SPELLINGS = {
    "inline": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "notebook": "%matplotlib notebook",
    "agg": "%matplotlib agg",
    "a back end by name": "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')",
    "its formats": "import matplotlib_inline.backend_inline as b\nb.set_matplotlib_formats('svg')",
    "pylab": "%pylab inline\nlinspace(0, 1, 3)",
    "autosave": "%autosave 60",
    "config": "%config InlineBackend.figure_format = 'retina'",
    "gui": "%gui asyncio",
    "no gui": "%gui nobody",
    "shell": "!true\n!no_such_command\nhere = !echo here\nassert here == ['here']",
    "help": "print?\n?print",
    "get_ipython": "get_ipython().run_line_magic('pwd', '')\nget_ipython().system('true')",
    "imported": "from IPython import get_ipython as shell\nassert shell() is get_ipython()",
    "from its module": "import IPython\nIPython.get_ipython().user_ns['bound'] = 1\nassert bound == 1",
    "from the core": "from IPython.core.getipython import get_ipython as shell\nshell().push({'pushed': 1}); pushed",
    "class": "assert get_ipython().__class__.__name__ == 'ZMQInteractiveShell'",
    "config of a kernel": "assert 'IPKernelApp' in get_ipython().config",
    "kernel's shell": "from ipykernel.zmqshell import ZMQInteractiveShell as Z\nassert isinstance(get_ipython(), Z)",
    "kernel": "get_ipython().kernel",
    "no such method": "get_ipython().nobody()",
    "run_cell": "get_ipython().run_cell('ran = 1').raise_error(); ran",
    "next cell": "get_ipython().set_next_input('x')",
    "hook": "get_ipython().events.register('post_execute', lambda: None)",
    "formatter": "get_ipython().display_formatter.formatters['text/html'].for_type(int, str)",
    "displayhook": "import sys\nsys.displayhook(3)",
    "display": "from IPython.display import HTML, clear_output, display\ndisplay(HTML('<b>')); clear_output(wait=True)",
    "builtin display": "display(1)",
    "display handle": "from IPython.display import update_display\nh = display(1, display_id='a'); h.update(2)",
    "updated": "from IPython.display import update_display\nupdate_display(2, display_id='a')",
    "javascript": "from IPython.display import Javascript, Markdown\ndisplay(Javascript('1'), Markdown('x'))",
    "bad repr": "class Bad:\n    def _repr_html_(self): return 1 / 0\ndisplay(Bad())",
    "widget": "import ipywidgets\nw = ipywidgets.IntSlider(); display(w); w.value = 3",
    "interact": "import ipywidgets\nipywidgets.interact(lambda x: x, x=3)",
    "output widget": "import ipywidgets\no = ipywidgets.Output()\nwith o: print(1)",
    "await": "import asyncio\nawait asyncio.sleep(0)",
    "async with": "import asyncio\nasync with asyncio.timeout(9): pass",
    "a loop runs": "import asyncio\nasyncio.get_running_loop()",
    "a task": "import asyncio\ntask = asyncio.create_task(asyncio.sleep(0))",
    "a task awaited": "await task",
    "a second loop": "import asyncio\nwork = asyncio.sleep(0)\ntry: asyncio.run(work)\nfinally: work.close()",
    "the value before": "assert _ == 7",
    "output": "import sys\nsys.stdout.flush(); sys.stderr.write('x')",
    "faulthandler": "import faulthandler\nfaulthandler.enable()\nfaulthandler.disable()",
    "a breakpoint": "breakpoint()",
    "exit": "raise SystemExit",
    "names of a notebook": "In; Out; exit; quit; _dh; __name__",
    "own name In": "In = 3",
    "own name kept": "assert In == 3",
    "main": "import __main__\n__main__.left = 1\nassert left == 1",
    "colab": "from google.colab import drive",
    "written module": "%%writefile written_module.py\nvalue = 3",
    "its import": "import written_module\nassert written_module.value == 3",
    "run": "%run written_module.py\nassert value == 3",
    "run by cells": "%%time\ntimed = 1",
    "what it bound": "timed",
    "captured": "%%capture caught\nprint('x')",
    "what it caught": "assert caught.stdout == 'x\\n'",
    "an indented cell": "    indented = 1\n    indented",
    "prompts": ">>> prompted = 1\n>>> for step in range(1):\n...     prompted += step",
    "numbered prompts": "In [1]: numbered = 1\n   ...: numbered",
    "no Python": "def broken(:",
    "undefined": "nobody_bound_this",
}


@cache
def magics() -> dict[str, str]:
    """Each line and cell magic that IPython and ipykernel register, in a cell."""
    shell = InteractiveShell()
    shell.register_magics(KernelMagics)
    known = shell.magics_manager.magics
    lines = {name: f"%{name} {ARGUMENTS.get(name, '')}".rstrip() for name in known["line"] if name not in APART}
    cells = {f"%%{name}": f"%%{name} {CELL_ARGUMENTS.get(name, '')}".rstrip() for name in known["cell"]}
    cells = {name: f"{first}\n0" for name, first in cells.items() if name.strip("%") not in APART}
    return {name: source for name, source in lines.items() if name not in DOWN_HERE} | cells


@cache
def programs() -> dict[str, str]:
    before = {"first": "with open('there.txt', 'w') as file: file.write('3')", "seven": "3 + 4"}
    rest = {name: source for name, source in SPELLINGS.items() if name != "the value before"}
    return before | {"the value before": SPELLINGS["the value before"]} | UNKNOWN | magics() | rest | FORGIVEN


def cells() -> Iterator[tuple[str, str]]:
    """Each program, and the name that is bound where it came to its end."""
    for number, (name, source) in enumerate(programs().items()):
        alone = source.startswith("%%")
        yield name, source if alone else f"{source}\nended_{number} = 1"


def _ended(went_well: list[bool]) -> set[str]:
    return {name for name, well in zip(programs(), went_well, strict=True) if well}


def by_kernel(folder: Path) -> set[str]:
    manager, client = start_new_kernel(cwd=str(folder))
    try:
        run = [
            client.execute_interactive(source, allow_stdin=False, output_hook=lambda message: None, timeout=PATIENCE)
            for source in [SETUP, *(source for _, source in cells())]
        ]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return _ended([reply["content"]["status"] == "ok" for reply in run[1:]])


def by_check(folder: Path) -> set[str]:
    runner = CellRunner(folder)
    try:
        run = [runner.run(source, PATIENCE) for source in [SETUP, *(source for _, source in cells())]]
    finally:
        runner.end()
    return _ended([result.error is None for result in run[1:]])


def by_grade(folder: Path) -> set[str]:
    with Sandbox(SETUP, Limits(submission_seconds=600)) as sandbox, sandbox.session() as session:
        session.allow(600)
        return _ended([session.run_cell(source).error is None for _, source in cells()])


@pytest.fixture(scope="module")
def in_kernel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return by_kernel(tmp_path_factory.mktemp("kernel"))


def test_the_kernel_itself(in_kernel: set[str]):
    """What the others are compared with: nearly all ends well, and what fails there must fail."""
    failing = programs().keys() - in_kernel
    named = {*UNKNOWN, *FORGIVEN, "no such method", "a second loop", "exit", "colab", "no Python", "undefined"}
    assert named <= failing
    assert len(failing - named) < len(magics()) / 3, failing - named


def test_check(in_kernel: set[str], tmp_path: Path):
    assert by_check(tmp_path) == in_kernel


@pytest.mark.exhaustive("an answer that torch's own compiler compiles with g++, in the sandbox")
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
@needs_bubblewrap
def test_what_torch_compiles_with_g_plus_plus():
    with Sandbox(SETUP, Limits(submission_seconds=600)) as sandbox, sandbox.session() as session:
        session.allow(600)
        reply = session.run_cell("@torch.compile\ndef double(x):\n    return x * 2\n\ndouble(torch.ones(3))")
    assert reply.error is None, reply.error["message"]


@needs_bubblewrap
def test_grade(in_kernel: set[str], tmp_path: Path):
    ended = by_grade(tmp_path)
    assert ended - FORGIVEN.keys() == in_kernel - FORGIVEN.keys()
    assert ended >= FORGIVEN.keys(), "what the learner's machine may have does not end the cell"
