"""The pictures of chapter 11: their states agree with torch, and the drawings are readable."""

import hashlib
import math
import os
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader

from tests import ROOT
from tests.pictures import drawn
from torchkata.pictures import batch_anatomy, loop_effects, loss_curve, optimizer_path
from torchkata.pictures.batch_anatomy import collate_plan, draw_batches, read_lengths
from torchkata.pictures.loss_curve import LiveCurve, draw_losses, scale
from torchkata.pictures.optimizer_path import draw_path, path, verdict

# ---------------------------------------------------------------- the path of an optimizer

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


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_plan_is_that_of_a_loader(shuffle, drop_last):
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(range(7), batch_size=3, shuffle=shuffle, drop_last=drop_last, generator=generator)
    plan = collate_plan([1] * 7, 3, shuffle, 3, drop_last)
    assert plan == [batch.tolist() for batch in loader]
    assert [len(batch) for batch in plan] == ([3, 3] if drop_last else [3, 3, 1])


def test_the_plan_leaves_the_global_random_numbers_alone():
    before = torch.get_rng_state()
    collate_plan([1, 2, 3], 2, True, 0, False)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_counted_as_padding():
    assert batch_anatomy._amounts([2, 7, 3, 0], [[0, 1], [2, 3]]) == (20, 8)
    assert batch_anatomy._amounts([0, 0], [[0, 1]]) == (0, 0)


@pytest.mark.parametrize("text", ["", "3 x", "1 -2", "13", " ".join("1" * 11)])
def test_lengths_that_cannot_be_drawn_are_refused(text):
    with pytest.raises(ValueError, match=r"Type 1 to 10|at most here"):
        read_lengths(text)


def test_lengths_are_read():
    assert read_lengths("3, 5 0") == [3, 5, 0]


# ---------------------------------------------------------------- which call changes what

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
    before, expected = torch.get_default_dtype(), collate_plan([1] * 5, 2, True, 1, False)
    state = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), torch.device("meta"):
            assert loop_effects.effects() == EFFECTS
            assert collate_plan([1] * 5, 2, True, 1, False) == expected
    finally:
        torch.set_default_dtype(before)
    assert torch.equal(torch.get_rng_state(), state)


# ---------------------------------------------------------------- curves of losses


@pytest.mark.parametrize("largest", [1e-7, 0.03, 0.99, 1.0, 1.01, 2.3, 47.0, 1e9])
def test_the_scale_holds_the_largest_value_and_has_few_marks(largest):
    top, step = scale([largest, 0.0, math.nan, math.inf])
    assert largest <= top * (1 + 1e-9) and top <= 2 * largest
    assert round(top / step) == pytest.approx(top / step) and 2 <= round(top / step) <= 6


def test_the_scale_of_nothing():
    assert scale([]) == scale([math.nan, 0.0]) == (1.0, 0.5)


def test_a_live_curve_collects_and_says_at_the_end(capsys):
    curve = LiveCurve(2, "training", "validation")
    curve.add(training=1.5, validation=torch.tensor(1.0))
    assert capsys.readouterr().out == ""
    curve.add(validation=1.25, training=0.5)
    assert capsys.readouterr().out.startswith("Loss after 2 of 2 epochs. training: first 1.5, last 0.5")
    assert curve.losses == {"training": [1.5, 0.5], "validation": [1.0, 1.25]}
    assert (curve.lowest("training"), curve.lowest("validation")) == (0.5, 1.0)


def test_a_live_curve_wants_each_loss_by_name():
    with pytest.raises(ValueError, match="training, validation is needed; given: training"):
        LiveCurve(2, "training", "validation").add(training=1.0)


def test_in_a_notebook_one_place_is_drawn_anew(monkeypatch):
    import IPython

    shown = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda bundle, **options: shown.append((bundle, options)))
    curve = LiveCurve(2, "loss")
    curve.add(loss=2.0)
    curve.add(loss=1.0)
    (first, of_first), (second, of_second), (words, _) = shown
    assert of_first["display_id"] == of_second["display_id"]
    assert (of_first["update"], of_second["update"]) == (False, True)
    assert first["image/svg+xml"] != second["image/svg+xml"] == curve.picture().svg
    assert of_second["metadata"]["image/svg+xml"]["alt"] == second["text/plain"]
    assert "last 1" in words["text/markdown"]


# ---------------------------------------------------------------- how they look


def gallery():
    paths = [
        ("SGD", 0.19, 30, 10, 0.0, 0.0),
        ("SGD", 0.21, 60, 10, 0.0, 0.0),
        ("SGD", 1.0, 60, 20, 0.95, 1.0),
        ("SGD", 0.05, 40, 1, 0.9, 0.5),
        ("Adam", 0.1, 40, 10, 0.0, 0.0),
        ("AdamW", 0.001, 1, 1, 0.0, 0.5),
    ]
    batches = [
        ([2, 7, 3, 6, 2, 7, 3], 3, 0, False, 0, False),
        ([12] * 10, 1, -9, True, 1, True),
        ([0, 0, 5], 2, 9, False, 0, True),
        ([0], 5, 0, False, 0, True),
    ]
    losses = {
        "no losses": ({"training": [], "validation": []}, 20),
        "one": ({"training": [2.5]}, 1),
        "some": ({"training": [2.5, 1.2, math.nan, 0.3], "validation": [2.0, 1.0, math.inf, 1e-3]}, 25),
        "many": ({"a": [1 / n for n in range(1, 101)], "b": [2 / n for n in range(1, 101)], "c": [0.1] * 100}, 100),
    }
    drawings = {"effects": loop_effects.loop_effects(), "refused": batch_anatomy._refusal("Type numbers.")}
    drawings |= {", ".join(map(str, words)): draw_path(*words) for words in paths}
    drawings |= {str(words): draw_batches(*words) for words in batches}
    return drawings | {name: draw_losses(*words) for name, words in losses.items()}


