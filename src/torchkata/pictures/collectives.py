"""The collectives of torch.distributed: what each rank gives, and what it has after each step."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.controls import choice, slider, steps
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import GREEN, MARGIN, SKY, UNUSED

COLLECTIVES = {
    "broadcast": "every rank gets the tensor of rank 0",
    "reduce": "rank 0 gets the sum",
    "all_reduce": "every rank gets the sum",
    "gather": "rank 0 gets one piece from each rank",
    "all_gather": "every rank gets one piece from each rank",
    "scatter": "every rank gets one piece of rank 0's tensor",
    "reduce_scatter": "every rank gets one piece of the sum",
    "all_to_all": "every rank sends one piece to each rank",
}
LETTERS = "abcd"
HEIGHT = 24
ROW = HEIGHT + 10


@dataclass(frozen=True)
class Pieces:
    """What the ranks hold, rank by rank: pieces such as "a1" (rank 0's piece 1) or "a1+b1"; "" for nothing yet."""

    gives: tuple[tuple[str, ...], ...]
    has: tuple[tuple[str, ...], ...]
    changed: tuple[int, ...]


def collective_steps(name: str, world: int) -> list[Pieces]:
    """Return the state before the call and after each of its `world` steps.

    The steps are for the eye: in one of them the pieces of one rank arrive, or one rank gets what is its own. Real
    backends do it in other ways, with the same end. A name that is none of COLLECTIVES raises ValueError.
    """
    if name not in COLLECTIVES:
        raise ValueError(f"{name!r} is none of {', '.join(COLLECTIVES)}.")
    gives = tuple(_gives(name, rank, world) for rank in range(world))
    states: list[Pieces] = []
    for done in range(world + 1):
        has = tuple(_has(name, rank, world, done) for rank in range(world))
        before = states[-1].has if states else has
        changed = tuple(rank for rank in range(world) if has[rank] != before[rank])
        states.append(Pieces(gives, has, changed))
    return states


def _gives(name: str, rank: int, world: int) -> tuple[str, ...]:
    if name in ("broadcast", "scatter") and rank:
        return ()
    if name in ("gather", "all_gather"):
        return (LETTERS[rank],)
    return tuple(f"{LETTERS[rank]}{piece}" for piece in range(world))


def _has(name: str, rank: int, world: int, done: int) -> tuple[str, ...]:
    """What rank has after `done` steps."""
    arrived = LETTERS[:done]
    if name == "broadcast":
        return tuple(f"a{piece}" if rank < done else "" for piece in range(world))
    if name == "scatter":
        return (f"a{rank}" if rank < done else "",)
    if name == "reduce_scatter":
        return ("+".join(f"{letter}{rank}" for letter in LETTERS[:world]) if rank < done else "",)
    if name in ("reduce", "gather") and rank:
        return ()
    if name in ("reduce", "all_reduce"):
        return tuple("+".join(f"{letter}{piece}" for letter in arrived) for piece in range(world))
    own = str(rank) if name == "all_to_all" else ""
    return tuple(letter + own if letter in arrived else "" for letter in LETTERS[:world])


def draw_collective(name: str, world: int, done: int) -> Picture:
    """Draw what each rank gives and what it has after `done` steps; what has just changed is outlined."""
    states = collective_steps(name, world)
    done = max(0, min(done, world))
    state = states[done]
    small, wide = 30, max(30, 18 * world + 4 if "reduce" in name else 30)
    gives_at = MARGIN + 52
    has_at = gives_at + world * small + 46
    top = 92
    width = max(has_at + world * wide + MARGIN, 430)
    canvas = Canvas(width, top + world * ROW + 22)
    canvas.title(f"{name}, {world} ranks: {COLLECTIVES[name]}")
    about = "before the call" if not done else f"step {done} of {world}"
    news = ", ".join(f"rank {rank}" for rank in state.changed)
    canvas.text(MARGIN, 42, f"{about}: {'something new on ' + news if news else 'nothing has arrived'}")
    canvas.note(gives_at, top - 16, "sends")
    canvas.note(has_at, top - 16, "has")
    for rank in range(world):
        y = top + rank * ROW
        canvas.text(MARGIN, y + HEIGHT / 2, f"rank {rank}")
        cells = [
            Cell(gives_at + i * small, y, piece, SKY, width=small, height=HEIGHT)
            for i, piece in enumerate(state.gives[rank])
        ]
        for i, piece in enumerate(state.has[rank]):
            fill, new = (GREEN if piece else UNUSED), rank in state.changed
            cells.append(Cell(has_at + i * wide, y, piece or "–", fill, marked=new, width=wide, height=HEIGHT))
        canvas.cells(cells)
    legend = "a: from rank 0, b: from rank 1, … –: nothing yet. Outlined: new."
    canvas.note(MARGIN, canvas.height - 12, legend)
    held = "; ".join(f"rank {rank} has {_listed(pieces)}" for rank, pieces in enumerate(state.has))
    given = "; ".join(f"rank {rank} sends {_listed(pieces)}" for rank, pieces in enumerate(state.gives))
    return Picture(canvas, f"{name}, {world} ranks: {COLLECTIVES[name]}. {given}. {about.capitalize()}: {held}.")


def _listed(pieces: tuple[str, ...]) -> str:
    return ", ".join(piece for piece in pieces if piece) or "nothing"


def collective_explorer() -> Explorer:
    """Build the explorer: a collective, a number of ranks, and its steps."""
    anew = {"step": 0}
    controls = {
        "collective": choice("collective", COLLECTIVES, "all_reduce", resets=anew),
        "ranks": slider("ranks", 3, 2, len(LETTERS), resets=anew),
        "step": steps("step", 0, len(LETTERS), end="to the end"),
    }
    return Explorer(
        controls,
        [["collective", "ranks"], ["step"]],
        lambda state: draw_collective(state["collective"], state["ranks"], state["step"]),
        limits=lambda state: {"step": state["ranks"]},
    )
