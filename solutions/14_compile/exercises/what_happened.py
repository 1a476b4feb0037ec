# %% [markdown]
# ### Exercise 14.2 · Made, or found, or given up?
#
# measure · solid · 15 min · 2 points
#
# How often was a function compiled, and how often did a compiled graph run? Write the instrument that counts both, call
# by call. You can use it for everything that follows.
#
# **Contract**
#
# - `what_happened(fn, calls)` returns one pair `(made, ran)` of ints for each entry of `calls`, in order: how many
#   graphs were made in this call, and how many graphs ran.
# - (1, 1) is a call that compiled, (0, 1) one that found its graph, (2, 2) one that breaks in two. (0, 0) is a call
#   without a graph: `fn` computes nothing on tensors, or it is beyond the limit.
# - The cache is empty at the beginning. Neither graphs nor sizes from earlier compilations count.
# - `fn` is called exactly once for each entry, with these very arguments (the same objects) and in the caller's grad
#   mode. It is compiled with default settings; no setting of the compiler is changed.
# - While a graph is made, nothing of it is computed.
#
# **Rule.** Write the backend yourself, without `Counting` and `graphs_after`, which this chapter counts with.
#
# <details><summary>Hint 1</summary>
#
# Which of the two is called once per graph: the backend, or what the backend returns?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Use two counters. The backend raises one of them, the function that it returns raises the other. Read both before and
# after each call.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Call `torch._dynamo.reset()` before you compile, so that nothing is found that was compiled before. The two numbers of
# a call are differences: what the counters say after it, less what they said before it.
#
# </details>


# %% answer="what-happened"
def what_happened(fn: Callable, calls: list[tuple]) -> list[tuple[int, int]]:
    """Compile fn and call it with each tuple: how many graphs were made, and how many ran?"""
    ### BEGIN SOLUTION
    count = {"made": 0, "ran": 0}

    def backend(graph_module: fx.GraphModule, examples: list) -> Callable:
        count["made"] += 1

        def run(*args: object) -> object:
            count["ran"] += 1
            return graph_module(*args)

        return run

    torch._dynamo.reset()
    compiled, pairs = torch.compile(fn, backend=backend), []
    for args in calls:
        before = dict(count)
        compiled(*args)
        pairs.append((count["made"] - before["made"], count["ran"] - before["ran"]))
    return pairs
    ### END SOLUTION


# %% helpers="what-happened"
OWN = (
    "`Counting` did the counting. It is the chapter's instrument, and this exercise asks for one of your own, a "
    "backend and two counters."
)


def as_pairs(value):
    """What an answer returned as a list of pairs of ints, or None where it has another form."""
    is_list = isinstance(value, list) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value)
    return [tuple(pair) for pair in value] if is_list and all(type(n) is int for p in value for n in p) else None


# %% check="what-happened" points=1
"""Sizes 5, 5, 6, 7, twice over, and a function that breaks at print."""
with check("what-happened") as test:

    def four_sizes(what_happened):
        """Ask about x * 2 with sizes 5, 5, 6, 7, twice."""

        def plain(x):
            return x * 2

        calls = [(torch.ones(n),) for n in (5, 5, 6, 7)]
        with fresh_compiler(), instruments_used() as used:
            first, second = what_happened(plain, calls), what_happened(plain, calls)
        return {"first": first, "second": second, "used": sorted(used)}

    def a_break(what_happened):
        """Ask about x + 1, a print, and x * 2, called twice with the same size."""

        def broken(x):
            x = x + 1
            print("", end="")
            return x * 2

        with fresh_compiler():
            return {"pairs": what_happened(broken, [(torch.ones(5),), (torch.ones(5),)])}

    FORM = "The function returns a list with one pair of ints, (made, ran), for each entry of `calls`."
    test("four calls with sizes 5, 5, 6, 7")
    seen = observe_scenario(four_sizes, what_happened)
    seen.that("Counting" not in seen["used"], OWN)
    pairs = as_pairs(seen["first"])
    seen.that(pairs is not None, FORM, stage="type")
    truth = [(1, 1), (0, 1), (1, 1), (0, 1)]
    seen.that(
        pairs == truth,
        f"Sizes 5, 5, 6, 7 give {truth}; you say {pairs}.",
        mistake(f"{FORM} Here there are four.", when=lambda seen: len(pairs) != 4),
        mistake(
            "A call that finds its graph still runs it, so `ran` is 1 there. You counted runs only where a graph was "
            "made.",
            when=lambda seen: pairs == [(1, 1), (0, 0), (1, 1), (0, 0)],
        ),
        mistake(
            "Those are totals. A pair says what happened in one call: subtract what was there before it.",
            when=lambda seen: pairs[-1] == (2, 4),
        ),
        mistake(
            "Sizes 5, 5, 6, 7: the second and the fourth call find a graph that fits. You compiled anew for every "
            "call.",
            when=lambda seen: pairs == [(1, 1)] * 4,
        ),
        mistake(
            "You compiled for every size. Use the settings that torch.compile has by itself: after two sizes the next "
            "one fits the same graph.",
            when=lambda seen: pairs == [(1, 1), (0, 1), (1, 1), (1, 1)],
        ),
        mistake(
            "The graph was made with symbols from the start. Use the settings that torch.compile has by itself, and an "
            "empty cache.",
            when=lambda seen: pairs == [(1, 1), (0, 1), (0, 1), (0, 1)],
        ),
    )
    test("the same again, from an empty cache")
    again = as_pairs(seen["second"])
    seen.that(
        again == truth,
        f"Asked the same a second time, you say {again}. What the first time left behind was still there: begin "
        "with an empty cache.",
    )
    test("a function that breaks in two")
    seen = observe_scenario(a_break, what_happened)
    pairs = as_pairs(seen["pairs"])
    seen.that(
        pairs == [(2, 2), (0, 2)],
        f"A break cuts the function into two graphs, and both run in every call: (2, 2), (0, 2). You say {pairs}.",
    )


