"""A learner's own model: whose parts it is made of, that it trains, resumes and is shown; and that edits are kept."""

from __future__ import annotations

import linecache
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from torchkata import own_model
from torchkata.own_model import PARTS, PartMissing, finish, long_run, write_own_model
from torchkata.places import KEPT, course_of_package
from torchkata.remembering import Remembered, remember
from torchkata.verdicts import at_hand

SOLUTIONS = course_of_package() / "solutions"
MINE = (
    "def windows(ids, length):\n    rows = ids.unfold(0, length + 1, 1)  # mine\n    return rows[:, :-1], rows[:, 1:]\n"
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cell(source: str, name: str) -> dict[str, object]:
    """What a notebook's cell with this source defines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, object] = {}
    exec(compile(source, name, "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("own")
    return folder, write_own_model(folder, {})


def test_every_exercise_of_the_chapter_has_its_part():
    names = set()
    for exercise, provided in PARTS.items():
        source = at_hand.solution_of(SOLUTIONS, exercise)
        assert source and "SOLUTION" not in source and "GIVEN" not in source
        assert all(f"def {name}(" in source or f"class {name}(" in source for name in provided), exercise
        names.update(provided)
    assert len(PARTS) == 13 and len(names) == 15


def test_a_solution_that_is_not_there():
    assert at_hand.solution_of(SOLUTIONS, "no-such-exercise") is None


def test_without_answers_all_parts_are_the_courses(own):
    folder, module = own
    text = (folder / "my_model.py").read_text(encoding="utf-8")
    assert text.count("the course's") > len(PARTS) and ": yours" not in text
    assert module.windows(torch.arange(5), 3)[1].tolist() == [[1, 2, 3], [2, 3, 4]]


def test_an_answer_is_taken_and_a_stub_is_not(tmp_path, capsys):
    stub = "def token_loss(logits, targets, ignore=-100):\n    raise NotImplementedError  # your code here\n"
    write_own_model(tmp_path, cell(MINE, "<cell one>") | cell(stub, "<cell two>"))
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["text-windows"] == "yours" and said["token-loss"] == "the course's"
    assert "# mine" in (tmp_path / "my_model.py").read_text(encoding="utf-8")


def test_in_a_workbook_an_answer_must_be_solved(tmp_path, monkeypatch, capsys):
    (tmp_path / KEPT).mkdir()
    monkeypatch.setattr(own_model, "workbook_here", lambda: tmp_path)
    monkeypatch.setattr(at_hand, "WORKBOOK", tmp_path)
    write_own_model(tmp_path, cell(MINE, "<cell>"))
    assert "yours" not in capsys.readouterr().out

    path = at_hand._notebook_with(SOLUTIONS, "text-windows")
    exercise = next(one for one in at_hand._exercises(path, 0) if one.id == "text-windows")
    for check in exercise.checks:
        remember(tmp_path, Remembered(exercise.id, check.digest, "solved"))
    write_own_model(tmp_path, cell(MINE, "<cell>"))
    assert "text-windows         yours" in capsys.readouterr().out


def test_a_part_that_nobody_has(tmp_path, monkeypatch):
    monkeypatch.setattr(own_model, "course_of_package", lambda: tmp_path)
    with pytest.raises(PartMissing, match="text-windows is not solved yet"):
        write_own_model(tmp_path, {})
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_edited_is_kept(tmp_path):
    write_own_model(tmp_path, {})
    write_own_model(tmp_path, {})  # its own file it writes anew
    path = tmp_path / "my_model.py"
    edited = path.read_text(encoding="utf-8").replace("WIDTH, LAYERS, LENGTH = 128", "WIDTH, LAYERS, LENGTH = 96")
    path.write_text(edited, encoding="utf-8")
    with pytest.raises(FileExistsError, match="has been edited"):
        write_own_model(tmp_path, {})
    assert path.read_text(encoding="utf-8") == edited


class Stopped(Exception):
    """The square button."""


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(own, tmp_path):
    _, module = own
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    whole = module.Run(tmp_path / "whole", 6)
    whole.train(every=2)

    def stop(training: float, held_out: float) -> None:
        if first.done == 4:
            raise Stopped

    first = module.Run(tmp_path / "stopped", 6)
    with pytest.raises(Stopped):
        first.train(every=2, show=stop)
    second = module.Run(tmp_path / "stopped", 6)
    assert second.done == 4
    second.train(every=2)
    assert second.curve == whole.curve and [step for step, _, _ in whole.curve] == [2, 4, 6]
    assert all(map(torch.equal, whole.model.parameters(), second.model.parameters()))


def test_it_is_trained_exported_and_shown(own, tmp_path, capsys):
    _, module = own
    run = long_run(module, tmp_path)
    assert run.done == 20 and run.curve[-1][2] < run.curve[0][2] < 5.5
    finish(run, module.PROMPTS[:2], tmp_path)
    assert "Written: my_model.ckpt, my_model.html" in capsys.readouterr().out
    page = (tmp_path / "my_model.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and page.count("<blockquote>") == 2 and "held-out loss" in page
    assert "src=" not in page and "<script" not in page


def test_it_is_a_program(own):
    folder, _ = own
    command = [sys.executable, str(folder / "my_model.py"), "--steps", "2"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    assert "step     2:" in run.stdout and Path(folder, "my_model.ckpt").exists()
