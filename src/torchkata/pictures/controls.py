"""The controls of the explorers: what each may say, what it says at first, and what moves with it.

A control knows nothing of pages or widgets: explorer.js makes the native one for its kind. On the way there and back
a choice or a slider is the number of its value, a switch 0 or 1, a step its number, and a field its text.
`resets` says what others are set to whenever a control is moved; a choice's `sets` does so for each of its options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = Any  # of a control: whatever it stands for
Code = int | str  # the same on the way to the page

CHOICE, SLIDER, SWITCH, STEPS, FIELD = "choice", "slider", "switch", "steps", "field"


@dataclass(frozen=True)
class Control:
    """A control as the functions below make it.

    values: what it may say, one for each of `shown`; a field says any text and has none. start: what it says at first.
    """

    kind: str
    label: str
    start: Value
    values: Sequence[Value] = ()
    shown: Sequence[str] = ()
    about: str = ""
    wide: bool = False
    rows: int = 1
    if_empty: str = ""
    resets: Mapping[str, Value] = field(default_factory=dict)
    sets: Mapping[Value, Mapping[str, Value]] = field(default_factory=dict)
    buttons: Mapping[str, str] = field(default_factory=dict)

    def code(self, value: Value) -> Code:
        """The value as the page knows it; ValueError if the control can't say it."""
        if self.kind == FIELD:
            return str(value)
        for place, known in enumerate(self.values):
            if known is value or known == value:
                return place
        raise ValueError(f"{self.label}: {value!r} is none of {', '.join(map(str, self.shown))}.")

    def value(self, code: Code) -> Value:
        """What a code of the page stands for; ValueError for one that stands for nothing."""
        if self.kind == FIELD:
            return str(code)
        if not isinstance(code, int) or not 0 <= code < len(self.values):
            raise ValueError(f"{self.label}: there is no value number {code!r}.")
        return self.values[code]

    def nearest(self, value: Value, most: int) -> Value:
        """The value itself, or the last that is allowed where only the first `most` + 1 are."""
        return value if int(self.code(value)) <= most else self.values[most]


def choice(
    label: str,
    options: Iterable[Any],
    value: Value = None,
    about: str = "",
    wide: bool = False,
    resets: Mapping[str, Value] | None = None,
    sets: Mapping[Value, Mapping[str, Value]] | None = None,
) -> Control:
    """A list to choose from: values, or (label, value); `value` is what is chosen at the start, else the first."""
    pairs = [option if isinstance(option, tuple) else (str(option), option) for option in options]
    values = [one for _, one in pairs]
    start = values[0] if value is None else value
    return _checked(
        Control(CHOICE, label, start, values, [name for name, _ in pairs], about, wide, 1, "", resets or {}, sets or {})
    )


def slider(
    label: str,
    value: int,
    low: int,
    high: int,
    step: int = 1,
    about: str = "",
    resets: Mapping[str, Value] | None = None,
) -> Control:
    """A whole number between two, both allowed."""
    return notched_slider(label, range(low, high + 1, step), value, about, resets)


def decimal_slider(label: str, value: float, low: float, high: float, step: float, about: str = "") -> Control:
    """A number between two, in steps."""
    digits = len(f"{step:g}".partition(".")[2])
    values = [round(low + step * k, 9) for k in range(round((high - low) / step) + 1)]
    return _checked(Control(SLIDER, label, value, values, [f"{one:.{digits}f}" for one in values], about))


def notched_slider(
    label: str, options: Iterable[Any], value: Value, about: str = "", resets: Mapping[str, Value] | None = None
) -> Control:
    """A slider over values that need not be equally far apart."""
    values = list(options)
    return _checked(Control(SLIDER, label, value, values, [f"{one}" for one in values], about, resets=resets or {}))


def text_field(
    label: str,
    text: str = "",
    if_empty: str = "",
    about: str = "",
    wide: bool = False,
    rows: int = 1,
    resets: Mapping[str, Value] | None = None,
) -> Control:
    """Something to write, read at Enter or when it is left; `if_empty` is shown in it while nothing is written."""
    return Control(FIELD, label, text, about=about, wide=wide, rows=rows, if_empty=if_empty, resets=resets or {})


def switch(label: str, on: bool, about: str = "", resets: Mapping[str, Value] | None = None) -> Control:
    """Something that is on or off."""
    return Control(SWITCH, label, on, (False, True), ("off", "on"), about, resets=resets or {})


def steps(
    label: str,
    start: int,
    most: int,
    back: str = "back",
    on: str = "step",
    end: str = "",
    anew: str = "start over",
    resets: Mapping[str, Value] | None = None,
) -> Control:
    """A number of steps done, from 0 to `most`, moved by buttons: one back, one on, to the end, to the beginning.

    A button without a name is left out. What an explorer's `limits` says may be less than `most`.
    """
    buttons = {"back": back, "on": on, "end": end, "anew": anew}
    values = range(most + 1)
    named = {what: name for what, name in buttons.items() if name}
    shown = [str(one) for one in values]
    return _checked(Control(STEPS, label, start, values, shown, buttons=named, resets=resets or {}))


def _checked(control: Control) -> Control:
    control.code(control.start)
    return control
