"""The pictures of chapter 05: their states agree with torch, and the drawings are readable."""

import hashlib
import os
import subprocess
import sys
from itertools import product

import pytest
import torch
import torch.nn.functional as F

from tests import ROOT
from tests.pictures import drawn
from torchkata.pictures import call_log, saved_for_backward, step_surrogate
from torchkata.pictures.call_log import draw_call_log
from torchkata.pictures.saved_for_backward import Kept, kept_storages
from torchkata.pictures.step_surrogate import draw_surrogate, surrogate_curves

SWITCHES = {
    "x_grad": (True, False),
    "k_given": (False, True),
    "call": call_log.CALLS,
    "second_output_used": (False, True),
    "materialize": (True, False),
    "returns": call_log.RETURNS,
    "grad_mode": (True, False),
}
EVERY_LOG = [dict(zip(SWITCHES, values, strict=True)) for values in product(*SWITCHES.values())]


def log_of(**switches):
    return call_log.call_log(**switches)


def actors(log):
    return [event.where for event in log.events]


# ---------------------------------------------------------------- the log of calls


@pytest.mark.parametrize("call", call_log.CALLS)
def test_every_combination_of_switches_agrees_with_what_must_happen(call):
    for switches in EVERY_LOG:
        if switches["call"] != call:
            continue
        log = log_of(**switches)
        tracked = switches["x_grad"] and switches["grad_mode"]
        refused = not tracked or (call == "apply" and switches["returns"] == "too few")
        gradient = 10 * (3 if switches["k_given"] else 1) + 100 * switches["second_output_used"]
        assert (log.error is not None) == refused, switches
        assert log.grad == (None if refused else gradient), switches
        assert log.node == (None if not tracked else "TwoBackward" if call == "apply" else "MulBackward0")
        assert ("backward" in actors(log)) == (tracked and call == "apply")


def test_the_order_of_calls():
    log = log_of()
    assert [event.what.split("(")[0].split(":")[0] for event in log.events] == [
        "Two.apply",
        "calls forward",
        "calls setup_context",
        "hangs the node TwoBackward on both results",
        "first.backward",
        "calls backward",
        "returns ",
        "x.grad = 10.0, float32",
    ]


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ({"materialize": True}, "g_second=0.0"),
        ({"materialize": False}, "g_second=None"),
        ({"materialize": False, "second_output_used": True}, "g_second=1.0"),
        ({"k_given": True}, "inputs (1.0, 3.0), output (30.0, 100.0)"),
        ({"returns": "float64"}, "returns (10.0, None), float64"),
        ({"x_grad": False}, "x.requires_grad False"),
        ({"x_grad": False}, "hangs no node"),
        ({"call": "forward"}, "grad mode on"),
        ({"call": "apply"}, "grad mode off"),
    ],
)
def test_what_the_lines_say(switches, words):
    assert any(words in event.what for event in log_of(**switches).events)


def test_the_errors_are_torchs_own():
    assert log_of(returns="too few").error.endswith("incorrect number of gradients (expected 2, got 1)")
    assert log_of(x_grad=False).error.startswith("element 0 of tensors does not require grad")


@pytest.mark.parametrize("switches", [{"call": "call"}, {"returns": "nothing"}])
def test_unknown_words_are_a_mistake_of_the_caller(switches):
    with pytest.raises(ValueError, match="is one of"):
        log_of(**switches)


def test_the_learners_settings_do_not_matter():
    expected = log_of()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), torch.device("meta"):
            assert log_of() == expected
            curves = surrogate_curves("round", "tanh", 2.0, [0.2, 0.7])
    finally:
        torch.set_default_dtype(before)
    assert curves == surrogate_curves("round", "tanh", 2.0, [0.2, 0.7])


# ---------------------------------------------------------------- steps and surrogates

XS = step_surrogate._places()


@pytest.mark.parametrize("levels", range(2, 10))
@pytest.mark.parametrize("name", step_surrogate.STEPS)
def test_a_step_is_flat_wherever_it_is_drawn(name, levels):
    forward, _, quotient = surrogate_curves(name, "identity", 1.0, XS, levels)
    assert set(quotient) == {0.0}
    assert len(set(forward)) == {"sign": 2, "round": 5, "quantise": levels}[name]


def test_forward_values():
    xs = [-1.7, -0.4, 0.0, 0.4, 0.6, 1.7]
    assert surrogate_curves("sign", "identity", 1, xs)[0] == [-1, -1, 1, 1, 1, 1]
    assert surrogate_curves("round", "identity", 1, xs)[0] == [-2, 0, 0, 0, 1, 2]
    assert surrogate_curves("quantise", "identity", 1, xs, 3)[0] == [-1, 0, 0, 0, 1, 1]
    four = surrogate_curves("quantise", "identity", 1, [-5.0, -0.5, 0.5, 5.0], 4)[0]
    assert four == pytest.approx([-1, -1 / 3, 1 / 3, 1])


