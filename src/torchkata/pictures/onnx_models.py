"""Small models exported to ONNX, and what PyTorch and onnxruntime make of inputs of other sizes than the example's."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from torchkata.pictures.controls import Control, Value, choice, slider, switch
from torchkata.pictures.explorer import Explorer, State
from torchkata.pictures.kit import Canvas, Cell
from torchkata.pictures.onnx_graph import LEGEND, draw_layout, graph_in_words, graph_layout, graph_size
from torchkata.pictures.show import Picture
from torchkata.pictures.style import ERROR_INK, GREEN, MARGIN, ORANGE, SMALL, UNUSED

if TYPE_CHECKING:
    from onnx import ModelProto

EQUAL, DIFFERENT, REFUSED = "equal", "different", "refused"
LARGEST = 8  # rows and steps that can be run
LINE = 14
CLUTTER = re.compile(  # what a refusal of onnxruntime says besides
    r"\[ONNXRuntimeError\] : \d+ : \w+ : | Please fix either the inputs.*| Status Message:.*"
)


class _Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 2 else x * 3


class _View(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(4, -1)


class _Loop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = x[:, 0]
        for t in range(1, x.shape[1]):
            h = 0.5 * h + x[:, t]
        return h


class Sample(NamedTuple):
    """A model of the explorer: how to make it, its code in a line, the example's sizes, and whether dim 1 is time."""

    make: Callable[[], nn.Module]
    code: str
    example: tuple[int, ...]
    has_time: bool = False


SAMPLES = {
    "a linear layer": Sample(lambda: nn.Linear(3, 2), "nn.Linear(3, 2)", (4, 3)),
    "convolution and batch norm": Sample(
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)),
        "Conv2d(1, 4, 3), BatchNorm2d(4), ReLU(), Flatten(), Linear(144, 2)",
        (4, 1, 8, 8),
    ),
    "a branch on a shape": Sample(_Branch, "x * 2 if x.shape[0] > 2 else x * 3", (4, 1)),
    "view with a number": Sample(_View, "x.view(4, -1)", (4, 6)),
    "a loop over the steps": Sample(
        _Loop, "h = x[:, 0];  for t in range(1, x.shape[1]): h = 0.5 * h + x[:, t]", (4, 3), has_time=True
    ),
}


class Exported(NamedTuple):
    """An export: its model, or why it was refused; outside: (weights, bytes) that external_data moves to a file."""

    proto: ModelProto | None
    refusal: str = ""
    outside: tuple[int, int] = (0, 0)


class Outcome(NamedTuple):
    """One run: the sizes put in, what PyTorch and onnxruntime answer (or their refusals), and the verdict."""

    sizes: tuple[int, ...]
    pytorch: str
    runtime: str
    verdict: str


