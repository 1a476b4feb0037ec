"""The cache of keys and values fills: bytes by token, layer by layer, on a card that holds the weights already."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.controls import choice, notched_slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, ERROR_INK, INK, MARGIN, ORANGE, PURPLE, SKY, SOFT_INK, UNUSED

GIB = 1 << 30
LAYERS, HEADS, DIM, SIZE = 28, 24, 128, 2  # the model: SIZE bytes a number
WEIGHTS, CARD = 6 * GIB, 12 * GIB
LONGEST = 32_768  # positions for which memory is taken once
TOKENS = (0, 1024, 2048, 4096, 8192, 16_384, 24_576, LONGEST)
KV_HEADS, WINDOWS = (24, 8, 1), (("none", None), ("4,096 in every layer", 4096))
CAT, ONCE = "torch.cat at each step", "taken once"
SHOWN = 4  # layers that are drawn: the first ones
LEFT, LONG, LANE, TOP, WIDTH = MARGIN + 50, 188, 18, 66, 270


@dataclass(frozen=True)
class Filled:
    """A cache after some tokens.

    kept: positions that each layer keeps. taken: positions for which each layer has memory. written: positions that
    each layer has written so far, copies included, if the tokens came one by one.
    """

    kept: int
    taken: int
    written: int
    each: int

    @property
    def bytes(self) -> int:
        return self.taken * self.each * LAYERS


def each_position(kv_heads: int) -> int:
    """The bytes of one position in one layer: a key and a value for each key-value head."""
    return 2 * kv_heads * DIM * SIZE


def cache_after(tokens: int, kv_heads: int, window: int | None, how: str) -> Filled:
    """The cache after so many tokens; how: CAT or ONCE."""
    most = LONGEST if window is None else window
    kept = min(tokens, most)
    if how == ONCE:
        return Filled(kept, most, tokens, each_position(kv_heads))
    written = kept * (kept + 1) // 2 + (tokens - kept) * most
    return Filled(kept, kept, written, each_position(kv_heads))


def most_positions(kv_heads: int) -> int:
    """How many positions fit beside the weights, if every layer keeps all of them."""
    return (CARD - WEIGHTS) // (each_position(kv_heads) * LAYERS)


def draw_kv_cache(tokens: int, kv_heads: int, window: int | None, how: str) -> Picture:
    """Draw layers as lanes, with the positions that they keep, and the card's memory below."""
    cache = cache_after(tokens, kv_heads, window, how)
    below = TOP + (SHOWN + 1) * LANE + 24
    canvas = Canvas(WIDTH, below + 172)
    title = f"After {tokens:,} tokens"
    canvas.title(title)
    look = f"a window of {window:,}" if window else "no window"
    heads = f"{kv_heads} kv {'head' if kv_heads == 1 else 'heads'}"
    model = [f"{LAYERS} layers, {HEADS} query heads, {heads} of {DIM},", f"bfloat16, {look}, {how}"]
    canvas.lines(MARGIN, 38, model, color=SOFT_INK)
    _lanes(canvas, tokens, cache)
    one = cache.each * LAYERS
    told = [
        f"2 · {LAYERS} · {kv_heads} · {DIM} · 2 bytes = {amount(one)} a position",
        f"kept: {cache.kept:,} positions, {amount(cache.kept * one)}",
        f"memory of the cache: {amount(cache.bytes)}",
        f"written in each layer: {cache.written:,} positions",
    ]
    canvas.lines(MARGIN, below, told, step=16)
    fit = _card(canvas, below + 76, cache)
    told.append(fit)
    if window is None:
        told.append(f"{most_positions(kv_heads):,} positions fit beside the weights")
        canvas.text(MARGIN, below + 156, told[-1], color=SOFT_INK)
    return Picture(canvas, f"{title}. {' '.join(model)}: {'; '.join(told)}.")


def kv_cache_explorer() -> Explorer:
    """Build the explorer: tokens, key-value heads, window, and how the memory is taken."""
    controls = {
        "tokens": notched_slider("tokens", TOKENS, 8192),
        "heads": choice("kv heads", KV_HEADS, 8, f"for {HEADS} query heads"),
        "window": choice("window", WINDOWS),
        "how": choice("memory", (CAT, ONCE)),
    }
    return Explorer(
        controls,
        [["tokens"], ["heads", "window"], ["how"]],
        lambda state: draw_kv_cache(state["tokens"], state["heads"], state["window"], state["how"]),
    )


def amount(size: int) -> str:
    """Bytes as people read them."""
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f}".rstrip("0").rstrip(".") + f" {name}"
    return f"{size} bytes"


def _lanes(canvas: Canvas, tokens: int, cache: Filled) -> None:
    scale = LONG / LONGEST
    for row in range(SHOWN):
        last = row == SHOWN - 1
        y = TOP + row * LANE + 10 * last
        canvas.text(LEFT - 6, y + (LANE - 6) / 2, f"layer {LAYERS - 1 if last else row}", align="right", color=SOFT_INK)
        start = (tokens - cache.kept) * scale
        parts = ((start, UNUSED), (cache.kept * scale, SKY), ((cache.taken - cache.kept) * scale, PURPLE))
        x = float(LEFT)
        for width, fill in parts:
            if width:
                canvas.cells([Cell(x, y, "", fill, width=width, height=LANE - 6)])
            x += width
        if x < LEFT + LONG:
            canvas.cells([Cell(x, y, "", BLANK, width=LEFT + LONG - x, height=LANE - 6)])
    canvas.text(LEFT + LONG / 2, TOP + (SHOWN - 1) * LANE + 1, "…", align="center", color=SOFT_INK)
    y = TOP + SHOWN * LANE + 14
    x = float(MARGIN)
    for fill, words, width in ((SKY, "kept", 52), (PURPLE, "taken, empty", 96), (UNUSED, "no longer kept", 0)):
        canvas.cells([Cell(x, y, "", fill, width=12, height=12)])
        canvas.text(x + 17, y + 6, words)
        x += width


def _card(canvas: Canvas, y: float, cache: Filled) -> str:
    """The memory of the card as a bar, with a line at its end."""
    scale = (WIDTH - 2 * MARGIN) / (17 * GIB)
    full = cache.kept * cache.each * LAYERS
    x = float(MARGIN)
    for size, fill in ((WEIGHTS, ORANGE), (full, SKY), (cache.bytes - full, PURPLE)):
        if size:
            canvas.cells([Cell(x, y, "", fill, width=size * scale, height=22)])
        x += size * scale
    canvas.text(MARGIN + 6, y + 11, "weights")
    end = MARGIN + CARD * scale
    canvas.line([end, end], [y - 6, y + 28], INK, 2, level=5)
    canvas.text(end, y + 38, f"end of the card: {amount(CARD)}", align="center")
    total = WEIGHTS + cache.bytes
    fits = total <= CARD
    words = f"{amount(WEIGHTS)} + {amount(cache.bytes)}: {'✓ fits' if fits else '✗ does not fit'}"
    canvas.text(MARGIN, y + 60, words, weight="bold", color=INK if fits else ERROR_INK)
    return words
