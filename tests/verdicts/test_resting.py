"""What a kernel loads while no cell runs: for somebody who looks, step by step, and never twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.verdicts.test_cards import Notebook
from torchkata.verdicts import resting

PATIENCE = 120


class Loop:
    """A kernel's loop, whose time goes on when a test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self.calls.append(call)
        return call

    def remove_timeout(self, call: Callable[[], None]) -> None:
        self.calls.remove(call)

    def rest(self) -> None:
        while self.calls:
            self.calls.pop(0)()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A kernel whose first cell has imported `check`; what it has loaded, and how to end a cell."""
    loaded: list[str] = []
    one = SimpleNamespace(loop=Loop(), loaded=loaded, looks=True, end_cell=None)
    events = SimpleNamespace(register=lambda event, function: setattr(one, "end_cell", function))
    one.user_ns = {"check": 1}
    shell = SimpleNamespace(kernel=SimpleNamespace(io_loop=one.loop), events=events, user_ns=one.user_ns)
    monkeypatch.setattr(resting, "shell_here", lambda: shell)
    monkeypatch.setattr(resting, "somebody_looks", lambda: one.looks)
    monkeypatch.setattr(resting, "import_module", loaded.append)
    steps = {"check": ("first", "second"), "run_on_ranks": (lambda: loaded.append("ranks"),)}
    monkeypatch.setattr(resting, "_STEPS", steps)
    resting.load_at_rest()
    return one


def test_it_loads_what_the_first_cell_asks_for_once_and_only_at_rest(kernel):
    assert not kernel.loop.calls
    kernel.end_cell()
    kernel.end_cell()
    assert len(kernel.loop.calls) == 1 and not kernel.loaded, "who runs one cell after another waits for nothing"
    kernel.loop.rest()
    assert kernel.loaded == ["first", "second"]
    kernel.user_ns["run_on_ranks"] = 1
    kernel.end_cell()
    kernel.loop.rest()
    assert kernel.loaded == ["first", "second", "ranks"]


def test_a_cell_that_comes_between_two_steps_puts_off_the_second(kernel):
    kernel.end_cell()
    kernel.loop.calls.pop()()
    assert kernel.loaded == ["first"] and len(kernel.loop.calls) == 1
    kernel.end_cell()
    assert kernel.loaded == ["first"] and len(kernel.loop.calls) == 1


def test_nothing_is_loaded_for_a_tool_and_what_fails_is_left_to_the_check(kernel, monkeypatch):
    kernel.looks = False
    kernel.end_cell()
    assert not kernel.loop.calls
    kernel.looks = True
    monkeypatch.setattr(resting, "import_module", lambda name: kernel.loaded.append(1 / 0))
    kernel.user_ns["run_on_ranks"] = 1
    kernel.end_cell()
    kernel.loop.rest()
    assert kernel.loaded == ["ranks"]


def test_a_kernel_does_it_by_itself(tmp_path: Path):
    notebook = Notebook(tmp_path)
    try:
        source = (
            "from pathlib import Path\nfrom torchkata.verdicts import check, resting\n"
            "resting._STEPS['check'] = (Path('rested').touch,)"
        )
        assert notebook.run(source) == []
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "rested").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert (tmp_path / "rested").exists()
    finally:
        notebook.client.stop_channels()
        notebook.manager.shutdown_kernel(now=True)
