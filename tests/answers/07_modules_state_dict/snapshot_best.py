# corners: members, equal values, nan, empty

import copy
import io
import math
from collections import OrderedDict

import numpy as np
import torch


def cloned(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def kept(
    model,
    train_step,
    score,
    steps,
    snapshot=cloned,
    better=lambda s, best: s > best,
    restore=lambda model, state: model.load_state_dict(state),
    grad=torch.no_grad,
    modes=True,
    start=None,
    at_end=lambda model, was: model.train(was),
):
    """A right answer with parts to replace."""
    if steps < 1:
        raise ValueError("no steps")
    was, best, state = model.training, start, None
    for _ in range(steps):
        if modes:
            model.train()
        train_step(model)
        if modes:
            model.eval()
        with grad():
            s = score(model)
        if s == s and (best is None or better(s, best)):
            best, state = s, snapshot(model)
    at_end(model, was)
    if best is None:
        raise ValueError("NaN only")
    restore(model, state)
    return best, state


# %% right: a deep copy of the state_dict
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, snapshot=lambda model: copy.deepcopy(model.state_dict()))


# %% right: clones, inference_mode for the score, negated comparison in the safe order
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError
    was = model.training
    best, state = -math.inf, None
    for _ in range(steps):
        train_step(model.train())
        with torch.inference_mode():
            s = score(model.eval())
        if s > best or (state is None and not math.isnan(s)):
            best = s
            state = OrderedDict((name, tensor.detach().clone()) for name, tensor in model.state_dict().items())
    model.train(was)
    if state is None:
        raise ValueError
    model.load_state_dict(state)
    return best, state


# %% right: saved into memory, loaded at the end
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("steps")
    was = model.training
    best, file = None, None
    try:
        for _ in range(steps):
            model.train(True)
            train_step(model)
            model.train(False)
            with torch.no_grad():
                s = float(score(model))
            if not math.isnan(s) and not (best is not None and s <= best):
                best, file = s, io.BytesIO()
                torch.save(model.state_dict(), file)
    finally:
        model.train(was)
    if file is None:
        raise ValueError("all NaN")
    file.seek(0)
    state = torch.load(file)
    model.load_state_dict(state)
    return [best, state]


# %% right: copies all states, then chooses; restores with copy_
def fit_keep_best(model, train_step, score, steps):
    if steps <= 0:
        raise ValueError("at least one step")
    was, history = model.training, []
    for _ in range(steps):
        model.train()
        train_step(model)
        model.eval()
        with torch.set_grad_enabled(False):
            history.append((score(model), cloned(model)))
    history = [pair for pair in history if pair[0] == pair[0]]
    if not history:
        model.train(was)
        raise ValueError("NaN")
    best, state = max(history, key=lambda pair: pair[0])  # max returns the first of equal ones
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(state[name])
    model.train(was)
    return best, state


# %% wrong: the given code, switched modes
# says: The snapshot changed while training went on: state_dict() returns references to the model's own tensors. Copy them.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, snapshot=lambda model: model.state_dict())


# %% wrong: the given code as it is
# says: The snapshot changed while training went on
# says: `score` ran in train mode: dropout and batch norm would make it depend on chance and on the batch.
# earns: 0 of 2
# lesson
def fit_keep_best(model, train_step, score, steps):
    best, best_state = -math.inf, None
    for _ in range(steps):
        train_step(model)
        s = score(model)
        if s > best:
            best, best_state = s, model.state_dict()
    model.load_state_dict(best_state)
    return best, best_state


# %% wrong: dict(model.state_dict())
# says: The snapshot changed while training went on
# earns: 0 of 2
# lesson
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, snapshot=lambda model: dict(model.state_dict()))


# %% wrong: a shallow copy
# says: The snapshot changed while training went on
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, snapshot=lambda model: copy.copy(model.state_dict()))


# %% wrong: detached, not copied
# says: The snapshot changed while training went on
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(
        model, train_step, score, steps, snapshot=lambda model: {k: v.detach() for k, v in model.state_dict().items()}
    )


# %% wrong: the snapshot becomes the model's own tensors at the end
# says: At the end the snapshot's tensors became the model's own.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, restore=lambda model, state: model.load_state_dict(state, assign=True))


