"""How the gradient shrinks on its way back through a deep net, measured by hooks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil, floor, log10

import torch
from torch import Tensor, nn

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import FAINT, FILLS, MARGIN

WIDTH = 16  # neurons in a layer
BAR, SLOT, DECADE, LEFT = 17, 21, 22, 54  # points: width of a bar, from bar to bar, height of a power of ten


def gradient_profile(activation: str, depth: int, seed: int) -> list[float]:
    """Return the norm of the gradient at the output of each Linear layer, first layer first.

    The net is `depth` times Linear(16, 16) with PyTorch's usual initial weights and the activation, a class of
    torch.nn; its input is a random batch of four, its loss the sum of the output. The state of the random number
    generator is as before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), getattr(nn, activation)())]
        x = torch.randn(4, WIDTH, requires_grad=True)
    net = nn.Sequential(*layers)
    norms = [0.0] * depth

    def note(module: nn.Module, grad_input: object, grad_output: Sequence[Tensor], number: int) -> None:
        norms[number] = grad_output[0].norm().item()

    for number, layer in enumerate(layers[::2]):
        layer.register_full_backward_hook(partial(note, number=number))
    net(x).sum().backward()
    return norms


def gradient_bars(activations: Sequence[str], depth: int, seed: int) -> Picture:
    """Draw for each activation one bar a layer, on a scale of powers of ten."""
    profiles = {activation: gradient_profile(activation, depth, seed) for activation in activations}
    low = min(floor(log10(min(norms)) - 0.3) for norms in profiles.values())
    high = max(ceil(log10(max(norms))) for norms in profiles.values())
    group = depth * SLOT + 20
    top = 88
    base = top + (high - low) * DECADE
    canvas = Canvas(max(LEFT + len(profiles) * group + MARGIN, 520), base + 44)

    canvas.title("Norm of the gradient at the output of each Linear layer")
    words = "Each line is ten times the one below it. Factor: the last layer's norm divided by the first layer's."
    canvas.note(MARGIN, 38, words)
    right = LEFT + len(profiles) * group - 20
    for power in range(low, high + 1):
        y = base - (power - low) * DECADE
        canvas.line([LEFT - 6, right], [y, y], FAINT, 0.8, level=1, cap="projecting")
        canvas.note(LEFT - 12, y, f"1e{power}", "right")
    for number, (activation, norms) in enumerate(profiles.items()):
        left = LEFT + number * group
        canvas.text(left, 66, f"{activation}, factor {_factor(norms)}", weight="bold")
        bars = []
        for layer, norm in enumerate(norms):
            height = round((log10(norm) - low) * DECADE)
            bars.append(Cell(left + layer * SLOT, base - height, "", FILLS[number], width=BAR, height=height))
            canvas.note(left + layer * SLOT + BAR / 2, base + 10, str(layer + 1), "center")
        canvas.cells(bars)
    canvas.note(LEFT, base + 28, "layer, the first at the left; backward goes from right to left")
    return Picture(canvas, _in_words(profiles))


def _factor(norms: Sequence[float]) -> str:
    """The last norm divided by the first, to two digits: 1,800,000."""
    factor = norms[-1] / norms[0]
    power = floor(log10(factor)) - 1
    return f"{round(factor / 10**power) * 10**power:,.0f}"


def _in_words(profiles: dict[str, list[float]]) -> str:
    words = ["Norm of the gradient at the output of each Linear layer, first layer first."]
    for activation, norms in profiles.items():
        listed = ", ".join(f"{norm:.0e}" for norm in norms)
        words.append(f"{activation}: {listed}; the last is {_factor(norms)} times the first.")
    return " ".join(words)
