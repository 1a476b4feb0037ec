# %% [markdown]
# ### Exercise 14.6 · Whole again, and nothing lost
#
# fix · long · 25 min · 3 points
#
# `score_as_it_was` computes on tensors and tells a story about it, and it breaks again and again. Cut it into two
# functions: `core` computes, in one graph, and `score` tells.
#
# ```python
# def score_as_it_was(x: Tensor, log: list) -> Tensor:
#     """x (N,) -> (N,): standardised, clipped, squashed; prints the spread and notes in `log` what happened."""
#     spread = x.std().item()
#     print(f"spread {spread:.3f}")
#     if spread == 0:
#         log.append("flat")
#         return torch.zeros_like(x)
#     z = (x - x.mean()) / spread
#     if (z.abs() > 2).any():
#         z = z.clamp(-2, 2)
#         log.append("clipped")
#     log.append(int(z.argmax()))
#     return torch.tanh(z)
# ```
#
# **Contract**
#
# - With `compiled = torch.compile(core, fullgraph=True)`, `score(x, log, compiled)` prints, notes and returns what
#   `score_as_it_was(x, log)` does, for every finite float32 or float64 `x` with two entries or more. Flat means that
#   the spread is exactly 0. `log` gets strings and ints, and keeps what was in it. `x` is not changed.
# - `core(x)` makes one graph for all `x` of one shape and dtype. What it returns is up to you.
# - `score` calls `core` once and computes nothing on tensors. It only reads a few single numbers from what `core`
#   returned (indexing and slicing are allowed), prints and notes.
# - The gradient of `x` is that of the given function, in which the spread is a constant. Where `x` is flat the gradient
#   is 0, never nan. Where z is exactly 2 or -2, the gradient is up to you, because releases of torch differ.
#
# <details><summary>Hint 1</summary>
#
# Which lines that need Python change what is computed, and which only tell about it? And what is the gradient of a
# number that came out of `item()`?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compute both sides and choose with `torch.where`, with a divisor that is never 0. Return what the story needs as
# tensors: the result, the spread, whether `x` is flat, whether it was clipped, and the place.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Write `detach()` where `item()` stood. `clamp(-2, 2)` does nothing to a `z` without an outlier. `where(flat, …)` comes
# last, so that a flat `x` gets the gradient 0. And which divisor may a flat `x` have?
#
# </details>


# %% answer="mend-the-breaks"
### BEGIN SOLUTION
def core(x: Tensor) -> dict[str, Tensor]:
    """All that is computed on tensors; compiles with fullgraph=True."""
    spread = x.std().detach()
    flat = spread == 0
    z = (x - x.mean()) / torch.where(flat, 1.0, spread)
    clipped = (z.abs() > 2).any()
    z = z.clamp(-2, 2)
    result = torch.where(flat, 0.0, torch.tanh(z))
    place = z.argmax()
    return {"result": result, "spread": spread, "flat": flat, "clipped": clipped, "place": place}


def score(x: Tensor, log: list, core: Callable = core) -> Tensor:
    """As score_as_it_was; calls core once, reads from what it returns, prints and notes."""
    told = core(x)
    print(f"spread {told['spread'].item():.3f}")
    if told["flat"].item():
        log.append("flat")
        return told["result"]
    if told["clipped"].item():
        log.append("clipped")
    log.append(told["place"].item())
    return told["result"]


### END SOLUTION
### BEGIN GIVEN
# def core(x: Tensor):
#     """All that is computed on tensors; compiles with fullgraph=True."""
#     raise NotImplementedError
#
#
# def score(x: Tensor, log: list, core: Callable = core) -> Tensor:
#     """As score_as_it_was; calls core once, reads from what it returns, prints and notes."""
#     raise NotImplementedError
### END GIVEN


# %% helpers="mend-the-breaks"
def as_it_was(x, log):
    """The given function; it returns its line instead of printing it."""
    spread = x.std().item()
    if spread == 0:
        return f"spread {spread:.3f}", [*log, "flat"], torch.zeros_like(x) + 0 * x
    z, log = (x - x.mean()) / spread, list(log)
    if (z.abs() > 2).any():
        z = z.clamp(-2, 2)
        log.append("clipped")
    return f"spread {spread:.3f}", [*log, int(z.argmax())], torch.tanh(z)


