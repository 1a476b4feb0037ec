"""What each head of a small language model looks at: the weights that a position gives to those before it."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from torchkata.pictures.controls import choice, slider, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, MARGIN, ORANGE, SKY, SMALL
from torchkata.small_lm import Block, SmallLM, as_ids, stored_model

IN_A_ROW, WIDE, HIGH = 16, 33, 46  # cells of a row, and their size in points
HEADS = 4
TEXT = "The value of the name is"


def attention_map(model: SmallLM, ids: Tensor, layer: int, head: int) -> Tensor:
    """The weights (T, T) that each position (row) of ids (T,) gives to each position; every row sums to 1.

    model: a SmallLM, or another with its parts: emb, blocks with heads(x), mask.
    """
    with torch.no_grad():
        x, mask = model.emb(ids[None]), model.mask[: len(ids), : len(ids)]
        blocks = [block for block in model.blocks if isinstance(block, Block)]
        for block in blocks[:layer]:
            x = block(x, mask)
        q, k, _ = blocks[layer].heads(x)
        scores = q[0, head] @ k[0, head].T / q.shape[-1] ** 0.5
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def likeliest(model: SmallLM, ids: Tensor, position: int, count: int = 5) -> list[tuple[str, float]]:
    """The bytes that the model thinks likeliest after a position, with their probabilities."""
    with torch.no_grad():
        chances, found = model(ids[None, : position + 1])[0, -1].softmax(-1).topk(count)
    return [(_letter(byte), chance) for byte, chance in zip(found.tolist(), chances.tolist(), strict=True)]


def draw_attention(model: SmallLM, text: str, layer: int, head: int, position: int) -> Picture:
    """Draw a text's bytes, each with the weight that `position` gives to it, and what the model expects next.

    ValueError for an empty text. Of a longer text than the model takes, the last bytes are drawn.
    """
    ids = as_ids(text)[-model.length :]
    if len(ids) == 0:
        raise ValueError("Write at least one letter.")
    position = min(position, len(ids) - 1)
    weights = [round(weight, 2) for weight in attention_map(model, ids, layer, head)[position].tolist()]
    next_bytes = likeliest(model, ids, position)
    rows = -(-model.length // IN_A_ROW)
    canvas = Canvas(2 * MARGIN + IN_A_ROW * WIDE, 78 + rows * (HIGH + 10) + 40)
    title = f"Layer {layer}, head {head}: what position {position} looks at"
    canvas.title(title)
    canvas.note(MARGIN, 40, "Orange: the position. Blue, as high as its weight: what it looks at. Below: the weight.")
    canvas.cells([cell for place in range(len(ids)) for cell in _cells(ids, weights, place, position)])
    for place, weight in enumerate(weights[: position + 1]):
        x, y = _corner(place)
        canvas.text(x + WIDE / 2, y + HIGH - 7, f"{weight:.2f}".removeprefix("0"), SMALL, "center")
    expected = ", ".join(f"{letter!r} {chance:.2f}" for letter, chance in next_bytes)
    canvas.text(MARGIN, 78 + rows * (HIGH + 10) + 14, f"Expected next: {expected}")
    return Picture(canvas, _in_words(title, ids, weights, position, expected))


def _cells(ids: Tensor, weights: Sequence[float], place: int, position: int) -> list[Cell]:
    x, y = _corner(place)
    box = HIGH - 16
    cells = [Cell(x, y, "", BLANK, width=WIDE - 3, height=box)]
    if place <= position and weights[place] > 0:
        high = box * weights[place]
        cells.append(Cell(x, y + box - high, "", SKY, width=WIDE - 3, height=high))
    fill = ORANGE if place == position else "none"
    cells.append(Cell(x, y, _letter(int(ids[place])), fill, width=WIDE - 3, height=box, marked=place == position))
    return cells


def _corner(place: int) -> tuple[float, float]:
    row, column = divmod(place, IN_A_ROW)
    return MARGIN + column * WIDE, 56 + row * (HIGH + 10)


def _letter(byte: int) -> str:
    return {32: "␣", 10: "↵"}.get(byte, chr(byte) if 32 < byte < 127 else f"{byte:02x}")


def _in_words(title: str, ids: Tensor, weights: Sequence[float], position: int, expected: str) -> str:
    largest = sorted(range(position + 1), key=lambda place: -weights[place])[:5]
    looked = "; ".join(f"position {place}, {_letter(int(ids[place]))!r}: {weights[place]:.2f}" for place in largest)
    return f"{title}, the letter {_letter(int(ids[position]))!r}. Largest weights: {looked}. Expected next: {expected}."


def attention_explorer(model: SmallLM | None = None) -> Explorer:
    """Choose a text, a layer, a head and a position; without a model the one stored with the course is looked into."""
    model = copy.deepcopy(model) if model else stored_model()  # one that goes on learning would draw something else
    controls = {
        "text": text_field("text", TEXT, about=f"up to {model.length} bytes", wide=True),
        "layer": choice("layer", range(len(model.blocks))),
        "head": choice("head", range(HEADS)),
        "position": slider("position", len(TEXT) - 1, 0, model.length - 1, about="whose weights are drawn"),
    }

    def draw(state: State) -> Picture:
        return draw_attention(model, state["text"] or TEXT, state["layer"], state["head"], state["position"])

    def limits(state: State) -> dict[str, int]:
        return {"position": min(len(as_ids(state["text"] or TEXT)), model.length) - 1}

    return Explorer(controls, [["text"], ["layer", "head"], ["position"]], draw, limits)