# %% wrong: clones named_parameters() only, loads strictly
# says: The batch-norm statistics are also part of the best state; parameters alone are not enough.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(
        model,
        train_step,
        score,
        steps,
        snapshot=lambda model: {name: p.detach().clone() for name, p in model.named_parameters()},
    )


# %% wrong: clones named_parameters() only, loads what is there
# says: The batch-norm statistics are also part of the best state; parameters alone are not enough.
# earns: 0 of 2
# lesson
def fit_keep_best(model, train_step, score, steps):
    return kept(
        model,
        train_step,
        score,
        steps,
        snapshot=lambda model: {name: p.detach().clone() for name, p in model.named_parameters()},
        restore=lambda model, state: model.load_state_dict(state, strict=False),
    )


# %% wrong: clones the parameters, refers to the buffers
# says: The snapshot changed while training went on
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(
        model,
        train_step,
        score,
        steps,
        snapshot=lambda model: model.state_dict() | {name: p.detach().clone() for name, p in model.named_parameters()},
    )


# %% wrong: the model gets the best parameters and the last buffers
# says: The batch-norm statistics are also part of the best state; parameters alone are not enough.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    def restore(model, state):
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(state[name])

    return kept(model, train_step, score, steps, restore=restore)


# %% wrong: the snapshot is right, the model keeps the last weights
# says: At the end the model must have the best weights, not the last ones.
# earns: 0 of 2
# lesson
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, restore=lambda model, state: None)


# %% wrong: never switches modes
# says: `score` ran in train mode: dropout and batch norm would make it depend on chance and on the batch.
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, modes=False)


# %% wrong: always leaves train mode at the end
# says: The model does not have the training flag that it had at the start: store model.training first, and
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, at_end=lambda model, was: model.train())


# %% wrong: leaves eval mode at the end
# says: The model does not have the training flag that it had at the start: store model.training first, and
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, at_end=lambda model, was: None)


# %% wrong: sets the flag of the model alone
# says: `score` ran in train mode: dropout and batch norm would make it depend on chance and on the batch.
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    def flagged(function, flag):
        def run(model):
            model.training = flag
            return function(model)

        return run

    return kept(model, flagged(train_step, True), flagged(score, False), steps, modes=False)


# %% wrong: train() only once, before the loop
# says: `train_step` ran in eval mode: dropout and batch norm don't train then. Call model.train() before
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    was = model.training
    model.train()

    def scored(model):
        model.eval()
        return score(model)

    return kept(model, train_step, scored, steps, modes=False, at_end=lambda model, flag: model.train(was))


# %% wrong: score with gradients on
# says: Score ran with gradient tracking.
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, grad=torch.enable_grad)


# %% wrong: no_grad around everything
# says: train_step ran without gradient tracking
# earns: 1 of 2
@torch.no_grad()
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps)


# %% wrong: uses >=
# says: If scores are equal, the first one wins.
# earns: 1 of 2
# corner: equal values
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, better=lambda s, best: s >= best)


# %% wrong: compares with not s <= best
# says: NaN must never win (and all-NaN is a ValueError): every comparison with NaN is False - check which way round
# earns: 1 of 2
# corner: nan
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError
    was, best, state = model.training, -math.inf, None
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if not s <= best:
            best, state = s, cloned(model)
    model.train(was)
    model.load_state_dict(state)
    return best, state


# %% wrong: the first score is taken without looking at it
# says: NaN must never win
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError
    was, best, state = model.training, None, None
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if best is None or s > best:
            best, state = s, cloned(model)
    model.train(was)
    model.load_state_dict(state)
    return best, state


# %% wrong: max over all scores, NaN included
# says: NaN must never win
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError
    was, history = model.training, []
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            history.append((score(model.eval()), cloned(model)))
    model.train(was)
    best, state = max(history, key=lambda pair: pair[0])
    model.load_state_dict(state)
    return best, state


# %% wrong: starts from minus infinity
# says: Minus infinity is a score like any other
# earns: 1 of 2
# corner: nan
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    was, best, state = model.training, -math.inf, None
    if steps < 1:
        raise ValueError
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if s > best:
            best, state = s, cloned(model)
    model.train(was)
    if state is None:
        raise ValueError("NaN only")
    model.load_state_dict(state)
    return best, state


