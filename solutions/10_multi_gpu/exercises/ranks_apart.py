# %% [markdown]
# ### Exercise 10.1 · Two ranks against one process
#
# separate · warm-up · 10 min · 1 point
#
# The first function of each pair works on two ranks, the second one in a single process. For many inputs they return
# the same result. Find an input for which they don't, or write `None` if there is none.
#
# ```python
# def gradient_1(first, second):  # the rows of rank 0 and those of rank 1, two lists of numbers
#     def on_rank(rank, world):
#         ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
#         rows = (first, second)[rank]
#         ddp(torch.tensor(rows)[:, None]).mean().backward()
#         return ddp.module.weight.grad
#
#     return run_on_ranks(on_rank)[0]  # of rank 0
#
# def gradient_2(first, second):
#     model = nn.Linear(1, 1, bias=False)
#     model(torch.tensor(first + second)[:, None]).mean().backward()
#     return model.weight.grad
#
# def accuracy_1(right):  # for each sample of the test set, 1 if the prediction is right, otherwise 0
#     shares = [DistributedSampler(right, 2, rank, shuffle=False) for rank in range(2)]
#     both = [right[i] for share in shares for i in share]
#     return sum(both) / len(both)
#
# def accuracy_2(right):
#     return sum(right) / len(right)
#
# def weights_1(first, second):  # the weight that each rank's model has before it is wrapped
#     def on_rank(rank, world):
#         model = nn.Linear(1, 1, bias=False)
#         nn.init.constant_(model.weight, (first, second)[rank])
#         return DistributedDataParallel(model).module.weight.item()
#
#     return run_on_ranks(on_rank)  # of both ranks
#
# def weights_2(first, second):
#     return [first, first]
# ```
#
# **Contract**
#
# - `inputs` is a dict with the keys "gradient", "accuracy" and "weights". The values of "gradient" and "weights" are
#   tuples of two arguments, that of "accuracy" is a list of zeros and ones.
# - The lists have 1 to 12 entries. Numbers are between -100 and 100.
# - Write `None` for a pair that no input separates.
# - Two results are different if they differ by more than float32's rounding. Each pair is worth a third of the point.
#
# <details><summary>Hint 1</summary>
#
# Who divides by what? For each pair, count the samples behind every number that is averaged.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# DDP averages over ranks, however many rows each of them has. A DistributedSampler gives all ranks the same number of
# samples. Which sample counts twice? And what does DDP do with the weights when you build it?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the gradient, give the ranks different numbers of rows, with different means. For the accuracy, let the number of
# samples be odd, and ask whether the repeated sample pulls the mean up or down. One of the three pairs can't be
# separated.
#
# </details>

# %% answer="ranks-apart"
### BEGIN SOLUTION
inputs = {
    "gradient": ([1.0], [2.0, 3.0]),
    "accuracy": [0, 1, 1],
    "weights": None,
}
### END SOLUTION
### BEGIN GIVEN
# inputs = {
#     "gradient": ...,  # such as ([1.0], [2.0])
#     "accuracy": ...,  # such as [1, 0]
#     "weights": ...,  # such as (0.5, 0.5)
# }
### END GIVEN

# %% check="ranks-apart" points=1
"""Each pair is run with its input, on two ranks and in one process; every right item earns its share."""
with check("ranks-apart") as test:

    def gradient_1(first, second):
        def on_rank(rank, world):
            ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
            rows = (first, second)[rank]
            ddp(torch.tensor(rows)[:, None]).mean().backward()
            return ddp.module.weight.grad

        return run_on_ranks(on_rank)[0]

    def gradient_2(first, second):
        model = nn.Linear(1, 1, bias=False)
        model(torch.tensor(first + second)[:, None]).mean().backward()
        return model.weight.grad

    def accuracy_1(right):
        shares = [DistributedSampler(right, 2, rank, shuffle=False) for rank in range(2)]
        both = [right[i] for share in shares for i in share]
        return sum(both) / len(both)

    def accuracy_2(right):
        return sum(right) / len(right)

    def weights_1(first, second):
        def on_rank(rank, world):
            model = nn.Linear(1, 1, bias=False)
            nn.init.constant_(model.weight, (first, second)[rank])
            return DistributedDataParallel(model).module.weight.item()

        return run_on_ranks(on_rank)

    def weights_2(first, second):
        return [first, first]

    def are_numbers(given):
        return all(type(one) in (int, float) and abs(one) <= 100 for one in given)

    def of_gradient(given):
        """What is wrong with the rows of two ranks, or ""."""
        if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(rows, list) for rows in given):
            return "Write a tuple of two lists, the rows of rank 0 and those of rank 1."
        if not all(1 <= len(rows) <= 12 and are_numbers(rows) for rows in given):
            return "Each rank has 1 to 12 rows, numbers between -100 and 100."
        return ""

    def of_accuracy(given):
        if not isinstance(given, list) or not 1 <= len(given) <= 12 or any(one not in (0, 1) for one in given):
            return "Write a list of 1 to 12 zeros and ones."
        return ""

    def of_weights(given):
        if not isinstance(given, tuple) or len(given) != 2 or not are_numbers(given):
            return "Write a tuple of two numbers between -100 and 100, the weights of rank 0 and rank 1."
        return ""

    def in_floats(given):
        """The rows of both ranks as floats."""
        return [[float(one) for one in rows] for rows in given]

    test("both functions of each pair are run with your input")
    test.points = observe_value(inputs).separates(
        {
            "gradient": separation(
                lambda given: gradient_1(*in_floats(given)),
                lambda given: gradient_2(*in_floats(given)),
                (
                    lambda given: len(given[0]) == len(given[1]),
                    "Both ranks have the same number of rows here, so the mean of their two gradients is the gradient "
                    "of all rows.",
                ),
                contract=of_gradient,
                same="Both gradients are {result}. The ranks have different numbers of rows, but their gradients are "
                "equal, so it doesn't matter how they are weighted.",
                exists="There is an input that separates the gradients: DDP averages over the ranks, however many rows "
                "each of them has.",
            ),
            "accuracy": separation(
                accuracy_1,
                accuracy_2,
                (
                    lambda given: len(given) % 2 == 0,
                    "Two ranks share this number of samples evenly, so the sampler repeats none.",
                ),
                contract=of_accuracy,
                same="Both accuracies are {result}. The sampler repeats the first sample, which changes the mean only "
                "if it isn't the mean already.",
                exists="There is an input that separates the accuracies: the sampler gives both ranks the same number "
                "of samples, and repeats one if it must.",
            ),
            "weights": separation(
                lambda given: weights_1(*given),
                lambda given: weights_2(*map(float, given)),
                contract=of_weights,
                no_input="When DDP is built, it broadcasts the parameters of rank 0. So both ranks have the first "
                "weight, whatever the second one was.",
            ),
        },
        points=1,
    )
test.points
