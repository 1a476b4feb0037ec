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


def test_answers_graded_before_do_not_count():
    """All answers' compiled functions share one code object of the check, and torch limits the versions of one."""
    chapter, exercise = "05_custom_functions", "interp-operator"
    right = [answer for answer in answers_of(chapter, exercise) if answer.kind == "right"]
    for answer in (right[0], right[2], right[0], right[0]):
        marks = running.grade(chapter, exercise, answer.source)
        assert marks.points == running.full_points(chapter, exercise), marks.text
