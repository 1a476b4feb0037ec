# %% [markdown]
# ### Exercise 14.5 · Unroll nothing
#
# fix · solid · 15 min · 2 points
#
# `attend` is right, and compiling it is hopeless: each length T makes a graph of its own, with several operations for
# each of the T² places. Rewrite it so that one graph serves all lengths.
#
# **Contract**
#
# - `x` has the shape (T, D) with T ≥ 1 and D ≥ 1, float32 or float64. The result has the shape and dtype of `x`, and
#   the values of the given function to the precision of that dtype, whatever finite numbers are in `x`, as long as
#   those in `x @ x.t()` are finite. The gradient of `x` is also that of the given function.
# - With `dynamic=True`, one graph serves every T ≥ 2 as long as D stays the same, is 2 or more, and isn't equal to the
#   first T. With default settings, two graphs do: one for the first length, one for all others. Both also hold with
#   `fullgraph=True`, and the compiled function returns the same numbers, even with the backend "aot_eager".
# - T may be up to 1000.
#
# <details><summary>Hint 1</summary>
#
# How many operations has the graph for T = 4, and how many has the one for T = 5?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Row number minus column number is a broadcast of two vectors 0 … T − 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.arange` takes T as it is, symbol or number. Choose with `where` between the penalty and −inf. In which dtype is
# half of the distance exact?
#
# </details>


# %% answer="one-graph-for-all-sizes"
### BEGIN SOLUTION
def attend(x: Tensor) -> Tensor:
    """x (T, D) -> (T, D): causal attention of x to itself, with a penalty for distance."""
    T = x.shape[0]
    place = torch.arange(T)
    distance = place[:, None] - place
    bias = torch.where(distance < 0, -math.inf, -0.5 * distance)
    scores = x @ x.t() / math.sqrt(T) + bias
    return scores.softmax(-1) @ x


### END SOLUTION
### BEGIN GIVEN
# def attend(x: Tensor) -> Tensor:
#     """x (T, D) -> (T, D): causal attention of x to itself, with a penalty for distance."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     T = x.shape[0]
#     bias = torch.zeros(T, T)
#     for i in range(T):
#         for j in range(T):
#             bias[i, j] = -0.5 * (i - j) if j <= i else -math.inf
#     scores = x @ x.t() / math.sqrt(T) + bias
#     return scores.softmax(-1) @ x
### END GIVEN


# %% helpers="one-graph-for-all-sizes"
def lengths(attend, sizes, dynamic, fullgraph):
    """Compile attend, call it with x of these lengths, and count graphs; end with the third graph."""
    counts, operations, outs = [], [], []
    with fresh_compiler():
        backend = Counting()
        compiled = torch.compile(attend, backend=backend, dynamic=True if dynamic else None, fullgraph=fullgraph)
        for T in sizes:
            if len(backend.graphs) < 3:
                outs.append(compiled(torch.sin(torch.arange(3.0 * T)).reshape(T, 3)))
                counts.append(len(backend.graphs))
        operations = [sum(n.op.startswith("call_") for n in module.graph.nodes) for module in backend.graphs]
    return {"counts": counts, "operations": operations, "outs": outs}


def judge_counts(seen, sizes, most):
    """At most so many graphs; else the sentence says what it looks like."""
    counts, operations = seen["counts"], seen["operations"]
    seen.that(
        len(counts) == len(sizes) and counts[-1] <= most,
        f"After T = {', '.join(map(str, sizes[: len(counts)]))} there were {counts} graphs; {most} should serve all "
        "lengths from 2 on. Some length is treated in another way than the rest.",
        mistake(
            "There is more than one graph for one length: the function breaks. Nothing in it may be left to Python.",
            when=lambda seen: counts[0] > 1,
        ),
        mistake("There is no graph at all: the whole function is left to Python.", when=lambda seen: counts[0] == 0),
        mistake(
            "There is a graph for each length, each longer than the one before: the Python loop was unrolled. Compute "
            "bias without a loop over T.",
            when=lambda seen: counts[:3] == [1, 2, 3] and operations == sorted(set(operations)),
        ),
        mistake(
            "There is a graph for each length: something made a constant of T. A list does, a key, an ==, and any "
            "argument that takes plain numbers only, such as scale= or the size in unfold.",
            when=lambda seen: counts[:3] == [1, 2, 3],
        ),
    )
    seen.that(counts[0] >= 1, "There is no graph at all: the whole function is left to Python.")


