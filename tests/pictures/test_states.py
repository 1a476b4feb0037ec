"""The states behind the pictures agree with torch."""

import random
from itertools import product
from math import prod

import pytest
import torch

from torchkata.pictures import bins, cuts, index_steps, nucleus, strides


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


def test_parts():
    calls = ["split(3)", "tensor_split(3)", "split([2, 6])", "tensor_split([2, 3])", "tensor_split([2, 20])"]
    assert [cuts.parts(8, call) for call in calls] == [[3, 3, 2], [3, 3, 2], [2, 6], [2, 1, 5], [2, 6, 0]]
    assert cuts.parts(10, "chunk(6)") == [2, 2, 2, 2, 2]


def test_parts_lets_torch_refuse():
    with pytest.raises(RuntimeError, match="sum exactly to 8"):
        cuts.parts(8, "split([2, 3])")


@pytest.mark.parametrize("call", ["unbind()", "split(n)", "split(__import__('os'))", "split"])
def test_parts_runs_nothing_but_cuts(call):
    with pytest.raises(ValueError, match=r"is not a call|neither a number"):
        cuts.parts(8, call)


def test_three_bins():
    x = torch.arange(12.0).reshape(3, 4)
    table = bins.three_bins(x)
    answers = {row.expression: (row.same_object, row.same_storage, row.own_memory) for row in table.rows}
    assert len(answers) == 20
    assert answers["x.contiguous()"] == (True, True, False)
    assert answers["x.t()"] == answers["x.reshape(-1)"] == (False, True, False)
    assert answers["x[[0, 1]]"] == answers["x.t().reshape(-1)"] == (False, False, True)
    assert "| <code>x[x &gt; 3]</code> | – | – | yes |" in table._repr_markdown_()


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
        assert not any(step.collides_with for step in steps)
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
            for step in steps:
                if step.collides_with:
                    replayed[step.write] = expected[step.write] = 0
        torch.testing.assert_close(replayed, expected)


@pytest.mark.parametrize("seed", range(20))
def test_writers_and_collisions_are_counted(seed):
    rng = random.Random(seed)
    shape, dim, index, _ = random_call(rng, "scatter_")
    counts = index_steps.writer_counts(index, dim, shape)
    ones = torch.ones_like(index)
    torch.testing.assert_close(counts, torch.zeros(shape, dtype=torch.int64).scatter_add_(dim, index, ones))
    for step in index_steps.index_steps("scatter_", dim, index.tolist(), shape):
        assert len(step.collides_with) + 1 == counts[step.write]
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


@pytest.mark.parametrize(
    ("p", "kept"),
    [(0.3, [1]), (0.35, [1]), (0.6, [1, 3]), (0.65, [1, 3]), (0.7, [1, 3, 4]), (1.0, [0, 1, 2, 3, 4])],
)
def test_nucleus_state(p, kept):
    state = nucleus.nucleus_state([0.1, 0.35, 0.05, 0.3, 0.2], p)
    assert [token for token, stays in enumerate(state.kept_tokens) if stays] == kept
    assert state.order == (1, 3, 4, 0, 2)


def test_equal_tokens_are_ranked_by_place():
    assert nucleus.nucleus_state([0.25] * 4, 0.5).kept_tokens == (True, True, False, False)


@pytest.mark.parametrize("p", [0, -0.1, 1.5])
def test_p_outside_its_range_is_refused(p):
    with pytest.raises(ValueError, match="greater than 0 and at most 1"):
        nucleus.nucleus_state([0.5, 0.5], p)
