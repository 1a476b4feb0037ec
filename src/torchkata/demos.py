"""Show an expected error or warning, so that a demo that raises still runs as a plain script."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from textwrap import indent, wrap

WIDTH = 90  # letters of a line on a page; on a rank "rank 0 │ " stands before it
# PyTorch adds to some messages where in its C++ source they arose, which differs from build to build
ORIGIN = re.compile(r"\s*\(Triggered internally at .*?\)")


def error_of(function: Callable[[], object], lines: int = 3) -> None:
    """Call function, which must raise, and print the error: its type and the first lines of its message.

    Args:
        function: takes no arguments; usually a lambda.
        lines: how many lines of the message to print.

    Raises:
        AssertionError: function raised nothing.
    """
    try:
        function()
    except Exception as error:
        print(_headline(type(error), str(error), lines))
        return
    raise AssertionError("error_of: an error was expected, but nothing was raised")


def results_of(calls: Mapping[str, Callable[[], object]], lines: int = 3) -> None:
    """Make each of the calls and print what comes out, a value or an error, so that the code doesn't tell which.

    Args:
        calls: from the call as a reader should see it to a function that makes it. A tensor that it returns is
            printed as a list, anything else as Python prints it.
        lines: how many lines of an error's message to print.
    """
    from torch import Tensor

    for written, call in calls.items():
        try:
            result = call()
        except Exception as error:
            shown = _headline(type(error), str(error), lines)
        else:
            shown = str(result.tolist() if isinstance(result, Tensor) else result)
        print(written, indent(shown, "    "), sep="\n")


def warning_of(function: Callable[[], object], lines: int = 3) -> None:
    """Call function, which must warn, and print each warning: its type and the first lines of its message.

    Every warning is shown, also one that PyTorch gives only once in a process.

    Args:
        function: takes no arguments; usually a lambda.
        lines: how many lines of each message to print.

    Raises:
        AssertionError: function gave no warning.
    """
    with every_warning() as caught:
        function()
    if not caught:
        raise AssertionError("warning_of: a warning was expected, but none was given")
    for warning in caught:
        print(_headline(warning.category, str(warning.message), lines))


@contextmanager
def every_warning() -> Iterator[list[warnings.WarningMessage]]:
    """Catch all warnings in a list, those too that PyTorch gives only once in a process."""
    import torch

    warned_always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    torch.storage._set_always_warn_typed_storage_removal(True)  # this warning has a switch of its own
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        torch.set_warn_always(warned_always)
        torch.storage._set_always_warn_typed_storage_removal(False)


def _headline(kind: type, message: str, lines: int) -> str:
    kept = [line.rstrip() for line in ORIGIN.sub("", message).strip().splitlines()[:lines]]
    text = "\n".join(kept).rstrip()
    whole = f"{kind.__name__}: {text}" if text else kind.__name__
    return "\n".join(_in_width(line) for line in whole.split("\n"))


def _in_width(line: str) -> str:
    """The line broken between words where it is too wide for a page: JupyterLab would break it within them."""
    if len(line) <= WIDTH:
        return line
    return "\n".join(wrap(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))
