# corners: caller's modes
import copy
import gc

import torch
import torch.nn.functional as F


def evaluate(model, batches):
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    return total / len(batches)


def first_features(model, batches):
    with torch.no_grad():
        return [model(x)[:, 0].clone() for x, _ in batches]


def chain(error, found=None):
    found = [] if found is None else found
    if error is not None and all(error is not one for one in found):
        found.append(error)
        chain(error.__cause__, found)
        chain(error.__context__, found)
    return found


def keep(error):
    for one in chain(error):
        one.__traceback__ = None
    return error


def train(model, optimizer, batches, keep=keep, caught=RuntimeError):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except caught as error:
            optimizer.zero_grad()
            failed[number] = keep(error)
    return failed


def sizes(model, x):
    found, handles = [], []
    for child in model.children():
        hook = lambda module, args, out: found.append(out.abs().mean().item())  # noqa: E731
        handles.append(child.register_forward_hook(hook))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% right: item; inference mode and a copy outside; a new error; a stack in finally
def evaluate(model, batches):
    losses = []
    for x, y in batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
        losses.append(loss)
    return sum(losses) / len(losses)


def first_features(model, batches):
    features = []
    for x, _ in batches:
        with torch.inference_mode():
            out = model(x)
        features.append(torch.empty_like(out[:, 0]).copy_(out[:, 0]))
    return features


def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        known = None
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            known = type(error), error.args
        loss = None
        if known:
            failed[number] = known[0](*known[1])
    return failed


def sizes(model, x):
    import contextlib

    found = []
    with contextlib.ExitStack() as stack, torch.no_grad():
        for child in model.children():
            stack.enter_context(child.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item())))
        model(x)
    return found


# %% right: detach; a list of rows; clear_frames
def evaluate(model, batches):
    total = torch.zeros(())
    for x, y in batches:
        total = total + F.cross_entropy(model(x).flatten(0, 1), y.flatten()).detach()
    return float(total / len(batches))


def first_features(model, batches):
    return [model(x).detach()[:, 0].clone() for x, _ in batches]


def train(model, optimizer, batches):
    import traceback

    def clear(error):
        for one in chain(error):
            traceback.clear_frames(one.__traceback__)
            one.__traceback__ = None
            one.__cause__ = one.__context__ = None
        return error

    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            failed[number] = clear(error)
    return failed


# %% right: mul by one copies; an error with_traceback(None) and no chain
def first_features(model, batches):
    with torch.no_grad():
        return [model(x)[:, 0] * 1 for x, _ in batches]


def train(model, optimizer, batches):
    def lone(error):
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)

    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            failed[number] = lone(error)
    return failed


# %% right: zero_grad in finally; forward replaced and put back
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        try:
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = keep(error)
        finally:
            optimizer.zero_grad(set_to_none=False)
    return failed


def sizes(model, x):
    found, children = [], list(model.children())
    for c in children:

        def forward(*args, inner=c.forward):
            out = inner(*args)
            found.append(out.abs().mean().item())
            return out

        c.forward = forward
    try:
        with torch.no_grad():
            model(x)
    finally:
        for c in children:
            del c.forward
    return found


# %% right: evaluate, a list of numbers on the device, read once
def evaluate(model, batches):
    with torch.no_grad():
        losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in batches]
        return torch.stack(losses).mean().item()


# %% wrong: all as given
# says: evaluate: the sum keeps the graph of every batch alive.
# says: what you keep owns more memory than it shows
# says: train: the errors that you keep also keep the failed batches alive.
# says: sizes: a hook stays until its handle's remove().
# earns: 0 of 2
# lesson
def evaluate(model, batches):
    total = 0
    for x, y in batches:
        total = total + F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    return (total / len(batches)).item()


def first_features(model, batches):
    features = []
    for x, _ in batches:
        features.append(model(x)[:, 0].detach())
    return features


def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = error
    return failed


def sizes(model, x):
    outputs = []
    for layer in model.children():
        layer.register_forward_hook(lambda module, args, out: outputs.append(out))
    with torch.no_grad():
        model(x)
    return [out.abs().mean().item() for out in outputs]


