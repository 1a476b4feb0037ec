# %% [markdown]
# ### Exercise 7.4 · The best weights got lost
#
# fix · warm-up · 12 min · 2 points
#
# This loop should train for some steps and return the best weights. It returns the last weights, whatever the scores
# are. Find out why and fix it. Also give train_step and score the modes that they need.
#
# **Contract**
#
# - Runs `train_step(model)` and `score(model)` in turn, `steps` times each: train_step with the model in train mode and
#   with gradients as usual, score in eval mode and without gradient tracking.
# - Keeps an independent snapshot of everything in the state_dict, including frozen parameters, from the step with the
#   highest score. The first step wins a tie, NaN never wins, and minus infinity is a score like any other.
# - Returns (best score, snapshot). The snapshot is a dict of tensors that don't require grad, and whatever happens to
#   the model later does not change it.
# - At the end the model has the snapshot's values, and it is in train mode or in eval mode as it was at the start. (You
#   may assume that all its submodules were in the same mode, and that train_step and score don't raise.)
# - `steps < 1` raises ValueError before anything runs. If all scores are NaN, raise ValueError and leave the weights as
#   they are at that point.
#
# <details><summary>Hint 1</summary>
#
# Does `state_dict()` return values or references? After ten more steps, what do the tensors in best_state contain?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Copy every tensor at the moment of the best score (deepcopy of the dict, or clone of each value), switch modes around
# the two calls, and restore the flag at the end.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Minus infinity can't be the starting value of the best score, because a real score of minus infinity must be able to
# win. Start without a best score, and take a new score if it isn't NaN and there is no best score yet or the new score
# is greater. If there still is no best score after the loop, raise the error; otherwise load the snapshot. Restore the
# training flag in both cases.
#
# </details>


# %% answer="snapshot-best"
def fit_keep_best(
    model: nn.Module,
    train_step: Callable[[nn.Module], None],
    score: Callable[[nn.Module], float],
    steps: int,
) -> tuple[float, dict[str, Tensor]]:
    """Train for some steps; return the best score and its state, which the model then has."""
    ### BEGIN SOLUTION
    if steps < 1:
        raise ValueError("steps must be at least 1")
    training = model.training
    best, best_state = None, {}
    for _ in range(steps):
        model.train()
        train_step(model)
        model.eval()
        with torch.no_grad():
            s = score(model)
        if not math.isnan(s) and (best is None or s > best):
            best = s
            best_state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train(training)
    if best is None:
        raise ValueError("all scores are NaN")
    model.load_state_dict(best_state)
    return best, best_state
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # best, best_state = -math.inf, None
    # for _ in range(steps):
    #     train_step(model)
    #     s = score(model)
    #     if s > best:
    #         best, best_state = s, model.state_dict()
    # model.load_state_dict(best_state)
    # return best, best_state
    ### END GIVEN


# %% helpers="snapshot-best"
def values_of(net):
    """Copies of all that is in the state_dict."""
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


def same_state(came, state):
    """Whether two states agree, name by name."""
    return came.keys() == state.keys() and all(
        came[name].dtype == state[name].dtype and torch.equal(came[name], state[name]) for name in state
    )


def agrees_in(came, state, kind):
    """Whether a state agrees with another one in its parameters, or in its buffers."""
    names = [name for name in state if ("weight" in name or "bias" in name) == (kind == "parameters")]
    return all(name in came and torch.equal(came[name], state[name]) for name in names)


