# %% [markdown]
# ### Exercise 11.6 · Loops that nearly agree
#
# separate · warm-up · 12 min · 2 points
#
# Here are four pairs of functions. The two functions of a pair often return the same result. Find an input for which
# they don't, or write `None` if there is none.
#
# ```python
# def mean_1(losses, batch_size):  # the loss of each sample, and an int
#     starts = range(0, len(losses), batch_size)
#     batches = [losses[start : start + batch_size] for start in starts]
#     return sum(sum(batch) / len(batch) for batch in batches) / len(batches)
#
# def mean_2(losses, batch_size):
#     return sum(losses) / len(losses)
#
# def unused_1(gradients, set_to_none=True):  # None: the loss of this step doesn't use w
#     w = nn.Parameter(torch.tensor(0.0))
#     optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
#     for gradient in gradients:
#         optimizer.zero_grad(set_to_none)
#         if gradient is not None:
#             (gradient * w).backward()
#         optimizer.step()
#     return w.detach()
#
# def unused_2(gradients):
#     return unused_1(gradients, set_to_none=False)
#
# def clip_1(gradients, max_norm=1.0):
#     w = nn.Parameter(torch.tensor(0.0))
#     optimizer = torch.optim.Adam([w], lr=0.1)
#     for gradient in gradients:
#         optimizer.zero_grad()
#         (gradient * w).backward()
#         nn.utils.clip_grad_norm_([w], max_norm)
#         optimizer.step()
#     return w.detach()
#
# def clip_2(gradients):
#     return clip_1(gradients, max_norm=math.inf)
#
# def place_1(gradients):
#     w = nn.Parameter(torch.tensor(0.0))
#     optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
#     for gradient in gradients:
#         optimizer.zero_grad()
#         (gradient * w).backward()
#         optimizer.step()
#     return w.detach()
#
# def place_2(gradients):
#     w = nn.Parameter(torch.tensor(0.0))
#     optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
#     for gradient in gradients:
#         (gradient * w).backward()
#         optimizer.step()
#         optimizer.zero_grad()
#     return w.detach()
# ```
#
# **Contract**
#
# - `inputs` is a dict with the keys "mean", "unused", "clip" and "place". The value of "mean" is a tuple
#   `(losses, batch_size)`. The others are lists of gradients.
# - A list has 1 to 20 entries, Python numbers between -1000 and 1000. In "unused", some of them, but not all, may be
#   `None`. `batch_size` is an int of at least 1.
# - Write `None` for a pair that no input separates.
# - Two results are different if they differ by more than float32's rounding. Each pair is worth half a point.
#
# <details><summary>Hint 1</summary>
#
# For each pair, in which step of the loop does the second function use a different number from the first?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# How much does a sample in the last batch weigh in `mean_1`? What does `optimizer.step()` do with a parameter whose
# gradient is None, and what does momentum do if the gradient is 0? How far does Adam's first step go?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For the mean, the last batch must be short, and its losses different. For "unused", give `w` some momentum before a
# step without it. For "clip", the clipped gradients must not be a multiple of the others, so they need different sizes.
# And in one pair, `.grad` is cleared before each backward in both functions.
#
# </details>

# %% answer="loops-apart"
### BEGIN SOLUTION
inputs = {
    "mean": ([1.0, 1.0, 4.0], 2),
    "unused": [1.0, None],
    "clip": [1.0, 100.0],
    "place": None,
}
### END SOLUTION
### BEGIN GIVEN
# inputs = {
#     "mean": ...,  # such as ([1.0, 2.0], 1)
#     "unused": ...,  # such as [1.0, 2.0]
#     "clip": ...,  # such as [1.0, 2.0]
#     "place": ...,  # such as [1.0, 2.0]
# }
### END GIVEN

