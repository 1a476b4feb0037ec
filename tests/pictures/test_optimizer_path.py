"""The path is that of torch.optim."""

import math
from functools import partial
from itertools import pairwise

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import optimizer_path
from torchkata.pictures.optimizer_path import draw_path, path, verdict

BUILD = {
    "SGD": lambda p, lr, momentum, wd: torch.optim.SGD([p], lr=lr, momentum=momentum, weight_decay=wd),
    "Adam": lambda p, lr, momentum, wd: torch.optim.Adam([p], lr=lr, weight_decay=wd),
    "AdamW": lambda p, lr, momentum, wd: torch.optim.AdamW([p], lr=lr, weight_decay=wd),
}


def torchs_path(opt, lr, steps, start, curvature, momentum, wd, minimum):
    p = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = BUILD[opt](p, lr, momentum, wd)
    lowest = torch.tensor(minimum, dtype=torch.float64)
    scales = torch.tensor([1.0, curvature], dtype=torch.float64)
    points = [tuple(p.tolist())]
    for _ in range(steps):
        optimizer.zero_grad()
        ((p - lowest).square() * scales).sum().div(2).backward()
        optimizer.step()
        points.append(tuple(p.tolist()))
    return points


@pytest.mark.parametrize("wd", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("opt", optimizer_path.OPTIMIZERS)
def test_the_path_is_that_of_torch_optim(opt, momentum, wd):
    arguments = (opt, 0.05, 50, (-2.0, 1.5), 7.0, momentum, wd, (1.0, -0.5))
    for mine, torchs in zip(path(*arguments), torchs_path(*arguments), strict=True):
        assert mine == pytest.approx(torchs, abs=1e-9)


def test_what_the_chapter_says_about_paths():
    assert verdict(path("SGD", 0.19, 30, (-3.0, 1.0), 10.0)) == "converges"
    assert verdict(path("SGD", 0.21, 30, (-3.0, 1.0), 10.0)) == "diverges"
    assert verdict(path("SGD", 0.001, 30, (-3.0, 1.0), 10.0)) == "not there yet"
    start, first = path("Adam", 0.1, 1, (-3.0, 1.0), 10.0)
    assert [b - a for a, b in zip(start, first, strict=True)] == pytest.approx([0.1, -0.1])
    minimum = (1.0, 1.0)
    for opt in optimizer_path.OPTIMIZERS:
        end = path(opt, 0.05, 600, (-2.0, 2.0), 10.0, 0.0, 0.5, minimum)[-1]
        assert math.dist(end, (0.0, 0.0)) < math.dist(minimum, (0.0, 0.0)) - 0.1  # decay pulls to the origin


def test_no_control_can_break_the_path():
    for opt in optimizer_path.OPTIMIZERS:
        for point in path(opt, 1.0, 60, (-2.0, 2.0), 20.0, 0.95, 1.0, (1.0, 1.0)):
            assert all(map(math.isfinite, point))


def test_no_control_can_leave_the_map():
    for steps in (5, 30, 60):
        points = path("SGD", 1.0, steps, (-2.0, 2.0), 20.0, 0.95, 1.0, (1.0, 1.0))
        pieces = [piece for start, end in pairwise(points) if (piece := optimizer_path._cut(start, end))]
        for x, y in (point for piece in pieces for point in piece):
            assert -3.0 <= x <= 2.5 and -1.2 <= y <= 3.2


def test_another_optimizer_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="none of SGD, Adam, AdamW"):
        path("RMSprop", 0.1, 1, (1.0, 1.0), 1.0)


PATHS = (
    ("SGD", 0.19, 30, 10, 0.0, 0.0),
    ("SGD", 0.21, 60, 10, 0.0, 0.0),
    ("SGD", 1.0, 60, 20, 0.95, 1.0),
    ("SGD", 0.05, 40, 1, 0.9, 0.5),
    ("Adam", 0.1, 40, 10, 0.0, 0.0),
    ("AdamW", 0.001, 1, 1, 0.0, 0.5),
)
GALLERY = drawn.Gallery({", ".join(map(str, words)): partial(draw_path, *words) for words in PATHS})


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert draw_path("SGD", 0.21, 30, 10, 0.0, 0.0).alt.startswith("SGD, lr 0.21: diverges.")
    assert "its first step is (0.1, -0.1)" in draw_path("Adam", 0.1, 30, 10, 0.0, 0.0).alt


def test_optimizer_explorer_shows_what_its_controls_say():
    player = drawn.Player(optimizer_path.optimizer_explorer())
    assert player.shown.svg == draw_path("SGD", 0.19, 30, 10, 0.0, 0.0).svg
    for name, value in {"lr": 0.21, "momentum": 0.5, "weight decay": 0.5, "steps": 7, "curvature": 3}.items():
        player.set(name, value)
    assert player.shown.svg == draw_path("SGD", 0.21, 7, 3, 0.5, 0.5).svg
    assert player.set("optimizer", "AdamW").svg == draw_path("AdamW", 0.21, 7, 3, 0.5, 0.5).svg


def test_the_moves_of_the_chapter_are_drawn_ahead():
    explorer = optimizer_path.optimizer_explorer()
    frames = explorer.frames()
    for moves in (
        {"lr": 0.21},
        {"optimizer": "Adam", "lr": 0.1},
        {"lr": 0.1, "momentum": 0.5},
        {"lr": 0.1, "weight decay": 0.5},
    ):
        assert explorer.key({**explorer.start, **moves}) in frames
