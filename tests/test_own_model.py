"""A learner's own model: whose parts it is made of, that it trains, resumes and is shown; and that edits are kept."""

from __future__ import annotations

import linecache
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves

from torchkata import own_model
from torchkata.base.places import KEPT, course_of_package
from torchkata.base.remembering import Remembered, remember
from torchkata.own_model import PARTS, PartMissing, finish, long_run, write_own_model
from torchkata.tools.course import Chapter
from torchkata.tools.placing import Place
from torchkata.verdicts import at_hand

CHAPTER = "12_language_model"
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
    for exercise, provided in PARTS.items():
        source = at_hand.solution_of(SOLUTIONS, exercise)
        assert source and "SOLUTION" not in source and "GIVEN" not in source
        assert all(f"def {name}(" in source or f"class {name}(" in source for name in provided), exercise
    assert PARTS.keys() == {exercise.id for exercise in Chapter(Place(course_of_package()), CHAPTER).exercises}
    names = [name for provided in PARTS.values() for name in provided]
    assert len(names) == len(set(names))


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


def test_what_is_trained_follows_the_device_and_what_is_kept_lies_on_the_cpu(own, tmp_path, monkeypatch):
    _, module = own
    monkeypatch.setattr(module, "device_for", lambda model, x, y: "cpu:0")  # stands in for "cuda"
    run = module.Run(tmp_path, 4)
    seen: list[str] = []
    move, save, step, moment = run.to, module.save_run, module.train_step, module.ByHand.to

    def noted(name, function, device_at):
        def call(*args):
            seen.append(f"{name} {args[device_at]}" if device_at is not None else name)
            return function(*args)

        return call

    monkeypatch.setattr(run, "to", noted("to", move, 0))
    monkeypatch.setattr(module.ByHand, "to", noted("moments to", moment, 1))
    monkeypatch.setattr(module, "save_run", noted("save", save, None))
    monkeypatch.setattr(module, "train_step", noted("step", step, None))
    run.train(every=2)
    there, back = ["to cpu:0", "moments to cpu:0"], ["to cpu", "moments to cpu"]
    assert seen == [*there, "step", "step", *back, "save", *there, "step", "step", *back, "save", *there, *back]


def test_moments_move_along(own):
    _, module = own
    optimizer = module.ByHand([torch.nn.Parameter(torch.ones(2, 2))])
    optimizer.param_groups[0]["params"][0].grad = torch.ones(2, 2)
    optimizer.step()
    optimizer.to("meta")
    kept = [one for one in tree_leaves(optimizer.moments) if isinstance(one, torch.Tensor)]
    assert kept and {one.device.type for one in kept} == {"meta"}


def test_without_cuda_or_with_a_part_that_does_not_work_there_it_trains_on_the_cpu(own, monkeypatch, capsys):
    _, module = own
    model, ids = module.TinyLM(256, module.WIDTH, 1, 8), torch.zeros(2, 8, dtype=torch.int64)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert module.device_for(model, ids, ids) == "cpu" and not capsys.readouterr().out
    before = torch.get_rng_state()

    def refuses(self, device):
        raise RuntimeError("Expected all tensors to be on the same device\nand more")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.Module, "to", refuses)
    assert module.device_for(model, ids, ids) == "cpu" and torch.equal(before, torch.get_rng_state())
    told = "since a part doesn't work on CUDA: Expected all tensors to be on the same device\n"
    assert capsys.readouterr().out.endswith(told)


@pytest.mark.parametrize(("speedup", "dtype"), [(2.0, torch.bfloat16), (0.02, torch.float32)])
def test_the_run_takes_bfloat16_only_where_it_is_not_much_slower(own, tmp_path, monkeypatch, speedup, dtype):
    _, module = own
    monkeypatch.setattr(module, "bfloat16_speedup", lambda: speedup)
    run = module.Run(tmp_path, 1)
    seen = set()

    def note(part: torch.nn.Module, args: object, out: torch.Tensor) -> None:
        if torch.is_grad_enabled():
            seen.add(out.dtype)

    for part in run.model.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_hook(note)
    run.train()
    assert seen == {dtype}
    assert not any("model." in name for name in run.model.state_dict())


def test_a_long_run_says_what_it_does_before_its_first_round_and_how_long_it_will_take(
    own, tmp_path, monkeypatch, capsys
):
    _, module = own
    monkeypatch.setattr(module, "bfloat16_speedup", lambda: 0.02)
    monkeypatch.setattr(own_model, "bfloat16_speedup", lambda: 0.02)
    monkeypatch.setattr(own_model, "workbook_here", lambda: tmp_path)
    monkeypatch.setattr(module, "STEPS", 0)
    own_model.long_run(module, tmp_path)
    told = capsys.readouterr().out
    assert told == "Training in float32: on this processor, a matrix product in bfloat16 takes 50 times as long.\n"
    run = module.Run(tmp_path, 900)
    run.done, run.seconds = 300, 100.0
    assert own_model._times(run) == "1 min 40 s so far, about 3 min 20 s left"
    assert list(own_model._before(run, 50))[::2] == [
        "Continuing after step 300 of 900.",
        "The curve gets a point after every 50 steps.",
    ]


def test_lean_blocks_train_to_the_same_weights(own, tmp_path, monkeypatch):
    _, module = own
    calls, remember_less = [], module.remember_less
    monkeypatch.setattr(module, "remember_less", lambda block, x: calls.append(1) or remember_less(block, x))
    weights = []
    for lean in (False, True):
        monkeypatch.setattr(module, "LEAN", lean)
        (tmp_path / str(lean)).mkdir()
        run = module.Run(tmp_path / str(lean), 2)
        run.train(every=2)
        weights.append([parameter.detach() for parameter in run.model.parameters()])
        assert len(calls) == (2 * module.LAYERS if lean else 0)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*weights, strict=True))


def test_the_file_says_which_parts_the_run_does_not_call(own):
    folder, _ = own
    lines = (folder / "my_model.py").read_text(encoding="utf-8").splitlines()
    for exercise, note in own_model.NOTES.items():
        (place,) = [n for n, line in enumerate(lines) if line.endswith(f"{exercise}: the course's")]
        assert lines[place + 1] == f"# {note}"
        assert len(lines[place + 1]) <= 120


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
