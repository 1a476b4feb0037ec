"""A module and its registries: what is drawn is what a module of that kind holds."""

import torch
from torch import nn

from tests.pictures import drawn
from torchkata.pictures import registry_walk

GALLERY = drawn.Gallery({"plain": registry_walk.registry_walk})


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.mean = nn.Buffer(torch.zeros(2))
        self.fc = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.size = 3
        self.extra = [nn.Linear(3, 3)]


def test_the_registries_are_those_of_such_a_module():
    net = Net()
    for drawn_one, module in ((registry_walk.NET, net), (registry_walk.FC, net.fc), (registry_walk.NORM, net.norm)):
        assert drawn_one.kind == type(module).__name__
        assert drawn_one.parameters == tuple(module._parameters)
        assert drawn_one.buffers == tuple(module._buffers)
        assert drawn_one.modules == tuple(module._modules)
    assert set(registry_walk.NET.other) == set(vars(net)) - set(vars(nn.Module()))


def test_every_registry_is_told():
    words = GALLERY["plain"].alt
    assert "_modules fc, norm; other attributes size, extra" in words
    assert "_buffers running_mean, running_var, num_batches_tracked" in words