# %% wrong: evaluate, a list and stack
# says: evaluate: the sum keeps the graph of every batch alive.
# earns: 1.5 of 2
def evaluate(model, batches):
    losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in batches]
    return torch.stack(losses).mean().item()


# %% wrong: evaluate, eval() only
# says: evaluate: the sum keeps the graph of every batch alive.
# earns: 1.5 of 2
def evaluate(model, batches):
    model.eval()
    total = 0
    for x, y in batches:
        total = total + F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    return (total / len(batches)).item()


# %% wrong: evaluate, del and gc.collect
# says: evaluate: the sum keeps the graph of every batch alive.
# earns: 1.5 of 2
def evaluate(model, batches):
    total = 0
    for x, y in batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        total = total + loss
        del loss
        gc.collect()
    return (total / len(batches)).item()


# %% wrong: evaluate, all outputs under no_grad
# says: The peak of evaluate grows with the number of batches
# earns: 1.5 of 2
def evaluate(model, batches):
    with torch.no_grad():
        outs = [model(x).flatten(0, 1) for x, _ in batches]
        losses = [F.cross_entropy(out, y.flatten()).item() for out, (_, y) in zip(outs, batches)]
    return sum(losses) / len(losses)


# %% wrong: evaluate, gradients off for good
# says: evaluate: grad mode, training flags and requires_grad must afterwards be what they were before.
# earns: 1.5 of 2
# caught: hidden
def evaluate(model, batches):
    torch.set_grad_enabled(False)
    return sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches) / len(batches)


# %% wrong: evaluate, gradients off and then on
# says: evaluate: grad mode, training flags and requires_grad must afterwards be what they were before.
# earns: 1.5 of 2
# corner: caller's modes
# caught: hidden
def evaluate(model, batches):
    torch.set_grad_enabled(False)
    value = sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches) / len(batches)
    torch.set_grad_enabled(True)
    return value


# %% wrong: evaluate, eval and then train
# says: evaluate: grad mode, training flags and requires_grad must afterwards be what they were before.
# earns: 1.5 of 2
# corner: caller's modes
# caught: hidden
def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        value = sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches) / len(batches)
    model.train()
    return value


# %% wrong: evaluate, in eval mode, which is put back
# says: `evaluate` must return the mean of the batches' losses, as it does now
# earns: 1.5 of 2
# caught: hidden
def evaluate(model, batches):
    flags = [m.training for m in model.modules()]
    model.eval()
    with torch.no_grad():
        value = sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches) / len(batches)
    for m, flag in zip(model.modules(), flags):
        m.training = flag
    return value


# %% wrong: evaluate, switches requires_grad off
# says: evaluate: grad mode, training flags and requires_grad must afterwards be what they were before.
# earns: 1.5 of 2
# caught: hidden
def evaluate(model, batches):
    model.requires_grad_(False)
    return sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches) / len(batches)


# %% wrong: evaluate, weighted by the number of targets
# says: `evaluate` must return the mean of the batches' losses, as it does now
# earns: 1.5 of 2
def evaluate(model, batches):
    with torch.no_grad():
        total = sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item() for x, y in batches)
    return total / sum(y.numel() for _, y in batches)


# %% wrong: evaluate, frees the graphs with backward
# says: evaluate: a parameter has a gradient now.
# earns: 1.5 of 2
def evaluate(model, batches):
    total = 0.0
    for x, y in batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        if loss.requires_grad:
            loss.backward()
        total += loss.item()
    return total / len(batches)


# %% wrong: evaluate, gives a tensor
# says: `evaluate` must return a float.
# earns: 1.5 of 2
def evaluate(model, batches):
    with torch.no_grad():
        return sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in batches) / len(batches)


# %% wrong: first_features, no_grad only
# says: what you keep owns more memory than it shows
# earns: 1.5 of 2
# lesson
def first_features(model, batches):
    with torch.no_grad():
        return [model(x)[:, 0] for x, _ in batches]


