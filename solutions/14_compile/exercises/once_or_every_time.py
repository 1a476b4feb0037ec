# %% [markdown]
# ### Exercise 14.7 · How often in three calls?
#
# predict · warm-up · 8 min · 1 point
#
# A compiled function does something besides computing tensors. How often does it happen in three calls?
#
# **Contract**
#
# - Replace each `...` by a whole number. Decide before you run anything.
# - The number says how often it happens in three calls of the compiled `f`, with equal arguments and the backend
#   "eager", from an empty cache.
# - For the hooks, `lin` is an `nn.Linear(4, 4)`, `f` is `torch.compile(lin)`, and forward hooks are registered on `lin`
#   itself. If a hook is registered after the first call, the next three calls count. For the hook on `lin.weight`, the
#   backend is "aot_eager", and `backward()` is called after each call.
# - "Different numbers" counts how many different numbers come out of `random.randint(0, 10**9)` in the three calls.
# - Each right number earns a tenth of the point. The check counts on your PyTorch.
#
# <details><summary>Hint 1</summary>
#
# Who runs this line: Python in each call, Python once while tracing, or the graph?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# What `f` does to Python's objects is done again after each run of the graph. What was decided while tracing is not
# asked again, unless a guard asks.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The backend runs once for each graph, and a function under `assume_constant_result` once while tracing. Of what was
# added later, or left out while tracing, ask: which guard would notice it?
#
# </details>

# %% answer="once-or-every-time"
### BEGIN SOLUTION
times = {
    "print in f": 3,
    "log.append in f, log is a list from outside": 3,
    "log.append in a function under assume_constant_result": 1,
    "log.append in the backend": 1,
    "log.append in what the backend returns": 3,
    "a forward hook, registered before the first call": 3,
    "a forward hook, registered after the first call": 0,
    "a hook on lin.weight, registered after the first call": 3,
    "different numbers from random.randint in f": 3,
    "log.append in f, under `if not torch.compiler.is_compiling():`": 0,
}
### END SOLUTION
### BEGIN GIVEN
# times = {
#     "print in f": ...,
#     "log.append in f, log is a list from outside": ...,
#     "log.append in a function under assume_constant_result": ...,  # of torch.compiler
#     "log.append in the backend": ...,
#     "log.append in what the backend returns": ...,
#     "a forward hook, registered before the first call": ...,
#     "a forward hook, registered after the first call": ...,  # in the next three calls
#     "a hook on lin.weight, registered after the first call": ...,  # in the next three
#     "different numbers from random.randint in f": ...,
#     "log.append in f, under `if not torch.compiler.is_compiling():`": ...,
# }
### END GIVEN

# %% check="once-or-every-time" points=1
"""Each number is counted on your torch; every right one earns its share."""
with check("once-or-every-time") as test:
    test("everything is counted in three calls")
    x = torch.ones(4)

    def thrice(f, backend="eager"):
        """Compile f and call it three times; what came back."""
        with fresh_compiler():
            compiled = torch.compile(f, backend=backend)
            return [compiled(x) for _ in range(3)]

    def of_appending(make):
        """How often a function appends that make builds around a list."""
        log = []
        thrice(make(log))
        return len(log)

    def printing(log):
        """A function that prints; its lines are noted."""

        def f(x):
            x = x + 1
            print("here")
            return x * 2

        def noting(x):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                f_compiled(x)
            log.extend(out.getvalue().split())

        f_compiled = torch.compile(f, backend="eager")
        return torch.compiler.disable(noting)

    def appending(log):
        """A function that appends to a list."""

        def f(x):
            log.append(1)
            return x + 1

        return f

    def promised(log):
        """A function that calls another one under assume_constant_result."""

        @torch.compiler.assume_constant_result
        def constant():
            log.append(1)
            return 2

        return lambda x: x * constant()

    def not_compiling(log):
        """A function that appends if it is not being compiled."""

        def f(x):
            if not torch.compiler.is_compiling():
                log.append(1)
            return x + 1

        return f

    def hooked(register, after, backend="eager"):
        """How often a hook runs in three calls, registered before or after a first one."""
        log, lin = [], nn.Linear(4, 4)
        with fresh_compiler():
            compiled = torch.compile(lin, backend=backend)
            if after:
                compiled(x)
            register(lin, lambda *args: log.append(1))
            for _ in range(3):
                compiled(x).sum().backward()
        return len(log)

    counting = Counting()
    thrice(lambda x: x + 1, counting)
    numbers = {int(n[0]) for n in thrice(lambda x: x.long() * random.randint(0, 10**9))}
    given = observe_value(times).value
    given = given if isinstance(given, dict) else {}

    def item(name, truth, *mistakes, because):
        """One item, with a sentence for what is no number."""
        value = given.get(name, ...)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        form = [] if is_number else [(value, f"Write a plain number in place of {value!r}, such as 7.")]
        return prediction(truth, *form, *mistakes, because=because)

    replayed = "What a function does to Python's objects is done again after every run of the graph."
    decided = (
        "is_compiling() is True while the function is traced, and the branch is decided there: what was left out then "
        "is left out for good."
    )
    test.points = observe_value(times).predicts(
        {
            "print in f": item(
                "print in f",
                of_appending(printing),
                because="The graph breaks at print, and Python prints in every call.",
            ),
            "log.append in f, log is a list from outside": item(
                "log.append in f, log is a list from outside", of_appending(appending), because=replayed
            ),
            "log.append in a function under assume_constant_result": item(
                "log.append in a function under assume_constant_result",
                of_appending(promised),
                because="The decorator is a promise: the function is called once, while tracing, and its result is a "
                "constant from then on.",
            ),
            "log.append in the backend": item(
                "log.append in the backend",
                len(counting.graphs),
                because="The backend is called once for each graph, and three equal calls need one.",
            ),
            "log.append in what the backend returns": item(
                "log.append in what the backend returns",
                counting.runs,
                because="What the backend returns runs in every call.",
            ),
            "a forward hook, registered before the first call": item(
                "a forward hook, registered before the first call",
                hooked(lambda lin, hook: lin.register_forward_hook(hook), after=False),
                because="A hook that is there at the first call is part of what is traced, and what it does to "
                "Python's objects is done again after every run.",
            ),
            "a forward hook, registered after the first call": item(
                "a forward hook, registered after the first call",
                hooked(lambda lin, hook: lin.register_forward_hook(hook), after=True),
                because="For speed, hooks of modules are not guarded, so later ones are overlooked. Register them "
                "first, or call torch.compiler.reset().",
            ),
            "a hook on lin.weight, registered after the first call": item(
                "a hook on lin.weight, registered after the first call",
                hooked(lambda lin, hook: lin.weight.register_hook(hook), after=True, backend="aot_eager"),
                because="A hook on a tensor sits where autograd itself brings the gradient, outside of the graph.",
            ),
            "different numbers from random.randint in f": item(
                "different numbers from random.randint in f",
                len(numbers),
                because="The functions of random are called again before every run of the graph.",
            ),
            "log.append in f, under `if not torch.compiler.is_compiling():`": item(
                "log.append in f, under `if not torch.compiler.is_compiling():`",
                of_appending(not_compiling),
                because=decided,
            ),
        },
        points=1,
    )
test.points
