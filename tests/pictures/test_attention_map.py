"""Rows of weights that sum to 1 and never look ahead; what is drawn; the explorer."""

from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import attention_map
from torchkata.small_lm import SmallLM, as_ids, stored_model

MODEL = stored_model()
IDS = as_ids(attention_map.TEXT)


@pytest.mark.parametrize("layer", [0, 1])
def test_weights_are_means_over_what_came_before(layer):
    weights = attention_map.attention_map(MODEL, IDS, layer, head=3)
    assert torch.allclose(weights.sum(1), torch.ones(len(IDS)))
    assert not weights.triu(1).any()


def test_what_comes_later_changes_no_earlier_row():
    changed = IDS.clone()
    changed[-1] = 65
    one, two = (attention_map.attention_map(MODEL, ids, 1, 0) for ids in (IDS, changed))
    assert torch.equal(one[:-1], two[:-1]) and not torch.equal(one[-1], two[-1])


def test_they_are_the_weights_that_the_model_uses():
    torch.manual_seed(0)
    model = SmallLM(width=16, layers=1, length=8)
    block = model.blocks[0]
    with torch.no_grad():
        q, k, v = block.heads(model.emb(IDS[None, :8]))
        used = block.attend(q, k, v, model.mask)[0, 2]
        assert torch.allclose(attention_map.attention_map(model, IDS[:8], 0, 2) @ v[0, 2], used, atol=1e-6)


def test_likeliest_bytes_are_those_of_the_text_up_to_the_position():
    found = attention_map.likeliest(MODEL, IDS, 3)
    assert found == attention_map.likeliest(MODEL, IDS[:4], 3) and len(found) == 5
    assert [chance for _, chance in found] == sorted((chance for _, chance in found), reverse=True)


def test_a_long_text_is_cut_and_an_empty_one_refused():
    assert "position 31 looks at, the letter 'y'" in attention_map.draw_attention(MODEL, "x" * 40 + "y", 0, 0, 60).alt
    with pytest.raises(ValueError, match="at least one letter"):
        attention_map.draw_attention(MODEL, "", 0, 0, 0)


CASES = {"end": (1, 2, 23), "beginning": (0, 0, 0), "middle": (0, 1, 9)}
GALLERY = drawn.Gallery(
    {name: partial(attention_map.draw_attention, MODEL, attention_map.TEXT, *case) for name, case in CASES.items()}
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False  # a letter's box stands on the bar of its weight


def test_the_position_stays_in_the_text():
    player = drawn.Player(attention_map.attention_explorer())
    player.set("text", "abc")
    assert player.says("position") == 2
