"""The report of the machine, CUDA demos with and without a device, their recordings, and errors shown by demos."""

import dataclasses
import json
import warnings
from pathlib import Path

import pytest
import torch

from torchkata import hardware
from torchkata.demos import error_of, results_of, warning_of
from torchkata.hardware import cuda_demo, machine_report
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import Place


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "RECORDINGS", tmp_path)
    monkeypatch.delenv(hardware.RECORD, raising=False)
    return tmp_path


def pretend_cuda(monkeypatch, available):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA Test")


def make_demo():
    @cuda_demo("08_amp")
    def speed():
        """How fast."""
        print("fast")
        return 3

    return speed


def make_changed_demo():
    @cuda_demo("08_amp")
    def speed():
        """How fast."""
        print("faster")
        return 3

    return speed


# ---------------------------------------------------------------- the report


def test_the_report_agrees_with_torch():
    report = machine_report()
    assert report.torch == torch.__version__
    assert report.cuda_available == torch.cuda.is_available()
    assert len(report.cuda_devices) == torch.cuda.device_count()
    assert report.threads == torch.get_num_threads()
    assert report.cores >= 1
    assert report.memory_gib > 0.1


def test_the_report_holds_no_paths():
    values = map(str, dataclasses.astuple(machine_report()))
    assert not [value for value in values if str(Path.home()) in value or value.startswith("/")]


@pytest.mark.parametrize(
    ("cuda", "hip", "build"), [("13.0", None, "CUDA 13.0"), (None, "6.4", "ROCm 6.4"), (None, None, "CPU")]
)
def test_the_build_in_words(monkeypatch, cuda, hip, build):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert machine_report().build == build


# ---------------------------------------------------------------- demos


def test_a_demo_runs_where_a_device_is(recordings, monkeypatch, capsys):
    pretend_cuda(monkeypatch, True)
    assert make_demo()() == 3
    assert capsys.readouterr().out == "fast\n"
    assert list(recordings.iterdir()) == []
    assert make_demo().__doc__ == "How fast."


def test_a_demo_is_skipped_in_one_line_elsewhere(recordings, monkeypatch, capsys):
    pretend_cuda(monkeypatch, False)
    assert make_demo()() is None
    assert capsys.readouterr().out == "No CUDA device here: skipped.\n"


def record_demo(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        pretend_cuda(patch, True)
        patch.setenv(hardware.RECORD, "1")
        assert make_demo()() == 3
    assert capsys.readouterr().out == "fast\n"


def test_a_recording_is_shown_elsewhere(recordings, monkeypatch, capsys):
    record_demo(monkeypatch, capsys)
    saved = json.loads((recordings / "08_amp" / "speed.json").read_text())
    assert saved["output"] == "fast\n"
    pretend_cuda(monkeypatch, False)
    make_demo()()
    assert capsys.readouterr().out == (
        "No CUDA device here: skipped.\n"
        f"Recorded on NVIDIA Test with torch {torch.__version__}, {saved['date']}:\n"
        "    fast\n"
    )


def test_a_stale_recording_says_so(recordings, monkeypatch, capsys):
    record_demo(monkeypatch, capsys)
    pretend_cuda(monkeypatch, False)
    make_changed_demo()()
    assert "(This recording is stale: the demo has changed since.)" in capsys.readouterr().out


# ---------------------------------------------------------------- torchkata record


def test_record_needs_a_device(monkeypatch):
    from torchkata.tools.recordings import record

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CourseError, match="no CUDA device"):
        record(None)


def chapter_with(source, root):
    from torchkata.tools.course import Chapter

    chapter = Chapter(Place(root), "08_amp")
    chapter.source.parent.mkdir(parents=True)
    chapter.source.write_text(source)
    return chapter


def test_record_runs_the_source_and_names_what_it_wrote(tmp_path, recordings, monkeypatch):
    from torchkata.tools.recordings import record

    pretend_cuda(monkeypatch, True)
    source = f"""
import torch
torch.cuda.is_available = lambda: True
torch.cuda.get_device_name = lambda *_: "NVIDIA Test"
from pathlib import Path
from torchkata import hardware
hardware.RECORDINGS = Path({str(recordings)!r})

@hardware.cuda_demo("08_amp")
def speed():
    print("fast")

speed()
"""
    assert record(chapter_with(source, tmp_path)) == [recordings / "08_amp" / "speed.json"]


def test_record_tells_why_the_source_failed(tmp_path, recordings, monkeypatch):
    from torchkata.tools.recordings import record

    pretend_cuda(monkeypatch, True)
    with pytest.raises(CourseError, match=r"amp.py failed while its demos were recorded:\n(.|\n)*ValueError: no"):
        record(chapter_with("raise ValueError('no')", tmp_path))


# ---------------------------------------------------------------- errors and warnings in demos


def test_error_of_prints_the_error(capsys):
    def fail():
        raise RuntimeError("one\ntwo  \nthree\nfour")

    error_of(fail)
    error_of(fail, lines=1)
    assert capsys.readouterr().out == "RuntimeError: one\ntwo\nthree\nRuntimeError: one\n"
    error_of(lambda: next(iter([])))
    assert capsys.readouterr().out == "StopIteration\n"


def test_error_of_wants_an_error():
    with pytest.raises(AssertionError, match="an error was expected"):
        error_of(lambda: None)


def test_results_of_prints_values_and_errors_alike(capsys):
    results_of({"1 + 1": lambda: 1 + 1, "1 / 0": lambda: 1 / 0, "torch.ones(2)": lambda: torch.ones(2)})
    shown = capsys.readouterr().out
    assert shown == "1 + 1\n    2\n1 / 0\n    ZeroDivisionError: division by zero\ntorch.ones(2)\n    [1.0, 1.0]\n"


def test_warning_of_prints_the_warning(capsys):
    warning_of(lambda: warnings.warn("look\nout", UserWarning, stacklevel=2))
    assert capsys.readouterr().out == "UserWarning: look\nout\n"


def test_warning_of_shows_what_torch_warns_of_only_once(capsys):
    for _ in range(2):
        warning_of(lambda: torch.ones(2, 3, 4).T)
    out = capsys.readouterr().out
    assert out.count("UserWarning: The use of `x.T` on tensors of dimension other than 2") == 2
    assert "Triggered internally" not in out
    assert not torch.is_warn_always_enabled()


def test_warning_of_wants_a_warning():
    with pytest.raises(AssertionError, match="a warning was expected"):
        warning_of(lambda: None)
