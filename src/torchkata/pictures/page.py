"""A picture as HTML that needs nothing else: an image and its words, and a script that makes it live where scripts run.

Where they don't (a notebook that is not trusted, a viewer on the web) the image and the words stay.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchkata.pictures.style import DARK

HERE = Path(__file__).parent
IN_THE_DARK = (  # how JupyterLab, the website (furo), VS Code and Colab say that their page is dark
    'body[data-jp-theme-light="false"]',
    'body[data-theme="dark"]',
    "body.vscode-dark",
    'html[theme="dark"]',
)
WHERE_THE_SYSTEM_SAYS = 'body[data-theme="auto"]'  # furo: as the system has it


def picture_html(svg: str, words: str, spec: Mapping[str, Any], packed: str) -> tuple[str, str]:
    """Return the HTML of a picture with these controls and frames, and the name that it has on its page."""
    told = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    identity = hashlib.sha256((told + packed + svg).encode()).hexdigest()[:12]
    still = '<p class="tk-still">Run this cell to make the picture move.</p>' if spec else ""
    parts = [
        f'<div class="torchkata-picture" data-id="{identity}">',
        f"{image_html(svg, words)}{still}",
        f"<details><summary>This picture in words</summary><p>{html.escape(words)}</p></details>",
        f"<script>{still_script()}</script>",
    ]
    if spec:
        parts += [
            f'<script type="application/json" class="tk-spec">{told}</script>',
            f'<script type="text/plain" class="tk-frames">{packed}</script>',
            f"<script>{explorer_script()}</script>",
        ]
    return "\n".join([*parts, "</div>"]), identity


def without_scripts(text: str) -> str:
    """The HTML of a picture without what makes it live; the frames and what is told of the controls stay in it."""
    return re.sub(r"\n<script>.*?</script>", "", text, flags=re.S)


def image_html(svg: str, words: str) -> str:
    """Return the SVG as an <img> element with its words as alternative text."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(words)}" style="max-width: 100%" src="data:image/svg+xml;base64,{data}">'


@cache
def still_script() -> str:
    """What every picture brings along: the drawing instead of its image, in the colours of the page."""
    return _script("still.js", still_style())


@cache
def explorer_script() -> str:
    """What a picture with controls brings along beside it."""
    return _script("explorer.js", explorer_style())


@cache
def still_style() -> str:
    """The style of every picture, with the colours of a dark page."""
    return _style("still.css") + _recoloured()


@cache
def explorer_style() -> str:
    """The style of controls."""
    return _style("explorer.css")


SCRIPTS, STYLES = (still_script, explorer_script), (still_style, explorer_style)


def _script(name: str, style: str) -> str:
    lines = (line.strip() for line in (HERE / name).read_text(encoding="utf-8").splitlines())
    bare = "\n".join(line for line in lines if line and not line.startswith("//"))
    return f"(() => {{ const STYLE = {json.dumps(style)};\n{bare}\n}})();"


def _style(name: str) -> str:
    source = (HERE / name).read_text(encoding="utf-8")
    return re.sub(r"\s*\n\s*", "", re.sub(r"/\*.*?\*/", "", source, flags=re.S))


def _recoloured() -> str:
    """Rules by which each colour of a picture becomes another on a dark page."""
    names = {colour: f"--tk-{number}" for number, colour in enumerate(DARK)}
    rules = "".join(
        f'[{what}="{colour}"]{{{what}:var({name},{colour})}}'
        for colour, name in names.items()
        for what in ("fill", "stroke")
    )
    dark = ";".join(f"{names[colour]}:{other}" for colour, other in DARK.items()) + ";color-scheme:dark"
    selectors = ",".join(f"{place} .torchkata-picture" for place in IN_THE_DARK)
    system = f"@media (prefers-color-scheme:dark){{{WHERE_THE_SYSTEM_SAYS} .torchkata-picture{{{dark}}}}}"
    return f".torchkata-picture{{{rules}}}{selectors}{{{dark}}}{system}"