# %% wrong: first_features, clone without no_grad
# says: first_features: the features keep a graph alive.
# earns: 1.5 of 2
def first_features(model, batches):
    return [model(x)[:, 0].clone() for x, _ in batches]


# %% wrong: first_features, clones the whole, then the row
# says: what you keep owns more memory than it shows
# earns: 1.5 of 2
def first_features(model, batches):
    with torch.no_grad():
        return [model(x).clone()[:, 0] for x, _ in batches]


# %% wrong: first_features, deepcopy of the row
# says: what you keep owns more memory than it shows
# earns: 1.5 of 2
def first_features(model, batches):
    with torch.no_grad():
        return [copy.deepcopy(model(x)[:, 0]) for x, _ in batches]


# %% wrong: first_features, contiguous()
# says: first_features: in a batch of one the row is contiguous already
# earns: 1.5 of 2
# caught: hidden
def first_features(model, batches):
    with torch.no_grad():
        return [model(x)[:, 0].contiguous() for x, _ in batches]


# %% wrong: first_features, reshape
# says: what you keep owns more memory than it shows
# earns: 1.5 of 2
def first_features(model, batches):
    with torch.no_grad():
        return [model(x)[:, 0].reshape(len(x), -1) for x, _ in batches]


# %% wrong: first_features, one position of the input
# says: first_features: the numbers are not those that it returns now.
# earns: 1.5 of 2
# caught: hidden
def first_features(model, batches):
    with torch.no_grad():
        return [model(x[:, :1])[:, 0].clone() for x, _ in batches]


# %% wrong: first_features, all in one tensor that is split
# says: what you keep owns more memory than it shows
# earns: 1.5 of 2
def first_features(model, batches):
    with torch.no_grad():
        rows = [model(x)[:, 0].clone() for x, _ in batches]
    return list(torch.cat(rows).split([len(x) for x, _ in batches]))


# %% wrong: first_features, by way of lists
# says: first_features: lengths, shapes and dtypes must be those that it returns now.
# earns: 1.5 of 2
# caught: hidden
def first_features(model, batches):
    with torch.no_grad():
        return [torch.tensor(model(x)[:, 0].tolist()) for x, _ in batches]


# %% wrong: first_features, inference mode around all
# says: first_features: the features cannot be used in training later.
# earns: 1.5 of 2
def first_features(model, batches):
    with torch.inference_mode():
        return [model(x)[:, 0].clone() for x, _ in batches]


# %% wrong: first_features, in eval mode
# says: first_features: grad mode and training flags must be what they were before.
# earns: 1.5 of 2
# caught: hidden
def first_features(model, batches):
    model.eval()
    with torch.no_grad():
        return [model(x)[:, 0].clone() for x, _ in batches]


# %% wrong: first_features, gradients off and then on
# says: first_features: grad mode and training flags must be what they were before.
# earns: 1.5 of 2
# corner: caller's modes
# caught: hidden
def first_features(model, batches):
    torch.set_grad_enabled(False)
    features = [model(x)[:, 0].clone() for x, _ in batches]
    torch.set_grad_enabled(True)
    return features


# %% wrong: first_features, train() at the end
# says: first_features: grad mode and training flags must be what they were before.
# earns: 1.5 of 2
# corner: caller's modes
# caught: hidden
def first_features(model, batches):
    with torch.no_grad():
        features = [model(x)[:, 0].clone() for x, _ in batches]
    model.train()
    return features


# %% wrong: train, gc.collect
# says: train: the errors that you keep also keep the failed batches alive.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = error
            gc.collect()
    return failed


# %% wrong: train, str(error)
# says: `train` must return a dict of the errors by the number of their batch
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = str(error)
    return failed


# %% wrong: train, clears its own variables only
# says: train: the errors that you keep also keep the failed batches alive.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        loss = None
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = error
            del x, y, loss
    return failed


# %% wrong: train, clear_frames alone, which can't clear the frame of train
# says: train: x and y of a failed batch are still alive after the caller has let go of its list.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    import traceback

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()

    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            step(x, y)
        except RuntimeError as error:
            optimizer.zero_grad()
            for one in chain(error):
                traceback.clear_frames(one.__traceback__)
            failed[number] = error
    return failed


