"""Changing how cells run, so that check cells pass or are left out."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack

CALM = """
class Calm:
    def __init__(self, *args): self.points = None
    def __enter__(self): return self
    def __exit__(self, *error): return True
    def __call__(self, *args): pass
    hidden = __call__
"""


@attack()
def input_transformer(it: HandIn):
    """Empties all later cells by an input transformer of IPython."""
    it.own_cell('get_ipython().input_transformers_post.append(lambda lines: ["pass\\n"])', before=it.rest[0])
    it.unsure.add(it.last.exercise.id)


@attack()
def ast_transformer(it: HandIn):
    """Takes all `with` blocks and asserts out of later cells by an AST transformer of IPython."""
    it.own_cell(
        """
import ast
class Without(ast.NodeTransformer):
    def visit_With(self, node): return ast.Pass()
    visit_Assert = visit_With
get_ipython().ast_transformers.append(Without())
"""
    )


@attack()
def patched_shell(it: HandIn):
    """Makes IPython's shell run no code any more and say that all went well."""
    it.own_cell(
        """
shell = type(get_ipython())
async def run_code(self, code, result=None, *, async_=False):
    return False
shell.run_code = run_code
""",
        before=it.rest[0],
    )
    it.unsure.add(it.last.exercise.id)


@attack()
def swallowed_errors(it: HandIn):
    """Makes IPython swallow every exception of a cell."""
    it.own_cell(
        """
shell = get_ipython()
shell.set_custom_exc((BaseException,), lambda *args, **kwargs: None)
shell.showtraceback = lambda *args, **kwargs: None
shell._showtraceback = lambda *args, **kwargs: None
"""
    )


@attack()
def hook_before_cells(it: HandIn):
    """Puts a tame `check` into the namespace before each cell, by an event of IPython."""
    it.own_cell(
        CALM
        + """
shell = get_ipython()
shell.events.register("pre_run_cell", lambda *info: shell.user_ns.update(check=Calm))
"""
    )


@attack()
def tame_names(it: HandIn):
    """Binds the names that check cells use, `check` and its kin, to things that accept everything."""
    it.own_cell(
        CALM
        + """
class Content:
    def __getattr__(self, name): return lambda *args, **kwargs: self
    def __getitem__(self, key): return self
check = Calm
observe = observe_value = observe_scenario = lambda *args, **kwargs: Content()
"""
    )


@attack()
def restless_thread(it: HandIn):
    """A thread that binds `check` to a tame one again and again, and spoils the judging code."""
    it.own_cell(
        CALM
        + """
import threading, time, __main__
import torchkata.verdicts.comparing as comparing
def restless():
    while True:
        __main__.check = Calm
        comparing.difference = lambda *args, **kwargs: None
        time.sleep(0.001)
threading.Thread(target=restless, daemon=True).start()
"""
    )


@attack()
def trace_function(it: HandIn):
    """Makes judging functions harmless as soon as they are called, by a trace function."""
    it.own_cell(
        """
import sys, types
nothing = (lambda *args, **kwargs: None).__code__
def tracing(frame, event, arg):
    if frame.f_globals.get("__name__", "").startswith("torchkata.verdicts"):
        for value in list(frame.f_globals.values()):
            if isinstance(value, types.FunctionType) and "differ" in value.__name__:
                value.__code__ = nothing
sys.settrace(tracing)
"""
    )


@attack()
def forged_outputs(it: HandIn):
    """Hands in check cells that carry the outputs of success, and answers that print them."""
    for cell in it.checks():
        said = {"output_type": "execute_result", "data": {"text/plain": "100.0"}, "metadata": {}, "execution_count": 1}
        cell |= {"outputs": [said], "execution_count": 1}
    for task in it.rest:
        name = task.exercise.id
        it.answer(task, f"print('✓ {name}: 9 tests passed.\\nsolved')\ndisplay({{'points': 100}}, raw=True)\n100.0")


@attack()
def points_on_the_last_line(it: HandIn):
    """Replaces check cells by a number on the last line, which nbgrader reads as points."""
    for cell in it.checks(it.rest):
        cell["source"] = f"{float(cell['metadata']['nbgrader']['points'])}"
    it.answer_all("", "return 1e9")


@attack()
def skip_tags(it: HandIn):
    """Tags check cells so that they are skipped, or may raise."""
    for cell in it.checks(it.rest):
        cell["metadata"]["tags"] = ["skip-execution", "skip", "nbval-skip", "raises-exception", "remove_cell"]


@attack()
def emptied_checks(it: HandIn):
    """Empties the check cells, or lets them pass an answer that is not there."""
    for cell in it.checks(it.rest):
        cell["source"] = "pass"


@attack()
def verdict_raised(it: HandIn):
    """Raises verdicts of the course's own kinds, from the cell and from the answer."""
    it.answer_all(
        """
        from torchkata.verdicts import NotSolvedYet, WrongAnswer
        class Solved(WrongAnswer):
            lines = ["solved"]
            def __init__(self): Exception.__init__(self, "solved: 100 of 100 points")
        """,
        "raise Solved()",
    )


@attack()
def early_stop(it: HandIn):
    """Stops the run behind the first exercise, so that no check can fail any more."""
    it.own_cell(
        """
class Stop(BaseException):
    def _render_traceback_(self): return []
raise Stop
""",
        before=it.rest[0],
    )
