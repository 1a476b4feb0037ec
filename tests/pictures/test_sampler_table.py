"""The shares are those of DistributedSampler."""

from functools import partial
from itertools import product

import pytest
from torch.utils.data import DistributedSampler

from tests.pictures import drawn
from torchkata.pictures import sampler_table


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 16, 64])
def test_shares_are_those_of_the_sampler(n):
    for world, drop_last, shuffle, epoch in product((1, 2, 3, 4), (True, False), (True, False), (0, 3)):
        drawn_shares = []
        for rank in range(world):
            sampler = DistributedSampler(range(n), world, rank, shuffle, seed=2, drop_last=drop_last)
            sampler.set_epoch(epoch)
            drawn_shares.append(list(sampler))
        assert sampler_table.shares(n, world, drop_last, shuffle, 2, epoch) == drawn_shares


def test_repeated_and_missing_samples_are_named():
    assert "rank 1: 1, 3, 0 (again). Left out: none." in sampler_table.draw_shares(5, 2, False, False, 0, 0).alt
    assert "Left out: 4." in sampler_table.draw_shares(5, 2, True, False, 0, 0).alt


SHARES = ((16, 1, False, True), (10, 3, False, False), (1, 4, True, False), (7, 4, True, True))
GALLERY = drawn.Gallery(
    {f"shares {share[0]} {share[1]}": partial(sampler_table.draw_shares, *share, 9, 9) for share in SHARES}
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_explorer_shows_what_its_controls_say():
    player = drawn.Player(sampler_table.sampler_explorer())
    assert player.shown.svg == sampler_table.draw_shares(10, 3, False, False, 0, 0).svg
    values = {"samples": 7, "ranks": 2, "shuffle": True, "epoch": 3, "seed": 4, "drop_last": True}
    for name, value in values.items():
        player.set(name, value)
    assert player.shown.svg == sampler_table.draw_shares(7, 2, True, True, 4, 3).svg


def test_epoch_and_seed_count_only_when_shuffle_is_on():
    player = drawn.Player(sampler_table.sampler_explorer())
    before = player.shown.svg
    assert player.set("epoch", 5).svg == player.set("seed", 5).svg == before
