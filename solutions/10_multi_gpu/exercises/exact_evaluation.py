# %% [markdown]
# ### Exercise 10.2 · The accuracy that depends on the number of GPUs
#
# fix · solid · 15 min · 2 points
#
# For the same model and the same 11 samples, the accuracy is 7/11 on one device, 7/12 on two, and something else on
# three. Fix the evaluation so that it is exact for any number of ranks.
#
# **Contract**
#
# - The function is called on every rank of the default process group. Return on every rank the accuracy over the whole
#   dataset as a float. Each sample counts exactly once, even if there are fewer samples than ranks.
# - `predict` maps a batch (B, ...) of at most `batch_size` samples to B labels. The dataset's labels are ints.
# - The counts are exact, however long the dataset is. float32 represents all integers only up to 2**24, so count in
#   integers or float64, and add the ranks' counts in int64 or float64.
# - The work is shared: no rank predicts more than ⌈n / world⌉ samples.
# - An empty dataset raises ValueError on every rank.
#
# **Rule.** Every rank takes part in every collective, even a rank without samples.
#
# <details><summary>Hint 1</summary>
#
# Which samples does DistributedSampler repeat? If the shares differ in size, is the mean of two accuracies the accuracy
# of both together?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You can't average the accuracies of unequal shares, but you can add counts. And choose the indices yourself. Which
# `range` gives rank r its share, with no sample twice and none left out, even if there are fewer samples than ranks?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Give rank r every world-th sample, starting at r. Count the correct predictions locally, sum the counts over the ranks
# as integers, and divide by the number of all samples at the end.
#
# </details>


# %% answer="exact-evaluation"
def distributed_accuracy(
    predict: Callable[[Tensor], Tensor],
    dataset: Dataset,
    batch_size: int,
) -> float:
    """The accuracy over the whole dataset of (x, label) pairs, the same on every rank."""
    ### BEGIN SOLUTION
    n, rank, world = len(dataset), dist.get_rank(), dist.get_world_size()
    if n == 0:
        raise ValueError("the dataset is empty: there is no accuracy")
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in DataLoader(Subset(dataset, range(rank, n, world)), batch_size=batch_size):
        correct += (predict(x) == y).sum()
    dist.all_reduce(correct)
    return correct.item() / n
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    #
    # sampler = DistributedSampler(dataset, shuffle=False)
    # correct, seen = 0, 0
    # for x, y in DataLoader(dataset, batch_size=batch_size, sampler=sampler):
    #     correct += (predict(x) == y).sum()
    #     seen += len(y)
    # acc = correct / seen
    # dist.all_reduce(acc)
    # return (acc / dist.get_world_size()).item()
    ### END GIVEN


# %% helpers="exact-evaluation"
class Samples(Dataset):
    """n pairs of a vector and a label."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return torch.tensor([float(i), -1.0]), i % 3


def plain(got):
    """A number as a float; None stays None, anything else gives its type's name."""
    is_number = isinstance(got, (int, float)) or (isinstance(got, Tensor) and got.numel() == 1)
    return float(got) if is_number else None if got is None else type(got).__name__


def is_right(i):
    """Whether sample i is predicted correctly."""
    return not (i == 0 or i % 4 == 3 or i > 8)


def accuracy_of(indices):
    """The accuracy over these samples."""
    return sum(map(is_right, indices)) / max(1, len(indices))


def evaluated_once(accuracy, n, batch_size):
    """Evaluate on this rank: what it got, how many samples it predicted, at most how many at a time."""
    predicted = []

    def predict(x):
        """The labels of these samples where `is_right` says so, wrong ones elsewhere."""
        numbers = x[:, 0].long()
        predicted.append(len(numbers))
        wrong = (numbers == 0) | (numbers % 4 == 3) | (numbers > 8)
        return (numbers + wrong) % 3

    try:
        got = accuracy(predict, Samples(n), batch_size)
        refused = False
    except ValueError:
        if n:
            raise
        got, refused = None, True
    facts = {"got": plain(got), "is float": isinstance(got, float), "refused": refused}
    return facts | {"predicted": sum(predicted), "largest": max(predicted, default=0)}


