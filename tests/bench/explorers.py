"""How fast the explorers are, in a real browser: prints figures, asserts nothing. Run it with `make bench`.

Method. JupyterLab serves a copy of the course; Chromium shows the gallery, without a window. Each explorer is moved
around at random, but the same way each time: a control is set and says so, as after a key or the mouse. Times are
measured in the page. Where no other program runs they are those of the explorers; p95 is the 95th percentile.

- script: a move whose frame is at hand, until the explorer's script has done with it.
- paint: the same until the browser has styled, laid out and painted what is new; the move begins with a frame of the
  screen, so that no waiting for the next one is in it.
- Python: a move whose frame is not at hand, until the picture that Python drew is in the page.
"""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from tests.browser.learners_lab import copy_of_course, learners_lab
from tests.browser.notebook_page import PATIENCE, NotebookPage, sync_playwright
from tests.notebooks.test_gallery import NAMES, build
from torchkata.pictures.controls import FIELD, STEPS
from torchkata.pictures.explorer import Explorer, State

if TYPE_CHECKING:
    from playwright.sync_api import Locator

MOVES, QUESTIONS = 60, 20
LIMITS = {"script": 5, "paint": 20, "Python": 100}  # milliseconds that p95 may take on a machine that is not busy
# how a page sets a control: the place of its node in the panel, and a code
SET = """const nodes = explorer.querySelectorAll('.tk-panel :is(select, input, textarea, .tk-steps)');
    const set = ([place, code, button]) => {
        const node = nodes[place];
        if (button !== null) return node.querySelectorAll('button')[button].click();
        if (node.type === 'checkbox') return node.click();
        node.value = code;
        node.dispatchEvent(new Event(node.type === 'range' ? 'input' : 'change'));
    };"""
AT_HAND = f"""async (explorer, moves) => {{
    {SET}
    const times = {{script: [], paint: []}};
    for (const move of moves) await new Promise((next) => requestAnimationFrame(() => {{
        const began = performance.now();
        set(move);
        times.script.push(performance.now() - began);
        const painted = new MessageChannel(); // its message comes after the frame that is being made
        painted.port1.onmessage = () => {{ times.paint.push(performance.now() - began); next(); }};
        painted.port2.postMessage(null);
    }}));
    return times;
}}"""
ASKED = f"""async (explorer, moves) => {{
    {SET}
    const times = [];
    for (const move of moves) await new Promise((next) => {{
        const began = performance.now();
        const end = () => {{ seen.disconnect(); clearTimeout(clock); next(); }};
        const seen = new MutationObserver(() => {{ times.push(performance.now() - began); end(); }});
        const clock = setTimeout(end, 3000); // an error that is told twice changes nothing on the page
        for (const told of ['.tk-stage', '.tk-note']) seen.observe(explorer.querySelector(told), {{childList: true}});
        set(move);
    }});
    return times;
}}"""
Move = tuple[int, Any, int | None]  # the place of a control on the page, its code, and of steps the button


class Walk:
    """A way through the states of an explorer; `state` is where it stands."""

    def __init__(self, explorer: Explorer):
        self.explorer, self.state = explorer, explorer.start
        self.known = explorer.frames()
        names = list(explorer.controls)
        self.places = {name: place for place, name in enumerate(name for row in explorer.rows for name in row)}
        assert sorted(self.places) == sorted(names)
        self.chance = random.Random(0)

    def moves(self, count: int, at_hand: bool) -> list[Move]:
        """Up to `count` moves to states that are drawn ahead, or to others."""
        found = []
        for _ in range(count):
            choices = list(self._choices(at_hand))
            if not choices:
                break
            state, move = self.chance.choice(choices)
            self.state = state
            found.append(move)
        return found

    def _choices(self, at_hand: bool) -> Iterator[tuple[State, Move]]:
        for name, control in self.explorer.controls.items():
            values = [f"{self.state[name]} "] if control.kind == FIELD else control.values
            for value in values:
                button = self._button(name, value) if control.kind == STEPS else None
                if value == self.state[name] or (control.kind == STEPS and button is None):
                    continue
                state = self.explorer.moved(self.state, name, value)
                if state[name] == value and (self.explorer.key(state) in self.known) == at_hand:
                    yield state, (self.places[name], control.code(value), button)

    def _button(self, name: str, value: int) -> int | None:
        """Which button of a control that counts steps leads to a value, or None."""
        steps = {"back": self.state[name] - 1, "on": self.state[name] + 1, "anew": 0}
        buttons = list(self.explorer.controls[name].buttons)
        return next((buttons.index(what) for what, to in steps.items() if what in buttons and to == value), None)


def times_of(explorer: Explorer, shown: Locator) -> dict[str, list[float]]:
    """Milliseconds of the moves at hand and of those that Python draws, for an explorer on a page."""
    walk = Walk(explorer)
    moves = walk.moves(MOVES, at_hand=True)
    times = shown.evaluate(AT_HAND, moves) if moves else {}
    questions = walk.moves(QUESTIONS, at_hand=False)
    return times | {"Python": shown.evaluate(ASKED, questions) if questions else []}


def gallery_times(notebook: NotebookPage) -> dict[str, dict[str, list[float]]]:
    """The times of each explorer of the gallery, by its name."""
    notebook.run_all()
    cells = [cell for cell in notebook.cells() if cell.kind == "code"]
    places = {name: next(cell.index for cell in cells if f"{name}(" in cell.source) for name in NAMES}
    return {name: times_of(build(name), notebook.explorer(place)) for name, place in places.items()}


def table_of(times: dict[str, dict[str, list[float]]]) -> Table:
    """p50 and p95 of each explorer, and of all together."""
    table = Table("explorer", *(f"{what}, at most {limit} ms" for what, limit in LIMITS.items()))
    for name, measured in times.items():
        table.add_row(name, *(_spread(measured.get(what, []), LIMITS[what]) for what in LIMITS))
    table.add_section()
    together = ([time for one in times.values() for time in one.get(what, [])] for what in LIMITS)
    table.add_row(
        "all", *(_spread(all_times, limit) for all_times, limit in zip(together, LIMITS.values(), strict=True))
    )
    return table


def _spread(times: list[float], limit: float) -> str:
    if len(times) < 2:
        return "-"
    p95 = statistics.quantiles(times, n=20)[-1]
    told = f"{statistics.median(times):.1f}, p95 {p95:.1f} ({len(times)})"
    return f"[bold]{told} too slow[/bold]" if p95 > limit else told


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        course, own = (Path(name) / folder for folder in ("course", "own"))
        course.mkdir()
        own.mkdir()
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        with learners_lab(copy_of_course(course), own) as lab:
            Console().print(table_of(gallery_times(NotebookPage(page, lab, "gallery.ipynb"))))
            lab.end_kernels()


if __name__ == "__main__":
    main()
