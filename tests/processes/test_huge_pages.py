"""Memory in huge pages: forks are cheaper, and nobody notices otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from torchkata import huge_pages

LINUX = tuple(map(int, os.uname().release.split(".")[:2])) if sys.platform == "linux" else (0, 0)
needs_linux = pytest.mark.skipif(LINUX < (6, 1), reason="MADV_COLLAPSE needs Linux 6.1")

PROGRAM = """
import os
import torch
from torchkata.huge_pages import gather_pages

def huge():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("AnonHugePages")) // 1024

parts = [torch.full((1000,), float(n)) for n in range(3000)]
gather_pages()
print(huge())
child = os.fork()
if child == 0:
    for part in parts:
        part += 1
    print(sum(int(part[-1]) for part in parts), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(sum(int(part[-1]) for part in parts))
"""


@needs_linux
def test_pages_become_huge_and_a_child_writes_into_its_own():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    of_child, of_parent = sum(range(1, 3001)), sum(range(3000))
    assert int(told[0]) > 20, "MiB in huge pages"
    assert list(map(int, told[1:])) == [of_child, of_parent]


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(huge_pages, "_own_memory", None)  # would be called
    huge_pages.gather_pages()


def test_where_memory_can_not_be_looked_at_all_stays_as_it_is(monkeypatch: pytest.MonkeyPatch):
    def refuse():
        raise PermissionError

    monkeypatch.setattr(huge_pages, "_own_memory", refuse)
    huge_pages.gather_pages()
