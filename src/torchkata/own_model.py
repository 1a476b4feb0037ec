"""A learner's own model: the answers to chapter 12 put together in a file that trains, writes and can be shown."""

from __future__ import annotations

import hashlib
import html
import importlib.util
import linecache
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from textwrap import fill
from types import FunctionType, ModuleType
from typing import Any

from torchkata.base.editor import folder_here, workbook_here
from torchkata.base.marks import authors_version
from torchkata.base.places import course_of_package, solutions_for, workbook_with
from torchkata.exporting import quiet_exporter
from torchkata.low_precision import bfloat16_speedup
from torchkata.pictures.attention_map import draw_attention
from torchkata.pictures.loss_curve import LiveCurve, draw_losses
from torchkata.verdicts.at_hand import solution_of, standing_of

# what each exercise gives to the model, in the order in which the file needs them
PARTS = {
    "text-windows": ("windows",),
    "causal-attention": ("causal_attention",),
    "tied-model": ("TinyLM",),
    "token-loss": ("token_loss",),
    "remember-less": ("remember_less",),
    "find-exploder": ("first_exploding",),
    "adamw-by-hand": ("learning_rate", "adamw_step"),
    "token-accumulation": ("train_step",),
    "keeps-the-past": ("keeps_the_past",),
    "two-equal-one": ("sync_gradients",),
    "train-it": ("train",),
    "export-lm": ("export_lm",),
    "write-on": ("write_on",),
}
# what stands in the file under the heading of a part, where the run does not simply call it
NOTES = {
    "remember-less": "used where LEAN is set; blocks as small as these fit into memory without it, and train faster",
    "keeps-the-past": "not used by the run; here to test a layer of your own",
    "two-equal-one": "not used by the run, which is one process; here for a run of your own under torchrun",
    "train-it": "not used by the run, which can be stopped and resumed; here for short experiments of your own",
}
TEMPLATE = Path(__file__).with_suffix(".txt")
LOOK = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui; color: #222; background: #fff }
svg { max-width: 100%; height: auto } th { text-align: left; padding-right: 1rem }
blockquote { font-family: monospace; white-space: pre-wrap; overflow-wrap: anywhere }
"""
STUB = re.compile(r"(?m)^ *raise NotImplementedError")
SEAL = re.compile(r"# as written: ([0-9a-f]{16})\n\Z")


class PartMissing(Exception):
    """An exercise is not solved, and the course's own part is not at hand."""


def own_folder() -> Path:
    """Where a learner's own model lies: my_model/ beside the notebook; outside of a workbook a folder that goes with
    the system's temporary files."""
    here = folder_here()
    if workbook_with(here) is None:
        return Path(mkdtemp(prefix="torchkata-"))
    folder = here / "my_model"
    folder.mkdir(exist_ok=True)
    return folder


def write_own_model(folder: Path, names: Mapping[str, Any]) -> ModuleType:
    """Write folder/my_model.py out of the answers in `names` (a notebook's globals()), print whose each part is, and
    import it. NOTES says in the file which parts the run does not call.

    An answer is taken if its exercise is solved in this workbook; outside of a workbook, if it is there at all. All
    other parts are the course's.

    Raises:
        PartMissing: a part is not solved, and the course's solutions are not at hand.
        FileExistsError: folder/my_model.py is there and has been edited by hand.
    """
    parts, whose = [], []
    for exercise, provided in PARTS.items():
        source = _own_source(exercise, provided, names)
        owner = "yours" if source else "the course's"
        note = f"# {NOTES[exercise]}\n" if exercise in NOTES else ""
        parts.append(f"# {'-' * 64} {exercise}: {owner}\n{note}\n\n{source or _course_source(exercise)}")
        whose.append(f"    {exercise:20} {owner}")
    text = (
        TEMPLATE.read_text(encoding="utf-8").replace("WHOSE", "\n".join(whose)).replace("PARTS\n", "\n\n\n".join(parts))
    )
    path = folder / "my_model.py"
    _write_unless_edited(path, text)
    print("\n".join(line.strip() for line in whose))
    return _imported(path)


def _own_source(exercise: str, provided: tuple[str, ...], names: Mapping[str, Any]) -> str | None:
    """The source of a learner's answer cell; None where it is not solved, or not run in this kernel."""
    if workbook_here() is not None and not standing_of(exercise):
        return None
    sources = {source: None for name in provided if (source := _cell_of(names.get(name)))}
    if len(sources) != 1 or STUB.search(source := authors_version(next(iter(sources)))):
        return None
    return source


def _cell_of(defined: object) -> str | None:
    """The whole source of the cell that defines a function or a class."""
    functions = [defined, *vars(defined).values()] if isinstance(defined, type) else [defined]
    code = next((one.__code__ for one in functions if isinstance(one, FunctionType)), None)
    return "".join(linecache.getlines(code.co_filename)) or None if code else None


