"""nbgrader's package without its server: what is asked of it is there, and what is not asked is not loaded."""

from __future__ import annotations

import pytest

from tests.fresh_process import said_by

BEFORE = "import sys, torchkata.tools.nbgrader_package\n"
SERVER = ("nbgrader.server_extensions", "nbgrader.exchange", "nbconvert", "jupyter_server")


def test_the_gradebook_loads_nothing_of_the_server():
    code = f"import nbgrader.api, nbgrader.coursedir; print([n for n in {SERVER} if n in sys.modules])"
    assert said_by(BEFORE + code) == "[]"


def test_a_grading_run_loads_nothing_of_the_server():
    """Its settings included, which name the steps of nbgrader's converters."""
    code = (
        "import torchkata.tools.grading.batch; from pathlib import Path\n"
        "from torchkata.tools.course_config import course_config\n"
        "config = course_config(Path.cwd(), steps=False)\n"
        f"print(config.CourseDirectory.course_id, [n for n in {SERVER} if n in sys.modules])"
    )
    assert said_by(BEFORE + code) == "torchkata []"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nbgrader; print(nbgrader.__version__ > '0.9')", "True"),
        ("from nbgrader import utils; print(utils.__name__)", "nbgrader.utils"),
        ("import nbgrader.apps.nbgraderapp; print('well')", "well"),
        ("import nbgrader.server_extensions.formgrader.handlers; print('well')", "well"),
        ("import nbgrader; print(nbgrader._jupyter_server_extension_points()[0]['module'])", "nbgrader"),
        ("import nbgrader; print(hasattr(nbgrader, 'nothing_of_this_name'))", "False"),
    ],
)
def test_all_that_the_package_has_is_there_for_whoever_asks(code: str, says: str):
    assert said_by(BEFORE + code) == says
