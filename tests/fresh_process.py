"""What a process of its own says, which has loaded nothing that this one has."""

from __future__ import annotations

import subprocess
import sys


def said_by(code: str) -> str:
    """The output of some lines of Python. AssertionError, with what it complained of, where they fail."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
