# %% right: copies into the tensors of model.state_dict()
# The tensors in a state_dict share memory with the model, so copying into them loads it. `copy_` converts dtypes and
# devices, as load_state_dict does, but no load_state_dict hook is called.
class LoadReport(NamedTuple):
    """What was loaded and what wasn't."""

    loaded: list[str]
    missing: list[str]
    unexpected: list[str]
    mismatched: dict[str, tuple[torch.Size, torch.Size]]


def load_matching(model, state):
    """Copies what fits, one tensor after the other."""
    own = model.state_dict()
    report = LoadReport([], sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys()), {})
    with torch.no_grad():
        for name in sorted(own.keys() & state.keys()):
            if own[name].shape == state[name].shape:
                own[name].copy_(state[name])
                report.loaded.append(name)
            else:
                report.mismatched[name] = (state[name].shape, own[name].shape)
    return report


# %% wrong: strict=False alone
# says: strict=False does not forgive a wrong shape: load_state_dict still raises. Filter before loading.
# The option is about names. A wrong shape stays an error.
class LoadReport(NamedTuple):
    """What was loaded and what wasn't."""

    loaded: list[str]
    missing: list[str]
    unexpected: list[str]
    mismatched: dict[str, tuple[torch.Size, torch.Size]]


def load_matching(model, state):
    """Lets load_state_dict decide."""
    missing, unexpected = model.load_state_dict(state, strict=False)
    loaded = sorted(set(model.state_dict()) & set(state))
    return LoadReport(loaded, sorted(missing), sorted(unexpected), {})
