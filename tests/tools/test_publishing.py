"""make release: both archives, the version everywhere, a dated changelog; and nothing changed where it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.installing.package import source_tree
from torchkata.tools import publishing
from torchkata.tools.course import chapters
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import here
from torchkata.tools.publishing import release

CHANGED = list(publishing.CHANGES)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """What a release changes, without the rest."""
    root = tmp_path / "small"
    releases = [chapter.release.relative_to(ROOT) for chapter in chapters(here())]
    for name in (*CHANGED, *releases):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


def texts(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text(encoding="utf-8") for name in CHANGED}


def test_a_release(tmp_path: Path):
    root = source_tree(tmp_path / "tree")
    before = texts(root)
    made = release(root, "99.1", "2027-03-04")
    assert [path.name for path in made] == ["torchkata-99.1-py3-none-any.whl", "torchkata-99.1.tar.gz"]
    assert {path.parent for path in made} == {root / "dist"}
    module, changelog, citation, _ = texts(root).values()
    assert '__version__ = "99.1"' in module
    assert "## Unreleased\n\n## 99.1, 2027-03-04\n\n- " in changelog
    cited = yaml.safe_load(citation)
    assert (cited["version"], str(cited["date-released"])) == ("99.1", "2027-03-04")
    with pytest.raises(CourseError, match="says nothing below `## Unreleased`"):
        release(root, "99.2", "2027-03-05")
    assert texts(root) != before
    metadata = zipfile.ZipFile(made[0]).read("torchkata-99.1.dist-info/METADATA").decode()
    assert "License-Expression: Apache-2.0 AND CC-BY-4.0" in metadata
    assert re.findall(r"^License-File: (.+)$", metadata, re.M) == ["LICENSE", "LICENSE-TEXT.md"]
    with pytest.raises(CourseError, match="lacks"):
        publishing.check(_without(made[0], "torchkata/cli/__init__.py", tmp_path), "99.1")
    with tarfile.open(made[1]) as sdist:
        assert "torchkata-99.1/tests/tools/test_publishing.py" in sdist.getnames()


def _without(wheel: Path, name: str, folder: Path) -> Path:
    smaller = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(smaller, "w") as new:
        for one in old.namelist():
            if one != name:
                new.writestr(one, old.read(one))
    return smaller


@pytest.mark.parametrize(
    "version, told",
    [("0.0.1", "is not newer than"), ("next", "next is no version"), ("v", "no version")],
)
def test_a_version_that_is_refused(small: Path, version: str, told: str):
    before = texts(small)
    with pytest.raises(CourseError, match=told):
        release(small, version, "2027-03-04")
    assert texts(small) == before and not (small / "dist").exists()


def test_a_build_that_fails_changes_nothing(small: Path):
    before = texts(small)
    (small / "pyproject.toml").write_text("[project]\nname = 3", encoding="utf-8")
    with pytest.raises(CourseError, match="could not be built"):
        release(small, "99.1", "2027-03-04")
    assert texts(small) == before and not (small / "dist").exists()


def test_without_a_version():
    command = [sys.executable, "-m", "torchkata.tools.publishing"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert told.returncode == 1 and told.stderr == "Say which version: make release VERSION=0.2.0\n"


def test_the_citation_is_of_the_version_that_is_here():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f'"{cited["version"]}"' in (ROOT / "src" / "torchkata" / "__init__.py").read_text(encoding="utf-8")
    assert cited["cff-version"] == "1.2.0" and cited["license"] == ["Apache-2.0", "CC-BY-4.0"]