def is_close(a, b):
    """Whether two results agree to the digits of float32."""
    return torch.is_tensor(a) and a.shape == b.shape and torch.allclose(a, b.to(a.dtype), rtol=1e-4, atol=1e-5)


def judge_compiled(seen, T, out, wanted):
    """The numbers of the given function, from a compiled one."""
    seen.that(is_close(out, wanted), f"Compiled, for T = {T} the numbers are not those of the given function.")


# %% check="one-graph-for-all-sizes" points=1
"""The numbers of the given function for short x, and one graph for all lengths with dynamic=True."""
with check("one-graph-for-all-sizes") as test:

    def as_given(x):
        """The given function."""
        T = x.shape[0]
        bias = torch.zeros(T, T)
        for i in range(T):
            for j in range(T):
                bias[i, j] = -0.5 * (i - j) if j <= i else -math.inf
        scores = x @ x.t() / math.sqrt(T) + bias
        return scores.softmax(-1) @ x

    for T in (2, 3, 5):
        test(f"the numbers of the given function for T = {T}")
        x = torch.sin(torch.arange(3.0 * T)).reshape(T, 3)
        observe(attend, x).returns(as_given(x), because=f"For T = {T} the numbers are not those of the given function.")

    test("one graph for T = 4, 5, 7, 2 and 6")
    seen = observe_scenario(lengths, attend, (4, 5, 7, 2, 6), True, False)
    judge_counts(seen, (4, 5, 7, 2, 6), 1)
    for T, out in zip((4, 5, 7, 2, 6), seen["outs"], strict=True):
        judge_compiled(seen, T, out, as_given(torch.sin(torch.arange(3.0 * T)).reshape(T, 3)))