# %% wrong: starts from 0
# says: There was no snapshot to load
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, start=0.0)


# %% wrong: all NaN returns None
# says: NaN must never win (and all-NaN is a ValueError)
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    try:
        return kept(model, train_step, score, steps)
    except ValueError:
        if steps < 1:
            raise
        return None


# %% wrong: all NaN puts the first weights back
# says: The weights must then stay as they are.
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    first = cloned(model)
    try:
        return kept(model, train_step, score, steps)
    except ValueError:
        model.load_state_dict(first)
        raise


# %% wrong: no look at steps
# says: Steps < 1 must raise a ValueError.
# earns: 1 of 2
# corner: empty
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps) if steps else (None, {})


# %% wrong: refuses a single step
# says: steps=1 is allowed.
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps <= 1:
        raise ValueError
    return kept(model, train_step, score, steps)


# %% wrong: the snapshot is made of Parameters
# says: The snapshot's tensors must not require grad
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, snapshot=lambda model: copy.deepcopy(model.state_dict(keep_vars=True)))


# %% wrong: the state before the step
# says: The snapshot is not the state of the best step.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    before = {}

    def stepping(model):
        before.clear()
        before.update(cloned(model))
        train_step(model)

    return kept(model, stepping, score, steps, snapshot=lambda model: dict(before))


# %% wrong: scores before it trains
# says: train_step and score must run in turn
# says: Score ran with gradient tracking.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, lambda model: (train_step(model), train_step(model)), score, steps)


# %% wrong: trains a copy
# says: train_step and score get the model itself, not a copy.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    other = copy.deepcopy(model)
    result = kept(model, lambda m: train_step(other.train()), lambda m: score(other.eval()), steps)
    return result


# %% wrong: the lowest score
# says: The first item of the result must be the best score.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    return kept(model, train_step, score, steps, better=lambda s, best: s < best)


# %% wrong: returns the model
# says: Return a pair: the best score and the snapshot.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    kept(model, train_step, score, steps)
    return model


# %% wrong: returns the pair the wrong way round
# says: The snapshot must be a dict from the names of the state_dict to tensors.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    best, state = kept(model, train_step, score, steps)
    return state, best


# %% right: a copy of the whole model; starts from NaN
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("no steps")
    was, best, keeper = model.training, math.nan, None
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if s > best or (math.isnan(best) and not math.isnan(s)):
            best, keeper = s, copy.deepcopy(model)
    model.train(was)
    if keeper is None:
        raise ValueError("NaN only")
    model.load_state_dict(keeper.state_dict())
    return best, keeper.state_dict()


# %% wrong: looks at steps == 0 only
# says: Steps < 1 must raise a ValueError.
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 0:
        return None, {}
    return kept(model, train_step, score, steps)


# %% wrong: stops when the score falls
# says: train_step and score must run in turn, once each for every step.
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("no steps")
    was, best, state, fallen = model.training, None, None, 0
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if s == s and (best is None or s > best):
            best, state = s, cloned(model)
        fallen += s < best if best is not None else 0
        if fallen:
            break
    model.train(was)
    if best is None:
        raise ValueError("NaN only")
    model.load_state_dict(state)
    return best, state


# %% wrong: without what is frozen
# says: Frozen parameters are also in the state_dict
# earns: 1 of 2
# corner: members
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("no steps")
    training, best, kept = model.training, None, {}
    for _ in range(steps):
        model.train()
        train_step(model)
        model.eval()
        with torch.no_grad():
            s = score(model)
        if s == s and (best is None or s > best):
            frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
            best, kept = s, {n: t.clone() for n, t in model.state_dict().items() if n not in frozen}
    model.train(training)
    if best is None:
        raise ValueError("nothing but NaN")
    model.load_state_dict(kept, strict=False)
    return best, kept


