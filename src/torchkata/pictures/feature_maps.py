"""Feature maps as grids of numbers: what each channel of a layer shows of an image."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from torchkata.pictures.kit import Canvas, Cell, Grid, grid
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, MARGIN, ORANGE, SKY

MAX_WIDTH = 620


def feature_maps(features: Mapping[str, Tensor]) -> Picture:
    """Draw named features of shape (channels, height, width), one below the other; values are shown as whole numbers.

    ValueError when a feature has another number of dimensions.
    """
    layouts: dict[str, Grid] = {}
    y: float = 62
    for name, feature in features.items():
        if feature.dim() != 3:
            raise ValueError(f"{name!r} has shape {tuple(feature.shape)}; a feature map has three dimensions.")
        layouts[name] = grid(feature.shape, MARGIN, y, MAX_WIDTH)
        y += layouts[name].height + 34
    canvas = Canvas(max(330, *(layout.width for layout in layouts.values())) + 2 * MARGIN, y)

    canvas.title("Features, channel by channel")
    for name, feature in features.items():
        layout = layouts[name]
        caption = f"{name}, shape {tuple(feature.shape)}"
        canvas.text(MARGIN, layout.slab_labels[0][1] - 16, caption, weight="bold")
        numbers = [round(value) for value in feature.flatten().tolist()]
        canvas.cells([Cell(x, y, _signed(n), _fill(n)) for n, (x, y) in zip(numbers, layout.places, strict=True)])
        for label in layout.slab_labels:
            canvas.note(*label)
    canvas.note(MARGIN, y - 14, "Orange is positive, blue is negative, no colour is 0.")
    return Picture(canvas, _in_words(features))


def _signed(number: int) -> str:
    return str(number).replace("-", "−")


def _fill(number: int) -> str:
    return ORANGE if number > 0 else SKY if number < 0 else BLANK


def _in_words(features: Mapping[str, Tensor]) -> str:
    words = ["Features, channel by channel."]
    for name, feature in features.items():
        maps = "; ".join(f"[{n}] {feature[n].round().int().tolist()}" for n in range(len(feature)))
        words.append(f"{name} of shape {tuple(feature.shape)}: {maps}.")
    return " ".join(words)
