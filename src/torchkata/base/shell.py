"""A kernel's shell where no kernel is: cells that `torchkata check` runs, or that are graded, find all that a notebook
has: its magics, `get_ipython`, `display`.

It shows nothing, and what only a kernel and its page could do does nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import ModuleType

from ipykernel import eventloops, zmqshell
from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import ExecutionResult
from traitlets import Bool
from traitlets.config import Config

OF_A_KERNEL = ("connect_info", "subshell")  # magics that tell of a kernel's own channels
RUN_CODE = ("debug", "prun", "rerun", "run", "time", "timeit")  # magics that run what the learner wrote
BRING = ("conda", "gui", "load_ext", "mamba", "matplotlib", "micromamba", "pip", "pylab", "reload_ext", "uv")
FAILS_HERE_ONLY = (ImportError, OSError)  # of a file, a package or a network that is not here


def shell_of(module: ModuleType, forgiving: bool = False) -> ZMQInteractiveShell:
    """The one shell of this process; cells run in the module's namespace, and what that holds already stays.

    forgiving: whether a line magic that may fail here alone, for want of an extension, a package or a network that the
    learner's machine has, leaves the rest of its cell.
    """
    names = dict(vars(module))
    config = Config({"HistoryManager": {"enabled": False}, "IPKernelApp": {"in_a_notebook": True}})
    shell = ZMQInteractiveShell.instance(user_module=module, user_ns=vars(module), config=config, forgiving=forgiving)
    vars(module).update(names)
    os.environ.setdefault("PYTHONBREAKPOINT", "0")  # passed by, as in a kernel whose debugger is off
    return shell


class _Unformatted(DisplayFormatter):
    """Makes no text and no picture of anything."""

    def format(self, *values: object, **options: object) -> tuple[dict, dict]:
        return {}, {}


class _Unshown(DisplayHook):
    """Keeps a cell's value, as `_` and `Out`, and writes nothing."""

    def write_output_prompt(self) -> None: ...


class _Unpublished(DisplayPublisher):
    def publish(self, *bundle: object, **options: object) -> None: ...

    def clear_output(self, wait: bool = False) -> None: ...


class ZMQInteractiveShell(zmqshell.ZMQInteractiveShell):
    """By this name code tells that it runs in a notebook."""

    displayhook_class = _Unshown
    display_pub_class = _Unpublished
    forgiving = Bool(False)
    lacks_extensions = Bool(False)

    def run_as_kernels_do(self, source: str) -> ExecutionResult:
        """Run a cell and note it in the history, in an event loop that runs."""
        if self._awaits(source):
            return self.run_cell(source, store_history=True)  # which starts the loop by itself

        async def run() -> ExecutionResult:
            return self.run_cell(source, store_history=True)

        return get_asyncio_loop().run_until_complete(run())

    def _awaits(self, source: str) -> bool:
        with suppress(Exception):  # what can't be read tells so when it is run
            return self.should_run_async(source, transformed_cell=self.transform_cell(source))
        return False

    def init_display_formatter(self) -> None:
        self.display_formatter = _Unformatted(parent=self)
        self.configurables.append(self.display_formatter)

    def showtraceback(self, *args: object, **options: object) -> None: ...

    def showsyntaxerror(self, *args: object, **options: object) -> None: ...

    def ask_exit(self) -> None:
        raise SystemExit

    def enable_gui(self, gui: str | None = None) -> None:
        if gui not in eventloops.loop_map:
            raise UsageError(f"Invalid GUI request {gui!r}")
        self.active_eventloop = gui

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> object:
        if magic_name in OF_A_KERNEL or self._is_of_lacking_extension(magic_name, "line"):
            return None
        try:
            return super().run_line_magic(magic_name, line, _stack_depth + 1)
        except Exception as error:
            if not self._forgives(magic_name, error):
                raise
            self.lacks_extensions |= magic_name in ("load_ext", "reload_ext")
            print(f"%{magic_name} {line} failed here ({error}); the rest of its cell runs.", file=sys.stderr)
        return None

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        if self._is_of_lacking_extension(magic_name, "cell"):
            return None
        return super().run_cell_magic(magic_name, line, cell)

    def _forgives(self, magic: str, error: Exception) -> bool:
        """Whether a line magic has failed for a reason that a learner's machine need not have."""
        may = magic in BRING or (magic not in RUN_CODE and isinstance(error, FAILS_HERE_ONLY))
        return self.forgiving and may and not isinstance(error, UsageError)

    def _is_of_lacking_extension(self, magic: str, kind: str) -> bool:
        """Whether nobody here knows a magic that an extension may have brought that could not be loaded."""
        return self.lacks_extensions and self.find_magic(magic, kind) is None
