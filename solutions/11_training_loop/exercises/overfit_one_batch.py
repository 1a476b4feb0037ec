# %% [markdown]
# ### Exercise 11.1 · Can it learn one batch by heart?
#
# measure · solid · 20 min · 2 points
#
# Before you train for hours, train on a single small batch again and again. A working loop learns so few samples by
# heart, and the loss falls to nearly zero. If a loop can't do that, more data won't help, and *how* it fails tells you
# where to look. Write a function that makes this diagnosis. It gets the weights and a function `step`, whose code it
# can't see.
#
# For you to try, `training` below trains the same small classifier in four ways. Three of them can't learn the batch.
#
# **Contract**
#
# - Call `step()` until it returns a loss that is below `floor`, nan or inf, but at most `max_steps` times. Each call
#   trains once, always on the same batch, and returns the loss before its update as a float.
# - Return one of four strings, the first in this list that applies:
#     - `"fits"`: the last loss is below `floor`, even if it came from the last of `max_steps` calls.
#     - `"stands still"`: no call changed any weight, not even in the last bit; frozen weights count like all others.
#       This includes `max_steps=0`, when `step` is never called. A weight that was nan and still is nan has not
#       changed.
#     - `"diverges"`: the last loss is nan or inf, or larger than the first.
#     - `"stuck"`: anything else, that is, the weights change but the loss doesn't get below `floor`.
# - `weights` is a list of float32 or float64 tensors of any shape. Some may be frozen, the same tensor may be listed
#   twice, and the list may be empty. You may assume that no weight goes from 0.0 to -0.0 or back.
# - Your own code changes nothing: no weight, gradient or flag, and no random state.
#
# <details><summary>Hint 1</summary>
#
# What does the loss do if the optimizer holds weights that aren't the model's? What if there is also dropout? What else
# can you look at?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Clone the weights before the first call, and compare after each call, because a weight may return to its old value.
# Check that a loss is finite before you compare it with anything. When is nan equal to nan?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Collect the losses in a loop that ends when a loss is below `floor` or not finite, and note after each call whether
# any weight differs from its clone. After the loop, go through the four cases in the order of the contract.
# `torch.allclose` can compare exactly and treat nan as equal to nan.
#
# </details>


