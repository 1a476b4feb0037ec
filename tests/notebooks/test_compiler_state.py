"""The settings of torch's compiler that an answer changes end with its check."""

import pytest
import torch._dynamo

from tests.notebooks import running
from tests.notebooks.answers import answers_of

CHAPTER = "14_compile"
CHANGING = [("what-happened", "sets a setting and leaves it"), ("over-the-limit", "raises the limit")]


@pytest.mark.parametrize("exercise, name", CHANGING)
def test_settings_are_as_before(exercise: str, name: str):
    (answer,) = [one for one in answers_of(CHAPTER, exercise) if one.name == name]
    before = torch._dynamo.config.get_config_copy()
    running.grade(CHAPTER, exercise, answer.source)
    assert torch._dynamo.config.get_config_copy() == before
