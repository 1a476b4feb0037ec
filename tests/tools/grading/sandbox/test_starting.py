"""What is loaded before the first submission: all that a chapter's answers and checks load, and nothing that takes
long and that they don't."""

from __future__ import annotations

import pytest

from tests.fresh_process import said_by

FOR_THE_COMMAND = {"nbformat", "jsonschema", "IPython", "sqlalchemy", "nbgrader.api", "typer", "rich"}


def loaded_by(module: str) -> set[str]:
    return set(said_by(f"import sys, torchkata.tools.grading.{module}\nprint(*sys.modules)").split())


@pytest.mark.parametrize("module", ["preload", "sandbox.inside.zygote", "sandbox.inside.worker"])
def test_what_judges_and_workers_are_forked_from_loads_nothing_that_only_the_command_needs(module: str):
    """Workers need IPython: cells find a notebook's shell."""
    needed = {"IPython"} if module == "sandbox.inside.worker" else set()
    assert FOR_THE_COMMAND & loaded_by(module) == needed


def test_judges_are_forked_from_what_has_loaded_torch_and_not_its_compiler():
    """A judge that needs it loads it once, for all submissions that it judges."""
    loaded = loaded_by("preload")
    assert "torch" in loaded and "torch._dynamo" not in loaded
