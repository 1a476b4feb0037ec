"""Arithmetic against traffic: which of the two decides how long an operation takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10

from torchkata.pictures.controls import choice, notched_slider
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas, Plot
from torchkata.pictures.show import Picture
from torchkata.pictures.style import CURVE, ERROR_INK, MARGIN, RULE, SOFT_INK

ROWS = (1, 64, 256, 512, 4096)
WIDTH = 4096
LEFT, TOP, WIDE, HIGH = 66, 62, 470, 200
LOWEST, HIGHEST = -1, 4  # powers of ten of FLOPs for each byte
SLOW, FAST = 10, 16  # powers of ten of FLOP/s


@dataclass(frozen=True)
class Machine:
    """FLOP/s in bfloat16 and in float32, bytes/s, by a maker's data sheet or invented."""

    name: str
    half: float
    single: float
    bandwidth: float


MACHINES = (
    Machine("H100 SXM (data sheet)", 989e12, 67e12, 3.35e12),
    Machine("A100 80 GB (data sheet)", 312e12, 19.5e12, 2.04e12),
    Machine("a small GPU (invented)", 20e12, 10e12, 0.25e12),
)
OPERATIONS = ("product", "GELU", "LayerNorm")


def roofline(flops: float, moved: float, peak: float, bandwidth: float) -> tuple[float, str]:
    """The seconds that an operation takes at least, and what decides: "arithmetic" or "traffic"."""
    arithmetic, traffic = flops / peak, moved / bandwidth
    return max(arithmetic, traffic), "arithmetic" if arithmetic >= traffic else "traffic"


def cost(operation: str, rows: int, size: int) -> tuple[int, int]:
    """FLOPs and bytes of an operation on `rows` rows of 4096 numbers of `size` bytes each.

    product: with a square matrix of 4096. GELU: about 8 FLOPs a number; LayerNorm: about 7. Each matrix is read or
    written once.
    """
    numbers = rows * WIDTH
    if operation == "product":
        return 2 * numbers * WIDTH, (2 * numbers + WIDTH * WIDTH) * size
    return numbers * (8 if operation == "GELU" else 7), 2 * numbers * size


def draw_roofline(machine: Machine, operation: str, rows: int, size: int) -> Picture:
    """Draw the roof of a machine and the place of an operation below it."""
    peak = machine.half if size == 2 else machine.single
    flops, moved = cost(operation, rows, size)
    seconds, bound = roofline(flops, moved, peak, machine.bandwidth)
    intensity, reached = flops / moved, flops / seconds
    dtype = "bfloat16" if size == 2 else "float32"
    canvas = Canvas(LEFT + WIDE + MARGIN + 14, TOP + HIGH + 84)
    canvas.title(f"{operation}, {rows} {'row' if rows == 1 else 'rows'} of {WIDTH}, {dtype}")
    canvas.note(MARGIN, 40, f"{machine.name}: {peak / 1e12:g} TFLOP/s, {machine.bandwidth / 1e12:g} TB/s")
    plot = Plot(canvas, LEFT, TOP, WIDE, HIGH, SLOW, FAST)
    plot.frame()
    for power, name in ((12, "1 TFLOP/s"), (14, "100 TFLOP/s"), (10, "10 GFLOP/s")):
        plot.tick(power, name, rule=power > SLOW)
    for power in range(LOWEST, HIGHEST + 1):
        x = _across(power)
        canvas.note(x, TOP + HIGH + 12, f"{10.0**power:g}", "center")
        canvas.line([x, x], [TOP, TOP + HIGH], RULE, 0.5, level=2.5)
    canvas.note(LEFT + WIDE, TOP + HIGH + 27, "FLOPs for each byte", "right")
    ridge = log10(peak / machine.bandwidth)
    edge = log10(machine.bandwidth) + LOWEST
    plot.curve([LEFT, _across(ridge), LEFT + WIDE], [edge, log10(peak), log10(peak)], CURVE, 2)
    x, y = _across(log10(intensity)), plot.down(log10(reached))
    canvas.line([x, x], [y, TOP + HIGH], SOFT_INK, 0.8, level=3, dashes=(0, (3, 2)))
    canvas.marks([x], [y], "o", 9, ERROR_INK, 1)
    canvas.text(MARGIN, TOP + HIGH + 48, f"bound by {bound}: at least {_time(seconds)}", weight="bold")
    canvas.text(
        MARGIN,
        TOP + HIGH + 66,
        f"{intensity:.3g} FLOPs for each byte; the ridge of this machine is at {10**ridge:.0f}",
    )
    return Picture(canvas, _in_words(machine, operation, rows, dtype, intensity, 10**ridge, bound, seconds))


def roofline_explorer() -> Explorer:
    """Build the explorer: the machine, the operation, rows and dtype."""
    controls = {
        "machine": choice("machine", [(one.name, one) for one in MACHINES], MACHINES[0]),
        "operation": choice("operation", OPERATIONS, "product"),
        "rows": notched_slider("rows", ROWS, 64),
        "dtype": choice("dtype", [("bfloat16", 2), ("float32", 4)], 2),
    }
    return Explorer(
        controls,
        [["machine"], ["operation", "dtype"], ["rows"]],
        lambda state: draw_roofline(state["machine"], state["operation"], state["rows"], state["dtype"]),
    )


def _across(power: float) -> float:
    return round(LEFT + (min(max(power, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST) * WIDE, 1)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _in_words(
    machine: Machine, operation: str, rows: int, dtype: str, intensity: float, ridge: float, bound: str, seconds: float
) -> str:
    return (
        f"{operation} on {rows} rows of {WIDTH} in {dtype} on {machine.name}: {intensity:.3g} FLOPs for each byte, "
        f"where "
        f"the ridge is {ridge:.0f}. It is bound by {bound} and takes at least {_time(seconds)}."
    )
