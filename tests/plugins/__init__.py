"""Parts of the test run itself, loaded by the conftest.py at the root."""