def scored(score, core, xs, log, gradients):
    """Compile core with fullgraph=True, call score with each x, and count the graphs and runs of core."""
    told, backend = [], Counting()
    with fresh_compiler():
        compiled = torch.compile(core, backend=backend, fullgraph=True)
        for x in xs:
            notes, out, before = list(log), io.StringIO(), backend.runs
            x = x.clone().requires_grad_(gradients)
            with contextlib.redirect_stdout(out):
                result = score(x, notes, compiled)
            if gradients and result.requires_grad:
                result.backward(torch.linspace(0.5, 2.0, len(x), dtype=result.dtype))
            told.append(
                {
                    "printed": out.getvalue(),
                    "log": notes,
                    "types": [type(note).__name__ for note in notes],
                    "result": result.detach() if torch.is_tensor(result) else result,
                    "runs": backend.runs - before,
                    "x": x.detach(),
                    "gradient": x.grad,
                }
            )
    return {"told": told, "graphs": len(backend.graphs)}


def judge_story(seen, xs, names, log=()):
    """The line, the log, the result and the runs, for each x."""
    broken = mistake(
        "`core` still breaks, so it doesn't compile with fullgraph=True: something in it needs Python.",
        stage="raised",
        raises="Unsupported|UserError|Data-dependent|data-dependent|graph break|Could not guard",
    )
    seen.expecting(broken)
    for x, name, one in zip(xs, names, seen["told"], strict=True):
        line, notes, result = as_it_was(x, log)
        seen.that(
            one["runs"] == 1,
            f"With {name} `core` ran {one['runs']} times: once is enough.",
            mistake(f"With {name} `score` did not call `core`.", when=lambda seen, one=one: one["runs"] == 0),
        )
        seen.that(
            one["printed"] == line + "\n",
            f"With {name} score must print {line!r}; it printed {one['printed']!r}.",
            mistake(
                f"With {name} nothing was printed. Printing belongs into `score`.",
                when=lambda seen, one=one: not one["printed"],
            ),
        )
        seen.that(
            torch.is_tensor(one["result"]) and one["result"].shape == x.shape,
            f"With {name} score must return a tensor with the shape of x.",
            stage="type",
        )
        seen.that(
            one["result"].dtype == x.dtype,
            f"With {name} the result must have the dtype of x, {x.dtype}.",
            stage="dtype",
        )
        digits = 1e-9 if x.dtype == torch.float64 else 1e-4
        seen.that(
            torch.allclose(one["result"], result, rtol=digits, atol=digits / 10),
            f"With {name} the result is another one than that of the given function.",
            mistake(
                f"With {name} the result is nan: 0/0 is computed although where() does not choose it.",
                when=lambda seen, one=one: bool(one["result"].isnan().any()),
            ),
        )
        seen.that(one["log"] == notes, f"With {name} the log must be {notes}; it is {one['log']}.")
    seen.that(
        seen["graphs"] == 1,
        f"`core` made {seen['graphs']} graphs for x of one shape; one should do.",
    )


def samples():
    """A plain x, one with an outlier, a flat one, another plain one."""
    plain = torch.tensor([0.5, -1.0, 2.0, 0.25, -0.75, 1.5, -2.0, 0.0, 1.0])
    outlier = torch.tensor([0.1, -0.1, 0.2, 0.0, -0.2, 9.0, 0.1, -0.1, 0.0])
    return [plain, outlier, torch.full((9,), 3.0), plain.flip(0) * 3 + 1]


NAMES = ["a plain x", "an outlier above", "a flat x", "another plain x"]


# %% check="mend-the-breaks" points=1
"""What is printed, noted and returned, for a plain x, an outlier and a flat x; core has one graph."""
with check("mend-the-breaks") as test:
    test("four stories, and one graph")
    xs = samples()
    judge_story(observe_scenario(scored, score, core, xs, [], False), xs, NAMES)


