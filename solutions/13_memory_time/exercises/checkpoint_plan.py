# %% [markdown]
# ### Exercise 13.7 · The cheapest plan that fits
#
# implement · long · 40 min · 2 points
#
# A chain of layers doesn't fit into memory. Which stretches of it should you checkpoint, so that the step fits and as
# little as possible is computed twice? Write the planner. It works on three lists of numbers, with one entry per layer:
# `act[i]` is what layer i keeps for backward, including its input; `edge[i]`, at most `act[i]`, is its input alone; and
# `cost[i]`, above 0, is what its forward pass costs.
#
# **Contract**
#
# - A plan is a list of segments (start, stop), pairs of plain ints (not NumPy's), in order and without overlap. `stop`
#   is excluded, as in `range`. A layer outside all segments keeps `act`. A segment keeps only `edge[start]` and is
#   computed again in backward.
# - Backward goes from the last layer to the first. When it reaches a segment, two things are in memory: the `act` of
#   all layers of the segment (instead of `edge[start]`), and everything that is kept of the layers before it. What was
#   kept of the layers after it is gone. At a layer outside all segments it is the same, with the `act` of this one
#   layer. The largest of these sums must not exceed `budget`; equal is fine.
# - The sum of `cost` over all layers in segments is as small as possible. Any plan with that sum is accepted. The
#   result is `[]` if nothing has to be computed again, as for a chain without layers, and None if no plan fits.
# - Sizes and costs are multiples of 1/4 and at most 100, so their sums are exact. With such numbers, your work must not
#   grow exponentially with the number of layers, so you can't try all plans. The lists are not changed.
#
# <details><summary>Hint 1</summary>
#
# List all plans for four layers. Which part of a plan decides the sum at its first segment, and which part decides the
# sum at its last?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go from front to back. All that matters about the layers before i is a pair: bytes kept so far, and cost so far. Keep
# the pairs for which no other pair is at least as good in both.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# From each such state there are two kinds of step. You can keep the next layer, if what is kept plus its act fits. Or
# you can checkpoint the next few layers, if what is kept plus all their acts fits; afterwards only the first edge is
# kept, and their costs are added. At the end of the chain the smallest cost wins.
#
# </details>


# %% answer="checkpoint-plan"
def plan(
    act: list[float],
    edge: list[float],
    cost: list[float],
    budget: float,
) -> list[tuple[int, int]] | None:
    """The segments (start, stop) to checkpoint, so that a step fits, or None."""
    ### BEGIN SOLUTION
    layers = len(act)
    # for each layer: what may be kept before it, and for that the cheapest (cost, segments)
    best: list[dict[float, tuple[float, list[tuple[int, int]]]]] = [{} for _ in range(layers + 1)]
    best[0][0] = (0, [])

    def offer(place: int, kept: float, spent: float, segments: list[tuple[int, int]]) -> None:
        if kept not in best[place] or spent < best[place][kept][0]:
            best[place][kept] = (spent, segments)

    for i in range(layers):
        cheapest = math.inf
        for kept in sorted(best[i]):
            spent, segments = best[i][kept]
            if spent >= cheapest:  # another pair is at least as good in both
                continue
            cheapest = spent
            if kept + act[i] <= budget:
                offer(i + 1, kept + act[i], spent, segments)
            there, again = kept, spent
            for j in range(i + 1, layers + 1):
                there, again = there + act[j - 1], again + cost[j - 1]
                if there > budget:
                    break
                offer(j, kept + edge[i], again, [*segments, (i, j)])
    if not best[layers]:
        return None
    return min(best[layers].values(), key=lambda one: one[0])[1]
    ### END SOLUTION


# %% helpers="checkpoint-plan"
def form_of(value, layers):
    """What is wrong with the form of a plan, or the empty string."""
    if value is None:
        return ""
    if not isinstance(value, (list, tuple)):
        return "A plan is a list of pairs (start, stop), or None."
    end = 0
    for segment in value:
        whole = isinstance(segment, (list, tuple)) and len(segment) == 2
        if not whole or not all(isinstance(n, int) and not isinstance(n, bool) for n in segment):
            return "A plan is a list of pairs (start, stop) of plain ints, or None."
        if not end <= segment[0] < segment[1] <= layers:
            return (
                f"The segments must be in order, without overlap and within 0 to {layers}, and none may be empty: "
                f"{[tuple(one) for one in value]}."
            )
        end = segment[1]
    return ""


