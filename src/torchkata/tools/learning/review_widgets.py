"""The widgets of the review page: buttons and lists that have names for screen readers and keep their keys."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchkata.pictures.page import keys_script

if TYPE_CHECKING:
    from ipywidgets import Button, Dropdown, Output

SCRIPT = Path(__file__).with_name("review_widgets.js")


def choice(label: str, options: Iterable[Any], value: Any) -> Dropdown:
    """A list to choose from; `value` is what is chosen at the start."""
    from ipywidgets import Dropdown, Layout

    layout = Layout(width="324px", max_width="100%")
    style = {"description_width": "124px"}
    return Dropdown(options=list(options), value=value, description=label, tooltip=label, style=style, layout=layout)


def button(label: str, about: str) -> Button:
    """Something to press; `about` is shown when the mouse rests on it."""
    from ipywidgets import Button, Layout

    return Button(
        description=label, tooltip=about, layout=Layout(width="auto", min_width="150px", align_self="flex-start")
    )


def helper() -> Output:
    """An invisible widget that tells the browser what ipywidgets leaves out, for the page that it is part of.

    The page's words as a live region, and keys that stay with a control that has the focus. Where scripts don't run
    nothing else is lost.
    """
    from ipywidgets import Layout, Output

    script = {"application/javascript": f"{keys_script()}\n{SCRIPT.read_text(encoding='utf-8')}"}
    output = {"output_type": "display_data", "data": script, "metadata": {}}
    return Output(outputs=(output,), layout=Layout(display="none"))