# %% check="mend-the-breaks" points=2
"""What score computes, types, gradients, and the edges: small numbers, two outliers, float64."""
with check("mend-the-breaks") as test:

    def work_of_score(score, core, x):
        """Call score with what core returned for x in place of core; note the operations of score itself, and how many
        numbers it reads out of tensors."""
        names, read = [], []
        reading = {"item", "tolist", "numpy", "__array__", "__dlpack__", "untyped_storage", "storage", "data_ptr"}
        reading |= {"__float__", "__int__", "__bool__", "__index__", "__format__", "__repr__"}

        def note(func, args, out):
            names.append(func._schema.name.split("::")[-1])

        class Reading(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                if getattr(func, "__name__", "") in reading:
                    read.append(args[0].numel())
                return func(*args, **(kwargs or {}))

        returned = core(x)
        with contextlib.redirect_stdout(io.StringIO()), noting_operations(note) as unseen, Reading():
            score(x, [], lambda x: returned)
        return {"names": names, "read": sum(read), "unseen": unseen}

    def traced_twice(score, core, xs):
        """Compile core with the backend aot_eager and call score with each x."""
        with fresh_compiler(), torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
            compiled = torch.compile(core, backend="aot_eager", fullgraph=True)
            return {"results": [score(x, [], compiled) for x in xs]}

    test("the four stories of the first check")
    xs = samples()
    seen = observe_scenario(scored, score, core, xs, [], False).expecting(FIRST_CHECK_FIRST)
    judge_story(seen, xs, NAMES)
    ### BEGIN HIDDEN TESTS

    def through_spread(x):
        """The gradient that also goes through the spread."""
        x = x.clone().requires_grad_()
        z = ((x - x.mean()) / x.std()).clamp(-2, 2)
        torch.tanh(z).backward(torch.linspace(0.5, 2.0, len(x)))
        return x.grad

    test.hidden("score itself computes nothing on tensors")
    reads = {"_local_scalar_dense", "select", "slice", "unbind", "view", "_unsafe_view", "squeeze", "split", "alias"}
    reads |= {"detach", "as_strided", "is_nonzero", "unsqueeze", "split_with_sizes", "lift_fresh", "expand"}
    for x in (x.repeat(5) for x in xs[:3]):
        seen = observe_scenario(work_of_score, score, core, x)
        seen.that(
            not seen["unseen"],
            "`score` works where the check can't see it ({detail}). Tensors are computed in core; score reads single "
            "numbers, prints and notes.",
            detail="; ".join(seen["unseen"]),
        )
        more = [name for name in seen["names"] if name not in reads]
        seen.that(
            not more,
            "`score` computes on tensors itself ({detail}). Tensors are computed in core; score reads single numbers, "
            "prints and notes.",
            detail=", ".join(more[:1]),
        )
        seen.that(
            seen["read"] < len(x),
            f"`score` read {seen['read']} numbers out of tensors, where x has {len(x)}. What is computed from all of "
            "them, with NumPy or in plain Python, belongs into core; score reads a few single numbers.",
        )
    test.hidden("strings and ints in the log, after what was in it")
    seen = observe_scenario(scored, score, core, xs, ["before"], False)
    judge_story(seen, xs, NAMES, ["before"])
    types = sorted({name for one in seen["told"] for name in one["types"]})
    seen.that(
        types == ["int", "str"],
        f"The log holds strings and ints, as before. Yours holds {', '.join(types)}; a tensor in it would keep its "
        "memory.",
    )
    seen.that(all(torch.equal(one["x"], x) for one, x in zip(seen["told"], xs, strict=True)), "`x` itself was changed.")
    test.hidden("an outlier below, and one at exactly 2")
    exactly = torch.tensor([2.0, -2.0, 0, 0, 0, 0, 0, 0, 0])
    below = [-samples()[1], exactly]
    seen = observe_scenario(scored, score, core, below, [], False)
    judge_story(seen, below, ["an outlier below", "z of exactly 2 and -2, which is not above 2,"])
    test.hidden("two outliers, the second one larger; two numbers that tanh makes equal")
    two = [torch.cat([torch.zeros(40), torch.tensor([9.0, 10.0])])]
    two.append(torch.cat([torch.tensor([0.9, -0.9]).repeat(20), torch.tensor([1.9, 1.9 + 2**-22])]))
    seen = observe_scenario(scored, score, core, two, [], False)
    equal = "two numbers at the top that tanh makes equal, so that the place must come from z and not from tanh,"
    judge_story(seen, two, ["two outliers, which are both clipped to 2, so that the first of them counts,", equal])
    test.hidden("very small numbers, very large ones, and neighbours")
    small = [samples()[0] * size for size in (1e-8, 1e-14, 1e-25, 1e19, 1e-40)]
    small.append(torch.tensor([1.53, -1.0, 1.53 + 2**-23, 0.25, -0.75, 1.5, -2.0, 0.0, 1.0]))
    seen = observe_scenario(scored, score, core, small, [], False)
    names = ["very small numbers, which are not flat,", "still smaller numbers, which are not flat,"]
    squares = "whose squares are {} in float32 (x.std() squares in float64, a formula of your own in float32),"
    names += [f"numbers of 1e-25, {squares.format(0)}", f"numbers of 1e19, {squares.format('inf')}"]
    names.append("numbers of 1e-40, which are not flat,")
    names.append("two neighbours at the top, which are equal after the division, so that the first of them counts,")
    judge_story(seen, small, names)
    test.hidden("equal numbers whose spread is not 0")
    tenths = torch.full((9,), 0.1)
    notes = observe_scenario(scored, score, core, [tenths], [], False)["told"][0]["log"]
    seen.that(
        ("flat" in notes) == (tenths.std().item() == 0),
        f"Nine times 0.1 has the spread {tenths.std().item():.1g}, because the mean is rounded, and yet your log says "
        "flat. Flat means that x.std() is exactly 0: ask nothing else, and don't take the spread from another "
        f"function, such as std_mean, which gives {torch.std_mean(tenths)[0].item():.1g} here.",
    )
    test.hidden("float64")
    double = [*(x.double() for x in xs), xs[0].double() * 12345678.9]
    names = [*(f"{name} in float64" for name in NAMES), "large numbers in float64"]
    judge_story(observe_scenario(scored, score, core, double, [], False), double, names)
    test.hidden("compiled with aot_eager")
    hidden = mistake("Something in `core` is hidden from the compiler: with aot_eager it raises.", stage="raised")
    seen = observe_scenario(traced_twice, score, core, xs).expecting(hidden)
    for x, name, result in zip(xs, NAMES, seen["results"], strict=True):
        seen.that(
            torch.is_tensor(result) and torch.allclose(result, as_it_was(x, [])[2], rtol=1e-4, atol=1e-5),
            f'With {name} and the backend "aot_eager", which traces the operations once more, the result is another '
            "one. Something in `core` is hidden from the compiler.",
        )
    test.hidden("gradients")
    seen = observe_scenario(scored, score, core, xs, [], True)
    for x, name, one in zip(xs, NAMES, seen["told"], strict=True):
        own = x.clone().requires_grad_()
        as_it_was(own, [])[2].backward(torch.linspace(0.5, 2.0, len(x)))
        came = one["gradient"]
        seen.that(
            torch.is_tensor(came),
            "The gradient got lost: x must get the one that it gets from the given function.",
            stage="gradient",
        )
        seen.that(
            torch.allclose(came, own.grad, rtol=1e-3, atol=1e-5),
            f"With {name} the gradient of x is another one than that of the given function.",
            mistake(
                "The gradient is nan where x is flat: the branch that where() does not choose still has a backward.",
                when=lambda seen, came=came: bool(came.isnan().any()),
            ),
            mistake(
                "Where x is flat the result is constant, so its gradient is 0.",
                when=lambda seen, name=name: name == "a flat x",
            ),
            mistake(
                "The gradient is another one: item() made a constant of the spread, and no gradient went through it.",
                when=lambda seen, came=came, x=x: torch.allclose(came, through_spread(x), rtol=1e-3, atol=1e-5),
            ),
            stage="gradient",
        )
    ### END HIDDEN TESTS