def worst_of(segments, act, edge):
    """The largest sum on the way back."""
    inside = {layer: segment for segment in segments for layer in range(*segment)}
    kept, worst, layer = 0, 0, 0
    while layer < len(act):
        start, stop = inside.get(layer, (layer, layer + 1))
        worst = max(worst, kept + sum(act[start:stop]))
        kept += edge[layer] if layer in inside else act[layer]
        layer = stop
    return worst


def judge_plan(seen, lists, budget, least):
    """The plan has the form of one, fits, and costs no more than is needed; `least` is None if no plan fits."""
    act, edge, cost = lists
    value = seen.value
    wrong = form_of(value, len(act))
    seen.that(not wrong, wrong, stage="type")
    if least is None:
        seen.that(value is None, "No plan fits here, so the answer is None.")
        return
    seen.that(
        value is not None,
        f"There is a plan that fits, with cost {least:g}. You said None.",
        mistake(
            "A plan that needs exactly the budget fits, and [] is the plan that computes nothing again.",
            when=lambda seen: least == 0 and worst_of([], act, edge) == budget,
        ),
    )
    worst, spent = worst_of(value, act, edge), sum(sum(cost[start:stop]) for start, stop in value)
    seen.that(
        worst <= budget,
        f"At its worst moment your plan needs {worst:g}, and the budget is {budget:g}. When a segment is computed "
        f"again, all "
        "that its layers keep is there, with everything that is kept before it.",
    )
    seen.that(
        spent == least,
        f"Your plan fits and computes {spent:g} again; {least:g} is enough.",
        mistake("Everything fits: nothing has to be computed again.", when=lambda seen: least == 0),
    )
    seen.leaves_arguments_alone(because="The lists must be left as they were.")


# %% check="checkpoint-plan" points=1
"""Everything fits; sixteen equal layers; layers that keep much and cost little; no plan at all."""
with check("checkpoint-plan") as test:
    test("everything fits, with room to spare and just so")
    lists = ([4, 2, 3], [1, 2, 1], [5, 6, 7])
    judge_plan(observe(plan, *lists, 20), lists, 20, 0)
    judge_plan(observe(plan, *lists, 9), lists, 9, 0)

    test("sixteen equal layers, budgets 16, 12, 8 and 7")
    lists = ([1] * 16, [1] * 16, [1] * 16)
    for budget, least in ((16, 0), (12, 5), (8, 10), (7, 11)):
        judge_plan(observe(plan, *lists, budget), lists, budget, least)

    test("layers that keep much and cost little")
    lists = ([8, 2, 2, 2, 9, 2], [1, 2, 1, 1, 2, 2], [1, 9, 9, 9, 2, 9])
    for budget, least in ((24, 1), (17, 3), (15, 12)):
        judge_plan(observe(plan, *lists, budget), lists, budget, least)

    test("no plan fits: one layer alone is too large")
    lists = ([3, 12, 3], [1, 1, 1], [2, 2, 2])
    judge_plan(observe(plan, *lists, 12), lists, 12, None)


