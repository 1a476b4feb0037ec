"""Which indices a DistributedSampler gives to each rank, and which of them come twice."""

from __future__ import annotations

import math

import torch

from torchkata.pictures.controls import slider, switch
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import MARGIN, ORANGE, SKY, SOFT_INK

WIDTH, HEIGHT = 34, 30
LEFT, TOP = MARGIN + 48, 84
BOTH = (False, True)
AHEAD = (
    {"samples": range(1, 17), "ranks": range(1, 5), "drop_last": BOTH},
    {"ranks": range(1, 5), "shuffle": BOTH, "drop_last": BOTH},
    {"epoch": range(6), "shuffle": BOTH},
    {"seed": range(4), "shuffle": BOTH},
)


def shares(
    n: int, world: int, drop_last: bool = False, shuffle: bool = False, seed: int = 0, epoch: int = 0
) -> list[list[int]]:
    """Return the indices of each rank, as DistributedSampler draws them from n samples."""
    if shuffle:
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    else:
        order = list(range(n))
    if drop_last:
        order = order[: n // world * world]
    else:
        padded = math.ceil(n / world) * world
        order = (order * math.ceil(padded / n))[:padded]
    return [order[rank::world] for rank in range(world)]


def draw_shares(n: int, world: int, drop_last: bool, shuffle: bool, seed: int, epoch: int) -> Picture:
    """Draw a row of indices for each rank; an index that was given out before has the word "again" below it."""
    rows = shares(n, world, drop_last, shuffle, seed, epoch)
    length = len(rows[0])
    canvas = Canvas(max(LEFT + length * WIDTH + MARGIN, 450), TOP + world * (HEIGHT + 8) + 30)
    sizes = f"{n} {'sample' if n == 1 else 'samples'}, {world} {'rank' if world == 1 else 'ranks'}"
    canvas.title(sizes)
    settings = f"shuffle={shuffle}, drop_last={drop_last}"
    canvas.text(MARGIN, 38, settings + (f", seed + epoch = {seed + epoch}" if shuffle else ""))
    left_out = sorted(set(range(n)) - {index for row in rows for index in row})
    repeated = sum(map(len, rows)) - (n - len(left_out))
    canvas.text(MARGIN, 54, f"repeated: {repeated}; left out: {', '.join(map(str, left_out)) or 'none'}")
    cells, told = [], []
    for rank, row in enumerate(rows):
        y = TOP + rank * (HEIGHT + 8)
        canvas.text(MARGIN, y + HEIGHT / 2, f"rank {rank}")
        words = []
        for column, index in enumerate(row):
            again = column * world + rank >= n
            fill, below = (ORANGE, "again") if again else (SKY, "")
            cells.append(Cell(LEFT + column * WIDTH, y, str(index), fill, width=WIDTH, height=HEIGHT, below=below))
            words.append(f"{index}{' (again)' if again else ''}")
        told.append(f"rank {rank}: {', '.join(words) or 'nothing'}")
        if not row:
            canvas.text(LEFT, y + HEIGHT / 2, "nothing", color=SOFT_INK)
    canvas.cells(cells)
    canvas.note(MARGIN, canvas.height - 14, "Samples are dealt column by column, from top to bottom.")
    summary = f"{sizes}, {settings}. {'; '.join(told)}."
    return Picture(canvas, f"{summary} Left out: {', '.join(map(str, left_out)) or 'none'}.")


def sampler_explorer() -> Explorer:
    """Build the table with its six settings."""
    controls = {
        "samples": slider("samples", 10, 1, 16),
        "ranks": slider("ranks", 3, 1, 4),
        "epoch": slider("set_epoch", 0, 0, 9, about="the epoch that set_epoch gets; used when shuffle is on"),
        "seed": slider("seed", 0, 0, 9, about="used when shuffle is on"),
        "shuffle": switch("shuffle", False),
        "drop_last": switch("drop_last", False),
    }
    return Explorer(controls, (("samples", "ranks"), ("epoch", "seed"), ("shuffle", "drop_last")), _of, ahead=AHEAD)


def _of(state: State) -> Picture:
    names = ("samples", "ranks", "drop_last", "shuffle", "seed", "epoch")
    return draw_shares(*(state[name] for name in names))