# %% wrong: train, with_traceback(None) on the outer error
# says: train: an error also refers to the error from which it was raised
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = error.with_traceback(None)
    return failed


# %% wrong: train, follows __cause__ only
# says: train: an error also refers to the error from which it was raised
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            one = error
            while one is not None:
                one.__traceback__ = None
                one = one.__cause__
            failed[number] = error
    return failed


# %% wrong: train, follows __context__ only
# says: train: an error also refers to the error from which it was raised
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        try:
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            one = error
            while one is not None:
                one.__traceback__ = None
                one = one.__context__
            failed[number] = error
    return failed


# %% wrong: train, the cause or else the context
# says: train: an error also refers to the error from which it was raised
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            one = error
            while one is not None:
                one.__traceback__ = None
                one = one.__cause__ or one.__context__
            failed[number] = error
    return failed


# %% wrong: train, one level only
# says: train: an error also refers to the error from which it was raised
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            for one in (error, error.__cause__, error.__context__):
                if one is not None:
                    one.__traceback__ = None
            failed[number] = error
    return failed


# %% wrong: train, five levels only
# says: train: an error also refers to the error from which it was raised
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    def bare(error):
        level = [error]
        for _ in range(5):
            for one in level:
                one.__traceback__ = None
            level = [next_one for one in level for next_one in (one.__cause__, one.__context__) if next_one]
        return error

    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            failed[number] = bare(error)
    return failed


# %% wrong: train, only the forward pass inside try
# says: train: an error from backward came out.
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            out = model(x)
        except RuntimeError as error:
            failed[number] = keep(error)
            continue
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return failed


# %% wrong: train, zero_grad after the step
# says: train: gradients that a failed backward had made went into a step
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        except RuntimeError as error:
            failed[number] = keep(error)
    return failed


# %% wrong: train, clears gradients after a failure only
# says: train: of two good batches in a row, the second one's gradients were added to those of the first.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            failed[number] = keep(error)
    return failed


# %% wrong: train, the gradients of a failed batch stay
# says: train: gradients of a batch whose backward failed are still in .grad
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = keep(error)
    return failed


# %% wrong: train, a list of losses outside the function
# says: train: the graph of a good batch is still alive.
# earns: 1.5 of 2
LOG = []


def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            LOG.append(loss)
        except RuntimeError as error:
            optimizer.zero_grad()
            failed[number] = keep(error)
    return failed


# %% wrong: train, the last output on the model
# says: train: the graph of a good batch is still alive.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            model.last_out = model(x)
            loss = F.cross_entropy(model.last_out.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            failed[number] = keep(error)
    return failed


# %% wrong: train, train() first
# says: train: grad mode and training flags must be what they were before.
# earns: 1.5 of 2
# corner: caller's modes
given = train


def train(model, optimizer, batches):
    model.train()
    return given(model, optimizer, batches)


# %% wrong: train, no try
# says: Your code raised RuntimeError: ('no room', 7).
# earns: 1.5 of 2
def train(model, optimizer, batches):
    for x, y in batches:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {}


# %% wrong: train, a new error from the old
# says: train: the errors that you keep also keep the failed batches alive.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            try:
                raise type(error)(*error.args) from error
            except RuntimeError as new:
                failed[number] = new.with_traceback(None)
    return failed


# %% wrong: train, always a RuntimeError
# says: `train` must return a dict of the errors by the number of their batch, each with its type (Own)
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        args = None
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()
            args = error.args
        if args is not None:
            failed[number] = RuntimeError(*args)
    return failed


# %% wrong: train, catches every Exception
# says: train: only a RuntimeError may be caught; all other exceptions must propagate.
# earns: 1.5 of 2
# caught: hidden
given = train


def train(model, optimizer, batches):
    return given(model, optimizer, batches, caught=Exception)


# %% wrong: train, catches everything
# says: train: only a RuntimeError may be caught; all other exceptions must propagate.
# earns: 1.5 of 2
# caught: hidden
given = train


def train(model, optimizer, batches):
    return given(model, optimizer, batches, caught=BaseException)


# %% wrong: train, steps on the batch before once more
# says: train: the weights must be those of the good batches.
# earns: 1.5 of 2
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
        except RuntimeError as error:
            failed[number] = keep(error)
        optimizer.step()
        if number in failed:
            optimizer.zero_grad()
    return failed


# %% wrong: sizes, empties the list
# says: sizes: a hook stays until its handle's remove().
# earns: 1.5 of 2
def sizes(model, x):
    outputs = []
    for layer in model.children():
        layer.register_forward_hook(lambda module, args, out: outputs.append(out))
    with torch.no_grad():
        model(x)
    found = [out.abs().mean().item() for out in outputs]
    outputs.clear()
    return found


# %% wrong: sizes, numbers, but the hooks stay
# says: sizes: a hook stays until its handle's remove().
# earns: 1.5 of 2
# lesson
def sizes(model, x):
    found = []
    for layer in model.children():
        layer.register_forward_hook(lambda module, args, out: found.append(out.abs().mean().item()))
    with torch.no_grad():
        model(x)
    return found


# %% wrong: sizes, clears all hooks
# says: sizes: other people's hooks must stay.
# earns: 1.5 of 2
def sizes(model, x):
    found = []
    for layer in model.children():
        layer.register_forward_hook(lambda module, args, out: found.append(out.abs().mean().item()))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for layer in model.children():
            layer._forward_hooks.clear()
    return found


# %% wrong: sizes, no finally
# says: sizes: when the model raises, your hooks must go too.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found = []
    handles = [
        c.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item())) for c in model.children()
    ]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return found


