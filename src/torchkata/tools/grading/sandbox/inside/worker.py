"""The worker: runs a learner's cells and the observing half of the check cells, in a process of its own."""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import json
import linecache
import socket
import sys
from collections.abc import Collection
from functools import cached_property
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from torchkata.base.magics import without_magics
from torchkata.base.names import names_of
from torchkata.tools.grading.sandbox import wire
from torchkata.tools.grading.sandbox.messages import TooLarge, decode, encode
from torchkata.verdicts import observing
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.originals import put_back_torch
from torchkata.verdicts.plain import Copier

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SCENARIO = "<scenario>"
NO_OPERATIONS = json.dumps({"kinds": [], "order": []})
TOO_LARGE = {
    "types": ["ResultTooLarge", "ValueError", "Exception"],
    "message": "what came back is too large to be judged",
    "frames": [],
    "stumbled": False,
}


def notebook_module(setup: str) -> ModuleType:
    """The module `__main__` of a chapter, after its setup cell has run in it."""
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    exec(compile(setup, "<setup>", "exec", dont_inherit=True), module.__dict__)
    return module


def serve(sock: socket.socket, module: ModuleType, frame: int) -> None:
    """Answer requests until the connection is closed."""
    vars(builtins).update(get_ipython=_Shell(module).get, display=lambda *values, **settings: None)
    worker = Worker(module)
    while True:
        try:
            data = wire.receive(sock, frame)
        except wire.Ended:
            return
        number, request = data[: wire.LENGTH.size], decode(data[wire.LENGTH.size :])
        wire.send(sock, number + reply_to(request, worker, frame - len(number)))


def reply_to(request: dict, worker: Worker, room: int) -> bytes:
    """The worker's reply to a request in at most so many bytes."""
    try:
        data = encode(worker.answer(request))
        if len(data) <= room:
            return data
        raised = TOO_LARGE
    except TooLarge:
        raised = TOO_LARGE
    except BaseException as error:  # a learner's code may have broken anything, sys.exit and interrupts included
        raised = observing.describe_error(error, SCENARIO)
    plain = _plain(raised)
    return encode(reply_with(Observation(raised=plain)) | {"error": plain, "defined": [], "needs": []})


def _plain(raised: dict) -> dict:
    """The same with plain strings: a message may be of a learner's own kind of string."""
    return raised | {"message": "".join(map(chr, map(ord, raised["message"][:1000])))}


class Worker:
    """The learner's namespace and what may be asked about it."""

    def __init__(self, module: ModuleType):
        self._space = module.__dict__
        self._setup = dict(self._space)  # scenarios run with the chapter's own names
        self._cells = 0
        self._lent: dict[str, object] = {}  # what demos have bound

    def answer(self, request: dict) -> dict:
        """The reply to a request: {"do": "cell" | "observe" | "scenario" | "value", …}."""
        return getattr(self, f"_{request['do']}")(request)

    def _cell(self, request: dict) -> dict:
        """Run a cell; where it needs names that demos could lend, say which ones in place of that."""
        file = f"<cell {self._cells + 1}>"
        if needs := self._needs(request["source"], request["lendable"]):
            return {"error": None, "defined": [], "needs": needs}
        self._cells += 1
        error = self._run(request["source"], file)
        put_back_torch()  # as each check cell does in a notebook
        self._lent |= {name: self._space[name] for name in request["lends"] if name in self._space}
        return {"error": error, "defined": [name for name in request["asks"] if name in self._space], "needs": []}

    def _needs(self, source: str, lendable: Collection[str]) -> list[str]:
        """Those of the names that the cell takes from cells before it, where only demos can have bound them."""
        absent = object()
        open_ones = {n for n in lendable if self._space.get(n, absent) is self._lent.get(n, absent)}
        return sorted(open_ones & names_of(source).reads) if open_ones else []

    def _observe(self, request: dict) -> dict:
        answer = self._space[request["answer"]]
        return reply_with(observing.run_answer_on(answer, request["args"], request["kwargs"], request["recorded"]))

    def _value(self, request: dict) -> dict:
        return reply_with(observing.note_value(self._space[request["answer"]]))

    def _scenario(self, request: dict) -> dict:
        space = dict(self._setup)
        exec(compile(request["source"], SCENARIO, "exec", dont_inherit=True), space)
        args = list(request["args"])
        for place, name in request["answers"]:
            args[place] = self._space[name]
        return reply_with(observing.run_scenario(space[request["scenario"]], tuple(args), request["recorded"]))

    def _run(self, source: str, file: str) -> dict | None:
        """Run a cell as a notebook would; what it raised, or None."""
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        try:
            self._execute(_compiled(source, file))
        except BaseException as error:  # sys.exit too: the next cells are run
            described = observing.describe_error(error, None)
            return Copier().copy(described)
        return None

    def _execute(self, code: CodeType) -> None:
        running = eval(code, self._space)
        if inspect.iscoroutine(running):  # a cell with await outside of functions, which notebooks allow
            self._loop.run_until_complete(running)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """One for all cells, as in a notebook: what a cell has begun may be awaited in another."""
        return asyncio.new_event_loop()


def reply_with(observation: Observation) -> dict:
    """An observation as what is sent of it, which `replies.observation_from` reads. How long it took is left out: no
    mark depends on that."""
    fields = observation.as_plain()
    del fields["seconds"]
    return {"noted": fields | {"ops": _packed(fields["ops"])}}


def _packed(ops: list[dict]) -> str:
    """Operations as JSON: each kind once, then which kind came when. A loop makes thousands, of few kinds, each of them
    one dict."""
    if not ops:
        return NO_OPERATIONS
    numbers: dict[int, int] = {}
    order = [numbers.setdefault(id(op), len(numbers)) for op in ops]
    found = {id(op): op for op in ops}
    kinds = [[*list(found[number].values())[:-1], *found[number]["reads"]] for number in numbers]
    return json.dumps({"kinds": kinds, "order": order})


def _compiled(source: str, file: str) -> CodeType:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(source, file, "exec", flags, dont_inherit=True)
    except SyntaxError:
        return compile(without_magics(source), file, "exec", flags, dont_inherit=True)


class _Shell:
    """IPython's shell, made when a cell first needs it."""

    def __init__(self, module: ModuleType):
        self._module = module
        self._shell: InteractiveShell | None = None

    def get(self) -> InteractiveShell:
        if self._shell is None:
            from IPython.core.interactiveshell import InteractiveShell

            self._shell = InteractiveShell(user_module=self._module, user_ns=self._module.__dict__)
        return self._shell
