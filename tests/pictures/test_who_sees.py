"""Who sees whom: what the grid says is what scaled_dot_product_attention does, and what the shown code makes."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from tests.pictures import drawn
from torchkata.pictures.who_sees import (
    CAUSAL,
    DOCUMENT,
    LATER,
    LOWER_RIGHT,
    PADDING,
    POSITIONS,
    SEEN,
    WINDOW,
    Mask,
    code_of,
    draw_who_sees,
    packed_documents,
    who_sees,
    who_sees_explorer,
)

MASKS = {
    "three after five": Mask(CAUSAL, 3, 8),
    "as many": Mask(CAUSAL, 8, 8),
    "one after a cache": Mask(CAUSAL, 1, 8),
    "lower right": Mask(LOWER_RIGHT, 3, 8),
    "one pair": Mask(LOWER_RIGHT, 1, 1),
    "positions": Mask(POSITIONS, 3, 8),
    "window": Mask(POSITIONS, 8, 8, window=3),
    "two documents": Mask(POSITIONS, 5, 7, border=4),
    "padding": Mask(POSITIONS, 8, 8, padding=2),
    "all of it": Mask(POSITIONS, 8, 8, 2, 5, 3),
}
GALLERY = drawn.Gallery(
    {name: lambda mask=mask: draw_who_sees(mask) for name, mask in MASKS.items()}
    | {"packed": packed_documents, "explorer": lambda: who_sees_explorer().picture()}
)


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 280  # 373 pixels: a telephone shows all of it


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_the_grid_is_what_torch_does_with_the_shown_code(mask):
    q, k = torch.zeros(1, 1, mask.queries, 4), torch.zeros(1, 1, mask.keys, 4)
    v = torch.eye(mask.keys)[None, None]
    known = {"torch": torch, "F": F, "causal_lower_right": causal_lower_right, "q": q, "k": k, "v": v}
    code = "\n".join(code_of(mask))
    if mask.kind == POSITIONS:
        exec(code, known)
        code = "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"
    weights = eval(code, known)[0, 0]
    assert [[reason == SEEN for reason in row] for row in who_sees(mask)] == (weights > 0).tolist()


def test_each_hidden_key_has_its_reason():
    rows = who_sees(Mask(POSITIONS, 8, 8, window=2, border=5, padding=1))
    assert rows[4] == [PADDING, WINDOW, WINDOW, SEEN, SEEN, LATER, LATER, LATER]
    assert rows[6] == [PADDING, *[DOCUMENT] * 4, SEEN, SEEN, LATER]


def test_the_words_tell_which_corner_and_who_gets_zeros():
    assert "The first query belongs to the first key. After 5 cached keys the queries are at 5 to 7" in (
        GALLERY["three after five"].alt
    )
    assert "the query at 7 sees keys 0, 1, 2, 3, 4, 5, 6, 7" in GALLERY["lower right"].alt
    assert "the query at 1 sees no key" in GALLERY["padding"].alt
    assert "The queries without keys get zeros." in GALLERY["padding"].alt


def test_documents_hide_each_other():
    rows = seen_by_each(packed_documents((3, 2, 4)).alt)
    assert rows == ["0-0", "0-1", "0-2", "3-3", "3-4", "5-5", "5-6", "5-7", "5-8"]


def seen_by_each(words):
    return [part.split()[-1] for part in words.partition("Keys seen, query by query: ")[2].rstrip(".").split(", ")]


def test_a_setting_of_positions_chooses_that_mask_and_a_corner_drops_it():
    player = drawn.Player(who_sees_explorer())
    player.set("window", 2)
    assert player.says("mask") == POSITIONS
    player.set("mask", LOWER_RIGHT)
    assert player.says("window") == "off"
    player.set("keys", 2)
    assert player.says("queries") == 2


def test_the_explorer():
    drawn.check_explorer(who_sees_explorer())
