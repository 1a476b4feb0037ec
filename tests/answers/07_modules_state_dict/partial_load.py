# corners: members, half precision, second name

import copy
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn


class LoadReport(NamedTuple):
    loaded: list[str]
    missing: list[str]
    unexpected: list[str]
    mismatched: dict[str, tuple[torch.Size, torch.Size]]


def report_of(own, state, fits=lambda a, b: a.shape == b.shape):
    """The right report."""
    common = sorted(own.keys() & state.keys())
    return LoadReport(
        [name for name in common if fits(own[name], state[name])],
        sorted(own.keys() - state.keys()),
        sorted(state.keys() - own.keys()),
        {name: (state[name].shape, own[name].shape) for name in common if not fits(own[name], state[name])},
    )


def load_fitting(model, state, report):
    model.load_state_dict({name: state[name] for name in report.loaded}, strict=False)


# %% right: copy_ into the tensors of model.state_dict()
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    with torch.no_grad():
        for name in report.loaded:
            own[name].copy_(state[name])
    return report


# %% right: key sets, tuple shapes, a completed dict loaded strictly
def load_matching(model, state):
    own = model.state_dict()
    shapes = {name: tuple(tensor.size()) for name, tensor in own.items()}
    loaded, unexpected, mismatched = [], [], {}
    complete = {name: tensor.clone() for name, tensor in own.items()}
    for name in sorted(state):
        if name not in own:
            unexpected.append(name)
        elif tuple(state[name].size()) != shapes[name]:
            mismatched[name] = (tuple(state[name].size()), shapes[name])
        else:
            loaded.append(name)
            complete[name] = state[name]
    model.load_state_dict(complete)
    missing = sorted(set(own) - set(state))
    return LoadReport(loaded=loaded, missing=missing, unexpected=unexpected, mismatched=mismatched)


# %% right: in-place copies into parameters and persistent buffers by name
def load_matching(model, state):
    own = model.state_dict(keep_vars=True)
    report = report_of(own, state)
    for name in report.loaded:
        own[name].data.copy_(state[name].detach())
    return report


# %% right: a deep copy of the checkpoint from which the rest is popped
def load_matching(model, state):
    own, rest = model.state_dict(), copy.deepcopy(dict(state))
    report = LoadReport([], [], [], {})
    for name in sorted({*own, *rest}):
        if name not in rest:
            report.missing.append(name)
        elif name not in own:
            report.unexpected.append(name)
            rest.pop(name)
        elif own[name].shape != rest[name].shape:
            report.mismatched[name] = (rest.pop(name).shape, own[name].shape)
        else:
            report.loaded.append(name)
    model.load_state_dict(rest, strict=False)
    return report


# %% wrong: load_state_dict(strict=False) alone
# says: strict=False does not forgive a wrong shape: load_state_dict still raises. Filter before loading.
# earns: 0 of 3
# lesson
def load_matching(model, state):
    missing, unexpected = model.load_state_dict(state, strict=False)
    loaded = sorted(set(model.state_dict()) & set(state))
    return LoadReport(loaded, sorted(missing), sorted(unexpected), {})


# %% wrong: catches the error of the wrong shape
# says: Return a LoadReport
# earns: 0 of 3
# lesson
def load_matching(model, state):
    try:
        model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        return str(error)


# %% wrong: compares element counts and reshapes
# says: Same number of elements is not the same shape: (2, 6) or (4, 3) must not be squeezed into (3, 4).
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state, fits=lambda a, b: a.numel() == b.numel())
    with torch.no_grad():
        for name in report.loaded:
            own[name].copy_(state[name].reshape(own[name].shape))
    return report


# %% wrong: compares numbers of dimensions
# says: Names and tensors must fit
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state, fits=lambda a, b: a.dim() == b.dim())
    with torch.no_grad():
        for name in report.loaded:
            own[name].copy_(state[name])
    return report


# %% wrong: copies whatever broadcasts
# says: copy_ broadcasts: a smaller tensor was spread over other.weight, without an error. Compare the
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    own = model.state_dict()

    def fits(a, b):
        try:
            return torch.broadcast_shapes(a.shape, b.shape) == a.shape
        except RuntimeError:
            return False

    report = report_of(own, state, fits)
    for name in report.loaded:
        own[name].copy_(state[name].detach())
    return report


# %% wrong: mismatched names also listed as missing
# says: A mismatched name must not also appear under missing or unexpected.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(missing=sorted([*report.missing, *report.mismatched]))


