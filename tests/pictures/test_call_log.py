"""Who calls whom agrees with what must happen, for every combination of switches."""

from functools import partial
from itertools import product

import pytest

from tests.pictures import drawn
from torchkata.pictures import call_log
from torchkata.pictures.call_log import draw_call_log

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
        "attaches the node TwoBackward to both results",
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
        ({"k_given": True}, "Two.apply(x, 3.0)"),  # with k=3.0, apply would raise before torch 2.13
        ({"k_given": True}, "inputs (1.0, 3.0), output (30.0, 100.0)"),
        ({"returns": "float64"}, "returns (10.0, None), float64"),
        ({"x_grad": False}, "x.requires_grad False"),
        ({"x_grad": False}, "attaches no node"),
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
    with drawn.other_settings():
        assert log_of() == expected


LOGS = {
    "log": {},
    "log, all switched": {"k_given": True, "second_output_used": True, "materialize": False, "returns": "float64"},
    "log, too few": {"returns": "too few"},
    "log, nothing tracked": {"x_grad": False, "k_given": True, "second_output_used": True, "grad_mode": False},
    "log, forward": {"call": "forward", "k_given": True},
    "log, forward, nothing tracked": {"call": "forward", "x_grad": False},
}


def picture_of(switches):
    return draw_call_log(log_of(**switches))


GALLERY = drawn.Gallery({name: partial(picture_of, switches) for name, switches in LOGS.items()})


class TestLook(drawn.Look):
    gallery = GALLERY


def test_the_words_tell_what_the_picture_shows():
    assert "8. the engine: x.grad = 10.0, float32." in draw_call_log(log_of()).alt
    assert "The error: function TwoBackward" in draw_call_log(log_of(returns="too few")).alt


def test_call_log_explorer_shows_what_its_controls_say():
    explorer = call_log.call_log_explorer()
    assert explorer.svg == draw_call_log(log_of()).svg
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
        shown = drawn.Player(explorer).set(name, value).svg
        assert shown == draw_call_log(log_of(**{switch: value})).svg != explorer.svg


def test_every_state_is_drawn_ahead():
    assert len(call_log.call_log_explorer().frames()) == len(EVERY_LOG)
