"""How the tests are run: see tests/plugins."""

import pytest

pytest.register_assert_rewrite("tests.pictures.drawn")  # what it says of a picture is told

pytest_plugins = (
    "tests.plugins.environment",
    "tests.plugins.notebook_rules",
    "tests.plugins.selection",
    "tests.plugins.groups",
    "tests.plugins.progress",
    "tests.plugins.resting",
)
