"""The controls of the explorers: one kind for one kind of thing, with the same look, a label and a tooltip each.

Lists, sliders and fields stand in boxes of one width, their labels in one column; switches and buttons are as wide as
their rows need. What `about` says is shown when the mouse rests on the control; left out, it is the label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import (
        BoundedIntText,
        Button,
        Checkbox,
        Dropdown,
        FloatSlider,
        IntSlider,
        Output,
        SelectionSlider,
        Text,
        Textarea,
        Widget,
    )

LABEL, BOX, WIDE, SWITCH, BUTTON = "124px", "324px", "652px", "205px", "150px"
SCRIPT = Path(__file__).with_name("widgets.js")


def choice(label: str, options: Iterable[Any], value: Any = None, about: str = "", wide: bool = False) -> Dropdown:
    """A list to choose from; `value` is what is chosen at the start, else the first."""
    from ipywidgets import Dropdown

    options = list(options)
    return Dropdown(options=options, value=options[0] if value is None else value, **_boxed(label, about, wide))


def slider(label: str, value: int, low: int, high: int, step: int = 1, about: str = "") -> IntSlider:
    """A whole number between two."""
    from ipywidgets import IntSlider

    return IntSlider(value, low, high, step, **_boxed(label, about))


def decimal_slider(label: str, value: float, low: float, high: float, step: float, about: str = "") -> FloatSlider:
    """A number between two, in steps."""
    from ipywidgets import FloatSlider

    return FloatSlider(value, min=low, max=high, step=step, **_boxed(label, about))


def notched_slider(label: str, options: Iterable[Any], value: Any, about: str = "") -> SelectionSlider:
    """A slider over values that are not equally far apart."""
    from ipywidgets import SelectionSlider

    return SelectionSlider(options=list(options), value=value, **_boxed(label, about))


def number_field(label: str, value: int, low: int, high: int, about: str = "") -> BoundedIntText:
    """A field for a whole number between two."""
    from ipywidgets import BoundedIntText

    return BoundedIntText(value, min=low, max=high, **_boxed(label, about))


def field(label: str, text: str = "", if_empty: str = "", about: str = "", wide: bool = False) -> Text:
    """A line to write in, read at Enter or when it is left; `if_empty` is shown in it while nothing is written."""
    from ipywidgets import Text

    return Text(text, placeholder=if_empty, continuous_update=False, **_boxed(label, about, wide))


def lines(label: str, text: str, rows: int, about: str = "") -> Textarea:
    """Some lines to write in, read when they are left."""
    from ipywidgets import Textarea

    return Textarea(text, rows=rows, continuous_update=False, **_boxed(label, about, wide=True))


def switch(label: str, on: bool, about: str = "") -> Checkbox:
    """Something that is on or off."""
    from ipywidgets import Checkbox, Layout

    return Checkbox(on, description=label, indent=False, tooltip=about or label, layout=Layout(width=SWITCH))


def button(label: str, about: str) -> Button:
    """Something to press. Buttons stand in the last row, right above the picture; what starts anew is the last."""
    from ipywidgets import Button, Layout

    return Button(description=label, tooltip=about, layout=Layout(width="auto", min_width=BUTTON))


def on_change(controls: Iterable[Widget], do: Callable[[], None]) -> None:
    """Call `do` whenever the value of one of the controls changes."""
    for control in controls:
        control.observe(lambda change: do(), "value")


def helper() -> Output:
    """An invisible widget that tells the browser what ipywidgets leaves out, for the explorer that it is part of.

    Names for sliders, the picture's words as a live region, and keys that stay with a control that has the focus.
    Where scripts don't run nothing else is lost.
    """
    from ipywidgets import Layout, Output

    script = {"application/javascript": SCRIPT.read_text(encoding="utf-8")}
    output = {"output_type": "display_data", "data": script, "metadata": {}}
    return Output(outputs=(output,), layout=Layout(display="none"))


def _boxed(label: str, about: str, wide: bool = False) -> dict[str, Any]:
    from ipywidgets import Layout

    layout = Layout(width=WIDE if wide else BOX, max_width="100%")
    return {
        "description": label,
        "tooltip": about or label,
        "style": {"description_width": LABEL},
        "layout": layout,
    }