# %% wrong: takes missing from what load_state_dict returns for the filtered dict
# says: A mismatched name must not also appear under missing or unexpected.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    missing, _ = model.load_state_dict({name: state[name] for name in report.loaded}, strict=False)
    return report._replace(missing=sorted(missing))


# %% wrong: the same, without the mismatched ones
# says: load_state_dict supplies num_batches_tracked on its own when an old checkpoint lacks it
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    missing, _ = model.load_state_dict({name: state[name] for name in report.loaded}, strict=False)
    return report._replace(missing=sorted(set(missing) - set(report.mismatched)))


# %% wrong: mismatched names also listed as loaded
# says: Mismatched entries belong under `mismatched` only.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(loaded=sorted([*report.loaded, *report.mismatched]))


# %% wrong: missing and unexpected exchanged
# says: Missing and unexpected are exchanged
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(missing=report.unexpected, unexpected=report.missing)


# %% wrong: deletes entries from the argument
# says: The checkpoint dict was changed; work on a copy.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    for name in [*report.unexpected, *report.mismatched]:
        del state[name]
    model.load_state_dict(state, strict=False)
    return report


# %% wrong: casts the entries of the argument
# says: The checkpoint dict was changed; work on a copy.
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    for name in report.loaded:
        if state[name].dtype != own[name].dtype:
            state[name] = state[name].to(own[name].dtype)
    load_fitting(model, state, report)
    return report


# %% wrong: sets new Parameters
# says: The Parameter objects were replaced: an optimizer that was built before still has the old ones. Copy in place.
# earns: 0 of 3
# lesson
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    for name in report.loaded:
        owner, _, kind = name.rpartition(".")
        module = model.get_submodule(owner)
        old = getattr(module, kind)
        value = state[name].detach().to(old.dtype).clone()
        setattr(module, kind, nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value)
    return report


# %% wrong: assigns .data
# says: Model and checkpoint now share memory: training would change the checkpoint.
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict(keep_vars=True)
    report = report_of(own, state)
    for name in report.loaded:
        own[name].data = state[name].to(own[name].dtype)
    return report


# %% wrong: load_state_dict(assign=True)
# says: The Parameter objects were replaced
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    model.load_state_dict({name: state[name] for name in report.loaded}, strict=False, assign=True)
    return report


# %% wrong: compares with named_parameters()
# says: Buffers (running_mean ...) are also part of a checkpoint.
# says: Not loaded, although name and shape fit: 1.running_mean.
# earns: 0 of 3
# lesson
def load_matching(model, state):
    report = report_of(dict(model.named_parameters()), state)
    load_fitting(model, state, report)
    return report


# %% wrong: non-persistent buffers are missing
# says: A non-persistent buffer is not in model.state_dict()
# earns: 2 of 3
# corner: members
# caught: hidden
def load_matching(model, state):
    own = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    report = report_of(own, state)
    with torch.no_grad():
        for name in report.loaded:
            own[name].copy_(state[name])
    return report


# %% wrong: shared weights under one name only
# says: `missing` or `unexpected` is not right.
# earns: 2 of 3
# corner: second name
# caught: hidden
def load_matching(model, state):
    saved = model.state_dict()
    own = dict(model.named_parameters()) | {n: b for n, b in model.named_buffers() if n in saved}
    report = report_of(own, state)
    with torch.no_grad():
        for name in report.loaded:
            own[name].copy_(state[name])
    return report


# %% wrong: shapes the wrong way round
# says: Names sorted, shapes as (checkpoint, model).
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(mismatched={name: pair[::-1] for name, pair in report.mismatched.items()})


# %% wrong: names in the order of the model
# says: Names sorted, shapes as (checkpoint, model).
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    load_fitting(model, state, report)
    return report._replace(loaded=[name for name in own if name in report.loaded])


# %% wrong: missing in the order of the model
# says: Names sorted, shapes as (checkpoint, model).
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    load_fitting(model, state, report)
    return report._replace(missing=[name for name in own if name in report.missing])


# %% wrong: mismatched in the order of the model
# says: Names sorted, shapes as (checkpoint, model).
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    load_fitting(model, state, report)
    return report._replace(mismatched={n: report.mismatched[n] for n in own if n in report.mismatched})


# %% wrong: reports and loads nothing
# says: Not loaded, although name and shape fit
# earns: 0 of 3
def load_matching(model, state):
    return report_of(model.state_dict(), state)


