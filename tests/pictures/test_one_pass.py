"""Softmax in one pass: the carried numbers against torch, and what happens without rescaling."""

from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures.one_pass import BLOCK, SCORES, VALUES, draw_one_pass, one_pass, one_pass_explorer

GALLERY = drawn.Gallery(
    {
        "explorer": lambda: one_pass_explorer().picture(),
        "before": partial(draw_one_pass, "rising", 0, False),
        "first": partial(draw_one_pass, "above 100", 1, True),
        "large": partial(draw_one_pass, "above 100", 3, False),
        "forgotten": partial(draw_one_pass, "rising", 3, True),
        "no need": partial(draw_one_pass, "largest first", 3, True),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 280


@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_what_is_carried_is_what_torch_computes_of_the_scores_so_far(scores):
    story = one_pass(scores, VALUES, BLOCK)
    assert len(story) == 3
    for number, now in enumerate(story, 1):
        seen = torch.tensor(scores[: number * BLOCK], dtype=torch.float64)
        values = torch.tensor(VALUES[: number * BLOCK], dtype=torch.float64)
        assert now.maximum == seen.max()
        assert now.total == pytest.approx((seen - seen.max()).exp().sum().item())
        assert now.output == pytest.approx((seen.softmax(0) @ values).item())


def test_without_rescaling_the_end_is_wrong_unless_the_maximum_came_first():
    ends = {
        name: [one_pass(scores, VALUES, 3, how)[-1].output for how in (True, False)] for name, scores in SCORES.items()
    }
    assert ends["largest first"][0] == ends["largest first"][1]
    assert abs(ends["rising"][0] - ends["rising"][1]) > 2


def test_the_words_say_when_it_is_rescaled_and_whether_the_end_is_right():
    assert "Rescale both sums: × exp(1 − 3) = 0.14. Carried: maximum 3, sum of weights 1.82" in GALLERY["explorer"].alt
    assert "4.00, the same" in GALLERY["explorer"].alt
    assert "aren't. Carried" in GALLERY["forgotten"].alt and "6.94, something else" in GALLERY["forgotten"].alt
    assert "nothing is rescaled" in GALLERY["no need"].alt and "the same" in GALLERY["no need"].alt


def test_the_explorer():
    drawn.check_explorer(one_pass_explorer())
