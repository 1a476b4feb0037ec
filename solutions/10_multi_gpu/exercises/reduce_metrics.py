# %% [markdown]
# ### Exercise 10.3 · A hang, and numbers that changed places
#
# debug · solid · 15 min · 1 point
#
# A training script averages its metrics over the ranks. It has two symptoms:
#
# 1. Rank 0 logs one extra metric ("epoch_time"). The job hangs, and the traceback ends in all_reduce.
# 2. On rank 1 `acc` was inserted before `loss`. Nothing hangs, but both curves are nonsense.
#
# **Contract**
#
# - The function is called on every rank and returns the same dict on all of them, sorted by name. For each name that
#   occurs on *any* rank, the dict has the mean over the ranks that have this name.
# - The order of insertion does not matter, and neither does the hash seed of a rank (ranks that are started separately
#   iterate over equal sets in different orders). Some ranks may have an empty dict; if all are empty, the result is {}.
# - Compute in float64: if a value is 16777217.0 on all ranks, so is the result. nan and inf propagate. You may assume
#   that the sums fit into float64 and that no metric is inf on one rank and -inf on another.
# - The values of the result are plain floats. The argument is not changed.
#
# <details><summary>Hint 1</summary>
#
# How are the collectives of two ranks matched: by name, or by the order of the calls?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Before you add up the first value, all ranks must agree on the names and on their order. Which collective sends
# objects that are not tensors? And which order is the same on all ranks, however their dicts were filled?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# First agree on the names: gather the keys, or the whole dicts, as objects. Sort the names, then sum values and counts
# in float64, and divide by the number of ranks that have the name.
#
# </details>