@pytest.mark.parametrize("name", step_surrogate.STEPS)
def test_gradients_are_those_of_the_surrogate(name):
    xs = [-1.5, -0.25, 0.0, 0.75, 1.5]
    assert surrogate_curves(name, "identity", 3, xs)[1] == [1] * 5
    assert surrogate_curves(name, "clipped identity", 3, xs)[1] == [0, 1, 1, 1, 0]
    slopes = [3 * (1 - torch.tanh(torch.tensor(3 * x, dtype=torch.float64)).item() ** 2) for x in xs]
    assert surrogate_curves(name, "tanh", 3, xs)[1] == pytest.approx(slopes)


@pytest.mark.parametrize("words", [("step", "tanh", 4), ("sign", "relu", 4), ("quantise", "tanh", 1)])
def test_unknown_steps_and_surrogates_are_told(words):
    name, surrogate, levels = words
    with pytest.raises(ValueError, match="none of"):
        surrogate_curves(name, surrogate, 1.0, [0.5], levels)


# ---------------------------------------------------------------- what is kept


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


# ---------------------------------------------------------------- how they look


def gallery():
    a, b = torch.linspace(-3, 3, 100).requires_grad_(), torch.linspace(-1, 1, 100).requires_grad_()
    formulas = {
        "a * torch.sigmoid(a)": lambda a, b: a * torch.sigmoid(a),
        "F.silu(a) * b": lambda a, b: F.silu(a) * b,
        "a.sin() * b.cos() + a.exp()": lambda a, b: a.sin() * b.cos() + a.exp(),
        "a + b": lambda a, b: a + b,
    }
    logs = {
        "log": {},
        "log, all switched": {"k_given": True, "second_output_used": True, "materialize": False, "returns": "float64"},
        "log, too few": {"returns": "too few"},
        "log, nothing tracked": {"x_grad": False, "k_given": True, "second_output_used": True, "grad_mode": False},
        "log, forward": {"call": "forward", "k_given": True},
        "log, forward, nothing tracked": {"call": "forward", "x_grad": False},
    }
    surrogates = [("sign", "tanh", 8.0), ("sign", "tanh", 0.5), ("round", "identity", 1.0)]
    surrogates.append(("quantise", "clipped identity", 1.0))
    kept = {"kept": saved_for_backward.saved_for_backward(formulas, {"a": a, "b": b})}
    drawn = {name: draw_call_log(log_of(**switches)) for name, switches in logs.items()}
    return kept | drawn | {", ".join(map(str, words)): draw_surrogate(*words) for words in surrogates}


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
from tests.pictures.test_05 import fingerprint
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


def test_the_words_tell_what_the_picture_shows():
    assert "a * torch.sigmoid(a) keeps 800 bytes: 3 tensors in 2 storages" in GALLERY["kept"].alt
    assert "a + b keeps 0 bytes" in GALLERY["kept"].alt
    assert "8. the engine: x.grad = 10.0, float32." in draw_call_log(log_of()).alt
    assert "The error: function TwoBackward" in draw_call_log(log_of(returns="too few")).alt
    assert "2.00 near x = 0" in draw_surrogate("sign", "tanh", 2.0).alt


# ---------------------------------------------------------------- the explorers


def test_call_log_explorer_shows_what_its_controls_say():
    explorer = call_log.call_log_explorer()
    assert drawn.shown(explorer) == draw_call_log(log_of()).svg
    controls = {
        "x_grad": ("x requires grad", False),
        "k_given": ("pass k", True),
        "call": ("call", "forward"),
        "second_output_used": ("use the second result", True),
        "materialize": ("materialize_grads", False),
        "returns": ("backward returns", "float64"),
        "grad_mode": ("grad mode", False),
    }
    assert set(controls) == set(SWITCHES)
    for switch, (name, value) in controls.items():
        before = explorer.controls[name].value
        explorer.controls[name].value = value
        assert drawn.shown(explorer) == draw_call_log(log_of(**{switch: value})).svg
        explorer.controls[name].value = before


def test_surrogate_explorer_shows_what_its_controls_say():
    explorer = step_surrogate.surrogate_explorer()
    assert drawn.shown(explorer) == draw_surrogate("sign", "tanh", 2.0).svg
    explorer.controls["function"].value = "quantise"
    explorer.controls["levels"].value = 7
    explorer.controls["steepness"].value = 4.5
    assert drawn.shown(explorer) == draw_surrogate("quantise", "tanh", 4.5, 7).svg
    explorer.controls["surrogate"].value = "clipped identity"
    assert drawn.shown(explorer) == draw_surrogate("quantise", "clipped identity", 4.5, 7).svg


EXPLORERS = (call_log.call_log_explorer, step_surrogate.surrogate_explorer)


def test_every_control_has_a_description_and_stands_in_a_row():
    for build, rows in zip(EXPLORERS, (call_log.ROWS, step_surrogate.ROWS), strict=True):
        controls = build().controls
        assert all(control.description for control in controls.values())
        assert sorted(controls) == sorted(name for row in rows for name in row)
