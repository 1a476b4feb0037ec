"""The worker: runs a learner's cells and the observing half of the check cells, in a process of its own."""

from __future__ import annotations
import __future__

import ast
import asyncio
import functools
import inspect
import json
import linecache
import operator
import socket
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from types import CodeType, ModuleType

from IPython import get_ipython

from torchkata.base.magics import without_magics
from torchkata.base.names import names_of
from torchkata.base.shell import shell_of
from torchkata.tools.grading.sandbox import wire
from torchkata.tools.grading.sandbox.inside.asking import Questions
from torchkata.tools.grading.sandbox.messages import TooLarge, decode, encode
from torchkata.verdicts import observing
from torchkata.verdicts.observing import Observation
from torchkata.verdicts.originals import put_back_torch

SCENARIO = "<scenario>"
FUTURES = functools.reduce(operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
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
    shell_of(module, forgiving=True)  # which makes it `__main__`
    exec(compile(setup, "<setup>", "exec", dont_inherit=True), module.__dict__)
    return module


def serve(sock: socket.socket, module: ModuleType, frame: int) -> None:
    """Answer requests until the connection is closed."""
    shell, worker = get_ipython(), Worker(module)
    with shell.builtin_trap, shell.display_trap:  # as a kernel does around each cell
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
    brief = _brief(raised)
    if request["do"] == "cell":
        return encode({"error": brief, "defined": [], "needs": []})
    return encode(reply_with(Observation(raised=brief)))


def _brief(raised: dict) -> dict:
    """The same in short and plain strings: a message may be of a learner's own kind of string."""
    frames = [[line, _brief_text(where, 200), _brief_text(source, 200)] for line, where, source in raised["frames"]]
    types = [_brief_text(name, 200) for name in raised["types"][:20]]
    return raised | {"types": types, "message": _brief_text(raised["message"], 1000), "frames": frames}


def _brief_text(text: str, length: int) -> str:
    return "".join(map(chr, map(ord, text[:length])))


class Worker:
    """The learner's namespace and what may be asked about it."""

    def __init__(self, module: ModuleType):
        self._space = module.__dict__
        self._setup = dict(self._space)  # scenarios run with the chapter's own names
        self._cells = 0
        self._futures = 0  # flags of the compiler for what cells have imported from __future__
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
        questions = Questions(request["source"], SCENARIO)
        space = questions.space(self._setup)
        exec(questions.code, space)
        args = list(request["args"])
        for place, name in request["answers"]:
            args[place] = self._space[name]
        seen = observing.run_scenario(space[request["scenario"]], tuple(args), request["recorded"])
        return reply_with(replace(seen, replaced=[*dict.fromkeys([*questions.replaced, *seen.replaced])]))

    def _run(self, source: str, file: str) -> dict | None:
        """Run a cell as a notebook would; what it raised, or None."""
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        try:
            parts = _compiled(source, file, self._futures)
            for code in parts:
                self._futures |= code.co_flags & FUTURES  # a notebook's later cells have it too
            if "async" in source or "await" in source:
                self._loop.run_until_complete(self._awaited(parts))
            else:
                for code in parts:
                    eval(code, self._space)
        except BaseException as error:  # sys.exit too: the next cells are run
            return _brief(observing.describe_error(error, None))
        return None

    async def _awaited(self, parts: list[CodeType]) -> None:
        """Execute a cell in an event loop that runs, as in a notebook; it may hold `await` outside of functions."""
        for code in parts:
            running = eval(code, self._space)
            if inspect.iscoroutine(running):
                await running

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


def _compiled(source: str, file: str, futures: int) -> list[CodeType]:
    """A cell's statements, and its last one apart where it is an expression, whose value a notebook keeps as `_`."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | futures
    try:
        if source.rstrip().rpartition("\n")[2].startswith(" "):  # a function's or a class's line, as in most answers
            return [compile(source, file, "exec", flags, dont_inherit=True)]
        body = ast.parse(source, file).body
    except SyntaxError:
        body = ast.parse(without_magics(source), file).body
    last = [body.pop()] if body and isinstance(body[-1], ast.Expr) else []
    whole: list[tuple[ast.Module | ast.Interactive, str]] = [
        (ast.Module(body, []), "exec"),
        (ast.Interactive(last), "single"),
    ]
    return [compile(part, file, mode, flags, dont_inherit=True) for part, mode in whole if part.body]
