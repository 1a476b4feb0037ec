"""Which call changes what."""

import torch

from tests.pictures import drawn
from torchkata.pictures import loop_effects

EFFECTS = {
    "zero_grad": {".grad"},
    "forward": {"buffers"},
    "loss": set(),
    "backward": {".grad"},
    "clip_grad_norm_": {".grad"},
    "optimizer.step": {"weights", "optimizer state"},
    "scheduler.step": {"lr"},
}


def test_effects():
    assert loop_effects.effects() == EFFECTS


def test_the_learners_settings_do_not_matter():
    state = torch.get_rng_state()
    with drawn.other_settings():
        assert loop_effects.effects() == EFFECTS
    assert torch.equal(torch.get_rng_state(), state)


GALLERY = drawn.Gallery({"effects": loop_effects.loop_effects})


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "forward: buffers; loss: none of them" in GALLERY["effects"].alt
