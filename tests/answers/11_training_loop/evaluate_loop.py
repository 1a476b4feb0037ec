import contextlib
import copy
import itertools

import torch


def mean_of(model, loader, loss_fn):
    loss, hits, count = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += loss_fn(out, y).item() * len(y)
        hits += (out.argmax(1) == y).sum().item()
        count += len(y)
    if count == 0:
        raise ValueError("no sample")
    return loss / count, hits / count


@contextlib.contextmanager
def evaluating(model):
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in flags.items():
            module.training = training


# corners: caller's modes, members, empty


# %% right: collects outputs and labels, one loss over everything, inference mode
def evaluate(model, loader, loss_fn):
    flags = {name: module.training for name, module in model.named_modules()}
    model.train(False)
    try:
        with torch.inference_mode():
            pairs = [(model(inputs), labels) for inputs, labels in loader]
            if not pairs:
                raise ValueError("nothing to evaluate")
            outputs, labels = torch.cat([o for o, _ in pairs]), torch.cat([y for _, y in pairs])
            accuracy = outputs.argmax(dim=-1).eq(labels).double().mean()
            return float(loss_fn(outputs, labels)), float(accuracy)
    finally:
        for name, module in model.named_modules():
            module.training = flags[name]


# %% right: no_grad as a decorator, an ExitStack restores the flags
@torch.no_grad()
def evaluate(model, loader, loss_fn):
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        model.eval()
        losses, hits, sizes = [], [], []
        for x, y in loader:
            out = model(x)
            losses.append(loss_fn(out, y) * y.numel())
            hits.append((out.max(1).indices == y).sum())
            sizes.append(y.numel())
    if not sizes:
        raise ValueError("the loader is empty")
    return (sum(losses) / sum(sizes)).item(), (sum(hits) / sum(sizes)).item()


# %% right: a context manager of its own
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        return mean_of(model, loader, loss_fn)


# %% wrong: the given code
# says: Return Python floats; tensors keep their storage (and their graph) alive.
# says: Dropout or batch norm ran in train mode
# earns: 0 of 2
# lesson
def evaluate(model, loader, loss_fn):
    losses, accs = [], []
    for x, y in loader:
        out = model(x)
        losses.append(loss_fn(out, y))
        accs.append((out.argmax(1) == y).float().mean())
    return sum(losses) / len(losses), sum(accs) / len(accs)


# %% wrong: no eval()
# says: Dropout or batch norm ran in train mode: the numbers depend on chance or on the other samples of the batch.
# earns: 0 of 2
# lesson
def evaluate(model, loader, loss_fn):
    with torch.no_grad():
        return mean_of(model, loader, loss_fn)


# %% wrong: eval() of the outermost module only
# says: Dropout or batch norm ran in train mode
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    before, model.training = model.training, False
    with torch.no_grad():
        found = mean_of(model, loader, loss_fn)
    model.training = before
    return found


# %% wrong: mean of batch means
# says: You return a mean of batch means, in which the smaller last batch counts too much.
# earns: 0 of 2
# lesson
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        found = [mean_of(model, [batch], loss_fn) for batch in loader]
    if not found:
        raise ValueError("no batch")
    return tuple(sum(values) / len(found) for values in zip(*found))


# %% wrong: mean of batch means for the accuracy only
# says: You return a mean of batch means, in which the smaller last batch counts too much.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        found = [(*mean_of(model, [batch], loss_fn), len(batch[1])) for batch in loader]
    if not found:
        raise ValueError("no batch")
    return sum(f[0] * f[2] for f in found) / sum(f[2] for f in found), sum(f[1] for f in found) / len(found)


# %% wrong: no no_grad
# says: A graph was recorded: memory grows with every batch. Use no_grad.
# earns: 0 of 2
# lesson
def evaluate(model, loader, loss_fn):
    with evaluating(model), torch.enable_grad():
        return mean_of(model, loader, loss_fn)


# %% wrong: returns tensors
# says: Return Python floats; tensors keep their storage (and their graph) alive.
# earns: 1 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        return tuple(torch.tensor(value) for value in mean_of(model, loader, loss_fn))


# %% wrong: the loss alone
# says: Return two numbers: the loss and the accuracy.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        return mean_of(model, loader, loss_fn)[0]


# %% wrong: the model stays in eval mode
# says: The model is still in eval mode afterwards: the next epoch trains without dropout.
# earns: 1 of 2
def evaluate(model, loader, loss_fn):
    model.eval()
    with torch.no_grad():
        return mean_of(model, loader, loss_fn)


# %% wrong: model.train() at the end
# says: The model, or a frozen layer, was in eval mode before and is in train mode now. train() reaches all
# earns: 1 of 2
def evaluate(model, loader, loss_fn):
    model.eval()
    try:
        with torch.no_grad():
            return mean_of(model, loader, loss_fn)
    finally:
        model.train()


