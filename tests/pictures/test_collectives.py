"""The end of each collective is what gloo does."""

from functools import partial
from itertools import product

import pytest
import torch
import torch.distributed as dist

from tests.pictures import drawn
from torchkata.pictures import collectives
from torchkata.processes import run_on_ranks


def what_gloo_does(rank, world):
    """What this rank has after each collective on pieces with the numbers 1000, 1001, … (10 ** (3 + rank) + piece)."""
    mine = torch.arange(world, dtype=torch.int64) + 10 ** (3 + rank)
    first, nothing = mine[:1].clone(), torch.empty(0, dtype=torch.int64)

    def empty(count=world, size=1):
        return [torch.zeros(size, dtype=torch.int64) for _ in range(count)]

    has = {name: mine.clone() for name in ("broadcast", "reduce", "all_reduce", "all_to_all")}
    dist.broadcast(has["broadcast"], src=0)
    dist.reduce(has["reduce"], dst=0)
    dist.all_reduce(has["all_reduce"])
    pieces = empty() if rank == 0 else None
    dist.gather(first, pieces, dst=0)
    has["gather"] = torch.cat(pieces) if rank == 0 else nothing
    has["reduce"] = has["reduce"] if rank == 0 else nothing
    pieces = empty()
    dist.all_gather(pieces, first)
    has["all_gather"] = torch.cat(pieces)
    (piece,) = empty(1)
    dist.scatter(piece, list(mine.chunk(world)) if rank == 0 else None, src=0)
    has["scatter"] = piece.clone()
    dist.reduce_scatter(piece, list(mine.chunk(world)))
    has["reduce_scatter"] = piece.clone()
    dist.all_to_all_single(has["all_to_all"], mine)
    return {name: numbers.tolist() for name, numbers in has.items()}


def number_of(piece):
    """The number that stands for a piece such as "b1" or "a0+b0"; a letter alone is a rank's piece 0."""
    terms = [(collectives.LETTERS.index(term[0]), int(term[1:] or 0)) for term in piece.split("+")]
    return sum(10 ** (3 + rank) + number for rank, number in terms)


@pytest.mark.parametrize("world", [2, 3])
def test_the_end_of_each_collective_is_what_gloo_does(world):
    results = run_on_ranks(what_gloo_does, world=world)
    for name in collectives.COLLECTIVES:
        end = collectives.collective_steps(name, world)[-1]
        assert [[number_of(piece) for piece in pieces] for pieces in end.has] == [ranks[name] for ranks in results]


@pytest.mark.parametrize("name", collectives.COLLECTIVES)
def test_each_step_changes_something(name):
    start, *steps = collectives.collective_steps(name, 4)
    assert not start.changed and not any(piece for pieces in start.has for piece in pieces)
    assert len(steps) == 4 and all(step.changed for step in steps)
    assert all(step.gives == start.gives for step in steps)


def test_an_unknown_collective_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="'barrier'"):
        collectives.collective_steps("barrier", 2)


GALLERY = drawn.Gallery(
    {
        f"{name} {world}": partial(collectives.draw_collective, name, world, world - 1)
        for name, world in product(collectives.COLLECTIVES, (2, 3, 4))
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_collectives_are_stepped_through():
    player = drawn.Player(collectives.collective_explorer())
    assert player.shown.svg == collectives.draw_collective("all_reduce", 3, 0).svg
    for done in (1, 2, 3, 3):
        assert player.press("step", "on").svg == collectives.draw_collective("all_reduce", 3, done).svg
    assert player.press("step", "back").svg == collectives.draw_collective("all_reduce", 3, 2).svg
    assert player.press("step", "anew").svg == collectives.draw_collective("all_reduce", 3, 0).svg
    assert player.press("step", "end").svg == collectives.draw_collective("all_reduce", 3, 3).svg


@pytest.mark.parametrize(("control", "value"), [("ranks", 4), ("collective", "scatter")])
def test_another_choice_starts_before_the_call(control, value):
    player = drawn.Player(collectives.collective_explorer())
    player.press("step", "on")
    player.set(control, value)
    assert player.shown.svg == collectives.draw_collective(player.says("collective"), player.says("ranks"), 0).svg
