"""The card that is shown for a link to the website where somebody shares one.

python -m torchkata.tools.site.card draws it anew: an SVG, of which Chromium makes a PNG, since hosts show no SVG in a
card. That needs Playwright and Chromium. Building the website does not: the PNG is kept, with the digest of its SVG.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from pathlib import Path

from torchkata.pictures.ring import draw_ring
from torchkata.pictures.style import CARD, FONTS, INK, SOFT_INK

FILE = Path(__file__).parent / "static" / "card.png"
WIDTH, HEIGHT = 1200, 630  # pixels, the size that is asked for everywhere
ALT = "torchkata: a course on how PyTorch really works. Beside it four ranks pass chunks of numbers around a ring."
SENTENCE = ("A course on how PyTorch", "really works: notebooks", "whose exercises grade", "themselves.")
BRAND = "#a8321a"
TICK = "M8 17l5 5 11-13"  # of the website's favicon, which is 32 wide
RING = (4, 4)  # ranks and step: half of the chunks are complete
SEEN = (54, 92, 318, 190)  # the boxes and arrows in that picture: x, y, width and height
DIGEST = "Source"  # the name of the text in the PNG


def card_svg() -> str:
    """The card: a name, a sentence, and one of the course's pictures."""
    words = "".join(f'<tspan x="88" dy="56">{line}</tspan>' for line in SENTENCE)
    _, _, drawn = draw_ring(*RING).svg.partition("\n")  # without the head of its <svg>
    x, y, width, height = SEEN
    place = f'x="626" y="172" width="{1.65 * width:g}" height="{1.65 * height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="{FONTS}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{CARD}"/>',
            f'<rect width="{WIDTH}" height="20" fill="{BRAND}"/>',
            f'<g transform="translate(88 146) scale(2.6)"><rect width="32" height="32" rx="7" fill="{BRAND}"/>'
            f'<path d="{TICK}" fill="none" stroke="#fff" stroke-width="4" stroke-linecap="round"/></g>',
            f'<text x="192" y="210" font-size="66" font-weight="bold" fill="{INK}">torchkata</text>',
            f'<text y="270" font-size="38" fill="{SOFT_INK}">{words}</text>',
            f'<svg {place} viewBox="{x} {y} {width} {height}">{drawn}',
            "</svg>",
        ]
    )


def digest(svg: str) -> str:
    return hashlib.sha256(svg.encode()).hexdigest()[:16]


def as_png(svg: str) -> bytes:
    """The card as Chromium shows it, in 64 colours, which are as many as it needs."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_content(f'<body style="margin:0">{svg}')
        shot = page.screenshot()
        browser.close()
    told = PngImagePlugin.PngInfo()
    told.add_text(DIGEST, digest(svg))
    out = io.BytesIO()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(64).save(out, "PNG", optimize=True, pnginfo=told)
    return out.getvalue()


def main() -> None:
    FILE.write_bytes(as_png(card_svg()))
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