def small_net():
    """A batch norm in a container, with fixed weights."""
    net = nn.Sequential(nn.BatchNorm1d(2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([0.5, -1.0]))
        net[0].bias.copy_(torch.tensor([0.1, -0.2]))
    return net


def story(answer, net, scores, steps):
    """Train the net with these scores, one for each step; then look at the snapshot and at the net."""
    calls, states, weight = [], [values_of(net)], net[0].weight
    frozen = [name for name, parameter in net.named_parameters() if not parameter.requires_grad]

    def note(name, module):
        calls.append(
            {
                "call": name,
                "model": module is net,
                "modes": sorted({m.training for m in net.modules()}),
                "tracks": torch.is_grad_enabled(),
            }
        )

    def one_step(module):
        """What a step of training does: parameters and buffers change in place."""
        with torch.no_grad():
            for tensor in (net[0].weight, net[0].bias, net[0].running_mean, net[0].num_batches_tracked):
                tensor += 1

    def train_step(module):
        note("train_step", module)
        one_step(module)
        states.append(values_of(net))

    def score(module):
        note("score", module)
        return scores[min(len(states), len(scores) + 1) - 2]

    facts = {"calls": calls, "states": states, "frozen": frozen, "raised": ""}
    try:
        result = answer(net, train_step, score, steps)
    except ValueError as error:
        facts |= {"raised": type(error).__name__, "message": str(error)}
        return facts | {"model": values_of(net), "flags": sorted({m.training for m in net.modules()})}
    facts |= {"model": values_of(net), "flags": sorted({m.training for m in net.modules()})}
    pair = isinstance(result, (tuple, list)) and len(result) == 2
    best, snapshot = result if pair else (None, None)
    facts |= {
        "kind": type(result).__name__,
        "pair": pair,
        "best": float(best) if isinstance(best, (int, float)) and not isinstance(best, bool) else None,
        "kind of best": type(best).__name__,
        "kind of snapshot": type(snapshot).__name__,
    }
    if not isinstance(snapshot, dict) or not all(isinstance(t, Tensor) for t in snapshot.values()):
        return facts | {"snapshot": None}
    facts["tracked"] = [name for name, tensor in snapshot.items() if tensor.requires_grad]
    shared = net[0].weight.data_ptr() == snapshot.get("0.weight", weight).data_ptr()
    facts["assigned"] = net[0].weight is not weight and shared
    facts["snapshot"] = {name: tensor.detach().clone() for name, tensor in snapshot.items()}
    net.train()
    one_step(net)
    facts["model later"] = values_of(net)
    facts["snapshot later"] = {name: tensor.detach().clone() for name, tensor in snapshot.items()}
    return facts


sentences = {
    "alias": "The snapshot changed while training went on: state_dict() returns references to the model's own "
    "tensors. Copy them.",
    "assigned": "At the end the snapshot's tensors became the model's own. load_state_dict copies values into the "
    "model; with assign=True it uses the tensors themselves.",
    "params": "The batch-norm statistics are also part of the best state; parameters alone are not enough.",
    "not restored": "At the end the model must have the best weights, not the last ones.",
    "mode of training": "`train_step` ran in eval mode: dropout and batch norm don't train then. Call model.train() "
    "before each step, since the eval() for the score lasts.",
    "mode of score": "`score` ran in train mode: dropout and batch norm would make it depend on chance and on the "
    "batch. Call model.eval() before it.",
    "flag": "The model does not have the training flag that it had at the start: store model.training first, "
    "and pass it to model.train() at the end.",
    "grad": "score ran with gradient tracking.",
    "tie": "If scores are equal, the first one wins.",
    "nan": "NaN must never win (and all-NaN is a ValueError): every comparison with NaN is False - check which way "
    "round you compare.",
    "raised": "One of the scores is NaN and the others are numbers, so there is a best step, but it raised. A NaN that "
    "comes first must not stay the best score, and a later one is passed over.",
    "infinity": "Minus infinity is a score like any other: if there is no other score, it is the best.",
}
known = [
    mistake(sentences["params"], raises=r"(?s)Missing key\(s\)"),
    mistake(
        "There was no snapshot to load: no score was greater than the start value of your comparison.",
        raises="Expected state_dict to be dict-like|NoneType",
    ),
]


def judge_turns(seen):
    """Judge that train_step and score ran in turn, on the model itself."""
    calls = seen["calls"]
    in_turn = [call["call"] for call in calls] == ["train_step", "score"] * len(seen.args[1])
    seen.that(in_turn, "train_step and score must run in turn, once each for every step.", stage="rule")
    itself = all(call["model"] for call in calls)
    seen.that(itself, "train_step and score get the model itself, not a copy.", stage="rule")


def judge_result(seen, best, step, *mistakes):
    """Judge that the state of a step came back, as the snapshot and in the model; mistakes: those of its scores."""
    seen.expecting(*known)
    seen.that(seen["raised"] == "", "It raised a ValueError although there is a best step.", *mistakes, stage="raised")
    judge_turns(seen)
    seen.that(seen["pair"], "Return a pair: the best score and the snapshot.", stage="type")
    seen.that(
        seen["snapshot"] is not None,
        "The snapshot must be a dict from the names of the state_dict to tensors.",
        stage="type",
    )
    wanted, last = seen["states"][step], seen["states"][-1]
    snapshot, later = seen["snapshot"], seen["snapshot later"]
    seen.that(
        seen["kind of best"] != "Tensor",
        "The best score came back as a Tensor. Return it as the number that `score` gave.",
        stage="type",
    )
    seen.that(seen["best"] == best, "The first item of the result must be the best score.", *mistakes)
    seen.that(
        same_state(later, snapshot),
        sentences["alias"],
        mistake(sentences["assigned"], when=lambda seen: seen["assigned"]),
        stage="aliasing",
    )
    betrayed = [
        mistake(
            "Frozen parameters are also in the state_dict and part of the best state.",
            when=lambda seen: seen["frozen"] and wanted.keys() - snapshot.keys() == set(seen["frozen"]),
        ),
        mistake(sentences["params"], when=lambda seen: snapshot.keys() < wanted.keys()),
        mistake(
            sentences["params"],
            when=lambda seen: agrees_in(snapshot, wanted, "parameters") and not agrees_in(snapshot, wanted, "buffers"),
        ),
        mistake(sentences["alias"], when=lambda seen: step < len(seen["states"]) - 1 and same_state(snapshot, last)),
    ]
    seen.that(same_state(snapshot, wanted), "The snapshot is not the state of the best step.", *mistakes, *betrayed)
    model = seen["model"]
    seen.that(
        same_state(model, wanted),
        "At the end the model must have the state of the best step.",
        mistake(
            sentences["params"],
            when=lambda seen: agrees_in(model, wanted, "parameters") and not agrees_in(model, wanted, "buffers"),
        ),
        mistake(sentences["not restored"], when=lambda seen: same_state(model, last)),
    )
    tracked = ", ".join(seen["tracked"])
    seen.that(not tracked, f"The snapshot's tensors must not require grad: {tracked}.", stage="gradient")


# %% check="snapshot-best" points=1
"""The best state is returned, as a separate copy, and is in the model at the end."""
with check("snapshot-best") as test:

    def on_small_net(answer, scores):
        """Train with these scores, one for each step; then look at the snapshot and at the model."""
        return story(answer, small_net(), scores, len(scores))

    test("scores 1, 3, 2: the state of step 2 comes back, and stays so when training goes on")
    seen = observe_scenario(on_small_net, fit_keep_best, [1.0, 3.0, 2.0])
    judge_result(seen, best=3.0, step=2)


# %% check="snapshot-best" points=1
"""Train and eval mode; ties, NaN and infinities; no steps at all."""
with check("snapshot-best") as test:

    def with_frozen_bias(answer, scores, training=True, steps=None):
        """Train with these scores, one for each step; then look at the snapshot and at the model."""
        net = small_net().train(training)
        net[0].bias.requires_grad_(False)
        return story(answer, net, scores, len(scores) if steps is None else steps)

    def judge_modes(seen):
        """Judge that train_step and score ran each in its mode."""
        of_training, of_score = (
            [call["modes"] for call in seen["calls"] if call["call"] == name] for name in ("train_step", "score")
        )
        seen.that(all(mode == [True] for mode in of_training), sentences["mode of training"], stage="rule")
        seen.that(all(mode == [False] for mode in of_score), sentences["mode of score"], stage="rule")
        tracks = [call["tracks"] for call in seen["calls"]]
        seen.that(not any(tracks[1::2]), sentences["grad"], stage="gradient")
        untracked = "train_step ran without gradient tracking, so it gets no gradients."
        seen.that(all(tracks[::2]), untracked, stage="gradient")

    seen = observe_scenario(with_frozen_bias, fit_keep_best, [1.0, 3.0, 2.0]).expecting(*known)

    test("train mode for train_step, eval mode for score; the flag is restored")
    judge_modes(seen)
    seen.that(seen["flags"] == [True], sentences["flag"])
    seen = observe_scenario(with_frozen_bias, fit_keep_best, [1.0, 3.0, 2.0], False)
    judge_result(seen, best=3.0, step=2)
    judge_modes(seen)
    seen.that(seen["flags"] == [False], sentences["flag"])

    ### BEGIN HIDDEN TESTS
    inf, nan = float("inf"), float("nan")
    tie = mistake(sentences["tie"], stage="value")
    not_a_number = mistake(sentences["nan"], stage="value")
    raised_for_one = mistake(sentences["raised"], stage="raised")
    not_a_number_raised = mistake(sentences["nan"], stage="raised")
    minus_infinity = mistake(sentences["infinity"], stage=("value", "raised"))
    for idea, scores, best, step, *named in [
        ("the best step is the first one", [3.0, 1.0, 2.0], 3.0, 1),
        ("the best step is the last one; negative scores", [-3.0, -1.0, -2.0, -0.5], -0.5, 4),
        ("a tie: the first one wins", [1.0, 2.0, 2.0, 1.0], 2.0, 2, tie),
        ("all scores are equal", [0.0, 0.0, 0.0], 0.0, 1, tie),
        ("NaN first", [nan, 1.0, 3.0, 2.0], 3.0, 3, not_a_number, raised_for_one),
        ("NaN after the best", [1.0, 3.0, nan, 2.0], 3.0, 2, not_a_number, raised_for_one),
        ("NaN last", [1.0, 2.0, nan], 2.0, 2, not_a_number, raised_for_one),
        ("NaN before a score that is not the best", [3.0, nan, 2.0], 3.0, 1, not_a_number, raised_for_one),
        ("minus infinity only", [-inf, -inf], -inf, 1, minus_infinity),
        ("minus infinity, then a number", [-inf, -5.0, -inf], -5.0, 2, minus_infinity),
        ("minus infinity and NaN", [nan, -inf, nan], -inf, 2, minus_infinity),
        ("infinity", [1.0, inf, 5.0], inf, 2),
        ("a single step", [0.5], 0.5, 1, mistake("steps=1 is allowed.", stage="raised")),
    ]:
        test.hidden(idea)
        seen = observe_scenario(with_frozen_bias, fit_keep_best, scores).expecting(*named)
        judge_result(seen, best, step, *named)
        judge_modes(seen)

    for training in (True, False):
        test.hidden("all scores are NaN: ValueError, the weights as they are")
        seen = observe_scenario(with_frozen_bias, fit_keep_best, [nan, nan], training).expecting(not_a_number_raised)
        seen.that(seen["raised"] == "ValueError", sentences["nan"], stage="raised")
        judge_turns(seen)
        judge_modes(seen)
        seen.that(same_state(seen["model"], seen["states"][-1]), "The weights must then stay as they are.")

    for steps in (0, -1):
        test.hidden("no steps at all, or fewer: ValueError")
        seen = observe_scenario(with_frozen_bias, fit_keep_best, [], True, steps).expecting(
            mistake("steps < 1 must raise a ValueError.", stage="raised")
        )
        seen.that(seen["raised"] == "ValueError", "steps < 1 must raise a ValueError.", stage="raised")
        seen.that(not seen["calls"], "With steps < 1 nothing may run.", stage="rule")
    ### END HIDDEN TESTS
