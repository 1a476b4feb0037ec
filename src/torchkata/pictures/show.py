"""How a picture or an explorer reaches the notebook: as deterministic SVG, with the same in words."""

from __future__ import annotations

import base64
import gc
import html
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import Widget
    from matplotlib.figure import Figure

SVG = "image/svg+xml"
WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Picture:
    """A drawn figure and the same in words; as the last line of a cell it shows itself."""

    figure: Figure
    alt: str

    @property
    def svg(self) -> str:
        return svg_of(self.figure)

    def _ipython_display_(self) -> None:
        show(self.figure, self.alt)


class Explorer:
    """An interactive picture; as the last line of a cell it shows itself.

    controls: its widgets by name. rows: the names in the rows in which they stand.
    draw: returns the picture of what the controls say now. `svg` and `alt` are the picture that is shown.
    """

    def __init__(self, controls: dict[str, Widget], rows: Sequence[Sequence[str]], draw: Callable[[], Picture]):
        from ipywidgets import HTML, HBox, Layout, VBox

        from torchkata.pictures.controls import helper

        self.controls, self._draw = controls, draw
        self.image, self.words = HTML(), HTML()
        self.words.add_class("torchkata-words")
        wrapping = Layout(flex_flow="row wrap")
        boxes = [HBox([controls[name] for name in row], layout=wrapping) for row in rows]
        self.widget = VBox([*boxes, self.image, self.words, helper()])
        self.widget.add_class("torchkata-explorer")
        self.refresh()

    def following(self, *names: str) -> Explorer:
        """Draw again whenever one of these controls changes, or any where none is named; returns the explorer."""
        from torchkata.pictures.controls import on_change

        on_change([self.controls[name] for name in names or self.controls], self.refresh)
        return self

    def refresh(self) -> None:
        """Draw again, as picture and in words."""
        with _collecting_young_garbage():
            self.svg, self.alt = self._drawn()
        self.image.value = image_html(self.svg, self.alt)
        self.words.value = html.escape(self.alt)

    def _drawn(self) -> tuple[str, str]:
        picture = self._draw()
        return picture.svg, picture.alt

    def _ipython_display_(self) -> None:
        picture = self._draw()
        explore(self.widget, picture.figure, picture.alt)


def show(figure: Figure, alt: str) -> None:
    """Display the figure as SVG with `alt` as its alternative text, and the words one click below it.

    Outside of IPython it prints the words.
    """
    _display({SVG: svg_of(figure), "text/plain": alt}, {SVG: {"alt": alt}})
    _display_words("This picture in words", alt)


def show_growing(draw: Callable[[], Picture], place: str, first: bool, last: bool) -> None:
    """Display what `draw` gives in one place of the notebook, over what stood there; the words come with the last.

    Outside of IPython only the last is drawn, and its words are printed.
    """
    if not (last or _in_ipython()):
        return
    picture = draw()
    bundle = {SVG: picture.svg, "text/plain": picture.alt}
    _display(bundle, {SVG: {"alt": picture.alt}}, display_id=place, update=not first)
    if last:
        _display_words("This picture in words", picture.alt)


def explore(widget: Widget, figure: Figure, alt: str) -> None:
    """Display the widget where widgets live; a static page shows the figure in its place."""
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    _display({WIDGET: view, SVG: svg_of(figure), "text/plain": alt}, {SVG: {"alt": alt}})
    _display_words("The starting picture in words", alt)


def svg_of(figure: Figure) -> str:
    """Return the figure as one <svg> element: the same figure gives the same text on every machine."""
    from matplotlib import rc_context

    from torchkata.pictures.style import RC

    buffer = io.StringIO()
    with rc_context(RC):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    return re.sub(r"\n +", "\n", text[text.index("<svg") :])


def image_html(svg: str, alt: str) -> str:
    """Return the SVG as an <img> element with its alternative text, for use inside a widget."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(alt)}" style="max-width: 100%" src="data:{SVG};base64,{data}">'


@contextmanager
def _collecting_young_garbage() -> Iterator[None]:
    """Drop a figure as soon as it is drawn.

    Figures are full of reference cycles. Left alone they grow old and bring on full garbage collections, each a
    pause of 0.2 s with torch loaded, every few moves of a slider.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.collect(0)
    finally:
        if was_enabled:
            gc.enable()


def _display_words(summary: str, alt: str) -> None:
    if _in_ipython():
        words = f"<details><summary>{summary}</summary>{html.escape(alt)}</details>"
        _display({"text/markdown": words}, {})


def _display(bundle: dict[str, Any], metadata: dict[str, Any], **place: Any) -> None:
    if _in_ipython():
        from IPython.display import display

        display(bundle, metadata=metadata, raw=True, **place)
    else:
        print(bundle["text/plain"])


def _in_ipython() -> bool:
    from IPython import get_ipython

    return get_ipython() is not None
