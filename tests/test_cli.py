"""What takes seconds to load is loaded only where it is needed."""

import subprocess
import sys

import pytest

from tests import ROOT

SLOW = ("torch", "lark", "matplotlib")


def loaded_by(statements: str) -> set[str]:
    """Which of the slow modules a fresh process has loaded after these statements."""
    code = f"{statements}; import sys; print(*[name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statements",
    [
        "import torchkata.cli",
        "import torchkata.tools.course, nbformat",
        "import torchkata.tools.learning.checking, torchkata.tools.learning.progress",
        "from torchkata.tools.release import course_config; from pathlib import Path; course_config(Path())",
    ],
)
def test_a_command_starts_without(statements):
    assert loaded_by(statements) == set()


def test_what_is_slow_is_noticed():
    assert "torch" in loaded_by("import torch")