def _course_source(exercise: str) -> str:
    workbook = workbook_here()
    folder = solutions_for(workbook) if workbook else course_of_package() / "solutions"
    if folder is None or (source := solution_of(folder, exercise)) is None:
        raise PartMissing(
            f"The exercise {exercise} is not solved yet, and this course came without its solutions. "
            "Solve it, run its answer cell and its check, then run this cell again."
        )
    return source


def _write_unless_edited(path: Path, text: str) -> None:
    if path.exists():
        old = path.read_text(encoding="utf-8")
        seal = SEAL.search(old)
        if not seal or _digest(old[: seal.start()]) != seal[1]:
            raise FileExistsError(f"{path} has been edited. Rename it or move it away, then run this cell again.")
    path.write_text(f"{text}# as written: {_digest(text)}\n", encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("my_model", path)
    assert spec and spec.loader  # a file of this name always has them
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_model"] = module
    spec.loader.exec_module(module)
    return module


def long_run(my_model: ModuleType, folder: Path) -> Any:
    """Train my_model's Run, with its curve, from where it was stopped; outside of a workbook for 20 steps only."""
    here = workbook_here() is not None
    every = 50 if here else 5
    run = my_model.Run(folder, my_model.STEPS if here else 20)
    print(*_before(run, every), sep="\n", flush=True)
    curve = LiveCurve(run.steps // every, "training", "held out", unit="round")

    def show(training: float, held_out: float) -> None:
        curve.note = _times(run) if here else ""
        curve.add(**{"training": training, "held out": held_out})

    for _, training, held_out in run.curve:
        show(training, held_out)
    run.train(every, show)
    return run


def _before(run: Any, every: int) -> Iterator[str]:
    """What is said before the first round."""
    if run.done:
        yield f"Continuing after step {run.done} of {run.steps}."
    if run.trained is not run.model:
        yield (
            "Training in float32: on this processor, a matrix product in bfloat16 takes "
            f"{1 / bfloat16_speedup():.0f} times as long."
        )
    if run.done < run.steps:
        yield f"The curve gets a point after every {every} steps."


def _times(run: Any) -> str:
    left = run.seconds / run.done * (run.steps - run.done)
    return f"{_minutes(run.seconds)} so far" + (f", about {_minutes(left)} left" if left else "")


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def finish(run: Any, prompts: Sequence[str], folder: Path) -> None:
    """Write folder/my_model.onnx and folder/my_model.html: the curve, a look into one head, and a text per prompt."""
    quiet_exporter()
    run.export(folder / "my_model.onnx")
    model = run.model.eval()
    losses = {"training": [point[1] for point in run.curve], "held out": [point[2] for point in run.curve]}
    pictures = {
        "How it learnt": draw_losses(losses, len(run.curve), unit="round").svg,
        "What one head looks at": draw_attention(model, prompts[0] + "is a", len(model.blocks) - 1, 0, 17).svg,
    }
    texts = {f"{prompt!r}, seed {seed}": run.text(prompt, seed=seed) for seed, prompt in enumerate(prompts)}
    facts = {
        "weights": f"{sum(parameter.numel() for parameter in model.parameters()):,}",
        "steps": str(run.done),
        "seconds of training": f"{run.seconds:.0f}",
        "held-out loss, nats per byte": f"{run.curve[-1][2]:.2f}",
    }
    page = folder / "my_model.html"
    write_page(page, "A small language model, by hand", facts, pictures, texts)
    for prompt, text in texts.items():
        print(f"{prompt}:", *[fill(line, 90) for line in text.splitlines()], sep="\n", end="\n\n")
    print(f"Written: {', '.join(sorted(path.name for path in folder.glob('my_model.*')))}")


def write_page(
    path: Path, title: str, facts: Mapping[str, str], pictures: Mapping[str, str], texts: Mapping[str, str]
) -> None:
    """Write a page that needs no other file: a table of facts, pictures (SVG by heading), and texts by heading."""
    rows = "".join(f"<tr><th>{html.escape(name)}<td>{html.escape(value)}" for name, value in facts.items())
    shown = "".join(f"<h2>{html.escape(name)}</h2>{svg[svg.index('<svg') :]}" for name, svg in pictures.items())
    written = "".join(
        f"<h2>{html.escape(name)}</h2><blockquote>{html.escape(text)}</blockquote>" for name, text in texts.items()
    )
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{LOOK}</style><h1>{html.escape(title)}</h1>"
        f"<table>{rows}</table>{shown}{written}</html>\n",
        encoding="utf-8",
    )
