"""A picture with controls: a pure function from what the controls say to a picture, drawn ahead where that is possible.

The page gets the pictures of many states at once and shows them without asking (explorer.js). Where a learner writes a
text of their own, or the states are too many, the page asks Python (bridge.py), as long as there is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch

from torchkata.pictures.controls import FIELD, Code, Control, Value
from torchkata.pictures.packing import Frame, pack
from torchkata.pictures.show import Picture, display

State = Mapping[str, Value]  # what each control says, by its name
MOST_AHEAD = 1500  # pictures that are drawn before they are asked for


class Explorer:
    """An interactive picture; as the last line of a cell it shows itself.

    controls: by name. rows: the names in the rows in which they stand.
    draw: the picture of a state; the same state gives the same picture, whatever was drawn before.
    limits: for a state, how far some controls go in it: the number of the last value that is allowed.
    ahead: what is drawn before it is asked for: blocks of {name: values}, each for all combinations, set one after
    the other in the block's order on top of the start. None: all values of all controls but fields.
    """

    def __init__(
        self,
        controls: Mapping[str, Control],
        rows: Sequence[Sequence[str]],
        draw: Callable[[State], Picture],
        limits: Callable[[State], Mapping[str, int]] | None = None,
        ahead: Sequence[Mapping[str, Iterable[Value]]] | None = None,
    ):
        self.controls, self.rows = dict(controls), rows
        self._draw, self._limits, self._ahead = draw, limits or (lambda state: {}), ahead
        self.start: State = self._within({name: control.start for name, control in self.controls.items()})

    def moved(self, state: State, name: str, value: Value) -> State:
        """The state after somebody moved one control; ValueError if it can't say that."""
        control = self.controls[name]
        changes = {name: control.value(control.code(value)), **control.resets, **control.sets.get(value, {})}
        return self._within({**state, **changes})

    def after(self, **moves: Value) -> State:
        """The state after these moves, one after another, from the start; _ in a name stands for a blank."""
        state = self.start
        for name, value in moves.items():
            state = self.moved(state, name.replace("_", " "), value)
        return state

    def picture(self, state: State | None = None) -> Picture:
        """The picture of a state; without one, that which is shown first."""
        return self._draw(self.start if state is None else state)

    @property
    def svg(self) -> str:
        return self.picture().svg

    @property
    def alt(self) -> str:
        return self.picture().alt

    def frame(self, state: State) -> Frame:
        """What the page needs to show a state."""
        with _one_thread():
            picture, limits = self._draw(state), self._limits(state)
        numbers = {number: limits[name] for number, name in enumerate(self.controls) if name in limits}
        return Frame(picture.svg, picture.alt, numbers)

    def frames(self) -> dict[str, Frame]:
        """The frames that are drawn ahead, by key; the first is the start's."""
        found = {self.key(self.start): self.frame(self.start)}
        for state in self._states():
            if len(found) == MOST_AHEAD:
                break
            if (key := self.key(state)) not in found:
                found[key] = self.frame(state)
        return found

    def key(self, state: State) -> str:
        """A state's name on the page: the codes of its controls, in their order."""
        codes = [control.code(state[name]) for name, control in self.controls.items()]
        return json.dumps(codes, ensure_ascii=False, separators=(",", ":"))

    def state_of(self, codes: Sequence[Code]) -> State:
        """The state that a page names; ValueError for codes that name none."""
        values = (control.value(code) for control, code in zip(self.controls.values(), codes, strict=True))
        return self._within(dict(zip(self.controls, values, strict=True)))

    def spec(self) -> dict[str, Any]:
        """What the page has to know of the controls, as JSON."""
        number = {name: place for place, name in enumerate(self.controls)}
        start = [control.code(self.start[name]) for name, control in self.controls.items()]
        return {
            "controls": [self._told(control, number) for control in self.controls.values()],
            "rows": [[number[name] for name in row] for row in self.rows],
            "start": start,
        }

    def _told(self, control: Control, number: Mapping[str, int]) -> dict[str, Any]:
        def coded(values: Mapping[str, Value]) -> dict[int, Code]:
            return {number[name]: self.controls[name].code(value) for name, value in values.items()}

        told: dict[str, Any] = {"kind": control.kind, "label": control.label, "about": control.about}
        told |= {"shown": list(control.shown)} if control.kind != FIELD else {"rows": control.rows}
        optional = {"wide": control.wide, "empty": control.if_empty, "buttons": dict(control.buttons)}
        optional |= {"resets": coded(control.resets)}
        optional |= {"sets": {control.code(value): coded(others) for value, others in control.sets.items()}}
        return told | {name: value for name, value in optional.items() if value}

    def _within(self, state: dict[str, Value]) -> State:
        limits = self._limits(state)
        return {
            name: self.controls[name].nearest(v, limits[name]) if name in limits else v for name, v in state.items()
        }

    def _states(self) -> Iterator[State]:
        everything = {name: control.values for name, control in self.controls.items() if control.kind != FIELD}
        for block in [everything] if self._ahead is None else self._ahead:
            for values in product(*block.values()):
                state = self.start
                for name, value in zip(block, values, strict=True):
                    state = self.moved(state, name, value)
                yield state

    def _is_all_at_hand(self, frames: Mapping[str, Frame]) -> bool:
        return self._ahead is None and len(frames) < MOST_AHEAD and all(c.kind != FIELD for c in self.controls.values())

    def _ipython_display_(self) -> None:
        frames = self.frames()
        first = next(iter(frames.values()))
        identity = display(first.svg, first.words, pack(frames, self.spec()))
        if identity and not self._is_all_at_hand(frames):
            from torchkata.pictures.bridge import answer

            answer(identity, lambda codes: self.frame(self.state_of(codes)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Pictures compute with a few numbers at a time: sharing these out among threads costs more than it saves."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
