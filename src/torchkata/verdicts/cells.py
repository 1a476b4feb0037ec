"""Before and after each cell of a notebook: a check cell finds the names of the chapter's first cell, whatever the
learner has given these names to, and the learner finds their own again.

In a kernel only; elsewhere each check cell has a namespace that nobody else writes into.
"""

from __future__ import annotations

import ast
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from torchkata.verdicts import names

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

_CHECK = re.compile(r'^with check\("[\w-]+"\)', re.M)


def shell_here() -> InteractiveShell | None:
    """The kernel's shell; None elsewhere."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell and get_shell()


def watch() -> None:
    """From now on, in a kernel, look at each cell before and after it runs."""
    if (shell := shell_here()) is None:
        return

    def before(info: ExecutionInfo) -> None:
        names.take_back(shell.user_ns)  # a cell that was stopped at the wrong moment may have left something
        source = info.raw_cell or ""
        if _CHECK.search(source):
            names.lend(shell.user_ns, set(re.findall(r"\w+", source)))

    def after(result: ExecutionResult) -> None:
        names.take_back(shell.user_ns)
        if result.success and result.info:
            names.learn(shell.user_ns, _imported(result.info.raw_cell or ""))

    shell.events.register("pre_run_cell", before)
    shell.events.register("post_run_cell", after)


def _imported(source: str) -> set[str]:
    """The names that the first cell of a chapter imports; none for any other cell."""
    with suppress(SyntaxError):
        if "torchkata.verdicts" in source and not _CHECK.search(source):
            found = [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
            known = {alias.asname or alias.name.partition(".")[0] for node in found for alias in node.names}
            return known if "check" in known else set()
    return set()
