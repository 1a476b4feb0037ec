"""A released notebook where torch and Jupyter are there and torchkata is not, as on Colab."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import nbformat
import pytest

from tests import ROOT
from tests.installing.package import Installed, bare, build, source_tree
from torchkata.tools.colab import INSTALL, write_for_colab
from torchkata.tools.course import find_chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.missing import NOTICE, imported_names, imports_told, with_notice, without_notice
from torchkata.tools.placing import here

RUN = Path(__file__).with_name("notebook_run.py")
CHAPTER = ROOT / "notebooks" / "03_gather_scatter" / "gather_scatter.ipynb"
a_further_place = pytest.mark.exhaustive("notebooks for Colab", thorough=True)
TOLD = "torchkata is not installed here. Run %pip install torchkata in a cell of its own, then this cell again."


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return bare(tmp_path_factory.mktemp("without") / "venv")


def outputs(environment: Installed, notebook: Path, *more: str, **variables: str) -> list[list[dict]]:
    """What each code cell of a notebook, and of cells after it, puts out in an environment."""
    surroundings = {k: v for k, v in environment.environment.items() if k != "JUPYTER_PATH"} | variables
    done = subprocess.run(
        [str(environment.python), str(RUN), str(notebook), *more],
        cwd=notebook.parent,
        env=surroundings,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_really_missing(without: Installed, tmp_path: Path):
    found = without.run_python("-c", "import torch, ipykernel; import torchkata", cwd=tmp_path)
    assert "ModuleNotFoundError: No module named 'torchkata'" in found.stderr


def test_one_line_and_nothing_red_after_it(without: Installed):
    setup = next(c.source for c in nbformat.read(CHAPTER, as_version=4).cells if c.cell_type == "code")
    here = f"# as pip install does\nimport sys; sys.path.insert(0, {str(ROOT / 'src')!r}); print('it came')"
    first, *others, came, again, after = outputs(without, CHAPTER, here, setup, "print(error_of)")
    assert first == [{"error": "NotInstalled", "lines": [TOLD]}]
    printed = {"".join(out.get("text", out.get("error")) for out in one) for one in others}
    assert len(others) > 50 and printed == {f"{TOLD}\n"}
    assert "".join(out["text"] for out in came) == "it came\n"
    assert again == []
    assert "function error_of" in after[0]["text"]


@pytest.mark.parametrize("chapter", find_chapters(here(), with_side_notebooks=True), ids=lambda chapter: chapter.name)
def test_every_released_notebook_says_it(chapter):
    cells = [c for c in nbformat.read(chapter.release, as_version=4).cells if c.cell_type == "code"]
    assert cells[0].source.partition("\n")[2].startswith(NOTICE)
    assert not [cell for cell in cells[1:] if "find_spec(" in cell.source]
    assert not any(NOTICE in cell.source for cell in chapter.master.cells)


@pytest.mark.parametrize("chapter", find_chapters(here(), with_side_notebooks=True), ids=lambda chapter: chapter.name)
def test_the_first_cell_is_one_line_that_says_what_it_imports(chapter):
    """JupyterLab shows the first line of a folded cell, and a hundred characters of it."""
    first = next(c for c in nbformat.read(chapter.release, as_version=4).cells if c.cell_type == "code")
    assert first.metadata.jupyter == {"source_hidden": True}
    line = first.source.partition("\n")[0]
    assert line.startswith("# Run this first. It ") and len(line) < 100
    imported = imported_names(without_notice(first.source))
    assert [
        name for name in ("torch", "nn", "F", "Tensor") if name in imported and not re.search(rf"\b{name}\b", line)
    ] == []


@pytest.mark.parametrize(
    "setup, told",
    [
        (
            "import math\nimport torch.nn.functional as F\nfrom torchkata.verdicts import check",
            "It imports F and math.",
        ),
        ("import os.path\nimport torch\nfrom torch import Tensor, nn", "It imports torch, Tensor, nn and os."),
        ("from torchkata.facts import prove\n\nprove()", "It loads what this page needs."),
        (
            "\n".join(f"import a_long_name_{n}" for n in range(9)),
            "a_long_name_0, a_long_name_1, a_long_name_2 and 6 more.",
        ),
    ],
)
def test_a_line_says_what_is_imported(setup: str, told: str):
    assert imports_told(setup).endswith(told)


def test_the_notice_comes_off_again():
    assert without_notice(with_notice("import torch")) == without_notice("import torch") == "import torch"


def test_the_notice_of_an_earlier_release_comes_off_too():
    """A workbook keeps it; its first cell is no cell that the learner has written."""
    earlier = NOTICE.replace("then this cell again", "and try again")  # and without the line above it
    assert earlier != NOTICE
    assert without_notice(earlier + "import torch\n\nimport math") == "import torch\n\nimport math"
    assert without_notice("from importlib.util import find_spec\n\nprint(1)\n\nprint(2)").startswith("from importlib")


# ---------------------------------------------------------------- Colab


@a_further_place
def test_for_colab_each_notebook_installs_first(tmp_path: Path):
    written = write_for_colab(find_chapters(here(), ["03", "start"], with_side_notebooks=True), tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == [
        "03_gather_scatter/gather_scatter.ipynb",
        "start.ipynb",
    ]
    install, *cells = nbformat.read(written[0], as_version=4).cells
    assert install.source == INSTALL and "nbgrader" not in install.metadata
    assert cells == nbformat.read(CHAPTER, as_version=4).cells
    with pytest.raises(CourseError, match="holds other things already"):
        write_for_colab(find_chapters(here(), ["03"]), tmp_path / "out")


@a_further_place
def test_a_notebook_for_colab_installs_and_runs(tmp_path: Path):
    wheel = build("wheel", source_tree(tmp_path / "tree"), tmp_path / "dist")
    [page] = write_for_colab(find_chapters(here(), ["start"], with_side_notebooks=True), tmp_path / "out")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent), "PIP_NO_DEPS": "1", "PIP_IGNORE_INSTALLED": "1"}
    environment = bare(tmp_path / "venv")
    _, setup, demo, *rest = outputs(environment, page, **pip, PIP_CONFIG_FILE=os.devnull)
    assert setup == []
    assert "2.5" in demo[0]["text"]
    errors = [one["error"] for cell in rest for one in cell if "error" in one]
    assert errors == ["NotSolvedYet"], rest
