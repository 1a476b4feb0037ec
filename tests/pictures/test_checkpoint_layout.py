"""The bytes of every tensor of a checkpoint."""

import io

import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import checkpoint_layout


def a_checkpoint(layers=1):
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    rng = torch.get_rng_state()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng, "step": 3}


def test_layout_counts_the_bytes_of_every_tensor():
    checkpoint = a_checkpoint()
    layout = dict(checkpoint_layout.checkpoint_layout(checkpoint))
    assert layout["model/0.weight"] == 36 and layout["model/0.bias"] == 12
    assert layout["optimizer/state/0/exp_avg_sq"] == 36 and layout["optimizer/state/1/step"] == 4
    assert layout["optimizer/param_groups/0/lr"] == 0 and layout["optimizer/param_groups/0/params/1"] == 0
    assert layout["rng"] == checkpoint["rng"].nbytes and layout["step"] == 0
    assert sum(layout.values()) == 48 + 2 * 48 + 2 * 4 + checkpoint["rng"].nbytes


def test_layout_is_the_same_after_a_file():
    checkpoint = a_checkpoint()
    file = io.BytesIO()
    torch.save(checkpoint, file)
    file.seek(0)
    assert checkpoint_layout.checkpoint_layout(torch.load(file)) == checkpoint_layout.checkpoint_layout(checkpoint)


GALLERY = drawn.Gallery(
    {
        "a checkpoint": lambda: checkpoint_layout.checkpoint_anatomy(a_checkpoint()),
        "a large checkpoint": lambda: checkpoint_layout.checkpoint_anatomy(a_checkpoint(10)),
        "a small checkpoint": lambda: checkpoint_layout.checkpoint_anatomy({"step": 3, "notes": {}}),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False
