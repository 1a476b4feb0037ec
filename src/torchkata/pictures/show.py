"""How a picture or an explorer reaches the notebook: as HTML that lives on its own, and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchkata.pictures.page import picture_html

if TYPE_CHECKING:
    from torchkata.pictures.kit import Canvas

HTML = "text/html"


@dataclass(frozen=True)
class Picture:
    """A drawn card and the same in words; as the last line of a cell it shows itself."""

    canvas: Canvas
    alt: str

    @property
    def svg(self) -> str:
        return self.canvas.svg()

    def _ipython_display_(self) -> None:
        display(self.svg, self.alt)


def display(svg: str, words: str, packed: str = "", **place: Any) -> str:
    """Display a picture, with controls where packed frames are given; returns the name that it has on the page.

    The words stand one click below it. Outside of IPython they are printed, and there is no name.
    """
    if not _in_ipython():
        print(words)
        return ""
    from IPython.display import display as show

    text, identity = picture_html(svg, words, packed)
    show({HTML: text, "text/plain": words}, raw=True, **place)
    return identity


def show_growing(draw: Callable[[], Picture], place: str, first: bool, last: bool) -> None:
    """Display what `draw` gives in one place of the notebook, over what stood there.

    Outside of IPython only the last is drawn, and its words are printed.
    """
    if last or _in_ipython():
        picture = draw()
        where: dict[str, Any] = {"display_id": place, "update": not first} if _in_ipython() else {}
        display(picture.svg, picture.alt, **where)


def _in_ipython() -> bool:
    from IPython import get_ipython

    return get_ipython() is not None
