"""A CUDA build of torch on a machine without a driver: what was built in is not there, and right answers stay right."""

from __future__ import annotations

import pytest
import torch

from tests.notebooks import running

EXERCISES = [
    (chapter, exercise)
    for chapter in ("01_backends", "02_tensors_views", "03_gather_scatter")
    for exercise in running.exercise_ids(chapter)
]


@pytest.fixture
def cuda_build_without_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.accelerator answers as it does there: the build has CUDA, and whoever asks for the current card fails."""

    def no_driver() -> int:
        raise RuntimeError("Found no NVIDIA driver on your system.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch._C, "_accelerator_getDeviceIndex", no_driver)


@pytest.mark.usefixtures("cuda_build_without_driver")
def test_the_stand_in_has_cuda_built_in_and_no_card():
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert not torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator(check_available=True) is None
    with pytest.raises(RuntimeError, match="no NVIDIA driver"):
        torch.accelerator.current_device_index()


@pytest.mark.usefixtures("cuda_build_without_driver")
@pytest.mark.parametrize("chapter, exercise", EXERCISES)
def test_solutions_get_full_marks_without_a_driver(chapter: str, exercise: str):
    solution = running.exercise_cells(chapter, exercise)[0].source
    marks = running.grade(chapter, exercise, solution)
    assert marks.points == pytest.approx(running.full_points(chapter, exercise)), marks.text
