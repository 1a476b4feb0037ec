"""States, moves, limits, frames: with a small explorer of our own."""

import json

import pytest
import torch

from torchkata.pictures import bridge, explorer
from torchkata.pictures.controls import choice, slider, steps, switch, text_field
from torchkata.pictures.explorer import Explorer
from torchkata.pictures.kit import Canvas
from torchkata.pictures.packing import Frame, height_of, pack, unpack
from torchkata.pictures.show import Picture

EXAMPLES = {"short": "ab", "long": "abcdef"}


def draw(state):
    if "!" in state["text"]:
        raise ValueError("text: no ! please")
    canvas = Canvas(100, 40 + 10 * len(state["text"]))
    canvas.text(10, 20, f"{state['text'][: state['step']]} {state['loud']} {state['size']}")
    return Picture(canvas, f"The first {state['step']} letters of {state['text']}, loud: {state['loud']}.")


def small(ahead=None):
    controls = {
        "example": choice("example", EXAMPLES, sets={name: {"text": t, "step": 0} for name, t in EXAMPLES.items()}),
        "text": text_field("text", "ab", resets={"step": 0}),
        "loud": switch("loud", False),
        "size": slider("size", 2, 1, 3),
        "step": steps("step", 1, 9),
    }
    rows = [["example", "text"], ["loud", "size"], ["step"]]
    return Explorer(controls, rows, draw, lambda state: {"step": len(state["text"])}, ahead)


def test_a_move_sets_what_belongs_to_it():
    one = small()
    assert one.start["step"] == 1
    state = one.moved(one.start, "example", "long")
    assert (state["text"], state["step"], state["size"]) == ("abcdef", 0, 2)
    state = one.moved(one.moved(state, "step", 6), "text", "xyz")
    assert (state["example"], state["step"]) == ("long", 0)


def test_a_control_stays_within_its_limits():
    one = small()
    assert one.moved(one.start, "step", 9)["step"] == 2
    assert one.state_of([0, "a", 0, 0, 9])["step"] == 1
    assert one.frame(one.start).limits == {4: 2}


def test_after_takes_moves_one_by_one():
    assert small().after(step=2, example="long", loud=True) == {
        "example": "long",
        "text": "abcdef",
        "loud": True,
        "size": 2,
        "step": 0,
    }


def test_all_combinations_are_drawn_ahead_where_nothing_else_is_said():
    frames = small().frames()
    keys = [json.loads(key) for key in frames]
    assert keys[0] == [0, "ab", 0, 1, 1]
    # both examples with all steps of their texts, loud or not, three sizes
    assert len(keys) == len(set(frames)) == (3 + 7) * 2 * 3


def test_blocks_say_what_is_drawn_ahead():
    frames = small([{"example": EXAMPLES, "step": range(10)}, {"size": [3]}]).frames()
    assert len(frames) == 3 + 7 + 1
    assert '[0,"ab",0,2,1]' in frames


def test_too_many_are_cut(monkeypatch):
    monkeypatch.setattr(explorer, "MOST_AHEAD", 5)
    assert len(small().frames()) == 5


def test_drawing_ahead_takes_one_thread_and_gives_the_others_back(monkeypatch):
    before, seen = torch.get_num_threads(), []
    one = small()
    monkeypatch.setattr(one, "_draw", lambda state: (seen.append(torch.get_num_threads()), draw(state))[1])
    one.frames()
    assert set(seen) == {1} and torch.get_num_threads() == before


def test_the_page_is_told_of_the_controls_by_numbers():
    told = small().spec()
    assert told["start"] == [0, "ab", 0, 1, 1] and told["rows"] == [[0, 1], [2, 3], [4]]
    example, text, loud, size, step = told["controls"]
    assert example["sets"] == {0: {1: "ab", 4: 0}, 1: {1: "abcdef", 4: 0}}
    assert text["resets"] == {4: 0} and "shown" not in text
    assert loud["shown"] == ["off", "on"] and size["shown"] == ["1", "2", "3"]
    assert step["buttons"] == {"back": "back", "on": "step", "anew": "start over"}


def test_frames_are_packed_and_unpacked():
    frames = {
        "[0]": Frame('<svg height="40pt">\na ä\n</svg>', "words", {3: 2}),
        "[1]": Frame('<svg height="9pt"/>', "words"),
    }
    assert unpack(pack(frames)) == frames
    assert pack(frames) == pack(dict(frames))
    assert height_of(frames["[0]"].svg) == 40


def test_python_answers_a_page_or_says_what_is_wrong():
    one = small()

    def frame(codes):
        return one.frame(one.state_of(codes))

    assert bridge._drawn(frame, [0, "xyz", 1, 0, 2])["words"] == "The first 2 letters of xyz, loud: True."
    assert bridge._drawn(frame, [0, "xyz", 1, 0, 2])["limits"] == {"4": 3}
    assert bridge._drawn(frame, [0, "xyz!", 1, 0, 2]) == {"error": "text: no ! please"}
    assert "there is no value number 7" in bridge._drawn(frame, [7, "a", 1, 0, 2])["error"]
    assert "error" in bridge._drawn(frame, [0])


@pytest.mark.parametrize("name", ["step", "nothing"])
def test_a_move_that_is_none_is_refused(name):
    with pytest.raises((KeyError, ValueError)):
        small().moved(small().start, name, "much")
