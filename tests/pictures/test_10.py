"""The pictures of chapter 10: their states agree with torch, and what they draw can be read."""

from itertools import combinations, product

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

from tests.pictures import drawn
from torchkata.pictures import collectives, ring, sampler_table, timelines
from torchkata.processes import run_on_ranks

# ---------------------------------------------------------------- collectives


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


# ---------------------------------------------------------------- the ring


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


# ---------------------------------------------------------------- the sampler's table


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


# ---------------------------------------------------------------- timelines


@pytest.mark.parametrize(("p", "m"), [(4, 1), (4, 4), (4, 16), (2, 4), (1, 3)])
@pytest.mark.parametrize("bwd", [1, 2, 3])
def test_idle_share_of_a_pipeline(p, m, bwd):
    events = timelines.timeline("GPipe", p, m, 1, bwd)
    assert timelines.idle_share(events) == pytest.approx((p - 1) / (m + p - 1))
    assert timelines.total_time(events) == (m + p - 1) * (1 + bwd)


def test_idle_share_of_the_other_kinds():
    assert timelines.idle_share(timelines.timeline("by layers", 4, 8)) == 0.75
    assert timelines.idle_share(timelines.timeline("one device", 4, 8)) == 0
    assert timelines.idle_share(timelines.timeline("data parallel", 4, 8)) == 0
    assert timelines.idle_share(timelines.timeline("data parallel", 4, 8, comm=6)) == pytest.approx(6 / 30)


@pytest.mark.parametrize("kind", timelines.KINDS)
def test_all_kinds_do_the_same_work_and_no_device_two_things_at_once(kind):
    for p, m, comm in product((1, 2, 5), (1, 4), (0, 2)):
        events = timelines.timeline(kind, p, m, 1, 2, comm)
        assert sum(w.end - w.start for w in events if w.label != timelines.SYNC) == p * m * 3
        for one, two in combinations(events, 2):
            assert one.device != two.device or one.end <= two.start or two.end <= one.start


def test_a_stage_waits_for_its_neighbour():
    at = {(w.device, w.label): w for w in timelines.timeline("GPipe", 3, 2, 1, 2, 0.5)}
    for micro in range(2):
        for stage in range(2):
            assert at[stage + 1, f"F{micro}"].start >= at[stage, f"F{micro}"].end + 0.5
            assert at[stage, f"B{micro}"].start >= at[stage + 1, f"B{micro}"].end + 0.5
        assert at[2, f"B{micro}"].start >= at[2, f"F{micro}"].end


def test_an_unknown_scheme_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="'naive'"):
        timelines.timeline("naive", 2, 2)


# ---------------------------------------------------------------- drawing


def gallery():
    pictures = {}
    for name, world in product(collectives.COLLECTIVES, (2, 3, 4)):
        pictures[f"{name} {world}"] = collectives.draw_collective(name, world, world - 1)
    for world, step in ((2, 0), (2, 2), (4, 3), (4, 6), (8, 0), (8, 6), (8, 14)):
        pictures[f"ring {world} {step}"] = ring.draw_ring(world, step)
    for n, world, drop_last, shuffle in (
        (16, 1, False, True),
        (10, 3, False, False),
        (1, 4, True, False),
        (7, 4, 1, 1),
    ):
        pictures[f"shares {n} {world}"] = sampler_table.draw_shares(n, world, bool(drop_last), bool(shuffle), 9, 9)
    for kind, (p, m, comm) in product(timelines.KINDS, ((2, 1, 0), (4, 4, 0), (6, 16, 3), (3, 5, 1))):
        pictures[f"{kind} {p} {m}"] = timelines.draw_timeline(kind, p, m, 2, comm)
    return pictures


GALLERY = gallery()


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_can_be_read(name):
    drawn.check_svg(GALLERY[name])
    drawn.check_texts(GALLERY[name].figure)
    drawn.check_boxes(GALLERY[name].figure)


EXPLORERS = {
    "collectives": (collectives.collective_explorer, {"collective": "scatter", "ranks": 4}),
    "ring": (ring.ring_stepper, {"ranks": 8, "step": 9}),
    "sampler": (sampler_table.sampler_explorer, {"samples": 7, "shuffle": True, "epoch": 3, "drop_last": True}),
    "timelines": (timelines.timeline_explorer, {"scheme": "data parallel", "devices": 6, "communication": 2}),
}


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_control_redraws(name):
    build, moves = EXPLORERS[name]
    explorer = build()
    assert all(control.description for control in explorer.controls.values())
    before = drawn.shown(explorer)
    for control, value in moves.items():
        explorer.controls[control].value = value
        after = drawn.shown(explorer)
        assert after != before, control
        before = after


def test_the_collectives_are_stepped_through():
    explorer = collectives.collective_explorer()
    assert drawn.shown(explorer) == collectives.draw_collective("all_reduce", 3, 3).svg
    for done in (0, 1, 2, 3, 0):
        explorer.controls["step"].click()
        assert drawn.shown(explorer) == collectives.draw_collective("all_reduce", 3, done).svg
    explorer.controls["step"].click()
    explorer.controls["step"].click()
    explorer.controls["back"].click()
    assert drawn.shown(explorer) == collectives.draw_collective("all_reduce", 3, 1).svg
    explorer.controls["ranks"].value = 2
    assert drawn.shown(explorer) == collectives.draw_collective("all_reduce", 2, 0).svg


def test_the_ring_starts_anew_with_another_number_of_ranks():
    explorer = ring.ring_stepper()
    explorer.controls["ranks"].value = 3
    assert explorer.controls["step"].max == 4
    assert drawn.shown(explorer) == ring.draw_ring(3, 0).svg
    explorer.controls["step"].value = 4
    assert drawn.shown(explorer) == ring.draw_ring(3, 4).svg