# %% check="loops-apart" points=2
"""Each pair is run with its input; every right item earns its share."""
with check("loops-apart") as test:

    def mean_1(losses, batch_size):
        starts = range(0, len(losses), batch_size)
        batches = [losses[start : start + batch_size] for start in starts]
        return sum(sum(batch) / len(batch) for batch in batches) / len(batches)

    def mean_2(losses, batch_size):
        return sum(losses) / len(losses)

    def unused_1(gradients, set_to_none=True):
        w = nn.Parameter(torch.tensor(0.0))
        optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
        for gradient in gradients:
            optimizer.zero_grad(set_to_none)
            if gradient is not None:
                (gradient * w).backward()
            optimizer.step()
        return w.detach()

    def unused_2(gradients):
        return unused_1(gradients, set_to_none=False)

    def clip_1(gradients, max_norm=1.0):
        w = nn.Parameter(torch.tensor(0.0))
        optimizer = torch.optim.Adam([w], lr=0.1)
        for gradient in gradients:
            optimizer.zero_grad()
            (gradient * w).backward()
            nn.utils.clip_grad_norm_([w], max_norm)
            optimizer.step()
        return w.detach()

    def clip_2(gradients):
        return clip_1(gradients, max_norm=math.inf)

    def place_1(gradients):
        return unused_1(gradients)

    def place_2(gradients):
        w = nn.Parameter(torch.tensor(0.0))
        optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
        for gradient in gradients:
            (gradient * w).backward()
            optimizer.step()
            optimizer.zero_grad()
        return w.detach()

    def of_numbers(given):
        """What is wrong with a list of numbers, or ""."""
        if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= 20:
            return "Write a list with 1 to 20 entries."
        if not all(type(one) in (int, float) and abs(one) <= 1000 for one in given):
            return "The entries of the list are Python numbers between -1000 and 1000."
        return ""

    def of_mean(given):
        if not isinstance(given, (list, tuple)) or len(given) != 2 or type(given[1]) is not int or given[1] < 1:
            return "Write a tuple of the losses and of batch_size, an int of at least 1."
        return of_numbers(given[0])

    def of_unused(given):
        if not isinstance(given, (list, tuple)) or all(one is None for one in given):
            return "Write a list with at least one number; the other entries may be None."
        return of_numbers([0.0 if one is None else one for one in given])

    test("both functions of each pair are run with your input")
    test.points = observe_value(inputs).separates(
        {
            "mean": separation(
                lambda given: mean_1(*given),
                lambda given: mean_2(*given),
                (
                    lambda given: len(given[0]) % given[1] == 0,
                    "All batches have the same length here, so every sample has the same weight in both.",
                ),
                (
                    lambda given: len(given[0]) < given[1],
                    "There is only one batch here, so its mean is the mean over the samples.",
                ),
                contract=of_mean,
                same="Both functions return {result}. The last batch is short, but the means of the batches hide it.",
                exists="There is an input that separates the means: what does a sample weigh in a short last batch?",
            ),
            "unused": separation(
                unused_1,
                unused_2,
                (
                    lambda given: None not in given,
                    "Every step uses w here, so backward adds to a fresh gradient, None or 0, in both.",
                ),
                contract=of_unused,
                same="Both functions return {result}. step() skips a parameter whose gradient is None, but if the "
                "gradient is 0 its momentum moves it on. Here it has none at that time, or too little to show.",
                exists="There is an input that separates them: step() skips a parameter whose gradient is None, but "
                "not one whose gradient is 0.",
            ),
            "clip": separation(
                clip_1,
                clip_2,
                (
                    lambda given: max(map(abs, given)) <= 1,
                    "No gradient is above max_norm here, so nothing is clipped.",
                ),
                (
                    lambda given: len(given) == 1,
                    "Adam's first step is about lr, however large the gradient is, clipped or not.",
                ),
                contract=of_numbers,
                same="Both functions return {result}. Clipping scales all gradients that matter here by about the same "
                "factor, and Adam divides it out again.",
                exists="There is an input that separates them: Adam divides by a mean over several gradients, and "
                "clipping changes the large ones only.",
            ),
            "place": separation(
                place_1,
                place_2,
                contract=of_numbers,
                no_input="In both, the gradient is cleared between a step and the next backward, and the first "
                "backward finds none to add to. So no input separates them.",
            ),
        },
        points=2,
    )
test.points
