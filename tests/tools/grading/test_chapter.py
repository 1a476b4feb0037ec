"""The digest that decides what is graded anew: it changes with everything that decides on marks, wherever that lies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fresh_process import said_by
from torchkata.base.places import PACKAGE
from torchkata.tools.grading.chapter import digest_of

PROCESSES = (
    "referee",
    "grader",
    "sandbox.inside.zygote",
    "sandbox.inside.worker",
)  # what the processes that judge, and those they ask, load
DECIDE_NOTHING = {  # loaded there, and no mark depends on them
    *("torchkata", "torchkata.demos"),
    *("torchkata.tools", "torchkata.tools.errors", "torchkata.tools.placing"),
}
LOADED = """
import sys
{imports}
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "torchkata":
        print(name, module.__file__)
"""


@pytest.fixture(scope="module")
def judges() -> dict[str, Path]:
    """The files of the modules that judging loads, within the package."""
    imports = "\n".join(f"import torchkata.tools.grading.{name}" for name in PROCESSES)
    loaded = dict(line.split(" ", 1) for line in said_by(LOADED.format(imports=imports)).splitlines())
    return {name: Path(file).relative_to(PACKAGE) for name, file in loaded.items() if name not in DECIDE_NOTHING}


def package_copy(folder: Path) -> Path:
    for path in PACKAGE.rglob("*.py"):
        place = folder / path.relative_to(PACKAGE)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return folder


def digest_with_a_change(package: Path, file: Path) -> str:
    """The digest while one more byte stands in the file."""
    before = (package / file).read_bytes()
    (package / file).write_bytes(before + b"#")
    digest = digest_of(package)
    (package / file).write_bytes(before)
    return digest


def test_the_digest_changes_with_each_file_that_judging_loads(judges: dict[str, Path], tmp_path: Path):
    package = package_copy(tmp_path / "torchkata")
    whole = digest_of(package)
    assert whole == digest_of(PACKAGE)
    assert [name for name, file in judges.items() if digest_with_a_change(package, file) == whole] == []


@pytest.mark.parametrize(
    "file", ["tools/grading/handed_out/pages.py", "tools/grading/handed_out/results.py", "cli/teachers.py"]
)
def test_what_is_only_handed_out_grades_nobody_anew(file: str, tmp_path: Path):
    package = package_copy(tmp_path / "torchkata")
    assert digest_with_a_change(package, Path(file)) == digest_of(PACKAGE)