# %% check="checkpoint-plan" points=1
"""Random chains, a chain of forty, no layer, one layer, fractions."""
with check("checkpoint-plan") as test:
    not_yet = mistake(
        "This check builds on the first one, which doesn't pass yet. Fix that first.", when=lambda seen: True
    )

    test("sixteen equal layers, budget 12")
    lists = ([1] * 16, [1] * 16, [1] * 16)
    judge_plan(observe(plan, *lists, 12).expecting(not_yet), lists, 12, 5)

    ### BEGIN HIDDEN TESTS
    def least_of(lists, budget):
        """The smallest cost, by looking at every plan; None if none fits."""
        act, edge, cost = lists
        found = [math.inf]

        def go(layer, kept, spent):
            if spent >= found[0]:
                return
            if layer == len(act):
                found[0] = spent
                return
            if kept + act[layer] <= budget:
                go(layer + 1, kept + act[layer], spent)
            for stop in range(layer + 1, len(act) + 1):
                if kept + sum(act[layer:stop]) > budget:
                    break
                go(stop, kept + edge[layer], spent + sum(cost[layer:stop]))

        go(0, 0, 0)
        return None if found[0] == math.inf else found[0]

    test.hidden("sixty random chains of up to eight layers")
    dice = random.Random(13)
    for _ in range(60):
        layers = dice.randint(1, 8)
        act = [dice.randint(1, 9) for _ in range(layers)]
        lists = (act, [dice.randint(1, a) for a in act], [dice.randint(1, 9) for _ in range(layers)])
        budget = dice.randint(max(act), sum(act))
        judge_plan(observe(plan, *lists, budget), lists, budget, least_of(lists, budget))

    def counted_plan(plan, act, edge, cost, budget, most):
        """Plan a chain with numbers that count how often they are added up, and give up after a million times."""

        class TooManySteps(Exception):
            pass

        class Counted(int):
            steps = 0

            def plus(self, other, sign=1):
                Counted.steps += 1
                if Counted.steps > most:
                    raise TooManySteps
                total = int(self) + sign * other
                return Counted(total) if isinstance(total, int) else total

            def __add__(self, other):
                return self.plus(other)

            def __radd__(self, other):
                return self.plus(other)

            def __sub__(self, other):
                return self.plus(other, -1)

        return {"plan": plan(*([Counted(n) for n in numbers] for numbers in (act, edge, cost)), budget)}

    test.hidden("a chain of twenty-four layers, whose numbers count how often they are added up")
    act = [3 + n * 7 % 5 for n in range(24)]
    lists = (act, [1 + n % 3 for n in range(24)], [1 + n * 11 % 7 for n in range(24)])
    observe_scenario(counted_plan, plan, *lists, 72, 1_000_000).expecting(
        mistake(
            "For 24 layers your function has added numbers a million times, and it isn't done. That is what trying "
            "plan after plan leads to: the number of steps doubles with every layer or two, even if bad plans are "
            "given up early. Of the ways to reach a layer, keep those that no other beats in both bytes and cost.",
            raises="TooManySteps",
        )
    )["plan"]

    test.hidden("a chain of forty layers")
    act = [3 + n * 7 % 5 for n in range(40)]
    lists = (act, [1 + n % 3 for n in range(40)], [1 + n * 11 % 7 for n in range(40)])
    judge_plan(observe(plan, *lists, 120), lists, 120, 44)

    test.hidden("a segment of twenty-four layers")
    lists = ([1] * 25 + [25], [1] * 26, [1] * 26)
    judge_plan(observe(plan, *lists, 27), lists, 27, 24)

    test.hidden("a chain of quarters whose last layer leaves little room: the cheap ways to reach it keep too much")
    act = [2 + n * 7 % 12 / 4 for n in range(24)]
    cost = [3 + n * 11 % 17 + n % 4 / 4 for n in range(24)]
    lists = ([*act, 40], [(1 + n * 5 % 7) / 4 for n in range(24)] + [1], [*cost, 1])
    judge_plan(observe(plan, *lists, 48), lists, 48, 240.25)

    test.hidden("no layer, one layer, fractions")
    judge_plan(observe(plan, [], [], [], 3), ([], [], []), 3, 0)
    judge_plan(observe(plan, [4], [1], [2], 4), ([4], [1], [2]), 4, 0)
    judge_plan(observe(plan, [4], [1], [2], 3), ([4], [1], [2]), 3, None)
    lists = ([2.5, 0.75, 1.5, 2.25], [0.5, 0.75, 0.25, 1.0], [1.5, 2.25, 0.5, 4.0])
    for budget in (7.0, 5.75, 4.5, 3.5):
        judge_plan(observe(plan, *lists, budget), lists, budget, least_of(lists, budget))
    ### END HIDDEN TESTS
