"""A ring adds everything up."""

from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import ring


@pytest.mark.parametrize("world", range(2, 9))
def test_a_ring_adds_everything_up(world):
    data = torch.randint(100, (world, world), generator=torch.Generator().manual_seed(world)).tolist()
    states = ring.ring_states(data)
    total = torch.tensor(data).sum(0).tolist()
    everybody = frozenset(range(world))
    assert len(states) == 2 * (world - 1) + 1
    assert [[chunk.value for chunk in row] for row in states[-1].chunks] == [total] * world

    middle = states[world - 1]
    for rank, row in enumerate(middle.chunks):
        complete = [number for number, chunk in enumerate(row) if chunk.contributors == everybody]
        assert complete == [(rank + 1) % world]
    for state in states:
        for row in state.chunks:
            for number, chunk in enumerate(row):
                assert chunk.value == sum(data[rank][number] for rank in chunk.contributors)
    for state in states[1:]:
        assert [receiver for _, receiver, _ in state.transfers] == [(rank + 1) % world for rank in range(world)]


def test_a_ring_needs_a_chunk_for_each_rank():
    with pytest.raises(ValueError, match="3 ranks need 3 chunks"):
        ring.ring_states([[1, 2, 3], [1, 2, 3], [1, 2]])


def test_a_ring_of_one_has_nothing_to_do():
    (state,) = ring.ring_states([[5]])
    assert state.chunks[0][0].value == 5


STEPS = ((2, 0), (2, 2), (4, 3), (4, 6), (8, 0), (8, 6), (8, 14))
GALLERY = drawn.Gallery({f"ring {world} {step}": partial(ring.draw_ring, world, step) for world, step in STEPS})


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 666


def test_the_ring_starts_anew_with_another_number_of_ranks():
    player = drawn.Player(ring.ring_stepper())
    player.press("step", "on")
    assert player.set("ranks", 3).svg == ring.draw_ring(3, 0).svg
    assert player.press("step", "end").svg == ring.draw_ring(3, 4).svg
    assert player.press("step", "on").svg == ring.draw_ring(3, 4).svg
    assert player.press("step", "back").svg == ring.draw_ring(3, 3).svg
