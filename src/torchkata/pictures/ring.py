"""All-reduce as a ring, step by step: which chunk travels, and whose numbers are in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchkata.pictures.controls import slider, steps
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, GREEN, MARGIN, ORANGE

WIDTH, HEIGHT, GAP = 44, 32, 26  # of a chunk's box in points, and the room between two ranks
TOP, LEFT = 116, MARGIN + 62
GATHER = "all-gather"
SCATTER = "reduce-scatter"


@dataclass(frozen=True)
class Chunk:
    """A number and the ranks whose numbers have been added up in it."""

    value: float
    contributors: frozenset[int]


@dataclass(frozen=True)
class RingState:
    """phase: "start", "reduce-scatter" or "all-gather". step: 0 at the start, 2 (world - 1) at the end.

    transfers: (from rank, to rank, chunk) of this step. chunks: for each rank its chunks.
    """

    phase: str
    step: int
    transfers: tuple[tuple[int, int, int], ...]
    chunks: tuple[tuple[Chunk, ...], ...]


def ring_states(data: Sequence[Sequence[float]]) -> list[RingState]:
    """Return the states of a ring all-reduce of data[rank][chunk], one chunk for each rank: the start and every step.

    ValueError if the number of chunks is not that of the ranks.
    """
    world = len(data)
    if any(len(row) != world for row in data):
        raise ValueError(f"{world} ranks need {world} chunks each.")
    held = [[Chunk(value, frozenset({rank})) for value in row] for rank, row in enumerate(data)]
    states = [RingState("start", 0, (), _frozen(held))]
    for step in range(2 * (world - 1)):
        adding = step < world - 1
        shift = -step if adding else 1 - (step - world + 1)
        transfers = tuple((rank, (rank + 1) % world, (rank + shift) % world) for rank in range(world))
        travelling = [held[sender][chunk] for sender, _, chunk in transfers]
        for (_, receiver, chunk), came in zip(transfers, travelling, strict=True):
            own = held[receiver][chunk]
            added = Chunk(own.value + came.value, own.contributors | came.contributors)
            held[receiver][chunk] = added if adding else came
        states.append(RingState(SCATTER if adding else GATHER, step + 1, transfers, _frozen(held)))
    return states


def _frozen(held: list[list[Chunk]]) -> tuple[tuple[Chunk, ...], ...]:
    return tuple(tuple(row) for row in held)


def draw_ring(world: int, step: int) -> Picture:
    """Draw the ranks side by side after `step` steps, their chunks below one another, and the transfers as arrows."""
    states = ring_states([[(rank + 1) * (chunk + 1) for chunk in range(world)] for rank in range(world)])
    state = states[max(0, min(step, len(states) - 1))]
    steps = len(states) - 1
    received = {(receiver, chunk) for _, receiver, chunk in state.transfers}
    canvas = Canvas(max(LEFT + world * (WIDTH + GAP) + 32, 470), TOP + world * (HEIGHT + 6) + 48)
    canvas.title(f"Ring all-reduce, {world} ranks")
    lines = _told(state, world, steps)
    canvas.text(MARGIN, 40, lines[0], weight="bold")
    canvas.lines(MARGIN, 56, lines[1:], step=16)
    for rank in range(world):
        canvas.note(_x(rank) + WIDTH / 2, TOP - 14, f"rank {rank}", "center")
    for chunk in range(world):
        canvas.note(MARGIN, _y(chunk) + HEIGHT / 2, f"chunk {chunk}")
    canvas.cells(
        [
            _cell(chunk, world, _x(rank), _y(number), (rank, number) in received)
            for rank, row in enumerate(state.chunks)
            for number, chunk in enumerate(row)
        ]
    )
    for sender, receiver, chunk in state.transfers:
        _draw_transfer(canvas, sender, receiver, chunk)
    legend = (
        "In a box: the number; below it the ranks that are in it. Outlined: came in this step.",
        "No colour: the rank's own number. Orange: a part of the sum. Green, all: complete.",
    )
    canvas.notes(MARGIN, canvas.height - 24, legend, step=13)
    moves = "; ".join(f"rank {s} sends chunk {chunk} to rank {r}" for s, r, chunk in state.transfers) or "nothing sent"
    held = "; ".join(
        f"rank {rank}: " + ", ".join(f"{chunk.value} from {_who(chunk, world)}" for chunk in row)
        for rank, row in enumerate(state.chunks)
    )
    return Picture(canvas, f"Ring all-reduce, {world} ranks. {' '.join(lines)} {moves}. Chunks: {held}.")


def _told(state: RingState, world: int, steps: int) -> tuple[str, str, str]:
    complete = {sum(len(c.contributors) == world for c in row) for row in state.chunks}
    least = min(complete)
    does = {
        "start": "nothing sent yet.",
        SCATTER: "each rank adds the chunk that comes in to its own.",
        GATHER: "each rank overwrites its chunk with the complete one.",
    }
    return (
        f"Step {state.step} of {steps}{'' if state.phase == 'start' else ', ' + state.phase}: {does[state.phase]}",
        f"Sent so far by each rank: {state.step} chunks, {state.step}/{world} of the tensor.",
        f"Complete on each rank: {least} of {world} chunks.",
    )


def _x(rank: int) -> float:
    return LEFT + rank * (WIDTH + GAP)


def _y(chunk: int) -> float:
    return TOP + chunk * (HEIGHT + 6)


def _cell(chunk: Chunk, world: int, x: float, y: float, marked: bool) -> Cell:
    count = len(chunk.contributors)
    fill = GREEN if count == world else BLANK if count == 1 else ORANGE
    came = (-(WIDTH + GAP), 0) if marked else None
    return Cell(x, y, f"{chunk.value:g}", fill, marked, WIDTH, HEIGHT, below=_who(chunk, world), came=came)


def _who(chunk: Chunk, world: int) -> str:
    return "all" if len(chunk.contributors) == world else "".join(map(str, sorted(chunk.contributors)))


def _draw_transfer(canvas: Canvas, sender: int, receiver: int, chunk: int) -> None:
    """An arrow to the right neighbour; that of the last rank leaves the picture and comes in again on the left."""
    y = _y(chunk) + HEIGHT / 2
    out = _x(sender) + WIDTH + 3
    if receiver > sender:
        canvas.arrow((out, y), (_x(receiver) - 3, y))
    else:
        canvas.arrow((out, y), (out + 18, y))
        canvas.arrow((_x(receiver) - 21, y), (_x(receiver) - 3, y))


def ring_stepper() -> Explorer:
    """Build the stepper: the number of ranks, and the steps."""
    controls = {
        "ranks": slider("ranks", 4, 2, 8, resets={"step": 0}),
        "step": steps("step", 0, 2 * (8 - 1), end="to the end"),
    }
    return Explorer(
        controls,
        [["ranks"], ["step"]],
        lambda state: draw_ring(state["ranks"], state["step"]),
        limits=lambda state: {"step": 2 * (state["ranks"] - 1)},
    )
