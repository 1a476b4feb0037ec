"""The picture with which the website begins: a ring all-reduce that goes on by itself, narrow enough for a phone.

All its steps stand in one drawing; site.js shows one after another. Who wants no motion presses the buttons.
"""

from __future__ import annotations

from html import escape

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.ring import GATHER, SCATTER, RingState, ring_states
from torchkata.pictures.style import BLANK, GREEN, INK, ORANGE, SOFT_INK

RANKS = 4
WIDTH, HEIGHT, GAP = 48, 38, 18  # of a chunk's box in points, and the room between two ranks
LEFT, TOP = 13, 24
NUMBER, SMALL = 11, 10  # font sizes in points: more than 12 pixels also on a phone, where the picture shrinks
DOES = {
    "start": "Four devices hold four gradients each, and all of them need the sums.",
    SCATTER: "Each passes one chunk to the right, which is added up there.",
    GATHER: "Each passes a complete sum on, which takes the place of the part.",
}
SAYS = (
    "A ring all-reduce with four ranks, in six steps: in three of them each rank adds the chunk that comes in to its "
    "own, in three more the complete sums go round."
)
BUTTONS = '<button type="button" name="play">Pause</button><button type="button" name="step">Step</button>'


def hero_html() -> str:
    """The drawing with all steps, a line that says what happens in the one that is shown, and the buttons."""
    states = ring_states([[(rank + 1) * (chunk + 1) for chunk in range(RANKS)] for rank in range(RANKS)])
    cards = [_drawn(state).svg().split("\n") for state in states]
    head, card = cards[0][0].partition(" width")[0], cards[0][1]
    box = f'viewBox="0 0 {_across():g} {_down():g}" font-family="DejaVu Sans, Verdana, Arial, sans-serif"'
    steps = "".join(
        f'<g class="hero-step{" now" * (not number)}" data-says="{escape(_told(state, len(states) - 1))}">'
        f"{''.join(lines[2:-1])}</g>"
        for number, (state, lines) in enumerate(zip(states, cards, strict=True))
    )
    drawing = f'{head} {box} role="img" aria-label="{SAYS}">{card}{steps}</svg>'
    return (
        '<div class="torchkata-picture hero-picture" id="hero" role="group" aria-label="A ring all-reduce">'
        f'{drawing}<p class="hero-told">{_told(states[0], len(states) - 1)}</p>'
        f'<div class="hero-keys">{BUTTONS}</div></div>'
    )


def _across() -> float:
    return 2 * LEFT + RANKS * (WIDTH + GAP) - GAP


def _down() -> float:
    return TOP + RANKS * (HEIGHT + 6) + 4


def _told(state: RingState, steps: int) -> str:
    return f"Step {state.step} of {steps}. {DOES[state.phase]}"


def _drawn(state: RingState) -> Canvas:
    canvas = Canvas(_across(), _down())
    received = {(receiver, chunk) for _, receiver, chunk in state.transfers}
    for rank, row in enumerate(state.chunks):
        x = _edge(rank)
        canvas.text(x + WIDTH / 2, 12, f"rank {rank}", SMALL, "center", color=SOFT_INK)
        for number, chunk in enumerate(row):
            y, count = TOP + number * (HEIGHT + 6), len(chunk.contributors)
            fill = GREEN if count == RANKS else BLANK if count == 1 else ORANGE
            came = (-(WIDTH + GAP), 0) if (rank, number) in received else None
            canvas.cells([Cell(x, y, "", fill, came is not None, WIDTH, HEIGHT, came=came)])
            who = "all" if count == RANKS else "+".join(map(str, sorted(chunk.contributors)))
            look = {"color": INK, "came": came}
            canvas.text(x + WIDTH / 2, y + HEIGHT / 2 - 7, f"{chunk.value:g}", NUMBER, "center", weight="bold", **look)
            canvas.text(x + WIDTH / 2, y + HEIGHT / 2 + 8, who, SMALL, "center", **look)
    for sender, receiver, number in state.transfers:
        middle, right, left = TOP + number * (HEIGHT + 6) + HEIGHT / 2, _edge(sender) + WIDTH + 3, _edge(receiver) - 3
        if receiver > sender:
            canvas.arrow((right, middle), (left, middle))
        else:  # out on the right, and in again on the left
            canvas.arrow((right, middle), (right + 9, middle))
            canvas.arrow((left - 9, middle), (left, middle))
    return canvas


def _edge(rank: int) -> float:
    return LEFT + rank * (WIDTH + GAP)
