"""What pyproject.toml cannot say: a built package holds the course.

notebooks/, solutions/, nbgrader_config.py and pages for teachers lie beside src/, where an editable installation finds
them. Into a wheel they go as torchkata/course/.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
COURSE = (
    "notebooks/*/*",
    "solutions/*/*.py",
    "solutions/*/*.ipynb",
    "solutions/*/exercises/*.py",
    "solutions/*/ways/*.py",
    "nbgrader_config.py",
    "docs/plans.md",
    "docs/notes.md",
)


def course_files() -> list[Path]:
    """The files of the course, relative to its folder."""
    found = (path for pattern in COURSE for path in ROOT.glob(pattern))
    return sorted(path.relative_to(ROOT) for path in found if path.is_file())


class BuildWithCourse(build_py):
    """Copies the course into the package; an editable installation has it already."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.rmtree(self._target, ignore_errors=True)  # of an earlier build, which may hold what is no more
            for file in course_files():
                target = self._target / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        course = [] if self.editable_mode else [str(self._target / file) for file in course_files()]
        return [*super().get_outputs(include_bytecode), *course]

    @property
    def _target(self) -> Path:
        return Path(self.build_lib, "torchkata", "course")


setup(cmdclass={"build_py": BuildWithCourse})
