"""A fresh process draws every picture with the same bytes and words, whatever the learner has set."""

import hashlib
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

OWN_SETTINGS = {
    "font.size": 20,
    "font.family": "monospace",
    "lines.antialiased": False,
    "lines.dash_capstyle": "round",
    "lines.dash_joinstyle": "miter",
    "lines.linestyle": ":",
    "lines.linewidth": 5,
    "lines.marker": "o",
    "lines.markeredgewidth": 4,
    "lines.scale_dashes": False,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "bevel",
    "markers.fillstyle": "none",
    "patch.linewidth": 5,
    "savefig.bbox": "tight",
    "savefig.facecolor": "red",
    "svg.fonttype": "path",
    "svg.hashsalt": "x",
}
ELSEWHERE = """
import json, sys
settings, modules = json.load(sys.stdin)
sys.path.insert(0, {root!r})
from matplotlib import rcParams
rcParams.update(settings)
from tests.pictures.test_same_bytes import fingerprints
print(json.dumps({{module: fingerprints(module) for module in modules}}))
"""


def with_a_gallery() -> list[str]:
    files = sorted(Path(__file__).parent.glob("test_*.py"))
    return [file.stem for file in files if "\nGALLERY = " in file.read_text(encoding="utf-8")]


def fingerprints(module: str) -> dict[str, str] | None:
    """A hash of each picture in a module's gallery; None where what it draws is not installed."""
    try:
        gallery = importlib.import_module(f"tests.pictures.{module}").GALLERY
    except pytest.skip.Exception:
        return None
    return {name: hashlib.sha256((p.svg + p.alt).encode()).hexdigest() for name, p in gallery.items()}


@pytest.fixture(scope="module")
def drawn_elsewhere() -> dict[str, dict[str, str] | None]:
    """The fingerprints of all galleries, drawn in a process of their own."""
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE.format(root=str(ROOT))],
        input=json.dumps([OWN_SETTINGS, with_a_gallery()]),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
    )
    return json.loads(run.stdout)


@pytest.mark.exhaustive("a picture drawn anew in a process of its own", thorough=True)
@pytest.mark.parametrize("module", with_a_gallery())
def test_another_process_with_the_learners_own_settings_draws_the_same_bytes(module, drawn_elsewhere):
    assert drawn_elsewhere[module] == fingerprints(module)
