"""Steps done one by one give what torch gives; the stepper."""

import random
from collections import Counter
from functools import partial
from math import prod

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import index_steps


def random_call(rng, op):
    """Draw a legal call: other shape, dim, index, source shape. Only dims of the index other than dim are bounded."""
    dims = rng.randrange(1, 4)
    other = [rng.randrange(1, 5) for _ in range(dims)]
    dim = rng.randrange(-dims, dims)
    shape = [rng.randrange(1, size + 1) for size in other]
    shape[dim] = rng.randrange(1, 5)
    index = torch.tensor([rng.randrange(other[dim]) for _ in range(prod(shape))]).reshape(shape)
    source = tuple(size + rng.randrange(2) for size in shape) if rng.random() < 0.5 else None
    return tuple(other), dim, index, source if op != "gather" else None


def replay(op, steps, source, target):
    """Do the steps one by one."""
    for step in steps:
        old = target[step.write] if op == "scatter_add_" else 0
        target[step.write] = old + source[step.read]
    return target


@pytest.mark.parametrize("seed", range(8))
def test_gather_steps_replayed_give_what_torch_gives(seed):
    rng = random.Random(seed)
    for _ in range(40):
        shape, dim, index, _ = random_call(rng, "gather")
        steps = index_steps.index_steps("gather", dim, index.tolist(), shape)
        source = torch.arange(1, prod(shape) + 1).reshape(shape)
        assert [step.index_value for step in steps] == index.flatten().tolist()
        torch.testing.assert_close(replay("gather", steps, source, torch.zeros_like(index)), source.gather(dim, index))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("op", ["scatter_", "scatter_add_"])
def test_scatter_steps_replayed_give_what_torch_gives(op, seed):
    rng = random.Random(seed)
    for _ in range(40):
        shape, dim, index, source_shape = random_call(rng, op)
        steps = index_steps.index_steps(op, dim, index.tolist(), shape, source_shape)
        source_shape = source_shape or tuple(index.shape)
        source = torch.arange(1, prod(source_shape) + 1).reshape(source_shape)
        zeros = torch.zeros(shape, dtype=source.dtype)
        expected = getattr(zeros.clone(), op)(dim, index, source)
        replayed = replay(op, steps, source, zeros.clone())
        if op == "scatter_":  # which of several writers stays is undefined: leave those elements out
            writers = Counter(step.write for step in steps)
            for place in (place for place, count in writers.items() if count > 1):
                replayed[place] = expected[place] = 0
        torch.testing.assert_close(replayed, expected)


@pytest.mark.parametrize("seed", range(20))
def test_writers_and_collisions_are_counted(seed):
    rng = random.Random(seed)
    shape, dim, index, _ = random_call(rng, "scatter_")
    counts = index_steps.writer_counts(index, dim, shape)
    ones = torch.ones_like(index)
    torch.testing.assert_close(counts, torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, ones))
    steps = index_steps.index_steps("scatter_", dim, index.tolist(), shape)
    writers = Counter(step.write for step in steps)
    for step in steps:
        assert writers[step.write] == counts[step.write]
        assert ("undefined which one stays" in step.note) == (counts[step.write].item() > 1)


@pytest.mark.parametrize(
    ("op", "dim", "index", "shape", "message"),
    [
        ("gather", 1, [0, 1], (3, 4), "Index tensor must have the same number of dimensions as input tensor"),
        ("gather", 1, [[-1]], (3, 4), "index -1 is out of bounds for dimension 1 with size 4"),
        ("gather", 1, [[0], [0], [0], [0]], (3, 4), "Size does not match at dimension 0"),
        ("gather", 1, [[0.0]], (3, 4), "Expected dtype int32/int64 for index"),
        ("gather", 5, [[0]], (3, 4), "Dimension out of range"),
        ("scatter_", 0, [[4]], (3, 4), "index 4 is out of bounds for dimension 0 with size 3"),
        ("scatter_add_", 0, [[0, 0], [0]], (3, 4), "expected sequence of length 2"),
    ],
)
def test_a_refused_call_is_told_in_torchs_words(op, dim, index, shape, message):
    assert message in index_steps.index_steps(op, dim, index, shape)


def test_src_that_is_smaller_than_index_is_refused():
    assert "to be no larger size than src [1, 1]" in index_steps.index_steps("scatter_", 0, [[0, 1]], (3, 4), (1, 1))


def test_formula_fills_in_numbers():
    gather = index_steps.index_steps("gather", 1, [[0, 0], [1, 0]], (2, 2))
    assert index_steps.formula("gather", gather[2]) == "out[1][0] = input[1][1]"
    added = index_steps.index_steps("scatter_add_", 0, [[1, 0]], (2, 2))
    assert index_steps.formula("scatter_add_", added[0]) == "self[1][0] += src[0][0]"