# %% answer="overfit-one-batch"
def training(way: str) -> tuple[Callable[[], float], list[nn.Parameter]]:
    """Four ways to train on one batch of 8: "A", "B", "C", "D". Try why_not(*training("A"))."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    body = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(64, 3))
    trained = copy.deepcopy(model) if way == "B" else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=25.0 if way == "C" else 0.5)

    def step() -> float:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.softmax(1) if way == "A" else logits, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, list(model.parameters())


def why_not(
    step: Callable[[], float],
    weights: list[Tensor],
    floor: float = 0.01,
    max_steps: int = 300,
) -> str:
    """Call step() up to max_steps times; one of "fits", "stands still", "diverges", "stuck"."""
    ### BEGIN SOLUTION
    before = [weight.detach().clone() for weight in weights]
    losses, moved = [], False
    while len(losses) < max_steps:
        losses.append(step())
        moved = moved or not all(
            torch.allclose(weight, old, rtol=0, atol=0, equal_nan=True)
            for weight, old in zip(weights, before, strict=True)
        )
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]):
            break
    if not moved:
        return "stands still"
    if not math.isfinite(losses[-1]) or losses[-1] > losses[0]:
        return "diverges"
    return "stuck"
    ### END SOLUTION


# %% helpers="overfit-one-batch"
def watched(why_not, step, weights, settings):
    """Ask why not; count the calls of step, and look whether anything else changes the weights."""
    most = settings.get("max_steps", 300)
    losses, changed = [], []

    def now():
        seen = [tensor for w in weights for tensor in (w, w.grad) if tensor is not None]
        return [tensor.detach().clone() for tensor in seen], [w.requires_grad for w in weights]

    def look():
        tensors, flags = now()
        olds, old_flags = left[0]
        same = len(tensors) == len(olds) and flags == old_flags
        same = same and all(
            torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in zip(tensors, olds, strict=True)
        )
        if not same:
            changed.append(len(losses))

    class TooOften(Exception):
        pass

    def counted():
        look()
        if len(losses) > most + 10:
            raise TooOften
        losses.append(step())
        left[0] = now()
        return losses[-1]

    left, random = [now()], torch.get_rng_state()
    try:
        came = why_not(counted, weights, **settings)
    except TooOften:
        came = None
    look()
    facts = {"losses": losses, "kind": type(came).__name__, "answer": came if isinstance(came, str) else None}
    return facts | {"changed": len(changed) > 0, "drawn": not torch.equal(random, torch.get_rng_state())}


def trained(why_not, way, max_steps):
    """Ask why a small classifier does not learn one batch by heart."""
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(8, 4, generator=generator), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    torch.manual_seed(2)
    outputs, drop = 1 if way == "labels that broadcast" else 3, 0.5 if way == "B with dropout" else 0.0
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))
    net = nn.Sequential(model, nn.Dropout(drop)) if drop else model
    elsewhere = copy.deepcopy(model) if way in ("B", "B with dropout") else model
    rate = {"C": 25.0, "going uphill": 0.5, "labels that broadcast": 0.05}.get(way, 0.5)
    optimizer = torch.optim.SGD(elsewhere.parameters(), lr=rate, maximize=way == "going uphill")

    def step():
        optimizer.zero_grad()
        out = net(x)
        if way == "labels that broadcast":
            loss = (out - y).square().mean()
        else:
            loss = F.cross_entropy(out.softmax(1) if way == "A" else out, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return watched(why_not, step, list(model.parameters()), {"max_steps": max_steps}) | {"drawn": False}


def scripted(why_not, weights, moves, losses, settings):
    """Ask about a step that adds moves[0], moves[1], … to the weights in turn, and returns these losses in turn.

    With settings["filled"], the moves are not added: they replace the values.
    """
    weights = [nn.Parameter(weight) for weight in weights]
    if settings.get("twice"):
        weights.append(weights[0])
    for place in settings.get("frozen", ()):
        weights[place].requires_grad_(False)
    calls = []

    def step():
        with torch.no_grad():
            for weight, by in zip(weights, moves[len(calls) % len(moves)], strict=False):
                weight.copy_(torch.as_tensor(by) if settings.get("filled") else weight + by)
        calls.append(1)
        return losses[min(len(calls), len(losses)) - 1]

    own = ("twice", "frozen", "filled")
    return watched(why_not, step, weights, {key: settings[key] for key in settings if key not in own})


too_often = "You call step too often. Stop after a loss that is below floor, nan or inf, and after max_steps calls."
too_early = (
    "You stopped early, but a loss may rise for a while and fall later. Before max_steps, only a loss that is "
    "below floor, nan or inf ends the calls."
)
touched = "Your function changed the weights, their gradients or their flags. Only read them."
meanings = {
    "fits": "a loss came below floor",
    "stands still": "no weight has moved in any call",
    "diverges": "weights move, and the last loss is nan, inf or larger than the first",
    "stuck": "weights move, no loss is below floor, and the last one is finite and not larger than the first",
}


def judge(seen, expected, *mistakes, floor=0.01, max_steps=300, exactly=True):
    """The answer is this one, after the right number of calls."""
    seen.expecting(
        *mistakes,
        mistake(
            "Each step trains, so it needs gradients. Don't call it under no_grad.", raises="does not require grad"
        ),
    )
    losses, came = seen["losses"], seen["answer"]
    seen.that(len(losses) <= max_steps, too_often, stage="rule")
    seen.that(came in meanings, f"Return one of the strings {', '.join(map(repr, meanings))}.", stage="type")
    ends = [n for n, loss in enumerate(losses, 1) if not math.isfinite(loss) or loss < floor]
    wrong = f"The right answer is {expected!r} ({meanings[expected]}), but you return {came!r}."
    seen.that(came == expected, wrong)
    wanted = min([*ends, max_steps])
    calls = len(losses) == wanted or not exactly
    seen.that(calls, too_early if len(losses) < wanted else too_often, stage="rule")
    seen.that(not seen["changed"], touched, stage="arguments")
    seen.that(not seen["drawn"], "Your function draws random numbers, which changes the next step.", stage="rule")


def says(text, sentence):
    """A mistake: the answer is this text."""
    return mistake(sentence, when=lambda seen: seen["answer"] == text)


def not_said(text, sentence):
    """A mistake: the answer is another one of the texts than this."""
    return mistake(sentence, when=lambda seen: seen["answer"] in set(meanings) - {text})


# %% check="overfit-one-batch" points=1
"""The function names the three broken loops and the working loop, and calls step often enough."""
with check("overfit-one-batch") as test:
    themselves = says(
        "stands still",
        "All weights change here. You compared the weights with themselves. Keep clones, not the tensors.",
    )

    test("A: a softmax before cross_entropy")
    judge(
        observe_scenario(trained, why_not, "A", 60),
        "stuck",
        themselves,
        says(
            "fits",
            "The weights change and the loss falls, but never below floor, so it is 'stuck' (with softmax before "
            "cross_entropy the loss can't reach 0).",
        ),
        max_steps=60,
    )

    test("B: the optimizer holds the weights of a copy")
    not_at_weights = not_said(
        "stands still",
        "The loss is constant because the weights don't change. Look at the weights, not only at the loss (with "
        "dropout the loss changes although nothing is learnt).",
    )
    judge(observe_scenario(trained, why_not, "B", 10), "stands still", not_at_weights, max_steps=10)

    test("C: lr is 50 times too large")
    unasked = says("stuck", "The loss became nan: nan < floor is False and nan > first is False. Ask for isfinite.")
    judge(observe_scenario(trained, why_not, "C", 60), "diverges", themselves, unasked, max_steps=60, exactly=False)

    test("D: none of these")
    judge(observe_scenario(trained, why_not, "D", 300), "fits")

    test("the loss falls from 4 to 0.5, and no further; or from 4 to 3, and back to 5")
    weights, moves, few = [torch.tensor([1.0, 2.0])], [[0.25]], {"max_steps": 6}
    far = says("fits", "The weights change and the loss falls, but never below floor, so it is 'stuck'.")
    seen = observe_scenario(scripted, why_not, weights, moves, [4.0, 2.0, 1.0, 0.5], few)
    judge(seen, "stuck", themselves, far, max_steps=6)
    seen = observe_scenario(scripted, why_not, weights, moves, [4.0, 3.0, 3.5, 5.0], {"max_steps": 4})
    judge(seen, "diverges", themselves, max_steps=4)

    ### BEGIN HIDDEN TESTS
    test.hidden("max_steps is 300 where it is not given")
    judge(observe_scenario(scripted, why_not, weights, moves, [4.0, 2.0, 1.0, 0.5], {}), "stuck")

    for way, expected in (("labels that broadcast", "stuck"), ("going uphill", "diverges")):
        test.hidden(way)
        judge(observe_scenario(trained, why_not, way, 25), expected, max_steps=25, exactly=False)
    ### END HIDDEN TESTS


# %% check="overfit-one-batch" points=1
"""A loss that jumps, rises or is nan; which weights count, how exactly; the number of calls."""
with check("overfit-one-batch") as test:
    test("A, B, C and D, as in the first check")
    for way, expected, most in (("A", "stuck", 9), ("B", "stands still", 5), ("C", "diverges", 20), ("D", "fits", 150)):
        seen = observe_scenario(trained, why_not, way, most)
        judge(seen, expected, FIRST_CHECK_FIRST, max_steps=most, exactly=way != "C")

    test("B with dropout: the loss changes, the weights don't")
    dances = not_said(
        "stands still",
        "The loss changes because of dropout, but the weights don't change. Look at the weights, not only at the loss.",
    )
    judge(observe_scenario(trained, why_not, "B with dropout", 10), "stands still", dances, max_steps=10)

    def scripted_as(losses, expected, *mistakes, weights=None, moves=((0.25,),), **settings):
        """What is said of these losses and moves."""
        weights = [torch.tensor([1.0, 2.0])] if weights is None else weights
        settings = {"max_steps": 6} | settings
        limits = {key: value for key, value in settings.items() if key not in ("twice", "frozen", "filled")}
        seen = observe_scenario(scripted, why_not, weights, [list(by) for by in moves], losses, settings)
        judge(seen, expected, *mistakes, **limits)

    test("a rise at the start means nothing")
    first = says("diverges", "You judged by a rise or stopped early, but a loss may rise for a while and fall later.")
    scripted_as([1.0, 3.0, 2.0, 0.5, 0.001], "fits", first)
    scripted_as([1.0, 3.0, 2.0, 0.5, 0.75, 0.5], "stuck", first)

    ### BEGIN HIDDEN TESTS
    two = [torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor(4.0)]
    falling = [2.0, 1.5, 1.0]
    shape = mistake("Weights may have any shape, even that of a single number: {detail}.", stage="raised")
    test.hidden("some of the weights are frozen, the others move")
    one_of_them = says(
        "stands still",
        (
            "All weights count, not only the first. A first layer that is frozen doesn't change in a network that "
            "learns."
        ),
    )
    scripted_as(falling, "stuck", shape, one_of_them, weights=two, moves=[[0.0, 0.5]])
    in_double = [weight.double() for weight in two]
    scripted_as(falling, "stuck", shape, weights=in_double, moves=[[0.0, 0.5]])
    other = says("stands still", "All weights count. If one of them doesn't change, the others may.")
    scripted_as(falling, "stuck", other, weights=two, moves=[[0.5, 0.0]])
    three = [torch.ones(2), torch.full((2,), 3.0), torch.zeros(0), torch.full((2,), 5.0)]
    scripted_as([1.0, 2.0], "diverges", other, weights=three, moves=[[0.0, 0.5, 0.0, 0.0]], max_steps=2)

    not_frozen = says(
        "stands still",
        "A frozen weight also counts. Here `step` changes a weight that doesn't require grad, as a running "
        "average does.",
    )
    scripted_as(falling, "stuck", not_frozen, weights=two, moves=[[0.0, 0.5]], frozen=[1])

    test.hidden("the weights move by very little")
    exactly = says("stands still", "Even a small change counts. Compare exactly, in the weights' own dtype.")
    scripted_as(falling, "stuck", exactly, weights=[torch.tensor([1.0, 2.0])], moves=[[2e-6]])
    scripted_as(falling, "stuck", exactly, weights=[torch.tensor([1.0], dtype=torch.float64)], moves=[[1e-13]])
    both_ways = [torch.tensor([1.0, -1.0]), torch.tensor([2.0])]
    total = says("stands still", "Changes can cancel in a sum, a mean or a norm. Compare element by element.")
    scripted_as(falling, "stuck", total, weights=both_ways, moves=[[torch.tensor([0.5, -0.5]), 0.0]])
    swap = torch.tensor([1.0, -1.0])
    scripted_as(falling, "stuck", total, weights=[torch.tensor([1.0, 2.0])], moves=[[swap], [-swap]], max_steps=5)

    test.hidden("updates by zero")
    by_zero = not_said("stands still", "Only the values count. An update by zero changes nothing.")
    scripted_as(falling, "stands still", by_zero, weights=two, moves=[[0.0, 0.0]])

    test.hidden("nan in a weight that stands still")
    unequal = not_said("stands still", "Here a nan stays nan. Because nan != nan, torch.equal calls that a change.")
    poisoned = [torch.tensor([torch.nan, 1.0]), torch.tensor([torch.inf, 2.0])]
    scripted_as(falling, "stands still", unequal, weights=poisoned, moves=[[0.0, 0.0]])
    scripted_as(falling, "stuck", weights=poisoned, moves=[[torch.tensor([0.0, 0.5]), 0.0]])

    test.hidden("the first steps have a rate of zero; a weight that jumps to and fro")
    warm_up = says("stands still", "The weights changed only later, because a schedule may start with a rate of zero.")
    scripted_as(falling, "stuck", warm_up, moves=[[0.0], [0.0], [0.0], [0.5]], max_steps=4)
    to_and_fro = says(
        "stands still",
        "The weights change and return to their old values at the end. Compare after each call, not only at the end.",
    )
    scripted_as([1.0, 0.5], "stuck", to_and_fro, moves=[[0.5], [-0.5]])

    test.hidden("nan and inf, with weights that move and with weights that don't")
    order = mistake(
        "'stands still' comes before 'diverges', and no weight had changed when the loss became nan or larger.",
        when=lambda seen: seen["answer"] == "diverges",
    )
    infinite = says("fits", "A loss of inf also ends the calls. Check with isfinite, not only for nan.")
    scripted_as([1.0, torch.inf, 0.001], "diverges", infinite)
    scripted_as([1.0, 0.5, torch.nan], "diverges")
    scripted_as([torch.nan], "diverges", max_steps=1)
    one_to_nan = says(
        "stands still",
        "All weights became nan here, which is a change. A comparison such as `(new - old).abs() > 0` doesn't notice "
        "it, because nan > 0 is False. Ask whether values are equal, not how far apart they are.",
    )
    scripted_as([1.0, torch.nan], "diverges", one_to_nan, weights=[torch.ones(2)], moves=[[torch.nan]])
    zero_to_nan = says(
        "stands still",
        "A weight went from 0 to nan here, which is a change. If you count nan as 0, as `nan_to_num` and `nansum` do, "
        "the two look equal. Only a nan that was nan before has not changed.",
    )
    scripted_as([1.0, torch.nan], "diverges", zero_to_nan, weights=[torch.zeros(2)], moves=[[torch.nan]])
    from_nan = says(
        "stands still",
        "A weight went from nan to a number here, which is a change. Only a nan that is still nan has not changed.",
    )
    restored = [[torch.tensor([0.5, 1.0]), torch.tensor([torch.inf, 2.0])]]
    scripted_as(falling, "stuck", from_nan, weights=poisoned, moves=restored, filled=True)
    scripted_as([1.0, torch.nan], "stands still", order, moves=[[0.0]])
    scripted_as([1.0, 2.0], "stands still", order, moves=[[0.0]])

    test.hidden("no call at all; one call; floor in the very last call; another floor")
    none = "With max_steps=0, step is never called and no weight changes, so it 'stands still'."
    scripted_as([1.0], "stands still", mistake(none, when=lambda seen: True), max_steps=0)
    scripted_as([1.0], "stuck", max_steps=1)
    last = not_said("fits", "A loss below floor in the last of max_steps calls also counts.")
    scripted_as([1.0, 0.5, 0.25, 0.001], "fits", last, max_steps=4)
    scripted_as([1.0, 0.5, 0.25, 0.125], "fits", floor=0.2)
    scripted_as([1.0, 0.5, 0.25], "stuck", says("fits", "A loss equal to floor is not below floor."), floor=0.25)

    test.hidden("the last loss against the first")
    between = "Only the first and the last loss decide whether it diverges, not those in between."
    scripted_as([1.0, 0.5, 0.25, 1.25], "diverges", not_said("diverges", between), max_steps=4)
    scripted_as([1.0, 5.0, 9.0, 0.75, 0.8], "stuck", not_said("stuck", between), max_steps=5)
    scripted_as(
        [1.0, 0.5, 1.0], "stuck", says("diverges", "A last loss equal to the first is not larger."), max_steps=3
    )

    test.hidden("a tensor twice; no weights at all")
    scripted_as(falling, "stuck", weights=[torch.tensor([1.0])], moves=[[0.5]], twice=True)
    sentence = "Without weights no weight changes, so it 'stands still'."
    nothing = not_said("stands still", sentence), mistake(sentence, stage="raised")
    scripted_as([1.0, 2.0], "stands still", *nothing, weights=[], moves=[[]])
    scripted_as([1.0, 0.001], "fits", weights=[], moves=[[]])
    ### END HIDDEN TESTS
