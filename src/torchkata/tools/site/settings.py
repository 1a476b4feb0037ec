"""What Sphinx is told: theme, extensions, and what a page's head says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from torchkata.tools.site import card
from torchkata.tools.site.folklore_pages import Sections
from torchkata.tools.site.home import Home
from torchkata.tools.site.live_pictures import PICTURES
from torchkata.tools.site.ways import Ways

NAME = "torchkata"
ABOUT = "A course on how PyTorch really works: notebooks whose exercises grade themselves, and folklore with proofs."
COLOURS = {
    "light": {"color-brand-primary": "#a8321a", "color-brand-content": "#a8321a", "color-brand-visited": "#7a3a5c"},
    "dark": {"color-brand-primary": "#ff9a7b", "color-brand-content": "#ff9a7b", "color-brand-visited": "#d9a3c4"},
}


def settings(at: Home, static: Sequence[Path], sections: Sections, ways: Ways) -> dict[str, object]:
    """Sphinx's settings. static: the folders with this site's styles and scripts, its own first."""
    return {
        "project": NAME,
        "author": "the torchkata authors",
        "copyright": "the torchkata authors. Text: CC BY 4.0, code: Apache 2.0",
        "extensions": ["myst_nb", *(f"torchkata.tools.site.{name}" for name in ("marks", "beliefs", "ways")), __name__],
        "root_doc": "index",
        "language": "en",
        "highlight_language": "text",
        "nb_execution_mode": "off",
        "nb_merge_streams": True,
        "myst_enable_extensions": ["colon_fence"],
        "myst_heading_anchors": 3,
        "torchkata_sections": dict(sections),
        "torchkata_home": asdict(at),
        "torchkata_ways": dict(ways),
        "html_theme": "furo",
        "html_title": NAME,
        "html_baseurl": at.address,
        "html_static_path": [str(folder) for folder in static],
        "html_css_files": ["site.css", f"{PICTURES}.css"],
        "html_js_files": [(name, {"defer": "defer"}) for name in ("site.js", "fit.js", f"{PICTURES}.js")],
        "html_favicon": str(static[0] / "favicon.svg"),
        "html_extra_path": ["extra"],
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_last_updated_fmt": None,
        "html_theme_options": _theme(),
        "pygments_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
        "exclude_patterns": ["extra", "static"],
    }


def _theme() -> dict[str, object]:
    colours: dict[str, object] = {f"{kind}_css_variables": colours for kind, colours in COLOURS.items()}
    return colours | {"top_of_page_buttons": []}


def open_graph(app: Any, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Say what a page is to those who show a card for a link to it."""
    title = context.get("title") or NAME
    told = {"og:type": "website", "og:site_name": NAME, "og:title": title, "og:description": ABOUT}
    named = {"description": ABOUT, "color-scheme": "light dark"}
    if address := app.config.html_baseurl:
        told["og:url"] = f"{address}{'' if page == 'index' else page + '.html'}"
        told |= {"og:image": f"{address}_static/{card.FILE.name}", "og:image:alt": card.ALT}
        told |= {"og:image:width": str(card.WIDTH), "og:image:height": str(card.HEIGHT)}
        named["twitter:card"] = "summary_large_image"
    lines = [f'<meta property="{name}" content="{escape(text)}">' for name, text in told.items()]
    lines += [f'<meta name="{name}" content="{escape(text)}">' for name, text in named.items()]
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def own_script(app: Any, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Give the pages that do more than others the script that does it."""
    if page in ("search", "review"):
        app.add_js_file(f"{page}.js", loading_method="defer")


def setup(app: Any) -> dict[str, Any]:
    app.connect("html-page-context", open_graph)
    app.connect("html-page-context", own_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
