"""Sort, decide, put back: a decision that is made by rank and belongs to the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CELL, MARGIN, ORANGE, SKY, SMALL, UNUSED

SLOT, BAR, TALLEST = 86, 44, 60  # points: from token to token, width of a bar, height of the tallest bar
LEFT = 110
GAP = 56  # height of a band of arrows


@dataclass(frozen=True)
class NucleusState:
    """Tokens ranked by probability, highest first (equal ones by place); kept until their sum reaches p.

    order[r] is the token of rank r, before[r] the sum of the probabilities ranked before it,
    kept_ranks[r] the decision by rank, kept_tokens[v] the same brought back to token v.
    """

    probabilities: tuple[float, ...]
    p: float
    order: tuple[int, ...]
    before: tuple[float, ...]
    kept_ranks: tuple[bool, ...]
    kept_tokens: tuple[bool, ...]


def nucleus_state(probabilities: Sequence[float], p: float) -> NucleusState:
    """Sort, decide, put back. ValueError when p is outside (0, 1] or there are no probabilities."""
    if not 0 < p <= 1:
        raise ValueError(f"p must be greater than 0 and at most 1; it is {p}.")
    if len(probabilities) == 0:
        raise ValueError("There are no probabilities.")
    chances = torch.as_tensor(probabilities, dtype=torch.float64)
    ranked, order = chances.sort(descending=True, stable=True)
    before = torch.cat([ranked.new_zeros(1), ranked.cumsum(0)[:-1]])
    kept_ranks = before < p - 1e-12  # a sum that equals p but for rounding has reached it
    kept_tokens = torch.zeros_like(kept_ranks).scatter(0, order, kept_ranks)
    lists = (order, before, kept_ranks, kept_tokens)
    return NucleusState(tuple(chances.tolist()), p, *(tuple(values.tolist()) for values in lists))


def sort_decide_put_back(probabilities: Sequence[float], p: float) -> Picture:
    """Draw the tokens in their own order, ranked and cut at p, and the decision brought back; for up to 8 tokens."""
    if len(probabilities) > 8:
        raise ValueError(f"The picture has room for 8 tokens; these are {len(probabilities)}.")
    state = nucleus_state(probabilities, p)
    tokens_at = 62 + TALLEST
    ranks_at = tokens_at + 20 + GAP + 16 + TALLEST
    mask_at = ranks_at + 50 + GAP
    canvas = Canvas(LEFT + len(state.order) * SLOT + MARGIN, mask_at + CELL + 34)

    canvas.title(f"Sort, decide, put back: p = {p:g}")
    everyone = range(len(state.order))
    _draw_bars(canvas, state, everyone, [SKY for _ in everyone], tokens_at)
    _draw_bars(canvas, state, state.order, [ORANGE if kept else UNUSED for kept in state.kept_ranks], ranks_at)
    for rank, token in enumerate(state.order):
        canvas.arrow((_middle(token), tokens_at + 22), (_middle(rank), tokens_at + 16 + GAP))
        verdict = "keep" if state.kept_ranks[rank] else "drop"
        canvas.text(_middle(rank), ranks_at + 24, f"before: {state.before[rank]:.2f}", SMALL, "center")
        canvas.text(_middle(rank), ranks_at + 38, verdict, align="center", weight="bold")
        canvas.arrow((_middle(rank), ranks_at + 48), (_middle(token), ranks_at + 44 + GAP))
    canvas.cells([_mask_cell(token, kept, mask_at) for token, kept in enumerate(state.kept_tokens)])
    for token in everyone:
        canvas.note(_middle(token), mask_at + CELL + 10, f"token {token}", "center")
    for y, words in ((tokens_at - 20, "probabilities"), (ranks_at - 20, "sorted"), (mask_at + CELL / 2, "mask")):
        canvas.text(MARGIN, y, words, weight="bold")
    canvas.text(MARGIN, ranks_at + 38, f"keep if before < {p:g}", SMALL)
    canvas.note(MARGIN, ranks_at + 48 + GAP / 2, "scatter along order")
    canvas.note(MARGIN, tokens_at + 20 + GAP / 2, "sort")
    return Picture(canvas, _in_words(state))


def _draw_bars(canvas: Canvas, state: NucleusState, tokens: Sequence[int], fills: Sequence[str], y: float) -> None:
    """Draw the tokens' probabilities as bars that stand on y, from left to right."""
    bars = []
    for slot, (token, fill) in enumerate(zip(tokens, fills, strict=True)):
        chance = state.probabilities[token]
        height = TALLEST * chance / max(state.probabilities)
        bars.append(Cell(_middle(slot) - BAR / 2, y - height, "", fill, width=BAR, height=height))
        canvas.text(_middle(slot), y - height - 8, f"{chance:.2f}", align="center")
        canvas.note(_middle(slot), y + 10, f"token {token}", "center")
    canvas.cells(bars)


def _mask_cell(token: int, kept: bool, y: float) -> Cell:
    return Cell(_middle(token) - BAR / 2, y, str(kept), ORANGE if kept else UNUSED, width=BAR)


def _middle(slot: int) -> float:
    return LEFT + (slot + 0.5) * SLOT


def _in_words(state: NucleusState) -> str:
    ranks = "; ".join(
        f"rank {rank}: token {token} with {state.probabilities[token]:.2f}, before it {state.before[rank]:.2f}, "
        f"{'kept' if state.kept_ranks[rank] else 'dropped'}"
        for rank, token in enumerate(state.order)
    )
    kept = [str(token) for token, kept in enumerate(state.kept_tokens) if kept]
    return f"Tokens sorted by probability and cut at p = {state.p:g}. {ranks}. Kept tokens: {', '.join(kept)}."