# %% wrong: sizes, keeps all outputs until the end
# says: Take the number inside the hook, and keep no output.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    outputs, handles = [], []
    for child in model.children():
        handles.append(child.register_forward_hook(lambda m, a, out: outputs.append(out)))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return [out.abs().mean().item() for out in outputs]


# %% right: sizes, takes each number in float64
def sizes(model, x):
    found, handles = [], []
    for child in model.children():
        handles.append(child.register_forward_hook(lambda m, a, out: found.append(float(out.abs().double().mean()))))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% wrong: sizes, changes what the next child gets
# says: sizes: there is a number for each call, but not all are right.
# earns: 1.5 of 2
def sizes(model, x):
    found, handles = [], []
    for child in model.children():
        handles.append(child.register_forward_hook(lambda m, a, out: found.append(out.detach().abs_().mean().item())))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% wrong: train, steps after a failed backward
# says: train: gradients that a failed backward had made went into a step
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        try:
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        except RuntimeError as error:
            failed[number] = keep(error)
        optimizer.step()
    return failed


# %% wrong: sizes, with a graph
# says: Take the number inside the hook, and keep no output.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found, handles = [], []
    for child in model.children():
        handles.append(child.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item())))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% wrong: sizes, a hook for each name of a child
# says: sizes: a child that has two names is called once, and you return two numbers for it.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found = []
    handles = [
        c.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item()))
        for c in model._modules.values()
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% wrong: sizes, modules whose names have no dot
# says: sizes: a child that is also inside another child is left out.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found = []
    handles = [
        m.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item()))
        for name, m in model.named_modules()
        if name and "." not in name
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% wrong: sizes, runs the children by hand
# says: `sizes` must return what it returns now: one number for each call of a child, in their order.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found = []
    with torch.no_grad():
        for child in model.children():
            x = child(x)
            found.append(x.abs().mean().item())
    return found


# %% wrong: sizes, a dict by module
# says: `sizes` must return what it returns now: one number for each call of a child, in their order.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found, handles = {}, []
    for child in model.children():
        handles.append(child.register_forward_hook(lambda m, a, out: found.update({m: out.abs().mean().item()})))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return list(found.values())


# %% wrong: sizes, all modules in place of the children
# says: `sizes` must return what it returns now: one number for each call of a child, in their order.
# earns: 1.5 of 2
def sizes(model, x):
    found, handles = [], []
    for child in model.modules():
        handles.append(child.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item())))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


