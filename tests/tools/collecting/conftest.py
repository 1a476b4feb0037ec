"""A class into which something is collected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.grading import classroom
from torchkata.tools.course import Chapter


@pytest.fixture
def chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chapter]:
    """In a terminal as wide as the longest sentence, where git reads no settings but the tests' own."""
    (tmp_path / "class").mkdir()
    monkeypatch.chdir(tmp_path / "class")
    for name, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "COLUMNS": "300"}.items():
        monkeypatch.setenv(name, value)
    yield classroom.course(tmp_path / "class")
    assert not list((tmp_path / "class").glob(".collecting-*"))
