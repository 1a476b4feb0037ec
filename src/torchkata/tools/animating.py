"""Write the picture that the README opens with: an explorer's steps as one SVG that moves by itself.

python -m torchkata.tools.animating writes it anew. GitHub and PyPI run no script in a picture, but CSS.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchkata.pictures.explorer import Explorer
from torchkata.pictures.ring import ring_stepper
from torchkata.pictures.style import dark_colours, recolouring

FILE = Path(__file__).parent / "site" / "static" / "ring.svg"
SECONDS = 2.0  # that a step is shown
REST = 2  # steps that the last one is shown longer


def animated(svgs: Sequence[str]) -> str:
    """Return cards of one size as one SVG that shows them one after another, again and again.

    What all of them draw stands in it once. Who wants no motion sees the last card; a dark page gets dark colours.
    """
    cards = [svg.split("\n") for svg in svgs]
    head, shared = cards[0][0], [line for line in cards[0][1:-1] if all(line in card for card in cards)]
    shows = len(cards) + REST
    groups = []
    for number, card in enumerate(cards):
        own = [line for line in card[1:-1] if line not in shared]
        kind = "step last" if number == len(cards) - 1 else "step"
        groups.append(f'<g class="{kind}" style="animation-delay:{number * SECONDS:g}s">{"".join(own)}</g>')
    style = (
        f".step{{visibility:hidden;animation:shown {shows * SECONDS:g}s step-end infinite}}"
        f".last{{animation-name:last}}"
        f"@keyframes shown{{0%{{visibility:visible}}{100 / shows:.3f}%{{visibility:hidden}}}}"
        f"@keyframes last{{0%{{visibility:visible}}{100 * (1 + REST) / shows:.3f}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){.step{animation:none}.last{visibility:visible}}"
        f"{recolouring()}@media (prefers-color-scheme:dark){{svg{{{dark_colours()}}}}}"
    )
    return "\n".join([head, f"<style>{style}</style>", *shared, *groups, "</svg>", ""])


def steps_of(explorer: Explorer, name: str) -> list[str]:
    """The cards of an explorer from its start through all steps of one of its controls."""
    last = explorer.frame(explorer.start).limits[list(explorer.controls).index(name)]
    return [explorer.picture(explorer.moved(explorer.start, name, step)).svg for step in range(last + 1)]


def main() -> None:
    FILE.write_text(animated(steps_of(ring_stepper(), "step")), encoding="utf-8", newline="\n")
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
