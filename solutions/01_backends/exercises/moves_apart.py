# %% [markdown]
# ### Exercise 1.4 · Moves that move nothing
#
# separate · warm-up · 8 min · 2 points
#
# A move that moves nothing, a device label that isn't equal to another one, a number that 16 bits can't represent: each
# is a bug that somebody has had to find. Here are five pairs of functions. For many inputs the two functions of a pair
# return the same result. Find an input for which they don't, or write `None` if there is none.
#
# ```python
# def move_1(x):  # a dense tensor of numbers that doesn't require grad
#     x.to(torch.float32).zero_()  # fills with zeros, in place
#     return x
#
# def move_2(x):
#     x.to(torch.float32, copy=True).zero_()  # with copy=True, a new tensor in any case
#     return x
#
# def label_1(a, b):  # two texts
#     return torch.device(a) == torch.device(b)
#
# def label_2(a, b):
#     return torch.device(a).type == torch.device(b).type
#
# def absent_1(n):  # an int from 0 to 100, on a machine without a GPU of this number
#     try:
#         torch.device(f"cuda:{n}")
#     except RuntimeError:
#         return "refused"
#     return "made"
#
# def absent_2(n):
#     return "made"
#
# def literal_1(value):  # an int, a float, True or False, or a list of 1 to 10 of them
#     return torch.tensor(value)
#
# def literal_2(value):
#     torch.set_default_dtype(torch.float64)
#     try:
#         return torch.tensor(value)
#     finally:
#         torch.set_default_dtype(torch.float32)
#
# def digits_1(n):  # an int from 0 to 1000
#     return torch.tensor(n).bfloat16().item()
#
# def digits_2(n):
#     return n
# ```
#
# **Contract**
#
# - `inputs` is a dict with the keys "move", "label", "absent", "literal" and "digits". Each value is an input of the
#   pair, or `None` if no input separates the two. The input of "label" is a tuple of two texts.
# - The inputs are as the comments above say. The tensor for "move" has 1 to 100 elements.
# - Results are different if the dtypes of tensors differ or if their values do; 100 and 100.0 are the same number here.
#   Each pair is worth a fifth of the points.
#
# <details><summary>Hint 1</summary>
#
# Which of these functions allocates memory somewhere, and which only builds a small label object?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `.to` returns the tensor itself if nothing has to change. A device object is (type, index or None), compared field by
# field. Which Python numbers get the default dtype? And bfloat16 keeps 8 significant bits.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For "move", ask when `.to` has nothing to do, and which values change if they are set to zero. For "label", when do
# two devices have the same type without being equal? For "digits", write a number in binary and count the digits from
# its first 1 to its last. One pair can't be separated.
#
# </details>

# %% answer="moves-apart"
### BEGIN SOLUTION
inputs = {
    "move": torch.ones(2),
    "label": ("cuda", "cuda:0"),
    "absent": None,
    "literal": 1.5,
    "digits": 257,
}
### END SOLUTION
### BEGIN GIVEN
# inputs = {
#     "move": ...,  # such as torch.tensor([1, 2])
#     "label": ...,  # such as ("cpu", "cpu")
#     "absent": ...,  # such as 7
#     "literal": ...,  # such as [1, 2]
#     "digits": ...,  # such as 100
# }
### END GIVEN

# %% check="moves-apart" points=2
"""Both functions of each pair are run with your input; every right item earns its share."""
with check("moves-apart") as test:

    def move_1(x):
        x.to(torch.float32).zero_()
        return x

    def move_2(x):
        x.to(torch.float32, copy=True).zero_()
        return x

    def label_1(given):
        return torch.device(given[0]) == torch.device(given[1])

    def label_2(given):
        return torch.device(given[0]).type == torch.device(given[1]).type

    def absent_1(n):
        try:
            torch.device(f"cuda:{n}")
        except RuntimeError:
            return "refused"
        return "made"

    def absent_2(n):
        return "made"

    def literal_1(value):
        return torch.tensor(value)

    def literal_2(value):
        torch.set_default_dtype(torch.float64)
        try:
            return torch.tensor(value)
        finally:
            torch.set_default_dtype(torch.float32)

    def digits_1(n):
        return torch.tensor(n).bfloat16().item()

    def digits_2(n):
        return n

    def of_move(given):
        """What is wrong with a tensor, or ""."""
        dense = torch.is_tensor(given) and given.device.type == "cpu" and given.layout == torch.strided
        if not dense or given.requires_grad or not 1 <= given.numel() <= 100:
            return "Write a dense tensor on the CPU with 1 to 100 elements, which doesn't require grad."
        return ""

    def of_label(given):
        right = isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(one, str) for one in given)
        return "" if right else "Write a tuple of two texts, such as ('cpu', 'meta')."

    def of_int(largest):
        """The contract of an int from 0 on."""
        sentence = f"Write an int from 0 to {largest}."
        return lambda given: "" if type(given) is int and 0 <= given <= largest else sentence

    def of_literal(given):
        numbers = given if isinstance(given, list) else [given]
        right = 1 <= len(numbers) <= 10 and all(type(one) in (bool, int, float) for one in numbers)
        return "" if right else "Write an int, a float, True or False, or a list of 1 to 10 of them."

    test("both functions of each pair are run with your input")
    test.points = observe_value(inputs).separates(
        {
            "move": separation(
                move_1,
                move_2,
                (
                    lambda given: given.dtype != torch.float32,
                    "This tensor isn't float32, so `.to` makes a new one in both functions, and x stays as it was.",
                ),
                contract=of_move,
                same="x contains only zeros here, so zero_() changes nothing, wherever it writes.",
                exists="There is an input that separates them: `.to` returns the tensor itself if nothing has to "
                "change.",
            ),
            "label": separation(
                label_1,
                label_2,
                (
                    lambda given: not label_2(given),
                    "The types of these two labels differ, so both functions return False.",
                ),
                contract=of_label,
                same="These two labels have the same type and the same index, so both functions return True.",
                exists="There is an input that separates them: labels are equal only if their indices are, and an "
                "index that is left out is none.",
            ),
            "absent": separation(
                absent_1,
                absent_2,
                contract=of_int(100),
                no_input="A device is only a label. Building it asks no driver, so no number is refused here. The "
                "error comes when something is moved there.",
            ),
            "literal": separation(
                literal_1,
                literal_2,
                contract=of_literal,
                same="Both return {result}. The default dtype is only for floating-point numbers. Whole numbers become "
                "int64, True and False become bool.",
                exists="There is an input that separates them: Python floats get the default dtype.",
            ),
            "digits": separation(
                digits_1,
                digits_2,
                contract=of_int(1000),
                same="bfloat16 contains {result}, because this number has no more than 8 significant bits. Which "
                "whole numbers need 9?",
                exists="There is such a number: bfloat16 keeps 8 significant bits, so it skips whole numbers above "
                "256.",
            ),
        },
        points=2,
    )
test.points
