"""What a control may say, and how it is told to a page and back."""

import pytest

from torchkata.pictures.controls import choice, decimal_slider, notched_slider, slider, steps, switch, text_field


def test_a_choice_starts_with_its_first_or_with_what_is_asked_for():
    assert choice("c", ["a", "b"]).start == "a"
    assert choice("c", [("one", 1), ("two", 2)], 2).start == 2
    assert choice("c", [("one", 1), ("two", 2)]).shown == ["one", "two"]


def test_a_slider_goes_from_its_lowest_to_its_highest_value():
    assert list(slider("s", 4, 2, 8, step=3 - 1).values) == [2, 4, 6, 8]
    told = decimal_slider("d", 0.3, 0.1, 0.5, 0.1)
    assert told.values == [0.1, 0.2, 0.3, 0.4, 0.5] and told.shown == ["0.1", "0.2", "0.3", "0.4", "0.5"]
    assert notched_slider("n", (1, 10, 100), 10).shown == ["1", "10", "100"]


@pytest.mark.parametrize("control", [choice("c", "ab"), slider("s", 4, 2, 8), switch("w", True), steps("n", 1, 3)])
def test_each_value_has_a_code_and_comes_back(control):
    assert [control.value(control.code(value)) for value in control.values] == list(control.values)
    assert control.code(control.start) == list(control.values).index(control.start)


def test_a_field_says_any_text():
    told = text_field("t", "abc")
    assert told.code("ä\n") == "ä\n" == told.value("ä\n")


@pytest.mark.parametrize("code", [-1, 3, "1", 1.0, None])
def test_a_code_that_stands_for_nothing_is_refused(code):
    with pytest.raises(ValueError, match="there is no value number"):
        choice("c", "abc").value(code)


def test_a_value_that_a_control_cannot_say_is_refused():
    with pytest.raises(ValueError, match="s: 9 is none of 2, 3"):
        slider("s", 2, 2, 3).code(9)
    with pytest.raises(ValueError, match="is none of"):
        slider("s", 9, 2, 3)


def test_a_button_without_a_name_is_left_out():
    assert set(steps("n", 0, 3, back="").buttons) == {"on", "anew"}
