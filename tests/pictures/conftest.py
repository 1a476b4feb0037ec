"""The test of `drawn.Look` is run for each picture of the gallery that a test class names."""

import pytest

from tests.pictures import drawn


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is not None and issubclass(metafunc.cls, drawn.Look):
        metafunc.parametrize("name", metafunc.cls.gallery)
