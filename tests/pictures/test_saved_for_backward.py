"""Which storages a formula keeps."""

import pytest
import torch
import torch.nn.functional as F

from tests.pictures import drawn
from torchkata.pictures import saved_for_backward
from torchkata.pictures.saved_for_backward import Kept, kept_storages


@pytest.mark.parametrize(
    ("formula", "kept"),
    [
        (lambda a, b: a + b, ()),
        (lambda a, b: a.exp(), (Kept("the result", 400, 1),)),
        (lambda a, b: a * b, (Kept("a", 400, 1), Kept("b", 400, 1))),
        (lambda a, b: a * a, (Kept("a", 400, 2),)),
        (lambda a, b: F.silu(a), (Kept("a", 400, 1),)),
    ],
)
def test_kept_storages(formula, kept):
    a, b = torch.rand(100, requires_grad=True), torch.rand(100, requires_grad=True)
    assert sorted(kept_storages(formula, {"a": a, "b": b}), key=str) == sorted(kept, key=str)


def test_the_plain_formulas_keep_what_the_chapter_says():
    a, b = torch.rand(100, requires_grad=True), torch.rand(100, requires_grad=True)
    swish = kept_storages(lambda a: a * torch.sigmoid(a), {"a": a})
    assert (sum(box.nbytes for box in swish), sum(box.tensors for box in swish)) == (800, 3)
    swiglu = kept_storages(lambda a, b: F.silu(a) * b, {"a": a, "b": b})
    assert sum(box.nbytes for box in swiglu) == 1200
    assert [box.owner for box in swiglu].count("made on the way") == 1


def test_a_view_counts_with_its_storage():
    a = torch.rand(100, requires_grad=True)
    assert kept_storages(lambda a: a[:10].exp() * a[:10], {"a": a})[-1] == Kept("a", 400, 1)


def test_nothing_is_kept_without_a_tracked_input():
    assert kept_storages(torch.exp, {"a": torch.rand(100)}) == ()


FORMULAS = {
    "a * torch.sigmoid(a)": lambda a, b: a * torch.sigmoid(a),
    "F.silu(a) * b": lambda a, b: F.silu(a) * b,
    "a.sin() * b.cos() + a.exp()": lambda a, b: a.sin() * b.cos() + a.exp(),
    "a + b": lambda a, b: a + b,
}


def kept():
    a, b = torch.linspace(-3, 3, 100).requires_grad_(), torch.linspace(-1, 1, 100).requires_grad_()
    return saved_for_backward.saved_for_backward(FORMULAS, {"a": a, "b": b})


GALLERY = drawn.Gallery({"kept": kept})


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "a * torch.sigmoid(a) keeps 800 bytes: 3 tensors in 2 storages" in GALLERY["kept"].alt
    assert "a + b keeps 0 bytes" in GALLERY["kept"].alt
