# %% right: a copy of the whole model
# deepcopy also copies what is not in the state_dict, such as hooks and buffers that are not persistent, at every new
# best score. In the end only the state_dict of the copy is used. The gradients of the parameters are not copied.
import copy


def fit_keep_best(model, train_step, score, steps):
    """Train for some steps, and go back to the best model."""
    if steps < 1:
        raise ValueError("steps must be at least 1")
    training, best, keeper = model.training, math.nan, None
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if s > best or (math.isnan(best) and not math.isnan(s)):
            best, keeper = s, copy.deepcopy(model)
    model.train(training)
    if keeper is None:
        raise ValueError("all scores are NaN")
    model.load_state_dict(keeper.state_dict())
    return best, keeper.state_dict()


# %% wrong: clones the parameters only
# says: The batch-norm statistics are also part of the best state; parameters alone are not enough.
# The model ends with the weights of the best step and the batch-norm statistics of the last step, a combination that
# was never scored.
def fit_keep_best(model, train_step, score, steps):
    """Goes back with half of the state."""
    if steps < 1:
        raise ValueError("steps must be at least 1")
    training, best, state = model.training, None, {}
    for _ in range(steps):
        train_step(model.train())
        with torch.no_grad():
            s = score(model.eval())
        if not math.isnan(s) and (best is None or s > best):
            best = s
            state = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.train(training)
    if best is None:
        raise ValueError("all scores are NaN")
    model.load_state_dict(state, strict=False)
    return best, state
