"""Softmax in one pass: nine scores in blocks of three, and the three numbers that are carried from block to block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torchkata.pictures.controls import choice, steps, switch
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, ERROR_INK, GREEN, INK, MARGIN, ORANGE, SKY, SOFT_INK, UNUSED

SCORES = {
    "rising": (1, 0, 1, 3, 2, 1, 5, 4, 3),
    "largest first": (5, 4, 3, 1, 0, 1, 3, 2, 1),
    "above 100": (101, 100, 102, 110, 111, 109, 112, 113, 111),
}
VALUES = (1, 2, 3, 4, 5, 6, 7, 8, 9)
BLOCK = 3
BOX, LEFT, WIDTH = 22, MARGIN + 40, 270
TOP, BELOW, NUMBERS = 54, 160, MARGIN + 90


@dataclass(frozen=True)
class Carried:
    """What is carried on after a block, and how it came about.

    factor: by which the two sums from before were multiplied. added: what the block adds to the sum of weights and to
    that of weight times value. weights: of the block's scores, against the maximum.
    """

    maximum: float
    factor: float
    weights: tuple[float, ...]
    added: tuple[float, float]
    total: float
    weighted: float

    @property
    def output(self) -> float:
        return self.weighted / self.total


NOTHING = Carried(-math.inf, 1, (), (0, 0), 0, 0)


def one_pass(scores: Sequence[float], values: Sequence[float], block: int, rescale: bool = True) -> list[Carried]:
    """What is carried after each block of scores; the last output is softmax(scores) @ values, if it is rescaled."""
    found = [NOTHING]
    for start in range(0, len(scores), block):
        before, part = found[-1], scores[start : start + block]
        maximum = max(before.maximum, *part)
        factor = math.exp(before.maximum - maximum) if rescale else 1
        weights = tuple(math.exp(score - maximum) for score in part)
        added = sum(weights), sum(w * v for w, v in zip(weights, values[start : start + block], strict=True))
        total, weighted = before.total * factor + added[0], before.weighted * factor + added[1]
        found.append(Carried(maximum, factor, weights, added, total, weighted))
    return found[1:]


def draw_one_pass(name: str, done: int, forget: bool) -> Picture:
    """Draw the pass over SCORES[name] after `done` of three blocks."""
    scores = SCORES[name]
    story = one_pass(scores, VALUES, BLOCK, not forget)
    canvas = Canvas(WIDTH, BELOW + 160)
    title = f"After block {done} of {len(story)}" if done else "Before the first block"
    canvas.title(title)
    canvas.text(MARGIN, 38, "A weight is exp(score − maximum so far).", color=SOFT_INK)
    _strip(canvas, scores, story, done)
    if not done:
        canvas.text(MARGIN, BELOW, "Nothing is carried yet. Press next block.")
        return Picture(canvas, f"{title} of the scores {', '.join(map(str, scores))}: nothing is carried yet.")
    before, now = ([NOTHING, *story])[done - 1 : done + 1]
    grew = done > 1 and now.maximum > before.maximum
    canvas.text(MARGIN, BELOW - 20, "Only three numbers are carried on:", color=SOFT_INK)
    canvas.text(MARGIN, BELOW, "maximum", weight="bold")
    canvas.text(NUMBERS, BELOW, f"{before.maximum:g} → {now.maximum:g}" if grew else f"{now.maximum:g}")
    _rescaling(canvas, before, now, done, forget)
    sums = (
        ("Σ weight", before.total, now.added[0], now.total),
        ("Σ weight · value", before.weighted, now.added[1], now.weighted),
    )
    for row, (what, old, added, new) in enumerate(sums):
        y = BELOW + 52 + 18 * row
        canvas.text(MARGIN, y, what, weight="bold")
        times = f" × {now.factor:.2f}" if grew and not forget else ""
        canvas.text(NUMBERS, y, f"{old:.2f}{times} + {added:.2f} = {new:.2f}" if done > 1 else f"{new:.2f}")
    words = _verdict(canvas, scores, now, done)
    how = _about_rescaling(before, now, done, forget)
    told = f"maximum {now.maximum:g}, sum of weights {now.total:.2f}, sum of weight times value {now.weighted:.2f}"
    return Picture(
        canvas, f"{title} of the scores {', '.join(map(str, scores))}. {how.rstrip('.')}. Carried: {told}. {words}"
    )


def one_pass_explorer() -> Explorer:
    """Build the explorer: the scores, the blocks one by one, and whether the sums are rescaled."""
    controls = {
        "scores": choice("scores", list(SCORES), "rising"),
        "forget": switch("forget to rescale", False),
        "block": steps("block", 2, len(VALUES) // BLOCK, on="next block", end="to the end"),
    }
    return Explorer(
        controls,
        [["scores", "forget"], ["block"]],
        lambda state: draw_one_pass(state["scores"], state["block"], state["forget"]),
        ahead=[{"scores": list(SCORES), "forget": (False, True), "block": range(len(VALUES) // BLOCK + 1)}],
    )


def _strip(canvas: Canvas, scores: Sequence[float], story: Sequence[Carried], done: int) -> None:
    """Scores, values and weights; the weights of earlier blocks are gone."""
    for row, what in enumerate(("score", "value", "weight")):
        canvas.text(LEFT - 6, TOP + (row + 0.5) * BOX, what, align="right", color=SOFT_INK)
    boxes = []
    for place, (score, value) in enumerate(zip(scores, VALUES, strict=True)):
        block, within = divmod(place, BLOCK)
        x, now = LEFT + place * BOX + 3 * block, block == done - 1
        weight = _short(story[block].weights[within]) if now else ""
        fill = SKY if now else UNUSED if block < done else BLANK
        rows = (str(score), str(value), weight)
        boxes += [Cell(x, TOP + row * BOX, text, fill, now, BOX, BOX) for row, text in enumerate(rows)]
    canvas.cells(boxes)


def _rescaling(canvas: Canvas, before: Carried, now: Carried, done: int, forget: bool) -> None:
    grew, y = done > 1 and now.maximum > before.maximum, BELOW + 14
    words = _about_rescaling(before, now, done, forget)
    if not grew:
        canvas.text(MARGIN, y + 11, words, color=SOFT_INK)
        return
    canvas.cells([Cell(MARGIN, y, "", "none" if forget else ORANGE, not forget, WIDTH - 2 * MARGIN, 22)])
    canvas.text(MARGIN + 8, y + 11, words, color=ERROR_INK if forget else INK)


def _about_rescaling(before: Carried, now: Carried, done: int, forget: bool) -> str:
    if done == 1:
        return "There is nothing to rescale in the first block."
    if now.maximum == before.maximum:
        return "The maximum stays, so nothing is rescaled."
    if forget:
        return "✗ Both sums should be rescaled, but aren't."
    factor = math.exp(before.maximum - now.maximum)
    return f"Rescale both sums: × exp({before.maximum:g} − {now.maximum:g}) = {factor:.2f}"


def _verdict(canvas: Canvas, scores: Sequence[float], now: Carried, done: int) -> str:
    """Compare the output so far with a softmax over all scores so far."""
    count = done * BLOCK
    (whole,) = one_pass(scores[:count], VALUES[:count], count)
    right = math.isclose(whole.output, now.output)
    y = BELOW + 96
    canvas.cells([Cell(MARGIN, y, "", GREEN if right else "none", True, WIDTH - 2 * MARGIN, 22)])
    output = f"output = {now.weighted:.2f} / {now.total:.2f} = {now.output:.2f}"
    canvas.text(MARGIN + 8, y + 11, output, weight="bold")
    truth = f"softmax of these {count} scores at once: {whole.output:.2f}"
    sign = "✓" if right else "✗"
    canvas.text(MARGIN, y + 38, f"{sign} {truth}", color=INK if right else ERROR_INK)
    return f"{output[0].upper()}{output[1:]}; {truth}, {'the same' if right else 'something else'}."


def _short(weight: float) -> str:
    return "1" if weight == 1 else f"{weight:.2f}".removeprefix("0")
