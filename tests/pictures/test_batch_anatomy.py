"""The plan is that of a loader."""

from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from tests.pictures import drawn
from torchkata.pictures import batch_anatomy
from torchkata.pictures.batch_anatomy import collate_plan, draw_batches, read_lengths


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_plan_is_that_of_a_loader(shuffle, drop_last):
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(range(7), batch_size=3, shuffle=shuffle, drop_last=drop_last, generator=generator)
    plan = collate_plan([1] * 7, 3, shuffle, 3, drop_last)
    assert plan == [batch.tolist() for batch in loader]
    assert [len(batch) for batch in plan] == ([3, 3] if drop_last else [3, 3, 1])


def test_the_plan_leaves_the_global_random_numbers_alone():
    before = torch.get_rng_state()
    collate_plan([1, 2, 3], 2, True, 0, False)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_counted_as_padding():
    assert batch_anatomy._amounts([2, 7, 3, 0], [[0, 1], [2, 3]]) == (20, 8)
    assert batch_anatomy._amounts([0, 0], [[0, 1]]) == (0, 0)


@pytest.mark.parametrize("text", ["", "3 x", "1 -2", "13", " ".join("1" * 11)])
def test_lengths_that_cannot_be_drawn_are_refused(text):
    with pytest.raises(ValueError, match=r"Type 1 to 10|at most here"):
        read_lengths(text)


def test_lengths_are_read():
    assert read_lengths("3, 5 0") == [3, 5, 0]


def test_the_learners_settings_do_not_matter():
    expected, state = collate_plan([1] * 5, 2, True, 1, False), torch.get_rng_state()
    with drawn.other_settings():
        assert collate_plan([1] * 5, 2, True, 1, False) == expected
    assert torch.equal(torch.get_rng_state(), state)


BATCHES = (
    ([2, 7, 3, 6, 2, 7, 3], 3, 0, False, 0, False),
    ([12] * 10, 1, -9, True, 1, True),
    ([0, 0, 5], 2, 9, False, 0, True),
    ([0], 5, 0, False, 0, True),
)
GALLERY = drawn.Gallery(
    {str(words): partial(draw_batches, *words) for words in BATCHES}
    | {"refused": partial(batch_anatomy._refusal, "Type numbers.")}
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    words = draw_batches([2, 7, 3], 2, 0, False, 0, True).alt
    assert "batch 0: shape (2, 7), 5 of 14 steps are padding; samples 0 of length 2, 1 of length 7." in words
    assert words.endswith("Left out: sample 2.")


def test_batch_explorer_shows_what_its_controls_say():
    player = drawn.Player(batch_anatomy.batch_anatomy_explorer())
    assert player.shown.svg == draw_batches([2, 7, 3, 6, 2, 7, 3], 3, 0, False, 0, False).svg
    values = {"lengths": "1 2 3 4", "batch_size": 2, "pad_value": -1, "shuffle": True, "seed": 4, "drop_last": True}
    for name, value in values.items():
        player.set(name, value)
    assert player.shown.svg == draw_batches([1, 2, 3, 4], 2, -1, True, 4, True).svg
    assert "whole numbers" in player.set("lengths", "many").alt
    assert player.set("lengths", "1 2 3 4").svg == draw_batches([1, 2, 3, 4], 2, -1, True, 4, True).svg


def test_sorted_lengths_are_drawn_ahead():
    explorer = batch_anatomy.batch_anatomy_explorer()
    for text in batch_anatomy.SORTED:
        assert sorted(text.split()) == sorted(batch_anatomy.LENGTHS.split())
        assert explorer.key(explorer.after(lengths=text, shuffle=True)) in explorer.frames()