# %% wrong: loads parameters, reports buffers too
# says: Not loaded, although name and shape fit: norm.num_batches_tracked
# says: Not loaded, although name and shape fit: 1.running_mean.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    names = {name for name, _ in model.named_parameters()}
    model.load_state_dict({name: state[name] for name in report.loaded if name in names}, strict=False)
    return report


# %% wrong: the head begins anew
# says: What does not fit must keep its values; changed: head
# says: After loading, a step of training changes nothing in 0.weight, 1.weight.
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    load_fitting(model, state, report)
    for name in report.mismatched:
        own[name].zero_()
    return report


# %% wrong: cuts the head to size
# says: What does not fit must keep its values; changed: head
# says: Names and tensors must fit: your code raised RuntimeError: The expanded size of
# earns: 0 of 3
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    load_fitting(model, state, report)
    for name in report.mismatched:
        if own[name].dim() == state[name].dim() and own[name].dim():
            length = min(len(own[name]), len(state[name]))
            own[name][:length] = state[name][:length]
    return report


# %% wrong: takes over the dtype of the checkpoint
# says: The dtype must stay the model's
# earns: 2 of 3
# corner: half precision
# caught: hidden
def load_matching(model, state):
    own = model.state_dict(keep_vars=True)
    report = report_of(own, state)
    for name in report.loaded:
        own[name].data = state[name].detach().clone()
    return report


# %% wrong: freezes what was loaded
# says: requires_grad of the model's parameters must not change.
# says: After loading, a step of training changes nothing in 0.weight, 1.weight.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in report.loaded)
    return report


# %% wrong: a dict in place of the LoadReport
# says: Return a LoadReport
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._asdict()


# %% wrong: mismatched as a list
# says: Return a LoadReport; its field mismatched must be a dict.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(mismatched=list(report.mismatched))


# %% wrong: sets of names
# says: Return a LoadReport; its field loaded must be a list.
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(loaded=set(report.loaded))


# %% wrong: one shape in place of the pair
# says: Names sorted, shapes as (checkpoint, model).
# earns: 0 of 3
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report._replace(mismatched={name: 5 for name in report.mismatched})


# %% wrong: loads and returns nothing
# says: Return the LoadReport.
# earns: 0 of 3
def load_matching(model, state):
    load_fitting(model, state, report_of(model.state_dict(), state))


# %% right: per name, through load_state_dict; a report of another class
def load_matching(model, state):
    report = report_of(model.state_dict(), state)
    for name in report.loaded:
        model.load_state_dict({name: state[name]}, strict=False)
    return SimpleNamespace(**report._asdict())


# %% wrong: transposes what fits the other way round
# says: Same number of elements is not the same shape: (2, 6) or (4, 3) must not be squeezed into (3, 4).
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state, fits=lambda a, b: sorted(a.shape) == sorted(b.shape))
    for name in report.loaded:
        own[name].copy_(state[name].reshape(own[name].shape))
    return report


# %% wrong: takes another dtype for a mismatch
# says: A name is in exactly one group
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    report = report_of(model.state_dict(), state, fits=lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype))
    load_fitting(model, state, report)
    return report


# %% wrong: loads into a copy
# says: Not loaded, although name and shape fit
# earns: 0 of 3
def load_matching(model, state):
    model = copy.deepcopy(model)
    report = report_of(model.state_dict(), state)
    load_fitting(model, state, report)
    return report


# %% wrong: copy_ and see what raises
# says: copy_ broadcasts: a smaller tensor was spread over other.weight, without an error. Compare the
# earns: 2 of 3
# caught: hidden
def load_matching(model, state):
    own = model.state_dict()
    loaded, mismatched = [], {}
    with torch.no_grad():
        for name in sorted(own.keys() & state.keys()):
            try:
                own[name].copy_(state[name])
                loaded.append(name)
            except RuntimeError:
                mismatched[name] = (state[name].shape, own[name].shape)
    return LoadReport(loaded, sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys()), mismatched)


# %% wrong: copies through NumPy
# says: NumPy has no bfloat16
# earns: 2 of 3
# corner: half precision
# caught: hidden
def load_matching(model, state):
    own = model.state_dict()
    report = report_of(own, state)
    for name in report.loaded:
        own[name].copy_(torch.from_numpy(state[name].detach().cpu().numpy()))
    return report


# %% right: new memory behind the same parameter objects
def load_matching(model, state):
    own = model.state_dict(keep_vars=True)
    report = report_of(own, state)
    for name in report.loaded:
        own[name].data = state[name].detach().to(own[name], copy=True)
    return report