# %% check="one-graph-for-all-sizes" points=1
"""Default settings and fullgraph, long x, float64, another D, large numbers, and the gradient."""
with check("one-graph-for-all-sizes") as test:

    def compiled_double(attend):
        """Compile attend and call it with an x in float64 and T = 5."""
        x = torch.sin(torch.arange(15.0, dtype=torch.float64)).reshape(5, 3).requires_grad_()
        with fresh_compiler():
            out = torch.compile(attend, backend="eager")(x)
            tracked = out.requires_grad
            if tracked:
                out.square().sum().backward()
        return {"out": out.detach(), "gradient": x.grad, "dtype": str(out.dtype)}

    def traced_twice(attend):
        """Compile attend with dynamic=True and the backend aot_eager, and call it with T = 5."""
        with fresh_compiler(), torch.no_grad():
            return torch.compile(attend, backend="aot_eager", dynamic=True)(torch.sin(torch.arange(15.0)).reshape(5, 3))

    test("the numbers for T = 1")
    x = torch.sin(torch.arange(3.0)).reshape(1, 3)
    observe(attend, x).returns(x, because="For T = 1 there is one place to attend to, so the result is x itself.")

    ### BEGIN HIDDEN TESTS
    def wanted(x):
        """What the given function returns, in one piece."""
        place = torch.arange(len(x), dtype=x.dtype)
        distance = place[:, None] - place
        bias = (-0.5 * distance).masked_fill(distance < 0, -math.inf)
        return (x @ x.t() / math.sqrt(len(x)) + bias).softmax(-1) @ x

    test.hidden("default settings and fullgraph")
    short = observe_scenario(lengths, attend, (4, 5, 7, 6), True, False)
    short.that(
        short["counts"] in ([1, 1, 1, 1], [1, 1, 1, 2])
        and is_close(short["outs"][0], wanted(torch.sin(torch.arange(12.0)).reshape(4, 3))),
        "This check builds on the first one, which doesn't pass yet. Fix that first.",
    )
    judge_counts(observe_scenario(lengths, attend, (3, 4, 9, 100, 6), False, True), (3, 4, 9, 100, 6), 2)
    test.hidden("dynamic=True, up to T = 200")
    seen = observe_scenario(lengths, attend, (4, 5, 100, 200, 2), True, True)
    judge_counts(seen, (4, 5, 100, 200, 2), 1)
    x = torch.sin(torch.arange(600.0)).reshape(200, 3)
    judge_compiled(seen, 200, seen["outs"][3], wanted(x))
    for T in (100, 1000):
        test.hidden(f"the numbers for T = {T}")
        x = torch.sin(torch.arange(3.0 * T)).reshape(T, 3)
        observe(attend, x).returns(
            wanted(x), because=f"For T = {T} the numbers are not those of the given function.", rtol=1e-4, atol=1e-5
        )
    test.hidden("D is 5")
    x = torch.cos(torch.arange(20.0)).reshape(4, 5)
    observe(attend, x).returns(wanted(x), because="For D = 5 the numbers are not those of the given function.")
    test.hidden("large numbers")
    x = torch.tensor([[20.0, 4.0], [-20.0, 8.0], [12.0, -16.0]]) * 5
    observe(attend, x).returns(
        wanted(x), because="Large scores give other numbers, or nan: softmax subtracts the maximum."
    )
    test.hidden("a place of the future with a very large number")
    x = torch.tensor([[1.0], [1e10]])
    observe(attend, x).returns(
        torch.tensor([[1.0], [1e10]]),
        because="For x = [[1], [1e10]] the first row must stay 1: the future is shut out whatever its score is, with "
        "-inf and not with a large negative number.",
    )
    x = torch.tensor([[1e12], [1.5e19]])
    observe(attend, x).returns(
        x,
        because="For x = [[1e12], [1.5e19]] the first row must stay 1e12: a score of the future can be larger than any "
        "number that you subtract from it. Shut it out with -inf.",
    )
    test.hidden("a far place with a large number")
    x = torch.zeros(600, 1)
    x[0], x[-1] = 1000.0, 10.0
    observe(attend, x).returns(
        wanted(x),
        because="For x = 1000, then 598 zeros, then 10, the last row must be 1000: there place 0 has a score of 408 "
        "and a penalty of -299.5. Add the two before you take the maximum and the exponential, because exp(-299.5) "
        "alone is 0 in float32.",
        rtol=1e-4,
        atol=1e-5,
    )
    test.hidden("float64")
    x = torch.sin(torch.arange(15.0, dtype=torch.float64)).reshape(5, 3)
    seen = observe(attend, x)
    seen.returns(
        wanted(x),
        mistake("The result must have the dtype of x: {detail}.", stage="dtype"),
        mistake(
            "In float64 the result has the digits of float32 only: something in `attend` is computed in float32, such "
            "as the bias, the root of T, the scores or the softmax.",
            when=lambda seen: is_close(seen.value, wanted(x)),
        ),
        because="In float64 the numbers are not those of the given function.",
        rtol=1e-12,
        atol=1e-12,
    )
    test.hidden("the gradient")
    x.requires_grad_()
    observe(attend, x).gives_gradients(wanted, because="The gradient of x is not that of the given function.")
    test.hidden("compiled with aot_eager")
    seen = observe_scenario(traced_twice, attend)
    seen.that(
        is_close(seen.value, wanted(torch.sin(torch.arange(15.0)).reshape(5, 3))),
        'With the backend "aot_eager", which traces the operations once more, the numbers are others. Something in '
        "`attend` is hidden from the first compiler.",
    )
    test.hidden("compiled, in float64 and with a gradient")
    seen = observe_scenario(compiled_double, attend)
    again = x.detach().requires_grad_()
    wanted(again).square().sum().backward()
    seen.that(
        seen["dtype"] == "torch.float64" and torch.allclose(seen["out"], wanted(x.detach()), rtol=1e-12, atol=1e-12),
        "Compiled, float64 gives other digits, or another dtype, than without a compiler.",
    )
    seen.that(
        torch.is_tensor(seen["gradient"]) and torch.allclose(seen["gradient"], again.grad, rtol=1e-9),
        "Compiled, the gradient of x is another one, or none.",
        stage="gradient",
    )
    ### END HIDDEN TESTS
