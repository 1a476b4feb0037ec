"""The Pythons that the course is declared for: what of them is on this machine reads the sources, tells a cell's names
alike, and starts processes as chapters 10 and 11 say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests import ROOT

NEWEST = "3.14"
LOOK = """
import json, multiprocessing, pathlib, sys, warnings
warnings.simplefilter("error")
files = [file for name in ("src", "solutions") for file in pathlib.Path(name).rglob("*.py")]
for file in files:
    compile(file.read_text(encoding="utf-8"), str(file), "exec")
sys.path.insert(0, "src")
from torchkata.base.names import names_of
names = names_of("a: int = 1; b = [c for c in d]; {e: f for e, f in d}; {g for g in d}; await d")
assert (names.binds, names.reads, names.known) == ({"a", "b"}, {"int", "d"}, True), names
print(json.dumps([len(files), sys.version_info[:2], sys.platform, multiprocessing.get_start_method()]))
"""


def need(version: str) -> str:
    """The interpreter of this version."""
    found = shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"there is no python{version} on this machine")
    return found


def test_the_newest_python_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name]
    assert declared[0] == project["requires-python"].removeprefix(">=") and declared[-1] == NEWEST
    minor = [int(version.removeprefix("3.")) for version in declared]
    assert minor == list(range(minor[0], minor[-1] + 1))


@pytest.mark.parametrize("version", ["this one", NEWEST])
def test_a_python_reads_the_sources_and_starts_processes_as_the_chapters_say(version: str):
    python = sys.executable if version == "this one" else need(version)
    done = subprocess.run([python, "-X", "utf8", "-c", LOOK], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, found, platform, method = json.loads(done.stdout)
    assert count > 400
    says = "spawn" if platform in ("darwin", "win32") else "forkserver" if found >= [3, 14] else "fork"
    assert method == says
