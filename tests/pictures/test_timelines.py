"""Devices work and wait as the scheme says."""

from functools import partial
from itertools import combinations, product

import pytest

from tests.pictures import drawn
from torchkata.pictures import timelines


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


SIZES = ((2, 1, 0), (4, 4, 0), (6, 16, 3), (3, 5, 1))
GALLERY = drawn.Gallery(
    {
        f"{kind} {p} {m}": partial(timelines.draw_timeline, kind, p, m, 2, comm)
        for kind, (p, m, comm) in product(timelines.KINDS, SIZES)
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_explorer_shows_what_its_controls_say():
    player = drawn.Player(timelines.timeline_explorer())
    assert player.shown.svg == timelines.draw_timeline("GPipe", 4, 4).svg
    for name, value in {"devices": 3, "micro-batches": 5, "backward": 3, "communication": 1}.items():
        player.set(name, value)
    assert player.set("scheme", "by layers").svg == timelines.draw_timeline("by layers", 3, 5, 3, 1).svg
