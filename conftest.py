"""How the tests are run: see tests/plugins."""

pytest_plugins = (
    "tests.plugins.environment",
    "tests.plugins.notebook_rules",
    "tests.plugins.selection",
    "tests.plugins.groups",
    "tests.plugins.progress",
)
