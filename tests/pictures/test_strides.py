"""What a tensor sees of its storage agrees with torch."""

import random
from functools import partial
from itertools import product
from math import prod

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import strides
from torchkata.pictures.kit.shapes import Words


def random_op(rng, shape):
    """Draw an operation for a tensor of this shape; most are legal, some are not."""
    dims = len(shape)
    dim, other = (rng.randrange(-dims - 1, dims + 1) for _ in range(2))
    bounds = [slice(rng.choice([None, 0, 1, -1]), None, rng.choice([None, 2, 3])) for _ in range(dims)]
    return rng.choice(
        [
            ("t",),
            ("transpose", dim, other),
            ("permute", *rng.sample(range(dims), dims)),
            ("slice", *bounds),
            ("slice", rng.randrange(-2, 3), slice(None)),
            ("select", dim, rng.randrange(-3, 4)),
            ("expand", rng.randrange(1, 4), *shape),
            ("expand", *(rng.choice([-1, 2]) for _ in shape)),
            ("unsqueeze", dim),
            ("view", -1),
            ("view", prod(shape) // 2, 2),
            ("reshape", 2, -1),
            ("unfold", dim, rng.randrange(4), rng.randrange(3)),
            ("contiguous",),
            ("clone",),
        ]
    )


def run_with_torch(x, ops):
    """Apply the operations; return the last tensor that torch gave, and its message when it refused one."""
    for name, *arguments in ops:
        try:
            x = x[tuple(arguments)] if name == "slice" else getattr(x, name)(*arguments)
        except (RuntimeError, IndexError, TypeError, ValueError) as refusal:
            return x, str(refusal)
    return x, None


def random_chain(rng):
    shape = tuple(rng.randrange(1, 5) for _ in range(rng.randrange(1, 4)))
    base = x = torch.arange(prod(shape)).reshape(shape)
    ops = []
    for _ in range(rng.randrange(4)):
        ops.append(random_op(rng, tuple(x.shape)))
        x, _ = run_with_torch(x, ops[-1:])
    return shape, tuple(ops), base


@pytest.mark.parametrize("seed", range(8))
def test_view_state_agrees_with_torch_on_random_chains(seed):
    rng = random.Random(seed)
    refused = 0
    for _ in range(60):
        shape, ops, base = random_chain(rng)
        result, error = run_with_torch(base, ops)
        state = strides.view_state(shape, ops)
        assert state.error == error, ops
        assert (state.shape, state.stride) == (tuple(result.shape), result.stride()), ops
        assert state.offset == result.storage_offset(), ops
        assert state.contiguous == result.is_contiguous(), ops
        assert state.storage_len * result.element_size() == result.untyped_storage().nbytes(), ops
        assert [state.storage[cell] for cell in state.cells] == result.flatten().tolist(), ops
        refused += error is not None
    assert refused > 5, "some of the cases are meant to be refused"


@pytest.mark.parametrize("seed", range(4))
def test_a_cell_is_the_offset_plus_index_times_stride(seed):
    rng = random.Random(100 + seed)
    for _ in range(60):
        shape, ops, _ = random_chain(rng)
        state = strides.view_state(shape, ops)
        indices = product(*map(range, state.shape))
        cells = [state.offset + sum(i * s for i, s in zip(index, state.stride, strict=True)) for index in indices]
        assert list(state.cells) == cells, ops


@pytest.mark.parametrize(
    ("ops", "relation", "copied"),
    [
        ((), "the same object", False),
        ((("contiguous",),), "the same object", False),
        ((("t",),), "a view of the base", False),
        ((("reshape", -1),), "a view of the base", False),
        ((("t",), ("contiguous",)), "a copy", True),
        ((("t",), ("reshape", -1)), "a copy", True),
        ((("clone",), ("t",)), "a copy", True),
    ],
)
def test_relation_to_the_base(ops, relation, copied):
    state = strides.view_state((3, 4), ops)
    assert (state.relation, state.copied) == (relation, copied)


def test_a_refused_view_keeps_the_state_before_it():
    state = strides.view_state((3, 4), (("t",), ("view", 12), ("clone",)))
    assert state.error.startswith("view size is not compatible with input tensor's size and stride")
    assert (state.shape, state.stride, state.done) == ((4, 3), (1, 4), 1)


def test_too_many_elements_are_refused_before_they_cost_memory():
    state = strides.view_state((1, 1), (("expand", 10**6, 10**6), ("clone",)))
    assert "too many" in state.error and state.shape == (1, 1)


def test_an_unknown_operation_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="'fill_' is none of the operations"):
        strides.view_state((2,), (("fill_", 1),))


@pytest.mark.parametrize(
    ("name", "arguments", "written"),
    [
        ("slice", "1:, ::2", "x[1:, ::2]"),
        ("slice", "-1", "x[-1]"),
        ("transpose", "0, -1", "x.transpose(0, -1)"),
        ("t", "", "x.t()"),
    ],
)
def test_operations_are_read_and_written_as_python(name, arguments, written):
    assert strides.expression((strides.parse_op(name, arguments),)) == written


@pytest.mark.parametrize(("name", "arguments"), [("view", "a"), ("slice", "1:2:3:4"), ("slice", "x"), ("view", "1.5")])
def test_arguments_that_can_not_be_read_are_named(name, arguments):
    with pytest.raises(ValueError, match=r"is not a whole number|two colons"):
        strides.parse_op(name, arguments)


