# %% [markdown]
# ### Exercise 6.9 · Hooks that nearly agree
#
# separate · solid · 12 min · 1 point
#
# Here are four pairs of functions. The two functions of a pair often return the same. Find an input for which they
# don't, or write `None` if there is none.
#
# ```python
# def calls_1(names, on_weights=False):  # such as ["b", "a"]: x goes through b, then through a
#     layers = {"a": nn.Linear(1, 1), "b": nn.Linear(1, 1)}
#     fired = []
#     for layer in layers.values():
#         if on_weights:
#             layer.weight.register_hook(lambda grad: fired.append("weight"))
#         else:
#             layer.register_full_backward_hook(lambda *args: fired.append("layer"))
#     x = torch.ones(1, requires_grad=True)
#     for name in names:
#         x = layers[name](x)
#     x.backward()
#     return len(fired)
#
# def calls_2(names):
#     return calls_1(names, on_weights=True)
#
# def kept_1(numbers, keep=lambda output: output.detach()):
#     double = nn.Linear(1, 1, bias=False)
#     nn.init.constant_(double.weight, 2.0)
#     kept = []
#     double.register_forward_hook(lambda module, args, output: kept.append(keep(output)))
#     nn.Sequential(double, nn.ReLU(inplace=True))(torch.tensor(numbers).float().view(-1, 1))
#     return kept[0]
#
# def kept_2(numbers):
#     return kept_1(numbers, keep=lambda output: output.detach().clone())
#
# def clamp_1(gradients):
#     w = nn.Parameter(torch.tensor(0.0))
#     w.register_hook(lambda grad: grad.clamp(-1, 1))
#     for gradient in gradients:
#         (gradient * w).backward()
#     return w.grad
#
# def clamp_2(gradients):
#     def clamp(w):
#         w.grad.clamp_(-1, 1)
#
#     w = nn.Parameter(torch.tensor(0.0))
#     w.register_post_accumulate_grad_hook(clamp)
#     for gradient in gradients:
#         (gradient * w).backward()
#     return w.grad
#
# def removed_1(numbers, remove=True):
#     double = nn.Linear(1, 1, bias=False)
#     nn.init.constant_(double.weight, 2.0)
#     handle = double.register_full_backward_hook(lambda module, grad_in, grad_out: (grad_in[0] * 3,))
#     x = torch.tensor(numbers).float().view(-1, 1).requires_grad_()
#     y = double(x)
#     if remove:
#         handle.remove()
#     y.square().sum().backward()
#     return x.grad
#
# def removed_2(numbers):
#     return removed_1(numbers, remove=False)
# ```
#
# **Contract**
#
# - `apart` is a dict with the keys "calls", "kept", "clamp" and "removed". The value of "calls" is a list with 1 to 10
#   of the names "a" and "b". The others are lists with 1 to 20 Python numbers between -1000 and 1000.
# - If no input separates the two functions of a pair, its value is `None`.
# - Two results are different if they differ by more than float32's rounding. Each pair is worth a quarter of a point.
#
# <details><summary>Hint 1</summary>
#
# For each pair, name the moment at which each of the two hooks runs, and what it gets then.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# How many gradients does a weight get in one backward? Who else writes into the memory of a detached tensor? What does
# a post-accumulate hook find in `.grad` after the second backward? And when does PyTorch put the node of a full
# backward hook into the graph?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For "calls", some layer must be called more often than its weight gets a gradient. For "kept", the in-place ReLU must
# change something. For "clamp", you need several gradients, and a sum that is too large although it is made of clamped
# gradients. In the last pair, the graph is complete before the hook is removed.
#
# </details>

# %% answer="hooks-apart"
### BEGIN SOLUTION
apart = {
    "calls": ["a", "a"],
    "kept": [1.0, -1.0],
    "clamp": [0.75, 0.75],
    "removed": None,
}
### END SOLUTION
### BEGIN GIVEN
# apart = {
#     "calls": ...,  # such as ["b", "a"]
#     "kept": ...,  # such as [1.0, 2.0]
#     "clamp": ...,  # such as [1.0]
#     "removed": ...,  # such as [1.0]
# }
### END GIVEN