# %% wrong: sizes, swallows what the model raises
# says: sizes: the exception of the model must come out.
# earns: 1.5 of 2
# caught: hidden
given_sizes = sizes


def sizes(model, x):
    try:
        return given_sizes(model, x)
    except RuntimeError:
        return []


# %% wrong: sizes, in eval mode
# says: sizes: there is a number for each call, but not all are right.
# earns: 1.5 of 2
# caught: hidden
given_sizes = sizes


def sizes(model, x):
    model.eval()
    try:
        return given_sizes(model, x)
    finally:
        torch.set_grad_enabled(True)


# %% wrong: sizes, a hook for all modules that stays
# says: sizes: a hook for all modules (register_module_forward_hook) is still there.
# earns: 1.5 of 2
def sizes(model, x):
    found, children = [], set(model.children())

    def note(module, args, out):
        if module in children:
            found.append(out.abs().mean().item())

    torch.nn.modules.module.register_module_forward_hook(note)
    with torch.no_grad():
        model(x)
    return list(found)


# %% wrong: sizes, replaces forward for good
# says: sizes: a module has other attributes than before.
# earns: 1.5 of 2
def sizes(model, x):
    found = []
    for c in model.children():

        def forward(*args, inner=c.forward):
            out = inner(*args)
            found.append(out.abs().mean().item())
            return out

        c.forward = forward
    with torch.no_grad():
        model(x)
    return list(found)


# %% wrong: sizes, except Exception in place of finally
# says: sizes: when the model raises, your hooks must go too.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found = []
    handles = [
        c.register_forward_hook(lambda m, a, out: found.append(out.abs().mean().item())) for c in model.children()
    ]
    try:
        with torch.no_grad():
            model(x)
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return found


# %% wrong: sizes, gradients off and then on
# says: sizes: grad mode and training flags must be what they were before.
# earns: 1.5 of 2
# corner: caller's modes
# caught: hidden
given_sizes = sizes


def sizes(model, x):
    torch.set_grad_enabled(False)
    try:
        return given_sizes(model, x)
    finally:
        torch.set_grad_enabled(True)


# %% wrong: first_features, a tensor of all rows
# says: `first_features` must return a list of tensors.
# earns: 1.5 of 2
def first_features(model, batches):
    with torch.no_grad():
        return torch.stack([model(x)[:, 0] for x, _ in batches])


# %% wrong: sizes, one number for all children
# says: `sizes` must return a list of floats.
# earns: 1.5 of 2
def sizes(model, x, each=sizes):
    found = each(model, x)
    return sum(found) / len(found)


# %% wrong: sizes, lists by name, joined at the end
# says: sizes: the numbers are right, but they are not in the order of the calls.
# earns: 1.5 of 2
# caught: hidden
def sizes(model, x):
    found, handles = {}, []
    for name, child in model.named_children():

        def hook(module, args, out, name=name):
            found.setdefault(name, []).append(out.abs().mean().item())

        handles.append(child.register_forward_hook(hook))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return [number for numbers in found.values() for number in numbers]


# %% wrong: train, clears gradients at the end of each batch only
# says: train: gradients from before the call went into the first step.
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
        except RuntimeError as error:
            failed[number] = type(error)(*error.args)
        finally:
            optimizer.zero_grad()
    return failed


# %% wrong: train, a failed batch makes a step with gradients of zero
# says: train: a batch that failed made a step.
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed = {}
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        try:
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        except RuntimeError as error:
            failed[number] = type(error)(*error.args)
            for p in model.parameters():
                p.grad = torch.zeros_like(p)
        optimizer.step()
    return failed


# %% wrong: train, differentiates what is frozen as well
# says: train: batch 0 is in the dict, although its forward and its backward raise nothing.
# earns: 1.5 of 2
# caught: hidden
def train(model, optimizer, batches):
    failed, parameters = {}, list(model.parameters())
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            gradients = torch.autograd.grad(loss, parameters)
        except RuntimeError as error:
            failed[number] = type(error)(*error.args)
            continue
        finally:
            loss = None
        for p, g in zip(parameters, gradients):
            p.grad = g
        optimizer.step()
    return failed
