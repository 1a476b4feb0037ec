# %% [markdown]
# ### Exercise 9.5 · Which input tells them apart?
#
# separate · warm-up · 12 min · 1 point
#
# Here are three modules, exported with a dynamic batch. No export fails, and on its own example each file returns what
# PyTorch does. Find inputs that show a difference, or write `None` if there is none.
#
# ```python
# class Loop(nn.Module):
#     def forward(self, x):
#         factor = 2
#         while factor + x.shape[0] < 4:
#             factor += 1
#         return x * factor
#
# class Half(nn.Module):
#     def forward(self, x):
#         return x[: x.shape[0] // 2].repeat(1, 2)
#
# class Tail(nn.Module):
#     def forward(self, x):
#         last = x[-3:] if x.shape[0] > 3 else x
#         return last.sum(0)
#
# def exported(module, rows):
#     batch = ({0: "batch"},)
#     return torch.onnx.export(module.eval(), (torch.ones(rows, 3),), dynamic_shapes=batch)
# ```
#
# - "loop": `Loop()` in PyTorch against `exported(Loop(), rows=4)` in onnxruntime
# - "half": `Half()` in PyTorch against `exported(Half(), rows=4)` in onnxruntime
# - "tail": `exported(Tail(), rows=2)` against `exported(Tail(), rows=5)`, both in onnxruntime
#
# **Contract**
#
# - `inputs` is a dict with the keys "loop", "half" and "tail". Each value is a float32 tensor with 3 columns and 1 to
#   20 rows of numbers between -1000 and 1000, or `None` if no such tensor shows a difference.
# - Two results are different if their shapes differ, or their values by more than float32's rounding.
# - The check exports the modules and runs both sides. Each right item is worth a third of the point.
#
# <details><summary>Hint 1</summary>
#
# For each module, say which parts of `forward` are decisions in Python, and which are arithmetic with a size.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A decision is made once, during the export, with the rows of the example. Write down each file's `forward` as it is
# without its `if` and its `while`. Arithmetic with a size is recorded.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# With 4 rows the loop doesn't run. For how many rows would it run in PyTorch? One file of `Tail` adds up all rows, the
# other one the last three. How many rows, and which numbers in them, do you need to tell these apart?
#
# </details>

# %% answer="exports-apart"
### BEGIN SOLUTION
inputs = {
    "loop": torch.ones(1, 3),
    "half": None,
    "tail": torch.ones(4, 3),
}
### END SOLUTION
### BEGIN GIVEN
# inputs = {
#     "loop": ...,  # such as torch.ones(2, 3)
#     "half": ...,  # such as torch.ones(2, 3)
#     "tail": ...,  # such as torch.ones(2, 3)
# }
### END GIVEN

# %% check="exports-apart" points=1
"""The modules are exported, and both sides are run with your inputs; every right item earns its share."""
with check("exports-apart") as test:

    class Loop(nn.Module):
        """A loop whose condition is about a shape."""

        def forward(self, x):
            factor = 2
            while factor + x.shape[0] < 4:
                factor += 1
            return x * factor

    class Half(nn.Module):
        """The first half of the rows, each twice as long."""

        def forward(self, x):
            return x[: x.shape[0] // 2].repeat(1, 2)

    class Tail(nn.Module):
        """The sum of the last three rows."""

        def forward(self, x):
            last = x[-3:] if x.shape[0] > 3 else x
            return last.sum(0)

    class All(nn.Module):
        """All exports in one file, each with its own input and output, because every export takes time."""

        def __init__(self):
            super().__init__()
            self.a_loop, self.a_half, self.a_tail = Loop(), Half(), Tail()

        def forward(self, x_of_loop, x_of_half, x_of_tail_2, x_of_tail_5):
            tails = self.a_tail(x_of_tail_2), self.a_tail(x_of_tail_5)
            return self.a_loop(x_of_loop), self.a_half(x_of_half), *tails

    sessions = []

    def the_session():
        """The one file in onnxruntime; it is exported when it is needed for the first time."""
        if not sessions:
            with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                examples = tuple(torch.ones(rows, 3) for rows in (4, 4, 2, 5))
                batches = tuple({0: f"batch_{n}"} for n in range(4))
                program = torch.onnx.export(All().eval(), examples, dynamic_shapes=batches, verbose=False)
            sessions.append(ort.InferenceSession(program.model_proto.SerializeToString()))
        return sessions[0]

    def in_file(number):
        """The export of that number, as a function of a tensor."""

        def run(x):
            every = [torch.ones(2, 3) if n != number else x for n in range(4)]
            of_session = zip(the_session().get_inputs(), every, strict=True)
            results = the_session().run(None, {one.name: given.numpy() for one, given in of_session})
            return torch.from_numpy(results[number])

        return run

    def contract(given):
        """What is wrong with an input, or ""."""
        if not torch.is_tensor(given) or given.dtype != torch.float32 or given.dim() != 2 or given.shape[1] != 3:
            return "Write a dense float32 tensor with 3 columns."
        if not 1 <= len(given) <= 20 or not given.detach().abs().le(1000).all():
            return "The tensor has 1 to 20 rows of numbers between -1000 and 1000."
        return ""

    def plain(function):
        """The function of a tensor that no graph is attached to."""
        return lambda given: function(given.detach())

    test("both sides of each pair are run with your input")
    test.points = observe_value(inputs).separates(
        {
            "loop": separation(
                plain(Loop()),
                plain(in_file(0)),
                (
                    lambda given: len(given) > 1,
                    "With 2 rows or more, the loop doesn't run in PyTorch either, so both return x * 2.",
                ),
                contract=contract,
                same="Both return {result}. The number of rows is right: the factor is 3 in PyTorch and 2 in the file. "
                "But three times 0 is twice 0.",
                exists="There is an input that shows a difference: the condition of the loop was decided during the "
                "export, with 4 rows.",
            ),
            "half": separation(
                plain(Half()),
                plain(in_file(1)),
                contract=contract,
                no_input="x.shape[0] // 2 is arithmetic with a size, not a decision. The file contains it and computes "
                "it for each input, so no input shows a difference.",
            ),
            "tail": separation(
                plain(in_file(2)),
                plain(in_file(3)),
                (
                    lambda given: len(given) < 4,
                    "With 3 rows or fewer, the last three rows are all rows, so both files return the same.",
                ),
                contract=contract,
                same="Both files return {result}. One adds up all rows, the other the last three. Here the rows before "
                "these add up to 0, or to too little to show.",
                exists="There is an input that shows a difference: each file contains only the branch that its example "
                "took.",
            ),
        },
        points=1,
    )
test.points
