"""A decision by rank, brought back to the tokens."""

from functools import partial

import pytest

from tests.pictures import drawn
from torchkata.pictures import nucleus


@pytest.mark.parametrize(
    ("p", "kept"),
    [(0.3, [1]), (0.35, [1]), (0.6, [1, 3]), (0.65, [1, 3]), (0.7, [1, 3, 4]), (1.0, [0, 1, 2, 3, 4])],
)
def test_nucleus_state(p, kept):
    state = nucleus.nucleus_state([0.1, 0.35, 0.05, 0.3, 0.2], p)
    assert [token for token, stays in enumerate(state.kept_tokens) if stays] == kept
    assert state.order == (1, 3, 4, 0, 2)


def test_equal_tokens_are_ranked_by_place():
    assert nucleus.nucleus_state([0.25] * 4, 0.5).kept_tokens == (True, True, False, False)


@pytest.mark.parametrize("p", [0, -0.1, 1.5])
def test_p_outside_its_range_is_refused(p):
    with pytest.raises(ValueError, match="greater than 0 and at most 1"):
        nucleus.nucleus_state([0.5, 0.5], p)


CHANCES = [0.1, 0.35, 0.05, 0.3, 0.2]
GALLERY = drawn.Gallery({"nucleus": partial(nucleus.sort_decide_put_back, CHANCES, 0.7)})


class TestLook(drawn.Look):
    gallery = GALLERY