# %% check="what-happened" points=1
"""The limit, calls without tensors, the very arguments, and settings that stay as they are."""
with check("what-happened") as test:

    def first_of_all(what_happened):
        """Ask about x * 2 with sizes 5, 5, 6, 7 and about a function that breaks."""

        def broken(x):
            x = x + 1
            torch._dynamo.graph_break()
            return x * 2

        with fresh_compiler(), instruments_used() as used:
            sizes = what_happened(lambda x: x * 2, [(torch.ones(n),) for n in (5, 5, 6, 7)])
            halves = what_happened(broken, [(torch.ones(5),)] * 2)
        return {"sizes": sizes, "broken": halves, "used": sorted(used)}

    def limit(what_happened):
        """Ask about x * len(s) with ten strings, and with the first one again."""
        with fresh_compiler():
            pairs = what_happened(lambda x, s: x * len(s), [(torch.ones(2), "a" * n) for n in [*range(10), 0]])
            return {"pairs": pairs, "settings": settings_changed()}

    def without_tensors(what_happened):
        """Ask about a function without tensors, and with no calls at all."""
        with fresh_compiler():
            return {"pairs": what_happened(lambda n: n + 1, [(1,), (2,)]), "none": what_happened(lambda x: x, [])}

    def how_often(what_happened):
        """Ask about a function that appends to its second argument, a list, after a graph break."""
        many = []

        def noting(x, many):
            x = x + 1
            torch._dynamo.graph_break()
            many.append(len(many))
            return x

        with fresh_compiler():
            what_happened(noting, [(torch.ones(2), many)] * 3)
        return {"length": len(many)}

    def same_objects(what_happened):
        """Ask about a + b for (x, x) and then for (x, y)."""
        x, y = torch.ones(3), torch.ones(3)
        with fresh_compiler():
            return {"pairs": what_happened(lambda a, b: a + b, [(x, x), (x, y)])}

    def gradients(what_happened):
        """Ask about x * 2 for an x, for one that requires a gradient, and about a function that notes the grad mode and
        the compiler's settings, under no_grad and without."""
        x = torch.ones(3)
        with fresh_compiler():
            pairs = what_happened(lambda x: x * 2, [(x,), (x.clone().requires_grad_(),)])
            noted, changed = [], []

            @torch.compiler.disable
            def note():
                noted.append(torch.is_grad_enabled())
                changed.extend(settings_changed())

            def asking(x):
                x = x + 1
                note()
                return x

            with torch.no_grad():
                without = what_happened(asking, [(x,)])
            what_happened(asking, [(x,)])
        return {"pairs": pairs, "modes": noted, "without": without, "changed": changed}

    def once(what_happened):
        """Ask about a function with an operator that notes when it runs on numbers, and call it once."""
        runs = []

        @torch.library.custom_op("torchkata::noted", mutates_args=())
        def noted(x: Tensor) -> Tensor:
            runs.append(1)
            return x * 2

        noted.register_fake(torch.empty_like)

        with fresh_compiler():
            what_happened(lambda x: noted(x), [(torch.ones(3),)])
        return {"runs": len(runs)}

    def settings_inside(what_happened):
        """Ask about functions that capture more, or less, where a setting is changed."""
        with fresh_compiler():
            return {
                "item": what_happened(lambda x: x * x.sum().item(), [(torch.ones(3),)]),
                "ints": what_happened(lambda x, n: x * n, [(torch.ones(3), n) for n in (2, 3, 4)]),
                "floats": what_happened(lambda x, s: x * s, [(torch.ones(3), s) for s in (0.5, 0.25, 0.125)]),
            }

    def compiled_before(what_happened):
        """Compile x * 2 with another backend for sizes 5 and 6, then ask about it with sizes 5, 5, 6, 7."""

        def plain(x):
            return x * 2

        with fresh_compiler():
            compiled = torch.compile(plain, backend="eager")
            compiled(torch.ones(5)), compiled(torch.ones(6))
            return {"pairs": what_happened(plain, [(torch.ones(n),) for n in (5, 5, 6, 7)])}

    test("the first check's calls")
    seen = observe_scenario(first_of_all, what_happened)
    seen.that("Counting" not in seen["used"], OWN)
    seen.that(
        as_pairs(seen["sizes"]) == [(1, 1), (0, 1), (1, 1), (0, 1)] and as_pairs(seen["broken"]) == [(2, 2), (0, 2)],
        "This check builds on the first one, which doesn't pass yet. Fix that first.",
    )
    ### BEGIN HIDDEN TESTS
    test.hidden("beyond the limit")
    seen = observe_scenario(limit, what_happened)
    seen.that(
        as_pairs(seen["pairs"]) == [(1, 1)] * 8 + [(0, 0)] * 2 + [(0, 1)],
        "Ten strings and the first one again: eight graphs are made, the two calls beyond the limit run without any, "
        "and the first string still finds its graph.",
        mistake(
            "Ten graphs were made. recompile_limit is part of what happens: leave it as it is.",
            when=lambda seen: as_pairs(seen["pairs"])[:10] == [(1, 1)] * 10,
        ),
    )
    seen.that(
        not seen["settings"],
        f"You changed settings of the compiler and left them changed: {', '.join(seen['settings'])}.",
    )
    test.hidden("no tensors, and no calls")
    seen = observe_scenario(without_tensors, what_happened)
    seen.that(
        as_pairs(seen["pairs"]) == [(0, 0), (0, 0)] and as_pairs(seen["none"]) == [],
        "A function that computes nothing on tensors has no graph: (0, 0). Without calls the list is empty.",
    )
    test.hidden("fn is called once for each entry")
    seen = observe_scenario(how_often, what_happened)
    length = seen["length"]
    seen.that(
        length == 3,
        f"`fn` was called {length} times for 3 entries: call it once for each, without a warm-up.",
        mistake("`fn` did not get the list itself: pass these very arguments.", when=lambda seen: length == 0),
    )
    test.hidden("one tensor twice, then two tensors")
    seen = observe_scenario(same_objects, what_happened)
    seen.that(
        as_pairs(seen["pairs"]) == [(1, 1), (1, 1)],
        "Whether two arguments are one tensor is guarded, so (x, x) and (x, y) need two graphs: pass these very "
        "arguments, not copies.",
    )
    test.hidden("an argument that requires a gradient, and grad modes")
    seen = observe_scenario(gradients, what_happened)
    seen.that(
        as_pairs(seen["pairs"]) == [(1, 1), (1, 1)],
        "requires_grad is guarded: leave the arguments as they are.",
    )
    seen.that(seen["modes"] == [False, True], "`fn` must run in the caller's grad mode.")
    without, changed = as_pairs(seen["without"]), seen["changed"]
    seen.that(
        without == [(1, 1)],
        f"Under no_grad x + 1 and a break make one graph, and it runs: (1, 1). You say {without}.",
    )
    test.hidden("a graph runs once in each call")
    seen = observe_scenario(once, what_happened)
    runs = seen["runs"]
    seen.that(
        runs == 1,
        f"After one call the graph had run {runs} times, where once is right: something ran it while it was compiled.",
    )
    test.hidden("settings of the compiler")
    seen = observe_scenario(settings_inside, what_happened)
    told = [as_pairs(seen[key]) for key in ("item", "ints", "floats")]
    seen.that(
        told == [[(2, 2)], [(1, 1), (1, 1), (0, 1)], [(1, 1), (1, 1), (0, 1)]],
        "item() breaks a function in two, and ints and floats become symbols or inputs at their second value. It is "
        "otherwise here: leave all settings of the compiler as they are.",
    )
    seen.that(
        not changed,
        f"While `fn` ran, a setting of the compiler was another one than before: {', '.join(changed[:1])}. Leave all "
        "settings as they are, during the calls as well.",
    )
    test.hidden("compiled before, by somebody else")
    seen = observe_scenario(compiled_before, what_happened)
    seen.that(
        as_pairs(seen["pairs"]) == [(1, 1), (0, 1), (1, 1), (0, 1)],
        "The function had been compiled before with two sizes, and your graph began with a symbol: empty the cache "
        "before you compile.",
    )
    ### END HIDDEN TESTS
