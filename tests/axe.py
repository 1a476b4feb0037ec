"""What axe finds wrong in a page: https://github.com/dequelabs/axe-core/blob/develop/doc/API.md"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOWN = 3  # places of each fault
# all rules are applied, and what keeps to them is not listed, which takes half the time
OPTIONS = {"resultTypes": ["violations"]}


def faults_in(page: Page, part: str | None = None) -> list[tuple[str, int, list[str]]]:
    """Each rule that is broken in the page, or in the part of it that a CSS selector finds: its name, in how many
    places, and the first of them as HTML."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    found = axe.Axe().run(page, context=part, options=OPTIONS).response["violations"]
    return [(one["id"], len(one["nodes"]), [node["html"][:150] for node in one["nodes"]][:SHOWN]) for one in found]