# %% check="hooks-apart" points=1
"""Each pair is run with its input; every right item earns its share."""
with check("hooks-apart") as test:

    def calls_1(names, on_weights=False):
        layers = {"a": nn.Linear(1, 1), "b": nn.Linear(1, 1)}
        fired = []
        for layer in layers.values():
            if on_weights:
                layer.weight.register_hook(lambda grad: fired.append("weight"))
            else:
                layer.register_full_backward_hook(lambda *args: fired.append("layer"))
        x = torch.ones(1, requires_grad=True)
        for name in names:
            x = layers[name](x)
        x.backward()
        return len(fired)

    def calls_2(names):
        return calls_1(names, on_weights=True)

    def kept_1(numbers, keep=lambda output: output.detach()):
        double = nn.Linear(1, 1, bias=False)
        nn.init.constant_(double.weight, 2.0)
        kept = []
        double.register_forward_hook(lambda module, args, output: kept.append(keep(output)))
        nn.Sequential(double, nn.ReLU(inplace=True))(torch.tensor(numbers).float().view(-1, 1))
        return kept[0]

    def kept_2(numbers):
        return kept_1(numbers, keep=lambda output: output.detach().clone())

    def clamp_1(gradients):
        w = nn.Parameter(torch.tensor(0.0))
        w.register_hook(lambda grad: grad.clamp(-1, 1))
        for gradient in gradients:
            (gradient * w).backward()
        return w.grad

    def clamp_2(gradients):
        def clamp(w):
            w.grad.clamp_(-1, 1)

        w = nn.Parameter(torch.tensor(0.0))
        w.register_post_accumulate_grad_hook(clamp)
        for gradient in gradients:
            (gradient * w).backward()
        return w.grad

    def removed_1(numbers, remove=True):
        double = nn.Linear(1, 1, bias=False)
        nn.init.constant_(double.weight, 2.0)
        handle = double.register_full_backward_hook(lambda module, grad_in, grad_out: (grad_in[0] * 3,))
        x = torch.tensor(numbers).float().view(-1, 1).requires_grad_()
        y = double(x)
        if remove:
            handle.remove()
        y.square().sum().backward()
        return x.grad

    def removed_2(numbers):
        return removed_1(numbers, remove=False)

    def of_names(given):
        """What is wrong with a list of names, or ""."""
        known = isinstance(given, (list, tuple)) and all(type(one) is str and one in ("a", "b") for one in given)
        return "" if known and 1 <= len(given) <= 10 else 'Write a list with 1 to 10 of the names "a" and "b".'

    def of_numbers(given):
        """What is wrong with a list of numbers, or ""."""
        if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= 20:
            return "Write a list with 1 to 20 numbers."
        if not all(type(one) in (int, float) and abs(one) <= 1000 for one in given):
            return "Write Python numbers between -1000 and 1000 into the list."
        return ""

    def in_range(gradients):
        """Whether neither a gradient nor a sum of the first ones is to be clamped."""
        sums = [sum(gradients[: n + 1]) for n in range(len(gradients))]
        return all(abs(one) <= 1 for one in [*gradients, *sums])

    test("both functions of each pair are run with your input")
    test.points = observe_value(apart).separates(
        {
            "calls": separation(
                calls_1,
                calls_2,
                contract=of_names,
                same="Both functions return {result}. No layer is called twice here, so a layer's hook runs as often "
                "as its weight's hook.",
                exists="There is an input that separates them: a layer's hook runs for each call of the layer, its "
                "weight's hook once for the whole backward.",
            ),
            "kept": separation(
                kept_1,
                kept_2,
                (
                    lambda given: min(given) >= 0,
                    "The ReLU writes into the memory of the detached tensor, but no number is negative here, so it "
                    "writes what was there before.",
                ),
                contract=of_numbers,
                same="Both functions return {result}. The negative numbers here are too small to make a difference.",
                exists="There is an input that separates them: a detached tensor shares its memory with the output, "
                "and the next layer works in place.",
            ),
            "clamp": separation(
                clamp_1,
                clamp_2,
                (
                    lambda given: len(given) == 1,
                    "There is only one backward here, so .grad is the gradient itself, and both hooks clamp the same "
                    "number.",
                ),
                (in_range, "No gradient and no sum of gradients leaves the range here, so nothing is clamped."),
                contract=of_numbers,
                same="Both functions return {result}. One clamps each gradient before it is added, and the other the "
                "sum so far. Here you can't tell these from the result.",
                exists="There is an input that separates them: a tensor hook gets the gradient of one backward, and a "
                "post-accumulate hook finds the sum over all of them.",
            ),
            "removed": separation(
                removed_1,
                removed_2,
                contract=of_numbers,
                no_input="A full backward hook puts a node into the graph in forward, and the node keeps the hooks "
                "that the module had then. Here the hook is removed after forward. So no input separates them.",
            ),
        },
        points=1,
    )
test.points
