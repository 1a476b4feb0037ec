"""What is loaded before the first submission: all that a chapter's answers and checks load, and nothing that takes
long and that they don't."""

from __future__ import annotations

from tests.fresh_process import said_by

FORKED_FROM = ("preload", "sandbox.inside.zygote")  # modules of those processes
FOR_THE_COMMAND = {"nbformat", "jsonschema", "IPython", "sqlalchemy", "nbgrader.api", "typer", "rich"}


def test_what_judges_and_workers_are_forked_from_loads_nothing_that_only_the_command_needs():
    imports = "\n".join(f"import torchkata.tools.grading.{name}" for name in FORKED_FROM)
    loaded = said_by(f"import sys\n{imports}\nprint(*sys.modules)").split()
    assert {"torch", "torch._dynamo"} <= {*loaded} and not FOR_THE_COMMAND & set(loaded)
