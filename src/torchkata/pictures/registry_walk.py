"""A module with its three registries, the modules in it, and what each walk over them takes along."""

from __future__ import annotations

from dataclasses import dataclass

from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.show import Picture
from torchkata.pictures.style import BLANK, GREEN, MARGIN, ORANGE, SKY, SMALL, UNUSED

LINE, CHIP, LABEL, GAP = 25, 17, 72, 6  # points: from row to row, height of a name's box, width of a row's name
LEFT, RIGHT = (MARGIN, 200.0), (250.0, 330.0)  # the left edge and the width of the cards
TOP, HEAD, LOW = 50, 30, 14  # the upper edge of the cards, the height of their headings, room below the last row
FILLS = {"_parameters": SKY, "_buffers": GREEN, "_modules": ORANGE, "other": UNUSED}
WIDTHS = {"num_batches_tracked": 100, "running_mean": 68, "running_var": 62}  # of the boxes for long names


@dataclass(frozen=True)
class Entry:
    """A module as the picture draws it: its name, its class, and the names in each of its registries."""

    name: str
    kind: str
    parameters: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


NET = Entry("net", "Net", ("scale",), ("mean",), ("fc", "norm"), ("size", "extra"))
FC = Entry("fc", "Linear", ("weight", "bias"))
NORM = Entry("norm", "BatchNorm1d", ("weight", "bias"), ("running_mean", "running_var", "num_batches_tracked"))
LEGEND = (
    ((SKY,), "parameters(), zero_grad()"),
    ((SKY, GREEN), "state_dict(), .to(), .double()"),
    ((BLANK,), "each module: train(), eval(), apply()"),
    ((UNUSED,), "no walk gets here"),
)


def registry_walk() -> Picture:
    """Draw a net with its registries and the two modules in it."""
    child = HEAD + 3 * LINE + LOW - (LINE - CHIP)
    below = TOP + 2 * child + 14
    canvas = Canvas(RIGHT[0] + RIGHT[1] + MARGIN, below + 58)
    canvas.title("A module, and the modules in it")
    canvas.note(MARGIN, 36, "three dicts, filled by assignment; everything that you ask of a model walks over them")

    entries = _card(canvas, NET, LEFT, TOP, 2 * child + 14)
    for number, inner in enumerate((FC, NORM)):
        top = TOP + number * (child + 14)
        _card(canvas, inner, RIGHT, top, child)
        chip = entries[inner.name]
        edge, middle = sum(LEFT), chip.y + CHIP / 2
        canvas.line((chip.x + chip.width + 2, edge), (middle, middle))
        canvas.arrow((edge, middle), (RIGHT[0] - 3, top + HEAD / 2))
    for number, (fills, words) in enumerate(LEGEND):
        x, y = MARGIN + 300 * (number % 2), below + 14 + 20 * (number // 2)
        canvas.cells([Cell(x + 20 * place, y, "", fill, width=16, height=14) for place, fill in enumerate(fills)])
        canvas.text(x + 20 * len(fills) + 4, y + 7, words, SMALL)
    return Picture(canvas, _in_words())


def _card(canvas: Canvas, entry: Entry, place: tuple[float, float], top: float, height: float) -> dict[str, Cell]:
    """Draw a module, and return the boxes of its names."""
    x, width = place
    canvas.cells([Cell(x, top, "", BLANK, width=width, height=height)])
    canvas.text(x + 8, top + HEAD / 2, entry.name, weight="bold")
    canvas.note(x + width - 8, top + HEAD / 2, entry.kind, "right")
    chips: dict[str, Cell] = {}
    y = top + HEAD
    for registry, rows in _rows(entry):
        canvas.note(x + 8, y + CHIP / 2, "other attributes" if registry == "other" else registry)
        if registry == "other":
            y += LINE
        for names in rows or [()]:
            across = x + LABEL
            if not names:
                canvas.note(across, y + CHIP / 2, "empty")
            for name in names:
                chips[name] = Cell(across, y, name, FILLS[registry], width=WIDTHS.get(name, 44), height=CHIP)
                across += chips[name].width + GAP
            y += LINE
    canvas.cells(list(chips.values()))
    return chips


def _rows(entry: Entry) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Each registry with its rows of names: modules one below the other, all else side by side."""
    rows: list[tuple[str, list[tuple[str, ...]]]] = [
        ("_parameters", [entry.parameters] if entry.parameters else []),
        ("_buffers", [entry.buffers] if entry.buffers else []),
        ("_modules", [(name,) for name in entry.modules]),
    ]
    if entry.other:
        rows.append(("other", [entry.other]))
    return rows


def _in_words() -> str:
    told = [
        f"{entry.name}, a {entry.kind}: _parameters {_listed(entry.parameters)}; _buffers {_listed(entry.buffers)}; "
        f"_modules {_listed(entry.modules)}" + (f"; other attributes {_listed(entry.other)}" if entry.other else "")
        for entry in (NET, FC, NORM)
    ]
    walks = (
        "parameters() and zero_grad() take the parameters; state_dict(), .to() and .double() parameters and buffers; "
        "train(), eval() and apply() reach each module; no walk reaches other attributes"
    )
    return f"A module and the modules in it. {'. '.join(told)}. {walks}."


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "empty"
