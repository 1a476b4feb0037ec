"""Pictures as the website shows them: the drawing stands in the page, the frames of explorers come when they are near.

One script and one style serve all of them (PICTURES.js and .css); a notebook's own copies are left out.
"""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from nbformat import NotebookNode

from torchkata.pictures.image import svg_in
from torchkata.pictures.packing import spec_in
from torchkata.pictures.page import SCRIPTS, STYLES

PICTURES = "pictures"  # the names of script and style in the site's static folder
FOLDER = "frames"
HTML = "text/html"
IDENTITY = re.compile(r'<div class="torchkata-picture" data-id="(\w+)">')
FRAMES = re.compile(r'<script type="text/plain" class="tk-frames">(.*?)</script>', re.S)


def is_picture(output: NotebookNode) -> bool:
    """Whether an output is a picture of the course, with controls or without."""
    return IDENTITY.match(output.get("data", {}).get(HTML, "")) is not None


def picture_of(output: NotebookNode, up: str) -> tuple[str, dict[str, str]]:
    """A picture as HTML, and its frames by its name; `up` leads from its page to the top of the site."""
    shown, words = output.data[HTML], " ".join(output.data["text/plain"].split())
    identity = IDENTITY.match(shown)
    assert identity is not None, "only for what is_picture"
    name, frames = identity[1], FRAMES.search(shown)
    drawing = svg_in(shown).replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1)
    where = f' data-frames="{up}{FOLDER}/{name}.js"' if frames else ""
    html = (
        f'<div class="torchkata-picture" data-id="{name}"{where}>'
        f'<div class="tk-live"><div class="tk-stage">{drawing}</div></div>'
        f"<details><summary>This picture in words</summary><p>{escape(words)}</p></details>"
        f"{_controls(frames[1]) if frames else ''}</div>"
    )
    return html.replace("\n", ""), {name: frames[1]} if frames else {}


def _controls(packed: str) -> str:
    """What the page is told of the controls, beside the picture: they stand there before the frames come."""
    told = json.dumps(spec_in(packed), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" class="tk-spec">{told}</script>'


def write_frames(folder: Path, frames: dict[str, str]) -> None:
    """Write the frames of each explorer as a script that hands them over; file: addresses allow no other way."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, packed in frames.items():
        (folder / f"{name}.js").write_text(f'torchkataFrames("{name}","{packed}");\n', encoding="utf-8", newline="\n")


def write_assets(folder: Path) -> None:
    """Write the script and the style that serve all pictures of the site."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{PICTURES}.js").write_text("\n".join(script() for script in SCRIPTS) + "\n", encoding="utf-8")
    (folder / f"{PICTURES}.css").write_text("\n".join(style() for style in STYLES) + "\n", encoding="utf-8")