# %% wrong: model.train(old flag)
# says: The model, or a frozen layer, was in eval mode before and is in train mode now. train() reaches all
# earns: 1 of 2
# lesson
def evaluate(model, loader, loss_fn):
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return mean_of(model, loader, loss_fn)
    finally:
        model.train(training)


# %% wrong: flags of the children only
# says: The model, or a frozen layer, was in eval mode before and is in train mode now. train() reaches all
# earns: 1 of 2
# corner: members
def evaluate(model, loader, loss_fn):
    flags = [(module, module.training) for module in (*model.children(), model)]
    model.eval()
    try:
        with torch.no_grad():
            return mean_of(model, loader, loss_fn)
    finally:
        for module, training in flags:
            module.train(training)


# %% wrong: flags not restored after an exception
# says: After an exception the flags were not restored: use finally.
# earns: 1 of 2
# caught: hidden
# corner: caller's modes
def evaluate(model, loader, loss_fn):
    flags = [(module, module.training) for module in model.modules()]
    loader = list(loader) if isinstance(loader, list) else loader
    if loader == []:
        raise ValueError("no batch")
    model.eval()
    with torch.no_grad():
        found = mean_of(model, loader, loss_fn)
    for module, training in flags:
        module.training = training
    return found


# %% wrong: flags restored after exceptions, but not after an interrupt
# says: A KeyboardInterrupt, which is Ctrl-C, left flags in eval mode, because it is no `Exception`. `finally` runs
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    flags = {module: module.training for module in model.modules()}

    def restore():
        for module, training in flags.items():
            module.training = training

    model.eval()
    try:
        with torch.no_grad():
            found = mean_of(model, loader, loss_fn)
    except Exception:
        restore()
        raise
    restore()
    return found


# %% wrong: takes the first batch before the try
# says: The loader raised before its first batch, and the flags were not restored. After eval(), everything that can
# earns: 1 of 2
# caught: hidden
@torch.no_grad()
def evaluate(model, loader, loss_fn):
    flags = {module: module.training for module in model.modules()}
    model.eval()
    batches = iter(loader)
    first = list(itertools.islice(batches, 1))
    try:
        return mean_of(model, itertools.chain(first, batches), loss_fn)
    finally:
        for module, training in flags.items():
            module.training = training


# %% wrong: swallows exceptions
# says: An exception from the loss, the model or the loader must reach the caller.
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        try:
            return mean_of(model, loader, loss_fn)
        except ArithmeticError:
            return 0.0, 0.0


# %% wrong: divides by len(loader)
# says: You return a mean of batch means, in which the smaller last batch counts too much.
# says: The loader may be a generator, which has no len().
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        return tuple(sum(mean_of(model, [batch], loss_fn)[k] for batch in loader) / len(loader) for k in (0, 1))


# %% wrong: needs a length
# says: The loader may be a generator, which has no len().
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    if len(loader) == 0:
        raise ValueError("no batch")
    with evaluating(model):
        return mean_of(model, loader, loss_fn)


# %% wrong: goes through the loader twice
# says: The model never ran. You can iterate over a generator only once.
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    count = sum(len(y) for _, y in loader)
    if count == 0:
        raise ValueError("no sample")
    with evaluating(model):
        loss = sum(loss_fn(model(x), y).item() * len(y) for x, y in loader) / count
        return loss, float(sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / count)


# %% wrong: returns zeros for an empty loader
# says: An empty loader must raise ValueError instead of dividing by zero.
# earns: 1 of 2
# caught: hidden
# corner: empty
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        batches = list(loader)
        return mean_of(model, batches, loss_fn) if batches else (0.0, 0.0)


# %% wrong: ZeroDivisionError for an empty loader
# says: An empty loader must raise ValueError instead of dividing by zero.
# earns: 1 of 2
# caught: hidden
# corner: empty
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        batches = list(loader)
        return mean_of(model, batches, loss_fn) if batches else (0.0 / len(batches), 0.0)


# %% wrong: clears the gradients
# says: Your evaluation changed a parameter, a gradient or a buffer of the model.
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    model.zero_grad()
    with evaluating(model):
        return mean_of(model, loader, loss_fn)


# %% wrong: requires_grad_(False) in place of no_grad
# says: A parameter has another requires_grad flag after your evaluation than before, so a frozen parameter would be
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    model.requires_grad_(False)
    with evaluating(model):
        return mean_of(model, loader, loss_fn)


# %% wrong: gradients stay switched off
# says: You changed whether gradients are recorded. `with torch.no_grad():` restores the caller's setting, even
# earns: 1 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        found = mean_of(model, loader, loss_fn)
    torch.set_grad_enabled(False)
    return found


