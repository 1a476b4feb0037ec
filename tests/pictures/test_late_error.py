"""Who does what when, and which line is blamed."""

from functools import partial

from tests.pictures import drawn
from torchkata.pictures import late_error
from torchkata.pictures.late_error import Call

CALLS = (Call("loss", 4, faulty=True), Call("double", 2), Call("backward", 3), Call("item", 1, waits=True))


def test_as_usual_the_waiting_line_is_blamed():
    line = late_error.time_line(CALLS)
    assert [step.name for step in line.steps] == ["loss", "double", "backward", "item"]
    assert line.blamed == 3
    assert [step.queued_at for step in line.steps] == [0, 1, 2, 3]
    assert line.steps[-1].left_at == line.steps[0].ends == 5


def test_blocking_blames_the_faulty_line():
    line = late_error.time_line(CALLS, blocking=True)
    assert [step.name for step in line.steps] == ["loss"] and line.blamed == 0
    assert line.steps[0].left_at == line.steps[0].ends == 5


def test_after_the_fault_the_gpu_does_nothing():
    for step in late_error.time_line(CALLS).steps[1:]:
        assert step.starts is None


def test_a_call_after_the_fault_notices_it_without_waiting():
    calls = [Call("loss", 1, faulty=True), Call("a", 1), Call("b", 1), Call("c", 1)]
    line = late_error.time_line(calls)
    assert line.steps[line.blamed].name == "b"


def test_without_a_fault_nobody_is_blamed_and_work_goes_in_order():
    line = late_error.time_line([Call("a", 3), Call("b", 2), Call("item", 1, waits=True), Call("c", 1)])
    assert line.blamed is None
    assert [(step.starts, step.ends) for step in line.steps] == [(1, 4), (4, 6), (6, 7), (8, 9)]
    assert [step.left_at for step in line.steps] == [1, 2, 7, 8]


NO_FAULT = [Call("a", 3), Call("item", 1, waits=True)]
NOTICED = [Call("a", 1, faulty=True), *(Call(name, 1) for name in "bcd")]
GALLERY = drawn.Gallery(
    {
        "late": partial(late_error.late_error, CALLS),
        "late, blocking": partial(late_error.late_error, CALLS, blocking=True),
        "late, no fault": partial(late_error.late_error, NO_FAULT),
        "late, noticed": partial(late_error.late_error, NOTICED),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    apart = False


def test_the_words_name_the_line_that_is_blamed():
    assert "The error is reported at item." in GALLERY["late"].alt
    assert "The error is reported at loss." in GALLERY["late, blocking"].alt
