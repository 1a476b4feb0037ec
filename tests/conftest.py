"""Fixtures of more than one file."""

from pathlib import Path

import pytest

from tests.notebooks import running


@pytest.fixture(scope="session")
def marks_of(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> running.MarksOf:
    """What check cells say of an answer; each answer is run once in a test run, whichever file asks."""
    own = tmp_path_factory.getbasetemp()
    is_one_of_several = hasattr(request.config, "workerinput")  # then the folder above belongs to all of them
    return running.remembering(Path(own.parent if is_one_of_several else own) / "marks")
