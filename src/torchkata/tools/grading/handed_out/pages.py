"""The HTML pages of grading: their templates, and what stands on each of them. A page needs no other file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from torchkata import __version__


def rendered(template: str, **values: object) -> str:
    """The page that a template makes of these values, as HTML. All values are escaped."""
    about = {"graded": shown_date(datetime.now(UTC)), "release": f"torchkata {__version__}"}
    return _templates().get_template(template).render(**about, **values)


def shown_date(when: datetime) -> str:
    """A date in UTC, such as 22 November 2026, 14:05 UTC."""
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("torchkata.tools.grading.handed_out", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
