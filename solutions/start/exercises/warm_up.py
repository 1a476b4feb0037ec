# %% [markdown]
# ### Exercise 0.1 · Half of each number
#
# implement · warm-up · 1 min · 1 point
#
# Return half of each number in a tensor. In the answer cell below, replace `raise NotImplementedError  # your code
# here` by your own line, and run the cell (Shift + Enter). That defines your function and prints nothing. Then click on
# the grey line below it, the check cell (it is folded), and also run that.
#
# **Contract**
#
# - The result is a new tensor with the shape of `x`. Each number is half of the one in `x`, fractions included.
# - `x` may contain integers or floats, and is not changed.
#
# <details><summary>Hint 1</summary>
#
# Which of the two divisions above keeps the fraction?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `return x / 2`
#
# </details>


# %% answer="warm-up"
def halve(x: Tensor) -> Tensor:
    """Half of each number.

    x: a tensor of any shape, whole numbers or floats; returns a new one of that shape, floats.
    """
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION


# %% check="warm-up" points=1
"""Half of each number, fractions included; x is left alone."""
with check("warm-up") as test:

    def is_one_number(seen):
        """Whether a single number came back for several."""
        return seen.value.numel() == 1 < seen.args[0].numel()

    known = (
        mistake(
            "Here // has rounded down: half of 5 is 2.5, not 2. Use / to keep the fraction.",
            gives=lambda x: torch.div(x, 2, rounding_mode="floor"),
        ),
        mistake("That is twice each number; asked for is half of it.", gives=lambda x: x * 2),
        mistake(
            "Your function returns nothing: begin its last line with `return`.",
            when=lambda seen: seen.value is None,
        ),
        mistake("One number came back; asked for is half of *each* number: no sum, no mean.", when=is_one_number),
    )

    test("half of [4, 5, 7]")
    seen = observe(halve, torch.tensor([4, 5, 7])).expecting(*known)
    seen.returns(torch.tensor([2.0, 2.5, 3.5]))
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    any_shape = mistake(
        "x can have any number of dimensions: x / 2 halves all of its numbers, without a loop.", raises="TypeError"
    )
    test.hidden("floats, in two dimensions")
    seen = observe(halve, torch.tensor([[3.0, -1.5], [0.25, 8.0]])).expecting(*known, any_shape)
    seen.returns(torch.tensor([[1.5, -0.75], [0.125, 4.0]]))
    seen.leaves_arguments_alone()

    test.hidden("a single number")
    observe(halve, torch.tensor(-3)).expecting(*known, any_shape).returns(torch.tensor(-1.5))
    ### END HIDDEN TESTS