GALLERY = gallery()


def fingerprint():
    return hashlib.sha256("".join(picture.svg for picture in GALLERY.values()).encode()).hexdigest()


ELSEWHERE = """
import sys
sys.path.insert(0, {root!r})
from matplotlib import rcParams
rcParams.update({{"font.size": 20, "lines.linewidth": 5, "lines.antialiased": False, "lines.marker": "o"}})
rcParams.update({{"lines.dash_capstyle": "round", "lines.scale_dashes": True, "patch.linewidth": 5}})
rcParams.update({{"lines.solid_capstyle": "round", "svg.hashsalt": "x", "savefig.bbox": "tight"}})
rcParams.update({{"markers.fillstyle": "none", "lines.markeredgewidth": 4, "lines.dash_joinstyle": "miter"}})
from tests.pictures.test_11 import fingerprint
print(fingerprint())
"""


def test_another_process_with_its_own_settings_draws_the_same_bytes():
    script = ELSEWHERE.format(root=str(ROOT))
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.strip() == fingerprint()


@pytest.mark.parametrize("name", GALLERY)
def test_a_picture_is_one_svg_element_with_words(name):
    drawn.check_svg(GALLERY[name])


@pytest.mark.parametrize("name", GALLERY)
def test_no_text_is_cut_off_or_covered_by_another(name):
    drawn.check_texts(GALLERY[name].figure)


@pytest.mark.parametrize("name", GALLERY)
def test_every_box_stands_on_the_card_and_none_on_another(name):
    drawn.check_boxes(GALLERY[name].figure)


@pytest.mark.parametrize("name", GALLERY)
def test_a_card_fits_into_a_page(name):
    assert GALLERY[name].figure.get_size_inches()[0] * 72 <= 640


@pytest.mark.parametrize("name", GALLERY)
def test_lines_and_marks_stay_on_the_card(name):
    figure = GALLERY[name].figure
    width, height = figure.get_size_inches() * 72
    for line in figure.axes[0].lines:
        for x, y in zip(*line.get_data(), strict=True):
            assert 0 <= x <= width and 0 <= y <= height


def test_the_words_tell_what_the_picture_shows():
    assert "forward: buffers; loss: none of them" in GALLERY["effects"].alt
    words = draw_batches([2, 7, 3], 2, 0, False, 0, True).alt
    assert "batch 0: shape (2, 7), 5 of 14 steps are padding; samples 0 of length 2, 1 of length 7." in words
    assert words.endswith("Left out: sample 2.")
    assert draw_path("SGD", 0.21, 30, 10, 0.0, 0.0).alt.startswith("SGD, lr 0.21: diverges.")
    assert "its first step is (0.1, -0.1)" in draw_path("Adam", 0.1, 30, 10, 0.0, 0.0).alt
    assert "training: first 2.5, last 0.3, lowest 0.3." in GALLERY["some"].alt


# ---------------------------------------------------------------- the explorers


def test_optimizer_explorer_shows_what_its_controls_say():
    explorer = optimizer_path.optimizer_explorer()
    assert drawn.shown(explorer) == draw_path("SGD", 0.19, 30, 10, 0.0, 0.0).svg
    for name, value in {"lr": 0.21, "momentum": 0.5, "weight_decay": 0.5, "steps": 7, "curvature": 3}.items():
        explorer.controls[name].value = value
    assert drawn.shown(explorer) == draw_path("SGD", 0.21, 7, 3, 0.5, 0.5).svg
    explorer.controls["optimizer"].value = "AdamW"
    assert drawn.shown(explorer) == draw_path("AdamW", 0.21, 7, 3, 0.5, 0.5).svg


def test_batch_explorer_shows_what_its_controls_say():
    explorer = batch_anatomy.batch_anatomy_explorer()
    assert drawn.shown(explorer) == draw_batches([2, 7, 3, 6, 2, 7, 3], 3, 0, False, 0, False).svg
    values = {"lengths": "1 2 3 4", "batch_size": 2, "pad_value": -1, "shuffle": True, "seed": 4, "drop_last": True}
    for name, value in values.items():
        explorer.controls[name].value = value
    assert drawn.shown(explorer) == draw_batches([1, 2, 3, 4], 2, -1, True, 4, True).svg
    explorer.controls["lengths"].value = "many"
    assert "whole numbers" in explorer.alt


EXPLORERS = (optimizer_path.optimizer_explorer, batch_anatomy.batch_anatomy_explorer)


def test_every_control_has_a_description_and_stands_in_a_row():
    for build, rows in zip(EXPLORERS, (optimizer_path.ROWS, batch_anatomy.ROWS), strict=True):
        controls = build().controls
        assert all(control.description for control in controls.values())
        assert sorted(controls) == sorted(name for row in rows for name in row)


def test_a_long_curve_is_drawn_whole():
    picture = loss_curve.draw_losses({"train": [1.0] * 50, "valid": [2.0] * 50}, 50)
    drawn.check_svg(picture)