def judge(seen, case, n, world):
    """Judge the accuracy over n samples on all ranks; case: where in the facts it is."""
    got = [facts[case]["got"] for facts in seen.value]
    truth = accuracy_of(range(n))
    near = [isinstance(value, float) and math.isclose(value, truth, rel_tol=1e-6) for value in got]
    padded = [i % n for i in range(math.ceil(n / world) * world)]
    shares = [accuracy_of(range(rank, n, world)) for rank in range(world)]
    blocks = [accuracy_of(part.tolist()) for part in torch.arange(n).tensor_split(world)]

    def all_near(wrong):
        """Whether every rank got this."""
        return all(isinstance(v, float) and math.isclose(v, wrong, rel_tol=1e-6) for v in got)

    none = [value is None for value in got]
    seen.that(
        all(near),
        "The result is not the accuracy over the whole dataset.",
        mistake(
            "Only one rank has the right result, but all ranks need it.",
            when=lambda seen: any(near) or (any(none) and not all(none)),
        ),
        mistake(
            "Your code counts repeated samples twice, because DistributedSampler pads to equal shares.",
            when=lambda seen: all_near(accuracy_of(padded)),
        ),
        mistake(
            "Your code leaves out samples (by drop_last or integer division).",
            when=lambda seen: all_near(accuracy_of(range(n // world * world))),
        ),
        mistake(
            "You averaged the ranks' accuracies, but their shares have different sizes.",
            when=lambda seen: all_near(sum(shares) / world) or all_near(sum(blocks) / world),
        ),
        mistake("The function returned nothing. It must return the accuracy.", when=lambda seen: all(none)),
    )


known = [
    mistake(
        "One rank waits in a collective that the other rank never reaches. Every rank must make the same calls, "
        "even a rank without samples.",
        raises="RanksHang",
    ),
]


# %% check="exact-evaluation" points=1
"""Each sample counts once, on every rank, and no rank does all the work."""
with check("exact-evaluation") as test:

    def evaluated(accuracy, world, cases):
        """Evaluate on so many ranks, for each (n, batch size): what each rank got, how many samples it predicted."""

        def on_rank(rank, world):
            return [evaluated_once(accuracy, n, batch_size) for n, batch_size in cases]

        return run_on_ranks(on_rank, world=world, stall=1.0 + 0.6 * len(cases))

    test("11 samples on 2 ranks: the accuracy that one process would find")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(11, 4)]).expecting(*known)
    judge(seen, 0, 11, 2)
    work = [facts[0]["predicted"] for facts in seen.value]
    seen.that(min(work) < 11, "Every rank predicted the whole dataset, so the work is not shared.", stage="rule")


# %% check="exact-evaluation" points=1
"""Even shares, a float, a rank without samples, no sample at all."""
with check("exact-evaluation") as test:

    def evaluated(accuracy, world, cases):
        """Evaluate on so many ranks, for each (n, batch size): what each rank got, how many samples it predicted."""

        def on_rank(rank, world):
            facts, sent, counted = [], [], []

            def watch(name, handed):
                """Let a collective note the dtype and the numbers of tensors that it is handed for a sum or a list."""
                collective = getattr(dist, name)
                signature = inspect.signature(collective)

                def noting(*args, **kwargs):
                    given = signature.bind(*args, **kwargs).arguments
                    if given.get("op", dist.ReduceOp.SUM) == dist.ReduceOp.SUM:
                        for one in torch.utils._pytree.tree_leaves(given[handed]):
                            if isinstance(one, Tensor):
                                sent.append([str(one.dtype), one.double().flatten().tolist()])
                    return collective(*args, **kwargs)

                setattr(dist, name, noting)

            for name in ("all_reduce", "reduce", "all_gather", "gather"):
                watch(name, "tensor")
            for name in ("all_gather_object", "gather_object"):
                watch(name, "obj")
            for name in ("all_gather_into_tensor", "all_gather_single"):  # the second since torch 2.13
                if hasattr(dist, name):
                    watch(name, "input_tensor")

            def note(operation, args, out):
                """Note where a sum of a few numbers goes on in a floating dtype other than float64."""
                adds = operation.overloadpacket.__name__ in ("add", "add_") and isinstance(out, Tensor)
                if adds and out.is_floating_point() and out.dtype != torch.float64 and out.numel() < 10:
                    counted.append([str(out.dtype), out.double().flatten().tolist()])

            for n, batch_size in cases:
                sent.clear()
                with noting_operations(note, frozenset(["c10d"])) if n > 40 else contextlib.nullcontext():
                    facts.append(evaluated_once(accuracy, n, batch_size))
                facts[-1] |= {"sent": list(sent), "counted": counted}
            return facts

        return run_on_ranks(on_rank, world=world, stall=1.0 + 0.6 * len(cases))

    def judge_fully(seen, case, n, batch_size, world):
        """Judge the accuracy of one case on all ranks, and how they shared the work."""
        judge(seen, case, n, world)
        seen.that(all(facts[case]["is float"] for facts in seen.value), "Return a Python float.", stage="type")
        work = [facts[case]["predicted"] for facts in seen.value]
        seen.that(
            max(work) <= math.ceil(n / world),
            "A rank predicted more than its share of the samples, so the work is not shared evenly.",
            mistake(
                "Every rank predicted the whole dataset, so the work is not shared.", when=lambda seen: min(work) >= n
            ),
            stage="rule",
        )
        seen.that(sum(work) >= n, "Not every sample was predicted.", stage="rule")
        largest = max(facts[case]["largest"] for facts in seen.value)
        seen.that(largest <= batch_size, "A batch was larger than batch_size.", stage="rule")

    test("12 samples on 2 ranks: the work is shared")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(12, 5)]).expecting(*known)
    judge_fully(seen, 0, 12, 5, 2)

    ### BEGIN HIDDEN TESTS
    test.hidden("an empty dataset raises ValueError on every rank; then batches of 1, and larger than the share")
    seen = observe_scenario(evaluated, distributed_accuracy, 2, [(0, 4), (7, 1), (7, 64)]).expecting(
        mistake("An empty dataset must raise ValueError on every rank.", raises="ZeroDivisionError"), *known
    )
    refused = [facts[0]["refused"] for facts in seen.value]
    seen.that(all(refused), "An empty dataset must raise ValueError on every rank.", stage="raised")

    test.hidden("batch sizes of 1 and larger than the share")
    judge_fully(seen, 1, 7, 1, 2)
    judge_fully(seen, 2, 7, 64, 2)

    test.hidden("three ranks (and, in the same run, one sample for all of them, and 41 samples)")
    seen = observe_scenario(evaluated, distributed_accuracy, 3, [(10, 3), (11, 2), (1, 4), (41, 16)]).expecting(
        mistake(
            "A rank without samples must not divide by zero. It still takes part, with a count of 0.",
            raises="ZeroDivisionError|StopIteration",
        ),
        mistake(
            "A rank without samples must not raise an error; it takes part with a count of 0. Only an empty "
            "dataset raises.",
            raises="ValueError",
        ),
        *known,
    )
    judge_fully(seen, 0, 10, 3, 3)
    judge_fully(seen, 1, 11, 2, 3)

    test.hidden("one sample on three ranks: two have none")
    judge_fully(seen, 2, 1, 4, 3)

    test.hidden("the ranks' counts are added exactly")
    judge_fully(seen, 3, 41, 16, 3)

    def is_count(dtype, numbers):
        """Whether these numbers, in a dtype with too few of them, are counts: labels and flags end at 2, and come in
        longer tensors."""
        exact = dtype in ("torch.int64", "torch.float64")
        return not exact and len(numbers) < 10 and any(one > 2 or one % 1 for one in numbers)

    seen.that(
        not any(is_count(*one) for facts in seen.value for one in facts[3]["sent"]),
        "You add the ranks' counts in a dtype that can't represent them. float32 represents all integers only up "
        "to 2**24, and int32 ends before 2**31. A dataset may have more samples. Pass int64 or float64 "
        "to the collective.",
        stage="dtype",
    )
    seen.that(
        not any(is_count(*one) for facts in seen.value for one in facts[3]["counted"]),
        "You count the right samples in a dtype that can't represent all counts. float32 represents all integers only "
        "up to 2**24: from there on, adding 1 changes nothing. Count in integers or float64, also within a rank.",
        stage="dtype",
    )
    every = [number for facts in seen.value for one in facts for _, numbers in one["sent"] for number in numbers]
    added = [number for number in every if math.isfinite(number)]
    rounded = [number for number in added if 0 < abs(number - round(number)) < 1e-4]
    seen.that(
        not rounded,
        "You add counts that are not integers, because you compute them from a float32 mean times a size. Count "
        "the right samples as integers.",
        stage="dtype",
    )
    ### END HIDDEN TESTS
