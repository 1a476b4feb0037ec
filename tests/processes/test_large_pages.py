"""The memory that ranks share lies in large pages, where the system can do that; elsewhere nothing happens."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from torchkata.processes import large_pages

MAPS = """\
10000000-10400000 r-xp 00000000 08:01 77 /usr/lib/libtorch.so
20000000-20400000 rw-p 00000000 08:01 77 /usr/lib/libtorch.so
30000000-30400000 rw-p 00000000 00:00 0                                  [heap]
40000000-40001000 rw-p 00000000 00:00 0
50000000-50400000 ---p 00000000 00:00 0
60000000-60200000 rw-p 00000000 00:00 0
70000000-70400000 rw-s 00000000 00:00 0
"""


def test_memory_of_its_own_is_found_by_what_the_kernel_tells(tmp_path: Path):
    (tmp_path / "maps").write_text(MAPS, encoding="utf-8")
    assert list(large_pages._own_memory(tmp_path / "maps")) == [(0x30000000, 0x30400000), (0x60000000, 0x60200000)]
    assert list(large_pages._own_memory(tmp_path / "no such file")) == []


def test_where_the_system_has_no_such_call_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    large_pages.use_large_pages()


def _has_large_pages() -> bool:
    version, enabled = platform.release().split("."), Path("/sys/kernel/mm/transparent_hugepage/enabled")
    is_new = sys.platform == "linux" and tuple(int(part) for part in version[:2]) >= (6, 1)
    return is_new and enabled.exists() and "[never]" not in enabled.read_text(encoding="utf-8")


PROGRAM = """
from pathlib import Path
from torchkata.processes.large_pages import use_large_pages

def large():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))

numbers, before = [str(k) for k in range(400_000)], large()
use_large_pages()
print(large() > before, numbers == [str(k) for k in range(400_000)])
"""


@pytest.mark.skipif(not _has_large_pages(), reason="Linux has the call since 6.1, and may have no large pages")
def test_what_lies_there_stays_and_lies_in_large_pages():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("True True\n", "")