@functools.cache
def model_of(sample: str) -> nn.Module:
    """The sample's model in eval mode; its weights are the same each time, and no random number is drawn."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        model = SAMPLES[sample].make().to(torch.float32).eval()
    for number, tensor in enumerate([*model.parameters(), *model.buffers()]):
        if tensor.is_floating_point():
            steps = torch.arange(tensor.numel(), dtype=torch.float32, device="cpu")
            tensor.data.copy_(((steps * (number + 3)) % 7 + 1).view(tensor.shape) / 20)
    return model


@functools.cache
def exported(sample: str, batch: bool, time: bool) -> Exported:
    """Export a sample, with the batch and the time dimension fixed or dynamic. The second call is free."""
    dynamic = {0: "batch"} if batch else {}
    if time and SAMPLES[sample].has_time:
        dynamic[1] = "time"
    example = torch.ones(SAMPLES[sample].example, dtype=torch.float32, device="cpu")
    with _quiet():
        try:
            program = torch.onnx.export(
                model_of(sample),
                (example,),
                input_names=["x"],
                output_names=["y"],
                dynamic_shapes=(dynamic,) if dynamic else None,
                verbose=False,
            )
        except Exception as error:  # the exporter's own, from any of its steps
            cause = error.__cause__ or error
            return Exported(None, f"{type(cause).__name__}: {str(cause).strip().splitlines()[-1].lstrip('- ')}")
    assert program is not None  # None is what the older exporter gives
    return Exported(program.model_proto, outside=_outside(program))


def compare(sample: str, batch: bool, time: bool, rows: int, steps: int) -> Outcome:
    """Run the sample in PyTorch and its export in onnxruntime, with so many rows (and steps, where it has time)."""
    sizes = (rows, *SAMPLES[sample].example[1:])
    if SAMPLES[sample].has_time:
        sizes = (rows, steps)
    count = torch.Size(sizes).numel()
    x = (torch.arange(count, dtype=torch.float32, device="cpu") % 5 + 1).view(sizes)
    with torch.no_grad():
        pytorch, expected = _answer(lambda: model_of(sample)(x))
    session = _session(sample, batch, time)
    if session is None:
        return Outcome(sizes, pytorch, "there is no file", REFUSED)
    runtime, out = _answer(lambda: torch.from_numpy(session.run(None, {"x": x.numpy()})[0]))
    if out is None:
        return Outcome(sizes, pytorch, runtime, REFUSED)
    same = expected is not None and out.shape == expected.shape and torch.allclose(out, expected, 1e-3, 1e-5)
    return Outcome(sizes, pytorch, runtime, EQUAL if same else DIFFERENT)


def _draw_answers(canvas: Canvas, answers: Mapping[str, Sequence[str]], y: float) -> float:
    """Write below one another what each has to say, from y; returns where the next line would stand."""
    for name, lines in answers.items():
        canvas.text(MARGIN, y, name, SMALL)
        for line in lines:
            canvas.text(MARGIN + 72, y, line, SMALL)
            y += LINE
    return y


def onnx_picture(
    sample: str, batch: bool = True, time: bool = False, external: bool = True, rows: int = 2, steps: int = 3
) -> Picture:
    """Draw the exported graph, and below it one run in PyTorch and in onnxruntime."""
    export, outcome = exported(sample, batch, time), compare(sample, batch, time, rows, steps)
    layout = None if export.proto is None else graph_layout(export.proto)
    width, height = (0, 30) if layout is None else graph_size(layout)
    files = _files(export, external)
    declared = _declared(sample, batch, time)
    below = height + 78
    wide = max(width, LETTERS * 5.3)
    answers = {"PyTorch": wrap(outcome.pytorch, LETTERS - 16), "onnxruntime": wrap(outcome.runtime, LETTERS - 16)}
    lines = sum(map(len, answers.values()))
    canvas = Canvas(wide + 2 * MARGIN, below + 34 + LINE * lines + 52)

    canvas.title(SAMPLES[sample].code)
    canvas.note(MARGIN, 36, declared)
    if layout is None:
        refusal = wrap(f"The export is refused. {export.refusal}", LETTERS)
        canvas.lines(MARGIN, 56, refusal, SMALL, LINE, color=ERROR_INK)
    else:
        draw_layout(canvas, layout, MARGIN, 52)
    canvas.text(MARGIN, below, f"Run with x of shape {outcome.sizes}", weight="bold")
    y = _draw_answers(canvas, answers, below + 20)
    fill = {EQUAL: GREEN, DIFFERENT: ORANGE, REFUSED: UNUSED}[outcome.verdict]
    said = _said(outcome)
    canvas.cells([Cell(MARGIN, y - 2, "", fill, outcome.verdict == DIFFERENT, 5.4 * len(said) + 16, 20)])
    canvas.text(MARGIN + 8, y + 8, said, SMALL, weight="bold")
    canvas.note(MARGIN, y + 34, files)
    canvas.note(MARGIN, y + 34 + LINE, LEGEND)
    graph = f"The export is refused. {export.refusal}" if layout is None else graph_in_words(layout)
    words = (
        f"{SAMPLES[sample].code}. {declared} {graph} Run with x of shape {outcome.sizes}: PyTorch: "
        f"{outcome.pytorch}; onnxruntime: {outcome.runtime}. {said[0].upper()}{said[1:]}. {files}"
    )
    return Picture(canvas, words)


LETTERS = 108  # in a line of the card

ROWS = (("model",), ("dynamic batch", "dynamic time", "external data"), ("rows", "steps"))
SIZES = range(1, LARGEST + 1)


def onnx_explorer(sample: str = "a branch on a shape", rows: int = 2) -> Explorer:
    """Build the explorer: a model, what is dynamic, and the sizes to run. A new choice above is exported once."""

    def draw(state: State) -> Picture:
        example = SAMPLES[state["model"]]
        return _picture_once(
            state["model"],
            state["dynamic batch"],
            state["dynamic time"] and example.has_time,
            state["external data"],
            state["rows"],
            state["steps"] if example.has_time else example.example[1],
        )

    ahead: list[dict[str, Iterable[Value]]] = [
        {"model": list(SAMPLES), "rows": SIZES, "steps": SIZES},
        {"model": list(SAMPLES), "dynamic time": [True], "rows": SIZES},
        {"model": list(SAMPLES), "external data": [False], "rows": SIZES},
        {"dynamic batch": [False], "rows": SIZES},
    ]
    return Explorer(_controls(sample, rows), ROWS, draw, ahead=ahead)


_picture_once = functools.lru_cache(maxsize=256)(onnx_picture)  # steps make no difference where there is no time


def _controls(sample: str, rows: int) -> dict[str, Control]:
    return {
        "model": choice("model", SAMPLES, sample, wide=True),
        "dynamic batch": switch("dynamic batch", True),
        "dynamic time": switch("dynamic time (the loop)", False),
        "external data": switch("external data", True, "weights in a second file"),
        "rows": slider("rows to run", rows, 1, LARGEST),
        "steps": slider("steps to run", 3, 1, LARGEST, about="of the loop"),
    }


@functools.cache
def _session(sample: str, batch: bool, time: bool) -> Any:
    import onnxruntime

    export = exported(sample, batch, time)
    if export.proto is None:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(export.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _answer(run: Callable[[], Tensor]) -> tuple[str, Tensor | None]:
    """The result in writing and itself; or the refusal and None."""
    try:
        out = run()
    except Exception as error:  # torch's and onnxruntime's
        return f"{type(error).__name__}: {CLUTTER.sub('', ' '.join(str(error).split()))}", None
    numbers = [f"{number:.4g}" for number in out.flatten().tolist()]
    shown = ", ".join(numbers[:8]) + ", …" * (len(numbers) > 8)
    return f"shape {tuple(out.shape)}: {shown}", out


def _said(outcome: Outcome) -> str:
    if outcome.verdict == REFUSED:
        return "refused"
    return "equal" if outcome.verdict == EQUAL else "DIFFERENT, and no error"


def _declared(sample: str, batch: bool, time: bool) -> str:
    names = ["batch"] * batch + ["time"] * (time and SAMPLES[sample].has_time)
    return f"Example of shape {SAMPLES[sample].example}; dynamic: {', '.join(names) or 'nothing'}."


def _files(export: Exported, external: bool) -> str:
    if export.proto is None:
        return "No file is written."
    weights, size = export.outside
    if not (external and weights):
        return "Files: model.onnx, with all weights."
    return f"Files: model.onnx, and model.onnx.data with {weights} of its weights, {size} bytes."


def _outside(program: torch.onnx.ONNXProgram) -> tuple[int, int]:
    """How many weights go to a second file, and their bytes."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program.save(path, external_data=True)
        weights = onnx.load(path, load_external_data=False).graph.initializer
    entries = [{entry.key: entry.value for entry in weight.external_data} for weight in weights]
    sizes = [int(entry["length"]) for entry in entries if entry]
    return len(sizes), sum(sizes)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let the exporter talk to nobody."""
    from torchkata.exporting import quiet_exporter

    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        quiet_exporter()
        warnings.simplefilter("ignore")
        yield