def views():
    x = torch.arange(12).reshape(3, 4)
    return strides.draw_strip({"x": x, "x.t()": x.t(), "x[1:]": x[1:], "x[:1].expand(3, 4)": x[:1].expand(3, 4)})


def after(shape, ops, walked):
    return strides.draw_state(strides.view_state(shape, ops), ops, walked)


COPIED = (("t",), ("contiguous",), ("expand", 2, -1, -1))
MANY = (("expand", 50, -1, -1), ("clone",), ("contiguous",))
GALLERY = drawn.Gallery(
    {
        "strip": views,
        "base": partial(after, (4, 6), (), 0),
        "scalar": partial(after, (1,), (("select", 0, 0),), 0),
        "copy": partial(after, (3, 4), COPIED, 5),
        "refused view": partial(after, (4, 6, 2), (("unfold", 1, 2, 1), ("view", -1)), 3),
        "long row": partial(after, (4, 6, 2), (("reshape", -1),), 47),
        "many elements": partial(after, (4, 6), MANY, 90),
        "no elements": partial(after, (4, 6), (("slice", slice(4, None)), ("clone",)), 0),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 648


def test_draw_strip_refuses_tensors_of_two_storages():
    x = torch.arange(4)
    with pytest.raises(ValueError, match="share one storage"):
        strides.draw_strip({"x": x, "y": x.clone()})


def test_strides_explorer_shows_what_its_controls_say():
    player = drawn.Player(strides.strides_explorer())
    for name, value in {"size 0": 4, "operation 1": "t", "operation 2": "slice", "arguments 2": "1:, ::3"}.items():
        player.set(name, value)
    for _ in range(3):
        player.press("element", "on")
    ops = (("t",), ("slice", slice(1, None), slice(None, None, 3)))
    expected = strides.draw_state(strides.view_state((4, 4), ops), ops, 2)
    assert player.press("element", "back").svg == expected.svg
    assert player.shown.alt == expected.alt
    assert "x.t()[1:, ::3] has shape (3, 2), stride (1, 12) and offset 1" in expected.alt


@pytest.mark.parametrize("operation", strides.CHOICES)
def test_an_operation_comes_with_arguments(operation):
    player = drawn.Player(strides.strides_explorer())
    player.set("arguments 3", "7")
    player.set("operation 3", operation)
    assert player.says("arguments 3") == strides.CHOICES[operation]
    assert player.says("arguments 1") == player.says("arguments 2") == ""


def test_strides_explorer_walks_to_the_end_and_starts_again():
    player = drawn.Player(strides.strides_explorer())
    last = player.press("element", "end")
    assert "Element [2][3] is in cell 0 + 2 * 4 + 3 * 1 = 11." in last.alt
    assert player.press("element", "on").svg == last.svg
    assert "Element [0][0] is in cell 0" in player.press("element", "anew").alt
    player.press("element", "end")
    assert "Element [0][0][0] is in cell 0" in player.set("size 2", 2).alt


@pytest.mark.parametrize(
    ("control", "value"),
    [("size 0", 4), ("size 1", 2), ("size 2", 1), ("operation 1", "t"), ("operation 3", "clone"), ("arguments 2", "0")],
)
def test_another_tensor_is_walked_from_its_beginning(control, value):
    player = drawn.Player(strides.strides_explorer())
    player.press("element", "end")
    player.set(control, value)
    assert player.says("element") == 0


def test_the_walk_goes_as_far_as_elements_are_drawn():
    player = drawn.Player(strides.strides_explorer())
    player.set("operation 1", "expand")
    player.set("arguments 1", "50, -1, -1")
    assert "Element [5][2][3] is in cell" in player.press("element", "end").alt
    player.set("operation 1", "slice")
    empty = player.set("arguments 1", "3:")
    assert "It has no elements." in empty.alt and player.press("element", "on").svg == empty.svg


def test_only_matrices_with_drawn_elements_have_a_label():
    shapes = after((4, 6, 2), (("expand", 2, -1, -1, -1),), 0).canvas.shapes
    texts = [shape.words for shape in shapes if isinstance(shape, Words)]
    assert "[1][1]" in texts and "[1][2]" not in texts


def test_what_the_chapter_tries_is_drawn_ahead():
    explorer = strides.strides_explorer()
    ahead = explorer.frames()
    for moves in (
        {"operation_1": "t", "operation_2": "view", "arguments_2": "12"},
        {"operation_1": "t", "operation_2": "reshape"},
        {"operation_1": "slice", "element": 3},
        {"operation_1": "unsqueeze", "operation_2": "expand", "element": 23},
        {"operation_1": "unfold", "element": 11},
    ):
        assert explorer.key(explorer.after(**moves)) in ahead, moves


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("view", "5", "x.view(5) is refused: shape '[5]' is invalid for input of size 12"),
        ("view", "five", "arguments 1: 'five' is not a whole number."),
        ("slice", "::-1", "step must be greater than zero"),
        ("slice", "0, 0, 0", "too many indices"),
        ("transpose", "", "transpose() missing 2 required positional argument"),
        ("expand", "99999999, 99999999, -1, -1", "too many to show"),
        ("permute", "99999999999999999999", "refused"),
    ],
)
def test_strides_explorer_says_what_is_refused(operation, arguments, message):
    player = drawn.Player(strides.strides_explorer())
    player.set("operation 1", operation)
    shown = player.set("arguments 1", arguments)
    assert message in shown.alt
    drawn.check_svg(shown)
