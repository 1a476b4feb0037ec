"""For the chapter on ONNX: a quiet exporter, its refusals and warnings in a few lines, and graphs in words."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from textwrap import fill

from torchkata.demos import every_warning

LOGGERS = (
    "torch.onnx",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch._guards",
    "onnxscript",
    "onnx_ir",
)
# exports of torch 2.13 warn about torch itself: each export, and those of nn.GRU and nn.LSTM
OWN_WARNINGS = r"`isinstance\(treespec, LeafSpec\)` is deprecated|_check_is_size will be removed"
COLOUR = re.compile(r"\x1b\[\d+m")
WIDTH = 96


def quiet_exporter() -> None:
    """Keep torch.onnx.export and onnxruntime from writing about themselves to the screen.

    You still see errors, and warnings about a model.
    """
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message=OWN_WARNINGS, category=FutureWarning)
    with contextlib.suppress(ImportError):
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)


def refusal_of(export: Callable[[], object], lines: int = 2) -> None:
    """Call export, which must raise, and print the error and the first lines of each error that caused it.

    Raises:
        AssertionError: export raised nothing.
    """
    try:
        with _silence():
            export()
    except Exception as error:
        for number, link in enumerate(_chain(error)):
            text = [line.strip() for line in COLOUR.sub("", str(link)).splitlines() if line.strip()]
            text = text[:lines] if number else [text[0].partition(" Next steps")[0]]
            text[0] = "caused by " * bool(number) + f"{type(link).__name__}: {text[0]}"
            for line in text:
                print(fill(line, WIDTH, subsequent_indent="    "))
        return
    raise AssertionError("refusal_of: an error was expected, but nothing was raised")


def export_warnings_of(export: Callable[[], object]) -> None:
    """Call export, which must warn, and print the kind and the first two sentences of each warning.

    Raises:
        AssertionError: export gave no warning.
    """
    with every_warning() as caught:
        export()
    told = [w for w in caught if not re.match(OWN_WARNINGS, str(w.message))]
    if not told:
        raise AssertionError("export_warnings_of: a warning was expected, but none was given")
    for warning in told:
        sentences = re.split(r"(?<=\.) ", str(warning.message).strip().removeprefix("# "))[:2]
        print(fill(f"{warning.category.__name__}: {' '.join(sentences)}", WIDTH, subsequent_indent="    "))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what is printed: the exporter prints the graph that it could not finish."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
