# %% [markdown]
# ### Exercise 14.4 · Ten stories, how many graphs?
#
# predict · warm-up · 10 min · 2 points
#
# In each story a function is compiled with default settings and called several times. How many graphs have been made
# after the last call? These are the functions:
#
# | story | function |
# |---|---|
# | sizes; float32, float64; with grad, under no_grad | `x * 2` |
# | an int argument s | `x * s` |
# | self.k of a module | `lin(x) * self.k`, where `lin` is an `nn.Linear` |
# | a string argument s | `x * len(s)` |
# | a list of tensors | `x + sum(many)` |
# | train(), eval() | `nn.Sequential(nn.Linear(4, 4), nn.ReLU())` |
# | five steps of training | `nn.Linear(4, 4)`, with `backward()` and SGD outside of the compiled function |
#
# **Contract**
#
# - Replace each `...` by a whole number. Decide before you run anything.
# - The number is the number of graphs that the backend has got after the last call of the story, with an empty cache at
#   its beginning. The check counts them on your PyTorch.
# - Each right number earns a tenth of the two points.
#
# <details><summary>Hint 1</summary>
#
# What was read while the function was traced?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Constants are strings, lengths of lists, and ints of modules. Symbols are sizes and int arguments, from their second
# value on. Inputs are tensors, and their numbers are never guarded.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Write down the cache of each story as a list of conditions, and go through its calls one by one. Which condition is
# the first that fails, and does an older entry still fit? (Your `what_happened` of exercise 14.2 tells you. Guess
# first.)
#
# </details>

# %% answer="how-many-graphs"
### BEGIN SOLUTION
graphs = {
    "sizes 5, 6, 7, 8": 2,
    "sizes 5, 6, 1, 0, 9": 4,
    "an argument s: 2, 3, 4, 5": 2,
    "self.k of a module: 2, 3, 4, 5": 4,
    "an argument s: 'a', 'b', 'a'": 2,
    "a list of 1, 2, 3 tensors": 3,
    "float32, float64, float32": 2,
    "with grad, under no_grad, with grad": 2,
    "Linear and ReLU: train(), eval(), train()": 1,
    "five steps of training": 1,
}
### END SOLUTION
### BEGIN GIVEN
# graphs = {
#     "sizes 5, 6, 7, 8": ...,
#     "sizes 5, 6, 1, 0, 9": ...,
#     "an argument s: 2, 3, 4, 5": ...,
#     "self.k of a module: 2, 3, 4, 5": ...,
#     "an argument s: 'a', 'b', 'a'": ...,
#     "a list of 1, 2, 3 tensors": ...,
#     "float32, float64, float32": ...,
#     "with grad, under no_grad, with grad": ...,
#     "Linear and ReLU: train(), eval(), train()": ...,
#     "five steps of training": ...,
# }
### END GIVEN


# %% helpers="how-many-graphs"
def item(given, name, truth, *mistakes, because):
    """One item, with the number that was counted, and a sentence for what is no number."""
    value = given.get(name, ...) if isinstance(given, dict) else ...
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    form = [] if is_number else [(value, f"Write a plain number of graphs in place of {value!r}, such as 7.")]
    told = [(wrong, f"It is {truth}. {sentence}") for wrong, sentence in mistakes if wrong != truth]
    return prediction(truth, *form, *told, because=f"It is {truth}. {because}")


def made(function, calls):
    """The number of graphs after these calls."""
    return graphs_after(function, *calls)[-1]


