"""The way from an explorer on a page to Python, for states that were not drawn ahead: an anywidget without a view.

Nothing of it is an output of the cell: when Python has gone, nothing is left that could show an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchkata.pictures.controls import Code
from torchkata.pictures.packing import Frame

SCRIPT = """
export default {
  initialize({ model }) {
    const kernels = window.torchkataKernels || (window.torchkataKernels = {});
    const id = model.get("explorer");
    (kernels[id] = kernels[id] || []).push(model);
    return () => { kernels[id] = kernels[id].filter((other) => other !== model); };
  },
};
"""
_answering: dict[str, Any] = {}  # by explorer: a cell that runs again replaces what answered for it


def answer(identity: str, frame: Callable[[Sequence[Code]], Frame]) -> None:
    """Draw for the explorer on the page that bears this name, until the kernel ends or the cell runs again.

    The page sends {"n": number of the question, "state": codes} and gets {"n", "svg", "words", "limits"}, or
    {"n", "error"} with a sentence.
    """
    from anywidget import AnyWidget
    from traitlets import Unicode

    class Bridge(AnyWidget):
        _esm = SCRIPT
        explorer = Unicode().tag(sync=True)

    def on_question(bridge: Bridge, question: dict[str, Any], buffers: object) -> None:
        bridge.send({"n": question.get("n"), **_drawn(frame, question.get("state", ()))})

    if before := _answering.pop(identity, None):
        before.close()
    bridge = Bridge(explorer=identity)
    bridge.on_msg(on_question)
    _answering[identity] = bridge


def _drawn(frame: Callable[[Sequence[Code]], Frame], codes: Sequence[Code]) -> dict[str, Any]:
    try:
        shown = frame(codes)
    except ValueError as problem:
        return {"error": str(problem)}
    except (Exception, SystemExit, KeyboardInterrupt) as problem:  # without an answer the page would wait
        return {"error": f"Python could not draw this: {type(problem).__name__}: {problem}"}
    return {"svg": shown.svg, "words": shown.words, "limits": {str(n): most for n, most in shown.limits.items()}}