# %% wrong: score without eval
# says: `score` ran in train mode: dropout and batch norm would make it depend on chance and on the batch.
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("steps")
    training, best, state = model.training, None, None
    for _ in range(steps):
        model.train()
        train_step(model)
        with torch.no_grad():
            s = score(model)
        if s == s and (best is None or s > best):
            best, state = s, copy.deepcopy(model.state_dict())
    model.train(training)
    if best is None:
        raise ValueError("nan")
    model.load_state_dict(state)
    return best, state


# %% wrong: train() once, before the loop
# says: `train_step` ran in eval mode: dropout and batch norm don't train then. Call model.train() before
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("steps")
    training, best, state = model.training, None, None
    model.train()
    for _ in range(steps):
        train_step(model)
        model.eval()
        with torch.no_grad():
            s = score(model)
        if s == s and (best is None or s > best):
            best, state = s, copy.deepcopy(model.state_dict())
    model.train(training)
    if best is None:
        raise ValueError("nan")
    model.load_state_dict(state)
    return best, state


# %% wrong: ends in train mode
# says: The model does not have the training flag that it had at the start: store model.training first, and
# earns: 1 of 2
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("steps")
    best, state = None, None
    for _ in range(steps):
        model.train()
        train_step(model)
        model.eval()
        with torch.no_grad():
            s = score(model)
        if s == s and (best is None or s > best):
            best, state = s, copy.deepcopy(model.state_dict())
        model.train()
    if best is None:
        raise ValueError("nan")
    model.load_state_dict(state)
    return best, state


# %% wrong: the first weight stays as it was trained last
# says: At the end the model must have the state of the best step.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    def restore(model, state):
        first = next(iter(state))
        model.load_state_dict({name: value for name, value in state.items() if name != first}, strict=False)

    return kept(model, train_step, score, steps, restore=restore)


# %% wrong: looks at steps after the first one
# says: With steps < 1 nothing may run.
# earns: 1 of 2
# corner: empty
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        model.train()
        train_step(model)
    return kept(model, train_step, score, steps)


# %% wrong: raises for one NaN
# says: One of the scores is NaN and the others are numbers, so there is a best step, but it raised.
# earns: 1 of 2
# corner: nan
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    def number(model):
        value = score(model)
        if math.isnan(value):
            raise ValueError("a score is NaN")
        return value

    return kept(model, train_step, number, steps)


# %% wrong: a NaN that comes first stays the best score
# says: One of the scores is NaN and the others are numbers, so there is a best step, but it raised.
# earns: 1 of 2
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("no steps")
    was, best, state = model.training, None, None
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if best is None or s > best:
            best, state = s, cloned(model)
    model.train(was)
    if math.isnan(best):
        raise ValueError("NaN only")
    model.load_state_dict(state)
    return best, state


# %% wrong: refuses every number of steps that it should accept
# says: It raised a ValueError although there is a best step.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    if steps >= 1:
        raise ValueError("steps must be at least 1")
    return kept(model, train_step, score, 1)


# %% right: keeps all states and lets NumPy choose
def fit_keep_best(model, train_step, score, steps):
    if steps < 1:
        raise ValueError("steps")
    was, scores, states = model.training, [], []
    for _ in range(steps):
        model.train()
        train_step(model)
        model.eval()
        with torch.no_grad():
            scores.append(score(model))
        states.append(cloned(model))
    model.train(was)
    if np.isnan(scores).all():
        raise ValueError("NaN only")
    best = np.nanmax(scores)
    state = states[scores.index(best)]
    model.load_state_dict(state)
    return best, state


# %% wrong: nanargmax, which takes NaN for minus infinity
# says: Minus infinity is a score like any other
# earns: 1 of 2
# corner: nan
# caught: hidden
def fit_keep_best(model, train_step, score, steps):
    scores, states = [], []

    def noted(model):
        scores.append(score(model))
        states.append(cloned(model))
        return scores[-1]

    best, _ = kept(model, train_step, noted, steps)
    state = states[np.nanargmax(scores)]
    model.load_state_dict(state)
    return best, state


# %% wrong: the best score as a tensor
# says: The best score came back as a Tensor. Return it as the number that `score` gave.
# earns: 0 of 2
def fit_keep_best(model, train_step, score, steps):
    best, state = kept(model, train_step, score, steps)
    return torch.tensor(best), state
