"""The bytes of a training step, as counted by hand."""

from functools import partial

import torch

from tests.pictures import drawn
from torchkata.pictures import memory_bars


def test_memory_as_counted_by_hand():
    parameters = 4 * (256 * 512 + 512 + 512 * 10 + 10)
    for batch in (1, 64, 128):
        activations = batch * (4 * (256 + 512 + 10) + 8) + 4
        assert memory_bars.memory_bars(batch) == {
            "parameters": parameters,
            "gradients": parameters,
            "optimizer": 2 * parameters + 4 * 4,
            "activations": activations,
        }


def test_memory_of_other_optimizers():
    with_momentum = memory_bars.memory_bars(2, "SGD with momentum")
    assert with_momentum["optimizer"] == with_momentum["parameters"]
    assert memory_bars.memory_bars(2, "SGD")["optimizer"] == 0


def test_measuring_leaves_the_learners_settings_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    usual = memory_bars.memory_bars(8)
    assert torch.equal(torch.rand(2), expected)
    with torch.no_grad(), torch.device("meta"):
        assert memory_bars.memory_bars(8) == usual


GALLERY = drawn.Gallery(
    {f"memory {batch}": partial(memory_bars.draw_memory, batch) for batch in (1, 64, 512)}
    | {
        "memory of SGD": partial(memory_bars.draw_memory, 512, "SGD"),
        "memory with momentum": partial(memory_bars.draw_memory, 512, "SGD with momentum"),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def test_the_words_say_the_bytes():
    assert "activations 199,684 bytes" in GALLERY["memory 64"].alt


def test_memory_explorer_shows_what_its_controls_say():
    player = drawn.Player(memory_bars.memory_explorer())
    player.set("batch size", 128)
    assert player.set("optimizer", "SGD").svg == memory_bars.draw_memory(128, "SGD").svg
