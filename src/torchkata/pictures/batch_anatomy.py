"""How samples of different length become batches: who comes together, and what is padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader

from torchkata.pictures.controls import slider, switch, text_field
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ERROR_INK, MARGIN, SKY, SMALL, UNUSED

LONGEST, MOST = 12, 10  # steps in a sample, samples
CELL, ROW, NAMES = 20, 23, 74


def collate_plan(lengths: Sequence[int], batch_size: int, shuffle: bool, seed: int, drop_last: bool) -> list[list[int]]:
    """Return the numbers of the samples in each batch of an epoch, as a DataLoader puts them together.

    seed: of the loader's generator. The global random numbers are not touched.
    """
    with torch.device("cpu"):
        loader: DataLoader[int] = DataLoader(
            list(range(len(lengths))),  # type: ignore[arg-type]  # any list will do as a dataset
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            generator=torch.Generator("cpu").manual_seed(seed),
            collate_fn=list,
        )
        return list(loader)


def draw_batches(
    lengths: Sequence[int], batch_size: int, pad_value: int, shuffle: bool, seed: int, drop_last: bool
) -> Picture:
    """Draw each batch as a grid: a row for each sample, r for a real step and p for padding."""
    plan = collate_plan(lengths, batch_size, shuffle, seed, drop_last)
    left_out = sorted(set(range(len(lengths))) - {sample for batch in plan for sample in batch})
    longest = max((max((lengths[s] for s in batch), default=0) for batch in plan), default=0)
    height = 56 + sum(26 + ROW * len(batch) for batch in plan)
    canvas = Canvas(max(MARGIN + NAMES + longest * CELL + MARGIN, 500), height + 48)
    canvas.title(f"{len(lengths)} samples in batches of {batch_size}")
    canvas.text(MARGIN, 36, f"r: a real step, mask True; p: padding, the value {pad_value}, mask False", SMALL)

    y, words = 56.0, []
    for number, batch in enumerate(plan):
        steps = max(lengths[sample] for sample in batch)
        padded = sum(steps - lengths[sample] for sample in batch)
        caption = f"batch {number}: shape ({len(batch)}, {steps}), {padded} of {len(batch) * steps} steps are padding"
        canvas.text(MARGIN, y + 10, caption, weight="bold")
        y += 22
        cells = []
        for sample in batch:
            canvas.text(MARGIN + NAMES - 8, y + CELL / 2, f"sample {sample}", SMALL, "right")
            for step in range(steps):
                real = step < lengths[sample]
                x = MARGIN + NAMES + step * CELL
                cells.append(Cell(x, y, "r" if real else "p", SKY if real else UNUSED, width=CELL, height=CELL))
            y += ROW
        canvas.cells(cells)
        y += 4
        words.append(f"{caption}; samples {', '.join(f'{s} of length {lengths[s]}' for s in batch)}")
    total, padding = _amounts(lengths, plan)
    share = f"{padding} of {total} steps are padding ({padding / total:.0%})." if total else "No step is computed."
    dropped = f" Left out: sample {', '.join(map(str, left_out))}." if left_out else ""
    canvas.note(MARGIN, y + 16, f"In total, {share}{dropped}")
    alt = f"{len(lengths)} samples in batches of {batch_size}, padded with {pad_value}. {'. '.join(words)}."
    return Picture(canvas, f"{alt} In total, {share}{dropped}")


def _amounts(lengths: Sequence[int], plan: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return how many steps all batches have, and how many of them are padding."""
    total = sum(len(batch) * max(lengths[sample] for sample in batch) for batch in plan)
    return total, total - sum(lengths[sample] for batch in plan for sample in batch)


def read_lengths(text: str) -> list[int]:
    """Read lengths such as "3 5 2"; ValueError says what may be typed."""
    words = text.replace(",", " ").split()
    if not all(word.isdecimal() for word in words) or not 1 <= len(words) <= MOST:
        raise ValueError(f"Type 1 to {MOST} whole numbers, with spaces between them.")
    lengths = [int(word) for word in words]
    if max(lengths) > LONGEST:
        raise ValueError(f"A sample may have {LONGEST} steps at most here.")
    return lengths


def _refusal(words: str) -> Picture:
    canvas = Canvas(500, 70)
    canvas.title("These lengths can't be drawn")
    canvas.text(MARGIN, 46, words, color=ERROR_INK)
    return Picture(canvas, f"These lengths can't be drawn. {words}")


ROWS = (("lengths", "batch_size"), ("pad_value", "seed"), ("shuffle", "drop_last"))
LENGTHS = "2 7 3 6 2 7 3"
SORTED = ("2 2 3 3 6 7 7", "7 7 6 3 3 2 2")
BOTH = (False, True)
AHEAD = (
    {"lengths": (LENGTHS, *SORTED), "batch_size": range(1, 6), "shuffle": BOTH, "drop_last": BOTH},
    {"batch_size": (2, 3, 4), "seed": range(10), "shuffle": (True,), "drop_last": BOTH},
    {"seed": range(10), "drop_last": BOTH},
    {"pad_value": range(-9, 10), "shuffle": BOTH, "drop_last": BOTH},
)


def batch_anatomy_explorer() -> Explorer:
    """Build the explorer: lengths, batch size, padding value, shuffling with a seed, drop_last."""
    controls = {
        "lengths": text_field("lengths", LENGTHS, about="the lengths of the samples, with blanks between them"),
        "batch_size": slider("batch size", 3, 1, 5),
        "pad_value": slider("pad value", 0, -9, 9),
        "seed": slider("seed", 0, 0, 9, about="used when shuffle is on"),
        "shuffle": switch("shuffle", False),
        "drop_last": switch("drop_last", False),
    }
    return Explorer(controls, ROWS, _of, ahead=AHEAD)


def _of(state: State) -> Picture:
    try:
        lengths = read_lengths(state["lengths"])
    except ValueError as refusal:
        return _refusal(str(refusal))
    others = ("batch_size", "pad_value", "shuffle", "seed", "drop_last")
    return draw_batches(lengths, *(state[name] for name in others))
