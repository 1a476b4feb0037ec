"""A picture as HTML that needs nothing else: an image and its words, and a script that makes it live where scripts run.

Where they don't (a notebook that is not trusted, a viewer on the web) the image and the words stay.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from torchkata.pictures.image import image_html
from torchkata.pictures.packing import packed_text
from torchkata.pictures.style import dark_colours, recolouring

HERE = Path(__file__).parent
IN_THE_DARK = (  # how JupyterLab, the website (furo), VS Code and Colab say that their page is dark
    'body[data-jp-theme-light="false"]',
    'body[data-theme="dark"]',
    "body.vscode-dark",
    'html[theme="dark"]',
)
WHERE_THE_SYSTEM_SAYS = 'body[data-theme="auto"]'  # furo: as the system has it


def picture_html(svg: str, words: str, packed: str = "") -> tuple[str, str]:
    """Return the HTML of a picture, with controls where there are packed frames, and the name it has on its page."""
    identity = hashlib.sha256((packed + svg).encode()).hexdigest()[:12]
    still = '<p class="tk-still">Run this cell to make the picture move.</p>' if packed else ""
    frames = f'\n<script type="text/plain" class="tk-frames">{packed}</script>' if packed else ""
    start = f'<div class="torchkata-picture" data-id="{identity}">\n{image_html(svg, words)}{still}{frames}'
    return f"{start}{code_html(bool(packed))}\n</div>", identity


def without_scripts(text: str) -> str:
    """The HTML of a picture without what makes it live; the frames stay in it."""
    return re.sub(r'\n<script( type="text/plain" class="tk-code")?>.*?</script>', "", text, flags=re.S)


@cache
def code_html(with_controls: bool) -> str:
    """What a picture brings along that makes it live."""
    script = f"{still_script()}\n{explorer_script()}" if with_controls else still_script()
    return f'\n<script type="text/plain" class="tk-code">{packed_text(script)}</script>\n<script>{loader()}</script>'


@cache
def loader() -> str:
    """What runs the code of a picture."""
    return _bare("loader.js")


@cache
def still_script() -> str:
    """The script of every picture: the drawing instead of its image, in the colours of the page."""
    return _script("still.js", still_style())


@cache
def explorer_script() -> str:
    """The script of pictures with controls, which runs after that of every picture."""
    return f"{keys_script()}\n{_script('explorer.js', explorer_style())}"


@cache
def keys_script() -> str:
    """The script by which controls keep the keys that JupyterLab would take."""
    return _bare("keys.js")


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
    return f"(() => {{ const STYLE = {json.dumps(style)};\n{_bare(name)}\n}})();"


def _bare(name: str) -> str:
    """A script without its comments and indentation."""
    lines = (line.strip() for line in (HERE / name).read_text(encoding="utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _style(name: str) -> str:
    source = (HERE / name).read_text(encoding="utf-8")
    return re.sub(r"\s*\n\s*", "", re.sub(r"/\*.*?\*/", "", source, flags=re.S))


def _recoloured() -> str:
    """Rules by which each colour of a picture becomes another on a dark page."""
    selectors = ",".join(f"{place} .torchkata-picture" for place in IN_THE_DARK)
    dark = f"{dark_colours()};color-scheme:dark"
    system = f"@media (prefers-color-scheme:dark){{{WHERE_THE_SYSTEM_SAYS} .torchkata-picture{{{dark}}}}}"
    return f".torchkata-picture{{{recolouring()}}}{selectors}{{{dark}}}{system}"