# %% answer="reduce-metrics"
def reduce_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """For every name that some rank has, the mean over the ranks that have it; sorted by name."""
    ### BEGIN SOLUTION
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, dict(metrics))
    names = sorted({name for one in everybody for name in one})
    found = {name: [float(one[name]) for one in everybody if name in one] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    #
    # out = {}
    # for name, value in metrics.items():
    #     t = torch.tensor(value)
    #     dist.all_reduce(t)
    #     out[name] = (t / dist.get_world_size()).item()
    # return out
    ### END GIVEN


# %% helpers="reduce-metrics"
def plain(value):
    """A number as a float, anything else by its type's name."""
    is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
    return float(value) if is_number else type(value).__name__


def mean_of(values):
    """Their mean in float64."""
    return sum(values) / len(values)


def like(got, expected):
    """Whether the numbers agree, nan with nan."""
    return (
        isinstance(got, dict)
        and set(got) == set(expected)
        and all(
            isinstance(got[name], float)
            and (math.isclose(got[name], value, rel_tol=1e-12) or (math.isnan(value) and math.isnan(got[name])))
            for name, value in expected.items()
        )
    )


def reduced_once(reduce, metrics):
    """Reduce on this rank: what it got, of which types, and whether the argument is unchanged."""
    given = dict(metrics)
    got = reduce(given)
    facts = {"got": None, "kinds": None, "unchanged": repr(given) == repr(metrics)}
    if isinstance(got, dict):
        kinds = sorted({type(value).__name__ for value in got.values()})
        facts |= {"got": {name: plain(value) for name, value in got.items()}, "kinds": kinds}
    return facts


def judge(seen, case, given, *more):
    """Judge what all ranks got for these dicts; `more` are mistakes about the means that come before the others.

    case: where in the facts they are.
    """
    facts = [one[case] for one in seen.value]
    got = [one["got"] for one in facts]
    names = sorted({name for one in given for name in one})
    values = {name: [one[name] for one in given if name in one] for name in names}
    truth = {name: mean_of(found) for name, found in values.items()}
    right = [like(one, truth) for one in got]
    are_dicts = [isinstance(one, dict) for one in got]
    seen.that(all(are_dicts) or any(right), "Return a dict on every rank.", stage="type")
    seen.that(
        all(right) or not any(right),
        "Only some ranks return the result, but all ranks need it.",
        mistake(
            "A rank left out a metric that only another rank has. The result must be the same on all ranks.",
            when=lambda seen: all(set(own) <= set(one) for one, own in zip(got, given, strict=True)) and any(given),
        ),
    )

    def all_like(wrong):
        """Whether every rank got this."""
        return all(like(one, wrong) for one in got)

    places = [[one[name] for one in given for name in list(one)[k : k + 1]] for k in range(max(map(len, given)))]
    mixed = all(
        like(one, {name: mean_of(places[k]) for k, name in enumerate(own)}) for one, own in zip(got, given, strict=True)
    )
    rounded = {name: torch.tensor(found, dtype=torch.float32).mean().item() for name, found in values.items()}
    missing = set(truth) - {name for one in got for name in one}
    seen.that(
        all(right),
        "The result is not the mean over the ranks that have the metric.",
        *more,
        mistake(
            "You added values of different metrics, because collectives are matched by order, not by name. "
            "Sort the names.",
            when=lambda seen: mixed,
        ),
        mistake(
            "You summed the values instead of averaging them.",
            when=lambda seen: all_like({name: sum(found) for name, found in values.items()}),
        ),
        mistake(
            "If only some ranks have a metric, divide by their number, not by the world size.",
            when=lambda seen: all_like({name: sum(found) / len(given) for name, found in values.items()}),
        ),
        mistake("You dropped metrics that not every rank has.", when=lambda seen: bool(missing)),
        mistake(
            "float32 cannot hold the value: use float64 (torch.tensor(x) is float32).",
            when=lambda seen: all_like(rounded),
        ),
    )


known = [
    mistake(
        "The ranks made different numbers of collective calls, or passed tensors of different sizes to one "
        "collective, so one rank waits for something that never comes. Agree on the names first.",
        raises="RanksHang",
    ),
    mistake(
        "The ranks passed tensors of different sizes to one collective. Agree on the names first.",
        raises="RankDied|[Ss]ize",
    ),
    mistake("A rank may have a name that another rank doesn't have.", raises="KeyError"),
]


# %% check="reduce-metrics" points=0.5
"""All ranks get the same means, whatever names each has, in any order."""
with check("reduce-metrics") as test:

    def reduced(reduce, cases):
        """Reduce on two or three ranks, each case a list of one dict for each rank: what each rank got."""

        def on_rank(rank, world):
            return [reduced_once(reduce, case[rank]) for case in cases]

        return run_on_ranks(on_rank, world=len(cases[0]), stall=1.0 + 0.6 * len(cases))

    test("the same names on both ranks (and, in the same run, in another order on rank 1)")
    alike = [{"acc": 0.5, "loss": 3.0}, {"acc": 0.75, "loss": 2.0}]
    given = [{"loss": 3.0, "acc": 0.5}, {"acc": 0.75, "loss": 2.0}]
    seen = observe_scenario(reduced, reduce_metrics, [alike, given]).expecting(*known)
    judge(seen, 0, alike)

    test("on rank 1 acc was inserted before loss")
    judge(seen, 1, given)

    test("an extra metric on rank 0")
    given = [{"acc": 0.5, "epoch_time": 12.0, "loss": 3.0}, {"acc": 0.75, "loss": 2.0}]
    seen = observe_scenario(reduced, reduce_metrics, [given]).expecting(*known)
    judge(seen, 0, given)


# %% check="reduce-metrics" points=0.5
"""Sorted floats; zeros, nan, exact counts; many names, more ranks, none at all."""
with check("reduce-metrics") as test:

    def reduced(reduce, cases):
        """Reduce, each case a list of one dict for each rank: what each rank got, and gave to all_reduce on the way."""

        def on_rank(rank, world):
            facts, handed = [], []
            all_reduce = dist.all_reduce

            def noting(tensor, *args, **kwargs):
                handed.append(tensor.tolist())
                return all_reduce(tensor, *args, **kwargs)

            def one_order_for_all(*args, send=dist.broadcast_object_list, **kwargs):
                handed.append("names from one rank")
                return send(*args, **kwargs)

            dist.all_reduce, dist.broadcast_object_list = noting, one_order_for_all
            for case in cases:
                handed.clear()
                facts.append(reduced_once(reduce, case[rank]) | {"handed": list(handed)})
            return facts

        return run_on_ranks(on_rank, world=len(cases[0]), stall=1.0 + 0.6 * len(cases))

    def judge_fully(seen, case, given, *more):
        """Judge what all ranks got for these dicts, how it is sorted, its types, and that the argument is unchanged."""
        judge(seen, case, given, *more)
        facts, names = [one[case] for one in seen.value], sorted({name for one in given for name in one})
        ordered = all(list(one["got"]) == names and set(one["kinds"]) <= {"float"} for one in facts)
        seen.that(ordered, "The result must be sorted by name, as plain floats.", stage="type")
        seen.that(all(one["unchanged"] for one in facts), "Your code changed the argument.", stage="arguments")

    test("a metric that is 0.0 on one rank (and, in the same run, forty metrics)")
    many = {f"layer {k}": 0.37 * k + 1 for k in range(40)}
    turned = [many, {name: -2 * many[name] for name in sorted(many, key=lambda name: -many[name] % 2.9)}]
    with_other_hashes = [{name.replace("layer", "block"): value for name, value in one.items()} for one in turned]
    given = [{"acc": 0.0, "loss": 1.5}, {"acc": 0.5, "loss": 0.25}]
    seen = observe_scenario(reduced, reduce_metrics, [given, turned, with_other_hashes]).expecting(*known)
    zero = mistake(
        "0.0 is a value like any other: ask whether the name is there (name in one), not whether its value is true.",
        when=lambda seen: all(one[0]["got"] == {"acc": 0.5, "loss": 0.875} for one in seen.value),
    )
    judge_fully(seen, 0, given, zero)

    test("forty metrics, on each rank inserted in another order")
    means = {name: (value - 2 * value) / 2 for name, value in many.items()}

    def permuted(got):
        """Whether the sum over all names is right, and some of them are far off."""
        far = any(abs(got[name] - mean) > 1e-3 for name, mean in means.items())
        return far and math.isclose(sum(got.values()), sum(means.values()), rel_tol=1e-6)

    unsorted = mistake(
        "You added values of different metrics, because the ranks went through the names in different orders. "
        "Even the order of a set depends on how it was filled. Sort the names.",
        when=lambda seen: all(permuted(one[1]["got"]) for one in seen.value),
    )
    judge_fully(seen, 1, turned, unsorted)
    handed = [[case["handed"] for case in one[1:]] for one in seen.value]
    seen.that(
        all(first == other or "names from one rank" in first for first, other in handed),
        "These ranks agree by chance. You go through the names in the order of a set, which depends on their "
        "hashes, and each Python process has its own hash seed (PYTHONHASHSEED). Sort the names.",
        stage="rule",
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("three ranks, different metrics, the same number of them (and six more cases in the same run)")
    different = [{"a": 1.0, "loss": 2.0}, {"b": 4.0, "loss": 8.0}, {"c": 16.0, "loss": 3.5}]
    three = [{"loss": 1.0, "acc": 0.5}, {"acc": 0.125, "lr": 0.01}, {"lr": 0.04, "loss": 4.5, "acc": 0.25}]
    on_one = [{}, {"loss": 2.5, "acc": 0.25}, {}]
    nowhere = [{}, {}, {}]
    large = 16777217.0
    precise = [{"tokens": large, "third": 1 / 3}, {"tokens": large, "third": 1 / 7}, {"third": 1 / 9, "tokens": large}]
    low, high = float("-inf"), float("inf")
    bounds = [{"x": float("nan"), "y": 1.0, "z": high}, {"x": 1.0, "y": low, "z": 2.0}, {"x": 3.0, "y": 0.5, "z": 4.0}]
    alone = [{"steps": 7.0, "zeta": -3.0}, {"steps": 4.0, "alpha": 0.0}, {"steps": 1.5}]
    cases = [different, three, on_one, nowhere, precise, bounds, alone]
    seen = observe_scenario(reduced, reduce_metrics, cases).expecting(*known)
    judge_fully(seen, 0, different)
    judge_fully(seen, 1, three)

    test.hidden("empty on two ranks; empty on all")
    judge_fully(seen, 2, on_one)
    judge_fully(seen, 3, nowhere)

    test.hidden("float64, nan and inf; metrics that only one rank has")
    judge_fully(seen, 4, precise)
    judge_fully(seen, 5, bounds)
    judge_fully(seen, 6, alone)
    ### END HIDDEN TESTS
