"""What stands in the chapters, as JupyterLab shows it in light and in dark: axe finds nothing in it."""

from __future__ import annotations

import itertools
import shutil

import pytest

from tests import ROOT
from tests.axe import faults_in
from torchkata.tools.course import chapters
from torchkata.tools.placing import here

ALWAYS = "03_gather_scatter"
others = pytest.mark.exhaustive("the content of a further chapter in the browser")
CHAPTERS = [
    pytest.param(c.name, marks=() if c.name == ALWAYS else others) for c in chapters(here()) if c.release.exists()
]
THEMES = ("JupyterLab Light", "JupyterLab Dark")
PUT_ON = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => null)"
# all of it is rendered and unfolded, nothing waits for being scrolled to
ALL_THERE = "() => jupyterapp.shell.currentWidget.content.widgets.every(cell => cell.node.isConnected)"
UNFOLD = """() => {
    for (const fold of document.querySelectorAll('.jp-Notebook details')) fold.open = true;
    for (const cell of document.querySelectorAll('.jp-Notebook .jp-Cell')) cell.style.contentVisibility = 'visible';
}"""
# outputs of somebody else's notebook are shown without scripts and styles until one trusts it
TRUST = "trust => { for (const cell of jupyterapp.shell.currentWidget.content.widgets) cell.model.trusted = trust; }"
# not ours: what JupyterLab puts around the content
PARTS = ".jp-Notebook :is(.jp-RenderedHTMLCommon, .jp-OutputArea-output)"


@pytest.mark.parametrize("name", CHAPTERS)
def test_axe_finds_nothing_in_a_chapter(open_notebook, page, lab, name):
    """The author's notebook, run to the end; its outputs are stored, so nothing is run here."""
    place = f"{name}/{name[3:]}.ipynb"
    shutil.copy(ROOT / "solutions" / place, lab.workbook / place)
    open_notebook(place)
    page.wait_for_function(ALL_THERE)
    for theme, trust in itertools.product(THEMES, (False, True)):
        page.evaluate(PUT_ON, theme)
        page.evaluate(TRUST, trust)
        page.evaluate(UNFOLD)
        assert faults_in(page, PARTS) == [], (theme, trust)
