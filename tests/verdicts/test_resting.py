"""What a kernel loads while no cell runs: for somebody who looks, and what the chapter's first cell asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.verdicts.test_cards import Notebook
from torchkata.verdicts import resting

PATIENCE = 120


class Kernel:
    """A kernel whose first cell has imported `check`, and what it has loaded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.looks = True
        self.names: dict[str, object] = {"check": 1}
        self._after: list[Callable[[], None]] = []
        self.shell = SimpleNamespace(
            events=SimpleNamespace(register=lambda event, call: self._after.append(call)), user_ns=self.names
        )

    def run_cells(self, *pauses: float) -> None:
        """End a cell before each of these pauses, in seconds."""

        async def run() -> None:
            for pause in pauses:
                for call in self._after:
                    call()
                await asyncio.sleep(pause)

        asyncio.run(run())


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    one = Kernel()
    monkeypatch.setattr(resting, "shell_here", lambda: one.shell)
    monkeypatch.setattr(resting, "somebody_looks", lambda: one.looks)
    monkeypatch.setattr(resting, "REST", 0.05)
    steps = {"run_on_ranks": lambda: one.loaded.append("ranks"), "check": lambda: one.loaded.append("compiler")}
    monkeypatch.setattr(resting, "_STEPS", steps)
    resting.load_at_rest()
    return one


def test_it_loads_what_the_first_cell_asks_for(kernel: Kernel):
    kernel.run_cells(1)
    assert kernel.loaded == ["compiler"]
    kernel.names["run_on_ranks"] = 1
    kernel.run_cells(1)
    assert kernel.loaded == ["compiler", "ranks", "compiler"]


def test_who_runs_one_cell_after_another_waits_for_nothing(kernel: Kernel):
    kernel.run_cells(0, 0, 0)
    assert not kernel.loaded
    kernel.run_cells(0, 0, 1)
    assert kernel.loaded == ["compiler"]


def test_nothing_is_loaded_for_a_tool(kernel: Kernel):
    kernel.looks = False
    kernel.run_cells(1)
    assert not kernel.loaded


def test_what_fails_is_left_to_the_check(kernel: Kernel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(resting._STEPS, "run_on_ranks", lambda: kernel.loaded.append(1 / 0))
    kernel.names["run_on_ranks"] = 1
    kernel.run_cells(1)
    assert kernel.loaded == ["compiler"]


def test_a_kernel_does_it_by_itself(tmp_path: Path):
    notebook = Notebook(tmp_path)
    try:
        source = (
            "from pathlib import Path\nfrom torchkata.verdicts import check, resting\n"
            "resting._STEPS['check'] = Path('rested').touch"
        )
        assert notebook.run(source) == []
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "rested").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert (tmp_path / "rested").exists()
    finally:
        notebook.client.stop_channels()
        notebook.manager.shutdown_kernel(now=True)