# %% wrong: loss and accuracy exchanged
# says: The loss is 1.2124 here, and you return 0.5800.
# says: Loss or accuracy is not the mean over the samples.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        return mean_of(model, loader, loss_fn)[::-1]


# %% wrong: the accuracy in percent
# says: The accuracy is 0.5800 here, and you return 58.0000.
# says: Loss or accuracy is not the mean over the samples.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        loss, accuracy = mean_of(model, loader, loss_fn)
        return loss, accuracy * 100


# %% wrong: the last batch is left out
# says: The loss is 1.2124 here
# says: Loss or accuracy is not the mean over the samples.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        return mean_of(model, list(loader)[:-1] or list(loader), loss_fn)


# %% right: a deep copy of the model is evaluated
def evaluate(model, loader, loss_fn):
    with torch.no_grad():
        return mean_of(copy.deepcopy(model).eval(), loader, loss_fn)


# %% right: flips only what was in train mode, set_grad_enabled, a list
def evaluate(model, loader, loss_fn):
    flipped = [module for module in model.modules() if module.training]
    before = torch.is_grad_enabled()
    try:
        torch.set_grad_enabled(False)
        for module in flipped:
            module.training = False
        return list(mean_of(model, loader, loss_fn))
    finally:
        torch.set_grad_enabled(before)
        for module in flipped:
            module.training = True


# %% wrong: detaches the outputs
# says: A graph was recorded: memory grows with every batch. Use no_grad.
# earns: 0 of 2
class Detached:
    def __init__(self, model):
        self.model = model

    def __call__(self, x):
        return self.model(x).detach()


def evaluate(model, loader, loss_fn):
    with evaluating(model), torch.enable_grad():
        return mean_of(Detached(model), loader, loss_fn)


# %% wrong: turns every exception into ValueError
# says: An exception from the loss, the model or the loader must reach the caller.
# earns: 1 of 2
# caught: hidden
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        try:
            return mean_of(model, loader, loss_fn)
        except Exception as error:
            raise ValueError("no evaluation") from error


# %% wrong: the first batch's size for all batches
# says: You return a mean of batch means, in which the smaller last batch counts too much.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    with evaluating(model):
        loss, hits, count, size = 0.0, 0.0, 0, None
        for x, y in loader:
            size = size or len(y)
            out = model(x)
            loss += loss_fn(out, y).item() * size
            hits += (out.argmax(1) == y).float().mean().item() * size
            count += size
    if not count:
        raise ValueError("no sample")
    return loss / count, hits / count


# %% wrong: switches gradients on at the end, whatever the caller had
# says: You changed whether gradients are recorded. `with torch.no_grad():` restores the caller's setting, even
# earns: 1 of 2
# caught: hidden
# corner: caller's modes
def evaluate(model, loader, loss_fn):
    flags = {module: module.training for module in model.modules()}
    loss, hits, count = 0.0, 0, 0
    model.eval()
    torch.set_grad_enabled(False)
    try:
        for x, y in loader:
            out = model(x)
            loss += loss_fn(out, y).item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            count += len(y)
    finally:
        torch.set_grad_enabled(True)
        for module, flag in flags.items():
            module.training = flag
    if not count:
        raise ValueError("no samples")
    return loss / count, hits / count


# %% wrong: argmax without a dimension
# says: argmax() without a dimension finds the largest number of the whole batch. Each row needs its own, so use
# says: Loss or accuracy is not the mean over the samples.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    flags = {m: m.training for m in model.modules()}
    loss, hits, count = 0.0, 0, 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in loader:
                out = model(x)
                loss += loss_fn(out, y).item() * len(y)
                hits += (out.argmax() == y).sum().item()
                count += len(y)
    finally:
        for m, flag in flags.items():
            m.training = flag
    if not count:
        raise ValueError("empty")
    return loss / count, hits / count


# %% wrong: PyTorch's quickstart
# says: You return a mean of batch means, in which the smaller last batch counts too much.
# earns: 0 of 2
def evaluate(model, loader, loss_fn):
    size = 0
    num_batches = 0
    flags = {m: m.training for m in model.modules()}
    model.eval()
    test_loss, correct = 0, 0
    try:
        with torch.no_grad():
            for X, y in loader:
                pred = model(X)
                test_loss += loss_fn(pred, y).item()
                correct += (pred.argmax(1) == y).type(torch.float).sum().item()
                size += len(y)
                num_batches += 1
    finally:
        for m, flag in flags.items():
            m.training = flag
    if not size:
        raise ValueError("empty")
    return test_loss / num_batches, correct / size


# %% wrong: turns the flag of the last module round
# says: A training flag has changed. Restore the flag of each module.
# earns: 1 of 2
def evaluate(model, loader, loss_fn):
    modules = list(model.modules())
    with evaluating(model):
        found = mean_of(model, loader, loss_fn)
    modules[-1].training = not modules[-1].training
    return found