def draw_call(call, done):
    return index_steps.draw_steps(call.op, call.dim, call.index, call.other_shape, done, call.source_shape)


GALLERY = drawn.Gallery(
    {
        "collisions": partial(index_steps.collision_map, [[0, 1, 1, 1], [2, 0, 0, 4]], 1, (3, 5)),
        "three dimensions": partial(index_steps.draw_steps, "gather", 1, [[[0, 1], [1, 0]]] * 2, (2, 3, 4), 3),
    }
    | {name: partial(draw_call, call, 2) for name, call in index_steps.PRESETS.items()}
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_collision_map_refuses_with_torchs_words():
    with pytest.raises(ValueError, match="index 5 is out of bounds"):
        index_steps.collision_map(torch.tensor([[5]]), 1, (1, 3))


def test_stepper_shows_what_its_controls_say():
    player = drawn.Player(index_steps.gather_scatter_stepper())
    call = {
        "operation": "scatter_",
        "index": "[[0, 1, 1], [2, 2, 2]]",
        "dim": 1,
        "shape": "2, 4",
        "src shape": "2, 3",
    }
    for name, value in call.items():
        player.set(name, value)
    for _ in range(4):
        player.press("step", "on")
    expected = index_steps.draw_steps("scatter_", 1, [[0, 1, 1], [2, 2, 2]], (2, 4), 3, (2, 3))
    assert player.press("step", "back").svg == expected.svg
    assert "self[0][1] = src[0][2]" in expected.alt and "undefined which one stays" in expected.alt
    last = player.press("step", "end")
    assert "step 6 of 6" in last.alt
    assert player.press("step", "on").svg == last.svg and player.says("step") == 6


def test_stepper_opens_where_it_is_told_to():
    name = "scatter_, part of src"
    player = drawn.Player(index_steps.gather_scatter_stepper(name, done=2))
    assert player.says("example") == name
    assert player.shown.svg == draw_call(index_steps.PRESETS[name], 2).svg
    assert player.press("step", "on").svg == draw_call(index_steps.PRESETS[name], 3).svg
    assert "step 4 of 4" in index_steps.gather_scatter_stepper(name, done=99).alt
    with pytest.raises(ValueError, match="example is one of gather along dim 1"):
        index_steps.gather_scatter_stepper("gather along dim 7")


@pytest.mark.parametrize("name", index_steps.PRESETS)
def test_every_example_of_the_stepper_can_be_chosen(name):
    player = drawn.Player(index_steps.gather_scatter_stepper("scatter_ along dim 1", done=2))
    expected = draw_call(index_steps.PRESETS[name], 0)
    assert player.set("example", name).svg == expected.svg
    assert ("refused." in expected.alt) == name.startswith("refused")


@pytest.mark.parametrize(
    ("control", "value"),
    [("operation", "scatter_"), ("dim", 0), ("index", "[[1, 1], [1, 0]]"), ("shape", "2, 3"), ("src shape", "3, 3")],
)
def test_another_call_starts_anew(control, value):
    player = drawn.Player(index_steps.gather_scatter_stepper(done=3))
    player.set(control, value)
    assert player.says("step") == 0 and "step 0 of 4" in player.shown.alt


@pytest.mark.parametrize("name", index_steps.PRESETS)
def test_every_step_of_every_example_is_drawn_ahead(name):
    player = drawn.Player(index_steps.gather_scatter_stepper())
    ahead = player.explorer.frames()
    player.set("example", name)
    for _ in index_steps._places(torch.tensor(index_steps.PRESETS[name].index).shape):
        assert player.explorer.key(player.state) in ahead
        player.press("step", "on")
    assert player.explorer.key(player.state) in ahead


@pytest.mark.parametrize(
    ("control", "text", "message"),
    [
        ("index", "[[0, 1", "write a table such as [[0, 1], [1, 0]]"),
        ("index", "[[0, 1], [1]]", "expected sequence of length 2 at dim 1"),
        ("index", '"word"', "write a table"),
        ("index", "{}", "write a table"),
        ("index", "", "write a table"),
        ("index", str([[0] * 50]), "at most 48 entries"),
        ("index", "[[0.5]]", "Expected dtype int32/int64"),
        ("index", "[]", "step 0 of 0"),
        ("index", "0", "refused"),
        ("shape", "3, 99", "write one to three sizes from 1 to 5"),
        ("shape", "", "write one to three sizes"),
        ("src shape", "x", "shape of src"),
    ],
)
def test_stepper_says_what_is_refused(control, text, message):
    player = drawn.Player(index_steps.gather_scatter_stepper(done=3))
    shown = player.set(control, text)
    assert message in shown.alt
    assert player.press("step", "on").svg == shown.svg and player.says("step") == 0


def test_an_explorer_that_starts_elsewhere_keeps_what_every_explorer_keeps():
    drawn.check_explorer(index_steps.gather_scatter_stepper("scatter_, part of src", done=2))