# %% check="how-many-graphs" points=1
"""The first five stories, counted on your torch; every right number earns its share."""
with check("how-many-graphs") as test:
    test("the graphs of the first five stories are counted")

    class Scaled(nn.Module):
        """A module with an int that its forward reads."""

        def __init__(self):
            super().__init__()
            self.lin, self.k = nn.Linear(4, 4), 1

        def forward(self, x):
            return self.lin(x) * self.k

    def of_a_module():
        """The graphs of a module whose int is changed between its calls."""
        with fresh_compiler():
            backend, module = Counting(), Scaled()
            compiled = torch.compile(module, backend=backend)
            for module.k in (2, 3, 4, 5):
                compiled(torch.ones(4))
        return len(backend.graphs)

    x, given = torch.ones(4), observe_value(graphs).value
    test.points = observe_value(graphs).predicts(
        {
            "sizes 5, 6, 7, 8": item(
                given,
                "sizes 5, 6, 7, 8",
                made(lambda x: x * 2, [(torch.ones(n),) for n in (5, 6, 7, 8)]),
                (4, "The second size makes a graph with a symbol for the size, and 7 and 8 fit that one."),
                (1, "The first size is a number, not a symbol."),
                because="The second size makes the graph again, with a symbol, and all later ones fit.",
            ),
            "sizes 5, 6, 1, 0, 9": item(
                given,
                "sizes 5, 6, 1, 0, 9",
                made(lambda x: x * 2, [(torch.ones(n),) for n in (5, 6, 1, 0, 9)]),
                (2, "The symbol stands for sizes from 2 on; 1 and 0 each need a graph of their own."),
                (3, "1 and 0 are two cases, and neither is the symbol."),
                (5, "9 fits the graph that the 6 has made."),
                because="5 is a number, 6 makes the symbol, and 1 and 0 are never it. 9 fits the graph of the 6.",
            ),
            "an argument s: 2, 3, 4, 5": item(
                given,
                "an argument s: 2, 3, 4, 5",
                made(lambda x, s: x * s, [(x, s) for s in (2, 3, 4, 5)]),
                (4, "An int argument is treated like a size: at its second value it becomes a symbol."),
                (1, "At first the int is a constant."),
                because="An int argument is treated like a size: at its second value it becomes a symbol.",
            ),
            "self.k of a module: 2, 3, 4, 5": item(
                given,
                "self.k of a module: 2, 3, 4, 5",
                of_a_module(),
                (2, "An int of a module is a constant, not a symbol as an argument would be."),
                (1, "forward reads self.k, so its value is guarded."),
                because="An int of a module is a constant, and each value needs a graph.",
            ),
            "an argument s: 'a', 'b', 'a'": item(
                given,
                "an argument s: 'a', 'b', 'a'",
                made(lambda x, s: x * len(s), [(x, s) for s in ("a", "b", "a")]),
                (1, "A string is guarded by its value, even if only its length is used."),
                (3, "The graph for 'a' is still in the cache when 'a' comes again."),
                because="A string is guarded by its value, and the graph for 'a' is still in the cache.",
            ),
        },
        points=1,
    )
test.points

# %% check="how-many-graphs" points=1
"""The other five stories, counted on your torch; every right number earns its share."""
with check("how-many-graphs") as test:
    test("the graphs of the other five stories are counted")

    def under_no_grad():
        """The graphs of a function that is called with grad, without, and with."""
        with fresh_compiler():
            backend = Counting()
            compiled = torch.compile(lambda x: x * 2, backend=backend)
            for mode in (True, False, True):
                with torch.set_grad_enabled(mode):
                    compiled(x)
        return len(backend.graphs)

    def of_modes():
        """The graphs of a module in training mode, in evaluation mode, and in training mode."""
        with fresh_compiler():
            backend, module = Counting(), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            compiled = torch.compile(module, backend=backend)
            for training in (True, False, True):
                module.train(training)
                compiled(x)
        return len(backend.graphs)

    def of_training():
        """The graphs of a Linear layer that is trained for five steps."""
        with fresh_compiler():
            backend, module = Counting(), nn.Linear(4, 4)
            compiled, optimizer = torch.compile(module, backend=backend), torch.optim.SGD(module.parameters(), lr=0.1)
            for _ in range(5):
                optimizer.zero_grad()
                compiled(x).sum().backward()
                optimizer.step()
        return len(backend.graphs)

    x, given = torch.ones(4), observe_value(graphs).value
    test.points = observe_value(graphs).predicts(
        {
            "a list of 1, 2, 3 tensors": item(
                given,
                "a list of 1, 2, 3 tensors",
                made(lambda x, many: x + sum(many), [(x, [x.clone() for _ in range(n)]) for n in (1, 2, 3)]),
                (2, "The length of a list never becomes a symbol: the loop over it is unrolled."),
                (1, "The length of a list is guarded."),
                because="Lists are unrolled, and their length is guarded: one graph for each length.",
            ),
            "float32, float64, float32": item(
                given,
                "float32, float64, float32",
                made(lambda x: x * 2, [(x,), (x.double(),), (x,)]),
                (3, "The graph for float32 is still in the cache."),
                (1, "The dtype is guarded."),
                because="The dtype is guarded, and the graph for float32 is still in the cache.",
            ),
            "with grad, under no_grad, with grad": item(
                given,
                "with grad, under no_grad, with grad",
                under_no_grad(),
                (1, "The grad mode is part of the global state, which is guarded."),
                (3, "The first graph is still in the cache when grad mode is on again."),
                because="The grad mode is part of the global state, which is guarded.",
            ),
            "Linear and ReLU: train(), eval(), train()": item(
                given,
                "Linear and ReLU: train(), eval(), train()",
                of_modes(),
                (2, "Linear and ReLU never read self.training, and what nobody read is not guarded."),
                (3, "Linear and ReLU never read self.training, and what nobody read is not guarded."),
                because="Linear and ReLU never read self.training, and what nobody read is not guarded.",
            ),
            "five steps of training": item(
                given,
                "five steps of training",
                of_training(),
                (5, "Parameters are inputs of the graph; their numbers are not guarded."),
                (2, "backward() runs outside of the compiled function, and with this backend autograd needs no graph."),
                because="Parameters are inputs of the graph; their numbers are not guarded.",
            ),
        },
        points=1,
    )
test.points
