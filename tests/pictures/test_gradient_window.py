"""Which gradients a format loses at a scale."""

from functools import partial

import torch

from tests.pictures import drawn
from torchkata.pictures import gradient_window

GRADS = [torch.tensor([1e-8, 0.0, -1e-6, 2.0]), torch.tensor([[3e-9], [-70000.0]])]


def test_window_counts_entries_that_are_not_zero():
    assert gradient_window.window(GRADS, 1.0, torch.float16) == (2 / 5, 1 / 5)
    assert gradient_window.window(GRADS, 2.0**16, torch.float16) == (0, 2 / 5)
    assert gradient_window.window(GRADS, 2.0**-20, torch.float16) == (3 / 5, 0)
    assert gradient_window.window(GRADS, 1.0, torch.bfloat16) == (0, 0)


WINDOWS = (("fp16", -8), ("fp16", 0), ("fp16", 40), ("bf16", 16), ("e5m2", 16))
GALLERY = drawn.Gallery(
    {f"window {fmt} {power}": partial(gradient_window.draw_window, GRADS, power, fmt) for fmt, power in WINDOWS}
)


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "become 0: 40.0%; kept: 40.0%; become inf: 20.0%" in GALLERY["window fp16 0"].alt


def test_window_explorer_shows_what_its_controls_say():
    player = drawn.Player(gradient_window.window_explorer(GRADS))
    assert player.shown.svg == gradient_window.draw_window(GRADS, 0).svg
    player.set("scale", 12)
    assert player.set("format", "bf16").svg == gradient_window.draw_window(GRADS, 12, "bf16").svg


def test_what_becomes_of_the_gradients_later_does_not_matter():
    grads = [grad.clone() for grad in GRADS]
    explorer = gradient_window.window_explorer(grads)
    before = explorer.svg
    grads[0].fill_(7)
    assert explorer.svg == before


def test_the_explorer_keeps_what_every_explorer_keeps():
    drawn.check_explorer(gradient_window.window_explorer(GRADS))
    many = torch.randn(10_000, generator=torch.Generator().manual_seed(0)).mul(4).exp() * 1e-7
    drawn.check_explorer(gradient_window.window_explorer([many]))
