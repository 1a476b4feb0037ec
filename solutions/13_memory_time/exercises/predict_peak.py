# %% [markdown]
# ### Exercise 13.1 · How much is alive?
#
# predict · warm-up · 10 min · 1 point
#
# `x = torch.ones(512, 512)` takes 1 MiB. It existed before each program and doesn't count. How many MiB do the eight
# programs need? Decide before you run anything.
#
# **Contract**
#
# - Replace each `...` in the dict by a whole number of MiB. Scalars are too small to count.
# - "Peak" is the largest number of MiB that are alive right after any of the operations. "Left" is what is still alive
#   when the line has run and `y` refers to its result.
# - In `no_grad` the program runs under `torch.no_grad()`. In all other programs x requires a gradient and autograd
#   records.
# - Each right number earns an eighth of the point.
#
# <details><summary>Hint 1</summary>
#
# Go through the tensors of a program one by one. What refers to this one now: a name, the operation that is running, or
# the graph?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `exp`, `tanh` and `sigmoid` keep their result for backward. `sin` and `square` keep their input. A multiplication by a
# number, an addition and `sum` keep no tensor.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Under `no_grad`, an operation needs its input and its output and nothing else. In a chain of `exp`, each result is
# kept. In `twice`, ask what keeps the old y alive while the new one is being computed, and what the graph of the old y
# keeps in turn.
#
# </details>

# %% answer="predict-peak"
### BEGIN SOLUTION
mib_alive = {
    "no_grad": 2,  # peak of x.exp().exp().exp().exp() under no_grad
    "exp": 4,  # left after y = x.exp().exp().exp().exp()
    "times": 1,  # left after y = x.mul(2).mul(3).mul(4).mul(5)
    "sigmoid_of_sin": 2,  # left after y = x.sin().sin().sigmoid().sum()
    "row": 1,  # left after y = x.detach().exp()[0]
    "square": 2,  # left after y = (x.exp() + 1).square().sum()
    "twice": 5,  # peak of: for _ in range(2): y = x.sin().sin().exp()
    "twice_del": 3,  # the same with  del y  as the last line of the loop
}
### END SOLUTION
### BEGIN GIVEN
# mib_alive = {
#     "no_grad": ...,  # peak of x.exp().exp().exp().exp() under no_grad
#     "exp": ...,  # left after y = x.exp().exp().exp().exp()
#     "times": ...,  # left after y = x.mul(2).mul(3).mul(4).mul(5)
#     "sigmoid_of_sin": ...,  # left after y = x.sin().sin().sigmoid().sum()
#     "row": ...,  # left after y = x.detach().exp()[0]
#     "square": ...,  # left after y = (x.exp() + 1).square().sum()
#     "twice": ...,  # peak of: for _ in range(2): y = x.sin().sin().exp()
#     "twice_del": ...,  # the same with  del y  as the last line of the loop
# }
### END GIVEN

# %% check="predict-peak" points=1
"""Each number against the ledger of section 13.1 on your torch; every right one earns its share."""
with check("predict-peak") as test:
    test("every program is run under a ledger")
    x = torch.ones(512, 512)
    w = torch.ones(512, 512, requires_grad=True)

    def again(delete):
        """Twice the same line, with or without `del y`."""
        for _ in range(2):
            y = w.sin().sin().exp()
            if delete:
                del y
        return None if delete else y

    def of(place, program):
        """The MiB at the peak or left."""
        _, peak, left = measured(program)
        return round((peak if place == "peak" else left) / 2**20)

    def unrecorded():
        """The first program."""
        with torch.no_grad():
            return x.exp().exp().exp().exp()

    given = observe_value(mib_alive).value
    given = given if isinstance(given, dict) else {}

    def item(name, truth, *mistakes, because):
        """One item, with a sentence for what is no number."""
        value = given.get(name, ...)
        form = f"Write a plain number of MiB in place of {value!r}, such as 7."
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return prediction(truth, *([] if is_number else [(value, form)]), *mistakes, because=because)

    nobody = "Without a graph nothing refers to the earlier results: each is freed when the next one has been computed."
    kept = "exp needs its own result for backward, so every exp in the chain keeps one tensor."
    loop = (
        "The name y refers to the old result, and so to its graph, until the new result is complete. So count what "
        "the old graph keeps, and add what is alive while the new one is computed."
    )
    test.points = observe_value(mib_alive).predicts(
        {
            "no_grad": item(
                "no_grad",
                of("peak", unrecorded),
                (1, "While an operation runs, its input and its output are both alive."),
                (3, "x existed before and doesn't count. Besides it there are one input and one output."),
                because=nobody,
            ),
            "exp": item(
                "exp",
                of("left", lambda: w.exp().exp().exp().exp()),
                (2, "That is the peak without a graph. With a graph, every exp keeps its result."),
                (5, "x existed before and doesn't count."),
                because=kept,
            ),
            "times": item(
                "times",
                of("left", lambda: w.mul(2).mul(3).mul(4).mul(5)),
                because="The gradient of a multiplication by a number needs that number and no tensor, so nothing but "
                "y is kept.",
            ),
            "sigmoid_of_sin": item(
                "sigmoid_of_sin",
                of("left", lambda: w.sin().sin().sigmoid().sum()),
                (4, "sum keeps a shape and no tensor."),
                (1, "sin keeps its input. The second sin therefore keeps the result of the first."),
                because=(
                    "sin keeps its INPUT: the first keeps x, which existed before, and the second keeps the result of "
                    "the first. sigmoid keeps its own result. Nothing refers to the result of the second sin."
                ),
            ),
            "row": item(
                "row",
                of("left", lambda: w.detach().exp()[0]),
                (0, "A row is a view, and a view keeps the whole storage alive."),
                because="y is one row, a view of the whole result, and it keeps the whole storage alive.",
            ),
            "square": item(
                "square",
                of("left", lambda: (w.exp() + 1).square().sum()),
                (1, "square keeps its input, which is a new tensor: the result of exp plus one."),
                (3, "The result of square is not kept: sum needs its shape only."),
                because="exp keeps its result, and square keeps its input, which is another tensor.",
            ),
            "twice": item(
                "twice",
                of("peak", lambda: again(False)),
                (3, loop),
                (4, f"{loop} While exp runs, its input is alive too."),
                (
                    6,
                    "Two tensors of the old graph are left, not three: once exp has run, nothing refers to the result "
                    "of the second sin.",
                ),
                because=loop,
            ),
            "twice_del": item(
                "twice_del",
                of("peak", lambda: again(True)),
                (5, "del y drops the old graph before the new one is built."),
                (2, "While exp runs, its input is alive too."),
                because="After del y nothing of the first iteration is alive, so the peak is that of one iteration.",
            ),
        },
        points=1,
    )
test.points
